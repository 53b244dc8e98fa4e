/* clusterctl catalog: nodes, services, datacenters, service NAME. */
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"

static void
print_nodes(json_t *list)
{
	static const struct column columns[] = {
		{ "Node", "Node", NULL }, { "ID", "ID", NULL }, { "Address", "Address", NULL },
		{ "DC", "Datacenter", NULL }, { NULL, NULL, NULL },
	};

	out_rows(list, columns);
}

static void
print_instances(json_t *list)
{
	static const struct column columns[] = {
		{ "Node", "Node", NULL }, { "Address", "Address", NULL }, { "ServiceID", "ServiceID", NULL },
		{ "ServiceAddress", "ServiceAddress", NULL }, { NULL, NULL, NULL },
	};

	out_rows(list, columns);
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

/* A list of the catalog, or of one name in it. */
static int
show(struct ctl *ctl, void (*print)(json_t *))
{
	struct buf path = BUF_INIT(65536);
	json_t *list;

	buf_printf(&path, "/v1/catalog/%s", ctl->verb->words + strlen("catalog "));
	if (ctl->argc > 0) {
		buf_puts(&path, "/");
		client_encode(&path, ctl->argv[0], false);
	}
	ctl_params(ctl, &path);
	list = ctl_get(ctl, buf_cstr(&path));
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

int
catalog_nodes(struct ctl *ctl)
{
	return show(ctl, print_nodes);
}

int
catalog_names(struct ctl *ctl)
{
	return show(ctl, print_names);
}

int
catalog_service(struct ctl *ctl)
{
	return show(ctl, print_instances);
}
