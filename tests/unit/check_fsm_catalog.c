/* Catalog and health: registration rules and errors, indexes, reads. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "raftd/fsm/state.h"
#include "tests/unit/fsm_kit.h"

#define ID1 "11111111-2222-4333-8444-555555555555"
#define ID2 "99999999-2222-4333-8444-555555555555"

static struct kit k;

static void
setup(void)
{
	kit_open(&k);
}

static void
teardown(void)
{
	kit_close(&k);
}

static uint64_t
service_index(const char *name)
{
	struct catalog_read q = { .Name = span_str(name) };
	uint64_t index = kit_index(&k, OP_CATALOG_SERVICE, &q);

	ck_assert_uint_eq(index, kit_index(&k, OP_HEALTH_SERVICE, &q));
	return index;
}

static unsigned
count(uint16_t op, const char *name)
{
	struct catalog_read q = { .Name = span_str(name) };

	return kit_read(&k, op, &q, NULL);
}

static bool
deregister(const char *node, const char *service, const char *check)
{
	struct catalog_deregister q = { .Node = span_str(node), .ServiceID = span_str(service),
	    .CheckID = span_str(check) };

	return kit_bool(&k, OP_CATALOG_DEREGISTER, &q);
}

/* -- nodes -- */

START_TEST(node_shape_and_indexes)
{
	const char *json;

	kit_node(&k, "b", "10.0.0.1");
	kit_node(&k, "A", "10.0.0.2");
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_NODES, &(struct catalog_read){ 0 }, &json), 2);
	ck_assert_str_eq(json,
	    "[{\"ID\":\"\",\"Node\":\"A\",\"Address\":\"10.0.0.2\",\"Datacenter\":\"dc1\","
	    "\"TaggedAddresses\":null,\"Meta\":null,"
	    "\"CreateIndex\":2,\"ModifyIndex\":2},"
	    "{\"ID\":\"\",\"Node\":\"b\",\"Address\":\"10.0.0.1\",\"Datacenter\":\"dc1\","
	    "\"TaggedAddresses\":null,\"Meta\":null,"
	    "\"CreateIndex\":1,\"ModifyIndex\":1}]");
	ck_assert_uint_eq(k.ans.index, 2);
	/* One by its name. */
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_NODES, &(struct catalog_read){ .Name = span_str("B") }, &json), 1);
	ck_assert(strstr(json, "\"Node\":\"b\"") != NULL && strstr(json, "\"A\"") == NULL);
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_NODES, &(struct catalog_read){ .Name = span_str("c") }, &json), 0);
	ck_assert_str_eq(json, "[]");
	kit_node(&k, "b", "10.0.0.1");				/* identical */
	ck_assert_uint_eq(kit_index(&k, OP_CATALOG_NODES, &(struct catalog_read){ 0 }), 2);
	kit_node(&k, "b", "10.0.0.9");
	ck_assert_uint_eq(kit_index(&k, OP_CATALOG_NODES, &(struct catalog_read){ 0 }), 4);
}
END_TEST

START_TEST(skip_node_update)
{
	struct catalog_register q = { .Node = span_str("n"), .Address = span_str("10.0.0.9"), .SkipNodeUpdate = true };
	struct span status;
	struct node n;

	kit_node(&k, "n", "10.0.0.1");
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	ck_assert(fsm_node_health(k.f, span_str("n"), &k.a, &n, &status));
	ck_assert(span_eqs(n.Address, "10.0.0.1"));
	ck_assert_uint_eq(status.len, 0);
	q.Node = span_str("fresh");
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	ck_assert(fsm_node_health(k.f, span_str("FRESH"), &k.a, &n, &status));
}
END_TEST

static const struct {
	const char *id, *node, *address, *service_id, *service, *service_address, *text;
} refusals[] = {
	{ "", "", "", "", "", "", "Must provide node" },
	{ "", "n", "", "", "", "", "Must provide address if SkipNodeUpdate is not set" },
	{ "abc", "n", "10.0.0.1", "", "", "", "Bad node ID: uuid string is wrong length" },
	{ "11111111-2222-4333-8444-55555555555z", "n", "10.0.0.1", "", "", "",
	    "Bad node ID: uuid is improperly formatted" },
	{ "", "n", "10.0.0.1", "x", "", "", "Must provide service name with ID" },
	{ "", "n", "10.0.0.1", "x", "web", "0.0.0.0", "Invalid service address" },
	{ "", "n", "10.0.0.1", "x", "web", "::", "Invalid service address" },
};

START_TEST(register_refused)
{
	for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct catalog_register q = { .ID = span_str(refusals[i].id), .Node = span_str(refusals[i].node),
		    .Address = span_str(refusals[i].address) };

		q.has_service = refusals[i].service_id[0] != '\0';
		q.Service.ID = span_str(refusals[i].service_id);
		q.Service.Service = span_str(refusals[i].service);
		q.Service.Address = span_str(refusals[i].service_address);
		kit_refused(&k, OP_CATALOG_REGISTER, &q, refusals[i].text);
	}
	ck_assert_uint_eq(count(OP_CATALOG_NODES, ""), 0);
}
END_TEST

START_TEST(refused_check_changes_nothing)
{
	struct catalog_register q = { .Node = span_str("n"), .Address = span_str("10.0.0.1"), .has_service = true,
	    .has_check = true };

	q.Service.Service = span_str("web");
	q.Check.Name = span_str("c");
	q.Check.ServiceID = span_str("other");
	kit_refused(&k, OP_CATALOG_REGISTER, &q, "failed inserting check: Missing service registration on node \"n\"");
	ck_assert_uint_eq(count(OP_CATALOG_NODES, ""), 0);
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "web"), 0);
	q.Check.ServiceID = SPAN_NONE;
	q.Check.Node = span_str("m");
	kit_refused(&k, OP_CATALOG_REGISTER, &q, "check node \"m\" does not match node \"n\"");
	ck_assert_uint_eq(count(OP_CATALOG_NODES, ""), 0);
}
END_TEST

static struct catalog_register
node_with_id(const char *id, const char *name)
{
	return (struct catalog_register){ .ID = span_str(id), .Node = span_str(name), .Address = span_str("10.0.0.1") };
}

START_TEST(rename_by_id)
{
	struct catalog_register q = node_with_id(ID1, "n");
	const char *json;

	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	kit_service(&k, "n", "web1", "web", NULL);
	q = node_with_id(ID1, "m");
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_NODES, &(struct catalog_read){ 0 }, &json), 1);
	ck_assert_ptr_nonnull(strstr(json, "\"Node\":\"m\""));
	ck_assert_ptr_nonnull(strstr(json, "\"CreateIndex\":1,"));
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "web"), 0);
	q = node_with_id(ID1, "");				/* by ID alone */
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	q = node_with_id(ID2, "");
	kit_refused(&k, OP_CATALOG_REGISTER, &q, "Must provide node");
}
END_TEST

