/* Log lines as they leave the process: form, escaping, limits. */
#include <check.h>
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_repeats.h"

static int real_stderr = -1;
static FILE *caught;

/* From here on stderr is a file. */
static void
catch(void)
{
	unsetenv("JOURNAL_STREAM");
	caught = tmpfile();
	ck_assert_ptr_nonnull(caught);
	real_stderr = dup(STDERR_FILENO);
	ck_assert_int_ge(dup2(fileno(caught), STDERR_FILENO), 0);
}

/* What was written, as one string. */
static const char *
release(void)
{
	static char text[65536];
	ssize_t n;

	ck_assert_int_ge(dup2(real_stderr, STDERR_FILENO), 0);
	close(real_stderr);
	n = pread(fileno(caught), text, sizeof(text) - 1, 0);
	ck_assert_int_ge(n, 0);
	text[n] = '\0';
	fclose(caught);
	return text;
}

static void
assert_matches(const char *text, const char *pattern)
{
	regex_t re;

	ck_assert_int_eq(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
	ck_assert_msg(regexec(&re, text, 0, NULL, 0) == 0, "\"%s\" does not match %s", text, pattern);
	regfree(&re);
}

START_TEST(line_has_time_level_and_tag)
{
	catch();
	log_init("check", LOG_LVL_INFO, LOG_TO_STDERR);
	log_info("raft", "Added peer %s, starting replication", "127.0.0.2:8300");
	assert_matches(release(), "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z "
	    "\\[INFO\\] raft: Added peer 127\\.0\\.0\\.2:8300, starting replication\n$");
}
END_TEST

START_TEST(levels_are_kept_apart)
{
	catch();
	log_init("check", LOG_LVL_WARN, LOG_TO_STDERR);
	log_err("a", "one");
	log_warn("a", "two");
	log_info("a", "three");
	log_debug("a", "four");
	assert_matches(release(), "^[^\n]* \\[ERR\\] a: one\n[^\n]* \\[WARN\\] a: two\n$");
	ck_assert(log_enabled(LOG_LVL_WARN));
	ck_assert(!log_enabled(LOG_LVL_INFO));
}
END_TEST

START_TEST(journal_gets_priorities)
{
	char stream[64];
	struct stat st;

	catch();
	ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_init("check", LOG_LVL_DEBUG, LOG_TO_STDERR);
	log_err("x", "e");
	log_warn("x", "w");
	log_info("x", "i");
	log_debug("x", "d");
	ck_assert_str_eq(release(), "<3>[ERR] x: e\n<4>[WARN] x: w\n<6>[INFO] x: i\n<7>[DEBUG] x: d\n");
}
END_TEST

START_TEST(inherited_journal_variable_is_not_believed)
{
	catch();
	setenv("JOURNAL_STREAM", "1:1", 1);
	log_init("check", LOG_LVL_INFO, LOG_TO_STDERR);
	log_info("x", "i");
	assert_matches(release(), "^2[0-9]{3}-");
}
END_TEST

START_TEST(peer_cannot_forge_a_line)
{
	const char *text;

	catch();
	log_init("check", LOG_LVL_INFO, LOG_TO_STDERR);
	log_info("serf", "member \"%s\" joined", "x\n<3>[ERR] raft: forged\r\x1b[2J\x7f\xc2\x9b");
	text = release();
	ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
	ck_assert_ptr_nonnull(strstr(text, "x\\x0a<3>[ERR] raft: forged\\x0d\\x1b[2J\\x7f\\xc2\\x9b"));
}
END_TEST

START_TEST(long_line_is_cut)
{
	char big[9000];
	const char *text;

	memset(big, '\n', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	catch();
	log_init("check", LOG_LVL_INFO, LOG_TO_STDERR);
	log_info("x", "%s", big);
	text = release();
	ck_assert_uint_le(strlen(text), 4096);
	ck_assert_str_eq(text + strlen(text) - 4, "...\n");
}
END_TEST

START_TEST(logging_keeps_errno)
{
	catch();
	log_init("check", LOG_LVL_INFO, LOG_TO_STDERR);
	errno = ENOENT;
	log_info("x", "%m");
	ck_assert_int_eq(errno, ENOENT);
	assert_matches(release(), "No such file or directory\n$");
}
END_TEST

START_TEST(safe_text)
{
	static const struct {
		const char *in;
		size_t len, cap;
		const char *out;
	} rows[] = {
		{ "plain", 5, 64, "plain" },
		{ "a\0b", 3, 64, "a\\x00b" },
		{ "gr\xc3\xbc\xc3\x9f", 6, 64, "gr\xc3\xbc\xc3\x9f" },
		{ "\xe2\x82\xac \xf0\x9f\x90\x9d", 8, 64, "\xe2\x82\xac \xf0\x9f\x90\x9d" },
		{ "\xc0\xaf", 2, 64, "\\xc0\\xaf" },			/* overlong */
		{ "\xed\xa0\x80", 3, 64, "\\xed\\xa0\\x80" },		/* surrogate */
		{ "\xf4\x90\x80\x80", 4, 64, "\\xf4\\x90\\x80\\x80" },	/* above U+10FFFF */
		{ "\xe2\x82", 2, 64, "\\xe2\\x82" },			/* cut short */
		{ "\xe2\x80\xae", 3, 64, "\\xe2\\x80\\xae" },		/* right-to-left override */
		{ "0123456789", 10, 11, "0123456789" },
		{ "0123456789", 10, 10, "012345..." },
		{ "ab\n\n\n", 5, 10, "ab\\x0a..." },
		{ "ab", 2, 2, "." },
		{ "ab", 2, 1, "" },
		{ NULL, 0, 8, "" },
	};
	char dst[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_str_eq(log_safe(span_of(rows[i].in, rows[i].len), dst, rows[i].cap), rows[i].out);
}
END_TEST

START_TEST(limit_lets_a_burst_through)
{
	struct log_limit l = { .burst = 3, .period = MONO_S(3600) };

	catch();
	log_init("check", LOG_LVL_INFO, LOG_TO_STDERR);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(log_allow(&l, "x"), i < 3);
	ck_assert_uint_eq(l.dropped, 7);
	l.since = mono_sub(clock_mono(), MONO_S(3601));	/* as if the period were over */
	ck_assert(log_allow(&l, "x"));
	ck_assert_uint_eq(l.dropped, 0);
	assert_matches(release(), "^[^\n]* \\[WARN\\] x: 7 similar messages were not shown\n$");
}
END_TEST

START_TEST(repeats_once_per_period)
{
	struct log_repeats r = { .period = MONO_S(60) };
	struct mono now = MONO_S(1000);

	for (unsigned round = 0; round < 3; round++) {
		ck_assert(log_repeats_due(&r, 7, now));
		ck_assert_uint_eq(log_repeats_logged(&r, 7, now), round == 0 ? 0 : 119);
		for (int i = 0; i < 119; i++) {		/* two a second */
			now = mono_add(now, MONO_MS(500));
			ck_assert(!log_repeats_due(&r, 7, now));
		}
		ck_assert(log_repeats_due(&r, 8 + round, now));	/* another line is none of these */
		log_repeats_logged(&r, 8 + round, now);
		now = mono_add(now, MONO_MS(500));
	}
	now = mono_add(now, MONO_S(3600));		/* a long silence takes nothing away */
	ck_assert(log_repeats_due(&r, 7, now));
	ck_assert_uint_eq(log_repeats_logged(&r, 7, now), 119);
	now = mono_add(now, MONO_S(60));
	ck_assert(log_repeats_due(&r, 7, now));
	ck_assert_uint_eq(log_repeats_logged(&r, 7, now), 0);
}
END_TEST

/* A line that was due and was not logged after all, for another reason, stays due. */
START_TEST(repeats_wait_for_the_line)
{
	struct log_repeats r = { .period = MONO_S(60) };

	ck_assert(log_repeats_due(&r, 1, MONO_S(5)));
	ck_assert(log_repeats_due(&r, 1, MONO_S(6)));
	ck_assert_uint_eq(log_repeats_logged(&r, 1, MONO_S(6)), 0);
	ck_assert(!log_repeats_due(&r, 1, MONO_S(7)));
}
END_TEST

/* Strangers push out lines, the oldest first; the table does not grow, and none of it is wrong. */
START_TEST(repeats_are_bounded)
{
	struct log_repeats r = { .period = MONO_S(60) };

	for (uint64_t key = 0; key < LOG_REPEATS_MAX; key++)
		ck_assert_uint_eq(log_repeats_logged(&r, key, MONO_MS(1000 + key)), 0);
	ck_assert(!log_repeats_due(&r, 0, MONO_S(2)));
	ck_assert_uint_eq(log_repeats_logged(&r, 1000, MONO_S(2)), 0);
	ck_assert(log_repeats_due(&r, 0, MONO_S(2)));		/* the oldest made room */
	for (uint64_t key = 1; key < LOG_REPEATS_MAX; key++)
		ck_assert(!log_repeats_due(&r, key, MONO_S(2)));
	ck_assert(!log_repeats_due(&r, 1000, MONO_S(2)));
}
END_TEST

START_TEST(clocks_run_forward)
{
	struct mono a = clock_mono(), b = clock_mono();

	ck_assert(!mono_before(b, a));
	ck_assert_int_gt(clock_wall_ns(), INT64_C(1600000000) * 1000000000);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("log");
	TCase *t = tcase_create("lines");
	SRunner *r;
	int failed;

	tcase_add_test(t, line_has_time_level_and_tag);
	tcase_add_test(t, levels_are_kept_apart);
	tcase_add_test(t, journal_gets_priorities);
	tcase_add_test(t, inherited_journal_variable_is_not_believed);
	tcase_add_test(t, peer_cannot_forge_a_line);
	tcase_add_test(t, long_line_is_cut);
	tcase_add_test(t, logging_keeps_errno);
	tcase_add_test(t, safe_text);
	tcase_add_test(t, limit_lets_a_burst_through);
	tcase_add_test(t, repeats_once_per_period);
	tcase_add_test(t, repeats_wait_for_the_line);
	tcase_add_test(t, repeats_are_bounded);
	tcase_add_test(t, clocks_run_forward);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
