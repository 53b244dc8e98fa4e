/* Membership policy: a table of situations and the one change that each calls for. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "raftd/members/rules/policy.h"

#define NODES 6

static void
uuid_of(int n, char *dst)
{
	snprintf(dst, 37, "%08u-0000-4000-8000-000000000000", (unsigned)n % 100);
}

static void
store_of(int n, int disk, char *dst)
{
	snprintf(dst, 37, "%08u-0000-4000-8000-%012u", (unsigned)n % 100, (unsigned)disk % 100);
}

static struct raft_server_conf
conf_of(int n, bool voter)
{
	struct raft_server_conf s = { .voter = voter };

	uuid_of(n, s.uuid);
	store_of(n, 1, s.store_id);
	snprintf(s.name, sizeof(s.name), "n%d", n);
	snprintf(s.addr, sizeof(s.addr), "10.0.0.%d:8300", n);
	s.id = raft_id_of(s.uuid, s.store_id);
	return s;
}

/* One server as gossip and links see it; letters say what is unusual. */
static struct policy_server
seen(int n, const char *how)
{
	struct policy_server s = { .status = MEMBER_ALIVE };

	uuid_of(n, s.uuid);
	snprintf(s.name, sizeof(s.name), "n%d", n);
	snprintf(s.addr, sizeof(s.addr), "10.0.0.%d:8300", n);
	store_of(n, strchr(how, 'D') != NULL ? 2 : 1, s.store_id);	/* another disk */
	if (strchr(how, 'R') != NULL) {			/* another server: its node id says so */
		uuid_of(n + 10, s.uuid);
		store_of(n + 10, 1, s.store_id);
	}
	if (strchr(how, 'u') != NULL)
		s.store_id[0] = '\0';				/* link not proven */
	if (strchr(how, 'F') != NULL)
		s.status = MEMBER_FAILED;
	if (strchr(how, 'L') != NULL)
		s.status = MEMBER_LEFT;
	s.forced = strchr(how, '!') != NULL;
	s.tombstoned = strchr(how, 'T') != NULL;
	s.held = strchr(how, 'H') != NULL;
	if (strchr(how, 'a') != NULL)				/* under another name */
		snprintf(s.name, sizeof(s.name), "other%d", n);
	if (strchr(how, 'm') != NULL)
		snprintf(s.addr, sizeof(s.addr), "10.0.1.%d:8300", n);	/* moved */
	return s;
}

/*
 * config and healthy: digits of the voters, learners after '+'; seen: "2 3F 4LT" other servers.  We are n1.
 */
