/* Operations of rpcd: the gate, and what their kinds share. */
#ifndef TV_RAFTD_SERVE_OP_H
#define TV_RAFTD_SERVE_OP_H

#include "raftd/request/request.h"

/*
 * The one way in for a new request: it is refused and answered, or goes to the file of its kind, which answers it at once or
 * later.  ask: borrowed until return.  *refused counts those beyond requests_max or requests_bytes_max.
 */
void op_start(struct request *q, const struct op_request *ask, uint64_t *refused);
/* The request is cancelled or its channel closed: leave whatever it waits for.  False: the record is
 * still in the log's hands and must stay. */
bool op_cancel(struct request *q);

/* -- for the gate -- */
void op_read(struct request *q, uint64_t max_stale_ms);
/* A read whose watch fired or whose time is up. */
void op_read_again(struct request *q);
/* A read that waits is to look whether its answer has changed, or its rights. */
void op_look_again(struct request *q);
/* op_judge.c: of what is no read; it is refused, or goes on in op_permitted(), now or later.  args, token: borrowed until return. */
void op_judge(struct request *q, struct span args, struct span token);
/* A server that was not told of access control in its configuration keeps to it all the same, and says so once; it holds. */
void op_warn_once(struct raftd *d);
/*
 * What is no operation.  A recovery needs the right to the operator's work, by the state as it is here: there is no leader.  A leave
 * needs the right to write to this node's agent, by a state that is up to date where there is a leader; root on raftd.sock (uid 0) without
 * a token has it.  True: it may begin.  False: it has been refused, or begins later, by go_on().
 */
typedef void op_plain_fn(struct request *q, bool how);
bool op_may_recover(struct request *q, bool dry_run, struct span token, op_plain_fn *go_on);
bool op_may_leave(struct request *q, bool force, struct span token, uid_t uid, op_plain_fn *go_on);
/* It may be carried out.  args: its own, or borrowed until return; premises, which it may be carried out with: borrowed. */
void op_permitted(struct request *q, struct span args, struct span premises);
/* args, premises: borrowed until return. */
void op_write(struct request *q, struct span args, struct span premises);
/* A write was not applied, since its premises did not hold any more.  It is judged again, or refused if that was so often. */
void op_judge_again(struct request *q);
extern const struct request_op status_ops[], leader_ops[];	/* op_read.c, op_leader.c */

/* -- for those who carry them out -- */
/* TV_ENOTLEADER, or TV_ENOLEADER when none is known. */
void op_not_leader(struct request *q);
/* A write that got nowhere, or whose outcome is not known. */
void op_write_failed(struct request *q, enum tv_err err, struct span text);
/* Proposes a write as it is, and answers it when it is applied.  args, premises: borrowed until return. */
void op_propose(struct request *q, struct span args, struct span premises);
/*
 * While the state does not know who lives: a registration, or one within a transaction, that would take from a member that lives, by gossip's
 * word, is refused and answered.  True: so it was.  args: packed; a: what is decoded.
 */
bool op_claims_register(struct request *q, struct span args, struct arena *a);
bool op_claims_txn(struct request *q, struct span args, struct arena *a);
/* Takes a write that deletes a tree of keys; done: of one that is a single entry.  False: it is one as others. */
bool op_tree(struct request *q, struct span args, proposal_done *done);

/* Takes a write of access control that is refused, or has a way of its own.  False: it is one as others. */
bool op_acl(struct request *q, struct span args);

#endif
