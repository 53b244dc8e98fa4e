/* Keys, their tombstones and lock delays. */
#ifndef TV_RAFTD_FSM_KV_KV_H
#define TV_RAFTD_FSM_KV_KV_H

#include "raftd/fsm/apply.h"

#define LOCK_DELAY_MAX_NS (60ll * 1000000000)
#define TOMBSTONE_AGE_NS (15ll * 60 * 1000000000)
#define REAP_MAX 4096			/* tombstones and lock delays that one TOMBSTONE_REAP removes */

/* -- kv.c -- */
/* ModifyIndex of a stored kv_entry, without looking at the other fields; false: it is not one. */
bool kv_modify_index(struct span val, uint64_t *index);
bool kv_find(struct fsm *f, struct span key, struct arena *a, struct kv_entry *out);
/* What a write of one key comes to in the state as it is.  Not to be copied: `next` may point into it. */
struct kv_verdict {
	enum { KV_KEEP, KV_STORE, KV_REMOVE } change;	/* whatever the answer is */
	bool there;			/* there was such a key: old */
	bool answer;			/* false: its condition did not hold */
	struct kv_entry old;
	struct kv_entry next;		/* KV_STORE: as it is stored now */
	char session[37];
	enum tv_err err;		/* refused, with the API's text */
	struct span text;
};
/* Looks at what such a write, or one of a tree, will look at; see page/warm.c. */
void kv_warm(struct fsm *reader, const struct kv_apply *q);
/* Judges a write of one key (of any Verb up to KV_DELETE_CAS), and carries it out.  Texts are in `out`. */
void kv_write(struct fsm *f, const struct kv_apply *q, struct arena *out, struct kv_verdict *v);
/*
 * Removes all keys with this prefix, if they are no more than *keys, and their records than *bytes, both less by what went
 * afterwards.  False: they are more, and all stay.
 */
bool kv_delete_tree(struct fsm *f, struct span prefix, int64_t now, uint64_t *keys, uint64_t *bytes);
/* Before a batch: does this delete trees of so many keys that views had better not keep them all? */
bool kv_is_large_tree(struct fsm *f, const struct raft_entry *e);
/* Ends a session's hold on a key: releases or deletes it.  delay_until: no acquisition before, 0 none. */
void kv_session_gone(struct fsm *f, struct span key, bool del, int64_t now, int64_t delay_until);

/* -- tombstone.c: tombstones and lock delays, which both end by time -- */
void tombstone_put(struct fsm *f, struct span key, int64_t now);
/* Highest index of a tombstone whose key starts with the prefix; 0 none. */
uint64_t tombstone_max(struct fsm *f, struct span prefix);
void lock_delay_put(struct fsm *f, struct span key, int64_t until);
bool lock_delay_holds(struct fsm *f, struct span key, int64_t now);

#endif
