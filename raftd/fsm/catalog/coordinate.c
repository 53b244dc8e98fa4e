/*
 * Network coordinates of nodes.  They arrive in batches that the leader collects; what does not fit the catalog or cannot
 * be true is left out, the same on every server.  A stored one that cannot be true (an older version let it in) counts as
 * absent until the node's next report replaces it (S138).  Source: http-api, section 8.
 */
#include <errno.h>

#include "common/record/coordinate.h"
#include "raftd/fsm/acl/acl.h"
#include "raftd/fsm/catalog/catalog.h"
#include "raftd/fsm/read/watch.h"
#include "raftd/fsm/table/meta.h"

#define SEGMENTS_MAX 16			/* coordinates of one node */

static void
coordinate_key(struct tkey *k, struct span node, struct span segment)
{
	TKEY(k, TBL_COORDINATE, node);
	tkey_name(k, segment);
}

/* Decodes a stored record; false when it must not be used. */
static bool
sound(struct fsm *f, struct span val, struct arena *a, struct node_coordinate *out, struct coordinate *c)
{
	return tbl_decode(f, &node_coordinate_schema, val, a, out) && coordinate_of_rec(&out->Coord, c);
}

/* -- writing -- */

/* Nodes have one coordinate; the API knows segments, of which there may be a few. */
static bool
has_room(struct fsm *f, struct span node)
{
	struct span keys[SEGMENTS_MAX];
	struct tkey prefix;

	TKEY(&prefix, TBL_COORDINATE, node);
	return tbl_keys(f, &prefix, &f->work, keys, SEGMENTS_MAX) < SEGMENTS_MAX;
}

/* The node's name as it was registered, in f->work: all else that is known of it may be large, and a batch name many. */
static bool
node_spelling(struct fsm *f, struct span name, struct span *out)
{
	struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);
	struct node n;
	bool there = catalog_node(f, name, &one, &n);

	if (there) {
		*out = arena_copy(&f->work, n.Node);
		if (out->p == NULL)
			f->failed = ENOMEM;
	}
	arena_done(&one);
	return there && f->failed == 0;
}

static void
store(struct fsm *f, const struct node_coordinate *given)
{
	struct node_coordinate rec = *given;
	struct coordinate c;
	struct span old;
	struct tkey k;
	bool there;

	if (given->Node.len > FSM_NAME_BYTES_MAX || given->Segment.len > FSM_NAME_BYTES_MAX ||
	    !coordinate_of_rec(&given->Coord, &c) || !node_spelling(f, given->Node, &rec.Node))
		return;
	coordinate_key(&k, rec.Node, rec.Segment);
	buf_reset(&f->pack);
	schema_pack(&node_coordinate_schema, &rec, &f->pack);
	if (f->pack.failed)
		f->failed = ENOMEM;
	there = tbl_peek(f, &k, &old);
	if (there && span_eq(old, buf_span(&f->pack)))
		return;				/* a node at rest wakes no one */
	if (!there) {
		if (!has_room(f, rec.Node))
			return;
		fsm_count(f, FT_COORDINATES, 1);
	}
	tbl_put_rec(f, &k, &node_coordinate_schema, &rec);
	fsm_touch(f, FX_COORDINATES);
}

static void
coordinate_batch_apply(struct apply *p, const void *rec)
{
	const struct coordinate_batch *q = rec;
	const struct node_coordinate *updates = q->Updates.v;

	for (uint32_t i = 0; i < q->Updates.n && p->f->failed == 0; i++)
		store(p->f, &updates[i]);
	apply_bool(p, true);
}

void
coordinate_node_gone(struct fsm *f, struct span node)
{
	struct span keys[SEGMENTS_MAX];
	struct tkey prefix, k;
	uint32_t n;

	TKEY(&prefix, TBL_COORDINATE, node);
	n = tbl_keys(f, &prefix, &f->work, keys, SEGMENTS_MAX);
	for (uint32_t i = 0; i < n; i++) {
		tbl_key_of(&k, keys[i]);
		(void)tbl_del(f, &k);		/* it is there */
	}
	fsm_count(f, FT_COORDINATES, -(int)n);
	if (n > 0)
		fsm_touch(f, FX_COORDINATES);
}

/* -- reading -- */

bool
coordinate_of_node(struct fsm *f, struct span node, struct arena *a, struct coordinate *out)
{
	struct node_coordinate rec;
	struct span val;
	struct tkey k;

	coordinate_key(&k, node, SPAN_NONE);
	return node.len <= FSM_NAME_BYTES_MAX && tbl_peek(f, &k, &val) && sound(f, val, a, &rec, out);
}

static void
read_below(struct reading *r, const struct tkey *prefix, const struct coordinate_read *q)
{
	struct arena a = ARENA_INIT(FSM_ANSWER_BYTES_MAX);
	size_t at = list_begin(r->out);
	struct tbl_scan s;
	struct span key, val;
	uint32_t n = 0;

	tbl_scan_begin(r->f, &s, prefix);
	while (!r->out->failed && tbl_next(&s, &key, &val)) {
		struct node_coordinate rec;
		struct coordinate c;

		arena_reset(&a);
		if (!sound(r->f, val, &a, &rec, &c) || (q->BySegment && !span_eq(rec.Segment, q->Segment)) || !may_read_node(r, rec.Node))
			continue;
		buf_putspan(r->out, val);
		n++;
	}
	tbl_scan_end(&s);
	arena_done(&a);
	list_end(r->out, at, n);
	r->ans->index = fsm_index_of(r->f, FX_COORDINATES);
}

static void
coordinate_read_nodes(struct reading *r, const void *rec)
{
	struct tkey all;

	tkey_begin(&all, TBL_COORDINATE);
	read_below(r, &all, rec);
}

static void
coordinate_read_node(struct reading *r, const void *rec)
{
	const struct coordinate_read *q = rec;
	struct tkey prefix;

	TKEY(&prefix, TBL_COORDINATE, q->Node);
	read_below(r, &prefix, q);
}

const struct fsm_op coordinate_ops[] = {
	{ OP_COORDINATE_BATCH, .apply = coordinate_batch_apply },
	{ OP_COORDINATE_NODES, .read = coordinate_read_nodes },
	{ OP_COORDINATE_NODE, .read = coordinate_read_node },
	{ 0 },
};
