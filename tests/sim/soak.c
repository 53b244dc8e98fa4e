/*
 * The Raft simulator for as many seeds as wanted, on several processes; stops at nothing.
 *
 *   soak [--seeds N] [--from S] [--jobs J] [--minutes M] [--failures FILE]
 *
 *     --seeds     how many (10000)                       --from      the first (the clock's: each soak plays others)
 *     --jobs      processes (as many as there are CPUs)  --minutes   begins no seed after that time
 *     --failures  where failing seeds go, a line "SEED PLAN why" each, as in tests/data/raft/seeds.txt (soak-failures.txt)
 *
 * Status: 0 none failed, 1 some did, 2 usage or trouble.  A seed that crashes its process counts as failed.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "tests/sim/raft_run.h"

#define JOBS_MAX 64
#define BATCH 20		/* seeds between two reports */

struct report {			/* of a process, through its pipe */
	uint64_t next;		/* the seed that it begins with now; 0: it is done */
	uint64_t failed;	/* seed that failed; 0: none since the last report */
	struct totals totals;	/* since the last report */
	char why[400];
};

struct job {
	pid_t pid;
	int fd;			/* -1: done */
	uint64_t first, last;	/* seeds first, first + jobs, ... up to last */
	uint64_t current;	/* it has begun this or one of the BATCH that follow */
};

struct soak {
	uint64_t seeds, from;
	int jobs;
	struct mono end;	/* MONO_NEVER: none */
	const char *path;
	FILE *failures;
	struct job job[JOBS_MAX];
	struct totals totals;
	uint64_t failed;
	struct mono began, shown;
};

/* -- one process */

static void
send_report(int fd, struct report *r)
{
	const char *p = (const char *)r;
	size_t left = sizeof(*r);

	while (left > 0) {
		ssize_t n = write(fd, p, left);

		if (n < 0 && errno != EINTR)
			_exit(2);
		if (n > 0) {
			p += n;
			left -= (size_t)n;
		}
	}
	*r = (struct report){ .next = r->next };
}

static void
work(const struct soak *s, const struct job *j, int fd)
{
	struct report r = { .next = j->first };
	unsigned since = 0;

	for (uint64_t seed = j->first; seed <= j->last && mono_before(clock_mono(), s->end); seed += (uint64_t)s->jobs) {
		if (since++ % BATCH == 0) {
			r.next = seed;
			send_report(fd, &r);
		}
		if (!run_seed(seed, NULL, NULL, &r.totals, r.why, sizeof(r.why))) {
			r.failed = seed;
			send_report(fd, &r);
		}
	}
	r.next = 0;
	send_report(fd, &r);
	_exit(0);
}

static bool
start(struct soak *s, struct job *j)
{
	int ends[2];

	if (pipe(ends) != 0)
		return false;
	j->pid = fork();
	if (j->pid < 0)
		return false;
	if (j->pid == 0) {
		close(ends[0]);
		work(s, j, ends[1]);
	}
	close(ends[1]);
	j->fd = ends[0];
	j->current = j->first;
	return true;
}

/* -- all of them */

static void
note_failure(struct soak *s, uint64_t seed, const char *why)
{
	s->failed++;
	if (s->failures == NULL)
		s->failures = fopen(s->path, "a");
	if (s->failures != NULL) {
		fprintf(s->failures, "%" PRIu64 " %d %s\n", seed, PLAN_VERSION, why);
		fflush(s->failures);
	}
	printf("%sFAIL seed %" PRIu64 " %s\n", isatty(1) ? "\r\033[K" : "", seed, why);
	fflush(stdout);
}

static void
show(struct soak *s, bool last)
{
	struct mono now = clock_mono(), every = isatty(1) ? MONO_MS(200) : MONO_S(60);
	double took = mono_seconds(mono_sub(now, s->began));

	if (!last && mono_before(now, mono_add(s->shown, every)))
		return;
	s->shown = now;
	printf("%s%" PRIu64 " of %" PRIu64 " seeds in %.0f s, %" PRIu64 " failed%s", isatty(1) ? "\r\033[K" : "",
	    s->totals.runs, s->seeds, took, s->failed, last || !isatty(1) ? "\n" : "");
	fflush(stdout);
}

