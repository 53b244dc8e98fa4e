/* Answers as bytes, see rendered.h. */
#include <stdlib.h>

#include "rpcd/dns/rendered.h"

#define CHAINS 16384			/* a power of two */
#define NAME_AT 7			/* in a key: behind type, class, size, way */
#define REPLY_BYTES_MAX 16384		/* longer ones are made anew each time */
#define POINTER_TO_QUESTION 0xc00cu
#define RECORD_HEAD 12			/* owner as a pointer, type, class, TTL, length */
#define VARIANTS 16			/* orders of an answer that is no list of addresses */
#define VARIANT_USES 4			/* of one order: then another one is made */
#define REPEATED_MAX 64			/* answers, where instances share addresses */

struct variant {
	uint8_t *bytes;
	uint16_t len, uses;
};

struct rendered {
	struct rendered_set *set;
	struct rendered *next;			/* in the chain */
	LIST_ENTRY(rendered) of_set;
	TAILQ_ENTRY(rendered) use;
	uint64_t hash;
	size_t bytes;				/* with all that hangs on it */
	uint32_t second;			/* in which an answer with an SOA is good: its serial is the time */
	uint16_t key_len;
	bool dated;				/* it has an SOA */
	bool bare;				/* no name but the question's: any letters will do */
	/* A list of addresses: the message without them is variants[0], cut where they go. */
	uint8_t address_len;			/* 0: it is none */
	uint16_t answers, records_at;
	uint32_t instances, addresses;
	uint8_t *address_bytes, *record_head;
	uint32_t *order;			/* indexes of addresses, one for each instance */
	/* Whole messages otherwise: one, or VARIANTS of them */
	unsigned variant_count, turn;
	struct variant *variants;
	uint8_t key[];
};

bool
rendered_open(struct rendered_table *t, size_t bytes_max, uint64_t (*hash)(const void *, size_t))
{
	*t = (struct rendered_table){ .hash = hash, .bytes_max = bytes_max, .chains_mask = CHAINS - 1 };
	TAILQ_INIT(&t->uses);
	t->chains = calloc(CHAINS, sizeof(*t->chains));
	return t->chains != NULL;
}

void
rendered_done(struct rendered_table *t)
{
	rendered_drop_all(t);
	free(t->chains);
	*t = (struct rendered_table){ 0 };
}

/* -- questions -- */

/* Options but for a client subnet; what is malformed is not for us. */
static bool
plain_options(struct rd *in)
{
	while (rd_left(in) > 0) {
		uint16_t code = rd_u16be(in);
		(void)rd_bytes(in, rd_u16be(in));
		if (in->err != TV_OK || code == DNS_SUBNET_OPTION)
			return false;
	}
	return in->err == TV_OK;
}

/* What follows the question: nothing, or one OPT.  *size: what it offers. */
static bool
read_opt(struct span rest, bool announced, uint8_t size[2])
{
	struct rd in = rd_span_over(rest);

	if (!announced)
		return rest.len == 0;
	if (rd_u8(&in) != 0 || rd_u16be(&in) != DNS_OPT)
		return false;
	uint16_t class = rd_u16be(&in);
	bool version_0 = (rd_u32be(&in) & 0xff0000) == 0;
	if (rd_u16be(&in) != rd_left(&in) || in.err != TV_OK || !version_0)
		return false;
	size[0] = (uint8_t)(class >> 8);
	size[1] = (uint8_t)class;
	return plain_options(&in);
}

bool
rendered_read(const struct rendered_table *t, struct span msg, bool tcp, struct rendered_question *q)
{
	static const uint8_t counts[7] = { 0, 1, 0, 0, 0, 0, 0 };
	const uint8_t *p = msg.p;
	size_t at = DNS_HEADER_BYTES, n = 0;

	/* A question of opcode 0, and one more record at most. */
	if (msg.len < DNS_HEADER_BYTES + 5 || (p[2] & 0xf8) != 0 || memcmp(p + 4, counts, sizeof(counts)) != 0 ||
	    p[11] > 1)
		return false;
	while (at < msg.len && p[at] != 0 && p[at] < 64)
		at += p[at] + 1u;
	if (at + 5 > msg.len || p[at] != 0 || at + 1 - DNS_HEADER_BYTES > DNAME_BYTES_MAX)
		return false;
	q->name = span_of(p + DNS_HEADER_BYTES, at + 1 - DNS_HEADER_BYTES);
	q->lower = true;
	q->id = (uint16_t)(p[0] << 8 | p[1]);
	q->flags = (uint16_t)(p[2] << 8 | p[3]);
	q->type = (uint16_t)(p[at + 1] << 8 | p[at + 2]);
	memcpy(q->key, p + at + 1, 4);
	q->key[4] = q->key[5] = 0;
	q->key[6] = (uint8_t)(p[11] | (tcp ? 2 : 0));
	if (!read_opt(span_of(p + at + 5, msg.len - at - 5), p[11] == 1, q->key + 4))
		return false;
	for (uint8_t *to = q->key + NAME_AT; n < q->name.len; n++) {
		uint8_t c = q->name.p[n];
		bool upper = c >= 'A' && c <= 'Z';

		to[n] = upper ? c + 32 : c;
		q->lower = q->lower && !upper;
	}
	q->key_len = NAME_AT + n;
	q->hash = t->hash(q->key, q->key_len);
	return true;
}

