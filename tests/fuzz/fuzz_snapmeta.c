/*
 * What is said about a snapshot, and its stream.  The first byte says what the rest is:
 *
 *   0  install-meta, of an installation that was interrupted
 *   1  a snapshot file: the checksum at its end is put right first, so that all of it is read
 *   2  the record that tells the position of a state
 *   3  the meta.json of an archive that is whole, as clusterctl shows it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>
#include <zlib.h>

#include "common/base/assert.h"
#include "ctl/snapfacts.h"
#include "raftd/fsm/copy/snapfile.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/record.h"
#include "raftd/snapshot/install_meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TAR_BLOCK 512
#define FILE_MAX (1u << 20)

static void
install_meta(struct span text)
{
	struct raft_config config, again;
	struct buf b = BUF_INIT(INSTALL_META_BYTES_MAX), c = BUF_INIT(INSTALL_META_BYTES_MAX);
	uint64_t index, term, index2, term2;

	if (install_meta_read(text, &index, &term, &config) != TV_OK)
		return;
	TV_ASSERT(config.count <= RAFT_SERVERS_MAX);
	raft_config_write(&c, &config);
	install_meta_write(&b, index, term, buf_span(&c));
	TV_ASSERT(!b.failed && install_meta_read(buf_span(&b), &index2, &term2, &again) == TV_OK);
	TV_ASSERT(index == index2 && term == term2 && config.count == again.count);
	b.data[b.len - 1] ^= 1;		/* in the checksum */
	TV_ASSERT(install_meta_read(buf_span(&b), &index2, &term2, &again) != TV_OK);
	buf_done(&b);
	buf_done(&c);
}

/* -- a stream ------------------------------------------------------------------------- */

static enum tv_err
source(void *ctx, void *p, size_t n)
{
	struct span *left = ctx;

	if (n > left->len)
		return TV_ECORRUPT;
	memcpy(p, left->p, n);
	*left = span_of(left->p + n, left->len - n);
	return TV_OK;
}

static void
stream(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);
	struct arena arena = ARENA_INIT(4u << 20);
	struct span left = span_of(copy, size), key, val;
	struct snap_in in;
	enum tv_err err;
	uint64_t n = 0;

	if (copy == NULL)
		abort();
	memcpy(copy, data, size);
	if (size > SNAP_SUM_BYTES)
		crypto_generichash(copy + size - SNAP_SUM_BYTES, SNAP_SUM_BYTES, copy, size - SNAP_SUM_BYTES, NULL, 0);
	err = snap_in_open_with(&in, source, &left, size);
	TV_ASSERT(err != TV_EINVAL || in.version != SNAP_VERSION);
	while (err == TV_OK && (err = snap_in_next(&in, &key, &val)) == TV_OK) {
		enum fsm_tally tally;
		uint64_t index;
	uint8_t needs;

		TV_ASSERT(key.len > 0);
		n++;
		(void)record_check(key, val, &arena, &tally);
		(void)fsm_meta_position(val, &index, &needs);
		arena_reset(&arena);
	}
	TV_ASSERT(err != TV_EOF || (left.len == 0 && in.records == n));
	snap_in_close(&in);
	arena_done(&arena);
	free(copy);
}

static void
position(struct span val)
{
	uint64_t index;
	uint8_t needs;

	if (fsm_meta_position(val, &index, &needs) == TV_OK)
		TV_ASSERT(index <= FSM_INDEX_MAX);
}

/* -- an archive around a meta.json -------------------------------------------------------- */

static void
member(struct buf *tar, const char *name, struct span body)
{
	static const uint8_t zeros[TAR_BLOCK];
	uint8_t h[TAR_BLOCK] = { 0 };
	unsigned sum = 0;

	snprintf((char *)h, 100, "%s", name);
	snprintf((char *)h + 100, 8, "%07o", 0600);
	snprintf((char *)h + 108, 8, "%07o", 0);
	snprintf((char *)h + 116, 8, "%07o", 0);
	snprintf((char *)h + 124, 12, "%011llo", (unsigned long long)body.len);
	snprintf((char *)h + 136, 12, "%011o", 0);
	h[156] = '0';
	memcpy(h + 257, "ustar\0" "00", 8);
	memset(h + 148, ' ', 8);
	for (unsigned i = 0; i < TAR_BLOCK; i++)
		sum += h[i];
	snprintf((char *)h + 148, 7, "%06o", sum);
	buf_put(tar, h, sizeof(h));
	buf_putspan(tar, body);
	buf_put(tar, zeros, (TAR_BLOCK - body.len % TAR_BLOCK) % TAR_BLOCK);
}

static void
sum_line(struct buf *b, struct span body, const char *name)
{
	uint8_t sum[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(sum) + 1];

	crypto_hash_sha256(sum, body.p, body.len);
	buf_printf(b, "%s  %s\n", sodium_bin2hex(hex, sizeof(hex), sum, sizeof(sum)), name);
}

static void
empty_state(struct buf *b)
{
	uint8_t sum[SNAP_SUM_BYTES];

	buf_puts(b, "TVSNAP1\n");
	buf_u32be(b, SNAP_VERSION);
	buf_u64be(b, 7);
	buf_u64be(b, 1);
	buf_u64be(b, 0);		/* no record: the end */
	buf_u64be(b, 0);
	crypto_generichash(sum, sizeof(sum), b->data, b->len, NULL, 0);
	buf_put(b, sum, sizeof(sum));
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

static void
meta_json(struct span meta)
{
	static const uint8_t end[2 * TAR_BLOCK];
	struct buf state = BUF_INIT(FILE_MAX), sums = BUF_INIT(FILE_MAX), tar = BUF_INIT(4 * FILE_MAX);
	struct buf packed = BUF_INIT(8 * FILE_MAX);
	struct snap_facts facts;
	char why[512];
	FILE *f;

	empty_state(&state);
	sum_line(&sums, meta, "meta.json");
	sum_line(&sums, buf_span(&state), "state.bin");
	member(&tar, "meta.json", meta);
	member(&tar, "state.bin", buf_span(&state));
	member(&tar, "SHA256SUMS", buf_span(&sums));
	buf_put(&tar, end, sizeof(end));
	pack(buf_span(&tar), &packed);
	f = fmemopen(packed.data, packed.len, "r");
	if (f == NULL)
		abort();
	if (snap_facts_read(f, &facts, why, sizeof(why)))
		TV_ASSERT(facts.meta != NULL && facts.records == 0 && facts.index == 7 && facts.term == 1);
	else
		TV_ASSERT(why[0] != '\0');
	snap_facts_done(&facts);
	fclose(f);
	buf_done(&state);
	buf_done(&sums);
	buf_done(&tar);
	buf_done(&packed);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > FILE_MAX)
		return 0;
	switch (data[0] & 3) {
	case 0:
		install_meta(span_of(data + 1, size - 1));
		break;
	case 1:
		stream(data + 1, size - 1);
		break;
	case 2:
		position(span_of(data + 1, size - 1));
		break;
	default:
		meta_json(span_of(data + 1, size - 1));
	}
	return 0;
}
