/* Anti-entropy: the catalog follows the table. */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/record/mpack.h"
#include "rpcd/registry/registry_int.h"

#define RETRY_MIN MONO_S(15)
#define RETRY_SPREAD MONO_S(15)
#define SERVER_SPREAD MONO_S(3)		/* after a server came */
#define MEMBERS_FEW 128			/* for each doubling beyond, times are longer by one of what they were */
#define ARGS_BYTES_MAX (1u << 20)
#define PUSH_BYTES_MAX (512u << 10)	/* of the checks that go with a service; others follow */

struct mono
sync_spread(struct registry *r, struct mono max)
{
	return (struct mono){ (int64_t)(rng_unit(&r->rng) * (double)max.ns) };
}

/* All members compare with the same servers: the more there are, the longer the time that they are spread over. */
static struct mono
scaled(const struct registry *r, struct mono spread)
{
	unsigned members = r->conf.members == NULL ? 1 : r->conf.members(r->conf.ctx);
	int64_t factor = 1;

	for (uint64_t n = MEMBERS_FEW; n < members; n *= 2)
		factor++;
	return (struct mono){ spread.ns * factor };
}

void
sync_compare_soon(struct registry *r)
{
	registry_at(r, &r->compare_at, mono_add(RETRY_MIN, sync_spread(r, scaled(r, RETRY_SPREAD))));
}

void
registry_token_changed(struct registry *r)
{
	if (r == NULL)
		return;
	for (struct entry *e = TAILQ_FIRST(&r->entries); e != NULL; e = TAILQ_NEXT(e, link)) {
		e->refusal_told = false;
		if (e->refusal != REFUSED_NOT)
			e->dirty = DIRTY;
	}
	registry_at(r, &r->compare_at, MONO_ZERO);
}

void
registry_server_came(struct registry *r)
{
	registry_at(r, &r->compare_at, sync_spread(r, scaled(r, SERVER_SPREAD)));
}

struct route_call *
sync_ask(struct registry *r, enum op_code code, struct span token, const void *args, registry_reply *done, void *ctx)
{
	const struct op *op = op_find((uint16_t)code);
	struct buf packed = BUF_INIT(ARGS_BYTES_MAX);
	struct op_request q = { .op = op->code, .dc = span_of("", 0),
	    .token = token.len > 0 ? token : token_of(&r->conf.token) };

	schema_pack(op->args, args, &packed);
	q.args = buf_span(&packed);
	struct route_call *call = packed.failed ? NULL : r->conf.send(r->conf.route, &q, done, ctx);
	buf_done(&packed);
	return call;
}

/* -- those who wait -- */

static bool
under_way(const struct entry *e)
{
	const struct entry *owner = entry_owner(e);

	return e->push != NULL || (owner != NULL && owner->push != NULL);
}

void
sync_settle(struct registry *r)
{
	struct mono now = r->conf.now();
	struct settle_list over = TAILQ_HEAD_INITIALIZER(over);

	for (struct settle *w = TAILQ_FIRST(&r->settling), *next; w != NULL; w = next) {
		bool syncs = w->entry != NULL && under_way(w->entry) && mono_before(now, w->deadline);

		next = TAILQ_NEXT(w, link);
		if (!syncs && w->ticket > r->saved) {	/* for the disk alone */
			w->entry = NULL;
			w->deadline = MONO_NEVER;
		} else if (!syncs) {
			TAILQ_REMOVE(&r->settling, w, link);
			TAILQ_INSERT_TAIL(&over, w, link);
		}
	}
	for (struct settle *w; (w = TAILQ_FIRST(&over)) != NULL;) {	/* done may add others */
		TAILQ_REMOVE(&over, w, link);
		w->done(w->ctx);
		free(w);
	}
}

void
registry_settle(struct registry *r, enum entry_kind kind, struct span id, void (*done)(void *ctx), void *ctx)
{
	struct entry *e = entry_find(r, kind, id);
	bool syncs = e != NULL && under_way(e) && r->conf.sync_wait.ns > 0;
	struct settle *w = syncs || r->saves > r->saved ? calloc(1, sizeof(*w)) : NULL;

	if (w == NULL) {
		done(ctx);
		return;
	}
	*w = (struct settle){ .entry = syncs ? e : NULL, .ticket = r->saves, .deadline = MONO_NEVER, .done = done,
	    .ctx = ctx };
	TAILQ_INSERT_TAIL(&r->settling, w, link);
	if (syncs)
		registry_at(r, &w->deadline, r->conf.sync_wait);
}

