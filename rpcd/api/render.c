/*
 * Lists as JSON, large ones a slice at a time, so that others are served in between.
 *
 * The reply's bytes are taken over from the channel that they came in by.  All answers that are being rendered take
 * turns: the loop has one slice between two looks at its sockets, whichever answer it is for.
 */
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/net/chan.h"
#include "common/record/mpack.h"
#include "common/text/json_text.h"
#include "rpcd/api/api.h"

#define RENDER_LARGE_BYTES (64u << 10)	/* of a reply: a shorter one is rendered at once, in less than a slice */
#define RENDER_SLICE MONO_MS(1)
#define RENDER_LOOK_BYTES 4096		/* of the reply: so often the clock is read */

struct render {
	struct render *next;
	struct request *r;
	const struct schema *schema;	/* of an element; NULL: names */
	struct buf bytes;		/* what `in` reads, once it is ours */
	uint64_t accounted;		/* of them, in api->answers_bytes */
	struct rd in;
	uint32_t fields;		/* names: of the record around them */
	uint32_t left;			/* elements */
	bool translate;			/* addresses: api_translates() */
	char before;			/* what stands before the next one */
	const char *after;		/* what stands behind the list */
	struct mono paused;		/* the end of the last slice; 0: there was none */
};

/* -- one element after another -- */

static void
element(struct render *v)
{
	struct request *r = v->r;
	struct rd ahead = v->in;

	v->left--;
	if (r->filter != NULL || r->only_passing) {
		struct span packed = mpr_value(&ahead);

		if ((r->only_passing && !api_is_passing(packed)) || !api_passes(r, packed)) {
			v->in = ahead;
			return;
		}
	}
	buf_u8(&r->answer.body, (uint8_t)v->before);
	v->before = ',';
	if (v->schema != NULL)		/* the reader keeps the error */
		(void)api_record_json(v->schema, v->translate, &v->in, &r->answer.body);
	else
		json_quote(mpr_bytes(&v->in, SCHEMA_TEXT_BYTES_MAX), &r->answer.body);
}

/* True: all are there, or no more can be. */
static bool
render_slice(struct render *v, struct mono until)
{
	const uint8_t *look = v->in.p;

	while (v->left > 0 && v->in.err == TV_OK && !v->r->answer.body.failed) {
		element(v);
		if (v->in.p - look < RENDER_LOOK_BYTES)
			continue;
		look = v->in.p;
		if (!mono_before(clock_mono(), until))
			return false;
	}
	return true;
}

static bool
is_whole(struct render *v)
{
	return (v->schema == NULL ? mpr_end(&v->in, v->fields, v->fields > 0) : rd_end(&v->in)) == TV_OK;
}

static void
finish_list(struct render *v)
{
	struct request *r = v->r;

	buf_puts(&r->answer.body, v->before == '[' ? "[]" : "]");
	buf_puts(&r->answer.body, v->after);
	if (api_filter_failed(r))
		return;
	if (r->answer.body.failed || is_whole(v))
		answer_json(r);
	else
		api_malformed(r);
}

/* -- in turns -- */

/* Out of the line, and no longer of its request. */
static void
detach(struct api *api, struct render *v)
{
	struct render **at = &api->renders;

	while (*at != NULL && *at != v)
		at = &(*at)->next;
	if (*at == v)
		*at = v->next;
	api->answers_bytes -= v->accounted;
	v->r->cancel = NULL;
	v->r->render = NULL;
}

static void
render_free(struct render *v)
{
	buf_done(&v->bytes);
	free(v);
}

static void
cancel(struct request *r)
{
	struct render *v = r->render;

	detach(r->api, v);
	render_free(v);
}

/* To the end of the line. */
static void
enqueue(struct api *api, struct render *v)
{
	struct render **end = &api->renders;

	while (*end != NULL)
		end = &(*end)->next;
	v->next = NULL;
	*end = v;
	if (ev_is_active(&api->render_turn))
		return;
	ev_timer_set(&api->render_turn, 0., 0.);
	ev_timer_start(api->loop, &api->render_turn);
}

