/* Answers, see answer.h.  Source: dns, sections 2 to 17. */

#include "common/base/fnv.h"
#include "rpcd/dns/answer.h"

#define HOST_RECORDS_MAX 5		/* taken from what a host name leads to, without EDNS */
#define NS_MAX 3
#define TXT_BYTES_MAX 255
#define INNER_MAX 64			/* inner look-ups of one question, whatever leads to what */
#define INNER_INSTANCES_MAX 64		/* that one of them looks at: three answers are the most */

struct work {
	const struct dns_zone *z;
	const struct dname *zone;	/* of the question, which the answer is in */
	const struct dns_query *q;
	const struct dns_asker *asker;
	struct dns_facts *facts;
	struct arena *arena;
	struct rng rng;
	bool missing;			/* of facts */
	unsigned inner;			/* look-ups so far */
};

/* A question being answered: the client's, or an inner one for a host name that is in the zone. */
struct task {
	struct work *w;
	const struct dname *name;	/* as asked */
	struct span owner;
	uint16_t type;
	bool tcp;
	bool inner;
	unsigned depth;			/* inner look-ups that are left */
	struct dns_reply *reply;
};

/* -- facts -- */

static struct span
keep_bytes(struct work *w, struct span s)
{
	return s.len == 0 ? SPAN_NONE : arena_copy(w->arena, s);
}

static struct dns_fact *
fact_of(struct dns_facts *f, const struct dns_lookup *k)
{
	for (unsigned i = 0; i < f->n; i++)
		if (dns_lookup_eq(&f->v[i].lookup, k))
			return &f->v[i];
	return NULL;
}

/* NULL: not known yet, and asked for. */
static const struct dns_found *
fact(struct work *w, const struct dns_lookup *k)
{
	static const struct dns_found too_many = { .status = DNS_FAILED };
	struct dns_facts *f = w->facts;
	struct dns_fact *there = fact_of(f, k);
	struct dns_lookup need = *k;

	if (there == NULL && w->asker->known != NULL) {
		const struct dns_found *known = w->asker->known(w->asker->ctx, k, &need);

		if (known != NULL)
			return known;
		if ((there = fact_of(f, &need)) != NULL && there->found != NULL) {
			there = NULL;		/* it does not say, or could not be had */
			need = *k;
		}
	}
	if (there != NULL) {
		w->missing = w->missing || there->found == NULL;
		return there->found;
	}
	if (f->n == DNS_FACTS_MAX)
		return &too_many;
	f->v[f->n++] = (struct dns_fact){ .lookup = {
		.kind = need.kind, .name = keep_bytes(w, need.name), .tag = keep_bytes(w, need.tag),
		.tagged = need.tagged, .datacenter = keep_bytes(w, need.datacenter),
		.source = keep_bytes(w, need.source),
	} };
	w->missing = true;
	return NULL;
}

/* -- names and records -- */

static struct span
zone_name(const struct work *w)
{
	return dname_span(w->zone);
}

/* Text labels before the zone, as a name in the arena; empty: it cannot be one. */
static struct span
build_name(struct work *w, const struct span *parts, unsigned count)
{
	struct dname n;
	struct span zone = zone_name(w);

	if (dname_of_parts(parts, count, &n) != TV_OK || n.len - 1u + zone.len > DNAME_BYTES_MAX)
		return SPAN_NONE;
	memcpy(n.wire + n.len - 1, zone.p, zone.len);
	n.len = (uint8_t)(n.len - 1 + zone.len);
	return keep_bytes(w, dname_span(&n));
}

/* Empty: it cannot be one, as with a label over 63 bytes, or with an empty one ("n1." is not n1). */
static struct span
node_name(struct work *w, struct span node, struct span dc)
{
	if (node.len == 0 || node.p[node.len - 1] == '.')
		return SPAN_NONE;
	return build_name(w, (const struct span[]){ node, span_str("node"), dc }, 3);
}

static struct span
host_name(struct work *w, struct span text)
{
	struct dname n;

	return dname_of_text(text, &n) == TV_OK ? keep_bytes(w, dname_span(&n)) : SPAN_NONE;
}

