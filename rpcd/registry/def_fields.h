/*
 * Blocks of a file of services.d into records, by their schema.  What schema_from_json() is for bodies of requests;
 * here every error has a line, and says what to write instead.  Pure.
 */
#ifndef TV_RPCD_REGISTRY_DEF_FIELDS_H
#define TV_RPCD_REGISTRY_DEF_FIELDS_H

#include "common/conf/ucl.h"
#include "common/record/schema.h"

struct def_source {
	bool json;			/* strict: texts are quoted, lists are lists; else as cluster.conf(5) has it */
	bool hcl;			/* and a list of one block may be that block */
	struct arena *arena;
	struct ucl_error *error;	/* line and sentence, on an error */
};

/*
 * Fills a zeroed struct from a block.  Names match without regard to case and underscores: Consul's two spellings.
 * In our own form a list of records may be a block of named ones; the name becomes their field Name, if that is not
 * given.  Spans borrow from the tree, or live in the arena.  TV_EFORMAT: *error says where and what; TV_ENOMEM (also
 * said).
 */
enum tv_err def_fields(const struct def_source *from, const struct schema *s, const struct ucl_node *block, void *rec);
/* Is this a block of blocks only: { NAME { ... } NAME { ... } }?  Not of JSON, where a list is a list. */
bool def_is_named(const struct def_source *from, const struct ucl_node *n);
/* n, or in HCL the list of the one block that n is, which is copied to list[0] and list[1]. */
const struct ucl_node *def_as_list(const struct def_source *from, const struct ucl_node *n, struct ucl_node list[2]);
/* TV_EFORMAT with this sentence, which has no period. */
enum tv_err def_fail(const struct def_source *from, const struct ucl_node *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
