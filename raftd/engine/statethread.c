/*
 * The threads of the state.  Four lanes: one thread that applies; one (or, with many processors, some) that reads what is in the
 * cache; a few that read what is not; a few for lists and calls.  What they have done waits under the mutex for the loop.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/net/frame.h"
#include "raftd/engine/statethread.h"

#define BATCH_BYTES_MAX (1u << 20)	/* of entries in one transaction */
#define READ_TAKE 32			/* by a fast thread at a time: they share one look at what is published */
#define READS_MAX 256			/* short ones under way; what they find is at most a value each */
#define LISTS_MAX 3			/* each may be as large as an answer may be */
#define SLOW_THREADS 8
#define LIST_THREADS 4
#define SPARES_MAX 256
#define READER_ARENA_MAX (256u << 20)
#define BUF_KEEP (256u << 10)

enum kind { KIND_BATCH, KIND_READ, KIND_CALL };

struct call {
	struct lane_job job;
	uint8_t kind;
	void (*work)(struct fsm *f, void *ctx);
	void (*done)(void *ctx), (*given_up)(void *ctx);
	void *ctx;
};

/* What a thread that reads works with. */
struct reader {
	struct fsm *fsm;
	struct arena arena;
	struct buf buf;
};

struct statethread {
	struct ev_loop *loop;
	ev_async async;
	struct fsm *f;
	struct log_store *log;
	const struct state_events *events;
	void *ctx;
	struct lane apply, fast, slow, lists;
	bool stopped;

	/* the loop's */
	struct state_batch batches[STATE_BATCHES], *free_batches;
	unsigned applying, quiet, reading, listing;	/* quiet: of those that are being applied */
	struct lane_jobs asked;		/* short reads, to be handed over */
	struct state_read *spares;
	unsigned spare_count;
	uint64_t batch_count, read_count, list_count;
	_Atomic uint64_t refused;	/* since the start: reads that the fast lane left to the slow one */

	pthread_mutex_t mutex;
	struct lane_jobs finished;	/* in the order in which they ended */
	bool told;			/* the loop has yet to look at some of them */
	bool awaited;			/* quiet ones are to be told, too */
};

/* Each job begins with a lane_job and its kind, but for what is public before them. */
struct head {
	struct lane_job job;
	uint8_t kind;
};

static enum kind
kind_of(const struct lane_job *j)
{
	return (enum kind)((const struct head *)(const void *)j)->kind;
}

#define OF(type, j) ((type *)(void *)((char *)(j) - offsetof(type, job)))

_Static_assert(offsetof(struct state_batch, kind) - offsetof(struct state_batch, job) == offsetof(struct head, kind), "head");
_Static_assert(offsetof(struct state_read, kind) - offsetof(struct state_read, job) == offsetof(struct head, kind), "head");
_Static_assert(offsetof(struct call, kind) - offsetof(struct call, job) == offsetof(struct head, kind), "head");

/* Any thread. */
static void
hand_back(struct statethread *s, struct lane_jobs *some, bool quiet)
{
	bool tell;

	if (STAILQ_EMPTY(some))
		return;
	pthread_mutex_lock(&s->mutex);
	STAILQ_CONCAT(&s->finished, some);
	tell = !s->told && (!quiet || s->awaited);
	s->told |= tell;
	pthread_mutex_unlock(&s->mutex);
	if (tell)
		ev_async_send(s->loop, &s->async);
}

/* -- the thread that applies -- */

static bool
read_entries(struct statethread *s, struct state_batch *b)
{
	struct raft_entry *read;
	uint32_t got = 0;

	arena_reset(&b->read);
	b->err = log_read(s->log, b->first, b->first + b->count - 1, BATCH_BYTES_MAX, &b->read, &read, &got);
	b->sys = errno;
	if (b->err == TV_OK && got == 0)
		b->err = TV_ECORRUPT;	/* what is committed and not applied is in the log */
	b->unread = b->err != TV_OK;
	if (b->unread)
		return false;
	b->count = got < b->count ? got : b->count;
	memcpy(b->entries, read, b->count * sizeof(*read));
	return true;
}

/* How many of these may go into one transaction. */
static uint32_t
fitting(const struct raft_entry *entries, uint32_t count)
{
	uint64_t work = 0;

	for (uint32_t i = 0; i < count; i++) {
		work += fsm_entry_work(&entries[i]);
		if (work > BATCH_BYTES_MAX && i > 0)
			return i;
	}
	return count;
}

