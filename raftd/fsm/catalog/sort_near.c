/*
 * Sorting an answer by the estimated round trip from one node.  The records are written in their usual order; each is
 * noted with its distance, and in the end they change places.  Stable: what is equally far, or has no coordinate
 * and comes last, keeps its order; unless the answer is shuffled.  Source: http-api, section 6.2.
 */
#include <stdlib.h>

#include <sodium.h>

#include "common/base/array.h"
#include "raftd/fsm/catalog/catalog.h"
#include "raftd/fsm/catalog/sort_near.h"

#define OWN_AMONG 10			/* the first records, where the node itself is looked for */

/* The node of this address, the first by name. */
static bool
node_at(struct fsm *f, struct span address, struct arena *a, struct node *out)
{
	struct tbl_scan s;
	struct tkey prefix;
	struct span key, val;
	bool found = false;

	tkey_begin(&prefix, TBL_NODE);
	tbl_scan_begin(f, &s, &prefix);
	while (!found && tbl_next(&s, &key, &val)) {
		arena_reset(a);
		found = tbl_decode(f, &node_schema, val, a, out) && span_eq(out->Address, address);
		if (found)			/* its bytes go with the scan */
			out->Node = arena_copy(a, out->Node);
	}
	tbl_scan_end(&s);
	return found;
}

void
sort_near_begin(struct sort_near *n, struct fsm *f, const struct catalog_read *q)
{
	struct node node;
	struct span from = q->Near;

	*n = (struct sort_near){ .f = f, .arena = ARENA_INIT(FSM_RECORD_MEMORY), .last_rtt = COORDINATE_FAR };
	buf_init(&n->last, FSM_NAME_BYTES_MAX);
	buf_init(&n->own, FSM_NAME_BYTES_MAX);
	if (from.len == 0 && q->NearAddress.len > 0 && node_at(f, q->NearAddress, &n->arena, &node))
		from = node.Node;
	buf_putspan(&n->own, from);
	n->active = from.len > 0 && coordinate_of_node(f, from, &n->arena, &n->from);
}

void
sort_near_begin_shuffled(struct sort_near *n, struct fsm *f, const struct catalog_read *q)
{
	uint64_t seed;

	sort_near_begin(n, f, q);
	n->shuffled = true;
	randombytes_buf(&seed, sizeof(seed));
	rng_seed(&n->rng, seed);
}

/* Checks and instances come node by node: the last one is remembered. */
static int64_t
rtt_to(struct sort_near *n, struct span node)
{
	struct coordinate c;

	if (n->last.len > 0 && span_eq(buf_span(&n->last), node))
		return n->last_rtt;
	arena_reset(&n->arena);
	n->last_rtt = coordinate_of_node(n->f, node, &n->arena, &c) ? coordinate_rtt(&n->from, &c).ns : COORDINATE_FAR;
	buf_reset(&n->last);
	buf_putspan(&n->last, node);
	return n->last_rtt;
}

void
sort_near_note(struct sort_near *n, size_t at, struct span node)
{
	if ((!n->active && !n->shuffled) || n->failed)
		return;
	n->failed = !array_reserve(&n->records, &n->cap, n->count + 1, sizeof(*n->records));
	if (n->failed)
		return;
	n->records[n->count] = (struct near_record){ .at = at, .rtt = n->active ? rtt_to(n, node) : 0,
	    .order = n->shuffled ? rng_u64(&n->rng) : 0,
	    .own = n->shuffled && n->own.len > 0 && span_eq_nocase(buf_span(&n->own), node) };
	n->count++;
}

static int
by_rtt(const void *a, const void *b)
{
	const struct near_record *x = a, *y = b;

	if (x->rtt != y->rtt)
		return x->rtt < y->rtt ? -1 : 1;
	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static void
own_first(struct sort_near *n)
{
	for (size_t i = 0; i < n->count && i < OWN_AMONG; i++)
		if (n->records[i].own) {
			struct near_record first = n->records[0];

			n->records[0] = n->records[i];
			n->records[i] = first;
			return;
		}
}

/* The first `count` of them stay. */
static void
change_places(struct sort_near *n, struct buf *out, size_t count)
{
	struct buf sorted = BUF_INIT(FSM_ANSWER_BYTES_MAX);
	size_t begin = n->records[0].at;

	for (size_t i = 0; i < n->count; i++)
		n->records[i].len = (i + 1 < n->count ? n->records[i + 1].at : out->len) - n->records[i].at;
	qsort(n->records, n->count, sizeof(*n->records), by_rtt);
	own_first(n);
	for (size_t i = 0; i < count; i++)
		buf_put(&sorted, out->data + n->records[i].at, n->records[i].len);
	if (sorted.failed) {
		n->failed = true;
	} else {
		memcpy(out->data + begin, sorted.data, sorted.len);
		out->len = begin + sorted.len;
	}
	buf_done(&sorted);
}

static void
finish_sort(struct sort_near *n, struct buf *out, size_t count)
{
	if (n->count > 1 && !out->failed && !n->failed)
		change_places(n, out, count);
	if (n->failed)
		out->failed = true;
	free(n->records);
	buf_done(&n->last);
	buf_done(&n->own);
	arena_done(&n->arena);
}

void
sort_near_end(struct sort_near *n, struct buf *out)
{
	finish_sort(n, out, n->count);
}

uint32_t
sort_near_end_shuffled(struct sort_near *n, struct buf *out, uint64_t limit)
{
	size_t count = limit > 0 && limit < n->count ? (size_t)limit : n->count;

	finish_sort(n, out, count);
	return (uint32_t)count;
}
