/* The head of an answer. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rpcd/http/response_head.h"

/* A value of a key is never a script or a page, whatever its bytes look like to a browser. */
#define NOSNIFF "X-Content-Type-Options"

static const struct {
	unsigned status;
	const char *phrase;
} phrases[] = {
	{ 200, "OK" }, { 204, "No Content" }, { 301, "Moved Permanently" }, { 400, "Bad Request" },
	{ 401, "Unauthorized" }, { 403, "Forbidden" }, { 404, "Not Found" }, { 405, "Method Not Allowed" },
	{ 409, "Conflict" }, { 413, "Content Too Large" }, { 414, "URI Too Long" },
	{ 415, "Unsupported Media Type" }, { 429, "Too Many Requests" }, { 431, "Request Header Fields Too Large" },
	{ 500, "Internal Server Error" }, { 501, "Not Implemented" }, { 502, "Bad Gateway" },
	{ 503, "Service Unavailable" }, { 504, "Gateway Timeout" }, { 505, "HTTP Version Not Supported" },
};

const char *
response_head_phrase(unsigned status)
{
	for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++)
		if (phrases[i].status == status)
			return phrases[i].phrase;
	return "Non-Standard Status";
}

static bool
is_token(const char *name)
{
	return name[0] != '\0' && strpbrk(name, " \t\r\n") == NULL;
}

static bool
is_one_line(const char *value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (value[i] == '\r' || value[i] == '\n')
			return false;
	return n > 0;
}

/* name: a token.  A value that would be none, or more than one, is left out. */
static void
put_field(struct buf *out, const char *name, const char *value)
{
	size_t n = strlen(name), len = strlen(value);
	uint8_t *to = is_one_line(value, len) ? buf_add(out, n + len + 4) : NULL;

	if (to == NULL)
		return;
	memcpy(to, name, n);
	memcpy(to + n, ": ", 2);
	memcpy(to + n + 2, value, len);
	memcpy(to + n + 2 + len, "\r\n", 2);
}

/* The answer's own, then the configured ones. */
static void
put_fields(struct buf *out, const struct rpcd_conf *conf, const struct answer *a)
{
	bool own = false;		/* configured otherwise */

	for (unsigned i = 0; i < a->header_count; i++)
		put_field(out, a->headers[i].name, a->headers[i].value);
	for (size_t i = 0; i < conf->response_headers.count; i++) {
		const char *line = conf->response_headers.items[i];
		const char *colon = strchr(line, ':');
		char name[256];

		if (colon == NULL || !span_copy(span_of(line, (size_t)(colon - line)), name, sizeof(name)) ||
		    !is_token(name))
			continue;
		put_field(out, name, colon + 1 + strspn(colon + 1, " "));
		own = own || strcasecmp(name, NOSNIFF) == 0;
	}
	if (!own)
		put_field(out, NOSNIFF, "nosniff");
}

static void
put_date(struct buf *out)
{
	static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	static char text[64];			/* of this second */
	static time_t written;
	time_t now = time(NULL);
	struct tm t;

	if (now != written && gmtime_r(&now, &t) != NULL) {
		snprintf(text, sizeof(text), "Date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n", days + 3 * t.tm_wday,
		    t.tm_mday, months + 3 * t.tm_mon, (1900 + t.tm_year) % 10000, t.tm_hour, t.tm_min, t.tm_sec);
		written = now;
	}
	buf_puts(out, text);
}

static void
put_length(struct buf *out, uint64_t bytes)
{
	buf_puts(out, "Content-Length: ");
	buf_decimal(out, bytes);
	buf_put(out, "\r\n", 2);
}

void
response_head_write(struct buf *out, const struct rpcd_conf *conf, const struct answer *a, enum response_head_keep keep,
    uint64_t body_bytes)
{
	buf_puts(out, "HTTP/1.1 ");
	buf_decimal(out, a->status);
	buf_u8(out, ' ');
	buf_puts(out, response_head_phrase(a->status));
	buf_put(out, "\r\n", 2);
	put_date(out);
	if (keep == HEAD_CLOSE)
		put_field(out, "Connection", "close");
	else if (keep == HEAD_KEEP_10)
		put_field(out, "Connection", "Keep-Alive");
	put_fields(out, conf, a);
	if (body_bytes == HEAD_CHUNKED)
		put_field(out, "Transfer-Encoding", "chunked");
	else if (body_bytes != HEAD_TO_END && a->status >= 200 && a->status != 204)
		put_length(out, body_bytes);
	buf_put(out, "\r\n", 2);
}
