/*
 * Namespaces, partitions, peers and sameness groups: there are none here.  A request that names one is refused, in its
 * query, its headers and its body alike, or else tenants would read and overwrite each other's data.  Nothing, and
 * "default", where there is one, are what this version serves.
 */
#include <stdio.h>
#include <strings.h>

#include "rpcd/api/api.h"

#define DEPTH_MAX 8			/* of records in a body: a service, its checks ... */

struct tenancy {
	const char *param, *header;	/* NULL: none */
	const char *fields[4];		/* of bodies; in any case, as all fields */
	bool has_default;
	const char *sentence;
};

static const struct tenancy tenancies[] = {
	{ "ns", "X-Consul-Namespace", { "Namespace", "DestinationNamespace" }, true,
	    "Namespaces are a Consul Enterprise feature" },
	{ "partition", "X-Consul-Partition", { "Partition", "DestinationPartition" }, true,
	    "Partitions are a Consul Enterprise feature" },
	{ "peer", NULL, { "Peer", "PeerName", "DestinationPeer" }, false,
	    "Cluster peering is missing in this version" },
	{ "sg", NULL, { "SamenessGroup" }, false, "Sameness Groups are a Consul Enterprise feature" },
};
#define TENANCIES (sizeof(tenancies) / sizeof(tenancies[0]))

static bool
is_served(const struct tenancy *t, struct span value)
{
	return value.len == 0 || (t->has_default && span_eq_nocase(value, span_str("default")));
}

/* Each parameter of that name: a reader of the request may take the first one or the last. */
static bool
query_is_served(const struct request *r, const struct tenancy *t)
{
	for (uint32_t i = 0; i < r->query.n; i++)
		if (span_eqs(r->query.v[i].name, t->param) && !is_served(t, r->query.v[i].value))
			return false;
	return true;
}

bool
api_tenancy(struct request *r)
{
	for (size_t i = 0; i < TENANCIES; i++) {
		const struct tenancy *t = &tenancies[i];
		const char *header = i == 0 ? r->head.tenant_namespace : i == 1 ? r->head.tenant_partition : NULL;

		if (header != NULL && !is_served(t, span_str(header))) {
			answer_text(r, 400, "Invalid header: \"%s\" - %s", t->header, t->sentence);
			return false;
		}
		if (!query_is_served(r, t)) {
			answer_text(r, 400, "Invalid query parameter: \"%s\" - %s", t->param, t->sentence);
			return false;
		}
	}
	return true;
}

/* -- bodies ---------------------------------------------------------------------- */

/* Fields that hold records, which may name a tenant; what clients fill as they like (metadata, settings) does not. */
static bool
holds_records(const char *key)
{
	static const char *const keys[] = { "Service", "Check", "Checks", "Node", "Services", "Connect",
		"SidecarService", "sidecar_service", "Proxy", "Upstreams", "ServiceChecks", "service_checks", "KV",
		"Session", "Failover", "Targets" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcasecmp(key, keys[i]) == 0)
			return true;
	return false;
}

/* Is it this field, in CamelCase or snake_case? */
static bool
is_field(const char *key, const char *field)
{
	for (; *key != '\0' && *field != '\0'; key++) {
		if (*key == '_')
			continue;
		if (strncasecmp(key, field, 1) != 0)
			return false;
		field++;
	}
	return *key == '\0' && *field == '\0';
}

const char *
api_tenancy_field(const char *key)
{
	for (size_t i = 0; i < TENANCIES; i++)
		for (size_t f = 0; f < sizeof(tenancies[i].fields) / sizeof(tenancies[i].fields[0]); f++)
			if (tenancies[i].fields[f] != NULL && is_field(key, tenancies[i].fields[f]))
				return tenancies[i].sentence;
	return NULL;
}

static bool
value_is_served(const char *key, const json_t *value)
{
	struct span text = span_of(json_string_value(value), json_string_length(value));

	if (json_is_null(value))
		return true;
	for (size_t i = 0; i < TENANCIES; i++)
		if (api_tenancy_field(key) == tenancies[i].sentence)
			return json_is_string(value) && is_served(&tenancies[i], text);
	return true;
}

/* The first field in it that names a tenant; NULL: none. */
static const char *
foreign_field(json_t *v, unsigned depth)
{
	const char *key, *found = NULL;
	json_t *value;
	size_t i;

	if (depth > DEPTH_MAX)
		return NULL;
	json_array_foreach(v, i, value)
		if (found == NULL)
			found = foreign_field(value, depth + 1);
	json_object_foreach(v, key, value) {
		if (found == NULL && !value_is_served(key, value))
			found = key;
		else if (found == NULL && holds_records(key))
			found = foreign_field(value, depth + 1);
	}
	return found;
}

bool
api_tenancy_body(json_t *v, char *why, size_t cap)
{
	const char *field = foreign_field(v, 0);

	if (field != NULL)
		snprintf(why, cap, "json: unknown field \"%s\" - %s", field, api_tenancy_field(field));
	return field == NULL;
}
