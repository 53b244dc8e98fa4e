/* ?filter= expressions: grammar, precedence, types, texts of errors, patterns, and what an attacker would send. */
#include <check.h>
#include <stdlib.h>

#include "common/record/mpack.h"
#include "common/record/records.h"
#include "common/filter/filter.h"
#include "common/text/regex.h"

#define S(text_) { (const uint8_t *)(text_), sizeof(text_) - 1 }

/* One instance of a service with two checks, as health/service lists it. */
static struct span node_meta[][2] = { { S("rack"), S("r1") }, { S("a-b"), S("dash") }, { S("n"), S("12") } };
static struct span tags[] = { S("primary"), S("v2.1") };
static struct service_address lan[] = { { S("lan"), S("10.0.0.9"), 8080 } };
static struct check checks[] = {
	{ .Node = S("n-1"), .CheckID = S("serfHealth"), .Name = S("Serf"), .Status = S("passing") },
	{ .Node = S("n-1"), .CheckID = S("web"), .Status = S("critical"), .Output = S("line one\nline \"two\""),
	  .ServiceTags = { tags, 2, true }, .Definition = { .HTTP = S("http://x/"), .Interval = 10000000000, .TLSSkipVerify = true } },
};
static struct health_entry entry = {
	.Node = { .ID = S("42"), .Node = S("n-1"), .Address = S("10.0.0.1"), .Datacenter = S("dc1"), .Meta = { node_meta, 3, true } },
	.Service = { .ID = S("web1"), .Service = S("web"), .Tags = { tags, 2, true }, .TaggedAddresses = { lan, 1, true },
	    .Port = 80, .Weights = { 10, 1 }, .EnableTagOverride = true },
	.Checks = { checks, 2, true },
};

static struct buf packed, why;

static void
setup(void)
{
	buf_init(&packed, 1u << 20);
	buf_init(&why, 1u << 20);
	schema_pack(&health_entry_schema, &entry, &packed);
}

static void
teardown(void)
{
	buf_done(&packed);
	buf_done(&why);
}

static struct filter *
compile(const char *text)
{
	buf_reset(&why);
	return filter_new(&health_entry_schema, span_str(text), &why);
}

static void
matches(const char *text, bool expected)
{
	struct filter *f = compile(text);

	ck_assert_msg(f != NULL, "%s: %s", text, buf_cstr(&why));
	ck_assert_msg(filter_match(f, buf_span(&packed)) == expected, "%s is not %s", text, expected ? "true" : "false");
	ck_assert_int_eq(filter_error(f), TV_OK);
	filter_free(f);
}

static void
fails(const char *text, const char *expected)
{
	struct filter *f = compile(text);

	ck_assert_msg(f == NULL, "%s is accepted", text);
	ck_assert_msg(strcmp(buf_cstr(&why), expected) == 0, "%s:\n%s, not\n%s", text, buf_cstr(&why), expected);
}

