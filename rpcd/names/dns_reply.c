/* Replies of servers for DNS, see dns_reply.h. */
#include <stdlib.h>
#include <string.h>

#include "common/record/mpack.h"
#include "common/record/records.h"
#include "common/text/duration.h"
#include "rpcd/names/dns_reply.h"
#include "rpcd/wan/translate.h"

#define FOUND_BYTES_MAX (3u << 20)	/* of instances in one answer: MSG_DNS_ASK takes 4 MiB */
#define INSTANCE_OVERHEAD 64
#define NAME_OVERHEAD 5
#define ENTRY_BYTES_MAX (1u << 20)	/* of one instance with its checks, while it is read */

/* -- instances -- */

static void
take_node(struct dns_instance *out, const struct node *n, bool translate)
{
	struct translated t = translate_node(n->Address, &n->TaggedAddresses, translate);

	out->node = n->Node;
	out->address = t.plain;
	out->lan4 = t.v4;
	out->lan6 = t.v6;
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
take_instance(struct dns_instance *out, const struct health_entry *e, bool translate)
{
	const struct service *s = &e->Service;
	struct translated t = translate_service(s->Address, s->Port, &s->TaggedAddresses, translate);

	take_node(out, &e->Node, translate);
	out->service_address = t.plain;
	out->service_lan4 = t.v4;
	out->service_lan6 = t.v6;
	out->port = t.port > 65535 ? 0 : t.port;
	out->state = state_of(e);
	out->weight = weight_of(&e->Service.Weights, (enum dns_state)out->state);
}

static size_t
size_of(const struct dns_instance *i)
{
	size_t n = INSTANCE_OVERHEAD + i->node.len + i->address.len + i->lan4.len + i->lan6.len +
	    i->service_address.len + i->service_lan4.len + i->service_lan6.len;

	for (uint32_t k = 0; k < i->meta.n; k++)
		n += i->meta.kv[k][0].len + i->meta.kv[k][1].len + 10;
	return n;
}

/* As many as an answer of the channel holds.  Spans borrow the reply. */
static enum tv_err
read_entries(struct rd *in, bool translate, struct arena *a, struct msg_dns_found *found)
{
	uint32_t n = mpr_nil(in) ? 0 : mpr_array(in), kept = 0;
	struct dns_instance *v = arena_array(a, n, sizeof(*v));
	struct arena one = ARENA_INIT(ENTRY_BYTES_MAX);
	size_t bytes = 0;
	enum tv_err err = v == NULL ? TV_ENOMEM : in->err;

	for (uint32_t i = 0; i < n && err == TV_OK && bytes < FOUND_BYTES_MAX; i++) {
		struct health_entry e = { 0 };

		arena_reset(&one);
		if ((err = schema_unpack(&health_entry_schema, in, &one, &e)) != TV_OK)
			break;
		take_instance(&v[kept], &e, translate);
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

/* Older servers list all of them. */
static enum tv_err
read_node(struct rd *in, struct span name, bool translate, struct arena *a, struct msg_dns_found *found)
{
	uint32_t n = mpr_nil(in) ? 0 : mpr_array(in);
	struct dns_instance *v = arena_array(a, 1, sizeof(*v));
	struct arena one = ARENA_INIT(ENTRY_BYTES_MAX);
	enum tv_err err = v == NULL ? TV_ENOMEM : in->err;

	for (uint32_t i = 0; i < n && err == TV_OK && found->instances.n == 0; i++) {
		struct node node = { .ID = SPAN_NONE };

		arena_reset(&one);
		if ((err = schema_unpack(&node_schema, in, &one, &node)) != TV_OK || !span_eq_nocase(node.Node, name))
			continue;
		take_node(v, &node, translate);
		struct span (*kv)[2] = arena_array(a, v->meta.n, sizeof(*kv));
		if (kv == NULL) {
			err = TV_ENOMEM;
			continue;
		}
		if (v->meta.n > 0)
			memcpy(kv, v->meta.kv, v->meta.n * sizeof(*kv));
		v->meta.kv = kv;
		found->instances = (struct obj_list){ v, 1, true };
	}
	arena_done(&one);
	return err;
}

static enum tv_err
read_owner(struct rd *in, struct arena *a, struct msg_dns_found *found)
{
	struct address_owner got = { 0 };
	struct dns_instance *v = arena_array(a, 1, sizeof(*v));

	if (v == NULL || mpr_array(in) == 0 || schema_unpack(&address_owner_schema, in, a, &got) != TV_OK)
		return v == NULL ? TV_ENOMEM : in->err;
	v->node = got.Node;
	found->service = got.Service;
	found->instances = (struct obj_list){ v, 1, true };
	return TV_OK;
}

static enum tv_err
read_query(struct rd *in, struct span local, struct arena *a, struct msg_dns_found *found)
{
	struct prepared_query q = { .ID = SPAN_NONE };
	uint32_t fields = mpr_array(in);
	int64_t ns;

	if (fields < 3)
		return TV_EFORMAT;
	/* Whose they are is said behind them. */
	struct rd behind = *in;
	mpr_skip(&behind);
	struct span dc = mpr_bytes(&behind, OP_NAME_BYTES_MAX);
	enum tv_err err = behind.err;
	if (err == TV_OK)
		err = read_entries(in, translate_applies(local, dc.len > 0 ? dc : found->datacenter), a, found);
	if (err == TV_OK)
		(void)mpr_bytes(in, OP_NAME_BYTES_MAX);
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

/* -- lists -- */

struct names {
	struct arena *arena;
	struct span *v;
	uint32_t n, room;
	size_t bytes;			/* of all that were added, also more than once */
	enum tv_err err;
};

static void
add_name(struct names *l, struct span name)
{
	uint8_t *copy;

	if (l->n == l->room) {
		uint32_t room = l->room == 0 ? 64 : l->room * 2;
		struct span *v = arena_array(l->arena, room, sizeof(*v));

		if (v == NULL) {
			l->err = TV_ENOMEM;
			return;
		}
		if (l->n > 0)
			memcpy(v, l->v, l->n * sizeof(*v));
		l->v = v;
		l->room = room;
	}
	l->bytes += name.len + NAME_OVERHEAD;
	if (l->bytes > FOUND_BYTES_MAX || (copy = arena_alloc(l->arena, name.len)) == NULL) {
		l->err = TV_ELIMIT;
		return;
	}
	for (size_t i = 0; i < name.len; i++)
		copy[i] = ascii_lower(name.p[i]);
	l->v[l->n++] = span_of(copy, name.len);
}

static int
by_text(const void *a, const void *b)
{
	return span_cmp(*(const struct span *)a, *(const struct span *)b);
}

/* Each once, in order: equal lists have equal bytes. */
static void
sort_names(struct names *l)
{
	uint32_t kept = 0;

	if (l->n > 0)
		qsort(l->v, l->n, sizeof(*l->v), by_text);
	for (uint32_t i = 0; i < l->n; i++)
		if (kept == 0 || !span_eq(l->v[i], l->v[kept - 1]))
			l->v[kept++] = l->v[i];
	l->n = kept;
}

static enum tv_err
read_names(enum dns_kind kind, struct rd *in, struct arena *a, struct msg_dns_found *found)
{
	uint32_t n = mpr_nil(in) ? 0 : mpr_array(in);
	struct names l = { .arena = a, .err = in->err };
	struct arena one = ARENA_INIT(ENTRY_BYTES_MAX);

	for (uint32_t i = 0; i < n && l.err == TV_OK; i++) {
		struct node node = { .ID = SPAN_NONE };
		struct service_tags service = { .Name = SPAN_NONE };
		struct health_entry entry = { .Checks.n = 0 };

		arena_reset(&one);
		if (kind == DNS_KIND_NODES) {
			if ((l.err = schema_unpack(&node_schema, in, &one, &node)) == TV_OK)
				add_name(&l, node.Node);
		} else if (kind == DNS_KIND_SERVICES) {
			if ((l.err = schema_unpack(&service_tags_schema, in, &one, &service)) == TV_OK)
				add_name(&l, service.Name);
		} else if ((l.err = schema_unpack(&health_entry_schema, in, &one, &entry)) == TV_OK) {
			for (uint32_t k = 0; k < entry.Service.Tags.n; k++)
				add_name(&l, entry.Service.Tags.v[k]);
		}
	}
	arena_done(&one);
	sort_names(&l);
	found->names = (struct span_list){ l.v, l.n, true };
	return l.err;
}

/* -- the whole -- */

uint16_t
dns_reply_op(enum dns_kind kind)
{
	switch (kind) {
	case DNS_KIND_NODE:
	case DNS_KIND_NODES:
		return OP_CATALOG_NODES;
	case DNS_KIND_SERVICE:
	case DNS_KIND_TAGS:
		return OP_HEALTH_SERVICE;
	case DNS_KIND_SERVICES:
		return OP_CATALOG_SERVICES;
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
is_list(enum dns_kind kind)
{
	return kind == DNS_KIND_NODES || kind == DNS_KIND_SERVICES || kind == DNS_KIND_TAGS;
}

void
dns_reply_read(enum dns_kind kind, struct span name, struct span datacenter, struct span local,
    const struct op_reply *reply, struct arena *a, struct msg_dns_found *out)
{
	bool translate = translate_applies(local, datacenter);
	struct rd in = rd_span_over(reply->value);
	enum tv_err err = reply->err;

	*out = (struct msg_dns_found){ .status = DNS_FOUND, .datacenter = datacenter };
	if (err == TV_OK)
		err = kind == DNS_KIND_NODE ? read_node(&in, name, translate, a, out) :
		    kind == DNS_KIND_ADDRESS ? read_owner(&in, a, out) :
		    kind == DNS_KIND_QUERY ? read_query(&in, local, a, out) :
		    is_list(kind) ? read_names(kind, &in, a, out) : read_entries(&in, translate, a, out);
	/* TV_EUNREACH: no such datacenter, or no server in it.  TV_ENOENT: no such query. */
	if (err != TV_OK)
		*out = (struct msg_dns_found){
			.status = err == TV_EUNREACH || err == TV_ENOENT ? DNS_NOWHERE : DNS_FAILED };
	else if (out->instances.n == 0 && !is_list(kind))
		out->status = DNS_NOWHERE;
}

unsigned
dns_reply_leave_out(struct msg_dns_found *found, dns_is_dead *is_dead, void *ctx)
{
	struct dns_instance *v = found->instances.v;
	uint32_t kept = 0, n = found->instances.n;

	for (uint32_t i = 0; i < n; i++)
		if (!is_dead(ctx, v[i].node))
			v[kept++] = v[i];
	found->instances.n = kept;
	return n - kept;
}
