/* Figures of a daemon, as pairs of texts. */
#include <inttypes.h>
#include <stdio.h>

#include "common/base/figure.h"

void
figure_put(figure_fn *fn, void *ctx, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	fn(ctx, name, text);
}

void
figures_put(figure_fn *fn, void *ctx, const struct figure *f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		figure_put(fn, ctx, f[i].name, f[i].value);
}
