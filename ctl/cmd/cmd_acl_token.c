/* clusterctl acl bootstrap, set-agent-token, token, login, logout: what makes, shows, uses and ends tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/duration.h"
#include "common/text/json_text.h"
#include "ctl/acl.h"

#define BEARER_BYTES_MAX (64u << 10)
#define SECRET_BYTES_MAX 4096u

/* -- showing -- */

static const struct column token_lines[] = {
	COL_AS("AccessorID:", "AccessorID"), COL_AS("SecretID:", "SecretID"), COL_AS("Description:", "Description"),
	COL_AS("Local:", "Local"), COL_AS("Auth method:", "AuthMethod"), COL_AS("Created:", "CreateTime"),
	COL_AS("Expires:", "ExpirationTime"), COL_END
};

/* The token is taken over.  instead: what stands in the place of its secret; NULL: that is shown. */
static int
show_token(struct ctl *ctl, json_t *t, const char *instead)
{
	if (instead != NULL) {
		(void)json_object_del(t, "SecretID");
		(void)json_object_del(t, "ID");		/* of a bootstrap: the same */
	}
	if (ctl->json) {
		out_json(t);
	} else {
		json_safe(t);
		if (instead != NULL)
			json_object_set_new(t, "SecretID", json_stringn_nocheck(instead, strlen(instead)));
		resource_print(t, token_lines);
		acl_print_links(t, t);
	}
	json_decref(t);
	return 0;
}

/* The file of --out: *out_fd is -1 without it; false after a complaint. */
static bool
make_out_file(const struct ctl *ctl, int *out_fd)
{
	const char *path = ctl_opt(ctl, "out");

	*out_fd = path != NULL ? token_file_new(ctl->verb->words, path) : -1;
	return path == NULL || *out_fd >= 0;
}

/*
 * Shows a new token, whose secret goes into the file that make_out_file() made.  The token is taken over; NULL:
 * there is none, the file goes, and the exit status is 1.
 */
static int
show_new(struct ctl *ctl, json_t *token, int out_fd)
{
	const char *path = ctl_opt(ctl, "out");
	char where[4096];

	if (out_fd < 0)
		return token != NULL ? show_token(ctl, token, NULL) : 1;
	if (!token_file_end(ctl->verb->words, path, out_fd, span_str(json_text(token, "SecretID")))) {
		if (token != NULL)
			fprintf(stderr, "The token %s was made all the same.\n", json_text(token, "AccessorID"));
		json_decref(token);
		return 1;
	}
	snprintf(where, sizeof(where), "(in %s)", path);
	return show_token(ctl, token, where);
}

/* One that is there: without its secret, unless that is asked for. */
static int
show_known(struct ctl *ctl, json_t *token)
{
	if (token == NULL)
		return 1;
	return show_token(ctl, token, ctl_opt(ctl, "show-secret") != NULL ? NULL : "(not shown; --show-secret does)");
}

/* -- the first token -- */

/* The way out that the refusal names: "... (reset index: N)". */
static void
tell_reset(struct span text)
{
	static const char before[] = "reset index: ";
	const char *at = text.len > 0 ? memmem(text.p, text.len, before, sizeof(before) - 1) : NULL;
	unsigned long long index = at != NULL ? strtoull(at + sizeof(before) - 1, NULL, 10) : 0;

	if (index > 0)
		fprintf(stderr, "It was made before. To make another one, which revokes that of before, run this as "
		    "root on the leader, which `clusterctl raft list-peers` shows, and bootstrap again:\n"
		    "  echo %llu > %s/raftd/acl-bootstrap-reset\n"
		    "(in the folder raftd of its data_dir).\n", index, TV_DATADIR);
}

/* {"NAME":"SECRET"}, of a secret that is printable, as token_file_read() gives it. */
static void
put_secret(const char *name, const struct buf *secret, struct buf *body)
{
	body->secret = true;
	buf_printf(body, "{\"%s\":", name);
	json_quote(buf_span(secret), body);
	buf_u8(body, '}');
}

/* Servers of an older version choose another one. */
static void
tell_other_secret(json_t *token, const struct buf *chosen)
{
	if (token != NULL && chosen->len > 0 && !span_eqs(buf_span(chosen), json_text(token, "SecretID")))
		fprintf(stderr, "The leader is of a version that chooses the secret itself: it is not the one that was "
		    "given.\n");
}

