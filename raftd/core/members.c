/*
 * Membership: the configurations found in the log, and changes of one server at a time.
 *
 * A server uses the newest configuration in its log, committed or not (thesis 4.1).  Two rules keep old and new
 * majorities overlapping: a change waits until the one before it is committed (S56), and until the leader has
 * committed an entry of its own term (S55; raft-dev, "bug in single-server membership changes", 2015).
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "raftd/core/raft_int.h"

bool
members_reserve(struct raft *r, unsigned n)
{
	unsigned have = 0;

	for (struct config_node *s = r->spare; s != NULL; s = s->next)
		have++;
	for (; have < n; have++) {
		struct config_node *s = malloc(sizeof(*s));

		if (s == NULL)
			return false;
		s->next = r->spare;
		r->spare = s;
	}
	return true;
}

static struct config_node *
take_spare(struct raft *r)
{
	struct config_node *node = r->spare;

	TV_ASSERT(node != NULL);
	r->spare = node->next;
	node->next = NULL;
	return node;
}

static void
give_back(struct raft *r, struct config_node *node)
{
	if (r->spare != NULL) {
		free(node);
		return;
	}
	node->next = NULL;
	r->spare = node;
}

/* Removes a peer; the last one moves into its place, with its ring. */
static void
drop_peer(struct raft *r, struct peer *p)
{
	struct peer gone = *p;

	*p = r->peers[--r->peer_count];
	r->peers[r->peer_count] = gone;
}

static void
add_peer(struct raft *r, raft_id id)
{
	struct peer *p = &r->peers[r->peer_count];
	uint64_t *ring = p->inflight;

	TV_ASSERT(r->peer_count < PEERS_MAX);
	r->peer_count++;
	*p = (struct peer){ .id = id, .inflight = ring };
	replicate_peer_init(r, p);
}

/* Makes the peers follow the newest configuration; what is known about those that stay is kept. */
static void
sync_peers(struct raft *r)
{
	const struct raft_config *c = &r->newest->config;
	bool keep_leaving = r->role == RAFT_LEADER && c->index > r->commit;

	r->self_voter = false;
	r->said_not_voter = false;
	for (unsigned i = r->peer_count; i-- > 0; ) {
		struct peer *p = &r->peers[i];

		if (raft_config_find(c, p->id) != NULL)
			continue;
		p->voter = false;
		p->leaving = true;
		if (!keep_leaving)
			drop_peer(r, p);
	}
	for (unsigned i = 0; i < c->count; i++) {
		const struct raft_server_conf *s = &c->servers[i];

		if (s->id == r->opt.self) {
			r->self_voter = s->voter;
			continue;
		}
		if (raft_peer(r, s->id) == NULL)
			add_peer(r, s->id);
		raft_peer(r, s->id)->voter = s->voter;
		raft_peer(r, s->id)->leaving = false;
	}
}

bool
members_init(struct raft *r, const struct raft_config *base)
{
	r->inflight_pool = calloc((size_t)PEERS_MAX * r->opt.inflight_max, sizeof(uint64_t));
	if (r->inflight_pool == NULL || !members_reserve(r, 2))
		return false;
	for (unsigned i = 0; i < PEERS_MAX; i++)
		r->peers[i].inflight = r->inflight_pool + (size_t)i * r->opt.inflight_max;
	r->configs = r->newest = take_spare(r);
	r->newest->config = *base;
	sync_peers(r);
	return true;
}

static void
free_list(struct config_node *node)
{
	while (node != NULL) {
		struct config_node *next = node->next;

		free(node);
		node = next;
	}
}

void
members_done(struct raft *r)
{
	free_list(r->configs);
	free_list(r->spare);
	free(r->inflight_pool);
	r->configs = r->newest = r->spare = NULL;
	r->inflight_pool = NULL;
}

