/*
 * clusterctl status: is the cluster all right?  Some questions to rpcd, none of which needs a leader; then one check
 * after the other, which says well, or a line for each thing that is not well or not known.
 */
#include <limits.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/conf/cluster_conf.h"
#include "common/record/member.h"
#include "ctl/acl.h"
#include "ctl/collisions.h"
#include "ctl/cmd/keyring.h"
#include "ctl/cmd/raft.h"

#define LIMIT MONO_MS(2800)		/* of all questions, unless --timeout says otherwise */
#define ASK_TIMEOUT_S 15		/* where it does */
#define LEADER_TIMEOUT_S 2		/* for what another server has to say: a part of LIMIT is left for the rest */
#define FENCED_REMEDY \
	"On that server: systemctl stop raftd, move the folder raftd of its data_dir away, systemctl start raftd"
#define OTHER_KEY "another server.key"
#define OTHER_KEY_REMEDY \
	"Give the server that is wrong the server.key of the others, then systemctl restart triumvir.target there"
#define CLOCK_OFF_MS 1000		/* as raftd's log warns */
#define CERTIFICATE_DAYS 14		/* as rpcd's log warns */
#define NAMES_SHOWN 4			/* of nodes, in one line */
#define TEXT_BYTES 4096
#define REMEDY_BYTES 1024

/* Part of what is known: the answer, or why there is none. */
struct part {
	json_t *value;
	char *why;
	const char *remedy;		/* of no answer, where one is known; static */
	bool refused;			/* by access control, or for want of a right */
	bool late;			/* no answer in time */
};

struct status {
	struct ctl *ctl;
	struct part self, members, wan, checks, health;
	char *token_why;		/* the token is not known; root on the socket asked again without it */
	const char *token_from;
	bool no_copies;			/* of the primary datacenter's tokens */
	const char *check;		/* its name */
	json_t *lines;			/* {Check, Status, Text, Remedy} */
	unsigned said;			/* lines of this check */
	bool bad;
};

/* -- questions -- */

static struct part
ask_within(struct status *s, const char *path, int timeout_s)
{
	struct client_answer a;
	struct part p = { NULL, NULL, NULL, false, false };

	/* 429 is how health says that not all are healthy. */
	if (client_do(ctl_client(s->ctl), "GET", path, SPAN_NONE, timeout_s, &a) || a.status == 429) {
		p.value = json_loadb((const char *)a.body.data, a.body.len, JSON_ALLOW_NUL, NULL);
		p.why = p.value == NULL ? out_safe(span_str("the answer is not JSON")) : NULL;
	} else if (a.status == 0) {
		p.why = out_safe(span_str(a.error));
		p.late = a.late;
		p.remedy = a.remedy;
	} else {
		for (size_t i = 0; i < a.body.len; i++)		/* one line */
			a.body.data[i] = a.body.data[i] == '\n' ? ' ' : a.body.data[i];
		p.why = out_safe(a.body.len > 0 ? buf_span(&a.body) : span_str("an error without a text"));
		p.refused = a.status == 403;
	}
	if (!s->ctl->json)
		json_safe(p.value);
	client_answer_done(&a);
	return p;
}

static struct part
ask_agent(struct status *s, const char *path)
{
	return ask_within(s, path, ASK_TIMEOUT_S);
}

static void
part_done(struct part *p)
{
	json_decref(p->value);
	free(p->why);
	*p = (struct part){ NULL, NULL, NULL, false, false };
}

/* Any server knows whether there is a leader, and what it sees itself; a leader that there is judges all of them. */
static void
ask_health(struct status *s)
{
	struct part leaders;

	s->health = ask_within(s, RAFT_HEALTH "?stale", LEADER_TIMEOUT_S);
	if (raft_leader(s->health.value) == NULL)
		return;
	leaders = ask_within(s, RAFT_HEALTH, LEADER_TIMEOUT_S);
	part_done(&s->health);
	/* It has gone since, or does not answer. */
	s->health = leaders.value != NULL ? leaders : ask_agent(s, RAFT_HEALTH "?stale");
	if (leaders.value == NULL && raft_leader(s->health.value) != NULL) {
		part_done(&s->health);
		s->health = leaders;
	} else if (leaders.value == NULL) {
		part_done(&leaders);
	}
}

/* Root on the socket needs no token: with one that is not known it must not get less than with none. */
static void
ask_self(struct status *s)
{
	struct client *c = ctl_client(s->ctl);

	s->self = ask_agent(s, "/v1/agent/self");
	if (s->self.value != NULL || !s->self.refused || client_socket(c) == NULL || client_token_from(c) == NULL ||
	    strcmp(s->self.why, "ACL not found") != 0)
		return;
	s->token_why = s->self.why;
	s->token_from = client_token_from(c);
	s->self.why = NULL;
	client_forget_token(c);
	part_done(&s->self);
	s->self = ask_agent(s, "/v1/agent/self");
}

/* -- lines -- */

#define WELL "well", NULL
#define BAD(remedy) "not well", (remedy)
#define UNKNOWN(remedy) "unknown", (remedy)

