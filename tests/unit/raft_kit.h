/*
 * One server of the Raft core, and exact inputs for it: what its unit tests share.  Servers are 1 (the one under test) to 5.
 * For one test program each; everything here is static state of that program.
 */
#ifndef TV_TESTS_UNIT_RAFT_KIT_H
#define TV_TESTS_UNIT_RAFT_KIT_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "raftd/core/raft.h"

#define SELF 1
#define T MONO_MS(300)

struct ctl {
	struct raft *r;
	struct mono now;
	struct raft_output out;
};

static struct ctl c;

/* -- making one */

static inline struct raft_config
config_of(unsigned voters, unsigned learners)
{
	struct raft_config conf = { .count = voters + learners };

	for (unsigned i = 0; i < conf.count; i++)
		conf.servers[i] = (struct raft_server_conf){ .id = i + 1, .voter = i < voters };
	return conf;
}

static inline struct raft_options
options(void)
{
	return (struct raft_options){
		.self = SELF, .election_timeout = T, .heartbeat = MONO_MS(60), .append_entries_max = 10,
		.append_bytes_max = 1000, .inflight_max = 4, .snapshot_chunk_bytes = 100, .catchup_rounds = 5, .seed = 42,
		.check_quorum = true, .pre_vote = true, .uncommitted_entries_max = 20, .uncommitted_bytes_max = 1000,
	};
}

static struct mono commit_delay;	/* option of the cores that are started */

static inline void
start(const struct raft_restore *from)
{
	struct raft_options opt = options();

	opt.commit_delay = commit_delay;
	c.now = MONO_S(10);
	c.r = raft_new(&opt, from, c.now);
	ck_assert_ptr_nonnull(c.r);
}

static inline void
stop(void)
{
	raft_free(c.r);
	c.r = NULL;
}

/* -- inputs */

static inline enum tv_err
feed(struct raft_input in)
{
	in.now = c.now;
	raft_feed(c.r, &in, &c.out);
	return c.out.err;
}

static inline enum tv_err
feed_msg(const struct raft_msg *m)
{
	return feed((struct raft_input){ .type = RAFT_IN_MSG, .msg = m });
}

static inline void
tick(void)
{
	feed((struct raft_input){ .type = RAFT_IN_TICK });
}

static inline void
tick_at_deadline(void)
{
	c.now = c.out.deadline;
	tick();
}

static inline void
persist(uint64_t index, uint64_t term)
{
	feed((struct raft_input){ .type = RAFT_IN_PERSISTED, .index = index, .term = term, .ctx = c.out.write_epoch });
}

static inline enum tv_err
propose(unsigned count, uint32_t size)
{
	struct raft_entry e[64] = { { .type = 0 } };

	for (unsigned i = 0; i < count; i++)
		e[i] = (struct raft_entry){ .type = RAFT_ENTRY_OP, .size = size };
	return feed((struct raft_input){ .type = RAFT_IN_PROPOSE, .entries = e, .entry_count = count });
}

static inline enum tv_err
change(enum raft_change_type type, raft_id id)
{
	struct raft_change ch = { .type = type, .server = { .id = id } };

	return feed((struct raft_input){ .type = RAFT_IN_CHANGE, .change = &ch });
}

static inline void
bootstrap(unsigned voters, unsigned learners)
{
	struct raft_config conf = config_of(voters, learners);

	start(&(struct raft_restore){ 0 });
	tick();
	ck_assert_int_eq(feed((struct raft_input){ .type = RAFT_IN_BOOTSTRAP, .config = &conf }), TV_OK);
	ck_assert_uint_eq(c.out.append_count, 1);
	persist(1, 1);
}

/* An APPEND from `from` of entries with the given terms (0 ends the list). */
static inline void
append(raft_id from, uint64_t term, uint64_t index, uint64_t log_term, uint64_t commit, const uint64_t *terms)
{
	static struct raft_entry e[16];
	static struct raft_msg m;

	m = (struct raft_msg){ .type = RAFT_MSG_APPEND, .from = from, .to = SELF, .term = term, .log_index = index,
		.log_term = log_term, .commit = commit, .seq = 1, .entries = e };
	for (; terms != NULL && terms[m.entry_count] != 0; m.entry_count++)
		e[m.entry_count] = (struct raft_entry){ .index = index + 1 + m.entry_count, .type = RAFT_ENTRY_OP,
			.term = terms[m.entry_count], .size = 4 };
	feed_msg(&m);
}

#define TERMS(...) ((const uint64_t[]){ __VA_ARGS__, 0 })

static inline void
reply(enum raft_msg_type type, raft_id from, uint64_t term, bool granted)
{
	struct raft_msg m = { .type = type, .from = from, .to = SELF, .term = term, .granted = granted };

	feed_msg(&m);
}

static inline void
ack(raft_id from, uint64_t term, uint64_t match, uint64_t seq)
{
	struct raft_msg m = { .type = RAFT_MSG_APPEND_REPLY, .from = from, .to = SELF, .term = term, .granted = true,
		.log_index = match, .match = match, .seq = seq };

	feed_msg(&m);
}

/* -- what came out */

static inline const struct raft_send *
sent(enum raft_msg_type type, raft_id to)
{
	for (uint32_t i = 0; i < c.out.send_count; i++)
		if (c.out.sends[i].msg.type == type && (to == 0 || c.out.sends[i].msg.to == to))
			return &c.out.sends[i];
	return NULL;
}

static inline bool
noted(enum raft_notice_type type, uint64_t index)
{
	for (uint32_t i = 0; i < c.out.notice_count; i++)
		if (c.out.notices[i].type == type && (index == 0 || c.out.notices[i].index == index))
			return true;
	return false;
}

static inline struct raft_status
status(void)
{
	struct raft_status st;

	raft_status(c.r, &st);
	return st;
}

/* Elected in a cluster of `voters`; nothing of the own term is durable or acknowledged yet. */
static inline void
elect(unsigned voters, unsigned learners)
{
	bootstrap(voters, learners);
	tick_at_deadline();
	for (raft_id id = 2; voters > 1 && id <= voters / 2 + 1; id++)
		reply(RAFT_MSG_PRE_VOTE_REPLY, id, 2, true);
	for (raft_id id = 2; voters > 1 && id <= voters / 2 + 1; id++)
		reply(RAFT_MSG_VOTE_REPLY, id, 2, true);
	ck_assert_int_eq(status().role, RAFT_LEADER);
	ck_assert_uint_eq(status().term, 2);
}

/* And with its first entry committed. */
static inline void
lead(unsigned voters, unsigned learners)
{
	elect(voters, learners);
	persist(2, 2);
	for (raft_id id = 2; id <= voters; id++)
		ack(id, 2, 2, 1);
	ck_assert_uint_eq(c.out.commit_index, 2);
	ck_assert(status().ready);
}

/* The tests of a program. */
static inline int
raft_kit_main(const char *name, const TTest *const *tests, size_t count)
{
	Suite *s = suite_create(name);
	TCase *t = tcase_create(name);
	SRunner *r = srunner_create(s);
	int failed;

	for (size_t i = 0; i < count; i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
