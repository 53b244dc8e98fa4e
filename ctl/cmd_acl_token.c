/* clusterctl acl bootstrap, set-agent-token, token, login, logout: what makes, shows, uses and ends tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/text/duration.h"
#include "common/text/json_text.h"
#include "ctl/acl.h"

#define WIDTH_OF_ID 64
#define TIMEOUT_S 60
#define BEARER_BYTES_MAX (64u << 10)
#define SECRET_BYTES_MAX 8192u

/* -- showing -- */

static void
print_token(json_t *t, const char *secret)
{
	acl_field("AccessorID:", json_text(t, "AccessorID"));
	acl_field("SecretID:", secret);
	acl_field("Description:", json_text(t, "Description"));
	acl_field("Local:", json_is_true(json_object_get(t, "Local")) ? "true" : "false");
	acl_field("Auth method:", json_text(t, "AuthMethod"));
	acl_field("Created:", json_text(t, "CreateTime"));
	acl_field("Expires:", json_text(t, "ExpirationTime"));
	acl_print_links(t);
}

/* The token is taken over.  secret: shown, or what stands in its place; NULL: leave it out of JSON, too. */
static int
show(struct ctl *ctl, json_t *t, const char *secret)
{
	if (ctl->json && secret == NULL) {
		(void)json_object_del(t, "SecretID");
		(void)json_object_del(t, "ID");		/* of a bootstrap: the same */
	}
	if (ctl->json) {
		out_json(t);
	} else {
		json_safe(t);
		print_token(t, secret != NULL ? secret : "(not shown; --show-secret does)");
	}
	json_decref(t);
	return 0;
}

bool
acl_out_file(const struct ctl *ctl, int *out_fd)
{
	const char *path = ctl_opt(ctl, "out");

	*out_fd = path != NULL ? token_file_new(ctl->verb->words, path) : -1;
	return path == NULL || *out_fd >= 0;
}

int
acl_show_new(struct ctl *ctl, json_t *token, int out_fd)
{
	const char *path = ctl_opt(ctl, "out"), *secret = json_text(token, "SecretID");
	char where[4096];

	if (out_fd < 0)
		return token != NULL ? show(ctl, token, secret) : 1;
	if (!token_file_end(ctl->verb->words, path, out_fd, span_str(secret))) {
		if (token != NULL)
			fprintf(stderr, "The token %s was made all the same.\n", json_text(token, "AccessorID"));
		json_decref(token);
		return 1;
	}
	snprintf(where, sizeof(where), "(in %s)", path);
	if (ctl->json)
		return show(ctl, token, NULL);
	return show(ctl, token, where);
}

