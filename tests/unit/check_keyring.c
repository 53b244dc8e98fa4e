/* The keys of gossipd: which of cluster.key and the file counts, what is stored when, and what no key opens. */
#include <check.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/conf/keys.h"
#include "gossipd/keyring.h"
#include "tests/unit/scratch.h"

/* Keys of 32, 24 and 16 bytes, named by their first byte. */
static uint8_t a_bytes[32] = { 'a' }, b_bytes[32] = { 'b' }, c_bytes[24] = { 'c' }, d_bytes[16] = { 'd' };
static struct span a, b, c, d;
static char text[4096];

static const char *
base64(struct span key)
{
	static char out[4][64];
	static unsigned at;

	at = (at + 1) % 4;
	return sodium_bin2base64(out[at], sizeof(out[at]), key.p, key.len, sodium_base64_VARIANT_ORIGINAL);
}

static void
write_seed(struct span first, struct span second)
{
	char file[256];

	snprintf(file, sizeof(file), "%s\n%s%s", base64(first), second.len > 0 ? base64(second) : "",
	    second.len > 0 ? "\n" : "");
	scratch_write("cluster.key", file, 0600);
}

static enum tv_err
try_open(struct kring **k, bool seeded, bool plaintext_wanted)
{
	*k = kring_new();
	ck_assert_ptr_nonnull(*k);
	if (seeded)
		ck_assert_msg(kring_seed(*k, scratch_path("cluster.key"), text, sizeof(text)) == TV_OK, "%s", text);
	return kring_open(*k, scratch_path("."), plaintext_wanted, text, sizeof(text));
}

/* As after a start of the daemon. */
static struct kring *
start(void)
{
	struct kring *k;

	ck_assert_msg(try_open(&k, true, false) == TV_OK, "%s", text);
	return k;
}

/* "abc": these keys in this order. */
static void
expect_ring(const struct kring *k, const char *keys)
{
	const struct seal_ring *r = kring_ring(k);

	ck_assert_uint_eq(r->count, strlen(keys));
	for (unsigned i = 0; i < r->count; i++)
		ck_assert_msg(seal_key_at(r, i).p[0] == (uint8_t)keys[i], "key %u of %s", i, keys);
}

static const char *
file(const char *name)
{
	static char content[4096];
	FILE *f = fopen(scratch_path(name), "r");
	size_t n;

	if (f == NULL)
		return NULL;
	n = fread(content, 1, sizeof(content) - 1, f);
	content[n] = '\0';
	fclose(f);
	return content;
}

/* The file holds exactly these keys, as Serf would write them. */
static void
expect_file(const char *keys)
{
	char want[512] = "[\n";

	if (keys == NULL) {
		ck_assert_ptr_null(file("keyring"));
		return;
	}
	for (size_t i = 0; keys[i] != '\0'; i++) {
		struct span key = keys[i] == 'a' ? a : keys[i] == 'b' ? b : keys[i] == 'c' ? c : d;

		snprintf(want + strlen(want), sizeof(want) - strlen(want), "  \"%s\"%s\n", base64(key),
		    keys[i + 1] != '\0' ? "," : "");
	}
	strcat(want, "]\n");
	ck_assert_ptr_nonnull(file("keyring"));
	ck_assert_str_eq(file("keyring"), want);
}

static enum tv_err
change(struct kring *k, enum kring_op op, struct span key)
{
	text[0] = '\0';
	return kring_change(k, op, key, false, text, sizeof(text));
}

