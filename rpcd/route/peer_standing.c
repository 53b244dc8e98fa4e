/* What is known of addresses, see peer_standing.h.  A hash table, and the order in which entries were changed last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/net/source.h"
#include "rpcd/route/peer_standing.h"

#define BUCKETS 1024
/* The first rest, and the longest: of a server that proved itself it is a restart that takes some seconds. */
#define REST_PROVEN MONO_MS(250)
#define REST_PROVEN_MAX MONO_S(5)
#define REST_UNKNOWN MONO_S(2)
#define REST_UNKNOWN_MAX MONO_S(300)

struct address {
	struct address *next;		/* bucket */
	struct address *older, *newer;	/* among those that are proven, or among those that are not */
	char ip[46];
	uint16_t port;
	bool proven;
	unsigned failures;		/* in a row */
	struct mono failed_at, rest_until;
};

struct order {
	struct address *oldest, *newest;
};

struct standings {
	struct address *buckets[BUCKETS];
	struct order order[2];		/* by `proven` */
	unsigned count, max;
};

struct standings *
standings_new(unsigned max)
{
	struct standings *s = calloc(1, sizeof(*s));

	TV_ASSERT(max > 0);
	if (s != NULL)
		s->max = max;
	return s;
}

void
standings_free(struct standings *s)
{
	if (s == NULL)
		return;
	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct address *a = s->buckets[i], *next; a != NULL; a = next) {
			next = a->next;
			free(a);
		}
	free(s);
}

static struct address **
place_of(const struct standings *s, const char *ip, uint16_t port)
{
	char text[64];
	int len = snprintf(text, sizeof(text), "%s %u", ip, port);
	struct address *const *at = &s->buckets[keyed_hash(text, (size_t)len) % BUCKETS];

	while (*at != NULL && ((*at)->port != port || strcmp((*at)->ip, ip) != 0))
		at = &(*at)->next;
	return (struct address **)(uintptr_t)at;
}

static void
order_remove(struct standings *s, struct address *a)
{
	struct order *o = &s->order[a->proven];

	*(a->older != NULL ? &a->older->newer : &o->oldest) = a->newer;
	*(a->newer != NULL ? &a->newer->older : &o->newest) = a->older;
}

static void
order_add(struct standings *s, struct address *a)
{
	struct order *o = &s->order[a->proven];

	a->older = o->newest;
	a->newer = NULL;
	*(o->newest != NULL ? &o->newest->newer : &o->oldest) = a;
	o->newest = a;
}

static void
forget_one(struct standings *s)
{
	struct address *a = s->order[false].oldest != NULL ? s->order[false].oldest : s->order[true].oldest;

	*place_of(s, a->ip, a->port) = a->next;
	order_remove(s, a);
	free(a);
	s->count--;
}

/* The entry, out of the order; NULL: no memory, and it will be as if nothing had happened. */
static struct address *
take(struct standings *s, const char *ip, uint16_t port)
{
	struct address **at = place_of(s, ip, port), *a = *at;

	if (a != NULL) {
		order_remove(s, a);
		return a;
	}
	if (s->count == s->max)
		forget_one(s);
	a = calloc(1, sizeof(*a));
	if (a == NULL)
		return NULL;
	snprintf(a->ip, sizeof(a->ip), "%s", ip);
	a->port = port;
	at = place_of(s, ip, port);
	*at = a;
	s->count++;
	return a;
}

void
standing_proved(struct standings *s, const char *ip, uint16_t port, struct mono now)
{
	struct address *a = take(s, ip, port);

	(void)now;
	if (a == NULL)
		return;
	a->proven = true;
	a->failures = 0;
	a->failed_at = a->rest_until = MONO_ZERO;
	order_add(s, a);
}

void
standing_failed(struct standings *s, const char *ip, uint16_t port, struct mono now)
{
	struct address *a = take(s, ip, port);
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
	order_add(s, a);
}

enum standing
standing_of(const struct standings *s, const char *ip, uint16_t port, struct mono now)
{
	const struct address *a = *place_of(s, ip, port);

	if (a == NULL)
		return STANDING_UNKNOWN;
	if (a->failures > 0 && mono_before(now, a->rest_until))
		return a->proven ? STANDING_TIRED : STANDING_RESTING;
	return a->proven ? STANDING_PROVEN : STANDING_UNKNOWN;
}

bool
standing_is_proven(const struct standings *s, const char *ip, uint16_t port)
{
	const struct address *a = *place_of(s, ip, port);

	return a != NULL && a->proven;
}

struct mono
standing_failed_at(const struct standings *s, const char *ip, uint16_t port)
{
	const struct address *a = *place_of(s, ip, port);

	return a == NULL ? MONO_ZERO : a->failed_at;
}

unsigned
standings_count(const struct standings *s)
{
	return s->count;
}
