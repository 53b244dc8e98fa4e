/* The rules of the gossip core, one by one, through its contract. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/gossip_one.h"

static struct one o;

static void
setup(void)
{
	one_init(&o);
	one_start(&o);
}

static void
teardown(void)
{
	one_done(&o);
}

/* Another start with changed options. */
static void
restart(void)
{
	swim_free(o.s);
	one_start(&o);
}

/* Nobody answers in most tests: then the others must not fail by themselves. */
static void
without_probes(void)
{
	o.opt.timing.probe_interval = MONO_S(1000000);
	restart();
}

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
	struct gaddr other = one_addr(77), lengthened = { .len = 16, .port = 7946 };
	struct gaddr home = one_addr('a');

	(void)one_alive(&o, "a", 5);
	(void)one_alive_at(&o, "a", 9, &other, SPAN_NONE);
	ck_assert(one_noticed(&o, SWIM_NOTICE_CONFLICT));
	ck_assert(gaddr_eq(&o.out->notices[0].addr, &home) && gaddr_eq(&o.out->notices[0].other_addr, &other));
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
	struct gaddr other = one_addr(77);

	(void)one_alive(&o, "a", 5);
	(void)one_dead(&o, "a", 5, "a");
	(void)one_alive_at(&o, "a", 2, &other, SPAN_NONE);
	ck_assert_int_eq(one_state(&o, "a"), NODE_ALIVE);
	ck_assert_uint_eq(one_incarnation(&o, "a"), 2);
}
END_TEST

