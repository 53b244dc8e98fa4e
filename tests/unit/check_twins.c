/* Names that differ only by case: one of ours that meets another of ours, and Serf's agents, which do not mind. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/record/mpack.h"
#include "tests/unit/gossip_one.h"

static struct one o;
static struct buf metas[4];

/* Tags of a node of ours with this id, or those of one of Serf's agents. */
static struct span
tags(unsigned slot, const char *id)
{
	struct buf *b = &metas[slot];

	buf_reset(b);
	buf_put(b, (const uint8_t[]){ SERF_META_MAGIC }, 1);
	mpw_map(b, id != NULL ? 2 : 1);
	mpw_cstr(b, "role");
	mpw_cstr(b, id != NULL ? "client" : "web");
	if (id != NULL) {
		mpw_cstr(b, "id");
		mpw_cstr(b, id);
	}
	return buf_span(b);
}

#define SERFS ((const char *)NULL)

static void
setup(void)
{
	for (unsigned i = 0; i < 4; i++)
		buf_init(&metas[i], 512);
	one_init(&o);
	o.opt.meta = tags(0, "mine");
	o.opt.timing.probe_interval = MONO_S(1000000);	/* nobody answers */
	o.opt.members_max = 1000;
	one_start(&o);
	one_wait(&o, MONO_S(2));
}

static void
teardown(void)
{
	one_done(&o);
	for (unsigned i = 0; i < 4; i++)
		buf_done(&metas[i]);
}

/* Says that `name` with such tags is alive at 10.0.0.last; whether that was a conflict, then told with both. */
static bool
comes(const char *name, uint32_t incarnation, unsigned last, const char *id)
{
	struct addr at = one_addr(last);
	bool conflict;

	ck_assert_int_eq(one_alive_at(&o, name, incarnation, &at, tags(1, id)), TV_OK);
	conflict = one_noticed(&o, SWIM_NOTICE_CONFLICT) || one_noticed(&o, SWIM_NOTICE_SELF_CONFLICT);
	for (size_t i = 0; i < o.out->notice_count; i++) {
		const struct swim_notice *n = &o.out->notices[i];

		if (n->type == SWIM_NOTICE_CONFLICT || n->type == SWIM_NOTICE_SELF_CONFLICT)
			ck_assert(span_eqs(n->other, name) && !span_eqs(n->name, name) && addr_eq(&n->other_addr, &at));
	}
	return conflict;
}

static bool
is_there(const char *name)
{
	struct swim_member m;

	return swim_member_find(o.s, span_str(name), &m) && m.status == MEMBER_ALIVE;
}

START_TEST(the_living_one_keeps_the_name)
{
	ck_assert(!comes("N2", 1, 2, "a"));
	ck_assert(comes("n2", 1, 3, "b"));
	ck_assert(is_there("N2") && !is_there("n2"));
	ck_assert_uint_eq(one_stats(&o).conflicts, 1);
	ck_assert_uint_eq(one_stats(&o).members, 2);
	/* Whatever its incarnation, and with its id, too: whose a copied id is, is not decided here. */
	ck_assert(comes("n2", 1000, 3, "b"));
	ck_assert(comes("n2", 1, 4, "a"));
	/* News of the one that has it are taken. */
	ck_assert(!comes("N2", 2, 2, "a"));
	ck_assert(is_there("N2") && !is_there("n2"));
}
END_TEST

/* Serf's rule for Serf's agents: another spelling is another member, also beside one of ours. */
static const struct { const char *first, *second; bool conflict; } kinds[] = {
	{ "a", "b", true }, { "a", SERFS, false }, { SERFS, "b", false }, { SERFS, SERFS, false },
};

START_TEST(only_ours_meets_ours)
{
	ck_assert(!comes("web-One", 1, 2, kinds[_i].first));
	ck_assert_int_eq(comes("WEB-oNE", 1, 3, kinds[_i].second), kinds[_i].conflict);
	ck_assert(is_there("web-One"));
	ck_assert_int_eq(is_there("WEB-oNE"), !kinds[_i].conflict);
	ck_assert(!comes("web-Two", 1, 4, "c"));
	/* Only ASCII letters have case. */
	ck_assert(!comes("\xc3\xa4", 1, 5, "d") && !comes("\xc3\x84", 1, 6, "e"));
	ck_assert(!comes("a[", 1, 7, "f") && !comes("a{", 1, 8, "g") && !comes("A@", 1, 9, "h") && !comes("a`", 1, 10, "i"));
}
END_TEST

