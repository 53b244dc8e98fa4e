/*
 * Authorizes requests that are no reads of the state: those are judged where they are read (fsm_read_as()).
 *
 * Mostly it is decided at once, from rights that are in memory.  A thread looks at the state for rights that are not, and for
 * operations whose object is only known there.  Before either a leader has applied all that earlier ones have acknowledged: until
 * then neither "access control does not hold" nor a right is known for sure.
 *
 * What a thread saw there goes with the write into the log (premises).  If others that came before it changed that, the write is not
 * applied, and is judged again here.
 */
#include <stdio.h>

#include "common/base/clock.h"
#include "common/net/msg.h"
#include "common/record/records.h"
#include "raftd/engine/engine.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/leader.h"
#include "raftd/serve/op.h"

/* How did this restore end?  Its id was given to who began it, whose token the state that it brings may not know. */
static bool
asks_of_its_restore(const struct op *op, struct span args)
{
	struct arena none = ARENA_INIT(0);
	struct rd in = rd_span_over(args);
	struct snapshot_ask ask;

	return op->code == OP_RESTORE_STATUS && schema_unpack(&snapshot_ask_schema, &in, &none, &ask) == TV_OK && ask.ID.len > 0;
}

/* Any request; rows of transactions say NONE because each of their operations is judged. */
static bool
needs_none(const struct op *op, struct span args)
{
	return (op->access.scope == OP_NONE && op->code != OP_TXN_APPLY) || asks_of_its_restore(op, args);
}

#define JUDGED_MAX 16			/* times that one write is judged again */

static void
refuse(struct request *q, enum tv_err err, struct span text)
{
	if (err == TV_EPERM)
		request_denied(q);
	request_fail(q, err, text);
}

void
op_warn_once(struct raftd *d)
{
	if (d->acl_told || d->cluster.acl_enabled)
		return;
	d->acl_told = true;
	log_warn("raftd", "access control holds in this cluster since index %llu, though cluster.conf says nothing of it: "
	    "set acl.enabled, and acl.default_policy as on the other servers", (unsigned long long)fsm_acl_since(d->fsm));
}

static void judge_request(struct request *q, struct span args, struct span token);

static void
on_judged(struct state_read *r, void *ctx)
{
	struct request *q = ctx;
	enum tv_err err = r->answer.err;

	q->rights = r->rights;
	r->rights = NULL;
	if (r->replaced != fsm_replaced(q->d->fsm) || (err == TV_OK && q->rights == NULL && fsm_acl_since(q->d->fsm) != 0)) {
		request_drop_lookup(q);		/* the state was replaced meanwhile, or access control has begun */
		fsm_rights_free(q->rights);
		q->rights = NULL;
		judge_request(q, q->args, q->token);
	} else if (err != TV_OK) {
		refuse(q, err, r->answer.text);
	} else if (r->answer.refused) {
		request_denied(q);
		request_reply(q, r->answer.index, r->value);
	} else {
		struct statethread *state = q->d->state;

		q->lookup = NULL;
		op_permitted(q, q->args, r->value);	/* q may be gone then */
		statethread_drop(state, r);
	}
}

void
op_judge_again(struct request *q)
{
	if (q->judged >= JUDGED_MAX || q->asker == NULL) {
		request_judged_again(q, false);
		request_failf(q, TV_EAGAIN, "what the right to this write depends on changes all the time; try again");
		return;
	}
	q->judged++;
	request_judged_again(q, true);
	q->writing = false;
	q->write = (struct proposal){ .done = NULL };
	q->read = (struct read_wait){ .done = NULL };
	fsm_rights_free(q->rights);
	q->rights = NULL;
	op_judge(q, q->args, q->token);
}

static void
on_informed(struct read_wait *w, enum tv_err err)
{
	struct request *q = (struct request *)((char *)w - offsetof(struct request, read));

	if (err == TV_OK && (!engine_is_leader(q->d->engine) || engine_status(q->d->engine)->informed))
		judge_request(q, q->args, q->token);
	else
		op_not_leader(q);
}

