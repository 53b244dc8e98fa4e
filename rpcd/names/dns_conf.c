/* What rpcd.conf says of DNS: sockets, and what the process is to serve; see dns_process.h. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "common/base/addr.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/conf/target.h"
#include "common/net/chan.h"
#include "common/text/duration.h"
#include "rpcd/dns/dname.h"
#include "rpcd/dns/launch.h"
#include "rpcd/names/dns_conf.h"
#include "rpcd/names/dns_process.h"
#include "rpcd/names/recursors.h"

#define NS_PER_S 1000000000
#define USE_MS_MAX 30000
#define IN_USE_LONGEST MONO_S(5)
#define UDP_ROOM_BYTES (1 << 20)	/* for questions that were not read yet */

const struct conf_list *
dns_addresses(const struct rpcd_conf *conf)
{
	return conf->dns_addresses.count > 0 ? &conf->dns_addresses : &conf->http_addresses;
}

/* -- sockets -- */

static int
listen_udp(const char *ip, uint16_t port)
{
	int on = 1, off = 0, room = UDP_ROOM_BYTES, saved;
	union addr_sock at;
	socklen_t len = addr_parse_sock(ip, port, &at);

	if (len == 0)
		return -1;
	struct addr a = addr_of_sock(&at.any);
	bool six = a.len == 16;
	/* An answer leaves from the address that was asked, which is told with each question where we listen on all. */
	bool all = addr_is_any(&a);
	int fd = socket(at.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0)				/* as much as the kernel gives, net.core.rmem_max: less does no harm */
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	if (fd >= 0 && (!six || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0) &&
	    setsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_RECVPKTINFO : IP_PKTINFO,
	    all ? &on : &off, sizeof(on)) == 0 &&
	    bind(fd, &at.any, len) == 0)
		return fd;
	saved = errno;
	if (fd >= 0)
		close(fd);
	errno = saved;
	return -1;
}

/*
 * The process of an rpcd that was killed ends a moment after it, and holds its sockets until then.  until: MONO_ZERO
 * before the first one that is in use.
 */
static int
listen_when_free(bool tcp, const char *ip, uint16_t port, struct mono *until)
{
	const struct timespec moment = { 0, 20000000 };

	while (true) {
		int fd = tcp ? listen_tcp(ip, port) : listen_udp(ip, port), saved = errno;

		if (fd >= 0 || saved != EADDRINUSE)
			return fd;
		if (until->ns == 0) {
			*until = mono_add(clock_mono(), IN_USE_LONGEST);
			log_info("dns", "%s port %u is in use, as by the DNS process of an rpcd that was killed; "
			    "waiting for it for %d s", ip, port, (int)mono_seconds(IN_USE_LONGEST));
		} else if (!mono_before(clock_mono(), *until)) {
			errno = saved;
			return -1;
		}
		(void)nanosleep(&moment, NULL);
	}
}

enum tv_err
dns_sockets_open(const struct rpcd_conf *conf, struct dns_sockets *out, char *errbuf, size_t cap)
{
	const struct conf_list *addresses = dns_addresses(conf);
	struct mono until = MONO_ZERO;

	out->udp = out->tcp = 0;
	for (unsigned tcp = 0; tcp < 2; tcp++)
		for (size_t i = 0; i < addresses->count; i++) {
			int fd = listen_when_free(tcp, addresses->items[i], conf->dns_port, &until);
			const char *remedy = errno == EACCES ?
			    "a port below 1024 takes CAP_NET_BIND_SERVICE, "
			    "which a drop-in gives the unit: rpcd-dns(8)" :
			    "dns_port and dns_addresses in rpcd.conf say where, dns_port = 0 turns it off";

			if (fd < 0) {
				snprintf(errbuf, cap, "cannot listen on %s port %u (DNS, %s): %s; %s",
				    addresses->items[i], conf->dns_port, tcp ? "TCP" : "UDP", strerror(errno), remedy);
				dns_sockets_close(out);
				return TV_ESYS;
			}
			out->fds[out->udp + out->tcp] = fd;
			(*(tcp ? &out->tcp : &out->udp))++;
		}
	return TV_OK;
}

void
dns_sockets_close(struct dns_sockets *s)
{
	for (unsigned i = 0; i < s->udp + s->tcp; i++)
		close(s->fds[i]);
	s->udp = s->tcp = 0;
}

/* -- values -- */

/* An address as "ADDRESS PORT", what is resolved later as it is written.  False: it is none of these, and why not. */
static bool
print_recursor(const char *text, char *out, size_t cap, char *why)
{
	struct dial_target t;

	if (target_parse(span_str(text), RECURSOR_PORT, &t, why) != TV_OK)
		return false;
	if (t.kind != TARGET_ADDRESS)
		return snprintf(out, cap, "%s", text) < (int)cap;
	return snprintf(out, cap, "%s %u", t.ip, t.port) < (int)cap;
}

static enum tv_err
check_domain(const char *key, const char *text, const char *datacenter, bool alt, char *errbuf, size_t cap)
{
	static const char *const words[] = { "service", "connect", "node", "query", "addr" };
	size_t first = strcspn(text, ".");
	struct dname name;

	if (dname_of_text(span_str(text), &name) != TV_OK || name.len < 2 || name.len > 128)
		return tv_fail(errbuf, cap, TV_EINVAL, "%s: \"%s\" is not a domain name", key, text);
	for (unsigned i = 0; i <= 5 && alt; i++) {
		const char *word = i == 5 ? datacenter : words[i];

		if (strlen(word) == first && strncasecmp(text, word, first) == 0)
			return tv_fail(errbuf, cap, TV_EINVAL, "%s: \"%s\" must not begin with the label \"%s\", which "
			    "has a meaning in names: choose another one", key, text, word);
	}
	return TV_OK;
}

