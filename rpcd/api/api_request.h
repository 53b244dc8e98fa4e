/*
 * One HTTP request on its way through rpcd: what the transport read, what the handler works with, and
 * the answer.  No sockets here, so handlers are tested without any.
 *
 * Life: the transport fills in method, target and headers and calls api_begin(); gives the body to
 * request_body(); calls api_run(); then either `answered` is set already or `ready` will be called later, once.
 * api_end() ends it at any time: what is under way is cancelled.
 */
#ifndef TV_RPCD_API_API_REQUEST_H
#define TV_RPCD_API_API_REQUEST_H

#include <sys/queue.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/mono.h"
#include "common/record/ops.h"
#include "rpcd/api/params.h"

#define ANSWER_HEADERS_MAX 24		/* our own; response_headers of the configuration come on top */

struct acl_rights;		/* rpcd/acl/resolver.h */
struct acl_wait;
struct api;
struct endpoint;
struct route_call;
struct cache_wait;		/* rpcd/cache/cache.h */
struct filter;			/* common/filter/filter.h */
struct render;			/* rpcd/api/render.c */
struct audit_note;		/* rpcd/api/audit.h */
struct request;

struct answer_header {
	const char *name;		/* static, or in the arena */
	const char *value;
};

struct answer {
	unsigned status;		/* 100..599 */
	struct answer_header *headers;	/* ANSWER_HEADERS_MAX, in the arena; NULL: none yet */
	unsigned header_count;
	struct buf body;
};

/* What the transport read.  Borrowed; lives as long as the request. */
struct request_head {
	const char *method;		/* "GET" */
	struct span target;		/* as sent, still encoded */
	const char *host;		/* headers; NULL when absent */
	const char *origin;
	const char *fetch_site;		/* Sec-Fetch-Site */
	const char *accept;
	const char *accept_encoding;
	const char *token;		/* X-Consul-Token */
	const char *authorization;
	const char *cache_control;
	const char *tenant_namespace, *tenant_partition;	/* X-Consul-Namespace, X-Consul-Partition */
	const char *client_ip;		/* NULL: not over TCP */
	uint64_t body_announced;	/* Content-Length; 0: none, or chunked */
	bool on_loopback;		/* came in over TCP at a loopback address */
	bool on_socket;			/* came in over the unix socket */
	bool on_tls;			/* came in sealed */
	const char *peer_san;		/* the name in the client's certificate; NULL: none was shown */
	int64_t uid;			/* of the client there; -1: not known */
};

struct request {
	struct api *api;
	struct request_head head;
	const struct endpoint *endpoint;	/* NULL: none matches */
	struct arena arena;
	struct span path;		/* decoded and clean */
	struct span rest;		/* behind the endpoint's prefix: a key, a name, an id */
	struct params query;
	struct mono begun;

	struct buf body;
	uint64_t body_bytes;		/* read so far, kept or not */
	uint64_t body_max;		/* what does not fit is counted and dropped; then body_bytes > body_max */

	struct op_request op;		/* dc, mode, index... from the query */
	struct route_call *call;	/* under way */
	struct cache_wait *cached;	/* the same, of the cache */
	bool only_passing;		/* of a list of instances that ?cached gave, those whose checks pass */
	/* Continues with the router's answer. */
	void (*finish)(struct request *r, const struct op_reply *reply);
	/* Takes back what is under way besides `call`; called once, or never.  NULL: nothing is. */
	void (*cancel)(struct request *r);
	struct acl_rights *rights;	/* of its token, as far as its endpoint asks for them; NULL: none */
	uint8_t judged;			/* rpcd/api/access.c */
	bool unjudged;			/* by no server, but acl.down_policy */
	bool is_root;			/* root here, with no token that a server judged: has agent_master's rights */
	struct acl_rights *other_rights;	/* of the token that api_ask_rights() was given; NULL: none are known */
	bool other_unknown;		/* that token is none */
	bool hidden;			/* the answer leaves out what the token may not read */
	struct acl_wait *asked_rights;	/* under way */
	void (*go_on)(struct request *r);	/* with them */
	struct filter *filter;		/* of ?filter, or NULL; freed by api_end */
	struct mono filter_end;		/* when it must be done; zero: not begun */
	struct render *render;		/* rpcd/api/render.c: the answer in the making */
	struct audit_note *audit;	/* what the trail will say of it, in the arena; NULL: nothing yet */
	void *state;			/* the handler's own, from the arena */
	uint64_t id;			/* never reused: a note (api.h) finds the request again by it */