START_TEST(name_is_reserved_while_alive)
{
	struct catalog_register q = node_with_id(ID1, "n");
	struct span status;
	struct node n;

	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	kit_check(&k, "n", "serfHealth", NULL, "passing");
	q = node_with_id(ID2, "N");
	kit_refused(&k, OP_CATALOG_REGISTER, &q,
	    "failed inserting node: Error while renaming Node ID: \"" ID2 "\": Node name N "
	    "is reserved by node " ID1 " with name n (10.0.0.1)");
	kit_check(&k, "n", "serfHealth", NULL, "critical");
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	ck_assert_uint_eq(count(OP_CATALOG_NODES, ""), 1);
	ck_assert(fsm_node_health(k.f, span_str("n"), &k.a, &n, &status));
	ck_assert(span_eqs(n.ID, ID2));
	q = node_with_id(ID1, "other");				/* the old ID is free again */
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	ck_assert_uint_eq(count(OP_CATALOG_NODES, ""), 2);
}
END_TEST

/* The node n with ID1 lives, and has a service. */
static void
live_node(void)
{
	struct catalog_register q = node_with_id(ID1, "n");

	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	kit_check(&k, "n", "serfHealth", NULL, "passing");
	kit_service(&k, "n", "web", "web", NULL);
}

static void
n_is_as_it_was(void)
{
	struct span status;
	struct node n;

	ck_assert(fsm_node_of_id(k.f, span_str(ID1), &k.a, &n, &status));
	ck_assert(span_eqs(n.Node, "n") && span_eqs(n.Address, "10.0.0.1") && span_eqs(status, "passing"));
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "web"), 1);
	ck_assert_uint_eq(count(OP_CATALOG_NODES, ""), 1);
}

START_TEST(living_node_is_guarded)
{
	struct catalog_register q;
	struct catalog_deregister d = { .Node = span_str("N"), .ServiceID = span_str("web"), .ID = span_str(ID2) };
	struct span status;
	struct node n;

	ck_assert(!fsm_guards_nodes(k.f));
	ck_assert(kit_bool(&k, OP_NODE_GUARD, ""));
	ck_assert(fsm_guards_nodes(k.f));
	live_node();
	q = node_with_id(ID1, "other");				/* its id under another name */
	kit_refused(&k, OP_CATALOG_REGISTER, &q, "failed inserting node: Error while renaming Node ID: \"" ID1 "\" (10.0.0.1): "
	    "that ID is of node n (10.0.0.1), which is alive");
	q.SkipNodeUpdate = true;
	ck_assert_int_eq(kit_apply(&k, OP_CATALOG_REGISTER, &q).err, TV_ECONFLICT);
	q = node_with_id(ID2, "N");				/* its name with another id, as agents write their services */
	q.SkipNodeUpdate = true;
	kit_refused(&k, OP_CATALOG_REGISTER, &q, "failed inserting node: Node name N is reserved by node " ID1
	    " with name n (10.0.0.1), which is alive");
	q = (struct catalog_register){ .Node = span_str("N"), .Address = span_str("10.9.9.9") };	/* its name without an id */
	ck_assert_int_eq(kit_apply(&k, OP_CATALOG_REGISTER, &q).err, TV_ECONFLICT);
	kit_refused(&k, OP_CATALOG_DEREGISTER, &d, "Node name N is reserved by node " ID1 " with name n (10.0.0.1)");
	d.ServiceID = SPAN_NONE;				/* the whole node */
	ck_assert_int_eq(kit_apply(&k, OP_CATALOG_DEREGISTER, &d).err, TV_ECONFLICT);
	n_is_as_it_was();
	q.Address = span_str("10.0.0.1");			/* no other node: its record stays as it is */
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	n_is_as_it_was();
	kit_check(&k, "n", "serfHealth", NULL, "critical");	/* dead: in peace */
	q = node_with_id(ID1, "other");
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	ck_assert(fsm_node_of_id(k.f, span_str(ID1), &k.a, &n, &status) && span_eqs(n.Node, "other"));
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "web"), 0);
}
END_TEST

/* Before all servers can, an entry means what it always did. */
START_TEST(guard_begins_with_its_entry)
{
	struct catalog_deregister d = { .Node = span_str("n"), .ServiceID = span_str("web"), .ID = span_str(ID2) };
	struct catalog_register q = node_with_id(ID1, "other");

	live_node();
	ck_assert(kit_bool(&k, OP_CATALOG_DEREGISTER, &d));
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "web"), 0);
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	ck_assert_uint_eq(count(OP_CATALOG_NODES, ""), 1);
}
END_TEST

static bool
node_is_there(const char *name)
{
	struct span status;
	struct node n;

	return fsm_node_health(k.f, span_str(name), &k.a, &n, &status);
}

/*
 * Machines that are renamed, made anew under an old name, or copied, in any order: once those that were are dead, each of
 * those that are there is registered, and nothing else is left under their names and ids.
 */
START_TEST(names_and_ids_in_any_order)
{
	static const char *const ids[] = { ID1, ID2, "00000000-0000-4000-8000-00000000abcd", NULL };
	static const char *const names[] = { "a", "b", "c" };
	struct rng g;

	rng_seed(&g, 155);
	for (unsigned life = 0; life < 200; life++) {
		unsigned order[] = { 0, 1, 2 };

		for (unsigned i = 0; i < 12; i++) {
			const char *id = ids[rng_below(&g, 4)], *name = names[rng_below(&g, 3)];
			struct catalog_register q = { .ID = id == NULL ? SPAN_NONE : span_str(id), .Node = span_str(name),
			    .Address = span_str("10.0.0.1") };

			if (kit_apply(&k, OP_CATALOG_REGISTER, &q).err == TV_OK)
				kit_check(&k, name, "serfHealth", NULL, rng_below(&g, 2) == 0 ? "passing" : "critical");
		}
		/* Gossip tells who has died. */
		for (unsigned i = 0; i < 3; i++)
			if (node_is_there(names[i]))
				kit_check(&k, names[i], "serfHealth", NULL, "critical");
		for (unsigned i = 0; i < 3; i++) {
			unsigned j = i + (unsigned)rng_below(&g, 3 - i), t = order[i];

			order[i] = order[j];
			order[j] = t;
		}
		for (unsigned round = 0; round < 2; round++)
			for (unsigned i = 0; i < 3; i++) {
				struct catalog_register q = node_with_id(ids[order[i]], names[i]);
				struct span status;
				struct node n;

				ck_assert_msg(kit_apply(&k, OP_CATALOG_REGISTER, &q).err == TV_OK, "life %u, round %u", life, round);
				kit_check(&k, names[i], "serfHealth", NULL, "passing");
				ck_assert(fsm_node_health(k.f, span_str(names[i]), &k.a, &n, &status));
				ck_assert(span_eqs(n.ID, ids[order[i]]) && span_eqs(status, "passing"));
			}
		ck_assert_uint_eq(count(OP_CATALOG_NODES, ""), 3);
	}
}
END_TEST

