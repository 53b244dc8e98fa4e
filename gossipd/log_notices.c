/* What the core tells, as log lines; see log_notices.h. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "gossipd/log_notices.h"
#include "gossipd/net.h"

#define NAME_TEXT_BYTES (NODE_NAME_BYTES_MAX * 4 + 1)
#define SPELLED_BYTES (NAME_TEXT_BYTES + 64)

void
log_event(const struct swim_event *ev)
{
	static const char *const names[] = {
		[GOSSIP_EV_JOIN] = "EventMemberJoin", [GOSSIP_EV_UPDATE] = "EventMemberUpdate",
		[GOSSIP_EV_LEAVE] = "EventMemberLeave", [GOSSIP_EV_FAILED] = "EventMemberFailed",
		[GOSSIP_EV_REAP] = "EventMemberReap",
	};
	char name[NAME_TEXT_BYTES], ip[NET_TEXT_BYTES];

	log_info("serf", "%s: %s %s", names[ev->type], log_safe(ev->member.name, name, sizeof(name)),
	    net_ip(&ev->member.addr, ip));
}

/* One function per kind of notice: the name is already safe. */
static void
log_suspect(const struct swim_notice *n, const char *name)
{
	log_info("memberlist", "Suspect %s has failed, no acks received (none to us, none through %" PRIu64 " others, "
	    "of which %" PRIu64 " say that they cannot reach it either; %s)", name, n->number, n->number2, n->text);
}

static void
log_accused(const struct swim_notice *n, const char *name)
{
	char other[NAME_TEXT_BYTES];

	log_info("memberlist", "Suspect %s: reported failed by %s (incarnation %" PRIu64 ")", name,
	    log_safe(n->other, other, sizeof(other)), n->number);
}

static void
log_confirmed(const struct swim_notice *n, const char *name)
{
	char other[NAME_TEXT_BYTES];

	log_debug("memberlist", "Suspect %s: confirmed by %s (%" PRIu64 " of %" PRIu64 " confirmations)", name,
	    log_safe(n->other, other, sizeof(other)), n->number, n->number2);
}

static void
log_not_believed(const struct swim_notice *n, const char *name)
{
	char other[NAME_TEXT_BYTES];

	log_warn("memberlist", "Ignoring suspicion: %s reports that %s has failed, and reports too many: does it "
	    "receive messages?",
	    log_safe(n->other, other, sizeof(other)), name);
}

static void
log_spoke_up(const struct swim_notice *n, const char *name)
{
	log_info("memberlist", "%s is no longer suspected: it refuted the suspicion (incarnation %" PRIu64 ")", name,
	    n->number);
}

static void
log_declared(const struct swim_notice *n, const char *name)
{
	char other[NAME_TEXT_BYTES];

	log_debug("memberlist", "%s has failed, reported by %s (incarnation %" PRIu64 ")", name,
	    log_safe(n->other, other, sizeof(other)), n->number);
}

static void
log_suspected(const struct swim_notice *n, const char *name)
{
	(void)n;
	log_warn("memberlist", "Refuting a suspect message (from: %s)", name);
}

static void
say_dead(const struct swim_notice *n, const char *name)
{
	log_info("memberlist", "Marking %s as failed, suspect timeout reached (%" PRIu64 " peer confirmations)", name,
	    n->number);
}

static void
log_stream_only(const struct swim_notice *n, const char *name)
{
	(void)n;
	log_warn("memberlist", "%s answers over TCP but not over UDP: is UDP blocked between the nodes?", name);
}

/* How the rival spells the name, for the end of its address: empty when as we know it. */
static const char *
spelled(const struct swim_notice *n, char text[SPELLED_BYTES])
{
	char other[NAME_TEXT_BYTES];

	text[0] = '\0';
	if (n->other.len > 0)
		snprintf(text, SPELLED_BYTES, " (as %s: names are compared without case)",
		    log_safe(n->other, other, sizeof(other)));
	return text;
}

static void
log_conflict(const struct swim_notice *n, const char *name)
{
	char ours[NET_TEXT_BYTES], theirs[NET_TEXT_BYTES], other[SPELLED_BYTES];

	log_err("memberlist", "Name conflict: %s is at %s, and claimed by %s%s: the latter needs another node_name",
	    name, net_text(&n->addr, ours), net_text(&n->other_addr, theirs), spelled(n, other));
}

static void
log_self_conflict(const struct swim_notice *n, const char *name)
{
	char ours[NET_TEXT_BYTES], theirs[NET_TEXT_BYTES], other[SPELLED_BYTES];

	log_err("memberlist", "Name conflict: our own name %s (%s) is claimed by %s%s too: the members decide",
	    name, net_text(&n->addr, ours), net_text(&n->other_addr, theirs), spelled(n, other));
}

const char *
log_refusal(const struct swim_notice *n, char *text, size_t cap)
{
	char name[NAME_TEXT_BYTES], theirs[NAME_TEXT_BYTES], ours[NAME_TEXT_BYTES];

	(void)log_safe(n->name, name, sizeof(name));
	if (n->other.len > 0)
		snprintf(text, cap, "%s: %s is in datacenter \"%s\", this node in \"%s\" (datacenter in cluster.conf)",
		    n->text, name, log_safe(n->other, theirs, sizeof(theirs)), log_safe(n->dc, ours, sizeof(ours)));
	else
		snprintf(text, cap, "%s%s%s", n->text, name[0] != '\0' ? ": " : "", name);
	return text;
}