static const struct truth { const char *text; bool is; } truths[] = {
	/* every operator */
	{ "Node.Node == \"n-1\"", true }, { "Node.Node == n", false },
	{ "Node.Node != \"n-1\"", false }, { "Node.Node != x", true },
	{ "`-` in Node.Node", true }, { "`_` in Node.Node", false },
	{ "`-` not in Node.Node", false }, { "x not in Node.Node", true },
	{ "Node.Node contains n", true }, { "Node.Node contains x", false }, { "Node.Node contains \"\"", true },
	{ "Node.Node not contains n", false }, { "Node.Node not contains x", true },
	{ "Node.Node matches \"^n-[0-9]$\"", true }, { "Node.Node matches `^-`", false },
	{ "Node.Node not matches x", true }, { "Node.Node not matches n", false },
	{ "Service.Tags is empty", false }, { "Service.Tags is not empty", true },
	{ "Service.Meta is empty", true }, { "Service.Meta is not empty", false },
	{ "Node.TaggedAddresses is empty", true }, { "Service.TaggedAddresses is not empty", true },
	{ "Checks is empty", false }, { "Checks is not empty", true },
	/* lists, maps */
	{ "primary in Service.Tags", true }, { "\"v2.1\" in Service.Tags", true },
	{ "v2 in Service.Tags", false },
	{ "Service.Tags contains primary", true }, { "v2 not in Service.Tags", true },
	{ "rack in Node.Meta", true }, { "r1 in Node.Meta", false }, { "Node.Meta contains rack", true },
	{ "x not in Node.Meta", true }, { "lan in Service.TaggedAddresses", true }, { "wan in Service.TaggedAddresses", false },
	{ "Node.Meta.rack == r1", true }, { "Node.Meta[\"rack\"] == r1", true }, { "Node.Meta[ `a-b` ] == dash", true },
	{ "Node.Meta.n == 12", true }, { "Node.Meta.n == 12.0", false }, { "Node[\"Node\"] contains n", true },
	{ "Service.TaggedAddresses.lan.Port == 8080", true }, { "Service.TaggedAddresses.lan.Address == \"10.0.0.9\"", true },
	/* a key that is not there */
	{ "Node.Meta.none == x", false }, { "Node.Meta.none != x", true }, { "x in Node.Meta.none", false },
	{ "x not in Node.Meta.none", true }, { "Node.Meta.none matches `.*`", false }, { "Node.Meta.none not matches x", true },
	{ "Service.TaggedAddresses.wan.Port == 0", false }, { "Service.TaggedAddresses.wan.Port != 8080", true },
	{ "Service.Meta.k == x", false },
	/* nor is a whole object */
	{ "Service.Connect.Native == false", true }, { "Service.Proxy.DestinationServiceName == web", false },
	{ "Service.Proxy.Upstreams is empty", true },
	/* any element, for negated operators too */
	{ "Checks.Status == critical", true }, { "Checks.Status != passing", true }, { "Checks.Status != warning", true },
	{ "not Checks.Status == passing", false }, { "not Checks.Status == warning", true },
	{ "Checks.Status not contains ss", true }, { "primary in Checks.ServiceTags", true }, { "Checks.ServiceTags is empty", true },
	{ "Checks.Definition.HTTP contains http", true }, { "Checks.Definition.TLSSkipVerify == true", true },
	{ "Checks.Definition.Interval == \"10s\"", true }, { "Checks.Definition.Interval == 10000000000", true },
	{ "Checks.Definition.Interval == \"1m\"", false },
	/* types */
	{ "Service.Port == 80", true }, { "Service.Port == \"80\"", true }, { "Service.Port == \"0x50\"", true },
	{ "Service.Port == \"0120\"", true }, { "Service.Port == \"0o120\"", true }, { "Service.Port == \"0b1010000\"", true },
	{ "Service.Port != 80", false }, { "Service.Port == -80", false }, { "Service.Weights.Passing == 10", true },
	{ "Service.Port == 9223372036854775807", false },
	{ "Service.EnableTagOverride == true", true }, { "Service.EnableTagOverride == 1", true },
	{ "Service.EnableTagOverride == T", true }, { "Service.EnableTagOverride == FALSE", false },
	{ "Service.EnableTagOverride != false", true }, { "Node.ID == 42", true }, { "Node.ID == \"042\"", false },
	{ "Service.SocketPath == \"\"", true },
	/* precedence */
	{ "Node.ID == 42 or Node.ID == x and Node.ID == y", true },
	{ "(Node.ID == 42 or Node.ID == x) and Node.ID == y", false },
	{ "not Node.ID == x and Node.ID == y", false }, { "not (Node.ID == x and Node.ID == y)", true },
	{ "not not Node.ID == 42", true }, { "not not not Node.ID == 42", false },
	{ "Node.ID == y and Node.ID == x or Node.ID == 42", true },
	{ "Node.ID == 42 and Node.Node contains n and Service.Port == 80", true },
	{ "Node.ID == 42 and Node.Node contains n and Service.Port == 81", false },
	{ "Node.ID == x or Node.ID == y or Node.ID == 42", true },
	/* spaces, words */
	{ "  Node.ID==42  ", true }, { "( Node.ID==42 )", true }, { "((Node.ID==42))", true }, { "Node.ID\t==\r\n42", true },
	{ "(Node.ID==42)", true }, { "not (Node.ID!=42)", true }, { "not in Service.Tags", false }, { "in not in Service.Tags", true },
	{ "Node.Datacenter == not", false }, { "Node.Datacenter == a.b[\"c\"]", false },
	/* quoting */
	{ "Checks.Output == \"line one\\nline \\\"two\\\"\"", true }, { "Checks.Output contains `\"two\"`", true },
	{ "Node.Node == \"\\x6e-\\061\"", true }, { "Node.Node == \"\\u006e-1\"", true }, { "Node.Node == `\\x6e-1`", false },
	{ "Node.Node == \"\\U0001F600\"", false },
};

