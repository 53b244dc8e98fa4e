/*
 * Inside of the keys: keyring.c (which keys count, and their changes) and keyring_file.c (what stands on disk).
 * No other file includes this.
 */
#ifndef TV_GOSSIPD_KEYRING_INT_H
#define TV_GOSSIPD_KEYRING_INT_H

#include "common/base/log.h"
#include "common/conf/keys.h"
#include "gossipd/keyring.h"

#define KEYRING_FILE "keyring"
#define KEYRING_SEEN_FILE "keyring.seen"
#define SEEN_MAX 64
#define TEXT_BYTES_MAX 4096		/* of either file: 16 keys, 64 ids */

/* Everything secret, in one locked allocation. */
struct secrets {
	struct seal_ring live, stored;		/* stored: those of `live` that stand in the file, in its order */
	struct seal_ring seed;			/* cluster.key */
	struct seal_ring work, undo;
	char text[TEXT_BYTES_MAX];
};

struct kring {
	struct secrets *s;
	char *seed_path, *dir, *path;
	uint8_t seen[SEEN_MAX][KEY_ID_BYTES];	/* oldest first */
	unsigned seen_count;
	bool seen_changed;
	void (*changed)(void *ctx);
	void *ctx;
	struct key_trouble trouble;
	uint64_t unread;			/* messages that no key opened, since the log told of a stranger */
	struct mono stranger_told_at;		/* when it did; 0: never */
	struct log_limit trouble_limit, write_limit;
};

/* The text of the file `keyring` into an empty ring: NULL, or what is wrong with it. */
const char *keyring_parse(struct span text, struct seal_ring *r);
/* And back, into s->text; its length. */
size_t keyring_print(struct secrets *s, const struct seal_ring *r);
/* The text of `keyring.seen`, added to k->seen. */
void keyring_parse_seen(struct kring *k, const char *text, size_t len);
/* Stores s->work, which then is s->stored.  TV_ESYS with errno. */
enum tv_err keyring_store(struct kring *k);
/* Reads the file into s->stored.  TV_ENOENT: there is none; else one sentence into errbuf. */
enum tv_err keyring_read(struct kring *k, char *errbuf, size_t cap);
/* Reads the ids of keys ever held.  A ring without them was put there by hand: then cluster.key holds nothing new. */
void keyring_load_seen(struct kring *k);
/* Has this node held the key before? */
bool keyring_was_seen(const struct kring *k, struct span key);

#endif
