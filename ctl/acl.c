/* What the files of `clusterctl acl` share, see acl.h. */
#include <malloc.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/acl/rules.h"
#include "common/base/uuid.h"
#include "ctl/acl.h"
#include "ctl/json_errors.h"

#define TIMEOUT_S 60
#define BODY_BYTES_MAX (1u << 20)
#define FIELD_WIDTH 20

const struct acl_kind acl_policies = { "policy", "policies" }, acl_roles = { "role", "roles" },
    acl_tokens = { "token", "tokens" }, acl_methods = { "auth-method", "auth-methods" },
    acl_bindings = { "binding-rule", "binding-rules" };

/* -- questions -- */

static void
wiping_free(void *p)
{
	if (p != NULL)
		sodium_memzero(p, malloc_usable_size(p));
	free(p);
}

void
acl_path(const struct ctl *ctl, struct buf *path, const char *what, const char *id)
{
	buf_printf(path, "/v1/acl/%s", what);
	if (id != NULL) {
		buf_u8(path, '/');
		client_encode(path, id, false);
	}
	ctl_params(ctl, path);
}

/* "ACL not found" is said of the token that is shown, and of the thing that is asked for. */
static bool
is_missing(struct ctl *ctl, const struct client_answer *a)
{
	struct client_answer self;
	bool known;

	if (a->status == 404)
		return a->body.len == 0;
	if (a->status != 403 || !span_eqs(buf_span(&a->body), "ACL not found"))
		return false;
	known = client_do(ctl->client, "GET", "/v1/acl/token/self", SPAN_NONE, TIMEOUT_S, &self);
	client_answer_done(&self);
	return known;
}

/* Of one thing that is not there: what there is. */
static void
complain(struct ctl *ctl, const struct client_answer *a, const struct acl_kind *kind, const char *name)
{
	if (kind == NULL || !is_missing(ctl, a)) {
		client_complain(ctl->client, ctl->verb->words, a);
		return;
	}
	json_errors_reason(REASON_NOT_FOUND);
	fprintf(stderr, "clusterctl: %s: there is no %s \"%s\"\n", ctl->verb->words, kind->one, name);
	fprintf(stderr, "`clusterctl acl %s list` shows what there is.\n", kind->one);
}

