/*
 * ?filter= expressions.  First byte: which record; up to the first NUL the expression, behind it a packed record.
 * What compiles is held against that record and against an empty one, twice with the same result.
 */
#include <string.h>

#include "common/base/assert.h"
#include "common/record/records.h"
#include "common/filter/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct schema *const schemas[] = { &health_entry_schema, &node_schema, &service_instance_schema, &check_schema };
	static const uint8_t nothing[] = { 0x90 };
	struct buf why = BUF_INIT(8 * FILTER_BYTES_MAX);

	if (size < 1)
		return 0;
	const uint8_t *nul = memchr(data + 1, 0, size - 1);
	size_t text = nul == NULL ? size - 1 : (size_t)(nul - data - 1);
	struct span record = nul == NULL ? span_of(nothing, 1) : span_of(nul + 1, size - text - 2);
	struct filter *f = filter_new(schemas[data[0] % 4], span_of(data + 1, text), &why);
	TV_ASSERT((f == NULL) == (why.len > 0 || why.failed));
	if (f != NULL) {
		bool first = filter_match(f, span_of(nothing, 1));

		TV_ASSERT(filter_error(f) == TV_OK || filter_error(f) == TV_ELIMIT);
		if (filter_error(f) == TV_OK)
			TV_ASSERT(filter_match(f, span_of(nothing, 1)) == first || filter_error(f) == TV_ELIMIT);
		(void)filter_match(f, record);
	}
	filter_free(f);
	buf_done(&why);
	return 0;
}
