/* clusterctl raft: list-peers, remove-peer, transfer-leader; autopilot and recover have files of their own. */
#include <stdio.h>
#include <string.h>

#include "ctl/cmd/raft.h"

#define CONFIGURATION "/v1/operator/raft/configuration"

const char *
raft_state(json_t *server)
{
	const char *state = json_text(server, "State");

	if (json_flag(server, "Leader"))
		return "leader";
	return state[0] != '\0' ? state : json_flag(server, "Voter") ? "follower" : "learner";
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
	if (strncmp(json_text(v, "Reason"), RAFT_NO_LEADER, strlen(RAFT_NO_LEADER)) == 0)
		fprintf(stderr, "%s.\n", json_text(v, "Reason"));
	json_decref(v);
	client_answer_done(&a);
}

const json_t *
raft_leader(const json_t *answer)
{
	const json_t *s;
	size_t i;

	json_array_foreach(json_object_get(answer, "Servers"), i, s)
		if (json_flag(s, "Leader"))
			return s;
	return NULL;
}

int
raft_list_peers(struct ctl *ctl)
{
	json_t *conf = ctl_get(ctl, ctl_opt(ctl, "stale") != NULL ? CONFIGURATION "?stale" : CONFIGURATION);

	if (conf != NULL && ctl->json)
		out_json(conf);
	else if (conf != NULL)
		out_rows(json_object_get(conf, "Servers"), COLUMNS(COL("Node"), COL("ID"), COL("Address"),
		    COL_BY("State", raft_state), COL("Voter")));
	fflush(stdout);
	if (raft_leader(conf) == NULL)
		raft_why_no_leader(ctl);
	json_decref(conf);
	return conf == NULL ? 1 : 0;
}

/* The parameter "id" for a server given by its id or its node name, "address" for one given by its address. */
static bool
put_server(struct ctl *ctl, const char *server, struct buf *path)
{
	json_t *conf, *s;
	const char *id = NULL;
	size_t i;

	if (strchr(server, ':') != NULL) {
		ctl_param(path, "address", server);
		return true;
	}
	conf = ctl_get(ctl, CONFIGURATION);
	json_array_foreach(json_object_get(conf, "Servers"), i, s)
		if (strcmp(json_text(s, "ID"), server) == 0 || strcmp(json_text(s, "Node"), server) == 0)
			id = json_text(s, "ID");
	ctl_param(path, "id", id);
	if (id == NULL && conf != NULL)
		(void)ctl_complain(ctl, "no server \"%s\"; `clusterctl raft list-peers` shows them", server);
	json_decref(conf);
	return id != NULL;
}

int
raft_remove_peer(struct ctl *ctl)
{
	struct buf path = BUF_INIT(8192);
	int rc = 1;

	ctl_path(ctl, &path, "/v1/operator/raft/peer", NULL, "");
	if (put_server(ctl, ctl->argv[0], &path))
		rc = ctl_send(ctl, "DELETE", buf_cstr(&path), SPAN_NONE, RAFT_TIMEOUT_S);
	if (rc == 0)
		printf("Removed peer %s.\n", ctl->argv[0]);
	buf_done(&path);
	return rc;
}

int
raft_transfer_leader(struct ctl *ctl)
{
	struct buf path = BUF_INIT(8192);
	int rc = 1;

	buf_puts(&path, "/v1/operator/raft/transfer");
	if (ctl->argc == 0 || put_server(ctl, ctl->argv[0], &path))
		rc = ctl_put(ctl, buf_cstr(&path), RAFT_TIMEOUT_S, "Leadership transferred.");
	buf_done(&path);
	return rc;
}
