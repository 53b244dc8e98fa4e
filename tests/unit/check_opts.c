/* Tables, manual pages and samples of all configuration files hold the same keys; defaults lie within bounds. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/conf/cluster_conf.h"
#include "gossipd/opts.h"
#include "raftd/opts.h"
#include "rpcd/opts.h"

#define PAGE_BYTES_MAX (1u << 20)

static const struct file {
	const char *name;
	const struct conf_opt *opts;
	const size_t *count;
	size_t size;
} files[] = {
	{ "cluster.conf", cluster_opts, &cluster_opt_count, sizeof(struct cluster_conf) },
	{ "gossipd.conf", gossip_opts, &gossip_opt_count, sizeof(struct gossip_conf) },
	{ "raftd.conf", raftd_opts, &raftd_opt_count, sizeof(struct raftd_conf) },
	{ "rpcd.conf", rpcd_opts, &rpcd_opt_count, sizeof(struct rpcd_conf) },
};
#define FILES (int)(sizeof(files) / sizeof(files[0]))

static char *
slurp(const char *folder, const char *name, const char *suffix)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s/%s%s", TV_SRCDIR, folder, name, suffix);
	f = fopen(path, "r");
	ck_assert_msg(f != NULL, "%s", path);
	char *text = calloc(1, PAGE_BYTES_MAX);
	ck_assert_ptr_nonnull(text);
	ck_assert_uint_lt(fread(text, 1, PAGE_BYTES_MAX - 1, f), PAGE_BYTES_MAX - 1);
	fclose(f);
	return text;
}

/* Is there a ".It Cm key" or ".It Ic key" in the page? */
static bool
documented(const char *page, const char *key)
{
	static const char *const heads[] = { "\n.It Cm ", "\n.It Ic " };
	char line[256];

	for (int i = 0; i < 2; i++) {
		for (const char *end = "\n"; *end != '\0'; end = *end == '\n' ? " " : "") {
			snprintf(line, sizeof(line), "%s%s%s", heads[i], key, end);
			if (strstr(page, line) != NULL)
				return true;
		}
	}
	return false;
}

static bool
in_table(const struct file *f, const char *key, size_t len)
{
	for (size_t i = 0; i < *f->count; i++)
		if (strlen(f->opts[i].key) == len && memcmp(f->opts[i].key, key, len) == 0)
			return true;
	return false;
}

START_TEST(manual_and_table)
{
	const struct file *f = &files[_i];
	char *page = slurp("man", f->name, ".5");

	for (size_t i = 0; i < *f->count; i++)
		ck_assert_msg(documented(page, f->opts[i].key) == (f->opts[i].type != CONF_REMOVED), "%s: %s", f->name,
		    f->opts[i].key);
	/* And nothing else: each item of the key lists is a key. */
	for (const char *p = page; (p = strstr(p, "\n.It ")) != NULL; p++) {
		const char *key = p + 8;

		if (strncmp(p + 5, "Cm ", 3) != 0 && strncmp(p + 5, "Ic ", 3) != 0)
			continue;
		size_t len = strcspn(key, " \n");
		ck_assert_msg(in_table(f, key, len), "%s: the manual has %.*s", f->name, (int)len, key);
	}
	free(page);
}
END_TEST

/* The sample as it is, and with every "# key = value" line in force. */
START_TEST(sample_is_valid)
{
	const struct file *f = &files[_i];
	char *text = slurp("etc", f->name, "");
	char why[512];
	void *conf = calloc(1, f->size);

	enum tv_err err = conf_parse(f->name, span_str(text), f->opts, *f->count, conf, why, sizeof(why));
	ck_assert_msg(err == TV_OK, "%s", why);
	conf_free(f->opts, *f->count, conf);
	for (char *p = text; (p = strstr(p, "# ")) != NULL; p++) {
		char *end = p + 2 + strspn(p + 2, "abcdefghijklmnopqrstuvwxyz_.");

		if ((p == text || p[-1] == '\n') && strncmp(end, " = ", 3) == 0)
			p[0] = ' ';
	}
	memset(conf, 0, f->size);
	err = conf_parse(f->name, span_str(text), f->opts, *f->count, conf, why, sizeof(why));
	ck_assert_msg(err == TV_OK, "%s", why);
	conf_free(f->opts, *f->count, conf);
	free(conf);
	free(text);
}
END_TEST

