/*
 * The table of endpoints.  A row is one method of one path: who may ask, how much of a body it takes, which parts of
 * the request become which arguments of which operation, and how its reply becomes the answer.  Where that is not
 * enough it has a function.  405 and Allow, limits of bodies and http_admin follow from the rows; check_api walks them.
 *
 * A row with an operation and without `run` is served like this, and each step may answer:
 *   query, missing, flags		options of the query, the rest of the path, ?filter
 *   body				BODY_JSON: the operation's arguments
 *   bind, check			arguments from the path, the query and the body; what else has to be right
 *   op					to the router
 *   finish, or flags, wrap and render	the reply
 */
#ifndef TV_RPCD_API_ENDPOINT_H
#define TV_RPCD_API_ENDPOINT_H

#include <stddef.h>

#include "rpcd/api/api_request.h"

/* How much of a body an endpoint takes. */
enum endpoint_body {
	BODY_NONE,		/* read and dropped */
	BODY_NONE_LIVE,		/* the same; the answer may be a stream */
	BODY_JSON,		/* body_bytes_max; without `run` it is decoded into the arguments */
	BODY_BYTES,		/* body_bytes_max, of any form */
	BODY_KEY,		/* the same; it, what is asked and the answer are wiped at the end */
	BODY_VALUE,		/* kv_max_value_size */
	BODY_TXN,		/* txn_max_req_len, or that if it is larger */
	BODY_STREAM,		/* snapshot_bytes_max; run is called before the body, sets r->feed and r->feed_end */
};

/*
 * Who may ask.  Each row decides; 0 is no decision (check_api).  While access control does not hold, anybody may, but
 * for ACCESS_ADMIN.
 */
enum endpoint_access {
	ACCESS_NONE = 1,	/* anybody, whatever the token: what it shows is no secret, and it changes nothing */
	ACCESS_OP,		/* decided by its operation (common/record/ops.h), where that is carried out */
	ACCESS_AGENT_READ,	/* agent:read on this node */
	ACCESS_AGENT_WRITE,
	ACCESS_OPERATOR_READ, ACCESS_OPERATOR_WRITE,
	ACCESS_KEYRING_READ, ACCESS_KEYRING_WRITE,	/* here, and again where it is carried out */
	ACCESS_NODE_WRITE,	/* node:write on this node */
	ACCESS_SHOWN,		/* anybody whose token is known: `run` leaves out what it may not read, by api_may() */
	ACCESS_NAMED,		/* `run` asks api_must() about what the request names */
	/*
	 * With one of the above: administers the cluster or a node, or shows its secrets.  While access control does
	 * not hold, over TCP refused unless http_admin is on.
	 */
	ACCESS_ADMIN = 64
};

/* Which options of the query are read before anything else. */
enum endpoint_query {
	QUERY_NONE,
	QUERY_DC,		/* ?dc */
	QUERY_READ,		/* the same, consistency and blocking */
	QUERY_CATALOG,		/* the same, and discovery_max_stale applies */
};

/* What becomes of a good reply. */
enum endpoint_render {
	RENDER_JSON,		/* its record or list, by the operation's schema */
	RENDER_VALUE,		/* the one value of a bool_reply or text_reply */
	RENDER_NAMES,		/* the list of a text_list */
	RENDER_EMPTY,		/* 200 without a body */
};

enum endpoint_flag {
	SHOW_INDEX = 1,		/* query headers */
	SHOW_MODE = 2,		/* with them X-Consul-Effective-Consistency */
	NOT_FOUND = 4,		/* an empty list is 404; of names only if the path said which */
	FILTERED = 8,		/* ?filter, compiled for `filter`, NULL: for the operation's answer */
	ANY_SERVER = 16,	/* asked with OP_STALE */
	STRICT = 32,		/* BODY_JSON: unknown fields are refused */
	COORDINATES = 64,	/* 401 while disable_coordinates is on */
	BARE_ALLOW = 128,	/* the Allow of a 405 is without OPTIONS; of the first row of a path */
	ANY_NAME = 512,			/* names in the path may have characters that cannot be printed: it removes */
	CACHED = 256,		/* ?cached answers from this node's cache; the operation is one of cache_takes() */
};

enum bind_kind {
	BIND_END,
	BIND_TEXT,		/* struct span: the first one of that name, or of several rows the last that is there */
	BIND_FLAG,		/* bool: is it there? */
	BIND_TEXTS,		/* struct span_list: all that are not empty */
	BIND_PAIRS,		/* struct span_map: all that are not empty, each "key:value" */
	BIND_NEAR,		/* ?near of a catalog_read: Near, or NearAddress */
	BIND_PATH,		/* struct span: the path behind the endpoint's */
	BIND_BODY,		/* struct span: the body, or 413 */
	BIND_DC,		/* struct span, read after the body: the datacenter that it names, without ?dc */
};

/* One field of the arguments; a list ends with BIND_END.  Made by the macros below, which know type and place. */
struct bind {
	enum bind_kind kind;
	uint16_t offset, size;		/* of the field; of the whole record, which has to be that of the operation */
	const char *name;		/* of the parameter */
};

