/* Health of servers. */
#include <string.h>

#include "raftd/health.h"

const struct health_record *
health_find(const struct health_book *b, raft_id id)
{
	for (unsigned i = 0; i < b->count; i++)
		if (b->records[i].id == id)
			return &b->records[i];
	return NULL;
}

static bool
in_touch(const struct health_facts *f)
{
	return f->self || (f->alive && f->linked);
}

static bool
keeps_up(const struct health_facts *f, const struct health_bounds *b)
{
	if (f->self)
		return true;
	if (b->contact_ns > 0 && f->silent_ns > b->contact_ns)
		return false;
	if (f->term != b->term)
		return false;
	return b->trailing == 0 || f->index >= b->index_before || b->index_before - f->index <= b->trailing;
}

static void
judge(struct health_record *r, const struct health_facts *f, const struct health_bounds *b, struct mono now,
    int64_t wall_ns)
{
	bool fits = in_touch(f) && keeps_up(f, b), healthy = fits;
	bool first = r->id == 0;

	if (!first && r->healthy && !fits && in_touch(f) && !r->doubted)
		healthy = true;			/* for this once */
	r->doubted = !fits;
	if (first || healthy != r->healthy) {
		r->since = now;
		r->since_wall = wall_ns;
	}
	r->id = f->id;
	r->voter = f->voter;
	r->healthy = healthy;
	if (f->self || !f->failed || f->linked)
		r->dead_since = MONO_ZERO;
	else if (r->dead_since.ns == 0)
		r->dead_since = now;
}

void
health_look(struct health_book *b, const struct health_facts *f, unsigned count, const struct health_bounds *bounds,
    struct mono now, int64_t wall_ns)
{
	struct health_book next = { .count = count };

	for (unsigned i = 0; i < count; i++) {
		const struct health_record *old = health_find(b, f[i].id);

		if (old != NULL)
			next.records[i] = *old;
		judge(&next.records[i], &f[i], bounds, now, wall_ns);
	}
	*b = next;
}

bool
health_all(const struct health_book *b)
{
	for (unsigned i = 0; i < b->count; i++)
		if (!b->records[i].healthy)
			return false;
	return b->count > 0;
}

static bool
voters_healthy(const struct health_book *b, unsigned *voters, unsigned *healthy)
{
	*voters = *healthy = 0;
	for (unsigned i = 0; i < b->count; i++) {
		*voters += b->records[i].voter;
		*healthy += b->records[i].voter && b->records[i].healthy;
	}
	return *voters > 0 && *voters == *healthy;
}

unsigned
health_tolerance(const struct health_book *b)
{
	unsigned voters, healthy, quorum;

	(void)voters_healthy(b, &voters, &healthy);
	quorum = voters / 2 + 1;
	return healthy > quorum ? healthy - quorum : 0;
}

bool
health_may_vote(const struct health_book *b, raft_id id, struct mono stabilization, struct mono leading,
    struct mono now)
{
	const struct health_record *r = health_find(b, id);
	unsigned voters, healthy;

	if (r == NULL || !r->healthy)
		return false;
	if (mono_sub(now, r->since).ns >= stabilization.ns)
		return true;
	return leading.ns < stabilization.ns && voters_healthy(b, &voters, &healthy);
}
