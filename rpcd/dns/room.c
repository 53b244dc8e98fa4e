/* Memory of answers over TCP.  Pure. */
#include "rpcd/dns/room.h"

static bool
is_full(const struct room *r)
{
	return r->bytes >= ROOM_BYTES_MAX;
}

static bool
has_plenty(const struct room *r)
{
	return r->bytes < ROOM_BYTES_PLENTY && r->asks < ROOM_ASKS_PLENTY;
}

bool
room_fits(const struct room *r, const struct room_user *u)
{
	return r->bytes < ROOM_BYTES_PLENTY || (u->bytes == 0 && !is_full(r));
}

void
room_asks(struct room *r, struct room_user *u, unsigned asks)
{
	r->asks += asks - u->asks;
	u->asks = asks;
}

enum room_verdict
room_ask(const struct room *r, const struct room_user *u)
{
	if (r->admitted == u)
		return ROOM_YES;
	if (has_plenty(r) && r->first == NULL && r->admitted == NULL)
		return ROOM_YES;
	if (u->bytes > 0 || u->asks > 0)
		return ROOM_OWN_FIRST;
	return is_full(r) || r->asks >= ROOM_ASKS_MAX || r->first != NULL || r->admitted != NULL ? ROOM_WAIT : ROOM_YES;
}

static void
unlist(struct room *r, struct room_user *u)
{
	*(u->older == NULL ? &r->oldest : &u->older->newer) = u->newer;
	*(u->newer == NULL ? &r->newest : &u->newer->older) = u->older;
}

static void
list(struct room *r, struct room_user *u, struct mono now)
{
	u->since = now;
	u->taken = 0;
	u->older = r->newest;
	u->newer = NULL;
	*(r->newest == NULL ? &r->oldest : &r->newest->newer) = u;
	r->newest = u;
}

void
room_hold(struct room *r, struct room_user *u, size_t bytes, struct mono now)
{
	if (u->bytes == 0 && bytes > 0)
		list(r, u, now);
	else if (u->bytes > 0 && bytes == 0)
		unlist(r, u);
	r->bytes += bytes - u->bytes;
	u->bytes = bytes;
}

void
room_taken(struct room *r, struct room_user *u, size_t n, struct mono now)
{
	u->taken += n;
	if (u->bytes == 0 || u->taken < ROOM_STEP)
		return;
	unlist(r, u);
	list(r, u, now);
}

void
room_wait(struct room *r, struct room_user *u)
{
	if (u->waits || r->admitted == u)
		return;
	u->waits = true;
	u->before = r->last;
	u->behind = NULL;
	*(r->last == NULL ? &r->first : &r->last->behind) = u;
	r->last = u;
}

static void
end_wait(struct room *r, struct room_user *u)
{
	if (!u->waits)
		return;
	u->waits = false;
	*(u->before == NULL ? &r->first : &u->before->behind) = u->behind;
	*(u->behind == NULL ? &r->last : &u->behind->before) = u->before;
}

void
room_leave(struct room *r, struct room_user *u)
{
	end_wait(r, u);
	room_done(r, u);
	room_hold(r, u, 0, MONO_ZERO);
	room_asks(r, u, 0);
}

struct room_user *
room_admit(struct room *r)
{
	struct room_user *u = r->first;

	if (u == NULL || r->admitted != NULL || is_full(r) || r->asks >= ROOM_ASKS_MAX)
		return NULL;
	end_wait(r, u);
	r->admitted = u;
	return u;
}

void
room_done(struct room *r, struct room_user *u)
{
	if (r->admitted == u)
		r->admitted = NULL;
}

struct room_user *
room_loser(const struct room *r, struct mono now, struct mono *when)
{
	struct room_user *u = r->oldest;

	*when = MONO_NEVER;
	if (u == NULL || r->first == NULL || !is_full(r))
		return NULL;
	struct mono due = mono_add(u->since, ROOM_TIME);
	if (!mono_before(now, due))
		return u;
	*when = due;
	return NULL;
}
