/*
 * clusterctl acl explain: may a token do that, which rule decides, and what is missing.
 *
 * The token, its roles and policies are read over the API, and compiled as the servers do it (common/acl/set.h).  What
 * the servers decide is not asked for: an old answer of theirs explains nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/acl/set.h"
#include "ctl/acl.h"

#define TIMEOUT_S 10
#define RULE_BYTES_MAX (1u << 20)

struct explain {
	struct ctl *ctl;
	enum acl_resource resource;
	struct span name;
	enum acl_access need;
	const char *what;		/* as in the call: "key:app/x" */
	char dc[256];			/* of the servers; "": not known */
	bool default_allow;
	const char *default_from;	/* "--default-policy", "the agent" or NULL: assumed */
	json_t *token;
	/* Lists of rules, and beside each {Kind, Name, ID, Role}: Role is "" for what the token has itself. */
	json_t *sources;
	struct acl_rules **lists;
	json_t *left_out;		/* texts: what does not count here */
};

/* -- the question -- */

static bool
read_resource(struct explain *x, const char *text)
{
	size_t n = strcspn(text, ":");
	unsigned r = 0;

	while (r < ACL_RESOURCES && (strlen(acl_resource_name((enum acl_resource)r)) != n ||
	    strncmp(acl_resource_name((enum acl_resource)r), text, n) != 0))
		r++;
	x->what = text;
	x->resource = (enum acl_resource)r;
	if (r == ACL_RESOURCES) {
		fprintf(stderr, "clusterctl: acl explain: there is no resource \"%.*s\", but", (int)n, text);
		for (r = 0; r < ACL_RESOURCES; r++)
			fprintf(stderr, "%s %s", r > 0 ? "," : "", acl_resource_name((enum acl_resource)r));
		fputc('\n', stderr);
		return false;
	}
	if (acl_resource_has_names(x->resource) != (text[n] == ':')) {
		fprintf(stderr, text[n] == ':' ? "clusterctl: acl explain: %.*s has no names\n" :
		    "clusterctl: acl explain: %.*s rules are about names: %.*s:NAME\n", (int)n, text, (int)n, text);
		return false;
	}
	x->name = span_str(text + n + (text[n] == ':'));
	return true;
}

static bool
read_access(struct explain *x, const char *text)
{
	static const enum acl_access known[] = { ACL_READ, ACL_LIST, ACL_WRITE };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(acl_access_name(known[i]), text) == 0 && (known[i] != ACL_LIST || x->resource == ACL_KEY)) {
			x->need = known[i];
			return true;
		}
	return ctl_false(x->ctl, "\"%s\" is not read, write or, for keys, list", text);
}

static bool
read_default(struct explain *x, const char *text, const char *from)
{
	if (strcmp(text, "allow") != 0 && strcmp(text, "deny") != 0)
		return false;
	x->default_allow = strcmp(text, "allow") == 0;
	x->default_from = from;
	return true;
}

/* What the agent says of itself, if the token may know it: its datacenter, and what holds where no rule does. */
static void
ask_agent(struct explain *x)
{
	json_t *self = ctl_try(x->ctl, "/v1/agent/self", TIMEOUT_S), *debug = json_object_get(self, "DebugConfig");

	if (x->dc[0] == '\0')
		(void)span_copy(span_str(json_text_at(self, "Config.Datacenter")), x->dc, sizeof(x->dc));
	if (x->default_from == NULL &&
	    !read_default(x, json_text_at(debug, "ACLResolverSettings.ACLDefaultPolicy"), "the agent"))
		(void)read_default(x, json_text(debug, "ACLDefaultPolicy"), "the agent");
	json_decref(self);
}

static bool
read_call(struct explain *x)
{
	const char *given = ctl_opt(x->ctl, "default-policy"), *dc = ctl_opt(x->ctl, "dc");

	if (!read_resource(x, x->ctl->argv[0]) || !read_access(x, x->ctl->argv[1]))
		return false;
	if (given != NULL && !read_default(x, given, "--default-policy"))
		return ctl_false(x->ctl, "--default-policy: \"%s\" is not allow or deny", given);
	return dc == NULL || span_copy(span_str(dc), x->dc, sizeof(x->dc));
}

/* -- what the token has -- */

