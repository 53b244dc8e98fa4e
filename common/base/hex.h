/* Hexadecimal digits. */
#ifndef TV_COMMON_BASE_HEX_H
#define TV_COMMON_BASE_HEX_H

/* 0..15 for a digit of either case; -1 for any other character, and for what is none. */
static inline int
hex_value(int c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

#endif
