/* The leader's part of a restore, see import_leader.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/proc/jobs.h"
#include "raftd/disk/space.h"
#include "raftd/disk/unlink_async.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/leader.h"
#include "raftd/peers/identity.h"
#include "raftd/peers/links.h"
#include "raftd/peers/state_version.h"
#include "raftd/snapshot/export.h"
#include "raftd/snapshot/import_leader.h"
#include "raftd/snapshot/op_snapshot.h"

#define WINDOW 4			/* chunks on their way through the log */
#define CHUNK_BYTES (256u << 10)
#define IDLE MONO_S(60)			/* no piece and no question of the client: given up */
#define CHANGED_NOTHING "; nothing was changed"
#define TOO_OLD "server %s runs a version that cannot restore: upgrade it first, or remove it"

/* One entry on its way. */
struct step {
	struct proposal proposal;
	struct import_leader *u;
	uint64_t round;			/* of the upload that sent it */
	bool busy;
};

/* Work with the archive's file, in order. */
struct file_job {
	LIST_ENTRY(file_job) link;
	struct import_leader *u;
	struct request *q;		/* that waits for it; NULL: none, or it is gone */
	uint64_t round;			/* of the upload */
	uint64_t offset;
	uint8_t *bytes;			/* owned */
	size_t len;
	ssize_t got;			/* of these */
	int sys;			/* errno */
};

struct import_leader {
	struct raftd *d;
	char id[37];			/* "": there was none yet */
	uint64_t round;			/* counts uploads */
	enum snapshot_phase phase;
	int fd;				/* of the jobs with files */
	char path[512];
	LIST_HEAD(, file_job) jobs;	/* under way */
	uint64_t handed;		/* bytes that are stored, or on their way to the disk */
	uint64_t stored, loaded;
	struct mono used, started;
	uint64_t index;			/* RESTORE_DONE: as the API shows it */
	char text[1024];		/* RESTORE_FAILED */

	/* looking through it, in the worker */
	bool checking;
	struct fsm_archive_facts facts;
	enum tv_err err;
	_Atomic uint64_t checked;
	char errbuf[256];

	struct step chunks[WINDOW], begin, commit;
	unsigned in_flight;
	uint64_t sent;
	bool reading;			/* the next piece of the file, which is to be sent */
};

static bool
is_active(const struct import_leader *u)
{
	return u->phase >= RESTORE_RECEIVING && u->phase <= RESTORE_COMMITTING;
}

bool
import_leader_busy(const struct import_leader *u)
{
	return is_active(u) || u->phase == RESTORE_UNKNOWN || u->checking;
}

bool
import_leader_owns(const struct import_leader *u, const char *id)
{
	return is_active(u) && strcmp(u->id, id) == 0;
}

static void
drop_work(void *ctx)
{
	struct import_leader *u = ctx;

	if (u->fd >= 0)
		unlink_async(u->fd, u->path);
	u->fd = -1;
}

/* Behind what is on its way.  What is not dropped for want of memory goes when the next one comes. */
static void
drop_file(struct import_leader *u)
{
	if (jobs_add(u->d->files, drop_work, NULL, u) == TV_ESYS)
		drop_work(u);
}

/* A job on a copy of these bytes, or on so many that are to be read.  False: no memory. */
static bool
file_job(struct import_leader *u, struct request *q, uint64_t offset, const uint8_t *bytes, size_t len,
    void (*work)(void *ctx), void (*done)(void *ctx))
{
	struct file_job *j = malloc(sizeof(*j));

	if (j == NULL)
		return false;
	*j = (struct file_job){ .u = u, .q = q, .round = u->round, .offset = offset, .len = len, .bytes = malloc(len + 1) };
	if (j->bytes != NULL && bytes != NULL && len > 0)
		memcpy(j->bytes, bytes, len);
	if (j->bytes == NULL || jobs_add(u->d->files, work, done, j) != TV_OK) {
		free(j->bytes);
		free(j);
		return false;
	}
	LIST_INSERT_HEAD(&u->jobs, j, link);
	return true;
}

static void
file_job_free(struct file_job *j)
{
	LIST_REMOVE(j, link);
	free(j->bytes);
	free(j);
}

