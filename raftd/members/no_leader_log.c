/* No leader for long: what is missing. */
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "raftd/engine/engine.h"
#include "raftd/members/bootstrap.h"
#include "raftd/members/no_leader_log.h"
#include "raftd/peers/gossip.h"
#include "raftd/peers/links.h"

#define PATIENCE MONO_S(5)
#define REPEAT MONO_S(60)

static const char *
said_by_gossip(struct raftd *d, const char *uuid)
{
	struct gossip_server g;

	if (!gossip_find_server(d->gossip, uuid, &g))
		return "unknown to gossip";
	return g.status == MEMBER_ALIVE ? "alive in gossip, but its raftd does not answer" :
	    g.status == MEMBER_FAILED ? "failed" : "left";
}

/* The voters: which are here, which are not, and whether that is enough. */
static void
put_voters(struct raftd *d, struct buf *out)
{
	const struct raft_config *c = engine_config(d->engine);
	unsigned voters = raft_config_voters(c), here = 0;
	struct buf missing = BUF_INIT(8192);
	char name[128];

	for (unsigned i = 0; i < c->count; i++) {
		const struct raft_server_conf *s = &c->servers[i];
		const struct peer *p = links_find_id(d->links, s->id);

		if (!s->voter)
			continue;
		if (s->id == d->id.self || (p != NULL && p->proven)) {
			here++;
			continue;
		}
		buf_printf(&missing, "%s%s (%s, %s)", missing.len > 0 ? ", " : "",
		    log_safe(span_str(s->name), name, sizeof(name)), s->addr, said_by_gossip(d, s->uuid));
	}
	if (here < voters / 2 + 1)
		buf_printf(out, "%u of %u voters are present, and %u are needed; waiting for %s",
		    here, voters, voters / 2 + 1,
		    buf_cstr(&missing));
	else if (missing.len > 0)
		buf_printf(out, "%u of %u voters are present, enough to elect a leader: see the logs of their raftd; "
		    "missing: %s", here, voters, buf_cstr(&missing));
	else
		buf_printf(out, "all %u voters are present: see the logs of their raftd", voters);
	buf_done(&missing);
}

static void
put_went_back(const struct raft_status *st, struct buf *out)
{
	if (st->went_back)
		buf_puts(out, "; the disk of this server went back to an older state, so it gives no vote until a leader has sent what is "
		    "missing: the others have to elect one without it");
}

bool
no_leader_log_text(struct raftd *d, struct buf *out)
{
	const struct raft_status *st = engine_status(d->engine);

	if (st->leader != 0)
		return false;
	if (d->fenced != 0)
		buf_puts(out, "fenced: an operator has recovered this cluster without this server; see its log for "
		    "how to bring it back");
	else if (d->refusal[0] != '\0')
		buf_puts(out, d->refusal);
	else if (bootstrap_text(d->bootstrap, out))
		;
	else if (!st->voter)
		buf_puts(out, "this server is not a voter, and no leader contacts it");
	else if (engine_opening(d->engine))
		buf_puts(out, "this server is still opening its state, and does not stand for election before that is done");
	else
		put_voters(d, out);
	put_went_back(st, out);
	links_trouble(d->links, out);
	return true;
}

static void
log_no_leader(struct raftd *d, int64_t seconds)
{
	struct buf why = BUF_INIT(32768);

	put_voters(d, &why);
	put_went_back(engine_status(d->engine), &why);
	log_warn("raft", "no leader for %lld s: %s", (long long)seconds, buf_cstr(&why));
	buf_done(&why);
}

void
no_leader_log_check(struct no_leader_log *l, struct raftd *d)
{
	const struct raft_status *st = engine_status(d->engine);
	struct mono now = clock_mono();

	if (st->leader != 0) {
		d->refusal[0] = '\0';
		d->removed = false;
	}
	if (st->leader != 0 || !st->voter || d->id.generation == 0 || d->fenced != 0) {
		*l = (struct no_leader_log){ 0 };
		return;
	}
	if (l->since.ns == 0)
		l->since = now;
	if (mono_sub(now, l->since).ns < PATIENCE.ns || (l->told.ns != 0 && mono_sub(now, l->told).ns < REPEAT.ns))
		return;
	l->told = now;
	log_no_leader(d, mono_sub(now, l->since).ns / 1000000000);
}
