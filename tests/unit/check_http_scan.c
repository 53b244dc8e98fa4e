/* Heads and chunks of requests: what is read, what is refused, in one piece and in all others. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpcd/http/http_scan.h"

#define MAX 4096

/* A fresh copy of exactly these bytes: AddressSanitizer sees who looks beyond. */
static uint8_t *
exact(const void *bytes, size_t n)
{
	uint8_t *p = malloc(n > 0 ? n : 1);

	ck_assert_ptr_nonnull(p);
	memcpy(p, bytes, n);
	return p;
}

static enum http_scanned
scan(struct http_head *h, const void *bytes, size_t n)
{
	uint8_t *p = exact(bytes, n);

	http_head_begin(h, MAX);
	enum http_scanned s = http_head_scan(h, p, n);
	free(p);
	return s;
}

/* The same, byte by byte, with a copy elsewhere each time. */
static enum http_scanned
scan_slowly(struct http_head *h, const void *bytes, size_t n)
{
	enum http_scanned s = HTTP_MORE;

	http_head_begin(h, MAX);
	for (size_t i = 0; i <= n && s == HTTP_MORE; i++) {
		uint8_t *p = exact(bytes, i);

		s = http_head_scan(h, p, i);
		free(p);
	}
	return s;
}

static void
is_part(const char *text, struct http_part p, const char *expected)
{
	ck_assert_uint_eq(p.len, strlen(expected));
	ck_assert_int_eq(memcmp(text + p.at, expected, p.len), 0);
}

static void
refused(const char *text, size_t n, unsigned status)
{
	struct http_head h, slow;

	ck_assert_msg(scan(&h, text, n) == HTTP_BAD, "taken: %s", text);
	ck_assert_msg(h.status == status, "%u instead of %u: %s", h.status, status, text);
	ck_assert_ptr_nonnull(h.why);
	ck_assert_int_eq(scan_slowly(&slow, text, n), HTTP_BAD);
	ck_assert_uint_eq(slow.status, status);
	ck_assert_str_eq(slow.why, h.why);
}

static void
taken(struct http_head *h, const char *text)
{
	struct http_head slow;
	size_t n = strlen(text);

	ck_assert_msg(scan(h, text, n) == HTTP_DONE, "refused (%s): %s", h->why, text);
	ck_assert_uint_eq(h->len, n);
	ck_assert_int_eq(scan_slowly(&slow, text, n), HTTP_DONE);
	ck_assert_uint_eq(slow.len, n);
	ck_assert_uint_eq(slow.field_count, h->field_count);
	for (size_t i = 0; i < n; i++)
		ck_assert_msg(scan(&slow, text, i) == HTTP_MORE, "%zu bytes of %s", i, text);
}

START_TEST(a_head_is_taken_apart)
{
	const char *text = "PUT /v1/kv/a%2fb?flags=1 HTTP/1.1\r\nHost: consul.example:8500\r\nX-Consul-Token:\t abc \t\r\n"
			   "Empty:\r\nconnection: foo , Close\r\nCONTENT-length: 0012\r\nExpect: 100-Continue\r\n\r\n";
	struct http_head h;
	char more[512];

	taken(&h, text);
	is_part(text, h.method, "PUT");
	is_part(text, h.target, "/v1/kv/a%2fb?flags=1");
	is_part(text, h.host, "consul.example:8500");
	ck_assert(h.has_host && h.close && !h.keep_alive && h.expects);
	ck_assert_uint_eq(h.minor, 1);
	ck_assert_uint_eq(h.form, HTTP_ORIGIN);
	ck_assert_uint_eq(h.framing, HTTP_LENGTH);
	ck_assert_uint_eq(h.length, 12);
	ck_assert_uint_eq(h.field_count, 6);
	is_part(text, h.fields[1].name, "X-Consul-Token");
	is_part(text, h.fields[1].value, "abc");
	is_part(text, h.fields[2].value, "");
	ck_assert_ptr_eq(http_head_find(&h, (const uint8_t *)text, "x-consul-token"), &h.fields[1]);
	ck_assert_ptr_null(http_head_find(&h, (const uint8_t *)text, "x-consul-toke"));
	ck_assert_uint_eq(http_head_count(&h, (const uint8_t *)text, "empty"), 1);
	/* what follows is not looked at */
	snprintf(more, sizeof(more), "%s\r\nrubbish", text);
	ck_assert_int_eq(scan(&h, more, strlen(more)), HTTP_DONE);
	ck_assert_uint_eq(h.len, strlen(text));
}
END_TEST