void
members_add(struct raft *r, const struct raft_config *c)
{
	struct config_node *node = take_spare(r);

	TV_ASSERT(c->index > r->newest->config.index);
	node->config = *c;
	r->newest->next = node;
	r->newest = node;
	sync_peers(r);
}

void
members_truncate(struct raft *r, uint64_t from)
{
	struct config_node *keep = r->configs;

	if (r->newest->config.index < from)
		return;
	while (keep->next != NULL && keep->next->config.index < from)
		keep = keep->next;
	for (struct config_node *node = keep->next, *next; node != NULL; node = next) {
		next = node->next;
		give_back(r, node);
	}
	keep->next = NULL;
	r->newest = keep;
	sync_peers(r);
}

void
members_compact(struct raft *r, uint64_t upto)
{
	while (r->configs->next != NULL && r->configs->next->config.index <= upto) {
		struct config_node *old = r->configs;

		r->configs = old->next;
		give_back(r, old);
	}
}

void
members_reset(struct raft *r, const struct raft_config *base)
{
	struct config_node *keep = r->configs;

	free_list(keep->next);
	keep->next = NULL;
	keep->config = *base;
	r->newest = keep;
	sync_peers(r);
}

const struct raft_config *
raft_config(const struct raft *r)
{
	return &r->newest->config;
}

const struct raft_config *
raft_config_at(const struct raft *r, uint64_t index)
{
	const struct config_node *node = r->configs;

	while (node->next != NULL && node->next->config.index <= index)
		node = node->next;
	return &node->config;
}

const struct raft_config *
raft_config_committed(const struct raft *r)
{
	return raft_config_at(r, r->commit);
}

unsigned
members_quorum(const struct raft *r)
{
	return raft_config_voters(&r->newest->config) / 2 + 1;
}

bool
members_can_spare(const struct raft *r, const struct peer *p)
{
	unsigned voters = raft_config_voters(&r->newest->config), alive = r->self_voter;

	for (unsigned i = 0; i < r->peer_count; i++) {
		const struct peer *other = &r->peers[i];

		alive += other != p && other->voter && other->disk == DISK_KEPT && replicate_active(r, other);
	}
	return voters > 1 && alive >= (voters - 1) / 2 + 1;
}

/* The configuration before the newest; the newest itself when it is the only one. */
static const struct raft_config *
config_before_newest(const struct raft *r)
{
	const struct config_node *node = r->configs;

	while (node->next != NULL && node->next != r->newest)
		node = node->next;
	return &node->config;
}

/*
 * A server that the newest configuration leaves out stands all the same while that is not known to be committed, if
 * the one before has it: only it may hold the entries that the others need (S15).  The one before is committed,
 * for the leader waited for that, whether or not we have heard of it.
 */
bool
members_electable(const struct raft *r)
{
	const struct raft_server_conf *self;

	if (r->stateless || r->opening || r->went_back)
		return false;
	if (r->self_voter)
		return true;
	if (r->newest->config.index <= r->commit)
		return false;
	self = raft_config_find(config_before_newest(r), r->opt.self);
	return self != NULL && self->voter;
}

/* Notices about what changed between two configurations, the newer of which is committed now. */
static void
announce(struct raft *r, const struct raft_config *was, const struct raft_config *is)
{
	for (unsigned i = 0; i < was->count; i++) {
		raft_id id = was->servers[i].id;

		if (raft_config_find(is, id) != NULL)
			continue;
		if (id == r->opt.self)
			raft_note(r, RAFT_NOTICE_SELF_REMOVED, id, is->index);
		else if (r->role == RAFT_LEADER)
			raft_note(r, RAFT_NOTICE_PEER_REMOVED, id, is->index);
	}
	for (unsigned i = 0; i < is->count; i++) {
		const struct raft_server_conf *before = raft_config_find(was, is->servers[i].id);

		if (before != NULL && !before->voter && is->servers[i].voter)
			raft_note(r, RAFT_NOTICE_PEER_PROMOTED, before->id, is->index);
		else if (before != NULL && before->voter && !is->servers[i].voter)
			raft_note(r, RAFT_NOTICE_PEER_DEMOTED, before->id, is->index);
	}
	raft_note(r, RAFT_NOTICE_CONFIG_COMMITTED, 0, is->index);
}

