/* Heads of HTTP/1.1 requests, and chunks.  See http_scan.h. */
#include <string.h>

#include "common/base/hex.h"
#include "rpcd/http/http_scan.h"

#define LENGTH_DIGITS_MAX 40		/* zeros at the front included */
#define CHUNK_DIGITS_MAX 16		/* 64 bits */

/* -- bytes ------------------------------------------------------------------ */

static bool
is_alnum(uint8_t b)
{
	return (b >= '0' && b <= '9') || ((b | 0x20) >= 'a' && (b | 0x20) <= 'z');
}

/* tchar of RFC 9110, 5.6.2. */
static bool
is_tchar(uint8_t b)
{
	return is_alnum(b) || b == '-' || (b != '\0' && strchr("!#$%&'*+.^_`|~", b) != NULL);
}

/* What a line may hold: no control character but the tab.  Bytes above 0x7f are obs-text. */
static bool
is_text(uint8_t b)
{
	return b == '\t' || (b >= ' ' && b != 0x7f);
}

static bool
is_space(uint8_t b)
{
	return b == ' ' || b == '\t';
}

static bool
is_token(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n && is_tchar(p[i]))
		i++;
	return n > 0 && i == n;
}

/* word: lower case. */
static bool
same(const uint8_t *p, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t b = p[i] >= 'A' && p[i] <= 'Z' ? (uint8_t)(p[i] | 0x20) : p[i];

		if (word[i] == '\0' || b != (uint8_t)word[i])
			return false;
	}
	return word[n] == '\0';
}

static enum http_scanned
bad(struct http_head *h, unsigned status, const char *why)
{
	h->status = status;
	h->why = why;
	return HTTP_BAD;
}

static struct http_part
part(size_t from, size_t to)
{
	return (struct http_part){ (uint32_t)from, (uint32_t)(to - from) };
}

/* -- hosts -------------------------------------------------------------------- */

static size_t
host_bracketed(const uint8_t *p, size_t n)
{
	size_t i = 1;

	while (i < n && (hex_value(p[i]) >= 0 || p[i] == ':' || p[i] == '.'))
		i++;
	return i > 1 && i < n && p[i] == ']' ? i + 1 : 0;
}

/* uri-host [ ":" port ] of RFC 9110, 7.2.  A list of two hosts, a path or a user is none. */
static bool
is_host(const uint8_t *p, size_t n)
{
	size_t i = 0;

	if (n > 0 && p[0] == '[') {
		i = host_bracketed(p, n);
		if (i == 0)
			return false;
	} else {
		while (i < n && (is_alnum(p[i]) || (p[i] != '\0' && strchr("-._~!$&'()*+;=%", p[i]) != NULL)))
			i++;
	}
	if (i == n)
		return true;
	if (p[i++] != ':')
		return false;
	while (i < n && p[i] >= '0' && p[i] <= '9')
		i++;
	return i == n;
}

/* -- the request line ----------------------------------------------------------- */

/* Sets form, target, and the host of an absolute one. */
static bool
take_target(struct http_head *h, const uint8_t *bytes, size_t from, size_t to)
{
	const uint8_t *p = bytes + from;
	size_t n = to - from, host_end;

	for (size_t i = 0; i < n; i++)
		if (p[i] == '\t' || p[i] == '#')
			return false;
	h->target = part(from, to);
	if (n > 0 && p[0] == '/') {
		h->form = HTTP_ORIGIN;
		return true;
	}
	if (n == 1 && p[0] == '*') {
		h->form = HTTP_ASTERISK;
		return same(bytes + h->method.at, h->method.len, "options");
	}
	if (n < 7 || !same(p, 7, "http://"))
		return false;		/* the name of a host, as CONNECT has it, or nothing at all */
	host_end = 7;
	while (host_end < n && p[host_end] != '/' && p[host_end] != '?')
		host_end++;
	h->form = HTTP_ABSOLUTE;
	h->host = part(from + 7, from + host_end);
	h->target = part(from + host_end, to);
	return host_end > 7 && is_host(p + 7, host_end - 7);
}

