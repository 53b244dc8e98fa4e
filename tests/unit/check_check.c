/* What decides about checks that are run: when, with which status, and how much of an output is kept. */
#include <check.h>
#include <stdlib.h>

#include "common/text/hostport.h"
#include "rpcd/check/docker_stream.h"
#include "rpcd/check/grpc.h"
#include "rpcd/check/schedule.h"
#include "rpcd/check/tail.h"
#include "rpcd/check/url.h"
#include "rpcd/check/verdict.h"

#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))

/* -- URLs -- */

START_TEST(urls_are_asked_for_as_written)
{
	static const char *const all[][2] = {
		{ "http://h:9000/a b", "http://h:9000/a%20b" }, { "http://h/a|b", "http://h/a%7Cb" },
		{ "http://h/a\"b<c>", "http://h/a%22b%3Cc%3E" }, { "http://h/{x}?{y}", "http://h/%7Bx%7D?{y}" },
		{ "http://h/a/../b//c/.", "http://h/a/../b//c/." }, { "http://h/a%20b", "http://h/a%20b" },
		{ "http://h/%7c!(1)", "http://h/%7c!(1)" }, { "http://h/a b!%2f%7c", "http://h/a%20b%21/%7C" },
		{ "http://h/\xc3\xa4", "http://h/%C3%A4" }, { "http://h/?q=a b#c d", "http://h/?q=a%20b" },
		{ "http://h?q=/x|", "http://h?q=/x|" }, { "http://h", "http://h" }, { "http://h/%zz", NULL }, { "http://h/%2", NULL },
		{ "http://[10.77.0.1]:9998/health", "http://10.77.0.1:9998/health" }, { "http://[127.0.0.1]/", "http://127.0.0.1/" },
		{ "http://u:p@[127.0.0.1]:1", "http://u:p@127.0.0.1:1" }, { "https://[::1]:80/", "https://[::1]:80/" },
		{ "http://[nonsense]/", "http://[nonsense]/" }, { "nonsense", "nonsense" }, { "", "" }, { "http://", "http://" },
	};

	for (size_t i = 0; i < NITEMS(all); i++) {
		struct buf out = BUF_INIT(1024);
		bool good = url_to_ask(span_str(all[i][0]), &out);

		ck_assert_msg(good == (all[i][1] != NULL), "%s", all[i][0]);
		if (good)
			ck_assert_str_eq(buf_cstr(&out), all[i][1]);
		buf_done(&out);
	}
}
END_TEST

/* -- addresses -- */

START_TEST(addresses_in_every_spelling)
{
	static const struct {
		const char *text, *host, *service;
		uint16_t port;
	} all[] = {
		{ "h:80", "h", "", 80 }, { "10.0.0.1:65535", "10.0.0.1", "", 65535 }, { "[10.0.0.1]:1", "10.0.0.1", "", 1 },
		{ "[::1]:80", "::1", "", 80 }, { "[fe80::1%2]:80", "fe80::1%2", "", 80 }, { ":80", "127.0.0.1", "", 80 },
		{ "[]:80", "127.0.0.1", "", 80 }, { "h:http", "h", "http", 0 }, { "[::]:x11-1", "::", "x11-1", 0 },
		{ "h:9pfs", "h", "9pfs", 0 }, { "h.example.:080", "h.example.", "", 80 },
	};
	struct hostport to;

	for (size_t i = 0; i < NITEMS(all); i++) {
		const char *why = hostport_parse(span_str(all[i].text), &to);

		ck_assert_msg(why == NULL, "%s: %s", all[i].text, why);
		ck_assert_str_eq(to.host, all[i].host);
		ck_assert_str_eq(to.service, all[i].service);
		ck_assert_uint_eq(to.port, all[i].port);
	}
}
END_TEST

