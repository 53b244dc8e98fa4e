/* Names to addresses, see resolve.h. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/addr.h"
#include "common/base/clock.h"
#include "common/base/fnv.h"
#include "common/base/join.h"
#include "common/base/rd.h"
#include "common/proc/jobs.h"
#include "common/proc/sandbox.h"
#include "rpcd/check/resolve.h"

#define CHAINS 256			/* in place of a map: each look at a chain forgets what is old in it */
#define HOST_BYTES_MAX 256

/*
 * Threads: names that had a quick answer the last time, which most have, may take all; the others leave room for them.
 * A name that is not answered holds its thread for as long as resolv.conf says, 10 s where it says nothing.
 */
static const struct fair_conf places = { .places = 48, .class = {
	[FAIR_QUICK] = { 48, 24 }, [FAIR_NEW] = { 24, 8 }, [FAIR_SLOW] = { 8, 2 } } };

struct worker {
	struct worker *next;		/* idle */
	struct jobs *jobs;		/* one thread */
};

struct host {
	struct fair_item item;		/* first */
	struct host *next;		/* in its chain */
	struct resolver *resolver;
	char name[HOST_BYTES_MAX];
	struct name known;
	struct join_flight flight;	/* of lookups, found by the name */
	ev_timer serve;			/* those that wait are served what is known already */
	bool overdue;			/* the question under way takes long: old answers serve at once */
	struct mono begun;		/* the last question */
	struct worker *worker;		/* at work on it, and owns what is below */
	struct name_answer answer;
};

struct lookup {
	struct join_waiter waiter;
	struct host *host;
	struct mono asked;
	resolve_done *done;
	void *ctx;
};

struct resolver {
	struct ev_loop *loop;
	struct fair *fair;
	struct worker *idle;
	struct host *chains[CHAINS];
	resolve_stale *stale;
	struct resolver_stats stats;
};

/* -- addresses -- */

const char *
address_text(const union addr_sock *sa, char dst[RESOLVE_TEXT_BYTES])
{
	struct addr a = addr_of_sock(&sa->any);

	return a.port == 0 ? addr_ip(&a, dst) : addr_text(&a, dst);
}

bool
resolve_literal(const char *host, struct addresses *out)
{
	char bare[ADDR_IP_BYTES + 16], *zone;
	size_t len = strlen(host);
	union addr_sock *a = &out->v[0];
	uint32_t scope = 0;

	*out = (struct addresses){ .n = 1 };
	if (addr_parse_sock(host, 0, a) > 0)
		return true;
	if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
		host++;
		len -= 2;
	}
	if (!span_copy(span_of(host, len), bare, sizeof(bare)))
		return false;
	if ((zone = strchr(bare, '%')) != NULL) {
		scope = (uint32_t)strtoul(zone + 1, NULL, 10);
		*zone = '\0';
	}
	if (addr_parse_sock(bare, 0, a) != sizeof(a->v6))
		return false;
	a->v6.sin6_scope_id = scope;
	return true;
}

/* -- in a thread -- */

static enum name_outcome
outcome_of(int rc)
{
	if (rc == 0)
		return NAME_FOUND;
#ifdef EAI_NODATA
	if (rc == EAI_NODATA)
		return NAME_NOT_THERE;
#endif
#ifdef EAI_ADDRFAMILY
	if (rc == EAI_ADDRFAMILY)
		return NAME_NOT_THERE;
#endif
	return rc == EAI_NONAME ? NAME_NOT_THERE : NAME_NO_ANSWER;
}

/*
 * 0 if this process can ask name servers as the C library does, which does not say itself that it could not; or errno.
 */
static int
cannot_ask(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), error = 0;

	if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_RECVERR, &(int){ 1 }, sizeof(int)) != 0)
		error = errno;
	if (fd >= 0)
		close(fd);
	return error;
}

