/* What one process of rpcd-check runs. */
#ifndef TV_RPCD_CHECK_ROLE_H
#define TV_RPCD_CHECK_ROLE_H

enum check_role {
	ROLE_NETWORK,		/* dials, runs no program */
	ROLE_SCRIPTS,		/* runs programs, opens no connection */
	ROLE_DOCKER,		/* speaks with docker at its socket, and opens no other connection */
	CHECK_ROLES
};

/* As its first argument, and with it in the list of processes. */
#define CHECK_ROLE_NAMES { "network", "scripts", "docker" }
#define CHECK_ROLE_TITLES { "rpcd: check network", "rpcd: check scripts", "rpcd: check docker" }

#endif
