/* IP addresses: text, bytes and the system's form, there and back. */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/addr.h"

static const struct {
	const char *text, *printed;	/* printed: NULL, as it is */
	uint8_t len;
	bool any, loopback;
	const char *bare;		/* of a mapped one; NULL: it is none */
} good[] = {
	{ "192.0.2.1", NULL, 4, false, false, NULL },
	{ "0.0.0.0", NULL, 4, true, false, NULL },
	{ "0.0.0.1", NULL, 4, false, false, NULL },
	{ "127.0.0.1", NULL, 4, false, true, NULL },
	{ "127.255.255.254", NULL, 4, false, true, NULL },
	{ "128.0.0.1", NULL, 4, false, false, NULL },
	{ "255.255.255.255", NULL, 4, false, false, NULL },
	{ "::", NULL, 16, true, false, NULL },
	{ "::1", NULL, 16, false, true, NULL },
	{ "::2", NULL, 16, false, false, NULL },
	{ "1::", NULL, 16, false, false, NULL },
	{ "fe80::1", NULL, 16, false, false, NULL },
	{ "FD00:0:0:0:0:0:0:0A", "fd00::a", 16, false, false, NULL },
	{ "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", NULL, 16, false, false, NULL },
	{ "::ffff:192.0.2.1", NULL, 16, false, false, "192.0.2.1" },
	{ "::FFFF:7f00:1", "::ffff:127.0.0.1", 16, false, false, "127.0.0.1" },
	{ "::ffff:0:0", "::ffff:0.0.0.0", 16, false, false, "0.0.0.0" },
	{ "::fffe:192.0.2.1", "::fffe:c000:201", 16, false, false, NULL },
	{ "64:ff9b::192.0.2.1", "64:ff9b::c000:201", 16, false, false, NULL },
};

static const char *const bad[] = {
	"", " ", "1", "1.2.3", "1.2.3.", "1.2.3.4.", "1.2.3.4.5", "1.2.3.256", "1.2.3.04", "0x7f.0.0.1", " 1.2.3.4", "1.2.3.4 ",
	"127.1", ":", ":::", "::1::", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "[::1]", "::1%lo", "fe80::1%1", "::g", "::1/64",
	"1.2.3.4:80", "12345::", "::ffff:1.2.3", "localhost", "-",
	"0000:0000:0000:0000:0000:ffff:255.255.255.255 and more than any address has",
};

START_TEST(text_there_and_back)
{
	char ip[ADDR_IP_BYTES], text[ADDR_TEXT_BYTES], expected[ADDR_TEXT_BYTES];
	struct addr a, b;

	ck_assert(addr_parse(good[_i].text, 8301, &a));
	ck_assert_uint_eq(a.len, good[_i].len);
	ck_assert_uint_eq(a.port, 8301);
	ck_assert_str_eq(addr_ip(&a, ip), good[_i].printed != NULL ? good[_i].printed : good[_i].text);
	snprintf(expected, sizeof(expected), a.len == 4 ? "%s:8301" : "[%s]:8301", ip);
	ck_assert_str_eq(addr_text(&a, text), expected);
	ck_assert(addr_parse_text(span_str(text), &b));
	ck_assert(addr_eq(&a, &b));
	ck_assert(addr_parse_span(span_str(ip), 8301, &b));
	ck_assert(addr_eq(&a, &b));
	b.port++;
	ck_assert(!addr_eq(&a, &b));
	b = addr_of_bytes(a.ip, a.len);
	ck_assert_uint_eq(b.port, 0);
	b.port = a.port;
	ck_assert(addr_eq(&a, &b));
}
END_TEST

