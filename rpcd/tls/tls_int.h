/*
 * The parts of the server's side of TLS:
 *
 *	provider.c	keys that sign elsewhere
 *	identity.c	what a server is at a time: a context of OpenSSL, and what binds tickets to it
 *	tickets.c	keys of session tickets
 *	handshakes.c	threads
 *	socket_bio.c	a session's bytes: the socket, or memory while a thread has it
 *	peer_name.c	the name in a client's certificate
 *	tls_conn.c	sessions
 *	tls_server.c	the life of all
 */
#ifndef TV_RPCD_TLS_TLS_INT_H
#define TV_RPCD_TLS_TLS_INT_H

#include <openssl/ssl.h>

#include "common/base/log.h"
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
	BIO_METHOD *wire;
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
	bool in_thread;			/* the thread works on the session; read there alone, and without a thread */
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
	int fd;
	uint32_t step_bytes;		/* of the socket, in one read or one step of the handshake */
	bool stands;			/* the handshake is done */
	bool failed;			/* nothing goes on here */
	bool ended;			/* the socket has said its end */
	bool drained;			/* the socket had no more when it was read last */
};

/* -- identity.c -- */
/* NULL: a sentence is in errbuf. */
struct identity *identity_new(struct tls_server *s, const struct tls_identity *id, char *errbuf, size_t cap);
void identity_release(struct identity *i);	/* a share; NULL: nothing */

/* -- socket_bio.c -- */
/* For sessions whose extra data 0 is their struct tls_conn.  NULL: no memory. */
BIO_METHOD *wire_method_new(void);
BIO *wire_new(const struct tls_conn *t);
/* Writes what waits in memory: true: all of it has left, or cannot. */
bool wire_flush(struct tls_conn *t);

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
