/* clusterctl members, info. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

#define MEMBER_COLUMNS 6

static const char *
status_name(json_int_t status)
{
	static const char *const names[] = { "none", "alive", "leaving", "left", "failed" };

	return status >= 0 && status < 5 ? names[status] : "unknown";
}

/* "127.0.0.1:8301", kept in the JSON value so that it lives as long as the table. */
static const char *
member_addr(json_t *m)
{
	const char *ip = json_text(m, "Addr");
	json_t *text = json_sprintf(strchr(ip, ':') != NULL ? "[%s]:%d" : "%s:%d", ip,
	    (int)json_integer_value(json_object_get(m, "Port")));

	json_object_set_new(m, "_addr", text);
	return json_text(m, "_addr");
}

/* "a=1,b=2" */
static const char *
member_tags(json_t *m)
{
	struct buf b = BUF_INIT(1u << 16);
	const char *key;
	json_t *value;

	json_object_foreach(json_object_get(m, "Tags"), key, value)
		buf_printf(&b, "%s%s=%s", b.len > 0 ? "," : "", key, json_string_value(value));
	json_object_set_new(m, "_tags", json_string_nocheck(buf_cstr(&b)));
	buf_done(&b);
	return json_text(m, "_tags");
}

static void
print_members(json_t *list, bool detailed)
{
	unsigned rows = (unsigned)json_array_size(list) + 1, at = MEMBER_COLUMNS;
	const char **cells = calloc(rows * MEMBER_COLUMNS, sizeof(*cells));
	json_t *m;
	size_t i;

	if (cells == NULL)
		return;
	memcpy(cells, (const char *const[]){ "Node", "Address", "Status", "Type", "Build", detailed ? "Tags" : "DC" },
	    MEMBER_COLUMNS * sizeof(*cells));
	json_array_foreach(list, i, m) {
		json_t *tags = json_object_get(m, "Tags");
		const char *role = json_text(tags, "role");

		cells[at++] = json_text(m, "Name");
		cells[at++] = member_addr(m);
		cells[at++] = status_name(json_integer_value(json_object_get(m, "Status")));
		cells[at++] = strcmp(role, "consul") == 0 || strcmp(role, "server") == 0 ? "server" :
		    strcmp(role, "node") == 0 || strcmp(role, "client") == 0 ? "client" : role;
		cells[at++] = json_text(tags, "build");
		cells[at++] = detailed ? member_tags(m) : json_text(tags, "dc");
	}
	out_table(cells, rows, MEMBER_COLUMNS);
	free(cells);
}

int
cmd_members(struct ctl *ctl, int argc, char **argv)
{
	const struct command *cmd = ctl_find("members");
	bool wan = false, detailed = false;
	const struct option_spec specs[] = { { "wan", &wan, NULL }, { "detailed", &detailed, NULL } };
	int n = ctl_options(cmd, argc, argv, specs, 2);
	json_t *list;

	if (n != 0)
		return n < 0 ? 2 : ctl_usage(cmd);
	list = client_get_json(ctl_client(ctl), "members", wan ? "/v1/agent/members?wan=1" : "/v1/agent/members");
	if (list == NULL)
		return 1;
	if (ctl->json)
		out_json(list);
	else
		print_members(list, detailed);
	json_decref(list);
	return 0;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Keys of an object in order; the caller frees the array. */
static const char **
sorted_keys(json_t *obj, size_t *count)
{
	const char **keys = calloc(json_object_size(obj) + 1, sizeof(*keys)), *key;
	json_t *value;

	*count = 0;
	if (keys == NULL)
		return NULL;
	json_object_foreach(obj, key, value)
		keys[(*count)++] = key;
	qsort(keys, *count, sizeof(*keys), by_name);
	return keys;
}

static void
print_section(const char *name, json_t *section)
{
	size_t n;
	const char **keys = sorted_keys(section, &n);

	printf("%s:\n", name);
	for (size_t i = 0; keys != NULL && i < n; i++)
		printf("\t%s = %s\n", keys[i], json_text(section, keys[i]));
	free(keys);
}

/* Appends why sections of a daemon may be missing. */
static void
note_daemon(struct buf *out, const json_t *stats, const char *name)
{
	const char *state = json_text(json_object_get(stats, "rpcd"), name);

	if (strcmp(state, "away") == 0)
		buf_printf(out, "; %s does not run there", name);
	else if (strcmp(state, "silent") == 0)
		buf_printf(out, "; %s runs there, but does not answer (is it stopped, or does the machine swap?)",
		    name);
}

int
cmd_info(struct ctl *ctl, int argc, char **argv)
{
	const struct command *cmd = ctl_find("info");
	int n = ctl_options(cmd, argc, argv, NULL, 0), rc = 0;
	const char **keys;
	struct buf note = BUF_INIT(1024);
	json_t *self, *stats;
	size_t count;

	if (n < 0 || n > 1)
		return n < 0 ? 2 : ctl_usage(cmd);
	self = client_get_json(ctl_client(ctl), "info", "/v1/agent/self");
	if (self == NULL)
		return 1;
	stats = json_object_get(self, "Stats");
	note_daemon(&note, stats, "raftd");
	note_daemon(&note, stats, "gossipd");
	if (n == 1 && json_object_get(stats, argv[1]) == NULL) {
		fprintf(stderr, "clusterctl: info: no section \"%s\" on this node%s\n", argv[1],
		    buf_cstr(&note));
		rc = 1;
	} else if (ctl->json) {
		out_json(n == 1 ? json_object_get(stats, argv[1]) : stats);
	} else if (n == 1) {
		print_section(argv[1], json_object_get(stats, argv[1]));
	} else {
		keys = sorted_keys(stats, &count);
		for (size_t i = 0; keys != NULL && i < count; i++)
			print_section(keys[i], json_object_get(stats, keys[i]));
		free(keys);
		if (note.len > 0)
			fprintf(stderr, "clusterctl: info: not all of it%s\n", buf_cstr(&note));
	}
	buf_done(&note);
	json_decref(self);
	return rc;
}
