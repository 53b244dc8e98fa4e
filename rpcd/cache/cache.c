/* The cache with a loop and the router around its table.  See cache.h. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/source.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/cache/cache.h"

#define KEY_BYTES_MAX (1u << 20)	/* a question is as long as the head of a request at most */
#define CHECK_EVERY_S 10.0		/* are the servers there that entries are followed at? */
#define TIMER_LEAST_S 0.001
#define CONTAINER(ptr_, type_, field_) ((type_ *)(void *)((char *)(ptr_) - offsetof(type_, field_)))

struct cache {
	struct cache_conf conf;
	struct cache_table *table;
	ev_timer timer;
	struct mono timer_at;
	ev_timer check;
	unsigned check_next;		/* place whose turn it is */
	struct route_call *checking;
	struct cache_wait *spare;	/* most questions are answered at once, and leave it */
};

/* What is under way upstream for an entry. */
struct fetch {
	struct cache *cache;
	struct cache_entry *entry;
	struct route_call *call;	/* one of these two */
	struct failover *execution;
};

struct cache_wait {
	struct cache_waiter waiter;	/* the table's */
	struct cache *cache;
	cache_done *done;
	void *ctx;
};

struct cache_follow {
	struct cache_watch watch;
	struct cache *cache;
	cache_done *fn;
	void *ctx;
};

/* -- keys -------------------------------------------------------------------- */

/* What has to be the same: all that is sent, and the variant. */
static void
key_write(struct buf *b, const struct cache_question *q)
{
	const struct span parts[] = { q->dc, q->token, q->args, q->variant };

	b->secret = true;
	buf_u16le(b, (uint16_t)q->op);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		buf_u32le(b, (uint32_t)parts[i].len);
		buf_putspan(b, parts[i]);
	}
}

static struct cache_question
key_read(struct span key)
{
	struct rd in = rd_span_over(key);
	struct cache_question q = { .op = (enum op_code)rd_u16le(&in) };

	q.dc = rd_bytes(&in, rd_u32le(&in));
	q.token = rd_bytes(&in, rd_u32le(&in));
	q.args = rd_bytes(&in, rd_u32le(&in));
	q.variant = rd_bytes(&in, rd_u32le(&in));
	return q;
}

/* -- fetches ----------------------------------------------------------------- */

static void run_queues(struct cache *c);

static void
fetched(void *ctx, const struct op_reply *reply)
{
	struct fetch *f = ctx;
	struct cache *c = f->cache;

	cache_table_fetched(c->table, clock_mono(), f->entry, reply);
	free(f);
	run_queues(c);
}

/* The same of a prepared query: what was found, and how many datacenters were tried. */
static void
executed(void *ctx, const struct op_reply *reply, unsigned tries)
{
	struct buf value = BUF_INIT(reply->value.len + 16);
	struct op_reply with_tries = *reply;

	value.secret = true;			/* the proof of the query's token */
	mpw_array(&value, 2);
	mpw_uint(&value, tries);
	buf_putspan(&value, reply->value);
	with_tries.value = buf_span(&value);
	if (reply->err == TV_OK && value.failed)
		with_tries.err = TV_ENOMEM;
	fetched(ctx, &with_tries);
	buf_done(&value);
}

/* False: it could not be asked. */
static bool
ask_servers(struct cache *c, const struct cache_fetch *want, struct fetch *f)
{
	struct cache_question q = key_read(want->key);
	struct op_request ask = {
		.op = (uint16_t)q.op, .dc = q.dc, .token = q.token, .args = q.args, .mode = OP_STALE,
		.index = want->index, .wait_ms = (uint64_t)mono_ms(c->conf.query_time),
	};

	if (q.op == OP_QUERY_EXECUTE)
		f->execution = failover_start(c->conf.failovers, &ask, executed, f);
	else
		f->call = route_start(c->conf.route, &ask, fetched, f);
	return f->execution != NULL || f->call != NULL;
}

static void
start_fetch(struct cache *c, const struct cache_fetch *want)
{
	struct fetch *f = calloc(1, sizeof(*f));

	if (f != NULL)
		*f = (struct fetch){ .cache = c, .entry = want->entry };
	if (f == NULL || !ask_servers(c, want, f)) {
		free(f);
		cache_table_fetched(c->table, clock_mono(), want->entry, &(struct op_reply){
			.err = TV_EAGAIN, .text = span_str("rpc error making call: too many requests under way (see "
			    "limits.calls_pending_max and limits.calls_bytes_max)"),
		    });
		return;
	}
	cache_table_set_fetch(want->entry, f);
}

