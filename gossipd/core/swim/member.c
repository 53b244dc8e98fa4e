/*
 * The merge rules of SWIM: what a message about a member changes.  A higher incarnation
 * wins; among equals dead beats suspect beats alive; only the member itself raises its
 * incarnation.  Source: doc/wire.md, "node table and merge rules".
 */
#include "config.h"

#include "common/base/assert.h"
#include "gossipd/core/state.h"

/*
 * Incarnations grow by one for each refutation, so huge ones are forged: above INCARNATION_FREE they must grow step
 * by step.  Without this, one message with the maximum would silence a member for ever.
 */
#define INCARNATION_STEP (1u << 20)

static bool
plausible(struct swim *s, uint32_t incarnation, uint32_t known)
{
	if (incarnation <= INCARNATION_FREE || (uint64_t)incarnation <= (uint64_t)known + INCARNATION_STEP)
		return true;
	s->stats.bad_incarnation++;
	return false;
}

bool
swim_name_ok(struct span name)
{
	if (name.len == 0 || name.len > NODE_NAME_BYTES_MAX)
		return false;
	for (size_t i = 0; i < name.len; i++)
		if (name.p[i] < 0x20 || name.p[i] == 0x7f)
			return false;
	return true;
}

struct span
swim_dc(struct span meta)
{
	struct serf_tags it = serf_meta_tags(meta);
	struct span name, value;

	while (serf_tags_next(&it, &name, &value) == TV_OK)
		if (span_eqs(name, "dc"))
			return value;
	return SPAN_NONE;
}

bool
swim_dc_ok(const struct swim *s, struct span meta)
{
	struct span dc = swim_dc(meta);

	return s->opt.dc.len == 0 || dc.p == NULL || span_eq_nocase(dc, s->opt.dc);
}

/* Into the scratch buffer. */
static void
put_alive(struct swim *s, const struct node *n)
{
	size_t vsn_len = node_vsn(n)[VSN_PMAX] != 0 ? WIRE_VSN_BYTES : 0;
	struct wire_alive m = { .incarnation = n->incarnation, .node = node_name(n),
		.addr = span_of(node_addr(n)->ip, node_addr(n)->len), .port = node_addr(n)->port, .meta = node_meta(n),
		.vsn = span_of(node_vsn(n), vsn_len) };

	buf_reset(&s->scratch);
	wire_put_alive(&s->scratch, &m);
}

static void
queue_alive(struct swim *s, struct node *n)
{
	if (s->hushed && n != s->self)
		return;
	put_alive(s, n);
	gossip_queue(s, QUEUE_MEMBER, buf_span(&s->scratch), &n->queued, 0);
}

static void
queue_accuse(struct swim *s, struct node *n, const struct wire_accuse *m,
    void (*put)(struct buf *, const struct wire_accuse *))
{
	if (s->hushed && n != s->self)
		return;
	buf_reset(&s->scratch);
	put(&s->scratch, m);
	gossip_queue(s, QUEUE_MEMBER, buf_span(&s->scratch), &n->queued, n == s->self ? WAIT_LEAVE : 0);
}

void
swim_announce(struct swim *s)
{
	queue_alive(s, s->self);
}

/* At the end of the numbers we start over: others take any incarnation once they have forgotten us. */
void
swim_refute(struct swim *s, uint32_t accused)
{
	if (accused >= UINT32_MAX - 1 || s->incarnation >= UINT32_MAX - 1) {
		s->incarnation = 0;
		accused = 0;
		out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_REKEY });
	}
	s->incarnation++;
	if (accused >= s->incarnation)
		s->incarnation = accused + 1;
	s->self->incarnation = s->incarnation;
	s->stats.refutations++;
	local_health_add(s, 1);
	swim_announce(s);
}

void
swim_outdo(struct swim *s, uint32_t incarnation)
{
	if (s->incarnation >= UINT32_MAX - 1 || incarnation >= UINT32_MAX - 1)
		return;		/* a refutation starts over */
	s->incarnation = (incarnation > s->incarnation ? incarnation : s->incarnation) + 1;
	s->self->incarnation = s->incarnation;
	swim_announce(s);
}

static bool
is_living(const struct node *n)
{
	return n->state == NODE_ALIVE || n->state == NODE_SUSPECT;
}

