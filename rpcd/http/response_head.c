/* The head of an answer. */
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rpcd/http/response_head.h"

/* A value of a key is never a script or a page, whatever its bytes look like to a browser. */
#define NOSNIFF "X-Content-Type-Options"

void
response_head_fields(const struct rpcd_conf *conf, const struct answer *a, response_head_field *fn, void *ctx)
{
	bool own = false;		/* configured otherwise */

	for (unsigned i = 0; i < a->header_count; i++)
		fn(ctx, a->headers[i].name, a->headers[i].value);
	for (size_t i = 0; i < conf->response_headers.count; i++) {
		const char *line = conf->response_headers.items[i];
		const char *colon = strchr(line, ':');
		char name[256];

		if (colon == NULL || !span_copy(span_of(line, (size_t)(colon - line)), name, sizeof(name)))
			continue;
		fn(ctx, name, colon + 1 + strspn(colon + 1, " "));
		own = own || strcasecmp(name, NOSNIFF) == 0;
	}
	if (!own)
		fn(ctx, NOSNIFF, "nosniff");
}

/* libmicrohttpd leaves out what would not be a header, and what would be more than one. */
static void
put_field(void *ctx, const char *name, const char *value)
{
	if (name[0] == '\0' || value[0] == '\0' || strpbrk(name, " \t\r\n") != NULL || strpbrk(value, "\r\n") != NULL)
		return;
	buf_puts(ctx, name);
	buf_put(ctx, ": ", 2);
	buf_puts(ctx, value);
	buf_put(ctx, "\r\n", 2);
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

void
response_head_write(struct buf *out, const struct rpcd_conf *conf, const struct answer *a, enum response_head_keep keep)
{
	const char *phrase = MHD_get_reason_phrase_len_for(a->status) == 0 ? "Non-Standard Status" :
	    MHD_get_reason_phrase_for(a->status);

	buf_printf(out, "HTTP/1.1 %u %s\r\n", a->status, phrase);
	put_date(out);
	if (keep == HEAD_CLOSE)
		put_field(out, "Connection", "close");
	else if (keep == HEAD_KEEP_10)
		put_field(out, "Connection", "Keep-Alive");
	response_head_fields(conf, a, put_field, out);
	if (a->status >= 200 && a->status != 204)
		buf_printf(out, "Content-Length: %zu\r\n", a->body.len);
	buf_put(out, "\r\n", 2);
}