START_TEST(a_dead_name_moves_after_the_reclaim_time)
{
	struct gaddr other = one_addr(77);

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
	struct gaddr a = one_addr(5);
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
	struct gaddr zero = { .len = 4, .port = 1 }, a = one_addr(5);
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
	struct gaddr a = one_addr(5), c = one_addr(6), p = one_addr(7);

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
	struct gaddr to, from = one_addr(200);
	struct wire_alive m;

	(void)one_suspect(&o, SELF, 1, "a");
	ck_assert_uint_eq(one_incarnation(&o, SELF), 2);
	for (int i = 0; i < 2; i++) {
		(void)hit(i == 0 ? SUSPECT : DEAD, SELF, 1);
		ck_assert_int_eq(wire_get_alive(one_said(&o, WIRE_ALIVE, &to), &o.arena, &m), TV_OK);
		ck_assert(gaddr_eq(&to, &from));
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
	struct gaddr self = one_addr(1);

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
	struct gaddr other = one_addr(99);

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

/* -- Serf's statuses ----------------------------------------------------------------------------- */

enum act { A_ALIVE, A_DEAD, A_LEFT, A_JOIN, A_LEAVE, A_PRUNE, A_END };

static void
act(enum act what, unsigned step)
{
	uint64_t ltime = 10 + step;
	uint32_t incarnation = 1 + step;

	switch (what) {
	case A_ALIVE:
		(void)one_alive(&o, "a", incarnation);
		break;
	case A_DEAD:
		(void)one_dead(&o, "a", incarnation, "x");
		break;
	case A_LEFT:
		(void)one_dead(&o, "a", incarnation, "a");
		break;
	case A_JOIN:
		(void)one_join_intent(&o, "a", ltime);
		break;
	default:
		(void)one_leave_intent(&o, "a", ltime, what == A_PRUNE);
		break;
	}
}

static const struct {
	const char *what;
	enum act acts[5];
	enum member_status status;
	int event;			/* of the last act; -1: none */
} statuses[] = {
	{ "join",			{ A_ALIVE, A_END }, MEMBER_ALIVE, GOSSIP_EV_JOIN },
	{ "fail",			{ A_ALIVE, A_DEAD, A_END }, MEMBER_FAILED, GOSSIP_EV_FAILED },
	{ "left without intent",	{ A_ALIVE, A_LEFT, A_END }, MEMBER_FAILED, GOSSIP_EV_FAILED },
	{ "intent only",		{ A_ALIVE, A_LEAVE, A_END }, MEMBER_LEAVING, GOSSIP_EV_UPDATE },
	{ "intent, then dead",		{ A_ALIVE, A_LEAVE, A_DEAD, A_END }, MEMBER_LEFT, GOSSIP_EV_LEAVE },
	{ "intent, then left",		{ A_ALIVE, A_LEAVE, A_LEFT, A_END }, MEMBER_LEFT, GOSSIP_EV_LEAVE },
	{ "dead, then intent",		{ A_ALIVE, A_DEAD, A_LEAVE, A_END }, MEMBER_LEFT, GOSSIP_EV_LEAVE },
	{ "second intent of a left one", { A_ALIVE, A_DEAD, A_LEAVE, A_LEAVE, A_END }, MEMBER_LEFT, -1 },
	{ "intent taken back",		{ A_ALIVE, A_LEAVE, A_JOIN, A_END }, MEMBER_ALIVE, GOSSIP_EV_UPDATE },
	{ "intent before the member",	{ A_LEAVE, A_ALIVE, A_END }, MEMBER_LEAVING, GOSSIP_EV_JOIN },
	{ "join intent before it",	{ A_JOIN, A_ALIVE, A_END }, MEMBER_ALIVE, GOSSIP_EV_JOIN },
	{ "both before it",		{ A_JOIN, A_LEAVE, A_ALIVE, A_END }, MEMBER_LEAVING, GOSSIP_EV_JOIN },
	{ "back from failed",		{ A_ALIVE, A_DEAD, A_ALIVE, A_END }, MEMBER_ALIVE, GOSSIP_EV_JOIN },
	{ "back from left",		{ A_ALIVE, A_LEAVE, A_LEFT, A_ALIVE, A_END }, MEMBER_ALIVE, GOSSIP_EV_JOIN },
	{ "prune a failed one",		{ A_ALIVE, A_DEAD, A_PRUNE, A_END }, MEMBER_NONE, GOSSIP_EV_REAP },
	{ "prune a left one",		{ A_ALIVE, A_DEAD, A_LEAVE, A_PRUNE, A_END }, MEMBER_NONE, GOSSIP_EV_REAP },
	{ "prune a live one: not yet",	{ A_ALIVE, A_PRUNE, A_END }, MEMBER_LEAVING, GOSSIP_EV_UPDATE },
};

START_TEST(status_rules)
{
	for (unsigned i = 0; statuses[_i].acts[i] != A_END; i++)
		act(statuses[_i].acts[i], i);
	ck_assert_msg(one_status(&o, "a") == statuses[_i].status, "%s: %s", statuses[_i].what,
	    member_status_name(one_status(&o, "a")));
	ck_assert_msg(one_event(&o) == statuses[_i].event, "%s: event %d", statuses[_i].what, one_event(&o));
}
END_TEST

START_TEST(old_intents_change_nothing)
{
	(void)one_alive(&o, "a", 1);
	(void)one_join_intent(&o, "a", 10);
	(void)one_leave_intent(&o, "a", 10, false);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	(void)one_leave_intent(&o, "a", 11, false);
	(void)one_join_intent(&o, "a", 11);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_LEAVING);
	ck_assert_uint_eq(one_stats(&o).clock, 12);		/* witnessed all the same */
}
END_TEST

START_TEST(intents_spread_once)
{
	without_probes();
	(void)one_alive(&o, "a", 1);
	(void)one_alive(&o, "b", 1);
	one_wait(&o, MONO_S(5));
	(void)one_leave_intent(&o, "a", 10, false);
	ck_assert(one_spreads_intent(&o, SERF_LEAVE, "a"));
	one_wait(&o, MONO_S(10));
	(void)one_leave_intent(&o, "a", 10, false);
	ck_assert(!one_spreads_intent(&o, SERF_LEAVE, "a"));
	(void)one_join_intent(&o, "unknown", 12);
	ck_assert(one_spreads_intent(&o, SERF_JOIN, "unknown"));
}
END_TEST

START_TEST(we_do_not_leave_because_others_say_so)
{
	(void)one_alive(&o, "a", 1);
	(void)one_leave_intent(&o, SELF, 40, false);
	ck_assert_int_eq(one_status(&o, SELF), MEMBER_ALIVE);
	ck_assert(one_noticed(&o, SWIM_NOTICE_LEAVE_REFUTED));
	ck_assert(one_spreads_intent(&o, SERF_JOIN, SELF));
	ck_assert(!one_spreads_intent(&o, SERF_LEAVE, SELF));
	ck_assert_uint_gt(one_stats(&o).clock, 41);
}
END_TEST

/* A time that nobody could ever top would settle a member's fate for good. */
START_TEST(intents_at_the_end_of_time)
{
	(void)one_alive(&o, "a", 1);
	(void)one_leave_intent(&o, SELF, UINT64_MAX, false);
	(void)one_leave_intent(&o, "a", UINT64_MAX - 1, false);
	(void)one_join_intent(&o, "a", UINT64_MAX - 1);
	(void)one_join_intent(&o, "unknown", UINT64_MAX);
	ck_assert_int_eq(one_status(&o, SELF), MEMBER_ALIVE);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	ck_assert_uint_lt(one_stats(&o).clock, 10);
	ck_assert_uint_eq(one_stats(&o).over_ltimes, 4);
	ck_assert(!one_spreads_intent(&o, SERF_LEAVE, "a"));
	(void)one_leave_intent(&o, "a", 10, false);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_LEAVING);
}
END_TEST

