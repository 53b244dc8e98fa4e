/*
 * Where the entries are.
 *
 * The records of the log stand one behind the other, so it is enough to remember every 16 KB where one with entries
 * begins: from there a reader goes on record by record.  A new place also begins with each file, and wherever the
 * indexes do not go on, after a cut: so behind a place and before the next one all entries are live, and in order.
 */
#include <errno.h>
#include <string.h>

#include "common/base/array.h"
#include "raftd/store/store_int.h"

#define PLACE_BYTES 16384u

/* -- growing -- */

static int
push_place(struct log_store *s, uint64_t first, const DB_LSN *at)
{
	if (!array_reserve(&s->places, &s->place_cap, s->place_count + 1, sizeof(*s->places)))
		return ENOMEM;
	s->places[s->place_count++] = (struct log_place){ .first = first, .file = at->file, .offset = at->offset };
	return 0;
}

int
store_file_seen(struct log_store *s, uint32_t number)
{
	if (s->file_count > 0 && s->files[s->file_count - 1].number == number)
		return 0;
	if (!array_reserve(&s->files, &s->file_cap, s->file_count + 1, sizeof(*s->files)))
		return ENOMEM;
	s->files[s->file_count++] = (struct log_file){ .number = number, .base = store_next_index(s) };
	return 0;
}

uint64_t
store_next_index(const struct log_store *s)
{
	return (s->last != 0 ? s->last : s->cut) + 1;
}

/* -- what records do -- */

static void
lower_bases(struct log_store *s, uint64_t index)
{
	for (size_t i = 0; i < s->file_count; i++)
		if (s->files[i].base > index)
			s->files[i].base = index;
}

static int
truncate_tail(struct log_store *s, uint64_t from)
{
	if (from <= s->cut)
		return EINVAL;
	if (s->last == 0 || from > s->last)
		return 0;
	s->replaced++;
	while (s->place_count > 0 && s->places[s->place_count - 1].first >= from)
		s->place_count--;
	s->place_next = 0;			/* what follows does not go on there */
	s->last = from - 1;
	if (s->last < s->first)
		s->first = s->last = 0;
	lower_bases(s, from);
	return 0;
}

static int
append(struct log_store *s, uint64_t first, uint32_t count, const DB_LSN *at)
{
	const struct log_place *p = s->place_count > 0 ? &s->places[s->place_count - 1] : NULL;
	int ret = 0;

	if (first != store_next_index(s) || first > UINT64_MAX - count)
		return EINVAL;
	if (p == NULL || first != s->place_next || at->file != p->file || at->offset - p->offset >= PLACE_BYTES)
		ret = push_place(s, first, at);
	if (s->first == 0)
		s->first = first;
	s->last = first + count - 1;
	s->place_next = s->last + 1;
	return ret;
}

static int
apply_batch(struct log_store *s, const struct log_frame *f, const DB_LSN *at)
{
	int ret = 0;

	if (f->hard_changed) {
		s->term = f->term;
		s->vote = f->vote;
	}
	if (f->generation != 0)
		s->generation = f->generation;
	if (f->truncate_from != 0)
		ret = truncate_tail(s, f->truncate_from);
	if (ret == 0 && f->count > 0)
		ret = append(s, f->first, f->count, at);
	return ret;
}

static void
forget_entries(struct log_store *s)
{
	s->replaced++;
	s->first = s->last = 0;
	s->place_count = 0;
	s->place_next = 0;
}

static void
cut_front(struct log_store *s)
{
	size_t gone = 0;

	if (s->last <= s->cut) {
		forget_entries(s);
		return;
	}
	if (s->first <= s->cut)
		s->first = s->cut + 1;
	while (gone + 1 < s->place_count && s->places[gone + 1].first <= s->first)
		gone++;
	s->place_count -= gone;
	if (gone > 0)
		memmove(s->places, s->places + gone, s->place_count * sizeof(s->places[0]));
}

static int
apply_position(struct log_store *s, const struct log_frame *f)
{
	if (f->cut == UINT64_MAX)
		return EINVAL;			/* there would be no next index */
	if (f->reset) {
		forget_entries(s);
		s->cut = f->cut;
		lower_bases(s, s->cut + 1);
	} else if (f->cut > s->cut) {
		s->cut = f->cut;
		cut_front(s);
	}
	s->snapshot_index = f->snapshot_index;
	s->snapshot_term = f->snapshot_term;
	if (f->config.len == 0) {
		s->snapshot_config.count = 0;
		return 0;
	}
	return raft_config_read(f->config, &s->snapshot_config) == TV_OK ? 0 : EINVAL;
}

