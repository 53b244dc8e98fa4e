/* See retry.h. */
#include "config.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/fnv.h"
#include "common/base/log.h"
#include "common/base/log_repeats.h"
#include "common/net/source.h"
#include "gossipd/net.h"
#include "gossipd/resolver.h"
#include "gossipd/retry.h"

#define ASKED_MAX 256			/* addresses in one round */
#define LOOKUPS_MAX 8			/* under way at once */
#define REPEAT MONO_S(300)		/* between two lines of one kind */

/* One entry of the list. */
struct wanted {
	struct span text;		/* borrowed */
	enum target_kind kind;
	bool looking;			/* it is being resolved */
	unsigned count;
	struct addr *addrs;		/* owned; as resolved last, without ourselves */
};

/* Some entries that one process resolves. */
struct lookup {
	struct retry *retry;		/* NULL: free */
	struct resolve *resolve;
	unsigned left, entries[RESOLVER_TARGETS_MAX];
};

struct retry {
	struct engine *e;
	enum gossip_pool kind;
	struct addr self;
	struct wanted *wanted;
	unsigned count;
	struct lookup lookups[LOOKUPS_MAX];
	struct addr asked[ASKED_MAX];	/* in this round */
	unsigned asked_count;
	unsigned joins, looking;	/* under way */
	bool contacted;			/* a member has answered in this round */
	struct swim_join failure;	/* the last one of this round; error TV_OK: none */
	bool told;			/* success was logged */
	struct mono wait;		/* before the next round */
	ev_timer timer;
	struct log_repeats repeats;
};

void
retry_wait_longer(const struct engine *e, ev_timer *w, struct mono *wait)
{
	ev_timer_stop(e->loop, w);
	ev_timer_set(w, mono_seconds(*wait) * (0.75 + 0.5 * (double)randombytes_uniform(1000) / 1000.0), 0.);
	ev_timer_start(e->loop, w);
	*wait = mono_min(mono_mul(*wait, 2), e->cluster->retry_interval);
}

static const char *
key_name(const struct retry *r)
{
	return r->kind == POOL_LAN ? "retry_join" : "retry_join_wan";
}

/* -- a round -- */

static bool
shows_alive(const struct swim *core, const struct addr *addr)
{
	struct swim_member m;
	uint32_t cursor = 0;

	while (swim_member_next(core, &cursor, &m)) {
		struct addr a = addr_unmapped(m.addr);

		if (m.status == MEMBER_ALIVE && addr_eq(&a, addr))
			return true;
	}
	return false;
}

static bool
is_loopback(const struct addr *a)
{
	static const uint8_t six[16] = { [15] = 1 };

	return a->len == 4 ? a->ip[0] == 127 : memcmp(a->ip, six, sizeof(six)) == 0;
}

/* A name of our own may lead to 127.0.1.1, as Debian's hosts file has it. */
static bool
is_self(const struct retry *r, const struct addr *a)
{
	bool everywhere = strcmp(r->e->cluster->bind, "0.0.0.0") == 0 || strcmp(r->e->cluster->bind, "::") == 0;

	return addr_eq(a, &r->self) || (everywhere && a->port == r->self.port && is_loopback(a));
}

/* One that is no member, and was not asked in this round. */
static bool
is_missing(struct retry *r, const struct addr *a)
{
	for (unsigned i = 0; i < r->asked_count; i++)
		if (addr_eq(&r->asked[i], a))
			return false;
	return r->asked_count < ASKED_MAX && !shows_alive(pool_core(r->e->pools[r->kind]), a);
}

static void
join_some(struct retry *r, const struct addr *addrs, unsigned count)
{
	if (count == 0)
		return;
	if (engine_is_alone(r->e, r->kind))
		log_info("serf", "%s: joining the %s pool through %u address%s", key_name(r), engine_pool_name(r->kind),
		    count, count == 1 ? "" : "es");
	r->joins++;			/* before: some end at once */
	if (pool_join(r->e->pools[r->kind], JOIN_TOKEN(JOIN_RETRY, 0), addrs, count, false) != TV_OK)
		r->joins--;
}

static void
join_missing(struct retry *r, const struct wanted *w)
{
	struct addr missing[SWIM_JOIN_ADDRS_MAX];
	unsigned count = 0;

	_Static_assert(TARGET_ADDRS_MAX <= SWIM_JOIN_ADDRS_MAX, "those of one target fit");
	for (unsigned i = 0; i < w->count && !r->e->leaving; i++)
		if (is_missing(r, &w->addrs[i]))
			missing[count++] = r->asked[r->asked_count++] = w->addrs[i];
	join_some(r, missing, count);
}

