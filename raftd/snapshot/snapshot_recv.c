/* A snapshot on its way in. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/proc/daemon.h"
#include "common/proc/jobs.h"
#include "raftd/disk/space.h"
#include "raftd/disk/threshold.h"
#include "raftd/disk/unlink_async.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/snapshot/install_meta.h"
#include "raftd/snapshot/snapshot_recv.h"

#define ROOM_FACTOR 3			/* the file, the tables made of it, and their write-ahead log, of at least one file */

#define CHUNKS_MAX 8			/* on their way to the disk; the core sends half as many before an answer */

struct snapshot_recv {
	struct raftd *d;
	int fd;				/* of the temporary file, -1; of the thread at work: a job with files, or the worker */
	crypto_generichash_state hash;	/* of those jobs */
	bool receiving;
	uint64_t round;			/* counts transfers */
	uint64_t index, term;
	uint64_t handed;		/* bytes that were stored, or are on their way to the disk */
	unsigned chunks;		/* that are */
	uint64_t total;			/* as chunk 0 said, for which there was room */
	bool installing;
	bool untidy, tidying;		/* what the installation left behind, which takes long to remove */
	struct raft_msg install;	/* position; config is in config below */
	struct buf config;
	struct raft_config *install_config;	/* the same, decoded; owned */
	uint64_t swapped_index, swapped_term;	/* of the new state */
	bool ready;			/* the new state has the old one's place on the disk */
	enum tv_err err;		/* of the work in the thread */
	char errbuf[256];
};

static const char *
path_of(struct raftd *d, const char *name, char *dst, size_t cap)
{
	snprintf(dst, cap, "%s/raftd/%s", d->cluster.data_dir, name);
	return dst;
}

static void
drop_work(void *ctx)
{
	struct snapshot_recv *s = ctx;
	char path[512];

	unlink_async(s->fd, path_of(s->d, "snapshot-recv.tmp", path, sizeof(path)));
	s->fd = -1;
}

static void
recv_drop(struct snapshot_recv *s)
{
	s->receiving = false;
	s->round++;
	s->handed = 0;
	/* Behind what is on its way; without memory the next transfer does it. */
	if (jobs_add(s->d->files, drop_work, NULL, s) == TV_ESYS)
		drop_work(s);
}

static bool
recv_begin(struct snapshot_recv *s, const struct raft_msg *m)
{
	uint64_t room = (m->total < INT64_MAX / ROOM_FACTOR ? m->total * ROOM_FACTOR : INT64_MAX) + FSM_LOG_FILE_BYTES;
	char need[24];

	recv_drop(s);
	if (!space_fits(s->d->space, room)) {
		if (!space_full(s->d->space))
			log_err("raft", "disk full: a snapshot of %s does not fit into %s/raftd; it is requested "
			    "again when there is space", threshold_bytes(m->total, need), s->d->cluster.data_dir);
		space_want(s->d->space, room);
		return false;
	}
	s->receiving = true;
	s->index = m->log_index;
	s->term = m->log_term;
	s->total = m->total;
	log_info("raft", "receiving a snapshot at index %llu, %llu bytes", (unsigned long long)m->log_index,
	    (unsigned long long)m->total);
	return true;
}

/* -- files that make the installation repeatable -- */

/* [index, term, config, checksum] to install-meta. */
static enum tv_err
write_meta(struct raftd *d, const struct raft_msg *m)
{
	struct buf b = BUF_INIT(INSTALL_META_BYTES_MAX);
	char path[512];
	enum tv_err err = TV_ESYS;

	install_meta_write(&b, m->log_index, m->log_term, m->config);
	if (!b.failed)
		err = file_replace(AT_FDCWD, path_of(d, "install-meta", path, sizeof(path)), buf_span(&b), 0600);
	buf_done(&b);
	return err;
}

static void
remove_install(struct raftd *d)
{
	char path[512];

	unlink_async(-1, path_of(d, "snapshot-install", path, sizeof(path)));
	(void)unlink(path_of(d, "install-meta", path, sizeof(path)));
}

