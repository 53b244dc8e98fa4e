/*
 * The n-th allocation fails, for each n: an error comes back or the channel closes, nothing leaks
 * (the sanitizer build looks), nobody crashes, and what was not touched goes on.
 * A plain program: the Check library allocates too, and must not be made to fail.
 */
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/msg.h"
#include "common/base/arena.h"
#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/net/calls.h"
#include "common/net/dial.h"
#include "common/net/noise.h"
#include "common/record/member.h"
#include "tests/fault/alloc.h"

/* Enough for any scenario here; a scenario that still meets a failure then allocates without end. */
#define FAULTS_MAX 2000u

/* Runs a scenario with the n-th allocation failing, n = 0, 1, ... until none fails; it must succeed then. */
static void
each_fault(bool (*scenario)(void))
{
	for (unsigned n = 0; n < FAULTS_MAX; n++) {
		bool ok, failed;

		fault_alloc_at(n);
		ok = scenario();
		failed = fault_alloc_end();
		if (!failed) {
			TV_ASSERT(ok && n > 0);
			return;
		}
	}
	TV_ASSERT(!"allocates without end");
}

static bool
buffers(void)
{
	struct buf b = BUF_INIT(1 << 20);
	bool ok;

	for (int i = 0; i < 1000; i++)
		buf_printf(&b, "%d %s ", i, "and some text to make it grow");
	ok = !b.failed && buf_cstr(&b)[0] == '0';
	TV_ASSERT(ok || b.failed);
	buf_done(&b);
	return ok;
}

static bool
arenas(void)
{
	struct arena a = ARENA_INIT(1 << 20);
	bool ok = true;

	for (int i = 0; i < 100; i++)
		ok &= arena_alloc(&a, 300) != NULL;
	ok &= arena_copy(&a, span_str("x")).p != NULL;
	ok &= arena_alloc(&a, 50000) != NULL;
	arena_done(&a);
	return ok;
}

static bool
members(void)
{
	struct member_tag tag = { span_str("role"), span_str("server") };
	struct member m = { .name = span_str("n"), .addr_len = 4, .tags = &tag, .tag_count = 1 }, back;
	struct member *copy = member_clone(&m);
	struct arena a = ARENA_INIT(4096);
	struct buf b = BUF_INIT(4096);
	bool ok = copy != NULL;
	struct rd r;

	member_pack(&b, &m);
	r = rd_span_over(buf_span(&b));
	ok &= member_unpack(&r, &a, &back) == TV_OK;
	arena_done(&a);
	buf_done(&b);
	free(copy);
	return ok;
}

/* -- channels ------------------------------------------------------------------- */

static struct key psk = { { 1 } };

/* One end of a channel. */
struct end {
	struct chan *c;		/* NULL after on_close */
	unsigned frames, closes;
};

static enum tv_err
on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct end *e = ctx;

	(void)c, (void)f;
	e->frames++;
	return TV_OK;
}

static void
on_close(void *ctx, struct chan *c, enum tv_err why)
{
	struct end *e = ctx;

	(void)c;
	TV_ASSERT(why != TV_OK);
	e->closes++;
	e->c = NULL;
}

static const struct chan_events end_events = { on_frame, NULL, on_close };

static void
open_end(struct end *e, struct ev_loop *loop, int fd, const struct noise_conf *noise, bool initiator)
{
	struct chan_conf conf = {
		.loop = loop, .events = &end_events, .ctx = e, .name = "end", .body_max = 1 << 20, .out_max = 1 << 20,
		.noise = noise, .initiator = initiator,
	};

	*e = (struct end){ .c = chan_new(fd, &conf) };
}

static void
pair(int fds[2])
{
	TV_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
}