/* It goes on later.  False: it has failed. */
static bool
keep_args(struct request *q, struct span args, struct span token)
{
	if (args.p == q->args.p || request_keep(q, args, token))
		return true;
	request_failf(q, TV_ENOMEM, "out of memory");
	return false;
}

/* In a thread. */
static void
judge_in_state(struct request *q, struct span args, struct span token)
{
	if (!keep_args(q, args, token))
		return;
	q->lookup = statethread_judge(q->d->state, q->op, q->args, q->token, on_judged, q);
	if (q->lookup == NULL)
		request_failf(q, TV_ENOMEM, "raftd is out of memory");
}

/* TV_OK; TV_EPERM, maybe with a reply; TV_EAGAIN: the state has to be looked at. */
static enum tv_err
judge_now(struct request *q, struct span args, struct span token, struct buf *reply, const char **why)
{
	enum tv_err err = fsm_rights_known(q->d->fsm, token, clock_wall_ns(), &q->rights);

	if (err == TV_OK && q->rights != NULL)
		err = fsm_may(NULL, q->op, args, q->rights, reply, NULL, why);
	if (err == TV_EAGAIN) {
		fsm_rights_free(q->rights);
		q->rights = NULL;
	}
	return err;
}

static void
judge_request(struct request *q, struct span args, struct span token)
{
	struct buf reply = BUF_INIT(1u << 20);
	const char *why = "";
	enum tv_err err;

	if (fsm_acl_since(q->d->fsm) != 0) {
		op_warn_once(q->d);
	} else if (leader_enables_acl(q->d->leader)) {
		op_not_leader(q);		/* in a moment it holds */
		return;
	}
	err = judge_now(q, args, token, &reply, &why);
	if (err == TV_OK) {
		op_permitted(q, args, SPAN_NONE);
	} else if (err == TV_EAGAIN) {
		judge_in_state(q, args, token);
	} else if (reply.len > 0) {
		request_denied(q);
		request_reply(q, 1, buf_span(&reply));
	} else {
		refuse(q, err, span_str(why));
	}
	buf_done(&reply);
}

void
op_judge(struct request *q, struct span args, struct span token)
{
	struct raftd *d = q->d;

	if (needs_none(q->op, args)) {
		op_permitted(q, args, SPAN_NONE);
	} else if (engine_opening(d->engine)) {
		if (d->cluster.acl_enabled)
			op_not_leader(q);	/* it is unknown here who may what */
		else
			op_permitted(q, args, SPAN_NONE);
	} else if (engine_is_leader(d->engine) && !engine_status(d->engine)->informed) {
		if (keep_args(q, args, token)) {
			q->read.done = on_informed;
			engine_read(d->engine, &q->read);
		}
	} else {
		judge_request(q, args, token);
	}
}

/* -- a recovery and a leave, which are no operations -- */

#define RECOVERY_NEEDS "Permission denied: a recovery needs operator:write, and a look at it operator:read"
#define LEAVE_NEEDS "Permission denied: Missing agent:write on %s; without a token, root leaves by clusterctl leave"

/* What the right to leave is as if it were an operation: to this node's own work. */
static const struct op leave_op = {
	.name = "leave", .args = &catalog_read_schema,
	.access = { OP_OBJECT, OP_RES_AGENT, OP_MAY_WRITE, offsetof(struct catalog_read, Name), NULL },
};

/* Whose right is the same: to look at the servers, and to remove one. */
static const struct op *
recovery_as(bool dry_run)
{
	return op_find(dry_run ? OP_AUTOPILOT_HEALTH : OP_RAFT_REMOVE);
}

static void
refuse_plain(struct request *q, enum tv_err err, const char *text)
{
	struct span none = SPAN_NONE;

	if (err == TV_EPERM)
		request_denied(q);
	request_plain(q, err, text, q->type == MSG_RAFT_RECOVER ? &none : NULL);
}

