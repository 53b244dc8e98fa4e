/*
 * LZW as the gossip wire uses it: least significant bit first, 8-bit literals,
 * clear 256, end 257, codes of 9 to 12 bits.  The writer gives the very bytes
 * that peers write.  Source: doc/wire.md, "LZW stream".
 */
#ifndef TV_GOSSIPD_CORE_WIRE_LZW_H
#define TV_GOSSIPD_CORE_WIRE_LZW_H

#include <stdint.h>

#include "common/base/buf.h"

#define LZW_CODES 4096
#define LZW_SLOTS 8192

/* Working memory of the writer; contents need not be kept between calls. */
struct lzw_table {
	uint32_t slot[LZW_SLOTS];	/* prefix code, next byte, code; 0 is free */
};

/* Appends the stream of `in`; no memory or past the cap: out->failed. */
void lzw_encode(struct lzw_table *t, struct span in, struct buf *out);
/*
 * Size of the expanded stream, without expanding it.
 * TV_EFORMAT: bad code; TV_EOF: no end code; TV_ELIMIT: more than `max` bytes.
 */
enum tv_err lzw_size(struct span in, size_t max, size_t *size);
/* Expands into out[cap]; errors as above, TV_ELIMIT when it does not fit.  *len is valid on TV_OK. */
enum tv_err lzw_decode(struct span in, uint8_t *out, size_t cap, size_t *len);

#endif
