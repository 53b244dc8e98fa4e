/*
 * One pending request of a channel, from its frame to its answer.  The record is embedded in whatever it
 * waits for: a ReadIndex round, a log entry, a watch, a timer.  When the channel goes or cancels, the
 * request leaves those, except a log entry, which goes on without it.
 *
 * serve/ makes requests and dispatches them; the function that carries one out answers it by request_reply() or one of its like.
 */
#ifndef TV_RAFTD_REQUEST_REQUEST_H
#define TV_RAFTD_REQUEST_REQUEST_H

#include <sys/queue.h>

#include "common/base/map.h"
#include "common/net/chan.h"
#include "raftd/engine/proposals.h"
#include "raftd/engine/reads.h"
#include "raftd/engine/statethread.h"
#include "raftd/raftd.h"

#define REQUEST_INLINE 96		/* bytes of arguments and token kept inside the record: a key's name and a token */
#define ASKER_PAUSE_BYTES (16u << 20)	/* answers that wait: no further questions are read */

struct requests;			/* all of them: memory and limits */

struct asker {				/* a channel, and its requests */
	struct chan *chan;
	TAILQ_HEAD(request_list, request) requests;
	struct request_list fired[2];	/* to be read again: of one record, and lists */
	struct map by_id;
};

struct request {
	struct raftd *d;
	struct asker *asker;		/* NULL: the channel is gone */
	struct map_node by_id;		/* of the channel; the hash is the id of the frame itself */
	TAILQ_ENTRY(request) link;	/* of the channel; or among the spares */
	TAILQ_ENTRY(request) fired_link;	/* of the channel, while `fired` */

	const struct op *op;
	uint64_t index;			/* blocking: wait for more than this */
	int64_t wait_ns;
	struct span args, token;	/* inline or owned copy, one behind the other; token: for the answers of a query that waits */
	uint8_t bytes[REQUEST_INLINE];

	bool writing;			/* which of `read` and `write`: it waits for the log */
	bool blocked, fired, last;	/* last: time is up, answer whatever there is */
	bool again;			/* its watch fired while the state was looked at */
	bool hidden;			/* its answer leaves something out that its token may not read */
	bool is_guarded;
	bool confirmed;			/* a stale read that was refused, and is looked at again in a state that is not */
	bool how;			/* what go_on is told: dry_run of MSG_RAFT_RECOVER, force of MSG_RAFT_LEAVE */
	uint8_t mode;
	uint8_t judged;			/* so many times again, since its premises had changed before it was applied */
	uint16_t type;			/* of the frame */
	unsigned replaced;		/* fsm_replaced() when it began to wait */
	union {
		struct read_wait read;
		struct proposal write;
	};
	void (*go_on)(struct request *q, bool how);	/* no operation: what comes once it was judged */
	struct state_read *lookup;	/* under way; owned; or NULL */
	uint64_t needed;		/* what is found in a state of this index or newer may be given */
	struct fsm_watch *watch;
	const struct fsm_rights *rights;	/* that it was judged by, owned; NULL: none */
	TAILQ_ENTRY(request) guarded;	/* while it waits: of those whose tokens may change, see raftd/serve/token_watch.h */
	ev_timer timer;			/* of a blocking query */
};

/* What carries out an operation that is neither a write to the log nor a read of the state: a row of its area's array,
 * which ends with a row of zeros.  args: the decoded record, in request_arena(); its texts are in q->args. */
struct request_op {
	uint16_t code;
	void (*serve)(struct request *q, const void *args);
};

/* -- for functions that carry them out -- */

/* Answers and ends the request; text and value are copied. */
void request_reply(struct request *q, uint64_t index, struct span value);
/* The same with a value that is not copied when it is large: its memory is taken over, whatever comes of it. */
void request_reply_with(struct request *q, uint64_t index, struct buf *value);
void request_fail(struct request *q, enum tv_err err, struct span text);	/* empty text: tv_strerror */
void request_failf(struct request *q, enum tv_err err, const char *text);
/* [u8 err, str text], for questions that are no operations; with a value (NULL: none, empty: nil) behind them. */
void request_plain(struct request *q, enum tv_err err, const char *text, const struct span *value);
/* The same with a body that write() puts there. */
void request_write(struct request *q, void (*write)(void *ctx, struct buf *body), void *ctx);
/* Replaces arguments and token by copies; args must not be of those that it has.  False: no memory. */
bool request_keep(struct request *q, struct span args, struct span token);
/* Will be read (again) at the end of this turn, or later when there is much to do; its channel is there, and no look-up is under way. */
void request_fire(struct request *q);
/* Do the answers of its channel wait to be read?  A large answer more should wait for that. */
bool request_congested(const struct request *q);

/* Scratch of this turn for handlers: reset by the handler before each use. */
struct arena *request_arena(struct request *q);
struct buf *request_buf(struct request *q);
/* May another blocking query wait? */
bool request_may_block(struct request *q);

/* -- for serve/ -- */

/* Counts a refusal for want of rights. */
void request_denied(struct request *q);
/* Counts a write whose right is judged again, or that is given up since it was so often. */
void request_judged_again(struct request *q, bool again);

/* NULL: no memory. */
struct requests *requests_new(struct raftd *d);
/* After all askers are gone. */
void requests_free(struct requests *all);
void asker_init(struct asker *a);
/* It has no requests any more. */
void asker_done(struct asker *a);
/* Do answers wait to be read, so that no more questions should be? */
bool asker_congested(const struct asker *a);
/* Of this frame, with empty arguments.  NULL: no memory. */
struct request *request_new(struct raftd *d, struct asker *a, const struct frame *f);
/* The newest one of this frame id; NULL: there is none. */
struct request *request_find(struct asker *a, uint64_t id);
/* The next fired one that may be read now, which is fired no more; NULL: there is none. */
struct request *request_fired(struct asker *a);
/* Is there one? */
bool request_is_fired(const struct asker *a);
/* Gives up what is looked up for it, if anything. */
void request_drop_lookup(struct request *q);
/* Would more be pending, with so many bytes of arguments more, than may be? */
bool requests_full(const struct requests *all, size_t bytes);
/* Out of the lists of its channel; the record stays until the module that holds it ends it. */
void request_detach(struct request *q);
/* Ends it without an answer. */
void request_free(struct request *q);
/* Name and value pairs of the `raftd:` section of info. */
void requests_info(const struct requests *all, figure_fn *fn, void *ctx);

#endif
