/* clusterctl: administration of a cluster.  A command line becomes a verb of the table, options and arguments. */
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/duration.h"
#include "ctl/json_errors.h"
#include "ctl/resource.h"

int
cmd_version(struct ctl *ctl)
{
	if (ctl->json)
		return out_json_new(json_pack("{s:s}", "Version", TV_VERSION));
	printf("clusterctl %s\n", TV_VERSION);
	return 0;
}

/* -- the table -- */

bool
ctl_under(const struct verb *v, const char *words)
{
	size_t n = strlen(words);

	return v->words != NULL && strncmp(v->words, words, n) == 0 &&
	    (n == 0 || v->words[n] == '\0' || v->words[n] == ' ');
}

int
ctl_begins(const char *words, char *const *argv)
{
	int i = 0;

	for (size_t n; *words != '\0'; words += n + (words[n] == ' ')) {
		bool optional = *words == '[';
		const char *word = words + optional;
		size_t len = (n = strcspn(words, " ")) - 2 * optional;

		/* An option of Consul's may have a value. */
		if (argv[i] != NULL && strncmp(argv[i], word, len) == 0 &&
		    (argv[i][len] == '\0' || (word[0] == '-' && argv[i][len] == '=')))
			i++;
		else if (!optional)
			return 0;
	}
	return i;
}

const struct option *
ctl_option(const char *command, const char *name)
{
	const struct option *o = NULL;

	for (const struct verb *v = ctl_verbs; v->words != NULL && o == NULL; v++)
		if (ctl_under(v, command))
			o = ctl_option_in(v->options, name);
	return o;
}

/* -- options -- */

/* The value of an option at *arg, which may be the next word; how many words that were, 0 after a complaint. */
static int
take_value(const struct option *o, char *const *arg, const char **value)
{
	int len = (int)strcspn(o->form, " ");
	const char *eq = strchr(*arg, '=');
	bool takes = o->form[len] != '\0';

	*value = eq != NULL ? eq + 1 : takes ? arg[1] : "";
	if (*value != NULL && (takes || eq == NULL))
		return takes && eq == NULL ? 2 : 1;
	fprintf(stderr, "clusterctl: %.*s %s\n", len, o->form, takes ? "needs a value" : "takes no value");
	return 0;
}

/* Where an option is kept that says how rpcd is reached; NULL: it is another one. */
static const char **
place_of(struct endpoint_given *at, const char *form)
{
	const struct { const char *name, **place; } all[] = {
		{ "--addr", &at->addr }, { "--ca-file", &at->ca_file }, { "--ca-path", &at->ca_path },
		{ "--client-cert", &at->client_cert }, { "--client-key", &at->client_key },
		{ "--tls-server-name", &at->server_name },
	};
	size_t len = strcspn(form, " ");

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strlen(all[i].name) == len && strncmp(all[i].name, form, len) == 0)
			return all[i].place;
	return NULL;
}

static bool
set_global(struct ctl *ctl, const struct option *o, const char *value)
{
	const char **place = place_of(&ctl->at, o->form);

	if (place != NULL) {
		*place = value;
		return true;
	}
	if (o->form[2] == 'j') {
		ctl->json = true;
		return true;
	}
	if (strncmp(o->form, "--token-file", 12) == 0) {
		ctl->token_file = value;
		return true;
	}
	if (o->form[3] == 'o') {
		ctl->token_arg = (char *)(uintptr_t)value;	/* a word of the command line, which is ours */
		return true;
	}
	if (duration_parse(span_str(value), &ctl->timeout.ns) == TV_OK && ctl->timeout.ns > 0)
		return true;
	fprintf(stderr, "clusterctl: --timeout: \"%s\" is no length of time, such as 30s\n", value);
	return false;
}

/*
 * Takes the options of all commands, which may stand anywhere before "--"; behind a command that has an option of that
 * name it is that one.  Returns how many words are left, or -1 after a complaint.
 */
