/* HTTP/2 as a server speaks it.  See h2_session.h. */
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/assert.h"
#include "rpcd/http/h2_head.h"
#include "rpcd/http/h2_session.h"

/* Of one connection: at once, and then in each second. */
#define RESETS_BURST 1000		/* of streams: a page that is closed, a proxy whose clients leave */
#define RESETS_PER_S 100
#define EMPTY_BURST 10000		/* frames that carry nothing */
#define EMPTY_PER_S 1000
#define CREDIT 2			/* such frames more for each one that carries something */
#define ACKS_MAX 1000			/* of SETTINGS and PING, waiting to be written */
#define SETTINGS_MAX 32			/* in one frame */
#define CONTINUATIONS_MAX 8		/* behind a head's first frame */
#define QUEUE_MAX 2000			/* frames that wait to be written: then nothing is read */
#define DROPPED_MAX (1u << 20)		/* bytes of a request that are read behind its answer */
#define NAMES_BYTES 2048		/* of an answer's fields */
#define GOAWAY_BYTES 17

/* What may be spent: a burst, which comes back with time. */
struct budget {
	uint32_t left;
	struct mono since;
};

struct h2 {
	struct h2_conf conf;
	struct h2_stats stats;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	struct h2_head *spare;		/* most heads come whole: one is enough for all connections */
	unsigned sessions;
};

struct piece;

struct h2_session {
	struct h2 *h2;
	void *ctx;
	nghttp2_session *ng;
	LIST_HEAD(, h2_stream) streams;
	unsigned count;			/* of them */
	struct h2_head *head;		/* on its way; NULL: none is */
	int32_t head_id;		/* its stream */
	unsigned continuations;		/* in a row */
	size_t unpacked;		/* bytes of a trailer on its way, with 32 for each field */
	struct mono now;
	struct budget resets, empty;
	unsigned resets_burst;
	const uint8_t *frame;		/* of ng, being written */
	size_t frame_left;
	uint8_t goaway[GOAWAY_BYTES];	/* the last frame, if libnghttp2 is not to be used any more */
	size_t goaway_left;
	bool dead;			/* then */
	LIST_HEAD(, piece) pieces;	/* its memory */
	bool poor;			/* some was refused */
	bool left;			/* the peer has said GOAWAY */
	bool quiet, quiet_told;		/* h2_quiesce(); the peer has answered to it */
};

/* -- memory ------------------------------------------------------------------ */

/*
 * All of libnghttp2's memory for a session is in a list.  After an allocation has failed it is not used any more, not
 * even to be ended: some of its ways out free twice (1.52: nghttp2_submit_data() without priorities).  What tokens went
 * through is wiped.
 */
struct piece {
	LIST_ENTRY(piece) all;
	size_t bytes;
	_Alignas(16) uint8_t data[];
};

static void *
ng_malloc(size_t n, void *ctx)
{
	struct h2_session *s = ctx;
	struct piece *p = n > SIZE_MAX - sizeof(*p) ? NULL : malloc(sizeof(*p) + n);

	if (p == NULL) {
		s->poor = true;
		return NULL;
	}
	p->bytes = n;
	LIST_INSERT_HEAD(&s->pieces, p, all);
	return p->data;
}

static void *
ng_calloc(size_t n, size_t size, void *ctx)
{
	void *p = size > 0 && n > SIZE_MAX / size ? NULL : ng_malloc(n * size, ctx);

	if (p != NULL)
		memset(p, 0, n * size);
	return p;
}

static void
piece_free(struct piece *p)
{
	LIST_REMOVE(p, all);
	explicit_bzero(p->data, p->bytes);
	free(p);
}

static struct piece *
piece_of(void *data)
{
	return (struct piece *)(void *)((uint8_t *)data - offsetof(struct piece, data));
}

static void
ng_free(void *data, void *ctx)
{
	const struct h2_session *s = ctx;

	if (data != NULL && !s->poor)
		piece_free(piece_of(data));
}

static void *
ng_realloc(void *data, size_t n, void *ctx)
{
	size_t old = data == NULL ? 0 : piece_of(data)->bytes;
	void *fresh = ng_malloc(n, ctx);

	if (fresh == NULL)
		return NULL;
	if (data != NULL)
		memcpy(fresh, data, old < n ? old : n);
	ng_free(data, ctx);
	return fresh;
}