/* What the table wants of the servers, and no more. */
static void
run_fetches(struct cache *c)
{
	struct cache_fetch want;
	void *gone;

	while (cache_table_next_cancel(c->table, &gone)) {
		struct fetch *f = gone;

		if (f->execution != NULL)
			failover_cancel(f->execution);
		else
			route_cancel(f->call);
		free(f);
	}
	while (cache_table_next_fetch(c->table, clock_mono(), &want))
		start_fetch(c, &want);
}

/* -- the timer --------------------------------------------------------------- */

/* at: MONO_ZERO: with the next turn of the loop. */
static void
timer_set(struct cache *c, struct mono at)
{
	double after = mono_seconds(mono_sub(at, clock_mono()));

	if (ev_is_active(&c->timer) && c->timer_at.ns <= at.ns)
		return;			/* it looks again then */
	ev_timer_stop(c->conf.loop, &c->timer);
	if (at.ns == MONO_NEVER.ns)
		return;
	c->timer_at = at;
	ev_now_update(c->conf.loop);
	ev_timer_set(&c->timer, at.ns == 0 ? 0. : after > TIMER_LEAST_S ? after : TIMER_LEAST_S, 0.);
	ev_timer_start(c->conf.loop, &c->timer);
}

static void
checks_set(struct cache *c)
{
	bool some = cache_table_place(c->table, 0).p != NULL;

	if (some && !ev_is_active(&c->check))
		ev_timer_again(c->conf.loop, &c->check);
	else if (!some)
		ev_timer_stop(c->conf.loop, &c->check);
}

static void
run_queues(struct cache *c)
{
	struct cache_answer answer;
	struct cache_waiter *w;
	struct cache_watch *n;

	run_fetches(c);
	while ((w = cache_table_next_answer(c->table, clock_mono(), &answer)) != NULL) {
		struct cache_wait *wait = CONTAINER(w, struct cache_wait, waiter);
		cache_done *done = wait->done;
		void *ctx = wait->ctx;

		free(wait);
		done(ctx, &answer);
	}
	while ((n = cache_table_next_news(c->table, clock_mono(), &answer)) != NULL) {
		struct cache_follow *f = CONTAINER(n, struct cache_follow, watch);

		f->fn(f->ctx, n->entry == NULL ? NULL : &answer);
	}
	run_fetches(c);
	checks_set(c);
	timer_set(c, cache_table_due(c->table));
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct cache *c = w->data;

	cache_table_tick(c->table, clock_mono());
	run_queues(c);
}

/* -- are the servers there? ---------------------------------------------------- */

static void
checked(void *ctx, const struct op_reply *reply)
{
	struct cache *c = ctx;

	c->checking = NULL;
	if (reply->err != TV_OK)
		log_debug("cache", "servers that entries are followed at do not answer: %s", tv_strerror(reply->err));
}

/*
 * A blocking query tells nothing while it waits: a frozen server would be found out minutes later.  A question that is
 * answered at once shows whether the link lives, and the router gives up one that does not.
 */
static void
on_check(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct cache *c = w->data;
	struct span dc = cache_table_place(c->table, c->check_next);
	struct buf args = BUF_INIT(64);

	if (dc.p == NULL) {
		c->check_next = 0;
		dc = cache_table_place(c->table, 0);
	}
	if (dc.p == NULL || c->checking != NULL)
		return;
	c->check_next++;
	schema_pack(op_find(OP_STATUS_LEADER)->args, NULL, &args);
	if (!args.failed)
		c->checking = route_start(c->conf.route, &(struct op_request){
			.op = OP_STATUS_LEADER, .dc = dc, .mode = OP_STALE, .args = buf_span(&args),
		    }, checked, c);
	buf_done(&args);
}

/* -- questions ------------------------------------------------------------------ */

/* The key is in b. */
static struct cache_ask
ask_of(const struct cache_question *q, const struct cache_options *o, struct buf *b)
{
	struct cache_ask ask = { .place = q->dc, .source = q->source };

	(void)cache_takes(q->op, &ask.refreshed);
	key_write(b, q);
	ask.key = buf_span(b);
	ask.index = ask.refreshed ? o->index : 0;
	ask.wait = o->wait;
	ask.max_age = o->max_age;
	ask.revalidate = o->revalidate;
	ask.stale_if_error = o->stale_if_error;
	return ask;
}

