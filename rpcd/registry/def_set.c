/* From trees to records; what a definition may say is definition.c's. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "rpcd/registry/def_fields.h"
#include "rpcd/registry/def_hcl.h"
#include "rpcd/registry/def_set.h"

#define WARNINGS_MAX 20			/* of definitions that are replaced */
#define SCRIPTS_OFF "Scripts are disabled on this agent; to enable, configure 'enable_script_checks' or " \
	"'enable_local_script_checks' to true"
#define SCRIPTS_LATER "Scripts are allowed by rpcd.conf, but not by the one that rpcd was started with: restart rpcd"

struct reading {
	struct def_set *set;
	struct def_source from;
	struct span path;
};

void
def_set_init(struct def_set *s, enum def_scripts scripts, struct registry *registry)
{
	*s = (struct def_set){ .arena = ARENA_INIT(DEF_SET_BYTES_MAX), .scripts = scripts, .registry = registry };
}

void
def_set_done(struct def_set *s)
{
	arena_wipe(&s->arena);
	arena_done(&s->arena);
	free(s->v);
	*s = (struct def_set){ .arena = ARENA_INIT(DEF_SET_BYTES_MAX) };
}

/* -- records -- */

static enum tv_err
add_record(struct reading *r, const struct ucl_node *at, const struct local_record *rec)
{
	struct def_set *s = r->set;
	char place[32];

	if (s->n == s->room) {
		uint32_t room = s->room == 0 ? 64 : s->room * 2;
		struct registry_definition *v = reallocarray(s->v, room, sizeof(*v));

		if (v == NULL)
			return def_fail(&r->from, at, "%s", tv_strerror(TV_ENOMEM));
		s->v = v;
		s->room = room;
	}
	snprintf(place, sizeof(place), ":%u", at->line);
	struct registry_definition *d = &s->v[s->n];
	*d = (struct registry_definition){ .rec = *rec, .order = s->n,
	    .place = arena_printf(&s->arena, "%.*s%s", (int)r->path.len, (const char *)r->path.p, place) };
	d->rec.from_file = true;
	s->n++;
	return d->place.p == NULL ? def_fail(&r->from, at, "%s", tv_strerror(TV_ENOMEM)) : TV_OK;
}

static enum tv_err
refused(const struct reading *r, const struct ucl_node *at, const char *what, struct span id, const char *why)
{
	char name[64];

	return def_fail(&r->from, at, "%s \"%s\": %s", what, log_safe(id, name, sizeof(name)), why);
}

static enum tv_err
may_run(const struct reading *r, const struct ucl_node *at, const struct local_record *rec)
{
	if (rec->run.Args.n == 0 || r->set->scripts == DEF_SCRIPTS_ON)
		return TV_OK;
	return refused(r, at, "check", rec->check.CheckID,
	    r->set->scripts == DEF_SCRIPTS_AFTER_RESTART ? SCRIPTS_LATER : SCRIPTS_OFF);
}

/* A check of a block NAME { } has an id that does not depend on its place among the others. */
static enum tv_err
name_checks(const struct reading *r, const struct ucl_node *block, struct service_def *d)
{
	const struct ucl_node *list = ucl_get(block, "checks");
	struct span id = d->ID.len > 0 ? d->ID : d->Name;
	struct check_def *c = d->Checks.v;

	if (list == NULL || !def_is_named(&r->from, list))
		return TV_OK;
	for (const struct ucl_node *n = list->child; n != NULL; n = n->next, c++)
		if (c->ID.len + c->CheckID.len == 0) {
			c->ID = arena_printf(r->from.arena, "service:%.*s:%.*s", (int)id.len, (const char *)id.p,
			    (int)n->key.len, (const char *)n->key.p);
			if (c->ID.p == NULL)
				return def_fail(&r->from, n, "%s", tv_strerror(TV_ENOMEM));
		}
	return TV_OK;
}

static enum tv_err
add_records(struct reading *r, const struct ucl_node *n, const struct service_records *v)
{
	enum tv_err err = add_record(r, n, &v->service);

	for (uint32_t i = 0; i < v->n && err == TV_OK; i++)
		if ((err = may_run(r, n, &v->checks[i])) == TV_OK)
			err = add_record(r, n, &v->checks[i]);
	return err;
}

