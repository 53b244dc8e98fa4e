/* Which servers may talk to each other on the raft port. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/msg.h"
#include "raftd/fsm/fsm.h"
#include "raftd/peers/identity.h"

#define NUMBER_BITS 16
#define NUMBER_MASK ((1ull << NUMBER_BITS) - 1)	/* see generation_number() */

uint64_t
generation_next(uint64_t generation, uint64_t random)
{
	uint64_t number = generation_number(generation);

	return random << NUMBER_BITS | (number < NUMBER_MASK ? number + 1 : number);
}

uint64_t
generation_found(const struct log_meta *m)
{
	bool empty = m->last == 0 && m->snapshot_index == 0, own = strcmp(m->cluster_id, m->store_id) == 0;

	if (m->generation == 0)
		return m->cluster_id[0] != '\0' && m->last > 0;
	return m->generation == 1 && empty && own && m->term <= 1 && m->vote == 0 ? 0 : m->generation;
}

void
hello_write(struct buf *b, const struct identity *id, const char *dc, uint16_t raft_port, const struct disk_mark *mark,
    const struct disk_mark *seen, uint64_t clock_ms)
{
	struct msg_raft_hello h = { .version = RAFT_VERSIONS.lowest,	/* the one that those without ranges look at */
		.node_id = span_str(id->uuid), .node_name = span_str(id->name), .store_id = span_str(id->store_id),
		.cluster_id = span_str(id->cluster_id), .generation = id->generation, .dc = span_str(dc),
		.addr = span_str(id->addr), .raft_port = raft_port, .features = RAFT_FEATURES,
		.highest = RAFT_VERSIONS.highest, .state = FSM_VERSION,
		.life = mark->life, .mark_term = mark->term, .mark_kept = mark->kept, .mark_vote = mark->vote,
		.went_back = mark->went_back, .seen_life = seen->life, .seen_term = seen->term, .seen_kept = seen->kept,
		.seen_vote = seen->vote, .seen_went_back = seen->went_back, .clock_ms = clock_ms };

	schema_pack(&msg_raft_hello_schema, &h, b);
}

enum tv_err
hello_read(struct span body, struct hello *out)
{
	struct msg_raft_hello h = { .highest = UINT64_MAX, .state = 1 };	/* what missing ones mean */
	enum tv_err err = msg_read(&msg_raft_hello_schema, body, NULL, &h);

	*out = (struct hello){ 0 };
	if (err != TV_OK)
		return err;
	if (h.highest == UINT64_MAX)
		h.highest = h.version;
	if (h.version == 0 || h.highest < h.version || h.highest > UINT8_MAX || h.raft_port > UINT16_MAX ||
	    h.state > UINT8_MAX ||
	    h.node_id.len != 36 || h.store_id.len != 36 || !span_copy(h.node_id, out->uuid, sizeof(out->uuid)) ||
	    !span_copy(h.node_name, out->name, sizeof(out->name)) ||
	    !span_copy(h.store_id, out->store_id, sizeof(out->store_id)) ||
	    !span_copy(h.cluster_id, out->cluster_id, sizeof(out->cluster_id)) ||
	    !span_copy(h.dc, out->dc, sizeof(out->dc)) || !span_copy(h.addr, out->addr, sizeof(out->addr)))
		return TV_EFORMAT;
	out->versions = (struct version_range){ (uint8_t)h.version, (uint8_t)h.highest };
	out->generation = h.generation;
	out->raft_port = (uint16_t)h.raft_port;
	out->features = h.features;
	out->state = (uint8_t)h.state;
	out->mark = (struct disk_mark){ h.life, h.mark_term, h.mark_kept, h.mark_vote, h.went_back };
	out->seen = (struct disk_mark){ h.seen_life, h.seen_term, h.seen_kept, h.seen_vote, h.seen_went_back };
	out->clock_ms = h.clock_ms;
	return TV_OK;
}

