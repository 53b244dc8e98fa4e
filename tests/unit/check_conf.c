/* Configuration files: values, messages, printing, reload, permissions. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/conf/conf.h"
#include "tests/unit/scratch.h"

struct sample {
	bool yes;
	uint64_t count, bytes;
	struct mono wait;
	uint16_t port, free_port;
	char *text, *path, *name, *addr;
	struct conf_list list;
	int choice;
	uint64_t inner;
	bool deep;
	uint64_t rate;
};

#define F(field_) CONF_FIELD(struct sample, field_)

static const struct conf_opt opts[] = {
	{ "yes", CONF_BOOL, F(yes), "true", NULL, NULL, NULL, CONF_LIVE, "A truth value." },
	{ "count", CONF_U64, F(count), "5", "1", "10", NULL, CONF_RESTART, NULL },
	{ "bytes", CONF_SIZE, F(bytes), "64k", "1k", "1G", NULL, CONF_LIVE, "A size." },
	{ "election_timeout", CONF_DURATION, F(wait), "1s", "100ms", "60s", NULL, CONF_LIVE, "A time." },
	{ "http_port", CONF_PORT, F(port), "8500", NULL, NULL, NULL, CONF_RESTART, "A port." },
	{ "free_port", CONF_PORT, F(free_port), "0", "0", NULL, NULL, CONF_RESTART, "A port that may be off." },
	{ "text", CONF_STRING, F(text), NULL, NULL, NULL, NULL, CONF_LIVE, "Any text." },
	{ "path", CONF_PATH, F(path), "/var/lib/x", NULL, NULL, NULL, CONF_RESTART, "A path." },
	{ "name", CONF_NAME, F(name), "dc1", NULL, NULL, NULL, CONF_RESTART, "A name." },
	{ "addr", CONF_ADDR, F(addr), NULL, NULL, NULL, NULL, CONF_RESTART, "An address." },
	{ "list", CONF_LIST, F(list), "[a, \"b c\"]", NULL, NULL, NULL, CONF_LIVE, "A list." },
	{ "choice", CONF_CHOICE, F(choice), "required", NULL, NULL, "required|best-effort", CONF_LIVE, "A choice." },
	{ "limits.inner", CONF_U64, F(inner), "7", NULL, NULL, NULL, CONF_LIVE, "In a block." },
	{ "limits.deep.yes", CONF_BOOL, F(deep), "false", NULL, NULL, NULL, CONF_LIVE, "In a block in a block." },
	{ "rate", CONF_RATE, F(rate), "-1", "0.001", "1000000", NULL, CONF_LIVE, "A rate." },
	{ .key = "gone_key", .type = CONF_REMOVED, .help = "write count instead" },
};
static const size_t opt_count = sizeof(opts) / sizeof(opts[0]);

static struct sample got;
static char errbuf[512];

static enum tv_err
parse(const char *text)
{
	return conf_parse("x.conf", span_str(text), opts, opt_count, &got, errbuf, sizeof(errbuf));
}

static void
done(void)
{
	conf_free(opts, opt_count, &got);
}

START_TEST(defaults_stand)
{
	ck_assert_int_eq(parse(""), TV_OK);
	ck_assert(got.yes && !got.deep);
	ck_assert_uint_eq(got.count, 5);
	ck_assert_uint_eq(got.bytes, 65536);
	ck_assert_int_eq(got.wait.ns, 1000000000);
	ck_assert_uint_eq(got.port, 8500);
	ck_assert_uint_eq(got.free_port, 0);
	ck_assert_ptr_null(got.text);
	ck_assert_str_eq(got.path, "/var/lib/x");
	ck_assert_str_eq(got.name, "dc1");
	ck_assert_ptr_null(got.addr);
	ck_assert_uint_eq(got.list.count, 2);
	ck_assert_str_eq(got.list.items[1], "b c");
	ck_assert_int_eq(got.choice, 0);
	ck_assert_uint_eq(got.inner, 7);
	ck_assert_uint_eq(got.rate, CONF_NO_RATE);
	done();
}
END_TEST

static const char every_value[] =
    "yes = no\ncount = 10\nbytes = 16M\nelection_timeout = \"1m0s\"\nhttp_port = 1\nfree_port = 65535\n"
    "text = \"say \\\"hi\\\" # and\\ttab\"\npath = \"/a b\"\nname = n-1_x.y\naddr = \"fd00::1\"\nlist = [x]\n"
    "choice = best-effort\nlimits {\n inner = 18446744073709551615\n deep { yes = on }\n}\nrate = 0.25\n";

static void
assert_every_value(const struct sample *s)
{
	ck_assert(!s->yes && s->deep);
	ck_assert_uint_eq(s->count, 10);
	ck_assert_uint_eq(s->bytes, 16u << 20);
	ck_assert_int_eq(s->wait.ns, INT64_C(60000000000));
	ck_assert_uint_eq(s->port, 1);
	ck_assert_uint_eq(s->free_port, 65535);
	ck_assert_str_eq(s->text, "say \"hi\" # and\ttab");
	ck_assert_str_eq(s->path, "/a b");
	ck_assert_str_eq(s->name, "n-1_x.y");
	ck_assert_str_eq(s->addr, "fd00::1");
	ck_assert_uint_eq(s->list.count, 1);
	ck_assert_str_eq(s->list.items[0], "x");
	ck_assert_int_eq(s->choice, 1);
	ck_assert_uint_eq(s->inner, UINT64_MAX);
	ck_assert_uint_eq(s->rate, 250);
}

START_TEST(every_type_is_read)
{
	ck_assert_msg(parse(every_value) == TV_OK, "%s", errbuf);
	assert_every_value(&got);
	done();
}
END_TEST

START_TEST(printed_result_parses_again)
{
	struct buf first = BUF_INIT(1 << 16), second = BUF_INIT(1 << 16);

	ck_assert_int_eq(parse(every_value), TV_OK);
	conf_print(opts, opt_count, &got, &first);
	done();
	ck_assert_msg(parse(buf_cstr(&first)) == TV_OK, "%s\n%s", errbuf, buf_cstr(&first));
	assert_every_value(&got);
	conf_print(opts, opt_count, &got, &second);
	ck_assert_str_eq(buf_cstr(&first), buf_cstr(&second));
	done();
	/* unset values print as comments, removed keys not at all */
	buf_reset(&first);
	ck_assert_int_eq(parse(""), TV_OK);
	conf_print(opts, opt_count, &got, &first);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&first), "# An address.\n# addr = (not set)\n"));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&first), "limits {\n\t# In a block.\n\tinner = 7\n\tdeep {\n"));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&first), "# A time. (100ms to 60s)\nelection_timeout = 1s\n"));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&first), "# A choice. (required|best-effort)\n"));
	ck_assert_ptr_nonnull(strstr(buf_cstr(&first), "# (1 to 10)\ncount = 5\n"));
	ck_assert_ptr_null(strstr(buf_cstr(&first), "gone_key"));
	done();
	ck_assert_int_eq(parse(buf_cstr(&first)), TV_OK);
	ck_assert_ptr_null(got.addr);
	done();
	buf_done(&first);
	buf_done(&second);
}
END_TEST

