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

#include "common/base/dirs.h"
#include "common/base/file.h"
#include "common/base/uuid.h"
#include "common/conf/cluster_conf.h"

#define NODE_ID_FILE "node-id"

static enum tv_err
read_id(int dir, const char *path, char id[UUID_CHARS + 1], char *errbuf, size_t cap)
{
	char text[UUID_CHARS + 8];
	uint8_t bytes[UUID_BYTES];
	struct stat st;
	ssize_t n;
	int fd = openat(dir, NODE_ID_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return tv_fail(errbuf, cap, errno == ENOENT ? TV_ENOENT : TV_ESYS, "%s/" NODE_ID_FILE ": %s", path,
		    strerror(errno));
	n = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? read(fd, text, sizeof(text) - 1) : -1;
	close(fd);
	if (n < 0 || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return tv_fail(errbuf, cap, TV_EPERM, "%s/" NODE_ID_FILE ": must be a regular file that only its owner "
		    "may write", path);
	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ' '))
		n--;
	text[n] = '\0';
	if (!uuid_parse(span_str(text), bytes) || (uuid_text(bytes, id), strcmp(id, text) != 0))
		return tv_fail(errbuf, cap, TV_EFORMAT, "%s/" NODE_ID_FILE ": does not hold a lower-case UUID: restore "
		    "it, or remove it to make this a new node", path);
	return TV_OK;
}

/* Losing the race (TV_EEXIST) is as good as winning it. */
static bool
write_id(int dir)
{
	char line[UUID_CHARS + 2];
	uint8_t random[UUID_BYTES];
	enum tv_err err;

	randombytes_buf(random, sizeof(random));
	uuid_v4(random, line);
	line[UUID_CHARS] = '\n';
	err = file_create(dir, NODE_ID_FILE, span_of(line, UUID_CHARS + 1), 0644);
	return err == TV_OK || err == TV_EEXIST;
}

enum tv_err
cluster_node_id(struct cluster_conf *c, char *errbuf, size_t cap)
{
	enum tv_err err;
	int dir;

	if (sodium_init() < 0)
		return tv_fail(errbuf, cap, TV_ESYS, "libsodium cannot start: no source of random numbers");
	dir = dirs_make(c->data_dir) ? open(c->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (dir < 0)
		return tv_fail(errbuf, cap, TV_ESYS, "%s: %s%s", c->data_dir, strerror(errno),
		    errno != EROFS ? "" :
		    ", or the unit of systemd allows no writing there: see data_dir in cluster.conf(5)");
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