/* name: of one of that kind, which is asked for. */
static json_t *
ask(struct ctl *ctl, const char *method, const char *path, const json_t *body, const struct acl_kind *kind,
    const char *name)
{
	struct client_answer a;
	json_t *out = NULL;
	char *text;

	json_set_alloc_funcs(malloc, wiping_free);
	text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	if (client_do(ctl_client(ctl), method, path, text != NULL ? span_str(text) : SPAN_NONE, TIMEOUT_S, &a)) {
		out = json_loadb((const char *)a.body.data, a.body.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		if (out == NULL)
			out = json_null();
	} else {
		complain(ctl, &a, kind, name);
	}
	client_answer_done(&a);
	wiping_free(text);
	return out;
}

json_t *
acl_ask_path(struct ctl *ctl, const char *method, const char *path, const json_t *body)
{
	return ask(ctl, method, path, body, NULL, NULL);
}

json_t *
acl_ask(struct ctl *ctl, const char *method, const char *what, const char *id, const json_t *body)
{
	struct buf path = BUF_INIT(ACL_PATH_MAX);
	json_t *out;

	acl_path(ctl, &path, what, id);
	out = acl_ask_path(ctl, method, buf_cstr(&path), body);
	buf_done(&path);
	return out;
}

/* Kinds of which clients give the names. */
static bool
has_names(const struct acl_kind *kind)
{
	return kind == &acl_policies || kind == &acl_roles;
}

json_t *
acl_get(struct ctl *ctl, const struct acl_kind *kind, const char *wanted)
{
	bool name = has_names(kind) && !uuid_parse(span_str(wanted), NULL);
	struct buf path = BUF_INIT(ACL_PATH_MAX);
	json_t *out;

	buf_printf(&path, "/v1/acl/%s/%s", kind->one, name ? "name/" : "");
	client_encode(&path, wanted, false);
	ctl_params(ctl, &path);
	out = ask(ctl, "GET", buf_cstr(&path), NULL, kind, wanted);
	buf_done(&path);
	return out;
}

bool
acl_id(struct ctl *ctl, const struct acl_kind *kind, const char *wanted, char *id, size_t cap)
{
	json_t *found = NULL;
	bool good;

	if (has_names(kind) && !uuid_parse(span_str(wanted), NULL)) {
		found = acl_get(ctl, kind, wanted);
		if (found == NULL)
			return false;
		wanted = json_text(found, "ID");
	}
	good = wanted[0] != '\0' && span_copy(span_str(wanted), id, cap);
	if (!good)
		fprintf(stderr, "clusterctl: %s: that is no name of a %s\n", ctl->verb->words, kind->one);
	json_decref(found);
	return good;
}

int
acl_delete(struct ctl *ctl, const struct acl_kind *kind)
{
	char id[1024];
	json_t *done;

	if (!acl_id(ctl, kind, ctl->argv[0], id, sizeof(id)))
		return 1;
	done = acl_ask(ctl, "DELETE", kind->one, id, NULL);
	if (done == NULL)
		return 1;
	json_decref(done);
	printf("Deleted %s %s\n", kind->one, ctl->argv[0]);
	return 0;
}

int
acl_list(struct ctl *ctl, const struct acl_kind *kind, const char *path, const struct column *columns)
{
	json_t *list = path != NULL ? acl_ask_path(ctl, "GET", path, NULL) :
	    acl_ask(ctl, "GET", kind->all, NULL, NULL);

	if (list == NULL)
		return 1;
	if (ctl->json) {
		out_json(list);
	} else {
		json_safe(list);
		out_rows(list, columns);
	}
	json_decref(list);
	return 0;
}

int
acl_show(struct ctl *ctl, json_t *thing, void (*print)(json_t *thing))
{
	if (thing == NULL)
		return 1;
	if (ctl->json) {
		out_json(thing);
	} else {
		json_safe(thing);
		print(thing);
	}
	json_decref(thing);
	return 0;
}

/* -- what a call gives -- */

void
acl_strip(json_t *thing)
{
	static const char *const made[] = { "CreateTime", "Hash", "CreateIndex", "ModifyIndex", "Legacy" };

	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		(void)json_object_del(thing, made[i]);
}

void
acl_set_text(const struct ctl *ctl, json_t *thing, const char *option, const char *key)
{
	if (ctl_opt(ctl, option) != NULL)
		json_object_set_new(thing, key, json_string(ctl_opt(ctl, option)));
}

bool
acl_set_value(const struct ctl *ctl, json_t *thing, const char *option, const char *key, bool is_json)
{
	struct buf text = BUF_INIT(BODY_BYTES_MAX);
	json_error_t e;
	json_t *v;

	if (ctl_opt(ctl, option) == NULL)
		return true;
	text.secret = true;
	if (!ctl_value(ctl, ctl_opt(ctl, option), &text)) {
		buf_done(&text);
		return false;
	}
	v = is_json ? json_loadb((const char *)text.data, text.len, 0, &e) :
	    json_stringn((const char *)text.data, text.len);
	buf_done(&text);
	if (v == NULL && is_json)
		fprintf(stderr, "clusterctl: %s: --%s: not JSON: line %d: %s\n", ctl->verb->words, option, e.line,
		    e.text);
	else if (v == NULL)
		fprintf(stderr, "clusterctl: %s: --%s: not UTF-8\n", ctl->verb->words, option);
	return v != NULL && json_object_set_new(thing, key, v) == 0;
}

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
		if (i == LINKS) {
			fprintf(stderr, "clusterctl: %s: --clear: there is no list \"%s\"\n", ctl->verb->words,
			    g->value);
			return false;
		}
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

bool
acl_set_links(const struct ctl *ctl, json_t *thing)
{
	bool merge = ctl_option_in(ctl->verb->options, "merge") != NULL && ctl_opt(ctl, "merge") != NULL;
	json_t *fresh = json_object(), *list, *link;
	const char *key;

	if (!clear(ctl, thing)) {
		json_decref(fresh);
		return false;
	}
	for (const struct given *g = ctl->given; g < ctl->given + ctl->given_count; g++) {
		size_t i = 0;

		while (i < LINKS && g->option != ctl_option_in(ctl->verb->options, links[i].option))
			i++;
		if (i == LINKS)
			continue;
		link = links[i].make(g->value);
		if (link == NULL || g->value[0] == '\0') {
			fprintf(stderr, "clusterctl: %s: --%s: \"%s\" is not %s\n", ctl->verb->words, links[i].option,
			    g->value, links[i].like);
			json_decref(link);
			json_decref(fresh);
			return false;
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
	return true;
}

/* -- showing -- */

void
acl_field(const char *name, const char *value)
{
	if (value[0] != '\0')
		printf("%-*s %s\n", FIELD_WIDTH, name, value);
}

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
acl_print_links(json_t *thing)
{
	struct buf text = BUF_INIT(BODY_BYTES_MAX);
	const json_t *link;
	size_t i;

	for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]); k++)
		json_array_foreach(json_object_get(thing, lists[k].key), i, link) {
			buf_reset(&text);
			put_link(link, false, &text);
			acl_field(i == 0 ? lists[k].title : "", buf_cstr(&text));
		}
	buf_done(&text);
}

static const char *
links_text(json_t *row, const char *const *keys, const char *kept_as)
{
	struct buf text = BUF_INIT(BODY_BYTES_MAX);
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
	static const struct column columns[] = {
		{ "Resource", "Resource", NULL }, { "Name", "Name", NULL }, { "Match", "Match", NULL },
		{ "Access", "Access", NULL }, { "Line", "Line", NULL }, { NULL, NULL, NULL },
	};
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
		out_rows(rows, columns);
	}
	acl_rules_free(rules);
	json_decref(rows);
	buf_done(&why);
}
