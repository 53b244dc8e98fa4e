/* The leader's rpcd is away or silent for long, see rpcd_watch.h. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/net/silence.h"
#include "raftd/engine/engine.h"
#include "raftd/members/membership.h"
#include "raftd/members/rpcd_peers.h"
#include "raftd/serve/rpcd_watch.h"
#include "raftd/members/rules/handover_target.h"
#include "raftd/serve/clients.h"

#define PATIENCE MONO_S(5)
#define ASK_AFTER MONO_S(2)
#define TELL_EVERY MONO_S(60)
#define PINGS_MAX 16
#define QUESTIONS_MAX 16		/* of peers, that wait for our rpcd; they ask again */

struct rpcd_watch {
	struct raftd *d;
	ev_timer timer;
	struct mono since;		/* no rpcd since; 0: one is connected, or it does not matter */
	struct silence silence;		/* of the one that is */
	struct mono tried;		/* when the others were asked last; 0: not in this spell */
	struct mono told;		/* when it was last told that no server can take over */
	struct survey {			/* of the other voters */
		unsigned count, waiting;
		struct ask { struct rpcd_watch *u; unsigned i; } asks[RAFT_SERVERS_MAX];
		struct handover_target others[RAFT_SERVERS_MAX];
	} survey;
	struct link_question questions[QUESTIONS_MAX];
	unsigned question_count;
	uint64_t pinged_signs;		/* of our rpcd when it was asked for others last */
	unsigned pings;			/* since it last gave a sign */
};

/* -- is our rpcd there? -- */

static bool
matters(const struct rpcd_watch *u)
{
	return engine_is_leader(u->d->engine) && raft_config_voters(engine_config(u->d->engine)) > 1;
}

/* Looks are a member_interval apart, or less. */
static bool
is_silent(struct rpcd_watch *u, struct mono now)
{
	struct silence_conf conf = { ASK_AFTER, PATIENCE,
	    .gap = mono_add(mono_mul(u->d->conf.member_interval, 2), MONO_S(1)) };

	switch (silence_look(&u->silence, &conf, now, clients_signs(u->d->clients))) {
	case SILENCE_ASK:
		if (!clients_ping(u->d->clients))
			u->silence = (struct silence){ 0 };	/* of another build: it cannot be asked */
		return false;
	case SILENCE_DEAD:
		return true;
	default:
		return false;
	}
}

static bool
is_away(struct rpcd_watch *u, struct mono now)
{
	if (clients_served(u->d->clients)) {
		u->since = MONO_ZERO;
		return false;
	}
	u->silence = (struct silence){ 0 };
	if (u->since.ns == 0)
		u->since = now;
	return !mono_before(mono_sub(now, u->since), PATIENCE);
}

/* For a sentence. */
static const char *
what(const struct rpcd_watch *u)
{
	return u->since.ns != 0 ? "rpcd on this server has been disconnected for 5 s" :
	    "rpcd on this server has not answered for 5 s (is it stopped, or does the machine swap?)";
}

/* -- who takes over? -- */

static void
on_transfer(void *ctx UNUSED, enum tv_err err, const char *text)
{
	if (err != TV_OK && err != TV_ENOTLEADER)
		log_warn("raft", "keeping leadership although rpcd does not serve: %s", text);
}

static void
tell_nobody(struct rpcd_watch *u, struct mono now)
{
	const struct survey *s = &u->survey;
	struct buf why = BUF_INIT(16384);
	char shown[4096];

	if (u->told.ns != 0 && mono_before(mono_sub(now, u->told), TELL_EVERY))
		return;
	u->told = now;
	handover_target_reasons(engine_status(u->d->engine), engine_config(u->d->engine), s->others, s->count, &why);
	log_err("raft", "%s, and no server can take over: %s. Writes to other servers hang until one can: restart "
	    "rpcd here or there", what(u), log_safe(buf_span(&why), shown, sizeof(shown)));
	buf_done(&why);
}

static void
survey_end(struct rpcd_watch *u)
{
	struct raftd *d = u->d;
	const struct raft_server_conf *to;
	const struct handover_target *s;
	char name[128];

	/* It may have come back, or we may have lost leadership, meanwhile. */
	if (d->stopping || !matters(u) ||
	    (u->since.ns != 0 ? clients_served(d->clients) : clients_signs(d->clients) != u->silence.signs))
		return;
	s = handover_target_pick(engine_status(d->engine), u->survey.others, u->survey.count);
	/* There was no rpcd here yet, and perhaps there are none at all. */
	if (u->since.ns != 0 && !clients_deserted(d->clients) && (s == NULL || s->state != HANDOVER_TARGET_SERVED))
		return;
	to = s == NULL ? NULL : raft_config_find(engine_config(d->engine), s->id);
	if (to == NULL) {
		tell_nobody(u, clock_mono());
		return;
	}
	log_warn("raft", "%s, and writes need the leader's: transferring leadership to %s", what(u),
	    log_safe(span_str(to->name), name, sizeof(name)));
	membership_transfer(d->members, span_str(to->uuid), SPAN_NONE, on_transfer, NULL);
}

