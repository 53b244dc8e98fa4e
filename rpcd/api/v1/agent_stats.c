/* See agent_stats.h. */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "common/base/histogram.h"
#include "common/record/mpack.h"
#include "common/text/json_text.h"
#include "rpcd/api/v1/agent_stats.h"
#include "rpcd/registry/own_node.h"
#include "rpcd/registry/registry.h"

#define DATACENTERS_MAX 256

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

/* -- the daemons' -- */

/* What one section says of this; empty: nothing. */
static struct span
told(struct span sections, const char *section, const char *name)
{
	struct rd in = rd_span_over(sections);
	struct span found = SPAN_NONE;

	for (uint32_t n = sections.len == 0 ? 0 : mpr_map(&in); n > 0 && in.err == TV_OK; n--) {
		bool here = span_eqs(mpr_bytes(&in, INFO_NAME_BYTES_MAX), section);

		for (uint32_t v = mpr_map(&in); v > 0 && in.err == TV_OK; v--) {
			struct span key = mpr_bytes(&in, INFO_NAME_BYTES_MAX);
			struct span text = mpr_bytes(&in, SCHEMA_TEXT_BYTES_MAX);

			if (here && in.err == TV_OK && span_eqs(key, name))
				found = text;
		}
	}
	return found;
}

static void
put(struct buf *out, const char *name, struct span text)
{
	if (out->len > 0 && out->data[out->len - 1] != '{')
		buf_u8(out, ',');
	json_quote(span_str(name), out);
	buf_u8(out, ':');
	json_quote(text, out);
}

static void
put_number(struct buf *out, const char *name, unsigned number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	put(out, name, span_str(text));
}

static void
put_bool(struct buf *out, const char *name, bool yes)
{
	put(out, name, span_str(yes ? "true" : "false"));
}

/* Raft's has its version here: in `info` it would be a metric. */
static void
section_json(struct rd *in, struct span name, struct buf *out)
{
	struct span of;

	json_quote(name, out);
	buf_puts(out, ":{");
	for (uint32_t values = mpr_map(in); values > 0 && in->err == TV_OK; values--) {
		struct span key = mpr_bytes(in, INFO_NAME_BYTES_MAX);
		struct span text = mpr_bytes(in, SCHEMA_TEXT_BYTES_MAX);

		if (histogram_named(key, &of))
			continue;
		if (out->data[out->len - 1] != '{')
			buf_u8(out, ',');
		json_quote(key, out);
		buf_u8(out, ':');
		json_quote(text, out);
	}
	if (span_eqs(name, "raft"))
		put(out, "protocol_version", span_str("3"));
	buf_u8(out, '}');
}

/* -- what Consul's agents tell besides -- */

struct counts {
	unsigned services, checks, ttls, monitors;
};

