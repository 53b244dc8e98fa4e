/*
 * Links between servers on the raft port.
 *
 * Every server dials every other one that it knows (configuration, gossip, or a server that dialled it), and sends on the
 * link it dialled; it receives on the links it accepted.  So no tie needs breaking.  Links are Noise NNpsk0
 * sessions with a key that only servers can derive (in clear without keys).  Both sides say MSG_RAFT_HELLO first;
 * a peer is *proven* when its answer to ours fits.  The dialler repeats its hello as a question every few seconds, so a
 * silently dead link is noticed.
 */
#ifndef TV_RAFTD_PEERS_LINKS_H
#define TV_RAFTD_PEERS_LINKS_H

#include "common/net/calls.h"
#include "raftd/peers/identity.h"

#define PEERS_MAX 64			/* servers known by any way; further ones are refused */

struct links;

struct peer {				/* read-only for others */
	char uuid[37], name[256], addr[64];
	struct hello hello;		/* last one accepted; uuid[0] == 0: none yet */
	raft_id id;			/* of uuid and store id in the hello; 0 before */
	bool proven;			/* link up, hello answered and fitting */
	bool clock_known;		/* its answers told what its clock shows */
	int64_t clock_ms;		/* by so much it was ahead of ours at the newest one */
	bool forming;			/* link up, but clusters do not agree yet: questions only */
};

/* What the links need of the folders above this one.  Called on the loop. */
struct links_hooks {
	/* A hello was heard.  It is judged after that; a well-formed hello of any server that has the key gets here. */
	void (*heard)(struct raftd *d, const struct hello *h);
	/* A peer has been proven. */
	void (*proven)(struct raftd *d);
	/* May this message of a fitting peer reach the core? */
	bool (*accepts)(struct raftd *d, const struct hello *from, const struct raft_msg *m);
	/*
	 * Sends one chunk of a snapshot, as the core ordered it, with its bytes.  TV_EAGAIN: they are being read, and a
	 * turn comes when they were; any other error: it is lost.
	 */
	enum tv_err (*send_chunk)(struct raftd *d, struct chan *c, const struct raft_send *s);
};

/* Listens on d->link_fd (taken over).  hooks must live as long.  NULL: no memory. */
struct links *links_new(struct raftd *d, const struct links_hooks *hooks);
void links_free(struct links *l);
/* Brings the set of peers in line with configuration and gossip, soon. */
void links_sync(struct links *l);
/* Our identity, or what our disk says of itself, changed: tells every peer and judges all hellos again. */
void links_identity_changed(struct links *l);
/* Leaving: takes no more links and drops those there are, so that no leader adds this server again. */
void links_close(struct links *l);

/* Silent: no message of the core gets in or out; hellos and questions go on. */
void links_silence(struct links *l, bool silent);

/*
 * One message of the core, in order, at the pace at which the peer reads and the log can be read (raftd/peers/sendq.h); lost
 * without a word when the peer is not there, or is known to have gone before it leaves.
 */
void links_send(struct raftd *d, const struct raft_send *s);
/* What was sent in this turn leaves now, or as much of it as may at a time. */
void links_flush(struct raftd *d);
/* Did links_flush() leave messages for which nothing has to happen first? */
bool links_waiting(struct links *l);
/* What the accepting side has to tell. */
void links_info(struct links *l, figure_fn *add, void *ctx);
/* NULL when unknown. */
const struct peer *links_find(struct links *l, const char *uuid);
const struct peer *links_find_id(struct links *l, raft_id id);
unsigned links_count(struct links *l);
const struct peer *links_at(struct links *l, unsigned i);
/*
 * Appends "; cannot be linked with n2 (ADDRESS): WHY" for each server that answers and could not be proven, or nothing:
 * another key, another cluster, a copy.
 */
void links_trouble(struct links *l, struct buf *out);
/* Tries a peer that is down at once (gossip says that it is alive). */
void links_wake(struct links *l, const char *uuid);

/* A question to a peer over the dialled link; TV_EUNREACH when it is not up.  See calls_start(). */
enum tv_err links_ask(struct links *l, const char *uuid, uint16_t type, struct span body, struct mono timeout,
    calls_done *done, void *ctx);
/* Names a question of a peer until it is answered. */
struct link_question {
	uint64_t link, frame;
	uint16_t type;
};
/*
 * Answers a question of a peer, at once or later, by links_answer() or links_reply().  from and body are borrowed until return.
 * An error closes the link.
 */
typedef enum tv_err links_server(struct raftd *d, const struct hello *from, const struct link_question *q, struct span body);
/* Questions of this type go to fn.  forming: also of a peer whose cluster does not agree with ours yet; else TV_EPERM. */
void links_serve(struct links *l, uint16_t type, bool forming, links_server *fn);
/* [u8 err, str text]; nothing happens when the link is gone. */
void links_answer(struct links *l, const struct link_question *q, enum tv_err err, const char *text);
/* The same with any body. */
void links_reply(struct links *l, const struct link_question *q, struct span body);
/* MSG_RAFT_NOTICE to this server, if its link to us is open.  why: enum notice_why. */
void links_notice(struct links *l, const char *uuid, unsigned why, const char *text);

#endif
