/* Members that do not exist: names, addresses, tags and states of a pool of any size, for the gossip benchmarks. */
#ifndef TV_TESTS_BENCH_FACES_H
#define TV_TESTS_BENCH_FACES_H

#include "gossipd/core/swim/table.h"
#include "gossipd/core/wire/serfwire.h"

#define FACE_PER_NET 250		/* hosts in one 127.x.y */
#define FACE_MAX (FACE_PER_NET * 250)

struct face {
	char name[24];
	struct addr addr;
	uint8_t meta[512];
	size_t meta_len;
};

/* Where they live: 127.net.1.1, 127.net.1.2, ... all with one port. */
struct faces {
	uint8_t net;
	uint16_t port;
	unsigned count;
};

void face_make(const struct faces *f, unsigned i, struct face *out);
/* Which of them has this address; -1: none. */
int face_at(const struct faces *f, const struct addr *addr);
/* Which of them has this name; -1: none. */
int face_named(const struct faces *f, struct span name);
/* In its first life. */
struct wire_alive face_alive(const struct face *face);
/* A place somewhere within 20 ms of the others. */
struct coordinate face_coord(unsigned i);
/* The whole state of the pool as one of them tells it: a push/pull message, type byte included. */
void faces_state(const struct faces *f, bool join, struct buf *out);

#endif