/* Adds a line to this check: how it is and the remedy, one of the above, and what is so. */
static __attribute__((format(printf, 4, 5))) void
say(struct status *s, const char *status, const char *remedy, const char *fmt, ...)
{
	char *bytes = NULL, *safe;
	json_t *text, *line;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&bytes, fmt, ap) < 0)
		abort();
	va_end(ap);
	text = json_string(bytes);
	if (text == NULL) {		/* no UTF-8 */
		text = json_string(safe = out_safe(span_str(bytes)));
		free(safe);
	}
	line = json_pack("{s:s,s:s,s:o,s:s?}", "Check", s->check, "Status", status, "Text", text, "Remedy", remedy);
	json_array_append_new(s->lines, line);
	free(bytes);
	s->said++;
	s->bad = s->bad || remedy != NULL;
}

/* "a, b, c, d and 3 more": the name that comes at position n. */
static void
add_name(struct buf *names, unsigned n, const char *name)
{
	if (n < NAMES_SHOWN)
		buf_printf(names, "%s%s", n > 0 ? ", " : "", name);
}

static void
end_names(struct buf *names, unsigned n)
{
	if (n > NAMES_SHOWN)
		buf_printf(names, " and %u more", n - NAMES_SHOWN);
}

/* -- checks -- */

static const json_t *
section(const struct status *s, const char *name)
{
	return json_object_get(json_object_get(s->self.value, "Stats"), name);
}

static unsigned
number_of(const json_t *section, const char *name)
{
	return (unsigned)strtoul(json_text(section, name), NULL, 10);
}

/* What this node registers, and access control keeps out of the catalog. */
static void
check_registrations(struct status *s)
{
	static const char of_agent[] = "See acl.tokens.agent in rpcd.conf(5)",
	    of_others[] = "Register it again with a token that may";
	const json_t *rpcd = section(s, "rpcd");
	const char *why = json_text(rpcd, "registrations_blocked_why");
	unsigned blocked = number_of(rpcd, "registrations_blocked");
	unsigned total = number_of(rpcd, "services") + number_of(rpcd, "checks");
	const char *remedy = strncmp(why, "acl.", 4) == 0 ? of_agent : of_others;

	if (why[0] == '\0')
		return;
	if (blocked == 0)
		say(s, BAD(remedy), "%s: the %u registrations here cannot be compared with the catalog", why, total);
	else
		say(s, BAD(remedy), "%s: %u of %u registrations are not in the catalog%s, the first is %s", why,
		    blocked, total > blocked ? total : blocked,
		    number_of(rpcd, "registrations_blocked_outdated") > 0 ? " as they are here" : "",
		    json_text(rpcd, "registrations_blocked_first"));
}

/* Those of a daemon, which have a word each where all is well. */
static void
check_helpers(struct status *s, const char *daemon)
{
	char remedy[REMEDY_BYTES];
	const char *key;
	json_t *value;

	snprintf(remedy, sizeof(remedy), "Its log says why: journalctl -u %s", daemon);
	json_object_foreach((json_t *)(uintptr_t)section(s, daemon), key, value) {
		const char *state = json_string_value(value);

		if (strncmp(key, "helper_", 7) == 0 && state != NULL && strcmp(state, "running") != 0 &&
		    strcmp(state, "idle") != 0 && strcmp(state, "none") != 0)
			say(s, BAD(remedy), "%s of %s: %s", key, daemon, state);
	}
}

/* Was the cluster recovered without this server?  Then what it knows of the others is of the time before. */
static bool
is_fenced(const struct status *s)
{
	return strtoull(json_text(section(s, "raft"), "fenced_by_generation"), NULL, 10) > 0;
}

/* What to do about a server that this one cannot be linked with. */
static const char *
remedy_of_trouble(const char *text)
{
	if (strstr(text, OTHER_KEY) != NULL)
		return OTHER_KEY_REMEDY;
	return strstr(text, ": it belongs to generation ") != NULL ? FENCED_REMEDY : "DIAGNOSTICS in raftd(8)";
}

