/* The registry of services and checks, with a clock, a catalog and a file of our own. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/record/mpack.h"
#include "rpcd/registry/registry_int.h"

#define CALLS_MAX 16

static struct route_call {
	bool open;
	uint16_t op;
	char token[16];
	uint8_t args[65536];
	size_t args_len;
	registry_reply *done;
	void *ctx;
} calls[CALLS_MAX];
static const char *refused_with = "ACL not found";	/* the sentence of TV_EPERM */
static struct mono clock_now, due_at;
static bool refuse;
static unsigned saves, sent, told, cluster_size;
static struct registry *table;
static struct arena arena;

/* -- the world around it --------------------------------------------------------- */

static struct mono
now(void)
{
	return clock_now;
}

static struct route_call *
send_op(struct route *route, const struct op_request *q, registry_reply *done, void *ctx)
{
	ck_assert_ptr_null(route);
	for (unsigned i = 0; i < CALLS_MAX && !refuse; i++)
		if (!calls[i].open) {
			ck_assert_uint_le(q->args.len, sizeof(calls[i].args));
			calls[i] = (struct route_call){ .open = true, .op = q->op, .done = done, .ctx = ctx,
			    .args_len = q->args.len };
			memcpy(calls[i].args, q->args.p, q->args.len);
			ck_assert(span_copy(q->token, calls[i].token, sizeof(calls[i].token)));
			sent++;
			return &calls[i];
		}
	return NULL;
}

static void
cancel(struct route_call *c)
{
	ck_assert(c->open);
	c->open = false;
}

static void
due(void *ctx, struct mono at)
{
	ck_assert_ptr_eq(ctx, &due_at);
	due_at = at;
}

static void
save(void *ctx, bool durable)
{
	(void)ctx;
	(void)durable;
	saves++;
}

static void
hear(void *ctx)
{
	ck_assert_ptr_eq(ctx, &due_at);
	told++;
}

static unsigned
members(void *ctx)
{
	ck_assert_ptr_eq(ctx, &due_at);
	return cluster_size;
}

static const char *agent_token_now;	/* "": none is set */

static struct span
agent_token_of(const struct agent_tokens *t)
{
	(void)t;
	return span_str(agent_token_now);
}

static const char *
agent_token_key(const struct agent_tokens *t)
{
	(void)t;
	return agent_token_now[0] == '\0' ? NULL : "acl.tokens.agent";
}

static char *own_meta[2], *own_tagged[1];	/* of cluster.conf */
static char own_ip[] = "10.0.0.1";
static struct cluster_conf cluster;

static const char *file_token_now;

static struct span
file_token_of(const struct agent_tokens *t)
{
	(void)t;
	return span_str(file_token_now);
}

static struct registry *
open_table(void)
{
	struct registry *r = registry_new(&(struct registry_conf){
		.cluster = &cluster, .node_name = "n1", .node_id = "id-1", .address = "10.0.0.1", .entries_max = 4, .output_max = 64,
		.sync_interval = MONO_S(60), .update_interval = MONO_S(300), .sync_wait = MONO_MS(500),
		.seed = 7,
		.now = now, .send = send_op, .cancel = cancel, .due = due, .save = save, .news = hear,
		.members = members, .ctx = &due_at, .token = { agent_token_of, NULL, agent_token_key },
		.file_token = { .get = file_token_of },
	});

	ck_assert_ptr_nonnull(r);
	return r;
}

static void
setup(void)
{
	log_init("check", LOG_LVL_ERR, LOG_TO_STDERR);
	memset(calls, 0, sizeof(calls));
	clock_now = MONO_S(1000);
	refuse = false;
	agent_token_now = file_token_now = "";
	saves = sent = 0;
	cluster_size = 3;
	cluster = (struct cluster_conf){ .advertise = own_ip, .advertise_wan = own_ip, .node_meta = { own_meta, 0 },
	    .tagged_addresses = { own_tagged, 0 } };
	arena = ARENA_INIT(1u << 20);
	table = open_table();
}

static void
teardown(void)
{
	registry_free(table);
	for (unsigned i = 0; i < CALLS_MAX; i++)
		ck_assert(!calls[i].open);
	arena_done(&arena);
}

/* Lets time pass, and what is due happen on the way. */
static void
pass(struct mono time)
{
	struct mono end = mono_add(clock_now, time);

	while (!mono_before(end, due_at)) {
		if (mono_before(clock_now, due_at))
			clock_now = due_at;
		registry_run(table);
	}
	clock_now = end;
}

static unsigned
open_calls(enum op_code op)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CALLS_MAX; i++)
		n += calls[i].open && calls[i].op == op;
	return n;
}

/* Ends the one open call of this kind; its arguments go to rec.  Returns its token. */
static const char *
answer(enum op_code op, void *rec, enum tv_err err, struct span value)
{
	ck_assert_uint_eq(open_calls(op), 1);
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (calls[i].open && calls[i].op == op) {
			static uint8_t args[sizeof(calls[i].args)];
			static char token[sizeof(calls[i].token)];
			struct rd in = rd_over(args, calls[i].args_len);

			memcpy(args, calls[i].args, calls[i].args_len);
			memcpy(token, calls[i].token, sizeof(token));
			memset(rec, 0, op_find((uint16_t)op)->args->size);
			ck_assert_int_eq(schema_unpack(op_find((uint16_t)op)->args, &in, &arena, rec), TV_OK);
			calls[i].open = false;
			calls[i].done(calls[i].ctx, &(struct op_reply){ .err = err, .value = value,
			    .text = span_str(err == TV_EPERM ? refused_with : "") });
			return token;
		}
	return NULL;
}

static struct catalog_register reg;
static struct catalog_deregister dereg;

static const char *
registered(enum tv_err err)
{
	return answer(OP_CATALOG_REGISTER, &reg, err, SPAN_NONE);
}

static const char *
deregistered(enum tv_err err)
{
	return answer(OP_CATALOG_DEREGISTER, &dereg, err, SPAN_NONE);
}

/* The catalog as a comparison finds it. */
static void
compare(const struct service *services, uint32_t n, const struct check *checks, uint32_t m)
{
	struct node_services list = { .found = true, .Services = { .v = (void *)(uintptr_t)services, .n = n } };
	struct buf b = BUF_INIT(65536);
	struct catalog_read args;

	while (open_calls(OP_CATALOG_NODE) == 0)
		pass(MONO_S(1));
	schema_pack(&node_services_schema, &list, &b);
	answer(OP_CATALOG_NODE, &args, TV_OK, buf_span(&b));
	ck_assert(span_eqs(args.Name, "n1"));
	buf_reset(&b);
	mpw_array(&b, m);
	for (uint32_t i = 0; i < m; i++)
		schema_pack(&check_schema, &checks[i], &b);
	answer(OP_HEALTH_NODE, &args, TV_OK, buf_span(&b));
	ck_assert(span_eqs(args.Name, "n1"));
	buf_done(&b);
}

/* It sees no node of this name there: the agent's token may not, or there is none. */
static void
compare_blind(void)
{
	struct node_services list = { .found = false };
	struct buf b = BUF_INIT(65536);
	struct catalog_read args;

	while (open_calls(OP_CATALOG_NODE) == 0)
		pass(MONO_S(1));
	schema_pack(&node_services_schema, &list, &b);
	answer(OP_CATALOG_NODE, &args, TV_OK, buf_span(&b));
	answer(OP_HEALTH_NODE, &args, TV_OK, SPAN_NONE);
	buf_done(&b);
}

/* -- what is registered ---------------------------------------------------------- */

static struct service
service(const char *id, const char *tag)
{
	static struct span tags[8];
	static unsigned next;
	struct span *t = &tags[next++ % 8];

	*t = span_str(tag);
	return (struct service){ .ID = span_str(id), .Service = span_str("web"), .Tags = { t, 1, true }, .Port = 80,
	    .Weights = { 1, 1 } };
}

static struct check
check(const char *id, const char *service_id, const char *status)
{
	return (struct check){ .Node = span_str("n1"), .CheckID = span_str(id), .Name = span_str(id),
	    .Status = span_str(status), .ServiceID = span_str(service_id), .Type = span_str("ttl") };
}

static enum tv_err
put_service(struct service s, const char *token)
{
	return registry_put(table, &(struct local_record){ .kind = ENTRY_SERVICE, .service = s,
	    .token = span_str(token) });
}

