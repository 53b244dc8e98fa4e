/* Sealed blocks and the ring of keys. */
#include <sodium.h>

#include "common/base/assert.h"
#include "gossipd/core/wire/gcm.h"
#include "gossipd/core/wire/seal.h"

#define BLOCK 16		/* padding of version 0 */

/* -- ring ------------------------------------------------------------------- */

bool
seal_key_len_ok(size_t len)
{
	return len == 16 || len == 24 || len == 32;
}

static struct span
key_span(const struct seal_key *k)
{
	return span_of(k->bytes, k->len);
}

struct span
seal_key_at(const struct seal_ring *r, unsigned at)
{
	return key_span(&r->keys[at]);
}

unsigned
seal_ring_find(const struct seal_ring *r, struct span key)
{
	unsigned i = 0;

	while (i < r->count && !(r->keys[i].len == key.len && sodium_memcmp(r->keys[i].bytes, key.p, key.len) == 0))
		i++;
	return i;
}

enum tv_err
seal_ring_add(struct seal_ring *r, struct span key)
{
	struct seal_key *k;

	if (!seal_key_len_ok(key.len))
		return TV_EINVAL;
	if (seal_ring_find(r, key) < r->count)
		return TV_OK;
	if (r->count == SEAL_KEYS_MAX)
		return TV_ELIMIT;
	k = &r->keys[r->count++];
	memset(k, 0, sizeof(*k));
	memcpy(k->bytes, key.p, key.len);
	k->len = (uint8_t)key.len;
	return TV_OK;
}

enum tv_err
seal_ring_use(struct seal_ring *r, struct span key)
{
	unsigned at = seal_ring_find(r, key);
	struct seal_key k;

	if (at == r->count)
		return TV_ENOENT;
	k = r->keys[at];
	memmove(&r->keys[1], &r->keys[0], at * sizeof(k));
	r->keys[0] = k;
	r->moves += at > 0;
	sodium_memzero(&k, sizeof(k));
	return TV_OK;
}

enum tv_err
seal_ring_remove(struct seal_ring *r, struct span key)
{
	unsigned at = seal_ring_find(r, key);

	if (at == r->count)
		return TV_OK;
	if (at == 0)
		return TV_ECONFLICT;
	r->count--;
	r->moves++;
	memmove(&r->keys[at], &r->keys[at + 1], (r->count - at) * sizeof(r->keys[0]));
	sodium_memzero(&r->keys[r->count], sizeof(r->keys[0]));
	return TV_OK;
}

void
seal_ring_wipe(struct seal_ring *r)
{
	sodium_memzero(r, sizeof(*r));
}

/* -- blocks ------------------------------------------------------------------- */

static size_t
padding(uint8_t version, size_t plain_len)
{
	return version == 0 ? BLOCK - plain_len % BLOCK : 0;
}

size_t
seal_size(uint8_t version, size_t plain_len)
{
	return SEAL_OVERHEAD + plain_len + padding(version, plain_len);
}

/* Version 0: the plaintext is copied to `tmp` and padded there. */
static void
put_padded(uint8_t *to, const struct seal_key *key, const uint8_t *nonce, struct span aad, struct span plain,
    size_t pad, struct buf *tmp)
{
	uint8_t *p = buf_add(tmp, plain.len + pad);

	if (p == NULL)
		return;
	if (plain.len > 0)
		memcpy(p, plain.p, plain.len);
	memset(p + plain.len, (int)pad, pad);
	gcm_seal(key_span(key), nonce, aad, buf_span(tmp), to);
	sodium_memzero(p, plain.len + pad);
}

void
seal_put(struct buf *b, const struct seal_ring *r, uint8_t version, const uint8_t nonce[SEAL_NONCE_BYTES],
    struct span aad, struct span plain)
{
	size_t pad = padding(version, plain.len);
	struct buf tmp = BUF_INIT(plain.len + BLOCK);
	uint8_t *out;

	TV_ASSERT(r->count >= 1 && version <= 1);
	out = buf_add(b, seal_size(version, plain.len));
	if (out == NULL)
		return;
	out[0] = version;
	memcpy(out + 1, nonce, SEAL_NONCE_BYTES);
	out += 1 + SEAL_NONCE_BYTES;
	if (pad == 0) {
		gcm_seal(key_span(&r->keys[0]), nonce, aad, plain, out);
		return;
	}
	put_padded(out, &r->keys[0], nonce, aad, plain, pad, &tmp);
	if (tmp.failed)
		b->failed = true;
	buf_done(&tmp);
}

/* Plaintext length of a version 0 block without its padding. */
static enum tv_err
strip(const uint8_t *plain, size_t *len)
{
	uint8_t pad = plain[*len - 1];

	if (pad < 1 || pad > BLOCK || pad > *len)
		return TV_EFORMAT;
	*len -= pad;
	return TV_OK;
}

enum tv_err
seal_open(const struct seal_ring *r, struct span aad, struct span in, uint8_t *out, size_t cap, size_t *len)
{
	unsigned key;

	return seal_open_by(r, aad, in, out, cap, len, &key);
}

enum tv_err
seal_open_by(const struct seal_ring *r, struct span aad, struct span in, uint8_t *out, size_t cap, size_t *len,
    unsigned *key)
{
	struct span body;
	const uint8_t *nonce;

	*len = 0;
	if (in.len < SEAL_OVERHEAD || in.p[0] > 1 || (in.p[0] == 0 && in.len < SEAL_OVERHEAD_V0))
		return TV_EFORMAT;
	if (in.len - SEAL_OVERHEAD > cap)
		return TV_ELIMIT;
	nonce = in.p + 1;
	body = span_of(in.p + 1 + SEAL_NONCE_BYTES, in.len - 1 - SEAL_NONCE_BYTES);
	for (unsigned i = 0; i < r->count; i++) {
		if (!gcm_open(key_span(&r->keys[i]), nonce, aad, body, out))
			continue;
		*len = in.len - SEAL_OVERHEAD;
		*key = i;
		return in.p[0] == 0 ? strip(out, len) : TV_OK;
	}
	return TV_EAUTH;
}
