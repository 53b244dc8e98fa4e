/* Prepared queries: what is kept and refused, how they are found, templates, what they find, and their sessions. */
#include <stdio.h>
#include <stdlib.h>

#include "common/record/mpack.h"
#include "common/record/schema_json.h"
#include "common/text/json_text.h"
#include "raftd/fsm/query/query_render.h"
#include "raftd/fsm/state.h"
#include "raftd/fsm/table/record.h"
#include "tests/unit/fsm_kit.h"

#define NO_UUID "11111111-2222-4333-8444-555555555555"

static struct kit k;

static void
setup(void)
{
	kit_open(&k);
	kit_node(&k, KIT_NODE, "10.0.0.1");
	kit_node(&k, "n2", "10.0.0.2");
}

static void
teardown(void)
{
	kit_close(&k);
}

/* -- short ways -- */

static struct prepared_query
parse(const char *json)
{
	struct prepared_query q = { .ID = SPAN_NONE };
	char why[256] = "";
	json_t *v = json_first_value(span_str(json), why, sizeof(why));

	ck_assert_msg(v != NULL && schema_from_json(&prepared_query_schema, v, 0, &k.a, &q, why, sizeof(why)) == TV_OK, "%s: %s",
	    json, why);
	json_decref(v);
	return q;
}

/* The id. */
static const char *
create(const char *json)
{
	struct prepared_query q = parse(json);
	struct fsm_result res = kit_apply(&k, OP_QUERY_CREATE, &q);
	struct rd in = rd_span_over(res.value);
	struct text_reply reply;

	ck_assert_msg(res.err == TV_OK, "%s: %.*s", json, (int)res.text.len, (const char *)res.text.p);
	ck_assert_int_eq(schema_unpack(&text_reply_schema, &in, &k.a, &reply), TV_OK);
	return arena_cstr(&k.a, reply.Value);
}

static void
create_refused(const char *json, const char *text)
{
	struct prepared_query q = parse(json);

	kit_refused(&k, OP_QUERY_CREATE, &q, text);
}

static void
delete(const char *id)
{
	ck_assert(kit_bool(&k, OP_QUERY_DELETE, &(struct prepared_read){ span_str(id) }));
}

static unsigned
stored(const char *id)
{
	return kit_read(&k, OP_QUERY_GET, &(struct prepared_read){ span_str(id) }, NULL);
}

static unsigned
listed(void)
{
	return kit_read(&k, OP_QUERY_LIST, &(struct prepared_read){ SPAN_NONE }, NULL);
}

/* Runs a read that may fail: its answer in k.ans and k.out. */
static void
ask(uint16_t op, const void *rec)
{
	struct buf args = BUF_INIT(1u << 20);

	schema_pack(op_find(op)->args, rec, &args);
	buf_reset(&k.out);
	fsm_read(k.f, op_find(op), buf_span(&args), &k.a, &k.out, &k.ans);
	buf_done(&args);
}

/* The service that a name means, or the error. */
static const char *
explained(const char *name)
{
	struct prepared_query q = { .ID = SPAN_NONE };
	struct rd in;

	ask(OP_QUERY_EXPLAIN, &(struct prepared_ask){ .Name = span_str(name) });
	if (k.ans.err != TV_OK)
		return arena_cstr(&k.a, k.ans.text);
	in = rd_span_over(buf_span(&k.out));
	ck_assert_int_eq(schema_unpack(&prepared_query_schema, &in, &k.a, &q), TV_OK);
	return arena_cstr(&k.a, q.Service.Service);
}

