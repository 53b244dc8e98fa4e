/* The table of what tokens may do, see grants.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/base/map.h"
#include "rpcd/acl/grants.h"
#include "rpcd/acl/resolver.h"

#define LARGEST 4			/* of all bytes, what one may take */

struct grant {
	struct map_node node;		/* by the first bytes of its key, which is a hash already */
	TAILQ_ENTRY(grant) used;	/* in its list */
	uint8_t key[GRANT_KEY_BYTES];
	struct acl_rights *rights;	/* NULL: no token has this secret */
	struct mono at;			/* when servers said so */
	size_t bytes;
};

struct list {
	TAILQ_HEAD(, grant) entries;	/* the first was asked for longest ago */
	unsigned count;
};

struct grants {
	struct grants_conf conf;
	struct list kept, unknown;
	uint64_t bytes;
	struct map entries;
};

static uint64_t
hash_of(const uint8_t key[GRANT_KEY_BYTES])
{
	uint64_t hash;

	memcpy(&hash, key, sizeof(hash));
	return hash;
}

static struct grant *
find_grant(const struct grants *g, const uint8_t key[GRANT_KEY_BYTES])
{
	struct grant *e;

	MAP_FOREACH_HASH(e, &g->entries, hash_of(key), node)
		if (memcmp(e->key, key, GRANT_KEY_BYTES) == 0)
			return e;
	return NULL;
}

static struct list *
list_of(struct grants *g, const struct grant *e)
{
	return e->rights != NULL ? &g->kept : &g->unknown;
}

static void
unlink_entry(struct list *l, struct grant *e)
{
	TAILQ_REMOVE(&l->entries, e, used);
	l->count--;
}

static void
link_newest(struct list *l, struct grant *e)
{
	TAILQ_INSERT_TAIL(&l->entries, e, used);
	l->count++;
}

static void
drop_grant(struct grants *g, struct grant *e)
{
	map_remove(&g->entries, &e->node);
	unlink_entry(list_of(g, e), e);
	g->bytes -= e->bytes;
	acl_rights_free(e->rights);
	free(e);
}

struct grants *
grants_new(const struct grants_conf *conf)
{
	struct grants *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return NULL;
	TAILQ_INIT(&g->kept.entries);
	TAILQ_INIT(&g->unknown.entries);
	g->conf = *conf;
	return g;
}

void
grants_clear(struct grants *g)
{
	struct map_node *tmp;
	struct grant *e;

	MAP_FOREACH(e, &g->entries, node, tmp)
		drop_grant(g, e);
}

void
grants_free(struct grants *g)
{
	if (g == NULL)
		return;
	grants_clear(g);
	map_done(&g->entries);
	free(g);
}

enum grant_got
grants_get(struct grants *g, const uint8_t key[GRANT_KEY_BYTES], struct mono now, int64_t wall, struct mono ttl,
    struct acl_rights **out)
{
	struct grant *e = find_grant(g, key);
	struct mono life;

	*out = NULL;
	if (e == NULL)
		return GRANT_NONE;
	life = e->rights == NULL ? g->conf.unknown_ttl : ttl;
	if (e->rights != NULL && e->rights->expires != 0 && wall >= e->rights->expires) {
		drop_grant(g, e);
		return GRANT_NONE;
	}
	bool fresh = mono_before(now, mono_add(e->at, life));
	if (e->rights == NULL && !fresh) {
		drop_grant(g, e);		/* it may be one's by now */
		return GRANT_NONE;
	}
	unlink_entry(list_of(g, e), e);
	link_newest(list_of(g, e), e);
	*out = e->rights;
	return fresh ? GRANT_FRESH : GRANT_OLD;
}

static void
make_room(struct grants *g)
{
	while (g->kept.count > g->conf.kept_max || g->bytes > g->conf.bytes_max)
		drop_grant(g, TAILQ_FIRST(&g->kept.entries));
	while (g->unknown.count > g->conf.unknown_max)
		drop_grant(g, TAILQ_FIRST(&g->unknown.entries));
}

void
grants_put(struct grants *g, const uint8_t key[GRANT_KEY_BYTES], struct mono now, struct acl_rights *rights)
{
	size_t bytes = rights == NULL ? 0 : sizeof(struct grant) + sizeof(*rights) + acl_set_bytes(rights->set);
	struct grant *e = find_grant(g, key);

	if (e != NULL && e->rights == rights) {
		e->at = now;
		return;
	}
	if (e != NULL)
		drop_grant(g, e);
	if (bytes > g->conf.bytes_max / LARGEST || (e = calloc(1, sizeof(*e))) == NULL)
		return;
	memcpy(e->key, key, GRANT_KEY_BYTES);
	e->rights = rights == NULL ? NULL : acl_rights_keep(rights);
	e->at = now;
	e->bytes = bytes;
	map_add(&g->entries, &e->node, hash_of(key));
	g->bytes += bytes;
	link_newest(list_of(g, e), e);
	make_room(g);
}

void
grants_count(const struct grants *g, unsigned *kept, unsigned *unknown, uint64_t *bytes)
{
	*kept = g->kept.count;
	*unknown = g->unknown.count;
	*bytes = g->bytes;
}
