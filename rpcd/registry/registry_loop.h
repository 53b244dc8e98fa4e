/* The registry of this node: on a loop, with the router to the catalog, and with its file. */
#ifndef TV_RPCD_REGISTRY_REGISTRY_LOOP_H
#define TV_RPCD_REGISTRY_REGISTRY_LOOP_H

#include <ev.h>

#include "rpcd/event/waits.h"
#include "rpcd/registry/registry_journal.h"
#include "rpcd/route/route.h"

/*
 * conf with its route and without the functions but for `members`, which gets conf's ctx; what is in `path`, whose
 * folder must exist, is registered already.
 * All is borrowed.  NULL: no memory.
 */
struct registry *registry_open(const struct registry_conf *conf, struct ev_loop *loop, const char *path);
/* As wait_start(): for a service that changes or goes.  What is there then may be the same as before. */
void registry_wait(struct registry *r, struct wait *w, struct mono timeout, void (*fn)(void *ctx, bool timed_out),
    void *ctx);
/* What it cost to keep it on disk. */
void registry_disk(const struct registry *r, struct registry_journal_stats *out);
/* Ends it as registry_free() does; all is in one file then. */
void registry_close(struct registry *r);

#endif
