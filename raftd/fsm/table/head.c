/*
 * What is known of the state without reading it: published after each commit, so that any thread has it at once.
 */
#include <errno.h>
#include <stdatomic.h>

#include "raftd/fsm/acl/acl.h"
#include "raftd/fsm/catalog/address.h"
#include "raftd/fsm/copy/stage.h"
#include "raftd/fsm/operator/operator.h"
#include "raftd/fsm/table/head.h"
#include "raftd/fsm/table/table.h"

/* -- by the applying thread -- */

static bool
read_autopilot(struct fsm *f, struct autopilot_config *out)
{
	struct arena a = ARENA_INIT(64u << 10);
	bool found = autopilot_load(f, &a, out);

	out->RedundancyZoneTag = out->UpgradeVersionTag = SPAN_NONE;
	arena_done(&a);
	return found;
}

static void
read_servers(struct fsm *f, struct buf *out)
{
	struct tbl_scan s;
	struct tkey prefix;
	struct span key, val;

	tkey_begin(&prefix, TBL_SERVER);
	tbl_scan_begin(f, &s, &prefix);
	while (tbl_next(&s, &key, &val)) {
		buf_u32be(out, (uint32_t)key.len);
		buf_putspan(out, key);
	}
	tbl_scan_end(&s);
	if (out->failed)
		f->failed = ENOMEM;
}

static uint64_t
read_acl(struct fsm *f)
{
	struct arena a = ARENA_INIT(64u << 10);
	struct acl_state st = { .Since = 0 };
	bool holds = acl_load(f, &a, &st);

	arena_wipe(&a);				/* it has a key */
	arena_done(&a);
	return holds ? st.Since : 0;
}

/* What changed of the records that the head shows. */
static void
read_facts(struct fsm *f, struct fsm_head *h)
{
	if (f->facts & FACT_AUTOPILOT)
		h->has_autopilot = read_autopilot(f, &h->autopilot);
	if (f->facts & FACT_STAGE) {
		h->has_stage = stage_now(f, &h->stage);
		h->has_last = stage_last(f, h->last_id, &h->last_index);
	}
	if (f->facts & FACT_SERVERS)
		read_servers(f, &h->servers);
	if (f->facts & FACT_ACL)
		h->acl_since = read_acl(f);
}

/* head_lock held. */
static void
take_facts(struct fsm_head *to, struct fsm_head *from, unsigned facts)
{
	if (facts & FACT_AUTOPILOT) {
		to->has_autopilot = from->has_autopilot;
		to->autopilot = from->autopilot;
	}
	if (facts & FACT_STAGE) {
		to->has_stage = from->has_stage;
		to->stage = from->stage;
		to->has_last = from->has_last;
		memcpy(to->last_id, from->last_id, sizeof(to->last_id));
		to->last_index = from->last_index;
	}
	if (facts & FACT_SERVERS) {
		struct buf before = to->servers;

		to->servers = from->servers;
		from->servers = before;
	}
	if (facts & FACT_ACL)
		to->acl_since = from->acl_since;
}

void
head_publish(struct fsm *f)
{
	struct fsm_head fresh = { .has_stage = false }, *h = &f->head;
	uint64_t acl_index = acl_index_of(f);

	buf_init(&fresh.servers, FSM_ANSWER_BYTES_MAX);
	if (f->facts != 0)
		read_facts(f, &fresh);
	addresses_publish(f);
	pthread_mutex_lock(&f->head_lock);
	h->applied = f->applied;
	h->applied_term = f->applied_term;
	h->applied_entries = f->applied_entries;
	h->txns = f->txns;
	h->txns_undone = f->txns_undone;
	h->needs = f->needs;
	memcpy(h->index, f->index, sizeof(h->index));
	memcpy(h->tally, f->tally, sizeof(h->tally));
	memcpy(h->restored, f->restored, sizeof(h->restored));
	take_facts(h, &fresh, f->facts);
	f->acl_index = acl_index > h->restored[FR_FLOOR] ? acl_index : h->restored[FR_FLOOR];
	f->acl_since = h->acl_since;
	pthread_mutex_unlock(&f->head_lock);
	if (f->facts & FACT_STAGE)
		f->stage_changed = true;
	f->facts = 0;
	buf_done(&fresh.servers);
}

/* -- by any thread -- */

/* The head that others see, locked; a reader's own are for it alone. */
static struct fsm *
hold(const struct fsm *f)
{
	struct fsm *state = (struct fsm *)(uintptr_t)(f->owner != NULL ? f->owner : f);

	pthread_mutex_lock(&state->head_lock);
	return state;
}

static void
let_go(struct fsm *state)
{
	pthread_mutex_unlock(&state->head_lock);
}

/* Of a reader its own, as of its begin. */
struct position { uint64_t applied, term, base; };

static struct position
position_of(const struct fsm *f)
{
	struct fsm *state;
	struct position p;

	if (f->owner != NULL)
		return (struct position){ f->applied, f->applied_term, f->restored[FR_BASE] };
	state = hold(f);
	p = (struct position){ state->head.applied, state->head.applied_term, state->head.restored[FR_BASE] };
	let_go(state);
	return p;
}

uint64_t
fsm_applied(const struct fsm *f)
{
	return position_of(f).applied;
}

uint64_t
fsm_applied_term(const struct fsm *f)
{
	return position_of(f).term;
}

uint64_t
fsm_index(const struct fsm *f)
{
	struct position p = position_of(f);

	return p.applied + p.base;
}

uint8_t
fsm_needs(const struct fsm *f)
{
	struct fsm *state = hold(f);
	uint8_t needs = state->head.needs;

	let_go(state);
	return needs;
}

unsigned
fsm_replaced(const struct fsm *f)
{
	return f->replaced;
}

bool
fsm_autopilot(struct fsm *f, struct autopilot_config *out)
{
	struct fsm *state = hold(f);
	bool found = state->head.has_autopilot;

	*out = state->head.autopilot;
	let_go(state);
	return found;
}

uint64_t
fsm_acl_since(const struct fsm *f)
{
	return f->owner != NULL ? f->owner->acl_since : f->acl_since;
}

uint64_t
fsm_acl_index(const struct fsm *f)
{
	return f->owner != NULL ? f->owner->acl_index : f->acl_index;
}

bool
fsm_server_tombstoned(struct fsm *f, struct span id)
{
	struct fsm *state;
	struct tkey k;
	struct rd r;
	bool found = false;

	TKEY(&k, TBL_SERVER, id);
	if (k.failed)
		return false;
	state = hold(f);
	r = rd_span_over(buf_span(&state->head.servers));
	while (!found && rd_left(&r) > 0) {
		uint32_t n = rd_u32be(&r);

		found = span_eq(rd_bytes(&r, n), span_of(k.b, k.len));
	}
	let_go(state);
	return found;
}

bool
fsm_staged(struct fsm *f, struct fsm_stage *out)
{
	struct fsm *state = hold(f);
	bool staged = state->head.has_stage;

	if (staged)
		*out = state->head.stage;
	let_go(state);
	return staged;
}

bool
fsm_stage_changed(struct fsm *f)
{
	return atomic_exchange(f->owner != NULL ? &f->owner->stage_changed : &f->stage_changed, false);
}

bool
fsm_last_restore(struct fsm *f, char id[37], uint64_t *index)
{
	struct fsm *state = hold(f);
	bool any = state->head.has_last;

	if (any) {
		memcpy(id, state->head.last_id, sizeof(state->head.last_id));
		*index = state->head.last_index;
	}
	let_go(state);
	return any;
}
