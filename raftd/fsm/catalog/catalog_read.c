/* Reads of the catalog.  Source: http-api, sections 1.7 and 5. */
#include "common/record/mpack.h"
#include "raftd/fsm/acl/acl.h"
#include "raftd/fsm/catalog/catalog.h"
#include "raftd/fsm/catalog/sort_near.h"
#include "raftd/fsm/table/meta.h"

uint32_t
catalog_field(const struct schema *s, const char *name)
{
	uint32_t i = 0;

	while (i < s->count && strcmp(s->fields[i].name, name) != 0)
		i++;
	return i;
}

bool
catalog_texts(struct span val, const uint32_t *numbers, struct span *texts, unsigned n)
{
	struct rd in = rd_span_over(val);
	uint32_t count = mpr_array(&in), at = 0;

	for (unsigned k = 0; k < n; k++) {
		for (; at < numbers[k] && at < count; at++)
			mpr_skip(&in);
		texts[k] = at < count ? mpr_bytes_or_nil(&in, SCHEMA_TEXT_BYTES_MAX) : SPAN_NONE;
		at++;
	}
	return in.err == TV_OK;
}

/* May the request read this service, or this check of one?  name: the field with the service's name; empty: of the node itself. */
static bool
may_read_packed(struct reading *r, struct span val, const struct schema *schema, const char *name)
{
	uint32_t number;
	struct span service;

	if (may_read_all(r, ACL_SERVICE))
		return true;
	number = catalog_field(schema, name);
	return catalog_texts(val, &number, &service, 1) && (service.len == 0 || may_read(r, ACL_SERVICE, service));
}

/* May this node be seen?  By its name as it is stored: it was asked for in any spelling. */
static bool
may_read_packed_node(struct reading *r, struct span val)
{
	uint32_t number = catalog_field(&node_schema, "Node");
	struct span name;

	return may_read_all(r, ACL_NODE) || (catalog_texts(val, &number, &name, 1) && may_read_node(r, name));
}

/* The one that is named, if there is one. */
static void
read_one_node(struct reading *r, struct span name)
{
	size_t at = list_begin(r->out);
	struct tkey k;
	struct span val;
	bool found;

	TKEY(&k, TBL_NODE, name);
	found = tbl_peek(r->f, &k, &val) && may_read_packed_node(r, val);
	if (found)
		buf_putspan(r->out, val);
	list_end(r->out, at, found);
	r->ans->index = fsm_index_of(r->f, FX_NODES);
}

static void
catalog_read_nodes(struct reading *r, const void *rec)
{
	const struct catalog_read *q = rec;

	if (q->Name.len > 0) {
		read_one_node(r, q->Name);
		return;
	}
	size_t at = list_begin(r->out);
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct tbl_scan s;
	struct tkey prefix;
	struct span key, val;
	struct sort_near near;
	uint32_t n = 0;

	sort_near_begin(&near, r->f, q);
	tkey_begin(&prefix, TBL_NODE);
	tbl_scan_begin(r->f, &s, &prefix);
	while (!r->out->failed && tbl_next(&s, &key, &val)) {
		struct node node = { 0 };

		if (q->NodeMeta.n > 0 || near.active || !may_read_all(r, ACL_NODE)) {
			arena_reset(&a);
			if (!tbl_decode(r->f, &node_schema, val, &a, &node))
				break;
			if (!meta_matches(&q->NodeMeta, &node.Meta) || !may_read_node(r, node.Node))
				continue;
		}
		sort_near_note(&near, r->out->len, node.Node);
		buf_putspan(r->out, val);
		n++;
	}
	tbl_scan_end(&s);
	arena_done(&a);
	sort_near_end(&near, r->out);
	list_end(r->out, at, n);
	r->ans->index = fsm_index_of(r->f, FX_NODES);
}

/* -- instances of a service, node by node -- */

static void
instances_of(struct fsm *f, struct instances *w, enum tbl table, struct span name)
{
	struct tkey prefix;

	*w = (struct instances){ .f = f, .arena = ARENA_INIT(2 * FSM_RECORD_MEMORY) };
	tkey_begin(&prefix, table);
	if (name.len > 0)
		tkey_name(&prefix, name);
	tbl_scan_begin(f, &w->scan, &prefix);
}

