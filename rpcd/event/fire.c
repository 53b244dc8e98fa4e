/* Firing a user event, see fire.h. */
#include <stdlib.h>

#include "common/net/msg.h"
#include "rpcd/event/event_wire.h"
#include "rpcd/event/fire.h"

#define FIRE_BYTES_MAX (4u << 20)	/* of a body; what is too long for gossip is refused by gossipd */

struct fire {
	struct members *members;
	uint64_t id;			/* of the question */
	route_done *done;
	void *ctx;
	struct arena arena;
	struct user_event event;	/* spans in args */
	char event_id[EVENT_ID_BYTES + 1];
	uint8_t args[];
};

static void
fire_free(struct fire *f)
{
	arena_done(&f->arena);
	free(f);
}

static void
fire_end(struct fire *f, const struct op_reply *reply)
{
	route_done *done = f->done;
	void *ctx = f->ctx;

	done(ctx, reply);
	fire_free(f);
}

static void
fire_fail(struct fire *f, enum tv_err err, struct span text)
{
	fire_end(f, &(struct op_reply){ .err = err, .text = text, .index = 1 });
}

static void
fire_done(struct fire *f, uint64_t ltime)
{
	struct buf b = BUF_INIT(FIRE_BYTES_MAX);
	struct op_reply reply = { .err = TV_OK, .index = 1, .known_leader = true };

	if (!event_wire_enveloped(&f->event)) {
		event_wire_id(ltime, f->event.Name, f->event.Payload, f->event_id);
		f->event.ID = span_str(f->event_id);
	}
	schema_pack(&user_event_schema, &f->event, &b);
	reply.value = buf_span(&b);
	if (b.failed)
		fire_fail(f, TV_ENOMEM, span_str(tv_strerror(TV_ENOMEM)));
	else
		fire_end(f, &reply);
	buf_done(&b);
}

static void
on_answer(void *ctx, enum tv_err err, struct span body)
{
	struct fire *f = ctx;
	struct msg_fired fired = { .ltime = 0 };
	struct msg_answer a;

	if (err != TV_OK) {
		fire_fail(f, err, span_str(err == TV_ETIMEOUT ?
		    "gossipd did not answer in time; the event may have been fired" :
		    "gossipd closed the connection before it answered; the event may have been fired"));
		return;
	}
	if (msg_answer_read(body, &a, &msg_fired_schema, NULL, &fired) != TV_OK)
		fire_fail(f, TV_EFORMAT, span_str("malformed reply from gossipd"));
	else if (a.err != TV_OK)
		fire_fail(f, a.err, a.text);
	else
		fire_done(f, fired.ltime);
}

static enum tv_err
read_args(struct fire *f, struct span args, bool *coalesce)
{
	struct rd r = rd_over(f->args, args.len);
	struct event_fire e = { .Coalesce = false };
	enum tv_err err;

	memcpy(f->args, args.p, args.len);
	err = schema_unpack(&event_fire_schema, &r, &f->arena, &e);
	f->event = (struct user_event){ .Name = e.Name, .Payload = e.Payload, .NodeFilter = e.NodeFilter,
		.ServiceFilter = e.ServiceFilter, .TagFilter = e.TagFilter, .Version = 1 };
	*coalesce = e.Coalesce;
	return err != TV_OK ? err : rd_end(&r);
}

static enum tv_err
send_fire(struct fire *f, bool coalesce, struct mono timeout)
{
	struct buf name = BUF_INIT(FIRE_BYTES_MAX), payload = BUF_INIT(FIRE_BYTES_MAX), body = BUF_INIT(FIRE_BYTES_MAX);
	enum tv_err err = TV_ENOMEM;

	if (event_wire_enveloped(&f->event)) {
		event_wire_random_id(f->event_id);
		f->event.ID = span_str(f->event_id);
	}
	event_wire_write(&f->event, &name, &payload);
	schema_pack(&msg_fire_schema, &(struct msg_fire){ POOL_LAN, buf_span(&name), buf_span(&payload), coalesce },
	    &body);
	if (!name.failed && !payload.failed && !body.failed)
		f->id = daemon_client_call(members_daemon(f->members), MSG_GOSSIP_FIRE, buf_span(&body), timeout,
		    on_answer, f, &err);
	buf_done(&name);
	buf_done(&payload);
	buf_done(&body);
	return f->id != 0 ? TV_OK : err;
}

static void *
fire_start(void *members, const struct op_request *q, struct mono timeout, route_done *done, void *ctx,
    enum tv_err *err)
{
	struct fire *f = calloc(1, sizeof(*f) + q->args.len);
	bool coalesce = false;

	*err = TV_ENOMEM;
	if (f == NULL)
		return NULL;
	f->members = members;
	f->done = done;
	f->ctx = ctx;
	f->arena = ARENA_INIT(FIRE_BYTES_MAX);
	*err = read_args(f, q->args, &coalesce);
	if (*err == TV_OK)
		*err = send_fire(f, coalesce, timeout);
	if (*err == TV_OK)
		return f;
	fire_free(f);
	return NULL;
}

static void
fire_cancel(void *started)
{
	struct fire *f = started;

	daemon_client_cancel(members_daemon(f->members), f->id);
	fire_free(f);
}

struct route_provider
fire_provider(struct members *v)
{
	return (struct route_provider){
		.start = fire_start, .cancel = fire_cancel, .ctx = v, .away = "gossipd is not running on this node",
		.lost = "connection to the other datacenter was lost before it answered; the event may have been fired",
	};
}
