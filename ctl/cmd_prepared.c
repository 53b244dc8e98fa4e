/* clusterctl query create, list, execute ...: prepared queries.  cmd_query.c has the queries of gossip. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/uuid.h"
#include "ctl/ctl.h"

#define TIMEOUT_S 60
#define BODY_BYTES_MAX (1u << 20)

/* "-" or FILE; a wrong file is told here. */
static bool
take_file(const struct ctl *ctl, const char *name, struct buf *body)
{
	struct buf arg = BUF_INIT(1u << 16);
	bool good;

	if (strcmp(name, "-") != 0)
		buf_u8(&arg, '@');
	buf_puts(&arg, name);
	good = ctl_value(ctl, buf_cstr(&arg), body);
	buf_done(&arg);
	return good;
}

static void
begin_path(const struct ctl *ctl, struct buf *path, const char *id, const char *what)
{
	buf_puts(path, "/v1/query");
	if (id != NULL) {
		buf_u8(path, '/');
		client_encode(path, id, false);
	}
	buf_puts(path, what);
	ctl_params(ctl, path);
}

/* The list of all, or NULL: told. */
static json_t *
get_list(struct ctl *ctl)
{
	struct buf path = BUF_INIT(1u << 20);
	json_t *list;

	begin_path(ctl, &path, NULL, "");
	list = ctl_get(ctl, buf_cstr(&path));
	buf_done(&path);
	return list;
}

/* The query of this id or exact name; NULL: told.  The caller json_decref()s it. */
static json_t *
get_one(struct ctl *ctl, const char *wanted)
{
	json_t *list = get_list(ctl), *row, *found = NULL;
	size_t i;

	if (list == NULL)
		return NULL;
	json_array_foreach(list, i, row)
		if (strcmp(json_text(row, "ID"), wanted) == 0 || strcmp(json_text(row, "Name"), wanted) == 0)
			found = row;
	if (found == NULL)
		fprintf(stderr, "clusterctl: %s: there is no query \"%s\"; `clusterctl query list` shows them\n",
		    ctl->verb->words, wanted);
	json_incref(found);
	json_decref(list);
	return found;
}

/* Its id, in `id`; false: told. */
static bool
find_id(struct ctl *ctl, const char *wanted, char id[UUID_CHARS + 1])
{
	bool is_id = uuid_parse(span_str(wanted), NULL);
	json_t *q = is_id ? NULL : get_one(ctl, wanted);
	bool found = span_copy(span_str(q == NULL ? wanted : json_text(q, "ID")), id, UUID_CHARS + 1);

	json_decref(q);
	return (is_id || q != NULL) && found;
}

/* -- keeping -- */

int
prepared_create(struct ctl *ctl)
{
	struct buf path = BUF_INIT(1u << 20), body = BUF_INIT(BODY_BYTES_MAX);
	struct client_answer a;
	json_t *answer;
	int rc = 1;

	if (take_file(ctl, ctl->argv[0], &body)) {
		begin_path(ctl, &path, NULL, "");
		if (client_do(ctl_client(ctl), "POST", buf_cstr(&path), buf_span(&body), TIMEOUT_S, &a)) {
			answer = json_loadb((const char *)a.body.data, a.body.len, 0, NULL);
			if (ctl->json)
				out_json(answer);
			else
				puts(json_text(answer, "ID"));
			json_decref(answer);
			rc = 0;
		} else {
			rc = client_complain(ctl->client, ctl->verb->words, &a);
		}
		client_answer_done(&a);
	}
	buf_done(&path);
	buf_done(&body);
	return rc;
}

/* PUT or DELETE of one. */
static int
change(struct ctl *ctl, const char *method, struct span body, const char *done)
{
	struct buf path = BUF_INIT(1u << 20);
	struct client_answer a;
	char id[UUID_CHARS + 1];
	int rc = 1;

	if (find_id(ctl, ctl->argv[0], id)) {
		begin_path(ctl, &path, id, "");
		if (client_do(ctl_client(ctl), method, buf_cstr(&path), body, TIMEOUT_S, &a)) {
			printf("%s query %s\n", done, id);
			rc = 0;
		} else {
			rc = client_complain(ctl->client, ctl->verb->words, &a);
		}
		client_answer_done(&a);
	}
	buf_done(&path);
	return rc;
}

