/* Explanations, see explain.h. */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "common/base/addr.h"
#include "rpcd/dns/explain.h"

#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))
#define PLAIN_UDP 512

static const struct { const char *name; uint16_t type; } types[] = {
	{ "A", DNS_A }, { "AAAA", DNS_AAAA }, { "SRV", DNS_SRV }, { "ANY", DNS_ANY }, { "TXT", DNS_TXT },
	{ "NS", DNS_NS }, { "SOA", DNS_SOA }, { "PTR", DNS_PTR }, { "CNAME", DNS_CNAME }, { "MX", 15 },
	{ "AXFR", DNS_AXFR },
};

/* -- text -- */

uint16_t
dns_type_of(struct span text)
{
	char copy[16];
	unsigned number;
	int end = 0;

	if (!span_copy(text, copy, sizeof(copy)))
		return 0;
	for (unsigned i = 0; i < NITEMS(types); i++)
		if (strcasecmp(copy, types[i].name) == 0)
			return types[i].type;
	if (strncasecmp(copy, "TYPE", 4) != 0 || copy[4] < '0' || copy[4] > '9' ||
	    sscanf(copy + 4, "%5u%n", &number, &end) != 1 || copy[4 + end] != '\0' || number > UINT16_MAX)
		return 0;
	return (uint16_t)number;
}

const char *
dns_type_text(uint16_t type, char *dst, size_t cap)
{
	for (unsigned i = 0; i < NITEMS(types); i++)
		if (types[i].type == type)
			return types[i].name;
	snprintf(dst, cap, "TYPE%u", type);
	return dst;
}

struct span
dns_name_text(struct span wire, struct arena *a)
{
	char text[DNAME_TEXT_MAX];
	size_t used = 0;

	for (size_t at = 0; at < wire.len && wire.p[at] != 0; at += wire.p[at] + 1u) {
		if (!dname_label_text(wire.p + at + 1, wire.p[at], text, sizeof(text) - 1, &used))
			break;		/* cannot be: 255 bytes of four characters have room */
		text[used++] = '.';
	}
	if (used == 0)
		text[used++] = '.';
	return arena_copy(a, span_of(text, used));
}

static struct span
name_at(struct span msg, size_t *at, struct arena *a)
{
	struct dname n;

	if (dname_read(msg, at, &n) != TV_OK) {
		*at = msg.len;
		return SPAN_NONE;
	}
	return dns_name_text(dname_span(&n), a);
}

static unsigned
u16_at(struct span msg, size_t at)
{
	return at + 2 <= msg.len ? (unsigned)msg.p[at] << 8 | msg.p[at + 1] : 0;
}

static uint32_t
u32_at(struct span msg, size_t at)
{
	return (uint32_t)u16_at(msg, at) << 16 | u16_at(msg, at + 2);
}

/* "text", with what is special escaped; several of them with blanks between. */
static struct span
texts(struct span data, struct arena *a)
{
	struct buf b = BUF_INIT(5 * 65536);
	struct span kept;

	for (size_t at = 0; at < data.len; at += data.p[at] + 1u) {
		buf_puts(&b, at > 0 ? " \"" : "\"");
		for (size_t i = at + 1; i <= at + data.p[at] && i < data.len; i++) {
			uint8_t c = data.p[i];

			if (c < ' ' || c > '~')
				buf_printf(&b, "\\%03d", c);
			else
				buf_printf(&b, c == '"' || c == '\\' ? "\\%c" : "%c", c);
		}
		buf_u8(&b, '"');
	}
	kept = b.failed ? SPAN_NONE : arena_copy(a, buf_span(&b));
	buf_done(&b);
	return kept;
}

/* The data of a record of ours; names in it may point into the message. */
static struct span
data_text(struct span msg, size_t at, size_t len, uint16_t type, struct arena *a)
{
	char text[ADDR_IP_BYTES];
	struct span first, second;
	struct addr ip;

	switch (type) {
	case DNS_A:
	case DNS_AAAA:
		if (len != (type == DNS_A ? 4 : 16))
			return SPAN_NONE;
		ip = addr_of_bytes(msg.p + at, len);
		return arena_copy(a, span_str(addr_ip(&ip, text)));
	case DNS_NS:
	case DNS_CNAME:
	case DNS_PTR:
		return name_at(msg, &at, a);
	case DNS_SRV:
		second = span_of(msg.p + at, len);
		at += 6;
		first = name_at(msg, &at, a);
		return arena_printf(a, "%u %u %u %.*s", u16_at(second, 0), u16_at(second, 2), u16_at(second, 4),
		    (int)first.len, (const char *)first.p);
	case DNS_SOA:
		first = name_at(msg, &at, a);
		second = name_at(msg, &at, a);
		return arena_printf(a, "%.*s %.*s %u %u %u %u %u", (int)first.len, (const char *)first.p,
		    (int)second.len, (const char *)second.p, u32_at(msg, at), u32_at(msg, at + 4),
		    u32_at(msg, at + 8), u32_at(msg, at + 12), u32_at(msg, at + 16));
	case DNS_TXT:
		return texts(span_of(msg.p + at, len), a);
	default:
		return arena_printf(a, "%zu bytes", len);
	}
}

