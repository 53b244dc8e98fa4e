/*
 * /v1/agent/dns/NAME: what this node's DNS answers to a question, and why.  Ours: Consul has nothing like it.  What is
 * told is found by rpcd/names/dns_explain.c; here it becomes sentences and JSON.
 */
#include "common/base/addr.h"
#include "common/record/record.h"
#include "rpcd/api/api.h"
#include "rpcd/names/dns_explain.h"

#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))
#define TYPE_BYTES 16
#define PLAIN_UDP 512
#define OUTPUT_SHOWN 200		/* bytes of what a check says */

RECORD_LOCAL(shown_record, (STR, Section), (STR, Name), (STR, Type), (U64, TTL), (STR, TTLFrom), (STR, Data))
RECORD_LOCAL(shown_instance,
	(STR, Node), (STR, ID), (STR, Address), (U64, Port), (U64, Weight), (STR, State), (BOOL, Answered),
	(STR, Reason), (STR, Check), (STR, Output))
RECORD_LOCAL(shown_source,
	(STR, Asked), (STR, Datacenter), (STR, From), (BOOL, Cached), (U64, AgeMs), (U64, LastContactMs),
	(U64, Instances), (STR, Result), (STR, Error))
RECORD_LOCAL(explanation,
	(STR, Name), (STR, Type), (STR, Transport), (U64, UDPSize), (BOOL, Served), (STR, Meaning), (STR, Rcode),
	(BOOL, Forwarded), (STRS, Flags), (U64, Bytes), (STR, Why), (OBJS, Records, shown_record),
	(OBJS, Instances, shown_instance), (U64, InstancesNotShown), (OBJS, Sources, shown_source))

/* -- sentences -- */

#define S(span_) SPAN_ARGS(span_)

static const char *
kind_text(enum dns_kind kind)
{
	static const char *const texts[] = {
		[DNS_KIND_NODE] = "node", [DNS_KIND_SERVICE] = "service", [DNS_KIND_CONNECT] = "proxies of the service",
		[DNS_KIND_INGRESS] = "ingress gateways of the service", [DNS_KIND_QUERY] = "prepared query",
		[DNS_KIND_ADDRESS] = "address",
	};

	return kind < NITEMS(texts) && texts[kind] != NULL ? texts[kind] : "name elsewhere";
}

static struct span
type_text(uint16_t type, struct arena *a)
{
	char text[TYPE_BYTES];

	return arena_printf(a, "%s", dns_type_text(type, text, sizeof(text)));
}

static struct span
datacenter_of(const struct dns_report *r, const struct dns_lookup *k)
{
	return k->datacenter.len > 0 ? k->datacenter : r->zone->datacenter;
}

/* What a look-up asks for: "service web with the tag v1". */
static struct span
lookup_text(const struct dns_lookup *k, struct arena *a)
{
	char address[ADDR_IP_BYTES];
	struct span name = k->name;

	if (k->kind == DNS_KIND_ADDRESS) {
		struct addr ip = addr_of_bytes(name.p, name.len);

		name = span_str(addr_ip(&ip, address));
	} else if (k->kind == DNS_KIND_UPSTREAM) {
		name = dns_name_text(name, a);
	}
	return arena_printf(a, "%s %.*s%s%.*s", kind_text(k->kind), S(name), k->tagged ? " with the tag " : "",
	    S(k->tag));
}

static struct span
meaning_text(const struct dns_report *r, struct arena *a)
{
	const struct dns_explanation *e = r->answer;
	struct span domain = dns_name_text(dname_span(&r->zone->domain), a);

	if (e->place == DNS_PLACE_ELSEWHERE)
		return arena_printf(a, "a name outside of %.*s", S(domain));
	if (e->place == DNS_PLACE_REVERSE && e->main < 0)
		return span_str("no whole address");
	if (e->place == DNS_PLACE_REVERSE)
		return arena_printf(a, "who has the %.*s", S(lookup_text(&r->facts->v[0].lookup, a)));
	if (e->apex)
		return arena_printf(a, "the zone %.*s", S(domain));
	if (e->asked->form == DNS_FORM_NONE)
		return span_str("nothing");
	if (e->asked->form != DNS_FORM_LOOKUP)
		return span_str("the address that the name spells");
	return arena_printf(a, "%.*s, datacenter %.*s", S(lookup_text(&e->asked->lookup, a)),
	    S(datacenter_of(r, &e->asked->lookup)));
}

