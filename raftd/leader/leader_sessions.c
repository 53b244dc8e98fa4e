/*
 * Timers of sessions with a TTL.
 *
 * The state is read in a thread, and may take its time: sessions are taken in piece by piece, and what is found out about
 * expired ones is judged again here, where a renewal may have come meanwhile.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/deadlines.h"
#include "common/base/log.h"
#include "common/base/map.h"
#include "common/net/source.h"
#include "common/record/mpack.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/leader_sessions.h"

#define LOOK 0.2			/* seconds between looks */
#define RETRY MONO_S(10)
#define DESTROYS_MAX 128		/* on their way at once: a mass expiry comes in batches (S122) */
#define PIECE 2048			/* sessions taken in at once: about a millisecond */
#define ID_SIZE 37

struct timer {
	struct map_node node;
	struct leader_sessions *s;	/* NULL: the table let go of it while its destroy was on the way */
	struct proposal proposal;
	bool destroying;
	char id[ID_SIZE];
	struct mono ttl;
	struct deadline deadline;	/* in `due` unless a look or a destroy is on the way */
};

/* Sessions of the state, up to so many in the order of their ids. */
struct piece {
	struct leader_sessions *s;
	uint64_t round;			/* in which it was asked for */
	char after[ID_SIZE];
	enum tv_err err;
	unsigned count;
	struct { char id[ID_SIZE]; int64_t ttl_ns; } found[PIECE];
};

/* Are these still there?  Sessions also end with their node or checks. */
struct look {
	bool running;
	uint64_t round;
	unsigned count;
	struct { char id[ID_SIZE]; bool there; } at[DESTROYS_MAX];
};

struct leader_sessions {
	struct raftd *d;
	struct map timers;		/* by id */
	unsigned destroying;
	struct deadlines due;
	ev_timer timer;
	uint64_t round;			/* of starts and stops: what was asked in another one is of another table */
	bool taking;			/* sessions in, and there are more */
	char taken[ID_SIZE];		/* up to this one */
	struct piece *piece;		/* asked for; or NULL */
	struct look look;
};

static struct timer *
timer_of(struct deadline *x)
{
	return (struct timer *)(void *)((char *)x - offsetof(struct timer, deadline));
}

/* -- the table -- */

static uint64_t
hash_of(struct span id)
{
	return keyed_hash(id.p, id.len);
}

static struct timer *
timer_find(const struct leader_sessions *s, struct span id)
{
	struct timer *t;

	MAP_FOREACH_HASH(t, &s->timers, hash_of(id), node)
		if (span_eqs(id, t->id))
			return t;
	return NULL;
}

static void
let_go(struct leader_sessions *s, struct timer *t)
{
	map_remove(&s->timers, &t->node);
	deadlines_remove(&s->due, &t->deadline);
	t->s = NULL;
	if (!t->destroying)
		free(t);
}

static void
set_deadline(struct leader_sessions *s, struct timer *t, struct mono from_now)
{
	deadlines_move(&s->due, &t->deadline, mono_add(clock_mono(), from_now));
}

/* It is looked at once its deadline comes: there is room for as many as are in the table. */
static void
await(struct leader_sessions *s, struct timer *t)
{
	if (t->deadline.place == 0)
		deadlines_add(&s->due, &t->deadline);
}

static void
timer_add(struct leader_sessions *s, struct span id, int64_t ttl_ns)
{
	struct timer *t = timer_find(s, id);

	if (ttl_ns <= 0)
		return;
	if (t == NULL) {
		t = calloc(1, sizeof(*t));
		if (t == NULL || !span_copy(id, t->id, sizeof(t->id)) ||
		    !deadlines_reserve(&s->due, s->timers.count + 1)) {
			free(t);
			return;
		}
		deadlines_add(&s->due, &t->deadline);
		t->s = s;
		map_add(&s->timers, &t->node, hash_of(id));
	}
	t->ttl.ns = ttl_ns;
	set_deadline(s, t, mono_mul(t->ttl, 2));
}

/* -- the end of a session -- */

static void
retry(struct leader_sessions *s, struct timer *t)
{
	set_deadline(s, t, RETRY);
	await(s, t);
}

