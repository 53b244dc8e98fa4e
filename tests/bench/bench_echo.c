/*
 * What libmicrohttpd on libev can do at best: a server that answers every request with the same bytes, with the options of
 * rpcd (rpcd/http/http.c), and nothing behind it.
 *
 *	bench_echo IP PORT [ANSWER_BYTES]
 */
#include <arpa/inet.h>
#include <ev.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CONNS_MAX 8192
#define POOL_BYTES 20480		/* near rpcd's: header_bytes_max and some */

struct echo {
	struct MHD_Daemon *daemon;
	struct MHD_Response *answer;
	ev_io io;
	ev_timer timer;
};

static enum MHD_Result
on_request(void *cls, struct MHD_Connection *c, const char *url, const char *method, const char *version, const char *data,
    size_t *len, void **ctx)
{
	struct echo *e = cls;
	static int seen;

	(void)url;
	(void)method;
	(void)version;
	(void)data;
	if (*ctx == NULL || *len > 0) {		/* the head; then pieces of the body */
		*ctx = &seen;
		*len = 0;
		return MHD_YES;
	}
	return MHD_queue_response(c, 200, e->answer);
}

static void
run(struct echo *e)
{
	(void)MHD_run(e->daemon);
}

static void
on_io(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	run(w->data);
}

static void
on_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	run(w->data);
}

static int
listen_on(const char *ip, const char *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0 || inet_pton(AF_INET, ip, &at.sin_addr) != 1 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 1024) != 0) {
		perror("bench_echo");
		exit(1);
	}
	return fd;
}

int
main(int argc, char **argv)
{
	struct ev_loop *loop = ev_default_loop(0);
	struct echo e = { 0 };
	size_t bytes = argc > 3 ? (size_t)atoi(argv[3]) : 400;
	char *body;

	if (argc < 3 || bytes == 0 || (body = malloc(bytes)) == NULL) {
		fprintf(stderr, "usage: bench_echo IP PORT [ANSWER_BYTES]\n");
		return 2;
	}
	memset(body, 'x', bytes);
	e.answer = MHD_create_response_from_buffer(bytes, body, MHD_RESPMEM_MUST_FREE);
	e.daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, &e,
	    MHD_OPTION_LISTEN_SOCKET, listen_on(argv[1], argv[2]), MHD_OPTION_CONNECTION_LIMIT, CONNS_MAX,
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	if (e.answer == NULL || e.daemon == NULL) {
		fprintf(stderr, "bench_echo: libmicrohttpd does not start\n");
		return 1;
	}
	ev_io_init(&e.io, on_io, MHD_get_daemon_info(e.daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, EV_READ);
	ev_timer_init(&e.timer, on_timer, 0.25, 0.25);
	e.io.data = e.timer.data = &e;
	ev_io_start(loop, &e.io);
	ev_timer_start(loop, &e.timer);
	ev_run(loop, 0);
	return 0;
}