START_TEST(node_without_id_gets_one)
{
	struct catalog_register q = node_with_id(ID1, "n");

	kit_node(&k, "n", "10.0.0.1");
	kit_check(&k, "n", "serfHealth", NULL, "passing");
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	ck_assert_uint_eq(count(OP_CATALOG_NODES, ""), 1);
}
END_TEST

/* -- services -- */

START_TEST(service_shapes)
{
	const char *json;
	struct catalog_read q = { .Name = span_str("WEB") };

	kit_node(&k, "n", "10.0.0.1");
	kit_service(&k, "n", "", "Web", NULL);			/* the ID defaults to the name */
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_SERVICE, &q, &json), 1);
	ck_assert_str_eq(json,
	    "[{\"ID\":\"\",\"Node\":\"n\",\"Address\":\"10.0.0.1\",\"Datacenter\":\"dc1\",\"TaggedAddresses\":null,"
	    "\"NodeMeta\":null,\"ServiceKind\":\"\",\"ServiceID\":\"Web\",\"ServiceName\":\"Web\",\"ServiceTags\":[],"
	    "\"ServiceAddress\":\"\","
	    "\"ServiceWeights\":{\"Passing\":1,\"Warning\":1},\"ServiceMeta\":{},\"ServicePort\":0,"
	    "\"ServiceSocketPath\":\"\",\"ServiceEnableTagOverride\":false,"
	    "\"CreateIndex\":2,\"ModifyIndex\":2,"
	    "\"ServiceProxy\":{\"Mode\":\"\",\"MeshGateway\":{},\"Expose\":{}},\"ServiceConnect\":{}}]");
	q.Name = span_str("N");
	kit_read(&k, OP_CATALOG_NODE, &q, &json);
	ck_assert_ptr_nonnull(strstr(json, "\"Services\":[{\"ID\":\"Web\""));
	deregister("n", "Web", "");
	kit_read(&k, OP_CATALOG_NODE, &q, &json);
	ck_assert_ptr_nonnull(strstr(json, "\"Services\":null"));
	q.Name = span_str("none");
	kit_read(&k, OP_CATALOG_NODE, &q, &json);
	ck_assert_str_eq(json, "{\"Node\":null,\"Services\":null}");
}
END_TEST

static const char *
owner(const char *address)
{
	const char *json;

	kit_read(&k, OP_CATALOG_ADDRESS, &(struct catalog_read){ .Name = span_str(address) }, &json);
	return json;
}

#define OWNED(node_, service_) "[{\"Node\":\"" node_ "\",\"Service\":\"" service_ "\"}]"

/* The first node by name, else the first instance of a service; however an address is written. */
START_TEST(owners_of_addresses)
{
	struct catalog_register q = { .Node = span_str("a"), .SkipNodeUpdate = true, .has_service = true };

	kit_node(&k, "a", "10.0.0.1");
	kit_node(&k, "c", "10.0.0.3");
	kit_node(&k, "b", "10.0.0.3");
	kit_node(&k, "six", "2001:DB8:0::1");
	kit_node(&k, "mapped", "::ffff:10.0.0.9");
	kit_node(&k, "host", "www.example.net");
	q.Service.Service = span_str("Web");
	q.Service.Address = span_str("10.0.0.7");
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	q.Service.Service = span_str("same");
	q.Service.Address = span_str("10.0.0.1");
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	kit_service(&k, "a", "bare", "bare", "t");
	ck_assert_str_eq(owner("10.0.0.1"), OWNED("a", ""));
	ck_assert_str_eq(owner("::ffff:10.0.0.1"), OWNED("a", ""));
	ck_assert_str_eq(owner("10.0.0.3"), OWNED("b", ""));
	ck_assert_str_eq(owner("2001:db8::1"), OWNED("six", ""));
	ck_assert_str_eq(owner("2001:db8:0:0::0:1"), OWNED("six", ""));
	ck_assert_str_eq(owner("10.0.0.9"), OWNED("mapped", ""));
	ck_assert_str_eq(owner("10.0.0.7"), OWNED("", "Web"));
	ck_assert_str_eq(owner("10.0.0.8"), "[]");
	ck_assert_str_eq(owner("www.example.net"), "[]");
	ck_assert_str_eq(owner(""), "[]");
	deregister("a", "", "");
	ck_assert_str_eq(owner("10.0.0.1"), "[]");
	ck_assert_str_eq(owner("10.0.0.7"), "[]");
}
END_TEST

START_TEST(selection)
{
	struct span tags[2] = { span_str("A"), span_str("b") };
	struct span meta[1][2] = { { span_str("r"), span_str("2") } };
	struct catalog_register reg = { .Node = span_str("m"), .Address = span_str("10.0.0.2"), .has_service = true,
	    .NodeMeta = { .kv = meta, .n = 1, .set = true } };
	struct catalog_read q = { .Name = span_str("web") };

	kit_node(&k, "n", "10.0.0.1");
	kit_service(&k, "n", "web1", "web", "a");
	reg.Service.ID = span_str("web2");
	reg.Service.Service = span_str("web");
	reg.Service.Tags = (struct span_list){ .v = tags, .n = 2, .set = true };
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &reg));
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_SERVICE, &q, NULL), 2);
	q.Tags = (struct span_list){ .v = tags, .n = 1, .set = true };
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_SERVICE, &q, NULL), 2);	/* without regard to case */
	q.Tags.n = 2;
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_SERVICE, &q, NULL), 1);
	ck_assert_uint_eq(kit_read(&k, OP_HEALTH_SERVICE, &q, NULL), 1);
	q.Tags = (struct span_list){ 0 };
	q.NodeMeta = reg.NodeMeta;
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_SERVICE, &q, NULL), 1);
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_SERVICES, &q, NULL), 1);
	q.Name = SPAN_NONE;
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_NODES, &q, NULL), 1);
}
END_TEST

