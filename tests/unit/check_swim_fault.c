/*
 * The gossip core when memory runs out: at each allocation in turn.  Nothing breaks, and it goes on afterwards.
 * A plain program: the Check library allocates too, and must not be made to fail.
 */
#include "config.h"

#include <stdio.h>

#include "common/base/assert.h"
#include "tests/fault/alloc.h"
#include "tests/unit/gossip_one.h"

#define ALLOCATIONS_MAX 3000	/* the script makes fewer */

static void
member(struct one *o, const char *name, uint32_t incarnation, uint32_t state)
{
	struct addr a = one_addr((uint8_t)name[0]);
	struct wire_node n = { .name = span_str(name), .addr = span_of(a.ip, 4), .port = 7946,
		.incarnation = incarnation, .state = state, .meta = span_str("role"), .vsn = span_of(one_vsn, 6) };

	(void)one_exchange(o, false, &n, 1);
}

/* User events and queries, in all directions. */
static void
serf_script(struct one *o)
{
	struct span filter = span_str("\x01\x82\xa4" "Expr\xa1w\xa3Tag\xa4role");
	struct swim_ask q = { .token = 1, .name = span_str("q"), .filters = &filter, .filter_count = 1, .want_ack = true };
	struct addr from = one_addr('b'), rival = one_addr(99);
	struct serf_query heard = { .ltime = 7, .id = 1, .addr = span_of(from.ip, 4), .port = from.port,
		.source_node = span_str("b"), .flags = SERF_QUERY_FLAG_ACK, .relay_factor = 2,
		.timeout_ns = MONO_S(5).ns, .name = span_str("q") };
	struct buf b = BUF_INIT(1 << 16);

	(void)one_feed(o, (struct swim_input){ .type = SWIM_IN_FIRE, .name = span_str("e"), .bytes = span_str("p") });
	serf_put_user_event(&b, &(struct serf_user_event){ .ltime = 3, .name = span_str("f"),
	    .payload = span_str("p"), .cc = true });
	(void)one_serf(o, &b);
	(void)one_feed(o, (struct swim_input){ .type = SWIM_IN_QUERY, .ask = &q });
	serf_put_query(&b, &heard);
	(void)one_serf(o, &b);
	(void)one_feed(o, (struct swim_input){ .type = SWIM_IN_RESPOND, .ltime = 7, .query_id = 1, .bytes = span_str("a") });
	(void)one_alive_at(o, SELF, 9, &rival, SPAN_NONE);
}

/* A bit of everything that allocates.  False when not even a core came to be. */
static bool
script(struct one *o)
{
	struct addr to = one_addr(9);

	o->s = swim_new(&o->opt, o->now);
	if (o->s == NULL)
		return false;
	(void)one_feed(o, (struct swim_input){ .type = SWIM_IN_TICK });
	for (const char *name = "abcdefgh"; *name != '\0'; name++)
		(void)one_alive(o, (char[2]){ *name, '\0' }, 1);
	(void)one_suspect(o, "a", 1, "b");
	(void)one_suspect(o, "a", 1, "c");
	(void)one_suspect(o, SELF, 1, "c");
	(void)one_join_intent(o, "z", 4);
	(void)one_leave_intent(o, "b", 5, false);
	(void)one_feed(o, (struct swim_input){ .type = SWIM_IN_META, .bytes = span_str("\xff\x80") });
	(void)one_feed(o, (struct swim_input){ .type = SWIM_IN_JOIN, .addrs = &to, .addr_count = 1 });
	member(o, "c", 2, WIRE_STATE_ALIVE);
	member(o, "d", 2, WIRE_STATE_DEAD);
	(void)one_ping(o, 1, SELF);
	serf_script(o);
	one_wait(o, MONO_S(12));
	(void)one_feed(o, (struct swim_input){ .type = SWIM_IN_FORCE_LEAVE, .name = span_str("e"), .prune = true });
	(void)one_feed(o, (struct swim_input){ .type = SWIM_IN_LEAVE });
	one_wait(o, MONO_S(20));
	return true;
}

/* Returns how many allocations the script makes. */
static unsigned
each_allocation_fails_once(void)
{
	unsigned n = 0, died = 0;

	for (bool failed = true; failed; n++) {
		struct one o;

		TV_ASSERT(n < ALLOCATIONS_MAX);
		one_init(&o);
		fault_alloc_at(n);
		if (script(&o))
			TV_ASSERT(one_stats(&o).members > 0);
		else
			died++;
		failed = fault_alloc_end();
		one_done(&o);
	}
	TV_ASSERT(n > 60 && died < 20);	/* only the first few belong to swim_new() */
	printf("%u allocations\n", n - 1);
	return n - 1;
}

/* What failed once must not have stopped what comes next. */
static void
it_goes_on_afterwards(unsigned allocations)
{
	for (unsigned n = 30; n < allocations; n += 3) {
		struct one o;

		one_init(&o);
		fault_alloc_at(n);
		TV_ASSERT(script(&o));
		TV_ASSERT(fault_alloc_end());
		(void)one_ping(&o, 2, SELF);
		TV_ASSERT(one_said(&o, WIRE_ACK, NULL).p != NULL);
		(void)one_alive(&o, "y", 1);
		TV_ASSERT(one_status(&o, "y") == MEMBER_ALIVE);
		TV_ASSERT(one_stats(&o).queries_open == 0);
		TV_ASSERT(one_feed(&o, (struct swim_input){ .type = SWIM_IN_FIRE, .name = span_str("g") }) == TV_OK);
		TV_ASSERT(o.out->user_event_count == 1);
		one_done(&o);
	}
}

int
main(void)
{
	it_goes_on_afterwards(each_allocation_fails_once());
	return 0;
}
