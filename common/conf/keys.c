/*
 * Key files.  Text of secrets lives in libsodium's locked, guarded memory from the read(2) on and is
 * wiped on every path; messages name files, lines and modes, never contents.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/dirs.h"
#include "common/base/rd.h"
#include "common/conf/keys.h"

#define KEY_FILE_BYTES_MAX 8192		/* sixteen keys and plenty of comments */
#define STACK_BYTES 32768		/* more than hashing and scalar multiplication use */

void
key_id_of(struct span key, uint8_t id[KEY_ID_BYTES])
{
	static const char context[] = "triumvir key id";
	crypto_generichash_state st;
	uint8_t hash[32];

	crypto_generichash_init(&st, NULL, 0, sizeof(hash));
	crypto_generichash_update(&st, (const uint8_t *)context, sizeof(context) - 1);
	crypto_generichash_update(&st, key.p, key.len);
	crypto_generichash_final(&st, hash, sizeof(hash));
	memcpy(id, hash, KEY_ID_BYTES);
	sodium_memzero(&st, sizeof(st));
	sodium_memzero(hash, sizeof(hash));
}

void
key_id(const uint8_t key[KEY_BYTES], uint8_t id[KEY_ID_BYTES])
{
	key_id_of(span_of(key, KEY_BYTES), id);
}

const char *
key_id_text(struct span key, char text[KEY_ID_TEXT_BYTES])
{
	uint8_t id[KEY_ID_BYTES];

	key_id_of(key, id);
	return sodium_bin2hex(text, KEY_ID_TEXT_BYTES, id, sizeof(id));
}

static enum tv_err
check_stat(const char *path, const struct stat *st, bool secret, char *errbuf, size_t cap)
{
	char parent[4096];

	if (!S_ISREG(st->st_mode))
		return tv_fail(errbuf, cap, TV_EPERM, "%s: is not a regular file", path);
	if (st->st_nlink != 1)
		return tv_fail(errbuf, cap, TV_EPERM, "%s: has a second name (hard link): copy it to a file of its own",
		    path);
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return tv_fail(errbuf, cap, TV_EPERM, "%s: belongs to uid %u: chown root %s", path,
		    (unsigned)st->st_uid, path);
	if (secret && (st->st_mode & 077))
		return tv_fail(errbuf, cap, TV_EPERM, "%s: is accessible to others (mode %04o): chmod 600 %s", path,
		    (unsigned)(st->st_mode & 07777), path);
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return tv_fail(errbuf, cap, TV_EPERM, "%s: is writable by others (mode %04o): chmod 644 %s", path,
		    (unsigned)(st->st_mode & 07777), path);
	if (st->st_size > KEY_FILE_BYTES_MAX)
		return tv_fail(errbuf, cap, TV_ELIMIT, "%s: is larger than %d bytes", path, KEY_FILE_BYTES_MAX);
	if (dirs_parent_open(path, parent, sizeof(parent)))
		return tv_fail(errbuf, cap, TV_EPERM, "%s: its folder is writable by everybody: chmod o-w %s", path,
		    parent);
	return TV_OK;
}

static enum tv_err
open_checked(const char *path, bool secret, int *fd, char *errbuf, size_t cap)
{
	struct stat st;
	enum tv_err err;

	*fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (*fd < 0 && errno == ELOOP)
		return tv_fail(errbuf, cap, TV_EPERM, "%s: is a symbolic link: put the file itself there", path);
	if (*fd < 0)
		return tv_fail(errbuf, cap, errno == ENOENT ? TV_ENOENT : TV_ESYS, "%s: %s", path, strerror(errno));
	err = fstat(*fd, &st) == 0 ? check_stat(path, &st, secret, errbuf, cap) :
	    tv_fail(errbuf, cap, TV_ESYS, "%s: %s", path, strerror(errno));
	if (err != TV_OK)
		close(*fd);
	return err;
}

/* Reads the file into locked memory; the caller gives it to sodium_free. */
static enum tv_err
read_file(const char *path, bool secret, char **text, size_t *len, char *errbuf, size_t cap)
{
	enum tv_err err;
	ssize_t n = 1;
	int fd;

	if (sodium_init() < 0)
		return tv_fail(errbuf, cap, TV_ESYS, "libsodium cannot start: no source of random numbers");
	err = open_checked(path, secret, &fd, errbuf, cap);
	if (err != TV_OK)
		return err;
	*len = 0;
	*text = sodium_malloc(KEY_FILE_BYTES_MAX);
	if (*text == NULL) {
		close(fd);
		return tv_fail(errbuf, cap, TV_ENOMEM, "%s: out of memory", path);
	}
	while (n > 0 && *len < KEY_FILE_BYTES_MAX) {
		n = read(fd, *text + *len, KEY_FILE_BYTES_MAX - *len);
		if (n > 0)
			*len += (size_t)n;
	}
	if (n < 0) {
		err = tv_fail(errbuf, cap, TV_ESYS, "%s: %s", path, strerror(errno));
		sodium_free(*text);
		*text = NULL;
	}
	close(fd);
	return err;
}

