/* The gossip keys of this node; see keyring.h. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gossipd/keyring_int.h"
#include "gossipd/net.h"

#define UNREAD_LINE_PERIOD MONO_S(60)	/* of lines about strangers, and about ourselves */

_Static_assert(SEAL_KEYS_MAX == KEYRING_KEYS_MAX, "cluster.key holds as many keys as a ring");

struct kring *
kring_new(void)
{
	struct kring *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return NULL;
	k->s = sodium_malloc(sizeof(*k->s));
	if (k->s == NULL) {
		free(k);
		return NULL;
	}
	sodium_memzero(k->s, sizeof(*k->s));
	k->trouble_limit = (struct log_limit){ .burst = 1, .period = UNREAD_LINE_PERIOD };
	k->write_limit = (struct log_limit){ .burst = 1, .period = MONO_S(10) };
	return k;
}

void
kring_free(struct kring *k)
{
	if (k == NULL)
		return;
	sodium_free(k->s);
	free(k->seed_path);
	free(k->dir);
	free(k->path);
	free(k);
}

const struct seal_ring *
kring_ring(const struct kring *k)
{
	return &k->s->live;
}

unsigned
kring_stored(const struct kring *k)
{
	return k->s->stored.count;
}

void
kring_on_change(struct kring *k, void (*changed)(void *ctx), void *ctx)
{
	k->changed = changed;
	k->ctx = ctx;
}

static bool
holds(const struct seal_ring *r, struct span key)
{
	return seal_ring_find(r, key) < r->count;
}

/* The part of the ring that may be stored: what is stored already, and this key; or all of it. */
static void
select_proven(struct kring *k, struct span key, bool all)
{
	struct secrets *s = k->s;

	seal_ring_wipe(&s->work);
	for (unsigned i = 0; i < s->live.count; i++) {
		struct span one = seal_key_at(&s->live, i);

		if (all || holds(&s->stored, one) || (one.len == key.len && sodium_memcmp(one.p, key.p, key.len) == 0))
			(void)seal_ring_add(&s->work, one);	/* as many as there were */
	}
}

/* -- start ---------------------------------------------------------------------------- */

enum tv_err
kring_seed(struct kring *k, const char *cluster_key, char *errbuf, size_t cap)
{
	struct keyring keys;
	enum tv_err err = keyring_load(cluster_key, &keys, errbuf, cap);

	if (err != TV_OK)
		return err;
	for (unsigned i = 0; i < keys.count; i++)
		(void)seal_ring_add(&k->s->seed, span_of(keys.keys[i].bytes, keys.lens[i]));	/* it fits */
	keyring_wipe(&keys);
	k->seed_path = strdup(cluster_key);
	if (k->seed_path != NULL)
		return TV_OK;
	return tv_fail(errbuf, cap, TV_ENOMEM, "out of memory");
}

/* A key of cluster.key that the file does not have. */
static void
try_seed(struct kring *k, unsigned at)
{
	struct secrets *s = k->s;
	struct span key = seal_key_at(&s->seed, at);
	char id[KEY_ID_TEXT_BYTES];

	key_id_text(key, id);
	if (keyring_was_seen(k, key)) {
		log_info("keyring", "%s still holds key %s, which was rotated out: %s takes precedence; new nodes "
		    "need the new key there", k->seed_path, id, k->path);
	} else if (seal_ring_add(&s->live, key) != TV_OK) {
		log_warn("keyring", "key %s of %s is ignored: the keyring is full", id, k->seed_path);
	} else if (at > 0) {
		log_info("keyring", "key %s of %s is new to this node: used for decryption only, and saved once a "
		    "member has used it", id,
		    k->seed_path);
	} else {
		(void)seal_ring_use(&s->live, key);	/* it is there */
		log_warn("keyring", "%s begins with key %s, which is new to this node: it becomes the primary key, "
		    "and is saved once a member has used it; if it is wrong, correct the file and restart",
		    k->seed_path, id);
	}
}

static enum tv_err
set_paths(struct kring *k, const char *dir, char *errbuf, size_t cap)
{
	char path[4096 + 16];

	snprintf(path, sizeof(path), "%s/%s", dir, KEYRING_FILE);
	k->dir = strdup(dir);
	k->path = strdup(path);
	if (k->dir != NULL && k->path != NULL)
		return TV_OK;
	return tv_fail(errbuf, cap, TV_ENOMEM, "out of memory");
}

enum tv_err
kring_open(struct kring *k, const char *dir, bool plaintext_wanted, char *errbuf, size_t cap)
{
	struct secrets *s = k->s;
	enum tv_err err = set_paths(k, dir, errbuf, cap);

	if (err != TV_OK)
		return err;
	if (s->seed.count == 0) {
		if (plaintext_wanted || access(k->path, F_OK) != 0)
			return TV_OK;
		return tv_fail(errbuf, cap, TV_EPERM, "%s exists, but there is no cluster key: this node used "
		    "encryption and would now send plaintext. Restore cluster.key, or set encryption = \"off\" in "
		    "cluster.conf", k->path);
	}
	err = keyring_read(k, errbuf, cap);
	if (err == TV_ENOENT) {
		s->live = s->seed;
		return TV_OK;
	}
	if (err != TV_OK)
		return err;
	keyring_load_seen(k);
	s->live = s->stored;
	for (unsigned i = 0; i < s->seed.count; i++)
		if (!holds(&s->stored, seal_key_at(&s->seed, i)))
			try_seed(k, i);
	return TV_OK;
}

/* -- life ------------------------------------------------------------------------------- */

