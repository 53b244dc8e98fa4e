/* See sim_ops.h. */
#include <stdio.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/record/ops.h"
#include "common/record/records.h"
#include "raftd/fsm/fsm.h"
#include "tests/sim/sim_ops.h"

#define KEYS (seed % 8 == 0 ? 600 : 40)		/* many: a snapshot of them takes several steps */
#define NODES 6
#define SESSIONS 8
#define SECOND_NS 1000000000ll
#define ARGS_BYTES_MAX 65536

struct making {
	struct rng g;
	uint64_t number;
	int64_t now;
	char key[24], node[16], session[40], value[2048];
	struct buf args;
	uint16_t op;
};

static void
finish(struct making *m, uint16_t op, const struct schema *s, const void *rec)
{
	m->op = op;
	schema_pack(s, rec, &m->args);
}

static void
make_kv(struct making *m)
{
	static const uint64_t verbs[] = { KV_SET, KV_SET, KV_SET, KV_SET, KV_CAS, KV_LOCK, KV_LOCK, KV_UNLOCK, KV_DELETE,
	    KV_DELETE_CAS, KV_DELETE_TREE };
	uint64_t size = rng_below(&m->g, 12) == 0 ? rng_below(&m->g, sizeof(m->value) - 32) : rng_below(&m->g, 60);
	struct kv_apply kv = { .Verb = verbs[rng_below(&m->g, 11)], .Key = span_str(m->key), .Now = m->now };

	if (kv.Verb == KV_DELETE_TREE && rng_below(&m->g, 3) > 0)
		kv.Verb = KV_SET;
	if (kv.Verb == KV_DELETE_TREE)
		kv.Key.len -= 1;
	snprintf(m->value, sizeof(m->value), "%llu%*s", (unsigned long long)m->number, (int)size, "");
	if (kv.Verb == KV_SET || kv.Verb == KV_CAS || kv.Verb == KV_LOCK)
		kv.Value = span_str(m->value);
	if (kv.Verb == KV_CAS || kv.Verb == KV_DELETE_CAS)
		kv.ModifyIndex = m->number - rng_below(&m->g, 30);
	if (kv.Verb == KV_LOCK || kv.Verb == KV_UNLOCK)
		kv.Session = span_str(m->session);
	finish(m, OP_KV_APPLY, &kv_apply_schema, &kv);
}

/* Up to four operations on keys and nodes; one in three asks for a key that is seldom there, and undoes the rest. */
static void
make_txn(struct making *m)
{
	static const char *const verbs[] = { "set", "set", "set", "cas", "lock", "unlock", "delete", "delete-tree", "get" };
	struct txn_op ops[4] = { { .has_kv = false } };
	struct txn t = { .Ops = { ops, 1 + (uint32_t)rng_below(&m->g, 4), true }, .Now = m->now, .TreeKeys = TXN_TREE_KEYS_MAX,
	    .TreeBytes = TXN_TREE_BYTES_MAX, .AnswerBytes = TXN_ANSWER_BYTES_MAX };
	char keys[4][24];

	snprintf(m->value, sizeof(m->value), "%llu", (unsigned long long)m->number);
	for (uint32_t i = 0; i < t.Ops.n; i++) {
		const char *verb = verbs[rng_below(&m->g, i > 0 && rng_below(&m->g, 3) == 0 ? 9 : 8)];

		snprintf(keys[i], sizeof(keys[i]), "k/%u", (unsigned)rng_below(&m->g, 50));
		ops[i].has_kv = true;
		ops[i].KV = (struct txn_kv){ .Verb = span_str(verb), .Key = span_str(keys[i]), .Value = span_str(m->value),
		    .Session = span_str(m->session) };
		if (rng_below(&m->g, 6) > 0)
			continue;
		ops[i] = (struct txn_op){ .has_node = true };
		ops[i].Node.Verb = span_str(rng_below(&m->g, 3) > 0 ? "set" : "delete");
		ops[i].Node.Node.Node = span_str(m->node);
		ops[i].Node.Node.Address = span_str(keys[i]);
	}
	finish(m, OP_TXN_APPLY, &txn_schema, &t);
}

static void
make_register(struct making *m)
{
	struct catalog_register q = { .Node = span_str(m->node), .Address = span_str("10.0.0.1"), .Now = m->now };

	if (rng_below(&m->g, 2) == 0) {
		q.has_service = true;
		q.Service.ID = q.Service.Service = span_str(m->key);
	}
	if (rng_below(&m->g, 2) == 0) {
		q.has_check = true;
		q.Check.Node = q.Node;
		q.Check.CheckID = q.Check.Name = span_str("c");
		q.Check.Status = span_str(rng_below(&m->g, 3) > 0 ? "passing" : "critical");
	}
	finish(m, OP_CATALOG_REGISTER, &catalog_register_schema, &q);
}

static void
make_deregister(struct making *m)
{
	struct catalog_deregister q = { .Node = span_str(m->node), .Now = m->now };

	if (rng_below(&m->g, 3) > 0)
		q.ServiceID = span_str(m->key);
	finish(m, OP_CATALOG_DEREGISTER, &catalog_deregister_schema, &q);
}

static void
make_session(struct making *m)
{
	struct session s = { .ID = span_str(m->session), .Node = span_str(m->node), .NodeChecks = { .set = true },
	    .Behavior = span_str(rng_below(&m->g, 2) == 0 ? "release" : "delete") };

	s.LockDelay = (int64_t)rng_below(&m->g, 3) * SECOND_NS;
	finish(m, OP_SESSION_CREATE, &session_schema, &s);
}

static void
make_destroy(struct making *m)
{
	struct session_destroy q = { .ID = span_str(m->session), .Now = m->now };

	finish(m, OP_SESSION_DESTROY, &session_destroy_schema, &q);
}

static void
make_reap(struct making *m)
{
	struct session_destroy q = { .Now = m->now };

	finish(m, OP_TOMBSTONE_REAP, &session_destroy_schema, &q);
}

void
sim_op_payload(uint64_t seed, uint64_t number, struct buf *out)
{
	struct making m = { .number = number, .now = (int64_t)number * 10 * SECOND_NS, .args = BUF_INIT(ARGS_BYTES_MAX) };
	uint64_t kind;

	rng_seed(&m.g, seed * 0x9e3779b97f4a7c15u + number);
	snprintf(m.key, sizeof(m.key), "k/%u", (unsigned)rng_below(&m.g, KEYS));
	snprintf(m.node, sizeof(m.node), "n%u", (unsigned)rng_below(&m.g, NODES));
	snprintf(m.session, sizeof(m.session), "00000000-0000-4000-8000-%012x", (unsigned)rng_below(&m.g, SESSIONS));
	kind = rng_below(&m.g, 20);
	if (kind < 10)
		make_kv(&m);
	else if (kind < 12)
		make_txn(&m);
	else if (kind < 15)
		make_register(&m);
	else if (kind < 17)
		make_session(&m);
	else if (kind == 17)
		make_destroy(&m);
	else if (kind == 18)
		make_deregister(&m);
	else
		make_reap(&m);
	fsm_entry_write(out, m.op, buf_span(&m.args));
	buf_done(&m.args);
}
