/*
 * The state machine: opening, applying, reading.  The rules of each area are in kv.c, session.c, register.c ...
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <sodium.h>

#include "common/record/mpack.h"
#include "raftd/fsm/fsm_int.h"
#include "raftd/store/bdb/store_fetch.h"

#define LOG_BUFFER_BYTES (1u << 20)
#define DIR_BYTES_MAX 3900
#define WORK_BYTES_MAX (512u << 20)

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

/* -- opening -- */

enum tv_err
fsm_tables_open(const struct fsm *f, struct fsm_tables *t, char *errbuf, size_t cap)
{
	struct store_env_options eo = { .dir = f->dir, .cache_bytes = f->opt.cache_bytes,
	    .log_file_bytes = f->opt.log_file_bytes, .log_buffer_bytes = f->opt.log_buffer_bytes, .readers = true,
	    .behind = f->opt.sync != FSM_SYNC_DIRECT ? STATE_FILE : NULL };
	enum tv_err err;
	int ret;

	*t = (struct fsm_tables){ .env = malloc(sizeof(*t->env)), .readers = calloc(1, sizeof(*t->readers)) };
	err = t->env == NULL || t->readers == NULL ? TV_ENOMEM : store_env_open(t->env, &eo, errbuf, cap);
	if (err != TV_OK) {
		free(t->env);
		free(t->readers);
		*t = (struct fsm_tables){ .env = NULL };
		return err;
	}
	ret = store_env_db(t->env, STATE_FILE, true, &t->db);
	if (ret == 0)
		ret = store_env_db_sparse(t->env, STATE_FILE, &t->sparse);
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
	if (t->sparse != NULL)
		(void)t->sparse->close(t->sparse, DB_NOSYNC);	/* all of it is in the log */
	if (t->db != NULL)
		(void)t->db->close(t->db, DB_NOSYNC);
	if (t->env != NULL)
		store_env_close(t->env);
	free(t->env);
	free(t->readers);
	*t = (struct fsm_tables){ 0 };
}

enum tv_err
fsm_tables_use(struct fsm *f, struct fsm_tables *t, char *errbuf, size_t cap)
{
	enum tv_err err;
	int ret;

	pthread_mutex_lock(&f->head_lock);
	f->env = t->env;
	f->db = t->db;
	f->sparse = t->sparse;
	f->readers = t->readers;
	pthread_mutex_unlock(&f->head_lock);
	*t = (struct fsm_tables){ 0 };
	f->facts = FACTS_ALL;
	f->compact.walking = false;
	f->compact.file = 0;
	addresses_forget(f);
	warm_begin(f);
	err = fsm_load_meta(f);
	if (err == TV_OK)
		head_publish(f);
	if (err == TV_OK && (ret = flusher_start(f)) != 0)
		err = store_env_err(f->env, ret);
	if (err == TV_EINVAL)
		snprintf(errbuf, cap, "the state in %s was written by a newer version of raftd, which this version "
		    "cannot read completely: start the newer version", f->dir);
	else if (err != TV_OK)
		snprintf(errbuf, cap, "cannot open the state in %s: %s%s%s", f->dir, tv_strerror(err),
		    f->env->message[0] != '\0' ? ": " : "", f->env->message);
	return err;
}

