/* What is known of addresses, see peer_standing.h.  A hash table, and the order in which entries were changed last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/base/assert.h"
#include "common/base/map.h"
#include "common/net/source.h"
#include "rpcd/route/peer_standing.h"

/* The first rest, and the longest: of a server that proved itself it is a restart that takes some seconds. */
#define REST_PROVEN MONO_MS(250)
#define REST_PROVEN_MAX MONO_S(5)
#define REST_UNKNOWN MONO_S(2)
#define REST_UNKNOWN_MAX MONO_S(300)

struct address {
	struct map_node node;
	TAILQ_ENTRY(address) order;	/* among those that are proven, or among those that are not */
	char ip[46];
	uint16_t port;
	bool proven;
	unsigned failures;		/* in a row */
	struct mono failed_at, rest_until;
};

struct standings {
	struct map addresses;
	TAILQ_HEAD(, address) order[2];	/* by `proven`; the first was changed longest ago */
	unsigned max;
};

struct standings *
standings_new(unsigned max)
{
	struct standings *s = calloc(1, sizeof(*s));

	TV_ASSERT(max > 0);
	if (s == NULL)
		return NULL;
	TAILQ_INIT(&s->order[0]);
	TAILQ_INIT(&s->order[1]);
	s->max = max;
	return s;
}

void
standings_free(struct standings *s)
{
	struct map_node *tmp;
	struct address *a;

	if (s == NULL)
		return;
	MAP_FOREACH(a, &s->addresses, node, tmp)
		free(a);
	map_done(&s->addresses);
	free(s);
}

static uint64_t
hash_of(const char *ip, uint16_t port)
{
	char text[64];
	int len = snprintf(text, sizeof(text), "%s %u", ip, port);

	return keyed_hash(text, (size_t)len);
}

static struct address *
find_standing(const struct standings *s, const char *ip, uint16_t port)
{
	struct address *a;

	MAP_FOREACH_HASH(a, &s->addresses, hash_of(ip, port), node)
		if (a->port == port && strcmp(a->ip, ip) == 0)
			return a;
	return NULL;
}

static void
forget_oldest(struct standings *s)
{
	struct address *a = TAILQ_FIRST(&s->order[TAILQ_EMPTY(&s->order[false])]);

	map_remove(&s->addresses, &a->node);
	TAILQ_REMOVE(&s->order[a->proven], a, order);
	free(a);
}

/* The entry, out of the order; NULL: no memory, and it will be as if nothing had happened. */
static struct address *
take_entry(struct standings *s, const char *ip, uint16_t port)
{
	struct address *a = find_standing(s, ip, port);

	if (a != NULL) {
		TAILQ_REMOVE(&s->order[a->proven], a, order);
		return a;
	}
	if (s->addresses.count == s->max)
		forget_oldest(s);
	a = calloc(1, sizeof(*a));
	if (a == NULL)
		return NULL;
	snprintf(a->ip, sizeof(a->ip), "%s", ip);
	a->port = port;
	map_add(&s->addresses, &a->node, hash_of(ip, port));
	return a;
}

void
standing_proved(struct standings *s, const char *ip, uint16_t port, struct mono now UNUSED)
{
	struct address *a = take_entry(s, ip, port);

	if (a == NULL)
		return;
	a->proven = true;
	a->failures = 0;
	a->failed_at = a->rest_until = MONO_ZERO;
	TAILQ_INSERT_TAIL(&s->order[a->proven], a, order);
}

void
standing_failed(struct standings *s, const char *ip, uint16_t port, struct mono now)
{
	struct address *a = take_entry(s, ip, port);
	struct mono rest, most;

	if (a == NULL)
		return;
	rest = a->proven ? REST_PROVEN : REST_UNKNOWN;
	most = a->proven ? REST_PROVEN_MAX : REST_UNKNOWN_MAX;
	for (unsigned i = 0; i < a->failures && mono_before(rest, most); i++)
		rest = mono_mul(rest, 2);
	a->failures++;
	a->failed_at = now;
	a->rest_until = mono_add(now, mono_min(rest, most));
	TAILQ_INSERT_TAIL(&s->order[a->proven], a, order);
}

enum standing
standing_of(const struct standings *s, const char *ip, uint16_t port, struct mono now)
{
	const struct address *a = find_standing(s, ip, port);

	if (a == NULL)
		return STANDING_UNKNOWN;
	if (a->failures > 0 && mono_before(now, a->rest_until))
		return a->proven ? STANDING_TIRED : STANDING_RESTING;
	return a->proven ? STANDING_PROVEN : STANDING_UNKNOWN;
}

bool
standing_is_proven(const struct standings *s, const char *ip, uint16_t port)
{
	const struct address *a = find_standing(s, ip, port);

	return a != NULL && a->proven;
}

struct mono
standing_failed_at(const struct standings *s, const char *ip, uint16_t port)
{
	const struct address *a = find_standing(s, ip, port);

	return a == NULL ? MONO_ZERO : a->failed_at;
}

unsigned
standings_count(const struct standings *s)
{
	return (unsigned)s->addresses.count;
}
