/* What the monitors of rpcd start, see check_monitor.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/log.h"
#include "common/proc/helper_monitor.h"
#include "rpcd/agent/check_monitor.h"

#define PROGRAM "rpcd-check"		/* where none is named */
#define TITLE "rpcd: check"
#define TAG "check"

/* A process that does nothing else may use the socket of docker, if that has a group that may. */
static void
join_docker(const char *path, struct helper_monitor_conf *m)
{
	struct stat st;

	if (stat(path, &st) != 0) {
		log_warn(TAG, "docker_socket %s: %s; Docker checks work without a restart only if the user _check may "
		    "use it then", path, strerror(errno));
	} else if (st.st_gid != 0 && (st.st_mode & S_IWGRP) != 0) {
		m->grouped = true;
		m->group = st.st_gid;
	}
}

enum tv_err
check_monitor_start(const struct check_monitor_conf *conf, int *fd, char *errbuf, size_t cap)
{
	static const char *const roles[] = CHECK_ROLE_NAMES;
	unsigned sockets = conf->udp_count + conf->tcp_count;
	char udp[12], tcp[12];
	struct helper_monitor_conf m = {
		.owner = "rpcd", .tag = TAG, .user = conf->user, .best_effort = conf->best_effort,
		.program = conf->program == NULL ? PROGRAM : conf->program,
		.title = conf->title == NULL ? TITLE : conf->title, .last = sockets > 0 ? NULL : conf->docker_socket,
		.log_level = conf->log_level, .log_dest = conf->log_dest,
		.sockets = conf->sockets, .socket_count = sockets,
	};

	_Static_assert((int)CHECK_ROLES <= HELPER_KINDS_MAX, "a kind for each role");
	snprintf(udp, sizeof(udp), "%u", conf->udp_count);
	snprintf(tcp, sizeof(tcp), "%u", conf->tcp_count);
	for (unsigned i = 0; i < CHECK_ROLES; i++) {
		m.kinds[i].may = conf->roles[i];
		m.kinds[i].first[0] = sockets > 0 ? udp : roles[i];
		m.kinds[i].first[1] = sockets > 0 ? tcp : NULL;
	}
	if (conf->program == NULL && !conf->roles[ROLE_NETWORK] && !conf->roles[ROLE_SCRIPTS])
		join_docker(conf->docker_socket, &m);
	return helper_monitor_start(&m, fd, errbuf, cap);
}

void
check_monitor_log(int monitor, int level)
{
	helper_monitor_log(monitor, level);
}

enum tv_err
check_monitor_spawn(int monitor, enum check_role role, int *fd)
{
	return helper_monitor_spawn(monitor, role, fd);
}
