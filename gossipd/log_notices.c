/* What the core tells, as log lines; see log_notices.h. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "gossipd/log_notices.h"
#include "gossipd/net.h"

#define NAME_TEXT_BYTES (NODE_NAME_BYTES_MAX * 4 + 1)
#define LINE_BYTES (LOG_REFUSAL_BYTES + 4 * NAME_TEXT_BYTES)	/* longer than any line */

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

/* The line of each kind of notice; {field} is that of the notice, and some are made of several. */
static const struct {
	void (*log)(const char *tag, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
	const char *tag, *text;
} lines[SWIM_NOTICES] = {
	[SWIM_NOTICE_SUSPECT] = { log_info, "memberlist", "Suspect {name} has failed, no acks received (none to us, "
	    "none through {number} others, of which {number2} say that they cannot reach it either; {text})" },
	[SWIM_NOTICE_ACCUSED] = { log_info, "memberlist", "Suspect {name}: reported failed by {other} (incarnation "
	    "{number})" },
	[SWIM_NOTICE_CONFIRMED] = { log_debug, "memberlist", "Suspect {name}: confirmed by {other} ({number} of "
	    "{number2} confirmations)" },
	[SWIM_NOTICE_NOT_BELIEVED] = { log_warn, "memberlist", "Ignoring suspicion: {other} reports that {name} has "
	    "failed, and reports too many: does it receive messages?" },
	[SWIM_NOTICE_SPOKE_UP] = { log_info, "memberlist", "{name} is no longer suspected: it refuted the suspicion "
	    "(incarnation {number})" },
	[SWIM_NOTICE_DECLARED] = { log_debug, "memberlist", "{name} has failed, reported by {other} (incarnation "
	    "{number})" },
	[SWIM_NOTICE_SUSPECTED] = { log_warn, "memberlist", "Refuting a suspect message (from: {name})" },
	[SWIM_NOTICE_DEAD] = { log_info, "memberlist", "Marking {name} as failed, suspect timeout reached ({number} "
	    "peer confirmations)" },
	[SWIM_NOTICE_STREAM_ONLY] = { log_warn, "memberlist", "{name} answers over TCP but not over UDP: is UDP "
	    "blocked between the nodes?" },
	[SWIM_NOTICE_CONFLICT] = { log_err, "memberlist", "Name conflict: {name} is at {addr}, and claimed by "
	    "{other_addr}{spelled}: the latter needs another node_name" },
	[SWIM_NOTICE_SELF_CONFLICT] = { log_err, "memberlist", "Name conflict: our own name {name} ({addr}) is "
	    "claimed by {other_addr}{spelled} too: the members decide" },
	[SWIM_NOTICE_REFUSED] = { log_warn, "memberlist", "Exchange with {addr} refused: {refusal}" },
	[SWIM_NOTICE_EXCHANGE_FAILED] = { log_debug, "memberlist", "Exchange with {addr} failed: {error}" },
	[SWIM_NOTICE_FULL] = { log_warn, "memberlist", "{name} refused: the pool has limits.members members" },
	[SWIM_NOTICE_STALL] = { log_warn, "memberlist", "This process was suspended for {number} ms; other members "
	    "are not suspected for it" },
	[SWIM_NOTICE_LEAVE_REFUTED] = { log_warn, "serf", "Refuting an older leave intent" },
	[SWIM_NOTICE_REKEY] = { log_warn, "memberlist", "Own incarnation has wrapped around; messages in the pool "
	    "are forged" },
	[SWIM_NOTICE_MOVED] = { log_info, "memberlist", "{name} has moved from {addr}, which does not answer, to "
	    "{other_addr}" },
	[SWIM_NOTICE_SELF_MOVED] = { log_info, "memberlist", "Members know this node ({name}) at {addr}, which does "
	    "not answer: announcing {other_addr}" },
	[SWIM_NOTICE_NAME_KEPT] = { log_warn, "serf", "Majority in name conflict resolution: {number} members know "
	    "{name} at {addr}, not at {other_addr}{spelled}: give that node another node_name" },
	[SWIM_NOTICE_NAME_LOST] = { log_err, "serf", "Minority in name conflict resolution: {number} members do not "
	    "know {name} at {addr}; claimed by {other_addr}{spelled}: this node needs another node_name" },
	[SWIM_NOTICE_NAME_OPEN] = { log_err, "serf", "Name conflict not resolved: {number} members voted on whether "
	    "{name} is at {addr} or at {other_addr}{spelled}; staying, and voting again when it is next claimed" },
};

/* How the rival spells the name, for the end of its address: empty when as we know it. */
static void
put_spelled(struct buf *b, const struct swim_notice *n)
{
	char other[NAME_TEXT_BYTES];

	if (n->other.len > 0)
		buf_printf(b, " (as %s: names are compared without case)", log_safe(n->other, other, sizeof(other)));
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
put_field(struct buf *b, const struct swim_notice *n, struct span field)
{
	char text[LOG_REFUSAL_BYTES];
	_Static_assert(NAME_TEXT_BYTES <= LOG_REFUSAL_BYTES && NET_TEXT_BYTES <= LOG_REFUSAL_BYTES, "text");

	if (span_eqs(field, "name"))
		buf_puts(b, log_safe(n->name, text, NAME_TEXT_BYTES));
	else if (span_eqs(field, "other"))
		buf_puts(b, log_safe(n->other, text, NAME_TEXT_BYTES));
	else if (span_eqs(field, "addr"))
		buf_puts(b, net_text(&n->addr, text));
	else if (span_eqs(field, "other_addr"))
		buf_puts(b, net_text(&n->other_addr, text));
	else if (span_eqs(field, "number"))
		buf_printf(b, "%" PRIu64, n->number);
	else if (span_eqs(field, "number2"))
		buf_printf(b, "%" PRIu64, n->number2);
	else if (span_eqs(field, "text"))
		buf_puts(b, n->text);
	else if (span_eqs(field, "error"))
		buf_puts(b, tv_strerror(n->error));
	else if (span_eqs(field, "spelled"))
		put_spelled(b, n);
	else if (span_eqs(field, "refusal"))
		buf_puts(b, log_refusal(n, text, sizeof(text)));
	else
		TV_ASSERT(!"a field of this name");
}

void
log_notice(struct log_limits *l, const struct swim_notice *n)
{
	char bytes[LINE_BYTES];
	struct buf b = { (uint8_t *)bytes, 0, sizeof(bytes) - 1, sizeof(bytes) - 1, false, false };

	if (!log_allow(&l->by_type[n->type], "memberlist"))
		return;
	for (const char *at = lines[n->type].text; *at != '\0';) {
		size_t plain = strcspn(at, "{"), field = at[plain] == '{' ? strcspn(at + plain, "}") : 0;

		buf_put(&b, at, plain);
		if (field > 0)
			put_field(&b, n, span_of((const uint8_t *)at + plain + 1, field - 1));
		at += plain + field + (field > 0);
	}
	bytes[b.len] = '\0';
	lines[n->type].log(lines[n->type].tag, "%s", bytes);
}