START_TEST(a_key_is_kept_when_it_works)
{
	struct kring *k;
	struct stat st;

	write_seed(a, SPAN_NONE);
	k = start();
	expect_ring(k, "a");
	ck_assert_uint_eq(kring_stored(k), 0);
	kring_free(k);
	expect_file(NULL);			/* it never opened anything */
	k = start();
	kring_opened(k, 0);
	ck_assert_uint_eq(kring_stored(k), 1);
	expect_file("a");
	ck_assert_int_eq(stat(scratch_path("keyring"), &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0600);
	ck_assert_int_eq(access(scratch_path("keyring.new"), F_OK), -1);
	ck_assert_ptr_null(strstr(file("keyring.seen"), base64(a)));
	kring_free(k);
	k = start();
	ck_assert_uint_eq(kring_stored(k), 1);
	expect_ring(k, "a");
	kring_free(k);
}
END_TEST

START_TEST(only_keys_that_work_are_kept)
{
	struct kring *k;

	write_seed(a, c);
	k = start();
	expect_ring(k, "ac");
	kring_opened(k, 1);
	kring_opened(k, 1);
	kring_opened(k, 9);			/* none is there */
	expect_file("c");
	kring_free(k);
	k = start();				/* a is still to be tried */
	expect_ring(k, "ac");
	kring_opened(k, 0);
	expect_file("ac");
	kring_free(k);
}
END_TEST

/* cluster.key as it was before a rotation says nothing new; the file counts. */
START_TEST(a_key_rotated_away_stays_away)
{
	struct kring *k;

	write_seed(a, SPAN_NONE);
	k = start();
	kring_opened(k, 0);
	ck_assert_int_eq(change(k, KRING_INSTALL, b), TV_OK);
	ck_assert_int_eq(change(k, KRING_USE, b), TV_OK);
	ck_assert_int_eq(change(k, KRING_REMOVE, a), TV_OK);
	expect_file("b");
	kring_free(k);
	k = start();
	expect_ring(k, "b");
	kring_free(k);
}
END_TEST

/* A key that was never held is what the operator of a node that missed a rotation gives it. */
START_TEST(a_new_key_in_front_is_tried)
{
	struct kring *k;

	write_seed(a, SPAN_NONE);
	k = start();
	kring_opened(k, 0);
	kring_free(k);
	write_seed(c, d);
	k = start();
	expect_ring(k, "cad");
	kring_opened(k, 1);
	expect_file("a");
	kring_free(k);				/* it was wrong */
	write_seed(a, d);
	k = start();
	expect_ring(k, "ad");			/* not in front: for reading */
	kring_free(k);
	write_seed(c, SPAN_NONE);
	k = start();
	kring_opened(k, 0);
	expect_file("ca");
	kring_free(k);
}
END_TEST

START_TEST(a_file_put_there_by_hand_counts)
{
	char content[128];
	struct kring *k;

	write_seed(a, SPAN_NONE);
	snprintf(content, sizeof(content), " [ \"%s\" ,\n\"%s\"]\n\n", base64(d), base64(b));
	scratch_write("keyring", content, 0600);
	k = start();
	expect_ring(k, "db");
	kring_free(k);
}
END_TEST

START_TEST(damaged_files_are_refused)
{
	static const struct {
		const char *content, *says;
	} rows[] = {
		{ "", "it does not begin with [" },
		{ "{}", "it does not begin with [" },
		{ "[", "a key in quotes is missing" },
		{ "[]", "a key in quotes is missing" },
		{ "[\"AAAA\"]", "a key is not base64 of 16, 24 or 32 bytes" },
		{ "[\"YQAAAAAAAAAAAAAAAAAAAA==\"", "the ] at its end is missing" },
		{ "[\"YQAAAAAAAAAAAAAAAAAAAA==\",]", "a key in quotes is missing" },
		{ "[\"YQAAAAAAAAAAAAAAAAAAAA==\"] x", "trailing characters after the ]" },
		{ "[\"YQAAAAAAAAAAAAAAAAAAAA==", "a key in quotes is missing" },
	};
	struct kring *k;

	write_seed(a, SPAN_NONE);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		scratch_write("keyring", rows[i].content, 0600);
		ck_assert_int_eq(try_open(&k, true, false), TV_EFORMAT);
		ck_assert_msg(strstr(text, rows[i].says) != NULL, "%s: %s", rows[i].content, text);
		ck_assert_ptr_nonnull(strstr(text, "Move it away and start again"));
		ck_assert_ptr_null(strstr(text, "YQAAAA"));
		expect_ring(k, "");
		kring_free(k);
		ck_assert_str_eq(file("keyring"), rows[i].content);
	}
	scratch_write("keyring", "[\"YQAAAAAAAAAAAAAAAAAAAA==\"]", 0644);
	ck_assert_int_eq(try_open(&k, true, false), TV_EPERM);
	ck_assert_ptr_nonnull(strstr(text, "chmod 600"));
	kring_free(k);
}
END_TEST

