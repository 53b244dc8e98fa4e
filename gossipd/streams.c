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
#include "common/net/stream.h"
#include "common/net/strangers.h"
#include "gossipd/net.h"
#include "gossipd/streams.h"

#define READ_BYTES 65536
#define FIRST_BYTES MONO_S(2)		/* of peers that dial */
#define OUT_BYTES_MAX (48u << 20)	/* one wrapped message */

enum phase { PHASE_CONNECT, PHASE_WRITE_REQUEST, PHASE_READ, PHASE_WRITE_ANSWER };

struct exchange {
	struct stranger place;		/* accepted: in set->unread or set->answered; first: see evict() */
	struct exchange *next, **back;
	struct streams *set;
	struct addr peer;
	bool dialled;
	bool walled;			/* refused at once, by the walls */
	bool spoke;			/* bytes came */
	uint64_t id;			/* dialled: the core's */
	enum phase phase;
	struct stream bytes;
	struct stream_reader reader;
};

struct streams {
	struct streams_conf conf;
	struct listener *listener;
	struct strangers unread;	/* accepted, and not proven yet */
	struct strangers answered;	/* what came was for our keys, and whole */
	struct exchange *first;
	struct packet_scratch *scratch;
	struct streams_stats stats;
	struct log_limit limit;
	struct {			/* the last connection that failed */
		struct addr to;
		int error;
	} lost;
};

static void
exchange_free(struct exchange *st)
{
	stream_close(&st->bytes);
	if (!st->dialled) {
		strangers_go(st->phase == PHASE_READ ? &st->set->unread : &st->set->answered, &st->place);
		listener_release(st->set->listener);
	}
	*st->back = st->next;
	if (st->next != NULL)
		st->next->back = st->back;
	st->set->stats.open--;
	stream_reader_done(&st->reader);
	free(st);
}

/* The end, good (m) or bad (why).  The message lives in the stream, so that goes last. */
static void
exchange_end(struct exchange *st, const struct stream_message *m, enum tv_err why)
{
	struct streams *t = st->set;
	char text[NET_TEXT_BYTES];

	if (st->dialled) {
		stream_watch(&st->bytes, 0);
		stream_deadline(&st->bytes, -1);
		t->conf.on_end(t->conf.ctx, st->id, m, why);
	} else if (why != TV_OK) {
		t->stats.failed++;
		if (why != TV_EAUTH && log_allow(&t->limit, "memberlist"))
			log_warn("memberlist", "stream from %s dropped: %s", net_text(&st->peer, text),
			    tv_strerror(why));
	}
	exchange_free(st);
}

/*
 * Each stream is limited, but many at their limit are not: beyond bytes_max the largest of all ends.  So those that
 * fill theirs slowly, or do not read their answer, give way to the small ones.
 */
static void
relieve(struct streams *t)
{
	for (;;) {
		struct exchange *largest = NULL;
		size_t most = 0, all = 0;

		for (struct exchange *st = t->first; st != NULL; st = st->next) {
			size_t bytes = stream_reader_bytes(&st->reader) + st->bytes.queue.cap;

			all += bytes;
			if (bytes > most) {
				most = bytes;
				largest = st;
			}
		}
		if (all <= t->conf.bytes_max || largest == NULL)
			return;
		t->stats.crowded++;
		exchange_end(largest, NULL, TV_ELIMIT);
	}
}

static void
wrap(struct exchange *st, enum stream_side side, struct span message)
{
	uint8_t nonce[SEAL_NONCE_BYTES];

	randombytes_buf(nonce, sizeof(nonce));
	if (stream_build(st->set->conf.envelope, st->set->scratch, side, message, nonce, &st->bytes.queue) != TV_OK)
		buf_reset(&st->bytes.queue);
}

/* Writes what the socket takes: TV_OK when all is out, TV_EAGAIN, or TV_ECLOSED. */
static enum tv_err
write_some(struct exchange *st)
{
	(void)stream_flush(&st->bytes);
	if (st->bytes.state == STREAM_CUT)
		return TV_ECLOSED;
	return stream_queued(&st->bytes) == 0 ? TV_OK : TV_EAGAIN;
}

