/*
 * Catalog registration: a node, a service on it, checks of either.  Everything that can be refused is refused before
 * the first record changes, so an entry applies whole or not at all.  Source: http-api, section 5.
 */
#include <errno.h>

#include "common/base/uuid.h"
#include "common/record/mpack.h"
#include "common/record/proxy_rules.h"
#include "raftd/fsm/catalog/catalog.h"
#include "raftd/fsm/read/read.h"
#include "raftd/fsm/read/watch.h"
#include "raftd/fsm/session/session.h"
#include "raftd/fsm/table/meta.h"

#define SERF_CHECK "serfHealth"
#define GUARD_SINCE 9			/* version of the state machine */
#define ADOPTED_MAX FSM_RECORD_MEMORY	/* that one registration's checks take from their services */

/* -- before the log: what needs no state -- */

static enum tv_err
prepare_refused(struct prepare *p, struct buf *why)
{
	enum tv_err err = prepare_fail(p, "%s", buf_cstr(why));

	buf_done(why);
	return err;
}

enum tv_err
catalog_prepare_node_id(struct prepare *p, struct span id)
{
	if (id.len > 0 && !uuid_parse(id, NULL))
		return prepare_fail(p, "Bad node ID: %s", id.len != UUID_CHARS ? "uuid string is wrong length" :
		    "uuid is improperly formatted");
	return TV_OK;
}

enum tv_err
catalog_prepare_service(struct prepare *p, struct service *s)
{
	struct buf why = BUF_INIT(PROXY_WHY_MAX);

	if (s->ID.len == 0)
		s->ID = s->Service;
	if (s->Service.len == 0)
		return prepare_fail(p, "Must provide service name with ID");
	if (span_eqs(s->Address, "0.0.0.0") || span_eqs(s->Address, "::") || span_eqs(s->Address, "[::]"))
		return prepare_fail(p, "Invalid service address");
	if (s->ID.len > FSM_NAME_BYTES_MAX || s->Service.len > FSM_NAME_BYTES_MAX)
		return prepare_fail(p, "Service name or ID is longer than %d bytes", FSM_NAME_BYTES_MAX);
	if (s->Proxy.DestinationServiceName.len > FSM_NAME_BYTES_MAX)
		return prepare_fail(p, "Proxy.DestinationServiceName is longer than %d bytes", FSM_NAME_BYTES_MAX);
	if (!proxy_check(s, &why))
		return prepare_refused(p, &why);
	if (s->Weights.Passing == 0 && s->Weights.Warning == 0)
		s->Weights = (struct weights){ 1, 1 };
	return TV_OK;
}

/* Skips the fields of a packed record before this one; false: it has no such field. */
static bool
skip_to(struct rd *r, const struct schema *s, const char *name)
{
	uint32_t fields = mpr_nil(r) ? 0 : mpr_array(r), at = 0;

	while (at < s->count && strcmp(s->fields[at].name, name) != 0)
		at++;
	for (uint32_t i = 0; i < at && i < fields; i++)
		mpr_skip(r);
	return r->err == TV_OK && at < fields;
}

uint8_t
catalog_check_needs(struct rd *r)
{
	struct rd check = rd_span_over(mpr_value(r)), later;

	if (!skip_to(&check, &check_schema, "Definition"))
		return 0;
	later = rd_span_over(mpr_value(&check));
	if (!skip_to(&later, &check_definition_schema, "DisableRedirects"))
		return 0;
	while (later.err == TV_OK && rd_left(&later) > 0) {
		struct span value = mpr_value(&later);

		if (value.len > 1 || (value.len == 1 && strchr("\xc0\xc2\xa0", value.p[0]) == NULL))
			return FSM_CHECK_FIELDS_SINCE;		/* neither nil, false nor "" */
	}
	return 0;
}

/* An agent's checks have no definition, so this is a look at few bytes. */
static uint8_t
register_needs(struct span args)
{
	struct rd r = rd_span_over(args);
	uint8_t needs;

	if (!skip_to(&r, &catalog_register_schema, "Check"))
		return 0;
	needs = catalog_check_needs(&r);
	for (uint32_t n = rd_left(&r) > 0 && !mpr_nil(&r) ? mpr_array(&r) : 0; n > 0 && needs == 0 && r.err == TV_OK; n--)
		needs = catalog_check_needs(&r);
	return needs;
}

