/*
 * gRPC checks (grpc.health.v1) and H2PING checks: one connection for each run, HTTP/2 by libnghttp2.  Whatever a server
 * sends costs a bounded amount: BYTES_READ_MAX end the run, so do HEAD_BYTES_MAX of headers once they are unpacked,
 * more answers to PING and SETTINGS than libnghttp2 keeps, and the timeout.
 */
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "rpcd/check/checker.h"
#include "rpcd/check/credentials.h"
#include "rpcd/check/dial.h"
#include "rpcd/check/grpc.h"

#define BYTES_READ_MAX (256u << 10)
#define HEAD_BYTES_MAX (16u << 10)
#define MESSAGE_BYTES_MAX 4096		/* of an answer, which has a handful */
#define OUT_BYTES_MAX (64u << 10)
#define ACKS_MAX 64
#define READ_BYTES 16384
#define WHY_BYTES 1024

enum stage { DIALLING, HANDSHAKE, TALKING };

struct h2 {
	struct probe_run run;		/* first */
	bool ping;			/* else gRPC */
	struct span address, service;	/* of the target */
	enum stage stage;
	struct dial dial;
	struct stream bytes;
	struct ssl_st *tls;		/* NULL: in the clear */
	nghttp2_session *session;
	struct buf body;		/* of the request */
	size_t body_sent, bytes_read, head_bytes;
	int32_t stream;
	/* what came */
	bool settled;			/* it speaks HTTP/2 */
	bool over, good;
	char why[WHY_BYTES];		/* it is over, but not good */
	struct buf message;
	unsigned http_status;
	int code;			/* grpc-status, -1: none */
	struct buf code_text;
};

/* -- the end of a run -- */

static void
h2_clear(struct probe_run *r)
{
	struct h2 *h = (struct h2 *)r;

	dial_stop(&h->dial);
	nghttp2_session_del(h->session);
	stream_close(&h->bytes);
	tls_session_free(h->tls);
	buf_done(&h->body);
	buf_done(&h->message);
	buf_done(&h->code_text);
}

/* No connection, or none that can be used: gRPC's and Consul's words. */
static void
unreachable(struct h2 *h, const char *what, const char *why)
{
	struct buf out = BUF_INIT(OUTPUT_BYTES_MAX);

	if (h->ping) {
		buf_puts(&out, "Failed to dial to ");
		buf_putspan(&out, h->run.check->def.Target);
		buf_printf(&out, ": %s", why);
	} else {
		buf_printf(&out, "rpc error: code = Unavailable desc = all SubConns are in TransientFailure, latest "
		    "connection error: connection error: desc = \"transport: %s%s\"", what, why);
	}
	run_end(&h->run, HEALTH_CRITICAL, &out, false);
}

static void
no_answer(struct h2 *h, const char *code, const char *why)
{
	struct buf out = BUF_INIT(OUTPUT_BYTES_MAX);

	if (h->ping)
		buf_printf(&out, "HTTP2 ping failed: %s", why);
	else
		buf_printf(&out, "rpc error: code = %s desc = %s", code, why);
	run_end(&h->run, HEALTH_CRITICAL, &out, false);
}

static struct mono
h2_queued(const struct probe_run *r)
{
	return dial_queued(&((const struct h2 *)r)->dial);
}

static void
h2_expired(struct probe_run *r)
{
	struct h2 *h = (struct h2 *)r;
	char at[DIAL_TEXT_BYTES], text[DIAL_TEXT_BYTES + 16];

	r->check->checker->stats.timed_out++;
	if (!h->ping || h->stage == TALKING) {
		no_answer(h, "DeadlineExceeded", "context deadline exceeded");
		return;
	}
	snprintf(text, sizeof(text), "%s: i/o timeout", h->stage == HANDSHAKE ? "tls: handshake" :
	    dial_at(&h->dial, at));
	unreachable(h, "", text);
}

/* -- what the answer says -- */

static void
judge_code(struct h2 *h, struct buf *out)
{
	char name[24];

	buf_printf(out, "rpc error: code = %s desc = ", grpc_code_name((unsigned)h->code, name));
	buf_putspan(out, buf_span(&h->code_text));
}

