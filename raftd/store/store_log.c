/*
 * The Raft log and the hard state on disk.
 *
 * A transaction is one record of Berkeley DB's write-ahead log: put under the lock, made durable by one flush outside
 * of it, so that a reader never waits for the disk's sync.  There are no tables: what the records say is kept in
 * memory, for entries where they are.  A file that begins gets a STATE record, so that the older ones can go.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "common/base/assert.h"
#include "common/base/file.h"
#include "common/base/uuid.h"
#include "common/proc/thread.h"
#include "raftd/store/store_int.h"

#define LOG_FILE_BYTES (16u << 20)
#define LOG_BUFFER_BYTES (256u << 10)
#define BATCH_BYTES (8u << 20)		/* of entries in one transaction; a larger one goes alone */
#define FRAME_BYTES_MAX (1u << 30)
#define RECORD_ROOM 4096		/* more than Berkeley DB's heads of a file and of a record */
#define PATH_BYTES 4400

/* -- background work -- */

/* Lock held.  What the disk holds is unknown from then on. */
static void
note_failure(struct log_store *s, int ret)
{
	if (!s->failed)
		s->failure = ret;
	s->failed = true;
}

/* The next write-ahead file is looked at eight times in the life of one. */
static bool
spare_due(const struct log_store *s)
{
	return s->spare_bytes > 0 && s->since_spare >= s->spare_bytes / 8;
}

static bool
background_due(const struct log_store *s)
{
	return !s->failed && (s->new_file || s->trash_from != s->trash_to || spare_due(s));
}

/* The oldest first, and each for good before the next: what a crash leaves has no gap.  An errno. */
static int
remove_files(const char *dir, uint32_t from, uint32_t to)
{
	for (uint32_t n = from; n != to; n++) {
		char path[PATH_BYTES];

		store_file_path(dir, n, path, sizeof(path));
		if (unlink(path) == -1 && errno != ENOENT)
			return errno;
		if (file_sync_dir(dir) != TV_OK)
			return errno;
	}
	return 0;
}

/* Lock held; let go of while the disk works. */
static void
background(struct log_store *s)
{
	bool spare = spare_due(s), allocate = s->new_file;
	uint32_t from = s->trash_from, to = s->trash_to;
	int ret;

	s->trash_from = s->trash_to;
	s->new_file = false;
	if (spare)
		s->since_spare = 0;
	pthread_mutex_unlock(&s->lock);
	if (allocate)
		store_env_allocate(&s->env);
	if (spare)
		store_spare_make(s);
	ret = remove_files(s->env.dir, from, to);
	pthread_mutex_lock(&s->lock);
	if (ret != 0)
		note_failure(s, ret);			/* the next write reports it */
}