static const struct {
	const char *text, *says;
} bad[] = {
	{ "\nelection_timeout = 5", "x.conf:2: election_timeout: 5 is not a duration (write 500ms, 2s; 100ms to 60s)" },
	{ "election_timeout = 50ms", "x.conf:1: election_timeout: 50ms is out of range (100ms to 60s)" },
	{ "election_timeout = 61s", "x.conf:1: election_timeout: 61s is out of range (100ms to 60s)" },
	{ "election_timeout = -1s", "x.conf:1: election_timeout: -1s is not a positive duration (write 500ms, 2s; "
	    "100ms to 60s)" },
	{ "election_timeout = 9999999999h", "x.conf:1: election_timeout: 9999999999h is not a duration" },
	{ "\n\nhtpp_port = 1", "x.conf:3: unknown key \"htpp_port\" (did you mean http_port?)" },
	{ "limits { iner = 1 }", "x.conf:1: unknown key \"limits.iner\" (did you mean limits.inner?)" },
	{ "inner = 1", "x.conf:1: unknown key \"inner\" (did you mean limits.inner?)" },
	{ "\nencrypt = x", "x.conf:2: unknown key \"encrypt\": the key is in cluster.key: clusterctl keygen makes one" },
	{ "ui_config { enabled = true }", "x.conf:1: unknown key \"ui_config\": the pages are always served, at /ui/" },
	{ "client_addr = 0.0.0.0", "x.conf:1: unknown key \"client_addr\": it is http_addresses, and dns_addresses, in rpcd.conf" },
	{ "acl { tokens { agent_recovery = x } }", "x.conf:1: unknown key \"acl\": it belongs in cluster.conf, and what concerns tokens in rpcd.conf" },
	{ "encrypted = x", "x.conf:1: unknown key \"encrypted\"" },
	{ "zzz = 1", "x.conf:1: unknown key \"zzz\"" },
	{ "\ngone_key = 1", "x.conf:2: gone_key: this key was removed; write count instead" },
	{ "gone_key { }", "x.conf:1: gone_key: this key was removed; write count instead" },
	{ "b\xc3\xa4\x1b" "d = 1", "x.conf:1: byte 0x1b has no place in a configuration file" },
	{ "yes = 1", "x.conf:1: yes: 1 is not a truth value (write true or false)" },
	{ "yes = \"true\"", "x.conf:1: yes: \"true\" is not a truth value (write true or false)" },
	{ "count = ten", "x.conf:1: count: ten is not a number (write 100; 1 to 10)" },
	{ "count = 11", "x.conf:1: count: 11 is out of range (1 to 10)" },
	{ "count = 0", "x.conf:1: count: 0 is out of range (1 to 10)" },
	{ "count = 18446744073709551617", "x.conf:1: count: 18446744073709551617 is not a number (write 100; 1 "
	    "to 10)" },
	{ "count { }", "x.conf:1: count: a block is not a number (write 100; 1 to 10)" },
	{ "bytes = 3x", "x.conf:1: bytes: 3x is not a size (write 64k, 16M; 1k to 1G)" },
	{ "bytes = 2G", "x.conf:1: bytes: 2G is out of range (1k to 1G)" },
	{ "bytes = 99999999999T", "x.conf:1: bytes: 99999999999T is not a size (write 64k, 16M; 1k to 1G)" },
	{ "http_port = 0", "x.conf:1: http_port: 0 is not a port number (1 to 65535)" },
	{ "http_port = 65536", "x.conf:1: http_port: 65536 is not a port number (1 to 65535)" },
	{ "free_port = http", "x.conf:1: free_port: http is not a port number (0 to 65535)" },
	{ "text = [a]", "x.conf:1: text: a list is not a string (write \"text\")" },
	{ "path = relative/x", "x.conf:1: path: relative/x is not an absolute path (write /directory/file)" },
	{ "name = \"a b\"", "x.conf:1: name: \"a b\" is not a name (write 1 to 128 letters, digits, '-', '_', '.')" },
	{ "name = \"\"", "x.conf:1: name: \"\" is not a name" },
	{ "addr = localhost", "x.conf:1: addr: localhost is not an IP address (write 10.0.0.1 or \"fd00::1\"; "
	    "host names and interfaces are not looked up here)" },
	{ "addr = 10.0.0.1:80", "x.conf:1: addr: 10.0.0.1:80 is not an IP address" },
	{ "list = [ [a] ]", "x.conf:1: list: a list is not a list of strings (write [ \"a\", \"b\" ])" },
	{ "choice = maybe", "x.conf:1: choice: maybe is not one of required, best-effort" },
	{ "limits = 3", "x.conf:1: limits: a block is expected (write limits { ... })" },
	{ "rate = \"5\"", "x.conf:1: rate: \"5\" is not a rate (write 100, 0.5, or -1 for no limit; 0.001 "
	    "to 1000000)" },
	{ "rate = 5/s", "x.conf:1: rate: 5/s is not a rate" },
	{ "rate = 0.0001", "x.conf:1: rate: 0.0001 is not a rate" },
	{ "rate = 1.", "x.conf:1: rate: 1. is not a rate" },
	{ "rate = -2", "x.conf:1: rate: -2 is not a rate" },
	{ "rate = 1e3", "x.conf:1: rate: 1e3 is not a rate" },
	{ "rate = 0", "x.conf:1: rate: 0 is out of range (0.001 to 1000000)" },
	{ "rate = 1000000.001", "x.conf:1: rate: 1000000.001 is out of range (0.001 to 1000000)" },
	{ "yes = true\nyes = true", "x.conf:2: key \"yes\" is given twice (first on line 1)" },
	{ "limits { inner = 1 }\nlimits.inner = 2", "x.conf:2: key \"limits.inner\" is given twice (first on line 1)" },
	{ "{\n\"limits\": {\n\"inner\":\n\"x\" } }", "x.conf:3: limits.inner: \"x\" is not a number (write 100)" },
	{ "[1]", "x.conf:1: expected keys and values, not a list" },
	{ ".include \"/etc/passwd\"", "x.conf:1: macros such as .include are not supported" },
};

