/*
 * Elections: roles and what changes them, timeouts, pre-vote (thesis 9.6), votes (3.4, 3.6), check-quorum (6.2),
 * leadership transfer (3.10) and the leader whose process has ended.
 */
#include "common/base/assert.h"
#include "raftd/core/raft_int.h"

#define TO(role) (1u << (role))
#define PROMPT_WITHIN MONO_MS(50)	/* the followers of a dead leader do not stand at once, all of them */
#define PROMPT_TRIES 5			/* the others may learn later that it is dead, or two stand at the same time */

/* Which roles may follow which. */
static const unsigned next_roles[] = {
	[RAFT_FOLLOWER] = TO(RAFT_FOLLOWER) | TO(RAFT_PRE_CANDIDATE) | TO(RAFT_CANDIDATE),
	[RAFT_PRE_CANDIDATE] = TO(RAFT_FOLLOWER) | TO(RAFT_PRE_CANDIDATE) | TO(RAFT_CANDIDATE),
	[RAFT_CANDIDATE] = TO(RAFT_FOLLOWER) | TO(RAFT_PRE_CANDIDATE) | TO(RAFT_CANDIDATE) | TO(RAFT_LEADER),
	[RAFT_LEADER] = TO(RAFT_FOLLOWER),
};

static void
end_transfer(struct raft *r, enum raft_notice_type how)
{
	if (!r->transfer.active)
		return;
	r->transfer.active = false;
	raft_note(r, how, r->transfer.to, 0);
}

void
election_become(struct raft *r, enum raft_role role, uint64_t term, raft_id leader)
{
	bool new_role = role != r->role, new_leader = leader != r->leader;

	TV_ASSERT((next_roles[r->role] & TO(role)) != 0 && term >= r->term);
	if (new_role || new_leader || term != r->term) {
		read_fail_all(r);
		r->regain = 0;
	}
	if (term != r->term)
		r->verified = 0;
	if (term != r->term)
		raft_set_hard(r, term, role == RAFT_CANDIDATE ? r->opt.self : 0);
	r->role = role;
	r->leader = leader;
	if (new_leader && leader != 0)
		end_transfer(r, leader == r->transfer.to ? RAFT_NOTICE_TRANSFER_DONE : RAFT_NOTICE_TRANSFER_FAILED);
	if (leader == 0 || new_leader)
		r->leader_seen = false;
	if (new_role)
		raft_note(r, RAFT_NOTICE_ROLE, 0, 0);
	if (new_leader)
		raft_note(r, RAFT_NOTICE_LEADER, leader, 0);
}

void
election_reset_timer(struct raft *r)
{
	int64_t base = r->opt.election_timeout.ns;

	r->election_due = mono_add(r->now, (struct mono){ base + (int64_t)rng_below(&r->rng, (uint64_t)base) });
}

/* Stands sooner than the timer says.  After a failure later than before: the candidate that asked first shall have the time to win. */
static void
hurry(struct raft *r)
{
	int64_t least = r->prompt_tries == PROMPT_TRIES ? 0 : PROMPT_WITHIN.ns << (PROMPT_TRIES - 1 - r->prompt_tries);
	int64_t spread = least > 0 ? least : PROMPT_WITHIN.ns;

	r->election_due = mono_min(r->election_due,
	    mono_add(r->now, (struct mono){ least + (int64_t)rng_below(&r->rng, (uint64_t)spread) }));
}

/*
 * Its leader's process has ended: it hears nothing more, so there is no lease to keep.  Others that still hear the leader keep
 * theirs and refuse, which is why wrong evidence unseats no leader; without leases and pre-votes it would, and counts nothing.
 */
void
election_gone(struct raft *r, raft_id id)
{
	if (!r->opt.pre_vote || !r->opt.check_quorum)
		return;
	if (r->role != RAFT_FOLLOWER || id == 0 || id != r->leader || !r->leader_seen)
		return;
	r->leader_seen = false;
	r->gone = id;
	r->prompt_tries = PROMPT_TRIES;
	hurry(r);
}

