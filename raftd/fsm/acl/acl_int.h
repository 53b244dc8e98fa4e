/* What the files of access control share. */
#ifndef TV_RAFTD_FSM_ACL_ACL_INT_H
#define TV_RAFTD_FSM_ACL_ACL_INT_H

#include <sodium.h>

#include "common/base/uuid.h"
#include "raftd/fsm/acl/acl.h"

#define ACL_RESERVED UUID_RESERVED
#define ACL_MANAGEMENT_ID ACL_RESERVED "000000000001"
#define ACL_ANONYMOUS_ID ACL_RESERVED "000000000002"
#define ACL_ANONYMOUS_SECRET "anonymous"
#define ACL_HASH_BYTES 32

/* -- acl.c -- */
/* Does it?  If not, the entry, the read or the question has failed with TV_EDISABLED. */
bool acl_applies(struct apply *p, struct acl_state *out);
bool acl_reads(struct reading *r);
enum tv_err acl_prepares(struct prepare *p);
/* Overwrites what an entry has left in memory: it held secrets. */
void acl_forget(struct fsm *f);
/* The text of a time, from the arena. */
struct span acl_time(struct arena *a, int64_t ns);
/* A secret of 122 random bits, from the arena; SPAN_NONE: no memory. */
struct span acl_new_secret(struct arena *a);
/* The result is this record. */
void acl_answer(struct apply *p, const struct schema *s, const void *rec);
/* The entry has failed with a text that says this name in quotes, after `before`. */
void acl_fail_quoted(struct apply *p, const char *before, struct span name, const char *after);
/* Is it larger than that, packed?  For prepare: TV_EINVAL with a sentence that begins with `what`. */
enum tv_err acl_check_size(struct prepare *p, const char *what, const struct schema *s, const void *rec, size_t max);
/*
 * A list of a table's records: `each` writes the one that it is given to the answer, or false: that is left out.  one: empty
 * before each.
 */
typedef bool acl_each_fn(struct reading *r, struct span val, struct arena *one, const void *ctx);
void acl_list(struct reading *r, enum tbl table, acl_each_fn *each, const void *ctx);

/* The record that says so. */
void acl_store(struct fsm *f, const struct acl_state *st);

/* -- acl_parts.c: names, links and identities, which tokens and roles have alike -- */
/* What has a name and an id: policies and roles. */
struct acl_kind {
	enum tbl by_id, by_name;
	const char *title, *lower;	/* "Policy" "policy" */
	const struct schema *schema;
	enum fsm_tally tally;
	enum fsm_index index;
};
extern const struct acl_kind acl_policies, acl_roles, acl_methods;	/* methods: for their names alone */
/* Before the log: "Invalid Policy: no Name is set". */
enum tv_err acl_check_name(struct prepare *p, const struct acl_kind *kind, struct span name);
/* The id of the one of that name, "" if there is none. */
void acl_id_of(struct fsm *f, const struct acl_kind *kind, struct span name, char id[37]);
/* The name of the one of that id, copied to the arena; false: there is none. */
bool acl_name_of(struct fsm *f, const struct acl_kind *kind, struct span id, struct arena *a, struct span *name);
/* The record of the one that a read asks for by id or name, or none: as a list. */
bool acl_find(struct reading *r, const struct acl_kind *kind, const struct acl_read *q, struct span *val);
/* Before the log, of one that is set: an id of its own for a new one (*create), else the given one in lower case. */
enum tv_err acl_prepare_id(struct prepare *p, const struct acl_kind *kind, struct span *id, bool *create);
/* Before the log, of a deletion: its id in lower case; lookup: of what every datacenter writes for itself. */
enum tv_err acl_prepare_delete(struct prepare *p, const struct acl_kind *kind, struct acl_id *q);
enum tv_err acl_prepare_lookup(struct prepare *p, const struct acl_kind *kind, struct acl_id *q);
/*
 * In an entry that sets one: are name and id what they can be, is the one there that is to be changed (which is read to old),
 * and has no other one its name?  False: the entry has failed.
 */
bool acl_may_set(struct apply *p, const struct acl_kind *kind, bool create, struct span id, struct span name, void *old);
bool acl_record_find(struct fsm *f, const struct acl_kind *kind, struct span id, struct arena *a, void *rec);
/* before: the name that the one in whose place it is had; NULL: it is new. */
void acl_record_put(struct fsm *f, const struct acl_kind *kind, struct span id, struct span name, const struct span *before,
    const void *rec);
void acl_record_remove(struct fsm *f, const struct acl_kind *kind, struct span id, struct span name);
/* Before the log: how many links there are, and whether their ids can be ids. */
enum tv_err acl_check_links(struct prepare *p, const struct acl_kind *kind, const struct obj_list *links);
/* In an entry: names become ids, what is named twice stays once, and no names stay.  False: it has failed. */
bool acl_settle_links(struct apply *p, const struct acl_kind *kind, struct obj_list *links);
/* For an answer: each with its name; those of what is gone are left out. */
bool acl_show_links(struct fsm *f, const struct acl_kind *kind, struct arena *a, struct obj_list *links);
/* Before the log.  owner: "token" or "role"; local: of a local token. */
enum tv_err acl_check_identities(struct prepare *p, const char *owner, bool local, struct obj_list *services,
    struct obj_list *nodes);
