/* The reader of configuration text: forms, lines, limits; every tree is compared as JSON. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/ucl.h"

static const struct {
	const char *what, *text, *json;
} good[] = {
	{ "empty", "", "{}" },
	{ "only comments", "# one\n/* two /* nested */ still */ # three", "{}" },
	{ "signs", "a = 1\nb: 2\nc 3\nd=4;e:5,f=6", "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6}" },
	{ "words", "a = yes\nb = off\nc = null\nd = 10s\ne = 1.5e3\nf = 007\ng = 10.0.0.1:8301",
	    "{\"a\":true,\"b\":false,\"c\":null,\"d\":\"10s\",\"e\":1.5e3,\"f\":\"007\",\"g\":\"10.0.0.1:8301\"}" },
	{ "quoted words stay strings", "a = \"true\"\nb = '5'", "{\"a\":\"true\",\"b\":\"5\"}" },
	{ "block", "limits {\n\tkv = 512k\n}\n", "{\"limits\":{\"kv\":\"512k\"}}" },
	{ "block, brace on the next line", "limits\n{\nkv = 1\n}", "{\"limits\":{\"kv\":1}}" },
	{ "block with a sign", "limits = { kv = 1 }", "{\"limits\":{\"kv\":1}}" },
	{ "named block", "service web { port = 80 }", "{\"service\":{\"web\":{\"port\":80}}}" },
	{ "empty block and list", "a { } b = []", "{\"a\":{},\"b\":[]}" },
	{ "list over lines", "a = [\n  one\n  \"two\", # comment\n  [3],\n  { x = 4 },\n]",
	    "{\"a\":[\"one\",\"two\",[3],{\"x\":4}]}" },
	{ "JSON", "{\n \"service\":\n {\"name\" : \"web\", \"tags\":[\"a\",\"b\"], \"port\": 80, \"x\": null, "
	    "\"y\":-1.5}\n}\n",
	    "{\"service\":{\"name\":\"web\",\"tags\":[\"a\",\"b\"],\"port\":80,\"x\":null,\"y\":-1.5}}" },
	{ "JSON list", "[1, 2]", "[1,2]" },
	{ "escapes", "a = "
	    "\"q\\\"\\\\\\/\\n\\t\\u00e9\\ud83d\\udc1d\"",
	    "{\"a\":\"q\\\"\\\\/\\u000a\\u0009\xc3\xa9\xf0\x9f\x90\x9d\"}" },
	{ "single quotes keep backslashes", "a = 'C:\\dir \\'x\\''", "{\"a\":\"C:\\\\dir 'x'\"}" },
	{ "hash inside a word", "a = b#c # comment", "{\"a\":\"b#c\"}" },
	{ "variables stay text", "a = \"${HOME}\"", "{\"a\":\"${HOME}\"}" },
	{ "CRLF and byte order mark", "\xef\xbb\xbf" "a = 1\r\nb = 2\r\n", "{\"a\":1,\"b\":2}" },
	{ "quoted key", "\"a b\" = 1", "{\"a b\":1}" },
};

static const struct {
	const char *text;
	unsigned line;
	const char *says;
} bad[] = {
	{ "a = 1\n\na = 2", 3, "key \"a\" is given twice (first on line 1)" },
	{ "b { x = 1\n}\nb { y = 1 }", 3, "key \"b\" is given twice (first on line 1)" },
	{ "a = 1\n.include \"/etc/shadow\"", 2, "macros such as .include are not supported" },
	{ "a =\nb = 1", 1, "expected a value, not the end of the line" },
	{ "a\nb = 1", 1, "expected '=' and a value, not the end of the line" },
	{ "a", 1, "expected a value, not the end of the file" },
	{ "\n\nblock {\n a = 1\n", 3, "the '{' that begins here is not closed" },
	{ "a = [ 1,\n2", 1, "the '[' that begins here is not closed" },
	{ "a = 1\n}", 2, "expected a key, not '}'" },
	{ "{ a = 1 } b", 1, "expected the end of the file, not 'b'" },
	{ "a = \"open\nb = 1", 1, "the string that begins here has no closing quote on its line" },
	{ "a = \"open", 1, "the string that begins here has no closing quote on its line" },
	{ "a = \"x\ry\"", 1, "the string that begins here has no closing quote on its line" },
	{ "a = \"x\\", 1, "the string that begins here has no closing quote on its line" },
	{ "a = \"\\q\"", 1, "this backslash escape is not one of" },
	{ "a = \"\\u12\"", 1, "\\u needs the four hex digits" },
	{ "a = \"\\u0000\"", 1, "\\u needs the four hex digits" },
	{ "a = \"\\ud800x\"", 1, "\\u needs the four hex digits" },
	{ "a = \"\\udc00\"", 1, "\\u needs the four hex digits" },
	{ "a = one two", 1, "expected the end of the value (quote values that hold spaces), not 't'" },
	{ "a = \"one\" two", 1, "expected ';' or a new line, not 't'" },
	{ "a = x{y", 1, "'{' inside a value" },
	{ "a = <<EOD\nx\nEOD", 1, "multi-line strings are not supported" },
	{ "a = 1\n/* x\n/* y */", 2, "the comment that begins here has no end" },
	{ "a = 1\nb = \x01", 2, "byte 0x01 has no place in a configuration file" },
	{ "= 1", 1, "expected a key, not '='" },
	{ "service \"\" { }", 1, "the name of a block must not be empty" },
	{ "\"\" = 1", 1, "a key must not be empty" },
};

