/* The tree of a policy's text to its rules. */
#include <stdlib.h>
#include <strings.h>

#include "common/conf/hcl.h"
#include "common/acl/rules.h"
#include "common/text/edits.h"
#include "common/text/json_text.h"

#define SHOWN_MAX 64	/* bytes of a client's text that a sentence repeats */

const char acl_rules_management[] =
    "acl = \"write\"\n"
    "agent_prefix \"\" {\n\tpolicy = \"write\"\n}\n"
    "event_prefix \"\" {\n\tpolicy = \"write\"\n}\n"
    "key_prefix \"\" {\n\tpolicy = \"write\"\n}\n"
    "keyring = \"write\"\n"
    "node_prefix \"\" {\n\tpolicy = \"write\"\n}\n"
    "operator = \"write\"\n"
    "query_prefix \"\" {\n\tpolicy = \"write\"\n}\n"
    "service_prefix \"\" {\n\tpolicy = \"write\"\n\tintentions = \"write\"\n}\n"
    "session_prefix \"\" {\n\tpolicy = \"write\"\n}\n";

static const struct {
	const char *name;
	bool has_names;
} resources[ACL_RESOURCES] = {
	[ACL_ACL] = { "acl", false },
	[ACL_AGENT] = { "agent", true },
	[ACL_EVENT] = { "event", true },
	[ACL_KEY] = { "key", true },
	[ACL_KEYRING] = { "keyring", false },
	[ACL_MESH] = { "mesh", false },
	[ACL_NODE] = { "node", true },
	[ACL_OPERATOR] = { "operator", false },
	[ACL_PEERING] = { "peering", false },
	[ACL_QUERY] = { "query", true },
	[ACL_SERVICE] = { "service", true },
	[ACL_SESSION] = { "session", true },
	[ACL_INTENTION] = { "intention", true },
};

static const char *const accesses[] = { "", "deny", "read", "list", "write" };

const char *
acl_resource_name(enum acl_resource r)
{
	return resources[r].name;
}

bool
acl_resource_has_names(enum acl_resource r)
{
	return resources[r].has_names;
}

const char *
acl_access_name(enum acl_access a)
{
	return accesses[a];
}

void
acl_rules_free(struct acl_rules *rules)
{
	free(rules);
}

/* -- one allocation of what was collected */

static struct acl_rules *
compact(const struct acl_rule *from, uint32_t count)
{
	size_t bytes = sizeof(struct acl_rules) + count * sizeof(*from);
	struct acl_rules *rules;
	uint8_t *names;

	for (uint32_t i = 0; i < count; i++)
		bytes += from[i].name.len;
	if ((rules = malloc(bytes)) == NULL)
		return NULL;
	rules->bytes = bytes;
	rules->count = count;
	names = (uint8_t *)&rules->rule[count];
	for (uint32_t i = 0; i < count; i++) {
		rules->rule[i] = from[i];
		rules->rule[i].name.p = names;
		if (from[i].name.len > 0)
			memcpy(names, from[i].name.p, from[i].name.len);
		names += from[i].name.len;
	}
	return rules;
}

/* -- the text */

struct reader {
	struct arena arena;
	bool json;
	struct acl_rule *rules;		/* in the arena */
	uint32_t count, room;
	uint32_t plain[ACL_RESOURCES];	/* of resources without names: the number of its rule, from 1 */
	struct buf *why;
	enum tv_err err;		/* the first */
};

static bool __attribute__((format(printf, 4, 5)))
fail_at(struct reader *rd, enum tv_err err, const struct hcl_key *at, const char *fmt, ...)
{
	va_list ap;

	if (rd->err != TV_OK)
		return false;
	rd->err = err;
	buf_puts(rd->why, "Failed to parse ACL rules: ");
	/* In JSON the column is not kept: whole objects stand in one line or one below the other. */
	if (at != NULL && at->pos.column > 0)
		buf_printf(rd->why, "At %u:%u: ", at->pos.line, at->pos.column);
	else if (at != NULL)
		buf_printf(rd->why, "At line %u: ", at->line);
	va_start(ap, fmt);
	buf_vprintf(rd->why, fmt, ap);
	va_end(ap);
	return false;
}

static bool
no_memory(struct reader *rd)
{
	return fail_at(rd, TV_ENOMEM, NULL, "out of memory");
}

/* A client's text in quotes, cut when it is long. */
static void
put_shown(struct span text, struct buf *out)
{
	bool cut = text.len > SHOWN_MAX;

	if (cut)
		text.len = SHOWN_MAX;
	text_quote(text.len > 0 ? text : span_str(""), out);
	if (cut)
		buf_puts(out, "...");
}

