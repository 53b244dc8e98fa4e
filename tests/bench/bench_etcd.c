/*
 * Closed-loop load on etcd over gRPC (KV.Put and KV.Range, plain TCP): each client has one call under way; by default it
 * also has a connection of its own, as independent programs would.
 *
 *	bench_etcd [-c CLIENTS] [-m CLIENTS_PER_CONNECTION] [-s SECONDS] [-k KEYS] [-b VALUE_BYTES] [-j]
 *	    put|fill|get|stale IP:PORT...
 *
 * HTTP/2 is libnghttp2's; the few protobuf fields are written by hand.  Prints the same line as bench_http.
 */
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "load.h"

#define IN_BYTES 65536
#define OUT_BYTES 65536
#define BODY_BYTES (LOAD_VALUE_MAX + 64)
#define FRAME_MAX (16384 + 9)		/* bytes of an HTTP/2 frame at its default limit */
#define GRPC_HEAD 5			/* compressed u8, length u32 big endian */

struct conn {
	struct load *l;
	ev_io io;
	nghttp2_session *session;
	size_t out_len, out_at;
	uint8_t out[OUT_BYTES];
};

/* One client: its call under way. */
struct client {
	struct conn *conn;
	struct mono sent;
	size_t body_len, body_at, answer_bytes;
	bool granted;				/* grpc-status 0 came */
	uint8_t body[BODY_BYTES];
};

static const uint8_t KEY = 1 << 3 | 2, VALUE = 2 << 3 | 2, SERIALIZABLE = 7 << 3 | 0;	/* field << 3 | wire type */

/* -- protobuf -- */

static size_t
put_bytes(uint8_t *out, uint8_t tag, const void *data, size_t len)
{
	size_t n = 0;

	out[n++] = tag;
	for (size_t v = len; ; v >>= 7) {
		out[n++] = (uint8_t)((v & 127) | (v > 127 ? 128 : 0));
		if (v <= 127)
			break;
	}
	memcpy(out + n, data, len);
	return n + len;
}

/* PutRequest { key, value } or RangeRequest { key, serializable }, behind gRPC's head. */
static void
write_body(struct client *c, const char *key)
{
	struct load *l = c->conn->l;
	char value[LOAD_VALUE_MAX];
	size_t n = GRPC_HEAD, len;

	n += put_bytes(c->body + n, KEY, key, strlen(key));
	if (l->mode == LOAD_PUT || l->mode == LOAD_FILL) {
		load_value(l, c->sent, value);
		n += put_bytes(c->body + n, VALUE, value, l->value_bytes);
	} else if (l->mode == LOAD_STALE) {
		c->body[n++] = SERIALIZABLE;
		c->body[n++] = 1;
	}
	len = n - GRPC_HEAD;
	memcpy(c->body, (uint8_t[]){ 0, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len },
	    GRPC_HEAD);
	c->body_len = n;
	c->body_at = c->answer_bytes = 0;
	c->granted = false;
}

/* -- calls -- */

static ssize_t
read_body(nghttp2_session *s, int32_t stream, uint8_t *out, size_t cap, uint32_t *flags, nghttp2_data_source *source,
    void *arg)
{
	struct client *c = source->ptr;
	size_t n = c->body_len - c->body_at;

	(void)s;
	(void)stream;
	(void)arg;
	if (n > cap)
		n = cap;
	memcpy(out, c->body + c->body_at, n);
	c->body_at += n;
	if (c->body_at == c->body_len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

#define NV(n, v) { (uint8_t *)(n), (uint8_t *)(v), sizeof(n) - 1, sizeof(v) - 1, \
	NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE }
#define CALL(path) { NV(":method", "POST"), NV(":scheme", "http"), NV(":path", path), NV(":authority", "etcd"), \
	NV("content-type", "application/grpc"), NV("te", "trailers") }
#define CALL_HEADERS 6

static void
next_call(struct client *c)
{
	static const nghttp2_nv put[] = CALL("/etcdserverpb.KV/Put"), range[] = CALL("/etcdserverpb.KV/Range");
	struct load *l = c->conn->l;
	nghttp2_data_provider body = { .source.ptr = c, .read_callback = read_body };
	char key[LOAD_KEY_CAP];

	if (!load_next(l, key, &c->sent))
		return;
	write_body(c, key);
	if (nghttp2_submit_request(c->conn->session, NULL, l->mode == LOAD_PUT || l->mode == LOAD_FILL ? put : range,
	    CALL_HEADERS, &body, c) < 0)
		load_lost(l, "no more streams");
}