/* Addresses of the configuration, together. */
static void
join_addresses(struct retry *r)
{
	struct addr missing[SWIM_JOIN_ADDRS_MAX];
	unsigned count = 0;

	for (unsigned i = 0; i < r->count; i++) {
		const struct wanted *w = &r->wanted[i];

		if (w->kind != TARGET_ADDRESS || w->count == 0 || !is_missing(r, &w->addrs[0]))
			continue;
		missing[count++] = r->asked[r->asked_count++] = w->addrs[0];
		if (count == SWIM_JOIN_ADDRS_MAX) {
			join_some(r, missing, count);
			count = 0;
		}
	}
	join_some(r, missing, count);
}

/* A node that had joined and is alone again begins with short waits. */
static void
note_failure(struct retry *r)
{
	const struct swim_join *j = &r->failure;
	char text[NET_TEXT_BYTES];

	if (r->told) {
		r->told = false;
		r->wait = RETRY_WAIT_FIRST;
		retry_wait_longer(r->e, &r->timer, &r->wait);
	}
	if (j->error != TV_OK)
		log_warn("serf", "%s: no member of the %s pool answered (last: %s: %s); retrying in about %.0f s",
		    key_name(r), engine_pool_name(r->kind), net_text(&j->error_addr, text), j->error == TV_EINVAL ?
		    "the sandbox denies that port: add it to peer_ports in gossipd.conf" : tv_strerror(j->error),
		    ev_timer_remaining(r->e->loop, &r->timer));
}

static void
end_round(struct retry *r)
{
	if (r->joins == 0 && r->looking == 0 && !r->contacted && !r->e->leaving && engine_is_alone(r->e, r->kind))
		note_failure(r);
}

/* In a pool of one what has answered was this node itself, by another of its addresses. */
void
retry_joined(struct retry *r, const struct swim_join *result)
{
	r->joins--;
	if (result->contacted > 0 && !engine_is_alone(r->e, r->kind)) {
		if (!r->told)
			log_info("serf", "%s: joined the %s pool by contacting %u nodes", key_name(r),
			    engine_pool_name(r->kind), result->contacted);
		r->told = r->contacted = true;
	} else if (result->error != TV_OK) {
		r->failure = *result;
	}
	end_round(r);
}

/* -- names and files -- */

/* One line for each reason in a while; meanwhile they are counted. */
static void
warn_of(struct retry *r, const struct wanted *w, const struct resolver_answer *a)
{
	uint64_t key = fnv1a(fnv1a(FNV1A_START, w->text), a->why);
	struct mono now = clock_mono();
	char before[64] = "", going[96] = "";

	if (!log_repeats_due(&r->repeats, key, now))
		return;
	unsigned suppressed = log_repeats_logged(&r->repeats, key, now);
	if (suppressed > 0)
		snprintf(before, sizeof(before), " (%u times since this was last logged)", suppressed);
	if (w->count > 0 && a->outcome != TARGET_FOUND)
		snprintf(going, sizeof(going), "; using what it was before (%u address%s)", w->count,
		    w->count == 1 ? "" : "es");
	if (a->outcome == TARGET_FOUND)
		log_warn("serf", "%s: %.*s: %.*s%s", key_name(r), (int)w->text.len, (const char *)w->text.p,
		    (int)a->why.len, (const char *)a->why.p, before);
	else
		log_warn("serf", "%s: %.*s cannot be resolved: %.*s%s; trying again each time%s", key_name(r),
		    (int)w->text.len, (const char *)w->text.p, (int)a->why.len, (const char *)a->why.p, going, before);
}

static bool
equal_addrs(const struct wanted *w, const struct addr *addrs, unsigned count)
{
	bool equal = w->count == count;

	for (unsigned i = 0; i < count && equal; i++) {
		equal = false;
		for (unsigned k = 0; k < w->count && !equal; k++)
			equal = addr_eq(&w->addrs[k], &addrs[i]);
	}
	return equal;
}

static void
log_addrs(const struct retry *r, const struct wanted *w)
{
	char text[NET_TEXT_BYTES];
	struct buf list = BUF_INIT(TARGET_ADDRS_MAX * (NET_TEXT_BYTES + 2));

	for (unsigned i = 0; i < w->count; i++)
		buf_printf(&list, "%s%s", i > 0 ? ", " : "", net_text(&w->addrs[i], text));
	log_info("serf", "%s: %.*s is %s", key_name(r), (int)w->text.len, (const char *)w->text.p,
	    w->count > 0 ? buf_cstr(&list) : "no other node");
	buf_done(&list);
}

/* Takes over those that are not ourselves. */
static void
set_addrs(struct retry *r, struct wanted *w, const struct addr *addrs, unsigned count)
{
	struct addr others[TARGET_ADDRS_MAX], *fresh = NULL;
	unsigned n = 0;

	for (unsigned i = 0; i < count; i++)
		if (!is_self(r, &addrs[i]))
			others[n++] = addrs[i];
	if (equal_addrs(w, others, n))
		return;
	if (n > 0 && (fresh = malloc(n * sizeof(*fresh))) == NULL)
		return;			/* as before */
	memcpy(fresh != NULL ? fresh : others, others, n * sizeof(*others));
	free(w->addrs);
	w->addrs = fresh;
	w->count = n;
	if (w->kind != TARGET_ADDRESS)
		log_addrs(r, w);
}