/* Judges by the state as it is here.  args: a record of op; borrowed, as is token.  False: it has failed. */
static bool
look_plain(struct request *q, const struct op *op, const void *rec, struct span token, state_read_done *done)
{
	struct buf args = BUF_INIT(1024);

	schema_pack(op->args, rec, &args);
	if (!args.failed)
		q->lookup = statethread_judge(q->d->state, op, buf_span(&args), token, done, q);
	buf_done(&args);
	if (q->lookup == NULL)
		refuse_plain(q, TV_ENOMEM, "raftd is out of memory");
	return q->lookup != NULL;
}

static void
recovery_judged(struct state_read *r, void *ctx)
{
	struct request *q = ctx;
	op_plain_fn *go_on = q->go_on;

	if (r->answer.err == TV_OK) {
		request_drop_lookup(q);
		go_on(q, q->how);
	} else {
		refuse_plain(q, r->answer.err, RECOVERY_NEEDS);
	}
}

bool
op_may_recover(struct request *q, bool dry_run, struct span token, op_plain_fn *go_on)
{
	const struct op *op = recovery_as(dry_run);
	struct raft_peer nobody = { .ID = SPAN_NONE };
	struct empty_rec empty = { 0 };

	if (q->d->fsm == NULL && q->d->cluster.acl_enabled) {
		refuse_plain(q, TV_EAGAIN, "the state is being opened: until then nobody's rights are known");
		return false;
	}
	if (q->d->fsm == NULL || fsm_acl_since(q->d->fsm) == 0)
		return true;
	q->go_on = go_on;
	q->how = dry_run;
	(void)look_plain(q, op, op->args == &raft_peer_schema ? (const void *)&nobody : &empty, token, recovery_judged);
	return false;
}

static bool judge_leave(struct request *q);

static void
leave_judged(struct state_read *r, void *ctx)
{
	struct request *q = ctx;
	op_plain_fn *go_on = q->go_on;
	char text[sizeof(LEAVE_NEEDS) + 256];
	bool again = r->replaced != fsm_replaced(q->d->fsm) ||
	    (r->answer.err == TV_OK && r->rights == NULL && fsm_acl_since(q->d->fsm) != 0);

	if (again || r->answer.err == TV_OK) {
		request_drop_lookup(q);
		if (!again || judge_leave(q))
			go_on(q, q->how);
		return;
	}
	if (r->answer.err == TV_EPERM && span_eqs(r->answer.text, "Permission denied"))
		snprintf(text, sizeof(text), LEAVE_NEEDS, q->d->cluster.node_name);
	else
		(void)span_copy(r->answer.text, text, sizeof(text));
	refuse_plain(q, r->answer.err, text);
}

/* With the token that was kept.  True: it may go on now. */
static bool
judge_leave(struct request *q)
{
	struct catalog_read here = { .Name = span_str(q->d->cluster.node_name) };

	if (fsm_acl_since(q->d->fsm) == 0)
		return true;
	(void)look_plain(q, &leave_op, &here, q->token, leave_judged);
	return false;
}

/* Without a leader the state as it is here has to do: no server knows a newer one. */
static void
leave_read(struct read_wait *w, enum tv_err err UNUSED)
{
	struct request *q = (struct request *)((char *)w - offsetof(struct request, read));

	if (judge_leave(q))
		q->go_on(q, q->how);
}

bool
op_may_leave(struct request *q, bool force, struct span token, uid_t uid, op_plain_fn *go_on)
{
	struct raftd *d = q->d;

	/* Root on raftd.sock is no client of rpcd. */
	if (d->left || (uid == 0 && token.len == 0))
		return true;
	if (d->fsm == NULL && !d->cluster.acl_enabled)
		return true;
	if (d->fsm == NULL) {
		refuse_plain(q, TV_EAGAIN, "the state is being opened: until then nobody's rights are known");
	} else if (token.len > OP_NAME_BYTES_MAX) {
		refuse_plain(q, TV_EPERM, "ACL not found");
	} else if (!request_keep(q, span_str(""), token)) {
		refuse_plain(q, TV_ENOMEM, "raftd is out of memory");
	} else {
		q->go_on = go_on;
		q->how = force;
		if (engine_status(d->engine)->leader == 0)
			return judge_leave(q);
		q->read.done = leave_read;
		engine_read(d->engine, &q->read);
	}
	return false;
}
