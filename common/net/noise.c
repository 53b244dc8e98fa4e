/*
 * Noise_NNpsk0 and Noise_NKpsk0 with 25519, ChaChaPoly and BLAKE2b.
 * Names follow the specification, revision 34 (https://noiseprotocol.org/noise.html); sections are cited.
 */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/net/noise.h"

#define HASH_BYTES 64		/* HASHLEN of BLAKE2b */
#define BLOCK_BYTES 128		/* BLOCKLEN of BLAKE2b */
#define DH_BYTES 32

/* Section 5.2 and 5.3: SymmetricState and HandshakeState in one. */
struct noise_hs {
	enum noise_pattern pattern;
	bool initiator;
	bool failed;			/* poisoned: every later call fails */
	unsigned step;			/* messages written and read so far: 0, 1, 2 */
	uint8_t h[HASH_BYTES], ck[HASH_BYTES];
	struct noise_cipher k;
	uint8_t psk[KEY_BYTES];
	bool given;			/* e_secret is the caller's */
	uint8_t e_secret[DH_BYTES], e_public[DH_BYTES];	/* made when our message is written */
	uint8_t re[DH_BYTES];		/* the peer's ephemeral key */
	uint8_t s_secret[DH_BYTES];	/* NK responder */
	uint8_t s_public[DH_BYTES];	/* NK: the responder's, known to both */
};

/* -- hash functions (4.3) ---------------------------------------------------- */

/* HMAC of a || b; a key of at most one block. */
static void
hmac(const uint8_t *key, size_t key_len, const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len,
    uint8_t out[HASH_BYTES])
{
	crypto_generichash_state st;
	uint8_t pad[BLOCK_BYTES], inner[HASH_BYTES];

	memset(pad, 0x36, sizeof(pad));
	for (size_t i = 0; i < key_len; i++)
		pad[i] ^= key[i];
	crypto_generichash_init(&st, NULL, 0, HASH_BYTES);
	crypto_generichash_update(&st, pad, sizeof(pad));
	crypto_generichash_update(&st, a, a_len);
	crypto_generichash_update(&st, b, b_len);
	crypto_generichash_final(&st, inner, HASH_BYTES);
	for (size_t i = 0; i < sizeof(pad); i++)
		pad[i] ^= 0x36 ^ 0x5c;
	crypto_generichash_init(&st, NULL, 0, HASH_BYTES);
	crypto_generichash_update(&st, pad, sizeof(pad));
	crypto_generichash_update(&st, inner, sizeof(inner));
	crypto_generichash_final(&st, out, HASH_BYTES);
	sodium_memzero(&st, sizeof(st));
	sodium_memzero(pad, sizeof(pad));
	sodium_memzero(inner, sizeof(inner));
}

/* HKDF(ck, ikm, count): count outputs of HASH_BYTES, one after the other.  out may overlap nothing. */
static void
hkdf(const uint8_t ck[HASH_BYTES], const uint8_t *ikm, size_t ikm_len, unsigned count, uint8_t *out)
{
	uint8_t temp[HASH_BYTES];

	hmac(ck, HASH_BYTES, ikm, ikm_len, NULL, 0, temp);
	for (uint8_t i = 1; i <= count; i++) {
		const uint8_t *before = i == 1 ? NULL : out + (size_t)(i - 2) * HASH_BYTES;

		hmac(temp, sizeof(temp), before, i == 1 ? 0 : HASH_BYTES, &i, 1, out + (size_t)(i - 1) * HASH_BYTES);
	}
	sodium_memzero(temp, sizeof(temp));
}

static void
mix_hash(struct noise_hs *hs, const uint8_t *data, size_t len)
{
	crypto_generichash_state st;

	crypto_generichash_init(&st, NULL, 0, HASH_BYTES);
	crypto_generichash_update(&st, hs->h, HASH_BYTES);
	crypto_generichash_update(&st, data, len);
	crypto_generichash_final(&st, hs->h, HASH_BYTES);
}

static void
set_key(struct noise_hs *hs, const uint8_t *key)
{
	memcpy(hs->k.key, key, sizeof(hs->k.key));
	hs->k.nonce = 0;
}

static void
mix_key(struct noise_hs *hs, const uint8_t *ikm, size_t len)
{
	uint8_t out[2 * HASH_BYTES];

	hkdf(hs->ck, ikm, len, 2, out);
	memcpy(hs->ck, out, HASH_BYTES);
	set_key(hs, out + HASH_BYTES);
	sodium_memzero(out, sizeof(out));
}

