/* The verbs that all resources have, see resource.h. */
#include <malloc.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/uuid.h"
#include "ctl/json_errors.h"
#include "ctl/resource.h"

/* -- questions -- */

static void
wiping_free(void *p)
{
	if (p != NULL)
		sodium_memzero(p, malloc_usable_size(p));
	free(p);
}

void
resource_path(const struct ctl *ctl, struct buf *path, const char *what, const char *id, const char *rest)
{
	buf_printf(path, "/v1/%s", what);
	if (id != NULL) {
		buf_u8(path, '/');
		client_encode(path, id, false);
		buf_puts(path, rest);
	}
	ctl_params(ctl, path);
}

/* "ACL not found" is said of the token that is shown, and of the thing that is asked for. */
static bool
is_missing(struct ctl *ctl, const struct client_answer *a)
{
	struct client_answer self;
	bool known;

	if (a->status == 404)
		return a->body.len == 0;
	if (a->status != 403 || !span_eqs(buf_span(&a->body), "ACL not found"))
		return false;
	known = client_do(ctl->client, "GET", "/v1/acl/token/self", SPAN_NONE, RESOURCE_TIMEOUT_S, &self);
	client_answer_done(&self);
	return known;
}

/* Of one thing that is not there: what there is. */
static void
complain_of_one(struct ctl *ctl, const struct client_answer *a, const struct resource *r, const char *name)
{
	if (r == NULL || !is_missing(ctl, a)) {
		client_complain(ctl->client, ctl->verb->words, a);
		return;
	}
	json_errors_reason(REASON_NOT_FOUND);
	(void)ctl_complain(ctl, "there is no %s \"%s\"", r->noun, name);
	fprintf(stderr, "`clusterctl %s list` shows what there is.\n", r->words);
}

