/* Accepted connections, see crowd.h. */
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/net/crowd.h"

#define LOOKS_KEPT 1024			/* room for so many is kept when the last member has gone */

void
crowd_init(struct crowd *c, const struct crowd_conf *conf)
{
	TV_ASSERT(conf->max > 0);
	*c = (struct crowd){ .conf = *conf };
	if (conf->sources == NULL)
		c->conf.sources = &c->own;
	for (unsigned i = 0; i < CROWD_RANKS; i++)
		TAILQ_INIT(&c->ranks[i]);
}

/* -- sources -- */

static bool
tells_sources(const struct crowd *c)
{
	return c->conf.source_max > 0 || c->conf.source_streams_max > 0;
}

static struct crowd_source *
find_source(const struct crowd *c, uint64_t source, uint64_t *hash)
{
	struct crowd_source *k;

	*hash = c->conf.hash(&source, sizeof(source));
	MAP_FOREACH_HASH(k, c->conf.sources, *hash, node)
		if (k->source == source)
			break;
	return k;
}

static struct crowd_source *
add_source(struct crowd *c, uint64_t source)
{
	uint64_t hash;
	struct crowd_source *k = find_source(c, source, &hash);

	if (k != NULL || (k = calloc(1, sizeof(*k))) == NULL)
		return k;
	k->source = source;
	map_add(c->conf.sources, &k->node, hash);
	return k;
}

static void
release_source(struct crowd *c, struct crowd_source *k)
{
	if (--k->members > 0)
		return;
	map_remove(c->conf.sources, &k->node);
	free(k);
}

/* How much it has of what is scarce. */
static unsigned
weight_of(const struct crowd_source *k)
{
	return k == NULL ? 1 : k->streams > k->members ? k->streams : k->members;
}

/* -- members -- */

bool
crowd_come(struct crowd *c, struct crowd_member *m, uint64_t source)
{
	*m = (struct crowd_member){ .rank = 0 };
	if (!deadlines_reserve(&c->looks, c->count + 1u))
		return false;		/* so that a deadline never wants memory */
	if (tells_sources(c) && (m->source = add_source(c, source)) == NULL)
		return false;
	if (m->source != NULL)
		m->source->members++;
	m->here = true;
	TAILQ_INSERT_TAIL(&c->ranks[0], m, place);
	c->count++;
	return true;
}

void
crowd_leave(struct crowd *c, struct crowd_member *m)
{
	if (!m->here)
		return;
	while (m->streams > 0)
		crowd_stream_end(c, m);
	deadlines_remove(&c->looks, &m->look);
	TAILQ_REMOVE(&c->ranks[m->rank], m, place);
	if (m->source != NULL)
		release_source(c, m->source);
	m->source = NULL;
	m->here = false;
	c->count--;
	if (c->count == 0 && c->looks.cap > LOOKS_KEPT)
		deadlines_done(&c->looks);
}

void
crowd_done(struct crowd *c)
{
	struct crowd_member *m;

	for (unsigned i = 0; i < CROWD_RANKS; i++)
		while ((m = TAILQ_FIRST(&c->ranks[i])) != NULL)
			crowd_leave(c, m);
	map_done(&c->own);
	deadlines_done(&c->looks);
}

void
crowd_rank(struct crowd *c, struct crowd_member *m, unsigned rank)
{
	TV_ASSERT(m->here && rank < CROWD_RANKS);
	if (rank == CROWD_STAYS && m->rank == rank)
		return;			/* no order matters there */
	TAILQ_REMOVE(&c->ranks[m->rank], m, place);
	m->rank = (uint8_t)rank;
	TAILQ_INSERT_TAIL(&c->ranks[rank], m, place);
}

bool
crowd_stream_begin(struct crowd *c, struct crowd_member *m)
{
	unsigned max = c->conf.source_streams_max;

	TV_ASSERT(m->here);
	if (m->source != NULL && max > 0 && m->source->streams >= max)
		return false;
	if (m->source != NULL)
		m->source->streams++;
	m->streams++;
	c->streams++;
	return true;
}

void
crowd_stream_end(struct crowd *c, struct crowd_member *m)
{
	TV_ASSERT(m->here && m->streams > 0);
	if (m->source != NULL)
		m->source->streams--;
	m->streams--;
	c->streams--;
}

/* -- which one gives way -- */

bool
crowd_is_busy(const struct crowd *c)
{
	for (unsigned i = 0; i < CROWD_STAYS; i++)
		if (!TAILQ_EMPTY(&c->ranks[i]))
			return false;
	return true;
}

static bool
does_stay(const struct crowd *c, const struct crowd_member *m)
{
	return m->streams > 0 || (c->conf.stays != NULL && c->conf.stays(m));
}

/* The first that may leave: of this source (NULL: of any); `largest`: of those that have most. */
static struct crowd_member *
pick(const struct crowd *c, const struct crowd_source *only, bool largest)
{
	struct crowd_member *best = NULL, *m;
	unsigned looks = 0;

	for (unsigned i = 0; i < CROWD_STAYS; i++)
		TAILQ_FOREACH(m, &c->ranks[i], place) {
			if ((only != NULL && m->source != only) ||
			    (best != NULL && weight_of(m->source) <= weight_of(best->source)))
				continue;
			if (does_stay(c, m)) {
				if (++looks == CROWD_LOOKS_MAX)
					return best;
				continue;
			}
			best = m;
			if (!largest)
				return best;
		}
	return best;
}

/* NULL: the source has not as many members as it may. */
static const struct crowd_source *
full_source(const struct crowd *c, uint64_t source)
{
	uint64_t hash;
	const struct crowd_source *k = c->conf.source_max == 0 ? NULL : find_source(c, source, &hash);

	return k == NULL || k->members < c->conf.source_max ? NULL : k;
}

bool
crowd_admits(const struct crowd *c, uint64_t source)
{
	return full_source(c, source) == NULL;
}

struct crowd_member *
crowd_gives_way(const struct crowd *c, uint64_t source)
{
	const struct crowd_source *full = c->conf.largest ? full_source(c, source) : NULL;

	if (full != NULL)
		return pick(c, full, false);
	return crowd_is_full(c) ? crowd_spare(c) : NULL;
}

struct crowd_member *
crowd_spare(const struct crowd *c)
{
	return pick(c, NULL, c->conf.largest);
}

/* -- deadlines -- */

void
crowd_set_until(struct crowd *c, struct crowd_member *m, struct mono until)
{
	TV_ASSERT(m->here);
	m->until = until;
	if (until.ns == 0)
		return;			/* the look that was planned finds nothing */
	if (m->look.place == 0) {
		m->look.when = until;
		deadlines_add(&c->looks, &m->look);
	} else if (mono_before(until, m->look.when)) {
		deadlines_move(&c->looks, &m->look, until);
	}
}

struct crowd_member *
crowd_late(struct crowd *c, struct mono now)
{
	struct deadline *d;

	while ((d = deadlines_first(&c->looks)) != NULL && !mono_before(now, d->when)) {
		struct crowd_member *m = (void *)((char *)d - offsetof(struct crowd_member, look));

		if (mono_before(now, m->until)) {
			deadlines_move(&c->looks, d, m->until);
			continue;
		}
		deadlines_remove(&c->looks, d);
		if (m->until.ns == 0)
			continue;
		m->until = MONO_ZERO;
		return m;
	}
	return NULL;
}

struct mono
crowd_next_look(const struct crowd *c)
{
	const struct deadline *d = deadlines_first(&c->looks);

	return d == NULL ? MONO_NEVER : d->when;
}
