/* A snapshot file that is being sent, see snapshot_file.h. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "raftd/disk/unlink_async.h"
#include "raftd/snapshot/snapshot_file.h"

#define BLOCKS 4			/* in memory */

struct block {
	struct snapshot_file *file;
	enum { BLOCK_EMPTY, BLOCK_READING, BLOCK_READ } state;
	bool wanted;			/* asked for, and not given yet */
	uint64_t at, used;		/* used: grows with each use of any */
	uint8_t *bytes;			/* owned */
	const uint8_t *p;
	size_t n;
	enum tv_err err;
	int sys;
};

struct snapshot_file {
	struct jobs *files;
	int fd;
	char path[512];
	struct blocksums sums;
	struct block blocks[BLOCKS];
	uint64_t uses;
	void (*read)(void *ctx);
	void *ctx;
};

static void
read_work(void *ctx)
{
	struct block *b = ctx;

	b->err = blocksums_read(&b->file->sums, b->file->fd, b->at, b->bytes, &b->p, &b->n);
	b->sys = errno;
}

static void
read_done(void *ctx)
{
	struct block *b = ctx;
	struct snapshot_file *f = b->file;

	b->state = BLOCK_READ;
	if (f->read != NULL)
		f->read(f->ctx);
}

static struct block *
block_find(struct snapshot_file *f, uint64_t at)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		if (f->blocks[i].state != BLOCK_EMPTY && f->blocks[i].at == at)
			return &f->blocks[i];
	return NULL;
}

/* The one that is needed least; NULL: all are being read. */
static struct block *
spare(struct snapshot_file *f)
{
	struct block *best = NULL;

	for (unsigned i = 0; i < BLOCKS; i++) {
		struct block *b = &f->blocks[i];

		if (b->state == BLOCK_EMPTY)
			return b;
		if (b->state == BLOCK_READ && (best == NULL || b->wanted < best->wanted ||
		    (b->wanted == best->wanted && b->used < best->used)))
			best = b;
	}
	return best;
}

static enum tv_err
block_read(struct snapshot_file *f, uint64_t at, bool wanted, const struct block *given)
{
	struct block *b = spare(f);
	enum tv_err err;

	if (b == NULL || b == given || (!wanted && b->state == BLOCK_READ && b->wanted))
		return TV_EAGAIN;
	if (b->bytes == NULL && (b->bytes = malloc(f->sums.block)) == NULL)
		return TV_ENOMEM;
	b->state = BLOCK_EMPTY;
	b->at = at;
	b->used = ++f->uses;
	b->wanted = wanted;
	err = jobs_add(f->files, read_work, read_done, b);
	if (err == TV_OK)
		b->state = BLOCK_READING;
	return err == TV_OK ? TV_EAGAIN : err;
}

enum tv_err
snapshot_file_read(struct snapshot_file *f, uint64_t offset, const uint8_t **p, size_t *n)
{
	uint64_t at = offset - offset % f->sums.block, next = at + f->sums.block;
	struct block *b;

	if (offset >= f->sums.bytes)
		return TV_EINVAL;
	b = block_find(f, at);
	if (b == NULL)
		return block_read(f, at, true, NULL);
	b->wanted = true;
	if (b->state == BLOCK_READING)
		return TV_EAGAIN;
	b->wanted = false;
	b->used = ++f->uses;
	if (b->err != TV_OK) {
		b->state = BLOCK_EMPTY;
		errno = b->sys;
		return b->err;
	}
	*p = b->p + (offset - at);
	*n = b->n - (size_t)(offset - at);
	if (next < f->sums.bytes && block_find(f, next) == NULL)
		(void)block_read(f, next, false, b);
	return TV_OK;
}

struct snapshot_file *
snapshot_file_new(struct jobs *files, int fd, const char *path, const struct blocksums *sums, void (*read)(void *ctx),
    void *ctx)
{
	struct snapshot_file *f = calloc(1, sizeof(*f));

	if (f == NULL || snprintf(f->path, sizeof(f->path), "%s", path) >= (int)sizeof(f->path)) {
		free(f);
		return NULL;
	}
	f->files = files;
	f->fd = fd;
	f->sums = *sums;
	f->read = read;
	f->ctx = ctx;
	for (unsigned i = 0; i < BLOCKS; i++)
		f->blocks[i].file = f;
	return f;
}

static void
remove_work(void *ctx)
{
	struct snapshot_file *f = ctx;

	unlink_async(f->fd, f->path);
}

static void
remove_done(void *ctx)
{
	struct snapshot_file *f = ctx;

	for (unsigned i = 0; i < BLOCKS; i++)
		free(f->blocks[i].bytes);
	blocksums_done(&f->sums);
	free(f);
}

/* Jobs come in order: what is being read is done before the last one. */
void
snapshot_file_free(struct snapshot_file *f)
{
	bool reading = false;
	enum tv_err err;

	if (f == NULL)
		return;
	f->read = NULL;
	for (unsigned i = 0; i < BLOCKS; i++)
		reading = reading || f->blocks[i].state == BLOCK_READING;
	err = jobs_add(f->files, remove_work, remove_done, f);
	if (err == TV_OK || reading)
		return;				/* without memory it stays until the next start */
	remove_work(f);
	remove_done(f);
}
