/* A cluster comes into being. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/proc/daemon.h"
#include "raftd/engine/engine.h"
#include "raftd/members/bootstrap.h"
#include "raftd/members/rules/bootstrap_pick.h"
#include "raftd/peers/gossip.h"

#define QUESTION_ARENA_MAX (16u << 10)
#define ASK_TIMEOUT MONO_S(2)
#define BEAT 1.0			/* seconds between looks */
#define COMPLAIN_BEATS 60

struct asked {
	char uuid[37];
	bool pending, agreed;
};

struct bootstrap {
	struct raftd *d;
	ev_timer timer;
	struct asked asked[BOOTSTRAP_SERVERS_MAX];	/* of the present round */
	unsigned asked_count;
	struct ask_ctx { struct bootstrap *f; unsigned at; uint64_t round; } ctx[BOOTSTRAP_SERVERS_MAX];
	uint64_t round;
	unsigned told;			/* servers seen when the waiting was last logged */
	unsigned beats;			/* since the promise that is still open was last complained about */
	struct link_question answer_to;	/* promise that becomes durable */
};

/* -- our identity -- */

/* Takes effect at once; everything written or sent to the disk later comes after it. */
static void
set_cluster(struct bootstrap *f, const char *cluster_id, uint64_t generation, logthread_job_done *done, void *ctx)
{
	struct raftd *d = f->d;

	memmove(d->id.cluster_id, cluster_id, strlen(cluster_id) + 1);
	d->id.generation = generation;
	if (logthread_cluster(engine_log(d->engine), d->id.cluster_id, generation, done, ctx) != TV_OK) {
		log_err("raftd", "out of memory for the cluster identity");
		daemon_quit(1);
	}
	links_identity_changed(d->links);
	engine_status_changed(d->engine);
}

static bool
log_empty(struct bootstrap *f)
{
	const struct raft_status *st = engine_status(f->d->engine);

	return st->last_index == 0 && st->snapshot_index == 0;
}

static bool
fresh(struct bootstrap *f)
{
	return f->d->id.generation == 0 && log_empty(f);
}

static void
heard(struct bootstrap *f, const struct hello *h)
{
	struct identity *id = &f->d->id;

	if (id->generation > 0 || id->cluster_id[0] == '\0' || strcmp(h->cluster_id, id->cluster_id) == 0 ||
	    strcasecmp(h->dc, f->d->cluster.datacenter) != 0)
		return;
	if (strcmp(id->cluster_id, id->store_id) == 0) {
		/* Ours to give up: for a cluster that exists, or for a server before us in the order. */
		if (h->cluster_id[0] == '\0' || (h->generation == 0 && strcmp(h->uuid, id->uuid) > 0))
			return;
		log_info("raftd", "abandoning the cluster being formed: %s belongs to another", h->name);
		f->round++;
		set_cluster(f, "", 0, NULL, NULL);
	} else if (strcmp(id->cluster_id, h->store_id) == 0) {
		/* The server that has our promise has given it up: only that server could have formed it. */
		log_info("raftd", "%s has abandoned the cluster being formed", h->name);
		set_cluster(f, "", 0, NULL, NULL);
	}
}

void
bootstrap_heard(struct raftd *d, const struct hello *h)
{
	heard(d->bootstrap, h);
	bootstrap_wake(d->bootstrap);
}

bool
bootstrap_accepts(struct raftd *d, const struct hello *from, const struct raft_msg *m)
{
	struct bootstrap *f = d->bootstrap;
	struct identity *id = &d->id;
	bool data = m->type == RAFT_MSG_APPEND || m->type == RAFT_MSG_SNAPSHOT;

	if (id->generation > 0)
		return true;
	if (from->generation == 0)
		return false;
	/* In no configuration yet: a vote of ours could be one that a lost disk has given before. */
	if (id->cluster_id[0] == '\0' && !data)
		return false;
	if (!data)
		return true;
	log_info("raftd", "joining cluster %s", from->cluster_id);
	set_cluster(f, from->cluster_id, from->generation, NULL, NULL);
	return true;
}

/* -- forming it -- */

static void
add_voter(struct raft_config *c, const char *uuid, const char *store_id, const char *name, const char *addr)
{
	struct raft_server_conf *s = &c->servers[c->count++];

	raft_server_conf_fill(s, uuid, store_id, name, addr);
	s->voter = true;
}

