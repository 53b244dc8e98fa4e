/*
 * Why an answer is what it is.  What is explained is what is answered: it is made by dns_answer(), and why an instance
 * is in it or not is found out by answering anew with that instance alone.  Pure.
 */
#ifndef TV_RPCD_DNS_EXPLAIN_H
#define TV_RPCD_DNS_EXPLAIN_H

#include "rpcd/dns/answer.h"

#define DNS_EXPLAIN_MAX 100		/* instances that are looked at one by one: rpcd does nothing else meanwhile */

enum dns_section_of { DNS_SECTION_ANSWER, DNS_SECTION_AUTHORITY, DNS_SECTION_ADDITIONAL };

struct dns_shown {			/* a record, as text */
	enum dns_section_of section;
	struct span owner, data;
	uint16_t type;
	uint32_t ttl;
	struct span ttl_from;		/* the key that sets it, or what else does; "": another name's */
};

/* What became of an instance. */
enum dns_why {
	DNS_WHY_ANSWERED,
	DNS_WHY_CRITICAL,		/* a check of it or of its node */
	DNS_WHY_NOT_PASSING,		/* the same, with only_passing */
	DNS_WHY_NO_ADDRESS,		/* it has none for the type */
	DNS_WHY_UNWRITABLE,		/* its host name is no name of DNS */
	DNS_WHY_SAME,			/* as another one, which stands for both */
	DNS_WHY_HOST_NAME,		/* others have addresses, or another host name came first */
	DNS_WHY_RECORD_LIMIT,		/* a_record_limit */
	DNS_WHY_ANSWER_LIMIT,		/* udp_answer_limit */
	DNS_WHY_SIZE,			/* of the message */
	DNS_WHY_TAG,			/* it has not the tag; this one and the next are for the caller to say */
	DNS_WHY_DEAD,			/* its node is, to gossip, while no server can be reached */
};
struct dns_judged {
	const struct dns_instance *instance;
	enum dns_why why;
};

struct dns_explanation {
	enum dns_outcome outcome;	/* DNS_DONE, DNS_FORWARD; DNS_NO_ANSWER: the rest is not set */
	enum dns_place place;
	struct dns_asked *asked;	/* what the name means; of DNS_PLACE_ZONE */
	bool apex;			/* the type asks for the zone, whatever the name */
	int main;			/* the fact that the answer is about; -1: none */
	enum dns_rcode rcode;
	uint16_t flags;
	size_t bytes;
	struct dns_shown *records;
	unsigned record_count;
	struct dns_judged *instances;	/* of the main fact, in its order; none for nodes */
	unsigned instance_count, instances_left_out;	/* beyond DNS_EXPLAIN_MAX */
};

/* Type by its name ("srv", "TYPE65"), 0: none; and the other way round, in `cap` bytes (16 are enough). */
uint16_t dns_type_of(struct span text);
const char *dns_type_text(uint16_t type, char *dst, size_t cap);
/* A name as text, with a final dot, in the arena. */
struct span dns_name_text(struct span wire, struct arena *a);
/* The records of a whole message of ours.  False: no memory, or it is none. */
bool dns_records_show(struct span msg, struct arena *a, struct dns_shown **v, unsigned *n);

/*
 * The question must be one that dns_answer() has answered with these facts.  `work` is reset again and again, `a` keeps
 * what *out has; out_buf has the message.
 */
void dns_explain(const struct dns_zone *z, const struct dns_query *q, const struct dns_asker *asker,
    const struct dns_facts *facts, struct arena *a, struct arena *work, struct buf *out_buf,
    struct dns_explanation *out);

#endif