static void
add_name(struct dns_reply *r, struct dns_section *s, struct span owner, uint16_t type, uint32_t ttl, struct span name)
{
	struct dns_record *rr = dns_add(r, s);

	if (rr != NULL)
		*rr = (struct dns_record){ .owner = owner, .type = type, .ttl = ttl, .name = name };
}

static void
add_address(struct dns_reply *r, struct dns_section *s, struct span owner, uint32_t ttl, const uint8_t *address,
    unsigned len)
{
	struct span data = arena_copy(r->arena, span_of(address, len));
	struct dns_record *rr = dns_add(r, s);

	if (rr != NULL && data.p != NULL)
		*rr = (struct dns_record){ .owner = owner, .type = len == 4 ? DNS_A : DNS_AAAA, .ttl = ttl,
		    .head = data };
	else
		r->failed = true;
}

/* Is an address of so many bytes an answer to this type? */
static bool
takes_address(uint16_t type, unsigned len)
{
	if (type == DNS_SRV || type == DNS_ANY || type == DNS_NS || type == DNS_TXT)
		return true;
	return type == (len == 4 ? DNS_A : DNS_AAAA);
}

static void
add_soa(struct work *w, struct dns_reply *r, struct dns_section *s)
{
	const struct dns_zone *z = w->z;
	const uint32_t numbers[] = { w->asker->now, z->soa_refresh, z->soa_retry, z->soa_expire, z->soa_min_ttl };
	uint8_t tail[20];
	struct dns_record *rr = dns_add(r, s);

	for (unsigned i = 0; i < 20; i++)
		tail[i] = (uint8_t)(numbers[i / 4] >> (24 - i % 4 * 8));
	if (rr == NULL)
		return;
	*rr = (struct dns_record){ .owner = zone_name(w), .type = DNS_SOA, .ttl = z->soa_min_ttl,
	    .name = build_name(w, (const struct span[]){ span_str("ns") }, 1),
	    .name2 = build_name(w, (const struct span[]){ span_str("hostmaster") }, 1),
	    .tail = arena_copy(r->arena, span_of(tail, sizeof(tail))) };
	r->failed = r->failed || rr->tail.p == NULL || rr->name.len == 0 || rr->name2.len == 0;
}

static void
no_name(struct task *t)
{
	t->reply->rcode = DNS_NXDOMAIN;
	add_soa(t->w, t->reply, &t->reply->authority);
}

/* -- metadata -- */

static void
put_escaped(struct buf *b, struct span s, bool key)
{
	size_t lead = 0, trail = s.len;

	while (key && lead < s.len && (s.p[lead] == ' ' || s.p[lead] == '\t'))
		lead++;
	while (key && trail > lead && (s.p[trail - 1] == ' ' || s.p[trail - 1] == '\t'))
		trail--;
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] == '`' || (key && (s.p[i] == '=' || i < lead || i >= trail)))
			buf_u8(b, '`');
		buf_u8(b, s.p[i]);
	}
}

static bool
is_raw(struct span key)
{
	static const char prefix[] = "rfc1035-";

	if (key.len < sizeof(prefix) - 1)
		return false;
	for (size_t i = 0; i < sizeof(prefix) - 1; i++)
		if ((key.p[i] >= 'A' && key.p[i] <= 'Z' ? key.p[i] + 32 : key.p[i]) != prefix[i])
			return false;
	return true;
}

/* A text over 255 bytes is left out: no record can hold it as one. */
static void
add_meta(struct work *w, struct dns_reply *r, struct dns_section *s, struct span owner, const struct dns_instance *n,
    uint32_t ttl)
{
	for (unsigned i = 0; i < n->meta.n && owner.len > 0; i++) {
		uint8_t bytes[TXT_BYTES_MAX + 1];
		struct buf b = { bytes, 1, sizeof(bytes), sizeof(bytes), false, false };

		bytes[0] = 0;
		if (is_raw(n->meta.kv[i][0])) {
			buf_putspan(&b, n->meta.kv[i][1]);
		} else {
			put_escaped(&b, n->meta.kv[i][0], true);
			buf_u8(&b, '=');
			put_escaped(&b, n->meta.kv[i][1], false);
		}
		if (b.failed)
			continue;
		bytes[0] = (uint8_t)(b.len - 1);
		struct dns_record *rr = dns_add(r, s);
		if (rr == NULL)
			return;
		*rr = (struct dns_record){ .owner = owner, .type = DNS_TXT, .ttl = ttl,
		    .head = arena_copy(w->arena, buf_span(&b)) };
		r->failed = r->failed || rr->head.p == NULL;
	}
}

