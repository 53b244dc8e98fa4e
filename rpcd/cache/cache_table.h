/*
 * The table of the agent's cache: answers of servers by question, what is to be fetched, and the requests that wait for
 * it.  Pure: no I/O, no clock, no globals.  Time is an argument, and what has to be done outside is taken from queues
 * (cache_table_next_...()) after each call; rpcd/cache/cache.c does that with the router and a loop.
 *
 * An entry that is `refreshed` has one blocking query under way for as long as it lives, shared by all requests, which
 * follows its index.  The others are fetched when a request wants them newer.  An entry ends after `ttl` without a
 * question, when a server refuses it, or to make room.
 *
 * Room is shared between sources: entries are on the account of the source that asked first, and the source with most
 * loses first: what was asked for only once, the oldest first, as long as that is a fifth of it, else what was not
 * asked for longest.  So neither a flood of different questions nor one large answer drives out what others use.  An
 * answer above an eighth of all is passed on to its waiters, and not kept.
 *
 * Datacenters whose servers cannot be reached are asked by one fetch at a time (besides those that have
 * waiters); when one succeeds the other entries follow soon, not all at once.
 *
 * Not of common/base/join.h: an entry outlives its fetches, and each waiter ends by an index and a deadline of its own.
 */
#ifndef TV_RPCD_CACHE_CACHE_TABLE_H
#define TV_RPCD_CACHE_CACHE_TABLE_H

#include <sys/queue.h>

#include "common/base/deadlines.h"
#include "common/record/ops.h"

struct cache_table;
struct cache_entry;

struct cache_table_conf {
	uint64_t bytes_max;		/* entries with their keys and values */
	unsigned entries_max;
	struct mono ttl;		/* an entry that was not asked for so long ends */
	struct mono hold;		/* a fetch fails up to this long after contact was lost */
	uint64_t seed;
	uint64_t (*hash)(const void *bytes, size_t n);	/* of keys and sources, which others choose */
};

struct cache_ask {
	struct span key;		/* equal bytes are one question; copied */
	struct span place;		/* datacenter, "" own; part of what the key says; <= OP_NAME_BYTES_MAX */
	bool refreshed;			/* always the same for one key */
	uint64_t source;		/* of the request (common/net/source.h); 0: this node */
	uint64_t index;			/* not 0: answer when the entry's index is above, or after `wait` */
	struct mono wait;
	/* These count for entries that are not refreshed. */
	struct mono max_age;		/* MONO_NEVER: any will do */
	bool revalidate;		/* fetch in any case */
	struct mono stale_if_error;	/* what is there may be as old as this if the fetch fails; 0: not at all */
};

/* Spans are good until the next call of this table. */
struct cache_answer {
	struct op_reply reply;		/* known_leader and last_contact_ms as of now; an error has no value */
	bool hit;			/* from memory, without waiting for anything; or in place of an error */
	/*
	 * Of a refreshed entry: how long no server was reached for it, 0 while one is; up to conf.hold too little.
	 * Of the others: since the fetch.
	 */
	struct mono age;
	bool reachable;			/* servers of its datacenter answer, as far as we know */
	uint64_t version;		/* of the value: never the same for two of them */
};

/* A pending request, embedded in the caller's structure.  All fields are the table's. */
struct cache_waiter {
	union {
		LIST_ENTRY(cache_waiter) waiting;	/* of the entry */
		TAILQ_ENTRY(cache_waiter) answered;	/* ready */
	};
	struct cache_entry *entry;	/* NULL: it does not wait */
	struct deadline deadline;
	uint64_t index;
	struct mono stale_if_error;
	bool for_index;			/* a newer index, not just any answer */
	bool ready, stale;		/* on the queue of answers; stale: with what is there in place of the error */
};
/* A follower, which hears of each change of an entry; likewise. */
struct cache_watch {
	LIST_ENTRY(cache_watch) link;	/* of the entry */
	STAILQ_ENTRY(cache_watch) news;	/* while `queued` */
	struct cache_entry *entry;	/* NULL: the entry has ended */
	bool queued;
};