static enum tv_err
make_durable(struct snapshot_recv *s)
{
	char from[512], to[512];
	enum tv_err err;

	if (fsync(s->fd) < 0)
		return TV_ESYS;
	/*
	 * An earlier snapshot may still be there (the thread had no time to remove it), and must never be found beside the
	 * new one's meta file.
	 */
	remove_install(s->d);
	err = file_sync_parent(path_of(s->d, "snapshot-install", to, sizeof(to)));
	/* The meta file first: without the snapshot beside it, it means nothing. */
	if (err == TV_OK)
		err = write_meta(s->d, &s->install);
	return err == TV_OK ? file_rename(path_of(s->d, "snapshot-recv.tmp", from, sizeof(from)), to) : err;
}

/* -- installing -- */

static void
tidy_work(void *ctx)
{
	struct snapshot_recv *s = ctx;

	remove_install(s->d);
	fsm_restore_tidy(s->d->fsm);
}

static void
tidy_done(void *ctx)
{
	struct snapshot_recv *s = ctx;

	s->tidying = false;
}

bool
snapshot_recv_tidy(struct snapshot_recv *s)
{
	if (!s->untidy || s->tidying || s->installing)
		return s->tidying;
	s->tidying = true;
	s->untidy = false;
	if (jobs_add_only(s->d->worker, tidy_work, tidy_done, s) == TV_OK)
		return true;
	s->tidying = false;
	s->untidy = true;
	return false;
}

static void
on_reset(void *ctx, enum tv_err err)
{
	struct snapshot_recv *s = ctx;

	s->installing = false;
	if (err != TV_OK)
		return;				/* the engine stops the process */
	s->untidy = true;
	(void)snapshot_recv_tidy(s);		/* else the next look does */
	log_info("raft", "installed the snapshot at index %llu", (unsigned long long)s->install.log_index);
	engine_snapshot_installed(s->d->engine, &s->install);
}

static void
remove_work(void *ctx)
{
	remove_install(((struct snapshot_recv *)ctx)->d);
}

static void
install_failed(struct snapshot_recv *s, enum tv_err err)
{
	log_err("raft", "the snapshot cannot be installed, the old state stays: %s",
	    s->errbuf[0] != '\0' ? s->errbuf : tv_strerror(err));
	/* Before the next transfer, which comes as jobs as well. */
	if (jobs_add(s->d->files, remove_work, NULL, s) != TV_OK)
		s->untidy = true;
	recv_drop(s);
	s->installing = false;
	engine_snapshot_stored(s->d->engine, &s->install, 0);	/* from the start, please */
}

/* In the thread: takes as long as the snapshot is big. */
static void
install_work(void *ctx)
{
	struct snapshot_recv *s = ctx;
	char path[512];

	s->ready = false;
	s->err = make_durable(s);
	if (s->err == TV_OK)
		s->err = fsm_restore_load(s->d->fsm, path_of(s->d, "snapshot-install", path, sizeof(path)),
		    s->errbuf, sizeof(s->errbuf));
}

/* State and log disagree now; the next start finishes it, and needs the files for that. */
static void
half_way(const struct snapshot_recv *s, enum tv_err err)
{
	log_err("raft", "installing a snapshot failed half-way: %s", s->errbuf[0] != '\0' ? s->errbuf : tv_strerror(err));
	daemon_quit(1);
}

static void
swap_work(struct fsm *f, void *ctx)
{
	struct snapshot_recv *s = ctx;

	s->err = fsm_restore_ready(f, s->errbuf, sizeof(s->errbuf));
	s->ready = s->err == TV_OK;
	if (s->ready)
		s->err = fsm_restore_take(f, &s->swapped_index, &s->swapped_term, s->errbuf, sizeof(s->errbuf));
	if (s->err != TV_OK || (s->swapped_index == s->install.log_index && s->swapped_term == s->install.log_term))
		return;
	snprintf(s->errbuf, sizeof(s->errbuf), "the state that was loaded from it is of index %llu, not %llu",
	    (unsigned long long)s->swapped_index, (unsigned long long)s->install.log_index);
	s->err = TV_ECORRUPT;
}

static void
swap_done(void *ctx)
{
	struct snapshot_recv *s = ctx;
	enum tv_err err = s->err;

	if (s->d->stopping)
		return;				/* the next start finishes it */
	if (err != TV_OK) {
		if (s->ready || fsm_trouble(s->d->fsm) != TV_OK)
			half_way(s, err);
		else
			install_failed(s, err);
		return;
	}
	recv_drop(s);
	fsm_fire_all(s->d->fsm);
	/* Only the state was lost: entries after it that were promised to the leader must stay. */
	if (engine_keeps_log(s->d->engine, s->install.log_index, s->install.log_term)) {
		on_reset(s, TV_OK);
		return;
	}
	err = logthread_reset(engine_log(s->d->engine), s->install.log_index, s->install.log_term, s->install_config,
	    on_reset, s);
	if (err != TV_OK)
		half_way(s, err);
}

