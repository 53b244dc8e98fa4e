/*
 * What secrets give, compiled and kept.
 *
 * An entry of the table holds no secret: it is found by a hash with a key of this process.  It is good as long as nothing of access
 * control has changed since the index that it was resolved at, and the token has not expired; then the state is asked again.  Tokens
 * with the same policies and the same identities share one compiled set.  It is known by the text of the rules, not by the index of
 * the policy: another cluster's archive may bring the same policy with other rules at the same index.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "common/base/map.h"
#include "raftd/fsm/acl/acl_int.h"

#define ENTRIES_MAX 16384u		/* the one that was asked for longest ago makes room */
#define KEY_BYTES crypto_shorthash_siphashx24_BYTES	/* of a secret's keyed hash: 128 bits that no one outside can choose */
#define PRINT_BYTES 32

/* A compiled set, shared. */
struct rules_of {
	struct map_node node;
	uint8_t print[PRINT_BYTES];	/* of what it was compiled from */
	struct acl_set *set;
	unsigned users;			/* under the table's lock */
};

struct fsm_rights {
	_Atomic unsigned refs;
	struct acl_rights_table *table;
	struct rules_of *rules;
	uint64_t index;			/* of access control, when it was resolved */
	int64_t expires;
	int64_t changed;		/* when this secret was seen to give another set than before; 0: never */
	char accessor[37];
	bool local;
};

struct entry {
	struct map_node node;
	TAILQ_ENTRY(entry) used;
	uint8_t key[KEY_BYTES];
	struct fsm_rights *rights;
};

struct acl_rights_table {
	_Atomic unsigned users;		/* the state, and all rights that it gave */
	pthread_mutex_t lock;
	uint8_t key[crypto_shorthash_siphashx24_KEYBYTES];
	struct map entries, rules;	/* by the first bytes of what are hashes already */
	TAILQ_HEAD(entries_used, entry) used;	/* the one asked for last first */
	uint64_t set_bytes;
	_Atomic uint64_t hits, resolved;
};

struct acl_rights_table *
acl_rights_table_new(void)
{
	struct acl_rights_table *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->users = 1;
	pthread_mutex_init(&t->lock, NULL);
	TAILQ_INIT(&t->used);
	randombytes_buf(t->key, sizeof(t->key));
	return t;
}

static uint64_t
hash_of(const uint8_t *hash)
{
	uint64_t first;

	memcpy(&first, hash, sizeof(first));
	return first;
}

/* -- compiled sets; the table's lock held -- */

static struct rules_of *
find_rules(struct acl_rights_table *t, const uint8_t print[PRINT_BYTES])
{
	struct rules_of *s;

	MAP_FOREACH_HASH(s, &t->rules, hash_of(print), node)
		if (memcmp(s->print, print, PRINT_BYTES) == 0)
			return s;
	return NULL;
}

static void
drop_rules(struct acl_rights_table *t, struct rules_of *s)
{
	if (--s->users > 0)
		return;
	map_remove(&t->rules, &s->node);
	t->set_bytes -= acl_set_bytes(s->set);
	acl_set_free(s->set);
	free(s);
}

/* -- rights -- */

static void
let_go(struct acl_rights_table *t)
{
	if (--t->users > 0)
		return;
	pthread_mutex_destroy(&t->lock);
	sodium_memzero(t->key, sizeof(t->key));
	map_done(&t->entries);
	map_done(&t->rules);
	free(t);
}

static struct fsm_rights *
rights_ref(struct fsm_rights *r)
{
	r->refs++;
	return r;
}

void
fsm_rights_free(const struct fsm_rights *const_r)
{
	struct fsm_rights *r = (struct fsm_rights *)(uintptr_t)const_r;
	struct acl_rights_table *t;

	if (r == NULL || --r->refs > 0)
		return;
	t = r->table;
	pthread_mutex_lock(&t->lock);
	drop_rules(t, r->rules);
	pthread_mutex_unlock(&t->lock);
	free(r);
	let_go(t);
}

const struct acl_set *
fsm_rights_set(const struct fsm_rights *r)
{
	return r->rules->set;
}

int64_t
fsm_rights_expires(const struct fsm_rights *r)
{
	return r->expires;
}

int64_t
fsm_rights_changed(const struct fsm_rights *r)
{
	return r->changed;
}

uint64_t
fsm_rights_index(const struct fsm_rights *r)
{
	return r->index;
}

const char *
fsm_rights_accessor(const struct fsm_rights *r)
{
	return r->accessor;
}

/* -- the table -- */

static void
hash_secret(const struct acl_rights_table *t, struct span secret, uint8_t out[KEY_BYTES])
{
	(void)crypto_shorthash_siphashx24(out, secret.p, secret.len, t->key);	/* cannot fail */
}

/* Lock held. */
static struct entry *
find_entry(struct acl_rights_table *t, const uint8_t key[KEY_BYTES])
{
	struct entry *e;

	MAP_FOREACH_HASH(e, &t->entries, hash_of(key), node)
		if (memcmp(e->key, key, KEY_BYTES) == 0)
			return e;
	return NULL;
}

