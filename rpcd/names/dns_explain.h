/*
 * Explains an answer of DNS: looks up what the process "rpcd: dns" would look up, by the same look-ups, and lets the
 * code that it answers with say what comes of it.
 */
#ifndef TV_RPCD_NAMES_DNS_EXPLAIN_H
#define TV_RPCD_NAMES_DNS_EXPLAIN_H

#include "rpcd/dns/explain.h"
#include "rpcd/names/dns_lookups.h"

struct dns_explainer;
struct dns_explain_call;

struct dns_explain_question {
	struct dname name;
	uint16_t type;
	bool tcp;
	bool edns;
	uint16_t udp_size;		/* with EDNS */
	struct span source;		/* address of the client, in text */
};

/* What is known of an instance beyond what DNS needs: spans are empty where it is not known. */
struct dns_detail {
	struct span id;			/* of the service on its node */
	struct span check, status, output;	/* the worst check that does not pass: its name */
	bool of_node;			/* that is one of the node */
};
/* A fact, and where it came from. */
struct dns_source {
	enum tv_err err;		/* of the look-up; TV_OK with a fact that is DNS_NOWHERE: there is nothing */
	struct span text;		/* its sentence */
	bool asked;			/* else: a name elsewhere, or of a kind that no server keeps */
	struct dns_lookup_origin origin;	/* its reply is NULL */
	const struct dns_detail *details;	/* as many as instances, or NULL */
	const struct dns_instance *dead;	/* that were left out: their nodes are dead to gossip */
	const struct dns_detail *dead_details;
	unsigned dead_count;
};

struct dns_report {
	const struct msg_dns_setup *setup;
	const struct dns_zone *zone;
	const struct dns_explain_question *question;
	const struct dns_explanation *answer;
	const struct dns_facts *facts;
	const struct dns_source *sources;	/* of each fact */
	/* Instances of the service that were not found: without the tag that was asked for, or on dead nodes. */
	const struct dns_judged *others;
	const struct dns_detail *other_details;
	unsigned other_count, others_left_out;
};

/* NULL: no memory.  conf is copied, what it points to is borrowed. */
struct dns_explainer *dns_explainer_new(const struct dns_lookups_conf *conf);
/* No explanation may be under way any more. */
void dns_explainer_free(struct dns_explainer *e);
/* report is borrowed until return; NULL: no memory, or too much of it. */
typedef void dns_explain_done(void *ctx, const struct dns_report *report);
/* done comes once, maybe before it returns; then it returns NULL with *err TV_OK.  NULL: *err says why. */
struct dns_explain_call *dns_explain_start(struct dns_explainer *e, const struct dns_explain_question *q,
    dns_explain_done *done, void *ctx, enum tv_err *err);
/* done does not come. */
void dns_explain_cancel(struct dns_explain_call *c);

#endif
