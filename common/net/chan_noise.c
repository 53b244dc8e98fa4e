/*
 * Noise under a channel: preamble, handshake, sealing in batches.
 *
 * Initiator                                   Responder
 *   preamble, message 1 (psk, e[, es])  --->    knows the psk by its id, else closes and says nothing
 *                                       <---    message 2 (e, ee; payload: u8 version)
 *   an empty sealed message             --->    proves that message 1 was no replay: now it is open
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/net/chan_int.h"
#include "common/net/noise.h"

#define MAGIC "TVn1"
#define MAGIC_BYTES 4
#define PREAMBLE_BYTES (MAGIC_BYTES + 3 + KEY_ID_BYTES)
#define VERSION_MIN 1
#define VERSION_MAX 1
#define LEN_BYTES 2		/* of a Noise message on the wire */
/* Handshake messages are about 50 bytes; a stranger gets no more memory than this. */
#define HS_MSG_BYTES_MAX 256
#define SEAL_BYTES_MAX (NOISE_MSG_BYTES_MAX - NOISE_TAG_BYTES)
/* Sealed at one go, before the socket is asked. */
#define WIRE_OUT_BATCH_BYTES (128u << 10)
/* Answered in one turn of the loop: some tenths of a millisecond each. */
#define HANDSHAKES_PER_TURN 16

struct chan_noise {
	const struct noise_conf *conf;	/* borrowed; after the handshake only for chan_key_stands() */
	struct noise_hs *hs;		/* owned; NULL before the preamble and after the handshake */
	uint8_t preamble[PREAMBLE_BYTES];	/* of the initiator; 0 before */
	unsigned next_static;		/* the static key that hs does not use, if it cannot read message 1 */
	struct noise_cipher send, recv;
	uint8_t version;		/* agreed; 0 before */
	struct buf wire_in;		/* an incomplete Noise message */
	struct buf wire_out;		/* sealed bytes that wait; the first wire_out_at are gone */
	size_t wire_out_at;
};

enum tv_err
chan_noise_new(struct chan *c, const struct noise_conf *conf)
{
	struct chan_noise *n = calloc(1, sizeof(*n));

	TV_ASSERT(conf->pattern != NOISE_NKPSK0 ||
	    (c->initiator ? conf->static_public != NULL : conf->static_count > 0));
	if (n == NULL)
		return TV_ENOMEM;
	n->conf = conf;
	buf_init(&n->wire_in, LEN_BYTES + NOISE_MSG_BYTES_MAX);
	buf_init(&n->wire_out, WIRE_OUT_BATCH_BYTES + 2 * NOISE_MSG_BYTES_MAX);
	c->noise = n;
	return TV_OK;
}

void
chan_noise_free(struct chan_noise *n)
{
	noise_hs_free(n->hs);
	buf_done(&n->wire_in);
	buf_done(&n->wire_out);
	sodium_memzero(n, sizeof(*n));
	free(n);
}

/* -- output --------------------------------------------------------------------- */

size_t
chan_noise_pending(const struct chan_noise *n)
{
	return n->wire_out.len - n->wire_out_at;
}

static void
no_memory(struct chan *c)
{
	chan_refuse(c, TV_ENOMEM, "no memory for the link");
}

/* Appends one sealed message to the bytes that wait. */
static void
seal(struct chan *c, const uint8_t *plain, size_t len)
{
	struct chan_noise *n = c->noise;
	uint8_t *at;

	buf_u16le(&n->wire_out, (uint16_t)(len + NOISE_TAG_BYTES));
	at = buf_add(&n->wire_out, len + NOISE_TAG_BYTES);
	if (at == NULL)
		no_memory(c);
	else if (noise_seal(&n->send, plain, len, at) != TV_OK)
		chan_refuse(c, TV_ELIMIT, "used up the nonces of this link");
}

/* Writes sealed bytes; true when all are gone. */
static bool
write_wire(struct chan *c)
{
	struct chan_noise *n = c->noise;

	if (n->wire_out.failed)
		return false;
	if (chan_noise_pending(n) > 0)
		n->wire_out_at += chan_io_write(c, n->wire_out.data + n->wire_out_at, chan_noise_pending(n));
	if (chan_noise_pending(n) > 0)
		return false;
	n->wire_out_at = 0;
	if (n->wire_out.cap > CHAN_KEEP_BYTES)
		buf_done(&n->wire_out);
	else
		buf_reset(&n->wire_out);
	return true;
}