bool
versions_reach(const struct raft_config *c, uint8_t version, uint8_t (*of)(void *ctx, raft_id id), void *ctx, char *why,
    size_t cap)
{
	for (unsigned i = 0; i < c->count; i++) {
		uint8_t has = of(ctx, c->servers[i].id);

		if (has >= version)
			continue;
		if (has == 0)
			snprintf(why, cap, "server %s has not been heard of since this one started, and may run a version of raftd that "
			    "cannot apply this", c->servers[i].name);
		else
			snprintf(why, cap, "server %s runs a version of raftd that cannot apply this (version %u of the state machine, "
			    "and version %u is needed): upgrade it first, or remove it", c->servers[i].name, (unsigned)has,
			    (unsigned)version);
		return false;
	}
	return true;
}

/* It says our node id: the address led back here, or there is a copy of us. */
static void
hello_own_id(const struct identity *own, const struct hello *h, char *why, size_t cap)
{
	if (strcmp(h->store_id, own->store_id) == 0 && strcmp(h->addr, own->addr) == 0)
		snprintf(why, cap, "it is this server itself: one that was at this address before is still known; if its data "
		    "directory was emptied, remove the old one (clusterctl raft list-peers, raft remove-peer)");
	else
		snprintf(why, cap, "it has our own node id %s (was the data directory copied?)", h->uuid);
}

/* Both belong to the cluster.  May they talk? */
static enum hello_verdict
check_generations(uint64_t own, uint64_t theirs, char *why, size_t cap)
{
	uint64_t a = generation_number(own), b = generation_number(theirs);

	if (own == theirs)
		return HELLO_OK;
	if (a == b)
		snprintf(why, cap, "the cluster was recovered twice as generation %llu, there and here, apart from each other: keep "
		    "one; the servers of the other must be stopped and join this one with an empty data directory",
		    (unsigned long long)a);
	else
		snprintf(why, cap, "%s belongs to generation %llu of the cluster, which was recovered as generation "
		    "%llu; it must join with an empty data directory", b < a ? "it" : "this server",
		    (unsigned long long)(b < a ? b : a), (unsigned long long)(b < a ? a : b));
	return HELLO_REFUSE;
}

enum hello_verdict
hello_check(const struct identity *own, const char *dc, const struct hello *h, char *why, size_t cap)
{
	bool other = strcmp(own->cluster_id, h->cluster_id) != 0;
	bool fresh = own->cluster_id[0] == '\0' || h->cluster_id[0] == '\0';

	if (version_common(RAFT_VERSIONS, h->versions) == 0) {
		char theirs[16], ours[16];

		snprintf(why, cap, "it speaks version %s of the protocol between raftds, this server version %s: upgrade the older "
		    "one by way of a release that speaks both", version_text(h->versions, theirs), version_text(RAFT_VERSIONS, ours));
		return HELLO_REFUSE;
	}
	if (strcmp(h->dc, dc) != 0) {
		snprintf(why, cap, "it belongs to datacenter %s, this server to %s", h->dc, dc);
		return HELLO_REFUSE;
	}
	if (strcmp(h->uuid, own->uuid) == 0) {
		hello_own_id(own, h, why, cap);
		return HELLO_REFUSE;
	}
	if (fresh)
		return HELLO_OK;
	if (other && own->generation > 0 && h->generation > 0) {
		snprintf(why, cap, "it belongs to cluster %s, this server to %s", h->cluster_id, own->cluster_id);
		return HELLO_REFUSE;
	}
	if (other)
		return HELLO_WAIT;
	if (own->generation > 0 && h->generation > 0)
		return check_generations(own->generation, h->generation, why, cap);
	return HELLO_OK;
}

bool
hello_supersedes(const struct identity *own, const char *dc, const struct hello *h)
{
	return version_common(RAFT_VERSIONS, h->versions) != 0 && own->generation > 0 &&
	    generation_number(h->generation) > generation_number(own->generation) &&
	    strcmp(h->dc, dc) == 0 && strcmp(h->uuid, own->uuid) != 0 && strcmp(h->cluster_id, own->cluster_id) == 0;
}

const char *
addr_join(const char *ip, uint16_t port, char *dst, size_t cap)
{
	snprintf(dst, cap, strchr(ip, ':') != NULL ? "[%s]:%u" : "%s:%u", ip, port);
	return dst;
}
