/*
 * Rights hold at the moment of the write: writers with different rights, whose writes are judged in one order and applied in another.
 *
 * Whatever an entry changed is compared with what the token of its writer may write, by rules of the test's own: it looks at the records before
 * and after, and knows nothing of how writes are judged.  TV_RIGHTS_RUNS and TV_RIGHTS_SEED for long runs by hand.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/acl/set.h"
#include "common/base/rng.h"
#include "raftd/fsm/table/table.h"
#include "tests/unit/fsm_kit.h"

#define RUNS 3000			/* in make check */
#define RECORDS_MAX 256
#define PENDING_MAX 4
#define JUDGED_MAX 16

#define S(text) span_str(text)
#define ALL_BUT "node_prefix \"\" { policy = \"write\" } node \"db\" { policy = \"deny\" } " \
	"service_prefix \"\" { policy = \"write\" } service \"pay\" { policy = \"deny\" } " \
	"session_prefix \"\" { policy = \"write\" } session \"db\" { policy = \"deny\" } " \
	"query_prefix \"\" { policy = \"write\" } query \"pay\" { policy = \"deny\" }"
#define OWN "node \"own\" { policy = \"write\" } service_prefix \"mine\" { policy = \"write\" } " \
	"session \"own\" { policy = \"write\" } query_prefix \"mine\" { policy = \"write\" }"
#define SERVICES_ONLY "service \"mine\" { policy = \"write\" } service \"Pay\" { policy = \"write\" } " \
	"node \"DB\" { policy = \"write\" } session \"DB\" { policy = \"write\" } query \"Pay\" { policy = \"write\" }"

static const char *const node_names[] = { "db", "DB", "own", "OWN", "web" };
static const char *const service_names[] = { "pay", "PAY", "Pay", "mine", "Mine", "mine-too" };
static const char *const ids[] = { "v", "V", "w", "x" };
static const char *const check_ids[] = { "c", "C", "d" };
static const char *const node_ids[] = { "", "", "11111111-2222-4333-8444-000000000001", "11111111-2222-4333-8444-000000000002" };
#define PICK(rng, of) S((of)[rng_below(rng, sizeof(of) / sizeof((of)[0]))])

enum { WRITERS = 4 };			/* the first one may do everything */

struct world {
	struct kit k, twin;		/* the twin is given the same entries, in other batches */
	struct span secrets[WRITERS];
	const struct fsm_rights *rights[WRITERS];
	struct rng rng;
	bool premises;			/* false: writes are proposed without them */
	unsigned applied, refused, outdated, given_up, uuids;
	struct { struct raft_entry e[2]; struct buf payload[2]; unsigned n; } late;	/* for the twin */
};

/* -- what is there -- */

struct record {
	char table;
	struct span key, val;
	struct span node, name;		/* of its node as it is spelled there; its own, or that of its service */
	struct span service_id;		/* of a check */
};

struct picture {
	struct record v[RECORDS_MAX];
	unsigned n;
};

static void
decode(struct kit *k, struct record *r)
{
	struct service s = { .ID = SPAN_NONE };
	struct check c = { .Node = SPAN_NONE };
	struct node n = { .ID = SPAN_NONE };
	struct session x = { .ID = SPAN_NONE };
	struct prepared_query q = { .ID = SPAN_NONE };
	uint8_t node[FSM_NAME_BYTES_MAX];
	struct span key = span_of(r->key.p + 1, r->key.len - 1), name;

	switch (r->table) {
	case TBL_NODE:
		ck_assert(tbl_decode(k->f, &node_schema, r->val, &k->a, &n));
		r->node = r->name = n.Node;
		break;
	case TBL_SERVICE:
		ck_assert(tbl_decode(k->f, &service_schema, r->val, &k->a, &s) && tkey_take_name(&key, node, sizeof(node), &name));
		r->node = arena_copy(&k->a, name);
		r->name = s.Service;
		r->service_id = s.ID;
		break;
	case TBL_CHECK:
		ck_assert(tbl_decode(k->f, &check_schema, r->val, &k->a, &c));
		r->node = c.Node;
		r->name = c.ServiceID.len > 0 ? c.ServiceName : SPAN_NONE;
		r->service_id = c.ServiceID;
		break;
	case TBL_SESSION:
		ck_assert(tbl_decode(k->f, &session_schema, r->val, &k->a, &x));
		r->node = r->name = x.Node;
		break;
	default:
		ck_assert(tbl_decode(k->f, &prepared_query_schema, r->val, &k->a, &q));
		r->name = q.Name;
	}
}