/* -- host names that stand for addresses -- */

static void answer_task(struct task *t);

/* A and CNAME records of a recursor's reply, as it has them. */
static void
take_upstream(struct work *w, struct span msg, struct dns_reply *to)
{
	size_t at = DNS_HEADER_BYTES;
	struct dname name, target;

	if (msg.len < DNS_HEADER_BYTES)
		return;
	unsigned questions = (unsigned)msg.p[4] << 8 | msg.p[5], answers = (unsigned)msg.p[6] << 8 | msg.p[7];
	for (; questions > 0; questions--) {
		if (dname_read(msg, &at, &name) != TV_OK || msg.len - at < 4)
			return;
		at += 4;
	}
	for (; answers > 0 && dname_read(msg, &at, &name) == TV_OK; answers--) {
		struct rd in = rd_over(msg.p + at, msg.len - at);
		uint16_t type = rd_u16be(&in);
		(void)rd_u16be(&in);
		uint32_t ttl = rd_u32be(&in);
		struct span data = rd_bytes(&in, rd_u16be(&in));
		size_t data_at = (size_t)(data.p - msg.p);

		if (in.err != TV_OK)
			return;
		at = (size_t)(in.p - msg.p);
		if ((type == DNS_A && data.len == 4) || (type == DNS_AAAA && data.len == 16))
			add_address(to, &to->answer, keep_bytes(w, dname_span(&name)), ttl, data.p, (unsigned)data.len);
		else if (type == DNS_CNAME && dname_read(span_of(msg.p, at), &data_at, &target) == TV_OK)
			add_name(to, &to->answer, keep_bytes(w, dname_span(&name)), DNS_CNAME, ttl,
			    keep_bytes(w, dname_span(&target)));
	}
}

/* What a host name leads to, as the answer section of `to`. */
static void
follow(struct task *t, struct span host, struct dns_reply *to)
{
	struct work *w = t->w;
	struct dname *name = arena_alloc(w->arena, sizeof(*name));
	struct dname lowered;
	size_t labels;

	if (name == NULL) {
		to->failed = true;
		return;
	}
	memcpy(name->wire, host.p, host.len);
	name->len = (uint8_t)host.len;
	lowered = *name;
	dname_lower(&lowered);
	if (dns_place_of(w->z, &lowered, &labels) == DNS_PLACE_ZONE && labels > 0) {
		struct task inner = { .w = w, .name = name, .owner = host, .type = DNS_ANY, .inner = true,
		    .depth = t->depth - 1, .reply = to };

		if (t->depth > 0 && w->inner++ < INNER_MAX)
			answer_task(&inner);
		return;
	}
	if (!w->z->recursors)
		return;
	const struct dns_found *found = fact(w, &(struct dns_lookup){ .kind = DNS_KIND_UPSTREAM, .name = host });
	if (found != NULL && found->status == DNS_FOUND)
		take_upstream(w, found->message, to);
}

static void
append(struct dns_reply *r, struct dns_section *to, const struct dns_record *from)
{
	struct dns_record *rr = dns_add(r, to);

	if (rr != NULL)
		*rr = *from;
}

/* -- nodes -- */

/* Which of the addresses is meant, by the type asked.  It may be of the other family, and is no answer then. */
static struct span
choose(uint16_t type, struct span plain, struct span lan4, struct span lan6)
{
	if (type != DNS_A && lan6.len > 0)
		return lan6;
	return type != DNS_AAAA && lan4.len > 0 ? lan4 : plain;
}

