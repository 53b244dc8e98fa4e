/* Explanations of answers, see dns_explain.h. */
#include <stdlib.h>
#include <sys/queue.h>

#include "common/base/clock.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/dns/message.h"
#include "rpcd/names/dns_conf.h"
#include "rpcd/names/dns_explain.h"

#define CALLS_MAX 16			/* explanations under way */
#define CALL_BYTES_MAX (64u << 20)	/* of one */
#define WORK_BYTES_MAX (32u << 20)
#define ENTRY_BYTES_MAX (1u << 20)	/* of one instance with its checks, while it is read */
#define UNTAGGED DNS_FACTS_MAX		/* the look-up of the service without its tag */

struct dns_explainer {
	struct dns_lookups *lookups;
	const struct rpcd_conf *conf;
	const char *datacenter;
	LIST_HEAD(, dns_explain_call) list;
	unsigned calls;
	uint64_t serial;
	struct arena work;
	struct buf buf;
	struct dns_names names;
	struct rng rng;
};

struct dns_explain_call {
	struct dns_explainer *owner;
	LIST_ENTRY(dns_explain_call) link;
	dns_explain_done *done;
	void *ctx;
	uint64_t id;
	struct arena arena;		/* what follows borrows it */
	struct msg_dns_setup setup;
	struct dns_zone zone;
	struct dns_explain_question question;
	struct dns_query q;
	uint64_t seed;
	struct dns_facts facts;
	struct dns_found found[DNS_FACTS_MAX + 1];
	struct dns_source sources[DNS_FACTS_MAX + 1];
	unsigned missing;
	bool starting;			/* look-ups are being started: those that end at once do not go on */
	bool failed;			/* no memory */
	bool wants_untagged, has_untagged;
};

static void
call_free(struct dns_explain_call *c)
{
	LIST_REMOVE(c, link);
	c->owner->calls--;
	arena_done(&c->arena);
	free(c);
}

/* -- instances -- */

/* The worst check, as DNS judges: critical, then whatever does not pass. */
static void
take_check(struct dns_explain_call *c, const struct health_entry *e, struct dns_detail *out)
{
	const struct check *v = e->Checks.v, *worst = NULL;

	for (uint32_t i = 0; i < e->Checks.n; i++) {
		if (span_eqs(v[i].Status, "passing"))
			continue;
		if (worst == NULL || (span_eqs(v[i].Status, "critical") && !span_eqs(worst->Status, "critical")))
			worst = &v[i];
	}
	if (worst == NULL)
		return;
	out->check = arena_copy(&c->arena, worst->Name.len > 0 ? worst->Name : worst->CheckID);
	out->status = arena_copy(&c->arena, worst->Status);
	out->output = arena_copy(&c->arena, worst->Output);
	out->of_node = worst->ServiceID.len == 0;
}

/* Both lists are in the catalog's order; the one of what was found may lack some. */
static bool
is_entry(const struct dns_instance *n, const struct health_entry *e)
{
	return span_eq(n->node, e->Node.Node) && span_eq(n->service_address, e->Service.Address) &&
	    n->port == (e->Service.Port < 65536 ? e->Service.Port : 0);
}

static enum dns_state
state_of(struct span worst)
{
	return worst.len == 0 ? DNS_PASSING : span_eqs(worst, "critical") ? DNS_CRITICAL :
	    span_eqs(worst, "warning") ? DNS_WARNING : DNS_OTHER_STATE;
}

/* What is shown of one that was left out. */
static void
take_dead(struct dns_explain_call *c, const struct health_entry *e, struct dns_instance *n, struct dns_detail *d)
{
	struct arena *a = &c->arena;

	d->id = arena_copy(a, e->Service.ID);
	take_check(c, e, d);
	*n = (struct dns_instance){ .node = arena_copy(a, e->Node.Node), .address = arena_copy(a, e->Node.Address),
	    .service_address = arena_copy(a, e->Service.Address),
	    .port = e->Service.Port < 65536 ? e->Service.Port : 0, .state = state_of(d->status) };
}

