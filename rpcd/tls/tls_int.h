/*
 * The parts of the server's side of TLS:
 *
 *	provider.c	keys that sign elsewhere
 *	identity.c	what a server is at a time: a context of OpenSSL, and what binds tickets to it
 *	tickets.c	keys of session tickets
 *	handshakes.c	threads
 *	peer_name.c	the name in a client's certificate
 *	tls_conn.c	sessions
 *	tls_server.c	the life of all
 */
#ifndef TV_RPCD_TLS_TLS_INT_H
#define TV_RPCD_TLS_TLS_INT_H

#include <openssl/ssl.h>

#include "common/base/log.h"
#include "common/net/tls.h"
#include "rpcd/tls/handshakes.h"
#include "rpcd/tls/provider.h"
#include "rpcd/tls/tickets.h"
#include "rpcd/tls/tls_server.h"

#define BINDING_BYTES 32		/* SSL_MAX_SID_CTX_LENGTH */

/* Of one tls_server_identify(): shared by the sessions that began with it. */
struct identity {
	unsigned shares;		/* one of them is the server's, while it is the newest */
	SSL_CTX *ssl;
	uint8_t binding[BINDING_BYTES];	/* a hash: suites, authorities, and whether a certificate is asked for */
};

struct tls_server {
	struct tls_server_conf conf;
	struct tls_provider *provider;
	struct tickets *tickets;
	struct handshakes *handshakes;
	struct identity *identity;	/* NULL: none yet */
	struct tls_server_stats stats;	/* but for what handshakes.c counts */
	struct log_limit refusals;
};

/* What a handshake needs while it may be in a thread. */
struct away {
	struct handshake handshake;	/* first */
	struct tls_conn *conn;
	struct mono deadline;		/* of the signature */
	struct buf out;			/* what the peer is to get, in memory until the loop has it again */
	int result;			/* what came of it: as tls_session_shake() */
	unsigned long reason;		/* OpenSSL's error, with -1 */
	enum tv_err signing;		/* what the signer said */
	bool abandoned;			/* by the loop: tls_end() was called meanwhile */
};

struct tls_conn {
	struct tls_server *server;
	struct identity *identity;	/* a share */
	SSL *ssl;
	char *peer_name;		/* owned; NULL: no certificate, or not yet */
	void (*changed)(void *ctx);
	void *ctx;
	struct away *away;		/* owned; NULL: no thread had it, or it is done with that */
	struct mono deadline;		/* of the handshake's signature */
	struct tls_wire wire;		/* `aside` is set by the thread that works on the session */
	bool stands;			/* the handshake is done */
	bool failed;			/* nothing goes on here */
};

/* -- identity.c -- */
/* NULL: a sentence is in errbuf. */
struct identity *identity_new(struct tls_server *s, const struct tls_identity *id, char *errbuf, size_t cap);
void identity_release(struct identity *i);	/* a share; NULL: nothing */

/* -- peer_name.c -- */
/* As tls_peer_san() says; the caller's.  NULL: no memory. */
char *peer_name_of(const X509 *cert);

/* -- tls_conn.c -- */
/* A thread goes on with a handshake; and the loop has it again, or it lost its place in the queue. */
void conn_work(struct handshake *k);
void conn_returned(struct handshake *k);
void conn_displaced(struct handshake *k);
/* Callbacks of SSL_CTX: before a session is resumed; before a certificate is needed. */
int conn_hello(SSL *ssl, int *alert, void *arg);
int conn_certificate(SSL *ssl, void *arg);

#endif
