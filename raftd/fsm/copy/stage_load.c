/*
 * Archives on their way into a state: looked through in a file before anything is staged, and loaded from the staging
 * beside the present state.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "raftd/fsm/copy/archive.h"
#include "raftd/fsm/copy/copy.h"
#include "raftd/fsm/copy/snapfile.h"
#include "raftd/fsm/copy/stage.h"
#include "raftd/fsm/page/page.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/record.h"
#include "raftd/fsm/table/table.h"

#define RECORD_ARENA_MAX (256u << 20)

/* -- the records of an archive -- */

struct sieve {
	struct archive_in *archive;
	struct snap_in in;
	struct buf last;		/* key before: they ascend */
	struct arena arena;
	uint64_t index, tally[FT_COUNT];
	bool has_meta, has_acl;
	uint8_t needs;			/* version of the state machine */
	uint8_t newer;			/* version of the state, if we do not know it; said once all is known to be whole */
	char why[192];
};

#define UPGRADE ": upgrade all servers to the version that saved it"

static enum tv_err
bad(struct sieve *s, const char *why)
{
	snprintf(s->why, sizeof(s->why), "failed to read snapshot file: %s", why);
	return TV_EFORMAT;
}

/* Nothing is wrong with it. */
static enum tv_err
too_new(struct sieve *s, const char *what, unsigned version)
{
	snprintf(s->why, sizeof(s->why), "failed to read snapshot file: %s is of version %u, newer than this server knows"
	    UPGRADE, what, version);
	return TV_EFORMAT;
}

/* The first record. */
static enum tv_err
take_position(struct sieve *s, struct span val)
{
	enum tv_err err = s->has_meta ? TV_ECORRUPT : fsm_meta_position(val, &s->index, &s->needs);

	if (err == TV_EINVAL)
		s->newer = s->needs;
	else if (err != TV_OK)
		return bad(s, "the first record of state.bin is malformed");
	s->has_meta = true;
	return TV_ENOENT;
}

/* What is not this cluster's to take stays out: the position, removed servers, other restores. */
static enum tv_err
take_record(void *ctx, struct span key, struct span val)
{
	const struct fsm_table *table = fsm_table_find(key.p[0]);
	struct sieve *s = ctx;
	enum fsm_tally tally = FT_COUNT;
	enum tv_err err;

	if (span_cmp(key, buf_span(&s->last)) <= 0)
		return bad(s, "the records of state.bin are not in order");
	buf_reset(&s->last);
	buf_putspan(&s->last, key);
	if (s->last.failed)
		return TV_ENOMEM;
	if (key.p[0] == TBL_META)
		return take_position(s, val);
	if (table != NULL && table->own)
		return TV_ENOENT;
	if (key.p[0] == TBL_ACL)
		s->has_acl = true;
	arena_reset(&s->arena);
	err = record_check(key, val, &s->arena, &tally);
	if (err == TV_EFORMAT)
		return bad(s, "a record of state.bin is malformed, or of a newer version" UPGRADE);
	if (err != TV_OK)
		return err;
	if (tally != FT_COUNT)
		s->tally[tally]++;
	return TV_OK;
}

static enum tv_err
sieve_open(struct sieve *s, archive_source *source, void *ctx, uint64_t state_max, char *errbuf, size_t cap)
{
	enum tv_err err;

	memset(s, 0, sizeof(*s));
	buf_init(&s->last, TKEY_BYTES_MAX);
	s->arena = ARENA_INIT(RECORD_ARENA_MAX);
	s->archive = archive_open(source, ctx, state_max, &err, errbuf, cap);
	if (s->archive == NULL)
		return err;
	err = snap_in_open_with(&s->in, archive_state_read, s->archive, archive_state_bytes(s->archive));
	if (err == TV_EINVAL)
		return too_new(s, "its state.bin", s->in.version);
	if (err == TV_EFORMAT && archive_why(s->archive)[0] == '\0')
		return bad(s, "its state.bin is not of Triumvir's format; a snapshot of another program cannot be restored");
	return err;
}

