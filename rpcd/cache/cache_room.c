/* Which source has how much room in the cache, and which entry goes first.  See cache_table.h. */
#include "rpcd/cache/cache_table_int.h"

#define LOOKS_MAX 32			/* at entries that are waited for, on one list */
#define OVERHEAD 64			/* of the allocator, for entry and value */

static uint64_t
bytes_of(const struct cache_entry *e)
{
	return sizeof(*e) + e->key_len + e->value_len + OVERHEAD;
}

static struct cache_list *
list_of(struct cache_table *t, const struct cache_entry *e)
{
	struct cache_account *a = &t->accounts[e->account];

	return e->often ? &a->often : &a->once;
}

static void
put_first(struct cache_table *t, struct cache_entry *e)
{
	struct cache_list *l = list_of(t, e);

	TAILQ_INSERT_HEAD(&l->entries, e, of_account);
	l->bytes += bytes_of(e);
}

static void
take_out(struct cache_table *t, struct cache_entry *e)
{
	struct cache_list *l = list_of(t, e);

	TAILQ_REMOVE(&l->entries, e, of_account);
	l->bytes -= bytes_of(e);
}

void
cache_account_add(struct cache_table *t, struct cache_entry *e, uint64_t source)
{
	e->account = source == 0 ? 0 : (uint8_t)(t->conf.hash(&source, sizeof(source)) % CACHE_ACCOUNTS);
	put_first(t, e);
	t->stats.bytes += bytes_of(e);
}

void
cache_account_remove(struct cache_table *t, struct cache_entry *e)
{
	take_out(t, e);
	t->stats.bytes -= bytes_of(e);
}

void
cache_account_use(struct cache_table *t, struct cache_entry *e)
{
	if (TAILQ_FIRST(&list_of(t, e)->entries) == e && (e->often || !e->asked)) {
		e->asked = true;
		return;
	}
	take_out(t, e);
	e->often = e->often || e->asked;
	e->asked = true;
	put_first(t, e);
}

void
cache_account_resize(struct cache_table *t, struct cache_entry *e, size_t value_len)
{
	struct cache_list *l = list_of(t, e);

	l->bytes -= e->value_len;
	t->stats.bytes -= e->value_len;
	e->value_len = (uint32_t)value_len;
	l->bytes += e->value_len;
	t->stats.bytes += e->value_len;
}

static struct cache_entry *
oldest(const struct cache_list *l, const struct cache_entry *keep)
{
	struct cache_entry *e = TAILQ_LAST(&l->entries, cache_entries);

	for (unsigned i = 0; e != NULL && i < LOOKS_MAX; i++, e = TAILQ_PREV(e, cache_entries, of_account))
		if (e != keep && LIST_EMPTY(&e->waiters) && e->ready == 0)
			return e;
	return NULL;
}

static struct cache_entry *
victim_of(const struct cache_account *a, const struct cache_entry *keep)
{
	/* A fifth is for those that were asked for once: new ones need time to prove themselves. */
	bool few = a->once.bytes < a->often.bytes / 4;
	struct cache_entry *e = oldest(few ? &a->often : &a->once, keep);

	return e != NULL ? e : oldest(few ? &a->once : &a->often, keep);
}

/* Of the largest account; of any, where those that it has are waited for. */
static struct cache_entry *
victim(const struct cache_table *t, const struct cache_entry *keep)
{
	const struct cache_account *most = &t->accounts[0];
	struct cache_entry *e;

	for (const struct cache_account *a = t->accounts; a < t->accounts + CACHE_ACCOUNTS; a++)
		if (a->once.bytes + a->often.bytes > most->once.bytes + most->often.bytes)
			most = a;
	e = victim_of(most, keep);
	for (unsigned i = 0; e == NULL && i < CACHE_ACCOUNTS; i++)
		e = victim_of(&t->accounts[i], keep);
	return e;
}

bool
cache_make_room(struct cache_table *t, size_t bytes, unsigned entries, const struct cache_entry *keep)
{
	while (t->stats.bytes + bytes > t->conf.bytes_max || t->stats.entries + entries > t->conf.entries_max) {
		struct cache_entry *e = victim(t, keep);

		if (e == NULL)
			return false;
		t->stats.evicted++;
		cache_entry_end(t, e);
	}
	return true;
}