/* name: of one of these, which is asked for. */
static json_t *
ask_for(struct ctl *ctl, const char *method, const char *path, struct span body, const struct resource *r,
    const char *name)
{
	struct client_answer a;
	json_t *out = NULL;

	json_set_alloc_funcs(malloc, wiping_free);
	if (client_do(ctl_client(ctl), method, path, body, RESOURCE_TIMEOUT_S, &a)) {
		out = json_loadb((const char *)a.body.data, a.body.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		if (out == NULL)
			out = json_null();
	} else {
		complain_of_one(ctl, &a, r, name);
	}
	client_answer_done(&a);
	return out;
}

json_t *
resource_ask_bytes(struct ctl *ctl, const char *method, const char *path, struct span body)
{
	return ask_for(ctl, method, path, body, NULL, NULL);
}

json_t *
resource_ask(struct ctl *ctl, const char *method, const char *path, const json_t *body)
{
	char *text;
	json_t *out;

	json_set_alloc_funcs(malloc, wiping_free);
	text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	out = resource_ask_bytes(ctl, method, path, text != NULL ? span_str(text) : SPAN_NONE);
	wiping_free(text);
	return out;
}

/* PUT or DELETE; id NULL: a new one. */
static json_t *
send_change(struct ctl *ctl, const char *method, const struct resource *r, const char *id, const json_t *body)
{
	struct buf path = BUF_INIT(RESOURCE_PATH_MAX);
	json_t *out;

	resource_path(ctl, &path, r->one, id, "");
	out = resource_ask(ctl, method, buf_cstr(&path), body);
	buf_done(&path);
	return out;
}

/* All that this path lists; with a sentence about what is hidden, where the API hides some. */
static json_t *
get_list(struct ctl *ctl, const struct resource *r, const char *path)
{
	return r->names == RESOURCE_IN_LIST ? ctl_get(ctl, path) : resource_ask(ctl, "GET", path, NULL);
}

static json_t *
find_in_list(struct ctl *ctl, const struct resource *r, const char *wanted)
{
	struct buf path = BUF_INIT(RESOURCE_PATH_MAX);
	json_t *list, *row, *found = NULL;
	size_t i;

	resource_path(ctl, &path, r->all, NULL, "");
	list = get_list(ctl, r, buf_cstr(&path));
	buf_done(&path);
	json_array_foreach(list, i, row)
		if (strcmp(json_text(row, "ID"), wanted) == 0 || strcmp(json_text(row, "Name"), wanted) == 0)
			found = row;
	if (list != NULL && found == NULL)
		(void)ctl_complain(ctl, "there is no %s \"%s\"; `clusterctl %s list` shows them", r->noun, wanted,
		    r->words);
	json_incref(found);
	json_decref(list);
	return found;
}

json_t *
resource_get(struct ctl *ctl, const struct resource *r, const char *wanted)
{
	bool name = r->names == RESOURCE_BY_NAME && !uuid_parse(span_str(wanted), NULL);
	struct buf path = BUF_INIT(RESOURCE_PATH_MAX);
	json_t *out;

	if (r->names == RESOURCE_IN_LIST)
		return find_in_list(ctl, r, wanted);
	buf_printf(&path, "/v1/%s/%s", r->one, name ? "name/" : "");
	client_encode(&path, wanted, false);
	ctl_params(ctl, &path);
	out = ask_for(ctl, "GET", buf_cstr(&path), SPAN_NONE, r, wanted);
	buf_done(&path);
	return out;
}

bool
resource_id(struct ctl *ctl, const struct resource *r, const char *wanted, char *id, size_t cap)
{
	json_t *found = NULL;
	bool good;

	if (r->names != RESOURCE_BY_ID && !uuid_parse(span_str(wanted), NULL)) {
		found = resource_get(ctl, r, wanted);
		if (found == NULL)
			return false;
		wanted = json_text(found, "ID");
	}
	good = wanted[0] != '\0' && span_copy(span_str(wanted), id, cap);
	if (!good)
		(void)ctl_complain(ctl, "that is no name of a %s", r->noun);
	json_decref(found);
	return good;
}

/* -- what a call gives -- */

int
resource_set(const struct ctl *ctl, const struct resource *r, json_t *thing)
{
	int rc = 0;

	for (const struct resource_field *f = r->fields; rc == 0 && f != NULL && f->key != NULL; f++)
		if (f->option == NULL || (ctl_option_in(ctl->verb->options, f->option) != NULL &&
		    ctl_opt(ctl, f->option) != NULL))
			rc = f->set(ctl, f, thing);
	return rc;
}

int
resource_set_text(const struct ctl *ctl, const struct resource_field *f, json_t *thing)
{
	json_object_set_new(thing, f->key, json_string(ctl_opt(ctl, f->option)));
	return 0;
}

int
resource_set_true(const struct ctl *ctl UNUSED, const struct resource_field *f, json_t *thing)
{
	json_object_set_new(thing, f->key, json_true());
	return 0;
}

static int
set_from_file(const struct ctl *ctl, const struct resource_field *f, json_t *thing, bool is_json)
{
	struct buf text = BUF_INIT(RESOURCE_BODY_MAX);
	json_t *v = NULL;
	json_error_t e;

	text.secret = true;
	if (ctl_value(ctl, ctl_opt(ctl, f->option), &text)) {
		v = is_json ? json_loadb((const char *)text.data, text.len, 0, &e) :
		    json_stringn((const char *)text.data, text.len);
		if (v == NULL && is_json)
			(void)ctl_complain(ctl, "--%s: not JSON: line %d: %s", f->option, e.line, e.text);
		else if (v == NULL)
			(void)ctl_complain(ctl, "--%s: not UTF-8", f->option);
	}
	buf_done(&text);
	return v != NULL && json_object_set_new(thing, f->key, v) == 0 ? 0 : 1;
}

int
resource_set_value(const struct ctl *ctl, const struct resource_field *f, json_t *thing)
{
	return set_from_file(ctl, f, thing, false);
}

int
resource_set_json(const struct ctl *ctl, const struct resource_field *f, json_t *thing)
{
	return set_from_file(ctl, f, thing, true);
}

/* -- showing -- */

void
resource_print(json_t *thing, const struct column *lines)
{
	for (const struct column *line = lines; line->head != NULL; line++) {
		const char *text = out_cell(thing, line);

		if (text[0] != '\0')
			printf("%-*s %s\n", RESOURCE_TITLE_WIDTH, line->head, text);
	}
}

int
resource_show(struct ctl *ctl, const struct resource *r, json_t *thing)
{
	json_t *safe;

	if (thing == NULL)
		return 1;
	if (r->show != NULL)
		return r->show(ctl, thing);
	if (ctl->json) {
		out_json(thing);
	} else {
		safe = json_deep_copy(thing);
		json_safe(safe);
		resource_print(safe, r->lines);
		if (r->print_rest != NULL)
			r->print_rest(safe, thing);
		json_decref(safe);
	}
	json_decref(thing);
	return 0;
}

/* -- verbs -- */

/* Appends the parameters of list; false after a complaint. */
static bool
put_filters(struct ctl *ctl, const struct resource *r, struct buf *path)
{
	char id[64];

	for (const struct resource_filter *f = r->filters; f != NULL && f->option != NULL; f++) {
		const char *value = ctl_opt(ctl, f->option);

		if (value != NULL && f->of != NULL && !resource_id(ctl, f->of, value, id, sizeof(id)))
			return false;
		ctl_param(path, f->param, value != NULL && f->of != NULL ? id : value);
	}
	return true;
}

int
resource_list(struct ctl *ctl)
{
	const struct resource *r = ctl->resource;
	struct buf path = BUF_INIT(RESOURCE_PATH_MAX);
	json_t *list = NULL;

	resource_path(ctl, &path, r->all, NULL, "");
	if (put_filters(ctl, r, &path))
		list = get_list(ctl, r, buf_cstr(&path));
	buf_done(&path);
	if (list == NULL)
		return 1;
	if (ctl->json) {
		out_json(list);
	} else {
		json_safe(list);
		out_rows(list, r->columns);
	}
	json_decref(list);
	return 0;
}

int
resource_read(struct ctl *ctl)
{
	const struct resource *r = ctl->resource;

	return resource_show(ctl, r, resource_get(ctl, r, ctl->argv[0]));
}

/* An argument is the name. */
int
resource_create(struct ctl *ctl)
{
	const struct resource *r = ctl->resource;
	json_t *thing = json_object();
	int rc;

	if (ctl->argc > 0)
		json_object_set_new(thing, "Name", json_string(ctl->argv[0]));
	rc = resource_set(ctl, r, thing);
	if (rc == 0)
		rc = resource_show(ctl, r, send_change(ctl, "PUT", r, NULL, thing));
	json_decref(thing);
	return rc;
}

/* What the call does not give stays as it is, but for hashes, times and indexes, which an update must not bring. */
int
resource_update(struct ctl *ctl)
{
	static const char *const made[] = { "CreateTime", "Hash", "CreateIndex", "ModifyIndex", "Legacy" };
	const struct resource *r = ctl->resource;
	json_t *thing = resource_get(ctl, r, ctl->argv[0]);
	int rc;

	if (thing == NULL)
		return 1;
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		(void)json_object_del(thing, made[i]);
	rc = resource_set(ctl, r, thing);
	if (rc == 0)
		rc = resource_show(ctl, r, send_change(ctl, "PUT", r,
		    r->key != NULL ? json_text(thing, r->key) : ctl->argv[0], thing));
	json_decref(thing);
	return rc;
}

int
resource_delete(struct ctl *ctl)
{
	const struct resource *r = ctl->resource;
	json_t *done = NULL;
	char id[1024];

	if (resource_id(ctl, r, ctl->argv[0], id, sizeof(id)))
		done = send_change(ctl, "DELETE", r, id, NULL);
	if (done == NULL)
		return 1;
	json_decref(done);
	printf("Deleted %s %s\n", r->noun, r->names == RESOURCE_IN_LIST ? id : ctl->argv[0]);
	return 0;
}
