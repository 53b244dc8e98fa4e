/* Membership policy: a table of situations and the one change that each calls for. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raftd/policy.h"

#define NODES 6

static void
uuid_of(int n, char *dst)
{
	snprintf(dst, 37, "%08d-0000-4000-8000-000000000000", n);
}

static void
store_of(int n, int disk, char *dst)
{
	snprintf(dst, 37, "%08d-0000-4000-8000-%012d", n, disk);
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
	if (strchr(how, 'u') != NULL)
		s.store_id[0] = '\0';				/* link not proven */
	if (strchr(how, 'F') != NULL)
		s.status = MEMBER_FAILED;
	if (strchr(how, 'L') != NULL)
		s.status = MEMBER_LEFT;
	s.forced = strchr(how, '!') != NULL;
	s.tombstoned = strchr(how, 'T') != NULL;
	s.held = strchr(how, 'H') != NULL;
	if (strchr(how, 'm') != NULL)
		snprintf(s.addr, sizeof(s.addr), "10.0.1.%d:8300", n);	/* moved */
	return s;
}

/*
 * config and healthy: digits of the voters, learners after '+'; seen: "2 3F 4LT" other servers.  We are n1.
 */
static const struct situation {
	const char *what, *config, *healthy, *caught_up, *seen;
	bool cleanup;
	enum policy_action action;
	int server;
	const char *why;			/* part of the text; NULL: none */
} situations[] = {
	{ "nothing to do", "123", "123", "", "2 3", false, POLICY_NONE, 0, NULL },
	{ "a proven server is added", "1", "1", "", "2", false, POLICY_ADD, 2, NULL },
	{ "gossip alone adds nobody", "1", "1", "", "2u", false, POLICY_NONE, 0, NULL },
	{ "a failed stranger is not added", "1", "1", "", "2F", false, POLICY_NONE, 0, NULL },
	{ "one at a time", "1", "1", "", "2 3", false, POLICY_ADD, 2, NULL },
	{ "a learner that lags stays one", "1+2", "1", "", "2", false, POLICY_NONE, 0, NULL },
	{ "a learner that caught up votes", "1+2", "1", "2", "2", false, POLICY_PROMOTE, 2, NULL },
	{ "not while it is failed (S59)", "1+2", "1", "2", "2F", false, POLICY_NONE, 0, NULL },
	{ "what is there comes before what is new", "1+2", "1", "2", "2 3", false, POLICY_PROMOTE, 2, NULL },
	{ "who left is removed", "123", "123", "", "2 3L", false, POLICY_REMOVE, 3, "left" },
	{ "for good, when it has not gone by itself", "123", "12", "", "2 3L", false, POLICY_TOMBSTONE, 3, NULL },
	{ "even with a quorum just kept", "123", "12", "", "2 3LT", false, POLICY_REMOVE, 3, "left" },
	{ "not when quorum would go", "123", "13", "", "2F 3L", false, POLICY_NONE, 0, "not removing n3" },
	{ "force-leave writes a tombstone first", "123", "12", "", "2 3L!", false, POLICY_TOMBSTONE, 3, NULL },
	{ "and removes it then", "123", "12", "", "2 3L!T", false, POLICY_REMOVE, 3, "left" },
	{ "tombstoned ones stay away", "12", "12", "", "2 3T", false, POLICY_NONE, 0, "removed for good" },
	{ "who is leaving is not added again", "12", "12", "", "2 3H", false, POLICY_NONE, 0, NULL },
	{ "failed members stay", "123", "12", "", "2 3F", false, POLICY_NONE, 0, NULL },
	{ "unless dead servers are cleaned up", "123", "12", "", "2 3F", true, POLICY_REMOVE, 3, "failed" },
	{ "which keeps quorum", "123", "1", "", "2F 3F", true, POLICY_NONE, 0, "not removing" },
	{ "an empty disk is a new server (S61)", "123", "12", "", "2 3D", false, POLICY_REMOVE, 3, "empty disk" },
	{ "but not at the price of quorum", "123", "1", "", "2D 3F", false, POLICY_NONE, 0, "not removing n2" },
	{ "a move is followed (S71)", "123", "123", "", "2 3m", false, POLICY_UPDATE_ADDR, 3, NULL },
	{ "by proven servers only", "123", "123", "", "2 3mu", false, POLICY_NONE, 0, NULL },
	{ "learners may always go", "1+2", "1", "", "2LT", false, POLICY_REMOVE, 2, "left" },
	{ "ourself is never judged", "12", "12", "", "1L 2", false, POLICY_NONE, 0, NULL },
};

static void
fill(const struct situation *t, struct raft_config *c, struct policy_input *in, struct policy_server *servers)
{
	bool voter = true;
	const char *p = t->seen;

	memset(c, 0, sizeof(*c));
	*in = (struct policy_input){
		.config = c, .self = conf_of(1, true).id, .servers = servers, .cleanup_dead = t->cleanup,
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
	if (t->server != 0)
		ck_assert_msg(strcmp(d.server.name, conf_of(t->server, true).name) == 0, "%s: %s", t->what,
		    d.server.name);
	if (t->why != NULL)
		ck_assert_msg(strstr(d.why, t->why) != NULL, "%s: '%s'", t->what, d.why);
	else
		ck_assert_msg(d.action != POLICY_NONE || d.why[0] == '\0', "%s: '%s'", t->what, d.why);
	if (t->action == POLICY_ADD)
		ck_assert_uint_eq(d.server.id, conf_of(t->server, false).id);
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

int
main(void)
{
	Suite *s = suite_create("policy");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_loop_test(t, each_situation, 0, (int)(sizeof(situations) / sizeof(situations[0])));
	tcase_add_test(t, refusal_has_the_arithmetic);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
