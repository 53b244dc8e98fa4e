/* The catalog entry of a gossip member. */
#include <string.h>

#include "raftd/fsm/fsm.h"
#include "raftd/leader/member_entry.h"

#define SEGMENT_KEY "consul-network-segment"	/* of all nodes */
#define PAIR_ROUNDING 64		/* bytes that an arena may add to both texts of a pair */

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

static void
node_meta(struct member_pairs *p)
{
	p->n = 0;
	pair(p, SEGMENT_KEY, span_str(""));
}

void
member_entry_health(struct span node, bool alive, struct check *out)
{
	*out = (struct check){
		.Node = node, .CheckID = span_str("serfHealth"), .Name = span_str("Serf Health Status"),
		.Status = span_str(alive ? "passing" : "critical"),
		.Output = span_str(alive ? "Agent alive and reachable" : "Agent not live or unreachable"),
	};
}

void
member_entry_make(const struct member *m, const char *dc, bool alive, const struct member_kept *kept,
    struct member_entry *out)
{
	struct catalog_register *args = &out->args;

	addresses(m, member_ip(m, out->ip), &out->tagged);
	node_meta(&out->node_meta);
	*args = (struct catalog_register){
		.ID = member_tag(m, "id"), .Node = m->name, .Address = span_str(out->ip), .Datacenter = span_str(dc),
		.TaggedAddresses = kept->tagged.set ? kept->tagged : as_map(&out->tagged),
		.NodeMeta = kept->meta.set ? kept->meta : as_map(&out->node_meta),
		.SkipNodeUpdate = !alive || kept->whole, .has_check = true,
	};
	member_entry_health(m->name, alive, &args->Check);
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

static bool
has_key(const struct span_map *map, struct span key)
{
	for (uint32_t i = 0; i < map->n; i++)
		if (span_eq(map->kv[i][0], key))
			return true;
	return false;
}

/* Does the stored node say the same?  Its agent may have other addresses there, and more metadata. */
static bool
is_same_node(const struct member *m, const struct node *stored)
{
	char ip[46];

	return span_eq(m->name, stored->Node) && span_eq(member_tag(m, "id"), stored->ID) &&
	    span_eqs(stored->Address, member_ip(m, ip)) && has_key(&stored->TaggedAddresses, span_str("lan")) &&
	    has_key(&stored->Meta, span_str(SEGMENT_KEY));
}

/* A copy without the pairs that have this value, and with those of `more` whose keys it lacks.  False: there is no room. */
static bool
keep_map(const struct span_map *from, struct span without, const struct member_pairs *more, struct arena *keep,
    struct span_map *out)
{
	size_t bytes = (from->n + more->n) * (sizeof(*out->kv) + PAIR_ROUNDING);

	for (uint32_t i = 0; i < from->n; i++)
		bytes += from->kv[i][0].len + from->kv[i][1].len;
	if (bytes > MEMBER_ENTRY_KEPT / 2)
		return false;
	*out = (struct span_map){ .kv = arena_array(keep, from->n + more->n, sizeof(*out->kv)), .set = true };
	for (uint32_t i = 0; i < from->n && out->kv != NULL; i++) {
		if (without.len > 0 && span_eq(from->kv[i][1], without))
			continue;
		out->kv[out->n][0] = arena_copy(keep, from->kv[i][0]);
		out->kv[out->n++][1] = arena_copy(keep, from->kv[i][1]);
	}
	for (uint32_t i = 0; i < more->n && out->kv != NULL; i++)
		if (!has_key(out, more->kv[i][0])) {
			out->kv[out->n][0] = arena_copy(keep, more->kv[i][0]);
			out->kv[out->n++][1] = arena_copy(keep, more->kv[i][1]);
		}
	for (uint32_t i = 0; i < out->n; i++)
		if (out->kv[i][0].p == NULL || out->kv[i][1].p == NULL)
			return false;
	return out->kv != NULL;
}

/* Of a node with this member's id.  What it said of its former address goes with that. */
static void
keep_agents_part(const struct member *m, const struct node *stored, struct arena *keep, struct member_kept *out)
{
	struct member_pairs tagged, meta;
	char ip[46];
	bool moved;

	addresses(m, member_ip(m, ip), &tagged);
	node_meta(&meta);
	moved = !span_eqs(stored->Address, ip);
	if (!keep_map(&stored->TaggedAddresses, moved ? stored->Address : SPAN_NONE, &tagged, keep, &out->tagged))
		out->tagged.set = false;
	if (!keep_map(&stored->Meta, SPAN_NONE, &meta, keep, &out->meta))
		out->meta.set = false;
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
compare(struct fsm *reader, const struct member *m, struct arena *a, struct arena *keep, struct reconcile_stored *out,
    struct member_kept *agents)
{
	struct node named = { 0 }, held = { 0 };
	struct span health = SPAN_NONE, other = SPAN_NONE, id = member_tag(m, "id");
	bool kept = true;

	if (fsm_node_health(reader, m->name, a, &named, &health)) {
		kept = keep_node(&named, health, keep, &out->named);
		out->passing = span_eqs(health, "passing");
		out->critical = span_eqs(health, "critical");
		agents->whole = is_same_node(m, &named);
		out->same = agents->whole && is_same_service(reader, m);
		if (!agents->whole && id.len > 0 && span_eq_nocase(named.ID, id))
			keep_agents_part(m, &named, keep, agents);
	}
	if (!span_eq_nocase(named.ID, id) && fsm_node_of_id(reader, id, a, &held, &other) &&
	    !span_eq_nocase(held.Node, m->name))
		kept = keep_node(&held, other, keep, &out->held) && kept;
	return kept ? fsm_read_err(reader) : TV_ENOMEM;
}

enum tv_err
member_entry_look(struct fsm *reader, const struct member *m, struct arena *keep, struct reconcile_stored *out,
    struct member_kept *kept)
{
	struct arena a = ARENA_INIT(4 * FSM_RECORD_MEMORY);
	enum tv_err err;

	*out = (struct reconcile_stored){ .same = false };
	*kept = (struct member_kept){ .whole = false };
	err = compare(reader, m, &a, keep, out, kept);
	arena_done(&a);
	return err;
}
