/* The rules of SWIM in the gossip core, one by one, through its contract; and how it gossips. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/swim_kit.h"

/* -- merge rules: states of SWIM -------------------------------------------------------- */

enum stimulus { ALIVE, SUSPECT, DEAD, LEFT };

static enum tv_err
hit(enum stimulus what, const char *name, uint32_t incarnation)
{
	switch (what) {
	case ALIVE:
		return one_alive(&o, name, incarnation);
	case SUSPECT:
		return one_suspect(&o, name, incarnation, "x");
	case DEAD:
		return one_dead(&o, name, incarnation, "x");
	default:
		return one_dead(&o, name, incarnation, name);
	}
}

/* "a" is first alive with incarnation 5, then brought to `start`, then hit. */
static const struct {
	const char *what;
	enum stimulus start;		/* ALIVE: left as it is */
	enum stimulus hit;
	uint32_t incarnation;
	enum node_state state;
	uint32_t after;
} merges[] = {
	{ "alive: older",			ALIVE, ALIVE, 4, NODE_ALIVE, 5 },
	{ "alive: equal",			ALIVE, ALIVE, 5, NODE_ALIVE, 5 },
	{ "alive: newer",			ALIVE, ALIVE, 6, NODE_ALIVE, 6 },
	{ "alive of a suspect: equal",		SUSPECT, ALIVE, 5, NODE_SUSPECT, 5 },
	{ "alive of a suspect: newer",		SUSPECT, ALIVE, 6, NODE_ALIVE, 6 },
	{ "alive of a dead: equal",		DEAD, ALIVE, 5, NODE_DEAD, 5 },
	{ "alive of a dead: newer",		DEAD, ALIVE, 6, NODE_ALIVE, 6 },
	{ "alive of a left: equal",		LEFT, ALIVE, 5, NODE_LEFT, 5 },
	{ "alive of a left: newer",		LEFT, ALIVE, 6, NODE_ALIVE, 6 },
	{ "suspect: older",			ALIVE, SUSPECT, 4, NODE_ALIVE, 5 },
	{ "suspect: equal",			ALIVE, SUSPECT, 5, NODE_SUSPECT, 5 },
	{ "suspect: newer",			ALIVE, SUSPECT, 7, NODE_SUSPECT, 7 },
	{ "suspect of a dead",			DEAD, SUSPECT, 9, NODE_DEAD, 5 },
	{ "suspect of a left",			LEFT, SUSPECT, 9, NODE_LEFT, 5 },
	{ "dead: older",			ALIVE, DEAD, 4, NODE_ALIVE, 5 },
	{ "dead: equal",			ALIVE, DEAD, 5, NODE_DEAD, 5 },
	{ "dead: newer",			ALIVE, DEAD, 8, NODE_DEAD, 8 },
	{ "dead of a suspect",			SUSPECT, DEAD, 5, NODE_DEAD, 5 },
	{ "dead of a dead: newer changes nothing", DEAD, DEAD, 9, NODE_DEAD, 5 },
	{ "left: from itself",			ALIVE, LEFT, 5, NODE_LEFT, 5 },
	{ "left of a dead",			DEAD, LEFT, 9, NODE_DEAD, 5 },
};

START_TEST(merge_rules)
{
	ck_assert_int_eq(one_alive(&o, "a", 5), TV_OK);
	if (merges[_i].start != ALIVE)
		ck_assert_int_eq(hit(merges[_i].start, "a", 5), TV_OK);
	ck_assert_int_eq(hit(merges[_i].hit, "a", merges[_i].incarnation), TV_OK);
	ck_assert_msg(one_state(&o, "a") == merges[_i].state, "%s: state %d", merges[_i].what, one_state(&o, "a"));
	ck_assert_msg(one_incarnation(&o, "a") == merges[_i].after, "%s: incarnation %u", merges[_i].what,
	    one_incarnation(&o, "a"));
}
END_TEST

