/* Pending calls: answers, parts, deadlines, cancelling, ends; and callbacks that do more of it. */
#include "common/net/msg.h"
#include "common/net/calls.h"
#include "tests/unit/chan_world.h"

#define PENDING_MAX 100
#define ANSWER_MAX 1000

/* A table, a channel to ask on, and the test as the answerer at the other end. */
struct asker {
	struct ev_loop *loop;
	struct calls *t;
	struct end a, b;
};

struct answer {
	unsigned count;
	enum tv_err err;
	size_t len;
	uint8_t body[ANSWER_MAX];
	struct asker *again;		/* ask again from inside done */
	struct calls *free_table;	/* free the table from inside done */
};

static enum tv_err
on_answer(void *ctx, struct chan *c, const struct frame *f)
{
	struct asker *k = ctx;

	(void)c;
	return calls_frame(k->t, f);
}

static void
on_close(void *ctx, struct chan *c, enum tv_err why)
{
	struct asker *k = ctx;

	(void)c, (void)why;
	k->a.c = NULL;
	calls_fail_all(k->t, TV_ECLOSED);
}

static void
setup(struct asker *k)
{
	static const struct chan_events events = { on_answer, NULL, on_close };
	struct chan_conf conf;
	int fds[2];

	*k = (struct asker){ .loop = world_loop() };
	end_init(&k->a, k->loop);
	end_init(&k->b, k->loop);
	k->t = calls_new(k->loop, PENDING_MAX, ANSWER_MAX);
	world_pair(SOCK_STREAM, fds);
	conf = end_conf(&k->a, "asker");
	conf.events = &events;
	conf.ctx = k;
	k->a.c = chan_new(fds[0], &conf);
	conf = end_conf(&k->b, "answerer");
	k->b.c = chan_new(fds[1], &conf);
}

static void
teardown(struct asker *k)
{
	end_done(&k->a);
	end_done(&k->b);
	calls_free(k->t);
	ev_loop_destroy(k->loop);
}

static void
on_done(void *ctx, enum tv_err err, struct span body)
{
	struct answer *a = ctx;
	enum tv_err ignored;

	a->count++;
	a->err = err;
	a->len = body.len;
	if (body.len > 0)
		memcpy(a->body, body.p, body.len);
	if (a->again != NULL && a->again->a.c != NULL)
		(void)calls_start(a->again->t, a->again->a.c, 3, SPAN_NONE, MONO_NEVER, on_done, ctx, &ignored);
	if (a->free_table != NULL) {
		calls_free(a->free_table);
		a->free_table = NULL;
	}
}

static uint64_t
ask(struct asker *k, struct mono timeout, struct answer *a)
{
	enum tv_err err = TV_EINVAL;
	uint64_t id = calls_start(k->t, k->a.c, 3, span_str("q"), timeout, on_done, a, &err);

	ck_assert_uint_ne(id, 0);
	ck_assert_int_eq(err, TV_OK);
	return id;
}

START_TEST(answers_in_any_order)
{
	struct asker k;
	struct answer a[PENDING_MAX] = { 0 };
	uint64_t ids[PENDING_MAX];

	setup(&k);
	for (int i = 0; i < PENDING_MAX; i++) {
		ids[i] = ask(&k, MONO_S(60), &a[i]);
		for (int j = 0; j < i; j++)
			ck_assert_uint_ne(ids[i], ids[j]);
	}
	UNTIL(k.loop, k.b.frames == PENDING_MAX);
	ck_assert_uint_eq(k.b.last.type, 3);
	ck_assert_uint_eq(k.b.last.id, ids[PENDING_MAX - 1]);
	for (uint8_t i = 0; i < PENDING_MAX; i++) {
		uint8_t at = (uint8_t)(i * 37 % PENDING_MAX);

		ck_assert_int_eq(chan_send(k.b.c, MSG_OP, FRAME_REPLY, ids[at], span_of(&at, 1)), TV_OK);
	}
	UNTIL(k.loop, calls_pending(k.t) == 0);
	for (uint8_t i = 0; i < PENDING_MAX; i++)
		ck_assert(a[i].count == 1 && a[i].err == TV_OK && a[i].len == 1 && a[i].body[0] == i);
	teardown(&k);
}
END_TEST

START_TEST(limits)
{
	struct asker k;
	struct answer a = { 0 };
	enum tv_err err;

	setup(&k);
	for (int i = 0; i < PENDING_MAX; i++)
		ask(&k, MONO_NEVER, &a);
	ck_assert_uint_eq(calls_start(k.t, k.a.c, 3, SPAN_NONE, MONO_NEVER, on_done, &a, &err), 0);
	ck_assert_int_eq(err, TV_ELIMIT);
	ck_assert_uint_eq(a.count, 0);
	chan_close(k.a.c, TV_ECLOSED);
	calls_fail_all(k.t, TV_EUNKNOWN);
	ck_assert_uint_eq(a.count, PENDING_MAX);
	ck_assert_int_eq(a.err, TV_EUNKNOWN);
	ck_assert_uint_eq(calls_start(k.t, k.a.c, 3, SPAN_NONE, MONO_NEVER, on_done, &a, &err), 0);
	ck_assert_int_eq(err, TV_ECLOSED);
	ck_assert_uint_eq(calls_pending(k.t), 0);
	teardown(&k);
}
END_TEST