/* A member that was found to be alive: if it is one of ours, its name is taken, in any spelling. */
static void
note_ours(struct swim *s, struct node *n)
{
	if (serf_meta_is_ours(node_meta(n)) && twins_claim(&s->twins, &s->table, n) != TV_OK)
		s->stats.no_memory++;
}

/*
 * A living member of ours whose name differs only by case from that of this message, which is from one of ours as
 * well, and is news: NULL when there is none.  At the same address it is no other node, but one that was renamed.
 */
static struct node *
twin_of(const struct swim *s, const struct node *n, const struct wire_alive *a, const struct addr *addr)
{
	struct node *twin = twins_find(&s->twins, &s->table, a->node);

	if (twin == NULL || twin == n || !is_living(twin) || addr_eq(node_addr(twin), addr))
		return NULL;
	if (!serf_meta_is_ours(a->meta) || !serf_meta_is_ours(node_meta(twin)))
		return NULL;
	/* Two that live already, as an update of one: which may stay is not decided by news. */
	return n != NULL && node_listed(&s->table, n) && is_living(n) && serf_meta_is_ours(node_meta(n)) ? NULL : twin;
}

enum tv_err
swim_change_meta(struct swim *s, const struct swim_input *in)
{
	enum tv_err err;

	if (in->bytes.len > NODE_META_BYTES_MAX)
		return TV_ELIMIT;
	if (span_eq(in->bytes, node_meta(s->self)))
		return TV_OK;
	err = table_set(&s->table, s->self, in->bytes, node_addr(s->self), node_vsn(s->self));
	if (err != TV_OK)
		return err;
	s->self->incarnation = ++s->incarnation;
	note_ours(s, s->self);
	swim_announce(s);
	s->serf->update(s, s->self);
	return TV_OK;
}

/* The address of an alive; false when there is none that one could send to. */
static bool
addr_of(const struct swim *s, const struct wire_alive *a, struct addr *out)
{
	static const uint8_t zero[16];

	if ((a->addr.len != 4 && a->addr.len != 16) || memcmp(a->addr.p, zero, a->addr.len) == 0)
		return false;
	*out = (struct addr){ .len = (uint8_t)a->addr.len, .port = a->port != 0 ? a->port : s->opt.self.port };
	memcpy(out->ip, a->addr.p, a->addr.len);
	return true;
}

/* A record for a name that SWIM does not know: fresh, or one that Serf still shows. */
static struct node *
enlist(struct swim *s, const struct wire_alive *a, const struct addr *addr)
{
	const uint8_t *vsn = a->vsn.len >= WIRE_VSN_BYTES ? a->vsn.p : NULL;
	struct node *n = table_find(&s->table, a->node);
	enum tv_err err = n == NULL ? table_add(&s->table, a->node, a->meta, addr, vsn, &n) : TV_OK;

	if (err == TV_ELIMIT && s->serf->make_room(s))
		err = table_add(&s->table, a->node, a->meta, addr, vsn, &n);
	if (err == TV_ELIMIT) {
		s->stats.over_members++;
		out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_FULL, .name = a->node });
		return NULL;
	}
	if (err != TV_OK) {
		s->stats.no_memory++;
		return NULL;
	}
	table_list(&s->table, n, &s->rng);
	pushpull_news(s);
	n->changed = s->now;
	return n;
}

/* May the name move to another address?  Once its owner has left, or is dead for long enough. */
static bool
may_move(const struct swim *s, const struct node *n)
{
	struct mono reclaim = s->opt.timing.dead_reclaim;

	if (n->state == NODE_LEFT)
		return true;
	return n->state == NODE_DEAD && reclaim.ns > 0 && !mono_before(s->now, mono_add(n->changed, reclaim));
}

void
member_conflict(struct swim *s, struct node *n, struct span name, const struct addr *claimed, bool copy)
{
	struct span other = span_eq(name, node_name(n)) ? SPAN_NONE : name;

	s->stats.conflicts++;
	out_notice(s, &(struct swim_notice){
		.type = n == s->self ? SWIM_NOTICE_SELF_CONFLICT : SWIM_NOTICE_CONFLICT,
		.name = node_name(n), .other = other, .addr = *node_addr(n), .other_addr = *claimed });
	if (n != s->self)
		return;
	for (struct join_run *j = s->joins; j != NULL; j = j->next)
		j->rival = *claimed;
	s->serf->name_claimed(s, other, claimed, copy);
}