static void
look(struct kit *k, struct picture *p)
{
	static const enum tbl tables[] = { TBL_NODE, TBL_SERVICE, TBL_CHECK, TBL_SESSION, TBL_QUERY };

	p->n = 0;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		struct tbl_scan s;
		struct tkey all;
		struct span key, val;

		tkey_begin(&all, tables[i]);
		tbl_scan_begin(k->f, &s, &all);
		while (tbl_next(&s, &key, &val)) {
			ck_assert_uint_lt(p->n, RECORDS_MAX);
			p->v[p->n++] = (struct record){ .table = (char)tables[i], .key = arena_copy(&k->a, key), .val = arena_copy(&k->a, val) };
		}
		tbl_scan_end(&s);
	}
	for (unsigned i = 0; i < p->n; i++)
		decode(k, &p->v[i]);
}

static const struct record *
find(const struct picture *p, struct span key)
{
	for (unsigned i = 0; i < p->n; i++)
		if (span_eq(p->v[i].key, key))
			return &p->v[i];
	return NULL;
}

static const struct record *
find_node(const struct picture *p, struct span name)
{
	for (unsigned i = 0; i < p->n; i++)
		if (p->v[i].table == TBL_NODE && span_eq_nocase(p->v[i].name, name))
			return &p->v[i];
	return NULL;
}

static const struct record *
find_service(const struct picture *p, struct span node, struct span id)
{
	for (unsigned i = 0; i < p->n; i++)
		if (p->v[i].table == TBL_SERVICE && span_eq_nocase(p->v[i].node, node) && span_eq_nocase(p->v[i].service_id, id))
			return &p->v[i];
	return NULL;
}

/* -- what a writer may change -- */

struct change {
	struct world *w;
	const struct acl_set *who;
	const struct picture *before, *after;
};

static bool
may(const struct change *c, enum acl_resource r, struct span name)
{
	return acl_set_allows(c->who, r, name, ACL_WRITE);
}

/* By the name that it had, and by that which it has. */
static bool
may_node(const struct change *c, enum acl_resource r, struct span name)
{
	const struct record *was = find_node(c->before, name), *is = find_node(c->after, name);

	return (was == NULL || may(c, r, was->name)) && (is == NULL || may(c, r, is->name)) && (was != NULL || is != NULL);
}

/* An instance more of a service: the first one that there was says how it is called. */
static bool
may_join(const struct change *c, struct span service)
{
	const struct record *first = NULL;

	for (unsigned i = 0; i < c->before->n && first == NULL; i++)	/* by node and id */
		if (c->before->v[i].table == TBL_SERVICE && span_eq_nocase(c->before->v[i].name, service))
			first = &c->before->v[i];
	return may(c, ACL_SERVICE, service) && (first == NULL || may(c, ACL_SERVICE, first->name));
}

static bool
may_touch_check(const struct change *c, const struct record *r)
{
	return r->service_id.len == 0 ? may_node(c, ACL_NODE, r->node) : may(c, ACL_SERVICE, r->name);
}

static bool
may_add(const struct change *c, const struct record *r)
{
	switch (r->table) {
	case TBL_NODE:
		return may(c, ACL_NODE, r->name);
	case TBL_SERVICE:
		return may_join(c, r->name);
	case TBL_CHECK:
		return may_touch_check(c, r);
	case TBL_SESSION:
		return may(c, ACL_SESSION, r->node) && may_node(c, ACL_SESSION, r->node);
	default:
		return may(c, ACL_QUERY, r->name);
	}
}

static bool
may_remove(const struct change *c, const struct record *r)
{
	const struct record *s;

	switch (r->table) {
	case TBL_NODE:
		return may(c, ACL_NODE, r->name);
	case TBL_SERVICE:
		return may(c, ACL_SERVICE, r->name) || may_node(c, ACL_NODE, r->node);
	case TBL_CHECK:			/* it goes with its service, too */
		s = r->service_id.len == 0 ? NULL : find_service(c->before, r->node, r->service_id);
		return may_touch_check(c, r) || (s != NULL && may(c, ACL_SERVICE, s->name)) || may_node(c, ACL_NODE, r->node);
	case TBL_SESSION:		/* it goes with its node, too */
		return (may(c, ACL_SESSION, r->node) && may_node(c, ACL_SESSION, r->node)) || may_node(c, ACL_NODE, r->node);
	default:
		return may(c, ACL_QUERY, r->name);
	}
}

