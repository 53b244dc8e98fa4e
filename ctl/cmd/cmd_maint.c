/* clusterctl maint: takes a node, or one of its services, out of use for a while. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

#define TIMEOUT_S 60
#define NODE_CHECK "_node_maintenance"
#define SERVICE_CHECK "_service_maintenance:"

/* The checks that say maintenance, each with what they are about in "Service". */
static json_t *
under_maintenance(json_t *checks, const char *service)
{
	json_t *list = json_array(), *check;
	const char *key;

	json_object_foreach(checks, key, check) {
		const char *id = json_text(check, "CheckID"), *of = id + sizeof(SERVICE_CHECK) - 1;
		bool node = strcmp(id, NODE_CHECK) == 0;

		if (!node && strncmp(id, SERVICE_CHECK, sizeof(SERVICE_CHECK) - 1) != 0)
			continue;
		if (service != NULL && (node || strcmp(of, service) != 0))
			continue;
		json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s}", "Kind", node ? "node" : "service", "Node",
		    json_text(check, "Node"), "ServiceID", node ? "" : of, "Reason", json_text(check, "Notes")));
	}
	return list;
}

static const char *
name_of(json_t *row)
{
	return json_text(row, strcmp(json_text(row, "Kind"), "node") == 0 ? "Node" : "ServiceID");
}

int
maint_status(struct ctl *ctl)
{
	json_t *checks = ctl_get(ctl, "/v1/agent/checks"), *list;

	if (checks == NULL)
		return 1;
	list = under_maintenance(checks, ctl_opt(ctl, "service"));
	if (ctl->json)
		out_json(list);
	else if (json_array_size(list) > 0)
		out_rows(list, COLUMNS(COL("Kind"), COL_BY("Name", name_of), COL("Reason")));
	else
		puts(ctl_opt(ctl, "service") != NULL ? "The service is not under maintenance." :
		    "Nothing is under maintenance.");
	json_decref(list);
	json_decref(checks);
	return 0;
}

static int
set(struct ctl *ctl, bool on)
{
	const char *service = ctl_opt(ctl, "service");
	struct buf path = BUF_INIT(1u << 20), ok = BUF_INIT(1u << 20);
	char *shown = out_safe(span_str(service != NULL ? service : ""));
	int rc;

	buf_puts(&path, service != NULL ? "/v1/agent/service/maintenance/" : "/v1/agent/maintenance");
	if (service != NULL)
		client_encode(&path, service, false);
	ctl_param(&path, "enable", on ? "true" : "false");
	ctl_params(ctl, &path);
	buf_printf(&ok, "%s%s%s is %s maintenance", service != NULL ? "Service \"" : "The node", shown,
	    service != NULL ? "\"" : "", on ? "under" : "no longer under");
	rc = ctl_put(ctl, buf_cstr(&path), TIMEOUT_S, buf_cstr(&ok));
	free(shown);
	buf_done(&path);
	buf_done(&ok);
	return rc;
}

int
maint_enable(struct ctl *ctl)
{
	return set(ctl, true);
}

int
maint_disable(struct ctl *ctl)
{
	return set(ctl, false);
}
