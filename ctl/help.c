/*
 * What clusterctl says about itself: the forms of each command and its options, for `--help` and after a wrong call
 * alike, and hints for what was meant.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

#define NEAR_MAX 2			/* wrong letters in a word that is still recognised */
#define WORD_MAX 32

struct guide {
	const char *name;
	const char *const *forms;	/* behind "clusterctl NAME"; NULL ends */
	const char *text;		/* options, one in a line; "": none */
	bool verbs;			/* the first word of a form is one of those that may follow */
};

#define FORMS(...) (const char *const[]){ __VA_ARGS__, NULL }
#define DC "  --dc DC          ask this datacenter\n"
#define STALE "  --stale          any server may answer, without a leader too; may be old\n"

static const struct guide guides[] = {
	{ "members", FORMS("[--wan] [--detailed]"),
	    "  --wan            the pool of the servers of all datacenters\n"
	    "  --detailed       with IDs, versions and all tags\n", false },
	{ "info", FORMS("[SECTION]"), "  SECTION          one of those that `info` shows, as raft or serf_lan\n",
	    false },
	{ "join", FORMS("[--wan] [--wait] ADDRESS..."),
	    "  ADDRESS          IP or IP:PORT of a member's gossip\n"
	    "  --wan            join the pool between datacenters (servers)\n"
	    "  --wait           end when this server is a voter, and show how far it is\n", false },
	{ "leave", FORMS("[--force]"),
	    "  --force          leave although the quorum is lost by it\n", false },
	{ "force-leave", FORMS("[--prune] NODE"),
	    "  --prune          forget the node at once\n", false },
	{ "rtt", FORMS("[--wan] NODE [NODE]"),
	    "  --wan            names of the WAN pool: NODE.DATACENTER\n", false },
	{ "kv", FORMS("get [--stale] [--dc DC] KEY", "put [--cas INDEX] [--flags N] [--dc DC] KEY VALUE|-|@FILE",
	    "delete [--recurse] [--cas INDEX] [--dc DC] KEY", "list [--stale] [--separator S] [--dc DC] [PREFIX]",
	    "keys [--stale] [--separator S] [--dc DC] [PREFIX]"),
	    "  -                the value is read from standard input; @FILE: from a file\n"
	    "  --cas INDEX      only when the key was changed last at this index; 0: only when there is none\n"
	    "  --flags N        a number that is kept with the value\n"
	    "  --recurse        all keys that begin with KEY\n"
	    "  --separator S    names up to the first S behind PREFIX\n" STALE DC, true },
	{ "event", FORMS("fire [--node RE] [--service RE [--tag RE]] [--dc DC] [--coalesce] NAME [PAYLOAD|-|@FILE]",
	    "list [--name NAME]", "watch [--name RE] [--exec COMMAND]"),
	    "  --node RE        only nodes of such a name; --service RE, --tag RE: only with such a service\n"
	    "  --coalesce       Serf's agents may hand on only the newest of several\n"
	    "  --name           events of this name; for watch a regular expression\n"
	    "  --exec COMMAND   run it for each event\n" DC, true },
	{ "monitor", FORMS("[--level LEVEL] [--daemon NAME]"),
	    "  --level LEVEL    debug, info, warn or error\n"
	    "  --daemon NAME    gossipd, raftd or rpcd; all without it\n", false },
	{ "query",
	    FORMS("[--node NODE]... [--tag KEY=RE]... [--timeout D] [--no-ack] [--relay N] NAME [PAYLOAD|-|@FILE]",
	    "answer NAME --exec COMMAND|--text TEXT"),
	    "  --node NODE      ask this one; may be repeated\n"
	    "  --tag KEY=RE     ask members with such a tag; may be repeated\n"
	    "  --timeout D      wait so long for answers, as 5s\n"
	    "  --no-ack         ask for no acknowledgements\n"
	    "  --relay N        answers also come by way of N others\n"
	    "  --exec COMMAND   answer with what it prints; --text TEXT: with this\n", false },
	{ "catalog", FORMS("nodes [--near NODE] [--dc DC]", "services [--dc DC]", "datacenters",
	    "service [--near NODE] [--dc DC] NAME"),
	    "  --near NODE      sorted by the round trip from there; _agent: from the node that is asked\n" DC, true },
	{ "raft", FORMS("list-peers [--stale]", "remove-peer [--force] SERVER", "transfer-leader [SERVER]",
	    "autopilot [get | set NAME=VALUE ... | health]", "recover [--dry-run] [--yes]"),
	    "  SERVER           name, ID or address, as list-peers shows them\n"
	    "  --stale          as the asked server knows it, without a leader too\n"
	    "  --force          remove although the quorum is lost by it\n"
	    "  --dry-run        show what a recovery would mean; --yes: do it without a question\n", true },
	{ "snapshot", FORMS("save [--stale] [--dc DC] FILE", "restore [--yes] [--dc DC] FILE", "inspect FILE",
	    "status [--dc DC]"),
	    "  --yes            replace the whole state without a question\n" STALE DC, true },
	{ "keyring", FORMS("list [--show-keys]", "install [--relay N] [--force] KEY|-",
	    "use [--relay N] [--force] ID|-",
	    "remove [--relay N] [--force] ID|-", "export", "rotate [--key ID] [--keep-old] [--force]",
	    "encrypt [--dir DIR]"),
	    "  ID               of a key, as list shows it; -: the key is read from standard input\n"
	    "  --show-keys      the keys themselves, which are secret\n"
	    "  --force          although not all members answer\n"
	    "  --relay N        answers also come by way of N others\n"
	    "  --key ID         go on with this new key; --keep-old: do not remove the old one\n"
	    "  --dir DIR        where cluster.key is\n", true },
	{ "reload", FORMS(""), "", false },
	{ "keygen", FORMS("[DIR]", "--pub [DIR]"),
	    "  --pub            only server.pub, from the server.key that is there\n", false },
	{ "validate", FORMS("[--print] [DIR]"),
	    "  --print          show all values, defaults included\n", false },
	{ "dev", FORMS("[--http-port PORT] [--bind ADDRESS] [--datacenter DC] [--node NAME]"),
	    "  --bind ADDRESS   of loopback; all three daemons use it\n", false },
	{ "version", FORMS(""), "", false },
};

