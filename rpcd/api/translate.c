/*
 * translate_wan_addrs in answers: what is of another datacenter is shown with the addresses that it is reached by from
 * here (rpcd/wan/translate.h).  As in Consul: catalog, instances with their checks, and prepared queries, by where they
 * were carried out in the end; filters see what was registered.
 */
#include "common/record/records.h"
#include "rpcd/api/api.h"
#include "rpcd/wan/translate.h"

static void
change_node(struct node *n)
{
	struct translated t = translate_node(n->Address, &n->TaggedAddresses, true);

	n->Address = translate_any(&t);
}

static void
change_service(struct service *s)
{
	struct translated t = translate_service(s->Address, s->Port, &s->TaggedAddresses, true);

	s->Address = translate_any(&t);
	s->Port = t.port;
}

static void
on_node(void *rec)
{
	change_node(rec);
}

static void
on_instance(void *rec)
{
	struct service_instance *i = rec;
	struct translated node = translate_node(i->Address, &i->TaggedAddresses, true);
	struct translated service = translate_service(i->ServiceAddress, i->ServicePort, &i->ServiceTaggedAddresses,
	    true);

	i->Address = translate_any(&node);
	i->ServiceAddress = translate_any(&service);
	i->ServicePort = service.port;
}

static void
on_entry(void *rec)
{
	struct health_entry *e = rec;

	change_node(&e->Node);
	change_service(&e->Service);
}

static void
on_node_services(void *rec)
{
	struct node_services *s = rec;
	struct service *v = s->Services.v;

	if (s->found)
		change_node(&s->Node);
	for (uint32_t i = 0; i < s->Services.n; i++)
		change_service(&v[i]);
}

/* Records with addresses that are translated; those of /v1/internal/ui are not. */
static const struct kind {
	const struct schema *schema;
	void (*change)(void *rec);
} kinds[] = {
	{ &node_schema, on_node },
	{ &service_instance_schema, on_instance },
	{ &health_entry_schema, on_entry },
	{ &prepared_node_schema, on_entry },
	{ &node_services_schema, on_node_services },
	{ &node_service_map_schema, on_node_services },
};

static const struct kind *
kind_of(const struct schema *s)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].schema == s)
			return &kinds[i];
	return NULL;
}

bool
api_translates(const struct request *r, const struct schema *s, struct span dc)
{
	return r->api->conf->translate_wan_addrs && translate_applies(span_str(r->api->cluster->datacenter), dc) &&
	    kind_of(s) != NULL;
}

enum tv_err
api_record_json(const struct schema *s, bool translate, struct rd *in, struct buf *out)
{
	struct arena a = ARENA_INIT(REQUEST_ARENA_MAX);
	void *rec;

	if (!translate)
		return schema_json(s, in, out);
	rec = arena_alloc(&a, s->size);
	if (rec == NULL) {
		rd_fail(in, TV_ENOMEM);
	} else if (schema_unpack(s, in, &a, rec) == TV_OK) {
		kind_of(s)->change(rec);
		schema_json_rec(s, rec, out);
	}
	arena_done(&a);
	return in->err;
}