START_TEST(errors_are_precise)
{
	ck_assert_msg(parse(bad[_i].text) != TV_OK, "%s", bad[_i].text);
	ck_assert_msg(strncmp(errbuf, bad[_i].says, strlen(bad[_i].says)) == 0, "%s\n gives %s", bad[_i].text, errbuf);
	ck_assert_ptr_null(got.name);	/* freed */
	ck_assert_ptr_null(got.list.items);
}
END_TEST

static const struct { const char *text; uint64_t thousandths; } rates[] = {
	{ "1", 1000 }, { "1000.0", 1000000 }, { "0.5", 500 }, { "0.001", 1 }, { "12.34", 12340 }, { "0.050", 50 },
	{ "1000000", 1000000000 }, { "-1", CONF_NO_RATE },
};

START_TEST(rates_have_three_digits)
{
	char text[64];

	snprintf(text, sizeof(text), "rate = %s", rates[_i].text);
	ck_assert_msg(parse(text) == TV_OK, "%s", errbuf);
	ck_assert_uint_eq(got.rate, rates[_i].thousandths);
	done();
}
END_TEST

/* Nor is anybody led to a removed key. */
START_TEST(removed_keys_are_not_proposed)
{
	ck_assert_int_eq(parse("gone_kez = 1"), TV_EINVAL);
	ck_assert_str_eq(errbuf, "x.conf:1: unknown key \"gone_kez\"");
}
END_TEST

