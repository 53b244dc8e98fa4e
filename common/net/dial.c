/* Keeps one channel up.  Every attempt, the first included, is made from the loop. */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/chan_int.h"
#include "common/net/dial.h"

#define BACKOFF_FIRST MONO_MS(100)
#define BACKOFF_MAX_UNIX MONO_MS(250)	/* costs nearly nothing, and requests wait for it */
#define BACKOFF_MAX_TCP MONO_S(10)
/* A channel that stayed up this long was a success: the next failure starts from the first step. */
#define STEADY MONO_S(1)

struct dialer {
	struct dialer_conf conf;	/* name, paths: our own copies */
	char *name, *unix_path, *ip;
	struct mono backoff;		/* wait before the next attempt */
	struct mono up_since;
	struct chan *chan;		/* dialling or open */
	bool nobody;
	ev_timer again;
};

/* backoff +-25 %, so that clients of a server that returns do not come in step. */
static double
jittered(struct mono backoff)
{
	return mono_seconds(backoff) * (0.75 + 0.5 * (double)randombytes_uniform(1000) / 1000.0);
}

static void
wait_again(struct dialer *d)
{
	ev_timer_stop(d->conf.chan.loop, &d->again);
	ev_timer_set(&d->again, jittered(d->backoff), 0.);
	ev_timer_start(d->conf.chan.loop, &d->again);
	d->backoff = mono_min(mono_mul(d->backoff, 2), d->conf.backoff_max);
}

/* Last step of its callers: on_down may free the dialer. */
static void
went_down(struct dialer *d, enum tv_err why)
{
	d->chan = NULL;
	wait_again(d);
	if (d->conf.on_down != NULL)
		d->conf.on_down(d->conf.chan.ctx, why);
}

static enum tv_err
on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct dialer *d = c->owner;

	return d->conf.chan.events->on_frame(ctx, c, f);
}

static void
on_open(void *ctx, struct chan *c)
{
	struct dialer *d = c->owner;

	d->up_since = clock_mono();
	d->nobody = false;
	if (d->conf.on_up != NULL)
		d->conf.on_up(ctx, c);
}

static void
on_close(void *ctx UNUSED, struct chan *c, enum tv_err why)
{
	struct dialer *d = c->owner;

	if (c->opened && !mono_before(clock_mono(), mono_add(d->up_since, STEADY)))
		d->backoff = BACKOFF_FIRST;
	d->nobody = c->nobody;
	went_down(d, why);
}

static void
attempt(struct dialer *d)
{
	static const struct chan_events events = { on_frame, on_open, on_close };
	struct chan_conf conf = d->conf.chan;

	conf.events = &events;
	conf.name = d->name;
	conf.initiator = true;
	d->chan = d->unix_path != NULL ? chan_dial_unix(d->unix_path, &conf)
	    : chan_dial_tcp(d->ip, d->conf.port, &conf);
	if (d->chan != NULL) {
		d->chan->owner = d;
		return;
	}
	d->nobody = errno == ECONNREFUSED;
	log_debug("net", "%s: connect: %s", d->name, strerror(errno));
	went_down(d, TV_EUNREACH);
}

static void
on_again(struct ev_loop *loop UNUSED, ev_timer *w, int revents UNUSED)
{
	attempt(w->data);
}

static void
destroy(struct dialer *d)
{
	free(d->name);
	free(d->unix_path);
	free(d->ip);
	free(d);
}

struct dialer *
dialer_new(const struct dialer_conf *conf)
{
	struct dialer *d = calloc(1, sizeof(*d));

	TV_ASSERT((conf->unix_path != NULL) != (conf->ip != NULL));
	if (d == NULL)
		return NULL;
	d->conf = *conf;
	d->name = strdup(conf->chan.name);
	d->unix_path = conf->unix_path != NULL ? strdup(conf->unix_path) : NULL;
	d->ip = conf->ip != NULL ? strdup(conf->ip) : NULL;
	if (d->name == NULL || (d->unix_path == NULL && d->ip == NULL)) {
		destroy(d);
		return NULL;
	}
	d->conf.unix_path = d->unix_path;
	d->conf.ip = d->ip;
	d->conf.chan.name = d->name;
	if (d->conf.backoff_max.ns <= 0)
		d->conf.backoff_max = d->unix_path != NULL ? BACKOFF_MAX_UNIX : BACKOFF_MAX_TCP;
	d->backoff = mono_min(BACKOFF_FIRST, d->conf.backoff_max);
	ev_timer_init(&d->again, on_again, 0., 0.);
	d->again.data = d;
	ev_timer_start(conf->chan.loop, &d->again);
	return d;
}

struct chan *
dialer_chan(struct dialer *d)
{
	return d->chan != NULL && chan_is_open(d->chan) ? d->chan : NULL;
}

bool
dialer_nobody(const struct dialer *d)
{
	return d->nobody;
}

void
dialer_wake(struct dialer *d)
{
	d->backoff = mono_min(BACKOFF_FIRST, d->conf.backoff_max);
	if (d->chan != NULL)
		return;
	ev_timer_stop(d->conf.chan.loop, &d->again);
	ev_timer_set(&d->again, 0., 0.);
	ev_timer_start(d->conf.chan.loop, &d->again);
}

void
dialer_free(struct dialer *d)
{
	if (d == NULL)
		return;
	ev_timer_stop(d->conf.chan.loop, &d->again);
	chan_free(d->chan);
	destroy(d);
}