/* Ids of the instances, in order, each with a blank behind it. */
static const char *
found(const struct prepared_ask *a)
{
	struct prepared_found f = { .Nodes = { .n = 0 } };
	struct buf b = BUF_INIT(65536);
	const struct health_entry *e;
	const char *text;
	struct rd in;

	ask(OP_QUERY_EXECUTE, a);
	ck_assert_msg(k.ans.err == TV_OK, "%.*s", (int)k.ans.text.len, (const char *)k.ans.text.p);
	in = rd_span_over(buf_span(&k.out));
	ck_assert_int_eq(schema_unpack(&prepared_found_schema, &in, &k.a, &f), TV_OK);
	ck_assert_int_eq(rd_end(&in), TV_OK);
	ck_assert(span_eqs(f.Datacenter, "dc1"));
	e = f.Nodes.v;
	for (uint32_t i = 0; i < f.Nodes.n; i++)
		buf_printf(&b, "%.*s ", (int)e[i].Service.ID.len, (const char *)e[i].Service.ID.p);
	text = arena_cstr(&k.a, buf_span(&b));
	buf_done(&b);
	return text;
}

static const char *
execute(const char *name)
{
	return found(&(struct prepared_ask){ .Name = span_str(name) });
}

/* -- what is kept -- */

START_TEST(kept)
{
	const char *id = create("{\"Name\":\"Web\",\"Service\":{\"Service\":\"web\",\"Tags\":[\"a\",\"!b\"]},\"DNS\":{\"TTL\":\"10s\"}}");
	struct prepared_query q = parse("{\"Name\":\"other\",\"Service\":{\"Service\":\"db\"}}");
	const char *json;

	ck_assert_uint_eq(kit_read(&k, OP_QUERY_GET, &(struct prepared_read){ span_str(id) }, &json), 1);
	ck_assert_ptr_nonnull(strstr(json, "\"Service\":{\"Service\":\"web\",\"Failover\":{\"NearestN\":0,\"Datacenters\":null},"
	    "\"OnlyPassing\":false,\"IgnoreCheckIDs\":null,\"Near\":\"\",\"Tags\":[\"a\",\"!b\"],\"NodeMeta\":null,\"ServiceMeta\":null},"
	    "\"DNS\":{\"TTL\":\"10s\"},\"CreateIndex\":3,\"ModifyIndex\":3}"));
	ck_assert_uint_eq(k.ans.index, 3);
	ck_assert_str_eq(explained("wEB"), "web");
	ck_assert_str_eq(explained(id), "web");
	q.ID = span_str(id);
	ck_assert(kit_bool(&k, OP_QUERY_UPDATE, &q));
	ck_assert_str_eq(explained("web"), "Query not found");
	ck_assert_str_eq(explained("other"), "db");
	ck_assert_uint_eq(kit_read(&k, OP_QUERY_LIST, &(struct prepared_read){ SPAN_NONE }, &json), 1);
	ck_assert_ptr_nonnull(strstr(json, "\"CreateIndex\":3,\"ModifyIndex\":4}"));
	ck_assert_uint_eq(k.ans.index, 4);
	ck_assert_uint_eq(k.f->tally[FT_QUERIES], 1);
	ck_assert_uint_eq(fsm_needs(k.f), 5);
	delete(id);
	ck_assert_uint_eq(listed(), 0);
	ck_assert_uint_eq(k.f->tally[FT_QUERIES], 0);
	ck_assert_str_eq(explained("other"), "Query not found");
	kit_refused(&k, OP_QUERY_DELETE, &(struct prepared_read){ span_str(id) }, arena_cstr(&k.a, arena_printf(&k.a,
	    "Cannot modify non-existent prepared query: '%s'", id)));
	kit_refused(&k, OP_QUERY_UPDATE, &q, arena_cstr(&k.a, arena_printf(&k.a,
	    "Cannot modify non-existent prepared query: '%s'", id)));
}
END_TEST

#define WEB "\"Service\":{\"Service\":\"web\"}"
#define TEMPLATE "\"Template\":{\"Type\":\"name_prefix_match\"}"

