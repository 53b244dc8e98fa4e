/* Entries of the cache, their waiters, and what is to be fetched.  See cache_table.h. */
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/rng.h"
#include "common/record/op_note.h"
#include "rpcd/cache/cache_table_int.h"

#define PACE MONO_MS(20)		/* two fetches of one entry begin no closer to each other */
#define RETRY_FIRST MONO_MS(250)
#define RETRY_LAST MONO_S(5)
#define IDLE_RETRY MONO_S(5)		/* and up to twice as much: of those that leave it to another to try */
#define FOLLOW_EACH MONO_US(200)	/* after contact is found again, entries follow at this distance on average */

/* -- entries ----------------------------------------------------------------- */

static struct cache_entry *
find_entry(struct cache_table *t, struct span key, uint64_t hash)
{
	struct cache_entry *e;

	MAP_FOREACH_HASH(e, &t->entries, hash, node)
		if (span_eq(span_of(e->key, e->key_len), key))
			return e;
	return NULL;
}

static struct cache_place *
place_of(struct cache_table *t, struct span name)
{
	struct cache_place *p;

	LIST_FOREACH(p, &t->places, link)
		if (span_eq(span_of(p->name, p->name_len), name))
			return p;
	p = calloc(1, sizeof(*p) + name.len);
	if (p == NULL)
		return NULL;
	p->name_len = name.len;
	if (name.len > 0)
		memcpy(p->name, name.p, name.len);
	LIST_INSERT_HEAD(&t->places, p, link);
	return p;
}

static void
place_leave(struct cache_entry *e)
{
	struct cache_place *p = e->place;

	if (p->probe == e)
		p->probe = NULL;
	p->refreshed -= e->refreshed;
	e->place = NULL;
	if (--p->entries > 0)
		return;
	LIST_REMOVE(p, link);
	free(p);
}

static void
lost_set(struct cache_table *t, struct cache_entry *e, struct mono at)
{
	t->stats.lost += at.ns != 0 && e->lost_at.ns == 0;
	t->stats.lost -= at.ns == 0 && e->lost_at.ns != 0;
	e->lost_at = at;
}

/* Its memory goes with the next call: an answer may still be read. */
static void
bury(struct cache_table *t, struct cache_entry *e)
{
	SLIST_INSERT_HEAD(&t->grave, e, past);
}

static void
entry_free(struct cache_entry *e)
{
	explicit_bzero(e->key, e->key_len);	/* a token */
	if (e->value != NULL)
		explicit_bzero(e->value, e->value_len);	/* that of a prepared query */
	free(e->value);
	free(e->text);
	free(e);
}

static void
empty_grave(struct cache_table *t)
{
	struct cache_entry *e;

	while ((e = SLIST_FIRST(&t->grave)) != NULL) {
		SLIST_REMOVE_HEAD(&t->grave, past);
		entry_free(e);
	}
}

static void
news_add(struct cache_table *t, struct cache_watch *w)
{
	if (w->queued)
		return;
	w->queued = true;
	STAILQ_INSERT_TAIL(&t->news, w, news);
}

static void
tell_watches(struct cache_table *t, struct cache_entry *e)
{
	struct cache_watch *w;

	LIST_FOREACH(w, &e->watches, link)
		news_add(t, w);
}

static void
fetch_dequeue(struct cache_table *t, struct cache_entry *e)
{
	if (e->fetch_state != FETCH_WANTED)
		return;
	STAILQ_REMOVE(&t->wanted, e, cache_entry, wanted);
	e->fetch_state = FETCH_NONE;
}

void
cache_entry_end(struct cache_table *t, struct cache_entry *e)
{
	struct cache_watch *w;

	TV_ASSERT(!e->ended && LIST_EMPTY(&e->waiters));
	lost_set(t, e, MONO_ZERO);
	map_remove(&t->entries, &e->node);
	e->ended = true;
	cache_account_remove(t, e);
	deadlines_remove(&t->entry_dues, &e->due);
	place_leave(e);
	fetch_dequeue(t, e);
	while ((w = LIST_FIRST(&e->watches)) != NULL) {
		LIST_REMOVE(w, link);
		w->entry = NULL;
		news_add(t, w);
	}
	t->stats.entries--;
	if (e->fetch_state == FETCH_UNDER_WAY) {
		SLIST_INSERT_HEAD(&t->cancels, e, past);	/* cache_table_next_cancel() buries it */
		t->stats.fetching--;
	} else if (e->ready == 0) {
		bury(t, e);
	}
}

