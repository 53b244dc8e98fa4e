/* What the files of the cache's table share; and no other file may include. */
#ifndef TV_RPCD_CACHE_CACHE_TABLE_INT_H
#define TV_RPCD_CACHE_CACHE_TABLE_INT_H

#include <stddef.h>

#include "common/base/map.h"
#include "common/base/rng.h"
#include "rpcd/cache/cache_table.h"

#define CACHE_ACCOUNTS 64		/* sources share one by their hash */
#define CACHE_LARGEST 8			/* a value above this part of bytes_max is not kept */
#define CONTAINER(ptr_, type_, field_) ((type_ *)(void *)((char *)(ptr_) - offsetof(type_, field_)))

enum fetch_state { FETCH_NONE, FETCH_WANTED, FETCH_UNDER_WAY };

/* A datacenter that entries come from. */
struct cache_place {
	LIST_ENTRY(cache_place) link;
	unsigned entries, refreshed;
	struct mono lost_at;		/* 0: its servers answer, as far as we know */
	struct cache_entry *probe;	/* whose fetch finds out when they do again */
	size_t name_len;
	char name[];
};

struct cache_list {
	TAILQ_HEAD(cache_entries, cache_entry) entries;	/* the first was used last */
	uint64_t bytes;
};

/* What one source has. */
struct cache_account {
	struct cache_list once, often;	/* asked for once, and more often */
};

struct cache_entry {
	struct map_node node;
	TAILQ_ENTRY(cache_entry) of_account;
	union {
		STAILQ_ENTRY(cache_entry) wanted;
		SLIST_ENTRY(cache_entry) past;	/* ended: in `cancels`, then in the grave */
	};
	struct cache_place *place;	/* NULL: it has ended */
	LIST_HEAD(, cache_waiter) waiters;
	LIST_HEAD(, cache_watch) watches;
	void *fetch;			/* the caller's */
	uint8_t *value;
	char *text;			/* of the last error */
	uint64_t index, version, last_contact_ms;
	struct deadline due;
	struct mono used_at, fetched_at, begun_at;
	struct mono lost_at;		/* 0: in contact */
	struct mono fetch_at;		/* 0: nothing is to be fetched */
	uint32_t key_len, value_len;
	uint32_t ready;			/* waiters whose answer was not taken yet */
	enum tv_err err;		/* of the last fetch */
	uint8_t account, failures;
	uint8_t fetch_state;		/* enum fetch_state */
	bool refreshed, valid, known_leader, filtered, ended;
	bool asked;			/* at least once */
	bool often;			/* on that list */
	uint8_t key[];
};

struct cache_table {
	struct cache_table_conf conf;
	struct rng rng;
	struct map entries;
	struct cache_account accounts[CACHE_ACCOUNTS];
	LIST_HEAD(, cache_place) places;
	struct deadlines entry_dues, waiter_dues;
	STAILQ_HEAD(, cache_entry) wanted;
	SLIST_HEAD(, cache_entry) cancels, grave;
	TAILQ_HEAD(, cache_waiter) ready;
	STAILQ_HEAD(, cache_watch) news;
	uint64_t versions;
	struct cache_stats stats;
};

/* -- cache_table.c -- */
/* Out of all lists and the map; it has no waiter.  Its memory is freed once no answer borrows it. */
void cache_entry_end(struct cache_table *t, struct cache_entry *e);

/* -- cache_room.c -- */
/* On the account of this source. */
void cache_account_add(struct cache_table *t, struct cache_entry *e, uint64_t source);
void cache_account_remove(struct cache_table *t, struct cache_entry *e);
/* A request asked for it. */
void cache_account_use(struct cache_table *t, struct cache_entry *e);
/* Its value has this length now. */
void cache_account_resize(struct cache_table *t, struct cache_entry *e, size_t value_len);
/* Ends entries until so much more fits; never this one (or NULL).  False: what is left is waited for. */
bool cache_make_room(struct cache_table *t, size_t bytes, unsigned entries, const struct cache_entry *keep);

#endif
