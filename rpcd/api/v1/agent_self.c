/*
 * /v1/agent/self and /v1/agent/version: this node as the configuration, gossip and the daemons' `info` have it, by the
 * names that programs for Consul look for.
 */
#include <sched.h>
#include <string.h>

#include "common/base/histogram.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/api/api.h"
#include "rpcd/api/v1/members_json.h"
#include "rpcd/registry/own_node.h"
#include "rpcd/registry/registry.h"

#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))
#define DATACENTERS_MAX 256
#define OWN_SECTIONS 4
#define OWN_VALUES_MAX 8		/* of a section */

/* The API is that of this version; clients choose features by it.  What follows '+' is ours. */
#define API_VERSION "1.10.0"
#define API_VERSION_FULL API_VERSION "+triumvir." TV_VERSION

/* As Go calls it. */
#if defined(__x86_64__)
#define ARCH "amd64"
#elif defined(__aarch64__)
#define ARCH "arm64"
#elif defined(__i386__)
#define ARCH "386"
#elif defined(__arm__)
#define ARCH "arm"
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCH "riscv64"
#elif defined(__powerpc64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ARCH "ppc64le"
#elif defined(__s390x__)
#define ARCH "s390x"
#else
#define ARCH "other"
#endif

RECORD_LOCAL(self_config,
	(STR, Datacenter), (STR, PrimaryDatacenter), (STR, NodeName), (STR, NodeID),
	(CONST, Revision, "\"" TV_VERSION "\""), (BOOL, Server), (CONST, Version, "\"" API_VERSION_FULL "\""))
RECORD_LOCAL(self_debug_config,
	(STR, Datacenter), (STR, NodeName), (STR, NodeID), (STR, AdvertiseAddrLAN), (STR, AdvertiseAddrWAN),
	(STR, SerfAdvertiseAddrLAN), (STR, SerfAdvertiseAddrWAN), (MAP, TaggedAddresses),
	(BOOL, ServerMode), (U64, ServerPort), (U64, SerfPortLAN), (U64, SerfPortWAN), (U64, HTTPPort),
	(I64, HTTPSPort), (U64, KVMaxValueSize), (BOOL, ACLsEnabled), (STR, ACLDefaultPolicy))
RECORD_LOCAL(self_section, (STR, Name), (MAP, Values))
RECORD_LOCAL(self,
	(OBJ, Config, self_config), (OBJ, DebugConfig, self_debug_config), (OPT, Coord, has_coord, coordinate_rec),
	(JSON, Member), (OBJMAP, Stats, self_section, SF_BARE), (MAP, Meta))

static bool
holds_acl(const struct api *api)
{
	return api->acl != NULL && acl_holds(api->acl);
}

/* -- what the configuration says -- */

static struct span
text_or_empty(const char *text)
{
	return span_str(text == NULL ? "" : text);
}

/* "tcp://10.0.0.1:8301", as Consul shows addresses. */
static struct span
address_text(const char *ip, uint16_t port, struct arena *a)
{
	bool six = ip != NULL && strchr(ip, ':') != NULL;

	return arena_printf(a, "tcp://%s%s%s:%u", six ? "[" : "", ip == NULL ? "" : ip, six ? "]" : "", port);
}

static void
show_config(const struct api *api, struct self *v, struct arena *a)
{
	const struct cluster_conf *c = api->cluster;
	struct own_node own;

	v->Config = (struct self_config){
		.Datacenter = span_str(c->datacenter), .NodeName = span_str(c->node_name),
		.NodeID = span_str(c->node_id), .Server = c->server,
		.PrimaryDatacenter = span_str(c->acl_primary != NULL ? c->acl_primary : c->datacenter),
	};
	v->DebugConfig = (struct self_debug_config){
		.Datacenter = span_str(c->datacenter), .NodeName = span_str(c->node_name),
		.NodeID = span_str(c->node_id),
		.AdvertiseAddrLAN = text_or_empty(c->advertise), .AdvertiseAddrWAN = text_or_empty(c->advertise_wan),
		.SerfAdvertiseAddrLAN = address_text(c->advertise, c->lan_port, a),
		.SerfAdvertiseAddrWAN = address_text(c->advertise_wan, c->wan_port, a),
		.ServerMode = c->server, .ServerPort = c->raft_port, .SerfPortLAN = c->lan_port,
		.SerfPortWAN = c->wan_port, .HTTPPort = api->conf->http_port,
		.HTTPSPort = api->conf->https_port != 0 ? api->conf->https_port : -1,	/* as Consul has it */
		.KVMaxValueSize = api->conf->kv_max_value_size, .ACLsEnabled = holds_acl(api),
		.ACLDefaultPolicy = span_str(c->acl_default == ACL_DEFAULT_ALLOW ? "allow" : "deny"),
	};
	if (own_node_make(c, a, &own)) {
		v->DebugConfig.TaggedAddresses = own.tagged;
		v->Meta = own.meta;
	}
}

