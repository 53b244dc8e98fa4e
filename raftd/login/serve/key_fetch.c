/* See key_fetch.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "common/proc/helper.h"
#include "common/proc/helper_monitor.h"
#include "raftd/fetch/launch.h"
#include "raftd/login/serve/key_fetch.h"

#define TAG "fetch"
#define FETCHES_MAX (HELPER_CHILDREN_MAX / 2)	/* some may be on their way out */
#define WAITING_MAX 128u		/* for all issuers */
#define WAITING_ISSUER_MAX 64u		/* for one */
#define ANSWER_MEMORY (4u << 20)
#define GRACE_S 2.			/* beyond the time that the process has */
#define SILENT "the process that was to fetch them does not answer"
#define NOT_STARTED "raftd-fetch did not start with raftd; its log has the reason"

struct fetch {
	struct join_flight flight;
	struct key_fetch *all;
	struct issuer *issuer;		/* held */
	struct helper *helper;
	ev_timer timer;
};

struct key_fetch {
	struct raftd *d;
	struct issuers *issuers;
	struct map fetches;		/* by issuer */
	unsigned waiting;
	uint64_t begun, failed, stuck;
	struct mono stuck_at;		/* the latest of these */
	struct log_limit failures;
	struct mono ended;		/* the latest one */
	char last[ISSUER_WHY_BYTES];	/* what came of it; "" before the first */
};

/* -- what came of one -- */

static void
tell_waiter(struct key_wait *w, enum tv_err err, struct key_set *keys, const char *text)
{
	w->keys = err == TV_OK ? key_set_ref(keys) : NULL;
	w->done(w, err, span_str(text));
}

/* Its answer, or the sentence that is in the issuer by now. */
static void
conclude(struct fetch *f, enum tv_err err, const char *text)
{
	struct key_fetch *k = f->all;
	struct issuer *i = f->issuer;
	bool serves = err == TV_EUNREACH && issuer_serves(i, clock_mono());
	struct key_wait *w;

	join_end(&k->fetches, &f->flight);
	ev_timer_stop(k->d->loop, &f->timer);
	helper_free(f->helper);
	while ((w = JOIN_ENTRY(join_next(&f->flight), struct key_wait, waiter)) != NULL) {
		k->waiting--;
		if (w->want == ISSUER_ANY && serves)
			tell_waiter(w, TV_OK, issuer_keys(i), "");
		else
			tell_waiter(w, err, issuer_keys(i), text);
	}
	issuer_release(i);
	free(f);
}

static void
note_outcome(struct key_fetch *k, const char *text)
{
	k->ended = clock_mono();
	snprintf(k->last, sizeof(k->last), "%s", text);
}

static void
end_failed(struct fetch *f, struct span why)
{
	struct key_fetch *k = f->all;
	char text[ISSUER_WHY_BYTES];

	(void)log_safe(why, text, sizeof(text));
	k->failed++;
	note_outcome(k, text);
	if (log_allow(&k->failures, TAG))
		log_warn(TAG, "keys for logins could not be fetched: %s", text);
	issuer_failed(f->issuer, text);
	conclude(f, TV_EUNREACH, text);
}

static void
end_fetched(struct fetch *f, struct jwks *keys)
{
	char text[ISSUER_WHY_BYTES], url[256];
	unsigned n = keys->count;

	if (issuer_fetched(f->issuer, keys, clock_mono()) != TV_OK) {
		end_failed(f, span_str(tv_strerror(TV_ENOMEM)));
		return;
	}
	snprintf(text, sizeof(text), "%s: %u key%s", log_safe(issuer_source(f->issuer)->url, url, sizeof(url)), n, n == 1 ? "" : "s");
	note_outcome(f->all, text);
	log_debug(TAG, "%s", text);
	conclude(f, TV_OK, "");
}

/* -- from the process: it may say of these keys what it wants, and nothing else -- */

static enum tv_err
on_frame(void *ctx, const struct frame *frame)
{
	struct fetch *f = ctx;
	struct arena a = ARENA_INIT(ANSWER_MEMORY);
	struct buf why = BUF_INIT(512);
	struct msg_fetched m = { .error = SPAN_NONE };
	struct jwks keys;
	enum tv_err err = TV_EFORMAT;

	if (frame->type == MSG_FETCH && (frame->flags & FRAME_REPLY))
		err = msg_read(&msg_fetched_schema, frame->body, &a, &m);
	if (err == TV_OK && m.error.len == 0 && (err = jwks_take(&m, &keys, &why)) == TV_OK)
		end_fetched(f, &keys);
	else if (err == TV_OK)
		end_failed(f, m.error);
	buf_done(&why);
	arena_done(&a);
	return err;		/* else on_ended() ends it */
}

