/*
 * Feeds bytes to one channel through a socketpair, for fuzz targets.
 */
#ifndef TV_TESTS_FUZZ_CHAN_FEED_H
#define TV_TESTS_FUZZ_CHAN_FEED_H

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/net/chan.h"

#define FEED_BODY_MAX 4096

struct feed {
	struct ev_loop *loop;
	struct chan *chan;		/* NULL once closed */
	int fd;				/* the other end, non-blocking */
	unsigned frames;
	unsigned pauses;		/* how often a frame pauses the channel */
};

static enum tv_err
feed_on_frame(void *ctx, struct chan *c, const struct frame *f)
{
	struct feed *feed = ctx;

	TV_ASSERT(f->body.len <= FEED_BODY_MAX);
	feed->frames++;
	if (feed->pauses > 0) {
		feed->pauses--;
		chan_pause(c, true);
	}
	return f->type == 0xdead ? TV_EFORMAT : chan_send(c, f->type, FRAME_REPLY, f->id, f->body);
}

static void
feed_on_close(void *ctx, struct chan *c, enum tv_err why)
{
	struct feed *feed = ctx;

	(void)c, (void)why;
	feed->chan = NULL;
}

static void
feed_open(struct feed *feed, const struct noise_conf *noise, bool initiator)
{
	static const struct chan_events events = { feed_on_frame, NULL, feed_on_close };
	struct chan_conf conf = {
		.events = &events, .ctx = feed, .name = "fuzz", .body_max = FEED_BODY_MAX, .out_max = 1 << 20,
		.noise = noise, .initiator = initiator,
	};
	int fds[2];

	log_init("fuzz", LOG_LVL_ERR, LOG_TO_STDERR);
	*feed = (struct feed){ .loop = ev_default_loop(0) };
	TV_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	conf.loop = feed->loop;
	feed->fd = fds[1];
	feed->chan = chan_new(fds[0], &conf);
	TV_ASSERT(feed->chan != NULL);
	ev_run(feed->loop, EVRUN_NOWAIT);
}

static void
feed_turn(struct feed *feed)
{
	ev_run(feed->loop, EVRUN_NOWAIT);
	if (feed->chan != NULL)
		chan_pause(feed->chan, false);
}

/* Writes the bytes, step at a time, with a turn of the loop after each. */
static void
feed_bytes(struct feed *feed, const uint8_t *p, size_t n, size_t step)
{
	char sink[4096];

	while (n > 0 && feed->chan != NULL) {
		size_t now = n < step ? n : step;
		ssize_t done = send(feed->fd, p, now, MSG_NOSIGNAL);

		if (done > 0)
			p += done, n -= (size_t)done;
		feed_turn(feed);
		while (recv(feed->fd, sink, sizeof(sink), 0) > 0)
			;
	}
	for (int i = 0; i < 8; i++)
		feed_turn(feed);
}

static void
feed_done(struct feed *feed)
{
	chan_free(feed->chan);
	close(feed->fd);
}

#endif