static void
on_answer(void *ctx, unsigned place, const struct resolver_answer *a)
{
	struct lookup *l = ctx;
	struct retry *r = l->retry;
	struct wanted *w = &r->wanted[l->entries[place]];

	w->looking = false;
	r->looking--;
	if (--l->left == 0)
		l->retry = NULL;
	if (a->outcome != TARGET_UNANSWERED)
		set_addrs(r, w, a->addrs, a->outcome == TARGET_FOUND ? a->count : 0);
	if (a->why.len > 0)
		warn_of(r, w, a);
	join_missing(r, w);
	end_round(r);
}

static struct lookup *
free_lookup(struct retry *r)
{
	for (unsigned i = 0; i < LOOKUPS_MAX; i++)
		if (r->lookups[i].retry == NULL)
			return &r->lookups[i];
	return NULL;
}

/* Those of the list, from *next on, that are not being resolved; either files or names: one may hold up the other. */
static unsigned
choose(const struct retry *r, bool files, unsigned *next, struct lookup *l, struct span *texts)
{
	unsigned n = 0;

	for (; *next < r->count && n < RESOLVER_TARGETS_MAX; ++*next) {
		const struct wanted *w = &r->wanted[*next];

		if (w->kind == TARGET_ADDRESS || (w->kind == TARGET_FILE) != files || w->looking)
			continue;
		texts[n] = w->text;
		l->entries[n++] = *next;
	}
	return n;
}

static void
look_up(struct retry *r, bool files)
{
	struct span texts[RESOLVER_TARGETS_MAX];
	unsigned next = 0, n;
	struct lookup *l;

	while ((l = free_lookup(r)) != NULL && (n = choose(r, files, &next, l, texts)) > 0) {
		l->resolve = resolver_start(r->e->resolver, texts, n, r->self.port, RESOLVER_TIMEOUT, false, on_answer,
		    l);
		if (l->resolve == NULL)
			return;
		l->retry = r;
		l->left = n;
		r->looking += n;
		for (unsigned i = 0; i < n; i++)
			r->wanted[l->entries[i]].looking = true;
	}
}

/*
 * Asks those that are not members yet, for ever.  Going on after the first success brings parts of a cluster
 * together that formed apart, which happens when it starts during a network fault.
 */
static void
on_retry(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct retry *r = w->data;

	retry_wait_longer(r->e, w, &r->wait);
	if (r->joins > 0 || r->e->leaving)
		return;
	r->contacted = false;
	r->asked_count = 0;
	r->failure = (struct swim_join){ .error = TV_OK };
	join_addresses(r);
	look_up(r, false);
	look_up(r, true);
}

/* -- life -- */

/* Targets were checked when the configuration was read. */
static void
read_list(struct retry *r, const struct conf_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct wanted *w = &r->wanted[r->count];
		struct addr addr;
		struct dial_target t;

		*w = (struct wanted){ .text = span_str(list->items[i]) };
		if (target_parse(w->text, r->self.port, &t, NULL) != TV_OK)
			continue;
		w->kind = t.kind;
		if (t.kind == TARGET_ADDRESS && addr_parse(t.ip, t.port, &addr))
			set_addrs(r, w, &addr, 1);
		r->count++;
	}
}

struct retry *
retry_new(struct engine *e, enum gossip_pool kind, const struct conf_list *list, const struct addr *self)
{
	struct retry *r = calloc(1, sizeof(*r));

	if (r == NULL || (r->wanted = calloc(list->count + 1, sizeof(*r->wanted))) == NULL) {
		free(r);
		return NULL;
	}
	r->e = e;
	r->kind = kind;
	r->self = *self;
	r->wait = RETRY_WAIT_FIRST;
	r->repeats.period = REPEAT;
	ev_timer_init(&r->timer, on_retry, 0., 0.);
	r->timer.data = r;
	read_list(r, list);
	if (r->count > 0)
		ev_timer_start(e->loop, &r->timer);
	return r;
}

bool
retry_wants(const struct retry *r, uint64_t source)
{
	for (unsigned i = 0; i < r->count; i++)
		for (unsigned k = 0; k < r->wanted[i].count; k++)
			if (source_of_ip(&r->wanted[i].addrs[k]) == source)
				return true;
	return false;
}

void
retry_free(struct retry *r)
{
	if (r == NULL)
		return;
	ev_timer_stop(r->e->loop, &r->timer);
	for (unsigned i = 0; i < LOOKUPS_MAX; i++)
		if (r->lookups[i].retry != NULL)
			resolver_cancel(r->lookups[i].resolve);
	for (unsigned i = 0; i < r->count; i++)
		free(r->wanted[i].addrs);
	free(r->wanted);
	free(r);
}
