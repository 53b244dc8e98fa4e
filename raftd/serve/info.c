/* What this server tells about itself. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/proc/daemon.h"
#include "common/record/mpack.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/loop_time.h"
#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/leader.h"
#include "raftd/login/serve/key_fetch.h"
#include "raftd/members/autopilot.h"
#include "raftd/members/no_leader_log.h"
#include "raftd/peers/gossip.h"
#include "raftd/peers/links.h"
#include "raftd/serve/clients.h"
#include "raftd/serve/info.h"
#include "raftd/serve/rpcd_watch.h"
#include "raftd/snapshot/import.h"
#include "raftd/snapshot/snapshots.h"

#define PATIENCE 0.25			/* seconds that the state's threads have for their figures */

struct section {
	struct buf body;		/* name, value, name, value ... */
	uint32_t count;
};

struct asked {
	TAILQ_ENTRY(asked) link;
	struct request *q;
};
TAILQ_HEAD(asked_list, asked);

struct info {
	struct raftd *d;
	struct asked_list fresh, asked;	/* the latter: since before the look that is under way */
	bool looking;
	struct section found;		/* by that look, in its thread */
	struct section known;		/* by the one before */
	ev_timer patience;
};

static void
add_line(void *ctx, const char *name, const char *value)
{
	struct section *s = ctx;

	mpw_cstr(&s->body, name);
	mpw_cstr(&s->body, value);
	s->count++;
}

static void
close_section(struct buf *out, const char *name, struct section *s)
{
	mpw_cstr(out, name);
	mpw_map(out, s->count);
	buf_putspan(out, buf_span(&s->body));
	buf_reset(&s->body);
	s->count = 0;
}

/* Why there is no leader, and which servers are hard to reach; only where there is something to tell. */
static void
add_trouble(struct raftd *d, struct section *raft)
{
	struct buf b = BUF_INIT(65536);

	if (no_leader_log_text(d, &b))
		add_line(raft, "why_no_leader", buf_cstr(&b));
	else
		links_trouble(d->links, &b);
	if (engine_status(d->engine)->leader != 0 && b.len > 0)
		add_line(raft, "trouble", buf_cstr(&b));
	buf_done(&b);
}

static void
add_process(struct raftd *d, struct section *s)
{
	static const char *const gossips[] = {
		[DAEMON_ANSWERS] = "connected", [DAEMON_AWAY] = "away", [DAEMON_SILENT] = "silent",
	};
	char text[64];
	unsigned proven = 0;

	for (unsigned i = 0; i < links_count(d->links); i++)
		proven += links_at(d->links, i)->proven ? 1 : 0;
	snprintf(text, sizeof(text), "%u", proven);
	add_line(s, "links", text);
	links_info(d->links, add_line, s);
	add_line(s, "link_encryption", cluster_seals(&d->cluster) ? "noise" : "none");
	add_line(s, "gossip", gossips[gossip_daemon(d->gossip)]);
	rpcd_watch_info(d->rpcd_watch, add_line, s);
	add_line(s, "node_id", d->id.uuid);
	add_line(s, "store_id", d->id.store_id);
	leader_info(d->leader, add_line, s);
	clients_info(d->clients, add_line, s);
	key_fetch_info(d->key_fetch, add_line, s);
	add_line(s, "sandbox", sandbox_status());
	add_line(s, "folders", daemon_folders());
	snprintf(text, sizeof(text), "%u", d->fsm != NULL ? fsm_watch_count(d->fsm) : 0);
	add_line(s, "watches", text);
	snprintf(text, sizeof(text), "%" PRIu64, log_lost());
	add_line(s, "log_lines_lost", text);
	add_line(s, "version", TV_VERSION);
	add_line(s, "bootstrap", d->conf.bootstrap ? "true" : "false");
}