START_TEST(services_with_tags)
{
	const char *json;

	kit_node(&k, "n", "10.0.0.1");
	kit_node(&k, "m", "10.0.0.2");
	kit_service(&k, "n", "w1", "web", "a");
	kit_service(&k, "n", "w2", "web", "b");
	kit_service(&k, "m", "w1", "web", "a");
	kit_service(&k, "m", "w3", "WEB", "c");
	kit_service(&k, "m", "x", "api", NULL);
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_SERVICES, &(struct catalog_read){ 0 }, &json), 3);
	ck_assert_str_eq(json,
	    "[{\"Name\":\"api\",\"Tags\":[]},"
	    "{\"Name\":\"web\",\"Tags\":[\"a\",\"b\"]},{\"Name\":\"WEB\",\"Tags\":[\"c\"]}]");
}
END_TEST

START_TEST(service_indexes)
{
	uint64_t web, extinct;

	kit_node(&k, "n", "10.0.0.1");
	ck_assert_uint_eq(service_index("none"), 1);		/* no extinction yet: nodes and services */
	kit_service(&k, "n", "web1", "web", NULL);
	web = service_index("web");
	ck_assert_uint_eq(web, 2);
	kit_service(&k, "n", "api1", "api", NULL);
	ck_assert_uint_eq(service_index("web"), web);
	kit_service(&k, "n", "web1", "web", NULL);		/* identical */
	ck_assert_uint_eq(service_index("web"), web);
	kit_check(&k, "n", "c", "api1", "passing");
	ck_assert_uint_eq(service_index("web"), web);
	kit_check(&k, "n", "c2", "web1", "passing");
	ck_assert_uint_eq(service_index("web"), fsm_applied(k.f));
	kit_check(&k, "n", "nodecheck", NULL, "passing");	/* of the node: all its services */
	ck_assert_uint_eq(service_index("web"), fsm_applied(k.f));
	kit_node(&k, "n", "10.0.0.77");
	ck_assert_uint_eq(service_index("api"), fsm_applied(k.f));
	kit_check(&k, "n", "c2", "web1", "passing");		/* identical */
	ck_assert_uint_lt(service_index("web"), fsm_applied(k.f));
	deregister("n", "web1", "");
	extinct = fsm_applied(k.f);
	ck_assert_uint_eq(service_index("web"), extinct);
	ck_assert_uint_eq(service_index("none"), extinct);
	ck_assert_uint_lt(service_index("api"), extinct);
}
END_TEST

START_TEST(id_moves_to_another_name)
{
	kit_node(&k, "n", "10.0.0.1");
	kit_service(&k, "n", "x", "web", NULL);
	kit_service(&k, "n", "x", "api", NULL);
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "web"), 0);
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "api"), 1);
	ck_assert_uint_eq(service_index("web"), fsm_applied(k.f));
	deregister("n", "x", "");
	ck_assert_uint_eq(count(OP_CATALOG_SERVICES, ""), 0);
}
END_TEST

/* -- checks and health -- */

START_TEST(check_shape)
{
	struct catalog_register q = { .Node = span_str("n"), .Address = span_str("10.0.0.1"), .has_check = true };
	const char *json;

	q.Check.Name = span_str("disk");
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	ck_assert_uint_eq(kit_read(&k, OP_HEALTH_NODE, &(struct catalog_read){ .Name = span_str("N") }, &json), 1);
	ck_assert_str_eq(json,
	    "[{\"Node\":\"n\",\"CheckID\":\"disk\",\"Name\":\"disk\",\"Status\":\"critical\",\"Notes\":\"\","
	    "\"Output\":\"\","
	    "\"ServiceID\":\"\",\"ServiceName\":\"\",\"ServiceTags\":[],\"Type\":\"\",\"ExposedPort\":0,"
	    "\"Definition\":{},\"CreateIndex\":1,\"ModifyIndex\":1}]");
	q.Check.Definition.HTTP = span_str("http://x/");
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	kit_read(&k, OP_HEALTH_NODE, &(struct catalog_read){ .Name = span_str("n") }, &json);
	ck_assert_ptr_nonnull(strstr(json, "\"Type\":\"http\""));
	ck_assert_ptr_nonnull(strstr(json, "\"CreateIndex\":1,\"ModifyIndex\":2"));
}
END_TEST

/* Fields of definitions that older servers do not keep: an entry with one needs a version that does. */
START_TEST(later_fields_of_definitions)
{
	struct check more[2] = { { .CheckID = span_str("a") }, { .CheckID = span_str("b"), .Definition = { .TCPUseTLS = true } } };
	struct catalog_register q = { .Node = span_str("n"), .Address = span_str("10.0.0.1"), .has_check = true,
	    .Check = { .CheckID = span_str("c"), .Definition = { .HTTP = span_str("http://x/"), .TLSServerName = span_str("x"),
	    .Header = span_str("{\"A\":[\"b\"]}") } } };
	struct txn_op ops[2] = { { .has_kv = true, .KV = { .Verb = span_str("set"), .Key = span_str("k") } }, { .has_check = true } };
	struct txn t = { .Ops = { ops, 2, true } };
	struct buf args = BUF_INIT(1u << 16);
	const char *json;

#define NEEDS(op_, schema_, rec_) (buf_reset(&args), schema_pack(schema_, rec_, &args), \
	    fsm_entry_version(op_, buf_span(&args), false))
	ck_assert_uint_eq(NEEDS(OP_CATALOG_REGISTER, &catalog_register_schema, &q), 1);
	q.Checks = (struct obj_list){ more, 1, true };
	ck_assert_uint_eq(NEEDS(OP_CATALOG_REGISTER, &catalog_register_schema, &q), 1);
	q.Checks.n = 2;
	ck_assert_uint_eq(NEEDS(OP_CATALOG_REGISTER, &catalog_register_schema, &q), FSM_CHECK_FIELDS_SINCE);
	q.Checks.n = 0;
	q.Check.Definition.DisableRedirects = true;
	ck_assert_uint_eq(NEEDS(OP_CATALOG_REGISTER_PROXY, &catalog_register_schema, &q), FSM_CHECK_FIELDS_SINCE);
	ops[1].Check = (struct txn_check){ span_str("set"), { .Node = span_str("n"), .CheckID = span_str("t") } };
	ck_assert_uint_eq(NEEDS(OP_TXN_APPLY, &txn_schema, &t), 4);
	ops[1].Check.Check.Definition.UDP = span_str("h:1");
	ck_assert_uint_eq(NEEDS(OP_TXN_APPLY, &txn_schema, &t), FSM_CHECK_FIELDS_SINCE);
	for (size_t cut = 0; cut < args.len; cut++)
		(void)fsm_entry_version(OP_TXN_APPLY, span_of(args.data, cut), false);
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q) && fsm_needs(k.f) == FSM_CHECK_FIELDS_SINCE);
	(void)kit_apply(&k, OP_TXN_APPLY, &t);
	ck_assert_uint_eq(kit_read(&k, OP_HEALTH_NODE, &(struct catalog_read){ .Name = span_str("n") }, &json), 2);
	ck_assert_ptr_nonnull(strstr(json, "\"TLSServerName\":\"x\",\"DisableRedirects\":true}"));
	ck_assert_ptr_nonnull(strstr(json, "\"Type\":\"udp\",\"ExposedPort\":0,\"Definition\":{\"UDP\":\"h:1\"}"));
	buf_done(&args);
