/*
 * rpcd-check, the program of the processes "rpcd: check": runs health checks, and knows nothing else.  rpcd starts it
 * as the user _check (rpcd/checks/check_process.h) with a socketpair as descriptor 3.  It ends with rpcd.
 *
 * There are up to three, which have nothing in common but the table of checks.  One dials, and reads what strangers
 * answer: behind walls in which no program can be started and no file written.  One runs scripts, reads their output
 * only, and opens no connection; it is not started where scripts are off.  One speaks with docker, behind walls as the
 * first but for the socket of docker; it is not started where that has no name.
 */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/proc/helper_main.h"
#include "common/proc/sandbox.h"
#include "rpcd/check/checker.h"
#include "rpcd/check/credentials.h"
#include "rpcd/check/curl_loop.h"
#include "rpcd/check/resolve.h"

#define OUT_BYTES_MAX (64u << 20)
#define TAG "check"

/* Names would go on failing, or be those of yesterday.  rpcd starts another process, which can read it. */
static void
begin_anew(const char *path)
{
	log_info(TAG, "%s is another file by now: the process that runs checks is started anew, to read it", path);
	helper_main_renew();
}

static enum tv_err
wall_network(struct credentials *c, bool best_effort, char *errbuf, size_t cap)
{
	struct sandbox_policy policy = { .path_count = 0 };

	sandbox_internet(&policy);
	credentials_paths(c, &policy);
	return sandbox_enter(&policy, best_effort, errbuf, cap);
}

/*
 * The first setup says which files the walls let through, and comes from rpcd before anything else; another one says
 * when there are others.
 */
static enum tv_err
enter_network(struct checker *k, const struct msg_check_setup *setup)
{
	const struct span files[] = { setup->ca_file, setup->ca_path, setup->cert_file, setup->key_file };
	char paths[4][PATH_MAX] = { "" }, errbuf[512] = "";
	enum tv_err err = TV_OK;

	for (int i = 0; i < 4; i++)
		if (files[i].len > 0 && !span_copy(files[i], paths[i], sizeof(paths[i])))
			return TV_EFORMAT;
	const struct tls_client_conf conf = { paths[0], paths[1], paths[2], paths[3] };
	if (k->credentials != NULL) {
		if (!credentials_are(k->credentials, &conf)) {
			log_info(TAG, "tls.checks names other files: the process that runs checks is started anew");
			helper_main_renew();
		}
		return TV_OK;
	}
	if ((k->credentials = credentials_new(&conf)) == NULL)
		return TV_ENOMEM;
	credentials_on_stale(k->credentials, begin_anew);
	if ((err = wall_network(k->credentials, k->best_effort, errbuf, sizeof(errbuf))) != TV_OK)
		log_err(TAG, "%s", errbuf);
	else if ((k->resolver = resolver_new(k->loop, begin_anew)) == NULL)
		err = TV_ENOMEM;
	return err;
}

static enum tv_err
take_put(struct checker *k, struct span body)
{
	struct msg_check_put put = { 0 };
	enum tv_err err = msg_read(&msg_check_put_schema, body, NULL, &put);

	return err != TV_OK ? err : checker_put(k, &put);
}

static enum tv_err
take_setup(struct checker *k, struct span body)
{
	struct msg_check_setup setup = { 0 };
	enum tv_err err = msg_read(&msg_check_setup_schema, body, NULL, &setup);

	if (err == TV_OK && k->role == ROLE_NETWORK)
		err = enter_network(k, &setup);
	return err != TV_OK ? err : checker_setup(k, &setup);
}

