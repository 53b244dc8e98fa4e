/* What the servers say of a token, compiled. */
#include <sodium.h>
#include <stdlib.h>

#include "common/acl/rules.h"
#include "common/base/log.h"
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

static void
warn_unreadable(const struct acl_resolved_policy *policy, struct buf *why)
{
	log_warn("acl", "policy %.*s cannot be read, tokens with it have no rights here: %s", (int)policy->ID.len,
	    (const char *)policy->ID.p, buf_cstr(why));
}

static enum tv_err
compile(const struct acl_resolved *what, struct acl_set **out)
{
	const struct acl_resolved_policy *policies = what->Policies.v;
	struct acl_rules **lists = calloc(what->Policies.n + what->Services.n + what->Nodes.n + 1u, sizeof(*lists));
	uint32_t n = 0;
	enum tv_err err = lists == NULL ? TV_ENOMEM : TV_OK;
	bool denied = false;

	*out = NULL;
	/* What was accepted once can be read, unless a newer version wrote it: then it may deny what we do not see. */
	for (uint32_t i = 0; err == TV_OK && i < what->Policies.n; i++) {
		struct buf why = BUF_INIT(512);

		if (acl_rules_parse(policies[i].Rules, &lists[n], &why) == TV_OK) {
			n++;
		} else {
			warn_unreadable(&policies[i], &why);
			denied = true;
		}
		buf_done(&why);
	}
	for (uint32_t i = 0; err == TV_OK && i < what->Services.n; i++)
		err = (lists[n++] = acl_identity_service(what->Services.v[i])) == NULL ? TV_ENOMEM : TV_OK;
	for (uint32_t i = 0; err == TV_OK && i < what->Nodes.n; i++)
		err = (lists[n++] = acl_identity_node(what->Nodes.v[i])) == NULL ? TV_ENOMEM : TV_OK;
	if (err == TV_OK)
		err = denied ? acl_set_new(NULL, 0, false, out) :
		    acl_set_new((const struct acl_rules *const *)lists, n, what->DefaultAllow, out);
	while (n > 0)
		acl_rules_free(lists[--n]);
	free(lists);
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