/* The field Hash: of each text with its length.  out has to live as long as the record. */
void acl_hash_text(crypto_generichash_state *h, struct span text);
void acl_hash_links(crypto_generichash_state *h, const struct obj_list *links);
void acl_hash_identities(crypto_generichash_state *h, const struct obj_list *services, const struct obj_list *nodes);

/* -- acl_token.c -- */
bool acl_token_find(struct fsm *f, struct span accessor, struct arena *a, struct acl_token *out);
/* The one that has this secret; compared in constant time. */
bool acl_token_of_secret(struct fsm *f, const struct acl_state *st, struct span secret, struct arena *a, struct acl_token *out);
bool acl_expired(const struct acl_token *t, int64_t now);
/* A new one, or in the place of `old`, with hash and indexes, for which all was checked; and its answer, with names of links. */
void acl_token_put(struct apply *p, const struct acl_state *st, struct acl_token *t, const struct acl_token *old);
/* The same of a copy, whose hash is known. */
void acl_token_copy(struct apply *p, const struct acl_state *st, struct acl_token *t, const struct acl_token *old);
void acl_token_remove(struct fsm *f, const struct acl_state *st, const struct acl_token *t);
void acl_token_answer(struct apply *p, struct acl_token *t);
void acl_token_remove(struct fsm *f, const struct acl_state *st, const struct acl_token *t);
/* Neither id is an id or a secret of another token, and none is a reserved one, which no request may choose; else the entry has failed. */
bool acl_ids_are_free(struct apply *p, const struct acl_state *st, const struct acl_token *t);

/* -- acl_method.c, acl_binding.c -- */
#define ACL_REAP_TOKENS_MAX 1024	/* that one entry looks at and removes */
/* Has its auth method ended, while it is still there?  Then no secret stands for it any more. */
bool acl_token_ends(const struct acl_state *st, const struct acl_token *t);
/* Goes on removing tokens of methods that have ended: looks at so many of them. */
void acl_end_tokens(struct apply *p, uint32_t max);
bool acl_method_find(struct fsm *f, struct span name, struct arena *a, struct acl_method *out);
bool acl_binding_find(struct fsm *f, struct span id, struct arena *a, struct acl_binding *out);
void acl_binding_remove(struct fsm *f, const struct acl_binding *b);

/* -- acl_policy.c -- */
void acl_policy_put(struct apply *p, struct acl_policy *q, const struct acl_policy *old);
bool acl_policy_find(struct fsm *f, struct span id, struct arena *a, struct acl_policy *out);
void acl_policy_copy(struct apply *p, struct acl_policy *q, const struct acl_policy *old);
void acl_policy_remove(struct fsm *f, const struct acl_policy *q);

/* -- acl_role.c, the same -- */
bool acl_role_find(struct fsm *f, struct span id, struct arena *a, struct acl_role *out);
void acl_role_copy(struct apply *p, struct acl_role *q, const struct acl_role *old);
void acl_role_remove(struct fsm *f, const struct acl_role *q);

/* -- acl_premise.c: what a judgement of a write saw; the numbers are those of entries in the log -- */
enum premise_kind {		/* text: ... */
	PREMISE_NODE = 1,	/* the name of the node that this is the name of, as it is stored */
	PREMISE_NODE_ID,	/* of the node that has this id */
	PREMISE_NODE_WHOLE,	/* a hash of its record: it is the same */
	PREMISE_SERVICE,	/* the name of the service that has this id on the node */
	PREMISE_CHECK,		/* that of the service of the check that has this id on the node; "": it is the node's own */
	PREMISE_SPELLING,	/* the name of this service, as the first instance has it */
	PREMISE_SESSION,	/* the name of the node of the session that has this id, in lower case */
	PREMISE_QUERY,		/* the name of the prepared query that has this id, in lower case */
};
#define PREMISES_RECENT 8
struct premises {		/* those of one judgement, as they are found */
	struct buf *out;
	uint32_t n;
	size_t at;		/* of the list's head */
	struct premise recent[PREMISES_RECENT];	/* which are not written twice */
};
/*
 * Looks at the state, as a reader or the running transaction sees it.  node: of services and checks.  text: in the arena, "" where
 * there is nothing.  False: there is none, or the reading has failed (f->failed).
 */
bool premise_look(struct fsm *f, enum premise_kind kind, struct span node, struct span key, struct arena *a, struct span *text);
/* Texts must live until premises_end(). */
void premises_add(struct premises *list, enum premise_kind kind, struct span node, struct span key, bool there, struct span text);
void premises_end(struct premises *list);

/* -- acl_may.c, for acl_judge.c -- */
/* The sentence for a token that may not. */
const char *acl_denied_text(const struct op *op);

/* -- acl_repl.c -- */
#define ACL_REPL_CLOSED "-"		/* of acl_state.ReplToken */
/* The hash by which a token is known again, without a key: there is no way back from it to 122 random bits. */
void acl_hash_secret(struct span secret, uint8_t out[ACL_HASH_BYTES]);
/* Fails before the log with TV_ECONFLICT where another datacenter writes what is global. */
enum tv_err acl_check_primary(struct prepare *p);
/* The same in an entry. */
void acl_fail_primary(struct apply *p);

#endif
