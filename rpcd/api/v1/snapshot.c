/*
 * /v1/snapshot: the whole state as an archive, and back.  One server keeps what belongs to a save or a restore
 * (OP_SERVER); here its pieces pass through, one in each direction at a time, so memory is bounded whatever the size.
 *
 *	GET   SNAPSHOT_SAVE, then SNAPSHOT_READ piece by piece as the client takes them, SNAPSHOT_END
 *	PUT   RESTORE_OPEN, RESTORE_WRITE piece by piece as the client sends them, RESTORE_APPLY, then RESTORE_STATUS
 *	      until it is done or failed; when that server is lost, its successor knows what became of it
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/record/records.h"
#include "rpcd/api/api.h"

#define PIECE_BYTES (512u << 10)
#define PIECE_OVERHEAD 4096		/* of an operation beside the piece */
#define ID_BYTES 37
#define FATE_TRIES 8			/* each as long as the router waits for a leader */

/*
 * The first question.  The server keeps something from then on, and its answer says under what name: if the client has
 * gone by then, the server is told at once instead of having to wait.
 */
struct opening {
	struct request *r;		/* NULL: its client has gone */
	struct route *route;
	char *dc, *token;		/* of the request; owned */
};

struct passing {			/* freed by cancel() */
	struct opening *opening;	/* the first question is on its way */
	char server[ID_BYTES], id[ID_BYTES];
	struct buf piece, next;		/* GET: being read, and the one after; PUT: piece is being filled */
	size_t used;			/* of the piece (GET) */
	uint64_t offset, total;		/* of what was asked for or sent; of all (GET) */
	bool ended;			/* the server needs no END */
	bool whole;			/* the body is complete (PUT) */
	bool applying;			/* RESTORE_APPLY was sent: it may take effect */
	unsigned tries;
};

static struct passing *
passing_of(const struct request *r)
{
	return r->state;
}

/* -- questions -- */

static void
on_reply(void *ctx, const struct op_reply *reply)
{
	struct request *r = ctx;

	r->call = NULL;
	r->finish(r, reply);
}

/* NULL: it could not be asked.  Datacenter and token of the request are no longer than allowed: open_passing(). */
static struct route_call *
send_ask(struct request *r, enum op_code op, const struct snapshot_ask *args, route_done *done, void *ctx)
{
	struct route_call *call = NULL;

	r->op.op = (uint16_t)op;
	r->op.index = r->op.wait_ms = 0;
	r->op.token = api_token(r);
	buf_reset(&r->scratch);
	schema_pack(&snapshot_ask_schema, args, &r->scratch);
	r->op.args = buf_span(&r->scratch);
	if (!r->scratch.failed)
		call = route_start(r->api->route, &r->op, done, ctx);
	buf_done(&r->scratch);
	return call;
}

/* False: it could not be asked. */
static bool
ask_server(struct request *r, enum op_code op, const struct snapshot_ask *args,
    void (*finish)(struct request *r, const struct op_reply *reply))
{
	r->finish = finish;
	r->call = send_ask(r, op, args, on_reply, r);
	return r->call != NULL;
}

static void
ignore_reply(void *ctx UNUSED, const struct op_reply *reply UNUSED)
{
}

/* The server may forget it; if it does not hear of this it will do so by itself. */
static void
send_end(struct route *route, struct span dc, struct span token, struct span server, struct span id)
{
	struct snapshot_ask args = { .Server = server, .ID = id };
	struct op_request q = { .op = OP_SNAPSHOT_END, .dc = dc, .token = token };
	struct buf b = BUF_INIT(PIECE_OVERHEAD);

	schema_pack(&snapshot_ask_schema, &args, &b);
	q.args = buf_span(&b);
	if (!b.failed)
		(void)route_start(route, &q, ignore_reply, NULL);
	buf_done(&b);
}

static void
tell_end(struct request *r)
{
	struct passing *p = passing_of(r);

	if (p->ended || p->id[0] == '\0')
		return;
	p->ended = true;
	send_end(r->api->route, r->op.dc, api_token(r), span_str(p->server), span_str(p->id));
}

static void
cancel(struct request *r)
{
	struct passing *p = passing_of(r);

	tell_end(r);
	if (p->opening != NULL)
		p->opening->r = NULL;
	buf_done(&p->piece);
	buf_done(&p->next);
	r->feed = NULL;
	r->feed_end = NULL;
	free(p);
	r->state = NULL;
}

/* NULL: answered. */
static struct passing *
passing_new(struct request *r)
{
	struct passing *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		answer_text(r, 500, "out of memory");
		return NULL;
	}
	buf_init(&p->piece, PIECE_BYTES + PIECE_OVERHEAD);
	buf_init(&p->next, PIECE_BYTES + PIECE_OVERHEAD);
	r->state = p;
	r->cancel = cancel;
	return p;
}

