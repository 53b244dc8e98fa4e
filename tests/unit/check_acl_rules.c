/* Texts of access policies: the rules that they give, and the sentences that refuse them. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/hcl.h"
#include "common/acl/rules.h"

static char listed[4096];

/* resource[_prefix]:name=access[/intentions]@line of each rule. */
static const char *
list(const struct acl_rules *rules)
{
	struct buf b = BUF_INIT(sizeof(listed) - 1);

	for (uint32_t i = 0; i < rules->count; i++) {
		const struct acl_rule *r = &rules->rule[i];

		buf_printf(&b, "%s%s%s", i > 0 ? " " : "", acl_resource_name(r->resource),
		    acl_resource_has_names(r->resource) ? r->prefix ? "_prefix:" : ":" : "");
		buf_putspan(&b, r->name);
		buf_printf(&b, "=%s", acl_access_name(r->access));
		if (r->intentions != ACL_UNSET)
			buf_printf(&b, "/%s", acl_access_name(r->intentions));
		buf_printf(&b, "@%u", r->line);
	}
	ck_assert(!b.failed);
	memcpy(listed, buf_cstr(&b), b.len + 1);
	buf_done(&b);
	return listed;
}

static const struct {
	const char *what, *text, *rules;
} good[] = {
	{ "empty", "", "" },
	{ "only comments", "# one\n// two\n/* three\n */", "" },
	{ "one", "key \"a\" { policy = \"read\" }", "key:a=read@1" },
	{ "every resource",
	    "acl = \"write\"\nkeyring = \"deny\"\noperator = \"read\"\nagent \"a\" { policy = \"read\" }\nevent "
	    "\"e\" { policy = \"write\" }\nkey \"k\" { policy = \"list\" }\nnode \"n\" { policy = \"deny\" }\nquery "
	    "\"q\" { policy = \"read\" }\nservice \"s\" { policy = \"write\" }\nsession \"x\" { policy = \"read\" }",
	    "acl=write@1 keyring=deny@2 operator=read@3 agent:a=read@4 event:e=write@5 key:k=list@6 node:n=deny@7 "
	    "query:q=read@8 service:s=write@9 session:x=read@10" },
	{ "every prefix",
	    "agent_prefix \"\" { policy = \"read\" } event_prefix \"e\" { policy = \"write\" } key_prefix \"k\" { "
	    "policy = \"list\" } node_prefix \"n\" { policy = \"deny\" } query_prefix \"\" { policy = \"read\" } "
	    "service_prefix \"s\" { policy = \"write\" } session_prefix \"x\" { policy = \"read\" }",
	    "agent_prefix:=read@1 event_prefix:e=write@1 key_prefix:k=list@1 node_prefix:n=deny@1 "
	    "query_prefix:=read@1 service_prefix:s=write@1 session_prefix:x=read@1" },
	{ "two in a line, comments, commas",
	    "service \"a\" { policy = \"write\" } # x\n/* y */ service \"b\" { policy = \"read\", }, //z",
	    "service:a=write@1 service:b=read@2" },
	{ "intentions", "service \"a\" {\n\tintentions = \"read\"\n\tpolicy = \"deny\"\n}", "service:a=deny/read@1" },
	{ "any case", "KEY \"a\" { Policy = \"read\" }\nOperator = \"read\"", "key:a=read@1 operator=read@2" },
	{ "quoted words", "\"key\" \"a\" { \"policy\" = \"read\" }", "key:a=read@1" },
	{ "bare name", "key a { policy = \"read\" }", "key:a=read@1" },
	{ "names as fields", "key = { \"a\" = { policy = \"read\" } \"b\" { policy = \"write\" } }",
	    "key:a=read@1 key:b=write@1" },
	{ "the last one counts",
	    "operator = \"read\"\nkey \"a\" { policy = \"read\" policy = \"write\" }\noperator = \"write\"",
	    "operator=write@3 key:a=write@2" },
	{ "the same twice", "key \"a\" { policy = \"read\" }\nkey \"a\" { policy = \"deny\" }",
	    "key:a=read@1 key:a=deny@2" },
	{ "empty is none", "operator = \"\"\nacl = \"read\"", "acl=read@2" },
	{ "escapes", "key \"a\\\"b\\\\\\t\\x41\\101\\u00e9\\U0001f41d\" { policy = \"read\" }",
	    "key:a\"b\\\tAA\xc3\xa9\xf0\x9f\x90\x9d=read@1" },
	{ "variables stay", "key \"${a \"\\n\" {}}\\x41\" { policy = \"read\" }", "key:${a \"\\n\" {}}A=read@1" },
	{ "carriage returns", "key \"a\" {\r\n\tpolicy = \"read\" # x\r\n}\r\n", "key:a=read@1" },
	{ "JSON",
	    "{\"key\": {\"a\": {\"policy\": \"read\"}, \"b\\/\\u0041\\ud83d\\udc1d\": {\"policy\": \"list\"}},\n "
	    "\"operator\": \"read\"}",
	    "key:a=read@1 key:b/A\xf0\x9f\x90\x9d=list@1 operator=read@2" },
	{ "JSON, lists",
	    "  {\"key_prefix\": [{\"\": {\"policy\": \"read\"}}, {\"b\": [{\"policy\": \"write\"}]}], \"service\": {}}",
	    "key_prefix:=read@1 key_prefix:b=write@1" },
	{ "JSON, any case", "{\"Service\": {\"a\": {\"POLICY\": \"read\", \"intentions\": \"write\"}}}",
	    "service:a=read/write@1" },
};

