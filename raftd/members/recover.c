/* The cluster goes on with this server alone. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/record/records.h"
#include "raftd/engine/engine.h"
#include "raftd/members/membership.h"
#include "raftd/members/recover.h"
#include "raftd/members/rules/recover_plan.h"
#include "raftd/peers/gossip.h"
#include "raftd/peers/identity.h"

#define ASK_TIMEOUT MONO_S(2)
#define REPORT_BYTES_MAX (64u << 10)

struct asking {				/* one server of the configuration */
	struct recover *r;
	bool pending;
	struct raft_server_conf conf;
	struct recover_server seen;
};

struct recover {
	struct raftd *d;
	bool active, dry_run;
	struct asking asked[RAFT_SERVERS_MAX];
	unsigned count;
	unsigned waiting;
	struct recover_plan plan;
	uint64_t generation, next;	/* before, and after */
	struct msg_log_state log;	/* of this server, before */
	int64_t contact_ns;
	recover_done *done;
	void *ctx;
};

/* -- the report -- */

static struct span
status_text(struct raftd *d, const char *uuid)
{
	struct gossip_server g;

	return span_str(member_status_name(gossip_find_server(d->gossip, uuid, &g) ? g.status : MEMBER_NONE));
}

static const char *
name_of(const struct recover *r, raft_id id)
{
	for (unsigned i = 0; i < r->count; i++)
		if (r->asked[i].conf.id == id)
			return r->asked[i].conf.name;
	return "";
}

static void
write_report(struct recover *r, bool finished, struct buf *out)
{
	struct identity *id = &r->d->id;
	struct raft_survivor list[RAFT_SERVERS_MAX];
	struct raft_recovery rec = {
		.Node = span_str(id->name), .ID = span_str(id->uuid), .Address = span_str(id->addr),
		.ClusterID = span_str(id->cluster_id), .Generation = generation_number(r->generation), .LastIndex = r->log.last_index,
		.LastTerm = r->log.last_term, .CommitIndex = r->log.commit, .LeaderLastIndex = r->plan.leader_last,
		.LeaderContact = r->contact_ns, .MayBeLost = r->plan.may_be_lost, .Voters = r->plan.voters,
		.VotersAnswering = r->plan.answering, .Best = span_str(r->plan.best == id->self ? "" : name_of(r, r->plan.best)),
		.Servers = { list, r->count, true }, .Done = finished, .Refused = span_str(r->plan.refused),
	};

	for (unsigned i = 0; i < r->count; i++) {
		const struct asking *a = &r->asked[i];
		bool self = a->conf.id == id->self;

		list[i] = (struct raft_survivor){
			.ID = span_str(a->conf.uuid), .Node = span_str(a->conf.name), .Address = span_str(a->conf.addr),
			.SerfStatus = status_text(r->d, a->conf.uuid), .Voter = a->conf.voter, .Self = self,
			.Answered = self || a->seen.answered,
			.LastIndex = self ? r->log.last_index : a->seen.log.last_index,
			.LastTerm = self ? r->log.last_term : a->seen.log.last_term,
		};
	}
	schema_pack(&raft_recovery_schema, &rec, out);
}

static void
recover_finish(struct recover *r, enum tv_err err, const char *text, bool finished)
{
	struct buf report = BUF_INIT(REPORT_BYTES_MAX);
	recover_done *done = r->done;

	r->active = false;
	r->done = NULL;
	write_report(r, finished, &report);
	if (done != NULL)
		done(r->ctx, err, text, buf_span(&report));
	buf_done(&report);
}

/* -- doing it -- */

static void
log_recovery(const struct recover *r)
{
	log_warn("raft", "recovered: this server alone continues as generation %llu of cluster %s, with its log up "
	    "to index %llu of term %llu",
	    (unsigned long long)generation_number(r->d->id.generation), r->d->id.cluster_id,
	    (unsigned long long)r->log.last_index, (unsigned long long)r->log.last_term);
	for (unsigned i = 0; i < r->count; i++)
		if (r->asked[i].conf.id != r->d->id.self)
			log_warn("raft", "server %s (%s) was dropped: it can return only as a new server, with an "
			    "empty %s/raftd",
			    r->asked[i].conf.name, r->asked[i].conf.addr, r->d->cluster.data_dir);
}

/* All of it is durable: the others may hear of it. */
static void
on_durable(void *ctx, enum tv_err err)
{
	struct recover *r = ctx;
	struct raftd *d = r->d;

	if (err != TV_OK)
		return;				/* the process stops */
	d->id.generation = r->next;
	links_silence(d->links, false);
	links_identity_changed(d->links);
	gossip_tell_identity(d->gossip);
	engine_status_changed(d->engine);
	log_recovery(r);
	recover_finish(r, TV_OK, "", true);
}

static void
act(struct recover *r)
{
	struct raftd *d = r->d;
	const struct raft_server_conf *self = raft_config_find(engine_config(d->engine), d->id.self);
	struct raft_config *alone = calloc(1, sizeof(*alone));
	enum tv_err err = alone == NULL || self == NULL ? TV_ENOMEM : TV_OK;
	uint64_t random;

	if (err == TV_OK) {
		alone->count = 1;
		alone->servers[0] = *self;
		alone->servers[0].voter = true;
		/* From here on nothing of the old generation gets in or out. */
		links_silence(d->links, true);
		randombytes_buf(&random, sizeof(random));
		r->next = generation_next(r->generation, random);
		err = engine_recover(d->engine, alone, r->next, on_durable, r);
		if (err != TV_OK)
			links_silence(d->links, false);
	}
	free(alone);
	if (err != TV_OK)
		recover_finish(r, err, err == TV_EAGAIN ? "a snapshot is being installed; try again when it is done" : tv_strerror(err),
		    false);
}