/* NULL: nothing but what is allowed was changed; else the record that was not. */
static const struct record *
violation(const struct change *c)
{
	for (unsigned i = 0; i < c->before->n; i++) {
		const struct record *was = &c->before->v[i], *is = find(c->after, was->key);

		if (is == NULL ? !may_remove(c, was) : !span_eq(was->val, is->val) && !(is->table == TBL_CHECK ?
		    may_touch_check(c, was) && may_touch_check(c, is) : may_remove(c, was) && may_add(c, is)))
			return was;
	}
	for (unsigned i = 0; i < c->after->n; i++)
		if (find(c->before, c->after->v[i].key) == NULL && !may_add(c, &c->after->v[i]))
			return &c->after->v[i];
	return NULL;
}

/* -- writes at random -- */

struct write {
	unsigned writer, judged;
	const struct op *op;
	uint16_t code;			/* that goes to the log */
	struct span args, premises;
};

static struct check
random_check(struct rng *rng)
{
	struct check c = { .CheckID = PICK(rng, check_ids), .Name = S("check"), .Status = S(rng_below(rng, 2) ? "passing" : "critical") };

	if (rng_below(rng, 3) > 0)
		c.ServiceID = PICK(rng, ids);
	if (rng_below(rng, 3) == 0)
		c.ServiceName = PICK(rng, service_names);	/* as it pleases */
	return c;
}

static struct service
random_service(struct rng *rng)
{
	struct service s = { .ID = PICK(rng, ids), .Service = PICK(rng, service_names), .Port = rng_below(rng, 3) };

	if (rng_below(rng, 4) == 0) {
		s.Kind = S("connect-proxy");
		s.Port = 7;
		s.Proxy.DestinationServiceName = PICK(rng, service_names);
	}
	return s;
}

static struct span
packed(struct kit *k, const struct schema *s, const void *rec)
{
	struct buf b = BUF_INIT(1u << 20);
	struct span out;

	schema_pack(s, rec, &b);
	out = arena_copy(&k->a, buf_span(&b));
	buf_done(&b);
	return out;
}

static void
random_register(struct world *w, struct write *out)
{
	struct rng *rng = &w->rng;
	struct catalog_register q = { .ID = PICK(rng, node_ids), .Node = PICK(rng, node_names),
	    .Address = S(rng_below(rng, 2) ? "10.0.0.1" : "10.0.0.2"), .SkipNodeUpdate = rng_below(rng, 2) };
	struct check *checks = arena_array(&w->k.a, 2, sizeof(*checks));

	if (q.ID.len > 0 && rng_below(rng, 8) == 0)
		q.Node = SPAN_NONE;
	q.has_service = rng_below(rng, 3) > 0;
	if (q.has_service)
		q.Service = random_service(rng);
	q.has_check = rng_below(rng, 3) == 0;
	if (q.has_check)
		q.Check = random_check(rng);
	q.Checks = (struct obj_list){ .v = checks, .n = (uint32_t)rng_below(rng, 3), .set = true };
	for (uint32_t i = 0; i < q.Checks.n; i++)
		checks[i] = random_check(rng);
	out->op = op_find(OP_CATALOG_REGISTER);
	out->code = q.has_service && q.Service.Kind.len > 0 ? OP_CATALOG_REGISTER_PROXY : OP_CATALOG_REGISTER;
	out->args = packed(&w->k, out->op->args, &q);
}

static void
random_deregister(struct world *w, struct write *out)
{
	struct rng *rng = &w->rng;
	struct catalog_deregister q = { .Node = PICK(rng, node_names) };
	uint64_t which = rng_below(rng, 5);

	if (which < 2)
		q.ServiceID = PICK(rng, ids);
	else if (which < 4)
		q.CheckID = PICK(rng, check_ids);
	out->op = op_find(OP_CATALOG_DEREGISTER);
	out->args = packed(&w->k, out->op->args, &q);
}

