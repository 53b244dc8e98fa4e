/* Places for the unproven, see strangers.h. */
#include "common/base/assert.h"
#include "common/net/source.h"
#include "common/net/strangers.h"

void
strangers_init(struct strangers *t, const struct strangers_conf *conf)
{
	struct crowd_conf places = { .max = conf->max, .source_max = conf->source_max, .largest = true,
	    .hash = keyed_hash };

	TV_ASSERT(conf->max > 0 && conf->source_max > 0);
	*t = (struct strangers){ .count = 0 };
	crowd_init(&t->crowds[false], &places);
	if ((places.max = conf->known_max) > 0)
		crowd_init(&t->crowds[true], &places);
}

void
strangers_done(struct strangers *t)
{
	crowd_done(&t->crowds[false]);
	crowd_done(&t->crowds[true]);
}

struct stranger *
strangers_come(struct strangers *t, struct stranger *s, uint64_t source, bool known)
{
	struct crowd *c = &t->crowds[known && t->crowds[true].conf.max > 0];
	struct stranger *out = (struct stranger *)(void *)crowd_gives_way(c, source);

	*s = (struct stranger){ .source = source, .known = c == &t->crowds[true] };
	t->came++;
	if (!crowd_come(c, &s->place, source))
		return NULL;
	t->count++;
	if (out != NULL) {
		strangers_go(t, out);
		t->evicted++;
	}
	return out;
}

void
strangers_go(struct strangers *t, struct stranger *s)
{
	t->count -= s->place.here;
	crowd_leave(&t->crowds[s->known], &s->place);
}
