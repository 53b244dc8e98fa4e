/* Nodes of the catalog that gossip does not know, see strays.h. */
#include <stdlib.h>
#include <string.h>

#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/members_view.h"
#include "raftd/leader/strays.h"
#include "raftd/peers/gossip.h"

#define NAME_MAX_BYTES 1024		/* of a node or its id, see fsm_each_serf_node() */

struct strays {
	struct raftd *d;
	strays_found *found;
	void *ctx;
	bool looking, running, whole;	/* whole: the last look was */
	struct mono settled;		/* of the look */
	uint64_t round, asked;		/* of looks; that of the piece that was asked for */
	char after[NAME_MAX_BYTES + 1];	/* the last node of the piece before; "" */
	/* The piece: the thread's while running. */
	char from[NAME_MAX_BYTES + 1];	/* behind this one */
	struct arena arena;
	struct stray piece[STRAYS_PIECE];
	unsigned count;
	enum tv_err err;
};

static bool
on_node(void *ctx, struct span node, struct span id, const struct check *serf)
{
	struct strays *s = ctx;
	struct stray *x = &s->piece[s->count];

	*x = (struct stray){ .critical = span_eqs(serf->Status, "critical"), .index = serf->ModifyIndex };
	x->node = (struct reconcile_node){ .known = true, .member = true, .name = arena_copy(&s->arena, node),
	    .id = id.len > 0 ? arena_copy(&s->arena, id) : span_str("") };
	if (x->node.name.p == NULL || x->node.id.p == NULL) {
		s->err = TV_ENOMEM;
		return false;
	}
	return ++s->count < STRAYS_PIECE;
}

static void
work(struct fsm *reader, void *ctx)
{
	struct strays *s = ctx;
	enum tv_err err;

	err = fsm_each_serf_node(reader, span_str(s->from), on_node, s);
	if (s->err == TV_OK)
		s->err = err;
}

/* What gossipd does not know now.  False: no memory. */
static bool
report(struct strays *s)
{
	struct reconcile_view *v = members_view(s->d);

	for (unsigned i = 0; i < s->count && v != NULL; i++)
		if (reconcile_is_stray(v, &s->piece[i].node))
			s->found(s->ctx, &s->piece[i]);
	reconcile_view_free(v);
	return v != NULL;
}

static void
done(void *ctx)
{
	struct strays *s = ctx;

	s->running = false;
	if (!s->looking || s->asked != s->round)
		return;
	/* What could not be read is for the next look, too. */
	s->looking = gossip_settled(s->d->gossip, s->settled) && s->err == TV_OK;
	if (!s->looking)
		return;
	s->looking = s->count == STRAYS_PIECE && span_copy(s->piece[s->count - 1].node.name, s->after, sizeof(s->after));
	if (!report(s))
		s->looking = false;
	else
		s->whole = s->count < STRAYS_PIECE;
}

void
strays_turn(struct strays *s)
{
	if (!s->looking || s->running)
		return;
	arena_reset(&s->arena);
	s->count = 0;
	s->err = TV_OK;
	s->asked = s->round;
	memcpy(s->from, s->after, sizeof(s->from));
	s->running = statethread_call(s->d->state, work, done, s) == TV_OK;
	s->looking = s->running;	/* else at the next look */
}

void
strays_look(struct strays *s, struct mono settled)
{
	s->round++;
	s->settled = settled;
	s->looking = true;
	s->whole = false;
	s->after[0] = '\0';
	strays_turn(s);
}

bool
strays_are_looked_for(const struct strays *s)
{
	return s->looking;
}

bool
strays_were_all_found(const struct strays *s)
{
	return s->whole;
}

void
strays_stop(struct strays *s)
{
	s->looking = false;
}

struct strays *
strays_new(struct raftd *d, strays_found *found, void *ctx)
{
	struct strays *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->d = d;
	s->found = found;
	s->ctx = ctx;
	s->arena = ARENA_INIT(STRAYS_PIECE * 2 * (NAME_MAX_BYTES + 16));
	return s;
}

void
strays_free(struct strays *s)
{
	if (s == NULL)
		return;
	arena_done(&s->arena);
	free(s);
}
