/*
 * See reconcile.h.  Members are found by name, without case, and by id, in two chained hash tables.  Both are made in
 * their size for one pass, so they have links of 4 bytes, where the common map has nodes of 16.
 */
#include <stdlib.h>

#include "common/base/fnv.h"
#include "raftd/leader/rules/reconcile.h"

#define NONE UINT32_MAX

struct seen {
	struct reconcile_member m;
	uint32_t next_name, next_id;	/* in its chains; NONE: the last */
};

struct reconcile_view {
	struct reconcile_member self;
	uint32_t count, max, mask;
	uint32_t *by_name, *by_id;	/* the first of each chain; NONE: empty */
	struct seen *seen;
};

/* Not keyed: the keys are members' own words, but all of them have the cluster's key. */
static uint32_t
hash_nocase(struct span s)
{
	return (uint32_t)fnv1a_nocase(FNV1A_START, s);
}

struct reconcile_view *
reconcile_view_new(uint32_t max, struct span self_name, struct span self_id)
{
	struct reconcile_view *v = calloc(1, sizeof(*v));
	uint32_t buckets = 16;

	while (buckets < max && buckets < (1u << 30))
		buckets *= 2;
	if (v == NULL)
		return NULL;
	*v = (struct reconcile_view){ .max = max, .mask = buckets - 1,
	    .self = { .name = self_name, .id = self_id, .status = MEMBER_ALIVE } };
	v->by_name = malloc(buckets * sizeof(*v->by_name));
	v->by_id = malloc(buckets * sizeof(*v->by_id));
	v->seen = calloc(max > 0 ? max : 1, sizeof(*v->seen));
	if (v->by_name == NULL || v->by_id == NULL || v->seen == NULL) {
		reconcile_view_free(v);
		return NULL;
	}
	for (uint32_t i = 0; i < buckets; i++)
		v->by_name[i] = v->by_id[i] = NONE;
	return v;
}

void
reconcile_view_free(struct reconcile_view *v)
{
	if (v == NULL)
		return;
	free(v->by_name);
	free(v->by_id);
	free(v->seen);
	free(v);
}

void
reconcile_view_add(struct reconcile_view *v, const struct reconcile_member *m)
{
	uint32_t *name = &v->by_name[hash_nocase(m->name) & v->mask], *id = &v->by_id[hash_nocase(m->id) & v->mask];
	struct seen *s;

	if (v->count == v->max)
		return;
	s = &v->seen[v->count];
	*s = (struct seen){ *m, *name, m->id.len > 0 ? *id : NONE };
	*name = v->count;
	if (m->id.len > 0)
		*id = v->count;
	v->count++;
}

static bool
is_living(const struct reconcile_member *m)
{
	return !m->gone && (m->status == MEMBER_ALIVE || m->status == MEMBER_LEAVING);
}

/* The same id; or one of them says none, so that only names tell. */
static bool
ids_agree(struct span a, struct span b)
{
	return a.len == 0 || b.len == 0 || span_eq_nocase(a, b);
}

/* An entry without an id is a member's if it was written as one, and spells its name as it does: nothing else tells. */
static bool
is_entry_of(const struct reconcile_node *n, const struct reconcile_member *m)
{
	if (n->id.len == 0)
		return n->member && span_eq(n->name, m->name);
	return span_eq_nocase(n->name, m->name) && ids_agree(n->id, m->id);
}

/*
 * The living member that this entry belongs to; NULL: none.  Where several have its id and spell its name differently, the one
 * that spells it as the entry does, else the first in bytewise order, which is the same for each leader.
 */
static const struct reconcile_member *
holder_of(const struct reconcile_view *v, const struct reconcile_node *n)
{
	const struct reconcile_member *best = is_entry_of(n, &v->self) ? &v->self : NULL;

	for (uint32_t i = v->by_name[hash_nocase(n->name) & v->mask]; i != NONE; i = v->seen[i].next_name) {
		const struct reconcile_member *m = &v->seen[i].m;

		if (!is_living(m) || !is_entry_of(n, m))
			continue;
		if (span_eq(m->name, n->name))
			return m;
		if (best == NULL || span_cmp(m->name, best->name) < 0)
			best = m;
	}
	return best;
}

/* The living member with this id that the entry `n` belongs to; NULL: none. */
static const struct reconcile_member *
heir_of(const struct reconcile_view *v, struct span id, const struct reconcile_node *n)
{
	for (uint32_t i = id.len == 0 ? NONE : v->by_id[hash_nocase(id) & v->mask]; i != NONE; i = v->seen[i].next_id) {
		const struct reconcile_member *m = &v->seen[i].m;

		if (is_living(m) && span_eq_nocase(m->id, id) && span_eq(m->name, n->name))
			return m;
	}
	return NULL;
}

/* Does it live under another spelling of its name? */
static bool
is_respelled(const struct reconcile_view *v, const struct reconcile_member *m)
{
	for (uint32_t i = m->id.len == 0 ? NONE : v->by_id[hash_nocase(m->id) & v->mask]; i != NONE; i = v->seen[i].next_id) {
		const struct reconcile_member *o = &v->seen[i].m;

		if (is_living(o) && span_eq_nocase(o->id, m->id) && span_eq_nocase(o->name, m->name))
			return true;
	}
	return false;
}

