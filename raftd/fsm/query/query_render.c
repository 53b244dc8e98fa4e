/* See query_render.h. */
#include "common/text/interpolate.h"
#include "common/text/regex.h"
#include "raftd/fsm/query/query_render.h"

#define STEPS_MAX 400000		/* of a search: some milliseconds */
#define GROUPS_MAX 100
#define SHOWN_MAX 256			/* bytes of a text that an error repeats */

struct rendering {
	struct interpolation v;
	struct span groups[GROUPS_MAX];
	struct arena *a;
	struct buf out;			/* of the text at hand */
	size_t left;			/* of QUERY_RENDERED_MAX */
	struct buf *why;
	enum tv_err err;
};

bool
query_is_template(const struct prepared_query *q)
{
	return q->Template.Type.len > 0;
}

static void
refuse(struct rendering *r, const char *what, struct span text, const char *field, const char *why)
{
	r->err = TV_EINVAL;
	buf_printf(r->why, "%s '%.*s' in Service.%s: %s", what, (int)(text.len > SHOWN_MAX ? SHOWN_MAX : text.len),
	    (const char *)text.p, field, why);
}

/* field: how errors call it. */
static void
render_text(struct rendering *r, struct span *text, const char *field)
{
	struct buf why = BUF_INIT(8192);
	enum tv_err err;

	if (r->err != TV_OK || text->len == 0)
		return;
	buf_reset(&r->out);
	r->out.max = r->left;
	err = interpolate(*text, &r->v, &r->out, &why);
	if (err == TV_EFORMAT)
		refuse(r, "Bad format", *text, field, buf_cstr(&why));
	else if (err == TV_ELIMIT)
		refuse(r, "Bad evaluation for", *text, field, "the query gets too long");
	else if (err != TV_OK)
		refuse(r, "Bad evaluation for", *text, field, buf_cstr(&why));
	if (err == TV_OK) {
		r->left -= r->out.len;
		*text = arena_copy(r->a, buf_span(&r->out));
		if (text->p == NULL)
			r->err = TV_ENOMEM;
	}
	buf_done(&why);
}

static void
render_list(struct rendering *r, struct span_list *list, const char *field)
{
	struct span *v = arena_array(r->a, list->n, sizeof(*v));
	char name[64];

	if (v == NULL) {
		r->err = TV_ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < list->n && r->err == TV_OK; i++) {
		struct span number = arena_printf(r->a, "%s[%u]", field, (unsigned)i);

		v[i] = list->v[i];
		render_text(r, &v[i], span_copy(number, name, sizeof(name)) ? name : field);
	}
	list->v = v;
}

static void
render_map(struct rendering *r, struct span_map *map, const char *field)
{
	struct span (*kv)[2] = arena_array(r->a, map->n, sizeof(*kv));

	if (kv == NULL) {
		r->err = TV_ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < map->n; i++) {
		kv[i][0] = map->kv[i][0];
		kv[i][1] = map->kv[i][1];
		render_text(r, &kv[i][1], field);
	}
	map->kv = kv;
}

/* A tag without the white space around it. */
static struct span
trimmed(struct span s)
{
	while (s.len > 0 && (s.p[0] == ' ' || (s.p[0] >= '\t' && s.p[0] <= '\r')))
		s = span_of(s.p + 1, s.len - 1);
	while (s.len > 0 && (s.p[s.len - 1] == ' ' || (s.p[s.len - 1] >= '\t' && s.p[s.len - 1] <= '\r')))
		s.len--;
	return s;
}

/* The list is our own by now. */
static void
drop_empty(struct span_list *tags)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < tags->n; i++) {
		tags->v[n] = trimmed(tags->v[i]);
		n += tags->v[n].len > 0;
	}
	tags->n = n;
	tags->set = true;
}

static void
render_service(struct rendering *r, struct prepared_service *s)
{
	render_text(r, &s->Service, "Service");
	render_list(r, &s->Failover.Datacenters, "Failover.Datacenters");
	render_list(r, &s->IgnoreCheckIDs, "IgnoreCheckIDs");
	render_text(r, &s->Near, "Near");
	render_list(r, &s->Tags, "Tags");
	render_map(r, &s->NodeMeta, "NodeMeta");
	render_map(r, &s->ServiceMeta, "ServiceMeta");
}

/* What of the name the template's expression found. */
static void
find_groups(struct rendering *r, struct span pattern, struct span name)
{
	struct buf why = BUF_INIT(8192);
	uint64_t steps = STEPS_MAX;
	struct regex *re = regex_new_groups(pattern, &why);
	enum tv_err err = TV_OK;

	if (re == NULL) {
		r->err = TV_EINVAL;
		buf_printf(r->why, "Bad Regexp: error parsing regexp: %s", buf_cstr(&why));
	} else {
		err = regex_match(re, name, &steps, r->groups, GROUPS_MAX, &r->v.group_count);
	}
	for (unsigned i = 0; i < r->v.group_count; i++)	/* they may go with the expression */
		if ((r->groups[i] = arena_copy(r->a, r->groups[i])).p == NULL)
			r->err = TV_ENOMEM;
	if (err != TV_OK) {
		r->err = err == TV_ENOMEM ? err : TV_EINVAL;
		buf_puts(r->why, "Bad Regexp: it needs too many steps for this name");
	}
	regex_free(re);
	buf_done(&why);
}

/* What follows the prefix, which is looked up without regard to case, but taken off only as it is written. */
static struct span
suffix_of(struct span name, struct span prefix)
{
	return span_starts(name, prefix) ? span_of(name.p + prefix.len, name.len - prefix.len) : name;
}

enum tv_err
query_render(const struct prepared_query *q, struct span name, struct arena *a, struct prepared_query *out, struct buf *why)
{
	struct rendering r = { .a = a, .left = QUERY_RENDERED_MAX, .why = why };

	if (!span_eqs(q->Template.Type, PREPARED_TEMPLATE)) {
		buf_printf(why, "Bad Template.Type '%.*s'",
		    (int)(q->Template.Type.len > SHOWN_MAX ? SHOWN_MAX : q->Template.Type.len),
		    (const char *)q->Template.Type.p);
		return TV_EINVAL;
	}
	buf_init(&r.out, QUERY_RENDERED_MAX);
	r.v = (struct interpolation){ .full = name, .prefix = q->Name, .suffix = suffix_of(name, q->Name),
	    .segment = span_of("", 0), .groups = r.groups };
	if (q->Template.Regexp.len > 0)
		find_groups(&r, q->Template.Regexp, name);
	*out = *q;
	if (r.err == TV_OK)
		render_service(&r, &out->Service);
	if (r.err == TV_OK && q->Template.RemoveEmptyTags)
		drop_empty(&out->Service.Tags);
	buf_done(&r.out);
	return r.err;
}
