/* Berkeley DB environments: opening, recovery, error texts. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "raftd/store/bdb/store_behind.h"
#include "raftd/store/bdb/store_env.h"
#include "raftd/store/bdb/store_fetch.h"

#define CACHE_BYTES_DEFAULT (4u << 20)
#define CACHE_BYTES_MIN (256u << 10)

/* What the system said is in the text only, once the environment has panicked. */
static void
note_errno(struct store_env *env, const char *msg)
{
	static const int numbers[] = { ENOSPC, EDQUOT, EIO, EROFS, EACCES, EMFILE, ENFILE };
	int none = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strstr(msg, strerror(numbers[i])) != NULL)
			(void)atomic_compare_exchange_strong(&env->sys, &none, numbers[i]);
}

static void
on_message(const DB_ENV *dbenv, const char *prefix UNUSED, const char *msg)
{
	struct store_env *env = dbenv->app_private;

	if (store_was_refused())		/* a page, for which the thread comes again */
		return;
	if (!atomic_exchange(&env->told, true))	/* the first says why, the rest is consequences */
		snprintf(env->message, sizeof(env->message), "%s", msg);
	note_errno(env, msg);
	if (strstr(msg, "checksum error") != NULL || strstr(msg, "checksum mismatch") != NULL ||
	    strstr(msg, "Invalid log file") != NULL ||
	    strstr(msg, "illegal page type") != NULL)
		env->damaged = true;
}

static int
configure(struct store_env *env, const struct store_env_options *opt)
{
	DB_ENV *e = env->dbenv;
	uint64_t cache = opt->cache_bytes == 0 ? CACHE_BYTES_DEFAULT : opt->cache_bytes;
	int ret;

	if (cache < CACHE_BYTES_MIN)
		cache = CACHE_BYTES_MIN;
	e->app_private = env;
	e->set_errcall(e, on_message);
	if ((ret = e->set_lg_bsize(e, opt->log_buffer_bytes)) != 0)
		return ret;
	if ((ret = e->set_lg_max(e, opt->log_file_bytes)) != 0 || opt->log_only)
		return ret;
	if ((ret = e->set_cachesize(e, (uint32_t)(cache >> 30), (uint32_t)(cache & ((1u << 30) - 1)), 1)) != 0)
		return ret;
	if ((ret = e->set_tmp_dir(e, opt->dir)) != 0)	/* no other place may be written to */
		return ret;
	if (opt->readers && (ret = e->set_lk_detect(e, DB_LOCK_MINWRITE)) != 0)
		return ret;
	/* Written behind, a checkpoint is not durable as soon as Berkeley DB thinks so: its caller removes files. */
	return opt->behind != NULL ? 0 : e->log_set_config(e, DB_LOG_AUTO_REMOVE, 1);
}

/*
 * The head of a write-ahead file is a record like any other: previous one, length, checksum.  Berkeley DB sums up as many
 * bytes as a damaged length says, beyond its buffer.  What is all zeros was not written yet.
 */
#define HEAD_RECORD_BYTES 28u

static bool
is_sound_head(const char *dir, const char *name)
{
	uint32_t head[3] = { 0 };
	char path[4400];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	n = fd == -1 ? 0 : pread(fd, head, sizeof(head), 0);

	if (fd != -1)
		(void)close(fd);
	if (n < (ssize_t)sizeof(head) || (head[0] == 0 && head[1] == 0 && head[2] == 0))
		return true;			/* whatever is wrong then is seen by Berkeley DB */
	return head[1] == HEAD_RECORD_BYTES || head[1] == __builtin_bswap32(HEAD_RECORD_BYTES);
}

/* False with a sentence: the head of a write-ahead file is damaged. */
static bool
has_sound_heads(const char *path, char *errbuf, size_t cap)
{
	DIR *d = opendir(path);
	struct dirent *de;
	bool sound = true;

	if (d == NULL)
		return true;
	while (sound && (de = readdir(d)) != NULL) {
		sound = strncmp(de->d_name, "log.", 4) != 0 || is_sound_head(path, de->d_name);
		if (!sound)
			snprintf(errbuf, cap, "cannot open the data base in %s: the head of %s is damaged", path, de->d_name);
	}
	closedir(d);
	return sound;
}

enum tv_err
store_env_open(struct store_env *env, const struct store_env_options *opt, char *errbuf, size_t cap)
{
	const uint32_t flags = DB_CREATE | DB_PRIVATE | DB_THREAD | DB_INIT_LOG |
	    (opt->log_only ? 0 : DB_RECOVER | DB_INIT_MPOOL | DB_INIT_TXN) | (opt->readers ? DB_INIT_LOCK : 0);
	enum tv_err err;
	int ret;

	memset(env, 0, sizeof(*env));
	ret = mkdir(opt->dir, 0700) == -1 && errno != EEXIST ? errno : 0;
	err = store_env_err(env, ret);
	if (err == TV_OK && file_sync_parent(opt->dir) != TV_OK) {
		ret = errno;
		err = TV_ESYS;			/* whatever number it has */
	}
	if (err != TV_OK) {
		snprintf(errbuf, cap, "cannot create %s: %s", opt->dir, strerror(ret));
		errno = ret;
		return err;
	}
	if (!has_sound_heads(opt->dir, errbuf, cap))
		return TV_ECORRUPT;
	env->dir = strdup(opt->dir);
	if (env->dir == NULL)
		return TV_ENOMEM;
	store_hooks_set();
	if (opt->behind != NULL && (err = store_behind_new(opt->dir, opt->behind, &env->behind)) != TV_OK) {
		store_env_close(env);
		return err;
	}
	ret = store_dir_settle(opt->dir) == TV_OK ? db_env_create(&env->dbenv, 0) : errno;
	if (ret == 0)
		ret = configure(env, opt);
	store_recovery(true);
	if (ret == 0)
		ret = env->dbenv->open(env->dbenv, opt->dir, flags, 0600);
	store_recovery(false);
	if (ret == 0)
		return TV_OK;
	err = store_env_is_damage(env, ret) ? TV_ECORRUPT : store_env_err(env, ret);
	env->code = ret;
	snprintf(errbuf, cap, "cannot open the data base in %s: %s%s%s%s", opt->dir, db_strerror(ret),
	    env->message[0] != '\0' ? ": " : "", env->message, ret == EACCES ?
	    " (all files there must belong to raftd's user: chown -R them, as after a copy made by root)" : "");
	store_env_close(env);
	errno = ret > 0 ? ret : env->sys != 0 ? env->sys : EIO;
	return err;
}

