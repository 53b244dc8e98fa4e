/* What rpcd says, see message.h. */
#include <stdlib.h>
#include <string.h>

#include "rpcd/dns/message.h"

/* "web*=10" */
static bool
take_ttls(const struct span_list *list, struct arena *a, struct dns_zone *z)
{
	struct dns_service_ttl *v = arena_array(a, list->n, sizeof(*v));

	if (v == NULL)
		return false;
	for (uint32_t i = 0; i < list->n; i++) {
		struct span t = list->v[i];
		const uint8_t *equals = t.len == 0 ? NULL : memrchr(t.p, '=', t.len);

		if (equals == NULL)
			return false;
		size_t name = (size_t)(equals - t.p);
		bool prefix = name > 0 && t.p[name - 1] == '*';
		const char *seconds = arena_cstr(a, span_of(equals + 1, t.len - name - 1));
		if (seconds == NULL)
			return false;
		v[i] = (struct dns_service_ttl){ span_of(t.p, name - prefix), prefix,
		    (uint32_t)strtoul(seconds, NULL, 10) };
	}
	z->service_ttls = v;
	z->service_ttl_count = list->n;
	return true;
}

enum tv_err
dns_zone_of_setup(const struct msg_dns_setup *m, struct arena *a, struct dns_zone *z)
{
	*z = (struct dns_zone){
		.datacenter = m->datacenter, .node_ttl = (uint32_t)m->node_ttl,
		.soa_refresh = (uint32_t)m->soa_refresh, .soa_retry = (uint32_t)m->soa_retry,
		.soa_expire = (uint32_t)m->soa_expire, .soa_min_ttl = (uint32_t)m->soa_min_ttl,
		.udp_answer_limit = m->udp_answer_limit < DNS_ANSWERS_MAX_UDP ? (unsigned)m->udp_answer_limit :
		    DNS_ANSWERS_MAX_UDP,
		.a_record_limit = m->a_record_limit < UINT32_MAX ? (unsigned)m->a_record_limit : UINT32_MAX,
		.truncate = m->truncate, .only_passing = m->only_passing, .compress = m->compress,
		.node_meta = m->node_meta,
	};
	if (dname_of_text(m->domain, &z->domain) != TV_OK ||
	    (m->alt_domain.len > 0 && dname_of_text(m->alt_domain, &z->alt_domain) != TV_OK) ||
	    !take_ttls(&m->service_ttl, a, z))
		return TV_EFORMAT;
	dname_lower(&z->domain);
	dname_lower(&z->alt_domain);
	return TV_OK;
}

bool
dns_found_read(struct span body, struct arena *a, struct dns_found *out)
{
	struct msg_dns_found m = { 0 };
	struct rd in = rd_span_over(body);
	enum tv_err err = schema_unpack(&msg_dns_found_schema, &in, a, &m);

	*out = err == TV_OK ? dns_found_of(&m) : (struct dns_found){ .status = DNS_FAILED };
	return err == TV_OK;
}
