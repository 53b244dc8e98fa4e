/* Limits on equal answers, see rate.h. */
#include "rpcd/dns/rate.h"

#define PER_SECOND_MAX 1000000

enum rate_verdict
rate_take(struct rate *r, uint64_t key, uint64_t per_second, int64_t now_ms)
{
	int64_t rate = per_second < PER_SECOND_MAX ? (int64_t)per_second : PER_SECOND_MAX;
	int64_t full = rate * 1000, since;
	struct rate_slot *s = &r->slots[key % RATE_SLOTS];

	if (rate == 0)
		return RATE_PASS;
	if (s->key != key)
		*s = (struct rate_slot){ key, now_ms, (int32_t)full, 0 };
	since = now_ms - s->ms;
	since = since < 0 ? 0 : since > 1000 ? 1000 : since;
	int64_t left = s->left + since * rate;
	s->ms = now_ms;
	s->left = (int32_t)(left > full ? full : left);
	if (s->left >= 1000) {
		s->left -= 1000;
		return RATE_PASS;
	}
	return ++s->limited % 2 == 0 ? RATE_SLIP : RATE_DROP;
}
