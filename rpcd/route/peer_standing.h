/*
 * What is known of addresses where servers are said to be: whether an rpcd there ever proved itself, and how often in
 * a row it could not be reached.  It outlives the links: who invents servers by the hundred makes a client forget
 * inventions before it forgets a server that answered.  Pure; bounded.
 */
#ifndef TV_RPCD_ROUTE_PEER_STANDING_H
#define TV_RPCD_ROUTE_PEER_STANDING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/mono.h"

enum standing {			/* better ones first */
	STANDING_OPEN,		/* proven, and a link is open: told by link_client_standing() only */
	STANDING_PROVEN,	/* proved itself once, and did not fail since */
	STANDING_UNKNOWN,	/* never asked, or its rest is over */
	STANDING_TIRED,		/* proved itself once, failed since, and is left alone for a while */
	STANDING_RESTING,	/* never proved itself, failed, and is left alone; longer with each time */
};

struct standings;

/* max: addresses that are remembered, at least 1.  NULL: no memory. */
struct standings *standings_new(unsigned max);
void standings_free(struct standings *s);
void standing_proved(struct standings *s, const char *ip, uint16_t port, struct mono now);
void standing_failed(struct standings *s, const char *ip, uint16_t port, struct mono now);
enum standing standing_of(const struct standings *s, const char *ip, uint16_t port, struct mono now);
bool standing_is_proven(const struct standings *s, const char *ip, uint16_t port);
/* The last failure; 0: none since it proved itself. */
struct mono standing_failed_at(const struct standings *s, const char *ip, uint16_t port);
unsigned standings_count(const struct standings *s);

#endif
