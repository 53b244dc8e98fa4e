/*
 * check_history FILE: is the history in FILE linearizable?  linear.h says what a line is.  "-": standard input.
 *
 *   check_history [--work N] FILE      N: steps of the search for each group of keys, then it gives up
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/linear.h"

#define STEPS_MAX 64		/* in one line */

struct words {			/* text -> small number from 1 on */
	char **text;
	size_t count, cap;
	uint32_t *table;
	size_t table_cap;
};

struct history {
	struct linear *l;
	struct words keys, values;
	char **lines;		/* by tag */
	size_t line_count, line_cap;
	unsigned long outcomes[4];
};

static const char *const outcome_names[] = { "ok", "false", "none", "unknown" };

static void *
grow(void *p, size_t *cap, size_t need, size_t size)
{
	if (need <= *cap)
		return p;
	*cap = *cap * 2 + 1024;
	p = realloc(p, *cap * size);
	TV_ASSERT(p != NULL);
	return p;
}

static char *
copy(const char *text)
{
	char *s = strdup(text);

	TV_ASSERT(s != NULL);
	return s;
}

/* -- words */

static uint32_t *
word_place(const struct words *w, const char *text)
{
	uint64_t h = 0xcbf29ce484222325u;
	size_t at;

	for (const char *p = text; *p != '\0'; p++)
		h = (h ^ (uint8_t)*p) * 0x100000001b3u;
	at = (h ^ (h >> 31)) & (w->table_cap - 1);
	while (w->table[at] != 0 && strcmp(w->text[w->table[at] - 1], text) != 0)
		at = (at + 1) & (w->table_cap - 1);
	return &w->table[at];
}

static void
grow_words(struct words *w)
{
	free(w->table);
	w->table_cap = w->table_cap > 0 ? w->table_cap * 2 : 1024;
	w->table = calloc(w->table_cap, sizeof(w->table[0]));
	TV_ASSERT(w->table != NULL);
	for (size_t i = 0; i < w->count; i++)
		*word_place(w, w->text[i]) = (uint32_t)i + 1;
}

static uint32_t
word_number(struct words *w, const char *text)
{
	uint32_t *place;

	if (w->count * 2 >= w->table_cap)
		grow_words(w);
	place = word_place(w, text);
	if (*place == 0) {
		w->text = grow(w->text, &w->cap, w->count + 1, sizeof(w->text[0]));
		w->text[w->count++] = copy(text);
		*place = (uint32_t)w->count;
	}
	return *place;
}

static void
words_done(struct words *w)
{
	for (size_t i = 0; i < w->count; i++)
		free(w->text[i]);
	free(w->text);
	free(w->table);
}

/* -- lines */

/* KIND:KEY[=VALUE] */
static bool
read_step(struct history *h, char *word, struct lin_step *out)
{
	char *value;

	if (strlen(word) < 3 || word[1] != ':' || strchr("rcw", word[0]) == NULL)
		return false;
	value = strchr(word + 2, '=');
	if (value != NULL)
		*value++ = '\0';
	out->kind = word[0] == 'r' ? LIN_READ : word[0] == 'c' ? LIN_CHECK : LIN_WRITE;
	out->key = word_number(&h->keys, word + 2) - 1;
	out->value = value != NULL ? word_number(&h->values, value) : LIN_ABSENT;
	return true;
}

static bool
read_time(const char *word, int64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoll(word, &end, 10);
	return errno == 0 && end != word && *end == '\0';
}

static bool
read_outcome(const char *word, enum lin_outcome *out)
{
	for (int i = 0; i < 4; i++)
		if (strcmp(word, outcome_names[i]) == 0) {
			*out = (enum lin_outcome)i;
			return true;
		}
	return false;
}

static bool
times_fit(const struct lin_op *op, const char *end)
{
	return op->outcome == LIN_UNKNOWN || op->outcome == LIN_NONE || (strcmp(end, "-") != 0 && op->start <= op->end);
}

