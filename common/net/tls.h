/*
 * TLS on a connection that is not blocking, by OpenSSL 3: what both ends have in common.  A session is OpenSSL's own
 * SSL; contexts of those that dial are in tls_client.h, and rpcd's for those that are accepted in rpcd/tls/.
 *
 * One session is used by one thread at a time, which may be another one later.  No function here waits.
 */
#ifndef TV_COMMON_NET_TLS_H
#define TV_COMMON_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/net/stream.h"

#define TLS_WHY_BYTES 512
#define TLS_NAME_BYTES 256		/* of a name with its NUL; DNS has 253 bytes at most */
#define TLS_HANDSHAKE_BYTES_MAX (64u << 10)	/* of certificates in a handshake */

struct ssl_st;				/* OpenSSL's SSL and SSL_CTX */
struct ssl_ctx_st;
struct x509_store_ctx_st;

/*
 * Starts the library for this process, once, before its walls stand and before threads start: all that it would read
 * from the disk later is read here.  Nothing is read of the system's openssl.cnf (why: doc/decisions/common.md), and
 * libcurl reads nothing of it afterwards.  TV_ENOMEM with a sentence.
 */
enum tv_err tls_begin(char *errbuf, size_t cap);

/*
 * What all our contexts have: TLS 1.2 and 1.3, no renegotiation, no compression, buffers that an idle session gives
 * back, writes that may take a part and may be offered again from another place, bounded certificates, no questions for
 * passwords.  False: no memory.
 */
bool tls_context_prepare(struct ssl_ctx_st *ctx);

/* Where a session's bytes come from and go to; mostly a part of its owner's structure, and outlives the session. */
struct tls_wire {
	int fd;				/* non-blocking; stays the owner's */
	uint32_t step_max;		/* bytes of the socket that one step of the session may take: EPROTO beyond */
	uint32_t step_bytes;		/* that it has taken */
	struct buf *aside;		/* not NULL: nothing is read, and what is written waits here, as in a thread */
	bool ended;			/* the socket has said its end */
	bool drained;			/* the socket had no more when it was read last */
	bool owned;			/* by the session */
};

/*
 * Its bytes are those of this wire: they raise no signal, and one step of the session reads a bounded number of them,
 * whatever the peer sends.  For one on another BIO the caller has to see to that.  After tls_begin().  False: no
 * memory.
 */
bool tls_session_set_wire(struct ssl_st *s, struct tls_wire *w);
/* The same with a wire of its own on this socket, with bounds for a client. */
bool tls_session_set_socket(struct ssl_st *s, int fd);

/*
 * 1: done.  0: again, when the socket can be read or (tls_session_wants_write()) written; or, at the server's end, when
 * SSL_want_x509_lookup() says so, in a thread that may wait.  -1: failed, why says it ("x509: ...": what is wrong with
 * the peer's certificate; "remote error: tls: ...": the peer's alert; else "tls: ...").
 */
int tls_session_shake(struct ssl_st *s, char why[TLS_WHY_BYTES]);
/* After tls_session_shake() gave 0. */
bool tls_session_wants_write(const struct ssl_st *s);
/*
 * Why the last tls_session_shake(), or the last read or write through tls_seal, has failed; by the same thread, and
 * with no other session in between.  error: errno of then.
 */
void tls_session_failure(struct ssl_st *s, int error, char why[TLS_WHY_BYTES]);
/*
 * For SSL_set_verify(), at the end that knows the other's name: the sentence has the names of a certificate with other
 * ones.
 */
int tls_session_note_names(int good, struct x509_store_ctx_st *verify);
/*
 * Tells the peer that no bytes come any more (close_notify), as far as the socket takes it at once; a peer takes the
 * end of the connection without it for a cut.  What the peer still sends can be read.  No second time: nothing.
 */
void tls_session_end(struct ssl_st *s);
void tls_session_free(struct ssl_st *s);	/* NULL: nothing; the socket stays */

/*
 * Of an SSL whose handshake is done.  read: 0 is the peer's close_notify; -1 with errno: EAGAIN, 0 where the connection
 * ended without it, EPROTO for what is no TLS, an alert or a flood of records without data, or the socket's.  What
 * EAGAIN follows was all that is here; before it the socket may be empty while there is more to read, right after the
 * handshake, too (is_pending).  write takes at most a record (16 KiB) at once; bytes that were refused
 * with EAGAIN are offered again, the same and no fewer, before others.
 */
extern const struct stream_seal tls_seal;

#endif
