/*
 * The user events of the LAN pool that concern this node: the newest 256, oldest first, each once.
 *
 * An event with a node filter concerns a node whose name matches; one with a service filter a node on which a
 * service is registered that matches, whatever the catalog says.  Announcements of the servers are logged and not
 * listed.
 */
#ifndef TV_RPCD_EVENT_EVENTS_H
#define TV_RPCD_EVENT_EVENTS_H

#include "common/record/records.h"
#include "rpcd/event/waits.h"

#define EVENTS_MAX 256

struct events;

struct events_conf {
	struct ev_loop *loop;
	const char *node_name;		/* own; borrowed */
	/* Calls fn for each service that is registered on this node; what it gets is good until fn returns. */
	void (*services)(void *ctx, void (*fn)(void *fn_ctx, const struct service *s), void *fn_ctx);
	void *ctx;
};

/* NULL: no memory. */
struct events *events_new(const struct events_conf *conf);
/* Before route_free(). */
void events_free(struct events *e);
/*
 * What comes next is from a new channel to gossipd.  What is old there is history the first time, later it may be
 * news.
 */
void events_subscribed(struct events *e);
/* The body of a MSG_GOSSIP_USER_EVENT.  TV_EFORMAT: it does not read. */
enum tv_err events_told(struct events *e, struct span body);
unsigned events_count(const struct events *e);
/* i in 0..count-1, oldest first; valid until the loop runs on. */
const struct user_event *events_at(const struct events *e, unsigned i);
/* As wait_start(): for the next event. */
void events_wait(struct events *e, struct wait *w, struct mono timeout, void (*fn)(void *ctx, bool timed_out),
    void *ctx);

struct events_stats {
	uint64_t listed, duplicates, filtered, bad, announcements;
};
void events_stats(const struct events *e, struct events_stats *out);

#endif