void
election_back(struct raft *r, raft_id id)
{
	if (id == r->gone)
		r->gone = 0;
}

bool
election_lease(const struct raft *r)
{
	if (!r->opt.check_quorum)
		return false;
	if (r->role == RAFT_LEADER)
		return true;
	return r->leader != 0 && r->leader_seen &&
	    mono_before(r->now, mono_add(r->leader_contact, r->opt.election_timeout));
}

bool
election_heard_leader(struct raft *r, raft_id from)
{
	if (r->role == RAFT_LEADER || (r->leader != 0 && r->leader != from)) {
		raft_note(r, RAFT_NOTICE_VIOLATION, from, RAFT_VIOLATION_SECOND_LEADER);
		return false;
	}
	if (r->role != RAFT_FOLLOWER || r->leader != from)
		election_become(r, RAFT_FOLLOWER, r->term, from);
	r->leader_contact = r->now;
	r->leader_seen = true;
	r->gone = 0;
	election_reset_timer(r);
	return true;
}

/* -- standing for election */

static void
become_leader(struct raft *r)
{
	struct raft_entry noop = { .type = RAFT_ENTRY_NOOP };

	if (!logidx_reserve(&r->log, 1)) {	/* cannot lead without memory for one entry */
		election_become(r, RAFT_FOLLOWER, r->term, 0);
		return;
	}
	end_transfer(r, RAFT_NOTICE_TRANSFER_FAILED);
	r->gone = 0;
	election_become(r, RAFT_LEADER, r->term, r->opt.self);
	replicate_start(r);
	if (raft_append_own(r, &noop, 1) != TV_OK) {
		election_become(r, RAFT_FOLLOWER, r->term, 0);
		return;
	}
	r->own_first = r->log.last;
	r->heartbeat_due = mono_add(r->now, r->opt.heartbeat);
	replicate_pump_all(r);
}

/* Asks every voter.  A server outside its newest configuration stands too (S15), but has no vote of its own. */
static void
ask_for_votes(struct raft *r, enum raft_msg_type type, uint64_t term)
{
	for (unsigned i = 0; i < r->peer_count; i++) {
		struct peer *p = &r->peers[i];
		struct raft_send *s;

		p->answered = p->granted = false;
		if (!p->voter || (s = raft_send_to(r, type, p->id)) == NULL)
			continue;
		s->msg.term = term;
		s->msg.log_index = r->log.last;
		s->msg.log_term = logidx_last_term(&r->log);
		s->msg.transfer = r->transfer_campaign;
	}
}

static void campaign(struct raft *r);

/* No majority can come of it any more.  A dead leader's follower tries again soon: the others may not have known it yet. */
static void
lose(struct raft *r)
{
	election_become(r, RAFT_FOLLOWER, r->term, 0);
	if (r->gone != 0 && r->prompt_tries > 0)
		hurry(r);
}

/* Counts; wins, loses, or goes on waiting. */
static void
tally(struct raft *r)
{
	unsigned voters = raft_config_voters(raft_config(r)), quorum = members_quorum(r);
	unsigned yes = r->self_voter, no = 0;

	for (unsigned i = 0; i < r->peer_count; i++) {
		const struct peer *p = &r->peers[i];

		yes += p->voter && p->answered && p->granted;
		no += p->voter && (p->answered ? !p->granted : p->id == r->gone);
	}
	if (yes >= quorum && r->role == RAFT_PRE_CANDIDATE)
		campaign(r);
	else if (yes >= quorum)
		become_leader(r);
	else if (voters - no < quorum)
		lose(r);
}

static void
campaign(struct raft *r)
{
	election_become(r, RAFT_CANDIDATE, r->term + 1, 0);
	election_reset_timer(r);
	ask_for_votes(r, RAFT_MSG_VOTE, r->term);
	tally(r);
}

