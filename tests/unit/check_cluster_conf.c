/* cluster.conf: defaults, checks across keys, and the node's identity. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/conf/cluster_conf.h"
#include "common/conf/keys.h"
#include "tests/unit/scratch.h"

static char errbuf[1024];
static struct cluster_conf conf;

static enum tv_err
load(const char *text)
{
	scratch_write("cluster.conf", text, 0644);
	return cluster_conf_load(scratch_path("."), NULL, &conf, errbuf, sizeof(errbuf));
}

static void
make_keys(void)
{
	ck_assert_int_eq(keys_generate(scratch_path("."), errbuf, sizeof(errbuf)), TV_OK);
}

START_TEST(defaults_without_keys)
{
	char host[256] = "";

	ck_assert_msg(cluster_conf_load(scratch_path("."), NULL, &conf, errbuf, sizeof(errbuf)) == TV_OK, "%s", errbuf);
	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, ".")] = '\0';
	ck_assert_str_eq(conf.node_name, host);
	ck_assert_str_eq(conf.datacenter, "dc1");
	ck_assert(!conf.server && !conf.allow_plaintext && !conf.have_keys);
	ck_assert_str_eq(conf.bind, "127.0.0.1");
	ck_assert_str_eq(conf.advertise, "127.0.0.1");
	ck_assert_str_eq(conf.advertise_wan, "127.0.0.1");
	ck_assert_str_eq(conf.data_dir, TV_DATADIR);
	ck_assert_str_eq(conf.run_dir, TV_RUNDIR);
	ck_assert_str_eq(conf.cluster_key, scratch_path("./cluster.key"));
	ck_assert_int_eq(conf.retry_interval.ns, INT64_C(30000000000));
	ck_assert_uint_eq(conf.lan_port, 8301);
	ck_assert_uint_eq(conf.wan_port, 8302);
	ck_assert_uint_eq(conf.raft_port, 8300);
	ck_assert_uint_eq(conf.rpc_port, 8400);
	ck_assert_int_eq(conf.sandbox, 0);
	ck_assert_int_eq(conf.log_level, 2);
	cluster_conf_free(&conf);
	cluster_conf_free(&conf);
}
END_TEST

/* Names of DNS: each spelling is one datacenter, also where the two keys differ by case. */
START_TEST(datacenters_have_no_capitals)
{
	ck_assert_msg(load("datacenter = US-East_1\nacl { primary_datacenter = us-EAST_1 }\n") == TV_OK, "%s", errbuf);
	ck_assert_str_eq(conf.datacenter, "us-east_1");
	ck_assert_str_eq(conf.acl_primary, "us-east_1");
	ck_assert_ptr_null(cluster_acl_primary(&conf));
	cluster_conf_free(&conf);
}
END_TEST

START_TEST(keys_open_the_network)
{
	make_keys();
	ck_assert_msg(load("node_name = n1\nadvertise = 10.1.2.3\n") == TV_OK, "%s", errbuf);
	ck_assert(conf.have_keys);
	ck_assert_str_eq(conf.bind, "0.0.0.0");
	ck_assert_str_eq(conf.advertise_wan, "10.1.2.3");
	cluster_conf_free(&conf);
	ck_assert_int_eq(load("bind = 10.9.9.9"), TV_OK);
	ck_assert_str_eq(conf.advertise, "10.9.9.9");
	cluster_conf_free(&conf);
}
END_TEST

