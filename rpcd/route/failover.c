/* See failover.h. */
#include <stdlib.h>

#include "common/base/arena.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/route/failover.h"

#define MEMORY_MAX (64u << 20)		/* of one execution, beside what the router holds */

struct failover {
	struct failovers *all;
	failover_done *done;
	void *ctx;
	struct route_call *call;
	ev_timer timer;			/* of a try */
	struct arena arena;
	struct op_request q;		/* dc, mode, token: in the arena */
	struct buf args;		/* of OP_QUERY_REMOTE */
	struct prepared_ask ask;
	struct prepared_failover policy;
	/* The last answer that found nothing. */
	struct op_reply kept;
	struct buf value;
	struct span *dcs;		/* to be asked, in this order */
	unsigned count, tries;
};

static void next_try(struct failover *f);

static void
failover_free(struct failover *f)
{
	ev_timer_stop(f->all->conf.loop, &f->timer);
	arena_wipe(&f->arena);			/* tokens */
	arena_done(&f->arena);
	buf_done(&f->args);
	buf_done(&f->value);
	free(f);
}

void
failover_cancel(struct failover *f)
{
	if (f->call != NULL)
		route_cancel(f->call);
	failover_free(f);
}

static void
end_failover(struct failover *f, const struct op_reply *reply)
{
	f->all->stats.executed++;
	f->done(f->ctx, reply, f->tries);
	failover_free(f);
}

static void
finish_kept(struct failover *f)
{
	f->kept.value = buf_span(&f->value);
	end_failover(f, &f->kept);
}

/* Has this answer any instance?  What cannot be read is shown as it is. */
static bool
found_some(const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);
	uint32_t fields = mpr_array(&in), nodes = fields == 0 ? 1 : mpr_array(&in);

	return in.err != TV_OK || nodes > 0;
}

/* False: no memory. */
static bool
keep_reply(struct failover *f, const struct op_reply *reply)
{
	f->kept = *reply;
	f->kept.text = f->kept.value = SPAN_NONE;
	buf_reset(&f->value);
	buf_putspan(&f->value, reply->value);
	return !f->value.failed;
}

/* False: it could not be asked at all. */
static bool
ask_datacenter(struct failover *f, uint16_t op, struct span dc, struct span args, route_done *answered)
{
	struct op_request q = f->q;

	q.op = op;
	q.dc = dc;
	q.args = args;
	f->call = route_start(f->all->conf.route, &q, answered, f);
	return f->call != NULL;
}

/* -- other datacenters, one after the other -- */

static void
on_found(void *ctx, const struct op_reply *reply)
{
	struct failover *f = ctx;

	f->call = NULL;
	ev_timer_stop(f->all->conf.loop, &f->timer);
	if (reply->err != TV_OK) {
		f->all->stats.refused++;
		next_try(f);
	} else if (found_some(reply) || !keep_reply(f, reply)) {
		end_failover(f, reply);
	} else {
		next_try(f);
	}
}

static void
on_timeout(struct ev_loop *loop, ev_timer *w, int events UNUSED)
{
	struct failover *f = w->data;

	ev_timer_stop(loop, w);
	route_cancel(f->call);
	f->call = NULL;
	f->all->stats.timed_out++;
	next_try(f);
}

static void
next_try(struct failover *f)
{
	const struct failover_conf *c = &f->all->conf;

	while (f->tries < f->count) {
		f->all->stats.tries++;
		f->tries++;
		if (ask_datacenter(f, OP_QUERY_REMOTE, f->dcs[f->tries - 1], buf_span(&f->args), on_found)) {
			ev_timer_set(&f->timer, (double)c->timeout->ns / 1e9, 0.);
			ev_timer_start(c->loop, &f->timer);
			return;
		}
		f->all->stats.refused++;
	}
	finish_kept(f);
}

/* -- which ones -- */

static bool
is_among(const struct span *dcs, unsigned n, struct span dc)
{
	for (unsigned i = 0; i < n; i++)
		if (span_eq_nocase(dcs[i], dc))
			return true;
	return false;
}