static const struct situation {
	const char *what, *config, *healthy, *caught_up, *seen;
	const char *dead;			/* NULL: dead servers are not cleaned up */
	enum policy_action action;
	int server;
	const char *why;			/* part of the text; NULL: none */
} situations[] = {
	{ "nothing to do", "123", "123", "", "2 3", NULL, POLICY_NONE, 0, NULL },
	{ "a proven server is added", "1", "1", "", "2", NULL, POLICY_ADD, 2, NULL },
	{ "gossip alone adds nobody", "1", "1", "", "2u", NULL, POLICY_NONE, 0, NULL },
	{ "a failed stranger is not added", "1", "1", "", "2F", NULL, POLICY_NONE, 0, NULL },
	{ "one at a time", "1", "1", "", "2 3", NULL, POLICY_ADD, 2, NULL },
	{ "a learner that lags stays one", "1+2", "1", "", "2", NULL, POLICY_NONE, 0, NULL },
	{ "a learner that caught up votes", "1+2", "1", "2", "2", NULL, POLICY_PROMOTE, 2, NULL },
	{ "not while it is failed (S59)", "1+2", "1", "2", "2F", NULL, POLICY_NONE, 0, NULL },
	{ "what is there comes before what is new", "1+2", "1", "2", "2 3", NULL, POLICY_PROMOTE, 2, NULL },
	{ "who left is removed", "123", "123", "", "2 3L", NULL, POLICY_REMOVE, 3, "left" },
	{ "for good, when it has not gone by itself", "123", "12", "", "2 3L", NULL, POLICY_TOMBSTONE, 3, NULL },
	{ "even with a quorum just kept", "123", "12", "", "2 3LT", NULL, POLICY_REMOVE, 3, "left" },
	{ "not when quorum would go", "123", "13", "", "2F 3L", NULL, POLICY_NONE, 0, "not removing n3" },
	{ "force-leave writes a tombstone first", "123", "12", "", "2 3L!", NULL, POLICY_TOMBSTONE, 3, NULL },
	{ "and removes it then", "123", "12", "", "2 3L!T", NULL, POLICY_REMOVE, 3, "left" },
	{ "tombstoned ones stay away", "12", "12", "", "2 3T", NULL, POLICY_NONE, 0, "removed for good" },
	{ "who is leaving is not added again", "12", "12", "", "2 3H", NULL, POLICY_NONE, 0, NULL },
	{ "failed members stay", "123", "12", "", "2 3F", NULL, POLICY_NONE, 0, NULL },
	{ "unless dead servers are cleaned up", "1234", "123", "", "2 3 4F", "4", POLICY_REMOVE, 4, "failed" },
	{ "only after the grace", "1234", "123", "", "2 3 4F", "", POLICY_NONE, 0, NULL },
	{ "only if gossip agrees", "1234", "123", "", "2 3 4", "4", POLICY_NONE, 0, NULL },
	{ "only if its link agrees", "1234", "1234", "", "2 3 4F", "4", POLICY_NONE, 0, NULL },
	{ "three voters stay", "123", "12", "", "2 3F", "3", POLICY_NONE, 0, "2 voters would be left, and 3 are kept" },
	{ "cleanup keeps quorum (S63)", "1234", "12", "", "2 3F 4F", "34", POLICY_NONE, 0, "no majority" },
	{ "one of a pair at a time", "12345", "123", "", "2 3 4F 5F", "45", POLICY_REMOVE, 4, "failed" },
	{ "then the other", "1235", "123", "", "2 3 5F", "5", POLICY_REMOVE, 5, "failed" },
	{ "a dead learner goes at any size", "123+4", "12", "", "2 3F 4F", "34", POLICY_REMOVE, 4, "failed" },
	{ "an empty disk is a new server (S61)", "123", "12", "", "2 3D", NULL, POLICY_REMOVE, 3, "empty disk" },
	{ "but not at the price of quorum", "123", "1", "", "2D 3F", NULL, POLICY_NONE, 0, "not removing n2" },
	{ "a move is followed (S71)", "123", "123", "", "2 3m", NULL, POLICY_UPDATE_ADDR, 3, NULL },
	{ "by proven servers only", "123", "123", "", "2 3mu", NULL, POLICY_NONE, 0, NULL },
	{ "a new one of its name takes the place (S60)", "123", "12", "", "2 3R", NULL, POLICY_REMOVE, 3, "of its name" },
	{ "also at another address", "123", "12", "", "2 3Rm", NULL, POLICY_REMOVE, 3, "of its name" },
	{ "a new one at its address, too", "123", "12", "", "2 3F 3Ra", NULL, POLICY_REMOVE, 3, "at its address" },
	{ "not one that only gossip knows", "123", "12", "", "2 3Ru", NULL, POLICY_NONE, 0, NULL },
	{ "not while the old one answers", "123", "123", "", "2 3R", NULL, POLICY_ADD, 3, NULL },
	{ "nor at the price of quorum", "123", "1", "", "2F 3R", NULL, POLICY_ADD, 3, "not removing n3, which was replaced" },
	{ "learners may always go", "1+2", "1", "", "2LT", NULL, POLICY_REMOVE, 2, "left" },
	{ "a new name is shown", "123", "123", "", "2 3a", NULL, POLICY_RENAME, 3, NULL },
	{ "by proven servers only, too", "123", "123", "", "2 3au", NULL, POLICY_NONE, 0, NULL },
	{ "though its former name has failed", "123", "123", "", "2 3F 3a", NULL, POLICY_RENAME, 3, NULL },
	{ "or was forced to leave: the seat stays", "123", "123", "", "2 3L! 3a", NULL, POLICY_RENAME, 3, NULL },
	{ "a move comes before the name", "123", "123", "", "2 3am", NULL, POLICY_UPDATE_ADDR, 3, NULL },
	{ "ourself is never judged", "12", "12", "", "1L 2", NULL, POLICY_NONE, 0, NULL },
};

