/*
 * The Raft log and the hard state on disk.
 *
 * A batch is one transaction.  It is committed to memory under the lock and made durable by one flush of the
 * write-ahead log outside of it, so that a reader never waits for the disk's sync.  Checkpoints run in a thread of
 * their own: they keep recovery short and let old write-ahead files go.  So does the removal of cut segments.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <sodium.h>

#include "common/assert.h"
#include "raftd/store_int.h"

#define LOG_FILE_BYTES (16u << 20)
#define LOG_BUFFER_BYTES (1u << 20)
#define CHECKPOINT_BYTES (16u << 20)	/* written between two checkpoints */
#define SEGMENT_BYTES (16u << 20)
#define BATCH_BYTES_MAX (1u << 30)

/* -- background work -- */

/* Lock held.  What the disk holds is unknown from then on. */
static void
fail(struct log_store *s, int ret)
{
	if (!s->failed)
		s->failure = ret;
	s->failed = true;
}

/* Checkpoint, then let go of the write-ahead files that recovery does not need any more. */
static int
checkpoint(struct store_env *env)
{
	DB_ENV *e = env->dbenv;
	int ret = e->txn_checkpoint(e, 0, 0, 0);

	if (ret == 0)
		ret = e->log_archive(e, NULL, DB_ARCH_REMOVE);
	if (ret == 0)
		store_env_allocate(env);
	return ret;
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
	return !s->failed && (s->since_checkpoint >= s->checkpoint_bytes_max || s->trash.n > 0 || spare_due(s));
}

/* Lock held; let go of while the disk works. */
static void
background(struct log_store *s)
{
	bool due = s->since_checkpoint >= s->checkpoint_bytes_max, spare = spare_due(s);
	struct seg_list trash = s->trash;
	int ret;

	s->trash = (struct seg_list){ 0 };
	if (due)
		s->since_checkpoint = 0;
	if (spare)
		s->since_spare = 0;
	pthread_mutex_unlock(&s->lock);
	if (spare)
		store_spare_make(s);
	ret = store_seg_remove(&s->env, &trash);
	free(trash.v);
	if (ret == 0 && due)
		ret = checkpoint(&s->env);
	pthread_mutex_lock(&s->lock);
	if (ret != 0)
		fail(s, ret);			/* the next write reports it */
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

/* Lock held. */
static void
count_written(struct log_store *s, uint64_t bytes)
{
	s->since_checkpoint += bytes;
	s->since_spare += bytes;
	if (background_due(s))
		pthread_cond_signal(&s->wake);
}

/* -- transactions -- */

/* Ends a transaction: commit, or abort after an error, which is returned. */
static int
end_txn(DB_TXN *txn, int ret, uint32_t commit_flags)
{
	if (ret == 0)
		return txn->commit(txn, commit_flags);
	(void)txn->abort(txn);			/* the first error is what counts */
	return ret;
}

/* -- opening -- */

static void
make_uuid(char out[37])
{
	uint8_t r[16];

	randombytes_buf(r, sizeof(r));
	r[6] = (uint8_t)((r[6] & 0x0f) | 0x40);
	r[8] = (uint8_t)((r[8] & 0x3f) | 0x80);
	snprintf(out, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", r[0], r[1], r[2],
	    r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12], r[13], r[14], r[15]);
}

/* First start: all records, durable before anybody sees the store id. */
static enum tv_err
init_meta(struct log_store *s)
{
	DB_TXN *txn;
	int ret;

	make_uuid(s->store_id);
	ret = s->env.dbenv->txn_begin(s->env.dbenv, NULL, &txn, 0);
	if (ret != 0)
		return store_env_err(&s->env, ret);
	for (unsigned i = 0; i < STORE_META_COUNT && ret == 0; i++)
		ret = store_meta_put(s, txn, i);
	return store_env_err(&s->env, end_txn(txn, ret, DB_TXN_SYNC));
}

