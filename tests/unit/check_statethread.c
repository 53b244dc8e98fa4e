/*
 * The threads of the state against a state machine of one number: batches are applied in order and handed on when one ended
 * early; what waits for a disk, or takes long, holds up nobody else; what was dropped or stopped calls nobody.
 */
#include <check.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raftd/engine/statethread.h"

#define RESTORE_TYPE 99			/* of an entry that is a restore */
#define LARGE (100u << 10)		/* bytes of a large answer */

struct log_store { int unused; };

struct fsm {				/* the state, or a reader of it */
	struct fsm *of;			/* NULL: it is the state */
	_Atomic uint64_t applied;
	bool cached, begun;
	const _Atomic bool *unwanted;	/* of a reader */
	_Atomic unsigned pages, walks;	/* that a walk has looked at; of "pages" */
	sem_t *hang;			/* a read of "cold" waits for it */
	uint64_t fail_at;		/* applying this index fails */
	_Atomic unsigned readers, replaced_reads;
};

static struct fsm state;
static struct ev_loop *loop;

/* -- the state machine -- */

struct fsm *
fsm_reader(struct fsm *f)
{
	struct fsm *r = calloc(1, sizeof(*r));

	r->of = f;
	f->readers++;
	return r;
}

void
fsm_reader_free(struct fsm *r)
{
	r->of->readers--;
	free(r);
}

void
fsm_read_begin(struct fsm *r, bool cached)
{
	ck_assert(!r->begun);
	r->begun = true;
	r->cached = cached;
	r->applied = r->of->applied;
}

void
fsm_read_until(struct fsm *r, const _Atomic bool *unwanted)
{
	r->unwanted = unwanted;
}

void
fsm_read_end(struct fsm *r)
{
	ck_assert(r->begun);
	r->begun = false;
}

uint64_t
fsm_applied(const struct fsm *f)
{
	return f->applied;
}

unsigned
fsm_replaced(const struct fsm *f)
{
	(void)f;
	return 7;
}

struct fsm_touches { int unused; };

struct fsm_touches *
fsm_touches_new(void)
{
	return calloc(1, sizeof(struct fsm_touches));
}

void
fsm_touches_free(struct fsm_touches *t)
{
	free(t);
}

uint64_t
fsm_entry_work(const struct raft_entry *e)
{
	return e->size;
}

bool
fsm_is_restore(const struct raft_entry *e, char id[37])
{
	if (e->type == RESTORE_TYPE)
		strcpy(id, "restore");
	return e->type == RESTORE_TYPE;
}

enum tv_err
fsm_apply_batch(struct fsm *f, const struct raft_entry *entries, uint32_t count, struct arena *a,
    struct fsm_result *results, struct fsm_touches *t)
{
	(void)a, (void)t;
	for (uint32_t i = 0; i < count; i++) {
		ck_assert_uint_eq(entries[i].index, f->applied + i + 1);
		if (entries[i].index == f->fail_at)
			return TV_ECORRUPT;
		if (results != NULL)
			results[i] = (struct fsm_result){ .err = TV_OK };
	}
	f->applied += count;
	return TV_OK;
}

bool
fsm_is_at_hand(const struct fsm *f, const struct op *op)
{
	(void)f, (void)op;
	return true;
}

/* A thousand pages, of which each takes its time. */
static void
walk(struct fsm *r)
{
	r->of->walks++;
	for (unsigned i = 0; i < 1000 && !*r->unwanted; i++) {
		r->of->pages++;
		usleep(5000);
	}
}

/* "cold": not in the cache, and the disk may hang; "large"; "bad"; anything else is its own answer. */
void
fsm_read(struct fsm *r, const struct op *op, struct span args, struct arena *a, struct buf *out, struct fsm_answer *ans)
{
	(void)op, (void)a;
	ck_assert(r->begun);
	*ans = (struct fsm_answer){ .err = TV_OK, .index = 3 };
	if (span_eqs(args, "cold") && r->cached)
		ans->err = TV_EAGAIN;
	else if (span_eqs(args, "cold") && r->of->hang != NULL)
		sem_wait(r->of->hang);
	if (span_eqs(args, "pages"))
		walk(r);
	if (span_eqs(args, "replaced") && r->of->replaced_reads++ < 2)
		ans->err = TV_EAGAIN;
	if (span_eqs(args, "bad")) {
		ans->err = TV_EINVAL;
		ans->text = span_str("a sentence");
	}
	for (unsigned i = 0; span_eqs(args, "large") && i < LARGE; i++)
		buf_u8(out, 'x');
	buf_putspan(out, args);
}

