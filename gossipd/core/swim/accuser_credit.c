/*
 * What one accuser can do.  A member that sends but does not receive finds everybody dead, and one with the key may
 * lie: each accusation costs its author credit, which comes back at the rate at which an honest member can accuse, one
 * per probe interval; one that was refuted, and that no other made, costs more.  Beyond its credit an accuser is not
 * believed and not passed on, unless another one out of credit says the same.
 *
 * Real deaths are not held up by it: they are not refuted, so members that report them keep their credit; what we find
 * ourselves is always believed; and each of two accusers is one more than needed.  An exchange may tell a whole state
 * per exchange interval, for after a healed partition the refutations of what it tells are what brings members back.
 */
#include "config.h"

#include <stdlib.h>

#include "gossipd/core/state.h"

#define SETS 16
#define WAYS 4			/* accusers in debt that are remembered at a time: SETS * WAYS */
#define HINTS 64
#define BURST_MIN 10		/* accusations at once; more in large pools */
#define BURST_PART 8		/* one in so many members */
#define PRICE_REFUTED 8		/* in accusations */
#define DEBT_MAX 60		/* beyond the burst: so many intervals of silence end any debt */
#define HINT_LIFE 10		/* in probe intervals */
#define STRANGERS 1		/* stands for the hash of a name */
#define LEAVERS 2

/* Its debt is paid off at `paid`; in the past: nothing is owed. */
struct accuser {
	uint64_t hash;
	struct mono paid;
};

/* An accusation that was not believed. */
struct hint {
	uint64_t node, from;
	struct mono at;
	uint32_t incarnation;
};

struct accusers {
	struct accuser sets[SETS][WAYS];
	struct hint hints[HINTS];
};

/* What an accusation costs, and how much debt is allowed. */
struct terms {
	struct mono price, limit;
};

static struct terms
terms_of(const struct swim *s)
{
	uint32_t known = s->table.order_count;
	struct terms t = { .price = s->opt.timing.probe_interval };

	if (s->teller != 0) {
		t.price = (struct mono){ s->opt.timing.pushpull_interval.ns / known };
		t.limit = mono_mul(t.price, known);
	} else {
		t.limit = mono_mul(t.price, BURST_MIN + known / BURST_PART);
	}
	return t;
}

/* The account of an accuser: its own, or that of the one in its set that owes least.  NULL without memory. */
static struct accuser *
account(struct swim *s, uint64_t hash)
{
	struct accuser *set, *least;

	if (s->accusers == NULL && (s->accusers = calloc(1, sizeof(*s->accusers))) == NULL) {
		s->stats.no_memory++;
		return NULL;
	}
	set = least = s->accusers->sets[hash % SETS];
	for (unsigned i = 0; i < WAYS; i++) {
		if (set[i].hash == hash)
			return &set[i];
		if (mono_before(set[i].paid, least->paid))
			least = &set[i];
	}
	*least = (struct accuser){ .hash = hash, .paid = s->now };
	return least;
}

/* True when it has credit for it, which is spent then. */
static bool
spend(struct swim *s, uint64_t hash)
{
	struct terms t = terms_of(s);
	struct accuser *a = account(s, hash);
	struct mono owed;

	if (a == NULL)
		return true;
	if (mono_before(a->paid, s->now))
		a->paid = s->now;
	owed = mono_add(a->paid, t.price);
	if (mono_before(mono_add(s->now, t.limit), owed))
		return false;
	a->paid = owed;
	return true;
}

/* Did another one say the same a while ago, and was not believed? */
static bool
seconded(struct swim *s, const struct node *n, uint32_t incarnation, uint64_t from)
{
	struct mono life = mono_mul(s->opt.timing.probe_interval, HINT_LIFE);
	struct hint *h = s->accusers != NULL ? &s->accusers->hints[n->ident->hash % HINTS] : NULL;

	if (h == NULL || from == STRANGERS || from == LEAVERS)
		return false;
	if (h->node == n->ident->hash && h->incarnation == incarnation && h->from != from &&
	    mono_before(s->now, mono_add(h->at, life)))
		return true;
	*h = (struct hint){ .node = n->ident->hash, .from = from, .at = s->now, .incarnation = incarnation };
	return false;
}

/*
 * Strangers have one account together, and so have those that go without having said so before: a forger of such
 * words for many finds it empty soon.
 */
static uint64_t
identity(const struct swim *s, const struct wire_accuse *m)
{
	const struct node *n = table_find(&s->table, m->from);

	if (s->teller != 0)
		return s->teller;
	if (span_eq(m->node, m->from))
		return LEAVERS;
	return n != NULL && node_listed(&s->table, n) ? n->ident->hash : STRANGERS;
}

bool
accuser_credit_believed(struct swim *s, const struct node *n, const struct wire_accuse *m)
{
	uint64_t from;

	if (s->opt.without & SWIM_WITHOUT_CREDIT || (s->teller == 0 && span_eq(m->from, s->opt.name)))
		return true;
	from = identity(s, m);
	if (spend(s, from) || seconded(s, n, m->incarnation, from))
		return true;
	s->stats.over_accusations++;
	out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_NOT_BELIEVED, .name = m->node, .other = m->from });
	return false;
}

void
accuser_credit_refuted(struct swim *s, const struct suspicion *p)
{
	struct mono price = mono_mul(s->opt.timing.probe_interval, PRICE_REFUTED), most;
	struct accuser *a;

	if (p->seen > 0 || p->from[0] == s->self->ident->hash || s->opt.without & SWIM_WITHOUT_CREDIT ||
	    (a = account(s, p->from[0])) == NULL)
		return;
	most = mono_add(s->now, mono_mul(s->opt.timing.probe_interval,
	    BURST_MIN + s->table.order_count / BURST_PART + DEBT_MAX));
	a->paid = mono_min(mono_add(mono_before(a->paid, s->now) ? s->now : a->paid, price), most);
}

void
accuser_credit_done(struct swim *s)
{
	free(s->accusers);
	s->accusers = NULL;
}
