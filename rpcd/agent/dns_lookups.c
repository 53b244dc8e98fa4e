/* Look-ups for DNS, see dns_lookups.h. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "common/record/mpack.h"
#include "common/record/records.h"
#include "common/text/duration.h"
#include "rpcd/agent/dns_lookups.h"
#include "rpcd/dns/answer.h"

#define ARENA_BYTES_MAX (128u << 20)
#define FOUND_BYTES_MAX (3u << 20)	/* of instances in one answer: MSG_DNS_ASK takes 4 MiB */
#define INSTANCE_OVERHEAD 64
#define ENTRY_BYTES_MAX (1u << 20)	/* of one instance with its checks, while it is read */

struct dns_lookup_call {
	struct dns_lookups *owner;
	struct dns_lookup_call *prev, *next;
	struct route_call *call;
	struct failover *query;		/* one of both */
	uint64_t id;
	enum dns_kind kind;
	char datacenter[];		/* that was asked */
};

struct dns_lookups {
	struct dns_lookups_conf conf;
	dns_lookup_done *done;
	void *ctx;
	struct dns_lookup_call *first;
	unsigned calls;
	const struct dns_lookup_origin *origin;	/* while done runs */
};

static void
call_free(struct dns_lookup_call *c)
{
	*(c->prev == NULL ? &c->owner->first : &c->prev->next) = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	c->owner->calls--;
	free(c);
}

/* -- instances -- */

static struct span
tagged(const struct span_map *m, const char *name)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (span_eqs(m->kv[i][0], name))
			return m->kv[i][1];
	return SPAN_NONE;
}

static struct span
service_tagged(const struct obj_list *l, const char *name)
{
	const struct service_address *v = l->v;

	for (uint32_t i = 0; i < l->n; i++)
		if (span_eqs(v[i].Name, name))
			return v[i].Address;
	return SPAN_NONE;
}

static void
take_node(struct msg_dns_instance *out, const struct node *n)
{
	out->node = n->Node;
	out->address = n->Address;
	out->lan4 = tagged(&n->TaggedAddresses, "lan_ipv4");
	out->lan6 = tagged(&n->TaggedAddresses, "lan_ipv6");
	out->meta = n->Meta;
}

/* The worst one; what is none of the three known ones counts as unknown, unless something is critical. */
static enum dns_state
state_of(const struct health_entry *e)
{
	const struct check *v = e->Checks.v;
	enum dns_state worst = DNS_PASSING;

	for (uint32_t i = 0; i < e->Checks.n; i++) {
		if (span_eqs(v[i].Status, "critical"))
			return DNS_CRITICAL;
		if (span_eqs(v[i].Status, "warning"))
			worst = worst == DNS_PASSING ? DNS_WARNING : worst;
		else if (!span_eqs(v[i].Status, "passing"))
			worst = DNS_OTHER_STATE;
	}
	return worst;
}

static uint64_t
weight_of(const struct weights *w, enum dns_state state)
{
	if (w->Passing < 1 || w->Passing > 65535 || w->Warning < 0 || w->Warning > 65535)
		return 1;
	return state == DNS_PASSING ? (uint64_t)w->Passing : state == DNS_WARNING ? (uint64_t)w->Warning : 1;
}

static void
take_instance(struct msg_dns_instance *out, const struct health_entry *e)
{
	take_node(out, &e->Node);
	out->service_address = e->Service.Address;
	out->service_lan4 = service_tagged(&e->Service.TaggedAddresses, "lan_ipv4");
	out->service_lan6 = service_tagged(&e->Service.TaggedAddresses, "lan_ipv6");
	out->port = e->Service.Port < 65536 ? e->Service.Port : 0;
	out->state = state_of(e);
	out->weight = weight_of(&e->Service.Weights, (enum dns_state)out->state);
}

static size_t
size_of(const struct msg_dns_instance *i)
{
	size_t n = INSTANCE_OVERHEAD + i->node.len + i->address.len + i->lan4.len + i->lan6.len +
	    i->service_address.len + i->service_lan4.len + i->service_lan6.len;

	for (uint32_t k = 0; k < i->meta.n; k++)
		n += i->meta.kv[k][0].len + i->meta.kv[k][1].len + 10;
	return n;
}