#undef NEEDS
}
END_TEST

START_TEST(checks_of_instances)
{
	struct catalog_read q = { .Name = span_str("web"), .Passing = true };
	const char *json;

	kit_node(&k, "n", "10.0.0.1");
	kit_service(&k, "n", "web1", "web", "t");
	kit_service(&k, "n", "web2", "web", NULL);
	kit_service(&k, "n", "web3", "web", NULL);
	kit_check(&k, "n", "c1", "web1", "passing");
	kit_check(&k, "n", "c2", "web2", "critical");
	kit_check(&k, "n", "nc", NULL, "passing");
	ck_assert_uint_eq(count(OP_HEALTH_SERVICE, "web"), 3);
	/* web1, and web3 that has no checks of its own */
	ck_assert_uint_eq(kit_read(&k, OP_HEALTH_SERVICE, &q, &json), 2);
	ck_assert_ptr_nonnull(strstr(json, "\"CheckID\":\"c1\""));
	ck_assert_ptr_nonnull(strstr(json, "\"CheckID\":\"nc\""));
	ck_assert_ptr_null(strstr(json, "\"CheckID\":\"c2\""));
	ck_assert_uint_eq(kit_read(&k, OP_HEALTH_CHECKS, &q, &json), 2);
	ck_assert_ptr_nonnull(strstr(json, "\"ServiceName\":\"web\",\"ServiceTags\":[\"t\"]"));
	kit_check(&k, "n", "nc", NULL, "critical");
	ck_assert_uint_eq(kit_read(&k, OP_HEALTH_SERVICE, &q, NULL), 0);
	ck_assert_uint_eq(count(OP_HEALTH_STATE, "critical"), 2);
	ck_assert_uint_eq(count(OP_HEALTH_STATE, "any"), 3);
	ck_assert_uint_eq(count(OP_HEALTH_STATE, "bogus"), 0);
}
END_TEST

/* -- proxies -- */

static struct catalog_register
proxy(const char *id, const char *to)
{
	return (struct catalog_register){ .Node = span_str("n"), .SkipNodeUpdate = true, .has_service = true,
	    .Service = { .ID = span_str(id), .Service = span_str("side"), .Kind = span_str("connect-proxy"), .Port = 20000,
	    .Proxy = { .DestinationServiceName = span_str(to), .Config = span_str("{\"a\":[1.5,null]}") } } };
}

static void
put_proxy(const char *id, const char *to)
{
	struct catalog_register q = proxy(id, to);

	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER_PROXY, &q));
}

static uint64_t
connect_index(const char *name)
{
	struct catalog_read q = { .Name = span_str(name) };
	uint64_t index = kit_index(&k, OP_CATALOG_CONNECT, &q);

	ck_assert_uint_eq(index, kit_index(&k, OP_HEALTH_CONNECT, &q));
	return index;
}

START_TEST(proxies_by_destination)
{
	struct catalog_register native = { .Node = span_str("n"), .SkipNodeUpdate = true, .has_service = true,
	    .Service = { .Service = span_str("web"), .Connect = { .Native = true } } };
	const char *json;

	kit_node(&k, "n", "10.0.0.1");
	kit_service(&k, "n", "w1", "web", NULL);
	ck_assert_uint_eq(count(OP_CATALOG_CONNECT, "web"), 0);		/* a plain one is none */
	put_proxy("p1", "web");
	put_proxy("p2", "WEB");
	put_proxy("p3", "db");
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER_PROXY, &native));
	ck_assert_uint_eq(count(OP_CATALOG_CONNECT, "Web"), 3);
	ck_assert_uint_eq(count(OP_HEALTH_CONNECT, "web"), 3);
	ck_assert_uint_eq(count(OP_CATALOG_CONNECT, "side"), 0);
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "side"), 3);
	ck_assert_uint_eq(kit_read(&k, OP_CATALOG_CONNECT, &(struct catalog_read){ .Name = span_str("db") }, &json), 1);
	ck_assert_ptr_nonnull(strstr(json, "\"ServiceProxy\":{\"DestinationServiceName\":\"db\",\"Mode\":\"\","
	    "\"Config\":{\"a\":[1.5,null]},\"MeshGateway\":{},\"Expose\":{}},\"ServiceConnect\":{}"));
	put_proxy("p3", "web");						/* goes over to another one */
	ck_assert_uint_eq(count(OP_CATALOG_CONNECT, "db"), 0);
	ck_assert_uint_eq(count(OP_CATALOG_CONNECT, "web"), 4);
	deregister("n", "p1", "");
	ck_assert_uint_eq(count(OP_CATALOG_CONNECT, "web"), 3);
	/* As a plain service it is no proxy any more, and native no longer. */
	kit_service(&k, "n", "web", "web", NULL);
	ck_assert_uint_eq(count(OP_CATALOG_CONNECT, "web"), 2);
	deregister("n", "", "");
	ck_assert_uint_eq(count(OP_CATALOG_CONNECT, "web"), 0);
	ck_assert_uint_eq(connect_index("web"), connect_index("never"));	/* of what went last */
}
END_TEST

/* Changes of the proxies alone raise it, with their checks, those of their node, and the node. */
START_TEST(indexes_of_proxies)
{
	uint64_t index;

	kit_node(&k, "n", "10.0.0.1");
	kit_service(&k, "n", "w1", "web", NULL);
	put_proxy("p1", "web");
	put_proxy("p2", "web");
	index = connect_index("web");
	put_proxy("p3", "db");
	put_proxy("p1", "web");				/* identical */
	kit_service(&k, "n", "w1", "web", "t");
	kit_check(&k, "n", "c1", "w1", "passing");
	ck_assert_uint_eq(connect_index("web"), index);
#define RAISED(...) do { __VA_ARGS__; ck_assert_uint_gt(connect_index("web"), index); index = connect_index("web"); } while (0)
	RAISED(kit_check(&k, "n", "c2", "p1", "passing"));
	RAISED(kit_check(&k, "n", "c2", "p1", "critical"));
	RAISED(kit_check(&k, "n", "c2", "w1", "critical"));	/* another's now */
	RAISED(kit_check(&k, "n", "nc", NULL, "passing"));
	RAISED(deregister("n", "", "nc"));
	RAISED(kit_node(&k, "n", "10.0.0.9"));
	RAISED(put_proxy("p2", "db"));
	RAISED(deregister("n", "p1", ""));
#undef RAISED
}
END_TEST