static enum tv_err
parse(struct span text, struct arena *a, struct ucl_node **root, struct ucl_error *err)
{
	*a = ARENA_INIT(UCL_ARENA_BYTES_MAX);
	return ucl_parse(text, a, root, err);
}

static void
assert_json(const struct ucl_node *root, const char *json, const char *what)
{
	struct buf out = BUF_INIT(1 << 16);

	ucl_json(root, &out);
	ck_assert_msg(strcmp(buf_cstr(&out), json) == 0, "%s: %s", what, buf_cstr(&out));
	buf_done(&out);
}

START_TEST(reads)
{
	struct ucl_node *root;
	struct ucl_error err;
	struct arena a;

	ck_assert_msg(parse(span_str(good[_i].text), &a, &root, &err) == TV_OK, "%s: %u: %s", good[_i].what, err.line,
	    err.text);
	assert_json(root, good[_i].json, good[_i].what);
	arena_done(&a);
}
END_TEST

/* What was written as JSON reads as the same JSON. */
START_TEST(json_reads_back)
{
	struct ucl_node *root;
	struct ucl_error err;
	struct arena a;

	ck_assert_int_eq(parse(span_str(good[_i].json), &a, &root, &err), TV_OK);
	assert_json(root, good[_i].json, good[_i].what);
	arena_done(&a);
}
END_TEST

START_TEST(refuses)
{
	struct ucl_node *root;
	struct ucl_error err;
	struct arena a;

	ck_assert_msg(parse(span_str(bad[_i].text), &a, &root, &err) == TV_EFORMAT, "%s", bad[_i].text);
	ck_assert_msg(strncmp(err.text, bad[_i].says, strlen(bad[_i].says)) == 0, "%s: %s", bad[_i].text, err.text);
	ck_assert_msg(err.line == bad[_i].line, "%s: line %u", bad[_i].text, err.line);
	arena_done(&a);
}
END_TEST

START_TEST(nodes_know_their_lines)
{
	static const char text[] = "a = 1\nblock {\n  # x\n  b = [\n 1,\n 2 ]\n}\n";
	const struct ucl_node *block, *b;
	struct ucl_node *root;
	struct ucl_error err;
	struct arena a;

	ck_assert_int_eq(parse(span_str(text), &a, &root, &err), TV_OK);
	ck_assert_uint_eq(ucl_get(root, "a")->line, 1);
	block = ucl_get(root, "block");
	ck_assert_uint_eq(block->line, 2);
	b = ucl_get(block, "b");
	ck_assert_uint_eq(b->line, 4);
	ck_assert_uint_eq(b->count, 2);
	ck_assert_uint_eq(b->child->next->line, 6);
	ck_assert_ptr_null(ucl_get(root, "b"));
	ck_assert_ptr_null(ucl_get(b, "x"));
	arena_done(&a);
}
END_TEST

START_TEST(limits_hold)
{
	struct buf text = BUF_INIT(UCL_TEXT_BYTES_MAX + 100);
	struct ucl_node *root;
	struct ucl_error err;
	struct arena a;

	for (int i = 0; i <= UCL_DEPTH_MAX; i++)
		buf_puts(&text, "[");
	ck_assert_int_eq(parse(buf_span(&text), &a, &root, &err), TV_ELIMIT);
	arena_done(&a);
	buf_reset(&text);
	buf_puts(&text, "x = [");
	for (int i = 0; i <= UCL_MEMBERS_MAX; i++)
		buf_puts(&text, "1,");
	ck_assert_int_eq(parse(buf_span(&text), &a, &root, &err), TV_ELIMIT);
	arena_done(&a);
	buf_reset(&text);
	while (text.len <= UCL_TEXT_BYTES_MAX)
		buf_puts(&text, "# a comment that goes on\n");
	ck_assert_int_eq(parse(buf_span(&text), &a, &root, &err), TV_ELIMIT);
	arena_done(&a);
	a = ARENA_INIT(256);	/* no memory */
	ck_assert_int_eq(ucl_parse(span_str("a = 1\nb = 2\nc = 3\nd = 4\ne = 5"), &a, &root, &err), TV_ENOMEM);
	arena_done(&a);
	buf_done(&text);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("ucl");
	TCase *t = tcase_create("text");
	SRunner *r;
	int failed;

	tcase_add_loop_test(t, reads, 0, (int)(sizeof(good) / sizeof(good[0])));
	tcase_add_loop_test(t, json_reads_back, 0, (int)(sizeof(good) / sizeof(good[0])));
	tcase_add_loop_test(t, refuses, 0, (int)(sizeof(bad) / sizeof(bad[0])));
	tcase_add_test(t, nodes_know_their_lines);
	tcase_add_test(t, limits_hold);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
