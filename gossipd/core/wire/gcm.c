/* AES-GCM by libsodium or nettle. */
#include <nettle/gcm.h>
#include <sodium.h>

#include "common/base/assert.h"
#include "gossipd/core/wire/gcm.h"

_Static_assert(crypto_aead_aes256gcm_NPUBBYTES == GCM_NONCE_BYTES, "nonce");
_Static_assert(crypto_aead_aes256gcm_ABYTES == GCM_TAG_BYTES, "tag");

/* The three key lengths have three context types in nettle; a union and a row each. */
union soft_ctx {
	struct gcm_aes128_ctx k16;
	struct gcm_aes192_ctx k24;
	struct gcm_aes256_ctx k32;
};

static void
soft_start(union soft_ctx *c, struct span key, const uint8_t *nonce, struct span aad)
{
	switch (key.len) {
	case 16:
		gcm_aes128_set_key(&c->k16, key.p);
		gcm_aes128_set_iv(&c->k16, GCM_NONCE_BYTES, nonce);
		gcm_aes128_update(&c->k16, aad.len, aad.p);
		break;
	case 24:
		gcm_aes192_set_key(&c->k24, key.p);
		gcm_aes192_set_iv(&c->k24, GCM_NONCE_BYTES, nonce);
		gcm_aes192_update(&c->k24, aad.len, aad.p);
		break;
	default:
		TV_ASSERT(key.len == 32);
		gcm_aes256_set_key(&c->k32, key.p);
		gcm_aes256_set_iv(&c->k32, GCM_NONCE_BYTES, nonce);
		gcm_aes256_update(&c->k32, aad.len, aad.p);
	}
}

void
gcm_seal_soft(struct span key, const uint8_t nonce[GCM_NONCE_BYTES], struct span aad, struct span plain, uint8_t *out)
{
	union soft_ctx c;
	uint8_t *tag = out + plain.len;

	soft_start(&c, key, nonce, aad);
	if (key.len == 16) {
		gcm_aes128_encrypt(&c.k16, plain.len, out, plain.p);
		gcm_aes128_digest(&c.k16, GCM_TAG_BYTES, tag);
	} else if (key.len == 24) {
		gcm_aes192_encrypt(&c.k24, plain.len, out, plain.p);
		gcm_aes192_digest(&c.k24, GCM_TAG_BYTES, tag);
	} else {
		gcm_aes256_encrypt(&c.k32, plain.len, out, plain.p);
		gcm_aes256_digest(&c.k32, GCM_TAG_BYTES, tag);
	}
	sodium_memzero(&c, sizeof(c));
}

bool
gcm_open_soft(struct span key, const uint8_t nonce[GCM_NONCE_BYTES], struct span aad, struct span in, uint8_t *out)
{
	union soft_ctx c;
	uint8_t tag[GCM_TAG_BYTES];
	size_t n = in.len - GCM_TAG_BYTES;
	bool ok;

	TV_ASSERT(in.len >= GCM_TAG_BYTES);
	soft_start(&c, key, nonce, aad);
	if (key.len == 16) {
		gcm_aes128_decrypt(&c.k16, n, out, in.p);
		gcm_aes128_digest(&c.k16, GCM_TAG_BYTES, tag);
	} else if (key.len == 24) {
		gcm_aes192_decrypt(&c.k24, n, out, in.p);
		gcm_aes192_digest(&c.k24, GCM_TAG_BYTES, tag);
	} else {
		gcm_aes256_decrypt(&c.k32, n, out, in.p);
		gcm_aes256_digest(&c.k32, GCM_TAG_BYTES, tag);
	}
	sodium_memzero(&c, sizeof(c));
	ok = sodium_memcmp(tag, in.p + n, GCM_TAG_BYTES) == 0;
	if (!ok && n > 0)
		sodium_memzero(out, n);
	return ok;
}

static bool
hardware(struct span key)
{
	return key.len == crypto_aead_aes256gcm_KEYBYTES && crypto_aead_aes256gcm_is_available() == 1;
}

void
gcm_seal(struct span key, const uint8_t nonce[GCM_NONCE_BYTES], struct span aad, struct span plain, uint8_t *out)
{
	if (!hardware(key)) {
		gcm_seal_soft(key, nonce, aad, plain, out);
		return;
	}
	crypto_aead_aes256gcm_encrypt(out, NULL, plain.p, plain.len, aad.p, aad.len, NULL, nonce, key.p);
}

bool
gcm_open(struct span key, const uint8_t nonce[GCM_NONCE_BYTES], struct span aad, struct span in, uint8_t *out)
{
	if (!hardware(key))
		return gcm_open_soft(key, nonce, aad, in, out);
	TV_ASSERT(in.len >= GCM_TAG_BYTES);
	return crypto_aead_aes256gcm_decrypt(out, NULL, NULL, in.p, in.len, aad.p, aad.len, nonce, key.p) == 0;
}
