/*
 * Paths that Consul serves and this version does not: their 404 says so.  The body of a 404 is empty for a path that
 * neither serves.  The commit that makes one of them an endpoint takes its line away (check_api).
 */
#include "rpcd/api/api.h"

/* "/v1/connect/": all below it. */
static const char *const paths[] = {
	"/v1/acl/templated-policies", "/v1/acl/templated-policy/",
	"/v1/agent/connect/", "/v1/agent/metrics/stream",
	"/v1/catalog/gateway-services/",
	"/v1/connect/", "/v1/discovery-chain/", "/v1/exported-services",
	"/v1/health/ingress/", "/v1/imported-services", "/v1/internal/ui/gateway-intentions/",
	"/v1/internal/ui/gateway-services-nodes/", "/v1/internal/ui/metrics-proxy/",
	"/v1/internal/ui/service-topology/",
	"/v1/operator/usage", "/v1/peering", "/v1/peering/", "/v1/peerings",
};

const char *
not_served_at(unsigned i)
{
	return i < sizeof(paths) / sizeof(paths[0]) ? paths[i] : NULL;
}

bool
is_not_served(struct span path)
{
	const char *p;

	for (unsigned i = 0; (p = not_served_at(i)) != NULL; i++) {
		size_t n = strlen(p);

		if (p[n - 1] == '/' ? span_starts(path, span_str(p)) : span_eqs(path, p))
			return true;
	}
	return false;
}