START_TEST(addresses_that_are_none)
{
	static const char *const all[][2] = {
		{ "", "missing port" }, { "127.0.0.1", "missing port" }, { "h:", "missing port" }, { "[::1]", "missing port" },
		{ "[::1]80", "missing port" }, { "::1", "too many colons" }, { "::1:80", "too many colons" },
		{ "http://h:80", "too many colons" }, { "[::1]:80:90", "too many colons" }, { "[::1:80", "missing ']'" },
		{ "h[:80", "unexpected '['" }, { "h]:80", "unexpected ']'" }, { "[[::1]:80", "unexpected '['" },
		{ "h:80]", "unexpected ']'" }, { "h:0", "invalid port" }, { "h:65536", "invalid port" },
		{ "h:99999999999999999999999", "invalid port" }, { "h:-1", NULL }, { "h:a b", "unknown port" }, { "h:80/x", "unknown port" },
		{ "h/x:80", "no name of a host" }, { "u@h:80", "no name of a host" }, { "h h:80", "no name of a host" },
		{ "[fe80::1%eth0]:80", "zone" }, { "[fe80::1%]:80", "zone" },
		{ "h:a-name-that-is-longer-than-any-name-of-a-port", "unknown port" },
	};
	char name[300];
	struct hostport to;

	for (size_t i = 0; i < NITEMS(all); i++) {
		const char *why = hostport_parse(span_str(all[i][0]), &to);

		ck_assert_msg(all[i][1] == NULL ? why == NULL : why != NULL && strstr(why, all[i][1]) != NULL, "%s: %s",
		    all[i][0], why == NULL ? "good" : why);
	}
	memset(name, 'h', sizeof(name));
	memcpy(name + 256, ":80", 4);
	ck_assert_str_eq(hostport_parse(span_str(name), &to), "the host is longer than 255 bytes");
	ck_assert_ptr_null(hostport_parse(span_str(name + 1), &to));
}
END_TEST

/* -- when -- */

#define MANY 5000
static struct slot slots[MANY];
static struct schedule *s;

static void
setup(void)
{
	memset(slots, 0, sizeof(slots));
	s = schedule_new(17);
	ck_assert_ptr_nonnull(s);
}

static void
teardown(void)
{
	schedule_free(s);
}

static void
add(unsigned n, struct mono interval, bool soon, struct mono now)
{
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(schedule_add(s, &slots[i], interval, soon, now), TV_OK);
}

START_TEST(runs_are_on_a_grid)
{
	struct mono now = MONO_S(1000);

	add(1, MONO_S(10), false, now);
	struct mono first = schedule_next(s);
	ck_assert(!mono_before(first, now) && mono_before(first, mono_add(now, MONO_S(10))));
	for (int i = 0; i < 100; i++) {
		struct mono due = mono_add(first, mono_mul(MONO_S(10), i));

		ck_assert_int_eq(schedule_next(s).ns, due.ns);
		ck_assert_ptr_null(schedule_due(s, mono_sub(due, MONO_MS(1))));
		/* late, and for up to 9 s: the next one is where it would have been */
		ck_assert_ptr_eq(schedule_due(s, mono_add(due, MONO_MS(50))), &slots[0]);
		ck_assert_int_eq(schedule_next(s).ns, MONO_NEVER.ns);
		schedule_again(s, &slots[0], mono_add(due, MONO_MS(90 * i)));
	}
}
END_TEST

START_TEST(a_run_longer_than_its_interval_leaves_points_out)
{
	add(1, MONO_S(1), false, MONO_ZERO);
	struct mono first = schedule_next(s);

	ck_assert_ptr_eq(schedule_due(s, first), &slots[0]);
	schedule_again(s, &slots[0], mono_add(first, MONO_MS(3500)));
	ck_assert_int_eq(schedule_next(s).ns, mono_add(first, MONO_S(4)).ns);
}
END_TEST

