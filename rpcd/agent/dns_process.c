/* The process "rpcd: dns", see dns_process.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/chan.h"
#include "common/net/msg.h"
#include "rpcd/agent/check_monitor.h"
#include "rpcd/agent/dns_conf.h"
#include "rpcd/agent/dns_process.h"
#include "rpcd/dns/answer.h"

#define TAG "dns"
#define OUT_BYTES_MAX (64u << 20)
#define PENDING_BYTES_MAX (16u << 20)	/* of answers that it has not taken: then there is none for the next */
#define LOOKUPS_MAX 4096
#define FOLLOWS_MAX 16384
#define RESTART_MIN_S 0.05		/* nobody is served meanwhile */
#define RESTART_MAX_S 30.
#define STEADY MONO_S(60)		/* who lived for so long died of something else */
#define WROTE_EACH MONO_MS(50)		/* a tenth of DNS_WRITTEN_TIME */
#define SETUP_BYTES_MAX (4u << 20)

struct dns_process {
	struct dns_process_conf conf;
	struct chan *chan;		/* NULL: no process */
	struct dns_lookups *lookups;
	ev_timer restart;
	double pause;
	struct mono began, wrote_next;
	struct dns_process_stats stats;
};

/* -- to the process -- */

static void
send_setup(struct dns_process *p)
{
	struct arena a = ARENA_INIT(SETUP_BYTES_MAX);
	struct msg_dns_setup setup;

	dns_conf_setup(p->conf.conf, p->conf.datacenter, &a, &setup);
	setup.log_level = (uint64_t)p->conf.log_level;
	(void)chan_send_record(p->chan, MSG_DNS_SETUP, 0, &msg_dns_setup_schema, &setup);	/* else it closes */
	arena_done(&a);
}

static void
send_found(void *ctx, uint64_t id, const struct msg_dns_found *found)
{
	struct dns_process *p = ctx;
	static const struct msg_dns_found none = { .status = DNS_FAILED };
	struct buf *b;

	if (p->chan == NULL || (b = chan_begin(p->chan, MSG_DNS_ASK, FRAME_REPLY, id)) == NULL)
		return;
	schema_pack(&msg_dns_found_schema, chan_pending(p->chan) > PENDING_BYTES_MAX ? &none : found, b);
	(void)chan_end(p->chan);
}

static void
send_news(void *ctx, uint64_t id, const struct msg_dns_found *found)
{
	struct dns_process *p = ctx;

	if (p->chan == NULL)
		return;
	/* One that does not read has old facts no longer than it takes to read that they end. */
	if (found == NULL || chan_pending(p->chan) > PENDING_BYTES_MAX) {
		if (found != NULL)
			dns_lookups_unfollow(p->lookups, span_of(&id, sizeof(id)));
		(void)chan_send_record(p->chan, MSG_DNS_END, id, &empty_schema, NULL);
		return;
	}
	(void)chan_send_record(p->chan, MSG_DNS_FACT, id, &msg_dns_found_schema, found);
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
on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct dns_process *p = ctx;
	struct msg_dns_ask ask = { 0 };
	enum tv_err err;

	(void)c;
	if (f->type == MSG_DNS_STATS) {
		p->stats.served = (struct msg_dns_stats){ 0 };
		return msg_read(&msg_dns_stats_schema, f->body, NULL, &p->stats.served);
	}
	if (f->type == MSG_DNS_USE)
		return take_use(p, f->body);
	if (f->type != MSG_DNS_ASK || (f->flags & FRAME_REPLY) != 0)
		return TV_EFORMAT;
	if ((err = msg_read(&msg_dns_ask_schema, f->body, NULL, &ask)) != TV_OK)
		return err;
	if (!dns_lookups_start(p->lookups, f->id, &ask))
		send_found(p, f->id, &(struct msg_dns_found){ .status = DNS_FAILED });
	return TV_OK;
}

static void
plan_restart(struct dns_process *p)
{
	ev_timer_stop(p->conf.loop, &p->restart);
	ev_timer_set(&p->restart, p->pause, 0.);
	ev_timer_start(p->conf.loop, &p->restart);
	p->pause = p->pause * 2 < RESTART_MAX_S ? p->pause * 2 : RESTART_MAX_S;
}

