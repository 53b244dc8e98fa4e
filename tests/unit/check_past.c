/* What a node has been, and what it must be told to cease to be. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/conf/keys.h"
#include "common/proc/past.h"
#include "tests/unit/scratch.h"

static char errbuf[2048];
static char data[256];

static void
setup(void)
{
	scratch_open();
	snprintf(data, sizeof(data), "%s", scratch_path("raftd"));
	ck_assert_int_eq(mkdir(data, 0700), 0);
	ck_assert_int_eq(mkdir(scratch_path("keys"), 0755), 0);
	ck_assert_int_eq(keys_generate(scratch_path("keys"), errbuf, sizeof(errbuf)), TV_OK);
}

/* cluster.conf of this text, with keys or without, and what comes of it. */
static enum tv_err
start(const char *text, bool keys)
{
	struct cluster_conf c;
	char conf[4096];
	enum tv_err err;

	snprintf(conf, sizeof(conf), "%s\nadvertise = \"127.0.0.1\"\ndata_dir = \"%s\"\n", text, scratch_path("."));
	if (keys)
		snprintf(conf + strlen(conf), sizeof(conf) - strlen(conf), "cluster_key = \"%s\"\nserver_key = \"%s\"\n"
		    "server_pub = \"%s\"\n", scratch_path("keys/cluster.key"), scratch_path("keys/server.key"),
		    scratch_path("keys/server.pub"));
	scratch_write("cluster.conf", conf, 0644);
	err = cluster_conf_load(scratch_path("."), NULL, &c, errbuf, sizeof(errbuf));
	ck_assert_msg(err == TV_OK, "%s", errbuf);
	errbuf[0] = '\0';
	err = past_check(data, &c, "/etc/triumvir", errbuf, sizeof(errbuf));
	if (err == TV_OK)
		ck_assert_int_eq(past_write(data, &c, errbuf, sizeof(errbuf)), TV_OK);
	cluster_conf_free(&c);
	return err;
}

static void
expect_said(const char *text)
{
	ck_assert_msg(strstr(errbuf, text) != NULL, "\"%s\" is not in \"%s\"", text, errbuf);
}

/* Each row is a life: starts that must all go well, but for the last one. */
static const struct {
	const char *conf[3];
	bool keys[3];
	enum tv_err last;
	const char *said;
} rows[] = {
	/* More is always right, and what it is may be said again. */
	{ { "", "server = true" }, { false, true }, TV_OK, NULL },
	{ { "server = true", "server = true" }, { true, true }, TV_OK, NULL },
	{ { "", "" }, { false, true }, TV_OK, NULL },
	/* Lost: all of it, the one line, the keys. */
	{ { "server = true", "" }, { true, false }, TV_EPERM, "was a server" },
	{ { "server = true", "" }, { true, true }, TV_EPERM, "set server = false there, or empty" },
	{ { "server = true", "" }, { false, false }, TV_EPERM, "/etc/triumvir/cluster.conf makes it a client" },
	{ { "server = true", "server = true" }, { true, false }, TV_EPERM, "would now send plaintext" },
	{ { "", "" }, { true, false }, TV_EPERM, "set encryption = \"off\" in /etc/triumvir/cluster.conf, or empty" },
	/* Said in so many words. */
	{ { "server = true", "server = false" }, { true, true }, TV_OK, NULL },
	{ { "server = true", "server = false", "" }, { true, true, true }, TV_OK, NULL },
	{ { "server = true", "server = false" }, { true, false }, TV_EPERM, "used encryption" },
	{ { "", "encryption = \"off\"" }, { true, false }, TV_OK, NULL },
	{ { "", "encryption = \"off\"", "encryption = \"off\"" }, { true, false, true }, TV_OK, NULL },
	{ { "", "encryption = \"off\"", "" }, { true, false, false }, TV_EPERM, "used encryption" },
	{ { "server = true", "encryption = \"off\"" }, { true, false }, TV_EPERM, "was a server" },
	{ { "server = true", "server = false\nencryption = \"off\"" }, { true, false }, TV_OK, NULL },
	/* Stages towards encryption: one that still sends plaintext is not encrypted. */
	{ { "encryption = \"accept\"\nbind = \"127.0.0.1\"", "" }, { true, false }, TV_OK, NULL },
	{ { "encryption = \"send\"\nbind = \"127.0.0.1\"", "" }, { true, false }, TV_EPERM, "used encryption" },
};

START_TEST(lives)
{
	unsigned i = 0;

	for (; i < 2 && rows[_i].conf[i + 1] != NULL; i++)
		ck_assert_msg(start(rows[_i].conf[i], rows[_i].keys[i]) == TV_OK, "%s", errbuf);
	ck_assert_msg(start(rows[_i].conf[i], rows[_i].keys[i]) == rows[_i].last, "%s", errbuf);
	if (rows[_i].said == NULL)
		return;
	expect_said(rows[_i].said);
	expect_said(scratch_path("raftd/past"));
	/* A refusal changes nothing: once more the same, and brought back all is well. */
	ck_assert_int_eq(start(rows[_i].conf[i], rows[_i].keys[i]), rows[_i].last);
	ck_assert_int_eq(start(rows[_i].conf[0], rows[_i].keys[0]), TV_OK);
	/* An emptied folder knows nothing. */
	ck_assert_int_eq(unlink(scratch_path("raftd/past")), 0);
	ck_assert_int_eq(start(rows[_i].conf[i], rows[_i].keys[i]), TV_OK);
}
END_TEST

START_TEST(damaged_files_are_refused)
{
	static const char *const bad[] = { "server", "server = maybe\n", "encrypted = true\nkeys = true\n", "{" };
	struct stat st;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		scratch_write("raftd/past", bad[i], 0600);
		ck_assert_int_ne(start("", false), TV_OK);
		expect_said("raftd/past:");
		expect_said("remove it if cluster.conf is what it should be");
	}
	ck_assert_int_eq(unlink(scratch_path("raftd/past")), 0);
	ck_assert_int_eq(start("server = true", true), TV_OK);
	ck_assert_int_eq(stat(scratch_path("raftd/past"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	ck_assert_ptr_nonnull(strstr(scratch_read("raftd/past"), "server = true\nencrypted = true\n"));
	ck_assert_int_eq(access(scratch_path("raftd/past.new"), F_OK), -1);
}
END_TEST

START_TEST(a_folder_that_is_not_there)
{
	struct cluster_conf c;

	scratch_write("cluster.conf", "", 0644);
	ck_assert_int_eq(cluster_conf_load(scratch_path("."), NULL, &c, errbuf, sizeof(errbuf)), TV_OK);
	ck_assert_int_eq(past_check(scratch_path("none"), &c, "/etc", errbuf, sizeof(errbuf)), TV_OK);
	ck_assert_int_eq(past_write(scratch_path("none"), &c, errbuf, sizeof(errbuf)), TV_ENOENT);
	ck_assert_int_eq(mkdir(scratch_path("raftd/past.new"), 0700), 0);	/* in the way */
	ck_assert_int_eq(past_write(data, &c, errbuf, sizeof(errbuf)), TV_ESYS);
	expect_said("raftd/past: ");
	cluster_conf_free(&c);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("past");
	TCase *t = tcase_create("past");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, scratch_close);
	tcase_add_loop_test(t, lives, 0, sizeof(rows) / sizeof(rows[0]));
	tcase_add_test(t, damaged_files_are_refused);
	tcase_add_test(t, a_folder_that_is_not_there);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
