/* Look-ups for DNS under way, see dns_lookups.h and dns_lookups_int.h. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/record/mpack.h"
#include "rpcd/names/dns_lookups_int.h"
#include "rpcd/names/dns_reply.h"

#define BRIEF_MS 500			/* what is not followed, and may be kept all the same */
#define LATE MONO_MS(1000)		/* then an older answer is better than none */

struct dns_lookup_call {
	struct dns_lookups *owner;
	LIST_ENTRY(dns_lookup_call) link;
	struct route_call *call;	/* one of these */
	struct failover *query;
	struct cache_wait *wait;
	struct dns_followed *follow;		/* NULL: it is not to be followed */
	enum dns_follow wish;
	uint64_t id;
	struct dns_question q;
	struct mono begun, late;	/* then an older answer is given; MONO_NEVER: there is none */
	struct mono asked;		/* of the cache, last */
	bool fresh;			/* routed so that a write shows, though the cache may know */
	uint8_t text[];
};

static bool
has_cache(const struct dns_lookups *l)
{
	return l->conf.cache != NULL && l->conf.conf->dns_use_cache && l->conf.conf->dns_allow_stale;
}

/* Soon after a write by way of this node servers are asked, as long as they answer. */
static bool
uses_cache(const struct dns_lookups *l)
{
	return has_cache(l) && !mono_before(clock_mono(), l->written_until);
}

void
dns_lookups_written(struct dns_lookups *l)
{
	l->written_until = mono_add(clock_mono(), DNS_WRITTEN_TIME);
}

/* An execution without what the cache adds; see cache.h. */
static struct op_reply
reply_of(const struct dns_question *q, const struct cache_answer *answer)
{
	struct op_reply reply = answer->reply;
	struct rd in = rd_span_over(reply.value);

	if (q->kind != DNS_KIND_QUERY || reply.err != TV_OK)
		return reply;
	(void)mpr_array(&in);
	(void)mpr_uint(&in, UINT64_MAX);
	reply.value = mpr_value(&in);
	return reply;
}

/* -- the ends of look-ups -- */

static void
call_free(struct dns_lookup_call *c)
{
	if (c->follow != NULL)
		dns_follow_free(c->follow, false);
	buf_done(&c->q.args);
	LIST_REMOVE(c, link);
	c->owner->call_count--;
	free(c);
}

/* Of what cannot be followed, or is not worth it: may it be kept for a moment? */
static bool
is_brief(const struct dns_question *q, const struct msg_dns_found *found)
{
	if (q->kind == DNS_KIND_ADDRESS)
		return found->status != DNS_FAILED;
	return found->status == DNS_NOWHERE &&
	    (!q->own || q->kind == DNS_KIND_CONNECT || q->kind == DNS_KIND_QUERY || q->kind == DNS_KIND_INGRESS);
}

static void
tell_found(struct dns_lookup_call *c, struct msg_dns_found *found, const struct dns_lookup_origin *origin)
{
	struct dns_lookups *l = c->owner;

	if (!found->followed && uses_cache(l) && is_brief(&c->q, found))
		found->life_ms = BRIEF_MS;
	l->origin = origin;
	l->done(l->ctx, c->id, found);
	l->origin = NULL;
}

static void
fail_call(struct dns_lookup_call *c)
{
	tell_found(c, &(struct msg_dns_found){ .status = DNS_FAILED }, NULL);
	call_free(c);
}

/* Is this still followed, now that it is known? */
static bool
is_worth(const struct dns_lookup_call *c, const struct msg_dns_found *found)
{
	if (c->follow == NULL || c->follow->ended || !has_cache(c->owner))
		return false;
	return c->wish == DNS_FOLLOW_ANY ? found->status != DNS_FAILED : found->status == DNS_FOUND;
}

/* The cache need not keep what it has of it. */
static void
forget_cached(struct dns_lookup_call *c)
{
	struct cache_question q = dns_question_cached(c->owner, &c->q);

	if (c->follow != NULL)
		dns_follow_free(c->follow, false);
	c->follow = NULL;
	cache_forget(c->owner->conf.cache, &q, c->asked);
}

static bool start_cached(struct dns_lookup_call *c);