START_TEST(truth)
{
	matches(truths[_i].text, truths[_i].is);
}
END_TEST

#define AT_OPERAND "no match found, expected: \"(\", \"-\", \"0\", \"\\\"\", \"`\", \"not\", [ \\t\\r\\n], [1-9] or [a-zA-Z]"
#define AT_OPERATOR \
	"no match found, expected: \"!=\", \"==\", \"contains\", \"in\", \"is\", \"matches\", \"not\" or [ \\t\\r\\n]"
#define AT_VALUE "no match found, expected: \"-\", \"0\", \"\\\"\", \"`\", [ \\t\\r\\n], [1-9] or [a-zA-Z]"
#define AT_END "no match found, expected: \"and\", \"or\", [ \\t\\r\\n] or EOF"
#define AT_SPACE "no match found, expected: [ \\t\\r\\n]"

static const struct error { const char *text, *why; } errors[] = {
	{ " ", "1:2 (1): " AT_OPERAND },
	{ "==", "1:1 (0): " AT_OPERAND },
	{ "_x == 1", "1:1 (0): " AT_OPERAND },
	{ "Node.ID", "1:8 (7): " AT_OPERATOR },
	{ "Node.ID = 1", "1:9 (8): " AT_OPERATOR },
	{ "Node.ID not 1", "1:13 (12): " AT_OPERATOR },
	{ "Node.ID ==", "1:11 (10): " AT_VALUE },
	{ "Node.ID == _x", "1:12 (11): " AT_VALUE },
	{ "Node.ID is really", "1:12 (11): no match found, expected: \"empty\", \"not\" or [ \\t\\r\\n]" },
	{ "Node.ID is not really", "1:16 (15): no match found, expected: \"empty\" or [ \\t\\r\\n]" },
	{ "x in Service.Tags abc", "1:19 (18): " AT_END },
	{ "x in Service.Tags and ", "1:23 (22): " AT_OPERAND },
	{ "x in Service.Tags)", "1:18 (17): " AT_END },
	{ "Node.ID == 1 and\n Node.ID ~ 2", "2:10 (26): " AT_OPERATOR },
	{ "Node.ID == \"\xc3\xa9\" x", "1:16 (16): " AT_END },
	{ "(Node.ID == 1", "1:14 (13): rule \"grouping\": Unmatched parentheses" },
	{ "(Node.ID == 1)and Node.ID == 2", "1:15 (14): " AT_SPACE },
	{ "not(Node.ID == 1)", "1:4 (3): " AT_SPACE },
	{ "\"x\"in Node.ID", "1:4 (3): " AT_SPACE },
	{ "Node.ID == 1x", "1:13 (12): rule \"number\": Invalid number literal" },
	{ "Node.ID == 01", "1:13 (12): rule \"number\": Invalid number literal" },
	{ "Node.ID == -", "1:13 (12): rule \"number\": Invalid number literal" },
	{ "Node.ID == 1.", "1:13 (12): rule \"number\": Invalid number literal" },
	{ "Node.ID == \"x", "1:14 (13): rule \"string\": Unterminated string literal" },
	{ "Node.ID == `x", "1:14 (13): rule \"string\": Unterminated string literal" },
	{ "Node.ID == \"\\q\"", "1:13 (12): rule \"string\": invalid syntax" },
	{ "Node.ID == \"\\ud800\"", "1:13 (12): rule \"string\": invalid syntax" },
	{ "Node.ID == \"\\xg0\"", "1:13 (12): rule \"string\": invalid syntax" },
	{ "Node.Meta[3] == x", "1:11 (10): rule \"index\": Invalid index" },
	{ "Node.Meta[\"a\" == x", "1:15 (14): rule \"index\": Unclosed index expression" },
	{ "x in 3", "1:6 (5): rule \"match\": Invalid selector" },
	{ "\"x\" == Node.ID", "1:1 (0): rule \"match\": Invalid selector" },
	{ "3 is empty", "1:1 (0): rule \"match\": Invalid selector" },
	/* selectors */
	{ "Nope == 1", "Selector \"Nope\" is not valid" },
	{ "not == 1", "Selector \"not\" is not valid" },
	{ "node.Node == 1", "Selector \"node.Node\" is not valid" },
	{ "Node.CreateIndex == 1", "Selector \"Node.CreateIndex\" is not valid" },
	{ "Service.Proxy == 1", "Invalid match operator \"Equal\" for selector \"Service.Proxy\"" },
	{ "Service.Proxy.Nope == 1", "Selector \"Service.Proxy.Nope\" is not valid" },
	{ "Checks.Definition.Header == 1", "Selector \"Checks.Definition.Header\" is not valid" },
	{ "Node.Node.x == 1", "Selector \"Node.Node.x\" is not valid" },
	{ "Node.Meta.a.b == 1", "Selector \"Node.Meta.a.b\" is not valid" },
	{ "Service.TaggedAddresses.lan.Name == x", "Selector \"Service.TaggedAddresses.lan.Name\" is not valid" },
	{ "a.b.c.d.e.f.g.h.i.j == 1", "Selector \"a.b.c.d.e.f.g.h.i.j\" is not valid" },
	{ "Node.ID == 42 or Node[\"x\\\"y\"] == 1", "Selector \"Node.x\\\"y\" is not valid" },
	/* operators that a type does not have */
	{ "Node.Node is empty", "Invalid match operator \"Is Empty\" for selector \"Node.Node\"" },
	{ "Node.Node is not empty", "Invalid match operator \"Is Not Empty\" for selector \"Node.Node\"" },
	{ "Service.Tags == x", "Invalid match operator \"Equal\" for selector \"Service.Tags\"" },
	{ "Service.Tags != x", "Invalid match operator \"Not Equal\" for selector \"Service.Tags\"" },
	{ "Service.Tags matches x", "Invalid match operator \"Matches\" for selector \"Service.Tags\"" },
	{ "Node.Meta not matches x", "Invalid match operator \"Not Matches\" for selector \"Node.Meta\"" },
	{ "8 in Service.Port", "Invalid match operator \"In\" for selector \"Service.Port\"" },
	{ "Service.Port not contains 8", "Invalid match operator \"Not In\" for selector \"Service.Port\"" },
	{ "Node == x", "Invalid match operator \"Equal\" for selector \"Node\"" },
	{ "x in Checks", "Invalid match operator \"In\" for selector \"Checks\"" },
	{ "Service.TaggedAddresses.lan == x", "Invalid match operator \"Equal\" for selector \"Service.TaggedAddresses.lan\"" },
	/* values that a type does not take */
	{ "Service.Port == http",
	  "Failed to coerce value \"http\" for selector \"Service.Port\": strconv.ParseInt: parsing \"http\": invalid syntax" },
	{ "Service.Port == 80.5",
	  "Failed to coerce value \"80.5\" for selector \"Service.Port\": strconv.ParseInt: parsing \"80.5\": invalid syntax" },
	{ "Service.Port == \"\"",
	  "Failed to coerce value \"\" for selector \"Service.Port\": strconv.ParseInt: parsing \"\": invalid syntax" },
	{ "Service.Port == 99999999999999999999", "Failed to coerce value \"99999999999999999999\" for selector \"Service.Port\": "
	  "strconv.ParseInt: parsing \"99999999999999999999\": value out of range" },
	{ "Service.EnableTagOverride == yes",
	  "Failed to coerce value \"yes\" for selector \"Service.EnableTagOverride\": strconv.ParseBool: parsing \"yes\": invalid syntax" },
	/* patterns */
	{ "Node.Node matches \"(\"", "Failed to compile regular expression \"(\": error parsing regexp: missing closing ): `(`" },
	{ "Node.Node matches `(?=x)`",
	  "Failed to compile regular expression \"(?=x)\": error parsing regexp: invalid or unsupported Perl syntax: `(?=x)`" },
};

