/*
 * Figures that a daemon tells of itself, for `clusterctl info` and the metrics: pairs of a name and a text, handed to a
 * function one by one (common/net/msg.h: MSG_INFO).  Pure.
 */
#ifndef TV_COMMON_BASE_FIGURE_H
#define TV_COMMON_BASE_FIGURE_H

#include <stddef.h>
#include <stdint.h>

/* Takes one; name and value are borrowed until it returns. */
typedef void figure_fn(void *ctx, const char *name, const char *value);

struct figure {
	const char *name;
	uint64_t value;
};

/* One, in decimal. */
void figure_put(figure_fn *fn, void *ctx, const char *name, uint64_t value);
/* All n in their order. */
void figures_put(figure_fn *fn, void *ctx, const struct figure *f, size_t n);
/* The same of those written here: FIGURES_PUT(fn, ctx, { "reads", s->reads }, { "writes", s->writes }). */
#define FIGURES_PUT(fn_, ctx_, ...) \
	figures_put(fn_, ctx_, (const struct figure[]){ __VA_ARGS__ }, \
	    sizeof((const struct figure[]){ __VA_ARGS__ }) / sizeof(struct figure))

#endif
