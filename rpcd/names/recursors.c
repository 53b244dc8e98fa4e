/* See recursors.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/fnv.h"
#include "common/base/log.h"
#include "common/base/log_repeats.h"
#include "common/conf/target.h"
#include "common/net/msg.h"
#include "rpcd/names/recursors.h"

#define TAG "dns"
#define AGAIN MONO_S(45)		/* name servers say for how long an answer holds; the C library does not */
#define WAIT_FIRST MONO_S(1)		/* while one cannot be resolved; doubled each time */
#define WAIT_MAX MONO_S(30)
#define HURRY_WAIT MONO_S(5)		/* after all were resolved, when they do not answer */
#define RESOLVE_TIME MONO_S(20)
#define CALL_TIME MONO_S(25)
#define UNDER_WAY_MAX 2			/* of the few processes that gossipd may have */
#define REPEAT MONO_S(300)		/* between two lines of one kind */
#define ANSWER_MEMORY (64u << 10)

/* One entry of the list. */
struct entry {
	struct recursors *r;
	char *text;			/* owned */
	enum target_kind kind;
	uint64_t call;			/* under way; 0: none */
	bool due;			/* to be asked in this round */
	bool failed;			/* there was no answer the last time, or no address */
	unsigned count;
	char (*addrs)[RECURSOR_TEXT_BYTES];	/* owned */
};

struct recursors {
	struct recursors_conf conf;
	struct entry entries[RECURSORS_MAX];
	unsigned count, under_way;
	struct mono wait;		/* before the next round after one that failed */
	struct mono round;		/* when the last one began */
	ev_timer timer;
	struct log_repeats repeats;
};

static void ask_some(struct recursors *r);

/* -- the list -- */

bool
recursors_are_named(const struct conf_list *list)
{
	struct dial_target t;

	for (size_t i = 0; i < list->count; i++)
		if (target_parse(span_str(list->items[i]), RECURSOR_PORT, &t, NULL) == TV_OK &&
		    t.kind != TARGET_ADDRESS)
			return true;
	return false;
}

static void
add_once(struct span_list *l, struct arena *a, const char *text)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (span_eqs(l->v[i], text))
			return;
	if (l->n < RECURSORS_MAX)
		l->v[l->n++] = arena_copy(a, span_str(text));
}

struct span_list
recursors_now(const struct recursors *r, struct arena *a)
{
	struct span_list l = { arena_array(a, RECURSORS_MAX, sizeof(struct span)), 0, true };

	for (unsigned i = 0; i < r->count && l.v != NULL; i++)
		for (unsigned k = 0; k < r->entries[i].count; k++)
			add_once(&l, a, r->entries[i].addrs[k]);
	return l;
}

/* In any order: name servers turn theirs around. */
static bool
same_addrs(const struct entry *e, char (*addrs)[RECURSOR_TEXT_BYTES], unsigned count)
{
	bool same = e->count == count;

	for (unsigned i = 0; i < count && same; i++) {
		same = false;
		for (unsigned k = 0; k < e->count && !same; k++)
			same = strcmp(e->addrs[k], addrs[i]) == 0;
	}
	return same;
}

/* False: they are as before, or there is no memory, and then too. */
static bool
set_addrs(struct entry *e, char (*addrs)[RECURSOR_TEXT_BYTES], unsigned count)
{
	char (*fresh)[RECURSOR_TEXT_BYTES] = NULL;

	if (same_addrs(e, addrs, count) || (count > 0 && (fresh = calloc(count, sizeof(*fresh))) == NULL))
		return false;
	if (fresh != NULL)
		memcpy(fresh, addrs, count * sizeof(*addrs));
	free(e->addrs);
	e->addrs = fresh;
	e->count = count;
	return true;
}

/* -- what is logged -- */

static void
log_addrs(const struct entry *e)
{
	struct buf list = BUF_INIT(TARGET_ADDRS_MAX * (RECURSOR_TEXT_BYTES + 8));

	for (unsigned i = 0; i < e->count; i++) {
		const char *blank = strchr(e->addrs[i], ' ');

		buf_printf(&list, "%s%.*s port %s", i > 0 ? ", " : "", (int)(blank - e->addrs[i]), e->addrs[i],
		    blank + 1);
	}
	log_info(TAG, "recursors: %s is %s", e->text, e->count > 0 ? buf_cstr(&list) : "no address");
	buf_done(&list);
}

