/*
 * User events and queries: their place.  Both are received here, and their clocks are
 * kept, so that a node that learns to speak them starts with the right time.  Delivery,
 * rings against duplicates and re-broadcast belong with them; until then a message ends
 * here, which costs a pool nothing but one repeater.
 */
#include "config.h"

#include "gossipd/core/state.h"

/* Not spoken yet: refused, so that nobody believes otherwise. */
enum tv_err
event_fire(struct swim *s, const struct swim_input *in)
{
	(void)s;
	return in->name.len == 0 ? TV_EINVAL : TV_ELIMIT;
}

enum tv_err
event_ask(struct swim *s, const struct swim_input *in)
{
	(void)s;
	(void)in;
	return TV_ELIMIT;
}

enum tv_err
event_respond(struct swim *s, const struct swim_input *in)
{
	(void)s;
	(void)in;
	return TV_ENOENT;
}

enum tv_err
event_on_user(struct swim *s, const struct gaddr *from, struct span message)
{
	struct serf_user_event m;
	enum tv_err err = serf_get_user_event(span_of(message.p + 1, message.len - 1), &s->out.arena, &m);

	(void)from;
	if (err == TV_OK)
		lamport_witness(&s->event_clock, m.ltime);
	return err;
}

enum tv_err
event_on_query(struct swim *s, const struct gaddr *from, struct span message)
{
	struct serf_query m;
	enum tv_err err = serf_get_query(span_of(message.p + 1, message.len - 1), &s->out.arena, &m);

	(void)from;
	if (err == TV_OK)
		lamport_witness(&s->query_clock, m.ltime);
	return err;
}