enum tv_err
catalog_prepare_check(struct prepare *p, struct span node, struct check *c)
{
	if (c->CheckID.len == 0)
		c->CheckID = c->Name;
	if (c->Node.len == 0)
		c->Node = node;
	if (c->Status.len == 0)
		c->Status = span_str("critical");
	if (c->Type.len == 0 && c->Definition.HTTP.len > 0)
		c->Type = span_str("http");
	else if (c->Type.len == 0 && c->Definition.TCP.len > 0)
		c->Type = span_str("tcp");
	else if (c->Type.len == 0 && c->Definition.UDP.len > 0)
		c->Type = span_str("udp");
	if (c->CheckID.len > FSM_NAME_BYTES_MAX || c->ServiceID.len > FSM_NAME_BYTES_MAX)
		return prepare_fail(p, "Check ID is longer than %d bytes", FSM_NAME_BYTES_MAX);
	return TV_OK;
}

static enum tv_err
register_prepare(struct prepare *p, void *rec)
{
	struct catalog_register *q = rec;
	struct check *checks = q->Checks.v;
	enum tv_err err = catalog_prepare_node_id(p, q->ID);

	if (q->Node.len == 0 && q->ID.len == 0)
		return prepare_fail(p, "Must provide node");
	if (err != TV_OK)
		return err;
	if (q->Address.len == 0 && !q->SkipNodeUpdate)
		return prepare_fail(p, "Must provide address if SkipNodeUpdate is not set");
	if (q->Node.len > FSM_NAME_BYTES_MAX)
		return prepare_fail(p, "Node name is longer than %d bytes", FSM_NAME_BYTES_MAX);
	/* A service with a proxy is registered by an operation that the first two versions do not know; all others as ever. */
	if (q->has_service && proxy_is_given(&q->Service))
		p->op = OP_CATALOG_REGISTER_PROXY;
	if (q->has_service)
		err = catalog_prepare_service(p, &q->Service);
	if (err == TV_OK && q->has_check)
		err = catalog_prepare_check(p, q->Node, &q->Check);
	for (uint32_t i = 0; i < q->Checks.n && err == TV_OK; i++)
		err = catalog_prepare_check(p, q->Node, &checks[i]);
	q->Now = p->now;
	return err;
}

/* -- applying -- */

struct registration {
	struct apply *p;
	struct fsm *f;
	struct catalog_register *q;
	struct node before;		/* the record that q's node continues */
	bool known;
	bool node_changes;
	bool renamed;			/* before goes under its old name first */
	size_t adopted;			/* bytes of the services of its checks, each time that one is named */
	bool touched;			/* a check of the node changed, which all its services show */
};

bool
catalog_map_eq(const struct span_map *a, const struct span_map *b)
{
	return a->n == b->n && meta_matches(a, b);
}

/* Same packed form, but for the indexes: the caller has made them equal. */
static bool
rec_eq(struct fsm *f, const struct schema *s, const void *a, const void *b)
{
	struct buf other = BUF_INIT(FSM_ANSWER_BYTES_MAX);
	bool same;

	buf_reset(&f->pack);
	schema_pack(s, a, &f->pack);
	schema_pack(s, b, &other);
	if (f->pack.failed || other.failed)
		f->failed = ENOMEM;		/* ours alone: the others know whether anything changes */
	same = span_eq(buf_span(&f->pack), buf_span(&other));
	buf_done(&other);
	return same;
}

/* A member that lives, as far as the state knows: it has a serfHealth, which is not critical. */
static bool
is_living(struct fsm *f, const struct node *n)
{
	struct check serf;

	return catalog_check(f, n->Node, span_str(SERF_CHECK), &f->work, &serf) && !span_eqs(serf.Status, "critical");
}

