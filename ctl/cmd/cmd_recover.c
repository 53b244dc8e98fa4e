/* clusterctl raft recover: what a recovery would mean, and doing it. */
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"

#define PATH "/v1/operator/raft/recover"
#define WHAT "raft recover"
#define TIMEOUT_S 30

/* What becomes of a server; of a refused recovery only how it is. */
static const char *
fate(const json_t *s, bool refused)
{
	if (refused)
		return json_flag(s, "Answered") ? "answers" : "does not answer";
	if (json_flag(s, "Self"))
		return "continues, alone";
	return json_flag(s, "Answered") ? "dropped, answers" : "dropped";
}

static void
show_servers(const json_t *report)
{
	bool refused = json_text(report, "Refused")[0] != '\0';
	json_t *list = json_object_get(report, "Servers"), *s;
	size_t i;

	json_array_foreach(list, i, s) {
		(void)row_keep(s, "log", json_flag(s, "Answered") ? json_sprintf("%lld (term %lld)",
		    json_int(s, "LastIndex"), json_int(s, "LastTerm")) : json_string("unknown"));
		(void)row_keep(s, "fate", json_string(fate(s, refused)));
	}
	out_rows(list, COLUMNS(COL("Node"), COL("Address"), COL_AS("Gossip", "SerfStatus"), COL("Voter"),
	    COL_AS("Log", "_log"), COL_AS(refused ? "Raftd" : "Outcome", "_fate")));
}

static void
show_loss(const json_t *report)
{
	long long contact = json_int(report, "LeaderContact"), lost = json_int(report, "MayBeLost");

	if (contact >= 0)
		printf("There was a leader until %.1f s ago; its log ended at index %lld then.\n",
		    (double)contact / 1e9, json_int(report, "LeaderLastIndex"));
	else
		printf("No leader has been heard since raftd was started here, so how much is missing is not known.\n");
	if (lost > 0)
		printf("So at least %lld entries that the leader had are not here, and are lost if they were "
		    "committed. ", lost);
	else if (contact >= 0)
		printf("So nothing is known to be missing. ");
	printf("What the leader and the\nothers wrote after they were last heard is lost, too, acknowledged or not.\n");
}

static void
show(const json_t *report)
{
	printf("Cluster %s, generation %lld: %lld of %lld voters answer.\n", json_text(report, "ClusterID"),
	    json_int(report, "Generation"), json_int(report, "VotersAnswering"), json_int(report, "Voters"));
	show_servers(report);
	printf("\nThe log of %s ends at index %lld of term %lld; it knows that %lld was committed.\n",
	    json_text(report, "Node"), json_int(report, "LastIndex"), json_int(report, "LastTerm"),
	    json_int(report, "CommitIndex"));
	if (json_text(report, "Refused")[0] != '\0')
		return;
	show_loss(report);
	printf("\nThe cluster continues as generation %lld with %s as its only server. The others are refused "
	    "permanently with their\ndata: empty their raftd directory before you start them again, and they join as "
	    "new servers.\n",
	    json_int(report, "Generation") + 1, json_text(report, "Node"));
}

/* "yes" on a terminal. */
static bool
confirmed(void)
{
	char line[16];

	fflush(stdout);
	fprintf(stderr, "\nThis cannot be undone. Type \"yes\" to do it: ");
	return fgets(line, sizeof(line), stdin) != NULL && strcmp(line, "yes\n") == 0;
}

static void
print_done(json_t *answer UNUSED)
{
	printf("\nDone. `clusterctl raft list-peers` shows this server as the only voter; now add servers.\n");
}

static int
act(struct ctl *ctl)
{
	return ctl_out(ctl, ctl_answer(ctl, "PUT", PATH, SPAN_NONE, TIMEOUT_S), print_done);
}

int
raft_recover(struct ctl *ctl)
{
	bool dry_run = ctl_opt(ctl, "dry-run") != NULL, yes = ctl_opt(ctl, "yes") != NULL;
	json_t *report = ctl_get(ctl, PATH);
	const char *refused = json_text(report, "Refused");
	int rc = 0;

	if (report == NULL)
		return 1;
	if (ctl->json && (dry_run || refused[0] != '\0'))
		out_json(report);
	else if (!ctl->json)
		show(report);
	if (refused[0] != '\0') {
		fflush(stdout);
		fprintf(stderr, "clusterctl: " WHAT ": refused: %s\n", refused);
		rc = 1;
	} else if (!dry_run) {
		if (!yes && (ctl->json || !isatty(STDIN_FILENO))) {	/* a program cannot be asked */
			fflush(stdout);
			fprintf(stderr, "clusterctl: " WHAT ": nothing was done; repeat it with --yes\n");
			rc = 2;
		} else if (!yes && !confirmed()) {
			fprintf(stderr, "Nothing was done.\n");
			rc = 1;
		} else {
			rc = act(ctl);
		}
	} else if (!ctl->json) {
		printf("Dry run: nothing was done.\n");
	}
	json_decref(report);
	return rc;
}
