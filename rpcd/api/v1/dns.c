/*
 * /v1/agent/dns/NAME: what this node's DNS answers to a question, and why.  Ours: Consul has nothing like it.  What is
 * told is found by rpcd/names/dns_explain.c; here it becomes sentences and JSON.
 */
#include <inttypes.h>
#include <stdio.h>

#include "common/base/addr.h"
#include "common/text/json_text.h"
#include "rpcd/api/api.h"
#include "rpcd/names/dns_explain.h"
#include "rpcd/names/dns_process.h"

#define TYPE_BYTES 16
#define PLAIN_UDP 512
#define OUTPUT_SHOWN 200		/* bytes of what a check says */

/* -- JSON -- */

static void
put_name(struct buf *out, const char *name)
{
	uint8_t last = out->len == 0 ? '{' : out->data[out->len - 1];

	if (last != '{' && last != '[')
		buf_u8(out, ',');
	buf_printf(out, "\"%s\":", name);
}

static void
put_text(struct buf *out, const char *name, struct span text)
{
	put_name(out, name);
	json_quote(text, out);
}

static __attribute__((format(printf, 3, 4))) void
put_sentence(struct buf *out, const char *name, const char *fmt, ...)
{
	struct buf b = BUF_INIT(1u << 16);
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	put_text(out, name, b.failed ? SPAN_NONE : buf_span(&b));
	buf_done(&b);
}

static void
put_number(struct buf *out, const char *name, uint64_t v)
{
	put_name(out, name);
	buf_printf(out, "%" PRIu64, v);
}

static void
put_bool(struct buf *out, const char *name, bool v)
{
	put_name(out, name);
	buf_puts(out, v ? "true" : "false");
}

static void
begin_object(struct buf *out)
{
	if (out->len > 0 && out->data[out->len - 1] == '}')
		buf_u8(out, ',');
	buf_u8(out, '{');
}

/* -- sentences -- */

#define S(span_) (int)(span_).len, (const char *)(span_).p

