/* Where rpcd is reached, from options and the environment: addresses in every spelling, and what asks for TLS. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/endpoint.h"

static const char *const variables[] = {
	"TRIUMVIR_ADDR", "CONSUL_HTTP_ADDR", "TRIUMVIR_SSL", "CONSUL_HTTP_SSL", "TRIUMVIR_SSL_VERIFY",
	"CONSUL_HTTP_SSL_VERIFY", "TRIUMVIR_CACERT", "CONSUL_CACERT", "TRIUMVIR_CAPATH", "CONSUL_CAPATH",
	"TRIUMVIR_CLIENT_CERT", "CONSUL_CLIENT_CERT", "TRIUMVIR_CLIENT_KEY", "CONSUL_CLIENT_KEY",
	"TRIUMVIR_TLS_SERVER_NAME", "CONSUL_TLS_SERVER_NAME",
};

static void
forget_variables(void)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		unsetenv(variables[i]);
}

/* The base for this address, "!" and the beginning of the sentence, or "@" and the path of the socket. */
static const char *
found(const char *addr)
{
	static char text[1024];
	struct endpoint_given given = { .addr = addr };
	struct endpoint e;
	char err[512];

	if (!endpoint_find(&given, &e, err, sizeof(err)))
		snprintf(text, sizeof(text), "!%s", err);
	else if (e.unix_path != NULL)
		snprintf(text, sizeof(text), "@%s", e.unix_path);
	else
		snprintf(text, sizeof(text), "%s", e.base);
	endpoint_done(&e);
	return text;
}

START_TEST(addresses)
{
	static const struct { const char *addr, *base; } v[] = {
		{ "h", "http://h:8500" }, { "h:1", "http://h:1" }, { "192.0.2.1:80", "http://192.0.2.1:80" },
		{ "::1", "http://[::1]:8500" }, { "[::1]", "http://[::1]:8500" }, { "[::1]:9", "http://[::1]:9" },
		{ "http://h", "http://h:8500" }, { "http://h/", "http://h:8500" }, { "http://h:1/a/b//", "http://h:1/a/b" },
		{ "https://h", "https://h:8501" }, { "https://h:443/x", "https://h:443/x" },
		{ "https://[::1]", "https://[::1]:8501" }, { "https://[::1]:1/", "https://[::1]:1" },
		{ "https://::1", "https://[::1]:8501" }, { "unix:/a/b", "@/a/b" }, { "unix:///a b", "@/a b" },
		{ NULL, "@" TV_RUNDIR "/rpcd.sock" },
		{ "", "!bad" }, { "https://", "!bad" }, { "h/x", "!bad" }, { "h:", "!bad" }, { ":1", "!bad" }, { "[]:1", "!bad" },
		{ "[::1", "!bad" }, { "[::1]x", "!bad" }, { "HTTPS://h", "!bad" }, { "ftp://h", "!bad" }, { "u@h", "!bad" },
		{ "h?x", "!bad" }, { "h#x", "!bad" }, { "h x", "!bad" }, { "h\n", "!bad" }, { "h\\x", "!bad" },
		{ "unix:a", "!bad" }, { "unix:", "!bad" },
	};
	char longest[4096];

	forget_variables();
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		ck_assert_msg(strncmp(found(v[i].addr), v[i].base, v[i].base[0] == '!' ? 4 : 1024) == 0, "%s: %s",
		    v[i].addr, found(v[i].addr));
	for (size_t n = 400; n < sizeof(longest); n += 400) {		/* of any length: an answer, or the sentence */
		memset(longest, 'x', n);
		longest[n] = '\0';
		(void)found(longest);
		memcpy(longest, "https://h/", 10);
		(void)found(longest);
		memcpy(longest, "h:", 2);
		(void)found(longest);
	}
}
END_TEST