static enum http_scanned
take_request_line(struct http_head *h, const uint8_t *bytes, size_t from, size_t to)
{
	const uint8_t *p = bytes + from, *end = bytes + to;
	const uint8_t *first = memchr(p, ' ', to - from);
	const uint8_t *second = first == NULL ? NULL : memchr(first + 1, ' ', (size_t)(end - first) - 1);

	if (second == NULL)
		return bad(h, 400, "a request line must be METHOD TARGET HTTP/1.1");
	if (!is_token(p, (size_t)(first - p)))
		return bad(h, 400, "the method is not a token");
	h->method = part(from, (size_t)(first - bytes));
	if (end - second != 9 || memcmp(second + 1, "HTTP/", 5) != 0 || second[6] < '0' || second[6] > '9' ||
	    second[7] != '.' || second[8] < '0' || second[8] > '9')
		return bad(h, 400, "a request line must end in HTTP/1.1");
	if (second[6] != '1')
		return bad(h, 505, "this server speaks HTTP/1.1 and HTTP/1.0");
	h->minor = second[8] == '0' ? 0 : 1;
	if (!take_target(h, bytes, (size_t)(first + 1 - bytes), (size_t)(second - bytes)))
		return bad(h, 400, "the target is neither a path nor http://host/path");
	return HTTP_MORE;
}

/* -- fields that frame -------------------------------------------------------------- */

static enum http_scanned
take_length(struct http_head *h, const uint8_t *p, size_t n)
{
	if (h->has_length)
		return bad(h, 400, "two Content-Length");
	h->has_length = true;
	if (n == 0 || n > LENGTH_DIGITS_MAX)
		return bad(h, 400, "Content-Length is not a number");
	for (size_t i = 0; i < n; i++) {
		unsigned digit = (unsigned)p[i] - '0';

		if (digit > 9)
			return bad(h, 400, "Content-Length is not a number");
		if (h->length > (UINT64_MAX - digit) / 10)
			return bad(h, 400, "Content-Length is beyond 64 bits");
		h->length = h->length * 10 + digit;
	}
	return HTTP_MORE;
}

static enum http_scanned
take_coding(struct http_head *h, const uint8_t *p, size_t n)
{
	if (h->has_coding)
		return bad(h, 400, "two Transfer-Encoding");
	h->has_coding = true;
	if (!same(p, n, "chunked"))
		return bad(h, 400, "the only supported Transfer-Encoding is chunked");
	return HTTP_MORE;
}

static enum http_scanned
take_host(struct http_head *h, const uint8_t *p, size_t n, struct http_part value)
{
	if (h->has_host)
		return bad(h, 400, "two Host");
	h->has_host = true;
	if (!is_host(p, n))
		return bad(h, 400, "Host is not a valid host");
	if (h->form != HTTP_ABSOLUTE)	/* else the target says it: RFC 9112, 3.2.2 */
		h->host = value;
	return HTTP_MORE;
}

static void
take_connection(struct http_head *h, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t from, to;

		while (i < n && is_space(p[i]))
			i++;
		from = i;
		while (i < n && p[i] != ',')
			i++;
		for (to = i; to > from && is_space(p[to - 1]); to--)
			;
		h->close = h->close || same(p + from, to - from, "close");
		h->keep_alive = h->keep_alive || same(p + from, to - from, "keep-alive");
	}
}

/* One that says where the request ends, or which host is meant. */
static enum http_scanned
take_meaning(struct http_head *h, const uint8_t *bytes, const struct http_field *f)
{
	const uint8_t *name = bytes + f->name.at, *value = bytes + f->value.at;
	size_t n = f->value.len;

	switch (f->name.len) {
	case 4:
		return same(name, 4, "host") ? take_host(h, value, n, f->value) : HTTP_MORE;
	case 6:
		if (same(name, 6, "expect"))
			h->expects = h->expects || same(value, n, "100-continue");
		return HTTP_MORE;
	case 10:
		if (same(name, 10, "connection"))
			take_connection(h, value, n);
		return HTTP_MORE;
	case 14:
		return same(name, 14, "content-length") ? take_length(h, value, n) : HTTP_MORE;
	case 17:
		return same(name, 17, "transfer-encoding") ? take_coding(h, value, n) : HTTP_MORE;
	default:
		return HTTP_MORE;
	}
}

/* -- fields ---------------------------------------------------------------------------- */

