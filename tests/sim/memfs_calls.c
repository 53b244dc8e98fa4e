/*
 * The C library's file calls, for paths below /mem/ in memory, for all others as ever.
 *
 * The program's own definitions come before those of the C library, for its code and for every shared library it uses;
 * that is how Berkeley DB gets here too, with calls that db_env_set_func_*() does not cover (stat, mkdir, fcntl).
 */
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "tests/sim/memfs_int.h"

#define FD_BASE (1 << 20)
#define FILES_MAX 4096
#define ALIASES_MAX 1024

struct open_file {
	struct memfs_node *node;	/* held; NULL: free */
	char name[MEMFS_NAME_MAX];
	uint64_t at;
	bool append, writable;
	FILE *stream;			/* made by fdopen() or fopen() */
};

static struct open_file files[FILES_MAX];
static int aliases[ALIASES_MAX];	/* of the system's descriptors that dup3() made ours: place in `files`, plus 1 */

static int
fail(int err)
{
	errno = err;
	return -1;
}

/* What the C library would do. */
static void *
real(const char *name)
{
	void *fn = dlsym(RTLD_NEXT, name);

	TV_ASSERT(fn != NULL);
	return fn;
}

static struct open_file *
file_of(int fd)
{
	if (fd >= 0 && fd < ALIASES_MAX && aliases[fd] != 0)
		fd = FD_BASE + aliases[fd] - 1;
	return fd >= FD_BASE && fd < FD_BASE + FILES_MAX && files[fd - FD_BASE].node != NULL ? &files[fd - FD_BASE] : NULL;
}

static bool
is_ours(const char *path)
{
	return strncmp(path, MEMFS_ROOT, strlen(MEMFS_ROOT)) == 0;
}

/* -- paths */

struct place {
	struct memfs *fs;
	struct memfs_node *dir, *node;	/* node NULL: there is none of this name; dir NULL: the root */
	char name[MEMFS_NAME_MAX];
};

/* Next part of a path; its length. */
static size_t
next_part(const char **path)
{
	while (**path == '/')
		(*path)++;
	return strcspn(*path, "/");
}

/* 0 or an errno: ENOENT when a folder on the way is missing. */
static int
look_up(const char *path, struct place *p)
{
	const char *at = path + strlen(MEMFS_ROOT);
	size_t len = next_part(&at);

	*p = (struct place){ .fs = memfs_mounted(at, len) };
	if (p->fs == NULL)
		return ENOENT;
	p->node = p->fs->root;
	for (at += len; (len = next_part(&at)) > 0; at += len) {
		if (p->node == NULL)
			return ENOENT;
		if (!p->node->is_dir)
			return ENOTDIR;
		if (len == 1 && at[0] == '.')
			continue;
		if (len >= sizeof(p->name))
			return ENAMETOOLONG;
		p->dir = p->node;
		memcpy(p->name, at, len);
		p->name[len] = '\0';
		p->node = memfs_find(p->dir, p->name);
	}
	return 0;
}

/* -- opening */

static int
open_node(const struct place *p, int flags)
{
	bool writable = (flags & O_ACCMODE) != O_RDONLY;

	for (int i = 0; i < FILES_MAX; i++) {
		if (files[i].node != NULL)
			continue;
		files[i] = (struct open_file){ .node = p->node, .append = (flags & O_APPEND) != 0, .writable = writable };
		memcpy(files[i].name, p->name, sizeof(files[i].name));
		memfs_hold(p->node);
		p->fs->open_files++;
		return FD_BASE + i;
	}
	return fail(EMFILE);
}

static int
open_ours(const char *path, int flags)
{
	struct place p;
	int err = look_up(path, &p);

	if (err != 0)
		return fail(err);
	if (p.node == NULL && !(flags & O_CREAT))
		return fail(ENOENT);
	if (p.node != NULL && (flags & O_CREAT) && (flags & O_EXCL))
		return fail(EEXIST);
	if (p.node != NULL && (flags & O_DIRECTORY) && !p.node->is_dir)
		return fail(ENOTDIR);
	if (p.node != NULL && p.node->is_dir && (flags & O_ACCMODE) != O_RDONLY)
		return fail(EISDIR);
	if (p.node == NULL)
		err = -memfs_make(p.dir, p.name, false, &p.node);
	else if ((flags & O_TRUNC) && p.node->seen.size > 0)
		err = -memfs_truncate(p.node, p.name, 0);
	return err != 0 ? fail(err) : open_node(&p, flags);
}

