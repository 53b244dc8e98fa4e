/*
 * Life cycle of a daemon.  daemon_main() is the order of things; each step below is one function that
 * leaves a sentence in errbuf when it fails, and every failure ends the program.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/descriptors.h"
#include "common/base/log.h"
#include "common/net/chan.h"
#include "common/proc/await.h"
#include "common/proc/daemon.h"
#include "common/proc/folders.h"
#include "common/proc/heaptrim.h"
#include "common/proc/hold.h"
#include "common/proc/log_drain.h"
#include "common/proc/past.h"
#include "common/proc/privdrop.h"

#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))

#define HEAPTRIM_PERIOD MONO_S(10)

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* The one daemon of this process: signals and systemd know no context. */
static struct {
	struct daemon_spec *spec;
	struct ev_loop *loop;
	struct hold hold;		/* on data_dir/NAME */
	struct folders *folders;	/* NULL: not running yet */
	char socket[512];		/* path of the unix socket, "" before it is bound */
	int status;			/* what daemon_main returns */
	bool debug;			/* -d wins over log_level */
	bool quitting;			/* also before the loop runs, when libev would forget */
	bool running;			/* run() succeeded: there is something to wind down */
	bool winding_down;
	struct {
		uid_t uid;
		const char *user;	/* NULL: root, or who started us */
	} peers[4];
	size_t peer_count;
} state;

struct options {
	const char *dir;
	unsigned check;			/* -n; 2: files that are named, too */
	bool debug;
	bool dir_asked;			/* with -c */
};

struct trouble {
	char text[1024];
};

static void
usage(const struct daemon_spec *d, FILE *to)
{
	fprintf(to, "usage: %s [-c directory] [-dn]\n       %s --help | --version\n", d->name, d->name);
}

/* The exit status: what was asked for is not there when standard output is full. */
static int
printed(void)
{
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : EXIT_FAILED;
}

static int
help(const struct daemon_spec *d)
{
	usage(d, stdout);
	printf("\n"
	    "  -c directory   folder of cluster.conf and %s.conf, instead of " TV_SYSCONFDIR "\n"
	    "  -d             log at debug level\n"
	    "  -n             check the configuration, print it normalised, and exit;\n"
	    "                 twice: also files of TLS that it names\n"
	    "  -V, --version  print the version and exit\n"
	    "  -h, --help     print this and exit\n"
	    "\n"
	    "Manual pages: %s(8), %s.conf(5), cluster.conf(5).\n", d->name, d->name, d->name);
	return printed();
}

static int
version(const struct daemon_spec *d)
{
	printf("%s %s (triumvir)\n", d->name, TV_VERSION);
	return printed();
}

/* The exit status, or -1 to go on. */
static int
parse_options(const struct daemon_spec *d, int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{ "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' }, { NULL, 0, NULL, 0 },
	};

	*o = (struct options){ .dir = TV_SYSCONFDIR };
	for (int c; (c = getopt_long(argc, argv, "c:dhnV", longs, NULL)) != -1;)
		switch (c) {
		case 'c':
			o->dir = optarg;
			o->dir_asked = true;
			break;
		case 'd':
			o->debug = true;
			break;
		case 'h':
			return help(d);
		case 'n':
			o->check++;
			break;
		case 'V':
			return version(d);
		default:
			usage(d, stderr);	/* getopt has said what is wrong */
			return EXIT_USAGE;
		}
	if (optind != argc) {
		fprintf(stderr, "%s: \"%s\" is no option, and there are no other arguments\n", argv[0], argv[optind]);
		usage(d, stderr);
		return EXIT_USAGE;
	}
	return -1;
}

/* Standard descriptors that are open, and no others: others belong to the process that started us. */
static void
clean_descriptors(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	(void)close_range(STDERR_FILENO + 1, ~0U, 0);	/* a kernel without it leaves them open: no harm done */
}

/* A relative folder would change its meaning with chdir("/").  One that was asked for has to be there. */
static enum tv_err
absolute_dir(struct daemon_spec *d, const char *dir, bool asked, struct trouble *t)
{
	char *path = realpath(dir, NULL);

	if (path == NULL && errno == ENOENT && !asked)
		path = strdup(dir);	/* no configuration: defaults */
	if (path == NULL) {
		snprintf(t->text, sizeof(t->text), "%s: %s%s", dir, strerror(errno),
		    asked ? " (the folder of the configuration, from -c)" : "");
		return TV_ESYS;
	}
	d->conf_dir = path;
	return TV_OK;
}

