#include "load.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUCKETS_PER_OCTAVE 16
#define WARM_UP MONO_S(1)

static const struct {
	const char *name;
	enum load_mode mode;
} MODES[] = {
	{ "put", LOAD_PUT }, { "fill", LOAD_FILL }, { "get", LOAD_GET }, { "consistent", LOAD_CONSISTENT },
	{ "stale", LOAD_STALE },
};

/* -- latencies: 16 logarithmic buckets per doubling of nanoseconds -- */

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
percentile_us(const struct load *l, double p)
{
	uint64_t want = (uint64_t)((double)l->done * p), seen = 0;

	for (unsigned i = 0; i < LOAD_BUCKETS; i++)
		if ((seen += l->histogram[i]) > want)
			return bucket_us(i);
	return 0;
}

/* -- options -- */

static _Noreturn void
usage(const struct load *l)
{
	fprintf(stderr, "usage: %s [-c CLIENTS] [-m CLIENTS_PER_CONNECTION] [-s SECONDS] [-k KEYS] [-b VALUE_BYTES] [-p PATH] "
	    "[-t TOKEN] [-a CA_FILE] [-j] put|fill|get|consistent|stale IP:PORT...\n", l->program);
	exit(2);
}

static void
parse_mode(struct load *l, const char *name)
{
	for (size_t i = 0; i < sizeof(MODES) / sizeof(*MODES); i++)
		if (strcmp(name, MODES[i].name) == 0) {
			l->mode = MODES[i].mode;
			return;
		}
	usage(l);
}

static void
parse_target(struct load *l, char *text)
{
	struct sockaddr_in *t = &l->targets[l->target_count++];
	char *colon = strchr(text, ':');

	if (colon == NULL)
		usage(l);
	*colon = '\0';
	t->sin_family = AF_INET;
	t->sin_port = htons((uint16_t)atoi(colon + 1));
	if (inet_pton(AF_INET, text, &t->sin_addr) != 1)
		usage(l);
}

void
load_init(struct load *l, const char *program, int argc, char **argv)
{
	int opt;

	*l = (struct load){ .program = program, .clients = 64, .per_conn = 1, .seconds = 10, .keys = 100000,
	    .value_bytes = 200 };
	while ((opt = getopt(argc, argv, "c:m:s:k:b:p:t:a:j")) != -1) {
		if (opt == 'c')
			l->clients = (unsigned)atoi(optarg);
		else if (opt == 'm')
			l->per_conn = (unsigned)atoi(optarg);
		else if (opt == 's')
			l->seconds = atof(optarg);
		else if (opt == 'k')
			l->keys = (unsigned)atoi(optarg);
		else if (opt == 'b')
			l->value_bytes = (unsigned)atoi(optarg);
		else if (opt == 'p')
			l->path = optarg;
		else if (opt == 't')
			l->token = optarg;
		else if (opt == 'a')
			l->ca_file = optarg;
		else if (opt == 'j')
			l->json = true;
		else
			usage(l);
	}
	if (optind + 1 >= argc || argc - optind - 1 > LOAD_TARGETS_MAX || l->clients == 0 || l->per_conn == 0 ||
	    l->keys == 0 || l->value_bytes > LOAD_VALUE_MAX)
		usage(l);
	parse_mode(l, argv[optind]);
	for (optind++; optind < argc; optind++)
		parse_target(l, argv[optind]);
	l->loop = ev_default_loop(0);
	rng_seed(&l->rng, (uint64_t)getpid());
	l->began = clock_mono();
	l->count_from = l->mode == LOAD_FILL ? l->began : mono_add(l->began, WARM_UP);
}

/* -- the loop -- */

int
load_connect(const struct load *l, unsigned number)
{
	const struct sockaddr_in *to = &l->targets[number % l->target_count];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)) != 0) {
		perror(l->program);
		exit(1);
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

bool
load_next(struct load *l, char key[LOAD_KEY_CAP], struct mono *sent)
{
	unsigned number;

	if (l->mode == LOAD_FILL && l->filled == l->keys) {
		if (l->under_way == 0)
			ev_break(l->loop, EVBREAK_ALL);
		return false;
	}
	number = l->mode == LOAD_FILL ? l->filled++ : (unsigned)rng_below(&l->rng, l->keys);
	snprintf(key, LOAD_KEY_CAP, "bench/%06u", number);
	l->under_way++;
	*sent = clock_mono();
	return true;
}

/* A server may leave out the write of a value that is there already, so the moment is in the value. */
void
load_value(const struct load *l, struct mono sent, char *out)
{
	for (unsigned i = 0; i < l->value_bytes; i++)
		out[i] = (char)('a' + (i < 12 ? (unsigned)(sent.ns >> (4 * i)) & 15 : i % 26));
}

void
load_answer(struct load *l, struct mono sent, bool ok)
{
	struct mono now = clock_mono();
	int64_t ns = now.ns - sent.ns;

	l->under_way--;
	l->total++;
	if (mono_before(now, l->count_from))
		return;
	l->done++;
	l->errors += !ok;
	l->histogram[bucket_of(ns)]++;
	if (ns > l->worst_ns)
		l->worst_ns = ns;
}

_Noreturn void
load_lost(const struct load *l, const char *why)
{
	fprintf(stderr, "%s: connection lost: %s\n", l->program, why);
	exit(1);
}

static void
end_cb(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)w;
	(void)revents;
	ev_break(loop, EVBREAK_ALL);
}

/* total and cpu_s include the warm-up, so that their quotient is the cost of one operation. */
static void
report(const struct load *l)
{
	double rate = (double)l->done / mono_seconds(mono_sub(l->ended, l->count_from)), p50 = percentile_us(l, 0.5),
	    p99 = percentile_us(l, 0.99), worst = (double)l->worst_ns / 1000, cpu = mono_seconds(clock_cpu());
	unsigned long long errors = l->errors, total = l->total;

	if (l->json)
		printf("{\"rate\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f, \"errors\": %llu, \"total\": %llu, "
		    "\"cpu_s\": %.6f}\n", rate, p50, p99, worst, errors, total, cpu);
	else
		printf("%.0f requests/s  p50 %.0f us  p99 %.0f us  max %.0f us  %llu errors  (generator: %.1f us each)\n", rate, p50,
		    p99, worst, errors, total > 0 ? cpu * 1e6 / (double)total : 0);
}

int
load_run(struct load *l)
{
	if (l->mode != LOAD_FILL) {
		ev_timer_init(&l->end, end_cb, l->seconds + mono_seconds(WARM_UP), 0);
		ev_timer_start(l->loop, &l->end);
	}
	ev_run(l->loop, 0);
	l->ended = clock_mono();
	report(l);
	return l->done > 0 ? 0 : 1;
}
