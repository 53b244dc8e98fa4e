/* What the commands share, see ctl.h. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "ctl/ctl.h"

#define TABLE_COLUMNS_MAX 16
#define PROGRESS_TTY_NS 100000000
#define PROGRESS_PLAIN_NS 5000000000

struct client *
ctl_client(struct ctl *ctl)
{
	if (ctl->client == NULL) {
		ctl->client = client_new(ctl->addr, ctl->token);
		if (ctl->timeout.ns > 0)
			client_within(ctl->client, ctl->timeout);
	}
	client_keep_bytes(ctl->client, ctl->json);
	return ctl->client;
}

/* One option: 1 taken, 2 taken with the next argument, 0 unknown, -1 value missing. */
static int
take_option(const char *arg, const char *next, const struct option_spec *specs, unsigned count)
{
	size_t len = strcspn(arg + 2, "=");

	for (unsigned i = 0; i < count; i++) {
		if (strlen(specs[i].name) != len || strncmp(specs[i].name, arg + 2, len) != 0)
			continue;
		if (specs[i].flag != NULL) {
			*specs[i].flag = true;
			return arg[2 + len] == '\0' ? 1 : -1;
		}
		*specs[i].value = arg[2 + len] == '=' ? arg + 3 + len : next;
		return *specs[i].value == NULL ? -1 : arg[2 + len] == '=' ? 1 : 2;
	}
	return 0;
}

/* "name" or "name=VALUE" of one of them? */
static bool
is_spec(const char *arg, const struct option_spec *specs, unsigned count)
{
	size_t len = strcspn(arg, "=");

	for (unsigned i = 0; i < count; i++)
		if (strlen(specs[i].name) == len && strncmp(specs[i].name, arg, len) == 0)
			return true;
	return false;
}

static void
hint_near(const char *arg, const struct option_spec *specs, unsigned count)
{
	unsigned best = UINT_MAX;
	const char *near = NULL;
	char name[64];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	for (unsigned i = 0; i < count; i++)
		if (ctl_nearer(name, specs[i].name, &best))
			near = specs[i].name;
	if (near != NULL)
		fprintf(stderr, "Did you mean --%s?\n", near);
}

int
ctl_options(const struct command *cmd, int argc, char **argv, const struct option_spec *specs, unsigned spec_count)
{
	int n = 1, used;

	for (int i = 1; i < argc; i += used) {
		used = 1;
		if (strcmp(argv[i], "--") == 0) {
			for (i++; i < argc; i++)
				argv[n++] = argv[i];
			break;
		}
		if (strncmp(argv[i], "--", 2) != 0) {
			if (argv[i][0] == '-' && (is_spec(argv[i] + 1, specs, spec_count) || ctl_is_theirs(argv[i]))) {
				if (!ctl_hint_option(argv[i]))
					fprintf(stderr, "clusterctl: \"%s\" is written -%s here\n", argv[i], argv[i]);
				fprintf(stderr, "Behind \"--\" it would be a plain argument.\n");
				return -1;
			}
			argv[n++] = argv[i];
			continue;
		}
		used = take_option(argv[i], i + 1 < argc ? argv[i + 1] : NULL, specs, spec_count);
		if (used <= 0) {
			fprintf(stderr, "clusterctl: %s: %s \"%s\"\n", cmd->name,
			    used == 0 ? "unknown option" : "wrong use of option", argv[i]);
			if (used == 0 && !ctl_hint_option(argv[i]))
				hint_near(argv[i], specs, spec_count);
			ctl_usage(cmd);
			return -1;
		}
	}
	argv[n] = NULL;
	return n - 1;
}

/* "a b" holds "b". */
static bool
has_word(const char *words, const char *word)
{
	size_t len = strlen(word), n;

	for (; *words != '\0'; words += n + (words[n] == ' ')) {
		n = strcspn(words, " ");
		if (n == len && strncmp(words, word, n) == 0)
			return true;
	}
	return false;
}

bool
ctl_in_vain(const char *cmd, const char *verb, const struct option_spec *specs, unsigned spec_count,
    const char *known)
{
	for (unsigned i = 0; i < spec_count; i++) {
		bool given = specs[i].flag != NULL ? *specs[i].flag : *specs[i].value != NULL;

		if (!given || has_word(known, specs[i].name))
			continue;
		fprintf(stderr, "clusterctl: %s %s has no option --%s\n", cmd, verb, specs[i].name);
		return true;
	}
	return false;
}

int
ctl_repeated(const struct command *cmd, int *argc, char **argv, const char *name, const char **values, int max)
{
	size_t len = strlen(name);
	int n = 0, kept = 1, i;

	for (i = 1; i < *argc && strcmp(argv[i], "--") != 0; i++) {
		bool ours = strncmp(argv[i], "--", 2) == 0 && strncmp(argv[i] + 2, name, len) == 0;
		const char *rest = ours ? argv[i] + 2 + len : NULL;

		if (!ours || (*rest != '\0' && *rest != '=')) {
			argv[kept++] = argv[i];
			continue;
		}
		if (n == max || (*rest == '\0' && i + 1 == *argc)) {
			fprintf(stderr, "clusterctl: %s: --%s %s\n", cmd->name, name,
			    n == max ? "is given too often" : "needs a value");
			return -1;
		}
		values[n++] = *rest == '=' ? rest + 1 : argv[++i];
	}
	while (i < *argc)
		argv[kept++] = argv[i++];
	argv[kept] = NULL;
	*argc = kept;
	return n;
}

