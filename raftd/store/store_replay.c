/*
 * From the files to the log: every record there is, in order, says what it said when it was written.
 *
 * The oldest file may begin in the middle of the log's life.  A STATE record says what came before: it is the first
 * record of its file, or the second one when the first was too large for the file before.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "raftd/store/store_int.h"

#define PATH_BYTES 4400
#define CHUNK_BYTES 65536u

const char store_advice[] = "move the raftd data directory away and start again: this server then joins as a new one "
    "and gets everything from the others";

/* -- files -- */

struct range {
	uint32_t first, last, count;	/* 0: none */
};

/* Numbers of the write-ahead files; false: the directory cannot be read. */
static bool
list_files(const char *dir, struct range *out, bool *old_form)
{
	DIR *d = opendir(dir);
	struct dirent *de;

	*out = (struct range){ 0 };
	*old_form = false;
	if (d == NULL)
		return errno == ENOENT;
	while ((de = readdir(d)) != NULL) {
		unsigned number;
		char end;

		*old_form |= strcmp(de->d_name, "meta.db") == 0 || strncmp(de->d_name, "entries.", 8) == 0;
		if (sscanf(de->d_name, "log.%10u%c", &number, &end) != 1)
			continue;
		if (out->count == 0 || number < out->first)
			out->first = number;
		if (number > out->last)
			out->last = number;
		out->count++;
	}
	closedir(d);
	return true;
}

/* The oldest number that lies between two others and is missing. */
static uint32_t
missing_file(const char *dir, const struct range *r)
{
	char path[PATH_BYTES];

	for (uint32_t n = r->first; n < r->last; n++) {
		store_file_path(dir, n, path, sizeof(path));
		if (access(path, F_OK) == -1)
			return n;
	}
	return 0;
}

enum tv_err
store_files_check(const char *dir, char *errbuf, size_t cap)
{
	struct range r;
	bool old_form;

	if (!list_files(dir, &r, &old_form))
		return tv_fail(errbuf, cap, TV_ESYS, "cannot read %s: %s", dir, strerror(errno));
	if (old_form)
		return tv_fail(errbuf, cap, TV_ECORRUPT, "the log in %s has the format of an earlier version, with "
		    "meta.db, which this version does not support: one server after the other, %s", dir, store_advice);
	if (r.count == 0 || r.count == r.last - r.first + 1)
		return TV_OK;
	return tv_fail(errbuf, cap, TV_ECORRUPT, "%s/log.%010u is missing; put it back, or %s", dir,
	    missing_file(dir, &r), store_advice);
}

/* -- records -- */

/* The first STATE: all that it says is taken for granted. */
static int
adopt_state(struct log_store *s, const struct log_frame *f)
{
	if ((s->seq != 0 && f->seq != s->seq) || (s->last != 0 && f->last != s->last) || f->last == UINT64_MAX ||
	    f->cut == UINT64_MAX)
		return EINVAL;
	s->seq = f->seq;
	s->term = f->term;
	s->vote = f->vote;
	memcpy(s->store_id, f->store_id, sizeof(s->store_id));
	memcpy(s->cluster_id, f->cluster_id, sizeof(s->cluster_id));
	s->generation = f->generation;
	s->cut = f->cut;
	s->last = f->last;
	s->first = f->last != 0 ? f->cut + 1 : 0;
	s->snapshot_index = f->snapshot_index;
	s->snapshot_term = f->snapshot_term;
	s->files[s->file_count - 1].state = true;
	if (s->place_count == 0)
		s->files[s->file_count - 1].base = store_next_index(s);
	if (f->config.len > 0 && raft_config_read(f->config, &s->snapshot_config) != TV_OK)
		return EINVAL;
	return f->last != 0 && f->last <= f->cut ? EINVAL : 0;
}

/* A record before the first STATE: of what it says only the entries are not in the STATE as well. */
static int
note_entries(struct log_store *s, struct log_frame *f, const DB_LSN *at)
{
	struct log_frame only = { .kind = LOG_FRAME_BATCH, .seq = f->seq, .first = f->first, .count = f->count };

	if (s->seq == 0)
		s->seq = f->seq - 1;
	if (f->kind == LOG_FRAME_BATCH && f->count > 0 && s->last == 0) {
		s->cut = f->first - 1;
		s->files[s->file_count - 1].base = f->first;
	}
	return store_index_apply(s, &only, at);
}

int
store_replay_record(struct log_replay *p, struct span record)
{
	struct log_store *s = p->s;
	struct log_frame f;
	int ret = store_file_seen(s, p->at.file);

	if (ret != 0)
		return ret;
	if (store_frame_read(record, &f) != TV_OK)
		return EINVAL;
	if (p->known)
		return store_index_apply(s, &f, &p->at);
	if (f.kind != LOG_FRAME_STATE)
		return note_entries(s, &f, &p->at);
	p->known = true;
	return adopt_state(s, &f);
}

