/*
 * Framed channel: birth, sending, death.  The socket side is in chan_io.c, the Noise
 * side in chan_noise.c.
 *
 * A channel is freed only from the loop, or by chan_free() while none of its callbacks
 * run, so a handler may close any channel, its own included, at any moment.
 */
#include "config.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/base/addr.h"
#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/log_repeats.h"
#include "common/net/chan_int.h"
#include "common/net/msg.h"
#include "common/net/source.h"

#define OPEN_TIMEOUT_DEFAULT MONO_S(5)
/* A vanished TCP peer is noticed within about 15 seconds. */
#define TCP_KEEP_IDLE_S 6
#define TCP_KEEP_EVERY_S 3
#define TCP_KEEP_COUNT 3
#define TCP_UNACKED_MS_MAX 15000
/*
 * Resends back off no further than this, so that a link is back soon after a cut that it outlived.  Without it (before
 * Linux 6.15) that takes up to as long as the cut did.
 */
#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif
#define TCP_RESEND_MS_MAX 1000

static void
set_tcp_options(int fd)
{
	const struct { int level, name, value; } opts[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, TCP_KEEP_IDLE_S },
		{ IPPROTO_TCP, TCP_KEEPINTVL, TCP_KEEP_EVERY_S },
		{ IPPROTO_TCP, TCP_KEEPCNT, TCP_KEEP_COUNT },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, TCP_UNACKED_MS_MAX },
		{ IPPROTO_TCP, TCP_RTO_MAX_MS, TCP_RESEND_MS_MAX },
	};

	/* Tuning: the link works, if less well, without any of them. */
	for (size_t i = 0; i < sizeof(opts) / sizeof(opts[0]); i++)
		(void)setsockopt(fd, opts[i].level, opts[i].name, &opts[i].value, sizeof(int));
}

static void
set_peer(struct chan *c, const struct sockaddr *sa)
{
	struct addr a = addr_of_sock(sa);
	char text[ADDR_TEXT_BYTES];

	snprintf(c->peer, sizeof(c->peer), "%s", a.len > 0 ? addr_text(&a, text) : "unix");
	c->source = source_of_ip(&a);
}

static void
learn_peer(struct chan *c, int fd)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);
	int family = AF_UNIX;
	socklen_t family_len = sizeof(family);

	(void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &family_len);
	if (family != AF_UNIX)
		set_tcp_options(fd);
	if (getpeername(fd, (struct sockaddr *)&sa, &len) == 0 || family == AF_UNIX)
		set_peer(c, (const struct sockaddr *)&sa);
	else
		snprintf(c->peer, sizeof(c->peer), "?");
}

