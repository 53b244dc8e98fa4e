/*
 * What clusterctl says about itself, all of it out of the table: forms and options, for `--help` and after a wrong call
 * alike, what the completion offers, and hints for what was meant.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"

#define NEAR_MAX 2			/* wrong letters in a word that is still recognised */
#define WORD_MAX 32
#define WORDS_MAX 128			/* bytes of the longest words of a verb */
#define FORM_MAX 58			/* columns of a form in the list of commands */

static bool
is_option(const struct option *o)
{
	return strncmp(o->form, "--", 2) == 0;
}

/* " [--stale] [--node NODE]... KEY" */
static void
put_form(const struct verb *v, struct buf *out)
{
	const char *before = " ";

	for (const struct option *o = v->options; o != NULL && o->form != NULL; o++) {
		size_t n = strlen(o->form);
		bool many = n > 3 && strcmp(o->form + n - 3, "...") == 0;

		if (!is_option(o))
			continue;
		if (o->flags & OPTION_ONE_OF) {
			buf_printf(out, "%s%s", before, o->form);
			before = "|";
		} else if (o->flags & OPTION_NEEDED) {
			buf_printf(out, " %s", o->form);
		} else {
			buf_printf(out, " [%.*s]%s", (int)(many ? n - 3 : n), o->form, many ? "..." : "");
		}
	}
	buf_printf(out, "%s%s", v->args[0] != '\0' ? " " : "", v->args);
}

/* The next word of a verb behind these, in its own memory; NULL: there is none. */
static const char *
word_behind(const struct verb *v, const char *words)
{
	static char word[WORD_MAX];
	const char *at = v->words + strlen(words);

	at += strspn(at, " [");
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(at, " ]"), at);
	return word[0] != '\0' ? word : NULL;
}

/* In the list of commands: what it takes, and the verbs that it has. */
static void
put_summary(const struct verb *v, struct buf *out)
{
	char last[WORD_MAX] = "";

	if (v->run != NULL)
		put_form(v, out);
	if (out->len > FORM_MAX) {
		buf_reset(out);
		buf_printf(out, " [OPTION]...%s%s", v->args[0] != '\0' ? " " : "", v->args);
	}
	for (const struct verb *s = v + 1; ctl_under(s, v->words); s++) {
		const char *word = word_behind(s, v->words);

		if (strcmp(word, last) != 0)
			buf_printf(out, "%s%s", last[0] != '\0' ? "|" : v->run != NULL ? " | " : " ", word);
		snprintf(last, sizeof(last), "%s", word);
	}
	buf_puts(out, last[0] != '\0' ? " ..." : "");
}

void
ctl_overview(FILE *to)
{
	fprintf(to, "usage: clusterctl");
	for (const struct option *o = ctl_globals; o->form != NULL; o++)
		fprintf(to, " [%s]", o->form);
	fprintf(to, "\n                  COMMAND ...\n\n");
	for (const struct verb *v = ctl_verbs; v->words != NULL; v++) {
		struct buf b = BUF_INIT(4096);

		if (strchr(v->words, ' ') == NULL) {
			put_summary(v, &b);
			fprintf(to, "  %-12s%-59s %s\n", v->words, buf_cstr(&b), v->help);
		}
		buf_done(&b);
	}
	fprintf(to, "\n`clusterctl help COMMAND` shows its options.\nWithout --addr: TRIUMVIR_ADDR, "
	    "CONSUL_HTTP_ADDR, else " ENDPOINT_SOCKET ".\n"
	    "CONSUL_HTTP_SSL, CONSUL_CACERT, CONSUL_CLIENT_CERT and the like count, too.\n"
	    "Without --token-file: TRIUMVIR_TOKEN, CONSUL_HTTP_TOKEN_FILE, CONSUL_HTTP_TOKEN.\n"
	    "Manual page: clusterctl(8).\n");
}

static void
put_usage(FILE *to, const char *words)
{
	const char *before = "usage:";

	for (const struct verb *v = ctl_verbs; v->words != NULL; v++) {
		struct buf b = BUF_INIT(4096);

		if (ctl_under(v, words) && v->run != NULL) {
			put_form(v, &b);
			fprintf(to, "%s clusterctl %s%s\n", before, v->words, buf_cstr(&b));
			before = "      ";
		}
		buf_done(&b);
	}
}