/* One line for each reason in a while; meanwhile they are counted. */
static void
warn_of(struct recursors *r, const struct entry *e, const char *why, bool failed)
{
	uint64_t key = fnv1a(fnv1a(FNV1A_START, span_str(e->text)), span_str(why));
	struct mono now = clock_mono();
	char before[64] = "", going[96] = "";

	if (!log_repeats_due(&r->repeats, key, now))
		return;
	unsigned suppressed = log_repeats_logged(&r->repeats, key, now);
	if (suppressed > 0)
		snprintf(before, sizeof(before), " (%u times since this was last logged)", suppressed);
	if (e->count > 0)
		snprintf(going, sizeof(going), "; using what it was before (%u address%s)", e->count,
		    e->count == 1 ? "" : "es");
	if (failed)
		log_warn(TAG, "recursors: %s cannot be resolved: %s%s; trying again%s", e->text, why, going, before);
	else
		log_warn(TAG, "recursors: %s: %s%s", e->text, why, before);
}

/* -- one answer -- */

static bool
read_addrs(const struct span_list *from, char (*addrs)[RECURSOR_TEXT_BYTES])
{
	char ip[ADDR_IP_BYTES];
	struct addr a;

	for (uint32_t i = 0; i < from->n; i++) {
		if (!addr_parse_text(from->v[i], &a))
			return false;
		snprintf(addrs[i], RECURSOR_TEXT_BYTES, "%s %u", addr_ip(&a, ip), a.port);
	}
	return true;
}

static void
take_answer(struct entry *e, const struct msg_resolved *m)
{
	char addrs[TARGET_ADDRS_MAX][RECURSOR_TEXT_BYTES], why[TARGET_WHY_BYTES];
	bool found = m->outcome == TARGET_FOUND;

	if (m->outcome > TARGET_UNANSWERED || m->addrs.n > TARGET_ADDRS_MAX || !read_addrs(&m->addrs, addrs)) {
		warn_of(e->r, e, "malformed reply from gossipd", true);
		return;
	}
	if (m->outcome != TARGET_UNANSWERED && set_addrs(e, addrs, found ? m->addrs.n : 0))
		log_addrs(e);
	e->failed = m->outcome == TARGET_UNANSWERED || e->count == 0;
	if (m->why.len > 0)
		warn_of(e->r, e, log_safe(m->why, why, sizeof(why)), !found);
}

static void
end_round(struct recursors *r)
{
	bool failed = false;

	for (unsigned i = 0; i < r->count; i++)
		failed = failed || (r->entries[i].kind != TARGET_ADDRESS && r->entries[i].failed);
	ev_timer_stop(r->conf.loop, &r->timer);
	ev_timer_set(&r->timer, mono_seconds(failed ? r->wait : AGAIN), 0.);
	ev_timer_start(r->conf.loop, &r->timer);
	r->wait = failed ? mono_min(mono_mul(r->wait, 2), WAIT_MAX) : WAIT_FIRST;
	r->conf.resolved(r->conf.ctx);
}

static void
on_answer(void *ctx, enum tv_err err, struct span body)
{
	struct entry *e = ctx;
	struct recursors *r = e->r;
	struct arena arena = ARENA_INIT(ANSWER_MEMORY);
	struct msg_resolved m = { .place = 0 };
	struct msg_answer a = { .err = err };
	char why[TARGET_WHY_BYTES];

	e->call = 0;
	e->failed = true;
	r->under_way--;
	if (err == TV_OK)
		err = msg_answer_read(body, &a, &msg_resolved_schema, &arena, &m);
	if (err == TV_OK && a.err == TV_OK)
		take_answer(e, &m);
	else if (err == TV_OK)
		warn_of(r, e, log_safe(a.text, why, sizeof(why)), true);
	else if (err != TV_ECLOSED)		/* that it is away is logged elsewhere */
		warn_of(r, e, err == TV_ETIMEOUT ? "gossipd did not answer in time" : "malformed reply from gossipd",
		    true);
	arena_done(&arena);
	ask_some(r);
}

/* -- a round -- */

static void
ask_gossipd(struct entry *e)
{
	struct recursors *r = e->r;
	struct daemon_client *gossip = r->conf.gossip;
	struct span target = span_str(e->text);
	struct buf b = BUF_INIT(MSG_TEXT);
	enum tv_err err;

	e->failed = true;
	if (gossip->greeted && !gossip->same_build) {
		warn_of(r, e, "gossipd is of another build than rpcd: restart it", true);
		return;
	}
	schema_pack(&msg_resolve_schema, &(struct msg_resolve){ { &target, 1, true }, RECURSOR_PORT,
	    (uint64_t)mono_ms(RESOLVE_TIME) }, &b);
	e->call = daemon_client_call(gossip, MSG_GOSSIP_RESOLVE, buf_span(&b), CALL_TIME, on_answer, e, &err);
	if (e->call != 0)
		r->under_way++;
	else if (err != TV_EUNREACH)
		warn_of(r, e, tv_strerror(err), true);
	buf_done(&b);
}

