/* A log whose reader does not read: no process waits for it, and what is lost is told. */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "common/base/log.h"

static int reader = -1;
static char text[4 << 20];
static size_t text_len;

/* From here on stderr is a pipe of 4 KiB or a socket whose other end is `reader`.  Our end blocks, as systemd and shells make it. */
static void
begin(bool socket_pair)
{
	int ends[2];

	unsetenv("JOURNAL_STREAM");
	if (socket_pair) {
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	} else {
		ck_assert_int_eq(pipe(ends), 0);
		ck_assert_int_ge(fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
	}
	ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
	close(ends[1]);
	reader = ends[0];
	ck_assert_int_eq(fcntl(reader, F_SETFL, O_NONBLOCK), 0);
	log_init("check", LOG_LVL_INFO, LOG_TO_STDERR);
	alarm(20);		/* a write that waits ends the test */
}

/* What still waits goes nowhere at the end of the process. */
static void
end(void)
{
	ck_assert_int_ge(dup2(open("/dev/null", O_WRONLY), STDERR_FILENO), 0);
}

/* The reader reads all there is, and what waits comes after. */
static void
read_all(void)
{
	size_t before;
	ssize_t n;

	do {
		before = text_len;
		while ((n = read(reader, text + text_len, sizeof(text) - text_len - 1)) > 0)
			text_len += (size_t)n;
		log_flush();
	} while (text_len > before);
	text[text_len] = '\0';
}

static void
log_numbers(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		log_info("x", "number %u, and some text that makes the line longer", i);
}

static char *
expect(char *line, const char *expected)
{
	ck_assert_msg(line != NULL && strstr(line, expected) != NULL, "\"%s\" is not \"%s\"", line, expected);
	return strtok(NULL, "\n");
}

/* Numbers in order from 0 to `count`, then how many were lost, then `last`, and no more. */
static void
expect_lines(unsigned count, uint64_t lost, const char *last)
{
	char *line = strtok(text, "\n"), expected[128];

	for (unsigned i = 0; i < count; i++) {
		snprintf(expected, sizeof(expected), "[INFO] x: number %u, and some text that makes the line longer", i);
		line = expect(line, expected);
	}
	snprintf(expected, sizeof(expected), "[WARN] log: %u lines of this log were lost: its reader did not read",
	    (unsigned)lost);
	if (lost > 0)
		line = expect(line, expected);
	if (last != NULL)
		line = expect(line, last);
	ck_assert_msg(line == NULL, "a line too many: %s", line);
}

/* Far more lines than what is between us and the reader holds. */
static void
overflow(bool socket_pair)
{
	const unsigned lines = 20000;
	uint64_t lost;

	begin(socket_pair);
	log_numbers(lines);
	lost = log_lost();
	ck_assert_uint_gt(lost, 0);
	ck_assert_uint_lt(lost, lines);
	ck_assert_int_ge(log_waiting_fd(), 0);
	read_all();
	ck_assert_int_eq(log_waiting_fd(), -1);
	log_info("x", "the last one");
	read_all();
	expect_lines(lines - (unsigned)lost, lost, "[INFO] x: the last one");
	ck_assert_uint_eq(log_lost(), lost);
	end();
}

START_TEST(a_pipe_that_is_not_read)
{
	overflow(false);
}
END_TEST

START_TEST(a_journal_that_hangs)
{
	overflow(true);
}
END_TEST

START_TEST(a_reader_that_pauses_misses_nothing)
{
	begin(false);
	log_numbers(1000);
	read_all();
	expect_lines(1000, 0, NULL);
	ck_assert_uint_eq(log_lost(), 0);
	end();
}
END_TEST

/* The audit trail has a queue of its own: its line is not taken while others wait, and is not counted. */
START_TEST(a_line_that_is_not_taken)
{
	begin(false);
	ck_assert(log_put("audit", "one"));
	log_numbers(200);
	ck_assert(!log_put("audit", "two"));
	ck_assert_uint_eq(log_lost(), 0);
	read_all();
	ck_assert_ptr_nonnull(strstr(text, "[INFO] audit: one\n"));
	ck_assert_ptr_null(strstr(text, "two"));
	ck_assert(log_put("audit", "two"));
	read_all();
	ck_assert_ptr_nonnull(strstr(text, "[INFO] audit: two\n"));
	end();
}
END_TEST

/* ^S; a shell, the terminal's other user, keeps one that blocks. */
START_TEST(a_stopped_terminal)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;

	ck_assert_int_ge(master, 0);
	ck_assert_int_eq(grantpt(master), 0);
	ck_assert_int_eq(unlockpt(master), 0);
	ck_assert_int_ge(slave = open(ptsname(master), O_RDWR | O_NOCTTY), 0);
	ck_assert_int_ge(dup2(slave, STDERR_FILENO), 0);
	unsetenv("JOURNAL_STREAM");
	log_init("check", LOG_LVL_INFO, LOG_TO_STDERR);
	alarm(20);
	ck_assert_int_eq(tcflow(slave, TCOOFF), 0);
	log_numbers(20000);
	ck_assert_uint_gt(log_lost(), 0);
	ck_assert_int_eq(fcntl(slave, F_GETFL) & O_NONBLOCK, 0);
	end();
}
END_TEST

