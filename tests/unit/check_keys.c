/* Key files: what is read, what is refused and how it is told, what keygen writes. */
#include <check.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/conf/keys.h"
#include "tests/unit/scratch.h"

/* 32 bytes 0x00..0x1f, and 32 of 0xff. */
#define KEY_A "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define KEY_B "//////////////////////////////////////////8="

static char errbuf[512];
static struct keyring ring;
static struct server_keys server;

static enum tv_err
load(const char *path)
{
	return keyring_load(path, &ring, errbuf, sizeof(errbuf));
}

static enum tv_err
load_server(enum server_part part)
{
	return server_keys_load(scratch_path("server.key"), scratch_path("server.pub"), part, &server, errbuf,
	    sizeof(errbuf));
}

START_TEST(ring_keeps_the_order)
{
	const char *path = scratch_write("k", "# comment\n\n" KEY_A "\r\n  " KEY_B "  \n", 0600);

	ck_assert_msg(load(path) == TV_OK, "%s", errbuf);
	ck_assert_uint_eq(ring.count, 2);
	for (int i = 0; i < KEY_BYTES; i++) {
		ck_assert_uint_eq(ring.keys[0].bytes[i], (unsigned)i);
		ck_assert_uint_eq(ring.keys[1].bytes[i], 0xff);
	}
	keyring_wipe(&ring);
	ck_assert_ptr_null(ring.keys);
	keyring_wipe(&ring);
}
END_TEST

START_TEST(bad_text_is_refused_without_being_shown)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "", ": holds no key" },
		{ "# only this\n", ": holds no key" },
		{ KEY_A "\nsecretsecretsecret\n", ":2: expected 44 characters of base64 (32 bytes)" },
		{ "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\n", ":1: expected 44" },	/* 43 */
		{ "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=x\n", ":1: expected 44" },
		{ "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-_\n", ":1: expected 44" },	/* other alphabet */
		{ "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==\n", ":1: expected 44" },	/* 31 bytes */
		{ KEY_A " " KEY_B "\n", ":1: expected 44" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *path = scratch_write("k", rows[i].text, 0600);

		ck_assert_int_eq(load(path), TV_EFORMAT);
		ck_assert_ptr_null(ring.keys);
		ck_assert_int_eq(strncmp(errbuf + strlen(path), rows[i].says, strlen(rows[i].says)), 0);
		ck_assert_ptr_null(strstr(errbuf, "secretsecret"));
		ck_assert_ptr_null(strstr(errbuf, "AAECAw"));
	}
}
END_TEST

START_TEST(number_of_keys_is_limited)
{
	char text[(KEYRING_KEYS_MAX + 1) * 46];

	text[0] = '\0';
	for (int i = 0; i < KEYRING_KEYS_MAX; i++)
		strcat(text, KEY_A "\n");
	ck_assert_int_eq(load(scratch_write("k", text, 0600)), TV_OK);
	ck_assert_uint_eq(ring.count, KEYRING_KEYS_MAX);
	keyring_wipe(&ring);
	strcat(text, KEY_A "\n");
	ck_assert_int_eq(load(scratch_write("k", text, 0600)), TV_ELIMIT);
	ck_assert_ptr_nonnull(strstr(errbuf, ":17: more than 16 keys"));
}
END_TEST

