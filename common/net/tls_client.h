/*
 * Contexts of connections that we make: whose certificates are good, and with which certificate of our own.  A context
 * stays as it was read; for files that were replaced another one is made (tls_client_new()), and sessions that stand on
 * the old one go on.
 */
#ifndef TV_COMMON_NET_TLS_CLIENT_H
#define TV_COMMON_NET_TLS_CLIENT_H

#include <stdint.h>

#include "common/net/tls.h"

#define TLS_FILE_BYTES_MAX (1u << 20)	/* of a file of certificates or a key; the system's may be larger */
#define TLS_FOLDER_FILES_MAX 1024

struct tls_client_conf {		/* NULL or empty: not given */
	/* Authorities in PEM: a file, a folder of such files (not hidden ones), or both; neither: the system's. */
	const char *ca_file, *ca_folder;
	/* Our certificate with those of authorities between behind it, and its key without password; both, in PEM. */
	const char *cert_file, *key_file;
};

struct tls_peer {
	const char *name;		/* a DNS name or an IP address, which the certificate must have; not empty */
	bool skip_verify;		/* any certificate will do */
	const char *protocol;		/* offered by ALPN, or NULL; shorter than 256 bytes */
};

struct tls_client;			/* counted */

/*
 * Reads the files, which may be links, now.  The system's authorities: none at all is no error, and then no certificate
 * is good.  NULL with a sentence that names the file, and with errno of open(2) where it was that, else 0.
 */
struct tls_client *tls_client_new(const struct tls_client_conf *conf, char *errbuf, size_t cap);
struct tls_client *tls_client_join(struct tls_client *c);	/* one more user; returns c */
void tls_client_leave(struct tls_client *c);			/* NULL: nothing */

/*
 * A session on fd, which stays the caller's, for tls_session_shake(); freed by tls_session_free().  A name that is no
 * address is sent (SNI).  NULL: no memory, or the name is longer than TLS_NAME_BYTES - 1.
 */
struct ssl_st *tls_client_open(struct tls_client *c, int fd, const struct tls_peer *peer);

/* When our own certificate ends: s since 1970, or 0 where there is none. */
int64_t tls_client_not_after(const struct tls_client *c);
/* Gives a context that another library made (libcurl) the same authorities and certificate.  False: no memory. */
bool tls_client_lend(const struct tls_client *c, struct ssl_ctx_st *ctx);

#endif