static const struct { const char *json, *text; } refusals[] = {
	{ "{\"ID\":\"x\",\"Name\":\"q\"," WEB "}", "ID must be empty when creating a new prepared query" },
	{ "{" WEB "}", "Invalid prepared query: Must be bound to a session" },
	{ "{\"Name\":\"q\",\"Token\":\"<hidden>\"," WEB "}",
	  "Invalid prepared query: Bad Token '<hidden>', it looks like a query definition with a redacted token was submitted" },
	{ "{\"Name\":\"q\"}", "Invalid prepared query: Must provide a Service name to query" },
	{ "{\"Name\":\"q\",\"Service\":{\"Service\":\"s\",\"Failover\":{\"NearestN\":-1}}}",
	  "Invalid prepared query: Bad NearestN '-1', must be >= 0" },
	{ "{\"Name\":\"q\",\"Service\":{\"Service\":\"s\",\"NodeMeta\":{\"\":\"x\"}}}",
	  "Invalid prepared query: Invalid NodeMeta filter: Couldn't load metadata pair ('', 'x'): Key cannot be blank" },
	{ "{\"Name\":\"q\",\"Service\":{\"Service\":\"s\",\"ServiceMeta\":{\"a b\":\"x\"}}}",
	  "Invalid prepared query: Invalid ServiceMeta filter: Couldn't load metadata pair ('a b', 'x'): Key contains invalid characters" },
	{ "{\"Name\":\"q\"," WEB ",\"DNS\":{\"TTL\":\"abc\"}}",
	  "Invalid prepared query: Bad DNS TTL 'abc': time: invalid duration \"abc\"" },
	{ "{\"Name\":\"q\"," WEB ",\"DNS\":{\"TTL\":\"-1s\"}}", "Invalid prepared query: DNS TTL '-1000000000', must be >=0" },
	{ "{\"Name\":\"q\"," WEB ",\"Session\":\"" NO_UUID "\"}", "raft apply failed: invalid session \"" NO_UUID "\"" },
	{ "{\"Name\":\"q\"," WEB ",\"Session\":\"x\"}",
	  "raft apply failed: failed session lookup: index error: UUID must be 36 characters" },
	{ "{\"Name\":\"TAKEN\"," WEB "}", "raft apply failed: name 'TAKEN' aliases an existing query name" },
	{ "{" TEMPLATE "," WEB "}", "raft apply failed: a query template with an empty name already exists" },
	{ "{\"Name\":\"q\",\"Template\":{\"Type\":\"x\"}," WEB "}", "raft apply failed: failed compiling template: Bad Template.Type 'x'" },
	{ "{\"Name\":\"q\",\"Template\":{\"Type\":\"name_prefix_match\",\"Regexp\":\"(\"}," WEB "}",
	  "raft apply failed: failed compiling template: Bad Regexp: error parsing regexp: missing closing ): `(`" },
	{ "{\"Name\":\"q\"," TEMPLATE ",\"Service\":{\"Service\":\"s\",\"Tags\":[\"a\",\"${b\"]}}",
	  "raft apply failed: failed compiling template: Bad evaluation for '${b' in Service.Tags[1]: 1:3: unknown variable accessed: b" },
	{ "{\"Name\":\"q\"," TEMPLATE ",\"Service\":{\"Service\":\"${\"}}",
	  "raft apply failed: failed compiling template: Bad format '${' in Service.Service: 1:3: expected an expression" },
};

START_TEST(refused)
{
	const char *id = create("{\"Name\":\"taken\"," WEB "}");

	create("{" TEMPLATE "," WEB "}");
	for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		create_refused(refusals[i].json, refusals[i].text);
	create_refused(arena_cstr(&k.a, arena_printf(&k.a, "{\"Name\":\"%s\"," WEB "}", id)), arena_cstr(&k.a,
	    arena_printf(&k.a, "raft apply failed: name '%s' aliases an existing query ID", id)));
	ck_assert_uint_eq(listed(), 2);
	kit_refused(&k, OP_QUERY_DELETE, &(struct prepared_read){ span_str("abc") },
	    "Prepared Query lookup failed: failed prepared query lookup: index error: UUID must be 36 characters");
	ask(OP_QUERY_GET, &(struct prepared_read){ span_str("abc") });
	ck_assert(span_eqs(k.ans.text, "failed prepared query lookup: index error: UUID must be 36 characters"));
	ck_assert_str_eq(explained(""), "Missing Query ID");
}
END_TEST