/* The address of a node, or what its host name leads to. */
static void
add_node(struct task *t, struct dns_section *s, const struct dns_instance *n, uint16_t type, struct span owner,
    uint32_t ttl)
{
	struct work *w = t->w;
	struct span address = choose(type, n->address, n->lan4, n->lan6), host;
	struct dns_reply inner = { .arena = w->arena, .names = t->reply->names };
	uint8_t bytes[16];
	unsigned len = dns_address_of(address, bytes);

	if (len > 0) {
		if (takes_address(type, len))
			add_address(t->reply, s, owner, ttl, bytes, len);
		return;
	}
	if (address.len == 0 || (host = host_name(w, n->address)).len == 0)
		return;
	add_name(t->reply, s, owner, DNS_CNAME, ttl, host);
	follow(t, host, &inner);
	for (unsigned i = 0; i < inner.answer.n; i++)
		append(t->reply, s, &inner.answer.v[i]);
	t->reply->failed = t->reply->failed || inner.failed;
}

static void
answer_node(struct task *t, const struct dns_lookup *k)
{
	struct dns_reply *r = t->reply;
	uint32_t ttl = t->w->z->node_ttl;

	if (t->type != DNS_A && t->type != DNS_AAAA && t->type != DNS_ANY && t->type != DNS_TXT)
		return;
	const struct dns_found *found = fact(t->w, k);
	if (found == NULL)
		return;
	if (found->status != DNS_FOUND || found->count == 0) {
		if (found->status == DNS_FAILED)
			r->rcode = DNS_SERVFAIL;
		else
			no_name(t);
		return;
	}
	if (t->type != DNS_TXT)
		add_node(t, &r->answer, &found->instances[0], t->type, t->owner, ttl);
	if (t->type == DNS_ANY || t->type == DNS_TXT)
		add_meta(t->w, r, &r->answer, t->owner, &found->instances[0], ttl);
	else if (t->w->z->node_meta)
		add_meta(t->w, r, &r->additional, t->owner, &found->instances[0], ttl);
}

/* -- services -- */

/* Records of one instance. */
struct group {
	struct dns_section answer, more;
};

static void
put_target(struct task *t, struct group *g, const struct dns_instance *n, struct span target, uint32_t ttl)
{
	const uint8_t head[] = { 0, 1, (uint8_t)(n->weight >> 8), (uint8_t)n->weight, (uint8_t)(n->port >> 8),
	    (uint8_t)n->port };
	struct dns_record *rr = target.len == 0 ? NULL : dns_add(t->reply, &g->answer);

	if (rr == NULL)
		return;
	*rr = (struct dns_record){ .owner = t->owner, .type = DNS_SRV, .ttl = ttl, .name = target,
	    .head = arena_copy(t->w->arena, span_of(head, sizeof(head))) };
	t->reply->failed = t->reply->failed || rr->head.p == NULL;
}

static void
group_of_address(struct task *t, struct group *g, const struct dns_instance *n, struct span dc, const uint8_t *bytes,
    unsigned len, bool by_node, uint32_t ttl)
{
	static const char digits[] = "0123456789abcdef";
	char hex[32];

	if (t->type != DNS_SRV) {
		if (takes_address(t->type, len))
			add_address(t->reply, &g->answer, t->owner, ttl, bytes, len);
		return;
	}
	for (unsigned i = 0; i < len; i++) {
		hex[i * 2] = digits[bytes[i] >> 4];
		hex[i * 2 + 1] = digits[bytes[i] & 15];
	}
	struct span target = by_node ? node_name(t->w, n->node, dc) : SPAN_NONE;
	if (target.len == 0)
		target = build_name(t->w, (const struct span[]){ span_of(hex, len * 2), span_str("addr"), dc }, 3);
	put_target(t, g, n, target, ttl);
	if (target.len > 0)
		add_address(t->reply, &g->more, target, ttl, bytes, len);
}

static void
group_of_host(struct task *t, struct group *g, const struct dns_instance *n, struct span text, uint32_t ttl)
{
	struct dns_reply inner = { .arena = t->w->arena, .names = t->reply->names };
	struct span host = host_name(t->w, text);
	struct dns_section *to = t->type == DNS_SRV ? &g->more : &g->answer;
	unsigned taken = 0;

	if (host.len == 0)
		return;
	if (t->type == DNS_SRV)
		put_target(t, g, n, host, ttl);
	else
		add_name(t->reply, &g->answer, t->owner, DNS_CNAME, ttl, host);
	follow(t, host, &inner);
	t->reply->failed = t->reply->failed || inner.failed;
	for (unsigned i = 0; i < inner.answer.n; i++) {
		struct dns_record rr = inner.answer.v[i];

		if (rr.type != DNS_CNAME && rr.type != DNS_A && rr.type != DNS_AAAA)
			continue;
		rr.ttl = ttl;
		append(t->reply, to, &rr);
		if (++taken == HOST_RECORDS_MAX && (!t->w->q->edns || t->inner))
			break;
	}
}

