/*
 * The bytes of connections.  A look at one reads what has come into h->peek; what is not taken of it is carried over to
 * the next look in memory of the connection, which is there only as long as it holds something: the beginning of a
 * head, requests behind the one under way, what the reader of a body did not take yet.
 *
 * So what may be carried is bounded: nothing is read while a whole head, or a part of a body, is still there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "rpcd/http/http_int.h"

/* -- from and to the socket ------------------------------------------------ */

ssize_t
conn_read(struct conn *c, void *dst, size_t room)
{
	ssize_t n = c->tls != NULL ? tls_conn_seal.read(c->tls, dst, room) :
	    stream_socket_read(c->fd, dst, room, false);

	/* What comes behind a short read is told of; but for an end that was told of before. */
	if (n >= 0)
		c->more = c->ended || (c->tls != NULL ? tls_may_have_more(c->tls) : (size_t)n == room);
	else if (errno == EAGAIN || errno == EINTR)
		c->more = errno == EINTR;
	return n;
}

ssize_t
conn_write(struct conn *c, struct iovec *parts, size_t count)
{
	if (c->tls == NULL)
		return stream_socket_write(c->fd, parts, count);
	while (count > 1 && parts->iov_len == 0) {
		parts++;
		count--;
	}
	return tls_conn_seal.write(c->tls, parts->iov_base, parts->iov_len);
}

bool
conn_has_news(const struct conn *c)
{
	char byte;			/* of a record, if it is sealed */

	if (c->carried != NULL || c->more)
		return c->carried == NULL || c->carried->head == NULL;
	return stream_socket_read(c->fd, &byte, 1, true) > 0;
}

/* -- what is carried over --------------------------------------------------- */

void
conn_drop_carried(struct http *h, struct conn *c)
{
	struct carried *k = c->carried;

	if (k == NULL)
		return;
	h->stats.carried_bytes -= k->bytes.cap;
	buf_done(&k->bytes);
	free(k->head);
	free(k);
	c->carried = NULL;
}

static struct carried *
carry(struct http *h, struct conn *c)
{
	if (c->carried == NULL && (c->carried = calloc(1, sizeof(*c->carried))) != NULL) {
		buf_init(&c->carried->bytes, h->peek_cap);
		c->carried->bytes.secret = true;	/* a token, a value */
	}
	return c->carried;
}

struct http_head *
conn_carry_head(struct http *h, struct conn *c, const struct http_head *head)
{
	struct carried *k = carry(h, c);

	if (k == NULL || (k->head = malloc(sizeof(*k->head))) == NULL)
		return NULL;
	*k->head = *head;
	return k->head;
}

/* -- looks -------------------------------------------------------------------- */

void
look_begin(struct http *h, struct conn *c)
{
	struct look *l = &h->look;

	TV_ASSERT(l->conn == NULL);
	*l = (struct look){ .conn = c, .bytes = h->peek };
	if (c->carried == NULL)
		return;
	l->len = l->kept = l->used = c->carried->bytes.len;
	if (l->len > 0)
		memcpy(l->bytes, c->carried->bytes.data, l->len);
}

/* Behind the bytes that are there is room for so many more. */
static void
make_space(struct http *h, size_t room)
{
	struct look *l = &h->look;
	size_t before = (size_t)(l->bytes - h->peek);

	TV_ASSERT(l->len + room <= h->peek_cap);
	if (before + l->len + room <= h->peek_cap)
		return;
	memmove(h->peek, l->bytes, l->len);
	l->bytes = h->peek;
	l->kept = 0;
}

bool
look_read(struct http *h, size_t room)
{
	struct look *l = &h->look;
	ssize_t n;

	if (!l->conn->more)
		return false;
	if (room > h->peek_cap - l->len)
		room = h->peek_cap - l->len;
	make_space(h, room);
	n = conn_read(l->conn, l->bytes + l->len, room);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		conn_end(h, l->conn);
		return false;
	}
	l->len += (size_t)n;
	if ((size_t)(l->bytes - h->peek) + l->len > l->used)
		l->used = (size_t)(l->bytes - h->peek) + l->len;
	return true;
}

void
look_take(struct http *h, size_t n)
{
	struct look *l = &h->look;

	TV_ASSERT(n <= l->len);
	l->bytes += n;
	l->len -= n;
	if (n > 0)
		l->kept = 0;
}

/* What was not taken cannot be kept.  An answer in the queue still leaves; one on its way breaks off. */
static bool
give_up(struct http *h, struct conn *c)
{
	if (c->state == CONN_READY) {
		conn_drop_carried(h, c);
		c->unread = true;
		c->x->keep = HEAD_CLOSE;
		return true;
	}
	if (c->answer != NULL)
		http_send_cut(h, c);
	else
		conn_end(h, c);
	return false;
}

/* What was not taken.  A head that comes byte by byte only grows.  False: the connection has ended. */
static bool
keep_rest(struct http *h, struct look *l)
{
	struct conn *c = l->conn;
	struct carried *k;

	if (l->len == 0 || c->state == CONN_LINGER) {
		conn_drop_carried(h, c);
		return true;
	}
	k = carry(h, c);
	if (k == NULL)
		return give_up(h, c);
	h->stats.carried_bytes -= k->bytes.cap;
	if (l->kept == 0)
		buf_reset(&k->bytes);
	buf_put(&k->bytes, l->bytes + l->kept, l->len - l->kept);
	h->stats.carried_bytes += k->bytes.cap;
	if (!k->bytes.failed && h->stats.carried_bytes <= h->conf.conf->bodies_bytes_max)
		return true;
	return give_up(h, c);
}

bool
look_done(struct http *h)
{
	struct look *l = &h->look;
	bool lives = l->conn != NULL && keep_rest(h, l);

	explicit_bzero(h->peek, l->used);
	*l = (struct look){ .conn = NULL };
	return lives;
}