void
chan_noise_flush(struct chan *c)
{
	struct chan_noise *n = c->noise;
	size_t done = 0;
	bool sealed;

	do {
		struct span next;

		sealed = false;
		while (c->opened && (next = chan_next(c)).len > 0 && n->wire_out.len < WIRE_OUT_BATCH_BYTES &&
		    !n->wire_out.failed) {
			size_t len = next.len < SEAL_BYTES_MAX ? next.len : SEAL_BYTES_MAX;

			seal(c, next.p, len);
			chan_taken(c, len);
			done += len;
			sealed = true;
		}
	} while (write_wire(c) && sealed && done < CHAN_FLUSH_BYTES_MAX);
}

/* -- handshake ------------------------------------------------------------------- */

static void
put_hs_message(struct chan *c, const uint8_t *payload, size_t len)
{
	struct chan_noise *n = c->noise;
	uint8_t msg[HS_MSG_BYTES_MAX];
	size_t used = sizeof(msg);

	if (noise_hs_write(n->hs, payload, len, msg, &used) != TV_OK) {
		chan_refuse(c, TV_EAUTH, "sent an unusable key");
		return;
	}
	buf_u16le(&n->wire_out, (uint16_t)used);
	buf_put(&n->wire_out, msg, used);
	if (n->wire_out.failed)
		no_memory(c);
}

void
chan_noise_start(struct chan *c)
{
	struct chan_noise *n = c->noise;
	const struct noise_conf *conf = n->conf;
	uint8_t *preamble = n->preamble;

	if (!c->initiator)
		return;
	if (c->psk >= conf->psk_count) {
		chan_refuse(c, TV_EAUTH, "cannot be reached: no key is configured");
		return;
	}
	memcpy(preamble, MAGIC, MAGIC_BYTES);
	preamble[MAGIC_BYTES] = (uint8_t)conf->pattern;
	preamble[MAGIC_BYTES + 1] = VERSION_MIN;
	preamble[MAGIC_BYTES + 2] = VERSION_MAX;
	key_id(conf->psks[c->psk].bytes, preamble + MAGIC_BYTES + 3);
	n->hs = noise_hs_new(conf->pattern, true, preamble, PREAMBLE_BYTES, conf->psks[c->psk].bytes, NULL,
	    conf->static_public, NULL);
	if (n->hs == NULL) {
		no_memory(c);
		return;
	}
	buf_put(&n->wire_out, preamble, PREAMBLE_BYTES);
	put_hs_message(c, NULL, 0);
	chan_io_flush(c);
}

/* Place in the list of the psk that the preamble names; psk_count: it is not there. */
static unsigned
named_psk(const struct chan_noise *n)
{
	uint8_t id[KEY_ID_BYTES];
	unsigned at;

	for (at = 0; at < n->conf->psk_count; at++) {
		key_id(n->conf->psks[at].bytes, id);
		if (memcmp(id, n->preamble + MAGIC_BYTES + 3, KEY_ID_BYTES) == 0)
			break;
	}
	return at;
}

bool
chan_key_stands(const struct chan *c)
{
	const struct chan_noise *n = c->noise;

	if (n == NULL)
		return true;
	if (n->preamble[0] == 0)
		return !c->initiator || c->psk < n->conf->psk_count;
	return named_psk(n) < n->conf->psk_count;
}

static void
refuse_key(struct chan *c)
{
	char text[128];

	snprintf(text, sizeof(text), "has another %s: it uses a key that is not in our ring",
	    c->noise->conf->key_file != NULL ? c->noise->conf->key_file : "key");
	chan_refuse(c, TV_EAUTH, text);
}

/* Responder: a handshake with the psk that the peer's preamble names and our next static key; false: refused. */
static bool
answer_with_next(struct chan *c)
{
	struct chan_noise *n = c->noise;
	const struct noise_conf *conf = n->conf;
	const struct key_pair *own = n->next_static < conf->static_count ? &conf->statics[n->next_static] : NULL;
	unsigned at = named_psk(n);

	if (at == conf->psk_count) {
		refuse_key(c);
		return false;
	}
	noise_hs_free(n->hs);
	n->hs = noise_hs_new(conf->pattern, false, n->preamble, PREAMBLE_BYTES, conf->psks[at].bytes,
	    own != NULL ? own->secret : NULL, own != NULL ? own->pub : NULL, NULL);
	n->next_static++;
	if (n->hs == NULL)
		no_memory(c);
	return n->hs != NULL;
}

