/* The table of the agent's cache, with a clock and servers of our own; and in random order against a simple model. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "rpcd/cache/cache_table.h"

#define FETCHES_MAX 8192

static struct cache_table *table;
static struct mono now;

/* What is under way, as the router would have it. */
static struct under_way {
	struct cache_entry *entry;	/* NULL: free */
	char key[64];
	uint64_t index;
	unsigned era;			/* of the model */
} fetches[FETCHES_MAX];
static unsigned cancelled, era;

static uint64_t
hash(const void *bytes, size_t n)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
	return h;
}

static void
begin(uint64_t bytes_max, unsigned entries_max)
{
	memset(fetches, 0, sizeof(fetches));
	cancelled = 0;
	now = MONO_S(1000);
	table = cache_table_new(&(struct cache_table_conf){
		.bytes_max = bytes_max, .entries_max = entries_max, .ttl = MONO_S(3600), .hold = MONO_S(7), .seed = 5,
		.hash = hash,
	});
	ck_assert_ptr_nonnull(table);
}

/* Takes what is to be fetched and cancelled; returns how many new fetches there are. */
static unsigned
carry_out(void)
{
	struct cache_fetch want;
	unsigned n = 0;
	void *gone;

	while (cache_table_next_cancel(table, &gone)) {
		ck_assert_ptr_nonnull(((struct under_way *)gone)->entry);
		((struct under_way *)gone)->entry = NULL;
		cancelled++;
	}
	for (; cache_table_next_fetch(table, now, &want); n++) {
		unsigned i = 0;

		while (fetches[i].entry != NULL)
			ck_assert_uint_lt(++i, FETCHES_MAX);
		fetches[i].entry = want.entry;
		fetches[i].index = want.index;
		fetches[i].era = era;
		ck_assert(span_copy(want.key, fetches[i].key, sizeof(fetches[i].key)));
		cache_table_set_fetch(want.entry, &fetches[i]);
	}
	return n;
}

static struct under_way *
fetch_of(const char *key)
{
	for (unsigned i = 0; i < FETCHES_MAX; i++)
		if (fetches[i].entry != NULL && strcmp(fetches[i].key, key) == 0)
			return &fetches[i];
	return NULL;
}

static void
outcome(struct under_way *f, enum tv_err err, uint64_t index, const void *value, size_t len)
{
	struct cache_entry *e = f->entry;

	f->entry = NULL;
	cache_table_fetched(table, now, e, &(struct op_reply){ .err = err, .index = index, .known_leader = true,
	    .last_contact_ms = 3, .text = span_str(err == TV_OK ? "" : "No cluster leader"),
	    .value = err == TV_OK ? span_of(value, len) : SPAN_NONE });
	(void)carry_out();
}

static void
arrives(const char *key, uint64_t index, const char *value)
{
	struct under_way *f = fetch_of(key);

	ck_assert_msg(f != NULL, "%s is not fetched", key);
	outcome(f, TV_OK, index, value, strlen(value));
}

static void
fails(const char *key, enum tv_err err)
{
	struct under_way *f = fetch_of(key);

	ck_assert_msg(f != NULL, "%s is not fetched", key);
	outcome(f, err, 0, NULL, 0);
}

static void
pass(struct mono time)
{
	struct mono end = mono_add(now, time);

	while (!mono_before(end, cache_table_due(table))) {
		if (mono_before(now, cache_table_due(table)))
			now = cache_table_due(table);
		cache_table_tick(table, now);
		(void)carry_out();
	}
	now = end;
}

static struct cache_ask
question(const char *key)
{
	return (struct cache_ask){ .key = span_str(key), .refreshed = true, .max_age = MONO_NEVER };
}

static enum cache_got
ask(const struct cache_ask *q, struct cache_waiter *w, struct cache_answer *out)
{
	enum cache_got got = cache_table_ask(table, now, q, w, out);

	(void)carry_out();
	return got;
}

