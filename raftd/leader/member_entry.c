/* The catalog entry of a gossip member. */
#include <stdio.h>
#include <string.h>

#include "raftd/fsm/fsm.h"
#include "raftd/leader/member_entry.h"

static void
pair(struct member_pairs *p, const char *name, struct span value)
{
	p->kv[p->n][0] = span_str(name);
	p->kv[p->n][1] = value;
	p->n++;
}

static struct span_map
as_map(struct member_pairs *p)
{
	return (struct span_map){ .kv = p->kv, .n = p->n, .set = true };
}

static void
addresses(const struct member *m, const char *ip, struct member_pairs *p)
{
	bool v4 = m->addr_len == 4;

	p->n = 0;
	pair(p, "lan", span_str(ip));
	pair(p, v4 ? "lan_ipv4" : "lan_ipv6", span_str(ip));
	pair(p, "wan", span_str(ip));
	pair(p, v4 ? "wan_ipv4" : "wan_ipv6", span_str(ip));
}

static void
service_meta(const struct member *m, struct member_pairs *p)
{
	p->n = 0;
	pair(p, "raft_version", span_str("3"));
	pair(p, "serf_protocol_current", span_str("2"));
	pair(p, "serf_protocol_max", span_str("5"));
	pair(p, "serf_protocol_min", span_str("1"));
	pair(p, "version", member_tag(m, "build"));
}

static bool
is_server(const struct member *m)
{
	return span_eqs(member_tag(m, "role"), "server");
}

void
member_entry_make(const struct member *m, const char *dc, bool alive, struct member_entry *out)
{
	struct catalog_register *args = &out->args;

	addresses(m, member_ip(m, out->ip), &out->tagged);
	out->node_meta.n = 0;
	pair(&out->node_meta, "consul-network-segment", span_str(""));
	*args = (struct catalog_register){
		.ID = member_tag(m, "id"), .Node = m->name, .Address = span_str(out->ip), .Datacenter = span_str(dc),
		.TaggedAddresses = as_map(&out->tagged), .NodeMeta = as_map(&out->node_meta),
		.SkipNodeUpdate = !alive, .has_check = true,
	};
	args->Check = (struct check){
		.Node = m->name, .CheckID = span_str("serfHealth"), .Name = span_str("Serf Health Status"),
		.Status = span_str(alive ? "passing" : "critical"),
		.Output = span_str(alive ? "Agent alive and reachable" : "Agent not live or unreachable"),
	};
	if (!alive || !is_server(m))
		return;
	service_meta(m, &out->service_meta);
	args->has_service = true;
	args->Service = (struct service){
		.ID = span_str("consul"), .Service = span_str("consul"),
		.Port = member_tag_port(m, "raft_port"), .Meta = as_map(&out->service_meta), .Weights = { 1, 1 },
	};
}

static bool
same_map(const struct member_pairs *want, const struct span_map *have)
{
	if (want->n != have->n)
		return false;
	for (uint32_t i = 0; i < want->n; i++) {
		bool found = false;

		for (uint32_t j = 0; j < have->n && !found; j++)
			found = span_eq(want->kv[i][0], have->kv[j][0]) && span_eq(want->kv[i][1], have->kv[j][1]);
		if (!found)
			return false;
	}
	return true;
}

/* Does the stored node say the same? */
static bool
is_same_node(const struct member *m, const struct node *stored)
{
	struct member_pairs tagged, meta = { .n = 0 };
	char ip[46];

	addresses(m, member_ip(m, ip), &tagged);
	pair(&meta, "consul-network-segment", span_str(""));
	return span_eq(m->name, stored->Node) && span_eq(member_tag(m, "id"), stored->ID) && span_eqs(stored->Address, ip) &&
	    same_map(&tagged, &stored->TaggedAddresses) && same_map(&meta, &stored->Meta);
}

/* Servers: is the service `consul` there as it should be?  Others: true. */
static bool
is_same_service(struct fsm *f, const struct member *m)
{
	struct catalog_read args = { .Name = m->name };
	struct buf b = BUF_INIT(64u << 10), out = BUF_INIT(16u << 20);
	struct arena a = ARENA_INIT(16u << 20);
	struct node_services rec = { 0 };
	struct fsm_answer ans;
	struct member_pairs meta;
	struct rd r;
	bool same = false;

	if (!is_server(m))
		return true;
	service_meta(m, &meta);
	schema_pack(&catalog_read_schema, &args, &b);
	fsm_read(f, op_find(OP_CATALOG_NODE), buf_span(&b), &a, &out, &ans);
	r = rd_span_over(buf_span(&out));
	if (ans.err == TV_OK && schema_unpack(&node_services_schema, &r, &a, &rec) == TV_OK) {
		const struct service *v = rec.Services.v;

		for (uint32_t i = 0; i < rec.Services.n; i++)
			if (span_eqs(v[i].ID, "consul"))
				same = v[i].Port == member_tag_port(m, "raft_port") && same_map(&meta, &v[i].Meta);
	}
	buf_done(&b);
	buf_done(&out);
	arena_done(&a);
	return same;
}

/* What the rules have to know of a node, copied into keep.  False: no memory. */
static bool
keep_node(const struct node *n, struct span health, struct arena *keep, struct reconcile_node *out)
{
	*out = (struct reconcile_node){ .known = true, .name = arena_copy(keep, n->Node),
	    .id = n->ID.len > 0 ? arena_copy(keep, n->ID) : span_str(""), .member = health.len > 0 };
	return out->name.p != NULL && out->id.p != NULL;
}

static enum tv_err
compare(struct fsm *reader, const struct member *m, struct arena *a, struct arena *keep, struct reconcile_stored *out)
{
	struct node named = { 0 }, held = { 0 };
	struct span health = SPAN_NONE, other = SPAN_NONE, id = member_tag(m, "id");
	bool kept = true;

	if (fsm_node_health(reader, m->name, a, &named, &health)) {
		kept = keep_node(&named, health, keep, &out->named);
		out->passing = span_eqs(health, "passing");
		out->critical = span_eqs(health, "critical");
		out->same = is_same_node(m, &named) && is_same_service(reader, m);
	}
	if (!span_eq_nocase(named.ID, id) && fsm_node_of_id(reader, id, a, &held, &other) &&
	    !span_eq_nocase(held.Node, m->name))
		kept = keep_node(&held, other, keep, &out->held) && kept;
	return kept ? fsm_read_err(reader) : TV_ENOMEM;
}

enum tv_err
member_entry_look(struct fsm *reader, const struct member *m, struct arena *keep, struct reconcile_stored *out)
{
	struct arena a = ARENA_INIT(4 * FSM_RECORD_MEMORY);
	enum tv_err err;

	*out = (struct reconcile_stored){ .same = false };
	err = compare(reader, m, &a, keep, out);
	arena_done(&a);
	return err;
}