/* This node's daemons. */
static void
check_node(struct status *s)
{
	static const char *const daemons[] = { "gossipd", "raftd", "rpcd" };
	static const char *const restart[] = {
		"systemctl restart gossipd", "systemctl restart raftd", "systemctl restart rpcd",
	};
	const json_t *conf = json_object_get(s->self.value, "Config"), *raft = section(s, "raft");

	if (s->self.value == NULL && strstr(s->self.why, "no server says") != NULL) {
		say(s, UNKNOWN("Ask as root on rpcd.sock, who needs no server for it"), "%s refuses: %s",
		    client_addr(ctl_client(s->ctl)), s->self.why);
		return;
	}
	if (s->self.value == NULL && s->self.refused) {
		say(s, UNKNOWN("Show a token with agent:read, with --token-file; root on rpcd.sock needs none, and "
		    "a cluster's first token is made by clusterctl acl bootstrap"),
		    "%s refuses: %s", client_addr(ctl_client(s->ctl)), s->self.why);
		return;
	}
	if (s->self.value == NULL && s->self.late) {
		say(s, UNKNOWN("It runs, and waits: for a server to judge the token, or it is stuck. Root on "
		    "rpcd.sock waits for none"), "%s: %s", client_addr(ctl_client(s->ctl)), s->self.why);
		return;
	}
	if (s->self.value == NULL) {
		say(s, UNKNOWN(s->self.remedy != NULL ? s->self.remedy :
		    "Is rpcd running there? systemctl status rpcd"), "no answer from %s: %s",
		    client_addr(ctl_client(s->ctl)), s->self.why);
		return;
	}
	for (int i = 0; i < 3; i++) {
		const char *state = json_text(section(s, "rpcd"), daemons[i]);
		const char *folders = json_text(section(s, daemons[i]), "folders");

		if (strcmp(state, "away") == 0)
			say(s, BAD(restart[i]), "%s does not run here", daemons[i]);
		else if (strcmp(state, "silent") == 0)
			say(s, BAD(restart[i]), "%s runs here, but does not answer", daemons[i]);
		if (folders[0] != '\0' && strcmp(folders, "ok") != 0)
			say(s, BAD(restart[i]), "folders of %s: %s", daemons[i], folders);
	}
	check_registrations(s);
	check_helpers(s, "rpcd");
	check_helpers(s, "raftd");
	if (json_text(raft, "trouble")[0] != '\0')
		say(s, BAD(remedy_of_trouble(json_text(raft, "trouble"))), "%s", json_text(raft, "trouble"));
	if (strcmp(json_text(raft, "state_lost"), "1") == 0)
		say(s, BAD("DIAGNOSTICS in raftd(8)"),
		    "the state here was damaged, and waits for the leader's snapshot");
	if (is_fenced(s))
		say(s, BAD(FENCED_REMEDY),
		    "the cluster was recovered without this server, as generation %s",
		    json_text(raft, "fenced_by_generation"));
	if (s->said == 0)
		say(s, WELL, "%s, %s in %s", json_text(conf, "NodeName"),
		    json_flag(conf, "Server") ? "server" : "client", json_text(conf, "Datacenter"));
}

/* Is there anything to say of this node's services, and its own checks? */
static void
check_services(struct status *s)
{
	struct buf names = BUF_INIT(TEXT_BYTES);
	char one[REMEDY_BYTES], remedy[REMEDY_BYTES];
	const char *id;
	json_t *check;
	unsigned n = 0;

	json_object_foreach(s->checks.value, id, check) {
		const char *status = json_text(check, "Status"), *service = json_text(check, "ServiceID");

		if (strcmp(status, "passing") == 0)
			continue;
		snprintf(one, sizeof(one), "%s%s%s is %s", service, service[0] != '\0' ? ": " : "", id, status);
		add_name(&names, n++, one);
	}
	end_names(&names, n);
	snprintf(remedy, sizeof(remedy), "clusterctl health --node %s",
	    json_text_at(s->self.value, "Config.NodeName"));
	if (n > 0)
		say(s, BAD(remedy), "here: %s", buf_cstr(&names));
	buf_done(&names);
}

/* Can new files of HTTPS be used, and do certificates end soon?  Where there is none, there is no line. */
static void
check_https(struct status *s)
{
	static const struct { const char *key, *what, *remedy; } all[] = {
		{ "tls_certificate_days", "the certificate", "Make a new one and put it into its place, as HTTPS in "
		    "the operations guide says; rpcd takes it over by itself" },
		{ "tls_authorities_days", "a CA that vouches for clients", "Put another one into ca_file, and give "
		    "clients certificates of it" },
	};
	const char *trouble = json_text(section(s, "rpcd"), "keys_trouble");
	unsigned long long days, least = ULLONG_MAX;

	if (trouble[0] != '\0' && strcmp(trouble, "none") != 0)
		say(s, BAD("The files from before serve until these are mended"), "%s", trouble);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const char *text = json_text(section(s, "rpcd"), all[i].key);

		if (text[0] < '0' || text[0] > '9')
			continue;
		days = strtoull(text, NULL, 10);
		least = days < least ? days : least;
		if (days == 0)
			say(s, BAD(all[i].remedy), "%s has ended, or does within a day", all[i].what);
		else if (days < CERTIFICATE_DAYS)
			say(s, BAD(all[i].remedy), "%s ends in %llu days", all[i].what, days);
	}
	if (s->said == 0 && least != ULLONG_MAX)
		say(s, WELL, "certificates are good for %llu days", least);
}

/* Why no server could judge the token; NULL: one could, or access control is off. */
static const char *
not_judged(const struct status *s)
{
	return strcmp(json_text(section(s, "rpcd"), "acl_down"), "1") == 0 &&
	    strcmp(json_text(section(s, "rpcd"), "acl_enabled"), "1") == 0 ?
	    json_text(section(s, "rpcd"), "acl_down_why") : NULL;
}

