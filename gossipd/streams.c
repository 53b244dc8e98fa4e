/* TCP exchanges of one pool; see streams.h. */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/chan.h"
#include "common/net/source.h"
#include "common/net/strangers.h"
#include "gossipd/net.h"
#include "gossipd/streams.h"

#define READ_BYTES 65536
#define FIRST_BYTES MONO_S(2)		/* of who dials us */
#define OUT_BYTES_MAX (48u << 20)	/* one wrapped message */

enum phase { PHASE_CONNECT, PHASE_WRITE_REQUEST, PHASE_READ, PHASE_WRITE_ANSWER };

struct stream {
	struct stranger place;		/* accepted: in set->unread or set->answered; first: see evict() */
	struct stream *next, **back;
	struct streams *set;
	struct addr peer;
	bool dialled;
	bool spoke;			/* bytes came */
	uint64_t id;			/* dialled: the core's */
	enum phase phase;
	int fd;				/* -1: dialling failed at once; the deadline timer tells it */
	enum tv_err why;		/* what the timer means */
	ev_io io;
	ev_timer deadline;
	struct stream_reader reader;
	struct buf out;
	size_t written;
};

struct streams {
	struct streams_conf conf;
	struct listener *listener;
	struct strangers unread;	/* accepted, and nobody knows yet who it is */
	struct strangers answered;	/* what came was for our keys, and whole */
	struct stream *first;
	struct packet_scratch *scratch;
	struct streams_stats stats;
	struct log_limit limit;
	struct {			/* the last connection that failed */
		struct addr to;
		int error;
	} lost;
};

static void
stream_free(struct stream *st)
{
	ev_io_stop(st->set->conf.loop, &st->io);
	ev_timer_stop(st->set->conf.loop, &st->deadline);
	if (st->fd >= 0)
		close(st->fd);
	if (!st->dialled) {
		strangers_go(st->phase == PHASE_READ ? &st->set->unread : &st->set->answered, &st->place);
		listener_release(st->set->listener);
	}
	*st->back = st->next;
	if (st->next != NULL)
		st->next->back = st->back;
	st->set->stats.open--;
	stream_reader_done(&st->reader);
	buf_done(&st->out);
	free(st);
}

/* The end, good (m) or bad (why).  The message lives in the stream, so that goes last. */
static void
stream_end(struct stream *st, const struct stream_message *m, enum tv_err why)
{
	struct streams *t = st->set;
	char text[NET_TEXT_BYTES];

	if (st->dialled) {
		ev_io_stop(t->conf.loop, &st->io);
		ev_timer_stop(t->conf.loop, &st->deadline);
		t->conf.on_end(t->conf.ctx, st->id, m, why);
	} else if (why != TV_OK) {
		t->stats.failed++;
		if (why != TV_EAUTH && log_allow(&t->limit, "memberlist"))
			log_warn("memberlist", "stream from %s dropped: %s", net_text(&st->peer, text),
			    tv_strerror(why));
	}
	stream_free(st);
}

/*
 * Each stream is limited, but many at their limit are not: beyond bytes_max the largest of all ends.  So those that
 * fill theirs slowly, or do not read their answer, give way to the small ones.
 */
static void
relieve(struct streams *t)
{
	for (;;) {
		struct stream *largest = NULL;
		size_t most = 0, all = 0;

		for (struct stream *st = t->first; st != NULL; st = st->next) {
			size_t bytes = stream_reader_bytes(&st->reader) + st->out.cap;

			all += bytes;
			if (bytes > most) {
				most = bytes;
				largest = st;
			}
		}
		if (all <= t->conf.bytes_max || largest == NULL)
			return;
		t->stats.crowded++;
		stream_end(largest, NULL, TV_ELIMIT);
	}
}

static void
set_deadline(struct stream *st, double seconds)
{
	ev_timer_stop(st->set->conf.loop, &st->deadline);
	ev_timer_set(&st->deadline, seconds > 0 ? seconds : 0., 0.);
	ev_timer_start(st->set->conf.loop, &st->deadline);
}

static void
set_io(struct stream *st, int events)
{
	ev_io_stop(st->set->conf.loop, &st->io);
	ev_io_set(&st->io, st->fd, events);
	ev_io_start(st->set->conf.loop, &st->io);
}

static void
wrap(struct stream *st, enum stream_side side, struct span message)
{
	uint8_t nonce[SEAL_NONCE_BYTES];

	randombytes_buf(nonce, sizeof(nonce));
	buf_reset(&st->out);
	st->written = 0;
	if (stream_build(st->set->conf.envelope, st->set->scratch, side, message, nonce, &st->out) != TV_OK)
		buf_reset(&st->out);
}

