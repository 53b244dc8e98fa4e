/* Copies of the state: taken beside applying, loaded beside it, and put in its place. */
#ifndef TV_RAFTD_FSM_COPY_COPY_H
#define TV_RAFTD_FSM_COPY_COPY_H

#include "raftd/fsm/state.h"

/* -- snapshot.c -- */
/* Before a key changes: keeps its old value if an open snapshot has not copied it yet.  f->lock held. */
void snapshot_save(struct fsm *f, const struct tkey *k);
/* The state under an open snapshot is about to be replaced. */
void snapshot_abandon(struct fsm *f);

/* -- replace.c: a loaded state takes the place of another -- */
/* Makes these the tables of f (which has none, or gave them away), and loads the meta record. */
enum tv_err fsm_tables_use(struct fsm *f, struct fsm_tables *t, char *errbuf, size_t cap);
/* Finishes or undoes a restore that a crash interrupted: afterwards dir is the one good state, or absent. */
enum tv_err restore_finish(const char *dir);
/* DIR.new is whole and on disk: marks it. */
enum tv_err restore_mark(const char *dir);
/* Where applying is: what fsm_restore_ready() made ready becomes the state.  TV_ESYS is fatal. */
enum tv_err replace_take(struct fsm *f, char *errbuf, size_t cap);
/* Closes all that is open. */
void replace_close(struct fsm *f);

/* -- restore.c -- */
struct snap_in;
struct restore_filter {
	/* TV_OK: this record too; TV_ENOENT: not this one; else loading ends with it. */
	enum tv_err (*take)(void *ctx, struct span key, struct span val);
	void *ctx;
};
/* Fills `dir`, made anew, from an open snapshot, and makes it durable.  filter NULL: all of it. */
enum tv_err restore_fill(const struct fsm *f, const char *dir, struct snap_in *in, const struct restore_filter *filter,
    char *errbuf, size_t cap);
/* Opens an environment to be filled, or one that was. */
enum tv_err restore_env(const struct fsm *f, struct store_env *env, const char *dir, char *errbuf, size_t cap);
/* DIR.new holds none any more. */
void forget_loaded(struct fsm *f);

#endif