void
instances_begin(struct fsm *f, struct instances *w, struct span service)
{
	instances_of(f, w, TBL_INSTANCE, service);
}

void
instances_begin_connect(struct fsm *f, struct instances *w, struct span service)
{
	instances_of(f, w, TBL_CONNECT, service);
}

/* Takes apart service name, node and id of a key; they live in w. */
static bool
take_names(struct instances *w, struct span key, struct span *node, struct span *id)
{
	struct span name;

	key = span_of(key.p + 1, key.len - 1);
	return tkey_take_name(&key, w->names[0], sizeof(w->names[0]), &name) &&
	    tkey_take_name(&key, w->names[1], sizeof(w->names[1]), node) &&
	    tkey_take_name(&key, w->names[2], sizeof(w->names[2]), id);
}

bool
instances_next(struct instances *w)
{
	struct span key, val, node, id;

	while (tbl_next(&w->scan, &key, &val)) {
		arena_reset(&w->arena);
		if (take_names(w, key, &node, &id) && catalog_node(w->f, node, &w->arena, &w->node) &&
		    catalog_service(w->f, node, id, &w->arena, &w->service))
			return true;
		/* One without its records, as only an archive can have it, is none. */
	}
	return false;
}

void
instances_end(struct instances *w)
{
	tbl_scan_end(&w->scan);
	arena_done(&w->arena);
}

static void
put_instance(struct buf *out, const struct node *n, const struct service *s)
{
	struct service_instance i = {
		.ID = n->ID, .Node = n->Node, .Address = n->Address, .Datacenter = n->Datacenter,
		.TaggedAddresses = n->TaggedAddresses, .NodeMeta = n->Meta,
		.ServiceKind = s->Kind, .ServiceID = s->ID, .ServiceName = s->Service, .ServiceTags = s->Tags,
		.ServiceAddress = s->Address, .ServiceTaggedAddresses = s->TaggedAddresses,
		.ServiceWeights = s->Weights,
		.ServiceMeta = s->Meta, .ServicePort = s->Port, .ServiceSocketPath = s->SocketPath,
		.ServiceEnableTagOverride = s->EnableTagOverride,
		.CreateIndex = s->CreateIndex, .ModifyIndex = s->ModifyIndex,
		.ServiceProxy = s->Proxy, .ServiceConnect = s->Connect,
	};

	schema_pack(&service_instance_schema, &i, out);
}

bool
catalog_may_read_destination(const struct reading *r, const struct service *s)
{
	return may_read(r, ACL_SERVICE, catalog_connect_name(s));
}

/* Of a service; or of what proxies for it, for tokens that may read that too: then tags are not looked at. */
static void
read_instances(struct reading *r, const struct catalog_read *q, bool connect)
{
	size_t at = list_begin(r->out);
	struct instances w;
	struct sort_near near;
	uint32_t n = 0;

	sort_near_begin(&near, r->f, q);
	(connect ? instances_begin_connect : instances_begin)(r->f, &w, q->Name);
	while (q->Name.len > 0 && !r->out->failed && instances_next(&w)) {
		if ((!connect && !tags_match(&q->Tags, &w.service.Tags)) || !meta_matches(&q->NodeMeta, &w.node.Meta) ||
		    !may_read_service(r, w.node.Node, w.service.Service) ||
		    (connect && !catalog_may_read_destination(r, &w.service)))
			continue;
		sort_near_note(&near, r->out->len, w.node.Node);
		put_instance(r->out, &w.node, &w.service);
		n++;
	}
	instances_end(&w);
	sort_near_end(&near, r->out);
	list_end(r->out, at, n);
}

static void
catalog_read_service(struct reading *r, const void *rec)
{
	const struct catalog_read *q = rec;
	bool exists;

	read_instances(r, q, false);
	r->ans->index = catalog_service_index(r->f, q->Name, false, &exists);
}

static void
catalog_read_connect(struct reading *r, const void *rec)
{
	const struct catalog_read *q = rec;

	read_instances(r, q, true);
	r->ans->index = catalog_connect_index(r->f, q->Name);
}

