/*
 * The state as of one index, for readers of many records while others are written.
 *
 * A view is opened between two batches.  From then on the applying thread keeps the old value of what it changes, or that there was none,
 * in memory.  A reader looks into the tables first and at what was kept then: that is kept before the change, so what is found in
 * neither case is of a later index.  What all views keep is bounded: beyond that the next batch waits until some are closed, before it
 * has locked a page that they need.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "raftd/fsm/read/read.h"
#include "raftd/fsm/table/table.h"
#include "raftd/store/bdb/store_fetch.h"

#define KEPT_BYTES_MAX (64u << 20)
#define LEVELS 12			/* of the list: a quarter of the nodes of each is in the next one */

/* An old value, in a skip list in the order of keys. */
struct kept {
	uint32_t key_len, val_len;
	bool absent;
	uint8_t levels;
	struct kept *next[];		/* levels of them; behind them the key and the value */
};

struct fsm_view {
	struct fsm_view *next;
	const DB *db;			/* of these tables */
	struct kept *first[LEVELS];
	size_t bytes;
	uint64_t random;
};

static struct span
key_of(const struct kept *n)
{
	return span_of((const uint8_t *)&n->next[n->levels], n->key_len);
}

static struct span
val_of(const struct kept *n)
{
	return span_of((const uint8_t *)&n->next[n->levels] + n->key_len, n->val_len);
}

/* The first one that is not below the key; before: the places that point there, level by level. */
static struct kept *
seek(struct fsm_view *v, struct span key, struct kept **before[LEVELS])
{
	struct kept **at = v->first;

	for (int l = LEVELS - 1; l >= 0; l--) {
		while (at[l] != NULL && span_cmp(key_of(at[l]), key) < 0)
			at = at[l]->next;
		if (before != NULL)
			before[l] = &at[l];
	}
	return at[0];
}

/* -- by the applying thread -- */

static unsigned
levels(struct fsm_view *v)
{
	unsigned n = 1;

	v->random = v->random * 6364136223846793005u + 1442695040888963407u;
	for (uint64_t r = v->random >> 33; (r & 3) == 0 && n < LEVELS; r >>= 2)
		n++;
	return n;
}

/* views_lock held.  False: no memory. */
static bool
keep_old_value(struct fsm *f, struct fsm_view *v, struct span key, bool there, struct span old)
{
	struct kept **before[LEVELS], *n = seek(v, key, before);
	unsigned count = levels(v);
	size_t bytes = sizeof(*n) + count * sizeof(n->next[0]) + key.len + (there ? old.len : 0);

	if (n != NULL && span_eq(key_of(n), key))
		return true;
	n = malloc(bytes);
	if (n == NULL)
		return false;
	n->levels = (uint8_t)count;
	n->key_len = (uint32_t)key.len;
	n->val_len = there ? (uint32_t)old.len : 0;
	n->absent = !there;
	memcpy(&n->next[count], key.p, key.len);
	if (n->val_len > 0)
		memcpy((uint8_t *)&n->next[count] + key.len, old.p, old.len);
	for (unsigned l = 0; l < count; l++) {
		n->next[l] = *before[l];
		*before[l] = n;
	}
	v->bytes += bytes;
	f->kept_bytes += bytes;
	return true;
}

/* Is there a view that has not kept it yet? */
static bool
is_wanted(struct fsm *f, struct span key)
{
	bool wanted = false;

	pthread_mutex_lock(&f->views_lock);
	for (struct fsm_view *v = f->views; v != NULL && !wanted; v = v->next) {
		const struct kept *n = v->db == f->db ? seek(v, key, NULL) : NULL;

		wanted = v->db == f->db && (n == NULL || !span_eq(key_of(n), key));
	}
	pthread_mutex_unlock(&f->views_lock);
	return wanted;
}

void
views_save(struct fsm *f, const struct tkey *k)
{
	struct span key = span_of(k->b, k->len), old = SPAN_NONE;
	bool there, kept = true;

	if (atomic_load(&f->views_open) == 0 || !is_wanted(f, key))
		return;
	there = tbl_peek(f, k, &old);
	pthread_mutex_lock(&f->views_lock);
	for (struct fsm_view *v = f->views; v != NULL && kept; v = v->next)
		if (v->db == f->db)
			kept = keep_old_value(f, v, key, there, old);
	pthread_mutex_unlock(&f->views_lock);
	if (!kept)
		f->failed = ENOMEM;
}

