/*
 * JSON bodies, as api_decode() reads them: the first byte chooses the record, the second the flags.  Whatever reads,
 * within the arena that it may take, is packed, reads again as the same record, and shows as JSON that is JSON.
 */
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/record/ops.h"
#include "common/record/records.h"
#include "common/record/schema_json.h"

#define ARENA_MAX (1u << 20)
#define BYTES_MAX (8u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All arguments and answers of operations: bodies of requests are among them, and what they hold. */
static const struct schema *
chosen(uint8_t b)
{
	unsigned i = b % (2 * ops_count);

	return i < ops_count ? ops_all[i].args : ops_all[i - ops_count].answer;
}

static void *
record_new(const struct schema *s)
{
	void *rec = calloc(1, s->size > 0 ? s->size : 1);

	TV_ASSERT(rec != NULL);
	return rec;
}

/* What was read goes on as msgpack. */
static void
goes_on(const struct schema *s, const void *rec)
{
	struct buf once = BUF_INIT(BYTES_MAX), twice = BUF_INIT(BYTES_MAX), json = BUF_INIT(BYTES_MAX);
	struct arena a = ARENA_INIT(BYTES_MAX);
	void *back = record_new(s);
	struct rd r;

	schema_pack(s, rec, &once);
	TV_ASSERT(!once.failed);
	r = rd_span_over(buf_span(&once));
	TV_ASSERT(schema_unpack(s, &r, &a, back) == TV_OK && rd_end(&r) == TV_OK);
	schema_pack(s, back, &twice);
	TV_ASSERT(span_eq(buf_span(&once), buf_span(&twice)));
	r = rd_span_over(buf_span(&once));
	TV_ASSERT(schema_json(s, &r, &json) == TV_OK && !json.failed);
	/* A large number without a fraction is no integer of jansson's, but it is JSON. */
	json_t *v = json_loadb((const char *)json.data, json.len, JSON_DECODE_ANY | JSON_ALLOW_NUL |
	    JSON_DECODE_INT_AS_REAL, NULL);
	TV_ASSERT(v != NULL);
	json_decref(v);
	free(back);
	arena_done(&a);
	buf_done(&once);
	buf_done(&twice);
	buf_done(&json);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a = ARENA_INIT(ARENA_MAX);
	char why[64] = "";			/* shorter than most sentences */
	const struct schema *s;
	json_t *v;

	if (size < 2)
		return 0;
	s = chosen(data[0]);
	v = json_first_value(span_of(data + 2, size - 2), why, sizeof(why));
	if (v != NULL) {
		void *rec = record_new(s);

		if (schema_from_json(s, v, data[1] & (SJ_STRICT | SJ_SNAKE), &a, rec, why, sizeof(why)) == TV_OK)
			goes_on(s, rec);
		else
			TV_ASSERT(why[0] != '\0');
		free(rec);
	} else {
		TV_ASSERT(why[0] != '\0');
	}
	TV_ASSERT(a.used <= a.max && memchr(why, '\0', sizeof(why)) != NULL);
	json_decref(v);
	arena_done(&a);
	return 0;
}
