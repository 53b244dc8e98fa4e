/*
 * Anti-entropy of the node itself.  The leader writes its name, id and address; tagged addresses and metadata are
 * ours, and what was configured once and is no more goes from the catalog with the next write.
 */
#include "common/base/log.h"
#include "rpcd/registry/own_node.h"
#include "rpcd/registry/registry_int.h"

static void
on_pushed(void *ctx, const struct op_reply *reply)
{
	struct registry *r = ctx;

	r->node_push = NULL;
	r->stats.pushes_failed += reply->err != TV_OK;
	rights_node_refused(r, reply);
	if (reply->err == TV_OK) {
		log_info("agent", "Synced node info");
	} else if (reply->err != TV_EPERM) {
		log_debug("agent", "sync of the node failed: %s", tv_strerror(reply->err));
		sync_compare_soon(r);
	}
}

static void
push(struct registry *r, const struct own_node *own, struct span address)
{
	struct catalog_register args = {
		.ID = span_str(r->conf.node_id), .Node = span_str(r->conf.node_name), .Address = address,
		.TaggedAddresses = own->tagged, .NodeMeta = own->meta,
	};

	r->stats.differences++;
	r->stats.pushes++;
	r->node_push = sync_ask(r, OP_CATALOG_REGISTER, SPAN_NONE, &args, on_pushed, r);
	if (r->node_push == NULL)
		on_pushed(r, &(struct op_reply){ .err = TV_EAGAIN });
}

void
node_compare(struct registry *r, const struct node *there)
{
	struct own_node own;

	/* One without an id, or in another spelling, is first made ours by the leader. */
	if (r->conf.cluster == NULL || r->node_push != NULL || !span_eqs(there->ID, r->conf.node_id) ||
	    !span_eqs(there->Node, r->conf.node_name))
		return;
	arena_reset(&r->scratch);
	if (!own_node_make(r->conf.cluster, &r->scratch, &own))
		sync_compare_soon(r);
	else if (own_node_is(&own, there))
		r->node_refusal = REFUSED_NOT;
	else
		push(r, &own, there->Address);
}

bool
node_has_news(const struct registry *r)
{
	const struct cluster_conf *c = r->conf.cluster;

	return c != NULL && (c->node_meta.count > 0 || c->tagged_addresses.count > 0 ||
	    (c->advertise != NULL && c->advertise_wan != NULL && strcmp(c->advertise, c->advertise_wan) != 0));
}

void
node_stop(struct registry *r)
{
	if (r->node_push != NULL)
		r->conf.cancel(r->node_push);
	r->node_push = NULL;
}