static void
destroyed(struct proposal *p, enum tv_err err, const struct fsm_result *result UNUSED)
{
	struct timer *t = (struct timer *)((char *)p - offsetof(struct timer, proposal));
	struct leader_sessions *s = t->s;

	t->destroying = false;
	if (s == NULL) {
		free(t);
		return;
	}
	s->destroying--;
	if (err == TV_OK)
		let_go(s, t);
	else
		retry(s, t);
}

static void
destroy(struct leader_sessions *s, struct timer *t)
{
	struct session_destroy args = { .ID = span_str(t->id) };

	t->destroying = true;
	if (propose_record(s->d, &t->proposal, OP_SESSION_DESTROY, &args, destroyed, NULL, 0) == TV_OK) {
		s->destroying++;
		log_debug("raftd", "session %s expired", t->id);
	} else {
		t->destroying = false;
		retry(s, t);
	}
}

/* In a thread. */
static bool
exists(struct fsm *reader, const char *id)
{
	struct session_read args = { .ID = span_str(id) };
	struct buf b = BUF_INIT(1024), out = BUF_INIT(FSM_RECORD_MEMORY);
	struct arena a = ARENA_INIT(1u << 20);
	struct fsm_answer ans;
	struct rd r;
	bool there;

	schema_pack(&session_read_schema, &args, &b);
	fsm_read(reader, op_find(OP_SESSION_INFO), buf_span(&b), &a, &out, &ans);
	r = rd_span_over(buf_span(&out));
	there = ans.err != TV_OK || mpr_array(&r) > 0;
	buf_done(&b);
	buf_done(&out);
	arena_done(&a);
	return there;
}

static void
look_work(struct fsm *reader, void *ctx)
{
	struct look *l = &((struct leader_sessions *)ctx)->look;

	for (unsigned i = 0; i < l->count; i++)
		l->at[i].there = exists(reader, l->at[i].id);
}

/* Never later than the documented maximum (S114). */
static bool
is_due(const struct deadline *x, struct mono now)
{
	return x != NULL && mono_before(x->when, mono_add(now, MONO_MS(200)));
}

static void
look_done(void *ctx)
{
	struct leader_sessions *s = ctx;
	struct look *l = &s->look;
	struct mono now = clock_mono();

	l->running = false;
	for (unsigned i = 0; i < l->count && l->round == s->round; i++) {
		struct timer *t = timer_find(s, span_str(l->at[i].id));

		if (t == NULL || t->destroying)
			continue;		/* ended meanwhile */
		if (!is_due(&t->deadline, now))
			await(s, t);		/* renewed meanwhile */
		else if (!l->at[i].there)
			let_go(s, t);
		else if (s->destroying < DESTROYS_MAX)
			destroy(s, t);
		else
			await(s, t);
	}
}

static void
look_at_expired(struct leader_sessions *s)
{
	struct look *l = &s->look;
	struct mono now = clock_mono();
	struct deadline *x;

	if (l->running)
		return;
	l->count = 0;
	l->round = s->round;
	while (l->count + s->destroying < DESTROYS_MAX && is_due(x = deadlines_first(&s->due), now)) {
		deadlines_remove(&s->due, x);
		memcpy(l->at[l->count++].id, timer_of(x)->id, ID_SIZE);
	}
	if (l->count == 0)
		return;
	l->running = statethread_call(s->d->state, look_work, look_done, s) == TV_OK;
	/* What cannot be asked now is asked at the next look. */
	for (unsigned i = 0; i < l->count && !l->running; i++)
		await(s, timer_find(s, span_str(l->at[i].id)));
}

/* -- what the state holds -- */

static bool
on_session(void *ctx, struct span id, int64_t ttl_ns)
{
	struct piece *p = ctx;

	if (span_copy(id, p->found[p->count].id, ID_SIZE))
		p->found[p->count++].ttl_ns = ttl_ns;
	return p->count < PIECE;
}

static void
piece_work(struct fsm *reader, void *ctx)
{
	struct piece *p = ctx;

	p->err = fsm_each_ttl_session(reader, span_str(p->after), on_session, p);
}

static void take_in(struct leader_sessions *s);

