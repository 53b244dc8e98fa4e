/*
 * HTTP/2 (RFC 9113) as a server speaks it, on libnghttp2: bytes in, requests out; answers in, bytes out.  No sockets,
 * no clock, no log.
 *
 * Back-pressure both ways.  What of a body is not taken is kept, and its room in the windows is not given back, so that
 * a stream holds at most H2_STREAM_WINDOW and a connection H2_WINDOW.  Of an answer a piece is asked for when there is
 * room for it in the windows and in the output, so that a slow reader holds one frame.
 *
 * What a peer can do without end, and at no cost of its own, is bounded for each connection, and counted: see
 * struct h2_stats.  A connection beyond a bound is ended with GOAWAY (ENHANCE_YOUR_CALM).
 */
#ifndef TV_RPCD_HTTP_H2_SESSION_H
#define TV_RPCD_HTTP_H2_SESSION_H

#include <sys/queue.h>
#include <sys/types.h>

#include "common/base/mono.h"
#include "common/base/rd.h"
#include "rpcd/http/http_scan.h"

#define H2_STREAM_WINDOW (256u << 10)	/* bytes of a body that come before they are taken */
#define H2_WINDOW (1u << 20)		/* the same of all streams of a connection */
#define H2_FIELDS_MAX 64		/* of an answer; further ones are left out */

/* Reasons for the peer, RFC 9113, 7. */
enum h2_error {
	H2_NO_ERROR = 0, H2_PROTOCOL_ERROR = 1, H2_INTERNAL_ERROR = 2, H2_REFUSED_STREAM = 7, H2_CANCEL = 8,
	H2_ENHANCE_YOUR_CALM = 11,
};

struct h2_session;

/* A request and its answer.  The first part of a record of the owner's, h2_conf.stream_bytes long, zeroed before. */
struct h2_stream {
	LIST_ENTRY(h2_stream) all;
	struct h2_session *session;
	uint8_t *kept;			/* of its body, not taken yet; owned, wiped */
	uint32_t kept_len, kept_at;	/* bytes; the first ones are taken */
	uint32_t kept_cap;		/* room for them */
	uint32_t dropped;		/* bytes that came behind the answer */
	int32_t id;
	bool begun : 1;			/* the owner knows it */
	bool ended : 1;			/* the request is complete */
	bool told : 1;			/* of that, the owner */
	bool offering : 1;		/* h2_body_ready() */
	bool answered : 1;
	bool sent : 1;			/* the answer has left */
	bool trailer : 1;
};

struct h2_calls {
	/*
	 * A request has begun.  scanned: HTTP_DONE, or HTTP_BAD with status and sentence in the head.  head, bytes: for
	 * the call.  body: one follows, or at least its end.
	 */
	void (*request)(void *ctx, struct h2_stream *st, enum http_scanned scanned, const struct http_head *head,
	    const uint8_t *bytes, bool body);
	/* A part of its body: how many bytes were taken.  When fewer than n, h2_body_ready() goes on. */
	size_t (*body)(void *ctx, struct h2_stream *st, const uint8_t *bytes, size_t n);
	void (*body_end)(void *ctx, struct h2_stream *st);
	/*
	 * Bytes of the answer's body: how many were put to dst.  0 without *end: none now, h2_answer_ready() goes on.
	 * *end: no more come behind these.  -1: it breaks off, the stream is reset.  Must not end the stream otherwise.
	 */
	ssize_t (*read)(void *ctx, struct h2_stream *st, uint8_t *dst, size_t room, bool *end);
	/* It is over, and its record is freed afterwards.  whole: the answer has left. */
	void (*closed)(void *ctx, struct h2_stream *st, bool whole);
};

/* Of all connections. */
struct h2_stats {
	uint64_t streams;		/* requests begun */
	uint64_t refused;		/* beyond the announced number, or without memory */
	uint64_t resets;		/* streams that clients gave up, or that broke a rule */
	/* Connections that were ended: */
	uint64_t rapid_resets;		/* too many of these in too short a time */
	uint64_t floods;		/* too many frames that carry nothing: SETTINGS, PING, empty DATA and others */
	uint64_t bombs;			/* heads that unpack to many times what is allowed */
	uint64_t broken;		/* other violations of the protocol */
};

struct h2_conf {
	const struct h2_calls *calls;
	size_t stream_bytes;		/* of the owner's records */
	size_t head_bytes_max;		/* of a head: announced, and held */
};

/* What all connections share. */
struct h2;

/* NULL: no memory. */
struct h2 *h2_new(const struct h2_conf *conf);
/* No session may be left. */
void h2_free(struct h2 *h);
const struct h2_stats *h2_stats(const struct h2 *h);

/*
 * A connection.  ctx: of the calls.  streams_max: under way at the same time, announced.  NULL: no memory.
 * The calls come from within h2_input(), h2_output(), h2_body_ready() and h2_session_free(), which must not be called
 * from them.
 */
struct h2_session *h2_session_new(struct h2 *h, void *ctx, unsigned streams_max, struct mono now);
/* Closes all streams. */
void h2_session_free(struct h2_session *s);
/* False: the connection is to be closed when the rest of the output has left. */
bool h2_input(struct h2_session *s, const uint8_t *bytes, size_t n, struct mono now);
/* Makes up to room bytes of output: how many; fewer than room: there are no more now. */
size_t h2_output(struct h2_session *s, uint8_t *dst, size_t room);
bool h2_has_output(const struct h2_session *s);
/* So much waits to be written that nothing should be read. */
bool h2_is_full(const struct h2_session *s);
/* Nothing is under way, and nothing can begin any more: it is to be closed. */
bool h2_is_over(const struct h2_session *s);
/* A head has come in part: no other stream can go on before its rest. */
bool h2_awaits_head(const struct h2_session *s);
unsigned h2_streams(const struct h2_session *s);
/* GOAWAY: nothing more is read, and what was made of the output is the rest of it. */
void h2_finish(struct h2_session *s);
/* Tells the peer that no further request will be taken; those that it has sent still are (RFC 9113, 6.8). */
void h2_quiesce(struct h2_session *s);

/* 100 Continue. */
void h2_continue(struct h2_stream *st);
/*
 * The answer begins.  head: as HTTP/1.1 has it, from its status line to its empty line; what frames there is left out.
 * body: read() is asked for it; else the head is all.  Once.  False: no memory; reset it.
 */
bool h2_answer(struct h2_stream *st, struct span head, bool body);
/* Lines "Name: value" CR LF, which end the answer.  From within read() when it says *end, once. */
void h2_trailer(struct h2_stream *st, struct span lines);
/* read() has more. */
void h2_answer_ready(struct h2_stream *st);
/* body() takes more. */
void h2_body_ready(struct h2_stream *st);
/* Ends it at once; closed() comes from a later h2_output(), unless it did before. */
void h2_reset(struct h2_stream *st, enum h2_error why);

#endif
