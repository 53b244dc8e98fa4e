/* Addresses that the network has not brought yet. */
#include "config.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/addr.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/proc/await.h"

bool
await_more(struct await *a, const char *tag, const char *why)
{
	const struct timespec moment = { 0, 100000000 };
	struct mono now = clock_mono();

	if (!a->begun)
		*a = (struct await){ .since = now, .told = now, .pause = MONO_S(1), .begun = true };
	if (now.ns - a->since.ns >= AWAIT_LONGEST.ns)
		return false;
	if (now.ns >= a->told.ns) {
		log_warn(tag, "%s; waiting for it", why);
		a->told.ns = now.ns + a->pause.ns;
		a->pause.ns *= 2;
	}
	(void)nanosleep(&moment, NULL);		/* a signal ends it early: no harm done */
	return true;
}

/* UDP: a bind that takes nothing from other sockets. */
static bool
can_bind(const struct sockaddr *sa, socklen_t len)
{
	int fd = socket(sa->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool here;

	if (fd < 0)
		return true;
	here = bind(fd, sa, len) == 0 || errno != EADDRNOTAVAIL;
	close(fd);
	return here;
}

bool
await_is_here(const char *ip)
{
	union addr_sock at;
	socklen_t len = addr_parse_sock(ip, 0, &at);

	return len == 0 || can_bind(&at.any, len);
}
