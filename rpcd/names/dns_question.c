/* Questions of look-ups: as the router and the cache take them, and what their answers say.  See dns_lookups_int.h. */
#include "common/base/addr.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/source.h"
#include "common/record/records.h"
#include "rpcd/names/dns_lookups_int.h"
#include "rpcd/names/dns_reply.h"

#define TAG "dns"
#define REFUSED_REPEAT MONO_S(300)	/* between two lines about the token */

struct cache_question
dns_question_cached(const struct dns_lookups *l, const struct dns_question *q)
{
	return (struct cache_question){
		.op = (enum op_code)q->op, .dc = q->dc, .args = buf_span(&q->args), .source = q->source,
		.token = token_of(&l->conf.token),
	};
}

bool
dns_question_make(struct dns_question *q, const struct dns_lookups *l, const struct msg_dns_ask *ask, uint8_t *text)
{
	struct arena a = ARENA_INIT(65536);
	char address[ADDR_IP_BYTES];
	struct span tag = ask->tag;
	struct catalog_read read = { .Name = ask->name, .Tags = { &tag, ask->tagged, ask->tagged } };

	q->own = ask->datacenter.len == 0 || span_eqs(ask->datacenter, l->conf.datacenter);
	q->args = BUF_INIT(65536);
	q->name = span_place(&text, ask->name);
	/* An execution may depend on whether the datacenter was named. */
	q->dc = span_place(&text, q->own && q->kind != DNS_KIND_QUERY ? SPAN_NONE : ask->datacenter);
	if (q->kind == DNS_KIND_QUERY) {
		struct addr from;

		q->source = addr_parse_span(ask->source, 0, &from) ? source_of_ip(&from) : 0;
		schema_pack(&prepared_ask_schema, &(struct prepared_ask){ .Name = ask->name, .Address = ask->source,
		    .Agent = q->dc.len > 0 ? SPAN_NONE : span_str(l->conf.node_name) }, &q->args);
		return !q->args.failed;
	}
	if (q->kind == DNS_KIND_ADDRESS) {
		struct addr ip = addr_of_bytes(ask->name.p, ask->name.len);

		read.Name = span_str(addr_ip(&ip, address));
	} else if (q->kind == DNS_KIND_NODES || q->kind == DNS_KIND_SERVICES) {
		read.Name = SPAN_NONE;
	}
	bool ok = cache_question_args((enum op_code)q->op, &read, &a, &q->args);
	arena_done(&a);
	return ok;
}

bool
dns_question_needs_members(const struct dns_question *q)
{
	return q->own && (q->kind == DNS_KIND_SERVICE || q->kind == DNS_KIND_CONNECT || q->kind == DNS_KIND_QUERY);
}

void
dns_question_contact(struct dns_lookups *l, const struct dns_question *q, bool stale)
{
	if (!q->own || stale == l->away || (!stale && l->lost > 0))
		return;
	l->away = stale;
	if (l->conf.quiet)
		return;
	if (stale)
		log_warn(TAG, "no server of %s can be reached: names are answered from memory, up to "
		    "dns_config.max_stale", l->conf.datacenter);
	else
		log_info(TAG, "servers of %s can be reached again: names are answered from what they know",
		    l->conf.datacenter);
}

static uint64_t
time_left(struct mono most, uint64_t age_ms)
{
	uint64_t ms = (uint64_t)mono_ms(most);

	return most.ns == 0 ? UINT64_MAX : age_ms < ms ? ms - age_ms : 0;
}

uint64_t
dns_question_life(const struct dns_lookups *l, const struct cache_answer *answer, bool followed)
{
	uint64_t age = (uint64_t)mono_ms(answer->age);
	uint64_t stale = time_left(l->conf.conf->dns_max_stale, followed ? answer->reply.last_contact_ms : age);
	uint64_t old = followed ? time_left(l->conf.conf->dns_cache_max_age, age) : UINT64_MAX;

	return stale < old ? stale : old;
}

/* The servers do not know the token: each question is SERVFAIL until it is another one. */
static void
log_refused(struct dns_lookups *l, const struct op_reply *reply)
{
	struct mono now = clock_mono();

	if (l->conf.quiet || reply->err != TV_EPERM || !span_starts(reply->text, span_str("ACL not found")) ||
	    mono_before(now, l->refused_next))
		return;
	l->refused_next = mono_add(now, REFUSED_REPEAT);
	log_warn(TAG, "ACL not found: %s is no token of this cluster (deleted, or expired), and names are answered "
	    "with SERVFAIL: set another one",
	    token_of(&l->conf.token).len > 0 ? "acl.tokens.default" : "the anonymous one");
}

void
dns_question_read(struct dns_lookups *l, const struct dns_question *q, const struct op_reply *reply, struct arena *a,
    struct msg_dns_found *found)
{
	/* What is of another datacenter than this has its WAN addresses; see dns_reply.h. */
	struct span own = span_str(l->conf.datacenter), local = l->conf.conf->translate_wan_addrs ? own : SPAN_NONE;

	dns_reply_read(q->kind, q->name, q->own ? own : q->dc, local, reply, a, found);
	log_refused(l, reply);
}

/* What the node of this name is to gossip. */
static bool
is_dead(void *ctx, struct span node)
{
	const struct dns_lookups *l = ctx;
	const struct member *m = members_find(l->conf.members, POOL_LAN, node);

	return m != NULL && (m->status == MEMBER_FAILED || m->status == MEMBER_LEFT);
}

void
dns_question_read_cached(struct dns_lookups *l, const struct dns_question *q, const struct op_reply *reply, bool stale,
    struct arena *a, struct msg_dns_found *found)
{
	dns_question_read(l, q, reply, a, found);
	if (stale && dns_question_needs_members(q) && l->conf.members != NULL)
		l->stats.dead_left_out += dns_reply_leave_out(found, is_dead, l);
	found->stale = stale;
}