static void *
background_main(void *arg)
{
	struct log_store *s = arg;

	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		if (background_due(s))
			background(s);
		else
			pthread_cond_wait(&s->wake, &s->lock);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* -- records -- */

/* Lock held.  Puts a record, which says f, and takes it over.  Berkeley DB's code. */
static int
put_record(struct log_store *s, const struct buf *b, const struct log_frame *f)
{
	DB_ENV *e = s->env.dbenv;
	DBT data = { .data = b->data, .size = (uint32_t)b->len };
	bool large = b->len + RECORD_ROOM > s->file_bytes;
	size_t known = s->file_count;
	DB_LSN at;
	int ret = 0;

	if (b->failed)
		return ENOMEM;
	if (large)				/* the file that it begins is as large as it needs */
		ret = e->set_lg_max(e, (uint32_t)b->len + RECORD_ROOM);
	if (ret == 0)
		ret = e->log_put(e, &at, &data, 0);
	if (large && ret == 0)
		ret = e->set_lg_max(e, s->file_bytes);
	if (ret == 0)
		ret = store_file_seen(s, at.file);
	if (ret == 0)
		ret = store_index_apply(s, f, &at);
	s->new_file |= s->file_count > known;
	s->since_spare += b->len;
	return ret;
}

/* Lock held.  What is known, so that nothing older is needed for it. */
static int
put_state(struct log_store *s)
{
	struct log_frame f = { .kind = LOG_FRAME_STATE, .seq = s->seq, .term = s->term, .vote = s->vote,
	    .generation = s->generation, .last = s->last, .cut = s->cut, .snapshot_index = s->snapshot_index,
	    .snapshot_term = s->snapshot_term };
	struct buf config = BUF_INIT(1u << 20);
	int ret;

	memcpy(f.store_id, s->store_id, sizeof(f.store_id));
	memcpy(f.cluster_id, s->cluster_id, sizeof(f.cluster_id));
	if (s->snapshot_config.count > 0)	/* none before the first snapshot; an empty one is not valid */
		raft_config_write(&config, &s->snapshot_config);
	f.config = buf_span(&config);
	store_frame_write(&s->state, &f);
	ret = config.failed ? ENOMEM : put_record(s, &s->state, &f);
	buf_done(&config);
	return ret;
}

static bool
has_state(const struct log_store *s)
{
	return s->file_count > 0 && s->files[s->file_count - 1].state;
}

/* -- opening -- */

/* The newest file says what is known: durable before any caller sees the store id of a fresh one. */
static enum tv_err
begin_file(struct log_store *s, bool fresh)
{
	uint8_t random[UUID_BYTES];
	int ret;

	if (fresh) {
		randombytes_buf(random, sizeof(random));
		uuid_v4(random, s->store_id);
		s->seq = 1;
	}
	ret = put_state(s);
	if (ret == 0)
		ret = s->env.dbenv->log_flush(s->env.dbenv, NULL);
	if (ret == 0)
		store_mark_set(s);
	return store_env_err(&s->env, ret);
}

static void
fill_meta(const struct log_store *s, struct log_meta *m)
{
	memset(m, 0, sizeof(*m));
	m->term = s->term;
	m->vote = s->vote;
	memcpy(m->store_id, s->store_id, sizeof(m->store_id));
	memcpy(m->cluster_id, s->cluster_id, sizeof(m->cluster_id));
	m->generation = s->generation;
	m->first = s->first;
	m->last = s->last;
	m->snapshot_index = s->snapshot_index;
	m->snapshot_term = s->snapshot_term;
	m->snapshot_config = s->snapshot_config;
}

/* After a sentence that says only what is wrong. */
static void
advise(char *errbuf, size_t cap)
{
	size_t at = strlen(errbuf);

	snprintf(errbuf + at, cap - at, "; %s", store_advice);
}

static enum tv_err
open_env(struct log_store *s, const struct log_options *opt, char *errbuf, size_t cap)
{
	struct store_env_options eo = { .dir = opt->dir, .log_file_bytes = s->file_bytes, .log_only = true,
	    .log_buffer_bytes = opt->log_buffer_bytes > 0 ? opt->log_buffer_bytes : LOG_BUFFER_BYTES };
	enum tv_err err = store_spare_clear(opt->dir);

	if (err == TV_OK)
		err = store_files_check(opt->dir, errbuf, cap);
	if (err != TV_OK)
		return err;
	err = store_env_open(&s->env, &eo, errbuf, cap);
	if (err == TV_ECORRUPT)
		advise(errbuf, cap);
	return err;
}

/* Everything is read, and judged, before anything is written. */
static enum tv_err
open_all(struct log_store *s, const struct log_options *opt, char *errbuf, size_t cap)
{
	bool fresh = false;
	enum tv_err err = open_env(s, opt, errbuf, cap);

	if (err == TV_OK)
		err = store_replay(s, &fresh, errbuf, cap);
	if (err == TV_OK)
		err = store_mark_open(s, errbuf, cap);
	if (err == TV_OK)
		err = store_tail_clear(s);
	if (err == TV_OK && !has_state(s))
		err = begin_file(s, fresh);
	if (err == TV_OK && opt->goes_on)
		err = store_spare_try(s, errbuf, cap);
	if (err != TV_OK)
		return err;
	store_files_discard(s);
	if (s->no_thread)
		return TV_OK;
	store_env_allocate(&s->env);
	if (thread_start(&s->thread, "log-files", background_main, s) != 0)
		return tv_fail(errbuf, cap, TV_ESYS, "cannot start a thread");
	s->thread_runs = true;
	return TV_OK;
}

enum tv_err
log_open(const struct log_options *opt, struct log_store **out, struct log_meta *meta, char *errbuf, size_t cap)
{
	struct log_store *s = calloc(1, sizeof(*s));
	enum tv_err err;

	if (cap > 0)
		errbuf[0] = '\0';
	if (s == NULL)
		return TV_ENOMEM;
	buf_init(&s->frame, FRAME_BYTES_MAX);
	buf_init(&s->state, 1u << 20);
	s->file_bytes = opt->log_file_bytes > 0 ? opt->log_file_bytes : LOG_FILE_BYTES;
	s->no_thread = opt->no_thread;
	s->mark_fd = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	pthread_cond_init(&s->named, NULL);
	if (opt->spares)
		s->spare_bytes = s->file_bytes;
	err = sodium_init() == -1 ? TV_ESYS : open_all(s, opt, errbuf, cap);
	if (err != TV_OK) {
		int why = errno;

		if (cap > 0 && errbuf[0] == '\0')
			snprintf(errbuf, cap, "cannot open the log in %s: %s", opt->dir, tv_strerror(err));
		log_close(s);
		errno = why;
		return err;
	}
	fill_meta(s, meta);
	*out = s;
	return TV_OK;
}

void
log_close(struct log_store *s)
{
	if (s == NULL)
		return;
	if (s->thread_runs) {
		pthread_mutex_lock(&s->lock);
		s->stop = true;
		pthread_cond_signal(&s->wake);
		pthread_mutex_unlock(&s->lock);
		pthread_join(s->thread, NULL);
	}
	store_mark_close(s);
	store_env_close(&s->env);
	free(s->places);
	free(s->files);
	buf_done(&s->frame);
	buf_done(&s->state);
	pthread_cond_destroy(&s->wake);
	pthread_cond_destroy(&s->named);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* -- writing -- */

/* A large batch leaves no large buffer behind. */
static void
encode(struct log_store *s, struct log_frame *f)
{
	if (s->frame.cap > 2 * BATCH_BYTES)
		buf_done(&s->frame);
	f->seq = s->seq + 1;			/* no other thread writes */
	store_frame_write(&s->frame, f);
}

/* Lock held: the end of a transaction, durable or not. */
static void
end_change(struct log_store *s, int ret)
{
	if (ret != 0)
		note_failure(s, ret);
	else
		store_files_discard(s);
	if (!background_due(s))
		return;
	if (s->no_thread)
		background(s);
	else
		pthread_cond_signal(&s->wake);
}

/* Every write goes through here: one transaction, durable on return. */
static enum tv_err
change(struct log_store *s, struct log_frame *f)
{
	enum tv_err err;
	int ret;

	encode(s, f);
	pthread_mutex_lock(&s->lock);
	while (s->naming)
		pthread_cond_wait(&s->named, &s->lock);
	ret = s->failed ? s->failure : put_record(s, &s->frame, f);
	if (ret == 0 && !has_state(s))
		ret = put_state(s);
	pthread_mutex_unlock(&s->lock);
	if (ret == 0)
		ret = s->env.dbenv->log_flush(s->env.dbenv, NULL);
	if (ret == 0)
		store_mark_set(s);
	pthread_mutex_lock(&s->lock);
	end_change(s, ret);
	pthread_mutex_unlock(&s->lock);
	if (ret == 0)
		return TV_OK;
	/* Nothing more may reach the disk: not what is in the buffer, nor a second try of what was lost. */
	(void)s->env.dbenv->set_flags(s->env.dbenv, DB_PANIC_ENVIRONMENT, 1);
	err = store_env_err(&s->env, ret);
	return err == TV_ECORRUPT || err == TV_ENOSPACE ? err : TV_ESYS;
}

/* How many of these make one transaction. */
static uint32_t
batch_entries(const struct raft_entry *e, uint32_t count)
{
	uint64_t bytes = 0;
	uint32_t n = 0;

	while (n < count && (n == 0 || bytes + e[n].size <= BATCH_BYTES))
		bytes += e[n++].size;
	return n;
}

/* What a caller must not do; after a failure nothing is known to be right. */
static void
check_batch(struct log_store *s, const struct log_batch *b)
{
	uint64_t next, cut;
	bool failed;

	pthread_mutex_lock(&s->lock);
	failed = s->failed;
	cut = s->cut;
	next = store_next_index(s);
	pthread_mutex_unlock(&s->lock);
	if (b->truncate_from != 0 && b->truncate_from < next)
		next = b->truncate_from;
	TV_ASSERT(failed || b->truncate_from == 0 || b->truncate_from > cut);
	for (uint32_t i = 0; i < b->count; i++)
		TV_ASSERT(failed || b->entries[i].index == next + i);
}

enum tv_err
log_write(struct log_store *s, const struct log_batch *b)
{
	struct log_frame f = { .kind = LOG_FRAME_BATCH, .hard_changed = b->hard_changed, .term = b->term, .vote = b->vote,
	    .generation = b->generation, .truncate_from = b->truncate_from };
	enum tv_err err = TV_OK;
	uint32_t done = 0;

	check_batch(s, b);
	do {
		f.entries = b->count > 0 ? b->entries + done : NULL;
		f.count = batch_entries(f.entries, b->count - done);
		f.first = f.count > 0 ? f.entries[0].index : 0;
		err = change(s, &f);
		done += f.count;
		f = (struct log_frame){ .kind = LOG_FRAME_BATCH };
	} while (err == TV_OK && done < b->count);
	return err;
}

static enum tv_err
change_position(struct log_store *s, struct log_frame *f, const struct raft_config *config)
{
	struct buf b = BUF_INIT(1u << 20);
	enum tv_err err = TV_ENOMEM;

	if (config->count > 0)
		raft_config_write(&b, config);
	f->config = buf_span(&b);
	if (!b.failed)
		err = change(s, f);
	buf_done(&b);
	return err;
}

enum tv_err
log_compact(struct log_store *s, uint64_t index, uint64_t snapshot_index, uint64_t snapshot_term,
    const struct raft_config *config)
{
	struct log_frame f = { .kind = LOG_FRAME_POSITION, .cut = index, .snapshot_index = snapshot_index,
	    .snapshot_term = snapshot_term };

	return change_position(s, &f, config);
}

enum tv_err
log_reset(struct log_store *s, uint64_t snapshot_index, uint64_t snapshot_term, const struct raft_config *config)
{
	struct log_frame f = { .kind = LOG_FRAME_POSITION, .reset = true, .cut = snapshot_index,
	    .snapshot_index = snapshot_index, .snapshot_term = snapshot_term };

	return change_position(s, &f, config);
}

enum tv_err
log_set_cluster(struct log_store *s, const char *cluster_id, uint64_t generation)
{
	struct log_frame f = { .kind = LOG_FRAME_IDENTITY, .generation = generation };

	snprintf(f.cluster_id, sizeof(f.cluster_id), "%s", cluster_id);
	return change(s, &f);
}

/* -- asking -- */

uint64_t
log_fits_from(struct log_store *s, uint64_t bytes_max)
{
	struct log_file *files;
	uint64_t bytes = 0, from;
	struct stat st;
	size_t n;

	pthread_mutex_lock(&s->lock);
	from = s->last + 1;
	n = s->file_count;
	files = malloc((n + 1) * sizeof(*files));
	if (files != NULL && n > 0)
		memcpy(files, s->files, n * sizeof(*files));
	pthread_mutex_unlock(&s->lock);
	if (files == NULL)
		return 0;
	for (size_t i = n; i-- > 0;) {
		char path[PATH_BYTES];

		store_file_path(s->env.dir, files[i].number, path, sizeof(path));
		bytes += stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;	/* not there yet: small */
		if (bytes > bytes_max && i + 1 < n)
			break;
		from = files[i].base;
	}
	free(files);
	return from;
}

/* -- reading -- */

enum tv_err
log_each(struct log_store *s, uint64_t from, enum tv_err (*fn)(void *ctx, const struct raft_entry *e), void *ctx)
{
	uint64_t bad;
	enum tv_err err = TV_OK;

	pthread_mutex_lock(&s->lock);
	if (from < s->first)
		from = s->first;
	if (s->last != 0 && from <= s->last)
		err = store_walk(s, from, s->last, fn, ctx, &bad);
	pthread_mutex_unlock(&s->lock);
	return err;
}

struct reading {
	struct arena *arena;
	struct raft_entry *out;
	uint32_t count;
	size_t bytes, bytes_max;
};

static enum tv_err
read_one(void *ctx, const struct raft_entry *e)
{
	struct reading *g = ctx;
	struct span copy;

	if (g->count > 0 && g->bytes + e->size > g->bytes_max)
		return TV_ELIMIT;		/* enough: not an error of the caller's */
	copy = arena_copy(g->arena, span_of(e->payload, e->size));
	if (copy.p == NULL)
		return g->count > 0 ? TV_ELIMIT : TV_ENOMEM;
	g->out[g->count] = *e;
	g->out[g->count++].payload = copy.p;
	g->bytes += e->size;
	return TV_OK;
}

static bool
holds(const struct log_store *s, uint64_t first, uint64_t last)
{
	return s->first != 0 && first >= s->first && first <= last && last <= s->last;
}

/*
 * One try.  Lock held, and not while the disk is read.  *changed: the entries went meanwhile, or others took their place, and
 * nothing of what was read or failed counts.
 */
static enum tv_err
read_range(struct log_store *s, uint64_t first, uint64_t last, struct reading *g, bool *changed)
{
	uint64_t replaced = s->replaced, bad;
	enum tv_err err;

	*changed = false;
	if (!holds(s, first, last))
		return TV_ENOENT;
	err = store_walk(s, first, last, read_one, g, &bad);
	*changed = s->replaced != replaced || first < s->first;
	return err == TV_ELIMIT ? TV_OK : err;
}

enum tv_err
log_read(struct log_store *s, uint64_t first, uint64_t last, size_t bytes_max, struct arena *a,
    struct raft_entry **out, uint32_t *count)
{
	struct reading g = { .arena = a, .bytes_max = bytes_max };
	enum tv_err err = TV_ENOENT;
	bool changed = true;

	pthread_mutex_lock(&s->lock);
	if (holds(s, first, last) && (g.out = arena_array(a, (size_t)(last - first + 1), sizeof(*g.out))) == NULL)
		err = TV_ENOMEM;
	while (changed && g.out != NULL) {
		g.count = 0;
		g.bytes = 0;
		err = read_range(s, first, last, &g, &changed);
	}
	pthread_mutex_unlock(&s->lock);
	*out = g.out;
	*count = err == TV_OK ? g.count : 0;
	return err;
}