START_TEST(unknown_members)
{
	ck_assert_int_eq(one_suspect(&o, "a", 1, "x"), TV_OK);
	ck_assert_int_eq(one_dead(&o, "a", 1, "x"), TV_OK);
	ck_assert_int_eq(one_alive(&o, "a", 0), TV_OK);		/* incarnation 0 never brings a member up */
	ck_assert_int_eq(one_state(&o, "a"), NODE_STATES);
	ck_assert_int_eq(one_alive(&o, "a", 1), TV_OK);
	ck_assert_int_eq(one_event(&o), GOSSIP_EV_JOIN);
	ck_assert(one_spreads(&o, WIRE_ALIVE, "a"));
}
END_TEST

START_TEST(news_spread_and_old_news_do_not)
{
	without_probes();
	(void)one_alive(&o, "a", 1);
	(void)one_alive(&o, "b", 1);
	one_wait(&o, MONO_S(5));
	(void)one_alive(&o, "a", 1);
	ck_assert(!one_spreads(&o, WIRE_ALIVE, "a"));
	(void)one_suspect(&o, "a", 1, "b");
	ck_assert(one_spreads(&o, WIRE_SUSPECT, "a"));
	(void)one_dead(&o, "a", 1, "b");
	ck_assert(one_spreads(&o, WIRE_DEAD, "a"));
	ck_assert(!one_spreads(&o, WIRE_SUSPECT, "a"));		/* replaced by the later word */
}
END_TEST

START_TEST(address_conflicts)
{
	struct addr other = one_addr(77), lengthened = { .len = 16, .port = 7946 };
	struct addr home = one_addr('a');

	(void)one_alive(&o, "a", 5);
	(void)one_alive_at(&o, "a", 9, &other, SPAN_NONE);
	ck_assert(one_noticed(&o, SWIM_NOTICE_CONFLICT));
	ck_assert(addr_eq(&o.out->notices[0].addr, &home) && addr_eq(&o.out->notices[0].other_addr, &other));
	ck_assert_uint_eq(one_incarnation(&o, "a"), 5);
	/* The long form of the same address is another one: peers compare bytes. */
	lengthened.ip[10] = lengthened.ip[11] = 0xff;
	memcpy(lengthened.ip + 12, home.ip, 4);
	(void)one_alive_at(&o, "a", 9, &lengthened, SPAN_NONE);
	ck_assert_uint_eq(one_stats(&o).conflicts, 2);
	/* Dead: not before dead_reclaim. */
	(void)one_dead(&o, "a", 5, "x");
	(void)one_alive_at(&o, "a", 9, &other, SPAN_NONE);
	ck_assert_int_eq(one_state(&o, "a"), NODE_DEAD);
}
END_TEST

START_TEST(a_left_name_moves_with_any_incarnation)
{
	struct addr other = one_addr(77);

	(void)one_alive(&o, "a", 5);
	(void)one_dead(&o, "a", 5, "a");
	(void)one_alive_at(&o, "a", 2, &other, SPAN_NONE);
	ck_assert_int_eq(one_state(&o, "a"), NODE_ALIVE);
	ck_assert_uint_eq(one_incarnation(&o, "a"), 2);
}
END_TEST

START_TEST(a_dead_name_moves_after_the_reclaim_time)
{
	struct addr other = one_addr(77);

	o.opt.timing.dead_reclaim = MONO_S(10);
	o.opt.timing.gossip_to_the_dead = MONO_S(3600);
	restart();
	(void)one_alive(&o, "a", 5);
	(void)one_dead(&o, "a", 5, "x");
	one_wait(&o, MONO_S(9));
	(void)one_alive_at(&o, "a", 9, &other, SPAN_NONE);
	ck_assert_int_eq(one_state(&o, "a"), NODE_DEAD);
	one_wait(&o, MONO_S(1));
	(void)one_alive_at(&o, "a", 1, &other, SPAN_NONE);
	ck_assert_int_eq(one_state(&o, "a"), NODE_ALIVE);
}
END_TEST

START_TEST(port_zero_is_our_own_port)
{
	struct addr a = one_addr(5);
	struct swim_member m;

	a.port = 0;
	(void)one_alive_at(&o, "a", 1, &a, SPAN_NONE);
	ck_assert(swim_member_find(o.s, span_str("a"), &m));
	ck_assert_uint_eq(m.addr.port, 7946);
}
END_TEST