/* Entries before the first that replaces the state. */
static uint32_t
before_restore(struct state_batch *b, uint32_t count)
{
	for (uint32_t i = b->plain ? 1 : 0; i < count; i++)
		if (fsm_is_restore(&b->entries[i], b->restore_id))
			return i;
	return count;
}

static void
run_batch(struct statethread *s, struct state_batch *b)
{
	uint32_t n;

	if (b->first != fsm_applied(s->f) + 1 || (b->from_log && !read_entries(s, b)))
		return;
	n = before_restore(b, fitting(b->entries, b->count));
	b->restore = n == 0;
	if (n == 0)
		return;
	arena_reset(&b->arena);
	b->err = fsm_apply_batch(s->f, b->entries, n, &b->arena, b->wanted ? b->results : NULL, b->touches);
	if (b->err == TV_OK)
		b->applied = n;
}

static void
apply_run(void *ctx, void *self UNUSED, struct lane_jobs *some)
{
	struct statethread *s = ctx;
	struct lane_job *j = STAILQ_FIRST(some);	/* one at a time */
	bool quiet = false;

	if (kind_of(j) == KIND_BATCH) {
		struct state_batch *b = OF(struct state_batch, j);

		run_batch(s, b);
		quiet = b->quiet && b->err == TV_OK && !b->restore;
	} else
		OF(struct call, j)->work(s->f, OF(struct call, j)->ctx);
	hand_back(s, some, quiet);
}

static void *
apply_begin(void *ctx)
{
	return ctx;
}

static void
apply_end(void *ctx UNUSED, void *self UNUSED)
{
}

/* -- threads that read -- */

static void *
reader_begin(void *ctx)
{
	struct statethread *s = ctx;
	struct reader *x = malloc(sizeof(*x));

	if (x == NULL)
		return NULL;
	*x = (struct reader){ .fsm = fsm_reader(s->f), .arena = ARENA_INIT(READER_ARENA_MAX) };
	buf_init(&x->buf, FRAME_BODY_BYTES_MAX);
	if (x->fsm == NULL) {
		free(x);
		return NULL;
	}
	return x;
}

static void
reader_end(void *ctx UNUSED, void *self)
{
	struct reader *x = self;

	fsm_reader_free(x->fsm);
	arena_done(&x->arena);
	buf_done(&x->buf);
	free(x);
}

/* The answer becomes the read's own: copied, or with the memory that it is in. */
static void
keep_answer(struct state_read *r, struct reader *x)
{
	struct span *what = r->answer.err == TV_OK ? &r->value : &r->answer.text;
	struct span from = r->answer.err == TV_OK ? buf_span(&x->buf) : r->answer.text;

	r->value = SPAN_NONE;
	if (from.len <= sizeof(r->small)) {
		if (from.len > 0)
			memcpy(r->small, from.p, from.len);
		*what = span_of(r->small, from.len);
		return;
	}
	if (r->answer.err != TV_OK) {	/* a long sentence */
		buf_reset(&x->buf);
		buf_putspan(&x->buf, from);
	}
	r->large = x->buf;
	buf_init(&x->buf, r->large.max);
	*what = buf_span(&r->large);
}

static void
read_one(struct reader *x, struct state_read *r)
{
	if (x->buf.cap > BUF_KEEP)
		buf_done(&x->buf);
	buf_reset(&x->buf);
	arena_reset(&x->arena);
	r->applied = fsm_applied(x->fsm);
	r->replaced = fsm_replaced(x->fsm);
	fsm_rights_free(r->rights);		/* of an attempt before */
	r->rights = NULL;
	if (r->way == READ_OWN)
		fsm_read(x->fsm, r->op, r->args, &x->arena, &x->buf, &r->answer);
	else if (r->way == READ_FOR)
		fsm_read_as(x->fsm, r->op, r->args, r->token, &x->arena, &x->buf, &r->answer, &r->rights);
	else
		fsm_judge(x->fsm, r->op, r->args, r->token, &x->arena, &x->buf, &r->answer, &r->rights);
	if (r->answer.err == TV_OK && x->buf.failed) {
		r->answer.err = TV_ELIMIT;
		r->answer.text = span_str("the answer is too large; ask for less");
	}
}

