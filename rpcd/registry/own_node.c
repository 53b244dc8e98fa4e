/* See own_node.h. */
#include <string.h>

#include "rpcd/registry/own_node.h"

#define SEGMENT_KEY "consul-network-segment"	/* that each node has */

/* Where this key is, or would be. */
static uint32_t
place_of(const struct span_map *map, struct span key)
{
	uint32_t i = 0;

	while (i < map->n && span_cmp(map->kv[i][0], key) < 0)
		i++;
	return i;
}

/* What is there already stays. */
static void
add_pair(struct span_map *map, struct span key, struct span value)
{
	uint32_t at = place_of(map, key);

	if (at < map->n && span_eq(map->kv[at][0], key))
		return;
	memmove(&map->kv[at + 1], &map->kv[at], (map->n - at) * sizeof(*map->kv));
	map->kv[at][0] = key;
	map->kv[at][1] = value;
	map->n++;
}

/* With room for `more` others. */
static bool
begin_map(const struct conf_list *list, size_t more, struct arena *a, struct span_map *map)
{
	*map = (struct span_map){ .kv = arena_array(a, list->count + more, sizeof(*map->kv)), .set = true };
	for (size_t i = 0; i < list->count && map->kv != NULL; i++) {
		const char *equals = strchr(list->items[i], '=');

		add_pair(map, span_of(list->items[i], (size_t)(equals - list->items[i])), span_str(equals + 1));
	}
	return map->kv != NULL;
}

static void
add_address(struct span_map *map, const char *name, const char *name4, const char *name6, const char *ip)
{
	if (ip == NULL)
		return;
	add_pair(map, span_str(name), span_str(ip));
	add_pair(map, span_str(strchr(ip, ':') == NULL ? name4 : name6), span_str(ip));
}

bool
own_node_make(const struct cluster_conf *c, struct arena *a, struct own_node *out)
{
	if (!begin_map(&c->tagged_addresses, 4, a, &out->tagged) || !begin_map(&c->node_meta, 1, a, &out->meta))
		return false;
	add_address(&out->tagged, "lan", "lan_ipv4", "lan_ipv6", c->advertise);
	add_address(&out->tagged, "wan", "wan_ipv4", "wan_ipv6", c->advertise_wan);
	add_pair(&out->meta, span_str(SEGMENT_KEY), span_str(""));
	return true;
}

/* Keys of `own` are in it once. */
static bool
same_map(const struct span_map *own, const struct span_map *there)
{
	if (own->n != there->n)
		return false;
	for (uint32_t i = 0; i < there->n; i++) {
		uint32_t at = place_of(own, there->kv[i][0]);

		if (at == own->n || !span_eq(own->kv[at][0], there->kv[i][0]) ||
		    !span_eq(own->kv[at][1], there->kv[i][1]))
			return false;
	}
	return true;
}

bool
own_node_is(const struct own_node *own, const struct node *there)
{
	return same_map(&own->tagged, &there->TaggedAddresses) && same_map(&own->meta, &there->Meta);
}
