/*
 * Which denials the audit trail takes: a client that may do nothing can ask for ever.  Each party, a source with a
 * token, has a number of lines in a second, and all together have one, beyond which the first line of each party is
 * still taken: no flood drives out what others did.  Pure: the clock is handed in.
 */
#ifndef TV_RPCD_AUDIT_DENIALS_H
#define TV_RPCD_AUDIT_DENIALS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/mono.h"

#define DENIALS_OF_ONE 20		/* lines of one party in a second */
#define DENIALS_OF_ALL 200		/* of all; more are the first ones of their parties */
#define DENIALS_PARTIES_MAX 512		/* in a second; what comes from more is not told apart */

struct denials {			/* zeroed, it is empty */
	struct mono second;		/* began then */
	unsigned taken, parties;
	struct {
		uint64_t key;
		unsigned lines;		/* 0: the place is free */
	} party[DENIALS_PARTIES_MAX * 2];
};

/* Is this one taken?  party: a keyed hash. */
bool denials_take(struct denials *d, uint64_t party, struct mono now);

#endif
