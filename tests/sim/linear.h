/*
 * Is a history of operations on keys linearizable?  That is: is there an order of them, each at one instant between
 * its start and its end, in which each saw what it saw?
 *
 * Keys are registers, absent at first.  An operation is a list of steps that happen at one instant: reads, checks and
 * writes of one key each (put: a write; delete: a write of "absent"; cas: a check and a write; listing: many reads).
 *
 * The search is that of Wing and Gong with Lowe's improvements ("Testing for linearizability", 2017): operations take
 * effect only when an end demands it, configurations that led nowhere are remembered, and keys that no operation
 * touches together are searched apart.  Further, where a value is written by one operation only, as clients should
 * see to: an unknown outcome is known once somebody saw the value, and a value cannot be overwritten before all have
 * seen it who did.  That keeps the search straight for any number of clients.
 *
 * check_history reads a history from a text file, one operation a line:
 *
 *     CLIENT START END OUTCOME STEP [STEP...]
 *
 *   CLIENT   any word
 *   START    when the client asked, in ns of a clock that all clients share (CLOCK_MONOTONIC of one machine)
 *   END      when it had the answer; "-" if it never had one
 *   OUTCOME  ok       it happened, and saw what its steps say
 *            false    it happened, and a comparison failed: at least one of its checks did not hold, nothing was written
 *            none     it surely did not happen (refused before it was tried); its values must never be seen
 *            unknown  nobody knows: a timeout, a lost connection, "may have been applied".  Also if there was an answer
 *                     of that kind at END: the write may still happen later
 *   STEP     r:KEY=VALUE   it read VALUE          c:KEY=VALUE   it compared with VALUE, before any write
 *            w:KEY=VALUE   it wrote VALUE         KEY without "=VALUE": absent (r: not found, w: deleted)
 *
 *   KEY and VALUE are bytes other than space, newline and "=" (in KEY).  Lines may be in any order; empty ones and
 *   those that begin with '#' are skipped.  Use a value once only; then compare-and-set by Consul's ModifyIndex is a check of the value
 *   that was read with that index (cas=0: of "absent").
 *
 *   Status: 0 linearizable, 1 not (the report says where), 2 usage or format, 3 given up.
 *
 *     17 1000 2500 ok w:reg/1=17.1
 *     18 1200 1900 ok r:reg/1 r:reg/2=16.9
 *     19 2600 3000 false c:reg/1=16.4 w:reg/1=19.1
 *     17 2700 - unknown c:reg/1=17.1 w:reg/1=17.2
 *     18 3100 3200 ok w:reg/2
 */
#ifndef TV_TESTS_SIM_LINEAR_H
#define TV_TESTS_SIM_LINEAR_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LIN_ABSENT 0		/* the value of a key that is not there */

enum lin_kind { LIN_READ, LIN_CHECK, LIN_WRITE };
enum lin_outcome { LIN_OK, LIN_FALSE, LIN_NONE, LIN_UNKNOWN };

struct lin_step {
	enum lin_kind kind;
	uint32_t key;		/* small numbers: there is a table of them */
	uint64_t value;
};

struct lin_op {
	int64_t start, end;	/* ns; end counts for OK and FALSE only */
	enum lin_outcome outcome;
	uint32_t tag;		/* the caller's: which one it is in a report */
};

enum lin_verdict {
	LIN_YES,
	LIN_NO,
	LIN_TOO_HARD,		/* neither found within `work` */
};

struct lin_report {		/* of LIN_NO and LIN_TOO_HARD: the operation at whose end the longest explanation stops */
	uint32_t tag;
	const char *why;	/* a few words that follow "this operation" */
	size_t key_count;
	const uint32_t *keys;	/* of its steps; until linear_free() */
	const uint64_t *values;	/* what that explanation has there at its end */
};

struct linear;

struct linear *linear_new(void);
void linear_free(struct linear *l);
/* Adds an operation; steps are copied.  Checks and reads before writes. */
void linear_add(struct linear *l, const struct lin_op *op, const struct lin_step *steps, size_t count);
/* Decides, once, within so many steps of the search (0: 100 million) for each group of keys; report may be NULL. */
enum lin_verdict linear_check(struct linear *l, uint64_t work, struct lin_report *report);

#endif