START_TEST(too_large)
{
	struct buf json = BUF_INIT(1u << 20);

	buf_puts(&json, "{\"Name\":\"q\",\"Service\":{\"Service\":\"s\",\"Tags\":[\"x\"");
	for (int i = 0; i < 40000; i++)
		buf_puts(&json, ",\"x\"");
	buf_puts(&json, "]}}");
	create_refused(buf_cstr(&json), "Invalid prepared query: it is larger than 65536 bytes");
	buf_reset(&json);
	buf_puts(&json, "{\"Service\":{\"Service\":\"s\"},\"Name\":\"");
	for (int i = 0; i < 1025; i++)
		buf_u8(&json, 'n');
	buf_puts(&json, "\"}");
	create_refused(buf_cstr(&json), "Invalid prepared query: Name is longer than 1024 bytes");
	buf_done(&json);
}
END_TEST

START_TEST(sessions)
{
	const char *s = kit_session(&k, KIT_NODE, "release", 0), *id, *other;
	uint64_t index;

	id = create(arena_cstr(&k.a, arena_printf(&k.a, "{\"Session\":\"%s\"," WEB "}", s)));
	create(arena_cstr(&k.a, arena_printf(&k.a, "{\"Name\":\"bound\",\"Session\":\"%s\"," WEB "}", s)));
	other = create("{\"Name\":\"free\"," WEB "}");
	ck_assert_str_eq(explained(id), "web");
	ck_assert_uint_eq(listed(), 3);
	index = k.ans.index;
	ck_assert(kit_bool(&k, OP_SESSION_DESTROY, &(struct session_destroy){ .ID = span_str(s) }));
	ck_assert_uint_eq(listed(), 1);
	ck_assert_uint_gt(k.ans.index, index);
	ck_assert_uint_eq(stored(id), 0);
	ck_assert_uint_eq(stored(other), 1);
	ck_assert_str_eq(explained("bound"), "Query not found");
	create("{\"Name\":\"bound\"," WEB "}");
	/* One that was let go stays. */
	s = kit_session(&k, KIT_NODE, "release", 0);
	id = create(arena_cstr(&k.a, arena_printf(&k.a, "{\"Name\":\"x\",\"Session\":\"%s\"," WEB "}", s)));
	struct prepared_query q = parse("{\"Name\":\"x\"," WEB "}");
	q.ID = span_str(id);
	ck_assert(kit_bool(&k, OP_QUERY_UPDATE, &q));
	ck_assert(kit_bool(&k, OP_SESSION_DESTROY, &(struct session_destroy){ .ID = span_str(s) }));
	ck_assert_uint_eq(stored(id), 1);
	ck_assert_uint_eq(k.f->tally[FT_QUERIES], 3);
}
END_TEST

/* A node takes its sessions with it, and these their queries. */
START_TEST(node_gone)
{
	const char *s = kit_session(&k, "n2", "delete", 0);

	create(arena_cstr(&k.a, arena_printf(&k.a, "{\"Session\":\"%s\"," WEB "}", s)));
	ck_assert(kit_bool(&k, OP_CATALOG_DEREGISTER, &(struct catalog_deregister){ .Node = span_str("n2") }));
	ck_assert_uint_eq(listed(), 0);
}
END_TEST

