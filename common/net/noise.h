/*
 * Noise sessions on libsodium primitives (https://noiseprotocol.org/noise.html, revision 34):
 *   Noise_NKpsk0_25519_ChaChaPoly_BLAKE2b   rpcd to a server's rpcd
 *   Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b   raftd to raftd
 * Pure: no sockets; the ephemeral key comes from the caller in tests, from libsodium otherwise.
 *
 * On the wire (common/net/chan.c), before the first handshake message the initiator sends a
 * preamble in clear, which is also the Noise prologue:
 *   "TVn1" | u8 pattern | u8 version_min | u8 version_max | 8 bytes id of the psk
 * Each Noise message after that is u16 length (little endian) | bytes; length <= 65535.
 * The responder answers the preamble only inside its handshake message.
 */
#ifndef TV_COMMON_NET_NOISE_H
#define TV_COMMON_NET_NOISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/conf/keys.h"

#define NOISE_MSG_BYTES_MAX 65535
#define NOISE_TAG_BYTES 16

enum noise_pattern { NOISE_NNPSK0 = 1, NOISE_NKPSK0 = 2 };

struct noise_conf {			/* what one kind of link uses; borrowed by its channels */
	enum noise_pattern pattern;
	const char *key_file;		/* what the psks come from, for the log; NULL: not said */
	const struct key *psks;		/* accepted psks; the initiator takes the first, or that of chan_conf.psk */
	unsigned psk_count;
	const struct key_pair *statics;	/* NK responder: it is known by any of them */
	unsigned static_count;
	const uint8_t *static_public;	/* NK initiator: by which it knows the responder */
};

struct noise_hs;	/* handshake state */
struct noise_cipher {	/* one direction of transport */
	uint8_t key[32];
	uint64_t nonce;
};

/* psk: the one chosen by id.  eph_secret: NULL for a random one. */
struct noise_hs *noise_hs_new(enum noise_pattern pattern, bool initiator, const uint8_t *prologue, size_t prologue_len,
    const uint8_t psk[32], const uint8_t *static_secret, const uint8_t *static_public, const uint8_t *eph_secret);
void noise_hs_free(struct noise_hs *hs);	/* wipes */
/* Next message of ours with this payload; *out_len in: room, out: used. */
enum tv_err noise_hs_write(struct noise_hs *hs, const uint8_t *payload, size_t len, uint8_t *out, size_t *out_len);
/* A message of the peer; its payload to out.  TV_EAUTH: wrong key or forged. */
enum tv_err noise_hs_read(struct noise_hs *hs, const uint8_t *msg, size_t len, uint8_t *out, size_t *out_len);
bool noise_hs_done(const struct noise_hs *hs);
/* After the last message: ciphers for sending and receiving. */
void noise_hs_split(struct noise_hs *hs, struct noise_cipher *send, struct noise_cipher *recv);
/* out has room for len + 16.  Nonce exhaustion (2^64-1) is TV_ELIMIT. */
enum tv_err noise_seal(struct noise_cipher *c, const uint8_t *plain, size_t len, uint8_t *out);
/* out has room for len - 16. */
enum tv_err noise_open(struct noise_cipher *c, const uint8_t *sealed, size_t len, uint8_t *out);

#endif