/* "192.0.2.1 port 53, dns.example.com" */
static struct span
recursors(const struct dns_report *r, struct arena *a)
{
	struct span all = SPAN_NONE;

	for (uint32_t i = 0; i < r->setup->recursors.n; i++) {
		struct span one = r->setup->recursors.v[i];
		bool file = span_starts(one, span_str("file:"));
		const uint8_t *blank = file ? NULL : memchr(one.p, ' ', one.len);
		size_t address = blank == NULL ? one.len : (size_t)(blank - one.p);

		all = arena_printf(a, "%.*s%s%.*s%s%.*s", S(all), i > 0 ? ", " : "", (int)address,
		    (const char *)one.p, blank == NULL ? "" : " port", (int)(one.len - address),
		    (const char *)one.p + address);
	}
	return all;
}

static struct span
recursion_nets(const struct dns_report *r, struct arena *a)
{
	struct span all = span_str("");

	for (uint32_t i = 0; i < r->setup->recursion_from.n; i++)
		all = arena_printf(a, "%.*s%s%.*s", S(all), i > 0 ? ", " : "", S(r->setup->recursion_from.v[i]));
	return all.len > 0 ? all : span_str("which lists none");
}

static struct span
why_forwarded(const struct dns_report *r, struct arena *a)
{
	bool reverse = r->answer->place == DNS_PLACE_REVERSE;
	struct span domain = dns_name_text(dname_span(&r->zone->domain), a);
	struct span not_ours = reverse ? span_str("no node and no service here has this address") :
	    arena_printf(a, "it is not below %.*s%s", S(domain), r->zone->alt_domain.len > 0 ? " or alt_domain" : "");

	if (r->setup->recursors.n == 0)
		return arena_printf(a, "%.*s, and there is nobody else to ask: `recursors` in rpcd.conf lists "
		    "servers for other names", S(not_ours));
	return arena_printf(a, "%.*s: the recursors are asked, in %s order: %.*s. Only for clients on this "
		    "host and in dns_config.allow_recursion_from (%.*s); others get REFUSED", S(not_ours),
		    r->setup->random_recursor ? "random" : "this", S(recursors(r, a)), S(recursion_nets(r, a)));
}

/* What the token of DNS lacks to see what was looked up, as a sentence; SPAN_NONE: nothing, as far as is known. */
static struct span
hidden_from_dns(struct request *r, const struct dns_report *report)
{
	const struct dns_explanation *e = report->answer;
	const struct dns_lookup *k = e->main < 0 ? NULL : &report->facts->v[e->main].lookup;
	bool set = agent_token_default(r->api->tokens).len > 0;
	const char *whose = set ? "acl.tokens.default" : "acl.tokens.default is not set, and the anonymous token";
	bool node = k != NULL && k->kind == DNS_KIND_NODE, query = k != NULL && k->kind == DNS_KIND_QUERY;

	if (k == NULL || query)
		return SPAN_NONE;
	if (r->other_unknown && set)
		return span_str("acl.tokens.default is unknown");
	if (r->other_rights == NULL)
		return SPAN_NONE;
	if (!node && !acl_set_allows(r->other_rights->set, ACL_SERVICE, k->name, ACL_READ))
		return arena_printf(&r->arena, "%s lacks service \"%.*s\" { policy = \"read\" }", whose, S(k->name));
	if (node && !acl_set_allows(r->other_rights->set, ACL_NODE, k->name, ACL_READ))
		return arena_printf(&r->arena, "%s lacks node \"%.*s\" { policy = \"read\" }", whose, S(k->name));
	if (!node && !acl_set_allows(r->other_rights->set, ACL_NODE, SPAN_NONE, ACL_READ))
		return arena_printf(&r->arena, "%s lacks node_prefix \"\" { policy = \"read\" }", whose);
	return SPAN_NONE;
}

