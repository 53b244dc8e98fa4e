/* Between the files of the registry. */
#ifndef TV_RPCD_AGENT_REGISTRY_INT_H
#define TV_RPCD_AGENT_REGISTRY_INT_H

#include "common/base/rng.h"
#include "rpcd/agent/registry.h"

enum dirty {
	CLEAN,				/* the catalog has it, or is being told, or refused */
	DIRTY_OUTPUT,			/* but for the output, which may wait */
	DIRTY,
};

struct entry {
	struct entry *next, *prev;
	struct registry *registry;
	enum entry_kind kind;
	struct buf bytes;		/* rec, token and run */
	struct span rec;		/* packed by its schema, as the catalog will have it */
	struct span id, service, token;	/* in bytes; service: that it is, or is a check of */
	struct span run;		/* in bytes, packed; empty: nothing runs */
	int64_t ttl, deregister_after;
	struct mono critical_since;	/* MONO_NEVER: is not critical */
	void *user;
	bool removed;			/* gone here; stays until the catalog knows */
	bool there;			/* the catalog that is being compared has it */
	enum dirty dirty;		/* as of the push under way: changed again since it began */
	struct push *push;		/* under way */
	struct entry *push_next;	/* in the same push */
};

struct settle {				/* somebody waits for a push */
	struct settle *next;
	struct entry *entry;		/* NULL: gone */
	struct mono deadline;
	void (*done)(void *ctx);
	void *ctx;
};

struct registry {
	struct registry_conf conf;
	registry_user_fn *user_fn;
	void *user_ctx;
	struct entry *first, *last;
	unsigned count[2];		/* of those that are not removed, by kind */
	struct rng rng;
	struct settle *settling;
	struct route_call *compare;	/* reading the catalog */
	enum entry_kind comparing;
	struct mono compare_at, output_at, save_at, reap_at, news_at;	/* MONO_NEVER: not planned */
	struct arena arena;		/* for a reply */
	struct arena scratch;		/* for our own records */
};

/* -- registry.c -- */
/* Also those that are removed. */
struct entry *entry_find(struct registry *r, enum entry_kind kind, struct span id);
/* The service in the table that this check belongs to; NULL: none, or a service itself. */
struct entry *entry_owner(const struct entry *e);
/* Registers without telling anybody but the user.  As registry_put(). */
enum tv_err entry_take(struct registry *r, const struct local_record *rec, struct entry **out);
/* At the end of the table, removed and dirty.  NULL: no memory. */
struct entry *entry_add(struct registry *r, const struct local_record *rec);
/* Replaces the record.  TV_ENOMEM: nothing changed. */
enum tv_err entry_store(struct entry *e, const struct local_record *rec);
/* The record, in the scratch arena, which is not reset.  False: no memory. */
bool entry_unpack(const struct entry *e, struct local_record *out);
/* Packs the record as it would be stored: what the catalog adds is left out. */
void entry_pack(const struct registry *r, const struct local_record *rec, struct buf *out);
void entry_drop(struct entry *e);
bool entry_is_status(struct span text);
/* Plans for now + delay, unless planned sooner. */
void registry_at(struct registry *r, struct mono *when, struct mono delay);

/* -- registry_sync.c -- */
/* A random part of max. */
struct mono sync_spread(struct registry *r, struct mono max);
/* The entry differs from what the catalog has.  output_only: it may wait for update_interval. */
void sync_changed(struct entry *e, bool output_only);
/* Sends all that is dirty; output: also where it is the output alone. */
void sync_all(struct registry *r, bool output);
void sync_compare(struct registry *r);
void sync_stop(struct registry *r);
/* Ends the waiting of all who have nothing to wait for, or whose time is over. */
void sync_settle(struct registry *r);

#endif
