/* Following a list of rpcd's by long polls, for as long as clusterctl runs. */
#ifndef TV_CTL_FOLLOW_H
#define TV_CTL_FOLLOW_H

#include "ctl/ctl.h"

struct follow {
	const char *path;	/* of the list, encoded, without index and wait */
	bool afresh;		/* after a gap take gets all of the list again; else what came after the last index */
	/* Each list, borrowed.  first: what there was before the first question. */
	void (*take)(void *ctx, const json_t *list, bool first);
	void *ctx;
};

/*
 * Ends only when rpcd refuses, cannot be reached the first time (both with a sentence), or the reader of our output has
 * gone.  rpcd may be restarted meanwhile: that is said, and waited for.  Returns exit status 1.
 */
int follow_list(struct ctl *ctl, const struct follow *f);
/*
 * One such list: at once (index 0), or when its index has passed `index`, at the latest after a minute.  The caller
 * frees it and *a.  NULL: *a tells why.
 */
json_t *follow_ask(struct ctl *ctl, const char *path, uint64_t index, struct client_answer *a);

#endif
