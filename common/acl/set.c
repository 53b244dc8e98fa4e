/*
 * Sets of rules: per resource one sorted array of names, in which a binary search finds the exact rule and, by way of
 * the names that begin each other, the longest prefix.
 */
#include <stdlib.h>

#include "common/acl/set.h"
#include "common/base/assert.h"

#define NONE UINT32_MAX

struct decider {	/* a rule that was merged from several */
	uint8_t access;		/* enum acl_access; ACL_UNSET: there is none */
	bool intentions;	/* of intentions: that field decided */
	uint32_t policy, line;	/* of the one that prevailed */
};

struct entry {
	uint32_t name, len;	/* in the names */
	uint32_t up;		/* the longest other name with a prefix rule that this one begins with, or NONE */
	uint32_t jump;		/* one farther up: so the way to the top has logarithmic length */
	uint32_t depth;		/* names above it */
	uint32_t lesser;	/* rules of all entries before this one that do not give write */
	struct decider exact, prefix;
};

struct table {
	const struct entry *entries;	/* by name; one more that has only `lesser` */
	uint32_t count;
	uint8_t fallback;	/* where no rule covers a name */
	uint8_t root;		/* the prefix rule of the empty name, or ACL_UNSET */
	uint8_t most, least;	/* of all rules; ACL_UNSET and ACL_WRITE without any */
};

struct acl_set {
	size_t bytes;
	bool management;
	const uint8_t *names;
	struct table tables[ACL_RESOURCES];
};

#define EVERYTHING { NULL, 0, ACL_WRITE, ACL_UNSET, ACL_UNSET, ACL_WRITE }

static const struct acl_set management = {
	sizeof(management), true, NULL, {
		EVERYTHING, EVERYTHING, EVERYTHING, EVERYTHING, EVERYTHING, EVERYTHING, EVERYTHING, EVERYTHING,
		EVERYTHING, EVERYTHING, EVERYTHING, EVERYTHING, EVERYTHING
	}
};
_Static_assert(ACL_RESOURCES == 13, "a row for each resource");

/* What says nothing of mesh or of peering says it of operator. */
static const struct table *
table_of(const struct acl_set *set, enum acl_resource r)
{
	bool silent = (r == ACL_MESH || r == ACL_PEERING) && set->tables[r].count == 0;

	return &set->tables[silent ? ACL_OPERATOR : r];
}

const struct acl_set *
acl_set_management(void)
{
	return &management;
}

size_t
acl_set_bytes(const struct acl_set *set)
{
	return set->bytes;
}

void
acl_set_free(struct acl_set *set)
{
	TV_ASSERT(set == NULL || !set->management);
	free(set);
}

/* -- rules with the same resource and name become one */

struct part {
	const struct acl_rule *rule;
	uint32_t policy;
};

struct merged {
	uint8_t resource;
	struct span name;
	struct decider access[2], intentions[2];	/* exact, prefix */
};

static int
by_resource_and_name(const void *va, const void *vb)
{
	const struct part *a = va, *b = vb;
	int order = (int)a->rule->resource - (int)b->rule->resource;

	if (order == 0)
		order = span_cmp(a->rule->name, b->rule->name);
	if (order == 0)
		order = a->policy < b->policy ? -1 : a->policy > b->policy;
	return order != 0 ? order : a->rule < b->rule ? -1 : a->rule > b->rule;
}

static bool
prevails(enum acl_access a, enum acl_access over)
{
	if (a == ACL_DENY || over == ACL_DENY)
		return a == ACL_DENY && over != ACL_DENY;
	return a > over;
}

static void
merge(struct decider *into, uint8_t access, const struct part *from)
{
	if (prevails(access, into->access))
		*into = (struct decider){ access, false, from->policy, from->rule->line };
}

/* Parts in order to one of each resource and name; gives how many. */
static uint32_t
merge_parts(const struct part *parts, uint32_t n, struct merged *out)
{
	struct merged *m = NULL;
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct acl_rule *rule = parts[i].rule;

		if (m == NULL || m->resource != rule->resource || !span_eq(m->name, rule->name)) {
			m = &out[count++];
			*m = (struct merged){ .resource = rule->resource, .name = rule->name };
		}
		merge(&m->access[rule->prefix], rule->access, &parts[i]);
		merge(&m->intentions[rule->prefix], rule->intentions, &parts[i]);
	}
	return count;
}

/* What a service's rule means for intentions: after merging, so that each of its two fields prevails by itself. */
static struct decider
intention_of(const struct decider *access, const struct decider *intentions)
{
	struct decider d = *access;

	if (intentions->access != ACL_UNSET && access->access != ACL_UNSET) {
		d = *intentions;
		d.intentions = true;
	} else if (d.access == ACL_WRITE) {
		d.access = ACL_READ;
	}
	return d;
}

/* -- one allocation */

