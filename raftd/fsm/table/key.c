/* Building and taking apart keys of the state's btree. */
#include "raftd/fsm/table/key.h"

void
tkey_begin(struct tkey *k, enum tbl table)
{
	k->b[0] = (uint8_t)table;
	k->len = 1;
	k->failed = false;
}

static uint8_t *
room(struct tkey *k, size_t n)
{
	uint8_t *p = k->b + k->len;

	if (k->failed || n > TKEY_BYTES_MAX - k->len) {
		k->failed = true;
		return NULL;
	}
	k->len += (uint32_t)n;
	return p;
}

void
tkey_raw(struct tkey *k, struct span s)
{
	uint8_t *p = room(k, s.len);

	if (p != NULL && s.len > 0)
		memcpy(p, s.p, s.len);
}

void
tkey_u64(struct tkey *k, uint64_t v)
{
	uint8_t *p = room(k, 8);

	for (int i = 0; p != NULL && i < 8; i++)
		p[i] = (uint8_t)(v >> (56 - 8 * i));
}

static void
put_byte(struct tkey *k, uint8_t c)
{
	uint8_t *p = room(k, 1);

	if (p != NULL)
		*p = c;
}

void
tkey_name(struct tkey *k, struct span s)
{
	for (size_t i = 0; i < s.len && !k->failed; i++) {
		put_byte(k, ascii_lower(s.p[i]));
		if (s.p[i] == 0)
			put_byte(k, 0xff);
	}
	put_byte(k, 0);
	put_byte(k, 1);
}

void
tkey_of(struct tkey *k, enum tbl table, const struct span *parts, unsigned count)
{
#define ROW(name, letter, title, shown, names, ...) [letter] = names,
	static const uint8_t escaped[UINT8_MAX + 1] = { FSM_TABLES(ROW) };
#undef ROW

	tkey_begin(k, table);
	for (unsigned i = 0; i < count; i++)
		(i < escaped[table] ? tkey_name : tkey_raw)(k, parts[i]);
}

bool
tkey_take_name(struct span *in, uint8_t *dst, size_t cap, struct span *out)
{
	size_t n = 0, i = 0;

	while (i + 1 < in->len && !(in->p[i] == 0 && in->p[i + 1] == 1)) {
		if (n == cap)
			return false;
		dst[n++] = in->p[i];
		i += in->p[i] == 0 ? 2 : 1;
	}
	if (i + 1 >= in->len)
		return false;
	*out = span_of(dst, n);
	*in = span_of(in->p + i + 2, in->len - i - 2);
	return true;
}
