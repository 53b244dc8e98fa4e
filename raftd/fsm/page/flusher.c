/* The disk work of the state beside applying: see store_behind.h. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/proc/thread.h"
#include "raftd/fsm/page/page.h"
#include "raftd/store/bdb/store_behind.h"

static bool
is_final(int ret)
{
	return ret != 0 && ret != ENOSPC && ret != EDQUOT;
}

/* Each user of the environment learns of it; f->lock may be held by one that waits for this thread. */
static void
give_up(struct fsm *f, int ret)
{
	int none = 0;

	if (ret > 0)
		(void)atomic_compare_exchange_strong(&f->env->sys, &none, ret);
	if (!atomic_exchange(&f->env->told, true))
		snprintf(f->env->message, sizeof(f->env->message), "the state's files in %s cannot be written: %s", f->env->dir,
		    db_strerror(ret));
	(void)f->env->dbenv->set_flags(f->env->dbenv, DB_PANIC_ENVIRONMENT, 1);
}

int
flush_log(struct fsm *f)
{
	DB_ENV *e = f->env->dbenv;
	int ret;

	if (f->env->behind == NULL)
		return e->log_flush(e, NULL);
	ret = store_behind_flush(f->env->behind);
	if (is_final(ret))
		give_up(f, ret);
	return ret;
}

enum tv_err
fsm_flush(struct fsm *f)
{
	int ret = flush_log(f);

	if (ret == 0)
		store_env_allocate(f->env);
	return store_env_err(f->env, ret);
}

static void *
flusher_main(void *arg)
{
	struct fsm *f = arg;

	while (store_behind_wait(f->env->behind)) {
		enum tv_err err = fsm_flush(f);

		if (err != TV_OK && err != TV_ENOSPACE)
			break;			/* fsm_trouble() tells it */
		if (store_behind_relieved(f->env->behind) && f->opt.relieved != NULL)
			f->opt.relieved(f->opt.ctx);
	}
	return NULL;
}

int
flusher_start(struct fsm *f)
{
	int swapped = 0, ret;

	if (f->env->behind == NULL || f->flushing)
		return 0;
	ret = f->db->get_byteswapped(f->db, &swapped);
	if (ret == 0 && swapped) {		/* made on a machine of the other byte order, so its LSNs are too */
		store_behind_free(f->env->behind);
		f->env->behind = NULL;
		return 0;
	}
	if (ret != 0)
		return ret;
	ret = store_behind_begin(f->env->behind, f->env->dbenv);
	if (ret != 0 || f->opt.sync != FSM_SYNC_THREAD)
		return ret;
	ret = thread_start(&f->flusher, "flush", flusher_main, f);
	f->flushing = ret == 0;
	return ret;
}

void
flusher_stop(struct fsm *f)
{
	if (!f->flushing)
		return;
	store_behind_stop(f->env->behind);
	pthread_join(f->flusher, NULL);
	f->flushing = false;
}

int
flusher_retire(struct fsm *f)
{
	int ret;

	flusher_stop(f);
	if (f->env->behind == NULL)
		return 0;
	do
		ret = flush_log(f);
	while (ret == 0 && !store_behind_retire(f->env->behind));
	return ret;
}

/* The tables may be others in a moment: so they are held. */
static bool
ask_behind(const struct fsm *f, bool (*question)(struct store_behind *b))
{
	pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&f->head_lock;
	bool yes;

	pthread_mutex_lock(lock);
	yes = f->env->behind != NULL && question(f->env->behind);
	pthread_mutex_unlock(lock);
	return yes;
}

bool
fsm_no_room(const struct fsm *f)
{
	return ask_behind(f, store_behind_no_room);
}

bool
fsm_held(const struct fsm *f)
{
	return ask_behind(f, store_behind_full);
}
