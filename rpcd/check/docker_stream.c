/* Docker's streams, see docker_stream.h. */
#include "rpcd/check/docker_stream.h"

static struct span
rest(struct span s, size_t n)
{
	return span_of(s.p + n, s.len - n);
}

bool
docker_stream_put(struct docker_stream *s, struct span bytes, void (*fn)(void *ctx, struct span printed), void *ctx)
{
	while (bytes.len > 0) {
		if (s->have < sizeof(s->head)) {
			s->head[s->have++] = *bytes.p;
			bytes = rest(bytes, 1);
			if (s->have < sizeof(s->head))
				continue;
			if (s->head[0] > 2 || s->head[1] != 0 || s->head[2] != 0 || s->head[3] != 0)
				return false;
			s->left = (uint32_t)s->head[4] << 24 | (uint32_t)s->head[5] << 16 |
			    (uint32_t)s->head[6] << 8 | s->head[7];
		}
		size_t n = bytes.len < s->left ? bytes.len : s->left;

		if (n > 0)
			fn(ctx, span_of(bytes.p, n));
		bytes = rest(bytes, n);
		s->left -= (uint32_t)n;
		if (s->left == 0)
			s->have = 0;
	}
	return true;
}
