/* Places for the unproven, see strangers.h.  Entries are in the order in which they came. */
#include <stddef.h>

#include "common/assert.h"
#include "common/strangers.h"

void
strangers_init(struct strangers *t, const struct strangers_conf *conf)
{
	TV_ASSERT(conf->max > 0 && conf->source_max > 0);
	*t = (struct strangers){ .conf = *conf };
}

static unsigned
count_of(const struct strangers *t, uint64_t source, bool known)
{
	unsigned n = 0;

	for (const struct stranger *s = t->oldest; s != NULL; s = s->next)
		n += s->source == source && s->known == known;
	return n;
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
	unsigned most = 0;

	for (struct stranger *s = t->oldest; s != NULL; s = s->next) {
		unsigned n = s->known == known ? count_of(t, s->source, known) : 0;

		if (n > most) {
			most = n;
			best = s;
		}
	}
	return best;
}

static struct stranger *
who_gives_way(const struct strangers *t, uint64_t source, bool known)
{
	unsigned used = known ? t->known : t->count - t->known;

	if (count_of(t, source, known) >= t->conf.source_max)
		return oldest_of(t, source, known);
	return used >= (known ? t->conf.known_max : t->conf.max) ? most_crowded(t, known) : NULL;
}

struct stranger *
strangers_come(struct strangers *t, struct stranger *s, uint64_t source, bool known)
{
	struct stranger *out;

	known = known && t->conf.known_max > 0;
	out = who_gives_way(t, source, known);
	if (out != NULL) {
		strangers_go(t, out);
		t->evicted++;
	}
	*s = (struct stranger){ .source = source, .known = known, .state = STRANGER_UNPROVEN, .prev = t->newest };
	*(t->newest != NULL ? &t->newest->next : &t->oldest) = s;
	t->newest = s;
	t->count++;
	t->known += known;
	t->came++;
	return out;
}

void
strangers_go(struct strangers *t, struct stranger *s)
{
	if (s->state != STRANGER_UNPROVEN)
		return;
	*(s->prev != NULL ? &s->prev->next : &t->oldest) = s->next;
	*(s->next != NULL ? &s->next->prev : &t->newest) = s->prev;
	s->prev = s->next = NULL;
	s->state = STRANGER_NONE;
	t->count--;
	t->known -= s->known;
}
