/*
 * Which of many deadlines is next: a binary heap of entries that are part of what they are about.  To add, move or
 * remove one takes some twenty steps among a million.
 */
#ifndef TV_COMMON_BASE_DEADLINES_H
#define TV_COMMON_BASE_DEADLINES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/mono.h"

struct deadline {
	struct mono when;
	size_t place;			/* from 1 on; 0: it is in none */
};

struct deadlines {			/* zeros: none */
	struct deadline **at;		/* owned; the entries are not */
	size_t count, cap;
};

/* Makes room for so many entries in all, which can be added then.  False: no memory. */
bool deadlines_reserve(struct deadlines *d, size_t count);
/* One that is in none, for its `when`, within what was reserved. */
void deadlines_add(struct deadlines *d, struct deadline *x);
/* Nothing when it is not in. */
void deadlines_remove(struct deadlines *d, struct deadline *x);
/* Sets `when`, and its place if it is in. */
void deadlines_move(struct deadlines *d, struct deadline *x, struct mono when);
/* The earliest one, which stays in; NULL: there is none. */
struct deadline *deadlines_first(const struct deadlines *d);
/* Frees the memory; no entry may be in. */
void deadlines_done(struct deadlines *d);

#endif
