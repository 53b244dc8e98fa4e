/*
 * What the commands of clusterctl share: the context, options, tables for people and JSON for programs.
 * Exit status: 0 done, 1 it did not work, 2 the call was wrong.
 */
#ifndef TV_CTL_CTL_H
#define TV_CTL_CTL_H

#include <stdio.h>

#include "ctl/client.h"

struct ctl;
struct resource;
typedef int ctl_verb(struct ctl *ctl);

enum {
	OPTION_PARAM = 1,	/* ctl_params() makes it a parameter of the question, by its own name */
	OPTION_NUMBER = 2,	/* its value is decimal */
	OPTION_ONE_OF = 4,	/* exactly one of those of the verb must be given */
	OPTION_NEEDED = 8,	/* must be given */
};

/*
 * "--stale", "--dc DC", "--level debug|info" (one of these values), "--node NODE..." (may be repeated); a form without
 * dashes explains an argument.
 */
struct option {
	const char *form, *help;
	unsigned flags;
};

#define CTL_WRONG_CALL (-1)	/* of a verb: its usage is shown, and the exit status is 2 */

/* One form of a command. */
struct verb {
	const char *words;	/* "raft list-peers"; a last word in brackets may be left out */
	const char *args;	/* "NAME [PAYLOAD|-|@FILE]", "ADDRESS..." */
	const char *help;	/* one line */
	ctl_verb *run;		/* returns the exit status or CTL_WRONG_CALL; NULL: the row heads those that begin so */
	const struct option *options;	/* ended by a form NULL; NULL: none */
};

/* ctl/verbs.c.  Rows of a command stand together; options of the same name in them all take a value, or none does. */
extern const struct verb ctl_verbs[];		/* ended by words NULL */
extern const struct option ctl_globals[];	/* of all commands; ended by a form NULL */
extern const struct resource *const ctl_resources[];	/* ctl/resource.h; ended by NULL */

/* A call. */
struct ctl {
	struct client *client;	/* made by ctl_client() on first use */
	struct endpoint_given at;	/* --addr, --ca-file and the like */
	char *token_arg;	/* --token: overwritten when it was taken */
	const char *token_file;	/* --token-file */
	struct buf token;	/* see ctl_token(); empty: none is shown */
	const char *token_from;	/* what gave it; NULL: nothing did yet */
	bool json;		/* --json */
	struct mono timeout;	/* --timeout: of the whole command; 0: each request has its own limit */
	const struct verb *verb;
	const struct resource *resource;	/* whose words the verb's begin with; NULL: none */
	int argc;		/* arguments, without the words of the verb and the options */
	char **argv;		/* ended by NULL */
	struct given {
		const struct option *option;
		const char *value;	/* "" for one that takes none */
	} *given;		/* in the order of the command line */
	unsigned given_count;
};

/* The memory that it is; NULL: exits 1 with a sentence. */
void *ctl_must(void *p);
struct client *ctl_client(struct ctl *ctl);
/* One more, for questions beside each other.  The caller client_free()s it. */
struct client *ctl_new_client(struct ctl *ctl);
/* Takes the token of --token or --token-file; 0, or the exit status after a complaint. */
int ctl_take_token(struct ctl *ctl);
/*
 * The secret that is shown: of these options, else of TRIUMVIR_TOKEN, CONSUL_HTTP_TOKEN_FILE or CONSUL_HTTP_TOKEN;
 * NULL: none.  Exits 1 with a sentence when one of these cannot be taken.
 */
const char *ctl_token(struct ctl *ctl);
/*
 * Reads a secret from a file that no other user may read, or from the first line of standard input ("-"); without the
 * space around it.  False after a complaint in the name of `what`.  out becomes secret.
 */
bool token_file_read(const char *what, const char *path, struct buf *out);
/* A new file for a secret, which only this user may read: its descriptor, or -1 after a complaint. */
int token_file_new(const char *what, const char *path);
/* Writes it there, in a line; false after a complaint.  SPAN_NONE: there is none, and no file either. */
bool token_file_end(const char *what, const char *path, int fd, struct span secret);
/* The whole program, without its exit: returns the exit status. */
int ctl_run(int argc, char **argv);
/* The value of an option of the verb, "" for one that takes none, NULL when it was not given; the last of several. */
const char *ctl_opt(const struct ctl *ctl, const char *name);
/* Appends those options that are parameters of the question to its path. */
void ctl_params(const struct ctl *ctl, struct buf *path);

