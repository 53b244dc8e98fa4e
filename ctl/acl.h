/*
 * What the files of `clusterctl acl` share: questions to /v1/acl/, and how tokens, links and rules are shown.
 * JSON is as it came: made fit for a terminal only when it is shown.
 */
#ifndef TV_CTL_ACL_H
#define TV_CTL_ACL_H

#include "ctl/ctl.h"

#define ACL_ANONYMOUS_ACCESSOR "00000000-0000-0000-0000-000000000002"
#define ACL_NEVER "0001-01-01T00:00:00Z"	/* a time that has not been, as Consul writes it */
#define ACL_PATH_MAX (1u << 20)

/* Things that have an ID, and some a name, in the words of the API's paths: "policy", "policies". */
struct acl_kind {
	const char *one, *all;
};
extern const struct acl_kind acl_policies, acl_roles, acl_tokens, acl_methods, acl_bindings;

/*
 * Asks for a path.  body: NULL for none; an answer that is no JSON, such as none at all, is null.  NULL after a
 * complaint.  From the first question on, memory of JSON is wiped when it is freed.
 */
json_t *acl_ask_path(struct ctl *ctl, const char *method, const char *path, const json_t *body);
/* The same for /v1/acl/WHAT[/ID], with the parameters that the call gives. */
json_t *acl_ask(struct ctl *ctl, const char *method, const char *what, const char *id, const json_t *body);
/* Appends that path. */
void acl_path(const struct ctl *ctl, struct buf *path, const char *what, const char *id);
/* GETs one of a kind by its ID or, where the kind has them, its name; NULL after a complaint. */
json_t *acl_get(struct ctl *ctl, const struct acl_kind *kind, const char *id_or_name);
/* Its ID likewise, in id[]; an ID is taken as it is, without a question. */
bool acl_id(struct ctl *ctl, const struct acl_kind *kind, const char *id_or_name, char *id, size_t cap);
/* DELETEs one; prints that it did.  Returns the exit status. */
int acl_delete(struct ctl *ctl, const struct acl_kind *kind);
/* Lists all of a kind, path NULL: with the parameters of the call.  Returns the exit status. */
int acl_list(struct ctl *ctl, const struct acl_kind *kind, const char *path, const struct column *columns);
/* Shows a thing, which is taken over; NULL, and the exit status is 1. */
int acl_show(struct ctl *ctl, json_t *thing, void (*print)(json_t *thing));

/* Without what an update must not bring: hashes, times and indexes. */
void acl_strip(json_t *thing);
/* Puts the value of an option into a thing, when it was given. */
void acl_set_text(const struct ctl *ctl, json_t *thing, const char *option, const char *key);
/* The same for a text that may be in a file, see ctl_value(); false after a complaint. */
bool acl_set_value(const struct ctl *ctl, json_t *thing, const char *option, const char *key, bool is_json);
/*
 * Policies, roles and identities of the call into a token or a role: a list of which something is given is replaced,
 * or added to with --merge; --clear empties one before.  False after a complaint.
 */
bool acl_set_links(const struct ctl *ctl, json_t *thing);

/* "Name:            value", of what may be empty. */
void acl_field(const char *name, const char *value);
/* Links of a token or a role, one a line, and its identities. */
void acl_print_links(json_t *thing);
/* Columns: names of what a token or role has, with commas between. */
const char *acl_policies_text(json_t *row);
const char *acl_roles_text(json_t *row);
const char *acl_identities_text(json_t *row);
/*
 * Shows a new token, whose secret goes into a file, which token_file_new() made (out_fd), or is shown (-1).  The token
 * is taken over; NULL: there is none, the file goes, and the exit status is 1.
 */
int acl_show_new(struct ctl *ctl, json_t *token, int out_fd);
/* The file of --out, see above: *out_fd is -1 without it; false after a complaint. */
bool acl_out_file(const struct ctl *ctl, int *out_fd);
/* Prints rules as a table; what cannot be read as it is, with a sentence. */
void acl_print_rules(const char *text);

#endif
