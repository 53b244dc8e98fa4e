/* What may be dialled: addresses, host names, SRV records, files; and the lines of such files. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/target.h"

#define LABEL63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NAME253 LABEL63 "." LABEL63 "." LABEL63 ".aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
	const char *text;
	enum target_kind kind;
	const char *what;
	uint16_t port;
	bool has_port;
} good[] = {
	{ "10.0.0.1", TARGET_ADDRESS, "10.0.0.1", 8301, false },
	{ "10.0.0.1:9", TARGET_ADDRESS, "10.0.0.1", 9, true },
	{ "fd00::1", TARGET_ADDRESS, "fd00::1", 8301, false },
	{ "[fd00::1]", TARGET_ADDRESS, "fd00::1", 8301, false },
	{ "[fd00::1]:65535", TARGET_ADDRESS, "fd00::1", 65535, true },
	{ "::1", TARGET_ADDRESS, "::1", 8301, false },
	{ "server1", TARGET_NAME, "server1", 8301, false },
	{ "Server1.Example.COM", TARGET_NAME, "Server1.Example.COM", 8301, false },
	{ "server1.example.com.", TARGET_NAME, "server1.example.com.", 8301, false },
	{ "server1.example.com.:8311", TARGET_NAME, "server1.example.com.", 8311, true },
	{ "localhost:1", TARGET_NAME, "localhost", 1, true },
	{ "a_b.c-d", TARGET_NAME, "a_b.c-d", 8301, false },
	{ "1a", TARGET_NAME, "1a", 8301, false },
	{ "10.0.0.1.example", TARGET_NAME, "10.0.0.1.example", 8301, false },
	{ "xn--bcher-kva.example", TARGET_NAME, "xn--bcher-kva.example", 8301, false },
	{ "srv", TARGET_NAME, "srv", 8301, false },
	{ "file:1", TARGET_NAME, NULL, 0, false },		/* looks as a name with a port: it is a file without a path */
	{ "provider", TARGET_NAME, "provider", 8301, false },
	{ NAME253, TARGET_NAME, NAME253, 8301, false },
	{ NAME253 ".:80", TARGET_NAME, NAME253 ".", 80, true },
	{ "srv:_serf._tcp.example.com", TARGET_SRV, "_serf._tcp.example.com", 0, false },
	{ "srv:_serf._udp.dc1.example.com.", TARGET_SRV, "_serf._udp.dc1.example.com.", 0, false },
	{ "file:/run/peers", TARGET_FILE, "/run/peers", 0, false },
	{ "file:/a b/#c:1", TARGET_FILE, "/a b/#c:1", 0, false },
};

static const struct {
	const char *text, *why;
} bad[] = {
	{ "", "\"\" is no address: write an address (10.0.0.1" },
	{ ":80", "not an address, nor a host name" },
	{ "a..b", "not an address, nor a host name" }, { ".", "not an address, nor a host name" },
	{ ".a", "not an address, nor a host name" }, { "a..", "not an address, nor a host name" },
	{ "-a", "not an address, nor a host name" }, { "a-.b", "not an address, nor a host name" },
	{ "a b", "not an address, nor a host name" }, { " a", "not an address, nor a host name" },
	{ "a/b", "not an address, nor a host name" }, { "*.a", "not an address, nor a host name" },
	{ "[fd00::1", "HOST:PORT" }, { "[fd00::1]x", "HOST:PORT" }, { "[server1]:80", "not an address, nor a host name" },
	{ "fd00::1::2", "HOST:PORT" }, { "http://a", "HOST:PORT" },
	{ "a:", "HOST:PORT" }, { "a:0", "HOST:PORT" }, { "a:65536", "HOST:PORT" }, { "a:8x", "HOST:PORT" },
	{ "a:+8", "HOST:PORT" }, { "a: 8", "HOST:PORT" }, { "a:1:2", "HOST:PORT" },
	{ "a:99999999999999999999999999999999999999999999999999999999999999999999", "HOST:PORT" },
	{ "10.0.0", "no host name ends with a number" }, { "10.0.0.256", "no host name ends with a number" },
	{ "127.1:80", "no host name ends with a number" }, { "0x7f000001", "no host name ends with a number" },
	{ "a.0X", "no host name ends with a number" }, { "1.", "no host name ends with a number" },
	{ "fe80::1%eth0", "names an interface" }, { "[fe80::1%eth0]:8301", "names an interface" },
	{ "b\xc3\xbc" "cher.example", "\"b\xc3\xbc" "cher.example\" has letters beyond ASCII: write the name as DNS has it (xn--...)" },
	{ "a" LABEL63, "too long for a host name" }, { "a" NAME253, "too long for a host name" },
	{ "a." NAME253, "too long for a host name" },
	{ "srv:", "name of SRV records" }, { "srv:_serf", "name of SRV records" }, { "srv:_serf._tcp", "name of SRV records" },
	{ "srv:serf._tcp.example.com", "name of SRV records" }, { "srv:_serf.tcp.example.com", "name of SRV records" },
	{ "srv:_serf._tcp.example.com:8301", "without a port" }, { "srv:_serf._tcp..com", "nor a host name" },
	{ "file:", "path that begins with /" }, { "file:peers", "path that begins with /" }, { "file:~/x", "path that begins with /" },
	{ "provider=aws tag_key=a", "\"provider=aws tag_key=a\" is cloud auto-join, which is not built in: write a host name "
	    "that has all their addresses, srv:_NAME._tcp.DOMAIN, or file:/PATH" },
	{ "provider=", "cloud auto-join" },
};

