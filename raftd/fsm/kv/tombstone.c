/*
 * What ends by time: tombstones (15 minutes after the deletion) and lock delays.  Their times are those of the entries
 * that made them, and they go by an entry too, so every server keeps and drops the same ones.  Each is stored twice,
 * by key and by time, so that reaping touches only what is due.
 */

#include "raftd/fsm/kv/kv.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"

#define CLOCKS_APART_NS (60ll * 1000000000)	/* of two servers: more is a fault of one of them */

/* A wall clock time as a key part: negative times would sort last, and do not occur. */
static uint64_t
time_part(int64_t t)
{
	return t < 0 ? 0 : (uint64_t)t;
}

/* Two tables of one kind of timed mark. */
struct mark {
	enum tbl by_key, by_time;
};

static const struct mark tombstones = { TBL_TOMBSTONE, TBL_TOMBSTONE_TIME };
static const struct mark lock_delays = { TBL_LOCK_DELAY, TBL_LOCK_DELAY_TIME };

/* Value: [u64be time | u64be index], and what a newer version adds. */
static bool
mark_get(struct fsm *f, const struct mark *m, struct span key, uint64_t *time, uint64_t *index)
{
	struct tkey k;
	struct span val;
	struct rd r;

	TKEY(&k, m->by_key, key);
	if (!tbl_peek(f, &k, &val))
		return false;
	r = rd_span_over(val);
	*time = rd_u64be(&r);
	*index = rd_u64be(&r);
	if (r.err != TV_OK)
		f->failed = DB_VERIFY_BAD;
	return f->failed == 0;
}

static void
time_key(struct tkey *k, const struct mark *m, uint64_t time, struct span key)
{
	tkey_begin(k, m->by_time);
	tkey_u64(k, time);
	tkey_raw(k, key);
}

/* Returns whether it is a new one. */
static bool
mark_put(struct fsm *f, const struct mark *m, struct span key, uint64_t time)
{
	uint8_t value[16];
	uint64_t old_time, old_index;
	bool there = mark_get(f, m, key, &old_time, &old_index);
	struct tkey k;

	for (int i = 0; i < 8; i++) {
		value[i] = (uint8_t)(time >> (56 - 8 * i));
		value[8 + i] = (uint8_t)(f->at >> (56 - 8 * i));
	}
	if (there && old_time != time) {
		time_key(&k, m, old_time, key);
		(void)tbl_del(f, &k);		/* it is there */
	}
	TKEY(&k, m->by_key, key);
	tbl_put(f, &k, span_of(value, sizeof(value)));
	time_key(&k, m, time, key);
	tbl_put(f, &k, SPAN_NONE);
	return !there;
}

void
tombstone_put(struct fsm *f, struct span key, int64_t now)
{
	if (mark_put(f, &tombstones, key, time_part(now)))
		fsm_count(f, FT_TOMBSTONES, 1);
}

uint64_t
tombstone_max(struct fsm *f, struct span prefix)
{
	struct tbl_scan s;
	struct tkey k;
	struct span key, val;
	uint64_t highest = 0;

	if (f->tally[FT_TOMBSTONES] == 0)
		return 0;
	TKEY(&k, TBL_TOMBSTONE, prefix);
	tbl_scan_begin(f, &s, &k);
	while (tbl_next(&s, &key, &val)) {
		struct rd r = rd_span_over(val);
		uint64_t index;

		(void)rd_u64be(&r);		/* the time */
		index = rd_u64be(&r);
		if (index > highest)
			highest = index;
	}
	tbl_scan_end(&s);
	return highest;
}

void
lock_delay_put(struct fsm *f, struct span key, int64_t until)
{
	(void)mark_put(f, &lock_delays, key, time_part(until));	/* not counted */
}

/*
 * One that ends much later than any can was set by a leader with another clock: it must not hold for as long as they differ.
 * Clocks that are a little apart, as all are, must not end the longest ones at once.
 */
bool
lock_delay_holds(struct fsm *f, struct span key, int64_t now)
{
	uint64_t until, index, at = time_part(now);

	return mark_get(f, &lock_delays, key, &until, &index) && until > at && until - at <= LOCK_DELAY_MAX_NS + CLOCKS_APART_NS;
}

/*
 * Removes the mark of this key in the table by time, if its time is at most `until`.  False: it is later.  *highest is
 * raised to its index.
 */
static bool
reap_one(struct fsm *f, const struct mark *m, struct span stored, uint64_t until, uint64_t *highest)
{
	struct rd r = rd_over(stored.p + 1, stored.len - 1);
	uint64_t time = rd_u64be(&r), index = 0;
	struct span key = rd_rest(&r);
	struct tkey k;

	if (time > until)
		return false;
	if (mark_get(f, m, key, &time, &index) && index > *highest)
		*highest = index;
	TKEY(&k, m->by_key, key);
	(void)tbl_del(f, &k);			/* it is there */
	tbl_key_of(&k, stored);
	(void)tbl_del(f, &k);
	return true;
}

/* Removes marks with a time of at most `until`, the oldest first, `max` at most.  Returns how many. */
static uint32_t
mark_reap(struct fsm *f, const struct mark *m, uint64_t until, uint32_t max, uint64_t *highest)
{
	enum { STEP = 128 };
	struct span keys[STEP];
	struct tkey prefix;
	uint32_t total = 0, n, done;

	tkey_begin(&prefix, m->by_time);
	do {
		arena_reset(&f->work);
		n = tbl_keys(f, &prefix, &f->work, keys, max - total < STEP ? max - total : STEP);
		done = 0;
		while (done < n && f->failed == 0 && reap_one(f, m, keys[done], until, highest))
			done++;
		total += done;
	} while (done == n && n > 0 && total < max && f->failed == 0);
	return total;
}

static enum tv_err
reap_prepare(struct prepare *p, void *rec)
{
	struct session_destroy *q = rec;

	q->Now = p->now;
	return TV_OK;
}

static void
reap_apply(struct apply *p, const void *rec)
{
	const struct session_destroy *q = rec;
	uint64_t now = time_part(q->Now), *reaped = &p->f->index[FX_REAPED], unused = 0;
	uint32_t n = 0;

	if (now > TOMBSTONE_AGE_NS)
		n = mark_reap(p->f, &tombstones, now - TOMBSTONE_AGE_NS, REAP_MAX, reaped);
	fsm_count(p->f, FT_TOMBSTONES, -(int)n);
	(void)mark_reap(p->f, &lock_delays, now, REAP_MAX, &unused);
	apply_bool(p, true);
}

/* Time of the oldest mark; false when there is none. */
static bool
oldest(struct fsm *f, const struct mark *m, uint64_t *time)
{
	struct tbl_scan s;
	struct tkey k;
	struct span key, val;
	bool found;

	tkey_begin(&k, m->by_time);
	tbl_scan_begin(f, &s, &k);
	found = tbl_next(&s, &key, &val);
	if (found) {
		struct rd r = rd_over(key.p + 1, key.len - 1);

		*time = rd_u64be(&r);
	}
	tbl_scan_end(&s);
	return found;
}

bool
fsm_reap_due(struct fsm *f, int64_t wall_now_ns)
{
	uint64_t now = time_part(wall_now_ns), time;

	if (oldest(f, &tombstones, &time) && now > TOMBSTONE_AGE_NS && time <= now - TOMBSTONE_AGE_NS)
		return true;
	return oldest(f, &lock_delays, &time) && time <= now;
}

const struct fsm_op tombstone_ops[] = {
	{ OP_TOMBSTONE_REAP, .prepare = reap_prepare, .apply = reap_apply },
	{ 0 },
};