static struct txn_op
random_txn_op(struct rng *rng)
{
	static const char *const verbs[] = { "set", "set", "set", "delete" };
	struct span verb = PICK(rng, verbs), node = PICK(rng, node_names);
	struct txn_op op = { .has_node = false };

	switch (rng_below(rng, 3)) {
	case 0:
		op.has_node = true;
		op.Node = (struct txn_node){ .Verb = verb, .Node = { .ID = PICK(rng, node_ids), .Node = node, .Address = S("10.0.0.3") } };
		break;
	case 1:
		op.has_service = true;
		op.Service = (struct txn_service){ .Verb = verb, .Node = node, .Service = random_service(rng) };
		break;
	default:
		op.has_check = true;
		op.Check = (struct txn_check){ .Verb = verb, .Check = random_check(rng) };
		op.Check.Check.Node = node;
	}
	return op;
}

static void
random_txn(struct world *w, struct write *out)
{
	struct txn_op ops[3];
	struct txn q = { .Ops = { .v = ops, .n = (uint32_t)(1 + rng_below(&w->rng, 3)), .set = true } };

	for (uint32_t i = 0; i < q.Ops.n; i++)
		ops[i] = random_txn_op(&w->rng);
	out->op = op_find(OP_TXN_APPLY);
	out->args = packed(&w->k, out->op->args, &q);
}

/* The id of one that is there, or of none. */
static struct span
random_id(struct world *w, enum tbl table)
{
	struct span found = S("11111111-2222-4333-8444-555555555555");
	struct tbl_scan s;
	struct tkey all;
	struct span key, val;
	unsigned n = 0;

	tkey_begin(&all, table);
	tbl_scan_begin(w->k.f, &s, &all);
	while (tbl_next(&s, &key, &val))
		if (rng_below(&w->rng, ++n) == 0)
			found = arena_copy(&w->k.a, span_of(key.p + 1, 36));
	tbl_scan_end(&s);
	return found;
}

static void
random_session(struct world *w, struct write *out)
{
	struct session s = { .Node = PICK(&w->rng, node_names), .NodeChecks = { .set = true } };
	struct session_destroy d = { .ID = random_id(w, TBL_SESSION) };
	bool ends = rng_below(&w->rng, 2);

	out->op = op_find(ends ? OP_SESSION_DESTROY : OP_SESSION_CREATE);
	out->args = packed(&w->k, out->op->args, ends ? (const void *)&d : &s);
}

static void
random_query(struct world *w, struct write *out)
{
	struct prepared_query q = { .Name = PICK(&w->rng, service_names), .Service = { .Service = PICK(&w->rng, service_names) } };
	struct prepared_read d = { .ID = random_id(w, TBL_QUERY) };
	uint64_t which = rng_below(&w->rng, 3);

	if (which == 1)
		q.ID = d.ID;
	out->op = op_find(which == 0 ? OP_QUERY_CREATE : which == 1 ? OP_QUERY_UPDATE : OP_QUERY_DELETE);
	out->args = packed(&w->k, out->op->args, which == 2 ? (const void *)&d : &q);
}

static struct write
random_write(struct world *w)
{
	struct write out = { .writer = (unsigned)rng_below(&w->rng, WRITERS) };
	uint64_t which = rng_below(&w->rng, 12);

	(which < 5 ? random_register : which < 7 ? random_deregister : which < 9 ? random_txn : which < 10 ? random_session :
	    random_query)(w, &out);
	if (out.code == 0)
		out.code = out.op->code;
	return out;
}

/* -- judging and applying -- */

/* False: it is refused. */
static bool
judge(struct world *w, struct write *x)
{
	const struct fsm_rights *r;
	struct fsm_answer ans;

	buf_reset(&w->k.out);
	fsm_judge(w->k.f, x->op, x->args, w->secrets[x->writer], &w->k.a, &w->k.out, &ans, &r);
	fsm_rights_free(r);
	ck_assert(ans.err == TV_OK || ans.err == TV_EPERM);
	ck_assert(x->writer > 0 || (ans.err == TV_OK && !ans.refused && w->k.out.len == 0));
	x->premises = arena_copy(&w->k.a, buf_span(&w->k.out));
	return ans.err == TV_OK && !ans.refused;
}

static void
twin_catches_up(struct world *w)
{
	struct arena a = ARENA_INIT(64u << 20);

	ck_assert_int_eq(fsm_apply(w->twin.f, w->late.e, w->late.n, &a, NULL), TV_OK);
	for (unsigned i = 0; i < w->late.n; i++)
		buf_done(&w->late.payload[i]);
	w->late.n = 0;
	arena_done(&a);
}

