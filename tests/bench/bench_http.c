/*
 * Closed-loop HTTP load: N connections, each with one request under way, to one or more servers with Consul's API.
 *
 *	bench_http [-c CONNECTIONS] [-s SECONDS] [-k KEYS] [-b VALUE_BYTES] put|get|stale IP:PORT...
 *
 * Prints one line: requests/s, p50, p99 and max latency in microseconds, errors.  A first second is not counted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/rng.h"

#define BUCKETS_PER_OCTAVE 16
#define BUCKETS (40 * BUCKETS_PER_OCTAVE)
#define IN_BYTES 65536
#define OUT_BYTES 4096
#define TARGETS_MAX 16

enum mode { MODE_PUT, MODE_GET, MODE_STALE };

struct bench {
	struct ev_loop *loop;
	enum mode mode;
	unsigned conns, keys, value_bytes, target_count;
	double seconds;
	struct sockaddr_in targets[TARGETS_MAX];
	struct rng rng;
	struct mono count_from;
	uint64_t done, errors, histogram[BUCKETS];
	int64_t worst_ns;
	bool stopping;
};

struct conn {
	struct bench *b;
	ev_io io;
	struct mono sent;
	size_t out_len, out_at, in_len;
	char out[OUT_BYTES], in[IN_BYTES];
};

/* Logarithmic buckets: 16 per doubling of nanoseconds. */
static unsigned
bucket_of(int64_t ns)
{
	unsigned octave;

	if (ns < 16)
		ns = 16;
	octave = 63 - (unsigned)__builtin_clzll((unsigned long long)ns);
	return (octave - 4) * BUCKETS_PER_OCTAVE + (unsigned)((ns >> (octave - 4)) & 15);
}

static double
bucket_us(unsigned bucket)
{
	unsigned octave = bucket / BUCKETS_PER_OCTAVE, part = bucket % BUCKETS_PER_OCTAVE;

	return (double)(16 + part) * (double)(1ull << octave) / 1000.0;
}

static double
percentile_us(const struct bench *b, double p)
{
	uint64_t want = (uint64_t)((double)b->done * p), seen = 0;

	for (unsigned i = 0; i < BUCKETS; i++)
		if ((seen += b->histogram[i]) > want)
			return bucket_us(i);
	return 0;
}

static void
next_request(struct conn *c)
{
	struct bench *b = c->b;
	unsigned key = (unsigned)rng_below(&b->rng, b->keys);
	int n;

	if (b->mode == MODE_PUT) {
		n = snprintf(c->out, sizeof(c->out), "PUT /v1/kv/bench/%06u HTTP/1.1\r\nHost: b\r\nContent-Length: %u\r\n\r\n",
		    key, b->value_bytes);
		for (unsigned i = 0; i < b->value_bytes; i++)
			c->out[n++] = (char)('a' + (c->sent.ns + i) % 26);
	} else {
		n = snprintf(c->out, sizeof(c->out), "GET /v1/kv/bench/%06u%s HTTP/1.1\r\nHost: b\r\n\r\n", key,
		    b->mode == MODE_STALE ? "?stale" : "");
	}
	c->out_len = (size_t)n;
	c->out_at = c->in_len = 0;
	c->sent = clock_mono();
}

/* Length of the whole answer that starts at c->in, or 0 while it is not all there. */
static size_t
answer_len(struct conn *c, bool *ok)
{
	char *end, *len;

	c->in[c->in_len] = '\0';
	end = strstr(c->in, "\r\n\r\n");
	if (end == NULL)
		return 0;
	*ok = strncmp(c->in + 9, "200", 3) == 0;
	len = strcasestr(c->in, "\r\ncontent-length:");
	if (len == NULL || len > end) {
		fprintf(stderr, "bench_http: answer without Content-Length\n");
		exit(1);
	}
	return (size_t)(end - c->in) + 4 + strtoul(len + 17, NULL, 10);
}

static void
count_answer(struct conn *c, bool ok)
{
	struct bench *b = c->b;
	struct mono now = clock_mono();
	int64_t ns = now.ns - c->sent.ns;

	if (mono_before(now, b->count_from))
		return;
	b->done++;
	b->errors += !ok;
	b->histogram[bucket_of(ns)]++;
	if (ns > b->worst_ns)
		b->worst_ns = ns;
}