static const struct {
	const char *text, *says;
} bad[] = {
	/* As recorded: acl/policy-create-bad-rules, acl/policy-create-bad-access. */
	{ "key { oops",
	    "Failed to parse ACL rules: At 1:12: key 'oops' expected start of object ('{') or assignment ('=')" },
	{ "key \"a\" { policy = \"sometimes\" }",
	    "Invalid key policy: \"sometimes\" for \"a\" on line 1: use deny, read, list or write" },
	{ "operator = \"maybe\"", "Invalid operator policy: \"maybe\"" },
	{ "acl = \"list\"", "Invalid acl policy: \"list\"" },
	{ "keyring = 5", "Invalid keyring policy: \"5\"" },
	{ "\nnode_prefix \"n\" { policy = \"list\" }",
	    "Invalid node_prefix policy: \"list\" for \"n\" on line 2: use deny, read or write" },
	{ "key \"a\" { }", "Invalid key policy: \"\" for \"a\" on line 1: use deny, read, list or write" },
	{ "key \"a\" { policy = \"READ\" }",
	    "Invalid key policy: \"READ\" for \"a\" on line 1: use deny, read, list or write" },
	{ "service \"a\" { policy = \"read\" intentions = \"list\" }",
	    "Invalid service intentions policy: \"list\" for \"a\" on line 1: use deny, read or write" },
	{ "{\"session\": {\"a\": {\"policy\": \"x\"}}}",
	    "Invalid session policy: \"x\" for \"a\" on line 1: use deny, read or write" },
	/* What is not known. */
	{ "acl = \"read\"\n  kee \"a\" { policy = \"read\" }",
	    "Failed to parse ACL rules: At 2:3: there are no rules about \"kee\"; did you mean key?" },
	{ "partition = \"read\"",
	    "Failed to parse ACL rules: At 1:1: there are no rules about \"partition\": known are acl, keyring, mesh, "
	    "operator, peering, and with names agent, event, key, node, query, service, session, each also with _prefix" },
	{ "operator_prefix \"\" { policy = \"read\" }",
	    "Failed to parse ACL rules: At 1:1: there are no rules about \"operator_prefix\": known are acl, "
	    "keyring, mesh, operator, peering, and with names agent, event, key, node, query, service, session, each "
	    "also with _prefix" },
	{ "mesh = \"list\"", "Invalid mesh policy: \"list\"" },
	{ "peering \"x\" { policy = \"read\" }",
	    "Failed to parse ACL rules: At 1:1: peering has no names: write peering = \"read\"" },
	{ "intention \"a\" { policy = \"read\" }", NULL },
	{ "{\"peering\": \"all\"}", "Invalid peering policy: \"all\"" },
	{ "key \"a\" {\n policy = \"write\"\n sentinel { code = \"main = rule { true }\" } }",
	    "Failed to parse ACL rules: At 3:2: sentinel code is not supported: leave the block out" },
	{ "key \"a\" { policy = \"read\" intentions = \"read\" }",
	    "Failed to parse ACL rules: At 1:27: \"intentions\" is not known here: a rule about a key has policy" },
	{ "service \"a\" { polciy = \"read\" }",
	    "Failed to parse ACL rules: At 1:15: \"polciy\" is not known here: a rule about a service has policy and "
	    "intentions" },
	{ "{\n\"key\": {\"a\": {\"x\": 1}}}",
	    "Failed to parse ACL rules: At line 2: \"x\" is not known here: a rule about a key has policy" },
	/* The wrong shape. */
	{ "key = \"read\"",
	    "Failed to parse ACL rules: At 1:1: key needs a name: write key \"name\" { policy = \"read\" }" },
	{ "key { policy = \"read\" }",
	    "Failed to parse ACL rules: At 1:7: a rule is a block: write key \"policy\" { policy = \"read\" }" },
	{ "key \"a\" \"b\" { policy = \"read\" }", "Failed to parse ACL rules: At 1:1: a rule has one name" },
	{ "acl \"a\" { policy = \"read\" }",
	    "Failed to parse ACL rules: At 1:1: acl has no names: write acl = \"read\"" },
	{ "acl { policy = \"read\" }", "Failed to parse ACL rules: At 1:1: \"acl\" needs a text in quotes" },
	{ "key \"a\" { policy { } }", "Failed to parse ACL rules: At 1:11: \"policy\" needs a text in quotes" },
	{ "{\"key\": {\"a\": [[]]}}", "Failed to parse ACL rules: At line 1: a list in a list is no rule" },
	{ "{\"key\": [[]]}", "Failed to parse ACL rules: At line 1: a list in a list is no rule" },
	/* What is no text of that language. */
	{ "key \"a\" {", "Failed to parse ACL rules: At 1:11: object expected closing RBRACE got: EOF" },
	{ "key \"a\" { policy = read }",
	    "Failed to parse ACL rules: At 1:20: expected a value (text in quotes, a number, a block or a list), "
	    "got: IDENT" },
	{ "}", "Failed to parse ACL rules: At 1:1: expected: IDENT | STRING | ASSIGN | LBRACE got: RBRACE" },
	{ "= 1", "Failed to parse ACL rules: At 1:1: no object keys found!" },
	{ "a b = 1", "Failed to parse ACL rules: At 1:5: nested object expected: LBRACE got: ASSIGN" },
	{ "key \"a", "Failed to parse ACL rules: At 1:5: literal not terminated" },
	{ "key \"a\n\"", "Failed to parse ACL rules: At 1:5: literal not terminated" },
	{ "key \"\\q\" {}", "Failed to parse ACL rules: At 1:6: illegal char escape" },
	{ "key \"\\477\" {}", "Failed to parse ACL rules: At 1:6: illegal char escape" },
	{ "\n  ?", "Failed to parse ACL rules: At 2:3: illegal char" },
	{ "key \"\xff\" {}", "Failed to parse ACL rules: At 1:6: illegal UTF-8 encoding" },
	{ "/* x", "Failed to parse ACL rules: At 1:1: comment not terminated" },
	{ "/ x", "Failed to parse ACL rules: At 1:1: expected '/' for comment" },
	{ "key \"a\" { policy = <<E\nread\n", "Failed to parse ACL rules: At 1:20: heredoc not terminated" },
	{ "key \"a\" { policy = <<E", "Failed to parse ACL rules: At 1:20: heredoc not terminated" },
	{ "key \"a\" { policy = <<\nread\n\n}", "Failed to parse ACL rules: At 1:20: zero-length heredoc anchor" },
	{ "key \"a\" { policy = <<E F\nread\nE\n}", "Failed to parse ACL rules: At 1:20: invalid characters in heredoc anchor" },
	{ "key \"a\" { policy = <E\nread\nE\n}", "Failed to parse ACL rules: At 1:20: heredoc expected second '<', didn't see it" },
	{ "<<E\nE\n = 1", "Failed to parse ACL rules: At 1:1: expected: IDENT | STRING | ASSIGN | LBRACE got: HEREDOC" },
	{ "{\"key\": <<E\nread\nE\n}", "Failed to parse ACL rules: At 1:9: illegal char" },
	{ "key \"a\" { policy = [1 2] }",
	    "Failed to parse ACL rules: At 1:23: error parsing list, expected comma or list end, got: NUMBER" },
	{ "{\"key\": {\"a\": {\"policy\": \"read\"}}",
	    "Failed to parse ACL rules: At 1:34: expected: COMMA | RBRACE got: EOF" },
	{ "{\"key\" {}}", "Failed to parse ACL rules: At 1:8: expected: COLON got: LBRACE" },
	{ "{} x", "Failed to parse ACL rules: At 1:4: expected: EOF got: IDENT" },
	{ "{\"a\": \"\\x41\"}", "Failed to parse ACL rules: At 1:8: illegal char escape" },
	{ "{\"a\": \"\t\"}",
	    "Failed to parse ACL rules: At 1:8: control character in a string: write it as an escape" },
};