static void
fill(const struct situation *t, struct raft_config *c, struct policy_input *in, struct policy_server *servers)
{
	bool voter = true;
	const char *p = t->seen;

	memset(c, 0, sizeof(*c));
	*in = (struct policy_input){
		.config = c, .self = conf_of(1, true).id, .servers = servers, .min_voters = 3,
	};
	for (const char *k = t->config; *k != '\0'; k++) {
		if (*k == '+')
			voter = false;
		else
			c->servers[c->count++] = conf_of(*k - '0', voter);
	}
	for (const char *k = t->healthy; *k != '\0'; k++)
		in->healthy[in->healthy_count++] = conf_of(*k - '0', true).id;
	for (const char *k = t->caught_up; *k != '\0'; k++)
		in->caught_up[in->caught_up_count++] = conf_of(*k - '0', false).id;
	for (const char *k = t->dead; k != NULL && *k != '\0'; k++) {
		in->dead[in->dead_count++] = conf_of(*k - '0', true).id;
		in->dead[in->dead_count++] = conf_of(*k - '0', false).id;
	}
	while (*p != '\0') {
		char how[16] = "";
		int n = *p++ - '0', len = 0;

		while (*p != '\0' && *p != ' ')
			how[len++] = *p++;
		servers[in->count++] = seen(n, how);
		while (*p == ' ')
			p++;
	}
}

START_TEST(each_situation)
{
	const struct situation *t = &situations[_i];
	struct policy_server servers[NODES];
	struct policy_decision d;
	struct policy_input in;
	struct raft_config c;

	fill(t, &c, &in, servers);
	policy_decide(&in, &d);
	ck_assert_msg(d.action == t->action, "%s: action %d, not %d (%s)", t->what, d.action, t->action, d.why);
	if (t->action == POLICY_RENAME)
		ck_assert_msg(d.server.id == conf_of(t->server, true).id && strncmp(d.server.name, "other", 5) == 0, "%s: %s", t->what,
		    d.server.name);
	else if (t->server != 0)
		ck_assert_msg(strcmp(d.server.name, conf_of(t->server, true).name) == 0, "%s: %s", t->what,
		    d.server.name);
	if (t->why != NULL)
		ck_assert_msg(strstr(d.why, t->why) != NULL, "%s: '%s'", t->what, d.why);
	else
		ck_assert_msg(d.action != POLICY_NONE || d.why[0] == '\0', "%s: '%s'", t->what, d.why);
	if (t->action == POLICY_ADD && strchr(t->seen, 'R') == NULL)
		ck_assert_uint_eq(d.server.id, conf_of(t->server, false).id);
	ck_assert_msg(t->action != POLICY_REMOVE || d.for_good == (strstr(t->why, "replaced") != NULL ||
	    strstr(t->why, " its ") != NULL), "%s", t->what);
}
END_TEST

/* -- S63: servers die and return in any order; no removal ever costs the quorum -- */

#define ALL 9				/* servers that exist */

struct world {
	struct raft_config c;
	bool alive[ALL + 1], aged[ALL + 1];	/* dead for longer than the grace */
	unsigned min;
};

static bool
seated(const struct world *w, int n, bool *voter)
{
	const struct raft_server_conf *s = raft_config_find(&w->c, conf_of(n, true).id);

	*voter = s != NULL && s->voter;
	return s != NULL;
}

static unsigned
alive_voters(const struct world *w)
{
	unsigned n = 0;
	bool voter;

	for (int i = 1; i <= ALL; i++)
		n += seated(w, i, &voter) && voter && w->alive[i];
	return n;
}

static void
look(const struct world *w, int self, struct policy_server *servers, struct policy_input *in)
{
	bool voter;

	*in = (struct policy_input){ .config = &w->c, .self = conf_of(self, true).id, .servers = servers,
	    .min_voters = w->min };
	for (int i = 1; i <= ALL; i++) {
		raft_id id = conf_of(i, true).id;

		if (i != self)
			servers[in->count++] = seen(i, w->alive[i] ? "" : "Fu");
		if (!seated(w, i, &voter))
			continue;
		if (voter && w->alive[i])
			in->healthy[in->healthy_count++] = id;
		if (!voter && w->alive[i])
			in->caught_up[in->caught_up_count++] = id;
		if (!w->alive[i] && w->aged[i])
			in->dead[in->dead_count++] = id;
	}
}