static enum http_scanned
take_field(struct http_head *h, const uint8_t *bytes, size_t from, size_t to)
{
	const uint8_t *colon = memchr(bytes + from, ':', to - from);
	struct http_field *f = &h->fields[h->field_count];
	size_t at;

	if (is_space(bytes[from]))
		return bad(h, 400, "a header line is folded");
	if (colon == NULL || !is_token(bytes + from, (size_t)(colon - bytes) - from))
		return bad(h, 400, "a header line must be \"Name: value\", without a space before the colon");
	if (h->field_count == HTTP_FIELDS_MAX)
		return bad(h, 431, "too many header lines");
	at = (size_t)(colon - bytes);
	f->name = part(from, at);
	for (at++; at < to && is_space(bytes[at]); at++)
		;
	while (to > at && is_space(bytes[to - 1]))
		to--;
	f->value = part(at, to);
	h->field_count++;
	return take_meaning(h, bytes, f);
}

/* The empty line: do the fields agree? */
static enum http_scanned
take_end(struct http_head *h, size_t end)
{
	if (h->minor == 1 && !h->has_host)
		return bad(h, 400, "Host is missing");
	if (h->has_length && h->has_coding)
		return bad(h, 400, "both Content-Length and Transfer-Encoding");
	if (h->has_coding && h->minor == 0)
		return bad(h, 400, "Transfer-Encoding in HTTP/1.0");
	h->framing = h->has_coding ? HTTP_CHUNKED : h->has_length ? HTTP_LENGTH : HTTP_NO_BODY;
	h->len = end;
	return HTTP_DONE;
}

static enum http_scanned
take_line(struct http_head *h, const uint8_t *bytes, size_t from, size_t to)
{
	if (h->begun)
		return to == from ? take_end(h, to + 2) : take_field(h, bytes, from, to);
	if (to > from) {
		h->begun = true;
		return take_request_line(h, bytes, from, to);
	}
	if (h->blank)
		return bad(h, 400, "empty lines before the request");
	h->blank = true;		/* one is forgiven: RFC 9112, 2.2 */
	return HTTP_MORE;
}

/* Where the line ends whose begin was looked at already; HTTP_MORE: nowhere yet. */
static enum http_scanned
find_end(struct http_head *h, const uint8_t *bytes, size_t n)
{
	size_t i = h->looked;

	while (i < n && is_text(bytes[i]))
		i++;
	h->looked = i;
	if (i == n || (bytes[i] == '\r' && i + 1 == n))
		return HTTP_MORE;
	if (bytes[i] == '\r' && bytes[i + 1] == '\n')
		return HTTP_DONE;
	return bad(h, 400, bytes[i] == '\n' || bytes[i] == '\r' ? "lines must end in CR LF, and neither may occur "
	    "elsewhere" :
	    "a control character");
}

void
http_head_begin(struct http_head *h, size_t max)
{
	/* The fields may be what they were. */
	memset(h, 0, offsetof(struct http_head, fields));
	memset((uint8_t *)h + offsetof(struct http_head, status), 0, sizeof(*h) - offsetof(struct http_head, status));
	h->max = max < UINT32_MAX ? max : UINT32_MAX;
}

enum http_scanned
http_head_scan(struct http_head *h, const uint8_t *bytes, size_t n)
{
	size_t see = n < h->max ? n : h->max;
	enum http_scanned s;

	while ((s = find_end(h, bytes, see)) == HTTP_DONE) {
		size_t from = h->line, to = h->looked;

		h->line = h->looked = to + 2;
		s = take_line(h, bytes, from, to);
		if (s != HTTP_MORE)
			return s;
	}
	if (s == HTTP_MORE && n >= h->max)
		return h->begun ? bad(h, 431, "the head is longer than limits.header_bytes_max in rpcd.conf") :
		    bad(h, 414, "the request line is longer than limits.header_bytes_max in rpcd.conf");
	return s;
}

struct span
http_part(const uint8_t *bytes, struct http_part p)
{
	return span_of(bytes + p.at, p.len);
}

const struct http_field *
http_head_find(const struct http_head *h, const uint8_t *bytes, const char *name)
{
	for (unsigned i = 0; i < h->field_count; i++)
		if (same(bytes + h->fields[i].name.at, h->fields[i].name.len, name))
			return &h->fields[i];
	return NULL;
}

unsigned
http_head_count(const struct http_head *h, const uint8_t *bytes, const char *name)
{
	unsigned count = 0;

	for (unsigned i = 0; i < h->field_count; i++)
		count += same(bytes + h->fields[i].name.at, h->fields[i].name.len, name);
	return count;
}

/* -- chunks -------------------------------------------------------------------------------- */

enum chunk_state {
	CHUNK_SIZE, CHUNK_SPACE, CHUNK_EXT, CHUNK_LF,	/* "5 ;ext" CR LF */
	CHUNK_DATA, CHUNK_DATA_CR, CHUNK_DATA_LF,
	TRAILER_START, TRAILER_NAME, TRAILER_VALUE, TRAILER_LF, TRAILER_END, CHUNK_DONE
};

