/*
 * What gossipd says about the LAN pool, kept up to date over gossipd.sock.  While gossipd is away the last view
 * stays; after it returns, members that it no longer knows are forgotten: that is no news of them.
 */
#ifndef TV_RAFTD_PEERS_GOSSIP_H
#define TV_RAFTD_PEERS_GOSSIP_H

#include "common/net/silence.h"
#include "common/record/member_table.h"
#include "raftd/raftd.h"

#define GOSSIP_MEMBERS_MAX 20000

struct gossip;

struct gossip_server {			/* role=server, own datacenter, with an id and a raft port */
	char uuid[37], name[256], addr[64];
	uint8_t status;			/* enum member_status */
	bool forced;			/* left, but had failed before: force-leave */
	uint64_t expect;		/* tag; 0 none */
	char build[32];			/* tag: its version, "" without */
};

struct gossip_member {			/* one of the table, for the catalog */
	const struct member *member;
	bool gone;			/* reaped */
	bool *dirty;			/* the catalog has not been compared since its last event */
	bool *refused;			/* the catalog refuses it: dirty again when one of its name or id changes */
};

/* What has to be known above this folder.  Called on the loop. */
struct gossip_hooks {
	void (*members_changed)(struct raftd *d);	/* of any role */
	void (*servers_changed)(struct raftd *d);	/* once all are known */
	void (*server_alive)(struct raftd *d, const char *uuid);	/* this one, as news */
};

/* Starts dialling run_dir/gossipd.sock.  hooks must live as long.  NULL: no memory. */
struct gossip *gossip_new(struct raftd *d, const struct gossip_hooks *hooks);
void gossip_free(struct gossip *g);
/*
 * Does its view say which members are not there?  It has been whole for at least that time without a break, which a gossipd that
 * lost its memory needs to find the others again; and it has most voters of the configuration.
 */
bool gossip_settled(struct gossip *g, struct mono time);
/* Once a second or so: is our gossipd there, and does it answer? */
void gossip_look(struct gossip *g);
/* What the newest look found; a frozen one counts as silent after 5 s. */
enum daemon_state gossip_daemon(const struct gossip *g);
/* The same for its health: away only for longer than a restart, of gossipd or of us, takes. */
enum daemon_state gossip_daemon_lasting(const struct gossip *g);
void gossip_each_server(struct gossip *g, void (*fn)(void *ctx, const struct gossip_server *s), void *ctx);
/* One that lives, if there is one: a server that was renamed is known by its former name for a while, as failed. */
bool gossip_find_server(struct gossip *g, const char *uuid, struct gossip_server *out);
/*
 * Has a client of ours that lives the id of this server, and does the catalog keep the server out for it, or has not looked yet?
 * Then it is a copy, and gets no seat.
 */
bool gossip_id_is_clients(struct gossip *g, const struct gossip_server *s);
/* Members in the table, reaped ones too. */
uint32_t gossip_count(const struct gossip *g);
/*
 * Walks members, from `cursor` (0 at first); false at the end.  Reaped ones are told once more, then forgotten
 * with gossip_forget().
 */
bool gossip_next(struct gossip *g, size_t *cursor, struct gossip_member *out);
void gossip_forget(struct gossip *g, const struct member *m);
/* The one of this name, reaped ones too; false: it is not known. */
bool gossip_look_up(struct gossip *g, struct span name, struct gossip_member *out);
/* Is a member of this name known (any status)? */
const struct member *gossip_find(struct gossip *g, struct span name);
/* Our tags beside gossipd's own: bootstrap_expect, and after a recovery the generation, or that we are fenced. */
void gossip_tell_identity(struct gossip *g);
/*
 * Tells the pool that this server leads now: a user event "consul:new-leader" with our name.  It is news for people and
 * scripts, no server acts on it.  Said when gossipd knows its members, again when it went away before it confirmed; not after
 * gossip_calm().
 */
void gossip_announce(struct gossip *g);
void gossip_calm(struct gossip *g);
/* Has gossipd forget a member that has failed.  It is not asked again: the next comparison finds out whether it did. */
void gossip_prune(struct gossip *g, struct span name);
/* Marks all members for comparison with the catalog. */
void gossip_mark_all(struct gossip *g);

#endif
