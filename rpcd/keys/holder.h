/*
 * What rpcd-keys holds and does: it takes rpcd's frames, follows the files, and answers on a channel.  Walls and the
 * end of the process are the program's (main.c), so that tests can do without.
 */
#ifndef TV_RPCD_KEYS_HOLDER_H
#define TV_RPCD_KEYS_HOLDER_H

#include <ev.h>

#include "common/net/chan.h"
#include "common/proc/sandbox.h"

struct holder;

struct holder_conf {
	struct ev_loop *loop;
	int log_dest;			/* enum log_dest */
	/* Before a file is read; policy lets those be read.  An error, which it has logged, ends the channel. */
	enum tv_err (*wall)(void *ctx, const struct sandbox_policy *policy);
	void (*retire)(void *ctx);	/* another process serves: end; what was asked has its answer in the channel */
	void *ctx;
};

/* After pair_begin().  NULL: no memory. */
struct holder *holder_new(const struct holder_conf *conf);
/* To be called before the first frame. */
void holder_answer_on(struct holder *h, struct chan *chan);
/* One frame of rpcd: MSG_KEYS_*.  An error is to close the channel. */
enum tv_err holder_frame(struct holder *h, const struct frame *f);
void holder_free(struct holder *h);

#endif