START_TEST(file_permissions)
{
	const char *path = scratch_write("x.conf", "count = 3\n", 0644);

	ck_assert_msg(conf_load(path, opts, opt_count, &got, errbuf, sizeof(errbuf)) == TV_OK, "%s", errbuf);
	ck_assert_uint_eq(got.count, 3);
	done();
	chmod(path, 0664);
	ck_assert_int_eq(conf_load(path, opts, opt_count, &got, errbuf, sizeof(errbuf)), TV_EPERM);
	ck_assert_ptr_nonnull(strstr(errbuf, "is writable by others: chmod go-w /"));
	ck_assert_ptr_null(got.name);
	/* a link to such a file is no better; a link to a good one is fine */
	ck_assert_int_eq(symlink("x.conf", scratch_path("link.conf")), 0);
	ck_assert_int_eq(conf_load(scratch_path("link.conf"), opts, opt_count, &got, errbuf, sizeof(errbuf)), TV_EPERM);
	chmod(path, 0600);
	ck_assert_int_eq(conf_load(scratch_path("link.conf"), opts, opt_count, &got, errbuf, sizeof(errbuf)), TV_OK);
	done();
	ck_assert_int_eq(chmod(scratch_path("."), 0777), 0);
	ck_assert_int_eq(conf_load(path, opts, opt_count, &got, errbuf, sizeof(errbuf)), TV_EPERM);
	ck_assert_ptr_nonnull(strstr(errbuf, "its folder is writable by everybody"));
	ck_assert_int_eq(chmod(scratch_path("."), 0755), 0);
	ck_assert_int_eq(mkfifo(scratch_path("fifo"), 0600), 0);
	ck_assert_int_eq(conf_load(scratch_path("fifo"), opts, opt_count, &got, errbuf, sizeof(errbuf)), TV_EPERM);
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(path, 65534, 65534), 0);
		ck_assert_int_eq(conf_load(path, opts, opt_count, &got, errbuf, sizeof(errbuf)), TV_EPERM);
		ck_assert_ptr_nonnull(strstr(errbuf, "belongs to uid 65534"));
	}
}
END_TEST

/* Closed to others; shown nowhere, in no message either. */
START_TEST(secrets)
{
	static const struct conf_opt with_secret[] = {
		{ "count", CONF_U64, F(count), "5", "1", "10", NULL, CONF_RESTART, NULL },
		{ "tokens.own", CONF_SECRET, F(text), NULL, NULL, NULL, NULL, CONF_LIVE, "A token." },
	};
	const char *path = scratch_write("x.conf", "count = 3\ntokens { own = \"s3cret\" }\n", 0644);
	struct buf out = BUF_INIT(4096);

	ck_assert_int_eq(conf_load(path, with_secret, 2, &got, errbuf, sizeof(errbuf)), TV_EPERM);
	ck_assert_ptr_nonnull(strstr(errbuf, "x.conf:2: tokens.own: others can read it here (mode 0644): chmod o-rwx /"));
	ck_assert_ptr_null(strstr(errbuf, "s3cret"));
	chmod(path, 0640);
	ck_assert_msg(conf_load(path, with_secret, 2, &got, errbuf, sizeof(errbuf)) == TV_OK, "%s", errbuf);
	ck_assert_str_eq(got.text, "s3cret");
	conf_print(with_secret, 2, &got, &out);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&out), "# own = (set, not shown)"));
	ck_assert_ptr_null(strstr(buf_cstr(&out), "s3cret"));
	buf_done(&out);
	conf_free(with_secret, 2, &got);
	ck_assert_int_eq(conf_parse("x.conf", span_str("tokens { own = \"s3cret s3cret\" }"), with_secret, 2, &got, errbuf,
	    sizeof(errbuf)), TV_EINVAL);
	ck_assert_ptr_null(strstr(errbuf, "s3cret"));
	/* An empty one is none, wherever it stands. */
	path = scratch_write("y.conf", "tokens { own = \"\" }\n", 0644);
	ck_assert_msg(conf_load(path, with_secret, 2, &got, errbuf, sizeof(errbuf)) == TV_OK, "%s", errbuf);
	conf_free(with_secret, 2, &got);
}
END_TEST