/* What an archive may bring along. */
START_TEST(sound_records)
{
	struct prepared_query q = { .ID = span_str(NO_UUID), .Name = span_str("q") };
	char name[1025];
	const struct { struct span id, name, session; enum tv_err err; } cases[] = {
		{ q.ID, q.Name, SPAN_NONE, TV_OK }, { q.ID, q.Name, q.ID, TV_OK }, { span_str("x"), q.Name, SPAN_NONE, TV_EFORMAT },
		{ q.ID, span_of(name, sizeof(name)), SPAN_NONE, TV_EFORMAT }, { q.ID, q.Name, span_of(name, 37), TV_EFORMAT },
	};
	struct buf val = BUF_INIT(65536);
	enum fsm_tally tally;
	struct tkey key;

	memset(name, 'n', sizeof(name));
	TKEY(&key, TBL_QUERY, span_str(NO_UUID));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		q.ID = cases[i].id;
		q.Name = cases[i].name;
		q.Session = cases[i].session;
		buf_reset(&val);
		schema_pack(&prepared_query_schema, &q, &val);
		ck_assert_int_eq(record_check(span_of(key.b, key.len), buf_span(&val), &k.a, &tally), cases[i].err);
	}
	ck_assert_int_eq(tally, FT_QUERIES);
	buf_done(&val);
}
END_TEST

START_TEST(waiting)
{
	const struct op *get = op_find(OP_QUERY_LIST);
	struct buf args = BUF_INIT(64);
	unsigned fired = 0;
	struct fsm_watch *w;

	schema_pack(&prepared_read_schema, &(struct prepared_read){ SPAN_NONE }, &args);
	w = fsm_watch(k.f, get, buf_span(&args), kit_fired, &fired);
	ck_assert_ptr_nonnull(w);
	kit_node(&k, "n3", "10.0.0.3");
	ck_assert_uint_eq(fired, 0);
	create("{\"Name\":\"q\"," WEB "}");
	ck_assert_uint_eq(fired, 1);
	buf_done(&args);
}
END_TEST

START_TEST(over_a_restart)
{
	create("{\"Name\":\"q\"," WEB "}");
	kit_reopen(&k);
	ck_assert_str_eq(explained("q"), "web");
	ck_assert_uint_eq(k.f->tally[FT_QUERIES], 1);
}
END_TEST

/* -- templates -- */

static void
template(const char *name, const char *service)
{
	create(arena_cstr(&k.a, arena_printf(&k.a, "{\"Name\":\"%s\"," TEMPLATE ",\"Service\":{\"Service\":\"%s\"}}", name, service)));
}

START_TEST(longest_prefix)
{
	create("{\"Name\":\"geo-d\",\"Service\":{\"Service\":\"plain\"}}");
	template("geo", "geo");
	template("Geo-Db", "geo-db");
	template("geo-db-eu-west", "west");
	template("g", "g");
	template("z", "z");
	for (int i = 0; i < 200; i++)
		template(arena_cstr(&k.a, arena_printf(&k.a, "geo-db-e%c%d", 'a' + i % 26, i)), "other");
	ck_assert_str_eq(explained("geo-db-eu"), "geo-db");
	ck_assert_str_eq(explained("GEO-DB-EU-WEST-1"), "west");
	ck_assert_str_eq(explained("geo-da"), "geo");
	ck_assert_str_eq(explained("geo-d"), "plain");
	ck_assert_str_eq(explained("geo"), "geo");
	ck_assert_str_eq(explained("ge"), "g");
	ck_assert_str_eq(explained("h"), "Query not found");
	ck_assert_str_eq(explained("y"), "Query not found");
	ck_assert_str_eq(explained("zz"), "z");
	template("", "all");
	ck_assert_str_eq(explained("h"), "all");
	ck_assert_str_eq(explained("geo-db-eu"), "geo-db");
}
END_TEST

/* For every name, the walk finds what trying all prefixes finds. */
START_TEST(prefixes_as_by_trying)
{
	static const char letters[] = "ab";
	char names[15][4], name[6];
	unsigned n = 0;

	for (unsigned len = 1; len <= 3; len++)
		for (unsigned v = 0; v < 1u << len; v++) {
			if ((v * 5 + len * 3 + (unsigned)_i) % 3 == 0)
				continue;
			for (unsigned i = 0; i < len; i++)
				names[n][i] = letters[v >> i & 1];
			names[n][len] = '\0';
			template(names[n], names[n]);
			n++;
		}
	for (unsigned len = 1; len <= 5; len++)
		for (unsigned v = 0; v < 1u << len; v++) {
			const char *want = "Query not found";
			size_t best = 0;

			for (unsigned i = 0; i < len; i++)
				name[i] = letters[v >> i & 1];
			name[len] = '\0';
			for (unsigned i = 0; i < n; i++)
				if (strncmp(name, names[i], strlen(names[i])) == 0 && strlen(names[i]) > best) {
					want = names[i];
					best = strlen(want);
				}
			ck_assert_str_eq(explained(name), want);
		}
}
END_TEST

