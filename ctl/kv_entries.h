/*
 * Keys with their values as `kv export` writes and `kv import` reads them, Consul's form: a list of objects with
 * "key", "flags" and "value", in base64.  So are the names of the fields in answers of /v1/kv, but for their case.
 */
#ifndef TV_CTL_KV_ENTRIES_H
#define TV_CTL_KV_ENTRIES_H

#include <stdio.h>

#include "common/base/arena.h"
#include "common/base/buf.h"

#define KV_ENTRY_BYTES_MAX (24u << 20)	/* of one as JSON: more than the largest value that a server may take */
#define KV_ENTRIES_WHY_BYTES 512

struct kv_exported {
	struct span key, value;		/* a loan */
	uint64_t flags;
};

/* False: no more are wanted, and the reader ends.  number: from 1. */
typedef bool kv_entry_fn(void *ctx, uint64_t number, const struct kv_exported *e);

/* A list as it comes, in pieces of any size; it takes as much memory as its longest entry. */
struct kv_entries {
	kv_entry_fn *each;
	void *ctx;
	enum kv_entries_at {
		KV_AT_BEGIN, KV_AT_FIRST, KV_AT_ENTRY, KV_IN_ENTRY, KV_AT_COMMA, KV_AT_END
	} at;
	unsigned depth;			/* in an entry */
	bool quoted, escaped;
	uint64_t number;		/* of the entry that is read, or was last */
	struct buf text;		/* its JSON */
	bool failed;
	char why[KV_ENTRIES_WHY_BYTES];	/* of what failed; "": each() wanted no more */
};

void kv_entries_init(struct kv_entries *e, kv_entry_fn *each, void *ctx);
/* False: it failed, for good. */
bool kv_entries_take(struct kv_entries *e, struct span piece);
/* Nothing more comes.  False: it failed, or the list has no end. */
bool kv_entries_end(struct kv_entries *e);
void kv_entries_done(struct kv_entries *e);

/* Adds an entry as `kv export` writes it; first: of its list, whose beginning comes before it. */
void kv_entry_write(const struct kv_exported *e, bool first, struct buf *out);

#endif
