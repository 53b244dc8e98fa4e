/*
 * Query filters: does a query mean this node?  Names are compared; tags are searched for patterns of
 * RE2's syntax (common/text/regex.h).  Patterns come from strangers: each query has a budget of steps, and so has
 * each second.
 */
#include "config.h"

#include "common/text/regex.h"
#include "gossipd/core/state.h"

#define SEARCH_STEPS 100000		/* for one query: a few milliseconds at most */
#define SEARCH_COST MONO_MS(2)		/* of the refilling budget, for each pattern: some 500 in a second */
#define SEARCH_BURST MONO_S(2)

static bool
names_us(const struct swim *s, const struct serf_filter *f)
{
	struct serf_list it = serf_list(f->nodes);
	struct span name;

	while (serf_list_next(&it, &name) == TV_OK)
		if (span_eq(name, s->opt.name))
			return true;
	return false;
}

/* Empty when we have no such tag. */
static struct span
own_tag(const struct swim *s, struct span tag)
{
	struct serf_tags it = serf_meta_tags(node_meta(s->self));
	struct span name, value;

	while (serf_tags_next(&it, &name, &value) == TV_OK)
		if (span_eq(name, tag))
			return value;
	return SPAN_NONE;
}

static bool
tag_matches(struct swim *s, const struct serf_filter *f, uint64_t *steps)
{
	struct buf why = BUF_INIT(1024);
	struct regex *re;
	bool found = false;

	if (!swim_may(s, &s->queries.filter_at, SEARCH_COST, SEARCH_BURST)) {
		s->stats.over_filters++;
		return false;
	}
	re = regex_new(f->expr, &why);
	buf_done(&why);
	if (re == NULL)
		return false;
	if (regex_search(re, own_tag(s, f->tag), steps, &found) != TV_OK) {
		s->stats.over_filters++;
		found = false;
	}
	regex_free(re);
	return found;
}

bool
filter_pass(struct swim *s, struct span filters)
{
	struct serf_list it = serf_list(filters);
	uint64_t steps = SEARCH_STEPS;
	struct serf_filter f;
	struct span entry;
	enum tv_err err;

	while ((err = serf_list_next(&it, &entry)) == TV_OK) {
		if (serf_get_filter(entry, &s->out.arena, &f) != TV_OK)
			return false;
		if (f.type == SERF_FILTER_NODE ? !names_us(s, &f) : !tag_matches(s, &f, &steps))
			return false;
	}
	return err == TV_EOF;
}