static enum health
judge_answer(struct h2 *h, struct buf *out)
{
	char name[24];
	uint64_t status;
	const struct span *target = &h->run.check->def.Target;

	if (h->code < 0) {
		buf_printf(out, "rpc error: code = %s desc = unexpected HTTP status code received from server: %u",
		    h->http_status == 404 ? "Unimplemented" : h->http_status == 401 ? "Unauthenticated" :
		    h->http_status == 403 ? "PermissionDenied" : h->http_status == 200 ? "Internal" : "Unavailable",
		    h->http_status);
	} else if (h->code > 0) {
		judge_code(h, out);
	} else if (h->message.failed || !grpc_response(buf_span(&h->message), &status)) {
		buf_puts(out, "rpc error: code = Internal desc = the answer is no HealthCheckResponse");
	} else if (status != GRPC_SERVING) {
		buf_puts(out, "gRPC ");
		buf_putspan(out, *target);
		buf_printf(out, " serving status: %s", grpc_status_name(status, name));
	} else {
		buf_puts(out, "gRPC check ");
		buf_putspan(out, *target);
		buf_puts(out, ": success");
		return HEALTH_PASSING;
	}
	return HEALTH_CRITICAL;
}

static void
conclude(struct h2 *h)
{
	struct buf out = BUF_INIT(OUTPUT_BYTES_MAX);
	enum health status = HEALTH_PASSING;

	if (!h->good) {
		no_answer(h, "Unavailable", h->why);
		return;
	}
	if (h->ping)
		buf_puts(&out, "HTTP2 ping was successful");
	else
		status = judge_answer(h, &out);
	run_end(&h->run, status, &out, false);
}

/* From within libnghttp2, too: the run ends when that has returned. */
static void
over(struct h2 *h, const char *why)
{
	if (h->over)
		return;
	h->over = true;
	snprintf(h->why, sizeof(h->why), "%s", why);
}

/* Right behind the read or the write that found it. */
static void
closed(struct h2 *h)
{
	char why[TLS_WHY_BYTES];

	/* A server of TLS 1.3 refuses our certificate when the handshake is over for us. */
	if (h->tls != NULL && h->bytes.state == STREAM_CUT && h->bytes.error == EPROTO && !h->over) {
		tls_session_failure(h->tls, EPROTO, why);
		over(h, why);
		return;
	}
	over(h, h->settled ? "connection closed" : "connection closed: the peer does not speak HTTP/2");
}

/* -- what libnghttp2 hands over -- */

static int
on_header(nghttp2_session *session UNUSED, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
    const uint8_t *value, size_t value_len, uint8_t flags UNUSED, void *ctx)
{
	struct h2 *h = ctx;
	struct span n = span_of(name, name_len), v = span_of(value, value_len);
	char digits[8];

	h->head_bytes += name_len + value_len + 32;
	if (h->head_bytes > HEAD_BYTES_MAX) {
		over(h, "response headers are longer than 16 KiB");
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (frame->hd.type != NGHTTP2_HEADERS || frame->hd.stream_id != h->stream)
		return 0;
	if (span_eqs(n, ":status") && span_copy(v, digits, sizeof(digits)))
		h->http_status = (unsigned)atoi(digits);
	if (span_eqs(n, "grpc-status") && v.len > 0 && v.len <= 3 && v.p[0] >= '0' && v.p[0] <= '9' &&
	    span_copy(v, digits, sizeof(digits)))
		h->code = atoi(digits);
	if (span_eqs(n, "grpc-message")) {
		buf_reset(&h->code_text);
		grpc_message(v, &h->code_text);
	}
	return 0;
}

static int
on_data(nghttp2_session *session UNUSED, uint8_t flags UNUSED, int32_t stream, const uint8_t *data, size_t len,
    void *ctx)
{
	struct h2 *h = ctx;

	if (stream == h->stream)
		buf_put(&h->message, data, len);	/* more than fits is no answer of this protocol */
	return 0;
}

static int
on_stream_close(nghttp2_session *session UNUSED, int32_t stream, uint32_t error, void *ctx)
{
	struct h2 *h = ctx;
	char text[128];

	if (stream != h->stream || h->over)
		return 0;
	if (error == NGHTTP2_NO_ERROR || h->code >= 0) {
		h->over = h->good = true;
		return 0;
	}
	snprintf(text, sizeof(text), "stream terminated by RST_STREAM with error code: %s",
	    nghttp2_http2_strerror(error));
	over(h, text);
	return 0;
}

static int
on_frame(nghttp2_session *session UNUSED, const nghttp2_frame *frame, void *ctx)
{
	struct h2 *h = ctx;
	char text[128];

	h->settled = h->settled || frame->hd.type == NGHTTP2_SETTINGS;
	if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0 && h->ping && !h->over)
		h->over = h->good = true;
	if (frame->hd.type == NGHTTP2_GOAWAY && (h->ping || frame->goaway.error_code != NGHTTP2_NO_ERROR)) {
		snprintf(text, sizeof(text), "server sent GOAWAY: %s",
		    nghttp2_http2_strerror(frame->goaway.error_code));
		over(h, text);
	}
	return 0;
}