static const struct {
	const char *text, *says;
} bad[] = {
	{ "bind = 0.0.0.0", "bind: 0.0.0.0 is open to other machines, and there is no /" },
	{ "bind = 10.0.0.1", "or bind to 127.0.0.1 (allow_plaintext = true trusts the network instead)" },
	{ "bind = \"::\"", "bind: :: is open to other machines" },
	{ "bind = localhost", "cluster.conf:1: bind: localhost is not an IP address (write 10.0.0.1 or \"fd00::1\"; "
	    "host names and interfaces are not looked up here)" },
	{ "advertise = eth0", "advertise: eth0 is not an IP address (write 10.0.0.1 or \"fd00::1\"; host names and" },
	{ "retry_join = [\"127.0.0.1\", \"n1..example\"]", "retry_join: \"n1..example\" is not an address, nor a host "
	    "name: write an address (10.0.0.1," },
	{ "retry_join = \"provider=aws tag_key=x\"", "retry_join: \"provider=aws tag_key=x\" is cloud auto-join, which is "
	    "not built in: write a host name that has all their addresses, srv:_NAME._tcp.DOMAIN, or file:/PATH" },
	{ "retry_join_wan = \"127.0.0.1:99999\"", "retry_join_wan: \"127.0.0.1:99999\" is not an address" },
	{ "retry_join_wan = \"srv:_serf.example\"", "retry_join_wan: \"srv:_serf.example\" is not a name of SRV records" },
	{ "retry_join = \"file:peers\"", "retry_join: \"file:peers\" does not name a file" },
	{ "advertise = \"0.0.0.0\"", "advertise: 0.0.0.0 is not an address that others could dial" },
	{ "raft_port = 8400", "raft_port and rpc_port are both 8400" },
	{ "lan_port = 0", "cluster.conf:1: lan_port: 0 is not a port number (1 to 65535)" },
	{ "node_name = \"a b\"", "cluster.conf:1: node_name: \"a b\" is not a name" },
	{ "retry_interval = 1ms", "retry_interval: 1ms is out of range (1s to 1h)" },
	{ "sandbox = off", "sandbox: off is not one of required, best-effort" },
	{ "encryption = send", "encryption: \"send\" needs /" },
	{ "encryption = off\nbind = 10.0.0.1", "encryption = \"off\" sends plaintext: allow_plaintext = true trusts" },
	{ "encryption = on", "encryption: on is not one of auto, off, accept, send, required" },
	{ "server = false\nnode_meta = r1", "cluster.conf:2: node_meta: a block of names and texts is expected (write node_meta "
	    "{ rack = \"r1\" })" },
	{ "node_meta { \"a b\" = x }", "cluster.conf:1: node_meta: \"a b\": Key contains invalid characters" },
	{ "node_meta { consul-x = y }", "node_meta: \"consul-x\": Key prefix 'consul-' is reserved for internal use" },
	{ "node_meta { rack = [ a ] }", "node_meta: \"rack\": a text is expected" },
	{ "node_meta { rack = \"a\\u0000b\" }", "cluster.conf:1: " },
	{ "node_meta { a = 1; b = 2; a = 3 }", "cluster.conf:1: " },
	{ "tagged_addresses = x", "tagged_addresses: a block of names and addresses is expected" },
	{ "tagged_addresses { lan = n1.example }", "tagged_addresses: \"lan\": n1.example is not an IP address" },
	{ "tagged_addresses { lan_ipv4 = \"fd00::1\" }", "\"lan_ipv4\": \"fd00::1\" is not an IPv4 address" },
	{ "tagged_addresses { wan_ipv6 = 10.0.0.1 }", "\"wan_ipv6\": 10.0.0.1 is not an IPv6 address" },
	{ "tagged_addresses { \"a.b\" = 10.0.0.1 }", "\"a.b\": Key contains invalid characters" },
	{ "datacentre = dc2", "cluster.conf:1: unknown key \"datacentre\" (did you mean datacenter?)" },
};

START_TEST(names_may_be_dialled)
{
	ck_assert_msg(load("retry_join = [n1, \"n2.example.:8311\", \"srv:_serf._tcp.example\", \"file:/run/peers\"]") == TV_OK, "%s",
	    errbuf);
	ck_assert_uint_eq(conf.retry_join.count, 4);
	cluster_conf_free(&conf);
}
END_TEST

START_TEST(contradictions_are_refused)
{
	ck_assert_msg(load(bad[_i].text) != TV_OK, "%s", bad[_i].text);
	ck_assert_msg(strstr(errbuf, bad[_i].says) != NULL, "%s\n gives %s", bad[_i].text, errbuf);
	ck_assert_ptr_null(conf.bind);
}
END_TEST