/* What came of it; TV_EINVAL: it was not worth proposing. */
static struct fsm_result
apply(struct world *w, const struct write *x)
{
	struct buf args = BUF_INIT(1u << 20), *payload = &w->late.payload[w->late.n];
	struct raft_entry e = { .index = fsm_applied(w->k.f) + 1, .term = 1, .type = RAFT_ENTRY_OP };
	struct fsm_result res = { .err = TV_OK };
	char uuid[37];

	snprintf(uuid, sizeof(uuid), "00000000-0000-4000-9000-%012x", ++w->uuids);
	if (fsm_prepare(w->k.f, &(uint16_t){ x->code }, x->args, w->k.now, uuid, &args, &w->k.a, &res.text) != TV_OK) {
		res.err = TV_EINVAL;
	} else {
		buf_init(payload, 1u << 20);
		fsm_entry_write_judged(payload, x->code, buf_span(&args), w->premises ? x->premises : SPAN_NONE);
		e.payload = payload->data;
		e.size = (uint32_t)payload->len;
		ck_assert_int_eq(fsm_apply(w->k.f, &e, 1, &w->k.a, &res), TV_OK);
		w->late.e[w->late.n++] = e;
		if (w->late.n == 2)
			twin_catches_up(w);
	}
	buf_done(&args);
	return res;
}

/* Applies the write and looks at what it did.  True: its premises did not hold. */
static bool
carry_out(struct world *w, struct write *x, const struct record **wrong)
{
	static struct picture before, after;
	struct change c = { w, fsm_rights_set(w->rights[x->writer]), &before, &after };
	struct fsm_result res;

	look(&w->k, &before);
	res = apply(w, x);
	look(&w->k, &after);
	ck_assert(!res.outdated || res.err == TV_EAGAIN);
	ck_assert(!res.outdated || violation(&(struct change){ w, c.who, &before, &after }) == NULL);
	*wrong = violation(&c);
	w->applied++;
	w->outdated += res.outdated;
	return res.outdated;
}

/* Some writes, judged and applied in an order of their own.  The record that was changed without a right to it, or NULL. */
static const struct record *
run(struct world *w, struct write *last)
{
	struct write pending[PENDING_MAX];
	unsigned n = 0, more = 6;
	const struct record *wrong = NULL;

	while (wrong == NULL && (more > 0 || n > 0)) {
		if (more > 0 && n < PENDING_MAX && rng_below(&w->rng, 3) > 0) {
			pending[n] = random_write(w);
			more--;
			if (judge(w, &pending[n]))
				n++;
			else
				w->refused++;
		} else if (n > 0) {
			unsigned i = (unsigned)rng_below(&w->rng, n);
			struct write x = *last = pending[i];

			pending[i] = pending[--n];
			if (!carry_out(w, &x, &wrong))
				continue;
			ck_assert_uint_lt(x.judged++, JUDGED_MAX);
			if (judge(w, &x))
				pending[n++] = x;
			else
				w->refused++;
		}
	}
	arena_reset(&w->k.a);
	return wrong;
}

/* -- cases -- */

static struct span
token(struct world *w, const char *name, const char *rules)
{
	struct acl_policy_set p = { .Policy = { .Name = S(name), .Rules = S(rules) } };
	struct acl_link link = { .Name = S(name) };
	struct acl_token_set q = { .Token = { .Policies = { .v = &link, .n = 1, .set = true } } };
	struct acl_token t = { .SecretID = SPAN_NONE };
	struct fsm_result res = kit_apply(&w->k, OP_ACL_POLICY_SET, &p);
	struct rd in;
	char *secret;

	ck_assert_int_eq(res.err, TV_OK);
	res = kit_apply(&w->k, OP_ACL_TOKEN_SET, &q);
	in = rd_span_over(res.value);
	ck_assert_int_eq(schema_unpack(&acl_token_schema, &in, &w->k.a, &t), TV_OK);
	secret = strndup((const char *)t.SecretID.p, t.SecretID.len);	/* beyond the arena */
	ck_assert_ptr_nonnull(secret);
	return S(secret);
}

