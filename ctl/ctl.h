/*
 * What the commands of clusterctl share: the context, options, tables for people and JSON for programs.
 * Exit status: 0 done, 1 it did not work, 2 the call was wrong.
 */
#ifndef TV_CTL_H
#define TV_CTL_H

#include <stdio.h>

#include "ctl/client.h"

struct ctl {
	struct client *client;	/* made by ctl_client() on first use */
	const char *addr, *token;
	bool json;		/* --json */
	struct mono timeout;	/* --timeout: of the whole command; 0: each request has its own limit */
	const char *argv0;	/* how clusterctl was started: to find the daemons beside it */
};

struct command {
	const char *name;
	const char *args;	/* for the usage line */
	const char *help;	/* one line */
	int (*run)(struct ctl *ctl, int argc, char **argv);	/* argv[0] is the command's name */
};

struct client *ctl_client(struct ctl *ctl);
/* The whole program, without its exit: returns the exit status. */
int ctl_run(int argc, char **argv);
/* "usage: clusterctl NAME ..." to stderr, a line for each form; returns 2.  Help has options besides, to stdout. */
int ctl_usage(const struct command *cmd);
void ctl_help(const struct command *cmd);
/*
 * Hints (ctl/help.c), to stderr.  verb: word may be the verb of this command; else false after a sentence.  spelling:
 * the command line is Consul's for something here; option: this option is ("-http-addr=..."); both true
 * after a sentence.
 * is_theirs: is it such an option with one dash?
 */
bool ctl_knows_verb(const struct command *cmd, const char *word);
bool ctl_hint_spelling(int argc, char **argv);
bool ctl_hint_option(const char *arg);
bool ctl_is_theirs(const char *arg);
/* Is candidate like word, and more so than what gave *best (UINT_MAX at first)?  Then *best is its distance. */
bool ctl_nearer(const char *word, const char *candidate, unsigned *best);
const struct command *ctl_find(const char *name);

/*
 * Options of a command, taken out of argv ("--wan", "--dc NAME" or "--dc=NAME"); positional arguments stay.
 * Unknown options print a sentence and make it return -1; else the number of positional arguments, now in
 * argv[1..n].
 */
struct option_spec {
	const char *name;	/* without dashes */
	bool *flag;		/* either this */
	const char **value;	/* or this */
};
int ctl_options(const struct command *cmd, int argc, char **argv, const struct option_spec *specs, unsigned spec_count);

/*
 * Was an option given that only other verbs of the command know?  It must not be passed over: --dry-run of remove-peer
 * would remove.  Then prints a sentence and returns true.  Flags are false and values NULL before ctl_options().
 * known: the names that this verb knows, with a space between them.
 */
bool ctl_in_vain(const char *cmd, const char *verb, const struct option_spec *specs, unsigned spec_count,
    const char *known);

/*
 * Takes an option that may be repeated out of argv before ctl_options(): its values, at most max.  Returns their
 * count, or -1 after a sentence.
 */
int ctl_repeated(const struct command *cmd, int *argc, char **argv, const char *name, const char **values, int max);
/* A text argument: itself, "-" for standard input, or "@FILE".  Complains in the name of `what` and returns false. */
bool ctl_value(const char *what, const char *arg, struct buf *out);
/* Appends "?name=value" or "&name=value" to a path; value NULL: nothing, "": only the name. */
void ctl_param(struct buf *path, const char *name, const char *value);

/* A table with aligned columns, 16 at most.  cells: rows * columns texts; row 0 is the head. */
void out_table(const char *const *cells, unsigned rows, unsigned columns);
/* Indented JSON and a newline. */
void out_json(const json_t *value);
/* One JSON value in one line. */
void out_json_line(const json_t *value);
/* Bytes that others made up, as printable text: control characters escaped.  The caller frees it. */
char *out_safe(struct span bytes);
/* Text member of an object, or "". */
const char *json_text(const json_t *obj, const char *key);
/* Makes all texts and keys in it fit for a terminal: what is not printable becomes \xNN. */
void json_safe(json_t *value);
/* Prints text of others; of control characters only line feeds stay. */
void out_lines(FILE *to, struct span text);
/* PUTs; prints `ok` (unless NULL) when it worked, else complains.  Returns the exit status. */
int ctl_put(struct ctl *ctl, const char *what, const char *path, struct span body, long timeout_s, const char *ok);

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

int cmd_join(struct ctl *ctl, int argc, char **argv);
int cmd_leave(struct ctl *ctl, int argc, char **argv);
int cmd_force_leave(struct ctl *ctl, int argc, char **argv);
int cmd_members(struct ctl *ctl, int argc, char **argv);
int cmd_info(struct ctl *ctl, int argc, char **argv);
int cmd_rtt(struct ctl *ctl, int argc, char **argv);
int cmd_kv(struct ctl *ctl, int argc, char **argv);
int cmd_event(struct ctl *ctl, int argc, char **argv);
int cmd_monitor(struct ctl *ctl, int argc, char **argv);
int cmd_query(struct ctl *ctl, int argc, char **argv);
int cmd_catalog(struct ctl *ctl, int argc, char **argv);
int cmd_raft(struct ctl *ctl, int argc, char **argv);
int cmd_snapshot(struct ctl *ctl, int argc, char **argv);
int cmd_keyring(struct ctl *ctl, int argc, char **argv);
int cmd_reload(struct ctl *ctl, int argc, char **argv);
int cmd_keygen(struct ctl *ctl, int argc, char **argv);
int cmd_validate(struct ctl *ctl, int argc, char **argv);
int cmd_dev(struct ctl *ctl, int argc, char **argv);

/* Path of a daemon: beside clusterctl in the build tree (../NAME/NAME), in the same folder, or in sbindir. */
bool ctl_daemon_path(const struct ctl *ctl, const char *name, char *dst, size_t cap);

#endif