/* After the last record (err TV_EOF) or an error: what it was, with a sentence. */
static enum tv_err
sieve_end(struct sieve *s, enum tv_err err, char *errbuf, size_t cap)
{
	if (err == TV_EOF)
		err = archive_finish(s->archive);
	else if (err == TV_ECORRUPT)
		err = bad(s, "state.bin is damaged");
	if (err == TV_OK && s->newer > 0)
		err = too_new(s, "the state in it", s->newer);
	if (err == TV_OK && !s->has_meta)
		err = bad(s, "state.bin does not name its index");
	if (err != TV_OK && cap > 0 && errbuf[0] == '\0')
		snprintf(errbuf, cap, "%s", s->why[0] != '\0' ? s->why :
		    s->archive != NULL && archive_why(s->archive)[0] != '\0' ? archive_why(s->archive) :
		    err == TV_ESYS ? strerror(errno) : tv_strerror(err));
	snap_in_close(&s->in);
	archive_close(s->archive);
	buf_done(&s->last);
	arena_done(&s->arena);
	return err;
}

/* -- an archive in a file -- */

struct file_source {
	FILE *file;
	crypto_generichash_state sum;
	uint64_t bytes;
	_Atomic uint64_t *done;
};

static enum tv_err
source_read(void *ctx, void *p, size_t n, size_t *got)
{
	struct file_source *s = ctx;

	*got = fread(p, 1, n, s->file);
	if (*got == 0 && ferror(s->file))
		return TV_ESYS;
	crypto_generichash_update(&s->sum, p, *got);
	s->bytes += *got;
	*s->done += *got;
	return TV_OK;
}

enum tv_err
fsm_archive_check(const char *path, uint64_t state_max, struct fsm_archive_facts *out, _Atomic uint64_t *done,
    char *errbuf, size_t cap)
{
	struct file_source src = { .file = fopen(path, "re"), .done = done };
	struct span key, val;
	struct sieve s;
	enum tv_err err;

	errbuf[0] = '\0';
	if (src.file == NULL)
		return tv_fail(errbuf, cap, TV_ESYS, "cannot read the uploaded archive: %s", strerror(errno));
	crypto_generichash_init(&src.sum, NULL, 0, sizeof(out->checksum));
	err = sieve_open(&s, source_read, &src, state_max, errbuf, cap);
	while (err == TV_OK) {
		err = snap_in_next(&s.in, &key, &val);
		if (err != TV_OK)
			break;
		err = take_record(&s, key, val);
		if (err == TV_ENOENT)
			err = TV_OK;
	}
	out->state_bytes = s.archive == NULL ? 0 : archive_state_bytes(s.archive);
	out->records = s.in.seen;
	out->index = s.index;
	out->needs = s.needs;
	err = sieve_end(&s, err, errbuf, cap);
	(void)fclose(src.file);			/* it was only read */
	out->bytes = src.bytes;
	crypto_generichash_final(&src.sum, out->checksum, sizeof(out->checksum));
	return err;
}

/* -- the staged archive -- */

struct staged_source {
	struct fsm *f, *reader;
	const char *id;
	struct buf chunk;
	size_t used;			/* of the chunk */
	uint64_t offset;		/* of the next one */
	crypto_generichash_state sum;
	_Atomic uint64_t *done;
	enum tv_err err;		/* of the data base, not of the archive */
};

static enum tv_err
staged_read(void *ctx, void *p, size_t n, size_t *got)
{
	struct staged_source *s = ctx;

	if (s->used == s->chunk.len) {
		s->used = 0;
		s->err = stage_chunk(s->reader, s->id, s->offset, &s->chunk);
		if (s->err != TV_OK) {
			errno = EIO;		/* for archive_why(); the data base has logged its own words */
			return s->err;
		}
		s->offset += s->chunk.len;
		crypto_generichash_update(&s->sum, s->chunk.data, s->chunk.len);
		*s->done += s->chunk.len;
	}
	*got = s->chunk.len - s->used < n ? s->chunk.len - s->used : n;
	memcpy(p, s->chunk.data + s->used, *got);
	s->used += *got;
	return TV_OK;
}

/* Is what was read what BEGIN announced?  s->err TV_ENOENT: it cannot be told, it was given up meanwhile. */
static bool
is_as_staged(struct staged_source *s)
{
	struct fsm_stage st = { .bytes = 0 };
	uint8_t sum[sizeof(st.checksum)];

	while (s->err == TV_OK && s->chunk.len > 0) {
		uint8_t rest[4096];
		size_t got;

		(void)staged_read(s, rest, sizeof(rest), &got);	/* the archive was given up before its end */
	}
	crypto_generichash_final(&s->sum, sum, sizeof(sum));
	if (s->err == TV_OK)
		s->err = stage_whole(s->reader, s->id, &st);
	return s->err == TV_OK && memcmp(sum, st.checksum, sizeof(sum)) == 0;
}