static enum tv_err
put_check(const char *id, const char *service_id, const char *token, struct mono deregister_after)
{
	return registry_put(table, &(struct local_record){ .kind = ENTRY_CHECK, .check = check(id, service_id, "passing"),
	    .token = span_str(token), .ttl = 10000000000, .deregister_after = deregister_after.ns });
}

static enum tv_err
update(const char *id, const char *status, const char *output)
{
	return registry_update(registry_find(table, ENTRY_CHECK, span_str(id)), span_str(status), span_str(output));
}

/* A service with a check, and the catalog has both. */
static void
synced(void)
{
	ck_assert_int_eq(put_service(service("web1", "a"), ""), TV_OK);
	registered(TV_OK);
	ck_assert_int_eq(put_check("c1", "web1", "", MONO_ZERO), TV_OK);
	registered(TV_OK);
	compare((struct service[]){ service("web1", "a") }, 1, (struct check[]){ check("c1", "web1", "passing") }, 1);
	sent = saves = 0;
}

START_TEST(limits)
{
	struct local_record rec;

	ck_assert_int_eq(put_check("", "", "", MONO_ZERO), TV_EINVAL);
	ck_assert_int_eq(put_check("c1", "web1", "", MONO_ZERO), TV_ENOENT);
	synced();
	ck_assert_int_eq(put_check("c1", "web1", "", MONO_ZERO), TV_OK);
	ck_assert_uint_eq(registry_count(table, ENTRY_CHECK), 1);
	for (const char *id = "c2"; registry_count(table, ENTRY_CHECK) < 4; id = id[1] == '2' ? "c3" : "c4")
		ck_assert_int_eq(put_check(id, "", "", MONO_ZERO), TV_OK);
	ck_assert_int_eq(put_check("c5", "", "", MONO_ZERO), TV_ELIMIT);
	ck_assert_int_eq(put_service(service("web2", "b"), ""), TV_OK);
	ck_assert_int_eq(registry_remove(table, ENTRY_SERVICE, span_str("c1")), TV_ENOENT);
	ck_assert(registry_get(registry_find(table, ENTRY_CHECK, span_str("c1")), &rec));
	ck_assert(span_eqs(rec.check.ServiceName, "web") && span_eqs(rec.check.ServiceTags.v[0], "a"));
}
END_TEST

/* The catalog compares ids without case: who has the other spelling is found, however many there are. */
START_TEST(ids_that_differ_by_case)
{
	struct entry *e;

	synced();
	ck_assert_ptr_null(registry_alike(table, ENTRY_SERVICE, span_str("web1")));
	ck_assert_ptr_null(registry_alike(table, ENTRY_SERVICE, span_str("web2")));
	ck_assert_ptr_null(registry_alike(table, ENTRY_SERVICE, span_str("C1")));
	e = registry_alike(table, ENTRY_SERVICE, span_str("Web1"));
	ck_assert_ptr_eq(e, registry_find(table, ENTRY_SERVICE, span_str("web1")));
	ck_assert_ptr_null(registry_find(table, ENTRY_SERVICE, span_str("Web1")));
	ck_assert_ptr_eq(registry_alike(table, ENTRY_CHECK, span_str("C1")), registry_find(table, ENTRY_CHECK, span_str("c1")));
	ck_assert_int_eq(registry_remove(table, ENTRY_SERVICE, span_str("web1")), TV_OK);
	ck_assert_ptr_null(registry_alike(table, ENTRY_SERVICE, span_str("Web1")));
	deregistered(TV_OK);
}
END_TEST

START_TEST(a_service_takes_its_checks_along)
{
	refuse = true;
	ck_assert_int_eq(put_service(service("web1", "a"), "t"), TV_OK);
	ck_assert_int_eq(put_check("c1", "web1", "t", MONO_ZERO), TV_OK);
	ck_assert_int_eq(put_check("c2", "web1", "other", MONO_ZERO), TV_OK);
	refuse = false;
	ck_assert_int_eq(put_check("c3", "web1", "t", MONO_ZERO), TV_OK);	/* not before its service */
	ck_assert_str_eq(registered(TV_OK), "t");
	ck_assert(reg.has_service && !reg.has_check && reg.SkipNodeUpdate && span_eqs(reg.ID, "id-1"));
	ck_assert(span_eqs(reg.Service.ID, "web1") && span_eqs(reg.Service.Tags.v[0], "a"));
	ck_assert_uint_eq(reg.Checks.n, 2);
	ck_assert(span_eqs(((struct check *)reg.Checks.v)[0].CheckID, "c1"));
	ck_assert(span_eqs(((struct check *)reg.Checks.v)[1].CheckID, "c3"));
	/* the one with a token of its own follows */
	ck_assert_str_eq(registered(TV_OK), "other");
	ck_assert(reg.has_check && !reg.has_service && span_eqs(reg.Check.CheckID, "c2"));
	ck_assert_uint_eq(sent, 2);
	ck_assert_uint_eq(saves, 4);
	/* and from now on each goes alone */
	ck_assert_int_eq(update("c1", "critical", ""), TV_OK);
	registered(TV_OK);
	ck_assert(reg.has_check && !reg.has_service);
}
END_TEST

START_TEST(a_service_goes_with_its_checks)
{
	synced();
	ck_assert_int_eq(put_check("of-node", "", "", MONO_ZERO), TV_OK);
	registered(TV_OK);
	ck_assert_int_eq(registry_remove(table, ENTRY_SERVICE, span_str("web1")), TV_OK);
	ck_assert_uint_eq(registry_count(table, ENTRY_CHECK), 1);
	ck_assert_ptr_null(registry_find(table, ENTRY_CHECK, span_str("c1")));
	deregistered(TV_ENOLEADER);
	/* when it failed, the comparison tries again; one request is enough */
	compare((struct service[]){ service("web1", "a") }, 1, (struct check[]){ check("c1", "web1", "passing"),
	    check("of-node", "", "passing") }, 2);
	deregistered(TV_OK);
	ck_assert(span_eqs(dereg.ID, "id-1"));
	ck_assert(span_eqs(dereg.Node, "n1") && span_eqs(dereg.ServiceID, "web1") && dereg.CheckID.len == 0);
	ck_assert_ptr_null(entry_find(table, ENTRY_CHECK, span_str("c1")));
	ck_assert_ptr_eq(TAILQ_FIRST(&table->entries), TAILQ_LAST(&table->entries, entry_list));
	ck_assert_uint_eq(open_calls(OP_CATALOG_DEREGISTER), 0);
}
END_TEST

/* -- tokens that end -------------------------------------------------------------- */

/* A service and its check with tokens, and the catalog has both. */
static void
synced_with(const char *of_service, const char *of_check)
{
	agent_token_now = "agent";
	ck_assert_int_eq(put_service(service("web1", "a"), of_service), TV_OK);
	ck_assert_str_eq(registered(TV_OK), of_service);
	ck_assert_int_eq(put_check("c1", "web1", of_check, MONO_ZERO), TV_OK);
	ck_assert_str_eq(registered(TV_OK), of_check);
}

static struct registry_blocked
blocked(void)
{
	static struct registry_blocked b;

	registry_blocked(table, &b);
	return b;
}

/* The agent removes what it registered, with its own token where that of the registration has ended. */
START_TEST(removed_without_its_token)
{
	synced_with("t", "u");
	ck_assert_int_eq(registry_remove(table, ENTRY_CHECK, span_str("c1")), TV_OK);
	ck_assert_str_eq(deregistered(TV_EPERM), "u");
	ck_assert_str_eq(deregistered(TV_EPERM), "t");
	ck_assert_str_eq(deregistered(TV_OK), "agent");
	ck_assert(span_eqs(dereg.CheckID, "c1"));
	ck_assert_ptr_null(entry_find(table, ENTRY_CHECK, span_str("c1")));
	ck_assert_int_eq(registry_remove(table, ENTRY_SERVICE, span_str("web1")), TV_OK);
	ck_assert_str_eq(deregistered(TV_EPERM), "t");
	ck_assert_str_eq(deregistered(TV_EPERM), "agent");
	ck_assert_uint_eq(open_calls(OP_CATALOG_DEREGISTER), 0);
	struct registry_blocked b = blocked();
	ck_assert_uint_eq(b.count, 1);
	ck_assert_str_eq(b.first, "service web1");
	ck_assert_str_eq(b.why, "acl.tokens.agent is unknown");
	/* It is not forgotten while the catalog has it, or this node cannot see whether it does. */
	compare((struct service[]){ service("web1", "a") }, 1, NULL, 0);
	ck_assert_str_eq(deregistered(TV_EPERM), "t");
	ck_assert_str_eq(deregistered(TV_EPERM), "agent");
	compare_blind();
	ck_assert_str_eq(deregistered(TV_EPERM), "t");
	ck_assert_str_eq(deregistered(TV_OK), "agent");
	ck_assert_ptr_null(TAILQ_FIRST(&table->entries));
	ck_assert_uint_eq(blocked().count, 0);
}
END_TEST

