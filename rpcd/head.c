/* The head of an answer. */
#include <microhttpd.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "rpcd/head.h"

/* A value of a key is never a script or a page, whatever its bytes look like to a browser. */
#define NOSNIFF "X-Content-Type-Options"

void
head_fields(const struct rpcd_conf *conf, const struct answer *a, head_field *fn, void *ctx)
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

static void
find_special(void *ctx, const char *name, const char *value)
{
	static const char *const special[] = { "Connection", "Date", "Content-Length", "Transfer-Encoding" };
	bool *found = ctx;

	(void)value;
	for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
		*found = *found || strcasecmp(name, special[i]) == 0;
}

bool
head_plain(const struct rpcd_conf *conf)
{
	static const struct answer none = { .header_count = 0 };
	bool special = false;

	head_fields(conf, &none, find_special, &special);
	return !special;
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
	time_t now = time(NULL);
	struct tm t;

	if (gmtime_r(&now, &t) != NULL)
		buf_printf(out, "Date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n", days + 3 * t.tm_wday, t.tm_mday,
		    months + 3 * t.tm_mon, 1900 + t.tm_year, t.tm_hour, t.tm_min, t.tm_sec);
}

void
head_write(struct buf *out, const struct rpcd_conf *conf, const struct answer *a, enum head_keep keep)
{
	const char *phrase = MHD_get_reason_phrase_len_for(a->status) == 0 ? "Non-Standard Status" :
	    MHD_get_reason_phrase_for(a->status);

	buf_printf(out, "HTTP/1.1 %u %s\r\n", a->status, phrase);
	put_date(out);
	if (keep == HEAD_CLOSE)
		put_field(out, "Connection", "close");
	else if (keep == HEAD_KEEP_10)
		put_field(out, "Connection", "Keep-Alive");
	head_fields(conf, a, put_field, out);
	if (a->status >= 200 && a->status != 204)
		buf_printf(out, "Content-Length: %zu\r\n", a->body.len);
	buf_put(out, "\r\n", 2);
}

bool
head_has_token(const char *list, const char *token)
{
	size_t n = strlen(token);

	for (const char *p = list; *p != '\0'; p += *p == ',') {
		p += strspn(p, " \t");
		size_t len = strcspn(p, ",");
		size_t word = len;

		while (word > 0 && (p[word - 1] == ' ' || p[word - 1] == '\t'))
			word--;
		if (word == n && strncasecmp(p, token, n) == 0)
			return true;
		p += len;
	}
	return false;
}