static void
is_hit(const char *key, const char *value, int64_t age_s)
{
	struct cache_ask q = question(key);
	struct cache_waiter w;
	struct cache_answer a;

	ck_assert_int_eq(ask(&q, &w, &a), CACHE_HIT);
	ck_assert(a.hit && a.reply.err == TV_OK);
	ck_assert_msg(span_eqs(a.reply.value, value), "%.*s", (int)a.reply.value.len, (const char *)a.reply.value.p);
	ck_assert_int_eq(a.age.ns / 1000000000, age_s);
}

static bool
is_there(const char *key)
{
	struct cache_ask q = question(key);
	struct cache_waiter w;
	struct cache_answer a;
	enum cache_got got = cache_table_ask(table, now, &q, &w, &a);

	cache_table_cancel(table, &w);
	(void)carry_out();
	return got == CACHE_HIT;
}

/* The next answer is for this one. */
static struct cache_answer
answered(const struct cache_waiter *w)
{
	struct cache_answer a;

	ck_assert_ptr_eq(cache_table_next_answer(table, now, &a), w);
	return a;
}

static void
nobody_answered(void)
{
	struct cache_answer a;

	ck_assert_ptr_null(cache_table_next_answer(table, now, &a));
}

static void
fill(const char *key, uint64_t index, const char *value)
{
	struct cache_ask q = question(key);
	struct cache_waiter w;
	struct cache_answer a;

	ck_assert_int_eq(ask(&q, &w, &a), CACHE_WAIT);
	arrives(key, index, value);
	a = answered(&w);
	ck_assert(!a.hit && a.reply.err == TV_OK && a.reply.index == index);
}

static struct cache_stats
stats(void)
{
	struct cache_stats s;

	cache_table_stats(table, &s);
	return s;
}

static void
end(void)
{
	cache_table_clear(table);
	(void)carry_out();
	ck_assert_uint_eq(stats().entries, 0);
	ck_assert_uint_eq(stats().bytes, 0);
	ck_assert_uint_eq(stats().lost, 0);
	ck_assert_uint_eq(stats().fetching, 0);
	cache_table_free(table);
}

START_TEST(test_first_is_shared)
{
	struct cache_ask q = question("a");
	struct cache_waiter w[3];
	struct cache_answer a;

	begin(1 << 20, 100);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(ask(&q, &w[i], &a), CACHE_WAIT);
	ck_assert_uint_eq(stats().fetches, 1);
	ck_assert_uint_eq(fetch_of("a")->index, 0);
	cache_table_cancel(table, &w[1]);
	arrives("a", 7, "seven");
	for (unsigned n = 0; n < 2; n++) {
		struct cache_waiter *who = cache_table_next_answer(table, now, &a);

		ck_assert(who == &w[0] || who == &w[2]);
		ck_assert(!a.hit && span_eqs(a.reply.value, "seven") && a.reply.last_contact_ms == 3);
	}
	nobody_answered();
	is_hit("a", "seven", 0);
	end();
}
END_TEST

START_TEST(test_follows)
{
	begin(1 << 20, 100);
	fill("a", 7, "seven");
	ck_assert_ptr_null(fetch_of("a"));	/* at its pace */
	pass(MONO_MS(20));
	ck_assert_uint_eq(fetch_of("a")->index, 7);
	pass(MONO_S(500));
	arrives("a", 9, "nine");
	is_hit("a", "nine", 0);
	ck_assert_ptr_null(fetch_of("a"));
	pass(MONO_MS(0));
	ck_assert_uint_eq(fetch_of("a")->index, 9);	/* the last one began long ago */
	arrives("a", 4, "four");		/* the state was restored */
	is_hit("a", "four", 0);
	pass(MONO_MS(20));
	ck_assert_uint_eq(fetch_of("a")->index, 4);
	end();
}
END_TEST

