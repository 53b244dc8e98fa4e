/* What other servers tell this one about itself. */
#include <string.h>

#include "common/log.h"
#include "common/mpack.h"
#include "raftd/clients.h"
#include "raftd/engine.h"
#include "raftd/fence.h"
#include "raftd/gossip.h"

void
fence_heard(struct raftd *d, const struct hello *h)
{
	const struct identity *id = &d->id;
	char name[128];

	if (!hello_supersedes(id, d->cluster.datacenter, h) || d->fenced >= h->generation)
		return;
	d->fenced = h->generation;
	(void)log_safe(span_str(h->name), name, sizeof(name));
	log_err("raft", "fenced: an operator has recovered this cluster without this server: %s belongs to generation %llu, this "
	    "server to generation %llu. It takes no part any more and answers nothing but ?stale reads. What is only here, up "
	    "to index %llu, is not in the cluster. To bring the server back as a new one: stop raftd here, move %s/raftd away, "
	    "and start it", name, (unsigned long long)h->generation, (unsigned long long)id->generation,
	    (unsigned long long)engine_status(d->engine)->last_index, d->cluster.data_dir);
	links_silence(d->links, true);
	engine_fence(d->engine);
	gossip_tell_identity(d->gossip);
	clients_status_changed(d->clients);
}

/* -- notices -- */

static void
removed(struct raftd *d, const struct hello *from)
{
	char name[128];

	log_warn("raft", "the leader %s does not add this server: its node id %s was removed for good (force-leave or "
	    "remove-peer). To bring it back as a new one: stop the daemons here, remove %s and start them", log_safe(span_str(from->name), name, sizeof(name)),
	    d->id.uuid, d->cluster.data_dir);
}

static void
twin(struct raftd *d, const struct hello *from)
{
	char name[128];

	log_err("raft", "%s refuses this server: another one with the same node id %s is up. This one is %s at %s; was the data "
	    "directory, or the machine's image, copied? Stop the daemons of the copy, remove its %s and start them",
	    log_safe(span_str(from->name), name, sizeof(name)), d->id.uuid, d->id.name, d->id.addr, d->cluster.data_dir);
}

static void
full(struct raftd *d, const struct hello *from)
{
	char name[128];

	(void)d;
	log_warn("raft", "the leader %s does not add this server: the cluster has %d servers already, which is the most",
	    log_safe(span_str(from->name), name, sizeof(name)), RAFT_SERVERS_MAX);
}

static void (*const tellers[])(struct raftd *d, const struct hello *from) = {
	[NOTICE_REMOVED] = removed, [NOTICE_TWIN] = twin, [NOTICE_FULL] = full,
};

enum tv_err
fence_notice(struct raftd *d, const struct hello *from, struct span body)
{
	struct rd r = rd_span_over(body);
	uint64_t why;

	if (mpr_array(&r) != 2)
		rd_fail(&r, TV_EFORMAT);
	why = mpr_uint(&r, UINT8_MAX);
	(void)mpr_bytes(&r, UINT16_MAX);	/* for newer reasons than we know */
	if (rd_end(&r) != TV_OK)
		return TV_EFORMAT;
	/* One line a minute for all of them: whoever sends them is a server, but may be a mistaken one. */
	if (why >= sizeof(tellers) / sizeof(tellers[0]) || tellers[why] == NULL || !log_allow(&d->notices, "raft"))
		return TV_OK;
	tellers[why](d, from);
	return TV_OK;
}