void
http_chunks_begin(struct http_chunks *c, size_t trailer_max)
{
	*c = (struct http_chunks){ .state = CHUNK_SIZE, .trailer_max = trailer_max };
}

static bool
chunk_size(struct http_chunks *c, uint8_t b)
{
	int v = hex_value(b);

	if (v >= 0) {
		c->why = "a chunk's size is beyond 64 bits";
		if (++c->digits > CHUNK_DIGITS_MAX)
			return false;
		c->left = c->left << 4 | (unsigned)v;
		return true;
	}
	c->why = "a chunk's size is not a hexadecimal number";
	c->state = b == '\r' ? CHUNK_LF : b == ';' ? CHUNK_EXT : CHUNK_SPACE;
	return c->digits > 0 && (b == '\r' || b == ';' || is_space(b));
}

/* Extensions are nothing to us; but they are neither endless nor lines of their own. */
static bool
chunk_extension(struct http_chunks *c, uint8_t b)
{
	c->why = "a chunk's extensions are too long";
	if (++c->extensions > HTTP_EXTENSIONS_MAX || ++c->line > HTTP_CHUNK_LINE_MAX)
		return false;
	c->why = "a chunk's line is malformed";
	if (c->state == CHUNK_SPACE) {
		c->state = b == ';' ? CHUNK_EXT : CHUNK_SPACE;
		return b == ';' || is_space(b);
	}
	if (b == '\r')
		c->state = CHUNK_LF;
	return b == '\r' || is_text(b);
}

static bool
chunk_line_end(struct http_chunks *c, uint8_t b)
{
	c->why = "a chunk's line does not end in CR LF";
	c->state = c->left > 0 ? CHUNK_DATA : TRAILER_START;
	c->digits = c->line = 0;
	return b == '\n';
}

static bool
chunk_trailer(struct http_chunks *c, uint8_t b)
{
	c->why = "the trailer is longer than limits.header_bytes_max in rpcd.conf";
	if (++c->trailer > c->trailer_max)
		return false;
	c->why = "a trailer line is malformed";
	switch (c->state) {
	case TRAILER_START:
		c->state = b == '\r' ? TRAILER_END : TRAILER_NAME;
		return b == '\r' || is_tchar(b);
	case TRAILER_NAME:
		if (b == ':')
			c->state = TRAILER_VALUE;
		return b == ':' || is_tchar(b);
	case TRAILER_VALUE:
		if (b == '\r')
			c->state = TRAILER_LF;
		return b == '\r' || is_text(b);
	default:
		c->state = c->state == TRAILER_LF ? TRAILER_START : CHUNK_DONE;
		return b == '\n';
	}
}

/* One byte that is not data. */
static bool
chunk_byte(struct http_chunks *c, uint8_t b)
{
	switch (c->state) {
	case CHUNK_SIZE:
		return chunk_size(c, b);
	case CHUNK_SPACE:
	case CHUNK_EXT:
		return chunk_extension(c, b);
	case CHUNK_LF:
		return chunk_line_end(c, b);
	case CHUNK_DATA_CR:
	case CHUNK_DATA_LF:
		c->why = "no CR LF after a chunk";
		if (c->state == CHUNK_DATA_CR) {
			c->state = CHUNK_DATA_LF;
			return b == '\r';
		}
		c->state = CHUNK_SIZE;
		return b == '\n';
	default:
		return chunk_trailer(c, b);
	}
}

enum http_scanned
http_chunks_scan(struct http_chunks *c, const uint8_t *bytes, size_t n, size_t *took, struct span *data)
{
	size_t i = 0;

	*data = SPAN_NONE;
	while (i < n && c->state != CHUNK_DATA && c->state != CHUNK_DONE)
		if (!chunk_byte(c, bytes[i++])) {
			*took = i;
			return HTTP_BAD;
		}
	if (i < n && c->state == CHUNK_DATA) {
		size_t piece = c->left < n - i ? (size_t)c->left : n - i;

		*data = span_of(bytes + i, piece);
		i += piece;
		c->left -= piece;
		if (c->left == 0)
			c->state = CHUNK_DATA_CR;
	}
	*took = i;
	return c->state == CHUNK_DONE ? HTTP_DONE : HTTP_MORE;
}
