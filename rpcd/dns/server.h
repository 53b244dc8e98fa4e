/*
 * Between the files of rpcd-dns, the program of the process "rpcd: dns".  It parses what strangers send, asks rpcd over
 * a socketpair, and answers.  main.c: the start and the walls; setup.c: what rpcd tells it to serve; asks.c: questions
 * under way, and what is looked up for them; udp.c, tcp.c: their ways; upstream.c: recursors.  Packets and answers are
 * pure (librpcdns.a).
 */
#ifndef TV_RPCD_DNS_SERVER_H
#define TV_RPCD_DNS_SERVER_H

#include <ev.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/addr.h"
#include "common/base/arena.h"
#include "common/base/join.h"
#include "common/net/chan.h"
#include "common/record/messages.h"
#include "rpcd/dns/answer.h"
#include "rpcd/dns/facts.h"
#include "rpcd/dns/launch.h"
#include "rpcd/dns/rate.h"

#define ASKS_MAX 8192			/* questions under way */
#define LOOKS_MAX 4096			/* look-ups under way */
#define ARENA_BYTES_MAX (32u << 20)	/* of one answer being made, and of what one look-up found */
#define UNPACKED_MAX 16		/* facts of one answer; further ones are unpacked each time */
#define NETS_MAX 256

bool address_same(const union addr_sock *a, const union addr_sock *b);	/* port too */
/* Without the port; a mapped one as IPv4.  dst has DNS_ADDRESS_TEXT_MAX bytes. */
void address_text(const union addr_sock *a, char *dst);

struct udp_socket;
struct tcp_conn;
struct tcp;
struct look;
struct upstreams;

/* Where a question comes from, and how it is answered. */
struct client {
	union addr_sock from;
	struct udp_socket *udp;		/* NULL: TCP */
	union addr_sock to;		/* UDP: our address that was asked; family 0: not known */
	struct tcp_conn *conn;
};

struct ask {
	struct server *server;
	TAILQ_ENTRY(ask) link;		/* by deadline, which is by age */
	struct mono deadline;
	struct client client;
	struct dns_query q;
	struct span msg;		/* in the same memory */
	uint64_t seed;
	struct dns_facts facts;
	struct waiter {
		struct ask *ask;
		struct join_waiter joined;	/* a look-up */
	} waiters[DNS_FACTS_MAX];
	unsigned missing;
	struct upstream_call *forward;
	struct ask *next_ready;
};

struct server {
	struct ev_loop *loop;
	struct chan *chan;
	int udp_fds[DNS_SOCKETS_MAX], tcp_fds[DNS_SOCKETS_MAX];
	unsigned udp_count, tcp_count;
	uint32_t overruns[DNS_SOCKETS_MAX];	/* of each UDP socket, as the kernel said last; it wraps around */
	bool best_effort, started;
	bool serving, retiring;		/* told so, each once; a retiring one ends with its last question */
	ev_timer leave;
	struct udp_socket *udp[DNS_SOCKETS_MAX];	/* NULL: not open */
	int log_dest;			/* enum log_dest */

	/* setup.c */
	struct arena conf_arena;
	struct msg_dns_setup conf;	/* borrows it */
	struct dns_zone zone;
	union addr_sock recursors[RECURSORS_MAX];
	unsigned recursor_count;
	union addr_sock told[RECURSORS_MAX];	/* that rpcd named, with those that cannot be asked */
	unsigned told_count;
	uint16_t dialled[RECURSORS_MAX + 1];	/* ports that the walls let be dialled */
	unsigned dialled_count;
	bool families[2];		/* of recursors that may be asked: IPv4, IPv6 */
	union addr_sock listens[DNS_SOCKETS_MAX];	/* ours */
	unsigned listens_count;
	struct addr_net recursion_from[NETS_MAX], own[NETS_MAX];
	unsigned recursion_count, own_count;