static enum tv_err
on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct checker *k = ctx;
	struct msg_check_drop drop = { 0 };
	enum tv_err err;

	if (k->setup.runs_max == 0 && f->type != MSG_CHECK_SETUP)
		return TV_EFORMAT;
	switch (f->type) {
	case MSG_CHECK_SETUP:
		return take_setup(k, f->body);
	case MSG_CHECK_PUT:
		return take_put(k, f->body);
	case MSG_CHECK_DROP:
		if ((err = msg_read(&msg_check_drop_schema, f->body, NULL, &drop)) == TV_OK)
			checker_drop(k, drop.handle);
		return err;
	case MSG_CHECK_SYNC:
		return chan_send(c, f->type, FRAME_REPLY, f->id, MSG_EMPTY);
	default:
		return TV_EFORMAT;
	}
}

/* Docker's socket is a matter of the file's mode: the policy knows only that there may be unix sockets. */
static enum tv_err
wall_docker(const char *path, bool best_effort, char *errbuf, size_t cap)
{
	struct sandbox_policy policy = { .unix_stream = true };

	sandbox_path(&policy, path, SANDBOX_CONNECT);
	sandbox_path(&policy, "/sys/devices/system/cpu/online", SANDBOX_READ);
	return sandbox_enter(&policy, best_effort, errbuf, cap);
}

/* Scripts need most of what there is; their walls are the user, and those of probe_script.c. */
static enum tv_err
wall_scripts(char *errbuf, size_t cap)
{
	struct rlimit none = { 0, 0 };

	if (geteuid() == 0 || getegid() == 0)
		return tv_fail(errbuf, cap, TV_EPERM, "scripts never run as root");
	if (setrlimit(RLIMIT_CORE, &none) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 &&
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
		return TV_OK;
	return tv_fail(errbuf, cap, TV_ESYS, "walls: %s", strerror(errno));
}

/* What opens connections has its walls with the first setup. */
static enum tv_err
prepare(struct checker *k, char *errbuf, size_t cap)
{
	enum tv_err err = TV_OK;

	k->loop = ev_default_loop(EVBACKEND_EPOLL | EVFLAG_NOENV);
	k->schedule = schedule_new((uint64_t)clock_wall_ns());
	if (k->loop == NULL || k->schedule == NULL)
		err = tv_fail(errbuf, cap, TV_ENOMEM, "%s", tv_strerror(TV_ENOMEM));
	if (err == TV_OK && k->role != ROLE_SCRIPTS && (err = tls_begin(errbuf, cap)) == TV_OK &&
	    (k->curl = curl_loop_new(k->loop)) == NULL)
		err = tv_fail(errbuf, cap, TV_ENOMEM, "libcurl does not start");
	if (err == TV_OK && k->role == ROLE_SCRIPTS)
		err = wall_scripts(errbuf, cap);
	if (err == TV_OK && k->role == ROLE_DOCKER)
		err = wall_docker(k->docker_socket, k->best_effort, errbuf, cap);
	return err;
}

static bool
take_role(struct checker *k, const char *name)
{
	static const char *const names[] = CHECK_ROLE_NAMES;

	for (k->role = 0; k->role < CHECK_ROLES; k->role++)
		if (strcmp(name, names[k->role]) == 0)
			return true;
	return false;
}

/* rpcd-check network|scripts|docker LEVEL DESTINATION required|best-effort SOCKET-OF-DOCKER */
int
main(int argc, char **argv)
{
	static const struct helper_program program = {
		.owner = "rpcd", .program = "rpcd-check", .title = "rpcd: check", .first = 1, .last = true,
	};
	static struct checker k;
	struct helper_args args;
	char errbuf[512] = "";

	if (!helper_main_begin(&program, argc, argv, &args) || !take_role(&k, args.first[0]))
		return 2;
	k.docker_socket = args.last;
	k.log_dest = args.log_dest;
	k.best_effort = args.best_effort;
	if (prepare(&k, errbuf, sizeof(errbuf)) != TV_OK) {
		log_err(TAG, "%s", errbuf);
		return 1;
	}
	k.chan = helper_main_serve(k.loop, MSG_LARGE, OUT_BYTES_MAX, on_frame, &k);
	if (k.chan == NULL)
		return 1;
	ev_run(k.loop, 0);
	return 1;		/* the end of the channel ends us */
}