static void
take_reply(struct dns_lookup_call *c, const struct op_reply *reply)
{
	bool stale = c->owner->conf.conf->dns_allow_stale;
	struct arena a = ARENA_INIT(DNS_LOOKUP_ARENA_MAX);
	struct msg_dns_found found;
	struct dns_followed *f = NULL;
	struct cache_answer now;

	c->call = NULL;
	c->query = NULL;
	dns_question_read(c->owner, &c->q, reply, &a, &found);
	if (found.status == DNS_FAILED && c->fresh) {
		arena_done(&a);
		if (!start_cached(c))
			fail_call(c);
		return;
	}
	if (is_worth(c, &found)) {
		f = c->follow;
		c->follow = NULL;
		found.followed = true;
		dns_follow_open(f, c->id, &found);
	}
	tell_found(c, &found, &(struct dns_lookup_origin){ .reply = reply, .stale = stale,
	    .last_contact_ms = stale ? reply->last_contact_ms : 0 });
	/* The cache may know less, or more: what it tells from now on goes on from there. */
	if (f != NULL && cache_followed(f->cache, &now))
		dns_follow_news(f, &now);
	else if (c->fresh && f == NULL && found.status == DNS_NOWHERE)
		forget_cached(c);
	call_free(c);
	arena_done(&a);
}

static void
on_reply(void *ctx, const struct op_reply *reply)
{
	take_reply(ctx, reply);
}

static void
on_query(void *ctx, const struct op_reply *reply, unsigned tries UNUSED)
{
	take_reply(ctx, reply);
}

/* An ordinary routed read.  False: too many are under way. */
static bool
start_route(struct dns_lookup_call *c)
{
	struct dns_lookups *l = c->owner;
	const struct rpcd_conf *conf = l->conf.conf;
	const struct op_request q = {
		.op = c->q.op, .dc = c->q.dc, .mode = conf->dns_allow_stale ? OP_STALE : OP_DEFAULT,
		.max_stale_ms = conf->dns_allow_stale ? (uint64_t)mono_ms(conf->dns_max_stale) : 0,
		.token = token_of(&l->conf.token), .args = buf_span(&c->q.args),
	};

	if (c->follow != NULL)
		dns_follow_free(c->follow, false);
	c->follow = NULL;
	if (c->q.kind == DNS_KIND_QUERY)
		c->query = failover_start(l->conf.failovers, &q, on_query, c);
	else
		c->call = route_start(l->conf.route, &q, on_reply, c);
	return c->call != NULL || c->query != NULL;
}

static void
cancel_route(struct dns_lookup_call *c)
{
	if (c->call != NULL)
		route_cancel(c->call);
	if (c->query != NULL)
		failover_cancel(c->query);
	c->call = NULL;
	c->query = NULL;
}

static void
take_cached(struct dns_lookup_call *c, const struct cache_answer *answer)
{
	struct dns_lookups *l = c->owner;
	bool followed = false, ok = answer->reply.err == TV_OK;
	struct arena a = ARENA_INIT(DNS_LOOKUP_ARENA_MAX);
	struct msg_dns_found found;

	(void)cache_takes((enum op_code)c->q.op, &followed);
	bool stale = ok && answer->age.ns > 0 && (followed || !answer->reachable);
	uint64_t life = dns_question_life(l, answer, followed);
	if (ok && life == 0 && (stale || followed)) {
		if (!start_route(c))
			fail_call(c);
		return;
	}
	struct op_reply reply = reply_of(&c->q, answer);
	dns_question_read_cached(l, &c->q, &reply, stale, &a, &found);
	if (ok) {
		dns_question_contact(l, &c->q, stale);
		l->stats.cached += answer->hit;
		l->stats.stale += stale;
	}
	bool worth = is_worth(c, &found);
	if (worth) {
		found.followed = true;
		dns_follow_open(c->follow, c->id, &found);
		c->follow = NULL;
		found.life_ms = stale && life != UINT64_MAX ? life : 0;
	}
	/* Before the cache is called again: it borrows the answer. */
	tell_found(c, &found, &(struct dns_lookup_origin){ .reply = &reply, .last_contact_ms = reply.last_contact_ms,
	    .stale = true, .cached = answer->hit, .age = answer->age });
	if (followed && !worth && found.status == DNS_NOWHERE)
		forget_cached(c);
	call_free(c);
	arena_done(&a);
}

