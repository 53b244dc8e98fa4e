/* Log lines for those who listen: from any thread, bounded, over a channel; and nothing while nobody does. */
#include <pthread.h>

#include "common/net/monitor.h"
#include "common/net/msg.h"
#include "rpcd/node/log_streams.h"
#include "tests/unit/chan_world.h"

#define AREA_CAP 8192

static struct ev_loop *loop;
static struct logtap *tap;

static struct heard {
	unsigned lines, lost_lines;
	uint64_t lost;
	enum log_level worst;
	char last[128];
	struct logtap_reader *remove;	/* when the first line comes */
} heard;

static void
take(struct heard *h, const struct log_line *line)
{
	unsigned long long lost;

	h->lines++;
	if (line->level > h->worst)
		h->worst = line->level;
	snprintf(h->last, sizeof(h->last), "%s: %.100s", line->area, line->text);
	ck_assert_int_gt(line->wall_ms, 1600000000000);
	if (strcmp(line->area, "monitor") != 0)
		return;
	ck_assert_int_eq(sscanf(line->text, "%llu lines were lost", &lost), 1);
	h->lines--;
	h->lost_lines++;
	h->lost += lost;
}

static void
on_line(void *ctx, const struct log_line *line)
{
	struct heard *h = ctx;

	take(h, line);
	logtap_remove(h->remove);
	h->remove = NULL;
}

static void
setup(void)
{
	loop = world_loop();
	memset(&heard, 0, sizeof(heard));
	tap = logtap_new(loop);
	ck_assert_ptr_nonnull(tap);
}

static void
teardown(void)
{
	logtap_free(tap);
	ev_loop_destroy(loop);
}

START_TEST(nothing_while_nobody_listens)
{
	struct logtap_reader *r;

	ck_assert(!log_enabled(LOG_LVL_DEBUG));
	log_debug("x", "unheard");
	r = logtap_add(tap, LOG_LVL_DEBUG, on_line, &heard);
	ck_assert(log_enabled(LOG_LVL_DEBUG));
	log_debug("x", "a\nb %d", 7);		/* not written: the log's own level is ERR */
	UNTIL_QUIET(loop, heard.lines == 1);
	ck_assert_str_eq(heard.last, "x: a\\x0ab 7");
	logtap_remove(r);
	ck_assert(!log_enabled(LOG_LVL_DEBUG));
	log_debug("x", "unheard");
	world_settle(loop);
	ck_assert_uint_eq(heard.lines, 1);
}
END_TEST

START_TEST(each_reader_its_level)
{
	struct heard few = { .lines = 0 };
	struct logtap_reader *all = logtap_add(tap, LOG_LVL_DEBUG, on_line, &heard);
	struct logtap_reader *some = logtap_add(tap, LOG_LVL_WARN, on_line, &few);

	heard.remove = some;		/* removed by another's callback: it may have heard the first line */
	log_debug("x", "1");
	log_warn("x", "2");
	UNTIL_QUIET(loop, heard.lines == 2);
	ck_assert_uint_eq(few.lines, 0);
	some = logtap_add(tap, LOG_LVL_WARN, on_line, &few);
	log_info("x", "3");
	log_warn("x", "4");
	UNTIL_QUIET(loop, heard.lines == 4);
	ck_assert_uint_eq(few.lines, 1);
	ck_assert_int_eq(few.worst, LOG_LVL_WARN);
	logtap_remove(all);
	logtap_remove(some);
	logtap_remove(NULL);
}
END_TEST

static void *
chatter(void *ctx)
{
	(void)ctx;
	for (int i = 0; i < 200; i++)
		log_debug("thread", "line %d", i);
	return NULL;
}

START_TEST(from_any_thread)
{
	struct logtap_reader *r = logtap_add(tap, LOG_LVL_DEBUG, on_line, &heard);
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, chatter, NULL), 0);
	UNTIL(loop, heard.lines == 600);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_eq(heard.lost, 0);
	logtap_remove(r);
}
END_TEST

START_TEST(a_flood_is_bounded_and_told)
{
	struct logtap_reader *r = logtap_add(tap, LOG_LVL_DEBUG, on_line, &heard);
	const unsigned count = 20000;

	for (unsigned i = 0; i < count; i++)
		log_debug("x", "%-100u", i);	/* the loop does not run meanwhile */
	world_settle(loop);
	ck_assert_uint_gt(heard.lost, 0);
	ck_assert_uint_eq(heard.lines + heard.lost, count);
	ck_assert_uint_eq(heard.lost_lines, 1);
	logtap_remove(r);
}
END_TEST