static void
bootstrap(struct bootstrap *f, struct raft_config *c)
{
	struct identity *id = &f->d->id;
	enum tv_err err;

	add_voter(c, id->uuid, id->store_id, id->name, id->addr);
	/* Peers must know that the cluster exists before they hear of its log. */
	set_cluster(f, id->store_id, 1, NULL, NULL);
	err = engine_bootstrap(f->d->engine, c);
	if (err != TV_OK)
		log_err("raftd", "bootstrap failed: %s", tv_strerror(err));
	else
		log_info("raftd", "formed cluster %s of %u server%s",
		    id->cluster_id, c->count, c->count == 1 ? "" : "s");
}

static void
all_agreed(struct bootstrap *f)
{
	struct raft_config *c = calloc(1, sizeof(*c));

	for (unsigned i = 0; c != NULL && i < f->asked_count; i++) {
		const struct peer *p = links_find(f->d->links, f->asked[i].uuid);

		if (!f->asked[i].agreed || p == NULL || p->hello.uuid[0] == '\0') {
			free(c);
			return;
		}
		add_voter(c, p->uuid, p->hello.store_id, p->name, p->addr);
	}
	if (c != NULL)
		bootstrap(f, c);
	free(c);
}

static void
on_answer(void *ctx, enum tv_err err, struct span body)
{
	struct ask_ctx *a = ctx;
	struct bootstrap *f = a->f;
	struct msg_answer answer;
	char shown[200];

	if (a->round != f->round || a->at >= f->asked_count)
		return;
	f->asked[a->at].pending = false;
	if (err != TV_OK || !fresh(f) || msg_answer_read(body, &answer, NULL, NULL, NULL) != TV_OK)
		return;
	if (answer.err != TV_OK) {
		log_info("raftd", "a server does not join in forming the cluster yet: %s",
		    log_safe(answer.text, shown, sizeof(shown)));
		return;
	}
	f->asked[a->at].agreed = true;
	for (unsigned i = 0; i < f->asked_count; i++)
		if (!f->asked[i].agreed)
			return;
	all_agreed(f);
}

static void
write_question(struct bootstrap *f, struct buf *b)
{
	struct identity *id = &f->d->id;
	struct msg_bootstrap_server servers[BOOTSTRAP_SERVERS_MAX + 1];
	struct msg_bootstrap q = { .cluster_id = span_str(id->cluster_id), .expect = f->d->conf.bootstrap_expect,
		.servers = { servers, f->asked_count + 1, true } };

	for (unsigned i = 0; i < f->asked_count; i++) {
		const struct peer *p = links_find(f->d->links, f->asked[i].uuid);

		servers[i] = (struct msg_bootstrap_server){ span_str(f->asked[i].uuid),
			span_str(p != NULL ? p->name : ""), span_str(p != NULL ? p->addr : "") };
	}
	servers[f->asked_count] = (struct msg_bootstrap_server){ span_str(id->uuid), span_str(id->name),
		span_str(id->addr) };
	schema_pack(&msg_bootstrap_schema, &q, b);
}

static void
ask_all(struct bootstrap *f)
{
	struct buf b = BUF_INIT(64u << 10);

	write_question(f, &b);
	for (unsigned i = 0; i < f->asked_count && !b.failed; i++) {
		f->ctx[i] = (struct ask_ctx){ f, i, f->round };
		if (links_ask(f->d->links, f->asked[i].uuid, MSG_RAFT_BOOTSTRAP, buf_span(&b), ASK_TIMEOUT,
		    on_answer, &f->ctx[i]) == TV_OK)
			f->asked[i].pending = true;
	}
	buf_done(&b);
}

/* Our promise is durable: now the others may be asked. */
static void
on_promised(void *ctx, enum tv_err err)
{
	struct bootstrap *f = ctx;

	if (err == TV_OK)
		bootstrap_wake(f);
}

struct gathering {
	struct bootstrap *f;
	struct bootstrap_candidate c[64];
	unsigned count, expecting, alive, members;	/* members: of a cluster that exists */
};

static void
gather(void *ctx, const struct gossip_server *s)
{
	struct gathering *g = ctx;
	const struct peer *p = links_find(g->f->d->links, s->uuid);
	struct bootstrap_candidate *c = &g->c[g->count];

	if (g->count == 64 || strcmp(s->uuid, g->f->d->id.uuid) == 0)
		return;
	*c = (struct bootstrap_candidate){ .alive = s->status == MEMBER_ALIVE, .expect = s->expect };
	memcpy(c->uuid, s->uuid, sizeof(c->uuid));
	if (p != NULL && (p->proven || p->forming) && p->hello.uuid[0] != '\0') {
		c->linked = true;
		memcpy(c->cluster_id, p->hello.cluster_id, sizeof(c->cluster_id));
		c->generation = p->hello.generation;
	}
	if (c->alive && c->expect == g->f->d->conf.bootstrap_expect)
		g->expecting++;
	g->alive += c->alive;
	g->members += c->alive && c->generation > 0;
	g->count++;
}

