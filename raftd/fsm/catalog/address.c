/*
 * Who has an address: the first node by name, else the first instance of a service by node and id.
 *
 * The index of addresses is in memory and in no table: it follows from the records, so a table of it would change what entries do
 * that older versions apply too.  The first question makes it, by a walk over all nodes and services beside who applies.  From before
 * the walk on, the applying thread notes which records change, and reads them again when they are committed: so groups that were taken back
 * need no thought.  What comes while the walk is under way is played to the index at its end.  A question sees the last commit, or
 * one that is about to be published.
 *
 * It goes when the state is replaced, and when more has changed since the last question than it holds.  Where it would be too large all
 * records are looked through for each question, as they are for an index.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/addr.h"
#include "raftd/fsm/acl/acl.h"
#include "raftd/fsm/catalog/address.h"
#include "raftd/fsm/catalog/address_index.h"
#include "raftd/fsm/catalog/catalog.h"
#include "raftd/fsm/read/read.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/store/bdb/store_fetch.h"

#define INDEX_BYTES_MAX (256u << 20)	/* some two million records */
#define NOTES_BYTES_MAX (32u << 20)	/* what changes in a batch, or during a walk; beyond that the index goes */
#define NOTES_KEEP (64u << 10)
#define UNASKED_MIN 4096		/* so many changes are worth noting without a question, if the index is smaller */

struct addresses {
	pthread_mutex_t lock;		/* after f->lock; for moments only */
	pthread_cond_t built;
	enum { NOT_BUILT, BUILDING, BUILT } phase;
	unsigned generation;		/* of what is being built: another one begins with each attempt, and with another state */
	struct address_index *index;	/* owned; if it is built */
	struct buf later;		/* while it is built: what changed; as `changes` */
	uint64_t unasked;		/* changes since the last question */
	uint64_t too_many;		/* records, when they were more than it can hold; 0: they never were */
	_Atomic bool ready;		/* phase is BUILT: for who has no lock */
	_Atomic uint64_t builds, searches;	/* since the start */
	/* With f->lock. */
	bool noting;
	struct buf keys;		/* of records that the running batch changed: [u32 bytes, key] each */
	struct buf changes;		/* what they are like then: [u32 bytes, key, u8 has one, address, u32 bytes, name] each */
};

struct addresses *
addresses_new(void)
{
	struct addresses *x = calloc(1, sizeof(*x));

	if (x == NULL)
		return NULL;
	pthread_mutex_init(&x->lock, NULL);
	pthread_cond_init(&x->built, NULL);
	buf_init(&x->later, NOTES_BYTES_MAX);
	buf_init(&x->keys, NOTES_BYTES_MAX);
	buf_init(&x->changes, NOTES_BYTES_MAX);
	return x;
}

void
addresses_free(struct addresses *x)
{
	if (x == NULL)
		return;
	address_index_free(x->index);
	buf_done(&x->later);
	buf_done(&x->keys);
	buf_done(&x->changes);
	pthread_mutex_destroy(&x->lock);
	pthread_cond_destroy(&x->built);
	free(x);
}

static struct addresses *
addresses_of(const struct fsm *f)
{
	return f->owner != NULL ? f->owner->addresses : f->addresses;
}

/* -- addresses of records -- */

/* False: a host name, or none. */
static bool
address_bytes(struct span text, uint8_t bytes[ADDRESS_BYTES])
{
	struct addr a;
	bool known = addr_parse_span(text, 0, &a);

	a = addr_mapped(a);
	memcpy(bytes, a.ip, ADDRESS_BYTES);
	return known;
}

/* A table whose records have an address and a name, and where in them these are. */
struct kind {
	enum tbl table;
	const struct schema *schema;
	uint32_t numbers[2];
};

static struct kind
kind_of(enum tbl table)
{
	struct kind k = { .table = table, .schema = table == TBL_NODE ? &node_schema : &service_schema };

	k.numbers[0] = catalog_field(k.schema, table == TBL_NODE ? "Node" : "Service");
	k.numbers[1] = catalog_field(k.schema, "Address");
	return k;
}

