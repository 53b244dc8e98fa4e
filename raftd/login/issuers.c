/* See issuers.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "raftd/login/issuers.h"

struct issuer {
	TAILQ_ENTRY(issuer) link;	/* asked for latest: first */
	struct issuers *all;
	struct login_source source;	/* texts are owned */
	struct key_set *keys;		/* or NULL */
	struct mono fetched;		/* with keys: when */
	struct mono began;		/* the latest question */
	bool asked;			/* there was one */
	bool fetching, failed;		/* now; the latest time */
	unsigned held;
	char why[ISSUER_WHY_BYTES];
};

struct issuers {
	TAILQ_HEAD(issuer_list, issuer) list;
	unsigned count;
	uint64_t serial;
};

/* -- sources and sets -- */

static bool
copy(struct span from, struct span *to)
{
	uint8_t *p = malloc(from.len + 1);

	if (p == NULL)
		return false;
	if (from.len > 0)
		memcpy(p, from.p, from.len);
	*to = span_of(p, from.len);
	return true;
}

static void
source_done(struct login_source *s)
{
	free((void *)(uintptr_t)s->url.p);
	free((void *)(uintptr_t)s->ca.p);
	*s = (struct login_source){ .url = SPAN_NONE };
}

static bool
source_copy(const struct login_source *from, struct login_source *to)
{
	*to = (struct login_source){ .discovery = from->discovery };
	if (copy(from->url, &to->url) && copy(from->ca, &to->ca))
		return true;
	source_done(to);
	return false;
}

struct key_set *
key_set_ref(struct key_set *s)
{
	s->refs++;
	return s;
}

void
key_set_unref(struct key_set *s)
{
	if (s == NULL || --s->refs > 0)
		return;
	jwks_free(&s->jwks);
	source_done(&s->source);
	free(s);
}

/* -- all of them -- */

struct issuers *
issuers_new(void)
{
	struct issuers *all = calloc(1, sizeof(*all));

	if (all != NULL)
		TAILQ_INIT(&all->list);
	return all;
}

static void
issuer_free(struct issuer *i)
{
	TAILQ_REMOVE(&i->all->list, i, link);
	i->all->count--;
	key_set_unref(i->keys);
	source_done(&i->source);
	free(i);
}

void
issuers_free(struct issuers *all)
{
	if (all == NULL)
		return;
	while (!TAILQ_EMPTY(&all->list))
		issuer_free(TAILQ_FIRST(&all->list));
	free(all);
}

unsigned
issuers_count(const struct issuers *all)
{
	return all->count;
}

static bool
make_room(struct issuers *all)
{
	struct issuer *i;

	if (all->count < ISSUERS_MAX)
		return true;
	TAILQ_FOREACH_REVERSE(i, &all->list, issuer_list, link)
		if (i->held == 0 && !i->fetching) {
			issuer_free(i);
			return true;
		}
	return false;
}

struct issuer *
issuers_find(struct issuers *all, const struct login_source *source, struct mono now)
{
	struct issuer *i;

	TAILQ_FOREACH(i, &all->list, link)
		if (login_source_same(&i->source, source))
			break;
	if (i != NULL) {
		TAILQ_REMOVE(&all->list, i, link);
		TAILQ_INSERT_HEAD(&all->list, i, link);
		return i;
	}
	if (!make_room(all) || (i = calloc(1, sizeof(*i))) == NULL)
		return NULL;
	if (!source_copy(source, &i->source)) {
		free(i);
		return NULL;
	}
	i->all = all;
	i->began = now;
	TAILQ_INSERT_HEAD(&all->list, i, link);
	all->count++;
	return i;
}

/* -- one -- */

static bool
is_within(struct mono since, struct mono time, struct mono now)
{
	return mono_before(now, mono_add(since, time));
}

bool
issuer_serves(const struct issuer *i, struct mono now)
{
	return i->keys != NULL && is_within(i->fetched, ISSUER_STALE_MAX, now);
}

enum issuer_say
issuer_ask(const struct issuer *i, enum issuer_want want, uint64_t after, struct mono now)
{
	bool paused = i->asked && is_within(i->began, ISSUER_PAUSE, now);

	if (want == ISSUER_ANY && i->keys != NULL && is_within(i->fetched, ISSUER_FRESH, now))
		return ISSUER_HAVE;
	if (want == ISSUER_NEWER && i->keys != NULL && i->keys->serial > after)
		return ISSUER_HAVE;
	if (i->fetching)
		return ISSUER_WAIT;
	if (want == ISSUER_NOW || !paused)
		return ISSUER_FETCH;
	return want == ISSUER_ANY && issuer_serves(i, now) ? ISSUER_HAVE : ISSUER_REFUSE;
}

void
issuer_began(struct issuer *i, struct mono now)
{
	i->fetching = i->asked = true;
	i->began = now;
}

enum tv_err
issuer_fetched(struct issuer *i, struct jwks *keys, struct mono now)
{
	struct key_set *s = calloc(1, sizeof(*s));

	if (s == NULL || !source_copy(&i->source, &s->source)) {
		free(s);
		jwks_free(keys);
		issuer_failed(i, "out of memory");
		return TV_ENOMEM;
	}
	s->jwks = *keys;
	*keys = (struct jwks){ .keys = NULL };
	s->serial = ++i->all->serial;
	s->refs = 1;
	key_set_unref(i->keys);
	i->keys = s;
	i->fetched = now;
	i->fetching = i->failed = false;
	i->why[0] = '\0';
	return TV_OK;
}

void
issuer_failed(struct issuer *i, const char *why)
{
	i->fetching = false;
	i->failed = true;
	snprintf(i->why, sizeof(i->why), "%s", why);
}

struct key_set *
issuer_keys(const struct issuer *i)
{
	return i->keys;
}

const char *
issuer_why(const struct issuer *i)
{
	return i->failed ? i->why : "";
}

const struct login_source *
issuer_source(const struct issuer *i)
{
	return &i->source;
}

void
issuer_hold(struct issuer *i)
{
	i->held++;
}

void
issuer_release(struct issuer *i)
{
	i->held--;
}

unsigned
issuer_held(const struct issuer *i)
{
	return i->held;
}
