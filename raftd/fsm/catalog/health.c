/* Reads of checks, and of instances with their checks.  Source: http-api, section 6. */
#include <errno.h>

#include "common/record/mpack.h"
#include "raftd/fsm/acl/acl.h"
#include "raftd/fsm/catalog/node_checks.h"
#include "raftd/fsm/catalog/sort_near.h"
#include "raftd/fsm/table/meta.h"

/* A check as it is stored, and decoded. */
struct check_row {
	struct check check;
	struct span packed;
};

/* Walks checks below a prefix. */
struct check_walk {
	struct fsm *f;
	struct tbl_scan scan;
	struct arena arena;
	struct check_row row;
};

static void
checks_begin(struct fsm *f, struct check_walk *w, const struct tkey *prefix)
{
	w->f = f;
	w->arena = ARENA_INIT(FSM_RECORD_MEMORY);
	tbl_scan_begin(f, &w->scan, prefix);
}

static bool
checks_next(struct check_walk *w)
{
	struct span key;

	if (!tbl_next(&w->scan, &key, &w->row.packed))
		return false;
	arena_reset(&w->arena);
	return tbl_decode(w->f, &check_schema, w->row.packed, &w->arena, &w->row.check);
}

static void
checks_end(struct check_walk *w)
{
	tbl_scan_end(&w->scan);
	arena_done(&w->arena);
}

static bool
may_read_check(const struct reading *r, const struct check *c)
{
	return may_read_service(r, c->Node, c->ServiceID.len > 0 ? c->ServiceName : SPAN_NONE);
}

static void
health_read_node(struct reading *r, const void *rec)
{
	const struct catalog_read *q = rec;
	size_t at = list_begin(r->out);
	struct check_walk w;
	struct tkey prefix;
	uint32_t n = 0;

	TKEY(&prefix, TBL_CHECK, q->Name);
	checks_begin(r->f, &w, &prefix);
	while (!r->out->failed && checks_next(&w)) {
		if (!may_read_check(r, &w.row.check))
			continue;
		buf_putspan(r->out, w.row.packed);
		n++;
	}
	checks_end(&w);
	list_end(r->out, at, n);
	r->ans->index = fsm_index_of(r->f, FX_CHECKS);
}

/* Appends the checks of a node that belong to the named service. */
static uint32_t
put_service_checks(struct reading *r, struct sort_near *near, struct span node, struct span service)
{
	struct check_walk w;
	struct tkey prefix;
	uint32_t n = 0;

	TKEY(&prefix, TBL_CHECK, node);
	checks_begin(r->f, &w, &prefix);
	while (!r->out->failed && checks_next(&w)) {
		if (w.row.check.ServiceID.len == 0 || !span_eq_nocase(w.row.check.ServiceName, service) ||
		    !may_read_check(r, &w.row.check))
			continue;
		sort_near_note(near, r->out->len, node);
		buf_putspan(r->out, w.row.packed);
		n++;
	}
	checks_end(&w);
	return n;
}

static void
health_read_checks(struct reading *r, const void *rec)
{
	const struct catalog_read *q = rec;
	uint8_t last[FSM_NAME_BYTES_MAX];
	size_t at = list_begin(r->out), last_len = SIZE_MAX;
	struct instances w;
	struct sort_near near;
	bool exists;
	uint32_t n = 0;

	sort_near_begin(&near, r->f, q);
	instances_begin(r->f, &w, q->Name);
	while (q->Name.len > 0 && !r->out->failed && instances_next(&w)) {
		struct span node = w.node.Node;

		if (last_len == node.len && span_eq(node, span_of(last, last_len)))
			continue;		/* another instance on the same node */
		last_len = node.len <= sizeof(last) ? node.len : 0;
		memcpy(last, node.p, last_len);
		if (meta_matches(&q->NodeMeta, &w.node.Meta))
			n += put_service_checks(r, &near, node, q->Name);
	}
	instances_end(&w);
	sort_near_end(&near, r->out);
	list_end(r->out, at, n);
	r->ans->index = catalog_service_index(r->f, q->Name, true, &exists);
}

/* Appends the checks of an instance: those of its node and its own.  How many; *good: all of them are, by the rule. */
static uint32_t
walk_instance_checks(struct reading *r, struct span node, struct span service_id, const struct check_rule *rule, bool *good)
{
	struct check_walk w;
	struct tkey prefix;
	uint32_t n = 0;

	*good = true;
	TKEY(&prefix, TBL_CHECK, node);
	checks_begin(r->f, &w, &prefix);
	while (!r->out->failed && checks_next(&w)) {
		if (w.row.check.ServiceID.len > 0 && !span_eq_nocase(w.row.check.ServiceID, service_id))
			continue;
		buf_putspan(r->out, w.row.packed);
		*good = *good && check_is_good(rule, w.row.check.CheckID, w.row.check.Status);
		n++;
	}
	checks_end(&w);
	return n;
}