/* name: of the block, or empty. */
static enum tv_err
add_service(struct reading *r, const struct ucl_node *n, struct span name)
{
	struct service_def d = { .Port = 0 };
	struct service_records v;
	char why[DEFINITION_TEXT_MAX];
	enum tv_err err = def_fields(&r->from, &service_def_schema, n, &d);

	if (err != TV_OK)
		return err;
	if (d.ID.len == 0)
		d.ID = name;
	if (d.Name.len == 0)
		d.Name = name;
	if ((err = name_checks(r, n, &d)) != TV_OK)
		return err;
	if (d.Name.len == 0)
		return def_fail(&r->from, n, "this service has no name: add name = \"...\"");
	if (definition_service(&d, r->from.arena, &v, why) != 0)
		return refused(r, n, "service", d.ID.len > 0 ? d.ID : d.Name, why);
	if (d.SocketPath.len > 0 && (d.Address.len > 0 || d.Port != 0))
		return refused(r, n, "service", d.ID.len > 0 ? d.ID : d.Name,
		    "it has both socket_path and address or port: leave one out");
	if ((err = add_records(r, n, &v)) != TV_OK || !d.Connect.has_sidecar)
		return err;
	if (definition_sidecar(&d, r->set->registry, &r->set->ports, r->from.arena, &v, why) != 0)
		return refused(r, n, "service", d.ID.len > 0 ? d.ID : d.Name, why);
	return add_records(r, n, &v);
}

static enum tv_err
add_check(struct reading *r, const struct ucl_node *n, struct span name)
{
	struct check_def d = { .TTL = 0 };
	struct local_record rec;
	char why[DEFINITION_TEXT_MAX];
	enum tv_err err = def_fields(&r->from, &check_def_schema, n, &d);

	if (err != TV_OK)
		return err;
	if (d.ID.len + d.CheckID.len == 0)
		d.ID = name;
	if (d.Name.len == 0)
		d.Name = name;
	struct span id = d.CheckID.len > 0 ? d.CheckID : d.ID.len > 0 ? d.ID : d.Name, own = d.Name;
	if (id.len == 0)
		return def_fail(&r->from, n, "this check has neither id nor name: add id = \"...\"");
	d.Name = d.Name.len > 0 ? d.Name : id;
	if (definition_check(&d, r->from.arena, &rec, why) != 0)
		return refused(r, n, "check", id, why);
	rec.check.Name = own;			/* as Consul: an id does not make a name, and no type is told */
	rec.check.Type = SPAN_NONE;
	return (err = may_run(r, n, &rec)) == TV_OK ? add_record(r, n, &rec) : err;
}

/* -- files -- */

typedef enum tv_err add_fn(struct reading *r, const struct ucl_node *n, struct span name);

static enum tv_err
add_all(struct reading *r, const struct ucl_node *n, const char *one, const char *many, add_fn *fn)
{
	bool named = def_is_named(&r->from, n);
	enum tv_err err = TV_OK;
	struct ucl_node single[2];

	n = def_as_list(&r->from, n, single);
	bool nothing = n->type == UCL_OBJECT && n->count == 0 && !r->from.json;
	if (n->type != UCL_ARRAY && !named && !nothing)
		return def_fail(&r->from, n, r->from.json ? "%s: a list is expected, [ { ... } ]; a single one is "
		    "written \"%s\": { ... }" : "%s: a list [ { ... } ] or named blocks NAME { ... } are expected; a "
		    "single one is written %s { ... }", many, one);
	for (const struct ucl_node *k = n->child; k != NULL && err == TV_OK; k = k->next)
		err = fn(r, k, named ? k->key : SPAN_NONE);
	return err;
}

static enum tv_err
add_one(struct reading *r, const struct ucl_node *n, const char *one, const char *many, add_fn *fn)
{
	if (n->type != UCL_OBJECT)
		return def_fail(&r->from, n, "%s: a block is expected, { ... }; several are written %s", one, many);
	if (n->count == 1 && n->child->type == UCL_OBJECT && def_is_named(&r->from, n))
		return def_fail(&r->from, n, "a block with a name is written %s { %.*s { ... } }", many,
		    (int)(n->child->key.len < 64 ? n->child->key.len : 64), (const char *)n->child->key.p);
	return fn(r, n, SPAN_NONE);
}

