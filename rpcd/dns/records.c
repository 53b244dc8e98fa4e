/*
 * Records as bytes, see records.h.  Names are compressed as Consul does it, since sizes decide what fits: every name
 * but the question's may point to any name before it of the same case; the target of an SRV is written in full, and
 * later names may point into it.
 */
#include "common/base/fnv.h"
#include "rpcd/dns/records.h"

#define POINTER_MAX 0x3fff
#define SECTION_FIRST 4

#define PLAIN_UDP 512
#define SPARE_BYTES 7
#define TCP_BYTES_MAX 65523
#define TCP_ANSWERS_MAX 4096
#define TCP_SRV_MAX 1024

struct dns_record *
dns_add(struct dns_reply *r, struct dns_section *s)
{
	if (s->n == s->room) {
		unsigned room = s->room == 0 ? SECTION_FIRST : s->room * 2;
		struct dns_record *v = arena_array(r->arena, room, sizeof(*v));

		if (v == NULL) {
			r->failed = true;
			return NULL;
		}
		if (s->n > 0)
			memcpy(v, s->v, s->n * sizeof(*v));
		s->v = v;
		s->room = room;
	}
	return &s->v[s->n++];
}

/* -- bytes -- */

struct writer {
	struct buf *out;		/* NULL: only counted */
	struct dns_names *names;	/* NULL: not compressed */
	size_t at;
	unsigned used;
};

static void
put_bytes(struct writer *w, const void *p, size_t n)
{
	if (w->out != NULL)
		buf_put(w->out, p, n);
	w->at += n;
}

static void
put16(struct writer *w, unsigned v)
{
	put_bytes(w, (const uint8_t[]){ (uint8_t)(v >> 8), (uint8_t)v }, 2);
}

static void
put32(struct writer *w, uint32_t v)
{
	put16(w, v >> 16);
	put16(w, v & 0xffff);
}

/* Where this name was written, or 0; then it is noted for the place `at`, if one can point there and there is room. */
static uint16_t
find_suffix(struct writer *w, struct span name, size_t at)
{
	struct dns_names *t = w->names;
	uint32_t i = (uint32_t)fnv1a(FNV1A_START, name) % DNS_NAME_SLOTS;

	for (; t->slots[i].life == t->life; i = (i + 1) % DNS_NAME_SLOTS)
		if (span_eq(t->slots[i].name, name))
			return t->slots[i].at;
	if (at <= POINTER_MAX && w->used < DNS_NAME_SLOTS / 2) {
		t->slots[i].name = name;
		t->slots[i].at = (uint16_t)at;
		t->slots[i].life = t->life;
		w->used++;
	}
	return 0;
}

static void
put_name(struct writer *w, struct span name, bool whole)
{
	size_t from = 0;

	if (w->names == NULL) {
		put_bytes(w, name.p, name.len);
		return;
	}
	for (; from < name.len && name.p[from] != 0; from += name.p[from] + 1u) {
		uint16_t at = find_suffix(w, span_of(name.p + from, name.len - from), w->at + from);

		if (at > 0 && !whole) {
			put_bytes(w, name.p, from);
			put16(w, 0xc000u | at);
			return;
		}
	}
	put_bytes(w, name.p, name.len);
}

static void
put_record(struct writer *w, const struct dns_record *r)
{
	put_name(w, r->owner, false);
	put16(w, r->type);
	put16(w, 1);
	put32(w, r->ttl);
	size_t at = w->at + 2;
	size_t place = w->out == NULL ? 0 : w->out->len;
	put16(w, 0);
	put_bytes(w, r->head.p, r->head.len);
	if (r->name.len > 0)
		put_name(w, r->name, r->type == DNS_SRV);
	if (r->name2.len > 0)
		put_name(w, r->name2, false);
	put_bytes(w, r->tail.p, r->tail.len);
	if (w->out != NULL && !w->out->failed) {
		uint8_t *length = w->out->data + place;

		length[0] = (uint8_t)((w->at - at) >> 8);
		length[1] = (uint8_t)(w->at - at);
	}
}

static void
put_reply(struct writer *w, const struct dns_reply *r, const struct dns_query *q, bool opt)
{
	const struct dns_section *sections[] = { &r->answer, &r->authority, &r->additional };
	uint16_t kept = (q->flags & DNS_OPCODE) == 0 ? DNS_RD | DNS_CD : DNS_OPCODE;

	if (w->names != NULL && ++w->names->life == 0) {
		memset(w->names, 0, sizeof(*w->names));
		w->names->life = 1;
	}
	put16(w, q->id);
	put16(w, DNS_QR | (q->flags & kept) | r->flags | r->rcode);
	put16(w, 1);
	put16(w, r->answer.n);
	put16(w, r->authority.n);
	put16(w, r->additional.n + opt);
	put_name(w, dname_span(&q->name), false);
	put16(w, q->type);
	put16(w, q->class);
	for (unsigned s = 0; s < 3; s++)
		for (unsigned i = 0; i < sections[s]->n; i++)
			put_record(w, &sections[s]->v[i]);
}

