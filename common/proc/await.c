/* Addresses that the network has not brought yet. */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

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

/* UDP: a bind that listens to nobody and disturbs nobody. */
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
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

	if (inet_pton(AF_INET, ip, &in.sin_addr) == 1)
		return can_bind((const struct sockaddr *)&in, sizeof(in));
	if (inet_pton(AF_INET6, ip, &in6.sin6_addr) == 1)
		return can_bind((const struct sockaddr *)&in6, sizeof(in6));
	return true;
}