START_TEST(test_good)
{
	struct buf why = BUF_INIT(4096);
	struct acl_rules *rules;

	ck_assert_int_eq(acl_rules_parse(span_str(good[_i].text), &rules, &why), TV_OK);
	ck_assert_msg(strcmp(list(rules), good[_i].rules) == 0, "%s: %s", good[_i].what, listed);
	ck_assert_uint_eq(why.len, 0);
	acl_rules_free(rules);
	buf_done(&why);
}
END_TEST

START_TEST(test_bad)
{
	struct buf why = BUF_INIT(4096);
	struct acl_rules *rules;

	ck_assert_int_eq(acl_rules_parse(span_str(bad[_i].text), &rules, &why), TV_EFORMAT);
	ck_assert_ptr_null(rules);
	if (bad[_i].says != NULL)
		ck_assert_str_eq(buf_cstr(&why), bad[_i].says);
	else
		ck_assert_ptr_nonnull(strstr(buf_cstr(&why), "there are no rules about"));
	buf_done(&why);
}
END_TEST

static const struct {
	const char *from, *to;
} translated[] = {
	/* As recorded: auth/translate. */
	{ "key \"a\" { policy = \"read\" }", "key_prefix \"a\" {\n  policy = \"read\"\n}" },
	{ "agent \"\" { policy = \"read\" }\nevent \"x\" { policy = \"write\" }\nnode \"n\" { policy = \"deny\" }\n"
	    "query \"\" { policy = \"read\" }\nservice \"s\" { policy = \"write\" intentions = \"deny\" }\nsession "
	    "\"\" { policy = \"write\" }\n",
	    "agent_prefix \"\" {\n  policy = \"read\"\n}\n\nevent_prefix \"x\" {\n  policy = "
	    "\"write\"\n}\n\nnode_prefix \"n\" {\n  policy = \"deny\"\n}\n\nquery_prefix \"\" {\n  policy = "
	    "\"read\"\n}\n\nservice_prefix \"s\" {\n  policy = \"write\"\n\n  intentions = "
	    "\"deny\"\n}\n\nsession_prefix \"\" {\n  policy = \"write\"\n}" },
	{ "operator = \"read\"\nkeyring = \"write\"\nacl = \"read\"\n",
	    "operator = \"read\"\n\nkeyring = \"write\"\n\nacl = \"read\"" },
	{ "key_prefix \"a\" { policy = \"read\" }", "key_prefix \"a\" {\n  policy = \"read\"\n}" },
	{ "# hi\nkey \"\" {\n  policy = \"read\"\n}\n// x\n",
	    "# hi\nkey_prefix \"\" {\n  policy = \"read\"\n}\n\n// x\n" },
	{ "{\"key\": {\"a\": {\"policy\": \"read\"}}}", "key_prefix \"a\" {\n  policy = \"read\"\n}" },
	{ "\"key\"    \"a\"   {policy=\"zz\"}\n\n\n\nfoo \"b\" {\n}",
	    "key_prefix \"a\" {\n  policy = \"zz\"\n}\n\nfoo \"b\" {}" },
	{ "", "" },
	/* Layout and comments. */
	{ "a {}\nb {}\n\nc {}", "a {}\nb {}\n\nc {}" },
	{ "service \"s\" {\n policy = \"write\" # w\n intentions = \"deny\"   // d\n}",
	    "service_prefix \"s\" {\n  policy     = \"write\" # w\n  intentions = \"deny\"  // d\n}" },
	{ "key \"a\" {\n # lead\n policy = \"read\"\n}", "key_prefix \"a\" {\n  # lead\n  policy = \"read\"\n}" },
	{ "key \"a\" {\n # alone\n # too\n\n policy = \"read\"\n # last\n}",
	    "key_prefix \"a\" {\n  # alone\n  # too\n\n  policy = \"read\"\n\n  # last\n}" },
	{ "/* one */\n\n/* two\n */\nkey \"a\" {} # x\n", "/* one */\n\n/* two\n */\nkey_prefix \"a\" {} # x" },
	{ "x = [ 1,2 , \"a\" ]\ny = [\n 1, # one\n \"long\",\n # lead\n {a=1},\n]",
	    "x = [1, 2, \"a\"]\n\ny = [\n  1,      # one\n  \"long\",\n  {\n    # lead\n    a = 1\n  },\n]" },
	{ "a \"b\" {\n c \"d\" {\n e = 1\n }\n f = 2\n}", "a \"b\" {\n  c \"d\" {\n    e = 1\n  }\n\n  f = 2\n}" },
	{ "key = \"x\"\nservice \"key\" { key = \"policy\" }",
	    "key_prefix = \"x\"\n\nservice_prefix \"key\" {\n  key_prefix = \"policy\"\n}" },
	{ "{\"key\": [{\"a\": {\"policy\": \"read\"}}, {\"b\\n\": [{\"policy\": \"list\"}]}], \"operator\": \"read\","
	    " \"l\": [1, \"x\"], \"n\": null}",
	    "key_prefix \"a\" {\n  policy = \"read\"\n}\n\nkey_prefix = {\n  \"b\\n\" = {\n    policy = \"list\"\n  "
	    "}\n}\n\n\"operator\" = \"read\"\n\n\"l\" = [1, \"x\"]\n\n\"n\" = " },
};

