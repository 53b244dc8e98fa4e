/* Finding an entry by its id, and the checks of a service, in a time that does not grow with the table. */
#include <stdlib.h>

#include "rpcd/agent/registry_int.h"

#define BUCKETS_MIN 64u

static uint8_t
lower(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

/*
 * FNV-1a from a start of our own: clients, which choose ids, cannot choose buckets.  Spellings that differ by case
 * alone share a bucket, see registry_alike().
 */
static uint32_t
hash(const struct registry *r, unsigned salt, struct span text)
{
	uint64_t h = (r->conf.seed ^ UINT64_C(0xcbf29ce484222325)) + salt;

	for (size_t i = 0; i < text.len; i++)
		h = (h ^ lower(text.p[i])) * UINT64_C(0x100000001b3);
	return (uint32_t)(h ^ h >> 32);
}

static struct bucket *
bucket_of(const struct entry_index *x, uint32_t h)
{
	return &x->buckets[h & (x->size - 1)];
}

static void
append(struct entry_index *x, unsigned which, struct entry *e)
{
	struct bucket *b = bucket_of(x, e->at[which].hash);

	e->at[which].prev = b->last;
	e->at[which].next = NULL;
	*(b->last == NULL ? &b->first : &b->last->at[which].next) = e;
	b->last = e;
}

/* Twice the buckets; without memory the old ones serve on, slower. */
static void
grow(struct registry *r, unsigned which)
{
	struct entry_index *x = &r->index[which], old = *x;
	struct bucket *more = calloc(old.size * 2, sizeof(*more));

	if (more == NULL)
		return;
	x->buckets = more;
	x->size *= 2;
	for (struct entry *e = r->first; e != NULL; e = e->next)
		if (e->at[which].in)
			append(x, which, e);
	free(old.buckets);
}

static void
put(struct registry *r, unsigned which, struct entry *e, uint32_t h)
{
	struct entry_index *x = &r->index[which];

	if (x->count >= x->size)
		grow(r, which);
	e->at[which].hash = h;
	e->at[which].in = true;
	x->count++;
	append(x, which, e);
}

static void
take_out(struct registry *r, unsigned which, struct entry *e)
{
	struct entry_index *x = &r->index[which];
	struct entry *prev = e->at[which].prev, *next = e->at[which].next;
	struct bucket *b = bucket_of(x, e->at[which].hash);

	if (!e->at[which].in)
		return;
	*(prev == NULL ? &b->first : &prev->at[which].next) = next;
	*(next == NULL ? &b->last : &next->at[which].prev) = prev;
	e->at[which].in = false;
	x->count--;
}

bool
index_init(struct registry *r)
{
	bool ok = true;

	for (unsigned i = 0; i < INDEXES; i++) {
		r->index[i] = (struct entry_index){ calloc(BUCKETS_MIN, sizeof(struct bucket)), BUCKETS_MIN, 0 };
		ok = ok && r->index[i].buckets != NULL;
	}
	return ok;
}

void
index_done(struct registry *r)
{
	for (unsigned i = 0; i < INDEXES; i++)
		free(r->index[i].buckets);
}

void
index_put(struct entry *e)
{
	struct registry *r = e->registry;
	bool owned = e->kind == ENTRY_CHECK && e->service.len > 0;
	uint32_t h = hash(r, 0, e->service);

	if (!e->at[INDEX_ID].in)
		put(r, INDEX_ID, e, hash(r, 1 + e->kind, e->id));
	if (e->at[INDEX_SERVICE].in && (!owned || e->at[INDEX_SERVICE].hash != h))
		take_out(r, INDEX_SERVICE, e);
	if (owned && !e->at[INDEX_SERVICE].in)
		put(r, INDEX_SERVICE, e, h);
}

void
index_take_out(struct entry *e)
{
	for (unsigned i = 0; i < INDEXES; i++)
		take_out(e->registry, i, e);
}

struct entry *
entry_find(struct registry *r, enum entry_kind kind, struct span id)
{
	struct entry *e = bucket_of(&r->index[INDEX_ID], hash(r, 1 + kind, id))->first;

	while (e != NULL && (e->kind != kind || !span_eq(e->id, id)))
		e = e->at[INDEX_ID].next;
	return e;
}

struct entry *
registry_alike(struct registry *r, enum entry_kind kind, struct span id)
{
	struct entry *e = bucket_of(&r->index[INDEX_ID], hash(r, 1 + kind, id))->first;

	while (e != NULL && (e->kind != kind || e->removed || span_eq(e->id, id) || !span_eq_nocase(e->id, id)))
		e = e->at[INDEX_ID].next;
	return e;
}

static struct entry *
of_service(struct entry *e, struct span service)
{
	while (e != NULL && !span_eq(e->service, service))
		e = e->at[INDEX_SERVICE].next;
	return e;
}

struct entry *
entry_check_first(struct registry *r, struct span service)
{
	return service.len == 0 ? NULL :
	    of_service(bucket_of(&r->index[INDEX_SERVICE], hash(r, 0, service))->first, service);
}

struct entry *
entry_check_next(const struct entry *e)
{
	return of_service(e->at[INDEX_SERVICE].next, e->service);
}
