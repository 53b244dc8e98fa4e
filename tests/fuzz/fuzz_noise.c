/*
 * Noise.  The first byte chooses what the rest is:
 *   0  bytes of a stranger at a listening channel (NN; with bit 7: NK)
 *   1  handshake message 1 straight to the responder's core
 *   2  handshake message 2 straight to the initiator's core
 *   3  transport bytes after a good handshake: what a forger can inject
 *   4  clear bytes that a peer with the right keys seals: frames through the link
 */
#include <sodium.h>

#include "common/net/noise.h"
#include "tests/fuzz/chan_feed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PREAMBLE_BYTES 15

static struct key psk = { { 1, 2, 3, 4 } };
static const uint8_t secret[KEY_BYTES] = { 8, 9, 10 };

static void
make_conf(struct noise_conf *conf, enum noise_pattern pattern, struct key_pair *pair)
{
	TV_ASSERT(sodium_init() >= 0);
	memcpy(pair->secret, secret, sizeof(secret));
	crypto_scalarmult_base(pair->pub, secret);
	*conf = (struct noise_conf){
		.pattern = pattern, .psks = &psk, .psk_count = 1, .statics = pair, .static_count = 1,
		.static_public = pair->pub,
	};
}

static struct noise_hs *
side(const struct noise_conf *conf, bool initiator, const uint8_t *prologue, size_t len)
{
	static const uint8_t ephemeral[KEY_BYTES] = { 16, 17, 18 };
	struct noise_hs *hs = noise_hs_new(conf->pattern, initiator, prologue, len, psk.bytes, secret,
	    conf->static_public, ephemeral);

	TV_ASSERT(hs != NULL);
	return hs;
}

static void
core(const struct noise_conf *conf, bool initiator, const uint8_t *p, size_t n)
{
	struct noise_hs *hs = side(conf, initiator, NULL, 0);
	uint8_t out[NOISE_MSG_BYTES_MAX];
	size_t len = sizeof(out);

	if (initiator)
		TV_ASSERT(noise_hs_write(hs, NULL, 0, out, &len) == TV_OK);
	len = sizeof(out);
	(void)noise_hs_read(hs, p, n, out, &len);
	noise_hs_free(hs);
}

/* Plays the initiator on feed->fd until both have their keys. */
static void
shake_hands(struct feed *feed, const struct noise_conf *conf, struct noise_cipher *tx, struct noise_cipher *rx)
{
	uint8_t out[PREAMBLE_BYTES + 2 + 48] = "TVn1", in[256], payload[64];
	size_t len = 48, payload_len = sizeof(payload);
	struct noise_hs *hs;
	ssize_t n;

	out[4] = (uint8_t)conf->pattern;
	out[5] = out[6] = 1;
	key_id(psk.bytes, out + 7);
	hs = side(conf, true, out, PREAMBLE_BYTES);
	out[PREAMBLE_BYTES] = 48;
	TV_ASSERT(noise_hs_write(hs, NULL, 0, out + PREAMBLE_BYTES + 2, &len) == TV_OK);
	TV_ASSERT(send(feed->fd, out, sizeof(out), MSG_NOSIGNAL) == sizeof(out));
	for (int i = 0; i < 4; i++)
		ev_run(feed->loop, EVRUN_NOWAIT);
	n = recv(feed->fd, in, sizeof(in), 0);
	TV_ASSERT(n == 2 + 49);
	TV_ASSERT(noise_hs_read(hs, in + 2, (size_t)n - 2, payload, &payload_len) == TV_OK);
	noise_hs_split(hs, tx, rx);
	noise_hs_free(hs);
}

/* Seals the bytes in messages of odd sizes. */
static void
feed_sealed(struct feed *feed, struct noise_cipher *tx, const uint8_t *p, size_t n)
{
	for (size_t size = 0; feed->chan != NULL; size = size * 3 + 1) {
		uint8_t msg[2 + 4096 + NOISE_TAG_BYTES];
		size_t len = size < n ? size : n;

		len = len < 4096 ? len : 4096;
		msg[0] = (uint8_t)(len + NOISE_TAG_BYTES);
		msg[1] = (uint8_t)((len + NOISE_TAG_BYTES) >> 8);
		TV_ASSERT(noise_seal(tx, p, len, msg + 2) == TV_OK);
		feed_bytes(feed, msg, 2 + len + NOISE_TAG_BYTES, 1 << 16);
		p += len;
		n -= len;
		if (n == 0)
			break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct key_pair pair;
	struct noise_cipher tx, rx;
	struct noise_conf conf;
	struct feed feed;
	unsigned what;

	if (size < 1 || size > 4096)
		return 0;
	make_conf(&conf, data[0] & 0x80 ? NOISE_NKPSK0 : NOISE_NNPSK0, &pair);
	what = data[0] & 7;
	if (what == 1 || what == 2) {
		core(&conf, what == 2, data + 1, size - 1);
		return 0;
	}
	feed_open(&feed, &conf, false);
	if (what == 3 || what == 4)
		shake_hands(&feed, &conf, &tx, &rx);
	if (what == 4)
		feed_sealed(&feed, &tx, data + 1, size - 1);
	else
		feed_bytes(&feed, data + 1, size - 1, 1 << 16);
	TV_ASSERT(what == 4 || feed.frames == 0);	/* nobody without keys gets a frame in */
	feed_done(&feed);
	return 0;
}
