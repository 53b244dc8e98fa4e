/* The process "rpcd: dns", see dns_process.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/msg.h"
#include "common/proc/helper_monitor.h"
#include "rpcd/dns/answer.h"
#include "rpcd/names/dns_conf.h"
#include "rpcd/names/dns_process.h"
#include "rpcd/names/recursors.h"

#define TAG "dns"
#define OUT_BYTES_MAX (64u << 20)
#define PENDING_BYTES_MAX (16u << 20)	/* of answers that it has not taken: then there is none for the next */
#define LOOKUPS_MAX 4096
#define FOLLOWS_MAX 16384
#define RESTART_MIN_S 0.05		/* without answers meanwhile */
#define RESTART_MAX_S 30.
#define WROTE_EACH MONO_MS(50)		/* a tenth of DNS_WRITTEN_TIME */
#define SETUP_BYTES_MAX (4u << 20)
#define LIST_BYTES_MAX (RECURSORS_MAX * 8192)
#define PROGRAM "rpcd-dns"
#define TITLE "rpcd: dns"
#define USER "_dns"

struct dns_process {
	struct dns_process_conf conf;
	struct helper *helper;
	struct dns_lookups *lookups;
	struct mono wrote_next;
	struct recursors *recursors;
	struct buf list;		/* as configured when the newest process was started, a line each */
	unsigned ports[RECURSORS_MAX + 1], port_count;	/* that its walls let be dialled */
	struct msg_dns_stats served;
};

/* -- to the process -- */

static bool
other_recursors(const struct dns_process *p, struct span_list now)
{
	struct span left = buf_span(&p->list);

	for (uint32_t i = 0; i < now.n; i++) {
		size_t n = now.v[i].len;

		if (left.len < n + 1 || !span_eq(span_of(left.p, n), now.v[i]) || left.p[n] != '\n')
			return true;
		left = span_of(left.p + n + 1, left.len - n - 1);
	}
	return left.len > 0;
}

static unsigned
port_of(struct span recursor)
{
	char text[RECURSOR_TEXT_BYTES], *blank;

	if (!span_copy(recursor, text, sizeof(text)) || (blank = strchr(text, ' ')) == NULL)
		return 0;
	return (unsigned)strtoul(blank + 1, NULL, 10);
}

static bool
has_port(const struct dns_process *p, unsigned port)
{
	for (unsigned i = 0; i < p->port_count; i++)
		if (p->ports[i] == port)
			return true;
	return false;
}

static void
on_setup(void *ctx, struct chan *c)
{
	struct dns_process *p = ctx;
	struct arena a = ARENA_INIT(SETUP_BYTES_MAX);
	struct msg_dns_setup setup;

	dns_conf_setup(p->conf.conf, p->conf.datacenter, &a, &setup);
	setup.log_level = (uint64_t)p->conf.log_level;
	buf_reset(&p->list);
	for (uint32_t i = 0; i < setup.recursors.n; i++) {
		buf_putspan(&p->list, setup.recursors.v[i]);
		buf_u8(&p->list, '\n');
	}
	setup.recursors = recursors_now(p->recursors, &a);
	p->port_count = 0;
	if (setup.recursor_names)
		p->ports[p->port_count++] = RECURSOR_PORT;
	for (uint32_t i = 0; i < setup.recursors.n; i++)
		if (!has_port(p, port_of(setup.recursors.v[i])))
			p->ports[p->port_count++] = port_of(setup.recursors.v[i]);
	recursors_again(p->recursors);
	(void)chan_send_record(c, MSG_DNS_SETUP, 0, &msg_dns_setup_schema, &setup);	/* else it closes */
	arena_done(&a);
}

static void
on_serve(void *ctx UNUSED, struct chan *c)
{
	(void)chan_send_record(c, MSG_DNS_SERVE, 0, &empty_schema, NULL);
}

static void
on_retire(void *ctx UNUSED, struct chan *c)
{
	(void)chan_send_record(c, MSG_DNS_RETIRE, 0, &empty_schema, NULL);
}

/*
 * Told after each round, also when they are as before: a process that was about to take over has an older list.  What
 * its walls do not let it dial takes another process.
 */