void
import_leader_forget(struct import_leader *u, const struct request *q)
{
	struct file_job *j;

	LIST_FOREACH(j, &u->jobs, link)
		if (j->q == q)
			j->q = NULL;
}

static void __attribute__((format(printf, 2, 3)))
fail_restore(struct import_leader *u, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(u->text, sizeof(u->text), fmt, ap);
	va_end(ap);
	log_warn("raft", "a restore failed: %s", u->text);
	u->phase = RESTORE_FAILED;
	drop_file(u);
}

void
import_leader_fail(struct import_leader *u, const char *id, const char *why)
{
	if (import_leader_owns(u, id) && u->phase != RESTORE_COMMITTING)
		fail_restore(u, "%s" CHANGED_NOTHING, why);
}

/* -- entries -- */

static bool
propose(struct import_leader *u, struct step *s, uint16_t op, const struct restore_step *args, proposal_done *done)
{
	char why[1024];
	enum tv_err err;

	s->u = u;
	s->round = u->round;
	err = propose_record(u->d, &s->proposal, op, args, done, why, sizeof(why));
	s->busy = err == TV_OK;
	if (err == TV_ENOSPACE)			/* anything else passes, or leadership goes */
		fail_restore(u, "%s" CHANGED_NOTHING, why);
	return s->busy;
}

/* Is this the answer to a step of the present upload? */
static bool
is_current(struct step *s)
{
	s->busy = false;
	return s->round == s->u->round && is_active(s->u);
}

static void
lost_leadership(struct import_leader *u)
{
	fail_restore(u, "leadership moved to another server before the restore was committed" CHANGED_NOTHING);
}

static void
begin_done(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	struct step *s = (struct step *)p;
	struct fsm_stage st;

	if (!is_current(s))
		return;
	if (err == TV_ENOTLEADER)
		lost_leadership(s->u);
	else if (err == TV_OK && result->err != TV_OK &&
	    !(fsm_staged(s->u->d->fsm, &st) && strcmp(st.id, s->u->id) == 0))	/* ours, proposed twice */
		fail_restore(s->u, "%.*s" CHANGED_NOTHING, (int)result->text.len, (const char *)result->text.p);
}

static void
chunk_done(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	struct step *s = (struct step *)p;

	(void)result;			/* one out of order is sent again */
	s->u->in_flight--;
	if (is_current(s) && err == TV_ENOTLEADER)
		lost_leadership(s->u);
}

static void
commit_done(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	struct step *s = (struct step *)p;
	struct import_leader *u = s->u;

	leader_restoring(u->d->leader, false);
	if (!is_current(s))
		return;
	if (err == TV_OK && result->err == TV_OK) {
		u->phase = RESTORE_DONE;
		u->index = fsm_index(u->d->fsm);
		log_info("raft", "restore %s is done: %llu bytes, %llu records, %lld ms", u->id,
		    (unsigned long long)u->facts.bytes, (unsigned long long)u->facts.records,
		    (long long)mono_ms(mono_sub(clock_mono(), u->started)));
		drop_file(u);
	} else if (err == TV_OK) {
		fail_restore(u, "%.*s" CHANGED_NOTHING, (int)result->text.len, (const char *)result->text.p);
	} else if (err == TV_ENOTLEADER) {
		lost_leadership(u);
	} else {
		u->phase = RESTORE_UNKNOWN;
		drop_file(u);
	}
}

/* -- staging -- */

static void
chunk_work(void *ctx)
{
	struct file_job *j = ctx;

	j->got = pread(j->u->fd, j->bytes, j->len, (off_t)j->offset);
}

/* One more piece goes to the log. */
static void
chunk_read(void *ctx)
{
	struct file_job *j = ctx;
	struct import_leader *u = j->u;
	struct restore_step args = { .ID = span_str(u->id), .Offset = j->offset, .Data = span_of(j->bytes, j->len) };
	struct step *s = u->chunks;

	u->reading = false;
	if (u->d->stopping || j->round != u->round || u->phase != RESTORE_STAGING || j->offset != u->sent) {
		file_job_free(j);
		return;
	}
	while (s->busy)			/* fewer than WINDOW are in flight */
		s++;
	if (j->got != (ssize_t)j->len) {
		fail_restore(u, "the uploaded archive cannot be read back" CHANGED_NOTHING);
	} else if (propose(u, s, OP_RESTORE_CHUNK, &args, chunk_done)) {
		u->in_flight++;
		u->sent += j->len;
	}
	file_job_free(j);
	engine_wake(u->d->engine);
}