START_TEST(error)
{
	fails(errors[_i].text, errors[_i].why);
}
END_TEST

/* What a pattern finds in a text: 1, 0, or -1 when it is no pattern. */
static int
search(struct span pattern, struct span text)
{
	uint64_t steps = FILTER_STEPS_MAX;
	bool found = false;

	buf_reset(&why);
	struct regex *re = regex_new(pattern, &why);
	if (re == NULL)
		return -1;
	ck_assert_int_eq(regex_search(re, text, &steps, &found), TV_OK);
	regex_free(re);
	return found;
}

static const struct pattern { struct span pattern, text; int result; } patterns[] = {
	{ S(""), S(""), 1 }, { S("b"), S("abc"), 1 }, { S("^b"), S("abc"), 0 }, { S("a|c$"), S("xc"), 1 }, { S("^(?:a|b)c$"), S("bc"), 1 },
	{ S("a$"), S("a\n"), 0 }, { S("(?m)a$"), S("a\n"), 1 }, { S("a.c"), S("a\nc"), 0 }, { S("(?s)a.c"), S("a\nc"), 1 },
	{ S("(?i)ABC"), S("abc"), 1 }, { S("(?i:A)B"), S("ab"), 0 }, { S("(?U)a+"), S("a"), 1 }, { S("^a{2,3}$"), S("aaaa"), 0 },
	{ S("^a{2}$"), S("aa"), 1 }, { S("^a{2,}$"), S("aaa"), 1 }, { S("a{,2}"), S("a{,2}"), 1 }, { S("a{"), S("a{"), 1 },
	{ S("(?P<year>[0-9]+)-"), S("2026-"), 1 }, { S("a+?b*?c??"), S("a"), 1 }, { S("[]a]"), S("]"), 1 }, { S("[^]a]"), S("]"), 0 },
	{ S("[[:alpha:]]+"), S("1x"), 1 }, { S("[[:^alpha:]]"), S("x"), 0 }, { S("[a[]"), S("["), 1 }, { S("^\\d+$"), S("12"), 1 },
	{ S("\\s"), S("\v"), 0 }, { S("[\\s]"), S("\v"), 0 }, { S("\\S"), S("\v"), 1 }, { S("\\v"), S("\v"), 1 }, { S("\\s"), S("\n"), 1 },
	{ S("\\x41\\x{42}"), S("AB"), 1 }, { S("\\101"), S("A"), 1 }, { S("\\.\\*\\-"), S(".*-"), 1 }, { S("\\Qa.(b\\E+"), S("a.(bb"), 1 },
	{ S("\\Q)"), S(")"), 1 }, { S("^.$"), S("\xc3\xa9"), 1 }, { S("\\pL"), S("\xc3\xa9"), 1 }, { S("\\p{Greek}"), S("\xce\xb1"), 1 },
	{ S("^a.b$"), S("a\xff" "b"), 1 }, { S("\\x{fffd}"), S("\xff"), 1 }, { S("\\bx\\b"), S("a x"), 1 }, { S("\\Ax\\z"), S("x"), 1 },
	{ S("a\0b"), S("xa\0bx"), 1 },
	/* what RE2 does not know */
	{ S("(a)\\1"), S("aa"), -1 }, { S("(?P<n>a)(?P=n)"), S("aa"), -1 }, { S("\\k<n>"), S(""), -1 }, { S("\\g1"), S(""), -1 },
	{ S("(?!a)"), S("b"), -1 }, { S("(?<=a)b"), S("ab"), -1 }, { S("(?<!a)b"), S("b"), -1 }, { S("(?>a)"), S("a"), -1 },
	{ S("(?R)"), S(""), -1 }, { S("(?1)"), S(""), -1 }, { S("(?(1)a)"), S(""), -1 }, { S("(?|a)"), S(""), -1 }, { S("(?#x)"), S(""), -1 },
	{ S("(?x)a"), S("a"), -1 }, { S("(?C1)"), S(""), -1 }, { S("(*ACCEPT)"), S(""), -1 }, { S("(*UTF)a"), S(""), -1 },
	{ S("a++"), S("a"), -1 }, { S("a**"), S("a"), -1 }, { S("a{2}{3}"), S("a"), -1 }, { S("a*?+"), S("a"), -1 },
	{ S("\\C"), S("a"), -1 }, { S("\\K"), S("a"), -1 }, { S("\\R"), S("a"), -1 }, { S("\\Z"), S("a"), -1 }, { S("[\\b]"), S("\b"), -1 },
	{ S("a{1001}"), S("a"), -1 }, { S("a{5,2}"), S("a"), -1 },
	/* broken ones */
	{ S("("), S(""), -1 }, { S(")"), S(""), -1 }, { S("a)|(b"), S("b"), -1 }, { S("["), S(""), -1 }, { S("[a"), S(""), -1 },
	{ S("[]"), S(""), -1 }, { S("\\"), S(""), -1 }, { S("a\\"), S(""), -1 }, { S("*"), S(""), -1 }, { S("+a"), S(""), -1 },
	{ S("(?"), S(""), -1 }, { S("(?P<"), S(""), -1 }, { S("(?i"), S(""), -1 }, { S("\\x"), S(""), -1 }, { S("\\x{110000}"), S(""), -1 },
	{ S("[z-a]"), S(""), -1 }, { S("\\pX{"), S(""), -1 }, { S("[[:what:]]"), S(""), -1 }, { S("\xff"), S(""), -1 },
	{ S("[a\\"), S(""), -1 }, { S("[[:"), S(""), -1 },
};