static struct span
trimmed(const char *from, const char *end)
{
	while (from < end && (*from == ' ' || *from == '\t'))
		from++;
	while (end > from && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
		end--;
	return span_of(from, (size_t)(end - from));
}

bool
key_decode(struct span text, uint8_t key[KEY_BYTES], uint8_t *len)
{
	const char *stop = NULL;
	size_t n = 0;

	if (text.len > KEY_BASE64_BYTES || sodium_base642bin(key, KEY_BYTES, (const char *)text.p, text.len, NULL, &n,
	    &stop, sodium_base64_VARIANT_ORIGINAL) != 0 || stop != (const char *)text.p + text.len)
		return false;
	*len = (uint8_t)n;
	return n == 16 || n == 24 || n == 32;
}

/* The keys of a text, at most max, into keys; lens NULL: all must have 32 bytes. */
static enum tv_err
parse_keys(const char *path, const char *text, size_t len, struct key *keys, uint8_t *lens, unsigned max,
    unsigned *count, char *errbuf, size_t cap)
{
	const char *end = text + len;
	unsigned line = 1;

	*count = 0;
	for (const char *p = text, *eol; p < end; p = eol + 1, line++) {
		struct span s;
		uint8_t n;

		eol = memchr(p, '\n', (size_t)(end - p));
		eol = eol != NULL ? eol : end;
		s = trimmed(p, eol);
		if (s.len == 0 || s.p[0] == '#')
			continue;
		if (*count == max)
			return tv_fail(errbuf, cap, TV_ELIMIT, "%s:%u: more than %u key%s", path, line, max,
			    max == 1 ? "" : "s");
		if (!key_decode(s, keys[*count].bytes, &n) || (lens == NULL && n != KEY_BYTES))
			return tv_fail(errbuf, cap, TV_EFORMAT, "%s:%u: expected 44 characters of base64 (32 bytes)%s",
			    path, line, lens != NULL ? ", or 32 or 24 (24 or 16 bytes)" : "");
		if (lens != NULL)
			lens[*count] = n;
		++*count;
	}
	if (*count == 0)
		return tv_fail(errbuf, cap, TV_EFORMAT, "%s: holds no key: copy it from another node; clusterctl "
		    "keygen makes one", path);
	return TV_OK;
}

static enum tv_err
load_keys(const char *path, bool secret, struct key *keys, uint8_t *lens, unsigned max, unsigned *count,
    char *errbuf, size_t cap)
{
	char *text;
	size_t len;
	enum tv_err err = read_file(path, secret, &text, &len, errbuf, cap);

	if (err != TV_OK)
		return err;
	err = parse_keys(path, text, len, keys, lens, max, count, errbuf, cap);
	sodium_free(text);	/* wipes */
	return err;
}

enum tv_err
keyring_load(const char *path, struct keyring *ring, char *errbuf, size_t cap)
{
	enum tv_err err;

	*ring = (struct keyring){ .count = 0 };
	if (sodium_init() < 0)
		return tv_fail(errbuf, cap, TV_ESYS, "libsodium cannot start: no source of random numbers");
	ring->keys = sodium_allocarray(KEYRING_KEYS_MAX, sizeof(struct key));
	if (ring->keys == NULL)
		return tv_fail(errbuf, cap, TV_ENOMEM, "%s: out of memory", path);
	err = load_keys(path, true, ring->keys, ring->lens, KEYRING_KEYS_MAX, &ring->count, errbuf, cap);
	keys_wipe_stack();
	if (err != TV_OK)
		keyring_wipe(ring);
	return err;
}

void
keyring_wipe(struct keyring *ring)
{
	sodium_free(ring->keys);
	*ring = (struct keyring){ .count = 0 };
}

/* The lines of server.key into locked memory that the caller gives to sodium_free, which wipes. */
static enum tv_err
load_lines(const char *path, struct key **lines, unsigned *count, char *errbuf, size_t cap)
{
	enum tv_err err;

	*lines = sodium_allocarray(SERVER_KEYS_MAX, sizeof(**lines));
	if (*lines == NULL)
		return tv_fail(errbuf, cap, TV_ENOMEM, "%s: no locked memory for the key (see LimitMEMLOCK)", path);
	err = load_keys(path, true, *lines, NULL, SERVER_KEYS_MAX, count, errbuf, cap);
	if (err != TV_OK) {
		sodium_free(*lines);
		*lines = NULL;
	}
	return err;
}

/* server.pub of the time when the key of the file was the secret of the links. */
static bool
pub_is_old(const uint8_t pub[KEY_BYTES], const struct key *lines, unsigned count)
{
	uint8_t old[KEY_BYTES];

	for (unsigned i = 0; i < count; i++)
		if (crypto_scalarmult_base(old, lines[i].bytes) == 0 && sodium_memcmp(pub, old, KEY_BYTES) == 0)
			return true;
	return false;
}

static enum tv_err
derive_rpc(struct server_keys *out, const struct key *lines, const char *secret_path, const char *pub_path,
    char *errbuf, size_t cap)
{
	bool known = pub_path == NULL;

	out->rpc = sodium_allocarray(SERVER_KEYS_MAX, sizeof(*out->rpc));
	if (out->rpc == NULL)
		return tv_fail(errbuf, cap, TV_ENOMEM, "%s: no locked memory for the key (see LimitMEMLOCK)",
		    secret_path);
	for (unsigned i = 0; i < out->count; i++) {
		server_rpc_pair(lines[i].bytes, &out->rpc[i]);
		known = known || sodium_memcmp(out->pub, out->rpc[i].pub, KEY_BYTES) == 0;
	}
	if (known)
		return TV_OK;
	if (pub_is_old(out->pub, lines, out->count))
		return tv_fail(errbuf, cap, TV_EAUTH, "%s: was made by an older version: make it anew with clusterctl "
		    "keygen --pub, and copy it to every node", pub_path);
	return tv_fail(errbuf, cap, TV_EAUTH, "%s and %s do not belong together: copy both from the node where "
	    "clusterctl keygen ran", secret_path, pub_path);
}

static enum tv_err
derive_raft(struct server_keys *out, const struct key *lines, const char *secret_path, char *errbuf, size_t cap)
{
	out->raft = sodium_allocarray(SERVER_KEYS_MAX, sizeof(*out->raft));
	if (out->raft == NULL)
		return tv_fail(errbuf, cap, TV_ENOMEM, "%s: no locked memory for the key (see LimitMEMLOCK)",
		    secret_path);
	for (unsigned i = 0; i < out->count; i++)
		server_raft_psk(lines[i].bytes, out->raft[i].bytes);
	return TV_OK;
}

enum tv_err
server_keys_load(const char *secret_path, const char *pub_path, enum server_part part, struct server_keys *out,
    char *errbuf, size_t cap)
{
	struct key *lines = NULL;
	unsigned one;
	enum tv_err err = TV_OK;

	*out = (struct server_keys){ 0 };
	if (sodium_init() < 0)
		return tv_fail(errbuf, cap, TV_ESYS, "libsodium cannot start: no source of random numbers");
	if (part != SERVER_RAFT && pub_path != NULL)
		err = load_keys(pub_path, false, (struct key *)out->pub, NULL, 1, &one, errbuf, cap);
	if (err == TV_OK && part != SERVER_CLIENT)
		err = load_lines(secret_path, &lines, &out->count, errbuf, cap);
	if (err == TV_OK && part == SERVER_RPC)
		err = derive_rpc(out, lines, secret_path, pub_path, errbuf, cap);
	else if (err == TV_OK && part == SERVER_RAFT)
		err = derive_raft(out, lines, secret_path, errbuf, cap);
	sodium_free(lines);
	keys_wipe_stack();
	if (err != TV_OK)
		server_keys_wipe(out);
	return err;
}

void
server_keys_wipe(struct server_keys *k)
{
	sodium_free(k->rpc);
	sodium_free(k->raft);
	*k = (struct server_keys){ 0 };
}

enum tv_err
secret_read(const char *path, char **text, size_t *len, char *errbuf, size_t cap)
{
	return read_file(path, true, text, len, errbuf, cap);
}

/* BLAKE2b-256 of the context, keyed with the secret. */
static void
derive(const char *context, struct span key, uint8_t out[KEY_BYTES])
{
	crypto_generichash(out, KEY_BYTES, (const uint8_t *)context, strlen(context), key.p, key.len);
}

void
cluster_link_psk(struct span key, uint8_t psk[KEY_BYTES])
{
	derive("triumvir link psk", key, psk);
}

void
server_rpc_pair(const uint8_t key[KEY_BYTES], struct key_pair *pair)
{
	derive("triumvir rpc static", span_of(key, KEY_BYTES), pair->secret);
	crypto_scalarmult_base(pair->pub, pair->secret);
}

void
server_raft_psk(const uint8_t key[KEY_BYTES], uint8_t psk[KEY_BYTES])
{
	derive("triumvir raft psk", span_of(key, KEY_BYTES), psk);
}

void __attribute__((noinline))
keys_wipe_stack(void)
{
	uint8_t below[STACK_BYTES];

	sodium_memzero(below, sizeof(below));
}
