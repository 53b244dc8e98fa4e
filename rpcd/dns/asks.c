/*
 * Questions under way in rpcd-dns, and what is looked up for them.  A question is answered anew with each round of
 * facts; mostly there is one.  Questions that need the same share the look-up.
 *
 * What rpcd goes on telling of is kept (facts.h), and most questions are answered from that at once.  After a question
 * for a name that there is not, the lists of all names are kept too for a while: they show without a question
 * that there is none of another one either.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/msg.h"
#include "common/net/source.h"
#include "rpcd/dns/message.h"
#include "rpcd/dns/server.h"

#define TAG "dns"
#define ASK_TIME MONO_S(10)		/* clients give up before */
#define SWEEP_S 1.
#define OWN_QUESTION_MAX (DNS_HEADER_BYTES + DNAME_BYTES_MAX + 4)
#define FACTS_MAX 16384			/* kept; rpcd follows fewer */
#define RENDERED_PART 4			/* of the bytes of facts; answers made of them have so many more */
#define BRIEF_MAX 4096			/* with a short life */
#define BRIEF_BYTES (2u << 20)
#define UNKNOWN_TIME MONO_S(60)		/* lists go so long after the last question for an unknown name */
#define UNLISTED_TIME MONO_S(60)
#define IDS_MAX 1024			/* in one message */

struct look {
	struct server *server;
	struct dns_lookup key;		/* in the memory behind */
	uint32_t place, serial;
	bool under_way;
	struct join_flight flight;	/* open while under way, but of recursors; waiters use what was found, too */
	struct upstream_call *call;
	struct arena arena;		/* of what was found */
	struct dns_found found;
};

static void run_ask(struct ask *a);

/* -- what is kept -- */

static void
tell_use(struct server *s, const uint64_t *used, unsigned used_count, const uint64_t *dropped, unsigned dropped_count)
{
	(void)chan_send_record(s->chan, MSG_DNS_USE, 0, &msg_dns_use_schema, &(struct msg_dns_use){
		span_of(used, used_count * sizeof(*used)), span_of(dropped, dropped_count * sizeof(*dropped)),
	    });
}

static void
tell_dropped(struct server *s)
{
	uint64_t ids[IDS_MAX];
	unsigned n = 0;
	bool more;

	do {
		if ((more = facts_next_dropped(&s->kept, &ids[n])))
			n++;
		if (n == IDS_MAX || (!more && n > 0)) {
			tell_use(s, NULL, 0, ids, n);
			n = 0;
		}
	} while (more);
}

static void
on_use(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct server *s = w->data;
	uint64_t ids[IDS_MAX];
	unsigned n;

	tell_dropped(s);
	do {
		if ((n = facts_take_used(&s->kept, ids, IDS_MAX)) > 0)
			tell_use(s, ids, n, NULL, 0);
	} while (n == IDS_MAX);
}

static bool
is_own(const struct server *s, const struct dns_lookup *k)
{
	return k->datacenter.len == 0 || span_eq(k->datacenter, s->zone.datacenter);
}

/* Of unknown_until: which list says whether there is such a name?  False: none does. */
static bool
list_of(const struct server *s, const struct dns_lookup *k, unsigned *which, struct dns_lookup *list)
{
	if (!is_own(s, k) || (k->kind != DNS_KIND_NODE && k->kind != DNS_KIND_SERVICE))
		return false;
	*which = k->kind == DNS_KIND_SERVICE;
	*list = (struct dns_lookup){ .kind = *which ? DNS_KIND_SERVICES : DNS_KIND_NODES };
	return true;
}

/* Is there no such name, by the lists?  Otherwise *need may be a list that is to be had first. */
static bool
is_denied(struct server *s, struct mono now, const struct dns_lookup *k, struct dns_lookup *need)
{
	struct dns_lookup list;
	unsigned which;

	if (!list_of(s, k, &which, &list) || !mono_before(now, s->unknown_until[which]))
		return false;
	const struct fact *names = facts_find(&s->kept, now, &list);
	if (names == NULL) {
		if (!mono_before(now, s->unlisted_until[which]))
			*need = list;
		return false;
	}
	bool denied = !fact_lists(&s->kept, names, k->name);
	bool stale = names->stale;
	if (!denied && k->tagged) {
		list = (struct dns_lookup){ .kind = DNS_KIND_TAGS, .name = k->name };
		if ((names = facts_find(&s->kept, now, &list)) == NULL) {
			*need = list;
			return false;
		}
		denied = !fact_lists(&s->kept, names, k->tag);
		stale = names->stale;
	}
	if (denied) {
		s->unknown_until[which] = mono_add(now, UNKNOWN_TIME);
		s->stats.denied++;
		s->stats.stale += stale;
	}
	return denied;
}

