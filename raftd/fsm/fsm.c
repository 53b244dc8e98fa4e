/*
 * The state machine: opening, applying, reading.  The rules of each area are in kv.c, session.c, register.c ...
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <sodium.h>

#include "common/record/mpack.h"
#include "raftd/fsm/fsm_int.h"

#define LOG_FILE_BYTES (16u << 20)
#define LOG_BUFFER_BYTES (1u << 20)
#define META_VERSION 3
#define META_V1_COUNT 6			/* indexes and tallies that version 1 had */
#define DIR_BYTES_MAX 3900
#define WORK_BYTES_MAX (512u << 20)

/* -- meta record -- */

/* The parts of a meta record. */
struct meta {
	uint64_t applied, term, index[FX_COUNT], tally[FT_COUNT], restored[FR_COUNT];
};

/* What an older version did not count yet stays 0; what a newer one counts beside is skipped. */
static void
meta_read_counts(struct rd *r, uint8_t version, uint64_t *out, unsigned max)
{
	unsigned n = version == 1 ? META_V1_COUNT : rd_u8(r);

	for (unsigned i = 0; i < n && r->err == TV_OK; i++) {
		uint64_t v = rd_u64be(r);

		if (i < max)
			out[i] = v;
	}
}

static enum tv_err
meta_read(struct span val, struct meta *m)
{
	struct rd r = rd_span_over(val);
	uint8_t version = rd_u8(&r);

	memset(m, 0, sizeof(*m));
	if (version > META_VERSION)
		return TV_EINVAL;		/* of a version to come */
	if (version < 1)
		return TV_ECORRUPT;
	m->applied = rd_u64be(&r);
	m->term = rd_u64be(&r);
	meta_read_counts(&r, version, m->index, FX_COUNT);
	meta_read_counts(&r, version, m->tally, FT_COUNT);
	if (rd_left(&r) > 0)		/* since version 3 */
		meta_read_counts(&r, version, m->restored, FR_COUNT);
	return rd_end(&r) == TV_OK ? TV_OK : TV_ECORRUPT;
}

enum tv_err
fsm_meta_is(struct span val, uint64_t index, uint64_t term)
{
	struct meta m;
	enum tv_err err = meta_read(val, &m);

	return err == TV_OK && (m.applied != index || m.term != term) ? TV_ECORRUPT : err;
}

enum tv_err
fsm_load_meta(struct fsm *f)
{
	struct meta m = { 0 };
	enum tv_err err = TV_OK;
	struct tkey k;
	struct span val;

	tkey_begin(&k, TBL_META);
	tkey_raw(&k, span_str("state"));
	if (tbl_peek(f, &k, &val))
		err = meta_read(val, &m);
	f->applied = m.applied;
	f->applied_term = m.term;
	memcpy(f->index, m.index, sizeof(f->index));
	memcpy(f->tally, m.tally, sizeof(f->tally));
	memcpy(f->restored, m.restored, sizeof(f->restored));
	return f->failed != 0 ? store_env_err(f->env, f->failed) : err;
}

static void
meta_write_counts(struct buf *b, const uint64_t *v, uint8_t n)
{
	buf_u8(b, n);
	for (unsigned i = 0; i < n; i++)
		buf_u64be(b, v[i]);
}

static void
meta_write(struct buf *b, const struct meta *m)
{
	buf_u8(b, META_VERSION);
	buf_u64be(b, m->applied);
	buf_u64be(b, m->term);
	meta_write_counts(b, m->index, FX_COUNT);
	meta_write_counts(b, m->tally, FT_COUNT);
	meta_write_counts(b, m->restored, FR_COUNT);
}

enum tv_err
fsm_meta_position(struct span val, uint64_t *index)
{
	struct meta m;
	enum tv_err err = meta_read(val, &m);

	*index = m.applied + m.restored[FR_BASE];
	if (err == TV_OK && (m.applied > FSM_INDEX_MAX || m.restored[FR_BASE] > FSM_INDEX_MAX || *index > FSM_INDEX_MAX))
		err = TV_ECORRUPT;
	return err;
}

void
fsm_meta_of_restore(struct buf *b, uint64_t applied, uint64_t term, uint64_t at, const uint64_t tally[FT_COUNT])
{
	struct meta m = { .applied = applied, .term = term };

	for (unsigned i = 0; i < FX_COUNT; i++)
		m.index[i] = at;
	memcpy(m.tally, tally, sizeof(m.tally));
	m.restored[FR_BASE] = at - applied;
	m.restored[FR_FLOOR] = at;
	meta_write(b, &m);
}

