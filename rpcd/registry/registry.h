/*
 * What is registered on this node: services and checks in one table, which is the truth for this node's part of the
 * catalog.  The core (registry.c, registry_sync.c) does no I/O: clock, catalog, file and timer are handed in.
 *
 * A change goes to the catalog at once; a service takes the checks with it that have its token, and goes before its
 * other checks.  A change of output alone may wait for update_interval.  Every sync_interval (and a random part of it),
 * and 15 to 30 seconds after something failed, the catalog is compared: what it lacks or has differently is sent, what
 * is not registered with this agent is removed, but for serfHealth and the service consul.  So is the node itself: once
 * the leader has it in the catalog, its tagged addresses and metadata are written by the agent, with its own token.
 *
 * A request shows the token of its entry.  What was taken once is also removed, and the status of a check kept true,
 * when that token has ended or lost its rights: with the token of the check's service, then with the agent's own.  A
 * service whose check is critical, which no token may say in the catalog, is taken out of the catalog with the agent's
 * token, until it may be registered again.  What a server refuses to all of them is left alone until the next
 * comparison, and told by registry_blocked().
 */
#ifndef TV_RPCD_REGISTRY_REGISTRY_H
#define TV_RPCD_REGISTRY_REGISTRY_H

#include <string.h>
#include <strings.h>

#include "common/base/mono.h"
#include "common/conf/cluster_conf.h"
#include "common/record/ops.h"
#include "common/record/records.h"
#include "rpcd/acl/tokens.h"

struct registry;
struct entry;
struct route;				/* rpcd/route/route.h: opaque here */
struct route_call;

typedef void registry_reply(void *ctx, const struct op_reply *reply);

enum entry_kind { ENTRY_SERVICE, ENTRY_CHECK };

struct local_record {			/* one entry as it is registered */
	enum entry_kind kind;
	union {
		struct service service;		/* Weights of 0 and 0 become 1 and 1 */
		/* Node, ServiceName and ServiceTags are filled in; the file keeps no Definition and ExposedPort. */
		struct check check;
	};
	struct span token;			/* for requests about it; <= OP_NAME_BYTES_MAX, may be empty */
	bool sidecar;				/* a service that came with, and goes with, the one it is named after */
	int64_t ttl;				/* ns, of a check; 0: none.  For the one who makes the check */
	struct check_run run;			/* of a check that this node runs; Kind is empty: it does not */
	int64_t deregister_after;		/* ns, of a check: critical for so long, its service goes; 0: never */
	bool from_file;				/* defined in services.d: it goes when its definition goes */
};

struct registry_conf {
	const char *node_name, *node_id, *address;	/* borrowed */
	const struct cluster_conf *cluster;	/* what own_node.h needs; borrowed; NULL: the node is not written */
	unsigned entries_max;		/* of each kind */
	uint64_t output_max;		/* bytes of output kept */
	struct mono sync_interval, update_interval;
	struct mono sync_wait;		/* see registry_settle */
	uint64_t seed;
	/* The world around it: clock_mono(); route_start() and route_cancel(). */
	struct mono (*now)(void);
	struct route_call *(*send)(struct route *route, const struct op_request *q, registry_reply *done, void *ctx);
	void (*cancel)(struct route_call *call);
	struct route *route;
	struct token_source token;	/* for what has none of its own */
	struct token_source file_token;	/* the same of what files define; "": as what they do not */
	/* registry_run() is to be called at this instant, and not at the one told before.  MONO_NEVER: not at all. */
	void (*due)(void *ctx, struct mono at);
	/* Something is unsaved (registry_print_changes()); durable: it must survive a crash. */
	void (*save)(void *ctx, bool durable);
	bool saves_later;		/* registry_saved() is called for what is durable; else save() has done it */
	void (*news)(void *ctx);	/* from registry_run(): a service is another one, or gone; may be NULL */
	unsigned (*members)(void *ctx);	/* of the cluster, which comparisons are spread over; NULL: few */
	void *ctx;
};

/* An empty table; it begins to compare after a second.  NULL: no memory. */
struct registry *registry_new(const struct registry_conf *conf);
/* Saves what is not saved yet, cancels what is under way. */
void registry_free(struct registry *r);
/* Does what is due. */
void registry_run(struct registry *r);
/*
 * A server came, or came back: the catalog is compared soon, within three seconds in a cluster of up to 128 members,
 * unless it would be sooner anyway.
 */
void registry_server_came(struct registry *r);

