/* Denials in the audit trail, see denials.h. */
#include <string.h>

#include "rpcd/audit/denials.h"

#define PLACES (DENIALS_PARTIES_MAX * 2)

bool
denials_take(struct denials *d, uint64_t party, struct mono now)
{
	unsigned at = (unsigned)(party % PLACES);

	if (d->taken == 0 || !mono_before(mono_sub(now, d->second), MONO_S(1))) {
		memset(d, 0, sizeof(*d));
		d->second = now;
	}
	while (d->party[at].lines > 0 && d->party[at].key != party)
		at = (at + 1) % PLACES;
	if (d->party[at].lines == 0) {
		if (d->parties == DENIALS_PARTIES_MAX)
			return false;
		d->parties++;
		d->party[at].key = party;
	}
	if (d->party[at].lines > 0 && (d->party[at].lines >= DENIALS_OF_ONE || d->taken >= DENIALS_OF_ALL))
		return false;
	d->party[at].lines++;
	d->taken++;
	return true;
}
