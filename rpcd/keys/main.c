/*
 * rpcd-keys, the program of the process "rpcd: keys": reads the private keys of TLS, and signs by them.  rpcd starts it
 * as the user _keys with a socketpair as descriptor 3.  It makes no connection, starts no program and writes no file; a
 * key leaves it in no form, and it ends with rpcd.
 *
 * Which files is said by rpcd's first frame; then come the walls, and then the files.  They are looked at again and
 * again, since they are replaced in more ways than a notice of the kernel tells: through links, with their folders, by
 * another name space.
 */
#include <stdio.h>
#include <string.h>
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

/* -n CERT KEY CA_FILE CA_PATH, the last two "" where there is none: would they do?  See keys_check.h. */
static int
check_files(char *const *argv)
{
	const struct pair_paths paths = { argv[0], argv[1], argv[2][0] != '\0' ? argv[2] : NULL,
	    argv[3][0] != '\0' ? argv[3] : NULL };
	struct pair pair;
	char why[512] = "libcrypto cannot start";

	if (!pair_begin() || pair_load(&paths, &pair, why, sizeof(why)) != TV_OK) {
		fprintf(stderr, "rpcd: %s\n", why);
		return 1;
	}
	pair_done(&pair);
	return 0;
}

/* rpcd-keys LEVEL DESTINATION required|best-effort, or -n */
int
main(int argc, char **argv)
{
	static const struct helper_program program = { .owner = "rpcd", .program = "rpcd-keys", .title = "rpcd: keys" };
	struct helper_args args;

	if (argc == 6 && strcmp(argv[1], "-n") == 0)
		return check_files(argv + 2);
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