/* It says again what is known. */
static int
apply_state(struct log_store *s, const struct log_frame *f)
{
	s->files[s->file_count - 1].state = true;
	return f->seq == s->seq && f->term == s->term && f->vote == s->vote && f->last == s->last && f->cut == s->cut &&
	    f->generation == s->generation && f->snapshot_index == s->snapshot_index ? 0 : EINVAL;
}

int
store_index_apply(struct log_store *s, const struct log_frame *f, const DB_LSN *at)
{
	if (f->kind == LOG_FRAME_STATE)
		return apply_state(s, f);
	if (f->seq != s->seq + 1)
		return EINVAL;
	s->seq = f->seq;
	if (f->kind == LOG_FRAME_BATCH)
		return apply_batch(s, f, at);
	if (f->kind == LOG_FRAME_POSITION)
		return apply_position(s, f);
	memcpy(s->cluster_id, f->cluster_id, sizeof(s->cluster_id));
	s->generation = f->generation;
	return 0;
}

void
store_files_discard(struct log_store *s)
{
	size_t keep = 0;

	for (size_t i = 1; i < s->file_count; i++)
		if (s->files[i].state && s->files[i].base <= s->cut + 1)
			keep = i;
	if (keep == 0)
		return;
	if (s->trash_from == s->trash_to)
		s->trash_from = s->oldest;
	s->trash_to = s->oldest = s->files[keep].number;
	s->file_count -= keep;
	memmove(s->files, s->files + keep, s->file_count * sizeof(s->files[0]));
}

/* -- reading -- */

/* Place of an index that is live; NULL: not known.  *end: first index that is not there any more. */
static const struct log_place *
place_find(const struct log_store *s, uint64_t index, uint64_t *end)
{
	size_t lo = 0, hi = s->place_count;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (s->places[mid].first <= index)
			lo = mid + 1;
		else
			hi = mid;
	}
	*end = lo < s->place_count ? s->places[lo].first : s->last + 1;
	return lo == 0 ? NULL : &s->places[lo - 1];
}

struct walk {
	uint64_t next, end;		/* index expected next; first one that is not wanted, or not at this place */
	enum tv_err (*fn)(void *ctx, const struct raft_entry *e);
	void *ctx;
};

static enum tv_err
walk_record(struct walk *w, const DBT *data)
{
	struct raft_entry e = { 0 };
	struct log_frame f;
	enum tv_err err = store_frame_read(span_of(data->data, data->size), &f);

	if (err != TV_OK || f.kind != LOG_FRAME_BATCH)
		return err;
	while (err == TV_OK && f.count > 0 && w->next < w->end) {
		err = store_frame_next(&f, &e);
		if (err != TV_OK || e.index < w->next)
			continue;
		if (e.index > w->next)
			return TV_ECORRUPT;
		err = w->fn(w->ctx, &e);
		if (err == TV_OK)
			w->next++;
	}
	return err;
}

/* All that is wanted of one place. */
static enum tv_err
walk_place(struct log_store *s, DB_LOGC *c, const struct log_place *p, struct walk *w)
{
	DB_LSN at = { .file = p->file, .offset = p->offset };
	enum tv_err err = TV_OK;
	uint32_t op = DB_SET;

	while (err == TV_OK && w->next < w->end) {
		DBT data = { 0 };		/* the cursor's memory */
		int ret = c->get(c, &at, &data, op);

		if (ret != 0)
			return ret == DB_NOTFOUND ? TV_ECORRUPT : store_env_err(&s->env, ret);
		err = walk_record(w, &data);
		op = DB_NEXT;
	}
	return err;
}

enum tv_err
store_walk(struct log_store *s, uint64_t first, uint64_t last,
    enum tv_err (*fn)(void *ctx, const struct raft_entry *e), void *ctx, uint64_t *bad)
{
	struct walk w = { .next = first, .fn = fn, .ctx = ctx };
	enum tv_err err = TV_OK;
	DB_LOGC *c;
	int ret = s->env.dbenv->log_cursor(s->env.dbenv, &c, 0);

	if (ret != 0)
		return store_env_err(&s->env, ret);
	while (err == TV_OK && w.next <= last) {
		const struct log_place *p = place_find(s, w.next, &w.end);
		struct log_place at;

		if (w.end > last + 1)
			w.end = last + 1;
		if (p == NULL || w.end <= w.next) {	/* or it was cut meanwhile */
			err = TV_ECORRUPT;
			break;
		}
		at = *p;
		pthread_mutex_unlock(&s->lock);
		err = walk_place(s, c, &at, &w);
		pthread_mutex_lock(&s->lock);
	}
	*bad = w.next;
	pthread_mutex_unlock(&s->lock);
	(void)c->close(c, 0);			/* it only read */
	pthread_mutex_lock(&s->lock);
	return err;
}
