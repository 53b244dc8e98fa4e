/* One name and one node id at two addresses: moved, copied, or old news. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/record/mpack.h"
#include "tests/unit/gossip_one.h"

#define HOME 2			/* where "a" was */
#define AWAY 77			/* where it is claimed */

static struct one o;
static struct buf metas[3];

/* Tags {id: text}. */
static struct span
id(unsigned slot, const char *text)
{
	struct buf *b = &metas[slot];

	buf_reset(b);
	buf_put(b, (const uint8_t[]){ SERF_META_MAGIC }, 1);
	mpw_map(b, 1);
	mpw_cstr(b, "id");
	mpw_cstr(b, text);
	return buf_span(b);
}

static void
setup(void)
{
	for (unsigned i = 0; i < 3; i++)
		buf_init(&metas[i], 512);
	one_init(&o);
	o.opt.timing.dead_reclaim = MONO_S(3600);
	o.opt.meta = id(0, "me");
	one_start(&o);
	one_wait(&o, MONO_S(2));
}

static void
teardown(void)
{
	one_done(&o);
	for (unsigned i = 0; i < 3; i++)
		buf_done(&metas[i]);
}

static void
alive(const char *name, uint32_t incarnation, unsigned last, const char *text)
{
	struct addr at = one_addr(last);

	ck_assert_int_eq(one_alive_at(&o, name, incarnation, &at, id(1, text)), TV_OK);
}

static bool
is_at(const char *name, unsigned last)
{
	struct addr at = one_addr(last);
	struct swim_member m;

	return swim_member_find(o.s, span_str(name), &m) && addr_eq(&m.addr, &at);
}

/* Who answers pings while time goes by; what happened on the way. */
struct world {
	unsigned answers[3];		/* last numbers of addresses; 0: none */
	bool conflict, moved, self_moved, updated, joined;
	unsigned pings_home;
	uint32_t announced;		/* highest incarnation that we say of ourselves */
	bool by_stream;			/* answers are over streams only */
};

static bool
answers(const struct world *w, const struct addr *to)
{
	for (unsigned i = 0; i < 3; i++) {
		struct addr at = one_addr(w->answers[i]);

		if (w->answers[i] != 0 && addr_eq(to, &at))
			return true;
	}
	return false;
}

static void
note_alive(struct world *w, struct span part)
{
	struct wire_alive a;

	if (part.p[0] == WIRE_ALIVE && wire_get_alive(span_of(part.p + 1, part.len - 1), &o.arena, &a) == TV_OK &&
	    span_eqs(a.node, SELF) && a.incarnation > w->announced)
		w->announced = a.incarnation;
}

static void
note(struct world *w)
{
	for (size_t i = 0; i < o.out->send_count; i++)
		for (unsigned k = 0; k < o.out->sends[i].part_count; k++)
			note_alive(w, o.out->sends[i].parts[k]);
	for (size_t i = 0; i < o.out->notice_count; i++) {
		enum swim_notice_type t = o.out->notices[i].type;

		w->conflict |= t == SWIM_NOTICE_CONFLICT || t == SWIM_NOTICE_SELF_CONFLICT;
		w->moved |= t == SWIM_NOTICE_MOVED;
		w->self_moved |= t == SWIM_NOTICE_SELF_MOVED;
	}
	for (size_t i = 0; i < o.out->event_count; i++) {
		w->updated |= o.out->events[i].type == GOSSIP_EV_UPDATE;
		w->joined |= o.out->events[i].type == GOSSIP_EV_JOIN;
	}
}

struct question {
	uint32_t seq;
	uint64_t stream;		/* 0: a datagram */
};

/* The pings of this output that somebody answers. */
static unsigned
questions(struct world *w, struct question *q, unsigned max)
{
	struct addr home = one_addr(HOME);
	struct wire_ping ping;
	unsigned n = 0;

	for (size_t i = 0; i < o.out->send_count; i++) {
		const struct swim_send *d = &o.out->sends[i];

		for (unsigned k = 0; k < d->part_count; k++) {
			if (d->parts[k].p[0] != WIRE_PING ||
			    wire_get_ping(span_of(d->parts[k].p + 1, d->parts[k].len - 1), &o.arena, &ping) != TV_OK)
				continue;
			w->pings_home += addr_eq(&d->to, &home);
			if (n < max && !w->by_stream && answers(w, &d->to))
				q[n++] = (struct question){ ping.seq, 0 };
		}
	}
	for (size_t i = 0; i < o.out->stream_count; i++) {
		const struct swim_stream *t = &o.out->streams[i];

		if (t->kind == SWIM_STREAM_PING && n < max && w->by_stream && answers(w, &t->to) &&
		    wire_get_ping(span_of(t->message.p + 1, t->message.len - 1), &o.arena, &ping) == TV_OK)
			q[n++] = (struct question){ ping.seq, t->id };
	}
	return n;
}