START_TEST(test_blocking)
{
	struct cache_ask q = question("a");
	struct cache_waiter w, x, y;
	struct cache_answer a;

	begin(1 << 20, 100);
	fill("a", 7, "seven");
	q.index = 6;
	q.wait = MONO_S(10);
	ck_assert_int_eq(ask(&q, &w, &a), CACHE_HIT);
	q.index = 7;
	ck_assert_int_eq(ask(&q, &w, &a), CACHE_WAIT);
	q.index = 20;
	ck_assert_int_eq(ask(&q, &x, &a), CACHE_WAIT);
	q.index = 0;
	q.index = 8;
	ck_assert_int_eq(ask(&q, &y, &a), CACHE_WAIT);
	pass(MONO_S(1));
	ck_assert_uint_eq(stats().fetching, 1);		/* nobody asks the servers for himself */
	arrives("a", 8, "eight");
	a = answered(&w);
	ck_assert(!a.hit && a.reply.index == 8);
	nobody_answered();
	pass(MONO_S(8));
	nobody_answered();
	pass(MONO_S(2));				/* 10 s and a sixteenth */
	for (unsigned n = 0; n < 2; n++) {
		struct cache_waiter *who = cache_table_next_answer(table, now, &a);

		ck_assert(who == &x || who == &y);
		ck_assert(!a.hit && a.reply.index == 8 && a.reply.err == TV_OK);
	}
	q.index = 20;
	ck_assert_int_eq(ask(&q, &w, &a), CACHE_WAIT);
	pass(MONO_MS(50));
	arrives("a", 2, "two");				/* back: whoever waits is told at once */
	a = answered(&w);
	ck_assert_uint_eq(a.reply.index, 2);
	end();
}
END_TEST

/* The token may see less than before: the index is the same, and who waits for a higher one is told. */
START_TEST(test_other_rights)
{
	struct cache_ask q = question("a");
	struct cache_waiter w;
	struct cache_answer a;

	begin(1 << 20, 100);
	fill("a", 7, "seven");
	q.index = 7;
	q.wait = MONO_S(60);
	ck_assert_int_eq(ask(&q, &w, &a), CACHE_WAIT);
	pass(MONO_S(1));
	arrives("a", 7, "seven");			/* nothing has changed: its time was up */
	nobody_answered();
	pass(MONO_S(1));
	arrives("a", 7, "");
	a = answered(&w);
	ck_assert(!a.hit && a.reply.index == 7 && a.reply.value.len == 0);
	end();
}
END_TEST

START_TEST(test_lost_and_found)
{
	struct mono lost;
	unsigned before;

	begin(1 << 20, 100);
	fill("a", 7, "seven");
	fill("b", 8, "eight");
	pass(MONO_S(100));
	fails("a", TV_ENOLEADER);
	is_hit("a", "seven", 7);	/* it was held for so long: as old as that at most */
	is_hit("b", "eight", 0);
	lost = mono_sub(now, MONO_S(7));
	fails("b", TV_ECLOSED);
	ck_assert_uint_eq(stats().lost, 2);
	before = (unsigned)stats().fetches;
	pass(MONO_S(1));
	ck_assert_uint_eq(stats().fetches, before + 1);	/* one of them tries */
	for (unsigned i = 0; i < 10; i++) {
		ck_assert(fetch_of("a") == NULL || fetch_of("b") == NULL);
		ck_assert_uint_eq(fetch_of(fetch_of("a") != NULL ? "a" : "b")->index, 0);
		fails(fetch_of("a") != NULL ? "a" : "b", TV_EUNREACH);
		pass(MONO_S(8));
		is_hit("b", "eight", mono_sub(now, lost).ns / 1000000000);
	}
	ck_assert_uint_lt(stats().fetches, before + 20);
	if (fetch_of("a") != NULL)
		arrives("a", 7, "seven");
	else
		arrives("b", 8, "eight");
	pass(MONO_S(1));		/* the other one follows */
	ck_assert_ptr_nonnull(fetch_of("a"));
	ck_assert_ptr_nonnull(fetch_of("b"));
	arrives("a", 7, "seven");
	arrives("b", 9, "nine");
	ck_assert_uint_eq(stats().lost, 0);
	is_hit("a", "seven", 0);
	is_hit("b", "nine", 0);
	end();
}
END_TEST

