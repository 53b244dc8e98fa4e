/* The search: operations take effect when an end demands it, wrong turns are undone and remembered. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/linear_int.h"

struct hash {
	uint64_t a, b;
};

enum trace { TRACE_START, TRACE_ORDER, TRACE_VALUE };

struct turn {			/* what was done, to be undone in reverse */
	enum trace what;
	uint32_t op;		/* VALUE: the key */
	uint32_t slot;		/* VALUE: what was there */
};

struct choice {
	uint32_t op, class;	/* lower classes first, then earlier deadlines */
	int64_t deadline;
};

struct frame {			/* a decision: who takes effect so that somebody can end */
	size_t moment, turns;
	size_t first, next, end;	/* choices, and the one to try next */
	struct hash hash;
};

struct search {
	struct linear *l;
	const struct moment *m;
	size_t count, at;
	uint32_t head;		/* operations that began and are not in the order, newest first */
	struct turn *turns;
	size_t turn_count, turn_cap;
	struct choice *choices;
	size_t choice_count, choice_cap;
	struct frame *frames;
	size_t frame_count, frame_cap;
	struct hash hash;	/* of the order's members and the values */
	struct hash *dead;	/* configurations that lead nowhere; {0,0}: free place */
	size_t dead_count, dead_cap;
	size_t furthest;
	bool quick;
	bool any;		/* the report is filled in */
};

/* -- hashes: 128 bits, so that two configurations are never taken for one */