START_TEST(bad_members_are_refused)
{
	static const uint8_t bad_vsn[6] = { 0, 5, 2, 2, 5, 5 };
	struct addr zero = { .len = 4, .port = 1 }, a = one_addr(5);
	struct buf b = BUF_INIT(4096);

	(void)one_alive_at(&o, "a", 1, &zero, SPAN_NONE);
	(void)one_alive_at(&o, "", 1, &a, SPAN_NONE);
	(void)one_alive_at(&o, "line\nbreak", 1, &a, SPAN_NONE);
	wire_put_alive(&b, &(struct wire_alive){ .incarnation = 1, .node = span_str("v"), .addr = span_of(a.ip, 4),
	    .port = 1, .vsn = span_of(bad_vsn, 6) });
	(void)one_message(&o, WIRE_ALIVE, span_of(b.data + 1, b.len - 1));
	buf_done(&b);
	ck_assert_uint_eq(one_stats(&o).members, 1);
	ck_assert_uint_eq(one_stats(&o).bad_message, 3);
	ck_assert_uint_eq(one_stats(&o).bad_vsn, 1);
	ck_assert_int_ne(one_message(&o, WIRE_ALIVE, span_str("\xc1")), TV_OK);
	ck_assert_int_ne(one_message(&o, WIRE_PUSH_PULL, span_str("\x80")), TV_OK);
	ck_assert_int_ne(one_message(&o, 200, span_str("\x80")), TV_OK);
	ck_assert_uint_eq(one_stats(&o).bad_message, 6);
}
END_TEST

START_TEST(member_limit)
{
	char name[16];

	o.opt.members_max = 10;
	restart();
	for (int i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		(void)one_alive(&o, name, 1);
	}
	ck_assert_uint_eq(one_stats(&o).members, 10);
	ck_assert_uint_eq(one_stats(&o).over_members, 21);
	ck_assert(one_noticed(&o, SWIM_NOTICE_FULL));
	(void)one_dead(&o, "m0", 1, "x");		/* those that are in go on as ever */
	ck_assert_int_eq(one_status(&o, "m0"), MEMBER_FAILED);
}
END_TEST

/* Invented members that were found out do not keep others away for days. */
START_TEST(a_full_table_makes_room)
{
	char name[16];

	without_probes();
	o.opt.members_max = 20;
	restart();
	for (int i = 0; i < 19; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		(void)one_alive(&o, name, 1);
	}
	(void)one_alive(&o, "real", 1);
	ck_assert_int_eq(one_status(&o, "real"), MEMBER_NONE);		/* all alive: none gives way */
	(void)one_dead(&o, "m3", 1, "x");
	(void)one_leave_intent(&o, "m5", 9, false);
	(void)one_dead(&o, "m5", 1, "m5");
	o.now = mono_add(o.now, MONO_S(2));
	(void)one_dead(&o, "m4", 1, "x");
	(void)one_alive(&o, "real", 1);
	ck_assert_int_eq(one_status(&o, "real"), MEMBER_ALIVE);
	ck_assert_int_eq(one_status(&o, "m3"), MEMBER_NONE);		/* the longest gone */
	ck_assert_int_eq(one_status(&o, "m4"), MEMBER_FAILED);
	ck_assert_int_eq(one_status(&o, "m5"), MEMBER_LEFT);
	ck_assert_uint_eq(one_stats(&o).members, 20);
	(void)one_alive(&o, "flood", 1);				/* and not at any rate */
	ck_assert_int_eq(one_status(&o, "flood"), MEMBER_NONE);
}
END_TEST