static void
put_count(const struct bootstrap *f, unsigned here, struct buf *out)
{
	uint64_t expect = f->d->conf.bootstrap_expect;

	buf_printf(out, "forming a cluster: %u of %llu servers are present", here, (unsigned long long)expect);
	if (here < expect)
		buf_printf(out, "; start the others with bootstrap_expect = %llu too, and join them: clusterctl join "
		    "%s on each, or retry_join in their cluster.conf",
		    (unsigned long long)expect, f->d->cluster.advertise);
	else if (here > expect)
		buf_printf(out, "; bootstrap_expect must be the number of those that form it, the others start without it");
}

static void
tell_count(struct bootstrap *f)
{
	struct buf b = BUF_INIT(4096);

	put_count(f, f->told, &b);
	log_info("raftd", "%s", buf_cstr(&b));
	buf_done(&b);
}

static void
put_waiting(struct bootstrap *f, const struct gathering *g, struct buf *out)
{
	const struct identity *id = &f->d->id;

	if (id->cluster_id[0] != '\0' && strcmp(id->cluster_id, id->store_id) != 0)
		buf_puts(out, "waiting for the server that this one has promised to form a cluster with");
	else if (g->members == 0 && g->alive > 0 && g->expecting == 0 && f->d->conf.bootstrap_expect > 1)
		buf_printf(out, "no other server present has bootstrap_expect = %llu and a running raftd: waiting "
		    "for one to form a cluster with, or for a leader to add this server",
		    (unsigned long long)f->d->conf.bootstrap_expect);
	else if (g->members > 0 || (g->alive > 0 && g->expecting == 0))
		buf_puts(out, "waiting for a leader to add this server");
	else if (f->d->conf.bootstrap_expect > 1)
		put_count(f, g->expecting + 1, out);
	else if (f->d->conf.bootstrap_expect == 0 && !f->d->conf.bootstrap)
		buf_puts(out, "this server is not in a cluster and knows no other server: use clusterctl join "
		    "ADDRESS, or retry_join in cluster.conf, to join one, or bootstrap_expect in raftd.conf to form "
		    "one");
	else
		buf_puts(out, "forming a cluster");
}

bool
bootstrap_text(struct bootstrap *f, struct buf *out)
{
	struct gathering *g = f == NULL || !fresh(f) ? NULL : calloc(1, sizeof(*g));

	if (g == NULL)
		return false;
	g->f = f;
	gossip_each_server(f->d->gossip, gather, g);
	put_waiting(f, g, out);
	free(g);
	return true;
}

static void
look_expect(struct bootstrap *f)
{
	struct identity *id = &f->d->id;
	uint64_t expect = f->d->conf.bootstrap_expect;
	unsigned picked[BOOTSTRAP_SERVERS_MAX];
	struct gathering *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return;
	g->f = f;
	gossip_each_server(f->d->gossip, gather, g);
	if (g->expecting + 1 != f->told) {
		f->told = g->expecting + 1;
		tell_count(f);
	}
	if (!bootstrap_pick(id->uuid, id->cluster_id, id->store_id, expect, g->c, g->count, picked))
		goto out;
	if (id->cluster_id[0] == '\0') {
		set_cluster(f, id->store_id, 0, on_promised, f);
		goto out;
	}
	f->round++;
	f->asked_count = (unsigned)expect - 1;
	for (unsigned i = 0; i < f->asked_count; i++) {
		f->asked[i] = (struct asked){ 0 };
		memcpy(f->asked[i].uuid, g->c[picked[i]].uuid, sizeof(f->asked[i].uuid));
	}
	ask_all(f);
out:
	free(g);
}

static bool
asking(const struct bootstrap *f)
{
	for (unsigned i = 0; i < f->asked_count; i++)
		if (f->asked[i].pending)
			return true;
	return false;
}

/* Promised to a server that does not come: only the operator knows whether it ever will. */
static void
complain(struct bootstrap *f)
{
	struct identity *id = &f->d->id;

	if (id->cluster_id[0] == '\0' || strcmp(id->cluster_id, id->store_id) == 0 || ++f->beats < COMPLAIN_BEATS)
		return;
	f->beats = 0;
	log_warn("raftd", "still waiting for the server that this one has promised to form cluster %s with; "
	    "if that server is lost for good, stop raftd here and remove %s/raftd", id->cluster_id, f->d->cluster.data_dir);
}

