/*
 * See op_login.h.  A login is judged by the leader's state as it is confirmed now (a ReadIndex round), in a thread, since keys and
 * patterns take their time: the method and its rules, then the bearer token against them.  The token that comes of it is proposed,
 * and the entry checks that its method is still that one.
 *
 * Where the method's keys are elsewhere, a look ends with what it lacks (struct login_need), and there is another one when that has
 * come: without keys yet, with those that are known, with newer ones.
 *
 * Whatever the asker sent of that token is dropped: rpcd has no say in this.
 */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/text/json_text.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/login/login.h"
#include "raftd/login/serve/key_fetch.h"
#include "raftd/login/serve/op_login.h"
#include "raftd/serve/op.h"

#define ARGS_BYTES_MAX (1u << 20)	/* of a login's arguments; the bearer token is shorter by far */
#define LOOKS_MAX 4u			/* at one login: a method may change meanwhile */

struct login {
	struct request *q;
	struct read_wait wait;
	struct buf args;		/* as they came */
	struct arena a;			/* what was made of them */
	struct key_set *keys;		/* to judge by; or NULL */
	struct login_need need;		/* what the look lacked, if anything; in the arena */
	struct key_wait keys_wait;
	unsigned looks;
	struct acl_login made;
	char accessor[37];		/* of a logout */
	enum tv_err err;
	struct buf why;
};

static void
login_free(struct login *l)
{
	key_set_unref(l->keys);
	buf_done(&l->args);
	buf_done(&l->why);
	arena_wipe(&l->a);
	arena_done(&l->a);
	free(l);
}

/* Ends it with a refusal. */
static void
refuse(struct login *l, enum tv_err err, struct span text)
{
	struct request *q = l->q;

	if (err == TV_ENOTLEADER)
		op_not_leader(q);
	else if (err == TV_EPERM || err == TV_EINVAL || err == TV_EDISABLED)
		request_fail(q, err, text);
	else
		op_write_failed(q, err, text);
	login_free(l);
}

/* -- in a thread -- */

static enum tv_err
role_of(void *ctx, struct span name, char id[37])
{
	return fsm_acl_role_id(ctx, name, id);
}

static enum tv_err
unpack(struct login *l, const struct schema *s, void *rec)
{
	struct rd in = rd_span_over(buf_span(&l->args));
	enum tv_err err = schema_unpack(s, &in, &l->a, rec);

	if (err == TV_OK)
		err = rd_end(&in);
	if (err == TV_OK || err == TV_ENOMEM)
		return err;
	buf_puts(&l->why, "malformed arguments");
	return TV_EINVAL;
}

static enum tv_err
judge_login(struct fsm *reader, struct login *l)
{
	struct acl_login ask = { .AuthMethod = SPAN_NONE };
	struct login_ask how = { .datacenter = l->q->d->cluster.datacenter, .now = clock_wall_ns(), .keys = l->keys,
	    .role = role_of, .ctx = reader };
	struct fsm_login_view view;
	enum tv_err err = unpack(l, &acl_login_schema, &ask);

	if (err != TV_OK)
		return err;
	err = fsm_acl_login_method(reader, ask.AuthMethod, &l->a, &view);
	if (err == TV_ENOENT) {
		buf_puts(&l->why, "ACL not found: auth method ");
		text_quote(span_of(ask.AuthMethod.p, ask.AuthMethod.len > 256 ? 256 : ask.AuthMethod.len), &l->why);
		buf_puts(&l->why, " not found");
		return TV_EPERM;
	}
	if (err != TV_OK)
		return err;
	how.bearer = ask.BearerToken;
	how.meta = ask.Meta;
	return login_decide(&how, &view, &l->a, &l->made, &l->need, &l->why);
}

static enum tv_err
judge_logout(struct fsm *reader, struct login *l)
{
	struct acl_logout ask = { .SecretID = SPAN_NONE };
	enum tv_err err = unpack(l, &acl_logout_schema, &ask);

	if (err == TV_OK)
		err = fsm_acl_logout_look(reader, ask.SecretID, clock_wall_ns(), l->accessor);
	if (err != TV_ENOENT && err != TV_EPERM)
		return err;
	buf_puts(&l->why, err == TV_ENOENT ? "ACL not found" : "Permission denied");
	return TV_EPERM;
}

static void
judge_in_thread(struct fsm *reader, void *ctx)
{
	struct login *l = ctx;

	l->err = l->q->op->code == OP_ACL_LOGIN ? judge_login(reader, l) : judge_logout(reader, l);
	if (l->err == TV_EDISABLED)
		buf_puts(&l->why, "ACL support disabled");
}