void
fsm_store_meta(struct fsm *f)
{
	struct meta m = { .applied = f->applied, .term = f->applied_term };
	struct tkey k;
	struct buf *b = &f->pack;

	memcpy(m.index, f->index, sizeof(m.index));
	memcpy(m.tally, f->tally, sizeof(m.tally));
	memcpy(m.restored, f->restored, sizeof(m.restored));
	buf_reset(b);
	meta_write(b, &m);
	tkey_begin(&k, TBL_META);
	tkey_raw(&k, span_str("state"));
	if (b->failed)
		f->failed = ENOMEM;
	else
		tbl_put(f, &k, buf_span(b));
}

void
fsm_touch(struct fsm *f, enum fsm_index which)
{
	f->index[which] = f->at;
	watches_touch_table(f->watches, which);
}

void
fsm_count(struct fsm *f, enum fsm_tally which, int by)
{
	f->tally[which] = (uint64_t)((int64_t)f->tally[which] + by);
}

uint64_t
fsm_index_of(const struct fsm *f, enum fsm_index which)
{
	return f->index[which];
}

uint64_t
fsm_applied(const struct fsm *f)
{
	return f->applied;
}

uint64_t
fsm_applied_term(const struct fsm *f)
{
	return f->applied_term;
}

uint64_t
fsm_index(const struct fsm *f)
{
	return f->applied + f->restored[FR_BASE];
}

/* -- opening -- */

enum tv_err
fsm_tables_open(const struct fsm *f, struct fsm_tables *t, char *errbuf, size_t cap)
{
	struct store_env_options eo = { .dir = f->dir, .cache_bytes = f->opt.cache_bytes,
	    .log_file_bytes = f->opt.log_file_bytes, .log_buffer_bytes = f->opt.log_buffer_bytes,
	    .behind = f->opt.sync != FSM_SYNC_DIRECT ? STATE_FILE : NULL };
	enum tv_err err;
	int ret;

	*t = (struct fsm_tables){ .env = malloc(sizeof(*t->env)) };
	if (t->env == NULL)
		return TV_ENOMEM;
	err = store_env_open(t->env, &eo, errbuf, cap);
	if (err != TV_OK) {
		free(t->env);
		t->env = NULL;
		return err;
	}
	ret = store_env_db(t->env, STATE_FILE, true, &t->db);
	if (ret == 0)
		return TV_OK;
	err = store_env_is_damage(t->env, ret) ? TV_ECORRUPT : store_env_err(t->env, ret);
	snprintf(errbuf, cap, "cannot open the state in %s: %s%s%s", f->dir, db_strerror(ret),
	    t->env->message[0] != '\0' ? ": " : "", t->env->message);
	fsm_tables_close(t);
	return err;
}

void
fsm_tables_close(struct fsm_tables *t)
{
	if (t->db != NULL)
		(void)t->db->close(t->db, DB_NOSYNC);	/* all of it is in the log */
	if (t->env != NULL)
		store_env_close(t->env);
	free(t->env);
	*t = (struct fsm_tables){ 0 };
}

enum tv_err
fsm_tables_use(struct fsm *f, struct fsm_tables *t, char *errbuf, size_t cap)
{
	enum tv_err err;
	int ret;

	f->env = t->env;
	f->db = t->db;
	*t = (struct fsm_tables){ 0 };
	f->stage_changed = true;
	f->tidy.walking = false;
	f->tidy.file = 0;
	err = fsm_load_meta(f);
	if (err == TV_OK && (ret = flusher_start(f)) != 0)
		err = store_env_err(f->env, ret);
	if (err == TV_EINVAL)
		snprintf(errbuf, cap, "the state in %s was written by a newer version of raftd, and this one would not "
		    "understand all of it: start the newer version", f->dir);
	else if (err != TV_OK)
		snprintf(errbuf, cap, "cannot open the state in %s: %s%s%s", f->dir, tv_strerror(err),
		    f->env->message[0] != '\0' ? ": " : "", f->env->message);
	return err;
}

