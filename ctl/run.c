/* clusterctl: administration of a cluster.  The table of commands, and the options that all of them take. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/duration.h"
#include "ctl/ctl.h"

static int
cmd_version(struct ctl *ctl, int argc, char **argv)
{
	(void)ctl;
	(void)argv;
	if (argc > 1)
		return ctl_usage(ctl_find("version"));
	printf("clusterctl %s\n", TV_VERSION);
	return 0;
}

static const struct command commands[] = {
	{ "members", "[--wan] [--detailed]", "show who is in the pool", cmd_members },
	{ "info", "[SECTION]", "show what a node knows about itself", cmd_info },
	{ "join", "[--wan] [--wait] ADDRESS...", "join the cluster of any of these nodes", cmd_join },
	{ "leave", "[--force]", "leave the cluster gracefully and stop", cmd_leave },
	{ "force-leave", "[--prune] NODE", "declare a failed node as left", cmd_force_leave },
	{ "rtt", "[--wan] NODE [NODE]", "estimate the round trip between two members", cmd_rtt },
	{ "kv", "get|put|delete|list|keys ...", "read and write keys", cmd_kv },
	{ "event", "fire|list|watch ...", "fire and follow user events", cmd_event },
	{ "monitor", "[--level LEVEL] [--daemon NAME]", "follow the logs of a node's daemons", cmd_monitor },
	{ "query", "NAME [PAYLOAD] | answer NAME ...", "ask all members, or answer what they ask", cmd_query },
	{ "catalog", "[--near NODE] nodes|services|datacenters|service NAME", "show the catalog", cmd_catalog },
	{ "raft", "list-peers|remove-peer|transfer-leader|autopilot|recover ...",
	    "look after the servers' consensus", cmd_raft },
	{ "snapshot", "save|restore|inspect FILE | status", "back up and restore the whole state", cmd_snapshot },
	{ "keyring", "list|install|use|remove|export|rotate|encrypt ...", "look after the keys of gossip and links",
	    cmd_keyring },
	{ "reload", "", "make rpcd read its configuration again", cmd_reload },
	{ "keygen", "[--pub] [DIR]", "make cluster.key, server.key and server.pub, or only that", cmd_keygen },
	{ "validate", "[--print] [DIR]", "check the configuration files", cmd_validate },
	{ "dev", "[--http-port PORT] [--bind ADDRESS]", "run one server in the foreground, for development", cmd_dev },
	{ "version", "", "show the version", cmd_version },
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

/* "--name" or "--name=VALUE"? */
static bool
is_option(const char *arg, const char *name)
{
	size_t len = strlen(name);

	return strncmp(arg, name, len) == 0 && (arg[len] == '\0' || arg[len] == '=');
}

static void
usage(FILE *to)
{
	fprintf(to, "usage: clusterctl [--addr HOST:PORT|unix:PATH] [--token TOKEN] [--timeout TIME] [--json]\n"
	    "                  COMMAND ...\n\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(to, "  %-12s %-58s %s\n", commands[i].name, commands[i].args, commands[i].help);
	fprintf(to, "\n`clusterctl help COMMAND` tells its options.\n"
	    "Without --addr: TRIUMVIR_ADDR, CONSUL_HTTP_ADDR, else " CLIENT_ADDR_DEFAULT ".\n"
	    "Manual page: clusterctl(8).\n");
}

const struct command *
ctl_find(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

/* query has an option of that name: behind it, it is that one. */
static bool
is_timeout(int n, char **argv, const char *arg)
{
	return is_option(arg, "--timeout") && (n < 2 || strcmp(argv[1], "query") != 0);
}

static bool
set_timeout(struct ctl *ctl, const char *text)
{
	if (text == NULL || (duration_parse(span_str(text), &ctl->timeout.ns) == TV_OK && ctl->timeout.ns > 0))
		return true;
	fprintf(stderr, "clusterctl: --timeout: \"%s\" is no length of time, such as 30s\n", text);
	return false;
}

/* Takes the options of all commands, which may stand anywhere before "--". */
static int
take_globals(struct ctl *ctl, int argc, char **argv)
{
	const char *timeout = NULL;
	int n = 1;

	for (int i = 1; i < argc; i++) {
		const char **value = NULL;

		if (strcmp(argv[i], "--") == 0) {
			while (i < argc)
				argv[n++] = argv[i++];
			break;
		}
		if (strcmp(argv[i], "--json") == 0) {
			ctl->json = true;
		} else if (is_option(argv[i], "--addr")) {
			value = &ctl->addr;
		} else if (is_option(argv[i], "--token")) {
			value = &ctl->token;
		} else if (is_timeout(n, argv, argv[i])) {
			value = &timeout;
		} else {
			argv[n++] = argv[i];
		}
		if (value == NULL)
			continue;
		*value = strchr(argv[i], '=');
		if (*value != NULL) {
			(*value)++;
		} else if (i + 1 < argc) {
			*value = argv[++i];
		} else {
			fprintf(stderr, "clusterctl: %s needs a value\n", argv[i]);
			return -1;
		}
	}
	argv[n] = NULL;
	return set_timeout(ctl, timeout) ? n : -1;
}

/* As the last word; behind "--" it is an argument. */
static bool
asks_for_help(int argc, char **argv)
{
	for (int i = 2; i < argc - 1; i++)
		if (strcmp(argv[i], "--") == 0)
			return false;
	return argc >= 3 && (strcmp(argv[argc - 1], "--help") == 0 || (argc == 3 && strcmp(argv[2], "-h") == 0));
}

/* Neither a command of ours nor a spelling of Consul's. */
static int
no_command(const char *name)
{
	unsigned best = UINT_MAX;
	const char *near = NULL;

	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (ctl_nearer(name, commands[i].name, &best))
			near = commands[i].name;
	fprintf(stderr, "clusterctl: no command \"%s\"", name);
	if (near != NULL)
		fprintf(stderr, "; did you mean \"%s\"?", near);
	fprintf(stderr, "%s `clusterctl help` lists them\n", near == NULL ? ";" : "");
	return 2;
}

/* "help", or "help COMMAND". */
static int
help(int argc, char **argv)
{
	const struct command *cmd = argc > 2 ? ctl_find(argv[2]) : NULL;

	if (argc > 2 && cmd == NULL)
		return no_command(argv[2]);
	if (cmd != NULL)
		ctl_help(cmd);
	else
		usage(stdout);
	return 0;
}

int
ctl_run(int argc, char **argv)
{
	struct ctl ctl = { .argv0 = argv[0] };
	const struct command *cmd;
	int rc;

	argc = take_globals(&ctl, argc, argv);
	if (argc < 0)
		return 2;
	if (argc < 2) {
		usage(stderr);
		return 2;
	}
	if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return help(argc, argv);
	if (ctl_hint_spelling(argc, argv))
		return 2;
	cmd = ctl_find(strcmp(argv[1], "--version") == 0 ? "version" : argv[1]);
	if (cmd == NULL)
		return ctl_is_theirs(argv[1]) && ctl_hint_option(argv[1]) ? 2 : no_command(argv[1]);
	if (asks_for_help(argc, argv)) {
		ctl_help(cmd);
		return 0;
	}
	if (argc > 2 && !ctl_knows_verb(cmd, argv[2]))
		return ctl_usage(cmd);
	rc = cmd->run(&ctl, argc - 1, argv + 1);
	client_free(ctl.client);
	if (fflush(stdout) != 0 && rc == 0) {
		perror("clusterctl: writing the answer");
		rc = 1;
	}
	return rc;
}