static void
on_resolved(void *ctx)
{
	struct dns_process *p = ctx;
	struct arena a = ARENA_INIT(SETUP_BYTES_MAX);
	struct msg_dns_recursors m = { recursors_now(p->recursors, &a) };
	struct chan *c = helper_chan(p->helper);
	bool fits = true;

	for (uint32_t i = 0; i < m.recursors.n; i++)
		fits = fits && has_port(p, port_of(m.recursors.v[i]));
	if (c != NULL && !fits)
		helper_replace(p->helper);
	else if (c != NULL)
		(void)chan_send_record(c, MSG_DNS_RECURSORS, 0, &msg_dns_recursors_schema, &m);
	arena_done(&a);
}

static void
send_found(void *ctx, uint64_t id, const struct msg_dns_found *found)
{
	struct dns_process *p = ctx;
	static const struct msg_dns_found none = { .status = DNS_FAILED };
	struct chan *c = helper_chan(p->helper);
	struct buf *b;

	if (c == NULL || (b = chan_begin(c, MSG_DNS_ASK, FRAME_REPLY, id)) == NULL)
		return;
	schema_pack(&msg_dns_found_schema, chan_pending(c) > PENDING_BYTES_MAX ? &none : found, b);
	(void)chan_end(c);
}

static void
send_news(void *ctx, uint64_t id, const struct span *packed)
{
	struct dns_process *p = ctx;
	struct chan *c = helper_chan(p->helper);
	struct buf *b;

	if (c == NULL)
		return;
	/* A process that has fallen behind loses its facts: it is told that they ended, not what they became. */
	if (packed == NULL || chan_pending(c) > PENDING_BYTES_MAX) {
		if (packed != NULL)
			dns_lookups_unfollow(p->lookups, span_of(&id, sizeof(id)));
		(void)chan_send_record(c, MSG_DNS_END, id, &empty_schema, NULL);
	} else if ((b = chan_begin(c, MSG_DNS_FACT, 0, id)) != NULL) {
		buf_putspan(b, *packed);
		(void)chan_end(c);
	}
}

/* -- from the process: nothing that it says is trusted -- */

static enum tv_err
take_use(struct dns_process *p, struct span body)
{
	struct msg_dns_use use = { .used = SPAN_NONE };
	enum tv_err err = msg_read(&msg_dns_use_schema, body, NULL, &use);

	if (err != TV_OK)
		return err;
	dns_lookups_use(p->lookups, use.used);
	dns_lookups_unfollow(p->lookups, use.dropped);
	return TV_OK;
}

static enum tv_err
take_stats(struct dns_process *p, struct span body)
{
	uint64_t failed = p->served.forwarded_failed;
	enum tv_err err;

	p->served = (struct msg_dns_stats){ 0 };
	err = msg_read(&msg_dns_stats_schema, body, NULL, &p->served);
	if (p->served.forwarded_failed > failed)
		recursors_failed(p->recursors);
	return err;
}

static enum tv_err
on_frame(void *ctx, const struct frame *f)
{
	struct dns_process *p = ctx;
	struct msg_dns_ask ask = { 0 };
	enum tv_err err;

	if (f->type == MSG_DNS_STATS)
		return take_stats(p, f->body);
	if (f->type == MSG_DNS_USE)
		return take_use(p, f->body);
	if (f->type != MSG_DNS_ASK || (f->flags & FRAME_REPLY) != 0 || f->id == 0)
		return TV_EFORMAT;
	if ((err = msg_read(&msg_dns_ask_schema, f->body, NULL, &ask)) != TV_OK)
		return err;
	if (!dns_lookups_start(p->lookups, f->id, &ask))
		send_found(p, f->id, &(struct msg_dns_found){ .status = DNS_FAILED });
	return TV_OK;
}

static void
on_ended(void *ctx, enum helper_end why UNUSED)
{
	struct dns_process *p = ctx;

	p->served = (struct msg_dns_stats){ 0 };
	p->wrote_next = MONO_ZERO;
	dns_lookups_cancel(p->lookups);
}

static void
on_lost(void *ctx)
{
	struct dns_process *p = ctx;

	p->conf.lost(p->conf.ctx);
}

/* -- its life -- */

