/* Nodes of the catalog that gossip does not know, see strays.h. */
#include <stdlib.h>
#include <string.h>

#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/strays.h"
#include "raftd/peers/gossip.h"

#define NAME_MAX_BYTES 1024		/* of a node, see fsm_each_serf_node() */

struct strays {
	struct raftd *d;
	void (*found)(void *ctx, struct span node);
	void *ctx;
	bool looking, running;
	uint64_t round, asked;		/* of looks; that of the piece that was asked for */
	char after[NAME_MAX_BYTES + 1];	/* the last node of the piece before; "" */
	/* The piece: the thread's while running. */
	char from[NAME_MAX_BYTES + 1];	/* behind this one */
	struct arena arena;
	struct span names[STRAYS_PIECE];
	unsigned count;
	enum tv_err err;
};

static bool
on_node(void *ctx, struct span node, struct span id, struct span status)
{
	struct strays *s = ctx;

	(void)id;
	(void)status;
	s->names[s->count] = arena_copy(&s->arena, node);
	if (s->names[s->count].p == NULL) {
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

static void
done(void *ctx)
{
	struct strays *s = ctx;

	s->running = false;
	if (!s->looking || s->asked != s->round)
		return;
	/* What could not be read, and what gossipd does not know now, is for the next look. */
	s->looking = gossip_settled(s->d->gossip, s->d->conf.reconcile_interval) && s->err == TV_OK;
	if (!s->looking)
		return;
	s->looking = s->count == STRAYS_PIECE && span_copy(s->names[s->count - 1], s->after, sizeof(s->after));
	for (unsigned i = 0; i < s->count; i++)
		if (gossip_find(s->d->gossip, s->names[i]) == NULL)
			s->found(s->ctx, s->names[i]);
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
strays_look(struct strays *s)
{
	s->round++;
	s->looking = true;
	s->after[0] = '\0';
	strays_turn(s);
}

void
strays_stop(struct strays *s)
{
	s->looking = false;
}

struct strays *
strays_new(struct raftd *d, void (*found)(void *ctx, struct span node), void *ctx)
{
	struct strays *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->d = d;
	s->found = found;
	s->ctx = ctx;
	s->arena = ARENA_INIT(STRAYS_PIECE * (NAME_MAX_BYTES + 16));
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