START_TEST(test_errors)
{
	struct cache_ask q = question("a");
	struct cache_waiter w;
	struct cache_answer a;

	begin(1 << 20, 100);
	ck_assert_int_eq(ask(&q, &w, &a), CACHE_WAIT);
	fails("a", TV_EUNREACH);
	a = answered(&w);
	ck_assert(a.reply.err == TV_EUNREACH && span_eqs(a.reply.text, "No cluster leader"));
	ck_assert_uint_eq(stats().entries, 0);		/* an error is not kept */
	fill("a", 7, "seven");
	pass(MONO_S(1));
	q.index = 7;
	q.wait = MONO_S(60);
	ck_assert_int_eq(ask(&q, &w, &a), CACHE_WAIT);
	fails("a", TV_ETIMEOUT);
	nobody_answered();				/* a server may come back in his time */
	is_hit("a", "seven", 0);			/* that fetch began less than a second ago */
	pass(MONO_S(1));
	fails("a", TV_EPERM);				/* the servers refuse: what is here must not be shown */
	a = answered(&w);
	ck_assert_int_eq(a.reply.err, TV_EPERM);
	ck_assert_uint_eq(stats().entries, 0);
	end();
}
END_TEST

START_TEST(test_on_demand)
{
	struct cache_ask q = { .key = span_str("d"), .max_age = MONO_NEVER };
	struct cache_waiter w;
	struct cache_answer a;

	begin(1 << 20, 100);
	ck_assert_int_eq(ask(&q, &w, &a), CACHE_WAIT);
	arrives("d", 0, "one");
	(void)answered(&w);
	pass(MONO_S(5));
	ck_assert_uint_eq(stats().fetches, 1);
	ck_assert_int_eq(ask(&q, &w, &a), CACHE_HIT);
	ck_assert_int_eq(a.age.ns, MONO_S(5).ns);
	q.max_age = MONO_S(5);
	ck_assert_int_eq(ask(&q, &w, &a), CACHE_HIT);
	q.max_age = MONO_S(4);
	ck_assert_int_eq(ask(&q, &w, &a), CACHE_WAIT);
	fails("d", TV_ENOLEADER);
	ck_assert_int_eq(answered(&w).reply.err, TV_ENOLEADER);
	q.stale_if_error = MONO_S(5);
	ck_assert_int_eq(ask(&q, &w, &a), CACHE_WAIT);
	fails("d", TV_ENOLEADER);
	ck_assert_int_eq(answered(&w).reply.err, TV_ENOLEADER);	/* as old as that already */
	q.stale_if_error = MONO_S(6);
	ck_assert_int_eq(ask(&q, &w, &a), CACHE_WAIT);
	fails("d", TV_ENOLEADER);
	a = answered(&w);
	ck_assert(a.reply.err == TV_OK && a.hit && span_eqs(a.reply.value, "one") && a.age.ns == MONO_S(5).ns);
	ck_assert(!a.reachable);
	q.max_age = MONO_NEVER;
	q.revalidate = true;
	ck_assert_int_eq(ask(&q, &w, &a), CACHE_WAIT);
	arrives("d", 0, "two");
	a = answered(&w);
	ck_assert(!a.hit && span_eqs(a.reply.value, "two"));
	q.revalidate = false;
	ck_assert_int_eq(ask(&q, &w, &a), CACHE_HIT);
	end();
}
END_TEST