START_TEST(what_an_address_is)
{
	char ip[ADDR_IP_BYTES];
	struct addr a, bare, mapped;

	ck_assert(addr_parse(good[_i].text, 1, &a));
	ck_assert_int_eq(addr_is_any(&a), good[_i].any);
	ck_assert_int_eq(addr_is_loopback(&a), good[_i].loopback);
	ck_assert_int_eq(addr_is_mapped(&a), good[_i].bare != NULL);
	bare = addr_unmapped(a);
	ck_assert_uint_eq(bare.port, 1);
	ck_assert_str_eq(addr_ip(&bare, ip), good[_i].bare != NULL ? good[_i].bare : addr_ip(&a, (char[ADDR_IP_BYTES]){ 0 }));
	mapped = addr_mapped(bare);
	ck_assert_uint_eq(mapped.len, 16);
	ck_assert_uint_eq(mapped.port, 1);
	ck_assert_int_eq(addr_is_mapped(&mapped), bare.len == 4);
	if (a.len == 16)
		ck_assert(addr_eq(&mapped, &a));
	mapped = addr_unmapped(mapped);
	ck_assert(addr_eq(&mapped, &bare));
	/* Bytes beyond an address are zeros, so that whole ones may be compared and hashed. */
	for (size_t i = bare.len; i < sizeof(bare.ip); i++)
		ck_assert_uint_eq(bare.ip[i], 0);
}
END_TEST

START_TEST(for_sockets_there_and_back)
{
	union addr_sock sa, again;
	struct addr a, b;
	socklen_t len;

	ck_assert(addr_parse(good[_i].text, 65535, &a));
	memset(&sa, 0xee, sizeof(sa));
	len = addr_to_sock(&a, &sa);
	ck_assert_uint_eq(len, a.len == 4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	ck_assert_uint_eq(len, addr_sock_len(&sa));
	ck_assert_int_eq(sa.any.sa_family, a.len == 4 ? AF_INET : AF_INET6);
	ck_assert_uint_eq(ntohs(a.len == 4 ? sa.v4.sin_port : sa.v6.sin6_port), 65535);
	if (a.len == 16)
		ck_assert_uint_eq(sa.v6.sin6_scope_id + sa.v6.sin6_flowinfo, 0);
	b = addr_of_sock(&sa.any);
	ck_assert(addr_eq(&a, &b));
	ck_assert_uint_eq(addr_parse_sock(good[_i].text, 65535, &again), len);
	ck_assert_mem_eq(&sa, &again, len);
}
END_TEST

START_TEST(what_is_none)
{
	char ip[ADDR_IP_BYTES] = "x", text[ADDR_TEXT_BYTES] = "x";
	struct addr a = { .len = 4, .port = 1 };
	union addr_sock sa;

	ck_assert(!addr_parse(bad[_i], 80, &a));
	ck_assert_uint_eq(a.len + a.port, 0);
	ck_assert(!addr_parse(bad[_i], 80, NULL));
	ck_assert(!addr_parse_span(span_str(bad[_i]), 80, &a));
	ck_assert_uint_eq(a.len + a.port, 0);
	errno = 0;
	ck_assert_uint_eq(addr_parse_sock(bad[_i], 80, &sa), 0);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(sa.any.sa_family, AF_UNSPEC);
	ck_assert_str_eq(addr_ip(&a, ip), "");
	ck_assert_str_eq(addr_text(&a, text), "");
	ck_assert(!addr_is_any(&a) && !addr_is_loopback(&a) && !addr_is_mapped(&a));
	ck_assert_uint_eq(addr_mapped(a).len + addr_unmapped(a).len, 0);
}
END_TEST

START_TEST(no_address_with_a_port)
{
	static const char *const texts[] = {
		"", ":1", ":", "1.2.3.4", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:65536", "1.2.3.4:99999999999999999999", "1.2.3.4:8x",
		"1.2.3.4: 8", "1.2.3.4:+8", "1.2.3.4:-8", "[::1:8", "[]:1", "[:1", "]:1", "[::1]", "[::1]x:1", "host:1",
		"[fe80::1%1]:1", "0000:0000:0000:0000:0000:ffff:255.255.255.255:000000000080",
	};
	struct addr a = { .len = 4 };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		ck_assert_msg(!addr_parse_text(span_str(texts[i]), &a), "%s", texts[i]);
		ck_assert_uint_eq(a.len + a.port, 0);
	}
	ck_assert(addr_parse_text(span_str("[1.2.3.4]:8"), &a));
	ck_assert_uint_eq(a.port, 8);
	ck_assert(addr_parse_text(span_str("[0000:0000:0000:0000:0000:ffff:255.255.255.255]:65535"), &a));
}
END_TEST

