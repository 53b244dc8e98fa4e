/* The log store: writes with cuts, compaction, replacement, identity, against a plain model. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "raftd/store/store.h"
#include "tests/sim/store_run.h"

#define DIR_NAME MEMFS_ROOT "a/log"
#define HISTORY_MAX 80
#define DEPTH_MAX 4
#define BATCH_MAX 8
#define ULL(x) ((unsigned long long)(x))

struct model_entry {
	uint64_t term;
	uint32_t size;
};

struct log_model {			/* what a log store holds */
	char store_id[37];		/* "": not known yet */
	char cluster_id[37];
	uint64_t generation, term, vote;
	uint64_t cut, snapshot_index, snapshot_term, config_tag;
	uint64_t first, last;
	struct model_entry *e;		/* owned; of first..last */
};

struct log_life {
	struct run *r;
	struct log_model h[HISTORY_MAX];
	unsigned n;			/* positions 0..n-1 are there */
	struct log_options opt;
	struct log_store *s;
	char store_id[37];		/* of the last open */
	struct future next;		/* start of the next life; fs NULL: none yet */
	unsigned long checked;
};

/* -- the model */

static void
model_copy(struct log_model *to, const struct log_model *from)
{
	size_t count = from->last != 0 ? (size_t)(from->last - from->first + 1) : 0;

	*to = *from;
	to->e = calloc(count + 1, sizeof(to->e[0]));
	TV_ASSERT(to->e != NULL);
	if (count > 0)
		memcpy(to->e, from->e, count * sizeof(to->e[0]));
}

static void
model_truncate(struct log_model *m, uint64_t from)
{
	if (m->last == 0 || from > m->last)
		return;
	m->last = from - 1;
	if (m->last < m->first)
		m->first = m->last = 0;
}

static void
model_cut(struct log_model *m, uint64_t index)
{
	if (index > m->cut)
		m->cut = index;
	if (m->last <= m->cut) {
		m->first = m->last = 0;
	} else if (m->first <= m->cut) {
		uint64_t gone = m->cut + 1 - m->first;

		memmove(m->e, m->e + gone, (size_t)(m->last - m->cut) * sizeof(m->e[0]));
		m->first = m->cut + 1;
	}
}

static void
model_append(struct log_model *m, const struct raft_entry *e, uint32_t count)
{
	size_t have = m->last != 0 ? (size_t)(m->last - m->first + 1) : 0;

	m->e = realloc(m->e, (have + count + 1) * sizeof(m->e[0]));
	TV_ASSERT(m->e != NULL);
	for (uint32_t i = 0; i < count; i++)
		m->e[have + i] = (struct model_entry){ e[i].term, e[i].size };
	if (count == 0)
		return;
	if (m->last == 0)
		m->first = e[0].index;
	m->last = e[count - 1].index;
}

static uint8_t
pattern(uint64_t index, uint64_t term, uint32_t i)
{
	return (uint8_t)((index * 0x9e3779b97f4a7c15u + term * 0xbf58476d1ce4e5b9u + i) * 0x94d049bb133111ebu >> 56);
}

static struct raft_config
config_of(uint64_t tag)
{
	struct raft_config c = { .index = tag, .count = 1 };

	c.servers[0] = (struct raft_server_conf){ .id = tag, .uuid = "u", .store_id = "s", .name = "n", .voter = true };
	snprintf(c.servers[0].addr, sizeof(c.servers[0].addr), "127.0.0.1:%llu", ULL(tag));
	return c;
}

/* -- comparing */

struct seen {
	const struct log_model *m;
	uint64_t next;
	bool differs;
};

static enum tv_err
see(void *ctx, const struct raft_entry *e)
{
	struct seen *v = ctx;
	const struct model_entry *want;

	if (e->index != v->next || v->m->last == 0 || e->index > v->m->last) {
		v->differs = true;
		return TV_EOF;
	}
	want = &v->m->e[e->index - v->m->first];
	v->differs = e->term != want->term || e->size != want->size;
	for (uint32_t i = 0; i < e->size && !v->differs; i++)
		v->differs = e->payload[i] != pattern(e->index, e->term, i);
	v->next++;
	return v->differs ? TV_EOF : TV_OK;
}

