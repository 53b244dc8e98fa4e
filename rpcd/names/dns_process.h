/*
 * The process "rpcd: dns" as rpcd sees it: it is told what to serve, asks for what it needs, and is started again when
 * it dies or stands still (common/proc/helper.h).  Other recursors in the configuration need other walls: a new process
 * takes over.
 */
#ifndef TV_RPCD_NAMES_DNS_PROCESS_H
#define TV_RPCD_NAMES_DNS_PROCESS_H

#include <ev.h>

#include "common/proc/helper.h"
#include "rpcd/names/dns_lookups.h"

struct dns_process;

/* With privileges, before the process is started. */
struct dns_sockets {
	int fds[32];			/* UDP first */
	unsigned udp, tcp;
};
/*
 * Binds all; those that are open stay for dns_sockets_close().  One that is in use is waited for, some seconds for all
 * of them.  A sentence in errbuf.
 */
enum tv_err dns_sockets_open(const struct rpcd_conf *conf, struct dns_sockets *out, char *errbuf, size_t cap);
void dns_sockets_close(struct dns_sockets *s);
/* The addresses that are served. */
const struct conf_list *dns_addresses(const struct rpcd_conf *conf);
/* Of dns_config and what goes with it: TV_EINVAL with a sentence that begins with the key. */
enum tv_err dns_conf_check(const struct rpcd_conf *conf, const char *datacenter, char *errbuf, size_t cap);

/* Who starts the processes: a monitor (common/proc/helper_monitor.h) that becomes the user _dns. */
struct dns_monitor_conf {
	const struct dns_sockets *sockets;	/* that each process gets; borrowed until the start */
	bool best_effort;		/* sandbox, as in cluster.conf */
	int log_level, log_dest;	/* enum log_level, enum log_dest */
};
/* With privileges, and before any key is read.  *fd: ours of the socketpair.  A sentence in errbuf. */
enum tv_err dns_monitor_start(const struct dns_monitor_conf *conf, int *fd, char *errbuf, size_t cap);

struct dns_process_conf {
	struct ev_loop *loop;
	int monitor;			/* of dns_monitor_start() */
	struct route *route;
	struct failovers *failovers;	/* borrowed */
	struct cache *cache;		/* borrowed */
	const struct members *members;	/* borrowed */
	struct daemon_client *gossip;	/* borrowed: resolves the names of recursors */
	const struct rpcd_conf *conf;	/* borrowed */
	const char *datacenter, *node_name;	/* own; borrowed */
	struct token_source token;	/* who uses another one calls dns_process_reload() */
	int log_level;			/* enum log_level: at the start */
	void (*lost)(void *ctx);	/* no process can be started any more: the monitor is gone, or stands still */
	void *ctx;
};

struct dns_process_stats {
	struct helper_stats life;
	char state[HELPER_STATE_BYTES];	/* helper_state() */
	struct msg_dns_stats served;	/* since the start of the process that runs */
	struct dns_lookups_stats lookups;
};

/* Starts it.  NULL: no memory. */
struct dns_process *dns_process_new(const struct dns_process_conf *conf);
void dns_process_free(struct dns_process *p);
/* The configuration may have changed, and what it logs (enum log_level); ends a pause before it is started again. */
void dns_process_reload(struct dns_process *p, int log_level);
/* The catalog was written by way of this node, and the writer is not told yet. */
void dns_process_written(struct dns_process *p);
/* A member of the LAN pool came, went or died. */
void dns_process_members(struct dns_process *p);
void dns_process_stats(const struct dns_process *p, struct dns_process_stats *out);

#endif