static enum tv_err
init(struct fsm *f, const struct fsm_options *opt)
{
	pthread_mutex_init(&f->lock, NULL);
	pthread_mutex_init(&f->door, NULL);
	pthread_mutex_init(&f->views_lock, NULL);
	pthread_cond_init(&f->views_left, NULL);
	pthread_mutex_init(&f->env_lock, NULL);
	pthread_mutex_init(&f->head_lock, NULL);
	pthread_cond_init(&f->readers_left, NULL);
	touches_reset(&f->own_touches);
	f->touches = &f->own_touches;
	if (strlen(opt->dir) > DIR_BYTES_MAX)
		return TV_ELIMIT;
	f->opt = *opt;
	if (f->opt.log_file_bytes == 0)
		f->opt.log_file_bytes = FSM_LOG_FILE_BYTES;
	if (f->opt.log_buffer_bytes == 0)
		f->opt.log_buffer_bytes = LOG_BUFFER_BYTES;
	if (f->opt.version == 0)
		f->opt.version = FSM_VERSION;
	buf_init(&f->scratch, FSM_ANSWER_BYTES_MAX);
	buf_init(&f->pack, FSM_ANSWER_BYTES_MAX);
	f->work = ARENA_INIT(WORK_BYTES_MAX);
	f->dir = strdup(opt->dir);
	f->datacenter = strdup(opt->datacenter == NULL ? "" : opt->datacenter);
	f->acl_primary = opt->acl_primary == NULL ? NULL : strdup(opt->acl_primary);
	f->watches = sodium_init() == -1 ? NULL : watches_new();
	f->rights = f->watches == NULL ? NULL : acl_rights_table_new();
	f->addresses = addresses_new();
	if (f->dir == NULL || f->datacenter == NULL || f->rights == NULL || f->addresses == NULL || (opt->acl_primary != NULL && f->acl_primary == NULL) || buf_room(&f->scratch, 4096) == NULL)
		return TV_ENOMEM;
	f->opt.dir = f->dir;
	f->opt.datacenter = f->datacenter;
	f->opt.acl_primary = f->acl_primary;
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
	warm_end(f);
	flusher_stop(f);
	damage_mark(f);
	if (f->env != NULL && !f->displaced && fsm_trouble(f) == TV_OK)
		(void)f->env->dbenv->txn_checkpoint(f->env->dbenv, 0, 0, 0);	/* only makes the next start quicker */
	replace_close(f);
	watches_free(f->watches);
	acl_rights_table_free(f->rights);
	addresses_free(f->addresses);
	arena_done(&f->work);
	buf_done(&f->scratch);
	buf_done(&f->pack);
	pthread_mutex_destroy(&f->lock);
	pthread_mutex_destroy(&f->door);
	pthread_mutex_destroy(&f->views_lock);
	pthread_cond_destroy(&f->views_left);
	pthread_mutex_destroy(&f->env_lock);
	pthread_mutex_destroy(&f->head_lock);
	pthread_cond_destroy(&f->readers_left);
	buf_done(&f->head.servers);
	buf_done(&f->own_touches.log);
	free(f->dir);
	free(f->datacenter);
	free(f->acl_primary);
	free(f);
}

/* -- applying -- */

uint8_t
fsm_op_version(uint16_t op)
{
	const struct fsm_op *row = fsm_op_find(op);

	return row == NULL || row->since == 0 ? 1 : row->since;
}

uint8_t
fsm_entry_version(uint16_t op, struct span args, bool premises)
{
	const struct fsm_op *row = fsm_op_find(op);
	uint8_t needs = fsm_op_version(op), more = row == NULL || row->needs == NULL ? 0 : row->needs(args);

	if (more > needs)
		needs = more;
	return premises && needs < FSM_PREMISES_SINCE ? FSM_PREMISES_SINCE : needs;
}

void
fsm_entry_write_judged(struct buf *b, uint16_t op, struct span args, struct span premises)
{
	uint8_t needs = fsm_entry_version(op, args, premises.len > 0);

	mpw_array(b, premises.len > 0 ? 4 : needs > 1 ? 3 : 2);
	mpw_uint(b, op);
	buf_putspan(b, args);
	if (needs > 1)
		mpw_uint(b, needs);
	buf_putspan(b, premises);
}

