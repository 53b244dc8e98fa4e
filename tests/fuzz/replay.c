/*
 * Plain main for a fuzz target: feeds it files, so that `make check` covers the seeds and every past
 * crash on machines without a fuzzer.
 *
 *	replay_X [-m MUTATIONS] [FILE | DIRECTORY]...
 *
 * Without arguments it replays tests/fuzz/corpus/X of the source tree, X from its own name.  Each input is
 * given as it is, cut at every length (short ones), and with MUTATIONS seeded changes (default 200): the
 * same bytes on every machine.  Of a target whose runs take milliseconds (it defines fuzz_share) a share of these.
 * Inputs lie in memory of exactly their size, so that sanitizers see each byte read too far.  Exit 1 when there was
 * nothing to replay.
 */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/rng.h"

#define INPUT_BYTES_MAX (1u << 20)
#define CUT_BYTES_MAX 1024u	/* inputs up to this long are tried at every length */
#define MUTATIONS_DEFAULT 200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const unsigned fuzz_share __attribute__((weak));	/* one of so many runs; a fuzzer reaches the others */

struct replay {
	unsigned mutations;
	unsigned share;
	unsigned long files, runs;
};

/* What is running, for the line that a crash leaves; a signal handler has no context argument. */
static char current[512];

static void
on_crash(int sig)
{
	(void)!write(STDERR_FILENO, current, strlen(current));
	signal(sig, SIG_DFL);
	raise(sig);
}

static void
run(struct replay *r, const uint8_t *bytes, size_t len)
{
	uint8_t *exact = malloc(len > 0 ? len : 1);

	if (exact == NULL)
		abort();
	if (len > 0)
		memcpy(exact, bytes, len);
	(void)LLVMFuzzerTestOneInput(exact, len);
	free(exact);
	r->runs++;
}

/* One to four changes: a flipped bit, a byte that often matters, bytes repeated or removed. */
static size_t
mutate(struct rng *rng, uint8_t *p, size_t len, size_t cap)
{
	static const uint8_t edges[] = { 0, 1, 0x7f, 0x80, 0xc1, 0xdb, 0xdd, 0xdf, 0xfe, 0xff };

	for (uint64_t n = 1 + rng_below(rng, 4); n > 0 && len > 0; n--) {
		size_t at = (size_t)rng_below(rng, len), some;

		switch (rng_below(rng, 4)) {
		case 0:
			p[at] ^= (uint8_t)(1u << rng_below(rng, 8));
			break;
		case 1:
			p[at] = edges[rng_below(rng, sizeof(edges))];
			break;
		case 2:
			some = (size_t)rng_below(rng, (len - at < 16 ? len - at : 16) + 1);
			if (len + some <= cap) {
				memmove(p + at + some, p + at, len - at);
				len += some;
			}
			break;
		default:
			some = (size_t)rng_below(rng, (len - at < 16 ? len - at : 16) + 1);
			memmove(p + at, p + at + some, len - at - some);
			len -= some;
		}
	}
	return len;
}

static void
replay_bytes(struct replay *r, const char *name, const uint8_t *bytes, size_t len)
{
	size_t cap = len + 64;
	uint8_t *work = malloc(cap);
	struct rng rng;

	if (work == NULL)
		abort();
	snprintf(current, sizeof(current), "crash in %s, as it is\n", name);
	run(r, bytes, len);
	for (size_t n = 0; n < len && len <= CUT_BYTES_MAX; n += r->share) {
		snprintf(current, sizeof(current), "crash in %s, cut to %zu bytes\n", name, n);
		run(r, bytes, n);
	}
	for (unsigned m = 0; m < r->mutations; m += r->share) {
		snprintf(current, sizeof(current), "crash in %s, mutation %u\n", name, m);
		rng_seed(&rng, m);
		memcpy(work, bytes, len);
		run(r, work, mutate(&rng, work, len, cap));
	}
	free(work);
}

static int
replay_file(struct replay *r, const char *path)
{
	uint8_t *bytes = malloc(INPUT_BYTES_MAX);
	FILE *f = fopen(path, "rb");
	size_t len;

	if (f == NULL || bytes == NULL) {
		perror(path);
		free(bytes);
		return -1;
	}
	len = fread(bytes, 1, INPUT_BYTES_MAX, f);
	fclose(f);
	replay_bytes(r, path, bytes, len);
	free(bytes);
	r->files++;
	return 0;
}

static int
replay_path(struct replay *r, const char *path)
{
	char child[4096];
	struct stat st;
	struct dirent *e;
	DIR *d;
	int rc = 0;

	if (stat(path, &st) < 0) {
		perror(path);
		return -1;
	}
	if (!S_ISDIR(st.st_mode))
		return replay_file(r, path);
	d = opendir(path);
	if (d == NULL) {
		perror(path);
		return -1;
	}
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(child, sizeof(child), "%s/%s", path, e->d_name);
		rc |= replay_path(r, child);
	}
	closedir(d);
	return rc;
}

/* ".../replay_frame" names tests/fuzz/corpus/frame. */
static int
replay_own_corpus(struct replay *r, const char *program)
{
	char path[4096];
	const char *base = strrchr(program, '/');

	base = base != NULL ? base + 1 : program;
	if (strncmp(base, "replay_", 7) != 0) {
		fprintf(stderr, "%s: name a file or a directory\n", program);
		return -1;
	}
	snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/%s", TV_SRCDIR, base + 7);
	return replay_path(r, path);
}

int
main(int argc, char **argv)
{
	struct replay r = { .mutations = MUTATIONS_DEFAULT, .share = &fuzz_share != NULL ? fuzz_share : 1 };
	int opt, rc = 0;

	while ((opt = getopt(argc, argv, "m:")) != -1) {
		if (opt != 'm')
			return 2;
		r.mutations = (unsigned)strtoul(optarg, NULL, 10);
	}
	signal(SIGABRT, on_crash);
	signal(SIGPIPE, SIG_IGN);
	if (optind == argc)
		rc = replay_own_corpus(&r, argv[0]);
	for (int i = optind; i < argc; i++)
		rc |= replay_path(&r, argv[i]);
	printf("%lu inputs, %lu runs\n", r.files, r.runs);
	return rc != 0 || r.files == 0;
}
