/* clusterctl acl policy, role, translate, replication. */
#include <stdio.h>
#include <string.h>

#include "ctl/acl.h"

#define RULES_BYTES_MAX (1u << 20)

/* -- policies -- */

static void
print_rules(json_t *safe, const json_t *thing)
{
	(void)safe;			/* there its lines are gone */
	putchar('\n');
	acl_print_rules(json_text(thing, "Rules"));
}

/* --valid-dc: "all" is none. */
static int
set_datacenters(const struct ctl *ctl, const struct resource_field *f, json_t *thing)
{
	const struct option *o = ctl_option_in(ctl->verb->options, f->option);
	json_t *list = json_array();

	for (const struct given *g = ctl->given; g < ctl->given + ctl->given_count; g++)
		if (g->option == o && strcmp(g->value, "all") != 0)
			json_array_append_new(list, json_string(g->value));
	json_object_set_new(thing, f->key, list);
	return 0;
}

const struct resource resource_policies = {
	.words = "acl policy", .noun = "policy", .one = "acl/policy", .all = "acl/policies",
	.names = RESOURCE_BY_NAME, .key = "ID",
	.columns = COLUMNS(
		COL("ID"), COL("Name"), COL_OR("Datacenters", "Datacenters", "all"), COL("Description")),
	.lines = COLUMNS(
		COL_AS("ID:", "ID"), COL_AS("Name:", "Name"), COL_AS("Description:", "Description"),
		COL_OR("Datacenters:", "Datacenters", "all")),
	.print_rest = print_rules,
	.fields = (const struct resource_field[]){
		{ "name", "Name", resource_set_text }, { "valid-dc", "Datacenters", set_datacenters },
		{ "description", "Description", resource_set_text }, { "rules", "Rules", resource_set_value },
		{ NULL, NULL, NULL },
	},
};

int
acl_policy_read(struct ctl *ctl)
{
	json_t *p = resource_get(ctl, &resource_policies, ctl->argv[0]);
	const char *text = json_text(p, "Rules");

	if (p == NULL || ctl_opt(ctl, "text") == NULL)
		return resource_show(ctl, &resource_policies, p);
	fputs(text, stdout);			/* for a file, and back: as they are */
	if (text[0] != '\0' && text[strlen(text) - 1] != '\n')
		putchar('\n');
	json_decref(p);
	return 0;
}

/* -- roles -- */

const struct resource resource_roles = {
	.words = "acl role", .noun = "role", .one = "acl/role", .all = "acl/roles",
	.names = RESOURCE_BY_NAME, .key = "ID",
	.columns = COLUMNS(
		COL("ID"), COL("Name"), COL_BY("Policies", acl_policies_text),
		COL_BY("Identities", acl_identities_text), COL("Description")),
	.lines = COLUMNS(
		COL_AS("ID:", "ID"), COL_AS("Name:", "Name"), COL_AS("Description:", "Description")),
	.print_rest = acl_print_links,
	.fields = (const struct resource_field[]){
		{ "name", "Name", resource_set_text }, { "description", "Description", resource_set_text },
		{ NULL, "", acl_set_links }, { NULL, NULL, NULL },
	},
};

/* -- rules of the old syntax -- */

int
acl_translate(struct ctl *ctl)
{
	struct buf path = BUF_INIT(RESOURCE_PATH_MAX), rules = BUF_INIT(RULES_BYTES_MAX);
	struct client_answer a;
	int rc = 1;

	resource_path(ctl, &path, "acl/rules/translate", NULL, "");
	if (ctl_file(ctl, ctl->argv[0], &rules)) {
		if (!client_do(ctl_client(ctl), "POST", buf_cstr(&path), buf_span(&rules), RESOURCE_TIMEOUT_S, &a)) {
			client_complain(ctl->client, ctl->verb->words, &a);
		} else if (ctl->json) {
			rc = out_json_new(json_stringn((const char *)a.body.data, a.body.len));
		} else {
			fwrite(a.body.data, 1, a.body.len, stdout);
			if (a.body.len > 0 && a.body.data[a.body.len - 1] != '\n')
				putchar('\n');
			rc = 0;
		}
		client_answer_done(&a);
	}
	buf_done(&path);
	buf_done(&rules);
	return rc;
}

/* -- replication -- */

static void
print_replication(json_t *safe, const json_t *thing)
{
	static const char *const times[] = { "LastSuccess", "LastError" };
	static const struct column lines[] = {
		COL_AS("From datacenter:", "SourceDatacenter"), COL_AS("What:", "ReplicationType"),
		COL_AS("Policies up to:", "ReplicatedIndex"), COL_AS("Roles up to:", "ReplicatedRoleIndex"),
		COL_AS("Tokens up to:", "ReplicatedTokenIndex"), COL_AS("Last success:", "LastSuccess"),
		COL_AS("Last error:", "LastError"), COL_AS("What failed:", "LastErrorMessage"), COL_END
	};

	for (size_t i = 0; i < 2; i++)
		if (strcmp(json_text(safe, times[i]), ACL_NEVER) == 0)
			json_object_set_new(safe, times[i], json_string("never"));
	if (json_flag(thing, "Enabled"))
		resource_print(safe, lines);
}

int
acl_replication(struct ctl *ctl)
{
	const struct resource replication = {
		.lines = COLUMNS(
			COL_AS("Enabled:", "Enabled"), COL_AS("Running:", "Running")),
		.print_rest = print_replication,
	};

	return resource_show(ctl, &replication, acl_ask(ctl, "GET", "replication", NULL, NULL));
}
