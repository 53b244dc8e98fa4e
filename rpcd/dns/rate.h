/*
 * Equal answers to one network, limited: a client that forges the addresses of others cannot make us flood them.  Pure.
 */
#ifndef TV_RPCD_DNS_RATE_H
#define TV_RPCD_DNS_RATE_H

#include <stdint.h>

#define RATE_SLOTS 16384	/* answers that are told apart at a time */

enum rate_verdict { RATE_PASS, RATE_DROP, RATE_SLIP };	/* SLIP: an empty one with TC; the client comes by TCP */

struct rate {
	struct rate_slot {
		uint64_t key;
		int64_t ms;		/* of the last look */
		int32_t left;		/* thousandths of answers */
		uint32_t limited;
	} slots[RATE_SLOTS];
};

/*
 * key: a keyed hash of network and answer.  per_second answers pass, and as many at once; of those beyond every second
 * one slips.  0: all pass.
 */
enum rate_verdict rate_take(struct rate *r, uint64_t key, uint64_t per_second, int64_t now_ms);

#endif
