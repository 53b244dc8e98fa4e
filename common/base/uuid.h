/* UUIDs (RFC 4122) and their text: 36 characters, lower case when we write it. */
#ifndef TV_COMMON_BASE_UUID_H
#define TV_COMMON_BASE_UUID_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/rd.h"

#define UUID_BYTES 16
#define UUID_CHARS 36		/* of the text, without its NUL */
#define UUID_RESERVED "00000000-0000-0000-0000-"	/* those with a meaning of their own begin so */

void uuid_text(const uint8_t b[UUID_BYTES], char text[UUID_CHARS + 1]);
/* The text of a version 4 UUID (section 4.4) with these random bytes. */
void uuid_v4(const uint8_t random[UUID_BYTES], char text[UUID_CHARS + 1]);
/* Is it the text of a UUID, in either case?  Then b, if not NULL, is set to its bytes. */
bool uuid_parse(struct span text, uint8_t b[UUID_BYTES]);

#endif