static void *
log_many(void *name)
{
	for (unsigned i = 0; i < 500; i++)
		log_info("t", "thread %s says %u", (const char *)name, i);
	return NULL;
}

START_TEST(lines_of_threads_do_not_mix)
{
	static char names[4][2] = { "a", "b", "c", "d" };
	pthread_t threads[4];
	unsigned told = 0;
	uint64_t lost = 0;
	regex_t re;

	begin(false);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, log_many, names[i]), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	read_all();
	ck_assert_int_eq(regcomp(&re, "^[^ ]+ \\[INFO\\] t: thread [a-d] says [0-9]+$", REG_EXTENDED | REG_NOSUB), 0);
	for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
		if (strstr(line, "[WARN] log: ") != NULL)
			lost += strtoull(strstr(line, "log: ") + 5, NULL, 10);
		else if (ck_assert_msg(regexec(&re, line, 0, NULL, 0) == 0, "%s", line), true)
			told++;
	ck_assert_uint_eq(told + lost, 2000);
	ck_assert_uint_eq(log_lost(), lost);
	regfree(&re);
	end();
}
END_TEST

/* A process that ends writes what has waited, when there is a reader ... */
static void
run_child(bool read_it)
{
	int status, ends[2];
	ssize_t n;
	pid_t child;

	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_ge(fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
	alarm(20);
	child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		unsetenv("JOURNAL_STREAM");
		log_init("check", LOG_LVL_INFO, LOG_TO_STDERR);
		log_numbers(300);
		exit(0);
	}
	close(ends[1]);
	while (read_it && (n = read(ends[0], text + text_len, sizeof(text) - text_len - 1)) > 0)
		text_len += (size_t)n;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	close(ends[0]);
}

START_TEST(the_end_of_a_process_is_told)
{
	run_child(true);
	expect_lines(300, 0, NULL);
}
END_TEST

/* ... and does not wait for one that does not read. */
START_TEST(the_end_of_a_process_is_an_end)
{
	run_child(false);
}
END_TEST

START_TEST(a_reader_that_is_gone)
{
	signal(SIGPIPE, SIG_IGN);
	begin(false);
	close(reader);
	log_numbers(100);
	ck_assert_uint_eq(log_lost(), 100);
	ck_assert_int_eq(log_waiting_fd(), -1);
	end();
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("log_unread");
	TCase *t = tcase_create("reader");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_pipe_that_is_not_read);
	tcase_add_test(t, a_journal_that_hangs);
	tcase_add_test(t, a_reader_that_pauses_misses_nothing);
	tcase_add_test(t, a_line_that_is_not_taken);
	tcase_add_test(t, a_stopped_terminal);
	tcase_add_test(t, lines_of_threads_do_not_mix);
	tcase_add_test(t, the_end_of_a_process_is_told);
	tcase_add_test(t, the_end_of_a_process_is_an_end);
	tcase_add_test(t, a_reader_that_is_gone);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