/* The twin begins as a copy. */
static void
copy_to_twin(struct world *w)
{
	struct fsm_snapshot *s;
	uint64_t index, term, bytes, sum;
	char path[96], why[512];

	snprintf(path, sizeof(path), "%s/copy", w->twin.dir);
	ck_assert_int_eq(fsm_snapshot_begin(w->k.f, &s, &index, &term), TV_OK);
	ck_assert_int_eq(fsm_snapshot_write(s, path, &bytes, &sum), TV_OK);
	fsm_snapshot_end(s);
	ck_assert_msg(fsm_restore(w->twin.f, path, &index, &term, why, sizeof(why)) == TV_OK, "%s", why);
}

static void
begin(struct world *w, uint64_t seed, bool premises)
{
	static const char *const rules[WRITERS] = { "node_prefix \"\" { policy = \"write\" } service_prefix \"\" { policy = \"write\" } "
	    "session_prefix \"\" { policy = \"write\" } query_prefix \"\" { policy = \"write\" }", ALL_BUT, OWN, SERVICES_ONLY };
	char name[8];

	memset(w, 0, sizeof(*w));
	kit_open(&w->twin);
	kit_open(&w->k);
	w->premises = premises;
	rng_seed(&w->rng, seed);
	ck_assert(kit_bool(&w->k, OP_ACL_ENABLE, &(struct acl_enable){ .Now = 0 }));
	for (unsigned i = 0; i < WRITERS; i++) {
		snprintf(name, sizeof(name), "w%u", i);
		w->secrets[i] = token(w, name, rules[i]);
	}
	for (unsigned i = 0; i < WRITERS; i++)
		ck_assert_int_eq(fsm_rights_get(w->k.f, w->secrets[i], w->k.now, &w->rights[i]), TV_OK);
	copy_to_twin(w);
}

static void
end(struct world *w)
{
	uint8_t one[32], other[32];

	if (w->late.n > 0)
		twin_catches_up(w);
	ck_assert_int_eq(fsm_digest(w->k.f, one), TV_OK);
	ck_assert_int_eq(fsm_digest(w->twin.f, other), TV_OK);
	ck_assert_mem_eq(one, other, 32);
	for (unsigned i = 0; i < WRITERS; i++) {
		fsm_rights_free(w->rights[i]);
		free((void *)(uintptr_t)w->secrets[i].p);
	}
	kit_close(&w->k);
	kit_close(&w->twin);
}

static uint64_t
number(const char *name, uint64_t usual)
{
	const char *text = getenv(name);

	return text == NULL ? usual : strtoull(text, NULL, 10);
}

static struct world w;

START_TEST(rights_hold_when_it_is_written)
{
	uint64_t seed = number("TV_RIGHTS_SEED", 1), runs = number("TV_RIGHTS_RUNS", RUNS);
	struct write last = { .op = NULL };

	begin(&w, seed, true);
	for (uint64_t i = 0; i < runs; i++) {
		const struct record *wrong = run(&w, &last);

		ck_assert_msg(wrong == NULL, "TV_RIGHTS_SEED=%llu, run %llu: %s of writer %u changed %.*s of table '%c'",
		    (unsigned long long)seed, (unsigned long long)i, last.op->name, last.writer, (int)wrong->name.len,
		    (const char *)wrong->name.p, wrong->table);
	}
	printf("     %llu runs: %u applied, %u refused, %u judged again\n", (unsigned long long)runs, w.applied, w.refused, w.outdated);
	ck_assert_uint_gt(w.refused, runs / 4);
	ck_assert_uint_gt(w.outdated, runs / 100);
	end(&w);
}
END_TEST

/* The test sees it where nothing is compared when it is written. */
START_TEST(without_premises_they_do_not)
{
	struct write last;
	unsigned found = 0;

	begin(&w, number("TV_RIGHTS_SEED", 1), false);
	for (unsigned i = 0; i < RUNS && found < 10; i++)
		found += run(&w, &last) != NULL;
	ck_assert_uint_eq(found, 10);
	ck_assert_uint_eq(w.outdated, 0);
	end(&w);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("rights_race");
	TCase *tc = tcase_create("race");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_set_timeout(tc, (double)(60 + number("TV_RIGHTS_RUNS", RUNS) / 20));
	tcase_add_test(tc, rights_hold_when_it_is_written);
	tcase_add_test(tc, without_premises_they_do_not);
	suite_add_tcase(s, tc);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