/* Who was encrypted does not talk in clear because a file is missing. */
START_TEST(plaintext_must_be_wanted)
{
	struct kring *k;

	ck_assert_int_eq(try_open(&k, false, false), TV_OK);	/* never had keys */
	expect_ring(k, "");
	ck_assert_int_eq(change(k, KRING_INSTALL, a), TV_EPERM);
	ck_assert_str_eq(text, "No keyring available (encryption not enabled)");
	kring_free(k);
	write_seed(a, SPAN_NONE);
	k = start();
	kring_opened(k, 0);
	kring_free(k);
	ck_assert_int_eq(try_open(&k, false, false), TV_EPERM);
	ck_assert_ptr_nonnull(strstr(text, "Restore cluster.key, or set encryption = \"off\""));
	kring_free(k);
	ck_assert_int_eq(try_open(&k, false, true), TV_OK);
	expect_ring(k, "");
	kring_free(k);
	expect_file("a");
}
END_TEST

static void
count_change(void *ctx)
{
	++*(unsigned *)ctx;
}

START_TEST(orders)
{
	unsigned changes = 0;
	struct kring *k;

	write_seed(a, SPAN_NONE);
	k = start();
	kring_on_change(k, count_change, &changes);
	kring_opened(k, 0);
	ck_assert_int_eq(change(k, KRING_INSTALL, span_of(a.p, 31)), TV_EINVAL);
	ck_assert_str_eq(text, "key size must be 16, 24 or 32 bytes");
	ck_assert_int_eq(change(k, KRING_USE, b), TV_ENOENT);
	ck_assert_str_eq(text, "requested key is not in the keyring");
	ck_assert_int_eq(change(k, KRING_REMOVE, a), TV_ECONFLICT);
	ck_assert_str_eq(text, "Removing the primary key is not allowed");
	ck_assert_uint_eq(changes, 0);
	ck_assert_int_eq(change(k, KRING_INSTALL, c), TV_OK);
	ck_assert_int_eq(change(k, KRING_INSTALL, d), TV_OK);
	expect_file("acd");
	ck_assert_int_eq(change(k, KRING_USE, d), TV_OK);
	expect_file("dac");
	expect_ring(k, "dac");
	ck_assert_int_eq(change(k, KRING_REMOVE, a), TV_OK);
	expect_file("dc");
	ck_assert_uint_eq(changes, 4);
	ck_assert_int_eq(change(k, KRING_REMOVE, a), TV_OK);	/* as the other pool asks once more */
	ck_assert_int_eq(change(k, KRING_USE, d), TV_OK);
	ck_assert_int_eq(change(k, KRING_INSTALL, c), TV_OK);
	ck_assert_uint_eq(changes, 4);
	kring_free(k);
	k = start();
	expect_ring(k, "dc");
	kring_free(k);
}
END_TEST

/* Alone there is nobody who could prove a key; the operator's order does. */
START_TEST(orders_to_a_node_that_is_alone)
{
	struct kring *k;

	write_seed(a, SPAN_NONE);
	k = start();
	ck_assert_int_eq(kring_change(k, KRING_INSTALL, b, true, text, sizeof(text)), TV_OK);
	expect_file("ab");
	ck_assert_int_eq(kring_change(k, KRING_USE, b, true, text, sizeof(text)), TV_OK);
	kring_free(k);
	k = start();
	expect_ring(k, "ba");
	kring_free(k);
}
END_TEST

