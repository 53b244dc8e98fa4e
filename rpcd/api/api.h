/*
 * The HTTP API: a table of endpoints, and the three steps of each request: parse into an operation,
 * hand it to the router, render the reply by its schema.
 */
#ifndef TV_RPCD_API_API_H
#define TV_RPCD_API_API_H

#include <ev.h>
#include <jansson.h>
#include <sys/queue.h>

#include "common/base/histogram.h"
#include "common/base/log.h"
#include "common/conf/cluster_conf.h"
#include "rpcd/acl/resolver.h"
#include "rpcd/api/api_request.h"
#include "rpcd/api/accounts.h"
#include "rpcd/api/buckets.h"
#include "rpcd/api/endpoint.h"
#include "rpcd/api/limits.h"
#include "rpcd/event/waits.h"
#include "rpcd/gossip/members.h"
#include "rpcd/node/admin.h"
#include "rpcd/opts.h"
#include "rpcd/route/route.h"

struct registry;		/* rpcd/registry/registry.h */
struct events;			/* rpcd/event/events.h */
struct queries;			/* rpcd/event/queries.h */
struct log_streams;		/* rpcd/node/log_streams.h */
struct gzip;			/* rpcd/api/gzip.h */
struct cache;			/* rpcd/cache/cache.h */
struct host;			/* rpcd/api/v1/host.h */
struct dns_explainer;		/* rpcd/names/dns_explain.h */
struct trail;			/* rpcd/audit/trail.h */
struct failovers;		/* rpcd/route/failover.h */

struct audit_wait;		/* rpcd/api/audit.h */

struct api {
	const struct rpcd_conf *conf;		/* all borrowed */
	const struct cluster_conf *cluster;
	struct route *route;
	struct failovers *failovers;
	struct acl_resolver *acl;		/* NULL: access control does not hold */
	struct agent_tokens *tokens;		/* NULL: none */
	struct members *members;
	struct admin *admin;
	struct registry *registry;
	struct events *events;
	struct queries *queries;
	struct log_streams *log_streams;
	struct cache *cache;			/* NULL: ?cached is ignored */
	struct gzip *gzip;			/* NULL: answers are not compressed */
	const struct host *host;
	struct dns_explainer *dns_explainer;
	struct trail *trail;			/* the audit trail; NULL: none */
	/*
	 * For the trail, finds the AccessorID of this token, borrowed for the call; "": of requests without one.  Calls
	 * audit_know() with it, now or later but before api_done(), once.  NULL: it cannot be found.
	 */
	void (*accessor)(void *ctx, struct span token, struct audit_wait *wait);
	void *accessor_ctx;
	LIST_HEAD(, audit_wait) audit_waiting;	/* lines that wait for it */
	unsigned audit_waiting_count;
	bool (*leads)(void *ctx);		/* is this node's raftd the leader?  NULL: it has none */
	void *leads_ctx;
	void (*quit)(void *ctx);		/* after a successful leave was answered; may be NULL */
	void *quit_ctx;
	enum tv_err (*reload)(char *errbuf, size_t cap);	/* reads the configuration again; may be NULL */
	struct ev_loop *loop;			/* api_render_start(); NULL: large answers are rendered at once */
	ev_timer render_turn;
	struct render *renders;			/* large answers in the making, the next one first */
	struct log_limit asked;			/* lines that say who administers */
	struct log_limit token_in_query, token_in_clear;	/* lines that say who sends tokens so */
	struct log_limit clear_lines;		/* those about refused tokens, of all sources */
	struct buckets clear_told;		/* and of each: rpcd/api/gates.c */
	struct limits limits;
	struct accounts accounts;
	struct mono began;			/* when it was made */
	struct log_limit fields_ignored;	/* lines that name unknown fields of bodies */
	uint64_t next_id;			/* of requests */
	LIST_HEAD(, note) notes;		/* of questions under way */
	uint64_t answers_bytes;			/* of large answers that wait to be sent */
	LIST_HEAD(, request) live;		/* those between api_begin() and api_end() */
	LIST_HEAD(, parked) parked;		/* those of them that wait for long: park.h */
	struct api_stats {
		uint64_t requests, errors, cancelled, denied;	/* denied: by access control, here */
		uint64_t clear_refused, gate_refused;	/* secrets in clear; http_config (rpcd/api/gates.c) */
		unsigned live;
		struct histogram took;	/* from the head to the end of the answer */
	} stats;
};