static void
look_for_cluster(struct bootstrap *f)
{
	struct raftd *d = f->d;
	struct raft_config *c;

	if (!fresh(f))
		return;
	complain(f);
	/* An own promise from before a crash goes on where it was. */
	if (d->conf.bootstrap || d->conf.bootstrap_expect == 1) {
		if (d->id.cluster_id[0] != '\0' && strcmp(d->id.cluster_id, d->id.store_id) != 0)
			return;
		c = calloc(1, sizeof(*c));
		if (c != NULL)
			bootstrap(f, c);
		free(c);
	} else if (d->conf.bootstrap_expect > 1 && !asking(f))
		look_expect(f);
}

/* -- being asked -- */

static void
promise_done(void *ctx, enum tv_err err)
{
	struct bootstrap *f = ctx;

	if (f->answer_to.link != 0)
		links_answer(f->d->links, &f->answer_to, err, "");
	f->answer_to = (struct link_question){ 0 };
}

/* listed: whether we are among the servers that shall form the cluster. */
static enum tv_err
take_question(struct span body, char cluster_id[37], uint64_t *expect, const char *own_uuid, bool *listed)
{
	struct arena a = ARENA_INIT(QUESTION_ARENA_MAX);
	struct msg_bootstrap q = { .expect = 0 };
	enum tv_err err = msg_read(&msg_bootstrap_schema, body, &a, &q);
	const struct msg_bootstrap_server *servers = q.servers.v;

	*listed = false;
	if (err == TV_OK && (!span_copy(q.cluster_id, cluster_id, 37) || strlen(cluster_id) != 36 ||
	    q.expect > BOOTSTRAP_SERVERS_MAX || q.servers.n > BOOTSTRAP_SERVERS_MAX))
		err = TV_EFORMAT;
	for (uint32_t i = 0; i < q.servers.n && err == TV_OK; i++)
		*listed |= span_eqs(servers[i].id, own_uuid);
	*expect = q.expect;
	arena_done(&a);
	return err;
}

static enum tv_err
on_question(struct raftd *d, const struct hello *from, const struct link_question *q, struct span body)
{
	struct bootstrap *f = d->bootstrap;
	char cluster_id[37];
	uint64_t expect;
	const char *why;
	bool listed;
	enum tv_err err = take_question(body, cluster_id, &expect, f->d->id.uuid, &listed);

	if (err != TV_OK)
		return err;
	err = bootstrap_may_promise(&f->d->id, f->d->conf.bootstrap_expect, log_empty(f), from->uuid, cluster_id,
	    expect, &why);
	if (err == TV_OK && (!listed || strcmp(cluster_id, from->store_id) != 0 || f->answer_to.link != 0)) {
		err = TV_EAGAIN;
		why = "this server is being asked already";
	}
	if (err != TV_OK) {
		links_answer(f->d->links, q, err, why);
		return TV_OK;
	}
	if (strcmp(f->d->id.cluster_id, cluster_id) == 0) {
		/* Promised before: perhaps not durable yet, so the answer goes behind it in the log's order. */
		f->answer_to = *q;
		if (logthread_cluster(engine_log(f->d->engine), cluster_id, 0, promise_done, f) != TV_OK)
			promise_done(f, TV_ENOMEM);
		return TV_OK;
	}
	log_info("raftd", "promised %s to form a cluster with it", from->name);
	f->answer_to = *q;
	set_cluster(f, cluster_id, 0, promise_done, f);
	return TV_OK;
}

/* -- life -- */

static void
on_timer(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct bootstrap *f = w->data;

	w->repeat = BEAT;
	ev_timer_again(loop, w);
	look_for_cluster(f);
	if (!fresh(f))
		ev_timer_stop(loop, w);
}

void
bootstrap_wake(struct bootstrap *f)
{
	if (f == NULL || f->d->stopping || !fresh(f) || (ev_is_active(&f->timer) && f->timer.repeat < BEAT))
		return;
	ev_timer_stop(f->d->loop, &f->timer);
	ev_timer_set(&f->timer, 0.05, BEAT / 2);
	ev_timer_start(f->d->loop, &f->timer);
}

struct bootstrap *
bootstrap_new(struct raftd *d)
{
	struct bootstrap *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return NULL;
	f->d = d;
	links_serve(d->links, MSG_RAFT_BOOTSTRAP, true, on_question);
	ev_timer_init(&f->timer, on_timer, 0.05, BEAT);
	f->timer.data = f;
	ev_timer_start(d->loop, &f->timer);
	return f;
}

void
bootstrap_free(struct bootstrap *f)
{
	if (f == NULL)
		return;
	ev_timer_stop(f->d->loop, &f->timer);
	free(f);
}