/* May the name be taken from its present holder?  Not while that one lives. */
static bool
name_is_free(struct registration *g, bool new_id)
{
	struct fsm *f = g->f;
	struct node holder;
	const struct catalog_register *q = g->q;

	if (!catalog_node(f, q->Node, &f->work, &holder) || span_eq_nocase(holder.ID, q->ID))
		return true;
	if (holder.ID.len == 0 && new_id)
		return true;			/* a node without an ID gets one */
	if (!is_living(f, &holder))
		return true;
	if (new_id)
		apply_fail(g->p, TV_ECONFLICT,
		    "failed inserting node: Error while renaming Node ID: \"%.*s\": Node name %.*s is "
		    "reserved by node %.*s with name %.*s (%.*s)", (int)q->ID.len, (const char *)q->ID.p,
		    (int)q->Node.len, (const char *)q->Node.p, (int)holder.ID.len, (const char *)holder.ID.p,
		    (int)holder.Node.len, (const char *)holder.Node.p, (int)holder.Address.len,
		    (const char *)holder.Address.p);
	else
		apply_fail(g->p, TV_ECONFLICT,
		    "failed inserting node: Error while renaming Node ID: \"%.*s\" (%.*s): Node name "
		    "%.*s is reserved by node %.*s with name %.*s (%.*s)", (int)q->ID.len, (const char *)q->ID.p,
		    (int)q->Address.len, (const char *)q->Address.p, (int)q->Node.len, (const char *)q->Node.p,
		    (int)holder.ID.len, (const char *)holder.ID.p, (int)holder.Node.len, (const char *)holder.Node.p,
		    (int)holder.Address.len, (const char *)holder.Address.p);
	return false;
}

static void
fail_reserved(struct registration *g, const struct node *holder)
{
	const struct catalog_register *q = g->q;

	apply_fail(g->p, TV_ECONFLICT,
	    "failed inserting node: Node name %.*s is reserved by node %.*s with name %.*s (%.*s), which is alive",
	    (int)q->Node.len, (const char *)q->Node.p, (int)holder->ID.len, (const char *)holder->ID.p,
	    (int)holder->Node.len, (const char *)holder->Node.p, (int)holder->Address.len, (const char *)holder->Address.p);
}

/*
 * Nothing that comes with another id, or with its id under another name, changes a node that lives.  What names no id is
 * about the node of that name: its record stays as it is, for it is written by gossip's word alone.  (That a new id may not have
 * the name is what name_is_free() says.)
 */
static bool
guard_living(struct registration *g)
{
	struct catalog_register *q = g->q;
	struct fsm *f = g->f;
	struct node holder;

	if ((q->ID.len == 0 || q->SkipNodeUpdate) && catalog_node(f, q->Node, &f->work, &holder) && holder.ID.len > 0 &&
	    !span_eq_nocase(holder.ID, q->ID) && is_living(f, &holder)) {
		if (q->ID.len > 0 || (!q->SkipNodeUpdate && !span_eq(q->Address, holder.Address))) {
			fail_reserved(g, &holder);
			return false;
		}
		q->SkipNodeUpdate = true;
		return true;
	}
	if (q->ID.len == 0 || !catalog_node_by_id(f, q->ID, &f->work, &holder) || span_eq_nocase(holder.Node, q->Node) ||
	    !is_living(f, &holder))
		return true;
	apply_fail(g->p, TV_ECONFLICT,
	    "failed inserting node: Error while renaming Node ID: \"%.*s\" (%.*s): that ID is of node %.*s (%.*s), which is alive",
	    (int)q->ID.len, (const char *)q->ID.p, (int)q->Address.len, (const char *)q->Address.p, (int)holder.Node.len,
	    (const char *)holder.Node.p, (int)holder.Address.len, (const char *)holder.Address.p);
	return false;
}

/* Finds the record that this node continues, and whether it has to change. */
static bool
resolve_node(struct registration *g)
{
	struct fsm *f = g->f;
	struct catalog_register *q = g->q;
	struct node by_id;
	bool id_known = q->ID.len > 0 && catalog_node_by_id(f, q->ID, &f->work, &by_id);

	if (q->Node.len == 0) {
		if (!id_known) {
			apply_fail(g->p, TV_EINVAL, "Must provide node");
			return false;
		}
		q->Node = by_id.Node;
	}
	if (fsm_guards_nodes(f) && !guard_living(g))
		return false;
	g->known = catalog_node(f, q->Node, &f->work, &g->before);
	g->node_changes = !g->known || (!q->SkipNodeUpdate && !(span_eq(g->before.ID, q->ID) &&
	    span_eq(g->before.Node, q->Node) && span_eq(g->before.Address, q->Address) &&
	    catalog_map_eq(&g->before.TaggedAddresses, &q->TaggedAddresses) &&
	    catalog_map_eq(&g->before.Meta, &q->NodeMeta)));
	if (!g->node_changes || q->ID.len == 0)
		return true;
	if (!id_known)
		return name_is_free(g, true);
	if (!span_eq_nocase(by_id.Node, q->Node)) {
		if (!name_is_free(g, false))
			return false;
		g->renamed = true;
	}
	g->before = by_id;
	g->known = true;
	return true;
}