/*
 * Are tokens and rules of the primary datacenter copied to this one?  The rpcd of a server knows why not; that of a
 * client node only that its servers have none.
 */
static void
check_replication(struct status *s)
{
	static const char remedy[] = "See acl.tokens.replication in rpcd.conf(5); each server here needs it, then "
	    "clusterctl reload";
	const char *trouble = json_text(section(s, "rpcd"), "acl_replication_trouble");
	bool known = s->self.value != NULL;
	struct part copies = { NULL, NULL, NULL, false, false };

	if (trouble[0] != '\0') {
		s->no_copies = true;
		say(s, BAD(remedy), "tokens and rules of the primary datacenter are not copied: %s", trouble);
		return;
	}
	if (known && strcmp(json_text(section(s, "rpcd"), "acl_enabled"), "1") != 0)
		return;
	copies = ask_within(s, "/v1/acl/replication?stale", LEADER_TIMEOUT_S);
	s->no_copies = json_flag(copies.value, "Enabled") &&
	    strcmp(json_text(copies.value, "LastSuccess"), ACL_NEVER) == 0;
	if (s->no_copies)
		say(s, BAD(remedy), "no token and no rule of the primary datacenter, %s, has been copied to this one "
		    "yet", json_text(copies.value, "SourceDatacenter"));
	part_done(&copies);
}

/* Is there anything to say of access control? */
static void
check_acl(struct status *s)
{
	const char *why = not_judged(s);

	if (s->token_why != NULL)
		say(s, BAD("Show one that is known here, or none"), "the token of %s: %s", s->token_from, s->token_why);
	check_replication(s);
	if (why != NULL)
		say(s, UNKNOWN("acl.down_policy decides, see rpcd.conf(5); clusterctl members shows the servers"),
		    "no server says what tokens may do: %s", why);
}

/* No server has a seat: the cluster that this server belongs to is not there yet. */
static bool
is_forming(const struct status *s)
{
	return s->health.value != NULL && json_array_size(json_object_get(s->health.value, "Servers")) == 0;
}

/* What to do where there is no leader, by the reason that raftd gives; of several the first. */
static const char *
remedy_without_leader(const struct status *s, const char *reason)
{
	static const struct { const char *reason, *remedy; } all[] = {
		{ OTHER_KEY, OTHER_KEY_REMEDY },
		{ "fenced:", FENCED_REMEDY },
		{ "does not add this server", "As it says" },
		{ "refuses this server", "As it says" },
		{ "are needed", "Start the others: clusterctl raft list-peers --stale; only if they are lost for good: "
		    "clusterctl raft recover --dry-run" },
		{ "use clusterctl join", "Nothing to restore: this server has never been in a cluster" },
		{ "clusterctl join", "It resumes by itself when they are there" },
		{ "waiting for", "It resumes by itself; its log: journalctl -u raftd" },
		{ "no leader contacts it", "It resumes by itself once the others have a leader: clusterctl status "
		    "there" },
		{ "opening its state", "It resumes by itself: clusterctl info state" },
		{ "", "It resumes by itself; if not, the logs say why: journalctl -u raftd" },
	};
	size_t i = 0;

	if (json_text(section(s, "rpcd"), "collision")[0] != '\0')
		return "See identity";
	while (strstr(reason, all[i].reason) == NULL)
		i++;
	return all[i].remedy;
}

/* No server has told, or would tell us. */
static void
say_not_told(struct status *s)
{
	if (s->health.refused && s->no_copies)
		say(s, UNKNOWN("See acl"), "%s", s->health.why);
	else if (s->health.refused)
		say(s, UNKNOWN("Show a token that has it, with --token-file; a cluster's first one is made by "
		    "clusterctl acl bootstrap"), "%s", s->health.why);
	else
		say(s, UNKNOWN("See leader"), "not reported by any server");
}

/* As the server of this node sees it, for users that may not ask the others. */
static void
say_leader_here(struct status *s)
{
	const char *leader = json_text(section(s, "raft"), "leader");
	const char *reason = json_text(section(s, "raft"), "why_no_leader");

	if (reason[0] != '\0')
		say(s, BAD(remedy_without_leader(s, reason)), "none: %s", reason);
	else if (leader[0] != '\0')
		say(s, WELL, "%s, as raftd here says", leader);
	else
		say_not_told(s);
}

static void
check_leader(struct status *s)
{
	const json_t *leader = raft_leader(s->health.value);
	const char *reason = json_text(s->health.value, "Reason");

	if (s->health.value == NULL && not_judged(s) != NULL)
		say(s, UNKNOWN("See acl"), "no server could judge the token: %s", s->health.why);
	else if (s->health.value == NULL && s->health.refused)
		say_leader_here(s);
	else if (s->health.value == NULL)
		say(s, UNKNOWN("Ask on a server; clusterctl members shows them"), "%s", s->health.why);
	else if (leader != NULL)
		say(s, WELL, "%s (%s)", json_text(leader, "Name"), json_text(leader, "Address"));
	else
		say(s, BAD(remedy_without_leader(s, reason)), "none: %s",
		    strncmp(reason, RAFT_NO_LEADER, strlen(RAFT_NO_LEADER)) == 0 ? reason + strlen(RAFT_NO_LEADER) :
		    "an election goes on");
}

