/* TCP checks: can one connect, and with UseTLS, is it who it should be? */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "rpcd/check/checker.h"
#include "rpcd/check/dial.h"
#include "rpcd/check/tls.h"

struct tcp {
	struct task *check;
	struct dial dial;
	struct stream bytes;		/* connected, while they shake hands */
	struct tls *tls;
	ev_timer timer;
	struct mono begun;
};

static void
tcp_free(struct tcp *t)
{
	struct ev_loop *loop = t->check->checker->loop;

	dial_stop(&t->dial);
	ev_timer_stop(loop, &t->timer);
	stream_close(&t->bytes);
	tls_free(t->tls);
	free(t);
}

static void
finish_tcp(struct tcp *t, enum health status, const char *text)
{
	struct task *c = t->check;

	tcp_free(t);
	check_done(c, status, span_str(text), false);
}

static void
succeed(struct tcp *t)
{
	const struct span *target = &t->check->def.Target;
	char text[DIAL_TEXT_BYTES];

	snprintf(text, sizeof(text), "TCP connect %.*s: Success", (int)target->len, (const char *)target->p);
	finish_tcp(t, HEALTH_PASSING, text);
}

static void
shake(struct tcp *t)
{
	char why[TLS_WHY_BYTES];
	int rc = tls_handshake(t->tls, why);

	if (rc < 0)
		finish_tcp(t, HEALTH_CRITICAL, why);
	else if (rc > 0)
		succeed(t);
	else
		stream_watch(&t->bytes, tls_wants_write(t->tls) ? STREAM_WRITE : STREAM_READ);
}

static void
on_ready(struct stream *b, int events)
{
	(void)events;
	shake((struct tcp *)(void *)((char *)b - offsetof(struct tcp, bytes)));
}

static void
on_dialled(void *ctx, int fd, const char *why)
{
	struct tcp *t = ctx;

	if (fd >= 0)
		stream_open(&t->bytes, t->check->checker->loop, fd, on_ready, 0);
	if (fd < 0)
		finish_tcp(t, HEALTH_CRITICAL, why);
	else if (!t->check->def.UseTLS)
		succeed(t);
	else if ((t->tls = tls_new(fd, &t->check->def, t->dial.to.host, false)) == NULL)
		finish_tcp(t, HEALTH_CRITICAL, "out of memory");
	else
		shake(t);
}

static void
on_timeout(struct ev_loop *loop, ev_timer *w, int events)
{
	struct tcp *t = w->data;
	char at[DIAL_TEXT_BYTES], text[DIAL_TEXT_BYTES + 16];

	(void)events;
	if (check_has_time(t->check, t->begun, dial_queued(&t->dial), loop, w))
		return;
	t->check->checker->stats.timed_out++;
	snprintf(text, sizeof(text), "%s: i/o timeout", t->tls != NULL ? "tls: handshake" : dial_at(&t->dial, at));
	finish_tcp(t, HEALTH_CRITICAL, text);
}

/* What is known at once still ends the run from the loop. */
static void
on_begin(struct ev_loop *loop, ev_timer *w, int events)
{
	struct tcp *t = w->data;

	(void)events;
	t->begun = clock_mono();
	ev_set_cb(w, on_timeout);
	ev_timer_set(w, mono_seconds(t->check->timeout), 0.);
	ev_timer_start(loop, w);
	dial_begin(&t->dial, t->check->def.Target);
}

static void
start_tcp(struct task *c)
{
	struct checker *k = c->checker;
	struct tcp *t = calloc(1, sizeof(*t));

	if (t == NULL) {
		check_done(c, HEALTH_CRITICAL, span_str("out of memory"), false);
		return;
	}
	t->check = c;
	c->run = t;
	dial_init(&t->dial, k->loop, k->resolver, c->service, on_dialled, t);
	ev_timer_init(&t->timer, on_begin, 0., 0.);
	t->timer.data = t;
	ev_feed_event(k->loop, &t->timer, EV_TIMER);
}

static void
cancel_tcp(struct task *c)
{
	struct tcp *t = c->run;

	ev_clear_pending(c->checker->loop, &t->timer);
	tcp_free(t);
}

const struct probe_kind probe_tcp = { .name = "tcp", .timeout = { 10000000000 },
	.start = start_tcp, .cancel = cancel_tcp };
