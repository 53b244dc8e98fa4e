/* What files and SRV records lead to, without sockets and files. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "gossipd/names/lookup.h"

static struct lookup_hosts out;

static void
lines(const char *text)
{
	lookup_lines(span_str(text), 8301, &out);
}

START_TEST(files)
{
	char many[2000] = "";

	lines("10.0.0.1\n# x\n[fd00::1]:9\nhost.example:10 # y\nfd00::2\nother\n");
	ck_assert_uint_eq(out.n, 5);
	ck_assert_str_eq(out.v[0].name, "10.0.0.1");
	ck_assert_uint_eq(out.v[0].port, 8301);
	ck_assert_str_eq(out.v[1].name, "fd00::1");
	ck_assert_uint_eq(out.v[1].port, 9);
	ck_assert_str_eq(out.v[2].name, "host.example");
	ck_assert_uint_eq(out.v[2].port, 10);
	ck_assert_str_eq(out.end.why, "");
	ck_assert_int_eq(out.end.outcome, TARGET_FOUND);
	lines("");
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(out.end.outcome, TARGET_FOUND);
	lines("a b\nsrv:_a._tcp.b\nfile:/x\nc");
	ck_assert_uint_eq(out.n, 1);
	ck_assert_str_eq(out.end.why, "line 1 is neither an address nor a host name, and left out");
	for (int i = 0; i < 70; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many), "10.0.0.%d\n", i + 1);
	lines(many);
	ck_assert_uint_eq(out.n, TARGET_ADDRS_MAX);
	ck_assert_str_eq(out.end.why, "more than 64 lines: those from line 65 on are left out");
}
END_TEST

static void
put_name(struct buf *b, const char *name)
{
	while (*name != '\0') {
		size_t n = strcspn(name, ".");

		buf_u8(b, (uint8_t)n);
		buf_put(b, name, n);
		name += n + (name[n] == '.');
	}
	buf_u8(b, 0);
}

static void
put_srv(struct buf *b, uint16_t priority, uint16_t port, const char *host)
{
	struct buf data = BUF_INIT(1024);

	buf_u16be(&data, priority);
	buf_u16be(&data, 1);
	buf_u16be(&data, port);
	put_name(&data, host);
	buf_u16be(b, 0xc00c);
	buf_u16be(b, 33);
	buf_u16be(b, 1);
	buf_u32be(b, 60);
	buf_u16be(b, (uint16_t)data.len);
	buf_put(b, data.data, data.len);
	buf_done(&data);
}

static struct buf
head(uint16_t answers)
{
	struct buf b = BUF_INIT(65536);

	buf_u16be(&b, 1);
	buf_u16be(&b, 0x8180);
	buf_u16be(&b, 1);
	buf_u16be(&b, answers);
	buf_u32be(&b, 0);
	put_name(&b, "_serf._tcp.test");
	buf_u16be(&b, 33);
	buf_u16be(&b, 1);
	return b;
}

START_TEST(records)
{
	struct buf b = head(6);

	put_srv(&b, 20, 8302, "second.test");
	put_srv(&b, 10, 8301, "first.test");
	put_srv(&b, 1, 8301, "");		/* not to be had here */
	put_srv(&b, 1, 0, "portless.test");
	put_srv(&b, 1, 8301, "127.1");
	put_srv(&b, 1, 8301, "10.0.0.1");
	lookup_answer(b.data, b.len, &out);
	ck_assert_uint_eq(out.n, 3);
	ck_assert_str_eq(out.v[0].name, "10.0.0.1");
	ck_assert_str_eq(out.v[1].name, "first.test");
	ck_assert_str_eq(out.v[2].name, "second.test");
	ck_assert_uint_eq(out.v[2].port, 8302);
	/* Cut at each byte: no record that is not whole. */
	for (size_t n = 0; n < b.len; n++) {
		uint8_t *copy = malloc(n + 1);

		memcpy(copy, b.data, n);
		lookup_answer(copy, n, &out);
		ck_assert(out.end.outcome != TARGET_FOUND || out.n > 0);
		free(copy);
	}
	buf_done(&b);
	b = head(0);
	lookup_answer(b.data, b.len, &out);
	ck_assert_int_eq(out.end.outcome, TARGET_NONE);
	buf_done(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("lookup");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);

	tcase_add_test(t, files);
	tcase_add_test(t, records);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