/* One that is there: without its secret, unless that is asked for. */
static int
show_known(struct ctl *ctl, json_t *token)
{
	if (token == NULL)
		return 1;
	return show(ctl, token, ctl_opt(ctl, "show-secret") != NULL ? json_text(token, "SecretID") : NULL);
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
	struct buf path = BUF_INIT(ACL_PATH_MAX), secret = BUF_INIT(SECRET_BYTES_MAX);
	struct buf body = BUF_INIT(2 * SECRET_BYTES_MAX);
	struct client_answer a;
	json_t *token = NULL;
	int out_fd, rc;

	if ((ctl->argc > 0 && !token_file_read(ctl->verb->words, ctl->argv[0], &secret)) ||
	    !acl_out_file(ctl, &out_fd)) {
		buf_done(&secret);
		return 1;
	}
	if (secret.len > 0)
		put_secret("BootstrapSecret", &secret, &body);
	acl_path(ctl, &path, "bootstrap", NULL);
	if (client_do(ctl_client(ctl), "PUT", buf_cstr(&path), buf_span(&body), TIMEOUT_S, &a)) {
		token = json_loadb((const char *)a.body.data, a.body.len, 0, NULL);
		if (token == NULL)
			fprintf(stderr, "clusterctl: acl bootstrap: the answer is not JSON\n");
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
	rc = acl_show_new(ctl, token, out_fd);
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
	struct client_answer a;
	bool done;

	if (kind == NULL)
		return 2;
	if (!token_file_read(ctl->verb->words, ctl->argv[1], &secret)) {
		buf_done(&secret);
		return 1;
	}
	buf_printf(&path, "/v1/agent/token/%s", kind);
	put_secret("Token", &secret, &body);
	done = client_do(ctl_client(ctl), "PUT", buf_cstr(&path), buf_span(&body), TIMEOUT_S, &a);
	if (done)
		printf("ACL token \"%s\" set successfully\nIt holds until the agent is reloaded or restarted; with "
		    "acl.enable_token_persistence in rpcd.conf it is kept.\n", ctl->argv[0]);
	else
		client_complain(ctl->client, ctl->verb->words, &a);
	client_answer_done(&a);
	buf_done(&path);
	buf_done(&secret);
	buf_done(&body);
	return done ? 0 : 1;
}

/* -- tokens -- */

static const char *
expires(json_t *row)
{
	const char *text = json_text(row, "ExpirationTime");

	return text[0] != '\0' ? text : "never";
}

int
acl_token_list(struct ctl *ctl)
{
	static const struct column columns[] = {
		{ "AccessorID", "AccessorID", NULL }, { "Policies", NULL, acl_policies_text },
		{ "Roles", NULL, acl_roles_text }, { "Identities", NULL, acl_identities_text },
		{ "Local", "Local", NULL }, { "Expires", NULL, expires }, { "Description", "Description", NULL },
		{ NULL, NULL, NULL },
	};
	const char *policy = ctl_opt(ctl, "policy"), *role = ctl_opt(ctl, "role");
	struct buf path = BUF_INIT(ACL_PATH_MAX);
	char id[WIDTH_OF_ID];
	int rc = 1;

	acl_path(ctl, &path, "tokens", NULL);
	ctl_param(&path, "authmethod", ctl_opt(ctl, "method"));
	bool good = policy == NULL || acl_id(ctl, &acl_policies, policy, id, sizeof(id));
	ctl_param(&path, "policy", good && policy != NULL ? id : NULL);
	good = good && (role == NULL || acl_id(ctl, &acl_roles, role, id, sizeof(id)));
	ctl_param(&path, "role", good && role != NULL ? id : NULL);
	if (good)
		rc = acl_list(ctl, &acl_tokens, buf_cstr(&path), columns);
	buf_done(&path);
	return rc;
}

int
acl_token_read(struct ctl *ctl)
{
	return show_known(ctl, acl_get(ctl, &acl_tokens, ctl->argv[0]));
}

int
acl_token_self(struct ctl *ctl)
{
	return show_known(ctl, acl_ask(ctl, "GET", "token", "self", NULL));
}

/* What the options of create and update say; false after a complaint. */
static bool
set_token(const struct ctl *ctl, json_t *t)
{
	acl_set_text(ctl, t, "description", "Description");
	return acl_set_links(ctl, t);
}

/* A secret that others chose comes out of a file. */
static bool
set_secret(const struct ctl *ctl, json_t *t)
{
	const char *path = ctl_opt(ctl, "secret-file");
	struct buf secret = BUF_INIT(8192);
	bool good = path == NULL || token_file_read("--secret-file", path, &secret);

	if (good && path != NULL)
		json_object_set_new(t, "SecretID", json_string(buf_cstr(&secret)));
	buf_done(&secret);
	return good;
}

int
acl_token_create(struct ctl *ctl)
{
	const char *ttl = ctl_opt(ctl, "ttl");
	json_t *t = json_object();
	int64_t ns;
	int out_fd, rc = 2;

	acl_set_text(ctl, t, "accessor", "AccessorID");
	acl_set_text(ctl, t, "ttl", "ExpirationTTL");
	if (ctl_opt(ctl, "local") != NULL)
		json_object_set_new(t, "Local", json_true());
	if (ttl != NULL && duration_parse(span_str(ttl), &ns) != TV_OK)
		fprintf(stderr, "clusterctl: acl token create: --ttl: \"%s\" is no length of time, such as 8h\n", ttl);
	else if (set_token(ctl, t))
		rc = set_secret(ctl, t) && acl_out_file(ctl, &out_fd) ?
		    acl_show_new(ctl, acl_ask(ctl, "PUT", "token", NULL, t), out_fd) : 1;
	json_decref(t);
	return rc;
}

int
acl_token_update(struct ctl *ctl)
{
	json_t *t = acl_get(ctl, &acl_tokens, ctl->argv[0]), *answer;
	int rc = 1;

	if (t == NULL)
		return 1;
	acl_strip(t);
	if (!set_token(ctl, t))
		rc = 2;
	else if ((answer = acl_ask(ctl, "PUT", "token", ctl->argv[0], t)) != NULL)
		rc = show_known(ctl, answer);
	json_decref(t);
	return rc;
}

int
acl_token_clone(struct ctl *ctl)
{
	struct buf path = BUF_INIT(ACL_PATH_MAX);
	json_t *t = json_object();
	int out_fd, rc = 1;

	acl_set_text(ctl, t, "description", "Description");
	buf_puts(&path, "/v1/acl/token/");
	client_encode(&path, ctl->argv[0], false);
	buf_puts(&path, "/clone");
	ctl_params(ctl, &path);
	if (acl_out_file(ctl, &out_fd))
		rc = acl_show_new(ctl, acl_ask_path(ctl, "PUT", buf_cstr(&path), t), out_fd);
	json_decref(t);
	buf_done(&path);
	return rc;
}

int
acl_token_delete(struct ctl *ctl)
{
	return acl_delete(ctl, &acl_tokens);
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
			fprintf(stderr, "clusterctl: acl login: --meta: \"%s\" is not KEY=VALUE\n", g->value);
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

	acl_set_text(ctl, body, "method", "AuthMethod");
	if (!set_meta(ctl, body)) {
		rc = 2;
	} else if (token_file_read("--bearer-token-file", ctl_opt(ctl, "bearer-token-file"), &bearer) &&
	    acl_out_file(ctl, &out_fd)) {
		json_object_set_new(body, "BearerToken", json_string(buf_cstr(&bearer)));
		rc = acl_show_new(ctl, acl_ask(ctl, "POST", "login", NULL, body), out_fd);
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
		fprintf(stderr, "clusterctl: acl logout: no token is shown that could end: give it with --token-file "
		    "or TRIUMVIR_TOKEN\n");
		return 2;
	}
	done = acl_ask(ctl, "POST", "logout", NULL, NULL);
	if (done == NULL)
		return 1;
	json_decref(done);
	puts("The token was deleted.");
	return 0;
}