START_TEST(a_pruned_member_that_speaks_up_stays)
{
	without_probes();
	(void)one_alive(&o, "a", 1);
	(void)one_leave_intent(&o, "a", 10, true);
	one_wait(&o, MONO_S(2));
	(void)one_join_intent(&o, "a", 12);
	one_wait(&o, MONO_S(6));
	ck_assert_int_ne(one_status(&o, "a"), MEMBER_NONE);
	(void)one_leave_intent(&o, "a", 20, true);
	one_wait(&o, MONO_S(7));
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_NONE);
}
END_TEST

/* Copies of a prune arrive after the member is gone: when it comes back, it is not taken for leaving. */
START_TEST(a_pruned_member_returns)
{
	without_probes();
	(void)one_alive(&o, "a", 1);
	(void)one_dead(&o, "a", 1, "b");
	(void)one_leave_intent(&o, "a", 10, true);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_NONE);
	(void)one_leave_intent(&o, "a", 10, true);
	(void)one_alive(&o, "a", 2);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	(void)one_leave_intent(&o, "a", 10, true);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	(void)one_join_intent(&o, "a", 11);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
}
END_TEST

START_TEST(intent_memory_is_limited)
{
	char name[16];

	for (int i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "u%d", i);
		(void)one_join_intent(&o, name, 5);
	}
	ck_assert_uint_eq(one_stats(&o).over_intents, 20);
	one_wait(&o, MONO_S(400));			/* they are forgotten, and there is room again */
	(void)one_join_intent(&o, "late", 6);
	ck_assert_uint_eq(one_stats(&o).over_intents, 20);
}
END_TEST

START_TEST(members_are_reaped)
{
	o.opt.timing.reconnect_timeout = MONO_S(60);
	o.opt.timing.tombstone_timeout = MONO_S(120);
	restart();
	(void)one_alive(&o, "f", 1);
	(void)one_dead(&o, "f", 1, "x");
	(void)one_alive(&o, "l", 1);
	(void)one_leave_intent(&o, "l", 5, false);
	(void)one_dead(&o, "l", 1, "l");
	one_wait(&o, MONO_S(55));
	ck_assert_int_eq(one_status(&o, "f"), MEMBER_FAILED);
	one_wait(&o, MONO_S(25));
	ck_assert_int_eq(one_status(&o, "f"), MEMBER_NONE);
	ck_assert_int_eq(one_status(&o, "l"), MEMBER_LEFT);
	one_wait(&o, MONO_S(60));
	ck_assert_int_eq(one_status(&o, "l"), MEMBER_NONE);
	ck_assert_uint_eq(one_stats(&o).known, 1);	/* and SWIM has forgotten both */
}
END_TEST

static struct swim_restore
remembered(const char *name, enum member_status status, struct mono age)
{
	return (struct swim_restore){ .name = span_str(name), .meta = span_str("role"), .addr = one_addr('a'),
		.status = status, .age = age, .status_ltime = 7, .vsn = { 1, 5, 2, 2, 5, 5 } };
}

static enum tv_err
restore(struct swim_restore r)
{
	return one_feed(&o, (struct swim_input){ .type = SWIM_IN_RESTORE, .restore = &r });
}