static void
fetch_want(struct cache_table *t, struct cache_entry *e)
{
	if (e->fetch_state != FETCH_NONE)
		return;
	e->fetch_state = FETCH_WANTED;
	STAILQ_INSERT_TAIL(&t->wanted, e, wanted);
}

/* When it needs a look: for its next fetch, or since it may have been unused for too long. */
static void
due_set(struct cache_table *t, struct cache_entry *e)
{
	struct mono end = mono_add(e->used_at, t->conf.ttl);

	deadlines_move(&t->entry_dues, &e->due, e->fetch_at.ns == 0 ? end : mono_min(e->fetch_at, end));
}

static struct cache_entry *
entry_new(struct cache_table *t, struct mono now, const struct cache_ask *q, uint64_t hash)
{
	struct cache_place *p;
	struct cache_entry *e;

	if (!cache_make_room(t, sizeof(*e) + q->key.len, 1, NULL) ||
	    !deadlines_reserve(&t->entry_dues, t->stats.entries + 1u))
		return NULL;
	e = calloc(1, sizeof(*e) + q->key.len);
	if (e == NULL)
		return NULL;
	p = place_of(t, q->place);
	if (p == NULL) {
		free(e);
		return NULL;
	}
	p->entries++;
	p->refreshed += q->refreshed;
	e->place = p;
	e->refreshed = q->refreshed;
	e->key_len = (uint32_t)q->key.len;
	memcpy(e->key, q->key.p, q->key.len);
	map_add(&t->entries, &e->node, hash);
	e->used_at = now;
	t->stats.entries++;
	cache_account_add(t, e, q->source);
	e->due.when = mono_add(now, t->conf.ttl);
	deadlines_add(&t->entry_dues, &e->due);
	fetch_want(t, e);
	return e;
}

/* -- waiting ------------------------------------------------------------------ */

/* From the waiters of the entry to those whose answer is ready. */
static void
ready(struct cache_table *t, struct cache_waiter *w)
{
	struct cache_entry *e = w->entry;

	LIST_REMOVE(w, waiting);
	deadlines_remove(&t->waiter_dues, &w->deadline);
	w->ready = true;
	e->ready++;
	TAILQ_INSERT_TAIL(&t->ready, w, answered);
}

static void
ready_remove(struct cache_table *t, struct cache_waiter *w)
{
	struct cache_entry *e = w->entry;

	TAILQ_REMOVE(&t->ready, w, answered);
	t->stats.waiting--;
	w->entry = NULL;
	if (--e->ready == 0 && e->ended && e->fetch_state != FETCH_UNDER_WAY)
		bury(t, e);
}

static enum cache_got
wait_for(struct cache_table *t, struct mono now, struct cache_entry *e, const struct cache_ask *q,
    struct cache_waiter *w)
{
	bool timed = q->index > 0;

	if (timed && !deadlines_reserve(&t->waiter_dues, t->stats.waiting + 1u)) {
		t->stats.refused++;
		return CACHE_FULL;
	}
	*w = (struct cache_waiter){ .entry = e, .index = q->index, .stale_if_error = q->stale_if_error };
	w->for_index = timed;
	LIST_INSERT_HEAD(&e->waiters, w, waiting);
	t->stats.waiting++;
	t->stats.misses++;
	if (timed) {
		int64_t more = (int64_t)rng_below(&t->rng, (uint64_t)q->wait.ns / 16 + 1);

		w->deadline.when = mono_add(now, (struct mono){ q->wait.ns + more });
		deadlines_add(&t->waiter_dues, &w->deadline);
	}
	if (!timed || !e->valid)
		fetch_want(t, e);
	return CACHE_WAIT;
}

void
cache_table_cancel(struct cache_table *t, struct cache_waiter *w)
{
	empty_grave(t);
	if (w->entry == NULL)
		return;
	if (w->ready) {
		ready_remove(t, w);
		return;
	}
	LIST_REMOVE(w, waiting);
	deadlines_remove(&t->waiter_dues, &w->deadline);
	t->stats.waiting--;
	w->entry = NULL;
}

/* -- questions ----------------------------------------------------------------- */

static struct mono
age_of(const struct cache_entry *e, struct mono now)
{
	struct mono since = e->refreshed ? e->lost_at : e->fetched_at;

	return since.ns == 0 || mono_before(now, since) ? MONO_ZERO : mono_sub(now, since);
}

