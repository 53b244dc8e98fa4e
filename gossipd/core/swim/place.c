/* Coordinates in the core: what acks carry, and what is known of each member; the arithmetic is in coord.c. */
#include "config.h"

#include <stdlib.h>

#include "gossipd/core/state.h"

struct span
place_payload(struct swim *s)
{
	if (!s->opt.coordinates)
		return SPAN_NONE;
	buf_reset(&s->payload);
	serf_put_coord(&s->payload, &s->coord.own);
	return s->payload.failed ? SPAN_NONE : buf_span(&s->payload);
}

void
place_forget(struct node *n)
{
	free(n->coord);
	n->coord = NULL;
}

/* Members that tell no coordinate take no memory for one; nor do those that lie. */
void
place_heard(struct swim *s, struct node *n, struct span payload, struct mono rtt)
{
	struct coordinate at;
	enum tv_err err;

	if (!s->opt.coordinates || mono_before(s->opt.timing.probe_timeout, rtt))
		return;
	err = serf_get_coord(payload, &at);
	if (err == TV_ENOENT)
		return;
	if (err != TV_OK || !coordinate_plausible(&at)) {
		s->stats.bad_coord++;
		return;
	}
	if (n->coord == NULL) {
		n->coord = malloc(sizeof(*n->coord));
		if (n->coord == NULL) {
			s->stats.no_memory++;
			return;
		}
		coord_peer_init(n->coord);
	}
	(void)coord_update(&s->coord, n->coord, &at, rtt, &s->rng);
}

void
swim_coord(const struct swim *s, struct coordinate *out)
{
	*out = s->coord.own;
}

bool
swim_coord_of(const struct swim *s, struct span name, struct coordinate *out)
{
	const struct node *n = table_find(&s->table, name);

	if (n == s->self) {
		swim_coord(s, out);
		return true;
	}
	if (n == NULL || n->coord == NULL)
		return false;
	coord_of_peer(n->coord, out);
	return true;
}