static enum tv_err
open_meta(struct log_store *s, bool had_data, char *errbuf, size_t cap)
{
	enum tv_err err;
	bool fresh;
	int ret;

	ret = store_env_db(&s->env, "meta.db", !had_data, &s->meta);
	if (ret != 0) {
		err = ret == ENOENT ? TV_ECORRUPT : store_env_err(&s->env, ret);
		snprintf(errbuf, cap,
		    "cannot open %s/meta.db: %s: put it back, or move the raftd data directory away and "
		    "start again, this server then joins as a new one", s->env.dir, db_strerror(ret));
		return err;
	}
	err = store_meta_load(s, &fresh, errbuf, cap);
	if (err != TV_OK || !fresh)
		return err;
	if (had_data && store_dir_has(s->env.dir, "entries.")) {
		snprintf(errbuf, cap,
		    "%s has entries and no term or vote: move the raftd data directory away and start again",
		    s->env.dir);
		return TV_ECORRUPT;
	}
	return init_meta(s);
}

const char store_advice[] = "move the raftd data directory away and start again: this server then joins as a new one "
    "and gets everything from the others";

/* Sentence about a segment file that is damaged as such. */
static void
tell_damage(const struct log_store *s, uint64_t id, char *errbuf, size_t cap)
{
	char name[64];

	store_seg_name(id, name, sizeof(name));
	snprintf(errbuf, cap, "%s/%s is damaged (%s); %s", s->env.dir, name,
	    s->env.message[0] != '\0' ? s->env.message : "unreadable records", store_advice);
}

/* Index of the last record of the newest segment that has any, or 0. */
static enum tv_err
find_last(struct log_store *s, uint64_t *last, char *errbuf, size_t cap)
{
	*last = 0;
	for (unsigned i = s->segs.n; i-- > 0 && *last == 0;) {
		enum tv_err err = store_seg_last(s, &s->segs.v[i], last);

		if (err == TV_ECORRUPT)
			tell_damage(s, s->segs.v[i].id, errbuf, cap);
		if (err != TV_OK)
			return err;
	}
	return TV_OK;
}

static enum tv_err
accept_entry(void *ctx, const struct raft_entry *e)
{
	(void)ctx;
	(void)e;
	return TV_OK;
}

/* Every checksum from first to last, and no gap. */
static enum tv_err
verify_entries(struct log_store *s, char *errbuf, size_t cap)
{
	uint64_t bad = 0;
	enum tv_err err = store_seg_walk(s, s->first, s->last, accept_entry, NULL, &bad);
	struct log_seg *g = store_seg_find(s, bad);
	char name[64];

	if (err != TV_ECORRUPT)
		return err;
	store_seg_name(g != NULL ? g->id : 0, name, sizeof(name));
	snprintf(errbuf, cap, "log entry %llu in %s/%s is damaged or missing%s%s; %s", (unsigned long long)bad,
	    s->env.dir, name, s->env.message[0] != '\0' ? ": " : "", s->env.message, store_advice);
	return err;
}