static void
on_close(void *ctx, struct chan *c, enum tv_err why)
{
	struct dns_process *p = ctx;

	(void)c;
	p->chan = NULL;
	p->stats.deaths++;
	p->stats.served = (struct msg_dns_stats){ 0 };
	dns_lookups_cancel(p->lookups);
	if (!mono_before(clock_mono(), mono_add(p->began, STEADY)))
		p->pause = RESTART_MIN_S;
	log_warn(TAG, "the process that speaks DNS ended (%s): it is started again in %.2f s", tv_strerror(why),
	    p->pause);
	plan_restart(p);
}

/* -- its life -- */

static void
start(struct dns_process *p)
{
	static const struct chan_events events = { .on_frame = on_frame, .on_close = on_close };
	int fd;
	enum tv_err err = check_monitor_spawn(p->conf.monitor, ROLE_NETWORK, &fd);

	if (err == TV_ECLOSED) {
		p->conf.lost(p->conf.ctx);
		return;
	}
	if (err == TV_OK)
		p->chan = chan_new(fd, &(struct chan_conf){
			.loop = p->conf.loop, .events = &events, .ctx = p, .name = "rpcd: dns",
			.body_max = MSG_TEXT, .out_max = OUT_BYTES_MAX,
		});
	if (p->chan == NULL) {
		log_warn(TAG, "cannot start rpcd-dns: %s", err == TV_ESYS ? strerror(errno) : tv_strerror(TV_ENOMEM));
		plan_restart(p);
		return;
	}
	p->stats.starts++;
	p->wrote_next = MONO_ZERO;
	p->began = clock_mono();
	send_setup(p);
}

static void
on_restart(struct ev_loop *loop, ev_timer *w, int events)
{
	(void)loop;
	(void)events;
	start(w->data);
}

void
dns_process_reload(struct dns_process *p, int log_level)
{
	if (p == NULL)
		return;
	p->conf.log_level = log_level;
	check_monitor_log(p->conf.monitor, log_level);	/* of those that it starts */
	if (p->chan == NULL)
		return;
	/* It keeps nothing beyond a setup either. */
	dns_lookups_unfollow_all(p->lookups);
	send_setup(p);
}

void
dns_process_written(struct dns_process *p)
{
	struct mono now = clock_mono();

	if (p == NULL || p->chan == NULL || !p->conf.conf->dns_use_cache)
		return;
	dns_lookups_written(p->lookups);
	if (mono_before(now, p->wrote_next))
		return;
	p->wrote_next = mono_add(now, WROTE_EACH);
	(void)chan_send_record(p->chan, MSG_DNS_WROTE, 0, &empty_schema, NULL);
	chan_flush(p->chan);		/* the writer's answer may leave before the turn ends */
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
	*out = p->stats;
	out->running = p->chan != NULL;
	dns_lookups_stats(p->lookups, &out->lookups);
}

struct dns_process *
dns_process_new(const struct dns_process_conf *conf)
{
	struct dns_process *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->conf = *conf;
	p->pause = RESTART_MIN_S;
	p->lookups = dns_lookups_new(&(struct dns_lookups_conf){
		.loop = conf->loop, .route = conf->route, .failovers = conf->failovers, .cache = conf->cache,
		.members = conf->members, .conf = conf->conf, .datacenter = conf->datacenter,
		.node_name = conf->node_name, .token = conf->token, .calls_max = LOOKUPS_MAX,
		.follows_max = FOLLOWS_MAX, .news = send_news,
	}, send_found, p);
	if (p->lookups == NULL) {
		free(p);
		return NULL;
	}
	ev_timer_init(&p->restart, on_restart, 0., 0.);
	p->restart.data = p;
	ev_timer_start(conf->loop, &p->restart);
	return p;
}

void
dns_process_free(struct dns_process *p)
{
	if (p == NULL)
		return;
	ev_timer_stop(p->conf.loop, &p->restart);
	dns_lookups_free(p->lookups);
	chan_free(p->chan);
	free(p);
}
