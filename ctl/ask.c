/* What a verb asks of rpcd, and what it says on the way; see ctl.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"

static void __attribute__((format(printf, 2, 0)))
complain(const struct ctl *ctl, const char *fmt, va_list ap)
{
	struct buf text = BUF_INIT(1u << 20);

	buf_vprintf(&text, fmt, ap);		/* in one write: others may use the terminal */
	fprintf(stderr, "clusterctl: %s: %s\n", ctl->verb->words, buf_cstr(&text));
	buf_done(&text);
}

int
ctl_complain(const struct ctl *ctl, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(ctl, fmt, ap);
	va_end(ap);
	return 1;
}

bool
ctl_false(const struct ctl *ctl, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	complain(ctl, fmt, ap);
	va_end(ap);
	return false;
}

/* -- what a call gives -- */

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
		(void)ctl_complain(ctl, "%s: %s", f == stdin ? "standard input" : arg + 1, strerror(errno));
		if (f != NULL && f != stdin)
			fclose(f);
		return false;
	}
	if (f != stdin)
		fclose(f);
	if (out->failed)
		(void)ctl_complain(ctl, "the value is larger than %zu bytes", out->max - 65536);
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

/* -- questions -- */

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

void
ctl_path(const struct ctl *ctl, struct buf *path, const char *before, const char *name, const char *rest)
{
	buf_puts(path, before);
	if (name != NULL)
		client_encode(path, name, false);
	buf_puts(path, rest);
	ctl_params(ctl, path);
}

int
ctl_send(struct ctl *ctl, const char *method, const char *path, struct span body, long timeout_s)
{
	struct client_answer a;
	int rc = 0;

	if (!client_do(ctl_client(ctl), method, path, body, timeout_s, &a))
		rc = client_complain(ctl->client, ctl->verb->words, &a);
	client_answer_done(&a);
	return rc;
}

int
ctl_put(struct ctl *ctl, const char *path, long timeout_s, const char *ok)
{
	int rc = ctl_send(ctl, "PUT", path, SPAN_NONE, timeout_s);

	if (rc == 0 && ok != NULL)
		puts(ok);
	return rc;
}

json_t *
ctl_answer(struct ctl *ctl, const char *method, const char *path, struct span body, long timeout_s)
{
	struct client_answer a;
	json_t *answer = NULL;

	if (!client_do(ctl_client(ctl), method, path, body, timeout_s, &a))
		client_complain(ctl->client, ctl->verb->words, &a);
	else if ((answer = json_loadb((const char *)a.body.data, a.body.len, JSON_ALLOW_NUL, NULL)) == NULL)
		(void)ctl_complain(ctl, "the answer is not JSON");
	client_answer_done(&a);
	return answer;
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

json_t *
ctl_try(struct ctl *ctl, const char *path, long timeout_s)
{
	return client_try_json(ctl_client(ctl), path, timeout_s);
}

int
ctl_out(struct ctl *ctl, json_t *answer, void (*print)(json_t *answer))
{
	if (answer == NULL)
		return 1;
	if (ctl->json)
		out_json(answer);
	else
		print(answer);
	json_decref(answer);
	return 0;
}

/* GETs PATH[NAME]REST; NULL after a complaint. */
static json_t *
get_shown(struct ctl *ctl, const char *before, const char *name, const char *rest)
{
	struct buf path = BUF_INIT(1u << 20);
	json_t *answer;

	ctl_path(ctl, &path, before, name, rest);
	answer = ctl_get(ctl, buf_cstr(&path));
	buf_done(&path);
	return answer;
}

int
ctl_show(struct ctl *ctl, const char *before, const char *name, const char *rest, void (*print)(json_t *answer))
{
	return ctl_out(ctl, get_shown(ctl, before, name, rest), print);
}

int
ctl_show_rows(struct ctl *ctl, const char *before, const char *name, const struct column *columns)
{
	json_t *rows = get_shown(ctl, before, name, "");

	if (rows != NULL && !ctl->json)
		out_rows(rows, columns);
	else if (rows != NULL)
		out_json(rows);
	bool shown = rows != NULL;
	json_decref(rows);
	return shown ? 0 : 1;
}