static void
answer_of(const struct cache_entry *e, struct mono now, struct cache_answer *out)
{
	*out = (struct cache_answer){ .version = e->version,
	    .reachable = e->place == NULL || e->place->lost_at.ns == 0 };
	out->age = age_of(e, now);
	bool in_contact = !e->refreshed || e->lost_at.ns == 0;
	out->reply = (struct op_reply){
		.index = e->index, .known_leader = e->known_leader && in_contact,
		.last_contact_ms = e->last_contact_ms + (in_contact ? 0 : (uint64_t)mono_ms(out->age)),
		.value = span_of(e->value, e->value_len),
		.text = e->filtered ? span_str(OP_NOTE_FILTERED) : SPAN_NONE,
	};
}

/* Does what is there answer this question? */
static bool
is_hit(const struct cache_entry *e, const struct cache_ask *q, struct mono now)
{
	if (!e->valid || (q->index > 0 && q->index >= e->index))
		return false;
	return e->refreshed || (!q->revalidate && !mono_before(q->max_age, age_of(e, now)));
}

static struct cache_entry *
entry_for(struct cache_table *t, struct mono now, const struct cache_ask *q)
{
	uint64_t hash = t->conf.hash(q->key.p, q->key.len);
	struct cache_entry *e = find_entry(t, q->key, hash);

	if (e == NULL && (e = entry_new(t, now, q, hash)) == NULL)
		t->stats.refused++;
	return e;
}

enum cache_got
cache_table_ask(struct cache_table *t, struct mono now, const struct cache_ask *q, struct cache_waiter *w,
    struct cache_answer *out)
{
	struct cache_entry *e;

	empty_grave(t);
	w->entry = NULL;
	e = entry_for(t, now, q);
	if (e == NULL)
		return CACHE_FULL;
	e->used_at = now;
	cache_account_use(t, e);
	if (!is_hit(e, q, now))
		return wait_for(t, now, e, q, w);
	t->stats.hits++;
	answer_of(e, now, out);
	out->hit = true;
	return CACHE_HIT;
}

bool
cache_table_watch(struct cache_table *t, struct mono now, const struct cache_ask *q, struct cache_watch *w)
{
	struct cache_entry *e;

	empty_grave(t);
	e = entry_for(t, now, q);
	*w = (struct cache_watch){ .entry = e };
	if (e == NULL)
		return false;
	LIST_INSERT_HEAD(&e->watches, w, link);
	return true;
}

void
cache_table_unwatch(struct cache_table *t, struct cache_watch *w)
{
	empty_grave(t);
	if (w->queued)
		STAILQ_REMOVE(&t->news, w, cache_watch, news);
	if (w->entry != NULL)
		LIST_REMOVE(w, link);
	*w = (struct cache_watch){ .entry = NULL };
}

bool
cache_table_watched(struct cache_table *t, struct mono now, const struct cache_watch *w, struct cache_answer *out)
{
	empty_grave(t);
	if (w->entry == NULL || !w->entry->valid)
		return false;
	answer_of(w->entry, now, out);
	out->hit = true;
	return true;
}

void
cache_table_use(struct cache_table *t, struct mono now, struct cache_watch *w)
{
	empty_grave(t);
	if (w->entry == NULL)
		return;
	w->entry->used_at = now;
	cache_account_use(t, w->entry);
}

void
cache_table_forget(struct cache_table *t, struct span key, struct mono since)
{
	struct cache_entry *e;

	empty_grave(t);
	e = find_entry(t, key, t->conf.hash(key.p, key.len));
	if (e != NULL && LIST_EMPTY(&e->waiters) && e->ready == 0 && LIST_EMPTY(&e->watches) &&
	    !mono_before(since, e->used_at))
		cache_entry_end(t, e);
}

/* -- outcomes ------------------------------------------------------------------ */

/* No server that could know has answered: what is there may still be true. */
static bool
is_unreached(enum tv_err err)
{
	return err == TV_EUNREACH || err == TV_ENOLEADER || err == TV_ENOTLEADER || err == TV_ECLOSED ||
	    err == TV_ETIMEOUT || err == TV_EAGAIN || err == TV_ENOMEM || err == TV_EUNKNOWN;
}

static struct mono
jitter(struct cache_table *t, struct mono about)
{
	return (struct mono){ about.ns / 2 + (int64_t)rng_below(&t->rng, (uint64_t)about.ns) };
}

/* It is not known whether this datacenter can be reached, until a fetch of it succeeds. */
static void
place_lost(struct cache_place *p, struct mono now)
{
	if (p->lost_at.ns == 0)
		p->lost_at = now;
}

