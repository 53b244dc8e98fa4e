/* Anti-entropy: the catalog follows the table. */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/record/mpack.h"
#include "rpcd/agent/checks_int.h"

#define RETRY_MIN_S 15.0
#define RETRY_SPREAD_S 15.0
#define FIRST_COMPARE_S 1.0	/* after the start: the channels need a moment */

static double
spread(struct checks *c, double seconds)
{
	return rng_unit(&c->rng) * seconds;
}

static void
start_timer(struct checks *c, ev_timer *w, double after)
{
	if (ev_is_active(w))
		return;
	ev_timer_set(w, after, 0.);
	ev_timer_start(c->conf.loop, w);
}

static void
retry_later(struct checks *c)
{
	start_timer(c, &c->retry, RETRY_MIN_S + spread(c, RETRY_SPREAD_S));
}

static struct route_call *
start(struct checks *c, enum op_code code, const void *args, route_done *done, void *ctx)
{
	const struct op *op = op_find((uint16_t)code);
	struct buf packed = BUF_INIT(1u << 20);
	struct op_request q = { .op = op->code, .dc = span_of("", 0), .token = span_of("", 0) };

	schema_pack(op->args, args, &packed);
	q.args = buf_span(&packed);
	struct route_call *call = packed.failed ? NULL : route_start(c->conf.route, &q, done, ctx);
	buf_done(&packed);
	return call;
}

/* -- those who wait -- */

static void
settle_end(struct settle *w)
{
	struct checks *c = w->check->table;

	*(w->prev == NULL ? &c->settling : &w->prev->next) = w->next;
	if (w->next != NULL)
		w->next->prev = w->prev;
	ev_timer_stop(c->conf.loop, &w->timer);
	w->done(w->ctx);
	free(w);
}

static void
on_settle_timer(struct ev_loop *loop, ev_timer *w, int events)
{
	(void)loop;
	(void)events;
	settle_end(w->data);
}

void
checks_settled(struct local_check *k)
{
	for (struct settle *w = k->table->settling, *next; w != NULL; w = next) {
		next = w->next;
		if (w->check == k)
			settle_end(w);
	}
}

void
checks_settle(struct checks *c, struct span id, void (*done)(void *ctx), void *ctx)
{
	struct local_check *k = checks_find(c, id);
	struct settle *w = k == NULL || k->push == NULL || c->conf.sync_wait.ns <= 0 ? NULL : calloc(1, sizeof(*w));

	if (w == NULL) {
		done(ctx);
		return;
	}
	w->check = k;
	w->done = done;
	w->ctx = ctx;
	w->next = c->settling;
	if (w->next != NULL)
		w->next->prev = w;
	c->settling = w;
	ev_timer_init(&w->timer, on_settle_timer, (double)c->conf.sync_wait.ns / 1e9, 0.);
	w->timer.data = w;
	ev_timer_start(c->conf.loop, &w->timer);
}

/* -- pushes -- */

static void push(struct local_check *k);

static void
on_pushed(void *ctx, const struct op_reply *reply)
{
	struct local_check *k = ctx;
	struct checks *c = k->table;

	k->push = NULL;
	if (reply->err != TV_OK) {
		log_debug("agent", "sync of check %s failed: %s", k->id, tv_strerror(reply->err));
		retry_later(c);
		checks_settled(k);
	} else if (k->changed) {
		push(k);
	} else if (k->removed) {
		log_info("agent", "Deregistered check: check=%s", k->id);
		checks_drop(k);
	} else {
		k->in_sync = true;
		k->output_only = false;
		log_debug("agent", "Synced check: check=%s", k->id);
		checks_settled(k);
	}
}

static void
push(struct local_check *k)
{
	struct checks *c = k->table;
	const struct checks_conf *conf = &c->conf;

	k->changed = false;
	if (k->removed) {
		struct catalog_deregister args = { .Node = span_str(conf->node_name), .CheckID = span_str(k->id) };

		k->push = start(c, OP_CATALOG_DEREGISTER, &args, on_pushed, k);
	} else {
		struct catalog_register args = {
			.ID = span_str(conf->node_id), .Node = span_str(conf->node_name),
			.Address = span_str(conf->address),
			.SkipNodeUpdate = true, .has_check = true,
		};

		checks_record(k, &args.Check);
		k->push = start(c, OP_CATALOG_REGISTER, &args, on_pushed, k);
	}
	if (k->push == NULL)
		retry_later(c);
}