START_TEST(all_fields)
{
	const char *json;

	create("{\"Name\":\"geo-\",\"Template\":{\"Type\":\"name_prefix_match\",\"Regexp\":\"^geo-(.*?)-([^-]+)$\","
	    "\"RemoveEmptyTags\":true},\"Service\":{\"Service\":\"${match(1)}\",\"Failover\":{\"Datacenters\":[\"${match(2)}\"]},"
	    "\"IgnoreCheckIDs\":[\"c-${name.suffix}\"],\"Near\":\"_${name.prefix}\",\"Tags\":[\" ${match(3)} \",\"${match(2)}\",\"\"],"
	    "\"NodeMeta\":{\"r\":\"${name.full}\"},\"ServiceMeta\":{\"k\":\"[${agent.segment}]\"}}}");
	kit_read(&k, OP_QUERY_EXPLAIN, &(struct prepared_ask){ .Name = span_str("geo-db-eu") }, &json);
	ck_assert_ptr_nonnull(strstr(json, "\"Name\":\"geo-\",\"Session\":\"\",\"Token\":\"\",\"Template\":{\"Type\":"
	    "\"name_prefix_match\",\"Regexp\":\"^geo-(.*?)-([^-]+)$\",\"RemoveEmptyTags\":true},\"Service\":{\"Service\":\"db\","
	    "\"Failover\":{\"NearestN\":0,\"Datacenters\":[\"eu\"]},\"OnlyPassing\":false,\"IgnoreCheckIDs\":[\"c-db-eu\"],"
	    "\"Near\":\"_geo-\",\"Tags\":[\"eu\"],\"NodeMeta\":{\"r\":\"geo-db-eu\"},\"ServiceMeta\":{\"k\":\"[]\"}}"));
	/* Without a match all groups are empty. */
	ck_assert_str_eq(explained("geo-x"), "");
}
END_TEST

START_TEST(long_names)
{
	struct buf name = BUF_INIT(8192);
	struct prepared_query out, q = { .Name = span_str("p"), .Template = { .Type = span_str(PREPARED_TEMPLATE) } };
	struct buf why = BUF_INIT(4096), text = BUF_INIT(65536);

	template("p", "${name.suffix}");
	for (int i = 0; i < 1024; i++)
		buf_u8(&name, i == 0 ? 'p' : 'x');
	ck_assert_str_eq(explained(buf_cstr(&name)), buf_cstr(&name) + 1);
	buf_u8(&name, 'x');
	ck_assert_str_eq(explained(buf_cstr(&name)), "Query not found");
	/* What a query becomes has a bound as a whole. */
	for (int i = 0; i < 5000; i++)
		buf_puts(&text, "${name.full}");
	q.Service.Service = buf_span(&text);
	ck_assert_int_eq(query_render(&q, buf_span(&name), &k.a, &out, &why), TV_EINVAL);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&why), "the query gets too long"));
	/* An expression that would take for ever ends. */
	buf_reset(&why);
	q.Service.Service = span_str("s");
	q.Template.Regexp = span_str("^p(x+)+$");
	name.data[name.len - 1] = '!';
	ck_assert_int_eq(query_render(&q, buf_span(&name), &k.a, &out, &why), TV_EINVAL);
	ck_assert_str_eq(buf_cstr(&why), "Bad Regexp: it needs too many steps for this name");
	buf_done(&name);
	buf_done(&why);
	buf_done(&text);
}
END_TEST

/* -- executing -- */