void
views_wait(struct fsm *f, bool all)
{
	pthread_mutex_lock(&f->views_lock);
	f->views_shut = all;
	while (f->views != NULL && (all || f->kept_bytes > KEPT_BYTES_MAX))
		pthread_cond_wait(&f->views_left, &f->views_lock);
	pthread_mutex_unlock(&f->views_lock);
}

void
views_admit(struct fsm *f)
{
	pthread_mutex_lock(&f->views_lock);
	f->views_shut = false;
	pthread_cond_broadcast(&f->views_left);
	pthread_mutex_unlock(&f->views_lock);
}

/* -- by readers -- */

static void
wait_for_admission(struct fsm *f)
{
	pthread_mutex_lock(&f->views_lock);
	while (f->views_shut)
		pthread_cond_wait(&f->views_left, &f->views_lock);
	pthread_mutex_unlock(&f->views_lock);
}

/* The state's lock held: there is no batch under way.  False: one is about to begin that wants no views. */
static bool
join(struct fsm *f, struct fsm_view *v)
{
	bool joined;

	pthread_mutex_lock(&f->views_lock);
	joined = !f->views_shut;
	if (joined) {
		v->db = f->db;
		v->next = f->views;
		f->views = v;
		f->views_open++;
	}
	pthread_mutex_unlock(&f->views_lock);
	return joined;
}

void
view_need(struct fsm *r)
{
	struct fsm *f = r->owner;
	struct fsm_view *v;
	bool joined = false;

	if (f == NULL || r->view != NULL || r->failed != 0)
		return;
	if (r->cached) {
		r->failed = STORE_UNCACHED;	/* it would have to wait */
		return;
	}
	v = calloc(1, sizeof(*v));
	if (v == NULL) {
		r->failed = ENOMEM;
		return;
	}
	while (!joined) {
		wait_for_admission(f);
		state_lock(f);
		joined = join(f, v);
		if (joined)
			reader_renew_tables(r);	/* with the position of just now */
		pthread_mutex_unlock(&f->lock);
	}
	r->view = v;
}

void
view_close(struct fsm *r)
{
	struct fsm *f = r->owner;
	struct fsm_view *v = r->view, **at = &f->views;

	if (v == NULL)
		return;
	r->view = NULL;
	pthread_mutex_lock(&f->views_lock);
	while (*at != v)
		at = &(*at)->next;
	*at = v->next;
	f->views_open--;
	f->kept_bytes -= v->bytes;
	pthread_cond_broadcast(&f->views_left);
	pthread_mutex_unlock(&f->views_lock);
	for (struct kept *n = v->first[0], *next; n != NULL; n = next) {
		next = n->next[0];
		free(n);
	}
	free(v);
}

enum view_answer
view_peek(struct fsm *r, struct span key, struct buf *val)
{
	enum view_answer answer = VIEW_NOT_KEPT;
	const struct kept *n;

	pthread_mutex_lock(&r->owner->views_lock);
	n = seek(r->view, key, NULL);
	if (n != NULL && span_eq(key_of(n), key)) {
		answer = n->absent ? VIEW_ABSENT : VIEW_THERE;
		buf_reset(val);
		buf_putspan(val, val_of(n));
	}
	pthread_mutex_unlock(&r->owner->views_lock);
	return answer;
}

void
view_range(struct fsm *r, struct span from, const struct span *to, struct span prefix, struct buf *out)
{
	pthread_mutex_lock(&r->owner->views_lock);
	for (const struct kept *n = seek(r->view, from, NULL); n != NULL; n = n->next[0]) {
		struct span key = key_of(n), val = val_of(n);

		if (!span_starts(key, prefix) || (to != NULL && span_cmp(key, *to) > 0))
			break;
		buf_u32be(out, n->key_len);
		buf_u32be(out, n->val_len);
		buf_u8(out, n->absent);
		buf_putspan(out, key);
		buf_putspan(out, val);
	}
	pthread_mutex_unlock(&r->owner->views_lock);
}