static bool
is_asked_name(const struct task *t, struct span text)
{
	struct dname n;

	return text.len > 0 && dname_of_text(text, &n) == TV_OK && dname_eq(&n, t->name);
}

static void
group_of(struct task *t, struct group *g, const struct dns_instance *n, struct span dc, uint32_t ttl)
{
	struct span service = choose(t->type, n->service_address, n->service_lan4, n->service_lan6);
	struct span node = choose(t->type, n->address, n->lan4, n->lan6);
	uint8_t service_bytes[16], node_bytes[16];
	unsigned service_len = dns_address_of(service, service_bytes), node_len = dns_address_of(node, node_bytes);

	g->answer.n = g->more.n = 0;
	if (service_len > 0)
		group_of_address(t, g, n, dc, service_bytes, service_len, false, ttl);
	else if (service.len > 0 && !(node_len > 0 && is_asked_name(t, service)))
		group_of_host(t, g, n, service, ttl);
	else if (node_len > 0)
		group_of_address(t, g, n, dc, node_bytes, node_len,
		    service.len > 0 || span_eq(node, n->address), ttl);
	else if (node.len > 0)
		group_of_host(t, g, n, node, ttl);
}

/* -- which instances -- */

static bool
counts(const struct dns_zone *z, const struct dns_found *found, const struct dns_instance *n)
{
	return found->ordered || (n->state != DNS_CRITICAL && (!z->only_passing || n->state == DNS_PASSING));
}

/* Pointers to those that count, in the order of the answer. */
static const struct dns_instance **
select_instances(struct work *w, const struct dns_found *found, bool inner, unsigned *count)
{
	const struct dns_instance **v = arena_array(w->arena, found->count, sizeof(*v));

	*count = 0;
	for (unsigned i = 0; i < found->count && v != NULL; i++) {
		const struct dns_instance *n = &found->instances[i];

		if (counts(w->z, found, n))
			v[(*count)++] = n;
	}
	for (unsigned i = *count; i > 1 && !found->ordered; i--) {
		unsigned j = (unsigned)rng_below(&w->rng, i);
		const struct dns_instance *n = v[i - 1];

		v[i - 1] = v[j];
		v[j] = n;
	}
	if (inner && *count > INNER_INSTANCES_MAX)
		*count = INNER_INSTANCES_MAX;
	return v;
}

/* What was met already. */
struct met {
	struct span *slots;
	unsigned mask;
};

static bool
met_begin(struct work *w, struct met *m, unsigned count)
{
	unsigned size = 16;

	while (size < count * 2)
		size *= 2;
	m->mask = size - 1;
	m->slots = arena_array(w->arena, size, sizeof(*m->slots));
	return m->slots != NULL;
}

/* Is it new? */
static bool
met_first(struct work *w, struct met *m, struct span key)
{
	uint64_t h = fnv1a(w->asker->seed | 1, key);

	/* The last bytes, where addresses differ, have reached few of its bits. */
	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
	unsigned at = (unsigned)(h >> 32) & m->mask;
	for (; m->slots[at].p != NULL; at = (at + 1) & m->mask)
		if (span_eq(m->slots[at], key))
			return false;
	m->slots[at] = arena_copy(w->arena, key);
	return true;
}

static struct span
key_of_record(const struct dns_record *rr, uint8_t *buf)
{
	struct span data = rr->name.len > 0 ? rr->name : rr->head;

	buf[0] = (uint8_t)rr->type;
	memcpy(buf + 1, data.p, data.len);
	return span_of(buf, data.len + 1);
}

/* Node, port and address. */
static struct span
key_of_target(struct work *w, const struct dns_instance *n, struct span address)
{
	size_t len = n->node.len + 3 + address.len;
	uint8_t *key = arena_alloc(w->arena, len);

	if (key == NULL)
		return SPAN_NONE;
	if (n->node.len > 0)
		memcpy(key, n->node.p, n->node.len);
	key[n->node.len + 1] = (uint8_t)(n->port >> 8);		/* a zero ends the name */
	key[n->node.len + 2] = (uint8_t)n->port;
	if (address.len > 0)
		memcpy(key + n->node.len + 3, address.p, address.len);
	return span_of(key, len);
}