START_TEST(members_of_another_datacenter)
{
	struct member_tag ours = { span_str("dc"), span_str("dc1") }, theirs = { span_str("dc"), span_str("dc2") };
	struct buf b = BUF_INIT(4096);
	struct addr a = one_addr(5), c = one_addr(6), p = one_addr(7);

	o.opt.dc = span_str("dc1");
	restart();
	ck_assert_int_eq(serf_put_meta(&b, &ours, 1), TV_OK);
	(void)one_alive_at(&o, "a", 1, &a, buf_span(&b));
	buf_reset(&b);
	ck_assert_int_eq(serf_put_meta(&b, &theirs, 1), TV_OK);
	(void)one_alive_at(&o, "c", 1, &c, buf_span(&b));
	buf_done(&b);
	(void)one_alive_at(&o, "plain", 1, &p, SPAN_NONE);	/* a Serf member without our tags */
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	ck_assert_int_eq(one_status(&o, "c"), MEMBER_NONE);
	ck_assert_int_eq(one_status(&o, "plain"), MEMBER_ALIVE);
	ck_assert_uint_eq(one_stats(&o).wrong_dc, 1);
}
END_TEST

/* -- ourselves ------------------------------------------------------------------------------ */

START_TEST(we_refute)
{
	struct { enum stimulus what; uint32_t incarnation, after; } rows[] = {
		{ SUSPECT, 0, 1 },	/* older than we are */
		{ SUSPECT, 1, 2 }, { SUSPECT, 12, 13 }, { DEAD, 13, 14 }, { LEFT, 30, 31 },
	};

	(void)one_alive(&o, "a", 1);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ck_assert_int_eq(hit(rows[i].what, SELF, rows[i].incarnation), TV_OK);
		ck_assert_uint_eq(one_incarnation(&o, SELF), rows[i].after);
		ck_assert_int_eq(one_state(&o, SELF), NODE_ALIVE);
	}
	ck_assert(one_spreads(&o, WIRE_ALIVE, SELF));
	ck_assert_uint_eq(one_stats(&o).health, 4);
}
END_TEST

START_TEST(stale_accusers_are_answered_directly)
{
	struct addr to, from = one_addr(200);
	struct wire_alive m;

	(void)one_suspect(&o, SELF, 1, "a");
	ck_assert_uint_eq(one_incarnation(&o, SELF), 2);
	for (int i = 0; i < 2; i++) {
		(void)hit(i == 0 ? SUSPECT : DEAD, SELF, 1);
		ck_assert_int_eq(wire_get_alive(one_said(&o, WIRE_ALIVE, &to), &o.arena, &m), TV_OK);
		ck_assert(addr_eq(&to, &from));
		ck_assert_uint_eq(m.incarnation, 2);
	}
	ck_assert_uint_eq(one_incarnation(&o, SELF), 2);
	(void)one_alive(&o, "a", 3);
	(void)one_suspect(&o, "a", 1, "b");		/* only we ourselves speak for us */
	ck_assert_ptr_null(one_said(&o, WIRE_ALIVE, NULL).p);
}
END_TEST

START_TEST(we_overrule_what_an_earlier_life_said)
{
	struct addr self = one_addr(1);

	(void)one_alive_at(&o, SELF, 1, &self, SPAN_NONE);
	ck_assert_uint_eq(one_incarnation(&o, SELF), 1);		/* our own word, come back */
	(void)one_alive_at(&o, SELF, 1, &self, span_str("\xff\x80"));
	ck_assert_uint_eq(one_incarnation(&o, SELF), 2);		/* other tags */
	(void)one_alive_at(&o, SELF, 8, &self, SPAN_NONE);
	ck_assert_uint_eq(one_incarnation(&o, SELF), 9);
}
END_TEST

/* What the snapshot kept: others believe us at once, without having to be refuted. */
START_TEST(a_new_life_starts_above_the_last_one)
{
	struct swim_clocks c, last = { .clock = 40, .event_clock = 50, .query_clock = 60, .incarnation = 7 };

	o.opt.clocks = last;
	restart();
	ck_assert_uint_eq(one_incarnation(&o, SELF), 8);
	swim_clocks(o.s, &c);
	ck_assert(c.clock >= 40 && c.event_clock == 50 && c.query_clock == 60 && c.incarnation == 8);
	o.opt.clocks.incarnation = UINT32_MAX;		/* forged, or a garbled file: it must leave room to refute */
	restart();
	ck_assert_uint_eq(one_incarnation(&o, SELF), 1);
}
END_TEST

