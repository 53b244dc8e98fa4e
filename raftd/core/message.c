/* Received messages: what is refused at sight, what another term means, which file handles the rest. */
#include "raftd/core/raft_int.h"

enum on_term { DROP, HANDLE, ADOPT, REFUSE };	/* what to do with a message of another term */

struct msg_rule {
	void (*handle)(struct raft *r, const struct raft_msg *m);
	enum on_term higher, lower;
};

static const struct msg_rule msg_rules[] = {
	[RAFT_MSG_PRE_VOTE] = { election_on_pre_vote, HANDLE, HANDLE },
	[RAFT_MSG_PRE_VOTE_REPLY] = { election_on_pre_vote_reply, HANDLE, DROP },
	[RAFT_MSG_VOTE] = { election_on_vote, ADOPT, REFUSE },
	[RAFT_MSG_VOTE_REPLY] = { election_on_vote_reply, ADOPT, DROP },
	[RAFT_MSG_APPEND] = { follow_on_append, ADOPT, REFUSE },
	[RAFT_MSG_APPEND_REPLY] = { replicate_on_append_reply, ADOPT, DROP },
	[RAFT_MSG_SNAPSHOT] = { snapshot_on_chunk, ADOPT, REFUSE },
	[RAFT_MSG_SNAPSHOT_REPLY] = { snapshot_on_reply, ADOPT, DROP },
	[RAFT_MSG_TIMEOUT_NOW] = { election_on_timeout_now, DROP, DROP },
	[RAFT_MSG_READ_INDEX] = { read_on_index, DROP, REFUSE },
	[RAFT_MSG_READ_INDEX_REPLY] = { read_on_index_reply, DROP, DROP },
};

/* Refusals of requests from a past term carry our term: that is how an old leader or candidate learns of it. */
static void
refuse_stale(struct raft *r, const struct raft_msg *m)
{
	enum raft_msg_type type = RAFT_MSG_APPEND_REPLY;
	struct raft_send *s;

	if (m->type == RAFT_MSG_VOTE)
		type = RAFT_MSG_VOTE_REPLY;
	else if (m->type == RAFT_MSG_READ_INDEX)
		type = RAFT_MSG_READ_INDEX_REPLY;
	s = raft_send_to(r, type, m->from);
	if (s == NULL)
		return;
	s->msg.log_index = m->log_index;
	if (m->type == RAFT_MSG_READ_INDEX)
		s->msg.seq = m->seq;
}

static bool
is_reply(enum raft_msg_type type)
{
	return type == RAFT_MSG_PRE_VOTE_REPLY || type == RAFT_MSG_VOTE_REPLY || type == RAFT_MSG_APPEND_REPLY ||
	    type == RAFT_MSG_SNAPSHOT_REPLY;
}

/* A term above ours, to be taken over unless the sender has no say (S12).  False: the message is ignored. */
static bool
adopt_term(struct raft *r, const struct raft_msg *m)
{
	if (m->type == RAFT_MSG_VOTE && election_lease(r) && !m->transfer)
		return false;
	if (is_reply(m->type) && raft_peer(r, m->from) == NULL)
		return false;
	election_become(r, RAFT_FOLLOWER, m->term, 0);
	return true;
}

/* Brings the terms together; false: the message needs no handling. */
static bool
admit_term(struct raft *r, const struct raft_msg *m)
{
	const struct msg_rule *rule = &msg_rules[m->type];
	enum on_term what = m->term > r->term ? rule->higher : m->term < r->term ? rule->lower : HANDLE;

	/* A refused pre-vote tells the real term of the other; a granted one repeats the term that we asked about. */
	if (m->type == RAFT_MSG_PRE_VOTE_REPLY && m->term > r->term && !m->granted)
		what = ADOPT;
	switch (what) {
	case HANDLE:
		return true;
	case ADOPT:
		return adopt_term(r, m);
	case REFUSE:
		refuse_stale(r, m);
		return false;
	case DROP:
		break;
	}
	return false;
}

/* Limits that hold for every message (S203). */
static bool
numbers_sane(const struct raft_msg *m)
{
	uint64_t most = m->term;

	most |= m->log_index | m->log_term | m->commit | m->leader_last | m->match | m->hint_index | m->hint_term;
	most |= m->offset | m->total;
	return m->term > 0 && most < RAFT_NUMBER_MAX && (m->entry_count == 0 || m->entries != NULL);
}

void
message_in(struct raft *r, const struct raft_msg *m)
{
	if (m->to != r->opt.self || m->from == r->opt.self || m->from == 0) {
		raft_note(r, RAFT_NOTICE_VIOLATION, m->from, RAFT_VIOLATION_ADDRESSEE);
		return;
	}
	if ((unsigned)m->type >= sizeof(msg_rules) / sizeof(msg_rules[0]) || msg_rules[m->type].handle == NULL ||
	    !numbers_sane(m)) {
		raft_note(r, RAFT_NOTICE_VIOLATION, m->from, RAFT_VIOLATION_NUMBERS);
		return;
	}
	election_back(r, m->from);
	if (admit_term(r, m))
		msg_rules[m->type].handle(r, m);
}