enum tv_err
dns_monitor_start(const struct dns_monitor_conf *conf, int *fd, char *errbuf, size_t cap)
{
	char udp[12], tcp[12];
	const struct helper_monitor_conf m = {
		.owner = "rpcd", .tag = TAG, .user = USER, .program = PROGRAM, .title = TITLE,
		.kinds = { { .may = true, .first = { udp, tcp } } }, .best_effort = conf->best_effort,
		.log_level = conf->log_level, .log_dest = conf->log_dest,
		.sockets = conf->sockets->fds, .socket_count = conf->sockets->udp + conf->sockets->tcp,
	};

	snprintf(udp, sizeof(udp), "%u", conf->sockets->udp);
	snprintf(tcp, sizeof(tcp), "%u", conf->sockets->tcp);
	return helper_monitor_start(&m, fd, errbuf, cap);
}

void
dns_process_reload(struct dns_process *p, int log_level)
{
	struct arena a = ARENA_INIT(SETUP_BYTES_MAX);
	struct msg_dns_setup setup;

	if (p == NULL)
		return;
	p->conf.log_level = log_level;
	helper_monitor_log(p->conf.monitor, log_level);		/* of those that it starts */
	helper_hurry(p->helper);
	recursors_reload(p->recursors);
	if (helper_chan(p->helper) == NULL)
		return;
	dns_conf_setup(p->conf.conf, p->conf.datacenter, &a, &setup);
	if (other_recursors(p, setup.recursors))
		helper_replace(p->helper);	/* its walls were built for those that there were */
	else if (helper_setup(p->helper))
		dns_lookups_unfollow_all(p->lookups);	/* it keeps nothing beyond a setup either */
	arena_done(&a);
}

void
dns_process_written(struct dns_process *p)
{
	struct mono now = clock_mono();
	struct chan *c = p == NULL ? NULL : helper_chan(p->helper);

	if (c == NULL || !p->conf.conf->dns_use_cache)
		return;
	dns_lookups_written(p->lookups);
	if (mono_before(now, p->wrote_next))
		return;
	p->wrote_next = mono_add(now, WROTE_EACH);
	(void)chan_send_record(c, MSG_DNS_WROTE, 0, &empty_schema, NULL);
	chan_flush(c);		/* the writer's answer may leave before the turn ends */
}

void
dns_process_members(struct dns_process *p)
{
	if (p != NULL)
		dns_lookups_members(p->lookups);
}

void
dns_process_stats(const struct dns_process *p, struct dns_process_stats *out)
{
	*out = (struct dns_process_stats){ 0 };
	if (p == NULL)
		return;
	out->served = p->served;
	helper_stats(p->helper, &out->life);
	(void)helper_state(p->helper, out->state);
	dns_lookups_stats(p->lookups, &out->lookups);
}

struct dns_process *
dns_process_new(const struct dns_process_conf *conf)
{
	struct dns_process *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->conf = *conf;
	p->list = BUF_INIT(LIST_BYTES_MAX);
	p->recursors = recursors_new(&(struct recursors_conf){ .loop = conf->loop, .gossip = conf->gossip,
		.list = &conf->conf->recursors, .resolved = on_resolved, .ctx = p });
	p->helper = helper_new(&(struct helper_conf){
		.loop = conf->loop, .monitor = conf->monitor, .name = TITLE, .tag = TAG, .body_max = MSG_TEXT,
		.out_max = OUT_BYTES_MAX, .restart_min_s = RESTART_MIN_S, .restart_max_s = RESTART_MAX_S,
		.setup = on_setup, .serve = on_serve, .retire = on_retire, .frame = on_frame, .ended = on_ended,
		.lost = on_lost, .ctx = p,
	});
	p->lookups = dns_lookups_new(&(struct dns_lookups_conf){
		.loop = conf->loop, .route = conf->route, .failovers = conf->failovers, .cache = conf->cache,
		.members = conf->members, .conf = conf->conf, .datacenter = conf->datacenter,
		.node_name = conf->node_name, .token = conf->token, .calls_max = LOOKUPS_MAX,
		.follows_max = FOLLOWS_MAX, .news = send_news,
	}, send_found, p);
	if (p->helper == NULL || p->lookups == NULL || p->recursors == NULL) {
		dns_process_free(p);
		return NULL;
	}
	helper_want(p->helper, true);
	return p;
}

void
dns_process_free(struct dns_process *p)
{
	if (p == NULL)
		return;
	if (p->lookups != NULL)
		dns_lookups_free(p->lookups);
	helper_free(p->helper);
	recursors_free(p->recursors);
	buf_done(&p->list);
	free(p);
}
