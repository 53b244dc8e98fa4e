/* One job at a time: what changes meanwhile is in the next. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/proc/jobs.h"
#include "rpcd/registry/registry_file.h"
#include "rpcd/registry/registry_int.h"
#include "rpcd/registry/registry_journal.h"

#define SUM_BYTES 8
#define HEAD_BYTES (4 + SUM_BYTES)
#define FRAME_BYTES_MAX (64u << 20)
#define JOURNAL_BYTES_MAX (256u << 20)	/* that are read */
#define FOLD_BYTES (1u << 20)		/* of journal beyond what one file takes: then all is written anew */

struct job {				/* the thread's while it is under way */
	struct buf frames;		/* to append */
	struct buf all;			/* to write instead, which has them; empty: append */
	bool durable;
	uint64_t ticket;		/* that this makes durable */
	/* what came of it */
	enum tv_err err, all_err;	/* of the frames, and of all */
	int error, all_error;		/* errno */
	uint64_t size;			/* of the journal, afterwards */
	bool folded, synced;
};

struct registry_journal {
	struct registry *registry;
	struct jobs *jobs;
	const char *path;
	char journal[PATH_MAX];
	struct buf frames;		/* for the next job */
	bool durable, closed;
	bool lost;			/* frames could not be written: only all of it has them */
	uint64_t size, all_size;	/* bytes of the journal, and of the last whole file */
	struct job job;
	struct registry_journal_stats stats;
};

/* -- frames -- */

static void
checksum(const uint8_t *head, struct span body, uint8_t sum[crypto_generichash_BYTES_MIN])
{
	crypto_generichash_state st;

	crypto_generichash_init(&st, NULL, 0, crypto_generichash_BYTES_MIN);
	crypto_generichash_update(&st, head, 4);
	crypto_generichash_update(&st, body.p, body.len);
	crypto_generichash_final(&st, sum, crypto_generichash_BYTES_MIN);
}

/* A frame around what was appended behind `at`, where its head has its place. */
static void
close_frame(struct buf *b, size_t at)
{
	uint8_t *head = b->data + at, sum[crypto_generichash_BYTES_MIN];
	struct span body = span_of(head + HEAD_BYTES, b->len - at - HEAD_BYTES);

	for (int i = 0; i < 4; i++)
		head[i] = (uint8_t)(body.len >> 8 * i);
	checksum(head, body, sum);
	memcpy(head + 4, sum, SUM_BYTES);
}

/* The body of the frame at the start of text; empty: there is none that is whole. */
static struct span
open_frame(struct span text)
{
	uint8_t sum[crypto_generichash_BYTES_MIN];
	size_t len = 0;

	if (text.len < HEAD_BYTES)
		return SPAN_NONE;
	for (int i = 0; i < 4; i++)
		len |= (size_t)text.p[i] << 8 * i;
	if (len > text.len - HEAD_BYTES)
		return SPAN_NONE;
	checksum(text.p, span_of(text.p + HEAD_BYTES, len), sum);
	return memcmp(text.p + 4, sum, SUM_BYTES) == 0 ? span_of(text.p + HEAD_BYTES, len) : SPAN_NONE;
}

/* -- in the thread -- */

static bool
append(const struct registry_journal *j, struct job *job, int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return false;
	job->size = (uint64_t)st.st_size;
	if (!write_all(fd, job->frames.data, job->frames.len)) {
		job->error = errno;
		if (ftruncate(fd, st.st_size) == 0)	/* half a frame would hide those after it */
			errno = job->error;
		return false;			/* and then all is written anew, in any case */
	}
	job->size += job->frames.len;
	if (!job->durable)
		return true;
	job->synced = true;
	if (fdatasync(fd) != 0)
		return false;
	if (st.st_size == 0)
		(void)file_sync_parent(j->journal);	/* it may be new */
	return true;
}

static void
empty_journal(const struct registry_journal *j, struct job *job)
{
	job->folded = job->synced = true;
	job->size = 0;
	if (truncate(j->journal, 0) != 0 && errno != ENOENT)
		job->size = FOLD_BYTES;		/* tried again before long; it does no harm */
}

