/* Histories: what is known of the operations before the search, and which of them belong together. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/linear_int.h"

void *
linear_grow(void *p, size_t *cap, size_t need, size_t size)
{
	if (need <= *cap)
		return p;
	*cap = *cap * 2 > need ? *cap * 2 : need + 64;
	p = realloc(p, *cap * size);
	TV_ASSERT(p != NULL);
	return p;
}

struct linear *
linear_new(void)
{
	struct linear *l = calloc(1, sizeof(*l));

	TV_ASSERT(l != NULL);
	return l;
}

void
linear_free(struct linear *l)
{
	if (l == NULL)
		return;
	free(l->ops);
	free(l->steps);
	free(l->slots);
	free(l->slot_table);
	free(l->parent);
	free(l->false_end);
	free(l->state);
	free(l->moments);
	free(l->spans);
	free(l->key_spans);
	free(l);
}

/* -- values */

static uint64_t
mix(uint64_t a, uint64_t b)
{
	uint64_t h = (a + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u ^ b;

	h = (h ^ (h >> 29)) * 0x94d049bb133111ebu;
	return h ^ (h >> 32);
}

static uint32_t *
table_place(struct linear *l, uint32_t key, uint64_t value)
{
	size_t at = mix(key, value) & (l->table_cap - 1);

	while (l->slot_table[at] != 0) {
		const struct slot *s = &l->slots[l->slot_table[at] - 1];

		if (s->key == key && s->value == value)
			break;
		at = (at + 1) & (l->table_cap - 1);
	}
	return &l->slot_table[at];
}

static void
grow_table(struct linear *l)
{
	free(l->slot_table);
	l->table_cap = l->table_cap > 0 ? l->table_cap * 2 : 1024;
	l->slot_table = calloc(l->table_cap, sizeof(l->slot_table[0]));
	TV_ASSERT(l->slot_table != NULL);
	for (size_t i = 0; i < l->slot_count; i++)
		*table_place(l, l->slots[i].key, l->slots[i].value) = (uint32_t)i + 1;
}

static uint32_t
slot_of(struct linear *l, uint32_t key, uint64_t value)
{
	uint32_t *place;

	if (l->slot_count * 2 >= l->table_cap)
		grow_table(l);
	place = table_place(l, key, value);
	if (*place == 0) {
		l->slots = linear_grow(l->slots, &l->slot_cap, l->slot_count + 1, sizeof(l->slots[0]));
		l->slots[l->slot_count++] = (struct slot){ .key = key, .value = value, .seen_end = INT64_MAX,
			.seen_last = INT64_MIN, .last_start = INT64_MIN };
		*place = (uint32_t)l->slot_count;
	}
	return *place - 1;
}

void
linear_add(struct linear *l, const struct lin_op *op, const struct lin_step *steps, size_t count)
{
	struct op *o;

	if (op->outcome == LIN_NONE)
		return;		/* whoever sees its values sees what nobody wrote */
	l->ops = linear_grow(l->ops, &l->op_cap, l->op_count + 1, sizeof(l->ops[0]));
	l->steps = linear_grow(l->steps, &l->step_cap, l->step_count + count, sizeof(l->steps[0]));
	o = &l->ops[l->op_count++];
	*o = (struct op){ .start = op->start, .end = op->outcome == LIN_UNKNOWN ? INT64_MAX : op->end, .tag = op->tag,
		.outcome = op->outcome, .first = (uint32_t)l->step_count, .count = (uint32_t)count,
		.sure = op->outcome != LIN_UNKNOWN, .pure = true };
	for (size_t i = 0; i < count; i++) {
		struct step *s = &l->steps[l->step_count++];

		*s = (struct step){ steps[i].kind, slot_of(l, steps[i].key, steps[i].value) };
		if (steps[i].key >= l->key_count)
			l->key_count = steps[i].key + 1;
		if (s->kind == LIN_WRITE && op->outcome != LIN_FALSE) {
			o->pure = false;
			l->slots[s->slot].writers++;
			l->slots[s->slot].written = op->start;
		}
	}
}

/* -- what is known */

/* Whoever sees a value that only one can have written proves that it was. */
static bool
unique(const struct slot *s)
{
	return s->value != LIN_ABSENT && s->writers == 1;
}

/* o surely happened, and saw what it says. */
static void
count_sights(struct linear *l, const struct op *o)
{
	for (uint32_t i = 0; o->outcome != LIN_FALSE && i < o->count; i++) {
		const struct step *st = &l->steps[o->first + i];
		struct slot *s = &l->slots[st->slot];

		if (st->kind == LIN_WRITE)
			continue;
		s->seen++;
		if (o->end < s->seen_end)
			s->seen_end = o->end;
		if (o->end > s->seen_last)
			s->seen_last = o->end;
		if (o->start > s->last_start)
			s->last_start = o->start;
	}
}

/* Operations of unknown outcome whose value somebody saw did happen, before that one's end. */
static bool
prove(struct linear *l, struct op *o)
{
	for (uint32_t i = 0; i < o->count; i++) {
		const struct step *st = &l->steps[o->first + i];
		const struct slot *s = &l->slots[st->slot];

		if (st->kind != LIN_WRITE || !unique(s) || s->seen == 0)
			continue;
		o->sure = true;
		o->end = s->seen_end > o->start ? s->seen_end : o->start;
		count_sights(l, o);
		return true;
	}
	return false;
}

/* Without it, can anything look different?  Only if somebody saw its value later, or that another was gone. */
static bool
matters(const struct linear *l, const struct op *o)
{
	for (uint32_t i = 0; i < o->count; i++) {
		const struct step *st = &l->steps[o->first + i];
		const struct slot *s = &l->slots[st->slot];

		if (st->kind == LIN_WRITE && (s->seen_last >= o->start || l->false_end[s->key] >= o->start))
			return true;
	}
	return false;
}

/* What may have happened needs, in its turn, the values that it compared with. */
static bool
keep(struct linear *l, struct op *o)
{
	if (!matters(l, o))
		return false;
	o->dropped = false;
	for (uint32_t i = 0; i < o->count; i++)
		if (l->steps[o->first + i].kind != LIN_WRITE)
			l->slots[l->steps[o->first + i].slot].seen_last = INT64_MAX;
	return true;
}

static void
note_false(struct linear *l, const struct op *o)
{
	for (uint32_t i = 0; i < o->count; i++) {
		const struct step *st = &l->steps[o->first + i];
		struct slot *s = &l->slots[st->slot];

		if (o->end > l->false_end[s->key])
			l->false_end[s->key] = o->end;
		if (st->kind == LIN_CHECK && o->end > s->seen_last)
			s->seen_last = o->end;
	}
}

static void
learn(struct linear *l)
{
	bool more = true;

	for (size_t i = 0; i < l->op_count; i++) {
		if (l->ops[i].outcome == LIN_FALSE)
			note_false(l, &l->ops[i]);
		if (l->ops[i].sure)
			count_sights(l, &l->ops[i]);
	}
	while (more) {
		more = false;
		for (size_t i = 0; i < l->op_count; i++)
			if (!l->ops[i].sure)
				more |= prove(l, &l->ops[i]);
	}
	for (size_t i = 0; i < l->op_count; i++)
		l->ops[i].dropped = !l->ops[i].sure;
	for (more = true; more; ) {
		more = false;
		for (size_t i = 0; i < l->op_count; i++)
			if (l->ops[i].dropped)
				more |= keep(l, &l->ops[i]);
	}
}

/* -- spans of values */

static int
by_first_end(const void *a, const void *b)
{
	const struct span_of_value *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->first_end != y->first_end)
		return x->first_end < y->first_end ? -1 : 1;
	return x->writer < y->writer ? -1 : x->writer > y->writer;
}

