/*
 * Keys of the one btree: a table byte, then parts.  A part is either the rest of the key as it is, or escaped and
 * ended so that keys of several parts sort by their first part first: 00 becomes 00 ff, the end is 00 01.
 */
#ifndef TV_FSM_KEY_H
#define TV_FSM_KEY_H

#include <stdint.h>

#include "common/base/rd.h"

enum tbl {
	TBL_META = 'A',			/* "state" -> applied position, table indexes, tallies */
	TBL_CHECK = 'C',		/* node, check id -> check */
	TBL_LOCK_DELAY = 'D',		/* kv key -> until */
	TBL_LOCK_DELAY_TIME = 'E',	/* until, kv key -> nothing */
	TBL_COORDINATE = 'G',		/* node, segment -> node_coordinate */
	TBL_NODE_ID = 'I',		/* node id -> node name */
	TBL_KV = 'K',			/* key -> kv_entry */
	TBL_HOLD = 'L',			/* session, kv key -> nothing */
	TBL_AUTOPILOT = 'O',		/* nothing -> autopilot_config: one record (from meta version 3 on) */
	TBL_NODE = 'N',			/* node -> node */
	TBL_INSTANCE = 'P',		/* service name, node, service id -> nothing */
	TBL_SERVER = 'R',		/* server id -> index of its removal */
	TBL_SERVICE = 'S',		/* node, service id -> service */
	TBL_TOMBSTONE = 'T',		/* kv key -> index, time */
	TBL_TOMBSTONE_TIME = 'U',	/* time, kv key -> nothing */
	TBL_SERVICE_INDEX = 'V',	/* service name -> index, instances */
	TBL_STAGE = 'W',		/* a restore on its way (stage.c) */
	TBL_SESSION = 'X',		/* session id -> session */
	TBL_SESSION_NODE = 'Y',		/* node, session id -> nothing */
	TBL_SESSION_CHECK = 'Z',	/* node, check id, session id -> nothing */
};

#define TKEY_BYTES_MAX 8448		/* table byte, time, longest kv key, some room; three escaped names fit too */

struct tkey {
	uint32_t len;
	bool failed;			/* a part did not fit: the key names nothing */
	uint8_t b[TKEY_BYTES_MAX];
};

void tkey_begin(struct tkey *k, enum tbl table);
/* Bytes as they are; for the last part. */
void tkey_raw(struct tkey *k, struct span s);
void tkey_u64(struct tkey *k, uint64_t v);
/* An escaped part, letters lowered (ASCII): names are looked up without regard to case. */
void tkey_name(struct tkey *k, struct span s);
/* Takes an escaped part off the front of a stored key's bytes, into dst; false when malformed or too long. */
bool tkey_take_name(struct span *in, uint8_t *dst, size_t cap, struct span *out);
uint8_t ascii_lower(uint8_t c);
bool span_eq_nocase(struct span a, struct span b);

#endif