static void
fast_run(void *ctx, void *self, struct lane_jobs *some)
{
	struct statethread *s = ctx;
	struct reader *x = self;
	struct lane_jobs done = STAILQ_HEAD_INITIALIZER(done), refused = STAILQ_HEAD_INITIALIZER(refused);
	struct lane_job *j;

	fsm_read_begin(x->fsm, true);
	while ((j = STAILQ_FIRST(some)) != NULL) {
		struct state_read *r = OF(struct state_read, j);

		STAILQ_REMOVE_HEAD(some, link);
		read_one(x, r);
		if (r->answer.err == TV_EAGAIN) {
			s->refused++;
			STAILQ_INSERT_TAIL(&refused, j, link);
			continue;
		}
		keep_answer(r, x);
		STAILQ_INSERT_TAIL(&done, j, link);
	}
	fsm_read_end(x->fsm);
	hand_back(s, &done, false);
	lane_push(&s->slow, &refused);
}

static void
waiting_run(void *ctx, void *self, struct lane_jobs *some)
{
	struct reader *x = self;
	struct lane_job *j;

	STAILQ_FOREACH(j, some, link) {
		struct state_read *r = OF(struct state_read, j);

		if (kind_of(j) == KIND_CALL) {
			struct call *c = OF(struct call, j);

			fsm_read_begin(x->fsm, false);
			c->work(x->fsm, c->ctx);
			fsm_read_end(x->fsm);
			continue;
		}
		if (r->dropped)
			continue;	/* before it was begun */
		do {			/* again: the state was replaced meanwhile */
			fsm_read_begin(x->fsm, false);
			fsm_read_until(x->fsm, &r->dropped);
			read_one(x, r);
			fsm_read_end(x->fsm);
		} while (r->answer.err == TV_EAGAIN && !r->dropped);
		keep_answer(r, x);
	}
	hand_back(ctx, some, false);
}

static const struct lane_ops apply_ops = { apply_begin, apply_end, apply_run };
static const struct lane_ops fast_ops = { reader_begin, reader_end, fast_run };
static const struct lane_ops waiting_ops = { reader_begin, reader_end, waiting_run };

/* -- what ended, on the loop -- */

static void
read_recycle(struct statethread *s, struct state_read *r)
{
	buf_done(&r->large);
	fsm_rights_free(r->rights);
	if (r->token.len > 0)
		explicit_bzero((void *)(uintptr_t)r->token.p, r->token.len);
	if (r->args.p != r->short_args)
		free((void *)(uintptr_t)r->args.p);
	if (s->stopped || s->spare_count >= SPARES_MAX) {
		free(r);
		return;
	}
	r->next = s->spares;
	s->spares = r;
	s->spare_count++;
}

static void
read_ended(struct statethread *s, struct state_read *r)
{
	if (r->list)
		s->listing--;
	else
		s->reading--;
	r->ended = true;
	if (r->dropped)
		read_recycle(s, r);
	else if (!s->stopped)
		r->done(r, r->ctx);
}

static void
job_ended(struct statethread *s, struct lane_job *j)
{
	struct state_batch *b;
	struct call *c;

	switch (kind_of(j)) {
	case KIND_READ:
		read_ended(s, OF(struct state_read, j));
		break;
	case KIND_BATCH:
		b = OF(struct state_batch, j);
		s->applying--;
		s->quiet -= b->quiet;
		s->batch_count++;
		if (!s->stopped)
			s->events->applied(s->ctx, b);
		break;
	case KIND_CALL:
		c = OF(struct call, j);
		if (!s->stopped)
			c->done(c->ctx);
		else if (c->given_up != NULL)
			c->given_up(c->ctx);
		free(c);
		break;
	}
}

static void
collect(struct statethread *s)
{
	struct lane_jobs some = STAILQ_HEAD_INITIALIZER(some);
	struct lane_job *j;

	pthread_mutex_lock(&s->mutex);
	STAILQ_CONCAT(&some, &s->finished);
	s->told = false;
	pthread_mutex_unlock(&s->mutex);
	while ((j = STAILQ_FIRST(&some)) != NULL) {
		STAILQ_REMOVE_HEAD(&some, link);
		job_ended(s, j);
	}
}

static void
on_async(struct ev_loop *loop UNUSED, ev_async *w, int revents UNUSED)
{
	collect(w->data);
}

/* -- applying -- */

struct state_batch *
statethread_batch(struct statethread *s)
{
	struct state_batch *b = s->free_batches;

	if (b == NULL || s->stopped)
		return NULL;
	s->free_batches = b->next;
	b->count = b->applied = 0;
	b->from_log = b->wanted = b->plain = b->quiet = b->restore = b->unread = false;
	b->err = TV_OK;
	return b;
}

void
statethread_batch_done(struct statethread *s, struct state_batch *b)
{
	b->next = s->free_batches;
	s->free_batches = b;
}

void
statethread_apply(struct statethread *s, struct state_batch *b)
{
	b->kind = KIND_BATCH;
	s->applying++;
	s->quiet += b->quiet;
	lane_push_one(&s->apply, &b->job);
}

