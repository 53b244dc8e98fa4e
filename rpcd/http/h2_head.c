/* Heads of HTTP/2 requests.  See h2_head.h. */
#include <stdlib.h>
#include <string.h>

#include "rpcd/http/h2_head.h"

#define FIELD_OVERHEAD 32		/* RFC 9113, 6.5.2 */
#define BOMB_TIMES 4			/* the bytes that a head may have: a client that unpacks more means harm */

struct h2_head *
h2_head_new(size_t max)
{
	struct h2_head *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	/* Pieces are added until max is reached, and each is less than that. */
	buf_init(&h->text, 2 * max + FIELD_OVERHEAD);
	buf_init(&h->pseudo, 2 * max);
	h->text.secret = h->pseudo.secret = true;
	h2_head_begin(h, max);
	return h;
}

void
h2_head_free(struct h2_head *h)
{
	if (h == NULL)
		return;
	buf_done(&h->text);
	buf_done(&h->pseudo);
	free(h);
}

void
h2_head_begin(struct h2_head *h, size_t max)
{
	http_head_begin(&h->scanned, max);
	buf_reset(&h->text);
	buf_reset(&h->pseudo);
	h->method = h->path = h->authority = (struct http_part){ 0, 0 };
	h->unpacked = 0;
	h->has_authority = h->lined = h->differs = h->failed = false;
}

static struct http_part
keep_pseudo(struct h2_head *h, struct span value)
{
	struct http_part p = { (uint32_t)h->pseudo.len, (uint32_t)value.len };

	buf_putspan(&h->pseudo, value);
	return p;
}

static struct span
pseudo_of(const struct h2_head *h, struct http_part p)
{
	return p.len == 0 || h->pseudo.failed ? SPAN_NONE : http_part(h->pseudo.data, p);
}

static void
take_pseudo(struct h2_head *h, struct span name, struct span value)
{
	if (span_eqs(name, ":method")) {
		h->method = keep_pseudo(h, value);
	} else if (span_eqs(name, ":path")) {
		h->path = keep_pseudo(h, value);
	} else if (span_eqs(name, ":authority")) {
		h->authority = keep_pseudo(h, value);
		h->has_authority = true;
	}
}

static void
put_field(struct h2_head *h, struct span name, struct span value)
{
	buf_putspan(&h->text, name);
	buf_put(&h->text, ": ", 2);
	buf_putspan(&h->text, value);
	buf_put(&h->text, "\r\n", 2);
}

/* The pseudo-fields are complete. */
static void
put_request_line(struct h2_head *h)
{
	if (h->lined)
		return;
	h->lined = true;
	buf_putspan(&h->text, pseudo_of(h, h->method));
	buf_puts(&h->text, " ");
	buf_putspan(&h->text, pseudo_of(h, h->path));
	buf_puts(&h->text, " HTTP/1.1\r\n");
	if (h->has_authority)
		put_field(h, span_str("host"), pseudo_of(h, h->authority));
}

bool
h2_head_field(struct h2_head *h, struct span name, struct span value)
{
	size_t max = h->scanned.max;

	h->unpacked += name.len + value.len + FIELD_OVERHEAD;
	if (h->unpacked > BOMB_TIMES * max)
		return false;
	if (h->unpacked > max)
		return true;
	if (name.len > 0 && name.p[0] == ':') {
		take_pseudo(h, name, value);
		return true;
	}
	put_request_line(h);
	/* The same host said twice is no other request: a proxy makes :authority of Host, and may leave that. */
	if (h->has_authority && span_eqs(name, "host"))
		h->differs = h->differs || !span_eq(value, pseudo_of(h, h->authority));
	else
		put_field(h, name, value);
	return true;
}

static enum http_scanned
refuse_head(struct h2_head *h, unsigned status, const char *why)
{
	h->scanned.status = status;
	h->scanned.why = why;
	return HTTP_BAD;
}

enum http_scanned
h2_head_end(struct h2_head *h, bool body)
{
	struct http_head *s = &h->scanned;
	enum http_scanned what;

	put_request_line(h);
	buf_puts(&h->text, "\r\n");
	if (h->text.failed || h->pseudo.failed) {
		h->failed = true;
		return HTTP_MORE;
	}
	if (h->unpacked > s->max)
		return refuse_head(h, 431, "the head is longer than limits.header_bytes_max in rpcd.conf");
	if (h->differs)
		return refuse_head(h, 400, "Host is not :authority");
	what = http_head_scan(s, h->text.data, h->text.len);
	if (what == HTTP_MORE || (what == HTTP_DONE && s->len != h->text.len))
		return refuse_head(h, 400, "the head does not end where its fields do");
	if (what == HTTP_DONE && s->framing == HTTP_NO_BODY && body)
		s->framing = HTTP_CHUNKED;	/* until the stream's end */
	return what;
}
