/*
 * The first token of the cluster, where raftd.conf says its secret (acl.tokens.initial_management): a leader makes it when access
 * control holds and the state says that no first token was made before, and never again.
 */
#ifndef TV_RAFTD_LEADER_FIRST_TOKEN_H
#define TV_RAFTD_LEADER_FIRST_TOKEN_H

#include "raftd/raftd.h"

struct first_token;

/* NULL: no memory. */
struct first_token *first_token_new(struct raftd *d);
void first_token_free(struct first_token *t);
/* The duties of a leader begin, or end. */
void first_token_start(struct first_token *t);
void first_token_stop(struct first_token *t);
/* Looks whether it is to be made; from time to time, and when access control has begun. */
void first_token_look(struct first_token *t);

#endif
