/* Whether the rpcds beside the other servers answer, see rpcd_peers.h. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/net/msg.h"
#include "raftd/engine/engine.h"
#include "raftd/members/rpcd_peers.h"

#define ASK_EVERY MONO_S(2)
#define ANSWER_WITHIN MONO_S(1)
#define PATIENCE MONO_S(5)		/* longer than a restart of rpcd takes */

struct rpcd_peers {
	struct raftd *d;
	struct mono asked;		/* when all of them were asked last; 0: we do not lead */
	unsigned waiting;
	struct one {
		struct rpcd_peers *s;
		raft_id id;
		enum handover_target_state state;
		struct mono since;	/* without an rpcd that answers since then; 0: with one, or it is not known */
	} ones[RAFT_SERVERS_MAX];
	unsigned count;
};

/* -- one question -- */

enum handover_target_state
rpcd_peers_answer(enum tv_err err, struct span body)
{
	struct msg_answer a;

	if (err != TV_OK)
		return err == TV_ETIMEOUT ? HANDOVER_TARGET_SILENT : HANDOVER_TARGET_GONE;
	if (msg_answer_read(body, &a, NULL, NULL, NULL) != TV_OK)
		return HANDOVER_TARGET_UNKNOWN;
	return a.err == TV_OK ? HANDOVER_TARGET_SERVED :
	    a.err == TV_EUNREACH ? HANDOVER_TARGET_DESERTED : HANDOVER_TARGET_UNKNOWN;
}

enum handover_target_state
rpcd_peers_ask(struct raftd *d, const struct raft_server_conf *c, calls_done *done, void *ctx)
{
	const struct peer *p = links_find_id(d->links, c->id);

	if (p == NULL || !p->proven)
		return HANDOVER_TARGET_GONE;
	if ((p->hello.features & RAFT_FEATURE_SERVED) == 0)
		return HANDOVER_TARGET_UNKNOWN;
	if (links_ask(d->links, c->uuid, MSG_RAFT_SERVED, MSG_EMPTY, ANSWER_WITHIN, done,
	    ctx) != TV_OK)
		return HANDOVER_TARGET_GONE;
	return HANDOVER_TARGET_SILENT;
}

/* -- all of them, again and again -- */

static struct one *
peer_find(struct rpcd_peers *s, raft_id id)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->ones[i].id == id)
			return &s->ones[i];
	return NULL;
}

static void
note_state(struct one *o, enum handover_target_state state)
{
	bool missing = state == HANDOVER_TARGET_SILENT || state == HANDOVER_TARGET_DESERTED;

	if (!missing)
		o->since = MONO_ZERO;
	else if (o->since.ns == 0)
		o->since = clock_mono();
	o->state = state;
}

static void
on_answer(void *ctx, enum tv_err err, struct span body)
{
	struct one *o = ctx;

	o->s->waiting--;
	note_state(o, rpcd_peers_answer(err, body));
}

/* The servers that there are now, with what is known of them; no answer is awaited. */
static void
take_servers(struct rpcd_peers *s)
{
	const struct raft_config *c = engine_config(s->d->engine);
	struct one next[RAFT_SERVERS_MAX];
	unsigned count = 0;

	for (unsigned i = 0; i < c->count; i++) {
		const struct one *old = peer_find(s, c->servers[i].id);

		if (c->servers[i].id == s->d->id.self)
			continue;
		next[count] = old != NULL ? *old : (struct one){ .state = HANDOVER_TARGET_UNKNOWN };
		next[count].s = s;
		next[count++].id = c->servers[i].id;
	}
	for (s->count = 0; s->count < count; s->count++)
		s->ones[s->count] = next[s->count];
}

static void
ask_peer(struct rpcd_peers *s, struct one *o)
{
	const struct raft_server_conf *c = raft_config_find(engine_config(s->d->engine), o->id);
	enum handover_target_state state;

	s->waiting++;
	state = rpcd_peers_ask(s->d, c, on_answer, o);
	if (state == HANDOVER_TARGET_SILENT)
		return;
	s->waiting--;
	note_state(o, state);
}

void
rpcd_peers_check(struct rpcd_peers *s)
{
	struct mono now = clock_mono();

	if (s->waiting > 0 || (s->asked.ns != 0 && mono_before(mono_sub(now, s->asked), ASK_EVERY)))
		return;
	if (!engine_is_leader(s->d->engine)) {
		s->count = 0;
		s->asked = MONO_ZERO;
		return;
	}
	s->asked = now;
	take_servers(s);
	for (unsigned i = 0; i < s->count; i++)
		ask_peer(s, &s->ones[i]);
}

enum daemon_state
rpcd_peers_daemon(const struct rpcd_peers *s, raft_id id)
{
	const struct one *o = peer_find((struct rpcd_peers *)(uintptr_t)s, id);

	if (o == NULL || o->since.ns == 0 || mono_before(mono_sub(clock_mono(), o->since), PATIENCE))
		return DAEMON_ANSWERS;
	return o->state == HANDOVER_TARGET_DESERTED ? DAEMON_AWAY : DAEMON_SILENT;
}

/* -- life -- */

struct rpcd_peers *
rpcd_peers_new(struct raftd *d)
{
	struct rpcd_peers *s = calloc(1, sizeof(*s));

	if (s != NULL)
		s->d = d;
	return s;
}

void
rpcd_peers_free(struct rpcd_peers *s)
{
	free(s);
}
