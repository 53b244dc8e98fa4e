/* Silence on a channel, see silence.h. */
#include "common/net/silence.h"

enum silence_verdict
silence_look(struct silence *s, const struct silence_conf *conf, struct mono now, uint64_t signs)
{
	bool stood_still = s->looked.ns == 0 || mono_before(mono_add(s->looked, conf->gap), now);
	struct mono lasts = mono_sub(now, s->heard);

	s->looked = now;
	if (stood_still || signs != s->signs) {
		s->signs = signs;
		s->heard = now;
		s->asked = MONO_ZERO;
		return SILENCE_FINE;
	}
	if (s->asked.ns != 0)
		return mono_before(lasts, conf->patience) || mono_sub(now, s->asked).ns < conf->patience.ns / 2 ?
		    SILENCE_FINE : SILENCE_DEAD;
	if (mono_before(lasts, conf->ask_after))
		return SILENCE_FINE;
	s->asked = now;
	return SILENCE_ASK;
}

struct mono
silence_lasts(const struct silence *s, struct mono now)
{
	return s->asked.ns == 0 ? MONO_ZERO : mono_sub(now, s->heard);
}
