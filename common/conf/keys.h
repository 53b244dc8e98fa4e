/*
 * Secrets on disk and in memory.
 *
 * cluster.key   one or more lines of base64 of 32, 24 or 16 bytes (keygen makes 32).  First line is the primary key.
 * server.key    one line: base64 of 32 bytes, from which the secrets of the servers' links are derived; further lines
 *               are accepted beside the first while it is replaced.
 * server.pub    one line: base64 of 32 bytes, the public half of the rpc secret of a line there; on every node.
 * Lines that start with '#' are comments.
 *
 * No daemon keeps what stands in server.key: rpcd keeps the static secret of its links, raftd the psk of its own, each
 * derived one way, so that who takes one of them over is not the other.
 *
 * Files must be regular, not links, and neither writable nor (for secrets) readable by others;
 * a violation is an error that names the file and the command that mends it (S208).
 */
#ifndef TV_COMMON_CONF_KEYS_H
#define TV_COMMON_CONF_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/base/rd.h"

#define KEY_BYTES 32
#define KEY_ID_BYTES 8
#define KEYRING_KEYS_MAX 16
#define SERVER_KEYS_MAX 4		/* lines of server.key */
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

struct key_pair {		/* X25519 */
	uint8_t secret[KEY_BYTES], pub[KEY_BYTES];
};

/* What is derived from server.key, a row for each line of the file.  In locked memory; NULL unless asked for. */
struct server_keys {
	struct key_pair *rpc;	/* rpcd proves by one of them that it is a server's */
	struct key *raft;	/* psks of the raft links; the first one dials */
	unsigned count;
	uint8_t pub[KEY_BYTES];	/* server.pub: the servers that rpcd dials have it; not for SERVER_RAFT */
};

enum server_part { SERVER_CLIENT, SERVER_RPC, SERVER_RAFT };

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
/*
 * SERVER_CLIENT reads server.pub, SERVER_RAFT server.key, SERVER_RPC both, which must belong together (pub_path NULL:
 * server.key alone).  The derived secrets of that part only are in *out; what stands in the file was wiped.  errbuf
 * gets one sentence on failure.
 */
enum tv_err server_keys_load(const char *secret_path, const char *pub_path, enum server_part part,
    struct server_keys *out, char *errbuf, size_t cap);
void server_keys_wipe(struct server_keys *k);
/* Of a line of server.key, by BLAKE2b-256 keyed with it: contexts "triumvir rpc static" and "triumvir raft psk". */
void server_rpc_pair(const uint8_t key[KEY_BYTES], struct key_pair *pair);
void server_raft_psk(const uint8_t key[KEY_BYTES], uint8_t psk[KEY_BYTES]);
/* Overwrites what calls that have returned may have left of secrets on this thread's stack. */
void keys_wipe_stack(void);
/* Writes fresh key files into dir (0600, server.pub 0644); refuses to overwrite. */
enum tv_err keys_generate(const char *dir, char *errbuf, size_t cap);
/* Writes dir/server.pub anew from the first line of dir/server.key; it replaces one that is there. */
enum tv_err keys_derive_pub(const char *dir, char *errbuf, size_t cap);

#endif
