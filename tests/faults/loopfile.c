/*
 * loopfile.so: ends a daemon whose loop touches a file.
 *
 *     TV_LOOPFILE=data_dir LD_PRELOAD=loopfile.so raftd ...
 *
 * The loop owns sockets, clock and core, never a file: whatever may wait for a disk has a thread of its own.  Preloaded, this stands
 * before the C library's file calls and follows the descriptors.  Once the daemon has said that it serves, and for as long as its
 * first thread is in ev_run(), a call of that thread for a file below data_dir ends the process: a line with the call, the path and
 * where it came from, then abort().  Berkeley DB's calls are seen as all others.
 *
 * TV_LOOPFILE_TELL=1: says each place once, and goes on.
 *
 * Nothing of this is in the daemons.
 */
#include "config.h"
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 8192
#define NAME_BYTES 96		/* of a path below data_dir that are remembered */
#define FRAMES 16
#define PLACES 1024

static char below[4096];		/* data_dir; "": nothing is looked at */
static size_t below_len;
static bool tells;			/* and goes on */
static __thread bool first_thread;
static bool in_loop;			/* of the first thread: only it reads and writes this */
static _Atomic bool serving;
static _Atomic bool followed[FDS];
static char names[FDS][NAME_BYTES];	/* of those */
static uintptr_t places[PLACES];	/* that were told */
static size_t place_count;