static void
check_quorum(struct status *s)
{
	const json_t *more = json_object_get(s->health.value, "FailureTolerance"), *server;
	struct buf learners = BUF_INIT(TEXT_BYTES);
	unsigned healthy = 0, voters = 0, n = 0;
	char name[REMEDY_BYTES];
	size_t i;

	if (s->health.value == NULL) {
		say_not_told(s);
		return;
	}
	json_array_foreach(json_object_get(s->health.value, "Servers"), i, server) {
		voters += json_flag(server, "Voter");
		healthy += json_flag(server, "Voter") && json_flag(server, "Healthy");
		if (json_flag(server, "Voter"))
			continue;
		snprintf(name, sizeof(name), "%s%s (%s since %s)", n == 0 ? "; no voter yet: " : "",
		    json_text(server, "Name"), json_flag(server, "Healthy") ? "healthy" : "not healthy",
		    json_text(server, "StableSince"));
		add_name(&learners, n++, name);
	}
	end_names(&learners, n);
	if (is_fenced(s))
		say(s, UNKNOWN("See node"), "this server is in no cluster now");
	else if (is_forming(s))
		say(s, UNKNOWN("See leader"), "no server has a vote yet");
	else if (healthy < voters / 2 + 1)
		say(s, BAD("Start the others: clusterctl raft list-peers --stale"),
		    "%u of %u voters healthy, %u needed", healthy, voters, voters / 2 + 1);
	else
		say(s, WELL, "%u of %u voters healthy, %lld more may fail%s", healthy, voters,
		    (long long)json_integer_value(more), buf_cstr(&learners));
	buf_done(&learners);
}

#define DISK_FULL "its disk is full"

/* What to do about a server, by the reason that raftd gives.  Without a leader none can be removed. */
static const char *
remedy_of(const char *reason, const char *name, bool leader, char text[REMEDY_BYTES])
{
	static const struct { const char *reason, *remedy; bool of_name; } all[] = {
		{ "gossip reports", "Start it; if it is gone for good: clusterctl force-leave ", true },
		{ "gossip does not", "Start it; if it is gone for good: clusterctl raft remove-peer ", true },
		{ "no raft link", "There: systemctl restart raftd; its log: journalctl -u raftd", false },
		{ "its rpcd", "There: systemctl restart rpcd", false },
		{ "its gossipd", "There: systemctl restart gossipd", false },
		{ "", "It may catch up by itself: clusterctl raft autopilot health", false },
	};
	size_t i = 0;

	while (strstr(reason, all[i].reason) == NULL)
		i++;
	if (all[i].of_name && !leader)
		snprintf(text, REMEDY_BYTES, "Start it; if it is gone for good, see leader");
	else
		snprintf(text, REMEDY_BYTES, "%s%s", all[i].remedy, all[i].of_name ? name : "");
	return text;
}

/* Out of touch, behind, or without a daemon. */
static void
check_servers(struct status *s)
{
	const json_t *list = json_object_get(s->health.value, "Servers"), *server;
	size_t i;

	if (is_fenced(s) && s->health.value != NULL) {
		say(s, UNKNOWN("See node"), "this server is in no cluster now");
		return;
	}
	json_array_foreach(list, i, server) {
		const char *name = json_text(server, "Name"), *reason = json_text(server, "Reason");
		char remedy[REMEDY_BYTES];

		if (!json_flag(server, "Healthy") && strcmp(reason, DISK_FULL) != 0)
			say(s, BAD(remedy_of(reason, name, raft_leader(s->health.value) != NULL, remedy)), "%s: %s",
			    name, reason);
	}
	if (s->health.value == NULL)
		say_not_told(s);
	else if (is_forming(s))
		say(s, UNKNOWN("See leader"), "none belongs to a cluster yet");
	else if (s->said == 0)
		say(s, WELL, "%zu in touch, with all of the log", json_array_size(list));
}

static void
check_disks(struct status *s)
{
	static const char remedy[] = "Free space there, see disk_reserve in raftd.conf(5)";
	const json_t *raft = section(s, "raft"), *server;
	const char *self = json_text_at(s->self.value, "Config.NodeName");
	bool here = strcmp(json_text(raft, "disk_full"), "1") == 0;
	size_t i;

	json_array_foreach(json_object_get(s->health.value, "Servers"), i, server) {
		const char *name = json_text(server, "Name");

		if (strstr(json_text(server, "Reason"), DISK_FULL) == NULL)
			continue;
		say(s, BAD(remedy), "%s: " DISK_FULL, name);
		here = here && strcmp(name, self) != 0;
	}
	if (here)
		say(s, BAD(remedy), "%s: " DISK_FULL, self);
	if (s->health.value == NULL)
		say_not_told(s);
	else if (s->said == 0 && raft_leader(s->health.value) == NULL)
		say(s, UNKNOWN(is_fenced(s) ? "See node" : "See leader"),
		    "without a leader each server knows its own only");
	else if (s->said == 0 && raft != NULL)
		say(s, WELL, "none is full, %.1f GB free here", strtod(json_text(raft, "disk_free"), NULL) / 1e9);
	else if (s->said == 0)
		say(s, WELL, "none is full");
}

