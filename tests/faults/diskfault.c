/*
 * diskfault.so: a disk that fails, hangs or is slow, for one process, while it runs.
 *
 *     TV_DISKFAULT=control-file LD_PRELOAD=diskfault.so raftd ...
 *
 * Preloaded, it stands before the C library's file calls, knows by the path what kind of file each descriptor is, and
 * obeys the control file (diskfault.h) at once.  Held back calls wait with nanosleep, which a daemon's own sandbox
 * allows, and look again every 2 ms, so that a change of mind of the test is followed.
 *
 * Errors of writes: ENOSPC and EDQUOT hit what needs space (data, growing, making files and folders), any other errno
 * hits renaming, cutting and removing as well.
 *
 * Nothing of this is in the daemons.
 */
#define _GNU_SOURCE
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "tests/faults/diskfault.h"

#define FDS 65536
#define LOOK_NS 2000000

static _Atomic uint32_t *control;	/* NULL: everything is let through */
static _Atomic uint8_t kinds[FDS];	/* enum diskfault_kind of each open file */

/* The call of this name in the library behind this one. */
#define REAL(name_) \
	static __typeof__(name_) *real; \
	if (real == NULL) \
		real = (__typeof__(name_) *)dlsym(RTLD_NEXT, #name_)

__attribute__((constructor)) static void
attach(void)
{
	const char *path = getenv("TV_DISKFAULT");
	void *at;
	int fd;

	if (path == NULL)
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && geteuid() != 0)
		return;			/* a helper, behind the walls of its daemon: faults are that one's */
	at = fd < 0 ? MAP_FAILED : mmap(NULL, DISKFAULT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (at == MAP_FAILED)
		abort();		/* a test without its faults would prove nothing */
	control = at;
	atomic_store(&control[DISKFAULT_PID], (uint32_t)getpid());
	atomic_fetch_add(&control[DISKFAULT_ATTACHED], 1);
}

static _Atomic uint32_t *
field(enum diskfault_kind k, enum diskfault_field f)
{
	return &control[(unsigned)k * (DISKFAULT_BLOCK / 4) + (unsigned)f];
}

/* -- what kind of file -- */

static enum diskfault_kind
kind_of_path(const char *path)
{
	const char *p = control == NULL ? NULL : strstr(path, "/raftd");
	size_t n = strlen(path);

	if (control != NULL && strstr(path, "/rpcd/") != NULL && n > 4 && strcmp(path + n - 4, ".log") == 0)
		return DISKFAULT_TRAIL;
	for (; p != NULL; p = strstr(p + 1, "/raftd")) {
		const char *rest = p + 6;

		if (strncmp(rest, "/log", 4) == 0 && (rest[4] == '/' || rest[4] == '\0'))
			return DISKFAULT_LOG;
		if (strncmp(rest, "/state", 6) == 0 && strchr("/.", rest[6]) != NULL)	/* its end counts too */
			return strstr(rest, "/log.") != NULL ? DISKFAULT_STATE_LOG : DISKFAULT_STATE;
		if (strncmp(rest, "/snapshot", 9) == 0 || strncmp(rest, "/install", 8) == 0 ||
		    rest[0] == '\0' || strcmp(rest, "/.") == 0)
			return DISKFAULT_SNAPSHOT;
	}
	return DISKFAULT_OTHER;
}

static enum diskfault_kind
kind_of_fd(int fd)
{
	return control == NULL || fd < 0 || fd >= FDS ? DISKFAULT_OTHER : (enum diskfault_kind)kinds[fd];
}

/* Whose faults a write or a sync of it meets. */
static enum diskfault_kind
written(enum diskfault_kind k)
{
	return k == DISKFAULT_STATE_LOG ? DISKFAULT_STATE : k;
}

/* -- faults -- */

/* False: there was none left. */
static bool
take_one(_Atomic uint32_t *left)
{
	uint32_t n = atomic_load(left);

	while (n != 0 && n != DISKFAULT_ALWAYS && !atomic_compare_exchange_weak(left, &n, n - 1))
		;
	return n != 0;
}

/* Takes one of the failures that are left; 0 when there is none. */
static int
failure(enum diskfault_kind k, enum diskfault_field number, enum diskfault_field count)
{
	if (!take_one(field(k, count)))
		return 0;
	atomic_fetch_add(field(k, DISKFAULT_FAILED), 1);
	return (int)atomic_load(field(k, number));
}

static void
nap(void)
{
	const struct timespec ts = { .tv_nsec = LOOK_NS };

	(void)nanosleep(&ts, NULL);
}

static void
hang(enum diskfault_kind k, uint32_t bit)
{
	if ((atomic_load(field(k, DISKFAULT_HANG)) & bit) == 0)
		return;
	atomic_fetch_add(field(k, DISKFAULT_HUNG), 1);
	atomic_fetch_add(field(k, DISKFAULT_HANGING), 1);
	while ((atomic_load(field(k, DISKFAULT_HANG)) & bit) != 0)
		nap();
	atomic_fetch_sub(field(k, DISKFAULT_HANGING), 1);
}

static uint64_t
now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* As long as the test says, also when it says otherwise meanwhile. */
static void
delay(enum diskfault_kind k, enum diskfault_field ms, enum diskfault_field counter)
{
	uint64_t began;

	if (atomic_load(field(k, ms)) == 0)
		return;
	began = now_ms();
	while (now_ms() - began < atomic_load(field(k, ms)))
		nap();
	atomic_fetch_add(field(k, counter), 1);
}

/* True, with errno, when this sync must fail. */
static bool
sync_fails(enum diskfault_kind of)
{
	enum diskfault_kind k = written(of);
	int err;

	if (k == DISKFAULT_OTHER)
		return false;
	hang(k, DISKFAULT_HANG_SYNC);
	delay(k, DISKFAULT_SYNC_DELAY_MS, DISKFAULT_DELAYED);
	err = failure(k, DISKFAULT_SYNC_ERRNO, DISKFAULT_SYNC_COUNT);
	if (err == 0)
		atomic_fetch_add(field(k, DISKFAULT_SYNCS), 1);
	errno = err != 0 ? err : errno;
	return err != 0;
}

enum need { NEEDS_NOTHING, NEEDS_SPACE, NEEDS_INODE };

static bool
could_fail(enum diskfault_kind k, enum need need)
{
	uint32_t number = atomic_load(field(k, DISKFAULT_WRITE_ERRNO));

	if (atomic_load(field(k, DISKFAULT_WRITE_COUNT)) == 0)
		return false;
	if (atomic_load(field(k, DISKFAULT_WRITE_MAKING)) != 0)
		return need == NEEDS_INODE;
	return need != NEEDS_NOTHING || (number != ENOSPC && number != EDQUOT);
}

/* The same for a write. */
static bool
write_fails(enum diskfault_kind of, enum need need)
{
	enum diskfault_kind k = written(of);
	int err = 0;

	if (k == DISKFAULT_OTHER)
		return false;
	hang(k, DISKFAULT_HANG_WRITE);
	if (could_fail(k, need) && !take_one(field(k, DISKFAULT_WRITE_AFTER)))
		err = failure(k, DISKFAULT_WRITE_ERRNO, DISKFAULT_WRITE_COUNT);
	if (err == 0)
		atomic_fetch_add(field(k, DISKFAULT_WRITES), 1);
	errno = err != 0 ? err : errno;
	return err != 0;
}

static bool
read_fails(enum diskfault_kind k)
{
	int err;

	if (k == DISKFAULT_OTHER)
		return false;
	hang(k, DISKFAULT_HANG_READ);
	if (take_one(field(k, DISKFAULT_READ_DELAY_COUNT)))
		delay(k, DISKFAULT_READ_DELAY_MS, DISKFAULT_READS_DELAYED);
	err = failure(k, DISKFAULT_READ_ERRNO, DISKFAULT_READ_COUNT);
	if (err == 0)
		atomic_fetch_add(field(k, DISKFAULT_READS), 1);
	errno = err != 0 ? err : errno;
	return err != 0;
}

/* -- opening and closing -- */

static bool
making_fails(const char *path, int flags)
{
	return (flags & O_CREAT) != 0 && control != NULL && access(path, F_OK) != 0 &&
	    write_fails(kind_of_path(path), NEEDS_INODE);
}

static int
opened(int fd, const char *path)
{
	if (fd >= 0 && fd < FDS)
		kinds[fd] = (uint8_t)kind_of_path(path);
	return fd;
}

static mode_t
mode_arg(int flags, va_list ap)
{
	return (flags & (O_CREAT | O_TMPFILE)) != 0 ? (mode_t)va_arg(ap, int) : 0;
}

/* open() by each of its names. */
#define OPEN(name_) \
int \
name_(const char *path, int flags, ...) \
{ \
	va_list ap; \
	mode_t mode; \
	REAL(name_); \
\
	va_start(ap, flags); \
	mode = mode_arg(flags, ap); \
	va_end(ap); \
	return making_fails(path, flags) ? -1 : opened(real(path, flags, mode), path); \
}
OPEN(open)
OPEN(open64)

#define OPENAT(name_) \
int \
name_(int dir, const char *path, int flags, ...) \
{ \
	va_list ap; \
	mode_t mode; \
	REAL(name_); \
\
	va_start(ap, flags); \
	mode = mode_arg(flags, ap); \
	va_end(ap); \
	return path[0] == '/' && making_fails(path, flags) ? -1 : opened(real(dir, path, flags, mode), path); \
}
OPENAT(openat)
OPENAT(openat64)

/* Only those that are read: nothing is made by it. */
#define FOPEN(name_) \
FILE * \
name_(const char *path, const char *mode) \
{ \
	REAL(name_); \
	FILE *f = real(path, mode); \
\
	if (f != NULL) \
		(void)opened(fileno(f), path); \
	return f; \
}
FOPEN(fopen)
FOPEN(fopen64)

/* As a checked build calls them: without a mode. */
int __open_2(const char *path, int flags);
int
__open_2(const char *path, int flags)
{
	REAL(__open_2);

	return opened(real(path, flags), path);
}

int __open64_2(const char *path, int flags);
int
__open64_2(const char *path, int flags)
{
	REAL(__open64_2);

	return opened(real(path, flags), path);
}

int
close(int fd)
{
	REAL(close);

	if (fd >= 0 && fd < FDS)
		kinds[fd] = DISKFAULT_OTHER;
	return real(fd);
}

int
fclose(FILE *f)
{
	REAL(fclose);
	int fd = fileno(f);

	if (fd >= 0 && fd < FDS)
		kinds[fd] = DISKFAULT_OTHER;
	return real(f);
}

int
dup3(int from, int to, int flags)
{
	REAL(dup3);
	int fd = real(from, to, flags);

	if (fd >= 0 && fd < FDS)
		kinds[fd] = (uint8_t)kind_of_fd(from);
	return fd;
}

/* -- reading and writing -- */

ssize_t
write(int fd, const void *p, size_t n)
{
	REAL(write);

	return write_fails(kind_of_fd(fd), NEEDS_SPACE) ? -1 : real(fd, p, n);
}

ssize_t
writev(int fd, const struct iovec *v, int n)
{
	REAL(writev);

	return write_fails(kind_of_fd(fd), NEEDS_SPACE) ? -1 : real(fd, v, n);
}

#define PWRITE(name_, off_) \
ssize_t \
name_(int fd, const void *p, size_t n, off_ at) \
{ \
	REAL(name_); \
\
	return write_fails(kind_of_fd(fd), NEEDS_SPACE) ? -1 : real(fd, p, n, at); \
}
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t
read(int fd, void *p, size_t n)
{
	REAL(read);

	return read_fails(kind_of_fd(fd)) ? -1 : real(fd, p, n);
}

ssize_t
readv(int fd, const struct iovec *v, int n)
{
	REAL(readv);

	return read_fails(kind_of_fd(fd)) ? -1 : real(fd, v, n);
}

/* What stdio reads and writes it does by itself, so these count as a read and as writes. */
size_t
fread(void *p, size_t size, size_t n, FILE *f)
{
	REAL(fread);

	return read_fails(kind_of_fd(fileno(f))) ? 0 : real(p, size, n, f);
}

size_t
fwrite(const void *p, size_t size, size_t n, FILE *f)
{
	REAL(fwrite);

	return write_fails(kind_of_fd(fileno(f)), NEEDS_SPACE) ? 0 : real(p, size, n, f);
}

int
fflush(FILE *f)
{
	REAL(fflush);

	return f != NULL && write_fails(kind_of_fd(fileno(f)), NEEDS_SPACE) ? EOF : real(f);
}

#define PREAD(name_, off_) \
ssize_t \
name_(int fd, void *p, size_t n, off_ at) \
{ \
	REAL(name_); \
\
	return read_fails(kind_of_fd(fd)) ? -1 : real(fd, p, n, at); \
}
PREAD(pread, off_t)
PREAD(pread64, off64_t)

/* -- size -- */

#define ALLOCATE(name_, off_) \
int \
name_(int fd, int mode, off_ at, off_ n) \
{ \
	REAL(name_); \
\
	return write_fails(kind_of_fd(fd), NEEDS_SPACE) ? -1 : real(fd, mode, at, n); \
}
ALLOCATE(fallocate, off_t)
ALLOCATE(fallocate64, off64_t)

#define POSIX_ALLOCATE(name_, off_) \
int \
name_(int fd, off_ at, off_ n) \
{ \
	REAL(name_); \
\
	return write_fails(kind_of_fd(fd), NEEDS_SPACE) ? errno : real(fd, at, n); \
}
POSIX_ALLOCATE(posix_fallocate, off_t)
POSIX_ALLOCATE(posix_fallocate64, off64_t)

#define TRUNCATE(name_, off_) \
int \
name_(int fd, off_ n) \
{ \
	REAL(name_); \
\
	return write_fails(kind_of_fd(fd), NEEDS_NOTHING) ? -1 : real(fd, n); \
}
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

/* -- syncs -- */

int
fsync(int fd)
{
	REAL(fsync);

	return sync_fails(kind_of_fd(fd)) ? -1 : real(fd);
}

int
fdatasync(int fd)
{
	REAL(fdatasync);

	return sync_fails(kind_of_fd(fd)) ? -1 : real(fd);
}

/* -- names -- */

int
mkdir(const char *path, mode_t mode)
{
	REAL(mkdir);

	return control != NULL && access(path, F_OK) != 0 && write_fails(kind_of_path(path), NEEDS_INODE) ? -1 : real(path, mode);
}

int
rename(const char *from, const char *to)
{
	REAL(rename);

	return write_fails(kind_of_path(from), NEEDS_NOTHING) ? -1 : real(from, to);
}

int
unlink(const char *path)
{
	REAL(unlink);

	return write_fails(kind_of_path(path), NEEDS_NOTHING) ? -1 : real(path);
}
