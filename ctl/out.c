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
		ctl->client = ctl_new_client(ctl);
		if (ctl->timeout.ns > 0)
			client_within(ctl->client, ctl->timeout);
	}
	client_keep_bytes(ctl->client, ctl->json);
	return ctl->client;
}

bool
ctl_value(const struct ctl *ctl, const char *arg, struct buf *out)
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
		fprintf(stderr, "clusterctl: %s: %s: %s\n", ctl->verb->words, f == stdin ? "standard input" : arg + 1,
		    strerror(errno));
		if (f != NULL && f != stdin)
			fclose(f);
		return false;
	}
	if (f != stdin)
		fclose(f);
	if (out->failed)
		fprintf(stderr, "clusterctl: %s: the value is larger than %zu bytes\n", ctl->verb->words,
		    out->max - 65536);
	return !out->failed;
}

bool
ctl_file(const struct ctl *ctl, const char *name, struct buf *out)
{
	struct buf arg = BUF_INIT(1u << 16);
	bool good;

	if (strcmp(name, "-") != 0)
		buf_u8(&arg, '@');
	buf_puts(&arg, name);
	good = ctl_value(ctl, buf_cstr(&arg), out);
	buf_done(&arg);
	return good;
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

const char *
row_keep(json_t *row, const char *name, json_t *text)
{
	char key[64];

	snprintf(key, sizeof(key), "_%s", name);
	json_object_set_new(row, key, text);
	return json_text(row, key);
}

const char *
out_cell(json_t *row, const struct column *column)
{
	const json_t *v = column->text == NULL ? json_object_get(row, column->key) : NULL;

	if (column->text != NULL)
		return column->text(row);
	if (json_is_integer(v))
		return row_keep(row, column->key, json_sprintf("%" JSON_INTEGER_FORMAT, json_integer_value(v)));
	return json_is_boolean(v) ? (json_is_true(v) ? "true" : "false") : json_text(row, column->key);
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

json_t *
ctl_get(struct ctl *ctl, const char *path)
{
	char words[128] = "";

	/* As they are typed: one row has a word that may be left out. */
	for (const char *w = ctl->verb->words; *w != '\0' && strlen(words) + 1 < sizeof(words); w++)
		if (*w != '[' && *w != ']')
			strncat(words, w, 1);
	return client_get_json(ctl_client(ctl), words, path);
}

int
ctl_show(struct ctl *ctl, const char *path, const char *name, const char *rest, void (*print)(json_t *answer))
{
	struct buf whole = BUF_INIT(1u << 20);
	json_t *answer;

	buf_puts(&whole, path);
	if (name != NULL)
		client_encode(&whole, name, false);
	buf_puts(&whole, rest);
	ctl_params(ctl, &whole);
	answer = ctl_get(ctl, buf_cstr(&whole));
	buf_done(&whole);
	if (answer == NULL)
		return 1;
	if (ctl->json)
		out_json(answer);
	else
		print(answer);
	json_decref(answer);
	return 0;
}

int
ctl_put(struct ctl *ctl, const char *path, long timeout_s, const char *ok)
{
	struct client_answer a;
	int rc = 0;

	if (!client_do(ctl_client(ctl), "PUT", path, SPAN_NONE, timeout_s, &a))
		rc = client_complain(ctl->client, ctl->verb->words, &a);
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
