/* Network coordinates; see coord.h.  Names of the numbers as in the papers. */
#include "config.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "gossipd/core/coord/coord.h"

#define ERROR_MAX 1.5			/* also what we start with */
#define TUNE_ERROR 0.25			/* c_e: how fast the error estimate follows */
#define TUNE_MOVE 0.25			/* c_c: how far one sample moves us */
#define HEIGHT_MIN 1e-5
#define GRAVITY_RHO 150.0
#define NEAR_ZERO 1e-6
#define RTT_UNIT_NS 4			/* so that COORD_RTT_MAX fits 32 bits */

static_assert(sizeof(struct coord_peer) == 56, "what a member's place costs: gossipd/README.md");

static const struct coordinate origin = { .error = ERROR_MAX, .height = HEIGHT_MIN };

void
coord_init(struct coord_state *st)
{
	*st = (struct coord_state){ .own = origin };
}

void
coord_peer_init(struct coord_peer *peer)
{
	*peer = (struct coord_peer){ .error = ERROR_MAX, .height = HEIGHT_MIN };
	for (int i = 0; i < COORD_FILTER; i++)
		peer->rtts[i] = COORD_NO_RTT;
}

static double
magnitude(const double v[COORDINATE_DIMENSIONS])
{
	double sum = 0;

	for (int i = 0; i < COORDINATE_DIMENSIONS; i++)
		sum += v[i] * v[i];
	return sqrt(sum);
}

/* Whole seconds and the rest apart: peers compute the same digits. */
static double
seconds(struct mono t)
{
	return (double)(t.ns / 1000000000) + (double)(t.ns % 1000000000) / 1e9;
}

/* -- movement --------------------------------------------------------------------- */

/* Two nodes at one place part in any direction. */
static void
random_unit(double v[COORDINATE_DIMENSIONS], struct rng *rng)
{
	double m;

	for (int i = 0; i < COORDINATE_DIMENSIONS; i++)
		v[i] = rng_unit(rng) - 0.5;
	m = magnitude(v);
	if (m > NEAR_ZERO) {
		for (int i = 0; i < COORDINATE_DIMENSIONS; i++)
			v[i] *= 1.0 / m;
	} else {
		memset(v, 0, COORDINATE_DIMENSIONS * sizeof(*v));
		v[0] = 1.0;
	}
}

/* Moves *me by `force` seconds away from `from`; towards it when negative. */
static void
push(struct coordinate *me, const struct coordinate *from, double force, struct rng *rng)
{
	double v[COORDINATE_DIMENSIONS], m;

	for (int i = 0; i < COORDINATE_DIMENSIONS; i++)
		v[i] = me->vec[i] - from->vec[i];
	m = magnitude(v);
	if (m > NEAR_ZERO)
		for (int i = 0; i < COORDINATE_DIMENSIONS; i++)
			v[i] *= 1.0 / m;
	else
		random_unit(v, rng);
	for (int i = 0; i < COORDINATE_DIMENSIONS; i++)
		me->vec[i] += v[i] * force;
	if (m > NEAR_ZERO)
		me->height = fmax(HEIGHT_MIN, (me->height + from->height) * force / m + me->height);
}

/* The spring between us and the peer; the surer of the two moves less. */
static void
pull_spring(struct coordinate *me, const struct coordinate *peer, double rtt, struct rng *rng)
{
	double d = seconds(coordinate_rtt(me, peer));
	double goal = fmax(rtt, NEAR_ZERO), wrong = fabs(d - goal) / goal;
	double weight = me->error / fmax(me->error + peer->error, NEAR_ZERO);

	me->error = fmin(ERROR_MAX, TUNE_ERROR * weight * wrong + me->error * (1.0 - TUNE_ERROR * weight));
	push(me, peer, TUNE_MOVE * weight * (goal - d), rng);
}

/* What the space cannot express, averaged: half of it for each end. */
static void
adjust(struct coord_state *st, const struct coordinate *peer, double rtt)
{
	double sum = 0;

	st->samples[st->sample_at] = rtt - coordinate_distance(&st->own, peer);
	st->sample_at = (st->sample_at + 1) % COORD_WINDOW;
	for (int i = 0; i < COORD_WINDOW; i++)
		sum += st->samples[i];
	st->own.adjustment = sum / (2.0 * COORD_WINDOW);
}

/* Keeps the whole pool from drifting away together. */
static void
pull_gravity(struct coordinate *me, struct rng *rng)
{
	double g = seconds(coordinate_rtt(&origin, me)) / GRAVITY_RHO;

	push(me, &origin, -(g * g), rng);
}

/* -- peers ------------------------------------------------------------------------ */

/* Notes a round trip, and gives the median of the last ones: single outliers do not count. */
static struct mono
filter(struct coord_peer *peer, struct mono rtt)
{
	uint32_t sorted[COORD_FILTER], count = 0;

	if (peer->rtts[COORD_FILTER - 1] != COORD_NO_RTT)
		memmove(peer->rtts, peer->rtts + 1, sizeof(peer->rtts) - sizeof(peer->rtts[0]));
	while (count < COORD_FILTER - 1 && peer->rtts[count] != COORD_NO_RTT)
		count++;
	peer->rtts[count++] = (uint32_t)(rtt.ns / RTT_UNIT_NS);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = i;

		for (; at > 0 && sorted[at - 1] > peer->rtts[i]; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = peer->rtts[i];
	}
	return (struct mono){ (int64_t)sorted[count / 2] * RTT_UNIT_NS };
}

/* Old samples would spoil the new start. */
static void
start_over(struct coord_state *st)
{
	uint64_t resets = st->resets + 1;

	coord_init(st);
	st->resets = resets;
}

static void
remember(struct coord_peer *peer, const struct coordinate *c)
{
	for (int i = 0; i < COORDINATE_DIMENSIONS; i++)
		peer->vec[i] = (float)c->vec[i];
	peer->error = (float)c->error;
	peer->adjustment = (float)c->adjustment;
	peer->height = (float)c->height;
}

void
coord_of_peer(const struct coord_peer *peer, struct coordinate *out)
{
	for (int i = 0; i < COORDINATE_DIMENSIONS; i++)
		out->vec[i] = (double)peer->vec[i];
	out->error = (double)peer->error;
	out->adjustment = (double)peer->adjustment;
	out->height = (double)peer->height;
}

enum tv_err
coord_update(struct coord_state *st, struct coord_peer *peer, const struct coordinate *at, struct mono rtt,
    struct rng *rng)
{
	double r;

	if (!coordinate_plausible(at))
		return TV_EFORMAT;
	if (rtt.ns < 0 || mono_before(COORD_RTT_MAX, rtt))
		return TV_EINVAL;
	remember(peer, at);
	r = seconds(filter(peer, rtt));
	pull_spring(&st->own, at, r, rng);
	adjust(st, at, r);
	pull_gravity(&st->own, rng);
	if (!coordinate_plausible(&st->own))
		start_over(st);
	return TV_OK;
}
