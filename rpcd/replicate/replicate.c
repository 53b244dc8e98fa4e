/* Copies of another datacenter's policies, roles and global tokens. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/record/records.h"
#include "raftd/core/raft.h"
#include "rpcd/replicate/replicate.h"

#define WAIT_MS 60000			/* at the primary; then it is written that all is well */
#define BATCH 256			/* records */
#define BATCH_PAUSE_S 0.02		/* after each, so at most 50 a second */
#define BYTES_PER_S (4.0 * (1 << 20))	/* and so many bytes */
#define ROUND_PAUSE_S 0.01		/* changes that come one after the other are taken together */
#define WHOLE_TIME MONO_S(3600)
#define AGAIN_S 1.0			/* after an error, doubled each time */
#define AGAIN_MAX_S 30.0
#define AGAIN_THERE_S 0.5		/* once servers of the primary are there that were not */
#define TELL_TIME MONO_S(30)		/* between two errors that are written to the state */
#define LOOK_S 5.0			/* for a token, while there is none */
#define WARN_TIME MONO_S(300)		/* between two lines that there is none */
#define NO_TOKEN "acl.tokens.replication is not set in rpcd.conf"
#define REPLY_BYTES_MAX (64u << 20)
#define ARGS_BYTES_MAX (16u << 20)
#define DELETE_MAX 4096u		/* of one comparison: then there may be more */

enum step {
	STEP_OFF, STEP_BEGIN, STEP_WAIT, STEP_LIST, STEP_DIFF, STEP_FETCH, STEP_APPLY, STEP_COUNT, STEP_REACH,
	STEP_PAUSE, STEP_TELL
};

struct reply_kept {			/* a record, and what it points into */
	struct buf bytes;
	struct arena a;
};

struct acl_replicator {
	struct acl_replicator_conf conf;
	struct rng rng;
	ev_timer timer;
	enum step step, next;		/* next: after STEP_PAUSE */
	struct route_call *call;
	struct buf args;
	bool first;			/* no token has a right here yet, or no more: it is an argument */
	bool whole;			/* this round is of everything */
	bool whole_kind;		/* the kind at hand is, since the numbers did not agree */

	struct acl_repl_position reached, target;
	uint64_t index;			/* of the last wait */
	unsigned kind;			/* enum acl_repl_kind */
	char after[37], until[37];	/* of the page */
	uint64_t there, here;		/* how many of the kind, after this round */
	int64_t gap[ACL_REPL_KINDS];	/* there - here after a round of everything: local tokens are in the way */
	struct reply_kept page_kept, diff_kept, records_kept;
	struct acl_repl_page page;
	struct acl_repl_diff diff;
	struct acl_repl_records records;
	uint32_t fetched;		/* of the diff */
	bool deletes_sent;

	double again;			/* s */
	bool away;			/* there was no server of the primary, as far as we looked since an error */
	struct mono heard, succeeded, told, whole_at, warned;	/* zero: never */
	bool changed;			/* this round found something */
	char error[256];		/* of the last round that failed; "": none, or it is told */
	struct acl_replicator_stats stats;
};

static void run_step(struct acl_replicator *r, enum step step);
static void on_reply(void *ctx, const struct op_reply *reply);

/* -- replies -- */

static void
kept_wipe(struct reply_kept *k)
{
	arena_wipe(&k->a);
	buf_reset(&k->bytes);
}

static bool
keep_reply(struct reply_kept *k, const struct op_reply *reply, const struct schema *s, void *rec)
{
	struct rd in;

	kept_wipe(k);
	memset(rec, 0, s->size);
	buf_putspan(&k->bytes, reply->value);
	in = rd_span_over(buf_span(&k->bytes));
	return !k->bytes.failed && schema_unpack(s, &in, &k->a, rec) == TV_OK && rd_end(&in) == TV_OK;
}

/* -- errors -- */