static enum tv_err
init(struct fsm *f, const struct fsm_options *opt)
{
	pthread_mutex_init(&f->lock, NULL);
	pthread_mutex_init(&f->env_lock, NULL);
	if (strlen(opt->dir) > DIR_BYTES_MAX)
		return TV_ELIMIT;
	f->opt = *opt;
	if (f->opt.log_file_bytes == 0)
		f->opt.log_file_bytes = LOG_FILE_BYTES;
	if (f->opt.log_buffer_bytes == 0)
		f->opt.log_buffer_bytes = LOG_BUFFER_BYTES;
	buf_init(&f->scratch, FSM_ANSWER_BYTES_MAX);
	buf_init(&f->pack, FSM_ANSWER_BYTES_MAX);
	f->work = ARENA_INIT(WORK_BYTES_MAX);
	f->dir = strdup(opt->dir);
	f->datacenter = strdup(opt->datacenter == NULL ? "" : opt->datacenter);
	f->watches = sodium_init() == -1 ? NULL : watches_new();
	if (f->dir == NULL || f->datacenter == NULL || f->watches == NULL || buf_room(&f->scratch, 4096) == NULL)
		return TV_ENOMEM;
	f->opt.dir = f->dir;
	f->opt.datacenter = f->datacenter;
	return TV_OK;
}

enum tv_err
fsm_open(const struct fsm_options *opt, struct fsm **out, char *errbuf, size_t cap)
{
	struct fsm *f = calloc(1, sizeof(*f));
	struct fsm_tables t;
	enum tv_err err;

	if (cap > 0)
		errbuf[0] = '\0';
	if (f == NULL)
		return TV_ENOMEM;
	err = init(f, opt);
	if (err == TV_OK)
		err = restore_finish(f->dir);
	if (err == TV_OK && damage_marked(f->dir)) {
		snprintf(errbuf, cap, "the state in %s was found damaged while it was in use", f->dir);
		err = TV_ECORRUPT;
	}
	if (err == TV_OK)
		err = fsm_tables_open(f, &t, errbuf, cap);
	if (err == TV_OK)
		err = fsm_tables_use(f, &t, errbuf, cap);
	if (err == TV_OK) {
		store_env_allocate(f->env);
		*out = f;
		return TV_OK;
	}
	if (cap > 0 && errbuf[0] == '\0')
		snprintf(errbuf, cap, "cannot open the state in %s: %s", opt->dir, tv_strerror(err));
	fsm_close(f);
	return err;
}

void
fsm_close(struct fsm *f)
{
	if (f == NULL)
		return;
	flusher_stop(f);
	if (f->env != NULL && !f->displaced && fsm_trouble(f) == TV_OK)
		(void)f->env->dbenv->txn_checkpoint(f->env->dbenv, 0, 0, 0);	/* only makes the next start quicker */
	replace_close(f);
	watches_free(f->watches);
	arena_done(&f->work);
	buf_done(&f->scratch);
	buf_done(&f->pack);
	pthread_mutex_destroy(&f->lock);
	pthread_mutex_destroy(&f->env_lock);
	free(f->dir);
	free(f->datacenter);
	free(f);
}

/* -- applying -- */

void
fsm_entry_write(struct buf *b, uint16_t op, struct span args)
{
	mpw_array(b, 2);
	mpw_uint(b, op);
	buf_putspan(b, args);
}

static void __attribute__((format(printf, 3, 0)))
set_text(struct arena *a, struct span *out, const char *fmt, va_list ap)
{
	struct buf b = BUF_INIT(8192);

	buf_vprintf(&b, fmt, ap);
	*out = arena_copy(a, buf_span(&b));
	if (out->p == NULL)
		*out = span_str("out of memory");
	buf_done(&b);
}

void
apply_fail(struct apply *p, enum tv_err err, const char *fmt, ...)
{
	va_list ap;

	p->res->err = err;
	va_start(ap, fmt);
	set_text(p->out, &p->res->text, fmt, ap);
	va_end(ap);
}

void
apply_bool(struct apply *p, bool value)
{
	static const uint8_t yes[] = { 0x91, 0xc3 }, no[] = { 0x91, 0xc2 };	/* bool_reply */

	p->res->value = value ? span_of(yes, sizeof(yes)) : span_of(no, sizeof(no));
}