/* Does another member live with its id?  Then its own entry may be out of its reach. */
static bool
is_copied(const struct reconcile_view *v, const struct reconcile_member *m)
{
	for (uint32_t i = m->id.len == 0 ? NONE : v->by_id[hash_nocase(m->id) & v->mask]; i != NONE; i = v->seen[i].next_id) {
		const struct reconcile_member *o = &v->seen[i].m;

		if (is_living(o) && span_eq_nocase(o->id, m->id) && !span_eq(o->name, m->name))
			return true;
	}
	return false;
}

static bool
is_self(const struct reconcile_view *v, const struct reconcile_node *n)
{
	return is_entry_of(n, &v->self);
}

static void
refuse(struct reconcile_decision *out, enum reconcile_why why, const struct reconcile_member *other)
{
	out->action = RECONCILE_REFUSE;
	out->why = why;
	if (other != NULL)
		out->other = *other;
}

/* Nothing of it is in use any more. */
static void
take_over(struct reconcile_decision *out, enum reconcile_why why, const struct reconcile_node *n)
{
	out->action = RECONCILE_REMOVE;
	out->why = why;
	out->node = *n;
}

/* An entry stands in the way: it stays while its member lives. */
static void
contest(const struct reconcile_view *v, enum reconcile_why why, const struct reconcile_node *n, struct reconcile_decision *out)
{
	const struct reconcile_member *holder = holder_of(v, n);

	if (holder != NULL)
		refuse(out, why, holder);
	else
		take_over(out, why, n);
}

static void
decide_alive(const struct reconcile_view *v, const struct reconcile_member *m, bool copy, const struct reconcile_stored *st,
    struct reconcile_decision *out)
{
	const struct reconcile_node *named = &st->named;
	const struct reconcile_member *holder;

	if (copy) {
		refuse(out, RECONCILE_COPY, NULL);
		return;
	}
	if (named->known && !ids_agree(named->id, m->id)) {
		contest(v, RECONCILE_NAME_TAKEN, named, out);
		return;
	}
	if (named->known && !span_eq(named->name, m->name)) {
		holder = holder_of(v, named);
		/* A node without an id whose check was not made passing again keeps no member out for the sake of a refused copy. */
		if (holder != NULL && named->id.len == 0 && st->critical && is_copied(v, holder))
			holder = NULL;
		if (holder != NULL && !span_eq(holder->name, m->name)) {
			refuse(out, RECONCILE_NAME_TAKEN, holder);
			return;
		}
	}
	if (st->held.known)
		contest(v, RECONCILE_ID_TAKEN, &st->held, out);
	else if (!named->known || !st->same || !st->passing)
		out->action = RECONCILE_WRITE_ALIVE;
}

/* Is the stored node this member's own, which does not live, and no other one's that does? */
static bool
is_own_entry(const struct reconcile_view *v, const struct reconcile_member *m, const struct reconcile_node *n)
{
	return n->known && (n->member || n->id.len > 0) && ids_agree(n->id, m->id) && holder_of(v, n) == NULL;
}

static void
decide_failed(const struct reconcile_view *v, const struct reconcile_member *m, const struct reconcile_stored *st,
    struct reconcile_decision *out)
{
	const struct reconcile_node *now = st->held.known ? &st->held : &st->named;
	const struct reconcile_member *heir = now->known ? heir_of(v, m->id, now) : NULL;

	if (heir != NULL && !span_eq(heir->name, m->name)) {
		out->action = RECONCILE_FORGET;
		out->other = *heir;
	} else if (is_own_entry(v, m, &st->named) && !st->critical && !is_respelled(v, m)) {
		out->action = RECONCILE_WRITE_FAILED;
	}
}

void
reconcile_member(const struct reconcile_view *v, const struct reconcile_member *m, bool copy,
    const struct reconcile_stored *st, struct reconcile_decision *out)
{
	*out = (struct reconcile_decision){ .action = RECONCILE_NOTHING };
	if (m->gone || m->status == MEMBER_LEFT) {
		if (is_own_entry(v, m, &st->named) && !is_self(v, &st->named))
			take_over(out, m->gone ? RECONCILE_REAPED : RECONCILE_LEFT, &st->named);
	} else if (m->status == MEMBER_FAILED) {
		decide_failed(v, m, st, out);
	} else if (m->status == MEMBER_ALIVE) {
		decide_alive(v, m, copy, st, out);
	}
}

bool
reconcile_is_stray(const struct reconcile_view *v, const struct reconcile_node *n)
{
	if (!n->member || is_self(v, n))
		return false;
	for (uint32_t i = v->by_name[hash_nocase(n->name) & v->mask]; i != NONE; i = v->seen[i].next_name)
		if (!v->seen[i].m.gone && is_entry_of(n, &v->seen[i].m))
			return false;
	return true;
}