START_TEST(what_is_fine)
{
	struct http_head h;

	taken(&h, "GET / HTTP/1.0\r\n\r\n");
	ck_assert(!h.has_host && h.minor == 0 && h.framing == HTTP_NO_BODY);
	taken(&h, "GET / HTTP/1.9\r\nHost:\r\n\r\n");
	ck_assert(h.has_host && h.host.len == 0 && h.minor == 1);
	taken(&h, "\r\nGET / HTTP/1.1\r\nHost: [::1]:8500\r\n\r\n");
	taken(&h, "GET /\xc3\xbc?filter=a==\"b\" HTTP/1.1\r\nHost: x\r\nX: \xff\t\"y\"\r\n\r\n");
	taken(&h, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n");
	ck_assert_uint_eq(h.form, HTTP_ASTERISK);
	taken(&h, "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: CHUNKED \r\n\r\n");
	ck_assert_uint_eq(h.framing, HTTP_CHUNKED);
	taken(&h, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\n");
	ck_assert_uint_eq(h.length, UINT64_MAX);
	taken(&h, "GET / HTTP/1.0\r\nConnection: a\r\nConnection: ,keep-alive,\r\n\r\n");
	ck_assert(h.keep_alive && !h.close);
	taken(&h, "GET / HTTP/1.1\r\nHost: x\r\nConnection: closed, not close\r\n\r\n");
	ck_assert(!h.close);
}
END_TEST

/* RFC 9112, 3.2.2: whoever the target names is meant, whatever Host says. */
START_TEST(absolute_targets)
{
	const char *text = "GET HTTP://a:1/b?c HTTP/1.1\r\nHost: other\r\n\r\n";
	struct http_head h;

	taken(&h, text);
	ck_assert_uint_eq(h.form, HTTP_ABSOLUTE);
	is_part(text, h.host, "a:1");
	is_part(text, h.target, "/b?c");
	text = "GET http://a?c HTTP/1.1\r\nHost: a\r\n\r\n";
	taken(&h, text);
	is_part(text, h.target, "?c");
	text = "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n";
	taken(&h, text);
	ck_assert_uint_eq(h.target.len, 0);
}
END_TEST

#define GET "GET / HTTP/1.1\r\n"
#define HOST "Host: x\r\n"
#define LENGTH "Content-Length: 3\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"

START_TEST(what_two_readers_read_differently)
{
	static const struct { const char *text; size_t n; } bad[] = {
#define B(text_) { text_, sizeof(text_) - 1 }
		/* lines */
		B(GET HOST "Transfer-Encoding:\r\n chunked\r\n\r\n"), B(GET HOST "Content-Length:\r\n\t5\r\n\r\n"),
		B(GET " Host: x\r\n\r\n"), B(GET HOST "A: b\r\n c\r\n\r\n"), B(GET HOST " \r\n\r\n"),
		B(GET HOST ": x\r\n\r\n"), B(GET HOST "Content-Length : 3\r\n\r\n"), B(GET HOST "A b: c\r\n\r\n"),
		B(GET HOST "nothing\r\n\r\n"), B(GET HOST "A\0: b\r\n\r\n"), B(GET HOST "A: b\0c\r\n\r\n"),
		B(GET HOST "A: b\x01\r\n\r\n"), B(GET HOST "A: b\x7f\r\n\r\n"), B(GET HOST "A(: b\r\n\r\n"),
		B(GET HOST "A: b\rC: d\r\n\r\n"), B(GET HOST "A: b\nC: d\r\n\r\n"), B(GET HOST "A: b\r\r\n\r\n"),
		B("GET / HTTP/1.1\nHost: x\n\n"), B("GET / HTTP/1.1\rHost: x\r\r"), B(GET HOST "\n"), B(GET HOST "\r\r\n"),
		B("\r\n\r\nGET / HTTP/1.0\r\n\r\n"), B("\nGET / HTTP/1.0\r\n\r\n"), B(" GET / HTTP/1.0\r\n\r\n"),
		/* lengths and codings */
		B(GET HOST LENGTH "Content-Length: 4\r\n\r\n"), B(GET HOST LENGTH LENGTH "\r\n"),
		B(GET HOST "Content-Length: 3, 3\r\n\r\n"), B(GET HOST "Content-Length: +3\r\n\r\n"),
		B(GET HOST "Content-Length: -3\r\n\r\n"), B(GET HOST "Content-Length: 0x3\r\n\r\n"),
		B(GET HOST "Content-Length: 3 3\r\n\r\n"), B(GET HOST "Content-Length:\r\n\r\n"),
		B(GET HOST "Content-Length: 3a\r\n\r\n"), B(GET HOST "Content-Length: 18446744073709551616\r\n\r\n"),
		B(GET HOST "Content-Length: 99999999999999999999\r\n\r\n"),
		B(GET HOST "Content-Length: 00000000000000000000000000000000000000003\r\n\r\n"),
		B(GET HOST LENGTH CHUNKED "\r\n"), B(GET HOST CHUNKED LENGTH "\r\n"), B(GET HOST CHUNKED CHUNKED "\r\n"),
		B(GET HOST "Transfer-Encoding: identity\r\n\r\n"), B(GET HOST "Transfer-Encoding: gzip, chunked\r\n\r\n"),
		B(GET HOST "Transfer-Encoding: chunked, chunked\r\n\r\n"), B(GET HOST "Transfer-Encoding: xchunked\r\n\r\n"),
		B(GET HOST "Transfer-Encoding: chunked;a=b\r\n\r\n"), B(GET HOST "Transfer-Encoding:\r\n\r\n"),
		B("GET / HTTP/1.0\r\n" HOST CHUNKED "\r\n"),
		/* hosts */
		B(GET "\r\n"), B(GET HOST HOST "\r\n"), B(GET "Host: a/b\r\n\r\n"), B(GET "Host: a b\r\n\r\n"),
		B(GET "Host: a, b\r\n\r\n"), B(GET "Host: u@a\r\n\r\n"), B(GET "Host: a:8x\r\n\r\n"),
		B(GET "Host: [::1\r\n\r\n"), B(GET "Host: []\r\n\r\n"), B(GET "Host: [::1]x\r\n\r\n"), B(GET "Host: \xff\r\n\r\n"),
		/* request lines */
		B("GET\r\n\r\n"), B("GET /\r\n\r\n"), B("GET  / HTTP/1.1\r\n" HOST "\r\n"), B("GET /  HTTP/1.1\r\n" HOST "\r\n"),
		B("GET / HTTP/1.1 \r\n" HOST "\r\n"), B("GET\t/\tHTTP/1.1\r\n" HOST "\r\n"), B("G(T / HTTP/1.1\r\n" HOST "\r\n"),
		B("GET /a\tb HTTP/1.1\r\n" HOST "\r\n"), B("GET /a b HTTP/1.1\r\n" HOST "\r\n"),
		B("GET /a#b HTTP/1.1\r\n" HOST "\r\n"), B("GET a HTTP/1.1\r\n" HOST "\r\n"), B("GET * HTTP/1.1\r\n" HOST "\r\n"),
		B("CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n"), B("GET https://a/ HTTP/1.1\r\n" HOST "\r\n"),
		B("GET http:/// HTTP/1.1\r\n" HOST "\r\n"), B("GET http://u@a/ HTTP/1.1\r\n" HOST "\r\n"),
		B("GET / http/1.1\r\n" HOST "\r\n"), B("GET / HTTP/1\r\n" HOST "\r\n"), B("GET / HTTP/11.1\r\n" HOST "\r\n"),
		B("GET / HTTP/1.\r\n" HOST "\r\n"), B("GET / HTTP/1,1\r\n" HOST "\r\n"), B("GET /\0 HTTP/1.1\r\n" HOST "\r\n"),
		B("\x16\x03\x01\x02"), B("\0\0\0"),
#undef B
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refused(bad[i].text, bad[i].n, 400);
	refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24, 505);
	refused("GET / HTTP/0.9\r\n\r\n", 18, 505);
}
END_TEST

START_TEST(limits)
{
	char text[MAX + 100];
	struct http_head h;
	int n;

	/* exactly as long as it may be, and a byte more */
	n = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: x\r\nA: %0*d\r\n\r\n", MAX - 16 - 9 - 3 - 4, 0);
	ck_assert_int_eq(n, MAX);
	ck_assert_int_eq(scan(&h, text, (size_t)n), HTTP_DONE);
	n = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: x\r\nA: %0*d\r\n\r\n", MAX - 16 - 9 - 3 - 3, 0);
	refused(text, (size_t)n, 431);
	n = snprintf(text, sizeof(text), "GET /%0*d", MAX, 0);
	refused(text, (size_t)n, 414);
	for (unsigned fields = HTTP_FIELDS_MAX - 1; fields <= HTTP_FIELDS_MAX; fields++) {
		n = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: x\r\n");
		for (unsigned i = 0; i < fields; i++)
			n += snprintf(text + n, sizeof(text) - (size_t)n, "a:b\r\n");
		n += snprintf(text + n, sizeof(text) - (size_t)n, "\r\n");
		if (fields < HTTP_FIELDS_MAX)
			ck_assert_int_eq(scan(&h, text, (size_t)n), HTTP_DONE);
		else
			refused(text, (size_t)n, 431);
	}
}
END_TEST

/* Any byte at any place: what is taken has only CRLF for lines, and no other control character. */
START_TEST(any_byte_anywhere)
{
	static const char text[] = "PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nA: b c\r\n\r\n";
	char changed[sizeof(text)];
	struct http_head h, slow;
	unsigned fine = 0;

	for (size_t at = 0; at < sizeof(text) - 1; at++)
		for (unsigned b = 0; b < 256; b++) {
			memcpy(changed, text, sizeof(text));
			changed[at] = (char)b;
			enum http_scanned s = scan(&h, changed, sizeof(text) - 1);
			ck_assert_int_eq(scan_slowly(&slow, changed, sizeof(text) - 1), s);
			ck_assert(s != HTTP_MORE || at >= sizeof(text) - 5);
			if (b == (unsigned char)text[at])
				ck_assert_int_eq(s, HTTP_DONE);
			else if (b < ' ' && b != '\t')
				ck_assert_msg(s == HTTP_BAD, "byte %u at %zu", b, at);
			else if (text[at] == '\r' || text[at] == '\n')
				ck_assert_int_eq(s, HTTP_BAD);
			fine += s == HTTP_DONE;
		}
	ck_assert_uint_gt(fine, 2000);		/* of 57 * 256; methods, names and values may be others */
}
END_TEST

/* -- chunks -- */

struct body {
	enum http_scanned s;
	size_t end, len;
	char data[256];
	const char *why;
};

/* Pieces of this size; what is after the end is not looked at. */
static struct body
unchunk(const char *text, size_t n, size_t piece)
{
	struct body b = { .s = HTTP_MORE };
	struct http_chunks c;

	http_chunks_begin(&c, 64);
	while (b.s == HTTP_MORE && b.end < n) {
		size_t len = n - b.end < piece ? n - b.end : piece, took;
		uint8_t *p = exact(text + b.end, len);
		struct span data;

		b.s = http_chunks_scan(&c, p, len, &took, &data);
		ck_assert_uint_le(took, len);
		ck_assert(took > 0);
		ck_assert_uint_lt(b.len + data.len, sizeof(b.data));
		if (data.len > 0)
			memcpy(b.data + b.len, data.p, data.len);
		b.len += data.len;
		b.end += took;
		free(p);
	}
	b.why = c.why;
	return b;
}

static void
chunks_are(const char *text, const char *data, size_t rest)
{
	size_t n = strlen(text);

	for (size_t piece = 1; piece <= n; piece++) {
		struct body b = unchunk(text, n, piece);

		ck_assert_msg(b.s == HTTP_DONE, "%s: %s", text, b.why);
		ck_assert_uint_eq(b.end, n - rest);
		ck_assert_uint_eq(b.len, strlen(data));
		ck_assert_int_eq(memcmp(b.data, data, b.len), 0);
	}
	for (size_t cut = 0; cut < n - rest; cut++)
		ck_assert_int_eq(unchunk(text, cut, n).s, HTTP_MORE);
}

START_TEST(chunks_are_put_together)
{
	chunks_are("0\r\n\r\n", "", 0);
	chunks_are("3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\n", "abc", 16);
	chunks_are("003;a=\"b;c\" \t;d\r\nabc\r\nA ;x\r\n0123456789\r\n00\r\n\r\n", "abc0123456789", 0);
	chunks_are("1\r\n\r\r\n1\r\n\n\r\n0;last\r\nTrailer: x\r\nOther:\r\n\r\n", "\r\n", 0);
	chunks_are("a\r\n0\r\n\r\n67890\r\n0\r\n\r\n", "0\r\n\r\n67890", 0);
}
END_TEST

START_TEST(chunks_that_lie)
{
	static const struct { const char *text; size_t n; } bad[] = {
#define B(text_) { text_, sizeof(text_) - 1 }
		B("\r\n"), B("zz\r\n"), B("+3\r\nabc"), B("-1\r\n"), B("0x3\r\nabc"), B(" 3\r\nabc"), B(";a\r\n"), B("3 \r\nabc"),
		B("3 a\r\nabc"), B("3\nabc"), B("3\rabc"), B("3;a\nabc"), B("3;a\0\r\nabc"), B("3;a\rb\r\nabc"),
		B("3\r\nabcd\r\n0\r\n\r\n"), B("3\r\nabc\n0\r\n\r\n"), B("3\r\nabc0\r\n\r\n"), B("3\r\nabc\r0\r\n\r\n"),
		B("10000000000000000\r\n"), B("ffffffffffffffffff\r\n"), B("00000000000000000\r\n"),
		B("0\r\n: x\r\n\r\n"), B("0\r\n a: b\r\n\r\n"), B("0\r\na : b\r\n\r\n"), B("0\r\na: b\r\n c\r\n\r\n"),
		B("0\r\na\r\n\r\n"), B("0\r\na: \0\r\n\r\n"), B("0\r\na: b\n\r\n"), B("0\r\na: b\r\r\n\r\n"), B("0\r\n\rX"), B("0\r\n\n"),
		B("0\r\na: 45678901234567890123456789012345678901234567890123456789012345\r\n\r\n"),	/* 65 bytes */
#undef B
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (size_t piece = 1; piece <= bad[i].n; piece++) {
			struct body b = unchunk(bad[i].text, bad[i].n, piece);

			ck_assert_msg(b.s == HTTP_BAD, "taken: %s", bad[i].text);
			ck_assert_ptr_nonnull(b.why);
		}
}
END_TEST

/* One line is bounded, and so are all of them together. */
START_TEST(extensions_are_not_endless)
{
	char line[HTTP_CHUNK_LINE_MAX + 32];
	struct http_chunks c;
	struct span data;
	size_t took, n, whole = 0;
	enum http_scanned s;

	n = (size_t)snprintf(line, sizeof(line), "1;%0*d\r\nx\r\n", HTTP_CHUNK_LINE_MAX, 0);
	ck_assert_int_eq(unchunk(line, n, n).s, HTTP_BAD);
	n = (size_t)snprintf(line, sizeof(line), "1;%0*d\r\nx\r\n", HTTP_CHUNK_LINE_MAX - 1, 0);
	http_chunks_begin(&c, 0);
	do {
		size_t at = 0;

		for (s = HTTP_MORE; s == HTTP_MORE && at < n; at += took)
			s = http_chunks_scan(&c, (const uint8_t *)line + at, n - at, &took, &data);
		whole += n;
	} while (s == HTTP_MORE && whole < 1 << 20);
	ck_assert_int_eq(s, HTTP_BAD);
	ck_assert_uint_le(whole, 2 * HTTP_EXTENSIONS_MAX);
	/* a size that says all of memory is only a number */
	http_chunks_begin(&c, 0);
	s = http_chunks_scan(&c, (const uint8_t *)"ffffffffffffffff\r\nxyz", 21, &took, &data);
	ck_assert(s == HTTP_MORE && took == 21 && data.len == 3 && c.left == UINT64_MAX - 3);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("http_scan");
	TCase *tc = tcase_create("http_scan");
	SRunner *sr;
	int failed;

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, a_head_is_taken_apart);
	tcase_add_test(tc, what_is_fine);
	tcase_add_test(tc, absolute_targets);
	tcase_add_test(tc, what_two_readers_read_differently);
	tcase_add_test(tc, limits);
	tcase_add_test(tc, any_byte_anywhere);
	tcase_add_test(tc, chunks_are_put_together);
	tcase_add_test(tc, chunks_that_lie);
	tcase_add_test(tc, extensions_are_not_endless);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
