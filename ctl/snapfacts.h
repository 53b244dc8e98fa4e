/*
 * What a snapshot file holds, found out without a cluster: all checksums are compared, every record is walked over.
 */
#ifndef TV_CTL_SNAPFACTS_H
#define TV_CTL_SNAPFACTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SNAP_TABLES_MAX 16

struct snap_table {
	const char *name;		/* "KVS", "Nodes" ...; the last ones are what the state keeps for itself */
	uint64_t count, bytes;
};

struct snap_facts {
	json_t *meta;			/* meta.json; owned */
	uint64_t file_bytes, state_bytes, records;
	uint64_t index, term;		/* of state.bin itself: log index */
	struct snap_table tables[SNAP_TABLES_MAX];
	unsigned table_count;
	char meta_sum[65], state_sum[65];	/* SHA-256 */
};

/*
 * Reads the file from where it stands to its end.  False with a sentence in `why` for what is no whole snapshot of
 * ours.
 */
bool snap_facts_read(FILE *f, struct snap_facts *out, char *why, size_t cap);
void snap_facts_done(struct snap_facts *f);

#endif
