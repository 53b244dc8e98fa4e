/* clusterctl services: list, register, deregister: the services of the node that is asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

#define TIMEOUT_S 60
#define FILE_BYTES_MAX (1u << 20)

/* -- list -- */

/* The worse of two states of checks. */
static const char *
worse(const char *a, const char *b)
{
	static const char *const order[] = { "maintenance", "critical", "warning" };

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (strcmp(a, order[i]) == 0 || strcmp(b, order[i]) == 0)
			return order[i];
	return "passing";
}

static const char *
state_of(json_t *check)
{
	const char *id = json_text(check, "CheckID");

	return strcmp(id, "_node_maintenance") == 0 || strncmp(id, "_service_maintenance:", 21) == 0 ? "maintenance" :
	    json_text(check, "Status");
}

/* Adds to each service how it is, by its own checks and those of the node. */
static void
add_status(json_t *services, json_t *checks)
{
	json_t *service, *check;
	const char *id, *check_id;

	json_object_foreach(services, id, service) {
		const char *status = "passing";

		json_object_foreach(checks, check_id, check) {
			const char *of = json_text(check, "ServiceID");

			if (of[0] == '\0' || strcmp(of, json_text(service, "ID")) == 0)
				status = worse(status, state_of(check));
		}
		json_object_set_new(service, "Status", json_string(status));
	}
}

static void
print_services(json_t *services)
{
	json_t *rows = json_array(), *service;
	const char *id;

	json_object_foreach(services, id, service)
		json_array_append(rows, service);
	out_rows(rows, COLUMNS(COL("ID"), COL("Service"), COL("Address"), COL("Port"), COL("Status"), COL("Tags")));
	json_decref(rows);
}

int
services_list(struct ctl *ctl)
{
	json_t *services = ctl_get(ctl, "/v1/agent/services"), *checks = NULL;
	int rc = 1;

	if (services != NULL && ctl->json) {
		out_json(services);
		rc = 0;
	} else if (services != NULL && (checks = ctl_get(ctl, "/v1/agent/checks")) != NULL) {
		add_status(services, checks);
		print_services(services);
		rc = 0;
	}
	json_decref(services);
	json_decref(checks);
	return rc;
}

/* -- register -- */

static int
wrong(const struct ctl *ctl, const char *what, const char *value)
{
	char *shown = out_safe(span_str(value));

	(void)ctl_complain(ctl, "%s: \"%s\"", what, shown);
	free(shown);
	return 2;
}

/* The definition that the options make; NULL after a complaint, with the exit status. */
static json_t *
from_options(const struct ctl *ctl, int *rc)
{
	json_t *d = json_pack("{s:s,s:[],s:{}}", "Name", ctl->argv[0], "Tags", "Meta");

	*rc = 0;
	for (unsigned i = 0; i < ctl->given_count && d != NULL && *rc == 0; i++) {
		const char *form = ctl->given[i].option->form, *value = ctl->given[i].value;
		const char *eq = strchr(value, '=');

		if (strncmp(form, "--id ", 5) == 0)
			json_object_set_new(d, "ID", json_string(value));
		else if (strncmp(form, "--address ", 10) == 0)
			json_object_set_new(d, "Address", json_string(value));
		else if (strncmp(form, "--port ", 7) == 0)
			json_object_set_new(d, "Port", json_integer(strtoll(value, NULL, 10)));
		else if (strncmp(form, "--tag ", 6) == 0)
			json_array_append_new(json_object_get(d, "Tags"), json_string(value));
		else if (strncmp(form, "--ttl ", 6) == 0)
			json_object_set_new(d, "Check", json_pack("{s:s}", "TTL", value));
		else if (strncmp(form, "--meta ", 7) == 0 && eq == NULL)
			*rc = wrong(ctl, "--meta needs KEY=VALUE", value);
		else if (strncmp(form, "--meta ", 7) == 0)
			json_object_setn_new(json_object_get(d, "Meta"), value, (size_t)(eq - value),
			    json_string(eq + 1));
	}
	if (*rc == 0)
		return d;
	json_decref(d);
	return NULL;
}

/* What belongs into the definition itself. */
static bool
has_fields(const struct ctl *ctl)
{
	static const char *const names[] = { "id", "address", "port", "tag", "meta", "ttl" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (ctl_opt(ctl, names[i]) != NULL)
			return true;
	return false;
}

/* The definitions of a file: one; or as Consul's files have them, under `service` or `services`. */
static json_t *
from_file(const struct ctl *ctl, int *rc)
{
	struct buf text = BUF_INIT(FILE_BYTES_MAX);
	json_error_t why;
	json_t *v = NULL;

	*rc = 1;
	if (has_fields(ctl)) {
		(void)ctl_complain(ctl, "what a file defines takes none of these options");
		*rc = 2;
	} else if (ctl_value(ctl, ctl->argv[0], &text) &&
	    (v = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &why)) == NULL) {
		(void)ctl_complain(ctl, "%s:%d: %s", ctl->argv[0][0] == '@' ? ctl->argv[0] + 1 : "standard input",
		    why.line, why.text);
	}
	buf_done(&text);
	if (v == NULL)
		return NULL;
	json_t *inner = json_object_get(v, "services");
	if (inner == NULL)
		inner = json_object_get(v, "service");
	json_t *list = json_is_array(inner) ? json_incref(inner) : json_pack("[O]", inner != NULL ? inner : v);
	json_decref(v);
	return list;
}