/* Do the words of a verb begin with these?  "" is the beginning of all.  False for the row that ends the table. */
bool ctl_under(const struct verb *v, const char *words);
/* How many arguments at argv are the words of a verb; 0: not all of its words stand there. */
int ctl_begins(const char *words, char *const *argv);
/* The option of this name, which has no dashes and ends at '=', ' ' or its end; NULL: the list has none. */
const struct option *ctl_option_in(const struct option *list, const char *name);
/* The same out of all verbs of a command ("": of all commands). */
const struct option *ctl_option(const char *command, const char *name);

/* Prints "usage: clusterctl ..." to stderr, a line for each verb under these words; returns 2. */
int ctl_usage(const char *words);
/* Prints a line for each command. */
void ctl_overview(FILE *to);
/* Prints the page of the longest known beginning of these words, ended by NULL; false: not even the first is known. */
bool ctl_help(char *const *words);
/*
 * For etc/clusterctl.bash: prints what may follow these words, a line each; capitals name a kind of argument (NODE,
 * FILE).  words: ended by NULL; rearranged.
 */
void ctl_complete(char **words);
/* Ends a sentence on stderr about an unknown word: which of those that follow `words` in the table is like it. */
void ctl_hint_word(const char *words, const char *word);
/* Do the arguments spell in Consul's way what is spelt otherwise here, or missing?  True after a sentence to stderr. */
bool ctl_hint_spelling(char *const *argv);
/* The same for an option of Consul's ("-http-addr=..."), or one of the command with one dash. */
bool ctl_hint_option(const char *command, const char *arg);
/* Is candidate like word, and more so than what gave *best (UINT_MAX at first)?  Then *best is its distance. */
bool ctl_nearer(const char *word, const char *candidate, unsigned *best);

/* A text argument: itself, "-" for standard input, or "@FILE".  Complains and returns false. */
bool ctl_value(const struct ctl *ctl, const char *arg, struct buf *out);
/* The same of "FILE" or "-". */
bool ctl_file(const struct ctl *ctl, const char *name, struct buf *out);
/* Appends "?name=value" or "&name=value" to a path; value NULL: nothing, "": only the name. */
void ctl_param(struct buf *path, const char *name, const char *value);

/* A column of a table for people, as one of the macros makes it. */
struct column {
	const char *head;
	/* A text, a number, a truth value or a list of texts of the row; of "A.B" member B of its member A. */
	const char *key;
	const char *none;		/* shown in place of an empty text */
	const char *(*text)(json_t *row);	/* or else: a text that lives as long as the row, see row_keep() */
};
#define COL(key) COL_AS(key, key)
#define COL_AS(head, key) COL_OR(head, key, "")
#define COL_OR(head, key, none) { head, key, none, NULL }
#define COL_BY(head, text) { head, NULL, "", text }
#define COL_END { NULL, NULL, NULL, NULL }
#define COLUMNS(...) ((const struct column[]){ __VA_ARGS__, COL_END })

/* What it shows of a row; lives as long as that. */
const char *out_cell(json_t *row, const struct column *column);
/* Prints an array of objects as a table with aligned columns, 16 at most. */
void out_rows(json_t *rows, const struct column *columns);
/* Keeps a text in a row as "_NAME", for as long as that lives; the text, or "". */
const char *row_keep(json_t *row, const char *name, json_t *text);
/* Indented JSON and a newline. */
void out_json(const json_t *value);
/* The same of a value that is taken over; returns exit status 0. */
int out_json_new(json_t *value);
/* One JSON value in one line. */
void out_json_line(const json_t *value);
/* Bytes that others made up, as printable text: control characters escaped.  The caller frees it. */
char *out_safe(struct span bytes);
/* Text member of an object, or "". */
const char *json_text(const json_t *obj, const char *key);
/* The same with NULs in it; empty without one. */
struct span json_span(const json_t *obj, const char *key);
/* Of "A.B" member B of member A; NULL: none.  The same of a text ("" without one), a number (0) and a truth value. */
json_t *json_at(const json_t *obj, const char *path);
const char *json_text_at(const json_t *obj, const char *path);
long long json_int(const json_t *obj, const char *path);
bool json_flag(const json_t *obj, const char *path);
/* Makes all texts and keys in it fit for a terminal: what is not printable becomes \xNN. */
void json_safe(json_t *value);
/* Prints text of others; of control characters only line feeds stay. */
void out_lines(FILE *to, struct span text);

