/* What is known of host names, see names.h. */
#include "rpcd/check/names.h"

enum fair_class
name_class(const struct name *n)
{
	return !n->known ? FAIR_NEW : n->slow ? FAIR_SLOW : FAIR_QUICK;
}

bool
name_fresh(const struct name *n, struct mono now)
{
	return n->known && mono_before(now, n->until);
}

static bool
old_serves(const struct name *n, struct mono now)
{
	return n->has_old && mono_before(now, mono_add(n->found_at, NAME_OLD_MAX));
}

bool
name_serves(const struct name *n, struct mono now, const struct addresses **found, const char **why)
{
	*found = NULL;
	*why = NULL;
	if (!n->known)
		return false;
	if (n->last.outcome == NAME_FOUND)
		*found = &n->last.found;
	else if (n->last.outcome == NAME_NO_ANSWER && old_serves(n, now))
		*found = &n->old;
	else
		*why = n->last.why;
	if (name_fresh(n, now) || *found == &n->old)
		return true;
	/* Not fresh: addresses for some minutes, a silence until it should have been asked for again. */
	if (n->last.outcome == NAME_FOUND)
		return mono_before(now, mono_add(n->found_at, NAME_OLD_MAX));
	return n->slow && mono_before(now, mono_add(n->until, NAME_PAUSE_MAX));
}

static void
keep_old(struct name *n)
{
	if (n->known && n->last.outcome == NAME_FOUND) {
		n->old = n->last.found;
		n->has_old = true;
	}
}

void
name_learn(struct name *n, const struct name_answer *a, struct mono begun, struct mono now)
{
	n->slow = mono_before(NAME_SLOW, mono_sub(now, begun));
	if (a->outcome == NAME_NO_ANSWER)
		keep_old(n);
	else
		n->has_old = false;
	if (a->outcome == NAME_FOUND)
		n->found_at = now;
	if (a->outcome == NAME_NO_ANSWER && n->slow)
		n->pause = mono_min(n->pause.ns == 0 ? NAME_FRESH : mono_mul(n->pause, 2), NAME_PAUSE_MAX);
	else
		n->pause = MONO_ZERO;
	n->last = *a;
	n->known = true;
	n->answered = now;
	n->until = mono_add(now, a->outcome == NAME_FOUND ? NAME_FRESH : n->pause.ns > 0 ? n->pause : NAME_ABSENT);
}

bool
name_forgettable(const struct name *n, struct mono now)
{
	return !n->known || !mono_before(now, mono_add(n->answered, NAME_OLD_MAX));
}