START_TEST(test_unused_go)
{
	begin(1 << 20, 100);
	fill("a", 7, "seven");
	fill("b", 7, "seven");
	pass(MONO_S(3000));
	is_hit("a", "seven", 0);
	pass(MONO_S(1000));
	ck_assert_uint_eq(stats().entries, 1);
	ck_assert_uint_eq(cancelled, 1);		/* its blocking query too */
	ck_assert_ptr_null(fetch_of("b"));
	cache_table_limit(table, 1 << 20, MONO_S(500));
	pass(MONO_S(0));
	(void)carry_out();
	ck_assert_uint_eq(stats().entries, 0);
	ck_assert_uint_eq(stats().fetching, 0);
	ck_assert_uint_eq(stats().expired, 2);
	ck_assert_int_eq(cache_table_due(table).ns, MONO_NEVER.ns);
	end();
}
END_TEST

/* Asks once, for a value of this size. */
static void
one(const char *key, uint64_t source, size_t len)
{
	static char value[1 << 16];
	struct cache_ask q = question(key);
	struct cache_waiter w;
	struct cache_answer a;
	enum cache_got got;

	q.source = source;
	got = ask(&q, &w, &a);
	if (got == CACHE_WAIT && fetch_of(key) != NULL) {
		outcome(fetch_of(key), TV_OK, 7, value, len);
		(void)answered(&w);
	}
}

START_TEST(test_flood)
{
	char key[32];

	begin(256 << 10, 1000);
	for (unsigned i = 0; i < 50; i++) {		/* what others use */
		snprintf(key, sizeof(key), "used%u", i);
		one(key, 1, 500);
		one(key, 1, 500);
	}
	for (unsigned i = 0; i < 50; i++) {		/* and used once */
		snprintf(key, sizeof(key), "once%u", i);
		one(key, 1, 500);
	}
	for (unsigned i = 0; i < 5000; i++) {		/* one client, different questions, and each of them twice */
		snprintf(key, sizeof(key), "flood%u", i);
		one(key, 2, 500);
		one(key, 2, 500);
		ck_assert_uint_le(stats().bytes, 256 << 10);
		ck_assert_uint_le(stats().entries, 1000);
	}
	for (unsigned i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "%s%u", i < 50 ? "used" : "once", i % 50);
		ck_assert_msg(is_there(key), "%s", key);
	}
	for (unsigned i = 0; i < 5000; i++) {		/* the same from the source of the others */
		snprintf(key, sizeof(key), "more%u", i);
		one(key, 1, 500);
	}
	for (unsigned i = 0; i < 50; i++) {
		snprintf(key, sizeof(key), "used%u", i);
		ck_assert_msg(is_there(key), "%s", key);
	}
	one("huge", 3, 40000);				/* more than an eighth: passed on, not kept */
	ck_assert(!is_there("huge"));
	ck_assert_uint_eq(stats().too_large, 1);
	for (unsigned i = 0; i < 50; i++) {
		snprintf(key, sizeof(key), "used%u", i);
		ck_assert_msg(is_there(key), "%s", key);
	}
	ck_assert_uint_gt(stats().evicted, 8000);
	end();
}
END_TEST

START_TEST(test_full)
{
	struct cache_waiter w[5];
	struct cache_answer a;
	char key[8];

	begin(1 << 20, 4);
	for (unsigned i = 0; i < 5; i++) {
		struct cache_ask q = question(key);

		snprintf(key, sizeof(key), "%u", i);
		q.key = span_str(key);
		ck_assert_int_eq(ask(&q, &w[i], &a), i < 4 ? CACHE_WAIT : CACHE_FULL);
	}
	ck_assert_uint_eq(stats().refused, 1);
	cache_table_cancel(table, &w[2]);
	struct cache_ask q = question("4");
	ck_assert_int_eq(ask(&q, &w[4], &a), CACHE_WAIT);
	ck_assert_uint_eq(cancelled, 1);
	ck_assert_ptr_null(fetch_of("2"));
	for (unsigned i = 0; i < 5; i++)
		cache_table_cancel(table, &w[i]);
	end();
}
END_TEST