static void
log_refused(const struct swim_notice *n, const char *name)
{
	char addr[NET_TEXT_BYTES], text[LOG_REFUSAL_BYTES];

	(void)name;
	log_warn("memberlist", "Exchange with %s refused: %s", net_text(&n->addr, addr),
	    log_refusal(n, text, sizeof(text)));
}

static void
log_exchange_failed(const struct swim_notice *n, const char *name)
{
	char text[NET_TEXT_BYTES];

	(void)name;
	log_debug("memberlist", "Exchange with %s failed: %s", net_text(&n->addr, text), tv_strerror(n->error));
}

static void
log_full(const struct swim_notice *n, const char *name)
{
	(void)n;
	log_warn("memberlist", "%s refused: the pool has limits.members members", name);
}

static void
log_stall(const struct swim_notice *n, const char *name)
{
	(void)name;
	log_warn("memberlist", "This process was suspended for %" PRIu64 " ms; other members are not suspected for it",
	    n->number);
}

static void
log_leave_refuted(const struct swim_notice *n, const char *name)
{
	(void)n;
	(void)name;
	log_warn("serf", "Refuting an older leave intent");
}

static void
log_rekey(const struct swim_notice *n, const char *name)
{
	(void)n;
	(void)name;
	log_warn("memberlist", "Own incarnation has wrapped around; messages in the pool are forged");
}

static void
log_moved(const struct swim_notice *n, const char *name)
{
	char from[NET_TEXT_BYTES], to[NET_TEXT_BYTES];

	log_info("memberlist", "%s has moved from %s, which does not answer, to %s", name, net_text(&n->addr, from),
	    net_text(&n->other_addr, to));
}

static void
log_self_moved(const struct swim_notice *n, const char *name)
{
	char from[NET_TEXT_BYTES], to[NET_TEXT_BYTES];

	log_info("memberlist", "Members know this node (%s) at %s, which does not answer: announcing %s", name,
	    net_text(&n->addr, from), net_text(&n->other_addr, to));
}

static void
log_name_kept(const struct swim_notice *n, const char *name)
{
	char ours[NET_TEXT_BYTES], theirs[NET_TEXT_BYTES], other[SPELLED_BYTES];

	log_warn("serf", "Majority in name conflict resolution: %" PRIu64 " members know %s at %s, not at %s%s: give "
	    "that node another node_name", n->number, name, net_text(&n->addr, ours),
	    net_text(&n->other_addr, theirs), spelled(n, other));
}

static void
log_name_lost(const struct swim_notice *n, const char *name)
{
	char ours[NET_TEXT_BYTES], theirs[NET_TEXT_BYTES], other[SPELLED_BYTES];

	log_err("serf", "Minority in name conflict resolution: %" PRIu64 " members do not know %s at %s; claimed by "
	    "%s%s: this node needs another node_name", n->number, name, net_text(&n->addr, ours),
	    net_text(&n->other_addr, theirs), spelled(n, other));
}

static void
log_name_open(const struct swim_notice *n, const char *name)
{
	char ours[NET_TEXT_BYTES], theirs[NET_TEXT_BYTES], other[SPELLED_BYTES];

	log_err("serf", "Name conflict not resolved: %" PRIu64 " members voted on whether %s is at %s or at %s%s; "
	    "staying, and voting again when it is next claimed", n->number, name, net_text(&n->addr, ours),
	    net_text(&n->other_addr, theirs), spelled(n, other));
}

static void (*const sayers[SWIM_NOTICES])(const struct swim_notice *, const char *) = {
	[SWIM_NOTICE_SUSPECT] = log_suspect,
	[SWIM_NOTICE_ACCUSED] = log_accused,
	[SWIM_NOTICE_CONFIRMED] = log_confirmed,
	[SWIM_NOTICE_NOT_BELIEVED] = log_not_believed,
	[SWIM_NOTICE_SPOKE_UP] = log_spoke_up,
	[SWIM_NOTICE_DECLARED] = log_declared,
	[SWIM_NOTICE_SUSPECTED] = log_suspected,
	[SWIM_NOTICE_DEAD] = say_dead,
	[SWIM_NOTICE_STREAM_ONLY] = log_stream_only,
	[SWIM_NOTICE_CONFLICT] = log_conflict,
	[SWIM_NOTICE_SELF_CONFLICT] = log_self_conflict,
	[SWIM_NOTICE_REFUSED] = log_refused,
	[SWIM_NOTICE_EXCHANGE_FAILED] = log_exchange_failed,
	[SWIM_NOTICE_FULL] = log_full,
	[SWIM_NOTICE_STALL] = log_stall,
	[SWIM_NOTICE_LEAVE_REFUTED] = log_leave_refuted,
	[SWIM_NOTICE_REKEY] = log_rekey,
	[SWIM_NOTICE_MOVED] = log_moved,
	[SWIM_NOTICE_SELF_MOVED] = log_self_moved,
	[SWIM_NOTICE_NAME_KEPT] = log_name_kept,
	[SWIM_NOTICE_NAME_LOST] = log_name_lost,
	[SWIM_NOTICE_NAME_OPEN] = log_name_open,
};

void
log_notice(struct log_limits *l, const struct swim_notice *n)
{
	char name[NAME_TEXT_BYTES];

	if (log_allow(&l->by_type[n->type], "memberlist"))
		sayers[n->type](n, log_safe(n->name, name, sizeof(name)));
}
