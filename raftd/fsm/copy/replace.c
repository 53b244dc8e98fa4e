/*
 * A loaded state takes the place of another, so that a crash at any point leaves one good state, and the loop waits for
 * no disk.
 *
 * DIR.new is loaded and marked (restore.c, stage_load.c).  In a thread, while nothing is applied: DIR becomes DIR.old,
 * DIR.new becomes DIR and is opened (the next tables).  The old environment can be read meanwhile, by the files that it has
 * open; what it would do by name would hit the next ones, so it is brought to need none before (displace()).  On the
 * loop only pointers change (replace_take()).  In a thread, afterwards, the old environment is closed and DIR.old goes.
 *
 * restore_finish() at each start completes or undoes what a crash interrupted: a marked DIR.new without a DIR is the
 * state, any other DIR.new is rubbish.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "raftd/fsm/catalog/address.h"
#include "raftd/fsm/copy/copy.h"
#include "raftd/fsm/page/page.h"
#include "raftd/fsm/read/read.h"
#include "raftd/fsm/table/head.h"
#include "raftd/fsm/table/meta.h"

#define MARK "complete"
#define CLOSING_BYTES 4096		/* more of the write-ahead log than closing an environment takes */
#define FILLER_BYTES 1500		/* one record; Berkeley DB cuts it at 2048 */
#define FILLERS_MAX 65536		/* no file was ever that long */

/* -- directories -- */

static bool
exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

/* The mark is made only after everything else in the directory is durable. */
enum tv_err
restore_mark(const char *dir)
{
	char path[4096];
	int fd;

	state_path(path, sizeof(path), dir, "/" MARK);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd == -1)
		return errno == ENOSPC || errno == EDQUOT ? TV_ENOSPACE : TV_ESYS;
	close(fd);
	return file_sync_dir(dir);
}

/* DIR makes room.  On an error it is where it was. */
static enum tv_err
step_aside(const char *dir)
{
	char old[4096];
	enum tv_err err;

	if (!exists(dir))
		return TV_OK;
	state_path(old, sizeof(old), dir, ".old");
	err = state_remove_dir(old);
	if (err != TV_OK)
		return err;
	return rename(dir, old) == -1 ? TV_ESYS : TV_OK;
}

/* DIR.new is complete, and there is no DIR: it becomes DIR. */
static enum tv_err
step_in(const char *dir)
{
	char fresh[4096], mark[4096];
	enum tv_err err;

	state_path(fresh, sizeof(fresh), dir, ".new");
	state_path(mark, sizeof(mark), dir, "/" MARK);
	err = file_rename(fresh, dir);
	if (err != TV_OK)
		return err;
	(void)unlink(mark);			/* left over it does no harm */
	return TV_OK;
}

/* The opposite of both, for a DIR that was not used yet: it becomes DIR.new, without its mark, and DIR.old is DIR again. */
static enum tv_err
step_back(const char *dir)
{
	char fresh[4096], old[4096];

	state_path(fresh, sizeof(fresh), dir, ".new");
	state_path(old, sizeof(old), dir, ".old");
	if (file_rename(dir, fresh) != TV_OK)
		return TV_ESYS;
	return file_rename(old, dir);
}

enum tv_err
restore_finish(const char *dir)
{
	char fresh[4096], old[4096], mark[4096];

	state_path(fresh, sizeof(fresh), dir, ".new");
	state_path(old, sizeof(old), dir, ".old");
	state_path(mark, sizeof(mark), fresh, "/" MARK);
	if (!exists(dir) && exists(mark)) {
		enum tv_err err = step_in(dir);

		return err == TV_OK ? state_remove_dir(old) : err;
	}
	if (!exists(dir) && exists(old) && rename(old, dir) == -1)
		return TV_ESYS;
	/* Nothing goes before the name of what stays is durable. */
	if ((exists(fresh) || exists(old)) && file_sync_parent(dir) != TV_OK)
		return TV_ESYS;
	if (state_remove_dir(fresh) != TV_OK)
		return TV_ESYS;
	return state_remove_dir(old);
}

/* -- in a thread: the next tables -- */

/* Is there room in the write-ahead log file in use, as files are now, or is it another file than `file`? */
static int
log_has_room(DB_ENV *e, uint32_t *file, bool *has)
{
	DB_LOG_STAT *st;
	int ret = e->log_stat(e, &st, 0);

	if (ret != 0)
		return ret;
	*has = (*file != 0 && st->st_cur_file != *file) || st->st_cur_offset + CLOSING_BYTES <= st->st_lg_size;
	*file = st->st_cur_file;
	free(st);
	return 0;
}