static int
take_globals(struct ctl *ctl, char **argv)
{
	char **from = argv + 1, **to = argv + 1;
	const struct option *o;
	const char *value;
	int used;

	for (; *from != NULL && strcmp(*from, "--") != 0; from += used) {
		o = strncmp(*from, "--", 2) == 0 ? ctl_option_in(ctl_globals, *from + 2) : NULL;
		used = 1;
		if (o == NULL || (to > argv + 1 && ctl_option(argv[1], *from + 2) != NULL))
			*to++ = *from;
		else if ((used = take_value(o, from, &value)) == 0 || !set_global(ctl, o, value))
			return -1;
	}
	while (*from != NULL)
		*to++ = *from++;
	*to = NULL;
	return (int)(to - argv);
}

/*
 * Where the words of a COMMAND begin, which another program is to get as they are: behind the arguments before it.
 * NULL: the command line has none.  A command of that kind has no verbs.
 */
static char **
foreign_words(char **argv)
{
	const struct verb *v = NULL;
	int words = 0, before = 0;

	for (char **arg = argv + 1; *arg != NULL && strcmp(*arg, "--") != 0; arg++) {
		const struct option *o = strncmp(*arg, "--", 2) == 0 ? ctl_option_in(ctl_globals, *arg + 2) : NULL;

		if (o == NULL && v != NULL && strncmp(*arg, "--", 2) == 0)
			o = ctl_option_in(v->options, *arg + 2);
		if (o != NULL && strchr(o->form, ' ') != NULL && strchr(*arg, '=') == NULL) {
			if (*++arg == NULL)
				return NULL;
		} else if (**arg == '-' && (*arg)[1] != '\0') {
			;
		} else if (words++ == 0) {
			for (v = ctl_verbs; v->words != NULL && strcmp(v->words, *arg) != 0; v++)
				;
			const char *command = v->words != NULL && v->run != cmd_help ?
			    strstr(v->args, "COMMAND...") : NULL;
			if (command == NULL)
				return NULL;
			for (const char *p = v->args; p < command; p++)
				before += *p == ' ';
		} else if (words > 1 + before) {
			return arg;
		}
	}
	return NULL;
}

/* The arguments with a "--" before such words: what follows is no option of ours.  The caller frees it. */
static char **
set_apart(int argc, char **argv)
{
	static char end[] = "--";
	char **copy = calloc((size_t)argc + 2, sizeof(*copy)), **to = copy, **foreign = foreign_words(argv);

	for (char **arg = argv; copy != NULL && *arg != NULL; arg++) {
		if (arg == foreign)
			*to++ = end;
		*to++ = *arg;
	}
	return copy;
}

/* Complains of what looks like an option and is none of the command. */
static void
no_option(const char *command, const char *arg)
{
	unsigned best = UINT_MAX;
	const char *near = NULL;
	char name[64], other[64];

	fprintf(stderr, "clusterctl: %s: unknown option \"%s\"\n", command, arg);
	if (ctl_hint_option(command, arg))
		return;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	for (const struct verb *v = ctl_verbs; v->words != NULL; v++)
		for (const struct option *o = v->options; ctl_under(v, command) && o != NULL && o->form != NULL; o++) {
			snprintf(other, sizeof(other), "%.*s", (int)strcspn(o->form, " "), o->form);
			if (strncmp(other, "--", 2) == 0 && ctl_nearer(name, other + 2, &best))
				near = o->form;
		}
	if (near != NULL)
		fprintf(stderr, "Did you mean %.*s?\n", (int)strcspn(near, " "), near);
}

/*
 * Takes the options of a command out of argv, whichever of its verbs has them.  Returns where the arguments behind "--"
 * begin, which are no words of a verb, or NULL after a complaint.
 */