static void
mix_key_and_hash(struct noise_hs *hs, const uint8_t psk[KEY_BYTES])
{
	uint8_t out[3 * HASH_BYTES];

	hkdf(hs->ck, psk, KEY_BYTES, 3, out);
	memcpy(hs->ck, out, HASH_BYTES);
	mix_hash(hs, out + HASH_BYTES, HASH_BYTES);
	set_key(hs, out + 2 * HASH_BYTES);
	sodium_memzero(out, sizeof(out));
}

/* -- ciphers (4.2, 12.3) ------------------------------------------------------- */

/* 4 zero bytes, then the counter, little endian. */
static void
make_nonce(uint64_t n, uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES])
{
	memset(nonce, 0, 4);
	for (int i = 0; i < 8; i++)
		nonce[4 + i] = (uint8_t)(n >> (8 * i));
}

static enum tv_err
seal(struct noise_cipher *c, const uint8_t *ad, size_t ad_len, const uint8_t *plain, size_t len, uint8_t *out)
{
	uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];

	if (c->nonce == UINT64_MAX)
		return TV_ELIMIT;
	make_nonce(c->nonce++, nonce);
	crypto_aead_chacha20poly1305_ietf_encrypt(out, NULL, plain, len, ad, ad_len, NULL, nonce, c->key);
	return TV_OK;
}

static enum tv_err
open_sealed(struct noise_cipher *c, const uint8_t *ad, size_t ad_len, const uint8_t *sealed, size_t len, uint8_t *out)
{
	uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];

	if (len < NOISE_TAG_BYTES)
		return TV_EFORMAT;
	if (c->nonce == UINT64_MAX)
		return TV_ELIMIT;
	make_nonce(c->nonce, nonce);
	if (crypto_aead_chacha20poly1305_ietf_decrypt(out, NULL, NULL, sealed, len, ad, ad_len, nonce, c->key) != 0)
		return TV_EAUTH;
	c->nonce++;
	return TV_OK;
}

enum tv_err
noise_seal(struct noise_cipher *c, const uint8_t *plain, size_t len, uint8_t *out)
{
	return seal(c, NULL, 0, plain, len, out);
}

enum tv_err
noise_open(struct noise_cipher *c, const uint8_t *sealed, size_t len, uint8_t *out)
{
	return open_sealed(c, NULL, 0, sealed, len, out);
}

/* -- handshake (5.3, 9) ---------------------------------------------------------- */

struct noise_hs *
noise_hs_new(enum noise_pattern pattern, bool initiator, const uint8_t *prologue, size_t prologue_len,
    const uint8_t psk[32], const uint8_t *static_secret, const uint8_t *static_public, const uint8_t *eph_secret)
{
	const char *name = pattern == NOISE_NKPSK0 ? "Noise_NKpsk0_25519_ChaChaPoly_BLAKE2b"
	    : "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b";
	struct noise_hs *hs;

	if (pattern != NOISE_NNPSK0 && pattern != NOISE_NKPSK0)
		return NULL;
	if (pattern == NOISE_NKPSK0 && (static_public == NULL || (!initiator && static_secret == NULL)))
		return NULL;
	hs = calloc(1, sizeof(*hs));
	if (hs == NULL)
		return NULL;
	hs->pattern = pattern;
	hs->initiator = initiator;
	memcpy(hs->h, name, strlen(name));	/* at most HASHLEN bytes: padded with zeros, not hashed */
	memcpy(hs->ck, hs->h, HASH_BYTES);
	memcpy(hs->psk, psk, KEY_BYTES);
	mix_hash(hs, prologue, prologue_len);
	if (pattern == NOISE_NKPSK0) {
		memcpy(hs->s_public, static_public, DH_BYTES);
		if (!initiator)
			memcpy(hs->s_secret, static_secret, DH_BYTES);
		mix_hash(hs, hs->s_public, DH_BYTES);	/* pre-message "<- s" */
	}
	hs->given = eph_secret != NULL;
	if (hs->given)
		memcpy(hs->e_secret, eph_secret, DH_BYTES);
	return hs;
}

void
noise_hs_free(struct noise_hs *hs)
{
	if (hs == NULL)
		return;
	sodium_memzero(hs, sizeof(*hs));
	free(hs);
}

/* DH and MixKey.  A point of low order gives nothing secret: refused. */
static enum tv_err
mix_dh(struct noise_hs *hs, const uint8_t *secret, const uint8_t *public)
{
	uint8_t shared[DH_BYTES];
	enum tv_err err = TV_EAUTH;

	if (crypto_scalarmult(shared, secret, public) == 0) {
		mix_key(hs, shared, sizeof(shared));
		err = TV_OK;
	}
	sodium_memzero(shared, sizeof(shared));
	return err;
}