static enum tv_err
own_conf_path(const struct daemon_spec *d, char *path, size_t cap, struct trouble *t)
{
	if (snprintf(path, cap, "%s/%s.conf", d->conf_dir, d->name) < (int)cap)
		return TV_OK;
	snprintf(t->text, sizeof(t->text), "%s: the path is too long", d->conf_dir);
	return TV_EINVAL;
}

/* running: what the process works with, at a reload; else NULL. */
static enum tv_err
load_conf(struct daemon_spec *d, const struct cluster_conf *running, struct trouble *t)
{
	char path[4096];
	enum tv_err err = cluster_conf_load(d->conf_dir, running, d->cluster, t->text, sizeof(t->text));

	if (err != TV_OK)
		return err;
	memset(d->conf, 0, d->conf_size);
	err = own_conf_path(d, path, sizeof(path), t);
	if (err == TV_OK)
		err = conf_load(path, d->opts, d->opt_count, d->conf, t->text, sizeof(t->text));
	if (err == TV_ENOENT)
		err = TV_OK;
	if (err == TV_OK && d->check != NULL && (err = d->check(d, t->text, sizeof(t->text))) != TV_OK)
		conf_free(d->opts, d->opt_count, d->conf);
	if (err != TV_OK)
		cluster_conf_free(d->cluster);
	return err;
}

/* At the boot of a machine its addresses may come later than we do. */
static enum tv_err
load_patiently(struct daemon_spec *d, bool patient, struct trouble *t)
{
	struct await wait = { .begun = false };
	enum tv_err err;

	while ((err = load_conf(d, NULL, t)) == TV_EAGAIN && patient)
		if (!await_more(&wait, d->name, t->text))
			break;
	return err;
}

static void
free_conf(struct daemon_spec *d)
{
	conf_free(d->opts, d->opt_count, d->conf);
	cluster_conf_free(d->cluster);
	free((char *)d->conf_dir);
	d->conf_dir = NULL;
}

static void
set_log(const struct daemon_spec *d)
{
	log_init(d->name, state.debug ? LOG_LVL_DEBUG : (enum log_level)d->cluster->log_level,
	    (enum log_dest)d->cluster->log_to);
}

/* -n: the normalised result of both files. */
static int
print_conf(const struct daemon_spec *d)
{
	struct buf out = BUF_INIT(1 << 20);
	bool written;

	buf_printf(&out, "# --- %s/cluster.conf ---\n", d->conf_dir);
	conf_print(cluster_opts, cluster_opt_count, d->cluster, &out);
	buf_printf(&out, "\n# --- %s/%s.conf ---\n", d->conf_dir, d->name);
	conf_print(d->opts, d->opt_count, d->conf, &out);
	written = !out.failed && fwrite(out.data, 1, out.len, stdout) == out.len && fflush(stdout) == 0;
	buf_done(&out);
	return written ? 0 : EXIT_FAILED;
}

static void
check_descriptors(const struct daemon_spec *d)
{
	uint64_t allowed = descriptors_raise(), wanted = d->descriptors != NULL ? d->descriptors(d) : 0;

	if (wanted > allowed)
		log_warn(d->name, "%s let this process use %" PRIu64 " descriptors, and it may have %" PRIu64
		    " (RLIMIT_NOFILE): connections beyond are refused.  Raise LimitNOFILE= of its unit, or lower them",
		    d->descriptor_keys, wanted, allowed);
}

static void
add_peer(uid_t uid, const char *user)
{
	TV_ASSERT(state.peer_count < NITEMS(state.peers));
	state.peers[state.peer_count].uid = uid;
	state.peers[state.peer_count++].user = user;
}

/* Looked up now: the sandbox hides the password file. */
static void
learn_peers(const struct daemon_spec *d, const struct privdrop *plan)
{
	state.peer_count = 0;
	add_peer(0, NULL);
	if (!plan->switches)
		add_peer(plan->uid, NULL);
	for (size_t i = 0; i < NITEMS(d->socket_users) && d->socket_users[i] != NULL && plan->switches; i++) {
		const struct passwd *pw = getpwnam(d->socket_users[i]);

		if (pw != NULL)
			add_peer(pw->pw_uid, d->socket_users[i]);
	}
}

