/*
 * Records as lines of JSON, see audit_line.h.  Each text has a bound of its own, in bytes of the line.  Each write to
 * the cluster makes a line, so nothing here goes by way of printf(3) or strftime(3).
 */
#include <stdio.h>

#include "common/base/log.h"
#include "common/text/json_text.h"
#include "rpcd/audit/audit_line.h"

#define WORD_MAX 128		/* node, accessor, operation, path... */
#define NAME_MAX_BYTES 768
#define CERTIFICATE_MAX 256		/* the name in a client's certificate */
#define LISTED_MAX 128		/* each of the names of a transaction */
#define LINE_USUAL 448		/* bytes that hold most lines */
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

/* How many bytes from p on stand for themselves. */
static size_t
plain(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *at = p;

	while (at < end && *at >= 0x20 && *at < 0x7f && *at != '"' && *at != '\\')
		at++;
	return (size_t)(at - p);
}

/* A quoted string; beyond max bytes between its quotes it is cut, and so when `cut` says it is a beginning. */
static void
put_string(struct buf *out, struct span text, size_t max, bool cut)
{
	const uint8_t *p = text.p, *end = text.p + text.len;
	size_t left = max - 3, n, len;		/* "..." */
	char one[ESCAPE_MAX + 1];

	buf_u8(out, '"');
	while (p < end) {
		n = plain(p, end);
		len = n > left ? left : n;
		buf_put(out, p, len);
		left -= len;
		if (len == n && (p += n) == end)
			break;
		len = len < n ? left + 1 : escape(character(p, end, &n), one);
		if (len > left) {
			cut = true;
			break;
		}
		buf_put(out, one, len);
		left -= len;
		p += n;
	}
	buf_puts(out, cut ? "...\"" : "\"");
}

static void
put_field(struct buf *out, const char *name)
{
	buf_put(out, ",\"", 2);
	buf_puts(out, name);
	buf_put(out, "\":", 2);
}

static void
put_word(struct buf *out, const char *field, struct span value)
{
	put_field(out, field);
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
	if (value == 0)
		return;
	put_field(out, field);
	buf_decimal(out, value);
}

static void
put_start(struct buf *out, int64_t wall_ms, const char *node)
{
	char stamp[LOG_TIME_BYTES];

	buf_puts(out, "{\"time\":\"");
	buf_puts(out, log_time(wall_ms, stamp));
	buf_u8(out, '"');
	put_text(out, "node", node);
}

static void
put_names(struct buf *out, const struct audit_record *rec)
{
	uint32_t n = rec->name_count > AUDIT_NAMES_MAX ? AUDIT_NAMES_MAX : rec->name_count;

	if (n == 0)
		return;
	put_field(out, "names");
	buf_u8(out, '[');
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

	(void)buf_room(out, LINE_USUAL);	/* at once; without memory it is out->failed, as anywhere */
	put_start(out, rec->wall_ms, rec->node);
	put_text(out, "client", rec->client);
	if (rec->uid >= 0) {
		put_field(out, "uid");
		buf_decimal(out, (uint64_t)rec->uid);
	}
	if (rec->certificate != NULL) {
		put_field(out, "certificate");
		put_string(out, span_str(rec->certificate), CERTIFICATE_MAX, false);
	}
	put_text(out, "operation", rec->operation);
	put_text(out, "method", rec->method);
	put_text(out, "path", rec->path);
	put_text(out, "resource", rec->resource);
	if (rec->name.len > 0) {
		put_field(out, "name");
		put_string(out, rec->name, NAME_MAX_BYTES, rec->name_cut);
	}
	put_number(out, "operations", rec->operations);
	put_names(out, rec);
	if (rec->datacenter.len > 0)
		put_word(out, "datacenter", rec->datacenter);
	put_text(out, "outcome", outcomes[rec->outcome]);
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
audit_line_lost(int64_t wall_ms, const char *node, uint64_t lines, uint64_t denials, struct buf *out)
{
	put_start(out, wall_ms, node);
	put_text(out, "operation", "audit/lost");
	put_number(out, "lines", lines);
	if (denials > 0)
		put_number(out, "denials", denials);
	buf_u8(out, '}');
}