static void
install_done(void *ctx)
{
	struct snapshot_recv *s = ctx;
	enum tv_err err = s->err;		/* the thread's again, once it has begun */

	if (s->d->stopping)
		return;				/* the next start finishes it */
	/* Nothing is applied meanwhile. */
	if (err == TV_OK)
		err = statethread_between(s->d->state, swap_work, swap_done, s);
	if (err != TV_OK)
		install_failed(s, err);
}

static void
install(struct snapshot_recv *s, const struct raft_msg *m)
{
	enum tv_err err;

	s->errbuf[0] = '\0';
	buf_reset(&s->config);
	buf_putspan(&s->config, m->config);
	s->install = *m;
	s->install.config = buf_span(&s->config);
	s->install.data = SPAN_NONE;
	s->installing = true;
	s->untidy = false;		/* files of these names are new ones now */
	err = s->config.failed ? TV_ENOMEM : raft_config_read(m->config, s->install_config);
	if (err == TV_OK)
		err = jobs_add_only(s->d->worker, install_work, install_done, s);
	if (err != TV_OK)
		install_failed(s, err);
}

/* -- chunks -- */

/* One on its way to the disk. */
struct chunk {
	struct snapshot_recv *s;
	uint64_t round;
	bool first;
	struct raft_msg m;		/* with copies of data and config */
	struct buf bytes;
	enum tv_err err;		/* TV_ECORRUPT: the checksum of the whole */
	int sys;
};

static void
chunk_free(struct chunk *c)
{
	buf_done(&c->bytes);
	free(c);
}

/* NULL: no memory. */
static struct chunk *
chunk_new(struct snapshot_recv *s, const struct raft_msg *m)
{
	struct chunk *c = malloc(sizeof(*c));

	if (c == NULL)
		return NULL;
	*c = (struct chunk){ .s = s, .round = s->round, .first = m->offset == 0, .m = *m };
	buf_init(&c->bytes, m->data.len + m->config.len + 1);
	buf_putspan(&c->bytes, m->data);
	buf_putspan(&c->bytes, m->config);
	if (c->bytes.failed) {
		chunk_free(c);
		return NULL;
	}
	c->m.data = span_of(c->bytes.data, m->data.len);
	c->m.config = span_of(c->bytes.data + m->data.len, m->config.len);
	return c;
}

