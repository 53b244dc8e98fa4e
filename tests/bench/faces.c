/* Members that do not exist; see faces.h. */
#include "config.h"

#include <stdio.h>

#include "tests/bench/faces.h"

static const uint8_t vsn[WIRE_VSN_BYTES] = { 1, 5, 2, 2, 5, 5 };

void
face_make(const struct faces *f, unsigned i, struct face *out)
{
	char id[40];
	struct buf meta = BUF_INIT(sizeof(out->meta));

	snprintf(id, sizeof(id), "%08x-0000-4000-8000-%012u", i * 2654435761u, i);
	const struct member_tag tags[] = { { span_str("role"), span_str("client") }, { span_str("dc"), span_str("dc1") },
		{ span_str("id"), span_str(id) }, { span_str("build"), span_str("0.1.0") },
		{ span_str("vsn"), span_str("1") } };

	snprintf(out->name, sizeof(out->name), "node-%05u", i);
	out->addr = (struct addr){ .ip = { 127, f->net, (uint8_t)(1 + i / FACE_PER_NET),
		(uint8_t)(1 + i % FACE_PER_NET) }, .len = 4, .port = f->port };
	(void)serf_put_meta(&meta, tags, sizeof(tags) / sizeof(tags[0]));	/* far below its limit */
	memcpy(out->meta, meta.data, meta.len);
	out->meta_len = meta.len;
	buf_done(&meta);
}

int
face_at(const struct faces *f, const struct addr *addr)
{
	int i = (addr->ip[2] - 1) * FACE_PER_NET + addr->ip[3] - 1;

	return addr->len == 4 && addr->ip[0] == 127 && addr->ip[1] == f->net && addr->ip[2] > 0 && addr->ip[3] > 0 &&
	    addr->ip[3] <= FACE_PER_NET && i < (int)f->count ? i : -1;
}

int
face_named(const struct faces *f, struct span name)
{
	char text[sizeof(((struct face *)NULL)->name)];
	unsigned i;

	return span_copy(name, text, sizeof(text)) && sscanf(text, "node-%u", &i) == 1 && i < f->count ? (int)i : -1;
}

struct wire_alive
face_alive(const struct face *face)
{
	return (struct wire_alive){ .incarnation = 1, .node = span_str(face->name),
		.addr = span_of(face->addr.ip, face->addr.len), .port = face->addr.port,
		.meta = span_of(face->meta, face->meta_len), .vsn = span_of(vsn, sizeof(vsn)) };
}

struct coordinate
face_coord(unsigned i)
{
	return (struct coordinate){ .vec = { (i % 100) * 1e-4, (i / 100 % 100) * 1e-4 }, .error = 0.2,
		.adjustment = -1.25e-5, .height = 2e-5 };
}

void
faces_state(const struct faces *f, bool join, struct buf *out)
{
	struct buf serf = BUF_INIT(16u << 20);
	struct face face;

	serf_state_begin(&serf, 1, SERF_RING_SLOTS);
	for (unsigned i = 0; i < SERF_RING_SLOTS; i++)
		serf_state_nil(&serf);
	serf_state_left(&serf, f->count + 1, 0);
	serf_state_statuses(&serf, 1, f->count);
	for (unsigned i = 0; i < f->count; i++) {
		face_make(f, i, &face);
		serf_state_status(&serf, span_str(face.name), i + 1);
	}
	wire_put_pp_header(out, &(struct wire_pp_header){ join, f->count, (uint32_t)serf.len });
	for (unsigned i = 0; i < f->count; i++) {
		face_make(f, i, &face);
		struct wire_alive a = face_alive(&face);

		wire_put_node(out, &(struct wire_node){ .name = a.node, .addr = a.addr, .port = a.port, .meta = a.meta,
		    .incarnation = a.incarnation, .state = NODE_ALIVE, .vsn = a.vsn });
	}
	buf_putspan(out, buf_span(&serf));
	out->failed |= serf.failed;
	buf_done(&serf);
}