/* Those that wait for their next try have it soon. */
static void
place_found(struct cache_table *t, struct cache_place *p, struct mono now)
{
	struct map_node *tmp;
	struct cache_entry *e;
	uint64_t spread;

	if (p->lost_at.ns == 0)
		return;
	p->lost_at = MONO_ZERO;
	p->probe = NULL;
	spread = (uint64_t)mono_mul(FOLLOW_EACH, (int64_t)p->entries).ns;
	MAP_FOREACH(e, &t->entries, node, tmp)
		if (e->place == p && e->fetch_state == FETCH_NONE && e->fetch_at.ns != 0) {
			e->fetch_at = mono_add(now, (struct mono){ (int64_t)rng_below(&t->rng, spread) });
			due_set(t, e);
		}
}

static void
keep_text(struct cache_entry *e, const struct op_reply *reply)
{
	free(e->text);
	e->text = span_dup(reply->text);	/* NULL: the error has a sentence of its own */
	e->err = reply->err;
}

/* All waiters get the error, but for those that may have what is there. */
static void
fail_waiters(struct cache_table *t, struct cache_entry *e, struct mono now)
{
	struct cache_waiter *next;

	for (struct cache_waiter *w = LIST_FIRST(&e->waiters); w != NULL; w = next) {
		next = LIST_NEXT(w, waiting);
		if (w->for_index && e->valid && is_unreached(e->err))
			continue;		/* it may come yet, or its time passes */
		w->stale = e->valid && is_unreached(e->err) && mono_before(age_of(e, now), w->stale_if_error);
		ready(t, w);
	}
}

static void
fetch_failed(struct cache_table *t, struct mono now, struct cache_entry *e, const struct op_reply *reply)
{
	bool unreached = is_unreached(reply->err);
	struct mono since = mono_sub(now, t->conf.hold), delay = RETRY_FIRST;

	t->stats.fetch_errors++;
	keep_text(e, reply);
	fail_waiters(t, e, now);
	if (unreached)
		place_lost(e->place, now);
	if (!unreached || !e->valid) {
		e->valid = false;
		if (LIST_EMPTY(&e->waiters))
			cache_entry_end(t, e);
		return;
	}
	if (!e->refreshed)
		return;
	if (e->lost_at.ns == 0) {
		lost_set(t, e, mono_before(since, e->begun_at) ? e->begun_at : since);
		tell_watches(t, e);
	}
	for (unsigned i = 0; i < e->failures && mono_before(delay, RETRY_LAST); i++)
		delay = mono_mul(delay, 2);
	e->failures += e->failures < UINT8_MAX;
	e->fetch_at = mono_add(now, jitter(t, mono_min(delay, RETRY_LAST)));
	due_set(t, e);
}

/* *same: it is what was there already.  False: no memory for it. */
static bool
keep_value(struct cache_table *t, struct cache_entry *e, const struct op_reply *reply, bool *same)
{
	uint8_t *fresh;

	*same = e->valid && span_eq(reply->value, span_of(e->value, e->value_len));
	if (*same)
		return true;
	if (reply->value.len != e->value_len || e->value == NULL) {
		fresh = malloc(reply->value.len > 0 ? reply->value.len : 1);
		if (fresh == NULL)
			return false;
		if (e->value != NULL)
			explicit_bzero(e->value, e->value_len);
		free(e->value);
		e->value = fresh;
	}
	if (reply->value.len > 0)
		memcpy(e->value, reply->value.p, reply->value.len);
	cache_account_resize(t, e, reply->value.len);
	return true;
}

static void
answer_waiters(struct cache_table *t, struct cache_entry *e, bool all)
{
	struct cache_waiter *next;

	for (struct cache_waiter *w = LIST_FIRST(&e->waiters); w != NULL; w = next) {
		next = LIST_NEXT(w, waiting);
		if (!w->for_index || all || e->index > w->index)
			ready(t, w);
	}
}

/* It has ended, and its fetch too, before that could be cancelled. */
static void
cancel_drop(struct cache_table *t, struct cache_entry *e)
{
	SLIST_REMOVE(&t->cancels, e, cache_entry, past);
	e->fetch_state = FETCH_NONE;
	if (e->ready == 0)
		bury(t, e);
}

