/* clusterctl top: who used how much of a node's API, since it started or in some time from now on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/mono.h"
#include "common/text/duration.h"
#include "ctl/ctl.h"

#define PATH "/v1/agent/top"
#define ROWS_SHOWN 10			/* of each section, unless one alone is asked for */
#define FOR_MAX_S 3600

static const struct { const char *word, *member; } sections[] = {
	{ "clients", "Clients" }, { "tokens", "Tokens" }, { "endpoints", "Endpoints" }, { "keys", "Keys" },
	{ "nodes", "Nodes" },
};
#define SECTIONS (sizeof(sections) / sizeof(sections[0]))

static const char *const keys[] = { "Refused", "BytesIn", "BytesOut", "Requests" };	/* of a row, that are counts */

/* The row of this name; NULL: it has none. */
static json_t *
row_of(const json_t *list, const char *name)
{
	json_t *row;
	size_t i;

	json_array_foreach(list, i, row)
		if (strcmp(json_text(row, "Name"), name) == 0)
			return row;
	return NULL;
}

static void
subtract(json_t *row, json_t *old, const char *key)
{
	json_object_set_new(row, key, json_integer(json_int(row, key) - json_int(old, key)));
}

/* What came between; one that was forgotten meanwhile and came again began anew. */
static void
keep_difference(json_t *row, json_t *old)
{
	if (old == NULL || json_int(old, "Requests") > json_int(row, "Requests"))
		return;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		subtract(row, old, keys[i]);
}

static void
add_count(json_t *row, json_t *more, const char *key)
{
	json_object_set_new(row, key, json_integer(json_int(row, key) + json_int(more, key)));
}

/* The mean is of both, by their requests. */
static void
add_row(json_t *row, json_t *more)
{
	double a = (double)json_int(row, "Requests"), b = (double)json_int(more, "Requests");
	double ms = json_number_value(json_object_get(row, "Milliseconds")) * a +
	    json_number_value(json_object_get(more, "Milliseconds")) * b;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		add_count(row, more, keys[i]);
	json_object_set_new(row, "Milliseconds", json_real(a + b > 0 ? ms / (a + b) : 0));
}

/* Tokens that are not known have one name, each a row, and which they are is not told. */
static void
merge_equal(json_t *use)
{
	for (size_t s = 0; s < SECTIONS; s++) {
		json_t *list = json_object_get(use, sections[s].member);

		for (size_t i = json_array_size(list); i-- > 0;) {
			json_t *row = json_array_get(list, i), *first = row_of(list, json_text(row, "Name"));

			if (first == row)
				continue;
			add_row(first, row);
			json_array_remove(list, i);
		}
	}
}

static int
more_requests(const void *a, const void *b)
{
	long long x = json_int(*(json_t *const *)a, "Requests"), y = json_int(*(json_t *const *)b, "Requests");

	return (x < y) - (x > y);
}

/* Those with requests, the most first; all of them: as many as there are. */
static json_t *
busy_rows(const json_t *list, size_t most)
{
	size_t n = 0, all = json_array_size(list);
	json_t **v = ctl_must(calloc(all + 1, sizeof(*v))), *out = json_array();

	for (size_t i = 0; i < all; i++)
		if (json_int(json_array_get(list, i), "Requests") > 0)
			v[n++] = json_array_get(list, i);
	qsort(v, n, sizeof(*v), more_requests);
	for (size_t i = 0; i < n && i < most; i++)
		json_array_append(out, v[i]);
	free(v);
	return out;
}

static void
subtract_all(const json_t *after, const json_t *before)
{
	for (size_t s = 0; s < SECTIONS; s++) {
		const json_t *old = json_object_get(before, sections[s].member);
		json_t *row;
		size_t i;

		json_array_foreach(json_object_get(after, sections[s].member), i, row)
			keep_difference(row, row_of(old, json_text(row, "Name")));
	}
}

static const char *
mean_ms(json_t *row)
{
	char text[32];

	snprintf(text, sizeof(text), "%.3f", json_number_value(json_object_get(row, "Milliseconds")));
	return row_keep(row, "ms", json_string(text));
}

static void
print_section(size_t s, json_t *rows, bool first)
{
	char head[32];

	snprintf(head, sizeof(head), "%s", sections[s].member);
	if (!first)
		printf("\n");
	out_rows(rows, COLUMNS(COL_AS(head, "Name"), COL("Requests"), COL("Refused"), COL_AS("In", "BytesIn"),
	    COL_AS("Out", "BytesOut"), COL_BY("ms", mean_ms)));
}

/* The answer, or what came in this time. */
static json_t *
find_use(struct ctl *ctl, struct mono time)
{
	struct timespec wait = { .tv_sec = time.ns / 1000000000, .tv_nsec = time.ns % 1000000000 };
	json_t *before = ctl_get(ctl, PATH), *after;

	if (before == NULL || time.ns == 0)
		return before;
	while (nanosleep(&wait, &wait) != 0)
		;
	after = ctl_get(ctl, PATH);
	if (after != NULL) {
		merge_equal(before);
		merge_equal(after);
		subtract_all(after, before);
	}
	json_decref(before);
	return after;
}

int
cmd_top(struct ctl *ctl)
{
	const char *word = ctl->argv[0], *text = ctl_opt(ctl, "for");
	struct mono time = MONO_ZERO;
	size_t only = SECTIONS;
	bool first = true;
	json_t *use;

	while (word != NULL && only > 0 && strcmp(sections[only - 1].word, word) != 0)
		only--;
	if (only == 0)
		return CTL_WRONG_CALL;
	if (text != NULL && (duration_parse(span_str(text), &time.ns) != TV_OK || time.ns <= 0 ||
	    time.ns > FOR_MAX_S * INT64_C(1000000000))) {
		(void)ctl_complain(ctl, "--for: \"%s\" is no length of time up to 1h, such as 5s", text);
		return 2;
	}
	if ((use = find_use(ctl, time)) == NULL)
		return 1;
	for (size_t s = 0; s < SECTIONS; s++) {
		json_t *rows = busy_rows(json_object_get(use, sections[s].member),
		    ctl->json || word != NULL ? SIZE_MAX : ROWS_SHOWN);

		if (!ctl->json && (word == NULL || s == only - 1)) {
			print_section(s, rows, first);
			first = false;
		}
		if (word == NULL || s == only - 1)
			json_object_set_new(use, sections[s].member, rows);
		else {
			json_object_del(use, sections[s].member);
			json_decref(rows);
		}
	}
	if (ctl->json)
		out_json(use);
	json_decref(use);
	return 0;
}