/* Default, least and greatest value of each key are accepted; printed, they parse again. */
START_TEST(bounds)
{
	const struct file *f = &files[_i];
	char why[512];
	void *conf = calloc(1, f->size);

	for (size_t i = 0; i < *f->count; i++) {
		const struct conf_opt *o = &f->opts[i];
		const char *const values[] = { o->def, o->min, o->max };

		ck_assert_msg(o->help != NULL && o->help[0] != '\0', "%s", o->key);
		for (int v = 0; v < 3; v++) {
			char text[512];

			if (values[v] == NULL)
				continue;
			const char *quote = o->type == CONF_BOOL || values[v][0] == '[' ? "" : "\"";
			if (o->type == CONF_U64 || o->type == CONF_RATE || o->type == CONF_PORT || o->type == CONF_SIZE)
				quote = "";
			snprintf(text, sizeof(text), "%s = %s%s%s\n", o->key, quote, values[v], quote);
			memset(conf, 0, f->size);
			enum tv_err err = conf_parse(f->name, span_str(text), f->opts, *f->count, conf, why,
			    sizeof(why));
			ck_assert_msg(err == TV_OK, "%s: %s", text, why);
			conf_free(f->opts, *f->count, conf);
		}
	}
	free(conf);
}
END_TEST

/* Who still has a key of an earlier version is told where, and what to do. */
START_TEST(removed_key)
{
	struct raftd_conf conf = { 0 };
	char why[512];

	ck_assert_int_eq(conf_parse("/x/raftd.conf", span_str("bootstrap = true\nlog_cache = 1M\n"), raftd_opts,
	    raftd_opt_count, &conf, why, sizeof(why)), TV_EINVAL);
	ck_assert_str_eq(why, "/x/raftd.conf:2: log_cache: this key was removed; delete it: the log needs no cache, "
	    "and state_cache is where memory helps");
}
END_TEST

#define HTTPS_AND(more_, defaults_) "https_port = 8501\ntls { https { cert_file = \"/c\"; key_file = \"/k\"\n" more_ \
	"\n}\ndefaults {\n" defaults_ "\n} }\n"