static void
add_spans(struct linear *l, uint32_t writer)
{
	const struct op *o = &l->ops[writer];

	for (uint32_t i = 0; i < o->count; i++) {
		const struct step *st = &l->steps[o->first + i];
		const struct slot *s = &l->slots[st->slot];

		if (st->kind != LIN_WRITE || !unique(s))
			continue;
		l->spans[l->span_count++] = (struct span_of_value){ s->seen_end < o->end ? s->seen_end : o->end,
			s->last_start > o->start ? s->last_start : o->start, s->key, writer };
	}
}

static void
make_spans(struct linear *l)
{
	size_t at = 0;

	l->spans = malloc((l->step_count + 1) * sizeof(l->spans[0]));
	l->key_spans = malloc((l->key_count + 1) * sizeof(l->key_spans[0]));
	TV_ASSERT(l->spans != NULL && l->key_spans != NULL);
	for (size_t i = 0; i < l->op_count; i++)
		if (l->ops[i].sure && l->ops[i].outcome != LIN_FALSE)
			add_spans(l, (uint32_t)i);
	qsort(l->spans, l->span_count, sizeof(l->spans[0]), by_first_end);
	for (uint32_t k = 0; k <= l->key_count; k++) {
		while (at < l->span_count && l->spans[at].key < k)
			at++;
		l->key_spans[k] = at;
	}
}

/* -- groups */

static uint32_t
root(struct linear *l, uint32_t key)
{
	while (l->parent[key] != key)
		key = l->parent[key] = l->parent[l->parent[key]];
	return key;
}