/* The election comes early, or is a repetition of one that did. */
static void
note_prompt(struct raft *r)
{
	if (r->gone == 0 || r->prompt_tries == 0)
		return;
	if (r->prompt_tries-- < PROMPT_TRIES)
		return;
	r->prompt_elections++;
	raft_note(r, RAFT_NOTICE_LEADER_GONE, r->gone, 0);
}

static void
pre_campaign(struct raft *r)
{
	note_prompt(r);
	election_become(r, RAFT_PRE_CANDIDATE, r->term, 0);
	election_reset_timer(r);
	ask_for_votes(r, RAFT_MSG_PRE_VOTE, r->term + 1);
	tally(r);
}

void
election_timeout(struct raft *r)
{
	r->transfer_campaign = false;
	election_reset_timer(r);
	if (r->retired)
		return;
	if (r->leader != 0 && r->role == RAFT_FOLLOWER)
		election_become(r, RAFT_FOLLOWER, r->term, 0);
	if (r->opening)
		return;
	if (raft_config(r)->count == 0) {
		if (!r->said_no_peers)
			raft_note(r, RAFT_NOTICE_NO_PEERS, 0, 0);
		r->said_no_peers = true;
	} else if (!members_electable(r)) {
		if (!r->said_not_voter && !r->stateless && !r->went_back)
			raft_note(r, RAFT_NOTICE_NOT_VOTER, 0, 0);
		r->said_not_voter = true;
	} else if (r->term + 1 < RAFT_NUMBER_MAX && !r->incoming.installing) {
		if (r->opt.pre_vote)
			pre_campaign(r);
		else
			campaign(r);
	}
}

/* -- votes */

static bool
up_to_date(const struct raft *r, const struct raft_msg *m)
{
	uint64_t term = logidx_last_term(&r->log);

	return m->log_term > term || (m->log_term == term && m->log_index >= r->log.last);
}

/*
 * Both of us stand because the leader is dead.  On long links all of its followers do before one has heard of another: if all
 * went on, each would vote for itself.
 */
static bool
gives_way(const struct raft *r, const struct raft_msg *m)
{
	if (r->role != RAFT_PRE_CANDIDATE || r->gone == 0)
		return false;
	return m->log_index != r->log.last || m->log_term != logidx_last_term(&r->log) || m->from < r->opt.self;
}

void
election_on_pre_vote(struct raft *r, const struct raft_msg *m)
{
	bool grant = m->term > r->term && r->role != RAFT_LEADER && !r->went_back && !election_lease(r) && up_to_date(r, m);
	struct raft_send *s = raft_send_to(r, RAFT_MSG_PRE_VOTE_REPLY, m->from);

	if (s == NULL)
		return;
	s->msg.granted = grant;
	s->msg.term = grant ? m->term : r->term;
	if (grant && gives_way(r, m))
		lose(r);
}

void
election_on_vote(struct raft *r, const struct raft_msg *m)
{
	bool grant = (r->vote == 0 || r->vote == m->from) && (r->leader == 0 || r->leader == m->from) && !r->went_back &&
	    up_to_date(r, m);
	struct raft_send *s;

	if (grant) {
		if (r->vote != m->from)
			raft_set_hard(r, r->term, m->from);
		election_reset_timer(r);
	}
	s = raft_send_to(r, RAFT_MSG_VOTE_REPLY, m->from);
	if (s != NULL)
		s->msg.granted = grant;
}

static void
count_reply(struct raft *r, const struct raft_msg *m)
{
	struct peer *p = raft_peer(r, m->from);

	if (p == NULL || p->answered)
		return;
	p->answered = true;
	p->granted = m->granted;
	tally(r);
}

void
election_on_pre_vote_reply(struct raft *r, const struct raft_msg *m)
{
	if (r->role != RAFT_PRE_CANDIDATE || (m->granted && m->term != r->term + 1))
		return;
	count_reply(r, m);
}

void
election_on_vote_reply(struct raft *r, const struct raft_msg *m)
{
	if (r->role == RAFT_CANDIDATE)
		count_reply(r, m);
}