static enum tv_err
verify(struct log_store *s, char *errbuf, size_t cap)
{
	uint64_t last;
	enum tv_err err;

	err = find_last(s, &last, errbuf, cap);
	if (err != TV_OK || last <= s->cut)
		return err;
	s->first = s->cut + 1;
	s->last = last;
	return verify_entries(s, errbuf, cap);
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
open_all(struct log_store *s, const struct log_options *opt, char *errbuf, size_t cap)
{
	struct store_env_options eo = { .dir = opt->dir, .cache_bytes = opt->cache_bytes,
	    .log_file_bytes = opt->log_file_bytes > 0 ? opt->log_file_bytes : LOG_FILE_BYTES,
	    .log_buffer_bytes = opt->log_buffer_bytes > 0 ? opt->log_buffer_bytes : LOG_BUFFER_BYTES };
	bool had_data = store_dir_has(opt->dir, "log.") || store_dir_has(opt->dir, "entries.");
	enum tv_err err;

	err = store_spare_clear(opt->dir);
	if (err == TV_OK)
		err = store_env_open(&s->env, &eo, errbuf, cap);
	if (err == TV_ECORRUPT)
		advise(errbuf, cap);
	if (err != TV_OK)
		return err;
	/* A crash while meta.db was being created leaves write-ahead files only: still fresh. */
	had_data = had_data && (store_dir_has(opt->dir, "entries.") || store_dir_has(opt->dir, "meta.db"));
	err = open_meta(s, had_data, errbuf, cap);
	if (err == TV_OK)
		err = store_mark_open(s, errbuf, cap);
	if (err == TV_OK)
		err = store_seg_open_all(s, errbuf, cap);
	if (err == TV_OK)
		err = verify(s, errbuf, cap);
	if (err != TV_OK || s->no_thread)
		return err;
	store_env_allocate(&s->env);
	if (pthread_create(&s->thread, NULL, background_main, s) != 0) {
		snprintf(errbuf, cap, "cannot start a thread");
		return TV_ESYS;
	}
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
	buf_init(&s->bulk, BATCH_BYTES_MAX);
	buf_init(&s->scratch, BATCH_BYTES_MAX);
	s->segment_bytes_max = opt->segment_bytes > 0 ? opt->segment_bytes : SEGMENT_BYTES;
	s->checkpoint_bytes_max = opt->checkpoint_bytes > 0 ? opt->checkpoint_bytes : CHECKPOINT_BYTES;
	s->no_thread = opt->no_thread;
	s->mark_fd = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	pthread_cond_init(&s->named, NULL);
	if (opt->spares)
		s->spare_bytes = opt->log_file_bytes > 0 ? opt->log_file_bytes : LOG_FILE_BYTES;
	err = sodium_init() == -1 ? TV_ESYS : open_all(s, opt, errbuf, cap);
	if (err != TV_OK) {
		if (cap > 0 && errbuf[0] == '\0')
			snprintf(errbuf, cap, "cannot open the log in %s: %s", opt->dir, tv_strerror(err));
		log_close(s);
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
	if ((s->thread_runs || s->no_thread) && s->meta != NULL && !s->env.damaged && !s->failed)
		(void)checkpoint(&s->env);		/* only makes the next start quicker */
	store_mark_close(s);
	store_seg_close_all(s);
	if (s->meta != NULL)
		(void)s->meta->close(s->meta, DB_NOSYNC);	/* all of it is in the log */
	store_env_close(&s->env);
	buf_done(&s->bulk);
	buf_done(&s->scratch);
	pthread_cond_destroy(&s->wake);
	pthread_cond_destroy(&s->named);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* -- writing -- */

/* Removes entries >= index: whole segments by file, the rest one by one.  *manifest: it changed. */
static int
truncate_tail(struct log_store *s, DB_TXN *txn, uint64_t index, bool *manifest)
{
	unsigned keep = s->segs.n;
	int ret = 0;

	TV_ASSERT(index > s->cut);
	if (s->last == 0 || index > s->last)
		return 0;
	while (keep > 0 && s->segs.v[keep - 1].base >= index)
		keep--;
	if (keep < s->segs.n) {
		ret = store_seg_take(s, keep, s->segs.n - keep);
		*manifest = true;
	}
	if (ret == 0 && s->segs.n > 0)
		ret = store_seg_cut(&s->segs.v[s->segs.n - 1], txn, index);
	s->last = index - 1;
	if (s->last < s->first)
		s->first = s->last = 0;
	return ret;
}

/* Appends entries, opening a new segment first when the newest one is full. */
static int
append(struct log_store *s, DB_TXN *txn, const struct raft_entry *e, uint32_t count, bool *manifest)
{
	int ret;

	TV_ASSERT(e[0].index == (s->last != 0 ? s->last : s->cut) + 1);
	for (uint32_t i = 1; i < count; i++)
		TV_ASSERT(e[i].index == e[0].index + i);
	if (store_seg_full(s)) {
		ret = store_seg_add(s, e[0].index);
		if (ret != 0)
			return ret;
		*manifest = true;
	}
	ret = store_seg_put(&s->segs.v[s->segs.n - 1], txn, e, count, &s->bulk);
	if (s->first == 0)
		s->first = e[0].index;
	s->last = e[count - 1].index;
	return ret;
}

static int
change_batch(struct log_store *s, DB_TXN *txn, const void *arg, bool *manifest)
{
	const struct log_batch *b = arg;
	int ret = 0;

	if (b->hard_changed) {
		s->term = b->term;
		s->vote = b->vote;
		ret = store_meta_put(s, txn, STORE_META_HARD);
	}
	if (ret == 0 && b->generation != 0) {
		s->generation = b->generation;
		ret = store_meta_put(s, txn, STORE_META_IDENTITY);
	}
	if (ret == 0 && b->truncate_from != 0)
		ret = truncate_tail(s, txn, b->truncate_from, manifest);
	if (ret == 0 && b->count > 0)
		ret = append(s, txn, b->entries, b->count, manifest);
	return ret;
}

/* Every write goes through here: one transaction around fn, durable on return. */
struct log_change {
	int (*fn)(struct log_store *s, DB_TXN *txn, const void *arg, bool *manifest);
	const void *arg;
	uint64_t bytes;
};

/* Lock held.  Berkeley DB's code. */
static int
change_in_txn(struct log_store *s, const struct log_change *c)
{
	bool manifest = false;
	DB_TXN *txn;
	int ret = s->env.dbenv->txn_begin(s->env.dbenv, NULL, &txn, 0);

	if (ret != 0)
		return ret;
	s->seq++;
	ret = c->fn(s, txn, c->arg, &manifest);
	if (ret == 0 && manifest)
		ret = store_meta_put(s, txn, STORE_META_SEGMENTS);
	if (ret == 0)
		ret = store_meta_put(s, txn, STORE_META_SEQ);
	return end_txn(txn, ret, DB_TXN_NOSYNC);
}

static enum tv_err
change(struct log_store *s, const struct log_change *c)
{
	enum tv_err err;
	int ret;

	pthread_mutex_lock(&s->lock);
	while (s->naming)
		pthread_cond_wait(&s->named, &s->lock);
	ret = s->failed ? s->failure : change_in_txn(s, c);
	if (ret == 0)
		count_written(s, c->bytes);
	pthread_mutex_unlock(&s->lock);
	if (ret == 0)
		ret = s->env.dbenv->log_flush(s->env.dbenv, NULL);
	if (ret == 0)
		store_mark_set(s);
	pthread_mutex_lock(&s->lock);
	if (ret == 0 && s->leaving.n > 0) {
		ret = store_seg_to_trash(s);
		pthread_cond_signal(&s->wake);
	}
	if (ret != 0)
		fail(s, ret);
	if (s->no_thread && background_due(s))
		background(s);
	pthread_mutex_unlock(&s->lock);
	if (ret == 0)
		return TV_OK;
	/* Nothing more may reach the disk: a page could go out ahead of the log record that was lost. */
	(void)s->env.dbenv->set_flags(s->env.dbenv, DB_PANIC_ENVIRONMENT, 1);
	err = store_env_err(&s->env, ret);
	return err == TV_ECORRUPT || err == TV_ENOSPACE ? err : TV_ESYS;
}

enum tv_err
log_write(struct log_store *s, const struct log_batch *b)
{
	struct log_change c = { .fn = change_batch, .arg = b, .bytes = 64 };

	for (uint32_t i = 0; i < b->count; i++)
		c.bytes += b->entries[i].size + 64;
	return change(s, &c);
}

/* -- snapshot positions -- */

struct position {
	uint64_t cut, index, term;
	const struct raft_config *config;
};

static void
set_position(struct log_store *s, const struct position *p)
{
	if (p->cut > s->cut)
		s->cut = p->cut;
	s->snapshot_index = p->index;
	s->snapshot_term = p->term;
	s->snapshot_config = *p->config;
}

static int
change_compact(struct log_store *s, DB_TXN *txn, const void *arg, bool *manifest)
{
	int ret;

	set_position(s, arg);
	if (s->last <= s->cut)
		s->first = s->last = 0;
	else if (s->first <= s->cut)
		s->first = s->cut + 1;
	ret = store_seg_discard(s);
	*manifest = s->leaving.n > 0;
	return ret != 0 ? ret : store_meta_put(s, txn, STORE_META_SNAPSHOT);
}

enum tv_err
log_compact(struct log_store *s, uint64_t index, uint64_t snapshot_index, uint64_t snapshot_term,
    const struct raft_config *config)
{
	struct position p = { .cut = index, .index = snapshot_index, .term = snapshot_term, .config = config };
	struct log_change c = { .fn = change_compact, .arg = &p, .bytes = 64 };

	return change(s, &c);
}

static int
change_reset(struct log_store *s, DB_TXN *txn, const void *arg, bool *manifest)
{
	int ret = store_seg_take(s, 0, s->segs.n);

	*manifest = true;
	s->first = s->last = 0;
	s->cut = 0;
	set_position(s, arg);
	return ret != 0 ? ret : store_meta_put(s, txn, STORE_META_SNAPSHOT);
}

uint64_t
log_fits_from(struct log_store *s, uint64_t bytes_max, bool wait)
{
	uint64_t bytes = 0, from;
	struct stat st;

	if (wait)
		(void)pthread_mutex_lock(&s->lock);
	else if (pthread_mutex_trylock(&s->lock) != 0)
		return 0;
	from = s->last + 1;
	for (unsigned i = s->segs.n; i-- > 0;) {
		char name[64], path[640];

		store_seg_name(s->segs.v[i].id, name, sizeof(name));
		snprintf(path, sizeof(path), "%s/%s", s->env.dir, name);
		bytes += stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;	/* not there yet: small */
		if (bytes > bytes_max && i + 1 < s->segs.n)
			break;
		from = s->segs.v[i].base;
	}
	(void)pthread_mutex_unlock(&s->lock);
	return from;
}

enum tv_err
log_reset(struct log_store *s, uint64_t snapshot_index, uint64_t snapshot_term, const struct raft_config *config)
{
	struct position p = { .cut = snapshot_index, .index = snapshot_index, .term = snapshot_term, .config = config };
	struct log_change c = { .fn = change_reset, .arg = &p, .bytes = 64 };

	return change(s, &c);
}

struct identity {
	const char *cluster_id;
	uint64_t generation;
};

static int
change_identity(struct log_store *s, DB_TXN *txn, const void *arg, bool *manifest)
{
	const struct identity *id = arg;

	(void)manifest;
	snprintf(s->cluster_id, sizeof(s->cluster_id), "%s", id->cluster_id);
	s->generation = id->generation;
	return store_meta_put(s, txn, STORE_META_IDENTITY);
}

enum tv_err
log_set_cluster(struct log_store *s, const char *cluster_id, uint64_t generation)
{
	struct identity id = { .cluster_id = cluster_id, .generation = generation };
	struct log_change c = { .fn = change_identity, .arg = &id, .bytes = 64 };

	return change(s, &c);
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
		err = store_seg_walk(s, from, s->last, fn, ctx, &bad);
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

enum tv_err
log_read(struct log_store *s, uint64_t first, uint64_t last, size_t bytes_max, struct arena *a,
    struct raft_entry **out, uint32_t *count)
{
	struct reading g = { .arena = a, .bytes_max = bytes_max };
	enum tv_err err = TV_ENOENT;
	uint64_t bad;

	*count = 0;
	pthread_mutex_lock(&s->lock);
	if (s->first != 0 && first >= s->first && first <= last && last <= s->last) {
		g.out = arena_array(a, (size_t)(last - first + 1), sizeof(*g.out));
		err = g.out == NULL ? TV_ENOMEM : store_seg_walk(s, first, last, read_one, &g, &bad);
	}
	pthread_mutex_unlock(&s->lock);
	if (err == TV_ELIMIT)
		err = TV_OK;
	*out = g.out;
	*count = g.count;
	return err;
}