	/* asks.c */
	struct arena arena;		/* of the answer that is being made */
	struct buf out;
	struct dns_names names;
	struct rng rng;
	TAILQ_HEAD(, ask) asks;		/* oldest first */
	unsigned ask_count, looks;
	ev_timer sweep;
	struct map looks_open;
	struct look **places;
	uint32_t serial;
	struct facts kept;		/* those that rpcd tells of */
	struct rendered_table rendered;	/* answers made of one of those */
	struct fact *used_one;		/* that the answer under way was made of; NULL: of none yet */
	const struct dns_found *used_found;	/* what it says, in the arena */
	/* Facts of the answer under way that were unpacked: aliases of thousands of instances name few others. */
	struct unpacked { const struct fact *fact; const struct dns_found *found; } unpacked[UNPACKED_MAX];
	unsigned unpacked_count;
	struct facts brief;		/* those with a short life */
	/* Of the names of nodes, and of services: an unknown one was asked for shortly before. */
	struct mono unknown_until[2];
	struct mono unlisted_until[2];	/* the list could not be had */
	struct mono written_until;	/* what is kept is not believed until then */
	ev_timer use;

	struct rate rate;
	struct upstreams *upstreams;	/* NULL: no recursors */
	struct tcp *tcp;
	struct msg_dns_stats stats;
	struct msg_dns_stats reported;
	ev_timer report;
};

/* -- main.c -- */
/* A question ended: was it the last one, and is this process to go? */
void server_left(struct server *s);

/* -- setup.c -- */
/* Takes over what rpcd says.  TV_EINVAL: recursors that the walls of this process, if it has any, are not for. */
enum tv_err setup_take(struct server *s, struct span body);
/* The recursors alone, as MSG_DNS_RECURSORS has them. */
enum tv_err setup_take_recursors(struct server *s, struct span body);
/* Before the walls: the addresses of this host, and those that we listen on. */
void setup_own_addresses(struct server *s);
/* Loopback, or one of this host's own. */
bool setup_is_own(const struct server *s, const union addr_sock *a);
bool setup_may_recurse(const struct server *s, const union addr_sock *a);

/* -- asks.c -- */
bool asks_open(struct server *s);
/* One message from a client, borrowed until return.  False: it gets no answer, now or later. */
bool ask_begin(struct server *s, struct span msg, const struct client *client);
/* The connection is gone: no client waits for these answers. */
void asks_drop_conn(struct server *s, const struct tcp_conn *conn);
/* rpcd's answer to MSG_DNS_ASK. */
enum tv_err asks_found(struct server *s, uint64_t id, struct span body);
/* What is followed, anew; and its end. */
enum tv_err asks_fact(struct server *s, uint64_t id, struct span body);
void asks_end(struct server *s, uint64_t id);
/* The catalog was written by way of this node. */
void asks_written(struct server *s);
/* s->conf is another one: rpcd has forgotten what was followed. */
void asks_setup(struct server *s);

/* -- udp.c -- */
bool udp_open(struct server *s);
/* No questions are read any more; answers go out. */
void udp_stop(struct server *s);
/* Counts what the kernel had no room for: it says so only when it is asked. */
void udp_count_overruns(struct server *s);
void udp_send(struct server *s, const struct client *client, struct span answer);

/* -- tcp.c -- */
bool tcp_open(struct server *s);
/* No connections are accepted any more. */
void tcp_stop(struct server *s);
void tcp_send(struct server *s, struct tcp_conn *conn, struct span answer);
/* May an answer to one of its questions be made now?  Otherwise tcp_again(). */
bool tcp_has_room(struct tcp_conn *conn);
/* This message, which was under way, is asked anew when there is room. */
void tcp_again(struct tcp_conn *conn, struct span msg);
/* A question of this connection ended without an answer. */
void tcp_no_answer(struct server *s, struct tcp_conn *conn);

/* -- upstream.c -- */
struct upstream_call;
/* The reply as it came, with the id and the name of the question; empty: none of them gave one. */
typedef void upstream_done(void *ctx, struct span reply);
/* Before the walls: the pool of ports. */
bool upstream_open(struct server *s, char *errbuf, size_t cap);
/* The message of a client, copied.  done comes once, later.  NULL: too many under way, or no memory. */
struct upstream_call *upstream_ask(struct server *s, struct span msg, bool tcp, upstream_done *done, void *ctx);
void upstream_cancel(struct upstream_call *c);

#endif
