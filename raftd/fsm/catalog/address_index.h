/*
 * Which record has an address: of many that have the same one, the first by its key.  Pure; in memory alone, bounded.
 */
#ifndef TV_RAFTD_FSM_CATALOG_ADDRESS_INDEX_H
#define TV_RAFTD_FSM_CATALOG_ADDRESS_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/rd.h"

#define ADDRESS_BYTES 16		/* IPv4 as v4-mapped */

struct address_index;

/* It takes so many bytes at most.  NULL: no memory. */
struct address_index *address_index_new(size_t bytes_max);
void address_index_free(struct address_index *x);
/*
 * What the record with this key is like now; NULL: it has no address, or is not there.  False: there is no memory, or no room
 * for it; the index is of no use then.
 */
bool address_index_set(struct address_index *x, struct span key, const uint8_t address[ADDRESS_BYTES], struct span name);
/* The first record that has the address, and its name: both are the index's, until it changes.  False: there is none. */
bool address_index_find(const struct address_index *x, const uint8_t address[ADDRESS_BYTES], struct span *key,
    struct span *name);
/* Records in it, and the bytes that they take. */
size_t address_index_count(const struct address_index *x);
size_t address_index_bytes(const struct address_index *x);

#endif
