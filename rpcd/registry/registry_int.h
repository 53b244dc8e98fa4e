/* Between the files of the registry. */
#ifndef TV_RPCD_REGISTRY_REGISTRY_INT_H
#define TV_RPCD_REGISTRY_REGISTRY_INT_H

#include <sys/queue.h>

#include "common/base/map.h"
#include "common/base/rng.h"
#include "rpcd/registry/registry.h"

enum dirty {
	CLEAN,				/* the catalog has it, or is being told, or refused */
	DIRTY_OUTPUT,			/* but for the output, which may wait */
	DIRTY,
};

/* The token that a request to the catalog shows; the next one after each refusal, see registry_rights.c. */
enum push_token {
	TOKEN_OWN,			/* that of the entry; the agent's, if it has none */
	TOKEN_SERVICE,			/* that of the service that the check belongs to */
	TOKEN_AGENT,
};

struct push {				/* a service with checks, or one entry */
	struct registry *registry;
	struct route_call *call;
	struct entry *first;		/* the service first */
	bool removal;
	bool withdrawal;		/* of a service that stays registered here */
	enum push_token token;
};

enum refusal { REFUSED_NOT, REFUSED_UNKNOWN, REFUSED_DENIED };	/* the token is none; it lacks a right */

struct entry {
	TAILQ_ENTRY(entry) link;	/* in order of registration */
	struct map_node by_id;		/* by kind and id */
	struct map_node by_service;	/* the first check of a service; of the others the hash alone */
	struct entry *next_check, *prev_check;	/* a circle: the checks of a service, in order of registration */
	struct registry *registry;
	enum entry_kind kind;
	bool indexed, of_service, first_check;	/* in by_id; in a circle; as its first, which is in by_service */
	struct buf bytes;		/* rec, token and run */
	struct span rec;		/* packed by its schema, as the catalog will have it */
	struct span id, service, token;	/* in bytes; service: that it is, or is a check of */
	struct span run;		/* in bytes, packed; empty: nothing runs */
	int64_t ttl, deregister_after;
	bool sidecar;
	struct mono critical_since;	/* MONO_NEVER: is not critical */
	void *user;
	bool removed;			/* gone here; stays until the catalog knows */
	enum unsaved { SAVED, UNSAVED_STATE, UNSAVED } unsaved;
	TAILQ_ENTRY(entry) unsaved_link;	/* unless it is SAVED */
	bool from_file, named;		/* files define it; those that are being taken do */
	bool there;			/* the catalog that is being compared has it */
	enum dirty dirty;		/* as of the push under way: changed again since it began */
	struct push *push;		/* under way */
	/*
	 * The catalog took this definition from us, or had it: since then its status alone may differ.  What was never
	 * taken is not written with another token than its own.
	 */
	bool accepted;
	bool sent_definition;		/* the push under way has the definition that is here now */
	bool sent_critical;		/* by the push under way */
	bool told_critical;		/* the catalog has it as critical, or does not have it */
	bool said;			/* a check: it has had an output */
	bool withdrawn;			/* of a service: see withdraw() */
	enum refusal refusal;		/* of the newest push */
	bool refusal_told;		/* in the log, since the agent's token was another one */
	bool refused_agent;		/* the token that was refused is the agent's */
	struct entry *push_next;	/* in the same push */
};

struct settle {				/* a caller that waits for a push */
	TAILQ_ENTRY(settle) link;
	struct entry *entry;		/* NULL: gone, or the catalog has it */
	uint64_t ticket;		/* that has to be saved */
	struct mono deadline;		/* for the catalog, not for the disk; MONO_NEVER: the disk alone */
	void (*done)(void *ctx);
	void *ctx;
};

struct registry {
	struct registry_conf conf;
	registry_user_fn *user_fn;
	void *user_ctx;
	registry_watch_fn *watch_fn;	/* may be NULL */
	void *watch_ctx;
	TAILQ_HEAD(entry_list, entry) entries, unsaved;
	struct map by_id, by_service;
	struct registry_stats stats;
	uint64_t saves, saved;		/* durable ones, see registry_save_ticket() */
	unsigned count[2];		/* of those that are not removed, by kind */
	struct rng rng;
	TAILQ_HEAD(settle_list, settle) settling;	/* in the order of their deadlines, but for MONO_NEVER */
	struct route_call *compare;	/* reading the catalog */
	bool blind;			/* the comparison sees no such node: it is not there, or not to be seen */
	enum refusal compare_refusal;	/* of the newest comparison */
	struct route_call *node_push;	/* the node itself, see registry_node.c */
	enum refusal node_refusal;	/* of the newest of these */
	enum entry_kind comparing;
	enum registry_standing standing;
	bool foreign;			/* the entry of this node's name is that of a node with another id */
	struct mono compare_at, output_at, save_at, reap_at, news_at;	/* MONO_NEVER: not planned */
	struct arena arena;		/* for a reply */
	struct arena scratch;		/* for our own records */
};