/* From now on large answers are rendered in turns of this loop. */
void api_render_start(struct api *api, struct ev_loop *loop);
/* Takes up a request whose head is filled in.  Afterwards body_max is set; `answered` may be. */
void api_begin(struct api *api, struct request *r);
/* The body is complete.  Answers now, or calls r->ready later. */
void api_run(struct request *r);
/* The request is over: answered and sent, or its client went away. */
void api_end(struct request *r);
/*
 * A request that is going to wait for long, and maybe thousands with it: forgets what its target tells as well, until
 * the reply comes.  Of the head's strings those that may be needed then are copied, the others are gone; true.  False:
 * no memory, nothing was changed.
 */
bool api_fold(struct request *r);
/* The router's answer is there: its route_done, with the request as ctx. */
void api_replied(void *ctx, const struct op_reply *reply);
/* The client went away: takes back what is under way for it. */
void api_cancel(struct request *r);
/* Frees what is left of questions that were never answered.  After that no callback may come. */
void api_done(struct api *api);
/*
 * For questions that cannot be taken back (admin.h, registry.h): their ctx is a note, which finds its request
 * again if that still lives.
 */
struct note {
	LIST_ENTRY(note) link;
	struct api *api;
	uint64_t id;
};
/* NULL: no memory. */
struct note *note_new(struct request *r);
/* The request of a note, or NULL: it has ended. */
struct request *note_request(const struct note *n);
void note_free(struct note *n);
/* Both. */
struct request *note_take(struct note *n);

#define INFO_NAME_BYTES_MAX 4096	/* of a section of admin_info(), or of a name in one */

/*
 * Refuses with 403 what a browser was tricked into (rpcd/api/browser_guard.c): a public name as Host at a loopback
 * listener, or at any once http_hosts is set, and what another site's page sends.  Programs notice nothing.
 */
bool api_browser_guard(struct request *r);
/*
 * Refuses with 403 what administers and came over TCP, unless http_admin is on, or access control holds: then the
 * rights of the token decide (rpcd/api/browser_guard.c).
 */
bool api_may_administer(struct request *r);
/*
 * Refuses with 403 a token that came in clear from or to another machine (rpcd/api/gates.c).  Before anything else of
 * the request is looked at; path and query are those of its target.  False: answered.
 */
bool api_token_gate(struct request *r, struct span path, struct span query);
/*
 * The same of one that was found in the body, which may be empty, or "<hidden>", as it is shown in the place of one.
 * Before it is used.  False: answered.
 */
bool api_body_token_gate(struct request *r, struct span token);
/* Refuses with 403 what http_config shuts, and other secrets in clear; the endpoint is known.  False: answered. */
bool api_gates(struct request *r);
/*
 * Gets the rights of the request's token, checks what its row needs, and calls go_on, now or later; or answers.  May be
 * called again after a long wait (rpcd/api/access.c).
 */
void api_judge(struct request *r, void (*go_on)(struct request *r));
/* Forgets them. */
void api_access_end(struct request *r);
/*
 * Refuses with 400 a request whose query or headers name a namespace, a partition, a peer or a sameness group
 * (rpcd/api/tenancy.c).  False: answered.
 */
bool api_tenancy(struct request *r);
/* The same of a body: false, and a sentence in why, if one of its records names one. */
bool api_tenancy_body(json_t *body, char *why, size_t cap);
/* The sentence about a field of bodies that names one; NULL: it is none of these. */
const char *api_tenancy_field(const char *name);
/*
 * Gets the rights of another token than the request's, into r->other_rights, and calls go_on, now or later; in any
 * case, also where they cannot be known.  From an endpoint's run, once (rpcd/api/access.c).
 */
void api_ask_rights(struct request *r, struct span token, void (*go_on)(struct request *r));
/* Warns of a token in the URL, or as plaintext over the network, from time to time. */
void api_warn_of_token(struct request *r);
/* Does Consul serve this path, and this version does not?  And the paths in turn, NULL at the end (not_served.c). */
bool is_not_served(struct span path);
const char *not_served_at(unsigned i);
/* Logs a request that is over, after this time, at debug level (rpcd/api/request_log.c). */
void request_log(const struct request *r, struct mono took);

/* What api_fold() has forgotten is there again.  False: no memory. */
bool api_unfold(struct request *r);