/* -- pushes -- */

static void push(struct entry *e);

/* What the reply says of one entry. */
static void
take_reply(struct entry *e, const struct push *p, const struct op_reply *reply)
{
	const char *name = entry_kind_name(e), *id = (const char *)e->id.p;
	int len = (int)e->id.len;

	e->push = NULL;
	rights_refused(e, p, reply);
	if (reply->err == TV_OK) {
		e->accepted = e->accepted || (!p->removal && e->sent_definition);
		e->told_critical = e->sent_critical || p->removal;
		e->withdrawn = e->kind == ENTRY_SERVICE && p->withdrawal;
	}
	if (reply->err != TV_OK && reply->err != TV_EPERM) {
		log_debug("agent", "sync of %s %.*s failed: %s", name, len, id, tv_strerror(reply->err));
		e->dirty = DIRTY;
		sync_compare_soon(e->registry);
	} else if (reply->err == TV_OK && p->removal && e->dirty == CLEAN) {
		log_info("agent", "%s %s: %s=%.*s", p->withdrawal ? "Withdrew" : "Deregistered", name, name, len, id);
	} else if (reply->err == TV_OK && !p->removal && e->dirty == CLEAN) {
		log_debug("agent", "Synced %s: %s=%.*s", name, name, len, id);
	}
}

/* After a success: the checks that waited for their service, and what changed meanwhile. */
static void
push_rest(struct entry *head, bool removal)
{
	for (struct entry *e = head->kind == ENTRY_SERVICE ? entry_check_first(head->registry, head->id) : NULL, *next;
	    e != NULL; e = next) {
		next = entry_check_next(e);
		if (e->push != NULL)
			continue;
		if (removal && e->removed)
			entry_drop(e);		/* the catalog removes them with their service */
		else if (e->dirty == DIRTY)
			push(e);
	}
	if (head->dirty == DIRTY)
		push(head);
	else if (head->removed && head->push == NULL && removal)
		entry_drop(head);
}

static void send_push(struct push *p);

/*
 * A service goes from the catalog, with the agent's token, and stays here: one of its checks is critical, the catalog
 * has it otherwise, and no token may say so there.  Each comparison tries to register it again.
 */
static void
withdraw(struct entry *service, const struct entry *check)
{
	struct registry *r = service->registry;
	struct push *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		sync_compare_soon(r);
		return;
	}
	log_warn("agent", "service=%.*s goes from the catalog: its check %.*s is critical, and no token may say so "
	    "there", (int)service->id.len, (const char *)service->id.p, (int)check->id.len, (const char *)check->id.p);
	*p = (struct push){ .registry = r, .first = service, .removal = true, .withdrawal = true,
	    .token = TOKEN_AGENT };
	service->push = p;
	service->push_next = NULL;
	service->dirty = CLEAN;
	r->stats.pushes++;
	send_push(p);
}

/* No token may say what this push does.  Checks that came with their service may be told alone, by other tokens. */
static void
push_refused(struct entry *head, bool alone)
{
	struct entry *owner = entry_owner(head);

	if (head->dirty == DIRTY) {		/* it is another one by now, maybe with another token */
		push(head);
		return;
	}
	if (alone && owner != NULL && !owner->removed && !owner->withdrawn && owner->push == NULL && head->accepted &&
	    !head->removed && head->sent_critical && !head->told_critical)
		withdraw(owner, head);
	if (head->kind != ENTRY_SERVICE || head->removed || head->withdrawn || !head->accepted)
		return;
	for (struct entry *e = entry_check_first(head->registry, head->id), *next; e != NULL; e = next) {
		next = entry_check_next(e);
		if (e->push != NULL || !e->accepted || e->dirty == DIRTY_OUTPUT)
			continue;
		e->dirty = DIRTY;
		push(e);
	}
}

