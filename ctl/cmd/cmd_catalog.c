/* clusterctl catalog: nodes, services, datacenters, service NAME. */
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"

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

int
catalog_nodes(struct ctl *ctl)
{
	return ctl_show_rows(ctl, "/v1/catalog/nodes", NULL,
	    COLUMNS(COL("Node"), COL("ID"), COL("Address"), COL_AS("DC", "Datacenter")));
}

int
catalog_names(struct ctl *ctl)
{
	const char *which = ctl->verb->words + strlen("catalog ");

	return ctl_show(ctl, "/v1/catalog/", which, "", print_names);
}

int
catalog_service(struct ctl *ctl)
{
	return ctl_show_rows(ctl, "/v1/catalog/service/", ctl->argv[0],
	    COLUMNS(COL("Node"), COL("Address"), COL("ServiceID"), COL("ServiceAddress")));
}
