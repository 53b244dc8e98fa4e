/*
 * Secrets on disk and in memory.
 *
 * cluster.key   one or more lines of base64 of 32, 24 or 16 bytes (keygen makes 32).  First line is the primary key.
 * server.key    one line: base64 of the 32-byte X25519 secret; its public half stands in
 * server.pub    one line: base64 of 32 bytes; on every node.
 * Lines that start with '#' are comments.
 *
 * Files must be regular, not links, and neither writable nor (for secrets) readable by others;
 * a violation is an error that names the file and the command that mends it (S208).
 */
#ifndef TV_KEYS_H
#define TV_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/rd.h"

#define KEY_BYTES 32
#define KEY_ID_BYTES 8
#define KEYRING_KEYS_MAX 16
#define KEY_BASE64_BYTES 44		/* of the longest key, without a zero byte */
#define KEY_ID_TEXT_BYTES (2 * KEY_ID_BYTES + 1)

struct key {
	uint8_t bytes[KEY_BYTES];
};

struct keyring {
	struct key *keys;	/* locked memory (sodium_malloc); keys[0] is primary */
	uint8_t lens[KEYRING_KEYS_MAX];	/* 16, 24 or 32 bytes each */
	unsigned count;
};

struct server_keys {
	uint8_t *secret;	/* locked memory, or NULL on a client */
	uint8_t pub[KEY_BYTES];
};

/* First 8 bytes of BLAKE2b("triumvir key id" || key): names a key without telling it.  key_id() is of 32 bytes. */
void key_id(const uint8_t key[KEY_BYTES], uint8_t id[KEY_ID_BYTES]);
void key_id_of(struct span key, uint8_t id[KEY_ID_BYTES]);
/* The id of key_id_of() in hexadecimal: how people and logs name a key. */
const char *key_id_text(struct span key, char text[KEY_ID_TEXT_BYTES]);
/* base64 of 16, 24 or 32 bytes into key, *len of them; false for anything else. */
bool key_decode(struct span text, uint8_t key[KEY_BYTES], uint8_t *len);
/* PSK of the rpc links, of a cluster key of any length: BLAKE2b-256 keyed hash, context "triumvir link psk". */
void cluster_link_psk(struct span key, uint8_t psk[KEY_BYTES]);
/*
 * The text of a secret file, checked as above, in locked memory that the caller gives to sodium_free.
 * TV_ENOENT without a file; errbuf gets one sentence on failure.
 */
enum tv_err secret_read(const char *path, char **text, size_t *len, char *errbuf, size_t cap);
/* Reads a key file into a fresh ring.  errbuf gets one sentence on failure. */
enum tv_err keyring_load(const char *path, struct keyring *ring, char *errbuf, size_t cap);
void keyring_wipe(struct keyring *ring);
/* need_secret: also read server.key; the pair must match. */
enum tv_err server_keys_load(const char *secret_path, const char *pub_path, bool need_secret,
    struct server_keys *out, char *errbuf, size_t cap);
void server_keys_wipe(struct server_keys *k);
/* PSK of raft links, derived from the server secret: BLAKE2b-256 keyed hash, context "triumvir raft psk". */
void server_raft_psk(const struct server_keys *k, uint8_t psk[KEY_BYTES]);
/* Writes fresh key files into dir (0600, server.pub 0644); refuses to overwrite. */
enum tv_err keys_generate(const char *dir, char *errbuf, size_t cap);

#endif
