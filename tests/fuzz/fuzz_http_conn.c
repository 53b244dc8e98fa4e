/*
 * A whole HTTP connection: head after head, with bodies by length and in chunks, as rpcd/http/http_serve.c reads it.
 *
 * What is taken reads the same in one piece and in small ones, reads the same when it is written again from its parts,
 * and a second reader who forgives everything (bare LF and CR, folded lines, spaces before the colon, any case) finds the
 * same fields, the same framing, and the same end: so nobody before us can have seen another request.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/buf.h"
#include "rpcd/http/http_scan.h"

#define HEAD_MAX 2048
#define REQUESTS_MAX 16
#define CHECK(cond_) do { if (!(cond_)) abort(); } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
same_part(struct http_part a, struct http_part b)
{
	return a.at == b.at && a.len == b.len;
}

static void
same_heads(const struct http_head *a, const struct http_head *b)
{
	CHECK(a->len == b->len && a->form == b->form && a->minor == b->minor && a->framing == b->framing);
	CHECK(a->length == b->length && a->close == b->close && a->keep_alive == b->keep_alive);
	CHECK(a->expects == b->expects && a->has_host == b->has_host && a->field_count == b->field_count);
	CHECK(same_part(a->method, b->method) && same_part(a->target, b->target) && same_part(a->host, b->host));
	for (unsigned i = 0; i < a->field_count; i++)
		CHECK(same_part(a->fields[i].name, b->fields[i].name) && same_part(a->fields[i].value, b->fields[i].value));
}

/* In steps, each in memory of its own. */
static enum http_scanned
scan_in_steps(struct http_head *h, const uint8_t *bytes, size_t n, size_t step)
{
	enum http_scanned s = HTTP_MORE;

	http_head_begin(h, HEAD_MAX);
	for (size_t have = 0; s == HTTP_MORE && have <= n; have = have < n && n - have < step ? n : have + step) {
		uint8_t *copy = malloc(have > 0 ? have : 1);

		CHECK(copy != NULL);
		memcpy(copy, bytes, have);
		s = http_head_scan(h, copy, have);
		free(copy);
	}
	return s;
}

/* -- written again ---------------------------------------------------------- */

static void
write_again(const struct http_head *h, const uint8_t *bytes)
{
	struct buf out = BUF_INIT(4 * HEAD_MAX);
	struct http_head again;

	buf_putspan(&out, http_part(bytes, h->method));
	buf_puts(&out, h->form == HTTP_ABSOLUTE ? " http://" : " ");
	if (h->form == HTTP_ABSOLUTE)
		buf_putspan(&out, http_part(bytes, h->host));
	buf_putspan(&out, http_part(bytes, h->target));
	buf_printf(&out, " HTTP/1.%u\r\n", h->minor);
	for (unsigned i = 0; i < h->field_count; i++) {
		buf_putspan(&out, http_part(bytes, h->fields[i].name));
		buf_puts(&out, ": ");
		buf_putspan(&out, http_part(bytes, h->fields[i].value));
		buf_puts(&out, "\r\n");
	}
	buf_puts(&out, "\r\n");
	CHECK(!out.failed);
	http_head_begin(&again, 4 * HEAD_MAX);
	CHECK(http_head_scan(&again, out.data, out.len) == HTTP_DONE && again.len == out.len);
	CHECK(again.framing == h->framing && again.length == h->length && again.close == h->close);
	CHECK(again.keep_alive == h->keep_alive && again.field_count == h->field_count && again.form == h->form);
	CHECK(span_eq(http_part(out.data, again.host), http_part(bytes, h->host)));
	for (unsigned i = 0; i < h->field_count; i++) {
		CHECK(span_eq(http_part(out.data, again.fields[i].name), http_part(bytes, h->fields[i].name)));
		CHECK(span_eq(http_part(out.data, again.fields[i].value), http_part(bytes, h->fields[i].value)));
	}
	buf_done(&out);
}

/* -- the reader who forgives -------------------------------------------------- */

struct lenient {
	size_t len;
	unsigned fields, hosts, lengths, codings;
	bool chunked;
	uint64_t length;
};

static bool
blank(uint8_t b)
{
	return b <= ' ' || b == 0x7f;
}

static struct span
trim(const uint8_t *p, size_t n)
{
	while (n > 0 && blank(p[0]))
		p++, n--;
	while (n > 0 && blank(p[n - 1]))
		n--;
	return span_of(p, n);
}

static bool
is_name(struct span s, const char *name)
{
	return s.len == strlen(name) && strncasecmp((const char *)s.p, name, s.len) == 0;
}

static void
lenient_line(struct lenient *l, const uint8_t *p, size_t n)
{
	const uint8_t *colon = memchr(p, ':', n);

	if (colon == NULL)
		return;
	struct span name = trim(p, (size_t)(colon - p)), value = trim(colon + 1, n - (size_t)(colon - p) - 1);
	l->fields++;
	l->hosts += is_name(name, "host");
	if (is_name(name, "content-length")) {
		l->lengths++;
		l->length = 0;
		for (size_t i = 0; i < value.len && value.p[i] >= '0' && value.p[i] <= '9'; i++)
			l->length = l->length * 10 + (unsigned)(value.p[i] - '0');
	}
	if (is_name(name, "transfer-encoding")) {
		l->codings++;
		for (size_t i = 0; i + 7 <= value.len; i++)
			l->chunked = l->chunked || strncasecmp((const char *)value.p + i, "chunked", 7) == 0;
	}
}

