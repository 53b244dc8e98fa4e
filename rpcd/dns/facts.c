/* Facts that are kept, see facts.h. */
#include <stdlib.h>

#include "common/record/mpack.h"
#include "common/record/messages.h"
#include "rpcd/dns/facts.h"

#define LARGEST 4			/* one above this part of the whole is not kept */

/* -- one -- */

/* The reader at the names of the message, and how many there are. */
static uint32_t
seek_names(struct span body, struct rd *in)
{
	const struct schema_field *f = msg_dns_found_schema.fields;

	*in = rd_span_over(body);
	(void)mpr_array(in);
	for (; f->offset != offsetof(struct msg_dns_found, names); f++)
		mpr_skip(in);
	return mpr_nil(in) ? 0 : mpr_array(in);
}

static bool
index_names(const struct facts *t, struct fact *f)
{
	struct rd in;

	for (uint32_t n = seek_names(f->body, &in); n > 0 && in.err == TV_OK; n--) {
		uint32_t offset = (uint32_t)(in.p - f->body.p);
		struct span name = mpr_bytes(&in, SCHEMA_TEXT_BYTES_MAX);
		uint32_t at = (uint32_t)t->conf.hash(name.p, name.len) & (f->name_slots - 1);

		while (f->names[at] != 0)
			at = (at + 1) & (f->name_slots - 1);
		f->names[at] = offset + 1;
	}
	return in.err == TV_OK;
}

struct fact *
fact_new(struct facts *t, const struct dns_lookup *key, struct span body)
{
	size_t texts = key->name.len + key->tag.len + key->datacenter.len + key->source.len + body.len;
	struct rd in;
	uint32_t count = seek_names(body, &in), slots = count == 0 ? 0 : 4;

	if (in.err != TV_OK || body.len >= UINT32_MAX)
		return NULL;
	while (slots > 0 && slots / 2 < count)
		slots *= 2;
	size_t bytes = sizeof(struct fact) + slots * sizeof(uint32_t) + texts;
	struct fact *f = calloc(1, bytes);
	if (f == NULL)
		return NULL;
	f->names = (uint32_t *)(void *)(f + 1);
	f->name_slots = slots;
	uint8_t *at = (uint8_t *)(f->names + slots);
	f->key = *key;
	f->key.name = span_place(&at, key->name);
	f->key.tag = span_place(&at, key->tag);
	f->key.datacenter = span_place(&at, key->datacenter);
	f->key.source = span_place(&at, key->source);
	f->body = span_place(&at, body);
	if (!index_names(t, f)) {
		free(f);
		return NULL;
	}
	f->bytes = bytes;
	f->holders = 1;
	return f;
}

void
fact_release(struct fact *f)
{
	if (f != NULL && --f->holders == 0)
		free(f);
}

bool
fact_lists(const struct facts *t, const struct fact *f, struct span name)
{
	if (f->name_slots == 0)
		return false;
	uint32_t at = (uint32_t)t->conf.hash(name.p, name.len) & (f->name_slots - 1);
	for (; f->names[at] != 0; at = (at + 1) & (f->name_slots - 1)) {
		size_t offset = f->names[at] - 1;
		struct rd in = rd_over(f->body.p + offset, f->body.len - offset);

		if (span_eq(mpr_bytes(&in, SCHEMA_TEXT_BYTES_MAX), name))
			return true;
	}
	return false;
}

/* -- the table -- */

static void
leave(struct facts *t, struct fact *f, bool tell)
{
	map_remove(&t->by_key, &f->by_key);
	if (fact_id(f) != 0)
		map_remove(&t->by_id, &f->by_id);
	TAILQ_REMOVE(&t->order, f, used_order);
	t->bytes -= f->bytes;
	f->listed = false;
	if (t->conf.rendered != NULL)
		rendered_drop(t->conf.rendered, &f->answers);
	if (tell && fact_id(f) != 0)
		SLIST_INSERT_HEAD(&t->dropped, f, dropped);
	else
		fact_release(f);
}