static enum tv_err
add_tree(struct reading *r, const struct ucl_node *root)
{
	enum tv_err err = TV_OK;
	char name[64];

	if (root->type != UCL_OBJECT)
		return def_fail(&r->from, root, "expected service, services, check or checks, not a list");
	for (const struct ucl_node *n = root->child; n != NULL && err == TV_OK; n = n->next)
		if (span_eqs(n->key, "service"))
			err = add_one(r, n, "service", "services", add_service);
		else if (span_eqs(n->key, "services"))
			err = add_all(r, n, "service", "services", add_service);
		else if (span_eqs(n->key, "check"))
			err = add_one(r, n, "check", "checks", add_check);
		else if (span_eqs(n->key, "checks"))
			err = add_all(r, n, "check", "checks", add_check);
		else
			err = def_fail(&r->from, n, "unknown key \"%s\": files of services.d have service, services, "
			    "check and checks; all else belongs in rpcd.conf or cluster.conf",
			    log_safe(n->key, name, sizeof(name)));
	return err;
}

/* JSON is read strictly first: the reader of our own form takes more. */
static enum tv_err
check_json(struct span text, struct ucl_error *error, int *column)
{
	json_error_t why;
	json_t *v = json_loadb((const char *)text.p, text.len, JSON_REJECT_DUPLICATES, &why);

	json_decref(v);
	if (v != NULL)
		return TV_OK;
	error->line = why.line > 0 ? (unsigned)why.line : 1;
	*column = why.column;
	snprintf(error->text, sizeof(error->text), "%s", why.text);
	return TV_EFORMAT;
}

enum tv_err
def_set_add(struct def_set *s, const char *path, struct span text, enum def_form form, char *errbuf, size_t cap)
{
	struct ucl_error error = { .line = 1 };
	struct reading r = { s, { form != DEF_OWN, form == DEF_HCL, &s->arena, &error }, span_str(path) };
	struct ucl_node *root = NULL;
	int column = 0;
	struct span own = arena_copy(&s->arena, text);	/* the tree borrows from it */
	enum tv_err err = own.p == NULL && text.len > 0 ? TV_ELIMIT : TV_OK;

	if (err != TV_OK)
		snprintf(error.text, sizeof(error.text), "the files of services.d are too long together (limit: %u "
		    "MiB)", DEF_SET_BYTES_MAX >> 20);
	else if (form == DEF_HCL)
		err = def_hcl_parse(own, &s->arena, &root, &error, &column);
	else if (form == DEF_OWN || (err = check_json(own, &error, &column)) == TV_OK)
		err = ucl_parse(own, &s->arena, &root, &error);
	if (err == TV_OK)
		err = add_tree(&r, root);
	s->files++;
	if (err != TV_OK && column > 0)
		snprintf(errbuf, cap, "%s:%u:%d: %s", path, error.line, column, error.text);
	else if (err != TV_OK)
		snprintf(errbuf, cap, "%s:%u: %s", path, error.line, error.text);
	return err;
}

/* -- each id once -- */

/* By kind and id, the latest first. */
static int
by_id(const void *a, const void *b)
{
	const struct registry_definition *x = a, *y = b;
	int c = (int)x->rec.kind - (int)y->rec.kind;

	if (c == 0)
		c = span_cmp(local_record_id(&x->rec), local_record_id(&y->rec));
	return c != 0 ? c : (x->order < y->order) - (x->order > y->order);
}

static void
warn(const struct registry_definition *wins, const struct registry_definition *other)
{
	struct span id = local_record_id(&wins->rec);

	log_warn("agent", "%.*s: %s %.*s is defined again at %.*s, which counts", (int)other->place.len,
	    (const char *)other->place.p, wins->rec.kind == ENTRY_SERVICE ? "service" : "check", (int)id.len,
	    (const char *)id.p, (int)wins->place.len, (const char *)wins->place.p);
}

void
def_set_finish(struct def_set *s)
{
	uint32_t n = 0;

	if (s->n == 0)
		return;
	qsort(s->v, s->n, sizeof(*s->v), by_id);
	for (uint32_t i = 0; i < s->n; i++) {
		if (n > 0 && s->v[n - 1].rec.kind == s->v[i].rec.kind &&
		    span_eq(local_record_id(&s->v[n - 1].rec), local_record_id(&s->v[i].rec))) {
			if (s->doubles++ < WARNINGS_MAX)
				warn(&s->v[n - 1], &s->v[i]);
			continue;
		}
		s->v[n++] = s->v[i];
	}
	s->n = n;
}