START_TEST(a_dead_twin_is_a_change_of_spelling)
{
	ck_assert(!comes("N2", 1, 2, "a") && !comes("N3", 1, 3, "b"));
	ck_assert_int_eq(one_dead(&o, "N2", 1, "N3"), TV_OK);
	ck_assert(!comes("n2", 1, 4, "a") && is_there("n2"));
	ck_assert(comes("N2", 7, 2, "c"));		/* now it is that one's */
	ck_assert_int_eq(one_leave_intent(&o, "n2", 100, false), TV_OK);
	ck_assert_int_eq(one_dead(&o, "n2", 1, "n2"), TV_OK);
	ck_assert(!comes("nN", 1, 5, "d") && !comes("N2", 7, 2, "c"));
	ck_assert(is_there("N2") && !is_there("n2"));
	ck_assert(comes("n2", 9, 4, "a"));
}
END_TEST

START_TEST(a_suspect_lives)
{
	ck_assert(!comes("N2", 1, 2, "a") && !comes("N3", 1, 3, "b"));
	ck_assert_int_eq(one_suspect(&o, "N2", 1, "N3"), TV_OK);
	ck_assert(comes("n2", 1, 5, "c"));
}
END_TEST

/* At one address two nodes cannot be: it was renamed, and the old name fails by itself. */
START_TEST(renamed_where_it_is)
{
	ck_assert(!comes("N2", 1, 2, "a") && !comes("n2", 1, 2, "a"));
	ck_assert(is_there("N2") && is_there("n2"));
	ck_assert(comes("nO", 1, 3, "c") == false && comes("No", 1, 4, "d"));
	/* Told of our own former spelling, as we start anew with another one. */
	ck_assert(!comes("ME", 1, 1, "mine"));
	ck_assert_uint_eq(one_stats(&o).queries_asked, 0);
}
END_TEST

START_TEST(tags_that_change)
{
	ck_assert(!comes("N2", 1, 2, "a") && !comes("n2", 1, 3, SERFS));
	/* One of ours begins where Serf's agent was. */
	ck_assert(comes("n2", 2, 3, "b"));
	ck_assert(is_there("N2") && is_there("n2"));	/* as Serf's, as before */
	/* One of ours becomes Serf's: then the other one may be ours. */
	ck_assert(!comes("N2", 2, 2, SERFS));
	ck_assert(!comes("n2", 3, 3, "b"));
	ck_assert(comes("N2", 3, 2, "a"));
}
END_TEST

/* Spellings of one name, invented by a peer: no chain, and no entry for each. */
START_TEST(spellings_without_number)
{
	char name[] = "abcdefghijklmno";

	ck_assert(!comes(name, 1, 2, "a"));
	for (unsigned i = 1; i < 4096; i++) {
		for (unsigned k = 0; k < 12; k++)
			name[k] = (char)((i >> k & 1) ? 'A' + (int)k : 'a' + (int)k);
		ck_assert(comes(name, i, 3, "b"));
	}
	ck_assert_uint_eq(one_stats(&o).members, 2);
	ck_assert_uint_eq(one_stats(&o).conflicts, 4095);
}
END_TEST

/* Members come and go by the hundred: against a plain list of names. */
START_TEST(the_index_is_right)
{
	struct rng rng;
	bool alive[300] = { false };
	char name[16];

	rng_seed(&rng, 4711);
	ck_assert(!comes("zz", 1, 250, "z"));
	for (uint32_t round = 1; round < 6000; round++) {
		unsigned i = (unsigned)rng_below(&rng, 300), last = 2 + i % 100;
		bool upper = rng_below(&rng, 2) != 0;		/* that spelling is at home 100 addresses above */

		snprintf(name, sizeof(name), "%c%03u", upper ? 'X' : 'x', i);
		if (!alive[i]) {
			ck_assert(!comes(name, (UINT32_C(1) << 20) + round, last + (upper ? 100 : 0), "a"));
			alive[i] = true;
			/* The other spelling is refused as long as this one lives. */
			name[0] ^= 0x20;
			ck_assert(comes(name, (UINT32_C(1) << 20) + round, last + (upper ? 0 : 100), "b"));
		}
		if (rng_below(&rng, 2) == 0) {
			snprintf(name, sizeof(name), "x%03u", i);
			ck_assert_int_eq(one_dead(&o, name, (UINT32_C(1) << 20) + round, "zz"), TV_OK);
			alive[i] = is_there(name);
			name[0] = 'X';
			ck_assert_int_eq(one_dead(&o, name, (UINT32_C(1) << 20) + round, "zz"), TV_OK);
			alive[i] = alive[i] || is_there(name);
		}
		if (round % 100 == 0)
			ck_assert_int_eq(one_feed(&o, (struct swim_input){ .type = SWIM_IN_FORCE_LEAVE,
			    .name = span_str("nobody"), .prune = true }), TV_ENOENT);
	}
}
END_TEST

