/* Tokens of those who wait, see token_watch.h. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/record/records.h"
#include "raftd/engine/engine.h"
#include "raftd/fsm/fsm.h"
#include "raftd/serve/op.h"
#include "raftd/serve/token_watch.h"

#define STEP 256			/* requests looked at in one turn */
#define DISTANCE 0.1			/* s, between the beginnings of two walks */

struct token_watch {
	struct raftd *d;
	TAILQ_HEAD(, request) waiting;
	struct request *next;		/* of the walk; NULL: its end, or none */
	bool walking, due;		/* due: something has changed since the walk began */
	bool tried;			/* the token of the next one was asked for */
	struct fsm_watch *watch;	/* on the tables of access control */
	ev_timer timer;			/* the next step, or the next walk */
	struct resolving {		/* a token is being resolved; it lives until the thread is done */
		struct token_watch *w;
		uint8_t token[OP_NAME_BYTES_MAX];
		size_t len;
	} *resolving;
};

static void
begin_soon(struct token_watch *w)
{
	w->due = true;
	if (!w->walking && !ev_is_active(&w->timer))
		ev_timer_start(w->d->loop, &w->timer);
}

static void
on_change(void *ctx)
{
	struct token_watch *w = ctx;

	w->watch = NULL;
	begin_soon(w);
}

/* All changes from now on are heard of. */
static void
listen_again(struct token_watch *w)
{
	struct acl_token_list all = { .Policy = SPAN_NONE };
	struct buf args = BUF_INIT(256);

	if (w->watch != NULL || TAILQ_EMPTY(&w->waiting))
		return;
	schema_pack(&acl_token_list_schema, &all, &args);
	w->watch = fsm_watch(w->d->fsm, op_find(OP_ACL_TOKEN_LIST), buf_span(&args), on_change, w);
	buf_done(&args);
}

static void
resolve(struct fsm *reader, void *ctx)
{
	struct resolving *r = ctx;
	const struct fsm_rights *rights;

	if (fsm_rights_get(reader, span_of(r->token, r->len), clock_wall_ns(), &rights) == TV_OK)
		fsm_rights_free(rights);	/* it is in memory now */
}

static void step(struct token_watch *w);

static void
resolved(void *ctx)
{
	struct resolving *r = ctx;
	struct token_watch *w = r->w;

	explicit_bzero(r->token, sizeof(r->token));
	free(r);
	w->resolving = NULL;
	step(w);
}

/* False: it cannot be asked; the request looks for itself. */
static bool
begin_resolving(struct token_watch *w, struct span token)
{
	struct resolving *r = calloc(1, sizeof(*r));

	if (r == NULL || token.len > sizeof(r->token)) {
		free(r);
		return false;
	}
	r->w = w;
	memcpy(r->token, token.p, token.len);
	r->len = token.len;
	if (statethread_call(w->d->state, resolve, resolved, r) != TV_OK) {
		explicit_bzero(r->token, sizeof(r->token));
		free(r);
		return false;
	}
	w->resolving = r;
	return true;
}

/* False: its token has to be resolved first, and is. */
static bool
check_token(struct token_watch *w, struct request *q)
{
	const struct fsm_rights *now;
	enum tv_err err = fsm_rights_known(w->d->fsm, q->token, clock_wall_ns(), &now);

	if (err == TV_EAGAIN && !w->tried && begin_resolving(w, q->token)) {
		w->tried = true;
		return false;
	}
	if (err != TV_OK || now == NULL || fsm_rights_set(now) != fsm_rights_set(q->rights)) {
		op_look_again(q);
	} else {
		fsm_rights_free(q->rights);
		q->rights = now;
		now = NULL;
	}
	fsm_rights_free(now);
	return true;
}

static void
step(struct token_watch *w)
{
	for (unsigned i = 0; w->next != NULL && i < STEP; i++) {
		struct request *q = w->next;

		if (!check_token(w, q))
			return;
		w->tried = false;
		w->next = TAILQ_NEXT(q, guarded);
	}
	w->walking = w->next != NULL;
	if (w->walking || w->due) {
		ev_timer_set(&w->timer, w->walking ? 0.0 : DISTANCE, 0.0);
		ev_timer_start(w->d->loop, &w->timer);
	}
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *t, int revents UNUSED)
{
	struct token_watch *w = t->data;

	if (!w->walking) {
		w->due = w->tried = false;
		w->walking = true;
		listen_again(w);
		w->next = TAILQ_FIRST(&w->waiting);
	}
	step(w);
}

void
token_watch_add(struct request *q)
{
	struct token_watch *w = q->d->token_watch;

	if (q->rights == NULL || q->is_guarded)
		return;
	q->is_guarded = true;
	TAILQ_INSERT_TAIL(&w->waiting, q, guarded);
	listen_again(w);
	if (fsm_acl_index(w->d->fsm) > fsm_rights_index(q->rights))
		begin_soon(w);		/* it came too late for the change */
}

void
token_watch_remove(struct request *q)
{
	struct token_watch *w = q->d->token_watch;

	if (!q->is_guarded)
		return;
	q->is_guarded = false;
	if (w->next == q) {
		w->next = TAILQ_NEXT(q, guarded);
		w->tried = false;
	}
	TAILQ_REMOVE(&w->waiting, q, guarded);
}

struct token_watch *
token_watch_new(struct raftd *d)
{
	struct token_watch *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->d = d;
	TAILQ_INIT(&w->waiting);
	ev_timer_init(&w->timer, on_timer, DISTANCE / 10, 0.0);
	w->timer.data = w;
	return w;
}

void
token_watch_free(struct token_watch *w)
{
	if (w == NULL)
		return;
	ev_timer_stop(w->d->loop, &w->timer);
	if (w->watch != NULL)
		fsm_unwatch(w->d->fsm, w->watch);
	if (w->resolving != NULL)		/* the threads have ended, and will not say so */
		explicit_bzero(w->resolving->token, sizeof(w->resolving->token));
	free(w->resolving);
	free(w);
}