static void
tell_damage(const struct log_replay *p, char *errbuf, size_t cap)
{
	const struct log_store *s = p->s;

	snprintf(errbuf, cap, "%s/log.%010u is damaged, behind byte %u, with entries from %llu on%s%s; %s", s->env.dir,
	    p->at.file, p->at.offset, (unsigned long long)store_next_index(s), s->env.message[0] != '\0' ? ": " : "",
	    s->env.message, store_advice);
}

/* The newest record, as the environment knows it.  Files with nothing but a head are passed over. */
static int
newest_record(DB_LOGC *c, DB_LSN *out)
{
	DBT data = { 0 };
	int ret = c->get(c, out, &data, DB_LAST);

	while (ret == 0 && out->offset == 0) {
		data = (DBT){ 0 };
		ret = c->get(c, out, &data, DB_PREV);
	}
	return ret;
}

/*
 * Reads on until the end.  Berkeley DB's code, or EINVAL for records that cannot be.  A file's head is a record too,
 * which the cursor passes over once, but not that of a second file with nothing else in it.
 */
static int
read_all(struct log_replay *p, DB_LOGC *c, uint32_t first_file)
{
	DB_LSN at = { .file = first_file, .offset = 0 }, newest = { 0, 0 };
	DBT data = { 0 };
	int ret = c->get(c, &at, &data, DB_SET);		/* its head */

	p->at = at;
	while (ret == 0) {
		data = (DBT){ 0 };
		ret = c->get(c, &at, &data, DB_NEXT);
		if (ret != 0 || at.offset == 0)
			continue;
		p->at = at;
		ret = store_replay_record(p, span_of(data.data, data.size));
	}
	if (ret != DB_NOTFOUND || p->at.offset == 0)
		return ret == DB_NOTFOUND ? 0 : ret;
	ret = newest_record(c, &newest);		/* was that the end, or damage? */
	return ret != 0 ? ret : newest.file == p->at.file && newest.offset == p->at.offset ? 0 : EINVAL;
}

/* Are all live entries in the files? */
static enum tv_err
check_coverage(const struct log_store *s, char *errbuf, size_t cap)
{
	if (s->last == 0 || (s->place_count > 0 && s->places[0].first <= s->first))
		return TV_OK;
	return tv_fail(errbuf, cap, TV_ECORRUPT, "log entry %llu is missing in %s: its file, before log.%010u, is not "
	    "there; put it back, or %s", (unsigned long long)s->first, s->env.dir, s->files[0].number, store_advice);
}

enum tv_err
store_replay(struct log_store *s, bool *fresh, char *errbuf, size_t cap)
{
	struct log_replay p = { .s = s };
	struct range r;
	bool old_form;
	DB_LOGC *c;
	int ret;

	*fresh = false;
	if (!list_files(s->env.dir, &r, &old_form))
		return TV_ESYS;
	s->oldest = r.count > 0 ? r.first : 1;
	if (r.count == 0) {
		*fresh = true;
		return TV_OK;
	}
	ret = s->env.dbenv->log_cursor(s->env.dbenv, &c, 0);
	if (ret != 0)
		return store_env_err(&s->env, ret);
	ret = read_all(&p, c, r.first);
	(void)c->close(c, 0);			/* it only read */
	if (ret == 0 && !p.known && s->seq == 0 && r.first == 1) {
		*fresh = true;			/* a crash before the first record */
		return TV_OK;
	}
	if (ret == ENOMEM)
		return TV_ENOMEM;
	if (ret != 0 || !p.known) {
		tell_damage(&p, errbuf, cap);
		return TV_ECORRUPT;
	}
	return check_coverage(s, errbuf, cap);
}

/* -- the end -- */

/* Zeros at [at, end) of a file, where there is anything else.  *wrote: there was. */
static bool
clear_range(int fd, uint64_t at, uint64_t end, bool *wrote)
{
	uint8_t bytes[4096];
	static const uint8_t zeros[sizeof(bytes)];
	ssize_t n = 0;

	for (; at < end; at += (uint64_t)n) {
		size_t want = end - at < sizeof(bytes) ? (size_t)(end - at) : sizeof(bytes);

		n = pread(fd, bytes, want, (off_t)at);
		if (n <= 0)
			break;
		if (memcmp(bytes, zeros, (size_t)n) == 0)
			continue;
		if (pwrite(fd, zeros, (size_t)n, (off_t)at) != n)
			return false;
		*wrote = true;
	}
	return n >= 0;
}

enum tv_err
store_tail_clear(struct log_store *s)
{
	char path[PATH_BYTES];
	bool wrote = false, ok;
	DB_LOG_STAT *st;
	struct stat file;
	int fd, ret;

	ret = s->env.dbenv->log_stat(s->env.dbenv, &st, 0);
	if (ret != 0)
		return store_env_err(&s->env, ret);
	store_file_path(s->env.dir, st->st_cur_file, path, sizeof(path));
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd == -1) {
		free(st);
		return errno == ENOENT ? TV_OK : TV_ESYS;	/* not made yet */
	}
	ok = fstat(fd, &file) == 0 && clear_range(fd, st->st_cur_offset, (uint64_t)file.st_size, &wrote);
	ok = ok && (!wrote || store_sync(fd) == 0);
	close(fd);
	free(st);
	return ok ? TV_OK : TV_ESYS;
}