/* What the reply tells of the instances.  `stale`: those that were not found are on dead nodes. */
static void
take_details(struct dns_explain_call *c, struct span list, const struct dns_found *found, bool stale,
    struct dns_source *s)
{
	struct rd in = rd_span_over(list);
	struct arena one = ARENA_INIT(ENTRY_BYTES_MAX);
	uint32_t n = mpr_nil(&in) ? 0 : mpr_array(&in);
	unsigned at = 0, dead_max = !stale || n <= found->count ? 0 : n - found->count < DNS_EXPLAIN_MAX ?
	    n - found->count : DNS_EXPLAIN_MAX;
	struct dns_detail *v = arena_array(&c->arena, found->count, sizeof(*v));
	struct dns_detail *dead_details = arena_array(&c->arena, dead_max, sizeof(*dead_details));
	struct dns_instance *dead = arena_array(&c->arena, dead_max, sizeof(*dead));

	if (v == NULL || dead == NULL || dead_details == NULL)
		return;
	for (; n > 0; n--) {
		struct health_entry e = { 0 };

		arena_reset(&one);
		if (schema_unpack(&health_entry_schema, &in, &one, &e) != TV_OK)
			break;
		if (at < found->count && is_entry(&found->instances[at], &e)) {
			v[at].id = arena_copy(&c->arena, e.Service.ID);
			take_check(c, &e, &v[at++]);
		} else if (s->dead_count < dead_max) {
			take_dead(c, &e, &dead[s->dead_count], &dead_details[s->dead_count]);
			s->dead_count++;
		}
	}
	arena_done(&one);
	s->details = v;
	s->dead = dead;
	s->dead_details = dead_details;
}

/* The list of instances in a reply: of a query it is the first part. */
static struct span
entries_of(enum dns_kind kind, const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);

	if (kind == DNS_KIND_SERVICE || kind == DNS_KIND_CONNECT)
		return reply->value;
	return kind == DNS_KIND_QUERY && mpr_array(&in) > 0 ? mpr_value(&in) : SPAN_NONE;
}

/* -- the report -- */

/* Instances that were not found, and why. */
struct others {
	struct dns_judged *v;
	struct dns_detail *details;
	struct dns_report *out;
	unsigned max;
};

static void
add_other(struct others *o, const struct dns_instance *n, const struct dns_detail *d, enum dns_why why)
{
	struct dns_report *r = o->out;

	if (r->other_count == o->max) {
		r->others_left_out++;
		return;
	}
	o->v[r->other_count] = (struct dns_judged){ n, why };
	o->details[r->other_count++] = *d;
}

static void
add_untagged(struct dns_explain_call *c, struct others *o)
{
	const struct dns_found *all = &c->found[UNTAGGED], *tagged = c->facts.v[0].found;
	const struct dns_detail *details = c->sources[UNTAGGED].details, *own = c->sources[0].details;

	for (unsigned i = 0, k = 0; details != NULL && i < all->count; i++)
		if (k < tagged->count && own != NULL && span_eq(all->instances[i].node, tagged->instances[k].node) &&
		    span_eq(details[i].id, own[k].id))
			k++;
		else
			add_other(o, &all->instances[i], &details[i], DNS_WHY_TAG);
}

static void
take_others(struct dns_explain_call *c, struct dns_report *out)
{
	const struct dns_source *s = &c->sources[0];
	unsigned most = s->dead_count + (c->has_untagged ? c->found[UNTAGGED].count : 0);
	struct others o = { .out = out, .max = most < DNS_EXPLAIN_MAX ? most : DNS_EXPLAIN_MAX };

	o.v = arena_array(&c->arena, o.max, sizeof(*o.v));
	o.details = arena_array(&c->arena, o.max, sizeof(*o.details));
	out->others = o.v;
	out->other_details = o.details;
	if (o.v == NULL || o.details == NULL)
		return;
	for (unsigned i = 0; i < s->dead_count; i++)
		add_other(&o, &s->dead[i], &s->dead_details[i], DNS_WHY_DEAD);
	if (c->has_untagged)
		add_untagged(c, &o);
}

static struct dns_asker
asker_of(struct dns_explain_call *c)
{
	return (struct dns_asker){ .tcp = c->question.tcp, .source = c->question.source, .seed = c->seed,
	    .now = (uint32_t)(clock_wall_ns() / 1000000000), .names = &c->owner->names };
}