/* The same as a string for a sentence, in the arena; never NULL. */
static const char *
shown(struct reader *rd, struct span text)
{
	struct buf b = BUF_INIT(4 * SHOWN_MAX + 16);
	const char *copy;

	put_shown(text, &b);
	copy = arena_cstr(&rd->arena, buf_span(&b));
	buf_done(&b);
	return copy == NULL ? "\"\"" : copy;
}

static bool
key_text(struct reader *rd, const struct hcl_key *key, struct span *out)
{
	return hcl_unquote(key->text, key->quoted, rd->json, &rd->arena, out) || no_memory(rd);
}

/* The text of a scalar; numbers and words as they were written. */
static bool
value_text(struct reader *rd, const struct hcl_value *v, const struct hcl_key *key, struct span *out)
{
	struct span name;

	if (v->type == HCL_STRING || v->type == HCL_NUMBER || v->type == HCL_BOOL)
		return hcl_unquote(v->text, v->type == HCL_STRING, rd->json, &rd->arena, out) || no_memory(rd);
	return key_text(rd, key, &name) && fail_at(rd, TV_EFORMAT, key, "%s needs a text in quotes", shown(rd, name));
}

static bool
same_word(struct span text, const char *word)
{
	return text.len == strlen(word) && strncasecmp((const char *)text.p, word, text.len) == 0;
}

/* The access that a text names, or ACL_UNSET. */
static enum acl_access
access_of(struct span text, bool list)
{
	for (enum acl_access a = ACL_DENY; a <= ACL_WRITE; a++) {
		if (span_eqs(text, accesses[a]) && (a != ACL_LIST || list))
			return a;
	}
	return ACL_UNSET;
}

static struct acl_rule *
add_rule(struct reader *rd, const struct hcl_key *at)
{
	if (rd->count == ACL_RULES_MAX) {
		fail_at(rd, TV_ELIMIT, at, "more than %d rules: spread them over several policies", ACL_RULES_MAX);
		return NULL;
	}
	if (rd->count == rd->room) {
		uint32_t room = rd->room == 0 ? 16 : 2 * rd->room;
		struct acl_rule *more = arena_array(&rd->arena, room, sizeof(*more));

		if (more == NULL) {
			no_memory(rd);
			return NULL;
		}
		if (rd->count > 0)
			memcpy(more, rd->rules, rd->count * sizeof(*more));
		rd->rules = more;
		rd->room = room;
	}
	return &rd->rules[rd->count++];
}

/* acl = "read" and the like.  An empty text is no rule, as in Consul. */
static bool
read_plain(struct reader *rd, enum acl_resource res, const struct hcl_item *item)
{
	struct acl_rule *rule;
	struct span text = SPAN_NONE;
	enum acl_access access;

	if (item->nkeys > 1)
		return fail_at(rd, TV_EFORMAT, item->keys, "%s has no names: write %s = \"read\"", resources[res].name,
		    resources[res].name);
	if (!value_text(rd, item->value, item->keys, &text))
		return false;
	access = access_of(text, false);
	if (access == ACL_UNSET && text.len > 0 && rd->err == TV_OK) {
		rd->err = TV_EFORMAT;
		buf_printf(rd->why, "Invalid %s policy: ", resources[res].name);
		put_shown(text, rd->why);
		return false;
	}
	if (rd->plain[res] > 0) {
		rule = &rd->rules[rd->plain[res] - 1];
	} else {
		if ((rule = add_rule(rd, item->keys)) == NULL)
			return false;
		rd->plain[res] = rd->count;
	}
	*rule = (struct acl_rule){ .line = item->keys->line, .resource = (uint8_t)res, .access = (uint8_t)access,
	    .prefix = true };
	return true;
}

/* A rule's resource and name as a sentence has them: key_prefix "a" on line 3. */
static void
bad_access(struct reader *rd, const struct acl_rule *rule, const char *what, struct span text)
{
	bool list = rule->resource == ACL_KEY;

	if (rd->err != TV_OK)
		return;
	rd->err = TV_EFORMAT;
	buf_printf(rd->why, "Invalid %s%s %spolicy: ", resources[rule->resource].name, rule->prefix ? "_prefix" : "",
	    what);
	put_shown(text, rd->why);
	buf_puts(rd->why, " for ");
	put_shown(rule->name, rd->why);
	buf_printf(rd->why, " on line %u: use %s", rule->line,
	    list ? "deny, read, list or write" : "deny, read or write");
}