/* Name and address of a stored record, in it; false: it is damaged, which is said. */
static bool
read_record(struct fsm *f, const struct kind *k, struct span val, struct span texts[2])
{
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	union { struct node node; struct service service; } rec;

	if (catalog_texts(val, k->numbers, texts, 2))
		return true;
	(void)tbl_decode(f, k->schema, val, &a, &rec);
	arena_done(&a);
	return false;
}

/* -- by the applying thread -- */

void
addresses_note(struct fsm *f, const struct tkey *k)
{
	struct addresses *x = f->addresses;

	if (x == NULL || !x->noting || (k->b[0] != TBL_NODE && k->b[0] != TBL_SERVICE))
		return;
	buf_u32be(&x->keys, k->len);
	buf_put(&x->keys, k->b, k->len);
}

/* What a record is like now that was changed. */
static void
describe(struct fsm *f, struct span stored, struct buf *out)
{
	struct kind kind = kind_of((enum tbl)stored.p[0]);
	struct span val, texts[2];
	uint8_t address[ADDRESS_BYTES];
	struct tkey k;
	bool has;

	tbl_key_of(&k, stored);
	has = tbl_peek(f, &k, &val) && read_record(f, &kind, val, texts) && address_bytes(texts[1], address);
	buf_u32be(out, (uint32_t)stored.len);
	buf_putspan(out, stored);
	buf_u8(out, has);
	if (!has)
		return;
	buf_put(out, address, sizeof(address));
	buf_u32be(out, (uint32_t)texts[0].len);
	buf_putspan(out, texts[0]);
}

/* False: the index is of no use any more.  *n: more by the number of changes. */
static bool
play(struct address_index *index, struct span changes, uint64_t *n)
{
	struct rd r = rd_span_over(changes);
	bool good = true;

	while (good && rd_left(&r) > 0) {
		uint32_t bytes = rd_u32be(&r);
		struct span key = rd_bytes(&r, bytes), address, name;

		++*n;
		if (rd_u8(&r) == 0) {
			good = address_index_set(index, key, NULL, SPAN_NONE);
			continue;
		}
		address = rd_bytes(&r, ADDRESS_BYTES);
		bytes = rd_u32be(&r);
		name = rd_bytes(&r, bytes);
		good = r.err == TV_OK && address_index_set(index, key, address.p, name);
	}
	return good;
}

/* Lock held. */
static void
forget(struct addresses *x)
{
	address_index_free(x->index);
	x->index = NULL;
	x->ready = false;
	x->phase = NOT_BUILT;
	x->generation++;
	buf_done(&x->later);
	pthread_cond_broadcast(&x->built);
}

/* Lock held. */
static void
take_changes(struct addresses *x)
{
	size_t most;

	switch (x->phase) {
	case NOT_BUILT:
		x->noting = false;
		break;
	case BUILDING:
		if (x->keys.failed || x->changes.failed)
			x->later.failed = true;
		buf_putspan(&x->later, buf_span(&x->changes));
		break;
	case BUILT:
		most = address_index_count(x->index) > UNASKED_MIN ? address_index_count(x->index) : UNASKED_MIN;
		if (x->keys.failed || x->changes.failed || !play(x->index, buf_span(&x->changes), &x->unasked) ||
		    x->unasked > most)
			forget(x);
		break;
	}
}

static void
empty(struct buf *b)
{
	if (b->cap > NOTES_KEEP)
		buf_done(b);
	buf_reset(b);
}

void
addresses_publish(struct fsm *f)
{
	struct addresses *x = f->addresses;
	struct rd r;

	if (x == NULL || !x->noting)
		return;
	r = rd_span_over(buf_span(&x->keys));
	while (!x->keys.failed && rd_left(&r) > 0) {
		uint32_t bytes = rd_u32be(&r);

		describe(f, rd_bytes(&r, bytes), &x->changes);
	}
	pthread_mutex_lock(&x->lock);
	take_changes(x);
	pthread_mutex_unlock(&x->lock);
	empty(&x->keys);
	empty(&x->changes);
}