/* Nothing was found. */
static struct span
why_none(const struct dns_report *r, struct arena *a, struct span hidden)
{
	const struct dns_lookup *k = &r->facts->v[r->answer->main].lookup;
	const struct dns_source *s = &r->sources[r->answer->main];
	struct span dc = datacenter_of(r, k), what = lookup_text(k, a);

	if (s->err == TV_EUNREACH)
		return arena_printf(a, "there is no datacenter %.*s, or none of its servers can be reached; "
		    "`clusterctl catalog datacenters` shows those that there are", S(dc));
	if (hidden.len > 0)
		return arena_printf(a, "the %.*s is not there, or DNS may not see it: %.*s", S(what), S(hidden));
	if (k->kind == DNS_KIND_INGRESS)
		return span_str("ingress gateways are not served by this version");
	if (k->kind == DNS_KIND_NODE)
		return arena_printf(a, "no node %.*s is in the catalog of %.*s; `clusterctl catalog nodes` shows "
		    "them", S(k->name), S(dc));
	if (k->kind == DNS_KIND_QUERY)
		return arena_printf(a, s->err == TV_ENOENT ? "there is no prepared query of this name or id, and no "
		    "template for it; `clusterctl query list` shows them" : "the prepared query finds no instance: "
		    "`clusterctl query explain` shows what it asks for");
	if (r->other_count > 0 && r->others[0].why == DNS_WHY_DEAD)
		return span_str("each instance is on a node that gossip takes for dead, and no server can be "
		    "reached to say more");
	if (k->tagged && r->other_count > 0)
		return arena_printf(a, "no instance of the service %.*s has the tag %.*s", S(k->name), S(k->tag));
	return arena_printf(a, "no instance of the %.*s is registered in %.*s; `clusterctl catalog services` "
		    "shows what is", S(k->tagged ? arena_printf(a, "service %.*s", S(k->name)) : what), S(dc));
}

static bool
has_section(const struct dns_explanation *e, enum dns_section_of section)
{
	for (unsigned i = 0; i < e->record_count; i++)
		if (e->records[i].section == section)
			return true;
	return false;
}

static struct span
why_empty(const struct dns_report *r, struct arena *a)
{
	const struct dns_explanation *e = r->answer;

	if (e->asked->form == DNS_FORM_EMPTY)
		return span_str("names in addr have 8 hexadecimal digits (IPv4) or 32 (IPv6)");
	if (e->apex || e->asked->form != DNS_FORM_LOOKUP)
		return span_str("there is nothing of this type");
	if (e->asked->lookup.kind == DNS_KIND_NODE && e->main < 0)
		return span_str("a node has records of type A, AAAA, TXT and ANY only; whether it is there "
		    "was not looked up");
	return arena_printf(a, "it is there, and has no record of type %.*s",
		    S(type_text(r->question->type, a)));
}

static struct span
why_text(const struct dns_report *r, struct arena *a, struct span hidden)
{
	const struct dns_explanation *e = r->answer;
	const struct dns_found *found = e->main < 0 ? NULL : r->facts->v[e->main].found;

	if (e->outcome == DNS_FORWARD)
		return why_forwarded(r, a);
	if (e->rcode == DNS_SERVFAIL && e->main >= 0)
		return arena_printf(a, "it could not be looked up: %.*s%s%.*s", S(r->sources[e->main].text.len > 0 ?
		    r->sources[e->main].text : span_str("too much is under way, or no memory")),
		    hidden.len > 0 ? "; " : "", S(hidden));
	if (e->rcode == DNS_NOTIMP)
		return span_str("the zone cannot be transferred");
	if (e->rcode == DNS_NXDOMAIN && e->asked->form == DNS_FORM_NONE)
		return arena_printf(a, "a name here is NAME.service, TAG.NAME.service, NAME.node, NAME.query, "
		    "NAME.connect or HEX.addr, then a datacenter or none, then %.*s",
		    S(dns_name_text(dname_span(&r->zone->domain), a)));
	if (e->rcode == DNS_NXDOMAIN && found != NULL && found->count > 0)
		return span_str("each instance is left out for its health: see Instances");
	if (e->rcode == DNS_NXDOMAIN && found != NULL)
		return why_none(r, a, hidden);
	if (!has_section(e, DNS_SECTION_ANSWER))
		return why_empty(r, a);
	return span_str("");
}

