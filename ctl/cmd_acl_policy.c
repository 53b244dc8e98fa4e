/* clusterctl acl policy, role, translate, replication. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/acl.h"

#define WIDTH_OF_ID 64
#define TIMEOUT_S 60
#define RULES_BYTES_MAX (1u << 20)

/* -- policies -- */

static const char *
datacenters(json_t *row)
{
	const json_t *list = json_object_get(row, "Datacenters"), *dc;
	struct buf text = BUF_INIT(65536);
	const char *kept;
	size_t i;

	json_array_foreach(list, i, dc)
		buf_printf(&text, "%s%s", i > 0 ? "," : "", json_string_value(dc));
	kept = row_keep(row, "datacenters", json_string(text.len > 0 ? buf_cstr(&text) : "all"));
	buf_done(&text);
	return kept;
}

int
acl_policy_list(struct ctl *ctl)
{
	static const struct column columns[] = {
		{ "ID", "ID", NULL }, { "Name", "Name", NULL }, { "Datacenters", NULL, datacenters },
		{ "Description", "Description", NULL }, { NULL, NULL, NULL },
	};

	return acl_list(ctl, &acl_policies, NULL, columns);
}

/* The policy is taken over. */
static int
show_policy(struct ctl *ctl, json_t *p)
{
	const json_t *text = json_object_get(p, "Rules");
	json_t *rules;

	if (p == NULL)
		return 1;
	if (ctl->json) {
		out_json(p);
		json_decref(p);
		return 0;
	}
	/* With their lines, as they are. */
	rules = json_stringn(json_string_value(text), json_string_length(text));
	json_safe(p);
	acl_field("ID:", json_text(p, "ID"));
	acl_field("Name:", json_text(p, "Name"));
	acl_field("Description:", json_text(p, "Description"));
	acl_field("Datacenters:", datacenters(p));
	putchar('\n');
	acl_print_rules(rules != NULL ? json_string_value(rules) : "");
	json_decref(rules);
	json_decref(p);
	return 0;
}

int
acl_policy_read(struct ctl *ctl)
{
	json_t *p = acl_get(ctl, &acl_policies, ctl->argv[0]);
	const char *text = json_text(p, "Rules");

	if (p == NULL || ctl_opt(ctl, "text") == NULL)
		return show_policy(ctl, p);
	fputs(text, stdout);			/* for a file, and back: as they are */
	if (text[0] != '\0' && text[strlen(text) - 1] != '\n')
		putchar('\n');
	json_decref(p);
	return 0;
}

/* Name, description, rules and datacenters of the call; false after a complaint. */
static bool
set_policy(const struct ctl *ctl, json_t *p)
{
	const struct option *o = ctl_option_in(ctl->verb->options, "valid-dc");
	json_t *list = json_array();

	for (const struct given *g = ctl->given; g < ctl->given + ctl->given_count; g++)
		if (g->option == o && strcmp(g->value, "all") != 0)
			json_array_append_new(list, json_string(g->value));
	if (ctl_opt(ctl, "valid-dc") != NULL)
		json_object_set(p, "Datacenters", list);
	json_decref(list);
	acl_set_text(ctl, p, "description", "Description");
	return acl_set_value(ctl, p, "rules", "Rules", false);
}

int
acl_policy_create(struct ctl *ctl)
{
	json_t *p = json_pack("{s:s}", "Name", ctl->argv[0]);
	int rc = set_policy(ctl, p) ? show_policy(ctl, acl_ask(ctl, "PUT", "policy", NULL, p)) : 1;

	json_decref(p);
	return rc;
}

int
acl_policy_update(struct ctl *ctl)
{
	json_t *p = acl_get(ctl, &acl_policies, ctl->argv[0]);
	char id[WIDTH_OF_ID];
	int rc = 1;

	if (p == NULL)
		return 1;
	acl_strip(p);
	acl_set_text(ctl, p, "name", "Name");
	if (set_policy(ctl, p) && span_copy(span_str(json_text(p, "ID")), id, sizeof(id)))
		rc = show_policy(ctl, acl_ask(ctl, "PUT", "policy", id, p));
	json_decref(p);
	return rc;
}

int
acl_policy_delete(struct ctl *ctl)
{
	return acl_delete(ctl, &acl_policies);
}

/* -- roles -- */

static void
print_role(json_t *r)
{
	acl_field("ID:", json_text(r, "ID"));
	acl_field("Name:", json_text(r, "Name"));
	acl_field("Description:", json_text(r, "Description"));
	acl_print_links(r);
}

