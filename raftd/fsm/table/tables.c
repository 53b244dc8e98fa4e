/* The list of tables, as data. */
#include <string.h>

#include "common/record/records.h"
#include "raftd/fsm/table/tables.h"

#define STORED(record) .schema = &record##_schema, .value = #record
#define RAW(bytes_, words) .bytes = (bytes_), .value = (words)
#define OPAQUE(words) .opaque = true, .value = (words)
#define INDEX(name) .indexed = true, .index = FX_##name,
#define TALLY(name) .counted = true, .tally = FT_##name,
#define OWN() .own = true,
#define ROW(name_, letter_, title_, shown_, names_, rest_, key_, value_, ...) \
	{ .letter = (letter_), .name = #name_, .title = (title_), .shown = (shown_), .names = (names_), .rest = REST_##rest_, .key = (key_), \
	    value_, __VA_ARGS__ },

const struct fsm_table fsm_tables[] = { FSM_TABLES(ROW) };
const unsigned fsm_table_count = sizeof(fsm_tables) / sizeof(fsm_tables[0]);

const struct fsm_table *
fsm_table_find(uint8_t letter)
{
	for (unsigned i = 0; i < fsm_table_count; i++)
		if (fsm_tables[i].letter == (enum tbl)letter)
			return &fsm_tables[i];
	return NULL;
}

bool
fsm_table_is_acl(const struct fsm_table *t)
{
	return strncmp(t->name, "ACL", 3) == 0;
}