/* The catalog's limits; and what is printed reads as the same. */
START_TEST(metadata_of_the_node)
{
	struct buf text = BUF_INIT(65536), out = BUF_INIT(1u << 20);

	ck_assert_msg(load("node_meta { rack = r1; rfc1035-a = \"x=y z\", n = 7, e = \"\" }\ntagged_addresses { wan = 10.1.1.1, "
	    "vpn_ipv6 = \"fd00::1\" }") == TV_OK, "%s", errbuf);
	ck_assert_uint_eq(conf.node_meta.count, 4);
	ck_assert_str_eq(conf.node_meta.items[1], "rfc1035-a=x=y z");
	ck_assert_str_eq(conf.tagged_addresses.items[1], "vpn_ipv6=fd00::1");
	conf_print(cluster_opts, cluster_opt_count, &conf, &out);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&out), "node_meta = { \"rack\" = \"r1\", \"rfc1035-a\" = \"x=y z\", \"n\" = \"7\", "
	    "\"e\" = \"\" }\n"));
	cluster_conf_free(&conf);
	ck_assert_msg(load(buf_cstr(&out)) == TV_OK, "%s", errbuf);
	ck_assert_str_eq(conf.node_meta.items[1], "rfc1035-a=x=y z");
	cluster_conf_free(&conf);
	for (unsigned n = 64; n <= 65; n++) {
		buf_reset(&text);
		buf_puts(&text, "node_meta {\n");
		for (unsigned i = 0; i < n; i++)
			buf_printf(&text, "k%u = v\n", i);
		buf_puts(&text, "}\n");
		ck_assert_int_eq(load(buf_cstr(&text)), n == 64 ? TV_OK : TV_EINVAL);
		cluster_conf_free(&conf);
	}
	ck_assert_ptr_nonnull(strstr(errbuf, "cluster.conf:1: node_meta: more than 64 entries"));
	for (unsigned n = 512; n <= 513; n++) {
		buf_reset(&text);
		buf_printf(&text, "node_meta { k = %0*d }", (int)n, 1);
		ck_assert_int_eq(load(buf_cstr(&text)), n == 512 ? TV_OK : TV_EINVAL);
		cluster_conf_free(&conf);
	}
	ck_assert_ptr_nonnull(strstr(errbuf, "\"k\": Value is too long (limit: 512 characters)"));
	buf_done(&text);
	buf_done(&out);
}
END_TEST

START_TEST(plaintext_must_be_said)
{
	ck_assert_msg(load("bind = 10.0.0.1\nallow_plaintext = true") == TV_OK, "%s", errbuf);
	cluster_conf_free(&conf);
	ck_assert_msg(load("bind = \"::1\"") == TV_OK, "%s", errbuf);
	cluster_conf_free(&conf);
	ck_assert_msg(load("bind = 127.1.0.7") == TV_OK, "%s", errbuf);
	cluster_conf_free(&conf);
}
END_TEST

/* Which stages seal, which take plaintext, and which may do so on the network. */
START_TEST(stages_of_encryption)
{
	static const struct {
		const char *text;
		int stage;
		bool keys, seals, takes_clear;
	} rows[] = {
		{ "", ENCRYPTION_REQUIRED, true, true, false },
		{ "encryption = auto", ENCRYPTION_REQUIRED, true, true, false },
		{ "encryption = required", ENCRYPTION_REQUIRED, true, true, false },
		{ "encryption = send\nbind = 10.0.0.1", ENCRYPTION_SEND, true, true, true },
		{ "encryption = accept\nbind = 127.0.0.1", ENCRYPTION_ACCEPT, true, false, true },
		{ "encryption = accept\nbind = 10.0.0.1\nallow_plaintext = true", ENCRYPTION_ACCEPT, true, false, true },
		{ "encryption = off", ENCRYPTION_OFF, false, false, true },
	};

	make_keys();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ck_assert_msg(load(rows[i].text) == TV_OK, "%s: %s", rows[i].text, errbuf);
		ck_assert_msg(conf.encryption == rows[i].stage && conf.have_keys == rows[i].keys &&
		    cluster_seals(&conf) == rows[i].seals && cluster_takes_clear(&conf) == rows[i].takes_clear, "%s",
		    rows[i].text);
		ck_assert(conf.plaintext_wanted == (rows[i].stage == ENCRYPTION_OFF));
		cluster_conf_free(&conf);
	}
	ck_assert_int_eq(load("encryption = accept\nbind = 10.0.0.1"), TV_EPERM);
	ck_assert_ptr_nonnull(strstr(errbuf, "encryption = \"accept\" sends plaintext"));
}
END_TEST

START_TEST(half_a_set_of_keys_is_refused)
{
	make_keys();
	ck_assert_int_eq(unlink(scratch_path("server.key")), 0);
	ck_assert_msg(load("bind = 127.0.0.1") == TV_OK, "%s", errbuf);	/* a client */
	cluster_conf_free(&conf);
	ck_assert_int_eq(load("server = true"), TV_ENOENT);
	ck_assert_ptr_nonnull(strstr(errbuf, "server = true needs /"));
	ck_assert_int_eq(unlink(scratch_path("server.pub")), 0);
	ck_assert_int_eq(load(""), TV_ENOENT);
	ck_assert_ptr_nonnull(strstr(errbuf, "server.pub is missing beside"));
	ck_assert_int_eq(unlink(scratch_path("cluster.key")), 0);
	scratch_write("server.key", "", 0600);
	ck_assert_int_eq(load(""), TV_ENOENT);
	ck_assert_ptr_nonnull(strstr(errbuf, "cluster.key is missing beside"));
}
END_TEST