/* Is the state open, and since how long is it being opened, or how long did it take? */
static void
add_opening(const struct raftd *d, struct section *s)
{
	struct mono took = d->start.status == START_DONE ? d->start.took : mono_sub(clock_mono(), d->start.since);
	char text[24];

	add_line(s, "opening", d->start.status == START_DONE ? "done" : d->start.status == START_NO_ROOM ? "waits for disk space" :
	    "under way");
	snprintf(text, sizeof(text), "%lld", (long long)mono_ms(took));
	add_line(s, "opening_ms", text);
}

static void
write_all(void *ctx, struct buf *out)
{
	struct info *i = ctx;
	struct raftd *d = i->d;
	struct section s = { .body = BUF_INIT(1u << 20) };
	char text[24];

	mpw_map(out, 3);
	engine_info(d->engine, add_line, &s);
	autopilot_info(d->autopilot, add_line, &s);
	loop_time_info(d->loop_time, add_line, &s);
	snapshots_info(d->snapshots, add_line, &s);
	add_trouble(d, &s);
	close_section(out, "raft", &s);
	add_process(d, &s);
	close_section(out, "raftd", &s);
	buf_putspan(&s.body, buf_span(&i->known.body));
	s.count = i->known.count;
	snprintf(text, sizeof(text), "%u", d->fsm != NULL ? fsm_watch_count(d->fsm) : 0);
	add_line(&s, "watches", text);
	add_opening(d, &s);
	import_info(d->import, add_line, &s);
	close_section(out, "state", &s);
	buf_done(&s.body);
}

/* -- clients -- */

static void
answer_asked(struct info *i, struct asked_list *list)
{
	struct asked *x;

	while ((x = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, x, link);
		request_write(x->q, write_all, i);
		free(x);
	}
}

static void
read_figures(struct fsm *reader, void *ctx)
{
	struct info *i = ctx;

	fsm_info(reader, add_line, &i->found);
}

static void look_next(struct info *i);

static void
on_figures(void *ctx)
{
	struct info *i = ctx;
	struct section last = i->known;

	i->looking = false;
	i->known = i->found;
	i->found = last;
	buf_reset(&i->found.body);
	i->found.count = 0;
	answer_asked(i, &i->asked);
	look_next(i);
}

static void
look_next(struct info *i)
{
	ev_timer_stop(i->d->loop, &i->patience);
	if (TAILQ_EMPTY(&i->fresh))
		return;
	TAILQ_CONCAT(&i->asked, &i->fresh, link);
	i->looking = statethread_call(i->d->state, read_figures, on_figures, i) == TV_OK;
	if (i->looking)
		ev_timer_again(i->d->loop, &i->patience);
	else
		answer_asked(i, &i->asked);
}

static void
on_patience(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	struct info *i = w->data;

	answer_asked(i, &i->asked);
	answer_asked(i, &i->fresh);
}

void
info_now(struct info *i, struct request *q)
{
	request_write(q, write_all, i);
}

void
info_ask(struct info *i, struct request *q)
{
	struct asked *x = malloc(sizeof(*x));

	if (x == NULL) {
		info_now(i, q);
		return;
	}
	x->q = q;
	TAILQ_INSERT_TAIL(&i->fresh, x, link);
	if (!i->looking)
		look_next(i);
}

void
info_forget(struct info *i, const struct request *q)
{
	struct asked_list *const lists[] = { &i->fresh, &i->asked };
	struct asked *x, *next;

	for (unsigned n = 0; n < 2; n++)
		for (x = TAILQ_FIRST(lists[n]); x != NULL; x = next) {
			next = TAILQ_NEXT(x, link);
			if (x->q != q)
				continue;
			TAILQ_REMOVE(lists[n], x, link);
			free(x);
		}
}

struct info *
info_new(struct raftd *d)
{
	struct info *i = calloc(1, sizeof(*i));

	if (i == NULL)
		return NULL;
	i->d = d;
	TAILQ_INIT(&i->fresh);
	TAILQ_INIT(&i->asked);
	buf_init(&i->found.body, 1u << 20);
	buf_init(&i->known.body, 1u << 20);
	ev_timer_init(&i->patience, on_patience, 0.0, PATIENCE);
	i->patience.data = i;
	return i;
}