START_TEST(missing_file_means_defaults)
{
	ck_assert_int_eq(conf_load(scratch_path("none"), opts, opt_count, &got, errbuf, sizeof(errbuf)), TV_ENOENT);
	ck_assert_uint_eq(got.count, 5);
	ck_assert_str_eq(got.name, "dc1");
	done();
}
END_TEST

/* As a daemon does on SIGHUP: a bad file changes nothing, one that went away means the defaults. */
static enum tv_err
reload(const char *path, struct buf *report)
{
	struct sample fresh = { 0 };
	enum tv_err err = conf_load(path, opts, opt_count, &fresh, errbuf, sizeof(errbuf));

	if (err != TV_OK && err != TV_ENOENT)
		return err;
	conf_merge_live(opts, opt_count, &got, &fresh, report);
	conf_free(opts, opt_count, &fresh);
	return TV_OK;
}

START_TEST(reload_takes_live_values_only)
{
	struct buf report = BUF_INIT(4096);
	const char *path = scratch_write("x.conf", "count = 3\nbytes = 1M\ntext = old\n", 0644);

	ck_assert_int_eq(conf_load(path, opts, opt_count, &got, errbuf, sizeof(errbuf)), TV_OK);
	scratch_write("x.conf", "count = 4\nbytes = 2M\ntext = new\nname = other\nlist = []\n", 0644);
	ck_assert_int_eq(reload(path, &report), TV_OK);
	ck_assert_uint_eq(got.count, 3);
	ck_assert_uint_eq(got.bytes, 2 << 20);
	ck_assert_str_eq(got.text, "new");
	ck_assert_str_eq(got.name, "dc1");
	ck_assert_uint_eq(got.list.count, 0);
	ck_assert_str_eq(buf_cstr(&report), "count changed: it takes effect after a restart\n"
	    "name changed: it takes effect after a restart\n");
	/* a bad file changes nothing */
	scratch_write("x.conf", "bytes = 3M\ncount = 99\n", 0644);
	buf_reset(&report);
	ck_assert_int_eq(reload(path, &report), TV_EINVAL);
	ck_assert_uint_eq(got.bytes, 2 << 20);
	ck_assert_ptr_nonnull(strstr(errbuf, "x.conf:2: count: 99 is out of range"));
	ck_assert_uint_eq(report.len, 0);
	/* a file that went away: defaults, as at the start */
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(reload(path, &report), TV_OK);
	ck_assert_uint_eq(got.bytes, 65536);
	ck_assert_ptr_null(got.text);
	done();
	buf_done(&report);
}
END_TEST

static void
setup(void)
{
	scratch_open();
}

int
main(void)
{
	Suite *s = suite_create("conf");
	TCase *t = tcase_create("text"), *f = tcase_create("files");
	SRunner *r;
	int failed;

	tcase_add_test(t, defaults_stand);
	tcase_add_test(t, every_type_is_read);
	tcase_add_test(t, printed_result_parses_again);
	tcase_add_loop_test(t, errors_are_precise, 0, (int)(sizeof(bad) / sizeof(bad[0])));
	tcase_add_loop_test(t, rates_have_three_digits, 0, sizeof(rates) / sizeof(rates[0]));
	tcase_add_test(t, removed_keys_are_not_proposed);
	tcase_add_checked_fixture(f, setup, scratch_close);
	tcase_add_test(f, file_permissions);
	tcase_add_test(f, secrets);
	tcase_add_test(f, missing_file_means_defaults);
	tcase_add_test(f, reload_takes_live_values_only);
	suite_add_tcase(s, t);
	suite_add_tcase(s, f);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