int
open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	if (flags & (O_CREAT | __O_TMPFILE)) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	return openat(AT_FDCWD, path, flags, mode);
}

/* A whole path: what is seen from a folder of ours is not simulated. */
int
openat(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	if (flags & (O_CREAT | __O_TMPFILE)) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	TV_ASSERT(dir == AT_FDCWD || file_of(dir) == NULL);
	return is_ours(path) ? open_ours(path, flags) : (int)syscall(SYS_openat, dir, path, flags, mode);
}

int __open_2(const char *path, int flags);
int
__open_2(const char *path, int flags)
{
	return open(path, flags, 0);
}

int
close(int fd)
{
	struct open_file *f = file_of(fd);

	if (f == NULL)
		return (int)syscall(SYS_close, fd);
	f->node->fs->open_files--;
	memfs_drop(f->node);
	f->node = NULL;
	if (fd >= FD_BASE)
		return 0;
	aliases[fd] = 0;
	return (int)syscall(SYS_close, fd);
}

/* A descriptor of the system becomes one of a file of ours; it stays open, so that its number is not given away. */
int
dup3(int from, int to, int flags)
{
	struct open_file *f = file_of(from);

	if (f == NULL)
		return (int)syscall(SYS_dup3, from, to, flags);
	TV_ASSERT(to >= 0 && to < ALIASES_MAX && aliases[to] == 0);
	for (int i = 0; i < FILES_MAX; i++) {
		if (files[i].node != NULL)
			continue;
		files[i] = *f;
		memfs_hold(f->node);
		f->node->fs->open_files++;
		aliases[to] = i + 1;
		return to;
	}
	return fail(EMFILE);
}

int
fcntl(int fd, int cmd, ...)
{
	void *arg;
	va_list ap;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	return file_of(fd) != NULL ? 0 : (int)syscall(SYS_fcntl, fd, cmd, arg);
}

/* -- reading and writing */

ssize_t
pread(int fd, void *bytes, size_t len, off_t at)
{
	struct open_file *f = file_of(fd);

	if (f == NULL)
		return syscall(SYS_pread64, fd, bytes, len, at);
	return f->node->is_dir ? fail(EISDIR) : (ssize_t)memfs_read(f->node, (uint64_t)at, bytes, len);
}

ssize_t
read(int fd, void *bytes, size_t len)
{
	struct open_file *f = file_of(fd);
	ssize_t n;

	if (f == NULL)
		return syscall(SYS_read, fd, bytes, len);
	n = pread(fd, bytes, len, (off_t)f->at);
	if (n > 0)
		f->at += (uint64_t)n;
	return n;
}

ssize_t
pwrite(int fd, const void *bytes, size_t len, off_t at)
{
	struct open_file *f = file_of(fd);
	int err;

	if (f == NULL)
		return syscall(SYS_pwrite64, fd, bytes, len, at);
	if (!f->writable)
		return fail(EBADF);
	err = -memfs_write(f->node, f->name, (uint64_t)at, bytes, len);
	return err != 0 ? fail(err) : (ssize_t)len;
}

ssize_t
write(int fd, const void *bytes, size_t len)
{
	struct open_file *f = file_of(fd);
	ssize_t n;

	if (f == NULL)
		return syscall(SYS_write, fd, bytes, len);
	if (f->append)
		f->at = f->node->seen.size;
	n = pwrite(fd, bytes, len, (off_t)f->at);
	if (n > 0)
		f->at += (uint64_t)n;
	return n;
}

ssize_t __read_chk(int fd, void *bytes, size_t len, size_t cap);
ssize_t
__read_chk(int fd, void *bytes, size_t len, size_t cap)
{
	TV_ASSERT(len <= cap);
	return read(fd, bytes, len);
}