static void
end_push(struct push *p, const struct op_reply *reply)
{
	struct registry *r = p->registry;
	struct entry *first = p->first;
	bool removal = p->removal, withdrawal = p->withdrawal;

	r->stats.pushes_failed += reply->err != TV_OK;
	for (struct entry *e = first; e != NULL; e = e->push_next)
		take_reply(e, p, reply);
	free(p);
	if (reply->err == TV_OK)
		push_rest(first, removal);
	else if (reply->err == TV_EPERM && !withdrawal)
		push_refused(first, first->kind == ENTRY_CHECK);
	sync_settle(r);
}

static void
on_pushed(void *ctx, const struct op_reply *reply)
{
	struct push *p = ctx;

	p->call = NULL;
	if (reply->err == TV_EPERM && push_next_token(p))
		send_push(p);
	else
		end_push(p, reply);
}

static void
join(struct push *p, struct entry *e)
{
	struct entry **at = p->first == NULL ? &p->first : &p->first->push_next;

	e->push = p;
	e->push_next = *at;
	*at = e;
	e->dirty = CLEAN;
	e->sent_definition = true;
	e->sent_critical = entry_is_critical(e);
}

/* A service takes the checks with it that have its token, as many as fit. */
static void
join_checks(struct push *p, struct catalog_register *args)
{
	struct registry *r = p->registry;
	const struct entry *service = p->first;
	struct local_record rec;
	size_t bytes = 0, count = 0;

	for (const struct entry *e = entry_check_first(r, service->id); e != NULL; e = entry_check_next(e))
		count++;
	struct check *v = arena_array(&r->scratch, count, sizeof(*v));
	args->Checks.v = v;
	for (struct entry *e = entry_check_first(r, service->id); e != NULL && v != NULL; e = entry_check_next(e)) {
		if (e->removed || e->push != NULL || e->dirty == CLEAN ||
		    !span_eq(entry_token(e), entry_token(service)))
			continue;
		if ((bytes += e->rec.len) > PUSH_BYTES_MAX || !entry_unpack(e, &rec))
			break;
		v[args->Checks.n++] = rec.check;
		join(p, e);
	}
}

static struct route_call *
send_registration(struct push *p)
{
	struct registry *r = p->registry;
	struct catalog_register args = {
		.ID = span_str(r->conf.node_id), .Node = span_str(r->conf.node_name),
		.Address = span_str(r->conf.address), .SkipNodeUpdate = true,
	};
	struct local_record rec;

	arena_reset(&r->scratch);
	if (!entry_unpack(p->first, &rec))
		return NULL;
	if (rec.kind == ENTRY_CHECK) {
		args.has_check = true;
		args.Check = rec.check;
	} else {
		args.has_service = true;
		args.Service = rec.service;
		join_checks(p, &args);
	}
	return sync_ask(r, OP_CATALOG_REGISTER, push_token(p), &args, on_pushed, p);
}

static struct route_call *
send_deregistration(struct push *p)
{
	const struct registry_conf *conf = &p->registry->conf;
	struct catalog_deregister args = { .Node = span_str(conf->node_name), .ID = span_str(conf->node_id) };

	*(p->first->kind == ENTRY_SERVICE ? &args.ServiceID : &args.CheckID) = p->first->id;
	return sync_ask(p->registry, OP_CATALOG_DEREGISTER, push_token(p), &args, on_pushed, p);
}

static void
send_push(struct push *p)
{
	p->call = p->removal ? send_deregistration(p) : send_registration(p);
	if (p->call == NULL)
		end_push(p, &(struct op_reply){ .err = TV_EAGAIN });
}

/* Sends an entry; or its service, if the catalog does not have that as it is: the entry goes with it or after it. */
static void
push(struct entry *e)
{
	struct entry *owner = entry_owner(e);
	struct registry *r = e->registry;

	if (owner != NULL && (owner->push != NULL || owner->dirty != CLEAN || owner->removed || owner->withdrawn))
		e = owner;
	if (e->push != NULL)
		return;
	if (r->foreign) {			/* when a comparison finds our own entry there */
		e->dirty = DIRTY;
		return;
	}
	struct push *p = calloc(1, sizeof(*p));
	if (p == NULL) {
		sync_compare_soon(r);
		return;
	}
	*p = (struct push){ .registry = r, .removal = e->removed };
	join(p, e);
	r->stats.pushes++;
	send_push(p);
}

