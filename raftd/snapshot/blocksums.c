/* Checksums of a file's blocks. */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raftd/snapshot/blocksums.h"

#define END_BYTES 32			/* the file's own checksum of what comes before it */

/* All n bytes, or TV_ESYS; fewer are an error of the disk. */
static enum tv_err
read_all(int fd, uint64_t offset, uint8_t *dst, size_t n)
{
	while (n > 0) {
		ssize_t got = pread(fd, dst, n, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			errno = got == 0 ? EIO : errno;
			return TV_ESYS;
		}
		offset += (uint64_t)got;
		dst += got;
		n -= (size_t)got;
	}
	return TV_OK;
}

static size_t
block_bytes(const struct blocksums *b, uint64_t at)
{
	return b->bytes - at < b->block ? (size_t)(b->bytes - at) : b->block;
}

struct pass {
	crypto_generichash_state whole, inner;
	uint8_t end[END_BYTES];
};

/* One block: into all sums. */
static void
hash_block(struct blocksums *b, struct pass *p, uint64_t at, const uint8_t *bytes, size_t n)
{
	uint64_t inner = b->bytes - END_BYTES;
	size_t before = at >= inner ? 0 : inner - at < n ? (size_t)(inner - at) : n;

	crypto_generichash(b->sums[at / b->block], BLOCKSUM_BYTES, bytes, n, NULL, 0);
	crypto_generichash_update(&p->whole, bytes, n);
	crypto_generichash_update(&p->inner, bytes, before);
	if (before < n)
		memcpy(p->end + (at + before - inner), bytes + before, n - before);
}

static enum tv_err
judge_sums(struct pass *p, uint64_t *whole)
{
	uint8_t sum[crypto_generichash_BYTES], inner[END_BYTES];

	crypto_generichash_final(&p->whole, sum, sizeof(sum));
	crypto_generichash_final(&p->inner, inner, sizeof(inner));
	*whole = 0;
	for (int i = 7; i >= 0; i--)
		*whole = *whole << 8 | sum[i];
	return memcmp(inner, p->end, sizeof(inner)) == 0 ? TV_OK : TV_ECORRUPT;
}

enum tv_err
blocksums_make(struct blocksums *b, int fd, uint64_t bytes, uint32_t block, uint64_t *whole)
{
	uint8_t *buf = malloc(block);
	struct pass p = { .end = { 0 } };
	enum tv_err err = TV_OK;

	*b = (struct blocksums){ .block = block, .bytes = bytes };
	b->sums = malloc((bytes / block + 1) * sizeof(*b->sums));
	if (buf == NULL || b->sums == NULL)
		err = TV_ENOMEM;
	else if (bytes < END_BYTES)
		err = TV_ECORRUPT;
	crypto_generichash_init(&p.whole, NULL, 0, crypto_generichash_BYTES);
	crypto_generichash_init(&p.inner, NULL, 0, END_BYTES);
	for (uint64_t at = 0; err == TV_OK && at < bytes; at += block) {
		size_t n = block_bytes(b, at);

		err = read_all(fd, at, buf, n);
		if (err == TV_OK)
			hash_block(b, &p, at, buf, n);
	}
	if (err == TV_OK)
		err = judge_sums(&p, whole);
	if (err != TV_OK)
		blocksums_done(b);
	free(buf);
	return err;
}

void
blocksums_done(struct blocksums *b)
{
	free(b->sums);
	*b = (struct blocksums){ 0 };
}

enum tv_err
blocksums_read(const struct blocksums *b, int fd, uint64_t offset, uint8_t *dst, const uint8_t **p, size_t *n)
{
	uint64_t at = offset - offset % b->block;
	size_t have;
	uint8_t sum[BLOCKSUM_BYTES];
	enum tv_err err;

	if (offset >= b->bytes)
		return TV_EINVAL;
	have = block_bytes(b, at);
	err = read_all(fd, at, dst, have);
	if (err != TV_OK)
		return err;
	crypto_generichash(sum, sizeof(sum), dst, have, NULL, 0);
	if (memcmp(sum, b->sums[at / b->block], sizeof(sum)) != 0)
		return TV_ECORRUPT;
	*p = dst + (offset - at);
	*n = have - (size_t)(offset - at);
	return TV_OK;
}