START_TEST(members_from_before_a_restart)
{
	o.opt.timing.reconnect_timeout = MONO_S(60);
	restart();
	ck_assert_int_eq(restore(remembered("a", MEMBER_FAILED, MONO_ZERO)), TV_OK);
	ck_assert_int_eq(restore(remembered("f", MEMBER_FAILED, MONO_S(50))), TV_OK);
	ck_assert_int_eq(restore(remembered("l", MEMBER_LEFT, MONO_S(50))), TV_OK);
	ck_assert_int_eq(restore(remembered("a", MEMBER_FAILED, MONO_ZERO)), TV_EEXIST);
	ck_assert_int_eq(restore(remembered(SELF, MEMBER_FAILED, MONO_ZERO)), TV_EEXIST);
	ck_assert_int_eq(restore(remembered("old", MEMBER_FAILED, MONO_S(61))), TV_ENOENT);	/* its time is over */
	ck_assert_int_eq(one_status(&o, "old"), MEMBER_NONE);
	ck_assert_int_eq(restore(remembered("x", MEMBER_ALIVE, MONO_ZERO)), TV_EINVAL);
	ck_assert_int_eq(restore(remembered("bad\n", MEMBER_FAILED, MONO_ZERO)), TV_EINVAL);
	ck_assert_int_eq(one_event(&o), -1);
	ck_assert_int_eq(one_state(&o, "a"), NODE_STATES);	/* not probed */
	(void)one_alive(&o, "a", 1);
	ck_assert_int_eq(one_event(&o), GOSSIP_EV_JOIN);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_ALIVE);
	(void)one_leave_intent(&o, "f", 7, false);		/* not newer than what was remembered */
	ck_assert_int_eq(one_status(&o, "f"), MEMBER_FAILED);
	one_wait(&o, MONO_S(30));				/* its 60 s began before the restart */
	ck_assert_int_eq(one_status(&o, "f"), MEMBER_NONE);
	ck_assert_int_eq(one_status(&o, "l"), MEMBER_LEFT);
}
END_TEST

static bool
dials_join(const struct one *one, void *arg)
{
	struct gaddr *to = arg;

	for (size_t i = 0; i < one->out->stream_count; i++) {
		if (one->out->streams[i].kind == SWIM_STREAM_PUSHPULL) {
			*to = one->out->streams[i].to;
			return true;
		}
	}
	return false;
}

START_TEST(failed_members_are_tried_again)
{
	struct gaddr to, want = one_addr('a');

	(void)one_alive(&o, "a", 1);
	(void)one_dead(&o, "a", 1, "x");
	ck_assert(one_wait_for(&o, MONO_S(31), dials_join, &to));
	ck_assert(gaddr_eq(&to, &want));
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_FAILED, .stream = o.out->streams[0].id,
		.error = TV_ETIMEOUT });
	ck_assert(one_wait_for(&o, MONO_S(31), dials_join, &to));
}
END_TEST

/* -- exchanges --------------------------------------------------------------------------------------- */

static struct wire_node
node(const char *name, uint32_t state, uint32_t incarnation)
{
	static struct gaddr addrs[256];
	uint8_t last = (uint8_t)name[strlen(name) - 1];

	addrs[last] = one_addr(last);
	return (struct wire_node){ .name = span_str(name), .addr = span_of(addrs[last].ip, 4), .port = 7946,
		.incarnation = incarnation, .state = state, .vsn = span_of(one_vsn, 6) };
}

START_TEST(exchange_merges)
{
	struct wire_node nodes[] = {
		node("a", WIRE_STATE_ALIVE, 3), node("b", WIRE_STATE_ALIVE, 1), node("c", WIRE_STATE_ALIVE, 1),
		node("d", 9, 1),			/* a state that nobody knows */
	};

	ck_assert_int_eq(one_exchange(&o, true, nodes, 4), TV_OK);
	ck_assert_uint_gt(o.out->answer.len, 0);
	ck_assert_uint_eq(o.out->answer.p[0], WIRE_PUSH_PULL);
	ck_assert_uint_eq(one_stats(&o).alive, 4);
	nodes[0] = node("a", WIRE_STATE_SUSPECT, 3);
	nodes[1] = node("b", WIRE_STATE_DEAD, 1);
	nodes[2] = node("c", WIRE_STATE_LEFT, 1);
	ck_assert_int_eq(one_exchange(&o, false, nodes, 3), TV_OK);
	ck_assert_int_eq(one_state(&o, "a"), NODE_SUSPECT);
	ck_assert_int_eq(one_state(&o, "b"), NODE_SUSPECT);	/* a death is never taken over */
	ck_assert_int_eq(one_state(&o, "c"), NODE_LEFT);
}
END_TEST

