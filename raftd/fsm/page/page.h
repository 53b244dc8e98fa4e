/* The files and pages of the state: with table/, copy/ and store/bdb the only ones that know Berkeley DB. */
#ifndef TV_RAFTD_FSM_PAGE_PAGE_H
#define TV_RAFTD_FSM_PAGE_PAGE_H

#include "raftd/fsm/state.h"

/* -- files.c -- */
/* Opens what is in f->dir; any thread. */
enum tv_err fsm_tables_open(const struct fsm *f, struct fsm_tables *t, char *errbuf, size_t cap);
/* Without a checkpoint.  What was never opened is left alone. */
void fsm_tables_close(struct fsm_tables *t);
void state_path(char *out, size_t cap, const char *dir, const char *suffix);	/* cap: at least 4096 */
/* Removes a directory of plain files; one that is not there is gone.  TV_ESYS. */
enum tv_err state_remove_dir(const char *path);

/* -- warm.c: pages are fetched before a batch reads them -- */
/* Nothing is in the cache yet. */
void warm_begin(struct fsm *f);
/* Before a batch, without its lock.  Costs nothing while all is cached. */
void warm_batch(struct fsm *f, const struct raft_entry *entries, uint32_t count);
/* After it: so many pages it had to read for itself. */
void warm_batch_read(struct fsm *f, uint64_t pages);
void warm_end(struct fsm *f);

/* -- flusher.c -- */
/* Begins to write behind as the options ask.  Berkeley DB's code. */
int flusher_start(struct fsm *f);
/* Before the environment is closed. */
void flusher_stop(struct fsm *f);
/* Nothing waits, and nothing will, until flusher_start(): the directory is about to be another's.  Berkeley DB's code. */
int flusher_retire(struct fsm *f);
/* The write-ahead log is durable up to its end as of the call.  Berkeley DB's code. */
int flush_log(struct fsm *f);

/* -- damage.c -- */
/* Was the state found damaged while it was in use? */
bool damage_marked(const char *dir);
/* Remembers it beside the files, if they are damaged. */
void damage_mark(const struct fsm *f);

#endif
