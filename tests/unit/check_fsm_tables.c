/*
 * The list of tables: the document says the same; and states, snapshots and archives of versions with other tables, older
 * and newer, keep each number with its table.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "common/record/mpack.h"
#include "raftd/fsm/copy/stage.h"
#include "raftd/fsm/kv/kv.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/record.h"
#include "raftd/fsm/table/table.h"
#include "tests/unit/fsm_kit.h"

#define DATA TV_SRCDIR "/tests/data/state"	/* written by a raftd of meta version 3: see the README there */
#define RESTORE_ID "33333333-3333-4333-8333-333333333333"

static struct kit k;

static void
setup(void)
{
	kit_open(&k);
}

static void
teardown(void)
{
	kit_close(&k);
}

static struct buf
slurp(const char *path)
{
	struct buf b = BUF_INIT(1u << 20);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	ck_assert_msg(fd != -1, "%s", path);
	while ((n = read(fd, buf_room(&b, 65536), 65536)) > 0)
		b.len += (size_t)n;
	close(fd);
	return b;
}

static void
copy_file(const char *from, const char *to)
{
	struct buf b = slurp(from);
	int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_msg(fd != -1, "%s", to);
	ck_assert_int_eq(write(fd, b.data, b.len), (ssize_t)b.len);
	close(fd);
	buf_done(&b);
}

/* -- the list -- */

START_TEST(letters_are_unique)
{
	for (unsigned i = 0; i < fsm_table_count; i++) {
		const struct fsm_table *t = &fsm_tables[i];
		unsigned names = 0;

		ck_assert_ptr_eq(fsm_table_find((uint8_t)t->letter), t);	/* and not one before it */
		for (const char *at = t->key; (at = strstr(at, "name(")) != NULL; at++)
			names++;
		ck_assert_msg(names == t->names, "%s: the words name %u parts", t->title, names);
		ck_assert_msg((t->rest == REST_TIMED) == (strncmp(t->key, "u64", 3) == 0), "%s", t->title);
	}
	ck_assert_ptr_null(fsm_table_find('F'));
	ck_assert_ptr_null(fsm_table_find(0));
}
END_TEST

START_TEST(document_says_the_same)
{
	struct buf doc = slurp(TV_SRCDIR "/doc/storage.md"), rows = BUF_INIT(1u << 16);
	const char *found;

	buf_puts(&rows, "| byte | table | rest of the key | value |\n| --- | --- | --- | --- |\n");
	for (unsigned i = 0; i < fsm_table_count; i++) {
		const struct fsm_table *t = &fsm_tables[i];

		buf_printf(&rows, "| `%c` | %s |%s%s |%s%s |\n", (char)t->letter, t->title, t->key[0] != '\0' ? " " : "",
		    t->key, t->value[0] != '\0' ? " " : "", t->value);
	}
	found = strstr(buf_cstr(&doc), buf_cstr(&rows));
	ck_assert_msg(found != NULL && found[rows.len] == '\n', "doc/storage.md should have these rows:\n\n%s",
	    buf_cstr(&rows));
	buf_done(&doc);
	buf_done(&rows);
}
END_TEST

/* -- what an older version wrote -- */

/* Index and number of records of each table of the fixture. */
static const struct { uint8_t letter; uint64_t index, count; } fixture[] = {
	{ 'K', 45, 4 }, { 'T', 34, 3 }, { 'N', 50, 3 }, { 'S', 47, 2 }, { 'V', 31, 0 }, { 'C', 48, 3 }, { 'X', 46, 3 },
	{ 'G', 49, 2 }, { 'O', 43, 0 },
};

static void
assert_fixture(const struct fsm *f)
{
	for (unsigned i = 0; i < sizeof(fixture) / sizeof(fixture[0]); i++) {
		const struct fsm_table *t = fsm_table_find(fixture[i].letter);

		ck_assert(t->indexed);
		ck_assert_msg(f->index[t->index] == fixture[i].index, "%s: %llu", t->title,
		    (unsigned long long)f->index[t->index]);
		if (t->counted)
			ck_assert_uint_eq(f->tally[t->tally], fixture[i].count);
	}
}

static void
open_fixture(void)
{
	char path[128];

	fsm_close(k.f);
	snprintf(path, sizeof(path), "%s/state", k.dir);
	kit_remove_dir(path);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/state/state.db", k.dir);
	copy_file(DATA "/state/state.db", path);
	snprintf(path, sizeof(path), "%s/state/log.0000000001", k.dir);
	copy_file(DATA "/state/log.0000000001", path);
	k.f = NULL;
	kit_reopen(&k);
}

