/* Coordinates of the WAN pool's members, kept fresh. */
#include <stdlib.h>

#include "common/base/log.h"
#include "rpcd/gossip/coord_query.h"
#include "rpcd/wan/coords.h"

#define EVERY_S 10.0			/* coordinates move slowly */
#define UNTIL_FIRST_S 0.5
#define COORDS_MAX 4096			/* servers of all datacenters; further ones have no place */

struct place {
	struct coordinate at;
	size_t name_len;
	uint8_t name[];
};

struct coords {
	struct ev_loop *loop;
	struct members *members;
	ev_timer timer;
	bool asking;
	struct coordinate own;
	bool own_known;
	struct place **v;		/* sorted by name */
	unsigned count;
};

static struct span
name_of(const struct place *p)
{
	return span_of(p->name, p->name_len);
}

static int
by_name(const void *a, const void *b)
{
	return span_cmp(name_of(*(struct place *const *)a), name_of(*(struct place *const *)b));
}

static void
forget_places(struct place **v, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		free(v[i]);
	free(v);
}

/* All entries of an answer, sorted; false without memory. */
static bool
take_all(struct coord_query_answer *a, struct place ***out, unsigned *count)
{
	struct coordinate at;
	struct span name;
	uint32_t most = a->left < COORDS_MAX ? a->left : COORDS_MAX;
	struct place **v = calloc(most + 1, sizeof(*v));

	*count = 0;
	while (v != NULL && *count < most && coord_query_next(a, &name, &at)) {
		struct place *p = malloc(sizeof(*p) + name.len);

		if (p == NULL) {
			forget_places(v, *count);
			return false;
		}
		p->at = at;
		p->name_len = name.len;
		memcpy(p->name, name.p, name.len);
		v[(*count)++] = p;
	}
	if (v != NULL)
		qsort(v, *count, sizeof(*v), by_name);
	*out = v;
	return v != NULL;
}

static void
on_answer(void *ctx, enum tv_err err, struct span body)
{
	struct coords *p = ctx;
	struct coord_query_answer a, own;
	struct span name;
	struct place **v;
	unsigned count;

	p->asking = false;
	if (err != TV_OK || coord_query_read(body, &a) != TV_OK || a.err != TV_OK)
		return;				/* asked again; coordinates may be off in gossipd.conf */
	own = a;
	p->own_known = coord_query_next(&own, &name, &p->own);
	if (!take_all(&a, &v, &count)) {
		log_warn("rpc", "no memory for %u coordinates", (unsigned)a.left);
		return;
	}
	forget_places(p->v, p->count);
	p->v = v;
	p->count = count;
}

static void
ask_gossipd(struct coords *p)
{
	enum tv_err err;

	if (!p->asking)
		p->asking = coord_query_ask(p->members, POOL_WAN, SPAN_NONE, on_answer, p, &err) != 0;
}

void
coords_wake(struct coords *p)
{
	if (p->count == 0)
		ask_gossipd(p);
}

static void
on_timer(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct coords *p = w->data;

	ask_gossipd(p);
	w->repeat = p->count > 0 ? EVERY_S : UNTIL_FIRST_S;
	ev_timer_again(loop, w);
}

struct coords *
coords_new(struct ev_loop *loop, struct members *members)
{
	struct coords *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->loop = loop;
	p->members = members;
	ev_timer_init(&p->timer, on_timer, 0.0, UNTIL_FIRST_S);
	p->timer.data = p;
	ev_timer_start(loop, &p->timer);
	return p;
}

void
coords_free(struct coords *p)
{
	if (p == NULL)
		return;
	ev_timer_stop(p->loop, &p->timer);
	forget_places(p->v, p->count);
	free(p);
}

static int
by_its_name(const void *name, const void *place)
{
	return span_cmp(*(const struct span *)name, name_of(*(struct place *const *)place));
}

static const struct place *
find_place(const struct coords *p, struct span name)
{
	struct place *const *found = p->count == 0 ? NULL :
	    bsearch(&name, p->v, p->count, sizeof(struct place *), by_its_name);

	return found == NULL ? NULL : *found;
}

bool
coords_of(const struct coords *p, struct span name, struct coordinate *out)
{
	const struct place *found = find_place(p, name);

	if (found != NULL)
		*out = found->at;
	return found != NULL;
}

int64_t
coords_rtt_ns(const struct coords *p, struct span name)
{
	const struct place *found = p->own_known ? find_place(p, name) : NULL;

	return found == NULL ? COORDINATE_FAR : coordinate_rtt(&p->own, &found->at).ns;
}