size_t
dns_reply_size(const struct dns_reply *r, const struct dns_query *q, bool compress)
{
	struct writer w = { .names = compress ? r->names : NULL };

	put_reply(&w, r, q, false);
	return w.at;
}

void
dns_reply_write(const struct dns_reply *r, const struct dns_query *q, bool compress, bool scoped, struct buf *out)
{
	/* Offsets count from the header, wherever in the buffer that is. */
	struct writer w = { .out = out, .names = compress ? r->names : NULL };

	put_reply(&w, r, q, q->edns);
	dns_put_opt(q, scoped, out);
}

/* -- what fits -- */

/* The first address record of each name in additional, with a mark for those that are in already. */
struct known {
	const struct dns_record **slots;
	uint32_t *taken;
	unsigned mask;
	uint32_t round;
};

static bool
know(struct dns_reply *r, struct known *k)
{
	unsigned size = 16;

	while (size < r->additional.n * 2)
		size *= 2;
	k->mask = size - 1;
	k->round = 0;
	k->slots = arena_array(r->arena, size, sizeof(*k->slots));
	k->taken = arena_array(r->arena, size, sizeof(*k->taken));
	if (k->slots == NULL || k->taken == NULL)
		return false;
	for (unsigned i = 0; i < r->additional.n; i++) {
		const struct dns_record *rr = &r->additional.v[i];
		unsigned at = (unsigned)fnv1a_nocase(FNV1A_START, rr->owner) & k->mask;

		if (rr->type != DNS_A && rr->type != DNS_AAAA && rr->type != DNS_CNAME)
			continue;
		while (k->slots[at] != NULL && !span_eq_nocase(k->slots[at]->owner, rr->owner))
			at = (at + 1) & k->mask;
		if (k->slots[at] == NULL)
			k->slots[at] = rr;
	}
	return true;
}

/* Additional anew: for each SRV what is known of its target, each name once. */
static void
resync(struct dns_reply *r, struct known *k, struct dns_section *to)
{
	to->n = 0;
	k->round++;
	for (unsigned i = 0; i < r->answer.n; i++) {
		struct span name = r->answer.v[i].name;

		if (r->answer.v[i].type != DNS_SRV)
			continue;
		for (;;) {
			unsigned at = (unsigned)fnv1a_nocase(FNV1A_START, name) & k->mask;

			while (k->slots[at] != NULL && !span_eq_nocase(k->slots[at]->owner, name))
				at = (at + 1) & k->mask;
			if (k->slots[at] == NULL || k->taken[at] == k->round)
				break;
			k->taken[at] = k->round;
			to->v[to->n++] = *k->slots[at];
			if (k->slots[at]->type != DNS_CNAME)
				break;
			name = k->slots[at]->name;
		}
	}
	r->additional.v = to->v;
	r->additional.n = to->n;
}

struct trim {
	struct dns_reply *r;
	const struct dns_query *q;
	struct known known;
	struct dns_section more;	/* additional anew; never larger than the old one */
	bool has_more, compress;
};

static void
cut_to(struct trim *t, unsigned answers)
{
	t->r->answer.n = answers;
	if (t->has_more)
		resync(t->r, &t->known, &t->more);
}

static size_t
size_now(const struct trim *t)
{
	return dns_reply_size(t->r, t->q, t->compress);
}

/* How many answers make at most `limit` bytes; it ends early when fewer than 10 are free. */
static unsigned
bisect(struct trim *t, size_t limit)
{
	unsigned low = 0, high = t->r->answer.n + 1;

	while (high - low > 1) {
		unsigned middle = low + (high - low) / 2;

		cut_to(t, middle);
		size_t size = size_now(t);
		if (size > limit) {
			high = middle;
			continue;
		}
		if (limit - size < 10)
			return middle;
		low = middle;
	}
	return low;
}

bool
dns_reply_trim(struct dns_reply *r, const struct dns_query *q, const struct dns_limits *limits)
{
	struct trim t = { .r = r, .q = q, .has_more = r->additional.n > 0, .compress = limits->compress };
	size_t limit = limits->tcp ? TCP_BYTES_MAX : q->edns && q->udp_size > PLAIN_UDP ? q->udp_size : PLAIN_UDP;
	unsigned tcp_max = q->type == DNS_SRV ? TCP_SRV_MAX : TCP_ANSWERS_MAX;

	if (limits->tcp && r->answer.n > tcp_max)
		r->answer.n = tcp_max;
	unsigned before = r->answer.n;
	if (before <= 1)
		return false;
	if (t.has_more) {
		t.more.v = arena_array(r->arena, r->additional.n, sizeof(*t.more.v));
		if (t.more.v == NULL || !know(r, &t.known)) {
			r->failed = true;
			return false;
		}
	}
	if (!limits->tcp && limit == PLAIN_UDP && before > limits->udp_answers) {
		t.compress = false;
		cut_to(&t, limits->udp_answers);
	}
	for (size_t size; r->answer.n > 1 && (size = size_now(&t)) > limit - (limits->tcp ? 0 : SPARE_BYTES);) {
		r->authority.n = 0;
		cut_to(&t, size > limit + 100 ? bisect(&t, limit) : r->answer.n - 1);
	}
	return r->answer.n < before;
}