void
fsm_read_as(struct fsm *r, const struct op *op, struct span args, struct span token, struct arena *a, struct buf *out,
    struct fsm_answer *ans, const struct fsm_rights **rights)
{
	ck_assert_uint_eq(token.len, 0);
	*rights = NULL;
	fsm_read(r, op, args, a, out, ans);
}

void
fsm_judge(struct fsm *r, const struct op *op, struct span args, struct span token, struct arena *a, struct buf *out,
    struct fsm_answer *ans, const struct fsm_rights **rights)
{
	fsm_read_as(r, op, args, token, a, out, ans, rights);
}

void
fsm_rights_free(const struct fsm_rights *r)
{
	ck_assert_ptr_null(r);
}

/* The log has all entries up to 50. */
enum tv_err
log_read(struct log_store *s, uint64_t first, uint64_t last, size_t bytes_max, struct arena *a, struct raft_entry **out,
    uint32_t *count)
{
	(void)s, (void)bytes_max;
	*count = 0;
	if (first > 50)
		return TV_ECORRUPT;
	*count = (uint32_t)((last > 50 ? 50 : last) - first + 1);
	*out = arena_array(a, *count, sizeof(**out));
	for (uint32_t i = 0; i < *count; i++)
		(*out)[i] = (struct raft_entry){ .index = first + i, .term = 1 };
	return TV_OK;
}

/* -- what came back -- */

struct seen {
	unsigned batches, reads, calls;
	uint32_t applied[8];
	bool restore[8], unread[8];
	enum tv_err err[8];
	struct statethread *s;
	char order[16];			/* of calls and batches */
};

static void
on_applied(void *ctx, struct state_batch *b)
{
	struct seen *seen = ctx;
	unsigned i = seen->batches++;

	seen->applied[i] = b->applied;
	seen->restore[i] = b->restore;
	seen->unread[i] = b->unread;
	seen->err[i] = b->err;
	strcat(seen->order, "b");
	statethread_batch_done(seen->s, b);
}

static const struct state_events events = { on_applied };

static struct statethread *
start(struct seen *seen)
{
	static struct log_store log;

	memset(seen, 0, sizeof(*seen));
	memset(&state, 0, sizeof(state));
	loop = ev_loop_new(EVFLAG_AUTO);
	seen->s = statethread_new(loop);
	ck_assert_int_eq(statethread_open(seen->s, &state, &log), TV_OK);
	ck_assert_ptr_nonnull(seen->s);
	statethread_events(seen->s, &events, seen);
	return seen->s;
}

static void
end(struct statethread *s)
{
	statethread_stop(s);
	statethread_free(s);
	ck_assert_uint_eq(state.readers, 0);
	ev_loop_destroy(loop);
}

static void
wait_for(const unsigned *count, unsigned n)
{
	while (*count < n)
		ev_run(loop, EVRUN_ONCE);
}

static void
hand_over(struct statethread *s, uint64_t first, uint32_t count, uint64_t restore_at, bool plain)
{
	struct state_batch *b = statethread_batch(s);

	ck_assert_ptr_nonnull(b);
	b->first = first;
	b->count = count;
	b->plain = plain;
	b->wanted = true;
	for (uint32_t i = 0; i < count; i++)
		b->entries[i] = (struct raft_entry){ .index = first + i, .term = 1, .type = first + i == restore_at ? RESTORE_TYPE : 0 };
	statethread_apply(s, b);
}

static void
on_read(struct state_read *r, void *ctx)
{
	ck_assert(r->ended);
	++*(unsigned *)ctx;
}

static struct state_read *
ask(struct statethread *s, uint16_t op, const char *what, unsigned *count)
{
	struct state_read *r = statethread_read(s, op_find(op), span_str(what), SPAN_NONE, on_read, count);

	ck_assert_ptr_nonnull(r);
	statethread_flush(s, false);
	return r;
}

/* -- tests -- */

START_TEST(batches_come_back_in_order)
{
	struct seen seen;
	struct statethread *s = start(&seen);

	hand_over(s, 1, 10, 0, false);
	hand_over(s, 11, 5, 0, false);
	hand_over(s, 16, 1, 0, false);
	ck_assert_ptr_null(statethread_batch(s));		/* no more at a time */
	ck_assert_uint_eq(statethread_applying(s), 3);
	wait_for(&seen.batches, 3);
	ck_assert_uint_eq(seen.applied[0] + seen.applied[1] + seen.applied[2], 16);
	ck_assert_uint_eq(statethread_applying(s), 0);
	end(s);
}
END_TEST