static struct span
reason_text(const struct dns_report *r, const struct dns_judged *j, const struct dns_detail *d, struct arena *a)
{
	const char *of = d == NULL || d->check.len == 0 ? "" : d->of_node ? " of the node" : " of the service";
	struct span check = d == NULL || d->check.len == 0 ? span_str("a check") :
	    arena_printf(a, "the check \"%.*s\"%s", S(d->check), of);
	struct span status = d == NULL || d->status.len == 0 ? span_str("not passing") : d->status;

	switch (j->why) {
	case DNS_WHY_ANSWERED:
		return span_str("");
	case DNS_WHY_CRITICAL:
		return arena_printf(a, "%.*s is critical", S(check));
	case DNS_WHY_NOT_PASSING:
		return arena_printf(a, "%.*s is %.*s, and dns_config.only_passing is on", S(check), S(status));
	case DNS_WHY_NO_ADDRESS:
		return arena_printf(a, "it has no address for type %.*s", S(type_text(r->question->type, a)));
	case DNS_WHY_UNWRITABLE:
		return span_str("its address, a host name, cannot be written as a name of DNS");
	case DNS_WHY_SAME:
		return span_str("its record is that of another instance, which stands for both");
	case DNS_WHY_HOST_NAME:
		return span_str("its address is a host name, and another instance has an address or came first");
	case DNS_WHY_RECORD_LIMIT:
		return arena_printf(a, "dns_config.a_record_limit is %u: others were drawn this time",
		    r->zone->a_record_limit);
	case DNS_WHY_ANSWER_LIMIT:
		return arena_printf(a, "UDP without EDNS holds dns_config.udp_answer_limit answers (%u): others were "
		    "drawn this time", r->zone->udp_answer_limit);
	case DNS_WHY_SIZE:
		return arena_printf(a, "no space in %s: others were drawn this time", r->question->tcp ?
		    "a message" : "the bytes that the client takes over UDP");
	case DNS_WHY_TAG:
		return arena_printf(a, "it has not the tag %.*s", S(r->facts->v[0].lookup.tag));
	case DNS_WHY_DEAD:
		return span_str("gossip takes its node for dead, and no server can be reached to say more");
	}
	return span_str("");
}

/* -- parts of the answer; false: no memory -- */

static bool
list_records(const struct dns_explanation *e, struct arena *a, struct obj_list *out)
{
	static const char *const sections[] = { "answer", "authority", "additional" };
	struct shown_record *v = arena_array(a, e->record_count, sizeof(*v));

	*out = (struct obj_list){ v, e->record_count, true };
	for (unsigned i = 0; v != NULL && i < e->record_count; i++) {
		const struct dns_shown *s = &e->records[i];

		v[i] = (struct shown_record){ span_str(sections[s->section]), s->owner, type_text(s->type, a), s->ttl,
			s->ttl_from.len > 0 ? s->ttl_from : span_str("the name that it leads to"), s->data };
	}
	return v != NULL;
}

static struct shown_instance
show_instance(const struct dns_report *r, const struct dns_judged *j, const struct dns_detail *d, struct arena *a)
{
	static const char *const states[] = { "passing", "warning", "critical", "other" };
	const struct dns_instance *n = j->instance;
	struct shown_instance v = {
		.Node = n->node, .Address = n->service_address.len > 0 ? n->service_address : n->address,
		.Port = n->port, .Weight = n->weight,
		.State = span_str(n->state <= DNS_OTHER_STATE ? states[n->state] : "other"),
		.Answered = j->why == DNS_WHY_ANSWERED, .Reason = reason_text(r, j, d, a),
	};

	if (d != NULL) {
		v.ID = d->id;
		v.Check = d->check;
		v.Output = span_of(d->output.p, d->output.len < OUTPUT_SHOWN ? d->output.len : OUTPUT_SHOWN);
	}
	return v;
}