void
info_free(struct info *i)
{
	if (i == NULL)
		return;
	ev_timer_stop(i->d->loop, &i->patience);
	buf_done(&i->found.body);
	buf_done(&i->known.body);
	free(i);
}

/* -- of status -- */

void
info_write_status(struct raftd *d, struct chan *c)
{
	const struct raft_status *st = engine_status(d->engine);
	const struct raft_config *conf = engine_config(d->engine);
	const struct raft_server_conf *leader = raft_config_find(conf, st->leader);
	struct msg_raft_status s = { .role = st->role, .term = st->term,
		.leader_id = span_str(leader != NULL ? leader->uuid : ""),
		.leader_addr = span_str(leader != NULL ? leader->addr : ""),
		.leader_name = span_str(leader != NULL ? leader->name : ""), .voters = raft_config_voters(conf),
		.is_voter = st->voter };

	(void)engine_leader_known(d->engine, &s.leader_seen_ms);
	(void)chan_send_record(c, MSG_RAFT_STATUS, 0, &msg_raft_status_schema, &s);
}

void
info_status_leader(struct raftd *d, struct buf *out)
{
	const struct raft_server_conf *leader = raft_config_find(engine_config(d->engine),
	    engine_status(d->engine)->leader);
	struct text_reply r = { span_str(leader != NULL ? leader->addr : "") };

	schema_pack(&text_reply_schema, &r, out);
}

void
info_status_peers(struct raftd *d, struct buf *out)
{
	const struct raft_config *conf = engine_config(d->engine);
	struct span addrs[RAFT_SERVERS_MAX];
	struct text_list list = { { .v = addrs, .n = conf->count, .set = true } };

	for (unsigned i = 0; i < conf->count; i++)
		addrs[i] = span_str(conf->servers[i].addr);
	schema_pack(&text_list_schema, &list, out);
}

/* What is to be told of a server beside that it leads, follows or learns; "" nothing. */
static const char *
seat_state(struct raftd *d, const struct raft_server_conf *s)
{
	const struct peer *p = links_find_id(d->links, s->id);
	struct gossip_server g;

	if (s->id == d->id.self)
		return d->removed ? "removed" : "";
	if (p != NULL && p->proven)
		return "";
	if (!gossip_find_server(d->gossip, s->uuid, &g) || g.status == MEMBER_ALIVE)
		return "unreachable";
	return g.status == MEMBER_LEFT ? "left" : "failed";
}

uint64_t
info_configuration(struct raftd *d, struct buf *out)
{
	const struct raft_status *st = engine_status(d->engine);
	const struct raft_config *conf = engine_config_committed(d->engine);
	struct raft_server servers[RAFT_SERVERS_MAX];
	struct raft_configuration c;

	/*
	 * Soon after a start, without a leader, and on a leader that has not committed an entry of its own term, the commit index
	 * lags: the configuration there may name a server that was removed since.  The newest one is shown instead.
	 */
	if (st->leader == 0 || conf->count == 0 || (st->role == RAFT_LEADER && !st->ready))
		conf = engine_config(d->engine);
	c = (struct raft_configuration){ .Servers = { servers, conf->count, true }, .Index = conf->index };
	for (unsigned i = 0; i < conf->count; i++)
		servers[i] = (struct raft_server){
			.ID = span_str(conf->servers[i].uuid), .Node = span_str(conf->servers[i].name),
			.Address = span_str(conf->servers[i].addr), .Leader = conf->servers[i].id == st->leader,
			.ProtocolVersion = span_str("3"),
			.Voter = conf->servers[i].voter && !(d->removed && conf->servers[i].id == d->id.self),
			.State = span_str(seat_state(d, &conf->servers[i])),
		};
	schema_pack(&raft_configuration_schema, &c, out);
	return conf->index;
}