/* Stands for all of them, where an answer was made of several. */
static struct fact several;

static const struct dns_found *
known(void *ctx, const struct dns_lookup *k, struct dns_lookup *need)
{
	static const struct dns_found nowhere = { .status = DNS_NOWHERE }, failed = { .status = DNS_FAILED };
	struct server *s = ctx;
	struct mono now;
	struct fact *f;

	if (!s->conf.keep || k->kind == DNS_KIND_UPSTREAM) {
		s->used_one = &several;
		return NULL;
	}
	now = clock_mono();
	if (mono_before(now, s->written_until))
		return NULL;
	if ((f = facts_find(&s->kept, now, k)) == NULL && (f = facts_find(&s->brief, now, k)) == NULL) {
		s->used_one = &several;
		return is_denied(s, now, k, need) ? &nowhere : NULL;
	}
	s->stats.kept++;
	s->stats.stale += f->stale;
	s->used_one = s->used_one == NULL ? f : s->used_one == f ? f : &several;
	for (unsigned i = 0; i < s->unpacked_count; i++)
		if (s->unpacked[i].fact == f)
			return s->used_found = s->unpacked[i].found;
	struct dns_found *found = arena_alloc(&s->arena, sizeof(*found));
	if (found == NULL || !dns_found_read(f->body, &s->arena, found)) {
		s->used_one = &several;		/* without memory; the answer is not kept */
		return &failed;
	}
	if (s->unpacked_count < UNPACKED_MAX)
		s->unpacked[s->unpacked_count++] = (struct unpacked){ f, found };
	return s->used_found = found;
}

/* What of it is rpcd to go on telling of? */
static enum dns_follow
follow_of(struct server *s, const struct dns_lookup *k)
{
	struct dns_lookup list;
	unsigned which;
	const struct fact *names;

	if (!s->conf.keep)
		return DNS_FOLLOW_NO;
	if (k->kind == DNS_KIND_NODES || k->kind == DNS_KIND_SERVICES || k->kind == DNS_KIND_TAGS)
		return DNS_FOLLOW_ANY;
	if (k->kind != DNS_KIND_NODE && k->kind != DNS_KIND_SERVICE && k->kind != DNS_KIND_CONNECT)
		return DNS_FOLLOW_NO;
	if (!list_of(s, k, &which, &list) || (names = facts_find(&s->kept, clock_mono(), &list)) == NULL)
		return DNS_FOLLOW_FOUND;
	return fact_lists(&s->kept, names, k->name) ? DNS_FOLLOW_ANY : DNS_FOLLOW_FOUND;
}

/* A fact that rpcd goes on telling of, or that lives for a moment.  key may be the one of the fact that it replaces. */
static void
keep_fact(struct server *s, uint64_t id, const struct dns_lookup *key, const struct msg_dns_found *m, struct span body)
{
	struct mono now = clock_mono(), until = MONO_NEVER;
	struct facts *t = m->followed ? &s->kept : &s->brief;
	enum dns_kind kind = key->kind;
	struct fact *f;

	if (!s->conf.keep || (!m->followed && m->life_ms == 0))
		return;
	if (m->life_ms > 0 && m->life_ms < INT64_MAX / 4000000)
		until = mono_add(now, MONO_MS(m->life_ms));
	f = fact_new(t, key, body);
	if (f != NULL)
		f->stale = m->stale;
	if ((f == NULL || !facts_put(t, f, m->followed ? id : 0, until)) && m->followed) {
		tell_use(s, NULL, 0, &id, 1);
		if (kind == DNS_KIND_NODES || kind == DNS_KIND_SERVICES)
			s->unlisted_until[kind == DNS_KIND_SERVICES] = mono_add(now, UNLISTED_TIME);
	}
	fact_release(f);
	tell_dropped(s);
}

/* After this name that there is not, others may come. */
static void
note_unknown(struct server *s, const struct dns_lookup *k)
{
	struct dns_lookup list;
	unsigned which;

	if (list_of(s, k, &which, &list))
		s->unknown_until[which] = mono_add(clock_mono(), UNKNOWN_TIME);
}