void
addresses_forget(struct fsm *f)
{
	struct addresses *x = f->addresses;

	if (x == NULL)
		return;
	pthread_mutex_lock(&x->lock);
	forget(x);
	x->too_many = 0;
	pthread_mutex_unlock(&x->lock);
	x->noting = false;
	empty(&x->keys);
}

/* -- by readers: making the index -- */

/* All records of a table that have an address.  False: there is no room, or they cannot be read. */
static bool
load(struct fsm *f, enum tbl table, struct address_index *index)
{
	struct kind kind = kind_of(table);
	uint8_t address[ADDRESS_BYTES];
	struct span key, val, texts[2];
	struct tkey prefix;
	struct tbl_scan s;
	bool good = true;

	tkey_begin(&prefix, table);
	tbl_scan_begin(f, &s, &prefix);
	while (good && tbl_next(&s, &key, &val)) {
		good = read_record(f, &kind, val, texts);
		if (good && address_bytes(texts[1], address))
			good = address_index_set(index, key, address, texts[0]);
	}
	tbl_scan_end(&s);
	return good && f->failed == 0;
}

/* From here on changes are noted.  False: these tables are not the state's any more. */
static bool
begin_noting(struct fsm *r, struct addresses *x)
{
	struct fsm *state = r->owner != NULL ? r->owner : r;
	bool same;

	state_lock(state);			/* between two batches */
	same = r->db == state->db;
	x->noting = x->noting || same;
	pthread_mutex_unlock(&state->lock);
	return same;
}

static uint64_t
records(const struct fsm *f)
{
	return f->tally[FT_NODES] + f->tally[FT_SERVICES];
}

/* Lock held, but not while records are read.  Either it is built then, or the reader has failed, or there was no room. */
static void
build(struct fsm *r, struct addresses *x)
{
	struct address_index *fresh = NULL;
	const struct fsm *state = r->owner != NULL ? r->owner : r;
	size_t room = state->opt.address_bytes != 0 ? state->opt.address_bytes : INDEX_BYTES_MAX;
	unsigned generation = ++x->generation;
	uint64_t played = 0;
	bool same, good;

	x->phase = BUILDING;
	buf_reset(&x->later);
	pthread_mutex_unlock(&x->lock);
	same = begin_noting(r, x);
	good = same && (fresh = address_index_new(room)) != NULL && load(r, TBL_NODE, fresh) && load(r, TBL_SERVICE, fresh);
	pthread_mutex_lock(&x->lock);
	if (x->generation != generation || !same) {
		if (x->generation == generation)
			forget(x);
		if (r->failed == 0)
			r->failed = DB_LOCK_NOTGRANTED;	/* to be asked again, in the tables of now */
	} else if (good && !x->later.failed && play(fresh, buf_span(&x->later), &played)) {
		x->index = fresh;
		fresh = NULL;
		x->phase = BUILT;
		x->ready = true;
		x->unasked = 0;
		x->builds++;
		buf_done(&x->later);
		pthread_cond_broadcast(&x->built);
	} else {
		forget(x);
		if (r->failed == 0)
			x->too_many = records(r) + 1;
	}
	address_index_free(fresh);
}

/* Lock held.  False: there was no room for all, and there are not many less now. */
static bool
is_worth_it(const struct addresses *x, const struct fsm *f)
{
	return x->too_many == 0 || records(f) < x->too_many / 2;
}

bool
fsm_is_at_hand(const struct fsm *f, const struct op *op)
{
	return op->code != OP_CATALOG_ADDRESS || addresses_of(f)->ready;
}

/* -- by readers: asking -- */

