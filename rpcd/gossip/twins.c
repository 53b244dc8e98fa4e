/* See twins.h. */
#include <stdio.h>

#include "common/base/log.h"
#include "rpcd/gossip/twins.h"

#define NAME_BYTES (2 * MEMBER_NAME_BYTES_MAX)

static bool
is_living(const struct member *m)
{
	return m->status == MEMBER_ALIVE || m->status == MEMBER_LEAVING;
}

static bool
is_same_place(const struct member *a, const struct member *b)
{
	return a->port == b->port && span_eq(span_of(a->addr, a->addr_len), span_of(b->addr, b->addr_len));
}

/* A node of ours that lives elsewhere and has this id, or (not in other datacenters) this name. */
static bool
collides(const struct member *m, const struct twin *t, const struct twins_self *self, struct span name, bool *by_id)
{
	struct span id = member_tag(m, "id");

	if (!is_living(m) || id.len == 0 || span_eq(m->name, name) || (t->own != NULL && is_same_place(m, t->own)))
		return false;
	*by_id = span_eq_nocase(id, span_str(self->id));
	return *by_id || span_eq_nocase(m->name, name);
}

static bool
find_in_pool(const struct members *v, const struct twins_self *self, enum gossip_pool pool, struct span name,
    struct twin *out)
{
	out->pool = pool;
	out->own = members_find(v, pool, name);
	for (unsigned i = 0; i < members_count(v, pool); i++) {
		const struct member *m = members_at(v, pool, i);

		if (pool == POOL_LAN && !span_eq_nocase(member_tag(m, "dc"), span_str(self->datacenter)))
			continue;
		if (collides(m, out, self, name, &out->by_id)) {
			out->member = m;
			return true;
		}
	}
	return false;
}

bool
twins_find(const struct members *v, const struct twins_self *self, struct twin *out)
{
	char wan[2 * MEMBER_NAME_BYTES_MAX];

	*out = (struct twin){ .member = NULL };
	snprintf(wan, sizeof(wan), "%s.%s", self->name, self->datacenter);
	return find_in_pool(v, self, POOL_LAN, span_str(self->name), out) ||
	    find_in_pool(v, self, POOL_WAN, span_str(wan), out);
}

/* What this means for the catalog of this datacenter. */
static const char *
verdict_of(const struct twin *t, enum twins_standing standing)
{
	if (t->pool == POOL_WAN)
		return "they are in two datacenters, so each is in its own catalog";
	return standing == TWINS_LISTED ? "this node is in the catalog, and the other one is kept out" :
	    standing == TWINS_KEPT_OUT ? "this node is kept out of the catalog while the other one is alive" :
	    "one of them is kept out of the catalog";
}

void
twins_text(const struct twins_self *self, const struct twin *t, enum twins_standing standing,
    char dst[TWINS_TEXT_BYTES])
{
	char ip[46] = "?", other_ip[46], name[NAME_BYTES];

	if (t->own != NULL)
		member_ip(t->own, ip);
	member_ip(t->member, other_ip);
	log_safe(t->member->name, name, sizeof(name));
	if (t->by_id)
		snprintf(dst, TWINS_TEXT_BYTES, "this node, %s (%s), and %s (%s) have the same node id %s, so a data "
		    "directory or an image was copied; %s", self->name, ip, name, other_ip, self->id,
		    verdict_of(t, standing));
	else
		snprintf(dst, TWINS_TEXT_BYTES, "this node, %s (%s), and %s (%s) have the same name but for case, and "
		    "are two nodes; %s", self->name, ip, name, other_ip, verdict_of(t, standing));
}

void
twins_remedy(const struct twins_self *self, const struct twin *t, char dst[TWINS_TEXT_BYTES])
{
	if (t->by_id)
		snprintf(dst, TWINS_TEXT_BYTES, "Stop the daemons of the copy, remove its data_dir (%s) and start them",
		    self->data_dir);
	else
		snprintf(dst, TWINS_TEXT_BYTES, "Give the newcomer a node_name of its own; if it is a copy, remove its "
		    "data_dir (%s) too", self->data_dir);
}
