/*
 * Many blocking queries at once: kept HTTP connections, each with one query waiting for one key, and writers that wake them.
 *
 *	bench_wait [-k KEYS] [-b VALUE_BYTES] [-w IP:PORT] IP:PORT...
 *
 * Waiter i asks target i % targets for key i % KEYS; writes go to -w's target, else to the first.  Commands come on standard input, one a
 * line; each is answered by a JSON object on a line when it is done:
 *
 *	open N		connections until there are N
 *	fill		every key is written once (the keys must be there before others wait for them)
 *	wait		a query on every connection that has none, from the newest index on; done when all are sent
 *	wake N WRITERS	N writes to the keys in turn, WRITERS at a time.  Done when every waiter of a written key was answered.
 *			Latency is from the writer's answer to the waiter's (0 when the waiter's came first)
 *	again		from now on a query that was answered is asked again at once
 *	drop		closes all connections, every other with a reset
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"

#define IN_BYTES 2048			/* of an answer, with its head */
#define OUT_BYTES 3072
#define TARGETS_MAX 16
#define WRITERS_MAX 256
#define LINE_MAX_BYTES 64

struct bench;

/* One connection with at most one request under way. */
struct conn {
	struct bench *b;
	void (*answered)(struct conn *c, bool ok, uint64_t index);
	ev_io io;
	unsigned number;		/* waiter: its place; writer: the key it writes */
	bool busy;
	uint64_t index;			/* that was asked from */
	size_t in_len;
	char in[IN_BYTES];
};

struct key {
	struct mono acked;		/* of the last write; 0: none, or under way */
	bool writing;
	unsigned missing;		/* waiters that have yet to answer */
};

struct bench {
	struct ev_loop *loop;
	ev_io commands;
	unsigned target_count, key_count, value_bytes, waiter_count, waiter_cap;
	struct sockaddr_in targets[TARGETS_MAX], write_target;
	struct conn **waiters, *writers[WRITERS_MAX];
	struct key *keys;
	uint64_t newest;		/* index */
	bool again;

	/* the round of writes under way */
	unsigned to_write, writing, missing, next_key, sample_count, sample_cap;
	unsigned *samples;		/* microseconds */
	uint64_t errors, answers;
	struct mono began;
};

static _Noreturn void
die(const char *what)
{
	fprintf(stderr, "bench_wait: %s: %s\n", what, errno != 0 ? strerror(errno) : "failed");
	exit(1);
}

/* -- connections -- */

static void
conn_send(struct conn *c, const char *data, size_t len)
{
	/* A small request on an idle connection fits into its buffer. */
	if (send(c->io.fd, data, len, MSG_NOSIGNAL) != (ssize_t)len)
		die("send");
	c->busy = true;
	c->in_len = 0;
}

/* Length of the whole answer at c->in, or 0 while it is not all there. */
static size_t
answer_len(struct conn *c, bool *ok, uint64_t *index)
{
	char *end, *at;

	c->in[c->in_len] = '\0';
	end = strstr(c->in, "\r\n\r\n");
	if (end == NULL)
		return 0;
	*ok = strncmp(c->in + 9, "200", 3) == 0;
	at = strcasestr(c->in, "\r\nx-consul-index:");
	*index = at != NULL && at < end ? strtoull(at + 17, NULL, 10) : 0;
	at = strcasestr(c->in, "\r\ncontent-length:");
	if (at == NULL || at > end)
		die("answer without Content-Length");
	return (size_t)(end - c->in) + 4 + strtoul(at + 17, NULL, 10);
}

static void
on_readable(struct ev_loop *loop, ev_io *w, int revents)
{
	struct conn *c = w->data;
	ssize_t n = recv(w->fd, c->in + c->in_len, sizeof(c->in) - 1 - c->in_len, 0);
	uint64_t index = 0;
	size_t whole;
	bool ok = false;

	(void)revents;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {			/* its server went away */
		ev_io_stop(loop, w);
		c->b->errors++;
		if (c->busy) {
			c->busy = false;
			c->answered(c, false, 0);
		}
		return;
	}
	c->in_len += (size_t)n;
	whole = answer_len(c, &ok, &index);
	if (whole == 0 || c->in_len < whole)
		return;
	c->busy = false;
	c->answered(c, ok, index);
}

static struct conn *
conn_new(struct bench *b, unsigned number, const struct sockaddr_in *to, void (*answered)(struct conn *, bool, uint64_t))
{
	struct conn *c = calloc(1, sizeof(*c));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (c == NULL || fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)) != 0)
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	*c = (struct conn){ .b = b, .number = number, .answered = answered };
	ev_io_init(&c->io, on_readable, fd, EV_READ);
	c->io.data = c;
	ev_io_start(b->loop, &c->io);
	return c;
}

