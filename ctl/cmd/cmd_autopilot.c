/* clusterctl raft autopilot: how the servers are looked after, and how they are. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ctl/cmd/raft.h"

#define CONFIGURATION "/v1/operator/autopilot/configuration"

/* -- get -- */

static void
print_configuration(json_t *conf)
{
	const char *name;
	json_t *v;

	json_object_foreach(conf, name, v) {
		char *text = json_dumps(v, JSON_ENCODE_ANY);

		printf("%-24s %s\n", name, json_is_string(v) ? json_string_value(v) : text != NULL ? text : "");
		free(text);
	}
}

int
autopilot_get(struct ctl *ctl)
{
	return ctl_show(ctl, CONFIGURATION, NULL, "", print_configuration);
}

/* -- set -- */

/* CleanupDeadServers, cleanupdeadservers and cleanup_dead_servers are the same name. */
static bool
same_name(const char *given, size_t len, const char *name)
{
	for (size_t i = 0; i < len; i++) {
		if (given[i] == '_' || given[i] == '-')
			continue;
		if (tolower((unsigned char)given[i]) != tolower((unsigned char)*name))
			return false;
		name++;
	}
	return *name == '\0';
}

static json_t *
value_like(const json_t *old, const char *text)
{
	char *end;
	long long n;

	if (json_is_boolean(old))
		return strcmp(text, "true") == 0 ? json_true() : strcmp(text, "false") == 0 ? json_false() : NULL;
	if (json_is_string(old))
		return json_string(text);
	errno = 0;
	n = strtoll(text, &end, 10);
	return *text != '\0' && *end == '\0' && n >= 0 && errno == 0 ? json_integer(n) : NULL;
}

/* One NAME=VALUE into the configuration; complains and returns false. */
static bool
change(json_t *conf, const char *arg)
{
	const char *eq = strchr(arg, '='), *name;
	json_t *old, *v = NULL;
	bool known = false;

	if (eq == NULL) {
		fprintf(stderr, "clusterctl: raft autopilot set: \"%s\" is not NAME=VALUE\n", arg);
		return false;
	}
	json_object_foreach(conf, name, old) {
		if (!same_name(arg, (size_t)(eq - arg), name) || strstr(name, "Index") != NULL)
			continue;
		known = true;
		v = value_like(old, eq + 1);
		if (v != NULL)
			return json_object_set_new(conf, name, v) == 0;
		break;
	}
	if (known)
		fprintf(stderr, "clusterctl: raft autopilot set: \"%s\" is no value for %.*s\n", eq + 1,
		    (int)(eq - arg), arg);
	else
		fprintf(stderr, "clusterctl: raft autopilot set: there is no \"%.*s\"; `clusterctl raft autopilot get` "
		    "shows the names\n", (int)(eq - arg), arg);
	return false;
}

/* Reads, changes, and writes unless it was changed meanwhile. */
int
autopilot_set(struct ctl *ctl)
{
	json_t *conf = ctl_get(ctl, CONFIGURATION);
	struct client_answer a = { 0 };
	struct buf path = BUF_INIT(256);
	char *body = NULL;
	int rc = 1;

	for (int i = 0; conf != NULL && i < ctl->argc; i++)
		if (!change(conf, ctl->argv[i])) {
			json_decref(conf);
			return 2;
		}
	if (conf != NULL)
		body = json_dumps(conf, JSON_COMPACT);
	if (body != NULL) {
		buf_printf(&path, CONFIGURATION "?cas=%lld",
		    json_int(conf, "ModifyIndex"));
		if (!client_do(ctl_client(ctl), "PUT", buf_cstr(&path), span_str(body), RAFT_TIMEOUT_S, &a))
			rc = client_complain(ctl->client, ctl->verb->words, &a);
		else if (!span_eqs(buf_span(&a.body), "true"))
			(void)ctl_complain(ctl, "it was changed concurrently; check it and try again");
		else
			rc = 0;
		client_answer_done(&a);
	}
	if (rc == 0)
		puts("Autopilot configuration changed.");
	free(body);
	buf_done(&path);
	json_decref(conf);
	return rc;
}

/* -- health -- */

/* Negative durations: never heard of by this leader, or not known to a server that does not lead. */
static const char *
contact(json_t *server)
{
	const char *text = json_text(server, "LastContact");

	return text[0] != '-' ? text : json_text(server, "_told")[0] != '\0' ? "unknown" : "never";
}

static const char *
last_index(json_t *server)
{
	json_int_t index = json_int(server, "LastIndex");

	return index == 0 ? "unknown" : row_keep(server, "index", json_sprintf("%" JSON_INTEGER_FORMAT, index));
}

static void
health_table(const json_t *health)
{
	json_t *list = json_object_get(health, "Servers"), *s;
	size_t i;

	json_array_foreach(list, i, s)
		(void)row_keep(s, "told", json_string(json_text(health, "Reason")));
	out_rows(list, COLUMNS(COL_AS("Node", "Name"), COL("Address"), COL_AS("Gossip", "SerfStatus"),
	    COL_BY("State", raft_state), COL("Voter"), COL("Healthy"), COL_AS("Since", "StableSince"),
	    COL_BY("Last contact", contact), COL_BY("Last index", last_index)));
	json_array_foreach(list, i, s)
		if (json_text(s, "Reason")[0] != '\0')
			printf("%s is not healthy: %s.\n", json_text(s, "Name"), json_text(s, "Reason"));
	if (json_text(health, "Reason")[0] != '\0')
		printf("%s.\n", json_text(health, "Reason"));
	printf("%s; %lld more may fail.\n",
	    json_flag(health, "Healthy") ? "Healthy" : "Not healthy",
	    json_int(health, "FailureTolerance"));
}

/* An answer that says how they are: 200 or 429. */
static bool
ask_health(struct ctl *ctl, const char *path, struct client_answer *a)
{
	return client_do(ctl_client(ctl), "GET", path, SPAN_NONE, RAFT_TIMEOUT_S, a) || a->status == 429;
}

/* Exit status 0: healthy.  Without a leader this node's server, or any, tells what it sees. */
int
autopilot_health(struct ctl *ctl)
{
	struct client_answer a = { 0 }, aside = { 0 };
	bool known = ask_health(ctl, RAFT_HEALTH, &a);
	json_t *v = NULL;
	int rc = 1;

	if (!known && a.status == 500 && ask_health(ctl, RAFT_HEALTH "?stale", &aside)) {
		client_answer_done(&a);
		a = aside;
		known = true;
	}
	if (!known) {
		client_complain(ctl->client, ctl->verb->words, &a);
		client_answer_done(&a);
		return rc;
	}
	v = json_loadb((const char *)a.body.data, a.body.len, 0, NULL);
	if (v == NULL)
		(void)ctl_complain(ctl, "the answer is no JSON");
	else if (ctl->json)
		out_json(v);
	else {
		json_safe(v);
		health_table(v);
	}
	rc = json_flag(v, "Healthy") ? 0 : 1;
	json_decref(v);
	client_answer_done(&a);
	return rc;
}