/* In the words of Go's library; but no server misbehaves that was not asked, or is not there. */
static void
explain(struct name_answer *a, int rc, int error, bool slow)
{
	if (a->outcome == NAME_NOT_THERE)
		snprintf(a->why, sizeof(a->why), "no such host");
	else if (rc == EAI_SYSTEM || (error = cannot_ask()) != 0)
		snprintf(a->why, sizeof(a->why), "this process cannot ask name servers: %s", strerror(error));
	else if (rc == EAI_AGAIN)
		snprintf(a->why, sizeof(a->why), "%s", slow ? "i/o timeout" : "no name server gave an answer");
	else
		snprintf(a->why, sizeof(a->why), "%s", rc == EAI_FAIL ? "server misbehaving" : gai_strerror(rc));
}

static void
ask_for_name(void *ctx)
{
	struct host *h = ctx;
	struct name_answer *a = &h->answer;
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;
	struct mono begun = clock_mono();

	errno = 0;
	int rc = getaddrinfo(h->name, NULL, &hints, &list), error = errno;
	*a = (struct name_answer){ .outcome = outcome_of(rc) };
	for (const struct addrinfo *i = list; rc == 0 && i != NULL && a->found.n < ADDRESSES_MAX; i = i->ai_next)
		if (i->ai_addrlen <= sizeof(a->found.v[0]))
			memcpy(&a->found.v[a->found.n++], i->ai_addr, i->ai_addrlen);
	if (a->outcome == NAME_FOUND && a->found.n == 0)
		a->outcome = NAME_NOT_THERE;
	if (a->outcome != NAME_FOUND)
		explain(a, rc, error, mono_before(NAME_SLOW, mono_sub(clock_mono(), begun)));
	if (rc == 0)
		freeaddrinfo(list);
}

/* -- on the loop -- */

static void
serve_lookups(struct host *h, const struct addresses *found, const char *why)
{
	for (struct lookup *l; (l = JOIN_ENTRY(join_next(&h->flight), struct lookup, waiter)) != NULL;) {
		l->done(l->ctx, found, why);
		free(l);
	}
}

/* From the loop, never from within resolve(): there is an answer that is fresh, or no new one in time. */
static void
on_serve(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct host *h = w->data;
	const struct addresses *found;
	const char *why;
	struct mono now = clock_mono();

	if (!name_serves(&h->known, now, &found, &why))
		return;
	h->overdue = !name_fresh(&h->known, now);
	h->resolver->stats.old_used += h->overdue ? h->flight.waiting : 0;
	serve_lookups(h, found, why);
}

static void pump(struct resolver *r);

static void
on_asked(void *ctx)
{
	struct host *h = ctx;
	struct resolver *r = h->resolver;
	struct name_answer a = h->answer;

	h->worker->next = r->idle;
	r->idle = h->worker;
	h->worker = NULL;
	fair_remove(r->fair, &h->item);
	name_learn(&h->known, &a, h->begun, clock_mono());
	r->stats.unanswered += a.outcome == NAME_NO_ANSWER;
	ev_timer_stop(r->loop, &h->serve);
	h->overdue = false;
	if (h->flight.waiting > 0)
		ev_feed_event(r->loop, &h->serve, EV_TIMER);
	pump(r);
}

static struct worker *
take_worker(struct resolver *r)
{
	struct worker *w = r->idle;

	if (w != NULL) {
		r->idle = w->next;
		return w;
	}
	if ((w = calloc(1, sizeof(*w))) != NULL && (w->jobs = jobs_new(r->loop, "resolve")) == NULL) {
		free(w);
		w = NULL;
	}
	return w;
}

/* Sends what may go now. */
static void
pump(struct resolver *r)
{
	struct mono now = clock_mono();

	for (struct host *h; (h = (struct host *)fair_next(r->fair, now)) != NULL;) {
		h->begun = now;
		h->worker = take_worker(r);
		r->stats.questions++;
		if (h->worker != NULL && jobs_add(h->worker->jobs, ask_for_name, on_asked, h) == TV_OK)
			continue;
		if (h->worker != NULL) {
			h->worker->next = r->idle;
			r->idle = h->worker;
			h->worker = NULL;
		}
		fair_remove(r->fair, &h->item);
		struct name_answer a = { .outcome = NAME_NO_ANSWER, .why = "no thread can be started to ask" };
		name_learn(&h->known, &a, now, now);
		ev_feed_event(r->loop, &h->serve, EV_TIMER);
	}
}

