/*
 * Access rules.  First byte: the default.  Then texts of policies and, last, a name, with NUL bytes between them.
 * What parses is compiled, and each answer about the name compared with a search through all rules; what translates
 * parses again, with as many rules and the same accesses.
 */
#include <string.h>

#include "common/conf/hcl.h"
#include "common/acl/set.h"
#include "common/base/assert.h"

#define POLICIES_MAX 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned
rank(uint8_t access)
{
	static const unsigned ranks[] = { [ACL_UNSET] = 0, [ACL_READ] = 1, [ACL_LIST] = 2, [ACL_WRITE] = 3,
	    [ACL_DENY] = 4 };

	return ranks[access];
}

/* The access by the longest rule that covers the name, an exact one before all. */
static enum acl_access
searched(struct acl_rules *const *lists, uint32_t n, enum acl_resource r, struct span name, bool allow)
{
	enum acl_access access = allow && r != ACL_ACL ? ACL_WRITE : ACL_DENY;
	size_t longest = 0;	/* length of its name and 1; more than the name's for an exact one */
	bool falls_back = r == ACL_MESH || r == ACL_PEERING;

	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < lists[i]->count; k++) {
			const struct acl_rule *rule = &lists[i]->rule[k];
			size_t len = rule->prefix ? rule->name.len + 1 : name.len + 2;

			if (rule->resource != r || !(rule->prefix ? span_starts(name, rule->name) : span_eq(name,
			    rule->name)))
				continue;
			if (len > longest || (len == longest && rank(rule->access) > rank((uint8_t)access)))
				access = rule->access;
			longest = len > longest ? len : longest;
		}
	}
	if (falls_back && longest == 0)
		return searched(lists, n, ACL_OPERATOR, name, allow);
	return access;
}

static void
ask(struct acl_rules *const *lists, uint32_t n, struct span name, bool allow)
{
	struct acl_reason why;
	struct acl_set *set;

	TV_ASSERT(acl_set_new((const struct acl_rules *const *)lists, n, allow, &set) == TV_OK);
	for (enum acl_resource r = 0; r < ACL_RESOURCES; r++) {
		enum acl_access access = acl_set_access(set, r, name);

		TV_ASSERT(r == ACL_INTENTION || access == searched(lists, n, r, name, allow));
		acl_set_explain(set, r, name, &why);
		TV_ASSERT(why.access == access && (why.kind != ACL_BY_RULE || why.policy < n));
		for (enum acl_access need = ACL_READ; need <= ACL_WRITE; need++) {
			TV_ASSERT(access < need || acl_set_allows_any(set, r, need));
			TV_ASSERT(access >= need || !acl_set_allows_all(set, r, need));
		}
		TV_ASSERT(!acl_set_allows_all(set, r, ACL_WRITE) || acl_set_writes_below(set, r, name));
	}
	acl_set_free(set);
}

static void
translate(struct span text, const struct acl_rules *rules)
{
	struct buf out = BUF_INIT(1 << 20), why = BUF_INIT(4096);
	struct arena a = ARENA_INIT(HCL_ARENA_BYTES(1 << 20));
	struct acl_rules *again;
	struct hcl_error error;
	struct hcl_file file;
	bool json;

	/* Escapes of JSON are printed as they are, which HCL does not know all of. */
	if (acl_rules_translate(text, &out, &why) == TV_OK) {
		TV_ASSERT(hcl_parse(text, &a, &file, &error) == TV_OK);
		json = file.json;
		if (!json && out.len <= ACL_RULES_TEXT_MAX)
			TV_ASSERT(hcl_parse(buf_span(&out), &a, &file, &error) == TV_OK);
		if (!json && rules != NULL && acl_rules_parse(buf_span(&out), &again, &why) != TV_ELIMIT) {
			TV_ASSERT(again != NULL && again->count == rules->count);
			for (uint32_t i = 0; i < rules->count; i++)
				TV_ASSERT(again->rule[i].access == rules->rule[i].access);
			acl_rules_free(again);
		}
	} else {
		TV_ASSERT(why.len > 0);
	}
	arena_done(&a);
	buf_done(&out);
	buf_done(&why);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct acl_rules *lists[POLICIES_MAX] = { NULL };
	struct rd r = rd_over(data, size);
	bool allow = rd_u8(&r) & 1;
	struct span text = SPAN_NONE;
	uint32_t n = 0;

	if (r.err != TV_OK)
		return 0;
	for (const uint8_t *nul; rd_left(&r) > 0 && (nul = memchr(r.p, 0, rd_left(&r))) != NULL && n < POLICIES_MAX;) {
		struct buf why = BUF_INIT(4096);

		text = rd_bytes(&r, (size_t)(nul - r.p));
		rd_u8(&r);
		enum tv_err err = acl_rules_parse(text, &lists[n], &why);
		TV_ASSERT((err == TV_OK) == (why.len == 0) && (err == TV_OK) == (lists[n] != NULL));
		translate(text, lists[n]);
		n += err == TV_OK;
		buf_done(&why);
	}
	ask(lists, n, rd_rest(&r), allow);
	while (n > 0)
		acl_rules_free(lists[--n]);
	return 0;
}
