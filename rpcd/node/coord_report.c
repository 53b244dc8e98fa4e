/* Reports of the own coordinate. */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/record/records.h"
#include "rpcd/gossip/coord_query.h"
#include "rpcd/node/coord_report.h"

#define EVERY MONO_S(15)		/* as in every Consul cluster */
#define SOON MONO_S(2)			/* after a start, until the servers know this node */
#define RATE_MAX 64			/* reports of a whole cluster, in a second */

struct coord_report {
	struct coord_report_conf conf;
	struct rng rng;
	ev_timer timer;
	struct route_call *call;	/* under way to the servers */
	struct coord_report_stats stats;
};

struct mono
coord_report_interval(unsigned members, struct mono least)
{
	struct mono scaled = MONO_MS(members * 1000ll / RATE_MAX);

	return mono_before(scaled, least) ? least : scaled;
}

/* Between three and five quarters of the time, so that nodes that started together part. */
static void
sleep_about(struct coord_report *r, struct mono least)
{
	double s = mono_seconds(coord_report_interval(members_count(r->conf.members, POOL_LAN), least));

	ev_now_update(r->conf.loop);
	r->timer.repeat = s * (0.75 + rng_unit(&r->rng) / 2);
	ev_timer_again(r->conf.loop, &r->timer);
}

static void
on_reply(void *ctx, const struct op_reply *reply)
{
	struct coord_report *r = ctx;
	struct rd in = rd_span_over(reply->value);
	struct arena none = ARENA_INIT(1024);
	struct bool_reply known = { 0 };

	r->call = NULL;
	if (reply->err == TV_OK)
		(void)schema_unpack(&bool_reply_schema, &in, &none, &known);	/* else: not known */
	else
		log_debug("rpc", "coordinate not reported: %s", tv_strerror(reply->err));
	arena_done(&none);
	r->stats.sent += reply->err == TV_OK;
	r->stats.failed += reply->err != TV_OK;
	/*
	 * A node that just came, or servers that elect: soon.  Servers that cannot take it will not in a moment either.
	 */
	bool soon = (reply->err == TV_OK && !known.Value) || reply->err == TV_ENOLEADER;
	sleep_about(r, soon ? SOON : EVERY);
}

static void
send_report(struct coord_report *r, const struct coordinate *own)
{
	struct coordinate_update u = { .Node = span_str(r->conf.node_name) };
	struct op_request q = { .op = OP_COORDINATE_UPDATE, .token = token_of(&r->conf.token) };
	struct buf args = BUF_INIT(65536);

	coordinate_to_rec(own, &u.Coord);
	schema_pack(&coordinate_update_schema, &u, &args);
	q.args = buf_span(&args);
	if (!args.failed)
		r->call = route_start(r->conf.route, &q, on_reply, r);
	buf_done(&args);
	if (r->call == NULL) {
		r->stats.failed++;
		sleep_about(r, EVERY);
	}
}

static void
on_coords(void *ctx, enum tv_err err, struct span body)
{
	struct coord_report *r = ctx;
	struct coordinate own;
	struct coord_query_answer a;
	struct span name;

	if (err == TV_OK)
		err = coord_query_read(body, &a);
	if (err == TV_OK)
		err = a.err;
	if (err == TV_OK && coord_query_next(&a, &name, &own) && span_eqs(name, r->conf.node_name))
		send_report(r, &own);
	else
		sleep_about(r, err == TV_EPERM ? EVERY : SOON);	/* TV_EPERM: off in gossipd.conf */
}

static void
on_timer(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct coord_report *r = w->data;
	struct span own = span_str(r->conf.node_name);
	enum tv_err err;

	ev_timer_stop(loop, w);
	if (r->conf.conf->disable_coordinates) {
		sleep_about(r, EVERY);
		return;
	}
	if (coord_query_ask(r->conf.members, POOL_LAN, own, on_coords, r, &err) == 0)
		sleep_about(r, SOON);
}

struct coord_report *
coord_report_new(const struct coord_report_conf *conf)
{
	struct coord_report *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->conf = *conf;
	rng_seed(&r->rng, conf->seed);
	ev_timer_init(&r->timer, on_timer, 0.0, 0.0);
	r->timer.data = r;
	sleep_about(r, MONO_S(1));
	return r;
}

void
coord_report_free(struct coord_report *r)
{
	if (r == NULL)
		return;
	ev_timer_stop(r->conf.loop, &r->timer);
	free(r);
}

void
coord_report_stats(const struct coord_report *r, struct coord_report_stats *out)
{
	*out = r->stats;
}