/* The rules are taken over; NULL: no memory. */
static bool
add_list(struct explain *x, struct acl_rules *rules, const char *kind, const char *name, const char *id,
    const char *role)
{
	size_t n = json_array_size(x->sources);
	struct acl_rules **grown = realloc(x->lists, (n + 1) * sizeof(*grown));

	if (grown != NULL)
		x->lists = grown;
	if (grown == NULL || rules == NULL) {
		acl_rules_free(rules);
		fprintf(stderr, "clusterctl: out of memory\n");
		return false;
	}
	x->lists[n] = rules;
	json_array_append_new(x->sources, json_pack("{s:s,s:s,s:s,s:s}", "Kind", kind, "Name", name, "ID", id,
	    "Role", role));
	return true;
}

/*
 * Does what counts in these datacenters count here?  list: NULL or empty means everywhere.  *known: false when that
 * cannot be found out.
 */
static bool
counts(struct explain *x, const json_t *list, const char *kind, const char *name, bool *known)
{
	const json_t *dc;
	size_t i;

	*known = true;
	if (json_array_size(list) == 0)
		return true;
	if (x->dc[0] == '\0') {
		(void)ctl_complain(x->ctl, "%s %s counts in some datacenters only: name yours with --dc", kind, name);
		*known = false;
		return false;
	}
	json_array_foreach(list, i, dc)
		if (json_is_string(dc) && strcmp(json_string_value(dc), x->dc) == 0)
			return true;
	json_array_append_new(x->left_out, json_sprintf("%s %s does not count in %s", kind, name, x->dc));
	return false;
}

static bool
add_policy(struct explain *x, const char *id, const char *role)
{
	struct buf why = BUF_INIT(4096);
	struct acl_rules *rules = NULL;
	json_t *p, *other;
	bool good, here;
	size_t i;

	json_array_foreach(x->sources, i, other)
		if (strcmp(json_text(other, "ID"), id) == 0)
			return true;		/* by another way */
	p = resource_get(x->ctl, &resource_policies, id);
	if (p == NULL)
		return false;
	here = counts(x, json_object_get(p, "Datacenters"), "policy", json_text(p, "Name"), &good);
	if (good && here) {
		good = acl_rules_parse(json_span(p, "Rules"), &rules, &why) == TV_OK;
		if (!good)
			(void)ctl_complain(x->ctl, "policy %s: %s", json_text(p, "Name"), buf_cstr(&why));
		else
			good = add_list(x, rules, "policy", json_text(p, "Name"), id, role);
	}
	buf_done(&why);
	json_decref(p);
	return good;
}

/* Policies and identities of a token, or of a role of that name. */
static bool
add_links(struct explain *x, const json_t *from, const char *role)
{
	json_t *one, *only;
	bool good = true;
	size_t i;

	json_array_foreach(json_object_get(from, "Policies"), i, one)
		if (!add_policy(x, json_text(one, "ID"), role))
			return false;
	json_array_foreach(json_object_get(from, "ServiceIdentities"), i, one) {
		const char *name = json_text(one, "ServiceName");

		if (counts(x, json_object_get(one, "Datacenters"), "service identity", name, &good))
			good = add_list(x, acl_identity_service(span_str(name)), "service identity", name, "", role);
		if (!good)
			return false;
	}
	json_array_foreach(json_object_get(from, "NodeIdentities"), i, one) {
		const char *name = json_text(one, "NodeName");

		only = json_pack("[s]", json_text(one, "Datacenter"));
		if (counts(x, only, "node identity", name, &good))
			good = add_list(x, acl_identity_node(span_str(name)), "node identity", name, "", role);
		json_decref(only);
		if (!good)
			return false;
	}
	return true;
}

static bool
add_token(struct explain *x)
{
	const char *accessor = ctl_opt(x->ctl, "accessor");
	json_t *one, *role;
	bool good = true;
	size_t i;

	if (accessor == NULL && ctl_token(x->ctl) == NULL)
		accessor = ACL_ANONYMOUS_ACCESSOR;
	x->token = accessor != NULL ? resource_get(x->ctl, &resource_tokens, accessor) :
	    acl_ask(x->ctl, "GET", "token", "self", NULL);
	good = x->token != NULL && add_links(x, x->token, "");
	json_array_foreach(json_object_get(x->token, "Roles"), i, one) {
		role = good ? resource_get(x->ctl, &resource_roles, json_text(one, "ID")) : NULL;
		good = role != NULL && add_links(x, role, json_text(role, "Name"));
		json_decref(role);
	}
	if (!good)
		fprintf(stderr, "Tokens, roles and policies are read with acl = \"read\": show a token that may, and "
		    "name the one to explain with --accessor.\n");
	return good;
}