static void
on_cached(void *ctx, const struct cache_answer *answer)
{
	struct dns_lookup_call *c = ctx;

	c->wait = NULL;
	take_cached(c, answer);
}

/* -- questions to the cache -- */

static void
on_probe(void *ctx, const struct cache_answer *answer UNUSED)
{
	struct dns_lookups *l = ctx;

	l->probe = NULL;
}

/* The cache follows nothing of it: whether servers can be reached again shows when they are asked. */
static void
probe_servers(struct dns_lookups *l, const struct cache_question *q)
{
	static const struct cache_options o = { .revalidate = true };
	struct cache_answer now;

	if (l->probe == NULL)
		(void)cache_get(l->conf.cache, q, &o, on_probe, l, &now, &l->probe);
}

/*
 * What is not followed is asked for each time, unless it may have an age; but while no server can be reached, or
 * they are slow, an older answer is given.
 */
static enum cache_got
get_unfollowed(struct dns_lookup_call *c, const struct cache_question *q, struct cache_answer *now)
{
	struct dns_lookups *l = c->owner;
	const struct rpcd_conf *conf = l->conf.conf;
	struct mono max_age = conf->dns_cache_max_age;
	struct cache_options o = { .max_age = MONO_NEVER };
	enum cache_got got = cache_get(l->conf.cache, q, &o, on_cached, c, now, &c->wait);

	if (got != CACHE_HIT || (max_age.ns > 0 && !mono_before(max_age, now->age) && uses_cache(l)))
		return got;
	if (!now->reachable && dns_question_life(l, now, false) > 0)
		return got;
	o.revalidate = true;
	o.stale_if_error = conf->dns_max_stale.ns == 0 ? MONO_NEVER : conf->dns_max_stale;
	got = cache_get(l->conf.cache, q, &o, on_cached, c, now, &c->wait);
	if (got != CACHE_WAIT)
		return got;
	c->late = mono_add(c->begun, LATE);
	if (!ev_is_active(&l->late))
		ev_timer_again(l->conf.loop, &l->late);
	return got;
}

/* Those that wait for too long have the older answer. */
static void
on_late(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	static const struct cache_options any = { .max_age = { INT64_MAX } };
	struct dns_lookups *l = w->data;
	struct mono now = clock_mono();
	bool more = false;

	for (struct dns_lookup_call *c = LIST_FIRST(&l->calls), *next; c != NULL; c = next) {
		struct cache_question q = dns_question_cached(c->owner, &c->q);
		struct cache_answer answer;

		next = LIST_NEXT(c, link);
		if (c->late.ns == MONO_NEVER.ns || (c->wait == NULL && !c->fresh))
			continue;
		if (mono_before(now, c->late)) {
			more = true;
			continue;
		}
		c->late = MONO_NEVER;
		if (c->wait == NULL) {
			cancel_route(c);
			if (!start_cached(c))
				fail_call(c);
			continue;
		}
		cache_cancel(c->wait);
		c->wait = NULL;
		enum cache_got got = cache_get(l->conf.cache, &q, &any, on_cached, c, &answer, &c->wait);
		if (got == CACHE_HIT) {
			answer.reachable = false;
			take_cached(c, &answer);
		} else if (got == CACHE_FULL && !start_route(c)) {
			fail_call(c);
		}
	}
	if (!more)
		ev_timer_stop(l->conf.loop, &l->late);
}

/* False: it is to be routed. */
static bool
start_cached(struct dns_lookup_call *c)
{
	static const struct cache_options any = { .max_age = { INT64_MAX } };
	struct dns_lookups *l = c->owner;
	struct cache_question q = dns_question_cached(c->owner, &c->q);
	struct cache_answer now;
	enum cache_got got;
	bool followed;

	c->fresh = false;
	if (!has_cache(l) || !cache_takes(q.op, &followed))
		return false;
	if (followed && c->wish != DNS_FOLLOW_NO && c->follow == NULL)
		c->follow = dns_follow_new(l, &c->q);
	got = followed ? cache_get(l->conf.cache, &q, &any, on_cached, c, &now, &c->wait) :
	    get_unfollowed(c, &q, &now);
	c->asked = clock_mono();
	if (got != CACHE_HIT)
		return got == CACHE_WAIT;
	bool refresh = !followed && !now.reachable;
	if (refresh) {
		/* The question goes with the call, and the answer with the next use of the cache. */
		struct buf args = BUF_INIT(65536);
		uint8_t dc[OP_NAME_BYTES_MAX];

		buf_putspan(&args, q.args);
		if (q.dc.len > 0 && q.dc.len <= sizeof(dc)) {
			memcpy(dc, q.dc.p, q.dc.len);
			q.dc.p = dc;
		}
		take_cached(c, &now);
		q.args = buf_span(&args);
		if (!args.failed && q.dc.len <= sizeof(dc))
			probe_servers(l, &q);
		buf_done(&args);
		return true;
	}
	take_cached(c, &now);
	return true;
}

