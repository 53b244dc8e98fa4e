/* clusterctl query create, list, execute ...: prepared queries.  cmd_query.c has the queries of gossip. */
#include <stdio.h>

#include "common/base/uuid.h"
#include "ctl/resource.h"

/* -- keeping -- */

/* Sends a file as it is: to a query, or for a new one (id NULL).  NULL after a complaint. */
static json_t *
send_file(struct ctl *ctl, const char *file, const char *wanted, char *id, size_t cap)
{
	struct buf path = BUF_INIT(RESOURCE_PATH_MAX), body = BUF_INIT(RESOURCE_BODY_MAX);
	json_t *answer = NULL;

	if (ctl_file(ctl, file, &body) &&
	    (wanted == NULL || resource_id(ctl, &resource_queries, wanted, id, cap))) {
		resource_path(ctl, &path, "query", wanted != NULL ? id : NULL, "");
		answer = resource_ask_bytes(ctl, wanted != NULL ? "PUT" : "POST", buf_cstr(&path), buf_span(&body));
	}
	buf_done(&path);
	buf_done(&body);
	return answer;
}

static void
print_id(json_t *answer)
{
	puts(json_text(answer, "ID"));
}

int
prepared_create(struct ctl *ctl)
{
	return ctl_out(ctl, send_file(ctl, ctl->argv[0], NULL, NULL, 0), print_id);
}

int
prepared_update(struct ctl *ctl)
{
	char id[UUID_CHARS + 1];
	json_t *answer = send_file(ctl, ctl->argv[1], ctl->argv[0], id, sizeof(id));

	if (answer == NULL)
		return 1;
	printf("Updated query %s\n", id);
	json_decref(answer);
	return 0;
}

/* -- showing -- */

static const char *
kind(json_t *row)
{
	return json_text_at(row, "Template.Type")[0] != '\0' ? "template" : "query";
}

/* "nearest 2, dc2, dc3" */
static const char *
failover(json_t *row)
{
	const json_t *f = json_at(row, "Service.Failover"), *dc;
	json_int_t nearest = json_int(f, "NearestN");
	struct buf text = BUF_INIT(65536);
	const char *kept;
	size_t i;

	if (nearest > 0)
		buf_printf(&text, "nearest %" JSON_INTEGER_FORMAT, nearest);
	json_array_foreach(json_object_get(f, "Datacenters"), i, dc)
		buf_printf(&text, "%s%s", text.len > 0 ? ", " : "", json_string_value(dc));
	kept = row_keep(row, "failover", json_string(buf_cstr(&text)));
	buf_done(&text);
	return kept;
}

static int
show_json(struct ctl *ctl UNUSED, json_t *query)
{
	out_json(query);
	json_decref(query);
	return 0;
}

const struct resource resource_queries = {
	.words = "query", .noun = "query", .one = "query", .all = "query", .names = RESOURCE_IN_LIST,
	.columns = COLUMNS(
		COL("ID"), COL("Name"), COL_BY("Kind", kind), COL_AS("Service", "Service.Service"),
		COL_BY("Failover", failover), COL("Session")),
	.show = show_json,
};

/* -- carrying out -- */

/* Of the service, or else of its node. */
static const char *
address(json_t *row)
{
	const char *own = json_text_at(row, "Service.Address");

	return own[0] != '\0' ? own : json_text_at(row, "Node.Address");
}

static void
print_found(json_t *answer)
{
	json_int_t tries = json_int(answer, "Failovers");
	json_t *nodes = json_object_get(answer, "Nodes");

	printf("Service %s, datacenter %s", json_text(answer, "Service"), json_text(answer, "Datacenter"));
	if (tries > 0)
		printf(" (%" JSON_INTEGER_FORMAT " other %s asked)", tries, tries == 1 ? "was" : "were");
	puts(json_array_size(nodes) > 0 ? ":" : ": no instance.");
	if (json_array_size(nodes) > 0)
		out_rows(nodes, COLUMNS(COL_AS("Node", "Node.Node"), COL_AS("ID", "Service.ID"),
		    COL_BY("Address", address), COL_AS("Port", "Service.Port")));
}

int
prepared_execute(struct ctl *ctl)
{
	return ctl_show(ctl, "/v1/query/", ctl->argv[0], "/execute", print_found);
}

int
prepared_explain(struct ctl *ctl)
{
	struct buf path = BUF_INIT(RESOURCE_PATH_MAX);
	json_t *answer;

	resource_path(ctl, &path, "query", ctl->argv[0], "/explain");
	answer = ctl_get(ctl, buf_cstr(&path));
	buf_done(&path);
	if (answer == NULL)
		return 1;
	out_json(json_object_get(answer, "Query"));
	json_decref(answer);
	return 0;
}