/* -- for handlers -- */
/* A path parameter; empty: answers 400 with this text and returns false. */
bool api_need_rest(struct request *r, const char *text_if_missing);
/*
 * Reads consistency, blocking and dc parameters into r->op.  On an error answers 400 and returns false.
 * catalog: discovery_max_stale applies.
 */
bool api_query(struct request *r, bool catalog);
/* ?cached and ?consistent, where there is a cache: answers 400 and returns false. */
bool api_cached_fits(struct request *r);
/* Only ?wait and ?index.  On an error answers 400 and returns false. */
bool api_query_blocking(struct request *r);
/* Only ?dc. */
void api_query_dc(struct request *r);
/*
 * Compiles ?filter for the records that the answer lists.  On an error answers 500 with the API's text and query
 * headers, and returns false.
 */
bool api_filter(struct request *r, const struct schema *s);
/* The same with this text before the reason, and without query headers. */
bool api_filter_plain(struct request *r, const struct schema *s, const char *before);
/* Does this record pass ?filter?  After an error false for all. */
bool api_passes(struct request *r, struct span packed);
/* Such an error: answers it and returns true. */
bool api_filter_failed(struct request *r);
/* Is Cache-Control one that can be read?  Else answers 400, and returns false (rpcd/api/cached.c). */
bool api_cache_control(struct request *r);
/* Is this request to be answered from the cache? */
bool api_wants_cached(const struct request *r);
/*
 * Answers from the cache, now or later, by r->finish.  False: the cache has no room, and the servers are to be asked.
 */
bool api_start_cached(struct request *r, enum op_code op, const void *args);
/* Do all checks of this packed health_entry pass? */
bool api_is_passing(struct span packed);
/*
 * Hands op with these arguments to the cache, where the row and the query say so, or else to the router; finish gets
 * the reply.  On failure the answer is made here.
 */
void api_start(struct request *r, enum op_code op, const void *args,
    void (*finish)(struct request *r, const struct op_reply *reply));
/* Only makes r->op of them, for the caller to start it.  False: answered. */
bool api_pack(struct request *r, enum op_code op, const void *args);
/* It could not be started: too much is under way. */
void api_busy(struct request *r);
#define API_BUSY "rpc error making call: too many requests under way (see limits.calls_pending_max and " \
	"limits.calls_bytes_max)"
/* From a finish function: the same write in another datacenter, since nothing was done here. */
void api_start_again(struct request *r, struct span dc);
/* Are datacenter and token of r->op as short as an operation can carry them?  Else answers, and returns false. */
bool api_names_fit(struct request *r);
/* The status for an error of the servers: Consul's is 403 for what is not permitted, and 500 for all else. */
unsigned api_error_status(enum tv_err err);
/* A reply with an error: answers it (500 with its sentence, 403...) and returns true. */
bool api_failed(struct request *r, const struct op_reply *reply);
/* Query headers of a read; consistency: also X-Consul-Effective-Consistency. */
void api_headers(struct request *r, const struct op_reply *reply, bool consistency);
/* Those of what failed without an answer of a server, which has no news of a leader either. */
void api_refused_headers(struct request *r);
/* "leader", "consistent" or "stale": how r->op reads. */
const char *api_consistency(const struct request *r);
/* Those of them alone that tell of the leader. */
void api_contact_headers(struct request *r, const struct op_reply *reply);
/* 200 with the reply's value as JSON: a record or a list, by the operation; of a list what passes the filter. */
void api_json(struct request *r, const struct op_reply *reply);
/* Answers 500: a reply is not what its operation promises. */
void api_malformed(struct request *r);
/* Answers 200 with the JSON in answer.body, or, after an error of what wrote it from a reply, api_malformed(). */
void api_rendered(struct request *r, enum tv_err err);
/* A comma, and the fields that say how something was read, Index to NotModified; level: ConsistencyLevel. */
void api_put_query_meta(const struct request *r, const struct op_reply *reply, const char *level, struct buf *out);
/*
 * Answers 200 with a list of such records, a reply's value, as JSON: those that pass the filter.  A large one is
 * rendered in slices, and the answer comes later (rpcd/api/render.c).
 */
void api_render_list(struct request *r, const struct schema *s, struct span list);
/*
 * The same behind what is in the answer already; this text comes after it, and is copied.  dc: the datacenter that the
 * records are of; empty: our own.
 */
