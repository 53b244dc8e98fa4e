/* The life of the HTTP transport. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "rpcd/api/park.h"
#include "rpcd/http/h2_conns.h"

#define PEEK_BODY_BYTES 65536		/* of a body, with its head */

struct http *
http_new(const struct http_conf *conf)
{
	struct http *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	h->conf = *conf;
	h->epoll = -1;
	TAILQ_INIT(&h->bodies);
	http_send_init(h);
	h->peek_cap = (size_t)conf->conf->header_bytes_max + PEEK_BODY_BYTES;
	h->peek = malloc(h->peek_cap);
	if (h->peek != NULL && h2_conns_init(h) && conns_init(h) == TV_OK)
		return h;
	http_free(h);
	return NULL;
}

enum tv_err
http_listen(struct http *h, int fd, struct tls_server *tls)
{
	struct listener_http *l = calloc(1, sizeof(*l));
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);

	if (l == NULL) {
		close(fd);
		return TV_ENOMEM;
	}
	l->http = h;
	l->tls = tls;
	l->is_unix = getsockname(fd, (struct sockaddr *)&own, &len) == 0 && own.ss_family == AF_UNIX;
	l->next = h->listeners;
	h->listeners = l;
	return conns_accept(l, fd);
}

void
http_quiesce(struct http *h)
{
	h->quiet = true;
	for (struct listener_http *l = h->listeners; l != NULL; l = l->next)
		conns_accept_stop(l);
	h2_conns_quiesce(h);
}

/* Is it one that ends soon? */
static bool
is_under_way(const struct exchange *x)
{
	return x->phase == EXCHANGE_WAIT ? !exchange_waits_long(x) :
	    x->phase != EXCHANGE_STREAM || x->req->stream_bytes > 0;
}

bool
http_settled(const struct http *h)
{
	const struct request *r;

	LIST_FOREACH(r, &h->conf.api->live, live)
		if (is_under_way(r->transport))
			return false;
	return !conns_are_sending(h);
}

static void
end_requests(struct http *h)
{
	api_unpark_all(h->conf.api);
	for (struct request *r = LIST_FIRST(&h->conf.api->live), *next; r != NULL; r = next) {
		next = LIST_NEXT(r, live);			/* r may be freed */
		api_cancel(r);
		if (!r->answered)
			answer_text(r, 500, "rpcd is stopping");
		r->ready(r);
	}
	http_send_flush(h);
}

void
http_free(struct http *h)
{
	struct listener_http *l;

	if (h == NULL)
		return;
	h->stopping = true;
	for (l = h->listeners; l != NULL; l = l->next)
		conns_accept_stop(l);
	end_requests(h);
	conns_done(h);
	h2_conns_done(h);
	http_send_done(h);
	while ((l = h->listeners) != NULL) {
		h->listeners = l->next;
		conns_free(l);
	}
	exchange_free_spares(h);
	TV_ASSERT(h->open.now == 0);
	map_done(&h->clients);
	free(h->peek);
	free(h);
}

void
http_stats(const struct http *h, struct http_stats *out)
{
	*out = h->stats;
	out->conns = h->open.now;
	h2_conns_stats(h, out);
	for (const struct listener_http *l = h->listeners; l != NULL; l = l->next)
		out->refused_busy += l->door == NULL ? 0 : listener_refused(l->door);
}
