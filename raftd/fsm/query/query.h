/* Prepared queries. */
#ifndef TV_RAFTD_FSM_QUERY_QUERY_H
#define TV_RAFTD_FSM_QUERY_QUERY_H

#include "raftd/fsm/apply.h"

/* By its lower-case id. */
bool query_find(struct fsm *f, const char *id, struct arena *a, struct prepared_query *out);
/*
 * What this id or name means: the query of that id, as it is kept; else the one of that name, else the template with the longest name
 * that it begins with, both rendered.  False: the read has failed, with the API's text.
 */
bool query_resolve(struct reading *r, struct span name, struct prepared_query *out);

/* Removes the prepared queries that are bound to a session which has ended. */
void query_session_gone(struct fsm *f, const char *session);

/* For answers: not to be seen with a token that may not do everything. */
void query_hide_token(const struct reading *r, struct prepared_query *q);

/* -- query_run.c -- */
void query_execute(struct reading *r, const void *rec);
void query_remote(struct reading *r, const void *rec);

#endif
