/*
 * Fakes of what the HTTP API stands on (router, view, administration, checks), linked in their place: a
 * test drives api_begin() and api_run() without sockets, sees the operation, and gives the reply.
 * For one test program each; everything here is static state of that program.
 */
#ifndef TV_TESTS_UNIT_API_FAKES_H
#define TV_TESTS_UNIT_API_FAKES_H

#include <errno.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/api/api.h"
#include "rpcd/api/gzip.h"
#include "rpcd/api/v1/host.h"
#include "rpcd/checks/checks.h"
#include "rpcd/event/events.h"
#include "rpcd/event/queries.h"
#include "rpcd/node/log_streams.h"
#include "rpcd/registry/registry_loop.h"

static struct fake {
	/* router */
	bool full;
	unsigned started, cancelled;
	uint8_t request[1 << 20];
	size_t request_len;
	struct op_request q;		/* of the newest request; spans into `request` */
	route_done *done;
	void *done_ctx;
	uint64_t reply_number;
	/* administration */
	enum tv_err admin_start;
	admin_done *admin_done;
	admin_info_done *info_done;
	admin_value_done *coords_done;
	admin_value_done *recover_done;
	void *admin_ctx;
	char admin_arg[256];
	bool admin_flag;
	enum gossip_pool admin_pool;
	/* view */
	const struct member *members;
	unsigned member_count;
	uint16_t call_type;
	uint8_t call[1 << 16];
	size_t call_len;
	calls_done *call_done;
	void *call_ctx;
	/* events and queries */
	const struct user_event *events;
	unsigned event_count;
	const struct heard *heard;
	unsigned heard_count;
	unsigned monitors, monitor_daemons;
	enum log_level monitor_level;
	bool monitor_json;
	struct wait *waiting;
	struct mono wait_time;
	/* checks */
	struct local_record registered;
	unsigned registered_checks;
	bool replaced;
	enum tv_err checks_err;
	char check_id[128], check_status[16], check_output[128];
	/* the daemon */
	unsigned quits, woken;
} fake;

uint64_t
route_reply_number(const struct route *r)
{
	(void)r;
	return fake.reply_number;
}

struct route_call *
route_start(struct route *r, const struct op_request *q, route_done *done, void *ctx)
{
	struct buf b = BUF_INIT(sizeof(fake.request));

	(void)r;
	if (fake.full)
		return NULL;
	op_request_write(&b, q);
	TV_ASSERT(!b.failed);
	memcpy(fake.request, b.data, b.len);
	fake.request_len = b.len;
	buf_done(&b);
	TV_ASSERT(op_request_read(span_of(fake.request, fake.request_len), &fake.q) == TV_OK);
	fake.started++;
	fake.done = done;
	fake.done_ctx = ctx;
	return (struct route_call *)(void *)&fake;
}

void
route_give(struct route_call *c, route_done *done, void *ctx)
{
	(void)c;
	fake.done = done;
	fake.done_ctx = ctx;
}

void
route_cancel(struct route_call *c)
{
	(void)c;
	fake.cancelled++;
}

void
route_stats(const struct route *r, struct route_stats *out)
{
	(void)r;
	*out = (struct route_stats){ .started = fake.started };
}

unsigned
members_count(const struct members *v, enum gossip_pool pool)
{
	(void)v;
	return pool == POOL_LAN ? fake.member_count : 0;
}

const struct member *
members_at(const struct members *v, enum gossip_pool pool, unsigned i)
{
	(void)v;
	(void)pool;
	return &fake.members[i];
}

const struct member *
members_find(const struct members *v, enum gossip_pool pool, struct span name)
{
	for (unsigned i = 0; i < members_count(v, pool); i++)
		if (span_eq(fake.members[i].name, name))
			return &fake.members[i];
	return NULL;
}

unsigned
members_datacenters(const struct members *v, struct span *out, unsigned max)
{
	(void)v;
	TV_ASSERT(max >= 2);
	out[0] = span_str("dc1");
	out[1] = span_str("dc2");
	return 2;
}

struct daemon_client *
members_daemon(struct members *v)
{
	(void)v;
	return NULL;
}

uint64_t
daemon_client_call(struct daemon_client *c, uint16_t type, struct span body, struct mono timeout, calls_done *done,
    void *ctx, enum tv_err *err)
{
	(void)c;
	(void)timeout;
	if (fake.full) {
		*err = TV_EUNREACH;
		return 0;
	}
	TV_ASSERT(body.len <= sizeof(fake.call));
	memcpy(fake.call, body.p, body.len);
	fake.call_len = body.len;
	fake.call_type = type;
	fake.call_done = done;
	fake.call_ctx = ctx;
	return 1;
}

void
daemon_client_cancel(struct daemon_client *c, uint64_t id)
{
	(void)c;
	TV_ASSERT(id == 1);
	fake.call_done = NULL;
}

unsigned
events_count(const struct events *e)
{
	(void)e;
	return fake.event_count;
}

const struct user_event *
events_at(const struct events *e, unsigned i)
{
	(void)e;
	return &fake.events[i];
}

