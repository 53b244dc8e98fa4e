/*
 * Patterns that others give us (`matches` in filters, tags in queries): the syntax of RE2, found anywhere in a text.
 * They run on PCRE2, which is not safe by itself: what RE2 does not know (backreferences, lookaround, recursion,
 * possessive and atomic groups, verbs) is refused, and the work of a search is counted and bounded, so no
 * pattern can hold the daemon.
 */
#ifndef TV_COMMON_TEXT_REGEX_H
#define TV_COMMON_TEXT_REGEX_H

#include "common/base/buf.h"
#include "common/base/rd.h"

#define REGEX_BYTES_MAX 1024		/* longest pattern */
#define REGEX_REPEAT_MAX 1000		/* in {n,m} */
#define REGEX_NESTING_MAX 50		/* groups within each other */

struct regex;

/* NULL: why says what is wrong. */
struct regex *regex_new(struct span pattern, struct buf *why);
/* The same for regex_match(): its groups are remembered. */
struct regex *regex_new_groups(struct span pattern, struct buf *why);
void regex_free(struct regex *re);
/*
 * Is the pattern somewhere in this text?  Bytes that are not UTF-8 count as U+FFFD each.  *steps_left is the caller's
 * budget in matching steps (some nanoseconds each): TV_ELIMIT when it does not suffice.
 */
enum tv_err regex_search(struct regex *re, struct span text, uint64_t *steps_left, bool *found);
/*
 * Of one of regex_new_groups(): the first match in the text and its groups, those that an alternative left out as "".
 * groups[0] is all of it; *count is how many there are, at most max, and 0 without a match.  They borrow the text, or
 * live until the next call.  steps_left and errors as above.
 */
enum tv_err regex_match(struct regex *re, struct span text, uint64_t *steps_left, struct span *groups, unsigned max,
    unsigned *count);
/* The pattern as PCRE2 gets it: checked, and respelled where the dialects differ. */
bool regex_translate(struct span pattern, struct buf *out, struct buf *why);

#endif
