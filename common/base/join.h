/*
 * Equal questions that share one flight: the first begins it, later ones join it while it is open, all have its
 * outcome, and the last one that leaves may cancel it.  Flights and waiters are parts of the caller's structures, and
 * the caller compares keys; nothing is allocated but buckets of the map.  No clock, no I/O, one thread.
 *
 *	MAP_FOREACH_HASH(q, &open, hash, flight.node)	is an equal question under way?
 *		if (equal(q, ...))
 *			break;
 *	if (q == NULL)					no: begin one
 *		join_open(&open, &(q = question_new(...))->flight, hash);
 *	join_wait(&q->flight, &w->waiter);
 *
 *	join_end(&open, &q->flight);			its outcome is there
 *	while ((w = JOIN_ENTRY(join_next(&q->flight), struct caller, waiter)) != NULL)
 *		...					may join, leave and begin others
 */
#ifndef TV_COMMON_BASE_JOIN_H
#define TV_COMMON_BASE_JOIN_H

#include <sys/queue.h>

#include "common/base/map.h"

struct join_flight;

struct join_waiter {
	LIST_ENTRY(join_waiter) link;
	struct join_flight *flight;	/* NULL, and zeros: waits for nothing */
};

struct join_flight {			/* zeros: joined only by those who hold it already */
	struct map_node node;		/* while it is open, with the hash of its key */
	LIST_HEAD(, join_waiter) waiters;	/* newest first */
	unsigned waiting;		/* how many these are */
	bool is_open, ended;
};

/* From now on the map has it under this hash. */
void join_open(struct map *open, struct join_flight *f, uint64_t hash);
/* Out of the map: an equal question begins a flight of its own.  Waiters stay.  Not open: nothing happens. */
void join_close(struct map *open, struct join_flight *f);
/* w, which waits for nothing, is the newest waiter. */
void join_wait(struct join_flight *f, struct join_waiter *w);
/*
 * w waits no more.  The flight if that was its last waiter and it has not ended: the caller may cancel and free it.
 * NULL: another one needs it, or w waited for nothing.
 */
struct join_flight *join_leave(struct join_waiter *w);
/* Closes the flight.  From now on the caller of join_end() frees it, also when the last waiter leaves. */
void join_end(struct map *open, struct join_flight *f);
/* Takes out the newest waiter; NULL: none is left. */
struct join_waiter *join_next(struct join_flight *f);

static inline void *
join_entry(const void *part, size_t offset)
{
	return part == NULL ? NULL : (void *)((uintptr_t)part - offset);
}

/* From a waiter or a flight, NULL too, to what it is the field of. */
#define JOIN_ENTRY(part_, type_, field_) ((type_ *)join_entry((part_), offsetof(type_, field_)))

#endif
