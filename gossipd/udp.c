/* Datagrams of one pool; see udp.h. */
#include "config.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gossipd/net.h"
#include "gossipd/udp.h"

#define BATCH 32			/* datagrams in one system call */
#define BATCHES_PER_TURN 8		/* then others get their turn of the loop */
#define OUT_BYTES_MAX (4u << 20)

struct out_item {
	struct sockaddr_storage to;
	socklen_t to_len;
	size_t from, len;		/* in out_bytes */
};

struct udp {
	struct ev_loop *loop;
	ev_io io;
	int fd, family;
	const struct envelope *envelope;
	const struct udp_events *events;
	void *ctx;
	struct addr from;		/* of the datagram that is being opened */
	struct mono at;			/* when its batch was received */
	/* Two: a message may be answered while others of its datagram wait. */
	struct packet_scratch *in_scratch, *out_scratch;
	uint8_t (*slots)[PACKET_BYTES_MAX];	/* BATCH of them; untouched pages cost nothing */
	struct buf out_bytes;
	struct out_item out[BATCH];
	unsigned out_count;
	struct udp_stats stats;
	struct log_limit limit;
};

static void
visit(void *arg, enum wire_type type, struct span body)
{
	struct udp *u = arg;

	u->events->on_message(u->ctx, &u->from, u->at, type, body);
}

static void
note_bad(struct udp *u, enum tv_err err)
{
	char text[NET_TEXT_BYTES];
	const char *what = "malformed datagram";

	if (err == TV_EAUTH) {
		u->stats.bad_key++;
		u->events->on_unreadable(u->ctx, &u->from);	/* logs it */
		return;
	}
	if (err == TV_ECORRUPT) {
		u->stats.bad_checksum++;
		what = "datagram with a wrong checksum";
	} else {
		u->stats.bad_format++;
	}
	if (log_allow(&u->limit, "memberlist"))
		log_warn("memberlist", "%s from %s dropped", what, net_text(&u->from, text));
}

static void
open_datagram(struct udp *u, const struct sockaddr_storage *from, struct span datagram)
{
	const struct seal_ring *ring = u->envelope->ring;
	unsigned moves = ring != NULL ? ring->moves : 0;
	struct packet_result r;

	u->stats.in++;
	u->stats.in_bytes += datagram.len;
	u->from = net_addr(from);
	r = packet_open(u->envelope, u->in_scratch, datagram, visit, u);
	if (r.sealed && ring->moves == moves)	/* else it brought a change of the ring, and r.key names another key */
		u->events->on_opened(u->ctx, &u->from, r.key);
	if (r.err != TV_OK)
		note_bad(u, r.err);
}

/* Returns how many came. */
static int
read_batch(struct udp *u)
{
	struct mmsghdr head[BATCH];
	struct iovec iov[BATCH];
	struct sockaddr_storage from[BATCH];
	int n;

	memset(head, 0, sizeof(head));
	for (unsigned i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ u->slots[i], PACKET_BYTES_MAX };
		head[i].msg_hdr = (struct msghdr){ .msg_name = &from[i], .msg_namelen = sizeof(from[i]),
			.msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	n = recvmmsg(u->fd, head, BATCH, MSG_DONTWAIT, NULL);
	u->at = clock_mono();
	for (int i = 0; i < n; i++)
		open_datagram(u, &from[i], span_of(u->slots[i], head[i].msg_len));
	if (n > 0)
		u->events->on_batch(u->ctx);
	return n;
}

static void
on_readable(struct ev_loop *loop UNUSED, ev_io *w, int revents UNUSED)
{
	for (int i = 0; i < BATCHES_PER_TURN; i++)
		if (read_batch(w->data) < BATCH)
			return;
}

struct udp *
udp_new(struct ev_loop *loop, int fd, const struct envelope *envelope, const struct udp_events *events, void *ctx)
{
	struct udp *u = calloc(1, sizeof(*u));

	if (u == NULL) {
		close(fd);
		return NULL;
	}
	*u = (struct udp){ .loop = loop, .fd = fd, .family = net_family(fd), .envelope = envelope,
		.events = events, .ctx = ctx, .out_bytes = BUF_INIT(OUT_BYTES_MAX),
		.limit = { .burst = 5, .period = MONO_S(10) } };
	ev_io_init(&u->io, on_readable, fd, EV_READ);
	u->io.data = u;
	u->in_scratch = malloc(sizeof(*u->in_scratch));
	u->out_scratch = malloc(sizeof(*u->out_scratch));
	u->slots = malloc(BATCH * sizeof(*u->slots));
	if (u->in_scratch != NULL)
		packet_scratch_init(u->in_scratch);
	if (u->out_scratch != NULL)
		packet_scratch_init(u->out_scratch);
	if (u->in_scratch == NULL || u->out_scratch == NULL || u->slots == NULL) {
		udp_free(u);
		return NULL;
	}
	ev_io_start(loop, &u->io);
	return u;
}

void
udp_flush(struct udp *u)
{
	struct mmsghdr head[BATCH];
	struct iovec iov[BATCH];
	unsigned sent = 0;

	memset(head, 0, sizeof(head));
	for (unsigned i = 0; i < u->out_count; i++) {
		struct out_item *o = &u->out[i];

		iov[i] = (struct iovec){ u->out_bytes.data + o->from, o->len };
		head[i].msg_hdr = (struct msghdr){ .msg_name = &o->to, .msg_namelen = o->to_len, .msg_iov = &iov[i],
			.msg_iovlen = 1 };
	}
	while (sent < u->out_count) {
		int n = sendmmsg(u->fd, head + sent, u->out_count - sent, MSG_DONTWAIT);

		if (n > 0) {
			sent += (unsigned)n;
		} else if (errno != EINTR) {
			u->stats.send_failed++;		/* this one is lost; datagrams may be */
			sent++;
		}
	}
	u->out_count = 0;
	buf_reset(&u->out_bytes);
}

void
udp_send(struct udp *u, const struct swim_send *send)
{
	struct out_item *o = &u->out[u->out_count];
	uint8_t nonce[SEAL_NONCE_BYTES];

	o->to_len = net_sockaddr(&send->to, u->family, &o->to);
	o->from = u->out_bytes.len;
	randombytes_buf(nonce, sizeof(nonce));
	if (o->to_len == 0 || packet_build(u->envelope, u->out_scratch, send->parts, send->part_count, send->crc, nonce,
	    &u->out_bytes) != TV_OK) {
		u->stats.send_failed++;
		return;
	}
	o->len = u->out_bytes.len - o->from;
	u->stats.out++;
	u->stats.out_bytes += o->len;
	if (++u->out_count == BATCH)
		udp_flush(u);
}

void
udp_stats(const struct udp *u, struct udp_stats *out)
{
	*out = u->stats;
}

void
udp_free(struct udp *u)
{
	if (u == NULL)
		return;
	ev_io_stop(u->loop, &u->io);
	close(u->fd);
	if (u->in_scratch != NULL)
		packet_scratch_done(u->in_scratch);
	if (u->out_scratch != NULL)
		packet_scratch_done(u->out_scratch);
	free(u->in_scratch);
	free(u->out_scratch);
	free(u->slots);
	buf_done(&u->out_bytes);
	free(u);
}