static bool
put_instance_checks(struct reading *r, struct node_checks *kept, const struct instances *at, const struct check_rule *rule)
{
	struct span node = at->node.Node, id = at->service.ID;
	size_t begin = list_begin(r->out);
	bool good;

	list_end(r->out, begin, node_checks_of(kept, node) ? node_checks_put(kept, id, rule, r->out, &good) :
	    walk_instance_checks(r, node, id, rule, &good));
	return good;
}

/* Of those that the walk, which ends here, comes to. */
static uint32_t
put_instances(struct reading *r, struct instances *w, instance_wanted *wanted, const void *ctx,
    const struct check_rule *rule, struct sort_near *near)
{
	struct node_checks kept;
	uint32_t n = 0;

	node_checks_begin(r->f, &kept);
	while (!r->out->failed && instances_next(w)) {
		size_t before = r->out->len;

		if (!wanted(ctx, w) || !may_read_service(r, w->node.Node, w->service.Service))
			continue;
		mpw_array(r->out, 3);		/* health_entry */
		schema_pack(&node_schema, &w->node, r->out);
		schema_pack(&service_schema, &w->service, r->out);
		if (!put_instance_checks(r, &kept, w, rule) && !r->out->failed) {
			r->out->len = before;
			continue;
		}
		sort_near_note(near, before, w->node.Node);
		n++;
	}
	instances_end(w);
	node_checks_end(&kept);
	return n;
}

uint32_t
health_instances(struct reading *r, struct span name, bool connect, instance_wanted *wanted, const void *ctx,
    const struct check_rule *rule, struct sort_near *near)
{
	struct instances w;

	if (name.len == 0)
		return 0;
	(connect ? instances_begin_connect : instances_begin)(r->f, &w, name);
	return put_instances(r, &w, wanted, ctx, rule, near);
}

static bool
wants(const void *ctx, const struct instances *at)
{
	const struct catalog_read *q = ctx;

	return tags_match(&q->Tags, &at->service.Tags) && meta_matches(&q->NodeMeta, &at->node.Meta);
}

struct proxies_wanted {
	const struct reading *r;
	const struct catalog_read *q;
};

/* Of what proxies for a service, as catalog_read_connect(): tags are not looked at. */
static bool
wants_proxy(const void *ctx, const struct instances *at)
{
	const struct proxies_wanted *w = ctx;

	return meta_matches(&w->q->NodeMeta, &at->node.Meta) && catalog_may_read_destination(w->r, &at->service);
}

static void
read_instances(struct reading *r, const struct catalog_read *q, bool connect)
{
	static const struct check_rule passing = { .passing = true };
	const struct proxies_wanted proxies = { r, q };
	size_t at = list_begin(r->out);
	struct sort_near near;
	uint32_t n;

	sort_near_begin(&near, r->f, q);
	n = health_instances(r, q->Name, connect, connect ? wants_proxy : wants, connect ? (const void *)&proxies : q,
	    q->Passing ? &passing : NULL, &near);
	sort_near_end(&near, r->out);
	list_end(r->out, at, n);
}

static void
health_read_service(struct reading *r, const void *rec)
{
	const struct catalog_read *q = rec;
	bool exists;

	read_instances(r, q, false);
	r->ans->index = catalog_service_index(r->f, q->Name, true, &exists);
}

static void
health_read_connect(struct reading *r, const void *rec)
{
	const struct catalog_read *q = rec;

	read_instances(r, q, true);
	r->ans->index = catalog_connect_index(r->f, q->Name);
}

/* All instances of all services. */
static void
health_read_dump(struct reading *r, const void *rec)
{
	size_t at = list_begin(r->out);
	struct sort_near near;
	struct instances w;
	uint32_t n;

	sort_near_begin(&near, r->f, rec);
	instances_begin(r->f, &w, SPAN_NONE);
	n = put_instances(r, &w, wants, rec, NULL, &near);
	sort_near_end(&near, r->out);
	list_end(r->out, at, n);
	r->ans->index = fsm_index_of_set(r->f, FX_SET(NODES) | FX_SET(SERVICES) | FX_SET(CHECKS));
}

/* Does the check's node match?  The node last looked at is remembered: checks come node by node. */
struct node_memory {
	struct arena arena;
	struct node node;
	bool known;
};