/* A restore ends a batch before it, and then stands alone; what was handed over behind it comes back untouched. */
START_TEST(a_restore_ends_a_batch)
{
	struct seen seen;
	struct statethread *s = start(&seen);

	hand_over(s, 1, 10, 5, false);
	hand_over(s, 11, 5, 0, false);
	wait_for(&seen.batches, 2);
	ck_assert_uint_eq(seen.applied[0], 4);
	ck_assert(!seen.restore[0] && seen.applied[1] == 0);
	hand_over(s, 5, 6, 5, false);
	wait_for(&seen.batches, 3);
	ck_assert(seen.restore[2] && seen.applied[2] == 0);
	hand_over(s, 5, 6, 5, true);			/* nothing to restore: an entry as any other */
	wait_for(&seen.batches, 4);
	ck_assert(!seen.restore[3] && seen.applied[3] == 6);
	end(s);
}
END_TEST

START_TEST(failures_are_told_once)
{
	struct seen seen;
	struct statethread *s = start(&seen);

	state.fail_at = 3;
	hand_over(s, 1, 2, 0, false);
	hand_over(s, 3, 2, 0, false);
	hand_over(s, 5, 2, 0, false);
	wait_for(&seen.batches, 3);
	ck_assert_int_eq(seen.err[1], TV_ECORRUPT);
	ck_assert(!seen.unread[1] && seen.applied[1] == 0);
	ck_assert_int_eq(seen.err[2], TV_OK);
	ck_assert_uint_eq(seen.applied[2], 0);
	end(s);
}
END_TEST

START_TEST(entries_are_read_from_the_log)
{
	struct seen seen;
	struct statethread *s = start(&seen);

	for (int i = 0; i < 2; i++) {
		struct state_batch *b = statethread_batch(s);

		b->first = i == 0 ? 1 : 51;
		b->count = 100;
		b->from_log = true;
		statethread_apply(s, b);
	}
	wait_for(&seen.batches, 2);
	ck_assert_uint_eq(seen.applied[0], 50);		/* as many as were read */
	ck_assert(seen.unread[1] && seen.err[1] == TV_ECORRUPT);
	end(s);
}
END_TEST

START_TEST(answers_of_all_sizes)
{
	static const char *const questions[] = { "", "short", "large", "bad", "replaced" };
	struct seen seen;
	struct statethread *s = start(&seen);
	char longer[STATE_ARGS_SHORT * 2] = "";

	memset(longer, 'k', sizeof(longer) - 1);
	state.applied = 42;
	for (unsigned i = 0; i <= 5; i++) {
		const char *what = i < 5 ? questions[i] : longer;
		unsigned n = 0;
		struct state_read *r = ask(s, i == 4 ? OP_KV_LIST : OP_KV_GET, what, &n);

		wait_for(&n, 1);
		ck_assert_uint_eq(r->applied, 42);
		ck_assert_uint_eq(r->replaced, 7);
		if (i == 3)
			ck_assert(r->answer.err == TV_EINVAL && span_eqs(r->answer.text, "a sentence"));
		else if (i == 2)
			ck_assert_uint_eq(r->value.len, LARGE + strlen("large"));
		else
			ck_assert(r->answer.err == TV_OK && r->answer.index == 3 && span_eqs(r->value, what));
		statethread_drop(s, r);
	}
	end(s);
}
END_TEST

/* Two reads wait for a disk that hangs; what is in the cache, lists and batches go on. */
START_TEST(a_hanging_disk_holds_up_nobody)
{
	struct seen seen;
	struct statethread *s = start(&seen);
	struct state_read *cold[2], *r;
	unsigned n = 0, slow = 0;
	sem_t hang;

	sem_init(&hang, 0, 0);
	state.hang = &hang;
	cold[0] = ask(s, OP_KV_GET, "cold", &slow);
	cold[1] = ask(s, OP_KV_GET, "cold", &slow);
	for (unsigned i = 1; i <= 100; i++) {
		r = ask(s, i % 2 == 0 ? OP_KV_GET : OP_KV_LIST, "warm", &n);
		wait_for(&n, i);
		statethread_drop(s, r);
	}
	hand_over(s, 1, 10, 0, false);
	wait_for(&seen.batches, 1);
	ck_assert_uint_eq(slow, 0);
	sem_post(&hang);
	sem_post(&hang);
	wait_for(&slow, 2);
	ck_assert(span_eqs(cold[0]->value, "cold") && cold[0]->answer.err == TV_OK);
	statethread_drop(s, cold[0]);
	statethread_drop(s, cold[1]);
	end(s);
	sem_destroy(&hang);
}
END_TEST