static int
on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t name_len, const uint8_t *value,
    size_t value_len, uint8_t flags, void *arg)
{
	struct client *c = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);

	(void)flags;
	(void)arg;
	if (c != NULL && name_len == 11 && memcmp(name, "grpc-status", 11) == 0)
		c->granted = value_len == 1 && *value == '0';
	return 0;
}

static int
on_data(nghttp2_session *s, uint8_t flags, int32_t stream, const uint8_t *data, size_t len, void *arg)
{
	struct client *c = nghttp2_session_get_stream_user_data(s, stream);

	(void)flags;
	(void)data;
	(void)arg;
	if (c != NULL)
		c->answer_bytes += len;
	return 0;
}

static int
on_close(nghttp2_session *s, int32_t stream, uint32_t code, void *arg)
{
	struct client *c = nghttp2_session_get_stream_user_data(s, stream);
	struct load *l;
	bool reads;

	(void)arg;
	if (c == NULL)
		return 0;
	l = c->conn->l;
	reads = l->mode != LOAD_PUT && l->mode != LOAD_FILL;
	/* A key that is not there is answered without a value. */
	load_answer(l, c->sent, code == 0 && c->granted && (!reads || c->answer_bytes > l->value_bytes));
	next_call(c);
	return 0;
}

/* -- the connection -- */

/* Everything that wants to go goes with one system call. */
static void
flush_out(struct conn *c)
{
	const uint8_t *piece;
	ssize_t n;
	int events;

	do {
		while (c->out_len + FRAME_MAX < OUT_BYTES && (n = nghttp2_session_mem_send(c->session, &piece)) > 0) {
			memcpy(c->out + c->out_len, piece, (size_t)n);
			c->out_len += (size_t)n;
		}
		if (c->out_len == 0)
			break;
		n = send(c->io.fd, c->out + c->out_at, c->out_len - c->out_at, MSG_NOSIGNAL);
		if (n > 0)
			c->out_at += (size_t)n;
		if (c->out_at == c->out_len)
			c->out_at = c->out_len = 0;
	} while (n > 0 && nghttp2_session_want_write(c->session));
	events = c->out_len > 0 ? EV_READ | EV_WRITE : EV_READ;
	if ((c->io.events & (EV_READ | EV_WRITE)) == events)
		return;
	ev_io_stop(c->l->loop, &c->io);
	ev_io_set(&c->io, c->io.fd, events);
	ev_io_start(c->l->loop, &c->io);
}

static void
io_cb(struct ev_loop *loop, ev_io *w, int revents)
{
	struct conn *c = w->data;
	uint8_t in[IN_BYTES];
	ssize_t n;

	(void)loop;
	if (revents & EV_READ) {
		n = recv(w->fd, in, sizeof(in), 0);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			load_lost(c->l, n == 0 ? "closed by the server" : strerror(errno));
		if (n > 0 && nghttp2_session_mem_recv(c->session, in, (size_t)n) != n)
			load_lost(c->l, "not HTTP/2");
	}
	flush_out(c);
}

static void
conn_open(struct conn *c, struct load *l, unsigned number)
{
	nghttp2_session_callbacks *cbs;

	c->l = l;
	if (nghttp2_session_callbacks_new(&cbs) != 0)
		exit(1);
	nghttp2_session_callbacks_set_on_header_callback(cbs, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cbs, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(cbs, on_close);
	if (nghttp2_session_client_new(&c->session, cbs, c) != 0 || nghttp2_submit_settings(c->session, 0, NULL, 0) != 0)
		exit(1);
	nghttp2_session_callbacks_del(cbs);
	ev_io_init(&c->io, io_cb, load_connect(l, number), EV_READ);
	c->io.data = c;
	ev_io_start(l->loop, &c->io);
}

int
main(int argc, char **argv)
{
	struct load l;
	struct conn *conns;
	struct client *clients;
	unsigned conn_count;
	int status;

	load_init(&l, "bench_etcd", argc, argv);
	conn_count = (l.clients + l.per_conn - 1) / l.per_conn;
	conns = calloc(conn_count, sizeof(*conns));
	clients = calloc(l.clients, sizeof(*clients));
	if (conns == NULL || clients == NULL)
		return 1;
	for (unsigned i = 0; i < conn_count; i++)
		conn_open(&conns[i], &l, i);
	for (unsigned i = 0; i < l.clients; i++) {
		clients[i].conn = &conns[i % conn_count];
		next_call(&clients[i]);
	}
	for (unsigned i = 0; i < conn_count; i++)
		flush_out(&conns[i]);
	status = load_run(&l);
	for (unsigned i = 0; i < conn_count; i++)
		nghttp2_session_del(conns[i].session);
	free(clients);
	free(conns);
	return status;
}
