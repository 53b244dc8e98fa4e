/* Reading the log for followers, see log_reader.h. */
#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "common/proc/jobs.h"
#include "raftd/engine/log_reader.h"

#define ARENA_BYTES_MAX (64u << 20)

/* One read, and what came of it. */
struct piece {
	TAILQ_ENTRY(piece) link;
	struct log_reader *reader;
	struct log_window *window;	/* NULL: its window was freed */
	uint64_t first, last;		/* asked for; then what is there */
	struct arena arena;
	struct raft_entry *entries;
	uint32_t count;
	uint64_t bytes;			/* of payloads */
	enum tv_err err;
	int sys;
};

struct log_window {
	struct log_reader *reader;
	TAILQ_HEAD(piece_list, piece) pieces;	/* each goes on where the one before it ends */
	uint64_t next;			/* behind the last one; 0: empty, and nothing is under way */
	uint64_t last;			/* end of what is worth reading */
	uint64_t bytes;
	struct piece *reading;
	uint64_t failed;		/* what could not be read, and why; 0: nothing */
	enum tv_err err;
	int sys;
};

struct log_reader {
	struct log_store *log;
	struct jobs *jobs;
	size_t bytes_max;
	void (*read)(void *ctx);
	void *ctx;
};

static void
piece_free(struct piece *p)
{
	arena_done(&p->arena);
	free(p);
}

/* -- in the thread -- */

static void
read_work(void *ctx)
{
	struct piece *p = ctx;

	p->err = log_read(p->reader->log, p->first, p->last, p->reader->bytes_max, &p->arena, &p->entries, &p->count);
	p->sys = errno;
	if (p->err == TV_OK && p->count == 0)
		p->err = TV_ENOENT;
	for (uint32_t i = 0; p->err == TV_OK && i < p->count; i++)
		p->bytes += p->entries[i].size;
}

/* -- on the loop -- */

static void read_on(struct log_window *w);

static void
read_done(void *ctx)
{
	struct piece *p = ctx;
	struct log_window *w = p->window;
	struct log_reader *r = p->reader;

	if (w == NULL) {
		piece_free(p);
		return;
	}
	w->reading = NULL;
	if (p->err != TV_OK) {
		w->failed = p->first + p->count;
		w->err = p->err;
		w->sys = p->sys;
		piece_free(p);
	} else {
		p->last = p->first + p->count - 1;
		w->next = p->last + 1;
		w->bytes += p->bytes;
		TAILQ_INSERT_TAIL(&w->pieces, p, link);
		read_on(w);
	}
	if (r->read != NULL)
		r->read(r->ctx);
}

/* Reads the next piece ahead, unless there is enough. */
static void
read_on(struct log_window *w)
{
	struct piece *p;

	if (w->reading != NULL || w->failed != 0 || w->next > w->last || w->bytes >= LOG_READER_BYTES)
		return;
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return;				/* asked again */
	p->reader = w->reader;
	p->window = w;
	p->arena = ARENA_INIT(ARENA_BYTES_MAX);
	p->first = w->next;
	p->last = w->last - w->next < LOG_READER_ENTRIES ? w->last : w->next + LOG_READER_ENTRIES - 1;
	if (jobs_add(w->reader->jobs, read_work, read_done, p) != TV_OK) {
		piece_free(p);
		return;
	}
	w->reading = p;
}

static void
drop_first(struct log_window *w)
{
	struct piece *p = TAILQ_FIRST(&w->pieces);

	TAILQ_REMOVE(&w->pieces, p, link);
	w->bytes -= p->bytes;
	piece_free(p);
}

void
log_window_clear(struct log_window *w)
{
	while (!TAILQ_EMPTY(&w->pieces))
		drop_first(w);
	if (w->reading != NULL)
		w->reading->window = NULL;
	w->reading = NULL;
	w->next = 0;
	w->failed = 0;
}

/* The window begins at `first`, or is about to. */
static void
move_to(struct log_window *w, uint64_t first)
{
	struct piece *p;

	while ((p = TAILQ_FIRST(&w->pieces)) != NULL && p->last < first)
		drop_first(w);
	p = p != NULL ? p : w->reading;
	if (w->next != 0 && (p != NULL ? first >= p->first && first <= p->last : first == w->next))
		return;
	log_window_clear(w);
	w->next = first;
}

/* Takes over what is there from first on, at most count. */
static uint32_t
gather(const struct log_window *w, uint64_t first, uint32_t count, struct raft_entry *out)
{
	uint32_t got = 0;
	const struct piece *p;

	TAILQ_FOREACH(p, &w->pieces, link)
		for (uint64_t i = first + got; got < count && i >= p->first && i <= p->last; i++)
			out[got++] = p->entries[i - p->first];
	return got;
}

enum tv_err
log_window_get(struct log_window *w, uint64_t first, uint32_t count, uint64_t last, struct raft_entry *out,
    uint32_t *got, uint64_t *bad)
{
	enum tv_err err;

	*got = 0;
	if (last < first)
		return TV_ENOENT;
	if (count > last - first + 1)
		count = (uint32_t)(last - first + 1);
	move_to(w, first);
	w->last = last;
	*got = gather(w, first, count, out);
	read_on(w);
	if (*got == count)
		return TV_OK;
	if (w->failed == 0 && (*got == 0 || w->reading != NULL))
		return w->reading != NULL ? TV_EAGAIN : TV_ENOMEM;
	/* What comes before it can go; then it is told, once: another try may find it. */
	if (*got > 0)
		return TV_OK;
	*bad = w->failed;
	err = w->err;
	errno = w->sys;
	log_window_clear(w);
	return err;
}

struct log_window *
log_window_new(struct log_reader *r)
{
	struct log_window *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	w->reader = r;
	TAILQ_INIT(&w->pieces);
	return w;
}

void
log_window_free(struct log_window *w)
{
	if (w == NULL)
		return;
	log_window_clear(w);
	free(w);
}

struct log_reader *
log_reader_new(struct ev_loop *loop, struct log_store *log, size_t bytes_max, void (*read)(void *ctx), void *ctx)
{
	struct log_reader *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->log = log;
	r->bytes_max = bytes_max;
	r->read = read;
	r->ctx = ctx;
	r->jobs = jobs_new(loop, "log-read");
	if (r->jobs == NULL) {
		free(r);
		return NULL;
	}
	return r;
}

void
log_reader_free(struct log_reader *r)
{
	if (r == NULL)
		return;
	r->read = NULL;
	jobs_free(r->jobs);
	free(r);
}
