/*
 * One line of the audit trail: what was requested, by which client, and the outcome, as a JSON object.  Pure.  The line
 * is ASCII alone, whatever peers wrote: it can forge no other line, nor do anything to a terminal.
 */
#ifndef TV_RPCD_AUDIT_AUDIT_LINE_H
#define TV_RPCD_AUDIT_AUDIT_LINE_H

#include "common/base/buf.h"

#define AUDIT_LINE_MAX 3600		/* bytes of a line, without its newline */
#define AUDIT_NAMES_MAX 8		/* of the objects of a transaction */

enum audit_outcome {
	AUDIT_OK,
	AUDIT_DENIED,		/* the token has no right to it */
	AUDIT_FAILED,		/* nothing was changed, as far as we know */
	AUDIT_UNKNOWN,		/* the client went before there was an answer: it may have been carried out */
};

/* Borrowed.  What is NULL, empty or 0 is left out, but for what is said to be always there. */
struct audit_record {
	int64_t wall_ms;		/* always: when the request ended */
	const char *node;		/* always: this one, which was asked */
	const char *client;		/* an IP address */
	int64_t uid;			/* of the client, over the unix socket; -1: left out */
	const char *certificate;	/* the name in the client's certificate, over TLS */
	const char *operation;		/* always: "KVS.Apply", "agent/leave" */
	const char *method;		/* always */
	const char *path;		/* of the endpoint: names that follow it are not in it */
	const char *resource;		/* "key" */
	struct span name;		/* of that; long ones are cut */
	bool name_cut;			/* only its beginning is given */
	uint32_t operations;		/* of a transaction */
	const struct span *names;	/* of their objects, the first AUDIT_NAMES_MAX */
	uint32_t name_count;
	enum audit_outcome outcome;	/* always */
	unsigned status;		/* of HTTP */
	uint64_t index;			/* of the cluster's state, as the answer had it */
	struct span datacenter;		/* that was asked */
};

/*
 * Appends the line but for its end, which names the client's token and may be known later: the AccessorID of the token,
 * or a word.  Together, without a newline, they are at most AUDIT_LINE_MAX bytes.
 */
void audit_line(const struct audit_record *rec, struct buf *out);
void audit_line_end(struct span accessor, struct buf *out);
/*
 * A whole line, for lines that are missing: there was no room for them.  denials: those of them that were more denials
 * of one party than are told; left out when 0.
 */
void audit_line_lost(int64_t wall_ms, const char *node, uint64_t lines, uint64_t denials, struct buf *out);

#endif
