/* Reading beside the applying thread: readers, and views of one index. */
#ifndef TV_RAFTD_FSM_READ_READ_H
#define TV_RAFTD_FSM_READ_READ_H

#include "raftd/fsm/state.h"

/* -- reader.c -- */
/* Is this one of the codes after which a reader asks again: a lock that is held, a page that is not cached? */
bool reader_may_retry(int ret);
/* Is no answer waited for any more?  Then the read has failed. */
bool reader_unwanted(struct fsm *f);
/*
 * After one of those codes: a transaction anew.  True: it may ask again, perhaps with the state's lock, which reader_unlock()
 * gives back.  False: that was no such code, or this reader waits for nothing.
 */
bool reader_again(struct fsm *f, int ret);
/* After each look-up: what reader_again() took is given back. */
void reader_unlock(struct fsm *f);
/* After an answer that failed: as after begin. */
void reader_renew(struct fsm *f);
/* Of a reader that has the state's lock: reads in the tables as they are now, from their present index on. */
void reader_renew_tables(struct fsm *r);
/* Was more fetched than helps?  For `warm` functions that look at many records. */
bool warm_enough(const struct fsm *reader);
/* f->lock, for any thread but the applying one: it gets it after the batch that is under way, however many are to follow. */
void state_lock(struct fsm *f);
/* The tables of f, to be given away. */
struct fsm_tables tables_of(const struct fsm *f);
/* Waits until no reader is left in them. */
void readers_wait(struct fsm *f, const struct fsm_tables *t);

/* -- view.c -- */
/* Before a key changes: keeps its old value for the open views; f->lock held. */
void views_save(struct fsm *f, const struct tkey *k);
/*
 * Before a batch: until there is room for what views keep; or until there are none, and no new ones come before
 * views_admit().
 */
void views_wait(struct fsm *f, bool all);
void views_admit(struct fsm *f);
/* A reader needs to see one index from here on.  Nothing happens to one that does, nor to the state itself. */
void view_need(struct fsm *r);
void view_close(struct fsm *r);
/* After the tables were looked at: what was kept of this key is what the view has.  val: if it is there. */
enum view_answer { VIEW_NOT_KEPT, VIEW_THERE, VIEW_ABSENT };
enum view_answer view_peek(struct fsm *r, struct span key, struct buf *val);
/* What was kept from one key to another one (NULL: the end): [u32 key bytes, u32 value bytes, u8 absent, key, value] each. */
void view_range(struct fsm *r, struct span from, const struct span *to, struct span prefix, struct buf *out);

#endif
