/* Records of an answer under way, and their bytes.  Pure. */
#ifndef TV_RPCD_DNS_RECORDS_H
#define TV_RPCD_DNS_RECORDS_H

#include "common/base/arena.h"
#include "rpcd/dns/query.h"

struct dns_record {
	struct span owner;		/* name on the wire */
	uint16_t type;
	uint32_t ttl;
	struct span head;		/* data before the name */
	struct span name;		/* a name in the data; empty: none */
	struct span name2;		/* SOA: rname */
	struct span tail;		/* data behind the names */
};
struct dns_section {
	struct dns_record *v;
	unsigned n, room;
};
/* Where names of a message are, for compression: memory of the caller's, zeroed once, for one after the other. */
#define DNS_NAME_SLOTS 4096
struct dns_names {
	struct {
		struct span name;
		uint32_t life;
		uint16_t at;
	} slots[DNS_NAME_SLOTS];
	uint32_t life;
};
struct dns_reply {
	struct dns_names *names;
	struct arena *arena;
	struct dns_section answer, authority, additional;
	enum dns_rcode rcode;
	uint16_t flags;			/* AA, TC, RA */
	bool failed;			/* no memory */
};

/* A new zeroed record at the end; NULL: no memory, which r->failed remembers. */
struct dns_record *dns_add(struct dns_reply *r, struct dns_section *s);
/* Bytes of the reply without OPT.  Question and names by `q`; whether names are compressed. */
size_t dns_reply_size(const struct dns_reply *r, const struct dns_query *q, bool compress);
/* The whole of it; `scoped`: the client subnet mattered. */
void dns_reply_write(const struct dns_reply *r, const struct dns_query *q, bool compress, bool scoped,
    struct buf *out);

struct dns_limits {
	bool tcp, compress;
	unsigned udp_answers;		/* of a plain UDP answer */
};
/* Cuts it down to what may be sent.  True: answers were dropped, as TC tells. */
bool dns_reply_trim(struct dns_reply *r, const struct dns_query *q, const struct dns_limits *limits);

#endif