int
ctl_usage(const char *words)
{
	put_usage(stderr, words);
	return 2;
}

/* Does a verb before this one, under the same words, say the same? */
static bool
said_before(const struct verb *v, const struct option *o, const char *words)
{
	for (const struct verb *b = ctl_verbs; b < v; b++)
		for (const struct option *p = b->options; ctl_under(b, words) && p != NULL && p->form != NULL; p++)
			if (strcmp(p->form, o->form) == 0 && strcmp(p->help, o->help) == 0)
				return true;
	return false;
}

/* A line for each verb under these words but the first, or for each option of them. */
static void
put_lines(const char *words, bool options)
{
	const struct verb *first = NULL;
	const char *before = "\n";

	for (const struct verb *v = ctl_verbs; v->words != NULL; v++) {
		if (!ctl_under(v, words))
			continue;
		if (!options && first != NULL) {
			printf("%s  %-16s %s\n", before, v->words + strlen(words) + 1, v->help);
			before = "";
		}
		first = first != NULL ? first : v;
		for (const struct option *o = v->options; options && o != NULL && o->form != NULL; o++) {
			if (said_before(v, o, words))
				continue;
			printf("%s  %-16s %s\n", before, o->form, o->help);
			before = "";
		}
	}
}

/* The longest beginning of these words that is known, in the table's spelling; how many they are. */
static int
known_words(char *const *argv, char words[WORDS_MAX])
{
	char longer[WORDS_MAX];
	int n = 0;

	words[0] = '\0';
	for (; argv[n] != NULL && argv[n][0] != '\0'; n++) {
		const struct verb *v = ctl_verbs;

		snprintf(longer, sizeof(longer), "%s%s%s", words, n > 0 ? " " : "", argv[n]);
		while (v->words != NULL && !ctl_under(v, longer))
			v++;
		if (v->words == NULL)
			break;
		memcpy(words, longer, sizeof(longer));
	}
	return n;
}

bool
ctl_help(char *const *argv)
{
	char words[WORDS_MAX];
	const struct verb *v = ctl_verbs;

	if (known_words(argv, words) == 0)
		return false;
	while (!ctl_under(v, words))
		v++;
	put_usage(stdout, words);
	printf("\n%c%s.\n", v->help[0] - 'a' + 'A', v->help + 1);
	put_lines(words, false);
	put_lines(words, true);
	printf("\nAll commands take --addr, --ca-file and more for TLS, --token-file, --token, --timeout and --json.\n"
	    "Manual page: clusterctl(8).\n");
	return true;
}

/* -- completion -- */

/* "NAME [PAYLOAD|-|@FILE]": each alternative in a line of its own. */
static void
put_words(const char *text)
{
	for (; *text != '\0'; text += strspn(text, " |[].")) {
		int n = (int)strcspn(text, " |[].");

		if (n > 0)
			printf("%.*s\n", n, text);
		text += n;
	}
}

static void
put_names(const struct option *list)
{
	for (const struct option *o = list; o != NULL && o->form != NULL; o++)
		if (is_option(o))
			printf("%.*s\n", (int)strcspn(o->form, " "), o->form);
}

