/* clusterctl acl auth-method, binding-rule: which identities may log in, and what that gives. */
#include <stdio.h>

#include "ctl/acl.h"

static void
print_config(json_t *safe, const json_t *thing UNUSED)
{
	const json_t *config = json_object_get(safe, "Config");

	if (json_object_size(config) > 0) {
		puts("Config:");
		out_json(config);
	}
}

const struct resource resource_methods = {
	.words = "acl auth-method", .noun = "auth-method", .one = "acl/auth-method", .all = "acl/auth-methods",
	.key = "Name",
	.columns = COLUMNS(
		COL("Name"), COL("Type"), COL("DisplayName"), COL("MaxTokenTTL"), COL("TokenLocality"),
		COL("Description")),
	.lines = COLUMNS(
		COL_AS("Name:", "Name"), COL_AS("Type:", "Type"), COL_AS("Display name:", "DisplayName"),
		COL_AS("Description:", "Description"), COL_AS("Tokens live:", "MaxTokenTTL"),
		COL_AS("Tokens are:", "TokenLocality")),
	.print_rest = print_config,
	.fields = (const struct resource_field[]){
		{ "type", "Type", resource_set_text }, { "display-name", "DisplayName", resource_set_text },
		{ "description", "Description", resource_set_text },
		{ "max-token-ttl", "MaxTokenTTL", resource_set_text },
		{ "token-locality", "TokenLocality", resource_set_text }, { "config", "Config", resource_set_json },
		{ NULL, NULL, NULL },
	},
};

const struct resource resource_bindings = {
	.words = "acl binding-rule", .noun = "binding-rule", .one = "acl/binding-rule", .all = "acl/binding-rules",
	.columns = COLUMNS(
		COL("ID"), COL("AuthMethod"), COL("BindType"), COL("BindName"), COL("Selector"), COL("Description")),
	.lines = COLUMNS(
		COL_AS("ID:", "ID"), COL_AS("Auth method:", "AuthMethod"), COL_AS("Description:", "Description"),
		COL_AS("Selector:", "Selector"), COL_AS("Bind type:", "BindType"), COL_AS("Bind name:", "BindName")),
	.fields = (const struct resource_field[]){
		{ "method", "AuthMethod", resource_set_text }, { "description", "Description", resource_set_text },
		{ "selector", "Selector", resource_set_text }, { "bind-type", "BindType", resource_set_text },
		{ "bind-name", "BindName", resource_set_text }, { NULL, NULL, NULL },
	},
	.filters = (const struct resource_filter[]){ { "method", "authmethod", NULL }, { NULL, NULL, NULL } },
};