static uint8_t
meta_version(void)
{
	struct tkey key;
	struct span val;

	meta_key(&key);
	ck_assert(tbl_peek(k.f, &key, &val));
	return val.p[0];
}

START_TEST(older_state_is_upgraded_once)
{
	open_fixture();
	ck_assert_uint_eq(meta_version(), 3);
	ck_assert_uint_eq(fsm_applied(k.f), 31);
	ck_assert_uint_eq(fsm_index(k.f), 50);
	assert_fixture(k.f);
	ck_assert(span_eqs(kit_get(&k, "a/1").Value, "one"));
	ck_assert_uint_eq(kit_prefix_index(&k, "a/"), 45);
	ck_assert(kit_put(&k, "a/1", "one"));			/* changes nothing but the meta record */
	ck_assert_uint_eq(meta_version(), 4);
	assert_fixture(k.f);
	kit_reopen(&k);
	ck_assert_uint_eq(fsm_applied(k.f), 32);
	ck_assert_uint_eq(fsm_index(k.f), 51);
	assert_fixture(k.f);
	ck_assert(kit_put(&k, "a/1", "new"));
	ck_assert_uint_eq(kit_prefix_index(&k, "a/"), 52);
}
END_TEST

START_TEST(older_snapshot_is_read)
{
	uint64_t index, term;
	char err[512];

	ck_assert_msg(fsm_restore(k.f, DATA "/snapshot", &index, &term, err, sizeof(err)) == TV_OK, "%s", err);
	ck_assert_uint_eq(index, 31);
	assert_fixture(k.f);
	ck_assert(kit_put(&k, "a/1", "new"));
	kit_reopen(&k);
	ck_assert_uint_eq(k.f->tally[FT_KV], 4);
	ck_assert_uint_eq(k.f->index[FX_SESSIONS], 46);
}
END_TEST

START_TEST(older_archive_is_read)
{
	struct restore_step q = { .ID = span_str(RESTORE_ID) };
	struct buf all = slurp(DATA "/archive.snap");
	_Atomic uint64_t done = 0;
	uint8_t sum[32];
	char err[512];

	crypto_generichash(sum, sizeof(sum), all.data, all.len, NULL, 0);
	q.Bytes = all.len;
	q.Checksum = span_of(sum, sizeof(sum));
	ck_assert_int_eq(kit_apply(&k, OP_RESTORE_BEGIN, &q).err, TV_OK);
	q = (struct restore_step){ .ID = q.ID, .Data = buf_span(&all) };
	ck_assert_int_eq(kit_apply(&k, OP_RESTORE_CHUNK, &q).err, TV_OK);
	ck_assert_msg(fsm_stage_load(k.f, RESTORE_ID, 1u << 20, &done, err, sizeof(err)) == TV_OK, "%s", err);
	ck_assert_msg(fsm_stage_swap(k.f, RESTORE_ID, 3, 1, err, sizeof(err)) == TV_OK, "%s", err);
	fsm_restore_tidy(k.f);
	ck_assert_uint_eq(fsm_index(k.f), 51);			/* above the archive's */
	for (unsigned i = 0; i < sizeof(fixture) / sizeof(fixture[0]); i++) {
		const struct fsm_table *t = fsm_table_find(fixture[i].letter);

		ck_assert_uint_eq(k.f->index[t->index], 51);
		if (t->counted)
			ck_assert_uint_eq(k.f->tally[t->tally], fixture[i].count);
	}
	buf_done(&all);
}
END_TEST

/* -- what a newer version might write -- */

static void
put_raw(const struct tkey *key, struct span val)
{
	ck_assert_int_eq(tbl_begin(k.f), 0);
	tbl_put(k.f, key, val);
	ck_assert_int_eq(tbl_end(k.f), 0);
}

/* The list of the present meta record that begins at *r, with a table added in its middle and another one taken out. */
static void
change_list(struct rd *r, struct buf *out, uint8_t added, uint8_t taken)
{
	uint8_t n = rd_u8(r);

	buf_u8(out, n);
	for (unsigned i = 0; i < n; i++) {
		uint8_t letter = rd_u8(r);
		uint64_t v = rd_u64be(r);

		if (i == n / 2) {
			buf_u8(out, added);
			buf_u64be(out, 12345678);
		}
		if (letter == taken)
			continue;
		buf_u8(out, letter);
		buf_u64be(out, v);
	}
}

