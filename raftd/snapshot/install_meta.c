/* What is being installed; see install_meta.h. */
#include <sodium.h>

#include "common/record/mpack.h"
#include "raftd/snapshot/install_meta.h"

uint64_t
snapshot_sum(const uint8_t *hash)
{
	uint64_t sum = 0;

	for (int i = 7; i >= 0; i--)
		sum = sum << 8 | hash[i];
	return sum;
}

/* A damaged configuration would not be noticed by its form. */
static uint64_t
meta_sum(uint64_t index, uint64_t term, struct span config)
{
	uint8_t head[16], hash[crypto_generichash_BYTES];
	crypto_generichash_state h;

	for (int i = 0; i < 8; i++) {
		head[i] = (uint8_t)(index >> (8 * i));
		head[8 + i] = (uint8_t)(term >> (8 * i));
	}
	crypto_generichash_init(&h, NULL, 0, sizeof(hash));
	crypto_generichash_update(&h, head, sizeof(head));
	crypto_generichash_update(&h, config.p, config.len);
	crypto_generichash_final(&h, hash, sizeof(hash));
	return snapshot_sum(hash);
}

void
install_meta_write(struct buf *b, uint64_t index, uint64_t term, struct span config)
{
	mpw_array(b, 4);
	mpw_uint(b, index);
	mpw_uint(b, term);
	mpw_bin(b, config);
	mpw_uint(b, meta_sum(index, term, config));
}

enum tv_err
install_meta_read(struct span text, uint64_t *index, uint64_t *term, struct raft_config *config)
{
	struct rd r = rd_over(text.p, text.len);
	uint32_t fields = mpr_array(&r);	/* 3: of a version without the checksum */
	struct span c;

	*index = mpr_uint(&r, UINT64_MAX);
	*term = mpr_uint(&r, UINT64_MAX);
	c = mpr_bytes(&r, INSTALL_META_BYTES_MAX);
	if ((fields != 3 && fields != 4) || (fields == 4 && mpr_uint(&r, UINT64_MAX) != meta_sum(*index, *term, c)))
		rd_fail(&r, TV_ECORRUPT);
	return rd_end(&r) == TV_OK ? raft_config_read(c, config) : TV_ECORRUPT;
}