static void
fill_entry(struct entry *e, struct table *t, const struct merged *m, bool intentions, uint32_t name)
{
	struct decider *d[] = { &e->exact, &e->prefix };

	*e = (struct entry){ .name = name, .len = (uint32_t)m->name.len, .lesser = e->lesser };
	e[1].lesser = e->lesser;
	for (int i = 0; i < 2; i++) {
		*d[i] = intentions ? intention_of(&m->access[i], &m->intentions[i]) : m->access[i];
		if (d[i]->access == ACL_UNSET)
			continue;
		e[1].lesser += d[i]->access != ACL_WRITE;
		t->most = d[i]->access > t->most ? d[i]->access : t->most;
		t->least = d[i]->access < t->least ? d[i]->access : t->least;
	}
	if (e->len == 0)
		t->root = e->prefix.access;
}

static uint32_t
depth_of(const struct entry *entries, uint32_t at)
{
	return at == NONE ? 0 : entries[at].depth;
}

static uint32_t
jump_of(const struct entry *entries, uint32_t at)
{
	return at == NONE ? NONE : entries[at].jump;
}

/*
 * Which names begin which: entries come in order, so the nearest one above is the one before, or above that.  Jumps as
 * in a skew binary list: twice as far whenever the last two were equally long.
 */
static void
link_entries(struct entry *entries, uint32_t count, const uint8_t *names)
{
	uint32_t last = NONE;		/* the entry before, if it has a prefix rule, else the one above that */

	for (uint32_t i = 0; i < count; i++) {
		struct entry *e = &entries[i];
		uint32_t up = last, jump, farther;

		while (up != NONE && !span_starts(span_of(names + e->name, e->len),
		    span_of(names + entries[up].name, entries[up].len)))
			up = entries[up].up;
		jump = jump_of(entries, up);
		farther = jump_of(entries, jump);
		e->up = up;
		e->depth = depth_of(entries, up) + 1;
		e->jump = up != NONE && depth_of(entries, up) - depth_of(entries, jump) ==
		    depth_of(entries, jump) - depth_of(entries, farther) ? farther : up;
		last = e->prefix.access != ACL_UNSET ? i : up;
	}
}

static struct acl_set *
lay_out(const struct merged *merged, uint32_t count, bool default_allow)
{
	uint32_t rows[ACL_RESOURCES] = { 0 }, name = 0;
	size_t names = 0, entries = ACL_RESOURCES;
	struct acl_set *set;
	struct entry *next;
	uint8_t *bytes;

	for (uint32_t i = 0; i < count; i++) {
		rows[merged[i].resource]++;
		names += merged[i].name.len;
	}
	rows[ACL_INTENTION] = rows[ACL_SERVICE];
	entries += count + rows[ACL_SERVICE];
	if ((set = calloc(1, sizeof(*set) + entries * sizeof(*next) + names)) == NULL)
		return NULL;
	set->bytes = sizeof(*set) + entries * sizeof(*next) + names;
	next = (struct entry *)(set + 1);
	set->names = bytes = (uint8_t *)(next + entries);
	for (unsigned r = 0, first = 0; r < ACL_RESOURCES; r++) {
		struct table *t = &set->tables[r];

		*t = (struct table){ next, rows[r], default_allow && r != ACL_ACL ? ACL_WRITE : ACL_DENY, ACL_UNSET,
		    ACL_UNSET,
			ACL_WRITE };
		if (r == ACL_INTENTION) {	/* the names of services, once more */
			const struct table *services = &set->tables[ACL_SERVICE];

			for (first = 0; first < count && merged[first].resource != ACL_SERVICE; first++)
				;
			for (uint32_t i = 0; i < rows[r]; i++)
				fill_entry(&next[i], t, &merged[first + i], true, services->entries[i].name);
		} else {
			for (uint32_t i = 0; i < rows[r]; i++) {
				const struct merged *m = &merged[first + i];

				if (m->name.len > 0)
					memcpy(bytes + name, m->name.p, m->name.len);
				fill_entry(&next[i], t, m, false, name);
				name += (uint32_t)m->name.len;
			}
			first += rows[r];
		}
		link_entries(next, rows[r], set->names);
		next += rows[r] + 1;
	}
	return set;
}

enum tv_err
acl_set_new(const struct acl_rules *const *lists, uint32_t n, bool default_allow, struct acl_set **out)
{
	size_t names = 0, rules = 0;
	struct merged *merged;
	struct part *parts;
	uint32_t count = 0;

	*out = NULL;
	for (uint32_t i = 0; i < n; i++) {
		rules += lists[i]->count;
		names += lists[i]->bytes;	/* more than the names */
		if (rules > ACL_SET_RULES_MAX || names > ACL_SET_NAMES_MAX)
			return TV_ELIMIT;
	}
	parts = calloc(rules + 1, sizeof(*parts));
	merged = calloc(rules + 1, sizeof(*merged));
	if (parts != NULL && merged != NULL) {
		for (uint32_t i = 0; i < n; i++) {
			for (uint32_t k = 0; k < lists[i]->count; k++)
				parts[count++] = (struct part){ &lists[i]->rule[k], i };
		}
		qsort(parts, count, sizeof(*parts), by_resource_and_name);
		*out = lay_out(merged, merge_parts(parts, count, merged), default_allow);
	}
	free(parts);
	free(merged);
	return *out == NULL ? TV_ENOMEM : TV_OK;
}