START_TEST(table_in_the_middle)
{
	uint64_t index[FX_COUNT], tally[FT_COUNT];
	struct buf b = BUF_INIT(4096);
	struct tkey key;
	struct span val;
	struct rd r;

	open_fixture();
	ck_assert(kit_put(&k, "a/1", "new"));
	memcpy(index, k.f->index, sizeof(index));
	memcpy(tally, k.f->tally, sizeof(tally));
	meta_key(&key);
	ck_assert(tbl_peek(k.f, &key, &val));
	r = rd_span_over(val);
	buf_putspan(&b, rd_bytes(&r, 17));
	change_list(&r, &b, 'B', 'N');
	change_list(&r, &b, 'B', 'S');
	buf_putspan(&b, rd_rest(&r));
	buf_puts(&b, "and more");
	put_raw(&key, buf_span(&b));
	kit_reopen(&k);
	index[FX_NODES] = 0;
	tally[FT_SERVICES] = 0;
	ck_assert_mem_eq(k.f->index, index, sizeof(index));
	ck_assert_mem_eq(k.f->tally, tally, sizeof(tally));
	ck_assert_uint_eq(k.f->restored[FR_BASE], 19);
	ck_assert_uint_eq(k.f->restored[FR_FLOOR], 22);
	buf_done(&b);
}
END_TEST

/* Each number of a record that may become longer is read from one that is. */
START_TEST(longer_records_are_read)
{
	struct buf b = BUF_INIT(4096);
	struct arena a = ARENA_INIT(1u << 20);
	enum fsm_tally tally;
	struct tkey key;
	struct span val;
	struct kv_entry e;
	uint64_t index;
	char id[37];

	open_fixture();
	/* kv_entry */
	TKEY(&key, TBL_KV, span_str("a/3"));
	ck_assert(tbl_peek(k.f, &key, &val));
	ck_assert_uint_eq(val.p[0], 0x97);
	buf_putspan(&b, val);
	b.data[0] = 0x99;
	mpw_str(&b, span_str("a field of a newer version"));
	mpw_array(&b, 1);
	mpw_uint(&b, 1);
	put_raw(&key, buf_span(&b));
	ck_assert(kv_modify_index(buf_span(&b), &index));
	ck_assert_int_eq(record_check(span_of(key.b, key.len), buf_span(&b), &a, &tally), TV_OK);
	e = kit_get(&k, "a/3");
	ck_assert_uint_eq(e.ModifyIndex, index);
	ck_assert_uint_eq(kit_key_index(&k, "a/3"), index);
	ck_assert_uint_eq(kit_prefix_index(&k, "a/3"), index);
	ck_assert(kit_verb(&k, KV_CAS, "a/3", "newer", NULL, index));
	/* tombstone */
	TKEY(&key, TBL_TOMBSTONE, span_str("a/2"));
	ck_assert(tbl_peek(k.f, &key, &val));
	buf_reset(&b);
	buf_putspan(&b, val);
	buf_puts(&b, "more");
	put_raw(&key, buf_span(&b));
	ck_assert_int_eq(record_check(span_of(key.b, key.len), buf_span(&b), &a, &tally), TV_OK);
	ck_assert(kit_put(&k, "a/2", "1") && kit_verb(&k, KV_DELETE, "a/2", NULL, NULL, 0));
	/* index of a service */
	TKEY(&key, TBL_SERVICE_INDEX, span_str("web"));
	ck_assert(tbl_peek(k.f, &key, &val));
	buf_reset(&b);
	buf_putspan(&b, val);
	buf_puts(&b, "more");
	put_raw(&key, buf_span(&b));
	ck_assert_uint_eq(kit_index(&k, OP_CATALOG_SERVICE, &(struct catalog_read){ .Name = span_str("web") }), 50);
	/* the newest restore */
	stage_last_key(&key);
	ck_assert(tbl_peek(k.f, &key, &val));
	buf_reset(&b);
	buf_putspan(&b, val);
	buf_puts(&b, "more");
	put_raw(&key, buf_span(&b));
	ck_assert(fsm_last_restore(k.f, id, &index));
	ck_assert_uint_eq(index, 3);
	ck_assert_int_eq(fsm_trouble(k.f), TV_OK);
	/* Shorter is something else. */
	ck_assert(!kv_modify_index(span_str("\x96\x01\x01\x01\x01\x01\x01"), &index));
	arena_done(&a);
	buf_done(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("fsm_tables");
	TCase *t = tcase_create("tables");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, letters_are_unique);
	tcase_add_test(t, document_says_the_same);
	tcase_add_test(t, older_state_is_upgraded_once);
	tcase_add_test(t, older_snapshot_is_read);
	tcase_add_test(t, older_archive_is_read);
	tcase_add_test(t, table_in_the_middle);
	tcase_add_test(t, longer_records_are_read);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