/* By the index; false: there is none. */
static bool
find_owner(struct reading *r, const uint8_t address[ADDRESS_BYTES], struct address_owner *owner)
{
	struct addresses *x = addresses_of(r->f);
	struct span key, name;
	bool built;

	pthread_mutex_lock(&x->lock);
	while (x->phase != BUILT && r->f->failed == 0) {
		if (r->f->cached)
			r->f->failed = STORE_UNCACHED;	/* it would have to wait */
		else if (x->phase == BUILDING)
			pthread_cond_wait(&x->built, &x->lock);
		else if (is_worth_it(x, r->f))
			build(r->f, x);
		else
			break;
	}
	built = x->phase == BUILT;
	if (built)
		x->unasked = 0;
	if (built && address_index_find(x->index, address, &key, &name)) {
		name = arena_copy(r->a, name);
		if (key.p[0] == TBL_NODE)
			owner->Node = name;
		else
			owner->Service = name;
	}
	pthread_mutex_unlock(&x->lock);
	return built;
}

/* The name in the first record of a table that has the address, copied; empty: none. */
static struct span
search(struct reading *r, enum tbl table, const uint8_t address[ADDRESS_BYTES])
{
	struct kind kind = kind_of(table);
	uint8_t has[ADDRESS_BYTES];
	struct span key, val, texts[2], found = SPAN_NONE;
	struct tkey prefix;
	struct tbl_scan s;

	tkey_begin(&prefix, table);
	tbl_scan_begin(r->f, &s, &prefix);
	while (found.len == 0 && tbl_next(&s, &key, &val) && read_record(r->f, &kind, val, texts))
		if (address_bytes(texts[1], has) && memcmp(has, address, ADDRESS_BYTES) == 0)
			found = arena_copy(r->a, texts[0]);
	tbl_scan_end(&s);
	return found;
}

static void
search_owner(struct reading *r, const uint8_t address[ADDRESS_BYTES], struct address_owner *owner)
{
	view_need(r->f);
	addresses_of(r->f)->searches++;
	owner->Node = search(r, TBL_NODE, address);
	if (owner->Node.len == 0)
		owner->Service = search(r, TBL_SERVICE, address);
}

static void
catalog_read_address(struct reading *r, const void *rec)
{
	const struct catalog_read *q = rec;
	struct address_owner owner = { .Node = SPAN_NONE };
	uint8_t address[ADDRESS_BYTES];
	size_t at = list_begin(r->out);

	if (address_bytes(q->Name, address) && !find_owner(r, address, &owner) && r->f->failed == 0)
		search_owner(r, address, &owner);
	r->ans->index = fsm_index_of(r->f, FX_NODES) > fsm_index_of(r->f, FX_SERVICES) ? fsm_index_of(r->f, FX_NODES) :
	    fsm_index_of(r->f, FX_SERVICES);
	if (!may_read_node(r, owner.Node))
		owner.Node = SPAN_NONE;
	if (!may_read(r, ACL_SERVICE, owner.Service))
		owner.Service = SPAN_NONE;
	if (owner.Node.len + owner.Service.len > 0)
		schema_pack(&address_owner_schema, &owner, r->out);
	list_end(r->out, at, owner.Node.len + owner.Service.len > 0);
}

const struct fsm_op address_ops[] = {
	{ OP_CATALOG_ADDRESS, .read = catalog_read_address, .one = true },
	{ 0 },
};

void
addresses_info(const struct fsm *f, figure_fn *fn, void *ctx)
{
	struct addresses *x = addresses_of(f);
	struct figure lines[] = {
		{ "addresses", 0 }, { "address_bytes", 0 }, { "address_builds", x->builds }, { "address_searches", x->searches },
	};

	pthread_mutex_lock(&x->lock);
	if (x->phase == BUILT) {
		lines[0].value = address_index_count(x->index);
		lines[1].value = address_index_bytes(x->index);
	}
	pthread_mutex_unlock(&x->lock);
	figures_put(fn, ctx, lines, sizeof(lines) / sizeof(lines[0]));
}