/* -- asking -- */

static struct msg_log_state
own_log(struct raftd *d)
{
	const struct raft_status *st = engine_status(d->engine);
	bool led;

	(void)engine_heard(d->engine, &led);
	return (struct msg_log_state){ st->last_index, st->last_term, st->commit,
		led ? st->last_index : st->leader_last };
}

static int64_t
leader_contact(struct raftd *d)
{
	bool led;
	struct mono at = engine_heard(d->engine, &led);

	return at.ns != 0 ? mono_sub(clock_mono(), at).ns : -1;
}

/* All have answered, or their time is up. */
static void
decide(struct recover *r)
{
	struct raftd *d = r->d;
	const struct raft_status *st = engine_status(d->engine);
	struct recover_input in = {
		.config = engine_config(d->engine), .self = d->id.self, .leader = st->leader,
		.leads = st->role == RAFT_LEADER, .member = d->id.generation > 0 && st->last_index > 0,
		.stateless = engine_stateless(d->engine),
	};

	r->generation = d->id.generation;
	in.log = r->log = own_log(d);
	r->contact_ns = leader_contact(d);
	for (unsigned i = 0; i < r->count; i++)
		if (r->asked[i].conf.id != d->id.self)
			in.servers[in.count++] = r->asked[i].seen;
	recover_plan(&in, &r->plan);
	if (r->plan.allowed && d->fenced != 0) {
		snprintf(r->plan.refused, sizeof(r->plan.refused), "the cluster was recovered without this server, "
		    "as generation %llu, which is the valid one", (unsigned long long)generation_number(d->fenced));
		r->plan.allowed = false;
	}
	if (r->plan.allowed && engine_opening(d->engine)) {
		snprintf(r->plan.refused, sizeof(r->plan.refused), "this server is still opening its state, and cannot lead before: ask "
		    "again when opening is done in clusterctl info state");
		r->plan.allowed = false;
	}
	if (!r->plan.allowed)
		recover_finish(r, TV_ECONFLICT, r->plan.refused, false);
	else if (r->dry_run)
		recover_finish(r, TV_OK, "", false);
	else
		act(r);
}

static void
on_answer(void *ctx, enum tv_err err, struct span body)
{
	struct asking *a = ctx;
	struct msg_log_state s = { .last_index = 0 };
	struct msg_answer answer;

	if (!a->pending)
		return;
	a->pending = false;
	if (err == TV_OK && msg_answer_read(body, &answer, &msg_log_state_schema, NULL, &s) == TV_OK &&
	    answer.err == TV_OK) {
		a->seen.answered = true;
		a->seen.log = s;
	}
	if (--a->r->waiting == 0)
		decide(a->r);
}

/* Only a link that is proven, to the disk that the configuration names, says anything. */
static bool
proven(struct raftd *d, const struct raft_server_conf *s)
{
	const struct peer *p = links_find_id(d->links, s->id);

	return p != NULL && p->proven;
}

static void
ask_all(struct recover *r)
{
	const struct raft_config *c = engine_config(r->d->engine);

	r->count = c->count;
	r->waiting = 1;			/* this function */
	for (unsigned i = 0; i < c->count; i++) {
		struct asking *a = &r->asked[i];

		*a = (struct asking){ .r = r, .conf = c->servers[i], .seen = { .id = c->servers[i].id } };
		if (a->conf.id == r->d->id.self || !proven(r->d, &a->conf))
			continue;
		a->pending = true;
		r->waiting++;
		if (links_ask(r->d->links, a->conf.uuid, MSG_RAFT_LOG_STATE, MSG_EMPTY, ASK_TIMEOUT, on_answer,
		    a) != TV_OK) {
			a->pending = false;
			r->waiting--;
		}
	}
	if (--r->waiting == 0)
		decide(r);
}

void
recover_start(struct recover *r, bool dry_run, recover_done *done, void *ctx)
{
	if (r->active || membership_leaving(r->d->members)) {
		done(ctx, TV_EAGAIN, r->active ? "a recovery is under way on this server" : "this server is leaving", SPAN_NONE);
		return;
	}
	r->active = true;
	r->dry_run = dry_run;
	r->done = done;
	r->ctx = ctx;
	ask_all(r);
}

void
recover_forget(struct recover *r, void *ctx)
{
	if (r->ctx == ctx)
		r->done = NULL;
}

static enum tv_err
on_question(struct raftd *d, const struct hello *from UNUSED, const struct link_question *q, struct span body)
{
	struct msg_log_state log = own_log(d);
	struct buf b = BUF_INIT(128);

	if (msg_read(&empty_schema, body, NULL, NULL) != TV_OK)
		return TV_EFORMAT;
	msg_answer_write(&b, TV_OK, "", &msg_log_state_schema, &log);
	links_reply(d->links, q, buf_span(&b));
	buf_done(&b);
	return TV_OK;
}

struct recover *
recover_new(struct raftd *d)
{
	struct recover *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->d = d;
	links_serve(d->links, MSG_RAFT_LOG_STATE, false, on_question);
	return r;
}

void
recover_free(struct recover *r)
{
	free(r);
}
