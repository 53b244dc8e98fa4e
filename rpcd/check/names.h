/*
 * What is known of a host name, and when it is to be asked for again.  An answer is good for some seconds; a good one
 * that is older stays in use for some minutes while a new one is fetched, or while no name server answers.  That a
 * name does not exist is soon asked for again.  Names without an answer are asked for less and less often.  Pure: the
 * clock is handed in.
 */
#ifndef TV_RPCD_CHECK_NAMES_H
#define TV_RPCD_CHECK_NAMES_H

#include <stdbool.h>

#include "common/base/addr.h"
#include "common/base/mono.h"
#include "rpcd/check/fair.h"

#define ADDRESSES_MAX 8
#define NAME_FRESH MONO_S(10)		/* a good answer is not asked for again */
#define NAME_ABSENT MONO_S(1)		/* neither is that there is none, or that a server fails */
#define NAME_OLD_MAX MONO_S(300)	/* a good answer is in use no longer than that */
#define NAME_GRACE MONO_MS(200)		/* so long a new answer is waited for where there is an old one */
#define NAME_SLOW MONO_S(1)		/* what takes longer is slow, and is asked for in places of its own */
#define NAME_PAUSE_MAX MONO_S(60)	/* between two questions that are not answered */
#define NAME_WHY_BYTES 128

struct addresses {
	union addr_sock v[ADDRESSES_MAX];
	unsigned n;
};

enum name_outcome {
	NAME_FOUND,
	NAME_NOT_THERE,			/* the server that knows says so */
	NAME_NO_ANSWER,			/* or none that helps */
};

struct name_answer {
	enum name_outcome outcome;
	struct addresses found;
	char why[NAME_WHY_BYTES];	/* "no such host"; nothing when it was found */
};

struct name {				/* zeroed before its first use */
	bool known;			/* last is an answer */
	struct name_answer last;
	struct mono answered;		/* when last came */
	struct mono until;		/* last serves without asking */
	struct mono pause;		/* before the next question, while none is answered */
	bool slow;
	bool has_old;			/* a good answer, from before the last one */
	struct addresses old;
	struct mono found_at;		/* when old, or last where it is good, came */
};

/* The class of the next question. */
enum fair_class name_class(const struct name *n);
/* What is known is good without asking. */
bool name_fresh(const struct name *n, struct mono now);
/*
 * What serves while a question is under way, or after one that brought nothing: addresses, or NULL and why.  False:
 * nothing does.
 */
bool name_serves(const struct name *n, struct mono now, const struct addresses **found, const char **why);
/* The answer to a question that began at `begun`. */
void name_learn(struct name *n, const struct name_answer *a, struct mono begun, struct mono now);
/* Nothing of it is worth to be kept. */
bool name_forgettable(const struct name *n, struct mono now);

#endif