unsigned
statethread_applying(const struct statethread *s)
{
	return s->applying;
}

void
statethread_collect(struct statethread *s)
{
	if (s->quiet > 0)
		collect(s);
}

/* -- reading -- */

bool
statethread_may_read(const struct statethread *s, const struct op *op)
{
	return op->traits & OP_SHORT ? s->reading < READS_MAX : s->listing < LISTS_MAX;
}

static struct state_read *
read_new(struct statethread *s)
{
	struct state_read *r = s->spares;

	if (r == NULL)
		return malloc(sizeof(*r));
	s->spares = r->next;
	s->spare_count--;
	return r;
}

static bool
keep_args(struct state_read *r, struct span args, struct span token)
{
	size_t len = args.len + token.len;
	uint8_t *copy = len > sizeof(r->short_args) ? malloc(len) : r->short_args;

	if (copy == NULL)
		return false;
	if (args.len > 0)
		memcpy(copy, args.p, args.len);
	if (token.len > 0)
		memcpy(copy + args.len, token.p, token.len);
	r->args = span_of(copy, args.len);
	r->token = span_of(copy + args.len, token.len);
	return true;
}

static struct state_read *
read_queue(struct statethread *s, int way, const struct op *op, struct span args, struct span token, state_read_done *done, void *ctx)
{
	struct state_read *r = s->stopped || s->f == NULL ? NULL : read_new(s);

	if (r == NULL)
		return NULL;
	memset(r, 0, offsetof(struct state_read, short_args));
	buf_init(&r->large, FRAME_BODY_BYTES_MAX);
	r->kind = KIND_READ;
	r->op = op;
	r->done = done;
	r->ctx = ctx;
	r->way = way;
	r->list = way != READ_JUDGE && ((op->traits & OP_SHORT) == 0 || !fsm_is_at_hand(s->f, op));
	if (!keep_args(r, args, token)) {
		free(r);
		return NULL;
	}
	if (r->list) {
		s->listing++;
		s->list_count++;
		lane_push_one(&s->lists, &r->job);
	} else {
		s->reading++;
		s->read_count++;
		STAILQ_INSERT_TAIL(&s->asked, &r->job, link);
	}
	return r;
}

struct state_read *
statethread_read(struct statethread *s, const struct op *op, struct span args, struct span token, state_read_done *done, void *ctx)
{
	return read_queue(s, READ_FOR, op, args, token, done, ctx);
}

struct state_read *
statethread_look(struct statethread *s, const struct op *op, struct span args, state_read_done *done, void *ctx)
{
	return read_queue(s, READ_OWN, op, args, SPAN_NONE, done, ctx);
}

struct state_read *
statethread_judge(struct statethread *s, const struct op *op, struct span args, struct span token, state_read_done *done, void *ctx)
{
	return read_queue(s, READ_JUDGE, op, args, token, done, ctx);
}

void
statethread_drop(struct statethread *s, struct state_read *r)
{
	if (r == NULL)
		return;
	if (r->ended)
		read_recycle(s, r);
	else
		r->dropped = true;
}

void
statethread_flush(struct statethread *s, bool awaited)
{
	bool tell;

	if (!STAILQ_EMPTY(&s->asked))
		lane_push(&s->fast, &s->asked);
	if (s->quiet == 0)
		return;
	pthread_mutex_lock(&s->mutex);
	s->awaited = awaited;
	tell = awaited && !s->told && !STAILQ_EMPTY(&s->finished);
	s->told |= tell;
	pthread_mutex_unlock(&s->mutex);
	if (tell)
		ev_async_send(s->loop, &s->async);
}

/* -- other work -- */

static enum tv_err
add_call(struct statethread *s, struct lane *lane, void (*work)(struct fsm *f, void *ctx), void (*done)(void *ctx),
    void (*given_up)(void *ctx), void *ctx)
{
	struct call *c;

	if (s->f == NULL)
		return TV_EAGAIN;
	c = s->stopped ? NULL : malloc(sizeof(*c));
	if (c == NULL)
		return s->stopped ? TV_ESYS : TV_ENOMEM;
	*c = (struct call){ .kind = KIND_CALL, .work = work, .done = done, .given_up = given_up, .ctx = ctx };
	lane_push_one(lane, &c->job);
	return TV_OK;
}

enum tv_err
statethread_call(struct statethread *s, void (*work)(struct fsm *reader, void *ctx), void (*done)(void *ctx), void *ctx)
{
	return add_call(s, &s->lists, work, done, NULL, ctx);
}