void
fsm_entry_write(struct buf *b, uint16_t op, struct span args)
{
	fsm_entry_write_judged(b, op, args, SPAN_NONE);
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

/*
 * Not ours to apply: whoever passed over it would have another state than the servers that know it.  The batch is undone,
 * and the process stops; the entry is applied once a version runs that can.
 */
static void
beyond_us(struct fsm *f, uint16_t op, uint8_t needs)
{
	f->beyond.index = f->applied + 1;
	f->beyond.op = op;
	f->beyond.needs = needs;
	f->failed = ENOTSUP;
}

/* What an entry says behind its arguments, where r stands before them: the version that it needs, and its premises. */
static uint8_t
entry_needs(struct rd r, uint32_t fields, struct span *premises)
{
	uint8_t needs = 1;

	*premises = SPAN_NONE;
	if (fields <= 2)
		return needs;
	mpr_skip(&r);
	needs = (uint8_t)mpr_uint(&r, UINT8_MAX);
	if (fields > 3 && !mpr_nil(&r))
		*premises = mpr_value(&r);
	return needs;
}

void
apply_op(struct apply *p, struct span payload)
{
	struct rd r = rd_span_over(payload);
	struct fsm *f = p->f;
	const struct fsm_op *op;
	const struct op *desc;
	uint32_t fields = mpr_array(&r);
	uint16_t code = (uint16_t)mpr_uint(&r, UINT16_MAX);
	struct span premises;
	uint8_t needs = entry_needs(r, fields, &premises);
	void *args;

	if (fields < 2 || r.err != TV_OK) {
		apply_fail(p, TV_EFORMAT, "malformed entry");
		return;
	}
	op = fsm_op_find(code);
	desc = op_find(code);
	if (op == NULL || op->apply == NULL || desc == NULL || needs > f->opt.version) {
		beyond_us(f, code, needs);
		return;
	}
	p->needs = needs;
	if (needs > f->needs)
		f->needs = needs;
	args = arena_alloc(&f->work, desc->args->size);
	if (args == NULL || schema_unpack(desc->args, &r, &f->work, args) == TV_ENOMEM) {
		f->failed = ENOMEM;		/* ours alone: the others may well apply it */
		return;
	}
	for (uint32_t i = 2; i < fields && r.err == TV_OK; i++)
		mpr_skip(&r);
	if (rd_end(&r) != TV_OK) {
		apply_fail(p, TV_EFORMAT, "malformed arguments of %s", desc->name);
		return;
	}
	if (premises.len == 0 || premises_hold(p, premises))
		op->apply(p, args);
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
	ret = tbl_end(f);
	if (ret == 0)
		head_publish(f);		/* reads only what seldom changes */
	return ret != 0 ? ret : f->failed;
}

/* Those who wait for the end of a batch come first. */
static void
apply_lock(struct fsm *f)
{
	pthread_mutex_lock(&f->door);
	pthread_mutex_unlock(&f->door);
	pthread_mutex_lock(&f->lock);
}

enum tv_err
fsm_apply_batch(struct fsm *f, const struct raft_entry *entries, uint32_t count, struct arena *a,
    struct fsm_result *results, struct fsm_touches *t)
{
	bool alone = false;
	uint64_t reads;
	int ret;

	if (count == 0)
		return TV_OK;
	if (entries[0].index != f->applied + 1)
		return TV_EINVAL;
	warm_batch(f, entries, count);
	for (uint32_t i = 0; i < count && !alone; i++)
		alone = kv_is_large_tree(f, &entries[i]);
	views_wait(f, alone);
	apply_lock(f);
	f->touches = t;
	reads = store_page_reads();
	ret = apply_all(f, entries, count, a, results);
	warm_batch_read(f, store_page_reads() - reads);
	f->touches = &f->own_touches;
	if (ret != 0)
		f->failed = ret;		/* before a checkpoint takes what was not committed for applied */
	pthread_mutex_unlock(&f->lock);
	if (alone)
		views_admit(f);
	if (ret != 0) {
		enum tv_err err;

		if (f->beyond.index != 0)
			return TV_EINVAL;
		err = store_env_err(f->env, ret);
		return err == TV_ECORRUPT || err == TV_ENOSPACE ? err : TV_ESYS;
	}
	return TV_OK;
}

enum tv_err
fsm_apply(struct fsm *f, const struct raft_entry *entries, uint32_t count, struct arena *a, struct fsm_result *results)
{
	enum tv_err err = fsm_apply_batch(f, entries, count, a, results, &f->own_touches);

	if (err == TV_OK && count > 0)
		fsm_fire(f, &f->own_touches);
	return err;
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
	enum tv_err err = TV_OK;
	void *rec;
	size_t before = a->used;

	*error_text = SPAN_NONE;
	if (op == NULL || op->apply == NULL || desc == NULL)
		return prepare_fail(&p, "unknown operation %u", (unsigned)code);
	rec = arena_alloc(a, desc->args->size);
	if (rec == NULL || schema_unpack(desc->args, &r, a, rec) != TV_OK || rd_end(&r) != TV_OK)
		return prepare_fail(&p, "malformed arguments of %s", desc->name);
	/* Whoever reads back what is stored has a bound too, and would have to stop. */
	if (a->used - before > FSM_DECODED_MAX)
		return prepare_fail(&p, "too many parts in the arguments of %s", desc->name);
	if (op->prepare != NULL)
		err = op->prepare(&p, rec);
	if (err != TV_OK)
		return err;
	schema_pack(desc->args, rec, b);
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

/* What went wrong while reading. */
static void
judge_failure(struct reading *r)
{
	struct fsm *f = r->f;
	int ret = f->failed;

	if (f->owner != NULL && reader_may_retry(ret)) {
		read_fail(r, TV_EAGAIN, "not in the cache");
		reader_renew(f);
	} else if (ret != 0) {
		read_fail(r, store_env_err(f->env, ret), "the state cannot be read");
	}
}

static void
look_up(struct reading *r, const struct fsm_op *row, const void *rec)
{
	if (!row->one)
		view_need(r->f);
	if (r->f->failed == 0)
		row->read(r, rec);
}

void
fsm_read_ended(struct reading *r, size_t at)
{
	struct fsm *f = r->f;
	struct fsm_answer *ans = r->ans;

	/* Not by a restore either does an index go back: what was restored counts as changed then (S104). */
	if (ans->index < f->restored[FR_FLOOR])
		ans->index = f->restored[FR_FLOOR];
	if (ans->index == 0)
		ans->index = 1;
	if (f->failed != 0)
		judge_failure(r);
	else if (r->out->failed && ans->err == TV_OK)
		read_fail(r, TV_ELIMIT, "the answer is too large");
	if (ans->err != TV_OK && r->out->len > at)
		r->out->len = at;
}

void
fsm_read_with(struct reading *r, const struct op *op, struct span args)
{
	const struct fsm_op *row = fsm_op_find(op->code);
	struct rd in = rd_span_over(args);
	size_t at = r->out->len;
	void *rec = arena_alloc(r->a, op->args->size);

	if (row == NULL || row->read == NULL)
		read_fail(r, TV_EINVAL, "unknown read %u", (unsigned)op->code);
	else if (rec == NULL || schema_unpack(op->args, &in, r->a, rec) != TV_OK || rd_end(&in) != TV_OK)
		read_fail(r, TV_EFORMAT, "malformed arguments of %s", op->name);
	else if (may_ask(r, op, rec))
		look_up(r, row, rec);
	fsm_read_ended(r, at);
}

void
fsm_read(struct fsm *f, const struct op *op, struct span args, struct arena *a, struct buf *out, struct fsm_answer *ans)
{
	struct reading r = { .f = f, .a = a, .out = out, .ans = ans };

	*ans = (struct fsm_answer){ .err = TV_OK, .index = 1 };
	fsm_read_with(&r, op, args);
}

enum tv_err
fsm_read_err(const struct fsm *f)
{
	return f->failed == 0 ? TV_OK : store_env_err(f->env, f->failed);
}

/* -- watching -- */

struct fsm_watch *
fsm_watch(struct fsm *f, const struct op *op, struct span args, fsm_watch_fn *fn, void *ctx)
{
	const struct watch_row *row = watch_row_of(op);
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct rd in = rd_span_over(args);
	struct fsm_watch *w = NULL;
	struct span what;
	uint64_t tables;
	void *rec = arena_alloc(&a, op->args->size);

	if (row->kind != WK_NOTHING && rec != NULL && schema_unpack(op->args, &in, &a, rec) == TV_OK &&
	    watch_subject(row, rec, &a, &what, &tables))
		w = watches_add(f->watches, row->kind, what, tables, fn, ctx);
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
fsm_watch_count(const struct fsm *f)
{
	return watches_count(f->watches);
}