void
checks_changed(struct local_check *k, bool output_only)
{
	struct checks *c = k->table;

	k->changed = true;
	if (output_only && (k->in_sync || k->output_only)) {
		k->in_sync = false;
		k->output_only = true;
		start_timer(c, &c->output, (double)c->conf.update_interval.ns / 1e9);
		return;
	}
	k->in_sync = false;
	k->output_only = false;
	if (k->push == NULL)
		push(k);
}

static void
push_all(struct checks *c)
{
	for (struct local_check *k = c->first; k != NULL; k = k->next)
		if (!k->in_sync && k->push == NULL)
			push(k);
}

static void
on_retry(struct ev_loop *loop, ev_timer *w, int events)
{
	(void)loop;
	(void)events;
	push_all(w->data);
}

/* -- comparing -- */

/* Does the catalog's record say the same as ours?  Output may differ until its time has come. */
static bool
same(const struct local_check *k, const struct check *there)
{
	return span_eqs(there->Name, k->name) && span_eqs(there->Status, k->status) &&
	    span_eqs(there->Notes, k->notes) && span_eqs(there->ServiceID, k->service_id) &&
	    (k->output_only || span_eqs(there->Output, k->output));
}

/* A node check that nobody registered here. */
static void
remove_unknown(struct checks *c, const struct check *there)
{
	if (there->ServiceID.len > 0 || span_eqs(there->CheckID, "serfHealth"))
		return;
	struct local_check *k = checks_add(c, there->CheckID);
	if (k == NULL)
		return;
	k->removed = true;
	c->count--;
	push(k);
}

static void
compare(struct checks *c, struct span list)
{
	struct rd in = rd_span_over(list);
	uint32_t n = list.len == 0 || mpr_nil(&in) ? 0 : mpr_array(&in);

	for (struct local_check *k = c->first; k != NULL; k = k->next)
		k->changed = k->push != NULL ? k->changed : !k->removed;	/* until it is found there */
	for (uint32_t i = 0; i < n; i++) {
		struct check there = { 0 };

		if (schema_unpack(&check_schema, &in, &c->arena, &there) != TV_OK)
			break;
		struct local_check *k = checks_find(c, there.CheckID);
		if (k == NULL)
			remove_unknown(c, &there);
		else if (k->push == NULL)
			k->changed = k->removed || !same(k, &there);
	}
	for (struct local_check *k = c->first, *next; k != NULL; k = next) {
		next = k->next;
		if (k->push != NULL)
			continue;
		k->in_sync = !k->changed && !k->output_only;
		if (k->changed)
			push(k);
		else if (k->removed)
			checks_drop(k);
	}
	arena_reset(&c->arena);
}

static void
next_compare(struct checks *c)
{
	double interval = (double)c->conf.sync_interval.ns / 1e9;

	start_timer(c, &c->sync, interval + spread(c, interval));
}

static void
on_catalog(void *ctx, const struct op_reply *reply)
{
	struct checks *c = ctx;

	c->compare = NULL;
	if (reply->err == TV_OK) {
		compare(c, reply->value);
		next_compare(c);
	} else {
		start_timer(c, &c->sync, RETRY_MIN_S + spread(c, RETRY_SPREAD_S));
	}
}

static void
on_sync(struct ev_loop *loop, ev_timer *w, int events)
{
	struct checks *c = w->data;
	struct catalog_read args = { .Name = span_str(c->conf.node_name) };

	(void)loop;
	(void)events;
	c->compare = start(c, OP_HEALTH_NODE, &args, on_catalog, c);
	if (c->compare == NULL)
		next_compare(c);
}

void
checks_sync_start(struct checks *c)
{
	ev_init(&c->sync, on_sync);
	ev_init(&c->retry, on_retry);
	ev_init(&c->output, on_retry);
	c->sync.data = c->retry.data = c->output.data = c;
	start_timer(c, &c->sync, FIRST_COMPARE_S + spread(c, FIRST_COMPARE_S));
}

void
checks_sync_stop(struct checks *c)
{
	ev_timer_stop(c->conf.loop, &c->sync);
	ev_timer_stop(c->conf.loop, &c->retry);
	ev_timer_stop(c->conf.loop, &c->output);
	if (c->compare != NULL)
		route_cancel(c->compare);
	c->compare = NULL;
}