void
ctl_complete(char **argv)
{
	const struct option *o = NULL;
	char words[WORDS_MAX], last[WORD_MAX] = "", **to = argv;
	const char *word;

	if (argv[0] != NULL && strcmp(argv[0], "help") == 0)
		to = ++argv;
	/* What remains are words and arguments; o is the option whose value comes next. */
	for (char **from = argv; *from != NULL; from++) {
		if (o != NULL) {
			o = NULL;
		} else if (strncmp(*from, "--", 2) != 0) {
			*to++ = *from;
		} else if (strchr(*from, '=') == NULL) {
			o = to > argv ? ctl_option(argv[0], *from + 2) : NULL;
			o = o != NULL ? o : ctl_option_in(ctl_globals, *from + 2);
			o = o != NULL && strchr(o->form, ' ') != NULL ? o : NULL;
		}
	}
	*to = NULL;
	if (o != NULL) {
		put_words(strchr(o->form, ' ') + 1);
		return;
	}
	known_words(argv, words);
	if (words[0] == '\0')
		put_names(ctl_globals);
	for (const struct verb *v = ctl_verbs; v->words != NULL; v++) {
		if (!ctl_under(v, words) || (words[0] == '\0' && strchr(v->words, ' ') != NULL))
			continue;
		if ((word = word_behind(v, words)) != NULL && strcmp(word, last) != 0)
			printf("%s\n", word);
		snprintf(last, sizeof(last), "%s", word != NULL ? word : "");
		if (words[0] == '\0')
			continue;
		put_names(v->options);
		if (word == NULL)
			put_words(v->args);
	}
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

void
ctl_hint_word(const char *words, const char *word)
{
	char near[WORD_MAX] = "";
	unsigned best = UINT_MAX;

	for (const struct verb *v = ctl_verbs; v->words != NULL; v++) {
		const char *other = ctl_under(v, words) ? word_behind(v, words) : NULL;

		if (other != NULL && ctl_nearer(word, other, &best))
			snprintf(near, sizeof(near), "%s", other);
	}
	if (near[0] != '\0')
		fprintf(stderr, "; did you mean \"%s\"?\n", near);
	else
		fprintf(stderr, "; `clusterctl help%s%s` lists them\n", words[0] != '\0' ? " " : "", words);
}

/* -- for users of Consul or Serf -- */

/* Their options that are not called so here; NULL: there is none. */
static const struct { const char *theirs, *ours; } options[] = {
	{ "http-addr", "--addr" }, { "rpc-addr", "--addr" }, { "datacenter", "--dc" }, { "format", "--json" },
	{ "log-level", "--level" }, { "modify-index", "--cas INDEX" }, { "keys", "kv keys" },
	{ "id", "the server itself" }, { "address", "the server itself" }, { "relay-factor", "--relay" },
	{ "token-sink-file", "--out FILE" }, { "namespace", NULL }, { "partition", NULL },
};

bool
ctl_hint_option(const char *command, const char *arg)
{
	size_t dashes = strspn(arg, "-"), n = strcspn(arg + dashes, "=");
	const struct option *o = dashes == 1 ? ctl_option(command, arg + 1) : NULL;

	if (o == NULL && dashes == 1)
		o = ctl_option_in(ctl_globals, arg + 1);
	if (o != NULL)
		fprintf(stderr, "clusterctl: \"%.*s\" is written %s here\n", (int)(1 + n), arg, o->form);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]) && o == NULL && (dashes == 1 || dashes == 2); i++) {
		if (strlen(options[i].theirs) != n || strncmp(arg + dashes, options[i].theirs, n) != 0)
			continue;
		if (options[i].ours == NULL)
			fprintf(stderr, "clusterctl: \"-%s\" has no equivalent here\n", options[i].theirs);
		else
			fprintf(stderr, "clusterctl: \"%.*s\" is written %s here\n",
			    (int)(dashes + n), arg, options[i].ours);
		return true;
	}
	return o != NULL;
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
	{ "watch -type", "watch --type TYPE" }, { "maint -enable", "maint enable" },
	{ "maint -disable", "maint disable" },
	{ "config", NULL }, { "connect", NULL }, { "exec", NULL }, { "intention",
	NULL },
	{ "login", "acl login" }, { "logout", "acl logout" }, { "peering", NULL },
};

bool
ctl_hint_spelling(char *const *argv)
{
	for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
		if (ctl_begins(spellings[i].theirs, argv) == 0)
			continue;
		if (spellings[i].ours == NULL)
			fprintf(stderr, "clusterctl: \"%s\" of Consul has no equivalent in this version\n",
			    spellings[i].theirs);
		else
			fprintf(stderr, "clusterctl: \"%s\" is here: clusterctl %s\n",
			    spellings[i].theirs, spellings[i].ours);
		return true;
	}
	return false;
}