static void
answer(const struct question *q)
{
	struct buf b = BUF_INIT(256);
	struct stream_message m = { .type = WIRE_ACK };

	if (q->stream == 0) {
		ck_assert_int_eq(one_ack(&o, q->seq), TV_OK);
	} else {
		wire_put_ack(&b, &(struct wire_ack){ .seq = q->seq });
		m.body = span_of(b.data + 1, b.len - 1);
		(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_ANSWER, .stream = q->stream, .message = &m });
	}
	buf_done(&b);
}

static void
live(struct world *w, struct mono span)
{
	struct mono until = mono_add(o.now, span);
	struct question q[32];

	for (unsigned n = questions(w, q, 32); mono_before(o.now, until);) {
		note(w);
		for (unsigned i = 0; i < n; i++) {
			answer(&q[i]);
			note(w);
		}
		o.now = mono_min(mono_add(o.now, MONO_MS(50)), until);
		(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_TICK });
		n = questions(w, q, 32);
	}
	note(w);
}

/* -- members ---------------------------------------------------------------------------------- */

static const struct { unsigned first, second; bool by_stream, moves, conflict; } rows[] = {
	{ AWAY, 0, false, true, false },	/* only the new one: moved */
	{ AWAY, 0, true, true, false },
	{ HOME, AWAY, false, false, true },	/* both: copied */
	{ HOME, AWAY, true, false, true },
	{ HOME, 0, false, false, false },	/* only the old one: old news, or forged */
	{ 0, 0, false, false, false },
};

START_TEST(who_answers_decides)
{
	struct world w = { .answers = { rows[_i].first, rows[_i].second }, .by_stream = rows[_i].by_stream };

	alive("a", 5, HOME, "1");
	alive("a", 1, AWAY, "1");	/* whatever its incarnation: it may have lost it */
	ck_assert(is_at("a", HOME));	/* not before it was found out */
	live(&w, MONO_S(6));
	ck_assert_int_eq(is_at("a", AWAY), rows[_i].moves);
	ck_assert_int_eq(w.moved, rows[_i].moves);
	ck_assert_int_eq(w.conflict, rows[_i].conflict);
	ck_assert_uint_eq(one_stats(&o).moves, rows[_i].moves);
	ck_assert_uint_eq(one_stats(&o).conflicts, rows[_i].conflict);
	if (rows[_i].moves) {
		ck_assert(w.updated || w.joined);	/* those who watch have to hear of it */
		ck_assert_int_eq(one_state(&o, "a"), NODE_ALIVE);
	}
}
END_TEST

START_TEST(also_when_it_is_known_to_be_dead)
{
	struct world w = { .answers = { AWAY } };

	alive("a", 5, HOME, "1");
	(void)one_dead(&o, "a", 5, "x");
	alive("a", 6, AWAY, "1");
	live(&w, MONO_S(6));
	ck_assert(is_at("a", AWAY) && w.joined && !w.conflict);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
}
END_TEST

START_TEST(a_move_is_passed_on)
{
	struct world w = { .answers = { AWAY } };

	alive("a", 5, HOME, "1");
	alive("a", 6, AWAY, "1");
	live(&w, MONO_S(3));
	ck_assert(one_spreads(&o, WIRE_ALIVE, "a"));
}
END_TEST

/* Those who did not hear of the move yet tell the former address for a time. */
START_TEST(late_news_are_no_conflict)
{
	struct world w = { .answers = { AWAY } };

	alive("a", 5, HOME, "1");
	alive("a", 6, AWAY, "1");
	live(&w, MONO_S(6));
	for (unsigned i = 0; i < 60; i++) {
		alive("a", 5, HOME, "1");
		live(&w, MONO_S(1));
	}
	ck_assert(is_at("a", AWAY) && !w.conflict);
	ck_assert_uint_eq(one_stats(&o).moves, 1);
}
END_TEST

/* It stood still for a moment: no reason to give its name to a copy. */
START_TEST(a_pause_is_no_death)
{
	struct world w = { .answers = { AWAY } };

	alive("a", 5, HOME, "1");
	alive("a", 6, AWAY, "1");
	live(&w, MONO_S(2));
	w.answers[1] = HOME;
	live(&w, MONO_S(4));
	ck_assert(is_at("a", HOME) && w.conflict);
}
END_TEST

START_TEST(another_id_is_a_conflict_at_once)
{
	struct world w = { .answers = { AWAY } };

	alive("a", 5, HOME, "1");
	alive("a", 6, AWAY, "2");
	ck_assert(one_noticed(&o, SWIM_NOTICE_CONFLICT));
	(void)one_alive_at(&o, "a", 7, &(struct addr){ .ip = { 10, 0, 0, AWAY }, .len = 4, .port = 7946 }, SPAN_NONE);
	ck_assert(one_noticed(&o, SWIM_NOTICE_CONFLICT));
	live(&w, MONO_S(6));
	ck_assert(is_at("a", HOME) && !w.moved);
}
END_TEST

