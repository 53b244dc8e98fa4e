/* See usage.h. */
#include <stdlib.h>

#include "rpcd/api/usage.h"

#define HALVE_NS INT64_C(60000000000)

static void
halve(struct usage_table *t, int64_t now_ns)
{
	int64_t times = (now_ns - t->halved_ns) / HALVE_NS;

	if (times <= 0)
		return;
	for (unsigned i = 0; i < USAGE_NAMES; i++)
		t->v[i].weight = times > 63 ? 0 : t->v[i].weight >> times;
	t->halved_ns += times * HALVE_NS;
}

static struct usage_entry *
set_of(const struct usage_table *t, uint64_t key)
{
	return &t->v[key % USAGE_SETS * USAGE_WAYS];
}

struct usage_entry *
usage_find(struct usage_table *t, uint64_t key)
{
	struct usage_entry *set = t->v == NULL ? NULL : set_of(t, key);

	key += key == 0;
	for (unsigned i = 0; i < USAGE_WAYS && set != NULL; i++)
		if (set[i].key == key)
			return &set[i];
	return NULL;
}

struct usage_entry *
usage_of(struct usage_table *t, uint64_t key, int64_t now_ns)
{
	struct usage_entry *e, *least;

	if (t->v == NULL) {
		if ((t->v = calloc(USAGE_NAMES, sizeof(*t->v))) == NULL)
			return NULL;
		t->halved_ns = now_ns;
	}
	halve(t, now_ns);
	e = usage_find(t, key);
	if (e == NULL) {
		e = least = set_of(t, key);
		for (unsigned i = 1; i < USAGE_WAYS && least->key != 0; i++)
			if (e[i].key == 0 || e[i].weight < least->weight)
				least = &e[i];
		e = least;
		*e = (struct usage_entry){ .key = key + (key == 0), .weight = e->weight, .since_ns = now_ns };
	}
	e->weight++;
	return e;
}

void
usage_add(struct usage *to, const struct usage *one)
{
	to->requests += one->requests;
	to->refused += one->refused;
	to->bytes_in += one->bytes_in;
	to->bytes_out += one->bytes_out;
	to->timed += one->timed;
	to->ns += one->ns;
}

void
usage_name(struct usage_entry *e, struct span name)
{
	size_t n = name.len < sizeof(e->name) ? name.len : sizeof(e->name) - 1;

	for (size_t i = 0; i < n; i++)
		e->name[i] = name.p[i] > ' ' && name.p[i] < 0x7f ? (char)name.p[i] : '?';
	e->name[n] = '\0';
}

static int
by_requests(const void *a, const void *b)
{
	const struct usage_entry *x = *(const struct usage_entry *const *)a, *y = *(const struct usage_entry *const *)b;

	return x->count.requests != y->count.requests ? (x->count.requests < y->count.requests ? 1 : -1) :
	    (x->key > y->key) - (x->key < y->key);
}

unsigned
usage_sorted(const struct usage_table *t, const struct usage_entry *out[USAGE_NAMES])
{
	unsigned n = 0;

	for (unsigned i = 0; i < USAGE_NAMES && t->v != NULL; i++)
		if (t->v[i].count.requests > 0)
			out[n++] = &t->v[i];
	qsort(out, n, sizeof(*out), by_requests);
	return n;
}

void
usage_done(struct usage_table *t)
{
	free(t->v);
	*t = (struct usage_table){ .v = NULL };
}
