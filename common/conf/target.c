/* See target.h. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/addr.h"
#include "common/conf/target.h"

#define FORMS "write an address (10.0.0.1, 10.0.0.1:8301, [fd00::1]:8301), a host name, srv:_NAME._tcp.DOMAIN or " \
	"file:/PATH"
#define LABEL_BYTES_MAX 63
#define ADDRESS_TEXT_BYTES 64		/* longer than any */

/* -- addresses -- */

/* The digits behind a colon.  0: they are no port. */
static uint16_t
read_port(const char *digits)
{
	char *stop;
	unsigned long n = digits[0] >= '0' && digits[0] <= '9' ? strtoul(digits, &stop, 10) : 0;

	return n < 1 || n > UINT16_MAX || *stop != '\0' ? 0 : (uint16_t)n;
}

bool
cluster_addr_parse(const char *text, uint16_t port, char ip[ADDR_IP_BYTES], uint16_t *out)
{
	const char *colon = strrchr(text, ':'), *end = text + strlen(text);

	*out = port;
	if (text[0] == '[') {
		const char *close = strchr(text, ']');

		if (close == NULL || (close[1] != '\0' && close[1] != ':'))
			return false;
		colon = close[1] == ':' ? close + 1 : NULL;
		end = close;
		text++;
	} else if (colon != NULL && strchr(text, ':') != colon) {
		colon = NULL;		/* a bare IPv6 address */
	} else if (colon != NULL) {
		end = colon;
	}
	if (colon != NULL && (*out = read_port(colon + 1)) == 0)
		return false;
	return span_copy(span_of(text, (size_t)(end - text)), ip, ADDR_IP_BYTES) && addr_parse(ip, 0, NULL);
}

/* -- names -- */

static bool
is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

