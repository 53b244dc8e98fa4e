/*
 * /v1/agent/coordinate: network coordinates as this node's gossipd knows them, its own first.  This asks no
 * server, other than /v1/coordinate/, and knows members that are in no catalog, such as plain Serf agents.
 */
#include "common/record/coordinate.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/api/api.h"

enum tv_err
api_read_coord(struct rd *in, struct arena *a, struct node_coordinate *out)
{
	struct coordinate *c = arena_alloc(a, sizeof(*c));

	*out = (struct node_coordinate){ .Segment = span_of("", 0) };
	if (c == NULL)
		return TV_ENOMEM;
	if (coordinate_unpack(in, &out->Node, c) == TV_OK)
		coordinate_to_rec(c, &out->Coord);
	return in->err;
}

/* All of them. */
static void
answer_list(struct request *r, struct span list)
{
	struct rd in = rd_span_over(list);
	struct buf *out = &r->answer.body;
	struct arena scratch = ARENA_INIT(4096);
	struct node_coordinate c;
	uint32_t n = mpr_array(&in);

	buf_u8(out, '[');
	for (uint32_t i = 0; i < n; i++) {
		arena_reset(&scratch);
		if (api_read_coord(&in, &scratch, &c) != TV_OK)
			break;
		if (!api_may(r, ACL_NODE, c.Node, ACL_READ))
			continue;
		if (out->len > 1)
			buf_u8(out, ',');
		schema_json_rec(&node_coordinate_schema, &c, out);
	}
	arena_done(&scratch);
	buf_u8(out, ']');
	if (in.err == TV_OK)
		answer_json(r);
	else
		answer_text(r, 500, "malformed reply from gossipd");
}

/* The one that was asked for; our own stands before it. */
static void
answer_one(struct request *r, struct span list)
{
	struct rd in = rd_span_over(list);
	struct node_coordinate c;

	for (uint32_t n = mpr_array(&in); n > 0 && api_read_coord(&in, &r->arena, &c) == TV_OK; n--) {
		if (!span_eq(c.Node, r->rest))
			continue;
		schema_json_rec(&node_coordinate_schema, &c, &r->answer.body);
		answer_json(r);
		return;
	}
	answer_text(r, 404, "No coordinate of \"%.*s\" is known here", SPAN_ARGS(r->rest));
}

static void
on_coords(void *ctx, enum tv_err err, struct span text, struct span list)
{
	struct note *a = ctx;
	struct request *r = note_request(a);

	note_free(a);
	if (r == NULL)
		return;
	if (err == TV_EPERM)
		answer_span(r, 401, text);
	else if (err != TV_OK)
		answer_span(r, err == TV_EINVAL ? 400 : 500, text.len > 0 ? text : span_str(tv_strerror(err)));
	else if (r->rest.len > 0)
		answer_one(r, list);
	else
		answer_list(r, list);
}

/* All of them, or the one that the path names. */
static void
run_coord(struct request *r)
{
	struct note *a;
	enum tv_err err;

	if (r->rest.len > 0 && !api_must(r, ACL_NODE, r->rest, ACL_READ))
		return;
	if (r->rest.len > MEMBER_NAME_BYTES_MAX) {
		answer_one(r, SPAN_NONE);	/* no node has such a name */
		return;
	}
	a = note_new(r);
	err = a == NULL ? TV_ENOMEM : admin_coords(r->api->admin, api_pool(r), r->rest, on_coords, a);
	if (err != TV_OK)
		api_not_asked(r, a, err);
}

const struct endpoint api_agent_coord[] = {
	{ "/v1/agent/coordinate", "GET", ACCESS_SHOWN, .run = run_coord },
	{ "/v1/agent/coordinate/", "GET", ACCESS_NAMED, .missing = "Missing node name", .run = run_coord },
	{ .path = NULL },
};