/* Writes what the socket takes: TV_OK when all is out, TV_EAGAIN, or TV_ECLOSED. */
static enum tv_err
write_some(struct stream *st)
{
	while (st->written < st->out.len) {
		ssize_t n = send(st->fd, st->out.data + st->written, st->out.len - st->written, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? TV_EAGAIN : TV_ECLOSED;
		st->written += (size_t)n;
	}
	return TV_OK;
}

/* A place for an accepted stream.  One that has another one's is alone from now on. */
static void
take_place(struct streams *t, struct strangers *table, struct stream *st, uint64_t source, bool known)
{
	struct stranger *out = strangers_come(table, &st->place, source, known);

	if (out == NULL)
		return;
	t->stats.evicted++;
	stream_end((struct stream *)out, NULL, TV_ELIMIT);
}

/* A request was read whole: ask the core, and answer. */
static void
answer(struct stream *st)
{
	struct streams *t = st->set;
	struct span body = t->conf.on_request(t->conf.ctx, &st->peer, stream_message(&st->reader));

	if (body.len == 0) {
		stream_end(st, NULL, TV_OK);
		return;
	}
	wrap(st, STREAM_ACCEPTED, body);
	strangers_go(&t->unread, &st->place);
	take_place(t, &t->answered, st, st->place.source, st->place.known);
	st->phase = PHASE_WRITE_ANSWER;
	set_deadline(st, mono_seconds(t->conf.timeout));
	set_io(st, EV_WRITE);
}

/* Wrong key, or plaintext: the peer is told in the form in which it would look, then closed. */
static void
refuse(struct stream *st, enum tv_err why)
{
	struct buf b = BUF_INIT(512);

	wire_put_error(&b, &(struct wire_error){ .text = span_str("refused: encryption or label does not match") });
	wrap(st, STREAM_ACCEPTED, buf_span(&b));
	buf_done(&b);
	(void)write_some(st);	/* as much as the socket takes at once */
	stream_end(st, NULL, why);
}

/* memberlist's words for it: "failed to decrypt", "encryption ..."; ours are in refuse(). */
static bool
is_key_error(const struct stream_message *m)
{
	struct wire_error e;
	char text[256];

	return m->type == WIRE_ERROR && wire_get_error(m->body, NULL, &e) == TV_OK &&
	    strstr(log_safe(e.text, text, sizeof(text)), "crypt") != NULL;
}

static void
note_key(struct stream *st, enum tv_err err)
{
	struct streams *t = st->set;

	if (err != TV_EAUTH && !(err == TV_OK && st->dialled && is_key_error(stream_message(&st->reader))))
		return;
	t->stats.bad_key++;
	t->conf.on_unreadable(t->conf.ctx, &st->peer, st->dialled);
}

static void
read_some(struct stream *st)
{
	uint8_t bytes[READ_BYTES];
	ssize_t n = recv(st->fd, bytes, sizeof(bytes), 0);
	enum tv_err err;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		stream_end(st, NULL, n == 0 ? TV_EOF : TV_ECLOSED);
		return;
	}
	if (!st->spoke && !st->dialled)
		set_deadline(st, mono_seconds(st->set->conf.timeout));
	st->spoke = true;
	err = stream_feed(&st->reader, span_of(bytes, (size_t)n));
	if (err == TV_EAGAIN)
		return;
	ev_io_stop(st->set->conf.loop, &st->io);
	note_key(st, err);
	if (err == TV_EAUTH && !st->dialled)
		refuse(st, err);
	else if (err != TV_OK)
		stream_end(st, NULL, err);
	else if (st->dialled)
		stream_end(st, stream_message(&st->reader), TV_OK);
	else
		answer(st);
}

static enum tv_err
unreachable(struct streams *t, const struct addr *to, int error)
{
	t->lost.to = *to;
	t->lost.error = error;
	return TV_EUNREACH;
}

int
streams_error(const struct streams *t, const struct addr *to)
{
	return addr_eq(&t->lost.to, to) ? t->lost.error : 0;
}

/* Connected, or not. */
static enum tv_err
finish_connect(struct stream *st)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(st->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0)
		return unreachable(st->set, &st->peer, error);
	st->phase = PHASE_WRITE_REQUEST;
	return TV_OK;
}

static void
on_io(struct ev_loop *loop, ev_io *w, int revents)
{
	struct stream *st = w->data;
	struct streams *t = st->set;
	enum tv_err err = TV_OK;

	(void)loop;
	(void)revents;
	if (st->phase == PHASE_READ) {
		read_some(st);
		relieve(t);
		return;
	}
	if (st->phase == PHASE_CONNECT)
		err = finish_connect(st);
	if (err == TV_OK)
		err = write_some(st);
	if (err == TV_EAGAIN)
		return;
	if (err != TV_OK || st->phase == PHASE_WRITE_ANSWER) {
		stream_end(st, NULL, err);
		return;
	}
	buf_done(&st->out);
	st->phase = PHASE_READ;
	set_io(st, EV_READ);
}

