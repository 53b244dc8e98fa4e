/*
 * Keys of the one btree: a table byte, then parts.  A part is either the rest of the key as it is, or escaped and
 * ended so that keys of several parts sort by their first part first: 00 becomes 00 ff, the end is 00 01.
 */
#ifndef TV_RAFTD_FSM_TABLE_KEY_H
#define TV_RAFTD_FSM_TABLE_KEY_H

#include <stdint.h>

#include "common/base/rd.h"
#include "raftd/fsm/table/tables.h"

#define TKEY_BYTES_MAX 8448		/* table byte, time, longest kv key, some room; three escaped names fit too */

struct tkey {
	uint32_t len;
	bool failed;			/* a part did not fit: the key names nothing */
	uint8_t b[TKEY_BYTES_MAX];
};

/* Of no part: of the whole table, or of parts that are added. */
void tkey_begin(struct tkey *k, enum tbl table);
/* TKEY(&k, TBL_CHECK, node, id): the key of these parts, spans; fewer than the table's keys have make a prefix. */
#define TKEY(k, table, ...) tkey_of(k, table, (const struct span[]){ __VA_ARGS__ }, \
	sizeof((const struct span[]){ __VA_ARGS__ }) / sizeof(struct span))
/* As many parts as the table's row in tables.h says are escaped, the next one goes in as it is. */
void tkey_of(struct tkey *k, enum tbl table, const struct span *parts, unsigned count);
/* Bytes as they are; for the last part. */
void tkey_raw(struct tkey *k, struct span s);
void tkey_u64(struct tkey *k, uint64_t v);
/* An escaped part, letters lowered (ASCII): names are looked up without regard to case. */
void tkey_name(struct tkey *k, struct span s);
/* Takes an escaped part off the front of a stored key's bytes, into dst; false when malformed or too long. */
bool tkey_take_name(struct span *in, uint8_t *dst, size_t cap, struct span *out);

#endif
