/* What the files of the engine share; no other file includes it. */
#ifndef TV_RAFTD_ENGINE_ENGINE_INT_H
#define TV_RAFTD_ENGINE_ENGINE_INT_H

#include "raftd/engine/engine.h"
#include "raftd/engine/log_reader.h"
#include "raftd/engine/pending_sends.h"
#include "raftd/engine/statethread.h"
#include "raftd/engine/voter_with_space.h"

#define PROPOSE_ENTRIES_MAX 2048	/* in one input */
#define ENTRIES_SCRATCH 4096		/* append_entries_max never exceeds it */
#define NOTICES_MAX 64
#define BOOK_MAX 64			/* addresses that are remembered */
#define STATUS_SUBSCRIBERS_MAX 8

struct engine {
	struct raftd *d;
	const struct engine_hooks *hooks;
	void (*subscribers[STATUS_SUBSCRIBERS_MAX])(struct raftd *d);	/* to the status event */
	unsigned subscriber_count;
	struct raft *core;
	struct logthread *log;
	struct entrycache *cache;
	struct log_reader *reader;	/* of what the cache has no more, for followers */
	struct proposals *proposals;
	struct histogram commits;	/* of proposals, from then on until they are committed */
	struct reads reads;
	struct raft_status status;
	struct mono heard;		/* when a leader was heard last, or we led; outlives the core's knowledge of it */
	bool led;			/* that was ourself */
	bool status_fresh, feeding, stuck, corrupt, retired;
	bool stateless;			/* a snapshot must come before anything is applied or read */
	bool opening;			/* the state is not open yet: what it has applied is not known */
	uint64_t term, commit;
	struct disk_found found;	/* on the disk, at the start */
	struct disk_mark mark;		/* the newest that was durable when it was looked at */
	uint64_t applied, handed;	/* what is known to be applied; what was handed over to be applied */
	struct {			/* the next entry is a RESTORE_COMMIT; index 0: it is not */
		uint64_t index, term;
		char id[37];
		bool plain;		/* and there is nothing to restore */
	} restore;
	struct mono later;		/* when what is committed is handed over at the latest; 0: nothing waits */
	bool compacting, more_to_compact;	/* a step of the state's tidying is under way; the last one left some (the thread's while it is) */
	uint64_t generation;		/* of the entries appended by the input at hand; 0: as before */
	uint64_t stored_bytes;		/* given to the log since the last turn */
	struct tried_voters without_room;	/* voters that did not take over from this full disk, lately */
	struct mono handed_over;	/* the last try */
	struct mono deadline;

	/* Messages that wait for terms and votes only, and for entries too: a slow write of entries must not hold up
	 * the answers to heartbeats, or a slow disk would cost the leadership. */
	struct pending_sends held_hard, held_append;
	struct raft_notice notices[NOTICES_MAX];	/* to be told after the output was carried out */
	unsigned notice_count;
	bool telling;
	struct { enum raft_role role; uint64_t term; raft_id leader; } told;	/* logged last */
	struct known_addr { raft_id id; char addr[64]; } book[BOOK_MAX];
	unsigned book_next;

	struct raft_entry *scratch;	/* received entries */
	struct raft_entry *outgoing;	/* entries to send */

	ev_prepare prepare;
	ev_idle idle;
	ev_timer tick, housekeeping, compact;
	struct mono tick_due;
};

/* One input for the core, and its output carried out.  What the core said; TV_OK once it was stopped. */
enum tv_err engine_feed(struct engine *e, struct raft_input in);
/* The core is fed no more, and the process ends. */
void engine_stop(struct engine *e);

/* -- engine_send.c -- */
/* Reads the log for followers, and wakes the engine.  NULL: no memory. */
struct log_reader *engine_reader_new(struct engine *e);

/* -- engine_apply.c -- */
/* Hands over what is committed to be applied.  Was a state taken in its place? */
bool engine_apply(struct engine *e);
/* Does no caller here wait for what is committed, and is more on its way?  Then a follower does several batches' work at once. */
bool engine_in_no_hurry(struct engine *e);
/* Callbacks for what was applied. */
extern const struct state_events engine_state_events;
/* Nothing may be applied now: a state is on its way, or this one is no longer trusted. */
bool engine_must_not_apply(struct engine *e);
/* Says that an entry of the log cannot be read, and stops.  sys: errno, for TV_ESYS. */
void engine_log_unreadable(struct engine *e, uint64_t index, enum tv_err err, int sys);
/* Says why the state machine failed, and stops. */
void engine_apply_failed(struct engine *e, enum tv_err err);

/* -- engine_space.c -- */
/* A voter that could lead and write: it has room and all but the newest of our log.  0: none, or none took over lately. */
raft_id engine_voter_with_room(struct engine *e);
/* This disk is full: a leader hands over to a voter with room, if there is one. */
void engine_hand_over_full(struct engine *e);
/* Would a write find no room, here or at too many others? */
bool engine_no_space(struct engine *e);

/* -- core_notices.c -- */
/* Logs what the core noticed, in the words that operators know, and raises the status event. */
void core_notices_log(struct engine *e, const struct raft_notice *n);
/* The disk of the only voter went back, from this index: said once a minute. */
void core_notices_only_voter(struct engine *e, uint64_t index);
/* Remembers the addresses of the configuration. */
void core_notices_book(struct engine *e);

#endif
