/* HTTP/2 without sockets, against a client of libnghttp2 in memory, and against frames made by hand. */
#include <check.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "rpcd/http/h2_session.h"
#include "tests/fault/alloc.h"

#define HEAD_MAX 4096
#define STREAMS_MAX 3000

/* -- the owner of the server's side -------------------------------------------- */

struct asked {
	struct h2_stream st;
	char line[128], why[128];
	unsigned status;		/* of a head that was refused */
	uint64_t length;
	uint8_t framing;
	struct buf body;
	bool whole;			/* the body has ended */
	size_t sent;
};

struct world {
	struct h2 *h2;
	struct h2_session *s;
	nghttp2_session *client;
	struct mono now;
	size_t step;			/* bytes of input at a time */
	bool poor;			/* memory may fail */
	bool over;
	/* the server's */
	struct asked *last;		/* alive */
	unsigned requests, refused, closed, closed_whole;
	bool answers;			/* each at once */
	size_t answer, ready;		/* bytes of its body, and how many there are so far */
	size_t takes;			/* bytes of bodies */
	const char *trailer;
	/* the client's */
	unsigned status, closes, informed;
	uint32_t code;			/* of the last close */
	size_t got;
	char fields[2048];
	bool goaway;
	uint32_t goaway_code;
};

static struct world w;

/* As ck_assert(), which allocates. */
static void
must(bool holds)
{
	if (!holds)
		abort();
}

static void
answer_head(struct h2_stream *st, bool body)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nX-Consul-Index: 7\r\nConnection: close\r\n"
	    "Transfer-Encoding: chunked\r\nContent-Type: text/plain\r\n\r\nno line of it";

	if (!h2_answer(st, span_str(head), body)) {
		must(w.poor);
		h2_reset(st, H2_INTERNAL_ERROR);
	}
}

static void
on_request(void *ctx UNUSED, struct h2_stream *st, enum http_scanned scanned, const struct http_head *head,
    const uint8_t *bytes, bool body)
{
	struct asked *a = (struct asked *)(void *)st;

	w.last = a;
	w.requests++;
	buf_init(&a->body, 1 << 20);
	if (scanned == HTTP_BAD) {
		w.refused++;
		a->status = head->status;
		snprintf(a->why, sizeof(a->why), "%s", head->why);
	} else {
		must(scanned == HTTP_DONE);
		snprintf(a->line, sizeof(a->line), "%.*s %.*s %.*s", (int)head->method.len,
		    (const char *)bytes + head->method.at, (int)head->target.len,
		    (const char *)bytes + head->target.at, (int)head->host.len,
		    (const char *)bytes + head->host.at);
		a->framing = head->framing;
		a->length = head->length;
	}
	a->whole = !body;
	if (w.answers)
		answer_head(st, w.answer > 0);
}

static size_t
on_body(void *ctx UNUSED, struct h2_stream *st, const uint8_t *bytes, size_t n)
{
	struct asked *a = (struct asked *)(void *)st;
	size_t took = n < w.takes ? n : w.takes;

	w.takes -= took;
	buf_put(&a->body, bytes, took);
	return took;
}

static void
on_body_end(void *ctx UNUSED, struct h2_stream *st)
{
	struct asked *a = (struct asked *)(void *)st;

	must(!a->whole);
	a->whole = true;
}

static ssize_t
on_read(void *ctx UNUSED, struct h2_stream *st, uint8_t *dst, size_t room, bool *end)
{
	struct asked *a = (struct asked *)(void *)st;
	size_t n = w.ready - a->sent < room ? w.ready - a->sent : room;

	if (w.answer == SIZE_MAX && a->sent == w.ready)
		return -1;
	memset(dst, 'a', n);
	a->sent += n;
	*end = a->sent == w.answer;
	if (*end && w.trailer != NULL)
		h2_trailer(st, span_str(w.trailer));
	return (ssize_t)n;
}

static void
on_closed(void *ctx UNUSED, struct h2_stream *st, bool whole)
{
	struct asked *a = (struct asked *)(void *)st;

	buf_done(&a->body);
	w.closed++;
	w.closed_whole += whole;
	if (w.last == a)
		w.last = NULL;
}

static const struct h2_calls calls = { on_request, on_body, on_body_end, on_read, on_closed };

/* -- the client ------------------------------------------------------------------- */

static int
client_header(nghttp2_session *ng UNUSED, const nghttp2_frame *f, const uint8_t *name, size_t name_len,
    const uint8_t *value, size_t value_len, uint8_t flags UNUSED, void *ctx UNUSED)
{
	size_t n = strlen(w.fields);

	if (name_len == 7 && memcmp(name, ":status", 7) == 0) {
		w.status = (unsigned)strtoul((const char *)value, NULL, 10);
		w.informed += w.status == 100;
	}
	snprintf(w.fields + n, sizeof(w.fields) - n, "%s%.*s=%.*s\n",
	    f->headers.cat == NGHTTP2_HCAT_HEADERS ? "+" : "", (int)name_len, (const char *)name, (int)value_len,
	    (const char *)value);
	return 0;
}