static void
fake_wait(struct wait *w, struct mono timeout, void (*fn)(void *ctx, bool timed_out), void *ctx)
{
	TV_ASSERT(fake.waiting == NULL);
	w->fn = fn;
	w->ctx = ctx;
	fake.waiting = w;
	fake.wait_time = timeout;
}

/* What the newest wait waits for is there, or its time is over. */
static inline void
fake_wake(bool timed_out)
{
	struct wait *w = fake.waiting;

	TV_ASSERT(w != NULL);
	fake.waiting = NULL;
	w->fn(w->ctx, timed_out);
}

void
wait_stop(struct wait *w)
{
	TV_ASSERT(fake.waiting == w);
	fake.waiting = NULL;
}

void
events_wait(struct events *e, struct wait *w, struct mono timeout, void (*fn)(void *ctx, bool timed_out), void *ctx)
{
	(void)e;
	fake_wait(w, timeout, fn, ctx);
}

const struct heard *
queries_next(const struct queries *q, uint64_t number)
{
	(void)q;
	for (unsigned i = 0; i < fake.heard_count; i++)
		if (fake.heard[i].number > number)
			return &fake.heard[i];
	return NULL;
}

uint64_t
queries_newest(const struct queries *q)
{
	(void)q;
	return fake.heard_count > 0 ? fake.heard[fake.heard_count - 1].number : 100;
}

void
queries_wait(struct queries *q, struct wait *w, struct mono timeout, void (*fn)(void *ctx, bool timed_out), void *ctx)
{
	(void)q;
	fake_wait(w, timeout, fn, ctx);
}

struct log_stream *
log_stream_start(struct log_streams *m, enum log_level level, unsigned daemons, bool json, void (*wake)(void *ctx),
    void *ctx, enum tv_err *err)
{
	(void)m;
	(void)wake;
	(void)ctx;
	*err = TV_ELIMIT;
	if (fake.full)
		return NULL;
	fake.monitors++;
	fake.monitor_level = level;
	fake.monitor_daemons = daemons;
	fake.monitor_json = json;
	return (struct log_stream *)(void *)&fake;
}

size_t
log_stream_read(struct log_stream *w, void *dst, size_t max)
{
	(void)w;
	TV_ASSERT(max >= 5);
	memcpy(dst, "line\n", 5);
	return 5;
}

void
log_stream_stop(struct log_stream *w)
{
	(void)w;
	fake.monitors--;
}

static enum tv_err
fake_admin(struct span arg, admin_done *done, void *ctx)
{
	(void)span_copy(arg, fake.admin_arg, sizeof(fake.admin_arg));	/* too long: "" */
	fake.admin_done = done;
	fake.admin_ctx = ctx;
	return fake.admin_start;
}

enum tv_err
admin_join(struct admin *a, enum gossip_pool pool, struct span addr, admin_done *done, void *ctx)
{
	(void)a;
	fake.admin_pool = pool;
	return fake_admin(addr, done, ctx);
}

enum tv_err
admin_leave(struct admin *a, bool force, struct span token, admin_done *done, void *ctx)
{
	(void)a;
	fake.admin_flag = force;
	return fake_admin(token, done, ctx);
}

enum tv_err
admin_force_leave(struct admin *a, struct span node, bool prune, admin_done *done, void *ctx)
{
	(void)a;
	fake.admin_flag = prune;
	return fake_admin(node, done, ctx);
}

enum tv_err
admin_recover(struct admin *a, bool dry_run, struct span token, admin_value_done *done, void *ctx)
{
	(void)a, (void)token;
	fake.admin_flag = dry_run;
	fake.recover_done = done;
	fake.admin_ctx = ctx;
	return fake.admin_start;
}

enum tv_err
admin_info(struct admin *a, admin_info_done *done, void *ctx)
{
	(void)a;
	fake.info_done = done;
	fake.admin_ctx = ctx;
	return fake.admin_start;
}

enum tv_err
admin_coords(struct admin *a, enum gossip_pool pool, struct span node, admin_value_done *done, void *ctx)
{
	(void)a;
	fake.admin_pool = pool;
	(void)span_copy(node, fake.admin_arg, sizeof(fake.admin_arg));	/* too long: "" */
	fake.coords_done = done;
	fake.admin_ctx = ctx;
	return fake.admin_start;
}

enum tv_err
registry_put(struct registry *r, const struct local_record *rec)
{
	(void)r;
	if (rec->check.ServiceID.len > 0)
		return TV_ENOENT;
	fake.registered = *rec;
	(void)span_copy(rec->check.CheckID, fake.check_id, sizeof(fake.check_id));	/* too long: "" */
	return fake.checks_err;
}

enum tv_err
registry_remove(struct registry *r, enum entry_kind kind, struct span id)
{
	(void)r;
	(void)kind;
	(void)span_copy(id, fake.check_id, sizeof(fake.check_id));	/* too long: "" */
	return fake.checks_err;
}

enum tv_err
checks_update(struct registry *r, struct span id, struct span status, struct span output)
{
	(void)r;
	(void)span_copy(id, fake.check_id, sizeof(fake.check_id));	/* too long: "" */
	(void)span_copy(status, fake.check_status, sizeof(fake.check_status));	/* too long: "" */
	(void)span_copy(output, fake.check_output, sizeof(fake.check_output));	/* too long: "" */
	return fake.checks_err;
}