static void
on_answer(void *ctx, enum tv_err err, struct span body)
{
	struct ask *a = ctx;
	struct survey *s = &a->u->survey;

	s->others[a->i].state = rpcd_peers_answer(err, body);
	if (--s->waiting == 0)
		survey_end(a->u);
}

static void
survey_begin(struct rpcd_watch *u)
{
	const struct raft_config *c = engine_config(u->d->engine);
	struct survey *s = &u->survey;

	*s = (struct survey){ .waiting = 1 };
	for (unsigned i = 0; i < c->count; i++) {
		struct ask *a = &s->asks[s->count];

		if (!c->servers[i].voter || c->servers[i].id == u->d->id.self)
			continue;
		*a = (struct ask){ u, s->count };
		s->others[s->count].id = c->servers[i].id;
		s->waiting++;
		s->others[s->count].state = rpcd_peers_ask(u->d, &c->servers[i], on_answer, a);
		s->waiting -= s->others[s->count++].state != HANDOVER_TARGET_SILENT;
	}
	if (--s->waiting == 0)
		survey_end(u);
}

static void
check_rpcd(struct rpcd_watch *u)
{
	struct mono now = clock_mono();

	if (!matters(u)) {
		u->since = u->tried = u->told = MONO_ZERO;
		u->silence = (struct silence){ 0 };
		return;
	}
	if (!is_away(u, now) && (u->since.ns != 0 || !is_silent(u, now))) {
		u->tried = u->told = MONO_ZERO;
		return;
	}
	if (u->survey.waiting > 0 || (u->tried.ns != 0 && mono_before(mono_sub(now, u->tried), PATIENCE)))
		return;
	u->tried = now;				/* if it stays here, another try after as long again */
	survey_begin(u);
}

/* -- another leader asks -- */

/* A frozen one gets no more of them than it takes to hear it when it wakes: they would pile up for days. */
static bool
ping(struct rpcd_watch *u)
{
	uint64_t signs = clients_signs(u->d->clients);

	if (signs != u->pinged_signs)
		u->pings = 0;
	u->pinged_signs = signs;
	if (u->pings >= PINGS_MAX)
		return true;
	if (!clients_ping(u->d->clients))
		return false;
	u->pings++;
	return true;
}

static enum tv_err
on_question(struct raftd *d, const struct hello *from UNUSED, const struct link_question *q, struct span body)
{
	struct rpcd_watch *u = d->rpcd_watch;

	if (msg_read(&empty_schema, body, NULL, NULL) != TV_OK || q->frame == 0)
		return TV_EFORMAT;
	if (!clients_served(u->d->clients))
		links_answer(u->d->links, q, TV_EUNREACH, "no rpcd is connected here");
	else if (!ping(u))
		links_answer(u->d->links, q, TV_EAGAIN, "rpcd here is of another build");
	else if (u->question_count < QUESTIONS_MAX)
		u->questions[u->question_count++] = *q;
	return TV_OK;
}

void
rpcd_watch_answered(struct rpcd_watch *u)
{
	/* Those that waited too long in vain are known no more on the other side. */
	for (unsigned i = 0; i < u->question_count; i++)
		links_answer(u->d->links, &u->questions[i], TV_OK, "");
	u->question_count = 0;
}

/* -- life -- */

void
rpcd_watch_info(const struct rpcd_watch *u, figure_fn *fn, void *ctx)
{
	const struct clients *c = u->d->clients;

	fn(ctx, "rpcd", clients_served(c) ? "connected" : clients_deserted(c) ? "away" : "none");
	figure_put(fn, ctx, "rpcd_silent_ms", (uint64_t)mono_ms(silence_lasts(&u->silence, clock_mono())));
}

static void
on_timer(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct rpcd_watch *u = w->data;

	w->repeat = mono_seconds(u->d->conf.member_interval);
	ev_timer_again(loop, w);
	check_rpcd(u);
}

/* Who leads no more asks no more. */
static void
on_status(struct raftd *d)
{
	struct rpcd_watch *u = d->rpcd_watch;

	if (u == NULL || d->stopping)
		return;
	ev_timer_stop(d->loop, &u->timer);
	ev_timer_set(&u->timer, 0.0, mono_seconds(d->conf.member_interval));
	ev_timer_start(d->loop, &u->timer);
}

struct rpcd_watch *
rpcd_watch_new(struct raftd *d)
{
	struct rpcd_watch *u = calloc(1, sizeof(*u));

	if (u == NULL)
		return NULL;
	u->d = d;
	links_serve(d->links, MSG_RAFT_SERVED, false, on_question);
	engine_on_status(d->engine, on_status);
	ev_timer_init(&u->timer, on_timer, 0.0, mono_seconds(d->conf.member_interval));
	u->timer.data = u;
	ev_timer_again(d->loop, &u->timer);
	return u;
}

void
rpcd_watch_free(struct rpcd_watch *u)
{
	if (u != NULL)
		ev_timer_stop(u->d->loop, &u->timer);
	free(u);
}