static void
finish_call(struct dns_explain_call *c, bool good)
{
	struct dns_explainer *e = c->owner;
	struct dns_asker asker = asker_of(c);
	struct dns_explanation answer = { .outcome = DNS_NO_ANSWER };
	struct dns_report report = { .setup = &c->setup, .zone = &c->zone, .question = &c->question,
	    .answer = &answer, .facts = &c->facts, .sources = c->sources };

	if (good)
		dns_explain(&c->zone, &c->q, &asker, &c->facts, &c->arena, &e->work, &e->buf, &answer);
	if (answer.outcome != DNS_NO_ANSWER)
		take_others(c, &report);
	arena_reset(&e->work);
	buf_reset(&e->buf);
	c->done(c->ctx, answer.outcome == DNS_NO_ANSWER ? NULL : &report);
	call_free(c);
}

static void run_call(struct dns_explain_call *c);

/* -- look-ups -- */

static struct dns_explain_call *
call_of(struct dns_explainer *e, uint64_t id)
{
	struct dns_explain_call *c;

	LIST_FOREACH(c, &e->list, link)
		if (c->id == id)
			return c;
	return NULL;
}

/* msg_dns_found as it comes, kept. */
static bool
keep_found(struct dns_explain_call *c, const struct msg_dns_found *m, struct dns_found *out)
{
	struct buf packed = BUF_INIT(CALL_BYTES_MAX);

	schema_pack(&msg_dns_found_schema, m, &packed);
	struct span body = packed.failed ? SPAN_NONE : arena_copy(&c->arena, buf_span(&packed));
	buf_done(&packed);
	return body.p != NULL && dns_found_read(body, &c->arena, out);
}

static void
on_found(void *ctx, uint64_t id, const struct msg_dns_found *m)
{
	struct dns_explainer *e = ctx;
	struct dns_explain_call *c = call_of(e, id / (DNS_FACTS_MAX + 1));
	unsigned at = (unsigned)(id % (DNS_FACTS_MAX + 1));
	const struct dns_lookup_origin *origin = dns_lookups_origin(e->lookups);

	if (c == NULL)			/* cancelled */
		return;
	struct dns_source *s = &c->sources[at];
	enum dns_kind kind = c->facts.v[at == UNTAGGED ? 0 : at].lookup.kind;
	if (!keep_found(c, m, &c->found[at]))
		c->failed = true;
	if (origin != NULL) {
		s->asked = true;
		s->err = origin->reply->err;
		s->text = arena_copy(&c->arena, origin->reply->text);
		s->origin = *origin;
		s->origin.reply = NULL;
		take_details(c, entries_of(kind, origin->reply), &c->found[at], m->stale, s);
	}
	if (at < DNS_FACTS_MAX)
		c->facts.v[at].found = &c->found[at];
	else
		c->has_untagged = true;
	if (--c->missing == 0 && !c->starting)
		run_call(c);
}

static void
look_up(struct dns_explain_call *c, unsigned at, const struct dns_lookup *k)
{
	const struct msg_dns_ask ask = { k->kind, k->name, k->tag, k->tagged, k->datacenter, k->source, DNS_FOLLOW_NO };

	c->missing++;
	/* A recursor is asked by the process that speaks DNS alone. */
	if (k->kind != DNS_KIND_UPSTREAM &&
	    dns_lookups_start(c->owner->lookups, c->id * (DNS_FACTS_MAX + 1) + at, &ask))
		return;
	c->missing--;
	c->found[at] = (struct dns_found){ .status = DNS_FAILED };
	if (at == UNTAGGED)
		return;
	c->sources[at].err = k->kind == DNS_KIND_UPSTREAM ? TV_OK : TV_ELIMIT;
	c->facts.v[at].found = &c->found[at];
}

/* Of the tag that was asked for, which others have not. */
static void
look_up_untagged(struct dns_explain_call *c)
{
	struct dns_lookup k = c->facts.v[0].lookup;

	if (k.kind != DNS_KIND_SERVICE || !k.tagged || c->wants_untagged)
		return;
	c->wants_untagged = true;
	k.tag = SPAN_NONE;
	k.tagged = false;
	look_up(c, UNTAGGED, &k);
}

