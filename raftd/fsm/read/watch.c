/*
 * Watches: which queries wait for what, and which a commit wakes.
 *
 * Waiters for the same thing form a group; groups are found by hash.  A changed key looks up its exact group and one
 * group for each prefix length that a query waits on, with one rolling hash over the key, so the cost of a write does
 * not depend on how many watches there are.  Who waits for tables is in the list of that set of tables; there are as many
 * sets as the operations name, whatever the number of tables.  Firing costs one step per waiter that is woken.
 */
#include <stdlib.h>
#include <sys/queue.h>

#include <sodium.h>

#include "common/base/map.h"
#include "raftd/fsm/read/watch.h"

/* A circle: a waiter leaves its list without knowing which it is, and a whole list is moved at once. */
struct link {
	struct link *next, *prev;
};

struct fsm_watch {
	struct link link;		/* first: in its group or in the firing list */
	struct group *group;		/* NULL: about to fire, or a table watch */
	fsm_watch_fn *fn;
	void *ctx;
};

struct group {
	struct map_node node;
	SLIST_ENTRY(group) pending_link;
	bool pending;
	uint8_t kind;
	uint32_t len;
	struct link waiters;
	uint8_t what[];
};

/* A set of tables, 1 << enum fsm_index each, that a query has waited for. */
struct table_set {
	SLIST_ENTRY(table_set) link;
	uint64_t tables;
	struct link waiters;
};

struct watches {
	struct map groups;		/* owned */
	unsigned count;			/* watches */
	uint64_t seed;
	uint32_t *prefix_len;		/* owned: groups of WK_PREFIX by length of the prefix */
	uint32_t prefix_len_cap;
	SLIST_HEAD(, table_set) sets;	/* owned */
	uint64_t touched_tables;
	SLIST_HEAD(, group) pending;	/* touched since the last fire */
	struct link firing;
};

/* -- lists -- */

static void
link_init(struct link *l)
{
	l->next = l->prev = l;
}

static void
link_push(struct link *list, struct link *l)
{
	l->next = list;
	l->prev = list->prev;
	list->prev->next = l;
	list->prev = l;
}

static void
link_drop(struct link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
}

/* Appends all of `from` to `list` in constant time. */
static void
link_splice(struct link *list, struct link *from)
{
	if (from->next == from)
		return;
	from->next->prev = list->prev;
	list->prev->next = from->next;
	from->prev->next = list;
	list->prev = from->prev;
	link_init(from);
}

/* -- hashing -- */

static uint64_t
hash_step(uint64_t h, uint8_t c)
{
	h = (h ^ c) * 0x9e3779b97f4a7c15u;
	return h ^ (h >> 29);
}

static uint64_t
hash_end(uint64_t h, enum watch_kind kind)
{
	h = (h + (uint64_t)kind * 0xbf58476d1ce4e5b9u) * 0x94d049bb133111ebu;
	return h ^ (h >> 31);
}

static uint64_t
hash_all(const struct watches *w, enum watch_kind kind, struct span s)
{
	uint64_t h = w->seed;

	for (size_t i = 0; i < s.len; i++)
		h = hash_step(h, s.p[i]);
	return hash_end(h, kind);
}

static struct group *
group_find(const struct watches *w, enum watch_kind kind, struct span what, uint64_t hash)
{
	struct group *g;

	MAP_FOREACH_HASH(g, &w->groups, hash, node)
		if (g->kind == kind && span_eq(span_of(g->what, g->len), what))
			return g;
	return NULL;
}

/* Out of the map; its waiters are elsewhere by now. */
static void
group_free(struct watches *w, struct group *g)
{
	map_remove(&w->groups, &g->node);
	if (g->kind == WK_PREFIX)
		w->prefix_len[g->len]--;
	free(g);
}

static bool
prefix_len_room(struct watches *w, size_t len)
{
	uint32_t cap = w->prefix_len_cap == 0 ? 64 : w->prefix_len_cap;
	uint32_t *grown;

	if (len < w->prefix_len_cap)
		return true;
	while (cap <= len)
		cap *= 2;
	grown = realloc(w->prefix_len, cap * sizeof(*grown));
	if (grown == NULL)
		return false;
	memset(grown + w->prefix_len_cap, 0, (cap - w->prefix_len_cap) * sizeof(*grown));
	w->prefix_len = grown;
	w->prefix_len_cap = cap;
	return true;
}

static struct group *
group_get(struct watches *w, enum watch_kind kind, struct span what)
{
	uint64_t hash = hash_all(w, kind, what);
	struct group *g = group_find(w, kind, what, hash);

	if (g != NULL)
		return g;
	if (what.len > FSM_KV_KEY_BYTES_MAX || (kind == WK_PREFIX && !prefix_len_room(w, what.len)))
		return NULL;
	g = calloc(1, sizeof(*g) + what.len);
	if (g == NULL)
		return NULL;
	g->kind = (uint8_t)kind;
	g->len = (uint32_t)what.len;
	if (what.len > 0)
		memcpy(g->what, what.p, what.len);
	link_init(&g->waiters);
	map_add(&w->groups, &g->node, hash);
	if (kind == WK_PREFIX)
		w->prefix_len[g->len]++;
	return g;
}