/* -- the table -- */

static struct rendered **
chain_of(const struct rendered_table *t, uint64_t hash)
{
	return &t->chains[hash & t->chains_mask];
}

static struct rendered *
find_rendered(const struct rendered_table *t, const struct rendered_question *q)
{
	struct rendered *r = *chain_of(t, q->hash);

	while (r != NULL && !(r->hash == q->hash && r->key_len == q->key_len &&
	    memcmp(r->key, q->key, q->key_len) == 0))
		r = r->next;
	return r;
}

static void
discard(struct rendered_table *t, struct rendered *r)
{
	struct rendered **p = chain_of(t, r->hash);

	while (*p != r)
		p = &(*p)->next;
	*p = r->next;
	LIST_REMOVE(r, of_set);
	TAILQ_REMOVE(&t->uses, r, use);
	t->bytes -= r->bytes;
	t->count--;
	for (unsigned i = 0; i < r->variant_count; i++)
		free(r->variants[i].bytes);
	free(r->variants);
	free(r->order);
	free(r);
}

void
rendered_drop(struct rendered_table *t, struct rendered_set *set)
{
	while (!LIST_EMPTY(&set->list))
		discard(t, LIST_FIRST(&set->list));
}

void
rendered_drop_all(struct rendered_table *t)
{
	while (!TAILQ_EMPTY(&t->uses))
		discard(t, TAILQ_FIRST(&t->uses));
}

static void
make_room(struct rendered_table *t, const struct rendered *but)
{
	struct rendered *r;

	while (t->bytes > t->bytes_max && (r = TAILQ_FIRST(&t->uses)) != NULL && r != but)
		discard(t, r);
}

/* -- from a question to its answer -- */

/* Id, flags and letters of the question. */
static void
put_question(const struct rendered_question *q, uint8_t *reply)
{
	uint16_t kept = q->flags & (DNS_RD | DNS_CD);

	reply[0] = (uint8_t)(q->id >> 8);
	reply[1] = (uint8_t)q->id;
	reply[2] = (uint8_t)((reply[2] & ~(DNS_RD >> 8)) | kept >> 8);
	reply[3] = (uint8_t)((reply[3] & ~DNS_CD) | (kept & 0xff));
	memcpy(reply + DNS_HEADER_BYTES, q->name.p, q->name.len);
}

/* Was this address given in this answer?  Few are, where instances share them. */
static bool
is_given(const uint32_t *given, unsigned n, uint32_t address)
{
	for (unsigned i = 0; i < n; i++)
		if (given[i] == address)
			return true;
	return false;
}

/* Instances are drawn, one after the other, until there are as many addresses as the answer has. */
static void
write_addresses(struct rendered *r, const struct rendered_question *q, struct rng *rng, struct buf *out)
{
	const struct variant *around = &r->variants[0];
	size_t record = RECORD_HEAD + r->address_len, tail = around->len - r->records_at;
	uint8_t *reply = buf_add(out, around->len + r->answers * record), *p;
	uint32_t given[REPEATED_MAX];
	bool shared = r->instances > r->addresses;

	if (reply == NULL)
		return;
	memcpy(reply, around->bytes, r->records_at);
	p = reply + r->records_at;
	for (uint32_t drawn = 0, n = 0; n < r->answers; drawn++) {
		uint32_t other = drawn + (uint32_t)rng_below(rng, r->instances - drawn);
		uint32_t address = r->order[other];

		r->order[other] = r->order[drawn];
		r->order[drawn] = address;
		if (shared && is_given(given, n, address))
			continue;
		if (shared)
			given[n] = address;
		n++;
		memcpy(p, r->record_head, RECORD_HEAD);
		memcpy(p + RECORD_HEAD, r->address_bytes + (size_t)address * r->address_len, r->address_len);
		p += record;
	}
	memcpy(p, around->bytes + r->records_at, tail);
	put_question(q, reply);
}

