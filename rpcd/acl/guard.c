/* Judges what is carried out here, see guard.h. */
#include <stdlib.h>
#include <string.h>

#include "common/record/op_access.h"
#include "rpcd/acl/guard.h"

#define ARGS_BYTES_MAX (4u << 20)

/* One request: first its rights are asked for, then the inner provider. */
struct guarded {
	struct acl_guard *guard;
	struct acl_wait *wait;
	void *started;			/* by the inner provider */
	route_done *done;
	void *ctx;
	struct mono timeout;
	ev_timer soon;			/* `verdict` is to be told */
	enum acl_standing verdict;
	struct op_request q;		/* spans into `bytes` */
	uint8_t bytes[];
};

static void
guarded_free(struct guarded *g)
{
	ev_timer_stop(g->guard->loop, &g->soon);
	explicit_bzero(g->bytes, g->q.dc.len + g->q.token.len + g->q.args.len);
	free(g);
}

/* What cannot be read is not allowed. */
static bool
is_allowed(const struct op_request *q, const struct acl_rights *rights)
{
	const struct op *op = op_find(q->op);
	struct arena a = ARENA_INIT(ARGS_BYTES_MAX);
	struct rd in = rd_span_over(q->args);
	void *args = arena_alloc(&a, op->args->size);
	bool allowed = args != NULL && schema_unpack(op->args, &in, &a, args) == TV_OK &&
	    op_access_allows(rights->set, op, args);

	arena_wipe(&a);
	arena_done(&a);
	return allowed;
}

static void
end_request(struct guarded *g, const struct op_reply *reply)
{
	route_done *done = g->done;
	void *ctx = g->ctx;

	guarded_free(g);
	done(ctx, reply);
}

static void
fail_request(struct guarded *g, enum tv_err err, const char *text)
{
	end_request(g, &(struct op_reply){ .err = err, .text = span_str(text), .index = 1 });
}

static void
inner_done(void *ctx, const struct op_reply *reply)
{
	struct guarded *g = ctx;

	g->started = NULL;
	end_request(g, reply);
}

static enum tv_err
start_inner(struct guarded *g)
{
	const struct route_provider *p = &g->guard->inner;
	enum tv_err err = TV_OK;

	g->started = p->start(p->ctx, &g->q, g->timeout, inner_done, g, &err);
	return g->started != NULL ? TV_OK : err;
}

/* ACL_OFF: it may go on. */
static enum acl_standing
verdict_of(const struct guarded *g, const struct acl_answer *a)
{
	if (a->standing != ACL_GRANTED)
		return a->standing;
	return is_allowed(&g->q, a->rights) ? ACL_OFF : ACL_GRANTED;
}

static void
tell_verdict(struct guarded *g)
{
	g->guard->denied++;
	fail_request(g, TV_EPERM, g->verdict == ACL_NOT_FOUND ? "ACL not found" : "Permission denied");
}

static void
on_soon(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	tell_verdict(w->data);
}

static void
on_rights(void *ctx, const struct acl_answer *a)
{
	struct guarded *g = ctx;
	enum tv_err err;

	g->wait = NULL;
	g->verdict = verdict_of(g, a);
	if (g->verdict != ACL_OFF) {
		tell_verdict(g);
		return;
	}
	err = start_inner(g);
	if (err == TV_EUNREACH)
		err = TV_ECLOSED;
	if (err != TV_OK)
		fail_request(g, err, err == TV_ECLOSED && g->guard->inner.away != NULL ? g->guard->inner.away :
		    tv_strerror(err));
}

static struct guarded *
guarded_new(struct acl_guard *guard, const struct op_request *q, struct mono timeout, route_done *done, void *ctx)
{
	struct guarded *g = calloc(1, sizeof(*g) + q->dc.len + q->token.len + q->args.len);
	uint8_t *at;

	if (g == NULL)
		return NULL;
	*g = (struct guarded){ .guard = guard, .done = done, .ctx = ctx, .timeout = timeout, .q = *q };
	at = g->bytes;
	g->q.dc = span_place(&at, q->dc);
	g->q.token = span_place(&at, q->token);
	g->q.args = span_place(&at, q->args);
	ev_timer_init(&g->soon, on_soon, 0., 0.);
	g->soon.data = g;
	return g;
}

static void *
guard_start(void *ctx, const struct op_request *q, struct mono timeout, route_done *done, void *done_ctx,
    enum tv_err *err)
{
	struct acl_guard *guard = ctx;
	struct guarded *g = guarded_new(guard, q, timeout, done, done_ctx);
	struct acl_answer now;

	*err = TV_ENOMEM;
	if (g == NULL)
		return NULL;
	switch (acl_ask(guard->resolver, g->q.token, &now, on_rights, g, &g->wait)) {
	case ACL_LATER:
		return g;
	case ACL_BUSY:
		*err = TV_EAGAIN;
		break;
	default:
		g->verdict = verdict_of(g, &now);
		if (g->verdict != ACL_OFF) {
			ev_timer_start(guard->loop, &g->soon);
			return g;
		}
		if ((*err = start_inner(g)) == TV_OK)
			return g;
	}
	guarded_free(g);
	return NULL;
}

static void
guard_cancel(void *started)
{
	struct guarded *g = started;

	if (g->wait != NULL)
		acl_cancel(g->wait);
	if (g->started != NULL)
		g->guard->inner.cancel(g->started);
	guarded_free(g);
}

void
acl_guard_provide(struct acl_guard *guard, struct route *route, enum op_kind kind)
{
	route_provide(route, kind, &(struct route_provider){
		.start = guard_start, .cancel = guard_cancel, .ctx = guard, .away = guard->inner.away,
		.lost = guard->inner.lost,
	});
}