START_TEST(test_translated)
{
	struct buf why = BUF_INIT(4096), out = BUF_INIT(4096);

	ck_assert_int_eq(acl_rules_translate(span_str(translated[_i].from), &out, &why), TV_OK);
	ck_assert_str_eq(buf_cstr(&out), translated[_i].to);
	ck_assert_uint_eq(why.len, 0);
	buf_done(&out);
	buf_done(&why);
}
END_TEST

START_TEST(test_not_translated)
{
	struct buf why = BUF_INIT(4096), out = BUF_INIT(16);

	/* As recorded: auth/translate-errors. */
	ck_assert_int_eq(acl_rules_translate(span_str("key \"a\" {"), &out, &why), TV_EFORMAT);
	ck_assert_str_eq(buf_cstr(&why), "Failed to parse rules: At 1:11: object expected closing RBRACE got: EOF");
	ck_assert_uint_eq(out.len, 0);
	buf_reset(&why);
	ck_assert_int_eq(acl_rules_translate(span_str("key \"a\" { policy = \"read\" }"), &out, &why), TV_ELIMIT);
	ck_assert_str_eq(buf_cstr(&why), "Failed to output new rules: they are too long");
	buf_done(&out);
	buf_done(&why);
}
END_TEST

/* A text of one thing many times. */
static struct buf
many(const char *head, const char *text, unsigned n, const char *tail)
{
	struct buf b = BUF_INIT(1 << 20);

	buf_puts(&b, head);
	while (n-- > 0)
		buf_puts(&b, text);
	buf_puts(&b, tail);
	ck_assert(!b.failed);
	return b;
}

