/* clusterctl members, info. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

static const char *
member_status(json_t *m)
{
	static const char *const names[] = { "none", "alive", "leaving", "left", "failed" };
	json_int_t status = json_int(m, "Status");

	return status >= 0 && status < 5 ? names[status] : "unknown";
}

/* "127.0.0.1:8301" */
static const char *
member_addr(json_t *m)
{
	const char *ip = json_text(m, "Addr");

	return row_keep(m, "addr", json_sprintf(strchr(ip, ':') != NULL ? "[%s]:%d" : "%s:%d", ip,
	    (int)json_int(m, "Port")));
}

static const char *
member_type(json_t *m)
{
	const char *role = json_text_at(m, "Tags.role");

	return strcmp(role, "consul") == 0 || strcmp(role, "server") == 0 ? "server" :
	    strcmp(role, "node") == 0 || strcmp(role, "client") == 0 ? "client" : role;
}

/* "a=1,b=2" */
static const char *
member_tags(json_t *m)
{
	struct buf b = BUF_INIT(1u << 16);
	const char *key, *text;
	json_t *value;

	json_object_foreach(json_object_get(m, "Tags"), key, value)
		buf_printf(&b, "%s%s=%s", b.len > 0 ? "," : "", key, json_string_value(value));
	text = row_keep(m, "tags", json_string_nocheck(buf_cstr(&b)));
	buf_done(&b);
	return text;
}

int
cmd_members(struct ctl *ctl)
{
	const struct column detail = COL_BY("Tags", member_tags), dc = COL_AS("DC", "Tags.dc");

	return ctl_show_rows(ctl, ctl_opt(ctl, "wan") != NULL ? "/v1/agent/members?wan=1" : "/v1/agent/members", NULL,
	    COLUMNS(COL_AS("Node", "Name"), COL_BY("Address", member_addr), COL_BY("Status", member_status),
	    COL_BY("Type", member_type), COL_AS("Build", "Tags.build"),
	    ctl_opt(ctl, "detailed") != NULL ? detail : dc));
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
cmd_info(struct ctl *ctl)
{
	json_t *self = ctl_get(ctl, "/v1/agent/self"), *stats;
	const char **keys, *section = ctl->argv[0];
	struct buf note = BUF_INIT(1024);
	size_t count;
	int rc = 0;

	if (self == NULL)
		return 1;
	stats = json_object_get(self, "Stats");
	note_daemon(&note, stats, "raftd");
	note_daemon(&note, stats, "gossipd");
	if (section != NULL && json_object_get(stats, section) == NULL) {
		(void)ctl_complain(ctl, "no section \"%s\" on this node%s", section, buf_cstr(&note));
		rc = 1;
	} else if (ctl->json) {
		out_json(section != NULL ? json_object_get(stats, section) : stats);
	} else if (section != NULL) {
		print_section(section, json_object_get(stats, section));
	} else {
		keys = sorted_keys(stats, &count);
		for (size_t i = 0; keys != NULL && i < count; i++)
			print_section(keys[i], json_object_get(stats, keys[i]));
		free(keys);
		if (note.len > 0)
			(void)ctl_complain(ctl, "not all of it%s", buf_cstr(&note));
	}
	buf_done(&note);
	json_decref(self);
	return rc;
}
