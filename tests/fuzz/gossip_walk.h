/*
 * For the gossip targets: reads a message with everything inside it.  What was read is written again
 * and must then read, and write, the same: we never pass on what we would refuse ourselves.
 */
#ifndef FUZZ_GOSSIP_WALK_H
#define FUZZ_GOSSIP_WALK_H

#include "gossipd/core/wire/serfwire.h"

/* body: what follows the memberlist type byte; a user message starts with its Serf type byte. */
void walk_message(enum wire_type type, struct span body);
void walk_serf(struct span message);
void walk_node(const struct wire_node *n);
/* Ring of the test keys of serf-vectors.json. */
struct seal_ring;
void walk_test_keys(struct seal_ring *ring);

#endif
