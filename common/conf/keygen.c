/*
 * Makes key files: all three or none, never over existing ones.  And server.pub anew from server.key, which is no
 * secret and may be made again at any time.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/conf/keys.h"

#define FILE_TEXT_BYTES (96 + sodium_base64_ENCODED_LEN(KEY_BYTES, sodium_base64_VARIANT_ORIGINAL))

enum { CLUSTER_KEY, SERVER_KEY, SERVER_PUB, KEY_FILES };

static const struct {
	const char *name;
	mode_t mode;
	const char *comment;
} files[KEY_FILES] = {
	[CLUSTER_KEY] = { "cluster.key", 0600, "# Triumvir cluster key: secret, on every node.\n" },
	[SERVER_KEY] = { "server.key", 0600, "# Triumvir server key: secret, on servers only.\n" },
	[SERVER_PUB] = { "server.pub", 0644, "# Triumvir server key, public half: on every node.\n" },
};

/* The text of a key file: a comment, and the key. */
static struct span
print_key(unsigned which, const uint8_t *bin, char text[FILE_TEXT_BYTES])
{
	size_t at = strlen(files[which].comment);

	memcpy(text, files[which].comment, at);
	sodium_bin2base64(text + at, FILE_TEXT_BYTES - at, bin, KEY_BYTES, sodium_base64_VARIANT_ORIGINAL);
	at += strlen(text + at);
	text[at++] = '\n';
	return span_of(text, at);
}

struct fresh {		/* in locked memory */
	uint8_t cluster[KEY_BYTES], server[KEY_BYTES];
	struct key_pair rpc;
	char texts[KEY_FILES][FILE_TEXT_BYTES];
};

static enum tv_err
write_files(int dir, struct fresh *k, unsigned *at)
{
	const uint8_t *keys[KEY_FILES] = { k->cluster, k->server, k->rpc.pub };
	enum tv_err err = TV_OK;

	randombytes_buf(k->cluster, KEY_BYTES);
	randombytes_buf(k->server, KEY_BYTES);
	server_rpc_pair(k->server, &k->rpc);
	for (*at = 0; *at < KEY_FILES; ++*at)
		if ((err = file_create(dir, files[*at].name, print_key(*at, keys[*at], k->texts[*at]),
		    files[*at].mode)) != TV_OK)
			break;
	for (unsigned i = *at; err != TV_OK && i-- > 0;) {	/* ours, a moment old: no half set stays behind */
		int saved = errno;

		unlinkat(dir, files[i].name, 0);
		errno = saved;
	}
	return err;
}

static bool
one_exists(int dir, unsigned *at)
{
	struct stat st;

	for (*at = 0; *at < KEY_FILES; ++*at)
		if (fstatat(dir, files[*at].name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	return false;
}

static enum tv_err
open_dir(const char *dir, int *fd, char *errbuf, size_t cap)
{
	*fd = -1;
	if (sodium_init() < 0)
		return tv_fail(errbuf, cap, TV_ESYS, "libsodium cannot start: no source of random numbers");
	*fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*fd >= 0)
		return TV_OK;
	return tv_fail(errbuf, cap, errno == ENOENT ? TV_ENOENT : TV_ESYS, "%s: %s", dir, strerror(errno));
}

enum tv_err
keys_generate(const char *dir, char *errbuf, size_t cap)
{
	struct fresh *k;
	unsigned at = 0;
	int fd;
	enum tv_err err = open_dir(dir, &fd, errbuf, cap);

	if (err != TV_OK)
		return err;
	k = sodium_malloc(sizeof(*k));
	if (one_exists(fd, &at))
		err = TV_EEXIST;
	else
		err = k != NULL ? write_files(fd, k, &at) : TV_ENOMEM;
	if (err == TV_EEXIST)
		snprintf(errbuf, cap, "%s/%s: exists already, and keys are never overwritten: move it away first", dir,
		    files[at].name);
	else if (err != TV_OK)
		snprintf(errbuf, cap, "%s: cannot write keys: %s", dir,
		    err == TV_ENOMEM ? "out of memory" : strerror(errno));
	sodium_free(k);
	close(fd);
	return err;
}

enum tv_err
keys_derive_pub(const char *dir, char *errbuf, size_t cap)
{
	struct server_keys keys;
	char path[4096], public[FILE_TEXT_BYTES];
	int fd;
	enum tv_err err = open_dir(dir, &fd, errbuf, cap);

	if (err != TV_OK)
		return err;
	snprintf(path, sizeof(path), "%s/%s", dir, files[SERVER_KEY].name);
	err = server_keys_load(path, NULL, SERVER_RPC, &keys, errbuf, cap);
	if (err == TV_OK) {
		err = file_replace(fd, files[SERVER_PUB].name, print_key(SERVER_PUB, keys.rpc[0].pub, public),
		    files[SERVER_PUB].mode);
		server_keys_wipe(&keys);
		if (err != TV_OK)
			snprintf(errbuf, cap, "%s/%s: %s", dir, files[SERVER_PUB].name, strerror(errno));
	}
	close(fd);
	return err;
}
