/* clusterctl health: what checks say, and why. */
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"

#define NEWLINE "\\x0a"			/* as ctl_get() shows it */

/* The first line of what a check said last, or, as in maintenance, what it is for; the JSON has all of it. */
static const char *
first_line(json_t *row)
{
	const char *text = json_text(row, json_text(row, "Output")[0] != '\0' ? "Output" : "Notes");
	const char *end = strstr(text, NEWLINE);
	size_t len = end != NULL ? (size_t)(end - text) : strlen(text);
	bool more = end != NULL && end[strlen(NEWLINE)] != '\0';
	char line[4096];

	len = len < sizeof(line) - 8 ? len : sizeof(line) - 8;
	snprintf(line, sizeof(line), "%.*s%s", (int)len, text, more ? " ..." : "");
	return row_keep(row, "line", json_string(line));
}

/* The worst first; in the order of the answer otherwise. */
static unsigned
rank(const json_t *check)
{
	const char *status = json_text(check, "Status");

	return strcmp(status, "critical") == 0 ? 0 : strcmp(status, "warning") == 0 ? 1 : 2;
}

static bool
is_there(const json_t *list, const json_t *check)
{
	const json_t *c;
	size_t i;

	json_array_foreach(list, i, c)
		if (strcmp(json_text(c, "Node"), json_text(check, "Node")) == 0 &&
		    strcmp(json_text(c, "CheckID"), json_text(check, "CheckID")) == 0)
			return true;
	return false;
}

/*
 * Checks of a list of them, or of one of instances, whose nodes' checks stand there for each; of a service only, unless
 * that is NULL: those of its instances and of their nodes.
 */
static json_t *
checks_of(json_t *list, const char *service)
{
	json_t *out = json_array(), *row, *check;
	size_t i, j;

	json_array_foreach(list, i, row) {
		json_t *own = json_object_get(row, "Checks");

		if (own == NULL && (service == NULL || json_text(row, "ServiceName")[0] == '\0' ||
		    strcasecmp(json_text(row, "ServiceName"), service) == 0))
			json_array_append(out, row);
		json_array_foreach(own, j, check)
			if (json_text(check, "ServiceID")[0] != '\0' || !is_there(out, check))
				json_array_append(out, check);
	}
	return out;
}

static void
print(json_t *checks)
{
	json_t *sorted = json_array(), *c;
	size_t i, count[3] = { 0 };

	for (unsigned r = 0; r < 3; r++)
		json_array_foreach(checks, i, c)
			if (rank(c) == r) {
				json_array_append(sorted, c);
				count[r]++;
			}
	out_rows(sorted, COLUMNS(COL("Status"), COL("Node"), COL_OR("Service", "ServiceID", "(node)"),
	    COL_AS("Check", "CheckID"), COL_BY("Output", first_line)));
	printf("%zu critical, %zu warning, %zu passing\n", count[0], count[1], count[2]);
	json_decref(sorted);
}

int
cmd_health(struct ctl *ctl)
{
	const char *node = ctl_opt(ctl, "node"), *service = ctl->argc > 0 ? ctl->argv[0] : NULL;
	struct buf path = BUF_INIT(65536);
	json_t *list, *checks;
	bool found;

	buf_puts(&path, node != NULL ? "/v1/health/node/" : service != NULL ? "/v1/health/service/" :
	    "/v1/health/state/any");
	if (node != NULL || service != NULL)
		client_encode(&path, node != NULL ? node : service, false);
	ctl_params(ctl, &path);
	list = ctl_get(ctl, buf_cstr(&path));
	buf_done(&path);
	if (list == NULL)
		return 1;
	checks = checks_of(list, service);
	found = json_array_size(list) > 0;
	json_decref(list);
	if (ctl->json)
		out_json(checks);
	else if (found)
		print(checks);
	json_decref(checks);
	if (!found && node != NULL)
		(void)ctl_complain(ctl, "no node of that name has checks: clusterctl catalog nodes");
	else if (!found && service != NULL)
		(void)ctl_complain(ctl, "no service of that name is registered: clusterctl catalog services");
	return found ? 0 : 1;
}