/* What versions before the third do with it, all servers do: they leave it out. */
START_TEST(proxies_of_older_versions)
{
	struct catalog_register q = proxy("p1", "web");
	const char *json;

	kit_node(&k, "n", "10.0.0.1");
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	ck_assert_uint_eq(count(OP_CATALOG_CONNECT, "web"), 0);
	kit_read(&k, OP_CATALOG_SERVICE, &(struct catalog_read){ .Name = span_str("side") }, &json);
	ck_assert_ptr_nonnull(strstr(json, "\"ServiceProxy\":{\"Mode\":\"\",\"MeshGateway\":{},\"Expose\":{}}"));
	ck_assert_uint_eq(fsm_op_version(OP_CATALOG_REGISTER), 1);
	ck_assert_uint_eq(fsm_op_version(OP_CATALOG_REGISTER_PROXY), 3);
}
END_TEST

/* The operation that a registration becomes before the log. */
static uint16_t
prepared_op(const struct catalog_register *q)
{
	struct buf packed = BUF_INIT(1u << 16), ready = BUF_INIT(1u << 16);
	uint16_t op = OP_CATALOG_REGISTER;
	struct span why;

	schema_pack(&catalog_register_schema, q, &packed);
	ck_assert_int_eq(fsm_prepare(k.f, &op, buf_span(&packed), k.now, "", &ready, &k.a, &why), TV_OK);
	buf_done(&packed);
	buf_done(&ready);
	return op;
}

START_TEST(proxies_have_an_operation)
{
	struct catalog_register q = proxy("p1", "web");

	ck_assert_uint_eq(prepared_op(&q), OP_CATALOG_REGISTER_PROXY);
	q.Service.Kind = SPAN_NONE;
	q.Service.Proxy = (struct service_proxy){ .Mode = SPAN_NONE };
	ck_assert_uint_eq(prepared_op(&q), OP_CATALOG_REGISTER);
	q.Service.Connect.Native = true;
	ck_assert_uint_eq(prepared_op(&q), OP_CATALOG_REGISTER_PROXY);
}
END_TEST

START_TEST(proxies_refused)
{
	struct catalog_register q = proxy("p", "");
	struct upstream up[2] = { { .DestinationName = span_str("a"), .LocalBindPort = 1 },
		{ .DestinationName = span_str("a"), .LocalBindPort = 1 } };

	kit_node(&k, "n", "10.0.0.1");
	kit_refused(&k, OP_CATALOG_REGISTER, &q, "1 error occurred:\n\t* Proxy.DestinationServiceName must be non-empty for "
	    "Connect proxy services\n\n");
	q.Service.Port = 0;
	q.Service.Proxy.DestinationServiceName = span_str("*");
	q.Service.Proxy.Upstreams = (struct obj_list){ up, 2, true };
	kit_refused(&k, OP_CATALOG_REGISTER, &q, "3 errors occurred:\n"
	    "\t* Proxy.DestinationServiceName must not be a wildcard for Connect proxy services\n"
	    "\t* Port or SocketPath must be set for a Connect proxy\n"
	    "\t* upstreams cannot contain duplicates of [type=\"service\", name=\"a\", namespace=\"\", datacenter=\"\"]\n\n");
	q.Service.Kind = span_str("mesh-gateway");
	q.Service.Proxy.Upstreams.n = 0;
	kit_refused(&k, OP_CATALOG_REGISTER, &q, "2 errors occurred:\n\t* Port must be non-zero for a mesh-gateway\n"
	    "\t* The Proxy.DestinationServiceName configuration is invalid for a mesh-gateway\n\n");
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "side"), 0);
}
END_TEST

/* Pages that were looked at so far: a measure of work that is the same on every machine. */
static uint64_t
pages_looked_at(void)
{
	DB_MPOOL_STAT *st;
	uint64_t n;

	ck_assert_int_eq(k.f->env->dbenv->memp_stat(k.f->env->dbenv, &st, NULL, 0), 0);
	n = (uint64_t)st->st_cache_hit + st->st_cache_miss;
	free(st);
	return n;
}

/* As many instances on one node, with a check each. */
static void
crowd(const char *node, unsigned instances)
{
	kit_node(&k, node, "10.0.0.1");
	kit_check(&k, node, "m", NULL, "passing");
	for (unsigned i = 0; i < instances; i++) {
		char id[16], check[16];

		snprintf(id, sizeof(id), "%s%u", i % 2 ? "Web" : "web", i);
		snprintf(check, sizeof(check), "c%03u", i);
		kit_service(&k, node, id, "web", NULL);
		kit_check(&k, node, check, id, i % 10 == 3 ? "critical" : "passing");
	}
	kit_check(&k, node, "z", "web1", "passing");
	kit_check(&k, node, "a", "WEB1", "passing");
}

/* Each shows its own checks and those of the node, in the order of their ids. */
static void
check_crowd(const char *json, unsigned instances)
{
	for (unsigned i = 0; i < instances; i++) {
		static const char mark[] = "\"CheckID\":\"";
		char id[24], want[64], found[64] = "";
		const char *at, *end;

		snprintf(id, sizeof(id), "\"ID\":\"%s%u\"", i % 2 ? "Web" : "web", i);
		at = strstr(json, id);
		ck_assert_ptr_nonnull(at);
		end = strstr(at, "\"Service\":{");		/* the next instance */
		snprintf(want, sizeof(want), i == 1 ? "a c001 m z " : "c%03u m ", i);
		while ((at = strstr(at, mark)) != NULL && (end == NULL || at < end)) {
			at += sizeof(mark) - 1;
			strncat(found, at, strcspn(at, "\""));
			strcat(found, " ");
		}
		ck_assert_str_eq(found, want);
	}
}

