/*
 * Handshakes of TLS, one after the other, and idle sessions: the client of tests/bench/handshakes.
 *
 *	bench_tls [-2] full|resumed COUNT IP PORT	COUNT sessions; prints how many seconds they took
 *	bench_tls [-2] idle COUNT IP PORT		COUNT sessions with an answer each; prints "idle", and waits for the end of
 *							standard input
 *
 * -2: TLS 1.2, else 1.3.  Each session ends with close_notify.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"

static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
static SSL_SESSION *session;
static struct sockaddr_in to;

static void
fail(const char *what)
{
	perror(what);
	exit(1);
}

static int
on_session(SSL *ssl UNUSED, SSL_SESSION *fresh)
{
	if (session != NULL)
		return 0;
	session = fresh;
	return 1;
}

static SSL *
dial(SSL_CTX *ctx, bool resume)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	SSL *ssl = SSL_new(ctx);

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
		fail("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	SSL_set_fd(ssl, fd);
	if (resume) {
		SSL_SESSION *own = SSL_SESSION_dup(session);

		SSL_set_session(ssl, own);
		SSL_SESSION_free(own);
	}
	if (SSL_connect(ssl) != 1 || SSL_session_reused(ssl) != resume)
		fail("SSL_connect");
	return ssl;
}

/* An answer, and with it what the server sends after its handshake. */
static void
converse(SSL *ssl)
{
	char answer[4096];

	if (SSL_write(ssl, request, sizeof(request) - 1) <= 0 || SSL_read(ssl, answer, sizeof(answer)) <= 0)
		fail("SSL_read");
}

static void
hang_up(SSL *ssl)
{
	int fd = SSL_get_fd(ssl);

	SSL_shutdown(ssl);
	SSL_free(ssl);
	close(fd);
}

static void
make_sessions(SSL_CTX *ctx, bool resume, unsigned count)
{
	if (resume) {
		SSL *first = dial(ctx, false);

		converse(first);
		hang_up(first);
	}
	struct mono from = clock_mono();
	for (unsigned i = 0; i < count; i++)
		hang_up(dial(ctx, resume));
	printf("%.3f\n", mono_seconds(mono_sub(clock_mono(), from)));
}

static void
keep_sessions(SSL_CTX *ctx, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		converse(dial(ctx, false));
	puts("idle");
	fflush(stdout);
	while (getchar() != EOF)
		;
}

int
main(int argc, char **argv)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	int version = TLS1_3_VERSION;

	if (argc > 1 && strcmp(argv[1], "-2") == 0) {
		version = TLS1_2_VERSION;
		argv++, argc--;
	}
	if (argc != 5 || inet_aton(argv[3], &to.sin_addr) == 0) {
		fprintf(stderr, "usage: bench_tls [-2] full|resumed|idle COUNT IP PORT\n");
		return 2;
	}
	to.sin_family = AF_INET;
	to.sin_port = htons((uint16_t)atoi(argv[4]));
	SSL_CTX_set_min_proto_version(ctx, version);
	SSL_CTX_set_max_proto_version(ctx, version);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(ctx, on_session);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	if (strcmp(argv[1], "idle") == 0)
		keep_sessions(ctx, (unsigned)atoi(argv[2]));
	else
		make_sessions(ctx, strcmp(argv[1], "resumed") == 0, (unsigned)atoi(argv[2]));
	SSL_CTX_free(ctx);
	return 0;
}
