/* clusterctl acl auth-method, binding-rule: which identities may log in, and what that gives. */
#include <stdio.h>

#include "ctl/acl.h"

static void
print_config(json_t *safe, const json_t *thing)
{
	const json_t *config = json_object_get(safe, "Config");

	(void)thing;
	if (json_object_size(config) > 0) {
		puts("Config:");
		out_json(config);
	}
}

const struct resource resource_methods = {
	.words = "acl auth-method", .noun = "auth-method", .one = "acl/auth-method", .all = "acl/auth-methods",
	.key = "Name",
	.columns = (const struct column[]){
		{ "Name", "Name", NULL }, { "Type", "Type", NULL }, { "DisplayName", "DisplayName", NULL },
		{ "MaxTokenTTL", "MaxTokenTTL", NULL }, { "TokenLocality", "TokenLocality", NULL },
		{ "Description", "Description", NULL }, { NULL, NULL, NULL },
	},
	.lines = (const struct column[]){
		{ "Name:", "Name", NULL }, { "Type:", "Type", NULL }, { "Display name:", "DisplayName", NULL },
		{ "Description:", "Description", NULL }, { "Tokens live:", "MaxTokenTTL", NULL },
		{ "Tokens are:", "TokenLocality", NULL }, { NULL, NULL, NULL },
	},
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
	.columns = (const struct column[]){
		{ "ID", "ID", NULL }, { "AuthMethod", "AuthMethod", NULL }, { "BindType", "BindType", NULL },
		{ "BindName", "BindName", NULL }, { "Selector", "Selector", NULL },
		{ "Description", "Description", NULL }, { NULL, NULL, NULL },
	},
	.lines = (const struct column[]){
		{ "ID:", "ID", NULL }, { "Auth method:", "AuthMethod", NULL }, { "Description:", "Description", NULL },
		{ "Selector:", "Selector", NULL }, { "Bind type:", "BindType", NULL },
		{ "Bind name:", "BindName", NULL }, { NULL, NULL, NULL },
	},
	.fields = (const struct resource_field[]){
		{ "method", "AuthMethod", resource_set_text }, { "description", "Description", resource_set_text },
		{ "selector", "Selector", resource_set_text }, { "bind-type", "BindType", resource_set_text },
		{ "bind-name", "BindName", resource_set_text }, { NULL, NULL, NULL },
	},
	.filters = (const struct resource_filter[]){ { "method", "authmethod", NULL }, { NULL, NULL, NULL } },
};
