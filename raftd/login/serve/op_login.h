/*
 * OP_ACL_LOGIN and OP_ACL_LOGOUT: what they ask is looked at here, and a token, or a token's name, goes to the log.  And methods whose
 * keys come from elsewhere.
 */
#ifndef TV_RAFTD_LOGIN_SERVE_OP_LOGIN_H
#define TV_RAFTD_LOGIN_SERVE_OP_LOGIN_H

#include "raftd/request/request.h"

/* On a leader.  args: borrowed until return; they are wiped here, where they are kept. */
void op_login(struct request *q, struct span args);
/* Takes OP_ACL_METHOD_SET where keys are to be fetched first, op_method.c.  False: it is a write as others.  args: borrowed until return. */
bool op_method(struct request *q, struct span args);

#endif