START_TEST(our_name_elsewhere)
{
	struct addr other = one_addr(99);

	(void)one_alive_at(&o, SELF, 50, &other, SPAN_NONE);
	ck_assert(one_noticed(&o, SWIM_NOTICE_SELF_CONFLICT));
	ck_assert_uint_eq(one_incarnation(&o, SELF), 1);
}
END_TEST

/* S176: nobody can be silenced by forged incarnations. */
START_TEST(incarnations_at_the_end)
{
	static const uint32_t forged[] = { UINT32_MAX, UINT32_MAX - 1, 1u << 31 };

	(void)one_alive(&o, "a", 3);
	for (int i = 0; i < 2; i++) {
		(void)one_alive(&o, "a", forged[i]);
		(void)one_suspect(&o, "a", forged[i], "x");
		(void)one_dead(&o, "a", forged[i], "x");
		(void)one_alive(&o, "fresh", forged[i]);
		(void)one_dead(&o, SELF, forged[i], "x");
	}
	ck_assert_uint_eq(one_stats(&o).bad_incarnation, 10);
	ck_assert_uint_eq(one_incarnation(&o, "a"), 3);
	ck_assert_int_eq(one_status(&o, "fresh"), MEMBER_NONE);
	ck_assert_uint_eq(one_incarnation(&o, SELF), 1);
	(void)one_alive(&o, "a", 4);
	ck_assert_uint_eq(one_incarnation(&o, "a"), 4);
	/* What is just possible can be refuted, and others take the refutation. */
	(void)one_dead(&o, "a", forged[2], "x");
	ck_assert_int_eq(one_state(&o, "a"), NODE_DEAD);
	(void)one_alive(&o, "a", forged[2] + 1);
	ck_assert_int_eq(one_state(&o, "a"), NODE_ALIVE);
	(void)one_dead(&o, SELF, forged[2], "x");
	ck_assert_uint_eq(one_incarnation(&o, SELF), forged[2] + 1);
}
END_TEST

START_TEST(own_incarnation_starts_over)
{
	const uint32_t last = UINT32_MAX - 2, step = 1u << 20;

	/* Step by step to the end of the numbers, as an attacker would. */
	for (uint32_t at = 1u << 31; at < last; at = last - at > step ? at + step : last)
		(void)one_dead(&o, SELF, at, "x");
	(void)one_dead(&o, SELF, last, "x");
	ck_assert_uint_eq(one_incarnation(&o, SELF), UINT32_MAX - 1);
	(void)one_dead(&o, SELF, UINT32_MAX - 1, "x");
	ck_assert(one_noticed(&o, SWIM_NOTICE_REKEY));
	ck_assert_uint_eq(one_incarnation(&o, SELF), 1);
}
END_TEST

START_TEST(tags_change)
{
	struct swim_member m;

	(void)one_alive(&o, "a", 1);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_META, .bytes = span_str("\xff\x80") }),
	    TV_OK);
	ck_assert_int_eq(one_event(&o), GOSSIP_EV_UPDATE);
	ck_assert_uint_eq(one_incarnation(&o, SELF), 2);
	ck_assert(swim_member_find(o.s, span_str(SELF), &m) && m.meta.len == 2);
	ck_assert(one_spreads(&o, WIRE_ALIVE, SELF));
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_META, .bytes = span_str("\xff\x80") }),
	    TV_OK);
	ck_assert_uint_eq(one_incarnation(&o, SELF), 2);		/* nothing new */
	static const uint8_t big[NODE_META_BYTES_MAX + 1];
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_META, .bytes = span_of(big, sizeof(big)) }),
	    TV_ELIMIT);
}
END_TEST

/* A million invented members and messages leave bounded memory and a working core (S177). */
START_TEST(invented_members)
{
	char name[32];

	o.opt.members_max = 500;
	restart();
	(void)one_alive(&o, "friend", 1);
	for (unsigned i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "invented-%u", i);
		(void)one_alive(&o, name, 1);
		(void)one_join_intent(&o, name, i);
		(void)one_suspect(&o, name, 1, "friend");
	}
	ck_assert_uint_eq(one_stats(&o).members, 500);
	ck_assert_uint_le(one_stats(&o).member_queue, 500);
	ck_assert_uint_le(one_stats(&o).intent_queue, 100);
	ck_assert_int_eq(one_status(&o, "friend"), MEMBER_ALIVE);
	one_wait(&o, MONO_S(30));
}
END_TEST