static void
conn_free(struct conn *c, bool reset)
{
	struct linger now = { .l_onoff = 1 };

	if (reset)
		setsockopt(c->io.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	ev_io_stop(c->b->loop, &c->io);
	close(c->io.fd);
	free(c);
}

/* -- the round of writes -- */

static int
by_size(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return (x > y) - (x < y);
}

static void
round_end(struct bench *b)
{
	unsigned n = b->sample_count;

	if (n > 0)
		qsort(b->samples, n, sizeof(*b->samples), by_size);
	printf("{\"answers\": %u, \"p50_us\": %u, \"p99_us\": %u, \"max_us\": %u, \"seconds\": %.4f, \"errors\": %llu}\n", n,
	    n > 0 ? b->samples[n / 2] : 0, n > 0 ? b->samples[n - 1 - n / 100] : 0, n > 0 ? b->samples[n - 1] : 0,
	    mono_seconds(mono_sub(clock_mono(), b->began)), (unsigned long long)b->errors);
	fflush(stdout);
	b->sample_count = 0;
	b->errors = 0;
	ev_io_start(b->loop, &b->commands);
}

static void
maybe_end(struct bench *b)
{
	if (b->to_write == 0 && b->writing == 0 && b->missing == 0 && !ev_is_active(&b->commands))
		round_end(b);
}

static void
sample(struct bench *b, struct mono acked)
{
	int64_t ns = acked.ns == 0 ? 0 : mono_sub(clock_mono(), acked).ns;

	if (b->sample_count == b->sample_cap) {
		b->sample_cap = b->sample_cap * 2 + 1024;
		b->samples = realloc(b->samples, b->sample_cap * sizeof(*b->samples));
		if (b->samples == NULL)
			die("memory");
	}
	b->samples[b->sample_count++] = (unsigned)(ns / 1000);
}

static void
ask(struct conn *c)
{
	char out[256];
	int n = snprintf(out, sizeof(out), "GET /v1/kv/wait/%06u?index=%llu&wait=600s HTTP/1.1\r\nHost: b\r\n\r\n",
	    c->number % c->b->key_count, (unsigned long long)c->b->newest);

	c->index = c->b->newest;
	conn_send(c, out, (size_t)n);
}

static void
on_woken(struct conn *c, bool ok, uint64_t index)
{
	struct bench *b = c->b;
	struct key *k = &b->keys[c->number % b->key_count];

	b->answers++;
	if (!ok || index <= c->index)
		b->errors++;
	if (index > b->newest)
		b->newest = index;
	if (k->missing > 0) {
		k->missing--;
		b->missing--;
		sample(b, k->acked);
	}
	if (b->again && ok)
		ask(c);
	maybe_end(b);
}

/* The next key that is not being written. */
static void
write_next(struct conn *c)
{
	struct bench *b = c->b;
	char out[OUT_BYTES];
	struct mono now = clock_mono();
	size_t n;

	while (b->keys[b->next_key].writing)
		b->next_key = (b->next_key + 1) % b->key_count;
	c->number = b->next_key;
	b->next_key = (b->next_key + 1) % b->key_count;
	b->to_write--;
	b->writing++;
	b->keys[c->number].writing = true;
	b->keys[c->number].acked = (struct mono){ 0 };
	n = (size_t)snprintf(out, sizeof(out), "PUT /v1/kv/wait/%06u HTTP/1.1\r\nHost: b\r\nContent-Length: %u\r\n\r\n", c->number,
	    b->value_bytes);
	for (unsigned i = 0; i < b->value_bytes; i++)
		out[n++] = (char)('a' + (i < 12 ? (unsigned)(now.ns >> (4 * i)) & 15 : i % 26));	/* always another */
	conn_send(c, out, n);
}

static void
on_written(struct conn *c, bool ok, uint64_t index)
{
	struct bench *b = c->b;
	struct key *k = &b->keys[c->number];

	if (index > b->newest)
		b->newest = index;
	b->errors += !ok;
	b->writing--;
	k->writing = false;
	k->acked = clock_mono();
	if (b->to_write > 0)
		write_next(c);
	maybe_end(b);
}

/* Counts the answers that a write of each of the next n keys must bring. */
static void
expect_answers(struct bench *b, unsigned n)
{
	for (unsigned i = 0; i < b->waiter_count; i++) {
		unsigned key = b->waiters[i]->number % b->key_count;
		unsigned distance = (key + b->key_count - b->next_key) % b->key_count;

		if (b->waiters[i]->busy && distance < n) {
			b->keys[key].missing++;
			b->missing++;
		}
	}
}

static void
wake(struct bench *b, unsigned n, unsigned writers)
{
	if (writers > n)
		writers = n;
	if (writers == 0 || writers > WRITERS_MAX || n > b->key_count)
		die("wake: N or WRITERS out of range");
	ev_io_stop(b->loop, &b->commands);
	b->began = clock_mono();
	b->to_write = n;
	expect_answers(b, n);
	for (unsigned i = 0; i < writers; i++) {
		if (b->writers[i] == NULL)
			b->writers[i] = conn_new(b, 0, &b->write_target, on_written);
		write_next(b->writers[i]);
	}
}

/* -- commands -- */

/* The index of all that is there: every later write has a greater one. */
static void
on_index(struct conn *c, bool ok, uint64_t index)
{
	if (!ok)
		die("a key to wait for is not there");
	if (index > c->b->newest)
		c->b->newest = index;
	ev_break(c->b->loop, EVBREAK_ONE);
}

/* Runs the loop until one plain read was answered. */
static void
learn_index(struct bench *b)
{
	/* Numbers have six digits and begin with 0: the answer is one name. */
	static const char out[] = "GET /v1/kv/wait/?keys&separator=0 HTTP/1.1\r\nHost: b\r\n\r\n";
	struct conn *c = conn_new(b, 0, &b->targets[0], on_index);

	ev_io_stop(b->loop, &b->commands);
	conn_send(c, out, sizeof(out) - 1);
	ev_run(b->loop, 0);
	ev_io_start(b->loop, &b->commands);
	conn_free(c, false);
}

static void
open_up_to(struct bench *b, unsigned n)
{
	if (n > b->waiter_cap) {
		b->waiters = realloc(b->waiters, n * sizeof(*b->waiters));
		if (b->waiters == NULL)
			die("memory");
		b->waiter_cap = n;
	}
	for (; b->waiter_count < n; b->waiter_count++)
		b->waiters[b->waiter_count] = conn_new(b, b->waiter_count,
		    &b->targets[b->waiter_count % b->target_count], on_woken);
	printf("{\"open\": %u}\n", b->waiter_count);
}

static void
wait_all(struct bench *b)
{
	learn_index(b);
	for (unsigned i = 0; i < b->waiter_count; i++)
		if (!b->waiters[i]->busy)
			ask(b->waiters[i]);
	printf("{\"waiting\": %u}\n", b->waiter_count);
}

static void
drop(struct bench *b)
{
	while (b->waiter_count > 0) {
		b->waiter_count--;
		conn_free(b->waiters[b->waiter_count], b->waiter_count % 2 == 0);
	}
	for (unsigned i = 0; i < b->key_count; i++)
		b->keys[i].missing = 0;
	b->again = false;
	printf("{\"open\": 0}\n");
}

static void
on_command(struct ev_loop *loop, ev_io *w, int revents)
{
	struct bench *b = w->data;
	char line[LINE_MAX_BYTES];
	ssize_t got = read(STDIN_FILENO, line, sizeof(line) - 1);	/* whoever commands waits for the answer */
	unsigned n = 0, writers = 1;

	(void)revents;
	if (got <= 0) {
		ev_break(loop, EVBREAK_ALL);
		return;
	}
	line[got] = '\0';
	if (sscanf(line, "open %u", &n) == 1)
		open_up_to(b, n);
	else if (strncmp(line, "wait", 4) == 0)
		wait_all(b);
	else if (sscanf(line, "wake %u %u", &n, &writers) >= 1)
		wake(b, n, writers);
	else if (strncmp(line, "fill", 4) == 0)
		wake(b, b->key_count, 64);
	else if (strncmp(line, "again", 5) == 0)
		printf("{\"again\": %s}\n", (b->again = true) ? "true" : "false");
	else if (strncmp(line, "drop", 4) == 0)
		drop(b);
	else
		die("unknown command");
	fflush(stdout);
}

/* -- life -- */

static _Noreturn void
usage(void)
{
	fprintf(stderr, "usage: bench_wait [-k KEYS] [-b VALUE_BYTES] [-w IP:PORT] IP:PORT...\n");
	exit(2);
}

static struct sockaddr_in
parse_target(char *text)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	char *colon = strchr(text, ':');

	if (colon == NULL)
		usage();
	*colon = '\0';
	to.sin_port = htons((uint16_t)atoi(colon + 1));
	if (inet_pton(AF_INET, text, &to.sin_addr) != 1)
		usage();
	return to;
}