static const char *
kind_text(enum dns_kind kind)
{
	switch (kind) {
	case DNS_KIND_NODE:
		return "node";
	case DNS_KIND_SERVICE:
		return "service";
	case DNS_KIND_CONNECT:
		return "proxies of the service";
	case DNS_KIND_INGRESS:
		return "ingress gateways of the service";
	case DNS_KIND_QUERY:
		return "prepared query";
	case DNS_KIND_ADDRESS:
		return "address";
	default:
		return "name elsewhere";
	}
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

static void
put_meaning(struct buf *out, const struct dns_report *r, struct arena *a)
{
	const struct dns_explanation *e = r->answer;
	struct span domain = dns_name_text(dname_span(&r->zone->domain), a), what;

	if (e->place == DNS_PLACE_ELSEWHERE)
		put_sentence(out, "Meaning", "a name outside of %.*s", S(domain));
	else if (e->place == DNS_PLACE_REVERSE && e->main < 0)
		put_sentence(out, "Meaning", "no whole address");
	else if (e->place == DNS_PLACE_REVERSE)
		put_sentence(out, "Meaning", "who has the %.*s", S(lookup_text(&r->facts->v[0].lookup, a)));
	else if (e->apex)
		put_sentence(out, "Meaning", "the zone %.*s", S(domain));
	else if (e->asked->form == DNS_FORM_NONE)
		put_sentence(out, "Meaning", "nothing");
	else if (e->asked->form != DNS_FORM_LOOKUP)
		put_sentence(out, "Meaning", "the address that the name spells");
	else {
		what = lookup_text(&e->asked->lookup, a);
		put_sentence(out, "Meaning", "%.*s, datacenter %.*s", S(what), S(datacenter_of(r, &e->asked->lookup)));
	}
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

static void
put_why_forwarded(struct buf *out, const struct dns_report *r, struct arena *a)
{
	bool reverse = r->answer->place == DNS_PLACE_REVERSE;
	struct span domain = dns_name_text(dname_span(&r->zone->domain), a);
	struct span not_ours = reverse ? span_str("no node and no service here has this address") :
	    arena_printf(a, "it is not below %.*s%s", S(domain), r->zone->alt_domain.len > 0 ? " or alt_domain" : "");

	if (r->setup->recursors.n == 0)
		put_sentence(out, "Why", "%.*s, and there is nobody else to ask: `recursors` in rpcd.conf lists "
		    "servers for other names", S(not_ours));
	else
		put_sentence(out, "Why", "%.*s: the recursors are asked, in %s order: %.*s. Only for clients on this "
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
static void
put_why_none(struct buf *out, const struct dns_report *r, struct arena *a, struct span hidden)
{
	const struct dns_lookup *k = &r->facts->v[r->answer->main].lookup;
	const struct dns_source *s = &r->sources[r->answer->main];
	struct span dc = datacenter_of(r, k), what = lookup_text(k, a);

	if (s->err == TV_EUNREACH)
		put_sentence(out, "Why", "there is no datacenter %.*s, or none of its servers can be reached; "
		    "`clusterctl catalog datacenters` shows those that there are", S(dc));
	else if (hidden.len > 0)
		put_sentence(out, "Why", "the %.*s is not there, or DNS may not see it: %.*s", S(what), S(hidden));
	else if (k->kind == DNS_KIND_INGRESS)
		put_sentence(out, "Why", "ingress gateways are not served by this version");
	else if (k->kind == DNS_KIND_NODE)
		put_sentence(out, "Why", "no node %.*s is in the catalog of %.*s; `clusterctl catalog nodes` shows "
		    "them", S(k->name), S(dc));
	else if (k->kind == DNS_KIND_QUERY)
		put_sentence(out, "Why", s->err == TV_ENOENT ? "there is no prepared query of this name or id, and no "
		    "template for it; `clusterctl query list` shows them" : "the prepared query finds no instance: "
		    "`clusterctl query explain` shows what it asks for");
	else if (r->other_count > 0 && r->others[0].why == DNS_WHY_DEAD)
		put_sentence(out, "Why", "each instance is on a node that gossip takes for dead, and no server can be "
		    "reached to say more");
	else if (k->tagged && r->other_count > 0)
		put_sentence(out, "Why", "no instance of the service %.*s has the tag %.*s", S(k->name), S(k->tag));
	else
		put_sentence(out, "Why", "no instance of the %.*s is registered in %.*s; `clusterctl catalog services` "
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

static void
put_why_empty(struct buf *out, const struct dns_report *r)
{
	const struct dns_explanation *e = r->answer;
	char type[TYPE_BYTES];

	if (e->asked->form == DNS_FORM_EMPTY)
		put_sentence(out, "Why", "names in addr have 8 hexadecimal digits (IPv4) or 32 (IPv6)");
	else if (e->apex || e->asked->form != DNS_FORM_LOOKUP)
		put_sentence(out, "Why", "there is nothing of this type");
	else if (e->asked->lookup.kind == DNS_KIND_NODE && e->main < 0)
		put_sentence(out, "Why", "a node has records of type A, AAAA, TXT and ANY only; whether it is there "
		    "was not looked up");
	else
		put_sentence(out, "Why", "it is there, and has no record of type %s",
		    dns_type_text(r->question->type, type, sizeof(type)));
}

static void
put_why(struct buf *out, const struct dns_report *r, struct arena *a, struct span hidden)
{
	const struct dns_explanation *e = r->answer;
	const struct dns_found *found = e->main < 0 ? NULL : r->facts->v[e->main].found;

	if (e->outcome == DNS_FORWARD)
		put_why_forwarded(out, r, a);
	else if (e->rcode == DNS_SERVFAIL && e->main >= 0)
		put_sentence(out, "Why", "it could not be looked up: %.*s%s%.*s", S(r->sources[e->main].text.len > 0 ?
		    r->sources[e->main].text : span_str("too much is under way, or no memory")),
		    hidden.len > 0 ? "; " : "", S(hidden));
	else if (e->rcode == DNS_NOTIMP)
		put_sentence(out, "Why", "the zone cannot be transferred");
	else if (e->rcode == DNS_NXDOMAIN && e->asked->form == DNS_FORM_NONE)
		put_sentence(out, "Why", "a name here is NAME.service, TAG.NAME.service, NAME.node, NAME.query, "
		    "NAME.connect or HEX.addr, then a datacenter or none, then %.*s",
		    S(dns_name_text(dname_span(&r->zone->domain), a)));
	else if (e->rcode == DNS_NXDOMAIN && found != NULL && found->count > 0)
		put_sentence(out, "Why", "each instance is left out for its health: see Instances");
	else if (e->rcode == DNS_NXDOMAIN && found != NULL)
		put_why_none(out, r, a, hidden);
	else if (!has_section(e, DNS_SECTION_ANSWER))
		put_why_empty(out, r);
	else
		put_sentence(out, "Why", "%s", "");
}

static struct span
reason(const struct dns_report *r, const struct dns_judged *j, const struct dns_detail *d, struct arena *a)
{
	const char *of = d == NULL || d->check.len == 0 ? "" : d->of_node ? " of the node" : " of the service";
	struct span check = d == NULL || d->check.len == 0 ? span_str("a check") :
	    arena_printf(a, "the check \"%.*s\"%s", S(d->check), of);
	struct span status = d == NULL || d->status.len == 0 ? span_str("not passing") : d->status;
	char type[TYPE_BYTES];

	switch (j->why) {
	case DNS_WHY_ANSWERED:
		return span_str("");
	case DNS_WHY_CRITICAL:
		return arena_printf(a, "%.*s is critical", S(check));
	case DNS_WHY_NOT_PASSING:
		return arena_printf(a, "%.*s is %.*s, and dns_config.only_passing is on", S(check), S(status));
	case DNS_WHY_NO_ADDRESS:
		return arena_printf(a, "it has no address for type %s",
		    dns_type_text(r->question->type, type, sizeof(type)));
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

/* -- parts of the answer -- */

static void
put_records(struct buf *out, const struct dns_explanation *e)
{
	static const char *const sections[] = { "answer", "authority", "additional" };
	char type[TYPE_BYTES];

	put_name(out, "Records");
	buf_u8(out, '[');
	for (unsigned i = 0; i < e->record_count; i++) {
		const struct dns_shown *s = &e->records[i];

		begin_object(out);
		put_text(out, "Section", span_str(sections[s->section]));
		put_text(out, "Name", s->owner);
		put_text(out, "Type", span_str(dns_type_text(s->type, type, sizeof(type))));
		put_number(out, "TTL", s->ttl);
		put_text(out, "TTLFrom", s->ttl_from.len > 0 ? s->ttl_from : span_str("the name that it leads to"));
		put_text(out, "Data", s->data);
		buf_u8(out, '}');
	}
	buf_u8(out, ']');
}

static void
put_instance(struct buf *out, const struct dns_report *r, const struct dns_judged *j, const struct dns_detail *d,
    struct arena *a)
{
	static const char *const states[] = { "passing", "warning", "critical", "other" };
	const struct dns_instance *n = j->instance;

	begin_object(out);
	put_text(out, "Node", n->node);
	put_text(out, "ID", d == NULL ? SPAN_NONE : d->id);
	put_text(out, "Address", n->service_address.len > 0 ? n->service_address : n->address);
	put_number(out, "Port", n->port);
	put_number(out, "Weight", n->weight);
	put_text(out, "State", span_str(n->state <= DNS_OTHER_STATE ? states[n->state] : "other"));
	put_bool(out, "Answered", j->why == DNS_WHY_ANSWERED);
	put_text(out, "Reason", reason(r, j, d, a));
	put_text(out, "Check", d == NULL ? SPAN_NONE : d->check);
	put_text(out, "Output", d == NULL ? SPAN_NONE : span_of(d->output.p, d->output.len < OUTPUT_SHOWN ?
	    d->output.len : OUTPUT_SHOWN));
	buf_u8(out, '}');
}

static void
put_instances(struct buf *out, const struct dns_report *r, struct arena *a)
{
	const struct dns_explanation *e = r->answer;
	const struct dns_detail *d = e->main < 0 ? NULL : r->sources[e->main].details;

	put_name(out, "Instances");
	buf_u8(out, '[');
	for (unsigned i = 0; i < e->instance_count; i++)
		put_instance(out, r, &e->instances[i], d == NULL ? NULL : &d[i], a);
	for (unsigned i = 0; i < r->other_count; i++)
		put_instance(out, r, &r->others[i], &r->other_details[i], a);
	buf_u8(out, ']');
	put_number(out, "InstancesNotShown", e->instances_left_out + r->others_left_out);
}

/* Who was asked. */
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

static void
put_sources(struct buf *out, const struct request *r, const struct dns_report *report, struct arena *a)
{
	static const char *const results[] = { "found", "not there", "failed" };

	put_name(out, "Sources");
	buf_u8(out, '[');
	for (unsigned i = 0; i < report->facts->n; i++) {
		const struct dns_fact *f = &report->facts->v[i];
		const struct dns_source *s = &report->sources[i];

		begin_object(out);
		put_text(out, "Asked", lookup_text(&f->lookup, a));
		put_text(out, "Datacenter", datacenter_of(report, &f->lookup));
		put_text(out, "From", from_text(r, report, &f->lookup, s, a));
		put_bool(out, "Cached", s->origin.cached);
		put_number(out, "AgeMs", (uint64_t)mono_ms(s->origin.age));
		put_number(out, "LastContactMs", s->origin.last_contact_ms);
		put_number(out, "Instances", f->found->count);
		put_text(out, "Result",
		    span_str(results[f->found->status <= DNS_FAILED ? f->found->status : DNS_FAILED]));
		put_text(out, "Error", s->text);
		buf_u8(out, '}');
	}
	buf_u8(out, ']');
}

static void
put_flags(struct buf *out, const struct dns_explanation *e)
{
	static const struct { uint16_t bit; const char *name; } flags[] = {
		{ DNS_AA, "aa" }, { DNS_TC, "tc" }, { DNS_RD, "rd" }, { DNS_RA, "ra" },
	};
	bool first = true;

	put_name(out, "Flags");
	buf_u8(out, '[');
	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if ((e->flags & flags[i].bit) == 0)
			continue;
		buf_printf(out, "%s\"%s\"", first ? "" : ",", flags[i].name);
		first = false;
	}
	buf_u8(out, ']');
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
	struct request *r = ctx;
	struct buf *out = &r->answer.body;
	char type[TYPE_BYTES];

	r->cancel = NULL;
	if (report == NULL) {
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
		return;
	}
	const struct dns_explain_question *q = report->question;
	buf_u8(out, '{');
	put_text(out, "Name", dns_name_text(dname_span(&q->name), &r->arena));
	put_text(out, "Type", span_str(dns_type_text(q->type, type, sizeof(type))));
	put_text(out, "Transport", span_str(q->tcp ? "tcp" : "udp"));
	put_number(out, "UDPSize", q->tcp ? 0 : q->edns && q->udp_size > PLAIN_UDP ? q->udp_size : PLAIN_UDP);
	put_bool(out, "Served", r->api->conf->dns_port != 0);
	put_meaning(out, report, &r->arena);
	put_text(out, "Rcode", span_str(rcode_text(report)));
	put_bool(out, "Forwarded", report->answer->outcome == DNS_FORWARD && report->setup->recursors.n > 0);
	put_flags(out, report->answer);
	put_number(out, "Bytes", report->answer->bytes);
	put_why(out, report, &r->arena, hidden_from_dns(r, report));
	put_records(out, report->answer);
	put_instances(out, report, &r->arena);
	put_sources(out, r, report, &r->arena);
	buf_u8(out, '}');
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