void
cache_table_fetched(struct cache_table *t, struct mono now, struct cache_entry *e, const struct op_reply *reply)
{
	uint64_t before = e->index, index = reply->index > 0 ? reply->index : 1;
	bool same = false, was_valid = e->valid, too_large = reply->value.len > t->conf.bytes_max / CACHE_LARGEST;

	empty_grave(t);
	TV_ASSERT(e->fetch_state == FETCH_UNDER_WAY);
	if (e->ended) {
		cancel_drop(t, e);
		return;
	}
	e->fetch_state = FETCH_NONE;
	e->fetch = NULL;
	e->fetch_at = MONO_ZERO;
	t->stats.fetching--;
	if (e->place->probe == e)
		e->place->probe = NULL;
	if (reply->err != TV_OK || !keep_value(t, e, reply, &same)) {
		fetch_failed(t, now, e, reply->err != TV_OK ? reply : &(struct op_reply){ .err = TV_ENOMEM });
		return;
	}
	t->stats.fetched++;
	place_found(t, e->place, now);
	bool was_lost = e->lost_at.ns != 0;
	lost_set(t, e, MONO_ZERO);
	e->valid = true;
	e->index = index;
	e->known_leader = reply->known_leader;
	e->filtered = span_eqs(reply->text, OP_NOTE_FILTERED);
	e->last_contact_ms = reply->last_contact_ms;
	e->fetched_at = now;
	e->failures = 0;
	e->err = TV_OK;
	bool same_value = same;
	same = same && e->index == before;
	if (!same)
		e->version = ++t->versions;
	if (!same || was_lost)
		tell_watches(t, e);
	/*
	 * An index that went back: the state is another one.  Another value of the same index: the token may see more
	 * or less than before.  Waiters for a higher index are answered at once.
	 */
	answer_waiters(t, e, too_large || (was_valid && (index < before || (index == before && !same_value))));
	if (too_large) {
		t->stats.too_large++;
		cache_entry_end(t, e);
		return;
	}
	(void)cache_make_room(t, 0, 0, e);
	if (e->refreshed)
		e->fetch_at = mono_add(e->begun_at, PACE);
	due_set(t, e);
}

/* -- what is due, and what is to be done ------------------------------------------- */

static void
entry_due(struct cache_table *t, struct mono now, struct cache_entry *e)
{
	if (!mono_before(now, mono_add(e->used_at, t->conf.ttl))) {
		if (LIST_EMPTY(&e->waiters) && e->ready == 0) {
			t->stats.expired++;
			cache_entry_end(t, e);
			return;
		}
		e->used_at = now;	/* it has a waiter */
	}
	if (e->fetch_at.ns != 0 && !mono_before(now, e->fetch_at)) {
		if (e->place->lost_at.ns != 0 && e->place->probe != NULL && e->place->probe != e) {
			e->fetch_at = mono_add(now, mono_add(IDLE_RETRY,
			    (struct mono){ (int64_t)rng_below(&t->rng, (uint64_t)IDLE_RETRY.ns) }));
		} else {
			if (e->place->lost_at.ns != 0)
				e->place->probe = e;
			e->fetch_at = MONO_ZERO;
			fetch_want(t, e);
		}
	}
	due_set(t, e);
}

void
cache_table_tick(struct cache_table *t, struct mono now)
{
	struct deadline *d;

	empty_grave(t);
	while ((d = deadlines_first(&t->waiter_dues)) != NULL && !mono_before(now, d->when)) {
		struct cache_waiter *w = CONTAINER(d, struct cache_waiter, deadline);

		if (w->entry->valid) {
			ready(t, w);
		} else {
			deadlines_remove(&t->waiter_dues, d);	/* the first answer, or the error */
			w->for_index = false;
		}
	}
	while ((d = deadlines_first(&t->entry_dues)) != NULL && !mono_before(now, d->when))
		entry_due(t, now, CONTAINER(d, struct cache_entry, due));
}

struct mono
cache_table_due(const struct cache_table *t)
{
	const struct deadline *a = deadlines_first(&t->waiter_dues), *b = deadlines_first(&t->entry_dues);

	return mono_min(a == NULL ? MONO_NEVER : a->when, b == NULL ? MONO_NEVER : b->when);
}