START_TEST(modes_and_links)
{
	static const mode_t open_modes[] = { 0640, 0604, 0620, 0602, 0644, 0610, 0666 };
	const char *path = scratch_write("k", KEY_A "\n", 0600), *link_path = scratch_path("l");

	for (size_t i = 0; i < sizeof(open_modes) / sizeof(open_modes[0]); i++) {
		chmod(path, open_modes[i]);
		ck_assert_int_eq(load(path), TV_EPERM);
		ck_assert_ptr_nonnull(strstr(errbuf, "chmod 600 /"));
	}
	chmod(path, 0400);
	ck_assert_int_eq(load(path), TV_OK);
	keyring_wipe(&ring);
	ck_assert_int_eq(symlink(path, link_path), 0);
	ck_assert_int_eq(load(link_path), TV_EPERM);
	ck_assert_ptr_nonnull(strstr(errbuf, "is a symbolic link"));
	ck_assert_int_eq(unlink(link_path), 0);
	ck_assert_int_eq(link(path, link_path), 0);
	ck_assert_int_eq(load(path), TV_EPERM);
	ck_assert_ptr_nonnull(strstr(errbuf, "hard link"));
	ck_assert_int_eq(unlink(link_path), 0);
	ck_assert_int_eq(load(scratch_path(".")), TV_EPERM);
	ck_assert_int_eq(mkfifo(scratch_path("fifo"), 0600), 0);
	ck_assert_int_eq(load(scratch_path("fifo")), TV_EPERM);
	ck_assert_int_eq(load(scratch_path("none")), TV_ENOENT);
	ck_assert_int_eq(chmod(scratch_path("."), 0777), 0);
	ck_assert_int_eq(load(path), TV_EPERM);
	ck_assert_ptr_nonnull(strstr(errbuf, "its folder is writable by everybody: chmod o-w /"));
	ck_assert_int_eq(chmod(scratch_path("."), 0755), 0);
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(path, 65534, 65534), 0);
		ck_assert_int_eq(load(path), TV_EPERM);
		ck_assert_ptr_nonnull(strstr(errbuf, "belongs to uid 65534: chown root /"));
	}
}
END_TEST