static enum tv_err
open_file(struct snapshot_recv *s)
{
	char path[512];

	s->fd = open(path_of(s->d, "snapshot-recv.tmp", path, sizeof(path)),
	    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	crypto_generichash_init(&s->hash, NULL, 0, crypto_generichash_BYTES);
	return s->fd < 0 ? TV_ESYS : TV_OK;
}

static enum tv_err
check_whole(struct snapshot_recv *s, const struct raft_msg *m)
{
	uint8_t hash[crypto_generichash_BYTES];

	crypto_generichash_final(&s->hash, hash, sizeof(hash));
	return m->offset + m->data.len == m->total && snapshot_sum(hash) == m->checksum ? TV_OK : TV_ECORRUPT;
}

static void
chunk_work(void *ctx)
{
	struct chunk *c = ctx;
	struct snapshot_recv *s = c->s;
	const struct raft_msg *m = &c->m;
	ssize_t n = 0;

	c->err = c->first ? open_file(s) : TV_OK;
	if (c->err == TV_OK && m->data.len > 0)
		n = pwrite(s->fd, m->data.p, m->data.len, (off_t)m->offset);
	if (c->err == TV_OK && n != (ssize_t)m->data.len) {
		c->err = TV_ESYS;
		errno = n < 0 ? errno : ENOSPC;
	}
	c->sys = errno;
	if (c->err == TV_OK)
		crypto_generichash_update(&s->hash, m->data.p, m->data.len);
	if (c->err == TV_OK && m->done)
		c->err = check_whole(s, m);
}

static void
chunk_done(void *ctx)
{
	struct chunk *c = ctx;
	struct snapshot_recv *s = c->s;
	struct engine *e = s->d->engine;

	s->chunks--;
	if (s->d->stopping || c->round != s->round) {
		chunk_free(c);			/* of a transfer that began again since */
		return;
	}
	if (c->err == TV_ECORRUPT)
		log_err("raft", "a received snapshot is corrupt; the old state stays");
	else if (c->err != TV_OK)
		log_err("raft", "cannot store a snapshot in %s/raftd: %s", s->d->cluster.data_dir, strerror(c->sys));
	if (c->err != TV_OK) {
		recv_drop(s);
		engine_snapshot_stored(e, &c->m, 0);
	} else if (c->m.done) {
		install(s, &c->m);
	} else {
		engine_snapshot_stored(e, &c->m, c->m.offset + c->m.data.len);
	}
	chunk_free(c);
}

void
snapshot_recv_chunk(struct snapshot_recv *s, const struct raft_msg *m)
{
	struct engine *e = s->d->engine;
	struct chunk *c;

	if (s->installing)
		return;
	if (s->chunks == CHUNKS_MAX) {
		engine_snapshot_stored(e, m, m->offset);	/* this one again, please */
		return;
	}
	if (m->offset == 0 && !recv_begin(s, m)) {
		engine_snapshot_stored(e, m, 0);	/* the core waits for an answer to each chunk */
		return;
	}
	if (!s->receiving || m->log_index != s->index || m->log_term != s->term || m->offset != s->handed ||
	    m->total != s->total || m->data.len > s->total - m->offset) {
		engine_snapshot_stored(e, m, 0);	/* from the start, please */
		return;
	}
	c = chunk_new(s, m);
	if (c == NULL) {
		engine_snapshot_stored(e, m, m->offset);
		return;
	}
	s->handed += m->data.len;
	s->chunks++;
	if (jobs_add(s->d->files, chunk_work, chunk_done, c) == TV_OK)
		return;
	s->handed -= m->data.len;
	s->chunks--;
	chunk_free(c);
	engine_snapshot_stored(e, m, m->offset);
}

bool
snapshot_recv_installing(const struct snapshot_recv *s)
{
	return s->installing;
}

/* -- start -- */

static void
remove_temporary(struct raftd *d)
{
	char path[512];
	DIR *dir = opendir(path_of(d, ".", path, sizeof(path)));
	struct dirent *e;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		size_t len = strlen(e->d_name);

		if (strncmp(e->d_name, "snapshot-", 9) == 0 && len > 4 && strcmp(e->d_name + len - 4, ".tmp") == 0)
			(void)unlinkat(dirfd(dir), e->d_name, 0);
	}
	if (dir != NULL)
		(void)closedir(dir);
}

/* An installation that a crash interrupted. */
struct interrupted {
	uint64_t index, term;
	struct raft_config config;
	char path[512];			/* of the snapshot */
	bool keeps_log;			/* the log holds the entry at which the snapshot ends */
};

static enum tv_err
read_meta(struct raftd *d, struct interrupted *t)
{
	struct buf bytes = BUF_INIT(INSTALL_META_BYTES_MAX);
	char path[512];
	enum tv_err err = file_read(path_of(d, "install-meta", path, sizeof(path)), &bytes);

	if (err == TV_OK)
		err = install_meta_read(buf_span(&bytes), &t->index, &t->term, &t->config);
	buf_done(&bytes);
	return err;
}

/* Does the log hold the entry at which the snapshot ends?  Then those after it may have been promised. */
static bool
log_holds(struct log_store *log, uint64_t index, uint64_t term)
{
	struct arena a = ARENA_INIT(128u << 20);
	struct raft_entry *e;
	uint32_t count;
	bool held = log_read(log, index, index, 1, &a, &e, &count) == TV_OK && count == 1 && e->term == term;

	arena_done(&a);
	return held;
}

/* The new state had taken its place: the file is not needed any more, and may as well be damaged. */
static bool
state_is_new(const struct raftd *d, const struct interrupted *t)
{
	return (fsm_applied(d->fsm) == t->index && fsm_applied_term(d->fsm) == t->term) ||
	    (t->keeps_log && fsm_applied(d->fsm) > t->index);
}

/* Whatever is wrong with it, until the old state is touched: the leader has another one. */
static void
give_up(struct raftd *d, const struct interrupted *t, const char *why)
{
	log_warn("raft", "the received snapshot at index %llu, whose installation was interrupted, is dropped, and "
	    "requested again: %s", (unsigned long long)t->index, why);
	remove_install(d);
}