static void
group_keys(struct linear *l)
{
	for (uint32_t k = 0; k < l->key_count; k++)
		l->parent[k] = k;
	for (size_t i = 0; i < l->op_count; i++) {
		const struct step *st = &l->steps[l->ops[i].first];

		for (uint32_t k = 1; k < l->ops[i].count; k++)
			l->parent[root(l, l->slots[st[k].slot].key)] = root(l, l->slots[st[0].slot].key);
	}
	for (size_t i = 0; i < l->op_count; i++)
		if (l->ops[i].count > 0)
			l->ops[i].group = root(l, l->slots[l->steps[l->ops[i].first].slot].key);
}

/* By group, then time; starts before ends of the same instant: those two overlap. */
static int
by_time(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	if (x->end != y->end)
		return x->end ? 1 : -1;
	return x->op < y->op ? -1 : x->op > y->op;
}

static void
sort_moments(struct linear *l)
{
	l->moments = malloc((l->op_count * 2 + 1) * sizeof(l->moments[0]));
	TV_ASSERT(l->moments != NULL);
	for (size_t i = 0; i < l->op_count; i++) {
		const struct op *o = &l->ops[i];

		if (o->dropped || o->count == 0)
			continue;
		l->moments[l->moment_count++] = (struct moment){ o->start, (uint32_t)i, o->group, false };
		if (o->sure)
			l->moments[l->moment_count++] = (struct moment){ o->end, (uint32_t)i, o->group, true };
	}
	qsort(l->moments, l->moment_count, sizeof(l->moments[0]), by_time);
}

static void
make_tables(struct linear *l)
{
	l->parent = calloc(l->key_count + 1, sizeof(l->parent[0]));
	l->false_end = malloc((l->key_count + 1) * sizeof(l->false_end[0]));
	l->state = calloc(l->key_count + 1, sizeof(l->state[0]));
	TV_ASSERT(l->parent != NULL && l->false_end != NULL && l->state != NULL);
	for (uint32_t k = 0; k < l->key_count; k++) {
		l->false_end[k] = INT64_MIN;
		(void)slot_of(l, k, LIN_ABSENT);
	}
}

/* Before anything happened. */
static void
reset(struct linear *l)
{
	for (uint32_t k = 0; k < l->key_count; k++)
		l->state[k] = slot_of(l, k, LIN_ABSENT);
	for (size_t i = 0; i < l->slot_count; i++)
		l->slots[i].left = l->slots[i].seen;
	for (size_t i = 0; i < l->op_count; i++)
		l->ops[i].done = false;
}

/* -- what needs no search */

/* Did o see what nobody wrote, or what was written only after it had ended? */
static const char *
impossible(const struct linear *l, const struct op *o)
{
	for (uint32_t i = 0; o->sure && o->outcome != LIN_FALSE && i < o->count; i++) {
		const struct step *st = &l->steps[o->first + i];
		const struct slot *s = &l->slots[st->slot];

		if (st->kind == LIN_WRITE || s->value == LIN_ABSENT)
			continue;
		if (s->writers == 0)
			return "saw a value that nobody wrote";
		if (s->writers == 1 && o->end < s->written)
			return "saw a value before it was written";
	}
	return NULL;
}

static enum lin_verdict
look_first(const struct linear *l, struct lin_report *report)
{
	for (size_t i = 0; i < l->op_count; i++) {
		const char *why = impossible(l, &l->ops[i]);

		if (why == NULL)
			continue;
		*report = (struct lin_report){ .tag = l->ops[i].tag, .why = why };
		return LIN_NO;
	}
	return LIN_YES;
}

/* All groups; quick: LIN_NO is no answer, it only means that the simple way found no order. */
static enum lin_verdict
search_groups(struct linear *l, bool quick, uint64_t work, struct lin_report *report)
{
	enum lin_verdict verdict = LIN_YES;
	struct lin_report of_group;

	reset(l);
	for (size_t at = 0, end; at < l->moment_count && verdict != LIN_NO; at = end) {
		enum lin_verdict v;

		for (end = at; end < l->moment_count && l->moments[end].group == l->moments[at].group; end++)
			;
		v = linear_search(l, l->moments + at, end - at, quick, work, &of_group);
		if (v == LIN_YES)
			continue;
		verdict = v;
		*report = of_group;
	}
	return verdict;
}

enum lin_verdict
linear_check(struct linear *l, uint64_t work, struct lin_report *report)
{
	struct lin_report unused;

	if (report == NULL)
		report = &unused;
	if (work == 0)
		work = 20000000;
	make_tables(l);
	learn(l);
	if (look_first(l, report) == LIN_NO)
		return LIN_NO;
	make_spans(l);
	group_keys(l);
	sort_moments(l);
	if (search_groups(l, true, work / 10, report) == LIN_YES)
		return LIN_YES;
	return search_groups(l, false, work, report);
}