/* The agent's own token is another one now, maybe: the whole catalog is compared at once.  r may be NULL. */
void registry_token_changed(struct registry *r);

#define REGISTRY_WHY_BYTES 4096
struct registry_blocked {		/* by access control */
	unsigned count, total;		/* entries, and the node, whose last push was refused; all there are */
	unsigned outdated;		/* of count: those that are in the catalog, other than they are here */
	bool compare;			/* the catalog may not even be read */
	char first[REGISTRY_WHY_BYTES];	/* "service web1"; empty: none */
	/* "acl.tokens.agent lacks service \"web\" { policy = \"write\" }"; empty: nothing is blocked. */
	char why[REGISTRY_WHY_BYTES];
};
void registry_blocked(const struct registry *r, struct registry_blocked *out);
enum registry_standing {
	REGISTRY_UNKNOWN,		/* not compared since the start */
	REGISTRY_LISTED,		/* the catalog has this node, under its name and id */
	REGISTRY_KEPT_OUT,		/* it has another node of this name, or none */
};
/* What the newest comparison said of this node's entry.  While it is another node's, nothing is written there. */
enum registry_standing registry_standing(const struct registry *r);
/* What it said counts no more: it is unknown until the next comparison, which comes as after registry_server_came(). */
void registry_check_standing(struct registry *r);

struct registry_stats {			/* all since the start */
	uint64_t comparisons;		/* with the whole catalog of this node, that came to their end */
	uint64_t comparisons_failed;	/* tried again within half a minute */
	uint64_t differences;		/* services and checks that a comparison found missing, different or too many */
	uint64_t pushes;		/* writes to the catalog */
	uint64_t pushes_failed;		/* refused ones included */
	uint64_t outputs_deferred;	/* changes of output alone that had to wait for update_interval */
};
void registry_stats(const struct registry *r, struct registry_stats *out);

/*
 * Who runs the checks.  Called for each entry that is there now or is put later (each time), and with rec NULL when it
 * goes.  Returns what registry_user() is to give from then on; the first time user is NULL.
 */
typedef void *registry_user_fn(void *ctx, struct entry *e, void *user, const struct local_record *rec);
void registry_use(struct registry *r, registry_user_fn *fn, void *ctx);
void *registry_user(const struct entry *e);

/*
 * Who wants to know what changes: an entry of this service (of the node: empty) is put, says something else, or goes.
 * May not call the registry.
 */
typedef void registry_watch_fn(void *ctx, struct span service);
void registry_watch(struct registry *r, registry_watch_fn *fn, void *ctx);

/* Ids of checks: of maintenance, the second with a service's id behind it; of what the leader makes of each member. */
#define NODE_MAINTENANCE "_node_maintenance"
#define SERVICE_MAINTENANCE "_service_maintenance:"
#define SERF_HEALTH "serfHealth"
/*
 * Is this id one of those?  In any case: the catalog compares ids without it.  No check that a client or a file defines
 * may have one.
 */
static inline bool
check_id_reserved(struct span id)
{
	static const struct { const char *text; bool whole; } ids[] = {
		{ SERF_HEALTH, true }, { NODE_MAINTENANCE, true }, { SERVICE_MAINTENANCE, false },
	};

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		size_t n = strlen(ids[i].text);

		if ((ids[i].whole ? id.len == n : id.len >= n) &&
		    strncasecmp((const char *)id.p, ids[i].text, n) == 0)
			return true;
	}
	return false;
}

static inline struct span
local_record_id(const struct local_record *rec)
{
	return rec->kind == ENTRY_SERVICE ? rec->service.ID : rec->check.CheckID;
}

/* Is it a status that a check may have? */
static inline bool
entry_is_status(struct span text)
{
	return span_eqs(text, "passing") || span_eqs(text, "warning") || span_eqs(text, "critical");
}

#define SIDECAR_SUFFIX "-sidecar-proxy"	/* of the id of a sidecar, behind that of its service */

/*
 * Adds or replaces, and saves; rec is copied.  A check that was there keeps its status and output; a new one is
 * critical unless it says otherwise.  TV_EINVAL: no id; TV_ENOENT: a check of a service that is not here; TV_ELIMIT:
 * entries_max; TV_ENOMEM.
 */
enum tv_err registry_put(struct registry *r, const struct local_record *rec);
/*
 * The same of a service with n of its checks, in one write of the file and one of the catalog; replace: those of its
 * checks that are not among these go.  In checks ServiceID is that of the service.  Nothing changes on an error, but
 * for TV_ENOMEM, which may come in the middle.
 */