/* What the catalog never took is not removed from it: the id may be another one's there. */
START_TEST(never_accepted)
{
	agent_token_now = "agent";
	refused_with = "Permission denied";
	ck_assert_int_eq(put_service(service("VID", "a"), "t"), TV_OK);
	ck_assert_str_eq(registered(TV_EPERM), "t");
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER), 0);
	ck_assert_str_eq(blocked().why, "the token of service VID lacks service \"web\" { policy = \"write\" }");
	ck_assert_int_eq(registry_remove(table, ENTRY_SERVICE, span_str("VID")), TV_OK);
	ck_assert_str_eq(deregistered(TV_EPERM), "t");
	ck_assert_uint_eq(open_calls(OP_CATALOG_DEREGISTER), 0);
	compare((struct service[]){ service("vid", "a") }, 1, NULL, 0);
	ck_assert_ptr_null(entry_find(table, ENTRY_SERVICE, span_str("VID")));
	ck_assert_str_eq(deregistered(TV_OK), "agent");		/* vid, which nobody registered here */
	ck_assert(span_eqs(dereg.ServiceID, "vid"));
	/* Another definition needs the right anew, also when it comes while the old one is on its way. */
	synced_with("t", "u");
	ck_assert_int_eq(update("c1", "warning", ""), TV_OK);
	struct local_record other = { .kind = ENTRY_CHECK, .check = check("c1", "web1", "passing"), .token = span_str("u"),
	    .ttl = 1 };
	other.check.Notes = span_str("other");
	ck_assert_int_eq(registry_put(table, &other), TV_OK);
	ck_assert_str_eq(registered(TV_OK), "u");
	ck_assert_str_eq(registered(TV_EPERM), "u");
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER), 0);
	refused_with = "ACL not found";
}
END_TEST

/* A status is told with the token of the service, else with the agent's. */
START_TEST(states_without_their_token)
{
	synced_with("t", "u");
	ck_assert_int_eq(update("c1", "critical", "x"), TV_OK);
	ck_assert_str_eq(registered(TV_EPERM), "u");
	ck_assert_str_eq(registered(TV_EPERM), "t");
	ck_assert_str_eq(registered(TV_OK), "agent");
	ck_assert(reg.has_check && span_eqs(reg.Check.Status, "critical"));
	ck_assert_uint_eq(blocked().count, 0);
	ck_assert_int_eq(update("c1", "passing", "x"), TV_OK);
	ck_assert_str_eq(registered(TV_EPERM), "u");
	ck_assert_str_eq(registered(TV_OK), "t");
	ck_assert(span_eqs(reg.Check.Status, "passing"));
	ck_assert_uint_eq(sent, 2 + 3 + 2);
}
END_TEST

/* A restart knows by the first comparison what the catalog took. */
START_TEST(states_after_a_restart)
{
	struct check there = check("c1", "web1", "passing");

	synced_with("t", "t");
	for (struct entry *e = TAILQ_FIRST(&table->entries); e != NULL; e = TAILQ_NEXT(e, link))
		e->accepted = false;
	ck_assert_int_eq(update("c1", "critical", "x"), TV_OK);
	ck_assert_str_eq(registered(TV_EPERM), "t");
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER), 0);
	compare((struct service[]){ service("web1", "a") }, 1, &there, 1);
	ck_assert_str_eq(registered(TV_EPERM), "t");
	ck_assert_str_eq(registered(TV_OK), "agent");
	ck_assert(span_eqs(reg.Check.Status, "critical"));
}
END_TEST

/* No token may say that the instance is critical: it goes from the catalog, and comes back with a right. */
START_TEST(dead_instances_do_not_stay)
{
	struct registry_blocked b;

	synced_with("t", "t");
	ck_assert_int_eq(update("c1", "critical", "x"), TV_OK);
	ck_assert_str_eq(registered(TV_EPERM), "t");
	refused_with = "Permission denied";
	ck_assert_str_eq(registered(TV_EPERM), "agent");
	ck_assert_str_eq(deregistered(TV_OK), "agent");
	ck_assert(span_eqs(dereg.ServiceID, "web1"));
	b = blocked();
	ck_assert_uint_eq(b.count, 1);
	ck_assert_str_eq(b.first, "check c1");
	ck_assert_str_eq(b.why, "acl.tokens.agent lacks service \"web\" { policy = \"write\" }");
	ck_assert_uint_eq(registry_count(table, ENTRY_SERVICE), 1);
	/* Its state still goes with the service, which the token may not register. */
	refused_with = "ACL not found";
	ck_assert_int_eq(update("c1", "passing", "x"), TV_OK);
	ck_assert_str_eq(registered(TV_EPERM), "t");
	ck_assert(reg.has_service && reg.Checks.n == 1);
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER) + open_calls(OP_CATALOG_DEREGISTER), 0);
	ck_assert_int_eq(update("c1", "critical", "y"), TV_OK);
	ck_assert_str_eq(registered(TV_EPERM), "t");
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER) + open_calls(OP_CATALOG_DEREGISTER), 0);
	ck_assert_str_eq(blocked().why, "the token of service web1 is unknown");
	compare(NULL, 0, NULL, 0);
	ck_assert_str_eq(registered(TV_OK), "t");
	ck_assert(reg.has_service && reg.Checks.n == 1 && span_eqs(((struct check *)reg.Checks.v)[0].Status, "critical"));
	ck_assert_uint_eq(blocked().count, 0);
}
END_TEST

/* What came with its service in one push, which is refused, is told alone. */
START_TEST(states_that_came_with_their_service)
{
	struct service other = service("web1", "z");

	synced_with("t", "t");
	ck_assert_int_eq(update("c1", "critical", "x"), TV_OK);
	ck_assert_str_eq(registered(TV_ENOLEADER), "t");
	/* Somebody changed the service in the catalog: it is to be written again, and its check with it. */
	compare(&other, 1, (struct check[]){ check("c1", "web1", "passing") }, 1);
	ck_assert_str_eq(registered(TV_EPERM), "t");
	ck_assert(reg.has_service && reg.Checks.n == 1);
	ck_assert_str_eq(registered(TV_EPERM), "t");
	ck_assert(reg.has_check && !reg.has_service);
	ck_assert_str_eq(registered(TV_OK), "agent");
	ck_assert_uint_eq(blocked().count, 1);
	ck_assert_uint_eq(blocked().outdated, 1);
}
END_TEST

/* A new token of the agent: all is compared at once, and what was refused is tried again. */
START_TEST(a_new_agent_token)
{
	struct catalog_read args;

	compare(NULL, 0, NULL, 0);
	refused_with = "Permission denied";
	ck_assert_int_eq(put_service(service("web1", "a"), ""), TV_OK);
	ck_assert_str_eq(registered(TV_EPERM), "");
	ck_assert_str_eq(blocked().why, "acl.tokens.agent is not set");
	ck_assert_uint_eq(blocked().total, 1);
	agent_token_now = "agent";
	registry_token_changed(table);
	registry_run(table);
	ck_assert_uint_eq(open_calls(OP_CATALOG_NODE), 1);
	refused_with = "ACL not found";
	ck_assert_str_eq(answer(OP_CATALOG_NODE, &args, TV_EPERM, SPAN_NONE), "agent");
	ck_assert(blocked().compare);
	registry_token_changed(table);
	registry_run(table);
	compare(NULL, 0, NULL, 0);
	ck_assert_str_eq(registered(TV_OK), "agent");
	ck_assert_uint_eq(blocked().count, 0);
	ck_assert_str_eq(blocked().why, "");
	ck_assert(!blocked().compare);
}
END_TEST

