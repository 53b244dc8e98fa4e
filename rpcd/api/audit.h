/*
 * What the audit trail says of a request (rpcd/audit): one line when it ends, for what changes something, what was
 * denied, what administers, and as audit.reads has it for what only reads.  Names are taken as the servers are asked:
 * the arguments are gone at the end.
 */
#ifndef TV_RPCD_API_AUDIT_H
#define TV_RPCD_API_AUDIT_H

#include "rpcd/api/api.h"
#include "rpcd/audit/audit_line.h"

struct audit_note {		/* texts in the request's arena */
	struct span name;
	bool proven;		/* it is what the servers call it: no secret was given for a name */
	bool refused;		/* answered with 200, and yet nothing was changed: check-and-set, locks */
	uint32_t operations, name_count;
	struct span names[AUDIT_NAMES_MAX];
	uint64_t index;
};

/* An operation is about to be asked for with these arguments. */
void audit_asked(struct request *r, enum op_code code, const void *args);
void audit_replied(struct request *r, const struct op_reply *reply);
/* The name of what a request is about, where no operation tells. */
void audit_about(struct request *r, struct span name);
/* It is over; cut: its client has not all of the answer. */
void audit_end(struct request *r, bool cut);
/* Answers api.accessor; empty: it cannot be told. */
void audit_know(struct audit_wait *w, struct span accessor);
/* Lines that still wait for who asked say that they do not know. */
void audit_done(struct api *api);

#endif