START_TEST(pattern)
{
	const struct pattern *p = &patterns[_i];
	int got = search(p->pattern, p->text);

	ck_assert_msg(got == p->result, "%.*s in %.*s: %d %s", (int)p->pattern.len, (const char *)p->pattern.p, (int)p->text.len,
	    (const char *)p->text.p, got, buf_cstr(&why));
	ck_assert(got >= 0 || why.len > 0);
}
END_TEST

/* Patterns that take exponential or cubic time in a backtracking matcher end within their budget. */
START_TEST(explosion)
{
	static const char *const bad[] = {
		"^(a+)+$", "(a|aa)+$", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)x", "(a|a|a|a|a|a|a)*b", "((a{0,100}){0,100})b", "(x+x+)+y|(a+)+b",
	};
	struct buf text = BUF_INIT(8192);

	for (int i = 0; i < 4096; i++)
		buf_u8(&text, 'a');
	buf_puts(&text, "!");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint64_t steps = FILTER_STEPS_MAX / 10;
		bool found = true;
		struct regex *re = regex_new(span_str(bad[i]), &why);

		ck_assert_msg(re != NULL, "%s: %s", bad[i], buf_cstr(&why));
		enum tv_err err = regex_search(re, buf_span(&text), &steps, &found);
		ck_assert_msg((err == TV_ELIMIT || err == TV_OK) && !found, "%s: %d", bad[i], err);
		regex_free(re);
	}
	buf_done(&text);
}
END_TEST