/* The catalog's node of this node's name has another id: its services are not ours to remove, and ours wait. */
START_TEST(entry_of_another_node_is_left_alone)
{
	struct service theirs = service("theirs", "a");
	struct node_services list = { .found = true, .Services = { .v = &theirs, .n = 1 },
	    .Node = { .ID = span_str("id-2"), .Node = span_str("N1") } };
	struct buf b = BUF_INIT(65536);
	struct catalog_read args;

	while (open_calls(OP_CATALOG_NODE) == 0)
		pass(MONO_S(1));
	ck_assert_int_eq(registry_standing(table), REGISTRY_UNKNOWN);
	schema_pack(&node_services_schema, &list, &b);
	answer(OP_CATALOG_NODE, &args, TV_OK, buf_span(&b));
	buf_done(&b);
	ck_assert_int_eq(registry_standing(table), REGISTRY_KEPT_OUT);
	ck_assert_int_eq(put_service(service("web1", "a"), ""), TV_OK);
	pass(MONO_S(1));
	ck_assert_uint_eq(open_calls(OP_HEALTH_NODE) + open_calls(OP_CATALOG_DEREGISTER) + open_calls(OP_CATALOG_REGISTER), 0);
	/* It is looked at again soon, and written when the name is free. */
	compare(NULL, 0, NULL, 0);
	registered(TV_OK);
	ck_assert(span_eqs(reg.Service.ID, "web1"));
	ck_assert_int_eq(registry_standing(table), REGISTRY_LISTED);
}
END_TEST

START_TEST(registered_again_while_it_goes)
{
	synced();
	ck_assert_int_eq(put_check("c2", "web1", "", MONO_ZERO), TV_OK);
	registered(TV_OK);
	ck_assert_int_eq(registry_remove(table, ENTRY_SERVICE, span_str("web1")), TV_OK);
	ck_assert_int_eq(put_service(service("web1", "b"), ""), TV_OK);
	ck_assert_int_eq(put_check("c2", "web1", "", MONO_ZERO), TV_OK);
	deregistered(TV_OK);
	registered(TV_OK);
	ck_assert(span_eqs(reg.Service.Tags.v[0], "b") && reg.Checks.n == 1);
	ck_assert(span_eqs(((struct check *)reg.Checks.v)->CheckID, "c2"));
	ck_assert_ptr_null(entry_find(table, ENTRY_CHECK, span_str("c1")));
	ck_assert(registry_count(table, ENTRY_SERVICE) == 1 && registry_count(table, ENTRY_CHECK) == 1);
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER) + open_calls(OP_CATALOG_DEREGISTER), 0);
}
END_TEST

START_TEST(comparison)
{
	struct service other = service("web1", "a");

	synced();
	compare((struct service[]){ service("web1", "a"), service("consul", ""), service("stranger", "") }, 3,
	    (struct check[]){ check("serfHealth", "", "passing"), check("of-stranger", "stranger", "passing"),
	    check("c1", "web1", "passing") }, 3);
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER), 0);
	deregistered(TV_OK);
	ck_assert(span_eqs(dereg.ServiceID, "stranger"));	/* and its check goes with it */
	ck_assert_uint_eq(open_calls(OP_CATALOG_DEREGISTER), 0);
	/* what the catalog lacks */
	compare(NULL, 0, (struct check[]){ check("c1", "web1", "passing") }, 1);
	registered(TV_OK);
	ck_assert(reg.has_service && reg.Checks.n == 0);
	/* what it has differently */
	other.Port = 81;
	compare(&other, 1, (struct check[]){ check("c1", "web1", "critical") }, 1);
	registered(TV_OK);
	ck_assert(reg.has_service && reg.Service.Port == 80 && reg.Checks.n == 1);
	sent = 0;
	compare((struct service[]){ service("web1", "a") }, 1, (struct check[]){ check("c1", "web1", "passing") }, 1);
	ck_assert_uint_eq(sent, 2);				/* the two questions */
}
END_TEST

/* The more members there are, the longer the time over which they compare; but never sooner than the interval. */
START_TEST(comparisons_are_spread)
{
	static const struct { unsigned members, factor; } v[] = { { 128, 1 }, { 129, 2 }, { 1024, 4 }, { 8192, 7 } };

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct mono longest = MONO_ZERO;

		cluster_size = v[i].members;
		for (int n = 0; n < 60; n++) {
			compare(NULL, 0, NULL, 0);
			struct mono begin = clock_now;
			while (open_calls(OP_CATALOG_NODE) == 0)
				pass(MONO_S(1));
			struct mono took = mono_sub(clock_now, begin);
			ck_assert(took.ns >= MONO_S(60).ns && took.ns <= MONO_S(61 + 60 * v[i].factor).ns);
			if (mono_before(longest, took))
				longest = took;
		}
		ck_assert(longest.ns > MONO_S(60 + 60 * v[i].factor / 2).ns);
	}
	compare(NULL, 0, NULL, 0);
}
END_TEST

static struct local_record
record_of(const char *check_id, const char *status, const char *token)
{
	return (struct local_record){ .kind = ENTRY_CHECK, .check = check(check_id, "web1", status), .token = span_str(token),
	    .ttl = 10000000000 };
}

/* As Consul: within three seconds, which grow with the cluster as the interval does. */
START_TEST(a_server_came)
{
	struct registry_stats s;

	compare(NULL, 0, NULL, 0);
	for (int n = 0; n < 20; n++) {
		cluster_size = n < 10 ? 100 : 1000;
		registry_stats(table, &s);
		ck_assert_uint_eq(s.comparisons, 1 + (unsigned)n);
		registry_server_came(table);
		struct mono begin = clock_now;
		while (open_calls(OP_CATALOG_NODE) == 0)
			pass(MONO_MS(10));
		ck_assert_int_le(mono_sub(clock_now, begin).ns, MONO_MS(n < 10 ? 3010 : 12010).ns);
		compare(NULL, 0, NULL, 0);
	}
	registry_stats(table, &s);
	ck_assert(s.comparisons_failed == 0 && s.differences == 0 && s.pushes == 0);
}
END_TEST

START_TEST(counted)
{
	struct registry_stats s;
	struct catalog_read args;

	synced();
	ck_assert_int_eq(update("c1", "passing", "some"), TV_OK);
	registered(TV_OK);
	registry_stats(table, &s);
	uint64_t comparisons = s.comparisons, pushes = s.pushes;
	ck_assert_int_eq(update("c1", "passing", "more"), TV_OK);
	compare(NULL, 0, (struct check[]){ check("c1", "web1", "passing") }, 1);
	registered(TV_ENOLEADER);
	while (open_calls(OP_CATALOG_NODE) == 0)
		pass(MONO_S(1));
	answer(OP_CATALOG_NODE, &args, TV_ENOLEADER, SPAN_NONE);
	registry_stats(table, &s);
	ck_assert_uint_eq(s.comparisons, comparisons + 1);
	ck_assert_uint_eq(s.comparisons_failed, 1);
	ck_assert_uint_eq(s.differences, 1);
	ck_assert_uint_eq(s.pushes, pushes + 1);
	ck_assert_uint_eq(s.pushes_failed, 1);
	ck_assert_uint_eq(s.outputs_deferred, 1);
}
END_TEST

#define MANY 3000

static struct span
name_of(char text[32], const char *what, unsigned i)
{
	snprintf(text, 32, "%s%u", what, i);
	return span_str(text);
}