static void
flush_out(struct conn *c)
{
	ssize_t n = send(c->io.fd, c->out + c->out_at, c->out_len - c->out_at, MSG_NOSIGNAL);

	if (n > 0)
		c->out_at += (size_t)n;
	ev_io_stop(c->b->loop, &c->io);
	ev_io_set(&c->io, c->io.fd, c->out_at < c->out_len ? EV_READ | EV_WRITE : EV_READ);
	ev_io_start(c->b->loop, &c->io);
}

static _Noreturn void
lost(void)
{
	fprintf(stderr, "bench_http: connection lost: %s\n", strerror(errno));
	exit(1);
}

static void
io_cb(struct ev_loop *loop, ev_io *w, int revents)
{
	struct conn *c = w->data;
	ssize_t n;
	bool ok = false;
	size_t whole;

	(void)loop;
	if (revents & EV_WRITE)
		flush_out(c);
	if (!(revents & EV_READ))
		return;
	n = recv(w->fd, c->in + c->in_len, sizeof(c->in) - 1 - c->in_len, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		lost();
	c->in_len += (size_t)n;
	whole = answer_len(c, &ok);
	if (whole == 0 || c->in_len < whole)
		return;
	count_answer(c, ok);
	if (c->b->stopping)
		return;
	next_request(c);
	flush_out(c);
}

static void
conn_open(struct conn *c, unsigned number)
{
	struct bench *b = c->b;
	const struct sockaddr_in *to = &b->targets[number % b->target_count];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)) != 0) {
		perror("bench_http: connect");
		exit(1);
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	ev_io_init(&c->io, io_cb, fd, EV_READ | EV_WRITE);
	c->io.data = c;
	next_request(c);
	ev_io_start(b->loop, &c->io);
}

static void
end_cb(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)w;
	(void)revents;
	ev_break(loop, EVBREAK_ALL);
}

static _Noreturn void
usage(void)
{
	fprintf(stderr, "usage: bench_http [-c CONNECTIONS] [-s SECONDS] [-k KEYS] [-b VALUE_BYTES] put|get|stale IP:PORT...\n");
	exit(2);
}

static void
parse(struct bench *b, int argc, char **argv)
{
	int opt;

	while ((opt = getopt(argc, argv, "c:s:k:b:")) != -1) {
		if (opt == 'c')
			b->conns = (unsigned)atoi(optarg);
		else if (opt == 's')
			b->seconds = atof(optarg);
		else if (opt == 'k')
			b->keys = (unsigned)atoi(optarg);
		else if (opt == 'b')
			b->value_bytes = (unsigned)atoi(optarg);
		else
			usage();
	}
	if (optind + 1 >= argc || b->conns == 0 || b->keys == 0 || b->value_bytes > OUT_BYTES - 200)
		usage();
	b->mode = strcmp(argv[optind], "put") == 0 ? MODE_PUT : strcmp(argv[optind], "get") == 0 ? MODE_GET : MODE_STALE;
	for (optind++; optind < argc && b->target_count < TARGETS_MAX; optind++) {
		struct sockaddr_in *t = &b->targets[b->target_count++];
		char *colon = strchr(argv[optind], ':');

		if (colon == NULL)
			usage();
		*colon = '\0';
		t->sin_family = AF_INET;
		t->sin_port = htons((uint16_t)atoi(colon + 1));
		if (inet_pton(AF_INET, argv[optind], &t->sin_addr) != 1)
			usage();
	}
}

int
main(int argc, char **argv)
{
	struct bench b = { .conns = 64, .seconds = 10, .keys = 100000, .value_bytes = 200 };
	struct conn *conns;
	ev_timer end;

	parse(&b, argc, argv);
	b.loop = ev_default_loop(0);
	rng_seed(&b.rng, (uint64_t)getpid());
	conns = calloc(b.conns, sizeof(*conns));
	if (conns == NULL)
		return 1;
	b.count_from = mono_add(clock_mono(), MONO_S(1));
	for (unsigned i = 0; i < b.conns; i++) {
		conns[i].b = &b;
		conn_open(&conns[i], i);
	}
	ev_timer_init(&end, end_cb, b.seconds + 1, 0);
	ev_timer_start(b.loop, &end);
	ev_run(b.loop, 0);
	printf("%.0f requests/s  p50 %.0f us  p99 %.0f us  max %.0f us  %llu errors\n", (double)b.done / b.seconds,
	    percentile_us(&b, 0.5), percentile_us(&b, 0.99), (double)b.worst_ns / 1000, (unsigned long long)b.errors);
	free(conns);
	return b.done > 0 ? 0 : 1;
}