static void
answer_srv(struct task *t, const struct dns_instance **v, unsigned count, struct span dc, uint32_t ttl)
{
	struct dns_reply *r = t->reply;
	struct met met;
	struct group g = { .answer.n = 0 };

	if (!met_begin(t->w, &met, count)) {
		r->failed = true;
		return;
	}
	for (unsigned i = 0; i < count && !r->failed; i++) {
		const struct dns_instance *n = v[i];
		struct span address = choose(DNS_ANY, n->service_address, n->service_lan4, n->service_lan6);

		if (!met_first(t->w, &met, key_of_target(t->w, n, address)))
			continue;
		group_of(t, &g, n, dc, ttl);
		for (unsigned k = 0; k < g.answer.n; k++)
			append(r, &r->answer, &g.answer.v[k]);
		for (unsigned k = 0; k < g.more.n; k++)
			append(r, &r->additional, &g.more.v[k]);
		if (t->w->z->node_meta)
			add_meta(t->w, r, &r->additional, node_name(t->w, n->node, dc), n, ttl);
	}
}

static void
answer_addresses(struct task *t, const struct dns_instance **v, unsigned count, struct span dc, uint32_t ttl)
{
	struct dns_reply *r = t->reply;
	struct dns_section aliases = { .n = 0 };
	struct met met;
	struct group g = { .answer.n = 0 };
	uint8_t key[DNAME_BYTES_MAX + 2];
	unsigned given = 0;

	if (!met_begin(t->w, &met, count)) {
		r->failed = true;
		return;
	}
	for (unsigned i = 0; i < count && !r->failed; i++) {
		group_of(t, &g, v[i], dc, ttl);
		if (g.answer.n == 0 || !met_first(t->w, &met, key_of_record(&g.answer.v[0], key)))
			continue;
		if (g.answer.v[0].type == DNS_CNAME) {
			if (aliases.n == 0) {
				aliases = g.answer;
				g.answer = (struct dns_section){ .n = 0 };	/* its memory is in use */
			}
			continue;
		}
		for (unsigned k = 0; k < g.answer.n; k++)
			append(r, &r->answer, &g.answer.v[k]);
		if (++given == t->w->z->a_record_limit)
			return;
	}
	for (unsigned k = 0; k < aliases.n && given == 0; k++)
		append(r, &r->answer, &aliases.v[k]);
}

static void
trim(struct task *t)
{
	const struct dns_zone *z = t->w->z;
	struct dns_query inner = { .has_question = true, .type = t->type, .name = *t->name };
	const struct dns_limits limits = { .tcp = t->tcp, .compress = z->compress,
	    .udp_answers = z->udp_answer_limit < DNS_ANSWERS_MAX_UDP ? z->udp_answer_limit : DNS_ANSWERS_MAX_UDP };

	if (dns_reply_trim(t->reply, t->inner ? &inner : t->w->q, &limits) && z->truncate)
		t->reply->flags |= DNS_TC;
}

static void
answer_instances(struct task *t, const struct dns_lookup *k, struct span service)
{
	struct dns_reply *r = t->reply;
	const struct dns_found *found = fact(t->w, k);
	unsigned count;

	if (found == NULL)
		return;
	if (found->status == DNS_FAILED) {
		r->rcode = DNS_SERVFAIL;
		return;
	}
	const struct dns_instance **v = select_instances(t->w, found, t->inner, &count);
	if (count == 0) {
		no_name(t);
		return;
	}
	uint32_t ttl = found->has_ttl ? found->ttl :
	    dns_service_ttl(t->w->z, service.len > 0 ? service : found->service);
	if (t->type == DNS_SRV)
		answer_srv(t, v, count, found->datacenter, ttl);
	else
		answer_addresses(t, v, count, found->datacenter, ttl);
	trim(t);
	if (r->answer.n == 0 && (r->flags & DNS_TC) == 0)
		add_soa(t->w, r, &r->authority);
}