/* The call of this name in the library behind this one. */
#define REAL(name_) \
	static __typeof__(name_) *real; \
	if (real == NULL) \
		real = (__typeof__(name_) *)dlsym(RTLD_NEXT, #name_)

__attribute__((constructor)) static void
attach(void)
{
	const char *dir = getenv("TV_LOOPFILE");
	void *frames[2];

	if (dir == NULL || strlen(dir) >= sizeof(below))
		return;
	first_thread = true;
	tells = getenv("TV_LOOPFILE_TELL") != NULL;
	strcpy(below, dir);
	below_len = strlen(dir);
	(void)backtrace(frames, 2);	/* loads what it needs while files can be opened */
#ifndef HAVE_SYSTEMD
	atomic_store(&serving, true);	/* nobody is told; ev_run() comes a little later */
#endif
}

/* -- when -- */

/* The daemon tells systemd how it stands, also where there is none. */
int sd_notify(int unset, const char *state);
int
sd_notify(int unset, const char *state)
{
	REAL(sd_notify);

	if (strstr(state, "READY=1") != NULL && strstr(state, "STATUS=serving") != NULL)
		atomic_store(&serving, true);
	return real != NULL ? real(unset, state) : 0;
}

struct ev_loop;
int ev_run(struct ev_loop *loop, int flags);
int
ev_run(struct ev_loop *loop, int flags)
{
	int ret;
	REAL(ev_run);

	in_loop = first_thread;
	ret = real(loop, flags);
	in_loop = false;
	return ret;
}

static bool
must_not(void)
{
	return first_thread && in_loop && atomic_load(&serving);
}

/* -- what -- */

/* The path below data_dir, or NULL: it is another one. */
static const char *
path_below(const char *path)
{
	if (below_len == 0 || path == NULL || strncmp(path, below, below_len) != 0)
		return NULL;
	return path[below_len] == '/' || path[below_len] == '\0' ? path + below_len : NULL;
}

static const char *
fd_below(int fd)
{
	return below_len > 0 && fd >= 0 && fd < FDS && atomic_load(&followed[fd]) ? names[fd] : NULL;
}

static const char *
at_below(int dir, const char *path)
{
	return path != NULL && (path[0] == '/' || dir == AT_FDCWD) ? path_below(path) : fd_below(dir);
}

static void
follow(int fd, const char *name)
{
	if (below_len == 0 || fd < 0 || fd >= FDS)
		return;
	if (name != NULL)
		memmove(names[fd], name, strnlen(name, NAME_BYTES - 1) + 1);
	names[fd][NAME_BYTES - 1] = '\0';
	atomic_store(&followed[fd], name != NULL);
}

/* Was this way to the call told before? */
static bool
was_told(void *const *frames, int n)
{
	uintptr_t sum = 0;

	for (int i = 0; i < n; i++)
		sum = sum * 31 + (uintptr_t)frames[i];
	for (size_t i = 0; i < place_count; i++)
		if (places[i] == sum)
			return true;
	if (place_count < PLACES)
		places[place_count++] = sum;
	return false;
}

/* name: of the file below data_dir, or NULL: then nothing happens. */
static void
judge(const char *call, const char *name)
{
	void *frames[FRAMES];
	char line[4400];
	int n, depth;

	if (name == NULL || !must_not())
		return;
	in_loop = false;		/* what follows may use files itself */
	depth = backtrace(frames, FRAMES);
	if (!tells || !was_told(frames, depth)) {
		n = snprintf(line, sizeof(line), "loopfile: the loop calls %s for %s%s\n", call, below, name);
		(void)!write(STDERR_FILENO, line, (size_t)n);
		backtrace_symbols_fd(frames, depth, STDERR_FILENO);
		if (!tells)
			abort();
	}
	in_loop = true;
}

#define JUDGE_PATH(path_) judge(__func__, path_below(path_))
#define JUDGE_FD(fd_) judge(__func__, fd_below(fd_))
#define JUDGE_AT(dir_, path_) judge(__func__, at_below(dir_, path_))
#define JUDGE_FILE(f_) JUDGE_FD(fileno(f_))

/* -- opening and closing -- */

static mode_t
mode_arg(int flags, va_list ap)
{
	return (flags & (O_CREAT | O_TMPFILE)) != 0 ? (mode_t)va_arg(ap, int) : 0;
}

#define OPEN(name_) \
int \
name_(const char *path, int flags, ...) \
{ \
	va_list ap; \
	mode_t mode; \
	int fd; \
	REAL(name_); \
\
	va_start(ap, flags); \
	mode = mode_arg(flags, ap); \
	va_end(ap); \
	JUDGE_PATH(path); \
	fd = real(path, flags, mode); \
	follow(fd, path_below(path)); \
	return fd; \
}
OPEN(open)
OPEN(open64)

#define OPENAT(name_) \
int \
name_(int dir, const char *path, int flags, ...) \
{ \
	va_list ap; \
	mode_t mode; \
	int fd; \
	REAL(name_); \
\
	va_start(ap, flags); \
	mode = mode_arg(flags, ap); \
	va_end(ap); \
	JUDGE_AT(dir, path); \
	fd = real(dir, path, flags, mode); \
	follow(fd, at_below(dir, path)); \
	return fd; \
}
OPENAT(openat)
OPENAT(openat64)

/* As a checked build calls them: without a mode. */
#define OPEN_2(name_) \
int name_(const char *path, int flags); \
int \
name_(const char *path, int flags) \
{ \
	int fd; \
	REAL(name_); \
\
	JUDGE_PATH(path); \
	fd = real(path, flags); \
	follow(fd, path_below(path)); \
	return fd; \
}
OPEN_2(__open_2)
OPEN_2(__open64_2)

#define FOPEN(name_) \
FILE * \
name_(const char *path, const char *mode) \
{ \
	FILE *f; \
	REAL(name_); \
\
	JUDGE_PATH(path); \
	f = real(path, mode); \
	if (f != NULL) \
		follow(fileno(f), path_below(path)); \
	return f; \
}
FOPEN(fopen)
FOPEN(fopen64)

int
fclose(FILE *f)
{
	REAL(fclose);

	JUDGE_FILE(f);
	follow(fileno(f), NULL);
	return real(f);
}

DIR *
opendir(const char *path)
{
	DIR *d;
	REAL(opendir);

	JUDGE_PATH(path);
	d = real(path);
	if (d != NULL)
		follow(dirfd(d), path_below(path));
	return d;
}

int
closedir(DIR *d)
{
	REAL(closedir);

	JUDGE_FD(dirfd(d));
	follow(dirfd(d), NULL);
	return real(d);
}

/* The last one of a file that was removed waits until its blocks are given back. */
int
close(int fd)
{
	REAL(close);

	JUDGE_FD(fd);
	follow(fd, NULL);
	return real(fd);
}

int
dup3(int from, int to, int flags)
{
	REAL(dup3);
	int fd = real(from, to, flags);

	if (fd != from)
		follow(fd, fd_below(from));
	return fd;
}

/* -- calls by descriptor -- */

#define BY_FD(type_, name_, params_, args_) \
type_ \
name_ params_ \
{ \
	REAL(name_); \
\
	JUDGE_FD(fd); \
	return real args_; \
}
BY_FD(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n))
BY_FD(ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n))
BY_FD(ssize_t, pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
BY_FD(ssize_t, pread64, (int fd, void *p, size_t n, off64_t at), (fd, p, n, at))
BY_FD(ssize_t, preadv, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
BY_FD(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))
BY_FD(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
BY_FD(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
BY_FD(ssize_t, pwrite64, (int fd, const void *p, size_t n, off64_t at), (fd, p, n, at))
BY_FD(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at))
BY_FD(off_t, lseek, (int fd, off_t at, int from), (fd, at, from))
BY_FD(off64_t, lseek64, (int fd, off64_t at, int from), (fd, at, from))
BY_FD(int, fsync, (int fd), (fd))
BY_FD(int, fdatasync, (int fd), (fd))
BY_FD(int, sync_file_range, (int fd, off64_t at, off64_t n, unsigned flags), (fd, at, n, flags))
BY_FD(int, ftruncate, (int fd, off_t n), (fd, n))
BY_FD(int, ftruncate64, (int fd, off64_t n), (fd, n))
BY_FD(int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
BY_FD(int, fallocate64, (int fd, int mode, off64_t at, off64_t n), (fd, mode, at, n))
BY_FD(int, posix_fallocate, (int fd, off_t at, off_t n), (fd, at, n))
BY_FD(int, posix_fallocate64, (int fd, off64_t at, off64_t n), (fd, at, n))
BY_FD(int, fstat, (int fd, struct stat *st), (fd, st))
BY_FD(int, fstat64, (int fd, struct stat64 *st), (fd, st))
BY_FD(int, fstatvfs, (int fd, struct statvfs *v), (fd, v))
BY_FD(int, fstatvfs64, (int fd, struct statvfs64 *v), (fd, v))
BY_FD(int, fchmod, (int fd, mode_t mode), (fd, mode))
BY_FD(int, flock, (int fd, int op), (fd, op))

#define MMAP(name_, off_) \
void * \
name_(void *p, size_t n, int prot, int flags, int fd, off_ at) \
{ \
	REAL(name_); \
\
	if ((flags & MAP_ANONYMOUS) == 0) \
		JUDGE_FD(fd); \
	return real(p, n, prot, flags, fd, at); \
}
MMAP(mmap, off_t)
MMAP(mmap64, off64_t)

/* -- by stdio, which calls what is inside the C library -- */

size_t
fread(void *p, size_t size, size_t n, FILE *f)
{
	REAL(fread);

	JUDGE_FILE(f);
	return real(p, size, n, f);
}

size_t
fwrite(const void *p, size_t size, size_t n, FILE *f)
{
	REAL(fwrite);

	JUDGE_FILE(f);
	return real(p, size, n, f);
}

int
fflush(FILE *f)
{
	REAL(fflush);

	if (f != NULL)
		JUDGE_FILE(f);
	return real(f);
}

#define READDIR(name_, entry_) \
entry_ * \
name_(DIR *d) \
{ \
	REAL(name_); \
\
	JUDGE_FD(dirfd(d)); \
	return real(d); \
}
READDIR(readdir, struct dirent)
READDIR(readdir64, struct dirent64)

/* -- by name -- */

#define BY_PATH(name_, params_, args_) \
int \
name_ params_ \
{ \
	REAL(name_); \
\
	JUDGE_PATH(path); \
	return real args_; \
}
BY_PATH(stat, (const char *path, struct stat *st), (path, st))
BY_PATH(stat64, (const char *path, struct stat64 *st), (path, st))
BY_PATH(lstat, (const char *path, struct stat *st), (path, st))
BY_PATH(lstat64, (const char *path, struct stat64 *st), (path, st))
BY_PATH(statvfs, (const char *path, struct statvfs *v), (path, v))
BY_PATH(statvfs64, (const char *path, struct statvfs64 *v), (path, v))
BY_PATH(access, (const char *path, int mode), (path, mode))
BY_PATH(truncate, (const char *path, off_t n), (path, n))
BY_PATH(truncate64, (const char *path, off64_t n), (path, n))
BY_PATH(mkdir, (const char *path, mode_t mode), (path, mode))
BY_PATH(rmdir, (const char *path), (path))
BY_PATH(unlink, (const char *path), (path))
BY_PATH(remove, (const char *path), (path))
BY_PATH(chmod, (const char *path, mode_t mode), (path, mode))
BY_PATH(rename, (const char *path, const char *to), (path, to))
BY_PATH(link, (const char *path, const char *to), (path, to))

#define BY_DIR(name_, params_, args_) \
int \
name_ params_ \
{ \
	REAL(name_); \
\
	JUDGE_AT(dir, path); \
	return real args_; \
}
BY_DIR(fstatat, (int dir, const char *path, struct stat *st, int flags), (dir, path, st, flags))
BY_DIR(fstatat64, (int dir, const char *path, struct stat64 *st, int flags), (dir, path, st, flags))
BY_DIR(statx, (int dir, const char *path, int flags, unsigned mask, struct statx *st), (dir, path, flags, mask, st))
BY_DIR(faccessat, (int dir, const char *path, int mode, int flags), (dir, path, mode, flags))
BY_DIR(mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))
BY_DIR(unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
BY_DIR(renameat, (int dir, const char *path, int to_dir, const char *to), (dir, path, to_dir, to))
BY_DIR(renameat2, (int dir, const char *path, int to_dir, const char *to, unsigned flags), (dir, path, to_dir, to, flags))