ssize_t __pread_chk(int fd, void *bytes, size_t len, off_t at, size_t cap);
ssize_t
__pread_chk(int fd, void *bytes, size_t len, off_t at, size_t cap)
{
	TV_ASSERT(len <= cap);
	return pread(fd, bytes, len, at);
}

off_t
lseek(int fd, off_t at, int whence)
{
	struct open_file *f = file_of(fd);

	if (f == NULL)
		return (off_t)syscall(SYS_lseek, fd, at, whence);
	if (whence == SEEK_CUR)
		at += (off_t)f->at;
	else if (whence == SEEK_END)
		at += (off_t)f->node->seen.size;
	if (at < 0)
		return fail(EINVAL);
	f->at = (uint64_t)at;
	return at;
}

int
ftruncate(int fd, off_t size)
{
	struct open_file *f = file_of(fd);
	int err;

	if (f == NULL)
		return (int)syscall(SYS_ftruncate, fd, size);
	err = -memfs_truncate(f->node, f->name, (uint64_t)size);
	return err != 0 ? fail(err) : 0;
}

/* Longer files read as zeros; space is not modelled. */
int
posix_fallocate(int fd, off_t at, off_t len)
{
	struct open_file *f = file_of(fd);

	if (f == NULL)
		return syscall(SYS_fallocate, fd, 0, at, len) == -1 ? errno : 0;
	return (uint64_t)(at + len) > f->node->seen.size ? -memfs_truncate(f->node, f->name, (uint64_t)(at + len)) : 0;
}

int
fallocate(int fd, int mode, off_t at, off_t len)
{
	struct open_file *f = file_of(fd);
	int err;

	if (f == NULL)
		return (int)syscall(SYS_fallocate, fd, mode, at, len);
	err = mode != 0 ? EOPNOTSUPP : posix_fallocate(fd, at, len);
	return err != 0 ? fail(err) : 0;
}

int
fdatasync(int fd)
{
	struct open_file *f = file_of(fd);
	int err;

	if (f == NULL)
		return (int)syscall(SYS_fdatasync, fd);
	err = -memfs_sync(f->node, f->name);
	return err != 0 ? fail(err) : 0;
}

int
fsync(int fd)
{
	return file_of(fd) != NULL ? fdatasync(fd) : (int)syscall(SYS_fsync, fd);
}

int
posix_fadvise(int fd, off_t at, off_t len, int advice)
{
	struct open_file *f = file_of(fd);

	if (f == NULL)
		return syscall(SYS_fadvise64, fd, at, len, advice) == -1 ? errno : 0;
	if (advice == POSIX_FADV_DONTNEED)
		memfs_forget(f->node);
	return 0;
}

/* -- names */

int
mkdir(const char *path, mode_t mode)
{
	struct memfs_node *n;
	struct place p;
	int err;

	if (!is_ours(path))
		return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
	err = look_up(path, &p);
	if (err == 0)
		err = p.node != NULL ? EEXIST : -memfs_make(p.dir, p.name, true, &n);
	return err != 0 ? fail(err) : 0;
}

static int
remove_ours(const char *path, bool is_dir)
{
	struct place p;
	int err = look_up(path, &p);

	if (err == 0)
		err = p.dir == NULL ? EBUSY : -memfs_remove(p.dir, p.name, is_dir);
	return err != 0 ? fail(err) : 0;
}

int
unlink(const char *path)
{
	return is_ours(path) ? remove_ours(path, false) : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int
rmdir(const char *path)
{
	return is_ours(path) ? remove_ours(path, true) : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int
unlinkat(int dir, const char *name, int flags)
{
	struct open_file *f = file_of(dir);
	int err;

	if (f == NULL)
		return (int)syscall(SYS_unlinkat, dir, name, flags);
	err = -memfs_remove(f->node, name, (flags & AT_REMOVEDIR) != 0);
	return err != 0 ? fail(err) : 0;
}

int
rename(const char *from, const char *to)
{
	struct place p, q;
	int err;

	if (!is_ours(from))
		return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
	err = look_up(from, &p);
	if (err == 0)
		err = look_up(to, &q);
	if (err == 0)
		err = p.dir == NULL || p.dir != q.dir ? EXDEV : -memfs_move(p.dir, p.name, q.name);
	return err != 0 ? fail(err) : 0;
}

int
renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	struct stat st;

	if (!is_ours(from))
		return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
	TV_ASSERT(from_dir == AT_FDCWD && to_dir == AT_FDCWD && (flags & ~RENAME_NOREPLACE) == 0);
	if ((flags & RENAME_NOREPLACE) && stat(to, &st) == 0)
		return fail(EEXIST);
	return rename(from, to);
}

int
renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	return renameat2(from_dir, from, to_dir, to, 0);
}

