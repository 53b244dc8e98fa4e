/* See hostport.h; the words are those of Go's net.SplitHostPort where it has any. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/hostport.h"

#define PORT_MAX 65535

static struct span
until(struct span s, const uint8_t *end)
{
	return span_of(s.p, (size_t)(end - s.p));
}

static struct span
behind(struct span s, const uint8_t *at)
{
	return span_of(at + 1, (size_t)(s.p + s.len - at - 1));
}

static const char *
take_port(struct span text, struct hostport *out)
{
	char *end;

	if (text.len == 0)
		return "missing port in address";
	if (!span_copy(text, out->service, sizeof(out->service)))
		return "unknown port";
	for (const char *c = out->service; *c != '\0'; c++)
		if (!isalnum((unsigned char)*c) && strchr("-_.+", *c) == NULL)
			return "unknown port";
	if (!isdigit((unsigned char)out->service[0]))
		return NULL;
	unsigned long n = strtoul(out->service, &end, 10);
	if (*end != '\0')
		return NULL;		/* "9pfs" */
	if (n == 0 || n > PORT_MAX)
		return "invalid port: it is a number from 1 to 65535";
	out->port = (uint16_t)n;
	out->service[0] = '\0';
	return NULL;
}

static bool
zone_is_number(const char *zone)
{
	for (const char *c = zone; *c != '\0'; c++)
		if (!isdigit((unsigned char)*c))
			return false;
	return zone[0] != '\0' && strlen(zone) < 10;
}

static const char *
take_host(struct span text, struct hostport *out)
{
	const char *zone;

	if (!span_copy(text, out->host, sizeof(out->host)))
		return "the host is longer than 255 bytes";
	if (text.len == 0)
		snprintf(out->host, sizeof(out->host), "127.0.0.1");
	if (strpbrk(out->host, " \t/@?#") != NULL)
		return "the host is no name of a host";
	zone = strchr(out->host, ':') == NULL ? NULL : strchr(out->host, '%');
	return zone == NULL || zone_is_number(zone + 1) ? NULL :
	    "the zone of an IPv6 address is the number of an interface, as in [fe80::1%2]:80";
}

static bool
has(struct span s, char c)
{
	return s.len > 0 && memchr(s.p, c, s.len) != NULL;
}

const char *
hostport_parse(struct span text, struct hostport *out)
{
	const uint8_t *colon = text.len == 0 ? NULL : memrchr(text.p, ':', text.len);
	const uint8_t *close = text.len == 0 ? NULL : memchr(text.p, ']', text.len);
	struct span host;
	const char *why;

	*out = (struct hostport){ .port = 0 };
	if (colon == NULL)
		return "missing port in address";
	if (text.p[0] == '[') {
		if (close == NULL)
			return "missing ']' in address";
		if (close + 1 == text.p + text.len)
			return "missing port in address";
		if (close + 1 != colon)
			return close[1] == ':' ? "too many colons in address" : "missing port in address";
		host = span_of(text.p + 1, (size_t)(close - text.p - 1));
	} else {
		host = until(text, colon);
		if (has(host, ':'))
			return "too many colons in address";
	}
	if (has(host, '[') || (text.p[0] == '[' && has(behind(text, close), '[')))
		return "unexpected '[' in address";
	if (has(host, ']') || has(behind(text, colon), ']'))
		return "unexpected ']' in address";
	return (why = take_host(host, out)) != NULL ? why : take_port(behind(text, colon), out);
}
