/* Which entries all servers can apply. */
#include <stdio.h>

#include "raftd/engine/engine.h"
#include "raftd/fsm/fsm.h"
#include "raftd/peers/links.h"
#include "raftd/peers/state_version.h"

/* 0: nothing was heard of it since the start. */
static uint8_t
version_of(void *ctx, raft_id id)
{
	struct raftd *d = ctx;
	const struct peer *p = links_find_id(d->links, id);

	if (id == d->id.self)
		return FSM_VERSION;
	return p == NULL || p->hello.uuid[0] == '\0' ? 0 : p->hello.state;
}

bool
state_version_all(struct raftd *d, uint8_t version, char *why, size_t cap)
{
	return versions_reach(engine_config(d->engine), version, version_of, d, why, cap);
}

enum hello_verdict
state_version_check(struct raftd *d, const struct hello *h, char *why, size_t cap)
{
	enum hello_verdict verdict = hello_check(&d->id, d->cluster.datacenter, h, why, cap);

	if (verdict == HELLO_REFUSE || d->fsm == NULL || h->state >= fsm_needs(d->fsm))
		return verdict;
	snprintf(why, cap, "it has version %u of the state machine, and the state of the cluster needs version %u: upgrade it",
	    (unsigned)h->state, (unsigned)fsm_needs(d->fsm));
	return HELLO_REFUSE;
}