static void
look_for_missing(struct dns_explain_call *c)
{
	struct arena *a = &c->arena;

	for (unsigned i = 0; i < c->facts.n; i++) {
		struct dns_lookup *k = &c->facts.v[i].lookup;

		if (c->facts.v[i].found != NULL)
			continue;
		/* They borrow the memory of the attempt. */
		*k = (struct dns_lookup){ .kind = k->kind, .name = arena_copy(a, k->name), .tag = arena_copy(a, k->tag),
		    .tagged = k->tagged, .datacenter = arena_copy(a, k->datacenter),
		    .source = arena_copy(a, k->source) };
		look_up(c, i, k);
	}
	look_up_untagged(c);
}

/* All that it missed is there, or nothing yet. */
static void
run_call(struct dns_explain_call *c)
{
	struct dns_explainer *e = c->owner;
	enum dns_outcome outcome = DNS_NO_ANSWER;

	while (!c->failed) {
		struct dns_asker asker = asker_of(c);

		arena_reset(&e->work);
		buf_reset(&e->buf);
		outcome = dns_answer(&c->zone, &c->q, &asker, &c->facts, &e->work, &e->buf);
		if (outcome != DNS_NEED)
			break;
		c->starting = true;
		look_for_missing(c);
		c->starting = false;
		if (c->missing > 0)
			return;
	}
	finish_call(c, !c->failed && outcome != DNS_NO_ANSWER);
}

/* -- calls -- */

static bool
take_question(struct dns_explain_call *c, const struct dns_explain_question *q)
{
	dns_conf_setup(c->owner->conf, c->owner->datacenter, &c->arena, &c->setup);
	c->question = *q;
	c->question.source = arena_copy(&c->arena, q->source);
	c->q = (struct dns_query){ .flags = DNS_RD, .type = q->type, .class = 1, .has_question = true, .name = q->name,
	    .edns = q->edns, .udp_size = q->udp_size };
	if (dns_zone_of_setup(&c->setup, &c->arena, &c->zone) != TV_OK)
		return false;
	c->zone.recursors = c->setup.recursors.n > 0;
	return true;
}

struct dns_explain_call *
dns_explain_start(struct dns_explainer *e, const struct dns_explain_question *q, dns_explain_done *done, void *ctx,
    enum tv_err *err)
{
	struct dns_explain_call *c = e->calls < CALLS_MAX ? calloc(1, sizeof(*c)) : NULL;
	uint64_t id = ++e->serial;

	*err = e->calls < CALLS_MAX ? TV_ENOMEM : TV_ELIMIT;
	if (c == NULL)
		return NULL;
	c->owner = e;
	c->done = done;
	c->ctx = ctx;
	c->id = id;
	c->seed = rng_u64(&e->rng);
	c->arena = ARENA_INIT(CALL_BYTES_MAX);
	LIST_INSERT_HEAD(&e->list, c, link);
	e->calls++;
	if (!take_question(c, q)) {
		call_free(c);
		return NULL;
	}
	*err = TV_OK;
	run_call(c);
	return call_of(e, id);
}

void
dns_explain_cancel(struct dns_explain_call *c)
{
	call_free(c);
}

struct dns_explainer *
dns_explainer_new(const struct dns_lookups_conf *conf)
{
	struct dns_explainer *e = calloc(1, sizeof(*e));

	if (e == NULL)
		return NULL;
	e->conf = conf->conf;
	e->datacenter = conf->datacenter;
	e->work = ARENA_INIT(WORK_BYTES_MAX);
	e->buf = BUF_INIT(2 * DNS_MESSAGE_BYTES_MAX);
	rng_seed(&e->rng, (uint64_t)clock_mono().ns);
	e->lookups = dns_lookups_new(conf, on_found, e);
	if (e->lookups == NULL) {
		free(e);
		return NULL;
	}
	return e;
}

void
dns_explainer_free(struct dns_explainer *e)
{
	if (e == NULL)
		return;
	dns_lookups_free(e->lookups);
	while (!LIST_EMPTY(&e->list))
		call_free(LIST_FIRST(&e->list));
	arena_done(&e->work);
	buf_done(&e->buf);
	free(e);
}
