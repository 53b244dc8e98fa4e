/* Places for the unproven, see strangers.h.  Entries are in the order in which they came. */
#include <stddef.h>

#include "common/base/assert.h"
#include "common/net/strangers.h"

void
strangers_init(struct strangers *t, const struct strangers_conf *conf)
{
	TV_ASSERT(conf->max > 0 && conf->source_max > 0);
	*t = (struct strangers){ .conf = *conf };
}

static struct stranger *
oldest_of(const struct strangers *t, uint64_t source, bool known)
{
	struct stranger *s = t->oldest;

	while (s != NULL && (s->source != source || s->known != known))
		s = s->next;
	return s;
}

/* The oldest of the source that has most. */
static struct stranger *
most_crowded(const struct strangers *t, bool known)
{
	struct stranger *best = NULL;

	for (struct stranger *s = t->oldest; s != NULL; s = s->next)
		if (s->known == known && (best == NULL || s->alike > best->alike))
			best = s;
	return best;
}

/* One more, or one less, of this source. */
static void
count_alike(struct strangers *t, struct stranger *of, unsigned count)
{
	of->alike = count;
	for (struct stranger *s = t->oldest; s != NULL; s = s->next)
		if (s->source == of->source && s->known == of->known)
			s->alike = count;
}

static struct stranger *
who_gives_way(const struct strangers *t, uint64_t source, bool known)
{
	unsigned used = known ? t->known : t->count - t->known;
	struct stranger *mate = oldest_of(t, source, known);

	if (mate != NULL && mate->alike >= t->conf.source_max)
		return mate;
	return used >= (known ? t->conf.known_max : t->conf.max) ? most_crowded(t, known) : NULL;
}

struct stranger *
strangers_come(struct strangers *t, struct stranger *s, uint64_t source, bool known)
{
	struct stranger *out, *mate;

	known = known && t->conf.known_max > 0;
	out = who_gives_way(t, source, known);
	if (out != NULL) {
		strangers_go(t, out);
		t->evicted++;
	}
	mate = oldest_of(t, source, known);
	*s = (struct stranger){ .source = source, .known = known, .here = true, .prev = t->newest };
	*(t->newest != NULL ? &t->newest->next : &t->oldest) = s;
	t->newest = s;
	count_alike(t, s, mate == NULL ? 1 : mate->alike + 1);
	t->count++;
	t->known += known;
	t->came++;
	return out;
}

void
strangers_go(struct strangers *t, struct stranger *s)
{
	if (!s->here)
		return;
	*(s->prev != NULL ? &s->prev->next : &t->oldest) = s->next;
	*(s->next != NULL ? &s->next->prev : &t->newest) = s->prev;
	s->prev = s->next = NULL;
	count_alike(t, s, s->alike - 1);
	s->here = false;
	t->count--;
	t->known -= s->known;
}
