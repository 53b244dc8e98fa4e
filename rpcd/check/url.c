/* See url.h; the rules are those of net/url: setPath, validEncoded and escape with encodePath. */
#include <string.h>

#include "common/base/addr.h"
#include "common/base/hex.h"
#include "rpcd/check/url.h"

struct span
url_unbracketed(struct span host)
{
	struct addr a;

	if (host.len < 2 || host.p[0] != '[' || host.p[host.len - 1] != ']' ||
	    !addr_parse_span(span_of(host.p + 1, host.len - 2), 0, &a) || a.len != 4)
		return host;
	return span_of(host.p + 1, host.len - 2);
}

static bool
is_plain(uint8_t c, const char *others)
{
	return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9') ||
	    (c != 0 && strchr(others, c) != NULL);
}

static bool
is_escape(struct span path, size_t i)
{
	return i + 2 < path.len && hex_value(path.p[i + 1]) >= 0 && hex_value(path.p[i + 2]) >= 0;
}

/* False: it is malformed. */
static bool
put_path(struct span path, struct buf *out)
{
	bool valid = true;

	for (size_t i = 0; i < path.len; i++) {
		if (path.p[i] == '%' && !is_escape(path, i))
			return false;
		valid = valid && is_plain(path.p[i], "-_.~!$&'()*+,;=:@[]/%");
	}
	for (size_t i = 0; i < path.len; i++) {
		bool escape = !valid && path.p[i] == '%';
		uint8_t c = escape ? (uint8_t)(hex_value(path.p[i + 1]) << 4 | hex_value(path.p[i + 2])) : path.p[i];

		i += escape ? 2 : 0;
		if (valid || is_plain(c, "-_.~$&+,/:;=@"))
			buf_u8(out, c);
		else
			buf_printf(out, "%%%02X", c);
	}
	return true;
}

/* "user:password@[10.0.0.1]:80" */
static void
put_authority(struct span authority, struct buf *out)
{
	const uint8_t *at = memrchr(authority.p, '@', authority.len), *end = memrchr(authority.p, ']', authority.len);
	size_t from = at == NULL ? 0 : (size_t)(at - authority.p) + 1;
	size_t to = end == NULL || (size_t)(end - authority.p) < from ? authority.len : (size_t)(end - authority.p) + 1;

	buf_put(out, authority.p, from);
	buf_putspan(out, url_unbracketed(span_of(authority.p + from, to - from)));
	buf_put(out, authority.p + to, authority.len - to);
}

static size_t
find_any(struct span s, size_t from, const char *any)
{
	while (from < s.len && (s.p[from] == 0 || strchr(any, s.p[from]) == NULL))
		from++;
	return from;
}

bool
url_to_ask(struct span url, struct buf *out)
{
	const uint8_t *sep = url.len < 3 ? NULL : memmem(url.p, url.len, "://", 3);
	size_t host = sep == NULL ? 0 : (size_t)(sep - url.p) + 3, path, query;

	url.len = find_any(url, 0, "#");
	if (sep == NULL || host > url.len) {
		buf_putspan(out, url);		/* no URL of ours: libcurl's parser says so */
		return true;
	}
	path = find_any(url, host, "/?");
	query = find_any(url, path, "?");
	buf_put(out, url.p, host);
	put_authority(span_of(url.p + host, path - host), out);
	if (!put_path(span_of(url.p + path, query - path), out))
		return false;
	for (size_t i = query; i < url.len; i++) {
		if (url.p[i] == ' ')
			buf_puts(out, "%20");
		else
			buf_u8(out, url.p[i]);
	}
	return true;
}