static bool
list_instances(const struct dns_report *r, struct arena *a, struct obj_list *out)
{
	const struct dns_explanation *e = r->answer;
	const struct dns_detail *d = e->main < 0 ? NULL : r->sources[e->main].details;
	unsigned n = e->instance_count + r->other_count;
	struct shown_instance *v = arena_array(a, n, sizeof(*v));

	*out = (struct obj_list){ v, n, true };
	for (unsigned i = 0; v != NULL && i < e->instance_count; i++)
		v[i] = show_instance(r, &e->instances[i], d == NULL ? NULL : &d[i], a);
	for (unsigned i = 0; v != NULL && i < r->other_count; i++)
		v[e->instance_count + i] = show_instance(r, &r->others[i], &r->other_details[i], a);
	return v != NULL;
}

/* Which server or cache was asked. */
static struct span
from_text(const struct request *r, const struct dns_report *report, const struct dns_lookup *k,
    const struct dns_source *s, struct arena *a)
{
	struct span dc = datacenter_of(report, k);
	bool own = span_eq_nocase(dc, report->zone->datacenter);
	const char *how = s->origin.stale ? "as far as it has read the log (dns_config.allow_stale)" : "up to date";

	if (k->kind == DNS_KIND_UPSTREAM)
		return span_str("a recursor is asked for it, which is not done here");
	if (!s->asked)
		return span_str("not looked up");
	if (s->origin.cached && s->origin.age.ns == 0)
		return span_str("the cache of this node, which follows the servers (dns_config.use_cache)");
	if (s->origin.cached)
		return span_str("the cache of this node (dns_config.use_cache)");
	if (own && r->api->cluster->server)
		return arena_printf(a, "this server, %s", how);
	return arena_printf(a, "a server of %.*s, %s", S(dc), how);
}

static bool
list_sources(const struct request *r, const struct dns_report *report, struct arena *a, struct obj_list *out)
{
	static const char *const results[] = { "found", "not there", "failed" };
	struct shown_source *v = arena_array(a, report->facts->n, sizeof(*v));

	*out = (struct obj_list){ v, report->facts->n, true };
	for (unsigned i = 0; v != NULL && i < report->facts->n; i++) {
		const struct dns_fact *f = &report->facts->v[i];
		const struct dns_source *s = &report->sources[i];

		v[i] = (struct shown_source){ lookup_text(&f->lookup, a), datacenter_of(report, &f->lookup),
			from_text(r, report, &f->lookup, s, a), s->origin.cached, (uint64_t)mono_ms(s->origin.age),
			s->origin.last_contact_ms, f->found->count,
			span_str(results[f->found->status <= DNS_FAILED ? f->found->status : DNS_FAILED]), s->text };
	}
	return v != NULL;
}

/* "" where a recursor says it. */
static const char *
rcode_text(const struct dns_report *r)
{
	static const char *const names[] = { "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED" };
	const struct dns_explanation *e = r->answer;

	if (e->outcome == DNS_FORWARD)
		return r->setup->recursors.n > 0 ? "" : e->place == DNS_PLACE_REVERSE ? "SERVFAIL" : "REFUSED";
	return e->rcode < sizeof(names) / sizeof(names[0]) ? names[e->rcode] : "";
}

