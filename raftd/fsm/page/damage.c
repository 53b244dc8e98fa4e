/* A state whose files are damaged: noticed, remembered, set aside. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "raftd/fsm/page/page.h"
#include "raftd/store/bdb/store_behind.h"

#define DAMAGED "damaged"

bool
damage_marked(const char *dir)
{
	char path[4096];

	state_path(path, sizeof(path), dir, "/" DAMAGED);
	return access(path, F_OK) == 0;
}

enum tv_err
fsm_trouble(const struct fsm *f)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&f->head_lock;
	enum tv_err err;
	int ret = 0;

	pthread_mutex_lock(lock);		/* the tables may be others in a moment */
	if (f->env->behind != NULL)
		ret = store_behind_failed(f->env->behind);
	if (ret == 0)
		ret = f->failed;
	err = f->env->damaged ? TV_ECORRUPT : store_env_err(f->env, ret);
	pthread_mutex_unlock(lock);
	return err;
}

void
fsm_found_damaged(struct fsm *f, const char *why)
{
	pthread_mutex_lock(&f->head_lock);
	if (!atomic_exchange(&f->env->told, true))
		snprintf(f->env->message, sizeof(f->env->message), "%s", why);
	f->env->damaged = true;
	pthread_mutex_unlock(&f->head_lock);
}

/* Which version is needed, as far as the entry says it. */
static void
beyond_text(const struct fsm *f, char *dst, size_t cap)
{
	char needs[80] = "";

	if (f->beyond.needs > f->opt.version)
		snprintf(needs, sizeof(needs), ", which needs version %u of the state machine; this raftd has version %u",
		    (unsigned)f->beyond.needs, (unsigned)f->opt.version);
	snprintf(dst, cap, "log entry %llu was written by a newer version of raftd (operation %u%s): start the newer version "
	    "here, and it goes on from there", (unsigned long long)f->beyond.index, (unsigned)f->beyond.op, needs);
}

void
fsm_trouble_text(const struct fsm *f, char *dst, size_t cap)
{
	/* A page that its file does not have, as when it was cut, is damage that Berkeley DB says nothing of. */
	bool damaged = fsm_trouble(f) == TV_ECORRUPT;
	const char *what = f->env->message[0] == '\0' && damaged ? "a page of the state is not in its file" : f->env->message;

	if (f->beyond.index != 0) {
		beyond_text(f, dst, cap);
		return;
	}
	snprintf(dst, cap, "%s%s", what, what[0] == '\0' ? "" :
	    damaged ? "; the next start rebuilds the state" : "; stopping: the next start recovers it");
}

void
damage_mark(const struct fsm *f)
{
	char path[4096];
	int fd;

	if (f->env == NULL || f->name_taken || fsm_trouble(f) != TV_ECORRUPT)	/* another one is in its place */
		return;
	state_path(path, sizeof(path), f->dir, "/" DAMAGED);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd != -1)
		close(fd);
}

enum tv_err
fsm_set_aside(const char *dir)
{
	char aside[4096];
	enum tv_err err;

	state_path(aside, sizeof(aside), dir, "." DAMAGED);
	err = state_remove_dir(aside);
	return err == TV_OK ? file_rename(dir, aside) : err;
}

void
fsm_forget_aside(struct fsm *f)
{
	char aside[4096];

	state_path(aside, sizeof(aside), f->dir, "." DAMAGED);
	(void)state_remove_dir(aside);		/* left over it only takes space */
}
