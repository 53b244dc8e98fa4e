/* See translate.h.  Source: Consul's agent; a tag that is there counts, though its address be empty. */
#include "common/record/records.h"
#include "rpcd/wan/translate.h"

bool
translate_applies(struct span local, struct span datacenter)
{
	return local.len > 0 && datacenter.len > 0 && !span_eq_nocase(local, datacenter);
}

/* False: there is no such tag, and out is as before. */
static bool
node_tagged(const struct span_map *m, const char *name, struct span *out)
{
	for (uint32_t i = 0; i < m->n; i++) {
		if (span_eqs(m->kv[i][0], name)) {
			*out = m->kv[i][1];
			return true;
		}
	}
	return false;
}

/* NULL: there is no such tag. */
static const struct service_address *
service_tagged(const struct obj_list *l, const char *name)
{
	const struct service_address *v = l->v;

	for (uint32_t i = 0; i < l->n; i++)
		if (span_eqs(v[i].Name, name))
			return &v[i];
	return NULL;
}

struct translated
translate_node(struct span address, const struct span_map *tagged, bool applies)
{
	struct translated t = { .plain = address };

	if (applies)
		(void)node_tagged(tagged, "wan", &t.plain);
	if (!applies || !node_tagged(tagged, "wan_ipv4", &t.v4))
		(void)node_tagged(tagged, "lan_ipv4", &t.v4);
	if (!applies || !node_tagged(tagged, "wan_ipv6", &t.v6))
		(void)node_tagged(tagged, "lan_ipv6", &t.v6);
	return t;
}

static struct span
service_family(const struct obj_list *tagged, const char *wan, const char *lan, bool applies)
{
	const struct service_address *a = applies ? service_tagged(tagged, wan) : NULL;

	if (a == NULL)
		a = service_tagged(tagged, lan);
	return a == NULL ? SPAN_NONE : a->Address;
}

struct translated
translate_service(struct span address, uint64_t port, const struct obj_list *tagged, bool applies)
{
	const struct service_address *wan = applies ? service_tagged(tagged, "wan") : NULL;

	return (struct translated){
		.plain = wan != NULL ? wan->Address : address,
		.v4 = service_family(tagged, "wan_ipv4", "lan_ipv4", applies),
		.v6 = service_family(tagged, "wan_ipv6", "lan_ipv6", applies),
		.port = wan != NULL && wan->Port > 0 ? wan->Port : port,
	};
}

struct span
translate_any(const struct translated *t)
{
	return t->v6.len > 0 ? t->v6 : t->v4.len > 0 ? t->v4 : t->plain;
}
