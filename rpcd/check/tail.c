/* The last bytes of an output, see tail.h: up to twice of them, so that few are moved. */
#include "rpcd/check/tail.h"

void
tail_init(struct tail *t, size_t max)
{
	*t = (struct tail){ .buf = BUF_INIT(2 * max), .max = max };
}

void
tail_done(struct tail *t)
{
	buf_done(&t->buf);
}

void
tail_put(struct tail *t, struct span bytes)
{
	t->total += bytes.len;
	if (bytes.len > t->max)
		bytes = span_of(bytes.p + (bytes.len - t->max), t->max);
	if (t->buf.len + bytes.len > 2 * t->max)
		buf_drop(&t->buf, t->buf.len + bytes.len - t->max);
	buf_putspan(&t->buf, bytes);
}

struct span
tail_span(const struct tail *t)
{
	struct span all = buf_span(&t->buf);

	return all.len <= t->max ? all : span_of(all.p + (all.len - t->max), t->max);
}

void
tail_print(const struct tail *t, struct buf *out)
{
	struct span kept = tail_span(t);

	if (t->total > kept.len)
		buf_printf(out, "Captured %zu of %llu bytes\n...\n", kept.len, (unsigned long long)t->total);
	buf_putspan(out, kept);
}