/* Text of the first difference, or NULL. */
static const char *
difference(struct log_store *s, const struct log_meta *m, const struct log_model *want)
{
	struct seen v = { .m = want, .next = want->first };

	if (want->store_id[0] != '\0' && strcmp(m->store_id, want->store_id) != 0)
		return "store id";
	if (strcmp(m->cluster_id, want->cluster_id) != 0 || m->generation != want->generation)
		return "cluster";
	if (m->term != want->term || m->vote != want->vote)
		return "term and vote";
	if (m->snapshot_index != want->snapshot_index || m->snapshot_term != want->snapshot_term)
		return "snapshot position";
	if (want->config_tag != 0 && (m->snapshot_config.count != 1 ||
	    m->snapshot_config.servers[0].id != want->config_tag))
		return "configuration";
	if (m->first != want->first || m->last != want->last)
		return "first or last index";
	if (log_each(s, want->first, see, &v) != TV_OK || v.differs || (want->last != 0 && v.next != want->last + 1))
		return "entries";
	return NULL;
}

/* The position that was found among those allowed; a failure when there is none. */
static uint64_t
find_position(struct log_life *l, const struct log_meta *m, const char *where)
{
	struct run *r = l->r;
	const char *why = "";

	for (uint64_t at = r->now.high + 1; at-- > r->now.low;) {
		why = difference(l->s, m, &l->h[at]);
		if (why == NULL)
			return at;
	}
	run_fail(r, "log, %s: found term %llu vote %llu, %llu..%llu, snapshot %llu: differs from step %llu (%s) and those after it "
	    "up to %llu (which has term %llu vote %llu, %llu..%llu, snapshot %llu)", where, ULL(m->term), ULL(m->vote),
	    ULL(m->first), ULL(m->last), ULL(m->snapshot_index), ULL(r->now.low), why, ULL(r->now.high),
	    ULL(l->h[r->now.high].term), ULL(l->h[r->now.high].vote), ULL(l->h[r->now.high].first),
	    ULL(l->h[r->now.high].last), ULL(l->h[r->now.high].snapshot_index));
	return r->now.high;
}

/* -- opening */

static void
choose_options(struct log_life *l)
{
	static const uint32_t files[] = { 8192, 16384, 65536 };	/* some batches are larger */
	struct run *r = l->r;

	l->opt = (struct log_options){ .dir = DIR_NAME, .log_buffer_bytes = 2048, .no_thread = true };
	l->opt.log_file_bytes = files[run_below(r, 3)];
	l->opt.spares = run_chance(r, 0.5);
}

/* Opens what is mounted and finds out where in the history it is.  False: refused, or wrong. */
static bool
open_store(struct log_life *l, const char *where, uint64_t *at)
{
	struct log_meta m;
	char why[512];
	struct run *r = l->r;
	enum tv_err err = log_open(&l->opt, &l->s, &m, why, sizeof(why));

	if (err != TV_OK) {
		l->s = NULL;
		if (r->faulted)
			return false;
		run_fail(r, "log, %s: refused: %s", where, why);
		return false;
	}
	*at = find_position(l, &m, where);
	r->now = (struct expect){ *at, *at };
	memcpy(l->store_id, m.store_id, sizeof(l->store_id));
	return !r->failed;
}

static void
close_store(struct log_life *l)
{
	log_close(l->s);
	l->s = NULL;
}

/* -- one step */

struct step {
	struct log_batch batch;
	struct raft_entry e[BATCH_MAX];
	enum { WRITE, COMPACT, RESET, CLUSTER } kind;
	uint64_t index, snapshot_index, snapshot_term;
	struct raft_config config;
	char cluster_id[37];
	uint64_t generation;
};

static uint32_t
some_size(struct run *r)
{
	switch (run_below(r, 8)) {
	case 0:
		return 0;
	case 1:
		return (uint32_t)run_below(r, 9000);
	case 2:
		return (uint32_t)run_below(r, 3000);
	default:
		return (uint32_t)run_below(r, 200);
	}
}

static void
choose_write(struct run *r, struct log_model *m, struct step *st)
{
	struct log_batch *b = &st->batch;
	uint64_t next;

	if (run_chance(r, 0.4)) {
		b->hard_changed = true;
		m->term += run_below(r, 3);
		m->vote = run_below(r, 8);
	}
	if (m->last != 0 && run_chance(r, 0.25)) {
		b->truncate_from = m->last + 1 - run_below(r, run_chance(r, 0.2) ? m->last - m->first + 2 : 4);
		if (b->truncate_from < m->first)
			b->truncate_from = m->first;
		model_truncate(m, b->truncate_from);
	}
	next = (m->last != 0 ? m->last : m->cut) + 1;
	b->count = (uint32_t)run_below(r, BATCH_MAX + 1);
	for (uint32_t i = 0; i < b->count; i++) {
		uint8_t *p;

		st->e[i] = (struct raft_entry){ .index = next + i, .term = m->term, .type = RAFT_ENTRY_OP, .size = some_size(r) };
		st->e[i].payload = p = malloc(st->e[i].size + 1);
		TV_ASSERT(p != NULL);
		for (uint32_t k = 0; k < st->e[i].size; k++)
			p[k] = pattern(next + i, m->term, k);
	}
	b->entries = st->e;
	b->term = m->term;
	b->vote = m->vote;
	model_append(m, st->e, b->count);
}

