/* What rpcd-dns serves, as rpcd says. */
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/addr.h"
#include "common/base/log.h"
#include "common/net/msg.h"
#include "rpcd/dns/message.h"
#include "rpcd/dns/server.h"

#define TAG "dns"
#define NAMESERVER_PORT 53
#define RECURSORS_MEMORY (64u << 10)

/* A mapped one as IPv4. */
static struct addr
bare_address(const union addr_sock *a)
{
	return addr_unmapped(addr_of_sock(&a->any));
}

bool
address_same(const union addr_sock *a, const union addr_sock *b)
{
	struct addr x = bare_address(a), y = bare_address(b);

	return x.len > 0 && addr_eq(&x, &y);
}

void
address_text(const union addr_sock *a, char *dst)
{
	struct addr bare = bare_address(a);

	addr_ip(&bare, dst);
}

static bool
within_any(const struct addr_net *v, unsigned n, const union addr_sock *a)
{
	struct addr bare = bare_address(a);

	for (unsigned i = 0; i < n; i++)
		if (addr_net_has(&v[i], &bare))
			return true;
	return false;
}

bool
setup_is_own(const struct server *s, const union addr_sock *a)
{
	static const struct addr_net loopback[] = { { { 127 }, 4, 8 }, { { [15] = 1 }, 16, 128 } };

	return within_any(loopback, 2, a) || within_any(s->own, s->own_count, a);
}

bool
setup_may_recurse(const struct server *s, const union addr_sock *a)
{
	return setup_is_own(s, a) || within_any(s->recursion_from, s->recursion_count, a);
}

static void
own_of_interfaces(struct server *s)
{
	struct ifaddrs *all;

	if (getifaddrs(&all) != 0)
		return;
	for (const struct ifaddrs *i = all; i != NULL && s->own_count < NETS_MAX; i = i->ifa_next) {
		struct addr_net *n = &s->own[s->own_count];

		if (i->ifa_addr == NULL)
			continue;
		struct addr a = addr_unmapped(addr_of_sock(i->ifa_addr));
		if (a.len == 0)
			continue;
		memcpy(n->ip, a.ip, a.len);
		n->len = a.len;
		n->bits = (uint8_t)(a.len * 8);
		s->own_count++;
	}
	freeifaddrs(all);
}

void
setup_own_addresses(struct server *s)
{
	own_of_interfaces(s);
	for (unsigned i = 0; i < s->udp_count; i++) {
		union addr_sock *a = &s->listens[s->listens_count];
		socklen_t len = sizeof(*a);

		if (getsockname(s->udp_fds[i], &a->any, &len) == 0)
			s->listens_count++;
	}
}

/* -- the message -- */

/* "192.0.2.1 53" */
static bool
read_recursor(struct span text, union addr_sock *out)
{
	char copy[64], *space;

	if (!span_copy(text, copy, sizeof(copy)) || (space = strchr(copy, ' ')) == NULL)
		return false;
	*space = '\0';
	return addr_parse_sock(copy, (uint16_t)strtoul(space + 1, NULL, 10), out) > 0;
}

/* A question to us would go in circles. */
static bool
is_ourselves(const struct server *s, const union addr_sock *a)
{
	for (unsigned i = 0; i < s->listens_count; i++) {
		const union addr_sock *l = &s->listens[i];
		struct addr at = addr_of_sock(&l->any);
		bool all = addr_is_any(&at);

		/* sin_port and sin6_port are in the same place. */
		if (address_same(a, l) || (all && a->any.sa_family == l->any.sa_family &&
		    a->v4.sin_port == l->v4.sin_port && setup_is_own(s, a)))
			return true;
	}
	return false;
}

static bool
may_dial(const struct server *s, const union addr_sock *a)
{
	for (unsigned i = 0; i < s->dialled_count; i++)
		if (s->dialled[i] == ntohs(a->v4.sin_port))
			return s->families[a->any.sa_family == AF_INET6];
	return false;
}

