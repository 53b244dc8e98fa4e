/*
 * With --json, what goes wrong is an object on standard error, a line:
 *
 *	{"Error": TEXT, "Reason": WORDS, "ExitStatus": N}
 *
 * Text is what people are told, hints included.  Commands that run until they are ended speak as without --json.
 */
#ifndef TV_CTL_JSON_ERRORS_H
#define TV_CTL_JSON_ERRORS_H

/* By what programs can tell failures apart. */
#define REASON_NO_ANSWER "no answer"	/* of rpcd, or not in time */
#define REASON_DENIED "denied"
#define REASON_NOT_FOUND "not found"
#define REASON_CONDITION "condition"	/* of a write did not hold */
#define REASON_USAGE "usage"
#define REASON_FAILED "failed"		/* anything else */

/* From now on standard error is kept; without memory for it, it is not. */
void json_errors_begin(void);
/* Why the command fails; static.  NULL: nothing is known yet. */
void json_errors_reason(const char *reason);
/*
 * The exit status of a command that returned this one.  1 becomes EX_UNAVAILABLE where rpcd did not answer, and
 * EX_NOPERM where access control denied the request (sysexits.h).  It stays 1 for all else, such as a key that is not
 * there, as in Consul's program.
 */
int json_errors_status(int status);
/* What was kept is written as it is, and from now on all is. */
void json_errors_release(void);
/* The command ends with this status: writes the object if it failed and something was said, else what was kept. */
void json_errors_end(int status);

#endif