static void
pause_for(struct acl_replicator *r, double seconds, enum step next)
{
	r->step = STEP_PAUSE;
	r->next = next;
	ev_now_update(r->conf.loop);
	r->timer.repeat = seconds;
	ev_timer_again(r->conf.loop, &r->timer);
}

static unsigned
rank_any(void *ctx UNUSED, const struct members_server *s UNUSED)
{
	return 0;
}

static bool
is_primary_there(struct acl_replicator *r)
{
	struct members_server s;

	return members_servers(r->conf.members, span_str(r->conf.primary), &r->rng, rank_any, NULL, &s, 1) > 0;
}

static void
rest(struct acl_replicator *r, double seconds)
{
	pause_for(r, seconds * (0.75 + rng_unit(&r->rng) / 2), STEP_BEGIN);
}

/* While it rests after an error. */
static void
look_for_primary(struct acl_replicator *r)
{
	bool there = is_primary_there(r);

	if (r->away && there) {
		log_info("acl", "replication from datacenter %s: it has servers again", r->conf.primary);
		rest(r, AGAIN_THERE_S);
	}
	r->away = !there;
}

static void
failed(struct acl_replicator *r, const char *where, enum tv_err err, struct span text)
{
	char why[256];

	if (text.len == 0)
		text = span_str(tv_strerror(err));
	snprintf(why, sizeof(why), "%s: %.*s", where, (int)(text.len > 200 ? 200 : text.len), (const char *)text.p);
	if (strcmp(why, r->error) != 0)
		log_warn("acl", "replication from datacenter %s: %s", r->conf.primary, why);
	memcpy(r->error, why, sizeof(why));
	r->stats.failures++;
	r->whole = true;		/* it is not known what was missed */
	r->again = r->again == 0 ? AGAIN_S : r->again * 2 > AGAIN_MAX_S ? AGAIN_MAX_S : r->again * 2;
	if (r->told.ns == 0 || mono_before(mono_add(r->told, TELL_TIME), clock_mono()))
		run_step(r, STEP_TELL);
	else
		rest(r, r->again);
}

/* -- questions -- */

static void
ask_question(struct acl_replicator *r, enum op_code code, bool there, uint64_t index, const void *rec)
{
	const struct op *op = op_find((uint16_t)code);
	struct op_request q = { .op = op->code, .token = r->conf.token(r->conf.ctx) };

	buf_reset(&r->args);
	schema_pack(op->args, rec, &r->args);
	if (code == OP_ACL_REPL_DIFF_FIRST || code == OP_ACL_REPL_APPLY_FIRST)
		q.token = SPAN_NONE;	/* it is an argument */
	q.dc = there ? span_str(r->conf.primary) : SPAN_NONE;
	q.index = index;
	q.wait_ms = index > 0 ? WAIT_MS : 0;
	q.args = buf_span(&r->args);
	r->call = r->args.failed ? NULL : route_start(r->conf.route, &q, on_reply, r);
	if (r->call == NULL)
		pause_for(r, AGAIN_S, STEP_BEGIN);	/* too many requests are under way */
}

static void
ask_diff(struct acl_replicator *r, struct acl_repl_compare *q)
{
	q->Asker = r->first ? r->conf.token(r->conf.ctx) : SPAN_NONE;
	ask_question(r, r->first ? OP_ACL_REPL_DIFF_FIRST : OP_ACL_REPL_DIFF, false, 0, q);
}

static void
ask_apply(struct acl_replicator *r, struct acl_repl_apply *q)
{
	q->Asker = r->first ? r->conf.token(r->conf.ctx) : SPAN_NONE;
	ask_question(r, r->first ? OP_ACL_REPL_APPLY_FIRST : OP_ACL_REPL_APPLY, false, 0, q);
}

static uint64_t *
index_of(struct acl_repl_position *p, unsigned kind)
{
	return kind == ACL_REPL_POLICIES ? &p->Policies : kind == ACL_REPL_ROLES ? &p->Roles : &p->Tokens;
}