START_TEST(reads_are_bounded_and_dropped)
{
	struct seen seen;
	struct statethread *s = start(&seen);
	unsigned n = 0, lists = 0;
	struct state_read *r;

	while (statethread_may_read(s, op_find(OP_KV_LIST))) {
		r = statethread_read(s, op_find(OP_KV_LIST), span_str("x"), SPAN_NONE, on_read, &n);
		statethread_drop(s, r);
		lists++;
	}
	ck_assert_uint_ge(lists, 2);
	ck_assert(statethread_may_read(s, op_find(OP_KV_GET)));	/* room of its own */
	while (!statethread_may_read(s, op_find(OP_KV_LIST)))
		ev_run(loop, EVRUN_ONCE);
	ck_assert_uint_eq(n, 0);				/* nobody was told */
	end(s);
}
END_TEST

/* No answer is waited for any more: the walk ends at its next page, those that were not begun never begin, and the places are free. */
START_TEST(a_dropped_list_ends_early)
{
	struct seen seen;
	struct statethread *s = start(&seen);
	struct state_read *r[8];
	unsigned n = 0, lists = 0;

	while (statethread_may_read(s, op_find(OP_KV_LIST)))
		r[lists++] = ask(s, OP_KV_LIST, "pages", &n);
	while (state.pages == 0)
		usleep(1000);
	for (unsigned i = 0; i < lists; i++)
		statethread_drop(s, r[i]);
	while (!statethread_may_read(s, op_find(OP_KV_LIST)))
		ev_run(loop, EVRUN_ONCE);
	for (unsigned i = 0; i < 2 * lists; i++) {
		r[0] = ask(s, OP_KV_LIST, "pages", &n);
		statethread_drop(s, r[0]);
		while (!statethread_may_read(s, op_find(OP_KV_LIST)))
			ev_run(loop, EVRUN_ONCE);
	}
	end(s);
	ck_assert_uint_lt(state.pages, 100);			/* of some thousand */
	ck_assert_uint_eq(n, 0);
}
END_TEST

static void
count_call(struct fsm *f, void *ctx)
{
	ck_assert(f->of != NULL ? f->begun : f == &state);
	++*(_Atomic unsigned *)ctx;
}

static void
see_call(struct fsm *f, void *ctx)
{
	(void)ctx;
	ck_assert(f->begun);
}

static void
note_call(struct fsm *f, void *ctx)
{
	struct seen *seen = ctx;

	ck_assert_ptr_eq(f, &state);
	seen->calls++;
}

static void
note_done(void *ctx)
{
	strcat(((struct seen *)ctx)->order, "c");
}

static void
called(void *ctx)
{
	(void)ctx;
}

static void
give_up(void *ctx)
{
	++*(unsigned *)ctx;
}

START_TEST(calls_between_batches_keep_their_place)
{
	struct seen seen;
	struct statethread *s = start(&seen);
	_Atomic unsigned n = 0;

	hand_over(s, 1, 1, 0, false);
	ck_assert_int_eq(statethread_between(s, note_call, note_done, &seen), TV_OK);
	hand_over(s, 2, 1, 0, false);
	ck_assert_int_eq(statethread_call(s, count_call, called, &n), TV_OK);
	wait_for(&seen.batches, 2);
	ck_assert_str_eq(seen.order, "bcb");
	ck_assert_uint_eq(seen.calls, 1);
	end(s);
}
END_TEST

static void
hand_over_quietly(struct statethread *s, uint64_t first, uint32_t count)
{
	struct state_batch *b = statethread_batch(s);

	ck_assert_ptr_nonnull(b);
	b->first = first;
	b->count = count;
	b->quiet = true;
	for (uint32_t i = 0; i < count; i++)
		b->entries[i] = (struct raft_entry){ .index = first + i, .term = 1 };
	statethread_apply(s, b);
}

struct door {
	sem_t reached, open;
	unsigned passed;
};

static void
wait_at_door(struct fsm *f, void *ctx)
{
	struct door *d = ctx;

	(void)f;
	sem_post(&d->reached);
	sem_wait(&d->open);
}

static void
passed_door(void *ctx)
{
	((struct door *)ctx)->passed++;
}

/* Until all before it has ended, without a sign to the loop. */
static void
stop_at_door(struct statethread *s, struct door *d)
{
	ck_assert_int_eq(statethread_between(s, wait_at_door, passed_door, d), TV_OK);
	sem_wait(&d->reached);
}

