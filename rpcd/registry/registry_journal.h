/*
 * The registry on disk: PATH, which has all of it, and beside it PATH.journal with what changed since.  A change is a
 * frame at the end of the journal, whatever the size of the table; now and then all is written anew and the journal
 * emptied.  Both happen in a thread: the loop only prints.
 *
 * A frame is a length (u32, little endian), a checksum of that and of what follows (8 bytes of BLAKE2b), and JSON: what
 * belongs together is in one.  Reading the journal again over a file that has its changes already gives the same, so a
 * crash between the two costs nothing.
 */
#ifndef TV_RPCD_REGISTRY_REGISTRY_JOURNAL_H
#define TV_RPCD_REGISTRY_REGISTRY_JOURNAL_H

#include <ev.h>

#include "rpcd/registry/registry.h"

struct registry_journal;

/*
 * Fills an empty registry with what is there, and writes it as one file if there was a journal.  What makes no sense is
 * set aside, as PATH.bad, and the end of a journal from the first damaged frame on as PATH.journal.bad; the log says
 * so.  path is borrowed.  NULL: no memory.
 */
struct registry_journal *registry_journal_open(struct registry *r, struct ev_loop *loop, const char *path);
/*
 * Writes what changed since the last call; durable: registry_saved() is called when it survives a crash, or cannot be
 * written, which the log says.
 */
void registry_journal_write(struct registry_journal *j, bool durable);
/* Writes all as one file, if there is a journal.  registry_journal_write() does nothing then.  NULL: nothing. */
void registry_journal_close(struct registry_journal *j);
void registry_journal_free(struct registry_journal *j);

struct registry_journal_stats {		/* since the start */
	uint64_t frames, bytes;		/* written to the journal */
	uint64_t syncs;			/* waits for the disk: what comes during one shares the next */
	uint64_t folds;			/* times that all was written as one file */
	uint64_t failures;
};
void registry_journal_stats(const struct registry_journal *j, struct registry_journal_stats *out);

#endif