/* -- questions */

static struct span
name_of(const struct acl_set *set, const struct entry *e)
{
	return span_of(set->names + e->name, e->len);
}

/* How many entries have a name before this one, or before all that begin with it when `below`. */
static uint32_t
entries_before(const struct acl_set *set, const struct table *t, struct span name, bool below)
{
	uint32_t low = 0, high = t->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		struct span other = name_of(set, &t->entries[mid]);

		if (span_cmp(other, name) < 0 || (below && span_starts(other, name)))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static uint32_t
common_length(struct span a, struct span b)
{
	uint32_t n = 0, most = (uint32_t)(a.len < b.len ? a.len : b.len);

	while (n < most && a.p[n] == b.p[n])
		n++;
	return n;
}

/* The rule that decides about a name, or NULL; *from is the entry that has it. */
static const struct decider *
decide(const struct acl_set *set, const struct table *t, struct span name, bool prefix_only, const struct entry **from)
{
	uint32_t at = entries_before(set, t, name, false), same;
	const struct entry *e;

	/* The last entry that is not behind the name: all that the name begins with stand above it. */
	if (at < t->count && span_eq(name_of(set, &t->entries[at]), name)) {
		*from = &t->entries[at];
		if (!prefix_only && (*from)->exact.access != ACL_UNSET)
			return &(*from)->exact;
	} else if (at-- == 0) {
		return NULL;
	}
	e = &t->entries[at];
	same = common_length(name_of(set, e), name);
	if (e->prefix.access == ACL_UNSET || e->len > same) {
		for (at = e->up; at != NONE && t->entries[at].len > same;) {
			uint32_t jump = t->entries[at].jump;

			at = jump != NONE && t->entries[jump].len > same ? jump : t->entries[at].up;
		}
		if (at == NONE)
			return NULL;
		e = &t->entries[at];
	}
	*from = e;
	return &e->prefix;
}

/* The access to "*" as a destination of intentions: read if any may be read, write if all may be written. */
static bool
is_wild(enum acl_resource r, struct span name)
{
	return r == ACL_INTENTION && name.len == 1 && name.p[0] == '*';
}

static enum acl_access
wild_access(const struct acl_set *set)
{
	if (acl_set_allows_all(set, ACL_INTENTION, ACL_WRITE))
		return ACL_WRITE;
	return acl_set_allows_any(set, ACL_INTENTION, ACL_READ) ? ACL_READ : ACL_DENY;
}

enum acl_access
acl_set_access(const struct acl_set *set, enum acl_resource r, struct span name)
{
	const struct table *t = table_of(set, r);
	const struct entry *from;
	const struct decider *d;

	if (is_wild(r, name))
		return wild_access(set);
	d = decide(set, t, name, false, &from);
	return d != NULL ? d->access : t->fallback;
}

bool
acl_set_allows(const struct acl_set *set, enum acl_resource r, struct span name, enum acl_access need)
{
	TV_ASSERT(need > ACL_DENY);
	return acl_set_access(set, r, name) >= need;
}

bool
acl_set_writes_below(const struct acl_set *set, enum acl_resource r, struct span prefix)
{
	const struct table *t = table_of(set, r);
	const struct entry *from;
	const struct decider *d = decide(set, t, prefix, true, &from);
	uint32_t first, behind;

	if ((d != NULL ? d->access : t->fallback) != ACL_WRITE)
		return false;
	if (t->count == 0)
		return true;
	first = entries_before(set, t, prefix, false);
	behind = entries_before(set, t, prefix, true);
	return t->entries[behind].lesser == t->entries[first].lesser;
}

bool
acl_set_allows_any(const struct acl_set *set, enum acl_resource r, enum acl_access need)
{
	const struct table *t = table_of(set, r);

	TV_ASSERT(need > ACL_DENY);
	return t->most >= need || (t->root == ACL_UNSET && t->fallback >= need);
}

bool
acl_set_allows_all(const struct acl_set *set, enum acl_resource r, enum acl_access need)
{
	const struct table *t = table_of(set, r);

	TV_ASSERT(need > ACL_DENY);
	return t->least >= need && (t->root == ACL_UNSET ? t->fallback : t->root) >= need;
}

void
acl_set_explain(const struct acl_set *set, enum acl_resource r, struct span name, struct acl_reason *why)
{
	const struct table *t = table_of(set, r);
	const struct entry *from;
	const struct decider *d = decide(set, t, name, false, &from);

	*why = (struct acl_reason){ .kind = ACL_BY_DEFAULT, .access = t->fallback };
	if (set->management) {
		why->kind = ACL_BY_MANAGEMENT;
	} else if (is_wild(r, name)) {
		why->kind = ACL_BY_ALL_RULES;
		why->access = wild_access(set);
	} else if (d != NULL) {
		if (r == ACL_INTENTION)
			t = &set->tables[ACL_SERVICE];
		*why = (struct acl_reason){ ACL_BY_RULE, d->access, d->policy, d->line,
		    (enum acl_resource)(t - set->tables), d == &from->prefix, d->intentions, name_of(set, from) };
	}
}