static enum tv_err
load_staged(struct staged_source *src, struct sieve *s, const char *dir, uint64_t state_max, char *errbuf, size_t cap)
{
	const struct restore_filter filter = { take_record, s };
	enum tv_err err = sieve_open(s, staged_read, src, state_max, errbuf, cap);

	if (err == TV_OK) {
		err = restore_fill(src->f, dir, &s->in, &filter, errbuf, cap);
		if (err == TV_OK)
			err = TV_EOF;		/* the state's end was reached */
	}
	return sieve_end(s, err, errbuf, cap);
}

enum tv_err
fsm_stage_load(struct fsm *f, const char *id, uint64_t state_max, _Atomic uint64_t *done, char *errbuf, size_t cap)
{
	struct staged_source src = { .f = f, .reader = fsm_reader(f), .id = id, .done = done, .err = TV_OK };
	struct sieve s;
	char dir[4096];
	enum tv_err err;

	errbuf[0] = '\0';
	if (src.reader == NULL)
		return TV_ENOMEM;
	state_path(dir, sizeof(dir), f->dir, ".new");
	fsm_stage_unload(f);
	buf_init(&src.chunk, STAGE_CHUNK_BYTES_MAX);
	crypto_generichash_init(&src.sum, NULL, 0, sizeof(((struct fsm_stage *)0)->checksum));
	err = load_staged(&src, &s, dir, state_max, errbuf, cap);
	if (src.err != TV_OK)
		err = src.err;
	else if ((err == TV_OK || err == TV_EFORMAT || err == TV_ELIMIT) && !is_as_staged(&src))
		err = src.err != TV_OK ? src.err : TV_ECORRUPT;
	if (err == TV_ECORRUPT)
		snprintf(errbuf, cap, "the staged archive is not the one that was announced");
	if (err == TV_OK) {
		pthread_mutex_lock(&f->head_lock);
		snprintf(f->loaded.id, sizeof(f->loaded.id), "%s", id);
		f->loaded.index = s.index;
		f->loaded.needs = s.needs;
		f->loaded.has_acl = s.has_acl;
		f->loaded.completed = 0;
		memcpy(f->loaded.tally, s.tally, sizeof(f->loaded.tally));
		pthread_mutex_unlock(&f->head_lock);
	} else {
		(void)state_remove_dir(dir);	/* the next start removes it too */
	}
	buf_done(&src.chunk);
	fsm_reader_free(src.reader);
	return err;
}

bool
fsm_stage_loaded(struct fsm *f, const char *id)
{
	bool is;

	pthread_mutex_lock(&f->head_lock);
	is = strcmp(f->loaded.id, id) == 0;
	pthread_mutex_unlock(&f->head_lock);
	return is;
}

void
fsm_stage_unload(struct fsm *f)
{
	char dir[4096];

	pthread_mutex_lock(&f->head_lock);
	f->loaded.id[0] = '\0';
	pthread_mutex_unlock(&f->head_lock);
	state_path(dir, sizeof(dir), f->dir, ".new");
	(void)state_remove_dir(dir);		/* the next start removes it too */
}

/* -- taking it -- */

static int
put_record(DB *db, const struct tkey *k, struct span val)
{
	DBT key = { .data = (void *)(uintptr_t)k->b, .size = k->len };
	DBT data = { .data = (void *)(uintptr_t)val.p, .size = (uint32_t)val.len };

	return db->put(db, NULL, &key, &data, 0);
}

static bool
keeps_acl(const struct fsm *f)
{
	return !f->loaded.has_acl && fsm_acl_since(f) != 0;
}

static int
put_table(struct fsm *f, DB *db, enum tbl table)
{
	struct tkey prefix, k;
	struct tbl_scan scan;
	struct span key, val;
	int ret = 0;

	tkey_begin(&prefix, table);
	tbl_scan_begin(f, &scan, &prefix);
	while (ret == 0 && tbl_next(&scan, &key, &val)) {
		tbl_key_of(&k, key);
		ret = put_record(db, &k, val);
	}
	tbl_scan_end(&scan);
	return ret != 0 ? ret : f->failed;
}

/*
 * What stays.  Removed servers do.  So does access control when the archive has none: it would be off afterwards, and what the
 * archive holds open to anybody.  Every server does the same: the state is that of the entry before.
 */
static int
put_kept(struct fsm *f, DB *db)
{
	int ret = put_table(f, db, TBL_SERVER);

	for (unsigned i = 0; ret == 0 && keeps_acl(f) && i < fsm_table_count; i++)
		if (fsm_table_is_acl(&fsm_tables[i]))
			ret = put_table(f, db, fsm_tables[i].letter);
	return ret;
}

