/* See twin_watch.h. */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "rpcd/node/twin_watch.h"

#define LOOK_EVERY 3.0			/* seconds */
#define LOG_EVERY MONO_S(60)
#define COMPARE_EVERY MONO_S(15)	/* while this node is kept out */
#define PATIENCE MONO_S(10)		/* for the servers to say which of the two is in the catalog */

struct twin_watch {
	struct twin_watch_conf conf;
	ev_timer timer;
	char text[TWINS_TEXT_BYTES], remedy[TWINS_TEXT_BYTES];
	struct mono since, logged, compared;	/* 0: not since there was none */
};

static enum twins_standing
standing_of(const struct twin_watch *w)
{
	switch (registry_standing(w->conf.registry)) {
	case REGISTRY_LISTED:
		return TWINS_LISTED;
	case REGISTRY_KEPT_OUT:
		return TWINS_KEPT_OUT;
	case REGISTRY_UNKNOWN:
		break;
	}
	return TWINS_UNKNOWN;
}

static void
on_none(struct twin_watch *w)
{
	if (w->text[0] == '\0')
		return;
	log_info("agent", "no other member has this node's id or name any more");
	w->text[0] = w->remedy[0] = '\0';
	w->since = w->logged = w->compared = MONO_ZERO;
	registry_server_came(w->conf.registry);		/* the catalog may take this node now */
}

/* What was compared before the other one came tells nothing; and a node that is kept out must learn when that ends. */
static void
compare(struct twin_watch *w, struct mono now)
{
	bool first = w->since.ns == 0;

	if (!first && (registry_standing(w->conf.registry) != REGISTRY_KEPT_OUT ||
	    mono_before(now, mono_add(w->compared, COMPARE_EVERY))))
		return;
	w->compared = now;
	if (first) {
		w->since = now;
		registry_check_standing(w->conf.registry);
	} else {
		registry_server_came(w->conf.registry);
	}
}

static bool
is_to_be_logged(const struct twin_watch *w, struct mono now)
{
	if (w->logged.ns != 0)
		return !mono_before(now, mono_add(w->logged, LOG_EVERY));
	return registry_standing(w->conf.registry) != REGISTRY_UNKNOWN ||
	    !mono_before(now, mono_add(w->since, PATIENCE));
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *timer, int revents UNUSED)
{
	struct twin_watch *w = timer->data;
	struct mono now = clock_mono();
	struct twin t;

	if (!twins_find(w->conf.members, &w->conf.self, &t)) {
		on_none(w);
		return;
	}
	compare(w, now);
	twins_text(&w->conf.self, &t, standing_of(w), w->text);
	twins_remedy(&w->conf.self, &t, w->remedy);
	if (!is_to_be_logged(w, now))
		return;
	w->logged = now;
	log_err("agent", "%s. %s", w->text, w->remedy);
}

struct twin_watch *
twin_watch_new(const struct twin_watch_conf *conf)
{
	struct twin_watch *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->conf = *conf;
	ev_timer_init(&w->timer, on_timer, LOOK_EVERY, LOOK_EVERY);
	w->timer.data = w;
	ev_timer_start(conf->loop, &w->timer);
	return w;
}

void
twin_watch_free(struct twin_watch *w)
{
	if (w == NULL)
		return;
	ev_timer_stop(w->conf.loop, &w->timer);
	free(w);
}

const char *
twin_watch_text(const struct twin_watch *w)
{
	return w == NULL ? "" : w->text;
}

const char *
twin_watch_remedy(const struct twin_watch *w)
{
	return w == NULL ? "" : w->remedy;
}
