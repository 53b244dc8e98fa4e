/* Facts that are kept, see facts.h. */
#include <stdlib.h>
#include <string.h>

#include "rpcd/dns/facts.h"

#define NAME_BYTES_MAX UINT16_MAX
#define LARGEST 4			/* one above this part of the whole is not kept */

/* -- one -- */

/* Where the parts of a copy go; counted first with base NULL. */
struct packer {
	uint8_t *base;
	size_t at;
};

static void *
reserve(struct packer *p, size_t n, size_t align)
{
	void *here;

	p->at = (p->at + align - 1) / align * align;
	here = p->base == NULL ? NULL : p->base + p->at;
	p->at += n;
	return here;
}

static struct span
pack_text(struct packer *p, struct span s)
{
	uint8_t *to = reserve(p, s.len, 1);

	if (to == NULL || s.len == 0)
		return SPAN_NONE;
	memcpy(to, s.p, s.len);
	return span_of(to, s.len);
}

static struct dns_instance
pack_instance(struct packer *p, const struct dns_instance *from)
{
	struct dns_instance to = *from;
	struct span (*meta)[2] = reserve(p, from->meta_count * sizeof(*meta), _Alignof(struct span));

	to.node = pack_text(p, from->node);
	to.address = pack_text(p, from->address);
	to.lan4 = pack_text(p, from->lan4);
	to.lan6 = pack_text(p, from->lan6);
	to.service_address = pack_text(p, from->service_address);
	to.service_lan4 = pack_text(p, from->service_lan4);
	to.service_lan6 = pack_text(p, from->service_lan6);
	to.meta = (const struct span (*)[2])meta;
	for (unsigned i = 0; i < from->meta_count; i++)
		for (unsigned k = 0; k < 2; k++) {
			struct span text = pack_text(p, from->meta[i][k]);

			if (meta != NULL)
				meta[i][k] = text;
		}
	return to;
}

static void
pack_names(struct packer *p, struct fact *f, const struct facts *t, const struct span *names, uint32_t count)
{
	uint32_t slots = count == 0 ? 0 : 4;

	while (slots > 0 && slots / 2 < count)
		slots *= 2;
	uint32_t *table = reserve(p, slots * sizeof(*table), _Alignof(uint32_t));
	uint8_t *text = reserve(p, 0, 1);
	size_t begin = p->at;
	if (table != NULL)
		memset(table, 0, slots * sizeof(*table));
	f->name_slots = slots;
	f->names = table;
	f->text = text;
	for (uint32_t i = 0; i < count; i++) {
		if (names[i].len > NAME_BYTES_MAX)
			continue;		/* which no question asks for */
		size_t offset = p->at - begin;
		uint8_t *to = reserve(p, 2 + names[i].len, 1);
		if (to == NULL)
			continue;
		to[0] = (uint8_t)(names[i].len >> 8);
		to[1] = (uint8_t)names[i].len;
		if (names[i].len > 0)
			memcpy(to + 2, names[i].p, names[i].len);
		uint32_t at = (uint32_t)t->conf.hash(names[i].p, names[i].len) & (slots - 1);
		while (table[at] != 0)
			at = (at + 1) & (slots - 1);
		table[at] = (uint32_t)offset + 1;
	}
}

static void
pack(struct packer *p, struct fact *f, const struct facts *t, const struct dns_lookup *key,
    const struct dns_found *found, const struct span *names, uint32_t name_count)
{
	struct dns_instance *v;

	(void)reserve(p, sizeof(*f), 1);
	f->key = *key;
	f->key.name = pack_text(p, key->name);
	f->key.tag = pack_text(p, key->tag);
	f->key.datacenter = pack_text(p, key->datacenter);
	f->key.source = pack_text(p, key->source);
	f->found = *found;
	f->found.datacenter = pack_text(p, found->datacenter);
	f->found.service = pack_text(p, found->service);
	f->found.message = pack_text(p, found->message);
	v = reserve(p, found->count * sizeof(*v), _Alignof(struct dns_instance));
	for (unsigned i = 0; i < found->count; i++) {
		struct dns_instance one = pack_instance(p, &found->instances[i]);

		if (v != NULL)
			v[i] = one;
	}
	f->found.instances = v;
	pack_names(p, f, t, names, name_count);
}

struct fact *
fact_new(struct facts *t, const struct dns_lookup *key, const struct dns_found *found, const struct span *names,
    uint32_t name_count)
{
	struct packer p = { .base = NULL };
	struct fact measured = { .holders = 0 }, *f;

	pack(&p, &measured, t, key, found, names, name_count);
	size_t bytes = p.at;
	f = calloc(1, bytes);
	if (f == NULL)
		return NULL;
	p = (struct packer){ (uint8_t *)f, 0 };
	pack(&p, f, t, key, found, names, name_count);
	f->bytes = bytes;
	f->holders = 1;
	f->found.version = ++t->versions;
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
		const uint8_t *p = f->text + f->names[at] - 1;

		if (span_eq(span_of(p + 2, (size_t)p[0] << 8 | p[1]), name))
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
