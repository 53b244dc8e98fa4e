/* The leader's rpcd is away for long. */
#include "common/clock.h"
#include "common/log.h"
#include "raftd/clients.h"
#include "raftd/engine.h"
#include "raftd/membership.h"
#include "raftd/unserved.h"

#define PATIENCE MONO_S(5)

static void
on_transfer(void *ctx, enum tv_err err, const char *text)
{
	(void)ctx;
	if (err != TV_OK && err != TV_ENOTLEADER)
		log_warn("raft", "leadership stays here although rpcd is away: %s", text);
}

void
unserved_look(struct unserved *u, struct raftd *d)
{
	struct mono now = clock_mono();

	if (!engine_is_leader(d->engine) || raft_config_voters(raft_config(engine_core(d->engine))) < 2 ||
	    !clients_deserted(d->clients)) {
		u->since = MONO_ZERO;
		return;
	}
	if (u->since.ns == 0)
		u->since = now;
	if (mono_sub(now, u->since).ns < PATIENCE.ns)
		return;
	u->since = now;				/* if it stays here, another try in 5 s */
	log_warn("raft", "rpcd of this server has been away for 5 s, and writes need the leader's: handing leadership over");
	membership_transfer(d->members, SPAN_NONE, SPAN_NONE, on_transfer, NULL);
}