/* Any CR or LF, or both, end a line; a line that begins with space goes on with the one before; an empty one ends all. */
static struct lenient
read_leniently(const uint8_t *p, size_t n)
{
	struct lenient l = { .len = 0 };
	uint8_t line[HEAD_MAX];
	size_t len = 0, lines = 0;

	for (size_t i = 0; i < n;) {
		size_t from = i;

		while (i < n && p[i] != '\r' && p[i] != '\n')
			i++;
		size_t to = i;
		i += i < n && p[i] == '\r' && i + 1 < n && p[i + 1] == '\n' ? 2 : i < n;
		if (to == from && lines == 0)
			continue;
		if (to > from && lines > 1 && (p[from] == ' ' || p[from] == '\t')) {
			memcpy(line + len, p + from, to - from);
			len += to - from;
			continue;
		}
		if (lines > 1)
			lenient_line(&l, line, len);
		lines++;
		if (to == from) {
			l.len = i;
			break;
		}
		memcpy(line, p + from, to - from);
		len = to - from;
	}
	return l;
}

static void
agree(const struct http_head *h, const uint8_t *bytes)
{
	struct lenient l = read_leniently(bytes, h->len);

	CHECK(l.len == h->len && l.fields == h->field_count && l.hosts == (h->has_host ? 1 : 0));
	CHECK(l.lengths == (h->framing == HTTP_LENGTH) && l.codings == (h->framing == HTTP_CHUNKED));
	CHECK(l.chunked == (h->framing == HTTP_CHUNKED));
	CHECK(h->framing != HTTP_LENGTH || l.length == h->length);
}

/* -- bodies -------------------------------------------------------------------- */

static enum http_scanned
read_chunks(const uint8_t *p, size_t n, size_t step, size_t *end, struct buf *out)
{
	struct http_chunks c;
	enum http_scanned s = HTTP_MORE;

	http_chunks_begin(&c, 256);
	for (*end = 0; s == HTTP_MORE && *end < n;) {
		size_t len = n - *end < step ? n - *end : step, took;
		struct span data;

		s = http_chunks_scan(&c, p + *end, len, &took, &data);
		CHECK(took > 0 && took <= len && data.len <= took);
		buf_putspan(out, data);
		*end += took;
	}
	return s;
}

/* A second reader of what was taken, by strtoull and memchr alone. */
static void
chunks_agree(const uint8_t *p, size_t end, struct span data)
{
	size_t at = 0, got = 0;

	for (;;) {
		const uint8_t *lf = memchr(p + at, '\n', end - at);
		unsigned long long size = strtoull((const char *)p + at, NULL, 16);

		CHECK(lf != NULL);
		at = (size_t)(lf - p) + 1;
		if (size == 0)
			break;
		CHECK(size <= end - at && size <= data.len - got && memcmp(data.p + got, p + at, size) == 0);
		got += size;
		at += size;
		CHECK(end - at >= 2 && p[at] == '\r' && p[at + 1] == '\n');
		at += 2;
	}
	CHECK(got == data.len);
	while (p[at] != '\r' && p[at] != '\n') {		/* the trailer */
		const uint8_t *lf = memchr(p + at, '\n', end - at);

		CHECK(lf != NULL);
		at = (size_t)(lf - p) + 1;
		CHECK(at < end);
	}
	CHECK(at + 2 == end);
}

/* Bytes of the body; 0 with *more false: the connection ends here. */
static size_t
read_body(const struct http_head *h, const uint8_t *p, size_t n, size_t step, bool *more)
{
	struct buf whole = BUF_INIT(1 << 20), pieces = BUF_INIT(1 << 20);
	size_t end, again;
	enum http_scanned s;

	if (h->framing != HTTP_CHUNKED) {
		*more = h->length <= n;
		return *more ? (size_t)h->length : 0;
	}
	s = read_chunks(p, n, n, &end, &whole);
	CHECK(read_chunks(p, n, step, &again, &pieces) == s && again == end);
	CHECK(span_eq(buf_span(&whole), buf_span(&pieces)));
	if (s == HTTP_DONE)
		chunks_agree(p, end, buf_span(&whole));
	buf_done(&whole);
	buf_done(&pieces);
	*more = s == HTTP_DONE;
	return end;
}

/* The first byte: into what pieces the rest is cut. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_head whole, pieces;
	size_t step, at = 1;
	bool more = size > 1;

	step = size == 0 ? 1 : 1 + data[0] % 32;
	for (unsigned i = 0; more && i < REQUESTS_MAX && at < size; i++) {
		uint8_t *p = malloc(size - at + 1);
		enum http_scanned s;
		size_t body = 0;

		CHECK(p != NULL);
		memcpy(p, data + at, size - at);
		p[size - at] = '\0';		/* for strtoull */
		http_head_begin(&whole, HEAD_MAX);
		s = http_head_scan(&whole, p, size - at);
		CHECK(scan_in_steps(&pieces, p, size - at, step) == s);
		CHECK(s != HTTP_BAD || (whole.status >= 400 && whole.status == pieces.status && whole.why == pieces.why));
		more = s == HTTP_DONE;
		if (more) {
			CHECK(whole.len <= HEAD_MAX && whole.len <= size - at);
			same_heads(&whole, &pieces);
			agree(&whole, p);
			write_again(&whole, p);
			body = read_body(&whole, p + whole.len, size - at - whole.len, step, &more);
			more = more && !whole.close;
		}
		at += more ? whole.len + body : 0;
		free(p);
	}
	return 0;
}