static void
refused(struct buf text, enum tv_err err, const char *says)
{
	struct buf why = BUF_INIT(4096);
	struct acl_rules *rules;

	ck_assert_int_eq(acl_rules_parse(buf_span(&text), &rules, &why), err);
	ck_assert_ptr_null(rules);
	ck_assert_str_eq(buf_cstr(&why), says);
	buf_done(&why);
	buf_done(&text);
}

START_TEST(test_limits)
{
	refused(many("", "#", ACL_RULES_TEXT_MAX + 1, ""), TV_ELIMIT,
	    "Failed to parse ACL rules: more than 262144 bytes of text: spread the rules over several policies");
	refused(many("", "key a{policy=\"read\"}\n", ACL_RULES_MAX + 1, ""), TV_ELIMIT,
	    "Failed to parse ACL rules: At 8193:5: more than 8192 rules: spread them over several policies");
	refused(many("key=", "{a=", HCL_DEPTH_MAX + 1, "1"), TV_ELIMIT,
	    "Failed to parse ACL rules: At 1:53: more than 16 blocks and lists in each other");
	refused(many("key=", "[", 100000, ""), TV_ELIMIT,
	    "Failed to parse ACL rules: At 1:21: more than 16 blocks and lists in each other");
	refused(many("{\"a\":", "[", 100000, ""), TV_ELIMIT,
	    "Failed to parse ACL rules: At 1:21: more than 16 blocks and lists in each other");
}
END_TEST

