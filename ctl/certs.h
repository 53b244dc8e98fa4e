/*
 * Private CAs, and certificates that they sign: X.509 version 3 by RFC 5280, with keys on P-256 (OpenSSL).  Neither
 * reads nor writes files.
 */
#ifndef TV_CTL_CERTS_H
#define TV_CTL_CERTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/addr.h"
#include "common/base/buf.h"

#define CERTS_NAMES_MAX 64		/* of either kind in one certificate */
#define CERTS_DAYS_MAX 36500
#define CERTS_COMMON_NAME_MAX 64	/* bytes (RFC 5280, ub-common-name) */
#define CERTS_KEY_BYTES_MAX 65536u	/* of PEM files that are read or made */

/* What is asked for; all but the last three is of a CA or of a certificate alike. */
struct certs_wish {
	const char *common_name;	/* 1 to CERTS_COMMON_NAME_MAX bytes */
	unsigned days;			/* from now, 1 to CERTS_DAYS_MAX */
	const char *uri;		/* NULL: none */
	const char *dns[CERTS_NAMES_MAX];	/* certs_is_name(); of a CA: what it may sign for; none: anything */
	size_t dns_count;
	struct addr ips[CERTS_NAMES_MAX];	/* ports do not matter; not of a CA */
	size_t ip_count;
	bool for_servers, for_clients;	/* extended key usage; not of a CA */
};

/* What was made.  certs_pair_done() in any case. */
struct certs_pair {
	struct buf cert, key;	/* PEM; the key in the form "EC PRIVATE KEY", which Consul reads, too */
	char until[32];		/* the last day, "2027-11-28" */
	bool shortened;		/* the CA ends before the days that were asked for */
};

/* A name of hosts: labels of letters, digits, '-' and '_', the first may be "*"; 253 bytes at most. */
bool certs_is_name(const char *name);
/* False with a sentence in err. */
bool certs_make_ca(const struct certs_wish *wish, struct certs_pair *out, char *err, size_t cap);
/*
 * Signed by this CA, in PEM form, and valid no longer than it.  False with a sentence in err, also when it is no CA,
 * the key is not its own, or what it signs would not be believed, as a name that it may not sign for.
 */
bool certs_make(const struct certs_wish *wish, struct span ca, struct span ca_key, struct certs_pair *out, char *err,
    size_t cap);
void certs_pair_done(struct certs_pair *p);

#endif
