/* What the families of endpoints about this node share. */
#ifndef TV_RPCD_API_V1_AGENT_H
#define TV_RPCD_API_V1_AGENT_H

#include "rpcd/api/api.h"
#include "rpcd/registry/registry.h"

/* 200 once the catalog has this entry as it is now, or has had its time. */
void api_agent_settled(struct request *r, enum entry_kind kind, struct span id);
/* An error of registry_put(): 500 with its sentence. */
void api_agent_refused(struct request *r, enum tv_err err);
/* Are these checks of kinds that may be registered over HTTP?  Else it is answered: scripts are off. */
bool api_agent_may_run(struct request *r, const struct local_record *checks, uint32_t n);
/*
 * May the request change the check that has this id now, if there is one: by the name of its service, or this node's?
 * Else it is answered.
 */
bool api_agent_may_change_check(struct request *r, struct span id);
/*
 * Is there no other entry whose id differs from this one by case alone?  Else it is answered: the catalog, which does
 * not know case, would have now the one, now the other.
 */
bool api_agent_id_is_free(struct request *r, enum entry_kind kind, struct span id);
/* The token of what is registered: the one that was given with it, else that of the request. */
struct span api_agent_token(const struct request *r, struct span given);

/*
 * Answers with the object of all entries of a kind that `put` shows by api_agent_put(): by their ids, as far as they
 * pass ?filter, which was compiled for their schema.
 */
void api_agent_list(struct request *r, enum entry_kind kind, void (*put)(void *ctx, const struct local_record *rec));
void api_agent_put(struct request *r, struct span id, const struct schema *s, const void *rec);
/* A service as endpoints of the agent show it. */
void api_agent_service_json(const struct request *r, const struct service *s, struct buf *out);

#endif