int
acl_bootstrap(struct ctl *ctl)
{
	struct buf path = BUF_INIT(RESOURCE_PATH_MAX), secret = BUF_INIT(SECRET_BYTES_MAX);
	struct buf body = BUF_INIT(2 * SECRET_BYTES_MAX);
	struct client_answer a;
	json_t *token = NULL;
	int out_fd, rc;

	if ((ctl->argc > 0 && !token_file_read(ctl->verb->words, ctl->argv[0], &secret)) ||
	    !make_out_file(ctl, &out_fd)) {
		buf_done(&secret);
		return 1;
	}
	if (secret.len > 0)
		put_secret("BootstrapSecret", &secret, &body);
	resource_path(ctl, &path, "acl/bootstrap", NULL, "");
	if (client_do(ctl_client(ctl), "PUT", buf_cstr(&path), buf_span(&body), RESOURCE_TIMEOUT_S, &a)) {
		token = json_loadb((const char *)a.body.data, a.body.len, 0, NULL);
		if (token == NULL)
			(void)ctl_complain(ctl, "the answer is not JSON");
	} else {
		client_complain(ctl->client, ctl->verb->words, &a);
		tell_reset(buf_span(&a.body));
	}
	client_answer_done(&a);
	buf_done(&path);
	tell_other_secret(token, &secret);
	buf_done(&secret);
	buf_done(&body);
	bool made = token != NULL;
	rc = show_new(ctl, token, out_fd);
	if (made && out_fd < 0)
		fprintf(stderr, "This token may do everything. Keep its secret in a file that only you can read, and "
		    "show it with --token-file FILE or TRIUMVIR_TOKEN; --out FILE would have written that file.\n");
	return rc;
}

/* -- the agent's own -- */

/* As the command and the API call them. */
static const struct { const char *word, *path; } agent_kinds[] = {
	{ "default", "default" }, { "agent", "agent" }, { "recovery", "agent_master" },
	{ "agent_master", "agent_master" }, { "replication", "replication" },
	{ "config_file_service_registration", "config_file_service_registration" },
};

static const char *
agent_kind_path(const char *word)
{
	for (size_t i = 0; i < sizeof(agent_kinds) / sizeof(agent_kinds[0]); i++)
		if (strcmp(agent_kinds[i].word, word) == 0)
			return agent_kinds[i].path;
	fprintf(stderr, "clusterctl: acl set-agent-token: \"%s\" is not one of default, agent, recovery, replication, "
	    "config_file_service_registration\n", word);
	return NULL;
}

int
acl_set_agent_token(struct ctl *ctl)
{
	struct buf path = BUF_INIT(256), secret = BUF_INIT(SECRET_BYTES_MAX), body = BUF_INIT(2 * SECRET_BYTES_MAX);
	const char *kind = agent_kind_path(ctl->argv[0]);
	int rc;

	if (kind == NULL)
		return 2;
	if (!token_file_read(ctl->verb->words, ctl->argv[1], &secret)) {
		buf_done(&secret);
		return 1;
	}
	buf_printf(&path, "/v1/agent/token/%s", kind);
	put_secret("Token", &secret, &body);
	rc = ctl_send(ctl, "PUT", buf_cstr(&path), buf_span(&body), RESOURCE_TIMEOUT_S);
	if (rc == 0)
		printf("ACL token \"%s\" set successfully\nIt holds until the agent is reloaded or restarted; with "
		    "acl.enable_token_persistence in rpcd.conf it is kept.\n", ctl->argv[0]);
	buf_done(&path);
	buf_done(&secret);
	buf_done(&body);
	return rc;
}

/* -- tokens -- */

static int
set_ttl(const struct ctl *ctl, const struct resource_field *f, json_t *thing)
{
	const char *ttl = ctl_opt(ctl, f->option);
	int64_t ns;

	if (duration_parse(span_str(ttl), &ns) == TV_OK)
		return resource_set_text(ctl, f, thing);
	(void)ctl_complain(ctl, "--ttl: \"%s\" is no length of time, such as 8h", ttl);
	return 2;
}

/* A secret that others chose comes out of a file. */
static int
set_secret(const struct ctl *ctl, const struct resource_field *f, json_t *thing)
{
	struct buf secret = BUF_INIT(SECRET_BYTES_MAX);
	bool good = token_file_read("--secret-file", ctl_opt(ctl, f->option), &secret);

	if (good)
		json_object_set_new(thing, f->key, json_string(buf_cstr(&secret)));
	buf_done(&secret);
	return good ? 0 : 1;
}

