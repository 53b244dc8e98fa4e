/* How the servers of the cluster are looked after: one record.  Until it is written the defaults hold. */
#include "raftd/fsm/apply.h"
#include "raftd/fsm/operator/operator.h"
#include "raftd/fsm/read/watch.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"

#define SECOND_NS INT64_C(1000000000)
#define TAG_BYTES_MAX 255
#define STABILIZATION_MAX_NS (24 * 3600 * SECOND_NS)

static struct autopilot_config
defaults(void)
{
	return (struct autopilot_config){
		.CleanupDeadServers = true, .LastContactThreshold = SECOND_NS / 5, .MaxTrailingLogs = 250,
		.ServerStabilizationTime = 10 * SECOND_NS,
	};
}

bool
autopilot_load(struct fsm *f, struct arena *a, struct autopilot_config *out)
{
	struct tkey k;

	tkey_begin(&k, TBL_AUTOPILOT);
	if (tbl_get_rec(f, &k, &autopilot_config_schema, a, out))
		return true;
	*out = defaults();
	return false;
}

/* One sentence when a configuration makes no sense, else NULL. */
static const char *
fault_of(const struct autopilot_config *c)
{
	if (c->LastContactThreshold < 0)
		return "LastContactThreshold must not be negative";
	if (c->ServerStabilizationTime < 0 || c->ServerStabilizationTime > STABILIZATION_MAX_NS)
		return "ServerStabilizationTime must be between 0s and 24h";
	if (c->MinQuorum > RAFT_SERVERS_MAX)
		return "MinQuorum must not be above 15, the most servers that a cluster has";
	if (c->RedundancyZoneTag.len > TAG_BYTES_MAX || c->UpgradeVersionTag.len > TAG_BYTES_MAX)
		return "RedundancyZoneTag and UpgradeVersionTag have at most 255 bytes";
	return NULL;
}

static enum tv_err
autopilot_set_prepare(struct prepare *p, void *rec)
{
	struct autopilot_set *q = rec;
	const char *fault = fault_of(&q->Config);

	return fault != NULL ? prepare_fail(p, "Invalid autopilot configuration: %s", fault) : TV_OK;
}

static void
autopilot_set_apply(struct apply *p, const void *rec)
{
	const struct autopilot_set *q = rec;
	struct autopilot_config now, next = q->Config;
	bool found = autopilot_load(p->f, &p->f->work, &now);
	struct tkey k;

	if ((q->Initial && found) || (q->Cas && q->Index != now.ModifyIndex)) {
		apply_bool(p, false);
		return;
	}
	next.CreateIndex = found ? now.CreateIndex : p->f->at;
	next.ModifyIndex = p->f->at;
	tkey_begin(&k, TBL_AUTOPILOT);
	tbl_put_rec(p->f, &k, &autopilot_config_schema, &next);
	p->f->facts |= FACT_AUTOPILOT;
	fsm_touch(p->f, FX_AUTOPILOT);
	apply_bool(p, true);
}

static void
autopilot_read(struct reading *r, const void *rec UNUSED)
{
	struct autopilot_config c;

	(void)autopilot_load(r->f, r->a, &c);
	schema_pack(&autopilot_config_schema, &c, r->out);
	r->ans->index = fsm_index_of(r->f, FX_AUTOPILOT);
}

const struct fsm_op autopilot_ops[] = {
	{ OP_AUTOPILOT_SET, .prepare = autopilot_set_prepare, .apply = autopilot_set_apply },
	{ OP_AUTOPILOT_READ, .read = autopilot_read, .one = true },
	{ 0 },
};