START_TEST(crowded_nodes)
{
	struct catalog_read q = { .Name = span_str("web") };
	uint64_t few, many;
	const char *json;

	crowd("b", 40);
	few = pages_looked_at();
	ck_assert_uint_eq(kit_read(&k, OP_HEALTH_SERVICE, &q, &json), 40);
	few = pages_looked_at() - few;
	check_crowd(json, 40);
	q.Passing = true;
	ck_assert_uint_eq(kit_read(&k, OP_HEALTH_SERVICE, &q, NULL), 36);
	kit_check(&k, "b", "m", NULL, "warning");
	ck_assert_uint_eq(kit_read(&k, OP_HEALTH_SERVICE, &q, NULL), 0);
	ck_assert(deregister("b", "", ""));
	crowd("c", 400);
	many = pages_looked_at();
	ck_assert_uint_eq(count(OP_HEALTH_SERVICE, "web"), 400);
	many = pages_looked_at() - many;
	ck_assert_msg(many < 2 * 10 * few, "%llu and %llu", (unsigned long long)few, (unsigned long long)many);
	kit_node(&k, "d", "10.0.0.2");
	kit_service(&k, "d", "web1", "web", NULL);
	ck_assert_uint_eq(count(OP_HEALTH_SERVICE, "web"), 401);
}
END_TEST

/* Checks of a node in one registration, and the pages that it looks at. */
static uint64_t
work_of_checks(unsigned count, const char *status)
{
	struct check checks[40] = { { .Name = SPAN_NONE } };
	struct catalog_register q = { .Node = span_str("n"), .SkipNodeUpdate = true };
	char names[40][8];
	uint64_t before;

	for (unsigned i = 0; i < count; i++) {
		snprintf(names[i], sizeof(names[i]), "n%u", i);
		checks[i] = (struct check){ .Name = span_str(names[i]), .Status = span_str(status) };
	}
	q.Checks.v = checks;
	q.Checks.n = count;
	before = pages_looked_at();
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
	return pages_looked_at() - before;
}

/* Each of them changes the index of every service on the node, which is done once. */
START_TEST(many_checks_of_a_node_at_once)
{
	uint64_t one, many, index;

	crowd("n", 200);
	kit_service(&k, "n", "db", "db", NULL);
	one = work_of_checks(1, "passing");
	many = work_of_checks(40, "warning");
	ck_assert_msg(many < 5 * one, "%llu and %llu", (unsigned long long)one, (unsigned long long)many);
	ck_assert_uint_eq(count(OP_HEALTH_NODE, "n"), 203 + 40);
	index = service_index("db");
	ck_assert_uint_eq(index, service_index("web"));
	(void)work_of_checks(40, "warning");
	ck_assert_uint_eq(index, service_index("db"));
	(void)work_of_checks(2, "critical");
	ck_assert_uint_gt(service_index("db"), index);
}
END_TEST

START_TEST(deregistration)
{
	kit_node(&k, "n", "10.0.0.1");
	kit_node(&k, "m", "10.0.0.2");
	kit_service(&k, "n", "web1", "web", NULL);
	kit_service(&k, "m", "web1", "web", NULL);
	kit_check(&k, "n", "c1", "web1", "passing");
	kit_check(&k, "n", "c2", NULL, "passing");
	kit_check(&k, "m", "c1", NULL, "passing");
	ck_assert(deregister("none", "", ""));
	ck_assert(deregister("n", "none", ""));
	ck_assert(deregister("n", "", "none"));
	ck_assert_uint_eq(count(OP_HEALTH_NODE, "n"), 2);
	ck_assert(deregister("N", "WEB1", ""));
	ck_assert_uint_eq(count(OP_HEALTH_NODE, "n"), 1);
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "web"), 1);
	ck_assert(deregister("n", "", "c2"));
	ck_assert_uint_eq(count(OP_HEALTH_NODE, "n"), 0);
	ck_assert(deregister("m", "", ""));
	ck_assert_uint_eq(count(OP_CATALOG_NODES, ""), 1);
	ck_assert_uint_eq(count(OP_HEALTH_STATE, "any"), 0);
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "web"), 0);
	kit_refused(&k, OP_CATALOG_DEREGISTER, &(struct catalog_deregister){ 0 }, "Must provide node");
}
END_TEST

/* Work of removing a node of so many services, each with a check. */
static uint64_t
work_of_removal(const char *node, unsigned services)
{
	uint64_t before;

	kit_node(&k, node, "10.0.0.1");
	kit_check(&k, node, "serfHealth", NULL, "passing");
	for (unsigned i = 0; i < services; i++) {
		char id[16], check[16];

		snprintf(id, sizeof(id), "s%u", i);
		snprintf(check, sizeof(check), "c%u", i);
		kit_service(&k, node, id, id, NULL);
		kit_check(&k, node, check, id, "passing");
	}
	ck_assert_uint_eq(count(OP_HEALTH_NODE, node), services + 1);
	before = pages_looked_at();
	ck_assert(deregister(node, "", ""));
	before = pages_looked_at() - before;
	ck_assert_uint_eq(count(OP_HEALTH_STATE, "any"), 0);
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "s1"), 0);
	return before;
}

/* All servers apply that at the same time, and nobody would hear a heartbeat meanwhile. */
START_TEST(removal_of_a_large_node_is_in_proportion)
{
	uint64_t few = work_of_removal("a", 50), many = work_of_removal("b", 400);

	ck_assert_msg(many < 2 * 8 * few, "%llu and %llu", (unsigned long long)few, (unsigned long long)many);
}
END_TEST

START_TEST(names_that_contain_each_other)
{
	kit_node(&k, "n", "10.0.0.1");
	kit_node(&k, "n1", "10.0.0.2");
	kit_service(&k, "n", "1web", "x", NULL);
	kit_service(&k, "n1", "web", "x1", NULL);
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "x"), 1);
	ck_assert(deregister("n", "", ""));
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "x1"), 1);
	ck_assert_uint_eq(count(OP_CATALOG_SERVICE, "x"), 0);
}
END_TEST

START_TEST(large_node)
{
	char id[16];

	kit_node(&k, "n", "10.0.0.1");
	for (int i = 0; i < 200; i++) {
		snprintf(id, sizeof(id), "s%d", i);
		kit_service(&k, "n", id, "web", NULL);
		kit_check(&k, "n", id, id, "passing");
	}
	kit_check(&k, "n", "nc", NULL, "passing");
	ck_assert_uint_eq(count(OP_HEALTH_SERVICE, "web"), 200);
	ck_assert(deregister("n", "", ""));
	ck_assert_uint_eq(count(OP_HEALTH_STATE, "any"), 0);
	ck_assert_uint_eq(count(OP_CATALOG_SERVICES, ""), 0);
}
END_TEST