static void
send_chunk(struct import_leader *u)
{
	uint64_t left = u->facts.bytes - u->sent;

	u->reading = u->reading || file_job(u, NULL, u->sent, NULL, left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES, chunk_work,
	    chunk_read);
}

/*
 * A server that would pass over the entries of a restore, as one of an unknown operation, had another state afterwards.
 * NULL: none, of those that were heard of since the start.
 */
static const char *
who_cannot(struct import_leader *u)
{
	const struct raft_config *c = engine_config(u->d->engine);

	for (unsigned i = 0; i < c->count; i++) {
		const struct peer *p = links_find_id(u->d->links, c->servers[i].id);

		if (p != NULL && p->hello.uuid[0] != '\0' && !(p->hello.features & RAFT_FEATURE_RESTORE))
			return c->servers[i].name;
	}
	return NULL;
}

static void
propose_begin(struct import_leader *u)
{
	struct restore_step args = { .ID = span_str(u->id), .Bytes = u->facts.bytes,
	    .Checksum = span_of(u->facts.checksum, sizeof(u->facts.checksum)) };
	const char *old = who_cannot(u);

	if (old != NULL)
		fail_restore(u, TOO_OLD CHANGED_NOTHING, old);
	else if (!u->begin.busy)
		(void)propose(u, &u->begin, OP_RESTORE_BEGIN, &args, begin_done);
}

static void
stage_next(struct import_leader *u, const struct fsm_stage *staged)
{
	if (staged == NULL) {
		propose_begin(u);
		return;
	}
	if (strcmp(staged->id, u->id) != 0)
		return;				/* left behind by an earlier one: on its way out */
	if (staged->received == u->facts.bytes) {
		u->phase = RESTORE_LOADING;
		return;
	}
	if (u->in_flight == 0)
		u->sent = staged->received;
	if (u->in_flight < WINDOW && u->sent < u->facts.bytes)
		send_chunk(u);
}

static void
propose_commit(struct import_leader *u, const struct fsm_stage *staged)
{
	struct restore_step args = { .ID = span_str(u->id) };

	if (staged == NULL || strcmp(staged->id, u->id) != 0) {
		fail_restore(u, "the restore was abandoned" CHANGED_NOTHING);
		return;
	}
	if (!fsm_stage_loaded(u->d->fsm, u->id))
		return;
	if (!propose(u, &u->commit, OP_RESTORE_COMMIT, &args, commit_done))
		return;
	u->phase = RESTORE_COMMITTING;
	leader_restoring(u->d->leader, true);
}

/* -- looking through it -- */

static void
check_work(void *ctx)
{
	struct import_leader *u = ctx;

	u->err = fsm_archive_check(u->path, u->d->conf.restore_bytes_max, &u->facts, &u->checked, u->errbuf,
	    sizeof(u->errbuf));
}

/* The archive goes to the log and into the state, and then the new state lies beside the old one. */
static bool
has_room(struct import_leader *u)
{
	/* Of the archive: the log, the state's staging and its write-ahead log. */
	uint64_t need = import_leader_need(u->facts.state_bytes) + 3 * u->facts.bytes, room = space_room(u->d->space);

	if (room >= need)
		return true;
	fail_restore(u, "disk full: %s/raftd has %llu MB free beside disk_reserve, and this restore needs about %llu MB there on each "
	    "server" CHANGED_NOTHING, u->d->cluster.data_dir, (unsigned long long)(room >> 20),
	    (unsigned long long)(need >> 20) + 1);
	return false;
}

