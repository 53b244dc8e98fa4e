/*
 * AES-GCM with keys of 16, 24 or 32 bytes, 12-byte nonces and 16-byte tags.
 * 32-byte keys go to libsodium where the processor has AES instructions (and
 * sodium_init() was called); everything else goes to nettle.
 */
#ifndef TV_GOSSIPD_CORE_WIRE_GCM_H
#define TV_GOSSIPD_CORE_WIRE_GCM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/rd.h"

#define GCM_NONCE_BYTES 12
#define GCM_TAG_BYTES 16

/* key.len is 16, 24 or 32 (asserted).  Writes plain.len bytes, then the tag.  No overlap. */
void gcm_seal(struct span key, const uint8_t nonce[GCM_NONCE_BYTES], struct span aad, struct span plain, uint8_t *out);
/*
 * in: ciphertext and tag (at least GCM_TAG_BYTES, asserted).  Writes in.len - 16 bytes
 * and returns true, or false when the tag is wrong: then out holds zeros.
 */
bool gcm_open(struct span key, const uint8_t nonce[GCM_NONCE_BYTES], struct span aad, struct span in, uint8_t *out);

/* The same with nettle whatever the key: for processors without AES, and to compare the two in tests. */
void gcm_seal_soft(struct span key, const uint8_t nonce[GCM_NONCE_BYTES], struct span aad, struct span plain,
    uint8_t *out);
bool gcm_open_soft(struct span key, const uint8_t nonce[GCM_NONCE_BYTES], struct span aad, struct span in,
    uint8_t *out);

#endif