/* -- the answer -- */

/* `key "a" { policy = "read" }` */
static void
put_rule(enum acl_resource r, bool prefix, struct span name, enum acl_access access, enum acl_access intentions,
    struct buf *out)
{
	json_t *text = json_stringn((const char *)name.p, name.len);
	char *quoted = text != NULL ? json_dumps(text, JSON_ENCODE_ANY) : NULL, *safe = out_safe(name);

	if (!acl_resource_has_names(r)) {
		buf_printf(out, "%s = \"%s\"", acl_resource_name(r), acl_access_name(access));
	} else {
		buf_printf(out, "%s%s ", acl_resource_name(r), prefix ? "_prefix" : "");
		if (quoted != NULL)
			buf_puts(out, quoted);
		else
			buf_printf(out, "\"%s\"", safe);
		buf_printf(out, " { policy = \"%s\"", acl_access_name(access));
		if (intentions != ACL_UNSET)
			buf_printf(out, "  intentions = \"%s\"", acl_access_name(intentions));
		buf_puts(out, " }");
	}
	json_decref(text);
	free(quoted);
	free(safe);
}

/* The rule that decided, as it would be written. */
static void
put_decider(const struct explain *x, const struct acl_reason *why, struct buf *out)
{
	const struct acl_rules *list = x->lists[why->policy];

	for (uint32_t i = 0; i < list->count; i++) {
		const struct acl_rule *r = &list->rule[i];

		if (r->resource == why->resource && r->prefix == why->prefix && r->line == why->line &&
		    span_eq(r->name, why->name)) {
			put_rule(why->resource, r->prefix, r->name, (enum acl_access)r->access,
			    (enum acl_access)r->intentions, out);
			return;
		}
	}
}

/* The rule that would give what is missing; nothing when no further rule can, since one about just that name denies. */
static void
put_missing(const struct explain *x, const struct acl_set *set, struct buf *out)
{
	bool intention = x->resource == ACL_INTENTION;
	size_t n = json_array_size(x->sources);
	const struct acl_rules **lists = calloc(n + 1, sizeof(*lists));
	struct buf why = BUF_INIT(4096);
	struct acl_rules *more = NULL;
	struct acl_set *with = NULL;

	put_rule(intention ? ACL_SERVICE : x->resource, false, x->name,
	    intention ? acl_set_access(set, ACL_SERVICE, x->name) : x->need, intention ? x->need : ACL_UNSET, out);
	if (lists != NULL && acl_rules_parse(buf_span(out), &more, &why) == TV_OK) {
		for (size_t i = 0; i < n; i++)
			lists[i] = x->lists[i];
		lists[n] = more;
		(void)acl_set_new(lists, (uint32_t)n + 1, x->default_allow, &with);
	}
	if (with == NULL || !acl_set_allows(with, x->resource, x->name, x->need))
		buf_reset(out);
	acl_set_free(with);
	acl_rules_free(more);
	free(lists);
	buf_done(&why);
}

struct answer {
	bool allowed;
	struct acl_reason why;
	struct buf rule, missing;	/* texts of rules, or empty */
};

static void
print_reason(const struct explain *x, const struct answer *a)
{
	const json_t *from = json_array_get(x->sources, a->why.policy);
	char line[48] = "";

	switch (a->why.kind) {
	case ACL_BY_RULE:
		printf("  decided by  ");
		out_lines(stdout, buf_span(&a->rule));
		if (a->why.line > 0)
			snprintf(line, sizeof(line), "line %u of ", a->why.line);
		printf("\n  of          %s%s %s", line, json_text(from, "Kind"), json_text(from, "Name"));
		if (json_text(from, "Role")[0] != '\0')
			printf(", by role %s", json_text(from, "Role"));
		putchar('\n');
		break;
	case ACL_BY_ALL_RULES:
		puts("  decided by  all rules together, since \"*\" is all names");
		break;
	default:
		if (x->resource == ACL_ACL)
			puts("  decided by  no rule: acl is never given by default");
		else
			printf("  decided by  no rule is about it: the default policy is %s (%s)\n",
			    x->default_allow ? "allow" : "deny",
			    x->default_from != NULL ? x->default_from : "assumed; see --default-policy");
	}
}

