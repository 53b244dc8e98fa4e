/* The head of an answer, byte by byte: as clients have got it since the first version. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpcd/http/response_head.h"

/* Any date is one date. */
static void
blank_date(char *text)
{
	char *date = strstr(text, "\r\nDate: ");

	ck_assert_ptr_nonnull(date);
	ck_assert_int_eq(strncmp(date + 8 + 29, "\r\n", 2), 0);
	memmove(date + 8, date + 8 + 29, strlen(date + 8 + 29) + 1);
}

static void
is_head(const struct rpcd_conf *conf, const struct answer *a, enum response_head_keep keep, uint64_t bytes,
    const char *expected)
{
	struct buf own = BUF_INIT(1 << 20);
	char ours[65536];

	response_head_write(&own, conf, a, keep, bytes);
	snprintf(ours, sizeof(ours), "%s", buf_cstr(&own));
	blank_date(ours);
	ck_assert_str_eq(ours, expected);
	buf_done(&own);
}

static struct conf_list
lines(char **items, size_t count)
{
	return (struct conf_list){ .items = items, .count = count };
}

#define OWN "X-Consul-Index: 42\r\nX-Consul-KnownLeader: true\r\nX-Tab: a\tb\r\nContent-Type: application/json\r\n" \
	"Vary: Accept-Encoding\r\n"
#define SNIFF "X-Content-Type-Options: nosniff\r\n"

/* Headers without a value, and those that would be two, are left out. */
START_TEST(headers_in_their_order)
{
	char server[] = "Server: x", odd[] = "X-Empty:", spaced[] = "X-Spaced:    two words ";
	char *items[] = { server, odd, spaced };
	struct rpcd_conf bare = { .http_port = 0 }, more = { .response_headers = lines(items, 3) };
	struct answer_header headers[] = {
		{ "X-Consul-Index", "42" }, { "X-Consul-KnownLeader", "true" }, { "X-Nothing", "" },
		{ "X-Split", "a\r\nSet-Cookie: b" }, { "X-Tab", "a\tb" }, { "Content-Type", "application/json" },
		{ "Vary", "Accept-Encoding" },
	};
	struct answer a = { .status = 200, .headers = headers, .header_count = 7 };

	is_head(&bare, &a, HEAD_KEEP, 14, "HTTP/1.1 200 OK\r\nDate: \r\n" OWN SNIFF "Content-Length: 14\r\n\r\n");
	is_head(&bare, &a, HEAD_CLOSE, 0, "HTTP/1.1 200 OK\r\nDate: \r\nConnection: close\r\n" OWN SNIFF
	    "Content-Length: 0\r\n\r\n");
	is_head(&more, &a, HEAD_KEEP_10, 1, "HTTP/1.1 200 OK\r\nDate: \r\nConnection: Keep-Alive\r\n" OWN
	    "Server: x\r\nX-Spaced: two words \r\n" SNIFF "Content-Length: 1\r\n\r\n");
	a.header_count = 0;
	is_head(&bare, &a, HEAD_CLOSE, HEAD_CHUNKED, "HTTP/1.1 200 OK\r\nDate: \r\nConnection: close\r\n" SNIFF
	    "Transfer-Encoding: chunked\r\n\r\n");
	is_head(&bare, &a, HEAD_CLOSE, HEAD_TO_END, "HTTP/1.1 200 OK\r\nDate: \r\nConnection: close\r\n" SNIFF "\r\n");
	is_head(&bare, &a, HEAD_KEEP, (uint64_t)5 << 32, "HTTP/1.1 200 OK\r\nDate: \r\n" SNIFF
	    "Content-Length: 21474836480\r\n\r\n");
	a.status = 204;
	is_head(&bare, &a, HEAD_KEEP, 0, "HTTP/1.1 204 No Content\r\nDate: \r\n" SNIFF "\r\n");
}
END_TEST

START_TEST(names_of_statuses)
{
	static const struct { unsigned status; const char *line; } v[] = {
		{ 301, "301 Moved Permanently" }, { 400, "400 Bad Request" }, { 403, "403 Forbidden" },
		{ 404, "404 Not Found" }, { 405, "405 Method Not Allowed" }, { 409, "409 Conflict" },
		{ 413, "413 Content Too Large" }, { 414, "414 URI Too Long" }, { 415, "415 Unsupported Media Type" },
		{ 429, "429 Too Many Requests" }, { 431, "431 Request Header Fields Too Large" },
		{ 500, "500 Internal Server Error" }, { 503, "503 Service Unavailable" },
		{ 505, "505 HTTP Version Not Supported" }, { 599, "599 Non-Standard Status" },
	};
	struct rpcd_conf bare = { .http_port = 0 };

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct answer a = { .status = v[i].status };
		char expected[256];

		snprintf(expected, sizeof(expected), "HTTP/1.1 %s\r\nDate: \r\n" SNIFF "Content-Length: 0\r\n\r\n",
		    v[i].line);
		is_head(&bare, &a, HEAD_KEEP, 0, expected);
	}
}
END_TEST

/* Also where the configuration sets it. */
START_TEST(no_sniffing)
{
	char other[] = "x-content-type-options: none";
	char *items[] = { other };
	struct rpcd_conf set = { .response_headers = lines(items, 1) };
	struct answer a = { .status = 200 };

	is_head(&set, &a, HEAD_KEEP, 0, "HTTP/1.1 200 OK\r\nDate: \r\nx-content-type-options: none\r\n"
	    "Content-Length: 0\r\n\r\n");
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
	tcase_add_test(tc, headers_in_their_order);
	tcase_add_test(tc, names_of_statuses);
	tcase_add_test(tc, no_sniffing);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