/* -- gossip ------------------------------------------------------------------------------------------------ */

START_TEST(packets_keep_the_limit)
{
	static uint8_t meta[NODE_META_BYTES_MAX] = { 0xff };
	struct envelope plain = { .version = 1 };
	uint8_t nonce[SEAL_NONCE_BYTES] = { 0 };
	struct packet_scratch *scratch = malloc(sizeof(*scratch));
	char name[16];
	unsigned datagrams = 0;

	ck_assert_ptr_nonnull(scratch);
	packet_scratch_init(scratch);
	for (unsigned i = 0; i < 60; i++) {
		struct addr a = one_addr(i + 2);

		snprintf(name, sizeof(name), "m%u", i);
		(void)one_alive_at(&o, name, 1, &a, span_of(meta, 1 + i * 8));
	}
	for (int tick = 0; tick < 40; tick++) {
		for (size_t i = 0; i < o.out->send_count; i++) {
			struct buf b = BUF_INIT(PACKET_BYTES_MAX);

			ck_assert_int_eq(packet_build(&plain, scratch, o.out->sends[i].parts,
			    o.out->sends[i].part_count, false, nonce, &b), TV_OK);
			ck_assert_uint_le(b.len, PACKET_MTU);
			datagrams++;
			buf_done(&b);
		}
		one_wait(&o, MONO_MS(200));
	}
	ck_assert_uint_gt(datagrams, 20);
	packet_scratch_done(scratch);
	free(scratch);
}
END_TEST

START_TEST(an_idle_pool_does_not_gossip)
{
	struct swim_stats before;

	one_wait(&o, MONO_S(10));
	before = one_stats(&o);
	ck_assert_uint_eq(before.member_queue, 1);		/* ourselves, and nobody to tell */
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_TICK });
	ck_assert_int_gt(mono_ms(mono_sub(o.out->deadline, o.now)), 0);
	one_wait(&o, MONO_S(60));
	ck_assert_uint_eq(o.out->send_count, 0);
}
END_TEST

static TCase *
merge_case(void)
{
	TCase *t = tcase_create("merge");

	tcase_add_loop_test(t, merge_rules, 0, sizeof(merges) / sizeof(merges[0]));
	tcase_add_test(t, unknown_members);
	tcase_add_test(t, news_spread_and_old_news_do_not);
	tcase_add_test(t, address_conflicts);
	tcase_add_test(t, a_left_name_moves_with_any_incarnation);
	tcase_add_test(t, a_dead_name_moves_after_the_reclaim_time);
	tcase_add_test(t, port_zero_is_our_own_port);
	tcase_add_test(t, bad_members_are_refused);
	tcase_add_test(t, member_limit);
	tcase_add_test(t, a_full_table_makes_room);
	tcase_add_test(t, members_of_another_datacenter);
	tcase_add_test(t, we_refute);
	tcase_add_test(t, stale_accusers_are_answered_directly);
	tcase_add_test(t, we_overrule_what_an_earlier_life_said);
	tcase_add_test(t, a_new_life_starts_above_the_last_one);
	tcase_add_test(t, our_name_elsewhere);
	tcase_add_test(t, incarnations_at_the_end);
	tcase_add_test(t, own_incarnation_starts_over);
	tcase_add_test(t, tags_change);
	tcase_add_test(t, invented_members);
	return t;
}

static TCase *
gossip_case(void)
{
	TCase *t = tcase_create("gossip");

	tcase_add_test(t, packets_keep_the_limit);
	tcase_add_test(t, an_idle_pool_does_not_gossip);
	return t;
}

int
main(void)
{
	TCase *const cases[] = { merge_case(), gossip_case() };

	return swim_kit_main("swim", cases, sizeof(cases) / sizeof(cases[0]));
}
