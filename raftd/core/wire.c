/*
 * Bytes of a raft_msg.  Little endian; every type has a fixed list of field groups, so a message has one encoding:
 *   u8 version (1) | u8 type | u8 flags | u64 from | u64 to | u64 term | groups of the type, in the order below
 * Entries carry no index: it follows from log_index.  Reading copies nothing.
 */
#include "raftd/core/raft_int.h"

#define WIRE_VERSION 1

enum {				/* field groups, in wire order */
	G_LOG = 1 << 0,		/* u64 log_index, u64 log_term */
	G_COMMIT = 1 << 1,	/* u64 commit, u64 leader_last */
	G_SEQ = 1 << 2,		/* u64 seq */
	G_MATCH = 1 << 3,	/* u64 match */
	G_HINT = 1 << 4,	/* u64 hint_index, u64 hint_term */
	G_OFFSET = 1 << 5,	/* u64 offset */
	G_CHUNK = 1 << 6,	/* u64 total, u64 checksum, u32 length and config, u32 length and data */
	G_ENTRIES = 1 << 7,	/* u32 count, count x { u64 term, u8 type, u32 length and payload } */
};

enum { F_GRANTED = 1, F_TRANSFER = 2, F_DONE = 4, F_FULL = 8, F_STATELESS = 16, F_ALL = 31 };

static const unsigned groups[] = {
	[RAFT_MSG_PRE_VOTE] = G_LOG,
	[RAFT_MSG_PRE_VOTE_REPLY] = 0,
	[RAFT_MSG_VOTE] = G_LOG,
	[RAFT_MSG_VOTE_REPLY] = 0,
	[RAFT_MSG_APPEND] = G_LOG | G_COMMIT | G_SEQ | G_ENTRIES,
	[RAFT_MSG_APPEND_REPLY] = G_LOG | G_SEQ | G_MATCH | G_HINT,
	[RAFT_MSG_SNAPSHOT] = G_LOG | G_OFFSET | G_CHUNK,
	[RAFT_MSG_SNAPSHOT_REPLY] = G_LOG | G_MATCH | G_OFFSET,
	[RAFT_MSG_TIMEOUT_NOW] = G_LOG,
	[RAFT_MSG_READ_INDEX] = G_SEQ,
	[RAFT_MSG_READ_INDEX_REPLY] = G_SEQ | G_MATCH,
};

static bool
type_known(unsigned type)
{
	return type >= RAFT_MSG_PRE_VOTE && type < sizeof(groups) / sizeof(groups[0]);
}

static void
put_span(struct buf *b, struct span s)
{
	buf_u32le(b, (uint32_t)s.len);
	buf_putspan(b, s);
}

static void
put_entries(struct buf *b, const struct raft_msg *m)
{
	buf_u32le(b, m->entry_count);
	for (uint32_t i = 0; i < m->entry_count; i++) {
		const struct raft_entry *e = &m->entries[i];

		buf_u64le(b, e->term);
		buf_u8(b, e->type);
		put_span(b, span_of(e->payload, e->size));
	}
}

static void
put_groups(struct buf *b, const struct raft_msg *m, unsigned g)
{
	if (g & G_LOG) {
		buf_u64le(b, m->log_index);
		buf_u64le(b, m->log_term);
	}
	if (g & G_COMMIT) {
		buf_u64le(b, m->commit);
		buf_u64le(b, m->leader_last);
	}
	if (g & G_SEQ)
		buf_u64le(b, m->seq);
	if (g & G_MATCH)
		buf_u64le(b, m->match);
	if (g & G_HINT) {
		buf_u64le(b, m->hint_index);
		buf_u64le(b, m->hint_term);
	}
	if (g & G_OFFSET)
		buf_u64le(b, m->offset);
	if (g & G_CHUNK) {
		buf_u64le(b, m->total);
		buf_u64le(b, m->checksum);
		put_span(b, m->config);
		put_span(b, m->data);
	}
	if (g & G_ENTRIES)
		put_entries(b, m);
}