/* Lock held; gives back what the entry held, to be freed without the lock. */
static struct fsm_rights *
remove_entry(struct acl_rights_table *t, struct entry *e)
{
	struct fsm_rights *r = e->rights;

	map_remove(&t->entries, &e->node);
	TAILQ_REMOVE(&t->used, e, used);
	free(e);
	return r;
}

static struct fsm_rights *
find_known(struct acl_rights_table *t, const uint8_t key[KEY_BYTES], uint64_t index, int64_t now)
{
	struct fsm_rights *r = NULL;
	struct entry *e;

	pthread_mutex_lock(&t->lock);
	e = find_entry(t, key);
	if (e != NULL && e->rights->index >= index && (e->rights->expires == 0 || now < e->rights->expires)) {
		r = rights_ref(e->rights);
		if (TAILQ_FIRST(&t->used) != e) {
			TAILQ_REMOVE(&t->used, e, used);
			TAILQ_INSERT_HEAD(&t->used, e, used);
		}
	}
	pthread_mutex_unlock(&t->lock);
	if (r != NULL)
		t->hits++;
	return r;
}

/* Without memory it is not kept. */
static void
store_known(struct acl_rights_table *t, const uint8_t key[KEY_BYTES], struct fsm_rights *r, int64_t now)
{
	struct entry *e, *fresh = calloc(1, sizeof(*fresh));
	struct fsm_rights *old = NULL;

	if (fresh == NULL)
		return;
	memcpy(fresh->key, key, KEY_BYTES);
	fresh->rights = rights_ref(r);
	pthread_mutex_lock(&t->lock);
	e = find_entry(t, key);
	if (e != NULL)
		r->changed = e->rights->rules != r->rules ? now : e->rights->changed;
	if (e == NULL && t->entries.count >= ENTRIES_MAX)
		e = TAILQ_LAST(&t->used, entries_used);
	if (e != NULL)
		old = remove_entry(t, e);
	map_add(&t->entries, &fresh->node, hash_of(key));
	TAILQ_INSERT_HEAD(&t->used, fresh, used);
	pthread_mutex_unlock(&t->lock);
	fsm_rights_free(old);
}

static void
forget(struct acl_rights_table *t, const uint8_t key[KEY_BYTES])
{
	struct fsm_rights *old = NULL;
	struct entry *e;

	pthread_mutex_lock(&t->lock);
	e = find_entry(t, key);
	if (e != NULL)
		old = remove_entry(t, e);
	pthread_mutex_unlock(&t->lock);
	fsm_rights_free(old);
}

void
acl_rights_table_free(struct acl_rights_table *t)
{
	struct entry *e;

	if (t == NULL)
		return;
	while ((e = TAILQ_FIRST(&t->used)) != NULL)
		fsm_rights_free(remove_entry(t, e));
	let_go(t);
}

/* -- compiling -- */

static void
print_text(crypto_generichash_state *h, struct span text)
{
	uint64_t len = text.len;

	(void)crypto_generichash_update(h, (const uint8_t *)&len, sizeof(len));
	(void)crypto_generichash_update(h, text.p, text.len);
}

static void
fingerprint(const struct fsm_acl *from, bool allow, uint8_t out[PRINT_BYTES])
{
	crypto_generichash_state h;
	const uint32_t counts[] = { from->policy_count, from->service_count, from->node_count, allow };

	(void)crypto_generichash_init(&h, NULL, 0, PRINT_BYTES);
	(void)crypto_generichash_update(&h, (const uint8_t *)counts, sizeof(counts));
	for (uint32_t i = 0; i < from->policy_count; i++) {
		print_text(&h, from->policies[i].id);
		print_text(&h, from->policies[i].rules);
	}
	for (uint32_t i = 0; i < from->service_count; i++)
		print_text(&h, from->services[i]);
	for (uint32_t i = 0; i < from->node_count; i++)
		print_text(&h, from->nodes[i]);
	(void)crypto_generichash_final(&h, out, PRINT_BYTES);
}

/* Rules that cannot be read any more give nothing at all: no policy is stored without having been read. */
static enum tv_err
compile(const struct fsm_acl *from, bool allow, struct acl_set **out)
{
	uint32_t n = 0, all = from->policy_count + from->service_count + from->node_count;
	struct acl_rules **lists = calloc(all == 0 ? 1 : all, sizeof(*lists));
	struct buf why = BUF_INIT(4096);
	enum tv_err err = lists == NULL ? TV_ENOMEM : TV_OK;

	for (uint32_t i = 0; err == TV_OK && i < from->policy_count; i++, n++)
		err = acl_rules_parse(from->policies[i].rules, &lists[n], &why);
	for (uint32_t i = 0; err == TV_OK && i < from->service_count; i++, n++)
		err = (lists[n] = acl_identity_service(from->services[i])) == NULL ? TV_ENOMEM : TV_OK;
	for (uint32_t i = 0; err == TV_OK && i < from->node_count; i++, n++)
		err = (lists[n] = acl_identity_node(from->nodes[i])) == NULL ? TV_ENOMEM : TV_OK;
	if (err == TV_OK)
		err = acl_set_new((const struct acl_rules *const *)lists, n, allow, out);
	for (uint32_t i = 0; lists != NULL && i < all; i++)
		acl_rules_free(lists[i]);
	free(lists);
	buf_done(&why);
	return err;
}