static void
alive_self(struct swim *s, const struct wire_alive *a)
{
	uint8_t vsn[WIRE_VSN_BYTES];

	if (leave_begun(s) || a->incarnation < s->incarnation)
		return;
	wire_vsn_copy(a->vsn, vsn);
	if (a->incarnation == s->incarnation && span_eq(a->meta, node_meta(s->self)) &&
	    memcmp(vsn, node_vsn(s->self), sizeof(vsn)) == 0)
		return;
	swim_refute(s, a->incarnation);
}

/* The message won: take over what it says, pass it on, and tell Serf. */
static void
alive_take(struct swim *s, struct node *n, const struct wire_alive *a, const struct addr *addr)
{
	bool was_gone = n->state == NODE_DEAD || n->state == NODE_LEFT;
	bool new_meta = !span_eq(a->meta, node_meta(n)), moved = !addr_eq(addr, node_addr(n));
	const uint8_t *vsn = a->vsn.len >= WIRE_VSN_BYTES ? a->vsn.p : node_vsn(n);

	if (table_set(&s->table, n, a->meta, addr, vsn) != TV_OK) {
		s->stats.no_memory++;
		return;
	}
	if (moved)
		place_forget(n);	/* it was that of another machine */
	if (n->suspicion != NULL) {
		accuser_credit_refuted(s, n->suspicion);
		out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_SPOKE_UP, .name = a->node,
			.number = a->incarnation });
	}
	suspicion_drop(s, n);
	n->incarnation = a->incarnation;
	node_move(n, NODE_ALIVE, s->now);
	note_ours(s, n);
	queue_alive(s, n);
	if (was_gone)
		s->serf->join(s, n);
	else if (new_meta || moved)
		s->serf->update(s, n);
}

void
swim_take_move(struct swim *s, struct node *n, const struct wire_alive *a, const struct addr *addr)
{
	if (!node_listed(&s->table, n))
		return;		/* forgotten by SWIM meanwhile: it joins anew */
	if (!swim_dc_ok(s, a->meta)) {
		s->stats.wrong_dc++;
		return;
	}
	probe_forget(s, n);	/* it asked the former address */
	alive_take(s, n, a, addr);
}

void
swim_alive(struct swim *s, const struct wire_alive *a)
{
	struct node *n = table_find(&s->table, a->node), *twin;
	bool listed = n != NULL && node_listed(&s->table, n), moved = false;
	struct addr addr;

	if (!swim_name_ok(a->node) || !addr_of(s, a, &addr)) {
		s->stats.bad_message++;
		return;
	}
	if (!wire_vsn_usable(a->vsn)) {
		s->stats.bad_vsn++;
		return;
	}
	if (!plausible(s, a->incarnation, listed ? n->incarnation : 0))
		return;
	if (listed && !addr_eq(&addr, node_addr(n))) {
		if (!may_move(s, n)) {
			if (!s->serf->moved(s, n, a, &addr))
				member_conflict(s, n, a->node, &addr, false);
			return;
		}
		moved = true;
	}
	if (n == s->self) {
		alive_self(s, a);
		return;
	}
	if (!moved && a->incarnation <= (listed ? n->incarnation : 0))
		return;
	if (!swim_dc_ok(s, a->meta)) {
		s->stats.wrong_dc++;
		return;
	}
	if ((twin = twin_of(s, n, a, &addr)) != NULL) {
		member_conflict(s, twin, a->node, &addr, false);
		return;
	}
	if (!listed && (n = enlist(s, a, &addr)) == NULL)
		return;
	alive_take(s, n, a, &addr);
}

