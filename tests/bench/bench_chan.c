/*
 * Round trips per second through channels: a child process echoes, this one asks.
 *
 *	bench_chan [SECONDS]		per line; default 1
 *
 * Not part of `make check`: build it with `make tests/bench/bench_chan`.
 */
#include "config.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/calls.h"
#include "common/net/msg.h"
#include "common/net/noise.h"

#define BENCH_ADDR "127.2.0.9"

static struct key psk = { { 1, 2, 3 } };

enum carrier { UNIX_CLEAR, TCP_CLEAR, TCP_NOISE };

struct bench {
	struct ev_loop *loop;
	struct chan *c;
	struct calls *calls;
	struct span body;
	struct mono start, end;
	unsigned long done;
	bool over;
};

static const struct noise_conf noise = { .pattern = NOISE_NNPSK0, .psks = &psk, .psk_count = 1 };

static struct chan_conf
conf_of(struct ev_loop *loop, const struct chan_events *events, void *ctx, enum carrier carrier)
{
	return (struct chan_conf){
		.loop = loop, .events = events, .ctx = ctx, .name = "bench", .body_max = 2 << 20, .out_max = 512 << 20,
		.noise = carrier == TCP_NOISE ? &noise : NULL,
	};
}

/* -- the child -------------------------------------------------------------------- */

static enum tv_err
echo(void *ctx, struct chan *c, const struct frame *f)
{
	(void)ctx;
	return chan_send(c, f->type, FRAME_REPLY, f->id, f->body);
}

static void
leave(void *ctx, struct chan *c, enum tv_err why)
{
	(void)c, (void)why;
	ev_break(ctx, EVBREAK_ALL);
}

/* Serves one connection. */
static _Noreturn void
child(int listening, enum carrier carrier)
{
	static const struct chan_events events = { echo, NULL, leave };
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct chan_conf conf = conf_of(loop, &events, loop, carrier);
	int fd, flags;

	flags = fcntl(listening, F_GETFL);
	TV_ASSERT(fcntl(listening, F_SETFL, flags & ~O_NONBLOCK) == 0);
	fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	TV_ASSERT(fd >= 0 && chan_new(fd, &conf) != NULL);
	ev_run(loop, 0);
	_exit(0);
}

/* -- the asker -------------------------------------------------------------------- */

static void ask(struct bench *b);

static void
on_done(void *ctx, enum tv_err err, struct span body)
{
	struct bench *b = ctx;

	if (err != TV_OK)
		return;
	TV_ASSERT(body.len == b->body.len);
	b->done++;
	if ((b->done & 63) == 0 && mono_before(b->end, clock_mono()))
		b->over = true;
	if (b->over)
		ev_break(b->loop, EVBREAK_ALL);
	else
		ask(b);
}

static void
ask(struct bench *b)
{
	enum tv_err err;

	TV_ASSERT(calls_start(b->calls, b->c, MSG_OP, b->body, MONO_S(30), on_done, b, &err) != 0);
}

static enum tv_err
on_answer(void *ctx, struct chan *c, const struct frame *f)
{
	(void)c;
	return calls_frame(((struct bench *)ctx)->calls, f);
}

static void
on_open(void *ctx, struct chan *c)
{
	(void)c;
	ev_break(((struct bench *)ctx)->loop, EVBREAK_ALL);
}

static void
on_close(void *ctx, struct chan *c, enum tv_err why)
{
	(void)ctx, (void)c;
	fprintf(stderr, "closed: %s\n", tv_strerror(why));
	exit(1);
}

static double
cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	    (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static struct chan *
dial(enum carrier carrier, int listening, const char *path, const struct chan_conf *conf)
{
	struct sockaddr_in in;
	socklen_t len = sizeof(in);

	if (carrier == UNIX_CLEAR)
		return chan_dial_unix(path, conf);
	TV_ASSERT(getsockname(listening, (struct sockaddr *)&in, &len) == 0);
	return chan_dial_tcp(BENCH_ADDR, ntohs(in.sin_port), conf);
}

static void
run(enum carrier carrier, size_t body_len, unsigned depth, double seconds)
{
	static const char *const names[] = { "unix", "tcp", "tcp noise" };
	static const struct chan_events events = { on_answer, on_open, on_close };
	static uint8_t body[1 << 20];
	struct bench b = { .loop = ev_loop_new(EVFLAG_AUTO), .body = span_of(body, body_len) };
	struct chan_conf conf = conf_of(b.loop, &events, &b, carrier);
	char path[64];
	double cpu, took;
	int fd;
	pid_t pid;

	snprintf(path, sizeof(path), "/tmp/bench-chan-%ld.sock", (long)getpid());
	fd = carrier == UNIX_CLEAR ? listen_unix(path, 0600, (gid_t)-1) : listen_tcp(BENCH_ADDR, 0);
	TV_ASSERT(fd >= 0);
	pid = fork();
	TV_ASSERT(pid >= 0);
	if (pid == 0)
		child(fd, carrier);
	conf.initiator = true;
	b.calls = calls_new(b.loop, depth, 2 << 20);
	b.c = dial(carrier, fd, path, &conf);
	TV_ASSERT(b.c != NULL);
	ev_run(b.loop, 0);
	b.start = clock_mono();
	b.end = mono_add(b.start, (struct mono){ (int64_t)(seconds * 1e9) });
	cpu = cpu_seconds();
	for (unsigned i = 0; i < depth; i++)
		ask(&b);
	ev_run(b.loop, 0);
	took = mono_seconds(mono_sub(clock_mono(), b.start));
	cpu = cpu_seconds() - cpu;
	printf("%-10s %7zu bytes  %5u at a time  %9.0f/s  %8.1f MB/s each way  %6.2f us cpu each\n", names[carrier],
	    body_len, depth, (double)b.done / took, (double)b.done * (double)body_len / took / 1e6, cpu * 1e6 / (double)b.done);
	chan_free(b.c);
	calls_free(b.calls);
	ev_loop_destroy(b.loop);
	close(fd);
	unlink(path);
	waitpid(pid, NULL, 0);
}

int
main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1.0;

	if (sodium_init() < 0)
		return 1;
	log_init("bench", LOG_LVL_WARN, LOG_TO_STDERR);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (enum carrier carrier = UNIX_CLEAR; carrier <= TCP_NOISE; carrier++) {
		run(carrier, 200, 1, seconds);
		run(carrier, 200, 64, seconds);
		run(carrier, 200, 1024, seconds);
		run(carrier, 1 << 20, 4, seconds);
	}
	return 0;
}