void
raft_msg_write(struct buf *b, const struct raft_msg *m)
{
	uint8_t flags = 0;

	if (!type_known(m->type)) {
		b->failed = true;
		return;
	}
	flags |= m->granted ? F_GRANTED : 0;
	flags |= m->transfer || m->unready ? F_TRANSFER : 0;
	flags |= m->done || m->went_back ? F_DONE : 0;
	flags |= m->full ? F_FULL : 0;
	flags |= m->stateless ? F_STATELESS : 0;
	buf_u8(b, WIRE_VERSION);
	buf_u8(b, (uint8_t)m->type);
	buf_u8(b, flags);
	buf_u64le(b, m->from);
	buf_u64le(b, m->to);
	buf_u64le(b, m->term);
	put_groups(b, m, groups[m->type]);
}

/* Appends and their answers need no F_DONE of their own: there it stands for went_back, which older servers do not look at. */
static bool
is_append(unsigned type)
{
	return type == RAFT_MSG_APPEND || type == RAFT_MSG_APPEND_REPLY;
}

static struct span
get_span(struct rd *rd)
{
	uint32_t len = rd_u32le(rd);

	return rd_bytes(rd, len);
}

static void
get_entries(struct rd *rd, struct raft_msg *m, struct raft_entry *entries, uint32_t entries_max)
{
	uint32_t count = rd_u32le(rd);

	if (count > entries_max)
		rd_fail(rd, TV_ELIMIT);
	if (m->log_index >= RAFT_NUMBER_MAX)
		rd_fail(rd, TV_EFORMAT);
	for (uint32_t i = 0; i < count && rd->err == TV_OK; i++) {
		struct raft_entry *e = &entries[i];
		struct span payload;

		e->index = m->log_index + 1 + i;
		e->term = rd_u64le(rd);
		e->type = rd_u8(rd);
		payload = get_span(rd);
		e->payload = payload.p;
		e->size = (uint32_t)payload.len;
	}
	if (rd->err != TV_OK)
		return;
	m->entry_count = count;
	m->entries = count > 0 ? entries : NULL;
}

static void
get_groups(struct rd *rd, struct raft_msg *m, unsigned g)
{
	if (g & G_LOG) {
		m->log_index = rd_u64le(rd);
		m->log_term = rd_u64le(rd);
	}
	if (g & G_COMMIT) {
		m->commit = rd_u64le(rd);
		m->leader_last = rd_u64le(rd);
	}
	if (g & G_SEQ)
		m->seq = rd_u64le(rd);
	if (g & G_MATCH)
		m->match = rd_u64le(rd);
	if (g & G_HINT) {
		m->hint_index = rd_u64le(rd);
		m->hint_term = rd_u64le(rd);
	}
	if (g & G_OFFSET)
		m->offset = rd_u64le(rd);
	if (g & G_CHUNK) {
		m->total = rd_u64le(rd);
		m->checksum = rd_u64le(rd);
		m->config = get_span(rd);
		m->data = get_span(rd);
	}
}

enum tv_err
raft_msg_read(struct span body, struct raft_msg *out, struct raft_entry *entries, uint32_t entries_max)
{
	struct rd rd = rd_span_over(body);
	uint8_t version = rd_u8(&rd), type = rd_u8(&rd), flags = rd_u8(&rd);

	*out = (struct raft_msg){ 0 };
	if (rd.err != TV_OK)
		return rd.err;
	if (version != WIRE_VERSION || !type_known(type) || (flags & ~F_ALL) != 0)
		return TV_EFORMAT;
	out->type = type;
	out->granted = (flags & F_GRANTED) != 0;
	out->unready = type == RAFT_MSG_APPEND_REPLY && (flags & F_TRANSFER) != 0;
	out->transfer = !out->unready && (flags & F_TRANSFER) != 0;
	out->went_back = is_append(type) && (flags & F_DONE) != 0;
	out->done = !out->went_back && (flags & F_DONE) != 0;
	out->full = (flags & F_FULL) != 0;
	out->stateless = (flags & F_STATELESS) != 0;
	out->from = rd_u64le(&rd);
	out->to = rd_u64le(&rd);
	out->term = rd_u64le(&rd);
	get_groups(&rd, out, groups[type]);
	if (groups[type] & G_ENTRIES)
		get_entries(&rd, out, entries, entries_max);
	return rd_end(&rd);
}
