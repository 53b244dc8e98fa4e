/*
 * Health score of Lifeguard: how much we trust our own view.  While it is above 0 we
 * probe more slowly, so that a starved node accuses its peers less.
 */
#include "config.h"

#include "gossipd/core/state.h"

void
local_health_add(struct swim *s, int delta)
{
	int health = s->opt.without & SWIM_WITHOUT_AWARENESS ? 0 : (int)s->health + delta;

	if (health < 0)
		health = 0;
	if (health > SWIM_HEALTH_MAX - 1)
		health = SWIM_HEALTH_MAX - 1;
	s->health = (unsigned)health;
}

struct mono
local_health_scale(const struct swim *s, struct mono interval)
{
	return mono_mul(interval, (int64_t)s->health + 1);
}
