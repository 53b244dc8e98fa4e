/* What the commands share, see ctl.h. */
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

void *
ctl_must(void *p)
{
	if (p != NULL)
		return p;
	fprintf(stderr, "clusterctl: out of memory\n");
	exit(1);
}

const char *
row_keep(json_t *row, const char *name, json_t *text)
{
	char key[64];

	snprintf(key, sizeof(key), "_%s", name);
	json_object_set_new(row, key, text);
	return json_text(row, key);
}

json_t *
json_at(const json_t *obj, const char *path)
{
	for (const char *dot; (dot = strchr(path, '.')) != NULL; path = dot + 1)
		obj = json_object_getn(obj, path, (size_t)(dot - path));
	return json_object_get(obj, path);
}

/* "a,b" of a list of texts. */
static const char *
keep_list(json_t *row, const char *key, const json_t *list)
{
	struct buf text = BUF_INIT(1u << 20);
	const char *kept;
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
		buf_printf(&text, "%s%s", i > 0 ? "," : "", json_string_value(v));
	kept = row_keep(row, key, json_string(buf_cstr(&text)));
	buf_done(&text);
	return kept;
}

const char *
out_cell(json_t *row, const struct column *column)
{
	const json_t *v = column->text == NULL ? json_at(row, column->key) : NULL;
	const char *text = json_string_value(v);

	if (column->text != NULL)
		return column->text(row);
	if (json_is_integer(v))
		text = row_keep(row, column->key, json_sprintf("%" JSON_INTEGER_FORMAT, json_integer_value(v)));
	else if (json_is_boolean(v))
		text = json_is_true(v) ? "true" : "false";
	else if (json_is_array(v))
		text = keep_list(row, column->key, v);
	return text != NULL && text[0] != '\0' ? text : column->none;
}

void
out_rows(json_t *rows, const struct column *columns)
{
	int widths[TABLE_COLUMNS_MAX] = { 0 };
	unsigned count = 0;

	while (columns[count].head != NULL)
		count++;
	TV_ASSERT(count > 0 && count <= TABLE_COLUMNS_MAX);
	/* Once to measure, once to print; row 0 is the head. */
	for (int print = 0; print < 2; print++)
		for (size_t r = 0; r <= json_array_size(rows); r++)
			for (unsigned c = 0; c < count; c++) {
				const char *text = r == 0 ? columns[c].head :
				    out_cell(json_array_get(rows, r - 1), &columns[c]);
				int width = (int)strlen(text);

				if (print && c + 1 < count)
					printf("%-*s  ", widths[c], text);
				else if (print)
					printf("%s\n", text);
				widths[c] = width > widths[c] ? width : widths[c];
			}
}

void
out_json(const json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
	putchar('\n');
}

int
out_json_new(json_t *value)
{
	out_json(value);
	json_decref(value);
	return 0;
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
	char *text = ctl_must(malloc(cap));

	log_safe(bytes, text, cap);
	return text;
}

const char *
json_text(const json_t *obj, const char *key)
{
	const char *text = json_string_value(json_object_get(obj, key));

	return text == NULL ? "" : text;
}

struct span
json_span(const json_t *obj, const char *key)
{
	const json_t *v = json_object_get(obj, key);

	return span_of(json_string_value(v), json_string_length(v));
}

const char *
json_text_at(const json_t *obj, const char *path)
{
	const char *text = json_string_value(json_at(obj, path));

	return text == NULL ? "" : text;
}

long long
json_int(const json_t *obj, const char *path)
{
	return (long long)json_integer_value(json_at(obj, path));
}

bool
json_flag(const json_t *obj, const char *path)
{
	return json_is_true(json_at(obj, path));
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