void
sync_changed(struct entry *e, bool output_only)
{
	struct registry *r = e->registry;

	if (output_only && e->push == NULL && e->dirty != DIRTY) {
		e->dirty = DIRTY_OUTPUT;
		r->stats.outputs_deferred++;
		registry_at(r, &r->output_at, r->conf.update_interval);
	} else {
		e->dirty = DIRTY;
		push(e);
	}
}

void
sync_all(struct registry *r, bool output)
{
	for (struct entry *e = TAILQ_FIRST(&r->entries); e != NULL; e = TAILQ_NEXT(e, link))
		if (e->dirty == DIRTY || (output && e->dirty == DIRTY_OUTPUT))
			push(e);
}

/* -- comparing -- */

/*
 * Does the catalog's record say the same as ours?  An output that differs, *late, may do so until its time has come,
 * after a restart too; tags that others set there are taken over where the service allows it.
 */
static bool
same(struct entry *e, struct local_record *there, bool *late)
{
	struct local_record own;
	bool eq, known = registry_get(e, &own);

	*late = known && e->kind == ENTRY_CHECK && !span_eq(there->check.Output, own.check.Output);
	if (*late)
		there->check.Output = own.check.Output;
	eq = entry_says(e, there);
	if (!eq && known && e->kind == ENTRY_SERVICE && own.service.EnableTagOverride) {
		own.service.Tags = there->service.Tags;
		if (entry_store(e, &own) == TV_OK) {
			entry_unsaved(e, UNSAVED);
			registry_at(e->registry, &e->registry->save_at, MONO_ZERO);
		}
		eq = entry_says(e, there);
	}
	return eq;
}

/* The same but for what a check says. */
static bool
same_definition(struct entry *e, const struct local_record *there)
{
	struct local_record own, other = *there;

	if (e->kind == ENTRY_CHECK && registry_get(e, &own)) {
		other.check.Status = own.check.Status;
		other.check.Output = own.check.Output;
	}
	return entry_says(e, &other);
}

/* What was not registered here is to be removed from the catalog. */
static void
compare_one(struct registry *r, struct local_record *there)
{
	bool late, check = there->kind == ENTRY_CHECK;
	struct span id = local_record_id(there);
	struct entry *e = entry_find(r, there->kind, id);

	if (e == NULL && !span_eqs(id, check ? SERF_HEALTH : "consul"))
		e = entry_add(r, there);	/* no memory: the next comparison finds it too */
	if (e == NULL)
		return;
	e->there = true;
	if (e->push != NULL)
		return;
	e->told_critical = check && span_eqs(there->check.Status, "critical");
	e->withdrawn = false;
	/* Of this node it may be removed by the agent, also if another registered it. */
	e->accepted = e->accepted || e->removed || !check || same_definition(e, there);
	if (e->removed || !same(e, there, &late)) {
		r->stats.differences += e->dirty == CLEAN || e->removed;
		e->dirty = DIRTY;
		return;
	}
	e->refusal = REFUSED_NOT;
	if (!late) {
		e->dirty = CLEAN;
	} else if (e->dirty != DIRTY_OUTPUT) {
		e->dirty = DIRTY_OUTPUT;
		registry_at(r, &r->output_at, r->conf.update_interval);
	}
}

/* Whose entry is it? */
static void
note_standing(struct registry *r, const struct node_services *list)
{
	struct span id = list->Node.ID;

	r->foreign = list->found && id.len > 0 && !span_eq_nocase(id, span_str(r->conf.node_id));
	r->standing = list->found && !r->foreign ? REGISTRY_LISTED : REGISTRY_KEPT_OUT;
}