#define BIND_(kind_, rec_, field_, name_) { (kind_), offsetof(struct rec_, field_), sizeof(struct rec_), (name_) }
#define FROM_PATH(rec_, field_) BIND_(BIND_PATH, rec_, field_, NULL)
#define FROM_BODY(rec_, field_) BIND_(BIND_BODY, rec_, field_, NULL)
#define FROM_BODY_DC(rec_) BIND_(BIND_DC, rec_, Datacenter, NULL)
#define FROM_NEAR(rec_) BIND_(BIND_NEAR, rec_, Near, "near")
#define FROM_QUERY(name_, rec_, field_) BIND_(_Generic(((struct rec_ *)0)->field_, struct span: BIND_TEXT, \
    bool: BIND_FLAG, struct span_list: BIND_TEXTS, struct span_map: BIND_PAIRS), rec_, field_, name_)
#define BIND(...) .bind = (const struct bind[]){ __VA_ARGS__, { .kind = BIND_END } }

/* Name, ?tag, ?node-meta and ?near of a catalog or health read. */
#define READ_CATALOG .query = QUERY_CATALOG, BIND(FROM_PATH(catalog_read, Name), \
    FROM_QUERY("tag", catalog_read, Tags), FROM_QUERY("node-meta", catalog_read, NodeMeta), FROM_NEAR(catalog_read))

struct endpoint {
	const char *path;	/* "/v1/kv/": everything below it; without a final slash: exactly this */
	const char *method;
	unsigned access;	/* enum endpoint_access */
	/*
	 * The row is for requests with this parameter.  Rows of one path stand together, those of one method too, and
	 * the last of these has none.
	 */
	const char *when;
	enum op_code op;	/* 0: none, or more than one */
	enum endpoint_body body;
	enum endpoint_query query;
	const char *missing;	/* sentence of a 400 when nothing follows the path; NULL: that is fine */
	const struct bind *bind;
	enum endpoint_render render;
	unsigned flags;		/* enum endpoint_flag */
	const struct schema *filter;
	const char *wrap;	/* RENDER_VALUE: {"wrap":value} */
	/*
	 * The row is for paths below its own that end with this ("/execute").  Rows of one ending stand together,
	 * before those for the rest, and have methods of their own.
	 */
	const char *ending;
	int arg;		/* for the functions, where several rows have the same */
	/* Does it all from bind on; may call api_ask(). */
	void (*run)(struct request *r);
	/* False: it has answered. */
	bool (*check)(struct request *r, void *args);
	/* In place of api_finish(), which it may call. */
	void (*finish)(struct request *r, const struct op_reply *reply);
};

/* The families: each a table of rows that ends with a NULL path, in a file of its own. */
#define ENDPOINT_FAMILIES(X) \
	X(api_kv) X(api_health) X(api_catalog) X(api_ui) X(api_session) X(api_agent) X(api_agent_self) \
	X(api_agent_checks) \
	X(api_agent_tokens) \
	X(api_agent_services) X(api_agent_health) X(api_agent_coord) \
	X(api_status) X(api_operator) X(api_autopilot) X(api_keyring) X(api_acl) X(api_acl_token) X(api_acl_policy) \
	X(api_acl_auth) X(api_event) X(api_queries) \
	X(api_monitor) X(api_metrics) X(api_coordinate) X(api_snapshot) X(api_txn) X(api_prepared) X(api_dns) \
	X(api_config) X(api_top)
#define X(name) extern const struct endpoint name[];
ENDPOINT_FAMILIES(X)
#undef X

/* Without ACCESS_ADMIN. */
static inline unsigned
endpoint_access(const struct endpoint *e)
{
	return e->access & (ACCESS_ADMIN - 1u);
}

/* The rows of one path. */
struct endpoint_path {
	const struct endpoint *rows;
	unsigned count;
	size_t len;			/* of the path */
	bool folder;			/* everything below it */
	struct endpoint_path *next;	/* of those that begin alike; the longer ones first */
};
/* Checks the table and makes it ready; before the first request. */
void endpoint_index(void);
/* The longest one that fits, or NULL. */
const struct endpoint_path *endpoint_find(struct span path);
/* The rows of it that this path is for, by its ending. */
struct endpoint_path endpoint_ending(const struct endpoint_path *p, struct span path);
/* The first row of this method, or NULL. */
const struct endpoint *endpoint_row(const struct endpoint_path *p, const char *method);
/* That row, or the one of its variants that the query asks for. */
const struct endpoint *endpoint_variant(const struct endpoint *e, const struct params *query);
/* "GET,PUT,DELETE". */
void endpoint_methods(const struct endpoint_path *p, struct buf *out);
/* Each row in turn; NULL at the end. */
const struct endpoint *api_endpoint(unsigned i);
/* How many there are, and which one this is: api_endpoint(endpoint_number(e)) == e.  After endpoint_index(). */
unsigned endpoint_count(void);
unsigned endpoint_number(const struct endpoint *e);
/* "GET /v1/kv/:name?recurse", cut to cap bytes. */
void endpoint_name(const struct endpoint *e, char *dst, size_t cap);

/* Serves r->endpoint: answers, or something is under way. */
void endpoint_run(struct request *r);
/* Starts the row's operation with these arguments; its finish, or api_finish(), gets the reply. */
void api_ask(struct request *r, const void *args);
/* Answers as the row says. */
void api_finish(struct request *r, const struct op_reply *reply);

#endif
