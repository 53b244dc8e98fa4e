/* TCP checks: can one connect, and with UseTLS, is it who it should be? */
#include <stddef.h>

#include "rpcd/check/checker.h"
#include "rpcd/check/credentials.h"
#include "rpcd/check/dial.h"

struct tcp {
	struct probe_run run;		/* first */
	struct dial dial;
	struct stream bytes;		/* connected, while they shake hands */
	struct ssl_st *tls;
};

static void
tcp_clear(struct probe_run *r)
{
	struct tcp *t = (struct tcp *)r;

	dial_stop(&t->dial);
	stream_close(&t->bytes);
	tls_session_free(t->tls);
}

static void
tcp_succeed(struct tcp *t)
{
	const struct span *target = &t->run.check->def.Target;

	run_endf(&t->run, HEALTH_PASSING, "TCP connect %.*s: Success", (int)target->len, (const char *)target->p);
}

static void
tcp_shake(struct tcp *t)
{
	char why[TLS_WHY_BYTES];
	int rc = tls_session_shake(t->tls, why);

	if (rc < 0)
		run_endf(&t->run, HEALTH_CRITICAL, "%s", why);
	else if (rc > 0)
		tcp_succeed(t);
	else
		stream_watch(&t->bytes, tls_session_wants_write(t->tls) ? STREAM_WRITE : STREAM_READ);
}

static void
on_ready(struct stream *b, int events UNUSED)
{
	tcp_shake((struct tcp *)(void *)((char *)b - offsetof(struct tcp, bytes)));
}

static void
on_dialled(void *ctx, int fd, const char *why)
{
	struct tcp *t = ctx;
	const struct task *c = t->run.check;
	char bad[TLS_WHY_BYTES];

	if (fd >= 0)
		stream_open(&t->bytes, c->checker->loop, fd, on_ready, 0);
	if (fd < 0)
		run_endf(&t->run, HEALTH_CRITICAL, "%s", why);
	else if (!c->def.UseTLS)
		tcp_succeed(t);
	else if ((t->tls = credentials_session(c->checker->credentials, fd, &c->def, t->dial.to.host, NULL,
	    bad)) == NULL)
		run_endf(&t->run, HEALTH_CRITICAL, "%s", bad);
	else
		tcp_shake(t);
}

static struct mono
tcp_queued(const struct probe_run *r)
{
	return dial_queued(&((const struct tcp *)r)->dial);
}

static void
tcp_expired(struct probe_run *r)
{
	const struct tcp *t = (struct tcp *)r;
	char at[DIAL_TEXT_BYTES];

	r->check->checker->stats.timed_out++;
	run_endf(r, HEALTH_CRITICAL, "%s: i/o timeout", t->tls != NULL ? "tls: handshake" : dial_at(&t->dial, at));
}

static void
tcp_begin(struct probe_run *r)
{
	struct tcp *t = (struct tcp *)r;
	struct task *c = r->check;

	run_arm(r);
	dial_begin(&t->dial, c->checker->loop, c->checker->resolver, c->service, c->def.Target, on_dialled, t);
}

const struct probe_kind probe_tcp = { .name = "tcp", .timeout = { 10000000000 }, .size = sizeof(struct tcp),
	.begin = tcp_begin, .expired = tcp_expired, .queued = tcp_queued, .clear = tcp_clear };