static bool
forgettable(const struct host *h, struct mono now)
{
	return h->item.owner == NULL && h->flight.waiting == 0 && !ev_is_active(&h->serve) &&
	    !ev_is_pending(&h->serve) && name_forgettable(&h->known, now);
}

/* Also forgets names of the chain that no check has had for long. */
static struct host *
host_of(struct resolver *r, const char *name)
{
	struct host **at = &r->chains[fnv1a(FNV1A_START, span_str(name)) % CHAINS], *h;
	struct mono now = clock_mono();

	while ((h = *at) != NULL && strcmp(h->name, name) != 0) {
		if (!forgettable(h, now)) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		free(h);
	}
	if (h == NULL && (h = calloc(1, sizeof(*h))) != NULL) {
		h->resolver = r;
		snprintf(h->name, sizeof(h->name), "%s", name);
		ev_timer_init(&h->serve, on_serve, 0., 0.);
		h->serve.data = h;
		*at = h;
	}
	return h;
}

/* A question for it waits, or is under way. */
static enum tv_err
want(struct host *h, struct span owner)
{
	struct resolver *r = h->resolver;
	const char *path;

	if (h->item.placed || (h->item.owner != NULL && fair_owner_waits(r->fair, owner)))
		return TV_OK;
	if (h->item.owner == NULL && (path = sandbox_stale()) != NULL)
		r->stale(path);
	fair_remove(r->fair, &h->item);		/* this one's turn comes sooner than that of the first to ask */
	return fair_add(r->fair, &h->item, owner, name_class(&h->known), clock_mono());
}

/* When its lookups are served what is known already, if anything is. */
static void
plan(struct host *h, struct mono now)
{
	struct resolver *r = h->resolver;
	const struct addresses *found;
	const char *why;

	if (name_fresh(&h->known, now) || h->overdue) {
		ev_feed_event(r->loop, &h->serve, EV_TIMER);
	} else if (!ev_is_active(&h->serve) && name_serves(&h->known, now, &found, &why)) {
		ev_timer_set(&h->serve, mono_seconds(NAME_GRACE), 0.);
		ev_timer_start(r->loop, &h->serve);
	}
}

struct lookup *
resolve(struct resolver *r, const char *host, struct span owner, resolve_done *done, void *ctx)
{
	struct host *h = strlen(host) < HOST_BYTES_MAX ? host_of(r, host) : NULL;
	struct lookup *l = h == NULL ? NULL : calloc(1, sizeof(*l));
	struct mono now = clock_mono();

	if (l == NULL)
		return NULL;
	if (!name_fresh(&h->known, now) && want(h, owner) != TV_OK) {
		free(l);
		return NULL;
	}
	*l = (struct lookup){ .host = h, .asked = now, .done = done, .ctx = ctx };
	join_wait(&h->flight, &l->waiter);
	plan(h, now);
	pump(r);
	return l;
}

void
resolve_cancel(struct lookup *l)
{
	struct host *h = l->host;
	bool was_last = join_leave(&l->waiter) != NULL;

	free(l);
	if (was_last && h->item.owner != NULL && !h->item.placed)
		fair_remove(h->resolver->fair, &h->item);
}

struct mono
resolve_queued(const struct lookup *l)
{
	const struct host *h = l->host;
	struct mono until = h->item.owner != NULL && !h->item.placed ? clock_mono() : h->begun;

	return mono_before(l->asked, until) ? mono_sub(until, l->asked) : MONO_ZERO;
}

struct resolver *
resolver_new(struct ev_loop *loop, resolve_stale *stale)
{
	struct resolver *r = calloc(1, sizeof(*r));

	if (r == NULL || (r->fair = fair_new(&places)) == NULL)
		return NULL;		/* the process ends */
	r->loop = loop;
	r->stale = stale;
	return r;
}

void
resolver_stats(const struct resolver *r, struct resolver_stats *out)
{
	const struct fair_item *first = fair_first(r->fair);

	*out = r->stats;
	out->under_way = fair_placed(r->fair);
	out->waiting = fair_waiting(r->fair);
	out->longest = first == NULL ? MONO_ZERO : mono_sub(clock_mono(), first->since);
}
