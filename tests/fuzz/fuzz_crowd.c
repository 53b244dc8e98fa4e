/*
 * The life of a crowd: the input is its bounds and a list of steps of two bytes, what and with which member.  A plain model, without
 * queues, maps and heaps, says after each step who is there, what each source has, who would give way, and who is late.
 */
#include <string.h>

#include "common/base/assert.h"
#include "common/net/crowd.h"

#define MEMBERS 32u
#define SOURCES 8u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct model {
	bool here, stays;		/* stays: says so when it is asked */
	unsigned rank, streams, source;
	uint64_t moved;			/* when it came to the end of its queue */
	int64_t until;			/* 0: no deadline */
};

struct life {
	struct crowd crowds[2];		/* share their budgets */
	struct map sources;
	struct crowd_member members[MEMBERS];
	struct model models[MEMBERS];	/* the lower half belongs to the first crowd */
	uint64_t moves;
	int64_t now;
};

static struct life *life;

static uint64_t
hash_of(const void *bytes, size_t n)
{
	uint64_t v;

	TV_ASSERT(n == sizeof(v));
	memcpy(&v, bytes, n);
	return v & 1;
}

static bool
stays(const struct crowd_member *m)
{
	return life->models[m - life->members].stays;
}

/* Of a source, in both crowds. */
static unsigned
members_of(unsigned source, bool streams)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MEMBERS; i++)
		if (life->models[i].here && life->models[i].source == source)
			n += streams ? life->models[i].streams : 1;
	return n;
}

static unsigned
count_of(unsigned crowd)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MEMBERS; i++)
		n += life->models[i].here && i / (MEMBERS / 2) == crowd;
	return n;
}

static unsigned
weight_of(const struct crowd_conf *conf, unsigned source)
{
	unsigned members = members_of(source, false), streams = members_of(source, true);

	return conf->source_max == 0 && conf->source_streams_max == 0 ? 1 : streams > members ? streams : members;
}

static bool
is_before(const struct model *a, const struct model *b)
{
	return a->rank != b->rank ? a->rank < b->rank : a->moved < b->moved;
}

/* source: SOURCES for any. */
static struct crowd_member *
who_leaves(unsigned crowd, unsigned source, bool largest)
{
	const struct crowd_conf *conf = &life->crowds[crowd].conf;
	struct model *best = NULL;

	for (unsigned i = crowd * (MEMBERS / 2); i < (crowd + 1) * (MEMBERS / 2); i++) {
		struct model *m = &life->models[i];
		unsigned mine = weight_of(conf, m->source), its = best == NULL ? 0 : weight_of(conf, best->source);

		if (!m->here || m->rank == CROWD_STAYS || m->streams > 0 || m->stays || (source < SOURCES && m->source != source))
			continue;
		if (best == NULL || (largest && mine > its) || ((!largest || mine == its) && is_before(m, best)))
			best = m;
	}
	return best == NULL ? NULL : &life->members[best - life->models];
}

static void
check_all(void)
{
	for (unsigned k = 0; k < 2; k++) {
		struct crowd *c = &life->crowds[k];
		unsigned streams = 0;
		bool busy = true;

		for (unsigned i = k * (MEMBERS / 2); i < (k + 1) * (MEMBERS / 2); i++) {
			const struct model *m = &life->models[i];
			const struct crowd_member *is = &life->members[i];

			TV_ASSERT(is->here == m->here);
			if (!m->here)
				continue;
			TV_ASSERT(is->rank == m->rank && is->streams == m->streams && is->until.ns == m->until);
			TV_ASSERT(is->source == NULL || (is->source->source == m->source &&
			    is->source->members == members_of(m->source, false) && is->source->streams == members_of(m->source, true)));
			streams += m->streams;
			busy = busy && m->rank == CROWD_STAYS;
			TV_ASSERT(m->until == 0 || crowd_next_look(c).ns <= m->until);
		}
		TV_ASSERT(c->count == count_of(k) && c->streams == streams && crowd_is_busy(c) == busy);
		TV_ASSERT(crowd_is_full(c) == (c->count >= c->conf.max));
		TV_ASSERT(crowd_spare(c) == who_leaves(k, SOURCES, c->conf.largest));
		for (unsigned s = 0; s < SOURCES; s++) {
			unsigned max = c->conf.source_max;
			bool admits = max == 0 || members_of(s, false) < max;

			TV_ASSERT(crowd_admits(c, s) == admits);
			TV_ASSERT(crowd_gives_way(c, s) == (c->conf.largest && !admits ? who_leaves(k, s, false) :
			    c->count < c->conf.max ? NULL : crowd_spare(c)));
		}
	}
}

