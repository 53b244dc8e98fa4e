/*
 * Keys of issuers, fetched by processes "raftd: fetch" that end with it: raftd itself opens no connection to anybody but other servers,
 * and rpcd, which strangers speak with, never has a say in whose signature is good.
 *
 * Each server has its own cache of them (raftd/login/issuers.h); nothing of it is replicated.
 */
#ifndef TV_RAFTD_LOGIN_SERVE_KEY_FETCH_H
#define TV_RAFTD_LOGIN_SERVE_KEY_FETCH_H

#include "common/base/figure.h"
#include "common/base/join.h"
#include "raftd/login/issuers.h"
#include "raftd/raftd.h"

struct key_fetch;

struct key_wait {
	/*
	 * Called once, maybe at once.  TV_OK: keys, which are the waiter's to give back by key_set_unref().  TV_ENOENT, to a wait for newer
	 * ones: there are none for now.  TV_EUNREACH: the sentence says why the issuer has given none.  Others: the sentence, or tv_strerror.
	 */
	void (*done)(struct key_wait *w, enum tv_err err, struct span text);
	struct key_set *keys;
	/* Private. */
	struct join_waiter waiter;
	enum issuer_want want;
};

/* With privileges: starts the monitor that starts the processes.  Without it the server runs, and a warning says so. */
void key_fetch_open(struct raftd *d);
/* The level of the log may have changed. */
void key_fetch_reload(struct raftd *d);
/* NULL: no memory. */
struct key_fetch *key_fetch_new(struct raftd *d);
/* Waits end with TV_ENOTLEADER. */
void key_fetch_free(struct key_fetch *k);
/* source: borrowed until return; after: with ISSUER_NEWER. */
void key_fetch_get(struct key_fetch *k, const struct login_source *source, enum issuer_want want, uint64_t after, struct key_wait *w);
/* Name and value pairs of the `raftd:` section of info. */
void key_fetch_info(const struct key_fetch *k, figure_fn *fn, void *ctx);

#endif