/* -- all services with their tags -- */

/* One name of the answer, while its instances go by. */
struct tag_group {
	struct span name;
	struct span *tags;
	uint32_t n, cap;
};

/* Names that differ only in case are neighbours in the walk, and separate in the answer. */
struct tag_groups {
	struct arena arena;		/* holds all below */
	struct tag_group *v;
	uint32_t n, cap;
	bool failed;
};

static void *
grown(struct tag_groups *g, void *v, uint32_t n, uint32_t *cap, size_t size)
{
	uint32_t more = *cap == 0 ? 4 : *cap * 2;
	void *p;

	if (n < *cap)
		return v;
	p = arena_array(&g->arena, more, size);
	if (p == NULL) {
		g->failed = true;
		return NULL;
	}
	if (n > 0)
		memcpy(p, v, n * size);
	*cap = more;
	return p;
}

static struct span
copied(struct tag_groups *g, struct span s)
{
	struct span copy = arena_copy(&g->arena, s);

	g->failed = g->failed || copy.p == NULL;
	return copy;
}

static struct tag_group *
group_of(struct tag_groups *g, struct span name)
{
	struct tag_group *v;

	for (uint32_t i = 0; i < g->n; i++)
		if (span_eq(g->v[i].name, name))
			return &g->v[i];
	v = grown(g, g->v, g->n, &g->cap, sizeof(*g->v));
	if (v == NULL)
		return NULL;
	g->v = v;
	g->v[g->n] = (struct tag_group){ .name = copied(g, name) };
	return &g->v[g->n++];
}

static void
add_tag(struct tag_groups *g, struct tag_group *t, struct span tag)
{
	struct span *tags;

	for (uint32_t i = 0; i < t->n; i++)
		if (span_eq(t->tags[i], tag))
			return;
	tags = grown(g, t->tags, t->n, &t->cap, sizeof(*tags));
	if (tags == NULL)
		return;
	t->tags = tags;
	t->tags[t->n++] = copied(g, tag);
}

/* Writes the groups out and forgets them; returns how many. */
static uint32_t
flush_groups(struct tag_groups *g, struct buf *out)
{
	uint32_t n = g->n;

	for (uint32_t i = 0; i < n; i++) {
		struct service_tags t = { .Name = g->v[i].name };

		t.Tags = (struct span_list){ .v = g->v[i].tags, .n = g->v[i].n, .set = true };

		schema_pack(&service_tags_schema, &t, out);
	}
	arena_reset(&g->arena);
	g->v = NULL;
	g->n = g->cap = 0;
	return n;
}

static void
catalog_read_services(struct reading *r, const void *rec)
{
	const struct catalog_read *q = rec;
	struct tag_groups g = { .arena = ARENA_INIT(FSM_ANSWER_BYTES_MAX) };
	size_t at = list_begin(r->out);
	struct instances w;
	uint32_t n = 0;

	instances_begin(r->f, &w, SPAN_NONE);
	while (!r->out->failed && !g.failed && instances_next(&w)) {
		struct tag_group *t;

		if (!meta_matches(&q->NodeMeta, &w.node.Meta) || !may_read(r, ACL_SERVICE, w.service.Service))
			continue;
		if (g.n > 0 && !span_eq_nocase(g.v[0].name, w.service.Service))
			n += flush_groups(&g, r->out);
		t = group_of(&g, w.service.Service);
		for (uint32_t i = 0; t != NULL && i < w.service.Tags.n; i++)
			add_tag(&g, t, w.service.Tags.v[i]);
	}
	n += flush_groups(&g, r->out);
	instances_end(&w);
	arena_done(&g.arena);
	list_end(r->out, at, n);
	if (g.failed)
		read_fail(r, TV_ELIMIT, "the answer is too large");
	r->ans->index = q->NodeMeta.n > 0 ? fsm_index_of_set(r->f, FX_SET(SERVICES) | FX_SET(NODES)) :
	    fsm_index_of(r->f, FX_SERVICES);
}

/* -- one node -- */

