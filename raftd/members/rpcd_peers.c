/* Whether the rpcds beside the other servers answer, see rpcd_peers.h. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "raftd/engine/engine.h"
#include "raftd/members/rpcd_peers.h"

#define ASK_EVERY MONO_S(2)
#define ANSWER_WITHIN MONO_S(1)
#define PATIENCE MONO_S(5)		/* longer than a restart of rpcd takes */

struct served {
	struct raftd *d;
	struct mono asked;		/* when all of them were asked last; 0: we do not lead */
	unsigned waiting;
	struct one {
		struct served *s;
		raft_id id;
		enum successor_state state;
		struct mono since;	/* without an rpcd that answers since then; 0: with one, or it is not known */
	} ones[RAFT_SERVERS_MAX];
	unsigned count;
};

/* -- one question -- */

/* [u8 err, str text] */
static enum successor_state
read_answer(struct span body)
{
	struct rd r = rd_span_over(body);
	uint32_t fields = mpr_array(&r);
	uint64_t err = mpr_uint(&r, UINT8_MAX);

	(void)mpr_bytes(&r, UINT8_MAX);
	if (fields != 2 || rd_end(&r) != TV_OK)
		return SUCCESSOR_UNKNOWN;
	return err == 0 ? SUCCESSOR_SERVED : err == (uint64_t)-(int)TV_EUNREACH ? SUCCESSOR_DESERTED : SUCCESSOR_UNKNOWN;
}

enum successor_state
served_answer(enum tv_err err, struct span body)
{
	return err == TV_OK ? read_answer(body) : err == TV_ETIMEOUT ? SUCCESSOR_SILENT : SUCCESSOR_GONE;
}

enum successor_state
served_ask(struct raftd *d, const struct raft_server_conf *c, calls_done *done, void *ctx)
{
	const struct peer *p = links_find_id(d->links, c->id);
	static const uint8_t nothing[] = { 0x90 };	/* [] */

	if (p == NULL || !p->proven)
		return SUCCESSOR_GONE;
	if ((p->hello.features & RAFT_FEATURE_SERVED) == 0)
		return SUCCESSOR_UNKNOWN;
	if (links_ask(d->links, c->uuid, MSG_RAFT_SERVED, span_of(nothing, sizeof(nothing)), ANSWER_WITHIN, done,
	    ctx) != TV_OK)
		return SUCCESSOR_GONE;
	return SUCCESSOR_SILENT;
}

/* -- all of them, again and again -- */

static struct one *
find(struct served *s, raft_id id)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->ones[i].id == id)
			return &s->ones[i];
	return NULL;
}

static void
note(struct one *o, enum successor_state state)
{
	bool missing = state == SUCCESSOR_SILENT || state == SUCCESSOR_DESERTED;

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
	note(o, served_answer(err, body));
}

/* The servers that there are now, with what is known of them; nobody waits for an answer. */
static void
take_servers(struct served *s)
{
	const struct raft_config *c = engine_config(s->d->engine);
	struct one next[RAFT_SERVERS_MAX];
	unsigned count = 0;

	for (unsigned i = 0; i < c->count; i++) {
		const struct one *old = find(s, c->servers[i].id);

		if (c->servers[i].id == s->d->id.self)
			continue;
		next[count] = old != NULL ? *old : (struct one){ .state = SUCCESSOR_UNKNOWN };
		next[count].s = s;
		next[count++].id = c->servers[i].id;
	}
	for (s->count = 0; s->count < count; s->count++)
		s->ones[s->count] = next[s->count];
}

static void
ask(struct served *s, struct one *o)
{
	const struct raft_server_conf *c = raft_config_find(engine_config(s->d->engine), o->id);
	enum successor_state state;

	s->waiting++;
	state = served_ask(s->d, c, on_answer, o);
	if (state == SUCCESSOR_SILENT)
		return;
	s->waiting--;
	note(o, state);
}

void
served_look(struct served *s)
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
		ask(s, &s->ones[i]);
}

enum daemon_state
served_daemon(const struct served *s, raft_id id)
{
	const struct one *o = find((struct served *)(uintptr_t)s, id);

	if (o == NULL || o->since.ns == 0 || mono_before(mono_sub(clock_mono(), o->since), PATIENCE))
		return DAEMON_ANSWERS;
	return o->state == SUCCESSOR_DESERTED ? DAEMON_AWAY : DAEMON_SILENT;
}

/* -- life -- */

struct served *
served_new(struct raftd *d)
{
	struct served *s = calloc(1, sizeof(*s));

	if (s != NULL)
		s->d = d;
	return s;
}

void
served_free(struct served *s)
{
	free(s);
}
