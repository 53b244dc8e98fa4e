/*
 * Suspicion timers: how long an accused member may still speak up.  Independent accusers
 * shorten the wait (Lifeguard, dynamic suspicion); a lone accuser must wait long, since
 * the fault may be its own.
 */
#include "config.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "gossipd/core/state.h"
#include "gossipd/core/swim/scale.h"

static void
arm(struct swim *s, struct suspicion *p)
{
	p->end = mono_add(p->start, scale_suspicion(p->need, p->seen, p->min, p->max));
	timer_pull(s, TIMER_SUSPICION, p->end);
}

/* Without memory the member stays as it is: TIMER_SUSPICION then never speaks of it, so the caller must not move it. */
bool
suspicion_start(struct swim *s, struct node *n, struct span from)
{
	const struct swim_timing *t = &s->opt.timing;
	uint32_t known = s->table.order_count;
	unsigned need = s->opt.without & SWIM_WITHOUT_DYNAMIC ? 0 : scale_confirmations(t->suspicion_mult, known);
	struct suspicion *p = calloc(1, sizeof(*p) + ((size_t)need + 1) * sizeof(p->from[0]));

	TV_ASSERT(n->suspicion == NULL);
	if (p == NULL) {
		s->stats.no_memory++;
		return false;
	}
	p->node = n;
	p->start = s->now;
	p->need = need;
	p->min = scale_suspicion_min(t->suspicion_mult, known, t->probe_interval);
	p->max = mono_mul(p->min, t->suspicion_max_mult);
	p->from[0] = table_hash(&s->table, from);
	p->next = s->suspicions;
	p->back = &s->suspicions;
	if (p->next != NULL)
		p->next->back = &p->next;
	s->suspicions = p;
	n->suspicion = p;
	arm(s, p);
	return true;
}

/*
 * Only members count as accusers, so that invented names cannot hurry a death.
 */
bool
suspicion_confirm(struct swim *s, struct node *n, struct span from)
{
	struct suspicion *p = n->suspicion;
	uint64_t hash = table_hash(&s->table, from);
	const struct node *accuser = table_find(&s->table, from);

	if (p->seen >= p->need || accuser == NULL || accuser == n)
		return false;
	for (unsigned i = 0; i <= p->seen; i++)
		if (p->from[i] == hash)
			return false;
	p->from[++p->seen] = hash;
	arm(s, p);
	return true;
}

void
suspicion_drop(struct swim *s UNUSED, struct node *n)
{
	struct suspicion *p = n->suspicion;

	if (p == NULL)
		return;
	*p->back = p->next;
	if (p->next != NULL)
		p->next->back = p->back;
	n->suspicion = NULL;
	free(p);
}

void
suspicion_delay(struct swim *s, struct mono by)
{
	for (struct suspicion *p = s->suspicions; p != NULL; p = p->next) {
		p->start = mono_add(p->start, by);
		p->end = mono_add(p->end, by);
	}
	if (s->suspicions != NULL)
		timer_set(s, TIMER_SUSPICION, s->now);	/* finds the next end by itself */
}

void
suspicion_fire(struct swim *s)
{
	struct suspicion *next;

	timer_set(s, TIMER_SUSPICION, MONO_NEVER);
	for (struct suspicion *p = s->suspicions; p != NULL; p = next) {
		struct wire_accuse m = { .incarnation = p->node->incarnation, .node = node_name(p->node),
			.from = s->opt.name };

		next = p->next;
		if (mono_before(s->now, p->end)) {
			timer_pull(s, TIMER_SUSPICION, p->end);
			continue;
		}
		out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_DEAD, .name = m.node, .number = p->seen });
		swim_dead(s, &m);	/* frees p, and no other */
	}
}