START_TEST(addresses)
{
	static const struct {
		const char *text, *ip;
		uint16_t port;
	} rows[] = {
		{ "10.0.0.1", "10.0.0.1", 8301 }, { "10.0.0.1:1", "10.0.0.1", 1 },
		{ "10.0.0.1:65535", "10.0.0.1", 65535 },
		{ "fd00::1", "fd00::1", 8301 }, { "[fd00::1]", "fd00::1", 8301 }, { "[fd00::1]:9", "fd00::1", 9 },
		{ "", NULL, 0 }, { ":80", NULL, 0 }, { "10.0.0.1:", NULL, 0 }, { "10.0.0.1:0", NULL, 0 },
		{ "10.0.0.1:65536", NULL, 0 }, { "10.0.0.1:8x", NULL, 0 }, { "10.0.0.1:+8", NULL, 0 },
		{ "10.0.0", NULL, 0 },
		{ "[fd00::1", NULL, 0 }, { "[fd00::1]x", NULL, 0 }, { "[fd00::1]:", NULL, 0 }, { "[]", NULL, 0 },
		{ "host:80", NULL, 0 }, { "10.0.0.1:99999999999999999999", NULL, 0 },
	};
	char ip[ADDR_IP_BYTES];
	uint16_t port;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool ok = cluster_addr_parse(rows[i].text, 8301, ip, &port);

		ck_assert_msg(ok == (rows[i].ip != NULL), "%s", rows[i].text);
		if (ok) {
			ck_assert_str_eq(ip, rows[i].ip);
			ck_assert_uint_eq(port, rows[i].port);
		}
	}
}
END_TEST

static void
use_data_dir(const char *name)
{
	char text[600];

	snprintf(text, sizeof(text), "data_dir = \"%s\"\n", scratch_path(name));
	ck_assert_msg(load(text) == TV_OK, "%s", errbuf);
}

