/* Checks of a node that many instances ask for. */
#include <stdlib.h>

#include "raftd/fsm/catalog/node_checks.h"

#define KEPT_MAX (16u << 20)		/* bytes of a node's checks, and once more of what is known of them */

/* 0 for the same id, whatever its case; else any order. */
static int
compare_ids(struct span a, struct span b)
{
	if (a.len != b.len)
		return a.len < b.len ? -1 : 1;
	for (size_t i = 0; i < a.len; i++) {
		uint8_t x = ascii_lower(a.p[i]), y = ascii_lower(b.p[i]);

		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}

static int
by_service(const void *a, const void *b)
{
	const struct node_check *x = a, *y = b;
	int order = compare_ids(x->service_id, y->service_id);

	return order != 0 ? order : x->at < y->at ? -1 : x->at > y->at;
}

void
node_checks_begin(struct fsm *f, struct node_checks *m)
{
	*m = (struct node_checks){ .f = f, .arena = ARENA_INIT(KEPT_MAX) };
	buf_init(&m->rows, KEPT_MAX);
	buf_init(&m->node, FSM_NAME_BYTES_MAX);
}

void
node_checks_end(struct node_checks *m)
{
	arena_done(&m->arena);
	buf_done(&m->rows);
	buf_done(&m->node);
}

/* False: no memory for it, which is no failure. */
static bool
keep_check(struct node_checks *m, struct span val, struct arena *one)
{
	struct node_check row = { .packed = arena_copy(&m->arena, val), .at = m->count };
	struct check c;

	if (row.packed.p == NULL || !tbl_decode(m->f, &check_schema, row.packed, one, &c))
		return false;
	row.service_id = c.ServiceID;
	row.id = c.CheckID;
	row.status = c.Status;
	buf_put(&m->rows, &row, sizeof(row));
	m->count++;
	return !m->rows.failed;
}

static bool
load(struct node_checks *m, struct span node)
{
	struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);
	struct tbl_scan s;
	struct tkey prefix;
	struct span key, val;
	bool all = true;

	TKEY(&prefix, TBL_CHECK, node);
	tbl_scan_begin(m->f, &s, &prefix);
	while (all && tbl_next(&s, &key, &val)) {
		arena_reset(&one);
		all = keep_check(m, val, &one);
	}
	tbl_scan_end(&s);
	arena_done(&one);
	if (all && m->count > 1)
		qsort(m->rows.data, m->count, sizeof(struct node_check), by_service);
	return all && m->f->failed == 0;
}

bool
node_checks_of(struct node_checks *m, struct span node)
{
	if (m->asked && span_eq(buf_span(&m->node), node)) {
		if (!m->tried)
			m->loaded = load(m, node);
		m->tried = true;
		return m->loaded;
	}
	arena_reset(&m->arena);
	buf_reset(&m->rows);
	buf_reset(&m->node);
	buf_putspan(&m->node, node);
	m->count = 0;
	m->asked = !m->node.failed;
	m->tried = m->loaded = false;
	return false;
}

/* The first one of this service id. */
static uint32_t
first_of(const struct node_checks *m, struct span service_id)
{
	const struct node_check *v = (const struct node_check *)(const void *)m->rows.data;
	uint32_t low = 0, high = m->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (compare_ids(v[mid].service_id, service_id) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool
is_of(const struct node_checks *m, uint32_t i, struct span service_id)
{
	const struct node_check *v = (const struct node_check *)(const void *)m->rows.data;

	return i < m->count && compare_ids(v[i].service_id, service_id) == 0;
}

bool
check_is_good(const struct check_rule *rule, struct span id, struct span status)
{
	for (uint32_t i = 0; rule != NULL && rule->ignored != NULL && i < rule->ignored->n; i++)
		if (span_eq(rule->ignored->v[i], id))
			return true;
	return rule == NULL || (rule->passing ? span_eqs(status, "passing") : !span_eqs(status, "critical"));
}

uint32_t
node_checks_put(const struct node_checks *m, struct span service_id, const struct check_rule *rule, struct buf *out,
    bool *good)
{
	const struct node_check *v = (const struct node_check *)(const void *)m->rows.data;
	uint32_t common = 0, own = service_id.len > 0 ? first_of(m, service_id) : m->count, n = 0;

	*good = true;
	for (;;) {
		bool left = is_of(m, common, SPAN_NONE), right = is_of(m, own, service_id);
		const struct node_check *next;

		if (out->failed || (!left && !right))
			return n;
		next = !right || (left && v[common].at < v[own].at) ? &v[common++] : &v[own++];
		buf_putspan(out, next->packed);
		*good = *good && check_is_good(rule, next->id, next->status);
		n++;
	}
}