/* One budget for all records, and after it is spent nothing matches. */
START_TEST(budget)
{
	struct check c = { .Output = SPAN_NONE };
	struct buf text = BUF_INIT(8192), rec = BUF_INIT(65536);

	for (int i = 0; i < 4096; i++)
		buf_u8(&text, 'a');
	c.Output = buf_span(&text);
	schema_pack(&check_schema, &c, &rec);
	struct filter *f = filter_new(&check_schema, span_str("Output matches `^(a|aa)+[bc]` or Output matches a"), &why);
	ck_assert_ptr_nonnull(f);
	int n = 0;
	while (filter_error(f) == TV_OK && n++ < 100000)
		(void)filter_match(f, buf_span(&rec));
	ck_assert_int_eq(filter_error(f), TV_ELIMIT);
	ck_assert(!filter_match(f, buf_span(&rec)));
	filter_free(f);

	/* honest patterns over many records never come near it */
	f = filter_new(&check_schema, span_str("Output matches `^a.*a$` and Output not matches `(?i)error|fail|b+`"), &why);
	ck_assert_ptr_nonnull(f);
	for (n = 0; n < 2000; n++)
		ck_assert(filter_match(f, buf_span(&rec)));
	ck_assert_int_eq(filter_error(f), TV_OK);
	filter_free(f);
	buf_done(&rec);
	buf_done(&text);
}
END_TEST