START_TEST(other_forms_are_none)
{
	static const uint8_t bytes[20] = { 1 };
	struct addr a;
	union addr_sock sa = { .any.sa_family = AF_UNIX };

	for (size_t n = 0; n <= sizeof(bytes); n++)
		ck_assert_uint_eq(addr_of_bytes(bytes, n).len, n == 4 || n == 16 ? n : 0);
	ck_assert_uint_eq(addr_of_sock(&sa.any).len, 0);
	/* Not cut at a NUL. */
	ck_assert(!addr_parse_span(span_of("1.2.3.4\0.5", 10), 0, &a));
	ck_assert(addr_parse_span(span_of("1.2.3.4.5", 7), 0, &a));
	ck_assert(!addr_parse_span(SPAN_NONE, 0, &a));
	/* The longest ones have their place. */
	ck_assert(addr_parse_span(span_str("0000:0000:0000:0000:0000:ffff:255.255.255.255"), 0, &a));
}
END_TEST

static const struct { const char *net, *ip; bool in; } nets[] = {
	{ "10.0.0.0/8", "10.255.1.2", true }, { "10.0.0.0/8", "11.0.0.0", false }, { "10.9.9.9/8", "10.0.0.1", true },
	{ "192.0.2.128/25", "192.0.2.129", true }, { "192.0.2.128/25", "192.0.2.127", false },
	{ "192.0.2.1", "192.0.2.1", true }, { "192.0.2.1", "192.0.2.2", false }, { "0.0.0.0/0", "203.0.113.9", true },
	{ "0.0.0.0/0", "::1", false }, { "::/0", "::1", true }, { "::/0", "10.0.0.1", false },
	{ "fd00::/9", "fd7f::1", true }, { "fd00::/9", "fd80::1", false }, { "::1/128", "::1", true },
	{ "255.255.255.255/32", "127.0.0.1", false }, { "10.0.0.0/008", "10.1.1.1", true },
};

START_TEST(what_is_in_a_network)
{
	struct addr_net n;
	struct addr a;

	ck_assert(addr_net_parse(span_str(nets[_i].net), &n));
	ck_assert(addr_parse(nets[_i].ip, 0, &a));
	ck_assert_msg(addr_net_has(&n, &a) == nets[_i].in, "%s %s", nets[_i].net, nets[_i].ip);
}
END_TEST

START_TEST(what_is_no_network)
{
	static const char *const texts[] = { "", "/", "/8", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "10.0.0.0/ 8",
	    "10.0.0.0/8 ", "10.0.0/8", "10.0.0.0/0008", "10.0.0.0/8/8", "web/8" };
	struct addr_net n = { .len = 4 };

	ck_assert(!addr_net_parse(span_str(texts[_i]), &n));
	ck_assert_uint_eq(n.len, 0);
	ck_assert(!addr_net_has(&n, &(struct addr){ .len = 0 }));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("addr");
	TCase *t = tcase_create("addr");
	SRunner *sr;
	int failed;

	tcase_add_loop_test(t, text_there_and_back, 0, sizeof(good) / sizeof(good[0]));
	tcase_add_loop_test(t, what_an_address_is, 0, sizeof(good) / sizeof(good[0]));
	tcase_add_loop_test(t, for_sockets_there_and_back, 0, sizeof(good) / sizeof(good[0]));
	tcase_add_loop_test(t, what_is_none, 0, sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(t, no_address_with_a_port);
	tcase_add_test(t, other_forms_are_none);
	tcase_add_loop_test(t, what_is_in_a_network, 0, sizeof(nets) / sizeof(nets[0]));
	tcase_add_loop_test(t, what_is_no_network, 0, 13);
	suite_add_tcase(s, t);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
