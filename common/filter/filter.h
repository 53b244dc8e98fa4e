/*
 * An expression over the fields of records: ?filter=, and the selectors of binding rules.
 *
 *	Service.Port == 80 and not (Node.Meta.rack in "r1" or Checks.Status != passing)
 *
 * `not` binds tighter than `and`, `and` tighter than `or`.  Selectors are the names that the answer's JSON shows,
 * joined by dots: every field of the schema but constants, raw JSON and the two indexes.  In a list of
 * objects any element that fits is enough, for negated operators too.
 *
 * lex.c reads words, parse.c builds the tree, bind.c holds it against the schema, regex.c compiles patterns, eval.c
 * looks at records, straight at their msgpack.  Pure: no sockets, no clock, no globals.
 */
#ifndef TV_COMMON_FILTER_FILTER_H
#define TV_COMMON_FILTER_FILTER_H

#include "common/record/schema.h"

#define FILTER_BYTES_MAX 8192		/* longest expression */
#define FILTER_DEPTH_MAX 64		/* parentheses and `not` within each other */
#define FILTER_PATTERNS_MAX 16		/* `matches` in one expression */
#define FILTER_STEPS_MAX 10000000	/* work of patterns in the life of one filter, beside what each text has free */

struct filter;

/*
 * Compiles text for records of this schema (borrowed, and text is not).  NULL: why says what is wrong, in the
 * API's words without the prefix: 1:6 (5): no match found, expected: ... / Selector "X" is not valid.
 */
struct filter *filter_new(const struct schema *s, struct span text, struct buf *why);
void filter_free(struct filter *f);	/* NULL: nothing */
/* Holds one packed record against it.  After an error false for every record. */
bool filter_match(struct filter *f, struct span record);
/* Steps in place of FILTER_STEPS_MAX, for several filters that share a budget; and what is left of it. */
void filter_allow(struct filter *f, uint64_t steps);
uint64_t filter_left(const struct filter *f);
/* Ends it with this error: the caller's time is up. */
void filter_stop(struct filter *f, enum tv_err err);
/* TV_ELIMIT: the patterns have done FILTER_STEPS_MAX of work.  TV_ENOMEM.  Others: a record was malformed (rd.h). */
enum tv_err filter_error(const struct filter *f);

#endif