/* Unpacks a good reply; else *text says what went wrong. */
static bool
read_reply(struct arena *a, const struct op_reply *reply, struct snapshot_state *st, struct span *text)
{
	struct rd in = rd_span_over(reply->value);

	*st = (struct snapshot_state){ .Phase = RESTORE_NONE };
	if (reply->err != TV_OK)
		*text = reply->text.len > 0 ? reply->text : span_str(tv_strerror(reply->err));
	else if (schema_unpack(&snapshot_state_schema, &in, a, st) != TV_OK || rd_end(&in) != TV_OK)
		*text = span_str("malformed answer");
	else
		return true;
	return false;
}

/* -- the first question -- */

static void
opening_free(struct opening *o)
{
	if (o == NULL)
		return;
	if (o->token != NULL)
		explicit_bzero(o->token, strlen(o->token));
	free(o->token);
	free(o->dc);
	free(o);
}

static void
opened(void *ctx, const struct op_reply *reply)
{
	struct opening *o = ctx;
	struct arena a = ARENA_INIT(PIECE_OVERHEAD);
	struct snapshot_state st;
	struct span text;

	if (o->r != NULL) {
		passing_of(o->r)->opening = NULL;
		o->r->finish(o->r, reply);
	} else if (read_reply(&a, reply, &st, &text) && st.ID.len > 0) {
		send_end(o->route, span_str(o->dc), span_str(o->token), st.Server, st.ID);
	}
	arena_done(&a);
	opening_free(o);
}

static char *
text_copy(struct span s)
{
	return strndup(s.len > 0 ? (const char *)s.p : "", s.len);
}

/* Asks it; finish gets the reply.  On failure the answer is made here. */
static void
open_passing(struct request *r, enum op_code op, void (*finish)(struct request *r, const struct op_reply *reply))
{
	struct snapshot_ask args = { .Offset = 0 };
	struct passing *p;
	struct opening *o;

	r->op.token = api_token(r);
	if (!api_names_fit(r) || (p = passing_new(r)) == NULL)
		return;
	o = calloc(1, sizeof(*o));
	if (o != NULL)
		*o = (struct opening){ r, r->api->route, text_copy(r->op.dc), text_copy(api_token(r)) };
	if (o == NULL || o->dc == NULL || o->token == NULL) {
		answer_text(r, 500, "out of memory");
	} else if (send_ask(r, op, &args, opened, o) != NULL) {
		r->finish = finish;
		p->opening = o;
		return;
	} else {
		api_busy(r);
	}
	opening_free(o);
}

/* -- GET -- */

static void got_piece(struct request *r, const struct op_reply *reply);

static bool
ask_piece(struct request *r)
{
	struct passing *p = passing_of(r);
	struct snapshot_ask args = { .Server = span_str(p->server), .ID = span_str(p->id), .Offset = p->offset };

	return ask_server(r, OP_SNAPSHOT_READ, &args, got_piece);
}

/* The connection ends early, and the length tells that; why, only the log can say. */
static void
broke_off(struct request *r, struct span why)
{
	const struct passing *p = passing_of(r);
	char shown[512];

	log_warn("http", "a snapshot for a client was interrupted after %" PRIu64 " of %" PRIu64 " bytes: %s",
	    p->offset, p->total, log_safe(why, shown, sizeof(shown)));
	r->stream = NULL;
}

static void
get_failed(struct request *r, unsigned status, struct span text)
{
	if (!r->answered) {
		answer_span(r, status, text);
		return;
	}
	broke_off(r, text);
	r->ready(r);
}

static size_t
read_stream(struct request *r, void *dst, size_t max)
{
	struct passing *p = passing_of(r);
	size_t n;

	if (p->used == p->piece.len && p->next.len > 0) {
		struct buf empty = p->piece;

		p->piece = p->next;
		p->next = empty;
		buf_reset(&p->next);
		p->used = 0;
		if (p->offset < p->total && !ask_piece(r)) {
			broke_off(r, span_str(API_BUSY));
			return 0;
		}
	}
	n = p->piece.len - p->used < max ? p->piece.len - p->used : max;
	memcpy(dst, p->piece.data + p->used, n);
	p->used += n;
	if (p->used == p->piece.len && p->next.len == 0 && p->offset == p->total) {
		tell_end(r);
		r->stream = NULL;		/* that was all */
	}
	return n;
}

static void
start_stream(struct request *r, const struct op_reply *reply, uint64_t total)
{
	api_headers(r, reply, false);
	r->stream_bytes = total;
	answer_stream(r, "application/x-gzip", read_stream);
}