static void
on_ended(void *ctx, enum helper_end why)
{
	struct fetch *f = ctx;

	struct key_fetch *k = f->all;

	if (why == HELPER_STUCK) {
		k->stuck++;
		k->stuck_at = clock_mono();
		log_warn(TAG, "\"" FETCH_TITLE "\" does not answer, and is killed");
	}
	end_failed(f, span_str(why == HELPER_DIED ? "the process that was to fetch them has ended without an answer" :
	    why == HELPER_STUCK ? SILENT : "the process that starts raftd-fetch does not answer; restart raftd"));
}

static void
on_timer(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	end_failed(w->data, span_str(SILENT));
}

/* -- the beginning of one -- */

static void
on_setup(void *ctx, struct chan *c)
{
	struct fetch *f = ctx;
	const struct login_source *s = issuer_source(f->issuer);

	(void)chan_send_record(c, MSG_FETCH, 1, &msg_fetch_schema,
	    &(struct msg_fetch){ s->discovery, s->url, s->ca, FETCH_MS });	/* else it closes */
}

/* A sentence if it cannot be. */
static const char *
start_process(struct fetch *f)
{
	struct raftd *d = f->all->d;
	enum tv_err err;

	if (d->fetch_fd < 0)
		return NOT_STARTED;
	f->helper = helper_new(&(struct helper_conf){
		.loop = d->loop, .monitor = d->fetch_fd, .name = FETCH_TITLE, .tag = TAG, .once = true,
		.body_max = MSG_LARGE, .out_max = 2 * MSG_TEXT,
		.setup = on_setup, .frame = on_frame, .ended = on_ended, .ctx = f,
	});
	err = f->helper == NULL ? TV_ENOMEM : helper_start(f->helper);
	return err == TV_OK ? NULL : err == TV_ECLOSED ? "the process that starts raftd-fetch has ended; restart raftd" :
	    err == TV_ESYS ? strerror(errno) : tv_strerror(err);
}

static struct fetch *
fetch_new(struct key_fetch *k, struct issuer *i)
{
	struct fetch *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return NULL;
	f->all = k;
	f->issuer = i;
	ev_timer_init(&f->timer, on_timer, FETCH_MS / 1e3 + GRACE_S, 0.);
	f->timer.data = f;
	issuer_hold(i);
	issuer_began(i, clock_mono());
	join_open(&k->fetches, &f->flight, (uintptr_t)i);
	k->begun++;
	return f;
}

static void
join_fetch(struct fetch *f, struct key_wait *w)
{
	join_wait(&f->flight, &w->waiter);
	f->all->waiting++;
}

static void
begin_fetch(struct key_fetch *k, struct issuer *i, struct key_wait *w)
{
	struct fetch *f = fetch_new(k, i);
	const char *why;

	if (f == NULL) {
		tell_waiter(w, TV_ENOMEM, NULL, "");
		return;
	}
	join_fetch(f, w);
	if ((why = start_process(f)) != NULL)
		end_failed(f, span_str(why));
	else
		ev_timer_start(k->d->loop, &f->timer);
}

static struct fetch *
fetch_of(struct key_fetch *k, const struct issuer *i)
{
	return MAP_ENTRY(map_find(&k->fetches, (uintptr_t)i), struct fetch, flight.node);
}

static bool
is_full(const struct key_fetch *k, const struct fetch *f)
{
	return k->waiting >= WAITING_MAX ||
	    (f == NULL ? k->fetches.count >= FETCHES_MAX : f->flight.waiting >= WAITING_ISSUER_MAX);
}

