/*
 * What was heard lately of user events or queries: which Lamport times, and under each the marks of what
 * came with it, so that each is taken once.  As in the deployed protocol the window is 512 times wide
 * and a time owns the slot `ltime mod 512`; unlike there the marks are counted, and a flood moves the
 * lower end of the window up instead of taking memory.
 */
#ifndef TV_GOSSIPD_CORE_SERF_RING_H
#define TV_GOSSIPD_CORE_SERF_RING_H

#include <stdbool.h>
#include <stdint.h>

#define RING_SLOTS 512

struct ring_slot {
	uint64_t ltime;			/* meaningful while count > 0 */
	uint64_t *marks;		/* owned */
	uint32_t count, cap;
};

struct ring {
	struct ring_slot *slots;	/* RING_SLOTS of them, made when the first is needed; or NULL */
	uint64_t floor;			/* earlier times are not taken */
	uint32_t count, count_max;	/* marks held; count_max > 0 */
};

enum ring_verdict { RING_NEW, RING_DUPLICATE, RING_OLD, RING_NO_MEMORY };

/* clock: has witnessed ltime.  RING_NEW: the mark is held now. */
enum ring_verdict ring_note(struct ring *r, uint64_t clock, uint64_t ltime, uint64_t mark);
/* Times below `floor` are not taken from now on. */
void ring_raise(struct ring *r, uint64_t floor);
/* The time is below the floor, or left the window. */
bool ring_too_old(const struct ring *r, uint64_t clock, uint64_t ltime);
void ring_done(struct ring *r);

#endif