static bool
is_whole(const struct acl_replicator *r)
{
	return r->whole || r->whole_kind;
}

static void
ask_page(struct acl_replicator *r)
{
	ask_question(r, OP_ACL_REPL_LIST, true, 0, &(struct acl_repl_ask){ .Kind = r->kind,
	    .Since = is_whole(r) ? 0 : *index_of(&r->reached, r->kind), .After = span_str(r->after),
	    .Limit = ACL_REPL_PAGE });
}

static void
ask_fetch(struct acl_replicator *r)
{
	uint32_t left = r->diff.Fetch.n - r->fetched;

	ask_question(r, OP_ACL_REPL_FETCH, true, 0, &(struct acl_repl_ids){ .Kind = r->kind,
	    .IDs = { .v = r->diff.Fetch.v + r->fetched, .n = left > BATCH ? BATCH : left, .set = true } });
}

static void
ask_batch(struct acl_replicator *r)
{
	struct acl_repl_apply q = { .Kind = r->kind, .Policies = r->records.Policies, .Roles = r->records.Roles,
	    .Tokens = r->records.Tokens };

	if (!r->deletes_sent)
		q.Delete = r->diff.Delete;
	r->stats.copied += q.Policies.n + q.Roles.n + q.Tokens.n;
	r->stats.deleted += q.Delete.n;
	r->stats.bytes += r->records_kept.bytes.len;
	r->changed = true;
	r->deletes_sent = true;
	ask_apply(r, &q);
}

static void
run_step(struct acl_replicator *r, enum step step)
{
	r->step = step;
	switch (step) {
	case STEP_BEGIN:
		ask_diff(r, &(struct acl_repl_compare){ .Kind = ACL_REPL_NONE });
		break;
	case STEP_WAIT:
		ask_question(r, OP_ACL_REPL_LIST, true, r->index, &(struct acl_repl_ask){ .Kind = ACL_REPL_NONE });
		break;
	case STEP_LIST:
		ask_page(r);
		break;
	case STEP_DIFF:
		ask_diff(r, &(struct acl_repl_compare){ .Kind = r->kind, .Whole = is_whole(r),
		    .After = span_str(r->after), .Until = span_str(r->until), .Items = r->page.Items });
		break;
	case STEP_FETCH:
		ask_fetch(r);
		break;
	case STEP_APPLY:
		ask_batch(r);
		break;
	case STEP_COUNT:
		ask_diff(r, &(struct acl_repl_compare){ .Kind = r->kind });
		break;
	case STEP_REACH:
		ask_apply(r, &(struct acl_repl_apply){ .Reached = true, .Position = r->target });
		break;
	case STEP_TELL:
		ask_apply(r, &(struct acl_repl_apply){ .Error = span_str(r->error) });
		break;
	case STEP_OFF:
	case STEP_PAUSE:
		break;
	}
}

/* -- from one step to the next -- */

/* The next kind in which something changed. */
static void
next_kind(struct acl_replicator *r)
{
	r->whole_kind = false;
	r->after[0] = '\0';
	while (++r->kind < ACL_REPL_KINDS && !r->whole &&
	    *index_of(&r->target, r->kind) == *index_of(&r->reached, r->kind))
		;
	run_step(r, r->kind < ACL_REPL_KINDS ? STEP_LIST : STEP_REACH);
}

static void
kind_done(struct acl_replicator *r)
{
	if (is_whole(r)) {
		run_step(r, STEP_COUNT);
	} else if ((int64_t)(r->there - r->here) != r->gap[r->kind]) {
		r->whole_kind = true;	/* something went, or came by a restore */
		r->after[0] = '\0';
		run_step(r, STEP_LIST);
	} else {
		next_kind(r);
	}
}

