/* clusterctl raft: list-peers, remove-peer, transfer-leader; autopilot and recover have files of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/raft.h"

#define PEER_COLUMNS 5
#define NO_LEADER "No leader: "

const char *
raft_state(const json_t *server)
{
	const char *state = json_text(server, "State");

	if (json_is_true(json_object_get(server, "Leader")))
		return "leader";
	return state[0] != '\0' ? state : json_is_true(json_object_get(server, "Voter")) ? "follower" : "learner";
}

void
raft_why_no_leader(struct ctl *ctl)
{
	struct client_answer a;
	json_t *v = NULL;

	(void)client_do(ctl_client(ctl), "GET", RAFT_HEALTH "?stale", SPAN_NONE, RAFT_TIMEOUT_S, &a);
	if (a.body.len > 0)
		v = json_loadb((const char *)a.body.data, a.body.len, 0, NULL);
	json_safe(v);
	if (strncmp(json_text(v, "Reason"), NO_LEADER, strlen(NO_LEADER)) == 0)
		fprintf(stderr, "%s.\n", json_text(v, "Reason"));
	json_decref(v);
	client_answer_done(&a);
}

static bool
has_leader(const json_t *servers)
{
	const json_t *s;
	size_t i;

	json_array_foreach(servers, i, s)
		if (json_is_true(json_object_get(s, "Leader")))
			return true;
	return false;
}

/* stale: as the asked node's server knows it, leader or not. */
static int
list_peers(struct ctl *ctl, bool stale)
{
	json_t *conf = client_get_json(ctl_client(ctl), "raft list-peers",
	    stale ? "/v1/operator/raft/configuration?stale" : "/v1/operator/raft/configuration");
	json_t *list = json_object_get(conf, "Servers"), *s;
	unsigned rows = (unsigned)json_array_size(list) + 1, at = PEER_COLUMNS;
	const char **cells = calloc((size_t)rows * PEER_COLUMNS, sizeof(*cells));
	size_t i;

	if (conf != NULL && ctl->json) {
		out_json(conf);
	} else if (conf != NULL && cells != NULL) {
		memcpy(cells, (const char *const[]){ "Node", "ID", "Address", "State", "Voter" },
		    PEER_COLUMNS * sizeof(*cells));
		json_array_foreach(list, i, s) {
			cells[at++] = json_text(s, "Node");
			cells[at++] = json_text(s, "ID");
			cells[at++] = json_text(s, "Address");
			cells[at++] = raft_state(s);
			cells[at++] = json_is_true(json_object_get(s, "Voter")) ? "true" : "false";
		}
		out_table(cells, rows, PEER_COLUMNS);
		fflush(stdout);
	}
	if (!has_leader(list))
		raft_why_no_leader(ctl);
	free(cells);
	json_decref(conf);
	return conf == NULL ? 1 : 0;
}

/* Appends "id=..." for a server given by its id or its node name, "address=..." for one given by its address. */
static bool
put_server(struct ctl *ctl, const char *what, const char *server, struct buf *path)
{
	json_t *conf, *s;
	const char *id = NULL;
	size_t i;

	if (strchr(server, ':') != NULL) {
		buf_puts(path, "address=");
		client_encode(path, server, false);
		return true;
	}
	conf = client_get_json(ctl_client(ctl), what, "/v1/operator/raft/configuration");
	json_array_foreach(json_object_get(conf, "Servers"), i, s)
		if (strcmp(json_text(s, "ID"), server) == 0 || strcmp(json_text(s, "Node"), server) == 0)
			id = json_text(s, "ID");
	if (id != NULL) {
		buf_puts(path, "id=");
		client_encode(path, id, false);
	} else if (conf != NULL) {
		fprintf(stderr, "clusterctl: %s: no server \"%s\"; `clusterctl raft list-peers` shows them\n", what,
		    server);
	}
	json_decref(conf);
	return id != NULL;
}

static int
remove_peer(struct ctl *ctl, const char *server, bool force)
{
	struct buf path = BUF_INIT(8192);
	struct client_answer a;
	int rc = 0;

	buf_puts(&path, force ? "/v1/operator/raft/peer?force&" : "/v1/operator/raft/peer?");
	if (!put_server(ctl, "raft remove-peer", server, &path)) {
		buf_done(&path);
		return 1;
	}
	if (!client_do(ctl_client(ctl), "DELETE", buf_cstr(&path), SPAN_NONE, RAFT_TIMEOUT_S, &a))
		rc = client_complain(ctl->client, "raft remove-peer", &a);
	else
		printf("Removed peer %s.\n", server);
	client_answer_done(&a);
	buf_done(&path);
	return rc;
}

static int
transfer_leader(struct ctl *ctl, const char *server)
{
	struct buf path = BUF_INIT(8192);
	int rc = 1;

	buf_puts(&path, server == NULL ? "/v1/operator/raft/transfer" : "/v1/operator/raft/transfer?");
	if (server == NULL || put_server(ctl, "raft transfer-leader", server, &path))
		rc = ctl_put(ctl, "raft transfer-leader", buf_cstr(&path), SPAN_NONE, RAFT_TIMEOUT_S,
		    "Leadership transferred.");
	buf_done(&path);
	return rc;
}

int
cmd_raft(struct ctl *ctl, int argc, char **argv)
{
	bool force = false, dry_run = false, yes = false, stale = false;
	const struct option_spec specs[] = { { "force", &force, NULL }, { "dry-run", &dry_run, NULL },
	    { "yes", &yes, NULL }, { "stale", &stale, NULL } };
	const unsigned count = sizeof(specs) / sizeof(specs[0]);
	int n = ctl_options(ctl_find("raft"), argc, argv, specs, count);
	const char *verb = n > 0 ? argv[1] : "";
	int rc = RAFT_USAGE;
	const char *known = strcmp(verb, "list-peers") == 0 ? "stale" : strcmp(verb, "remove-peer") == 0 ? "force" :
	    strcmp(verb, "recover") == 0 ? "dry-run yes" : "";

	if (n < 0)
		return 2;
	if (n == 0 || ctl_in_vain("raft", verb, specs, count, known))
		return ctl_usage(ctl_find("raft"));
	if (strcmp(verb, "list-peers") == 0 && n == 1)
		return list_peers(ctl, stale);
	if (strcmp(verb, "remove-peer") == 0 && n == 2)
		return remove_peer(ctl, argv[2], force);
	if (strcmp(verb, "transfer-leader") == 0 && n <= 2)
		return transfer_leader(ctl, n == 2 ? argv[2] : NULL);
	if (strcmp(verb, "autopilot") == 0)
		rc = raft_autopilot(ctl, n - 1, argv + 2);
	if (strcmp(verb, "recover") == 0 && n == 1)
		return raft_recover(ctl, dry_run, yes);
	return rc == RAFT_USAGE ? ctl_usage(ctl_find("raft")) : rc;
}