/* Removed peers get one more append, so that they learn of it, and are forgotten. */
static void
part_with_leaving(struct raft *r)
{
	for (unsigned i = r->peer_count; i-- > 0; ) {
		struct peer *p = &r->peers[i];

		if (!p->leaving)
			continue;
		if (r->role == RAFT_LEADER) {
			replicate_pump(r, p);
			replicate_empty(r, p, 0);
		}
		drop_peer(r, p);
	}
}

void
members_committed_range(struct raft *r, uint64_t from)
{
	for (struct config_node *node = r->configs; node->next != NULL; node = node->next) {
		uint64_t index = node->next->config.index;

		if (index > from && index <= r->commit)
			announce(r, &node->config, &node->next->config);
	}
	if (r->newest->config.index > from && r->newest->config.index <= r->commit)
		part_with_leaving(r);
}

/* -- changes */

static enum tv_err
change_add(struct raft *r UNUSED, struct raft_config *c, struct raft_server_conf *found,
    const struct raft_server_conf *s)
{
	if (s->id == 0)
		return TV_EINVAL;
	if (found != NULL)
		return TV_EEXIST;
	if (c->count >= RAFT_SERVERS_MAX)
		return TV_ELIMIT;
	c->servers[c->count] = *s;
	c->servers[c->count++].voter = false;
	return TV_OK;
}

static enum tv_err
change_promote(struct raft *r, struct raft_config *c UNUSED, struct raft_server_conf *found,
    const struct raft_server_conf *s)
{
	const struct peer *p = raft_peer(r, s->id);

	if (found->voter)
		return TV_EEXIST;
	if (p != NULL && !replicate_caught_up(r, p))
		return TV_ECONFLICT;
	found->voter = true;
	return TV_OK;
}

/* A leader that gave up its own vote would lead without one. */
static enum tv_err
change_demote(struct raft *r, struct raft_config *c, struct raft_server_conf *found, const struct raft_server_conf *s)
{
	if (!found->voter)
		return TV_EEXIST;
	if (s->id == r->opt.self)
		return TV_EINVAL;
	found->voter = false;
	return raft_config_voters(c) > 0 ? TV_OK : TV_ECONFLICT;
}

static enum tv_err
change_remove(struct raft *r UNUSED, struct raft_config *c, struct raft_server_conf *found,
    const struct raft_server_conf *s UNUSED)
{
	*found = c->servers[--c->count];
	memset(&c->servers[c->count], 0, sizeof(c->servers[0]));
	return raft_config_voters(c) > 0 ? TV_OK : TV_ECONFLICT;
}

static enum tv_err
change_addr(struct raft *r UNUSED, struct raft_config *c UNUSED, struct raft_server_conf *found,
    const struct raft_server_conf *s)
{
	memcpy(found->addr, s->addr, sizeof(found->addr));
	if (s->name[0] != '\0')
		memcpy(found->name, s->name, sizeof(found->name));
	return TV_OK;
}

/* found: s in c, which is there but for a change that adds it. */
typedef enum tv_err change_fn(struct raft *r, struct raft_config *c, struct raft_server_conf *found,
    const struct raft_server_conf *s);

static change_fn *const changes[] = {
	[RAFT_ADD_LEARNER] = change_add,
	[RAFT_PROMOTE] = change_promote,
	[RAFT_DEMOTE] = change_demote,
	[RAFT_REMOVE] = change_remove,
	[RAFT_UPDATE_ADDR] = change_addr,
};