/* known: all there are, the nearest first, and before them the one that has been asked already.  False: no memory. */
static bool
choose(struct failover *f, const struct span_list *known)
{
	const struct span *others = known->v + 1;
	unsigned n = known->n - 1, near = f->policy.NearestN < n ? (unsigned)f->policy.NearestN : n;

	f->dcs = arena_array(&f->arena, n, sizeof(*f->dcs));
	for (unsigned i = 0; f->dcs != NULL && i < near; i++)
		f->dcs[f->count++] = others[i];
	for (uint32_t i = 0; f->dcs != NULL && i < f->policy.Datacenters.n; i++) {
		struct span dc = f->policy.Datacenters.v[i];

		if (is_among(others, n, dc) && !is_among(f->dcs, f->count, dc))
			f->dcs[f->count++] = dc;
	}
	for (unsigned i = 0; f->dcs != NULL && i < f->count; i++)
		f->dcs[i] = arena_copy(&f->arena, f->dcs[i]);
	return f->dcs != NULL;
}

static void
on_datacenters(void *ctx, const struct op_reply *reply)
{
	struct failover *f = ctx;
	struct text_list known = { .Values = { .n = 0 } };
	struct rd in = rd_span_over(reply->value);

	f->call = NULL;
	if (reply->err != TV_OK || schema_unpack(&text_list_schema, &in, &f->arena, &known) != TV_OK ||
	    known.Values.n == 0 || !choose(f, &known.Values))
		f->count = 0;
	f->all->stats.failed_over += f->count > 0;
	next_try(f);
}

/* The query as it was rendered, and what it says about other datacenters.  False: nothing, or it cannot be read. */
static bool
read_policy(struct failover *f)
{
	struct prepared_found found = { .Nodes = { .n = 0 } };
	struct rd in = rd_span_over(buf_span(&f->value));
	struct prepared_remote remote;

	if (schema_unpack(&prepared_found_schema, &in, &f->arena, &found) != TV_OK)
		return false;
	f->policy = found.Query.Service.Failover;
	/* The answer's bytes are going to be another one's. */
	for (uint32_t i = 0; i < f->policy.Datacenters.n; i++)
		f->policy.Datacenters.v[i] = arena_copy(&f->arena, f->policy.Datacenters.v[i]);
	remote = (struct prepared_remote){ .Query = found.Query, .Limit = f->ask.Limit, .Connect = f->ask.Connect,
	    .Accessor = found.Accessor, .Proof = found.Proof };
	schema_pack(&prepared_remote_schema, &remote, &f->args);
	return !f->args.failed && (f->policy.NearestN > 0 || f->policy.Datacenters.n > 0);
}

static void
on_executed(void *ctx, const struct op_reply *reply)
{
	struct failover *f = ctx;

	f->call = NULL;
	if (reply->err != TV_OK || found_some(reply) || !keep_reply(f, reply) || !read_policy(f)) {
		end_failover(f, reply);
		return;
	}
	if (!ask_datacenter(f, OP_CATALOG_DATACENTERS, f->q.dc, span_of("\x90", 1), on_datacenters))
		finish_kept(f);
}

struct failover *
failover_start(struct failovers *all, const struct op_request *q, failover_done *done, void *ctx)
{
	struct failover *f = calloc(1, sizeof(*f));
	struct rd in = rd_span_over(q->args);

	if (f == NULL)
		return NULL;
	f->all = all;
	f->done = done;
	f->ctx = ctx;
	f->arena = (struct arena)ARENA_INIT(MEMORY_MAX);
	buf_init(&f->args, MEMORY_MAX);
	buf_init(&f->value, MEMORY_MAX);
	f->args.secret = f->value.secret = true;	/* the proof of the query's token */
	ev_timer_init(&f->timer, on_timeout, 0., 0.);
	f->timer.data = f;
	f->q = *q;
	f->q.index = 0;
	f->q.dc = arena_copy(&f->arena, q->dc);
	f->q.token = arena_copy(&f->arena, q->token);
	f->q.args = SPAN_NONE;
	if (f->q.dc.p == NULL || f->q.token.p == NULL ||
	    schema_unpack(&prepared_ask_schema, &in, &f->arena, &f->ask) != TV_OK ||
	    !ask_datacenter(f, OP_QUERY_EXECUTE, f->q.dc, q->args, on_executed)) {
		failover_free(f);
		return NULL;
	}
	f->ask = (struct prepared_ask){ .Limit = f->ask.Limit, .Connect = f->ask.Connect };	/* the rest borrows q */
	return f;
}
