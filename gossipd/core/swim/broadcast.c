/* Transmit-limited queue; see broadcast.h. */
#include "config.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "gossipd/core/swim/broadcast.h"

struct bcast {
	struct bcast *next, *prev;	/* in the ring of its shelf; `next` also chains the messages of one packet */
	struct bcast **owner;
	const uint8_t *bytes;		/* interned */
	uint16_t len, transmits, wait;
};

/* -- shelves -------------------------------------------------------------- */

/* Where the shelf for messages of this length is, or would be. */
static uint32_t
shelf_at(const struct bround *r, size_t len)
{
	uint32_t low = 0, high = r->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (r->shelves[mid].len > len)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The round, made if need be; NULL without memory. */
static struct bround *
round_at(struct bqueue *q, uint32_t transmits)
{
	struct bround *fresh;

	if (transmits < q->round_count)
		return &q->rounds[transmits];
	fresh = realloc(q->rounds, ((size_t)transmits + 1) * sizeof(*fresh));
	if (fresh == NULL)
		return NULL;
	memset(fresh + q->round_count, 0, (transmits + 1 - q->round_count) * sizeof(*fresh));
	q->rounds = fresh;
	q->round_count = transmits + 1;
	return &fresh[transmits];
}

/* A shelf for messages of this length in that round, made if need be; NULL without memory. */
static struct bshelf *
shelf_for(struct bqueue *q, uint32_t transmits, uint32_t len)
{
	struct bround *r = round_at(q, transmits);
	uint32_t at, more;
	struct bshelf *fresh;

	if (r == NULL)
		return NULL;
	at = shelf_at(r, len);
	if (at < r->count && r->shelves[at].len == len)
		return &r->shelves[at];
	if (r->count == r->cap) {
		more = r->cap == 0 ? 4 : r->cap * 2;
		fresh = realloc(r->shelves, more * sizeof(*fresh));
		if (fresh == NULL)
			return NULL;
		r->shelves = fresh;
		r->cap = more;
	}
	memmove(&r->shelves[at + 1], &r->shelves[at], (r->count - at) * sizeof(*fresh));
	r->shelves[at] = (struct bshelf){ .len = len };
	r->count++;
	return &r->shelves[at];
}

static void
rounds_free(struct bqueue *q)
{
	for (uint32_t i = 0; i < q->round_count; i++)
		free(q->rounds[i].shelves);
	free(q->rounds);
	q->rounds = NULL;
	q->round_count = 0;
}

/* -- messages ------------------------------------------------------------- */

/* New ones come first on their shelf, those that were sent last.  False without memory. */
static bool
insert(struct bqueue *q, struct bcast *b)
{
	struct bshelf *f = shelf_for(q, b->transmits, b->len);

	if (f == NULL)
		return false;
	if (f->first == NULL) {
		f->first = b->next = b->prev = b;
	} else {
		b->next = f->first;
		b->prev = f->first->prev;
		b->prev->next = b;
		b->next->prev = b;
		if (b->transmits == 0)
			f->first = b;
	}
	q->count++;
	q->bytes += b->len;
	return true;
}

/* An emptied shelf goes at once: it would be in the way of every search. */
static void
take_out(struct bqueue *q, struct bcast *b)
{
	struct bround *r = &q->rounds[b->transmits];
	uint32_t at = shelf_at(r, b->len);
	struct bshelf *f = &r->shelves[at];

	TV_ASSERT(at < r->count && f->len == b->len);
	if (b->next == b) {
		r->count--;
		memmove(f, f + 1, (r->count - at) * sizeof(*f));
	} else {
		b->next->prev = b->prev;
		b->prev->next = b->next;
		if (f->first == b)
			f->first = b->next;
	}
	q->count--;
	q->bytes -= b->len;
}

/* b is on no shelf, and at its end. */
static void
release(struct bqueue *q, struct bcast *b)
{
	q->released |= b->wait;
	if (b->owner != NULL)
		*b->owner = NULL;
	intern_put(q->store, b->bytes);
	free(b);
}

/* The most sent; among equals the shortest, and of those the oldest. */
static void
drop_most_sent(struct bqueue *q)
{
	uint32_t i = q->round_count;
	struct bcast *b;

	while (q->rounds[i - 1].count == 0)
		i--;
	b = q->rounds[i - 1].shelves[q->rounds[i - 1].count - 1].first->prev;
	take_out(q, b);
	release(q, b);
	q->dropped++;
}

void
bqueue_init(struct bqueue *q, uint32_t count_max, struct intern *store)
{
	TV_ASSERT(count_max > 0);
	*q = (struct bqueue){ .count_max = count_max, .store = store };
}

void
bqueue_done(struct bqueue *q)
{
	for (uint32_t i = 0; i < q->round_count; i++) {
		while (q->rounds[i].count > 0) {
			struct bcast *b = q->rounds[i].shelves[q->rounds[i].count - 1].first;

			take_out(q, b);
			release(q, b);
		}
	}
	rounds_free(q);
}

enum tv_err
bqueue_put(struct bqueue *q, struct span prefix, struct span message, struct bcast **owner, unsigned wait)
{
	size_t len = prefix.len + message.len;
	struct bcast *b, *old = owner != NULL ? *owner : NULL;

	TV_ASSERT(len > 0);
	if (len > UINT16_MAX)
		return TV_ELIMIT;
	b = malloc(sizeof(*b));
	if (b == NULL)
		return TV_ENOMEM;
	*b = (struct bcast){ .bytes = intern_get(q->store, prefix, message), .len = (uint16_t)len,
		.wait = (uint16_t)wait };
	if (q->count >= q->count_max && old == NULL)
		drop_most_sent(q);
	if (b->bytes == NULL || !insert(q, b)) {
		intern_put(q->store, b->bytes);
		free(b);
		return TV_ENOMEM;
	}
	if (old != NULL) {
		take_out(q, old);
		release(q, old);
	}
	b->owner = owner;
	if (owner != NULL)
		*owner = b;
	return TV_OK;
}

void
bqueue_disown(struct bcast *b)
{
	if (b != NULL)
		b->owner = NULL;
}

/* Takes from one round what fits, into the chain *sent. */
static void
fill_from(struct bqueue *q, struct bround *r, struct bfill *fill, size_t per_message, struct bcast **sent)
{
	uint32_t i = 0;

	while (fill->count < BCAST_PARTS_MAX && fill->room > per_message) {
		struct bcast *b;

		if (i < r->count && r->shelves[i].len > fill->room - per_message)
			i = shelf_at(r, fill->room - per_message);
		if (i >= r->count)
			break;
		b = r->shelves[i].first;
		if (!bfill_add(fill, span_of(b->bytes, b->len)))
			break;
		fill->room -= b->len + per_message;
		take_out(q, b);
		b->next = *sent;
		*sent = b;
	}
}

void
bqueue_fill(struct bqueue *q, struct bfill *fill, size_t per_message, unsigned limit)
{
	struct bcast *sent = NULL, *next;

	for (uint32_t i = 0; i < q->round_count && fill->room > per_message; i++)
		if (q->rounds[i].count > 0)
			fill_from(q, &q->rounds[i], fill, per_message, &sent);
	for (; sent != NULL; sent = next) {
		next = sent->next;
		if (++sent->transmits >= limit || !insert(q, sent))
			release(q, sent);
	}
	if (q->count == 0)
		rounds_free(q);		/* a burst must not stay allocated */
}

void
bfill_init(struct bfill *f, struct arena *arena, size_t room)
{
	f->count = 0;
	f->room = room;
	f->arena = arena;
}

bool
bfill_add(struct bfill *f, struct span message)
{
	struct span copy = arena_copy(f->arena, message);

	TV_ASSERT(f->count < BCAST_PARTS_MAX);
	if (copy.p == NULL)
		return false;
	f->parts[f->count++] = copy;
	return true;
}