enum tv_err
statethread_call_or(struct statethread *s, void (*work)(struct fsm *reader, void *ctx), void (*done)(void *ctx),
    void (*given_up)(void *ctx), void *ctx)
{
	return add_call(s, &s->lists, work, done, given_up, ctx);
}

enum tv_err
statethread_between(struct statethread *s, void (*work)(struct fsm *f, void *ctx), void (*done)(void *ctx), void *ctx)
{
	return add_call(s, &s->apply, work, done, NULL, ctx);
}

void
statethread_info(const struct statethread *s, figure_fn *fn, void *ctx)
{
	FIGURES_PUT(fn, ctx,
	    { "state_batches", s->batch_count }, { "state_lists", s->list_count }, { "state_reads", s->read_count },
	    { "state_reads_slow", s->refused }, { "state_waiting", s->applying + s->reading + s->listing });
}

/* -- life -- */

/* What a batch may need at most: a mapping, of which a server with little to do touches one page. */
static void *
table_new(size_t size)
{
	void *p = mmap(NULL, STATE_BATCH_ENTRIES * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void
table_free(void *p, size_t size)
{
	if (p != NULL)
		(void)munmap(p, STATE_BATCH_ENTRIES * size);
}

static enum tv_err
batches_new(struct statethread *s)
{
	for (unsigned i = 0; i < STATE_BATCHES; i++) {
		struct state_batch *b = &s->batches[i];

		b->entries = table_new(sizeof(*b->entries));
		b->results = table_new(sizeof(*b->results));
		b->arena = ARENA_INIT(256u << 20);
		b->read = ARENA_INIT(64u << 20);
		b->touches = fsm_touches_new();
		if (b->entries == NULL || b->results == NULL || b->touches == NULL)
			return TV_ENOMEM;
		statethread_batch_done(s, b);
	}
	return TV_OK;
}

static enum tv_err
lanes_start(struct statethread *s)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned fast = cpus >= 8 ? 4 : cpus >= 4 ? 2 : 1;
	enum tv_err err = lane_start(&s->apply, "apply", 1, 1, &apply_ops, s);

	if (err == TV_OK)
		err = lane_start(&s->fast, "read", fast, READ_TAKE, &fast_ops, s);
	if (err == TV_OK)
		err = lane_start(&s->slow, "read-disk", SLOW_THREADS, 1, &waiting_ops, s);
	if (err == TV_OK)
		err = lane_start(&s->lists, "read-list", LIST_THREADS, 1, &waiting_ops, s);
	return err;
}

struct statethread *
statethread_new(struct ev_loop *loop)
{
	struct statethread *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->loop = loop;
	STAILQ_INIT(&s->asked);
	STAILQ_INIT(&s->finished);
	pthread_mutex_init(&s->mutex, NULL);
	ev_async_init(&s->async, on_async);
	s->async.data = s;
	ev_async_start(loop, &s->async);
	if (batches_new(s) == TV_OK)
		return s;
	statethread_stop(s);
	statethread_free(s);
	return NULL;
}

enum tv_err
statethread_open(struct statethread *s, struct fsm *f, struct log_store *log)
{
	s->f = f;
	s->log = log;
	return lanes_start(s);
}

void
statethread_events(struct statethread *s, const struct state_events *events, void *ctx)
{
	s->events = events;
	s->ctx = ctx;
}

static void
stop_lane(struct statethread *s, struct lane *l)
{
	struct lane_jobs left;

	lane_stop(l, &left);
	hand_back(s, &left, false);
}

void
statethread_stop(struct statethread *s)
{
	if (s == NULL)
		return;
	s->stopped = true;
	stop_lane(s, &s->fast);		/* which gives to the next */
	stop_lane(s, &s->slow);
	stop_lane(s, &s->lists);
	stop_lane(s, &s->apply);
	hand_back(s, &s->asked, false);
	collect(s);
	ev_async_stop(s->loop, &s->async);
}

void
statethread_free(struct statethread *s)
{
	if (s == NULL)
		return;
	while (s->spares != NULL) {
		struct state_read *r = s->spares;

		s->spares = r->next;
		free(r);
	}
	for (unsigned i = 0; i < STATE_BATCHES; i++) {
		struct state_batch *b = &s->batches[i];

		table_free(b->entries, sizeof(*b->entries));
		table_free(b->results, sizeof(*b->results));
		arena_done(&b->arena);
		arena_done(&b->read);
		fsm_touches_free(b->touches);
	}
	pthread_mutex_destroy(&s->mutex);
	free(s);
}