enum tv_err
asks_fact(struct server *s, uint64_t id, struct span body)
{
	const struct fact *old = facts_of(&s->kept, id);
	struct msg_dns_found m = { 0 };
	enum tv_err err;

	if (old == NULL)
		return TV_OK;		/* it was dropped, and rpcd is told */
	arena_reset(&s->arena);
	if ((err = msg_read(&msg_dns_found_schema, body, &s->arena, &m)) != TV_OK || m.status == DNS_FAILED ||
	    !m.followed) {
		facts_drop(&s->kept, old, true);
		tell_dropped(s);
		return err == TV_ENOMEM ? TV_OK : err;
	}
	keep_fact(s, id, &old->key, &m, body);
	return TV_OK;
}

void
asks_end(struct server *s, uint64_t id)
{
	const struct fact *f = facts_of(&s->kept, id);

	if (f != NULL)
		facts_drop(&s->kept, f, false);
}

void
asks_written(struct server *s)
{
	s->written_until = mono_add(clock_mono(), DNS_WRITTEN_TIME);
	facts_clear(&s->brief);
}

void
asks_setup(struct server *s)
{
	facts_clear(&s->kept);
	facts_clear(&s->brief);
	facts_limit(&s->kept, (size_t)s->conf.keep_bytes);
	s->rendered.bytes_max = (size_t)s->conf.keep_bytes / RENDERED_PART;
	for (unsigned i = 0; i < 2; i++)
		s->unknown_until[i] = s->unlisted_until[i] = MONO_ZERO;
	ev_timer_stop(s->loop, &s->use);
	s->use.repeat = s->conf.use_ms > 0 ? (double)s->conf.use_ms / 1000 : 1.;
	if (s->conf.keep)
		ev_timer_again(s->loop, &s->use);
}

/* There was no question for an unknown name for a while. */
static void
drop_lists(struct server *s, struct mono now)
{
	for (unsigned i = 0; i < 2; i++) {
		const struct dns_lookup k = { .kind = i == 1 ? DNS_KIND_SERVICES : DNS_KIND_NODES };
		const struct fact *f;

		if (s->unknown_until[i].ns == 0 || mono_before(now, s->unknown_until[i]))
			continue;
		s->unknown_until[i] = MONO_ZERO;
		if ((f = facts_find(&s->kept, now, &k)) != NULL)
			facts_drop(&s->kept, f, true);
	}
	tell_dropped(s);
}

/* -- look-ups -- */

/* In a free place.  NULL: too many, or no memory. */
static struct look *
look_new(struct server *s, const struct dns_lookup *k)
{
	struct look *l = NULL;
	uint32_t place = 0;

	if (s->looks < LOOKS_MAX)
		l = calloc(1, sizeof(*l) + k->name.len + k->tag.len + k->datacenter.len + k->source.len);
	if (l == NULL)
		return NULL;
	for (place = s->serial % (LOOKS_MAX * 2); s->places[place] != NULL; place = (place + 1) % (LOOKS_MAX * 2))
		;
	uint8_t *at = (uint8_t *)(l + 1);
	l->server = s;
	l->key = (struct dns_lookup){ .kind = k->kind, .name = span_place(&at, k->name), .tag = span_place(&at, k->tag),
	    .tagged = k->tagged, .datacenter = span_place(&at, k->datacenter), .source = span_place(&at, k->source) };
	l->place = place;
	l->serial = ++s->serial;
	l->arena = ARENA_INIT(ARENA_BYTES_MAX);
	s->places[place] = l;
	s->looks++;
	return l;
}

static void
look_free(struct look *l)
{
	join_close(&l->server->looks_open, &l->flight);
	if (l->call != NULL)
		upstream_cancel(l->call);
	l->server->places[l->place] = NULL;
	l->server->looks--;
	arena_done(&l->arena);
	free(l);
}

/*
 * Gives it to the questions that wait.  Those that have all then are run: none ends another, the last one may free the
 * look-up.
 */
static void
look_found(struct look *l)
{
	struct ask *ready = NULL;
	struct join_waiter *j;

	join_close(&l->server->looks_open, &l->flight);
	l->under_way = false;
	l->call = NULL;
	LIST_FOREACH(j, &l->flight.waiters, link) {
		struct waiter *w = JOIN_ENTRY(j, struct waiter, joined);
		struct ask *a = w->ask;

		a->facts.v[w - a->waiters].found = &l->found;
		if (--a->missing > 0)
			continue;
		a->next_ready = ready;
		ready = a;
	}
	for (struct ask *a = ready, *next; a != NULL; a = next) {
		next = a->next_ready;
		run_ask(a);
	}
}