/* The fields of a rule: policy, and for services intentions. */
static bool
read_fields(struct reader *rd, struct acl_rule *rule, const struct hcl_item *item)
{
	struct span policy = SPAN_NONE, intentions = SPAN_NONE, name;

	for (; item != NULL; item = item->next) {
		const struct hcl_key *key = item->keys;

		if (!key_text(rd, key, &name))
			return false;
		if (same_word(name, "sentinel"))
			return fail_at(rd, TV_EFORMAT, key, "sentinel code is not supported: leave the block out");
		if (!same_word(name, "policy") && (rule->resource != ACL_SERVICE || !same_word(name, "intentions")))
			return fail_at(rd, TV_EFORMAT, key, "%s is not known here: a rule about a %s has %s",
			    shown(rd, name), resources[rule->resource].name,
			    rule->resource == ACL_SERVICE ? "policy and intentions" : "policy");
		if (item->nkeys > 1)
			return fail_at(rd, TV_EFORMAT, key, "%s needs a text in quotes", shown(rd, name));
		if (!value_text(rd, item->value, key, same_word(name, "policy") ? &policy : &intentions))
			return false;
	}
	rule->access = (uint8_t)access_of(policy, rule->resource == ACL_KEY);
	rule->intentions = (uint8_t)access_of(intentions, false);
	if (rule->access == ACL_UNSET)
		bad_access(rd, rule, "", policy);
	else if (rule->intentions == ACL_UNSET && intentions.len > 0)
		bad_access(rd, rule, "intentions ", intentions);
	return rd->err == TV_OK;
}

/* The rules about one name: an object of fields, or a list of such objects. */
static bool
read_named(struct reader *rd, enum acl_resource res, bool prefix, const struct hcl_key *key, const struct hcl_value *v)
{
	struct acl_rule rule = { .line = key->line, .resource = (uint8_t)res, .prefix = prefix }, *place;

	if (!key_text(rd, key, &rule.name))
		return false;
	if (v->type == HCL_LIST) {
		for (const struct hcl_value *one = v->values; one != NULL; one = one->next) {
			if (one->type == HCL_LIST)
				return fail_at(rd, TV_EFORMAT, key, "a list in a list is no rule");
			if (!read_named(rd, res, prefix, key, one))
				return false;
		}
		return true;
	}
	if (v->type != HCL_OBJECT)
		return fail_at(rd, TV_EFORMAT, key, "a rule is a block: write %s%s %s { policy = \"read\" }",
		    resources[res].name,
		    prefix ? "_prefix" : "", shown(rd, rule.name));
	if (!read_fields(rd, &rule, v->items) || (place = add_rule(rd, key)) == NULL)
		return false;
	*place = rule;
	return true;
}

/* key = { "a" = { ... } }: names as fields, as JSON has them; or a list of such objects. */
static bool
read_names(struct reader *rd, enum acl_resource res, bool prefix, const struct hcl_key *key, const struct hcl_value *v)
{
	if (v->type == HCL_LIST) {
		for (const struct hcl_value *one = v->values; one != NULL; one = one->next) {
			if (one->type == HCL_LIST)
				return fail_at(rd, TV_EFORMAT, key, "a list in a list is no rule");
			if (!read_names(rd, res, prefix, key, one))
				return false;
		}
		return true;
	}
	if (v->type != HCL_OBJECT)
		return fail_at(rd, TV_EFORMAT, key, "%s%s needs a name: write %s%s \"name\" { policy = \"read\" }",
		    resources[res].name,
		    prefix ? "_prefix" : "", resources[res].name, prefix ? "_prefix" : "");
	for (const struct hcl_item *item = v->items; item != NULL; item = item->next) {
		if (item->nkeys > 1)
			return fail_at(rd, TV_EFORMAT, item->keys, "a rule has one name");
		if (!read_named(rd, res, prefix, item->keys, item->value))
			return false;
	}
	return true;
}

/* Which resource a word means; false for none. */
static bool
find_resource(struct span word, enum acl_resource *res, bool *prefix)
{
	for (unsigned i = 0; i < ACL_INTENTION; i++) {
		size_t len = strlen(resources[i].name);
		struct span rest = word.len < len ? SPAN_NONE : span_of(word.p + len, word.len - len);

		*res = (enum acl_resource)i;
		*prefix = resources[i].has_names && same_word(rest, "_prefix");
		if (word.len >= len && same_word(span_of(word.p, len), resources[i].name) && (rest.len == 0 || *prefix))
			return true;
	}
	return false;
}