void api_render_list_before(struct request *r, const struct schema *s, struct span list, struct span dc,
    const struct buf *after);
/* Are addresses in such records of this datacenter translated?  dc may be empty: our own (rpcd/api/translate.c). */
bool api_translates(const struct request *r, const struct schema *s, struct span dc);
/* As schema_json(); translate: with translated addresses. */
enum tv_err api_record_json(const struct schema *s, bool translate, struct rd *in, struct buf *out);
/* The same with the names of a packed text_list; not_found: 404 if there is none. */
void api_render_names(struct request *r, struct span record, bool not_found);
/* Unpacks the reply's record (OP_ONE); false: answered 500. */
bool api_record(struct request *r, const struct op_reply *reply, const struct schema *s, void *rec);
/*
 * A read of what this node has in memory, which may wait for news: calls `show` now, and again when there are news or
 * the time of ?wait is over, each time with the rights that the token has then.  From an endpoint's run; it takes
 * r->state.
 */
struct local_read {
	struct wait wait;
	struct mono deadline, left;
	bool is_over;
	void (*show)(struct request *r);
};
void api_read_local(struct request *r, void (*show)(struct request *r));
/*
 * From `show`, which has no news: what it waits by, `left` at most, to be given to events_wait() or its like with
 * api_news() and the request.  NULL: the time is over, and it has to answer.
 */
struct local_read *api_may_wait(struct request *r);
void api_news(void *ctx, bool timed_out);
/* Of a question to gossipd or raftd: ?wan, ?wan=1; not ?wan=0. */
enum gossip_pool api_pool(const struct request *r);
/* Such a question could not even be asked: frees the note (or NULL) and answers. */
void api_not_asked(struct request *r, struct note *n, enum tv_err err);
/* Next entry of a list that admin_coords() gave; spans borrow it, numbers come from the arena. */
struct node_coordinate;
enum tv_err api_read_coord(struct rd *in, struct arena *a, struct node_coordinate *out);
/* A datacenter named in a body, as api_query_dc() stores it: empty for our own. */
struct span api_body_dc(const struct request *r, struct span given);
/*
 * Body as JSON into rec by its schema.  An empty body: `optional` decides.  On an error answers
 * 400 "Request decode failed: ..." (or 413) and returns false.
 */
bool api_decode(struct request *r, const struct schema *s, unsigned flags, bool optional, void *rec);
/* The same of a body that has to be there, with a refusal that begins with these words. */
bool api_decode_as(struct request *r, const struct schema *s, const char *before, void *rec);
/* The same; `edit` may change the body before, or refuse it: false, and why. */
bool api_decode_edited(struct request *r, const struct schema *s, unsigned flags, bool optional,
    bool (*edit)(json_t *body, char *why, size_t cap), void *rec);
/* Are all names of a record fit to be kept (schema_names_fit())?  If not, answers 400. */
bool api_names_clean(struct request *r, const struct schema *s, const void *rec);
/*
 * A number of the query, if it is there.  False: it is none, which was answered with this status and these words before
 * the API's sentence.
 */
bool api_number(struct request *r, const char *name, unsigned status, const char *before, uint64_t *v);
/* 413 when the body did not fit; then returns true. */
bool api_too_large(struct request *r, const char *limit_name);
/* X-Consul-Token and its other spellings, or else the agent's default token; may be empty. */
struct span api_token(const struct request *r);
/* That of an Authorization header, or empty; NULL: there is none. */
struct span api_bearer_token(const char *authorization);
/* Without that of the agent. */
struct span api_shown_token(const struct request *r);
/* Nothing is refused to this request: access control does not hold. */
bool api_is_free(const struct request *r);
/* May this request do that?  Only where the endpoint's row says that it is asked so: see endpoint.h. */
bool api_may(const struct request *r, enum acl_resource resource, struct span name, enum acl_access need);
/* May it be read, as a record of a list?  If not, the list is one that leaves something out. */
bool api_shows(struct request *r, enum acl_resource resource, struct span name);
/* Says so in a header, as Consul since 1.11, unless no token was shown. */
void api_filtered_header(struct request *r);
/* The same; if not, answers 403 "Permission denied", and returns false. */
bool api_must(struct request *r, enum acl_resource resource, struct span name, enum acl_access need);
/* Write; if not, the answer says what is missing. */
bool api_must_write(struct request *r, enum acl_resource resource, struct span name);

#endif