static void
check_done(void *ctx)
{
	struct import_leader *u = ctx;

	u->checking = false;
	if (u->d->stopping || u->phase != RESTORE_CHECKING)
		return;
	if (u->err != TV_OK) {
		fail_restore(u, "%s%s", u->errbuf[0] != '\0' ? u->errbuf : tv_strerror(u->err),
		    u->err == TV_ELIMIT ? " (restore_bytes_max in raftd.conf)" : "");
	} else if (u->facts.needs > fsm_needs(u->d->fsm) &&
	    !state_version_all(u->d, u->facts.needs, u->errbuf, sizeof(u->errbuf))) {
		fail_restore(u, "%s" CHANGED_NOTHING, u->errbuf);
	} else if (has_room(u)) {
		log_info("raft", "restore %s: an archive of %llu bytes is complete and goes to the log", u->id,
		    (unsigned long long)u->facts.bytes);
		u->sent = 0;
		u->phase = RESTORE_STAGING;
	}
	engine_wake(u->d->engine);
}

/* -- the turn -- */

void
import_leader_turn(struct import_leader *u, const struct fsm_stage *staged, uint64_t loaded)
{
	char id[37];
	uint64_t index;

	if (is_active(u) && u->phase != RESTORE_COMMITTING) {
		if (!engine_is_leader(u->d->engine))
			lost_leadership(u);
		else if (mono_sub(clock_mono(), u->used).ns > IDLE.ns)
			fail_restore(u, "the client was silent for %lld s" CHANGED_NOTHING, (long long)(IDLE.ns / 1000000000));
	}
	switch (u->phase) {
	case RESTORE_CHECKING:
		if (!u->checking)
			u->checking = jobs_add_only(u->d->worker, check_work, check_done, u) == TV_OK;
		break;
	case RESTORE_STAGING:
		stage_next(u, staged);
		break;
	case RESTORE_LOADING:
		u->loaded = loaded;
		propose_commit(u, staged);
		break;
	case RESTORE_UNKNOWN:
		if (fsm_last_restore(u->d->fsm, id, &index) && strcmp(id, u->id) == 0) {
			u->phase = RESTORE_DONE;
			u->index = fsm_index(u->d->fsm);
		}
		break;
	default:
		break;
	}
}

/* -- operations -- */

static void
answer_phase(struct import_leader *u, struct request *q)
{
	struct snapshot_state st = { .Server = span_str(u->d->id.uuid), .ID = span_str(u->id), .Phase = u->phase,
	    .Index = u->index };

	switch (u->phase) {
	case RESTORE_RECEIVING:
		st.Done = u->stored;
		break;
	case RESTORE_CHECKING:
		st.Done = u->checked;
		st.Total = u->stored;
		break;
	case RESTORE_STAGING:
		st.Done = u->sent;
		st.Total = u->facts.bytes;
		break;
	case RESTORE_LOADING:
	case RESTORE_COMMITTING:
		st.Done = u->loaded;
		st.Total = u->facts.bytes;
		break;
	case RESTORE_FAILED:
		st.Text = span_str(u->text);
		break;
	default:
		break;
	}
	if (u->phase > RESTORE_RECEIVING && is_active(u) && q->op->code == OP_RESTORE_STATUS)
		snapshot_answer_later(q, &st);
	else
		snapshot_answer(q, fsm_index(u->d->fsm), &st);
}

static void
cancel_restore(struct import_leader *u, struct span id)
{
	if (is_active(u) && span_eqs(id, u->id) && u->phase != RESTORE_COMMITTING)
		fail_restore(u, "cancelled by the client" CHANGED_NOTHING);
}

/* The turn of the loop sees to what it becomes. */
static struct import_leader *
upload_of(struct request *q)
{
	engine_wake(q->d->engine);
	return q->d->import_leader;
}

/* The one that a step of a client belongs to, which is alive; NULL: there is none, and the request is answered. */
static struct import_leader *
upload_named(struct request *q, struct span id)
{
	struct import_leader *u = upload_of(q);

	if (u->id[0] == '\0' || !span_eqs(id, u->id)) {
		request_failf(q, TV_ENOENT, "this server has no such restore under way; nothing was changed");
		return NULL;
	}
	u->used = clock_mono();
	return u;
}

