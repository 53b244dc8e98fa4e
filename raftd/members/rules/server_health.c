/* Health of servers. */
#include <inttypes.h>

#include "common/text/duration.h"
#include "raftd/members/rules/server_health.h"

#define MS 1000000

enum fault {
	FAILED = 1,		/* by gossip */
	NOT_ALIVE = 2,		/* by gossip: it left, or is not known */
	UNLINKED = 4,
	SILENT = 8,
	OTHER_TERM = 16,
	BEHIND = 32,
	FULL = 64,
	NO_RPCD = 128,
	SILENT_RPCD = 256,
	NO_GOSSIPD = 512,		/* of the server that looks; of another gossip says that it failed */
	SILENT_GOSSIPD = 1024,
	WENT_BACK = 2048,
	BESIDE = NO_RPCD | SILENT_RPCD | NO_GOSSIPD | SILENT_GOSSIPD,
	OUT_OF_TOUCH = FAILED | NOT_ALIVE | UNLINKED,
	AT_ONCE = OUT_OF_TOUCH | WENT_BACK,	/* what no second look is needed for */
};

const struct server_health_record *
server_health_find(const struct server_health_book *b, raft_id id)
{
	for (unsigned i = 0; i < b->count; i++)
		if (b->records[i].id == id)
			return &b->records[i];
	return NULL;
}

static uint64_t
lag(const struct server_health_facts *f, const struct server_health_bounds *b)
{
	return f->index >= b->index_before ? 0 : b->index_before - f->index;
}

/* All that stands against it now: bits of enum fault. */
static unsigned
faults_of(const struct server_health_facts *f, const struct server_health_bounds *b)
{
	unsigned faults = (f->full ? FULL : 0) | (f->went_back ? WENT_BACK : 0);

	faults |= f->rpcd == DAEMON_AWAY ? NO_RPCD : f->rpcd == DAEMON_SILENT ? SILENT_RPCD : 0;
	faults |= f->gossipd == DAEMON_AWAY ? NO_GOSSIPD : f->gossipd == DAEMON_SILENT ? SILENT_GOSSIPD : 0;
	if (f->self)
		return faults;
	if (!f->alive)
		faults |= f->failed ? FAILED : NOT_ALIVE;
	if (!f->linked)
		faults |= UNLINKED;
	if (b->contact_ns > 0 && f->silent_ns > b->contact_ns)
		faults |= SILENT;
	if (f->term != b->term)
		faults |= OTHER_TERM;
	if (b->trailing > 0 && lag(f, b) > b->trailing)
		faults |= BEHIND;
	return faults;
}

/* One look that finds what may pass does not change that all was well. */
static bool
is_well(bool was, unsigned faults, unsigned before)
{
	return faults == 0 || (was && (faults & AT_ONCE) == 0 && before == 0);
}

static void
judge_server(struct server_health_record *r, const struct server_health_facts *f, const struct server_health_bounds *b, struct mono now,
    int64_t wall_ns)
{
	unsigned faults = faults_of(f, b);
	bool first = r->id == 0;
	bool healthy = is_well(!first && r->healthy, faults, r->faults);
	bool fit = is_well(!first && r->fit, faults & ~BESIDE, r->faults & ~BESIDE);

	r->faults = faults;
	r->facts = *f;
	if (first || healthy != r->healthy) {
		r->since = now;
		r->since_wall = wall_ns;
	}
	if (first || fit != r->fit)
		r->fit_since = now;
	r->fit = fit;
	r->id = f->id;
	r->voter = f->voter;
	r->healthy = healthy;
	if (f->self || !f->failed || f->linked)
		r->dead_since = MONO_ZERO;
	else if (r->dead_since.ns == 0)
		r->dead_since = now;
}

void
server_health_update(struct server_health_book *b, const struct server_health_facts *f, unsigned count, const struct server_health_bounds *bounds,
    struct mono now, int64_t wall_ns)
{
	struct server_health_book next = { .count = count, .bounds = *bounds };

	for (unsigned i = 0; i < count; i++) {
		const struct server_health_record *old = server_health_find(b, f[i].id);

		if (old != NULL)
			next.records[i] = *old;
		judge_server(&next.records[i], &f[i], bounds, now, wall_ns);
	}
	*b = next;
}