/* Each is found, and each service has its checks in their order, whatever comes and goes. */
START_TEST(many)
{
	char a[32], b[32], c[32];

	registry_free(table);
	table = NULL;
	refuse = true;
	struct registry *r = registry_new(&(struct registry_conf){
		.node_name = "n1", .node_id = "id-1", .address = "10.0.0.1", .entries_max = 2 * MANY, .output_max = 64,
		.sync_interval = MONO_S(60), .seed = 9, .now = now, .send = send_op, .cancel = cancel, .due = due,
		.save = save, .ctx = &due_at,
	});
	for (unsigned i = 0; i < MANY; i++) {
		struct local_record s = { .kind = ENTRY_SERVICE, .service = service("", "t") }, v[2];

		s.service.ID = name_of(a, "s", i);
		for (unsigned k = 0; k < 2; k++) {
			v[k] = record_of("", "passing", "");
			v[k].check.CheckID = name_of(k == 0 ? b : c, k == 0 ? "a" : "b", i);
			v[k].check.ServiceID = s.service.ID;
		}
		ck_assert_int_eq(registry_put_service(r, &s, v, 2, false), TV_OK);
	}
	for (unsigned i = 0; i < MANY; i += 3)
		ck_assert_int_eq(registry_remove(r, ENTRY_SERVICE, name_of(a, "s", i)), TV_OK);
	for (unsigned i = 0; i < MANY; i++) {
		struct entry *s = registry_find(r, ENTRY_SERVICE, name_of(a, "s", i));
		struct entry *e = entry_check_first(r, span_str(a));

		ck_assert_int_eq(s != NULL, i % 3 != 0);
		ck_assert_ptr_eq(e, entry_find(r, ENTRY_CHECK, name_of(b, "a", i)));
		ck_assert_ptr_eq(entry_check_next(e), entry_find(r, ENTRY_CHECK, name_of(c, "b", i)));
		ck_assert_ptr_null(entry_check_next(entry_check_next(e)));
		ck_assert(e->removed == (s == NULL) && (s == NULL || entry_owner(e) == s));
	}
	/* a check that changes its service */
	struct local_record moved = record_of("a1", "passing", "");
	moved.check.ServiceID = span_str("s2");
	ck_assert_int_eq(registry_put(r, &moved), TV_OK);
	ck_assert(span_eqs(entry_check_first(r, span_str("s1"))->id, "b1"));
	ck_assert(span_eqs(entry_check_next(entry_check_next(entry_check_first(r, span_str("s2"))))->id, "a1"));
	registry_free(r);
	table = open_table();
}
END_TEST

START_TEST(a_service_with_its_checks)
{
	struct local_record web = { .kind = ENTRY_SERVICE, .service = service("web1", "a") };
	struct local_record v[4] = { record_of("c1", "passing", ""), record_of("c2", "warning", ""),
		record_of("c3", "passing", "other"), record_of("", "passing", "") };
	struct local_record rec;

	ck_assert_int_eq(registry_put_service(table, &web, v, 4, false), TV_EINVAL);
	ck_assert(TAILQ_FIRST(&table->entries) == NULL && saves == 0);
	ck_assert_int_eq(registry_put_service(table, &web, v, 3, false), TV_OK);
	ck_assert_uint_eq(saves, 1);				/* once, with all of it */
	registered(TV_OK);
	ck_assert(reg.has_service && reg.Checks.n == 2);	/* those of its token, in the same write */
	ck_assert_str_eq(registered(TV_OK), "other");
	ck_assert_uint_eq(sent, 2);
	/* again: states stay, and what is not named stays unless it is to go */
	ck_assert_int_eq(update("c1", "critical", "x"), TV_OK);
	registered(TV_OK);
	ck_assert_int_eq(registry_put_service(table, &web, v, 1, false), TV_OK);
	registered(TV_OK);
	ck_assert(registry_get(registry_find(table, ENTRY_CHECK, span_str("c1")), &rec));
	ck_assert(span_eqs(rec.check.Status, "critical") && span_eqs(rec.check.Output, "x"));
	ck_assert_uint_eq(registry_count(table, ENTRY_CHECK), 3);
	ck_assert_int_eq(registry_put_service(table, &web, &v[1], 1, true), TV_OK);
	ck_assert_uint_eq(registry_count(table, ENTRY_CHECK), 1);
	registered(TV_OK);
	ck_assert_uint_eq(open_calls(OP_CATALOG_DEREGISTER), 2);	/* c1 and c3 */
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (calls[i].open) {
			calls[i].open = false;
			calls[i].done(calls[i].ctx, &(struct op_reply){ .err = TV_OK });
		}
	compare(&web.service, 1, (struct check[]){ check("c2", "web1", "warning") }, 1);
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER) + open_calls(OP_CATALOG_DEREGISTER), 0);
}
END_TEST

/* What does not fit as a whole is not there in part. */
START_TEST(no_room_for_all_of_it)
{
	struct local_record web = { .kind = ENTRY_SERVICE, .service = service("web1", "a") };
	struct local_record v[5];

	for (int i = 0; i < 5; i++)
		v[i] = record_of((const char *[]){ "a", "b", "c", "d", "e" }[i], "passing", "");
	ck_assert_int_eq(registry_put_service(table, &web, v, 5, false), TV_ELIMIT);
	ck_assert(TAILQ_FIRST(&table->entries) == NULL && saves == 0 && sent == 0);
	ck_assert_int_eq(registry_put_service(table, &web, v, 4, false), TV_OK);
	registered(TV_OK);
	ck_assert_int_eq(registry_put_service(table, &web, v, 4, false), TV_OK);	/* the same are no more */
	registered(TV_OK);
}
END_TEST

/* Once for all that happened in a turn, and only of services. */
START_TEST(news)
{
	synced();
	pass(MONO_S(1));
	told = 0;
	ck_assert_int_eq(put_service(service("web1", "b"), ""), TV_OK);
	ck_assert_int_eq(put_service(service("web2", "b"), ""), TV_OK);
	ck_assert_uint_eq(told, 0);
	pass(MONO_MS(1));
	ck_assert_uint_eq(told, 1);
	ck_assert_int_eq(update("c1", "critical", ""), TV_OK);
	pass(MONO_MS(1));
	ck_assert_uint_eq(told, 1);
	ck_assert_int_eq(registry_remove(table, ENTRY_SERVICE, span_str("web1")), TV_OK);
	pass(MONO_MS(1));
	ck_assert_uint_eq(told, 2);
}
END_TEST

START_TEST(tags_of_others)
{
	struct service s = service("web1", "a");
	struct local_record rec;

	synced();
	s.EnableTagOverride = true;
	ck_assert_int_eq(put_service(s, ""), TV_OK);
	registered(TV_OK);
	saves = 0;
	s.Tags = service("web1", "theirs").Tags;
	compare(&s, 1, (struct check[]){ check("c1", "web1", "passing") }, 1);
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER), 0);
	ck_assert(registry_get(registry_find(table, ENTRY_SERVICE, span_str("web1")), &rec));
	ck_assert(rec.service.Tags.n == 1 && span_eqs(rec.service.Tags.v[0], "theirs"));
	pass(MONO_S(1));
	ck_assert_uint_eq(saves, 1);
	/* without leave, ours count */
	ck_assert_int_eq(put_service(service("web1", "a"), ""), TV_OK);
	registered(TV_OK);
	compare(&s, 1, (struct check[]){ check("c1", "web1", "passing") }, 1);
	registered(TV_OK);
	ck_assert(span_eqs(reg.Service.Tags.v[0], "a"));
}
END_TEST

START_TEST(failure_and_refusal)
{
	synced();
	ck_assert_int_eq(update("c1", "warning", ""), TV_OK);
	registered(TV_ENOLEADER);
	pass(MONO_S(14));
	ck_assert_uint_eq(open_calls(OP_CATALOG_NODE), 0);
	pass(MONO_S(16));					/* earlier than sync_interval */
	compare((struct service[]){ service("web1", "a") }, 1, (struct check[]){ check("c1", "web1", "passing") }, 1);
	registered(TV_EPERM);
	/* what was refused waits for the next comparison in its time */
	pass(MONO_S(59));
	ck_assert_uint_eq(open_calls(OP_CATALOG_NODE) + open_calls(OP_CATALOG_REGISTER), 0);
	compare((struct service[]){ service("web1", "a") }, 1, (struct check[]){ check("c1", "web1", "passing") }, 1);
	registered(TV_OK);
	ck_assert(span_eqs(reg.Check.Status, "warning"));
}
END_TEST

