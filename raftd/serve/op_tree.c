/*
 * Deleting a tree of keys: in parts, an entry for each.
 *
 * An entry is applied in one go, and while it is, a server looks at nothing else.  A million keys take seconds, after which
 * nobody has heard a leader.  So one entry deletes only so much; its answer says where the next one goes on, and it leaves
 * alone what was written after the first.  Every server finds the same keys: what an entry does depends on it and the state.
 */
#include <stdio.h>

#include "common/record/mpack.h"
#include "common/record/records.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/peers/identity.h"
#include "raftd/peers/links.h"
#include "raftd/serve/op.h"

#define PART_WORK (256u << 10)		/* some 600 small keys, about 10 ms: little beside a heartbeat_interval */
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

	return q->op->code == OP_KV_APPLY && mpr_array(&r) > 0 && mpr_uint(&r, UINT64_MAX) == KV_DELETE_TREE &&
	    r.err == TV_OK;
}

static bool
read_part(struct span args, struct kv_apply *out)
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
	bool begun = read_part(q->args, &part) && part.ModifyIndex != 0;

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

bool
op_tree(struct request *q, struct span args)
{
	struct kv_apply ask;

	if (!is_tree(q, args) || !all_know_parts(q->d) || !read_part(args, &ask) || !keep_part(q, ask.Key, SPAN_NONE, 0))
		return false;
	propose(q, false);
	return true;
}