/* Of servers alone, which compare theirs, and only of one that is off. */
static void
check_clock(struct status *s)
{
	const json_t *raftd = section(s, "raftd");
	unsigned off = number_of(raftd, "clock_offset_ms");

	if (off >= CLOCK_OFF_MS)
		say(s, BAD("Have NTP set it: see \"Clocks\" in the operations guide"),
		    "that of this server is off by %.1f s: the others' are %s", off / 1e3,
		    json_text(raftd, "clock_offsets"));
}

/* Was it said of this member already, as a server? */
static bool
is_bad_server(const struct status *s, const json_t *member)
{
	const json_t *server;
	size_t i;

	json_array_foreach(json_object_get(s->health.value, "Servers"), i, server)
		if (strcmp(json_text(server, "Name"), json_text(member, "Name")) == 0)
			return !json_flag(server, "Healthy");
	return false;
}

/* Those of this datacenter, and servers of others. */
static void
check_members(struct status *s)
{
	const char *dc = json_text_at(s->self.value, "Config.Datacenter");
	unsigned count[MEMBER_FAILED + 1] = { 0 };
	char remedy[REMEDY_BYTES];
	const json_t *m;
	size_t i;

	if (s->members.value == NULL) {
		say(s, UNKNOWN("systemctl status rpcd"), "%s", s->members.why);
		return;
	}
	if (strcmp(json_text(section(s, "rpcd"), "gossipd"), "connected") != 0)
		say(s, UNKNOWN("systemctl restart gossipd"), "gossipd does not report changes");
	if (json_text(section(s, "serf_lan"), "refused")[0] != '\0')
		say(s, BAD("Correct cluster.conf on the node that is wrong, then systemctl restart triumvir.target "
		    "there"),
		    "this node is alone; it asked %s", json_text(section(s, "serf_lan"), "refused"));
	for (int wan = 0; wan < 2; wan++)
		json_array_foreach(wan ? s->wan.value : s->members.value, i, m) {
			json_int_t status = json_int(m, "Status");

			if (wan && strcmp(json_text_at(m, "Tags.dc"), dc) == 0)
				continue;
			count[status >= 0 && status <= MEMBER_FAILED ? status : 0]++;
			if (status == MEMBER_ALIVE && json_text_at(m, "Tags.fenced")[0] != '\0')
				say(s, BAD(FENCED_REMEDY), "%s: the cluster was recovered without it",
				    json_text(m, "Name"));
			if (status == MEMBER_FAILED && !is_bad_server(s, m))
				say(s, BAD(remedy_of("gossip reports", json_text(m, "Name"), true, remedy)),
				    "%s: failed", json_text(m, "Name"));
		}
	if (s->said == 0)
		say(s, WELL, "%u alive, %u failed, %u left", count[MEMBER_ALIVE], count[MEMBER_FAILED],
		    count[MEMBER_LEAVING] + count[MEMBER_LEFT]);
}

/* Is it in the catalog, under its name and id?  Any server knows. */
static bool
is_listed(void *ctx, const char *name, const char *id)
{
	struct buf path = BUF_INIT(TEXT_BYTES);
	struct part found;
	const json_t *node;
	bool listed;

	buf_puts(&path, "/v1/catalog/node/");
	client_encode(&path, name, false);
	buf_puts(&path, "?stale");
	found = ask_agent(ctx, buf_cstr(&path));
	node = json_object_get(found.value, "Node");
	listed = strcmp(json_text(node, "Node"), name) == 0 && strcasecmp(json_text(node, "ID"), id) == 0;
	part_done(&found);
	buf_done(&path);
	return listed;
}

static void
say_collision(void *ctx, const char *remedy, const char *text)
{
	say(ctx, BAD(remedy), "%s", text);
}

/* No two members that live have one id, or one name but for case. */
static void
check_identity(struct status *s)
{
	const json_t *rpcd = section(s, "rpcd");
	const char *own = json_text(rpcd, "collision");
	struct collisions c = { .listed = is_listed, .say = say_collision, .ctx = s };

	collisions_find(&c, s->members.value, false);
	collisions_find(&c, s->wan.value, true);
	if (s->said == 0 && own[0] != '\0')		/* the token may not see the other one */
		say(s, BAD(json_text(rpcd, "collision_remedy")), "%s", own);
	else if (s->members.value == NULL)
		say(s, UNKNOWN("See members"), "gossip reports no members");
	else if (s->said == 0)
		say(s, WELL, "each member has its own id and name");
}