/* Responder: takes the preamble.  Returns the bytes used; 0: incomplete, or refused. */
static size_t
read_preamble(struct chan *c, struct span in)
{
	struct chan_noise *n = c->noise;
	const struct noise_conf *conf = n->conf;
	size_t see = in.len < MAGIC_BYTES ? in.len : MAGIC_BYTES;
	uint8_t min, max;

	if (memcmp(in.p, MAGIC, see) != 0) {
		chan_refuse(c, TV_EFORMAT, "sent plaintext or another protocol; this port accepts encrypted links "
		    "only");
		return 0;
	}
	if (in.len < PREAMBLE_BYTES)
		return 0;
	min = in.p[MAGIC_BYTES + 1];
	max = in.p[MAGIC_BYTES + 2];
	if (in.p[MAGIC_BYTES] != (uint8_t)conf->pattern) {
		chan_refuse(c, TV_EFORMAT, "opened another kind of link than this port accepts");
		return 0;
	}
	if (min > VERSION_MAX || max < VERSION_MIN || min > max) {
		chan_refuse(c, TV_EFORMAT, "offers no protocol version that we know");
		return 0;
	}
	n->version = max < VERSION_MAX ? max : VERSION_MAX;
	memcpy(n->preamble, in.p, PREAMBLE_BYTES);
	return answer_with_next(c) ? PREAMBLE_BYTES : 0;
}

/* The last handshake message was written or read. */
static void
split(struct chan_noise *n)
{
	noise_hs_split(n->hs, &n->send, &n->recv);
	noise_hs_free(n->hs);
	n->hs = NULL;
}

static struct {
	const struct ev_loop *loop;
	unsigned turn, done;
	uint64_t postponed;
} handshakes;

uint64_t
chan_handshakes_postponed(void)
{
	return handshakes.postponed;
}

/* Has this turn of the loop answered its share?  The bytes stay in the socket, and the loop comes back for them. */
static bool
is_postponed(const struct chan *c)
{
	unsigned turn = ev_iteration(c->loop);

	if (c->initiator || (c->noise->hs == NULL && c->noise->version != 0))
		return false;
	if (handshakes.loop != c->loop || handshakes.turn != turn) {
		handshakes.loop = c->loop;
		handshakes.turn = turn;
		handshakes.done = 0;
	}
	if (handshakes.done < HANDSHAKES_PER_TURN)
		return false;
	handshakes.postponed++;
	return true;
}

static void
hs_message(struct chan *c, struct span msg)
{
	struct chan_noise *n = c->noise;
	uint8_t payload[HS_MSG_BYTES_MAX];
	size_t len = sizeof(payload);
	enum tv_err err = noise_hs_read(n->hs, msg.p, msg.len, payload, &len);

	handshakes.done += !c->initiator;
	/* While server.key is replaced we have two static keys, and message 1 does not say which one it is for. */
	while (err != TV_OK && !c->initiator && n->next_static < n->conf->static_count) {
		if (!answer_with_next(c))
			return;
		len = sizeof(payload);
		err = noise_hs_read(n->hs, msg.p, msg.len, payload, &len);
	}
	if (err != TV_OK) {
		chan_refuse(c, TV_EAUTH, "failed the handshake: wrong key, or forged");
		return;
	}
	if (!c->initiator) {
		put_hs_message(c, &n->version, 1);
		if (c->state != CHAN_HANDSHAKE)
			return;
		split(n);
		chan_io_flush(c);
		return;
	}
	if (len < 1 || payload[0] < VERSION_MIN || payload[0] > VERSION_MAX) {
		chan_refuse(c, TV_EFORMAT, "chose a protocol version that we did not offer");
		return;
	}
	n->version = payload[0];
	split(n);
	seal(c, NULL, 0);		/* leaves with what on_open sends */
	chan_io_soon(c);
	if (c->state == CHAN_HANDSHAKE)
		chan_up(c);
}