/* The number that is due in each tenth of the interval, in any of its first rounds. */
static void
expect_even(struct mono interval, unsigned n, struct mono from)
{
	unsigned count[100] = { 0 };
	struct mono end = mono_add(from, interval);

	for (struct slot *slot; mono_before(schedule_next(s), end);) {
		struct mono at = schedule_next(s);

		ck_assert_ptr_nonnull(slot = schedule_due(s, at));
		count[(mono_sub(at, from).ns * 100) / interval.ns]++;
		schedule_again(s, slot, at);
	}
	for (unsigned i = 0; i < NITEMS(count); i++)
		ck_assert_msg(count[i] >= n / 100 * 8 / 10 && count[i] <= n / 100 * 12 / 10 + 1, "%u of %u in part %u",
		    count[i], n, i);
}

START_TEST(many_that_come_at_once_are_spread)
{
	add(MANY, MONO_S(10), false, MONO_S(5));
	expect_even(MONO_S(10), MANY, MONO_S(5));
	expect_even(MONO_S(10), MANY, MONO_S(15));
}
END_TEST

START_TEST(the_first_result_does_not_wait_for_a_long_interval)
{
	struct mono now = MONO_S(100), soon = mono_add(now, SCHEDULE_FIRST_MAX);
	bool seen[MANY] = { false };
	unsigned n = 0;

	add(MANY, MONO_S(600), true, now);
	for (struct slot *slot; (slot = schedule_due(s, soon)) != NULL;) {
		n += !seen[slot - slots];
		seen[slot - slots] = true;
		schedule_again(s, slot, slot->due.when);
	}
	ck_assert_uint_eq(n, MANY);
	/* and from then on they are spread over it */
	for (struct slot *slot; (slot = schedule_due(s, mono_sub(mono_add(now, MONO_S(600)), MONO_MS(1)))) != NULL;)
		schedule_again(s, slot, slot->due.when);
	expect_even(MONO_S(600), MANY, mono_add(now, MONO_S(600)));
}
END_TEST

START_TEST(slots_leave_in_any_state)
{
	add(MANY, MONO_S(10), false, MONO_ZERO);
	for (unsigned i = 0; i < MANY; i += 2)
		schedule_remove(s, &slots[i]);
	struct slot *running = schedule_due(s, MONO_S(20));
	ck_assert_uint_eq((unsigned)(running - slots) % 2, 1);
	schedule_remove(s, running);
	struct mono last = MONO_ZERO;
	unsigned n = 0;
	for (struct slot *slot; (slot = schedule_due(s, MONO_S(20))) != NULL; n++) {
		ck_assert(!mono_before(slot->due.when, last) && (slot - slots) % 2 == 1);
		last = slot->due.when;
	}
	ck_assert_uint_eq(n, MANY / 2 - 1);
	ck_assert_int_eq(schedule_next(s).ns, MONO_NEVER.ns);
}
END_TEST

/* -- with which status -- */

static const struct {
	const char *what;
	uint64_t passing, warning, critical;
	bool known;
	enum health status;
	const char *results;		/* p w c, C: firm */
	const char *effects;		/* the same, or '.': none */
} cases[] = {
	{ "no thresholds", 0, 0, 0, false, HEALTH_CRITICAL, "pcwpc", "pcwpc" },
	{ "thresholds of one", 1, 1, 1, false, HEALTH_CRITICAL, "pcwpc", "pcwpc" },
	{ "the first result counts at once", 3, 0, 3, false, HEALTH_CRITICAL, "p", "p" },
	{ "a bad one, too", 3, 0, 3, false, HEALTH_CRITICAL, "c", "c" },
	{ "failures in a row", 0, 0, 3, true, HEALTH_PASSING, "ccpcccc", "..p..cc" },
	{ "successes in a row", 3, 0, 0, true, HEALTH_CRITICAL, "ppcpppp", "..c..pp" },
	{ "a warning is a success", 2, 0, 2, true, HEALTH_CRITICAL, "wwp", ".wp" },
	{ "warning before critical", 0, 2, 4, true, HEALTH_PASSING, "ccccc", ".wwcc" },
	{ "a state that was known before", 0, 0, 2, true, HEALTH_PASSING, "pcpcc", "p.p.c" },
	{ "critical before: another failure changes its output", 2, 0, 3, true, HEALTH_CRITICAL, "cpc", "c.." },
	{ "a timeout waits for nothing", 0, 0, 5, true, HEALTH_PASSING, "Cc", "cc" },
};