/* One of the seeds from j->current on ended its process: it goes on behind them. */
static void
crashed(struct soak *s, struct job *j, int status)
{
	char why[100];

	snprintf(why, sizeof(why), "the process ended with status %#x, at this seed or one of the %d that follow in steps of %d",
	    status, BATCH - 1, s->jobs);
	note_failure(s, j->current, why);
	j->first = j->current + (uint64_t)(BATCH * s->jobs);
	if (j->first > j->last || !start(s, j))
		j->fd = -1;
}

/* False: the pipe has ended. */
static bool
read_report(int fd, struct report *r)
{
	char *p = (char *)r;
	size_t left = sizeof(*r);

	while (left > 0) {
		ssize_t n = read(fd, p, left);

		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		if (n > 0) {
			p += n;
			left -= (size_t)n;
		}
	}
	return true;
}

static void
hear(struct soak *s, struct job *j)
{
	struct report r;
	int status = 0;

	if (!read_report(j->fd, &r)) {
		close(j->fd);
		(void)waitpid(j->pid, &status, 0);
		crashed(s, j, status);
		return;
	}
	totals_add(&s->totals, &r.totals);
	if (r.failed != 0)
		note_failure(s, r.failed, r.why);
	if (r.next != 0) {
		j->current = r.next;
		return;
	}
	close(j->fd);
	j->fd = -1;
	(void)waitpid(j->pid, &status, 0);
}

static bool
listen_to_all(struct soak *s)
{
	struct pollfd fds[JOBS_MAX];
	int open = 0;

	for (int i = 0; i < s->jobs; i++) {
		fds[i] = (struct pollfd){ .fd = s->job[i].fd, .events = POLLIN };
		open += s->job[i].fd >= 0;
	}
	if (open == 0)
		return false;
	if (poll(fds, (nfds_t)s->jobs, 1000) < 0 && errno != EINTR)
		return false;
	for (int i = 0; i < s->jobs; i++)
		if (s->job[i].fd >= 0 && (fds[i].revents & (POLLIN | POLLHUP)) != 0)
			hear(s, &s->job[i]);
	show(s, false);
	return true;
}

static bool
read_arguments(int argc, char **argv, struct soak *s)
{
	static const struct option options[] = {
		{ "seeds", required_argument, NULL, 'n' }, { "from", required_argument, NULL, 's' },
		{ "jobs", required_argument, NULL, 'j' }, { "minutes", required_argument, NULL, 'm' },
		{ "failures", required_argument, NULL, 'f' }, { NULL, 0, NULL, 0 },
	};
	int opt;

	*s = (struct soak){ .seeds = 10000, .from = (uint64_t)(clock_wall_ns() / 1000), .jobs = (int)sysconf(_SC_NPROCESSORS_ONLN), .end = MONO_NEVER,
		.path = "soak-failures.txt" };
	while ((opt = getopt_long(argc, argv, "n:s:j:m:f:", options, NULL)) != -1) {
		if (opt == 'n')
			s->seeds = strtoull(optarg, NULL, 0);
		else if (opt == 's')
			s->from = strtoull(optarg, NULL, 0);
		else if (opt == 'j')
			s->jobs = atoi(optarg);
		else if (opt == 'm')
			s->end = mono_add(clock_mono(), MONO_S(60 * atoll(optarg)));
		else if (opt == 'f')
			s->path = optarg;
		else
			return false;
	}
	return optind == argc && s->jobs > 0 && s->jobs <= JOBS_MAX && s->seeds > 0 && s->from > 0;
}

int
main(int argc, char **argv)
{
	static struct soak s;

	if (!read_arguments(argc, argv, &s)) {
		fprintf(stderr, "usage: soak [--seeds N] [--from S] [--jobs J] [--minutes M] [--failures FILE]\n");
		return 2;
	}
	printf("first seed %" PRIu64 "\n", s.from);
	fflush(stdout);
	s.began = s.shown = clock_mono();
	for (int i = 0; i < s.jobs; i++)
		s.job[i] = (struct job){ .fd = -1, .first = s.from + (uint64_t)i, .last = s.from + s.seeds - 1 };
	for (int i = 0; i < s.jobs; i++)
		if (s.job[i].first <= s.job[i].last && !start(&s, &s.job[i])) {
			perror("soak");
			return 2;
		}
	while (listen_to_all(&s))
		;
	show(&s, true);
	totals_print(&s.totals, stdout);
	if (s.failed > 0)
		printf("failing seeds: %s\n", s.path);
	return s.failed > 0 ? 1 : 0;
}