static int
client_data(nghttp2_session *ng UNUSED, uint8_t flags UNUSED, int32_t id UNUSED, const uint8_t *bytes UNUSED, size_t n,
    void *ctx UNUSED)
{
	w.got += n;
	return 0;
}

static int
client_close(nghttp2_session *ng UNUSED, int32_t id UNUSED, uint32_t code, void *ctx UNUSED)
{
	w.closes++;
	w.code = code;
	return 0;
}

static int
client_frame(nghttp2_session *ng UNUSED, const nghttp2_frame *f, void *ctx UNUSED)
{
	if (f->hd.type == NGHTTP2_GOAWAY) {
		w.goaway = true;
		w.goaway_code = f->goaway.error_code;
	}
	return 0;
}

/* no_windows: it gives back no room for what it has read. */
static void
client_new(bool no_windows)
{
	nghttp2_session_callbacks *c;
	nghttp2_option *o;

	ck_assert_int_eq(nghttp2_session_callbacks_new(&c), 0);
	ck_assert_int_eq(nghttp2_option_new(&o), 0);
	nghttp2_session_callbacks_set_on_header_callback(c, client_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, client_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(c, client_close);
	nghttp2_session_callbacks_set_on_frame_recv_callback(c, client_frame);
	nghttp2_option_set_no_auto_window_update(o, no_windows);
	nghttp2_option_set_peer_max_concurrent_streams(o, 100000);
	nghttp2_option_set_no_http_messaging(o, 1);
	ck_assert_int_eq(nghttp2_session_client_new2(&w.client, c, NULL, o), 0);
	nghttp2_session_callbacks_del(c);
	nghttp2_option_del(o);
	ck_assert_int_eq(nghttp2_submit_settings(w.client, 0, NULL, 0), 0);
}

static void
world_begin(bool with_client, bool no_windows)
{
	memset(&w, 0, sizeof(w));
	w.now = MONO_S(1000);
	w.step = SIZE_MAX;
	w.takes = SIZE_MAX;
	w.h2 = h2_new(&(struct h2_conf){ .calls = &calls, .stream_bytes = sizeof(struct asked),
	    .head_bytes_max = HEAD_MAX });
	ck_assert_ptr_nonnull(w.h2);
	w.s = h2_session_new(w.h2, NULL, STREAMS_MAX, w.now);
	ck_assert_ptr_nonnull(w.s);
	if (with_client)
		client_new(no_windows);
}

static void
world_end(void)
{
	h2_session_free(w.s);
	ck_assert_uint_eq(w.closed, w.requests);
	h2_free(w.h2);
	if (w.client != NULL)
		nghttp2_session_del(w.client);
}

/* To the server, each piece in memory of its own. */
static bool
feed(const uint8_t *bytes, size_t n)
{
	bool fine = true;

	for (size_t at = 0; at < n && fine; ) {
		size_t len = n - at < w.step ? n - at : w.step;
		uint8_t *copy = malloc(len);

		ck_assert_ptr_nonnull(copy);
		memcpy(copy, bytes + at, len);
		fine = h2_input(w.s, copy, len, w.now);
		free(copy);
		at += len;
	}
	return fine;
}

/* What the server has to say, to the client. */
static size_t
drain(void)
{
	uint8_t out[1000];
	size_t n, all = 0;

	while ((n = h2_output(w.s, out, sizeof(out))) > 0) {
		all += n;
		if (w.client != NULL)
			ck_assert_int_eq(nghttp2_session_mem_recv(w.client, out, n), (ssize_t)n);
	}
	ck_assert(!h2_has_output(w.s));
	return all;
}

static void
pump(void)
{
	for (bool moved = true; moved; ) {
		const uint8_t *p;
		ssize_t n;

		moved = false;
		while ((n = nghttp2_session_mem_send(w.client, &p)) > 0) {
			moved = true;
			if (!w.over)
				w.over = !feed(p, (size_t)n);
		}
		moved = drain() > 0 || moved;
	}
}

#define NV(name_, value_) { (uint8_t *)(uintptr_t)(name_), (uint8_t *)(uintptr_t)(value_), strlen(name_), \
	strlen(value_), NGHTTP2_NV_FLAG_NONE }

static size_t body_left;