void
key_fetch_get(struct key_fetch *k, const struct login_source *source, enum issuer_want want, uint64_t after, struct key_wait *w)
{
	struct mono now = clock_mono();
	struct issuer *i = issuers_find(k->issuers, source, now);
	enum issuer_say say = i == NULL ? ISSUER_WAIT : issuer_ask(i, want, after, now);
	struct fetch *f = i == NULL ? NULL : fetch_of(k, i);

	w->want = want;
	if (say == ISSUER_HAVE)
		tell_waiter(w, TV_OK, issuer_keys(i), "");
	else if (say == ISSUER_REFUSE && want == ISSUER_NEWER)
		tell_waiter(w, TV_ENOENT, NULL, "");
	else if (say == ISSUER_REFUSE)
		tell_waiter(w, TV_EUNREACH, NULL, issuer_why(i));
	else if (i == NULL || is_full(k, f))
		tell_waiter(w, TV_EAGAIN, NULL, "too many wait for keys of issuers; try again");
	else if (f != NULL)
		join_fetch(f, w);
	else
		begin_fetch(k, i, w);
}

/* -- all of them -- */

static int
own_log_level(const struct raftd *d)
{
	return log_enabled(LOG_LVL_DEBUG) ? LOG_LVL_DEBUG : d->cluster.log_level;
}

void
key_fetch_reload(struct raftd *d)
{
	if (d->fetch_fd >= 0)
		helper_monitor_log(d->fetch_fd, own_log_level(d));
}

void
key_fetch_open(struct raftd *d)
{
	char errbuf[512] = "";
	struct helper_monitor_conf conf = {
		.owner = "raftd", .tag = TAG, .user = FETCH_USER, .program = FETCH_PROGRAM, .title = FETCH_TITLE,
		.kinds = { { .may = true } }, .life_s = FETCH_LIFE_S, .best_effort = d->cluster.sandbox != 0,
		.log_dest = d->cluster.log_to, .log_level = own_log_level(d),
	};

	if (helper_monitor_start(&conf, &d->fetch_fd, errbuf, sizeof(errbuf)) == TV_OK)
		return;
	d->fetch_fd = -1;
	log_warn(TAG, "%s. Without it no keys are fetched for logins (JWKSURL and OIDCDiscoveryURL of auth methods); all else works", errbuf);
}

struct key_fetch *
key_fetch_new(struct raftd *d)
{
	struct key_fetch *k = calloc(1, sizeof(*k));

	if (k == NULL || (k->issuers = issuers_new()) == NULL) {
		free(k);
		return NULL;
	}
	k->d = d;
	k->failures = (struct log_limit){ .burst = 5, .period = MONO_S(60) };
	return k;
}

void
key_fetch_free(struct key_fetch *k)
{
	struct fetch *f;

	if (k == NULL)
		return;
	while ((f = MAP_ENTRY(map_first(&k->fetches), struct fetch, flight.node)) != NULL)
		conclude(f, TV_ENOTLEADER, "");
	map_done(&k->fetches);
	issuers_free(k->issuers);
	free(k);
}

/* As helper_state(), of all processes that there are and were lately. */
static const char *
state(const struct key_fetch *k, char *dst)
{
	struct mono since = mono_sub(clock_mono(), k->stuck_at);
	const struct fetch *f;
	struct map_node *n;

	if (k->d->fetch_fd < 0)
		return "none";
	MAP_FOREACH(f, &k->fetches, flight.node, n)
		if (strcmp(helper_state(f->helper, dst), "running") != 0)
			return dst;
	if (k->stuck == 0 || !mono_before(since, HELPER_STEADY))
		return k->fetches.count > 0 ? "running" : "idle";
	snprintf(dst, HELPER_STATE_BYTES, "one did not answer %lld s ago", (long long)(mono_ms(since) / 1000));
	return dst;
}

void
key_fetch_info(const struct key_fetch *k, figure_fn *fn, void *ctx)
{
	char text[ISSUER_WHY_BYTES + 64], how[HELPER_STATE_BYTES];

	fn(ctx, "helper_fetch", state(k, how));
	FIGURES_PUT(fn, ctx, { "key_fetch_failures", k->failed }, { "key_fetch_stuck", k->stuck },
	    { "key_fetch_waiting", k->waiting }, { "key_fetches", k->begun }, { "key_sets", issuers_count(k->issuers) });
	if (k->last[0] == '\0')
		return;
	snprintf(text, sizeof(text), "%lld s ago: %s", (long long)(mono_ms(mono_sub(clock_mono(), k->ended)) / 1000), k->last);
	fn(ctx, "key_fetch_last", text);
}