/* -- ctl/ask.c: questions, in the name of the verb, whose failures are told by these functions -- */

/* Prints "clusterctl: VERB: " and a sentence to stderr; returns exit status 1. */
int ctl_complain(const struct ctl *ctl, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same; returns false. */
bool ctl_false(const struct ctl *ctl, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends BEFORE[NAME]REST, where the name is encoded (NULL: none), with the parameters that the call gives. */
void ctl_path(const struct ctl *ctl, struct buf *path, const char *before, const char *name, const char *rest);
/* Asks for what has no answer but that it was done; returns the exit status. */
int ctl_send(struct ctl *ctl, const char *method, const char *path, struct span body, long timeout_s);
/* PUTs nothing; prints `ok` (unless NULL) when it worked.  Returns the exit status. */
int ctl_put(struct ctl *ctl, const char *path, long timeout_s, const char *ok);
/* The JSON of an answer as it came; NULL: it failed.  The caller json_decref()s it. */
json_t *ctl_answer(struct ctl *ctl, const char *method, const char *path, struct span body, long timeout_s);
/* The same of GET, fit for a terminal without --json; and of a list it is told when it is not all there is. */
json_t *ctl_get(struct ctl *ctl, const char *path);
/* GETs JSON without a word when it fails; NULL then. */
json_t *ctl_try(struct ctl *ctl, const char *path, long timeout_s);
/* Shows an answer, which is taken over: as it is with --json, else by print.  Returns the exit status: NULL is 1. */
int ctl_out(struct ctl *ctl, json_t *answer, void (*print)(json_t *answer));
/* GETs JSON from ctl_path(), and shows it by print, or as a table.  Return the exit status. */
int ctl_show(struct ctl *ctl, const char *before, const char *name, const char *rest, void (*print)(json_t *answer));
int ctl_show_rows(struct ctl *ctl, const char *before, const char *name, const struct column *columns);

/* A line that is rewritten in place on a terminal, or printed every few seconds elsewhere (stderr). */
struct progress {
	bool tty;
	int64_t last_ns;
	unsigned width;
};
void progress_init(struct progress *p);
void progress_show(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Would progress_show() show anything now?  For what is costly to find out. */
bool progress_due(const struct progress *p);
void progress_end(struct progress *p);
/* Ends it without a trace. */
void progress_wipe(struct progress *p);

/* What the rows run, in the order of the table. */
ctl_verb cmd_members, cmd_status, cmd_info, cmd_join, cmd_leave, cmd_force_leave, cmd_rtt, cmd_top;
ctl_verb kv_get, kv_put, kv_delete, kv_list, kv_export, kv_import, cmd_txn;
ctl_verb event_fire, event_list, event_watch, cmd_watch, cmd_lock, cmd_monitor, query_ask, query_answer;
ctl_verb prepared_create, prepared_update, prepared_execute, prepared_explain, catalog_nodes, catalog_names;
ctl_verb catalog_service, cmd_dns, services_list, services_register, services_deregister, maint_status;
ctl_verb maint_enable, maint_disable, raft_list_peers, raft_remove_peer, cmd_health, raft_transfer_leader;
ctl_verb autopilot_get, autopilot_set, autopilot_health, raft_recover, snapshot_save, snapshot_restore;
ctl_verb snapshot_inspect, snapshot_status, keyring_show, keyring_install, keyring_use, keyring_remove;
ctl_verb keyring_export, keyring_rotate, keyring_encrypt, tls_ca_create, tls_cert_create, cmd_reload, cmd_keygen;
ctl_verb acl_bootstrap, acl_set_agent_token, acl_token_self, acl_token_create, acl_token_clone;
ctl_verb acl_policy_read, acl_login, acl_logout, acl_explain, acl_translate, acl_replication;
/* ctl/resource.h: each of several rows. */
ctl_verb resource_list, resource_read, resource_create, resource_update, resource_delete;
ctl_verb cmd_debug, cmd_validate, cmd_dev, cmd_help, cmd_version;

/* Path of a daemon: beside clusterctl in the build tree (../NAME/NAME), in the same folder, or in sbindir. */
bool ctl_daemon_path(const char *name, char *dst, size_t cap);
/*
 * Runs DAEMON -n -c DIR: the daemon's own code does the checking, and says what is wrong.  print: all values, too.
 * files: those of TLS that are named as well.  Its exit status, or 1.
 */
int ctl_check_conf(const char *name, const char *dir, bool print, bool files);

#endif
