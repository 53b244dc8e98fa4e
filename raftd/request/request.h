/*
 * One pending request of a channel, from its frame to its answer.  The record is embedded in whatever it
 * waits for: a ReadIndex round, a log entry, a watch, a timer.  When the channel goes or the asker cancels, the
 * request leaves those, except a log entry, which goes on without an asker.
 */
#ifndef TV_REQUEST_H
#define TV_REQUEST_H

#include <sys/queue.h>

#include "common/net/chan.h"
#include "raftd/engine/read_ahead.h"
#include "raftd/engine/proposals.h"
#include "raftd/raftd.h"
#include "raftd/engine/reads.h"

#define REQUEST_INLINE 48		/* argument bytes kept inside the record */

struct client;

struct request {
	struct raftd *d;
	struct client *client;		/* NULL: nobody waits for the answer any more */
	struct request *hash_next;	/* of the client, by frame id */
	TAILQ_ENTRY(request) link;	/* of the client */
	TAILQ_ENTRY(request) fired_link;	/* of the client, while `fired` */
	uint64_t id;			/* of the frame */

	const struct op *op;
	uint64_t index;			/* blocking: wait for more than this */
	int64_t wait_ns;
	struct span args;		/* inline or owned copy */
	uint8_t bytes[REQUEST_INLINE];

	bool writing;			/* which of `read` and `write`: it waits for the log */
	bool blocked, fired, last;	/* last: time is up, answer whatever there is */
	uint8_t mode;
	uint16_t type;			/* of the frame */
	unsigned replaced;		/* fsm_replaced() when it began to wait */
	union {
		struct read_wait read;
		struct proposal write;
	};
	struct ahead *ahead;		/* looked up before it was confirmed; owned; or NULL */
	struct fsm_watch *watch;
	ev_timer timer;			/* of a blocking query */
};

/* -- for the handlers -- */

/* Answers and ends the request; text and value are copied. */
void request_reply(struct request *q, uint64_t index, struct span value);
void request_fail(struct request *q, enum tv_err err, struct span text);	/* empty text: tv_strerror */
void request_failf(struct request *q, enum tv_err err, const char *text);
/* [u8 err, str text], for questions that are no operations. */
void request_plain(struct request *q, enum tv_err err, const char *text);
/* Replaces the arguments by a copy of these bytes; false: no memory. */
bool request_keep(struct request *q, struct span bytes);
/* Will be read (again) at the end of this turn, or later when there is much to do; it has a client. */
void request_fire(struct request *q);
/* Do the answers of its channel wait to be read?  A large answer more should wait for that. */
bool request_congested(const struct request *q);

/* One handler per kind; each ends in one of the above, at once or later. */
void op_read(struct request *q, uint64_t max_stale_ms);
/* A read whose watch fired or whose time is up. */
void op_read_again(struct request *q);
/* args: borrowed until return. */
void op_write(struct request *q, struct span args);
/* A write that got nowhere, or whose outcome is not known. */
void op_write_failed(struct request *q, enum tv_err err, struct span text);
/* Takes a write that deletes a tree of keys and is to do so in parts.  False: it is one as others. */
bool op_tree(struct request *q, struct span args);
void op_leader(struct request *q);
void op_snapshot(struct request *q);
/* The request is cancelled or its channel closed: leave whatever it waits for.  False: the record is
 * still in the log's hands and must stay. */
bool op_cancel(struct request *q);

/* Scratch of this turn for handlers: reset before each use by whoever takes it. */
struct arena *request_arena(struct request *q);
struct buf *request_buf(struct request *q);
/* The account of what is looked up ahead. */
struct aheads *request_aheads(struct request *q);
/* May another blocking query wait? */
bool request_may_block(struct request *q);

#endif
