/* Entries for the real state machine, by number: the same wherever and whenever they are made. */
#ifndef TV_TESTS_SIM_SIM_OPS_H
#define TV_TESTS_SIM_SIM_OPS_H

#include "common/base/arena.h"
#include "common/base/buf.h"

/* Payload of an OP entry as a proposer would put it into the log: keys, locks, sessions, nodes, services, checks. */
void sim_op_payload(uint64_t seed, uint64_t number, struct buf *out);

#endif
