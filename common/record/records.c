/* The schemas of records.h. */
#define RECORD_SCHEMAS
#include "common/record/records.h"

const struct schema empty_schema = { "empty", NULL, 0, sizeof(struct empty_rec) };