int
acl_role_list(struct ctl *ctl)
{
	static const struct column columns[] = {
		{ "ID", "ID", NULL }, { "Name", "Name", NULL }, { "Policies", NULL, acl_policies_text },
		{ "Identities", NULL, acl_identities_text }, { "Description", "Description", NULL },
		{ NULL, NULL, NULL },
	};

	return acl_list(ctl, &acl_roles, NULL, columns);
}

int
acl_role_read(struct ctl *ctl)
{
	return acl_show(ctl, acl_get(ctl, &acl_roles, ctl->argv[0]), print_role);
}

int
acl_role_create(struct ctl *ctl)
{
	json_t *r = json_pack("{s:s}", "Name", ctl->argv[0]);
	int rc = 2;

	acl_set_text(ctl, r, "description", "Description");
	if (acl_set_links(ctl, r))
		rc = acl_show(ctl, acl_ask(ctl, "PUT", "role", NULL, r), print_role);
	json_decref(r);
	return rc;
}

int
acl_role_update(struct ctl *ctl)
{
	json_t *r = acl_get(ctl, &acl_roles, ctl->argv[0]);
	char id[WIDTH_OF_ID];
	int rc = 2;

	if (r == NULL)
		return 1;
	acl_strip(r);
	acl_set_text(ctl, r, "name", "Name");
	acl_set_text(ctl, r, "description", "Description");
	if (acl_set_links(ctl, r) && span_copy(span_str(json_text(r, "ID")), id, sizeof(id)))
		rc = acl_show(ctl, acl_ask(ctl, "PUT", "role", id, r), print_role);
	json_decref(r);
	return rc;
}

int
acl_role_delete(struct ctl *ctl)
{
	return acl_delete(ctl, &acl_roles);
}

/* -- rules of the old syntax -- */

int
acl_translate(struct ctl *ctl)
{
	struct buf path = BUF_INIT(ACL_PATH_MAX), arg = BUF_INIT(65536), rules = BUF_INIT(RULES_BYTES_MAX);
	struct client_answer a;
	int rc = 1;

	if (strcmp(ctl->argv[0], "-") != 0)
		buf_u8(&arg, '@');
	buf_puts(&arg, ctl->argv[0]);
	acl_path(ctl, &path, "rules/translate", NULL);
	if (ctl_value(ctl, buf_cstr(&arg), &rules)) {
		if (!client_do(ctl_client(ctl), "POST", buf_cstr(&path), buf_span(&rules), TIMEOUT_S, &a)) {
			client_complain(ctl->client, ctl->verb->words, &a);
		} else if (ctl->json) {
			json_t *text = json_stringn((const char *)a.body.data, a.body.len);

			out_json(text);
			json_decref(text);
			rc = 0;
		} else {
			fwrite(a.body.data, 1, a.body.len, stdout);
			if (a.body.len > 0 && a.body.data[a.body.len - 1] != '\n')
				putchar('\n');
			rc = 0;
		}
		client_answer_done(&a);
	}
	buf_done(&path);
	buf_done(&arg);
	buf_done(&rules);
	return rc;
}

/* -- replication -- */

static void
print_number(const json_t *o, const char *key, const char *title)
{
	char text[32];

	snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(json_object_get(o, key)));
	acl_field(title, text);
}

static void
print_time(json_t *o, const char *key, const char *title)
{
	const char *at = json_text(o, key);

	acl_field(title, strcmp(at, ACL_NEVER) == 0 ? "never" : at);
}

static void
print_replication(json_t *r)
{
	bool enabled = json_is_true(json_object_get(r, "Enabled"));

	acl_field("Enabled:", enabled ? "true" : "false");
	acl_field("Running:", json_is_true(json_object_get(r, "Running")) ? "true" : "false");
	if (!enabled)
		return;
	acl_field("From datacenter:", json_text(r, "SourceDatacenter"));
	acl_field("What:", json_text(r, "ReplicationType"));
	print_number(r, "ReplicatedIndex", "Policies up to:");
	print_number(r, "ReplicatedRoleIndex", "Roles up to:");
	print_number(r, "ReplicatedTokenIndex", "Tokens up to:");
	print_time(r, "LastSuccess", "Last success:");
	print_time(r, "LastError", "Last error:");
	if (json_text(r, "LastErrorMessage")[0] != '\0')
		acl_field("What failed:", json_text(r, "LastErrorMessage"));
}

int
acl_replication(struct ctl *ctl)
{
	return acl_show(ctl, acl_ask(ctl, "GET", "replication", NULL, NULL), print_replication);
}