/* Bytes of a service that comes with its checks. */
static size_t
given_bytes(const struct service *s)
{
	size_t n = s->Service.len;

	for (uint32_t i = 0; i < s->Tags.n; i++)
		n += s->Tags.v[i].len + sizeof(struct span);
	return n;
}

/* Each check takes over name and tags of its service: a small entry must not become a huge change. */
static bool
adoption_allowed(struct registration *g, const struct check *c, bool *there)
{
	const struct catalog_register *q = g->q;
	struct arena one = ARENA_INIT(FSM_RECORD_MEMORY);
	struct service s;

	*there = true;
	if (q->has_service && span_eq_nocase(q->Service.ID, c->ServiceID))
		g->adopted += given_bytes(&q->Service);
	else
		*there = !g->renamed && catalog_service(g->f, q->Node, c->ServiceID, &one, &s);
	g->adopted += one.used;
	arena_done(&one);
	return g->adopted <= ADOPTED_MAX;
}

/* Is every check's service there, or about to be? */
static bool
check_allowed(struct registration *g, const struct check *c)
{
	const struct catalog_register *q = g->q;
	bool there;

	if (c->Node.len > 0 && !span_eq_nocase(c->Node, q->Node)) {
		apply_fail(g->p, TV_EINVAL, "check node \"%.*s\" does not match node \"%.*s\"", (int)c->Node.len,
		    (const char *)c->Node.p, (int)q->Node.len, (const char *)q->Node.p);
		return false;
	}
	if (c->ServiceID.len == 0)
		return true;
	if (!adoption_allowed(g, c, &there)) {
		apply_fail(g->p, TV_ELIMIT, "too many checks of too large services in one registration");
		return false;
	}
	if (there)
		return true;
	apply_fail(g->p, TV_EINVAL, "failed inserting check: Missing service registration on node \"%.*s\"",
	    (int)q->Node.len, (const char *)q->Node.p);
	return false;
}

/* Lengths that fsm_prepare() saw to; an entry of another origin must not pass either. */
static bool
names_fit(const struct catalog_register *q)
{
	const struct check *checks = q->Checks.v;
	bool fit = q->Node.len <= FSM_NAME_BYTES_MAX && q->ID.len <= FSM_NAME_BYTES_MAX;

	if (q->has_service)
		fit = fit && q->Service.ID.len <= FSM_NAME_BYTES_MAX && q->Service.Service.len <= FSM_NAME_BYTES_MAX &&
		    q->Service.Proxy.DestinationServiceName.len <= FSM_NAME_BYTES_MAX;
	if (q->has_check)
		fit = fit && q->Check.CheckID.len <= FSM_NAME_BYTES_MAX && q->Check.ServiceID.len <= FSM_NAME_BYTES_MAX;
	for (uint32_t i = 0; i < q->Checks.n; i++)
		fit = fit && checks[i].CheckID.len <= FSM_NAME_BYTES_MAX &&
		    checks[i].ServiceID.len <= FSM_NAME_BYTES_MAX;
	return fit;
}

static bool
all_allowed(struct registration *g)
{
	const struct catalog_register *q = g->q;
	const struct check *checks = q->Checks.v;

	if (!names_fit(q)) {
		apply_fail(g->p, TV_ELIMIT, "a name is longer than %d bytes", FSM_NAME_BYTES_MAX);
		return false;
	}
	if (!resolve_node(g))
		return false;
	if (q->has_service && q->Service.Service.len == 0) {
		apply_fail(g->p, TV_EINVAL, "Must provide service name with ID");
		return false;
	}
	if (q->has_check && !check_allowed(g, &q->Check))
		return false;
	for (uint32_t i = 0; i < q->Checks.n; i++)
		if (!check_allowed(g, &checks[i]))
			return false;
	return true;
}