START_TEST(thresholds)
{
	struct verdict v;

	verdict_init(&v, cases[_i].passing, cases[_i].warning, cases[_i].critical, cases[_i].known, cases[_i].status);
	for (size_t k = 0; cases[_i].results[k] != '\0'; k++) {
		char r = cases[_i].results[k], got;
		enum health effect;

		got = !verdict_take(&v, r == 'p' ? HEALTH_PASSING : r == 'w' ? HEALTH_WARNING : HEALTH_CRITICAL,
		    r == 'C', &effect) ? '.' : "pwc"[effect];
		ck_assert_msg(got == cases[_i].effects[k], "%s: result %zu: %c", cases[_i].what, k + 1, got);
	}
}
END_TEST

START_TEST(names_of_states)
{
	for (enum health h = HEALTH_PASSING; h <= HEALTH_CRITICAL; h++)
		ck_assert_int_eq(health_of(span_str(health_name(h))), h);
	ck_assert_int_eq(health_of(span_str("")), HEALTH_CRITICAL);
}
END_TEST

/* -- how much -- */

START_TEST(the_end_of_an_output)
{
	struct tail t;
	char want[11] = "";
	char piece[40];

	tail_init(&t, 10);
	ck_assert_uint_eq(tail_span(&t).len, 0);
	for (unsigned i = 0, total = 0; i < 2000; i++) {
		unsigned n = i % 37;

		for (unsigned k = 0; k < n; k++) {
			piece[k] = (char)('a' + (total + k) % 26);
			memmove(want, want + 1, 9);
			want[9] = piece[k];
		}
		total += n;
		tail_put(&t, span_of(piece, n));
		ck_assert_uint_eq(t.total, total);
		ck_assert_uint_le(t.buf.len, 20);
		if (total >= 10)
			ck_assert(span_eqs(tail_span(&t), want));
	}
	tail_done(&t);
}
END_TEST

/* -- gRPC -- */

static bool
response(const char *bytes, size_t len, uint64_t *status)
{
	return grpc_response(span_of(bytes, len), status);
}

#define RESPONSE(s_, status_) response((s_), sizeof(s_) - 1, (status_))

START_TEST(grpc_messages)
{
	struct buf out = BUF_INIT(1024);
	char text[24], name[200];
	uint64_t status;

	grpc_request(SPAN_NONE, &out);
	ck_assert_mem_eq(out.data, "\0\0\0\0\0", 5);
	ck_assert_uint_eq(out.len, 5);
	buf_reset(&out);
	grpc_request(span_str("web"), &out);
	ck_assert_uint_eq(out.len, 10);
	ck_assert_mem_eq(out.data, "\0\0\0\0\5\n\3web", 10);
	buf_reset(&out);
	memset(name, 'n', sizeof(name));
	grpc_request(span_of(name, sizeof(name)), &out);
	ck_assert_uint_eq(out.len, 5 + 3 + 200);
	ck_assert_mem_eq(out.data, "\0\0\0\0\313\n\310\1n", 9);
	buf_done(&out);

	ck_assert(RESPONSE("\0\0\0\0\2\10\1", &status) && status == GRPC_SERVING);
	ck_assert(RESPONSE("\0\0\0\0\0", &status) && status == 0);
	/* Fields that later versions may have: a varint, 8 bytes, a text, 4 bytes. */
	ck_assert(RESPONSE("\0\0\0\0\35\20\200\1\31" "12345678\42\3abc\55" "1234\10\2", &status) == false);
	ck_assert(RESPONSE("\0\0\0\0\30\20\200\1\31" "12345678\42\3abc\55" "1234\10\2", &status) && status == 2);
	static const struct { const char *bytes; size_t len; } bad[] = {
#define BAD(s_) { s_, sizeof(s_) - 1 }
		BAD(""), BAD("\0\0\0\0"), BAD("\1\0\0\0\2\10\1"), BAD("\0\0\0\0\3\10\1"), BAD("\0\0\0\0\1\10\1"),
		BAD("\0\377\377\377\377\10\1"), BAD("\0\0\0\0\1\10"), BAD("\0\0\0\0\2\10\200"), BAD("\0\0\0\0\2\12\5"),
		BAD("\0\0\0\0\2\17\1"), BAD("\0\0\0\0\3\12\377\377"), BAD("\0\0\0\0\2\11\1"), BAD("\0\0\0\0\2\25\1"),
		BAD("\0\0\0\0\14\10\377\377\377\377\377\377\377\377\377\377\1"),
	};
	for (size_t i = 0; i < NITEMS(bad); i++)
		ck_assert_msg(!response(bad[i].bytes, bad[i].len, &status), "%zu", i);
	ck_assert_str_eq(grpc_status_name(2, text), "NOT_SERVING");
	ck_assert_str_eq(grpc_status_name(4, text), "4");
	ck_assert_str_eq(grpc_code_name(14, text), "Unavailable");
	ck_assert_str_eq(grpc_code_name(17, text), "Code(17)");
}
END_TEST

