/* gossipd.sock: network coordinates, MSG_GOSSIP_COORDS. */
#include "config.h"

#include "gossipd/core/wire/serfwire.h"
#include "gossipd/handlers_int.h"

#define NAMES_ARENA_MAX (1u << 20)
#define ENTRIES_BYTES_MAX (3u << 20)	/* of one answer, about 25,000: clients take frames of 4 MB */
#define ENTRY_BYTES (1 + 5 + 3 * 9 + 1 + COORDINATE_DIMENSIONS * 9)	/* without the name */

struct entries {
	struct buf bytes;
	uint32_t count;
	bool full;
};

static void
add_entry(struct entries *to, struct span name, const struct coordinate *c)
{
	if (to->bytes.len + ENTRY_BYTES + name.len > to->bytes.max) {
		to->full = true;
		return;
	}
	coordinate_pack(&to->bytes, name, c);
	to->count++;
}

/* One that is asked for or listed; our own is there already. */
static void
add_member(struct entries *to, const struct swim *s, struct span self, struct span name)
{
	struct coordinate c;

	if (!span_eq(name, self) && swim_coord_of(s, name, &c))
		add_entry(to, name, &c);
}

static void
add_all(struct entries *to, const struct swim *s, struct span self)
{
	struct swim_member m;
	uint32_t cursor = 0;

	while (!to->full && swim_member_next(s, &cursor, &m))
		add_member(to, s, self, m.name);
}

static void
send_entries(struct client *c, uint64_t id, enum tv_err err, const char *text, const struct entries *e)
{
	struct buf *b = id != 0 ? chan_begin(c->conn.chan, MSG_GOSSIP_COORDS, FRAME_REPLY, id) : NULL;

	if (b == NULL)
		return;
	msg_answer_head(b, 1, err, text);
	mpw_array(b, err == TV_OK ? e->count : 0);
	buf_putspan(b, err == TV_OK ? buf_span(&e->bytes) : SPAN_NONE);
	(void)chan_end(c->conn.chan);
}

enum tv_err
handlers_coords(void *conn, const struct frame *f)
{
	struct client *c = conn;
	struct engine *e = c->h->e;
	struct arena a = ARENA_INIT(NAMES_ARENA_MAX);
	struct msg_coords q = { .pool = POOL_WAN + 1 };
	enum tv_err err = msg_read(&msg_coords_schema, f->body, &a, &q);
	struct entries found = { .bytes = BUF_INIT(ENTRIES_BYTES_MAX) };
	const struct swim *s = err == TV_OK && q.pool <= POOL_WAN && e->pools[q.pool] != NULL ?
	    pool_core(e->pools[q.pool]) : NULL;
	struct coordinate own;
	struct span self;

	if (s != NULL) {
		self = swim_name(s);
		swim_coord(s, &own);
		add_entry(&found, self, &own);
	}
	for (uint32_t i = 0; s != NULL && i < q.names.n; i++)
		add_member(&found, s, self, q.names.v[i]);
	if (s != NULL && q.names.n == 0)
		add_all(&found, s, self);
	arena_done(&a);
	if (err != TV_OK || q.pool > POOL_WAN) {
		buf_done(&found.bytes);
		return TV_EFORMAT;
	}
	if (s == NULL)
		send_entries(c, f->id, TV_EINVAL, "this node is a client: only servers are in the WAN pool", &found);
	else if (!e->opts->coordinates)
		send_entries(c, f->id, TV_EPERM, "coordinates are off: set coordinates = true in gossipd.conf", &found);
	else if (found.bytes.failed)
		send_entries(c, f->id, TV_ENOMEM, tv_strerror(TV_ENOMEM), &found);
	else
		send_entries(c, f->id, TV_OK, "", &found);
	buf_done(&found.bytes);
	return TV_OK;
}
