/*
 * Sealed blocks: AES-GCM with a ring of keys.
 *
 *	u8 version | 12-byte nonce | ciphertext | 16-byte tag
 *
 * Version 1 seals the bytes as they are; version 0, of very old peers, pads
 * them to blocks of 16 first.  Both are read; version 1 is written by default.
 * Source: doc/wire.md, "encryption and keyring".
 */
#ifndef TV_GOSSIPD_CORE_WIRE_SEAL_H
#define TV_GOSSIPD_CORE_WIRE_SEAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"

#define SEAL_KEY_BYTES_MAX 32
#define SEAL_KEYS_MAX 16
#define SEAL_NONCE_BYTES 12
#define SEAL_TAG_BYTES 16
#define SEAL_OVERHEAD (1 + SEAL_NONCE_BYTES + SEAL_TAG_BYTES)		/* version 1 */
#define SEAL_OVERHEAD_V0 (SEAL_OVERHEAD + 16)				/* version 0, at most */

struct seal_key {
	uint8_t bytes[SEAL_KEY_BYTES_MAX];
	uint8_t len;				/* 16, 24 or 32 */
};

/* keys[0] is the primary one.  The caller keeps it in locked memory if it can. */
struct seal_ring {
	struct seal_key keys[SEAL_KEYS_MAX];
	unsigned count;				/* 0: no encryption */
	unsigned moves;				/* of keys; places from before the last one mean nothing */
};

bool seal_key_len_ok(size_t len);
/* Appends; a key that is there already is no error.  TV_EINVAL: bad length; TV_ELIMIT: 16 keys. */
enum tv_err seal_ring_add(struct seal_ring *r, struct span key);
/* Moves the key to the front, the others keep their order.  TV_ENOENT: not in the ring. */
enum tv_err seal_ring_use(struct seal_ring *r, struct span key);
/* TV_ECONFLICT: it is the primary key.  An unknown key is no error. */
enum tv_err seal_ring_remove(struct seal_ring *r, struct span key);
void seal_ring_wipe(struct seal_ring *r);

/* Bytes of the sealed form of plain_len bytes. */
size_t seal_size(uint8_t version, size_t plain_len);
/*
 * Appends the sealed form of `plain` under the primary key (count >= 1).
 * version 0 or 1.  The nonce must be fresh random bytes for every call.
 */
void seal_put(struct buf *b, const struct seal_ring *r, uint8_t version, const uint8_t nonce[SEAL_NONCE_BYTES],
    struct span aad, struct span plain);
/*
 * Opens a block with the first key of the ring that fits, into out[cap]
 * (cap >= in.len is always enough; out and in must not overlap).
 * TV_EFORMAT: too short, unknown version, bad padding; TV_EAUTH: no key fits;
 * TV_ELIMIT: cap too small.
 */
enum tv_err seal_open(const struct seal_ring *r, struct span aad, struct span in, uint8_t *out, size_t cap,
    size_t *len);
/* The same; *key: place of that key in the ring. */
enum tv_err seal_open_by(const struct seal_ring *r, struct span aad, struct span in, uint8_t *out, size_t cap,
    size_t *len, unsigned *key);
/* The key at this place. */
struct span seal_key_at(const struct seal_ring *r, unsigned at);
/* Place of this key, or r->count. */
unsigned seal_ring_find(const struct seal_ring *r, struct span key);

#endif