static uint64_t
scramble(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static void
stir(struct hash *h, uint64_t kind, uint64_t x, uint64_t y)
{
	h->a ^= scramble(scramble(x + (kind << 40) + 0x9e3779b97f4a7c15u) + y);
	h->b ^= scramble(scramble(y + (kind << 40) + 0xd1b54a32d192ed03u) ^ (x * 0x2545f4914f6cdd1du + 1));
}

static struct hash *
dead_place(struct hash *table, size_t cap, struct hash h)
{
	size_t at = h.a & (cap - 1);

	while ((table[at].a != 0 || table[at].b != 0) && (table[at].a != h.a || table[at].b != h.b))
		at = (at + 1) & (cap - 1);
	return &table[at];
}

static bool
is_dead(const struct search *s, struct hash h)
{
	const struct hash *p;

	if (s->dead_cap == 0)
		return false;
	p = dead_place(s->dead, s->dead_cap, h);
	return p->a != 0 || p->b != 0;
}

static void
bury(struct search *s, struct hash h)
{
	if (s->dead_count * 2 >= s->dead_cap) {
		size_t cap = s->dead_cap > 0 ? s->dead_cap * 2 : 1024;
		struct hash *to = calloc(cap, sizeof(*to));

		TV_ASSERT(to != NULL);
		for (size_t i = 0; i < s->dead_cap; i++)
			if (s->dead[i].a != 0 || s->dead[i].b != 0)
				*dead_place(to, cap, s->dead[i]) = s->dead[i];
		free(s->dead);
		s->dead = to;
		s->dead_cap = cap;
	}
	*dead_place(s->dead, s->dead_cap, h) = h;
	s->dead_count++;
}

/* -- doing and undoing */

static void
remember(struct search *s, enum trace what, uint32_t op, uint32_t slot)
{
	s->turns = linear_grow(s->turns, &s->turn_cap, s->turn_count + 1, sizeof(s->turns[0]));
	s->turns[s->turn_count++] = (struct turn){ what, op, slot };
}

static void
list_remove(struct search *s, uint32_t i)
{
	struct op *ops = s->l->ops;

	if (ops[i].prev != NOBODY)
		ops[ops[i].prev].next = ops[i].next;
	else
		s->head = ops[i].next;
	if (ops[i].next != NOBODY)
		ops[ops[i].next].prev = ops[i].prev;
}

/* The reverse of list_remove(), as long as all is undone in order. */
static void
list_return(struct search *s, uint32_t i)
{
	struct op *ops = s->l->ops;

	if (ops[i].prev != NOBODY)
		ops[ops[i].prev].next = i;
	else
		s->head = i;
	if (ops[i].next != NOBODY)
		ops[ops[i].next].prev = i;
}

static void
begin(struct search *s, uint32_t i)
{
	struct op *o = &s->l->ops[i];

	o->prev = NOBODY;
	o->next = s->head;
	list_return(s, i);
	remember(s, TRACE_START, i, 0);
}

static void
set_value(struct search *s, uint32_t key, uint32_t slot)
{
	stir(&s->hash, 1, key, s->l->state[key]);
	stir(&s->hash, 1, key, slot);
	s->l->state[key] = slot;
}

static void
count_left(struct search *s, const struct op *o, uint32_t by)
{
	for (uint32_t i = 0; o->sure && o->outcome != LIN_FALSE && i < o->count; i++) {
		const struct step *st = &s->l->steps[o->first + i];

		if (st->kind != LIN_WRITE)
			s->l->slots[st->slot].left += by;
	}
}

static void
take_effect(struct search *s, uint32_t i)
{
	struct op *o = &s->l->ops[i];

	list_remove(s, i);
	o->done = true;
	stir(&s->hash, 2, i, 0);
	count_left(s, o, (uint32_t)-1);
	remember(s, TRACE_ORDER, i, 0);
	for (uint32_t k = 0; !o->pure && k < o->count; k++) {
		const struct step *st = &s->l->steps[o->first + k];
		uint32_t key = s->l->slots[st->slot].key;

		if (st->kind != LIN_WRITE)
			continue;
		remember(s, TRACE_VALUE, key, s->l->state[key]);
		set_value(s, key, st->slot);
	}
}

static void
undo_to(struct search *s, size_t turns)
{
	while (s->turn_count > turns) {
		struct turn t = s->turns[--s->turn_count];

		if (t.what == TRACE_START) {
			list_remove(s, t.op);
		} else if (t.what == TRACE_VALUE) {
			set_value(s, t.op, t.slot);
		} else {
			s->l->ops[t.op].done = false;
			stir(&s->hash, 2, t.op, 0);
			count_left(s, &s->l->ops[t.op], 1);
			list_return(s, t.op);
		}
	}
}

/* -- what may take effect */

/* Those who saw the value that o overwrites have all had their turn, apart from o itself. */
static bool
may_overwrite(const struct search *s, const struct op *o, uint32_t key)
{
	const struct slot *was = &s->l->slots[s->l->state[key]];
	uint32_t own = 0;

	if (was->value == LIN_ABSENT || was->writers > 1)
		return true;	/* it may come again */
	for (uint32_t i = 0; o->sure && i < o->count; i++) {
		const struct step *st = &s->l->steps[o->first + i];

		own += st->kind != LIN_WRITE && &s->l->slots[st->slot] == was;
	}
	return was->left <= own;
}

/* The first span of the key that ends after now: all others are in the order. */
static size_t
first_span(const struct linear *l, uint32_t key, int64_t now)
{
	size_t low = l->key_spans[key], high = l->key_spans[key + 1];

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (l->spans[mid].first_end < now)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/*
 * Those who wrote and saw a value have their turns together, before or after all those of another value.  So one of whom
 * somebody ended before the last of these began must have been written before.
 */
static bool
too_early(const struct search *s, const struct op *o, const struct slot *written)
{
	const struct linear *l = s->l;
	int64_t last_start = written->last_start > o->start ? written->last_start : o->start;

	if (!o->sure || written->value == LIN_ABSENT || written->writers > 1)
		return false;
	for (size_t i = first_span(l, written->key, s->m[s->at].at); i < l->key_spans[written->key + 1]; i++) {
		const struct span_of_value *other = &l->spans[i];

		if (other->first_end >= last_start)
			break;
		if (!l->ops[other->writer].done && &l->ops[other->writer] != o)
			return true;
	}
	return false;
}

static bool
possible(const struct search *s, const struct op *o)
{
	bool differs = false;

	for (uint32_t i = 0; i < o->count; i++) {
		const struct step *st = &s->l->steps[o->first + i];
		uint32_t key = s->l->slots[st->slot].key;

		if (o->outcome == LIN_FALSE)
			differs |= st->kind == LIN_CHECK && s->l->state[key] != st->slot;
		else if (st->kind != LIN_WRITE && s->l->state[key] != st->slot)
			return false;
		else if (st->kind == LIN_WRITE && (!may_overwrite(s, o, key) || too_early(s, o, &s->l->slots[st->slot])))
			return false;
	}
	return o->outcome != LIN_FALSE || differs;
}

/* What only looks may look now: that never stands in the way of anything. */
static void
let_look(struct search *s)
{
	const struct op *ops = s->l->ops;

	for (uint32_t i = s->head; i != NOBODY; ) {
		uint32_t next = ops[i].next;

		if (ops[i].pure && possible(s, &ops[i]))
			take_effect(s, i);
		i = next;
	}
}

/* Goes on to the next end that needs a decision; false: there is none, all is explained. */
static bool
forward(struct search *s)
{
	for (; s->at < s->count; s->at++) {
		const struct moment *m = &s->m[s->at];
		const struct op *o = &s->l->ops[m->op];

		if (m->end && !o->done)
			return true;
		if (m->end)
			continue;
		begin(s, m->op);
		if (o->pure && possible(s, o))
			take_effect(s, m->op);
	}
	return false;
}

/* -- decisions */

/* A plain write of a value that nobody saw: it may hide just before any other write there. */
static bool
unseen(const struct search *s, const struct op *o)
{
	const struct step *st = &s->l->steps[o->first];

	return o->sure && o->count == 1 && !o->pure && s->l->slots[st->slot].seen_last == INT64_MIN;
}

/* Writes that hide before i, which overwrites them: where comparisons failed there may be better places. */
static void
hide_before(struct search *s, uint32_t i, uint32_t slot)
{
	const struct op *ops = s->l->ops;
	uint32_t key = s->l->slots[slot].key;

	for (uint32_t k = 0; k < ops[i].count; k++) {
		const struct step *st = &s->l->steps[ops[i].first + k];

		if (st->kind != LIN_WRITE && s->l->slots[st->slot].key == key)
			return;		/* it looks at what was before */
	}
	for (uint32_t k = s->head; k != NOBODY; ) {
		uint32_t next = ops[k].next;

		if (k != i && unseen(s, &ops[k]) && s->l->slots[s->l->steps[ops[k].first].slot].key == key &&
		    (s->quick || s->l->false_end[key] < ops[k].start)) {
			list_remove(s, k);
			s->l->ops[k].done = true;
			stir(&s->hash, 2, k, 0);
			remember(s, TRACE_ORDER, k, 0);
		}
		k = next;
	}
}

static void
choose(struct search *s, uint32_t i)
{
	const struct op *o = &s->l->ops[i];

	for (uint32_t k = 0; k < o->count; k++)
		if (s->l->steps[o->first + k].kind == LIN_WRITE)
			hide_before(s, i, s->l->steps[o->first + k].slot);
	take_effect(s, i);
	let_look(s);
}

/* Does somebody who began wait for another value than the one at that key? */
static bool
wanted_otherwise(const struct search *s, uint32_t key)
{
	const struct op *ops = s->l->ops;

	for (uint32_t i = s->head; i != NOBODY; i = ops[i].next)
		for (uint32_t k = 0; ops[i].outcome == LIN_FALSE && k < ops[i].count; k++)
			if (s->l->slots[s->l->steps[ops[i].first + k].slot].key == key)
				return true;
	return false;
}

/*
 * One that perhaps never happened, and whose values nobody saw, can only be there so that a comparison fails; it can wait
 * for that one to begin, unless it touches another key, whose state it needs or spoils.
 */
static bool
useless(const struct search *s, const struct op *o)
{
	uint32_t key = s->l->slots[s->l->steps[o->first].slot].key;

	for (uint32_t i = 0; i < o->count; i++) {
		const struct step *st = &s->l->steps[o->first + i];
		const struct slot *slot = &s->l->slots[st->slot];

		if (slot->key != key || (st->kind == LIN_WRITE && slot->seen_last != INT64_MIN))
			return false;
	}
	return !wanted_otherwise(s, key);
}

/* Of two plain writes that nobody saw and that may never have happened one is as good as the other. */
static bool
twin(const struct search *s, const struct frame *f, const struct op *o)
{
	const struct slot *slot = &s->l->slots[s->l->steps[o->first].slot];

	if (o->count != 1 || slot->seen_last != INT64_MIN)
		return false;
	for (size_t i = f->first; i < s->choice_count; i++) {
		const struct op *other = &s->l->ops[s->choices[i].op];
		const struct slot *its = &s->l->slots[s->l->steps[other->first].slot];

		if (!other->sure && other->count == 1 && its->key == slot->key && its->seen_last == INT64_MIN)
			return true;
	}
	return false;
}

static bool
needs(const struct search *s, const struct op *must, uint32_t slot)
{
	for (uint32_t i = 0; i < must->count; i++)
		if (s->l->steps[must->first + i].kind != LIN_WRITE && s->l->steps[must->first + i].slot == slot)
			return true;
	return false;
}

/* First whoever must, then those whose values it saw, then others that surely happened. */
static struct choice
weigh(const struct search *s, uint32_t i, uint32_t must)
{
	const struct op *o = &s->l->ops[i];
	struct choice c = { i, i == must ? 0 : o->sure ? 2 : 4, o->end };

	for (uint32_t k = 0; k < o->count; k++) {
		const struct step *st = &s->l->steps[o->first + k];

		if (st->kind != LIN_WRITE)
			continue;
		if (c.class == 2 && needs(s, &s->l->ops[must], st->slot))
			c.class = 1;
		if (s->l->slots[st->slot].seen_end < c.deadline)
			c.deadline = s->l->slots[st->slot].seen_end;
	}
	if (c.class == 2 && unseen(s, o))
		c.class = 3;
	return c;
}

static int
by_weight(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;

	if (x->class != y->class)
		return x->class < y->class ? -1 : 1;
	if (x->deadline != y->deadline)
		return x->deadline < y->deadline ? -1 : 1;
	return x->op < y->op ? -1 : x->op > y->op;
}

static void
list_choices(struct search *s, struct frame *f, uint32_t must)
{
	const struct op *ops = s->l->ops;

	f->first = f->next = s->choice_count;
	for (uint32_t i = s->head; i != NOBODY; i = ops[i].next) {
		if ((ops[i].pure && i != must) || !possible(s, &ops[i]))
			continue;
		if (s->quick && i != must && unseen(s, &ops[i]))
			continue;
		if (!ops[i].sure && (useless(s, &ops[i]) || twin(s, f, &ops[i])))
			continue;
		s->choices = linear_grow(s->choices, &s->choice_cap, s->choice_count + 1, sizeof(s->choices[0]));
		s->choices[s->choice_count++] = weigh(s, i, must);
	}
	f->end = s->choice_count;
	if (f->end - f->first > 1)
		qsort(s->choices + f->first, f->end - f->first, sizeof(s->choices[0]), by_weight);
}

static void
note_furthest(struct search *s, struct lin_report *report)
{
	const struct op *o = &s->l->ops[s->m[s->at].op];

	if (s->any && s->at <= s->furthest)
		return;
	s->any = true;
	s->furthest = s->at;
	*report = (struct lin_report){ .tag = o->tag, .why = "fits into no order", .keys = s->l->report_keys, .values = s->l->report_values };
	for (uint32_t i = 0; i < o->count && i < sizeof(s->l->report_keys) / sizeof(s->l->report_keys[0]); i++) {
		uint32_t key = s->l->slots[s->l->steps[o->first + i].slot].key;

		s->l->report_keys[i] = key;
		s->l->report_values[i] = s->l->slots[s->l->state[key]].value;
		report->key_count++;
	}
}

/* A decision is due at s->at.  A configuration that is known to lead nowhere is none. */
static void
push_frame(struct search *s, struct lin_report *report)
{
	struct frame f = { .moment = s->at, .turns = s->turn_count, .hash = s->hash };

	stir(&f.hash, 3, s->at, 0);
	if (is_dead(s, f.hash))
		return;
	note_furthest(s, report);
	list_choices(s, &f, s->m[s->at].op);
	s->frames = linear_grow(s->frames, &s->frame_cap, s->frame_count + 1, sizeof(s->frames[0]));
	s->frames[s->frame_count++] = f;
}

/* Takes the next turn of the newest decision that has one; false: none has. */
static bool
decide(struct search *s)
{
	while (s->frame_count > 0) {
		struct frame *f = &s->frames[s->frame_count - 1];

		undo_to(s, f->turns);
		s->at = f->moment;
		if (f->next < f->end) {
			choose(s, s->choices[f->next++].op);
			return true;
		}
		bury(s, f->hash);
		s->choice_count = f->first;
		s->frame_count--;
	}
	return false;
}

enum lin_verdict
linear_search(struct linear *l, const struct moment *m, size_t count, bool quick, uint64_t work,
    struct lin_report *report)
{
	struct search s = { .l = l, .m = m, .count = count, .head = NOBODY, .quick = quick };
	enum lin_verdict verdict = LIN_YES;
	uint64_t steps = 0;

	while (forward(&s)) {
		push_frame(&s, report);
		if (!decide(&s)) {
			verdict = LIN_NO;
			break;
		}
		if (++steps > work) {
			verdict = LIN_TOO_HARD;
			break;
		}
	}
	free(s.turns);
	free(s.choices);
	free(s.frames);
	free(s.dead);
	return verdict;
}
