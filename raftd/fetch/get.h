/* One document over HTTP, with libcurl. */
#ifndef TV_RAFTD_FETCH_GET_H
#define TV_RAFTD_FETCH_GET_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/mono.h"

#define GET_REDIRECTS_MAX 3L

struct get_conf {
	const char *ca;			/* path of PEM of the only authorities to trust; NULL: those of the system */
	struct mono until;
	void (*pulse)(void *ctx);	/* called about each second while it goes on; may be NULL */
	void *pulse_ctx;
};

/* Before the walls: libraries read their files.  False: they cannot be used. */
bool get_init(void);
/*
 * Appends to body, up to its cap.  TV_EUNREACH with a sentence: no answer, not with status 200, too long or too much, from a server
 * that cannot prove its name, or that leads from https to http.
 */
enum tv_err get_url(const char *url, const struct get_conf *conf, struct buf *body, struct buf *why);

#endif
