/* What the files of the links share; no other file includes it. */
#ifndef TV_RAFTD_PEERS_LINKS_INT_H
#define TV_RAFTD_PEERS_LINKS_INT_H

#include <ev.h>

#include "common/base/log.h"
#include "common/net/chan.h"
#include "common/net/dial.h"
#include "common/net/noise.h"
#include "common/net/server.h"
#include "raftd/engine/log_reader.h"
#include "raftd/peers/links.h"
#include "raftd/peers/sendq.h"

#define SERVED_MAX 8			/* types of questions */

struct link {				/* accepted */
	struct server_conn conn;	/* first */
	struct links *l;
	uint64_t number;		/* names it in questions */
	bool ok;			/* its hello fits */
	struct mono doubted;		/* came while another server with its node id was up; 0: no */
	char uuid[37];			/* "" until it has said hello */
	raft_id id;
	struct hello hello;
};

struct dialled {
	struct peer pub;
	struct links *l;
	struct dialer *dialer;
	struct chan *chan;		/* while up */
	struct calls *calls;
	struct sendq out;		/* messages of the core */
	struct log_window *window;	/* entries for it that are read from the log */
	struct offer {			/* the entries that were given to the channel last */
		uint64_t first, last, term, mark;
	} offer;
	bool wanted;			/* mark of links_sync() */
	bool pinging;
	struct mono pinged, answered;
	bool clock_told;		/* that its clock and ours differ */
	char complaint[512];		/* last refusal that was logged; "" since it was proven */
	struct mono complained, refused;	/* when that was logged; when it happened last */
	bool broke_off;			/* the newest connection ended within the handshake */
	unsigned redials;		/* attempts without backoff that are left, to see whether a process listens still */
	struct mono redialled;		/* when such attempts began last; 0: never */
};

struct links {
	struct raftd *d;
	const struct links_hooks *hooks;
	struct question_type {		/* the questions that are answered */
		uint16_t type;
		bool forming;
		links_server *fn;
	} served[SERVED_MAX];
	unsigned served_count;
	struct server server;		/* its connections are struct link */
	struct noise_conf noise;
	struct dialled *peers[PEERS_MAX];
	unsigned count;
	uint64_t numbers;
	ev_timer sweep, sync;
	struct log_limit refused;
	struct disk_marks marks;	/* of the other servers' disks */
	bool closed, silent;
};

/* -- links.c -- */
struct chan_conf links_chan_conf(struct links *l, const struct chan_events *events, void *ctx, const char *name);
/* Our hello, as a frame of this kind; to: the server that hears it, 0: not known. */
void links_say_hello(struct links *l, struct chan *c, uint16_t flags, uint64_t id, raft_id to);
/* Its bytes. */
void links_hello(struct links *l, struct buf *b, raft_id to);
/* A fitting server says how far its disk has come, and what it remembers of ours. */
void links_heed_marks(struct links *l, const struct hello *h);
/* NULL when unknown. */
struct dialled *links_dialled(struct links *l, const char *uuid);

/* -- links_dial.c: those that we dialled and send on -- */
/* Finds or makes the peer, and follows a change of its address.  NULL: it is ourself, or has no place. */
struct dialled *peer_want(struct links *l, const char *uuid, const char *name, const char *addr);
void peer_stop(struct dialled *p);
void peer_free(struct dialled *p);
/* Its hello, or ours, was judged. */
void peer_set_state(struct dialled *p, bool proven, bool forming);
/* A link with this server was closed: tells the core if its process has ended, by all that can be seen from here. */
void peer_look(struct links *l, const char *uuid);
/* Says hello to it, as a question, unless one is under way. */
void peer_ping(struct dialled *p);

/* -- links_send.c -- */
/* Forgets what waits to be sent to it. */
void links_unsend(struct dialled *p);
/* The status event: a server that leads no more sends no entries. */
void links_on_status(struct raftd *d);

/* -- links_accept.c: those that we accepted and receive on -- */
/* Takes d->link_fd over.  TV_ENOMEM. */
enum tv_err callers_listen(struct links *l);
/* Judges all callers again. */
void callers_judge(struct links *l);
/* Has this server dialled us, with a fitting hello? */
bool callers_have(struct links *l, const char *uuid);

#endif