static char **
take_options(struct ctl *ctl, char **argv)
{
	char **from = argv + 2, **to = argv + 2, **plain;
	const char *command = argv[1];
	int used;

	for (; *from != NULL && strcmp(*from, "--") != 0; from += used) {
		struct given *g = &ctl->given[ctl->given_count];
		bool option = strncmp(*from, "--", 2) == 0;

		used = 1;
		g->option = option ? ctl_option(command, *from + 2) : NULL;
		if (g->option != NULL) {
			ctl->given_count++;
			used = take_value(g->option, from, &g->value);
		} else if (option) {
			no_option(command, *from);
			used = 0;
		} else if (**from == '-' && (*from)[1] != '\0' && strchr("0123456789", (*from)[1]) == NULL) {
			if (!ctl_hint_option(command, *from))
				fprintf(stderr, "clusterctl: %s: unknown option \"%s\"\n", command, *from);
			fprintf(stderr, "Behind \"--\" it would be a plain argument.\n");
			return NULL;
		} else {
			*to++ = *from;
		}
		if (used == 0) {
			ctl_usage(command);
			return NULL;
		}
	}
	plain = to;
	for (from += *from != NULL; *from != NULL; )
		*to++ = *from++;
	*to = NULL;
	return plain;
}

/* -- the verb -- */

/* The words of a verb without one that may be left out. */
static int
usage_of(const struct verb *v)
{
	char words[64];

	snprintf(words, sizeof(words), "%.*s", (int)strcspn(v->words, "["), v->words);
	words[strlen(words) - (words[strlen(words) - 1] == ' ')] = '\0';
	return ctl_usage(words);
}

/* The row whose words take most of the arguments before `plain`; *taken tells how many. */
static const struct verb *
find_verb(char **argv, char **plain, int *taken)
{
	const struct verb *found = NULL;
	char *rest = *plain;

	*plain = NULL;
	*taken = 0;
	for (const struct verb *v = ctl_verbs; v->words != NULL; v++) {
		int n = ctl_begins(v->words, argv);

		if (n <= *taken)
			continue;
		found = v;
		*taken = n;
	}
	*plain = rest;
	return found;
}

/* An option that only another verb has must not be passed over: --dry-run of remove-peer would remove. */
static bool
options_fit(struct ctl *ctl)
{
	const struct verb *v = ctl->verb;
	bool wants_one = false, one = false;

	for (struct given *g = ctl->given; g < ctl->given + ctl->given_count; g++) {
		const char *name = g->option->form;
		int len = (int)strcspn(name, " ");

		g->option = ctl_option_in(v->options, name + 2);
		if (g->option == NULL) {
			fprintf(stderr, "clusterctl: %s has no option %.*s\n", v->words, len, name);
			return false;
		}
		if ((g->option->flags & OPTION_NUMBER) &&
		    (g->value[0] == '\0' || g->value[strspn(g->value, "0123456789")] != '\0')) {
			fprintf(stderr, "clusterctl: %s: %.*s: \"%s\" is not a number\n", v->words, len, name,
			    g->value);
			return false;
		}
	}
	for (const struct option *o = v->options; o != NULL && o->form != NULL; o++)
		if (o->flags & OPTION_ONE_OF) {
			wants_one = true;
			if (ctl_opt(ctl, o->form + 2) != NULL && one)
				return false;
			one = one || ctl_opt(ctl, o->form + 2) != NULL;
		} else if ((o->flags & OPTION_NEEDED) && ctl_opt(ctl, o->form + 2) == NULL) {
			return false;
		}
	return one == wants_one;
}

/* Is that how many the verb takes? */
static bool
arguments_fit(const struct ctl *ctl)
{
	int least = 0, most = 0;

	for (const char *arg = ctl->verb->args; *arg != '\0'; arg += strspn(arg, " ")) {
		size_t n = strcspn(arg, " ");

		least += *arg != '[';
		most = memmem(arg, n, "...", 3) != NULL ? INT_MAX : most + 1;
		arg += n;
	}
	return ctl->argc >= least && ctl->argc <= most;
}

/* Neither a command of ours nor a spelling of Consul's. */
static int
no_command(const char *name)
{
	fprintf(stderr, "clusterctl: no command \"%s\"", name);
	ctl_hint_word("", name);
	return 2;
}

