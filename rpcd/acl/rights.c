/* What the servers say of a token, compiled. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/acl/rules.h"
#include "common/base/log.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/acl/rights.h"

#define ARENA_BYTES_MAX (64u << 20)

struct acl_rights *
acl_rights_keep(struct acl_rights *a)
{
	a->refs++;
	return a;
}

void
acl_rights_free(struct acl_rights *a)
{
	if (a == NULL || --a->refs > 0)
		return;
	acl_set_free((struct acl_set *)a->set);
	free(a);
}

/* Takes the set over. */
static struct acl_rights *
rights_of(struct acl_set *set)
{
	struct acl_rights *a = set == NULL ? NULL : calloc(1, sizeof(*a));

	if (a == NULL) {
		acl_set_free(set);
		return NULL;
	}
	a->refs = 1;
	a->set = set;
	return a;
}

struct acl_rights *
acl_rights_plain(bool allow)
{
	struct acl_set *set;

	return acl_set_new(NULL, 0, allow, &set) == TV_OK ? rights_of(set) : NULL;
}

struct acl_rights *
acl_rights_master(const char *node_name)
{
	struct buf text = BUF_INIT(4096), why = BUF_INIT(512);
	struct acl_rules *rules = NULL;
	struct acl_set *set = NULL;

	/* A node's name is letters, digits and "-_.". */
	buf_printf(&text, "agent \"%s\" { policy = \"write\" }\nnode_prefix \"\" { policy = \"read\" }\n", node_name);
	if (!text.failed && acl_rules_parse(buf_span(&text), &rules, &why) == TV_OK)
		(void)acl_set_new((const struct acl_rules *const *)&rules, 1, false, &set);
	acl_rules_free(rules);
	buf_done(&text);
	buf_done(&why);
	return rights_of(set);
}

void
acl_rights_digest(struct span value, uint8_t digest[32])
{
	crypto_generichash(digest, 32, value.p, value.len, NULL, 0);
}

struct compiling {
	struct acl_rules **lists;
	uint32_t n;
	bool denied;			/* something could not be read: nothing may be allowed then */
};

/* What was accepted once can be read, unless a newer version wrote it: then it may deny what we do not see. */
static void
add_policies(struct compiling *c, const struct acl_resolved *what)
{
	const struct acl_resolved_policy *v = what->Policies.v;

	for (uint32_t i = 0; i < what->Policies.n; i++) {
		struct buf why = BUF_INIT(512);

		if (acl_rules_parse(v[i].Rules, &c->lists[c->n], &why) == TV_OK) {
			c->n++;
		} else {
			log_warn("acl", "policy %.*s cannot be read, tokens with it have no rights here: %s",
			    (int)v[i].ID.len, (const char *)v[i].ID.p, buf_cstr(&why));
			c->denied = true;
		}
		buf_done(&why);
	}
}

static bool
add_identities(struct compiling *c, const struct span_list *names, struct acl_rules *(*make)(struct span name))
{
	for (uint32_t i = 0; i < names->n; i++) {
		c->lists[c->n] = make(names->v[i]);
		if (c->lists[c->n] == NULL)
			return false;
		c->n++;
	}
	return true;
}

static enum tv_err
compile(const struct acl_resolved *what, struct acl_set **out)
{
	uint32_t n = what->Policies.n + what->Services.n + what->Nodes.n;
	struct compiling c = { .lists = calloc(n + 1u, sizeof(*c.lists)) };
	enum tv_err err = TV_ENOMEM;

	*out = NULL;
	if (c.lists == NULL)
		return err;
	add_policies(&c, what);
	if (add_identities(&c, &what->Services, acl_identity_service) &&
	    add_identities(&c, &what->Nodes, acl_identity_node))
		err = c.denied ? acl_set_new(NULL, 0, false, out) :
		    acl_set_new((const struct acl_rules *const *)c.lists, c.n, what->DefaultAllow, out);
	while (c.n > 0)
		acl_rules_free(c.lists[--c.n]);
	free(c.lists);
	return err;
}

enum tv_err
acl_rights_read(struct span value, struct acl_rights **out)
{
	struct arena a = ARENA_INIT(ARENA_BYTES_MAX);
	struct acl_resolved what = { .Local = false };
	struct rd in = rd_span_over(value);
	struct acl_set *set = NULL;
	enum tv_err err = schema_unpack(&acl_resolved_schema, &in, &a, &what);

	*out = NULL;
	if (err == TV_OK)
		err = compile(&what, &set);
	if (err == TV_OK && (*out = rights_of(set)) == NULL)
		err = TV_ENOMEM;
	if (err == TV_OK) {
		if (!span_copy(what.AccessorID, (*out)->accessor, sizeof((*out)->accessor)))
			(*out)->accessor[0] = '\0';
		(*out)->local = what.Local;
		(*out)->expires = what.Expires;
		acl_rights_digest(value, (*out)->digest);
	}
	arena_done(&a);
	return err;
}
