/* Snapshots for clients, see export.h. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/proc/jobs.h"
#include "common/record/mpack.h"
#include "common/text/json_text.h"
#include "raftd/disk/space.h"
#include "raftd/disk/threshold.h"
#include "raftd/disk/unlink_async.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/engine/statethread.h"
#include "raftd/fsm/copy/archive.h"
#include "raftd/fsm/fsm.h"
#include "raftd/snapshot/export.h"
#include "raftd/snapshot/op_snapshot.h"
#include "raftd/snapshot/snapshots.h"

#define EXPORTS_MAX 4
#define LOOK 0.1			/* seconds between looks while there is something to do */
#define UNREAD MONO_S(60)		/* no client reads it: it goes */
#define META_BYTES_MAX (64u << 10)
#define PEERS_BYTES_MAX 4096
#define BASE64 sodium_base64_VARIANT_ORIGINAL

/* ServerSuffrage of the library that reads meta.json, a number there. */
#define SUFFRAGE_VOTER 0
#define SUFFRAGE_NONVOTER 1

struct export {
	char id[37];
	enum save_stage { SAVE_FREE, SAVE_WAITING, SAVE_WRITING, SAVE_READY, SAVE_FAILED } stage;
	bool dropped;			/* while it was being written */
	int fd;
	uint64_t bytes;			/* of the archive */
	uint64_t index, shown;		/* of the log; as the API shows it */
	struct mono used;
	char text[640];			/* why it failed */
};

/* A piece that is being read for a client. */
struct piece {
	LIST_ENTRY(piece) link;
	struct exports *s;
	struct request *q;		/* NULL: the request is gone */
	struct snapshot_state st;	/* its texts are in id, and the server's */
	char id[37];
	int fd;
	uint8_t *bytes;			/* owned */
	size_t want;
	ssize_t got;
};

struct exports {
	struct raftd *d;
	ev_timer timer;			/* while there are saves */
	struct export all[EXPORTS_MAX];
	struct export *writing;
	LIST_HEAD(, piece) pieces;

	/* the work in the threads */
	struct fsm_snapshot *snap;
	uint64_t room, need, index, shown, term;
	struct buf meta;
	char state_path[512], path[512];
	enum tv_err err;
	int why;
	_Atomic uint64_t state_bytes, done;
	struct mono started;
};

static void
save_free(struct exports *s, struct export *v)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/raftd/snapshot-save-%s.tmp", s->d->cluster.data_dir, v->id);
	unlink_job(s->d->files, v->fd, path);
	*v = (struct export){ .fd = -1 };
}

static struct export *
save_find(struct exports *s, struct span id)
{
	for (unsigned i = 0; i < EXPORTS_MAX; i++)
		if (s->all[i].stage != SAVE_FREE && !s->all[i].dropped && span_eqs(id, s->all[i].id))
			return &s->all[i];
	return NULL;
}

/* -- meta.json -- */

static void
put_text(struct buf *b, const char *name, const char *value)
{
	buf_printf(b, "\"%s\":", name);
	json_quote(span_str(value), b);
	buf_u8(b, ',');
}

/* Addresses as old versions of the library that reads this knew them: msgpack in the form before str8 and bin. */
static void
put_peers(struct buf *b, const struct raft_config *c)
{
	struct buf list = BUF_INIT(PEERS_BYTES_MAX);
	char text[sodium_base64_ENCODED_LEN(PEERS_BYTES_MAX, BASE64)];

	mpw_array(&list, c->count);
	for (unsigned i = 0; i < c->count; i++) {
		size_t n = strlen(c->servers[i].addr);

		if (n < 32) {
			buf_u8(&list, (uint8_t)(0xa0 | n));
		} else {
			buf_u8(&list, 0xda);
			buf_u8(&list, (uint8_t)(n >> 8));
			buf_u8(&list, (uint8_t)n);
		}
		buf_put(&list, c->servers[i].addr, n);
	}
	if (!list.failed) {
		sodium_bin2base64(text, sizeof(text), list.data, list.len, BASE64);
		put_text(b, "Peers", text);
	}
	buf_done(&list);
}

static void
put_servers(struct buf *b, const struct raft_config *c)
{
	buf_puts(b, "\"Configuration\":{\"Servers\":[");
	for (unsigned i = 0; i < c->count; i++) {
		buf_puts(b, i > 0 ? ",{" : "{");
		buf_printf(b, "\"Suffrage\":%d,", c->servers[i].voter ? SUFFRAGE_VOTER : SUFFRAGE_NONVOTER);
		put_text(b, "ID", c->servers[i].uuid);
		put_text(b, "Name", c->servers[i].name);
		buf_puts(b, "\"Address\":");
		json_quote(span_str(c->servers[i].addr), b);
		buf_u8(b, '}');
	}
	buf_printf(b, "]},\"ConfigurationIndex\":%llu", (unsigned long long)c->index);
}