START_TEST(exchange_about_ourselves_is_refuted)
{
	struct wire_node me = node(SELF, WIRE_STATE_DEAD, 7);

	ck_assert_int_eq(one_exchange(&o, true, &me, 1), TV_OK);
	ck_assert_uint_eq(one_incarnation(&o, SELF), 8);
	me = node(SELF, WIRE_STATE_LEFT, 20);
	ck_assert_int_eq(one_exchange(&o, true, &me, 1), TV_OK);
	ck_assert_uint_eq(one_incarnation(&o, SELF), 21);
}
END_TEST

/* The state that we tell while a member is leaving must not keep others from hearing its leave. */
START_TEST(a_leave_under_way_is_not_told_as_a_join)
{
	struct one p;
	struct envelope plain = { .version = 1 };
	struct stream_limits limits = STREAM_LIMITS_DEFAULT;
	struct stream_reader r;
	struct swim_input in = { .type = SWIM_IN_REQUEST, .from = one_addr(1) };

	one_init(&p);
	p.opt.name = span_str("peer");
	p.opt.self = one_addr(2);
	one_start(&p);
	(void)one_alive(&o, "a", 1);
	(void)one_alive(&p, "a", 1);
	(void)one_leave_intent(&o, "a", 10, false);
	ck_assert_int_eq(one_exchange(&o, false, NULL, 0), TV_OK);
	stream_reader_init(&r, &plain, &limits, STREAM_ACCEPTED);
	ck_assert_int_eq(stream_feed(&r, o.out->answer), TV_OK);
	in.message = stream_message(&r);
	ck_assert_int_eq(one_feed(&p, in), TV_OK);
	(void)one_leave_intent(&p, "a", 10, false);
	ck_assert_int_eq(one_status(&p, "a"), MEMBER_LEAVING);
	stream_reader_done(&r);
	one_done(&p);
}
END_TEST

/* Version vectors that refuse the whole exchange, and those that do not. */
static const struct {
	uint8_t vsn[6], len;
	bool ok;
} versions[] = {
	{ { 1, 5, 2, 2, 5, 5 }, 6, true },
	{ { 1, 5, 2, 2, 5, 4 }, 6, true },
	{ { 0 }, 0, false },
	{ { 1, 5, 0, 2, 5, 5 }, 6, false },
	{ { 1, 5, 2, 2, 5, 6 }, 6, false },
	{ { 1, 5, 2, 0, 0, 0 }, 6, false },
	{ { 3, 5, 3, 2, 5, 5 }, 6, false },
	{ { 1, 5, 2, 2, 4, 4 }, 6, false },
};

START_TEST(exchange_versions)
{
	struct wire_node nodes[2] = { node("a", WIRE_STATE_ALIVE, 1), node("b", WIRE_STATE_ALIVE, 1) };
	enum tv_err err;

	nodes[1].vsn = span_of(versions[_i].vsn, versions[_i].len);
	err = one_exchange(&o, true, nodes, 2);
	ck_assert_int_eq(err, versions[_i].ok ? TV_OK : TV_EPERM);
	ck_assert_int_eq(one_status(&o, "a"), versions[_i].ok ? MEMBER_ALIVE : MEMBER_NONE);
	ck_assert_uint_gt(o.out->answer.len, 0);	/* the listener has answered by then */
	ck_assert_int_eq(one_noticed(&o, SWIM_NOTICE_REFUSED), !versions[_i].ok);
}
END_TEST

START_TEST(exchange_with_another_datacenter)
{
	struct member_tag theirs = { span_str("dc"), span_str("dc2") };
	struct buf b = BUF_INIT(4096);
	struct wire_node nodes[2] = { node("a", WIRE_STATE_ALIVE, 1), node("b", WIRE_STATE_ALIVE, 1) };

	o.opt.dc = span_str("dc1");
	restart();
	ck_assert_int_eq(serf_put_meta(&b, &theirs, 1), TV_OK);
	nodes[1].meta = buf_span(&b);
	ck_assert_int_eq(one_exchange(&o, true, nodes, 2), TV_EPERM);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_NONE);
	buf_done(&b);
}
END_TEST