static int
register_one(struct ctl *ctl, json_t *definition)
{
	struct buf path = BUF_INIT(65536);
	char *body = json_dumps(definition, JSON_COMPACT | JSON_ENCODE_ANY);
	const char *name = json_text(definition, "Name");
	int rc;

	ctl_path(ctl, &path, "/v1/agent/service/register", NULL, "");
	rc = ctl_send(ctl, "PUT", buf_cstr(&path), span_str(body != NULL ? body : ""), TIMEOUT_S);
	if (rc == 0) {
		char *shown = out_safe(span_str(name[0] != '\0' ? name : json_text(definition, "name")));

		printf("Registered service: %s\n", shown);
		free(shown);
	}
	buf_done(&path);
	free(body);
	return rc;
}

/* A name that is meant for a file, as `consul services register` takes it: nothing is done then. */
static bool
is_file_name(const char *name)
{
	const char *dot = strrchr(name, '.');

	return strchr(name, '/') != NULL ||
	    (dot != NULL && (strcmp(dot, ".json") == 0 || strcmp(dot, ".hcl") == 0 || strcmp(dot, ".conf") == 0));
}

int
services_register(struct ctl *ctl)
{
	bool file = ctl->argv[0][0] == '@' || strcmp(ctl->argv[0], "-") == 0;
	json_t *list, *one;
	size_t i;
	int rc;

	if (!file && is_file_name(ctl->argv[0])) {
		char *shown = out_safe(span_str(ctl->argv[0]));

		(void)ctl_complain(ctl, "\"%s\" looks like a file, and a name is expected: write @%s to register "
		    "what a file defines (in JSON)", shown, shown);
		free(shown);
		return 2;
	}
	list = file ? from_file(ctl, &rc) : json_pack("[o]", from_options(ctl, &rc));
	if (list == NULL)
		return rc;
	rc = 0;
	json_array_foreach(list, i, one)
		if (rc == 0)
			rc = register_one(ctl, one);
	json_decref(list);
	return rc;
}

/* -- deregister -- */

static int
hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The bytes that are shown as this: "a\x00b". */
static void
unshown(const char *shown, struct buf *out)
{
	for (; *shown != '\0'; shown++) {
		bool escape = strncmp(shown, "\\x", 2) == 0 && hex_digit(shown[2]) >= 0 && hex_digit(shown[3]) >= 0;

		buf_u8(out, escape ? (uint8_t)(hex_digit(shown[2]) << 4 | hex_digit(shown[3])) : (uint8_t)*shown);
		shown += escape ? 3 : 0;
	}
}

static bool
deregister(struct ctl *ctl, struct span id, struct client_answer *a)
{
	struct buf path = BUF_INIT(65536);
	bool done;

	buf_puts(&path, "/v1/agent/service/deregister/");
	client_encode_bytes(&path, id, false);
	done = client_do(ctl_client(ctl), "PUT", buf_cstr(&path), SPAN_NONE, TIMEOUT_S, a);
	buf_done(&path);
	return done;
}

int
services_deregister(struct ctl *ctl)
{
	struct buf bytes = BUF_INIT(65536);
	char *shown = out_safe(span_str(ctl->argv[0]));
	json_t *services = ctl_get(ctl, "/v1/agent/services");
	struct client_answer a;
	int rc = 1;

	unshown(ctl->argv[0], &bytes);
	if (services == NULL) {
		;
	} else if (json_object_get(services, shown) == NULL) {
		(void)ctl_complain(ctl, "this node has no service with the ID \"%s\" (see `clusterctl services "
		    "list`)", shown);
	} else {
		bool done = deregister(ctl, span_str(ctl->argv[0]), &a);

		if (!done && a.status == 404 && bytes.len < strlen(ctl->argv[0])) {
			client_answer_done(&a);		/* it was typed as `services list` shows it */
			done = deregister(ctl, buf_span(&bytes), &a);
		}
		rc = done ? 0 : client_complain(ctl->client, ctl->verb->words, &a);
		if (done)
			printf("Deregistered service: %s\n", shown);
		client_answer_done(&a);
	}
	json_decref(services);
	free(shown);
	buf_done(&bytes);
	return rc;
}