enum cache_got
cache_get(struct cache *c, const struct cache_question *q, const struct cache_options *o, cache_done *done, void *ctx,
    struct cache_answer *now, struct cache_wait **wait)
{
	struct buf b = BUF_INIT(KEY_BYTES_MAX);
	struct cache_ask ask = ask_of(q, o, &b);
	enum cache_got got = CACHE_FULL;

	*wait = NULL;
	if (c->spare == NULL)
		c->spare = calloc(1, sizeof(*c->spare));
	if (!b.failed && c->spare != NULL)
		got = cache_table_ask(c->table, clock_mono(), &ask, &c->spare->waiter, now);
	if (got == CACHE_WAIT) {
		*wait = c->spare;
		c->spare = NULL;
		(*wait)->cache = c;
		(*wait)->done = done;
		(*wait)->ctx = ctx;
	}
	buf_done(&b);
	if (got != CACHE_HIT) {
		run_fetches(c);
		checks_set(c);
		timer_set(c, MONO_ZERO);
	}
	return got;
}

void
cache_cancel(struct cache_wait *w)
{
	cache_table_cancel(w->cache->table, &w->waiter);
	free(w);
}

struct cache_follow *
cache_follow(struct cache *c, const struct cache_question *q, cache_done *fn, void *ctx)
{
	static const struct cache_options any = { .max_age = { INT64_MAX } };
	struct buf b = BUF_INIT(KEY_BYTES_MAX);
	struct cache_ask ask = ask_of(q, &any, &b);
	struct cache_follow *f = b.failed ? NULL : calloc(1, sizeof(*f));

	if (f != NULL && !cache_table_watch(c->table, clock_mono(), &ask, &f->watch)) {
		free(f);
		f = NULL;
	}
	buf_done(&b);
	if (f == NULL)
		return NULL;
	f->cache = c;
	f->fn = fn;
	f->ctx = ctx;
	run_fetches(c);
	timer_set(c, MONO_ZERO);
	return f;
}

void
cache_unfollow(struct cache_follow *f)
{
	cache_table_unwatch(f->cache->table, &f->watch);
	free(f);
}

bool
cache_followed(struct cache_follow *f, struct cache_answer *now)
{
	return cache_table_watched(f->cache->table, clock_mono(), &f->watch, now);
}

void
cache_follow_use(struct cache_follow *f)
{
	cache_table_use(f->cache->table, clock_mono(), &f->watch);
}

void
cache_forget(struct cache *c, const struct cache_question *q, struct mono since)
{
	struct buf b = BUF_INIT(KEY_BYTES_MAX);

	key_write(&b, q);
	if (!b.failed)
		cache_table_forget(c->table, buf_span(&b), since);
	buf_done(&b);
	timer_set(c, MONO_ZERO);	/* its query is cancelled */
}

/* -- the whole ------------------------------------------------------------------- */

void
cache_limit(struct cache *c, uint64_t bytes_max, struct mono ttl)
{
	cache_table_limit(c->table, bytes_max, ttl);
	run_fetches(c);
	timer_set(c, MONO_ZERO);
}

void
cache_clear(struct cache *c)
{
	cache_table_clear(c->table);
	run_fetches(c);
	timer_set(c, MONO_ZERO);
}

void
cache_stats(const struct cache *c, struct cache_stats *out)
{
	cache_table_stats(c->table, out);
}

struct cache *
cache_new(const struct cache_conf *conf)
{
	struct cache *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->conf = *conf;
	c->table = cache_table_new(&(struct cache_table_conf){
		.bytes_max = conf->bytes_max, .entries_max = conf->entries_max, .ttl = conf->ttl, .hold = conf->hold,
		.seed = conf->seed, .hash = keyed_hash,
	});
	if (c->table == NULL) {
		free(c);
		return NULL;
	}
	ev_init(&c->timer, on_timer);
	ev_init(&c->check, on_check);
	c->check.repeat = CHECK_EVERY_S;
	c->timer.data = c->check.data = c;
	return c;
}

void
cache_free(struct cache *c)
{
	if (c == NULL)
		return;
	cache_table_clear(c->table);
	run_fetches(c);
	ev_timer_stop(c->conf.loop, &c->timer);
	ev_timer_stop(c->conf.loop, &c->check);
	if (c->checking != NULL)
		route_cancel(c->checking);
	cache_table_free(c->table);
	free(c->spare);
	free(c);
}