/* -- over a channel -- */

static struct {
	struct monitor *m;
	struct chan *chan;
	enum tv_err err;
} served;

static enum tv_err
on_question(void *ctx, struct chan *c, const struct frame *f)
{
	(void)ctx;
	ck_assert_uint_eq(f->type, MSG_MONITOR);
	served.chan = c;
	return served.err = monitor_serve(&served.m, tap, c, f->body);
}

static void
on_closed(void *ctx, struct chan *c, enum tv_err why)
{
	(void)ctx;
	(void)c;
	(void)why;
	monitor_stop(served.m);
	served.m = NULL;
	served.chan = NULL;
}

static enum tv_err
on_log(void *ctx, struct chan *c, const struct frame *f)
{
	char area[AREA_CAP], text[AREA_CAP];
	struct log_line line;

	(void)ctx;
	(void)c;
	ck_assert_uint_eq(f->type, MSG_LOG);
	ck_assert_int_eq(monitor_read(f->body, &line, area, text, sizeof(text)), TV_OK);
	take(&heard, &line);
	return TV_OK;
}

static void
on_gone(void *ctx, struct chan *c, enum tv_err why)
{
	(void)ctx;
	(void)c;
	(void)why;
}

static struct chan *
open_pair(void)
{
	static const struct chan_events server = { on_question, NULL, on_closed }, client = { on_log, NULL, on_gone };
	struct chan_conf conf = { .loop = loop, .events = &server, .name = "server", .body_max = 1 << 16,
		.out_max = 16 << 20 };
	int fds[2];

	world_pair(SOCK_STREAM, fds);
	memset(&served, 0, sizeof(served));
	served.chan = chan_new(fds[0], &conf);
	conf.events = &client;
	conf.name = "client";
	conf.initiator = true;
	struct chan *c = chan_new(fds[1], &conf);
	ck_assert(served.chan != NULL && c != NULL);
	return c;
}

START_TEST(a_slow_reader_is_told_what_it_missed)
{
	struct chan *c = open_pair();
	unsigned count = 0;

	monitor_ask(c, LOG_LVL_DEBUG);
	UNTIL(loop, served.m != NULL);
	chan_pause(c, true);
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 100; i++)
			log_debug("x", "%-100u", count++);
		world_settle(loop);
	}
	ck_assert_uint_le(chan_pending(served.chan), 512 << 10);
	chan_pause(c, false);
	UNTIL(loop, chan_pending(served.chan) == 0);
	log_debug("x", "last %u", count++);
	UNTIL(loop, heard.lines + heard.lost == count);
	ck_assert_uint_gt(heard.lost, 0);
	ck_assert_uint_ge(heard.lost_lines, 1);
	monitor_ask(c, LOG_LVL_ERR);		/* another question changes the level */
	world_settle(loop);
	ck_assert(!log_enabled(LOG_LVL_DEBUG));
	chan_free(c);
	UNTIL(loop, served.chan == NULL);
	ck_assert_int_eq(served.err, TV_OK);
}
END_TEST

START_TEST(malformed_questions_and_lines)
{
	static const uint8_t bad[][3] = { { 0x90 }, { 0x91, 9 }, { 0x91, 1, 1 } };
	static const uint8_t escape[] = { 0x94, 1, 1, 0xa1, '\n', 0xa2, 0x1b, 'x' };
	char area[16], text[16];
	struct log_line line;

	for (size_t i = 0; i < 3; i++) {
		struct monitor *m = NULL;

		ck_assert_int_eq(monitor_serve(&m, tap, NULL, span_of(bad[i], i + 1)), TV_EFORMAT);
		ck_assert_ptr_null(m);
	}
	ck_assert_int_eq(monitor_read(span_of(escape, sizeof(escape)), &line, area, text, sizeof(text)), TV_OK);
	ck_assert_str_eq(line.area, "\\x0a");
	ck_assert_str_eq(line.text, "\\x1bx");
	for (size_t n = 0; n < sizeof(escape); n++)
		ck_assert_int_ne(monitor_read(span_of(escape, n), &line, area, text, sizeof(text)), TV_OK);
	monitor_stop(NULL);
}
END_TEST