/* A place for an accepted stream, if need be that of another one.  False: no memory. */
static bool
take_place(struct streams *t, struct strangers *table, struct exchange *st, uint64_t source, bool known)
{
	struct stranger *out = strangers_come(table, &st->place, source, known);

	if (out != NULL) {
		t->stats.evicted++;
		exchange_end((struct exchange *)out, NULL, TV_ELIMIT);
	}
	return st->place.place.here;
}

/* A request was read whole: ask the core, and answer. */
static void
answer_request(struct exchange *st)
{
	struct streams *t = st->set;
	struct span body = t->conf.on_request(t->conf.ctx, &st->peer, stream_message(&st->reader));

	if (body.len == 0) {
		exchange_end(st, NULL, TV_OK);
		return;
	}
	wrap(st, STREAM_ACCEPTED, body);
	strangers_go(&t->unread, &st->place);
	if (!take_place(t, &t->answered, st, st->place.source, st->place.known)) {
		exchange_end(st, NULL, TV_ENOMEM);
		return;
	}
	st->phase = PHASE_WRITE_ANSWER;
	stream_deadline(&st->bytes, mono_seconds(t->conf.timeout));
	stream_watch(&st->bytes, STREAM_WRITE);
}

/* Wrong key, or plaintext: the peer is told in the form in which it would look, then closed. */
static void
refuse(struct exchange *st, enum tv_err why)
{
	struct buf b = BUF_INIT(512);

	wire_put_error(&b, &(struct wire_error){ .text = span_str("refused: encryption or label does not match") });
	wrap(st, STREAM_ACCEPTED, buf_span(&b));
	buf_done(&b);
	(void)write_some(st);	/* as much as the socket takes at once */
	exchange_end(st, NULL, why);
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
note_key(struct exchange *st, enum tv_err err)
{
	struct streams *t = st->set;

	if (err != TV_EAUTH && !(err == TV_OK && st->dialled && is_key_error(stream_message(&st->reader))))
		return;
	t->stats.bad_key++;
	t->conf.on_unreadable(t->conf.ctx, &st->peer, st->dialled);
}

static void
read_some(struct exchange *st)
{
	uint8_t bytes[READ_BYTES];
	size_t n = stream_read(&st->bytes, bytes, sizeof(bytes));
	enum tv_err err;

	if (n == 0) {
		if (st->bytes.state != STREAM_OPEN)
			exchange_end(st, NULL, st->bytes.state == STREAM_ENDED ? TV_EOF : TV_ECLOSED);
		return;
	}
	if (!st->spoke && !st->dialled)
		stream_deadline(&st->bytes, mono_seconds(st->set->conf.timeout));
	st->spoke = true;
	err = stream_feed(&st->reader, span_of(bytes, n));
	if (err == TV_EAGAIN)
		return;
	stream_watch(&st->bytes, 0);
	note_key(st, err);
	if (err == TV_EAUTH && !st->dialled)
		refuse(st, err);
	else if (err != TV_OK)
		exchange_end(st, NULL, err);
	else if (st->dialled)
		exchange_end(st, stream_message(&st->reader), TV_OK);
	else
		answer_request(st);
}

static void
say_walled(struct streams *t, const struct addr *to)
{
	char text[NET_TEXT_BYTES];

	if (log_allow(&t->limit, "memberlist"))
		log_warn("memberlist", "No connection to %s: the sandbox denies gossipd that port. If members listen "
		    "there, add it to peer_ports in gossipd.conf", net_text(to, text));
}

/* TV_EINVAL: the walls allow no connection to that port.  A packet filter's answer comes later. */
static enum tv_err
unreachable(struct exchange *st)
{
	struct streams *t = st->set;

	if (st->walled) {
		say_walled(t, &st->peer);
		return TV_EINVAL;
	}
	t->lost.to = st->peer;
	t->lost.error = st->bytes.error;
	return TV_EUNREACH;
}

int
streams_error(const struct streams *t, const struct addr *to)
{
	return addr_eq(&t->lost.to, to) ? t->lost.error : 0;
}

static void
on_io(struct exchange *st)
{
	struct streams *t = st->set;
	enum tv_err err = TV_OK;

	if (st->phase == PHASE_READ) {
		read_some(st);
		relieve(t);
		return;
	}
	if (st->phase == PHASE_CONNECT && st->bytes.state == STREAM_CUT)
		err = unreachable(st);
	else if (st->phase == PHASE_CONNECT && stream_queued(&st->bytes) == 0)
		err = TV_EUNREACH;		/* it could not be wrapped */
	else if (st->phase == PHASE_CONNECT)
		st->phase = PHASE_WRITE_REQUEST;
	if (err == TV_OK)
		err = write_some(st);
	if (err == TV_EAGAIN)
		return;
	if (err != TV_OK || st->phase == PHASE_WRITE_ANSWER) {
		exchange_end(st, NULL, err);
		return;
	}
	st->phase = PHASE_READ;
	stream_watch(&st->bytes, STREAM_READ);
}

static void
on_ready(struct stream *s, int events)
{
	struct exchange *st = (struct exchange *)(void *)((char *)s - offsetof(struct exchange, bytes));

	if (events == STREAM_LATE)
		exchange_end(st, NULL, TV_ETIMEOUT);
	else
		on_io(st);
}

/* Without its stream yet.  NULL: no memory. */
static struct exchange *
exchange_new(struct streams *t, const struct addr *peer, bool dialled)
{
	struct exchange *st = calloc(1, sizeof(*st));

	if (st == NULL)
		return NULL;
	*st = (struct exchange){ .set = t, .peer = *peer, .dialled = dialled, .next = t->first, .back = &t->first };
	if (st->next != NULL)
		st->next->back = &st->next;
	t->first = st;
	t->stats.open++;
	stream_reader_init(&st->reader, t->conf.envelope, &t->conf.limits, dialled ? STREAM_DIALLED : STREAM_ACCEPTED);
	return st;
}

static void
on_accept(void *ctx, int fd)
{
	struct streams *t = ctx;
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct addr peer = { .len = 0 };
	struct exchange *st = NULL;
	uint64_t source;

	if (getpeername(fd, (struct sockaddr *)&sa, &len) == 0)
		peer = net_addr(&sa);
	if (peer.len == 0)
		t->stats.refused++;
	else
		st = exchange_new(t, &peer, false);
	if (st == NULL) {
		close(fd);
		listener_release(t->listener);
		return;
	}
	stream_open(&st->bytes, t->conf.loop, fd, on_ready, OUT_BYTES_MAX);
	t->stats.accepted++;
	st->phase = PHASE_READ;
	source = source_of_ip(&peer);
	if (!take_place(t, &t->unread, st, source, t->conf.is_known(t->conf.ctx, source))) {
		exchange_end(st, NULL, TV_ENOMEM);
		return;
	}
	stream_deadline(&st->bytes, mono_seconds(mono_min(t->conf.timeout, FIRST_BYTES)));
	stream_watch(&st->bytes, STREAM_READ);
}

static void
connect_to(struct exchange *st)
{
	struct addr bare = addr_unmapped(st->peer);
	union addr_sock sa;

	(void)addr_to_sock(&bare, &sa);
	stream_dial(&st->bytes, st->set->conf.loop, &sa, on_ready, OUT_BYTES_MAX);
	st->walled = st->bytes.state == STREAM_CUT && st->bytes.error == EACCES;
}

void
streams_dial(struct streams *t, const struct swim_stream *want)
{
	struct mono left = mono_sub(want->deadline, clock_mono());
	struct exchange *st = exchange_new(t, &want->to, true);

	if (st == NULL)
		return;			/* the core gives up on it some time after the deadline */
	t->stats.dialled++;
	st->id = want->id;
	connect_to(st);
	wrap(st, STREAM_DIALLED, want->message);
	stream_deadline(&st->bytes, left.ns > 0 ? mono_seconds(left) : 0.);
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
		exchange_free(t->first);
	strangers_done(&t->unread);
	strangers_done(&t->answered);
	listener_free(t->listener);
	if (t->scratch != NULL)
		packet_scratch_done(t->scratch);
	free(t->scratch);
	free(t);
}