void
store_env_close(struct store_env *env)
{
	if (env->dbenv != NULL)
		(void)env->dbenv->close(env->dbenv, 0);	/* nothing can be done about a failure: the log has it all */
	env->dbenv = NULL;
	store_behind_free(env->behind);
	env->behind = NULL;
	free(env->dir);
	env->dir = NULL;
}

int
store_db_form(DB *db)
{
	int ret = db->set_pagesize(db, STORE_PAGE_BYTES);

	return ret != 0 ? ret : db->set_flags(db, DB_CHKSUM);
}

static int
open_db(struct store_env *env, const char *file, uint32_t flags, DB **out)
{
	DB *db;
	int ret = db_create(&db, env->dbenv, 0);

	if (ret != 0)
		return ret;
	ret = store_db_form(db);
	if (ret == 0 && flags != 0)
		ret = db->set_flags(db, flags);
	if (ret == 0)
		ret = db->open(db, NULL, file, NULL, DB_BTREE, DB_THREAD | DB_AUTO_COMMIT, 0600);
	if (ret != 0)
		(void)db->close(db, DB_NOSYNC);	/* it never opened */
	else
		*out = db;
	return ret;
}

int
store_env_db(struct store_env *env, const char *file, bool create, DB **out)
{
	DB *db = NULL;
	int ret = create ? store_file_make(env->dir, file) : 0;

	if (ret == 0)
		ret = open_db(env, file, 0, &db);
	if (ret == 0 && create)		/* the first write-ahead file is made by the first flush: not while all wait for it */
		ret = env->dbenv->log_flush(env->dbenv, NULL);
	if (ret != 0 && db != NULL)
		(void)db->close(db, DB_NOSYNC);	/* nothing is in it */
	if (ret == 0)
		*out = db;
	return ret;
}

int
store_env_db_sparse(struct store_env *env, const char *file, DB **out)
{
	return open_db(env, file, DB_REVSPLITOFF, out);
}

bool
store_env_is_damage(const struct store_env *env, int ret)
{
	if (env->damaged)
		return true;
	if (env->sys != 0)
		return false;
	return ret == EINVAL || ret == DB_RUNRECOVERY || ret == DB_VERIFY_BAD || ret == DB_LOG_VERIFY_BAD ||
	    ret == DB_PAGE_NOTFOUND || ret == DB_OLD_VERSION || ret == DB_NOTFOUND;
}

enum tv_err
store_env_err(const struct store_env *env, int ret)
{
	if (ret == 0)
		return TV_OK;
	if (ret == DB_RUNRECOVERY && env->sys != 0)
		ret = env->sys;
	if (env->damaged || ret == DB_PAGE_NOTFOUND || ret == DB_VERIFY_BAD || ret == DB_LOG_VERIFY_BAD)
		return TV_ECORRUPT;
	errno = ret > 0 ? ret : EIO;
	if (ret == ENOSPC || ret == EDQUOT)
		return TV_ENOSPACE;
	return ret == ENOMEM ? TV_ENOMEM : TV_ESYS;
}

void
store_env_forget_room(struct store_env *env)
{
	int sys = atomic_load(&env->sys);

	if ((sys == ENOSPC || sys == EDQUOT) && atomic_compare_exchange_strong(&env->sys, &sys, 0))
		atomic_store(&env->told, false);
}

void
store_env_allocate(struct store_env *env)
{
	DB_LOG_STAT *st;
	char path[4200];
	struct stat file;
	int fd;

	if (env->dbenv->log_stat(env->dbenv, &st, 0) != 0)
		return;
	snprintf(path, sizeof(path), "%s/log.%010u", env->dir, st->st_cur_file);
	fd = st->st_cur_file == env->allocated ? -1 : open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd != -1) {
		if (fstat(fd, &file) == 0 && file.st_size > 0)
			(void)fallocate(fd, 0, 0, file.st_size);	/* Berkeley DB made it as large as it becomes */
		env->allocated = st->st_cur_file;
		close(fd);
	}
	free(st);
}

uint64_t
store_dir_holes(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *de;
	uint64_t holes = 0;
	struct stat st;

	if (d == NULL)
		return 0;
	while ((de = readdir(d)) != NULL)
		if (strncmp(de->d_name, "log.", 4) == 0 && fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (uint64_t)st.st_size > (uint64_t)st.st_blocks * 512)
			holes += (uint64_t)st.st_size - (uint64_t)st.st_blocks * 512;
	closedir(d);
	return holes;
}