bool
daemon_peer_is(uid_t uid, const char *user)
{
	for (size_t i = 0; i < state.peer_count; i++)
		if (state.peers[i].uid == uid && (state.peers[i].user == NULL || user == NULL ||
		    strcmp(state.peers[i].user, user) == 0))
			return true;
	return false;
}

bool
daemon_peer_allowed(uid_t uid)
{
	return daemon_peer_is(uid, NULL);
}

/* From here on no other process opens what is in data_dir/NAME. */
static enum tv_err
take_hold(const struct daemon_spec *d, const struct privdrop *plan, struct trouble *t)
{
	const struct cluster_conf *c = d->cluster;
	char owner[1024];

	snprintf(owner, sizeof(owner), "node %s at %s (run_dir %.512s)", c->node_name, c->bind, c->run_dir);
	return hold_take(&state.hold, plan, c->data_dir, d->name, owner, t->text, sizeof(t->text));
}

static void
data_path(const struct daemon_spec *d, char path[4096])
{
	snprintf(path, 4096, "%s/%s", d->cluster->data_dir, d->name);
}

/*
 * A node that was a server, or encrypted, becomes no less because its configuration was lost.  settle: what it is now
 * is also written down, since run() will not be reached.
 */
static enum tv_err
check_past(const struct daemon_spec *d, const struct privdrop *plan, bool settle, struct trouble *t)
{
	char data[4096];
	gid_t gid = getegid();
	enum tv_err err = TV_OK, back = TV_OK;

	data_path(d, data);
	if (plan->switches)
		err = privdrop_act_as(plan->uid, plan->gid, t->text, sizeof(t->text));
	if (err == TV_OK)
		err = past_check(data, d->cluster, d->conf_dir, t->text, sizeof(t->text));
	if (err == TV_OK && settle && past_write(data, d->cluster, t->text, sizeof(t->text)) == TV_ESYS)
		log_warn(d->name, "%s", t->text);
	if (plan->switches && geteuid() != 0)
		back = privdrop_act_as(0, gid, t->text, sizeof(t->text));
	return err != TV_OK ? err : back;
}

/* It runs: from now on it has been that. */
static void
note_past(const struct daemon_spec *d)
{
	char data[4096], errbuf[1024];

	data_path(d, data);
	if (past_write(data, d->cluster, errbuf, sizeof(errbuf)) == TV_ESYS)
		log_warn(d->name, "%s", errbuf);	/* a full disk is no reason not to run */
}

static enum tv_err
prepare(struct daemon_spec *d, struct privdrop *plan, struct trouble *t)
{
	char *e = t->text;
	const size_t cap = sizeof(t->text);
	enum tv_err err;

	if ((err = privdrop_plan(d->user, d->socket_group, d->asks_gossipd, plan, e, cap)) != TV_OK ||
	    (err = privdrop_run_dir(d->cluster->run_dir, e, cap)) != TV_OK ||
	    (err = cluster_node_id(d->cluster, e, cap)) != TV_OK ||
	    (err = privdrop_data_dir(plan, d->cluster->data_dir, d->name, e, cap)) != TV_OK ||
	    (err = take_hold(d, plan, t)) != TV_OK || (err = check_past(d, plan, false, t)) != TV_OK)
		return err;
	d->socket_gid = plan->socket_gid;
	learn_peers(d, plan);
	check_descriptors(d);
	return TV_OK;
}

static enum tv_err
await_address(const struct daemon_spec *d, const char *key, const char *ip, struct trouble *t)
{
	struct await wait = { .begun = false };

	while (!await_is_here(ip)) {
		snprintf(t->text, sizeof(t->text), "%s: %s is not an address of this machine", key, ip);
		if (!await_more(&wait, d->name, t->text))
			return TV_ESYS;
	}
	return TV_OK;
}

