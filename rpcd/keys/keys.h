/*
 * The process "rpcd: keys" as rpcd sees it: it alone reads the private keys of TLS (user _keys), tells what
 * certificates there are, and signs.  It is started again when it dies or stands still (common/proc/helper.h); what was
 * asked is then asked again.
 *
 * It follows the files by itself: certificate, key and authorities are looked at each two seconds, through links and
 * folders that are replaced, and again at a reload.  What is new must be whole and fit together; until then, and for
 * good when it stays wrong, the old ones go on.
 */
#ifndef TV_RPCD_KEYS_KEYS_H
#define TV_RPCD_KEYS_KEYS_H

#include <ev.h>

#include "common/proc/helper.h"
#include "rpcd/opts.h"

#define KEYS_WHAT_BYTES_MAX 512		/* of what is signed */
#define KEYS_SIGNATURE_BYTES_MAX 1024	/* RSA with 8192 bits */
#define KEYS_PENDING_MAX 1024		/* questions at once; further ones are TV_ELIMIT */
#define KEYS_CHAIN_BYTES_MAX (256u << 10)
#define KEYS_CA_BYTES_MAX (2u << 20)

struct keys;

/* How it is signed: what TLS 1.2 and 1.3 know and we offer. */
enum keys_alg {
	KEYS_ECDSA_SHA256,		/* signatures in DER */
	KEYS_ECDSA_SHA384,
	KEYS_ECDSA_SHA512,
	KEYS_RSA_PKCS1_SHA256,		/* TLS 1.2 */
	KEYS_RSA_PKCS1_SHA384,
	KEYS_RSA_PKCS1_SHA512,
	KEYS_RSA_PSS_SHA256,		/* salt as long as the digest, MGF1 with the same digest */
	KEYS_RSA_PSS_SHA384,
	KEYS_RSA_PSS_SHA512,
	KEYS_ED25519,
	KEYS_ALGS
};

/* What there is now.  Borrowed until the callback returns. */
struct keys_files {
	struct span chain;		/* certificates in PEM, ours first; nothing else */
	struct span ca;			/* the same of those who vouch for clients; empty: none */
	/*
	 * Names the key: from its public half, so that it is the same in the next process, and for another certificate
	 * of that key.  The process knows the keys of the last four pairs, those that were replaced for two minutes.
	 */
	uint64_t number;
	int64_t not_after;		/* of our certificate, s since 1970 */
	int64_t ca_not_after;		/* the first of ca that ends; 0: no ca */
	struct span subject;		/* of our certificate, for people; printable */
};

struct keys_conf {
	struct ev_loop *loop;
	int monitor;			/* of keys_monitor_start() */
	const struct rpcd_conf *conf;	/* borrowed; tls for HTTPS is what is read */
	int log_level;			/* enum log_level: at the start */
	/*
	 * From the loop: the first ones, and others than before.  Logged already.  False: they could not be taken, and
	 * come again at the next reload.
	 */
	bool (*on_files)(void *ctx, const struct keys_files *files);
	/*
	 * From the loop: what the files hold cannot be used, and those before, if any, go on.  A sentence that begins
	 * with a path.  Logged already, once for each state of the files.
	 */
	void (*on_bad)(void *ctx, const char *why);
	/* No process can be started any more: the monitor is gone, or stands still. */
	void (*lost)(void *ctx);
	void *ctx;
};

/* Who starts the process: a monitor (common/proc/helper_monitor.h) that becomes the user _keys. */
struct keys_monitor_conf {
	bool best_effort;		/* sandbox, as in cluster.conf */
	int log_level, log_dest;	/* enum log_level, enum log_dest */
};
/* With privileges, and before any key is read.  *fd: ours of the socketpair.  A sentence in errbuf. */
enum tv_err keys_monitor_start(const struct keys_monitor_conf *conf, int *fd, char *errbuf, size_t cap);

/* Starts the process; on_files or on_bad comes from the loop.  NULL: no memory. */
struct keys *keys_new(const struct keys_conf *conf);
/* After a reload: files are looked at now, the paths may be others, and what it logs. */
void keys_reload(struct keys *k, int log_level);
/* From the loop, at the end: threads that wait in keys_sign(), now or later, come back with TV_ECLOSED. */
void keys_close(struct keys *k);
/* When no thread is in keys_sign() any more.  NULL: nothing. */
void keys_free(struct keys *k);

/*
 * From any thread but the loop's: signs by the key of this number what a server of TLS signs: of TLS 1.3 the content
 * of its CertificateVerify (RFC 8446, 4.4.3), of 1.2 the randoms and parameters of its ServerKeyExchange (RFC 8422,
 * 5.4); nothing else is signed.  The whole message is handed over, not its digest.  Waits until the deadline, by
 * clock_mono(), also for another process after the death of the one that was asked.  sig has room for *len bytes, and
 * gets *len.
 *
 * TV_ETIMEOUT; TV_ENOENT: no such key is there any more; TV_EINVAL: not what a server of TLS signs, or the key cannot
 * do that; TV_ELIMIT: too many wait, or sig is too small; TV_ECLOSED: the end, by keys_close().
 */
enum tv_err keys_sign(struct keys *k, uint64_t number, enum keys_alg alg, struct span what, uint8_t *sig, size_t *len,
    struct mono deadline);

struct keys_stats {
	struct helper_stats life;
	char state[HELPER_STATE_BYTES];	/* helper_state() */
	uint64_t signatures;
	uint64_t late;			/* questions given up at their deadline */
	uint64_t refused;		/* as too many waited */
	uint64_t failed;		/* answered, but not by a signature */
	uint64_t pending;
	uint64_t changes;		/* times that other files were taken over */
	uint64_t bad;			/* times that they could not be used */
	char bad_why[256];		/* the last one, while it lasts; "": all is well */
	int64_t not_after, ca_not_after;	/* as in struct keys_files; 0: none */
};
void keys_stats(struct keys *k, struct keys_stats *out);

#endif
