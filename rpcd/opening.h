/*
 * What is opened with privileges, before the sandbox: keys, the processes that start checks and DNS, and listeners for
 * HTTP, for other nodes and for DNS.
 */
#ifndef TV_RPCD_OPENING_H
#define TV_RPCD_OPENING_H

#include "rpcd/rpcd.h"

/* daemon_spec.open; d->ctx is a struct rpcd, whose configuration is read.  On an error errbuf has a sentence. */
enum tv_err opening_open(struct daemon_spec *d, char *errbuf, size_t cap);
/* What of it has no other owner by now is closed; keys are wiped. */
void opening_close(struct rpcd *p);

#endif