/* What open() is going to bind. */
static enum tv_err
await_addresses(const struct daemon_spec *d, struct trouble *t)
{
	enum tv_err err = await_address(d, "bind", d->cluster->bind, t);

	for (size_t k = 0; k < sizeof(d->addresses) / sizeof(d->addresses[0]); k++) {
		const struct daemon_addresses *a = &d->addresses[k];

		if (a->key == NULL || (a->port != NULL && *a->port == 0))
			continue;
		for (size_t i = 0; i < a->list->count && err == TV_OK; i++)
			err = await_address(d, a->key, a->list->items[i], t);
	}
	return err;
}

/* The folder must be within reach of the daemon's user: a parent may be closed. */
static enum tv_err
check_reach(const char *path, struct trouble *t)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0) {
		snprintf(t->text, sizeof(t->text), "%.512s: uid %u cannot reach it: %s (see the modes of the folders "
		    "above it)", path,
		    (unsigned)geteuid(), strerror(errno));
		return TV_ESYS;
	}
	close(fd);
	return TV_OK;
}

static enum tv_err
lock_down(struct daemon_spec *d, const struct privdrop *plan, struct trouble *t)
{
	struct sandbox_policy policy = { .path_count = 0 };
	char data[4096];
	enum tv_err err = privdrop_apply(plan, t->text, sizeof(t->text));

	data_path(d, data);
	if (err != TV_OK || (err = check_reach(data, t)) != TV_OK)
		return err;
	sandbox_path(&policy, data, SANDBOX_WRITE);
	sandbox_path(&policy, d->conf_dir, SANDBOX_READ);
	/* malloc and Berkeley DB count processors */
	sandbox_path(&policy, "/sys/devices/system/cpu/online", SANDBOX_READ);
	if (d->policy != NULL)
		d->policy(d, &policy);
	return sandbox_enter(&policy, d->cluster->sandbox != 0, t->text, sizeof(t->text));
}

static void
notify(const char *text UNUSED)
{
#ifdef HAVE_SYSTEMD
	(void)sd_notify(0, text);	/* there is no one to tell of a failure */
#else
#endif
}

/* For systemd's STATUS=: one line. */
static void
notify_status(const char *what, const char *status)
{
	char line[512], safe[384];

	log_safe(span_str(status != NULL ? status : ""), safe, sizeof(safe));
	snprintf(line, sizeof(line), "%s%sSTATUS=%s", what, what[0] != '\0' ? "\n" : "", safe);
	notify(line);
}

void
daemon_ready(const char *status)
{
	notify_status("READY=1", status);
}

void
daemon_quit(int status)
{
	state.status = status;
	state.quitting = true;
	ev_break(state.loop, EVBREAK_ALL);
}

int
daemon_status(void)
{
	return state.status;
}

static void
log_report(const struct daemon_spec *d, struct buf *report)
{
	char *save = NULL, *line = strtok_r((char *)buf_cstr(report), "\n", &save);

	for (; line != NULL; line = strtok_r(NULL, "\n", &save))
		log_warn(d->name, "reload: %s", line);
}

/* Both files into fresh storage and checked as at the start; only then anything changes. */
static enum tv_err
take_over(struct daemon_spec *d, struct buf *report, struct trouble *t)
{
	struct cluster_conf cluster;
	struct daemon_spec fresh = *d;
	char data[4096];
	enum tv_err err;

	fresh.cluster = &cluster;
	fresh.conf = calloc(1, d->conf_size + 1);
	if (fresh.conf == NULL) {
		snprintf(t->text, sizeof(t->text), "out of memory");
		return TV_ENOMEM;
	}
	data_path(d, data);
	err = load_conf(&fresh, d->cluster, t);
	if (err == TV_OK) {
		err = past_check(data, &cluster, d->conf_dir, t->text, sizeof(t->text));
		if (err == TV_OK) {
			conf_merge_live(cluster_opts, cluster_opt_count, d->cluster, &cluster, report);
			conf_merge_live(d->opts, d->opt_count, d->conf, fresh.conf, report);
		}
		conf_free(d->opts, d->opt_count, fresh.conf);
		cluster_conf_free(&cluster);
	}
	free(fresh.conf);
	return err;
}

