/* Operations of a transaction on nodes, services and checks. */
#include "common/text/json_text.h"
#include "raftd/fsm/catalog/catalog.h"
#include "raftd/fsm/txn/txn.h"

enum catalog_verb { GET, SET, CAS, DELETE, DELETE_CAS, UNKNOWN };

static enum catalog_verb
verb_of(struct span text)
{
	static const char *const verbs[] = {
		[GET] = "get", [SET] = "set", [CAS] = "cas", [DELETE] = "delete", [DELETE_CAS] = "delete-cas",
	};
	enum catalog_verb v = GET;

	while (v < UNKNOWN && !span_eqs(text, verbs[v]))
		v++;
	return v;
}

/* Is what is there as the operation wants it?  0 wants nothing to be there; what is to be deleted has to be. */
static bool
is_current(enum catalog_verb verb, bool there, uint64_t current, uint64_t wanted)
{
	if (verb == DELETE_CAS)
		return there && current == wanted;
	return verb != CAS || (there ? wanted != 0 && current == wanted : wanted == 0);
}

/* 'service "ID" on node "NODE"' in a sentence. */
static void
fail_of_node(struct txn_run *t, const char *before, struct span id, struct span node, const char *behind)
{
	struct buf text = BUF_INIT(FSM_ANSWER_BYTES_MAX);

	text_quote(id, &text);
	buf_puts(&text, " on node ");
	text_quote(node, &text);
	buf_puts(&text, behind);
	txn_fail(t, before, NULL, buf_cstr(&text));
	buf_done(&text);
}

/* As a request of its own, whose sentences begin with this.  False: it was refused. */
static bool
register_as(struct txn_run *t, struct catalog_register *q, const char *unless)
{
	struct fsm_result res = { .err = TV_OK };
	struct apply p = { .f = t->f, .out = t->texts, .res = &res };

	q->Now = t->now;
	catalog_register_apply(&p, q);
	if (res.err != TV_OK)
		txn_fail_as(t, res.text, unless);
	return res.err == TV_OK;
}

/* -- nodes -- */

/* By its ID, if it has one. */
static bool
find_node(struct txn_run *t, const struct node *n, struct node *out)
{
	if (n->ID.len > 0)
		return catalog_node_by_id(t->f, n->ID, &t->one, out);
	return catalog_node(t->f, n->Node, &t->one, out);
}

static void
give_node(struct txn_run *t, const struct node *n)
{
	struct txn_result r = { .has_node = true };

	if (find_node(t, n, &r.Node))
		txn_result(t, &r);
	else
		txn_fail(t, "node ", &n->Node, " doesn't exist");
}

static void
set_node(struct txn_run *t, const struct node *n)
{
	struct catalog_register q = { .ID = n->ID, .Node = n->Node, .Address = n->Address,
	    .TaggedAddresses = n->TaggedAddresses, .NodeMeta = n->Meta };

	if (register_as(t, &q, "failed inserting node: "))
		give_node(t, n);
}

void
txn_node_run(struct txn_run *t, const struct txn_node *q)
{
	enum catalog_verb verb = verb_of(q->Verb);
	const struct node *n = &q->Node;
	struct node old = { .ModifyIndex = 0 };
	bool there;

	if (verb == GET) {
		give_node(t, n);
		return;
	}
	there = catalog_node(t->f, n->Node, &t->one, &old);
	if (verb == UNKNOWN)
		txn_fail(t, "unknown Node verb ", &q->Verb, "");
	else if (!is_current(verb, there, old.ModifyIndex, n->ModifyIndex))
		txn_fail(t, verb == CAS ? "failed to set node " : "failed to delete node ", &n->Node, ", index is stale");
	else if (verb == SET || verb == CAS)
		set_node(t, n);
	else if (there)
		catalog_remove_node(t->f, &old, t->now);
}

/* -- services -- */

static void
give_service(struct txn_run *t, struct span node, struct span id)
{
	struct txn_result r = { .has_service = true };

	if (catalog_service(t->f, node, id, &t->one, &r.Service))
		txn_result(t, &r);
	else
		fail_of_node(t, "service ", id, node, " doesn't exist");
}

static void
set_service(struct txn_run *t, struct span node, const struct service *s)
{
	struct catalog_register q = { .Node = node, .SkipNodeUpdate = true, .has_service = true, .Service = *s };
	struct node n;

	if (!catalog_node(t->f, node, &t->one, &n))
		txn_failf(t, "Missing node registration");
	else if (register_as(t, &q, "failed inserting service: "))
		give_service(t, node, s->ID);
}

void
txn_service_run(struct txn_run *t, const struct txn_service *q)
{
	enum catalog_verb verb = verb_of(q->Verb);
	const struct service *s = &q->Service;
	struct service old = { .ModifyIndex = 0 };
	bool there;

	if (verb == GET) {
		give_service(t, q->Node, s->ID);
		return;
	}
	there = catalog_service(t->f, q->Node, s->ID, &t->one, &old);
	if (verb == UNKNOWN)
		txn_fail(t, "unknown Service verb ", &q->Verb, "");
	else if (!is_current(verb, there, old.ModifyIndex, s->ModifyIndex))
		fail_of_node(t, verb == CAS ? "failed to set service " : "failed to delete service ", s->ID, q->Node,
		    ", index is stale");
	else if (verb == SET || verb == CAS)
		set_service(t, q->Node, s);
	else if (there)
		catalog_remove_service(t->f, q->Node, &old, t->now);
}

/* -- checks -- */

static void
give_check(struct txn_run *t, const struct check *c)
{
	struct txn_result r = { .has_check = true };

	if (catalog_check(t->f, c->Node, c->CheckID, &t->one, &r.Check))
		txn_result(t, &r);
	else
		fail_of_node(t, "check ", c->CheckID, c->Node, " doesn't exist");
}

static void
set_check(struct txn_run *t, const struct check *c)
{
	struct catalog_register q = { .Node = c->Node, .SkipNodeUpdate = true, .has_check = true, .Check = *c };
	struct node n;
	struct service s;

	if (!catalog_node(t->f, c->Node, &t->one, &n))
		txn_failf(t, "Missing node registration");
	else if (c->ServiceID.len > 0 && !catalog_service(t->f, c->Node, c->ServiceID, &t->one, &s))
		txn_failf(t, "Missing service registration");
	else if (register_as(t, &q, "failed inserting check: "))
		give_check(t, c);
}

void
txn_check_run(struct txn_run *t, const struct txn_check *q)
{
	enum catalog_verb verb = verb_of(q->Verb);
	const struct check *c = &q->Check;
	struct check old = { .ModifyIndex = 0 };
	bool there;

	if (verb == GET) {
		give_check(t, c);
		return;
	}
	there = catalog_check(t->f, c->Node, c->CheckID, &t->one, &old);
	if (verb == UNKNOWN)
		txn_fail(t, "unknown Check verb ", &q->Verb, "");
	else if (!is_current(verb, there, old.ModifyIndex, c->ModifyIndex))
		fail_of_node(t, verb == CAS ? "failed to set check " : "failed to delete check ", c->CheckID, c->Node,
		    ", index is stale");
	else if (verb == SET || verb == CAS)
		set_check(t, c);
	else if (there)
		catalog_remove_check(t->f, &old, t->now);
}
