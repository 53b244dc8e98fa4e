/*
 * What a client sends: header, question, EDNS.  Pure.  As lenient as Consul is, but for classes, opcodes and versions
 * of EDNS that are not ours.
 */
#ifndef TV_RPCD_DNS_QUERY_H
#define TV_RPCD_DNS_QUERY_H

#include "rpcd/dns/dname.h"

#define DNS_HEADER_BYTES 12
#define DNS_MESSAGE_BYTES_MAX 65535
#define DNS_UDP_BYTES 512		/* that every client takes */
#define DNS_SUBNET_OPTION 8		/* EDNS client subnet */

enum dns_type {
	DNS_A = 1, DNS_NS = 2, DNS_CNAME = 5, DNS_SOA = 6, DNS_PTR = 12, DNS_TXT = 16, DNS_AAAA = 28, DNS_SRV = 33,
	DNS_OPT = 41, DNS_AXFR = 252, DNS_ANY = 255,
};
enum dns_rcode {
	DNS_NOERROR = 0, DNS_FORMERR = 1, DNS_SERVFAIL = 2, DNS_NXDOMAIN = 3, DNS_NOTIMP = 4, DNS_REFUSED = 5,
	DNS_BADVERS = 16,	/* its upper bits are in the OPT record */
};
enum dns_flag {
	DNS_QR = 0x8000, DNS_AA = 0x0400, DNS_TC = 0x0200, DNS_RD = 0x0100, DNS_RA = 0x0080, DNS_AD = 0x0020,
	DNS_CD = 0x0010, DNS_OPCODE = 0x7800, DNS_RCODE = 0x000f,
};

struct dns_query {
	uint16_t id, flags;
	uint16_t type, class;		/* 0 where the message ended before it */
	bool has_question;
	struct dname name;		/* as it was written */
	bool edns;
	uint8_t edns_version;
	uint16_t udp_size;		/* that EDNS offers, 0 too */
	bool subnet;			/* EDNS client subnet */
	uint16_t subnet_family;		/* 1, 2; 0 with a prefix of 0 */
	uint8_t subnet_bits;
	uint8_t subnet_address[16];	/* bits behind the prefix are 0 */
};

enum dns_verdict {
	DNS_SERVE,		/* a question */
	DNS_IGNORE,		/* no answer at all: not a question, or too short for an id */
	DNS_REJECT,		/* an answer with *rcode, with the question if there is one */
};

/* `q` is filled as far as the message could be read.  *rcode is set for DNS_REJECT. */
enum dns_verdict dns_query_read(struct span msg, struct dns_query *q, enum dns_rcode *rcode);
/* The answer without records: flags and rcode, the question if it has one; DNS_BADVERS has an OPT record. */
void dns_reply_bare(const struct dns_query *q, uint16_t flags, enum dns_rcode rcode, struct buf *out);
/* Such an answer without its records, and with TC: the client asks again over TCP. */
void dns_reply_cut(const struct dns_query *q, struct span reply, struct buf *out);
/* The address of the client subnet as text, or "". */
#define DNS_ADDRESS_TEXT_MAX 46
void dns_subnet_text(const struct dns_query *q, char dst[DNS_ADDRESS_TEXT_MAX]);
/* Bytes of the OPT record that answers it; 0 without EDNS. */
void dns_put_opt(const struct dns_query *q, bool scoped, struct buf *out);

#endif
