/*
 * Does the process on the other end of a channel still live?  Pure: the caller looks now and then, and passes the time
 * and a number that changes with each sign of life.  Silence alone proves nothing, so a question goes first; and only
 * time in which the caller looked counts, since a process that was stopped itself has heard nothing.
 */
#ifndef TV_COMMON_NET_SILENCE_H
#define TV_COMMON_NET_SILENCE_H

#include "common/base/mono.h"

/* What is found of a daemon on the other end. */
enum daemon_state {
	DAEMON_ANSWERS,			/* or nothing is known of it */
	DAEMON_AWAY,
	DAEMON_SILENT,			/* it is connected, and does not answer */
};

struct silence_conf {
	struct mono ask_after;		/* silence that calls for a question */
	struct mono patience;		/* silence that ends it; the question has waited for half of this at least */
	struct mono gap;		/* looks farther apart than this: it was us that stood still, all begins anew */
};

struct silence {			/* all zero: begins with the next look */
	struct mono looked;		/* last look */
	struct mono heard;		/* the look that found the last sign of life */
	struct mono asked;		/* the question that waits for an answer; 0: none does */
	uint64_t signs;
};

enum silence_verdict {
	SILENCE_FINE,			/* nothing to do */
	SILENCE_ASK,			/* ask now; said once until there is a sign of life */
	SILENCE_DEAD,			/* no answer within patience; said by every look until it shows life */
};

enum silence_verdict silence_look(struct silence *s, const struct silence_conf *conf, struct mono now, uint64_t signs);
/* How long an asked one has said nothing; 0 while no question waits. */
struct mono silence_lasts(const struct silence *s, struct mono now);

#endif