/* -- asking */

static void
describe(const struct memfs_node *n, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_dev = 0x6d656d;
	st->st_ino = n->id;
	st->st_mode = n->is_dir ? S_IFDIR | 0700 : S_IFREG | 0600;
	st->st_nlink = 1;
	st->st_uid = geteuid();
	st->st_size = (off_t)n->seen.size;
	st->st_blksize = MEMFS_PAGE;
	st->st_blocks = (blkcnt_t)((n->seen.size + 511) / 512);
}

static int
stat_ours(const char *path, struct stat *st)
{
	struct place p;
	int err = look_up(path, &p);

	if (err == 0 && p.node == NULL)
		err = ENOENT;
	if (err != 0)
		return fail(err);
	describe(p.node, st);
	return 0;
}

int
stat(const char *path, struct stat *st)
{
	return is_ours(path) ? stat_ours(path, st) : (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, 0);
}

int
lstat(const char *path, struct stat *st)
{
	return is_ours(path) ? stat_ours(path, st) :
	    (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

int
fstat(int fd, struct stat *st)
{
	struct open_file *f = file_of(fd);

	if (f == NULL)
		return (int)syscall(SYS_newfstatat, fd, "", st, AT_EMPTY_PATH);
	describe(f->node, st);
	return 0;
}

int
fstatat(int dir, const char *name, struct stat *st, int flags)
{
	struct open_file *f = file_of(dir);
	struct memfs_node *n;

	if (f == NULL)
		return (int)syscall(SYS_newfstatat, dir, name, st, flags);
	n = memfs_find(f->node, name);
	if (n == NULL)
		return fail(ENOENT);
	describe(n, st);
	return 0;
}

int
access(const char *path, int mode)
{
	struct stat st;

	return is_ours(path) ? stat_ours(path, &st) : (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

int
chmod(const char *path, mode_t mode)
{
	struct stat st;

	return is_ours(path) ? stat_ours(path, &st) : (int)syscall(SYS_fchmodat, AT_FDCWD, path, mode);
}

int
fchmod(int fd, mode_t mode)
{
	return file_of(fd) != NULL ? 0 : (int)syscall(SYS_fchmod, fd, mode);
}

static void
describe_space(struct statvfs *v)
{
	memset(v, 0, sizeof(*v));
	v->f_bsize = v->f_frsize = MEMFS_PAGE;
	v->f_blocks = v->f_bfree = v->f_bavail = 1u << 28;
	v->f_files = v->f_ffree = v->f_favail = 1u << 20;
	v->f_namemax = MEMFS_NAME_MAX - 1;
}

int
statvfs(const char *path, struct statvfs *v)
{
	int (*fn)(const char *, struct statvfs *);

	if (is_ours(path)) {
		describe_space(v);
		return 0;
	}
	*(void **)&fn = real("statvfs");
	return fn(path, v);
}

int
fstatvfs(int fd, struct statvfs *v)
{
	int (*fn)(int, struct statvfs *);

	if (file_of(fd) != NULL) {
		describe_space(v);
		return 0;
	}
	*(void **)&fn = real("fstatvfs");
	return fn(fd, v);
}

/* -- listing */

struct listing {			/* what a DIR of ours is */
	uint64_t magic;
	int fd;
	size_t next, count;
	struct dirent *v;		/* as of opendir() */
};
#define LISTING_MAGIC 0x6c697374696e6721u

static struct listing *
listing_of(DIR *d)
{
	struct listing *l = (struct listing *)d;

	return l->magic == LISTING_MAGIC ? l : NULL;
}

static void
fill_listing(struct listing *l, const struct memfs_node *n)
{
	l->count = n->seen_names.n;
	l->v = calloc(l->count + 1, sizeof(l->v[0]));
	TV_ASSERT(l->v != NULL);
	for (size_t i = 0; i < l->count; i++) {
		const struct memfs_entry *e = &n->seen_names.v[i];

		l->v[i].d_ino = e->node->id;
		l->v[i].d_type = e->node->is_dir ? DT_DIR : DT_REG;
		memcpy(l->v[i].d_name, e->name, sizeof(e->name));
	}
}

DIR *
opendir(const char *path)
{
	DIR *(*fn)(const char *);
	struct listing *l;
	int fd;

	if (!is_ours(path)) {
		*(void **)&fn = real("opendir");
		return fn(path);
	}
	fd = open_ours(path, O_RDONLY | O_DIRECTORY);
	if (fd == -1)
		return NULL;
	l = calloc(1, sizeof(*l));
	TV_ASSERT(l != NULL);
	l->magic = LISTING_MAGIC;
	l->fd = fd;
	fill_listing(l, file_of(fd)->node);
	return (DIR *)l;
}

struct dirent *
readdir(DIR *d)
{
	struct listing *l = listing_of(d);
	struct dirent *(*fn)(DIR *);

	if (l != NULL)
		return l->next < l->count ? &l->v[l->next++] : NULL;
	*(void **)&fn = real("readdir");
	return fn(d);
}

int
dirfd(DIR *d)
{
	struct listing *l = listing_of(d);
	int (*fn)(DIR *);

	if (l != NULL)
		return l->fd;
	*(void **)&fn = real("dirfd");
	return fn(d);
}

int
closedir(DIR *d)
{
	struct listing *l = listing_of(d);
	int (*fn)(DIR *);

	if (l == NULL) {
		*(void **)&fn = real("closedir");
		return fn(d);
	}
	(void)close(l->fd);
	free(l->v);
	l->magic = 0;
	free(l);
	return 0;
}

/* -- streams */

static int
cookie_fd(void *cookie)
{
	return FD_BASE + (int)((struct open_file *)cookie - files);
}

static ssize_t
stream_read(void *cookie, char *bytes, size_t len)
{
	return read(cookie_fd(cookie), bytes, len);
}

static ssize_t
stream_write(void *cookie, const char *bytes, size_t len)
{
	ssize_t n = write(cookie_fd(cookie), bytes, len);

	return n < 0 ? 0 : n;		/* as fopencookie() wants it */
}

static int
stream_seek(void *cookie, off64_t *at, int whence)
{
	off_t to = lseek(cookie_fd(cookie), *at, whence);

	*at = to;
	return to == -1 ? -1 : 0;
}

static int
stream_close(void *cookie)
{
	return close(cookie_fd(cookie));
}

FILE *
fdopen(int fd, const char *mode)
{
	static const cookie_io_functions_t fns = { stream_read, stream_write, stream_seek, stream_close };
	struct open_file *f = file_of(fd);
	FILE *(*fn)(int, const char *);

	if (f != NULL)
		return f->stream = fopencookie(f, mode, fns);
	*(void **)&fn = real("fdopen");
	return fn(fd, mode);
}

FILE *
fopen(const char *path, const char *mode)
{
	int flags = mode[0] == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | (mode[0] == 'a' ? O_APPEND : O_TRUNC), fd;
	FILE *(*fn)(const char *, const char *);
	FILE *stream;

	if (!is_ours(path)) {
		*(void **)&fn = real("fopen");
		return fn(path, mode);
	}
	if (strchr(mode, '+') != NULL)
		flags = (flags & ~O_ACCMODE) | O_RDWR;
	fd = open_ours(path, flags);
	if (fd == -1)
		return NULL;
	stream = fdopen(fd, mode);
	if (stream == NULL)
		(void)close(fd);
	return stream;
}

int
fileno(FILE *stream)
{
	int (*fn)(FILE *);

	for (int i = 0; i < FILES_MAX; i++)
		if (files[i].node != NULL && files[i].stream == stream)
			return FD_BASE + i;
	*(void **)&fn = real("fileno");
	return fn(stream);
}