typedef void log_fn(const char *tag, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Logs what the peer did: the same about one source once a minute, and all of it together at a limited rate. */
static void
log_peer(const struct chan *c, log_fn *log, const char *text)
{
	static struct log_limit limit = { .burst = 20, .period = { 10000000000 } };
	static struct log_repeats repeats = { .period = { 60000000000 } };
	struct mono now = clock_mono();
	char line[512], again[64] = "";
	int n = snprintf(line, sizeof(line), "%llx %s %s", (unsigned long long)c->source, text, c->name);
	uint64_t key = keyed_hash(line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
	unsigned suppressed;

	/* The budget is for the whole process: strangers must not be able to fill the log. */
	if (!log_repeats_due(&repeats, key, now) || !log_allow(&limit, "net"))
		return;
	suppressed = log_repeats_logged(&repeats, key, now);
	if (suppressed > 0)
		snprintf(again, sizeof(again), " (%u more times)", suppressed);
	log("net", "%s: %s %s%s", c->name, c->peer, text, again);
}

struct chan *
chan_new(int fd, const struct chan_conf *conf)
{
	struct chan *c = calloc(1, sizeof(*c));

	TV_ASSERT(conf->events->on_frame != NULL && conf->events->on_close != NULL);
	if (c == NULL || (c->name = strdup(conf->name)) == NULL)
		goto fail;
	c->loop = conf->loop;
	c->events = conf->events;
	c->ctx = conf->ctx;
	c->body_max = conf->body_max < FRAME_BODY_BYTES_MAX ? conf->body_max : FRAME_BODY_BYTES_MAX;
	c->out_max = conf->out_max;
	c->open_timeout = conf->open_timeout.ns > 0 ? conf->open_timeout : OPEN_TIMEOUT_DEFAULT;
	if (!conf->initiator && mono_before(conf->first_timeout, c->open_timeout))
		c->first_timeout = conf->first_timeout;
	c->initiator = conf->initiator;
	c->accept_clear = conf->accept_clear && !conf->initiator;
	c->psk = conf->psk;
	c->secret = conf->secret;
	/* Room for one frame, and for what one read or one sealed message brings beyond it. */
	buf_init(&c->in, FRAME_HEAD_BYTES + c->body_max + 4 * CHAN_READ_BYTES);
	/* Bytes already written are dropped once they are the larger half: twice out_max. */
	buf_init(&c->out, 2 * c->out_max + CHAN_READ_BYTES);
	c->in.secret = c->out.secret = c->secret;
	if (conf->noise != NULL && chan_noise_new(c, conf->noise) != TV_OK)
		goto fail;
	learn_peer(c, fd);
	chan_io_start(c, fd);
	return c;
fail:
	if (c != NULL)
		free(c->name);
	free(c);
	close(fd);
	errno = ENOMEM;
	return NULL;
}

/* A non-blocking connect has begun (or succeeded); fd is closed on failure. */
static struct chan *
dial(int fd, const struct sockaddr *sa, socklen_t len, const struct chan_conf *conf)
{
	struct chan *c;
	int saved;

	if (fd < 0)
		return NULL;
	if (connect(fd, sa, len) < 0 && errno != EINPROGRESS) {
		saved = errno;
		close(fd);
		errno = saved;
		return NULL;
	}
	c = chan_new(fd, conf);
	if (c != NULL)
		set_peer(c, sa);
	return c;
}

struct chan *
chan_dial_unix(const char *path, const struct chan_conf *conf)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(sun.sun_path)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	memcpy(sun.sun_path, path, strlen(path) + 1);
	return dial(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), (struct sockaddr *)&sun,
	    sizeof(sun), conf);
}

struct chan *
chan_dial_tcp(const char *ip, uint16_t port, const struct chan_conf *conf)
{
	union addr_sock to;
	socklen_t len = addr_parse_sock(ip, port, &to);

	if (len == 0)
		return NULL;
	return dial(socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), &to.any, len, conf);
}

/* -- sending -------------------------------------------------------------- */

size_t
chan_pending(const struct chan *c)
{
	return c->out.len - c->out_at + c->pieces_left + (c->noise != NULL ? chan_noise_pending(c->noise) : 0);
}

uint64_t
chan_mark(const struct chan *c)
{
	return c->out_before + c->out.len + c->pieces_gone + c->pieces_left + 1;
}

/* Bytes that left for the socket, or to be sealed for it. */
static uint64_t
gone(const struct chan *c)
{
	return c->out_before + c->out_at + c->pieces_gone;
}

bool
chan_passed(const struct chan *c, uint64_t mark)
{
	return gone(c) + 1 >= mark;
}

uint64_t
chan_signs(const struct chan *c)
{
	/* Below that it may be the kernel alone that takes it. */
	bool crowded = chan_pending(c) > CHAN_EARLY_FLUSH_BYTES;

	return c->in_total + (crowded ? gone(c) : 0);
}

static void
piece_free(struct chan_piece *p)
{
	if (p != NULL)
		buf_done(&p->memory);
	free(p);
}

/* Behind all that waits. */
static void
add_piece(struct chan *c, struct chan_piece *p)
{
	p->at = c->out_before + c->out.len;
	if (c->pieces == NULL)
		c->pieces = p;
	else
		c->last_piece->next = p;
	c->last_piece = p;
	c->pieces_left += p->left.len;
}

static void
drop_first_piece(struct chan *c)
{
	struct chan_piece *p = c->pieces;

	c->pieces = p->next;
	piece_free(p);
}