START_TEST(node_id_is_made_once)
{
	char first[37];
	struct stat st;

	umask(027);
	use_data_dir("a/b/data");
	ck_assert_msg(cluster_node_id(&conf, errbuf, sizeof(errbuf)) == TV_OK, "%s", errbuf);
	memcpy(first, conf.node_id, sizeof(first));
	ck_assert_uint_eq(strlen(first), 36);
	ck_assert_int_eq(first[14], '4');
	ck_assert_ptr_nonnull(strchr("89ab", first[19]));
	ck_assert_int_eq(stat(scratch_path("a/b/data"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0755);
	ck_assert_int_eq(stat(scratch_path("a/b/data/node-id"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0644);
	ck_assert_uint_eq(st.st_nlink, 1);	/* no working file left */
	memset(conf.node_id, 0, sizeof(conf.node_id));
	ck_assert_int_eq(cluster_node_id(&conf, errbuf, sizeof(errbuf)), TV_OK);
	ck_assert_str_eq(conf.node_id, first);
	cluster_conf_free(&conf);
}
END_TEST

/* The daemons of a node start at once: all must end with one identity. */
START_TEST(node_id_race_has_one_winner)
{
	char ids[8][37], gate;
	int start[2], answers[2], status;

	use_data_dir("data");
	ck_assert_int_eq(pipe(start), 0);
	ck_assert_int_eq(pipe(answers), 0);
	for (int i = 0; i < 8; i++) {
		if (fork() != 0)
			continue;
		close(start[1]);
		if (read(start[0], &gate, 1) != 0)	/* all leave when the parent closes it */
			_exit(1);
		if (cluster_node_id(&conf, errbuf, sizeof(errbuf)) != TV_OK ||
		    write(answers[1], conf.node_id, 37) != 37)
			_exit(1);
		_exit(0);
	}
	close(start[0]);
	close(start[1]);
	for (int i = 0; i < 8; i++) {
		ck_assert_int_eq(read(answers[0], ids[i], 37), 37);
		ck_assert_str_eq(ids[i], ids[0]);
	}
	while (wait(&status) > 0)
		ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(answers[0]);
	close(answers[1]);
	cluster_conf_free(&conf);
}
END_TEST

START_TEST(node_id_is_validated)
{
	static const char *const rows[] = {
		"", "x", "ABCDEFAB-1234-4234-8234-123456789012\n", "abcdefab-1234-4234-8234-12345678901\n",
		"abcdefab-1234-4234-8234-1234567890123\n", "abcdefab 1234-4234-8234-123456789012\n",
	};

	use_data_dir("data");
	ck_assert_int_eq(mkdir(conf.data_dir, 0755), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		scratch_write("data/node-id", rows[i], 0644);
		ck_assert_msg(cluster_node_id(&conf, errbuf, sizeof(errbuf)) == TV_EFORMAT, "%s", rows[i]);
		ck_assert_ptr_nonnull(strstr(errbuf, "does not hold a lower-case UUID"));
	}
	scratch_write("data/node-id", "abcdefab-1234-4234-8234-123456789012", 0644);
	ck_assert_int_eq(cluster_node_id(&conf, errbuf, sizeof(errbuf)), TV_OK);
	ck_assert_str_eq(conf.node_id, "abcdefab-1234-4234-8234-123456789012");
	chmod(scratch_path("data/node-id"), 0666);
	ck_assert_int_eq(cluster_node_id(&conf, errbuf, sizeof(errbuf)), TV_EPERM);
	ck_assert_int_eq(rename(scratch_path("data/node-id"), scratch_path("data/other")), 0);
	ck_assert_int_eq(symlink("other", scratch_path("data/node-id")), 0);
	ck_assert_int_ne(cluster_node_id(&conf, errbuf, sizeof(errbuf)), TV_OK);
	cluster_conf_free(&conf);
}
END_TEST

START_TEST(printed_table_loads_again)
{
	struct buf out = BUF_INIT(1 << 16);

	ck_assert_int_eq(load("node_name = n1\nretry_join = [\"127.0.0.2\", \"127.0.0.3:8301\"]\nlog_level = debug"),
	    TV_OK);
	conf_print(cluster_opts, cluster_opt_count, &conf, &out);
	cluster_conf_free(&conf);
	ck_assert_msg(load(buf_cstr(&out)) == TV_OK, "%s\n%s", errbuf, buf_cstr(&out));
	ck_assert_str_eq(conf.node_name, "n1");
	ck_assert_str_eq(conf.retry_join.items[1], "127.0.0.3:8301");
	ck_assert_int_eq(conf.log_level, 3);
	cluster_conf_free(&conf);
	buf_done(&out);
}
END_TEST

/* Behind the sandbox nobody can list addresses, and others know us by the one of the start. */
START_TEST(a_reload_keeps_the_address)
{
	struct cluster_conf fresh;

	make_keys();
	ck_assert_int_eq(load("advertise = 10.1.2.3\n"), TV_OK);
	ck_assert_str_eq(conf.bind, "0.0.0.0");
	scratch_write("cluster.conf", "log_level = debug\n", 0644);
	ck_assert_msg(cluster_conf_load(scratch_path("."), &conf, &fresh, errbuf, sizeof(errbuf)) == TV_OK, "%s", errbuf);
	ck_assert_str_eq(fresh.advertise, "10.1.2.3");
	ck_assert_str_eq(fresh.advertise_wan, "10.1.2.3");
	cluster_conf_free(&fresh);
	/* What the file says counts. */
	scratch_write("cluster.conf", "advertise = 10.4.5.6\n", 0644);
	ck_assert_int_eq(cluster_conf_load(scratch_path("."), &conf, &fresh, errbuf, sizeof(errbuf)), TV_OK);
	ck_assert_str_eq(fresh.advertise, "10.4.5.6");
	cluster_conf_free(&fresh);
	cluster_conf_free(&conf);
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
	Suite *s = suite_create("cluster_conf");
	TCase *t = tcase_create("file");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, scratch_close);
	tcase_add_test(t, defaults_without_keys);
	tcase_add_test(t, datacenters_have_no_capitals);
	tcase_add_test(t, keys_open_the_network);
	tcase_add_test(t, names_may_be_dialled);
	tcase_add_loop_test(t, contradictions_are_refused, 0, (int)(sizeof(bad) / sizeof(bad[0])));
	tcase_add_test(t, plaintext_must_be_said);
	tcase_add_test(t, metadata_of_the_node);
	tcase_add_test(t, stages_of_encryption);
	tcase_add_test(t, half_a_set_of_keys_is_refused);
	tcase_add_test(t, addresses);
	tcase_add_test(t, a_reload_keeps_the_address);
	tcase_add_test(t, node_id_is_made_once);
	tcase_add_test(t, node_id_race_has_one_winner);
	tcase_add_test(t, node_id_is_validated);
	tcase_add_test(t, printed_table_loads_again);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
