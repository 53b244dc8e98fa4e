/* clusterctl acl auth-method, binding-rule: who may log in with whose word, and what that gives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/acl.h"

#define WIDTH_OF_ID 1024

/* -- auth methods -- */

static void
print_method(json_t *m)
{
	json_t *config = json_object_get(m, "Config");

	acl_field("Name:", json_text(m, "Name"));
	acl_field("Type:", json_text(m, "Type"));
	acl_field("Display name:", json_text(m, "DisplayName"));
	acl_field("Description:", json_text(m, "Description"));
	acl_field("Tokens live:", json_text(m, "MaxTokenTTL"));
	acl_field("Tokens are:", json_text(m, "TokenLocality"));
	if (json_object_size(config) > 0) {
		puts("Config:");
		out_json(config);
	}
}

int
acl_method_list(struct ctl *ctl)
{
	static const struct column columns[] = {
		{ "Name", "Name", NULL }, { "Type", "Type", NULL }, { "DisplayName", "DisplayName", NULL },
		{ "MaxTokenTTL", "MaxTokenTTL", NULL }, { "TokenLocality", "TokenLocality", NULL },
		{ "Description", "Description", NULL }, { NULL, NULL, NULL },
	};

	return acl_list(ctl, &acl_methods, NULL, columns);
}

int
acl_method_read(struct ctl *ctl)
{
	return acl_show(ctl, acl_get(ctl, &acl_methods, ctl->argv[0]), print_method);
}

/* What the options of create and update say; false after a complaint. */
static bool
set_method(const struct ctl *ctl, json_t *m)
{
	acl_set_text(ctl, m, "display-name", "DisplayName");
	acl_set_text(ctl, m, "description", "Description");
	acl_set_text(ctl, m, "max-token-ttl", "MaxTokenTTL");
	acl_set_text(ctl, m, "token-locality", "TokenLocality");
	return acl_set_value(ctl, m, "config", "Config", true);
}

int
acl_method_create(struct ctl *ctl)
{
	json_t *m = json_pack("{s:s}", "Name", ctl->argv[0]);
	int rc = 1;

	acl_set_text(ctl, m, "type", "Type");
	if (set_method(ctl, m))
		rc = acl_show(ctl, acl_ask(ctl, "PUT", "auth-method", NULL, m), print_method);
	json_decref(m);
	return rc;
}

int
acl_method_update(struct ctl *ctl)
{
	json_t *m = acl_get(ctl, &acl_methods, ctl->argv[0]);
	char name[WIDTH_OF_ID];
	int rc = 1;

	if (m == NULL)
		return 1;
	acl_strip(m);
	if (set_method(ctl, m) && span_copy(span_str(json_text(m, "Name")), name, sizeof(name)))
		rc = acl_show(ctl, acl_ask(ctl, "PUT", "auth-method", name, m), print_method);
	json_decref(m);
	return rc;
}

int
acl_method_delete(struct ctl *ctl)
{
	return acl_delete(ctl, &acl_methods);
}

/* -- binding rules -- */

static void
print_rule(json_t *r)
{
	acl_field("ID:", json_text(r, "ID"));
	acl_field("Auth method:", json_text(r, "AuthMethod"));
	acl_field("Description:", json_text(r, "Description"));
	acl_field("Selector:", json_text(r, "Selector"));
	acl_field("Bind type:", json_text(r, "BindType"));
	acl_field("Bind name:", json_text(r, "BindName"));
}

int
acl_binding_list(struct ctl *ctl)
{
	static const struct column columns[] = {
		{ "ID", "ID", NULL }, { "AuthMethod", "AuthMethod", NULL }, { "BindType", "BindType", NULL },
		{ "BindName", "BindName", NULL }, { "Selector", "Selector", NULL },
		{ "Description", "Description", NULL }, { NULL, NULL, NULL },
	};
	struct buf path = BUF_INIT(ACL_PATH_MAX);
	int rc;

	acl_path(ctl, &path, acl_bindings.all, NULL);
	ctl_param(&path, "authmethod", ctl_opt(ctl, "method"));
	rc = acl_list(ctl, &acl_bindings, buf_cstr(&path), columns);
	buf_done(&path);
	return rc;
}

int
acl_binding_read(struct ctl *ctl)
{
	return acl_show(ctl, acl_get(ctl, &acl_bindings, ctl->argv[0]), print_rule);
}

static void
set_rule(const struct ctl *ctl, json_t *r)
{
	acl_set_text(ctl, r, "description", "Description");
	acl_set_text(ctl, r, "selector", "Selector");
	acl_set_text(ctl, r, "bind-type", "BindType");
	acl_set_text(ctl, r, "bind-name", "BindName");
}

int
acl_binding_create(struct ctl *ctl)
{
	json_t *r = json_object();
	int rc;

	acl_set_text(ctl, r, "method", "AuthMethod");
	set_rule(ctl, r);
	rc = acl_show(ctl, acl_ask(ctl, "PUT", "binding-rule", NULL, r), print_rule);
	json_decref(r);
	return rc;
}

int
acl_binding_update(struct ctl *ctl)
{
	json_t *r = acl_get(ctl, &acl_bindings, ctl->argv[0]);
	int rc;

	if (r == NULL)
		return 1;
	acl_strip(r);
	set_rule(ctl, r);
	rc = acl_show(ctl, acl_ask(ctl, "PUT", "binding-rule", ctl->argv[0], r), print_rule);
	json_decref(r);
	return rc;
}

int
acl_binding_delete(struct ctl *ctl)
{
	return acl_delete(ctl, &acl_bindings);
}