static void
store_node(struct registration *g)
{
	struct fsm *f = g->f;
	const struct catalog_register *q = g->q;
	struct node there, n = { .ID = q->ID, .Node = q->Node, .Address = q->Address,
	    .TaggedAddresses = q->TaggedAddresses, .Meta = q->NodeMeta,
	    .CreateIndex = g->known ? g->before.CreateIndex : f->at, .ModifyIndex = f->at };
	struct tkey k;

	if (!g->node_changes)
		return;
	n.Datacenter = span_str(f->datacenter);
	if (g->renamed)
		catalog_remove_node(f, &g->before, q->Now);
	if (catalog_node(f, q->Node, &f->work, &there)) {
		if (there.ID.len > 0 && !span_eq_nocase(there.ID, q->ID)) {
			TKEY(&k, TBL_NODE_ID, there.ID);
			(void)tbl_del(f, &k);	/* the name has a new owner */
		}
	} else {
		fsm_count(f, FT_NODES, 1);
	}
	TKEY(&k, TBL_NODE, q->Node);
	tbl_put_rec(f, &k, &node_schema, &n);
	if (q->ID.len > 0) {
		TKEY(&k, TBL_NODE_ID, q->ID);
		tbl_put(f, &k, q->Node);
	}
	fsm_touch(f, FX_NODES);
	catalog_node_services_touch(f, q->Node);
}

/* Among the proxies of its destination; before: as it was, or NULL. */
static void
store_proxy(struct fsm *f, struct span node, const struct service *before, const struct service *s)
{
	struct span to = catalog_connect_name(s), from = before == NULL ? SPAN_NONE : catalog_connect_name(before);
	struct tkey k;

	if (from.len > 0 && !span_eq_nocase(from, to)) {
		TKEY(&k, TBL_CONNECT, from, node, before->ID);
		(void)tbl_del(f, &k);		/* it is there */
		catalog_connect_touch(f, before, -1);
	}
	if (to.len > 0 && !span_eq_nocase(from, to)) {
		TKEY(&k, TBL_CONNECT, to, node, s->ID);
		tbl_put(f, &k, SPAN_NONE);
	}
	catalog_connect_touch(f, s, span_eq_nocase(from, to) ? 0 : 1);
}

static void
store_service(struct registration *g)
{
	struct fsm *f = g->f;
	struct service old, s = g->q->Service;
	struct span node = g->q->Node;
	bool there = catalog_service(f, node, s.ID, &f->work, &old);
	bool moved = there && !span_eq_nocase(old.Service, s.Service);
	struct tkey k;

	if (there) {
		s.CreateIndex = old.CreateIndex;
		s.ModifyIndex = old.ModifyIndex;
		if (rec_eq(f, &service_schema, &s, &old))
			return;
	} else {
		s.CreateIndex = f->at;
		fsm_count(f, FT_SERVICES, 1);
	}
	s.ModifyIndex = f->at;
	if (moved) {
		TKEY(&k, TBL_INSTANCE, old.Service, node, old.ID);
		(void)tbl_del(f, &k);		/* it is there */
		catalog_service_touch(f, old.Service, -1);
	}
	TKEY(&k, TBL_SERVICE, node, s.ID);
	tbl_put_rec(f, &k, &service_schema, &s);
	TKEY(&k, TBL_INSTANCE, s.Service, node, s.ID);
	tbl_put(f, &k, SPAN_NONE);
	fsm_touch(f, FX_SERVICES);
	catalog_service_touch(f, s.Service, !there || moved ? 1 : 0);
	store_proxy(f, node, there ? &old : NULL, &s);
}

/* The check's service lends it its name and tags, which are in the arena then. */
static void
adopt_service(struct registration *g, struct check *c, struct arena *a, struct service *s)
{
	*s = (struct service){ .Service = SPAN_NONE };
	if (c->ServiceID.len > 0 && !catalog_service(g->f, g->q->Node, c->ServiceID, a, s))
		*s = (struct service){ .Service = SPAN_NONE };
	c->ServiceName = s->Service;
	c->ServiceTags = s->Tags;
}