/* Whatever the text is made of, its tree has room in the arena. */
START_TEST(test_room_for_the_smallest_things)
{
	static const char *const parts[] = { "a{}", "a=1 ", "a=[1,1]", "a a a a ", "#\n", "#\n\n", "/**/", "a=[[],{}],",
	    "{},", "1,", "\"\"," };
	struct hcl_error err;
	struct hcl_file file;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		bool in_list = i >= 8;
		struct buf text = many(in_list ? "a=[" : "", parts[i], 20000, in_list ? "]" : i == 3 ? "{}" : "");
		struct arena a = ARENA_INIT(HCL_ARENA_BYTES(text.len));

		ck_assert_msg(hcl_parse(buf_span(&text), &a, &file, &err) == TV_OK, "%s: %s", parts[i], err.text);
		arena_done(&a);
		buf_done(&text);
	}
}
END_TEST

/* What heredocs mean, and that they are printed as they were written. */
START_TEST(test_heredocs)
{
	static const struct {
		const char *text, *means, *printed;
	} cases[] = {
		{ "a = <<E\none\n  two\nE\n", "one\n  two\n", "a = <<E\none\n  two\nE" },
		{ "a = <<E\nE", "", "a = <<E\nE" },
		{ "a = <<E\r\none\r\nE\r\n", "one\r\n", "a = <<E\r\none\r\nE\r" },
		{ "a = <<E\nE2\n E x\n  E\n", "E2\n E x\n", "a = <<E\nE2\n E x\n  E" },
		{ "b {\n  a = <<-END\n    one\n      two\n    END\n}", "one\n  two\n",
		    "b {\n  a = <<-END\n    one\n      two\n    END\n}" },
		{ "a = <<-E\n  one\n two\n  E\n", "  one\n two\n", "a = <<-E\n  one\n two\n  E" },
		{ "a = [<<E\n\"\\n${x}\nE\n, \"b\"]", "\"\\n${x}\n", "a = [\n  <<E\n\"\\n${x}\nE\n  ,\n  \"b\",\n]" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct arena a = ARENA_INIT(HCL_ARENA_BYTES(256));
		struct buf out = BUF_INIT(4096);
		const struct hcl_value *v;
		struct hcl_error err;
		struct hcl_file file;
		struct span means;

		ck_assert_msg(hcl_parse(span_str(cases[i].text), &a, &file, &err) == TV_OK, "%zu: %s", i, err.text);
		for (v = file.items->value; v->type == HCL_OBJECT || v->type == HCL_LIST;)
			v = v->type == HCL_OBJECT ? v->items->value : v->values;
		ck_assert(hcl_is_heredoc(v) && hcl_unquote(v->text, true, false, &a, &means));
		ck_assert_msg(span_eqs(means, cases[i].means), "%zu: %.*s", i, (int)means.len, (const char *)means.p);
		hcl_print(&file, &out);
		ck_assert_str_eq(buf_cstr(&out), cases[i].printed);
		ck_assert_msg(hcl_parse(buf_span(&out), &a, &file, &err) == TV_OK, "%zu, printed: %s", i, err.text);
		buf_done(&out);
		arena_done(&a);
	}
}
END_TEST

START_TEST(test_null_bytes)
{
	struct buf why = BUF_INIT(4096);
	struct acl_rules *rules;

	ck_assert_int_eq(acl_rules_parse(span_of("key \"a\0b\" { }", 13), &rules, &why), TV_EFORMAT);
	ck_assert_str_eq(buf_cstr(&why), "Failed to parse ACL rules: At 1:7: unexpected null character (0x00)");
	/* As an escape it is a byte of the name. */
	buf_reset(&why);
	ck_assert_int_eq(acl_rules_parse(span_str("key \"a\\x00b\" { policy = \"read\" }"), &rules, &why), TV_OK);
	ck_assert(span_eq(rules->rule[0].name, span_of("a\0b", 3)));
	acl_rules_free(rules);
	buf_done(&why);
}
END_TEST

START_TEST(test_builtin_texts)
{
	struct buf why = BUF_INIT(4096);
	struct acl_rules *rules;

	ck_assert_int_eq(acl_rules_parse(span_str(acl_rules_management), &rules, &why), TV_OK);
	ck_assert_str_eq(list(rules),
	    "acl=write@1 agent_prefix:=write@2 event_prefix:=write@5 key_prefix:=write@8 keyring=write@11 "
	    "node_prefix:=write@12 operator=write@15 query_prefix:=write@16 service_prefix:=write/write@19 "
	    "session_prefix:=write@23");
	acl_rules_free(rules);
	buf_done(&why);
	rules = acl_identity_service(span_str("web"));
	ck_assert_str_eq(list(rules),
	    "service:web=write@0 service:web-sidecar-proxy=write@0 service_prefix:=read@0 node_prefix:=read@0");
	acl_rules_free(rules);
	rules = acl_identity_node(span_str("n1"));
	ck_assert_str_eq(list(rules), "node:n1=write@0 service_prefix:=read@0");
	acl_rules_free(rules);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("acl_rules");
	TCase *tc = tcase_create("acl_rules");
	SRunner *sr;
	int failed;

	tcase_add_loop_test(tc, test_good, 0, sizeof(good) / sizeof(good[0]));
	tcase_add_loop_test(tc, test_bad, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_loop_test(tc, test_translated, 0, sizeof(translated) / sizeof(translated[0]));
	tcase_add_test(tc, test_not_translated);
	tcase_add_test(tc, test_limits);
	tcase_add_test(tc, test_room_for_the_smallest_things);
	tcase_add_test(tc, test_heredocs);
	tcase_add_test(tc, test_null_bytes);
	tcase_add_test(tc, test_builtin_texts);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