static void
put_age(struct buf *out, const char *before, int64_t ns, const char *after)
{
	buf_puts(out, before);
	duration_print(ns < MS ? ns : ns / MS * MS, out);
	buf_puts(out, after);
}

/* What needs no number. */
static const char *
fault_text(unsigned fault)
{
	switch (fault) {
	case FAILED:
		return "gossip reports it failed";
	case NOT_ALIVE:
		return "gossip does not report it alive";
	case UNLINKED:
		return "no raft link to it is up";
	case FULL:
		return "its disk is full";
	case NO_RPCD:
		return "its rpcd does not run";
	case SILENT_RPCD:
		return "its rpcd does not answer";
	case NO_GOSSIPD:
		return "its gossipd does not run";
	case SILENT_GOSSIPD:
		return "its gossipd does not answer";
	case WENT_BACK:
		return "its disk went back to an older state (a reverted snapshot of a virtual machine?), so its vote does not count "
		    "until it has caught up";
	default:
		return NULL;
	}
}

/* A server that is out of touch cannot keep up either: then only the former is said. */
static void
put_faults(struct buf *out, unsigned faults, const struct server_health_facts *f, const struct server_health_bounds *b)
{
	if ((faults & OUT_OF_TOUCH) != 0)
		faults &= OUT_OF_TOUCH;
	for (unsigned fault = 1; fault <= faults; fault <<= 1) {
		if ((faults & fault) == 0)
			continue;
		if (out->len > 0)
			buf_puts(out, "; ");
		if (fault_text(fault) != NULL) {
			buf_puts(out, fault_text(fault));
		} else if (fault == SILENT) {
			put_age(out, f->never ? "no contact for " : "last contact ", f->silent_ns, f->never ? ", " : " ago, ");
			put_age(out, "", b->contact_ns, " allowed");
		} else if (fault == OTHER_TERM && f->term == 0) {
			buf_puts(out, "the end of its log is not known yet");
		} else if (fault == OTHER_TERM) {
			buf_printf(out, "its log ends in term %" PRIu64 ", the leader's in term %" PRIu64, f->term,
			    b->term);
		} else {
			buf_printf(out, "its log is %" PRIu64 " entries behind, %" PRIu64 " allowed", lag(f, b),
			    b->trailing);
		}
	}
}

void
server_health_why(const struct server_health_book *b, raft_id id, struct buf *out)
{
	const struct server_health_record *r = server_health_find(b, id);

	if (r == NULL)
		buf_puts(out, "not checked yet");
	else if (!r->healthy)
		put_faults(out, faults_of(&r->facts, &b->bounds), &r->facts, &b->bounds);
}

static bool
is_healthy(const struct server_health_book *b, raft_id id)
{
	const struct server_health_record *r = server_health_find(b, id);

	return r != NULL && r->healthy;
}

bool
server_health_all(const struct server_health_book *b, const struct raft_config *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (!is_healthy(b, c->servers[i].id))
			return false;
	return c->count > 0;
}

static bool
voters_fit(const struct server_health_book *b)
{
	unsigned voters = 0, fit = 0;

	for (unsigned i = 0; i < b->count; i++) {
		voters += b->records[i].voter;
		fit += b->records[i].voter && b->records[i].fit;
	}
	return voters > 0 && voters == fit;
}

unsigned
server_health_tolerance(const struct server_health_book *b, const struct raft_config *c)
{
	unsigned voters = 0, healthy = 0, quorum;

	for (unsigned i = 0; i < c->count; i++) {
		voters += c->servers[i].voter;
		healthy += c->servers[i].voter && is_healthy(b, c->servers[i].id);
	}
	quorum = voters / 2 + 1;
	return healthy > quorum ? healthy - quorum : 0;
}

bool
server_health_may_vote(const struct server_health_book *b, raft_id id, struct mono stabilization, struct mono leading,
    struct mono now)
{
	const struct server_health_record *r = server_health_find(b, id);

	if (r == NULL || !r->fit)
		return false;
	if (mono_sub(now, r->fit_since).ns >= stabilization.ns)
		return true;
	return leading.ns < stabilization.ns && voters_fit(b);
}