/* Parts are joined; together they may have ANSWER_MAX bytes. */
START_TEST(parts)
{
	struct asker k;
	struct answer a = { 0 };
	static uint8_t part[ANSWER_MAX];
	uint64_t id;

	setup(&k);
	id = ask(&k, MONO_NEVER, &a);
	for (int i = 0; i < 3; i++) {
		uint16_t flags = FRAME_REPLY | (i < 2 ? FRAME_MORE : 0);

		ck_assert_int_eq(chan_send(k.b.c, MSG_OP, flags, id, span_of(&"abcdef"[2 * i], 2)), TV_OK);
	}
	UNTIL(k.loop, a.count == 1);
	ck_assert(a.err == TV_OK && a.len == 6 && memcmp(a.body, "abcdef", 6) == 0);

	a = (struct answer){ 0 };
	id = ask(&k, MONO_NEVER, &a);
	ck_assert_int_eq(chan_send(k.b.c, MSG_OP, FRAME_REPLY | FRAME_MORE, id, span_of(part, ANSWER_MAX - 1)), TV_OK);
	ck_assert_int_eq(chan_send(k.b.c, MSG_OP, FRAME_REPLY, id, span_of(part, 1)), TV_OK);
	UNTIL(k.loop, a.count == 1);
	ck_assert(a.err == TV_OK && a.len == ANSWER_MAX);

	a = (struct answer){ 0 };
	id = ask(&k, MONO_NEVER, &a);
	ck_assert_int_eq(chan_send(k.b.c, MSG_OP, FRAME_REPLY | FRAME_MORE, id, span_of(part, ANSWER_MAX)), TV_OK);
	ck_assert_int_eq(chan_send(k.b.c, MSG_OP, FRAME_REPLY | FRAME_MORE, id, span_of(part, 1)), TV_OK);
	ck_assert_int_eq(chan_send(k.b.c, MSG_OP, FRAME_REPLY, id, span_of(part, 1)), TV_OK);	/* late: ignored */
	UNTIL(k.loop, a.count == 1);
	ck_assert_int_eq(a.err, TV_ELIMIT);
	world_settle(k.loop);
	ck_assert_uint_eq(a.count, 1);

	a = (struct answer){ 0 };
	id = ask(&k, MONO_NEVER, &a);		/* one that never gets its last part is freed with the table */
	ck_assert_int_eq(chan_send(k.b.c, MSG_OP, FRAME_REPLY | FRAME_MORE, id, span_of(part, 10)), TV_OK);
	world_settle(k.loop);
	teardown(&k);
	ck_assert(a.count == 1 && a.err == TV_ECLOSED);
}
END_TEST

START_TEST(deadlines)
{
	struct asker k;
	struct answer never = { 0 }, soon = { 0 }, later = { 0 }, answered = { 0 };
	uint64_t id, late;

	setup(&k);
	ask(&k, MONO_NEVER, &never);
	ask(&k, MONO_MS(40), &later);
	late = ask(&k, MONO_MS(1), &soon);
	id = ask(&k, MONO_S(60), &answered);
	UNTIL(k.loop, soon.count == 1);
	ck_assert_int_eq(soon.err, TV_ETIMEOUT);
	UNTIL(k.loop, later.count == 1);
	ck_assert_int_eq(later.err, TV_ETIMEOUT);
	ck_assert_int_eq(chan_send(k.b.c, MSG_OP, FRAME_REPLY, late, SPAN_NONE), TV_OK);	/* too late */
	ck_assert_int_eq(chan_send(k.b.c, MSG_OP, FRAME_REPLY, id, SPAN_NONE), TV_OK);
	UNTIL(k.loop, answered.count == 1);
	ck_assert_int_eq(answered.err, TV_OK);
	ck_assert(never.count == 0 && soon.count == 1);
	ck_assert_uint_eq(calls_pending(k.t), 1);
	teardown(&k);
}
END_TEST