static ssize_t
client_body(nghttp2_session *ng UNUSED, int32_t id UNUSED, uint8_t *dst, size_t room, uint32_t *flags,
    nghttp2_data_source *from UNUSED, void *ctx UNUSED)
{
	size_t n = body_left < room ? body_left : room;

	memset(dst, 'b', n);
	body_left -= n;
	if (body_left == 0)
		*flags = NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

/* body: SIZE_MAX: none.  extra: one field more. */
static int32_t
ask(const char *method, const char *path, size_t body, const char *name, const char *value)
{
	nghttp2_nv nv[] = { NV(":method", method), NV(":scheme", "https"), NV(":authority", "one:8501"),
	    NV(":path", path), NV(name == NULL ? "accept" : name, name == NULL ? "*/*" : value) };
	nghttp2_data_provider from = { .read_callback = client_body };
	int32_t id;

	body_left = body;
	id = nghttp2_submit_request(w.client, NULL, nv, 5, body == SIZE_MAX ? NULL : &from, NULL);
	ck_assert_int_gt(id, 0);
	return id;
}

/* -- frames by hand ------------------------------------------------------------------ */

static struct buf raw;

static void
put_frame(uint8_t type, uint8_t flags, uint32_t id, const void *payload, size_t n)
{
	buf_u8(&raw, (uint8_t)(n >> 16));
	buf_u16be(&raw, (uint16_t)n);
	buf_u8(&raw, type);
	buf_u8(&raw, flags);
	buf_u32be(&raw, id);
	buf_put(&raw, payload, n);
}

static void
raw_begin(void)
{
	buf_init(&raw, 64 << 20);
	buf_puts(&raw, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	put_frame(NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

/* A field that is in no table; both shorter than 127 bytes. */
static size_t
literal(uint8_t *to, const char *name, const char *value)
{
	size_t n = strlen(name), v = strlen(value);

	to[0] = 0;
	to[1] = (uint8_t)n;
	memcpy(to + 2, name, n);
	to[2 + n] = (uint8_t)v;
	memcpy(to + 3 + n, value, v);
	return 3 + n + v;
}

/* GET https / of this authority (NULL: none), and one field more. */
static void
put_request(uint32_t id, const char *authority, const char *name, const char *value, uint8_t flags)
{
	uint8_t block[512] = { 0x82, 0x87, 0x84 };
	size_t n = 3;

	if (authority != NULL)
		n += literal(block + n, ":authority", authority);
	if (name != NULL)
		n += literal(block + n, name, value);
	put_frame(NGHTTP2_HEADERS, flags, id, block, n);
}

#define WHOLE (NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM)

/* Feeds what was made, with what the server says read from time to time.  How many bytes were taken. */
static bool
feed_raw(void)
{
	bool fine = true;

	for (size_t at = 0; at < raw.len && fine; at += 16000) {
		fine = feed(raw.data + at, raw.len - at < 16000 ? raw.len - at : 16000);
		(void)drain();
	}
	buf_done(&raw);
	return fine;
}

/* -- requests ----------------------------------------------------------------------- */

START_TEST(request_and_answer)
{
	static const size_t steps[] = { 1, 2, 7, SIZE_MAX };

	world_begin(true, false);
	w.step = steps[_i];
	w.answers = true;
	ask("GET", "/v1/kv/a?index=7", SIZE_MAX, NULL, NULL);
	pump();
	ck_assert_uint_eq(w.requests, 1);
	ck_assert_uint_eq(w.status, 200);
	ck_assert_uint_eq(w.closes, 1);
	ck_assert_uint_eq(w.code, NGHTTP2_NO_ERROR);
	ck_assert_uint_eq(w.closed_whole, 1);
	ck_assert_str_eq(w.fields, ":status=200\nx-consul-index=7\ncontent-type=text/plain\n");
	ck_assert(!h2_is_over(w.s));
	nghttp2_submit_goaway(w.client, 0, 0, NGHTTP2_NO_ERROR, NULL, 0);
	pump();
	ck_assert(h2_is_over(w.s));
	world_end();
}
END_TEST

START_TEST(head_is_read_as_of_http_1)
{
	world_begin(true, false);
	ask("PUT", "/v1/kv/a%20b?cas=0", 5, "content-length", "5");
	pump();
	ck_assert_str_eq(w.last->line, "PUT /v1/kv/a%20b?cas=0 one:8501");
	ck_assert_int_eq(w.last->framing, HTTP_LENGTH);
	ck_assert_uint_eq(w.last->length, 5);
	ck_assert(w.last->whole);
	ck_assert(span_eqs(buf_span(&w.last->body), "bbbbb"));
	ask("PUT", "/", 3, NULL, NULL);
	pump();
	ck_assert_int_eq(w.last->framing, HTTP_CHUNKED);
	ck_assert(span_eqs(buf_span(&w.last->body), "bbb"));
	ask("DELETE", "/", SIZE_MAX, NULL, NULL);
	pump();
	ck_assert_int_eq(w.last->framing, HTTP_NO_BODY);
	ck_assert(w.last->whole);
	world_end();
}
END_TEST

START_TEST(body_that_is_not_taken_is_not_acknowledged)
{
	world_begin(true, false);
	w.takes = 1000;
	ask("PUT", "/", 2 << 20, NULL, NULL);
	pump();
	ck_assert_uint_eq(w.last->body.len, 1000);
	/* What was sent is what the window holds, and no more. */
	ck_assert_uint_ge(body_left, (2 << 20) - H2_STREAM_WINDOW - 1000);
	ck_assert(!w.last->whole);
	for (unsigned i = 0; i < 100 && !w.last->whole; i++) {
		w.takes = 50000;
		h2_body_ready(&w.last->st);
		pump();
		if (w.last->body.len > 900000) {
			buf_done(&w.last->body);
			buf_init(&w.last->body, 4 << 20);
		}
	}
	ck_assert(w.last->whole);
	ck_assert_uint_eq(body_left, 0);
	world_end();
}
END_TEST

/* Byte by byte, and each one is there when it is asked for. */
START_TEST(small_frames_are_kept)
{
	static const size_t takes[] = { 1, 700, 1300, 1999, 2999, 4000 };
	struct asked *a;

	world_begin(false, false);
	w.takes = 0;
	raw_begin();
	put_request(1, "one", NULL, NULL, NGHTTP2_FLAG_END_HEADERS);
	ck_assert(feed_raw());
	a = w.last;
	for (unsigned i = 0; i < 4; i++) {
		buf_init(&raw, 1 << 20);
		for (unsigned j = 0; j < 1000; j++) {
			uint8_t byte = (uint8_t)((i * 1000 + j) % 251);

			put_frame(NGHTTP2_DATA, i == 3 && j == 999 ? NGHTTP2_FLAG_END_STREAM : 0, 1, &byte, 1);
		}
		ck_assert(feed_raw());
		w.takes = takes[i] - a->body.len;
		h2_body_ready(&a->st);
		ck_assert_uint_eq(a->body.len, takes[i]);
		w.takes = 0;
	}
	for (unsigned i = 4; i < 6; i++) {
		ck_assert(!a->whole);
		w.takes = takes[i] - a->body.len;
		h2_body_ready(&a->st);
	}
	ck_assert(a->whole);
	ck_assert_uint_eq(a->body.len, 4000);
	for (unsigned i = 0; i < 4000; i++)
		ck_assert_uint_eq(a->body.data[i], i % 251);
	world_end();
}
END_TEST

START_TEST(connection_window_comes_back_when_a_stream_ends)
{
	world_begin(true, false);
	/* More than the connection's window, none of which is taken. */
	for (unsigned i = 0; i < 12; i++) {
		w.takes = 0;
		ask("PUT", "/", H2_STREAM_WINDOW - 1, NULL, NULL);
		pump();
		ck_assert_uint_eq(body_left, 0);
		h2_reset(&w.last->st, H2_CANCEL);
		pump();
		ck_assert_uint_eq(w.closed, i + 1);
		ck_assert_uint_eq(w.code, NGHTTP2_CANCEL);
	}
	ck_assert_uint_eq(w.closed_whole, 0);
	world_end();
}
END_TEST

START_TEST(answer_comes_as_it_is_made)
{
	world_begin(true, false);
	w.answers = true;
	w.answer = 300000;
	w.ready = 10;
	w.trailer = "grpc-status: 0\r\nX-Sum: 1\r\n";
	ask("GET", "/", SIZE_MAX, NULL, NULL);
	pump();
	ck_assert_uint_eq(w.got, 10);
	ck_assert_uint_eq(w.closes, 0);
	w.ready = 200000;
	h2_answer_ready(&w.last->st);
	h2_answer_ready(&w.last->st);
	pump();
	ck_assert_uint_eq(w.got, 200000);
	w.ready = w.answer;
	h2_answer_ready(&w.last->st);
	pump();
	ck_assert_uint_eq(w.got, 300000);
	ck_assert_uint_eq(w.closes, 1);
	ck_assert_uint_eq(w.closed_whole, 1);
	ck_assert_ptr_nonnull(strstr(w.fields, "+grpc-status=0\n+x-sum=1\n"));
	world_end();
}
END_TEST

START_TEST(answer_that_breaks_off_resets_the_stream)
{
	world_begin(true, false);
	w.answers = true;
	w.answer = SIZE_MAX;
	w.ready = 10;
	ask("GET", "/", SIZE_MAX, NULL, NULL);
	pump();
	ck_assert_uint_eq(w.got, 10);
	ck_assert_uint_eq(w.code, NGHTTP2_INTERNAL_ERROR);
	ck_assert_uint_eq(w.closed, 1);
	ck_assert_uint_eq(w.closed_whole, 0);
	ask("GET", "/", SIZE_MAX, NULL, NULL);		/* the connection goes on */
	pump();
	ck_assert_uint_eq(w.requests, 2);
	world_end();
}
END_TEST

START_TEST(early_answer_ends_the_upload)
{
	world_begin(true, false);
	w.takes = 0;
	w.answers = true;
	ask("PUT", "/", 4 << 20, NULL, NULL);
	pump();
	ck_assert_uint_eq(w.status, 200);
	ck_assert_uint_eq(w.code, NGHTTP2_NO_ERROR);
	ck_assert_uint_eq(w.closes, 1);
	ck_assert_uint_eq(w.closed_whole, 1);
	/* Not at once: what is on its way is read. */
	ck_assert_uint_lt(body_left, 3 << 20);
	ck_assert_uint_gt(body_left, 2 << 20);
	ck_assert_uint_eq(h2_stats(w.h2)->resets, 0);
	world_end();
}
END_TEST

START_TEST(continues_when_asked)
{
	world_begin(true, false);
	ask("PUT", "/", 4, "expect", "100-continue");
	pump();
	h2_continue(&w.last->st);
	pump();
	ck_assert_uint_eq(w.informed, 1);
	answer_head(&w.last->st, false);
	pump();
	ck_assert_uint_eq(w.status, 200);
	ck_assert_uint_eq(w.closed_whole, 1);
	world_end();
}
END_TEST

START_TEST(thousands_wait_and_are_answered)
{
	world_begin(true, false);
	for (unsigned i = 0; i < STREAMS_MAX; i++)
		ask("GET", "/v1/kv/a?index=7", SIZE_MAX, NULL, NULL);
	pump();
	ck_assert_uint_eq(w.requests, STREAMS_MAX);
	ck_assert_uint_eq(h2_streams(w.s), STREAMS_MAX);
	ck_assert(!h2_is_full(w.s));
	w.answer = w.ready = 100;
	for (int32_t id = 1; id < 2 * STREAMS_MAX; id += 2) {
		w.fields[0] = '\0';
		ask("GET", "/v1/kv/a?index=7", SIZE_MAX, NULL, NULL);	/* waits until one has gone */
		answer_head(&w.last->st, true);
		pump();
	}
	ck_assert_uint_eq(w.closed_whole, STREAMS_MAX);
	ck_assert_uint_eq(w.got, STREAMS_MAX * 100);
	ck_assert_uint_eq(h2_stats(w.h2)->refused, 0);
	world_end();
	ck_assert_uint_eq(w.closed, 2 * STREAMS_MAX);
}
END_TEST

START_TEST(reset_cancels)
{
	int32_t id;

	world_begin(true, false);
	id = ask("GET", "/v1/kv/a?index=7", SIZE_MAX, NULL, NULL);
	pump();
	nghttp2_submit_rst_stream(w.client, 0, id, NGHTTP2_CANCEL);
	pump();
	ck_assert_uint_eq(w.closed, 1);
	ck_assert_uint_eq(w.closed_whole, 0);
	ck_assert_uint_eq(h2_stats(w.h2)->resets, 1);
	ck_assert_uint_eq(h2_streams(w.s), 0);
	world_end();
}
END_TEST

/* -- heads that are refused ------------------------------------------------------------ */

static void
refused_head(unsigned status, const char *why)
{
	ck_assert(feed_raw());
	ck_assert_uint_eq(w.refused, 1);
	ck_assert_uint_eq(w.last->status, status);
	ck_assert_ptr_nonnull(strstr(w.last->why, why));
	world_end();
}

START_TEST(two_hosts)
{
	world_begin(false, false);
	raw_begin();
	put_request(1, "one:8501", "host", "two:8501", WHOLE);
	refused_head(400, "Host is not :authority");
	world_begin(false, false);
	raw_begin();
	put_request(1, "one:8501", "host", "one:8501", WHOLE);
	put_request(3, NULL, "host", "one:8501", WHOLE);
	ck_assert(feed_raw());
	ck_assert_uint_eq(w.refused, 0);
	ck_assert_uint_eq(w.requests, 2);
	ck_assert_str_eq(w.last->line, "GET / one:8501");
	world_end();
}
END_TEST

START_TEST(no_host)
{
	world_begin(false, false);
	raw_begin();
	put_request(1, NULL, NULL, NULL, WHOLE);
	ck_assert(feed_raw());
	/* libnghttp2 wants one of them, and resets the stream. */
	ck_assert_uint_eq(w.requests, 0);
	ck_assert_uint_eq(h2_stats(w.h2)->resets, 1);
	world_end();
}
END_TEST

START_TEST(odd_host)
{
	world_begin(false, false);
	raw_begin();
	put_request(1, "user@one", NULL, NULL, WHOLE);
	refused_head(400, "Host is not a valid host");
}
END_TEST

START_TEST(long_head)
{
	char value[120];

	world_begin(false, false);
	raw_begin();
	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	uint8_t block[8000] = { 0x82, 0x87, 0x84 };
	size_t n = 3 + literal(block + 3, ":authority", "one");
	for (unsigned i = 0; i < 40; i++)
		n += literal(block + n, "x-long", value);
	put_frame(NGHTTP2_HEADERS, WHOLE, 1, block, n);
	refused_head(431, "limits.header_bytes_max");
}
END_TEST

START_TEST(many_fields)
{
	world_begin(false, false);
	raw_begin();
	uint8_t block[8000] = { 0x82, 0x87, 0x84 };
	size_t n = 3 + literal(block + 3, ":authority", "one");
	for (unsigned i = 0; i < HTTP_FIELDS_MAX; i++)
		n += literal(block + n, "a", "");
	put_frame(NGHTTP2_HEADERS, WHOLE, 1, block, n);
	ck_assert(feed_raw());
	ck_assert_uint_eq(w.refused, 1);
	ck_assert_uint_eq(w.last->status, 431);
	world_end();
}
END_TEST

/* One request with this field: reset, and the next one is served. */
static void
resets_stream(const char *name, const char *value)
{
	world_begin(false, false);
	raw_begin();
	put_request(1, "one", name, value, WHOLE);
	put_request(3, "one", NULL, NULL, WHOLE);
	ck_assert_msg(feed_raw(), "%s", name);
	ck_assert_msg(w.requests == 1 && w.refused == 0, "%s", name);
	ck_assert_uint_eq(h2_stats(w.h2)->resets, 1);
	world_end();
}

/* Nothing of it stays, not even the wait for its rest. */
START_TEST(refused_head_is_forgotten)
{
	world_begin(false, false);
	raw_begin();
	put_request(1, "one", "a b", "c", _i == 0 ? WHOLE : NGHTTP2_FLAG_END_STREAM);
	ck_assert(feed_raw());
	ck_assert(!h2_awaits_head(w.s));
	ck_assert_uint_eq(w.requests, 0);
	buf_init(&raw, 1000);
	if (_i == 1)
		put_frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, NULL, 0);
	put_request(3, "one", NULL, NULL, WHOLE);
	ck_assert(feed_raw());
	ck_assert(!h2_awaits_head(w.s));
	ck_assert_uint_eq(w.requests, 1);
	world_end();
}
END_TEST

START_TEST(fields_that_libnghttp2_refuses)
{
	resets_stream("Accept", "*/*");
	resets_stream("connection", "close");
	resets_stream("transfer-encoding", "chunked");
	resets_stream("keep-alive", "1");
	resets_stream("upgrade", "h2c");
	resets_stream("te", "gzip");
	resets_stream(":path", "/b");
	resets_stream(":method", "PUT");
	resets_stream(":status", "200");
	resets_stream(":other", "1");
	resets_stream("content-length", "5");		/* and no body */
	resets_stream("content-length", "-1");
	resets_stream("a b", "1");
	resets_stream("a:b", "1");
	resets_stream("a\r\nb", "1");
	resets_stream("x", "a\r\nhost: two");
	resets_stream("x", "a\nb");
	resets_stream("x", " a");
	resets_stream("", "a");
}
END_TEST

/* -- bounds -------------------------------------------------------------------------------- */

static bool
ended_calmly(void)
{
	uint8_t out[64];
	size_t n = h2_output(w.s, out, sizeof(out));

	return n >= 17 && out[n - 17 + 3] == NGHTTP2_GOAWAY && out[n - 1] == NGHTTP2_ENHANCE_YOUR_CALM &&
	    h2_is_over(w.s);
}

/* Feeds without reading, so that the last bytes of output are seen. */
static bool
feed_till_the_end(void)
{
	bool fine = true;

	for (size_t at = 0; at < raw.len && fine; at += 16000) {
		(void)drain();
		fine = feed(raw.data + at, raw.len - at < 16000 ? raw.len - at : 16000);
	}
	buf_done(&raw);
	return fine;
}

START_TEST(rapid_reset)
{
	world_begin(false, false);
	raw_begin();
	for (uint32_t i = 0; i < 10000; i++) {
		put_request(1 + 2 * i, "one", NULL, NULL, WHOLE);
		put_frame(NGHTTP2_RST_STREAM, 0, 1 + 2 * i, "\0\0\0\10", 4);
	}
	ck_assert(!feed_till_the_end());
	ck_assert_uint_eq(h2_stats(w.h2)->rapid_resets, 1);
	ck_assert_uint_lt(w.requests, 4100);
	ck_assert(ended_calmly());
	ck_assert(!feed((const uint8_t *)"x", 1));
	world_end();
}
END_TEST

START_TEST(resets_now_and_then)
{
	world_begin(false, false);
	raw_begin();
	(void)feed_raw();
	for (uint32_t i = 0; i < 10000; i++) {
		buf_init(&raw, 4096);
		put_request(1 + 2 * i, "one", NULL, NULL, WHOLE);
		put_frame(NGHTTP2_RST_STREAM, 0, 1 + 2 * i, "\0\0\0\10", 4);
		ck_assert(feed_raw());
		w.now = mono_add(w.now, MONO_MS(11));
	}
	ck_assert_uint_eq(h2_stats(w.h2)->rapid_resets, 0);
	ck_assert_uint_eq(w.closed, 10000);
	world_end();
}
END_TEST

/* The client makes us reset its streams: a window beyond 2^31. */
START_TEST(made_to_reset)
{
	world_begin(false, false);
	raw_begin();
	for (uint32_t i = 0; i < 10000; i++) {
		put_request(1 + 2 * i, "one", NULL, NULL, WHOLE);
		put_frame(NGHTTP2_WINDOW_UPDATE, 0, 1 + 2 * i, "\177\377\377\377", 4);
	}
	for (size_t at = 0; at < raw.len && !h2_is_over(w.s); at += 16000) {
		(void)feed(raw.data + at, raw.len - at < 16000 ? raw.len - at : 16000);
		(void)drain();
	}
	buf_done(&raw);
	ck_assert_uint_eq(h2_stats(w.h2)->rapid_resets, 1);
	ck_assert_uint_lt(w.requests, 6000);
	world_end();
}
END_TEST

static void
flooded(void)
{
	ck_assert(!feed_till_the_end());
	ck_assert_uint_eq(h2_stats(w.h2)->floods, 1);
	ck_assert(ended_calmly());
	world_end();
}

START_TEST(floods)
{
	static const struct { uint8_t type; uint32_t id; size_t n; } kinds[] = {
		{ NGHTTP2_SETTINGS, 0, 0 }, { NGHTTP2_PING, 0, 8 }, { NGHTTP2_PRIORITY, 5, 5 }, { NGHTTP2_DATA, 1, 0 },
		{ NGHTTP2_WINDOW_UPDATE, 0, 4 }, { 0xfa, 0, 0 },
	};

	world_begin(false, false);
	raw_begin();
	put_request(1, "one", NULL, NULL, NGHTTP2_FLAG_END_HEADERS);
	for (unsigned i = 0; i < 20000; i++)
		put_frame(kinds[_i].type, 0, kinds[_i].id, "\0\0\0\1\0\0\0\0", kinds[_i].n);
	flooded();
}
END_TEST

/* More of them at once than answers may wait. */
START_TEST(pings_whose_answers_nobody_reads)
{
	world_begin(false, false);
	raw_begin();
	for (unsigned i = 0; i < 2000; i++)
		put_frame(NGHTTP2_PING, 0, 0, "12345678", 8);
	ck_assert(!feed(raw.data, raw.len));
	ck_assert_uint_eq(h2_stats(w.h2)->floods, 1);
	buf_done(&raw);
	world_end();
}
END_TEST

/* An update of the window with each frame that is read is no flood. */
START_TEST(window_updates_of_a_reader)
{
	world_begin(true, false);
	w.answers = true;
	w.answer = w.ready = 300 << 20;
	ask("GET", "/", SIZE_MAX, NULL, NULL);
	pump();
	ck_assert_uint_eq(w.got, 300 << 20);
	ck_assert_uint_eq(h2_stats(w.h2)->floods, 0);
	world_end();
}
END_TEST

START_TEST(continuations)
{
	world_begin(false, false);
	raw_begin();
	put_request(1, "one", NULL, NULL, NGHTTP2_FLAG_END_STREAM);
	for (unsigned i = 0; i < 9; i++)
		put_frame(NGHTTP2_CONTINUATION, 0, 1, NULL, 0);
	flooded();
	ck_assert_uint_eq(w.requests, 0);
}
END_TEST

START_TEST(head_in_parts)
{
	world_begin(false, false);
	w.step = _i == 0 ? 1 : SIZE_MAX;
	raw_begin();
	put_request(1, "one", NULL, NULL, NGHTTP2_FLAG_END_STREAM);
	ck_assert(feed_raw());
	ck_assert(h2_awaits_head(w.s));
	ck_assert_uint_eq(w.requests, 0);
	buf_init(&raw, 1000);
	for (unsigned i = 0; i < 7; i++)
		put_frame(NGHTTP2_CONTINUATION, 0, 1, NULL, 0);
	put_frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, NULL, 0);
	ck_assert(feed_raw());
	ck_assert(!h2_awaits_head(w.s));
	ck_assert_uint_eq(w.requests, 1);
	world_end();
}
END_TEST

/* One field goes into the table, and then a byte brings it back, again and again. */
START_TEST(bomb)
{
	uint8_t block[16000] = { 0x82, 0x87, 0x84 };
	size_t n = 3 + literal(block + 3, ":authority", "one");
	char value[121];

	world_begin(false, false);
	raw_begin();
	memset(value, 'v', 120);
	value[120] = '\0';
	block[n] = 0x40;
	n += literal(block + n, "x-bomb", value);
	block[n - 3 - 6 - 120] = 0x40;		/* with indexing */
	memset(block + n, 0xbe, sizeof(block) - n);
	put_frame(NGHTTP2_HEADERS, WHOLE, 1, block, sizeof(block));
	ck_assert(!feed_till_the_end());
	ck_assert_uint_eq(h2_stats(w.h2)->bombs, 1);
	ck_assert(ended_calmly());
	world_end();
	/* The same in a trailer. */
	world_begin(false, false);
	raw_begin();
	put_request(1, "one", NULL, NULL, NGHTTP2_FLAG_END_HEADERS);
	put_frame(NGHTTP2_HEADERS, WHOLE, 1, block + 3 + 16, sizeof(block) - 3 - 16);
	ck_assert(!feed_till_the_end());
	ck_assert_uint_eq(h2_stats(w.h2)->bombs, 1);
	world_end();
}
END_TEST

START_TEST(more_streams_than_announced)
{
	world_begin(false, false);
	raw_begin();
	for (uint32_t i = 0; i < STREAMS_MAX + 10; i++)
		put_request(1 + 2 * i, "one", NULL, NULL, WHOLE);
	(void)feed_raw();
	ck_assert_uint_eq(w.requests, STREAMS_MAX);
	ck_assert_uint_eq(h2_stats(w.h2)->refused, 10);
	world_end();
}
END_TEST

/* A client that never opens its windows. */
START_TEST(stalled_window)
{
	world_begin(true, true);
	w.answers = true;
	w.answer = w.ready = 1 << 20;
	ask("GET", "/", SIZE_MAX, NULL, NULL);
	pump();
	ck_assert_uint_eq(w.got, 65535);
	ck_assert(!h2_has_output(w.s));
	ck_assert_uint_eq(w.last->sent, 65535);
	h2_reset(&w.last->st, H2_CANCEL);
	pump();
	ck_assert_uint_eq(w.closed, 1);
	ck_assert_uint_eq(w.code, NGHTTP2_CANCEL);
	world_end();
}
END_TEST

START_TEST(not_http_2)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: one\r\n\r\n";

	world_begin(false, false);
	(void)drain();
	ck_assert(!feed((const uint8_t *)text, sizeof(text) - 1));
	ck_assert(h2_is_over(w.s));
	ck_assert_uint_eq(h2_stats(w.h2)->broken, 1);
	world_end();
}
END_TEST

START_TEST(violation)
{
	world_begin(false, false);
	raw_begin();
	put_frame(NGHTTP2_DATA, 0, 1, "a", 1);		/* of a stream that never began */
	(void)feed_raw();
	ck_assert(h2_is_over(w.s));
	ck_assert_uint_eq(h2_stats(w.h2)->broken, 1);
	world_end();
}
END_TEST

START_TEST(quiesces)
{
	world_begin(true, false);
	ask("GET", "/", SIZE_MAX, NULL, NULL);
	pump();
	h2_quiesce(w.s);
	/* One that was on its way is served. */
	ask("GET", "/", SIZE_MAX, NULL, NULL);
	pump();
	ck_assert_uint_eq(w.requests, 2);
	ck_assert(w.goaway);
	ck_assert_uint_eq(w.goaway_code, NGHTTP2_NO_ERROR);
	ck_assert(!h2_is_over(w.s));
	for (struct asked *a = w.last; a != NULL; a = w.last) {
		struct h2_stream *other = LIST_NEXT(&a->st, all);

		answer_head(&a->st, false);
		pump();
		w.last = (struct asked *)(void *)other;
	}
	ck_assert_uint_eq(w.closed_whole, 2);
	ck_assert(h2_is_over(w.s));
	world_end();
	/* One that rests ends, too. */
	world_begin(true, false);
	pump();
	h2_quiesce(w.s);
	pump();
	ck_assert(h2_is_over(w.s));
	world_end();
}
END_TEST

/* One request with a body that is kept, answered with a body and a trailer; each allocation fails once. */
static bool
live_poorly(unsigned n)
{
	uint8_t out[4096];

	memset(&w, 0, sizeof(w));
	w.poor = w.answers = true;
	w.answer = w.ready = 100;
	w.trailer = "X-Sum: 1\r\n";
	fault_alloc_at(n);
	w.h2 = h2_new(&(struct h2_conf){ .calls = &calls, .stream_bytes = sizeof(struct asked),
	    .head_bytes_max = HEAD_MAX });
	w.s = w.h2 == NULL ? NULL : h2_session_new(w.h2, NULL, STREAMS_MAX, MONO_S(1));
	if (w.s != NULL) {
		bool fine = h2_input(w.s, raw.data, raw.len, MONO_S(1));

		w.takes = SIZE_MAX;
		if (w.last != NULL)
			h2_body_ready(&w.last->st);
		while (h2_output(w.s, out, sizeof(out)) > 0)
			;
		must(fine || h2_is_over(w.s));
		h2_quiesce(w.s);
		while (h2_output(w.s, out, sizeof(out)) > 0)
			;
		h2_session_free(w.s);
	}
	h2_free(w.h2);
	must(w.closed == w.requests);
	return fault_alloc_end();
}

START_TEST(out_of_memory)
{
	unsigned n = 0;

	raw_begin();
	put_request(1, "one", "x-field", "value", NGHTTP2_FLAG_END_HEADERS);
	put_frame(NGHTTP2_DATA, 0, 1, "abc", 3);
	put_frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "def", 3);
	put_request(3, "one", NULL, NULL, WHOLE);
	while (live_poorly(n))
		n++;
	ck_assert_uint_gt(n, 20);
	buf_done(&raw);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("h2");
	TCase *t = tcase_create("h2");

	tcase_add_loop_test(t, request_and_answer, 0, 4);
	tcase_add_test(t, head_is_read_as_of_http_1);
	tcase_add_test(t, body_that_is_not_taken_is_not_acknowledged);
	tcase_add_test(t, small_frames_are_kept);
	tcase_add_test(t, connection_window_comes_back_when_a_stream_ends);
	tcase_add_test(t, answer_comes_as_it_is_made);
	tcase_add_test(t, answer_that_breaks_off_resets_the_stream);
	tcase_add_test(t, early_answer_ends_the_upload);
	tcase_add_test(t, continues_when_asked);
	tcase_add_test(t, thousands_wait_and_are_answered);
	tcase_add_test(t, reset_cancels);
	tcase_add_test(t, two_hosts);
	tcase_add_test(t, no_host);
	tcase_add_test(t, odd_host);
	tcase_add_test(t, long_head);
	tcase_add_test(t, many_fields);
	tcase_add_test(t, fields_that_libnghttp2_refuses);
	tcase_add_loop_test(t, refused_head_is_forgotten, 0, 2);
	tcase_add_test(t, rapid_reset);
	tcase_add_test(t, resets_now_and_then);
	tcase_add_test(t, made_to_reset);
	tcase_add_loop_test(t, floods, 0, 5);
	tcase_add_test(t, pings_whose_answers_nobody_reads);
	tcase_add_test(t, window_updates_of_a_reader);
	tcase_add_test(t, continuations);
	tcase_add_loop_test(t, head_in_parts, 0, 2);
	tcase_add_test(t, bomb);
	tcase_add_test(t, more_streams_than_announced);
	tcase_add_test(t, stalled_window);
	tcase_add_test(t, not_http_2);
	tcase_add_test(t, violation);
	tcase_add_test(t, quiesces);
	tcase_add_test(t, out_of_memory);
	tcase_set_timeout(t, 60);
	suite_add_tcase(suite, t);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
