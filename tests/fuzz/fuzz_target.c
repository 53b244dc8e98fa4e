/*
 * What is to be dialled, as clients and files write it.  The first line is one target; the lines behind it are those of a file:
 * each begins and ends with no blank, and none is longer than what is left.
 */
#include "common/base/assert.h"
#include "common/conf/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
one(struct span text)
{
	char why[TARGET_WHY_BYTES] = "";
	struct dial_target t, again;

	if (target_parse(text, 7, &t, why) != TV_OK) {
		TV_ASSERT(why[0] == '"' && target_parse(text, 7, &again, NULL) == TV_EINVAL);
		return;
	}
	TV_ASSERT(why[0] == '\0' && (t.kind == TARGET_ADDRESS) == (t.name.len == 0));
	TV_ASSERT(t.kind == TARGET_ADDRESS || (t.name.p >= text.p && t.name.p + t.name.len <= text.p + text.len));
	TV_ASSERT(t.kind > TARGET_NAME || (t.has_port ? t.port >= 1 : t.port == 7));
	TV_ASSERT(t.kind == TARGET_ADDRESS || t.kind == TARGET_FILE || t.name.len <= TARGET_NAME_BYTES_MAX + 1);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span rest = span_of(data, size), line;
	const uint8_t *end = size == 0 ? NULL : memchr(data, '\n', size);
	unsigned number = 0, before = 0;

	one(end == NULL ? rest : span_of(data, (size_t)(end - data)));
	while (target_line(&rest, &number, &line)) {
		TV_ASSERT(line.len > 0 && number > before && line.p + line.len <= data + size);
		TV_ASSERT(line.p[0] != ' ' && line.p[0] != '#' && line.p[line.len - 1] != ' ');
		before = number;
		one(line);
	}
	TV_ASSERT(rest.len == 0);
	return 0;
}