static void
parse(struct bench *b, int argc, char **argv)
{
	int opt;

	while ((opt = getopt(argc, argv, "k:b:w:")) != -1) {
		if (opt == 'k')
			b->key_count = (unsigned)atoi(optarg);
		else if (opt == 'b')
			b->value_bytes = (unsigned)atoi(optarg);
		else if (opt == 'w')
			b->write_target = parse_target(optarg);
		else
			usage();
	}
	if (optind == argc || argc - optind > TARGETS_MAX || b->key_count == 0 || b->key_count > 100000 || b->value_bytes < 12 ||
	    b->value_bytes > 1000)
		usage();
	for (; optind < argc; optind++)
		b->targets[b->target_count++] = parse_target(argv[optind]);
	if (b->write_target.sin_port == 0)
		b->write_target = b->targets[0];
}

int
main(int argc, char **argv)
{
	struct bench b = { .key_count = 10000, .value_bytes = 200 };
	struct rlimit files;

	parse(&b, argc, argv);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	b.loop = ev_default_loop(0);
	b.keys = calloc(b.key_count, sizeof(*b.keys));
	if (b.keys == NULL)
		return 1;
	ev_io_init(&b.commands, on_command, STDIN_FILENO, EV_READ);
	b.commands.data = &b;
	ev_io_start(b.loop, &b.commands);
	ev_run(b.loop, 0);
	drop(&b);
	for (unsigned i = 0; i < WRITERS_MAX; i++)
		if (b.writers[i] != NULL)
			conn_free(b.writers[i], false);
	free(b.samples);
	free(b.waiters);
	free(b.keys);
	return 0;
}