static void
store_check(struct registration *g, const struct check *given)
{
	struct fsm *f = g->f;
	struct arena one = ARENA_INIT(2 * FSM_RECORD_MEMORY);	/* the service, and the check as it was */
	struct check old, c = *given;
	struct service s;
	bool there, same = false;
	struct tkey k;

	c.Node = g->q->Node;
	if (c.Status.len == 0)
		c.Status = span_str("critical");
	adopt_service(g, &c, &one, &s);
	there = catalog_check(f, c.Node, c.CheckID, &one, &old);
	c.CreateIndex = there ? old.CreateIndex : f->at;
	if (there) {
		c.ModifyIndex = old.ModifyIndex;
		same = rec_eq(f, &check_schema, &c, &old);
	}
	if (!same) {
		c.ModifyIndex = f->at;
		TKEY(&k, TBL_CHECK, c.Node, c.CheckID);
		tbl_put_rec(f, &k, &check_schema, &c);
		fsm_count(f, FT_CHECKS, there ? 0 : 1);
		fsm_touch(f, FX_CHECKS);
		if (c.ServiceID.len > 0)
			catalog_service_touch(f, c.ServiceName, 0);
		else
			g->touched = true;
		catalog_connect_touch(f, &s, 0);
		if (there && old.ServiceID.len > 0 && !span_eq_nocase(old.ServiceName, c.ServiceName))
			catalog_service_touch(f, old.ServiceName, 0);
		if (there && old.ServiceID.len > 0 && !span_eq_nocase(old.ServiceID, c.ServiceID))
			catalog_check_left(f, c.Node, old.ServiceID);
	}
	if (span_eqs(c.Status, "critical"))
		session_check_bad(f, c.Node, c.CheckID, g->q->Now);
	arena_done(&one);
}

void
catalog_register_apply(struct apply *p, const struct catalog_register *given)
{
	struct catalog_register q = *given;
	struct registration g = { .p = p, .f = p->f, .q = &q };
	const struct check *checks = q.Checks.v;

	if (!all_allowed(&g))
		return;
	store_node(&g);
	if (!g.node_changes && g.known)
		q.Node = g.before.Node;		/* the spelling in use */
	if (q.has_service)
		store_service(&g);
	if (q.has_check)
		store_check(&g, &q.Check);
	for (uint32_t i = 0; i < q.Checks.n; i++)
		store_check(&g, &checks[i]);
	if (g.touched)			/* once for all of them */
		catalog_node_services_touch(p->f, q.Node);
	apply_bool(p, true);
}

static void
register_warm(struct fsm *r, const void *rec)
{
	const struct catalog_register *q = rec;
	const struct check *checks = q->Checks.v;
	struct service s;
	struct check c;
	struct node n;
	struct tkey k;

	(void)catalog_node(r, q->Node, &r->work, &n);
	if (q->has_service && catalog_service(r, q->Node, q->Service.ID, &r->work, &s)) {
		TKEY(&k, TBL_INSTANCE, s.Service, q->Node, s.ID);
		(void)tbl_has(r, &k);
		if (catalog_connect_name(&s).len > 0) {
			TKEY(&k, TBL_CONNECT, catalog_connect_name(&s), q->Node, s.ID);
			(void)tbl_has(r, &k);
		}
	}
	if (q->has_check)
		(void)catalog_check(r, q->Node, q->Check.CheckID, &r->work, &c);
	for (uint32_t i = 0; i < q->Checks.n && !warm_enough(r); i++)
		(void)catalog_check(r, q->Node, checks[i].CheckID, &r->work, &c);
}

static void
register_apply(struct apply *p, const void *rec)
{
	catalog_register_apply(p, rec);
}

/* As versions before the third have it: they keep no proxy. */
static void
register_apply_plain(struct apply *p, const void *rec)
{
	struct catalog_register q = *(const struct catalog_register *)rec;

	q.Service.Proxy = (struct service_proxy){ .Mode = SPAN_NONE };
	q.Service.Connect = (struct service_connect){ .Native = false };
	register_apply(p, &q);
}

bool
fsm_guards_nodes(const struct fsm *f)
{
	return fsm_needs(f) >= GUARD_SINCE;
}

/* That it was applied is all: the state remembers the version that it needs. */
static void
guard_apply(struct apply *p, const void *rec UNUSED)
{
	apply_bool(p, true);
}

const struct fsm_op register_ops[] = {
	{ OP_NODE_GUARD, .since = GUARD_SINCE, .apply = guard_apply },
	{ OP_CATALOG_REGISTER, .needs = register_needs, .prepare = register_prepare, .apply = register_apply_plain,
	    .warm = register_warm },
	{ OP_CATALOG_REGISTER_PROXY, .since = 3, .needs = register_needs, .prepare = register_prepare, .apply = register_apply,
	    .warm = register_warm },
	{ 0 },
};
