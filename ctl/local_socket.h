/* Sockets of the daemons of this machine, other than rpcd's HTTP. */
#ifndef TV_CTL_LOCAL_SOCKET_H
#define TV_CTL_LOCAL_SOCKET_H

#include "common/base/buf.h"

/* Appends the path of NAME.sock beside this rpcd.sock. */
void local_socket_path(const char *rpcd, const char *name, struct buf *path);
/* A connection to this unix socket, to be closed; -1: errno. */
int local_socket_open(const char *path);

#endif