/* The version of a node of ours that lives, or "". */
static const char *
version_of(const json_t *member)
{
	const json_t *tags = json_object_get(member, "Tags");
	bool counts = json_int(member, "Status") == MEMBER_ALIVE &&
	    json_text(tags, "id")[0] != '\0';

	return counts ? json_text(tags, "build") : "";
}

static void
check_versions(struct status *s)
{
	static const char *const daemons[] = { "gossipd", "raftd", "rpcd" };
	struct buf text = BUF_INIT(TEXT_BYTES * 16);
	json_t *seen = json_object();
	const char *build, *own = json_text(section(s, "rpcd"), "version");
	json_t *m, *one;
	size_t i;

	json_array_foreach(s->members.value, i, m)
		if (version_of(m)[0] != '\0')
			json_object_set_new(seen, version_of(m), json_null());
	json_object_foreach(seen, build, one) {
		unsigned n = 0;

		buf_printf(&text, "%s%s on ", text.len > 0 ? "; " : "", build);
		json_array_foreach(s->members.value, i, m)
			if (strcmp(version_of(m), build) == 0)
				add_name(&text, n++, json_text(m, "Name"));
		end_names(&text, n);
	}
	if (json_object_size(seen) > 1)
		say(s, BAD("Upgrade the others: Versions in triumvir(7)"), "%s", buf_cstr(&text));
	for (i = 0; i < 3; i++) {
		const char *version = json_text(section(s, daemons[i]), "version");

		if (version[0] != '\0' && strcmp(version, own) != 0)
			say(s, BAD("systemctl restart triumvir.target"), "here rpcd is %s and %s is %s", own,
			    daemons[i], version);
	}
	if (s->said == 0 && json_object_size(seen) == 0)
		say(s, UNKNOWN("See node and members"), "not reported by any member");
	else if (s->said == 0)
		say(s, WELL, "%s everywhere", json_object_iter_key(json_object_iter(seen)));
	json_decref(seen);
	buf_done(&text);
}

/* The way from plaintext to encryption: all members at one stage, which is no stage between.  False: in plaintext. */
static bool
check_stages(struct status *s)
{
	static const char remedy[] = "clusterctl keyring encrypt";
	unsigned at[ENCRYPTION_REQUIRED + 1] = { 0 }, stages = 0;
	struct buf text = BUF_INIT(TEXT_BYTES);
	const json_t *m;
	size_t i;

	json_array_foreach(s->members.value, i, m)
		if (json_int(m, "Status") == MEMBER_ALIVE && keyring_stage(m) >= 0)
			at[keyring_stage(m)]++;
	for (int e = ENCRYPTION_OFF; e <= ENCRYPTION_REQUIRED; e++)
		if (at[e] > 0)
			buf_printf(&text, "%s%u at \"%s\"", stages++ > 0 ? ", " : "", at[e],
			    cluster_encryption_name(e));
	if (stages > 1 || (stages == 1 && at[ENCRYPTION_OFF] + at[ENCRYPTION_REQUIRED] == 0))
		say(s, BAD(remedy), "on the way to encryption: %s", buf_cstr(&text));
	buf_done(&text);
	return stages == 0 || at[ENCRYPTION_OFF] == 0;
}

/*
 * There are two keys, or one that some members lack: a rotation has begun, or it has ended and left a key that no
 * member encrypts with any more, as after the return of a lost node.
 */
static void
remedy_of_keys(const json_t *pool, json_int_t answered, char text[REMEDY_BYTES])
{
	const json_t *primaries = json_object_get(pool, "PrimaryKeys");
	struct ctl_key id = { .id = "" };
	bool over = false;
	const char *key, *unused = NULL;
	json_t *count;

	json_object_foreach(json_object_get(pool, "Keys"), key, count) {
		json_int_t used = json_integer_value(json_object_get(primaries, key));

		over = over || (used >= answered && json_integer_value(count) >= answered);
		unused = used == 0 ? key : unused;
	}
	snprintf(text, REMEDY_BYTES, "Finish the rotation, to the key that you name: clusterctl keyring rotate --key "
	    "ID");
	if (over && unused != NULL && keyring_key(unused, &id))
		snprintf(text, REMEDY_BYTES, "If the rotation is over: clusterctl keyring remove %s; else finish it, "
		    "to the key that you name: clusterctl keyring rotate --key ID", id.id);
	sodium_memzero(&id, sizeof(id));
}