/* NULL, or what is wrong with the line. */
static const char *
read_line(struct history *h, char *line)
{
	struct lin_step steps[STEPS_MAX];
	struct lin_op op = { .end = INT64_MAX, .tag = (uint32_t)h->line_count };
	char *whole = copy(line), *save = NULL, *client = strtok_r(line, " ", &save), *start = strtok_r(NULL, " ", &save),
	    *end = strtok_r(NULL, " ", &save), *outcome = strtok_r(NULL, " ", &save), *word;
	size_t count = 0;
	bool compares = false;

	h->lines = grow(h->lines, &h->line_cap, h->line_count + 1, sizeof(h->lines[0]));
	h->lines[h->line_count++] = whole;
	if (client == NULL || outcome == NULL || !read_outcome(outcome, &op.outcome))
		return "not CLIENT START END OUTCOME STEP...";
	if (!read_time(start, &op.start) || (strcmp(end, "-") != 0 && !read_time(end, &op.end)) || !times_fit(&op, end))
		return "times";
	for (; (word = strtok_r(NULL, " ", &save)) != NULL; count++) {
		if (count == STEPS_MAX || !read_step(h, word, &steps[count]))
			return "step";
		compares |= steps[count].kind == LIN_CHECK;
	}
	if (count == 0 || (op.outcome == LIN_FALSE && !compares))
		return "steps are missing";
	h->outcomes[op.outcome]++;
	linear_add(h->l, &op, steps, count);
	return NULL;
}

static bool
read_history(struct history *h, FILE *f, const char *name)
{
	char *line = NULL;
	const char *wrong = NULL;
	size_t cap = 0;
	ssize_t len;
	uint32_t number = 0;

	while (wrong == NULL && (len = getline(&line, &cap, f)) >= 0) {
		number++;
		if (len > 0 && line[len - 1] == '\n')
			line[len - 1] = '\0';
		if (line[0] != '\0' && line[0] != '#')
			wrong = read_line(h, line);
	}
	if (wrong != NULL)
		fprintf(stderr, "%s:%u: %s\n", name, number, wrong);
	free(line);
	return wrong == NULL;
}

/* -- the report */

static const char *
value_text(const struct history *h, uint64_t value)
{
	return value == LIN_ABSENT ? "(absent)" : h->values.text[value - 1];
}

static void
print_report(const struct history *h, const struct lin_report *r)
{
	printf("  %s\n", h->lines[r->tag]);
	printf("  this operation %s\n", r->why);
	for (size_t i = 0; i < r->key_count; i++)
		printf("  the longest order has %s there: %s\n", h->keys.text[r->keys[i]], value_text(h, r->values[i]));
}

static int
judge(struct history *h, uint64_t work)
{
	struct lin_report report;
	enum lin_verdict v = linear_check(h->l, work, &report);

	printf("%zu operations on %zu keys: %lu ok, %lu false, %lu none, %lu unknown\n", h->line_count, h->keys.count,
	    h->outcomes[LIN_OK], h->outcomes[LIN_FALSE], h->outcomes[LIN_NONE], h->outcomes[LIN_UNKNOWN]);
	if (v == LIN_YES) {
		printf("linearizable\n");
		return 0;
	}
	printf("%s\n", v == LIN_NO ? "NOT linearizable" : "given up; the search got stuck at");
	print_report(h, &report);
	return v == LIN_NO ? 1 : 3;
}

static void
history_done(struct history *h)
{
	for (size_t i = 0; i < h->line_count; i++)
		free(h->lines[i]);
	free(h->lines);
	words_done(&h->keys);
	words_done(&h->values);
	linear_free(h->l);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = { { "work", required_argument, NULL, 'w' }, { NULL, 0, NULL, 0 } };
	struct history h = { 0 };
	uint64_t work = 0;
	FILE *f;
	int opt, status = 2;

	while ((opt = getopt_long(argc, argv, "w:", options, NULL)) == 'w')
		work = strtoull(optarg, NULL, 0);
	if (opt != -1 || optind + 1 != argc) {
		fprintf(stderr, "usage: check_history [--work N] FILE\n");
		return 2;
	}
	f = strcmp(argv[optind], "-") == 0 ? stdin : fopen(argv[optind], "r");
	if (f == NULL) {
		perror(argv[optind]);
		return 2;
	}
	h.l = linear_new();
	if (read_history(&h, f, argv[optind]))
		status = judge(&h, work);
	history_done(&h);
	fclose(f);
	return status;
}