static void
shrink(struct facts *t)
{
	while (!TAILQ_EMPTY(&t->order) &&
	    (t->bytes > t->conf.bytes_max || t->by_key.count > t->conf.entries_max)) {
		t->evicted++;
		leave(t, TAILQ_LAST(&t->order, fact_order), true);
	}
}

static struct fact *
find_fact(struct facts *t, const struct dns_lookup *key, uint64_t hash)
{
	struct fact *f;

	MAP_FOREACH_HASH(f, &t->by_key, hash, by_key)
		if (dns_lookup_eq(&f->key, key))
			return f;
	return NULL;
}

bool
facts_put(struct facts *t, struct fact *f, uint64_t id, struct mono until)
{
	uint64_t hash = dns_lookup_hash(&f->key, t->conf.hash);
	struct fact *old = find_fact(t, &f->key, hash);
	bool used = true;

	if (old != NULL) {
		used = fact_id(old) != id || old->used;
		leave(t, old, fact_id(old) != id);
	}
	if (f->bytes > t->conf.bytes_max / LARGEST)
		return false;
	f->holders++;
	f->listed = true;
	f->used = used;
	f->until = until;
	map_add(&t->by_key, &f->by_key, hash);
	f->by_id.hash = id;
	if (id != 0)
		map_add(&t->by_id, &f->by_id, id);
	TAILQ_INSERT_HEAD(&t->order, f, used_order);
	t->bytes += f->bytes;
	shrink(t);
	return f->listed;
}

void
facts_use(struct facts *t, struct fact *f)
{
	f->used = true;
	if (TAILQ_FIRST(&t->order) != f) {
		TAILQ_REMOVE(&t->order, f, used_order);
		TAILQ_INSERT_HEAD(&t->order, f, used_order);
	}
}

struct fact *
facts_find(struct facts *t, struct mono now, const struct dns_lookup *key)
{
	struct fact *f = find_fact(t, key, dns_lookup_hash(key, t->conf.hash));

	if (f == NULL)
		return NULL;
	if (!mono_before(now, f->until)) {
		leave(t, f, true);
		return NULL;
	}
	facts_use(t, f);
	return f;
}

const struct fact *
facts_of(struct facts *t, uint64_t id)
{
	return id == 0 ? NULL : MAP_ENTRY(map_find(&t->by_id, id), struct fact, by_id);
}

void
facts_drop(struct facts *t, const struct fact *f, bool tell)
{
	struct fact *mine = find_fact(t, &f->key, f->by_key.hash);

	if (mine == f)
		leave(t, mine, tell);
}

unsigned
facts_take_used(struct facts *t, uint64_t *ids, unsigned max)
{
	struct fact *f;
	unsigned n = 0;

	for (f = TAILQ_FIRST(&t->order); f != NULL && n < max; f = TAILQ_NEXT(f, used_order)) {
		if (f->used && fact_id(f) != 0)
			ids[n++] = fact_id(f);
		f->used = false;
	}
	return n;
}

bool
facts_next_dropped(struct facts *t, uint64_t *id)
{
	struct fact *f = SLIST_FIRST(&t->dropped);

	if (f == NULL)
		return false;
	SLIST_REMOVE_HEAD(&t->dropped, dropped);
	*id = fact_id(f);
	fact_release(f);
	return true;
}

void
facts_open(struct facts *t)
{
	TAILQ_INIT(&t->order);
}

void
facts_limit(struct facts *t, size_t bytes_max)
{
	t->conf.bytes_max = bytes_max;
	shrink(t);
}

void
facts_clear(struct facts *t)
{
	uint64_t id;

	while (!TAILQ_EMPTY(&t->order))
		leave(t, TAILQ_FIRST(&t->order), false);
	while (facts_next_dropped(t, &id))
		;
}

void
facts_close(struct facts *t)
{
	facts_clear(t);
	map_done(&t->by_key);
	map_done(&t->by_id);
}