static ssize_t
read_body(nghttp2_session *session UNUSED, int32_t stream UNUSED, uint8_t *dst, size_t cap, uint32_t *flags,
    nghttp2_data_source *source UNUSED, void *ctx)
{
	struct h2 *h = ctx;
	size_t n = h->body.len - h->body_sent;

	if (n > cap)
		n = cap;
	if (n > 0)
		memcpy(dst, h->body.data + h->body_sent, n);
	h->body_sent += n;
	if (h->body_sent == h->body.len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static nghttp2_nv
pair(const char *name, struct span value)
{
	return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value.p, strlen(name), value.len,
		NGHTTP2_NV_FLAG_NONE };
}

static bool
send_request(struct h2 *h)
{
	char timeout[24];
	struct span name = h->run.check->def.TLSServerName;
	struct span authority = name.len > 0 && h->tls != NULL ? name : h->address;

	if (h->ping)
		return nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, (const uint8_t *)"triumvir") == 0;
	int64_t ms = mono_ms(h->run.check->timeout);
	snprintf(timeout, sizeof(timeout), ms <= 99999999 ? "%lldm" : "%lldS",	/* at most eight digits */
	    (long long)(ms <= 99999999 ? ms : ms / 1000));
	const nghttp2_nv head[] = {
		pair(":method", span_str("POST")), pair(":scheme", span_str(h->tls != NULL ? "https" : "http")),
		pair(":path", span_str(GRPC_PATH)), pair(":authority", authority),
		pair("content-type", span_str("application/grpc")), pair("user-agent", span_str("Consul Health Check")),
		pair("te", span_str("trailers")), pair("grpc-timeout", span_str(timeout)),
	};
	grpc_request(h->service, &h->body);
	h->stream = nghttp2_submit_request(h->session, NULL, head, sizeof(head) / sizeof(head[0]),
	    &(nghttp2_data_provider){ .read_callback = read_body }, NULL);
	return h->stream > 0 && !h->body.failed;
}

static bool
open_session(struct h2 *h)
{
	static const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 }, { NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEAD_BYTES_MAX },
	};
	nghttp2_session_callbacks *calls = NULL;
	nghttp2_option *option = NULL;
	bool ok = nghttp2_session_callbacks_new(&calls) == 0 && nghttp2_option_new(&option) == 0;

	if (ok) {
		nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
		nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_stream_close);
		nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
		nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
		ok = nghttp2_session_client_new2(&h->session, calls, h, option) == 0;
	}
	nghttp2_session_callbacks_del(calls);
	nghttp2_option_del(option);
	return ok && nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, 2) == 0 && send_request(h);
}

/* -- bytes -- */

static bool
gather(struct h2 *h)
{
	const uint8_t *bytes;
	ssize_t n = 0;

	while (stream_queued(&h->bytes) < OUT_BYTES_MAX / 2 && (n = nghttp2_session_mem_send(h->session, &bytes)) > 0)
		buf_put(&h->bytes.queue, bytes, (size_t)n);
	return n >= 0 && !h->bytes.queue.failed;
}

/* What can be sent is sent; the socket is watched for the rest. */
static void
send_all(struct h2 *h)
{
	do {
		if (!gather(h)) {
			over(h, "out of memory");
			return;
		}
	} while (!h->over && stream_flush(&h->bytes) > 0 && stream_queued(&h->bytes) == 0);
	if (h->bytes.state != STREAM_OPEN)
		closed(h);
	else if (!h->over && stream_queued(&h->bytes) == 0 && !nghttp2_session_want_read(h->session))
		closed(h);
}