static void
carry_out(struct world *w, const struct policy_decision *d)
{
	struct raft_config *c = &w->c;
	unsigned at = 0;

	if (d->action == POLICY_ADD) {
		c->servers[c->count] = d->server;
		c->servers[c->count++].voter = false;
		return;
	}
	while (c->servers[at].id != d->server.id)
		at++;
	if (d->action == POLICY_PROMOTE)
		c->servers[at].voter = true;
	else if (d->action == POLICY_REMOVE)
		c->servers[at] = c->servers[--c->count];
}

/* One decision of whoever leads now; false: nobody can, or nothing is to be done. */
static bool
decide(struct world *w)
{
	struct policy_server servers[ALL];
	struct policy_decision d;
	struct policy_input in;
	unsigned voters = raft_config_voters(&w->c), alive = alive_voters(w), left;
	bool voter;
	int self = 0;

	for (int i = ALL; i >= 1; i--)
		if (w->alive[i] && seated(w, i, &voter) && voter)
			self = i;
	if (alive < voters / 2 + 1)
		return false;
	look(w, self, servers, &in);
	policy_decide(&in, &d);
	if (d.action == POLICY_NONE)
		return false;
	carry_out(w, &d);
	left = raft_config_voters(&w->c);
	ck_assert_uint_ge(alive_voters(w), left / 2 + 1);
	if (d.action == POLICY_REMOVE && left < voters) {
		ck_assert_uint_ge(left, w->min);
		ck_assert_uint_ge(left, voters / 2 + 1);
		ck_assert_uint_eq(alive_voters(w), alive);	/* only dead ones went */
		ck_assert_uint_ge(alive - (left / 2 + 1), alive - (voters / 2 + 1));
	}
	return true;
}

START_TEST(cleanup_never_costs_the_quorum)
{
	struct world w = { 0 };
	struct rng r;
	int start;

	rng_seed(&r, (uint64_t)_i + 1);
	w.min = 1 + (unsigned)rng_below(&r, 5);
	start = 1 + (int)rng_below(&r, ALL);
	for (int i = 1; i <= ALL; i++) {
		w.alive[i] = i <= start;
		if (i <= start)
			w.c.servers[w.c.count++] = conf_of(i, true);
	}
	for (int step = 0; step < 300; step++) {
		int a = 1 + (int)rng_below(&r, ALL), b = 1 + (int)rng_below(&r, ALL);

		switch (rng_below(&r, 5)) {
		case 0:				/* a pair */
			w.alive[b] = w.aged[b] = false;
			/* fallthrough */
		case 1:
			w.alive[a] = w.aged[a] = false;
			break;
		case 2:
			w.alive[a] = true;
			break;
		case 3:
			for (int i = 1; i <= ALL; i++)
				w.aged[i] |= !w.alive[i];
			break;
		default:
			for (int i = 0; i < 4 && decide(&w); i++)
				;
		}
	}
}
END_TEST

START_TEST(refusal_has_the_arithmetic)
{
	struct raft_config c = { .count = 3, .servers = { conf_of(1, true), conf_of(2, true), conf_of(3, true) } };
	raft_id healthy[] = { c.servers[0].id, c.servers[2].id };
	char text[320];

	ck_assert(!policy_may_remove(&c, c.servers[2].id, healthy, 2, text, sizeof(text)));
	ck_assert_str_eq(text, "the quorum would be lost: 2 of 3 voters are healthy; without n3 there are 2 voters, "
	    "which need 2 healthy ones, and 1 would be left");
	ck_assert(policy_may_remove(&c, c.servers[1].id, healthy, 2, text, sizeof(text)));
	ck_assert_str_eq(text, "");
	ck_assert(policy_may_remove(&c, 12345, healthy, 2, text, sizeof(text)));	/* not there */
}
END_TEST