/* Appends the records of a table below a node, as they are stored, as a list; how many. */
static uint32_t
put_below(struct reading *r, enum tbl table, struct span node, const struct schema *schema, const char *name)
{
	size_t at = list_begin(r->out);
	struct tbl_scan s;
	struct tkey prefix;
	struct span key, val;
	uint32_t n = 0;

	TKEY(&prefix, table, node);
	tbl_scan_begin(r->f, &s, &prefix);
	while (!r->out->failed && tbl_next(&s, &key, &val)) {
		if (!may_read_packed(r, val, schema, name))
			continue;
		buf_putspan(r->out, val);
		n++;
	}
	tbl_scan_end(&s);
	list_end(r->out, at, n);
	return n;
}

/* Packed by hand as node_services: its services go over as they are stored. */
static void
catalog_read_node(struct reading *r, const void *rec)
{
	const struct catalog_read *q = rec;
	struct tkey k;
	struct span val;
	size_t at;

	r->ans->index = fsm_index_of_set(r->f, FX_SET(NODES) | FX_SET(SERVICES));
	mpw_array(r->out, 2);
	TKEY(&k, TBL_NODE, q->Name);
	if (!tbl_peek(r->f, &k, &val) || !may_read_packed_node(r, val)) {
		mpw_nil(r->out);
		mpw_nil(r->out);
		return;
	}
	buf_putspan(r->out, val);
	at = r->out->len;
	if (put_below(r, TBL_SERVICE, q->Name, &service_schema, "Service") == 0 && !r->out->failed) {
		r->out->len = at;		/* no services is null, not an empty list */
		mpw_nil(r->out);
	}
}

/* Packed by hand as node_dump: all but the node's Datacenter and indexes goes over as it is stored. */
static bool
put_dump(struct reading *r, struct span packed, struct arena *a)
{
	enum { ID, NODE, ADDRESS, DATACENTER, TAGGED, META, FIELDS };
	struct rd in = rd_span_over(packed);
	struct span v[FIELDS];
	struct node node;

	if (mpr_array(&in) < FIELDS || !tbl_decode(r->f, &node_schema, packed, a, &node) || !may_read_node(r, node.Node))
		return false;
	for (unsigned i = 0; i < FIELDS; i++)
		v[i] = mpr_value(&in);
	mpw_array(r->out, 7);
	for (unsigned i = 0; i < FIELDS; i++)
		if (i != DATACENTER)
			buf_putspan(r->out, v[i]);
	put_below(r, TBL_SERVICE, node.Node, &service_schema, "Service");
	put_below(r, TBL_CHECK, node.Node, &check_schema, "ServiceName");
	return in.err == TV_OK;
}

/* Of all nodes, or of the one that is named. */
static void
catalog_read_dump(struct reading *r, const void *rec)
{
	const struct catalog_read *q = rec;
	size_t at = list_begin(r->out);
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct tbl_scan s;
	struct tkey k;
	struct span key, val;
	uint32_t n = 0;

	if (q->Name.len > 0) {
		TKEY(&k, TBL_NODE, q->Name);
		if (tbl_peek(r->f, &k, &val) && (val = arena_copy(&a, val)).p != NULL)
			n += put_dump(r, val, &a);
	} else {
		tkey_begin(&k, TBL_NODE);
		tbl_scan_begin(r->f, &s, &k);
		while (!r->out->failed && tbl_next(&s, &key, &val)) {
			arena_reset(&a);
			n += put_dump(r, val, &a);
		}
		tbl_scan_end(&s);
	}
	arena_done(&a);
	list_end(r->out, at, n);
	r->ans->index = fsm_index_of_set(r->f, FX_SET(NODES) | FX_SET(SERVICES) | FX_SET(CHECKS));
}

const struct fsm_op catalog_ops[] = {
	{ OP_CATALOG_NODES, .read = catalog_read_nodes },
	{ OP_CATALOG_SERVICES, .read = catalog_read_services },
	{ OP_CATALOG_SERVICE, .read = catalog_read_service },
	{ OP_CATALOG_NODE, .read = catalog_read_node },
	{ OP_CATALOG_CONNECT, .read = catalog_read_connect },
	{ OP_NODE_DUMP, .read = catalog_read_dump },
	{ 0 },
};