START_TEST(a_ring_has_sixteen_keys)
{
	uint8_t bytes[32] = { 0 };
	struct kring *k;

	write_seed(a, SPAN_NONE);
	k = start();
	kring_opened(k, 0);
	for (unsigned i = 1; i < 16; i++) {
		bytes[1] = (uint8_t)i;
		ck_assert_int_eq(change(k, KRING_INSTALL, span_of(bytes, 32)), TV_OK);
	}
	ck_assert_int_eq(change(k, KRING_INSTALL, b), TV_ELIMIT);
	ck_assert_ptr_nonnull(strstr(text, "the keyring is full"));
	kring_free(k);
	write_seed(a, b);
	k = start();				/* no room for b */
	ck_assert_uint_eq(kring_ring(k)->count, 16);
	kring_free(k);
}
END_TEST

/* What cannot be stored is not done: a restart would undo it behind the operator's back. */
START_TEST(a_disk_that_fails_changes_nothing)
{
	unsigned changes = 0;
	struct kring *k;

	write_seed(a, SPAN_NONE);
	k = start();
	kring_on_change(k, count_change, &changes);
	ck_assert_int_eq(mkdir(scratch_path("keyring.new"), 0700), 0);	/* in the way of the new file */
	kring_opened(k, 0);
	ck_assert_uint_eq(kring_stored(k), 0);
	ck_assert_int_eq(change(k, KRING_INSTALL, b), TV_ESYS);
	ck_assert_ptr_nonnull(strstr(text, "/keyring: "));
	expect_ring(k, "a");
	ck_assert_uint_eq(changes, 0);
	ck_assert_int_eq(rmdir(scratch_path("keyring.new")), 0);
	kring_opened(k, 0);
	ck_assert_int_eq(change(k, KRING_INSTALL, b), TV_OK);
	expect_file("ab");
	ck_assert_uint_eq(changes, 1);
	kring_free(k);
}
END_TEST

static struct addr
peer(unsigned last)
{
	return (struct addr){ .ip = { 127, 0, 0, (uint8_t)last }, .len = 4, .port = 8301 };
}

static void
understood(struct kring *k, unsigned last, struct mono now)
{
	struct addr from = peer(last);

	kring_understood(k, &from, now);
}

static void
unread(struct kring *k, unsigned last, enum key_peer kind, struct mono now)
{
	struct addr from = peer(last);

	kring_unreadable(k, &from, kind, now);
}

/* This node understands none of its members: it is the one with the wrong key. */
START_TEST(what_no_key_opens)
{
	char id[KEY_ID_TEXT_BYTES];
	struct kring *k;

	write_seed(a, SPAN_NONE);
	k = start();
	for (int i = 0; i < 2; i++)
		unread(k, 1, KEY_PEER_MEMBER, MONO_S(100));
	ck_assert(!kring_trouble(k, MONO_S(100), text, sizeof(text)));	/* a stray packet */
	unread(k, 7, KEY_PEER_MEMBER, MONO_S(101));
	ck_assert(kring_trouble(k, MONO_S(102), text, sizeof(text)));
	ck_assert_ptr_nonnull(strstr(text, "messages of no member can be decrypted"));
	ck_assert_ptr_nonnull(strstr(text, "127.0.0.7:8301"));
	ck_assert_ptr_nonnull(strstr(text, key_id_text(a, id)));
	ck_assert_ptr_nonnull(strstr(text, "clusterctl keyring export"));
	ck_assert_ptr_nonnull(strstr(text, scratch_path("cluster.key")));
	ck_assert_ptr_null(strstr(text, base64(a)));
	understood(k, 3, MONO_S(102));
	ck_assert(kring_trouble(k, MONO_S(102), text, sizeof(text)));	/* two against one */
	ck_assert_ptr_nonnull(strstr(text, "messages of most members cannot be decrypted"));
	understood(k, 4, MONO_S(102));
	ck_assert(!kring_trouble(k, MONO_S(102), text, sizeof(text)));
	ck_assert(!kring_trouble(k, MONO_S(162), text, sizeof(text)));	/* a minute of silence */
	unread(k, 7, KEY_PEER_MEMBER, MONO_S(200));			/* counts afresh */
	ck_assert(!kring_trouble(k, MONO_S(200), text, sizeof(text)));
	unread(k, 7, KEY_PEER_DIALLED, MONO_S(200));			/* that one is no stray packet */
	ck_assert(kring_trouble(k, MONO_S(200), text, sizeof(text)));
	kring_free(k);
}
END_TEST