static void
set_position(struct log_model *m, const struct step *st)
{
	m->snapshot_index = st->snapshot_index;
	m->snapshot_term = st->snapshot_term;
	m->config_tag = st->config.servers[0].id;
}

static void
choose_compact(struct run *r, struct log_model *m, struct step *st)
{
	uint64_t last = m->last != 0 ? m->last : m->cut;

	st->kind = COMPACT;
	st->index = m->cut + run_below(r, last - m->cut + 1);
	st->snapshot_index = st->index + run_below(r, last - st->index + 1);
	st->snapshot_term = m->term;
	st->config = config_of(1 + run_below(r, 1000));
	model_cut(m, st->index);
	set_position(m, st);
}

static void
choose_reset(struct run *r, struct log_model *m, struct step *st)
{
	st->kind = RESET;
	st->snapshot_index = m->cut + run_below(r, 100);
	st->snapshot_term = m->term;
	st->config = config_of(1 + run_below(r, 1000));
	m->first = m->last = 0;
	m->cut = st->snapshot_index;
	set_position(m, st);
}

static void
choose_cluster(struct run *r, struct log_model *m, struct step *st)
{
	st->kind = CLUSTER;
	st->generation = m->generation = m->generation + run_below(r, 2);
	snprintf(st->cluster_id, sizeof(st->cluster_id), "cluster-%llu", ULL(run_below(r, 1000)));
	memcpy(m->cluster_id, st->cluster_id, sizeof(m->cluster_id));
}

/* Draws a step and what the store holds after it. */
static void
choose_step(struct run *r, struct log_model *m, struct step *st)
{
	uint64_t kind = run_below(r, 20);

	memset(st, 0, sizeof(*st));
	if (kind == 0)
		choose_reset(r, m, st);
	else if (kind == 1)
		choose_cluster(r, m, st);
	else if (kind < 5)
		choose_compact(r, m, st);
	else
		choose_write(r, m, st);
}

static enum tv_err
do_step(struct log_store *s, struct step *st)
{
	enum tv_err err = TV_EINVAL;

	switch (st->kind) {
	case WRITE:
		err = log_write(s, &st->batch);
		break;
	case COMPACT:
		err = log_compact(s, st->index, st->snapshot_index, st->snapshot_term, &st->config);
		break;
	case RESET:
		err = log_reset(s, st->snapshot_index, st->snapshot_term, &st->config);
		break;
	case CLUSTER:
		err = log_set_cluster(s, st->cluster_id, st->generation);
		break;
	}
	for (uint32_t i = 0; i < st->batch.count; i++)
		free((void *)(uintptr_t)st->e[i].payload);
	return err;
}

static enum tv_err
make_step(struct log_life *l)
{
	static const char *const names[] = { "write", "compact", "reset", "set cluster" };
	struct run *r = l->r;
	struct step st;
	enum tv_err err;

	model_copy(&l->h[l->n], &l->h[l->n - 1]);
	choose_step(r, &l->h[l->n], &st);
	run_say(r, "  step %u: %s%s, %u entries, cut %llu, snapshot %llu -> %llu..%llu term %llu", l->n, names[st.kind],
	    st.batch.truncate_from != 0 ? " after truncating" : "", st.batch.count, ULL(l->h[l->n].cut),
	    ULL(l->h[l->n].snapshot_index), ULL(l->h[l->n].first), ULL(l->h[l->n].last), ULL(l->h[l->n].term));
	r->now = (struct expect){ l->n - 1, l->n };
	l->n++;
	r->t->steps++;
	err = do_step(l->s, &st);
	if (err == TV_OK)
		r->now.low = r->now.high;
	return err;
}

/* After an error nothing may be acknowledged any more, whatever the disk does (S84, S93, S99). */
static void
after_error(struct log_life *l, enum tv_err err)
{
	struct run *r = l->r;
	struct log_batch hard = { .hard_changed = true, .term = 1u << 30, .vote = 1 };

	if (!r->faulted)
		run_fail(r, "log: a step failed (%s) and the disk had not", tv_strerror(err));
	if (err != TV_ESYS && (err != TV_ENOSPACE || r->fault_errno != ENOSPC))
		run_fail(r, "log: a step that the disk failed gave %s", tv_strerror(err));
	for (unsigned i = 0; i < 3 && !r->failed; i++)
		if (log_write(l->s, &hard) == TV_OK)
			run_fail(r, "log: acknowledged after a failure of the disk");
}

/* -- lives */

