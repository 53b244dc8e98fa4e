/* What the commands share, see ctl.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "ctl/ctl.h"

#define PROGRESS_TTY_NS 100000000
#define PROGRESS_PLAIN_NS 5000000000

struct client *
ctl_client(struct ctl *ctl)
{
	if (ctl->client == NULL)
		ctl->client = client_new(ctl->addr, ctl->token);
	return ctl->client;
}

int
ctl_usage(const struct command *cmd)
{
	fprintf(stderr, "usage: clusterctl %s %s\n", cmd->name, cmd->args);
	return 2;
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
			argv[n++] = argv[i];
			continue;
		}
		used = take_option(argv[i], i + 1 < argc ? argv[i + 1] : NULL, specs, spec_count);
		if (used <= 0) {
			fprintf(stderr, "clusterctl: %s: %s \"%s\"\n", cmd->name,
			    used == 0 ? "unknown option" : "wrong use of option", argv[i]);
			ctl_usage(cmd);
			return -1;
		}
	}
	argv[n] = NULL;
	return n - 1;
}

void
out_table(const char *const *cells, unsigned rows, unsigned columns)
{
	for (unsigned r = 0; r < rows; r++) {
		for (unsigned c = 0; c < columns; c++) {
			size_t width = 0, n;

			for (unsigned i = 0; i < rows; i++) {
				n = strlen(cells[i * columns + c]);
				width = n > width ? n : width;
			}
			if (c + 1 == columns)
				printf("%s\n", cells[r * columns + c]);
			else
				printf("%-*s  ", (int)width, cells[r * columns + c]);
		}
	}
}

void
out_json(const json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
	putchar('\n');
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
}

void
progress_show(struct progress *p, const char *fmt, ...)
{
	int64_t now = clock_mono().ns;
	va_list ap;
	int n;

	if (p->last_ns != 0 && now - p->last_ns < (p->tty ? PROGRESS_TTY_NS : PROGRESS_PLAIN_NS))
		return;
	p->last_ns = now;
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
progress_end(struct progress *p)
{
	if (p->tty && p->last_ns != 0)
		fputc('\n', stderr);
}