static bool
write_variant(struct rendered *r, const struct rendered_question *q, struct buf *out)
{
	struct variant *v = &r->variants[r->turn];

	if (v->bytes == NULL || v->uses == 0)
		return false;			/* the next order goes here */
	uint8_t *reply = buf_add(out, v->len);
	if (reply == NULL)
		return true;
	memcpy(reply, v->bytes, v->len);
	put_question(q, reply);
	if (r->variant_count > 1) {
		v->uses--;
		r->turn = (r->turn + 1) % r->variant_count;
	}
	return true;
}

struct rendered_set *
rendered_write(struct rendered_table *t, const struct rendered_question *q, struct rng *rng, uint32_t now,
    struct buf *out)
{
	struct rendered *r = find_rendered(t, q);

	if (r == NULL || (r->dated && r->second != now) || (!r->bare && !q->lower))
		return NULL;
	if (r->address_len > 0)
		write_addresses(r, q, rng, out);
	else if (!write_variant(r, q, out))
		return NULL;
	if (TAILQ_NEXT(r, use) != NULL) {
		TAILQ_REMOVE(&t->uses, r, use);
		TAILQ_INSERT_TAIL(&t->uses, r, use);
	}
	return r->set;
}

/* -- from an answer to what is kept -- */

/* What the records of a reply are like. */
struct reply_shape {
	bool dated, bare;
	bool addresses;			/* all answers are addresses of the question's name, of one family */
	unsigned answers;
	size_t records_at;
};

static bool
read_shape(struct span reply, const struct rendered_question *q, struct reply_shape *shape)
{
	size_t at = DNS_HEADER_BYTES + q->name.len + 4;
	unsigned counts[3] = { 0 };
	struct dname owner;

	if (reply.len < at)
		return false;
	for (unsigned i = 0; i < 3; i++)
		counts[i] = (unsigned)reply.p[6 + 2 * i] << 8 | reply.p[7 + 2 * i];
	*shape = (struct reply_shape){ .bare = true, .addresses = counts[0] > 0 && counts[1] == 0 &&
	    counts[2] == (q->key[6] & 1u) && (q->type == DNS_A || q->type == DNS_AAAA), .answers = counts[0],
	    .records_at = at };
	for (unsigned i = 0, n = counts[0] + counts[1] + counts[2]; i < n; i++) {
		bool pointer = reply.len - at >= 2 && reply.p[at] == POINTER_TO_QUESTION >> 8 &&
		    reply.p[at + 1] == (POINTER_TO_QUESTION & 0xff);

		if (dname_read(reply, &at, &owner) != TV_OK)
			return false;
		struct rd in = rd_over(reply.p + at, reply.len - at);
		uint16_t type = rd_u16be(&in);
		(void)rd_u16be(&in);
		(void)rd_u32be(&in);
		(void)rd_bytes(&in, rd_u16be(&in));
		if (in.err != TV_OK)
			return false;
		at = (size_t)(in.p - reply.p);
		shape->dated = shape->dated || type == DNS_SOA;
		if (type == DNS_OPT)
			continue;
		shape->bare = shape->bare && pointer && (type == DNS_A || type == DNS_AAAA || type == DNS_TXT);
		shape->addresses = shape->addresses && pointer && type == q->type;
	}
	return at == reply.len;
}

static void
grow(struct rendered_table *t, struct rendered *r, size_t bytes)
{
	r->bytes += bytes;
	t->bytes += bytes;
}

/* One copy of each, and for each instance which one it has.  False: no memory, or they are not for us. */
static bool
take_addresses(struct rendered_table *t, struct rendered *r, const struct dns_addresses *from, struct arena *a)
{
	uint32_t mask = 15, *slots, *of;
	uint8_t *each;

	while (mask < from->n * 2)
		mask = mask * 2 + 1;
	slots = arena_array(a, (size_t)mask + 1, sizeof(*slots));
	of = arena_array(a, from->n, sizeof(*of));
	each = arena_array(a, from->n, from->len);
	if (slots == NULL || of == NULL || each == NULL)
		return false;
	r->addresses = 0;
	for (uint32_t i = 0; i < from->n; i++) {
		const uint8_t *address = from->bytes + (size_t)i * from->len;
		uint64_t at = t->hash(address, from->len) & mask;

		while (slots[at] > 0 && memcmp(each + (size_t)(slots[at] - 1) * from->len, address, from->len) != 0)
			at = (at + 1) & mask;
		if (slots[at] == 0) {
			memcpy(each + (size_t)r->addresses * from->len, address, from->len);
			slots[at] = ++r->addresses;
		}
		of[i] = slots[at] - 1;
	}
	size_t order_bytes = from->n * sizeof(*of);
	size_t bytes = order_bytes + (size_t)r->addresses * from->len + RECORD_HEAD;
	uint8_t *memory = malloc(bytes);
	if (memory == NULL)
		return false;
	r->order = (uint32_t *)(void *)memory;
	r->address_bytes = memory + order_bytes;
	r->record_head = memory + bytes - RECORD_HEAD;
	memcpy(r->order, of, order_bytes);
	memcpy(r->address_bytes, each, (size_t)r->addresses * from->len);
	r->instances = from->n;
	r->address_len = (uint8_t)from->len;
	grow(t, r, bytes);
	return true;
}