static const struct guide *
guide_of(const char *name)
{
	for (size_t i = 0; i < sizeof(guides) / sizeof(guides[0]); i++)
		if (strcmp(guides[i].name, name) == 0)
			return &guides[i];
	return NULL;
}

static void
put_forms(FILE *to, const struct command *cmd)
{
	const struct guide *g = guide_of(cmd->name);
	const char *const *forms = g != NULL ? g->forms : FORMS(cmd->args);

	for (unsigned i = 0; forms[i] != NULL; i++)
		fprintf(to, "%s clusterctl %s%s%s\n", i == 0 ? "usage:" : "      ", cmd->name,
		    forms[i][0] != '\0' ? " " : "", forms[i]);
}

int
ctl_usage(const struct command *cmd)
{
	put_forms(stderr, cmd);
	return 2;
}

void
ctl_help(const struct command *cmd)
{
	const struct guide *g = guide_of(cmd->name);

	put_forms(stdout, cmd);
	printf("\n%c%s.\n", cmd->help[0] - 'a' + 'A', cmd->help + 1);
	if (g != NULL && g->text[0] != '\0')
		printf("\n%s", g->text);
	printf("\nAll commands take --addr, --token, --timeout and --json.  Manual page: clusterctl(8).\n");
}

/* -- what was meant -- */

/* Letters to change, add, drop or swap with their neighbours until one word is the other. */
static unsigned
distance(const char *a, const char *b)
{
	unsigned rows[3][WORD_MAX + 1], n = (unsigned)strlen(a), m = (unsigned)strlen(b);

	if (n > WORD_MAX || m > WORD_MAX)
		return WORD_MAX;
	for (unsigned j = 0; j <= m; j++)
		rows[0][j] = j;
	for (unsigned i = 1; i <= n; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];

		row[0] = i;
		for (unsigned j = 1; j <= m; j++) {
			unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);

			best = above[j] + 1 < best ? above[j] + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			row[j] = best;
		}
	}
	return rows[n % 3][m];
}

bool
ctl_nearer(const char *word, const char *candidate, unsigned *best)
{
	unsigned d = distance(word, candidate), len = (unsigned)strlen(word);

	if (d >= *best || d > NEAR_MAX || d * 2 >= len)
		return false;
	*best = d;
	return true;
}

/* The next verb of a form list: the word that the form begins with. */
static bool
verb_of(const char *form, char verb[WORD_MAX])
{
	size_t n = strspn(form, "abcdefghijklmnopqrstuvwxyz-");

	if (n == 0 || n >= WORD_MAX)
		return false;
	memcpy(verb, form, n);
	verb[n] = '\0';
	return true;
}

bool
ctl_knows_verb(const struct command *cmd, const char *word)
{
	const struct guide *g = guide_of(cmd->name);
	char verb[WORD_MAX], near[WORD_MAX] = "";
	unsigned best = NEAR_MAX + 1;

	if (g == NULL || !g->verbs || word == NULL || word[0] == '-')
		return true;
	for (unsigned i = 0; g->forms[i] != NULL; i++) {
		if (!verb_of(g->forms[i], verb))
			continue;
		if (strcmp(verb, word) == 0)
			return true;
		if (ctl_nearer(word, verb, &best))
			memcpy(near, verb, sizeof(near));
	}
	fprintf(stderr, "clusterctl: %s: no \"%s\"", cmd->name, word);
	if (near[0] != '\0')
		fprintf(stderr, "; did you mean \"%s\"?", near);
	fputc('\n', stderr);
	return false;
}

