/*
 * Lines of the audit trail: whatever the texts are, the line is bounded, of printable ASCII, and one JSON object.
 * First byte: which fields there are; the rest is cut in equal parts for them.
 */
#include <jansson.h>

#include "common/base/assert.h"
#include "rpcd/audit/audit_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXTS 6

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf out = BUF_INIT(2 * AUDIT_LINE_MAX);
	struct span part[TEXTS], names[AUDIT_NAMES_MAX];
	size_t each = size / TEXTS;

	if (size < 1 || size > 65536)
		return 0;
	for (size_t i = 0; i < TEXTS; i++)
		part[i] = span_of(data + i * each, each);
	for (size_t i = 0; i < AUDIT_NAMES_MAX; i++)
		names[i] = part[i % TEXTS];
	char *words = span_dup(part[0]);	/* as far as its first zero */
	TV_ASSERT(words != NULL);
	struct audit_record rec = {
		.wall_ms = data[0], .node = words, .client = data[0] & 1 ? words : NULL,
		.uid = data[0] & 2 ? data[0] : -1, .operation = words, .method = words,
		.path = data[0] & 4 ? words : NULL, .resource = data[0] & 8 ? words : NULL,
		.name = data[0] & 16 ? part[1] : SPAN_NONE, .name_cut = data[0] & 32, .operations = data[0],
		.names = names, .name_count = data[0] & 64 ? 1000 : 0, .outcome = (enum audit_outcome)(data[0] % 4),
		.status = data[0], .index = INT64_MAX, .datacenter = part[2],
	};
	audit_line(&rec, &out);
	audit_line_end(part[3], &out);
	TV_ASSERT(!out.failed && out.len <= AUDIT_LINE_MAX);
	for (size_t i = 0; i < out.len; i++)
		TV_ASSERT(out.data[i] >= 0x20 && out.data[i] < 0x7f);
	json_t *v = json_loadb((const char *)out.data, out.len, JSON_ALLOW_NUL, NULL);
	TV_ASSERT(json_is_object(v) && json_string_value(json_object_get(v, "accessor")) != NULL);
	json_decref(v);
	free(words);
	buf_done(&out);
	return 0;
}
