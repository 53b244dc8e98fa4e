/* Between the files of the check table. */
#ifndef TV_RPCD_AGENT_CHECKS_INT_H
#define TV_RPCD_AGENT_CHECKS_INT_H

#include "rpcd/agent/checks.h"

struct local_check {
	struct local_check *next, *prev;
	struct checks *table;
	char *id, *name, *notes, *output, *service_id;	/* owned, never NULL */
	const char *status;		/* one of three static texts */
	int64_t ttl_ns, deregister_after_ns;
	ev_timer ttl;
	bool removed;			/* gone here; stays until the catalog knows */

	/* anti-entropy */
	struct route_call *push;	/* under way */
	bool in_sync;			/* the catalog has what we have */
	bool changed;			/* since the push under way began */
	bool output_only;		/* the only difference is the output: it may wait */
};

/* Somebody waits for a push. */
struct settle {
	struct settle *next, *prev;
	struct local_check *check;
	ev_timer timer;
	void (*done)(void *ctx);
	void *ctx;
};

struct checks {
	struct checks_conf conf;
	struct local_check *first, *last;
	unsigned count;			/* of those that are not removed */
	struct rng rng;
	struct route_call *compare;	/* reading the catalog */
	struct settle *settling;
	ev_timer sync, retry, output, save;
	bool unsaved;
	struct arena arena;		/* for one reply at a time */
};

/* -- checks_store.c -- */
/* Atomically replaces the file; durable: also waits for the disk.  TV_ESYS. */
enum tv_err checks_save(struct checks *c, bool durable);
/* Renames a file that makes no sense, so that somebody can look at it. */
void checks_set_aside(const struct checks *c);
/* What the file says, as JSON; and back, into an empty table: TV_EFORMAT, nothing is taken.  Entries that make no
 * sense are left out. */
void checks_print(const struct checks *c, struct buf *out);
enum tv_err checks_parse(struct checks *c, struct span text);
/* Fills an empty table from the file.  TV_ENOENT: there is none. */
enum tv_err checks_load(struct checks *c);

/* -- checks.c -- */
struct local_check *checks_find(struct checks *c, struct span id);
/* An empty entry at the end of the table; NULL: no memory. */
struct local_check *checks_add(struct checks *c, struct span id);
void checks_drop(struct local_check *k);
/* Replaces an owned text; false: no memory, nothing changed. */
bool checks_text(char **at, struct span text);
void checks_record(const struct local_check *k, struct check *rec);
/* One of "passing", "warning", "critical"; NULL: none of them. */
const char *checks_status(struct span text);

/* -- checks_sync.c -- */
void checks_sync_start(struct checks *c);
void checks_sync_stop(struct checks *c);
/* Nobody waits for this check any more: its push is over, or it goes. */
void checks_settled(struct local_check *k);
/* The check differs from what the catalog has.  output_only: it may wait for update_interval. */
void checks_changed(struct local_check *k, bool output_only);

#endif
