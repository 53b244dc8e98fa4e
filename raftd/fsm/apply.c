/* What every area does to a result: an error with its sentence, a yes or no, a list. */
#include <stdio.h>

#include "raftd/fsm/apply.h"

static void __attribute__((format(printf, 3, 0)))
set_text(struct arena *a, struct span *out, const char *fmt, va_list ap)
{
	struct buf b = BUF_INIT(8192);

	buf_vprintf(&b, fmt, ap);
	*out = arena_copy(a, buf_span(&b));
	if (out->p == NULL)
		*out = span_str("out of memory");
	buf_done(&b);
}

void
apply_fail(struct apply *p, enum tv_err err, const char *fmt, ...)
{
	va_list ap;

	p->res->err = err;
	va_start(ap, fmt);
	set_text(p->out, &p->res->text, fmt, ap);
	va_end(ap);
}

void
apply_bool(struct apply *p, bool value)
{
	static const uint8_t yes[] = { 0x91, 0xc3 }, no[] = { 0x91, 0xc2 };	/* bool_reply */

	p->res->value = value ? span_of(yes, sizeof(yes)) : span_of(no, sizeof(no));
}

enum tv_err
prepare_fail(struct prepare *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set_text(p->a, p->error_text, fmt, ap);
	va_end(ap);
	return TV_EINVAL;
}

size_t
list_begin(struct buf *out)
{
	size_t at = out->len;

	buf_u8(out, 0xdd);		/* array 32 */
	buf_u32be(out, 0);
	return at;
}

void
list_end(struct buf *out, size_t at, uint32_t count)
{
	for (int i = 0; !out->failed && i < 4; i++)
		out->data[at + 1 + i] = (uint8_t)(count >> (24 - 8 * i));
}

void
read_fail(struct reading *r, enum tv_err err, const char *fmt, ...)
{
	va_list ap;

	r->ans->err = err;
	va_start(ap, fmt);
	set_text(r->a, &r->ans->text, fmt, ap);
	va_end(ap);
}
