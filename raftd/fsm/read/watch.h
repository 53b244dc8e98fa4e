/* What a batch touched, and the watches that it fires. */
#ifndef TV_RAFTD_FSM_READ_WATCH_H
#define TV_RAFTD_FSM_READ_WATCH_H

#include "raftd/fsm/state.h"

enum watch_kind { WK_NOTHING, WK_KEY, WK_PREFIX, WK_SERVICE, WK_TABLE };

/* -- touches.c: by the applying thread -- */
/* Raises a table's index to that of the running entry. */
void fsm_touch(struct fsm *f, enum fsm_index which);
void touched_key(struct fsm *f, struct span key);
void touched_service(struct fsm *f, struct span lower_name);
struct touches_mark { size_t len; uint64_t tables; bool all; };
struct touches_mark touches_mark(const struct fsm_touches *t);
/* Back to that: what was touched since is not. */
void touches_cut(struct fsm_touches *t, struct touches_mark mark);
void touches_reset(struct fsm_touches *t);

/* -- watch.c: on the loop -- */
#define WATCHES_MAX (1u << 20)
struct watches *watches_new(void);
void watches_free(struct watches *w);
/* Marks what was touched, to be fired together. */
void watches_touch_key(struct watches *w, struct span key);
/* A set of them, 1 << enum fsm_index each. */
void watches_touch_tables(struct watches *w, uint64_t tables);
void watches_touch_service(struct watches *w, struct span lower_name);
void watches_touch_all(struct watches *w);
void watches_fire(struct watches *w);
unsigned watches_count(const struct watches *w);
/*
 * what: key, prefix or lower-case service name; for WK_TABLE the set of tables instead, 1 << enum fsm_index each: as many
 * sets are kept as were ever named, so only rows of operations name them.  NULL past WATCHES_MAX or without memory.
 */
struct fsm_watch *watches_add(struct watches *w, enum watch_kind kind, struct span what, uint64_t tables,
    fsm_watch_fn *fn, void *ctx);
void watches_remove(struct watches *w, struct fsm_watch *x);

#endif
