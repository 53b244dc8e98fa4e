/* The catalog's records: finding them, removing them, and the index of each service. */
#include "raftd/fsm/catalog/catalog.h"
#include "raftd/fsm/read/watch.h"
#include "raftd/fsm/session/session.h"
#include "raftd/fsm/table/meta.h"

bool
catalog_node(struct fsm *f, struct span name, struct arena *a, struct node *out)
{
	struct tkey k;

	TKEY(&k, TBL_NODE, name);
	return tbl_get_rec(f, &k, &node_schema, a, out);
}

bool
catalog_node_by_id(struct fsm *f, struct span id, struct arena *a, struct node *out)
{
	struct tkey k;
	struct span name;

	TKEY(&k, TBL_NODE_ID, id);
	return tbl_get(f, &k, a, &name) && catalog_node(f, name, a, out);
}

bool
catalog_service(struct fsm *f, struct span node, struct span id, struct arena *a, struct service *out)
{
	struct tkey k;

	TKEY(&k, TBL_SERVICE, node, id);
	return tbl_get_rec(f, &k, &service_schema, a, out);
}

bool
catalog_check(struct fsm *f, struct span node, struct span id, struct arena *a, struct check *out)
{
	struct tkey k;

	TKEY(&k, TBL_CHECK, node, id);
	return tbl_get_rec(f, &k, &check_schema, a, out);
}

/* -- the index of a service, or of its proxies: [u64be index | u64be instances], and what a newer version adds -- */

static bool
index_get(struct fsm *f, enum tbl table, struct span name, uint64_t *index, uint64_t *instances)
{
	struct tkey k;
	struct span val;
	struct rd r;

	*index = *instances = 0;
	TKEY(&k, table, name);
	if (!tbl_peek(f, &k, &val))
		return false;
	r = rd_span_over(val);
	*index = rd_u64be(&r);
	*instances = rd_u64be(&r);
	if (r.err != TV_OK)
		f->failed = DB_VERIFY_BAD;
	return f->failed == 0;
}

/* Wakes who waits for the service, or for what proxies for it, under its lower-case name. */
static void
index_wake(struct fsm *f, enum tbl table, struct span name)
{
	uint8_t lower[FSM_NAME_BYTES_MAX + sizeof(CONNECT_SUBJECT)];
	size_t more = table == TBL_CONNECT_INDEX ? sizeof(CONNECT_SUBJECT) : 0;

	if (name.len > FSM_NAME_BYTES_MAX)
		return;				/* never stored */
	for (size_t i = 0; i < name.len; i++)
		lower[i] = ascii_lower(name.p[i]);
	memcpy(lower + name.len, CONNECT_SUBJECT, more);
	touched_service(f, span_of(lower, name.len + more));
}

static void
index_touch(struct fsm *f, enum tbl table, struct span name, int by)
{
	uint8_t value[16];
	uint64_t index, instances;
	struct tkey k;
	bool there = index_get(f, table, name, &index, &instances);

	if (!there && by == 0)
		return;
	instances = (uint64_t)((int64_t)instances + by);
	index_wake(f, table, name);
	TKEY(&k, table, name);
	if (instances == 0) {
		if (there)
			(void)tbl_del(f, &k);	/* it is there */
		fsm_touch(f, FX_EXTINCTION);
		return;
	}
	for (int i = 0; i < 8; i++) {
		value[i] = (uint8_t)(f->at >> (56 - 8 * i));
		value[8 + i] = (uint8_t)(instances >> (56 - 8 * i));
	}
	tbl_put(f, &k, span_of(value, sizeof(value)));
}

void
catalog_service_touch(struct fsm *f, struct span name, int by)
{
	index_touch(f, TBL_SERVICE_INDEX, name, by);
}

struct span
catalog_connect_name(const struct service *s)
{
	if (span_eqs(s->Kind, "connect-proxy"))
		return s->Proxy.DestinationServiceName;
	return s->Connect.Native ? s->Service : SPAN_NONE;
}

void
catalog_connect_touch(struct fsm *f, const struct service *s, int by)
{
	struct span name = catalog_connect_name(s);

	if (name.len > 0)
		index_touch(f, TBL_CONNECT_INDEX, name, by);
}

static uint64_t
index_of(struct fsm *f, enum tbl table, struct span name, bool checks, bool *exists)
{
	uint64_t index, instances, most;

	*exists = index_get(f, table, name, &index, &instances);
	if (*exists)
		return index;
	if (fsm_index_of(f, FX_EXTINCTION) != 0)
		return fsm_index_of(f, FX_EXTINCTION);
	most = fsm_index_of(f, FX_NODES);
	if (fsm_index_of(f, FX_SERVICES) > most)
		most = fsm_index_of(f, FX_SERVICES);
	if (checks && fsm_index_of(f, FX_CHECKS) > most)
		most = fsm_index_of(f, FX_CHECKS);
	return most;
}

uint64_t
catalog_service_index(struct fsm *f, struct span name, bool checks, bool *exists)
{
	return index_of(f, TBL_SERVICE_INDEX, name, checks, exists);
}

uint64_t
catalog_connect_index(struct fsm *f, struct span name)
{
	bool exists;

	return index_of(f, TBL_CONNECT_INDEX, name, true, &exists);
}