/* *dropped: it cannot be installed, and the state is what it was. */
static enum tv_err
load_again(struct raftd *d, const struct interrupted *t, bool *dropped, char *errbuf, size_t cap)
{
	uint64_t index, term;
	enum tv_err err = fsm_restore_load(d->fsm, t->path, errbuf, cap);

	*dropped = err != TV_OK && fsm_trouble(d->fsm) == TV_OK;
	if (*dropped)
		give_up(d, t, errbuf[0] != '\0' ? errbuf : tv_strerror(err));
	if (err == TV_OK)
		err = fsm_restore_ready(d->fsm, errbuf, cap);
	if (err == TV_OK)
		err = fsm_restore_swap(d->fsm, &index, &term, errbuf, cap);
	fsm_restore_tidy(d->fsm);
	if (err == TV_OK && (index != t->index || term != t->term)) {
		snprintf(errbuf, cap, "%s is a snapshot at index %llu, and install-meta beside it speaks of %llu", t->path,
		    (unsigned long long)index, (unsigned long long)t->index);
		err = TV_ECORRUPT;
	}
	return err;
}

/* The state is the new one.  What the log says of it comes last. */
static enum tv_err
finish_log(struct raftd *d, const struct interrupted *t)
{
	enum tv_err err = t->keeps_log ? TV_OK : log_reset(d->log, t->index, t->term, &t->config);

	if (err == TV_OK && !t->keeps_log) {
		d->meta.first = d->meta.last = 0;
		d->meta.snapshot_index = t->index;
		d->meta.snapshot_term = t->term;
		d->meta.snapshot_config = t->config;
	}
	if (err == TV_OK)
		remove_install(d);
	return err;
}

static enum tv_err
finish_interrupted(struct raftd *d, struct interrupted *t, char *errbuf, size_t cap)
{
	enum tv_err err = TV_OK;
	bool dropped = false;

	/* The log was reset already, and may have grown since: only the removal of the files was lost. */
	if (d->meta.snapshot_index >= t->index) {
		remove_install(d);
		return TV_OK;
	}
	t->keeps_log = log_holds(d->log, t->index, t->term);
	path_of(d, "snapshot-install", t->path, sizeof(t->path));
	if (!state_is_new(d, t)) {
		if (access(t->path, F_OK) < 0) {	/* it never got its name */
			remove_install(d);
			return TV_OK;
		}
		log_info("raft", "finishing the installation of a snapshot at index %llu", (unsigned long long)t->index);
		err = load_again(d, t, &dropped, errbuf, cap);
	}
	if (dropped) {
		errbuf[0] = '\0';
		return TV_OK;
	}
	if (err == TV_OK)
		err = finish_log(d, t);
	if (err != TV_OK && errbuf[0] == '\0')
		snprintf(errbuf, cap, "an interrupted snapshot installation cannot be finished: %s", tv_strerror(err));
	return err;
}

bool
snapshot_recv_interrupted(struct raftd *d)
{
	char path[512];

	return access(path_of(d, "install-meta", path, sizeof(path)), F_OK) == 0;
}

enum tv_err
snapshot_recv_recover(struct raftd *d, char *errbuf, size_t cap)
{
	struct interrupted *t = calloc(1, sizeof(*t));
	enum tv_err err;

	if (t == NULL)
		return TV_ENOMEM;
	if (cap > 0)
		errbuf[0] = '\0';
	remove_temporary(d);
	err = read_meta(d, t);
	if (err == TV_OK) {
		err = finish_interrupted(d, t, errbuf, cap);
	} else {
		if (err != TV_ENOENT)
			log_warn("raft", "%s/raftd/install-meta, of a received snapshot whose installation was "
			    "interrupted, is damaged: the snapshot is dropped, and requested again",
			    d->cluster.data_dir);
		remove_install(d);
		err = TV_OK;
	}
	free(t);
	return err;
}

struct snapshot_recv *
snapshot_recv_new(struct raftd *d)
{
	struct snapshot_recv *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->install_config = calloc(1, sizeof(*s->install_config));
	if (s->install_config == NULL) {
		free(s);
		return NULL;
	}
	s->d = d;
	s->fd = -1;
	buf_init(&s->config, INSTALL_META_BYTES_MAX);
	return s;
}

void
snapshot_recv_free(struct snapshot_recv *s)
{
	if (s == NULL)
		return;
	recv_drop(s);
	buf_done(&s->config);
	free(s->install_config);
	free(s);
}