static bool
node_matches(struct fsm *f, struct node_memory *m, const struct span_map *want, struct span name)
{
	if (want->n == 0)
		return true;
	if (!m->known || !span_eq(m->node.Node, name)) {
		arena_reset(&m->arena);
		m->known = catalog_node(f, name, &m->arena, &m->node);
	}
	return m->known && meta_matches(want, &m->node.Meta);
}

static void
health_read_state(struct reading *r, const void *rec)
{
	const struct catalog_read *q = rec;
	struct node_memory memory = { .arena = ARENA_INIT(FSM_RECORD_MEMORY) };
	size_t at = list_begin(r->out);
	bool any = span_eqs(q->Name, "any");
	struct check_walk w;
	struct tkey prefix;
	struct sort_near near;
	uint32_t n = 0;

	sort_near_begin(&near, r->f, q);
	tkey_begin(&prefix, TBL_CHECK);
	checks_begin(r->f, &w, &prefix);
	while (!r->out->failed && checks_next(&w)) {
		if (!any && !span_eq(w.row.check.Status, q->Name))
			continue;
		if (!node_matches(r->f, &memory, &q->NodeMeta, w.row.check.Node) || !may_read_check(r, &w.row.check))
			continue;
		sort_near_note(&near, r->out->len, w.row.check.Node);
		buf_putspan(r->out, w.row.packed);
		n++;
	}
	checks_end(&w);
	sort_near_end(&near, r->out);
	arena_done(&memory.arena);
	list_end(r->out, at, n);
	r->ans->index = fsm_index_of_set(r->f, FX_SET(CHECKS) | (q->NodeMeta.n > 0 ? FX_SET(NODES) : 0));
}

/* -- for the leader's reconciliation with gossip -- */

bool
fsm_has_node(struct fsm *f, struct span node)
{
	struct tkey k;

	TKEY(&k, TBL_NODE, node);
	return tbl_has(f, &k);
}

/* Of the node's serfHealth check, in the arena; "" when it has none. */
static struct span
serf_status_of(struct fsm *f, struct span node, struct arena *a)
{
	struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);
	struct span status = span_str("");
	struct check c;

	if (catalog_check(f, node, span_str("serfHealth"), &one, &c)) {
		status = arena_copy(a, c.Status);
		if (status.p == NULL)
			f->failed = ENOMEM;
	}
	arena_done(&one);
	return status;
}

bool
fsm_node_health(struct fsm *f, struct span node, struct arena *a, struct node *out, struct span *serf_status)
{
	*serf_status = span_str("");
	if (!catalog_node(f, node, a, out))
		return false;
	*serf_status = serf_status_of(f, node, a);
	return true;
}

bool
fsm_node_of_id(struct fsm *f, struct span id, struct arena *a, struct node *out, struct span *serf_status)
{
	*serf_status = span_str("");
	if (id.len == 0 || !catalog_node_by_id(f, id, a, out))
		return false;
	*serf_status = serf_status_of(f, out->Node, a);
	return true;
}

enum tv_err
fsm_each_serf_node(struct fsm *f, struct span after,
    bool (*fn)(void *ctx, struct span node, struct span id, const struct check *serf), void *ctx)
{
	struct arena a = ARENA_INIT(2 * FSM_RECORD_MEMORY);
	struct tbl_scan s;
	struct tkey prefix, from;
	struct span key, val;
	bool more = true;

	tkey_begin(&prefix, TBL_NODE);
	from = prefix;
	if (after.len > 0) {
		TKEY(&from, TBL_NODE, after);
		tkey_raw(&from, span_of("", 1));
	}
	tbl_scan_from(f, &s, &prefix, &from);
	while (more && tbl_next(&s, &key, &val)) {
		struct node n;
		struct check c;

		arena_reset(&a);
		if (!tbl_decode(f, &node_schema, val, &a, &n))
			break;
		if (catalog_check(f, n.Node, span_str("serfHealth"), &a, &c))
			more = fn(ctx, n.Node, n.ID, &c);
	}
	tbl_scan_end(&s);
	arena_done(&a);
	return fsm_read_err(f);
}

const struct fsm_op health_ops[] = {
	{ OP_HEALTH_NODE, .read = health_read_node },
	{ OP_HEALTH_CHECKS, .read = health_read_checks },
	{ OP_HEALTH_SERVICE, .read = health_read_service },
	{ OP_HEALTH_CONNECT, .read = health_read_connect },
	{ OP_SERVICE_DUMP, .read = health_read_dump },
	{ OP_HEALTH_STATE, .read = health_read_state },
	{ 0 },
};