int
prepared_update(struct ctl *ctl)
{
	struct buf body = BUF_INIT(BODY_BYTES_MAX);
	int rc = take_file(ctl, ctl->argv[1], &body) ? change(ctl, "PUT", buf_span(&body), "Updated") : 1;

	buf_done(&body);
	return rc;
}

int
prepared_delete(struct ctl *ctl)
{
	return change(ctl, "DELETE", SPAN_NONE, "Deleted");
}

/* -- showing -- */

static const char *
service(json_t *row)
{
	return json_text(json_object_get(row, "Service"), "Service");
}

static const char *
kind(json_t *row)
{
	return json_text(json_object_get(row, "Template"), "Type")[0] != '\0' ? "template" : "query";
}

/* "nearest 2, dc2, dc3" */
static const char *
failover(json_t *row)
{
	const json_t *f = json_object_get(json_object_get(row, "Service"), "Failover"), *dc;
	json_int_t nearest = json_integer_value(json_object_get(f, "NearestN"));
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

int
prepared_list(struct ctl *ctl)
{
	static const struct column columns[] = {
		{ "ID", "ID", NULL }, { "Name", "Name", NULL }, { "Kind", NULL, kind }, { "Service", NULL, service },
		{ "Failover", NULL, failover }, { "Session", "Session", NULL }, { NULL, NULL, NULL },
	};
	json_t *list = get_list(ctl);

	if (list == NULL)
		return 1;
	if (ctl->json)
		out_json(list);
	else
		out_rows(list, columns);
	json_decref(list);
	return 0;
}

int
prepared_show(struct ctl *ctl)
{
	json_t *q = get_one(ctl, ctl->argv[0]);

	if (q == NULL)
		return 1;
	out_json(q);
	json_decref(q);
	return 0;
}

/* -- carrying out -- */

static const char *
node_name(json_t *row)
{
	return json_text(json_object_get(row, "Node"), "Node");
}

static const char *
instance_id(json_t *row)
{
	return json_text(json_object_get(row, "Service"), "ID");
}

/* Of the service, or else of its node. */
static const char *
address(json_t *row)
{
	const char *own = json_text(json_object_get(row, "Service"), "Address");

	return own[0] != '\0' ? own : json_text(json_object_get(row, "Node"), "Address");
}

static const char *
port(json_t *row)
{
	return row_keep(row, "port", json_sprintf("%" JSON_INTEGER_FORMAT,
	    json_integer_value(json_object_get(json_object_get(row, "Service"), "Port"))));
}

static void
print_found(const json_t *answer)
{
	static const struct column columns[] = {
		{ "Node", NULL, node_name }, { "ID", NULL, instance_id }, { "Address", NULL, address },
		{ "Port", NULL, port }, { NULL, NULL, NULL },
	};
	json_int_t tries = json_integer_value(json_object_get(answer, "Failovers"));
	json_t *nodes = json_object_get(answer, "Nodes");

	printf("Service %s, datacenter %s", json_text(answer, "Service"), json_text(answer, "Datacenter"));
	if (tries > 0)
		printf(" (%" JSON_INTEGER_FORMAT " other %s asked)", tries, tries == 1 ? "was" : "were");
	puts(json_array_size(nodes) > 0 ? ":" : ": no instance.");
	if (json_array_size(nodes) > 0)
		out_rows(nodes, columns);
}

/* GETs what is behind the id or name. */
static json_t *
get_done(struct ctl *ctl, const char *what)
{
	struct buf path = BUF_INIT(1u << 20);
	json_t *answer;

	begin_path(ctl, &path, ctl->argv[0], what);
	answer = ctl_get(ctl, buf_cstr(&path));
	buf_done(&path);
	return answer;
}

int
prepared_execute(struct ctl *ctl)
{
	json_t *answer = get_done(ctl, "/execute");

	if (answer == NULL)
		return 1;
	if (ctl->json)
		out_json(answer);
	else
		print_found(answer);
	json_decref(answer);
	return 0;
}

int
prepared_explain(struct ctl *ctl)
{
	json_t *answer = get_done(ctl, "/explain");

	if (answer == NULL)
		return 1;
	out_json(json_object_get(answer, "Query"));
	json_decref(answer);
	return 0;
}
