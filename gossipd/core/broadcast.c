/* Transmit-limited queue; see broadcast.h. */
#include "config.h"

#include <stdlib.h>

#include "common/assert.h"
#include "gossipd/core/broadcast.h"

struct bcast {
	struct bcast *left, *right;	/* `left` also chains the messages of one packet */
	struct bcast **owner;
	uint64_t id;
	uint32_t heat;			/* treap priority */
	uint32_t transmits;
	uint16_t len;
	uint16_t wait;
	uint8_t bytes[];
};

struct bkey {
	uint32_t transmits;
	uint64_t len, id;
};

static struct bkey
key_of(const struct bcast *b)
{
	return (struct bkey){ b->transmits, b->len, b->id };
}

/* Does a come before b?  Keys are unique by id. */
static bool
key_before(struct bkey a, struct bkey b)
{
	if (a.transmits != b.transmits)
		return a.transmits < b.transmits;
	if (a.len != b.len)
		return a.len > b.len;
	return a.id > b.id;
}

/* Splits t into what comes before `key` and the rest. */
static void
split(struct bcast *t, struct bkey key, struct bcast **before, struct bcast **rest)
{
	if (t == NULL) {
		*before = *rest = NULL;
	} else if (key_before(key_of(t), key)) {
		split(t->right, key, &t->right, rest);
		*before = t;
	} else {
		split(t->left, key, before, &t->left);
		*rest = t;
	}
}

/* All of a comes before all of b. */
static struct bcast *
join(struct bcast *a, struct bcast *b)
{
	if (a == NULL || b == NULL)
		return a != NULL ? a : b;
	if (a->heat > b->heat) {
		a->right = join(a->right, b);
		return a;
	}
	b->left = join(a, b->left);
	return b;
}

static void
insert(struct bqueue *q, struct bcast *b)
{
	struct bcast **at = &q->root;

	while (*at != NULL && (*at)->heat >= b->heat)
		at = key_before(key_of(b), key_of(*at)) ? &(*at)->left : &(*at)->right;
	split(*at, key_of(b), &b->left, &b->right);
	*at = b;
	q->count++;
	q->bytes += b->len;
}

static void
take_out(struct bqueue *q, struct bcast *b)
{
	struct bcast **at = &q->root;

	while (*at != b) {
		TV_ASSERT(*at != NULL);
		at = key_before(key_of(b), key_of(*at)) ? &(*at)->left : &(*at)->right;
	}
	*at = join(b->left, b->right);
	q->count--;
	q->bytes -= b->len;
}

/* First message at or after `key`, or NULL. */
static struct bcast *
first_from(struct bcast *t, struct bkey key)
{
	struct bcast *best = NULL;

	while (t != NULL) {
		if (key_before(key_of(t), key)) {
			t = t->right;
		} else {
			best = t;
			t = t->left;
		}
	}
	return best;
}

/* b is out of the tree and at its end. */
static void
release(struct bqueue *q, struct bcast *b)
{
	q->released |= b->wait;
	if (b->owner != NULL)
		*b->owner = NULL;
	free(b);
}

static void
drop_most_sent(struct bqueue *q)
{
	struct bcast *b = q->root;

	while (b->right != NULL)
		b = b->right;
	take_out(q, b);
	release(q, b);
	q->dropped++;
}

void
bqueue_init(struct bqueue *q, uint32_t count_max, uint64_t seed)
{
	TV_ASSERT(count_max > 0);
	*q = (struct bqueue){ .count_max = count_max };
	rng_seed(&q->rng, seed);
}

void
bqueue_done(struct bqueue *q)
{
	while (q->root != NULL) {
		struct bcast *b = q->root;

		take_out(q, b);
		release(q, b);
	}
}

enum tv_err
bqueue_put(struct bqueue *q, struct span prefix, struct span message, struct bcast **owner, unsigned wait)
{
	size_t len = prefix.len + message.len;
	struct bcast *b;

	TV_ASSERT(len > 0);
	if (len > UINT16_MAX)
		return TV_ELIMIT;
	b = malloc(sizeof(*b) + len);
	if (b == NULL)
		return TV_ENOMEM;
	if (owner != NULL && *owner != NULL) {
		struct bcast *old = *owner;

		take_out(q, old);
		release(q, old);
	}
	*b = (struct bcast){ .owner = owner, .id = q->next_id++, .heat = (uint32_t)rng_u64(&q->rng),
		.len = (uint16_t)len, .wait = (uint16_t)wait };
	if (prefix.len > 0)
		memcpy(b->bytes, prefix.p, prefix.len);
	if (message.len > 0)
		memcpy(b->bytes + prefix.len, message.p, message.len);
	if (q->count >= q->count_max)
		drop_most_sent(q);
	insert(q, b);
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

void
bqueue_fill(struct bqueue *q, struct bfill *fill, size_t per_message, unsigned limit)
{
	struct bcast *sent = NULL;
	uint32_t round = 0;

	while (fill->count < BCAST_PARTS_MAX && fill->room > per_message) {
		struct bcast *b = first_from(q->root, (struct bkey){ round, fill->room - per_message, UINT64_MAX });

		if (b == NULL)
			break;
		if (b->transmits > round) {	/* nothing that fits in this round: the next one there is */
			round = b->transmits;
			if (b->len + per_message > fill->room)
				continue;
		}
		if (!bfill_add(fill, span_of(b->bytes, b->len)))
			break;
		take_out(q, b);
		fill->room -= b->len + per_message;
		if (++b->transmits >= limit) {
			release(q, b);
		} else {
			b->left = sent;
			sent = b;
		}
	}
	while (sent != NULL) {
		struct bcast *b = sent;

		sent = b->left;
		insert(q, b);
	}
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