/* -- the leader's quorum */

void
election_check_quorum(struct raft *r)
{
	unsigned alive = r->self_voter;

	if (!r->opt.check_quorum)
		return;
	for (unsigned i = 0; i < r->peer_count; i++) {
		const struct peer *p = &r->peers[i];

		alive += p->voter && replicate_active(r, p);
	}
	if (alive >= members_quorum(r))
		return;
	raft_note(r, RAFT_NOTICE_QUORUM_LOST, 0, 0);
	election_become(r, RAFT_FOLLOWER, r->term, 0);
	election_reset_timer(r);
}

/* -- transfer */

/*
 * What keeps a voter from taking over: it lost what it had acknowledged and may not stand, has no state, or no room for our log.
 * It is better than none, though.
 */
static int
hindrance(const struct peer *p)
{
	return (p->disk == DISK_LACKING) * 4 + p->unready * 2 + p->full;
}

/* The voter that answered lately and has most of our log; NULL: none. */
static struct peer *
best_voter(struct raft *r)
{
	struct peer *best = NULL;

	for (unsigned i = 0; i < r->peer_count; i++) {
		struct peer *p = &r->peers[i];

		if (!p->voter || !replicate_active(r, p))
			continue;
		if (best == NULL || hindrance(p) < hindrance(best) ||
		    (hindrance(p) == hindrance(best) && p->match > best->match))
			best = p;
	}
	return best;
}

/* log_index says for which log this was meant: a late copy finds the target with another one (S18). */
static void
send_timeout_now(struct raft *r, const struct peer *p)
{
	struct raft_send *s = raft_send_to(r, RAFT_MSG_TIMEOUT_NOW, p->id);

	if (s == NULL)
		return;
	s->msg.log_index = p->match;
	(void)logidx_term(&r->log, p->match, &s->msg.log_term);
}

void
election_hand_over(struct raft *r)
{
	struct peer *best = best_voter(r);

	if (best != NULL)
		send_timeout_now(r, best);
	election_become(r, RAFT_FOLLOWER, r->term, 0);
	election_reset_timer(r);
	/* The others get their chance first. */
	r->election_due = mono_add(r->election_due, mono_mul(r->opt.election_timeout, 2));
}

enum tv_err
election_transfer(struct raft *r, raft_id to)
{
	struct peer *p;

	if (r->role != RAFT_LEADER)
		return TV_ENOTLEADER;
	if (r->transfer.active)
		return TV_ECONFLICT;
	p = to != 0 ? raft_peer(r, to) : best_voter(r);
	if (p == NULL)
		return to == r->opt.self ? TV_EINVAL : TV_ENOENT;
	if (!p->voter)
		return TV_EINVAL;
	r->transfer.active = true;
	r->transfer.sent = false;
	r->transfer.to = p->id;
	r->transfer.due = mono_add(r->now, r->opt.election_timeout);
	replicate_pump(r, p);
	election_transfer_progress(r, p);
	return TV_OK;
}

void
election_transfer_progress(struct raft *r, struct peer *p)
{
	if (!r->transfer.active || r->transfer.sent || p->id != r->transfer.to || p->match < r->log.last)
		return;
	r->transfer.sent = true;
	send_timeout_now(r, p);
}

void
election_transfer_tick(struct raft *r)
{
	if (r->transfer.active && !mono_before(r->now, r->transfer.due))
		end_transfer(r, RAFT_NOTICE_TRANSFER_FAILED);
}

void
election_on_timeout_now(struct raft *r, const struct raft_msg *m)
{
	if (r->role != RAFT_FOLLOWER || m->from != r->leader || !members_electable(r) || r->incoming.installing)
		return;
	if (m->log_index != r->log.last || m->log_term != logidx_last_term(&r->log) || r->term + 1 >= RAFT_NUMBER_MAX)
		return;
	r->transfer_campaign = true;
	campaign(r);
}