/* The asker is told that somebody there goes by its name, though the exchange went well. */
START_TEST(join_meets_our_name)
{
	struct wire_node nodes[2] = { node("a", WIRE_STATE_ALIVE, 1), node(SELF, WIRE_STATE_ALIVE, 1) };
	struct stream_message m = { .type = WIRE_PUSH_PULL, .header = { .join = true, .nodes = 2 } };
	struct buf b = BUF_INIT(4096);
	struct gaddr to = one_addr(2), rival = one_addr((uint8_t)SELF[strlen(SELF) - 1]);

	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .token = 5, .addrs = &to,
		.addr_count = 1 }), TV_OK);
	for (int i = 0; i < 2; i++)
		wire_put_node(&b, &nodes[i]);
	m.nodes = buf_span(&b);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_ANSWER, .stream = o.out->streams[0].id,
		.message = &m }), TV_OK);
	ck_assert_uint_eq(o.out->join_count, 1);
	ck_assert_uint_eq(o.out->joins[0].contacted, 1);
	ck_assert(gaddr_eq(&o.out->joins[0].rival, &rival));
	buf_done(&b);
}
END_TEST

/* One state to another core: two real ends of one exchange. */
START_TEST(join_end_to_end)
{
	struct one p;
	struct envelope plain = { .version = 1 };
	struct stream_limits limits = STREAM_LIMITS_DEFAULT;
	struct stream_reader r;
	struct swim_input in = { .type = SWIM_IN_REQUEST, .from = one_addr(1) };
	struct gaddr addrs[2] = { one_addr(2), one_addr(1) };
	uint64_t id;

	one_init(&p);
	p.opt.name = span_str("peer");
	p.opt.self = one_addr(2);
	one_start(&p);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .token = 5, .addrs = addrs,
		.addr_count = 2 }), TV_OK);
	ck_assert_uint_eq(o.out->stream_count, 1);	/* ourselves need not be asked */
	ck_assert_uint_eq(o.out->join_count, 0);
	id = o.out->streams[0].id;
	stream_reader_init(&r, &plain, &limits, STREAM_ACCEPTED);
	ck_assert_int_eq(stream_feed(&r, o.out->streams[0].message), TV_OK);
	in.message = stream_message(&r);
	ck_assert(in.message->header.join);
	ck_assert_int_eq(one_feed(&p, in), TV_OK);
	ck_assert_int_eq(one_status(&p, SELF), MEMBER_ALIVE);
	stream_reader_done(&r);
	stream_reader_init(&r, &plain, &limits, STREAM_DIALLED);
	ck_assert_int_eq(stream_feed(&r, p.out->answer), TV_OK);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_ANSWER, .stream = id,
		.message = stream_message(&r) }), TV_OK);
	ck_assert_int_eq(one_status(&o, "peer"), MEMBER_ALIVE);
	ck_assert_uint_eq(o.out->join_count, 1);
	ck_assert_uint_eq(o.out->joins[0].token, 5);
	ck_assert_uint_eq(o.out->joins[0].contacted, 2);
	ck_assert(one_spreads_intent(&o, SERF_JOIN, SELF));
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_FAILED, .stream = id }), TV_ENOENT);
	stream_reader_done(&r);
	one_done(&p);
}
END_TEST

/* Answers the n-th stream of the last output with a state of two members. */
static void
answer_join(uint64_t stream, char first, char second)
{
	struct buf b = BUF_INIT(4096);
	struct stream_message m = { .type = WIRE_PUSH_PULL, .header = { .nodes = 2 } };

	for (int i = 0; i < 2; i++) {
		char name[2] = { i == 0 ? first : second, 0 };
		struct gaddr a = one_addr((unsigned)name[0]);
		struct wire_node n = { .name = span_str(name), .addr = span_of(a.ip, a.len), .port = a.port,
			.incarnation = 1, .state = WIRE_STATE_ALIVE, .vsn = span_of(one_vsn, sizeof(one_vsn)) };

		wire_put_node(&b, &n);
	}
	m.nodes = buf_span(&b);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_ANSWER, .stream = stream, .message = &m }),
	    TV_OK);
	buf_done(&b);
}