static void
on_report(void *ctx, const struct dns_report *report)
{
	static const struct { uint16_t bit; const char *name; } flags[] = {
		{ DNS_AA, "aa" }, { DNS_TC, "tc" }, { DNS_RD, "rd" }, { DNS_RA, "ra" },
	};
	struct request *r = ctx;
	struct arena *a = &r->arena;
	struct explanation v = { .Served = r->api->conf->dns_port != 0 };
	struct span names[NITEMS(flags)];

	r->cancel = NULL;
	if (report == NULL || !list_records(report->answer, a, &v.Records) ||
	    !list_instances(report, a, &v.Instances) || !list_sources(r, report, a, &v.Sources)) {
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
		return;
	}
	const struct dns_explain_question *q = report->question;
	const struct dns_explanation *e = report->answer;
	v.Name = dns_name_text(dname_span(&q->name), a);
	v.Type = type_text(q->type, a);
	v.Transport = span_str(q->tcp ? "tcp" : "udp");
	v.UDPSize = q->tcp ? 0 : q->edns && q->udp_size > PLAIN_UDP ? q->udp_size : PLAIN_UDP;
	v.Meaning = meaning_text(report, a);
	v.Rcode = span_str(rcode_text(report));
	v.Forwarded = e->outcome == DNS_FORWARD && report->setup->recursors.n > 0;
	v.Flags = (struct span_list){ names, 0, true };
	for (unsigned i = 0; i < NITEMS(flags); i++)
		if (e->flags & flags[i].bit)
			names[v.Flags.n++] = span_str(flags[i].name);
	v.Bytes = e->bytes;
	v.Why = why_text(report, a, hidden_from_dns(r, report));
	v.InstancesNotShown = e->instances_left_out + report->others_left_out;
	schema_json_rec(&explanation_schema, &v, &r->answer.body);
	answer_json(r);
}

/* -- the question -- */

static bool
take_type(struct request *r, uint16_t *type)
{
	struct span text = params_get(&r->query, "type");

	*type = text.len == 0 ? DNS_A : dns_type_of(text);
	if (*type == 0)
		answer_text(r, 400, "type: \"%.*s\" is not known: A, AAAA, SRV, ANY, TXT, NS, SOA, PTR, CNAME, "
		    "MX, AXFR, or TYPE and a number", S(text));
	return *type != 0;
}

static bool
take_size(struct request *r, struct dns_explain_question *q)
{
	struct span text = params_get(&r->query, "size");
	uint64_t v;

	if (!params_has(&r->query, "size"))
		return true;
	if (u64_parse(text, &v) != TV_OK || v > UINT16_MAX) {
		answer_text(r, 400, "size: \"%.*s\" is no number of bytes from 0 to 65535", S(text));
		return false;
	}
	q->edns = true;
	q->udp_size = (uint16_t)v;
	return true;
}

static bool
take_source(struct request *r, struct dns_explain_question *q)
{
	struct span text = params_get(&r->query, "from");
	uint8_t bytes[16];

	q->source = text.len > 0 ? text : span_str(r->head.client_ip == NULL ? "127.0.0.1" : r->head.client_ip);
	if (text.len == 0 || dns_address_of(text, bytes) > 0)
		return true;
	answer_text(r, 400, "from: \"%.*s\" is no IP address", S(text));
	return false;
}

static void
cancel(struct request *r)
{
	dns_explain_cancel(r->state);
}

static void
explain(struct request *r)
{
	struct dns_explain_question q = { .tcp = params_has(&r->query, "tcp") };
	enum tv_err err;

	if (dname_of_text(r->rest, &q.name) != TV_OK) {
		answer_text(r, 400, "\"%.*s\" is no name of DNS: labels of 1 to 63 bytes with dots between, 253 in all",
		    S(r->rest));
		return;
	}
	if (!take_type(r, &q.type) || !take_size(r, &q) || !take_source(r, &q))
		return;
	struct dns_explain_call *c = dns_explain_start(r->api->dns_explainer, &q, on_report, r, &err);
	if (c != NULL) {
		r->state = c;
		r->cancel = cancel;
	} else if (err == TV_ELIMIT) {
		api_busy(r);
	} else if (err != TV_OK) {
		answer_text(r, 500, "%s", tv_strerror(err));
	}
}

/* The token of DNS decides what it sees, which is not that of the request. */
static void
run_dns(struct request *r)
{
	api_ask_rights(r, agent_token_default(r->api->tokens), explain);
}

const struct endpoint api_dns[] = {
	{ "/v1/agent/dns/", "GET", ACCESS_AGENT_READ, .missing = "Missing name, as in /v1/agent/dns/web.service.consul",
	    .run = run_dns },
	{ .path = NULL },
};
