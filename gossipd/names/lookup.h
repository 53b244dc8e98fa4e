/*
 * One look-up each, as the C library does it on this machine: hosts file, name servers and search lists in the order of
 * nsswitch.conf.  They block, and may run in several threads at once.
 */
#ifndef TV_GOSSIPD_NAMES_LOOKUP_H
#define TV_GOSSIPD_NAMES_LOOKUP_H

#include "common/base/addr.h"
#include "common/conf/target.h"

#define LOOKUP_HOST_BYTES (TARGET_NAME_BYTES_MAX + 2)	/* with a final dot and a NUL */
#define LOOKUP_ADDR_BYTES ADDR_TEXT_BYTES
#define LOOKUP_FILE_BYTES_MAX (64u << 10)

/* What a look-up came to; why: a sentence, "" where there is nothing to say. */
struct lookup_end {
	enum target_outcome outcome;
	char why[TARGET_WHY_BYTES];
};

/* Hosts that a name of SRV records or a file leads to. */
struct lookup_hosts {
	struct lookup_end end;		/* TARGET_FOUND with a sentence: some were left out */
	unsigned n;
	struct {
		char name[LOOKUP_HOST_BYTES];	/* or an IP address */
		uint16_t port;
	} v[TARGET_ADDRS_MAX];
};

/* Addresses of one host, "10.0.0.1:8301", "[fd00::1]:8301". */
struct lookup_addrs {
	struct lookup_end end;
	unsigned n;
	char v[TARGET_ADDRS_MAX][LOOKUP_ADDR_BYTES];
};

/* A host name; those that cannot be dialled (0.0.0.0, multicast, addresses of one link) are left out. */
void lookup_host(const char *name, uint16_t port, struct lookup_addrs *out);
/* SRV records of a name, those of the lowest priority first. */
void lookup_srv(const char *name, struct lookup_hosts *out);
/*
 * Opens a file that lists hosts: a regular one.  -1 with a sentence.  Not behind the walls, which have no place for it.
 */
int lookup_open(const char *path, struct lookup_end *end);
/* Reads it; port: of lines without one.  Lines that are no host are left out, and the first of them is named. */
void lookup_file(int fd, uint16_t port, struct lookup_hosts *out);
/* The lines of a file's text, as above.  Pure. */
void lookup_lines(struct span text, uint16_t port, struct lookup_hosts *out);
/* An answer of a name server to a question for SRV records, as above.  Pure. */
void lookup_answer(const uint8_t *msg, size_t len, struct lookup_hosts *out);

#endif
