/* See local_socket.h. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl/local_socket.h"

void
local_socket_path(const char *rpcd, const char *name, struct buf *path)
{
	const char *slash = strrchr(rpcd, '/');

	buf_printf(path, "%.*s/%s.sock", slash != NULL ? (int)(slash - rpcd) : 0, rpcd, name);
}

int
local_socket_open(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(a.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(a.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd != -1 && connect(fd, (const struct sockaddr *)&a, sizeof(a)) == -1) {
		int error = errno;

		(void)close(fd);
		errno = error;
		return -1;
	}
	return fd;
}