static bool
is_letter(uint8_t c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

/* Underscores are in no host name of RFC 1123, and in many of containers. */
static bool
is_label(struct span l)
{
	bool good = l.len >= 1 && l.len <= LABEL_BYTES_MAX && l.p[0] != '-' && l.p[l.len - 1] != '-';

	for (size_t i = 0; i < l.len; i++)
		good = good && (is_digit(l.p[i]) || is_letter(l.p[i]) || l.p[i] == '-' || l.p[i] == '_');
	return good;
}

/*
 * "127.1", "0x7f.1" and the like are addresses for the C library, and slips for those who write them: no top-level
 * domain looks so (RFC 1123, 2.1; RFC 6943, 3.1.1).
 */
static bool
is_number(struct span l)
{
	size_t i = 0;

	if (l.len >= 2 && l.p[0] == '0' && (l.p[1] | 0x20) == 'x')
		for (i = 2; i < l.len && (is_digit(l.p[i]) || ((l.p[i] | 0x20) >= 'a' && (l.p[i] | 0x20) <= 'f'));)
			i++;
	else
		while (i < l.len && is_digit(l.p[i]))
			i++;
	return i == l.len;
}

static struct span
next_label(struct span *rest)
{
	const uint8_t *dot = memchr(rest->p, '.', rest->len);
	struct span label = span_of(rest->p, dot == NULL ? rest->len : (size_t)(dot - rest->p));

	*rest = dot == NULL ? SPAN_NONE : span_of(dot + 1, rest->len - label.len - 1);
	return label;
}

/* NULL, or what is wrong with it; *labels: how many there are, *scopes: how many of the first ones begin with '_'. */
static const char *
check_name(struct span name, unsigned *labels, unsigned *scopes)
{
	struct span label = SPAN_NONE;

	*labels = *scopes = 0;
	for (size_t i = 0; i < name.len; i++)
		if (name.p[i] >= 0x80)
			return "has letters beyond ASCII: write the name as DNS has it (xn--...)";
	if (name.len > 0 && name.p[name.len - 1] == '.')
		name.len--;
	if (name.len > TARGET_NAME_BYTES_MAX)
		return "is too long for a host name (253 bytes, 63 between two dots)";
	do {
		label = next_label(&name);
		if (label.len > LABEL_BYTES_MAX)
			return "is too long for a host name (253 bytes, 63 between two dots)";
		if (!is_label(label))
			return "is not an address, nor a host name: " FORMS;
		*scopes += *scopes == *labels && label.p[0] == '_';
		++*labels;
	} while (name.p != NULL);
	return is_number(label) ? "is not an address, and no host name ends with a number: " FORMS : NULL;
}

/* -- all forms -- */

static bool
has_prefix(struct span text, const char *prefix)
{
	return span_starts(text, span_str(prefix));
}

static struct span
behind(struct span text, const char *prefix)
{
	return span_of(text.p + strlen(prefix), text.len - strlen(prefix));
}

static const char *
read_srv(struct span name, struct dial_target *out)
{
	unsigned labels, scopes;
	const char *wrong;

	*out = (struct dial_target){ .kind = TARGET_SRV, .name = name };
	if (name.len == 0 || memchr(name.p, ':', name.len) != NULL)
		return "is not a name of SRV records: write srv:_NAME._tcp.DOMAIN, without a port, which the records "
		    "have";
	if ((wrong = check_name(name, &labels, &scopes)) != NULL)
		return wrong;
	return labels >= 3 && scopes == 2 ? NULL : "is not a name of SRV records: write srv:_NAME._tcp.DOMAIN";
}

static const char *
read_file(struct span path, struct dial_target *out)
{
	*out = (struct dial_target){ .kind = TARGET_FILE, .name = path };
	if (path.len == 0 || path.p[0] != '/')
		return "does not name a file: write file: and a path that begins with /";
	return path.len > TARGET_PATH_BYTES_MAX ? "has too long a path" : NULL;
}

static const char *
read_host(struct span text, uint16_t port, struct dial_target *out)
{
	const uint8_t *colon = text.len == 0 ? NULL : memchr(text.p, ':', text.len);
	char copy[ADDRESS_TEXT_BYTES];
	unsigned labels, scopes;

	*out = (struct dial_target){ .kind = TARGET_ADDRESS, .port = port };
	if (span_copy(text, copy, sizeof(copy)) && cluster_addr_parse(copy, port, out->ip, &out->port)) {
		bool bare = strchr(out->ip, ':') != NULL && text.p[0] != '[';

		out->has_port = colon != NULL && !bare && text.p[text.len - 1] != ']';
		return NULL;
	}
	*out = (struct dial_target){ .kind = TARGET_NAME, .port = port, .name = text };
	if (text.len == 0)
		return "is no address: " FORMS;
	if (memchr(text.p, '%', text.len) != NULL)
		return "names an interface: addresses of one link alone (fe80::...%eth0) are not dialled; write "
		    "another one of that node's";
	if (colon != NULL) {
		out->name.len = (size_t)(colon - text.p);
		out->has_port = span_copy(span_of(colon + 1, text.len - out->name.len - 1), copy, sizeof(copy)) &&
		    (out->port = read_port(copy)) != 0;
		if (!out->has_port)
			return "is not an address, nor HOST:PORT with a port from 1 to 65535: " FORMS;
	}
	return check_name(out->name, &labels, &scopes);
}

/* As it may stand in a sentence: printable, and cut. */
static void
shown(struct span text, char dst[TARGET_SHOWN_BYTES])
{
	size_t n = 0;

	for (size_t i = 0; i < text.len && n < TARGET_SHOWN_BYTES - 4; i++)
		dst[n++] = text.p[i] >= ' ' && text.p[i] != 0x7f ? (char)text.p[i] : '?';
	snprintf(dst + n, TARGET_SHOWN_BYTES - n, "%s", n < text.len ? "..." : "");
}

enum tv_err
target_parse(struct span text, uint16_t port, struct dial_target *out, char *why)
{
	char quoted[TARGET_SHOWN_BYTES];
	const char *wrong;

	if (has_prefix(text, "provider="))
		wrong = "is cloud auto-join, which is not built in: write a host name that has all their addresses, "
		    "srv:_NAME._tcp.DOMAIN, or file:/PATH of a file that a script keeps";
	else if (text.len > 0 && memchr(text.p, '\0', text.len) != NULL)
		wrong = "has a zero byte";
	else if (has_prefix(text, "srv:"))
		wrong = read_srv(behind(text, "srv:"), out);
	else if (has_prefix(text, "file:"))
		wrong = read_file(behind(text, "file:"), out);
	else
		wrong = read_host(text, port, out);
	if (wrong == NULL)
		return TV_OK;
	shown(text, quoted);
	if (why != NULL)
		snprintf(why, TARGET_WHY_BYTES, "\"%s\" %s", quoted, wrong);
	return TV_EINVAL;
}

/* -- files -- */

static bool
is_blank(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static struct span
without_comment(struct span line)
{
	for (size_t i = 0; i < line.len; i++)
		if (line.p[i] == '#' && (i == 0 || is_blank(line.p[i - 1])))
			line.len = i;
	while (line.len > 0 && is_blank(line.p[line.len - 1]))
		line.len--;
	while (line.len > 0 && is_blank(line.p[0]))
		line = span_of(line.p + 1, line.len - 1);
	return line;
}

bool
target_line(struct span *text, unsigned *number, struct span *line)
{
	if (*number == 0 && has_prefix(*text, "\xef\xbb\xbf"))
		*text = behind(*text, "\xef\xbb\xbf");
	while (text->len > 0) {
		const uint8_t *end = memchr(text->p, '\n', text->len);
		size_t len = end == NULL ? text->len : (size_t)(end - text->p);

		*line = without_comment(span_of(text->p, len));
		*text = span_of(text->p + len + (end != NULL), text->len - len - (end != NULL));
		++*number;
		if (line->len > 0)
			return true;
	}
	return false;
}
