/* UUIDs and their text. */
#include <string.h>

#include "common/base/hex.h"
#include "common/base/uuid.h"

/* Before which of its bytes the text has a dash. */
static bool
dash_before(size_t byte)
{
	return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

void
uuid_text(const uint8_t b[UUID_BYTES], char text[UUID_CHARS + 1])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < UUID_BYTES; i++) {
		if (dash_before(i))
			*text++ = '-';
		*text++ = digits[b[i] >> 4];
		*text++ = digits[b[i] & 15];
	}
	*text = '\0';
}

void
uuid_v4(const uint8_t random[UUID_BYTES], char text[UUID_CHARS + 1])
{
	uint8_t b[UUID_BYTES];

	memcpy(b, random, sizeof(b));
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	uuid_text(b, text);
}

bool
uuid_parse(struct span text, uint8_t b[UUID_BYTES])
{
	const uint8_t *p = text.p;

	if (text.len != UUID_CHARS)
		return false;
	for (size_t i = 0; i < UUID_BYTES; i++, p += 2) {
		if (dash_before(i) && *p++ != '-')
			return false;
		if (hex_value(p[0]) < 0 || hex_value(p[1]) < 0)
			return false;
		if (b != NULL)
			b[i] = (uint8_t)(hex_value(p[0]) << 4 | hex_value(p[1]));
	}
	return true;
}