/* After a restart nothing is said of each member that answers, but that we are here is said once. */
START_TEST(a_quiet_join_is_announced_once)
{
	struct gaddr first = one_addr('b'), second = one_addr('d');

	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = &first, .addr_count = 1, .quiet = true });
	answer_join(o.out->streams[0].id, 'b', 'c');
	ck_assert(one_spreads_intent(&o, SERF_JOIN, SELF));
	one_wait(&o, MONO_S(5));			/* all its copies are out */
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = &second, .addr_count = 1, .quiet = true });
	answer_join(o.out->streams[0].id, 'd', 'e');
	ck_assert(!one_spreads_intent(&o, SERF_JOIN, SELF));
}
END_TEST

/* All to whom it could tell what it learned know more than it does. */
START_TEST(a_newcomer_learns_in_silence)
{
	struct gaddr addr = one_addr('a');

	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = &addr, .addr_count = 1 }),
	    TV_OK);
	answer_join(o.out->streams[0].id, 'a', 'b');
	ck_assert_uint_eq(one_stats(&o).alive, 3);
	ck_assert_uint_eq(one_stats(&o).member_queue, 1);
	ck_assert(one_spreads(&o, WIRE_ALIVE, SELF));
	ck_assert_uint_le(one_stats(&o).member_queue, 1);
	(void)one_alive(&o, "c", 1);		/* what comes later is news */
	ck_assert(one_spreads(&o, WIRE_ALIVE, "c"));
}
END_TEST

/* Those asked may belong to pools that do not know each other. */
START_TEST(one_that_joins_two_tells_each_of_the_other)
{
	struct gaddr addrs[2] = { one_addr('a'), one_addr('c') };
	uint64_t ids[2];

	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = addrs, .addr_count = 2 }),
	    TV_OK);
	ck_assert_uint_eq(o.out->stream_count, 2);
	ids[0] = o.out->streams[0].id;
	ids[1] = o.out->streams[1].id;
	answer_join(ids[0], 'a', 'b');
	answer_join(ids[1], 'c', 'd');
	ck_assert_uint_eq(one_stats(&o).alive, 5);
	ck_assert_uint_eq(one_stats(&o).member_queue, 5);
}
END_TEST

START_TEST(join_fails)
{
	struct gaddr addr = one_addr(9);

	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = &addr, .addr_count = 0 }),
	    TV_EINVAL);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .token = 1, .addrs = &addr,
		.addr_count = 1 }), TV_OK);
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_FAILED, .stream = o.out->streams[0].id,
		.error = TV_EUNREACH });
	ck_assert_uint_eq(o.out->join_count, 1);
	ck_assert_uint_eq(o.out->joins[0].contacted, 0);
	ck_assert_int_eq(o.out->joins[0].error, TV_EUNREACH);
	ck_assert(gaddr_eq(&o.out->joins[0].error_addr, &addr));
	/* A shell that forgets to answer does not keep the join for ever. */
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_JOIN, .token = 2, .addrs = &addr,
		.addr_count = 1 }), TV_OK);
	bool ended = false;
	for (int i = 0; i < 600 && !ended; i++) {
		one_wait(&o, MONO_MS(100));
		ended = o.out->join_count == 1;
	}
	ck_assert(ended);
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
		struct gaddr a = one_addr(i + 2);

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

/* -- leaving ------------------------------------------------------------------------------------------------- */

static bool
has_left(const struct one *one, void *arg)
{
	(void)arg;
	return one->out->left;
}

START_TEST(leave_says_intent_then_death)
{
	without_probes();
	(void)one_alive(&o, "a", 1);
	one_wait(&o, MONO_S(3));
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_LEAVE }), TV_OK);
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_LEAVE }), TV_EEXIST);
	ck_assert_int_eq(one_status(&o, SELF), MEMBER_LEAVING);
	ck_assert(one_spreads_intent(&o, SERF_LEAVE, SELF));
	ck_assert_int_eq(one_state(&o, SELF), NODE_ALIVE);
	ck_assert(one_spreads(&o, WIRE_DEAD, SELF) || one_spreads(&o, WIRE_DEAD, SELF));
	ck_assert_int_eq(one_state(&o, SELF), NODE_LEFT);
	ck_assert_int_eq(one_ping(&o, 5, SELF), TV_OK);		/* still answers */
	ck_assert_ptr_nonnull(one_said(&o, WIRE_ACK, NULL).p);
	ck_assert(one_wait_for(&o, MONO_S(3), has_left, NULL));
	ck_assert_int_eq(one_status(&o, SELF), MEMBER_LEFT);
}
END_TEST