void
kring_opened(struct kring *k, unsigned at)
{
	struct secrets *s = k->s;
	struct span key;
	char id[KEY_ID_TEXT_BYTES];

	if (s->stored.count == s->live.count || at >= s->live.count)
		return;
	key = seal_key_at(&s->live, at);
	if (holds(&s->stored, key))
		return;
	select_proven(k, key, false);
	if (keyring_store(k) == TV_OK)
		log_info("keyring", "key %s verified: saved in %s", key_id_text(key, id), k->path);
	else if (log_allow(&k->write_limit, "keyring"))
		log_err("keyring", "%s: %s; the keys will be lost at a restart", k->path, strerror(errno));
}

/* Why not; NULL: done, in memory. */
static enum tv_err
apply(struct secrets *s, enum kring_op op, struct span key, char *text, size_t cap)
{
	enum tv_err err = op == KRING_INSTALL ? seal_ring_add(&s->live, key) :
	    op == KRING_USE ? seal_ring_use(&s->live, key) : seal_ring_remove(&s->live, key);

	if (err == TV_EINVAL)
		snprintf(text, cap, "key size must be 16, 24 or 32 bytes");
	else if (err == TV_ELIMIT)
		snprintf(text, cap, "the keyring is full: remove a key that is no longer used");
	else if (err == TV_ENOENT)
		snprintf(text, cap, "requested key is not in the keyring");
	else if (err == TV_ECONFLICT)
		snprintf(text, cap, "Removing the primary key is not allowed");
	return err;
}

static bool
same_ring(const struct seal_ring *a, const struct seal_ring *b)
{
	return a->count == b->count && sodium_memcmp(a->keys, b->keys, a->count * sizeof(a->keys[0])) == 0;
}

static void
log_change(enum kring_op op, struct span key, const struct seal_ring *r)
{
	static const char *const verbs[] = {
		[KRING_INSTALL] = "installed", [KRING_USE] = "is the primary key", [KRING_REMOVE] = "removed",
	};
	char id[KEY_ID_TEXT_BYTES];

	log_info("keyring", "key %s %s; %u key%s in the ring", key_id_text(key, id), verbs[op], r->count,
	    r->count == 1 ? "" : "s");
}

enum tv_err
kring_change(struct kring *k, enum kring_op op, struct span key, bool all, char *text, size_t cap)
{
	struct secrets *s = k->s;
	enum tv_err err;

	if (s->live.count == 0)
		return tv_fail(text, cap, TV_EPERM, "No keyring available (encryption not enabled)");
	s->undo = s->live;
	err = apply(s, op, key, text, cap);
	if (err == TV_OK) {
		select_proven(k, key, all);
		if (same_ring(&s->live, &s->undo) && same_ring(&s->work, &s->stored))
			return TV_OK;	/* the other pool has asked for it already */
		err = keyring_store(k);
		if (err != TV_OK)
			snprintf(text, cap, "%s: %s", k->path, strerror(errno));
	}
	if (err != TV_OK)
		s->live = s->undo;
	seal_ring_wipe(&s->undo);	/* a removed key is gone */
	if (err != TV_OK)
		return err;
	log_change(op, key, &s->live);
	if (k->changed != NULL)
		k->changed(k->ctx);
	return TV_OK;
}

/* -- trouble ------------------------------------------------------------------------------ */

void
kring_understood(struct kring *k, const struct addr *from, struct mono now)
{
	key_trouble_understood(&k->trouble, from, now);
}

bool
kring_may_judge(struct kring *k, struct mono now)
{
	return key_trouble_may_judge(&k->trouble, now);
}

static void
log_stranger(struct kring *k, const struct addr *from, struct mono now)
{
	char ip[NET_TEXT_BYTES];

	if (k->stranger_told_at.ns != 0 && mono_before(now, mono_add(k->stranger_told_at, UNREAD_LINE_PERIOD)))
		return;
	if (k->s->live.count == 0)
		log_warn("keyring", "%s sends encrypted messages, and this node has no keys (messages dropped since "
		    "the last such line, from any address: %" PRIu64 ")", net_ip(from, ip), k->unread);
	else
		log_warn("keyring", "%s has another key, or none (messages dropped since the last such line, from "
		    "any address: %" PRIu64 ")", net_ip(from, ip), k->unread);
	k->stranger_told_at = now;
	k->unread = 0;
}

void
kring_unreadable(struct kring *k, const struct addr *from, enum key_peer peer, struct mono now)
{
	char text[1024];

	key_trouble_unread(&k->trouble, from, peer, now);
	k->unread++;
	if (!kring_trouble(k, now, text, sizeof(text)))
		log_stranger(k, from, now);
	else if (log_allow(&k->trouble_limit, "keyring"))
		log_warn("keyring", "%s", text);
}

bool
kring_trouble(const struct kring *k, struct mono now, char *text, size_t cap)
{
	char id[KEY_ID_TEXT_BYTES], from[NET_TEXT_BYTES];
	struct addr addr;
	bool some;

	if (k->s->live.count == 0 || !key_trouble_alone(&k->trouble, now, &addr, &some))
		return false;
	key_id_text(seal_key_at(&k->s->live, 0), id);
	snprintf(text, cap, "%s: the keys of this node (primary %s) cannot decrypt messages from %s. If this node "
	    "missed a rotation, take the new key from a healthy one (clusterctl keyring export), make it the first "
	    "line of %s and restart gossipd here; while others still hold %s, clusterctl keyring install there "
	    "reaches this node too",
	    some ? "messages of most members cannot be decrypted" : "messages of no member can be decrypted",
	    id, net_text(&addr, from), k->seed_path, id);
	return true;
}