START_TEST(cancel)
{
	struct asker k;
	struct answer a = { 0 };
	uint64_t id;

	setup(&k);
	id = ask(&k, MONO_S(60), &a);
	calls_cancel(k.t, k.a.c, id);
	calls_cancel(k.t, k.a.c, id);		/* nothing more to tell */
	calls_cancel(k.t, k.a.c, 0);
	calls_cancel(k.t, k.a.c, UINT64_MAX);
	ck_assert_uint_eq(calls_pending(k.t), 0);
	UNTIL(k.loop, k.b.frames == 2);
	world_settle(k.loop);
	ck_assert_uint_eq(k.b.frames, 2);
	ck_assert(k.b.last.flags == FRAME_CANCEL && k.b.last.id == id && k.b.last.type == 3);
	ck_assert_int_eq(chan_send(k.b.c, MSG_OP, FRAME_REPLY, id, SPAN_NONE), TV_OK);	/* late answer */
	world_settle(k.loop);
	ck_assert_uint_eq(a.count, 0);
	teardown(&k);
}
END_TEST

/* A slot used again has another id: the answer to the call before does not end the one in it now. */
START_TEST(stale_ids)
{
	struct asker k;
	struct answer first = { 0 }, second = { 0 };
	uint64_t id1, id2;

	setup(&k);
	id1 = ask(&k, MONO_NEVER, &first);
	calls_cancel(k.t, NULL, id1);
	id2 = ask(&k, MONO_NEVER, &second);
	ck_assert_uint_eq((uint32_t)id1, (uint32_t)id2);
	ck_assert_int_eq(calls_frame(k.t, &(struct frame){ .flags = FRAME_REPLY, .id = id1 }), TV_OK);
	ck_assert_uint_eq(second.count, 0);
	ck_assert_int_eq(calls_frame(k.t, &(struct frame){ .flags = 0, .id = id2 }), TV_EFORMAT);
	ck_assert_int_eq(calls_frame(k.t, &(struct frame){ .flags = FRAME_REPLY, .id = id2 }), TV_OK);
	ck_assert(second.count == 1 && first.count == 0);
	teardown(&k);
}
END_TEST

START_TEST(peer_goes_away)
{
	struct asker k;
	struct answer a = { 0 };

	setup(&k);
	for (int i = 0; i < 10; i++)
		ask(&k, MONO_S(60), &a);
	UNTIL(k.loop, k.b.frames == 10);
	chan_close(k.b.c, TV_ECLOSED);
	UNTIL(k.loop, a.count == 10);
	ck_assert_int_eq(a.err, TV_ECLOSED);
	teardown(&k);
}
END_TEST

/* done may ask again, in each of its ways to be called; the table may move under it. */
START_TEST(ask_in_done)
{
	struct asker k;
	struct answer a[17] = { 0 };
	uint64_t ids[17];

	setup(&k);
	for (int i = 0; i < 17; i++) {
		a[i].again = &k;
		ids[i] = ask(&k, i == 16 ? MONO_MS(1) : MONO_NEVER, &a[i]);
	}
	UNTIL(k.loop, a[16].count == 1);
	ck_assert_uint_eq(calls_pending(k.t), 17);
	for (int i = 0; i < 16; i++)
		ck_assert_int_eq(calls_frame(k.t, &(struct frame){ .flags = FRAME_REPLY, .id = ids[i] }), TV_OK);
	ck_assert_uint_eq(calls_pending(k.t), 17);
	chan_close(k.a.c, TV_ECLOSED);
	UNTIL(k.loop, k.a.c == NULL);
	ck_assert_uint_eq(calls_pending(k.t), 0);
	for (int i = 0; i < 17; i++)
		ck_assert(a[i].count == 2 && a[i].err == TV_ECLOSED);
	teardown(&k);
}
END_TEST

/* done may free the table: the others end with TV_ECLOSED, each once. */
START_TEST(free_in_done)
{
	struct asker k;
	struct answer a[5] = { 0 };
	uint64_t ids[5];

	setup(&k);
	for (int i = 0; i < 5; i++)
		ids[i] = ask(&k, i == 2 && _i == 1 ? MONO_MS(1) : MONO_NEVER, &a[i]);
	a[2].free_table = k.t;
	if (_i == 0)
		ck_assert_int_eq(calls_frame(k.t, &(struct frame){ .flags = FRAME_REPLY, .id = ids[2] }), TV_OK);
	else if (_i == 1)
		UNTIL(k.loop, a[2].count == 1);
	else
		calls_fail_all(k.t, TV_ECLOSED);
	k.t = NULL;
	for (int i = 0; i < 5; i++)
		ck_assert(a[i].count == 1 && (i == 2 || a[i].err == TV_ECLOSED));
	teardown(&k);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("calls");
	TCase *t = tcase_create("calls");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, answers_in_any_order);
	tcase_add_test(t, limits);
	tcase_add_test(t, parts);
	tcase_add_test(t, deadlines);
	tcase_add_test(t, cancel);
	tcase_add_test(t, stale_ids);
	tcase_add_test(t, peer_goes_away);
	tcase_add_test(t, ask_in_done);
	tcase_add_loop_test(t, free_in_done, 0, 3);
	suite_add_tcase(s, t);
	return world_main(s);
}