static void
free_pieces(struct h2_session *s)
{
	if (!s->poor)
		nghttp2_session_del(s->ng);
	while (!LIST_EMPTY(&s->pieces))
		piece_free(LIST_FIRST(&s->pieces));
}

/* -- budgets -------------------------------------------------------------------- */

static bool
budget_spend(struct budget *b, struct mono now, uint32_t burst, uint32_t per_s)
{
	int64_t each = 1000000000 / per_s, come = mono_sub(now, b->since).ns / each;

	if (come > 0) {
		b->left = come > burst - b->left ? burst : b->left + (uint32_t)come;
		b->since.ns += come * each;
	}
	if (b->left == 0)
		return false;
	b->left--;
	return true;
}

static void
give_credit(struct h2_session *s)
{
	s->empty.left = s->empty.left > EMPTY_BURST - CREDIT ? EMPTY_BURST : s->empty.left + CREDIT;
}

/* -- the end ------------------------------------------------------------------------ */

/* The connection ends.  libnghttp2 is not asked any more: it may be in a callback, or without memory. */
static void
end_session(struct h2_session *s, enum h2_error why)
{
	uint32_t last = (uint32_t)nghttp2_session_get_last_proc_stream_id(s->ng), code = (uint32_t)why;

	if (s->dead)
		return;
	s->dead = true;
	memcpy(s->goaway, "\0\0\10\7\0\0\0\0\0", 9);		/* eight bytes for the whole connection */
	for (int i = 0; i < 4; i++) {
		s->goaway[9 + i] = (uint8_t)(last >> (24 - 8 * i));
		s->goaway[13 + i] = (uint8_t)(code >> (24 - 8 * i));
	}
	s->goaway_left = GOAWAY_BYTES;
}

/* May libnghttp2 be called? */
static bool
is_usable(struct h2_session *s)
{
	if (s->poor)
		end_session(s, H2_INTERNAL_ERROR);
	return !s->dead;
}

