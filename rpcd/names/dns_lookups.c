/* Look-ups for DNS, see dns_lookups.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/base/addr.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/map.h"
#include "common/net/source.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/names/dns_lookups.h"
#include "rpcd/names/dns_reply.h"

#define TAG "dns"
#define ARENA_BYTES_MAX (128u << 20)
#define BRIEF_MS 500			/* what is not followed, and may be kept all the same */
#define LATE MONO_MS(1000)		/* then an older answer is better than none */
#define REFUSED_REPEAT MONO_S(300)	/* between two lines about the token */
#define SLICE 64			/* follows that one turn of the loop looks at */

/* A question, as the cache knows it. */
struct question {
	enum dns_kind kind;
	uint16_t op;
	bool own;			/* datacenter */
	uint64_t source;
	struct buf args;
	struct span name, dc;		/* in the memory of who has it; dc "": own */
};

struct follow {
	struct dns_lookups *owner;
	LIST_ENTRY(follow) link;
	struct question q;
	struct cache_follow *cache;
	struct map_node node;		/* whose hash is its id; 0: not yet, and it is in no map */
	uint64_t print;			/* of what was told last */
	struct mono used_at;
	bool lost;			/* what it tells is as old as the contact to servers */
	bool ended;
	uint8_t text[];
};

struct dns_lookup_call {
	struct dns_lookups *owner;
	LIST_ENTRY(dns_lookup_call) link;
	struct route_call *call;	/* one of these */
	struct failover *query;
	struct cache_wait *wait;
	struct follow *follow;		/* NULL: it is not to be followed */
	enum dns_follow wish;
	uint64_t id;
	struct question q;
	struct mono begun, late;	/* then an older answer is given; MONO_NEVER: there is none */
	struct mono asked;		/* of the cache, last */
	bool fresh;			/* routed so that a write shows, though the cache may know */
	uint8_t text[];
};

