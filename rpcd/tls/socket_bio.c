/*
 * A session's bytes, as a BIO of OpenSSL: those of the socket, which raise no signal; but while a thread has the
 * session nothing is read, and what is written waits in memory.
 */
#include <errno.h>

#include "rpcd/tls/tls_int.h"

/*
 * Bytes of the socket for one step of a session: two records, one of which may have no data; a handshake needs these
 * for a client's certificates.  More are a flood of records without data (keys that are renewed, RFC 8446, 4.6.3), and
 * would keep the loop: each costs more than its few bytes say.
 */
#define STEP_BYTES_MAX (36u << 10)

static int
wire_read(BIO *bio, char *dst, size_t room, size_t *got)
{
	struct tls_conn *t = BIO_get_data(bio);
	ssize_t n;

	BIO_clear_retry_flags(bio);
	if (t->away != NULL && t->away->in_thread) {
		errno = EAGAIN;
		BIO_set_retry_read(bio);
		return 0;
	}
	if (t->step_bytes >= STEP_BYTES_MAX) {
		errno = EPROTO;
		return 0;
	}
	n = stream_socket_read(t->fd, dst, room, false);
	t->drained = n < (ssize_t)room;
	if (n > 0) {
		t->step_bytes += (uint32_t)n;
		*got = (size_t)n;
		return 1;
	}
	if (n == 0)
		t->ended = true;
	else if (errno == EAGAIN || errno == EINTR)
		BIO_set_retry_read(bio);
	return 0;
}

static int
write_memory(struct away *a, const char *src, size_t n, size_t *done)
{
	buf_put(&a->out, src, n);
	if (a->out.failed)
		return 0;
	*done = n;
	return 1;
}

static int
wire_write(BIO *bio, const char *src, size_t n, size_t *done)
{
	struct tls_conn *t = BIO_get_data(bio);
	struct iovec part = { (void *)src, n };
	ssize_t sent;

	BIO_clear_retry_flags(bio);
	if (t->away != NULL && t->away->in_thread)
		return write_memory(t->away, src, n, done);
	sent = stream_socket_write(t->fd, &part, 1);
	if (sent >= 0) {
		*done = (size_t)sent;
		return 1;
	}
	if (errno == EAGAIN || errno == EINTR)
		BIO_set_retry_write(bio);
	return 0;
}

static long
wire_control(BIO *bio, int what, long number UNUSED, void *arg UNUSED)
{
	const struct tls_conn *t = BIO_get_data(bio);

	if (what == BIO_CTRL_EOF)
		return t->ended;
	return what == BIO_CTRL_FLUSH;
}

BIO_METHOD *
wire_method_new(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "rpcd");

	if (m != NULL && BIO_meth_set_read_ex(m, wire_read) == 1 && BIO_meth_set_write_ex(m, wire_write) == 1 &&
	    BIO_meth_set_ctrl(m, wire_control) == 1)
		return m;
	BIO_meth_free(m);
	return NULL;
}

BIO *
wire_new(const struct tls_conn *t)
{
	BIO *bio = BIO_new(t->server->wire);

	if (bio != NULL) {
		BIO_set_data(bio, (void *)t);
		BIO_set_init(bio, 1);
	}
	return bio;
}

bool
wire_flush(struct tls_conn *t)
{
	struct buf *out = &t->away->out;

	while (out->len > 0) {
		struct iovec part = { out->data, out->len };
		ssize_t n = stream_socket_write(t->fd, &part, 1);

		if (n < 0)
			return errno != EAGAIN && errno != EINTR;	/* the session finds out */
		buf_drop(out, (size_t)n);
	}
	return true;
}
