/*
 * Reads the heads of HTTP/1.1 requests and the chunks of their bodies, by RFC 9110 and 9112.  Pure: no I/O, no memory
 * of its own, no clock.
 *
 * What two readers could understand differently is refused, also where the RFCs let a server guess: only CRLF ends a
 * line, no line is folded, a length or a coding is said once.  So any other reader of the request saw the end of it
 * where we see it (scenarios S179 to S181).
 */
#ifndef TV_RPCD_HTTP_HTTP_SCAN_H
#define TV_RPCD_HTTP_HTTP_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/rd.h"

#define HTTP_FIELDS_MAX 128
#define HTTP_CHUNK_LINE_MAX 256		/* bytes of one size with its extensions */
#define HTTP_EXTENSIONS_MAX 4096	/* bytes of extensions in one body */

enum http_scanned {
	HTTP_MORE,			/* all fine so far; more bytes are needed */
	HTTP_DONE,
	HTTP_BAD,			/* refuse it and close: where the request ends is not known */
};

/* Bytes of the head: it may have been moved since they were found. */
struct http_part {
	uint32_t at, len;
};

struct http_field {
	struct http_part name, value;	/* value without the space around it; may be empty */
};

enum http_framing { HTTP_NO_BODY, HTTP_LENGTH, HTTP_CHUNKED };

/* What the target was: only HTTP_ORIGIN and HTTP_ABSOLUTE name a path. */
enum http_form { HTTP_ORIGIN, HTTP_ABSOLUTE, HTTP_ASTERISK };

struct http_head {
	/* The result, when it is HTTP_DONE. */
	size_t len;			/* bytes, the empty line included */
	struct http_part method;
	struct http_part target;	/* path and query, still encoded; of "http://host/path" "/path" */
	struct http_part host;		/* of such a target, else of Host; empty: none was given */
	bool has_host;
	uint8_t form;			/* enum http_form */
	uint8_t minor;			/* HTTP/1.minor: 0, or 1 for all that is higher */
	uint8_t framing;		/* enum http_framing */
	uint64_t length;		/* HTTP_LENGTH: bytes of the body */
	bool close, keep_alive;		/* tokens of Connection */
	bool expects;			/* 100-continue */
	unsigned field_count;
	struct http_field fields[HTTP_FIELDS_MAX];

	/* HTTP_BAD */
	unsigned status;		/* 400, 414, 431, 505 */
	const char *why;		/* a sentence without its full stop; static */

	/* The scanner's. */
	size_t max, line, looked;
	bool begun, blank, has_length, has_coding;
};

/* Before the first byte of a head that may have so many bytes, 4 GB at most. */
void http_head_begin(struct http_head *h, size_t max);
/*
 * bytes: the head from its first byte on, as far as it has come; each time at least as many as the last time, and the
 * same.  What follows the head is not looked at.  Looks at no byte twice, but for the line that was cut.
 */
enum http_scanned http_head_scan(struct http_head *h, const uint8_t *bytes, size_t n);
/* Part of the bytes that were scanned. */
struct span http_part(const uint8_t *bytes, struct http_part part);
/* The first field of this name (lower case), or NULL. */
const struct http_field *http_head_find(const struct http_head *h, const uint8_t *bytes, const char *name);
/* How often it is there. */
unsigned http_head_count(const struct http_head *h, const uint8_t *bytes, const char *name);

/* A body in chunks on its way. */
struct http_chunks {
	uint64_t left;			/* of the chunk's data */
	size_t trailer, trailer_max;	/* bytes */
	unsigned digits, line, extensions;
	uint8_t state;
	const char *why;		/* HTTP_BAD: a sentence without its full stop; static */
};

/* trailer_max: bytes that its trailer fields may have; they are checked and dropped. */
void http_chunks_begin(struct http_chunks *c, size_t trailer_max);
/*
 * Takes *took of the bytes and finds at most one piece of data in them (*data, empty if there is none).  HTTP_MORE:
 * call again with the rest, or with more.  HTTP_DONE: the body ends behind *took.
 */
enum http_scanned http_chunks_scan(struct http_chunks *c, const uint8_t *bytes, size_t n, size_t *took,
    struct span *data);

#endif
