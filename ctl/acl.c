/* What the files of `clusterctl acl` share, see acl.h. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/acl/rules.h"
#include "ctl/acl.h"

json_t *
acl_ask(struct ctl *ctl, const char *method, const char *what, const char *id, const json_t *body)
{
	struct buf path = BUF_INIT(RESOURCE_PATH_MAX);
	char whole[64];
	json_t *out;

	snprintf(whole, sizeof(whole), "acl/%s", what);
	resource_path(ctl, &path, whole, id, "");
	out = resource_ask(ctl, method, buf_cstr(&path), body);
	buf_done(&path);
	return out;
}

/* -- links that a call gives -- */

/* "web", "web:dc1,dc2" */
static json_t *
service_identity(const char *text)
{
	size_t n = strcspn(text, ":");
	json_t *o = json_pack("{s:s%}", "ServiceName", text, n);
	json_t *list = json_array();

	for (const char *dc = text + n; *dc != '\0'; dc += n) {
		n = strcspn(++dc, ",");
		json_array_append_new(list, json_stringn(dc, n));
	}
	if (json_array_size(list) > 0)
		json_object_set(o, "Datacenters", list);
	json_decref(list);
	return o;
}

/* "n1:dc1" */
static json_t *
node_identity(const char *text)
{
	const char *dc = strrchr(text, ':');

	return dc != NULL ? json_pack("{s:s%,s:s}", "NodeName", text, (size_t)(dc - text), "Datacenter", dc + 1) :
	    NULL;
}

static json_t *
link_by_name(const char *text)
{
	return json_pack("{s:s}", "Name", text);
}

static json_t *
link_by_id(const char *text)
{
	return json_pack("{s:s}", "ID", text);
}

static const struct links {
	const char *option, *key, *word;	/* word: of --clear */
	json_t *(*make)(const char *text);
	const char *like;
} links[] = {
	{ "policy-name", "Policies", "policies", link_by_name, "NAME" },
	{ "policy-id", "Policies", "policies", link_by_id, "ID" },
	{ "role-name", "Roles", "roles", link_by_name, "NAME" }, { "role-id", "Roles", "roles", link_by_id, "ID" },
	{ "service-identity", "ServiceIdentities", "service-identities", service_identity, "NAME or NAME:DC,DC" },
	{ "node-identity", "NodeIdentities", "node-identities", node_identity, "NAME:DC" },
};
#define LINKS (sizeof(links) / sizeof(links[0]))

/* Empties what --clear names; false after a complaint. */
static bool
clear(const struct ctl *ctl, json_t *thing)
{
	const struct option *o = ctl_option_in(ctl->verb->options, "clear");

	for (const struct given *g = ctl->given; g < ctl->given + ctl->given_count; g++) {
		size_t i = 0;

		if (g->option != o || o == NULL)
			continue;
		while (i < LINKS && (strcmp(links[i].word, g->value) != 0 ||
		    ctl_option_in(ctl->verb->options, links[i].option) == NULL))
			i++;
		if (i == LINKS)
			return ctl_false(ctl, "--clear: there is no list \"%s\"", g->value);
		json_object_set_new(thing, links[i].key, json_array());
	}
	return true;
}

/* Is it in the list already, by its ID, its name, or all of it? */
static bool
is_in(const json_t *list, const json_t *link)
{
	const json_t *other;
	size_t i;

	json_array_foreach(list, i, other) {
		static const char *const keys[] = { "ID", "Name" };

		for (size_t k = 0; k < 2; k++)
			if (json_text(link, keys[k])[0] != '\0' &&
			    strcmp(json_text(link, keys[k]), json_text(other, keys[k])) == 0)
				return true;
		if (json_equal(link, other))
			return true;
	}
	return false;
}

int
acl_set_links(const struct ctl *ctl, const struct resource_field *f UNUSED, json_t *thing)
{
	bool merge = ctl_option_in(ctl->verb->options, "merge") != NULL && ctl_opt(ctl, "merge") != NULL;
	json_t *fresh = json_object(), *list, *link;
	const char *key;

	if (!clear(ctl, thing)) {
		json_decref(fresh);
		return 2;
	}
	for (const struct given *g = ctl->given; g < ctl->given + ctl->given_count; g++) {
		size_t i = 0;

		while (i < LINKS && g->option != ctl_option_in(ctl->verb->options, links[i].option))
			i++;
		if (i == LINKS)
			continue;
		link = links[i].make(g->value);
		if (link == NULL || g->value[0] == '\0') {
			(void)ctl_complain(ctl, "--%s: \"%s\" is not %s", links[i].option, g->value, links[i].like);
			json_decref(link);
			json_decref(fresh);
			return 2;
		}
		list = json_object_get(merge ? thing : fresh, links[i].key);
		if (!json_is_array(list))
			json_object_set_new(merge ? thing : fresh, links[i].key, list = json_array());
		if (!is_in(list, link))
			json_array_append(list, link);
		json_decref(link);
	}
	json_object_foreach(fresh, key, list)
		json_object_set(thing, key, list);
	json_decref(fresh);
	return 0;
}