static void
receive(struct h2 *h)
{
	static uint8_t bytes[READ_BYTES];
	size_t n = stream_read(&h->bytes, bytes, sizeof(bytes));

	if (n == 0) {
		if (h->bytes.state != STREAM_OPEN)
			closed(h);
		return;
	}
	h->bytes_read += n;
	ssize_t taken = nghttp2_session_mem_recv(h->session, bytes, n);
	if (taken == NGHTTP2_ERR_FLOODED)
		over(h, "the peer asks for more answers than it reads");
	else if (taken < 0)
		closed(h);
	else if (h->bytes_read > BYTES_READ_MAX)
		over(h, "the answer is longer than 256 KiB");
}

static void
talk(struct h2 *h)
{
	if (!h->over)
		send_all(h);
	if (h->over)
		conclude(h);
	else
		stream_watch(&h->bytes, STREAM_READ);
}

static void
begin_talk(struct h2 *h)
{
	h->stage = TALKING;
	if (open_session(h))
		talk(h);
	else
		no_answer(h, "ResourceExhausted", "out of memory");
}

static void
shake(struct h2 *h)
{
	char why[TLS_WHY_BYTES];
	int rc = tls_session_shake(h->tls, why);

	if (rc < 0) {
		unreachable(h, "authentication handshake failed: ", why);
	} else if (rc > 0) {
		stream_set_seal(&h->bytes, &tls_seal, h->tls);
		begin_talk(h);
	} else {
		stream_watch(&h->bytes, tls_session_wants_write(h->tls) ? STREAM_WRITE : STREAM_READ);
	}
}

static void
on_ready(struct stream *b, int events)
{
	struct h2 *h = (struct h2 *)(void *)((char *)b - offsetof(struct h2, bytes));

	if (h->stage == HANDSHAKE) {
		shake(h);
		return;
	}
	if (events & STREAM_READ)
		receive(h);
	talk(h);
}

/* -- a run -- */

static void
on_dialled(void *ctx, int fd, const char *why)
{
	struct h2 *h = ctx;
	char bad[TLS_WHY_BYTES];

	if (fd < 0) {
		unreachable(h, "Error while dialing ", why);
		return;
	}
	stream_open(&h->bytes, h->run.check->checker->loop, fd, on_ready, OUT_BYTES_MAX);
	if (!h->run.check->def.UseTLS) {
		begin_talk(h);
		return;
	}
	h->stage = HANDSHAKE;
	h->tls = credentials_session(h->run.check->checker->credentials, fd, &h->run.check->def, h->dial.to.host, "h2",
	    bad);
	if (h->tls == NULL)
		unreachable(h, "", bad);
	else
		shake(h);
}

/* "host:port", for gRPC with "/service" behind. */
static void
take_target(struct h2 *h)
{
	struct span t = h->run.check->def.Target;
	const uint8_t *slash = h->ping || t.len == 0 ? NULL : memchr(t.p, '/', t.len);
	size_t len = slash == NULL ? t.len : (size_t)(slash - t.p);

	h->address = span_of(t.p, len);
	h->service = slash == NULL ? SPAN_NONE : span_of(slash + 1, t.len - len - 1);
}

static void
h2_begin(struct probe_run *r)
{
	struct h2 *h = (struct h2 *)r;
	struct task *c = r->check;

	h->ping = c->kind == &probe_h2ping;
	h->code = -1;
	h->body = BUF_INIT(OUT_BYTES_MAX);
	h->message = BUF_INIT(MESSAGE_BYTES_MAX);
	h->code_text = BUF_INIT(HEAD_BYTES_MAX);
	take_target(h);
	run_arm(r);
	dial_begin(&h->dial, c->checker->loop, c->checker->resolver, c->service, h->address, on_dialled, h);
}

#define H2_PROBE(name_) { .name = (name_), .timeout = { 10000000000 }, .size = sizeof(struct h2), .begin = h2_begin, \
	.expired = h2_expired, .queued = h2_queued, .clear = h2_clear }
const struct probe_kind probe_grpc = H2_PROBE("grpc"), probe_h2ping = H2_PROBE("h2ping");
