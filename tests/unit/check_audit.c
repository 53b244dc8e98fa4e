/* The audit trail: its lines, and their way to a file that is rotated, full, or away. */
#include <check.h>
#include <errno.h>
#include <ev.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "rpcd/audit/audit_line.h"
#include "rpcd/audit/denials.h"
#include "rpcd/audit/trail.h"
#include "tests/unit/scratch.h"

static struct ev_loop *loop;
static struct trail *trail;

static void
setup(void)
{
	scratch_open();
	loop = ev_loop_new(EVFLAG_AUTO);
	trail = trail_new(loop, "n1");
	ck_assert_ptr_nonnull(trail);
}

static void
teardown(void)
{
	trail_free(trail);
	ev_loop_destroy(loop);
	scratch_close();
}

/* -- lines -- */

static struct audit_record
record(void)
{
	return (struct audit_record){
		.wall_ms = 1762000000123, .node = "n1", .uid = -1, .operation = "KVS.Apply", .method = "PUT",
		.path = "/v1/kv/", .resource = "key", .name = span_str("a/b"), .status = 200, .index = 7,
		.datacenter = span_str("dc1"),
	};
}

static const char *
line_of(const struct audit_record *rec, struct span accessor)
{
	static struct buf out;

	buf_done(&out);
	buf_init(&out, 2 * AUDIT_LINE_MAX);
	audit_line(rec, &out);
	audit_line_end(accessor, &out);
	ck_assert_uint_le(out.len, AUDIT_LINE_MAX);
	return buf_cstr(&out);
}

START_TEST(a_line)
{
	struct audit_record rec = record();

	rec.client = "10.0.0.9";
	ck_assert_str_eq(line_of(&rec, span_str("anonymous")), "{\"time\":\"2025-11-01T12:26:40.123Z\",\"node\":\"n1\","
	    "\"client\":\"10.0.0.9\",\"operation\":\"KVS.Apply\",\"method\":\"PUT\",\"path\":\"/v1/kv/\","
	    "\"resource\":\"key\",\"name\":\"a/b\",\"datacenter\":\"dc1\",\"outcome\":\"ok\",\"status\":200,"
	    "\"index\":7,\"accessor\":\"anonymous\"}");
	rec.certificate = "cn:\"a\"";
	ck_assert_ptr_nonnull(strstr(line_of(&rec, SPAN_NONE), "\"client\":\"10.0.0.9\",\"certificate\":\"cn:\\\"a\\\"\","
	    "\"operation\""));
}
END_TEST

START_TEST(what_is_not_known_is_left_out)
{
	struct audit_record rec = {
		.node = "n1", .uid = 0, .operation = "agent/leave", .method = "PUT", .outcome = AUDIT_UNKNOWN,
	};

	ck_assert_str_eq(line_of(&rec, span_str("agent-master")), "{\"time\":\"1970-01-01T00:00:00.000Z\","
	    "\"node\":\"n1\",\"uid\":0,\"operation\":\"agent/leave\",\"method\":\"PUT\",\"outcome\":\"unknown\","
	    "\"accessor\":\"agent-master\"}");
}
END_TEST

