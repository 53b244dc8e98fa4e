/*
 * See collisions.h.  Gossip tells of members on each node and without a leader; which of two is in the catalog is asked
 * where that can be answered.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/record/member.h"
#include "ctl/collisions.h"
#include "ctl/ctl.h"

#define PAIRS_SHOWN 4
#define TEXT_BYTES 4096

struct one {				/* a member of ours that lives; texts are of the list */
	const char *name, *id, *addr, *dc;
	json_int_t port;
};

static bool
read_member(const json_t *m, struct one *out)
{
	const json_t *tags = json_object_get(m, "Tags");
	json_int_t status = json_int(m, "Status");

	*out = (struct one){ .name = json_text(m, "Name"), .id = json_text(tags, "id"), .addr = json_text(m, "Addr"),
	    .dc = json_text(tags, "dc"), .port = json_int(m, "Port") };
	return out->id[0] != '\0' && (status == MEMBER_ALIVE || status == MEMBER_LEAVING);
}

static struct one *
read_members(const json_t *list, size_t *count)
{
	struct one *v = calloc(json_array_size(list) + 1, sizeof(*v));
	const json_t *m;
	size_t i;

	*count = 0;
	if (v == NULL)
		abort();
	json_array_foreach(list, i, m)
		*count += read_member(m, &v[*count]);
	return v;
}

static int
by_id(const void *a, const void *b)
{
	return strcasecmp(((const struct one *)a)->id, ((const struct one *)b)->id);
}

static int
by_name(const void *a, const void *b)
{
	return strcasecmp(((const struct one *)a)->name, ((const struct one *)b)->name);
}

static void
say_pair(struct collisions *c, const struct one *a, const struct one *b, bool ids, bool wan)
{
	bool a_in = !wan && c->listed(c->ctx, a->name, a->id), b_in = !wan && c->listed(c->ctx, b->name, b->id);
	struct buf text = BUF_INIT(TEXT_BYTES);

	if (ids)
		buf_printf(&text, "%s (%s) and %s (%s) have the same node id %s, so a data directory or an "
		    "image was copied", a->name, a->addr, b->name, b->addr, a->id);
	else
		buf_printf(&text, "%s (%s) and %s (%s) have the same name but for case, and are two nodes", a->name,
		    a->addr, b->name, b->addr);
	if (a_in != b_in)
		buf_printf(&text, "; %s is kept out of the catalog while the other one is alive",
		    a_in ? b->name : a->name);
	c->say(c->ctx, ids ? "Stop the daemons of the copy, remove its data_dir and start them" :
	    "Give the newcomer a node_name of its own; if it is a copy, remove its data_dir too", buf_cstr(&text));
	buf_done(&text);
}

/* In the order of v, where members that collide stand side by side. */
static void
say_pairs(struct collisions *c, const struct one *v, size_t count, bool ids, bool wan)
{
	for (size_t i = 1; i < count; i++) {
		const struct one *a = &v[i - 1], *b = &v[i];
		bool same_place = strcmp(a->addr, b->addr) == 0 && a->port == b->port;
		bool collide = ids ? by_id(a, b) == 0 : by_name(a, b) == 0 && by_id(a, b) != 0;

		if (same_place || !collide || (wan && strcmp(a->dc, b->dc) == 0))
			continue;		/* at one place: one node, before and after it was renamed */
		if (c->said < PAIRS_SHOWN)
			say_pair(c, a, b, ids, wan);
		else if (c->said == PAIRS_SHOWN)
			c->say(c->ctx, "clusterctl members --json", "more members collide");
		c->said++;
	}
}

void
collisions_find(struct collisions *c, const json_t *members, bool wan)
{
	size_t count;
	struct one *v = read_members(members, &count);

	qsort(v, count, sizeof(*v), by_id);
	say_pairs(c, v, count, true, wan);
	qsort(v, count, sizeof(*v), by_name);
	say_pairs(c, v, count, false, wan);
	free(v);
}