START_TEST(output_waits)
{
	struct check old = check("c1", "web1", "passing");

	synced();
	ck_assert_int_eq(update("c1", "passing", "zero"), TV_OK);	/* the first one does not wait */
	registered(TV_OK);
	ck_assert(span_eqs(reg.Check.Output, "zero"));
	old.Output = span_str("zero");
	saves = 0;
	ck_assert_int_eq(update("c1", "passing", "one"), TV_OK);
	ck_assert_int_eq(update("c1", "passing", "two"), TV_OK);
	compare((struct service[]){ service("web1", "a") }, 1, &old, 1);
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER), 0);
	ck_assert_uint_eq(saves, 1);
	while (open_calls(OP_CATALOG_REGISTER) == 0) {		/* and comparisons do not matter */
		pass(MONO_S(1));
		ck_assert_int_le(clock_now.ns, MONO_S(1000 + 600).ns);
		if (open_calls(OP_CATALOG_NODE) > 0)
			compare((struct service[]){ service("web1", "a") }, 1, &old, 1);
	}
	registered(TV_OK);
	ck_assert(span_eqs(reg.Check.Output, "two"));
	old.Output = span_str("two");
	compare((struct service[]){ service("web1", "a") }, 1, &old, 1);
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER), 0);
	/* what changes during a request follows it at once */
	ck_assert_int_eq(update("c1", "warning", "three"), TV_OK);
	ck_assert_int_eq(update("c1", "warning", "four"), TV_OK);
	registered(TV_OK);
	registered(TV_OK);
	ck_assert(span_eqs(reg.Check.Output, "four"));
	/* where the catalog has another one, as behind a restart, it waits too */
	struct check other = check("c1", "web1", "warning");
	other.Output = span_str("three");
	compare((struct service[]){ service("web1", "a") }, 1, &other, 1);
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER), 0);
	struct mono begin = clock_now;
	while (open_calls(OP_CATALOG_REGISTER) == 0) {
		pass(MONO_S(1));
		ck_assert_int_le(mono_sub(clock_now, begin).ns, MONO_S(301).ns);
		if (open_calls(OP_CATALOG_NODE) > 0)
			compare((struct service[]){ service("web1", "a") }, 1, &other, 1);
	}
	registered(TV_OK);
	ck_assert(span_eqs(reg.Check.Output, "four"));
}
END_TEST

START_TEST(critical_for_too_long)
{
	synced();
	ck_assert_int_eq(put_check("c1", "web1", "", MONO_S(20)), TV_OK);
	registered(TV_OK);
	ck_assert_int_eq(update("c1", "critical", ""), TV_OK);
	registered(TV_OK);
	pass(MONO_S(15));
	ck_assert_int_eq(update("c1", "passing", ""), TV_OK);	/* in time */
	registered(TV_OK);
	pass(MONO_S(15));
	ck_assert_int_eq(update("c1", "critical", ""), TV_OK);
	registered(TV_OK);
	pass(MONO_S(19));
	ck_assert_uint_eq(registry_count(table, ENTRY_SERVICE), 1);
	pass(MONO_S(1));
	ck_assert_uint_eq(registry_count(table, ENTRY_SERVICE), 0);
	deregistered(TV_OK);
	ck_assert(span_eqs(dereg.ServiceID, "web1"));
}
END_TEST

static void
count(void *ctx)
{
	++*(unsigned *)ctx;
}

START_TEST(settling)
{
	unsigned done = 0;

	synced();
	registry_settle(table, ENTRY_SERVICE, span_str("web1"), count, &done);
	ck_assert_uint_eq(done, 1);
	ck_assert_int_eq(put_service(service("web1", "b"), ""), TV_OK);
	ck_assert_int_eq(update("c1", "warning", ""), TV_OK);
	registry_settle(table, ENTRY_SERVICE, span_str("web1"), count, &done);
	registry_settle(table, ENTRY_CHECK, span_str("c1"), count, &done);	/* waits for its service, then itself */
	ck_assert_uint_eq(done, 1);
	registered(TV_OK);
	ck_assert_uint_eq(done, 2);
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER), 1);
	pass(MONO_MS(499));
	ck_assert_uint_eq(done, 2);
	pass(MONO_MS(1));
	ck_assert_uint_eq(done, 3);
	registered(TV_OK);
	ck_assert(span_eqs(reg.Check.Status, "warning"));
}
END_TEST

/* -- who runs the checks --------------------------------------------------------- */

static unsigned put, gone;

static void *
use(void *ctx, struct entry *e, void *user, const struct local_record *rec)
{
	ck_assert_ptr_eq(ctx, &put);
	ck_assert(user == NULL || user == e);
	put += rec != NULL;
	gone += rec == NULL;
	return rec == NULL ? NULL : e;
}

START_TEST(users)
{
	put = gone = 0;
	synced();
	registry_use(table, use, &put);
	ck_assert_uint_eq(put, 2);				/* what was there */
	ck_assert_int_eq(put_check("c1", "web1", "", MONO_ZERO), TV_OK);
	ck_assert_uint_eq(put, 3);
	registered(TV_OK);
	ck_assert_int_eq(registry_remove(table, ENTRY_SERVICE, span_str("web1")), TV_OK);
	ck_assert_uint_eq(gone, 2);
	deregistered(TV_OK);
	ck_assert_uint_eq(gone, 2);
	ck_assert_int_eq(put_check("c9", "", "", MONO_ZERO), TV_OK);
	registry_free(table);
	ck_assert_uint_eq(gone, 3);
	table = open_table();
}
END_TEST

/* -- the file -------------------------------------------------------------------- */

START_TEST(the_file)
{
	/* as the version before wrote it, and a field of a newer one */
	static const char format_1[] = "[{\"CheckID\":\"c1\",\"Name\":\"c\",\"Notes\":\"n\",\"Output\":\"o\","
	    "\"Status\":\"warning\",\"ServiceID\":\"\",\"TTL\":\"10s\",\"DeregisterCriticalServiceAfter\":\"1m0s\","
	    "\"Later\":1}]";
	static const char check_1[] = "{\"CheckID\":\"c1\",\"Name\":\"c\",\"Notes\":\"n\",\"Output\":\"o\","
	    "\"Status\":\"warning\",\"ServiceID\":\"\",\"TTL\":\"10s\",\"DeregisterCriticalServiceAfter\":\"1m0s\","
	    "\"Type\":\"ttl\"}";
	static const char *const broken[] = { "", "{", "{}", "7", "[{\"Version\":3}]" };
	struct buf text = BUF_INIT(65536), again = BUF_INIT(65536);
	struct service s = service("web1", "a");
	struct local_record rec;
	char why[256];

	ck_assert_int_eq(registry_parse(table, span_str(format_1), "f", why, sizeof(why)), TV_OK);
	ck_assert(registry_get(registry_find(table, ENTRY_CHECK, span_str("c1")), &rec));
	ck_assert(span_eqs(rec.check.Status, "warning") && span_eqs(rec.check.Type, "ttl") && rec.ttl == 10000000000 &&
	    rec.deregister_after == 60000000000 && span_eqs(rec.check.Node, "n1"));
	registry_print(table, &text);
	ck_assert(text.len == strlen(check_1) + 2 &&
	    memcmp(text.data + 1, check_1, strlen(check_1)) == 0);
	/* services stand first, which the version before passes over */
	s.Tags = (struct span_list){ 0 };
	s.Meta = (struct span_map){ .kv = &(struct span[2]){ span_str("k"), span_str("v") }, .n = 1, .set = true };
	struct upstream up = { .DestinationType = span_str("service"), .DestinationName = span_str("db"), .LocalBindPort = 9,
	    .Config = span_str("{\"c\":0.1}") };
	s.Kind = span_str("connect-proxy");
	s.Proxy = (struct service_proxy){ .DestinationServiceName = span_str("api"), .Config = span_str("{\"a\":[1,null,{}]}"),
	    .Upstreams = { &up, 1, true } };
	ck_assert_int_eq(put_service(s, "secret"), TV_OK);
	ck_assert_int_eq(put_check("c2", "web1", "t2", MONO_ZERO), TV_OK);
	registered(TV_OK);
	registered(TV_OK);
	buf_reset(&text);
	registry_print(table, &text);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&text), "[{\"Version\":2},{\"Service\":{\"ID\":\"web1\""));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&text), check_1));
	registry_free(table);
	table = open_table();
	sent = saves = 0;
	ck_assert_int_eq(registry_parse(table, buf_span(&text), "f", why, sizeof(why)), TV_OK);
	registry_print(table, &again);
	ck_assert(span_eq(buf_span(&text), buf_span(&again)));
	ck_assert_uint_eq(sent + saves, 0);
	/* the catalog has just that: nothing is sent after a start, and the service need not be told again */
	struct check checks[2] = { check("c1", "", "warning"), check("c2", "web1", "passing") };
	checks[0].Name = span_str("c");
	checks[0].Notes = span_str("n");
	checks[0].Output = span_str("o");
	compare(&s, 1, checks, 2);
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER) + open_calls(OP_CATALOG_DEREGISTER), 0);
	ck_assert_int_eq(update("c2", "critical", ""), TV_OK);
	ck_assert_str_eq(registered(TV_OK), "t2");
	registry_free(table);
	table = open_table();
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		why[0] = '\0';
		ck_assert_int_eq(registry_parse(table, span_str(broken[i]), "f", why, sizeof(why)), TV_EFORMAT);
		ck_assert(why[0] != '\0' && TAILQ_FIRST(&table->entries) == NULL);
	}
	ck_assert_str_eq(why, "format 3 is of a newer version");
	buf_done(&text);
	buf_done(&again);
}
END_TEST

