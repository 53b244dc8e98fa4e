/* Makes key files: all three or none, never over existing ones. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/dirs.h"
#include "common/keys.h"

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

/* One finished file in the folder, or nothing.  link(2) does not replace: TV_EEXIST. */
static enum tv_err
write_file(int dir, unsigned which, const char *text)
{
	char temp[32];
	enum tv_err err = TV_ESYS;
	int fd, saved;

	snprintf(temp, sizeof(temp), ".key.%08x", randombytes_random());
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return TV_ESYS;
	if (write_all(fd, files[which].comment, strlen(files[which].comment)) && write_all(fd, text, strlen(text)) &&
	    write_all(fd, "\n", 1) && fchmod(fd, files[which].mode) == 0 && fsync(fd) == 0) {
		if (linkat(dir, temp, dir, files[which].name, 0) == 0)
			err = TV_OK;
		else if (errno == EEXIST)
			err = TV_EEXIST;
	}
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

/* secret: locked memory for two keys and two texts. */
static enum tv_err
write_files(int dir, uint8_t *secret, unsigned *at)
{
	char *cluster = (char *)secret + 2 * KEY_BYTES, *server = cluster + KEY_TEXT_BYTES;
	char public[sodium_base64_ENCODED_LEN(KEY_BYTES, sodium_base64_VARIANT_ORIGINAL)];
	const char *texts[KEY_FILES] = { cluster, server, public };
	uint8_t pub[KEY_BYTES];
	enum tv_err err = TV_OK;

	randombytes_buf(secret, KEY_BYTES);
	randombytes_buf(secret + KEY_BYTES, KEY_BYTES);
	crypto_scalarmult_base(pub, secret + KEY_BYTES);
	encode(secret, cluster);
	encode(secret + KEY_BYTES, server);
	encode(pub, public);
	for (*at = 0; *at < KEY_FILES; ++*at)
		if ((err = write_file(dir, *at, texts[*at])) != TV_OK)
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

enum tv_err
keys_generate(const char *dir, char *errbuf, size_t cap)
{
	uint8_t *secret = NULL;
	enum tv_err err = TV_OK;
	unsigned at = 0;
	int fd;

	if (sodium_init() < 0) {
		snprintf(errbuf, cap, "libsodium cannot start: no source of random numbers");
		return TV_ESYS;
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		snprintf(errbuf, cap, "%s: %s", dir, strerror(errno));
		return errno == ENOENT ? TV_ENOENT : TV_ESYS;
	}
	secret = sodium_malloc(2 * KEY_BYTES + 2 * KEY_TEXT_BYTES);
	if (one_exists(fd, &at))
		err = TV_EEXIST;
	else
		err = secret != NULL ? write_files(fd, secret, &at) : TV_ENOMEM;
	if (err == TV_EEXIST)
		snprintf(errbuf, cap, "%s/%s: exists already, and keys are never overwritten: move it away first", dir,
		    files[at].name);
	else if (err != TV_OK)
		snprintf(errbuf, cap, "%s: cannot write keys: %s", dir,
		    err == TV_ENOMEM ? "out of memory" : strerror(errno));
	sodium_free(secret);
	close(fd);
	return err;
}
