/*
 * Closed-loop load over HTTP: each client has a kept connection with one request under way, to one or more servers with
 * Consul's API.
 *
 *	bench_http [-c CLIENTS] [-s SECONDS] [-k KEYS] [-b VALUE_BYTES] [-p PATH] [-a CA_FILE] [-j] put|fill|get|consistent|stale IP:PORT...
 *
 * -p: what is read is this in place of keys, as /v1/health/service/web.  -a: HTTPS, of servers with certificates by these CAs.
 * Prints one line (-j: a JSON object): requests/s, p50, p99 and max latency in microseconds, errors.  A first second is not
 * counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "load.h"

#define IN_BYTES 65536
#define OUT_BYTES 4096

struct conn {
	struct load *l;
	SSL *ssl;			/* NULL: plain HTTP */
	ev_io io;
	struct mono sent;
	size_t out_len, out_at, in_len;
	char out[OUT_BYTES], in[IN_BYTES];
};

static const char *const QUERY[] = { [LOAD_GET] = "", [LOAD_CONSISTENT] = "?consistent", [LOAD_STALE] = "?stale" };

static bool
next_request(struct conn *c)
{
	struct load *l = c->l;
	const char *header = l->token == NULL ? "" : "\r\nX-Consul-Token: ", *token = l->token == NULL ? "" : l->token;
	char key[LOAD_KEY_CAP];
	size_t n;

	if (!load_next(l, key, &c->sent))
		return false;
	if (l->mode == LOAD_PUT || l->mode == LOAD_FILL) {
		n = (size_t)snprintf(c->out, sizeof(c->out), "PUT /v1/kv/%s HTTP/1.1\r\nHost: b%s%s\r\nContent-Length: %u\r\n\r\n",
		    key, header, token, l->value_bytes);
		load_value(l, c->sent, c->out + n);
		n += l->value_bytes;
	} else if (l->path != NULL) {
		n = (size_t)snprintf(c->out, sizeof(c->out), "GET %s%s HTTP/1.1\r\nHost: b%s%s\r\n\r\n", l->path, QUERY[l->mode],
		    header, token);
	} else {
		n = (size_t)snprintf(c->out, sizeof(c->out), "GET /v1/kv/%s%s HTTP/1.1\r\nHost: b%s%s\r\n\r\n", key, QUERY[l->mode],
		    header, token);
	}
	c->out_len = n;
	c->out_at = c->in_len = 0;
	return true;
}

/* Length of the whole answer that starts at c->in, or 0 while it is not all there. */
static size_t
answer_len(struct conn *c, bool *ok)
{
	char *end, *len;

	c->in[c->in_len] = '\0';
	end = strstr(c->in, "\r\n\r\n");
	if (end == NULL)
		return 0;
	*ok = strncmp(c->in + 9, "200", 3) == 0;
	len = strcasestr(c->in, "\r\ncontent-length:");
	if (len == NULL || len > end)
		load_lost(c->l, "answer without Content-Length");
	return (size_t)(end - c->in) + 4 + strtoul(len + 17, NULL, 10);
}

/* As recv() and send() of a socket that does not block.  -1 with EAGAIN: not now. */
static ssize_t
sealed_result(const SSL *ssl, int n)
{
	if (n > 0)
		return n;
	errno = EAGAIN;
	switch (SSL_get_error(ssl, n)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	default:
		errno = ECONNRESET;
		return -1;
	}
}

static ssize_t
conn_write(struct conn *c, const char *bytes, size_t n)
{
	return c->ssl == NULL ? send(c->io.fd, bytes, n, MSG_NOSIGNAL) : sealed_result(c->ssl, SSL_write(c->ssl, bytes, (int)n));
}

static ssize_t
conn_read(struct conn *c, char *room, size_t n)
{
	return c->ssl == NULL ? recv(c->io.fd, room, n, 0) : sealed_result(c->ssl, SSL_read(c->ssl, room, (int)n));
}

static void
flush_out(struct conn *c)
{
	ssize_t n = conn_write(c, c->out + c->out_at, c->out_len - c->out_at);
	int events;

	if (n > 0)
		c->out_at += (size_t)n;
	events = c->out_at < c->out_len ? EV_READ | EV_WRITE : EV_READ;
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
	ssize_t n;
	bool ok = false;
	size_t whole;

	(void)loop;
	if (revents & EV_WRITE)
		flush_out(c);
	if (!(revents & EV_READ))
		return;
	n = conn_read(c, c->in + c->in_len, sizeof(c->in) - 1 - c->in_len);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		load_lost(c->l, n == 0 ? "closed by the server" : strerror(errno));
	c->in_len += (size_t)n;
	whole = answer_len(c, &ok);
	if (whole == 0 || c->in_len < whole)
		return;
	load_answer(c->l, c->sent, ok);
	if (next_request(c))
		flush_out(c);
}

/* NULL: plain HTTP. */
static SSL_CTX *
context_new(const struct load *l)
{
	SSL_CTX *ctx = l->ca_file == NULL ? NULL : SSL_CTX_new(TLS_client_method());

	if (ctx == NULL)
		return NULL;
	if (SSL_CTX_load_verify_file(ctx, l->ca_file) != 1)
		load_lost(l, "no CAs in the file of -a");
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return ctx;
}

/* Before the clock runs: it waits for the handshake. */
static void
conn_seal(struct conn *c, SSL_CTX *ctx)
{
	int flags = fcntl(c->io.fd, F_GETFL);

	c->ssl = SSL_new(ctx);
	if (c->ssl == NULL || fcntl(c->io.fd, F_SETFL, flags & ~O_NONBLOCK) != 0 || SSL_set_fd(c->ssl, c->io.fd) != 1 ||
	    SSL_connect(c->ssl) != 1 || fcntl(c->io.fd, F_SETFL, flags) != 0)
		load_lost(c->l, "no handshake");
}

int
main(int argc, char **argv)
{
	struct load l;
	struct conn *conns;
	SSL_CTX *ctx;
	int status;

	load_init(&l, "bench_http", argc, argv);
	ctx = context_new(&l);
	conns = calloc(l.clients, sizeof(*conns));
	if (conns == NULL)
		return 1;
	for (unsigned i = 0; i < l.clients; i++) {
		conns[i].l = &l;
		ev_io_init(&conns[i].io, io_cb, load_connect(&l, i), EV_READ);
		conns[i].io.data = &conns[i];
		if (ctx != NULL)
			conn_seal(&conns[i], ctx);
		ev_io_start(l.loop, &conns[i].io);
		if (next_request(&conns[i]))
			flush_out(&conns[i]);
	}
	status = load_run(&l);
	for (unsigned i = 0; i < l.clients; i++)
		SSL_free(conns[i].ssl);
	SSL_CTX_free(ctx);
	free(conns);
	return status;
}