static void
open_work(void *ctx)
{
	struct file_job *j = ctx;

	j->u->fd = open(j->u->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	j->sys = errno;
	j->got = j->u->fd >= 0;
}

static void
open_done(void *ctx)
{
	struct file_job *j = ctx;
	struct import_leader *u = j->u;
	char text[400];

	snprintf(text, sizeof(text), "cannot store the archive: %s", strerror(j->sys));
	if (!j->got && j->round == u->round && u->phase == RESTORE_RECEIVING)
		fail_restore(u, "%s", text);
	if (j->q != NULL && !j->got)
		request_failf(j->q, TV_ESYS, text);
	else if (j->q != NULL)
		answer_phase(u, j->q);
	file_job_free(j);
}

static void
begin_upload(struct import_leader *u, struct request *q)
{
	drop_file(u);
	uuid_make(u->id);
	u->round++;
	if (!file_job(u, q, 0, NULL, 0, open_work, open_done)) {
		u->id[0] = '\0';
		request_failf(q, TV_ENOMEM, "out of memory");
		return;
	}
	u->handed = u->stored = u->loaded = u->index = 0;
	u->checked = 0;
	u->started = u->used = clock_mono();
	u->phase = RESTORE_RECEIVING;
	log_info("raft", "restore %s: receiving an archive", u->id);
}

static void
upload_open(struct request *q, const void *args UNUSED)
{
	struct import_leader *u = upload_of(q);
	const char *old = who_cannot(u);
	char text[400];

	if (!engine_is_leader(u->d->engine)) {
		request_failf(q, TV_ENOTLEADER, "this server does not lead");
	} else if (!leader_active(u->d->leader)) {
		request_failf(q, TV_ENOLEADER, "No cluster leader");	/* just elected; the router asks again */
	} else if (old != NULL) {
		snprintf(text, sizeof(text), TOO_OLD CHANGED_NOTHING, old);
		request_failf(q, TV_ECONFLICT, text);
	} else if (is_active(u) || u->checking) {
		snprintf(text, sizeof(text), "another restore is under way (%s); nothing was changed by this one", u->id);
		request_failf(q, TV_ECONFLICT, text);
	} else {
		begin_upload(u, q);
	}
}

static void
write_work(void *ctx)
{
	struct file_job *j = ctx;

	j->got = j->len > 0 ? pwrite(j->u->fd, j->bytes, j->len, (off_t)j->offset) : 0;
	j->sys = errno;
}

static void
write_done(void *ctx)
{
	struct file_job *j = ctx;
	struct import_leader *u = j->u;
	bool current = j->round == u->round && u->phase == RESTORE_RECEIVING;

	if (current && j->got != (ssize_t)j->len)
		fail_restore(u, "%s: %s/raftd cannot take the archive" CHANGED_NOTHING,
		    j->got < 0 && j->sys != ENOSPC ? strerror(j->sys) : "disk full", u->d->cluster.data_dir);
	else if (current)
		u->stored = j->offset + j->len;
	if (j->q != NULL)
		answer_phase(u, j->q);
	file_job_free(j);
}

static void
upload_write(struct request *q, const void *args)
{
	const struct snapshot_ask *ask = args;
	struct import_leader *u = upload_named(q, ask->ID);
	bool again;

	if (u == NULL)
		return;
	again = ask->Offset + ask->Data.len == u->handed;	/* answered behind what is on its way */
	if (u->phase != RESTORE_RECEIVING) {
		answer_phase(u, q);			/* failed meanwhile */
	} else if (!again && ask->Offset != u->handed) {
		request_failf(q, TV_EINVAL, "a part of the archive is missing");
	} else if (!again && ask->Data.len > u->d->conf.restore_bytes_max - u->handed) {
		fail_restore(u, "the archive is larger than restore_bytes_max (%llu) in raftd.conf allows" CHANGED_NOTHING,
		    (unsigned long long)u->d->conf.restore_bytes_max);
		answer_phase(u, q);
	} else if (!again && !space_fits(u->d->space, ask->Data.len)) {
		fail_restore(u, "disk full: %s/raftd has no space for the archive beside disk_reserve" CHANGED_NOTHING,
		    u->d->cluster.data_dir);
		answer_phase(u, q);
	} else if (!file_job(u, q, again ? u->handed : ask->Offset, ask->Data.p, again ? 0 : ask->Data.len, write_work,
	    write_done)) {
		request_failf(q, TV_ENOMEM, "out of memory");
	} else if (!again) {
		u->handed += ask->Data.len;
	}
}

static void
upload_apply(struct request *q, const void *args)
{
	const struct snapshot_ask *ask = args;
	struct import_leader *u = upload_named(q, ask->ID);

	if (u == NULL)
		return;
	if (u->phase == RESTORE_RECEIVING && ask->Offset != u->stored) {
		request_failf(q, TV_EINVAL, "a part of the archive is missing");
		return;
	}
	if (u->phase == RESTORE_RECEIVING)
		u->phase = RESTORE_CHECKING;
	answer_phase(u, q);
}

/* What the log says of a restore that this server does not know, or not to its end. */
static void
fate_confirmed(struct read_wait *w, enum tv_err err)
{
	struct request *q = (struct request *)((char *)w - offsetof(struct request, read));
	struct snapshot_state st = { .Server = span_str(q->d->id.uuid), .Phase = RESTORE_NONE };
	struct rd in = rd_span_over(q->args);
	struct snapshot_ask ask = { 0 };
	uint64_t index;
	char id[37];

	if (err != TV_OK || !engine_status(q->d->engine)->informed) {
		request_failf(q, TV_ENOLEADER, "No cluster leader");
		return;
	}
	/* Whatever an earlier leader committed is applied here now, and what is not will never be. */
	(void)schema_unpack(&snapshot_ask_schema, &in, request_arena(q), &ask);
	st.ID = ask.ID;
	if (fsm_last_restore(q->d->fsm, id, &index) && (ask.ID.len == 0 || span_eqs(ask.ID, id))) {
		st.ID = span_str(id);
		st.Phase = RESTORE_DONE;
		st.Index = index;
	}
	snapshot_answer(q, fsm_index(q->d->fsm), &st);
}

static void
upload_status(struct request *q, const void *args)
{
	const struct snapshot_ask *ask = args;
	struct import_leader *u = upload_of(q);
	bool known = u->id[0] != '\0' && (ask->ID.len == 0 || span_eqs(ask->ID, u->id));

	if (known && (ask->Server.len > 0 || (u->phase != RESTORE_UNKNOWN && engine_is_leader(u->d->engine)))) {
		if (ask->ID.len > 0)
			u->used = clock_mono();
		answer_phase(u, q);
	} else if (!engine_is_leader(u->d->engine)) {
		request_failf(q, TV_ENOTLEADER, "this server does not lead");
	} else {
		q->read.done = fate_confirmed;
		engine_read(u->d->engine, &q->read);
	}
}

/* Of a save, or of a restore: the client gave up.  If it is not too late, nothing is changed. */
static void
end_named(struct request *q, const void *args)
{
	const struct snapshot_ask *ask = args;
	struct snapshot_state st = { .ID = ask->ID, .Server = span_str(q->d->id.uuid) };

	if (!export_end(q->d->exports, ask->ID))
		cancel_restore(upload_of(q), ask->ID);
	snapshot_answer(q, fsm_index(q->d->fsm), &st);
}

const struct request_op import_ops[] = {
	{ OP_SNAPSHOT_END, end_named },
	{ OP_RESTORE_OPEN, upload_open },
	{ OP_RESTORE_WRITE, upload_write },
	{ OP_RESTORE_APPLY, upload_apply },
	{ OP_RESTORE_STATUS, upload_status },
	{ 0, NULL },
};

uint64_t
import_leader_need(uint64_t state_bytes)
{
	return state_bytes * 2 + state_bytes / 4;
}

uint64_t
import_leader_fit(uint64_t space)
{
	return space / 9 * 4;
}

/* -- life -- */

struct import_leader *
import_leader_new(struct raftd *d)
{
	struct import_leader *u = calloc(1, sizeof(*u));

	if (u == NULL)
		return NULL;
	u->d = d;
	u->fd = -1;
	snprintf(u->path, sizeof(u->path), "%s/raftd/snapshot-upload.tmp", d->cluster.data_dir);
	LIST_INIT(&u->jobs);
	u->phase = RESTORE_NONE;
	return u;
}

void
import_leader_free(struct import_leader *u)
{
	if (u == NULL)
		return;
	drop_file(u);
	free(u);
}