static void
got_piece(struct request *r, const struct op_reply *reply)
{
	struct passing *p = passing_of(r);
	struct snapshot_state st;
	struct span text;
	bool first = p->total == 0;

	if (!read_reply(&r->arena, reply, &st, &text)) {
		get_failed(r, api_error_status(reply->err), text);
		return;
	}
	if (st.Phase == SNAPSHOT_PREPARING) {
		if (!ask_piece(r))
			get_failed(r, 503, span_str(API_BUSY));
		return;
	}
	if (st.Data.len == 0 || (!first && st.Total != p->total) || st.Data.len > st.Total - p->offset) {
		get_failed(r, 500, span_str("malformed answer"));
		return;
	}
	p->total = st.Total;
	p->offset += st.Data.len;
	buf_putspan(first ? &p->piece : &p->next, st.Data);
	if (p->piece.failed || p->next.failed)
		get_failed(r, 500, span_str("out of memory"));
	else if (first && p->offset < p->total && !ask_piece(r))
		get_failed(r, 503, span_str(API_BUSY));
	else if (first)
		start_stream(r, reply, st.Total);
	else
		r->ready(r);
}

static void
saved(struct request *r, const struct op_reply *reply)
{
	struct passing *p = passing_of(r);
	struct snapshot_state st;
	struct span text;

	if (!read_reply(&r->arena, reply, &st, &text))
		get_failed(r, api_error_status(reply->err), text);
	else if (!span_copy(st.Server, p->server, sizeof(p->server)) || !span_copy(st.ID, p->id, sizeof(p->id)))
		get_failed(r, 500, span_str("malformed answer"));
	else if (!ask_piece(r))
		get_failed(r, 503, span_str(API_BUSY));
}

static void
run_save(struct request *r)
{
	open_passing(r, OP_SNAPSHOT_SAVE, saved);
}

/* -- PUT -- */

static void put_on(struct request *r);

static void
put_failed(struct request *r, unsigned status, struct span text, bool changed_nothing)
{
	if (!r->answered)
		answer_text(r, status, "%.*s%s", SPAN_ARGS(text), changed_nothing ? "; nothing was changed" : "");
}

/* The server that carried it out is lost: its successor knows whether it took effect. */
static void got_fate(struct request *r, const struct op_reply *reply);

static void
ask_fate(struct request *r)
{
	struct passing *p = passing_of(r);
	struct snapshot_ask args = { .ID = span_str(p->id) };

	if (p->tries++ < FATE_TRIES && ask_server(r, OP_RESTORE_STATUS, &args, got_fate))
		return;
	put_failed(r, 500, span_str("the server that carried out the restore was lost, and no leader knows its "
	    "outcome: it may or may not have taken effect"), false);
}

/* Is the restore over, or will it never be?  Then it is answered. */
static bool
is_over(struct request *r, const struct op_reply *reply, struct snapshot_state *st)
{
	struct span text;

	if (!read_reply(&r->arena, reply, st, &text)) {
		st->Phase = RESTORE_UNKNOWN;
	} else if (st->Phase == RESTORE_DONE) {
		passing_of(r)->ended = true;
		answer_empty(r, 200);
	} else if (st->Phase == RESTORE_FAILED) {
		put_failed(r, 500, st->Text, false);
	}
	return st->Phase == RESTORE_DONE || st->Phase == RESTORE_FAILED;
}

static void
got_fate(struct request *r, const struct op_reply *reply)
{
	struct snapshot_state st;

	if (is_over(r, reply, &st))
		return;
	if (st.Phase == RESTORE_NONE)
		put_failed(r, 500, span_str("the leader was lost before the restore was committed"), true);
	else
		ask_fate(r);
}

static void
got_status(struct request *r, const struct op_reply *reply)
{
	struct passing *p = passing_of(r);
	struct snapshot_ask args = { .Server = span_str(p->server), .ID = span_str(p->id) };
	struct snapshot_state st;

	if (!is_over(r, reply, &st) && (st.Phase == RESTORE_UNKNOWN || st.Phase == RESTORE_NONE ||
	    !ask_server(r, OP_RESTORE_STATUS, &args, got_status)))
		ask_fate(r);
}

/* After RESTORE_OPEN and RESTORE_WRITE. */
static void
passed_on(struct request *r, const struct op_reply *reply)
{
	struct passing *p = passing_of(r);
	struct snapshot_state st;
	struct span text;

	if (!read_reply(&r->arena, reply, &st, &text)) {
		put_failed(r, api_error_status(reply->err), text,
		    memmem(text.p, text.len, "nothing was changed", 19) == NULL);
	} else if (st.Phase == RESTORE_FAILED) {
		p->ended = true;
		put_failed(r, 500, st.Text, false);
	} else if (st.Phase != RESTORE_RECEIVING || st.Done != p->offset ||
	    !span_copy(st.Server, p->server, sizeof(p->server)) || !span_copy(st.ID, p->id, sizeof(p->id))) {
		put_failed(r, 500, span_str("malformed answer"), true);
	} else {
		put_on(r);
		if (!r->answered && !p->whole)
			r->ready(r);		/* there is room again */
	}
}