/* The number of the first ping to HOME in the last output. */
static uint32_t
ping_home(void)
{
	struct addr home = one_addr(HOME);
	struct wire_ping ping;

	for (size_t i = 0; i < o.out->send_count; i++)
		for (unsigned k = 0; k < o.out->sends[i].part_count; k++) {
			struct span p = o.out->sends[i].parts[k];

			if (p.p[0] == WIRE_PING && addr_eq(&o.out->sends[i].to, &home) &&
			    wire_get_ping(span_of(p.p + 1, p.len - 1), &o.arena, &ping) == TV_OK)
				return ping.seq;
		}
	ck_abort_msg("HOME was not asked");
}

/*
 * Whoever claims a name gets the ping after that to the former address, and so knows its number: a ping to us under it,
 * as if it were ours, does not make the former address silent.
 */
START_TEST(a_forged_echo_takes_no_name)
{
	struct world w = { .answers = { HOME, AWAY } };
	struct addr us = one_addr(1);
	struct buf b = BUF_INIT(256);
	uint32_t seq;

	alive("a", 5, HOME, "1");
	alive("a", 6, AWAY, "1");
	seq = ping_home();
	live(&w, MONO_MS(1));
	wire_put_ping(&b, &(struct wire_ping){ .seq = seq, .node = span_str(SELF),
	    .source_addr = span_of(us.ip, us.len), .source_port = us.port, .source_node = span_str(SELF) });
	ck_assert_int_eq(one_message(&o, WIRE_PING, span_of(b.data + 1, b.len - 1)), TV_OK);
	live(&w, MONO_S(6));
	ck_assert(is_at("a", HOME) && w.conflict && !w.moved);
	buf_done(&b);
}
END_TEST

/* Claims are repeated by all who hear them: that asks nobody more often. */
START_TEST(many_claims_one_check)
{
	struct world w = { .answers = { HOME, AWAY } };

	alive("a", 5, HOME, "1");
	for (unsigned i = 0; i < 200; i++) {
		alive("a", 6 + i, AWAY, "1");
		live(&w, MONO_MS(50));
	}
	ck_assert(is_at("a", HOME) && w.conflict);
	ck_assert_uint_le(w.pings_home, 25);		/* in 10 s, the usual probes among them */
}
END_TEST

/* Names that a forger invents, each claimed twice: bounded, and nothing is left of it. */
START_TEST(many_names)
{
	struct world w = { .answers = { 0 } };
	char name[16];

	for (unsigned i = 0; i < 90; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		alive(name, 1, 100, "1");
		alive(name, 2, 101, "1");
	}
	live(&w, MONO_S(10));
	ck_assert(!w.moved && !w.conflict);
}
END_TEST

/* -- ourselves ---------------------------------------------------------------------------------- */

START_TEST(we_moved)
{
	struct world w = { .answers = { 3 } };
	uint64_t asked;

	alive("b", 1, 3, "2");
	asked = one_stats(&o).queries_asked;
	alive(SELF, 40, AWAY, "me");
	live(&w, MONO_S(6));
	ck_assert(w.self_moved && !w.conflict);
	ck_assert_uint_eq(one_stats(&o).queries_asked, asked);	/* no vote, which we would lose */
	ck_assert_uint_gt(one_stats(&o).incarnation, 40);
	ck_assert(is_at(SELF, 1));
	ck_assert_uint_gt(w.announced, 40);
}
END_TEST

START_TEST(we_are_a_copy)
{
	struct world w = { .answers = { 3, AWAY } };
	uint64_t asked;

	alive("b", 1, 3, "2");
	asked = one_stats(&o).queries_asked;
	alive(SELF, 40, AWAY, "me");
	live(&w, MONO_S(6));
	ck_assert(w.conflict && !w.self_moved);
	ck_assert_uint_eq(one_stats(&o).queries_asked, asked + 1);	/* the members decide which is the copy */
}
END_TEST

START_TEST(another_id_of_our_name)
{
	alive(SELF, 40, AWAY, "somebody");
	ck_assert(one_noticed(&o, SWIM_NOTICE_SELF_CONFLICT));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("moved");
	TCase *t = tcase_create("members"), *u = tcase_create("ourselves");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_checked_fixture(u, setup, teardown);
	tcase_add_loop_test(t, who_answers_decides, 0, sizeof(rows) / sizeof(rows[0]));
	tcase_add_test(t, also_when_it_is_known_to_be_dead);
	tcase_add_test(t, a_move_is_passed_on);
	tcase_add_test(t, late_news_are_no_conflict);
	tcase_add_test(t, a_pause_is_no_death);
	tcase_add_test(t, another_id_is_a_conflict_at_once);
	tcase_add_test(t, a_forged_echo_takes_no_name);
	tcase_add_test(t, many_claims_one_check);
	tcase_add_test(t, many_names);
	tcase_add_test(u, we_moved);
	tcase_add_test(u, we_are_a_copy);
	tcase_add_test(u, another_id_of_our_name);
	suite_add_tcase(s, t);
	suite_add_tcase(s, u);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
