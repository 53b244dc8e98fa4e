/* See refusals.h. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/fnv.h"
#include "common/base/log.h"
#include "common/base/log_repeats.h"
#include "raftd/engine/engine.h"
#include "raftd/leader/refusals.h"
#include "raftd/peers/gossip.h"

#define PERIOD MONO_S(55)		/* a pass each minute finds it over */
#define NAME_BYTES 300

struct refusals {
	struct raftd *d;
	struct log_repeats repeats;
};

static uint64_t
key_of(const struct member *m, const struct reconcile_decision *dec)
{
	uint64_t h = fnv1a(FNV1A_START + (unsigned)dec->why, m->name);

	return fnv1a(fnv1a(h, span_of(m->addr, m->addr_len)), dec->other.name);
}

/* "10.0.0.9", or "?" of one that gossip does not tell of: the leader itself, while its gossipd is away. */
static const char *
address_of(struct refusals *r, struct span name, char ip[46])
{
	const struct member *m = gossip_find(r->d->gossip, name);

	return m == NULL ? "?" : member_ip(m, ip);
}

/* The server that has the seat of this id. */
static void
log_copy(struct refusals *r, const char *name, const char *ip, struct span id)
{
	const struct raft_config *conf = engine_config(r->d->engine);
	const char *seat = "?", *at = "?";
	char shown[64];

	for (unsigned i = 0; i < conf->count; i++)
		if (span_eqs(id, conf->servers[i].uuid)) {
			seat = conf->servers[i].name;
			at = conf->servers[i].addr;
		}
	log_err("raftd", "member %s (%s) is kept out of the catalog: its node id %s is that of server %s (%s), which is alive, so a data "
	    "directory or an image was copied: stop the daemons of the copy, remove its data_dir (%s) and start them", name, ip,
	    log_safe(id, shown, sizeof(shown)), seat, at, r->d->cluster.data_dir);
}

void
refusals_log(struct refusals *r, const struct member *m, const struct reconcile_decision *dec)
{
	char name[NAME_BYTES], other[NAME_BYTES], shown[64], ip[46], other_ip[46];
	uint64_t key = key_of(m, dec);
	struct span id = member_tag(m, "id");
	const char *at;

	if (!log_repeats_due(&r->repeats, key, clock_mono()))
		return;
	(void)log_repeats_logged(&r->repeats, key, clock_mono());
	log_safe(m->name, name, sizeof(name));
	member_ip(m, ip);
	if (dec->why == RECONCILE_COPY) {
		log_copy(r, name, ip, id);
		return;
	}
	log_safe(dec->other.name, other, sizeof(other));
	at = address_of(r, dec->other.name, other_ip);
	if (dec->why == RECONCILE_ID_TAKEN)
		log_err("raftd", "member %s (%s) is kept out of the catalog: its node id %s is that of member %s (%s), which is alive, so "
		    "a data directory or an image was copied: stop the daemons of the copy, remove its data_dir (%s) and start "
		    "them", name, ip, log_safe(id, shown, sizeof(shown)), other, at, r->d->cluster.data_dir);
	else
		log_err("raftd", "member %s (%s) is kept out of the catalog: its name is that of member %s (%s), which is alive and "
		    "another node (names are compared without case): give it a node_name of its own; if it is a copy, remove its "
		    "data_dir (%s) too", name, ip, other, at, r->d->cluster.data_dir);
}

struct refusals *
refusals_new(struct raftd *d)
{
	struct refusals *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->d = d;
	r->repeats.period = PERIOD;
	return r;
}

void
refusals_free(struct refusals *r)
{
	free(r);
}
