/* Linearizable reads, a round per turn. */
#include "raftd/engine/reads.h"

#define EARLY_MAX 1024			/* entries that are looked through for a read */

void
reads_init(struct reads *r)
{
	TAILQ_INIT(&r->fresh);
	TAILQ_INIT(&r->asked);
	TAILQ_INIT(&r->parked);
	TAILQ_INIT(&r->confirmed);
	r->ctx = 0;
}

static void
list_append(struct read_list *list, struct read_wait *w)
{
	TAILQ_INSERT_TAIL(list, w, link);
	w->list = list;
}

static void
list_remove(struct read_wait *w)
{
	TAILQ_REMOVE(w->list, w, link);
	w->list = NULL;
}

void
reads_add(struct reads *r, struct read_wait *w)
{
	w->early = w->judged = false;
	list_append(&r->fresh, w);
}

void
reads_cancel(struct read_wait *w)
{
	if (w->list != NULL)
		list_remove(w);
}

uint64_t
reads_round(struct reads *r, struct mono now)
{
	struct read_wait *w;

	if (TAILQ_EMPTY(&r->fresh))
		return 0;
	r->ctx++;
	while ((w = TAILQ_FIRST(&r->fresh)) != NULL) {
		list_remove(w);
		w->ctx = r->ctx;
		w->asked = now;
		list_append(&r->asked, w);
	}
	return r->ctx;
}

static void
answer_list(struct reads *r, struct read_list *list, uint64_t ctx, bool ok, uint64_t index)
{
	struct read_wait *w, *next;

	for (w = TAILQ_FIRST(list); w != NULL && w->ctx <= ctx; w = next) {
		next = TAILQ_NEXT(w, link);
		/* A later round that is confirmed confirms the earlier ones: they were asked before it. */
		if (w->ctx != ctx && !ok)
			continue;
		list_remove(w);
		w->index = index;
		list_append(ok ? &r->confirmed : &r->parked, w);
	}
}

void
reads_answer(struct reads *r, uint64_t ctx, bool ok, uint64_t index)
{
	answer_list(r, &r->asked, ctx, ok, index);
}

bool
reads_none(const struct reads *r)
{
	return TAILQ_EMPTY(&r->fresh) && TAILQ_EMPTY(&r->asked) && TAILQ_EMPTY(&r->parked) && TAILQ_EMPTY(&r->confirmed);
}

bool
reads_ready(const struct reads *r, uint64_t applied)
{
	const struct read_wait *w = TAILQ_FIRST(&r->confirmed);

	return w != NULL && w->index <= applied;
}

bool
reads_serve(struct reads *r, uint64_t applied)
{
	struct read_wait *w = TAILQ_FIRST(&r->confirmed);

	if (!reads_ready(r, applied))
		return false;
	list_remove(w);
	w->done(w, TV_OK);
	return true;
}

static bool
is_untouched(struct read_wait *w, uint64_t applied, bool (*touches)(void *ctx, uint64_t index, struct span key),
    void *ctx)
{
	struct span key;

	if (w->index - applied > EARLY_MAX || w->key == NULL || !w->key(w, &key))
		return false;
	for (uint64_t i = applied + 1; i <= w->index; i++)
		if (touches(ctx, i, key))
			return false;
	return true;
}

/* Those that were judged stand before the others. */
static struct read_wait *
first_new(const struct reads *r)
{
	struct read_wait *w, *first = NULL;

	for (w = TAILQ_LAST(&r->confirmed, read_list); w != NULL && !w->judged; w = TAILQ_PREV(w, read_list, link))
		first = w;
	return first;
}

void
reads_serve_early(struct reads *r, uint64_t applied, uint64_t committed,
    bool (*touches)(void *ctx, uint64_t index, struct span key), void *ctx)
{
	struct read_wait *w, *next;

	for (w = first_new(r); w != NULL && w->index <= committed; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->index <= applied)
			continue;		/* as all are */
		w->judged = true;
		w->early = is_untouched(w, applied, touches, ctx);
		if (!w->early)
			continue;
		list_remove(w);
		w->index = applied;
		w->done(w, TV_OK);
	}
}

void
reads_refuse(struct reads *r, uint64_t last)
{
	struct read_wait *w, *next;

	for (w = TAILQ_FIRST(&r->confirmed); w != NULL; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->index <= last)
			continue;
		list_remove(w);
		w->done(w, TV_ENOTLEADER);
	}
}

static void
retry_old(struct reads *r, struct read_list *list, struct mono now, struct mono patience)
{
	struct read_wait *w;

	while ((w = TAILQ_FIRST(list)) != NULL && mono_sub(now, w->asked).ns > patience.ns) {
		list_remove(w);
		list_append(&r->fresh, w);
	}
}

void
reads_retry(struct reads *r, struct mono now, struct mono patience)
{
	struct read_wait *w;

	while ((w = TAILQ_FIRST(&r->parked)) != NULL) {
		list_remove(w);
		list_append(&r->fresh, w);
	}
	retry_old(r, &r->asked, now, patience);
}

static void
expire_list(struct read_list *list, struct mono now, enum tv_err err)
{
	struct read_wait *w, *next;

	for (w = TAILQ_FIRST(list); w != NULL; w = next) {
		next = TAILQ_NEXT(w, link);
		if (!mono_before(w->deadline, now))
			continue;
		list_remove(w);
		w->done(w, err);
	}
}

void
reads_expire(struct reads *r, struct mono now)
{
	expire_list(&r->fresh, now, TV_ENOLEADER);
	expire_list(&r->asked, now, TV_ENOLEADER);
	expire_list(&r->parked, now, TV_ENOLEADER);
	expire_list(&r->confirmed, now, TV_ETIMEOUT);
}