/* Arguments and rules of one operation; malformed ones are the entry's error, the same on every server. */
static void
apply_op(struct apply *p, struct span payload)
{
	union fsm_args args;
	struct rd r = rd_span_over(payload);
	const struct fsm_op *op;
	const struct op *desc;
	uint16_t code;

	if (mpr_array(&r) != 2)
		rd_fail(&r, TV_EFORMAT);
	code = (uint16_t)mpr_uint(&r, UINT16_MAX);
	op = r.err == TV_OK ? fsm_op_find(code) : NULL;
	desc = op_find(code);
	if (op == NULL || op->apply == NULL || desc == NULL) {
		apply_fail(p, TV_EINVAL, "unknown operation %u", (unsigned)code);
		return;
	}
	memset(&args, 0, sizeof(args));
	if (schema_unpack(desc->args, &r, &p->f->work, &args) == TV_ENOMEM) {
		p->f->failed = ENOMEM;		/* ours alone: the others may well apply it */
		return;
	}
	if (rd_end(&r) != TV_OK) {
		apply_fail(p, TV_EFORMAT, "malformed arguments of %s", desc->name);
		return;
	}
	op->apply(p, &args);
}

static void
apply_entry(struct fsm *f, const struct raft_entry *e, struct arena *a, struct fsm_result *res)
{
	struct apply p = { .f = f, .out = a, .res = res };

	*res = (struct fsm_result){ 0 };
	f->at = e->index + f->restored[FR_BASE];
	arena_reset(&f->work);
	if (e->type == RAFT_ENTRY_OP)
		apply_op(&p, span_of(e->payload, e->size));
	f->applied = e->index;
	f->applied_term = e->term;
	f->applied_entries++;
}

/* Lock held.  Berkeley DB's code. */
static int
apply_all(struct fsm *f, const struct raft_entry *entries, uint32_t count, struct arena *a, struct fsm_result *results)
{
	struct arena dropped = ARENA_INIT(1u << 20);
	struct fsm_result none;
	int ret;

	ret = tbl_begin(f);
	if (ret != 0)
		return ret;
	for (uint32_t i = 0; i < count && f->failed == 0; i++) {
		apply_entry(f, &entries[i], results != NULL ? a : &dropped, results != NULL ? &results[i] : &none);
		if (results == NULL)
			arena_reset(&dropped);
	}
	arena_done(&dropped);
	if (f->failed == 0)
		fsm_store_meta(f);
	return tbl_end(f);
}

enum tv_err
fsm_apply(struct fsm *f, const struct raft_entry *entries, uint32_t count, struct arena *a, struct fsm_result *results)
{
	int ret;

	if (count == 0)
		return TV_OK;
	if (entries[0].index != f->applied + 1)
		return TV_EINVAL;
	pthread_mutex_lock(&f->lock);
	ret = apply_all(f, entries, count, a, results);
	if (ret != 0)
		f->failed = ret;		/* before a checkpoint takes what was not committed for applied */
	pthread_mutex_unlock(&f->lock);
	if (ret != 0) {
		enum tv_err err;

		err = store_env_err(f->env, ret);
		return err == TV_ECORRUPT || err == TV_ENOSPACE ? err : TV_ESYS;
	}
	watches_fire(f->watches);
	return TV_OK;
}

/* -- preparing -- */

enum tv_err
prepare_fail(struct prepare *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set_text(p->a, p->error_text, fmt, ap);
	va_end(ap);
	return TV_EINVAL;
}

enum tv_err
fsm_prepare(struct fsm *f, uint16_t code, struct span args, int64_t wall_now_ns, const char *new_uuid, struct buf *b,
    struct arena *a, struct span *error_text)
{
	struct prepare p = { .f = f, .a = a, .now = wall_now_ns, .uuid = new_uuid, .error_text = error_text };
	const struct fsm_op *op = fsm_op_find(code);
	const struct op *desc = op_find(code);
	struct rd r = rd_span_over(args);
	union fsm_args rec;
	enum tv_err err = TV_OK;
	size_t before = a->used;

	*error_text = SPAN_NONE;
	if (op == NULL || op->apply == NULL || desc == NULL)
		return prepare_fail(&p, "unknown operation %u", (unsigned)code);
	memset(&rec, 0, sizeof(rec));
	if (schema_unpack(desc->args, &r, a, &rec) != TV_OK || rd_end(&r) != TV_OK)
		return prepare_fail(&p, "malformed arguments of %s", desc->name);
	/* Whoever reads back what is stored has a bound too, and would have to stop. */
	if (a->used - before > FSM_DECODED_MAX)
		return prepare_fail(&p, "too many parts in the arguments of %s", desc->name);
	if (op->prepare != NULL)
		err = op->prepare(&p, &rec);
	if (err != TV_OK)
		return err;
	schema_pack(desc->args, &rec, b);
	return b->failed ? TV_ELIMIT : TV_OK;
}