/* -- those who come from Consul or Serf -- */

/* Their options, ours; NULL: there is none. */
static const struct { const char *theirs, *ours; } options[] = {
	{ "http-addr", "--addr" }, { "rpc-addr", "--addr" }, { "token", "--token" }, { "datacenter", "--dc" },
	{ "format", "--json" }, { "log-level", "--level" }, { "modify-index", "--cas INDEX" }, { "stale", "--stale" },
	{ "wan", "--wan" }, { "detailed", "--detailed" }, { "recurse", "--recurse" }, { "separator", "--separator" },
	{ "cas", "--cas INDEX" }, { "flags", "--flags" }, { "prune", "--prune" }, { "near", "--near" }, { "name",
	"--name" },
	{ "force", "--force" }, { "json", "--json" }, { "addr", "--addr" }, { "dc", "--dc" }, { "keys", "kv keys" },
	{ "id", "the server itself" }, { "address", "the server itself" }, { "relay-factor", "--relay" },
	{ "token-file", NULL }, { "ca-file", NULL }, { "ca-path", NULL }, { "client-cert", NULL }, { "client-key",
	NULL },
	{ "tls-server-name", NULL }, { "namespace", NULL }, { "partition", NULL },
};

bool
ctl_is_theirs(const char *arg)
{
	size_t n = strcspn(arg + 1, "=");

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]) && arg[0] == '-'; i++)
		if (strlen(options[i].theirs) == n && strncmp(arg + 1, options[i].theirs, n) == 0)
			return true;
	return false;
}

bool
ctl_hint_option(const char *arg)
{
	size_t dashes = strspn(arg, "-"), n = strcspn(arg + dashes, "=");

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]) && dashes > 0 && dashes <= 2; i++) {
		if (strlen(options[i].theirs) != n || strncmp(arg + dashes, options[i].theirs, n) != 0)
			continue;
		if (options[i].ours == NULL)
			fprintf(stderr, "clusterctl: there is nothing like \"-%s\" here\n", options[i].theirs);
		else
			fprintf(stderr, "clusterctl: \"%.*s\" is written %s here\n",
			    (int)(dashes + n), arg, options[i].ours);
		return true;
	}
	return false;
}

/* Words that those command lines begin with, and what does the same here. */
static const struct { const char *theirs, *ours; } spellings[] = {
	{ "operator raft list-peers", "raft list-peers" }, { "operator raft remove-peer", "raft remove-peer SERVER" },
	{ "operator raft transfer-leader", "raft transfer-leader" }, { "operator raft", "raft" },
	{ "operator autopilot get-config", "raft autopilot get" },
	{ "operator autopilot set-config", "raft autopilot set NAME=VALUE" },
	{ "operator autopilot state", "raft autopilot health" }, { "operator autopilot", "raft autopilot" },
	{ "operator", "raft" },
	{ "keyring -list", "keyring list" }, { "keyring -install", "keyring install -" }, { "keyring -use",
	"keyring use ID" },
	{ "keyring -remove", "keyring remove ID" }, { "keys", "keyring" }, { "event -name", "event fire NAME" },
	{ "agent -dev", "dev" }, { "agent", "dev, or systemctl start triumvir.target" },
	{ "watch", "event watch" },
	{ "acl", NULL }, { "config", NULL }, { "connect", NULL }, { "debug", NULL }, { "exec", NULL }, { "intention",
	NULL },
	{ "lock", NULL }, { "login", NULL }, { "logout", NULL }, { "maint", NULL }, { "peering", NULL }, { "services",
	NULL },
	{ "tls", NULL },
};

/* Do the arguments begin with these words?  A last word of dashes may have a value. */
static bool
begins_with(const char *words, int argc, char **argv)
{
	for (int i = 1; *words != '\0'; i++) {
		size_t n = strcspn(words, " ");

		if (i >= argc || strncmp(argv[i], words, n) != 0 ||
		    (argv[i][n] != '\0' && !(words[0] == '-' && argv[i][n] == '=') && words[n - 1] != '-'))
			return false;
		words += n + (words[n] == ' ');
	}
	return true;
}

bool
ctl_hint_spelling(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
		if (!begins_with(spellings[i].theirs, argc, argv))
			continue;
		if (spellings[i].ours == NULL)
			fprintf(stderr, "clusterctl: \"%s\" of Consul has nothing like it in this version\n",
			    spellings[i].theirs);
		else
			fprintf(stderr, "clusterctl: \"%s\" is here: clusterctl %s\n",
			    spellings[i].theirs, spellings[i].ours);
		return true;
	}
	return false;
}
