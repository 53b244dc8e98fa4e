/* Alias checks, see alias.h. */
#include <stdlib.h>
#include <sys/queue.h>

#include "common/record/mpack.h"
#include "rpcd/checks/alias.h"
#include "rpcd/route/route.h"

#define NAME_BYTES_MAX 1024
#define OUTPUT_BYTES_MAX (64u << 10)
#define ARGS_BYTES_MAX (64u << 10)
#define REPLY_BYTES_MAX (64u << 20)	/* of memory for one */
#define WAIT_MS (5 * 60 * 1000)		/* of a question to the catalog */
#define RETRY_MIN_S 1.
#define RETRY_MAX_S 60.
#define FAILURES_MIN 2			/* in a row, until they show */

/* A node elsewhere.  Two questions wait in the catalog: for its checks, and for its services. */
struct watch;

struct question {
	struct watch *watch;
	enum op_code op;
	struct route_call *call;	/* NULL: the timer runs */
	uint64_t index;
	ev_timer retry;
	double pause;
	unsigned failures;		/* in a row */
	bool answered;
};

struct watch {
	LIST_ENTRY(watch) link;
	struct aliases *aliases;
	struct buf node, token;
	unsigned users;
	struct question checks, services;
	bool node_there;
};

/* What is found out of the checks, one after the other. */
struct finding {
	const char *status;
	struct buf output;
	bool any, service;		/* a check that counts; one of the service */
};

struct alias {
	LIST_ENTRY(alias) link;
	struct aliases *aliases;
	void *ctx;
	struct buf node, service;
	struct watch *watch;		/* NULL: here */
	bool dirty;			/* to be looked at, here */
	struct finding found;		/* elsewhere */
	bool service_there;
};

struct aliases {
	struct aliases_conf conf;
	LIST_HEAD(, alias) all;
	LIST_HEAD(, watch) watches;
	unsigned count;
	ev_timer look;
	struct arena arena;		/* for a reply */
};

/* -- what the checks say -- */

static void
begin_finding(struct finding *f)
{
	buf_reset(&f->output);
	buf_puts(&f->output, "No checks found.");
	f->status = "passing";
	f->any = f->service = false;
}

static bool
is_alias_of_node(const struct check *c)
{
	return c->ServiceID.len == 0 && span_eqs(c->Type, "alias");
}

/* The first that is critical, else the last that warns. */
static void
take_check(struct finding *f, const struct check *c, struct span service)
{
	bool critical = span_eqs(c->Status, "critical");

	if ((c->ServiceID.len > 0 && !span_eq(c->ServiceID, service)) || is_alias_of_node(c))
		return;
	f->service |= c->ServiceID.len > 0;
	if (strcmp(f->status, "critical") == 0)
		return;
	if (critical || span_eqs(c->Status, "warning")) {
		f->status = critical ? "critical" : "warning";
		buf_reset(&f->output);
		buf_printf(&f->output, "Aliased check \"%.*s\" failing: ", (int)c->Name.len,
		    (const char *)c->Name.p);
		buf_putspan(&f->output, c->Output);
	} else if (!f->any && strcmp(f->status, "passing") == 0) {
		buf_reset(&f->output);
		buf_puts(&f->output, "All checks passing.");
	}
	f->any = true;
}

/* service_there: where no check is of it. */
static void
end_finding(struct alias *s, const struct finding *f, bool service_there, bool node_there)
{
	struct span service = buf_span(&s->service), node = buf_span(&s->node);
	struct buf missing = BUF_INIT(3 * NAME_BYTES_MAX);
	struct span output = f->output.failed ? span_str("Aliased check failing: its output is too long") :
	    buf_span(&f->output);

	if (!service_there && service.len > 0 && !f->service)
		buf_printf(&missing, "Service %.*s could not be found on node %.*s", (int)service.len,
		    (const char *)service.p, (int)node.len, (const char *)node.p);
	else if (!node_there)
		buf_printf(&missing, "Node %.*s could not be found", (int)node.len, (const char *)node.p);
	if (missing.len > 0)
		s->aliases->conf.result(s->ctx, span_str("critical"), buf_span(&missing));
	else
		s->aliases->conf.result(s->ctx, span_str(f->status), output);
	buf_done(&missing);
}

/* -- here -- */

struct looking {
	struct finding found;
	struct span service;
};

static void
look_at_check(void *ctx, const struct local_record *rec)
{
	struct looking *l = ctx;

	take_check(&l->found, &rec->check, l->service);
}

static void
look_at_alias(struct alias *s)
{
	struct registry *r = s->aliases->conf.registry;
	struct looking l = { .found = { .output = BUF_INIT(OUTPUT_BYTES_MAX) }, .service = buf_span(&s->service) };

	s->dirty = false;
	begin_finding(&l.found);
	registry_checks_of(r, l.service, look_at_check, &l);
	if (!l.found.any && l.service.len == 0) { /* this node is alive: its serfHealth */
		buf_reset(&l.found.output);
		buf_puts(&l.found.output, "All checks passing.");
	}
	end_finding(s, &l.found, l.service.len == 0 || registry_find(r, ENTRY_SERVICE, l.service) != NULL, true);
	buf_done(&l.found.output);
}