/* Until gossipd has told about ourselves: what the configuration says. */
static void
show_member(const struct api *api, struct buf *out)
{
	const struct cluster_conf *c = api->cluster;
	const struct member *m = members_find(api->members, POOL_LAN, span_str(c->node_name));

	if (m != NULL)
		member_json(m, out);
	else
		member_json_configured(span_str(c->node_name), text_or_empty(c->advertise), c->lan_port, out);
}

/* -- Stats, all of whose values are texts: what the daemons say by `info` -- */

struct stats {
	const struct api *api;
	struct arena *a;
	struct self_section *v;
	uint32_t n;
	bool failed;			/* no memory */
};

/* A section with room for this many values; NULL: no memory. */
static struct span_map *
add_section(struct stats *s, struct span name, size_t room)
{
	struct self_section *section = &s->v[s->n];

	*section = (struct self_section){ name, { arena_array(s->a, room, sizeof(struct span[2])), 0, true } };
	s->failed = s->failed || section->Values.kv == NULL;
	s->n += !s->failed;
	return s->failed ? NULL : &section->Values;
}

static void
add_value(struct span_map *section, struct span name, struct span text)
{
	section->kv[section->n][0] = name;
	section->kv[section->n++][1] = text;
}

/*
 * Histograms are left out: of each there are numbers beside it.  Raft's version is added here: in `info` it would be a
 * metric.
 */
static void
read_section(struct stats *s, struct rd *in)
{
	struct span name = mpr_bytes(in, INFO_NAME_BYTES_MAX), of;
	uint32_t n = mpr_map(in);
	struct span_map *section = add_section(s, name, (size_t)n + 1);

	for (; n > 0 && in->err == TV_OK && section != NULL; n--) {
		struct span key = mpr_bytes(in, INFO_NAME_BYTES_MAX), text = mpr_bytes(in, SCHEMA_TEXT_BYTES_MAX);

		if (in->err == TV_OK && !histogram_named(key, &of))
			add_value(section, key, text);
	}
	if (section != NULL && span_eqs(name, "raft"))
		add_value(section, span_str("protocol_version"), span_str("3"));
}

/* What one section says of this; empty: nothing. */
static struct span
value_of(const struct stats *s, const char *section, const char *name)
{
	for (uint32_t i = 0; i < s->n; i++)
		for (uint32_t k = 0; span_eqs(s->v[i].Name, section) && k < s->v[i].Values.n; k++)
			if (span_eqs(s->v[i].Values.kv[k][0], name))
				return s->v[i].Values.kv[k][1];
	return SPAN_NONE;
}

/* -- what Consul's agents tell besides -- */

struct counts {
	unsigned services, checks, ttls, monitors;
};

static void
count_service(void *ctx, const struct local_record *rec UNUSED)
{
	((struct counts *)ctx)->services++;
}

static void
count_check(void *ctx, const struct local_record *rec)
{
	struct counts *c = ctx;

	c->checks++;
	c->ttls += rec->ttl > 0;
	c->monitors += span_eqs(rec->run.Kind, "script");
}

static unsigned
alive_servers(const struct members *v)
{
	unsigned n = 0;

	for (unsigned i = 0; i < members_count(v, POOL_LAN); i++) {
		const struct member *m = members_at(v, POOL_LAN, i);

		n += m->status == MEMBER_ALIVE && span_eqs(member_tag(m, "role"), "server");
	}
	return n;
}

static struct span
number(unsigned v, struct arena *a)
{
	return arena_printf(a, "%u", v);
}

static struct span
truth(bool yes)
{
	return span_str(yes ? "true" : "false");
}