START_TEST(test_watches)
{
	struct cache_ask q = question("a");
	struct cache_watch w, v;
	struct cache_answer a;

	begin(1 << 20, 100);
	ck_assert(cache_table_watch(table, now, &q, &w));
	ck_assert(cache_table_watch(table, now, &q, &v));
	(void)carry_out();
	cache_table_unwatch(table, &v);
	arrives("a", 7, "seven");
	ck_assert_ptr_eq(cache_table_next_news(table, now, &a), &w);
	ck_assert(span_eqs(a.reply.value, "seven") && a.reachable);
	ck_assert_ptr_null(cache_table_next_news(table, now, &a));
	uint64_t version = a.version;
	pass(MONO_S(1));
	arrives("a", 7, "seven");			/* nothing new */
	ck_assert_ptr_null(cache_table_next_news(table, now, &a));
	pass(MONO_S(1));
	arrives("a", 8, "eight");
	ck_assert_ptr_eq(cache_table_next_news(table, now, &a), &w);
	ck_assert(a.version != version);
	pass(MONO_S(1));
	fails("a", TV_EUNREACH);
	ck_assert_ptr_eq(cache_table_next_news(table, now, &a), &w);
	ck_assert(!a.reachable && a.age.ns > 0);
	pass(MONO_S(3600));
	ck_assert_ptr_eq(cache_table_next_news(table, now, &a), &w);
	ck_assert_ptr_null(w.entry);			/* nobody asked for it */
	cache_table_unwatch(table, &w);
	end();
}
END_TEST

/* What is watched can be read and kept from ending; what is not worth it is forgotten, but not what others use. */
START_TEST(test_watched_use)
{
	struct cache_ask q = question("a");
	struct cache_watch w;
	struct cache_answer a;
	struct mono asked;

	begin(1 << 20, 100);
	ck_assert(cache_table_watch(table, now, &q, &w));
	(void)carry_out();
	ck_assert(!cache_table_watched(table, now, &w, &a));
	arrives("a", 7, "seven");
	ck_assert_ptr_eq(cache_table_next_news(table, now, &a), &w);
	for (unsigned i = 0; i < 4; i++) {
		pass(MONO_S(3000));
		cache_table_use(table, now, &w);
	}
	ck_assert(cache_table_watched(table, now, &w, &a) && span_eqs(a.reply.value, "seven"));
	cache_table_forget(table, span_str("a"), now);
	ck_assert_uint_eq(stats().entries, 1);		/* it is watched */
	cache_table_unwatch(table, &w);
	asked = now;
	pass(MONO_S(1));
	is_hit("a", "seven", 0);
	cache_table_forget(table, span_str("a"), asked);
	ck_assert_uint_eq(stats().entries, 1);		/* another one asked for it */
	cache_table_forget(table, span_str("b"), now);
	cache_table_forget(table, span_str("a"), now);
	(void)carry_out();
	ck_assert_uint_eq(stats().entries, 0);
	ck_assert_uint_eq(stats().fetching, 0);
	ck_assert_uint_eq(cancelled, 1);
	end();
}
END_TEST

/* Entries are forgotten, and the answer to one comes before its query could be cancelled: it is dropped. */
START_TEST(test_answer_after_the_end)
{
	struct cache_watch w[3];
	static const char *const names[] = { "a", "b", "c" };

	for (unsigned which = 0; which < 6; which++) {
		begin(1 << 20, 100);
		for (unsigned i = 0; i < 3; i++) {
			struct cache_ask q = question(names[i]);

			ck_assert(cache_table_watch(table, now, &q, &w[i]));
			(void)carry_out();
			if (which >= 3)
				arrives(names[i], 7, "seven");
			cache_table_unwatch(table, &w[i]);
		}
		if (which >= 3)
			pass(MONO_S(1));
		cancelled = 0;
		for (unsigned i = 0; i < 3; i++)
			cache_table_forget(table, span_str(names[i]), now);
		ck_assert_uint_eq(stats().entries, 0);
		arrives(names[which % 3], 8, "eight");
		ck_assert_uint_eq(cancelled, 2);
		ck_assert_uint_eq(stats().fetching, 0);
		end();
	}
}
END_TEST