START_TEST(forms)
{
	char why[TARGET_WHY_BYTES] = "";
	struct dial_target t;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (good[i].what == NULL) {
			ck_assert_int_eq(target_parse(span_str(good[i].text), 8301, &t, NULL), TV_EINVAL);
			continue;
		}
		ck_assert_msg(target_parse(span_str(good[i].text), 8301, &t, why) == TV_OK, "%s", why);
		ck_assert_int_eq(t.kind, good[i].kind);
		ck_assert_msg(t.kind == TARGET_ADDRESS ? strcmp(t.ip, good[i].what) == 0 : span_eqs(t.name, good[i].what), "%s",
		    good[i].text);
		ck_assert_uint_eq(t.port, good[i].port);
		ck_assert_msg(t.has_port == good[i].has_port, "%s", good[i].text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(target_parse(span_str(bad[i].text), 8301, &t, why) == TV_EINVAL, "%s", bad[i].text);
		ck_assert_msg(strstr(why, bad[i].why) != NULL, "%s: %s", bad[i].text, why);
		ck_assert_int_eq(target_parse(span_str(bad[i].text), 8301, &t, NULL), TV_EINVAL);
	}
}
END_TEST

/* Texts come from clients too. */
START_TEST(hostile)
{
	char why[TARGET_WHY_BYTES] = "", *path = malloc(TARGET_PATH_BYTES_MAX + 7);
	struct dial_target t;

	ck_assert_int_eq(target_parse(span_of("a\0b", 3), 1, &t, why), TV_EINVAL);
	ck_assert_str_eq(why, "\"a?b\" has a zero byte");
	ck_assert_int_eq(target_parse(span_of("file:/\n\033", 8), 1, &t, why), TV_OK);
	ck_assert_int_eq(target_parse(span_of("a\n\033[1m", 6), 1, &t, why), TV_EINVAL);
	ck_assert_ptr_null(strpbrk(why, "\n\033"));
	ck_assert_int_eq(target_parse(SPAN_NONE, 1, &t, why), TV_EINVAL);
	memset(path, '/', TARGET_PATH_BYTES_MAX + 7);
	memcpy(path, "file:", 5);
	ck_assert_int_eq(target_parse(span_of(path, TARGET_PATH_BYTES_MAX + 5), 1, &t, why), TV_OK);
	ck_assert_int_eq(target_parse(span_of(path, TARGET_PATH_BYTES_MAX + 6), 1, &t, why), TV_EINVAL);
	ck_assert_uint_lt(strlen(why), 200);
	free(path);
}
END_TEST

START_TEST(lines)
{
	struct span text = span_str("\xef\xbb\xbf# made by a script\r\n\r\n10.0.0.1\n  10.0.0.2:1 \t# the second\r\n\n\t#x\nhost#1 \r\nlast");
	static const struct { unsigned number; const char *line; } want[] = {
		{ 3, "10.0.0.1" }, { 4, "10.0.0.2:1" }, { 7, "host#1" }, { 8, "last" },
	};
	struct span line;
	unsigned number = 0;

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		ck_assert(target_line(&text, &number, &line));
		ck_assert_uint_eq(number, want[i].number);
		ck_assert_msg(span_eqs(line, want[i].line), "%.*s", (int)line.len, (const char *)line.p);
	}
	ck_assert(!target_line(&text, &number, &line));
	ck_assert(!target_line(&text, &number, &line));
	text = SPAN_NONE;
	number = 0;
	ck_assert(!target_line(&text, &number, &line));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("target");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);

	tcase_add_test(t, forms);
	tcase_add_test(t, hostile);
	tcase_add_test(t, lines);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