/* -- the zone itself -- */

static bool
is_plain(struct span name)
{
	for (size_t i = 0; i < name.len; i++) {
		uint8_t c = name.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
		    c == '\\'))
			return false;
	}
	return name.len > 0;
}

static void
add_servers(struct task *t, struct dns_section *to)
{
	struct work *w = t->w;
	const struct dns_found *found = fact(w, &(struct dns_lookup){ .kind = DNS_KIND_SERVICE,
	    .name = span_str("consul") });
	unsigned count, given = 0;

	if (found == NULL || found->status != DNS_FOUND)
		return;
	const struct dns_instance **v = select_instances(w, found, false, &count);
	for (unsigned i = 0; i < count && given < NS_MAX; i++) {
		struct span built = is_plain(v[i]->node) ? node_name(w, v[i]->node, found->datacenter) : SPAN_NONE;
		struct dname name = { .len = (uint8_t)built.len };

		if (built.len == 0)
			continue;
		memcpy(name.wire, built.p, built.len);
		dname_lower(&name);
		built = keep_bytes(w, dname_span(&name));
		add_name(t->reply, to, zone_name(w), DNS_NS, w->z->node_ttl, built);
		add_node(t, &t->reply->additional, v[i], DNS_ANY, built, w->z->node_ttl);
		given++;
	}
}

static void
answer_addr(struct task *t, const struct dns_asked *asked, const struct dname *lowered, size_t labels)
{
	struct dname owner;
	struct span zone = dname_span(dns_zone_of(t->w->z, lowered, labels));

	if (labels + zone.len > DNAME_BYTES_MAX)
		return;
	memcpy(owner.wire, lowered->wire, labels);
	memcpy(owner.wire + labels, zone.p, zone.len);
	owner.len = (uint8_t)(labels + zone.len);
	add_address(t->reply, &t->reply->answer, keep_bytes(t->w, dname_span(&owner)), t->w->z->node_ttl,
	    asked->address, asked->address_len);
}

static void
answer_task(struct task *t)
{
	struct dns_asked *asked = arena_alloc(t->w->arena, sizeof(*asked));
	struct dname lowered = *t->name;
	size_t labels = 0;

	dname_lower(&lowered);
	(void)dns_place_of(t->w->z, &lowered, &labels);
	if (asked == NULL) {
		t->reply->failed = true;
		return;
	}
	dns_parse(t->w->z, &lowered, labels, t->type, asked);
	struct dns_lookup *k = &asked->lookup;
	/* Those of an inner one have no client. */
	if (asked->form == DNS_FORM_LOOKUP && k->kind == DNS_KIND_QUERY && !t->inner)
		k->source = t->w->asker->source;
	if (asked->form == DNS_FORM_NONE)
		no_name(t);
	else if (asked->form == DNS_FORM_ADDR)
		answer_addr(t, asked, &lowered, labels);
	else if (asked->form == DNS_FORM_LOOKUP && k->kind == DNS_KIND_NODE)
		answer_node(t, k);
	else if (asked->form == DNS_FORM_LOOKUP)
		answer_instances(t, k, asked->service);
}

static void
answer_zone(struct task *t)
{
	struct dns_reply *r = t->reply;

	switch (t->type) {
	case DNS_SOA:
		add_soa(t->w, r, &r->answer);
		add_servers(t, &r->authority);
		break;
	case DNS_NS:
		add_servers(t, &r->answer);
		break;
	case DNS_AXFR:
		r->rcode = DNS_NOTIMP;
		break;
	default:
		answer_task(t);
	}
}

/* False: no node and no service here has the address. */
static bool
answer_reverse(struct task *t, const struct dname *lowered)
{
	struct work *w = t->w;
	uint8_t address[16];
	unsigned len = dns_parse_reverse(lowered, address);

	if (len == 0)
		return false;
	const struct dns_found *found = fact(w, &(struct dns_lookup){ .kind = DNS_KIND_ADDRESS,
	    .name = span_of(address, len) });
	if (found == NULL)
		return true;
	if (found->status != DNS_FOUND || found->count == 0)
		return false;
	struct span name = found->service.len > 0 ?
	    build_name(w, (const struct span[]){ found->service, span_str("service"), found->datacenter }, 3) :
	    node_name(w, found->instances[0].node, found->datacenter);
	if (name.len == 0)
		return false;
	if (t->type == DNS_SOA)
		add_soa(w, t->reply, &t->reply->authority);
	add_name(t->reply, &t->reply->answer, t->owner, DNS_PTR, 0, name);
	return true;
}