struct span
chan_next(const struct chan *c)
{
	uint64_t at = c->out_before + c->out_at;
	const struct chan_piece *p = c->pieces;

	if (p != NULL && p->at == at)
		return p->left;
	return span_of(c->out.data + c->out_at, p != NULL ? (size_t)(p->at - at) : c->out.len - c->out_at);
}

void
chan_taken(struct chan *c, size_t n)
{
	struct chan_piece *p = c->pieces;

	if (p == NULL || p->at != c->out_before + c->out_at) {
		c->out_at += n;
		return;
	}
	p->left = span_of(p->left.p + n, p->left.len - n);
	c->pieces_left -= n;
	c->pieces_gone += n;
	if (p->left.len == 0)
		drop_first_piece(c);
}

struct buf *
chan_begin(struct chan *c, uint16_t type, uint16_t flags, uint64_t id)
{
	if (c->state >= CHAN_CLOSING)
		return NULL;
	if (c->out.len == 0 && c->out.cap < c->out_hint)
		(void)buf_room(&c->out, c->out_hint);
	c->frame_at = c->out.len;
	(void)frame_open(&c->out, type, flags, id);
	return &c->out;
}

/* Of a frame whose body is all in `out`, or goes on in this piece. */
static enum tv_err
end_frame(struct chan *c, struct chan_piece *p)
{
	char text[80];

	frame_close_with(&c->out, c->frame_at, p == NULL ? 0 : p->left.len);
	if (c->out.failed) {
		c->out.len = c->frame_at;
		c->out.failed = false;
		piece_free(p);
	} else {
		if (p != NULL)
			add_piece(c, p);
		if (chan_pending(c) > CHAN_EARLY_FLUSH_BYTES && (c->bytes.wanted & STREAM_WRITE) == 0)
			chan_io_flush(c);
		if (c->state >= CHAN_CLOSING)
			return TV_ECLOSED;
		if (chan_pending(c) <= c->out_max) {
			chan_io_soon(c);
			return TV_OK;
		}
	}
	snprintf(text, sizeof(text), "too slow: more than %zu bytes are queued; closing", c->out_max);
	log_peer(c, log_warn, text);
	chan_close(c, TV_ELIMIT);
	return TV_ELIMIT;
}

enum tv_err
chan_end(struct chan *c)
{
	return c->state >= CHAN_CLOSING ? TV_ECLOSED : end_frame(c, NULL);
}

enum tv_err
chan_end_with(struct chan *c, struct buf *memory, struct span bytes)
{
	struct chan_piece *p = NULL;

	memory->secret |= c->secret;
	if (c->state < CHAN_CLOSING && bytes.len > CHAN_ADOPT_BYTES && (p = calloc(1, sizeof(*p))) != NULL) {
		p->memory = *memory;
		p->left = bytes;
		*memory = BUF_INIT(memory->max);
		return end_frame(c, p);
	}
	if (c->state < CHAN_CLOSING)
		buf_putspan(&c->out, bytes);
	buf_done(memory);
	return chan_end(c);
}

enum tv_err
chan_send_record(struct chan *c, uint16_t type, uint64_t id, const struct schema *record, const void *rec)
{
	struct buf *b = chan_begin(c, type, 0, id);

	if (b == NULL)
		return TV_ECLOSED;
	schema_pack(record, rec, b);
	return chan_end(c);
}

enum tv_err
chan_answer(struct chan *c, uint16_t type, uint64_t id, enum tv_err err, const char *text, const struct schema *record,
    const void *rec)
{
	struct buf *b = id != 0 ? chan_begin(c, type, FRAME_REPLY, id) : NULL;

	if (b == NULL)
		return id != 0 ? TV_ECLOSED : TV_OK;
	msg_answer_write(b, err, text, record, rec);
	return chan_end(c);
}

enum tv_err
chan_send(struct chan *c, uint16_t type, uint16_t flags, uint64_t id, struct span body)
{
	struct buf *b = chan_begin(c, type, flags, id);

	if (b == NULL)
		return TV_ECLOSED;
	buf_putspan(b, body);
	return chan_end(c);
}