enum tv_err
daemon_reload(char *errbuf, size_t cap)
{
	struct daemon_spec *d = state.spec;
	struct buf report = BUF_INIT(65536);
	struct trouble t;
	enum tv_err err = take_over(d, &report, &t);

	if (err != TV_OK) {
		snprintf(errbuf, cap, "%s", t.text);
		log_err(d->name, "reload: %s; nothing was changed", t.text);
	} else {
		set_log(d);
		log_report(d, &report);
		if (d->reload != NULL)
			d->reload(d);
		log_info(d->name, "configuration reloaded");
	}
	buf_done(&report);
	return err;
}

static void
on_stop(struct ev_loop *loop UNUSED, ev_signal *w, int events UNUSED)
{
	log_info(state.spec->name, "%s received, stopping", w->signum == SIGTERM ? "SIGTERM" : "SIGINT");
	if (state.running && !state.winding_down && !state.quitting && state.spec->wind_down != NULL) {
		state.winding_down = true;
		notify("STOPPING=1");
		if (state.spec->wind_down(state.spec))
			return;
	}
	daemon_quit(0);
}

static void
on_hup(struct ev_loop *loop UNUSED, ev_signal *w UNUSED, int events UNUSED)
{
	char errbuf[64], line[64];

	snprintf(line, sizeof(line), "RELOADING=1\nMONOTONIC_USEC=%lld", (long long)(clock_mono().ns / 1000));
	notify(line);
	(void)daemon_reload(errbuf, sizeof(errbuf));	/* logged there */
	notify("READY=1");
}

int
daemon_socket(const struct daemon_spec *d, const char *path)
{
	int fd = listen_unix(path, d->socket_gid == (gid_t)-1 ? 0600 : 0660, d->socket_gid);

	if (fd >= 0)
		snprintf(state.socket, sizeof(state.socket), "%s", path);
	return fd;
}

const char *
daemon_folders(void)
{
	return state.folders != NULL ? folders_status(state.folders) : "ok";
}

static void
on_data_lost(void *ctx)
{
	struct daemon_spec *d = ctx;

	d->data_lost(d);
}

static void
look_after(struct daemon_spec *d)
{
	struct folders_options o = { .loop = state.loop, .hold = &state.hold, .name = d->name,
		.socket = state.socket[0] != '\0' ? state.socket : NULL, .beside = d->looks_beside, .keeps = d->keeps,
		.without = d->without_data, .lost = d->data_lost != NULL ? on_data_lost : NULL, .ctx = d };

	state.folders = folders_new(&o);
}

void
daemon_put_addr(struct buf *out, const char *ip, uint16_t port)
{
	const char *comma = out->len > 0 ? ", " : "";

	buf_printf(out, strchr(ip, ':') != NULL ? "%s[%s]:%u" : "%s%s:%u", comma, ip, port);
}

static void
log_start(const struct daemon_spec *d)
{
	const struct cluster_conf *c = d->cluster;
	struct buf where = BUF_INIT(4096);

	if (d->listens != NULL)
		d->listens(d, &where);
	log_info(d->name, "triumvir %s: node %s (%s), datacenter %s, %s; configuration in %s; "
	    "listening on %s; sandbox %s, encryption %s", TV_VERSION, c->node_name, c->node_id,
	    c->datacenter, c->server ? "server" : "client", d->conf_dir,
	    where.len > 0 ? buf_cstr(&where) : "nothing", sandbox_status(), cluster_encryption_name(c->encryption));
	buf_done(&where);
}

/* libev gives a signal without a watcher its default action back: one more SIGTERM is no reason to end by it. */
static void
ignore_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

/* From the drop on: nothing here is trusted. */
static enum tv_err
serve(struct daemon_spec *d)
{
	static const int stops[] = { SIGTERM, SIGINT };
	ev_signal watchers[NITEMS(stops)], hup;
	struct heaptrim trim;
	struct log_drain drain;
	enum tv_err err;

	for (size_t i = 0; i < NITEMS(stops); i++) {
		ev_signal_init(&watchers[i], on_stop, stops[i]);
		ev_signal_start(state.loop, &watchers[i]);
	}
	ev_signal_init(&hup, on_hup, SIGHUP);
	ev_signal_start(state.loop, &hup);
	heaptrim_start(&trim, state.loop, HEAPTRIM_PERIOD);
	log_drain_start(&drain, state.loop);
	log_start(d);
	look_after(d);
	err = state.folders != NULL ? d->run(d, state.loop) : TV_ENOMEM;
	state.running = err == TV_OK;
	if (err == TV_OK)
		note_past(d);
	if (err == TV_OK && !state.quitting)
		ev_run(state.loop, 0);
	else if (err != TV_OK)
		log_err(d->name, "start failed: %s", tv_strerror(err));
	notify("STOPPING=1");
	if (d->stop != NULL)
		d->stop(d);
	ignore_signals();
	folders_free(state.folders);
	state.folders = NULL;
	log_drain_stop(&drain);
	heaptrim_stop(&trim);
	ev_signal_stop(state.loop, &hup);
	for (size_t i = 0; i < NITEMS(stops); i++)
		ev_signal_stop(state.loop, &watchers[i]);
	return err;
}

