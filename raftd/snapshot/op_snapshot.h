/* What the operations SNAPSHOT_* and RESTORE_* share: one server keeps what belongs to a save or a restore, and answers all of its steps. */
#ifndef TV_RAFTD_SNAPSHOT_OP_SNAPSHOT_H
#define TV_RAFTD_SNAPSHOT_OP_SNAPSHOT_H

#include "raftd/request/request.h"

/* Answers with this state, packed. */
void snapshot_answer(struct request *q, uint64_t index, const struct snapshot_state *st);
/* The same a little later: there is nothing new yet, and the client will ask again at once. */
void snapshot_answer_later(struct request *q, const struct snapshot_state *st);
/* Bytes of an archive that go into one answer. */
size_t snapshot_piece(const struct raftd *d);

#endif
