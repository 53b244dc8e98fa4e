/* What each client has open: addresses of both families, and which of them are one client. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "rpcd/http/client_limits.h"

static struct sockaddr_storage
address(const char *text)
{
	struct sockaddr_storage s = { .ss_family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET };
	void *to = s.ss_family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)(void *)&s)->sin6_addr :
	    (void *)&((struct sockaddr_in *)(void *)&s)->sin_addr;

	ck_assert_int_eq(inet_pton(s.ss_family, text, to), 1);
	return s;
}

static struct client *
take(struct client_limits *c, const char *text)
{
	struct sockaddr_storage from = address(text);

	return client_limits_take(c, (struct sockaddr *)&from);
}

START_TEST(who_is_one_client)
{
	static const struct { const char *a, *b; bool same; } v[] = {
		{ "10.0.0.1", "10.0.0.1", true }, { "10.0.0.1", "10.0.0.2", false },
		{ "10.0.0.1", "::ffff:10.0.0.1", true }, { "::ffff:10.0.0.1", "::ffff:10.0.0.2", false },
		{ "2001:db8:1:2::1", "2001:db8:1:2:ffff::2", true }, { "2001:db8:1:2::1", "2001:db8:1:3::1", false },
		{ "::1", "::2", true },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct client_limits *c = client_limits_new();
		struct client *a = take(c, v[i].a), *b = take(c, v[i].b);

		ck_assert_msg((a == b) == v[i].same, "%s %s", v[i].a, v[i].b);
		ck_assert_uint_eq(client_count(a), v[i].same ? 2 : 1);
		*client_bytes(a) += 5;
		ck_assert_uint_eq(*client_bytes(b), v[i].same ? 5 : 0);
		client_limits_release(c, a);
		client_limits_release(c, b);
		client_limits_free(c);	/* aborts if one was left */
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("clients");
	TCase *tc = tcase_create("clients");
	SRunner *sr;
	int failed;

	tcase_add_test(tc, who_is_one_client);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
