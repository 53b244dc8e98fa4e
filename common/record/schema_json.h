/*
 * JSON into records, by the schema; on jansson.  Kept apart from schema.h so that the pure library
 * does not need jansson.
 */
#ifndef TV_COMMON_RECORD_SCHEMA_JSON_H
#define TV_COMMON_RECORD_SCHEMA_JSON_H

#include <jansson.h>

#include "common/record/schema.h"

/* Unknown fields are an error: json: unknown field "X". */
#define SJ_STRICT 1
/* Agent endpoints also accept snake_case of every field name. */
#define SJ_SNAKE 2
/* CreateIndex and ModifyIndex are taken too, in place of being ignored. */
#define SJ_INDEXES 4
/* As SJ_STRICT, but for those that say nothing: null, false, 0, "", [] and {}, which newer clients send. */
#define SJ_KNOWN 8

/*
 * Fills a zeroed struct.  Names match without regard to case; null leaves a field unset.  Everything is
 * copied into the arena.  On an error errbuf gets Go's text where the API shows it:
 *   json: unknown field "X" / time: invalid duration "xyz" / json: cannot unmarshal number into Go value of type string
 * With TV_OK it is empty, or names the first unknown field that says something and was passed over, by the same text.
 */
enum tv_err schema_from_json(const struct schema *s, json_t *obj, unsigned flags, struct arena *a, void *rec,
    char *errbuf, size_t cap);
/* First JSON value of a body (bytes after it are ignored).  Depth and size limited.  NULL with errbuf. */
json_t *json_first_value(struct span body, char *errbuf, size_t cap);

#endif