/* Results may make others dirty: those are for the next turn. */
static void
on_look(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct aliases *a = w->data;
	struct alias *next;

	for (struct alias *s = LIST_FIRST(&a->all); s != NULL; s = next) {
		next = LIST_NEXT(s, link);
		if (s->dirty && s->watch == NULL)
			look_at_alias(s);
	}
}

static void
look_soon(struct alias *s)
{
	struct aliases *a = s->aliases;

	s->dirty = true;
	if (ev_is_active(&a->look))
		return;
	ev_timer_set(&a->look, 0., 0.);
	ev_timer_start(a->conf.loop, &a->look);
}

static void
on_change(void *ctx, struct span service)
{
	struct aliases *a = ctx;
	struct alias *s;

	LIST_FOREACH(s, &a->all, link)
		if (s->watch == NULL && !s->dirty && (service.len == 0 || span_eq(service, buf_span(&s->service))))
			look_soon(s);
}

/* -- elsewhere -- */

static void
tell_aliases(struct watch *w)
{
	struct alias *next;

	if (!w->checks.answered || !w->services.answered)
		return;
	for (struct alias *s = LIST_FIRST(&w->aliases->all); s != NULL; s = next) {
		next = LIST_NEXT(s, link);
		if (s->watch == w)
			end_finding(s, &s->found, s->service_there, w->node_there);
	}
}

static enum tv_err
take_checks(struct watch *w, struct rd *in, struct arena *a)
{
	enum tv_err err = TV_OK;
	struct alias *s;

	LIST_FOREACH(s, &w->aliases->all, link)
		if (s->watch == w)
			begin_finding(&s->found);
	for (uint32_t n = rd_left(in) == 0 || mpr_nil(in) ? 0 : mpr_array(in); n > 0 && err == TV_OK; n--) {
		struct check c = { 0 };

		if ((err = schema_unpack(&check_schema, in, a, &c)) != TV_OK)
			break;
		LIST_FOREACH(s, &w->aliases->all, link)
			if (s->watch == w)
				take_check(&s->found, &c, buf_span(&s->service));
	}
	return err;
}

static enum tv_err
take_services(struct watch *w, struct rd *in, struct arena *a)
{
	struct node_services list = { 0 };
	enum tv_err err = rd_left(in) == 0 || mpr_nil(in) ? TV_OK :
	    schema_unpack(&node_services_schema, in, a, &list);
	const struct service *v = list.Services.v;
	struct alias *s;

	w->node_there = list.found;
	LIST_FOREACH(s, &w->aliases->all, link) {
		if (s->watch != w)
			continue;
		s->service_there = s->service.len == 0;
		for (uint32_t i = 0; i < list.Services.n && err == TV_OK && !s->service_there; i++)
			s->service_there = span_eq(v[i].ID, buf_span(&s->service));
	}
	return err;
}

static void ask_catalog(struct question *q);

static void
ask_later(struct question *q)
{
	struct ev_loop *loop = q->watch->aliases->conf.loop;

	ev_timer_stop(loop, &q->retry);
	ev_timer_set(&q->retry, q->pause, 0.);
	ev_timer_start(loop, &q->retry);
	q->pause = q->pause * 2 < RETRY_MAX_S ? q->pause * 2 : RETRY_MAX_S;
}

static void
failed(struct question *q, const struct op_reply *reply)
{
	struct aliases *a = q->watch->aliases;
	struct buf text = BUF_INIT(4096);
	struct alias *next;

	q->index = 0;
	ask_later(q);
	if (++q->failures < FAILURES_MIN)
		return;
	buf_puts(&text, "Failure checking aliased node or service: ");
	buf_putspan(&text, reply != NULL && reply->text.len > 0 ? reply->text :
	    span_str(tv_strerror(reply == NULL ? TV_EAGAIN : reply->err)));
	for (struct alias *s = LIST_FIRST(&a->all); s != NULL && !text.failed; s = next) {
		next = LIST_NEXT(s, link);
		if (s->watch == q->watch)
			a->conf.result(s->ctx, span_str("critical"), buf_span(&text));
	}
	buf_done(&text);
}

static void
on_reply(void *ctx, const struct op_reply *reply)
{
	struct question *q = ctx;
	struct watch *w = q->watch;
	struct arena *arena = &w->aliases->arena;
	struct rd in = rd_span_over(reply->value);

	q->call = NULL;
	arena_reset(arena);
	if (reply->err != TV_OK ||
	    (q == &w->checks ? take_checks : take_services)(w, &in, arena) != TV_OK) {
		failed(q, reply);
		return;
	}
	bool first = q->index == 0 || reply->index < q->index;
	q->answered = true;
	q->failures = 0;
	if (reply->index > 0)
		q->pause = RETRY_MIN_S;
	q->index = reply->index > 0 && (first || reply->index >= q->index) ? reply->index : 0;
	if (q->index > 0)
		ask_catalog(q);
	else
		ask_later(q);		/* a server that says no index is not asked again at once */
	tell_aliases(w);
}

