/* A state machine in a directory of its own, and short ways to apply and read. */
#ifndef TV_TESTS_UNIT_FSM_KIT_H
#define TV_TESTS_UNIT_FSM_KIT_H

#include <check.h>

#include "raftd/fsm/fsm.h"

#define KIT_NODE "n1"
#define KIT_SECOND 1000000000ll

struct kit {
	char dir[64];			/* made by kit_open() */
	struct fsm *f;
	struct arena a;			/* results and answers */
	struct buf out;
	struct fsm_answer ans;
	int64_t now;			/* wall clock of the next entry; of reads that of the kit opened last */
	unsigned uuids;			/* handed out */
	const char *primary;		/* the datacenter that has policies, roles and global tokens, for kit_reopen(); NULL: this one */
	uint8_t version;		/* of the state machine, for kit_reopen(); 0: the present one */
	bool default_allow, key_list;	/* of access control, for kit_reopen() */
};

void kit_open(struct kit *k);
void kit_reopen(struct kit *k);
void kit_close(struct kit *k);		/* removes the directory too */
void kit_remove_dir(const char *dir);

/* Prepares and applies one operation at the next index.  The error text is compared by kit_refused(). */
struct fsm_result kit_apply(struct kit *k, uint16_t op, const void *rec);
/* Asserts that it is applied, and returns the bool of the answer. */
bool kit_bool(struct kit *k, uint16_t op, const void *rec);
/* Asserts that it is refused with this text (by prepare or by apply). */
void kit_refused(struct kit *k, uint16_t op, const void *rec, const char *text);

/* Runs a read; the number of records for lists, 1 for records.  JSON text of the answer in *json when not NULL. */
unsigned kit_read(struct kit *k, uint16_t op, const void *rec, const char **json);
uint64_t kit_index(struct kit *k, uint16_t op, const void *rec);

/* -- key/value -- */
bool kit_put(struct kit *k, const char *key, const char *value);
bool kit_verb(struct kit *k, enum kv_verb verb, const char *key, const char *value, const char *session, uint64_t cas);
/* The entry, asserted to be there; spans live until the next read. */
struct kv_entry kit_get(struct kit *k, const char *key);
bool kit_has(struct kit *k, const char *key);
uint64_t kit_key_index(struct kit *k, const char *key);
uint64_t kit_prefix_index(struct kit *k, const char *prefix);

/* -- catalog and sessions -- */
void kit_node(struct kit *k, const char *name, const char *address);
/* status NULL: no check.  service NULL: a node check. */
void kit_check(struct kit *k, const char *node, const char *id, const char *service, const char *status);
void kit_service(struct kit *k, const char *node, const char *id, const char *name, const char *tag);
/* A session without checks; the id lives in the arena. */
const char *kit_session(struct kit *k, const char *node, const char *behavior, int64_t lock_delay_ns);
bool kit_session_lives(struct kit *k, const char *id);

/* -- snapshot files -- */
/*
 * The n bytes of one as a later version would write them, sound in all else: the file's form is that version's, or only
 * that of its first record (the position).
 */
void kit_snapshot_newer(uint8_t *all, size_t n, bool form);

/* -- watches: counts how often it fired -- */
void kit_fired(void *ctx);

#endif