static void
touch_service(struct fsm *f, const struct tkey *k, struct arena *one, void *ctx UNUSED)
{
	struct service s;

	if (!tbl_get_rec(f, k, &service_schema, one, &s))
		return;
	catalog_service_touch(f, s.Service, 0);
	catalog_connect_touch(f, &s, 0);
}

void
catalog_node_services_touch(struct fsm *f, struct span node)
{
	struct tkey prefix;

	TKEY(&prefix, TBL_SERVICE, node);
	tbl_each(f, &prefix, touch_service, NULL);
}

/* -- removal -- */

void
catalog_check_left(struct fsm *f, struct span node, struct span id)
{
	struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);
	struct service s;

	if (catalog_service(f, node, id, &one, &s))
		catalog_connect_touch(f, &s, 0);
	arena_done(&one);
}

void
catalog_remove_check(struct fsm *f, const struct check *c, int64_t now)
{
	struct tkey k;

	TKEY(&k, TBL_CHECK, c->Node, c->CheckID);
	if (!tbl_del(f, &k))
		return;
	fsm_count(f, FT_CHECKS, -1);
	fsm_touch(f, FX_CHECKS);
	if (c->ServiceID.len > 0) {
		catalog_service_touch(f, c->ServiceName, 0);
		catalog_check_left(f, c->Node, c->ServiceID);
	} else {
		catalog_node_services_touch(f, c->Node);
	}
	session_check_bad(f, c->Node, c->CheckID, now);
}

/* What goes of a node: services, or some of its checks. */
struct removal {
	struct span node, service_id;
	enum { CHECKS_ALL, CHECKS_OF_SERVICES, CHECKS_OF_ONE } checks;	/* of one: of service_id */
	int64_t now;
};

static bool
is_meant(const struct removal *r, const struct check *c)
{
	if (r->checks == CHECKS_OF_ONE)
		return span_eq_nocase(c->ServiceID, r->service_id);
	return r->checks == CHECKS_ALL || c->ServiceID.len > 0;
}

static void
remove_check(struct fsm *f, const struct tkey *k, struct arena *one, void *ctx)
{
	const struct removal *r = ctx;
	struct check c;

	if (tbl_get_rec(f, k, &check_schema, one, &c) && is_meant(r, &c))
		catalog_remove_check(f, &c, r->now);
}

static void
remove_checks(struct fsm *f, struct removal *r)
{
	struct tkey prefix;

	TKEY(&prefix, TBL_CHECK, r->node);
	tbl_each(f, &prefix, remove_check, r);
}

void
catalog_remove_service(struct fsm *f, struct span node, const struct service *s, int64_t now)
{
	struct removal checks = { .node = node, .service_id = s->ID, .checks = CHECKS_OF_ONE, .now = now };
	struct tkey k;

	remove_checks(f, &checks);
	TKEY(&k, TBL_SERVICE, node, s->ID);
	(void)tbl_del(f, &k);			/* it is there */
	TKEY(&k, TBL_INSTANCE, s->Service, node, s->ID);
	(void)tbl_del(f, &k);
	if (catalog_connect_name(s).len > 0) {
		TKEY(&k, TBL_CONNECT, catalog_connect_name(s), node, s->ID);
		(void)tbl_del(f, &k);
	}
	fsm_count(f, FT_SERVICES, -1);
	fsm_touch(f, FX_SERVICES);
	catalog_service_touch(f, s->Service, -1);
	catalog_connect_touch(f, s, -1);
}

static void
remove_service(struct fsm *f, const struct tkey *k, struct arena *one, void *ctx)
{
	const struct removal *r = ctx;
	struct service s;

	if (tbl_get_rec(f, k, &service_schema, one, &s))
		catalog_remove_service(f, r->node, &s, r->now);
}

void
catalog_remove_node(struct fsm *f, const struct node *n, int64_t now)
{
	struct removal all = { .node = n->Node, .checks = CHECKS_OF_SERVICES, .now = now };
	struct tkey k;

	/* Those of services before these, each of which would look through all of them: a node may have thousands of both. */
	remove_checks(f, &all);
	TKEY(&k, TBL_SERVICE, n->Node);
	tbl_each(f, &k, remove_service, &all);
	all.checks = CHECKS_ALL;
	remove_checks(f, &all);
	session_node_gone(f, n->Node, now);
	coordinate_node_gone(f, n->Node);
	TKEY(&k, TBL_NODE, n->Node);
	(void)tbl_del(f, &k);			/* it is there */
	if (n->ID.len > 0) {
		TKEY(&k, TBL_NODE_ID, n->ID);
		(void)tbl_del(f, &k);
	}
	fsm_count(f, FT_NODES, -1);
	fsm_touch(f, FX_NODES);
}

/* -- selection -- */

bool
meta_matches(const struct span_map *want, const struct span_map *have)
{
	for (uint32_t i = 0; i < want->n; i++) {
		bool found = false;

		for (uint32_t j = 0; j < have->n && !found; j++)
			found = span_eq(want->kv[i][0], have->kv[j][0]) && span_eq(want->kv[i][1], have->kv[j][1]);
		if (!found)
			return false;
	}
	return true;
}

bool
tags_match(const struct span_list *want, const struct span_list *have)
{
	for (uint32_t i = 0; i < want->n; i++) {
		bool found = want->v[i].len == 0;	/* ?tag= asks for nothing */

		for (uint32_t j = 0; j < have->n && !found; j++)
			found = span_eq_nocase(want->v[i], have->v[j]);
		if (!found)
			return false;
	}
	return true;
}
