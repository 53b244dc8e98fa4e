/*
 * Loading a snapshot beside the state.
 *
 * The file is checked whole first.  It is then loaded into DIR.new, which ends with a mark file once all of it is on
 * disk.  What comes then is replace.c's.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "raftd/fsm/copy/copy.h"
#include "raftd/fsm/copy/snapfile.h"
#include "raftd/fsm/page/page.h"
#include "raftd/fsm/table/meta.h"

#define LOAD_CACHE_BYTES (8u << 20)
#define TXN_RECORDS 4096
#define TXN_BYTES (2u << 20)

/* -- loading -- */

static const char *
why_unusable(enum tv_err err)
{
	switch (err) {
	case TV_ECORRUPT:
		return "it is truncated or damaged (checksum)";
	case TV_EINVAL:
		return "it was written by a newer version of raftd: upgrade this server";
	case TV_ESYS:
		return strerror(errno);
	default:
		return tv_strerror(err);
	}
}

/*
 * Reads the file to its end: is it whole, do its keys ascend, and is it of the index that it says?  That it is of a newer
 * version is said of a whole one only.
 */
static enum tv_err
check_file(const char *path, char *errbuf, size_t cap)
{
	struct buf last = BUF_INIT(TKEY_BYTES_MAX);
	struct span key, val;
	struct snap_in in;
	bool has_meta = false;
	enum tv_err err = snap_in_open(&in, path), meta = TV_OK;

	if (err == TV_OK) {
		while ((err = snap_in_next(&in, &key, &val)) == TV_OK) {
			if (key.p[0] == TBL_META)
				meta = fsm_meta_is(val, in.index, in.term);
			if (span_cmp(key, buf_span(&last)) <= 0 || meta == TV_ECORRUPT) {
				err = TV_ECORRUPT;
				break;
			}
			has_meta = has_meta || key.p[0] == TBL_META;
			buf_reset(&last);
			buf_putspan(&last, key);
		}
		snap_in_close(&in);
	}
	buf_done(&last);
	if (err == TV_EOF)
		err = has_meta || in.index == 0 ? meta : TV_ECORRUPT;
	if (err != TV_OK)
		snprintf(errbuf, cap, "snapshot %s is not usable: %s; the present state is unchanged", path,
		    why_unusable(err));
	return err;
}

/* It is to be known whether there was no room; whatever else it was, the files go. */
static enum tv_err
load_err(const struct store_env *env, int ret)
{
	enum tv_err err = store_env_err(env, ret);

	return err == TV_OK || err == TV_ENOSPACE ? err : TV_ESYS;
}

/* One transaction of records; *end when the file is through. */
static enum tv_err
load_some(struct store_env *env, DB *db, struct snap_in *in, const struct restore_filter *filter, bool *end)
{
	size_t bytes = 0;
	enum tv_err err = TV_OK;
	DB_TXN *txn;
	int ret = env->dbenv->txn_begin(env->dbenv, NULL, &txn, 0);

	if (ret != 0)
		return load_err(env, ret);
	for (unsigned n = 0; n < TXN_RECORDS && bytes < TXN_BYTES && ret == 0; n++) {
		struct span key, val;
		DBT k, v;

		err = snap_in_next(in, &key, &val);
		if (err != TV_OK)
			break;			/* TV_ENOENT too: the source is gone */
		if (filter != NULL)
			err = filter->take(filter->ctx, key, val);
		if (err == TV_ENOENT) {
			err = TV_OK;		/* not this one */
			continue;
		}
		if (err != TV_OK)
			break;
		k = (DBT){ .data = (void *)(uintptr_t)key.p, .size = (uint32_t)key.len };
		v = (DBT){ .data = (void *)(uintptr_t)val.p, .size = (uint32_t)val.len };
		ret = db->put(db, txn, &k, &v, 0);
		bytes += key.len + val.len;
	}
	*end = err == TV_EOF;
	if (ret != 0 || (err != TV_OK && err != TV_EOF)) {
		(void)txn->abort(txn);		/* the first error is what counts */
		return ret != 0 ? load_err(env, ret) : err;
	}
	return load_err(env, txn->commit(txn, DB_TXN_NOSYNC));
}