/* Of a server; but if that takes too long, or fails, from the cache, which follows it meanwhile. */
static bool
start_fresh(struct dns_lookup_call *c)
{
	struct dns_lookups *l = c->owner;

	if (!start_route(c))
		return false;
	c->fresh = true;
	c->late = mono_add(c->begun, LATE);
	if (c->wish != DNS_FOLLOW_NO)
		c->follow = dns_follow_new(l, &c->q);
	c->asked = clock_mono();
	if (!ev_is_active(&l->late))
		ev_timer_again(l->conf.loop, &l->late);
	return true;
}

static bool
start_call(struct dns_lookup_call *c)
{
	bool followed;

	if (!has_cache(c->owner) || !cache_takes((enum op_code)c->q.op, &followed))
		return start_route(c);
	if (followed && !uses_cache(c->owner))
		return start_fresh(c);
	return start_cached(c) || start_route(c);
}

bool
dns_lookups_start(struct dns_lookups *l, uint64_t id, const struct msg_dns_ask *ask)
{
	enum dns_kind kind = (enum dns_kind)ask->kind;
	uint16_t op = dns_reply_op(kind);
	struct dns_lookup_call *c = NULL;

	if ((kind == DNS_KIND_ADDRESS && ask->name.len != 4 && ask->name.len != 16) ||
	    ask->datacenter.len > OP_NAME_BYTES_MAX)
		return false;
	if (op == 0) {
		l->done(l->ctx, id, &(struct msg_dns_found){ .status = DNS_NOWHERE,
		    .life_ms = uses_cache(l) ? BRIEF_MS : 0 });
		return true;
	}
	if (l->call_count < l->conf.calls_max)
		c = calloc(1, sizeof(*c) + ask->name.len + ask->datacenter.len);
	if (c == NULL)
		return false;
	c->owner = l;
	c->id = id;
	c->q.kind = kind;
	c->q.op = op;
	c->wish = (enum dns_follow)ask->follow;
	c->begun = clock_mono();
	c->late = MONO_NEVER;
	LIST_INSERT_HEAD(&l->calls, c, link);
	l->call_count++;
	if (dns_question_make(&c->q, l, ask, c->text) && start_call(c))
		return true;
	call_free(c);
	return false;
}

/* -- the whole -- */

const struct dns_lookup_origin *
dns_lookups_origin(const struct dns_lookups *l)
{
	return l->origin;
}

void
dns_lookups_cancel(struct dns_lookups *l)
{
	struct dns_lookup_call *c;

	while ((c = LIST_FIRST(&l->calls)) != NULL) {
		if (c->wait != NULL)
			cache_cancel(c->wait);
		cancel_route(c);
		call_free(c);
	}
	dns_lookups_unfollow_all(l);
}

void
dns_lookups_stats(const struct dns_lookups *l, struct dns_lookups_stats *out)
{
	*out = l->stats;
}

struct dns_lookups *
dns_lookups_new(const struct dns_lookups_conf *conf, dns_lookup_done *done, void *ctx)
{
	struct dns_lookups *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->conf = *conf;
	l->done = done;
	l->ctx = ctx;
	ev_timer_init(&l->late, on_late, 0., 0.1);
	ev_timer_init(&l->look, dns_follow_look_cb, 0., 0.001);
	l->late.data = l->look.data = l;
	return l;
}

void
dns_lookups_free(struct dns_lookups *l)
{
	if (l == NULL)
		return;
	dns_lookups_cancel(l);
	if (l->probe != NULL)
		cache_cancel(l->probe);
	ev_timer_stop(l->conf.loop, &l->late);
	ev_timer_stop(l->conf.loop, &l->look);
	map_done(&l->by_id);
	free(l);
}