static void
print_answer(struct explain *x, const struct answer *a)
{
	const char *about = json_text(x->token, "Description");
	char *what = out_safe(span_str(x->what));
	const json_t *text;
	size_t i;

	json_safe(x->token);
	json_safe(x->sources);
	json_safe(x->left_out);
	about = json_text(x->token, "Description");
	printf("%s: %s %s", a->allowed ? "allowed" : "not allowed", what, acl_access_name(x->need));
	if (!a->allowed && a->why.access > ACL_DENY)
		printf(", but %s", acl_access_name(a->why.access));
	printf("\n  token       %s%s%s%s\n", json_text(x->token, "AccessorID"), about[0] != '\0' ? " (" : "", about,
	    about[0] != '\0' ? ")" : "");
	print_reason(x, a);
	if (!a->allowed && a->missing.len > 0) {
		printf("  missing     ");
		out_lines(stdout, buf_span(&a->missing));
		puts("\n              in one of its policies, or in one that it is given");
	} else if (!a->allowed) {
		puts("  missing     that rule has to change: no other outweighs a deny of the same name");
	}
	json_array_foreach(x->left_out, i, text)
		printf("  left out    %s\n", json_string_value(text));
	free(what);
}

static void
print_json(struct explain *x, struct answer *a)
{
	static const char *const kinds[] = { "rule", "default", "all rules", "management" };
	json_t *o = json_pack("{s:b,s:s,s:s%,s:s,s:s,s:{s:s,s:s},s:s,s:s,s:s,s:O}", "Allowed", a->allowed,
	    "Resource", acl_resource_name(x->resource), "Name", (const char *)x->name.p, x->name.len,
	    "Access", acl_access_name(x->need), "Given", acl_access_name(a->why.access),
	    "Token", "AccessorID", json_text(x->token, "AccessorID"), "Description", json_text(x->token, "Description"),
	    "DefaultPolicy", x->default_allow ? "allow" : "deny",
	    "DefaultPolicyFrom", x->default_from != NULL ? x->default_from : "assumed",
	    "DecidedBy", kinds[a->why.kind], "LeftOut", x->left_out);

	if (a->why.kind == ACL_BY_RULE)
		json_object_set_new(o, "Rule", json_pack("{s:s,s:i,s:O}", "Text", buf_cstr(&a->rule), "Line",
		    (int)a->why.line, "Of", json_array_get(x->sources, a->why.policy)));
	if (a->missing.len > 0)
		json_object_set_new(o, "Missing", json_string(buf_cstr(&a->missing)));
	out_json_new(o);
}

static int
answer_question(struct explain *x)
{
	struct answer a = { .rule = BUF_INIT(RULE_BYTES_MAX), .missing = BUF_INIT(RULE_BYTES_MAX) };
	struct acl_set *set;
	int rc;

	if (acl_set_new((const struct acl_rules *const *)x->lists, (uint32_t)json_array_size(x->sources),
	    x->default_allow, &set) != TV_OK)
		return ctl_complain(x->ctl, "its rules are too many");
	acl_set_explain(set, x->resource, x->name, &a.why);
	a.allowed = acl_set_allows(set, x->resource, x->name, x->need);
	if (a.why.kind == ACL_BY_RULE)
		put_decider(x, &a.why, &a.rule);
	if (!a.allowed)
		put_missing(x, set, &a.missing);
	if (x->ctl->json)
		print_json(x, &a);
	else
		print_answer(x, &a);
	rc = a.allowed ? 0 : 1;
	acl_set_free(set);
	buf_done(&a.rule);
	buf_done(&a.missing);
	return rc;
}

int
acl_explain(struct ctl *ctl)
{
	struct explain x = { .ctl = ctl };
	int rc = 1;

	if (!read_call(&x))
		return 2;
	x.sources = json_array();
	x.left_out = json_array();
	ask_agent(&x);
	if (add_token(&x))
		rc = answer_question(&x);
	for (size_t i = 0; i < json_array_size(x.sources); i++)
		acl_rules_free(x.lists[i]);
	free(x.lists);
	json_decref(x.sources);
	json_decref(x.left_out);
	json_decref(x.token);
	return rc;
}