/* A service of so many bytes, with `tags` tags beside that. */
static void
large_service(const char *id, size_t bytes, unsigned tags, unsigned checks, enum tv_err want)
{
	struct span kv[1][2] = { { span_str("m"), SPAN_NONE } }, *list = calloc(tags + 1, sizeof(*list));
	struct check *c = calloc(checks + 1, sizeof(*c));
	char *text = malloc(bytes + 1);
	struct catalog_register q = { .Node = span_str("n"), .Address = span_str("10.0.0.1"), .has_service = true,
	    .Service = { .ID = span_str(id), .Service = span_str("web"), .Tags = { list, tags, true },
	    .Meta = { kv, 1, true } }, .Checks = { c, checks, true } };
	struct fsm_result res;

	ck_assert(text != NULL && list != NULL && c != NULL);
	memset(text, 'x', bytes);
	kv[0][1] = span_of(text, bytes);
	for (unsigned i = 0; i < tags; i++)
		list[i] = span_of(text, 1);
	for (unsigned i = 0; i < checks; i++)
		c[i] = (struct check){ .CheckID = span_str("c"), .ServiceID = span_str(id), .Status = span_str("passing") };
	res = kit_apply(&k, OP_CATALOG_REGISTER, &q);
	ck_assert_msg(res.err == want, "%d: %.*s", (int)res.err, (int)res.text.len, (const char *)res.text.p);
	free(text);
	free(list);
	free(c);
	arena_reset(&k.a);
}

/* However large the services of a node are, whoever walks over them holds one at a time. */
START_TEST(large_services)
{
	char id[16];

	kit_node(&k, "n", "10.0.0.1");
	for (int i = 0; i < 80; i++) {
		snprintf(id, sizeof(id), "s%d", i);
		large_service(id, 1u << 20, 0, 0, TV_OK);
	}
	kit_check(&k, "n", "serfHealth", NULL, "passing");
	kit_check(&k, "n", "serfHealth", NULL, "critical");
	ck_assert(deregister("n", "", ""));
	ck_assert_uint_eq(count(OP_CATALOG_SERVICES, ""), 0);
}
END_TEST

/* What a few bytes of a request would make of memory or of the state is refused by the leader, or alike by all. */
START_TEST(small_requests_stay_small)
{
	kit_node(&k, "n", "10.0.0.1");
	large_service("big", 1u << 20, 0, 0, TV_OK);
	large_service("big", 0, 1u << 20, 2, TV_OK);		/* 16 MB of tags, decoded */
	large_service("big", 0, 1u << 21, 0, TV_EINVAL);
	large_service("big", 0, 1u << 20, 4, TV_ELIMIT);	/* each check gets all tags */
	ck_assert_uint_eq(count(OP_HEALTH_SERVICE, "web"), 1);
	kit_reopen(&k);
	ck_assert_uint_eq(count(OP_HEALTH_SERVICE, "web"), 1);
	ck_assert(deregister("n", "", ""));
}
END_TEST

static bool
count_serf(void *ctx, struct span node, struct span id, const struct check *serf)
{
	(void)id;
	ck_assert(span_eqs(node, "n") && span_eqs(serf->Status, "passing"));
	++*(unsigned *)ctx;
	return true;
}

struct names {
	char last[8];
	struct buf all;
};

static bool
one_name(void *ctx, struct span node, struct span id, const struct check *serf)
{
	struct names *n = ctx;

	(void)id;
	(void)serf;
	ck_assert(span_copy(node, n->last, sizeof(n->last)));
	buf_putspan(&n->all, node);
	return false;
}

START_TEST(serf_nodes_one_by_one)
{
	static const char *const nodes[] = { "b", "A", "bb", "b0", "c" };
	struct names names = { .all = BUF_INIT(64) };

	for (unsigned i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		kit_node(&k, nodes[i], "10.0.0.1");
		kit_check(&k, nodes[i], "serfHealth", NULL, "passing");
	}
	for (size_t before = 1; names.all.len != before;) {
		before = names.all.len;
		ck_assert_int_eq(fsm_each_serf_node(k.f, span_str(names.last), one_name, &names), TV_OK);
	}
	ck_assert_str_eq(buf_cstr(&names.all), "Abb0bbc");
	buf_done(&names.all);
}
END_TEST

START_TEST(reads_of_the_leader)
{
	struct raft_peer p = { .ID = span_str(ID1) };
	unsigned n = 0;

	kit_node(&k, "n", "10.0.0.1");
	kit_node(&k, "m", "10.0.0.2");
	kit_check(&k, "n", "serfHealth", NULL, "passing");
	ck_assert_int_eq(fsm_each_serf_node(k.f, SPAN_NONE, count_serf, &n), TV_OK);
	ck_assert_uint_eq(n, 1);
	ck_assert(!fsm_server_tombstoned(k.f, span_str(ID1)));
	ck_assert(kit_bool(&k, OP_SERVER_TOMBSTONE, &p));
	kit_reopen(&k);
	ck_assert(fsm_server_tombstoned(k.f, span_str(ID1)));
	ck_assert(!fsm_server_tombstoned(k.f, span_str(ID2)));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("fsm_catalog");
	TCase *t = tcase_create("catalog");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, node_shape_and_indexes);
	tcase_add_test(t, skip_node_update);
	tcase_add_test(t, register_refused);
	tcase_add_test(t, refused_check_changes_nothing);
	tcase_add_test(t, rename_by_id);
	tcase_add_test(t, name_is_reserved_while_alive);
	tcase_add_test(t, living_node_is_guarded);
	tcase_add_test(t, guard_begins_with_its_entry);
	tcase_add_test(t, names_and_ids_in_any_order);
	tcase_add_test(t, node_without_id_gets_one);
	tcase_add_test(t, service_shapes);
	tcase_add_test(t, owners_of_addresses);
	tcase_add_test(t, selection);
	tcase_add_test(t, services_with_tags);
	tcase_add_test(t, service_indexes);
	tcase_add_test(t, id_moves_to_another_name);
	tcase_add_test(t, check_shape);
	tcase_add_test(t, later_fields_of_definitions);
	tcase_add_test(t, proxies_by_destination);
	tcase_add_test(t, indexes_of_proxies);
	tcase_add_test(t, proxies_of_older_versions);
	tcase_add_test(t, proxies_have_an_operation);
	tcase_add_test(t, proxies_refused);
	tcase_add_test(t, checks_of_instances);
	tcase_add_test(t, crowded_nodes);
	tcase_add_test(t, many_checks_of_a_node_at_once);
	tcase_add_test(t, deregistration);
	tcase_add_test(t, removal_of_a_large_node_is_in_proportion);
	tcase_add_test(t, names_that_contain_each_other);
	tcase_add_test(t, large_node);
	tcase_add_test(t, large_services);
	tcase_add_test(t, small_requests_stay_small);
	tcase_add_test(t, reads_of_the_leader);
	tcase_add_test(t, serf_nodes_one_by_one);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