/* -- against a model ----------------------------------------------------------------- */

#define KEYS 40
#define WAITERS 200

/*
 * The model is what the servers have, and what was shown of it: a value that the servers had, never one that is older
 * than what was shown before; and everybody is answered.  An era ends when the whole state is set back.
 */
static struct {
	uint64_t index[KEYS], shown[KEYS];
	unsigned shown_era[KEYS];
	struct waiting {
		struct cache_waiter w;
		unsigned key;
		bool open;
	} waiters[WAITERS];
} model;

static void
model_value(char *to, size_t cap, unsigned key, uint64_t index)
{
	int n = snprintf(to, cap, "%u %u %llu ", key, era, (unsigned long long)index);

	memset(to + n, 'x', (size_t)index * 37 % 300);
	to[n + (int)(index * 37 % 300)] = '\0';
}

static void
model_answer(unsigned key, const struct cache_answer *a)
{
	unsigned of_key, of_era;
	unsigned long long index;
	char text[512];

	if (a->reply.err != TV_OK)
		return;
	ck_assert(span_copy(a->reply.value, text, sizeof(text)));
	ck_assert_int_eq(sscanf(text, "%u %u %llu ", &of_key, &of_era, &index), 3);
	ck_assert_uint_eq(of_key, key);
	ck_assert_uint_eq(index, a->reply.index);
	ck_assert_uint_le(of_era, era);
	ck_assert_uint_ge(of_era, model.shown_era[key]);
	if (of_era == model.shown_era[key])
		ck_assert_uint_ge(index, model.shown[key]);
	if (of_era == era)
		ck_assert_uint_le(index, model.index[key]);
	model.shown[key] = index;
	model.shown_era[key] = of_era;
}

static void
model_answers(void)
{
	struct cache_answer a;
	struct cache_waiter *w;

	(void)carry_out();
	while ((w = cache_table_next_answer(table, now, &a)) != NULL) {
		struct waiting *x = (struct waiting *)(void *)w;

		ck_assert(x->open);
		x->open = false;
		model_answer(x->key, &a);
	}
}

static void
model_ask(struct rng *r)
{
	unsigned key = (unsigned)(rng_below(r, 3) == 0 ? rng_below(r, KEYS) : rng_below(r, KEYS / 4));
	struct cache_ask q;
	struct cache_answer a;
	struct waiting *x = model.waiters;
	char name[16];

	while (x < model.waiters + WAITERS && x->open)
		x++;
	if (x == model.waiters + WAITERS)
		return;
	snprintf(name, sizeof(name), "k%u", key);
	q = (struct cache_ask){ .key = span_str(name), .refreshed = true, .max_age = MONO_NEVER,
	    .place = span_str(key % 4 == 0 ? "dc2" : ""), .source = rng_below(r, 4) };
	if (rng_below(r, 3) == 0) {
		q.index = model.index[key] + rng_below(r, 3);
		q.wait = MONO_MS((int64_t)rng_below(r, 5000));
	}
	x->key = key;
	switch (cache_table_ask(table, now, &q, &x->w, &a)) {
	case CACHE_HIT:
		ck_assert(q.index == 0 || a.reply.index > q.index);
		model_answer(key, &a);
		break;
	case CACHE_WAIT:
		x->open = true;
		break;
	case CACHE_FULL:
		break;
	}
}

