/*
 * rpcd-keys, the program of the process "rpcd: keys": reads the private keys of TLS, and signs by them.  rpcd starts it
 * as the user _keys with a socketpair as descriptor 3.  It makes no connection, starts no program and writes no file; a
 * key leaves it in no form, and it ends with rpcd.
 *
 * Which files is said by rpcd's first frame; then come the walls, and then the files.  They are looked at again and
 * again, since they are replaced in more ways than a notice of the kernel tells: through links, with their folders, by
 * another name space.
 */
#include <unistd.h>

#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/proc/helper_main.h"
#include "rpcd/keys/holder.h"
#include "rpcd/keys/pair.h"

#define TAG "tls"
#define OUT_BYTES_MAX (8u << 20)

static struct chan *chan;

static enum tv_err
build_walls(void *ctx, const struct sandbox_policy *policy)
{
	const struct helper_args *args = ctx;
	char errbuf[512];
	enum tv_err err = sandbox_enter(policy, args->best_effort, errbuf, sizeof(errbuf));

	if (err != TV_OK)
		log_err(TAG, "%s", errbuf);
	return err;
}

static void
retire(void *ctx UNUSED)
{
	chan_flush(chan);
	_exit(0);
}

static enum tv_err
on_frame(void *ctx, struct chan *c UNUSED, const struct frame *f)
{
	return holder_frame(ctx, f);
}

/* rpcd-keys LEVEL DESTINATION required|best-effort */
int
main(int argc, char **argv)
{
	static const struct helper_program program = { .owner = "rpcd", .program = "rpcd-keys", .title = "rpcd: keys" };
	struct helper_args args;

	if (!helper_main_begin(&program, argc, argv, &args))
		return 2;
	if (!pair_begin()) {
		log_err(TAG, "libcrypto cannot start");
		return 1;
	}
	struct ev_loop *loop = ev_default_loop(EVBACKEND_EPOLL | EVFLAG_NOENV);
	struct holder *h = loop == NULL ? NULL : holder_new(&(struct holder_conf){
		.loop = loop, .log_dest = args.log_dest, .wall = build_walls, .retire = retire, .ctx = &args });
	if (h == NULL || (chan = helper_main_serve(loop, MSG_TEXT, OUT_BYTES_MAX, on_frame, h)) == NULL)
		return 1;
	holder_answer_on(h, chan);
	ev_run(loop, 0);
	return 1;		/* the end of the channel ends us */
}