/* Everything between a checked configuration and the end of the loop. */
static int
live(struct daemon_spec *d)
{
	struct privdrop plan;
	struct trouble t = { "" };
	enum tv_err err;

	state.hold = HOLD_NONE;
	state.socket[0] = '\0';
	err = prepare(d, &plan, &t);
	if (err == TV_OK)
		err = await_addresses(d, &t);
	if (err == TV_OK)
		err = d->open(d, t.text, sizeof(t.text));
	if (err == TV_OK)
		err = lock_down(d, &plan, &t);
	if (err == TV_OK && (state.loop = ev_default_loop(EVBACKEND_EPOLL | EVFLAG_NOENV)) == NULL) {
		snprintf(t.text, sizeof(t.text), "libev cannot start: %s", strerror(errno));
		err = TV_ESYS;
	}
	if (err != TV_OK) {
		log_err(d->name, "%s", t.text[0] != '\0' ? t.text : tv_strerror(err));
		return EXIT_FAILED;
	}
	if (serve(d) != TV_OK)
		state.status = EXIT_FAILED;
	ev_loop_destroy(state.loop);
	state.loop = NULL;
	return state.status;
}

/*
 * Every node has the unit of each daemon: on a client raftd's is no failure.  systemd wants to hear of a success
 * before the process ends.
 */
static int
not_needed(const struct daemon_spec *d)
{
	struct privdrop plan;
	struct trouble t = { "" };

	/* Without the daemon's user there is no folder of its either. */
	if (privdrop_plan(d->user, d->socket_group, d->asks_gossipd, &plan, t.text, sizeof(t.text)) == TV_OK &&
	    check_past(d, &plan, true, &t) != TV_OK) {
		log_err(d->name, "%s", t.text);
		return EXIT_FAILED;
	}
	log_info(d->name, "nothing to do: %s runs on servers only, and server = true is not in %s/cluster.conf",
	    d->name, d->conf_dir);
	notify_status("READY=1", "nothing to do: this node is a client");
	notify("STOPPING=1");
	return 0;
}

int
daemon_main(struct daemon_spec *d, int argc, char **argv)
{
	struct options o;
	struct trouble t = { "" };
	int status = parse_options(d, argc, argv, &o);

	if (status >= 0)
		return status;
	umask(027);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);	/* a limit of file size is an error of the write, as a full disk is */
	signal(SIGHUP, SIG_IGN);	/* until the loop listens: a reload now would read what we read anyway */
	clean_descriptors();
	state.spec = d;
	state.status = 0;
	state.quitting = state.running = state.winding_down = false;
	state.debug = o.debug;
	log_init(d->name, LOG_LVL_INFO, LOG_TO_STDERR);
	if (absolute_dir(d, o.dir, o.dir_asked, &t) != TV_OK || load_patiently(d, o.check == 0, &t) != TV_OK) {
		log_err(d->name, "%s", t.text);
		free((char *)d->conf_dir);
		return EXIT_FAILED;
	}
	if (o.check > 0) {
		status = print_conf(d);
		if (status == 0 && o.check > 1 && d->check_files != NULL && !d->check_files(d))
			status = EXIT_FAILED;
	} else if (chdir("/") != 0) {
		log_err(d->name, "chdir: %s", strerror(errno));
		status = EXIT_FAILED;
	} else {
		set_log(d);
		status = d->servers_only && !d->cluster->server ? not_needed(d) : live(d);
	}
	free_conf(d);
	return status;
}
