/* Finding an entry by its id, and the checks of a service, in a time that does not grow with the table. */
#include "common/base/fnv.h"
#include "rpcd/registry/registry_int.h"

/* From a start of our own: clients, which choose ids, cannot choose buckets. */
static uint64_t
start_of(const struct registry *r, unsigned salt)
{
	return (r->conf.seed ^ FNV1A_START) + salt;
}

/* Spellings that differ by case alone share a hash, see registry_alike(). */
static uint64_t
hash_of_id(const struct registry *r, enum entry_kind kind, struct span id)
{
	return fnv1a_nocase(start_of(r, 1 + kind), id);
}

static uint64_t
hash_of_service(const struct registry *r, struct span service)
{
	return fnv1a(start_of(r, 0), service);
}

void
index_done(struct registry *r)
{
	map_done(&r->by_id);
	map_done(&r->by_service);
}

static void
join_service(struct entry *e, uint64_t hash)
{
	struct entry *first = entry_check_first(e->registry, e->service);

	e->of_service = true;
	if (first == NULL) {
		map_add(&e->registry->by_service, &e->by_service, hash);
		e->first_check = true;
		e->next_check = e->prev_check = e;
		return;
	}
	e->by_service.hash = hash;
	e->next_check = first;
	e->prev_check = first->prev_check;
	e->prev_check->next_check = first->prev_check = e;
}

static void
leave_service(struct entry *e)
{
	if (e->first_check)
		map_remove(&e->registry->by_service, &e->by_service);
	if (e->first_check && e->next_check != e) {
		map_add(&e->registry->by_service, &e->next_check->by_service, e->by_service.hash);
		e->next_check->first_check = true;
	}
	e->prev_check->next_check = e->next_check;
	e->next_check->prev_check = e->prev_check;
	e->of_service = e->first_check = false;
}

void
index_put(struct entry *e)
{
	struct registry *r = e->registry;
	bool owned = e->kind == ENTRY_CHECK && e->service.len > 0;
	uint64_t hash = hash_of_service(r, e->service);

	if (!e->indexed)
		map_add(&r->by_id, &e->by_id, hash_of_id(r, e->kind, e->id));
	e->indexed = true;
	if (e->of_service && (!owned || e->by_service.hash != hash))
		leave_service(e);
	if (owned && !e->of_service)
		join_service(e, hash);
}

void
index_take_out(struct entry *e)
{
	if (e->indexed)
		map_remove(&e->registry->by_id, &e->by_id);
	e->indexed = false;
	if (e->of_service)
		leave_service(e);
}

struct entry *
entry_find(struct registry *r, enum entry_kind kind, struct span id)
{
	struct entry *e;

	MAP_FOREACH_HASH(e, &r->by_id, hash_of_id(r, kind, id), by_id)
		if (e->kind == kind && span_eq(e->id, id))
			return e;
	return NULL;
}

struct entry *
registry_alike(struct registry *r, enum entry_kind kind, struct span id)
{
	struct entry *e;

	MAP_FOREACH_HASH(e, &r->by_id, hash_of_id(r, kind, id), by_id)
		if (e->kind == kind && !e->removed && !span_eq(e->id, id) && span_eq_nocase(e->id, id))
			return e;
	return NULL;
}

struct entry *
entry_check_first(struct registry *r, struct span service)
{
	struct entry *e;

	MAP_FOREACH_HASH(e, &r->by_service, hash_of_service(r, service), by_service)
		if (span_eq(e->service, service))
			return e;
	return NULL;
}

struct entry *
entry_check_next(const struct entry *e)
{
	return e->next_check->first_check ? NULL : e->next_check;
}