/* Not before it is needed: most peers that knock have no key, and shall cost nothing. */
static void
make_ephemeral(struct noise_hs *hs)
{
	if (!hs->given)
		randombytes_buf(hs->e_secret, DH_BYTES);
	crypto_scalarmult_base(hs->e_public, hs->e_secret);
}

/* "e" in a psk handshake (9.2): the public key goes into the hash and into the key. */
static void
mix_ephemeral(struct noise_hs *hs, const uint8_t e[DH_BYTES])
{
	mix_hash(hs, e, DH_BYTES);
	mix_key(hs, e, DH_BYTES);
}

/* The tokens after "e" of message `step`: es for NK in the first, ee in the second. */
static enum tv_err
mix_tokens(struct noise_hs *hs)
{
	if (hs->step == 1)
		return mix_dh(hs, hs->e_secret, hs->re);
	if (hs->pattern != NOISE_NKPSK0)
		return TV_OK;
	return hs->initiator ? mix_dh(hs, hs->e_secret, hs->s_public) : mix_dh(hs, hs->s_secret, hs->re);
}

/* Is it our turn to write (or to read)? */
static bool
in_turn(const struct noise_hs *hs, bool writing)
{
	return !hs->failed && hs->step < 2 && writing == (hs->initiator == (hs->step == 0));
}

enum tv_err
noise_hs_write(struct noise_hs *hs, const uint8_t *payload, size_t len, uint8_t *out, size_t *out_len)
{
	size_t need = DH_BYTES + len + NOISE_TAG_BYTES;
	enum tv_err err;

	if (!in_turn(hs, true))
		return TV_EINVAL;
	if (need > *out_len || need > NOISE_MSG_BYTES_MAX)
		return TV_ELIMIT;
	if (hs->step == 0)
		mix_key_and_hash(hs, hs->psk);
	make_ephemeral(hs);
	memcpy(out, hs->e_public, DH_BYTES);
	mix_ephemeral(hs, hs->e_public);
	err = mix_tokens(hs);
	if (err == TV_OK)
		err = seal(&hs->k, hs->h, HASH_BYTES, payload, len, out + DH_BYTES);
	if (err != TV_OK) {
		hs->failed = true;
		return err;
	}
	mix_hash(hs, out + DH_BYTES, len + NOISE_TAG_BYTES);
	*out_len = need;
	hs->step++;
	return TV_OK;
}

enum tv_err
noise_hs_read(struct noise_hs *hs, const uint8_t *msg, size_t len, uint8_t *out, size_t *out_len)
{
	enum tv_err err;

	if (!in_turn(hs, false))
		return TV_EINVAL;
	if (len < DH_BYTES + NOISE_TAG_BYTES || len > NOISE_MSG_BYTES_MAX)
		return TV_EFORMAT;
	if (len - DH_BYTES - NOISE_TAG_BYTES > *out_len)
		return TV_ELIMIT;
	if (hs->step == 0)
		mix_key_and_hash(hs, hs->psk);
	memcpy(hs->re, msg, DH_BYTES);
	mix_ephemeral(hs, hs->re);
	err = mix_tokens(hs);
	if (err == TV_OK)
		err = open_sealed(&hs->k, hs->h, HASH_BYTES, msg + DH_BYTES, len - DH_BYTES, out);
	if (err != TV_OK) {
		hs->failed = true;
		return err;
	}
	mix_hash(hs, msg + DH_BYTES, len - DH_BYTES);
	*out_len = len - DH_BYTES - NOISE_TAG_BYTES;
	hs->step++;
	return TV_OK;
}

bool
noise_hs_done(const struct noise_hs *hs)
{
	return !hs->failed && hs->step == 2;
}

void
noise_hs_split(struct noise_hs *hs, struct noise_cipher *send, struct noise_cipher *recv)
{
	uint8_t out[2 * HASH_BYTES];

	TV_ASSERT(noise_hs_done(hs));
	hkdf(hs->ck, NULL, 0, 2, out);
	memcpy(hs->initiator ? send->key : recv->key, out, sizeof(send->key));
	memcpy(hs->initiator ? recv->key : send->key, out + HASH_BYTES, sizeof(send->key));
	send->nonce = recv->nonce = 0;
	sodium_memzero(out, sizeof(out));
	hs->failed = true;		/* nothing more to do with it but free it */
}