static enum tv_err
compare_services(struct registry *r, struct rd *in)
{
	struct node_services list = { 0 };
	enum tv_err err = schema_unpack(&node_services_schema, in, &r->arena, &list);

	r->blind = err == TV_OK && !list.found;
	if (err == TV_OK)
		note_standing(r, &list);
	if (err == TV_OK && r->standing == REGISTRY_LISTED)
		node_compare(r, &list.Node);
	else if (r->blind && node_has_news(r))
		sync_compare_soon(r);
	for (uint32_t i = 0; err == TV_OK && !r->foreign && i < list.Services.n; i++)
		compare_one(r, &(struct local_record){ .kind = ENTRY_SERVICE,
		    .service = ((const struct service *)list.Services.v)[i] });
	return err;
}

static enum tv_err
compare_checks(struct registry *r, struct rd *in)
{
	enum tv_err err = TV_OK;

	for (uint32_t n = rd_left(in) == 0 || mpr_nil(in) ? 0 : mpr_array(in); n > 0 && err == TV_OK; n--) {
		struct local_record there = { .kind = ENTRY_CHECK };

		if ((err = schema_unpack(&check_schema, in, &r->arena, &there.check)) == TV_OK)
			compare_one(r, &there);
	}
	return err;
}

/* What the catalog has not is to be sent, or needs no removing any more. */
static void
compare_rest(struct registry *r)
{
	for (struct entry *e = TAILQ_FIRST(&r->entries), *next; e != NULL; e = next) {
		next = TAILQ_NEXT(e, link);
		if (e->kind != r->comparing || e->push != NULL || e->there)
			continue;
		if (e->removed && r->blind && e->accepted) {
			e->dirty = DIRTY;	/* it may be there all the same */
			continue;
		}
		if (e->removed) {
			entry_drop(e);
			continue;
		}
		r->stats.differences += e->dirty == CLEAN;
		e->dirty = DIRTY;
	}
}

static void on_catalog(void *ctx, const struct op_reply *reply);

static void
read_catalog(struct registry *r, enum entry_kind kind)
{
	struct catalog_read args = { .Name = span_str(r->conf.node_name) };

	r->comparing = kind;
	for (struct entry *e = TAILQ_FIRST(&r->entries); e != NULL; e = TAILQ_NEXT(e, link))
		e->there = false;
	r->compare = sync_ask(r, kind == ENTRY_SERVICE ? OP_CATALOG_NODE : OP_HEALTH_NODE, SPAN_NONE, &args, on_catalog,
	    r);
	if (r->compare == NULL) {
		r->stats.comparisons_failed++;
		sync_compare_soon(r);
	}
}

static void
on_catalog(void *ctx, const struct op_reply *reply)
{
	struct registry *r = ctx;
	struct rd in = rd_span_over(reply->value);
	enum tv_err err = reply->err;

	r->compare = NULL;
	arena_reset(&r->arena);
	if (err == TV_OK)
		err = r->comparing == ENTRY_SERVICE ? compare_services(r, &in) : compare_checks(r, &in);
	rights_compare_refused(r, reply);
	if (err != TV_OK) {
		r->stats.comparisons_failed++;
		log_debug("agent", "comparison with the catalog failed: %s", tv_strerror(err));
		sync_compare_soon(r);
		if (err == TV_EPERM)
			sync_all(r, false);	/* other tokens than the agent's may be good */
		return;
	}
	if (r->foreign) {
		sync_compare_soon(r);
		return;
	}
	compare_rest(r);
	if (r->comparing == ENTRY_SERVICE) {
		read_catalog(r, ENTRY_CHECK);
		return;
	}
	r->stats.comparisons++;
	sync_all(r, false);
	registry_at(r, &r->compare_at, mono_add(r->conf.sync_interval,
	    sync_spread(r, scaled(r, r->conf.sync_interval))));
}

void
sync_compare(struct registry *r)
{
	if (r->compare != NULL)
		r->conf.cancel(r->compare);
	read_catalog(r, ENTRY_SERVICE);
}

void
sync_stop(struct registry *r)
{
	if (r->compare != NULL)
		r->conf.cancel(r->compare);
	node_stop(r);
	for (struct entry *e = TAILQ_FIRST(&r->entries); e != NULL; e = TAILQ_NEXT(e, link)) {
		struct push *p = e->push;

		if (p == NULL)
			continue;
		r->conf.cancel(p->call);
		for (struct entry *k = p->first; k != NULL; k = k->push_next)
			k->push = NULL;
		free(p);
	}
}
