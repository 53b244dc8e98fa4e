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

#include "common/base/dirs.h"
#include "common/conf/keys.h"

#define KEY_TEXT_BYTES (sodium_base64_ENCODED_LEN(KEY_BYTES, sodium_base64_VARIANT_ORIGINAL))

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

/* Gives the finished file its name; without replace never that of another one: TV_EEXIST. */
static enum tv_err
give_name(int dir, const char *temp, const char *name, bool replace)
{
	if (replace ? renameat(dir, temp, dir, name) == 0 : linkat(dir, temp, dir, name, 0) == 0)
		return TV_OK;
	return errno == EEXIST ? TV_EEXIST : TV_ESYS;
}

/* One finished file in the folder, or nothing. */
static enum tv_err
write_file(int dir, unsigned which, const char *text, bool replace)
{
	char temp[32];
	enum tv_err err = TV_ESYS;
	int fd, saved;

	snprintf(temp, sizeof(temp), ".key.%08x", randombytes_random());
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return TV_ESYS;
	if (write_all(fd, files[which].comment, strlen(files[which].comment)) && write_all(fd, text, strlen(text)) &&
	    write_all(fd, "\n", 1) && fchmod(fd, files[which].mode) == 0 && fsync(fd) == 0)
		err = give_name(dir, temp, files[which].name, replace);
	saved = errno;
	close(fd);
	unlinkat(dir, temp, 0);
	errno = saved;
	return err;
}

static void
encode(const uint8_t *bin, char *text)
{
	sodium_bin2base64(text, KEY_TEXT_BYTES, bin, KEY_BYTES, sodium_base64_VARIANT_ORIGINAL);
}

struct fresh {		/* in locked memory */
	uint8_t cluster[KEY_BYTES], server[KEY_BYTES];
	struct key_pair rpc;
	char cluster_text[KEY_TEXT_BYTES], server_text[KEY_TEXT_BYTES];
};

static enum tv_err
write_files(int dir, struct fresh *k, unsigned *at)
{
	char public[KEY_TEXT_BYTES];
	const char *texts[KEY_FILES] = { k->cluster_text, k->server_text, public };
	enum tv_err err = TV_OK;

	randombytes_buf(k->cluster, KEY_BYTES);
	randombytes_buf(k->server, KEY_BYTES);
	encode(k->cluster, k->cluster_text);
	encode(k->server, k->server_text);
	server_rpc_pair(k->server, &k->rpc);
	encode(k->rpc.pub, public);
	for (*at = 0; *at < KEY_FILES; ++*at)
		if ((err = write_file(dir, *at, texts[*at], false)) != TV_OK)
			break;
	for (unsigned i = *at; err != TV_OK && i-- > 0;) {	/* ours, a moment old: no half set stays behind */
		int saved = errno;

		unlinkat(dir, files[i].name, 0);
		errno = saved;
	}
	if (err == TV_OK && fsync(dir) != 0)
		return TV_ESYS;
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
	if (sodium_init() < 0) {
		snprintf(errbuf, cap, "libsodium cannot start: no source of random numbers");
		return TV_ESYS;
	}
	*fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*fd >= 0)
		return TV_OK;
	snprintf(errbuf, cap, "%s: %s", dir, strerror(errno));
	return errno == ENOENT ? TV_ENOENT : TV_ESYS;
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
	char path[4096], public[KEY_TEXT_BYTES];
	int fd;
	enum tv_err err = open_dir(dir, &fd, errbuf, cap);

	if (err != TV_OK)
		return err;
	snprintf(path, sizeof(path), "%s/%s", dir, files[SERVER_KEY].name);
	err = server_keys_load(path, NULL, SERVER_RPC, &keys, errbuf, cap);
	if (err == TV_OK) {
		encode(keys.rpc[0].pub, public);
		server_keys_wipe(&keys);
		err = write_file(fd, SERVER_PUB, public, true);
		if (err == TV_OK && fsync(fd) != 0)
			err = TV_ESYS;
		if (err != TV_OK)
			snprintf(errbuf, cap, "%s/%s: %s", dir, files[SERVER_PUB].name, strerror(errno));
	}
	close(fd);
	return err;
}