/* The message without its records, which are put together again for each question. */
static bool
keep_addresses(struct rendered_table *t, struct rendered *r, const struct dns_addresses *from,
    const struct reply_shape *shape, struct span reply, struct arena *a)
{
	size_t records = shape->answers * (RECORD_HEAD + (size_t)from->len);
	uint8_t *bytes = malloc(reply.len - records);
	struct variant *v = r->variants;

	if (bytes == NULL || !take_addresses(t, r, from, a) || r->addresses < shape->answers ||
	    (r->instances > r->addresses && shape->answers > REPEATED_MAX)) {
		free(bytes);
		return false;
	}
	memcpy(r->record_head, reply.p + shape->records_at, RECORD_HEAD);
	memcpy(bytes, reply.p, shape->records_at);
	memcpy(bytes + shape->records_at, reply.p + shape->records_at + records,
	    reply.len - records - shape->records_at);
	*v = (struct variant){ bytes, (uint16_t)(reply.len - records), 1 };
	r->answers = (uint16_t)shape->answers;
	r->records_at = (uint16_t)shape->records_at;
	grow(t, r, v->len);
	return true;
}

static bool
keep_variant(struct rendered_table *t, struct rendered *r, struct span reply)
{
	struct variant *v = &r->variants[r->turn];
	uint8_t *bytes = realloc(v->bytes, reply.len);

	if (bytes == NULL)
		return false;
	memcpy(bytes, reply.p, reply.len);
	grow(t, r, reply.len - v->len);		/* or shrinks: it is modulo */
	/* This order has been given once. */
	*v = (struct variant){ bytes, (uint16_t)reply.len, r->variant_count > 1 ? VARIANT_USES - 1 : 1 };
	r->turn = (r->turn + 1) % r->variant_count;
	return true;
}

static void
enter(struct rendered_table *t, struct rendered *r, struct rendered_set *set)
{
	struct rendered **chain = chain_of(t, r->hash);

	r->next = *chain;
	*chain = r;
	r->set = set;
	LIST_INSERT_HEAD(&set->list, r, of_set);
	TAILQ_INSERT_TAIL(&t->uses, r, use);
	t->bytes += r->bytes;
	t->count++;
}

static struct rendered *
rendered_new(const struct rendered_question *q, const struct reply_shape *shape, unsigned variants)
{
	struct rendered *r = calloc(1, sizeof(*r) + q->key_len);

	if (r == NULL || (r->variants = calloc(variants, sizeof(*r->variants))) == NULL) {
		free(r);
		return NULL;
	}
	r->variant_count = variants;
	r->bytes = sizeof(*r) + q->key_len + variants * sizeof(*r->variants);
	r->hash = q->hash;
	r->dated = shape->dated;
	r->bare = shape->bare;
	r->key_len = (uint16_t)q->key_len;
	memcpy(r->key, q->key, q->key_len);
	return r;
}

void
rendered_keep(struct rendered_table *t, struct rendered_set *set, const struct rendered_question *q,
    const struct dns_zone *z, const struct dns_found *found, struct span reply, uint32_t now, struct arena *a)
{
	struct rendered *r = find_rendered(t, q);
	struct reply_shape shape;
	struct dns_addresses addresses = { .n = 0 };
	bool shuffled = found->count > 1 && !found->ordered, list = false;

	if (!read_shape(reply, q, &shape) || (!shape.bare && !q->lower))
		return;
	if (r != NULL && r->set == set && r->variant_count > 1 && r->dated == shape.dated &&
	    (!r->dated || r->second == now) && r->bare == shape.bare && reply.len <= REPLY_BYTES_MAX) {
		(void)keep_variant(t, r, reply);	/* one more order */
		make_room(t, r);
		return;
	}
	if (r != NULL)
		discard(t, r);
	if (shuffled && (q->type == DNS_A || q->type == DNS_AAAA) &&
	    dns_plain_addresses(z, found, q->type, a, &addresses)) {
		shuffled = addresses.n > 1;		/* else it is this answer, whatever the order */
		list = shuffled && shape.addresses;
	}
	if ((!list && reply.len > REPLY_BYTES_MAX) ||
	    (r = rendered_new(q, &shape, shuffled && !list ? VARIANTS : 1)) == NULL)
		return;
	r->second = now;
	enter(t, r, set);
	if (list ? keep_addresses(t, r, &addresses, &shape, reply, a) : keep_variant(t, r, reply))
		make_room(t, r);
	else
		discard(t, r);
}