static void
page_done(struct acl_replicator *r)
{
	if (r->diff.Delete.n >= DELETE_MAX) {
		run_step(r, STEP_DIFF);	/* there may be more of them in this range */
	} else if (r->page.More) {
		memcpy(r->after, r->until, sizeof(r->after));
		run_step(r, STEP_LIST);
	} else {
		kind_done(r);
	}
}

static void
batch_next(struct acl_replicator *r)
{
	if (r->fetched < r->diff.Fetch.n)
		run_step(r, STEP_FETCH);
	else
		page_done(r);
}

static void
waited(struct acl_replicator *r, const struct op_reply *reply)
{
	r->heard = clock_mono();
	r->changed = false;
	r->target = r->page.Position;
	if (reply->index < r->index || r->target.Floor != r->reached.Floor || r->whole_at.ns == 0 ||
	    mono_before(mono_add(r->whole_at, WHOLE_TIME), r->heard))
		r->whole = true;	/* a restore there, or it is time */
	r->index = reply->index;
	r->kind = ACL_REPL_NONE;
	next_kind(r);
}

static void
listed(struct acl_replicator *r, const struct op_reply *reply UNUSED)
{
	const struct acl_repl_item *v = r->page.Items.v;

	if (r->page.Items.n > ACL_REPL_PAGE || (r->page.More && r->page.Items.n == 0)) {
		failed(r, "listing", TV_EFORMAT, SPAN_NONE);
		return;
	}
	if (r->after[0] == '\0') {
		r->there = r->page.Count;
		r->here = 0;
	}
	r->until[0] = '\0';
	if (r->page.More && !span_copy(v[r->page.Items.n - 1].ID, r->until, sizeof(r->until)))
		failed(r, "listing", TV_EFORMAT, SPAN_NONE);
	else
		run_step(r, STEP_DIFF);
}

static void
compared(struct acl_replicator *r, const struct op_reply *reply UNUSED)
{
	if (r->after[0] == '\0')
		r->here = r->diff.Count;
	r->here += r->diff.New;
	r->fetched = 0;
	r->deletes_sent = r->diff.Delete.n == 0;
	r->records = (struct acl_repl_records){ .Considered = 0 };
	if (r->diff.Fetch.n > 0)
		run_step(r, STEP_FETCH);
	else if (!r->deletes_sent)
		run_step(r, STEP_APPLY);
	else
		page_done(r);
}

static void
fetched(struct acl_replicator *r, const struct op_reply *reply UNUSED)
{
	if (r->records.Considered == 0 || r->records.Considered > r->diff.Fetch.n - r->fetched) {
		failed(r, "fetching", TV_EFORMAT, SPAN_NONE);
		return;
	}
	r->fetched += (uint32_t)r->records.Considered;
	run_step(r, STEP_APPLY);
}

static void
applied(struct acl_replicator *r, const struct op_reply *reply UNUSED)
{
	double pause = (double)r->records_kept.bytes.len / BYTES_PER_S;

	r->records = (struct acl_repl_records){ .Considered = 0 };
	kept_wipe(&r->records_kept);
	if (r->fetched < r->diff.Fetch.n || r->page.More)
		pause_for(r, pause > BATCH_PAUSE_S ? pause : BATCH_PAUSE_S, STEP_APPLY);
	else
		batch_next(r);
}

static void
reached(struct acl_replicator *r, const struct op_reply *reply UNUSED)
{
	struct mono now = clock_mono();

	if (r->changed)
		r->stats.round_ms = (uint64_t)mono_sub(now, r->heard).ns / 1000000;
	if (r->whole) {
		r->stats.whole++;
		r->whole_at = now;
		log_info("acl", "replication from datacenter %s: all of its policies, roles and tokens are here",
		    r->conf.primary);
	} else if (r->error[0] != '\0') {
		log_info("acl", "replication from datacenter %s goes on", r->conf.primary);
	}
	r->stats.rounds++;
	r->reached = r->target;
	r->succeeded = now;
	r->whole = false;
	r->error[0] = '\0';
	r->again = 0;
	r->away = false;
	pause_for(r, ROUND_PAUSE_S, STEP_WAIT);
}