/* NULL: no memory. */
struct cache_table *cache_table_new(const struct cache_table_conf *conf);
/* There may be no waiter, watch or fetch any more. */
void cache_table_free(struct cache_table *t);
/* Other limits, from now on; entries that are too many go. */
void cache_table_limit(struct cache_table *t, uint64_t bytes_max, struct mono ttl);
/* Drops all entries without waiters. */
void cache_table_clear(struct cache_table *t);

enum cache_got {
	CACHE_HIT,	/* *out is the answer */
	CACHE_WAIT,	/* w waits; the answer comes by cache_table_next_answer() */
	CACHE_FULL,	/* no room or memory, since all entries are waited for: ask the servers yourself */
};
enum cache_got cache_table_ask(struct cache_table *t, struct mono now, const struct cache_ask *q,
    struct cache_waiter *w, struct cache_answer *out);
/* w waits no more; nothing if it does not wait. */
void cache_table_cancel(struct cache_table *t, struct cache_waiter *w);
/*
 * From now on w is told when the value of this entry changes, its contact to servers is lost or found, or it ends: by
 * cache_table_next_news().  Makes the entry if it is not there, which needs a fetch.  To watch is not to use: a caller
 * that only watches sees the entry end after its ttl.  False: as CACHE_FULL.
 */
bool cache_table_watch(struct cache_table *t, struct mono now, const struct cache_ask *q, struct cache_watch *w);
void cache_table_unwatch(struct cache_table *t, struct cache_watch *w);
/* What is watched, as it is now.  False: there is nothing yet, or it has ended. */
bool cache_table_watched(struct cache_table *t, struct mono now, const struct cache_watch *w, struct cache_answer *out);
/* Counts as a question for what is watched, so that it goes on. */
void cache_table_use(struct cache_table *t, struct mono now, struct cache_watch *w);
/* Drops the entry of this key, unless a caller waits for it, watches it, or asked for it after `since`. */
void cache_table_forget(struct cache_table *t, struct span key, struct mono since);

/* What to do next; ask for it until there is nothing, after every other call. */
struct cache_fetch {
	struct cache_entry *entry;
	struct span key;		/* good until the next call */
	uint64_t index;			/* 0: at once */
};
/* Something is to be fetched: tell the outcome by cache_table_fetched(). */
bool cache_table_next_fetch(struct cache_table *t, struct mono now, struct cache_fetch *out);
/* The caller's own word about the fetch under way, given back by cache_table_next_cancel(); may be NULL. */
void cache_table_set_fetch(struct cache_entry *e, void *fetch);
/*
 * An entry ended while this was under way: the outcome is not wanted any more, and must not be told from here on.
 * Told before that, it is dropped, and this does not come.
 */
bool cache_table_next_cancel(struct cache_table *t, void **fetch);
/* The next waiter whose answer is ready, in *out; NULL: none. */
struct cache_waiter *cache_table_next_answer(struct cache_table *t, struct mono now, struct cache_answer *out);
/* A watched entry is another one, as *out says; or has ended: then its watch's entry is NULL, and *out is empty. */
struct cache_watch *cache_table_next_news(struct cache_table *t, struct mono now, struct cache_answer *out);

/* The outcome of a fetch; the value is copied. */
void cache_table_fetched(struct cache_table *t, struct mono now, struct cache_entry *e, const struct op_reply *reply);
/* Does what is due at this time. */
void cache_table_tick(struct cache_table *t, struct mono now);
/* When the next tick is due; MONO_NEVER: not until something else happens. */
struct mono cache_table_due(const struct cache_table *t);
/* Each datacenter that refreshed entries are followed in, in turn; SPAN_NONE at the end. */
struct span cache_table_place(const struct cache_table *t, unsigned i);

struct cache_stats {
	uint64_t hits, misses;		/* questions */
	uint64_t fetches, fetched, fetch_errors;
	uint64_t evicted, expired, refused, too_large;
	uint64_t bytes;
	unsigned entries, waiting, fetching, lost;	/* lost: refreshed entries without contact */
};
void cache_table_stats(const struct cache_table *t, struct cache_stats *out);

#endif