START_TEST(grpc_texts)
{
	struct buf out = BUF_INIT(64);

	grpc_message(span_str("a%20b%C3%a9%0A%zz%4%"), &out);
	ck_assert_str_eq(buf_cstr(&out), "a b\303\251?%zz%4%");
	buf_done(&out);
}
END_TEST

/* -- docker -- */

static void
on_printed(void *ctx, struct span printed)
{
	buf_putspan(ctx, printed);
}

START_TEST(streams_of_docker)
{
	static const char pieces[] = "\1\0\0\0\0\0\0\3abc" "\2\0\0\0\0\0\0\0" "\2\0\0\0\0\0\0\2de" "\1\0\0\0\0\0\1\0fg";
	struct span all = span_of(pieces, sizeof(pieces) - 1);

	for (size_t step = 1; step <= all.len; step++) {
		struct docker_stream d = { .have = 0 };
		struct buf out = BUF_INIT(64);

		for (size_t at = 0; at < all.len; at += step)
			ck_assert(docker_stream_put(&d, span_of(all.p + at, all.len - at < step ? all.len - at : step), on_printed, &out));
		ck_assert_str_eq(buf_cstr(&out), "abcdefg");
		ck_assert_uint_eq(d.left, 254);
		buf_done(&out);
	}
	ck_assert(!docker_stream_put(&(struct docker_stream){ .have = 0 }, span_of("\3\0\0\0\0\0\0\0", 8), on_printed, NULL));
	ck_assert(!docker_stream_put(&(struct docker_stream){ .have = 0 }, span_str("HTTP/1.1"), on_printed, NULL));
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("check");
	TCase *t = tcase_create("schedule");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, urls_are_asked_for_as_written);
	tcase_add_test(t, addresses_in_every_spelling);
	tcase_add_test(t, addresses_that_are_none);
	tcase_add_test(t, runs_are_on_a_grid);
	tcase_add_test(t, a_run_longer_than_its_interval_leaves_points_out);
	tcase_add_test(t, many_that_come_at_once_are_spread);
	tcase_add_test(t, the_first_result_does_not_wait_for_a_long_interval);
	tcase_add_test(t, slots_leave_in_any_state);
	suite_add_tcase(suite, t);
	t = tcase_create("verdict");
	tcase_add_loop_test(t, thresholds, 0, (int)NITEMS(cases));
	tcase_add_test(t, names_of_states);
	suite_add_tcase(suite, t);
	t = tcase_create("tail");
	tcase_add_test(t, the_end_of_an_output);
	suite_add_tcase(suite, t);
	t = tcase_create("grpc");
	tcase_add_test(t, grpc_messages);
	tcase_add_test(t, grpc_texts);
	suite_add_tcase(suite, t);
	t = tcase_create("docker");
	tcase_add_test(t, streams_of_docker);
	suite_add_tcase(suite, t);
	SRunner *r = srunner_create(suite);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