/* -- showing -- */

/* "a, b" of an array of texts. */
static void
put_texts(const json_t *list, struct buf *out)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
		buf_printf(out, "%s%s", i > 0 ? ", " : "", json_string_value(v));
}

/* One link or identity: "name (id)", "web (dc1, dc2)", "n1 (dc1)"; brief: the name alone, with what is before it. */
static void
put_link(const json_t *link, bool brief, struct buf *out)
{
	const char *service = json_text(link, "ServiceName"), *node = json_text(link, "NodeName");
	const char *name = service[0] != '\0' ? service : node[0] != '\0' ? node : json_text(link, "Name");

	if (brief && (service[0] != '\0' || node[0] != '\0'))
		buf_printf(out, "%s:", service[0] != '\0' ? "service" : "node");
	buf_puts(out, name[0] != '\0' ? name : json_text(link, "ID"));
	if (brief)
		return;
	if (json_array_size(json_object_get(link, "Datacenters")) > 0) {
		buf_puts(out, " (");
		put_texts(json_object_get(link, "Datacenters"), out);
		buf_puts(out, ")");
	} else if (service[0] == '\0') {
		buf_printf(out, " (%s)", node[0] != '\0' ? json_text(link, "Datacenter") : json_text(link, "ID"));
	}
}

static const struct { const char *key, *title; } lists[] = {
	{ "Policies", "Policies:" }, { "Roles", "Roles:" }, { "ServiceIdentities", "Service identities:" },
	{ "NodeIdentities", "Node identities:" },
};

void
acl_print_links(json_t *safe, const json_t *thing UNUSED)
{
	struct buf text = BUF_INIT(RESOURCE_BODY_MAX);
	const json_t *link;
	size_t i;

	for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]); k++)
		json_array_foreach(json_object_get(safe, lists[k].key), i, link) {
			buf_reset(&text);
			put_link(link, false, &text);
			printf("%-*s %s\n", RESOURCE_TITLE_WIDTH, i == 0 ? lists[k].title : "", buf_cstr(&text));
		}
	buf_done(&text);
}

static const char *
links_text(json_t *row, const char *const *keys, const char *kept_as)
{
	struct buf text = BUF_INIT(RESOURCE_BODY_MAX);
	const json_t *link;
	const char *kept;
	size_t i;

	for (; *keys != NULL; keys++)
		json_array_foreach(json_object_get(row, *keys), i, link) {
			buf_puts(&text, text.len > 0 ? "," : "");
			put_link(link, true, &text);
		}
	kept = row_keep(row, kept_as, json_string(text.len > 0 ? buf_cstr(&text) : "-"));
	buf_done(&text);
	return kept;
}

const char *
acl_policies_text(json_t *row)
{
	static const char *const keys[] = { "Policies", NULL };

	return links_text(row, keys, "policies");
}

const char *
acl_roles_text(json_t *row)
{
	static const char *const keys[] = { "Roles", NULL };

	return links_text(row, keys, "roles");
}

const char *
acl_identities_text(json_t *row)
{
	static const char *const keys[] = { "ServiceIdentities", "NodeIdentities", NULL };

	return links_text(row, keys, "identities");
}

static json_t *
rule_row(const struct acl_rule *r)
{
	bool names = acl_resource_has_names((enum acl_resource)r->resource);
	char *name = out_safe(r->name), access[32];
	json_t *row;

	snprintf(access, sizeof(access), "%s%s%s", acl_access_name((enum acl_access)r->access),
	    r->intentions != ACL_UNSET ? ", intentions " : "", acl_access_name((enum acl_access)r->intentions));
	row = json_pack("{s:s,s:s,s:s,s:s,s:i}", "Resource", acl_resource_name((enum acl_resource)r->resource),
	    "Name", names ? name : "", "Match", !names ? "" : !r->prefix ? "exact" : r->name.len > 0 ? "prefix" : "all",
	    "Access", access, "Line", (int)r->line);
	free(name);
	return row;
}

void
acl_print_rules(const char *text)
{
	struct buf why = BUF_INIT(4096);
	struct acl_rules *rules;
	json_t *rows = json_array();

	if (acl_rules_parse(span_str(text), &rules, &why) != TV_OK) {
		printf("Its rules: %s\n", buf_cstr(&why));
		out_lines(stdout, span_str(text));
	} else if (rules->count == 0) {
		puts("It has no rules.");
	} else {
		for (uint32_t i = 0; i < rules->count; i++)
			json_array_append_new(rows, rule_row(&rules->rule[i]));
		out_rows(rows, COLUMNS(COL("Resource"), COL("Name"), COL("Match"), COL("Access"), COL("Line")));
	}
	acl_rules_free(rules);
	json_decref(rows);
	buf_done(&why);
}