/* -- our own name ------------------------------------------------------------------------ */

/* The queries as they are gossiped: for our own spelling, and for the rival's. */
struct questions {
	struct serf_query own, twin;
};

static bool
find_questions(const struct one *one, void *arg)
{
	struct questions *q = arg;

	for (size_t i = 0; i < one->out->send_count; i++)
		for (unsigned k = 0; k < one->out->sends[i].part_count; k++) {
			struct span p = one->out->sends[i].parts[k];
			struct serf_query m;

			if (p.len < 3 || p.p[0] != WIRE_USER || p.p[1] != SERF_QUERY ||
			    serf_get_query(span_of(p.p + 2, p.len - 2), (struct arena *)&one->arena, &m) != TV_OK)
				continue;
			*(span_eqs(m.payload, SELF) ? &q->own : &q->twin) = m;
		}
	return q->own.id != 0 && q->twin.id != 0;
}

/* name NULL: that it knows no such name. */
static void
says(const struct serf_query *q, const char *voter, const char *name, unsigned last, enum member_status status)
{
	struct buf b = BUF_INIT(4096), payload = BUF_INIT(4096);
	struct addr at = one_addr(last);
	struct serf_member m = { .name = span_str(name != NULL ? name : ""), .addr = span_of(at.ip, 4), .port = at.port,
		.status = status };

	serf_put_conflict(&payload, name != NULL ? &m : NULL);
	serf_put_query_response(&b, &(struct serf_query_response){ .ltime = q->ltime, .id = q->id,
	    .from = span_str(voter), .payload = buf_span(&payload) });
	ck_assert_int_eq(one_serf(&o, &b), TV_OK);
	buf_done(&payload);
}

static bool
is_decided(const struct one *one, void *arg)
{
	(void)arg;
	return one_noticed(one, SWIM_NOTICE_NAME_KEPT) || one_noticed(one, SWIM_NOTICE_NAME_LOST) ||
	    one_noticed(one, SWIM_NOTICE_NAME_OPEN);
}

/*
 * What each member knows: u us, t the twin, b both as two members (Serf's agents, and gossipd before 0.2), n none, - is
 * silent, d the twin as failed, e another node that spells it so; f forges: no such name as ours, the twin, and again.
 */
static const struct { const char *members; enum swim_notice_type verdict; } rows[] = {
	{ "ttt", SWIM_NOTICE_NAME_LOST },
	{ "ntt", SWIM_NOTICE_NAME_LOST },
	{ "nnt", SWIM_NOTICE_NAME_LOST },
	{ "utt", SWIM_NOTICE_NAME_LOST },
	{ "uut", SWIM_NOTICE_NAME_KEPT },
	{ "uuu", SWIM_NOTICE_NAME_KEPT },
	{ "ut", SWIM_NOTICE_NAME_OPEN },
	{ "bbb", SWIM_NOTICE_NAME_OPEN },
	{ "bbt", SWIM_NOTICE_NAME_LOST },
	{ "bbu", SWIM_NOTICE_NAME_KEPT },
	{ "t---", SWIM_NOTICE_NAME_OPEN },
	{ "----", SWIM_NOTICE_NAME_OPEN },
	{ "ddd", SWIM_NOTICE_NAME_OPEN },
	{ "eee", SWIM_NOTICE_NAME_OPEN },
	{ "uf", SWIM_NOTICE_NAME_OPEN },	/* one member, one voice */
	{ "uuf", SWIM_NOTICE_NAME_KEPT },
};