static void
repeat(struct buf *b, const char *text, int n)
{
	while (n-- > 0)
		buf_puts(b, text);
}

START_TEST(limits)
{
	struct buf b = BUF_INIT(1u << 20);

	repeat(&b, "(", FILTER_DEPTH_MAX);
	ck_assert_ptr_null(compile(buf_cstr(&b)));
	buf_reset(&b);
	repeat(&b, "(", FILTER_DEPTH_MAX - 1);
	buf_puts(&b, "Node.ID == 42");
	repeat(&b, ")", FILTER_DEPTH_MAX - 1);
	matches(buf_cstr(&b), true);
	buf_reset(&b);
	repeat(&b, "not ", FILTER_DEPTH_MAX);
	buf_puts(&b, "Node.ID == 42");
	ck_assert_ptr_null(compile(buf_cstr(&b)));
	ck_assert(strstr(buf_cstr(&why), "nested too deep") != NULL);
	buf_reset(&b);
	repeat(&b, "Node.ID==1 or ", (FILTER_BYTES_MAX - 20) / 14);
	buf_puts(&b, "Node.ID==42");
	matches(buf_cstr(&b), true);			/* long chains are no depth */
	buf_reset(&b);
	repeat(&b, "x", FILTER_BYTES_MAX + 1);
	ck_assert_ptr_null(compile(buf_cstr(&b)));
	ck_assert(strstr(buf_cstr(&why), "expression too long") != NULL);
	buf_reset(&b);
	repeat(&b, "Node.ID matches x or ", FILTER_PATTERNS_MAX + 1);
	buf_puts(&b, "Node.ID == 1");
	ck_assert_ptr_null(compile(buf_cstr(&b)));
	ck_assert(strstr(buf_cstr(&why), "too many regular expressions") != NULL);
	buf_reset(&b);
	buf_puts(&b, "Node.ID matches `");
	repeat(&b, "x", REGEX_BYTES_MAX + 1);
	buf_puts(&b, "`");
	ck_assert_ptr_null(compile(buf_cstr(&b)));
	ck_assert_int_eq(search(span_str("((a{1000}){1000}){1000}"), span_str("")), -1);
	buf_done(&b);
}
END_TEST

/* Records of an older version are shorter, of a newer one longer; damaged ones are an error. */
START_TEST(records)
{
	static const uint8_t none[] = { 0x90 }, bad[] = { 0x93, 0xc1 }, nil[] = { 0xc0 };
	struct filter *f = compile("Service.Port == 0 and Node.Node == \"\" and Checks is empty and Node.Meta.k != x");

	ck_assert_ptr_nonnull(f);
	ck_assert(filter_match(f, span_of(none, 1)));
	ck_assert(filter_match(f, span_of(nil, 1)));
	ck_assert_int_eq(filter_error(f), TV_OK);
	ck_assert(!filter_match(f, span_of(bad, 2)));
	ck_assert_int_ne(filter_error(f), TV_OK);
	ck_assert(!filter_match(f, span_of(none, 1)));
	filter_free(f);
	for (size_t n = 0; n < packed.len; n++) {	/* torn anywhere: no crash */
		f = compile("Checks.Status == x or Service.Port == 1 or x in Service.Tags or Node.Meta.none == x");
		(void)filter_match(f, span_of(packed.data, n));
		filter_free(f);
	}
	filter_free(NULL);
}
END_TEST

