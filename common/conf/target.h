/*
 * What may be written where this node dials another: an address, a host name, a name of SRV records, or a file that
 * lists addresses.  Pure: names are resolved, and files read, by the process that is for it (gossipd/names/).
 */
#ifndef TV_COMMON_CONF_TARGET_H
#define TV_COMMON_CONF_TARGET_H

#include "common/base/addr.h"

#define TARGET_NAME_BYTES_MAX 253	/* of a host name without its final dot (RFC 1035, 2.3.4) */
#define TARGET_PATH_BYTES_MAX 4095
#define TARGET_WHY_BYTES 256
#define TARGET_ADDRS_MAX 64		/* that one may lead to; further ones are left out */
#define TARGET_SHOWN_BYTES 128		/* of what was written, in a sentence */

enum target_kind {
	TARGET_ADDRESS,		/* 10.0.0.1, 10.0.0.1:8301, fd00::1, [fd00::1], [fd00::1]:8301 */
	TARGET_NAME,		/* server1, server1.example.com, server1.example.com.:8301 */
	TARGET_SRV,		/* srv:_serf._tcp.example.com: hosts and ports of its SRV records (RFC 2782) */
	TARGET_FILE		/* file:/path: an address or a host name on each line, see target_line() */
};

struct dial_target {
	enum target_kind kind;
	uint16_t port;		/* of ADDRESS and NAME: as written, else the default */
	bool has_port;		/* it was written */
	char ip[ADDR_IP_BYTES];	/* ADDRESS */
	struct span name;	/* NAME, SRV: as written, also with a final dot; FILE: the path.  Borrowed */
};

/* What came of looking one up. */
enum target_outcome {
	TARGET_FOUND,		/* its addresses, which may be none: of an empty file */
	TARGET_NONE,		/* no such name, as the name servers say */
	/* No name server answers, or not in time, or the file cannot be read: what it was before may still be true. */
	TARGET_UNANSWERED
};

/*
 * Reads one.  port: where none is written.  TV_EINVAL: it is none of these, and why (TARGET_WHY_BYTES, unless it is
 * NULL) gets a sentence that begins with the text in quotes and names the forms.
 */
enum tv_err target_parse(struct span text, uint16_t port, struct dial_target *out, char *why);
/*
 * The next line of such a file that is neither blank nor a comment, without blanks around it; text is shortened to
 * what is behind it, and *number (0 before the first) counts all lines.  A comment begins with '#', at the start of a
 * line or behind a blank.  Lines end with LF or CR LF; a byte order mark before the first is skipped.  False: none is
 * left.
 */
bool target_line(struct span *text, unsigned *number, struct span *line);
/* "ip", "ip:port", "[ip6]:port".  Without a port: `port`. */
bool cluster_addr_parse(const char *text, uint16_t port, char ip[ADDR_IP_BYTES], uint16_t *out);

#endif
