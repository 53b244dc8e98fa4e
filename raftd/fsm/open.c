/* Opening and closing the state. */
#include <stdlib.h>

#include <sodium.h>

#include "raftd/fsm/acl/acl.h"
#include "raftd/fsm/catalog/address.h"
#include "raftd/fsm/copy/copy.h"
#include "raftd/fsm/page/page.h"
#include "raftd/fsm/read/read.h"
#include "raftd/fsm/read/watch.h"

#define LOG_BUFFER_BYTES (1u << 20)
#define DIR_BYTES_MAX 3900
#define WORK_BYTES_MAX (512u << 20)

/* Those that need the old value keep it. */
static void
save_old_value(struct fsm *f, const struct tkey *k)
{
	views_save(f, k);
	addresses_note(f, k);
	if (f->snap != NULL)
		snapshot_save(f, k);
}

static enum tv_err
init(struct fsm *f, const struct fsm_options *opt)
{
	pthread_mutex_init(&f->lock, NULL);
	pthread_mutex_init(&f->door, NULL);
	pthread_mutex_init(&f->views_lock, NULL);
	pthread_cond_init(&f->views_left, NULL);
	pthread_mutex_init(&f->env_lock, NULL);
	pthread_mutex_init(&f->head_lock, NULL);
	pthread_cond_init(&f->readers_left, NULL);
	touches_reset(&f->own_touches);
	f->touches = &f->own_touches;
	f->before_change = save_old_value;
	if (strlen(opt->dir) > DIR_BYTES_MAX)
		return TV_ELIMIT;
	f->opt = *opt;
	if (f->opt.log_file_bytes == 0)
		f->opt.log_file_bytes = FSM_LOG_FILE_BYTES;
	if (f->opt.log_buffer_bytes == 0)
		f->opt.log_buffer_bytes = LOG_BUFFER_BYTES;
	if (f->opt.version == 0)
		f->opt.version = FSM_VERSION;
	buf_init(&f->scratch, FSM_ANSWER_BYTES_MAX);
	buf_init(&f->pack, FSM_ANSWER_BYTES_MAX);
	f->work = ARENA_INIT(WORK_BYTES_MAX);
	f->dir = strdup(opt->dir);
	f->datacenter = strdup(opt->datacenter == NULL ? "" : opt->datacenter);
	f->acl_primary = opt->acl_primary == NULL ? NULL : strdup(opt->acl_primary);
	f->watches = sodium_init() == -1 ? NULL : watches_new();
	f->rights = f->watches == NULL ? NULL : acl_rights_table_new();
	f->addresses = addresses_new();
	if (f->dir == NULL || f->datacenter == NULL || f->rights == NULL || f->addresses == NULL || (opt->acl_primary != NULL && f->acl_primary == NULL) || buf_room(&f->scratch, 4096) == NULL)
		return TV_ENOMEM;
	f->opt.dir = f->dir;
	f->opt.datacenter = f->datacenter;
	f->opt.acl_primary = f->acl_primary;
	return TV_OK;
}

enum tv_err
fsm_open(const struct fsm_options *opt, struct fsm **out, char *errbuf, size_t cap)
{
	struct fsm *f = calloc(1, sizeof(*f));
	struct fsm_tables t;
	enum tv_err err;

	if (cap > 0)
		errbuf[0] = '\0';
	if (f == NULL)
		return TV_ENOMEM;
	err = init(f, opt);
	if (err == TV_OK)
		err = restore_finish(f->dir);
	if (err == TV_OK && damage_marked(f->dir)) {
		snprintf(errbuf, cap, "the state in %s was found damaged while it was in use", f->dir);
		err = TV_ECORRUPT;
	}
	if (err == TV_OK)
		err = fsm_tables_open(f, &t, errbuf, cap);
	if (err == TV_OK)
		err = fsm_tables_use(f, &t, errbuf, cap);
	if (err == TV_OK) {
		store_env_allocate(f->env);
		*out = f;
		return TV_OK;
	}
	if (cap > 0 && errbuf[0] == '\0')
		snprintf(errbuf, cap, "cannot open the state in %s: %s", opt->dir, tv_strerror(err));
	fsm_close(f);
	return err;
}

void
fsm_close(struct fsm *f)
{
	if (f == NULL)
		return;
	warm_end(f);
	flusher_stop(f);
	damage_mark(f);
	if (f->env != NULL && !f->name_taken && fsm_trouble(f) == TV_OK)
		(void)f->env->dbenv->txn_checkpoint(f->env->dbenv, 0, 0, 0);	/* only makes the next start quicker */
	replace_close(f);
	watches_free(f->watches);
	acl_rights_table_free(f->rights);
	addresses_free(f->addresses);
	arena_done(&f->work);
	buf_done(&f->scratch);
	buf_done(&f->pack);
	pthread_mutex_destroy(&f->lock);
	pthread_mutex_destroy(&f->door);
	pthread_mutex_destroy(&f->views_lock);
	pthread_cond_destroy(&f->views_left);
	pthread_mutex_destroy(&f->env_lock);
	pthread_mutex_destroy(&f->head_lock);
	pthread_cond_destroy(&f->readers_left);
	buf_done(&f->head.servers);
	buf_done(&f->own_touches.log);
	free(f->dir);
	free(f->datacenter);
	free(f->acl_primary);
	free(f);
}
