/* See meta.h. */
#include "common/text/meta.h"

static bool
is_key_char(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

const char *
meta_pair_refusal(struct span key, struct span value)
{
	if (key.len == 0)
		return "Key cannot be blank";
	for (size_t i = 0; i < key.len; i++)
		if (!is_key_char(key.p[i]))
			return "Key contains invalid characters";
	if (key.len > META_KEY_BYTES_MAX)
		return "Key is too long (limit: 128 characters)";
	if (span_starts(key, span_str("consul-")))
		return "Key prefix 'consul-' is reserved for internal use";
	if (value.len > META_VALUE_BYTES_MAX)
		return "Value is too long (limit: 512 characters)";
	return NULL;
}