static void
position_read(struct acl_replicator *r, const struct op_reply *reply UNUSED)
{
	r->reached = r->diff.Position;
	r->index = 0;
	run_step(r, STEP_WAIT);
}

static void
counted(struct acl_replicator *r, const struct op_reply *reply UNUSED)
{
	r->gap[r->kind] = (int64_t)(r->there - r->diff.Count);
	next_kind(r);
}

static void
told(struct acl_replicator *r, const struct op_reply *reply UNUSED)
{
	r->told = clock_mono();
	rest(r, r->again);
}

/* What becomes of the reply to each step's question. */
#define KEPT(name_) &acl_repl_##name_##_schema, offsetof(struct acl_replicator, name_##_kept), \
	offsetof(struct acl_replicator, name_)
static const struct step_reply {
	const char *what;		/* was asked, for errors */
	void (*take)(struct acl_replicator *r, const struct op_reply *reply);
	const struct schema *schema;	/* of the reply, which is kept; NULL: it has no value */
	size_t kept, rec;		/* where */
} replies[] = {
	[STEP_BEGIN] = { "reading how far it has come", position_read, KEPT(diff) },
	[STEP_WAIT] = { "waiting for changes", waited, KEPT(page) },
	[STEP_LIST] = { "listing", listed, KEPT(page) },
	[STEP_DIFF] = { "comparing", compared, KEPT(diff) },
	[STEP_FETCH] = { "fetching", fetched, KEPT(records) },
	[STEP_APPLY] = { .what = "writing", .take = applied },
	[STEP_COUNT] = { "counting", counted, KEPT(diff) },
	[STEP_REACH] = { .what = "writing how far it has come", .take = reached },
	[STEP_TELL] = { .what = "", .take = told },
};

static void
on_error(struct acl_replicator *r, const struct op_reply *reply)
{
	if (r->step == STEP_BEGIN && reply->err == TV_EPERM && !r->first) {
		r->first = true;
		run_step(r, STEP_BEGIN);
	} else if (r->step == STEP_TELL) {
		rest(r, r->again);
	} else if (r->step == STEP_BEGIN && (reply->err == TV_EDISABLED || reply->err == TV_ENOLEADER)) {
		pause_for(r, AGAIN_S / 4, STEP_BEGIN);	/* access control has not begun here yet */
	} else {
		failed(r, replies[r->step].what, reply->err, reply->text);
	}
}

static void
on_reply(void *ctx, const struct op_reply *reply)
{
	struct acl_replicator *r = ctx;
	const struct step_reply *row = &replies[r->step];

	r->call = NULL;
	if (reply->err != TV_OK) {
		on_error(r, reply);
		return;
	}
	if (row->schema != NULL &&
	    !keep_reply((void *)((char *)r + row->kept), reply, row->schema, (char *)r + row->rec))
		failed(r, row->what, TV_EFORMAT, SPAN_NONE);
	else
		row->take(r, reply);
}

/* -- whether at all -- */

static void
stop_round(struct acl_replicator *r)
{
	if (r->call != NULL)
		route_cancel(r->call);
	r->call = NULL;
	r->step = STEP_OFF;
	r->again = 0;
	r->error[0] = '\0';
	kept_wipe(&r->page_kept);
	kept_wipe(&r->diff_kept);
	kept_wipe(&r->records_kept);
	buf_reset(&r->args);
}