static void
come(struct crowd *c, unsigned i, unsigned source)
{
	TV_ASSERT(crowd_come(c, &life->members[i], source));
	life->models[i] = (struct model){ .here = true, .source = source, .moved = ++life->moves };
}

static void
pass_time(struct crowd *c, unsigned k, unsigned n)
{
	struct crowd_member *late;

	life->now += n;
	while ((late = crowd_late(c, (struct mono){ life->now })) != NULL) {
		struct model *m = &life->models[late - life->members];

		TV_ASSERT(m->here && m->until > 0 && m->until <= life->now);
		m->until = 0;
	}
	for (unsigned i = k * (MEMBERS / 2); i < (k + 1) * (MEMBERS / 2); i++)
		TV_ASSERT(!life->models[i].here || life->models[i].until == 0 || life->models[i].until > life->now);
	TV_ASSERT(crowd_next_look(c).ns > life->now);
}

static void
step(unsigned what, unsigned arg)
{
	unsigned i = arg % MEMBERS, k = i / (MEMBERS / 2), n = arg / MEMBERS;
	struct crowd *c = &life->crowds[k];
	struct model *m = &life->models[i];
	struct crowd_member *is = &life->members[i];

	if (what % 8 == 7) {
		pass_time(c, k, what / 8);
	} else if (what % 8 == 1) {
		crowd_leave(c, is);
		m->here = false;
	} else if (!m->here) {
		come(c, i, (what / 8) % SOURCES);
	} else if (what % 8 == 2) {
		crowd_rank(c, is, n % CROWD_RANKS);
		m->rank = n % CROWD_RANKS;
		m->moved = ++life->moves;
	} else if (what % 8 == 3) {
		unsigned max = c->conf.source_streams_max;
		bool may = max == 0 || members_of(m->source, true) < max;

		TV_ASSERT(crowd_stream_begin(c, is) == may);
		m->streams += may;
	} else if (what % 8 == 4 && m->streams > 0) {
		crowd_stream_end(c, is);
		m->streams--;
	} else if (what % 8 == 5) {
		m->until = n == 0 ? 0 : life->now + 1 + (what / 8) * n;
		crowd_set_until(c, is, (struct mono){ m->until });
	} else if (what % 8 == 6) {
		m->stays = !m->stays;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct life l = { .now = 1 };

	if (size < 5 || size > 2048)
		return 0;
	life = &l;
	for (unsigned k = 0; k < 2; k++)
		crowd_init(&l.crowds[k], &(struct crowd_conf){ .max = 1 + data[1] % MEMBERS, .source_max = data[2] % 8,
		    .source_streams_max = data[3] % 16, .largest = (data[0] & 1) != 0, .stays = (data[0] & 2) != 0 ? stays : NULL,
		    .hash = hash_of, .sources = &l.sources });
	for (size_t at = 4; at + 1 < size; at += 2) {
		step((data[0] & 2) == 0 && data[at] % 8 == 6 ? 0 : data[at], data[at + 1]);
		check_all();
	}
	for (unsigned k = 0; k < 2; k++)
		crowd_done(&l.crowds[k]);
	TV_ASSERT(l.sources.count == 0);
	map_done(&l.sources);
	return 0;
}
