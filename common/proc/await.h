/*
 * Addresses that the network has not brought yet: at the boot of a machine they come seconds after its daemons.
 * A start waits for them in this thread, for a bounded time; then it fails, and the service manager starts it again.
 */
#ifndef TV_COMMON_PROC_AWAIT_H
#define TV_COMMON_PROC_AWAIT_H

#include <stdbool.h>

#include "common/base/mono.h"

#define AWAIT_LONGEST MONO_S(60)	/* below the 90 s that systemd gives a start */

struct await {
	struct mono since, told, pause;		/* told: when the next line is due, and the one after it later */
	bool begun;
};

/*
 * Sleeps a moment.  The first call of a wait logs why (a sentence, borrowed), later ones log it after 1, 2, 4, ... s.
 * False: AWAIT_LONGEST is over.  *a starts as zeros.
 */
bool await_more(struct await *a, const char *tag, const char *why);
/* Is ip an address of this machine, or a wildcard?  True as well where this cannot be found out: bind(2) tells. */
bool await_is_here(const char *ip);

#endif
