/* Records as lines of JSON, see audit_line.h.  Each text has a bound of its own, in bytes of the line. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/text/json_text.h"
#include "rpcd/audit/audit_line.h"

#define WORD_MAX 128		/* node, accessor, operation, path... */
#define NAME_MAX_BYTES 768
#define LISTED_MAX 128		/* each of the names of a transaction */
#define ESCAPE_MAX 12		/* bytes that one character becomes: a pair of surrogates */

/* The character at p, as UTF-8 has it; *n: its bytes.  What is no UTF-8 is the replacement character. */
static uint32_t
character(const uint8_t *p, const uint8_t *end, size_t *n)
{
	uint32_t c = *p;

	*n = 1;
	if (c < 0x80)
		return c;
	size_t len = utf8_length(p, end);
	if (len == 0)
		return 0xfffd;
	*n = len;
	c &= 0x7fu >> len;
	for (size_t i = 1; i < len; i++)
		c = c << 6 | (p[i] & 0x3f);
	return c;
}

/* Into one[]; its length. */
static size_t
escape(uint32_t c, char one[ESCAPE_MAX + 1])
{
	if (c == '"' || c == '\\') {
		one[0] = '\\';
		one[1] = (char)c;
		return 2;
	}
	if (c >= 0x20 && c < 0x7f) {
		one[0] = (char)c;
		return 1;
	}
	if (c < 0x10000)
		return (size_t)snprintf(one, ESCAPE_MAX + 1, "\\u%04x", (unsigned)c);
	c -= 0x10000;
	return (size_t)snprintf(one, ESCAPE_MAX + 1, "\\u%04x\\u%04x", (unsigned)(0xd800 + (c >> 10)),
	    (unsigned)(0xdc00 + (c & 0x3ff)));
}

/* A quoted string; beyond max bytes between its quotes it is cut, and so when `cut` says it is a beginning. */
static void
put_string(struct buf *out, struct span text, size_t max, bool cut)
{
	const uint8_t *p = text.p, *end = text.p + text.len;
	char one[ESCAPE_MAX + 1];
	size_t used = 0, n, len;

	buf_u8(out, '"');
	while (p < end) {
		len = escape(character(p, end, &n), one);
		if (used + len + 3 > max) {
			cut = true;
			break;
		}
		buf_put(out, one, len);
		used += len;
		p += n;
	}
	buf_puts(out, cut ? "...\"" : "\"");
}

static void
put_word(struct buf *out, const char *field, struct span value)
{
	buf_printf(out, ",\"%s\":", field);
	put_string(out, value, WORD_MAX, false);
}

static void
put_text(struct buf *out, const char *field, const char *value)
{
	if (value != NULL)
		put_word(out, field, span_str(value));
}

static void
put_number(struct buf *out, const char *field, uint64_t value)
{
	if (value > 0)
		buf_printf(out, ",\"%s\":%" PRIu64, field, value);
}

static void
put_start(struct buf *out, int64_t wall_ms, const char *node)
{
	char stamp[LOG_TIME_BYTES];

	buf_printf(out, "{\"time\":\"%s\"", log_time(wall_ms, stamp));
	put_text(out, "node", node);
}

static void
put_names(struct buf *out, const struct audit_record *rec)
{
	uint32_t n = rec->name_count > AUDIT_NAMES_MAX ? AUDIT_NAMES_MAX : rec->name_count;

	if (n == 0)
		return;
	buf_puts(out, ",\"names\":[");
	for (uint32_t i = 0; i < n; i++) {
		if (i > 0)
			buf_u8(out, ',');
		put_string(out, rec->names[i], LISTED_MAX, false);
	}
	buf_u8(out, ']');
}

void
audit_line(const struct audit_record *rec, struct buf *out)
{
	static const char *const outcomes[] = {
		[AUDIT_OK] = "ok", [AUDIT_DENIED] = "denied", [AUDIT_FAILED] = "failed", [AUDIT_UNKNOWN] = "unknown",
	};

	put_start(out, rec->wall_ms, rec->node);
	put_text(out, "client", rec->client);
	if (rec->uid >= 0)
		buf_printf(out, ",\"uid\":%" PRId64, rec->uid);
	put_text(out, "operation", rec->operation);
	put_text(out, "method", rec->method);
	put_text(out, "path", rec->path);
	put_text(out, "resource", rec->resource);
	if (rec->name.len > 0) {
		buf_puts(out, ",\"name\":");
		put_string(out, rec->name, NAME_MAX_BYTES, rec->name_cut);
	}
	put_number(out, "operations", rec->operations);
	put_names(out, rec);
	if (rec->datacenter.len > 0)
		put_word(out, "datacenter", rec->datacenter);
	buf_printf(out, ",\"outcome\":\"%s\"", outcomes[rec->outcome]);
	put_number(out, "status", rec->status);
	put_number(out, "index", rec->index);
}

void
audit_line_end(struct span accessor, struct buf *out)
{
	put_word(out, "accessor", accessor);
	buf_u8(out, '}');
}

void
audit_line_lost(int64_t wall_ms, const char *node, uint64_t lines, struct buf *out)
{
	put_start(out, wall_ms, node);
	buf_printf(out, ",\"operation\":\"audit/lost\",\"lines\":%" PRIu64 "}", lines);
}