static void
ask_catalog(struct question *q)
{
	struct watch *w = q->watch;
	struct catalog_read args = { .Name = buf_span(&w->node) };
	struct span token = w->token.len > 0 ? buf_span(&w->token) : token_of(&w->aliases->conf.token);
	struct buf packed = BUF_INIT(ARGS_BYTES_MAX);

	schema_pack(op_find((uint16_t)q->op)->args, &args, &packed);
	q->call = packed.failed ? NULL : route_start(w->aliases->conf.route, &(struct op_request){
		.op = (uint16_t)q->op, .dc = span_of("", 0), .mode = OP_STALE, .index = q->index,
		.wait_ms = q->index > 0 ? WAIT_MS : 0, .token = token, .args = buf_span(&packed),
	    }, on_reply, q);
	buf_done(&packed);
	if (q->call == NULL)
		failed(q, NULL);
}

static void
on_retry(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct question *q = w->data;

	if (q->call == NULL)
		ask_catalog(q);
}

/* All of it, at once: there is a new alias. */
static void
ask_anew(struct question *q)
{
	struct ev_loop *loop = q->watch->aliases->conf.loop;

	if (q->call != NULL)
		route_cancel(q->call);
	q->call = NULL;
	q->index = 0;
	q->answered = false;
	ev_timer_stop(loop, &q->retry);
	ev_timer_set(&q->retry, 0., 0.);
	ev_timer_start(loop, &q->retry);
}

static void
question_init(struct question *q, struct watch *w, enum op_code op)
{
	*q = (struct question){ .watch = w, .op = op, .pause = RETRY_MIN_S };
	ev_timer_init(&q->retry, on_retry, 0., 0.);
	q->retry.data = q;
}

static void
question_done(struct question *q)
{
	if (q->call != NULL)
		route_cancel(q->call);
	ev_timer_stop(q->watch->aliases->conf.loop, &q->retry);
}

static struct watch *
watch_of(struct aliases *a, struct span node, struct span token)
{
	struct watch *w;

	LIST_FOREACH(w, &a->watches, link)
		if (span_eq(buf_span(&w->node), node) && span_eq(buf_span(&w->token), token))
			return w;
	if ((w = calloc(1, sizeof(*w))) == NULL)
		return NULL;
	w->aliases = a;
	w->node = BUF_INIT(NAME_BYTES_MAX);
	w->token = BUF_INIT(OP_NAME_BYTES_MAX);
	w->token.secret = true;
	buf_putspan(&w->node, node);
	buf_putspan(&w->token, token);
	question_init(&w->checks, w, OP_HEALTH_NODE);
	question_init(&w->services, w, OP_CATALOG_NODE);
	LIST_INSERT_HEAD(&a->watches, w, link);
	return w;
}

static void
watch_leave(struct watch *w)
{
	if (--w->users > 0)
		return;
	LIST_REMOVE(w, link);
	question_done(&w->checks);
	question_done(&w->services);
	buf_done(&w->node);
	buf_done(&w->token);
	free(w);
}

/* -- all of them -- */

struct alias *
alias_add(struct aliases *a, struct span node, struct span service, struct span token, void *alias_ctx)
{
	bool here = node.len == 0 || span_eqs(node, a->conf.node_name);
	struct alias *s = calloc(1, sizeof(*s));
	struct watch *w = here || s == NULL ? NULL : watch_of(a, node, token);

	if (s == NULL || (!here && w == NULL)) {
		free(s);
		return NULL;
	}
	*s = (struct alias){ .aliases = a, .ctx = alias_ctx, .watch = w,
	    .node = BUF_INIT(NAME_BYTES_MAX), .service = BUF_INIT(NAME_BYTES_MAX),
	    .found = { .status = "critical", .output = BUF_INIT(OUTPUT_BYTES_MAX) } };
	buf_putspan(&s->node, node);
	buf_putspan(&s->service, service);
	LIST_INSERT_HEAD(&a->all, s, link);
	a->count++;
	if (w == NULL) {
		look_soon(s);
		return s;
	}
	w->users++;
	ask_anew(&w->checks);
	ask_anew(&w->services);
	return s;
}

void
alias_remove(struct alias *s)
{
	struct aliases *a = s->aliases;

	LIST_REMOVE(s, link);
	a->count--;
	if (s->watch != NULL)
		watch_leave(s->watch);
	buf_done(&s->node);
	buf_done(&s->service);
	buf_done(&s->found.output);
	free(s);
}

unsigned
aliases_count(const struct aliases *a)
{
	return a->count;
}

struct aliases *
aliases_new(const struct aliases_conf *conf)
{
	struct aliases *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	a->conf = *conf;
	a->arena = ARENA_INIT(REPLY_BYTES_MAX);
	ev_timer_init(&a->look, on_look, 0., 0.);
	a->look.data = a;
	registry_watch(conf->registry, on_change, a);
	return a;
}

void
aliases_free(struct aliases *a)
{
	if (a == NULL)
		return;
	ev_timer_stop(a->conf.loop, &a->look);
	arena_done(&a->arena);
	free(a);
}
