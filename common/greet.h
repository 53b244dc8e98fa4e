/*
 * MSG_HELLO, the first frame of every channel in both directions (common/msg.h), written and read in one place.
 */
#ifndef TV_GREET_H
#define TV_GREET_H

#include "common/chan.h"

/* Queues our HELLO.  role: "rpcd", "raftd", "gossipd".  A closed channel is ignored: its on_close tells. */
void greet_send(struct chan *c, const char *role, const char *node_id);
/* A whole HELLO of our version?  Another frame, other fields or another version: TV_EFORMAT.  Keeps no reference. */
enum tv_err greet_check(const struct frame *f);
/* Does a HELLO that was checked come from this role? */
bool greet_is(const struct frame *f, const char *role);

#endif