bool
ctl_value(const char *what, const char *arg, struct buf *out)
{
	FILE *f;
	uint8_t *p;
	size_t n;

	if (strcmp(arg, "-") != 0 && arg[0] != '@') {
		buf_puts(out, arg);
		return !out->failed;
	}
	f = arg[0] == '@' ? fopen(arg + 1, "rb") : stdin;
	if (f != NULL)
		while ((p = buf_room(out, 65536)) != NULL && (n = fread(p, 1, 65536, f)) > 0)
			out->len += n;
	if (f == NULL || ferror(f)) {
		fprintf(stderr, "clusterctl: %s: %s: %s\n", what, f == stdin ? "standard input" : arg + 1,
		    strerror(errno));
		if (f != NULL && f != stdin)
			fclose(f);
		return false;
	}
	if (f != stdin)
		fclose(f);
	if (out->failed)
		fprintf(stderr, "clusterctl: %s: the value is larger than %zu bytes\n", what, out->max - 65536);
	return !out->failed;
}

void
ctl_param(struct buf *path, const char *name, const char *value)
{
	if (value == NULL)
		return;
	buf_puts(path, path->len > 0 && memchr(path->data, '?', path->len) != NULL ? "&" : "?");
	buf_puts(path, name);
	if (value[0] == '\0')
		return;
	buf_u8(path, '=');
	client_encode(path, value, false);
}

/* Bytes of the longest cell of a column. */
static int
column_width(const char *const *cells, unsigned rows, unsigned columns, unsigned column)
{
	size_t width = 0;

	for (unsigned r = 0; r < rows; r++) {
		size_t n = strlen(cells[r * columns + column]);

		width = n > width ? n : width;
	}
	return (int)width;
}

void
out_table(const char *const *cells, unsigned rows, unsigned columns)
{
	int widths[TABLE_COLUMNS_MAX];

	TV_ASSERT(columns > 0 && columns <= TABLE_COLUMNS_MAX);
	for (unsigned c = 0; c < columns; c++)
		widths[c] = column_width(cells, rows, columns, c);
	for (unsigned r = 0; r < rows; r++) {
		for (unsigned c = 0; c + 1 < columns; c++)
			printf("%-*s  ", widths[c], cells[r * columns + c]);
		printf("%s\n", cells[r * columns + columns - 1]);
	}
}

void
out_json(const json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
	putchar('\n');
}

void
out_json_line(const json_t *value)
{
	json_dumpf(value, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
	putchar('\n');
}

char *
out_safe(struct span bytes)
{
	size_t cap = bytes.len * 4 + 1;		/* \xNN each at worst */
	char *text = malloc(cap);

	if (text == NULL) {
		fprintf(stderr, "clusterctl: out of memory\n");
		exit(1);
	}
	log_safe(bytes, text, cap);
	return text;
}

const char *
json_text(const json_t *obj, const char *key)
{
	const char *text = json_string_value(json_object_get(obj, key));

	return text == NULL ? "" : text;
}

int
ctl_put(struct ctl *ctl, const char *what, const char *path, struct span body, long timeout_s, const char *ok)
{
	struct client_answer a;
	int rc = 0;

	if (!client_do(ctl_client(ctl), "PUT", path, body, timeout_s, &a))
		rc = client_complain(ctl->client, what, &a);
	else if (ok != NULL)
		puts(ok);
	client_answer_done(&a);
	return rc;
}

void
progress_init(struct progress *p)
{
	*p = (struct progress){ .tty = isatty(STDERR_FILENO) };
	if (!p->tty)
		p->last_ns = clock_mono().ns;	/* what is done soon leaves no trace in a log */
}

bool
progress_due(const struct progress *p)
{
	return p->last_ns == 0 || clock_mono().ns - p->last_ns >= (p->tty ? PROGRESS_TTY_NS : PROGRESS_PLAIN_NS);
}

void
progress_show(struct progress *p, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (!progress_due(p))
		return;
	p->last_ns = clock_mono().ns;
	if (p->tty)
		fputc('\r', stderr);
	va_start(ap, fmt);
	n = vfprintf(stderr, fmt, ap);
	va_end(ap);
	if (!p->tty) {
		fputc('\n', stderr);
		return;
	}
	/* Wipe what is left of a longer line before. */
	if (n >= 0 && (unsigned)n < p->width)
		fprintf(stderr, "%*s", (int)(p->width - (unsigned)n), "");
	p->width = n < 0 ? 0 : (unsigned)n;
	fflush(stderr);
}

void
progress_wipe(struct progress *p)
{
	if (p->tty && p->last_ns != 0)
		fprintf(stderr, "\r%*s\r", (int)p->width, "");
}

void
progress_end(struct progress *p)
{
	if (p->tty && p->last_ns != 0)
		fputc('\n', stderr);
}