enum tv_err
dns_conf_check(const struct rpcd_conf *c, const char *datacenter, char *errbuf, size_t cap)
{
	enum tv_err err = check_domain("domain", c->domain, datacenter, false, errbuf, cap);
	char why[TARGET_WHY_BYTES];
	struct dial_target t;
	struct addr_net net;

	if (err == TV_OK && c->alt_domain != NULL)
		err = check_domain("alt_domain", c->alt_domain, datacenter, true, errbuf, cap);
	if (err != TV_OK)
		return err;
	for (size_t i = 0; i < c->dns_addresses.count; i++)
		if (!addr_parse(c->dns_addresses.items[i], 0, NULL))
			return tv_fail(errbuf, cap, TV_EINVAL, "dns_addresses: \"%s\" is not an IP address",
			    c->dns_addresses.items[i]);
	if (c->dns_port != 0 && dns_addresses(c)->count > DNS_SOCKETS_MAX)
		return tv_fail(errbuf, cap, TV_EINVAL, "dns_addresses: more than %d (without it, those of "
		    "http_addresses)", DNS_SOCKETS_MAX);
	for (size_t i = 0; i < c->recursors.count; i++)
		if (target_parse(span_str(c->recursors.items[i]), RECURSOR_PORT, &t, why) != TV_OK)
			return tv_fail(errbuf, cap, TV_EINVAL, "recursors: %s", why);
	if (c->recursors.count > RECURSORS_MAX)
		return tv_fail(errbuf, cap, TV_EINVAL, "recursors: more than %d", RECURSORS_MAX);
	for (size_t i = 0; i < c->recursion_from.count; i++)
		if (!addr_net_parse(span_str(c->recursion_from.items[i]), &net))
			return tv_fail(errbuf, cap, TV_EINVAL, "dns_config.allow_recursion_from: \"%s\" is not a "
			    "network (write 10.0.0.0/8)", c->recursion_from.items[i]);
	return TV_OK;
}

/* -- for the process -- */

static uint64_t
seconds(struct mono m)
{
	return (uint64_t)(m.ns / NS_PER_S);
}

/* Often enough that what is used does not end. */
static uint64_t
use_ms(struct mono ttl)
{
	uint64_t ms = (uint64_t)mono_ms(ttl) / 4;

	return ms > USE_MS_MAX ? USE_MS_MAX : ms;
}

static struct span
lowered(struct arena *a, const char *text)
{
	char *copy = text == NULL ? NULL : arena_cstr(a, span_str(text));

	for (char *p = copy; p != NULL && *p != '\0'; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p + ('a' - 'A'));
	return copy == NULL ? SPAN_NONE : span_str(copy);
}

/* "web*=10s" as "web*=10". */
static struct span
ttl_text(struct arena *a, const char *item)
{
	const char *equals = strrchr(item, '=');
	int64_t ns = 0;

	(void)duration_parse(span_str(equals + 1), &ns);
	struct span name = lowered(a, item);
	return arena_printf(a, "%.*s=%lld", (int)(equals - item), (const char *)name.p, (long long)(ns / NS_PER_S));
}

static struct span_list
texts(struct arena *a, const struct conf_list *from)
{
	struct span_list l = { arena_array(a, from->count, sizeof(struct span)), 0, true };

	for (size_t i = 0; i < from->count && l.v != NULL; i++)
		l.v[l.n++] = span_str(from->items[i]);
	return l;
}

/* Each once. */
static struct span_list
recursor_texts(struct arena *a, const struct conf_list *from)
{
	struct span_list l = { arena_array(a, from->count, sizeof(struct span)), 0, true };
	char text[TARGET_PATH_BYTES_MAX + 16];

	for (size_t i = 0; i < from->count && l.v != NULL; i++) {
		uint32_t k = 0;

		if (!print_recursor(from->items[i], text, sizeof(text), NULL))
			continue;
		while (k < l.n && !span_eqs(l.v[k], text))
			k++;
		if (k == l.n)
			l.v[l.n++] = arena_copy(a, span_str(text));
	}
	return l;
}

void
dns_conf_setup(const struct rpcd_conf *c, const char *datacenter, struct arena *a, struct msg_dns_setup *out)
{
	struct span_list ttls = texts(a, &c->service_ttl);

	for (uint32_t i = 0; i < ttls.n; i++)
		ttls.v[i] = ttl_text(a, c->service_ttl.items[i]);
	*out = (struct msg_dns_setup){
		.domain = lowered(a, c->domain), .alt_domain = lowered(a, c->alt_domain),
		.datacenter = span_str(datacenter), .node_ttl = seconds(c->node_ttl), .service_ttl = ttls,
		.soa_refresh = seconds(c->soa_refresh), .soa_retry = seconds(c->soa_retry),
		.soa_expire = seconds(c->soa_expire), .soa_min_ttl = seconds(c->soa_min_ttl),
		.udp_answer_limit = c->udp_answer_limit, .a_record_limit = c->a_record_limit,
		.truncate = c->dns_truncate, .only_passing = c->dns_only_passing, .compress = !c->dns_no_compression,
		.node_meta = c->dns_node_meta, .recursors = recursor_texts(a, &c->recursors),
		.random_recursor = c->recursor_strategy == 1, .recursor_timeout = c->recursor_timeout.ns,
		.recursion_from = texts(a, &c->recursion_from), .conns_max = c->dns_max_conns,
		.conns_source_max = c->dns_max_conns_per_client, .equal_answers = c->dns_equal_answers,
		.keep = c->dns_use_cache && c->dns_allow_stale, .keep_bytes = c->cache_bytes_max / 2,
		.use_ms = use_ms(c->cache_ttl), .recursor_names = recursors_are_named(&c->recursors),
	};
}
