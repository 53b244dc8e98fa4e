/*
 * MSG_HELLO, the first frame of every channel in both directions (common/net/msg.h), written and read in one place; and
 * MSG_PING, by which one side sees whether the other still answers.
 */
#ifndef TV_COMMON_NET_GREET_H
#define TV_COMMON_NET_GREET_H

#include "common/net/chan.h"

/* Queues our HELLO.  role: "rpcd", "raftd", "gossipd".  A closed channel is ignored: its on_close tells. */
void greet_send(struct chan *c, const char *role, const char *node_id);
/*
 * A HELLO of a peer with which we have a version in common?  Another frame or a malformed one: TV_EFORMAT.  So is a
 * range of versions that does not overlap with ours; then the log names both, and c is closed.
 */
enum tv_err greet_check(struct chan *c, const struct frame *f);
/* Does a HELLO that was checked come from this role? */
bool greet_is(const struct frame *f, const char *role);
/* Does it come from a process of our own build, which knows every message that we know? */
bool greet_same_build(const struct frame *f);

/* Queues MSG_PING: only to a peer that greeted with our build.  TV_ECLOSED, TV_ELIMIT: the channel is gone. */
enum tv_err greet_ping(struct chan *c);
/* A frame of type MSG_PING: a question is answered, an answer just taken.  TV_EFORMAT: malformed. */
enum tv_err greet_pinged(struct chan *c, const struct frame *f);

#endif
