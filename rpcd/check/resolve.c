/* Names to addresses, see resolve.h. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/rd.h"
#include "common/proc/jobs.h"
#include "common/proc/sandbox.h"
#include "rpcd/check/resolve.h"

#define THREADS 4
#define CHAINS 256
#define KEPT MONO_S(10)
#define HOST_BYTES_MAX 256

struct name {
	struct name *next;		/* in its chain */
	struct resolver *resolver;
	char host[HOST_BYTES_MAX];
	struct lookup *waiting;
	bool asked;			/* a thread is at work on it, and owns what is below */
	struct addresses found;
	const char *why;		/* NULL: found */
	struct mono until;		/* good for so long */
};

struct lookup {
	struct lookup *next;
	struct name *name;
	resolve_done *done;
	void *ctx;
};

struct resolver {
	struct ev_loop *loop;
	struct jobs *threads[THREADS];
	struct name *chains[CHAINS];
	ev_timer answer;		/* of what was known already */
	resolve_stale *stale;
};

/* -- addresses -- */

void
address_set_port(struct address *a, uint16_t port)
{
	*(a->sa.sa_family == AF_INET ? &a->in.sin_port : &a->in6.sin6_port) = htons(port);
}

socklen_t
address_len(const struct address *a)
{
	return a->sa.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6);
}

const char *
address_text(const struct address *a, char dst[RESOLVE_TEXT_BYTES])
{
	bool v4 = a->sa.sa_family == AF_INET;
	uint16_t port = ntohs(v4 ? a->in.sin_port : a->in6.sin6_port);
	char ip[INET6_ADDRSTRLEN] = "";

	(void)inet_ntop(a->sa.sa_family, v4 ? (const void *)&a->in.sin_addr : &a->in6.sin6_addr, ip, sizeof(ip));
	if (port == 0)
		snprintf(dst, RESOLVE_TEXT_BYTES, "%s", ip);
	else
		snprintf(dst, RESOLVE_TEXT_BYTES, v4 ? "%s:%u" : "[%s]:%u", ip, port);
	return dst;
}

bool
resolve_literal(const char *host, struct addresses *out)
{
	char bare[INET6_ADDRSTRLEN];
	size_t len = strlen(host);
	struct address *a = &out->v[0];

	*out = (struct addresses){ .n = 1 };
	a->sa.sa_family = AF_INET;
	if (inet_pton(AF_INET, host, &a->in.sin_addr) == 1)
		return true;
	if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
		host++;
		len -= 2;
	}
	if (!span_copy(span_of(host, len), bare, sizeof(bare)))
		return false;
	a->sa.sa_family = AF_INET6;
	return inet_pton(AF_INET6, bare, &a->in6.sin6_addr) == 1;
}

/* -- in a thread -- */

static void
ask(void *ctx)
{
	struct name *n = ctx;
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;
	int rc = getaddrinfo(n->host, NULL, &hints, &list);

	n->found.n = 0;
	for (const struct addrinfo *a = list; rc == 0 && a != NULL && n->found.n < RESOLVE_ADDRESSES_MAX;
	    a = a->ai_next)
		if (a->ai_addrlen <= sizeof(n->found.v[0]))
			memcpy(&n->found.v[n->found.n++], a->ai_addr, a->ai_addrlen);
	n->why = rc == 0 && n->found.n > 0 ? NULL : rc == EAI_AGAIN ? "server misbehaving" : "no such host";
	if (rc == 0)
		freeaddrinfo(list);
}

/* -- on the loop -- */

static unsigned
hash(const char *host)
{
	unsigned h = 5381;

	for (; *host != '\0'; host++)
		h = h * 33 + (unsigned char)*host;
	return h;
}

static void
tell(struct name *n)
{
	for (struct lookup *l; (l = n->waiting) != NULL;) {
		n->waiting = l->next;
		l->done(l->ctx, n->why == NULL ? &n->found : NULL, n->why);
		free(l);
	}
}

static void
on_asked(void *ctx)
{
	struct name *n = ctx;

	n->asked = false;
	n->until = mono_add(clock_mono(), KEPT);
	tell(n);
}

/* Those who ask for what is known wait for this: never from within resolve(). */
static void
on_answer(struct ev_loop *loop, ev_timer *w, int events)
{
	struct resolver *r = w->data;

	(void)loop;
	(void)events;
	for (unsigned i = 0; i < CHAINS; i++)
		for (struct name *n = r->chains[i]; n != NULL; n = n->next)
			if (!n->asked)
				tell(n);
}

/* Also forgets names of the chain that nobody has asked for lately. */
static struct name *
name_of(struct resolver *r, const char *host)
{
	struct name **at = &r->chains[hash(host) % CHAINS], *n;
	struct mono now = clock_mono();

	while ((n = *at) != NULL && strcmp(n->host, host) != 0) {
		if (n->asked || n->waiting != NULL || mono_before(now, mono_add(n->until, KEPT))) {
			at = &n->next;
			continue;
		}
		*at = n->next;
		free(n);
	}
	if (n == NULL && (n = calloc(1, sizeof(*n))) != NULL) {
		n->resolver = r;
		snprintf(n->host, sizeof(n->host), "%s", host);
		*at = n;
	}
	return n;
}

struct lookup *
resolve(struct resolver *r, const char *host, resolve_done *done, void *ctx)
{
	struct name *n = strlen(host) < HOST_BYTES_MAX ? name_of(r, host) : NULL;
	struct lookup *l = n == NULL ? NULL : calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	*l = (struct lookup){ .next = n->waiting, .name = n, .done = done, .ctx = ctx };
	n->waiting = l;
	if (n->asked)
		return l;
	if (mono_before(clock_mono(), n->until)) {
		if (!ev_is_active(&r->answer)) {
			ev_timer_set(&r->answer, 0., 0.);
			ev_timer_start(r->loop, &r->answer);
		}
		return l;
	}
	const char *path = sandbox_stale();
	if (path != NULL)
		r->stale(path);
	n->asked = jobs_add(r->threads[hash(host) % THREADS], ask, on_asked, n) == TV_OK;
	if (!n->asked) {
		resolve_cancel(l);
		return NULL;
	}
	return l;
}

void
resolve_cancel(struct lookup *l)
{
	struct lookup **at = &l->name->waiting;

	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	free(l);
}

struct resolver *
resolver_new(struct ev_loop *loop, resolve_stale *stale)
{
	struct resolver *r = calloc(1, sizeof(*r));

	for (unsigned i = 0; i < THREADS && r != NULL; i++)
		if ((r->threads[i] = jobs_new(loop)) == NULL)
			return NULL;		/* the process ends */
	if (r == NULL)
		return NULL;
	r->loop = loop;
	r->stale = stale;
	ev_timer_init(&r->answer, on_answer, 0., 0.);
	r->answer.data = r;
	return r;
}