static void
votes(const struct questions *q, const char *voter, char kind)
{
	if (kind == '-')
		return;
	if (kind == 'f') {
		for (unsigned i = 0; i < 5 && !is_decided(&o, NULL); i++) {
			says(&q->own, voter, SELF, 99, MEMBER_ALIVE);
			ck_assert(!is_decided(&o, NULL) || i > 0);
			says(&q->twin, voter, "Me", 99, MEMBER_ALIVE);
		}
		return;
	}
	says(&q->own, voter, kind == 'u' || kind == 'b' ? SELF : NULL, 1, MEMBER_ALIVE);
	if (is_decided(&o, NULL))
		return;
	says(&q->twin, voter, kind == 'u' || kind == 'n' ? NULL : "Me", kind == 'e' ? 98 : 99,
	    kind == 'd' ? MEMBER_FAILED : MEMBER_ALIVE);
}

START_TEST(the_vote)
{
	struct questions q = { .own = { .id = 0 } };
	char name[16];

	for (unsigned i = 0; rows[_i].members[i] != '\0'; i++) {
		snprintf(name, sizeof(name), "n%u", i + 2);
		ck_assert(!comes(name, 1, i + 2, "x"));
	}
	one_wait(&o, MONO_S(2));
	ck_assert(comes("Me", 5, 99, "b"));
	ck_assert(!is_there("Me"));
	ck_assert(one_wait_for(&o, MONO_S(1), find_questions, &q));
	ck_assert(span_eqs(q.own.name, "_serf_conflict") && span_eqs(q.twin.name, "_serf_conflict"));
	ck_assert(span_eqs(q.own.source_node, SELF) && span_eqs(q.twin.payload, "Me"));
	for (unsigned i = 0; rows[_i].members[i] != '\0'; i++) {
		snprintf(name, sizeof(name), "n%u", i + 2);
		votes(&q, name, rows[_i].members[i]);
	}
	ck_assert(is_decided(&o, NULL) || one_wait_for(&o, MONO_S(10), is_decided, NULL));
	ck_assert(one_noticed(&o, rows[_i].verdict));
	ck_assert(o.out->conflict_lost == (rows[_i].verdict == SWIM_NOTICE_NAME_LOST));
	ck_assert(!o.out->conflict_lost || span_eqs(o.out->conflict_name, "Me"));
	ck_assert_uint_eq(one_stats(&o).queries_open, 0);
}
END_TEST

/* Who came first hears of the second one by its question. */
START_TEST(the_owner_hears_of_the_question)
{
	struct addr rival = one_addr(99);
	struct serf_query q = { .ltime = 1, .id = 1, .addr = span_of(rival.ip, 4), .port = rival.port,
		.source_node = span_str("mE"), .timeout_ns = MONO_S(1).ns, .name = span_str("_serf_conflict"),
		.payload = span_str(SELF) };
	struct buf b = BUF_INIT(4096);

	ck_assert(!comes("n2", 1, 2, "a"));
	serf_put_query(&b, &q);
	ck_assert_int_eq(one_serf(&o, &b), TV_OK);
	ck_assert_uint_eq(o.out->notice_count, 1);
	ck_assert_int_eq(o.out->notices[0].type, SWIM_NOTICE_SELF_CONFLICT);
	ck_assert(span_eqs(o.out->notices[0].other, "mE") && addr_eq(&o.out->notices[0].other_addr, &rival));
	ck_assert_uint_eq(one_stats(&o).queries_asked, 0);
}
END_TEST

START_TEST(serfs_twin_of_ours_lives_beside_us)
{
	ck_assert(!comes("Me", 1, 9, SERFS));
	ck_assert(is_there("Me"));
	ck_assert_uint_eq(one_stats(&o).queries_asked, 0);
	one_wait(&o, MONO_S(10));
	ck_assert(!o.out->conflict_lost);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("twins");
	TCase *t = tcase_create("others"), *v = tcase_create("our own name");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_checked_fixture(v, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, the_living_one_keeps_the_name);
	tcase_add_loop_test(t, only_ours_meets_ours, 0, sizeof(kinds) / sizeof(kinds[0]));
	tcase_add_test(t, a_dead_twin_is_a_change_of_spelling);
	tcase_add_test(t, a_suspect_lives);
	tcase_add_test(t, renamed_where_it_is);
	tcase_add_test(t, tags_that_change);
	tcase_add_test(t, spellings_without_number);
	tcase_add_test(t, the_index_is_right);
	tcase_add_loop_test(v, the_vote, 0, sizeof(rows) / sizeof(rows[0]));
	tcase_add_test(v, the_owner_hears_of_the_question);
	tcase_add_test(v, serfs_twin_of_ours_lives_beside_us);
	suite_add_tcase(s, t);
	suite_add_tcase(s, v);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