static bool
unknown(struct reader *rd, const struct hcl_key *key, struct span word)
{
	char text[EDITS_NAME_MAX + 1];
	const char *near = NULL;
	unsigned least = ~0u;

	if (span_copy(word, text, sizeof(text))) {
		for (unsigned i = 0; i < ACL_INTENTION; i++) {
			unsigned edits = edits_between(text, resources[i].name);

			if (edits <= edits_limit(text) && edits < least) {
				least = edits;
				near = resources[i].name;
			}
		}
	}
	if (near != NULL)
		return fail_at(rd, TV_EFORMAT, key, "there are no rules about %s; did you mean %s?", shown(rd, word),
		    near);
	return fail_at(rd, TV_EFORMAT, key,
	    "there are no rules about %s: known are acl, keyring, mesh, operator, peering, and with names agent, "
	    "event, key, node, query, service, session, each also with _prefix", shown(rd, word));
}

static bool
read_item(struct reader *rd, const struct hcl_item *item)
{
	const struct hcl_key *key = item->keys;
	enum acl_resource res;
	struct span word;
	bool prefix;

	if (!key_text(rd, key, &word))
		return false;
	if (!find_resource(word, &res, &prefix))
		return unknown(rd, key, word);
	if (!resources[res].has_names)
		return read_plain(rd, res, item);
	if (item->nkeys > 2)
		return fail_at(rd, TV_EFORMAT, key, "a rule has one name");
	return item->nkeys == 2 ? read_named(rd, res, prefix, key->next, item->value) :
	    read_names(rd, res, prefix, key, item->value);
}

/* Rules about resources without names whose text was empty are none. */
static void
drop_unset(struct reader *rd)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < rd->count; i++) {
		if (rd->rules[i].access != ACL_UNSET)
			rd->rules[kept++] = rd->rules[i];
	}
	rd->count = kept;
}

enum tv_err
acl_rules_parse(struct span text, struct acl_rules **out, struct buf *why)
{
	struct reader rd = { .arena = ARENA_INIT(HCL_ARENA_BYTES(text.len)), .why = why };
	struct hcl_error error;
	struct hcl_file file;

	*out = NULL;
	if (text.len > ACL_RULES_TEXT_MAX) {
		fail_at(&rd, TV_ELIMIT, NULL, "more than %d bytes of text: spread the rules over several policies",
		    ACL_RULES_TEXT_MAX);
		return rd.err;
	}
	enum tv_err err = hcl_parse(text, &rd.arena, &file, &error);
	if (err == TV_OK) {
		rd.json = file.json;
		for (const struct hcl_item *item = file.items; item != NULL && rd.err == TV_OK; item = item->next)
			read_item(&rd, item);
		drop_unset(&rd);
	} else {
		fail_at(&rd, err, NULL, "%s", error.text);
	}
	if (rd.err == TV_OK && (*out = compact(rd.rules, rd.count)) == NULL)
		no_memory(&rd);
	arena_done(&rd.arena);
	return rd.err;
}

/* -- identities */

struct acl_rules *
acl_identity_service(struct span name)
{
	static const char suffix[] = "-sidecar-proxy";
	struct arena a = ARENA_INIT(name.len + 256);
	uint8_t *sidecar = arena_alloc(&a, name.len + sizeof(suffix));
	struct acl_rules *rules = NULL;

	if (sidecar != NULL) {
		if (name.len > 0)
			memcpy(sidecar, name.p, name.len);
		memcpy(sidecar + name.len, suffix, sizeof(suffix));
		rules = compact((const struct acl_rule[]){
			{ .name = name, .resource = ACL_SERVICE, .access = ACL_WRITE },
			{ .name = span_of(sidecar, name.len + sizeof(suffix) - 1), .resource = ACL_SERVICE,
			    .access = ACL_WRITE },
			{ .resource = ACL_SERVICE, .access = ACL_READ, .prefix = true },
			{ .resource = ACL_NODE, .access = ACL_READ, .prefix = true },
		}, 4);
	}
	arena_done(&a);
	return rules;
}

struct acl_rules *
acl_identity_node(struct span name)
{
	return compact((const struct acl_rule[]){
		{ .name = name, .resource = ACL_NODE, .access = ACL_WRITE },
		{ .resource = ACL_SERVICE, .access = ACL_READ, .prefix = true },
	}, 2);
}
