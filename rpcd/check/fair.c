/* Places that many owners share, see fair.h. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/fnv.h"
#include "common/base/map.h"
#include "rpcd/check/fair.h"

STAILQ_HEAD(fair_queue, fair_item);

struct fair_share {			/* of one owner, in one class */
	TAILQ_ENTRY(fair_share) ready;	/* in the ring, when it waits and may have a place */
	struct fair_owner *owner;
	struct fair_queue queue;
	unsigned placed;
	bool in_ring;
};

struct fair_owner {
	struct map_node node;
	struct fair_share share[FAIR_CLASSES];
	unsigned items;
	size_t len;
	uint8_t name[];
};

TAILQ_HEAD(fair_ring, fair_share);

struct fair {
	struct fair_conf conf;
	struct map owners;
	struct fair_ring rings[FAIR_CLASSES];
	TAILQ_HEAD(, fair_item) waiting;
	unsigned placed[FAIR_CLASSES];
	unsigned placed_count, waiting_count;
	enum fair_class turn;		/* the class that is looked at first */
};

struct fair *
fair_new(const struct fair_conf *conf)
{
	struct fair *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return NULL;
	TAILQ_INIT(&f->waiting);
	for (int c = 0; c < FAIR_CLASSES; c++)
		TAILQ_INIT(&f->rings[c]);
	fair_limits(f, conf);
	return f;
}

void
fair_free(struct fair *f)
{
	struct map_node *tmp;
	struct fair_owner *o;

	if (f == NULL)
		return;
	MAP_FOREACH(o, &f->owners, node, tmp)
		free(o);
	map_done(&f->owners);
	free(f);
}

/* -- owners -- */

static struct fair_owner *
find_owner(const struct fair *f, struct span name)
{
	struct fair_owner *o;

	MAP_FOREACH_HASH(o, &f->owners, fnv1a(FNV1A_START, name), node)
		if (span_eq(span_of(o->name, o->len), name))
			return o;
	return NULL;
}

static struct fair_owner *
owner_of(struct fair *f, struct span name)
{
	struct fair_owner *o = find_owner(f, name);

	if (o != NULL || (o = calloc(1, sizeof(*o) + name.len)) == NULL)
		return o;
	o->len = name.len;
	if (name.len > 0)
		memcpy(o->name, name.p, name.len);
	for (int c = 0; c < FAIR_CLASSES; c++) {
		o->share[c].owner = o;
		STAILQ_INIT(&o->share[c].queue);
	}
	map_add(&f->owners, &o->node, fnv1a(FNV1A_START, name));
	return o;
}

/* Puts a share where it belongs: in the ring while it waits for what it may have. */
static void
settle(struct fair *f, struct fair_owner *o, enum fair_class class)
{
	struct fair_share *s = &o->share[class];
	bool ready = !STAILQ_EMPTY(&s->queue) && s->placed < f->conf.class[class].of_one;

	if (ready && !s->in_ring)
		TAILQ_INSERT_TAIL(&f->rings[class], s, ready);
	else if (!ready && s->in_ring)
		TAILQ_REMOVE(&f->rings[class], s, ready);
	s->in_ring = ready;
}

void
fair_limits(struct fair *f, const struct fair_conf *conf)
{
	struct map_node *tmp;
	struct fair_owner *o;

	f->conf = *conf;
	f->conf.places += conf->places == 0;
	for (int c = 0; c < FAIR_CLASSES; c++) {
		f->conf.class[c].places += conf->class[c].places == 0;
		f->conf.class[c].of_one += conf->class[c].of_one == 0;
	}
	MAP_FOREACH(o, &f->owners, node, tmp)
		for (int c = 0; c < FAIR_CLASSES; c++)
			settle(f, o, (enum fair_class)c);
}

/* -- items -- */

enum tv_err
fair_add(struct fair *f, struct fair_item *it, struct span owner, enum fair_class class, struct mono now)
{
	struct fair_owner *o = owner_of(f, owner);

	TV_ASSERT(it->owner == NULL);
	if (o == NULL)
		return TV_ENOMEM;
	it->owner = o;
	it->class = class;
	it->placed = false;
	it->since = now;
	o->items++;
	STAILQ_INSERT_TAIL(&o->share[class].queue, it, turn);
	TAILQ_INSERT_TAIL(&f->waiting, it, arrival);
	f->waiting_count++;
	settle(f, o, class);
	return TV_OK;
}

static void
leave_queue(struct fair *f, struct fair_item *it)
{
	STAILQ_REMOVE(&it->owner->share[it->class].queue, it, fair_item, turn);
	TAILQ_REMOVE(&f->waiting, it, arrival);
	f->waiting_count--;
}

static struct fair_item *
place(struct fair *f, enum fair_class class, struct mono now)
{
	struct fair_share *s = TAILQ_FIRST(&f->rings[class]);
	struct fair_item *it;

	if (s == NULL || f->placed[class] >= f->conf.class[class].places)
		return NULL;
	it = STAILQ_FIRST(&s->queue);
	leave_queue(f, it);
	it->placed = true;
	it->since = now;
	s->placed++;
	f->placed[class]++;
	f->placed_count++;
	TAILQ_REMOVE(&f->rings[class], s, ready);	/* the others' turn comes first */
	s->in_ring = false;
	settle(f, s->owner, class);
	return it;
}

struct fair_item *
fair_next(struct fair *f, struct mono now)
{
	struct fair_item *it = NULL;

	for (int i = 0; i < FAIR_CLASSES && it == NULL && f->placed_count < f->conf.places; i++) {
		enum fair_class class = f->turn;

		f->turn = (f->turn + 1) % FAIR_CLASSES;
		it = place(f, class, now);
	}
	return it;
}

void
fair_remove(struct fair *f, struct fair_item *it)
{
	struct fair_owner *o = it->owner;

	if (o == NULL)
		return;
	if (it->placed) {
		o->share[it->class].placed--;
		f->placed[it->class]--;
		f->placed_count--;
	} else {
		leave_queue(f, it);
	}
	settle(f, o, it->class);
	it->owner = NULL;
	it->placed = false;
	if (--o->items > 0)
		return;
	map_remove(&f->owners, &o->node);
	free(o);
}

/* -- figures -- */

struct fair_item *
fair_first(const struct fair *f)
{
	return TAILQ_FIRST(&f->waiting);
}

struct fair_item *
fair_behind(const struct fair_item *it)
{
	return TAILQ_NEXT(it, arrival);
}

unsigned
fair_waiting(const struct fair *f)
{
	return f->waiting_count;
}

bool
fair_owner_waits(struct fair *f, struct span owner)
{
	const struct fair_owner *o = find_owner(f, owner);

	for (int c = 0; c < FAIR_CLASSES && o != NULL; c++)
		if (!STAILQ_EMPTY(&o->share[c].queue))
			return true;
	return false;
}

unsigned
fair_placed(const struct fair *f)
{
	return f->placed_count;
}

unsigned
fair_greatest(const struct fair *f, struct span *owner)
{
	const struct fair_owner *o;
	struct map_node *tmp;
	unsigned most = 0;

	*owner = SPAN_NONE;
	MAP_FOREACH(o, &f->owners, node, tmp) {
		unsigned n = 0;

		for (int c = 0; c < FAIR_CLASSES; c++)
			n += o->share[c].placed;
		if (n > most) {
			most = n;
			*owner = span_of(o->name, o->len);
		}
	}
	return most;
}