/* -- on the loop -- */

static void on_judged(void *ctx);

/* The server stops: another one may be asked. */
static void
given_up(void *ctx)
{
	refuse(ctx, TV_ENOTLEADER, SPAN_NONE);
}

static void
look_at(struct login *l)
{
	enum tv_err err;

	arena_wipe(&l->a);
	arena_reset(&l->a);
	buf_reset(&l->why);
	l->need = (struct login_need){ .after = 0 };
	l->looks++;
	err = statethread_call_or(l->q->d->state, judge_in_thread, on_judged, given_up, l);
	if (err != TV_OK)
		refuse(l, err, SPAN_NONE);
}

static void
on_keys(struct key_wait *w, enum tv_err err, struct span text)
{
	struct login *l = (struct login *)((char *)w - offsetof(struct login, keys_wait));

	if (err == TV_OK) {
		key_set_unref(l->keys);
		l->keys = w->keys;
		look_at(l);
	} else if (err == TV_ENOENT) {
		refuse(l, TV_EINVAL, buf_span(&l->why));
	} else if (err == TV_EUNREACH) {
		buf_reset(&l->why);
		buf_printf(&l->why, "%sfetching keys %.*s", login_source_prefix(&l->need.source), (int)text.len, (const char *)text.p);
		refuse(l, TV_EINVAL, buf_span(&l->why));
	} else {
		refuse(l, err, text);
	}
}

/* Once in a while it is not decided by what is known yet. */
static bool
lacks_keys(const struct login *l)
{
	return l->err == TV_EAGAIN && l->need.source.url.len > 0 && l->looks < LOOKS_MAX;
}

static void
on_applied(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	struct request *q = (struct request *)((char *)p - offsetof(struct request, write));

	if (err != TV_OK)
		op_write_failed(q, err, SPAN_NONE);
	else if (result->err != TV_OK)
		request_fail(q, result->err, result->text);
	else
		request_reply(q, p->index, result->value);
}

static void
on_judged(void *ctx)
{
	struct login *l = ctx;
	struct request *q = l->q;
	struct acl_logout leaves = { .AccessorID = span_str(l->accessor) };
	struct buf args = BUF_INIT(ARGS_BYTES_MAX);
	struct span text = SPAN_NONE;
	enum tv_err err = l->err;

	if (lacks_keys(l)) {
		key_fetch_get(q->d->key_fetch, &l->need.source, l->need.after > 0 ? ISSUER_NEWER : ISSUER_ANY, l->need.after,
		    &l->keys_wait);
		return;
	}
	if (err != TV_OK) {
		refuse(l, err == TV_EAGAIN && l->why.len > 0 ? TV_EINVAL : err, buf_span(&l->why));
		return;
	}
	if (q->op->code == OP_ACL_LOGIN)
		schema_pack(&acl_login_schema, &l->made, &args);
	else
		schema_pack(&acl_logout_schema, &leaves, &args);
	q->write.done = on_applied;
	err = args.failed ? TV_ENOMEM : propose_args(q->d, &q->write, q->op->code, buf_span(&args), request_arena(q), &text);
	buf_done(&args);
	if (err != TV_OK)
		refuse(l, err, text);
	else
		login_free(l);
}

static void
on_confirmed(struct read_wait *w, enum tv_err err)
{
	struct login *l = (struct login *)((char *)w - offsetof(struct login, wait));

	if (err == TV_OK && !engine_is_leader(l->q->d->engine))
		err = TV_ENOTLEADER;
	if (err == TV_OK)
		look_at(l);
	else
		refuse(l, err, SPAN_NONE);
}

void
op_login(struct request *q, struct span args)
{
	struct login *l = calloc(1, sizeof(*l));

	if (l == NULL) {
		op_write_failed(q, TV_ENOMEM, SPAN_NONE);
		return;
	}
	l->q = q;
	l->args = BUF_INIT(ARGS_BYTES_MAX);
	l->args.secret = true;
	l->why = BUF_INIT(16u << 10);
	l->a = ARENA_INIT(FSM_RECORD_MEMORY);
	buf_putspan(&l->args, args);
	if (l->args.failed) {
		refuse(l, TV_EINVAL, span_str("Invalid Login request: it is too large"));
		return;
	}
	l->wait.done = on_confirmed;
	l->keys_wait.done = on_keys;
	engine_read(q->d->engine, &l->wait);
}
