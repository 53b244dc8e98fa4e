/*
 * Between the files of the look-ups for DNS, and included by no other.
 *
 *	dns_question.c	a question, as the router and the cache take it, and what an answer to it says
 *	dns_follow.c	questions that the cache follows, and the news of them
 *	dns_lookups.c	look-ups under way: whether the cache or a server is asked, and what if that takes too long
 */
#ifndef TV_RPCD_NAMES_DNS_LOOKUPS_INT_H
#define TV_RPCD_NAMES_DNS_LOOKUPS_INT_H

#include <sys/queue.h>

#include "common/base/map.h"
#include "rpcd/dns/answer.h"
#include "rpcd/names/dns_lookups.h"

#define DNS_LOOKUP_ARENA_MAX (128u << 20)	/* of one answer while it is read */

/* A question, as the cache knows it. */
struct dns_question {
	enum dns_kind kind;
	uint16_t op;
	bool own;			/* datacenter */
	uint64_t source;
	struct buf args;
	struct span name, dc;		/* in the owner's memory; dc "": own */
};

struct dns_followed {
	struct dns_lookups *owner;
	LIST_ENTRY(dns_followed) link;
	struct dns_question q;
	struct cache_follow *cache;
	struct map_node node;		/* whose hash is its id; 0: not yet, and it is in no map */
	uint64_t print;			/* of what was told last */
	struct mono used_at;
	bool lost;			/* what it tells is as old as the contact to servers */
	bool ended;
	uint8_t text[];
};

struct dns_lookups {
	struct dns_lookups_conf conf;
	dns_lookup_done *done;
	void *ctx;
	LIST_HEAD(, dns_lookup_call) calls;
	unsigned call_count;
	LIST_HEAD(, dns_followed) follows;
	struct dns_followed *look_next;	/* whose turn it is, after a change of members */
	struct map by_id;		/* follows */
	unsigned lost;			/* follows of the own datacenter without contact */
	bool away;			/* as was logged */
	struct cache_wait *probe;
	struct mono written_until;
	const struct dns_lookup_origin *origin;	/* while done runs */
	struct mono refused_next;	/* when it is logged again that the token is unknown */
	ev_timer late, look;
	struct dns_lookups_stats stats;
};

/* -- dns_question.c -- */
/* q has its kind and op.  Texts go to `text`, which has space for name and datacenter.  False: no memory. */
bool dns_question_make(struct dns_question *q, const struct dns_lookups *l, const struct msg_dns_ask *ask,
    uint8_t *text);
/* As the cache takes it: borrows q. */
struct cache_question dns_question_cached(const struct dns_lookups *l, const struct dns_question *q);
/* Does an answer lack instances of dead nodes, as long as no server can be reached? */
bool dns_question_needs_members(const struct dns_question *q);
/* What a reply to it says, in spans of the reply and the arena; logs a token that is unknown, now and then. */
void dns_question_read(struct dns_lookups *l, const struct dns_question *q, const struct op_reply *reply,
    struct arena *a, struct msg_dns_found *found);
/* The same of a cached reply; stale: no server can be reached, so dead nodes are left out. */
void dns_question_read_cached(struct dns_lookups *l, const struct dns_question *q, const struct op_reply *reply,
    bool stale, struct arena *a, struct msg_dns_found *found);
/* Milliseconds that this answer may still be given, if nothing changes; 0: it is too old; UINT64_MAX: no limit. */
uint64_t dns_question_life(const struct dns_lookups *l, const struct cache_answer *answer, bool followed);
/* Logs when the servers of the own datacenter are lost, and when they are found again. */
void dns_question_contact(struct dns_lookups *l, const struct dns_question *q, bool stale);

/* -- dns_follow.c -- */
/* Before the question is asked, so that nothing can change in between.  NULL: it cannot be followed. */
struct dns_followed *dns_follow_new(struct dns_lookups *l, const struct dns_question *q);
/* From now on it tells, by this id, of what differs from `found`. */
void dns_follow_open(struct dns_followed *f, uint64_t id, const struct msg_dns_found *found);
/* Tells of the answer, if it is another one than was told. */
void dns_follow_news(struct dns_followed *f, const struct cache_answer *answer);
/* Without a word; forget: the cache drops the entry too, unless another caller has used it since. */
void dns_follow_free(struct dns_followed *f, bool forget);
/* Of the timer `look`: some of the follows that depend on which members are dead. */
void dns_follow_look_cb(struct ev_loop *loop, ev_timer *w, int events);

#endif