/*
 * Nothing is left to be written but what closing adds to the write-ahead log, whose file is open and has room for that:
 * so no file is opened by its name any more.  A file that is nearly full is filled up: one that was made by a version
 * with larger files is longer than log_stat() says.
 */
static int
need_no_names(DB_ENV *e)
{
	uint32_t file = 0;
	bool has = false;
	int ret = e->txn_checkpoint(e, 0, 0, DB_FORCE);

	for (unsigned n = 0; ret == 0 && (ret = log_has_room(e, &file, &has)) == 0 && !has; n++) {
		if (n > FILLERS_MAX)
			return EINVAL;
		ret = e->log_printf(e, NULL, "%*s", FILLER_BYTES, "");
	}
	if (ret == 0)
		ret = e->log_printf(e, NULL, "replaced");
	return ret == 0 ? e->log_flush(e, NULL) : ret;
}

static enum tv_err
displace(struct fsm *f)
{
	int ret = f->name_taken ? 0 : need_no_names(f->env->dbenv);

	if (ret == 0 && !f->name_taken)
		ret = flusher_retire(f);
	if (ret == 0)
		return TV_OK;
	(void)flusher_start(f);			/* it stays */
	pthread_mutex_lock(&f->lock);
	/* As with a checkpoint: after a failed sync it is unknown what is on the disk, and closing must not write to it. */
	if (f->failed == 0 && ret != ENOSPC && ret != EDQUOT && ret != EINVAL) {
		f->failed = ret;
		(void)f->env->dbenv->set_flags(f->env->dbenv, DB_PANIC_ENVIRONMENT, 1);
	}
	pthread_mutex_unlock(&f->lock);
	errno = ret > 0 ? ret : EIO;
	return ret == ENOSPC || ret == EDQUOT ? TV_ENOSPACE : TV_ESYS;
}

/* The meta record is read here, so that the loop finds it in the cache. */
static enum tv_err
open_next(struct fsm *f, char *errbuf, size_t cap)
{
	struct tkey k;
	DBT key = { 0 };
	enum tv_err err = fsm_tables_open(f, &f->next_tables, errbuf, cap);
	int ret;

	if (err != TV_OK)
		return err;
	meta_key(&k);
	key.data = k.b;
	key.size = k.len;
	ret = f->next_tables.db->exists(f->next_tables.db, NULL, &key, 0);
	store_env_allocate(f->next_tables.env);
	return ret == DB_NOTFOUND ? TV_OK : store_env_err(f->next_tables.env, ret);
}

/* There was no room to open the next ones: the old state goes on. */
static bool
take_back(struct fsm *f)
{
	fsm_tables_close(&f->next_tables);
	if (step_back(f->dir) != TV_OK)
		return false;
	f->name_taken = false;
	(void)flusher_start(f);			/* as before; if it cannot, Berkeley DB syncs by itself */
	return true;
}

/* env_lock held. */
static enum tv_err
make_ready(struct fsm *f, char *errbuf, size_t cap)
{
	bool was = f->name_taken;
	enum tv_err err;

	fsm_restore_tidy(f);			/* of an earlier one */
	err = displace(f);
	if (err != TV_OK)
		return err;
	fsm_tables_close(&f->next_tables);		/* one that was not taken */
	f->name_taken = true;
	err = step_aside(f->dir);
	if (err != TV_OK) {
		f->name_taken = was;
		if (!was)
			(void)flusher_start(f);	/* as before; if it cannot, Berkeley DB syncs by itself */
		return err;
	}
	err = step_in(f->dir);
	if (err != TV_OK)
		snprintf(errbuf, cap, "cannot move the new state to %s: %s", f->dir, strerror(errno));
	else
		err = open_next(f, errbuf, cap);
	/* One whose name was taken before has lost its files' names. */
	if (err == TV_OK || (err == TV_ENOSPACE && !was && take_back(f)))
		return err;
	pthread_mutex_lock(&f->lock);
	f->failed = EIO;			/* there is no state to go on with: the process must stop */
	pthread_mutex_unlock(&f->lock);
	return TV_ECORRUPT;
}