/* As the C library has it. */
static const char *
library_time(int64_t wall_ms, char dst[LOG_TIME_BYTES])
{
	time_t sec = (time_t)(wall_ms / 1000);
	struct tm tm;
	size_t n;

	gmtime_r(&sec, &tm);
	n = strftime(dst, LOG_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(dst + n, LOG_TIME_BYTES - n, ".%03dZ", (int)(wall_ms % 1000));
	return dst;
}

START_TEST(times)
{
	static const int64_t ms[] = { 0, 951782399999, 951782400000, 951868800000, 4107542400000, 1762000000123, 68256000000,
	    1709164800001, 253402300799999 };
	char stamp[LOG_TIME_BYTES], text[64];
	struct audit_record rec = record();

	for (size_t i = 0; i < sizeof(ms) / sizeof(ms[0]); i++) {
		rec.wall_ms = ms[i];
		snprintf(text, sizeof(text), "{\"time\":\"%s\",", library_time(ms[i], stamp));
		ck_assert_msg(strncmp(line_of(&rec, span_str("x")), text, strlen(text)) == 0, "%s", text);
	}
	for (int64_t day = 0; day < 60000; day++) {
		rec.wall_ms = day * 86400000 + day;
		snprintf(text, sizeof(text), "{\"time\":\"%s\",", library_time(rec.wall_ms, stamp));
		ck_assert_msg(strncmp(line_of(&rec, span_str("x")), text, strlen(text)) == 0, "%s", text);
	}
}
END_TEST

START_TEST(names_of_a_transaction)
{
	struct span names[] = { span_str("key:a"), span_str("service:web") };
	struct audit_record rec = record();

	rec.name = SPAN_NONE;
	rec.operations = 64;
	rec.names = names;
	rec.name_count = 2;
	rec.outcome = AUDIT_DENIED;
	rec.status = 403;
	ck_assert_ptr_nonnull(strstr(line_of(&rec, span_str("x")), "\"operations\":64,\"names\":[\"key:a\",\"service:web\"],"
	    "\"datacenter\":\"dc1\",\"outcome\":\"denied\",\"status\":403"));
}
END_TEST

/* Whatever a name has, the line is one, of ASCII, and reads back. */
START_TEST(hostile_names)
{
	static const char bad[] = "a\n{\"x\":1}\r\x1b[2J\x7f\"\\\xe2\x80\xae\xf0\x9f\x98\x80\xff\xc3";
	struct audit_record rec = record();
	const char *text;
	json_t *v;

	rec.name = span_of(bad, sizeof(bad) - 1);
	text = line_of(&rec, span_str("x"));
	for (const char *p = text; *p != '\0'; p++)
		ck_assert_msg(*p >= 0x20 && *p < 0x7f, "%s", text);
	ck_assert_ptr_nonnull(strstr(text, "a\\u000a{\\\"x\\\":1}\\u000d\\u001b[2J\\u007f\\\"\\\\\\u202e\\ud83d\\ude00"
	    "\\ufffd\\ufffd\""));
	v = json_loads(text, 0, NULL);
	ck_assert_ptr_nonnull(v);
	json_decref(v);
}
END_TEST

START_TEST(long_names_are_cut)
{
	static uint8_t control[5000];
	struct span long_name = span_of(control, sizeof(control)), names[AUDIT_NAMES_MAX];
	struct audit_record rec = record();
	json_t *v;

	memset(control, 1, sizeof(control));
	for (unsigned i = 0; i < AUDIT_NAMES_MAX; i++)
		names[i] = long_name;
	rec.name = rec.datacenter = long_name;
	rec.names = names;
	rec.name_count = 1000;
	rec.operations = 1000;
	control[sizeof(control) - 1] = '\0';
	rec.certificate = rec.client = rec.node = rec.path = (const char *)control;
	v = json_loads(line_of(&rec, long_name), 0, NULL);
	ck_assert_ptr_nonnull(v);
	ck_assert_uint_eq(json_array_size(json_object_get(v, "names")), AUDIT_NAMES_MAX);
	const char *name = json_string_value(json_object_get(v, "name"));
	ck_assert_str_eq(name + strlen(name) - 3, "...");
	json_decref(v);
	/* One that is just short enough is not. */
	rec = record();
	rec.name = span_str("12345678");
	rec.name_cut = true;
	ck_assert_ptr_nonnull(strstr(line_of(&rec, span_str("x")), "\"name\":\"12345678...\""));
}
END_TEST

/* -- the trail -- */

static void
add(unsigned i)
{
	char text[64];

	snprintf(text, sizeof(text), "{\"line\":%u}", i);
	trail_add(trail, span_str(text), false);
}

static uint64_t
lines_lost(void)
{
	struct trail_stats s;

	trail_stats(trail, &s);
	return s.lost;
}

/* Until the thread has written n lines, or failed once more than before. */
static void
wait_written(uint64_t n)
{
	struct trail_stats s;

	for (unsigned i = 0; i < 20000; i++) {
		trail_stats(trail, &s);
		if (s.written >= n)
			return;
		usleep(1000);
	}
	ck_abort_msg("%u of %u lines were written", (unsigned)s.written, (unsigned)n);
}

static void
wait_failed(uint64_t n)
{
	struct trail_stats s;

	for (unsigned i = 0; i < 20000; i++) {
		trail_stats(trail, &s);
		if (s.failures >= n)
			return;
		usleep(1000);
	}
	ck_abort_msg("no failure");
}

/* The file has these lines, and those before `from` are elsewhere. */
static void
has_lines(const char *name, unsigned from, unsigned to)
{
	const char *p = scratch_read(name);
	char text[64];

	for (unsigned i = from; i < to; i++) {
		snprintf(text, sizeof(text), "{\"line\":%u}\n", i);
		ck_assert_msg(strncmp(p, text, strlen(text)) == 0, "line %u: %.40s", i, p);
		p += strlen(text);
	}
	ck_assert_str_eq(p, "");
}

START_TEST(off_costs_nothing)
{
	ck_assert(!trail_is_on(trail) && !trail_is_on(NULL));
	add(1);
	ck_assert_int_eq(trail_set(trail, TRAIL_OFF, NULL), TV_OK);
	add(2);
	ck_assert_uint_eq(lines_lost(), 0);
}
END_TEST

START_TEST(to_a_file)
{
	struct stat st;

	ck_assert_int_eq(trail_set(trail, TRAIL_FILE, scratch_path("a.log")), TV_OK);
	for (unsigned i = 0; i < 1000; i++)
		add(i);
	wait_written(1000);
	has_lines("a.log", 0, 1000);
	ck_assert_int_eq(stat(scratch_path("a.log"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
}
END_TEST

/* What is queued when rpcd ends is written. */
START_TEST(the_end_waits)
{
	ck_assert_int_eq(trail_set(trail, TRAIL_FILE, scratch_path("a.log")), TV_OK);
	for (unsigned i = 0; i < 1000; i++)
		add(i);
	trail_free(trail);
	trail = trail_new(loop, "n1");
	has_lines("a.log", 0, 1000);
}
END_TEST

/* Renamed, with a word from us and without one. */
START_TEST(rotated)
{
	ck_assert_int_eq(trail_set(trail, TRAIL_FILE, scratch_path("a.log")), TV_OK);
	for (unsigned i = 0; i < 30; i++) {
		add(i);
		wait_written(i + 1);
		if (i == 9 || i == 19)
			ck_assert_int_eq(rename(scratch_path("a.log"), scratch_path(i == 9 ? "b.log" : "c.log")), 0);
		if (i == 19)
			ck_assert_int_eq(trail_set(trail, TRAIL_FILE, scratch_path("a.log")), TV_OK);
	}
	has_lines("b.log", 0, 10);
	has_lines("c.log", 10, 20);
	has_lines("a.log", 20, 30);
}
END_TEST

/* Half a line that a crash left is ended first. */
START_TEST(half_a_line)
{
	scratch_write("a.log", "{\"line\":1}\n{\"li", 0600);
	ck_assert_int_eq(trail_set(trail, TRAIL_FILE, scratch_path("a.log")), TV_OK);
	add(2);
	wait_written(1);
	ck_assert_str_eq(scratch_read("a.log"), "{\"line\":1}\n{\"li\n{\"line\":2}\n");
}
END_TEST

/* Not where a link leads, nor into what is no file. */
START_TEST(no_file)
{
	scratch_write("other", "", 0600);
	ck_assert_int_eq(symlink("other", scratch_path("a.log")), 0);
	ck_assert_int_eq(trail_set(trail, TRAIL_FILE, scratch_path("a.log")), TV_OK);
	add(0);
	wait_failed(1);
	ck_assert_int_eq(unlink(scratch_path("a.log")), 0);
	ck_assert_int_eq(mkfifo(scratch_path("a.log"), 0600), 0);
	add(1);
	ck_assert_int_eq(unlink(scratch_path("a.log")), 0);
	wait_written(2);
	has_lines("a.log", 0, 2);
	ck_assert_str_eq(scratch_read("other"), "");
}
END_TEST

/* While it cannot be written the queue fills; afterwards the trail says how many are missing. */
START_TEST(lines_are_missing)
{
	char text[1001];
	uint64_t lost;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	ck_assert_int_eq(mkdir(scratch_path("a.log"), 0700), 0);
	ck_assert_int_eq(trail_set(trail, TRAIL_FILE, scratch_path("a.log")), TV_OK);
	add(0);
	wait_failed(1);
	for (unsigned i = 0; i < 3 * TRAIL_QUEUE_MAX / 1000; i++)
		trail_add(trail, span_str(text), false);
	lost = lines_lost();
	ck_assert_uint_gt(lost, TRAIL_QUEUE_MAX / 1000);
	ck_assert_int_eq(rmdir(scratch_path("a.log")), 0);
	wait_written(3 * TRAIL_QUEUE_MAX / 1000 + 1 - lost + 1);
	snprintf(text, sizeof(text), "tail -n 2 %s | grep -q '\"node\":\"n1\",\"operation\":\"audit/lost\",\"lines\":%u}'",
	    scratch_path("a.log"), (unsigned)lost);
	ck_assert_int_eq(system(text), 0);
	ev_run(loop, EVRUN_NOWAIT);
}
END_TEST

/* A flood of requests that are denied is bounded, and drives out nothing else. */
START_TEST(a_flood_of_denials)
{
	unsigned denied = 0;
	const char *p;

	ck_assert_int_eq(trail_set(trail, TRAIL_FILE, scratch_path("a.log")), TV_OK);
	for (unsigned i = 0; i < 10000; i++) {
		trail_add(trail, span_str("{\"denied\":true}"), 7);
		if (i == 5000)
			trail_add(trail, span_str("{\"another\":true}"), 8);
	}
	add(1);
	trail_free(trail);
	trail = trail_new(loop, "n1");
	p = scratch_read("a.log");
	ck_assert_ptr_nonnull(strstr(p, "{\"line\":1}\n"));
	ck_assert_ptr_nonnull(strstr(p, "{\"another\":true}\n"));
	ck_assert_ptr_nonnull(strstr(p, "\"operation\":\"audit/lost\""));
	ck_assert_ptr_nonnull(strstr(p, ",\"denials\":"));
	for (; (p = strstr(p, "{\"denied\":true}\n")) != NULL; p++)
		denied++;
	/* A second may end meanwhile. */
	ck_assert_uint_ge(denied, DENIALS_OF_ONE);
	ck_assert_uint_le(denied, 5 * DENIALS_OF_ONE);
}
END_TEST

START_TEST(each_party_has_its_denials)
{
	static struct denials d;
	struct mono now = MONO_S(100);
	unsigned taken = 0;

	d = (struct denials){ .taken = 0 };
	for (unsigned i = 0; i < 1000; i++)
		taken += denials_take(&d, 1, now);
	ck_assert_uint_eq(taken, DENIALS_OF_ONE);
	/* Many parties fill what all have; of each one the first is still taken. */
	for (uint64_t party = 2; party < 100; party++)
		for (unsigned i = 0; i < 30; i++) {
			bool got = denials_take(&d, party * 0x9e3779b97f4a7c15, now);

			taken += got;
			ck_assert(i > 0 || got);
		}
	ck_assert_uint_le(taken, DENIALS_OF_ALL + 100);
	for (uint64_t party = 1000; party < 10000; party++)
		taken += denials_take(&d, party, now);
	ck_assert_uint_le(taken, DENIALS_OF_ALL + DENIALS_PARTIES_MAX);
	ck_assert(!denials_take(&d, 1, mono_add(now, MONO_MS(999))));
	ck_assert(denials_take(&d, 1, mono_add(now, MONO_MS(1000))));
}
END_TEST

/* From one place to another while lines come. */
START_TEST(places_change)
{
	ck_assert_int_eq(trail_set(trail, TRAIL_FILE, scratch_path("a.log")), TV_OK);
	add(0);
	wait_written(1);
	ck_assert_int_eq(trail_set(trail, TRAIL_FILE, scratch_path("b.log")), TV_OK);
	add(1);
	wait_written(2);
	ck_assert_int_eq(trail_set(trail, TRAIL_OFF, NULL), TV_OK);
	add(2);
	ck_assert_int_eq(trail_set(trail, TRAIL_FILE, scratch_path("a.log")), TV_OK);
	add(1);
	wait_written(3);
	has_lines("a.log", 0, 2);
	has_lines("b.log", 1, 2);
}
END_TEST

int
main(void)
{
	const TTest *const tests[] = {
		a_line, times, what_is_not_known_is_left_out, names_of_a_transaction, hostile_names, long_names_are_cut,
		off_costs_nothing, to_a_file, the_end_waits, rotated, half_a_line, no_file, lines_are_missing,
		a_flood_of_denials, each_party_has_its_denials, places_change,
	};
	Suite *s = suite_create("audit");
	TCase *t = tcase_create("audit");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