START_TEST(rpcd_across_keys)
{
	static const struct { const char *text, *why; } v[] = {
		{ "http_addresses = [\"127.0.0.1\", \"localhost\"]",
		    "http_addresses: \"localhost\" is not an IP address" },
		{ "response_headers = [\"X-A: b\", \"bad\"]",
		    "response_headers: \"bad\" is not of the form \"Name: value\"" },
		{ "http_origins = [\"https://ui.example.com\", \"http://[::1]:8080\", \"null\"]",
		    "http_origins: \"null\" is not of the form \"https://host:port\", without a path" },
		{ "http_origins = [\"https://ui.example.com/\"]",
		    "http_origins: \"https://ui.example.com/\" is not of the form \"https://host:port\", without a path" },
		{ "http_origins = [\"*\"]",
		    "http_origins: \"*\" is not of the form \"https://host:port\", without a path" },
		{ "http_origins = [\"https://ui.example.com\", \"http://[::1]:8080\"]", NULL },
		{ "default_query_time = 20m", "default_query_time is longer than max_query_time" },
		{ "limits.kv_max_value_size = 2M",
		    "limits.request_bytes_max must hold limits.kv_max_value_size, limits.header_bytes_max and 4096 more" },
		{ "http_addresses = [\"::1\", \"127.8.9.10\"]", NULL },
		{ "http_addresses = [\"::1\", \"10.0.0.1\"]",
		    "http_addresses: 10.0.0.1 is open to other machines, in plaintext, tokens too, and without access control any "
		    "client that reaches it can read and write all data: http_allow_remote = true serves it there all the same" },
		{ "http_addresses = [\"0.0.0.0\"]",
		    "http_addresses: 0.0.0.0 is open to other machines, in plaintext, tokens too, and without access control any "
		    "client that reaches it can read and write all data: http_allow_remote = true serves it there all the same" },
		{ "http_addresses = [\"::\", \"10.0.0.1\"]\nhttp_allow_remote = true", NULL },
		{ "http_addresses = [\"10.0.0.1\"]\nhttp_port = 0", NULL },
		{ "https_port = 8501", "https_port: HTTPS needs a certificate and its key: set tls.https.cert_file and "
		    "tls.https.key_file, or those of tls.defaults (clusterctl tls cert create makes both)" },
		{ HTTPS_AND("", "") "http_port = 8501", "https_port: 8501 is http_port, too: take another one, as 8501" },
		{ HTTPS_AND("", "") "https_addresses = [\"10.0.0.1\"]", NULL },
		{ HTTPS_AND("", "") "https_addresses = [\"a\"]", "https_addresses: \"a\" is not an IP address" },
		{ "https_port = 8501\ntls { defaults { cert_file = \"/c\"; key_file = \"/k\" } }", NULL },
		{ "https_port = 8501\ntls { defaults { cert_file = \"/c\" }; https { key_file = \"/k\" } }",
		    "tls.defaults.cert_file: there is no key_file to it: set that, too (clusterctl tls cert create makes both)" },
		{ "tls { https { key_file = \"/k\" } }",
		    "tls.https.key_file: there is no cert_file to it: set that, too (clusterctl tls cert create makes both)" },
		{ "tls { checks { cert_file = \"/c\" }; defaults { cert_file = \"/c\"; key_file = \"/k\" } }",
		    "tls.checks.cert_file: there is no key_file to it: set that, too (clusterctl tls cert create makes both)" },
		{ "tls { https { ca_file = \"/a\"; ca_path = \"/b\" } }",
		    "tls.https.ca_path: there is ca_file, too: take one of them" },
		{ "tls { https { ca_file = \"/a\" }; defaults { ca_path = \"/b\" } }", NULL },
		{ HTTPS_AND("verify_incoming = true", ""),
		    "tls.https.verify_incoming: who vouches for clients?  Set tls.https.ca_file" },
		{ HTTPS_AND("ask_incoming = true", ""),
		    "tls.https.ask_incoming: who vouches for clients?  Set tls.https.ca_file" },
		{ HTTPS_AND("", "verify_incoming = true; ca_path = \"/a\""), NULL },
		{ HTTPS_AND("verify_incoming = false", "verify_incoming = true"), NULL },
		{ "tls { https { tls_cipher_suites = \"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "
		    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305\" } }", NULL },
		{ "tls { https { tls_cipher_suites = [\"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\", \"RC4\"] } }",
		    "tls.https.tls_cipher_suites: \"RC4\" is not one of TLS_ECDHE_ECDSA_WITH_ or TLS_ECDHE_RSA_WITH_ and "
		    "AES_128_GCM_SHA256, AES_256_GCM_SHA384 or CHACHA20_POLY1305_SHA256: others are weak, or unknown" },
		{ "tls { defaults { tls_cipher_suites = \"TLS_AES_128_GCM_SHA256\" } }",
		    "tls.defaults.tls_cipher_suites: \"TLS_AES_128_GCM_SHA256\" is of TLS 1.3, whose suites are all good and "
		    "cannot be chosen: leave it out" },
		{ HTTPS_AND("tls_min_version = TLSv1_3", "tls_cipher_suites = \"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\""),
		    "tls.https.tls_cipher_suites: they are of TLS 1.2, which "
		    "tls_min_version excludes: leave one of them out" },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct rpcd_conf conf = { 0 };
		char why[512] = "";

		ck_assert_int_eq(conf_parse("rpcd.conf", span_str(v[i].text), rpcd_opts, rpcd_opt_count, &conf, why,
		    sizeof(why)), TV_OK);
		enum tv_err err = rpcd_conf_check(&conf, why, sizeof(why));
		ck_assert_int_eq(err == TV_OK, v[i].why == NULL);
		if (v[i].why != NULL)
			ck_assert_str_eq(why, v[i].why);
		conf_free(rpcd_opts, rpcd_opt_count, &conf);
	}
}
END_TEST