/* -- life ------------------------------------------------------------------- */

void
chan_up(struct chan *c)
{
	c->state = CHAN_OPEN;
	c->opened = true;
	if (c->first_timeout.ns == 0 || c->in_total > 0)
		stream_deadline(&c->bytes, -1);
	if (!c->paused)
		chan_io_watch(c, STREAM_READ, true);
	if (c->out.len > 0)		/* each frame has its head there */
		chan_io_soon(c);
	c->busy++;
	if (c->events->on_open != NULL)
		c->events->on_open(c->ctx, c);
	c->busy--;
}

void
chan_close(struct chan *c, enum tv_err why)
{
	if (c->state >= CHAN_CLOSING)
		return;
	c->state = CHAN_CLOSING;
	c->why = why;
	stream_watch(&c->bytes, 0);
	stream_deadline(&c->bytes, -1);
	chan_io_soon(c);
}

static void
release(struct chan *c)
{
	chan_io_stop(c);
	buf_done(&c->in);
	buf_done(&c->out);
	while (c->pieces != NULL)
		drop_first_piece(c);
	if (c->noise != NULL)
		chan_noise_free(c->noise);
	free(c->name);
	free(c);
}

void
chan_finish(struct chan *c)
{
	TV_ASSERT(c->state == CHAN_CLOSING && c->busy == 0);
	chan_io_flush(c);
	c->state = CHAN_CLOSED;
	log_debug("net", "%s: %s closed: %s", c->name, c->peer, tv_strerror(c->why));
	c->events->on_close(c->ctx, c, c->why);
	release(c);
}

static enum tv_err
deaf_frame(void *ctx UNUSED, struct chan *c UNUSED, const struct frame *f UNUSED)
{
	return TV_ECLOSED;
}

static void
deaf_close(void *ctx UNUSED, struct chan *c UNUSED, enum tv_err why UNUSED)
{
}

void
chan_free(struct chan *c)
{
	static const struct chan_events deaf = { deaf_frame, NULL, deaf_close };

	if (c == NULL || c->state == CHAN_CLOSED)
		return;
	c->events = &deaf;
	chan_close(c, TV_ECLOSED);
	if (c->busy > 0)
		return;			/* the loop does the rest */
	chan_io_flush(c);
	release(c);
}

void
chan_refuse(struct chan *c, enum tv_err why, const char *text)
{
	char what[256];

	if (c->state < CHAN_CLOSING) {
		snprintf(what, sizeof(what), "%s; closing", text);
		log_peer(c, log_warn, what);
	}
	chan_close(c, why);
}

void
chan_fail_sys(struct chan *c, const char *what, int error)
{
	char text[256];

	if (error == ECONNRESET || error == EPIPE) {
		chan_close(c, TV_ECLOSED);
		return;
	}
	snprintf(text, sizeof(text), "failed: %s: %s", what, strerror(error));
	log_peer(c, log_info, text);
	chan_close(c, error == ETIMEDOUT ? TV_ETIMEOUT : TV_ESYS);
}

/* -- small ones --------------------------------------------------------------- */

void
chan_pause(struct chan *c, bool paused)
{
	if (c->paused == paused)
		return;
	c->paused = paused;
	if (c->state != CHAN_OPEN)
		return;
	chan_io_watch(c, STREAM_READ, !paused);
	if (!paused && c->held)
		stream_wake(&c->bytes);
}

bool
chan_is_open(const struct chan *c)
{
	return c->state == CHAN_OPEN;
}

enum tv_err
chan_peercred(const struct chan *c, uid_t *uid, pid_t *pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	/* A TCP socket answers too, with uid -1: only a real peer has a pid. */
	if (getsockopt(c->bytes.fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.uid == (uid_t)-1)
		return TV_ESYS;
	if (uid != NULL)
		*uid = cred.uid;
	if (pid != NULL)
		*pid = cred.pid;
	return TV_OK;
}

const char *
chan_peer(const struct chan *c)
{
	return c->peer;
}
