/*
 * The gossip keys of this node: one ring for both pools, in locked memory and in the file `keyring` of the state
 * directory (a JSON array of base64, as Serf keeps it, the primary key first).
 *
 * cluster.key is where a node gets its first keys from.  From then on the file counts, because keys are rotated over
 * the network.  A key that cluster.key names and this node has never held is still tried, and put in front when it
 * is the first one there: that is how a node that missed a rotation gets the new key.  The ids (not the
 * keys) of all keys ever held stand in `keyring.seen`, so that a cluster.key from before a rotation is not taken for
 * such a new key.
 *
 * A key is written to the file only when it works: a member's packet was opened with it, or an authenticated
 * key query named it.  So the wrong key, given at the first start, is forgotten with the process.
 */
#ifndef TV_GOSSIPD_KEYRING_H
#define TV_GOSSIPD_KEYRING_H

#include "common/base/mono.h"
#include "gossipd/core/wire/seal.h"
#include "gossipd/key_trouble.h"

struct kring;

enum kring_op { KRING_LIST, KRING_INSTALL, KRING_USE, KRING_REMOVE };

/* An empty ring, which means plaintext.  NULL: no locked memory. */
struct kring *kring_new(void);
/* Wipes. */
void kring_free(struct kring *k);
/* With privileges: reads cluster.key.  One sentence into errbuf on failure. */
enum tv_err kring_seed(struct kring *k, const char *cluster_key, char *errbuf, size_t cap);
/*
 * Without: the file in this folder and the keys of kring_seed() become the ring.  A file that cannot be read as it
 * should is an error with a remedy, never plaintext; so is a file without a cluster key (never seeded), unless
 * plaintext_wanted, which leaves the file alone.
 */
enum tv_err kring_open(struct kring *k, const char *dir, bool plaintext_wanted, char *errbuf, size_t cap);
/* Called after the ring was changed. */
void kring_on_change(struct kring *k, void (*changed)(void *ctx), void *ctx);

/* The ring, the same pointer for ever; empty: no encryption. */
const struct seal_ring *kring_ring(const struct kring *k);
/* A packet or stream of another member was opened with the key at this place. */
void kring_opened(struct kring *k, unsigned at);
/* A datagram came from this member that the ring opened; now: monotonic. */
void kring_understood(struct kring *k, const struct addr *from, struct mono now);
/*
 * Something came from this address that no key opens.  Logs it, at most once a minute: as a fault of the sender, or as
 * one of this node when that is what kring_trouble() finds.
 */
void kring_unreadable(struct kring *k, const struct addr *from, enum key_peer peer, struct mono now);
/* As key_trouble_may_judge(). */
bool kring_may_judge(struct kring *k, struct mono now);
/*
 * Carries out an order of the operator or an authenticated key query.  all: no other member is there that could prove
 * the keys, so the whole ring is stored.  On failure nothing is changed and text says why: TV_EINVAL length, TV_ENOENT
 * not in the ring, TV_ECONFLICT primary, TV_ELIMIT full, TV_ESYS the file.
 */
enum tv_err kring_change(struct kring *k, enum kring_op op, struct span key, bool all, char *text, size_t cap);
/*
 * What is wrong with the keys of this node, as one sentence with a remedy: false when nothing is, whatever strangers
 * send (gossipd/key_trouble.h).
 */
bool kring_trouble(const struct kring *k, struct mono now, char *text, size_t cap);
/* How many keys of the ring stand in the file. */
unsigned kring_stored(const struct kring *k);

#endif