/* The policy does not run on a state that may lack a tombstone (nemesis, seed 648057406). */
/* As situations, with n2 as the voter whose disk went back; who is healthy is without it. */
START_TEST(disks_that_went_back)
{
	static const struct {
		const char *what, *config, *healthy, *seen;
		enum policy_action action;
		const char *why;
	} t[] = {
		{ "a learner until it has caught up", "123", "13", "2 3", POLICY_DEMOTE, NULL },
		{ "its link is no matter", "123", "13", "2u 3", POLICY_DEMOTE, NULL },
		{ "not when there is no quorum without it", "123", "1", "2 3F", POLICY_NONE, "not demoting n2, whose disk went back" },
		{ "one of two leaves one that decides", "12", "1", "2", POLICY_DEMOTE, NULL },
		{ "one of four is not", "1234", "134", "2 3 4", POLICY_DEMOTE, NULL },
		{ "learners have no vote to lose", "13+2", "13", "2 3", POLICY_NONE, NULL },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct situation s = { .what = t[i].what, .config = t[i].config, .healthy = t[i].healthy, .caught_up = "",
			.seen = t[i].seen };
		struct policy_server servers[NODES];
		struct policy_decision dec;
		struct raft_config c;
		struct policy_input in;

		fill(&s, &c, &in, servers);
		in.went_back[in.went_back_count++] = conf_of(2, true).id;
		policy_decide(&in, &dec);
		ck_assert_msg(dec.action == t[i].action, "%s: %d %s", t[i].what, dec.action, dec.why);
		ck_assert_msg(dec.action != POLICY_DEMOTE || dec.server.id == conf_of(2, true).id, "%s", t[i].what);
		ck_assert_msg(t[i].why == NULL || strstr(dec.why, t[i].why) != NULL, "%s: %s", t[i].what, dec.why);
	}
}
END_TEST

START_TEST(decides_when_it_is_informed)
{
	const struct raft_status well = { .role = RAFT_LEADER, .ready = true, .informed = true, .own_first = 10, .applied = 12 };
	struct raft_status st = well;

	ck_assert(policy_may_decide(&st, 0));
	st.informed = false;			/* something that an earlier leader committed is not applied */
	ck_assert(!policy_may_decide(&st, 0));
	st = well;				/* its own tombstone timed out, but may still be applied */
	ck_assert(!policy_may_decide(&st, 13));
	st.applied = 13;
	ck_assert(policy_may_decide(&st, 13));
	st = well;
	st.change_pending = true;
	ck_assert(!policy_may_decide(&st, 0));
	st = well;
	st.transferring = true;
	ck_assert(!policy_may_decide(&st, 0));
	st = well;
	st.role = RAFT_FOLLOWER;
	ck_assert(!policy_may_decide(&st, 0));
}
END_TEST

/* A server is out when its removal is committed, and in as soon as a configuration names it. */
START_TEST(seats)
{
	struct raft_config none = { .index = 0 }, both = { .index = 5, .count = 2, .servers = { conf_of(1, true), conf_of(2, true) } };
	struct raft_config one = { .index = 7, .count = 1, .servers = { conf_of(1, true) } };
	raft_id second = both.servers[1].id;

	ck_assert_int_eq(policy_seat(&both, &both, second), SEAT_TAKEN);
	ck_assert_int_eq(policy_seat(&one, &both, second), SEAT_OPEN);		/* being removed: may be lost with its leader */
	ck_assert_int_eq(policy_seat(&one, &one, second), SEAT_NONE);
	ck_assert_int_eq(policy_seat(&one, &none, second), SEAT_OPEN);		/* after a restart: committed or not? */
	ck_assert_int_eq(policy_seat(&both, &none, second), SEAT_TAKEN);	/* being added */
	ck_assert_int_eq(policy_seat(&none, &none, second), SEAT_NONE);	/* in no cluster yet */
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("policy");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_loop_test(t, each_situation, 0, (int)(sizeof(situations) / sizeof(situations[0])));
	tcase_add_test(t, refusal_has_the_arithmetic);
	tcase_add_test(t, disks_that_went_back);
	tcase_add_test(t, decides_when_it_is_informed);
	tcase_add_test(t, seats);
	tcase_add_loop_test(t, cleanup_never_costs_the_quorum, 0, 500);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