START_TEST(leave_alone_is_quick)
{
	ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_LEAVE }), TV_OK);
	ck_assert(o.out->left);
}
END_TEST

START_TEST(leave_does_not_wait_for_ever)
{
	(void)one_alive(&o, "a", 1);
	o.opt.timing.gossip_interval = MONO_S(1000);		/* nothing ever leaves the queue */
	restart();
	(void)one_alive(&o, "a", 1);
	(void)one_feed(&o, (struct swim_input){ .type = SWIM_IN_LEAVE });
	ck_assert(one_wait_for(&o, MONO_S(17), has_left, NULL));
}
END_TEST

START_TEST(force_leave)
{
	struct swim_input in = { .type = SWIM_IN_FORCE_LEAVE };

	(void)one_alive(&o, "a", 1);
	(void)one_alive(&o, "b", 1);
	in.name = span_str("nobody");
	ck_assert_int_eq(one_feed(&o, in), TV_ENOENT);
	in.name = span_str(SELF);
	ck_assert_int_eq(one_feed(&o, in), TV_EINVAL);
	(void)one_dead(&o, "a", 1, "x");
	in.name = span_str("a");
	ck_assert_int_eq(one_feed(&o, in), TV_OK);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_LEFT);
	ck_assert(one_spreads_intent(&o, SERF_LEAVE, "a"));
	in.prune = true;
	ck_assert_int_eq(one_feed(&o, in), TV_OK);
	ck_assert_int_eq(one_status(&o, "a"), MEMBER_NONE);
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
serf_case(void)
{
	TCase *t = tcase_create("serf");

	tcase_add_loop_test(t, status_rules, 0, sizeof(statuses) / sizeof(statuses[0]));
	tcase_add_test(t, old_intents_change_nothing);
	tcase_add_test(t, intents_spread_once);
	tcase_add_test(t, we_do_not_leave_because_others_say_so);
	tcase_add_test(t, intents_at_the_end_of_time);
	tcase_add_test(t, a_pruned_member_that_speaks_up_stays);
	tcase_add_test(t, a_pruned_member_returns);
	tcase_add_test(t, intent_memory_is_limited);
	tcase_add_test(t, members_are_reaped);
	tcase_add_test(t, members_from_before_a_restart);
	tcase_add_test(t, failed_members_are_tried_again);
	tcase_add_test(t, leave_says_intent_then_death);
	tcase_add_test(t, leave_alone_is_quick);
	tcase_add_test(t, leave_does_not_wait_for_ever);
	tcase_add_test(t, force_leave);
	return t;
}

static TCase *
exchange_case(void)
{
	TCase *t = tcase_create("exchange");

	tcase_add_test(t, exchange_merges);
	tcase_add_test(t, exchange_about_ourselves_is_refuted);
	tcase_add_loop_test(t, exchange_versions, 0, sizeof(versions) / sizeof(versions[0]));
	tcase_add_test(t, exchange_with_another_datacenter);
	tcase_add_test(t, a_leave_under_way_is_not_told_as_a_join);
	tcase_add_test(t, join_meets_our_name);
	tcase_add_test(t, join_end_to_end);
	tcase_add_test(t, a_quiet_join_is_announced_once);
	tcase_add_test(t, a_newcomer_learns_in_silence);
	tcase_add_test(t, one_that_joins_two_tells_each_of_the_other);
	tcase_add_test(t, join_fails);
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
	Suite *s = suite_create("swim");
	TCase *cases[] = { merge_case(), serf_case(), exchange_case(), gossip_case() };
	SRunner *r = srunner_create(s);
	int failed;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tcase_add_checked_fixture(cases[i], setup, teardown);
		tcase_set_timeout(cases[i], 60);
		suite_add_tcase(s, cases[i]);
	}
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