struct dns_lookups {
	struct dns_lookups_conf conf;
	dns_lookup_done *done;
	void *ctx;
	LIST_HEAD(, dns_lookup_call) calls;
	unsigned call_count;
	LIST_HEAD(, follow) follows;
	struct follow *look_next;	/* look_next: whose turn it is, after a change of members */
	struct map by_id;		/* follows */
	unsigned lost;			/* follows of the own datacenter without contact */
	bool away;			/* as was logged */
	struct cache_wait *probe;
	struct mono written_until;
	const struct dns_lookup_origin *origin;	/* while done runs */
	struct mono refused_next;	/* when it is logged again that the token is unknown */
	ev_timer late, look;
	struct dns_lookups_stats stats;
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

/* -- questions -- */

static struct cache_question
for_cache(const struct dns_lookups *l, const struct question *q)
{
	return (struct cache_question){
		.op = (enum op_code)q->op, .dc = q->dc, .args = buf_span(&q->args), .source = q->source,
		.token = token_of(&l->conf.token),
	};
}

/* Texts go to `text`, which has room.  False: no memory. */
static bool
question_make(struct question *q, const struct dns_lookups *l, const struct msg_dns_ask *ask, uint8_t *text)
{
	struct arena a = ARENA_INIT(65536);
	char address[ADDR_IP_BYTES];
	struct span tag = ask->tag;
	struct catalog_read read = { .Name = ask->name, .Tags = { &tag, ask->tagged, ask->tagged } };

	q->own = ask->datacenter.len == 0 || span_eqs(ask->datacenter, l->conf.datacenter);
	q->args = BUF_INIT(65536);
	q->name = span_of(text, ask->name.len);
	if (ask->name.len > 0)
		memcpy(text, ask->name.p, ask->name.len);
	text += ask->name.len;
	/* An execution may depend on whether the datacenter was named. */
	q->dc = q->own && q->kind != DNS_KIND_QUERY ? SPAN_NONE : span_of(text, ask->datacenter.len);
	if (q->dc.len > 0)
		memcpy(text, ask->datacenter.p, ask->datacenter.len);
	if (q->kind == DNS_KIND_QUERY) {
		struct addr from;

		q->source = addr_parse_span(ask->source, 0, &from) ? source_of_ip(&from) : 0;
		schema_pack(&prepared_ask_schema, &(struct prepared_ask){ .Name = ask->name, .Address = ask->source,
		    .Agent = q->dc.len > 0 ? SPAN_NONE : span_str(l->conf.node_name) }, &q->args);
		return !q->args.failed;
	}
	if (q->kind == DNS_KIND_ADDRESS) {
		struct addr ip = addr_of_bytes(ask->name.p, ask->name.len);

		read.Name = span_str(addr_ip(&ip, address));
	} else if (q->kind == DNS_KIND_NODES || q->kind == DNS_KIND_SERVICES) {
		read.Name = SPAN_NONE;
	}
	bool ok = cache_question_args((enum op_code)q->op, &read, &a, &q->args);
	arena_done(&a);
	return ok;
}

static struct span
datacenter_of(const struct dns_lookups *l, const struct question *q)
{
	return q->own ? span_str(l->conf.datacenter) : q->dc;
}

/* What is of another datacenter than this has its WAN addresses; see dns_reply.h. */
static struct span
local_of(const struct dns_lookups *l)
{
	return l->conf.conf->translate_wan_addrs ? span_str(l->conf.datacenter) : SPAN_NONE;
}

/* -- contact -- */

/* What the node of this name is to gossip. */
static bool
is_dead(void *ctx, struct span node)
{
	const struct dns_lookups *l = ctx;
	const struct member *m = members_find(l->conf.members, POOL_LAN, node);

	return m != NULL && (m->status == MEMBER_FAILED || m->status == MEMBER_LEFT);
}

static bool
depends_on_members(const struct question *q)
{
	return q->own && (q->kind == DNS_KIND_SERVICE || q->kind == DNS_KIND_CONNECT || q->kind == DNS_KIND_QUERY);
}

static void
note_contact(struct dns_lookups *l, const struct question *q, bool stale)
{
	if (!q->own || stale == l->away || (!stale && l->lost > 0))
		return;
	l->away = stale;
	if (l->conf.quiet)
		return;
	if (stale)
		log_warn(TAG, "no server of %s can be reached: names are answered from memory, up to "
		    "dns_config.max_stale", l->conf.datacenter);
	else
		log_info(TAG, "servers of %s can be reached again: names are answered from what they know",
		    l->conf.datacenter);
}

static uint64_t
left_of(struct mono most, uint64_t age_ms)
{
	uint64_t ms = (uint64_t)mono_ms(most);

	return most.ns == 0 ? UINT64_MAX : age_ms < ms ? ms - age_ms : 0;
}

/* Milliseconds that this answer may still be given, if nothing changes; 0: it is too old; UINT64_MAX: no limit. */
static uint64_t
life_of(const struct dns_lookups *l, const struct cache_answer *answer, bool followed)
{
	uint64_t age = (uint64_t)mono_ms(answer->age);
	uint64_t stale = left_of(l->conf.conf->dns_max_stale, followed ? answer->reply.last_contact_ms : age);
	uint64_t old = followed ? left_of(l->conf.conf->dns_cache_max_age, age) : UINT64_MAX;

	return stale < old ? stale : old;
}

/* The servers do not know the token: each question is SERVFAIL until it is another one. */
static void
note_refused(struct dns_lookups *l, const struct op_reply *reply)
{
	struct mono now = clock_mono();

	if (l->conf.quiet || reply->err != TV_EPERM || !span_starts(reply->text, span_str("ACL not found")) ||
	    mono_before(now, l->refused_next))
		return;
	l->refused_next = mono_add(now, REFUSED_REPEAT);
	log_warn(TAG, "ACL not found: %s is no token of this cluster (deleted, or expired), and names are answered "
	    "with SERVFAIL: set another one",
	    token_of(&l->conf.token).len > 0 ? "acl.tokens.default" : "the anonymous one");
}

/* What a cached answer to this question says. */
static void
read_cached(struct dns_lookups *l, const struct question *q, const struct op_reply *reply, bool stale,
    struct arena *a, struct msg_dns_found *found)
{
	dns_reply_read(q->kind, q->name, datacenter_of(l, q), local_of(l), reply, a, found);
	note_refused(l, reply);
	if (stale && depends_on_members(q) && l->conf.members != NULL)
		l->stats.dead_left_out += dns_reply_leave_out(found, is_dead, l);
	found->stale = stale;
}

/* An execution without what the cache adds; see cache.h. */
static struct op_reply
reply_of(const struct question *q, const struct cache_answer *answer)
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

static uint64_t
print_of(const struct msg_dns_found *found)
{
	struct buf b = BUF_INIT(16u << 20);

	schema_pack(&msg_dns_found_schema, found, &b);
	uint64_t print = b.failed ? 0 : keyed_hash(b.data, b.len);
	buf_done(&b);
	return print;
}

/* -- follows -- */

static struct follow *
follow_find(const struct dns_lookups *l, uint64_t id)
{
	return MAP_ENTRY(map_find(&l->by_id, id), struct follow, node);
}

static void
lost_set(struct follow *f, bool lost)
{
	if (f->q.own) {
		f->owner->lost += lost && !f->lost;
		f->owner->lost -= !lost && f->lost;
	}
	f->lost = lost;
}

/* forget: nobody else needs the entry, unless he asked for it. */
static void
follow_free(struct follow *f, bool forget)
{
	struct dns_lookups *l = f->owner;

	lost_set(f, false);
	cache_unfollow(f->cache);
	if (f->node.hash != 0) {
		map_remove(&l->by_id, &f->node);
		if (l->look_next == f)
			l->look_next = LIST_NEXT(f, link);
		LIST_REMOVE(f, link);
		l->stats.follows--;
	}
	if (forget) {
		struct cache_question q = for_cache(f->owner, &f->q);

		cache_forget(l->conf.cache, &q, f->used_at);
	}
	buf_done(&f->q.args);
	free(f);
}

static void
follow_end(struct follow *f)
{
	struct dns_lookups *l = f->owner;
	uint64_t id = f->node.hash;

	follow_free(f, false);
	l->conf.news(l->ctx, id, NULL);
}

/* Tells of it, if it is another one than was told. */
static void
follow_tell(struct follow *f, const struct cache_answer *answer)
{
	struct dns_lookups *l = f->owner;
	struct arena a = ARENA_INIT(ARENA_BYTES_MAX);
	struct msg_dns_found found;
	bool stale = answer->age.ns > 0;
	uint64_t life = life_of(l, answer, true);

	lost_set(f, stale);
	note_contact(l, &f->q, stale);
	read_cached(l, &f->q, &answer->reply, stale, &a, &found);
	found.followed = true;
	uint64_t print = print_of(&found);
	if (found.status == DNS_FAILED || life == 0) {
		follow_end(f);
	} else if (print != f->print || print == 0) {
		f->print = print;
		found.life_ms = stale && life != UINT64_MAX ? life : 0;
		l->conf.news(l->ctx, f->node.hash, &found);
	}
	arena_done(&a);
}

static void
on_news(void *ctx, const struct cache_answer *answer)
{
	struct follow *f = ctx;

	if (f->node.hash == 0)
		f->ended = f->ended || answer == NULL;
	else if (answer == NULL)
		follow_end(f);
	else
		follow_tell(f, answer);
}

/* Before the question is asked, so that nothing can change in between.  NULL: it cannot be followed. */
static struct follow *
follow_new(struct dns_lookups *l, const struct question *q)
{
	bool followed = false;
	struct follow *f = NULL;
	struct cache_question ask = for_cache(l, q);

	if (l->conf.news != NULL && l->stats.follows < l->conf.follows_max && cache_takes(ask.op, &followed) &&
	    followed)
		f = calloc(1, sizeof(*f) + q->name.len + q->dc.len);
	if (f == NULL)
		return NULL;
	f->owner = l;
	f->q = *q;
	f->q.args = BUF_INIT(65536);
	buf_putspan(&f->q.args, ask.args);
	f->q.name = span_of(f->text, q->name.len);
	if (q->name.len > 0)
		memcpy(f->text, q->name.p, q->name.len);
	f->q.dc = span_of(f->text + q->name.len, q->dc.len);
	if (q->dc.len > 0)
		memcpy(f->text + q->name.len, q->dc.p, q->dc.len);
	f->cache = f->q.args.failed ? NULL : cache_follow(l->conf.cache, &ask, on_news, f);
	f->used_at = clock_mono();		/* no earlier than the cache has it */
	if (f->cache == NULL) {
		buf_done(&f->q.args);
		free(f);
		return NULL;
	}
	return f;
}

/* From now on it tells. */
static void
follow_begin(struct follow *f, uint64_t id, const struct msg_dns_found *found)
{
	struct dns_lookups *l = f->owner;

	f->print = print_of(found);
	map_add(&l->by_id, &f->node, id);
	LIST_INSERT_HEAD(&l->follows, f, link);
	l->stats.follows++;
	lost_set(f, found->stale);
}

void
dns_lookups_unfollow_all(struct dns_lookups *l)
{
	while (!LIST_EMPTY(&l->follows))
		follow_free(LIST_FIRST(&l->follows), false);
}

static bool
next_id(struct rd *ids, uint64_t *id)
{
	if (rd_left(ids) < sizeof(*id))
		return false;
	memcpy(id, rd_bytes(ids, sizeof(*id)).p, sizeof(*id));
	return true;
}

void
dns_lookups_use(struct dns_lookups *l, struct span ids)
{
	struct rd in = rd_span_over(ids);
	uint64_t id;

	while (next_id(&in, &id)) {
		struct follow *f = follow_find(l, id);

		if (f == NULL)
			continue;
		cache_follow_use(f->cache);
		f->used_at = clock_mono();
	}
}

void
dns_lookups_unfollow(struct dns_lookups *l, struct span ids)
{
	struct rd in = rd_span_over(ids);
	uint64_t id;

	while (next_id(&in, &id)) {
		struct follow *f = follow_find(l, id);

		if (f != NULL)
			/* A list is large, and costs with each change. */
			follow_free(f, f->q.kind == DNS_KIND_NODES || f->q.kind == DNS_KIND_SERVICES);
	}
}

/* Some of those that depend on who is dead. */
static void
on_look(struct ev_loop *loop, ev_timer *w, int events UNUSED)
{
	struct dns_lookups *l = w->data;

	(void)loop;
	for (unsigned i = 0; i < SLICE && l->look_next != NULL; i++) {
		struct follow *f = l->look_next;
		struct cache_answer now;

		l->look_next = LIST_NEXT(f, link);
		if (f->lost && depends_on_members(&f->q) && cache_followed(f->cache, &now))
			follow_tell(f, &now);
	}
	if (l->look_next != NULL)
		ev_timer_again(l->conf.loop, &l->look);
	else
		ev_timer_stop(l->conf.loop, &l->look);
}

void
dns_lookups_members(struct dns_lookups *l)
{
	if (l->lost == 0)
		return;
	l->look_next = LIST_FIRST(&l->follows);
	if (l->look_next != NULL)
		ev_timer_again(l->conf.loop, &l->look);
}

/* -- the ends of look-ups -- */

static void
call_free(struct dns_lookup_call *c)
{
	if (c->follow != NULL)
		follow_free(c->follow, false);
	buf_done(&c->q.args);
	LIST_REMOVE(c, link);
	c->owner->call_count--;
	free(c);
}

/* Of what cannot be followed, or is not worth it: may it be kept for a moment? */
static bool
is_brief(const struct question *q, const struct msg_dns_found *found)
{
	if (q->kind == DNS_KIND_ADDRESS)
		return found->status != DNS_FAILED;
	return found->status == DNS_NOWHERE &&
	    (!q->own || q->kind == DNS_KIND_CONNECT || q->kind == DNS_KIND_QUERY || q->kind == DNS_KIND_INGRESS);
}

static void
tell(struct dns_lookup_call *c, struct msg_dns_found *found, const struct dns_lookup_origin *origin)
{
	struct dns_lookups *l = c->owner;

	if (!found->followed && uses_cache(l) && is_brief(&c->q, found))
		found->life_ms = BRIEF_MS;
	l->origin = origin;
	l->done(l->ctx, c->id, found);
	l->origin = NULL;
}

static void
fail(struct dns_lookup_call *c)
{
	tell(c, &(struct msg_dns_found){ .status = DNS_FAILED }, NULL);
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

/* Nobody needs what the cache has of it. */
static void
forget(struct dns_lookup_call *c)
{
	struct cache_question q = for_cache(c->owner, &c->q);

	if (c->follow != NULL)
		follow_free(c->follow, false);
	c->follow = NULL;
	cache_forget(c->owner->conf.cache, &q, c->asked);
}

static bool start_cached(struct dns_lookup_call *c);

static void
take_reply(struct dns_lookup_call *c, const struct op_reply *reply)
{
	bool stale = c->owner->conf.conf->dns_allow_stale;
	struct arena a = ARENA_INIT(ARENA_BYTES_MAX);
	struct msg_dns_found found;
	struct follow *f = NULL;
	struct cache_answer now;

	c->call = NULL;
	c->query = NULL;
	dns_reply_read(c->q.kind, c->q.name, datacenter_of(c->owner, &c->q), local_of(c->owner), reply, &a, &found);
	note_refused(c->owner, reply);
	if (found.status == DNS_FAILED && c->fresh) {
		arena_done(&a);
		if (!start_cached(c))
			fail(c);
		return;
	}
	if (is_worth(c, &found)) {
		f = c->follow;
		c->follow = NULL;
		found.followed = true;
		follow_begin(f, c->id, &found);
	}
	tell(c, &found, &(struct dns_lookup_origin){ .reply = reply, .stale = stale,
	    .last_contact_ms = stale ? reply->last_contact_ms : 0 });
	/* The cache may know less, or more: what it tells from now on goes on from there. */
	if (f != NULL && cache_followed(f->cache, &now))
		follow_tell(f, &now);
	else if (c->fresh && f == NULL && found.status == DNS_NOWHERE)
		forget(c);
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
		follow_free(c->follow, false);
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
	struct arena a = ARENA_INIT(ARENA_BYTES_MAX);
	struct msg_dns_found found;

	(void)cache_takes((enum op_code)c->q.op, &followed);
	bool stale = ok && answer->age.ns > 0 && (followed || !answer->reachable);
	uint64_t life = life_of(l, answer, followed);
	if (ok && life == 0 && (stale || followed)) {
		if (!start_route(c))
			fail(c);
		return;
	}
	struct op_reply reply = reply_of(&c->q, answer);
	read_cached(l, &c->q, &reply, stale, &a, &found);
	if (ok) {
		note_contact(l, &c->q, stale);
		l->stats.cached += answer->hit;
		l->stats.stale += stale;
	}
	bool worth = is_worth(c, &found);
	if (worth) {
		found.followed = true;
		follow_begin(c->follow, c->id, &found);
		c->follow = NULL;
		found.life_ms = stale && life != UINT64_MAX ? life : 0;
	}
	/* Before the cache is called again: it borrows the answer. */
	tell(c, &found, &(struct dns_lookup_origin){ .reply = &reply, .last_contact_ms = reply.last_contact_ms,
	    .stale = true, .cached = answer->hit, .age = answer->age });
	if (followed && !worth && found.status == DNS_NOWHERE)
		forget(c);
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

/* Nobody follows it: whether servers can be reached again shows when they are asked. */
static void
probe(struct dns_lookups *l, const struct cache_question *q)
{
	static const struct cache_options o = { .revalidate = true };
	struct cache_answer now;

	if (l->probe == NULL)
		(void)cache_get(l->conf.cache, q, &o, on_probe, l, &now, &l->probe);
}

/*
 * What is not followed is asked for each time, unless it may have an age; but while nobody can be reached, or is slow,
 * an older answer is given.
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
	if (!now->reachable && life_of(l, now, false) > 0)
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
on_late(struct ev_loop *loop, ev_timer *w, int events UNUSED)
{
	static const struct cache_options any = { .max_age = { INT64_MAX } };
	struct dns_lookups *l = w->data;
	struct mono now = clock_mono();
	bool more = false;

	(void)loop;
	for (struct dns_lookup_call *c = LIST_FIRST(&l->calls), *next; c != NULL; c = next) {
		struct cache_question q = for_cache(c->owner, &c->q);
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
				fail(c);
			continue;
		}
		cache_cancel(c->wait);
		c->wait = NULL;
		enum cache_got got = cache_get(l->conf.cache, &q, &any, on_cached, c, &answer, &c->wait);
		if (got == CACHE_HIT) {
			answer.reachable = false;
			take_cached(c, &answer);
		} else if (got == CACHE_FULL && !start_route(c)) {
			fail(c);
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
	struct cache_question q = for_cache(c->owner, &c->q);
	struct cache_answer now;
	enum cache_got got;
	bool followed;

	c->fresh = false;
	if (!has_cache(l) || !cache_takes(q.op, &followed))
		return false;
	if (followed && c->wish != DNS_FOLLOW_NO && c->follow == NULL)
		c->follow = follow_new(l, &c->q);
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
			probe(l, &q);
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
		c->follow = follow_new(l, &c->q);
	c->asked = clock_mono();
	if (!ev_is_active(&l->late))
		ev_timer_again(l->conf.loop, &l->late);
	return true;
}

static bool
start(struct dns_lookup_call *c)
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
	if (question_make(&c->q, l, ask, c->text) && start(c))
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
	ev_timer_init(&l->look, on_look, 0., 0.001);
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