/* -- registry_index.c -- */
void index_done(struct registry *r);
/* After its id and service are known, and again when its service may be another one. */
void index_put(struct entry *e);
void index_take_out(struct entry *e);
/* Also those that are removed. */
struct entry *entry_find(struct registry *r, enum entry_kind kind, struct span id);
/* The checks of a service, in order of registration, also those that are removed. */
struct entry *entry_check_first(struct registry *r, struct span service);
struct entry *entry_check_next(const struct entry *e);

/* -- registry.c -- */
/* The service in the table that this check belongs to; NULL: none, or a service itself. */
struct entry *entry_owner(const struct entry *e);
/* Registers without telling anybody but the user.  As registry_put(). */
enum tv_err entry_take(struct registry *r, const struct local_record *rec, struct entry **out);
/* Gives it to the registry's user as it is now. */
void entry_use(struct entry *e);
/* At the end of the table, removed and dirty.  NULL: no memory. */
struct entry *entry_add(struct registry *r, const struct local_record *rec);
/* Replaces the record.  TV_ENOMEM: nothing changed. */
enum tv_err entry_store(struct entry *e, const struct local_record *rec);
/* The record, in the scratch arena, which is not reset.  False: no memory. */
bool entry_unpack(const struct entry *e, struct local_record *out);
/* Is it what this record would be stored as?  What the catalog adds is left out. */
bool entry_says(const struct entry *e, const struct local_record *rec);
void entry_drop(struct entry *e);
/* It is gone here, and for its user; the catalog is not told yet. */
void entry_remove(struct entry *e);
/* The same with the checks of a service. */
void entry_remove_whole(struct entry *e);
/* Of a service; NULL: it has none. */
struct entry *entry_sidecar(const struct entry *e);
/* The file does not have it as it is; how: UNSAVED, or UNSAVED_STATE. */
void entry_unsaved(struct entry *e, enum unsaved how);
/* Saves what changed, as the conf says. */
void registry_changed(struct registry *r, bool durable);
/* Of a check: what it says here. */
static inline bool
entry_is_critical(const struct entry *e)
{
	return e->critical_since.ns != MONO_NEVER.ns;
}
/* Plans for now + delay, unless planned sooner. */
void registry_at(struct registry *r, struct mono *when, struct mono delay);

/* -- registry_node.c -- */
/* The catalog's record of this node, as a comparison finds it: what it has differently is sent. */
void node_compare(struct registry *r, const struct node *there);
/* It is not there yet.  Is there anything to tell about it that the leader will not write? */
bool node_has_news(const struct registry *r);
void node_stop(struct registry *r);

/* -- registry_sync.c -- */
/* Starts a request; empty token: the agent's.  NULL: it cannot be sent now. */
struct route_call *sync_ask(struct registry *r, enum op_code code, struct span token, const void *args,
    registry_reply *done, void *ctx);
/* The next comparison is 15 to 30 s from now, if not sooner. */
void sync_compare_soon(struct registry *r);
/* A random part of max. */
struct mono sync_spread(struct registry *r, struct mono max);
/* The entry differs from what the catalog has.  output_only: it may wait for update_interval. */
void sync_changed(struct entry *e, bool output_only);
/* Sends all that is dirty; output: also where it is the output alone. */
void sync_all(struct registry *r, bool output);
void sync_compare(struct registry *r);
void sync_stop(struct registry *r);

/* -- registry_rights.c -- */
/* "service" or "check". */
const char *entry_kind_name(const struct entry *e);
/* Its own, or that of what files define; empty: the agent's. */
struct span entry_token(const struct entry *e);
/* That this push shows now; empty: the agent's. */
struct span push_token(const struct push *p);
/* After a refusal: takes the next one that it may show.  False: there is none. */
bool push_next_token(struct push *p);
/* A refusal's error and sentence. */
enum refusal refusal_of(const struct op_reply *reply);
/* Notes how the newest push of an entry ended, and logs what is refused from now on. */
void rights_refused(struct entry *e, const struct push *p, const struct op_reply *reply);
void rights_compare_refused(struct registry *r, const struct op_reply *reply);
/* The same of the node itself. */
void rights_node_refused(struct registry *r, const struct op_reply *reply);
/* Ends the waiting of all who have nothing to wait for, or whose time is over. */
void sync_settle(struct registry *r);

#endif
