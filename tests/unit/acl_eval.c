/*
 * Answers about sets of rules, for check_acl_model.py.  A line of input is a word and arguments, each `-` or hex:
 *
 *	policy TEXT		adds a policy; answers "ok", or "err" and the sentence
 *	set allow|deny		compiles them with that default, and forgets them; answers the bytes
 *	ask RESOURCE NAME	access, writes below, and the reason: policy, line, prefix, intentions, or "-"
 *	any RESOURCE		the most access that some name has, and the least that all have
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/acl/set.h"
#include "common/base/hex.h"

#define LINE_MAX_BYTES (1 << 20)
#define POLICIES_MAX 64

static struct acl_rules *policies[POLICIES_MAX];
static uint32_t count;
static struct acl_set *set;

/* Hex to bytes in place. */
static struct span
bytes_of(char *text)
{
	size_t n = 0;

	if (strcmp(text, "-") == 0)
		return SPAN_NONE;
	for (; text[2 * n] != '\0' && text[2 * n + 1] != '\0'; n++)
		text[n] = (char)(hex_value(text[2 * n]) << 4 | hex_value(text[2 * n + 1]));
	return span_of(text, n);
}

static void
add_policy(char *text)
{
	struct buf why = BUF_INIT(65536);

	if (count == POLICIES_MAX)
		exit(2);
	if (acl_rules_parse(bytes_of(text), &policies[count], &why) == TV_OK) {
		count++;
		puts("ok");
	} else {
		printf("err %s\n", buf_cstr(&why));
	}
	buf_done(&why);
}

static void
compile(bool allow)
{
	acl_set_free(set);
	if (acl_set_new((const struct acl_rules *const *)policies, count, allow, &set) != TV_OK)
		exit(2);
	while (count > 0)
		acl_rules_free(policies[--count]);
	printf("%zu\n", acl_set_bytes(set));
}

static void
ask(enum acl_resource r, char *text)
{
	struct span name = bytes_of(text);
	struct acl_reason why;

	acl_set_explain(set, r, name, &why);
	if (why.access != acl_set_access(set, r, name))
		exit(2);
	printf("%s %d ", acl_access_name(why.access), acl_set_writes_below(set, r, name));
	if (why.kind == ACL_BY_RULE)
		printf("%u %u %d %d\n", why.policy, why.line, why.prefix, why.intentions);
	else
		puts(why.kind == ACL_BY_DEFAULT ? "default" : "all");
}

static void
any(enum acl_resource r)
{
	enum acl_access most = ACL_DENY, least = ACL_DENY;

	for (enum acl_access need = ACL_READ; need <= ACL_WRITE; need++) {
		most = acl_set_allows_any(set, r, need) ? need : most;
		least = acl_set_allows_all(set, r, need) ? need : least;
	}
	printf("%s %s\n", acl_access_name(most), acl_access_name(least));
}

static enum acl_resource
resource(const char *name)
{
	for (enum acl_resource r = 0; r < ACL_RESOURCES; r++) {
		if (strcmp(name, acl_resource_name(r)) == 0)
			return r;
	}
	exit(2);
}

int
main(void)
{
	char *line = malloc(LINE_MAX_BYTES);

	while (line != NULL && fgets(line, LINE_MAX_BYTES, stdin) != NULL) {
		char *verb = strtok(line, " \n"), *first = strtok(NULL, " \n"), *second = strtok(NULL, " \n");

		if (verb == NULL || first == NULL)
			return 2;
		if (strcmp(verb, "policy") == 0)
			add_policy(first);
		else if (strcmp(verb, "set") == 0)
			compile(strcmp(first, "allow") == 0);
		else if (set != NULL && strcmp(verb, "ask") == 0 && second != NULL)
			ask(resource(first), second);
		else if (set != NULL && strcmp(verb, "any") == 0)
			any(resource(first));
		else
			return 2;
	}
	acl_set_free(set);
	while (count > 0)
		acl_rules_free(policies[--count]);
	free(line);
	return 0;
}