static size_t
piece_bytes(const struct request *r)
{
	uint64_t most = r->api->conf->request_bytes_max - PIECE_OVERHEAD;

	return most < PIECE_BYTES ? (size_t)most : PIECE_BYTES;
}

/* Sends what has come, if it is enough and nothing is on its way. */
static void
put_on(struct request *r)
{
	struct passing *p = passing_of(r);
	struct snapshot_ask args = { .Server = span_str(p->server), .ID = span_str(p->id), .Offset = p->offset };
	bool asked = true;

	if (r->call != NULL || r->answered || p->id[0] == '\0')
		return;
	if (p->piece.len >= piece_bytes(r) || (p->whole && p->piece.len > 0)) {
		args.Data = buf_span(&p->piece);
		p->offset += p->piece.len;
		asked = ask_server(r, OP_RESTORE_WRITE, &args, passed_on);
		buf_reset(&p->piece);
	} else if (p->whole && !p->applying) {
		p->applying = true;
		asked = ask_server(r, OP_RESTORE_APPLY, &args, got_status);
	}
	if (!asked)
		put_failed(r, 503, span_str(API_BUSY), true);
}

static size_t
feed(struct request *r, const void *bytes, size_t n)
{
	struct passing *p = passing_of(r);
	size_t took = 0, room;

	while (took < n) {
		room = piece_bytes(r) - p->piece.len;
		if (room > n - took)
			room = n - took;
		buf_put(&p->piece, (const uint8_t *)bytes + took, room);
		took += room;
		if (p->piece.len < piece_bytes(r))
			break;
		put_on(r);
		if (r->answered)
			return n;		/* the rest is of no interest */
		if (p->piece.len > 0)
			break;			/* full, until the one before has arrived */
	}
	return took;
}

static void
too_large(struct request *r, uint64_t bytes)
{
	answer_text(r, 413, "The archive has %" PRIu64 " bytes, but rpcd accepts at most %" PRIu64
	    " (limits.snapshot_bytes_max in rpcd.conf); nothing was changed", bytes, r->body_max);
}

static void
feed_end(struct request *r)
{
	struct passing *p = passing_of(r);

	if (r->body_bytes > r->body_max) {
		too_large(r, r->body_bytes);
		return;
	}
	p->whole = true;
	put_on(r);
}

static void
run_restore(struct request *r)
{
	if (r->head.body_announced > r->body_max) {	/* before anything is begun for it */
		too_large(r, r->head.body_announced);
		return;
	}
	open_passing(r, OP_RESTORE_OPEN, passed_on);
	if (!r->answered) {
		r->feed = feed;
		r->feed_end = feed_end;
	}
}

/* -- progress -- */

static const char *
phase_text(uint64_t phase)
{
	static const char *const texts[] = {
		[RESTORE_RECEIVING] = "receiving", [RESTORE_CHECKING] = "checking", [RESTORE_STAGING] = "staging",
		[RESTORE_LOADING] = "loading", [RESTORE_COMMITTING] = "committing", [RESTORE_DONE] = "done",
		[RESTORE_FAILED] = "failed", [RESTORE_UNKNOWN] = "unknown", [RESTORE_NONE] = "none",
	};

	return phase >= RESTORE_RECEIVING && phase <= RESTORE_NONE ? texts[phase] : "unknown";
}

RECORD_LOCAL(restore_progress, (STR, ID), (STR, Phase), (U64, Done), (U64, Total), (U64, Index), (STR, Error))

static void
finish_progress(struct request *r, const struct op_reply *reply)
{
	struct snapshot_state st = { .Phase = 0 };

	if (api_failed(r, reply) || !api_record(r, reply, &snapshot_state_schema, &st))
		return;
	schema_json_rec(&restore_progress_schema, &(struct restore_progress){ st.ID,
	    span_str(phase_text(st.Phase)), st.Done, st.Total, st.Index, st.Text }, &r->answer.body);
	answer_json(r);
}

const struct endpoint api_snapshot[] = {
	{ "/v1/snapshot", "GET", ACCESS_OP | ACCESS_ADMIN, .op = OP_SNAPSHOT_SAVE,
	    .body = BODY_STREAM, .query = QUERY_READ, .run = run_save },
	{ "/v1/snapshot", "PUT", ACCESS_OP | ACCESS_ADMIN, .op = OP_RESTORE_OPEN,
	    .body = BODY_STREAM, .query = QUERY_DC, .run = run_restore },
	/* The newest restore at the leader: how far it is. */
	{ "/v1/snapshot/restore", "GET", ACCESS_OP, NULL, OP_RESTORE_STATUS, .query = QUERY_DC,
	    .finish = finish_progress },
	{ .path = NULL },
};
