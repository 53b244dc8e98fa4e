/*
 * Raft messages: the codec, then a server that receives them.
 *
 * The whole input is read as one message; what reads must write back to the same bytes.  Then the input is a list of
 * { u8 how, u16le length, message }: each is fed to a follower with a small log, with a modelled shell around it.
 * `how` & 3 says who sent it, bit 2 makes the election timer expire first, bit 3 corrects the term to the server's.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "raftd/core/raft.h"

#define ENTRIES_MAX 64
#define SELF 1

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
round_trip(struct span body)
{
	struct raft_entry entries[ENTRIES_MAX];
	struct buf b = BUF_INIT(1 << 20);
	struct raft_msg m;

	if (raft_msg_read(body, &m, entries, ENTRIES_MAX) == TV_OK) {
		raft_msg_write(&b, &m);
		TV_ASSERT(!b.failed && span_eq(buf_span(&b), body));
	}
	buf_done(&b);
}

struct server {
	struct raft *core;
	struct mono now, deadline;
	uint64_t last, last_term, epoch, commit;
};

static void
feed(struct server *s, struct raft_input *in, struct raft_output *out)
{
	struct raft_status st;

	in->now = s->now;
	raft_feed(s->core, in, out);
	raft_status(s->core, &st);
	TV_ASSERT(out->commit_index >= s->commit && out->commit_index <= st.last_index);
	TV_ASSERT(out->truncate_from == 0 || out->truncate_from > s->commit);
	s->commit = out->commit_index;
	s->deadline = out->deadline;
	s->last = st.last_index;
	s->last_term = st.last_term;
	s->epoch = out->write_epoch;
}

/* The shell: everything is durable, applied and installed at once. */
static void
act(struct server *s, struct raft_input *in)
{
	struct raft_output out;
	struct raft_input next = { .type = RAFT_IN_PERSISTED };
	const struct raft_msg *chunk;

	feed(s, in, &out);
	chunk = out.snapshot_chunk;
	next.index = s->last;
	next.term = s->last_term;
	next.ctx = s->epoch;
	feed(s, &next, &out);
	next = (struct raft_input){ .type = RAFT_IN_APPLIED, .index = s->commit };
	feed(s, &next, &out);
	if (chunk == NULL)
		return;
	next = (struct raft_input){ .type = RAFT_IN_SNAPSHOT_CHUNK, .msg = chunk, .offset = chunk->offset + chunk->data.len };
	feed(s, &next, &out);
	if (!chunk->done)
		return;
	next = (struct raft_input){ .type = RAFT_IN_SNAPSHOT_INSTALLED, .msg = chunk };
	s->commit = 0;
	feed(s, &next, &out);
}

static void
server_init(struct server *s)
{
	struct raft_options opt = {
		.self = SELF, .election_timeout = MONO_MS(300), .heartbeat = MONO_MS(60), .append_entries_max = 4,
		.append_bytes_max = 1000, .inflight_max = 4, .snapshot_chunk_bytes = 100, .catchup_rounds = 3, .seed = 1,
		.check_quorum = true, .pre_vote = true,
	};
	struct raft_restore from = { .term = 0 };
	struct raft_config c = { .count = 3 };
	struct raft_input in = { .type = RAFT_IN_BOOTSTRAP, .config = &c };

	for (unsigned i = 0; i < c.count; i++)
		c.servers[i] = (struct raft_server_conf){ .id = i + 1, .voter = true };
	*s = (struct server){ .now = MONO_S(1) };
	s->core = raft_new(&opt, &from, s->now);
	TV_ASSERT(s->core != NULL);
	act(s, &in);
}

static void
receive(struct server *s, uint8_t how, struct span body)
{
	struct raft_entry entries[ENTRIES_MAX];
	struct raft_msg m;
	struct raft_input in = { .type = RAFT_IN_TICK };
	struct raft_status st;

	if (how & 4) {
		s->now = s->deadline;
		act(s, &in);
	}
	s->now = mono_add(s->now, MONO_MS(1));
	if (raft_msg_read(body, &m, entries, ENTRIES_MAX) != TV_OK)
		return;
	raft_status(s->core, &st);
	m.to = SELF;
	m.from = how & 3;
	if (how & 8)
		m.term = st.term;
	in = (struct raft_input){ .type = RAFT_IN_MSG, .msg = &m };
	act(s, &in);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd r = rd_over(data, size);
	struct server s;

	round_trip(span_of(data, size));
	server_init(&s);
	while (rd_left(&r) > 3) {
		uint8_t how = rd_u8(&r);
		uint16_t len = rd_u16le(&r);

		receive(&s, how, rd_bytes(&r, len <= rd_left(&r) ? len : rd_left(&r)));
	}
	raft_free(s.core);
	return 0;
}
