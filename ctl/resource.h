/*
 * Things that the API lists, shows, makes, changes and deletes: a row each, and the verbs that work by these rows.
 * JSON is as it came: made fit for a terminal only when it is shown.
 */
#ifndef TV_CTL_RESOURCE_H
#define TV_CTL_RESOURCE_H

#include "ctl/ctl.h"

#define RESOURCE_PATH_MAX (1u << 20)
#define RESOURCE_BODY_MAX (1u << 20)
#define RESOURCE_TIMEOUT_S 60
#define RESOURCE_TITLE_WIDTH 20

/* What an option of create and update puts into a thing. */
struct resource_field {
	const char *option;	/* passed over where the verb has none of this name, or it is not given; NULL: never */
	const char *key;
	/* Puts it there; 0, or the exit status after a complaint. */
	int (*set)(const struct ctl *ctl, const struct resource_field *f, json_t *thing);
};

/* An option of list that is a parameter of the question by another name. */
struct resource_filter {
	const char *option, *param;
	const struct resource *of;	/* the value names one of these, the parameter is its ID; NULL: as given */
};

struct resource {
	const char *words;		/* of its verbs: "acl policy" */
	const char *noun;		/* of messages */
	const char *one, *all;		/* paths behind /v1/: of one with its ID behind it, and of all */
	enum resource_names {
		RESOURCE_BY_ID,		/* the API finds one by what a call names */
		RESOURCE_BY_NAME,	/* or, what is no UUID, by ONE/name/NAME */
		RESOURCE_IN_LIST,	/* what is no UUID is searched in the list */
	} names;
	const char *key;		/* member that an update has in its path; NULL: what the call names */
	const struct column *columns;	/* of its list */
	const struct column *lines;	/* of one, for people: those with a value */
	/* Prints what comes behind them; safe: the thing, fit for a terminal.  NULL: nothing does. */
	void (*print_rest)(json_t *safe, const json_t *thing);
	int (*show)(struct ctl *ctl, json_t *thing);	/* in place of both, see resource_show() */
	const struct resource_field *fields;		/* ended by a key NULL */
	const struct resource_filter *filters;		/* ended by an option NULL; NULL: none */
};

/* Each with its commands, in ctl/cmd/cmd_acl_*.c and cmd_prepared.c. */
extern const struct resource resource_policies, resource_roles, resource_tokens, resource_methods, resource_bindings,
    resource_queries;

/*
 * Asks for a path.  body: SPAN_NONE for none; an answer that is no JSON, such as none at all, is null.  NULL after a
 * complaint.  From the first question on, memory of JSON is wiped when it is freed.
 */
json_t *resource_ask_bytes(struct ctl *ctl, const char *method, const char *path, struct span body);
/* The same with JSON, NULL for none. */
json_t *resource_ask(struct ctl *ctl, const char *method, const char *path, const json_t *body);
/* Appends /v1/WHAT[/ID[REST]] with the parameters that the call gives. */
void resource_path(const struct ctl *ctl, struct buf *path, const char *what, const char *id, const char *rest);
/* GETs one by what a call names; NULL after a complaint. */
json_t *resource_get(struct ctl *ctl, const struct resource *r, const char *wanted);
/* Its ID likewise, in id[]; an ID is taken as it is, without a question.  False after a complaint. */
bool resource_id(struct ctl *ctl, const struct resource *r, const char *wanted, char *id, size_t cap);
/* Puts what the options of the call say into a thing; 0, or the exit status after a complaint. */
int resource_set(const struct ctl *ctl, const struct resource *r, json_t *thing);
/* Shows a thing, which is taken over; NULL, and the exit status is 1. */
int resource_show(struct ctl *ctl, const struct resource *r, json_t *thing);
/* Prints lines of a thing that is fit for a terminal, "Name:            value": those with a value. */
void resource_print(json_t *thing, const struct column *lines);

/* For the rows: the option's text; true; its text, which may be in a file, see ctl_value(); JSON likewise. */
int resource_set_text(const struct ctl *ctl, const struct resource_field *f, json_t *thing);
int resource_set_true(const struct ctl *ctl, const struct resource_field *f, json_t *thing);
int resource_set_value(const struct ctl *ctl, const struct resource_field *f, json_t *thing);
int resource_set_json(const struct ctl *ctl, const struct resource_field *f, json_t *thing);

#endif