static void
instance(const char *node, const char *id, const char *tag, const char *status)
{
	struct span tags[] = { span_str(tag), span_str("every") };
	struct catalog_register q = { .Node = span_str(node), .Address = span_str("10.0.0.9"), .has_service = true,
	    .Service = { .ID = span_str(id), .Service = span_str("web"), .Tags = { tags, 2, true } }, .has_check = true,
	    .Check = { .CheckID = span_str(id), .ServiceID = span_str(id), .Status = span_str(status) } };
	struct span meta[1][2] = { { span_str("id"), span_str(id) } };

	q.Service.Meta = (struct span_map){ meta, 1, true };
	ck_assert(kit_bool(&k, OP_CATALOG_REGISTER, &q));
}

START_TEST(selection)
{
	instance(KIT_NODE, "i1", "A", "passing");
	instance(KIT_NODE, "i2", "b", "warning");
	instance("n2", "i3", "a", "critical");
	create("{\"Name\":\"tag\",\"Service\":{\"Service\":\"web\",\"Tags\":[\"a\",\"every\"]}}");
	create("{\"Name\":\"not\",\"Service\":{\"Service\":\"WEB\",\"Tags\":[\"!a\"]}}");
	create("{\"Name\":\"ignore\",\"Service\":{\"Service\":\"web\",\"IgnoreCheckIDs\":[\"i3\"],\"Tags\":[\"a\",\"!b\"]}}");
	create("{\"Name\":\"passing\",\"Service\":{\"Service\":\"web\",\"OnlyPassing\":true}}");
	create("{\"Name\":\"strict\",\"Service\":{\"Service\":\"web\",\"OnlyPassing\":true,\"IgnoreCheckIDs\":[\"i2\"],\"Tags\":[\"B\"]}}");
	create("{\"Name\":\"meta\",\"Service\":{\"Service\":\"web\",\"ServiceMeta\":{\"id\":\"i2\"}}}");
	create("{\"Name\":\"nodemeta\",\"Service\":{\"Service\":\"web\",\"NodeMeta\":{\"id\":\"i2\"}}}");
	create("{\"Name\":\"none\",\"Service\":{\"Service\":\"nope\"}}");
	create("{\"Name\":\"connect\",\"Service\":{\"Service\":\"web\",\"Connect\":true}}");
	ck_assert_str_eq(execute("tag"), "i1 ");
	ck_assert_str_eq(execute("not"), "i2 ");
	ck_assert_uint_eq(strlen(execute("ignore")), strlen("i1 i3 "));
	ck_assert_str_eq(execute("passing"), "i1 ");
	ck_assert_str_eq(execute("strict"), "i2 ");
	ck_assert_str_eq(execute("meta"), "i2 ");
	ck_assert_str_eq(execute("nodemeta"), "");
	ck_assert_str_eq(execute("none"), "");
	ck_assert_str_eq(execute("connect"), "");
	ask(OP_QUERY_EXECUTE, &(struct prepared_ask){ .Name = span_str("unknown") });
	ck_assert_int_eq(k.ans.err, TV_ENOENT);
	ck_assert_uint_eq(k.out.len, 0);
}
END_TEST

START_TEST(shuffled)
{
	const char *first;
	bool other = false;

	for (int i = 0; i < 8; i++)
		instance(KIT_NODE, arena_cstr(&k.a, arena_printf(&k.a, "i%d", i)), "a", "passing");
	create("{\"Name\":\"q\",\"Service\":{\"Service\":\"web\"}}");
	first = execute("q");
	ck_assert_uint_eq(strlen(first), 24);
	for (int i = 0; i < 100 && !other; i++)		/* it stays the same in one of 40320 cases */
		other = strcmp(first, execute("q")) != 0;
	ck_assert(other);
	ck_assert_uint_eq(strlen(found(&(struct prepared_ask){ .Name = span_str("q"), .Limit = 3 })), 9);
	ck_assert_uint_eq(strlen(found(&(struct prepared_ask){ .Name = span_str("q"), .Limit = -3 })), 24);
	ck_assert_uint_eq(strlen(found(&(struct prepared_ask){ .Name = span_str("q"), .Limit = 1 })), 3);
	/* Without coordinates too the node's own comes first, when there are not more than ten. */
	instance("n2", "me", "a", "passing");
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(strncmp(found(&(struct prepared_ask){ .Name = span_str("q"), .Near = span_str("N2") }), "me ", 3), 0);
		ck_assert_int_eq(strncmp(found(&(struct prepared_ask){ .Name = span_str("q"), .Near = span_str("_agent"),
		    .Agent = span_str("n2"), .Limit = 1 }), "me ", 3), 0);
	}
}
END_TEST

