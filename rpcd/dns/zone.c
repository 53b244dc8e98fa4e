/* Names of the zone, see zone.h. */

#include "common/base/addr.h"
#include "common/base/hex.h"
#include "rpcd/dns/zone.h"

#define LABELS_MAX 128

static const struct dname arpa = { 6, "\4arpa" };

bool
dns_lookup_eq(const struct dns_lookup *a, const struct dns_lookup *b)
{
	return a->kind == b->kind && a->tagged == b->tagged && span_eq(a->name, b->name) && span_eq(a->tag, b->tag) &&
	    span_eq(a->datacenter, b->datacenter) && span_eq(a->source, b->source);
}

uint64_t
dns_lookup_hash(const struct dns_lookup *k, uint64_t (*hash)(const void *bytes, size_t n))
{
	const struct span parts[] = { k->name, k->tag, k->datacenter, k->source };
	uint64_t h[5] = { (uint64_t)k->kind << 1 | k->tagged };

	for (unsigned i = 0; i < 4; i++)
		h[i + 1] = parts[i].len == 0 ? 0 : hash(parts[i].p, parts[i].len);
	return hash(h, sizeof(h));
}

enum dns_place
dns_place_of(const struct dns_zone *z, const struct dname *lowered, size_t *labels)
{
	size_t other;
	bool main_zone = dname_within(lowered, &z->domain, labels);

	if (dname_within(lowered, &arpa, &other))
		return DNS_PLACE_REVERSE;
	/* The longer one, if the name is in both. */
	if (dname_within(lowered, &z->alt_domain, &other) && (!main_zone || other < *labels))
		*labels = other;
	else if (!main_zone)
		return DNS_PLACE_ELSEWHERE;
	return DNS_PLACE_ZONE;
}

const struct dname *
dns_zone_of(const struct dns_zone *z, const struct dname *lowered, size_t labels)
{
	const struct dname *alt = &z->alt_domain;
	size_t any;

	if (alt->len > 0 && lowered->len == labels + alt->len &&
	    memcmp(lowered->wire + labels, alt->wire, alt->len) == 0 && !dname_within(alt, &z->domain, &any))
		return alt;
	return &z->domain;
}

/* -- labels, as text -- */

struct labels {
	struct span v[LABELS_MAX];
	unsigned n;
};

static void
split(const struct dname *name, size_t bytes, char *text, struct labels *out)
{
	size_t used = 0;

	out->n = 0;
	for (size_t at = 0; at < bytes && out->n < LABELS_MAX; at += name->wire[at] + 1u) {
		size_t from = used;

		if (!dname_label_text(name->wire + at + 1, name->wire[at], text, DNAME_TEXT_MAX, &used))
			break;		/* cannot be: the text has room for 255 bytes of four characters */
		out->v[out->n++] = span_of(text + from, used - from);
		text[used++] = '.';	/* so that a run of labels is a text */
	}
}

/* Labels from..to-1 with dots between. */
static struct span
joined(const struct labels *l, unsigned from, unsigned to)
{
	if (from >= to)
		return SPAN_NONE;
	return span_of(l->v[from].p, (size_t)(l->v[to - 1].p + l->v[to - 1].len - l->v[from].p));
}

static enum dns_kind
keyword(struct span label, bool *addr)
{
	static const struct { const char *word; enum dns_kind kind; } words[] = {
		{ "service", DNS_KIND_SERVICE }, { "connect", DNS_KIND_CONNECT }, { "ingress", DNS_KIND_INGRESS },
		{ "node", DNS_KIND_NODE }, { "query", DNS_KIND_QUERY },
	};

	*addr = span_eqs(label, "addr");
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (span_eqs(label, words[i].word))
			return words[i].kind;
	return 0;
}

static void
parse_service(const struct labels *l, unsigned parts, struct dns_asked *out)
{
	struct dns_lookup *k = &out->lookup;
	struct span first = l->v[0], second = parts > 1 ? l->v[1] : SPAN_NONE;

	if (parts == 2 && first.p[0] == '_' && second.p[0] == '_') {		/* RFC 2782 */
		k->name = span_of(first.p + 1, first.len - 1);
		k->tag = span_of(second.p + 1, second.len - 1);
		k->tagged = k->tag.len > 0 && !span_eqs(k->tag, "tcp");
		if (!k->tagged)
			k->tag = SPAN_NONE;
	} else {
		k->name = l->v[parts - 1];
		k->tag = joined(l, 0, parts - 1);
		k->tagged = k->tag.len > 0;
	}
	out->service = k->name;
}

/* The name may have dots, also within an RFC 2782 name, _NAME._PROTOCOL.query, whose protocol is not looked at. */
static void
parse_query(const struct labels *l, unsigned parts, struct dns_asked *out)
{
	struct span *name = &out->lookup.name;
	bool rfc2782 = parts >= 2 && l->v[0].p[0] == '_' && l->v[parts - 1].p[0] == '_';

	*name = joined(l, 0, rfc2782 ? parts - 1 : parts);
	if (rfc2782)
		*name = span_of(name->p + 1, name->len - 1);
}