/* One pool: one key, which all have and use. */
static void
check_pool(struct status *s, const json_t *pool)
{
	char name[KEYRING_POOL_BYTES];
	struct buf text = BUF_INIT(TEXT_BYTES * 16), silent = BUF_INIT(TEXT_BYTES), failed = BUF_INIT(TEXT_BYTES);
	json_int_t nodes = json_int(pool, "NumNodes");
	json_t *keys = json_object_get(pool, "Keys"), *count, *why;
	const char *key, *node;
	struct ctl_key id;
	bool same = json_object_size(keys) == 1;
	unsigned n = 0, n_silent = 0, n_failed = 0;
	char said[TEXT_BYTES / 8], remedy[REMEDY_BYTES];

	keyring_pool_name(pool, name, sizeof(name));
	json_object_foreach(json_object_get(pool, "Messages"), node, why) {
		const char *reason = json_string_value(why) != NULL ? json_string_value(why) : "";

		n++;
		if (strcmp(reason, "no answer") == 0) {
			add_name(&silent, n_silent++, node);
			continue;
		}
		snprintf(said, sizeof(said), "%s (%s)", node, reason);
		add_name(&failed, n_failed++, said);
	}
	end_names(&silent, n_silent);
	end_names(&failed, n_failed);
	json_object_foreach(keys, key, count) {
		json_int_t used = json_integer_value(json_object_get(json_object_get(pool, "PrimaryKeys"), key));

		same = same && json_integer_value(count) + n >= nodes && used + n >= nodes;
		buf_printf(&text, "%s%s (on %lld, primary of %lld)", text.len > 0 ? ", " : "",
		    keyring_key(key, &id) ? id.id : "?", (long long)json_integer_value(count), (long long)used);
	}
	remedy_of_keys(pool, nodes - n, remedy);
	if (json_text(pool, "Error")[0] != '\0')
		say(s, UNKNOWN("clusterctl keyring list"), "%s: %s", name, json_text(pool, "Error"));
	else if (!same)
		say(s, BAD(remedy), "%s: %lld members, keys %s", name, (long long)nodes, buf_cstr(&text));
	if (n_silent > 0)
		say(s, UNKNOWN(json_flag(pool, "WAN") ? "clusterctl members --wan shows who failed" :
		    "clusterctl members shows who failed"), "%s: no answer of %s", name, buf_cstr(&silent));
	if (n_failed > 0)
		say(s, UNKNOWN("clusterctl keyring list"), "%s: %s", name, buf_cstr(&failed));
	sodium_memzero(&id, sizeof(id));
	buf_done(&text);
	buf_done(&silent);
	buf_done(&failed);
}

static void
check_keyring(struct status *s)
{
	const char *own = json_text(section(s, "keyring"), "state");
	struct part keys = { NULL, NULL, NULL, false, false };
	const json_t *pool;
	size_t i;

	if (!check_stages(s)) {
		if (s->said == 0)
			say(s, WELL, "gossip is not encrypted");
		return;
	}
	if (own[0] != '\0' && strcmp(own, "ok") != 0)
		say(s, BAD("clusterctl info keyring"), "here: %s", own);
	if (s->health.value == NULL) {
		say_not_told(s);
		return;
	}
	keys = ask_agent(s, "/v1/operator/keyring");
	json_array_foreach(keys.value, i, pool)
		check_pool(s, pool);
	if (keys.value == NULL)
		say(s, UNKNOWN("clusterctl keyring list"), "%s", keys.why);
	else if (s->said == 0)
		say(s, WELL, "all have the same key");
	part_done(&keys);
}

/* -- the whole -- */

static void
show(const struct status *s)
{
	const json_t *line;
	size_t i;

	json_array_foreach(s->lines, i, line) {
		const char *remedy = json_text(line, "Remedy");

		printf("%-9s %-9s %s%s%s\n", json_text(line, "Check"), json_text(line, "Status"),
		    json_text(line, "Text"), remedy[0] != '\0' ? ". " : "", remedy);
	}
	printf("%s\n", s->bad ? "Not all is well." : "All is well.");
}

int
cmd_status(struct ctl *ctl)
{
	static const struct { const char *name; void (*check)(struct status *s); } checks[] = {
		{ "node", check_node }, { "services", check_services }, { "https", check_https },
		{ "acl", check_acl }, { "leader", check_leader }, { "quorum", check_quorum },
		{ "servers", check_servers }, { "disks", check_disks },
		{ "clock", check_clock }, { "members", check_members }, { "identity", check_identity },
		{ "versions", check_versions }, { "keyring", check_keyring },
	};
	struct status s = { .ctl = ctl, .lines = json_array() };

	if (ctl->timeout.ns == 0)
		client_within(ctl_client(ctl), LIMIT);
	ask_self(&s);
	if (s.self.value != NULL) {
		s.members = ask_agent(&s, "/v1/agent/members");
		s.wan = ask_agent(&s, "/v1/agent/members?wan=1");
		s.checks = ask_agent(&s, "/v1/agent/checks");
		ask_health(&s);
	}
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		/* Where rpcd does not answer there is nothing else to say. */
		if (i > 0 && s.self.value == NULL && !(s.self.refused && checks[i].check == check_acl))
			continue;
		s.check = checks[i].name;
		s.said = 0;
		checks[i].check(&s);
	}
	if (ctl->json)
		out_json_new(json_pack("{s:b,s:O}", "Well", !s.bad, "Checks", s.lines));
	else
		show(&s);
	free(s.token_why);
	part_done(&s.self);
	part_done(&s.members);
	part_done(&s.wan);
	part_done(&s.checks);
	part_done(&s.health);
	json_decref(s.lines);
	return s.bad;
}
