/* Datagrams of one pool: read and written in batches. */
#ifndef TV_GOSSIPD_UDP_H
#define TV_GOSSIPD_UDP_H

#include <ev.h>

#include "gossipd/core/swim.h"
#include "gossipd/core/wire/packet.h"

struct udp;

struct udp_stats {
	uint64_t in, out, in_bytes, out_bytes;
	uint64_t bad_key;		/* not sealed as it should be, or with a key that we do not have */
	uint64_t bad_checksum;
	uint64_t bad_format;
	uint64_t send_failed;
};

struct udp_events {
	/*
	 * Each message of each datagram, and when that came: as soon after its arrival as this process was awake,
	 * however many others are handled before it.  What it borrows lasts until return.
	 */
	void (*on_message)(void *ctx, const struct addr *from, struct mono at, enum wire_type type, struct span body);
	/* Once after a batch was read: a good moment for udp_flush(). */
	void (*on_batch)(void *ctx);
	/* A datagram was opened with the key at this place of the ring. */
	void (*on_opened)(void *ctx, const struct addr *from, unsigned key);
	/* One came that is not for our keys. */
	void (*on_unreadable)(void *ctx, const struct addr *from);
};

/* Takes over the bound socket. */
struct udp *udp_new(struct ev_loop *loop, int fd, const struct envelope *envelope, const struct udp_events *events,
    void *ctx);
/* Queues one datagram; it leaves with udp_flush(), or when the batch is full. */
void udp_send(struct udp *u, const struct swim_send *send);
void udp_flush(struct udp *u);
void udp_stats(const struct udp *u, struct udp_stats *out);
/* Closes the socket. */
void udp_free(struct udp *u);

#endif