/* As many as an answer of the channel holds.  Spans borrow the reply. */
static enum tv_err
read_entries(struct rd *in, struct arena *a, struct msg_dns_found *found)
{
	uint32_t n = mpr_nil(in) ? 0 : mpr_array(in), kept = 0;
	struct msg_dns_instance *v = arena_array(a, n, sizeof(*v));
	struct arena one = ARENA_INIT(ENTRY_BYTES_MAX);
	size_t bytes = 0;
	enum tv_err err = v == NULL ? TV_ENOMEM : in->err;

	for (uint32_t i = 0; i < n && err == TV_OK && bytes < FOUND_BYTES_MAX; i++) {
		struct health_entry e = { 0 };

		arena_reset(&one);
		if ((err = schema_unpack(&health_entry_schema, in, &one, &e)) != TV_OK)
			break;
		take_instance(&v[kept], &e);
		struct span (*kv)[2] = arena_array(a, v[kept].meta.n, sizeof(*kv));
		if (kv == NULL) {
			err = TV_ENOMEM;
			break;
		}
		if (v[kept].meta.n > 0)
			memcpy(kv, v[kept].meta.kv, v[kept].meta.n * sizeof(*kv));
		v[kept].meta.kv = kv;
		bytes += size_of(&v[kept++]);
	}
	arena_done(&one);
	found->instances = (struct obj_list){ v, kept, true };
	return err;
}

static enum tv_err
read_node(struct rd *in, struct arena *a, struct msg_dns_found *found)
{
	struct node_services got = { 0 };
	struct msg_dns_instance *v = arena_array(a, 1, sizeof(*v));
	enum tv_err err = v == NULL ? TV_ENOMEM : schema_unpack(&node_services_schema, in, a, &got);

	if (err == TV_OK && got.found) {
		take_node(v, &got.Node);
		found->instances = (struct obj_list){ v, 1, true };
	}
	return err;
}

static enum tv_err
read_owner(struct rd *in, struct arena *a, struct msg_dns_found *found)
{
	struct address_owner got = { 0 };
	struct msg_dns_instance *v = arena_array(a, 1, sizeof(*v));

	if (v == NULL || mpr_array(in) == 0 || schema_unpack(&address_owner_schema, in, a, &got) != TV_OK)
		return v == NULL ? TV_ENOMEM : in->err;
	v->node = got.Node;
	found->service = got.Service;
	found->instances = (struct obj_list){ v, 1, true };
	return TV_OK;
}

static enum tv_err
read_query(struct rd *in, struct arena *a, struct msg_dns_found *found)
{
	struct prepared_query q = { .ID = SPAN_NONE };
	uint32_t fields = mpr_array(in);
	int64_t ns;

	if (fields < 3)
		return TV_EFORMAT;
	enum tv_err err = read_entries(in, a, found);
	struct span dc = err == TV_OK ? mpr_bytes(in, OP_NAME_BYTES_MAX) : SPAN_NONE;
	if (err == TV_OK)
		err = in->err;
	if (err == TV_OK)
		err = schema_unpack(&prepared_query_schema, in, a, &q);
	if (dc.len > 0)
		found->datacenter = dc;
	found->ordered = true;		/* chosen, shuffled and sorted by who carried it out */
	found->service = q.Service.Service;
	found->has_ttl = err == TV_OK && q.DNS.TTL.len > 0 && duration_parse(q.DNS.TTL, &ns) == TV_OK && ns >= 0;
	found->ttl = found->has_ttl ? (uint64_t)(ns / 1000000000) : 0;
	return err;
}

static void
take_reply(struct dns_lookup_call *c, const struct op_reply *reply)
{
	struct dns_lookups *l = c->owner;
	struct arena a = ARENA_INIT(ARENA_BYTES_MAX);
	struct msg_dns_found found = { .status = DNS_FOUND, .datacenter = span_str(c->datacenter) };
	struct rd in = rd_span_over(reply->value);
	enum tv_err err = reply->err;

	if (err == TV_OK)
		err = c->kind == DNS_KIND_NODE ? read_node(&in, &a, &found) :
		    c->kind == DNS_KIND_ADDRESS ? read_owner(&in, &a, &found) :
		    c->kind == DNS_KIND_QUERY ? read_query(&in, &a, &found) : read_entries(&in, &a, &found);
	/* TV_EUNREACH: no such datacenter, or nobody in it.  TV_ENOENT: no such query. */
	if (err != TV_OK)
		found = (struct msg_dns_found){
			.status = err == TV_EUNREACH || err == TV_ENOENT ? DNS_NOWHERE : DNS_FAILED };
	else if (found.instances.n == 0)
		found.status = DNS_NOWHERE;
	l->origin = &(struct dns_lookup_origin){ .reply = reply, .stale = l->conf.conf->dns_allow_stale,
	    .last_contact_ms = l->conf.conf->dns_allow_stale ? reply->last_contact_ms : 0 };
	l->done(l->ctx, c->id, &found);
	l->origin = NULL;
	arena_done(&a);
	call_free(c);
}