/* {variable=value ...} for an address: what comes of it. */
START_TEST(who_asks_for_tls)
{
	static const struct { const char *name, *value, *addr, *base; } v[] = {
		{ "CONSUL_HTTP_SSL", "true", NULL, "https://127.0.0.1:8501" }, { "TRIUMVIR_SSL", "1", "h", "https://h:8501" },
		{ "CONSUL_HTTP_SSL", "T", "http://h:1", "https://h:1" },
		{ "CONSUL_HTTP_SSL", "true", "unix:/x", "!CONSUL_HTTP_SSL asks for TLS" },
		{ "CONSUL_HTTP_SSL", "f", "h", "http://h:8500" }, { "CONSUL_HTTP_SSL", "0", "https://h", "https://h:8501" },
		{ "CONSUL_HTTP_SSL", "yes", "h", "!CONSUL_HTTP_SSL: \"yes\" is neither" },
		{ "CONSUL_HTTP_SSL_VERIFY", "no", "h", "!CONSUL_HTTP_SSL_VERIFY: \"no\" is neither" },
		{ "CONSUL_HTTP_SSL_VERIFY", "false", "h", "http://h:8500" },
		{ "CONSUL_CACERT", "/x", "h", "https://h:8501" }, { "CONSUL_CACERT", "/x", "http://h", "!CONSUL_CACERT asks" },
		{ "CONSUL_CACERT", "/x", "unix:/x", "@/x" }, { "TRIUMVIR_CAPATH", "/x", "h:1", "https://h:1" },
		{ "CONSUL_CLIENT_CERT", "/x", "h", "!a client certificate is two files" },
		{ "CONSUL_CLIENT_KEY", "/x", "https://h", "!a client certificate is two files" },
		{ "CONSUL_CLIENT_KEY", "/x", "unix:/x", "@/x" },
		{ "CONSUL_TLS_SERVER_NAME", "s", "h", "https://s:8501" }, { "CONSUL_TLS_SERVER_NAME", "::1", "h:1", "https://[::1]:1" },
		{ "CONSUL_TLS_SERVER_NAME", "a/b", "h", "!\"a/b\" is no name" }, { "CONSUL_HTTP_SSL", "", "h", "http://h:8500" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		forget_variables();
		setenv(v[i].name, v[i].value, 1);
		ck_assert_msg(strncmp(found(v[i].addr), v[i].base, strlen(v[i].base)) == 0, "%s=%s %s: %s", v[i].name,
		    v[i].value, v[i].addr, found(v[i].addr));
	}
	/* Who says no to TLS may have its files set. */
	forget_variables();
	setenv("CONSUL_HTTP_SSL", "false", 1);
	setenv("CONSUL_CACERT", "/x", 1);
	ck_assert_str_eq(found("h"), "http://h:8500");
	ck_assert_str_eq(found("http://h"), "http://h:8500");
	/* The name of the certificate is in the URL, and the host where libcurl is told to go. */
	forget_variables();
	setenv("CONSUL_TLS_SERVER_NAME", "server.dc1.consul", 1);
	struct endpoint e;
	char err[512];
	ck_assert(endpoint_find(&(struct endpoint_given){ .addr = "[::1]:1" }, &e, err, sizeof(err)));
	ck_assert(e.tls);
	ck_assert_str_eq(e.connect_to, "server.dc1.consul:1:[::1]:1");
	ck_assert_str_eq(e.host, "[::1]:1");
	ck_assert_str_eq(e.addr, "https://[::1]:1");
	endpoint_done(&e);
}
END_TEST

/* Options go before variables, TRIUMVIR_ before CONSUL_, a file of CAs before a folder. */
START_TEST(which_goes_first)
{
	struct endpoint_given given = { .addr = "h", .ca_path = "option" };
	struct endpoint e;
	char err[512];

	forget_variables();
	setenv("CONSUL_CACERT", "theirs", 1);
	setenv("TRIUMVIR_CACERT", "ours", 1);
	setenv("CONSUL_CAPATH", "theirs", 1);
	ck_assert(endpoint_find(&given, &e, err, sizeof(err)));
	ck_assert(e.ca_file == NULL);
	ck_assert_str_eq(e.ca_path, "option");
	ck_assert_str_eq(e.ca_from, "--ca-path");
	endpoint_done(&e);
	given.ca_path = NULL;
	ck_assert(endpoint_find(&given, &e, err, sizeof(err)));
	ck_assert(e.ca_path == NULL);
	ck_assert_str_eq(e.ca_file, "ours");
	ck_assert_str_eq(e.ca_from, "TRIUMVIR_CACERT");
	endpoint_done(&e);
	/* Options where there is no TLS are a contradiction. */
	given = (struct endpoint_given){ .addr = "unix:/x", .ca_file = "option" };
	ck_assert(!endpoint_find(&given, &e, err, sizeof(err)));
	ck_assert(strncmp(err, "--ca-file asks for TLS", 22) == 0);
	endpoint_done(&e);
	given.addr = "http://h";
	ck_assert(!endpoint_find(&given, &e, err, sizeof(err)));
	endpoint_done(&e);
	forget_variables();
	given.addr = NULL;
	ck_assert(endpoint_find(&given, &e, err, sizeof(err)));
	ck_assert_str_eq(e.base, "https://127.0.0.1:8501");
	endpoint_done(&e);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("ctl_endpoint");
	TCase *t = tcase_create("all");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_test(t, addresses);
	tcase_add_test(t, who_asks_for_tls);
	tcase_add_test(t, which_goes_first);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
