/*
 * The node's identity: a version 4 UUID in data_dir/node-id, made at the first start.  Several daemons
 * may start at once: each prepares a file, link(2) lets exactly one of them win, and all read the winner's.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/conf/cluster_conf.h"
#include "common/base/dirs.h"

#define NODE_ID_FILE "node-id"
#define UUID_CHARS 36

static bool
is_uuid(const char *s)
{
	for (size_t i = 0; i < UUID_CHARS; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? s[i] != '-' : s[i] == '\0' || strchr("0123456789abcdef", s[i]) == NULL)
			return false;
	}
	return s[UUID_CHARS] == '\0';
}

/* RFC 4122, section 4.4. */
static void
make_uuid(char text[UUID_CHARS + 1])
{
	uint8_t b[16];

	randombytes_buf(b, sizeof(b));
	b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
	b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
	for (size_t i = 0, at = 0; i < sizeof(b); i++)
		at += (size_t)snprintf(text + at, UUID_CHARS + 1 - at, "%s%02x",
		    i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}

static enum tv_err
read_id(int dir, const char *path, char id[UUID_CHARS + 1], char *errbuf, size_t cap)
{
	char text[UUID_CHARS + 8];
	struct stat st;
	ssize_t n;
	int fd = openat(dir, NODE_ID_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0) {
		snprintf(errbuf, cap, "%s/" NODE_ID_FILE ": %s", path, strerror(errno));
		return errno == ENOENT ? TV_ENOENT : TV_ESYS;
	}
	n = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? read(fd, text, sizeof(text) - 1) : -1;
	close(fd);
	if (n < 0 || (st.st_mode & (S_IWGRP | S_IWOTH))) {
		snprintf(errbuf, cap, "%s/" NODE_ID_FILE ": must be a regular file that only its owner may write",
		    path);
		return TV_EPERM;
	}
	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ' '))
		n--;
	text[n] = '\0';
	if (!is_uuid(text)) {
		snprintf(errbuf, cap, "%s/" NODE_ID_FILE ": does not hold a lower-case UUID: restore it, or remove it "
		    "to make this a new node", path);
		return TV_EFORMAT;
	}
	memcpy(id, text, UUID_CHARS + 1);
	return TV_OK;
}

/* Losing the race (EEXIST) is as good as winning it. */
static bool
write_id(int dir)
{
	char temp[32], line[UUID_CHARS + 2];
	bool done;
	int fd, saved;

	snprintf(temp, sizeof(temp), ".node-id.%08x", randombytes_random());
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return false;
	make_uuid(line);
	line[UUID_CHARS] = '\n';
	done = write(fd, line, UUID_CHARS + 1) == UUID_CHARS + 1 && fchmod(fd, 0644) == 0 && fsync(fd) == 0 &&
	    (linkat(dir, temp, dir, NODE_ID_FILE, 0) == 0 || errno == EEXIST);
	saved = errno;
	close(fd);
	unlinkat(dir, temp, 0);
	errno = saved;
	return done && fsync(dir) == 0;
}

enum tv_err
cluster_node_id(struct cluster_conf *c, char *errbuf, size_t cap)
{
	enum tv_err err;
	int dir;

	if (sodium_init() < 0) {
		snprintf(errbuf, cap, "libsodium cannot start: no source of random numbers");
		return TV_ESYS;
	}
	dir = dirs_make(c->data_dir) ? open(c->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (dir < 0) {
		snprintf(errbuf, cap, "%s: %s%s", c->data_dir, strerror(errno), errno != EROFS ? "" :
		    ", or the unit of systemd allows no writing there: see data_dir in cluster.conf(5)");
		return TV_ESYS;
	}
	err = read_id(dir, c->data_dir, c->node_id, errbuf, cap);
	if (err == TV_ENOENT) {
		if (write_id(dir)) {
			err = read_id(dir, c->data_dir, c->node_id, errbuf, cap);
		} else {
			snprintf(errbuf, cap, "%s/" NODE_ID_FILE ": cannot be made: %s", c->data_dir, strerror(errno));
			err = TV_ESYS;
		}
	}
	close(dir);
	return err;
}
