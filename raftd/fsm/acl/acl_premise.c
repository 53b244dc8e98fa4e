/*
 * Premises: what a judgement of a write saw in the state.
 *
 * A leader judges a write before it goes to the log, and others come before it there.  What decided of the state travels behind the
 * entry, and each server compares it with its own state before the entry is applied.  Where it is another one by then nothing is done,
 * and the leader judges again (raftd/serve/op_judge.c).
 *
 * Servers of different versions must come to the same end, so what a kind looks at never changes; what is *judged* by it may.  A
 * new kind needs a higher FSM_VERSION.
 */
#include <errno.h>

#include "common/record/mpack.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/catalog/catalog.h"

#define KEPT_HASH_BYTES 16
#define NODE_PARTS 6			/* of its record, before the indexes */

/* Of a record: a field, which is the text. */
static bool
look_at_field(struct fsm *f, const struct tkey *k, const struct schema *s, const char *field, struct arena *a, struct span *text)
{
	uint32_t number = catalog_field(s, field);
	struct span val, found;

	if (!tbl_peek(f, k, &val))
		return false;
	if (!catalog_texts(val, &number, &found, 1)) {
		f->failed = DB_VERIFY_BAD;
		return false;
	}
	*text = arena_copy(a, found);
	if (text->p == NULL)
		f->failed = ENOMEM;		/* ours alone */
	return f->failed == 0;
}

static bool
look_at_node_id(struct fsm *f, struct span id, struct arena *a, struct span *text)
{
	struct tkey k;
	struct span name;

	TKEY(&k, TBL_NODE_ID, id);
	if (!tbl_get(f, &k, a, &name))
		return false;
	TKEY(&k, TBL_NODE, name);
	return look_at_field(f, &k, &node_schema, "Node", a, text);
}

/* A hash of all that a registration may change of a node. */
static bool
look_at_whole_node(struct fsm *f, struct span name, struct arena *a, struct span *text)
{
	uint8_t hash[KEPT_HASH_BYTES];
	struct span val;
	struct tkey k;
	struct rd in;

	TKEY(&k, TBL_NODE, name);
	if (!tbl_peek(f, &k, &val))
		return false;
	in = rd_span_over(val);
	(void)mpr_array(&in);
	for (unsigned i = 0; i < NODE_PARTS; i++)
		mpr_skip(&in);
	if (in.err != TV_OK) {
		f->failed = DB_VERIFY_BAD;
		return false;
	}
	(void)crypto_generichash(hash, sizeof(hash), val.p, (size_t)(in.p - val.p), NULL, 0);
	*text = arena_copy(a, span_of(hash, sizeof(hash)));
	if (text->p == NULL)
		f->failed = ENOMEM;
	return f->failed == 0;
}

/* The name of its service; "" of a node's own. */
static bool
look_at_check(struct fsm *f, struct span node, struct span id, struct arena *a, struct span *text)
{
	uint32_t numbers[] = { catalog_field(&check_schema, "ServiceID"), catalog_field(&check_schema, "ServiceName") };
	struct span val, found[2];
	struct tkey k;

	TKEY(&k, TBL_CHECK, node, id);
	if (!tbl_peek(f, &k, &val))
		return false;
	if (!catalog_texts(val, numbers, found, 2)) {
		f->failed = DB_VERIFY_BAD;
		return false;
	}
	*text = arena_copy(a, found[0].len > 0 ? found[1] : SPAN_NONE);
	if (text->p == NULL)
		f->failed = ENOMEM;
	return f->failed == 0;
}

/* How the first instance, by node and id, spells the name of its service. */
static bool
look_at_spelling(struct fsm *f, struct span service, struct arena *a, struct span *text)
{
	uint8_t names[2][FSM_NAME_BYTES_MAX];
	struct span key, val, node, id;
	struct tbl_scan s;
	struct tkey prefix, k;
	bool found = false;

	TKEY(&prefix, TBL_INSTANCE, service);
	tbl_scan_begin(f, &s, &prefix);
	while (!found && tbl_next(&s, &key, &val)) {
		key = span_of(key.p + prefix.len, key.len - prefix.len);
		if (tkey_take_name(&key, names[0], sizeof(names[0]), &node) && tkey_take_name(&key, names[1], sizeof(names[1]), &id)) {
			TKEY(&k, TBL_SERVICE, node, id);
			found = look_at_field(f, &k, &service_schema, "Service", a, text);
		}
	}
	tbl_scan_end(&s);
	return found;
}