enum tv_err
registry_put_service(struct registry *r, const struct local_record *service, const struct local_record *checks, uint32_t n,
    bool replace)
{
	(void)r;
	(void)checks;
	fake.registered = *service;
	fake.registered_checks = n;
	fake.replaced = replace;
	(void)span_copy(service->service.ID, fake.check_id, sizeof(fake.check_id));	/* too long: "" */
	return fake.checks_err;
}

struct entry *
registry_find(struct registry *r, enum entry_kind kind, struct span id)
{
	(void)r;
	/* A service s1, and no check but that of its maintenance. */
	return kind == ENTRY_SERVICE ? (span_eqs(id, "s1") ? (struct entry *)&fake : NULL) :
	    span_eqs(id, "_service_maintenance:s2") ? (struct entry *)&fake : NULL;
}

struct entry *
registry_alike(struct registry *r, enum entry_kind kind, struct span id)
{
	(void)r;
	return kind == ENTRY_SERVICE && span_eqs(id, "S1") ? (struct entry *)&fake : NULL;
}

bool
registry_get(const struct entry *e, struct local_record *out)
{
	(void)e;
	*out = (struct local_record){ .service = { .ID = span_str("s1"), .Service = span_str("web") } };
	return true;
}

void
registry_wait(struct registry *r, struct wait *w, struct mono timeout, void (*fn)(void *ctx, bool timed_out), void *ctx)
{
	(void)r;
	*w = (struct wait){ .fn = fn, .ctx = ctx };
	fake.waiting = w;
	fake.wait_time = timeout;
}

void
registry_settle(struct registry *r, enum entry_kind kind, struct span id, void (*done)(void *ctx), void *ctx)
{
	(void)r;
	(void)kind;
	(void)id;
	done(ctx);
}

void
registry_each(struct registry *r, enum entry_kind kind, void (*fn)(void *ctx, const struct local_record *rec),
    void *ctx)
{
	(void)r;
	if (kind == ENTRY_SERVICE) {
		fn(ctx, &(struct local_record){ .service = { .ID = span_str("s1"), .Service = span_str("web") } });
		return;
	}
	fn(ctx, &(struct local_record){ .check = { .CheckID = span_str("c1"), .Status = span_str("passing") } });
	fn(ctx, &(struct local_record){ .check = { .CheckID = span_str("c2"), .Status = span_str("warning") } });
}

void
registry_checks_of(struct registry *r, struct span service, void (*fn)(void *ctx, const struct local_record *rec),
    void *ctx)
{
	(void)service;
	registry_each(r, ENTRY_CHECK, fn, ctx);
}

static struct rpcd_conf fake_conf;
static struct cluster_conf fake_cluster;
static struct api fake_api;
static struct host fake_host = { .meminfo = -1, .cpuinfo = -1, .meminfo_errno = ENOENT,
	.cpuinfo_errno = ENOENT };
static struct request fake_request;

static void
fake_woken(struct request *r)
{
	TV_ASSERT(r->answered);
	fake.woken++;
}

static void
fake_quit(void *ctx)
{
	(void)ctx;
	fake.quits++;
}

static void
fake_setup(void)
{
	endpoint_index();
	memset(&fake, 0, sizeof(fake));
	fake_conf = (struct rpcd_conf){
		.kv_max_value_size = 1000, .body_bytes_max = 2000, .answer_bytes_max = 1 << 20,
		.filter_time_max = MONO_S(60), .request_bytes_max = 4000, .snapshot_bytes_max = 64u << 20, .gzip_bytes_max = 8000,
		.answers_bytes_max = 250000, .http_admin = true,
		.default_query_time = MONO_S(300), .max_query_time = MONO_S(600),
	};
	static char dc[] = "dc1", name[] = "n1", run[] = "/run/x", data[] = "/";
	fake_cluster = (struct cluster_conf){ .datacenter = dc, .node_name = name, .run_dir = run, .data_dir = data };
	memcpy(fake_cluster.node_id, "11111111-2222-3333-4444-555555555555", 37);
	fake_api = (struct api){ .conf = &fake_conf, .cluster = &fake_cluster, .gzip = gzip_new(), .host = &fake_host,
		.quit = fake_quit, .asked = { .burst = 100, .period = MONO_S(60) } };
	memset(&fake_request, 0, sizeof(fake_request));
}

static void
fake_teardown(void)
{
	request_done(&fake_request);
	gzip_free(fake_api.gzip);
	api_done(&fake_api);
}

/* Runs one request up to where the router is asked, or to its answer. */
static struct request *
fake_begin(const char *method, const char *target, const char *body, const struct request_head *more)
{
	struct request *r = &fake_request;

	request_reset(r);
	if (more != NULL)
		r->head = *more;
	r->head.method = method;
	r->head.target = span_str(target);
	r->ready = fake_woken;
	api_begin(&fake_api, r);
	if (body != NULL)
		request_body(r, body, strlen(body));
	api_run(r);
	return r;
}

#endif