/* Floating point fields, which no record of the catalog has. */
START_TEST(reals)
{
	struct rec { double Ratio; } rec = { 0.5 };
	static const struct schema_field fields[] = { { .name = "Ratio", .type = ST_F64, .offset = offsetof(struct rec, Ratio) } };
	static const struct schema schema = { "rec", fields, 1, sizeof(struct rec) };
	struct buf b = BUF_INIT(64);

	schema_pack(&schema, &rec, &b);
	struct filter *f = filter_new(&schema, span_str("Ratio == 0.5 and Ratio != 1 and Ratio == \"5e-1\""), &why);
	ck_assert_ptr_nonnull(f);
	ck_assert(filter_match(f, buf_span(&b)));
	filter_free(f);
	ck_assert_ptr_null(filter_new(&schema, span_str("Ratio == half"), &why));
	buf_done(&b);
}
END_TEST

/* A map of lists: each is one by its name (SF_LISTS), and what is not there is empty. */
START_TEST(lists_by_name)
{
	static const struct { const char *text; int result; } cases[] = {
		{ "dev in list.groups", 1 }, { "list.groups contains none", 0 }, { "dev not in list.groups", 0 }, { "list.groups is empty", 0 },
		{ "list.none is empty", 1 }, { "dev in list.none", 0 }, { "dev not in list.none", 1 }, { "list.void is not empty", 0 },
		{ "groups in list", 1 }, { "none in list", 0 }, { "value.name == web and ops in list[\"groups\"]", 1 },
		{ "value.none == \"\"", 0 }, { "value.none != x", 1 }, { "not value.none == x", 1 },
		{ "list.groups == dev", -1 }, { "list.groups matches dev", -1 }, { "list.groups.Items is empty", -1 }, { "value == web", -1 },
		{ "list.groups.0 == dev", -1 }, { "name == web", -1 },
	};
	struct span kv[1][2] = { { S("name"), S("web") } }, items[] = { S("dev"), S("ops") };
	struct acl_claim_list lists[] = { { S("void"), { NULL, 0, true } }, { S("groups"), { items, 2, true } } };
	struct acl_claims claims = { .value = { kv, 1, true }, .list = { lists, 2, true } };
	struct buf rec = BUF_INIT(65536), text = BUF_INIT(65536);

	schema_pack(&acl_claims_schema, &claims, &rec);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf_reset(&why);
		struct filter *f = filter_new(&acl_claims_schema, span_str(cases[i].text), &why);
		int got = f == NULL ? -1 : filter_match(f, buf_span(&rec));

		ck_assert_msg(got == cases[i].result, "%s: %d %s", cases[i].text, got, buf_cstr(&why));
		filter_free(f);
	}
	/* Several filters may share a budget. */
	repeat(&text, "a", 4096);
	kv[0][1] = buf_span(&text);
	buf_reset(&rec);
	schema_pack(&acl_claims_schema, &claims, &rec);
	for (uint64_t steps = FILTER_STEPS_MAX; steps > 0; steps = steps == FILTER_STEPS_MAX ? 1000 : 0) {
		struct filter *f = filter_new(&acl_claims_schema, span_str("value.name matches `^(a|aa)+[bc]`"), &why);

		ck_assert_ptr_nonnull(f);
		filter_allow(f, steps);
		ck_assert_uint_eq(filter_left(f), steps);
		ck_assert(!filter_match(f, buf_span(&rec)));
		ck_assert_int_eq(filter_error(f), TV_ELIMIT);
		ck_assert(steps == 1000 || filter_left(f) < steps);
		filter_free(f);
	}
	buf_done(&rec);
	buf_done(&text);
}
END_TEST

#define COUNT(a_) (int)(sizeof(a_) / sizeof((a_)[0]))

int
main(void)
{
	Suite *s = suite_create("filter");
	TCase *tc = tcase_create("filter");
	SRunner *sr = srunner_create(s);

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, truth, 0, COUNT(truths));
	tcase_add_loop_test(tc, error, 0, COUNT(errors));
	tcase_add_loop_test(tc, pattern, 0, COUNT(patterns));
	tcase_add_test(tc, explosion);
	tcase_add_test(tc, budget);
	tcase_add_test(tc, lists_by_name);
	tcase_add_test(tc, limits);
	tcase_add_test(tc, records);
	tcase_add_test(tc, reals);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