void
swim_suspect(struct swim *s, const struct wire_accuse *m)
{
	struct node *n = table_find(&s->table, m->node);

	if (n == NULL || !node_listed(&s->table, n) || m->incarnation < n->incarnation ||
	    !plausible(s, m->incarnation, n->incarnation))
		return;
	if (n->suspicion != NULL) {
		if (suspicion_confirm(s, n, m->from)) {
			queue_accuse(s, n, m, wire_put_suspect);
			out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_CONFIRMED, .name = m->node,
				.other = m->from, .number = n->suspicion->seen, .number2 = n->suspicion->need });
		}
		return;
	}
	if (n->state != NODE_ALIVE)
		return;
	if (n == s->self) {
		out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_SUSPECTED, .name = m->from });
		swim_refute(s, m->incarnation);
		return;
	}
	if (!accuser_credit_believed(s, n, m) || !suspicion_start(s, n, m->from))
		return;
	if (!span_eq(m->from, s->opt.name))
		out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_ACCUSED, .name = m->node, .other = m->from,
			.number = m->incarnation });
	queue_accuse(s, n, m, wire_put_suspect);
	n->incarnation = m->incarnation;
	node_move(n, NODE_SUSPECT, s->now);
}

void
swim_dead(struct swim *s, const struct wire_accuse *m)
{
	struct node *n = table_find(&s->table, m->node);
	bool by_itself = span_eq(m->node, m->from);	/* it leaves */

	if (n == NULL || !node_listed(&s->table, n) || m->incarnation < n->incarnation ||
	    !plausible(s, m->incarnation, n->incarnation))
		return;
	if (n->state == NODE_DEAD || n->state == NODE_LEFT)
		return;
	if (n == s->self && s->leave < LEAVE_DEAD) {
		out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_SUSPECTED, .name = m->from });
		swim_refute(s, m->incarnation);
		return;
	}
	if (n->state == NODE_ALIVE && !(by_itself && n->status == MEMBER_LEAVING) && !accuser_credit_believed(s, n, m))
		return;
	if (!by_itself && !span_eq(m->from, s->opt.name))
		out_notice(s, &(struct swim_notice){ .type = SWIM_NOTICE_DECLARED, .name = m->node, .other = m->from,
			.number = m->incarnation });
	queue_accuse(s, n, m, wire_put_dead);
	suspicion_drop(s, n);
	n->incarnation = m->incarnation;
	node_move(n, by_itself ? NODE_LEFT : NODE_DEAD, s->now);
	s->serf->leave(s, n);
}

/*
 * Who accuses us with an incarnation that we have left behind missed our refutation: told again, directly, since
 * gossip has failed to.
 */
static void
answer_stale(struct swim *s, const struct wire_accuse *m, const struct addr *from)
{
	if (m->incarnation >= s->incarnation || leave_begun(s) || !span_eq(m->node, s->opt.name))
		return;
	put_alive(s, s->self);
	out_send(s, from, buf_span(&s->scratch), false);
}

enum tv_err
member_on_alive(struct swim *s, const struct addr *from UNUSED, struct span body)
{
	struct wire_alive m;
	enum tv_err err = wire_get_alive(body, &s->out.arena, &m);

	if (err == TV_OK)
		swim_alive(s, &m);
	return err;
}

static enum tv_err
on_accuse(struct swim *s, const struct addr *from, struct span body,
    void (*accuse)(struct swim *s, const struct wire_accuse *m))
{
	struct wire_accuse m;
	enum tv_err err = wire_get_accuse(body, &s->out.arena, &m);

	if (err == TV_OK) {
		accuse(s, &m);
		answer_stale(s, &m, from);
	}
	return err;
}

enum tv_err
member_on_suspect(struct swim *s, const struct addr *from, struct span body)
{
	return on_accuse(s, from, body, swim_suspect);
}

enum tv_err
member_on_dead(struct swim *s, const struct addr *from, struct span body)
{
	return on_accuse(s, from, body, swim_dead);
}

/* -- records that are needed no more -- */

void
swim_drop_if_unused(struct swim *s, struct node *n)
{
	if (node_listed(&s->table, n) || n->status != MEMBER_NONE)
		return;
	s->serf->dropped(s, n);
	twins_drop(&s->twins, &s->table, n);
	table_remove(&s->table, n);
}

void
swim_forget(struct swim *s, struct node *n)
{
	TV_ASSERT(n != s->self);
	probe_forget(s, n);
	suspicion_drop(s, n);
	table_unlist(&s->table, n);
	swim_drop_if_unused(s, n);
}
