/* The head of an answer: the same bytes whether libmicrohttpd writes it or we do. */
#include <check.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rpcd/http/response_head.h"

struct road {
	const struct rpcd_conf *conf;
	struct answer *answer;
	bool close_after;
};

static void
add_field(void *ctx, const char *name, const char *value)
{
	(void)MHD_add_response_header(ctx, name, value);
}

static enum MHD_Result
answer_it(void *cls, struct MHD_Connection *mhd, const char *url, const char *method, const char *version,
    const char *upload, size_t *upload_len, void **con_cls)
{
	struct road *road = cls;
	struct MHD_Response *response;
	enum MHD_Result queued;

	(void)url, (void)method, (void)version, (void)upload, (void)upload_len;
	if (*con_cls == NULL) {		/* the head alone */
		*con_cls = road;
		return MHD_YES;
	}
	response = MHD_create_response_from_buffer(road->answer->body.len, road->answer->body.data,
	    MHD_RESPMEM_PERSISTENT);
	response_head_fields(road->conf, road->answer, add_field, response);
	if (road->close_after)
		(void)MHD_add_response_header(response, "Connection", "close");
	queued = MHD_queue_response(mhd, road->answer->status, response);
	MHD_destroy_response(response);
	return queued;
}

/* What libmicrohttpd sends for this request. */
static size_t
library(struct road *road, const char *request, char *out, size_t cap)
{
	static const struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	struct MHD_Daemon *daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_TURBO | MHD_USE_NO_LISTEN_SOCKET, 0,
	    NULL, NULL, answer_it, road, MHD_OPTION_END);
	int pair[2];
	size_t len = 0;
	ssize_t n = -1;

	ck_assert_ptr_nonnull(daemon);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	ck_assert_int_eq(MHD_add_connection(daemon, pair[0], &nobody, sizeof(nobody)), MHD_YES);
	ck_assert_int_eq(write(pair[1], request, strlen(request)), (ssize_t)strlen(request));
	for (unsigned runs = 0; runs < 20; runs++) {
		ck_assert_int_eq(MHD_run(daemon), MHD_YES);
		while ((n = read(pair[1], out + len, cap - 1 - len)) > 0)
			len += (size_t)n;
	}
	out[len] = '\0';
	close(pair[1]);
	MHD_stop_daemon(daemon);
	return len;
}

/* The clock may turn between the two. */
static void
blank_date(char *text)
{
	char *date = strstr(text, "\r\nDate: ");

	ck_assert_ptr_nonnull(date);
	ck_assert_int_eq(strncmp(date + 8 + 29, "\r\n", 2), 0);
	for (unsigned i = 0; i < 29; i++)
		if (date[8 + i] != ' ' && date[8 + i] != ',' && date[8 + i] != ':')
			date[8 + i] = '-';
}

static void
same(const struct rpcd_conf *conf, struct answer *a, const char *version, const char *connection, bool close_after,
    enum response_head_keep keep)
{
	struct road road = { conf, a, close_after };
	struct buf own = BUF_INIT(1 << 20);
	char request[256], theirs[65536], ours[65536];

	snprintf(request, sizeof(request), "GET / HTTP/%s\r\nHost: x\r\n%s\r\n", version, connection);
	library(&road, request, theirs, sizeof(theirs));
	response_head_write(&own, conf, a, keep);
	if (a->status != 204)
		buf_put(&own, a->body.data, a->body.len);
	snprintf(ours, sizeof(ours), "%s", buf_cstr(&own));
	blank_date(theirs);
	blank_date(ours);
	ck_assert_str_eq(ours, theirs);
	buf_done(&own);
}

static struct conf_list
lines(char **items, size_t count)
{
	return (struct conf_list){ .items = items, .count = count };
}

START_TEST(both_roads_write_the_same)
{
	char server[] = "Server: x", odd[] = "X-Empty:", spaced[] = "X-Spaced:    two words ";
	char *items[] = { server, odd, spaced };
	struct rpcd_conf bare = { .http_port = 0 }, more = { .response_headers = lines(items, 3) };
	struct answer_header headers[] = {
		{ "X-Consul-Index", "42" }, { "X-Consul-KnownLeader", "true" }, { "X-Nothing", "" },
		{ "X-Split", "a\r\nSet-Cookie: b" }, { "X-Tab", "a\tb" }, { "Content-Type", "application/json" },
		{ "Vary", "Accept-Encoding" },
	};
	unsigned statuses[] = { 200, 204, 301, 400, 403, 404, 413, 429, 500, 503, 599 };

	for (unsigned i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		for (unsigned body = 0; body < 2; body++) {
			struct answer a = {
				.status = statuses[i], .headers = headers, .header_count = 7, .body = BUF_INIT(1000),
			};

			if (body > 0)
				buf_puts(&a.body, "[{\"Key\":\"k\"}]\n");
			same(&bare, &a, "1.1", "", false, HEAD_KEEP);
			same(&more, &a, "1.1", "", false, HEAD_KEEP);
			same(&more, &a, "1.1", "Connection: close\r\n", false, HEAD_CLOSE);
			same(&more, &a, "1.1", "", true, HEAD_CLOSE);
			same(&bare, &a, "1.0", "", false, HEAD_CLOSE);
			same(&bare, &a, "1.0", "Connection: Keep-Alive\r\n", false, HEAD_KEEP_10);
			same(&bare, &a, "1.0", "Connection: keep-alive, close\r\n", false, HEAD_CLOSE);
			same(&bare, &a, "1.0", "Connection: keep-alive\r\n", true, HEAD_CLOSE);
			a.header_count = 0;
			same(&bare, &a, "1.1", "Connection: Foo\r\n", false, HEAD_KEEP);
			buf_done(&a.body);
		}
}
END_TEST

/* Both roads, once: also where the configuration sets it. */
START_TEST(no_sniffing)
{
	char other[] = "x-content-type-options: none";
	char *items[] = { other };
	struct rpcd_conf bare = { .http_port = 0 }, set = { .response_headers = lines(items, 1) };
	static const struct { bool set; const char *line; } v[] = {
		{ false, "\r\nX-Content-Type-Options: nosniff\r\n" }, { true, "\r\nx-content-type-options: none\r\n" },
	};

	for (unsigned i = 0; i < 2; i++) {
		const struct rpcd_conf *conf = v[i].set ? &set : &bare;
		struct answer a = { .status = 200, .body = BUF_INIT(1000) };
		struct road road = { conf, &a, false };
		struct buf own = BUF_INIT(1 << 20);
		char theirs[65536];

		library(&road, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", theirs, sizeof(theirs));
		response_head_write(&own, conf, &a, HEAD_KEEP);
		ck_assert_ptr_nonnull(strstr(theirs, v[i].line));
		ck_assert_ptr_nonnull(strstr(buf_cstr(&own), v[i].line));
		ck_assert(!v[i].set || strstr(theirs, "nosniff") == NULL);
		same(conf, &a, "1.1", "", false, HEAD_KEEP);
		buf_done(&own);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("head");
	TCase *tc = tcase_create("head");
	SRunner *sr;
	int failed;

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, both_roads_write_the_same);
	tcase_add_test(tc, no_sniffing);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
