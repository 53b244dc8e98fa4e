/*
 * The mark: a file of 12 bytes with the number of the last transaction that was made durable.
 *
 * Recovery takes the first damaged record of the write-ahead log for the torn end that a crash leaves, and drops what
 * follows.  When that record lies in the middle of what had been synced, committed entries would vanish without a
 * word.  The mark tells the two apart: it is written after each sync, itself without a sync, so it is never ahead of
 * the truth, and a log that ends before it has lost something.
 *
 * Another one, of the same form, lies beside the state: the log must reach that index.
 *
 * Form: u64be number | u32be crc32 of the number.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include "raftd/store/store_int.h"

#define MARK_NAME "durable"
#define STATE_MARK_NAME "log-reaches"
#define MARK_BYTES 12

static void
encode(uint64_t seq, uint8_t out[MARK_BYTES])
{
	uint32_t crc;

	for (int i = 0; i < 8; i++)
		out[i] = (uint8_t)(seq >> (56 - 8 * i));
	crc = (uint32_t)crc32(0, out, 8);
	for (int i = 0; i < 4; i++)
		out[8 + i] = (uint8_t)(crc >> (24 - 8 * i));
}

static bool
write_mark(int fd, uint64_t seq)
{
	uint8_t out[MARK_BYTES];

	encode(seq, out);
	return pwrite(fd, out, sizeof(out), 0) == MARK_BYTES;
}

/* 0 when the mark says nothing. */
static uint64_t
read_mark(int fd)
{
	uint8_t in[MARK_BYTES], want[MARK_BYTES];
	uint64_t seq = 0;

	if (pread(fd, in, sizeof(in), 0) != MARK_BYTES)
		return 0;
	for (int i = 0; i < 8; i++)
		seq = seq << 8 | in[i];
	encode(seq, want);
	return memcmp(in, want, sizeof(in)) == 0 ? seq : 0;
}

enum tv_err
store_mark_open(struct log_store *s, char *errbuf, size_t cap)
{
	char path[4096];
	uint64_t durable;
	int n = snprintf(path, sizeof(path), "%s/" MARK_NAME, s->env.dir);

	if (n < 0 || (size_t)n >= sizeof(path))
		return TV_ELIMIT;
	s->mark_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->mark_fd == -1) {
		int why = errno;

		snprintf(errbuf, cap, "cannot open %s: %s", path, strerror(why));
		return store_env_err(&s->env, why);
	}
	durable = read_mark(s->mark_fd);
	if (durable > s->seq)
		return tv_fail(errbuf, cap, TV_ECORRUPT, "the write-ahead log in %s is damaged: it ends with "
		    "transaction %llu, but %llu had been written; %s", s->env.dir, (unsigned long long)s->seq,
		    (unsigned long long)durable, store_advice);
	store_mark_set(s);
	return TV_OK;
}

void
store_mark_set(struct log_store *s)
{
	(void)write_mark(s->mark_fd, s->seq);	/* see the header: behind is allowed */
}

void
store_mark_close(struct log_store *s)
{
	if (s->mark_fd != -1)
		close(s->mark_fd);
	s->mark_fd = -1;
}

static int
open_state_mark(const char *dir, int flags)
{
	char path[4096];
	int n = snprintf(path, sizeof(path), "%s/" STATE_MARK_NAME, dir);

	return n < 0 || (size_t)n >= sizeof(path) ? -1 : open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

void
state_mark_write(const char *dir, uint64_t index)
{
	int fd = open_state_mark(dir, O_WRONLY | O_CREAT);

	if (fd == -1)
		return;
	(void)write_mark(fd, index);
	close(fd);
}

uint64_t
state_mark_read(const char *dir)
{
	int fd = open_state_mark(dir, O_RDONLY);
	uint64_t index = fd == -1 ? 0 : read_mark(fd);

	if (fd != -1)
		close(fd);
	return index;
}
