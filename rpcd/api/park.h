/*
 * A request that waits for long for one reply of the router, and maybe thousands with it: what it needs then is in a
 * small record of its own, and the request can be used for another one.
 */
#ifndef TV_RPCD_API_PARK_H
#define TV_RPCD_API_PARK_H

#include <stdbool.h>

struct api;
struct parked;
struct request;

/*
 * The transport's: the reply has come, or all requests are to end.  Takes the request up by api_unpark() into one that
 * it has, and returns that; NULL: without memory it has ended it, by api_park_drop().
 */
typedef struct request *parked_resume(void *transport);

/*
 * After api_fold(), from the transport.  r is over then, without api_end(): nothing of it is under way.  NULL:
 * no memory, or it needs more than that: nothing was changed.
 */
struct parked *api_park(struct request *r, parked_resume *resume);
/*
 * Into a request as request_reset() leaves it, with what the transport knows of the client, and `ready` and `again`.
 * It is as after api_fold(), under way, and ended by api_end().  Frees p.  False: no memory, and p waits as before.
 */
bool api_unpark(struct parked *p, struct request *r);
/* Ends it without a word in logs and accounts, for want of memory: its client is told nothing. */
void api_park_drop(struct parked *p);
/* Calls resume for all. */
void api_unpark_all(struct api *api);

#endif
