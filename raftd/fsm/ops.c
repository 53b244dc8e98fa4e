/* The operations of the state machine: the arrays of its areas, and the watch column of common/record/ops.h. */
#include "raftd/fsm/catalog/catalog.h"
#include "raftd/fsm/ops.h"

static const struct fsm_op *const areas[] = {
#define X(name) name,
	FSM_AREAS(X)
#undef X
};

const struct fsm_op *
fsm_op_find(uint16_t code)
{
	for (unsigned i = 0; i < sizeof(areas) / sizeof(areas[0]); i++)
		for (const struct fsm_op *op = areas[i]; op->code != 0; op++)
			if (op->code == code)
				return op;
	return NULL;
}

/* -- what a read waits on -- */

/* Tables that may be waited for, by the names of their indexes; a bit for each. */
enum {
#define T(name, letter, title, shown, names, rest, key, value, ...) __VA_ARGS__
#define OWN()
#define TALLY(name)
#define INDEX(name) name = 1 << FX_##name,
	FSM_TABLES(T)
#undef T
#undef OWN
#undef TALLY
#undef INDEX
};
_Static_assert(FX_COUNT < 31, "a set of tables is an int");

#define WATCH(...) WATCH_(__VA_ARGS__)
#define WATCH_(args_, kind_, ...) WATCH_##kind_(args_, __VA_ARGS__)
#define WATCH_NOTHING(args_, ...) { .kind = WK_NOTHING }
#define WATCH_KEY(args_, field_) { .kind = WK_KEY, .field = offsetof(struct args_, field_) }
#define WATCH_PREFIX(args_, field_) { .kind = WK_PREFIX, .field = offsetof(struct args_, field_) }
#define WATCH_SERVICE(args_, field_) { .kind = WK_SERVICE, .field = offsetof(struct args_, field_) }
#define WATCH_CONNECT(args_, field_) { .kind = WK_SERVICE, .field = offsetof(struct args_, field_), .connect = true }
#define WATCH_TABLES(args_, set_) { .kind = WK_TABLE, .tables = (set_) }
#define WATCH_TABLES_IF(args_, set_, field_, more_) \
	{ .kind = WK_TABLE, .tables = (set_), .field = offsetof(struct args_, field_), .more = (more_) }

const struct watch_row *
watch_row_of(const struct op *op)
{
	static const struct watch_row rows[] = {
#define X(code_, name_, text_, kind_, args_, answer_, answers_, traits_, access_, watch_) \
		WATCH(args_, OP_PARTS watch_),
		OPS(X)
#undef X
	};

	return &rows[op - ops_all];
}

bool
watch_subject(const struct watch_row *w, const void *rec, struct arena *a, struct span *what, uint64_t *tables)
{
	const void *field = (const char *)rec + w->field;

	*what = SPAN_NONE;
	*tables = w->tables;
	if (w->kind == WK_TABLE) {
		if (w->more != 0 && ((const struct span_map *)field)->n > 0)
			*tables |= w->more;
		return true;
	}
	*what = *(const struct span *)field;
	if (w->kind != WK_SERVICE)
		return true;
	size_t len = what->len, more = w->connect ? sizeof(CONNECT_SUBJECT) : 0;
	uint8_t *lower = arena_alloc(a, len + more);
	if (lower == NULL)
		return false;
	for (size_t i = 0; i < len; i++)
		lower[i] = ascii_lower(what->p[i]);
	if (more > 0)
		memcpy(lower + len, CONNECT_SUBJECT, more);
	*what = span_of(lower, len + more);
	return true;
}