static void
upstream_found(void *ctx, struct span reply)
{
	struct look *l = ctx;

	l->call = NULL;
	l->found.status = reply.len == 0 ? DNS_FAILED : DNS_FOUND;
	l->found.message = arena_copy(&l->arena, reply);
	look_found(l);
}

/* A question of our own for a name elsewhere: type A, as Consul asks. */
static struct upstream_call *
ask_upstream(struct look *l)
{
	uint8_t bytes[OWN_QUESTION_MAX];
	struct buf b = { bytes, 0, sizeof(bytes), sizeof(bytes), false, false };

	buf_u16be(&b, 0);
	buf_u16be(&b, DNS_RD);
	buf_u16be(&b, 1);
	buf_u32be(&b, 0);
	buf_u16be(&b, 0);
	buf_putspan(&b, l->key.name);
	buf_u16be(&b, DNS_A);
	buf_u16be(&b, 1);
	return upstream_ask(l->server, buf_span(&b), false, upstream_found, l);
}

static bool
look_start(struct look *l, uint64_t hash)
{
	struct server *s = l->server;
	const struct dns_lookup *k = &l->key;

	if (k->kind == DNS_KIND_UPSTREAM) {
		if ((l->call = ask_upstream(l)) == NULL)
			return false;
	} else if (chan_send_record(s->chan, MSG_DNS_ASK, (uint64_t)l->serial << 32 | l->place, &msg_dns_ask_schema,
	    &(struct msg_dns_ask){ k->kind, k->name, k->tag, k->tagged, k->datacenter, k->source,
	    follow_of(s, k) }) != TV_OK) {
		return false;
	}
	s->stats.lookups++;
	l->under_way = true;
	/* What a recursor is asked for one question is not another's: as recorded. */
	if (k->kind != DNS_KIND_UPSTREAM)
		join_open(&s->looks_open, &l->flight, hash);
	return true;
}

/* The one that is under way, or a new one.  NULL: it cannot be looked up. */
static struct look *
look_join(struct server *s, const struct dns_lookup *k)
{
	uint64_t hash = dns_lookup_hash(k, keyed_hash);
	struct look *l;

	MAP_FOREACH_HASH(l, &s->looks_open, hash, flight.node)
		if (dns_lookup_eq(&l->key, k)) {
			s->stats.lookups_joined++;
			return l;
		}
	l = look_new(s, k);
	if (l != NULL && !look_start(l, hash)) {
		look_free(l);
		return NULL;
	}
	return l;
}

enum tv_err
asks_found(struct server *s, uint64_t id, struct span body)
{
	uint32_t place = (uint32_t)id;
	struct look *l = place < LOOKS_MAX * 2 ? s->places[place] : NULL;
	struct msg_dns_found m = { 0 };

	if (l == NULL || l->serial != id >> 32 || !l->under_way)
		return TV_OK;		/* no question waits for it any more */
	body = arena_copy(&l->arena, body);
	enum tv_err err = body.p == NULL ? TV_ENOMEM : msg_read(&msg_dns_found_schema, body, &l->arena, &m);
	l->found = err == TV_OK ? dns_found_of(&m) : (struct dns_found){ .status = DNS_FAILED };
	if (err == TV_OK)
		keep_fact(s, id, &l->key, &m, body);
	if (l->found.status == DNS_NOWHERE && !m.followed)
		note_unknown(s, &l->key);
	look_found(l);
	return err == TV_ENOMEM ? TV_OK : err;
}

/* -- questions -- */

static void
ask_free(struct ask *a)
{
	struct server *s = a->server;

	for (unsigned i = 0; i < DNS_FACTS_MAX; i++) {
		struct look *l = JOIN_ENTRY(join_leave(&a->waiters[i].joined), struct look, flight);

		if (l != NULL)
			look_free(l);
	}
	if (a->forward != NULL)
		upstream_cancel(a->forward);
	TAILQ_REMOVE(&s->asks, a, link);
	s->ask_count--;
	free(a);
	server_left(s);
}

