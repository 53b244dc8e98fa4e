/*
 * Shared immutable bytes: equal ones are kept once and counted.
 *
 * What members say of themselves, and the messages that wait to be passed on, are the same
 * bytes wherever they are held.  A core has a store of its own; a simulator gives one to all
 * of its cores, so that ten thousand of them fit into one machine.  One thread only.
 */
#ifndef TV_GOSSIPD_CORE_SWIM_INTERN_H
#define TV_GOSSIPD_CORE_SWIM_INTERN_H

#include <stdint.h>

#include "common/base/rd.h"

#define INTERN_KEY_BYTES 16

struct intern;

/* key: of its hashes, so that peers cannot aim at one chain.  NULL without memory. */
struct intern *intern_new(const uint8_t key[INTERN_KEY_BYTES]);
/* Everything must have been given back.  NULL is fine. */
void intern_free(struct intern *t);
/* 64-bit keyed hash of any bytes. */
uint64_t intern_hash(const struct intern *t, struct span bytes);
/*
 * The one copy of `head` followed by `body`, aligned for any type; together 1 byte to 4 GiB.  Each call is to be
 * answered by one intern_put().  NULL without memory.
 */
const void *intern_get(struct intern *t, struct span head, struct span body);
/* Gives back what intern_get() returned; NULL is fine. */
void intern_put(struct intern *t, const void *bytes);

#endif