bool
dns_records_show(struct span msg, struct arena *a, struct dns_shown **v, unsigned *n)
{
	unsigned counts[] = { u16_at(msg, 6), u16_at(msg, 8), u16_at(msg, 10) }, s = 0;
	size_t at = DNS_HEADER_BYTES;
	struct dname name;

	*n = 0;
	*v = arena_array(a, counts[0] + counts[1] + counts[2], sizeof(**v));
	if (*v == NULL || msg.len < DNS_HEADER_BYTES)
		return false;
	for (unsigned i = u16_at(msg, 4); i > 0; i--, at += 4)
		if (dname_read(msg, &at, &name) != TV_OK)
			return false;
	while (s < NITEMS(counts)) {
		struct dns_shown *r = &(*v)[*n];

		if (counts[s] == 0) {
			s++;
			continue;
		}
		counts[s]--;
		r->section = (enum dns_section_of)s;
		r->owner = name_at(msg, &at, a);
		if (r->owner.p == NULL || at + 10 > msg.len)
			return false;
		r->type = (uint16_t)u16_at(msg, at);
		r->ttl = u32_at(msg, at + 4);
		size_t len = u16_at(msg, at + 8);
		at += 10;
		if (len > msg.len - at)
			return false;
		if (r->type != DNS_OPT) {	/* it is no record */
			r->data = data_text(msg, at, len, r->type, a);
			if (r->data.p == NULL)
				return false;
			++*n;
		}
		at += len;
	}
	return true;
}

/* -- why -- */

struct why {
	const struct dns_zone *z;
	const struct dns_query *q;
	const struct dns_asker *asker;
	const struct dns_facts *facts;
	struct arena *a, *work;
	struct buf *buf;
	struct dns_explanation *out;
	struct span *given;		/* keys of the answers, sorted */
	unsigned given_count;
	struct span *met;		/* keys of the instances before */
	unsigned met_count;
};

/* What an answer says, without its weight: that differs by state. */
static struct span
key_of(const struct dns_shown *r)
{
	struct span key = r->data;

	for (unsigned blanks = 0; r->type == DNS_SRV && blanks < 2 && key.len > 0; key.p++, key.len--)
		blanks += *key.p == ' ';
	return key;
}

static int
by_text(const void *a, const void *b)
{
	return span_cmp(*(const struct span *)a, *(const struct span *)b);
}

static enum dns_outcome
answer_with(struct why *w, struct dns_facts *facts)
{
	arena_reset(w->work);
	buf_reset(w->buf);
	return dns_answer(w->z, w->q, w->asker, facts, w->work, w->buf);
}

static enum dns_rcode
rcode_in(const struct buf *b)
{
	return (enum dns_rcode)(u16_at(buf_span(b), 2) & DNS_RCODE);
}

/* Is what would be answered with a host name? */
static bool
has_host_name(const struct dns_instance *n)
{
	uint8_t bytes[16];
	struct span text = n->service_address.len > 0 ? n->service_address : n->address;

	return text.len > 0 && dns_address_of(text, bytes) == 0;
}

static enum dns_why
limit_of(const struct why *w)
{
	bool plain = !w->asker->tcp && (!w->q->edns || w->q->udp_size <= PLAIN_UDP);

	if (w->q->type != DNS_SRV && w->z->a_record_limit > 0 && w->given_count == w->z->a_record_limit)
		return DNS_WHY_RECORD_LIMIT;
	return plain && w->given_count == w->z->udp_answer_limit ? DNS_WHY_ANSWER_LIMIT : DNS_WHY_SIZE;
}

/* By what it alone would be answered with. */
static enum dns_why
why_of(struct why *w, const struct dns_instance *n)
{
	struct dns_found alone = *w->facts->v[w->out->main].found;
	struct dns_facts facts = *w->facts;
	struct dns_shown *v;
	unsigned count;

	alone.instances = n;
	alone.count = 1;
	facts.v[w->out->main].found = &alone;
	/* It needs to know what the whole answer did not: that one ended before it. */
	if (answer_with(w, &facts) != DNS_DONE)
		return limit_of(w);
	if (rcode_in(w->buf) == DNS_NXDOMAIN)
		return n->state == DNS_CRITICAL ? DNS_WHY_CRITICAL : DNS_WHY_NOT_PASSING;
	if (!dns_records_show(buf_span(w->buf), w->work, &v, &count))
		return DNS_WHY_SIZE;
	if (count == 0 || v[0].section != DNS_SECTION_ANSWER)
		return w->q->type == DNS_SRV || has_host_name(n) ? DNS_WHY_UNWRITABLE : DNS_WHY_NO_ADDRESS;
	struct span key = key_of(&v[0]);
	for (unsigned i = 0; i < w->met_count; i++)
		if (span_eq(w->met[i], key))
			return DNS_WHY_SAME;
	w->met[w->met_count++] = arena_copy(w->a, key);
	if (w->given_count > 0 && bsearch(&key, w->given, w->given_count, sizeof(*w->given), by_text) != NULL)
		return DNS_WHY_ANSWERED;
	return v[0].type == DNS_CNAME ? DNS_WHY_HOST_NAME : limit_of(w);
}

