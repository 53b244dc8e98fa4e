/*
 * Definitions in Consul's HCL as a tree of the reader that JSON and our own form have: what is said once is one thing,
 * blocks that are given again are a list.  Pure.
 */
#ifndef TV_RPCD_REGISTRY_DEF_HCL_H
#define TV_RPCD_REGISTRY_DEF_HCL_H

#include "common/conf/ucl.h"

/*
 * Nodes live in the arena, spans in it or in the text.  `check { } check { }` within a block becomes its `checks`.
 * TV_EFORMAT, TV_ELIMIT (a block of more than UCL_MEMBERS_MAX, or too deep), TV_ENOMEM: *err is filled in, and
 * *column, from 1, or 0 where there is none.
 */
enum tv_err def_hcl_parse(struct span text, struct arena *a, struct ucl_node **root, struct ucl_error *err,
    int *column);

#endif
