/*
 * A whole HTTP/2 connection: what a client sends, in one piece and in small ones.  Both times the same requests come of
 * it, whole ones with the same bytes of their bodies, whatever is answered to them; each that begins ends; heads that
 * are taken read as http_scan.c reads them; and what is held back stays within the windows.
 */
#include <stdlib.h>
#include <string.h>

#include "rpcd/http/h2_session.h"

#define HEAD_MAX 2048
#define STREAMS_MAX 20
#define ROUNDS_MAX 10000		/* of output */
#define CHECK(cond_) do { if (!(cond_)) abort(); } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct asked {
	struct h2_stream st;
	bool whole;
	uint64_t digest;		/* of the body, which counts when it is whole */
	size_t left;			/* of the answer */
};

struct life {
	uint64_t digest;		/* of what was told */
	unsigned begun, closed;
	uint8_t ways;
};

static void
note(uint64_t *digest, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n; i++)
		*digest = (*digest ^ p[i]) * 1099511628211u;
}

static void
on_request(void *ctx, struct h2_stream *st, enum http_scanned scanned, const struct http_head *head,
    const uint8_t *bytes, bool body)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
	struct life *l = ctx;
	struct asked *a = (struct asked *)(void *)st;

	l->begun++;
	note(&l->digest, &st->id, sizeof(st->id));
	CHECK(scanned == HTTP_DONE || (scanned == HTTP_BAD && head->status >= 400 && head->why != NULL));
	if (scanned == HTTP_DONE) {
		CHECK(head->has_host && head->len <= HEAD_MAX && head->method.len > 0 && !head->close);
		CHECK(body || head->framing != HTTP_CHUNKED);
		note(&l->digest, bytes, head->len);
	}
	a->whole = !body;
	a->left = (size_t)(st->id % 3 == 0 ? 70000 : st->id % 3);
	if ((l->ways & 1) != 0 && scanned == HTTP_DONE && head->expects)
		h2_continue(st);
	if ((l->ways & 2) != 0)
		CHECK(h2_answer(st, span_str(text), a->left > 0));
	if ((l->ways & 4) != 0 && st->id % 5 == 0)
		h2_reset(st, H2_CANCEL);
}

static size_t
on_body(void *ctx, struct h2_stream *st, const uint8_t *bytes, size_t n)
{
	struct life *l = ctx;
	struct asked *a = (struct asked *)(void *)st;

	CHECK(!a->whole && n > 0 && n <= H2_STREAM_WINDOW);
	if ((l->ways & 8) != 0 && !st->offering)
		return 0;
	note(&a->digest, bytes, n);
	return n;
}

static void
on_body_end(void *ctx, struct h2_stream *st)
{
	struct life *l = ctx;
	struct asked *a = (struct asked *)(void *)st;

	CHECK(!a->whole);
	a->whole = true;
	note(&l->digest, &a->digest, sizeof(a->digest));
}

static ssize_t
on_read(void *ctx, struct h2_stream *st, uint8_t *dst, size_t room, bool *end)
{
	struct life *l = ctx;
	struct asked *a = (struct asked *)(void *)st;
	size_t n = a->left < room ? a->left : room;

	if ((l->ways & 16) != 0 && st->id % 7 == 0)
		return -1;
	memset(dst, 'a', n);
	a->left -= n;
	*end = a->left == 0;
	if (*end && (l->ways & 32) != 0)
		h2_trailer(st, span_str("X-Sum: 1\r\n"));
	return (ssize_t)n;
}

static void
on_closed(void *ctx, struct h2_stream *st, bool whole)
{
	struct life *l = ctx;
	struct asked *a = (struct asked *)(void *)st;

	CHECK(!whole || a->left == 0);
	l->closed++;
}

static const struct h2_calls calls = { on_request, on_body, on_body_end, on_read, on_closed };

static void
write_all(struct h2_session *s)
{
	uint8_t out[777];
	unsigned rounds = 0;

	while (h2_output(s, out, sizeof(out)) > 0 && ++rounds < ROUNDS_MAX)
		;
	CHECK(rounds == ROUNDS_MAX || !h2_has_output(s));
}

static struct life
live(const uint8_t *p, size_t n, size_t step, uint8_t ways)
{
	static const char opening[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	struct life l = { .ways = ways };
	struct h2 *h = h2_new(&(struct h2_conf){ .calls = &calls, .stream_bytes = sizeof(struct asked),
	    .head_bytes_max = HEAD_MAX });
	struct h2_session *s = h == NULL ? NULL : h2_session_new(h, &l, STREAMS_MAX, MONO_S(5));
	bool fine = true;

	CHECK(s != NULL);
	if ((ways & 64) == 0)
		fine = h2_input(s, (const uint8_t *)opening, sizeof(opening) - 1, MONO_S(5));
	for (size_t at = 0; at < n && fine; ) {
		size_t len = n - at < step ? n - at : step;
		uint8_t *copy = malloc(len);

		CHECK(copy != NULL);
		memcpy(copy, p + at, len);
		fine = h2_input(s, copy, len, MONO_S(5));
		free(copy);
		at += len;
		CHECK(h2_streams(s) <= STREAMS_MAX);
	}
	if ((ways & 128) != 0)
		h2_quiesce(s);
	struct life told = l;
	write_all(s);
	h2_session_free(s);
	CHECK(l.begun == l.closed && l.begun <= h2_stats(h)->streams);
	h2_free(h);
	return told;
}

/* The first byte: into what pieces the rest is cut; the second: what the server does. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct life whole, pieces;

	if (size < 2)
		return 0;
	whole = live(data + 2, size - 2, size, data[1]);
	pieces = live(data + 2, size - 2, 1 + data[0] % 32, data[1]);
	CHECK(whole.begun == pieces.begun && whole.digest == pieces.digest);
	return 0;
}
