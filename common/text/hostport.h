/* Addresses "host:port" as Go's dialler takes them, which is what writers of checks know.  Pure. */
#ifndef TV_COMMON_TEXT_HOSTPORT_H
#define TV_COMMON_TEXT_HOSTPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/rd.h"

#define HOSTPORT_HOST_BYTES 256
#define HOSTPORT_SERVICE_BYTES 32

struct hostport {
	/* A name or an IP address without brackets; "127.0.0.1" where none is given. */
	char host[HOSTPORT_HOST_BYTES];
	char service[HOSTPORT_SERVICE_BYTES];	/* as in /etc/services, "http"; "": port has it */
	uint16_t port;				/* 1 to 65535, or 0: see service */
};

/*
 * "h:80", "10.0.0.1:80", "[::1]:80", "[10.0.0.1]:80", ":80", "h:http"; a zone of an IPv6 address is a number, as in
 * "[fe80::1%2]:80".  NULL, or why it is none: "missing port in address".
 */
const char *hostport_parse(struct span text, struct hostport *out);

#endif