void
acl_replicator_wake(struct acl_replicator *r)
{
	const struct raftd_client_status *st;
	bool leads;

	if (r == NULL)
		return;
	st = raftd_client_status(r->conf.raft);
	leads = st->up && st->role == RAFT_LEADER;
	if (r->step != STEP_OFF && !(leads && r->conf.token(r->conf.ctx).len > 0)) {
		stop_round(r);
		r->timer.repeat = LOOK_S;
		ev_timer_again(r->conf.loop, &r->timer);
	} else if (r->step == STEP_OFF && leads && r->conf.token(r->conf.ctx).len > 0) {
		r->first = false;
		r->whole = true;
		r->away = false;
		pause_for(r, ROUND_PAUSE_S, STEP_BEGIN);
	} else if (r->step == STEP_PAUSE && r->next == STEP_BEGIN && r->again > 0) {
		look_for_primary(r);
	}
}

/* Any server may be the next leader. */
static void
look_for_token(struct acl_replicator *r)
{
	struct mono now = clock_mono();

	if (r->conf.token(r->conf.ctx).len > 0 ||
	    (r->warned.ns != 0 && mono_before(now, mono_add(r->warned, WARN_TIME))))
		return;
	r->warned = now;
	log_warn("acl", NO_TOKEN ": with it the server that leads copies policies, roles and tokens of datacenter %s; "
	    "without it its tokens are not known here", r->conf.primary);
}

const char *
acl_replicator_trouble(const struct acl_replicator *r)
{
	if (r == NULL)
		return "";
	return r->conf.token(r->conf.ctx).len > 0 ? r->error : NO_TOKEN;
}

static void
on_timer(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct acl_replicator *r = w->data;

	look_for_token(r);
	if (r->step == STEP_PAUSE) {
		ev_timer_stop(loop, w);
		if (r->next == STEP_BEGIN)
			r->first = false;
		if (r->next == STEP_APPLY)
			batch_next(r);
		else
			run_step(r, r->next);
	} else {
		acl_replicator_wake(r);
	}
}

static void
kept_init(struct reply_kept *k)
{
	k->bytes = BUF_INIT(REPLY_BYTES_MAX);
	k->bytes.secret = true;
	k->a = ARENA_INIT(REPLY_BYTES_MAX);
}

struct acl_replicator *
acl_replicator_new(const struct acl_replicator_conf *conf)
{
	struct acl_replicator *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->conf = *conf;
	rng_seed(&r->rng, conf->seed);
	r->args = BUF_INIT(ARGS_BYTES_MAX);
	r->args.secret = true;
	kept_init(&r->page_kept);
	kept_init(&r->diff_kept);
	kept_init(&r->records_kept);
	ev_timer_init(&r->timer, on_timer, LOOK_S, LOOK_S);
	r->timer.data = r;
	ev_timer_start(conf->loop, &r->timer);
	return r;
}

static void
kept_done(struct reply_kept *k)
{
	arena_wipe(&k->a);
	arena_done(&k->a);
	buf_done(&k->bytes);
}

void
acl_replicator_free(struct acl_replicator *r)
{
	if (r == NULL)
		return;
	stop_round(r);
	ev_timer_stop(r->conf.loop, &r->timer);
	kept_done(&r->page_kept);
	kept_done(&r->diff_kept);
	kept_done(&r->records_kept);
	buf_done(&r->args);
	free(r);
}

static uint64_t
highest(const struct acl_repl_position *p)
{
	uint64_t most = p->Policies > p->Roles ? p->Policies : p->Roles;

	return most > p->Tokens ? most : p->Tokens;
}

void
acl_replicator_stats(const struct acl_replicator *r, struct acl_replicator_stats *out)
{
	*out = (struct acl_replicator_stats){ .running = false };
	if (r == NULL)
		return;
	*out = r->stats;
	out->running = r->step != STEP_OFF;
	if (out->running && highest(&r->target) > highest(&r->reached))
		out->behind = highest(&r->target) - highest(&r->reached);
	if (r->succeeded.ns != 0)
		out->age_s = (uint64_t)mono_sub(clock_mono(), r->succeeded).ns / 1000000000;
}