/* Those that have their turn; after the last answer the round is over. */
static void
ask_some(struct recursors *r)
{
	for (unsigned i = 0; i < r->count && r->under_way < UNDER_WAY_MAX; i++)
		if (r->entries[i].due) {
			r->entries[i].due = false;
			ask_gossipd(&r->entries[i]);
		}
	if (r->under_way == 0)
		end_round(r);
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct recursors *r = w->data;

	if (r->under_way > 0)
		return;			/* the round goes on */
	r->round = clock_mono();
	for (unsigned i = 0; i < r->count; i++)
		r->entries[i].due = r->entries[i].kind != TARGET_ADDRESS;
	ask_some(r);
}

/* No later than this. */
static void
begin_within(struct recursors *r, struct mono wait)
{
	if (r->under_way > 0 || (ev_is_active(&r->timer) &&
	    ev_timer_remaining(r->conf.loop, &r->timer) <= mono_seconds(wait)))
		return;
	ev_timer_stop(r->conf.loop, &r->timer);
	ev_timer_set(&r->timer, mono_seconds(wait), 0.);
	ev_timer_start(r->conf.loop, &r->timer);
}

void
recursors_again(struct recursors *r)
{
	if (ev_is_active(&r->timer))		/* there are names */
		begin_within(r, WAIT_FIRST);
}

void
recursors_failed(struct recursors *r)
{
	struct mono since = mono_sub(clock_mono(), r->round);

	if (ev_is_active(&r->timer))		/* there are names */
		begin_within(r, mono_before(since, HURRY_WAIT) ? mono_sub(HURRY_WAIT, since) : MONO_ZERO);
}

/* -- life -- */

static void
drop_entries(struct recursors *r, struct entry *entries, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (entries[i].call != 0) {
			daemon_client_cancel(r->conf.gossip, entries[i].call);
			r->under_way--;
		}
		free(entries[i].addrs);
		free(entries[i].text);
	}
}

/* One of the configuration, which was checked; what the same one was before is taken from there. */
static void
add_entry(struct recursors *r, const char *text, struct entry *before, unsigned before_count)
{
	struct entry *e = &r->entries[r->count];
	char addr[1][RECURSOR_TEXT_BYTES];
	struct dial_target t;

	*e = (struct entry){ .r = r, .text = strdup(text) };
	if (e->text == NULL || target_parse(span_str(text), RECURSOR_PORT, &t, NULL) != TV_OK) {
		free(e->text);
		return;
	}
	e->kind = t.kind;
	r->count++;
	if (t.kind == TARGET_ADDRESS) {
		snprintf(addr[0], sizeof(addr[0]), "%s %u", t.ip, t.port);
		(void)set_addrs(e, addr, 1);
		return;
	}
	for (unsigned i = 0; i < before_count; i++)
		if (before[i].addrs != NULL && strcmp(before[i].text, text) == 0) {
			(void)set_addrs(e, before[i].addrs, before[i].count);
			break;
		}
}

void
recursors_reload(struct recursors *r)
{
	struct entry before[RECURSORS_MAX];
	unsigned count = r->count;

	memcpy(before, r->entries, sizeof(before));
	r->count = 0;
	for (size_t i = 0; i < r->conf.list->count && r->count < RECURSORS_MAX; i++)
		add_entry(r, r->conf.list->items[i], before, count);
	drop_entries(r, before, count);
	ev_timer_stop(r->conf.loop, &r->timer);
	r->wait = WAIT_FIRST;
	if (recursors_are_named(r->conf.list))
		begin_within(r, MONO_ZERO);
}

struct recursors *
recursors_new(const struct recursors_conf *conf)
{
	struct recursors *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->conf = *conf;
	r->repeats.period = REPEAT;
	ev_timer_init(&r->timer, on_timer, 0., 0.);
	r->timer.data = r;
	recursors_reload(r);
	return r;
}

void
recursors_free(struct recursors *r)
{
	if (r == NULL)
		return;
	ev_timer_stop(r->conf.loop, &r->timer);
	drop_entries(r, r->entries, r->count);
	free(r);
}
