/* Sessions, as other areas see them. */
#ifndef TV_RAFTD_FSM_SESSION_SESSION_H
#define TV_RAFTD_FSM_SESSION_SESSION_H

#include "raftd/fsm/apply.h"

/* Lower-case id, or false with the API's text for what is no UUID, which begins with `head`. */
bool uuid_id(struct span text, const char *head, char id[37], struct arena *a, struct span *why);
/* The same before the log: the id takes the text's place.  In a read: false, and it has failed. */
enum tv_err uuid_prepare(struct prepare *p, const char *head, struct span *text);
bool uuid_read(struct reading *r, struct span text, const char *head, char id[37]);
bool session_id(struct span text, char id[37], struct arena *a, struct span *why);
bool session_find(struct fsm *f, const char *id, struct arena *a, struct session *out);
void session_invalidate(struct fsm *f, const char *id, int64_t now);
/* Ends every session of a node, or every one bound to a check of it. */
void session_node_gone(struct fsm *f, struct span node, int64_t now);
void session_check_bad(struct fsm *f, struct span node, struct span check, int64_t now);

#endif