static int
end_counted(struct h2_session *s, uint64_t *counter)
{
	if (!s->dead)
		(*counter)++;
	end_session(s, H2_ENHANCE_YOUR_CALM);
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* A stream was reset: by the peer, or by us since it broke a rule, which costs us as much. */
static int
count_reset(struct h2_session *s)
{
	s->h2->stats.resets++;
	return budget_spend(&s->resets, s->now, s->resets_burst, RESETS_PER_S) ? 0 :
	    end_counted(s, &s->h2->stats.rapid_resets);
}

/* -- streams ---------------------------------------------------------------------------- */

static struct h2_stream *
stream_of(struct h2_session *s, int32_t id)
{
	return nghttp2_session_get_stream_user_data(s->ng, id);
}

static bool
stream_begin(struct h2_session *s, int32_t id)
{
	struct h2_stream *st = calloc(1, s->h2->conf.stream_bytes);

	if (st == NULL || nghttp2_session_set_stream_user_data(s->ng, id, st) != 0) {
		free(st);
		s->h2->stats.refused++;
		return false;
	}
	st->session = s;
	st->id = id;
	LIST_INSERT_HEAD(&s->streams, st, all);
	s->count++;
	s->h2->stats.streams++;
	return true;
}

static void
drop_kept(struct h2_stream *st)
{
	if (st->kept != NULL)
		explicit_bzero(st->kept, st->kept_len);
	free(st->kept);
	st->kept = NULL;
	st->kept_len = st->kept_at = st->kept_cap = 0;
}

static void
stream_end(struct h2_stream *st)
{
	struct h2_session *s = st->session;

	if (st->begun)
		s->h2->conf.calls->closed(s->ctx, st, st->sent);
	LIST_REMOVE(st, all);
	s->count--;
	drop_kept(st);
	free(st);
}

/* -- bodies --------------------------------------------------------------------------------- */

static void
tell_body_end(struct h2_stream *st)
{
	if (!st->ended || st->told || st->kept != NULL)
		return;
	st->told = true;
	st->session->h2->conf.calls->body_end(st->session->ctx, st);
}

/* Room for n bytes more, and for as many again: they may come in small frames.  False: no memory. */
static bool
keep_more(struct h2_stream *st, size_t n)
{
	size_t left = st->kept_len - st->kept_at, cap = 2 * (left + n);
	uint8_t *fresh;

	/* Within the window of the stream, which libnghttp2 holds the peer to. */
	if (cap > H2_STREAM_WINDOW)
		cap = left + n > H2_STREAM_WINDOW ? left + n : H2_STREAM_WINDOW;
	fresh = malloc(cap);
	if (fresh == NULL)
		return false;
	if (st->kept != NULL)
		memcpy(fresh, st->kept + st->kept_at, left);
	drop_kept(st);
	st->kept = fresh;
	st->kept_len = (uint32_t)left;
	st->kept_cap = (uint32_t)cap;
	return true;
}

/* False: no memory. */
static bool
keep_rest(struct h2_stream *st, const uint8_t *bytes, size_t n)
{
	if (n == 0)
		return true;
	if (n > st->kept_cap - st->kept_len && !keep_more(st, n))
		return false;
	memcpy(st->kept + st->kept_len, bytes, n);
	st->kept_len += (uint32_t)n;
	return true;
}

static size_t
offer_body(struct h2_stream *st, const uint8_t *bytes, size_t n)
{
	struct h2_session *s = st->session;
	bool drop = !st->begun || st->sent;
	size_t took = drop ? n : s->h2->conf.calls->body(s->ctx, st, bytes, n);

	TV_ASSERT(took <= n);
	/* Fails without memory only, and then the next use of the session does. */
	if (took > 0 && is_usable(s))
		(void)nghttp2_session_consume(s->ng, st->id, took);
	return took;
}

/*
 * The answer has left, and the request has not come whole.  Some clients would not show the answer if the stream was
 * reset at once (RFC 9113, 8.1 allows that): they are given some bytes, and their owner's deadline, to notice it.
 */
static void
drop_late_body(struct h2_stream *st, size_t n)
{
	bool was_enough = st->dropped > DROPPED_MAX;

	st->dropped += (uint32_t)n;
	if (st->dropped > DROPPED_MAX && !was_enough)
		h2_reset(st, H2_NO_ERROR);
}

void
h2_body_ready(struct h2_stream *st)
{
	if (st->kept != NULL && !st->offering) {
		st->offering = true;
		st->kept_at += (uint32_t)offer_body(st, st->kept + st->kept_at, st->kept_len - st->kept_at);
		st->offering = false;
		if (st->kept_at == st->kept_len)
			drop_kept(st);
	}
	tell_body_end(st);
}

static int
on_body(nghttp2_session *ng UNUSED, uint8_t flags UNUSED, int32_t id, const uint8_t *bytes, size_t n, void *ctx)
{
	struct h2_session *s = ctx;
	struct h2_stream *st = stream_of(s, id);
	size_t took = 0;

	give_credit(s);
	if (st == NULL) {
		(void)nghttp2_session_consume(s->ng, id, n);
		return 0;
	}
	if (st->kept == NULL)
		took = offer_body(st, bytes, n);
	if (st->sent)
		drop_late_body(st, n);
	return keep_rest(st, bytes + took, n - took) ? 0 : NGHTTP2_ERR_NOMEM;
}

/* -- heads ---------------------------------------------------------------------------------- */

static void
head_release(struct h2_session *s)
{
	struct h2 *h = s->h2;

	if (s->head == NULL)
		return;
	if (h->spare == NULL) {
		h2_head_begin(s->head, h->conf.head_bytes_max);		/* wiped */
		h->spare = s->head;
	} else {
		h2_head_free(s->head);
	}
	s->head = NULL;
}

static int
on_begin_headers(nghttp2_session *ng UNUSED, const nghttp2_frame *frame, void *ctx)
{
	struct h2_session *s = ctx;

	s->unpacked = 0;
	/* libnghttp2 reads nothing more then, but from the same buffer. */
	if (s->left && s->count == 0) {
		end_session(s, H2_NO_ERROR);
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;		/* a trailer */
	head_release(s);
	s->head_id = frame->hd.stream_id;
	s->head = s->h2->spare != NULL ? s->h2->spare : h2_head_new(s->h2->conf.head_bytes_max);
	s->h2->spare = NULL;
	if (s->head == NULL) {
		s->h2->stats.refused++;
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	return stream_begin(s, frame->hd.stream_id) ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int
on_header(nghttp2_session *ng UNUSED, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
    const uint8_t *value, size_t value_len, uint8_t flags UNUSED, void *ctx)
{
	struct h2_session *s = ctx;

	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST || s->head == NULL) {
		s->unpacked += name_len + value_len + 32;
		return s->unpacked <= 4 * s->h2->conf.head_bytes_max ? 0 : end_counted(s, &s->h2->stats.bombs);
	}
	return h2_head_field(s->head, span_of(name, name_len), span_of(value, value_len)) ? 0 :
	    end_counted(s, &s->h2->stats.bombs);
}

/* Left alone, libnghttp2 would take the request without the field: another reader may have read it otherwise. */
static int
on_invalid_header(nghttp2_session *ng UNUSED, const nghttp2_frame *frame UNUSED, const uint8_t *name UNUSED,
    size_t name_len UNUSED, const uint8_t *value UNUSED, size_t value_len UNUSED, uint8_t flags UNUSED,
    void *ctx UNUSED)
{
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int
finish_head(struct h2_session *s, struct h2_stream *st, bool body)
{
	struct h2_head *head = s->head;
	enum http_scanned what = h2_head_end(head, body);

	if (what == HTTP_MORE) {
		head_release(s);
		return NGHTTP2_ERR_NOMEM;
	}
	s->head = NULL;			/* while it is looked at, another connection's may become the spare */
	st->begun = true;
	st->ended = st->told = !body;
	s->h2->conf.calls->request(s->ctx, st, what, &head->scanned, head->text.data, body);
	s->head = head;
	head_release(s);
	return 0;
}

/* -- frames --------------------------------------------------------------------------------------- */

static bool
ends_stream(const nghttp2_frame *frame)
{
	return (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
}

static int
on_begin_frame(nghttp2_session *ng UNUSED, const nghttp2_frame_hd *hd, void *ctx)
{
	struct h2_session *s = ctx;

	s->continuations = hd->type == NGHTTP2_CONTINUATION ? s->continuations + 1 : 0;
	if (s->continuations > CONTINUATIONS_MAX)
		return end_counted(s, &s->h2->stats.floods);
	/* DATA gets it back with its first byte. */
	if (hd->type == NGHTTP2_HEADERS || hd->type == NGHTTP2_RST_STREAM ||
	    (hd->type == NGHTTP2_DATA && (hd->flags & NGHTTP2_FLAG_END_STREAM) != 0))
		return 0;
	return budget_spend(&s->empty, s->now, EMPTY_BURST, EMPTY_PER_S) ? 0 : end_counted(s, &s->h2->stats.floods);
}

static int
on_frame(nghttp2_session *ng UNUSED, const nghttp2_frame *frame, void *ctx)
{
	struct h2_session *s = ctx;
	struct h2_stream *st;

	switch (frame->hd.type) {
	case NGHTTP2_RST_STREAM:
		return count_reset(s);
	case NGHTTP2_GOAWAY:
		s->left = true;
		return 0;
	case NGHTTP2_PING:
		if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0 && s->quiet && !s->quiet_told) {
			s->quiet_told = true;
			return nghttp2_submit_goaway(s->ng, NGHTTP2_FLAG_NONE,
			    nghttp2_session_get_last_proc_stream_id(s->ng), NGHTTP2_NO_ERROR, NULL, 0) == 0 ? 0 :
			    NGHTTP2_ERR_NOMEM;
		}
		return 0;
	case NGHTTP2_HEADERS:
	case NGHTTP2_DATA:
		st = stream_of(s, frame->hd.stream_id);
		if (st == NULL)
			return 0;
		if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
			return finish_head(s, st, !ends_stream(frame));
		st->ended = st->ended || ends_stream(frame);
		tell_body_end(st);
		return 0;
	default:
		return 0;
	}
}

static int
on_frame_sent(nghttp2_session *ng UNUSED, const nghttp2_frame *frame, void *ctx)
{
	struct h2_session *s = ctx;
	struct h2_stream *st;

	switch (frame->hd.type) {
	case NGHTTP2_RST_STREAM:
		if (frame->rst_stream.error_code == NGHTTP2_REFUSED_STREAM)
			s->h2->stats.refused++;
		return frame->rst_stream.error_code == NGHTTP2_NO_ERROR ? 0 : count_reset(s);
	case NGHTTP2_GOAWAY:
		s->h2->stats.broken += frame->goaway.error_code != NGHTTP2_NO_ERROR;
		return 0;
	case NGHTTP2_DATA:
		give_credit(s);
		/* FALLTHROUGH */
	case NGHTTP2_HEADERS:
		st = stream_of(s, frame->hd.stream_id);
		if (st == NULL || !ends_stream(frame))
			return 0;
		st->sent = true;
		h2_body_ready(st);		/* drops it */
		return 0;
	default:
		return 0;
	}
}

static int
on_close(nghttp2_session *ng UNUSED, int32_t id, uint32_t code UNUSED, void *ctx)
{
	struct h2_session *s = ctx;
	struct h2_stream *st = stream_of(s, id);

	if (s->head != NULL && s->head_id == id)
		head_release(s);	/* it was refused, whole or not */
	if (st == NULL)
		return 0;
	if (st->kept != NULL)
		(void)nghttp2_session_consume_connection(s->ng, st->kept_len - st->kept_at);
	stream_end(st);
	return 0;
}

/* -- answers ---------------------------------------------------------------------------------------- */

static ssize_t
on_read(nghttp2_session *ng UNUSED, int32_t id, uint8_t *dst, size_t room, uint32_t *flags,
    nghttp2_data_source *source UNUSED, void *ctx)
{
	struct h2_session *s = ctx;
	struct h2_stream *st = stream_of(s, id);
	bool end = false;
	ssize_t n = st == NULL ? -1 : s->h2->conf.calls->read(s->ctx, st, dst, room, &end);

	if (n < 0)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	TV_ASSERT((size_t)n <= room);
	if (n == 0 && !end)
		return NGHTTP2_ERR_DEFERRED;
	if (end)
		*flags |= NGHTTP2_DATA_FLAG_EOF | (st->trailer ? NGHTTP2_DATA_FLAG_NO_END_STREAM : 0);
	return n;
}

/* One field of an answer; its name is written to `names`, in lower case.  False: it is left out. */
static bool
take_field(struct span line, nghttp2_nv *nv, uint8_t *names, size_t room)
{
	static const char *const framing[] = { "connection", "keep-alive", "transfer-encoding", "upgrade" };
	const uint8_t *colon = memchr(line.p, ':', line.len);
	size_t n = colon == NULL ? 0 : (size_t)(colon - line.p), at = n + 1;

	if (n == 0 || n > room)
		return false;
	for (size_t i = 0; i < n; i++)
		names[i] = ascii_lower(line.p[i]);
	for (size_t i = 0; i < sizeof(framing) / sizeof(framing[0]); i++)
		if (span_eqs(span_of(names, n), framing[i]))
			return false;
	while (at < line.len && line.p[at] == ' ')
		at++;
	*nv = (nghttp2_nv){ names, (uint8_t *)(uintptr_t)line.p + at, n, line.len - at, NGHTTP2_NV_FLAG_NONE };
	return true;
}

static struct span
next_line(struct span *rest)
{
	const uint8_t *cr = rest->len == 0 ? NULL : memmem(rest->p, rest->len, "\r\n", 2);
	struct span line = span_of(rest->p, cr == NULL ? rest->len : (size_t)(cr - rest->p));
	size_t gone = cr == NULL ? rest->len : line.len + 2;

	*rest = span_of(rest->p + gone, rest->len - gone);
	return line;
}

/* As many as there are lines before an empty one. */
static size_t
take_fields(struct span lines, nghttp2_nv *nv, size_t max, uint8_t names[NAMES_BYTES])
{
	size_t count = 0, used = 0;

	while (lines.len > 0 && count < max) {
		struct span line = next_line(&lines);

		if (line.len == 0)
			break;
		if (take_field(line, &nv[count], names + used, NAMES_BYTES - used))
			used += nv[count++].namelen;
	}
	return count;
}

bool
h2_answer(struct h2_stream *st, struct span head, bool body)
{
	static uint8_t status_name[] = ":status";
	nghttp2_nv nv[1 + H2_FIELDS_MAX];
	nghttp2_data_provider from = { .read_callback = on_read };
	uint8_t names[NAMES_BYTES];
	struct span rest = head, line = next_line(&rest);
	size_t count;

	TV_ASSERT(!st->answered && line.len >= 12);
	st->answered = true;
	if (!is_usable(st->session))
		return true;
	nv[0] = (nghttp2_nv){ status_name, (uint8_t *)(uintptr_t)line.p + 9, sizeof(status_name) - 1, 3,
	    NGHTTP2_NV_FLAG_NONE };
	count = 1 + take_fields(rest, nv + 1, H2_FIELDS_MAX, names);
	return nghttp2_submit_response(st->session->ng, st->id, nv, count, body ? &from : NULL) == 0;
}

void
h2_trailer(struct h2_stream *st, struct span lines)
{
	nghttp2_nv nv[H2_FIELDS_MAX];
	uint8_t names[NAMES_BYTES];
	size_t count = take_fields(lines, nv, H2_FIELDS_MAX, names);

	if (count > 0 && is_usable(st->session) && nghttp2_submit_trailer(st->session->ng, st->id, nv, count) == 0)
		st->trailer = true;
}

void
h2_continue(struct h2_stream *st)
{
	static uint8_t name[] = ":status", value[] = "100";
	nghttp2_nv nv = { name, value, sizeof(name) - 1, sizeof(value) - 1, NGHTTP2_NV_FLAG_NONE };

	/* Without memory the client waits for a moment, and goes on without it. */
	if (is_usable(st->session))
		(void)nghttp2_submit_headers(st->session->ng, NGHTTP2_FLAG_NONE, st->id, NULL, &nv, 1, NULL);
}

void
h2_answer_ready(struct h2_stream *st)
{
	if (is_usable(st->session))
		(void)nghttp2_session_resume_data(st->session->ng, st->id);	/* fails if it does not wait */
}

void
h2_reset(struct h2_stream *st, enum h2_error why)
{
	struct h2_session *s = st->session;

	if (is_usable(s) && nghttp2_submit_rst_stream(s->ng, NGHTTP2_FLAG_NONE, st->id, (uint32_t)why) != 0)
		end_session(s, H2_INTERNAL_ERROR);
}

/* -- bytes ---------------------------------------------------------------------------------------------- */

bool
h2_input(struct h2_session *s, const uint8_t *bytes, size_t n, struct mono now)
{
	ssize_t took;

	if (!is_usable(s))
		return false;
	s->now = now;
	took = nghttp2_session_mem_recv(s->ng, bytes, n);
	if (took >= 0 || !is_usable(s))
		return is_usable(s);
	if (took == NGHTTP2_ERR_FLOODED) {
		(void)end_counted(s, &s->h2->stats.floods);
	} else if (took == NGHTTP2_ERR_BAD_CLIENT_MAGIC) {
		s->h2->stats.broken++;
		end_session(s, H2_PROTOCOL_ERROR);
		s->goaway_left = 0;	/* it does not speak HTTP/2 */
	} else {
		end_session(s, H2_INTERNAL_ERROR);
	}
	return false;
}

/* More bytes to be written.  False: none now. */
static bool
next_frame(struct h2_session *s)
{
	ssize_t n = !is_usable(s) ? 0 : nghttp2_session_mem_send(s->ng, &s->frame);

	if (n < 0)
		end_session(s, H2_INTERNAL_ERROR);
	if (n > 0)
		s->frame_left = (size_t)n;
	if (n > 0 || s->goaway_left == 0)
		return n > 0;
	s->frame = s->goaway;
	s->frame_left = s->goaway_left;
	s->goaway_left = 0;
	return true;
}

size_t
h2_output(struct h2_session *s, uint8_t *dst, size_t room)
{
	size_t done = 0;

	while (done < room && (s->frame_left > 0 || next_frame(s))) {
		size_t n = s->frame_left < room - done ? s->frame_left : room - done;

		memcpy(dst + done, s->frame, n);
		s->frame += n;
		s->frame_left -= n;
		done += n;
	}
	return done;
}

bool
h2_has_output(const struct h2_session *s)
{
	if (s->frame_left > 0 || s->goaway_left > 0)
		return true;
	return !s->dead && (s->poor || nghttp2_session_want_write(s->ng) != 0);
}

bool
h2_is_full(const struct h2_session *s)
{
	return nghttp2_session_get_outbound_queue_size(s->ng) > QUEUE_MAX;
}

bool
h2_is_over(const struct h2_session *s)
{
	if (h2_has_output(s))
		return false;
	return s->dead || (nghttp2_session_want_read(s->ng) == 0 && (!s->quiet || s->quiet_told));
}

bool
h2_awaits_head(const struct h2_session *s)
{
	return s->head != NULL;
}

unsigned
h2_streams(const struct h2_session *s)
{
	return s->count;
}

void
h2_finish(struct h2_session *s)
{
	if (!h2_is_over(s))		/* else the last word was said */
		end_session(s, H2_NO_ERROR);
}

void
h2_quiesce(struct h2_session *s)
{
	/* The ping's answer tells that the notice was read: what the peer sent before has come. */
	static const uint8_t opaque[8] = "quiesce";

	if (s->quiet || !is_usable(s))
		return;
	s->quiet = true;
	if (nghttp2_submit_shutdown_notice(s->ng) != 0 ||
	    nghttp2_submit_ping(s->ng, NGHTTP2_FLAG_NONE, opaque) != 0)
		end_session(s, H2_INTERNAL_ERROR);
}

/* -- life ------------------------------------------------------------------------------------------------ */

static void
set_callbacks(nghttp2_session_callbacks *c)
{
	nghttp2_session_callbacks_set_on_begin_frame_callback(c, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(c, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback(c, on_invalid_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_body);
	nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(c, on_close);
}

static void
set_options(nghttp2_option *o)
{
	nghttp2_option_set_no_auto_window_update(o, 1);
	nghttp2_option_set_no_closed_streams(o, 1);
	nghttp2_option_set_max_outbound_ack(o, ACKS_MAX);
	nghttp2_option_set_max_settings(o, SETTINGS_MAX);
	/* It counts the pieces that they come in: on_begin_frame(). */
	nghttp2_option_set_max_continuations(o, SIZE_MAX);
	/* Ours counts those, too, that the peer makes us reset, and is what decides. */
	nghttp2_option_set_stream_reset_rate_limit(o, UINT32_MAX, UINT32_MAX);
}

struct h2 *
h2_new(const struct h2_conf *conf)
{
	struct h2 *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	h->conf = *conf;
	if (nghttp2_session_callbacks_new(&h->callbacks) != 0 || nghttp2_option_new(&h->option) != 0) {
		h2_free(h);
		return NULL;
	}
	set_callbacks(h->callbacks);
	set_options(h->option);
	return h;
}

void
h2_free(struct h2 *h)
{
	if (h == NULL)
		return;
	TV_ASSERT(h->sessions == 0);
	h2_head_free(h->spare);
	nghttp2_session_callbacks_del(h->callbacks);
	nghttp2_option_del(h->option);
	free(h);
}

const struct h2_stats *
h2_stats(const struct h2 *h)
{
	return &h->stats;
}

static bool
announce(struct h2_session *s, unsigned streams_max)
{
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams_max },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)s->h2->conf.head_bytes_max },
		{ NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1 },
	};

	return nghttp2_submit_settings(s->ng, NGHTTP2_FLAG_NONE, settings,
	    sizeof(settings) / sizeof(settings[0])) == 0 &&
	    nghttp2_session_set_local_window_size(s->ng, NGHTTP2_FLAG_NONE, 0, H2_WINDOW) == 0;
}

struct h2_session *
h2_session_new(struct h2 *h, void *ctx, unsigned streams_max, struct mono now)
{
	struct h2_session *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->h2 = h;
	s->ctx = ctx;
	s->now = s->resets.since = s->empty.since = now;
	/* All streams may be given up at once: so does a proxy that is restarted. */
	s->resets.left = s->resets_burst = RESETS_BURST + streams_max;
	s->empty.left = EMPTY_BURST;
	nghttp2_mem memory = { s, ng_malloc, ng_free, ng_calloc, ng_realloc };
	LIST_INIT(&s->streams);
	h->sessions++;
	LIST_INIT(&s->pieces);
	if (nghttp2_session_server_new3(&s->ng, h->callbacks, s, h->option, &memory) != 0 ||
	    !announce(s, streams_max)) {
		h2_session_free(s);
		return NULL;
	}
	return s;
}

void
h2_session_free(struct h2_session *s)
{
	struct h2_stream *st;

	s->dead = true;
	while ((st = LIST_FIRST(&s->streams)) != NULL)
		stream_end(st);
	head_release(s);
	free_pieces(s);
	s->h2->sessions--;
	free(s);
}
