/*
 * The server's side of TLS 1.2 and 1.3 (OpenSSL 3): sessions on connections that others have accepted (rpcd/http).
 *
 * No private key is in this process: signatures are asked for by `sign` (rpcd/keys), from threads.  A handshake that
 * needs one pauses before it does, and goes on in one of a few threads; resumed ones, and all bytes of sessions that
 * stand, never leave the loop and never wait for a signer.
 *
 * Certificates are replaced as a whole; sessions that stand, or whose handshake is under way, keep the ones they began
 * with.  A client's certificate admits it to the port, and gives it no rights.
 */
#ifndef TV_RPCD_TLS_TLS_SERVER_H
#define TV_RPCD_TLS_TLS_SERVER_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/mono.h"
#include "common/base/rd.h"
#include "common/net/stream.h"
#include "rpcd/keys/keys.h"

struct tls_server;
struct tls_conn;

/* As keys_sign(), with ctx for its first argument.  Called from several threads at once. */
typedef enum tv_err tls_sign(void *ctx, uint64_t number, enum keys_alg alg, struct span what, uint8_t *sig, size_t *len,
    struct mono deadline);

struct tls_server_conf {
	struct ev_loop *loop;
	tls_sign *sign;
	void *ctx;
	bool h2;				/* offer HTTP/2 (ALPN) besides HTTP/1.1 */
	struct mono handshake_timeout;	/* of one: how long a signature may be waited for */
	unsigned waiting_max;		/* handshakes in the queue of the threads; 0: a default */
};

enum tls_ask {
	TLS_ASK_NOTHING,
	TLS_ASK,			/* a client's certificate is asked for, and verified if there is one */
	TLS_REQUIRE,			/* without a good one there is no session */
};

/* Borrowed for the call. */
struct tls_identity {
	struct span chain;		/* PEM: the server's certificate, then those between it and its CA */
	uint64_t key;			/* the number of its private key, for tls_sign */
	struct span ca;			/* PEM: whose clients are good; may be empty with TLS_ASK_NOTHING */
	enum tls_ask ask;
	bool only_tls13;
	/* Of TLS 1.2, OpenSSL's names with colons; NULL: our choice.  The order of clients does not count. */
	const char *ciphers;
};

/* Does this program have TLS, or is it linked without (no_tls.c)? */
bool tls_server_is_built(void);
/* Starts the library, as tls_begin() says.  TV_EDISABLED: it is not built. */
enum tv_err tls_server_begin(char *errbuf, size_t cap);

/* Nothing is there yet; the library must have been begun.  NULL: no memory. */
struct tls_server *tls_server_new(const struct tls_server_conf *conf);
/*
 * From now on new sessions are like this.  Where `ca` or `ask` differ from before, no older session can be resumed.
 * An error leaves what was there, and errbuf has a sentence.
 */
enum tv_err tls_server_identify(struct tls_server *s, const struct tls_identity *id, char *errbuf, size_t cap);
/* handshake_timeout of the configuration, for sessions that begin from now on. */
void tls_server_set_timeout(struct tls_server *s, struct mono handshake_timeout);
/*
 * No handshake waits any more, and no thread runs afterwards; to be called once a waiting tls_sign returns at
 * once.  All connections were ended.  NULL: nothing.
 */
void tls_server_free(struct tls_server *s);

/*
 * A session on fd, which stays the caller's, connected and non-blocking.  changed: called from the loop when a thread
 * is done with it; never before tls_shake() has returned.  NULL: none (no certificate, no memory).
 */
struct tls_conn *tls_accept(struct tls_server *s, int fd, void (*changed)(void *ctx), void *ctx);
/*
 * 1: the session stands; 0: wait: for the socket (tls_wants_write() says for what), or, while tls_is_away(), for
 * `changed`, whatever the socket tells; -1: it failed, and the server has counted it.
 */
int tls_shake(struct tls_conn *t);
bool tls_wants_write(const struct tls_conn *t);
bool tls_is_away(const struct tls_conn *t);
/* Once the session stands.  What was chosen by ALPN: HTTP/2?  Otherwise HTTP/1.1. */
bool tls_is_h2(const struct tls_conn *t);
/*
 * The name in the certificate of the client: its first URI, name of DNS or address of mail ("uri:spiffe://...",
 * "dns:a.b", "email:..."), or its common name ("cn:..."); printable, at most 255 bytes.  NULL: it has shown none.
 */
const char *tls_peer_san(const struct tls_conn *t);
/* close_notify, best effort: before the socket's own end. */
void tls_say_end(struct tls_conn *t);
/*
 * At any time, also while a thread has it: it is freed when that returns, but fd, which threads never touch, may be
 * closed at once.  `changed` is not called any more.  NULL: nothing.
 */
void tls_end(struct tls_conn *t);
/*
 * read: 0 only after the peer's close_notify; -1 with errno 0: it ended without; EAGAIN as stream.h says.  `sealed` is
 * a struct tls_conn.
 */
extern const struct stream_seal tls_conn_seal;
/* After a read: may there be more, here or in the socket, of which no event of the socket's will tell? */
bool tls_may_have_more(const struct tls_conn *t);
/* An event has told of bytes in the socket: a short read before it means nothing any more. */
void tls_has_news(struct tls_conn *t);

struct tls_server_stats {
	uint64_t full, resumed;		/* handshakes that ended well */
	uint64_t tls12, tls13;		/* of both */
	uint64_t client_certs;		/* of both: the client has shown one */
	uint64_t failed_not_tls;	/* no ClientHello: plain HTTP, garbage */
	uint64_t failed_no_match;	/* no version, suite, group or protocol in common */
	uint64_t failed_client_cert;	/* none although it is required, or a bad one */
	uint64_t failed_refused;	/* by the client: it does not trust our certificate, for example */
	uint64_t failed_cut;		/* the client went */
	uint64_t failed_signer;		/* no signature, or not in time */
	uint64_t failed_other;
	uint64_t refused_full;		/* too many waited for a thread */
	unsigned waiting, waiting_most;	/* for a thread, now and at most */
	unsigned threads;		/* that run */
};
void tls_server_stats(const struct tls_server *s, struct tls_server_stats *out);

#endif