static void
count_kept(const struct fsm *f, uint64_t tally[FT_COUNT])
{
	memcpy(tally, f->loaded.tally, sizeof(f->loaded.tally));
	for (unsigned i = 0; keeps_acl(f) && i < fsm_table_count; i++)
		if (fsm_table_is_acl(&fsm_tables[i]) && fsm_tables[i].counted)
			tally[fsm_tables[i].tally] = f->tally[fsm_tables[i].tally];
}

static int
put_position(struct fsm *f, DB *db, const char *id, uint64_t index, uint64_t term)
{
	uint64_t at = index + f->restored[FR_BASE], tally[FT_COUNT];
	struct buf b = BUF_INIT(4096);
	struct tkey k;
	int ret;

	if (at <= f->loaded.index)
		at = f->loaded.index + 1;
	count_kept(f, tally);
	fsm_meta_of_restore(&b, index, term, at, f->loaded.needs > f->needs ? f->loaded.needs : f->needs, tally);
	meta_key(&k);
	ret = b.failed ? ENOMEM : put_record(db, &k, buf_span(&b));
	buf_reset(&b);
	buf_u8(&b, 1);
	buf_puts(&b, id);
	buf_u64be(&b, index);
	stage_last_key(&k);
	if (ret == 0)
		ret = b.failed ? ENOMEM : put_record(db, &k, buf_span(&b));
	buf_done(&b);
	return ret;
}

/* The last records of DIR.new, and its mark. */
static enum tv_err
complete(struct fsm *f, const char *id, uint64_t index, uint64_t term, char *errbuf, size_t cap)
{
	struct store_env env;
	char dir[4096];
	enum tv_err err;
	DB *db = NULL;
	int ret;

	state_path(dir, sizeof(dir), f->dir, ".new");
	err = restore_env(f, &env, dir, errbuf, cap);
	if (err != TV_OK)
		return err;
	ret = store_env_db(&env, STATE_FILE, false, &db);
	if (ret == 0)
		ret = put_position(f, db, id, index, term);
	if (ret == 0)
		ret = put_kept(f, db);
	if (db != NULL && db->close(db, ret == 0 ? 0 : DB_NOSYNC) != 0 && ret == 0)
		ret = EIO;
	if (ret == 0)
		ret = env.dbenv->txn_checkpoint(env.dbenv, 0, 0, DB_FORCE);
	err = store_env_err(&env, ret);
	store_env_close(&env);
	return err == TV_OK ? restore_mark(dir) : err;
}

bool
fsm_stage_completed(struct fsm *f, const char *id, uint64_t index)
{
	bool is;

	pthread_mutex_lock(&f->head_lock);
	is = strcmp(f->loaded.id, id) == 0 && f->loaded.completed == index;
	pthread_mutex_unlock(&f->head_lock);
	return is;
}

enum tv_err
fsm_stage_complete(struct fsm *f, const char *id, uint64_t index, uint64_t term, char *errbuf, size_t cap)
{
	enum tv_err err;

	errbuf[0] = '\0';
	if (!fsm_stage_loaded(f, id) || index != f->applied + 1)
		return TV_EINVAL;
	err = complete(f, id, index, term, errbuf, cap);
	if (err == TV_OK)
		err = fsm_restore_ready(f, errbuf, cap);
	if (err == TV_ECORRUPT && f->failed != 0)
		return err;
	if (err == TV_OK) {
		pthread_mutex_lock(&f->head_lock);
		f->loaded.completed = index;
		pthread_mutex_unlock(&f->head_lock);
		return TV_OK;
	}
	if (errbuf[0] == '\0')
		snprintf(errbuf, cap, "cannot complete the restored state: %s",
		    err == TV_ESYS ? strerror(errno) : tv_strerror(err));
	fsm_stage_unload(f);
	return TV_ESYS;
}

enum tv_err
fsm_stage_take(struct fsm *f, const char *id, uint64_t index, uint64_t term, char *errbuf, size_t cap)
{
	enum tv_err err = TV_OK;

	if (!fsm_stage_completed(f, id, index))
		err = fsm_stage_complete(f, id, index, term, errbuf, cap);
	if (err == TV_OK && (replace_take(f, errbuf, cap) != TV_OK || f->applied != index))
		err = TV_ECORRUPT;
	return err;
}

enum tv_err
fsm_stage_swap(struct fsm *f, const char *id, uint64_t index, uint64_t term, char *errbuf, size_t cap)
{
	enum tv_err err = fsm_stage_take(f, id, index, term, errbuf, cap);

	if (err == TV_OK)
		fsm_fire_all(f);
	return err;
}
