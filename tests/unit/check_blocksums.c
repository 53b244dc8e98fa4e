/* A snapshot file that the disk damages is noticed wherever it is hit, before it was read once and after. */
#include <check.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raftd/snapshot/blocksums.h"

#define BLOCK 512
#define BYTES_MAX 3000

static uint8_t content[BYTES_MAX];
static int fd;

/* So many bytes, the last 32 of which are the checksum of the others. */
static void
make(size_t bytes)
{
	randombytes_buf(content, bytes);
	crypto_generichash(content + bytes - 32, 32, content, bytes - 32, NULL, 0);
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	ck_assert_int_eq(pwrite(fd, content, bytes, 0), (ssize_t)bytes);
}

static void
flip(size_t at)
{
	uint8_t byte;

	ck_assert_int_eq(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 0x20;
	ck_assert_int_eq(pwrite(fd, &byte, 1, (off_t)at), 1);
}

static void
setup(void)
{
	char path[] = "/tmp/tv-blocksums-XXXXXX";

	ck_assert_int_ge(sodium_init(), 0);
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(unlink(path), 0);
}

static void
teardown(void)
{
	close(fd);
}

START_TEST(gives_back_what_was_written)
{
	static const size_t sizes[] = { 32, 33, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 31, BLOCK + 32, 2 * BLOCK, BYTES_MAX };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint8_t sum[crypto_generichash_BYTES], buf[BLOCK];
		struct blocksums b;
		const uint8_t *p;
		uint64_t whole;
		size_t n;

		make(sizes[i]);
		ck_assert_int_eq(blocksums_make(&b, fd, sizes[i], BLOCK, &whole), TV_OK);
		crypto_generichash(sum, sizeof(sum), content, sizes[i], NULL, 0);
		for (int k = 0; k < 8; k++)
			ck_assert_uint_eq(whole >> (8 * k) & 0xff, sum[k]);
		/* From anywhere, also where another leader's pieces ended. */
		for (size_t at = 0; at < sizes[i]; at += 7) {
			ck_assert_int_eq(blocksums_read(&b, fd, at, buf, &p, &n), TV_OK);
			ck_assert(n > 0 && at + n <= sizes[i] && ((at + n) % BLOCK == 0 || at + n == sizes[i]));
			ck_assert_mem_eq(p, content + at, n);
		}
		ck_assert_int_eq(blocksums_read(&b, fd, sizes[i], buf, &p, &n), TV_EINVAL);
		blocksums_done(&b);
	}
}
END_TEST

START_TEST(damage_is_noticed)
{
	uint8_t buf[BLOCK];
	struct blocksums b, again;
	const uint8_t *p;
	uint64_t whole;
	size_t n;

	make(BYTES_MAX);
	ck_assert_int_eq(blocksums_make(&b, fd, BYTES_MAX, BLOCK, &whole), TV_OK);
	for (size_t at = 0; at < BYTES_MAX; at += 13) {
		flip(at);
		for (size_t from = 0; from < BYTES_MAX; from += BLOCK)
			ck_assert_int_eq(blocksums_read(&b, fd, from, buf, &p, &n), at / BLOCK == from / BLOCK ? TV_ECORRUPT : TV_OK);
		ck_assert_int_eq(blocksums_make(&again, fd, BYTES_MAX, BLOCK, &whole), TV_ECORRUPT);
		ck_assert_ptr_null(again.sums);
		flip(at);
	}
	ck_assert_int_eq(ftruncate(fd, BYTES_MAX - 1), 0);
	ck_assert_int_eq(blocksums_read(&b, fd, BYTES_MAX - 1, buf, &p, &n), TV_ESYS);
	ck_assert_int_eq(blocksums_make(&again, fd, BYTES_MAX, BLOCK, &whole), TV_ESYS);
	ck_assert_int_eq(blocksums_make(&again, fd, 31, BLOCK, &whole), TV_ECORRUPT);
	blocksums_done(&b);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("blocksums");
	TCase *t = tcase_create("blocksums");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, gives_back_what_was_written);
	tcase_add_test(t, damage_is_noticed);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
