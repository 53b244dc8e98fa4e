/*
 * clusterctl rtt: the estimated round trip between two members.  This node's gossipd is asked first: it
 * also knows members that are in no catalog.  Of members that it has not probed yet the servers may know.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/record/coordinate.h"
#include "common/record/records.h"
#include "ctl/ctl.h"

#define TIMEOUT_S 30

/* {"Vec": [...], "Error": ..., ...}; false when it is no coordinate. */
static bool
read_coordinate(json_t *coord, struct coordinate *out)
{
	json_t *vec = json_object_get(coord, "Vec");

	if (json_array_size(vec) != COORDINATE_DIMENSIONS)
		return false;
	for (size_t i = 0; i < COORDINATE_DIMENSIONS; i++)
		out->vec[i] = json_number_value(json_array_get(vec, i));
	out->error = json_number_value(json_object_get(coord, "Error"));
	out->adjustment = json_number_value(json_object_get(coord, "Adjustment"));
	out->height = json_number_value(json_object_get(coord, "Height"));
	return coordinate_plausible(out);
}

/* GETs prefix and the name; NULL unless it is answered with JSON.  *out is the answer, for complaints. */
static json_t *
get(struct ctl *ctl, const char *prefix, const char *name, const char *suffix, struct client_answer *out)
{
	struct buf path = BUF_INIT(8192);
	json_t *got = NULL;

	buf_puts(&path, prefix);
	client_encode(&path, name, false);
	buf_puts(&path, suffix);
	if (client_do(ctl_client(ctl), "GET", buf_cstr(&path), SPAN_NONE, TIMEOUT_S, out))
		got = json_loadb((const char *)out->body.data, out->body.len, JSON_ALLOW_NUL, NULL);
	buf_done(&path);
	return got;
}

/* In the catalog of the servers: [{Node, Segment, Coord}]. */
static bool
find_in_catalog(struct ctl *ctl, const char *name, struct coordinate *out)
{
	struct client_answer a;
	json_t *list = get(ctl, "/v1/coordinate/node/", name, "", &a), *entry;
	bool found = false;
	size_t i;

	json_array_foreach(list, i, entry)
		if (!found)
			found = read_coordinate(json_object_get(entry, "Coord"), out);
	json_decref(list);
	client_answer_done(&a);
	return found;
}

/* Members of the WAN pool are called "node.datacenter". */
static bool
is_wan_name(const char *name, const char *node, const char *dc)
{
	size_t n = strlen(node);

	return strncmp(name, node, n) == 0 && name[n] == '.' && strcmp(name + n + 1, dc) == 0;
}

/* Servers of all datacenters, as servers know them: [{Datacenter, Coordinates: [{Node, Coord}]}]. */
static bool
find_in_datacenters(struct ctl *ctl, const char *name, struct coordinate *out)
{
	struct client_answer a;
	json_t *dcs = get(ctl, "/v1/coordinate/datacenters", "", "", &a), *dc, *entry;
	bool found = false;
	size_t i, k;

	json_array_foreach(dcs, i, dc)
		json_array_foreach(json_object_get(dc, "Coordinates"), k, entry)
			if (!found && is_wan_name(name, json_text(entry, "Node"), json_text(dc, "Datacenter")))
				found = read_coordinate(json_object_get(entry, "Coord"), out);
	json_decref(dcs);
	client_answer_done(&a);
	return found;
}

static int
find_coordinate(struct ctl *ctl, const char *name, bool wan, struct coordinate *out)
{
	struct client_answer a;
	json_t *entry = get(ctl, "/v1/agent/coordinate/", name, wan ? "?wan=1" : "", &a);
	bool found = read_coordinate(json_object_get(entry, "Coord"), out);
	int rc = 0;

	json_decref(entry);
	if (!found && a.status != 0)
		found = wan ? find_in_datacenters(ctl, name, out) : find_in_catalog(ctl, name, out);
	if (!found && (a.status == 404 || (a.status >= 200 && a.status < 300))) {
		(void)ctl_complain(ctl, "no coordinate of \"%s\" is known: either it is not a member (check with: "
		    "clusterctl members%s),\nor it publishes none, or no member has probed it yet: try again in a "
		    "minute.", name, wan ? " --wan" : "");
		rc = 1;
	} else if (!found) {
		rc = client_complain(ctl->client, "rtt", &a);
	}
	client_answer_done(&a);
	return rc;
}

/* This node's name in the pool; the caller frees it.  NULL: complained. */
static char *
own_name(struct ctl *ctl, bool wan)
{
	json_t *self = ctl_get(ctl, "/v1/agent/self");
	const char *name = json_text_at(self, "Config.NodeName");
	const char *dc = json_text_at(self, "Config.Datacenter");
	char *out = NULL;

	if (self != NULL && asprintf(&out, wan ? "%s.%s" : "%s", name, dc) < 0)
		out = NULL;
	json_decref(self);
	return out;
}

static void
show(const struct ctl *ctl, const char *from, const char *to, bool wan, int64_t ns)
{
	double ms = (double)ns / 1e6;

	if (ctl->json)
		out_json_new(json_pack("{s:s, s:s, s:s, s:I, s:f}", "From", from, "To", to, "Pool",
		    wan ? "WAN" : "LAN", "Nanoseconds", (json_int_t)ns, "Milliseconds", ms));
	else
		printf("Estimated %s <-> %s rtt: %.3f ms (using %s coordinates)\n", from, to, ms, wan ? "WAN" : "LAN");
}

int
cmd_rtt(struct ctl *ctl)
{
	bool wan = ctl_opt(ctl, "wan") != NULL;
	char *own = ctl->argc == 1 ? own_name(ctl, wan) : NULL;
	const char *from = ctl->argv[0], *to = ctl->argc == 2 ? ctl->argv[1] : own;
	struct coordinate a, b;
	int rc;

	if (to == NULL)
		return 1;
	if (strcmp(from, to) == 0) {
		(void)ctl_complain(ctl, "name two different members; \"%s\" is %s", to,
		    own == NULL ? "given twice" : "this node itself");
		rc = 2;
	} else if ((rc = find_coordinate(ctl, from, wan, &a)) == 0 && (rc = find_coordinate(ctl, to, wan, &b)) == 0) {
		show(ctl, from, to, wan, coordinate_rtt(&a, &b).ns);
	}
	free(own);
	return rc;
}