static void
on_turn(struct ev_loop *loop, ev_timer *w, int events UNUSED)
{
	struct api *api = w->data;
	struct render *v = api->renders;
	struct mono now = clock_mono();

	ev_timer_stop(loop, w);
	if (v == NULL)
		return;
	if (v->paused.ns > 0 && v->r->filter_end.ns > 0)	/* the time of others does not count */
		v->r->filter_end = mono_add(v->r->filter_end, mono_sub(now, v->paused));
	api->renders = v->next;
	if (render_slice(v, mono_add(now, RENDER_SLICE))) {
		detach(api, v);
		finish_list(v);
		render_free(v);
	} else {
		v->paused = clock_mono();
		enqueue(api, v);
	}
	if (api->renders != NULL && !ev_is_active(w)) {
		ev_timer_set(w, 0., 0.);
		ev_timer_start(loop, w);
	}
}

void
api_render_start(struct api *api, struct ev_loop *loop)
{
	api->loop = loop;
	ev_timer_init(&api->render_turn, on_turn, 0., 0.);
	api->render_turn.data = api;
}

/* Takes over the reply's bytes, which `in` and `list` are in.  False: no memory, or too much of it is in use. */
static bool
take_bytes(struct render *v, struct span list)
{
	struct api *api = v->r->api;
	struct buf *out = &v->r->answer.body;
	size_t at = (size_t)(v->in.p - list.p);
	struct span kept = chan_keep(list, &v->bytes);

	if (kept.p == NULL || api->answers_bytes + v->bytes.len > api->conf->answers_bytes_max)
		return false;
	/* Room at once, as far as it may be needed: pages that are not written cost nothing, to move them does. */
	(void)buf_room(out, out->max / 2 < v->bytes.len ? out->max : 2 * v->bytes.len);
	v->in = rd_span_over(kept);
	v->in.p += at;
	v->accounted = v->bytes.len;	/* a large one has more room, not written yet */
	api->answers_bytes += v->accounted;
	return true;
}

/* A reply that several wait for is rendered once for all of them, which has to be at once. */
static bool
goes_in_slices(const struct render *v, struct span list)
{
	const struct request *r = v->r;

	if (r->api->loop == NULL || list.len < RENDER_LARGE_BYTES || v->in.err != TV_OK)
		return false;
	/* What the cache gives at once is copied, and goes in slices too. */
	return r->running ? api_wants_cached(r) : route_reply_number(r->api->route) == 0;
}

static void
render(struct render *v, struct span list)
{
	struct request *r = v->r;
	struct render *later = goes_in_slices(v, list) ? malloc(sizeof(*later)) : NULL;

	if (later == NULL) {
		(void)render_slice(v, MONO_NEVER);
		finish_list(v);
		return;
	}
	*later = *v;
	if (!take_bytes(later, list)) {
		render_free(later);
		answer_text(r, 503, "too many large answers are being sent (see limits.answers_bytes_max)");
		return;
	}
	r->render = later;
	r->cancel = cancel;
	enqueue(r->api, later);
}

void
api_render_list(struct request *r, const struct schema *s, struct span list)
{
	api_render_list_before(r, s, list, r->op.dc, NULL);
}

void
api_render_list_before(struct request *r, const struct schema *s, struct span list, struct span dc,
    const struct buf *after)
{
	const char *behind = after == NULL ? "" : after->failed ? NULL : arena_cstr(&r->arena, buf_span(after));
	struct render v = { .r = r, .schema = s, .bytes = BUF_INIT(list.len), .in = rd_span_over(list),
	    .translate = api_translates(r, s, dc), .before = '[', .after = behind };

	if (behind == NULL) {
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
		return;
	}
	if (list.len > 0 && !mpr_nil(&v.in))
		v.left = mpr_array(&v.in);
	render(&v, list);
}

/* Of a packed text_list. */
static void
begin_names(struct render *v)
{
	v->fields = mpr_array(&v->in);
	if (v->fields > 0 && !mpr_nil(&v->in))
		v->left = mpr_array(&v->in);
}

void
api_render_names(struct request *r, struct span record, bool not_found)
{
	struct render v = { .r = r, .bytes = BUF_INIT(record.len), .in = rd_span_over(record), .before = '[',
	    .after = "" };

	begin_names(&v);
	if (not_found && v.left == 0 && v.in.err == TV_OK)
		answer_empty(r, 404);
	else
		render(&v, record);
}