START_TEST(tls_of_https)
{
	static const char text[] = "tls { defaults { cert_file = \"/dc\"; key_file = \"/dk\"; ca_path = \"/da\"; "
	    "verify_incoming = true; tls_min_version = TLSv1_3; tls_cipher_suites = \"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,"
	    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\" }; https { key_file = \"/hk\"; ca_file = \"/ha\"; "
	    "tls_min_version = TLSv1_2 } }";
	struct rpcd_conf conf = { 0 };
	char why[512] = "";
	size_t at = 0;

	ck_assert_int_eq(conf_parse("rpcd.conf", span_str(text), rpcd_opts, rpcd_opt_count, &conf, why, sizeof(why)), TV_OK);
	struct rpcd_tls t = rpcd_tls_for(&conf, RPCD_TLS_HTTPS);
	char longest[4097];

	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	struct rpcd_conf other = conf;
	other.tls[RPCD_TLS_CHECKS].ca_file = longest;
	ck_assert_int_eq(rpcd_conf_check_tls(&other, why, sizeof(why)), TV_EINVAL);
	ck_assert_str_eq(why, "tls.checks: a path has more than 4095 bytes");
	ck_assert_str_eq(t.cert_file, "/dc");
	ck_assert_str_eq(t.key_file, "/hk");
	ck_assert_str_eq(t.ca_file, "/ha");
	ck_assert_ptr_null(t.ca_path);
	ck_assert(t.verify_incoming);
	ck_assert_int_eq(t.min_version, RPCD_TLS_1_2);
	ck_assert_str_eq(rpcd_tls_suite(&t.suites, &at), "ECDHE-RSA-AES128-GCM-SHA256");
	ck_assert_str_eq(rpcd_tls_suite(&t.suites, &at), "ECDHE-ECDSA-AES256-GCM-SHA384");
	ck_assert_ptr_null(rpcd_tls_suite(&t.suites, &at));
	t = rpcd_tls_for(&conf, RPCD_TLS_CHECKS);
	ck_assert(t.cert_file == NULL && t.key_file == NULL && t.ca_path == NULL && t.suites.count == 0);
	ck_assert_ptr_eq(rpcd_https_addresses(&conf), &conf.http_addresses);
	conf_free(rpcd_opts, rpcd_opt_count, &conf);
}
END_TEST

START_TEST(https_open_to_all)
{
	static const struct { const char *text, *address; } v[] = {
		{ HTTPS_AND("", ""), NULL }, { HTTPS_AND("", "") "https_addresses = [\"127.0.0.2\", \"::1\"]", NULL },
		{ HTTPS_AND("", "") "https_addresses = [\"127.0.0.1\", \"10.0.0.1\"]", "10.0.0.1" },
		{ HTTPS_AND("", "") "https_addresses = [\"::\"]", "::" },
		{ HTTPS_AND("", "") "https_addresses = [\"::\"]; http_allow_remote = true", NULL },
		{ HTTPS_AND("verify_incoming = true; ca_file = \"/a\"", "") "https_addresses = [\"10.0.0.1\"]", NULL },
		{ HTTPS_AND("", "verify_incoming = true; ca_file = \"/a\"") "https_addresses = [\"10.0.0.1\"]", NULL },
		{ HTTPS_AND("ask_incoming = true; ca_file = \"/a\"", "") "https_addresses = [\"10.0.0.1\"]", "10.0.0.1" },
		{ "https_addresses = [\"10.0.0.1\"]", NULL },
	};

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct rpcd_conf conf = { 0 };
		char why[512] = "";

		ck_assert_int_eq(conf_parse("rpcd.conf", span_str(v[i].text), rpcd_opts, rpcd_opt_count, &conf, why,
		    sizeof(why)), TV_OK);
		ck_assert_pstr_eq(rpcd_conf_open_address(&conf), v[i].address);
		conf_free(rpcd_opts, rpcd_opt_count, &conf);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("opts");
	TCase *t = tcase_create("opts");

	tcase_add_loop_test(t, manual_and_table, 0, FILES);
	tcase_add_loop_test(t, sample_is_valid, 0, FILES);
	tcase_add_loop_test(t, bounds, 0, FILES);
	tcase_add_test(t, removed_key);
	tcase_add_test(t, rpcd_across_keys);
	tcase_add_test(t, tls_of_https);
	tcase_add_test(t, https_open_to_all);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