bool
cache_table_next_fetch(struct cache_table *t, struct mono now, struct cache_fetch *out)
{
	struct cache_entry *e = STAILQ_FIRST(&t->wanted);

	empty_grave(t);
	if (e == NULL)
		return false;
	STAILQ_REMOVE_HEAD(&t->wanted, wanted);
	e->fetch_state = FETCH_UNDER_WAY;
	e->fetch_at = MONO_ZERO;
	e->begun_at = now;
	t->stats.fetches++;
	t->stats.fetching++;
	/* After a loss at once: a blocking query would tell of the contact only with the next change. */
	bool follow = e->refreshed && e->valid && e->lost_at.ns == 0;
	*out = (struct cache_fetch){ e, span_of(e->key, e->key_len), follow ? e->index : 0 };
	return true;
}

void
cache_table_set_fetch(struct cache_entry *e, void *fetch)
{
	e->fetch = fetch;
}

bool
cache_table_next_cancel(struct cache_table *t, void **fetch)
{
	struct cache_entry *e = SLIST_FIRST(&t->cancels);

	empty_grave(t);
	if (e == NULL)
		return false;
	SLIST_REMOVE_HEAD(&t->cancels, past);
	e->fetch_state = FETCH_NONE;
	*fetch = e->fetch;
	if (e->ready == 0)
		bury(t, e);
	return true;
}

struct cache_waiter *
cache_table_next_answer(struct cache_table *t, struct mono now, struct cache_answer *out)
{
	struct cache_waiter *w = TAILQ_FIRST(&t->ready);
	struct cache_entry *e;

	empty_grave(t);
	if (w == NULL)
		return NULL;
	e = w->entry;
	if (e->err != TV_OK && !w->stale && (!w->for_index || !e->valid)) {
		*out = (struct cache_answer){ .reply = { .err = e->err, .index = 1 } };
		out->reply.text = e->text == NULL ? SPAN_NONE : span_str(e->text);
	} else {
		answer_of(e, now, out);
		out->hit = w->stale;
	}
	ready_remove(t, w);
	return w;
}

struct cache_watch *
cache_table_next_news(struct cache_table *t, struct mono now, struct cache_answer *out)
{
	struct cache_watch *w = STAILQ_FIRST(&t->news);

	empty_grave(t);
	if (w == NULL)
		return NULL;
	STAILQ_REMOVE_HEAD(&t->news, news);
	w->queued = false;
	*out = (struct cache_answer){ .reply = { .err = TV_ECLOSED } };
	if (w->entry != NULL)
		answer_of(w->entry, now, out);
	return w;
}

struct span
cache_table_place(const struct cache_table *t, unsigned i)
{
	const struct cache_place *p;

	LIST_FOREACH(p, &t->places, link)
		if (p->refreshed > 0 && i-- == 0)
			return span_of(p->name, p->name_len);
	return SPAN_NONE;
}

/* -- the whole ------------------------------------------------------------------ */

void
cache_table_stats(const struct cache_table *t, struct cache_stats *out)
{
	*out = t->stats;
}

void
cache_table_limit(struct cache_table *t, uint64_t bytes_max, struct mono ttl)
{
	bool shorter = mono_before(ttl, t->conf.ttl);
	struct map_node *tmp;
	struct cache_entry *e;

	empty_grave(t);
	t->conf.bytes_max = bytes_max;
	t->conf.ttl = ttl;
	MAP_FOREACH(e, &t->entries, node, tmp)
		if (shorter)
			due_set(t, e);
	(void)cache_make_room(t, 0, 0, NULL);
}

void
cache_table_clear(struct cache_table *t)
{
	struct map_node *tmp;
	struct cache_entry *e;

	empty_grave(t);
	MAP_FOREACH(e, &t->entries, node, tmp)
		if (LIST_EMPTY(&e->waiters) && e->ready == 0)
			cache_entry_end(t, e);
}

struct cache_table *
cache_table_new(const struct cache_table_conf *conf)
{
	struct cache_table *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->conf = *conf;
	STAILQ_INIT(&t->wanted);
	STAILQ_INIT(&t->news);
	TAILQ_INIT(&t->ready);
	for (unsigned i = 0; i < CACHE_ACCOUNTS; i++) {
		TAILQ_INIT(&t->accounts[i].once.entries);
		TAILQ_INIT(&t->accounts[i].often.entries);
	}
	rng_seed(&t->rng, conf->seed);
	return t;
}

void
cache_table_free(struct cache_table *t)
{
	if (t == NULL)
		return;
	cache_table_clear(t);
	TV_ASSERT(t->stats.entries == 0 && SLIST_EMPTY(&t->cancels) && STAILQ_EMPTY(&t->news));
	empty_grave(t);
	deadlines_done(&t->entry_dues);
	deadlines_done(&t->waiter_dues);
	map_done(&t->entries);
	free(t);
}
