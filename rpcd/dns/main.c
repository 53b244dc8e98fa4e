/*
 * rpcd-dns, the program of the process "rpcd: dns": speaks DNS, and knows nothing else.  rpcd starts it as the user
 * _dns with a socketpair as descriptor 3 and the sockets behind it.  It holds no key and no file, and ends with rpcd.
 *
 * Until rpcd has said what to serve nothing is read but that; then come the walls, and then strangers.
 */
#include "config.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/descriptors.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/proc/helper_main.h"
#include "common/proc/helper_monitor.h"
#include "common/proc/sandbox.h"
#include "rpcd/dns/server.h"

#define OUT_BYTES_MAX (4u << 20)
#define REPORT_S 1.
#define LEAVE_S 0.001
#define TAG "dns"

static void
on_report(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct server *s = w->data;

	udp_count_overruns(s);
	s->stats.under_way = s->ask_count;
	s->stats.facts = s->kept.by_key.count + s->brief.by_key.count;
	s->stats.facts_bytes = s->kept.bytes + s->brief.bytes;
	s->stats.rendered_bytes = s->rendered.bytes;
	s->stats.facts_evicted = s->kept.evicted + s->brief.evicted;
	if (memcmp(&s->stats, &s->reported, sizeof(s->stats)) == 0)
		return;
	s->reported = s->stats;
	(void)chan_send_record(s->chan, MSG_DNS_STATS, 0, &msg_dns_stats_schema, &s->stats);
}

/* No file, no program; TCP only to recursors, UDP only by the ports that are there. */
static enum tv_err
walls(const struct server *s, char *errbuf, size_t cap)
{
	struct sandbox_policy policy = { .inet = s->dialled_count > 0 };

	for (unsigned i = 0; i < s->dialled_count; i++)
		sandbox_port(&policy, s->dialled[i]);
	return sandbox_enter(&policy, s->best_effort, errbuf, cap);
}

static enum tv_err
build_walls_and_start(struct server *s)
{
	char errbuf[512] = "no memory";

	if (!upstream_open(s, errbuf, sizeof(errbuf)) || walls(s, errbuf, sizeof(errbuf)) != TV_OK) {
		log_err(TAG, "%s", errbuf);
		return TV_ESYS;
	}
	s->started = true;
	ev_timer_init(&s->report, on_report, 0., REPORT_S);
	s->report.data = s;
	ev_timer_start(s->loop, &s->report);
	return asks_open(s) ? TV_OK : TV_ENOMEM;
}

/* -- in turn with another process -- */

static enum tv_err
serve_clients(struct server *s)
{
	if (s->serving)
		return TV_EFORMAT;
	s->serving = true;
	return udp_open(s) && tcp_open(s) ? TV_OK : TV_ENOMEM;
}

static void
on_leave(struct ev_loop *loop, ev_timer *w UNUSED, int events UNUSED)
{
	ev_break(loop, EVBREAK_ALL);
}

/*
 * Not before the next turn: answers leave at the end of this one.  Recursors are not waited for: one that is silent
 * would hold up all clients for seconds, and clients that asked for its names ask again.
 */
void
server_left(struct server *s)
{
	const struct ask *a;

	if (!s->retiring || ev_is_active(&s->leave))
		return;
	TAILQ_FOREACH(a, &s->asks, link)
		if (a->forward == NULL)
			return;
	ev_timer_init(&s->leave, on_leave, LEAVE_S, 0.);
	ev_timer_start(s->loop, &s->leave);
}

static void
retire(struct server *s)
{
	s->retiring = true;
	udp_stop(s);
	tcp_stop(s);
	server_left(s);
}

static enum tv_err
take_setup(struct server *s, struct span body)
{
	enum tv_err err = setup_take(s, body);

	if (err != TV_OK)
		return err;
	if (s->conf.log_level > LOG_LVL_DEBUG)
		return TV_EFORMAT;
	log_init("rpcd", (enum log_level)s->conf.log_level, (enum log_dest)s->log_dest);
	log_debug(TAG, "serving %.*s, %u recursors", (int)s->conf.domain.len, (const char *)s->conf.domain.p,
	    s->recursor_count);
	if (!s->started)
		return build_walls_and_start(s);
	asks_setup(s);
	return TV_OK;
}

static enum tv_err
on_frame(void *ctx, struct chan *c UNUSED, const struct frame *f)
{
	struct server *s = ctx;

	if (f->type == MSG_DNS_SETUP)
		return take_setup(s, f->body);
	if (f->type == MSG_DNS_RECURSORS && s->started)
		return setup_take_recursors(s, f->body);
	if (f->type == MSG_DNS_ASK && (f->flags & FRAME_REPLY) != 0 && s->started)
		return asks_found(s, f->id, f->body);
	if (f->type == MSG_DNS_FACT && s->started)
		return asks_fact(s, f->id, f->body);
	if (f->type == MSG_DNS_WROTE && s->started) {
		asks_written(s);
		return TV_OK;
	}
	if (f->type == MSG_DNS_SERVE && s->started)
		return serve_clients(s);
	if (f->type == MSG_DNS_RETIRE && s->started) {
		retire(s);
		return TV_OK;
	}
	if (f->type == MSG_DNS_END && s->started) {
		asks_end(s, f->id);
		return TV_OK;
	}
	return TV_EFORMAT;
}

static bool
take_sockets(int *fds, unsigned *count, const char *number, int *next)
{
	*count = (unsigned)atoi(number);
	if (*count > DNS_SOCKETS_MAX)
		return false;
	for (unsigned i = 0; i < *count; i++, ++*next) {
		fds[i] = *next;
		if (fcntl(*next, F_SETFD, FD_CLOEXEC) != 0)
			return false;
	}
	return true;
}

/* rpcd-dns UDP-SOCKETS TCP-SOCKETS LEVEL DESTINATION required|best-effort */
int
main(int argc, char **argv)
{
	static const struct helper_program program = {
		.owner = "rpcd", .program = "rpcd-dns", .title = "rpcd: dns", .first = 2,
	};
	static struct server s;
	struct helper_args args;
	int next = HELPER_FD + 1;
	uint64_t seed;

	if (!helper_main_begin(&program, argc, argv, &args) ||
	    !take_sockets(s.udp_fds, &s.udp_count, args.first[0], &next) ||
	    !take_sockets(s.tcp_fds, &s.tcp_count, args.first[1], &next))
		return 2;
	setup_own_addresses(&s);
	s.log_dest = args.log_dest;
	s.best_effort = args.best_effort;
	(void)descriptors_raise();
	if (sodium_init() < 0)
		return 1;
	randombytes_buf(&seed, sizeof(seed));
	rng_seed(&s.rng, seed);
	s.conf_arena = ARENA_INIT(MSG_LARGE * 4);
	s.loop = ev_default_loop(EVBACKEND_EPOLL | EVFLAG_NOENV);
	s.chan = s.loop == NULL ? NULL : helper_main_serve(s.loop, MSG_LIST, OUT_BYTES_MAX, on_frame, &s);
	if (s.chan == NULL)
		return 1;
	ev_run(s.loop, 0);
	return 0;		/* it has retired; else the end of the channel ends it */
}
