/*
 * The next write-ahead file, made ready before it is needed.
 *
 * Appending to a growing file makes every sync change the file's size, which costs a journal transaction of the file
 * system beside the data: twice the time and twice the processor of overwriting what is there.  So the file that
 * follows the current one is filled with zeros and synced in the background, and Berkeley DB, which opens what it finds
 * under the name, then only overwrites.  Recovery takes zeros for the end of a file.
 *
 * A spare that was never written to must not be there when an environment is recovered: it would be taken for a
 * damaged log.  And its name must be durable before anything is committed into it: so while it gets the name the writer
 * waits (s->naming).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/file.h"
#include "raftd/store/store_int.h"

#define SPARE_TEMP "spare"
#define CHUNK_BYTES (1u << 20)		/* synced at a time, so that commits do not wait behind all of it */
#define PLENTY 8			/* files of this size must fit: a nearly full disk has better uses for its space */
#define HEAD_BYTES 64
#define TRANSACTION_BYTES (9u << 20)	/* hardly one is larger; see BATCH_BYTES in store_log.c */
#define PATH_BYTES 4400

/* Zeros up to size, on disk. */
static bool
fill(int fd, uint64_t size)
{
	uint8_t *zeros = calloc(1, CHUNK_BYTES);
	uint64_t at = 0;

	while (zeros != NULL && at < size) {
		size_t n = size - at < CHUNK_BYTES ? (size_t)(size - at) : CHUNK_BYTES;

		if (pwrite(fd, zeros, n, (off_t)at) != (ssize_t)n || fdatasync(fd) != 0)
			break;
		at += n;
	}
	free(zeros);
	return at == size;
}

static bool
make_temp(const char *path, uint64_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	bool whole;

	if (fd == -1)
		return false;
	whole = fill(fd, size) && fsync(fd) == 0;
	(void)close(fd);
	return whole;
}

/* Number of the file that is being written; 0: not known. */
static uint32_t
current_file(struct store_env *env)
{
	DB_LOG_STAT *st;
	uint32_t file;

	if (env->dbenv->log_stat(env->dbenv, &st, 0) != 0)
		return 0;
	file = st->st_cur_file;
	free(st);
	return file;
}

void
store_file_path(const char *dir, uint32_t number, char *path, size_t cap)
{
	snprintf(path, cap, "%s/log.%010u", dir, (unsigned)number);
}

/* The writer waits meanwhile, so the log cannot get there by itself. */
static void
give_name(struct log_store *s, const char *temp, uint32_t file)
{
	char path[PATH_BYTES];

	store_file_path(s->env.dir, file, path, sizeof(path));
	pthread_mutex_lock(&s->lock);
	s->naming = true;
	pthread_mutex_unlock(&s->lock);
	if (current_file(&s->env) + 1 == file && renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE) == 0 &&
	    file_sync_dir(s->env.dir) != TV_OK)
		(void)unlink(path);
	pthread_mutex_lock(&s->lock);
	s->naming = false;
	pthread_cond_signal(&s->named);
	pthread_mutex_unlock(&s->lock);
}

static bool
plenty(const struct log_store *s)
{
	struct statvfs v;

	return statvfs(s->env.dir, &v) == 0 && (uint64_t)v.f_bavail * v.f_frsize >= PLENTY * (uint64_t)s->spare_bytes;
}

void
store_spare_make(struct log_store *s)
{
	uint32_t next = current_file(&s->env) + 1;
	char temp[PATH_BYTES], path[PATH_BYTES];

	if (next == 1 || next == s->spare_file || !plenty(s))
		return;
	s->spare_file = next;			/* one try */
	store_file_path(s->env.dir, next, path, sizeof(path));
	snprintf(temp, sizeof(temp), "%s/" SPARE_TEMP, s->env.dir);
	if (access(path, F_OK) == 0)
		return;
	if (make_temp(temp, s->spare_bytes))
		give_name(s, temp, next);
	(void)unlink(temp);			/* gone already when all went well */
}

/* Could the next transaction find no room in the file in use? */
static bool
may_end_soon(struct log_store *s)
{
	DB_LOG_STAT *st;
	bool soon;

	if (s->env.dbenv->log_stat(s->env.dbenv, &st, 0) != 0)
		return false;
	soon = (uint64_t)st->st_cur_offset + TRANSACTION_BYTES > st->st_lg_size;
	free(st);
	return soon;
}

/*
 * A server that begins in spite of it stops with its first writes, and with each start again, until the service manager gives up.  Where
 * statvfs(3) sees that the disk is full no writes come, and reads go on, so what it sees is not asked for here.
 */
enum tv_err
store_spare_try(struct log_store *s, char *errbuf, size_t cap)
{
	char temp[PATH_BYTES];
	int fd, why = 0;

	if (!may_end_soon(s))
		return TV_OK;
	snprintf(temp, sizeof(temp), "%s/" SPARE_TEMP, s->env.dir);
	fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd == -1 || (plenty(s) && fallocate(fd, 0, 0, s->file_bytes) != 0))
		why = errno;
	if (fd != -1) {
		(void)close(fd);
		(void)unlink(temp);		/* the next start removes it too */
	}
	if (why != ENOSPC && why != EDQUOT)
		return TV_OK;			/* whatever else it is, writing will tell */
	snprintf(errbuf, cap, "no space for the next file of the log in %s: %s", s->env.dir, strerror(why));
	errno = why;
	return TV_ENOSPACE;
}

static bool
is_blank(const char *path)
{
	uint8_t head[HEAD_BYTES];
	bool blank;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd == -1)
		return false;
	blank = read(fd, head, sizeof(head)) == (ssize_t)sizeof(head);
	for (size_t i = 0; blank && i < sizeof(head); i++)
		blank = head[i] == 0;
	(void)close(fd);
	return blank;
}

enum tv_err
store_spare_clear(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *de;
	enum tv_err err = TV_OK;

	if (d == NULL)
		return errno == ENOENT ? TV_OK : TV_ESYS;
	while (err == TV_OK && (de = readdir(d)) != NULL) {
		char path[PATH_BYTES];
		bool spare = strcmp(de->d_name, SPARE_TEMP) == 0;

		if ((!spare && strncmp(de->d_name, "log.", 4) != 0) || strlen(dir) + 300 > sizeof(path))
			continue;
		snprintf(path, sizeof(path), "%s/%.255s", dir, de->d_name);
		if ((spare || is_blank(path)) && unlink(path) != 0)
			err = TV_ESYS;
	}
	closedir(d);
	return err;
}