static void
open_for(struct server *s, uint16_t port)
{
	for (unsigned i = 0; i < s->dialled_count; i++)
		if (s->dialled[i] == port)
			return;
	s->dialled[s->dialled_count++] = port;
}

static bool
as_told_before(struct server *s, const union addr_sock *told, unsigned count)
{
	bool same = count == s->told_count;

	for (unsigned i = 0; i < count && same; i++)
		same = address_same(&told[i], &s->told[i]);
	memcpy(s->told, told, count * sizeof(*told));
	s->told_count = count;
	return same;
}

/* Is it one that can be asked? */
static bool
is_askable(const struct server *s, const union addr_sock *a)
{
	char text[DNS_ADDRESS_TEXT_MAX];

	/* There is no socket of that family here, or the port is for a process that is about to take over. */
	if (s->started && s->conf.recursor_names && !may_dial(s, a))
		return false;
	if (!is_ourselves(s, a))
		return true;
	address_text(a, text);
	log_warn(TAG, "recursors: %s port %u is this node's own DNS: not asked", text, ntohs(a->v4.sin_port));
	return false;
}

static enum tv_err
take_recursors(struct server *s, const struct span_list *texts)
{
	union addr_sock told[RECURSORS_MAX];
	unsigned count = 0;

	for (; count < texts->n && count < RECURSORS_MAX; count++)
		if (!read_recursor(texts->v[count], &told[count]))
			return TV_EFORMAT;
	if (as_told_before(s, told, count))
		return TV_OK;
	s->recursor_count = 0;
	for (unsigned i = 0; i < count; i++) {
		if (!is_askable(s, &told[i]))
			continue;
		/* The walls were built for those that there were, or that there may be. */
		if (s->started && !may_dial(s, &told[i]))
			return TV_EINVAL;
		s->recursors[s->recursor_count++] = told[i];
	}
	return TV_OK;
}

enum tv_err
setup_take_recursors(struct server *s, struct span body)
{
	struct arena a = ARENA_INIT(RECURSORS_MEMORY);
	struct msg_dns_recursors m = { .recursors.n = 0 };
	enum tv_err err = msg_read(&msg_dns_recursors_schema, body, &a, &m);

	if (err == TV_OK && s->conf.recursor_names)	/* else a setup says it */
		err = take_recursors(s, &m.recursors);
	arena_done(&a);
	return err;
}

/* What the walls are to let be asked. */
static void
plan_walls(struct server *s)
{
	s->families[0] = s->families[1] = s->conf.recursor_names;
	if (s->conf.recursor_names)
		open_for(s, NAMESERVER_PORT);
	for (unsigned i = 0; i < s->recursor_count; i++) {
		s->families[s->recursors[i].any.sa_family == AF_INET6] = true;
		open_for(s, ntohs(s->recursors[i].v4.sin_port));
	}
}

enum tv_err
setup_take(struct server *s, struct span body)
{
	struct dns_zone z;

	arena_reset(&s->conf_arena);
	body = arena_copy(&s->conf_arena, body);
	s->conf = (struct msg_dns_setup){ 0 };
	enum tv_err err = msg_read(&msg_dns_setup_schema, body, &s->conf_arena, &s->conf);
	const struct msg_dns_setup *c = &s->conf;
	if (err != TV_OK)
		return err;
	if ((err = dns_zone_of_setup(c, &s->conf_arena, &z)) != TV_OK)
		return err;
	s->recursion_count = 0;
	for (uint32_t i = 0; i < c->recursion_from.n && s->recursion_count < NETS_MAX; i++)
		if (!addr_net_parse(c->recursion_from.v[i], &s->recursion_from[s->recursion_count++]))
			return TV_EFORMAT;
	if ((err = take_recursors(s, &c->recursors)) != TV_OK)
		return err;
	if (!s->started)
		plan_walls(s);
	z.recursors = s->recursor_count > 0 || c->recursor_names;
	s->zone = z;
	return TV_OK;
}