bool
premise_look(struct fsm *f, enum premise_kind kind, struct span node, struct span key, struct arena *a, struct span *text)
{
	struct tkey k;

	*text = SPAN_NONE;
	if (node.len > FSM_NAME_BYTES_MAX || key.len > FSM_NAME_BYTES_MAX)
		return false;			/* never stored */
	switch (kind) {
	case PREMISE_NODE:
		TKEY(&k, TBL_NODE, key);
		return look_at_field(f, &k, &node_schema, "Node", a, text);
	case PREMISE_NODE_ID:
		return look_at_node_id(f, key, a, text);
	case PREMISE_NODE_WHOLE:
		return look_at_whole_node(f, key, a, text);
	case PREMISE_SERVICE:
		TKEY(&k, TBL_SERVICE, node, key);
		return look_at_field(f, &k, &service_schema, "Service", a, text);
	case PREMISE_CHECK:
		return look_at_check(f, node, key, a, text);
	case PREMISE_SPELLING:
		return look_at_spelling(f, key, a, text);
	case PREMISE_SESSION:
		TKEY(&k, TBL_SESSION, key);
		return look_at_field(f, &k, &session_schema, "Node", a, text);
	case PREMISE_QUERY:
		TKEY(&k, TBL_QUERY, key);
		return look_at_field(f, &k, &prepared_query_schema, "Name", a, text);
	}
	return false;
}

/* -- writing them down -- */

static bool
is_same(const struct premise *p, enum premise_kind kind, struct span node, struct span key)
{
	return p->Kind == (uint64_t)kind && span_eq(p->Node, node) && span_eq(p->Key, key);
}

void
premises_add(struct premises *list, enum premise_kind kind, struct span node, struct span key, bool there, struct span text)
{
	struct premise *last = &list->recent[list->n % PREMISES_RECENT], p = { .Kind = kind, .Node = node, .Key = key, .There = there,
	    .Text = text };

	for (unsigned i = 0; i < PREMISES_RECENT; i++)
		if (is_same(&list->recent[i], kind, node, key))
			return;
	if (list->n == 0) {
		mpw_array(list->out, 1);	/* premise_list */
		list->at = list_begin(list->out);
	} else if (span_eq(node, list->recent[(list->n - 1) % PREMISES_RECENT].Node)) {
		p.Node = SPAN_NONE;
	}
	schema_pack(&premise_schema, &p, list->out);
	p.Node = node;
	*last = p;
	list->n++;
}

void
premises_end(struct premises *list)
{
	if (list->n > 0)
		list_end(list->out, list->at, list->n);
}

/* -- comparing them -- */

static bool
premise_holds(struct fsm *f, const struct premise *p, struct span node)
{
	struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);
	struct span text;
	bool there = premise_look(f, (enum premise_kind)p->Kind, node, p->Key, &one, &text);
	bool holds = there == p->There && (!there || span_eq(text, p->Text));

	arena_done(&one);
	return holds;
}

bool
premises_hold(struct apply *p, struct span packed)
{
	struct rd in = rd_span_over(packed);
	struct premise_list list = { .All = { .n = 0 } };
	enum tv_err err = schema_unpack(&premise_list_schema, &in, &p->f->work, &list);
	const struct premise *v = list.All.v;
	struct span node = SPAN_NONE;

	if (err == TV_ENOMEM) {
		p->f->failed = ENOMEM;		/* ours alone: the others may well apply it */
		return false;
	}
	if (err != TV_OK || rd_end(&in) != TV_OK) {
		apply_fail(p, TV_EFORMAT, "malformed premises");
		return false;
	}
	for (uint32_t i = 0; i < list.All.n; i++) {
		if (v[i].Node.len > 0)
			node = v[i].Node;
		if (premise_holds(p->f, &v[i], node))
			continue;
		if (p->f->failed == 0)
			apply_fail(p, TV_EAGAIN, "what the right to this write depends on has changed; try again");
		p->res->outdated = p->f->failed == 0;
		return false;
	}
	return true;
}