enum tv_err
fsm_restore_ready(struct fsm *f, char *errbuf, size_t cap)
{
	enum tv_err err;

	if (cap > 0)
		errbuf[0] = '\0';
	pthread_mutex_lock(&f->env_lock);	/* a checkpoint under way ends first */
	err = make_ready(f, errbuf, cap);
	pthread_mutex_unlock(&f->env_lock);
	if (err != TV_OK && cap > 0 && errbuf[0] == '\0')
		snprintf(errbuf, cap, "cannot make room for the new state in %s: %s; the present one is unchanged",
		    f->dir,
		    err == TV_ESYS ? strerror(errno) : tv_strerror(err));
	if (err != TV_OK && err != TV_ECORRUPT)
		fsm_stage_unload(f);		/* it would keep the disk full that it found full */
	return err;
}

/* -- where applying is: taking it -- */

enum tv_err
fsm_tables_use(struct fsm *f, struct fsm_tables *t, char *errbuf, size_t cap)
{
	enum tv_err err;
	int ret;

	pthread_mutex_lock(&f->head_lock);
	f->env = t->env;
	f->db = t->db;
	f->sparse = t->sparse;
	f->readers = t->readers;
	pthread_mutex_unlock(&f->head_lock);
	*t = (struct fsm_tables){ 0 };
	f->facts = FACTS_ALL;
	f->compact.walking = false;
	f->compact.file = 0;
	addresses_forget(f);
	warm_begin(f);
	err = fsm_load_meta(f);
	if (err == TV_OK)
		head_publish(f);
	if (err == TV_OK && (ret = flusher_start(f)) != 0)
		err = store_env_err(f->env, ret);
	if (err == TV_EINVAL)
		snprintf(errbuf, cap, "the state in %s was written by a newer version of raftd, which this version "
		    "cannot read completely: start the newer version", f->dir);
	else if (err != TV_OK)
		snprintf(errbuf, cap, "cannot open the state in %s: %s%s%s", f->dir, tv_strerror(err),
		    f->env->message[0] != '\0' ? ": " : "", f->env->message);
	return err;
}

enum tv_err
replace_take(struct fsm *f, char *errbuf, size_t cap)
{
	enum tv_err err;

	if (cap > 0)
		snprintf(errbuf, cap, "no state is ready to be installed");
	if (f->next_tables.env == NULL)
		return TV_ESYS;
	pthread_mutex_lock(&f->lock);
	snapshot_abandon(f);
	f->old_tables = tables_of(f);
	err = fsm_tables_use(f, &f->next_tables, errbuf, cap);
	f->name_taken = false;
	forget_loaded(f);
	if (err != TV_OK)
		f->failed = EIO;		/* there is no state to serve from: the process must stop */
	pthread_mutex_unlock(&f->lock);
	if (err != TV_OK)
		return TV_ESYS;
	f->replaced++;
	return TV_OK;
}

enum tv_err
fsm_restore_take(struct fsm *f, uint64_t *index, uint64_t *term, char *errbuf, size_t cap)
{
	enum tv_err err = replace_take(f, errbuf, cap);

	*index = f->applied;
	*term = f->applied_term;
	return err;
}

enum tv_err
fsm_restore_swap(struct fsm *f, uint64_t *index, uint64_t *term, char *errbuf, size_t cap)
{
	enum tv_err err = fsm_restore_take(f, index, term, errbuf, cap);

	if (err == TV_OK)
		fsm_fire_all(f);
	return err;
}

/* -- in a thread, afterwards -- */

void
fsm_restore_tidy(struct fsm *f)
{
	struct fsm_tables past;
	char old[4096];

	pthread_mutex_lock(&f->lock);		/* the loop may take the next one just now */
	past = f->old_tables;
	f->old_tables = (struct fsm_tables){ 0 };
	pthread_mutex_unlock(&f->lock);
	readers_wait(f, &past);
	store_names(false);
	fsm_tables_close(&past);
	store_names(true);
	state_path(old, sizeof(old), f->dir, ".old");
	if (!f->name_taken)
		(void)state_remove_dir(old);	/* the next one, or the next start, removes it too */
}

void
replace_close(struct fsm *f)
{
	struct fsm_tables own = tables_of(f);

	store_names(false);
	fsm_tables_close(&f->old_tables);
	store_names(!f->name_taken);
	fsm_tables_close(&own);
	store_names(true);
	fsm_tables_close(&f->next_tables);
	f->env = NULL;
	f->db = f->sparse = NULL;
	f->readers = NULL;
}