const struct resource resource_tokens = {
	.words = "acl token", .noun = "token", .one = "acl/token", .all = "acl/tokens",
	.columns = COLUMNS(
		COL("AccessorID"), COL_BY("Policies", acl_policies_text), COL_BY("Roles", acl_roles_text),
		COL_BY("Identities", acl_identities_text), COL("Local"), COL_OR("Expires", "ExpirationTime", "never"),
		COL("Description")),
	.show = show_known,
	.fields = (const struct resource_field[]){
		{ "accessor", "AccessorID", resource_set_text }, { "ttl", "ExpirationTTL", set_ttl },
		{ "local", "Local", resource_set_true }, { "description", "Description", resource_set_text },
		{ NULL, "", acl_set_links }, { "secret-file", "SecretID", set_secret }, { NULL, NULL, NULL },
	},
	.filters = (const struct resource_filter[]){
		{ "method", "authmethod", NULL }, { "policy", "policy", &resource_policies },
		{ "role", "role", &resource_roles }, { NULL, NULL, NULL },
	},
};

int
acl_token_self(struct ctl *ctl)
{
	return show_known(ctl, acl_ask(ctl, "GET", "token", "self", NULL));
}

/* of: the one to be like, or NULL. */
static int
make_token(struct ctl *ctl, const char *of)
{
	struct buf path = BUF_INIT(RESOURCE_PATH_MAX);
	json_t *t = json_object();
	int out_fd, rc = resource_set(ctl, &resource_tokens, t);

	resource_path(ctl, &path, "acl/token", of, "/clone");
	if (rc == 0)
		rc = make_out_file(ctl, &out_fd) ?
		    show_new(ctl, resource_ask(ctl, "PUT", buf_cstr(&path), t), out_fd) : 1;
	json_decref(t);
	buf_done(&path);
	return rc;
}

int
acl_token_create(struct ctl *ctl)
{
	return make_token(ctl, NULL);
}

int
acl_token_clone(struct ctl *ctl)
{
	return make_token(ctl, ctl->argv[0]);
}

/* -- logins -- */

/* --meta KEY=VALUE; false after a complaint. */
static bool
set_meta(const struct ctl *ctl, json_t *body)
{
	const struct option *o = ctl_option_in(ctl->verb->options, "meta");
	json_t *meta = json_object();
	char key[256];
	bool good = true;

	for (const struct given *g = ctl->given; g < ctl->given + ctl->given_count && good; g++) {
		const char *eq = strchr(g->value, '=');

		if (g->option != o)
			continue;
		good = eq != NULL && eq > g->value &&
		    span_copy(span_of(g->value, (size_t)(eq - g->value)), key, sizeof(key)) &&
		    json_object_set_new(meta, key, json_string(eq + 1)) == 0;
		if (!good)
			(void)ctl_complain(ctl, "--meta: \"%s\" is not KEY=VALUE", g->value);
	}
	if (json_object_size(meta) > 0)
		json_object_set(body, "Meta", meta);
	json_decref(meta);
	return good;
}

int
acl_login(struct ctl *ctl)
{
	struct buf bearer = BUF_INIT(BEARER_BYTES_MAX);
	json_t *body = json_object();
	int out_fd, rc = 1;

	json_object_set_new(body, "AuthMethod", json_string(ctl_opt(ctl, "method")));
	if (!set_meta(ctl, body)) {
		rc = 2;
	} else if (token_file_read("--bearer-token-file", ctl_opt(ctl, "bearer-token-file"), &bearer) &&
	    make_out_file(ctl, &out_fd)) {
		json_object_set_new(body, "BearerToken", json_string(buf_cstr(&bearer)));
		rc = show_new(ctl, acl_ask(ctl, "POST", "login", NULL, body), out_fd);
	}
	json_decref(body);
	buf_done(&bearer);
	return rc;
}

int
acl_logout(struct ctl *ctl)
{
	json_t *done;

	if (ctl_token(ctl) == NULL) {
		(void)ctl_complain(ctl, "no token is shown that could end: give it with --token-file or "
		    "TRIUMVIR_TOKEN");
		return 2;
	}
	done = acl_ask(ctl, "POST", "logout", NULL, NULL);
	if (done == NULL)
		return 1;
	json_decref(done);
	puts("The token was deleted.");
	return 0;
}
