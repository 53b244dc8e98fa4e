/* How far apart two names are: for "did you mean". */
#ifndef TV_COMMON_TEXT_EDITS_H
#define TV_COMMON_TEXT_EDITS_H

#define EDITS_NAME_MAX 128		/* bytes of a name; a longer one is far from everything */

/* Letters added, left out, changed, or two neighbours swapped, to make one of the other.  Pure. */
unsigned edits_between(const char *a, const char *b);
/* As many at most as a slip of the pen makes of a name of this length. */
unsigned edits_limit(const char *name);

#endif