/* -- reading -- */

size_t
list_begin(struct buf *out)
{
	size_t at = out->len;

	buf_u8(out, 0xdd);		/* array 32 */
	buf_u32be(out, 0);
	return at;
}

void
list_end(struct buf *out, size_t at, uint32_t count)
{
	for (int i = 0; !out->failed && i < 4; i++)
		out->data[at + 1 + i] = (uint8_t)(count >> (24 - 8 * i));
}

void
read_fail(struct reading *r, enum tv_err err, const char *fmt, ...)
{
	va_list ap;

	r->ans->err = err;
	va_start(ap, fmt);
	set_text(r->a, &r->ans->text, fmt, ap);
	va_end(ap);
}

void
fsm_read(struct fsm *f, const struct op *op, struct span args, struct arena *a, struct buf *out, struct fsm_answer *ans)
{
	struct reading r = { .f = f, .a = a, .out = out, .ans = ans };
	const struct fsm_op *row = fsm_op_find(op->code);
	struct rd in = rd_span_over(args);
	size_t at = out->len;
	union fsm_args rec;

	*ans = (struct fsm_answer){ .err = TV_OK, .index = 1 };
	memset(&rec, 0, sizeof(rec));
	if (row == NULL || row->read == NULL)
		read_fail(&r, TV_EINVAL, "unknown read %u", (unsigned)op->code);
	else if (schema_unpack(op->args, &in, a, &rec) != TV_OK || rd_end(&in) != TV_OK)
		read_fail(&r, TV_EFORMAT, "malformed arguments of %s", op->name);
	else
		row->read(&r, &rec);
	/* Not by a restore either does an index go back: what was restored counts as changed then (S104). */
	if (ans->index < f->restored[FR_FLOOR])
		ans->index = f->restored[FR_FLOOR];
	if (ans->index == 0)
		ans->index = 1;
	if (f->failed != 0)
		read_fail(&r, store_env_err(f->env, f->failed), "the state cannot be read");
	else if (out->failed && ans->err == TV_OK)
		read_fail(&r, TV_ELIMIT, "the answer is too large");
	if (ans->err != TV_OK && out->len > at)
		out->len = at;
}

/* -- watching -- */

/* What the read depends on, beside its operation. */
static struct span
watched(const struct fsm_op *row, const union fsm_args *rec, unsigned *tables, struct arena *a)
{
	struct span lower;

	*tables = row->tables;
	if (row->watch == WK_KEY || row->watch == WK_PREFIX)
		return rec->kv_read.Key;
	if (row->watch == WK_TABLE) {
		bool by_meta = (row->tables & ((1u << FX_SERVICES) | (1u << FX_CHECKS))) != 0;

		if (by_meta && rec->catalog_read.NodeMeta.n > 0)
			*tables |= 1u << FX_NODES;
		return SPAN_NONE;
	}
	lower = arena_copy(a, rec->catalog_read.Name);
	for (size_t i = 0; lower.p != NULL && i < lower.len; i++)
		((uint8_t *)(uintptr_t)lower.p)[i] = ascii_lower(lower.p[i]);
	return lower;
}

struct fsm_watch *
fsm_watch(struct fsm *f, const struct op *op, struct span args, fsm_watch_fn *fn, void *ctx)
{
	struct arena a = ARENA_INIT(1u << 20);
	const struct fsm_op *row = fsm_op_find(op->code);
	struct rd in = rd_span_over(args);
	struct fsm_watch *w = NULL;
	union fsm_args rec;

	memset(&rec, 0, sizeof(rec));
	if (row != NULL && row->read != NULL && schema_unpack(op->args, &in, &a, &rec) == TV_OK) {
		unsigned tables;
		struct span what = watched(row, &rec, &tables, &a);

		w = watches_add(f->watches, row->watch, what, tables, fn, ctx);
	}
	arena_done(&a);
	return w;
}

void
fsm_unwatch(struct fsm *f, struct fsm_watch *w)
{
	if (w != NULL)
		watches_remove(f->watches, w);
}

unsigned
fsm_replaced(const struct fsm *f)
{
	return f->replaced;
}

unsigned
fsm_watch_count(const struct fsm *f)
{
	return watches_count(f->watches);
}