/* -- what files define ------------------------------------------------------------- */

static char changes[256];

static void
note(void *ctx, enum registry_change change, enum entry_kind kind, struct span id, struct span place)
{
	ck_assert_ptr_null(ctx);
	ck_assert_int_eq(place.len == 0, change == DEFINED_GONE);
	size_t at = strlen(changes);
	snprintf(changes + at, sizeof(changes) - at, "%s%c%s%.*s", at > 0 ? " " : "", "+*-"[change],
	    kind == ENTRY_CHECK ? "c:" : "", (int)id.len, (const char *)id.p);
}

/* The changes as a text: +new *other -gone. */
static const char *
define(const struct registry_definition *v, uint32_t n)
{
	changes[0] = '\0';
	registry_define(table, v, n, true, note, NULL);
	return changes;
}

static struct registry_definition
definition(struct local_record rec)
{
	rec.from_file = true;
	return (struct registry_definition){ .rec = rec, .place = span_str("web.conf:1") };
}

START_TEST(definitions)
{
	struct local_record web = { .kind = ENTRY_SERVICE, .service = service("web1", "a") };
	struct local_record rec, c1 = record_of("c1", "passing", "");
	struct registry_definition v[2] = { definition(web), definition(c1) };
	char why[256];

	ck_assert_int_eq(registry_definable(table, &v[1], 1, why, sizeof(why)), TV_ENOENT);
	ck_assert_ptr_nonnull(strstr(why, "web.conf:1: check \"c1\": ServiceID \"web1\" does not exist"));
	ck_assert_int_eq(registry_definable(table, v, 2, why, sizeof(why)), TV_OK);
	ck_assert_str_eq(define(v, 2), "+web1 +c:c1");
	registered(TV_OK);
	ck_assert(reg.has_service && reg.Checks.n == 1);
	ck_assert_uint_eq(sent, 1);
	ck_assert_uint_eq(saves, 1);
	/* the same again touches nothing, whatever the check says by now and whoever set tags */
	ck_assert_int_eq(update("c1", "critical", "x"), TV_OK);
	registered(TV_OK);
	ck_assert_str_eq(define(v, 2), "");
	ck_assert_uint_eq(saves, 1);
	/* another definition, the same state */
	v[1].rec.ttl++;
	ck_assert_str_eq(define(v, 2), "*c:c1");
	registered(TV_OK);
	ck_assert(registry_get(registry_find(table, ENTRY_CHECK, span_str("c1")), &rec));
	ck_assert(span_eqs(rec.check.Status, "critical") && rec.from_file && rec.ttl == v[1].rec.ttl);
	/* a client's counts until the next time, and is the file's from then on */
	web.service.Port = 81;
	ck_assert_int_eq(registry_put(table, &web), TV_OK);
	registered(TV_OK);
	ck_assert(registry_get(registry_find(table, ENTRY_SERVICE, span_str("web1")), &rec) && !rec.from_file);
	ck_assert_str_eq(define(v, 2), "*web1");
	registered(TV_OK);
	ck_assert_int_eq(registry_put(table, &v[0].rec), TV_OK);
	registered(TV_OK);
	/* what a client adds stays, but for a check of a service that goes */
	ck_assert_int_eq(put_check("c2", "web1", "", MONO_ZERO), TV_OK);
	registered(TV_OK);
	ck_assert_int_eq(put_check("c3", "", "", MONO_ZERO), TV_OK);
	registered(TV_OK);
	ck_assert_int_eq(put_service(service("web2", "b"), ""), TV_OK);
	registered(TV_OK);
	ck_assert_int_eq(registry_definable(table, &v[1], 1, why, sizeof(why)), TV_ENOENT);
	ck_assert_str_eq(define(NULL, 0), "-c:c2 -c:c1 -web1");
	deregistered(TV_OK);
	ck_assert(span_eqs(dereg.ServiceID, "web1"));
	ck_assert(registry_count(table, ENTRY_SERVICE) == 1 && registry_count(table, ENTRY_CHECK) == 1);
	ck_assert_ptr_null(entry_find(table, ENTRY_CHECK, span_str("c1")));
}
END_TEST

/* Against the limit counts what stays and what is new, not what goes. */
START_TEST(definitions_have_a_limit)
{
	static const char *const names[] = { "a", "b", "c", "d", "e" };
	struct registry_definition v[5];
	char why[256];

	for (int i = 0; i < 5; i++)
		v[i] = definition((struct local_record){ .kind = ENTRY_SERVICE, .service = service(names[i], "t") });
	ck_assert_int_eq(registry_definable(table, v, 5, why, sizeof(why)), TV_ELIMIT);
	ck_assert_str_eq(why, "services.d: with what is registered there would be 5 services (limit: 4, checks_max in "
	    "rpcd.conf)");
	refuse = true;
	ck_assert_str_eq(define(v, 4), "+a +b +c +d");
	ck_assert_int_eq(registry_definable(table, &v[1], 4, why, sizeof(why)), TV_OK);
	ck_assert_str_eq(define(&v[1], 4), "-a +e");
	/* without the question it is left out, and the log says so */
	ck_assert_str_eq(define(v, 5), "");
	ck_assert_uint_eq(registry_count(table, ENTRY_SERVICE), 4);
}
END_TEST

/* What a file defines has a token of its own in rpcd.conf, unless the definition has one. */
START_TEST(token_of_files)
{
	struct registry_definition v[2] = {
		{ .rec = { .kind = ENTRY_SERVICE, .service = service("f1", "a"), .from_file = true }, .place = span_str("f:1") },
		{ .rec = { .kind = ENTRY_SERVICE, .service = service("f2", "a"), .from_file = true,
		    .token = span_str("own") }, .place = span_str("f:2") },
	};
	struct registry_blocked blocked;

	agent_token_now = "mine";
	file_token_now = "file";
	ck_assert_int_eq(put_service(service("web1", "a"), ""), TV_OK);
	ck_assert_str_eq(registered(TV_OK), "mine");
	(void)define(v, 1);
	refused_with = "Permission denied";
	ck_assert_str_eq(registered(TV_EPERM), "file");
	registry_blocked(table, &blocked);
	ck_assert_str_eq(blocked.why, "acl.tokens.config_file_service_registration lacks service \"web\" { policy = \"write\" }");
	(void)define(v, 2);
	ck_assert_str_eq(registered(TV_OK), "own");
	file_token_now = "better";
	registry_token_changed(table);
	compare((struct service[]){ service("web1", "a"), service("f2", "a") }, 2, NULL, 0);
	ck_assert_str_eq(registered(TV_OK), "better");
	(void)define(NULL, 0);
	for (unsigned i = 0; i < CALLS_MAX; i++)
		ck_assert(!calls[i].open || strcmp(calls[i].token, "better") == 0 || strcmp(calls[i].token, "own") == 0);
	refused_with = "ACL not found";
}
END_TEST

/* -- the node itself -- */

#define PAIRS(...) ((struct span[][2]){ __VA_ARGS__ })
#define PAIR(key_, value_) { span_str(key_), span_str(value_) }
#define SEGMENT PAIR("consul-network-segment", "")

/* A comparison finds this node, as the leader has it at first but for what is given. */
static void
compare_node(const char *id, const struct span_map *tagged, const struct span_map *meta)
{
	struct span addresses[][2] = { PAIR("lan", "10.0.0.1"), PAIR("lan_ipv4", "10.0.0.1"), PAIR("wan", "10.0.0.1"),
	    PAIR("wan_ipv4", "10.0.0.1") }, segment[][2] = { SEGMENT };
	struct node_services list = { .found = true, .Node = { .ID = span_str(id), .Node = span_str("n1"),
	    .Address = span_str("10.0.0.9"), .TaggedAddresses = tagged != NULL ? *tagged : (struct span_map){ addresses, 4, true },
	    .Meta = meta != NULL ? *meta : (struct span_map){ segment, 1, true } } };
	struct buf b = BUF_INIT(65536);
	struct catalog_read args;

	while (open_calls(OP_CATALOG_NODE) == 0)
		pass(MONO_S(1));
	schema_pack(&node_services_schema, &list, &b);
	answer(OP_CATALOG_NODE, &args, TV_OK, buf_span(&b));
	if (open_calls(OP_HEALTH_NODE) > 0)	/* not of a node that is another one's */
		answer(OP_HEALTH_NODE, &args, TV_OK, SPAN_NONE);
	buf_done(&b);
}