/* -- life -- */

struct watches *
watches_new(void)
{
	struct watches *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return NULL;
	randombytes_buf(&w->seed, sizeof(w->seed));
	link_init(&w->firing);
	return w;
}

static void
free_list(struct link *l)
{
	while (l->next != l) {
		struct link *x = l->next;

		link_drop(x);
		free(x);
	}
}

void
watches_free(struct watches *w)
{
	struct map_node *tmp;
	struct table_set *s;
	struct group *g;

	if (w == NULL)
		return;
	MAP_FOREACH(g, &w->groups, node, tmp) {
		free_list(&g->waiters);
		free(g);
	}
	while ((s = SLIST_FIRST(&w->sets)) != NULL) {
		SLIST_REMOVE_HEAD(&w->sets, link);
		free_list(&s->waiters);
		free(s);
	}
	free_list(&w->firing);
	map_done(&w->groups);
	free(w->prefix_len);
	free(w);
}

unsigned
watches_count(const struct watches *w)
{
	return w->count;
}

/* The waiters for a set of tables; NULL: no memory. */
static struct link *
set_get(struct watches *w, uint64_t tables)
{
	struct table_set *s;

	SLIST_FOREACH(s, &w->sets, link)
		if (s->tables == tables)
			return &s->waiters;
	s = malloc(sizeof(*s));
	if (s == NULL)
		return NULL;
	s->tables = tables;
	link_init(&s->waiters);
	SLIST_INSERT_HEAD(&w->sets, s, link);
	return &s->waiters;
}

struct fsm_watch *
watches_add(struct watches *w, enum watch_kind kind, struct span what, uint64_t tables, fsm_watch_fn *fn, void *ctx)
{
	struct link *waiters = NULL;
	struct fsm_watch *x;
	struct group *g = NULL;

	if (w->count >= WATCHES_MAX)
		return NULL;
	x = calloc(1, sizeof(*x));
	if (x == NULL)
		return NULL;
	if (kind == WK_TABLE)
		waiters = set_get(w, tables);
	else if ((g = group_get(w, kind, what)) != NULL)
		waiters = &g->waiters;
	if (waiters == NULL) {
		free(x);
		return NULL;
	}
	x->fn = fn;
	x->ctx = ctx;
	x->group = g;
	link_push(waiters, &x->link);
	w->count++;
	return x;
}

void
watches_remove(struct watches *w, struct fsm_watch *x)
{
	struct group *g = x->group;

	link_drop(&x->link);
	free(x);
	w->count--;
	if (g != NULL && g->waiters.next == &g->waiters && !g->pending)
		group_free(w, g);
}

/* -- touching and firing -- */

static void
group_pend(struct watches *w, struct group *g)
{
	if (g == NULL || g->pending)
		return;
	g->pending = true;
	SLIST_INSERT_HEAD(&w->pending, g, pending_link);
}

void
watches_touch_key(struct watches *w, struct span key)
{
	uint64_t h = w->seed;

	if (w->groups.count == 0)
		return;
	for (size_t i = 0;; i++) {
		if (i < w->prefix_len_cap && w->prefix_len[i] > 0)
			group_pend(w, group_find(w, WK_PREFIX, span_of(key.p, i), hash_end(h, WK_PREFIX)));
		if (i == key.len)
			break;
		h = hash_step(h, key.p[i]);
	}
	group_pend(w, group_find(w, WK_KEY, key, hash_end(h, WK_KEY)));
}

void
watches_touch_tables(struct watches *w, uint64_t tables)
{
	w->touched_tables |= tables;
}

void
watches_touch_service(struct watches *w, struct span lower_name)
{
	if (w->groups.count > 0)
		group_pend(w, group_find(w, WK_SERVICE, lower_name, hash_all(w, WK_SERVICE, lower_name)));
}

void
watches_touch_all(struct watches *w)
{
	struct map_node *tmp;
	struct group *g;

	MAP_FOREACH(g, &w->groups, node, tmp)
		group_pend(w, g);
	w->touched_tables = UINT64_MAX;
}

/* Moves every waiter that was touched to the firing list. */
static void
collect(struct watches *w)
{
	struct table_set *s;
	struct group *g;

	while ((g = SLIST_FIRST(&w->pending)) != NULL) {
		SLIST_REMOVE_HEAD(&w->pending, pending_link);
		for (struct link *l = g->waiters.next; l != &g->waiters; l = l->next)
			((struct fsm_watch *)l)->group = NULL;
		link_splice(&w->firing, &g->waiters);
		group_free(w, g);
	}
	SLIST_FOREACH(s, &w->sets, link)
		if ((s->tables & w->touched_tables) != 0)
			link_splice(&w->firing, &s->waiters);
	w->touched_tables = 0;
}

void
watches_fire(struct watches *w)
{
	collect(w);
	while (w->firing.next != &w->firing) {
		struct fsm_watch *x = (struct fsm_watch *)w->firing.next;
		fsm_watch_fn *fn = x->fn;
		void *ctx = x->ctx;

		link_drop(&x->link);
		free(x);
		w->count--;
		fn(ctx);
	}
}