static void
count_service(void *ctx, const struct local_record *rec)
{
	(void)rec;
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

static void
agent_json(const struct api *api, struct buf *out)
{
	struct counts c = { .services = 0 };

	registry_each(api->registry, ENTRY_SERVICE, count_service, &c);
	registry_each(api->registry, ENTRY_CHECK, count_check, &c);
	buf_puts(out, "\"agent\":{");
	put_number(out, "check_monitors", c.monitors);
	put_number(out, "check_ttls", c.ttls);
	put_number(out, "checks", c.checks);
	put_number(out, "services", c.services);
	buf_puts(out, "},\"build\":{");
	put(out, "prerelease", SPAN_NONE);
	put(out, "revision", span_str(TV_VERSION));
	put(out, "version", span_str(API_VERSION));
	put(out, "version_metadata", span_str("triumvir." TV_VERSION));
	buf_u8(out, '}');
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

/* Of a server; a client says how many it knows. */
static void
consul_json(const struct api *api, struct span sections, struct buf *out)
{
	struct span dcs[DATACENTERS_MAX];

	buf_puts(out, "\"consul\":{");
	put(out, "acl", span_str(api->acl != NULL && acl_holds(api->acl) ? "enabled" : "disabled"));
	if (api->cluster->server) {
		put_bool(out, "bootstrap", span_eqs(told(sections, "raftd", "bootstrap"), "true"));
		put_number(out, "known_datacenters", members_datacenters(api->members, dcs, DATACENTERS_MAX));
		put_bool(out, "leader", span_eqs(told(sections, "raft", "state"), "Leader"));
		put(out, "leader_addr", told(sections, "raft", "leader"));
	} else {
		put_number(out, "known_servers", alive_servers(api->members));
	}
	put_bool(out, "server", api->cluster->server);
	buf_u8(out, '}');
}

static void
runtime_json(struct buf *out)
{
	cpu_set_t set;
	unsigned count = sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;

	buf_puts(out, "\"runtime\":{");
	put(out, "arch", span_str(ARCH));
	put_number(out, "cpu_count", count);
	put_number(out, "max_procs", 1);		/* this daemon has one loop */
	put(out, "os", span_str("linux"));
	put(out, "version", span_str("C " __VERSION__));
	buf_u8(out, '}');
}

void
agent_stats_json(const struct api *api, struct span sections, struct buf *out)
{
	struct rd in = rd_span_over(sections);

	buf_u8(out, '{');
	for (uint32_t n = sections.len == 0 ? 0 : mpr_map(&in); n > 0 && in.err == TV_OK; n--) {
		section_json(&in, mpr_bytes(&in, INFO_NAME_BYTES_MAX), out);
		buf_u8(out, ',');
	}
	agent_json(api, out);
	buf_u8(out, ',');
	consul_json(api, sections, out);
	buf_u8(out, ',');
	runtime_json(out);
	buf_u8(out, '}');
}

/* -- DebugConfig -- */

void
agent_map_json(const struct span_map *map, struct buf *out)
{
	buf_u8(out, '{');
	for (uint32_t i = 0; i < map->n; i++) {
		if (i > 0)
			buf_u8(out, ',');
		json_quote(map->kv[i][0], out);
		buf_u8(out, ':');
		json_quote(map->kv[i][1], out);
	}
	buf_u8(out, '}');
}

/* "tcp://10.0.0.1:8301", as Consul shows addresses. */
static void
put_address(struct buf *out, const char *name, const char *ip, uint16_t port)
{
	char text[128];
	bool six = ip != NULL && strchr(ip, ':') != NULL;

	snprintf(text, sizeof(text), "tcp://%s%s%s:%u", six ? "[" : "", ip == NULL ? "" : ip, six ? "]" : "", port);
	put(out, name, span_str(text));
}

void
agent_debug_config_json(const struct api *api, struct arena *a, struct buf *out)
{
	const struct cluster_conf *c = api->cluster;
	struct own_node own;

	buf_u8(out, '{');
	put(out, "Datacenter", span_str(c->datacenter));
	put(out, "NodeName", span_str(c->node_name));
	put(out, "NodeID", span_str(c->node_id));
	put(out, "AdvertiseAddrLAN", span_str(c->advertise == NULL ? "" : c->advertise));
	put(out, "AdvertiseAddrWAN", span_str(c->advertise_wan == NULL ? "" : c->advertise_wan));
	put_address(out, "SerfAdvertiseAddrLAN", c->advertise, c->lan_port);
	put_address(out, "SerfAdvertiseAddrWAN", c->advertise_wan, c->wan_port);
	if (own_node_make(c, a, &own)) {
		buf_puts(out, ",\"TaggedAddresses\":");
		agent_map_json(&own.tagged, out);
	}
	buf_printf(out, ",\"ServerMode\":%s,\"ServerPort\":%" PRIu16 ",\"SerfPortLAN\":%" PRIu16
	    ",\"SerfPortWAN\":%" PRIu16 ",\"HTTPPort\":%" PRIu16 ",\"KVMaxValueSize\":%" PRIu64
	    ",\"ACLsEnabled\":%s,\"ACLDefaultPolicy\":\"%s\"}",
	    c->server ? "true" : "false", c->raft_port, c->lan_port, c->wan_port, api->conf->http_port,
	    api->conf->kv_max_value_size, api->acl != NULL && acl_holds(api->acl) ? "true" : "false",
	    c->acl_default == ACL_DEFAULT_ALLOW ? "allow" : "deny");
}
