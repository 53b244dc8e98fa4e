/*
 * Commands that are run for an event or a query, with the environment that Serf's handlers know.
 */
#ifndef TV_CTL_HANDLER_H
#define TV_CTL_HANDLER_H

#include "ctl/ctl.h"

struct handler;

/*
 * command: run by /bin/sh -c.  This node's name and tags are asked for once and become SERF_SELF_NAME, SERF_SELF_ROLE
 * and SERF_TAG_*.  NULL after a complaint.
 */
struct handler *handler_new(struct ctl *ctl, const char *command);
void handler_free(struct handler *h);
/*
 * Sets a variable of the next run.  Bytes of others come through: control characters are escaped as \xNN, so that
 * a value is one line.  name: letters, digits and '_'.
 */
void handler_set(struct handler *h, const char *name, struct span value);
/*
 * Runs the command with these bytes on its standard input, ended by a newline; its standard output goes to `out`, or
 * where ours goes (NULL).  Returns its exit status, or -1 after a complaint (also when a signal ended it).
 */
int handler_run(struct handler *h, struct span input, struct buf *out);

#endif