	struct answer answer;
	uint64_t answer_bytes;		/* of its body, as it is sent, once it is finished; of a stream so far */
	bool answered;
	bool running;			/* the transport's: within api_run() */
	bool folded;			/* api_fold() */
	bool token_in_clear;		/* and was refused for that (rpcd/api/gates.c) */
	void *kept;			/* the target since then; owned */
	size_t (*stream)(struct request *r, void *dst, size_t max);	/* see answer_stream(); NULL: it ended */
	uint64_t stream_bytes;		/* of the whole stream; 0: it has no end, or none that is known */
	/*
	 * A body that is taken as it comes (BODY_STREAM): how many of these bytes were taken; when fewer than n,
	 * r->ready(r) tells that more will be.  feed_end: it is complete.  Not called any more once `answered` is set.
	 */
	size_t (*feed)(struct request *r, const void *bytes, size_t n);
	void (*feed_end)(struct request *r);
	uint64_t accounted;		/* bytes of a large answer, counted in api->answers_bytes */
	struct buf scratch;		/* arguments on their way out; pretty or packed body */

	/* The transport's. */
	/* The answer is complete, or its stream has more; not from within api_run(). */
	void (*ready)(struct request *r);
	/*
	 * Is this reply of the router (route_reply_number) rendered already, for the same question?  Then the request
	 * has its answer, and is ready.  NULL: never.
	 */
	bool (*again)(struct request *r, uint64_t reply_number);
	void (*sent)(void *ctx);	/* set by a handler: called after the answer has left or the client has gone */
	void *sent_ctx;
	void *transport;
	struct request *next;		/* of those that it keeps for later */
	char ip[46];			/* of head.client_ip */
	LIST_ENTRY(request) live;	/* api.h: between api_begin() and api_end() */
};

#define REQUEST_ARENA_MAX (64u << 20)

/* Empties a zeroed or used request, keeping small buffers for reuse; tokens and keys are wiped. */
void request_reset(struct request *r);
/* Frees everything that it holds, wiped likewise. */
void request_done(struct request *r);
/* Takes a part of the body. */
void request_body(struct request *r, const void *bytes, size_t n);

/* The next piece of an answer whose `stream` is set, which is counted: see there. */
size_t request_read_stream(struct request *r, void *dst, size_t max);

/* What stands for "%.*s" in a format. */
#define SPAN_ARGS(span_) (int)(span_).len, (const char *)(span_).p

/* -- answers; the last call of a handler -- */
/* text/plain, no newline added.  status 200 included. */
void answer_text(struct request *r, unsigned status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void answer_span(struct request *r, unsigned status, struct span text);
/* Status and headers only. */
void answer_empty(struct request *r, unsigned status);
/* application/json from what is in answer.body. */
void answer_json(struct request *r);
/* The same with another status. */
void answer_json_status(struct request *r, unsigned status);
/* JSON text as it stands: answer_json_text(r, "true"). */
void answer_json_text(struct request *r, const char *json);
/* 200 with other bytes of this type from answer.body. */
void answer_body(struct request *r, const char *type);
/*
 * 200 with a body without end.  read is asked for bytes whenever the client takes some; when it returns 0, r->ready(r)
 * tells of more.  It ends when the client goes, or rpcd: r->cancel is called, and nothing is read any more.
 */
void answer_stream(struct request *r, const char *type, size_t (*read)(struct request *r, void *dst, size_t max));
/* Any status, with what is in answer.body and the headers given so far. */
void answer_finish(struct request *r, unsigned status);
/* Adds a header before the answer is finished. name: static. */
void answer_header(struct request *r, const char *name, const char *value);
/* The same with a number, and with a formatted text: without memory the answer goes without it. */
void answer_header_u64(struct request *r, const char *name, uint64_t v);
void answer_headerf(struct request *r, const char *name, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
