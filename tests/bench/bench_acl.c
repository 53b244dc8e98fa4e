/*
 * What a decision of access rules costs.
 *
 *	bench_acl [-n RULES] [-q QUESTIONS] [-c]
 *
 * -n: rules, of four policies (50); -q: decisions measured (10,000,000); -c: names that begin each other, as deep as
 * fits, instead of the paths of teams and their services.  Questions go round 1,024 names, three of four below a rule.
 * One line, of processor time: rules, bytes of the set, microseconds to parse and to compile, nanoseconds for a
 * decision about a key, for whether all below it may be written, and for a search through all rules, which is what a
 * set has to be better than.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/acl/set.h"
#include "common/base/clock.h"
#include "common/base/rng.h"

#define POLICIES 4
#define NAMES 1024
#define NAME_MAX_BYTES 512

static struct acl_rules *lists[POLICIES];
static char names[NAMES][NAME_MAX_BYTES];
static struct span spans[NAMES];

static void
die(const char *what)
{
	fprintf(stderr, "bench_acl: %s\n", what);
	exit(1);
}

static double
spent(void)
{
	return (double)clock_thread_cpu().ns;
}

/* The name of rule i. */
static int
put_name(char *dst, unsigned i, bool chain)
{
	if (chain)
		return snprintf(dst, NAME_MAX_BYTES, "%0*d", (int)(i % 400) + 1, 0);
	return snprintf(dst, NAME_MAX_BYTES, "apps/team-%u/service-%u/", i / 16, i % 16);
}

static double
parse(unsigned rules, bool chain)
{
	static const char *const accesses[] = { "read", "write", "write", "deny", "list" };
	struct buf texts[POLICIES], why = BUF_INIT(4096);
	char name[NAME_MAX_BYTES];
	double start;

	for (unsigned p = 0; p < POLICIES; p++)
		buf_init(&texts[p], ACL_RULES_TEXT_MAX);
	for (unsigned i = 0; i < rules; i++) {
		put_name(name, i, chain);
		buf_printf(&texts[i % POLICIES], "%s \"%s\" { policy = \"%s\" }\n", i % 8 == 7 ? "key" : "key_prefix",
		    name,
		    accesses[i % 5]);
	}
	start = spent();
	for (unsigned p = 0; p < POLICIES; p++) {
		if (acl_rules_parse(buf_span(&texts[p]), &lists[p], &why) != TV_OK)
			die(buf_cstr(&why));
	}
	start = spent() - start;
	for (unsigned p = 0; p < POLICIES; p++)
		buf_done(&texts[p]);
	return start;
}

static void
make_names(unsigned rules, bool chain)
{
	struct rng r;

	rng_seed(&r, 1);
	for (unsigned i = 0; i < NAMES; i++) {
		int n = put_name(names[i], (unsigned)rng_below(&r, rules + rules / 3 + 1), chain);

		n += snprintf(names[i] + n, sizeof(names[i]) - (size_t)n, "%u/config", i);
		spans[i] = span_of(names[i], (size_t)n);
	}
}

static unsigned
search(struct span name)
{
	const struct acl_rule *best = NULL;

	for (unsigned p = 0; p < POLICIES; p++) {
		for (uint32_t i = 0; i < lists[p]->count; i++) {
			const struct acl_rule *rule = &lists[p]->rule[i];

			if (rule->resource == ACL_KEY && rule->prefix && span_starts(name, rule->name) &&
			    (best == NULL || rule->name.len > best->name.len))
				best = rule;
		}
	}
	return best == NULL ? ACL_DENY : best->access;
}

int
main(int argc, char **argv)
{
	unsigned rules = 50, questions = 10000000, sum = 0;
	double parsed, compiled, access, below, searched;
	struct acl_set *set;
	bool chain = false;
	int c;

	while ((c = getopt(argc, argv, "n:q:c")) != -1) {
		if (c == 'n')
			rules = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'q')
			questions = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'c')
			chain = true;
		else
			die("usage: bench_acl [-n rules] [-q questions] [-c]");
	}
	if (questions < 1000)
		die("-q needs at least 1000");
	parsed = parse(rules, chain);
	make_names(rules, chain);
	compiled = spent();
	if (acl_set_new((const struct acl_rules *const *)lists, POLICIES, false, &set) != TV_OK)
		die("the rules do not compile");
	compiled = spent() - compiled;
	access = spent();
	for (unsigned i = 0; i < questions; i++)
		sum += acl_set_access(set, ACL_KEY, spans[i % NAMES]);
	access = spent() - access;
	below = spent();
	for (unsigned i = 0; i < questions; i++)
		sum += acl_set_writes_below(set, ACL_KEY, spans[i % NAMES]);
	below = spent() - below;
	searched = spent();
	for (unsigned i = 0; i < questions / 1000; i++)
		sum += search(spans[i % NAMES]);
	searched = spent() - searched;
	printf("rules %u  bytes %zu  parse_us %.0f  compile_us %.0f  access_ns %.1f  below_ns %.1f  search_ns %.0f  "
	    "(%x)\n", rules,
	    acl_set_bytes(set), parsed / 1e3, compiled / 1e3, access / questions, below / questions,
	    searched / (questions / 1000), sum & 0xf);
	acl_set_free(set);
	for (unsigned p = 0; p < POLICIES; p++)
		acl_rules_free(lists[p]);
	return 0;
}