/* One that is there already, or a new one; it has one user more. */
static enum tv_err
rules_for(struct acl_rights_table *t, const struct fsm_acl *from, bool allow, struct rules_of **out)
{
	uint8_t print[PRINT_BYTES];
	struct acl_set *set = NULL;
	struct rules_of *s, *fresh;
	enum tv_err err;

	fingerprint(from, allow, print);
	pthread_mutex_lock(&t->lock);
	s = find_rules(t, print);
	if (s != NULL)
		s->users++;
	pthread_mutex_unlock(&t->lock);
	*out = s;
	if (s != NULL)
		return TV_OK;
	fresh = calloc(1, sizeof(*fresh));
	err = fresh == NULL ? TV_ENOMEM : compile(from, allow, &set);
	if (err != TV_OK) {
		free(fresh);
		return err;
	}
	memcpy(fresh->print, print, PRINT_BYTES);
	fresh->set = set;
	pthread_mutex_lock(&t->lock);
	s = find_rules(t, print);		/* another thread may have been faster */
	if (s == NULL) {
		map_add(&t->rules, &fresh->node, hash_of(print));
		t->set_bytes += acl_set_bytes(set);
		s = fresh;
	}
	s->users++;
	pthread_mutex_unlock(&t->lock);
	if (s != fresh) {
		acl_set_free(fresh->set);
		free(fresh);
	}
	*out = s;
	return TV_OK;
}

static enum tv_err
rights_new(struct acl_rights_table *t, const struct fsm_acl *from, bool allow, struct fsm_rights **out)
{
	struct fsm_rights *r = calloc(1, sizeof(*r));
	enum tv_err err = r == NULL ? TV_ENOMEM : rules_for(t, from, allow, &r->rules);

	*out = NULL;
	if (err != TV_OK) {
		free(r);
		return err;
	}
	r->refs = 1;
	r->table = t;
	t->users++;
	r->index = from->index;
	r->expires = from->expires;
	memcpy(r->accessor, from->accessor, sizeof(r->accessor));
	r->local = from->local;
	*out = r;
	return TV_OK;
}

/* -- asking -- */

static const struct fsm *
state_of(const struct fsm *f)
{
	return f->owner != NULL ? f->owner : f;
}

enum tv_err
fsm_rights_known(const struct fsm *f, struct span secret, int64_t now, const struct fsm_rights **out)
{
	const struct fsm *state = state_of(f);
	uint8_t key[KEY_BYTES];

	*out = NULL;
	if (fsm_acl_since(state) == 0)
		return TV_OK;
	hash_secret(state->rights, secret, key);
	*out = find_known(state->rights, key, fsm_acl_index(state), now);
	return *out != NULL ? TV_OK : TV_EAGAIN;
}

enum tv_err
fsm_rights_get(struct fsm *f, struct span secret, int64_t now, const struct fsm_rights **out)
{
	struct acl_rights_table *t = state_of(f)->rights;
	enum tv_err err = fsm_rights_known(f, secret, now, out);
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct fsm_rights *r = NULL;
	uint8_t key[KEY_BYTES];
	struct fsm_acl what;

	if (err != TV_EAGAIN)
		return err;
	hash_secret(t, secret, key);
	err = fsm_acl_resolve(f, secret, now, &a, &what);
	if (err == TV_OK)
		err = rights_new(t, &what, f->opt.acl_default_allow, &r);
	if (err == TV_OK) {
		store_known(t, key, r, now);
		t->resolved++;
	} else if (err == TV_ENOENT) {
		forget(t, key);
	} else if (err == TV_EDISABLED) {
		err = TV_EAGAIN;		/* it has just begun: a state that does not have it yet is not to be asked */
	}
	*out = r;
	arena_wipe(&a);
	arena_done(&a);
	return err;
}

void
fsm_rights_info(const struct fsm *f, figure_fn *fn, void *ctx)
{
	struct acl_rights_table *t = state_of(f)->rights;
	struct figure lines[] = {
		{ "acl_rights_kept", 0 }, { "acl_rule_sets", 0 }, { "acl_rule_set_bytes", 0 },
		{ "acl_rights_resolved", t->resolved }, { "acl_rights_from_memory", t->hits },
	};

	pthread_mutex_lock(&t->lock);
	lines[0].value = t->entries.count;
	lines[1].value = t->rules.count;
	lines[2].value = t->set_bytes;
	pthread_mutex_unlock(&t->lock);
	figures_put(fn, ctx, lines, sizeof(lines) / sizeof(lines[0]));
}
