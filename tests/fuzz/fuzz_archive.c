/*
 * An archive to be restored.  The first byte says what the rest is:
 *
 *   0  the archive as a client sends it
 *   1  the tar, which is packed here: so that the fuzzer need not learn gzip
 *
 * Whatever it holds is read within bounds, and refused with a sentence or found whole; each record is judged.
 */
#include <stdlib.h>

#include <zlib.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "raftd/fsm/copy/archive.h"
#include "raftd/fsm/copy/snapfile.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STATE_MAX (1u << 20)
#define PIECE 100			/* a source that gives little at a time */

static enum tv_err
source(void *ctx, void *p, size_t n, size_t *got)
{
	struct span *left = ctx;

	*got = left->len < n ? left->len : n;
	if (*got > PIECE)
		*got = PIECE;
	if (*got > 0)
		memcpy(p, left->p, *got);
	*left = span_of(left->p + *got, left->len - *got);
	return TV_OK;
}

static void
read_archive(struct span packed)
{
	struct arena arena = ARENA_INIT(4u << 20);
	struct span key, val;
	struct snap_in in;
	char why[256];
	enum tv_err err;
	struct archive_in *a = archive_open(source, &packed, STATE_MAX, &err, why, sizeof(why));

	TV_ASSERT((a == NULL) == (err != TV_OK) && (a != NULL || why[0] != '\0'));
	if (a == NULL)
		return;
	TV_ASSERT(archive_state_bytes(a) <= STATE_MAX);
	err = snap_in_open_with(&in, archive_state_read, a, archive_state_bytes(a));
	while (err == TV_OK && (err = snap_in_next(&in, &key, &val)) == TV_OK) {
		enum fsm_tally tally;
		uint64_t index;
	uint8_t needs;

		(void)record_check(key, val, &arena, &tally);
		(void)fsm_meta_position(val, &index, &needs);
		arena_reset(&arena);
	}
	snap_in_close(&in);
	if (err == TV_EOF && archive_finish(a) != TV_OK)
		TV_ASSERT(archive_why(a)[0] != '\0');
	TV_ASSERT(archive_meta(a).len <= ARCHIVE_META_BYTES_MAX);
	archive_close(a);
	arena_done(&arena);
}

static void
pack(struct span tar, struct buf *out)
{
	z_stream z = { .next_in = (Bytef *)(uintptr_t)tar.p, .avail_in = (uInt)tar.len };
	uLong most;

	if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		abort();
	most = deflateBound(&z, (uLong)tar.len);
	z.next_out = buf_room(out, most);
	z.avail_out = (uInt)most;
	if (deflate(&z, Z_FINISH) != Z_STREAM_END)
		abort();
	out->len = z.total_out;
	(void)deflateEnd(&z);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf packed = BUF_INIT(64u << 20);

	if (size == 0)
		return 0;
	if ((data[0] & 1) == 0) {
		read_archive(span_of(data + 1, size - 1));
	} else {
		pack(span_of(data + 1, size - 1), &packed);
		read_archive(buf_span(&packed));
	}
	buf_done(&packed);
	return 0;
}