/* A small and a large frame from a to b; true when both arrived. */
static bool
exchange(const struct noise_conf *noise)
{
	static uint8_t body[300000];
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct end a, b;
	int fds[2];
	bool ok;

	pair(fds);
	open_end(&a, loop, fds[0], noise, true);
	open_end(&b, loop, fds[1], noise, false);
	if (a.c != NULL) {
		(void)chan_send(a.c, MSG_OP, 0, 1, span_of(body, 10));
		(void)chan_send(a.c, MSG_OP, 0, 2, span_of(body, sizeof(body)));
	}
	while (b.frames < 2 && a.c != NULL && b.c != NULL)
		ev_run(loop, EVRUN_NOWAIT);
	ok = b.frames == 2;
	while (!ok && a.c != NULL)		/* the other end learns of it */
		ev_run(loop, EVRUN_NOWAIT);
	chan_free(a.c);
	chan_free(b.c);
	ev_loop_destroy(loop);
	return ok;
}

static bool
clear(void)
{
	return exchange(NULL);
}

static bool
sealed(void)
{
	struct noise_conf conf = { .pattern = NOISE_NNPSK0, .psks = &psk, .psk_count = 1 };

	return exchange(&conf);
}

static void
count_done(void *ctx, enum tv_err err, struct span body)
{
	unsigned *count = ctx;

	(void)err, (void)body;
	++*count;
}

/* 40 calls, answered in two parts each; every call that was taken ends exactly once. */
static bool
pending(void)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct calls *t = calls_new(loop, 100, 1000);
	unsigned done = 0, taken = 0;
	struct end a;
	int fds[2];

	pair(fds);
	open_end(&a, loop, fds[0], NULL, false);
	for (int i = 0; t != NULL && a.c != NULL && i < 40; i++) {
		enum tv_err err = TV_OK;
		uint64_t id = calls_start(t, a.c, 1, span_str("question"), MONO_S(60), count_done, &done, &err);

		TV_ASSERT((id != 0) == (err == TV_OK));
		if (id == 0)
			continue;
		taken++;
		TV_ASSERT(calls_frame(t, &(struct frame){ 1, FRAME_REPLY | FRAME_MORE, id, span_str("a") }) == TV_OK);
		TV_ASSERT(calls_frame(t, &(struct frame){ 1, FRAME_REPLY, id, span_str("b") }) == TV_OK);
		TV_ASSERT(done == taken);
	}
	TV_ASSERT(t == NULL || calls_pending(t) == 0);
	calls_free(t);
	chan_free(a.c);
	close(fds[1]);
	ev_loop_destroy(loop);
	return taken == 40;
}

static void
note_up(void *ctx, struct chan *c)
{
	(void)c;
	*(bool *)ctx = true;
}

/* A dialer gets through in the end, whatever one attempt lacked. */
static bool
dialing(void)
{
	static const struct chan_events events = { .on_frame = on_frame };
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct sockaddr_in in;
	socklen_t len = sizeof(in);
	bool up = false;
	int fd = listen_tcp("127.2.0.1", 0);
	struct dialer_conf conf = {
		.chan = { .loop = loop, .events = &events, .ctx = &up, .name = "d", .body_max = 100, .out_max = 1000 },
		.ip = "127.2.0.1", .backoff_max = MONO_MS(5), .on_up = note_up,
	};
	struct dialer *d;

	TV_ASSERT(fd >= 0 && getsockname(fd, (struct sockaddr *)&in, &len) == 0);
	conf.port = ntohs(in.sin_port);
	d = dialer_new(&conf);
	while (d != NULL && !up)
		ev_run(loop, EVRUN_ONCE);
	dialer_free(d);
	close(fd);
	ev_loop_destroy(loop);
	return up;
}

int
main(void)
{
	static const struct { const char *name; bool (*run)(void); } scenarios[] = {
		{ "buffers", buffers }, { "arenas", arenas }, { "members", members }, { "channel", clear },
		{ "link", sealed }, { "calls", pending }, { "dialer", dialing },
	};

	if (sodium_init() < 0)
		return 1;
	log_init("check", LOG_LVL_ERR, LOG_TO_STDERR);
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		each_fault(scenarios[i].run);
		printf("ok %s\n", scenarios[i].name);
	}
	return 0;
}