static void
place(const char *node, double at)
{
	double vec[8] = { at };
	struct node_coordinate c = { .Node = span_str(node), .Coord = { .Vec = { vec, 8, true }, .Error = 0.1, .Height = 1e-5 } };

	ck_assert(kit_bool(&k, OP_COORDINATE_BATCH, &(struct coordinate_batch){ { &c, 1, true } }));
}

START_TEST(near)
{
	kit_node(&k, "n3", "10.0.0.3");
	place(KIT_NODE, 0);
	place("n2", 0.010);
	place("n3", 0.050);
	kit_node(&k, "n4", "10.0.0.4");
	instance("n2", "i2", "a", "passing");
	instance("n3", "i3", "a", "passing");
	instance("n4", "i4", "a", "passing");
	instance(KIT_NODE, "i1", "a", "passing");
	kit_node(&k, KIT_NODE, "10.0.0.1");
	create("{\"Name\":\"q\",\"Service\":{\"Service\":\"web\",\"Near\":\"_agent\"}}");
	create("{\"Name\":\"ip\",\"Service\":{\"Service\":\"web\",\"Near\":\"_ip\"}}");
	for (int i = 0; i < 10; i++) {
		ck_assert_str_eq(found(&(struct prepared_ask){ .Name = span_str("q"), .Agent = span_str("n1") }), "i1 i2 i3 i4 ");
		ck_assert_str_eq(found(&(struct prepared_ask){ .Name = span_str("q"), .Agent = span_str("n3"), .Limit = 2 }), "i3 i2 ");
		ck_assert_str_eq(found(&(struct prepared_ask){ .Name = span_str("q"), .Near = span_str("n2") }), "i2 i1 i3 i4 ");
		ck_assert_str_eq(found(&(struct prepared_ask){ .Name = span_str("ip"), .Address = span_str("10.0.0.1") }),
		    "i1 i2 i3 i4 ");
	}
	ck_assert_uint_eq(strlen(found(&(struct prepared_ask){ .Name = span_str("ip"), .Address = span_str("9.9.9.9") })), 12);
}
END_TEST

START_TEST(remote)
{
	struct prepared_remote r = { .Query = parse("{\"Service\":{\"Service\":\"web\",\"OnlyPassing\":true}}") };
	struct prepared_found f = { .Nodes = { .n = 0 } };
	struct rd in;

	instance(KIT_NODE, "i1", "a", "passing");
	instance(KIT_NODE, "i2", "a", "warning");
	ask(OP_QUERY_REMOTE, &r);
	ck_assert_int_eq(k.ans.err, TV_OK);
	in = rd_span_over(buf_span(&k.out));
	ck_assert_int_eq(schema_unpack(&prepared_found_schema, &in, &k.a, &f), TV_OK);
	ck_assert_uint_eq(f.Nodes.n, 1);
	ck_assert(span_eqs(f.Query.Service.Service, "web"));
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = { kept, refused, too_large, sessions, node_gone, sound_records, waiting, over_a_restart, longest_prefix,
	    all_fields, long_names, selection, shuffled, near, remote };
	Suite *s = suite_create("fsm_query");
	TCase *t = tcase_create("fsm_query");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(t, tests[i]);
	tcase_add_loop_test(t, prefixes_as_by_trying, 0, 6);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