static void
explain_outcome(struct why *w)
{
	struct dns_explanation *e = w->out;
	const struct dns_found *found = w->facts->v[e->main].found;
	unsigned n = found->count < DNS_EXPLAIN_MAX ? found->count : DNS_EXPLAIN_MAX;

	w->given = arena_array(w->a, e->record_count, sizeof(*w->given));
	w->met = arena_array(w->a, n, sizeof(*w->met));
	e->instances = arena_array(w->a, n, sizeof(*e->instances));
	e->instances_left_out = found->count - n;
	if (w->given == NULL || w->met == NULL || e->instances == NULL)
		return;
	for (unsigned i = 0; i < e->record_count; i++)
		if (e->records[i].section == DNS_SECTION_ANSWER)
			w->given[w->given_count++] = key_of(&e->records[i]);
	if (w->given_count > 0)
		qsort(w->given, w->given_count, sizeof(*w->given), by_text);
	for (; e->instance_count < n; e->instance_count++)
		e->instances[e->instance_count] = (struct dns_judged){ &found->instances[e->instance_count],
		    why_of(w, &found->instances[e->instance_count]) };
}

/* -- how long it lives -- */

static struct span
service_ttl_key(const struct why *w, const struct dns_found *found)
{
	struct span service = w->out->asked->service.len > 0 ? w->out->asked->service : found->service;
	const struct dns_service_ttl *row = dns_service_ttl_row(w->z, service);

	if (found->has_ttl)
		return span_str("the prepared query");
	if (row == NULL)
		return span_str("no row of dns_config.service_ttl is for it");
	return arena_printf(w->a, "dns_config.service_ttl \"%.*s%s\"", (int)row->pattern.len,
	    (const char *)row->pattern.p, row->prefix ? "*" : "");
}

static void
find_ttls(struct why *w, struct span owner)
{
	struct dns_explanation *e = w->out;
	bool zone = e->place == DNS_PLACE_ZONE, node = zone && !e->apex && e->asked->form == DNS_FORM_LOOKUP &&
	    e->asked->lookup.kind == DNS_KIND_NODE;
	struct span of_service = SPAN_NONE;

	if (zone && !e->apex && e->main >= 0 && !node)
		of_service = service_ttl_key(w, w->facts->v[e->main].found);
	for (unsigned i = 0; i < e->record_count; i++) {
		struct dns_shown *r = &e->records[i];

		if (r->type == DNS_SOA)
			r->ttl_from = span_str("dns_config.soa.min_ttl");
		else if (e->place == DNS_PLACE_REVERSE)
			r->ttl_from = span_str("always 0 for names of addresses");
		else if (of_service.len > 0)
			r->ttl_from = of_service;
		else if (!node || span_eq(r->owner, owner))
			r->ttl_from = span_str("dns_config.node_ttl");
	}
}

void
dns_explain(const struct dns_zone *z, const struct dns_query *q, const struct dns_asker *asker,
    const struct dns_facts *facts, struct arena *a, struct arena *work, struct buf *out_buf,
    struct dns_explanation *out)
{
	struct why w = { .z = z, .q = q, .asker = asker, .facts = facts, .a = a, .work = work, .buf = out_buf,
	    .out = out };
	struct dns_facts known = *facts;
	struct dname lowered = q->name;
	size_t labels = 0;

	*out = (struct dns_explanation){ .outcome = DNS_NO_ANSWER, .main = facts->n > 0 ? 0 : -1,
	    .asked = arena_alloc(a, sizeof(*out->asked)) };
	dname_lower(&lowered);
	out->place = dns_place_of(z, &lowered, &labels);
	out->apex = out->place == DNS_PLACE_ZONE && (q->type == DNS_SOA || q->type == DNS_NS || q->type == DNS_AXFR);
	if (out->asked == NULL)
		return;
	if (out->place == DNS_PLACE_ZONE)
		dns_parse(z, &lowered, labels, q->type, out->asked);
	enum dns_outcome outcome = answer_with(&w, &known);
	if (outcome == DNS_DONE) {
		out->bytes = out_buf->len;
		out->rcode = rcode_in(out_buf);
		out->flags = (uint16_t)u16_at(buf_span(out_buf), 2);
		if (!dns_records_show(buf_span(out_buf), a, &out->records, &out->record_count))
			return;
		find_ttls(&w, dns_name_text(dname_span(&q->name), a));
		if (out->place == DNS_PLACE_ZONE && !out->apex && out->main >= 0 &&
		    out->asked->lookup.kind != DNS_KIND_NODE)
			explain_outcome(&w);
	}
	out->outcome = outcome == DNS_DONE || outcome == DNS_FORWARD ? outcome : DNS_NO_ANSWER;
}
