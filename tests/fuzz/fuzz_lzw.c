/* LZW: measuring and expanding agree; what is compressed expands to itself. */
#include <stdlib.h>

#include "common/base/assert.h"
#include "gossipd/core/wire/lzw.h"

#define FLAT_BYTES_MAX (1u << 18)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_expand(struct span in)
{
	uint8_t *out;
	size_t size, len;
	enum tv_err err = lzw_size(in, FLAT_BYTES_MAX, &size);

	if (err != TV_OK)
		size = FLAT_BYTES_MAX;
	out = malloc(size > 0 ? size : 1);
	TV_ASSERT(lzw_decode(in, out, size, &len) == err);
	if (err == TV_OK)
		TV_ASSERT(len == size);
	if (err == TV_OK && size > 0)
		TV_ASSERT(lzw_decode(in, out, size - 1, &len) == TV_ELIMIT);
	free(out);
}

static void
check_round_trip(struct span in)
{
	struct lzw_table *t = malloc(sizeof(*t));
	struct buf b = BUF_INIT(2 * in.len + 16);
	uint8_t *out = malloc(in.len > 0 ? in.len : 1);
	size_t len;

	lzw_encode(t, in, &b);
	TV_ASSERT(!b.failed);
	TV_ASSERT(lzw_decode(buf_span(&b), out, in.len, &len) == TV_OK);
	TV_ASSERT(span_eq(span_of(out, len), in));
	free(out);
	buf_done(&b);
	free(t);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_expand(span_of(data, size));
	check_round_trip(span_of(data, size));
	return 0;
}