START_TEST(generated_keys_load)
{
	struct stat st;
	struct key first;

	ck_assert_msg(keys_generate(scratch_path("."), errbuf, sizeof(errbuf)) == TV_OK, "%s", errbuf);
	ck_assert_msg(load(scratch_path("cluster.key")) == TV_OK, "%s", errbuf);
	ck_assert_uint_eq(ring.count, 1);
	first = ring.keys[0];
	ck_assert(!sodium_is_zero(first.bytes, KEY_BYTES));
	keyring_wipe(&ring);
	ck_assert_msg(load_server(SERVER_RPC) == TV_OK, "%s", errbuf);
	ck_assert_uint_eq(server.count, 1);
	ck_assert_int_ne(memcmp(server.rpc[0].secret, first.bytes, KEY_BYTES), 0);
	ck_assert_ptr_null(server.raft);
	server_keys_wipe(&server);
	ck_assert_ptr_null(server.rpc);
	ck_assert_msg(load_server(SERVER_RAFT) == TV_OK, "%s", errbuf);
	ck_assert_ptr_null(server.rpc);
	ck_assert_ptr_nonnull(server.raft);
	server_keys_wipe(&server);
	ck_assert_int_eq(stat(scratch_path("cluster.key"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(stat(scratch_path("server.key"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(stat(scratch_path("server.pub"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0644);
}
END_TEST

START_TEST(keygen_never_overwrites)
{
	static const char *const names[] = { "cluster.key", "server.key", "server.pub" };

	for (int i = 0; i < 3; i++) {
		scratch_write(names[i], "mine\n", 0600);
		ck_assert_int_eq(keys_generate(scratch_path("."), errbuf, sizeof(errbuf)), TV_EEXIST);
		ck_assert_ptr_nonnull(strstr(errbuf, names[i]));
		ck_assert_str_eq(scratch_read(names[i]), "mine\n");
		for (int j = 0; j < 3; j++)	/* nothing else was left there */
			ck_assert_int_eq(access(scratch_path(names[j]), F_OK), i == j ? 0 : -1);
		ck_assert_int_eq(unlink(scratch_path(names[i])), 0);
	}
	ck_assert_int_eq(symlink("/nonexistent", scratch_path("server.key")), 0);
	ck_assert_int_eq(keys_generate(scratch_path("."), errbuf, sizeof(errbuf)), TV_EEXIST);
	ck_assert_int_eq(keys_generate(scratch_path("no/such"), errbuf, sizeof(errbuf)), TV_ENOENT);
}
END_TEST

START_TEST(client_needs_no_secret)
{
	ck_assert_int_eq(keys_generate(scratch_path("."), errbuf, sizeof(errbuf)), TV_OK);
	ck_assert_int_eq(unlink(scratch_path("server.key")), 0);
	ck_assert_int_eq(load_server(SERVER_CLIENT), TV_OK);
	ck_assert_ptr_null(server.rpc);
	ck_assert_ptr_null(server.raft);
	server_keys_wipe(&server);
	ck_assert_int_eq(load_server(SERVER_RPC), TV_ENOENT);
	ck_assert_ptr_nonnull(strstr(errbuf, "server.key: No such file"));
}
END_TEST

START_TEST(halves_must_match)
{
	ck_assert_int_eq(keys_generate(scratch_path("."), errbuf, sizeof(errbuf)), TV_OK);
	scratch_write("server.pub", KEY_A "\n", 0644);
	ck_assert_int_eq(load_server(SERVER_RPC), TV_EAUTH);
	ck_assert_ptr_null(server.rpc);
	ck_assert_ptr_nonnull(strstr(errbuf, "do not belong together"));
	scratch_write("server.pub", KEY_A "\n" KEY_B "\n", 0644);
	ck_assert_int_eq(load_server(SERVER_CLIENT), TV_ELIMIT);
	scratch_write("server.pub", KEY_A "\n", 0666);
	ck_assert_int_eq(load_server(SERVER_CLIENT), TV_EPERM);
	ck_assert_ptr_nonnull(strstr(errbuf, "chmod 644"));
}
END_TEST

/* Computed apart with Python's hashlib.blake2b(digest_size=32). */
START_TEST(derived_values)
{
	static const uint8_t id[KEY_ID_BYTES] = { 0x67, 0xe3, 0xfe, 0x99, 0x00, 0x0a, 0x9f, 0x92 };
	static const uint8_t want_psk[KEY_BYTES] = {
		0x43, 0x82, 0x9c, 0x20, 0x8a, 0xe6, 0x79, 0x4e, 0x30, 0x16, 0xc5, 0xa9, 0x50, 0xb2, 0x6e, 0x87,
		0x02, 0x86, 0x6c, 0x36, 0x36, 0x8b, 0x2e, 0xe9, 0xd1, 0x09, 0x4b, 0x33, 0x35, 0xb7, 0x75, 0x56,
	};
	static const uint8_t want_static[KEY_BYTES] = {
		0xac, 0x75, 0xee, 0x66, 0xad, 0x36, 0xb8, 0x5b, 0x3e, 0xe3, 0x3a, 0x97, 0xc7, 0xca, 0xb3, 0xea,
		0xfa, 0x2e, 0x4b, 0x42, 0xd5, 0x48, 0x26, 0x2f, 0x55, 0x1a, 0x24, 0x9e, 0xdc, 0x20, 0x21, 0x03,
	};
	uint8_t key[KEY_BYTES], got[KEY_ID_BYTES], psk[KEY_BYTES], pub[KEY_BYTES];
	struct key_pair pair;

	ck_assert_int_ge(sodium_init(), 0);
	for (int i = 0; i < KEY_BYTES; i++)
		key[i] = (uint8_t)i;
	key_id(key, got);
	ck_assert_mem_eq(got, id, sizeof(id));
	server_raft_psk(key, psk);
	ck_assert_mem_eq(psk, want_psk, sizeof(psk));
	server_rpc_pair(key, &pair);
	ck_assert_mem_eq(pair.secret, want_static, sizeof(want_static));
	ck_assert_int_eq(crypto_scalarmult_base(pub, pair.secret), 0);
	ck_assert_mem_eq(pair.pub, pub, sizeof(pub));
}
END_TEST

/* No generator of ours keeps a state, which a copy of a virtual machine would have as well: numbers are the kernel's. */
START_TEST(randomness_is_the_kernels)
{
	ck_assert_int_ge(sodium_init(), 0);
	ck_assert_str_eq(randombytes_implementation_name(), "sysrandom");
}
END_TEST

/* As keygen wrote it before the secret of the links was derived. */
START_TEST(old_public_half)
{
	uint8_t key[KEY_BYTES], pub[KEY_BYTES];
	char text[sodium_base64_ENCODED_LEN(KEY_BYTES, sodium_base64_VARIANT_ORIGINAL)];

	ck_assert_int_ge(sodium_init(), 0);
	for (int i = 0; i < KEY_BYTES; i++)
		key[i] = (uint8_t)i;
	ck_assert_int_eq(crypto_scalarmult_base(pub, key), 0);
	sodium_bin2base64(text, sizeof(text), pub, sizeof(pub), sodium_base64_VARIANT_ORIGINAL);
	scratch_write("server.key", KEY_A "\n", 0600);
	scratch_write("server.pub", text, 0644);
	ck_assert_int_eq(load_server(SERVER_RPC), TV_EAUTH);
	ck_assert_ptr_nonnull(strstr(errbuf, "server.pub: was made by an older version: make it anew with clusterctl "
	    "keygen --pub"));
	ck_assert_msg(keys_derive_pub(scratch_path("."), errbuf, sizeof(errbuf)) == TV_OK, "%s", errbuf);
	ck_assert_msg(load_server(SERVER_RPC) == TV_OK, "%s", errbuf);
	server_keys_wipe(&server);
	ck_assert_int_eq(unlink(scratch_path("server.key")), 0);
	ck_assert_int_eq(keys_derive_pub(scratch_path("."), errbuf, sizeof(errbuf)), TV_ENOENT);
	ck_assert_int_eq(load_server(SERVER_CLIENT), TV_OK);	/* what was there stayed */
	server_keys_wipe(&server);
}
END_TEST

/* server.key while it is replaced: server.pub may belong to any line. */
START_TEST(several_server_keys)
{
	uint8_t first[KEY_BYTES];

	scratch_write("server.key", KEY_A "\n", 0600);
	ck_assert_int_eq(keys_derive_pub(scratch_path("."), errbuf, sizeof(errbuf)), TV_OK);
	scratch_write("server.key", KEY_B "\n" KEY_A "\n", 0600);
	ck_assert_msg(load_server(SERVER_RPC) == TV_OK, "%s", errbuf);
	ck_assert_uint_eq(server.count, 2);
	ck_assert_mem_eq(server.pub, server.rpc[1].pub, KEY_BYTES);
	memcpy(first, server.rpc[0].pub, KEY_BYTES);
	server_keys_wipe(&server);
	ck_assert_int_eq(keys_derive_pub(scratch_path("."), errbuf, sizeof(errbuf)), TV_OK);
	ck_assert_int_eq(load_server(SERVER_RPC), TV_OK);
	ck_assert_mem_eq(server.pub, first, KEY_BYTES);
	server_keys_wipe(&server);
	scratch_write("server.key", KEY_A "\n", 0600);
	ck_assert_int_eq(load_server(SERVER_RPC), TV_EAUTH);
	scratch_write("server.key", KEY_A "\n" KEY_A "\n" KEY_A "\n" KEY_A "\n" KEY_A "\n", 0600);
	ck_assert_int_eq(load_server(SERVER_RAFT), TV_ELIMIT);
	ck_assert_ptr_nonnull(strstr(errbuf, ":5: more than 4 keys"));
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
	Suite *s = suite_create("keys");
	TCase *t = tcase_create("files");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, scratch_close);
	tcase_add_test(t, ring_keeps_the_order);
	tcase_add_test(t, bad_text_is_refused_without_being_shown);
	tcase_add_test(t, number_of_keys_is_limited);
	tcase_add_test(t, modes_and_links);
	tcase_add_test(t, generated_keys_load);
	tcase_add_test(t, keygen_never_overwrites);
	tcase_add_test(t, client_needs_no_secret);
	tcase_add_test(t, halves_must_match);
	tcase_add_test(t, derived_values);
	tcase_add_test(t, randomness_is_the_kernels);
	tcase_add_test(t, old_public_half);
	tcase_add_test(t, several_server_keys);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