static void
piece_done(void *ctx)
{
	struct piece *p = ctx;
	struct leader_sessions *s = p->s;
	bool ours = p->round == s->round, again = !ours || p->err == TV_OK;

	s->piece = NULL;
	for (unsigned i = 0; i < p->count && ours; i++)
		if (timer_find(s, span_str(p->found[i].id)) == NULL)		/* else created since, which is newer */
			timer_add(s, span_str(p->found[i].id), p->found[i].ttl_ns);
	if (ours && p->count > 0)
		memcpy(s->taken, p->found[p->count - 1].id, ID_SIZE);
	if (ours && p->err == TV_OK && p->count < PIECE)
		s->taking = false;
	free(p);
	if (again)			/* else at the next look */
		take_in(s);
}

/* The next sessions of the state, if there are more. */
static void
take_in(struct leader_sessions *s)
{
	struct piece *p = s->taking && s->piece == NULL ? malloc(sizeof(*p)) : NULL;

	if (p == NULL)
		return;
	p->s = s;
	p->round = s->round;
	p->count = 0;
	memcpy(p->after, s->taken, ID_SIZE);
	if (statethread_call(s->d->state, piece_work, piece_done, p) == TV_OK)
		s->piece = p;
	else
		free(p);
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct leader_sessions *s = w->data;

	take_in(s);
	look_at_expired(s);
}

/* -- what the log says -- */

static void
applied_create(struct leader_sessions *s, struct rd *r)
{
	struct arena a = ARENA_INIT(1u << 20);
	struct session rec = { 0 };
	int64_t ttl = 0;

	if (schema_unpack(&session_schema, r, &a, &rec) == TV_OK && rec.TTL.len > 0 &&
	    duration_parse(rec.TTL, &ttl) == TV_OK)
		timer_add(s, rec.ID, ttl);
	arena_done(&a);
}

static void
applied_destroy(struct leader_sessions *s, struct rd *r)
{
	struct arena a = ARENA_INIT(64u << 10);
	struct session_destroy rec = { 0 };
	struct timer *t;

	if (schema_unpack(&session_destroy_schema, r, &a, &rec) == TV_OK && (t = timer_find(s, rec.ID)) != NULL && !t->destroying)
		let_go(s, t);
	arena_done(&a);
}

void
leader_sessions_applied(struct leader_sessions *s, const struct raft_entry *entries, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct rd r = rd_over(entries[i].payload, entries[i].size);
		uint64_t op;

		if (entries[i].type != RAFT_ENTRY_OP || mpr_array(&r) != 2)
			continue;
		op = mpr_uint(&r, UINT16_MAX);
		if (op == OP_SESSION_CREATE)
			applied_create(s, &r);
		else if (op == OP_SESSION_DESTROY)
			applied_destroy(s, &r);
	}
}

void
leader_sessions_renew(struct leader_sessions *s, struct span id)
{
	char lower[ID_SIZE];
	struct timer *t;

	if (!span_copy(id, lower, sizeof(lower)))
		return;
	for (char *c = lower; *c != '\0'; c++)
		*c = *c >= 'A' && *c <= 'Z' ? *c + 32 : *c;
	t = timer_find(s, span_str(lower));
	if (t != NULL)
		set_deadline(s, t, mono_mul(t->ttl, 2));
}

/* -- life -- */

void
leader_sessions_start(struct leader_sessions *s)
{
	s->round++;
	s->taking = true;
	s->taken[0] = '\0';
	take_in(s);
	ev_timer_again(s->d->loop, &s->timer);
}

void
leader_sessions_stop(struct leader_sessions *s)
{
	struct map_node *tmp;
	struct timer *t;

	ev_timer_stop(s->d->loop, &s->timer);
	s->round++;
	s->taking = false;
	MAP_FOREACH(t, &s->timers, node, tmp)
		let_go(s, t);
	s->destroying = 0;
}

struct leader_sessions *
leader_sessions_new(struct raftd *d)
{
	struct leader_sessions *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->d = d;
	ev_timer_init(&s->timer, on_timer, 0.0, LOOK);
	s->timer.data = s;
	return s;
}

void
leader_sessions_free(struct leader_sessions *s)
{
	if (s == NULL)
		return;
	leader_sessions_stop(s);
	deadlines_done(&s->due);
	free(s->piece);			/* the threads of the state have ended */
	map_done(&s->timers);
	free(s);
}
