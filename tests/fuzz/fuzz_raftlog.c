/*
 * Recovery of the Raft log as far as it is our own reading: records, one behind the other, as Berkeley DB's cursor gives
 * them.  Each is
 *
 *	u8 what | u16be size | bytes
 *
 * what: 1 a new file begins; 2 magic and checksum are put right first, which a fuzzer would not guess; 4 the number of
 * the transaction, too.  After each record that is taken, what the log knows of itself is sound; entries read within
 * bounds, and a record that is written again from what was read says the same.
 */
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "common/base/assert.h"
#include "raftd/store/store_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NEW_FILE = 1, SEALED = 2, IN_TURN = 4 };

#define HEAD 16				/* magic, checksum, number */
#define RECORD_MAX 4096

static void
put_be(uint8_t *p, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
}

static void
mend(uint8_t *p, size_t n, unsigned what, const struct log_replay *l)
{
	if (n < HEAD || !(what & SEALED))
		return;
	memcpy(p, "TVL1", 4);
	if (what & IN_TURN)
		put_be(p + 8, l->s->seq + (l->known || l->s->seq == 0), 8);
	put_be(p + 4, crc32(0, p + 8, (uInt)(n - 8)), 4);
}

/* What the rest of the store relies on. */
static void
look(const struct log_store *s)
{
	TV_ASSERT((s->first == 0) == (s->last == 0) && s->first <= s->last);
	TV_ASSERT(s->last == 0 || s->first > s->cut);
	TV_ASSERT(s->file_count > 0);
	for (size_t i = 1; i < s->place_count; i++)
		TV_ASSERT(s->places[i - 1].first < s->places[i].first &&
		    s->places[i - 1].file <= s->places[i].file);
	TV_ASSERT(s->place_count == 0 || s->places[s->place_count - 1].first <= s->last);
	TV_ASSERT(memchr(s->store_id, '\0', sizeof(s->store_id)) != NULL &&
	    memchr(s->cluster_id, '\0', sizeof(s->cluster_id)) != NULL);
	TV_ASSERT(s->snapshot_config.count <= RAFT_SERVERS_MAX);
}

static void
read_entries(struct span record)
{
	struct raft_entry entries[64], e;
	struct buf b = BUF_INIT(1u << 20);
	struct log_frame f, again;
	uint32_t n = 0;

	if (store_frame_read(record, &f) != TV_OK)
		return;
	again = f;
	for (; f.kind == LOG_FRAME_BATCH && n < f.count && store_frame_next(&f, &e) == TV_OK; n++)
		if (n < 64)
			entries[n] = e;
	if (f.kind == LOG_FRAME_BATCH && (n < again.count || n > 64))
		return;			/* damaged, or more than we keep */
	again.entries = entries;
	store_frame_write(&b, &again);
	TV_ASSERT(!b.failed && store_frame_read(buf_span(&b), &f) == TV_OK);
	TV_ASSERT(f.kind == again.kind && f.seq == again.seq && f.count == again.count && f.first == again.first &&
	    f.last == again.last && f.cut == again.cut && f.term == again.term);
	buf_done(&b);
}

static void
close_log(struct log_store *s)
{
	free(s->places);
	free(s->files);
	free(s);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct log_store *s = calloc(1, sizeof(*s));
	struct log_replay l = { .s = s, .at = { .file = 1, .offset = 28 } };
	uint8_t *record = malloc(RECORD_MAX);

	if (s == NULL || record == NULL)
		abort();
	while (size >= 3) {
		unsigned what = data[0];
		size_t n = (size_t)data[1] << 8 | data[2];

		data += 3;
		size -= 3;
		n = n < size ? n : size;
		n = n < RECORD_MAX ? n : RECORD_MAX;
		memcpy(record, data, n);
		data += n;
		size -= n;
		if (what & NEW_FILE)
			l.at = (DB_LSN){ .file = l.at.file + 1, .offset = 28 };
		mend(record, n, what, &l);
		read_entries(span_of(record, n));
		if (store_replay_record(&l, span_of(record, n)) != 0)
			break;		/* recovery ends here, with a sentence */
		look(s);
		l.at.offset += (uint32_t)n + 12;
	}
	free(record);
	close_log(s);
	return 0;
}