static void
add_own(struct stats *s)
{
	const struct members *m = s->api->members;
	bool server = s->api->cluster->server;
	struct counts c = { .services = 0 };
	struct span dcs[DATACENTERS_MAX];
	struct span_map *section = NULL;
	cpu_set_t set;
	unsigned cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;

	registry_each(s->api->registry, ENTRY_SERVICE, count_service, &c);
	registry_each(s->api->registry, ENTRY_CHECK, count_check, &c);
	const struct { const char *section, *name; bool shown; struct span text; } own[] = {
		{ "agent", "check_monitors", true, number(c.monitors, s->a) },
		{ "agent", "check_ttls", true, number(c.ttls, s->a) },
		{ "agent", "checks", true, number(c.checks, s->a) },
		{ "agent", "services", true, number(c.services, s->a) },
		{ "build", "prerelease", true, SPAN_NONE },
		{ "build", "revision", true, span_str(TV_VERSION) },
		{ "build", "version", true, span_str(API_VERSION) },
		{ "build", "version_metadata", true, span_str("triumvir." TV_VERSION) },
		{ "consul", "acl", true, span_str(holds_acl(s->api) ? "enabled" : "disabled") },
		{ "consul", "bootstrap", server, truth(span_eqs(value_of(s, "raftd", "bootstrap"), "true")) },
		{ "consul", "known_datacenters", server, number(members_datacenters(m, dcs, DATACENTERS_MAX), s->a) },
		{ "consul", "leader", server, truth(span_eqs(value_of(s, "raft", "state"), "Leader")) },
		{ "consul", "leader_addr", server, value_of(s, "raft", "leader") },
		{ "consul", "known_servers", !server, number(alive_servers(m), s->a) },
		{ "consul", "server", true, truth(server) },
		{ "runtime", "arch", true, span_str(ARCH) },
		{ "runtime", "cpu_count", true, number(cpus, s->a) },
		{ "runtime", "max_procs", true, span_str("1") },	/* this daemon has one loop */
		{ "runtime", "os", true, span_str("linux") },
		{ "runtime", "version", true, span_str("C " __VERSION__) },
	};
	for (size_t i = 0; i < NITEMS(own) && !s->failed; i++) {
		if (i == 0 || strcmp(own[i].section, own[i - 1].section) != 0)
			section = add_section(s, span_str(own[i].section), OWN_VALUES_MAX);
		if (own[i].shown && section != NULL)
			add_value(section, span_str(own[i].name), own[i].text);
	}
}

/* False: no memory. */
static bool
show_stats(const struct api *api, struct span sections, struct obj_list *out, struct arena *a)
{
	struct rd in = rd_span_over(sections);
	uint32_t n = sections.len == 0 ? 0 : mpr_map(&in);
	struct stats s = { api, a, arena_array(a, (size_t)n + OWN_SECTIONS, sizeof(*s.v)), 0, false };

	for (s.failed = s.v == NULL; n > 0 && in.err == TV_OK && !s.failed; n--)
		read_section(&s, &in);
	add_own(&s);
	*out = (struct obj_list){ s.v, s.n, true };
	return !s.failed;
}

/* -- the answer: our coordinate, which is null where there are none, then `info` -- */

static void
on_info(void *ctx, struct span sections)
{
	struct request *r = note_take(ctx);
	struct buf member = BUF_INIT(REQUEST_ARENA_MAX);

	if (r == NULL)
		return;
	struct self *v = r->state;
	show_config(r->api, v, &r->arena);	/* now: a reload may free what it borrows */
	show_member(r->api, &member);
	v->Member = buf_span(&member);
	if (show_stats(r->api, sections, &v->Stats, &r->arena)) {
		schema_json_rec(&self_schema, v, &r->answer.body);
		answer_json(r);
	} else {
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
	}
	buf_done(&member);
}

static void
ask_info(struct request *r, struct note *a)
{
	enum tv_err err = admin_info(r->api->admin, on_info, a);

	if (err == TV_OK)
		return;
	note_free(a);
	answer_text(r, 500, "%s", tv_strerror(err));
}

static void
on_own_coord(void *ctx, enum tv_err err, struct span text UNUSED, struct span list)
{
	struct note *a = ctx;
	struct request *r = note_request(a);
	struct node_coordinate own;
	struct rd in = rd_span_over(list);
	struct self *v;

	if (r == NULL) {
		note_free(a);
		return;
	}
	v = r->state;
	v->has_coord = err == TV_OK && list.len > 0 && mpr_array(&in) > 0 &&
	    api_read_coord(&in, &r->arena, &own) == TV_OK;
	if (v->has_coord)
		v->Coord = own.Coord;
	ask_info(r, a);
}

static void
run_self(struct request *r)
{
	struct note *a = note_new(r);
	struct self *v = r->state = arena_alloc(&r->arena, sizeof(*v));
	struct span name = span_str(r->api->cluster->node_name);

	if (a == NULL || v == NULL) {
		note_free(a);
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
		return;
	}
	if (admin_coords(r->api->admin, POOL_LAN, name, on_own_coord, a) != TV_OK)
		ask_info(r, a);			/* gossipd is away */
}

/* Nothing is known of when it was built: that would be another one each time. */
static void
run_version(struct request *r)
{
	answer_json_text(r, "{\"SHA\":\"" TV_VERSION "\",\"BuildDate\":\"1970-01-01T00:00:01Z\","
	    "\"HumanVersion\":\"" API_VERSION_FULL "\",\"FIPS\":\"\"}");
}

const struct endpoint api_agent_self[] = {
	{ "/v1/agent/self", "GET", ACCESS_AGENT_READ, .run = run_self },
	{ "/v1/agent/version", "GET", ACCESS_NONE, .run = run_version },
	{ .path = NULL },
};
