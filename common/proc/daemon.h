/*
 * Life cycle of a daemon, written once:
 *   options (-c DIR configuration, -n check and print, -d debug log, --help, --version), load config, log,
 *   open() with privileges, drop to the user for good (and prove it), sandbox, run() until a signal.
 * Addresses that are not there yet are waited for (common/proc/await.h); else any failure on the way is fatal.
 * SIGTERM and SIGINT stop in order (never leave; the second one at once), SIGHUP reloads.
 * Started as an ordinary user everything is the same but the change of user.
 *
 * daemon_main sees to the folders (run_dir 0755; data_dir/NAME 0700, of the daemon's user, and locked for the life of
 * the process before open() is called), looks after them while the loop runs, and allows
 * in the sandbox: writing below data_dir/NAME, and reading the configuration folder (for SIGHUP; keys
 * there are root's, so only the kernel's file modes stand before them).  Files below data_dir/NAME belong
 * to the daemon's user: make and open them in run(), not as root in open().  Start threads in run().
 */
#ifndef TV_COMMON_PROC_DAEMON_H
#define TV_COMMON_PROC_DAEMON_H

#include <ev.h>

#include "common/base/buf.h"
#include "common/conf/cluster_conf.h"
#include "common/proc/sandbox.h"

struct daemon_spec {
	const char *name;			/* "gossipd": log name, folder below data_dir, socket NAME.sock */
	const char *user;			/* "_gossipd" */
	bool servers_only;			/* raftd: on a client node say so and end with status 0 */
	const struct conf_opt *opts;		/* NAME.conf */
	size_t opt_count, conf_size;
	void *conf;				/* filled from NAME.conf, conf_size bytes */
	struct cluster_conf *cluster;		/* filled from cluster.conf */
	/* Checks across keys; one sentence into errbuf. May be NULL. */
	enum tv_err (*check)(struct daemon_spec *d, char *errbuf, size_t cap);
	/* For -nn: are files in order that the configuration names?  False after a sentence to stderr.  May be NULL. */
	bool (*check_files)(const struct daemon_spec *d);
	/* Addresses that open() binds beside cluster.conf's bind: waited for. */
	struct daemon_addresses {
		const char *key;		/* NULL: none */
		const struct conf_list *list;
		const uint16_t *port;		/* 0: none is bound.  May be NULL */
	} addresses[3];
	/*
	 * The most descriptors that the configuration lets it have, and the keys that say so: where the kernel allows
	 * fewer, there is one warning at the start.  May be NULL.
	 */
	uint64_t (*descriptors)(const struct daemon_spec *d);
	const char *descriptor_keys;
	/* With privileges: bind sockets, read keys. */
	enum tv_err (*open)(struct daemon_spec *d, char *errbuf, size_t cap);
	/* Appends where the daemon listens, for the first line of the log: "10.0.0.1:8300, /run/...".  May be NULL. */
	void (*listens)(const struct daemon_spec *d, struct buf *out);
	/* What the sandbox must still allow (paths below data_dir/NAME and ports). */
	void (*policy)(struct daemon_spec *d, struct sandbox_policy *p);
	/* Trust nothing.  Sets up watchers on the loop and returns; daemon_main runs the loop. */
	enum tv_err (*run)(struct daemon_spec *d, struct ev_loop *loop);
	void (*reload)(struct daemon_spec *d);	/* may be NULL */
	/*
	 * The first SIGTERM or SIGINT.  True: the daemon finishes what is under way and calls daemon_quit() itself,
	 * soon; a second signal does not wait for that.  May be NULL.
	 */
	bool (*wind_down)(struct daemon_spec *d);
	void (*stop)(struct daemon_spec *d);	/* orderly end: flush, close, free (no leaks) */
	/*
	 * Looked after while it runs (common/proc/folders.h): names below data_dir/NAME that stay once they are
	 * there, ended by NULL; the sentence about what follows when the folder or one of them is lost; and
	 * what to do then, once.  Each may be NULL.
	 */
	const char *const *keeps;
	bool looks_beside;			/* in a thread, which the policy permits */
	const char *without_data;
	void (*data_lost)(struct daemon_spec *d);
	void *ctx;				/* the daemon's own */
	const char *conf_dir;			/* set by daemon_main */
	/*
	 * Who may use NAME.sock, when started as root: root, and the users of this list, NULL at its end.  The group is
	 * that of the file, so that others cannot even connect; NULL: the user's own.
	 */
	const char *socket_users[3], *socket_group;
	bool asks_gossipd;			/* connects to gossipd.sock, and stays in the group for that */
	gid_t socket_gid;			/* set by daemon_main: of socket_group, (gid_t)-1 as an ordinary user */
};

/* The whole program.  Returns the exit status: 0 stop or leave, 1 failure, 2 usage. */
int daemon_main(struct daemon_spec *d, int argc, char **argv);
/* What SIGHUP does: both files afresh, live values taken over, spec->reload called.  Errors are logged
 * and nothing changes; they are returned too, with the sentence in errbuf. */
enum tv_err daemon_reload(char *errbuf, size_t cap);
/* For spec->listens: ", " unless it is the first, then "ip:port", an IPv6 address in brackets. */
void daemon_put_addr(struct buf *out, const char *ip, uint16_t port);
/* Ends the loop with this exit status (after leave: 0; data base failure: 1). */
void daemon_quit(int status);
/* The exit status so far: for code that cannot return from spec->stop. */
int daemon_status(void);
/* Are data_dir/NAME and the socket where they belong?  "ok" or a sentence, for info. */
const char *daemon_folders(void);
/* Tells systemd READY=1 (once sockets answer), and a STATUS= text; without systemd: nothing. */
void daemon_ready(const char *status);
/*
 * Makes the daemon's unix socket, for spec->open: root's, mode 0660, for the group of spec->socket_group; started as an
 * ordinary user: 0600.  The file is looked after from then on.  At most once.  The descriptor, or -1 with errno.
 */
int daemon_socket(const struct daemon_spec *d, const char *path);
/* May this peer use our unix socket?  Root and spec->socket_users; not started as root: the user that started us. */
bool daemon_peer_allowed(uid_t uid);
/* Is this peer root or this one of spec->socket_users?  Not started as root: it is when it is allowed. */
bool daemon_peer_is(uid_t uid, const char *user);

#endif