static void
plan_fault(struct run *r)
{
	static const int errors[] = { EIO, EIO, ENOSPC };

	if (!run_chance(r, 0.25))
		return;
	r->fault_at = 1 + run_below(r, 120);
	r->fault_more = run_chance(r, 0.5) ? (unsigned)run_below(r, 1000) : 0;
	r->fault_errno = errors[run_below(r, 3)];
}

static void
live(struct log_life *l, unsigned steps)
{
	struct run *r = l->r;
	enum tv_err err = TV_OK;
	uint64_t at;

	r->t->lives++;
	if (!open_store(l, "start of a life", &at))
		return;
	if (l->h[l->n - 1].store_id[0] == '\0') {	/* made just now, and told */
		model_copy(&l->h[l->n], &l->h[l->n - 1]);
		memcpy(l->h[l->n].store_id, l->store_id, sizeof(l->store_id));
		r->now = (struct expect){ l->n, l->n };
		l->n++;
	}
	plan_fault(r);
	for (unsigned i = 0; i < steps && err == TV_OK && !r->failed; i++)
		err = make_step(l);
	if (err != TV_OK)
		after_error(l, err);
	r->fault_at = 0;
	if (run_chance(r, 0.5))
		close_store(l);
}

/* Opens one future; it may be where the next life begins. */
static void
check_future(struct log_life *l, struct future *f)
{
	struct run *r = l->r;
	uint64_t at;

	l->checked++;
	if (run_below(r, l->checked) == 0) {
		memfs_free(l->next.fs);
		l->next = *f;
		l->next.fs = memfs_kill(f->fs);
	}
	run_say(r, "  future: %s, depth %u, allowed %llu..%llu", f->where, f->depth, ULL(f->expect.low), ULL(f->expect.high));
	r->now = f->expect;
	r->depth = f->depth;
	r->split = f->depth < DEPTH_MAX ? 0.05 : 0;
	run_mount(r, f->fs);
	f->fs = NULL;
	if (open_store(l, f->where, &at))
		run_say(r, "    it is step %llu", ULL(at));
	close_store(l);
	run_unmount(r);
}

static void
check_futures(struct log_life *l)
{
	struct run *r = l->r;
	struct future f;

	while (!r->failed && run_pick(r, &f))
		check_future(l, &f);
}

/*
 * Forgets the history but for these positions, which become the first ones.  What a killed program wrote and did not
 * sync is there, and another loss of power can still take it, until the next life has opened it.
 */
static void
rebase(struct log_life *l, uint64_t low, uint64_t at)
{
	for (unsigned i = 0; i < l->n; i++)
		if (i < low || i > at)
			free(l->h[i].e);
	memmove(l->h, l->h + low, (size_t)(at - low + 1) * sizeof(l->h[0]));
	l->n = (unsigned)(at - low + 1);
}

/* The life whose process is still there after its futures were split off. */
static void
end_life(struct log_life *l)
{
	struct run *r = l->r;

	r->split = 0;
	close_store(l);
	run_unmount(r);
	r->split = 1;
}

/* Which position the next life begins at: looked up on a copy. */
static bool
settle(struct log_life *l, uint64_t *at)
{
	struct run *r = l->r;
	bool ok;

	r->now = l->next.expect;
	r->split = 0;
	run_mount(r, memfs_kill(l->next.fs));
	ok = open_store(l, "between lives", at);
	close_store(l);
	run_unmount(r);
	return ok;
}

bool
log_run(struct run *r)
{
	struct log_life *l = calloc(1, sizeof(*l));
	struct memfs *fs = memfs_new(&r->rules, r->seed);
	unsigned lives = 2 + (unsigned)run_below(r, 3);
	uint64_t at = 0;

	TV_ASSERT(l != NULL);
	l->r = r;
	l->n = 1;
	for (unsigned i = 0; i < lives && !r->failed && fs != NULL; i++) {
		run_say(r, "life %u: sector %u, names %d", i, r->rules.sector, (int)r->rules.names);
		choose_options(l);
		r->depth = 0;
		r->split = run_chance(r, 0.5) ? 1 : 0.3;
		r->now = (struct expect){ 0, l->n - 1 };
		run_mount(r, fs);
		live(l, 3 + (unsigned)run_below(r, HISTORY_MAX / 4));
		end_life(l);
		fs = NULL;
		l->checked = 0;
		check_futures(l);
		if (!r->failed && l->next.fs != NULL && settle(l, &at)) {
			rebase(l, l->next.killed ? l->next.expect.low : at, at);
			fs = l->next.fs;
			l->next.fs = NULL;
		}
	}
	memfs_free(fs);
	memfs_free(l->next.fs);
	for (unsigned i = 0; i < l->n; i++)
		free(l->h[i].e);
	free(l);
	return !r->failed;
}
