/*
 * Queries of others (and our own) that a client of this node may answer: the newest 64, oldest first, until their
 * time is over.  Each has a number; numbers grow, also over a restart.
 */
#ifndef TV_RPCD_EVENT_QUERIES_H
#define TV_RPCD_EVENT_QUERIES_H

#include "common/base/rd.h"
#include "rpcd/event/waits.h"

#define QUERIES_MAX 64

struct queries;

struct heard {
	uint64_t number;
	uint64_t ltime;
	uint32_t id;
	struct span name, payload;
	struct span from;		/* node that asks; may be empty */
	struct mono deadline;
};

struct queries *queries_new(struct ev_loop *loop);
void queries_free(struct queries *q);
/* The body of a MSG_GOSSIP_HEARD.  TV_EFORMAT: it does not read. */
enum tv_err queries_told(struct queries *q, struct span body);
/* The oldest query behind this number whose time is not over, or NULL; valid until the loop runs on. */
const struct heard *queries_next(const struct queries *q, uint64_t number);
/* Number of the newest one; without any the number that the first will follow.  Never 0. */
uint64_t queries_newest(const struct queries *q);
/* As wait_start(): for the next query. */
void queries_wait(struct queries *q, struct wait *w, struct mono timeout, void (*fn)(void *ctx, bool timed_out),
    void *ctx);

#endif