/* The scope of a client subnet is that of the answer: queries may depend on it. */
static bool
is_query(const struct dns_zone *z, const struct dns_query *q, const struct dname *lowered, size_t labels)
{
	struct dns_asked asked;

	if (q->type == DNS_SOA || q->type == DNS_NS || q->type == DNS_AXFR)
		return false;
	dns_parse(z, lowered, labels, q->type, &asked);
	return asked.form == DNS_FORM_LOOKUP && asked.lookup.kind == DNS_KIND_QUERY;
}

enum dns_outcome
dns_answer(const struct dns_zone *z, const struct dns_query *q, const struct dns_asker *asker, struct dns_facts *facts,
    struct arena *a, struct buf *out)
{
	struct work w = { .z = z, .zone = &z->domain, .q = q, .asker = asker, .facts = facts, .arena = a };
	struct dns_reply reply = { .arena = a, .names = asker->names,
	    .flags = (uint16_t)(DNS_AA | (z->recursors ? DNS_RA : 0)) };
	struct task t = { .w = &w, .name = &q->name, .owner = dname_span(&q->name), .type = q->type,
	    .tcp = asker->tcp, .depth = DNS_ALIASES_MAX, .reply = &reply };
	struct dname lowered = q->name;
	size_t labels = 0;

	rng_seed(&w.rng, asker->seed);
	dname_lower(&lowered);
	enum dns_place place = dns_place_of(z, &lowered, &labels);
	if (place == DNS_PLACE_ELSEWHERE || (place == DNS_PLACE_REVERSE && !answer_reverse(&t, &lowered)))
		return DNS_FORWARD;
	if (place == DNS_PLACE_ZONE) {
		w.zone = dns_zone_of(z, &lowered, labels);
		answer_zone(&t);
	}
	if (w.missing)
		return reply.failed ? DNS_NO_ANSWER : DNS_NEED;
	if (reply.failed)
		return DNS_NO_ANSWER;
	dns_reply_write(&reply, q, z->compress, reply.rcode == DNS_NOERROR && place == DNS_PLACE_ZONE &&
	    is_query(z, q, &lowered, labels), out);
	return out->failed ? DNS_NO_ANSWER : DNS_DONE;
}

bool
dns_plain_addresses(const struct dns_zone *z, const struct dns_found *found, uint16_t type, struct arena *a,
    struct dns_addresses *out)
{
	unsigned size = type == DNS_A ? 4 : 16;
	uint8_t *bytes = arena_array(a, found->count, size), address[16];

	*out = (struct dns_addresses){ bytes, size, 0 };
	for (unsigned i = 0; i < found->count && bytes != NULL; i++) {
		const struct dns_instance *n = &found->instances[i];
		struct span text = choose(type, n->service_address, n->service_lan4, n->service_lan6);

		if (!counts(z, found, n))
			continue;
		if (text.len == 0)
			text = choose(type, n->address, n->lan4, n->lan6);
		unsigned len = dns_address_of(text, address);
		if (len == 0 && text.len > 0)
			return false;
		if (len == size)
			memcpy(bytes + (size_t)out->n++ * size, address, size);
	}
	return bytes != NULL;
}

void
dns_answer_error(const struct dns_query *q, uint16_t flags, enum dns_rcode rcode, struct buf *out)
{
	size_t at = out->len;
	uint16_t kept = (q->flags & DNS_OPCODE) == 0 ? DNS_RD | DNS_CD : DNS_OPCODE;
	uint16_t head = (uint16_t)(DNS_QR | (q->flags & kept) | flags | rcode);

	dns_reply_bare(q, flags, rcode, out);
	if (out->failed)
		return;
	out->data[at + 2] = (uint8_t)(head >> 8);
	out->data[at + 3] = (uint8_t)head;
	if (q->edns && rcode != DNS_REFUSED) {
		out->data[at + 11] = 1;
		dns_put_opt(q, false, out);
	}
}