/* Is an answer to this one, now?  By the name, in lower case, and the type; names that do not exist are one. */
static enum rate_verdict
rated(struct server *s, const struct client *c, struct span name, uint16_t type, enum dns_rcode rcode)
{
	struct {
		uint64_t net;
		uint16_t type, rcode;
		uint8_t name[DNAME_BYTES_MAX];
	} key;

	if (c->udp == NULL || s->conf.equal_answers == 0 || setup_is_own(s, &c->from))
		return RATE_PASS;
	memset(&key, 0, sizeof(key));
	key.net = c->from.any.sa_family == AF_INET ? ntohl(c->from.v4.sin_addr.s_addr) >> 8 : source_of(&c->from.any);
	key.rcode = rcode;
	if (rcode == DNS_NOERROR) {
		key.type = type;
		if (name.len > 0)
			memcpy(key.name, name.p, name.len);
	}
	return rate_take(&s->rate, keyed_hash(&key, sizeof(key)), s->conf.equal_answers, mono_ms(clock_mono()));
}

/* Those over UDP are answers when they have left. */
static void
count(struct server *s, const struct client *c, enum dns_rcode rcode)
{
	s->stats.answers += c->udp == NULL;
	s->stats.name_errors += rcode == DNS_NXDOMAIN;
	s->stats.failures += rcode == DNS_SERVFAIL;
	s->stats.refused += rcode == DNS_REFUSED;
}

static void
send_answer(struct server *s, const struct client *c, struct span answer)
{
	count(s, c, (enum dns_rcode)(answer.p[3] & 15));
	if (c->udp != NULL)
		udp_send(s, c, answer);
	else
		tcp_send(s, c->conn, answer);
}

/* Beyond the limit: every second one is told to come over TCP. */
static void
send_limited(struct server *s, const struct client *c, const struct dns_query *q, enum rate_verdict rate)
{
	uint8_t bytes[OWN_QUESTION_MAX];
	struct buf slip = { bytes, 0, sizeof(bytes), sizeof(bytes), false, false };

	s->stats.limited++;
	if (rate == RATE_DROP)
		return;
	dns_reply_bare(q, DNS_TC, DNS_NOERROR, &slip);
	send_answer(s, c, buf_span(&slip));
}

static void
reply(struct server *s, const struct client *c, const struct dns_query *q, struct span answer)
{
	struct dname lowered = q->name;

	dname_lower(&lowered);
	enum rate_verdict rate = rated(s, c, dname_span(&lowered), q->type, (enum dns_rcode)(answer.p[3] & 15));
	if (rate == RATE_PASS)
		send_answer(s, c, answer);
	else
		send_limited(s, c, q, rate);
}

static void
answer_error(struct server *s, const struct client *c, const struct dns_query *q, uint16_t flags, enum dns_rcode rcode)
{
	buf_reset(&s->out);
	dns_answer_error(q, flags, rcode, &s->out);
	reply(s, c, q, buf_span(&s->out));
}

static void
no_answer(struct server *s, const struct client *c)
{
	s->stats.dropped++;
	if (c->conn != NULL)
		tcp_no_answer(s, c->conn);
}

/* What a client can take over UDP: one that says nothing, 512 bytes (RFC 1035, 2.3.4; RFC 6891, 6.2.3). */
static size_t
taken_by(const struct dns_query *q)
{
	return q->edns && q->udp_size > DNS_UDP_BYTES ? q->udp_size : DNS_UDP_BYTES;
}

static void
forwarded(void *ctx, struct span answer)
{
	struct ask *a = ctx;
	struct server *s = a->server;

	a->forward = NULL;
	if (a->client.udp != NULL && answer.len > taken_by(&a->q)) {
		buf_reset(&s->out);
		dns_reply_cut(&a->q, answer, &s->out);
		answer = buf_span(&s->out);
	}
	if (answer.len > 0)
		reply(s, &a->client, &a->q, answer);
	else
		answer_error(s, &a->client, &a->q, DNS_RA, DNS_SERVFAIL);
	ask_free(a);
}