static void
work(void *ctx)
{
	struct registry_journal *j = ctx;
	struct job *job = &j->job;

	if (job->all.len > 0) {
		job->all_err = registry_file_write(j->path, buf_span(&job->all));
		job->all_error = errno;
		if (job->all_err == TV_OK) {
			empty_journal(j, job);
			return;
		}
	}
	int fd = open(j->journal, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	bool ok = fd >= 0 && append(j, job, fd);
	if (!ok) {
		job->err = TV_ESYS;
		job->error = errno;
	}
	if (fd >= 0)
		close(fd);
}

/* -- on the loop -- */

static void begin_job(struct registry_journal *j);

static void
failed(struct registry_journal *j, const char *path, enum tv_err err, int error)
{
	j->stats.failures++;
	log_warn("agent", "cannot write %s: %s", path, err == TV_ESYS ? strerror(error) : tv_strerror(err));
}

static void
done(void *ctx)
{
	struct registry_journal *j = ctx;
	struct job *job = &j->job;

	j->stats.syncs += job->synced;
	j->stats.folds += job->folded;
	j->size = job->size;
	if (job->folded) {
		j->all_size = job->all.len;
		j->lost = false;
	}
	if (job->all_err != TV_OK)
		failed(j, j->path, job->all_err, job->all_error);
	if (job->err != TV_OK) {
		failed(j, j->journal, job->err, job->error);
		j->lost = true;		/* and with the next change all is written */
	}
	if (job->durable)
		registry_saved(j->registry, job->ticket);
	begin_job(j);
}

static bool
wants_fold(const struct registry_journal *j)
{
	return j->lost || j->size + j->frames.len > FOLD_BYTES + j->all_size;
}

static void
begin_job(struct registry_journal *j)
{
	struct job *job = &j->job;

	if (jobs_busy(j->jobs) || j->closed || (j->frames.len == 0 && !j->durable))
		return;
	buf_reset(&job->frames);
	buf_reset(&job->all);
	struct buf empty = job->frames;
	bool whole = wants_fold(j);
	*job = (struct job){ .frames = j->frames, .all = job->all, .durable = j->durable,
	    .ticket = registry_save_ticket(j->registry), .size = j->size };
	j->frames = empty;
	if (whole)
		registry_print(j->registry, &job->all);
	if (job->all.failed) {
		buf_reset(&job->all);
		failed(j, j->path, TV_ELIMIT, 0);
	}
	j->durable = false;
	if (jobs_add(j->jobs, work, done, j) != TV_OK) {
		work(j);		/* no thread: here, then */
		done(j);
	}
}

void
registry_journal_write(struct registry_journal *j, bool durable)
{
	size_t at = j->frames.len;

	if (j->closed)
		return;
	if (registry_unsaved(j->registry)) {
		(void)buf_add(&j->frames, HEAD_BYTES);
		registry_print_changes(j->registry, &j->frames);
		if (j->frames.failed) {
			buf_reset(&j->frames);
			failed(j, j->journal, TV_ENOMEM, 0);
			j->lost = true;
		} else {
			close_frame(&j->frames, at);
			j->stats.frames++;
			j->stats.bytes += j->frames.len - at;
		}
	}
	j->durable |= durable;
	begin_job(j);
}

void
registry_journal_stats(const struct registry_journal *j, struct registry_journal_stats *out)
{
	*out = j->stats;
}

/* -- start and end -- */

/* What is behind `good` bytes, into PATH.journal.bad. */
static void
set_end_aside(const struct registry_journal *j, struct span text, size_t good, unsigned frames)
{
	char bad[PATH_MAX + 8];

	snprintf(bad, sizeof(bad), "%s.bad", j->journal);
	log_warn("agent", "%s: its last %zu bytes make no sense, as after a crash in the middle of a write; moved to "
	    "%s, %u changes before them are kept", j->journal, text.len - good, bad, frames);
	if (file_replace(AT_FDCWD, bad, span_of(text.p + good, text.len - good), 0600) != TV_OK)
		log_warn("agent", "cannot write %s: %s", bad, strerror(errno));
	if (truncate(j->journal, (off_t)good) != 0)
		log_warn("agent", "cannot shorten %s: %s", j->journal, strerror(errno));
}

/* The number of bytes that were there. */
static size_t
replay(struct registry_journal *j)
{
	struct buf text = BUF_INIT(JOURNAL_BYTES_MAX);
	enum tv_err err;
	size_t good = 0, size;
	unsigned frames = 0;

	text.secret = true;
	if ((err = file_read(j->journal, &text)) != TV_OK && err != TV_ENOENT)
		log_warn("agent", "cannot read %s: %s", j->journal,
		    err == TV_ESYS ? strerror(errno) : tv_strerror(err));
	while (err == TV_OK && good < text.len) {
		struct span body = open_frame(span_of(text.data + good, text.len - good));

		if (body.len == 0 || !registry_replay(j->registry, body, j->journal))
			break;
		good += HEAD_BYTES + body.len;
		frames++;
	}
	if (good < text.len)
		set_end_aside(j, buf_span(&text), good, frames);
	size = text.len;
	j->size = good;
	buf_done(&text);
	return size;
}

/* All as one file, here and now.  False: said. */
static bool
fold(struct registry_journal *j)
{
	struct job *job = &j->job;

	buf_reset(&job->all);
	registry_print(j->registry, &job->all);
	enum tv_err err = registry_file_write(j->path, buf_span(&job->all));
	if (err != TV_OK) {
		log_warn("agent", "cannot write %s: %s", j->path, err == TV_ESYS ? strerror(errno) : tv_strerror(err));
		return false;
	}
	empty_journal(j, job);
	j->size = job->size;
	j->all_size = job->all.len;
	j->stats.folds++;
	return true;
}

struct registry_journal *
registry_journal_open(struct registry *r, struct ev_loop *loop, const char *path)
{
	struct registry_journal *j = calloc(1, sizeof(*j));

	if (j == NULL || (j->jobs = jobs_new(loop, "journal")) == NULL) {
		free(j);
		return NULL;
	}
	j->registry = r;
	j->path = path;
	snprintf(j->journal, sizeof(j->journal), "%s.journal", path);
	j->frames = j->job.frames = BUF_INIT(FRAME_BYTES_MAX);
	j->job.all = BUF_INIT(FRAME_BYTES_MAX);
	j->frames.secret = j->job.frames.secret = j->job.all.secret = true;
	registry_load(r, path);
	bool some = replay(j) > 0;
	registry_all_saved(r);
	if (some)
		(void)fold(j);
	return j;
}

void
registry_journal_close(struct registry_journal *j)
{
	if (j == NULL || j->closed)
		return;
	registry_journal_write(j, false);
	jobs_stop(j->jobs);		/* what waits then, began() finds no thread for, and is written here */
	if (j->size > 0)
		(void)fold(j);
	j->closed = true;
}

void
registry_journal_free(struct registry_journal *j)
{
	if (j == NULL)
		return;
	registry_journal_close(j);
	jobs_free(j->jobs);
	buf_done(&j->frames);
	buf_done(&j->job.frames);
	buf_done(&j->job.all);
	free(j);
}