enum tv_err
restore_env(const struct fsm *f, struct store_env *env, const char *dir, char *errbuf, size_t cap)
{
	struct store_env_options eo = { .dir = dir, .cache_bytes = LOAD_CACHE_BYTES,
	    .log_file_bytes = f->opt.log_file_bytes, .log_buffer_bytes = f->opt.log_buffer_bytes };

	return store_env_open(env, &eo, errbuf, cap);
}

/* Fills the environment and makes all of it durable. */
static enum tv_err
load_all(struct store_env *env, struct snap_in *in, const struct restore_filter *filter)
{
	DB_ENV *e = env->dbenv;
	bool end = false;
	enum tv_err err = TV_OK;
	DB *db;
	int ret = store_env_db(env, STATE_FILE, true, &db);

	if (ret != 0)
		return store_env_err(env, ret);
	while (err == TV_OK && !end)
		err = load_some(env, db, in, filter, &end);
	ret = db->close(db, err == TV_OK ? 0 : DB_NOSYNC);
	if (err == TV_OK && ret == 0)
		ret = e->txn_checkpoint(e, 0, 0, DB_FORCE);
	return err != TV_OK ? err : store_env_err(env, ret);
}

enum tv_err
restore_fill(const struct fsm *f, const char *dir, struct snap_in *in, const struct restore_filter *filter, char *errbuf,
    size_t cap)
{
	struct store_env env;
	enum tv_err err = state_remove_dir(dir);

	if (err == TV_OK)
		err = restore_env(f, &env, dir, errbuf, cap);
	if (err == TV_OK) {
		err = load_all(&env, in, filter);
		store_env_close(&env);
	}
	return err;
}

static enum tv_err
load(const struct fsm *f, const char *dir, const char *path, char *errbuf, size_t cap)
{
	struct snap_in in;
	enum tv_err err = snap_in_open(&in, path);

	if (err != TV_OK)
		return err;
	err = restore_fill(f, dir, &in, NULL, errbuf, cap);
	snap_in_close(&in);
	return err == TV_OK ? restore_mark(dir) : err;
}

/* DIR.new is about to hold something else. */
void
forget_loaded(struct fsm *f)
{
	pthread_mutex_lock(&f->head_lock);
	f->loaded.id[0] = '\0';
	pthread_mutex_unlock(&f->head_lock);
}

enum tv_err
fsm_restore_load(struct fsm *f, const char *path, char *errbuf, size_t cap)
{
	char fresh[4096];
	enum tv_err err;

	if (cap > 0)
		errbuf[0] = '\0';
	err = check_file(path, errbuf, cap);
	if (err != TV_OK)
		return err;
	state_path(fresh, sizeof(fresh), f->dir, ".new");
	forget_loaded(f);
	err = load(f, fresh, path, errbuf, cap);
	if (err == TV_OK)
		return TV_OK;
	if (cap > 0 && errbuf[0] == '\0')
		snprintf(errbuf, cap, "cannot load %s into %s: %s; the present state is unchanged", path, fresh,
		    tv_strerror(err));
	(void)state_remove_dir(fresh);		/* the next start removes it too */
	return err;
}

enum tv_err
fsm_restore(struct fsm *f, const char *path, uint64_t *index, uint64_t *term, char *errbuf, size_t cap)
{
	enum tv_err err = fsm_restore_load(f, path, errbuf, cap);

	if (err == TV_OK)
		err = fsm_restore_ready(f, errbuf, cap);
	if (err == TV_OK)
		err = fsm_restore_swap(f, index, term, errbuf, cap);
	fsm_restore_tidy(f);
	return err;
}