/*
 * Consul's fields in the types of its reader, and ours.  put_size() ends it.  Nothing follows the last brace: old
 * versions of that reader hash only what their parser took.
 */
static void
put_meta(struct exports *s, uint64_t term)
{
	const struct raft_config *c = engine_config_at(s->d->engine, s->writing->index);
	time_t now = (time_t)(clock_wall_ns() / 1000000000);
	struct buf *b = &s->meta;
	char when[32] = "";
	struct tm tm;

	if (gmtime_r(&now, &tm) != NULL)
		(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	buf_init(b, META_BYTES_MAX);
	buf_puts(b, "{\"Version\":1,");
	put_text(b, "ID", s->writing->id);
	buf_printf(b, "\"Index\":%llu,\"Term\":%llu,\"RaftIndex\":%llu,", (unsigned long long)s->writing->shown,
	    (unsigned long long)term, (unsigned long long)s->writing->index);
	put_text(b, "Format", "triumvir-1");
	put_text(b, "ClusterID", s->d->id.cluster_id);
	put_text(b, "Datacenter", s->d->cluster.datacenter);
	put_text(b, "Node", s->d->id.name);
	put_text(b, "Build", TV_VERSION);
	put_text(b, "Time", when);
	if (c == NULL)
		c = engine_config(s->d->engine);
	put_peers(b, c);
	put_servers(b, c);
}

/* The bytes of state.bin, once it is written. */
static void
put_size(struct exports *s, uint64_t bytes)
{
	buf_printf(&s->meta, ",\"Size\":%llu}", (unsigned long long)bytes);
}

/* -- writing -- */

static void
write_work(void *ctx)
{
	struct exports *s = ctx;
	uint64_t bytes, sum;

	s->err = fsm_snapshot_write(s->snap, s->state_path, &bytes, &sum);
	s->state_bytes = bytes;
	put_size(s, bytes);
	if (s->err == TV_OK && s->meta.failed)
		s->err = TV_ENOMEM;
	if (s->err == TV_OK)
		s->err = archive_write(s->path, s->state_path, buf_span(&s->meta), &s->writing->bytes, &s->done);
	s->why = errno;
	(void)unlink(s->state_path);
	if (s->err != TV_OK)
		return;
	s->writing->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	s->why = errno;
	s->err = s->writing->fd < 0 ? TV_ESYS : TV_OK;
}

static void
failed(struct exports *s, struct export *v, const char *what)
{
	snprintf(v->text, sizeof(v->text), "%s: %s", what, s->err == TV_ESYS ? strerror(s->why) : tv_strerror(s->err));
	log_err("raft", "%s", v->text);
	v->stage = SAVE_FAILED;
}

/* No thread works on it any more. */
static void
leave(struct exports *s)
{
	struct export *v = s->writing;

	s->writing = NULL;
	v->used = clock_mono();
	if (v->dropped)
		save_free(s, v);
}

static void
end_work(struct fsm *f UNUSED, void *ctx)
{
	struct exports *s = ctx;

	fsm_snapshot_end(s->snap);
	s->snap = NULL;
}

static void
end_done(void *ctx)
{
	leave(ctx);
}

/* The state is not held any more.  What the end of the daemon prevents is seen to in export_free(). */
static void
end_snapshot(struct exports *s)
{
	if (statethread_between(s->d->state, end_work, end_done, s) == TV_ENOMEM) {
		fsm_snapshot_end(s->snap);
		s->snap = NULL;
		leave(s);
	}
}

static void
write_done(void *ctx)
{
	struct exports *s = ctx;
	struct export *v = s->writing;

	buf_done(&s->meta);
	if (s->err == TV_ECLOSED && !v->dropped) {
		v->stage = SAVE_WAITING;	/* the state was replaced meanwhile: once more, of the new one */
	} else if (s->err != TV_OK) {
		failed(s, v, "writing the snapshot failed");
	} else {
		log_info("raft", "a snapshot at index %llu is ready for a client: %llu bytes in %lld ms",
		    (unsigned long long)v->index, (unsigned long long)v->bytes,
		    (long long)mono_ms(mono_sub(clock_mono(), s->started)));
		v->stage = SAVE_READY;
	}
	end_snapshot(s);
}

/* A copy of the state is at most as large as its tables, and hardly ever does its archive not get smaller. */
static void
begin_work(struct fsm *f, void *ctx)
{
	struct exports *s = ctx;
	char path[512];
	struct stat st;

	snprintf(path, sizeof(path), "%s/raftd/state/state.db", s->d->cluster.data_dir);
	s->need = stat(path, &st) == 0 ? 2 * (uint64_t)st.st_size : 0;
	s->err = s->need > s->room ? TV_ENOSPACE : fsm_snapshot_begin(f, &s->snap, &s->index, &s->term);
	s->why = errno;
	if (s->err != TV_OK)
		return;
	fsm_snapshot_export(s->snap);
	s->shown = fsm_index(f);
}

static void
not_begun(struct exports *s, struct export *v)
{
	char need[24];

	if (s->err == TV_EAGAIN) {
		v->stage = SAVE_WAITING;
	} else if (s->err == TV_ENOSPACE) {
		snprintf(v->text, sizeof(v->text), "disk full: %s/raftd has no space for the %s that a snapshot may take "
		    "beside disk_reserve", s->d->cluster.data_dir, threshold_bytes(s->need, need));
		v->stage = SAVE_FAILED;
	} else {
		failed(s, v, "cannot begin a snapshot");
	}
	leave(s);
}

static void
begin_done(void *ctx)
{
	struct exports *s = ctx;
	struct export *v = s->writing;
	enum tv_err err;

	if (s->err != TV_OK) {
		not_begun(s, v);
		return;
	}
	v->index = s->index;
	v->shown = s->shown;
	s->done = s->state_bytes = 0;
	s->started = clock_mono();
	snprintf(s->path, sizeof(s->path), "%s/raftd/snapshot-save-%s.tmp", s->d->cluster.data_dir, v->id);
	snprintf(s->state_path, sizeof(s->state_path), "%s/raftd/snapshot-state.tmp", s->d->cluster.data_dir);
	put_meta(s, s->term);
	err = s->meta.failed ? TV_ENOMEM : jobs_add_only(s->d->worker, write_work, write_done, s);
	if (err == TV_OK)
		return;				/* s->err is the worker's now */
	s->err = err;
	buf_done(&s->meta);
	if (err == TV_EAGAIN)
		v->stage = SAVE_WAITING;	/* others were quicker */
	else
		failed(s, v, "cannot begin a snapshot");
	end_snapshot(s);
}

static void
save_start(struct exports *s, struct export *v)
{
	/* The next look tries again.  Checkpoints go first, or clients could let the log grow without an end. */
	if (jobs_busy(s->d->worker) || snapshots_due(s->d->snapshots))
		return;
	s->room = space_fits(s->d->space, 0) ? space_room(s->d->space) : 0;
	s->writing = v;
	v->stage = SAVE_WRITING;
	if (statethread_between(s->d->state, begin_work, begin_done, s) == TV_OK)
		return;
	s->writing = NULL;
	v->stage = SAVE_WAITING;
}

static void
on_timer(struct ev_loop *loop, ev_timer *w, int revents UNUSED)
{
	struct exports *s = w->data;
	struct mono now = clock_mono();
	bool any = false;

	for (unsigned i = 0; i < EXPORTS_MAX; i++) {
		struct export *v = &s->all[i];

		if (v->stage == SAVE_WAITING && s->writing == NULL)
			save_start(s, v);
		if (v->stage != SAVE_FREE && mono_sub(now, v->used).ns > UNREAD.ns)
			(void)export_end(s, span_str(v->id));
		any = any || v->stage != SAVE_FREE;
	}
	if (!any)
		ev_timer_stop(loop, w);
}

/* -- operations -- */

static void
save_add(struct exports *s, struct request *q)
{
	struct snapshot_state st = { .Server = span_str(s->d->id.uuid), .Phase = SNAPSHOT_PREPARING };
	struct export *v = NULL;

	for (unsigned i = 0; i < EXPORTS_MAX && v == NULL; i++)
		if (s->all[i].stage == SAVE_FREE)
			v = &s->all[i];
	if (v == NULL) {
		request_failf(q, TV_EAGAIN, "too many snapshots are being taken on this server; try again");
		return;
	}
	*v = (struct export){ .fd = -1, .stage = SAVE_WAITING, .used = clock_mono() };
	uuid_make(v->id);
	st.ID = span_str(v->id);
	if (s->writing == NULL)
		save_start(s, v);
	if (!ev_is_active(&s->timer))
		ev_timer_again(s->d->loop, &s->timer);
	snapshot_answer(q, fsm_index(s->d->fsm), &st);
}

/* The state holds now whatever was acknowledged before the question. */
static void
on_confirmed(struct read_wait *w, enum tv_err err)
{
	struct request *q = (struct request *)((char *)w - offsetof(struct request, read));

	if (err == TV_OK)
		save_add(q->d->exports, q);
	else
		request_failf(q, TV_ENOLEADER, "No cluster leader");
}

static void
save(struct request *q, const void *args UNUSED)
{
	struct exports *s = q->d->exports;

	if (q->mode == OP_STALE) {
		save_add(s, q);
	} else if (!engine_is_leader(s->d->engine)) {
		request_failf(q, TV_ENOTLEADER, "this server does not lead");
	} else {
		q->read.done = on_confirmed;
		engine_read(s->d->engine, &q->read);
	}
}

static void
piece_work(void *ctx)
{
	struct piece *p = ctx;

	p->got = pread(p->fd, p->bytes, p->want, (off_t)p->st.Done);
}

static void
piece_free(struct piece *p)
{
	free(p->bytes);
	free(p);
}

static void
piece_done(void *ctx)
{
	struct piece *p = ctx;

	LIST_REMOVE(p, link);
	if (p->q != NULL && (p->got < 0 || (size_t)p->got != p->want)) {
		request_failf(p->q, TV_ESYS, "the snapshot's file cannot be read");
	} else if (p->q != NULL) {
		p->st.Data = span_of(p->bytes, p->want);
		snapshot_answer(p->q, p->st.Index, &p->st);
	}
	piece_free(p);
}

static void
read_piece(struct exports *s, struct request *q, struct export *v, uint64_t offset)
{
	struct piece *p = malloc(sizeof(*p));
	uint64_t left;

	if (offset > v->bytes)
		offset = v->bytes;
	left = v->bytes - offset;
	if (p != NULL) {
		*p = (struct piece){ .s = s, .q = q, .fd = v->fd, .st = { .Server = span_str(s->d->id.uuid),
		    .Phase = SNAPSHOT_READY, .Done = offset, .Total = v->bytes, .Index = v->shown } };
		memcpy(p->id, v->id, sizeof(p->id));
		p->st.ID = span_str(p->id);
		p->want = left < snapshot_piece(s->d) ? (size_t)left : snapshot_piece(s->d);
		p->bytes = malloc(p->want + 1);
	}
	/* The file is removed by a job behind this one. */
	if (p != NULL && p->bytes != NULL && jobs_add(s->d->files, piece_work, piece_done, p) == TV_OK) {
		LIST_INSERT_HEAD(&s->pieces, p, link);
		return;
	}
	if (p != NULL)
		piece_free(p);
	request_failf(q, TV_ENOMEM, "out of memory");
}

void
export_forget(struct exports *s, const struct request *q)
{
	struct piece *p;

	LIST_FOREACH(p, &s->pieces, link)
		if (p->q == q)
			p->q = NULL;
}

static void
read_next(struct request *q, const void *args)
{
	const struct snapshot_ask *ask = args;
	struct exports *s = q->d->exports;
	struct export *v = save_find(s, ask->ID);
	struct snapshot_state st = { .Phase = SNAPSHOT_PREPARING };

	if (v == NULL) {
		request_failf(q, TV_ENOENT, "this server has no such snapshot any more");
		return;
	}
	v->used = clock_mono();
	if (v->stage == SAVE_READY) {
		read_piece(s, q, v, ask->Offset);
	} else if (v->stage == SAVE_FAILED) {
		request_failf(q, TV_ESYS, v->text);
	} else {
		st.Server = span_str(s->d->id.uuid);
		st.ID = span_str(v->id);
		st.Done = v == s->writing ? s->done : 0;
		st.Total = v == s->writing ? s->state_bytes : 0;
		snapshot_answer_later(q, &st);
	}
}

bool
export_end(struct exports *s, struct span id)
{
	struct export *v = save_find(s, id);

	if (v == NULL)
		return false;
	if (v == s->writing)
		v->dropped = true;
	else
		save_free(s, v);
	return true;
}

const struct request_op export_ops[] = {
	{ OP_SNAPSHOT_SAVE, save },
	{ OP_SNAPSHOT_READ, read_next },
	{ 0, NULL },
};

/* -- life -- */

struct exports *
export_new(struct raftd *d)
{
	struct exports *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->d = d;
	LIST_INIT(&s->pieces);
	for (unsigned i = 0; i < EXPORTS_MAX; i++)
		s->all[i].fd = -1;
	ev_timer_init(&s->timer, on_timer, 0., LOOK);
	s->timer.data = s;
	return s;
}

void
export_free(struct exports *s)
{
	if (s == NULL)
		return;
	ev_timer_stop(s->d->loop, &s->timer);
	if (s->snap != NULL)
		fsm_snapshot_end(s->snap);	/* the state's threads have ended */
	buf_done(&s->meta);
	for (unsigned i = 0; i < EXPORTS_MAX; i++)
		if (s->all[i].stage != SAVE_FREE)
			save_free(s, &s->all[i]);
	free(s);
}