/* What is not ours.  True: the question stays, until a recursor has answered. */
static bool
forward(struct server *s, struct ask *a, const struct client *c, const struct dns_query *q)
{
	struct dname lowered = q->name;
	size_t labels;
	bool reverse;

	dname_lower(&lowered);
	reverse = dns_place_of(&s->zone, &lowered, &labels) == DNS_PLACE_REVERSE;
	if (!s->zone.recursors && reverse)
		answer_error(s, c, q, DNS_RA, DNS_SERVFAIL);
	else if (!s->zone.recursors || !setup_may_recurse(s, &c->from))
		answer_error(s, c, q, 0, DNS_REFUSED);
	else if ((a->forward = upstream_ask(s, a->msg, c->udp == NULL, forwarded, a)) != NULL)
		return true;
	else {
		s->stats.forwarded_failed += s->recursor_count == 0;	/* rpcd then resolves their names anew */
		answer_error(s, c, q, DNS_RA, DNS_SERVFAIL);
	}
	return false;
}

static uint32_t
wall_now(void)
{
	return (uint32_t)(clock_wall_ns() / 1000000000);
}

static enum dns_outcome
try(struct server *s, const struct dns_query *q, const struct client *c, uint64_t seed, struct dns_facts *facts)
{
	char source[DNS_ADDRESS_TEXT_MAX];

	dns_subnet_text(q, source);
	if (source[0] == '\0')
		address_text(&c->from, source);
	arena_reset(&s->arena);
	buf_reset(&s->out);
	s->used_one = NULL;
	s->used_found = NULL;
	s->unpacked_count = 0;
	return dns_answer(&s->zone, q, &(struct dns_asker){ .tcp = c->udp == NULL, .source = span_str(source),
	    .seed = seed, .now = wall_now(), .names = &s->names, .known = known,
	    .ctx = s }, facts, &s->arena, &s->out);
}

/* Starts what it misses.  False: something of it cannot be looked up. */
static bool
look_for(struct ask *a)
{
	for (unsigned i = 0; i < a->facts.n; i++) {
		struct waiter *w = &a->waiters[i];

		if (w->joined.flight != NULL)
			continue;
		struct look *l = look_join(a->server, &a->facts.v[i].lookup);
		if (l == NULL)
			return false;
		*w = (struct waiter){ .ask = a };
		join_wait(&l->flight, &w->joined);
		a->facts.v[i].lookup = l->key;
		a->missing++;
	}
	return true;
}

/* All that it missed is there.  Ends the question, unless it needs more. */
static void
run_ask(struct ask *a)
{
	struct server *s = a->server;

	/* Many that waited for one look-up have their answers one after the other, as their clients take them. */
	if (a->client.conn != NULL && !tcp_has_room(a->client.conn)) {
		tcp_again(a->client.conn, a->msg);
		ask_free(a);
		return;
	}
	enum dns_outcome outcome = try(s, &a->q, &a->client, a->seed, &a->facts);
	if (outcome == DNS_NEED && look_for(a))
		return;
	if (outcome == DNS_FORWARD) {
		if (forward(s, a, &a->client, &a->q))
			return;
	} else if (outcome == DNS_DONE) {
		reply(s, &a->client, &a->q, buf_span(&s->out));
	} else if (outcome == DNS_NEED) {
		answer_error(s, &a->client, &a->q, DNS_AA | (s->zone.recursors ? DNS_RA : 0), DNS_SERVFAIL);
	} else {
		no_answer(s, &a->client);
	}
	ask_free(a);
}

static struct ask *
ask_new(struct server *s, struct span msg, const struct client *c, const struct dns_query *q, uint64_t seed)
{
	struct ask *a = s->ask_count < ASKS_MAX ? calloc(1, sizeof(*a) + msg.len) : NULL;

	if (a == NULL)
		return NULL;
	a->server = s;
	a->client = *c;
	a->q = *q;
	a->seed = seed;
	memcpy(a + 1, msg.p, msg.len);
	a->msg = span_of(a + 1, msg.len);
	a->deadline = mono_add(clock_mono(), ASK_TIME);
	TAILQ_INSERT_TAIL(&s->asks, a, link);
	s->ask_count++;
	return a;
}

/* The answer as it was made before, if that still holds. */
static bool
reply_rendered(struct server *s, struct span msg, const struct client *c, const struct rendered_question *k)
{
	struct rendered_set *set;
	struct dns_query q;
	enum dns_rcode rcode;

	if (mono_before(clock_mono(), s->written_until))
		return false;
	buf_reset(&s->out);
	set = rendered_write(&s->rendered, k, &s->rng, wall_now(), &s->out);
	if (set == NULL || s->out.failed)
		return false;
	struct fact *f = (struct fact *)(void *)((char *)set - offsetof(struct fact, answers));
	facts_use(&s->kept, f);
	s->stats.kept++;
	s->stats.rendered++;
	s->stats.stale += f->stale;
	enum rate_verdict rate = rated(s, c, rendered_name(k), k->type, (enum dns_rcode)(s->out.data[3] & 15));
	if (rate == RATE_PASS)
		send_answer(s, c, buf_span(&s->out));
	else if (dns_query_read(msg, &q, &rcode) == DNS_SERVE)
		send_limited(s, c, &q, rate);
	return true;
}