static const char *
text_of(const struct span_map *map)
{
	static char text[512];
	size_t n = 0;

	for (uint32_t i = 0; i < map->n; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.*s=%.*s", i > 0 ? " " : "", (int)map->kv[i][0].len,
		    (const char *)map->kv[i][0].p, (int)map->kv[i][1].len, (const char *)map->kv[i][1].p);
	return text;
}

static char meta_rack[] = "rack=r1", meta_url[] = "url=http://h/?a=b", tagged_wan[] = "wan=203.0.113.7", wan_ip[] = "fd00::7";

/* What the leader has written is as it should be. */
START_TEST(node_by_default)
{
	compare_node("id-1", NULL, NULL);
	ck_assert_uint_eq(sent, 2);
	cluster.advertise_wan = wan_ip;
	compare_node("id-1", NULL, NULL);
	registered(TV_OK);
	ck_assert_str_eq(text_of(&reg.TaggedAddresses), "lan=10.0.0.1 lan_ipv4=10.0.0.1 wan=fd00::7 wan_ipv6=fd00::7");
	ck_assert_str_eq(text_of(&reg.NodeMeta), "consul-network-segment=");
}
END_TEST

/* What is configured is written, with gossip's address, and what is no more goes. */
START_TEST(node_as_configured)
{
	own_meta[0] = meta_url;
	own_meta[1] = meta_rack;
	cluster.node_meta.count = 2;
	own_tagged[0] = tagged_wan;
	cluster.tagged_addresses.count = 1;
	agent_token_now = "mine";
	compare_node("id-1", NULL, NULL);
	ck_assert_str_eq(registered(TV_OK), "mine");
	ck_assert(!reg.SkipNodeUpdate && !reg.has_service && !reg.has_check && span_eqs(reg.ID, "id-1") &&
	    span_eqs(reg.Node, "n1") && span_eqs(reg.Address, "10.0.0.9"));
	ck_assert_str_eq(text_of(&reg.TaggedAddresses), "lan=10.0.0.1 lan_ipv4=10.0.0.1 wan=203.0.113.7 wan_ipv4=10.0.0.1");
	ck_assert_str_eq(text_of(&reg.NodeMeta), "consul-network-segment= rack=r1 url=http://h/?a=b");
	sent = 0;
	compare_node("id-1", &(struct span_map){ PAIRS(PAIR("wan", "203.0.113.7"), PAIR("lan", "10.0.0.1"),
	    PAIR("wan_ipv4", "10.0.0.1"), PAIR("lan_ipv4", "10.0.0.1")), 4, true },
	    &(struct span_map){ PAIRS(PAIR("url", "http://h/?a=b"), SEGMENT, PAIR("rack", "r1")), 3, true });
	ck_assert_uint_eq(sent, 2);		/* the comparison; the order says nothing */
	cluster.node_meta.count = cluster.tagged_addresses.count = 0;
	registry_token_changed(table);		/* as a reload does */
	pass(MONO_ZERO);
	compare_node("id-1", NULL, &(struct span_map){ PAIRS(PAIR("url", "http://h/?a=b"), SEGMENT), 2, true });
	registered(TV_OK);
	ck_assert_str_eq(text_of(&reg.NodeMeta), "consul-network-segment=");
}
END_TEST

/* Nor is anything written of a node that is not ours, or not there: but that is looked at again soon. */
START_TEST(node_of_another)
{
	own_meta[0] = meta_rack;
	cluster.node_meta.count = 1;
	compare_node("id-2", NULL, NULL);
	compare_node("", NULL, NULL);
	ck_assert_uint_eq(open_calls(OP_CATALOG_REGISTER), 0);
	compare_blind();
	pass(MONO_S(30));
	ck_assert_uint_eq(open_calls(OP_CATALOG_NODE), 1);
	compare_node("id-1", NULL, NULL);
	registered(TV_OK);
}
END_TEST

/* It is told, and tried again at each comparison. */
START_TEST(node_refused)
{
	struct registry_blocked blocked;

	own_meta[0] = meta_rack;
	cluster.node_meta.count = 1;
	agent_token_now = "mine";
	refused_with = "Permission denied";
	compare_node("id-1", NULL, NULL);
	registered(TV_EPERM);
	registry_blocked(table, &blocked);
	ck_assert_uint_eq(blocked.count, 1);
	ck_assert_uint_eq(blocked.total, 1);
	ck_assert_str_eq(blocked.first, "node n1");
	ck_assert_str_eq(blocked.why, "acl.tokens.agent lacks node \"n1\" { policy = \"write\" }");
	compare_node("id-1", NULL, NULL);
	registered(TV_ETIMEOUT);
	pass(MONO_S(30));
	ck_assert_uint_eq(open_calls(OP_CATALOG_NODE), 1);
	compare_node("id-1", NULL, NULL);
	registered(TV_OK);
	registry_blocked(table, &blocked);
	ck_assert_uint_eq(blocked.count, 0);
	compare_node("id-1", NULL, NULL);	/* under way when the registry ends */
	refused_with = "ACL not found";
}
END_TEST

/* Entries by themselves: the checks of each service are met in the order in which they were added, also after others were removed. */
START_TEST(checks_of_services_in_order)
{
	enum { ENTRIES = 40 };
	static const char *const names[] = { "", "web", "Web", "db" };
	static struct entry entries[ENTRIES];
	struct registry own = { .conf = { .seed = 9 } };
	struct entry *order[4][ENTRIES];
	unsigned count[4] = { 0 }, at[ENTRIES] = { 0 };
	char ids[ENTRIES][8];

	srand(5);
	for (unsigned i = 0; i < ENTRIES; i++) {
		snprintf(ids[i], sizeof(ids[i]), "%u", i);
		entries[i] = (struct entry){ .registry = &own, .kind = ENTRY_CHECK, .id = span_str(ids[i]) };
		index_put(&entries[i]);
	}
	for (unsigned step = 0; step < 4000; step++) {
		unsigned i = (unsigned)rand() % ENTRIES, to = (unsigned)rand() % 4, from = at[i], k = 0;
		struct entry *e = &entries[i];

		if (from != to) {
			while (from > 0 && order[from][k] != e)
				k++;
			if (from > 0)
				memmove(&order[from][k], &order[from][k + 1], (--count[from] - k) * sizeof(e));
			order[to][to > 0 ? count[to]++ : 0] = e;
		}
		at[i] = to;
		e->service = span_str(names[to]);
		if (rand() % 8 == 0 && from != to)
			index_take_out(e);
		index_put(e);
		for (unsigned n = 1; n < 4; n++) {
			struct entry *met = entry_check_first(&own, span_str(names[n]));

			for (k = 0; k < count[n]; k++, met = entry_check_next(met))
				ck_assert_ptr_eq(met, order[n][k]);
			ck_assert_ptr_null(met);
		}
		ck_assert_ptr_eq(entry_find(&own, ENTRY_CHECK, e->id), e);
	}
	for (unsigned i = 0; i < ENTRIES; i++)
		index_take_out(&entries[i]);
	ck_assert_uint_eq(own.by_id.count, 0);
	ck_assert_uint_eq(own.by_service.count, 0);
	index_done(&own);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		ids_that_differ_by_case, removed_without_its_token, never_accepted, states_without_their_token,
		states_after_a_restart, dead_instances_do_not_stay, states_that_came_with_their_service, a_new_agent_token,
		limits, a_service_takes_its_checks_along, a_service_goes_with_its_checks,
		entry_of_another_node_is_left_alone, registered_again_while_it_goes,
		comparison, comparisons_are_spread, a_service_with_its_checks, no_room_for_all_of_it, news, tags_of_others, failure_and_refusal, output_waits, critical_for_too_long,
		settling, users, the_file, definitions, definitions_have_a_limit, a_server_came, counted, many,
		token_of_files, node_by_default, node_as_configured, node_of_another, node_refused,
		checks_of_services_in_order,
	};
	Suite *s = suite_create("registry");
	TCase *t = tcase_create("registry");

	tcase_add_checked_fixture(t, setup, teardown);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