static void
model_outcome(struct rng *r, bool away)
{
	struct under_way *f = &fetches[rng_below(r, 64)];
	char value[512];
	unsigned key;

	if (f->entry == NULL)
		return;
	key = (unsigned)atoi(f->key + 1);
	if (away && rng_below(r, 4) != 0) {
		outcome(f, rng_below(r, 8) == 0 ? TV_EPERM : TV_EUNREACH, 0, NULL, 0);
	} else if (f->index < model.index[key] || f->era != era || rng_below(r, 50) == 0) {
		model_value(value, sizeof(value), key, model.index[key]);
		outcome(f, TV_OK, model.index[key], value, strlen(value));
	}
}

START_TEST(test_random)
{
	struct rng r;
	bool away = false;

	rng_seed(&r, (uint64_t)_i + 1);
	memset(&model, 0, sizeof(model));
	era = 0;
	begin(1 << 14, 24);
	for (unsigned k = 0; k < KEYS; k++)
		model.index[k] = 1 + k;
	for (unsigned step = 0; step < 30000; step++) {
		unsigned k = (unsigned)rng_below(&r, KEYS), what = (unsigned)rng_below(&r, 100);
		struct waiting *x = &model.waiters[rng_below(&r, WAITERS)];

		if (what < 35) {
			model_ask(&r);
		} else if (what < 75) {
			model_outcome(&r, away);
		} else if (what < 85) {
			model.index[k] += 1 + rng_below(&r, 5);
		} else if (what < 86) {
			era++;
			model.index[k] = 1 + rng_below(&r, model.index[k]);
		} else if (what < 88 && x->open) {
			cache_table_cancel(table, &x->w);
			x->open = false;
		} else if (what < 89) {
			away = !away;
		} else {
			now = mono_add(now, MONO_MS((int64_t)rng_below(&r, what == 99 ? 200000 : 200)));
			cache_table_tick(table, now);
		}
		model_answers();
		struct cache_stats s = stats();
		unsigned open = 0, under_way = 0;
		for (unsigned i = 0; i < WAITERS; i++)
			open += model.waiters[i].open;
		for (unsigned i = 0; i < 64; i++)
			under_way += fetches[i].entry != NULL;
		ck_assert_uint_eq(s.waiting, open);
		ck_assert_uint_eq(s.fetching, under_way);
		ck_assert_uint_le(s.entries, 24);
		ck_assert_uint_le(s.lost, s.entries);
	}
	/* Servers answer everything, and time passes: nobody waits any more. */
	for (unsigned i = 0; i < 1000 && stats().waiting > 0; i++) {
		for (unsigned n = 0; n < 64; n++)
			if (fetches[n].entry != NULL && fetches[n].index == 0)
				model_outcome(&r, false);
		now = mono_add(now, MONO_MS(100));
		cache_table_tick(table, now);
		model_answers();
	}
	ck_assert_uint_eq(stats().waiting, 0);
	now = mono_add(now, MONO_S(3600));
	cache_table_tick(table, now);
	model_answers();
	ck_assert_uint_eq(stats().entries, 0);		/* nobody asked */
	end();
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("cache");
	TCase *t = tcase_create("cache");
	SRunner *sr;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, test_first_is_shared);
	tcase_add_test(t, test_follows);
	tcase_add_test(t, test_blocking);
	tcase_add_test(t, test_other_rights);
	tcase_add_test(t, test_lost_and_found);
	tcase_add_test(t, test_errors);
	tcase_add_test(t, test_on_demand);
	tcase_add_test(t, test_unused_go);
	tcase_add_test(t, test_flood);
	tcase_add_test(t, test_full);
	tcase_add_test(t, test_watches);
	tcase_add_test(t, test_watched_use);
	tcase_add_test(t, test_answer_after_the_end);
	tcase_add_loop_test(t, test_random, 0, 20);
	suite_add_tcase(s, t);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed == 0 ? 0 : 1;
}
