/* Thresholds, see verdict.h. */
#include "rpcd/check/verdict.h"

static const char *const names[] = {
	[HEALTH_PASSING] = "passing", [HEALTH_WARNING] = "warning", [HEALTH_CRITICAL] = "critical",
};

const char *
health_name(enum health h)
{
	return names[h];
}

enum health
health_of(struct span name)
{
	return span_eqs(name, "passing") ? HEALTH_PASSING : span_eqs(name, "warning") ? HEALTH_WARNING :
	    HEALTH_CRITICAL;
}

void
verdict_init(struct verdict *v, uint64_t passing_after, uint64_t warning_after, uint64_t critical_after,
    bool known, enum health status)
{
	*v = (struct verdict){ .passing_after = passing_after, .critical_after = critical_after,
	    .warning_after = warning_after > 0 ? warning_after : critical_after };
	/* As if the results that led here were there: another one of the kind takes effect at once. */
	if (!known || status != HEALTH_CRITICAL)
		v->successes = passing_after;
	if (!known || status == HEALTH_CRITICAL)
		v->failures = critical_after;
}

static void
count(uint64_t *n)
{
	*n += *n < UINT64_MAX;
}

bool
verdict_take(struct verdict *v, enum health result, bool firm, enum health *effect)
{
	*effect = result;
	if (result != HEALTH_CRITICAL) {
		count(&v->successes);
		v->failures = 0;
		return firm || v->successes >= v->passing_after;
	}
	count(&v->failures);
	v->successes = 0;
	if (firm)
		v->failures = v->failures > v->critical_after ? v->failures : v->critical_after;
	if (v->failures >= v->critical_after)
		return true;
	*effect = HEALTH_WARNING;
	return v->failures >= v->warning_after;
}
