/*
 * Deleting a tree of keys: in one entry, or in parts.
 *
 * One entry is atomic, and deletes up to KV_TREE_KEYS_MAX keys: while it is applied nothing else is.  Parts have no bound.
 * Each deletes only so much, and others write between them; its answer says where the next one goes on, and it leaves alone
 * what was written after the first.  Every server finds the same keys: what an entry does depends on it and the state.
 *
 * While a server does not know the one entry, trees go in parts unasked; while one does not know parts, in an entry without
 * a bound.
 */
#include <stdio.h>

#include "common/record/mpack.h"
#include "common/record/records.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/peers/identity.h"
#include "raftd/peers/links.h"
#include "raftd/serve/op.h"

#define PART_WORK (256u << 10)		/* some 600 small keys, about 10 ms: no write waits for long */
#define PART_BYTES_MAX (64u << 10)	/* of the arguments: two keys */

/* Would all servers apply parts?  One of an earlier version passed over them, and had another state afterwards. */
static bool
all_know_parts(struct raftd *d)
{
	const struct raft_config *c = engine_config(d->engine);

	for (unsigned i = 0; i < c->count; i++) {
		const struct peer *p = links_find_id(d->links, c->servers[i].id);

		if (c->servers[i].id != d->id.self &&
		    (p == NULL || p->hello.uuid[0] == '\0' || !(p->hello.features & RAFT_FEATURE_TREE_PARTS)))
			return false;
	}
	return true;
}

static bool
is_tree(const struct request *q, struct span args)
{
	struct rd r = rd_span_over(args);
	uint64_t verb = q->op->code == OP_KV_APPLY && mpr_array(&r) > 0 ? mpr_uint(&r, UINT64_MAX) : KV_SET;

	return r.err == TV_OK && (verb == KV_DELETE_TREE || verb == KV_DELETE_TREE_PARTS);
}

static bool
read_args(struct span args, struct kv_apply *out)
{
	struct arena none = ARENA_INIT(0);
	struct rd r = rd_span_over(args);

	*out = (struct kv_apply){ .Verb = KV_SET };
	return schema_unpack(&kv_apply_schema, &r, &none, out) == TV_OK && rd_end(&r) == TV_OK;
}

/* The next part becomes the request's arguments; the spans may be of those that it has. */
static bool
keep_part(struct request *q, struct span prefix, struct span next, uint64_t newest)
{
	struct kv_apply part = { .Verb = KV_DELETE_PART, .Key = prefix, .Value = next, .ModifyIndex = newest,
	    .Flags = PART_WORK };
	struct buf b = BUF_INIT(PART_BYTES_MAX);
	bool kept;

	schema_pack(&kv_apply_schema, &part, &b);
	kept = !b.failed && request_keep(q, buf_span(&b), q->token);
	buf_done(&b);
	return kept;
}

/* begun: an earlier part was applied. */
static void
failed(struct request *q, enum tv_err err, struct span text, bool begun)
{
	char why[512];

	if (text.len == 0)
		text = span_str(tv_strerror(err));
	if (!begun) {
		op_write_failed(q, err, text);
		return;
	}
	snprintf(why, sizeof(why), "the tree was deleted in part (%.*s); delete it again",
	    (int)(text.len < 384 ? text.len : 384), (const char *)text.p);
	request_failf(q, TV_EUNKNOWN, why);
}

static void on_part(struct proposal *p, enum tv_err err, const struct fsm_result *result);

static void
propose(struct request *q, bool begun)
{
	struct span text;
	enum tv_err err;

	q->write.done = on_part;
	err = propose_args(q->d, &q->write, OP_KV_APPLY, q->args, request_arena(q), &text);
	if (err != TV_OK)
		failed(q, err, text, begun);
}

static void
on_part(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	static const uint8_t yes[] = { 0x91, 0xc3 };	/* bool_reply */
	struct request *q = (struct request *)((char *)p - offsetof(struct request, write));
	struct arena none = ARENA_INIT(0);
	struct kv_part answer = { .Next = SPAN_NONE };
	struct kv_apply part;
	struct rd r;
	bool begun = read_args(q->args, &part) && part.ModifyIndex != 0;

	if (err != TV_OK || result->err != TV_OK) {
		failed(q, err != TV_OK ? err : result->err, err != TV_OK ? SPAN_NONE : result->text, begun);
		return;
	}
	r = rd_span_over(result->value);
	if (schema_unpack(&kv_part_schema, &r, &none, &answer) != TV_OK)
		failed(q, TV_ENOMEM, SPAN_NONE, true);
	else if (answer.Next.len == 0)
		request_reply(q, p->index, span_of(yes, sizeof(yes)));
	else if (!keep_part(q, part.Key, answer.Next, answer.Newest))
		failed(q, TV_ENOMEM, SPAN_NONE, true);
	else
		propose(q, true);
}

/* In one entry; the spans of ask are of the asker.  bounded: all servers know OP_KV_TREE. */
static void
propose_whole(struct request *q, const struct kv_apply *ask, bool bounded, proposal_done *done)
{
	struct kv_tree tree = { .Key = ask->Key, .Keys = KV_TREE_KEYS_MAX, .Bytes = KV_TREE_BYTES_MAX };
	struct kv_apply all = { .Verb = KV_DELETE_TREE, .Key = ask->Key };
	struct buf args = BUF_INIT(PART_BYTES_MAX);
	struct span text = SPAN_NONE;
	enum tv_err err = TV_ELIMIT;

	if (bounded)
		schema_pack(&kv_tree_schema, &tree, &args);
	else
		schema_pack(&kv_apply_schema, &all, &args);
	q->write.done = done;
	if (!args.failed)
		err = propose_args(q->d, &q->write, bounded ? OP_KV_TREE : OP_KV_APPLY, buf_span(&args),
		    request_arena(q), &text);
	if (err != TV_OK)
		op_write_failed(q, err, text);
	buf_done(&args);
}

bool
op_tree(struct request *q, struct span args, proposal_done *done)
{
	struct kv_apply ask;
	char why[512];
	bool bounded;

	if (!is_tree(q, args) || !read_args(args, &ask) || ask.Key.len > PART_BYTES_MAX / 4)
		return false;			/* whatever is wrong is found as in other writes */
	bounded = ask.Verb == KV_DELETE_TREE &&
	    engine_all_apply(q->d->engine, OP_KV_TREE, SPAN_NONE, false, why, sizeof(why));
	if (bounded || !all_know_parts(q->d))
		propose_whole(q, &ask, bounded, done);
	else if (keep_part(q, ask.Key, SPAN_NONE, 0))
		propose(q, false);
	else
		op_write_failed(q, TV_ENOMEM, SPAN_NONE);
	return true;
}