/* -- for a client of the API -- */

static unsigned woken;

static void
on_wake(void *ctx)
{
	(void)ctx;
	woken++;
}

/* Reads all that is there in small pieces; how many lines, and how many are told as lost. */
static unsigned
read_all(struct log_stream *w, uint64_t *lost, bool json)
{
	struct buf text = BUF_INIT(1 << 20);
	unsigned lines = 0;
	char piece[1000];
	size_t n;

	while ((n = log_stream_read(w, piece, sizeof(piece))) > 0)
		buf_put(&text, piece, n);
	buf_u8(&text, '\0');
	for (char *at = (char *)text.data, *end; *at != '\0'; at = end + 1) {
		end = strchr(at, '\n');
		ck_assert_ptr_nonnull(end);		/* whole lines only */
		*end = '\0';
		char *told = strstr(at, "[WARN] monitor: ");
		ck_assert_ptr_nonnull(strstr(at, json ? "{\"@level\":\"" : " rpcd ["));
		if (told != NULL)
			*lost += strtoull(told + strlen("[WARN] monitor: "), NULL, 10);
		else
			lines++;
	}
	buf_done(&text);
	return lines;
}

START_TEST(a_slow_client_is_told_what_it_missed)
{
	struct log_streams_conf conf = { .loop = loop, .gossipd_path = "/nowhere", .node_id = "" };
	unsigned count = 0, lines;
	uint64_t lost = 0;
	enum tv_err err;

	logtap_free(tap);			/* it brings its own */
	tap = NULL;
	woken = 0;
	struct log_streams *m = log_streams_new(&conf);
	struct log_stream *w = log_stream_start(m, LOG_LVL_DEBUG, LOG_STREAM_RPCD, false, on_wake, NULL, &err);
	ck_assert_ptr_nonnull(w);
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 100; i++)
			log_debug("x", "%-100u", count++);
		world_settle(loop);
	}
	ck_assert_uint_eq(woken, 1);
	lines = read_all(w, &lost, false);
	log_debug("x", "%u", count++);
	world_settle(loop);
	ck_assert_uint_eq(woken, 2);
	lines += read_all(w, &lost, false);
	ck_assert_uint_gt(lost, 0);
	ck_assert_uint_eq(lines + lost, count);
	log_stream_stop(w);
	log_streams_free(m);
}
END_TEST

START_TEST(clients_are_limited_and_may_want_json)
{
	struct log_streams_conf conf = { .loop = loop, .gossipd_path = "/nowhere", .node_id = "" };
	struct log_stream *w[LOG_STREAMS_MAX];
	uint64_t lost = 0;
	enum tv_err err;

	logtap_free(tap);
	tap = NULL;
	struct log_streams *m = log_streams_new(&conf);
	for (unsigned i = 0; i < LOG_STREAMS_MAX; i++)
		w[i] = log_stream_start(m, LOG_LVL_INFO, LOG_STREAM_ALL, true, on_wake, NULL, &err);
	ck_assert_ptr_null(log_stream_start(m, LOG_LVL_INFO, LOG_STREAM_ALL, true, on_wake, NULL, &err));
	ck_assert_int_eq(err, TV_ELIMIT);
	log_debug("x", "not wanted");
	for (int i = 0; i < 3; i++)		/* at ERR nothing is written */
		log_info("x", "\"quoted\"");
	world_settle(loop);
	for (unsigned i = 0; i < LOG_STREAMS_MAX; i++) {
		ck_assert_uint_eq(read_all(w[i], &lost, true), 3);
		log_stream_stop(w[i]);
	}
	log_streams_free(m);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("monitor");
	TCase *t = tcase_create("all");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, nothing_while_nobody_listens);
	tcase_add_test(t, each_reader_its_level);
	tcase_add_test(t, from_any_thread);
	tcase_add_test(t, a_flood_is_bounded_and_told);
	tcase_add_test(t, a_slow_reader_is_told_what_it_missed);
	tcase_add_test(t, malformed_questions_and_lines);
	tcase_add_test(t, a_slow_client_is_told_what_it_missed);
	tcase_add_test(t, clients_are_limited_and_may_want_json);
	suite_add_tcase(s, t);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
