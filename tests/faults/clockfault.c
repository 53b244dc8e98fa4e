/*
 * clockfault.so: clocks that jump, and that run too fast or too slow, for the processes of one node, while they run.
 *
 *     TV_CLOCKFAULT=control-file LD_PRELOAD=clockfault.so raftd ...
 *
 * Preloaded, it stands before clock_gettime, gettimeofday and time, and obeys the control file (clockfault.h) at once.
 * CLOCK_MONOTONIC never goes back in one process, whatever the test says.  What the kernel measures (a timeout of epoll,
 * a sleep) stays right: a daemon whose clock runs slow finds that it was woken early, as on a machine with such a clock
 * it would find that others are fast.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "tests/faults/clockfault.h"

#define SECOND 1000000000LL

static _Atomic int64_t *control;	/* NULL: the clocks are right */
static _Atomic int64_t latest;		/* that CLOCK_MONOTONIC showed */

/* What the test wants, at one moment. */
struct wish {
	int64_t wall, ppm, from, base;
};

__attribute__((constructor)) static void
attach(void)
{
	const char *path = getenv("TV_CLOCKFAULT");
	void *at;
	int fd;

	if (path == NULL)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && geteuid() != 0)
		return;			/* a helper, behind the walls of its daemon: faults are that one's */
	at = fd < 0 ? MAP_FAILED : mmap(NULL, CLOCKFAULT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (at == MAP_FAILED)
		abort();		/* a test without its faults would prove nothing */
	control = at;
}

static int
real_clock(clockid_t id, struct timespec *ts)
{
	static int (*real)(clockid_t, struct timespec *);

	if (real == NULL)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	return real(id, ts);
}

static struct wish
read_wish(void)
{
	struct wish w;
	int64_t seq;

	do {
		seq = atomic_load(&control[CLOCKFAULT_SEQ]);
		w = (struct wish){
			.wall = atomic_load(&control[CLOCKFAULT_WALL_NS]),
			.ppm = atomic_load(&control[CLOCKFAULT_RATE_PPM]),
			.from = atomic_load(&control[CLOCKFAULT_FROM_NS]),
			.base = atomic_load(&control[CLOCKFAULT_BASE_NS]),
		};
	} while ((seq & 1) != 0 || seq != atomic_load(&control[CLOCKFAULT_SEQ]));
	atomic_fetch_add(&control[CLOCKFAULT_READS], 1);
	return w;
}

/* The time of our CLOCK_MONOTONIC at the real one's `now`. */
static int64_t
monotonic(int64_t now)
{
	struct wish w = read_wish();
	int64_t since = now - w.from;
	int64_t t = w.base + since + since / 1000000 * w.ppm + since % 1000000 * w.ppm / 1000000;
	int64_t before = atomic_load(&latest);

	while (t > before && !atomic_compare_exchange_weak(&latest, &before, t))
		;
	return t > before ? t : before;
}

static bool
is_wall(clockid_t id)
{
	return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
}

static bool
is_monotonic(clockid_t id)
{
	return id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_MONOTONIC_RAW ||
	    id == CLOCK_BOOTTIME;
}

int
clock_gettime(clockid_t id, struct timespec *ts)
{
	int64_t ns;
	int r;

	/* All kinds of it are one clock, or those who compare them would see nonsense. */
	r = real_clock(control != NULL && is_monotonic(id) ? CLOCK_MONOTONIC : id, ts);
	if (r != 0 || control == NULL || (!is_wall(id) && !is_monotonic(id)))
		return r;
	ns = ts->tv_sec * SECOND + ts->tv_nsec;
	ns = is_wall(id) ? ns + read_wish().wall : monotonic(ns);
	ts->tv_sec = ns / SECOND;
	ts->tv_nsec = ns % SECOND;
	return 0;
}

int
gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts = { 0 };

	(void)zone;
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *out)
{
	struct timespec ts = { 0 };

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	if (out != NULL)
		*out = ts.tv_sec;
	return ts.tv_sec;
}