/* One length-prefixed message at the front of in; p == NULL while incomplete, or when refused. */
static struct span
next_message(struct chan *c, struct span in)
{
	size_t len;

	if (in.len < LEN_BYTES)
		return SPAN_NONE;
	len = in.p[0] | (size_t)in.p[1] << 8;
	if (len < NOISE_TAG_BYTES || (c->noise->hs != NULL && len > HS_MSG_BYTES_MAX)) {
		chan_refuse(c, TV_EFORMAT, "sent a sealed message of an impossible length");
		return SPAN_NONE;
	}
	if (in.len - LEN_BYTES < len)
		return SPAN_NONE;
	return span_of(in.p + LEN_BYTES, len);
}

/* Takes what belongs to the handshake; returns the bytes used. */
static size_t
handshake(struct chan *c, struct span in)
{
	struct chan_noise *n = c->noise;
	struct span msg;
	size_t used = 0;

	if (n->version == 0 && !c->initiator) {
		used = read_preamble(c, in);
		if (used == 0)
			return 0;
	}
	if (n->hs == NULL)
		return used;
	msg = next_message(c, span_of(in.p + used, in.len - used));
	if (msg.p == NULL)
		return used;
	hs_message(c, msg);
	return used + LEN_BYTES + msg.len;
}

/* -- transport ------------------------------------------------------------------- */

/*
 * Opens all whole messages in place and pushes the clear bytes together at *plain.
 * Returns the bytes used.
 */
static size_t
open_all(struct chan *c, uint8_t *in, size_t len, struct span *plain)
{
	struct chan_noise *n = c->noise;
	uint8_t *first = in + LEN_BYTES;
	size_t used = 0, clear = 0;

	while (c->state < CHAN_CLOSING) {
		struct span msg = next_message(c, span_of(in + used, len - used));
		uint8_t *at = in + used + LEN_BYTES;

		if (msg.p == NULL)
			break;
		if (noise_open(&n->recv, at, msg.len, at) != TV_OK) {
			chan_refuse(c, TV_EAUTH, "sent a forged or replayed message");
			break;
		}
		memmove(first + clear, at, msg.len - NOISE_TAG_BYTES);
		clear += msg.len - NOISE_TAG_BYTES;
		used += LEN_BYTES + msg.len;
		if (c->state == CHAN_HANDSHAKE)
			chan_up(c);	/* the responder's proof: the peer holds the keys now, not once */
	}
	*plain = span_of(first, clear);
	return used;
}

/* The peer's first bytes are no preamble, and that is allowed here: the channel goes on without Noise. */
static bool
went_clear(struct chan *c, struct span in)
{
	struct chan_noise *n = c->noise;

	if (!c->accept_clear || n->version != 0 || in.len == 0 ||
	    memcmp(in.p, MAGIC, in.len < MAGIC_BYTES ? in.len : MAGIC_BYTES) == 0)
		return false;
	c->noise = NULL;
	chan_noise_free(n);
	chan_up(c);
	if (c->state == CHAN_OPEN)
		chan_io_plain(c, in);
	return true;
}

/* What has come: at the front what there was of it before.  Its whole messages are opened where they are. */
static void
take_bytes(struct chan *c, uint8_t *bytes, size_t len)
{
	struct chan_noise *n = c->noise;
	size_t used = 0;
	struct span plain = SPAN_NONE;

	if (went_clear(c, span_of(bytes, len)))
		return;
	if (n->hs != NULL || n->version == 0)
		used = handshake(c, span_of(bytes, len));
	if (n->hs == NULL && n->version != 0)
		used += open_all(c, bytes + used, len - used, &plain);
	if (c->state >= CHAN_CLOSING)
		return;
	buf_reset(&n->wire_in);
	if (used == len && n->wire_in.cap > CHAN_KEEP_BYTES)
		buf_done(&n->wire_in);
	buf_put(&n->wire_in, bytes + used, len - used);
	if (n->wire_in.failed)
		no_memory(c);
	else if (plain.len > 0)
		chan_io_plain(c, plain);
}

void
chan_noise_readable(struct chan *c)
{
	uint8_t bytes[LEN_BYTES + NOISE_MSG_BYTES_MAX + CHAN_READ_BYTES] __attribute__((uninitialized));
	size_t len = c->noise->wire_in.len, got;

	if (is_postponed(c))
		return;
	if (len > 0)
		memcpy(bytes, c->noise->wire_in.data, len);
	got = chan_io_read(c, bytes + len, CHAN_READ_BYTES);
	if (got == 0)
		return;
	take_bytes(c, bytes, len + got);
	if (c->secret)
		explicit_bzero(bytes, len + got);
}