int
cmd_help(struct ctl *ctl)
{
	if (ctl->argc == 0)
		ctl_overview(stdout);
	else if (!ctl_help(ctl->argv))
		return no_command(ctl->argv[0]);
	return 0;
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

/* Until it is ended: what it says is wanted when it says it. */
static bool
runs_on(const struct verb *v)
{
	return v->run == cmd_watch || v->run == cmd_lock || v->run == event_watch || v->run == query_answer ||
	    v->run == cmd_monitor || v->run == cmd_dev;
}

static int
run_verb(struct ctl *ctl, char **argv)
{
	char **plain = take_options(ctl, argv);
	int words, rc;

	if (plain == NULL)
		return 2;
	ctl->verb = find_verb(argv + 1, plain, &words);
	ctl->argv = argv + 1 + words;
	while (ctl->argv[ctl->argc] != NULL)
		ctl->argc++;
	if (ctl->verb->run == NULL) {
		if (ctl->argc > 0) {
			fprintf(stderr, "clusterctl: %s: no \"%s\"", argv[1], ctl->argv[0]);
			ctl_hint_word(argv[1], ctl->argv[0]);
		}
		return ctl_usage(argv[1]);
	}
	if (!options_fit(ctl) || !arguments_fit(ctl))
		return usage_of(ctl->verb);
	for (const struct resource *const *r = ctl_resources; *r != NULL; r++)
		if (ctl_under(ctl->verb, (*r)->words))
			ctl->resource = *r;
	rc = ctl_take_token(ctl);
	if (rc == 0 && runs_on(ctl->verb))
		json_errors_release();
	rc = rc != 0 ? rc : ctl->verb->run(ctl);
	return rc == CTL_WRONG_CALL ? usage_of(ctl->verb) : rc;
}

/* Their status is of what they found, or of the command that they ran. */
static bool
has_own_status(const struct verb *v)
{
	return v == NULL || strcmp(v->words, "status") == 0 || strcmp(v->words, "lock") == 0 ||
	    strcmp(v->words, "watch") == 0;
}

/* Options of Unix for what is a command here. */
static char *
command_of(char *word)
{
	static char help[] = "help", version[] = "version";

	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ? help :
	    strcmp(word, "--version") == 0 ? version : word;
}

static int
dispatch(struct ctl *ctl, int argc, char **argv)
{
	bool known = false;

	if (argc < 2) {
		ctl_overview(stderr);
		return 2;
	}
	argv[1] = command_of(argv[1]);
	if (ctl_hint_spelling(argv + 1))
		return 2;
	for (const struct verb *v = ctl_verbs; v->words != NULL && !known; v++)
		known = strcmp(argv[1], v->words) == 0;
	if (!known)
		return ctl_hint_option("", argv[1]) ? 2 : no_command(argv[1]);
	if (!asks_for_help(argc, argv))
		return run_verb(ctl, argv);
	(void)ctl_help(argv + 1);
	return 0;
}

int
ctl_run(int argc, char **argv)
{
	struct ctl ctl = { .given = calloc((size_t)argc + 1, sizeof(*ctl.given)) };
	char **own = set_apart(argc, argv);
	int rc = 2;

	if (ctl.given == NULL || own == NULL || sodium_init() < 0) {
		fprintf(stderr, "clusterctl: cannot start: no memory, or no source of random numbers\n");
		rc = 1;
	} else if (argc > 1 && strcmp(argv[1], "--complete") == 0) {
		ctl_complete(argv + 2);
		rc = 0;
	} else if ((argc = take_globals(&ctl, own)) >= 0) {
		json_errors_reason(NULL);
		if (ctl.json)
			json_errors_begin();
		rc = dispatch(&ctl, argc, own);
		if (!has_own_status(ctl.verb))
			rc = json_errors_status(rc);
	}
	client_free(ctl.client);
	buf_done(&ctl.token);
	free(ctl.given);
	free(own);
	if (fflush(stdout) != 0 && rc == 0) {
		perror("clusterctl: writing the answer");
		rc = 1;
	}
	json_errors_end(rc);
	return rc;
}