static void
open_door(struct door *d)
{
	unsigned before = d->passed;

	sem_post(&d->open);
	wait_for(&d->passed, before + 1);
}

/* They come back when the loop looks; where somebody has begun to wait they wake it, before and after they have ended. */
START_TEST(quiet_batches_wake_nobody)
{
	struct seen seen;
	struct statethread *s = start(&seen);
	struct door d = { .passed = 0 };

	sem_init(&d.reached, 0, 0);
	sem_init(&d.open, 0, 0);
	hand_over_quietly(s, 1, 10);
	stop_at_door(s, &d);
	ev_run(loop, EVRUN_NOWAIT);
	statethread_flush(s, false);
	ev_run(loop, EVRUN_NOWAIT);
	ck_assert_uint_eq(state.applied, 10);
	ck_assert_uint_eq(seen.batches, 0);
	statethread_collect(s);
	ck_assert_uint_eq(seen.batches, 1);
	open_door(&d);

	hand_over_quietly(s, 11, 10);
	statethread_flush(s, false);
	stop_at_door(s, &d);
	ev_run(loop, EVRUN_NOWAIT);
	ck_assert_uint_eq(seen.batches, 1);
	statethread_flush(s, true);		/* it has ended already */
	wait_for(&seen.batches, 2);

	hand_over_quietly(s, 21, 10);
	statethread_flush(s, true);		/* it has not begun */
	open_door(&d);
	wait_for(&seen.batches, 3);

	state.fail_at = 35;
	hand_over_quietly(s, 31, 10);
	statethread_flush(s, false);
	wait_for(&seen.batches, 4);		/* what fails is told */
	ck_assert_int_eq(seen.err[3], TV_ECORRUPT);
	sem_destroy(&d.reached);
	sem_destroy(&d.open);
	end(s);
}
END_TEST

/* What runs ends; nobody is told of anything but who said so, and all memory goes. */
START_TEST(stopped_in_the_middle)
{
	struct seen seen;
	struct statethread *s = start(&seen);
	static _Atomic unsigned ran;
	struct state_read *kept, *never;
	unsigned n = 0, given_up = 0;

	kept = ask(s, OP_KV_GET, "large", &n);
	for (unsigned i = 0; i < 50; i++)
		statethread_drop(s, ask(s, OP_KV_GET, i % 3 == 0 ? "cold" : "warm", &n));
	never = statethread_read(s, op_find(OP_KV_GET), span_str("never handed over"), SPAN_NONE, on_read, &n);
	hand_over(s, 1, 10, 0, false);
	for (unsigned i = 0; i < 20; i++) {
		ck_assert_int_eq(statethread_call(s, count_call, called, &ran), TV_OK);
		ck_assert_int_eq(statethread_between(s, note_call, note_done, &seen), TV_OK);
		ck_assert_int_eq(statethread_call_or(s, see_call, called, give_up, &given_up), TV_OK);
	}
	statethread_stop(s);
	ck_assert_uint_eq(given_up, 20);	/* each of these is told, once */
	ck_assert_int_eq(statethread_call(s, count_call, called, &n), TV_ESYS);
	ck_assert_ptr_null(statethread_read(s, op_find(OP_KV_GET), SPAN_NONE, SPAN_NONE, on_read, &n));
	ck_assert_uint_eq(n + seen.batches, 0);
	ck_assert_str_eq(seen.order, "");
	statethread_drop(s, kept);
	statethread_drop(s, never);
	statethread_free(s);
	ev_loop_destroy(loop);
}
END_TEST

int
main(void)
{
	TCase *t = tcase_create("statethread");
	Suite *su = suite_create("statethread");
	SRunner *r;
	int failed;

	tcase_add_test(t, batches_come_back_in_order);
	tcase_add_test(t, a_restore_ends_a_batch);
	tcase_add_test(t, failures_are_told_once);
	tcase_add_test(t, entries_are_read_from_the_log);
	tcase_add_test(t, answers_of_all_sizes);
	tcase_add_test(t, a_hanging_disk_holds_up_nobody);
	tcase_add_test(t, reads_are_bounded_and_dropped);
	tcase_add_test(t, a_dropped_list_ends_early);
	tcase_add_test(t, calls_between_batches_keep_their_place);
	tcase_add_test(t, quiet_batches_wake_nobody);
	tcase_add_test(t, stopped_in_the_middle);
	suite_add_tcase(su, t);
	r = srunner_create(su);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