static void
on_reply(void *ctx, const struct op_reply *reply)
{
	take_reply(ctx, reply);
}

static void
on_query(void *ctx, const struct op_reply *reply, unsigned tries)
{
	(void)tries;
	take_reply(ctx, reply);
}

/* -- questions -- */

static uint16_t
op_of(enum dns_kind kind)
{
	switch (kind) {
	case DNS_KIND_NODE:
		return OP_CATALOG_NODE;
	case DNS_KIND_SERVICE:
		return OP_HEALTH_SERVICE;
	case DNS_KIND_CONNECT:
		return OP_HEALTH_CONNECT;
	case DNS_KIND_ADDRESS:
		return OP_CATALOG_ADDRESS;
	case DNS_KIND_QUERY:
		return OP_QUERY_EXECUTE;
	default:
		return 0;
	}
}

static bool
start_read(struct dns_lookup_call *c, uint16_t op, const struct msg_dns_ask *ask)
{
	const struct rpcd_conf *conf = c->owner->conf.conf;
	char address[INET6_ADDRSTRLEN] = "";
	struct span tag = ask->tag;
	struct catalog_read read = { .Name = ask->name, .Tags = { &tag, ask->tagged, ask->tagged } };
	struct buf args = BUF_INIT(65536);

	if (c->kind == DNS_KIND_ADDRESS) {
		(void)inet_ntop(ask->name.len == 4 ? AF_INET : AF_INET6, ask->name.p, address, sizeof(address));
		read.Name = span_str(address);
	}
	if (c->kind == DNS_KIND_QUERY)
		schema_pack(&prepared_ask_schema, &(struct prepared_ask){ .Name = ask->name, .Address = ask->source,
		    .Agent = ask->datacenter.len > 0 ? SPAN_NONE : span_str(c->owner->conf.node_name) }, &args);
	else
		schema_pack(&catalog_read_schema, &read, &args);
	const struct op_request q = {
		.op = op, .dc = ask->datacenter, .mode = conf->dns_allow_stale ? OP_STALE : OP_DEFAULT,
		.max_stale_ms = conf->dns_allow_stale ? (uint64_t)mono_ms(conf->dns_max_stale) : 0,
		.args = buf_span(&args),
	};
	if (c->kind == DNS_KIND_QUERY && !args.failed)
		c->query = failover_start(c->owner->conf.failovers, &q, on_query, c);
	else if (!args.failed)
		c->call = route_start(c->owner->conf.route, &q, on_reply, c);
	buf_done(&args);
	return c->call != NULL || c->query != NULL;
}

bool
dns_lookups_start(struct dns_lookups *l, uint64_t id, const struct msg_dns_ask *ask)
{
	uint16_t op = op_of((enum dns_kind)ask->kind);
	struct span dc = ask->datacenter.len > 0 ? ask->datacenter : span_str(l->conf.datacenter);

	if (ask->kind == DNS_KIND_ADDRESS && ask->name.len != 4 && ask->name.len != 16)
		return false;
	if (op == 0) {			/* nothing is registered of that kind */
		l->done(l->ctx, id, &(struct msg_dns_found){ .status = DNS_NOWHERE });
		return true;
	}
	struct dns_lookup_call *c = l->calls < l->conf.calls_max ? calloc(1, sizeof(*c) + dc.len + 1) : NULL;
	if (c == NULL)
		return false;
	c->owner = l;
	c->id = id;
	c->kind = (enum dns_kind)ask->kind;
	memcpy(c->datacenter, dc.p, dc.len);
	c->next = l->first;
	if (l->first != NULL)
		l->first->prev = c;
	l->first = c;
	l->calls++;
	if (start_read(c, op, ask))
		return true;
	call_free(c);
	return false;
}

const struct dns_lookup_origin *
dns_lookups_origin(const struct dns_lookups *l)
{
	return l->origin;
}

void
dns_lookups_cancel(struct dns_lookups *l)
{
	while (l->first != NULL) {
		if (l->first->call != NULL)
			route_cancel(l->first->call);
		else
			failover_cancel(l->first->query);
		call_free(l->first);
	}
}

struct dns_lookups *
dns_lookups_new(const struct dns_lookups_conf *conf, dns_lookup_done *done, void *ctx)
{
	struct dns_lookups *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->conf = *conf;
	l->done = done;
	l->ctx = ctx;
	return l;
}

void
dns_lookups_free(struct dns_lookups *l)
{
	if (l == NULL)
		return;
	dns_lookups_cancel(l);
	free(l);
}
