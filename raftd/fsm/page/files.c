/* The files of a state: opened, closed, named, removed. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "raftd/fsm/page/page.h"

void
state_path(char *out, size_t cap, const char *dir, const char *suffix)
{
	int n = snprintf(out, cap, "%s%s", dir, suffix);

	TV_ASSERT(n > 0 && (size_t)n < cap);	/* fsm_open() limits the path */
}

enum tv_err
state_remove_dir(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *de;
	enum tv_err err = TV_OK;

	if (d == NULL)
		return errno == ENOENT ? TV_OK : TV_ESYS;
	while ((de = readdir(d)) != NULL)
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0 &&
		    unlinkat(dirfd(d), de->d_name, 0) == -1)
			err = TV_ESYS;
	closedir(d);
	if (err == TV_OK && rmdir(path) == -1)
		err = TV_ESYS;
	return err;
}

enum tv_err
fsm_tables_open(const struct fsm *f, struct fsm_tables *t, char *errbuf, size_t cap)
{
	struct store_env_options eo = { .dir = f->dir, .cache_bytes = f->opt.cache_bytes,
	    .log_file_bytes = f->opt.log_file_bytes, .log_buffer_bytes = f->opt.log_buffer_bytes, .readers = true,
	    .behind = f->opt.sync != FSM_SYNC_DIRECT ? STATE_FILE : NULL };
	enum tv_err err;
	int ret;

	*t = (struct fsm_tables){ .env = malloc(sizeof(*t->env)), .readers = calloc(1, sizeof(*t->readers)) };
	err = t->env == NULL || t->readers == NULL ? TV_ENOMEM : store_env_open(t->env, &eo, errbuf, cap);
	if (err != TV_OK) {
		free(t->env);
		free(t->readers);
		*t = (struct fsm_tables){ .env = NULL };
		return err;
	}
	ret = store_env_db(t->env, STATE_FILE, true, &t->db);
	if (ret == 0)
		ret = store_env_db_sparse(t->env, STATE_FILE, &t->sparse);
	if (ret == 0)
		return TV_OK;
	err = store_env_is_damage(t->env, ret) ? TV_ECORRUPT : store_env_err(t->env, ret);
	snprintf(errbuf, cap, "cannot open the state in %s: %s%s%s", f->dir, db_strerror(ret),
	    t->env->message[0] != '\0' ? ": " : "", t->env->message);
	fsm_tables_close(t);
	return err;
}

void
fsm_tables_close(struct fsm_tables *t)
{
	if (t->sparse != NULL)
		(void)t->sparse->close(t->sparse, DB_NOSYNC);	/* all of it is in the log */
	if (t->db != NULL)
		(void)t->db->close(t->db, DB_NOSYNC);
	if (t->env != NULL)
		store_env_close(t->env);
	free(t->env);
	free(t->readers);
	*t = (struct fsm_tables){ 0 };
}
