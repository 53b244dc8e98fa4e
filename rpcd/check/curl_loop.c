/* libcurl on a loop, see curl_loop.h. */
#include <stdlib.h>

#include "common/base/err.h"
#include "rpcd/check/curl_loop.h"

#define IDLE_EASIES 64			/* kept for the next run, of each kind */

struct idle {
	CURL *v[IDLE_EASIES];
	unsigned n;
};

struct curl_loop {
	struct ev_loop *loop;
	CURLM *multi;
	ev_timer timer;
	struct idle bare, ready;	/* reset; as transfer_keep() found them */
};

static CURL *
take_idle(struct idle *from)
{
	return from->n > 0 ? from->v[--from->n] : NULL;
}

static void
give_idle(struct idle *to, CURL *easy)
{
	if (to->n < IDLE_EASIES)
		to->v[to->n++] = easy;
	else
		curl_easy_cleanup(easy);
}

bool
transfer_init(struct curl_loop *l, struct transfer *t, void (*ready)(CURL *easy))
{
	t->ready = ready != NULL;
	if (t->ready && (t->easy = take_idle(&l->ready)) != NULL) {
		curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
		return true;
	}
	if ((t->easy = take_idle(&l->bare)) == NULL && (t->easy = curl_easy_init()) == NULL)
		return false;
	curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
	curl_easy_setopt(t->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(t->easy, CURLOPT_PROXY, "");
	curl_easy_setopt(t->easy, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(t->easy, CURLOPT_FORBID_REUSE, 1L);
	if (t->ready)
		ready(t->easy);
	return true;
}

bool
transfer_start(struct curl_loop *l, struct transfer *t)
{
	return curl_multi_add_handle(l->multi, t->easy) == CURLM_OK;
}

void
transfer_end(struct curl_loop *l, struct transfer *t)
{
	if (t->easy == NULL)
		return;
	curl_multi_remove_handle(l->multi, t->easy);
	curl_easy_reset(t->easy);
	give_idle(&l->bare, t->easy);
	t->easy = NULL;
}

void
transfer_keep(struct curl_loop *l, struct transfer *t)
{
	if (t->easy == NULL)
		return;
	curl_multi_remove_handle(l->multi, t->easy);
	give_idle(t->ready ? &l->ready : &l->bare, t->easy);
	t->easy = NULL;
}

struct watch {
	ev_io io;
	struct curl_loop *l;
};

static void
collect(struct curl_loop *p)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(p->multi, &left)) != NULL) {
		CURLcode rc = m->data.result;
		struct transfer *t = NULL;

		if (m->msg == CURLMSG_DONE && curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t) == CURLE_OK)
			t->done(t, rc);
	}
}

static void
on_io(struct ev_loop *loop UNUSED, ev_io *w, int events)
{
	struct curl_loop *p = ((struct watch *)w->data)->l;
	int running;

	(void)curl_multi_socket_action(p->multi, w->fd, (events & EV_READ ? CURL_CSELECT_IN : 0) |
	    (events & EV_WRITE ? CURL_CSELECT_OUT : 0), &running);
	collect(p);
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct curl_loop *p = w->data;
	int running;

	(void)curl_multi_socket_action(p->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	collect(p);
}

static int
set_timer(CURLM *multi UNUSED, long ms, void *ctx)
{
	struct curl_loop *p = ctx;

	ev_timer_stop(p->loop, &p->timer);
	if (ms < 0)
		return 0;
	ev_timer_set(&p->timer, (double)ms / 1000., 0.);
	ev_timer_start(p->loop, &p->timer);
	return 0;
}

static int
watch_socket(CURL *easy UNUSED, curl_socket_t fd, int what, void *ctx, void *of_socket)
{
	struct curl_loop *p = ctx;
	struct watch *w = of_socket;

	if (w != NULL)
		ev_io_stop(p->loop, &w->io);
	if (what == CURL_POLL_REMOVE) {
		free(w);
		curl_multi_assign(p->multi, fd, NULL);
		return 0;
	}
	if (w == NULL) {
		if ((w = calloc(1, sizeof(*w))) == NULL)
			return -1;
		w->l = p;
		ev_init(&w->io, on_io);
		w->io.data = w;
		curl_multi_assign(p->multi, fd, w);
	}
	ev_io_set(&w->io, fd, (what & CURL_POLL_IN ? EV_READ : 0) | (what & CURL_POLL_OUT ? EV_WRITE : 0));
	ev_io_start(p->loop, &w->io);
	return 0;
}

struct curl_loop *
curl_loop_new(struct ev_loop *loop)
{
	struct curl_loop *p = calloc(1, sizeof(*p));

	if (p == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || (p->multi = curl_multi_init()) == NULL) {
		free(p);
		return NULL;
	}
	p->loop = loop;
	ev_init(&p->timer, on_timer);
	p->timer.data = p;
	curl_multi_setopt(p->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
	curl_multi_setopt(p->multi, CURLMOPT_SOCKETDATA, p);
	curl_multi_setopt(p->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(p->multi, CURLMOPT_TIMERDATA, p);
	curl_multi_setopt(p->multi, CURLMOPT_MAXCONNECTS, 1L);
	return p;
}