/* The answer in s->out is kept, if it was made of one fact that rpcd tells of. */
static void
keep_rendered(struct server *s, const struct rendered_question *k)
{
	struct fact *f = s->used_one;

	if (f != NULL && f != &several && f->listed && fact_id(f) != 0 && f->until.ns == MONO_NEVER.ns)
		rendered_keep(&s->rendered, &f->answers, k, &s->zone, s->used_found, buf_span(&s->out), wall_now(),
		    &s->arena);
}

bool
ask_begin(struct server *s, struct span msg, const struct client *c)
{
	struct dns_query q;
	struct rendered_question k;
	struct dns_facts facts = { .n = 0 };
	enum dns_rcode rcode;
	bool plain = rendered_read(&s->rendered, msg, c->udp == NULL, &k);

	if (plain && reply_rendered(s, msg, c, &k))
		return true;
	enum dns_verdict verdict = dns_query_read(msg, &q, &rcode);
	uint64_t seed = rng_u64(&s->rng);

	if (verdict != DNS_SERVE) {
		s->stats.malformed++;
		if (verdict == DNS_IGNORE)
			return false;
		buf_reset(&s->out);
		dns_reply_bare(&q, 0, rcode, &s->out);
		reply(s, c, &q, buf_span(&s->out));
		return true;
	}
	enum dns_outcome outcome = try(s, &q, c, seed, &facts);
	if (outcome == DNS_DONE) {
		if (plain)
			keep_rendered(s, &k);
		reply(s, c, &q, buf_span(&s->out));
		return true;
	}
	if (outcome == DNS_NO_ANSWER) {
		s->stats.dropped++;
		return false;
	}
	struct ask *a = ask_new(s, msg, c, &q, seed);
	if (a == NULL) {
		s->stats.dropped++;
		return false;
	}
	if (outcome == DNS_FORWARD) {
		if (!forward(s, a, c, &q))
			ask_free(a);
		return true;
	}
	a->facts = facts;
	if (!look_for(a)) {
		answer_error(s, c, &q, DNS_AA | (s->zone.recursors ? DNS_RA : 0), DNS_SERVFAIL);
		ask_free(a);
	}
	return true;
}

void
asks_drop_conn(struct server *s, const struct tcp_conn *conn)
{
	for (struct ask *a = TAILQ_FIRST(&s->asks), *next; a != NULL; a = next) {
		next = TAILQ_NEXT(a, link);
		if (a->client.conn == conn)
			ask_free(a);
	}
}

static void
on_sweep(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct server *s = w->data;
	struct mono now = clock_mono();

	drop_lists(s, now);
	for (struct ask *a; (a = TAILQ_FIRST(&s->asks)) != NULL && mono_before(a->deadline, now);) {
		answer_error(s, &a->client, &a->q, s->zone.recursors ? DNS_RA : 0, DNS_SERVFAIL);
		ask_free(a);
	}
}

bool
asks_open(struct server *s)
{
	TAILQ_INIT(&s->asks);
	s->arena = ARENA_INIT(ARENA_BYTES_MAX);
	s->out = BUF_INIT(2 * DNS_MESSAGE_BYTES_MAX);
	s->places = calloc(LOOKS_MAX * 2, sizeof(*s->places));
	ev_timer_init(&s->sweep, on_sweep, SWEEP_S, SWEEP_S);
	s->sweep.data = s;
	ev_timer_start(s->loop, &s->sweep);
	s->kept.conf = (struct facts_conf){ .entries_max = FACTS_MAX, .hash = keyed_hash,
	    .rendered = &s->rendered };
	s->brief.conf = (struct facts_conf){ BRIEF_BYTES, BRIEF_MAX, keyed_hash, NULL };
	ev_init(&s->use, on_use);
	s->use.data = s;
	facts_open(&s->kept);
	facts_open(&s->brief);
	if (s->places == NULL || !rendered_open(&s->rendered, 0, keyed_hash))
		return false;
	asks_setup(s);
	return true;
}
