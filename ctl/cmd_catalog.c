/* clusterctl catalog: nodes, services, datacenters, service NAME. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

static void
print_rows(json_t *list, const char *const *keys, const char *const *heads, unsigned columns)
{
	unsigned rows = (unsigned)json_array_size(list) + 1, at = columns;
	const char **cells = calloc((size_t)rows * columns, sizeof(*cells));
	json_t *m;
	size_t i;

	if (cells == NULL)
		return;
	memcpy(cells, heads, columns * sizeof(*cells));
	json_array_foreach(list, i, m)
		for (unsigned c = 0; c < columns; c++)
			cells[at++] = json_text(m, keys[c]);
	out_table(cells, rows, columns);
	free(cells);
}

static void
print_nodes(json_t *list)
{
	static const char *const keys[] = { "Node", "ID", "Address", "Datacenter" };
	static const char *const heads[] = { "Node", "ID", "Address", "DC" };

	print_rows(list, keys, heads, 4);
}

static void
print_instances(json_t *list)
{
	static const char *const keys[] = { "Node", "Address", "ServiceID", "ServiceAddress" };
	static const char *const heads[] = { "Node", "Address", "ServiceID", "ServiceAddress" };

	print_rows(list, keys, heads, 4);
}

static void
print_names(json_t *list)
{
	const char *key;
	json_t *value;
	size_t i;

	if (json_is_array(list)) {
		json_array_foreach(list, i, value)
			printf("%s\n", json_string_value(value));
	} else {
		json_object_foreach(list, key, value)
			printf("%s\n", key);
	}
}

/* "?dc=..." or "&dc=..." when there is a value. */
static void
put_param(struct buf *path, const char *name, const char *value)
{
	if (value == NULL)
		return;
	buf_printf(path, "%c%s=", memchr(path->data, '?', path->len) == NULL ? '?' : '&', name);
	client_encode(path, value, false);
}

int
cmd_catalog(struct ctl *ctl, int argc, char **argv)
{
	const struct command *cmd = ctl_find("catalog");
	const char *dc = NULL, *near = NULL, *verb;
	const struct option_spec specs[] = { { "dc", NULL, &dc }, { "near", NULL, &near } };
	int n = ctl_options(cmd, argc, argv, specs, 2);
	void (*print)(json_t *) = print_names;
	struct buf path = BUF_INIT(65536);
	json_t *list;

	if (n < 0)
		return 2;
	verb = n > 0 ? argv[1] : "";
	if (n > 0 && ctl_in_vain("catalog", verb, specs, 2, strcmp(verb, "datacenters") == 0 ? "" :
	    strcmp(verb, "services") == 0 ? "dc" : "dc near"))
		return ctl_usage(cmd);
	if (strcmp(verb, "nodes") == 0 && n == 1)
		print = print_nodes;
	else if (strcmp(verb, "service") == 0 && n == 2)
		print = print_instances;
	else if (n != 1 || (strcmp(verb, "services") != 0 && strcmp(verb, "datacenters") != 0))
		return ctl_usage(cmd);
	buf_printf(&path, "/v1/catalog/%s", verb);
	if (n == 2) {
		buf_puts(&path, "/");
		client_encode(&path, argv[2], false);
	}
	put_param(&path, "dc", dc);
	put_param(&path, "near", near);
	list = client_get_json(ctl_client(ctl), "catalog", buf_cstr(&path));
	buf_done(&path);
	if (list == NULL)
		return 1;
	if (ctl->json)
		out_json(list);
	else
		print(list);
	json_decref(list);
	return 0;
}