/* Whatever strangers send, and whose address they write on it: a node that understands its members is well. */
START_TEST(strangers_say_nothing_of_us)
{
	struct kring *k;

	write_seed(a, SPAN_NONE);
	k = start();
	for (unsigned i = 0; i < 2000; i++)
		unread(k, 1 + i % 250, KEY_PEER_STRANGER, MONO_S(100));
	ck_assert(!kring_trouble(k, MONO_S(100), text, sizeof(text)));	/* also alone */
	for (unsigned i = 1; i <= 3; i++)
		understood(k, i, MONO_S(100));
	for (unsigned i = 0; i < 30; i++)				/* forged: those three speak to us as well */
		unread(k, 1 + i % 3, KEY_PEER_MEMBER, MONO_S(101));
	ck_assert(!kring_trouble(k, MONO_S(101), text, sizeof(text)));
	for (unsigned i = 50; i < 53; i++)				/* joins that an operator tried in vain */
		unread(k, i, KEY_PEER_DIALLED, MONO_S(102));
	ck_assert(!kring_trouble(k, MONO_S(102), text, sizeof(text)));
	/* In a large pool too, in which more are heard than are remembered. */
	for (unsigned i = 0; i < 2000; i++) {
		understood(k, 1 + i % 250, MONO_S(110));
		unread(k, 1 + i * 7 % 15, KEY_PEER_MEMBER, MONO_S(110));
	}
	ck_assert(!kring_trouble(k, MONO_S(110), text, sizeof(text)));
	kring_free(k);
}
END_TEST

START_TEST(strangers_do_not_make_us_search)
{
	unsigned judged = 0;
	struct kring *k;

	write_seed(a, SPAN_NONE);
	k = start();
	for (unsigned i = 0; i < 10000; i++)
		judged += kring_may_judge(k, mono_add(MONO_S(100), MONO_MS(i)));
	ck_assert_uint_eq(judged, 100);
	kring_free(k);
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
	Suite *s = suite_create("keyring");
	TCase *t = tcase_create("ring");
	SRunner *r;
	int failed;

	if (sodium_init() < 0)
		return 1;
	a = span_of(a_bytes, sizeof(a_bytes));
	b = span_of(b_bytes, sizeof(b_bytes));
	c = span_of(c_bytes, sizeof(c_bytes));
	d = span_of(d_bytes, sizeof(d_bytes));
	tcase_add_checked_fixture(t, setup, scratch_close);
	tcase_add_test(t, a_key_is_kept_when_it_works);
	tcase_add_test(t, only_keys_that_work_are_kept);
	tcase_add_test(t, a_key_rotated_away_stays_away);
	tcase_add_test(t, a_new_key_in_front_is_tried);
	tcase_add_test(t, a_file_put_there_by_hand_counts);
	tcase_add_test(t, damaged_files_are_refused);
	tcase_add_test(t, plaintext_must_be_wanted);
	tcase_add_test(t, orders);
	tcase_add_test(t, orders_to_a_node_that_is_alone);
	tcase_add_test(t, a_ring_has_sixteen_keys);
	tcase_add_test(t, a_disk_that_fails_changes_nothing);
	tcase_add_test(t, what_no_key_opens);
	tcase_add_test(t, strangers_say_nothing_of_us);
	tcase_add_test(t, strangers_do_not_make_us_search);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed > 0;
}