/* May a configuration entry be appended now? */
static enum tv_err
may_change(const struct raft *r)
{
	if (r->role != RAFT_LEADER)
		return TV_ENOTLEADER;
	if (r->commit < r->own_first || r->transfer.active)
		return TV_EAGAIN;
	return r->newest->config.index > r->commit ? TV_ECONFLICT : TV_OK;
}

/* Appends c as the next entry and puts it into force. */
static enum tv_err
append_config(struct raft *r, struct raft_config *c)
{
	struct raft_entry e = { .type = RAFT_ENTRY_CONFIG };
	enum tv_err err;

	c->index = r->log.last + 1;
	buf_reset(&r->config_bytes);
	raft_config_write(&r->config_bytes, c);
	if (r->config_bytes.failed || !members_reserve(r, 1))
		return TV_ENOMEM;
	e.size = (uint32_t)r->config_bytes.len;
	e.payload = r->config_bytes.data;
	err = raft_append_own(r, &e, 1);
	if (err == TV_OK)
		members_add(r, c);
	return err;
}

enum tv_err
members_change(struct raft *r, const struct raft_change *change)
{
	struct raft_config c = r->newest->config;
	const struct raft_server_conf *found = raft_config_find(&c, change->server.id);
	enum tv_err err = may_change(r);

	if (err != TV_OK)
		return err;
	if ((unsigned)change->type >= sizeof(changes) / sizeof(changes[0]))
		return TV_EINVAL;
	if (found == NULL && change->type != RAFT_ADD_LEARNER)
		return TV_ENOENT;
	err = changes[change->type](r, &c, found == NULL ? NULL : &c.servers[found - c.servers], &change->server);
	if (err != TV_OK)
		return err;
	err = append_config(r, &c);
	if (err != TV_OK)
		return err;
	if (change->type == RAFT_ADD_LEARNER)
		raft_note(r, RAFT_NOTICE_PEER_ADDED, change->server.id, c.index);
	replicate_pump_all(r);
	return TV_OK;
}

/*
 * Nothing has happened here.  Term 1 without a vote is what a crash leaves of a bootstrap of which only the term became
 * durable: every message has a higher one.
 */
static bool
is_fresh(const struct raft *r)
{
	return r->log.last == 0 && r->term <= 1 && r->vote == 0 && r->newest->config.count == 0;
}

enum tv_err
members_bootstrap(struct raft *r, const struct raft_config *config)
{
	struct raft_config c = *config;
	enum tv_err err;

	if (!is_fresh(r))
		return TV_ECONFLICT;
	c.index = 0;
	if (!config_valid(&c) || !members_reserve(r, 1) || !logidx_reserve(&r->log, 1))
		return TV_EINVAL;
	raft_set_hard(r, 1, 0);
	err = append_config(r, &c);
	if (err == TV_OK && r->self_voter && members_quorum(r) == 1)
		r->election_due = r->now;
	return err;
}

/* Once in its log, this configuration alone decides what is a majority: this server, which then elects itself. */
enum tv_err
members_recover(struct raft *r, const struct raft_config *config)
{
	struct raft_config c = *config;
	enum tv_err err;

	if (r->role == RAFT_LEADER || r->newest->config.count == 0 || r->retired || r->stateless)
		return TV_ECONFLICT;
	if (r->incoming.installing || r->opening)
		return TV_EAGAIN;
	c.index = 0;
	if (!config_valid(&c) || c.count != 1 || c.servers[0].id != r->opt.self || !c.servers[0].voter ||
	    r->term + 2 >= RAFT_NUMBER_MAX)
		return TV_EINVAL;
	if (!members_reserve(r, 1) || !logidx_reserve(&r->log, 1))
		return TV_ENOMEM;
	r->incoming = (struct incoming){ 0 };
	r->went_back = false;		/* the operator says that this disk counts */
	election_become(r, RAFT_FOLLOWER, r->term + 1, 0);
	err = append_config(r, &c);
	if (err == TV_OK)
		r->election_due = r->now;
	return err;
}