static void
on_deadline(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct stream *st = w->data;

	(void)loop;
	(void)revents;
	stream_end(st, NULL, st->why);
}

/* fd is closed when there is no memory. */
static struct stream *
stream_new(struct streams *t, int fd, const struct addr *peer, bool dialled)
{
	struct stream *st = calloc(1, sizeof(*st));

	if (st == NULL) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	*st = (struct stream){ .set = t, .fd = fd, .peer = *peer, .dialled = dialled, .why = TV_ETIMEOUT,
		.next = t->first, .back = &t->first, .out = BUF_INIT(OUT_BYTES_MAX) };
	if (st->next != NULL)
		st->next->back = &st->next;
	t->first = st;
	t->stats.open++;
	stream_reader_init(&st->reader, t->conf.envelope, &t->conf.limits, dialled ? STREAM_DIALLED : STREAM_ACCEPTED);
	ev_init(&st->io, on_io);
	ev_init(&st->deadline, on_deadline);
	st->io.data = st->deadline.data = st;
	return st;
}

static void
on_accept(void *ctx, int fd)
{
	struct streams *t = ctx;
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct addr peer = { .len = 0 };
	struct stream *st = NULL;
	uint64_t source;

	if (getpeername(fd, (struct sockaddr *)&sa, &len) == 0)
		peer = net_addr(&sa);
	if (peer.len == 0) {
		t->stats.refused++;
		close(fd);
	} else {
		st = stream_new(t, fd, &peer, false);
	}
	if (st == NULL) {
		listener_release(t->listener);
		return;
	}
	t->stats.accepted++;
	st->phase = PHASE_READ;
	source = source_of_ip(&peer);
	take_place(t, &t->unread, st, source, t->conf.is_known(t->conf.ctx, source));
	set_deadline(st, mono_seconds(mono_min(t->conf.timeout, FIRST_BYTES)));
	set_io(st, EV_READ);
}

/* A connecting socket, or -1 with *why: TV_EINVAL when the walls allow no connection to that port. */
static int
dial(struct streams *t, const struct addr *to, enum tv_err *why)
{
	struct addr bare = addr_unmapped(*to);
	union addr_sock sa;
	socklen_t len = addr_to_sock(&bare, &sa);
	int fd = socket(sa.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, &sa.any, len) == 0 || errno == EINPROGRESS)
		return fd;
	*why = errno == EACCES ? TV_EINVAL : unreachable(t, to, errno);
	close(fd);
	return -1;
}

static void
say_walled(struct streams *t, const struct addr *to)
{
	char text[NET_TEXT_BYTES];

	if (log_allow(&t->limit, "memberlist"))
		log_warn("memberlist", "No connection to %s: the sandbox denies gossipd that port. If members listen "
		    "there, add it to peer_ports in gossipd.conf", net_text(to, text));
}

void
streams_dial(struct streams *t, const struct swim_stream *want)
{
	struct mono left = mono_sub(want->deadline, clock_mono());
	enum tv_err why = TV_EUNREACH;
	struct stream *st = stream_new(t, dial(t, &want->to, &why), &want->to, true);

	if (st == NULL)
		return;			/* the core gives up on it some time after the deadline */
	t->stats.dialled++;
	st->id = want->id;
	wrap(st, STREAM_DIALLED, want->message);
	if (st->fd < 0 || st->out.len == 0) {
		if (why == TV_EINVAL)
			say_walled(t, &want->to);
		st->why = why;
		set_deadline(st, 0);
		return;
	}
	set_deadline(st, mono_seconds(left));
	set_io(st, EV_WRITE);
}

struct streams *
streams_new(const struct streams_conf *conf)
{
	struct streams *t = calloc(1, sizeof(*t));
	const struct strangers_conf places = { conf->accept_max, conf->accept_max, conf->per_source_max };

	if (t == NULL) {
		close(conf->fd);
		return NULL;
	}
	t->conf = *conf;
	t->limit = (struct log_limit){ .burst = 5, .period = MONO_S(10) };
	t->scratch = malloc(sizeof(*t->scratch));
	if (t->scratch != NULL)
		packet_scratch_init(t->scratch);
	strangers_init(&t->unread, &places);
	strangers_init(&t->answered, &places);
	t->listener = listener_new(conf->loop, conf->fd, UINT_MAX, on_accept, t);
	if (t->scratch == NULL || t->listener == NULL) {
		streams_free(t);
		return NULL;
	}
	return t;
}

void
streams_stats(const struct streams *t, struct streams_stats *out)
{
	*out = t->stats;
	out->unread = t->unread.count;
}

void
streams_free(struct streams *t)
{
	if (t == NULL)
		return;
	while (t->first != NULL)
		stream_free(t->first);
	if (t->listener != NULL)
		listener_free(t->listener);
	if (t->scratch != NULL)
		packet_scratch_done(t->scratch);
	free(t->scratch);
	free(t);
}