enum tv_err registry_put_service(struct registry *r, const struct local_record *service,
    const struct local_record *checks, uint32_t n, bool replace);
struct registry_definition {		/* what a file says */
	struct local_record rec;	/* from_file is set */
	struct span place;		/* "/etc/triumvir/services.d/web.conf:3" */
	uint32_t order;			/* of the files and in them: for def_set.c */
};
/*
 * Could these be all that files define?  They are in order: services, then checks, each bytewise by id; each id once.
 * TV_ELIMIT: more than entries_max with what else is registered; TV_ENOENT: a check of a service that is neither among
 * them nor stays.  why has a sentence then.
 */
enum tv_err registry_definable(struct registry *r, const struct registry_definition *v, uint32_t n, char *why,
    size_t cap);
enum registry_change { DEFINED_NEW, DEFINED_OTHER, DEFINED_GONE };
/*
 * From now on these are what files define.  What they no longer define goes, with the checks of its services; what is
 * as it was is not touched; a check that was there keeps its status and output, also if a client registered it.  told
 * is called for each change, place empty for what goes.  One write of the file.  push: the catalog is told at once;
 * else by the next comparison.  Those that are not possible (see registry_definable()) are left out, with an error in
 * the log.
 */
void registry_define(struct registry *r, const struct registry_definition *v, uint32_t n, bool push,
    void (*told)(void *ctx, enum registry_change change, enum entry_kind kind, struct span id, struct span place),
    void *ctx);
/* A service goes with its checks and its sidecar.  TV_ENOENT. */
enum tv_err registry_remove(struct registry *r, enum entry_kind kind, struct span id);
/* NULL: not here.  Good until the entry is removed. */
struct entry *registry_find(struct registry *r, enum entry_kind kind, struct span id);
/*
 * Another entry whose id differs from this one by case alone: the catalog compares ids without case, and can hold one
 * of the two only.  NULL: there is none.
 */
struct entry *registry_alike(struct registry *r, enum entry_kind kind, struct span id);
/* Sets status and output (cut after output_max bytes) of a check; saves within a second.  TV_EINVAL: no such status. */
enum tv_err registry_update(struct entry *check, struct span status, struct span output);
/* Spans are good until the next call of this registry.  False: no memory. */
bool registry_get(const struct entry *e, struct local_record *out);
/* Each entry of a kind in order of registration; fn may not call the registry. */
void registry_each(struct registry *r, enum entry_kind kind, void (*fn)(void *ctx, const struct local_record *rec),
    void *ctx);
/* The same of the checks of the node and of this service. */
void registry_checks_of(struct registry *r, struct span service, void (*fn)(void *ctx, const struct local_record *rec),
    void *ctx);
unsigned registry_count(const struct registry *r, enum entry_kind kind);
/*
 * Calls done when the catalog has this entry as it is now (or a request failed, or sync_wait passed): at once if there
 * is nothing to wait for.  So a client that changes an entry sees the effect, and a cluster without leader delays no
 * client for long.  What was to be durable before this call is, then, or could not be written.  done is called exactly
 * once; by registry_free at the latest.
 */
void registry_settle(struct registry *r, enum entry_kind kind, struct span id, void (*done)(void *ctx), void *ctx);

/* Did anything change that save() was told of and registry_print_changes() has not printed? */
bool registry_unsaved(const struct registry *r);
void registry_all_saved(struct registry *r);
/* Of the last durable save(): what was told up to it is durable once registry_saved() is called with it. */
uint64_t registry_save_ticket(const struct registry *r);
void registry_saved(struct registry *r, uint64_t ticket);

/* -- registry_file.c -- */
/* Fills an empty table.  A file that makes no sense is renamed to PATH.bad, and the log says why. */
void registry_load(struct registry *r, const char *path);
/*
 * What the file says; and back, into a table.  TV_EFORMAT with a reason: nothing is taken.  Single entries that make no
 * sense are left out, with a warning that names path.
 */
void registry_print(struct registry *r, struct buf *out);
enum tv_err registry_parse(struct registry *r, struct span text, const char *path, char *why, size_t cap);
/* What is unsaved, as JSON, which is saved then; and back, over what a file said.  False: it makes no sense. */
void registry_print_changes(struct registry *r, struct buf *out);
bool registry_replay(struct registry *r, struct span text, const char *path);

#endif