static void
parse_addr(struct span hex, struct dns_asked *out)
{
	out->address_len = hex.len / 2 == 4 ? 4 : hex.len / 2 == 16 ? 16 : 0;
	out->form = out->address_len > 0 ? DNS_FORM_ADDR : DNS_FORM_EMPTY;
	if (out->address_len == 0)
		return;
	for (size_t i = 0; i < hex.len; i++) {
		int v = hex_value(hex.p[i]);

		if (v < 0 || i / 2 >= out->address_len) {
			out->form = DNS_FORM_NONE;
			return;
		}
		out->address[i / 2] = (uint8_t)(out->address[i / 2] << 4 | v);
	}
}

void
dns_parse(const struct dns_zone *z UNUSED, const struct dname *lowered, size_t labels, uint16_t type,
    struct dns_asked *out)
{
	struct labels l;
	unsigned at, suffix;
	enum dns_kind kind = 0;
	bool addr = false;

	out->form = DNS_FORM_NONE;
	out->lookup = (struct dns_lookup){ 0 };
	out->service = SPAN_NONE;
	memset(out->address, 0, sizeof(out->address));
	split(lowered, labels, out->text, &l);
	for (at = suffix = l.n; at > 0; at--) {
		if ((kind = keyword(l.v[at - 1], &addr)) != 0 || addr) {
			suffix = at--;
			break;
		}
		if (type == DNS_SRV && l.v[at - 1].p[0] == '_') {
			kind = DNS_KIND_SERVICE;
			suffix = at;
			break;
		}
	}
	if ((kind == 0 && !addr) || at == 0)
		return;
	if (addr) {
		if (at == 1)
			parse_addr(l.v[0], out);
		return;
	}
	if (l.n - suffix > 1)
		return;
	out->form = DNS_FORM_LOOKUP;
	out->lookup.kind = kind;
	out->lookup.datacenter = l.n > suffix ? l.v[suffix] : SPAN_NONE;
	if (kind == DNS_KIND_SERVICE)
		parse_service(&l, at, out);
	else if (kind == DNS_KIND_QUERY)
		parse_query(&l, at, out);
	else if (kind == DNS_KIND_NODE)
		out->lookup.name = joined(&l, 0, at);
	else
		out->service = out->lookup.name = l.v[at - 1];
	if (out->lookup.name.len == 0)
		out->form = DNS_FORM_NONE;
}

/* -- addresses -- */

static bool
decimal(const uint8_t *p, unsigned n, uint8_t *out)
{
	unsigned v = 0;

	if (n == 0 || n > 3 || (n > 1 && p[0] == '0'))
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = v * 10 + (p[i] - '0');
	}
	*out = (uint8_t)v;
	return v < 256;
}

unsigned
dns_parse_reverse(const struct dname *lowered, uint8_t address[16])
{
	static const struct dname in_addr = { 14, "\7in-addr\4arpa" }, ip6 = { 10, "\3ip6\4arpa" };
	struct addr a;
	size_t labels;
	unsigned n = 0;

	memset(address, 0, 16);
	if (dname_within(lowered, &in_addr, &labels)) {
		for (size_t at = 0; at < labels; at += lowered->wire[at] + 1u, n++)
			if (n == 4 || !decimal(lowered->wire + at + 1, lowered->wire[at], &address[3 - n]))
				return 0;
		return n == 4 ? 4 : 0;
	}
	if (!dname_within(lowered, &ip6, &labels))
		return 0;
	for (size_t at = 0; at < labels; at += lowered->wire[at] + 1u, n++) {
		int v = lowered->wire[at] == 1 ? hex_value(lowered->wire[at + 1]) : -1;

		if (n == 32 || v < 0)
			return 0;
		address[15 - n / 2] |= (uint8_t)(n % 2 == 0 ? v : v << 4);
	}
	/* A mapped one has its name in in-addr.arpa alone. */
	a = addr_of_bytes(address, 16);
	return n == 32 && !addr_is_mapped(&a) ? 16 : 0;
}

unsigned
dns_address_of(struct span text, uint8_t address[16])
{
	struct addr a;

	if (!addr_parse_span(text, 0, &a))
		return 0;
	a = addr_unmapped(a);
	memcpy(address, a.ip, a.len);
	return a.len;
}

const struct dns_service_ttl *
dns_service_ttl_row(const struct dns_zone *z, struct span service)
{
	const struct dns_service_ttl *best = NULL;

	for (unsigned i = 0; i < z->service_ttl_count; i++) {
		const struct dns_service_ttl *t = &z->service_ttls[i];

		if (!t->prefix && span_eq(t->pattern, service))
			return t;
		if (t->prefix && span_starts(service, t->pattern) &&
		    (best == NULL || t->pattern.len > best->pattern.len))
			best = t;
	}
	return best;
}

uint32_t
dns_service_ttl(const struct dns_zone *z, struct span service)
{
	const struct dns_service_ttl *row = dns_service_ttl_row(z, service);

	return row == NULL ? 0 : row->ttl;
}
