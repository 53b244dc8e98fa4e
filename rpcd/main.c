/*
 * rpcd: talks to the world.  This file is the program seen from above: what the sandbox leaves, and how the
 * parts are wired: HTTP -> api -> route -> raftd or other nodes' rpcds.  opening.h has what is opened before.
 */
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/source.h"
#include "common/proc/privdrop.h"
#include "rpcd/api/audit.h"
#include "rpcd/api/gzip.h"
#include "rpcd/audit/trail.h"
#include "rpcd/cache/cache.h"
#include "rpcd/checks/checks.h"
#include "rpcd/event/events.h"
#include "rpcd/event/fire.h"
#include "rpcd/event/queries.h"
#include "rpcd/gossip/keyring_query.h"
#include "rpcd/http/http.h"
#include "rpcd/info.h"
#include "rpcd/keys/keys.h"
#include "rpcd/names/dns_explain.h"
#include "rpcd/names/dns_process.h"
#include "rpcd/node/coord_report.h"
#include "rpcd/node/log_streams.h"
#include "rpcd/node/twin_watch.h"
#include "rpcd/opening.h"
#include "rpcd/registry/registry_loop.h"
#include "rpcd/replicate/replicate.h"
#include "rpcd/route/link_server.h"
#include "rpcd/rpcd.h"
#include "rpcd/keys/keys_check.h"
#include "rpcd/tls/tls_renewal.h"

#define FRAME_OVERHEAD 4096		/* of a request beside its arguments */
#define CACHE_QUERY_TIME MONO_S(600)	/* as long as a blocking query may be in Consul */
#define SETTLE_TIME MONO_S(1)		/* for what is under way when we are to stop */
#define SETTLE_LOOK_S 0.005
#define LOOK_SERVERS_S 0.1
#define USER "_rpcd"
#define EXPLAIN_LOOKUPS_MAX 256
#define CHANGES_LOGGED_MAX 60		/* of one reload of services.d */

/* -- before the sandbox ------------------------------------------------------ */

static bool
allows_scripts(const struct rpcd_conf *c)
{
	return c->enable_script_checks || c->enable_local_script_checks;
}

/* whole: they must fit what is registered.  c: what rpcd.conf says now. */
static enum tv_err
read_definitions(struct rpcd *p, const struct rpcd_conf *c, const char *dir, bool whole, char *errbuf, size_t cap)
{
	char folder[PATH_BYTES_MAX];
	enum tv_err err;

	if ((size_t)snprintf(folder, sizeof(folder), "%s/services.d", dir) >= sizeof(folder))
		return tv_fail(errbuf, cap, TV_EINVAL, "%s: the path is too long", dir);
	def_set_done(&p->defined);
	err = def_files_read(&p->defined, folder, USER, allows_scripts(&p->conf) ? DEF_SCRIPTS_ON :
	    allows_scripts(c) ? DEF_SCRIPTS_AFTER_RESTART : DEF_SCRIPTS_OFF, p->registry, errbuf, cap);
	if (err == TV_OK && whole && p->registry != NULL)
		err = registry_definable(p->registry, p->defined.v, p->defined.n, errbuf, cap);
	return err;
}

/* What is a mistake only where tokens are in use. */
static void
warn_of_clear_text(const struct daemon_spec *d)
{
	const struct rpcd_conf *c = d->conf;
	const char *address = rpcd_conf_clear_address(c);

	if (address == NULL || !d->cluster->acl_enabled || (c->https_port != 0 && !c->http_plaintext_tokens))
		return;
	log_warn("rpcd", "http_addresses: %s is reached by other machines in plaintext, and access control is on: "
	    "tokens are %s", address, c->http_plaintext_tokens ? "taken there, and can be read on the way "
	    "(http_allow_plaintext_tokens)" : "refused there; serve HTTPS, or set http_allow_plaintext_tokens = true");
}

/* The other way round: without tokens, a certificate alone could tell who may ask. */
static void
warn_of_open_https(const struct daemon_spec *d)
{
	const char *address = rpcd_conf_open_address(d->conf);

	if (address == NULL || d->cluster->acl_enabled)
		return;
	log_warn("rpcd", "https: %s is open to other machines, and without access control any client that reaches it "
	    "can read and write all data: switch access control on (acl.enabled in cluster.conf), or have clients show "
	    "certificates (tls.https.verify_incoming)", address);
}

static enum tv_err
check_conf(struct daemon_spec *d, char *errbuf, size_t cap)
{
	int n = snprintf(errbuf, cap, "%s/rpcd.conf: ", d->conf_dir);

	if (n < 0 || (size_t)n >= cap)
		n = 0;
	enum tv_err err = rpcd_conf_check(d->conf, errbuf + n, cap - (size_t)n);
	if (err == TV_OK)
		err = dns_conf_check(d->conf, d->cluster->datacenter, errbuf + n, cap - (size_t)n);
	if (err == TV_OK) {
		warn_of_clear_text(d);
		warn_of_open_https(d);
	}
	return err == TV_OK ? read_definitions(d->ctx, d->conf, d->conf_dir, true, errbuf, cap) : err;
}

static void
allow(struct daemon_spec *d, struct sandbox_policy *policy)
{
	const struct rpcd *p = d->ctx;

	sandbox_path(policy, p->gossipd_path, SANDBOX_CONNECT);
	sandbox_path(policy, p->raftd_path, SANDBOX_CONNECT);
	sandbox_port(policy, p->cluster.rpc_port);
	policy->inet = true;
	policy->unix_stream = true;
	policy->threads = true;		/* that write the registry to disk */
}

/* -- wiring ------------------------------------------------------------------ */

static uint64_t
seed(void)
{
	uint64_t v;

	randombytes_buf(&v, sizeof(v));
	return v;
}

/* Each time once for all members that changed in this time: there may be thousands. */
static void
on_look_servers(struct ev_loop *loop, ev_timer *w, int events UNUSED)
{
	struct rpcd *p = w->data;
	unsigned count = 0;

	ev_timer_stop(loop, w);
	for (unsigned i = 0; i < members_count(p->members, POOL_LAN); i++) {
		const struct member *m = members_at(p->members, POOL_LAN, i);

		count += m->status == MEMBER_ALIVE && span_eqs(member_tag(m, "role"), "server");
	}
	if (count > p->servers && p->registry != NULL)
		registry_server_came(p->registry);
	p->servers = count;
}

static void
on_change(void *ctx)
{
	struct rpcd *p = ctx;

	if (!ev_is_active(&p->look_servers))
		ev_timer_again(p->loop, &p->look_servers);

	if (p->route != NULL)
		route_wake(p->route);
	acl_replicator_wake(p->replicator);
	if (p->coords != NULL)
		coords_wake(p->coords);
	dns_process_members(p->dns);
}

static void
on_written(void *ctx, enum op_code op)
{
	struct rpcd *p = ctx;

	if (op == OP_CATALOG_REGISTER || op == OP_CATALOG_DEREGISTER || op == OP_QUERY_CREATE ||
	    op == OP_QUERY_UPDATE || op == OP_QUERY_DELETE)
		dns_process_written(p->dns);
}

static enum tv_err
on_user_event(void *ctx, struct span body)
{
	struct rpcd *p = ctx;

	return events_told(p->events, body);
}

static void
on_subscribed(void *ctx)
{
	struct rpcd *p = ctx;

	events_subscribed(p->events);
}

static enum tv_err
on_query(void *ctx, struct span body)
{
	struct rpcd *p = ctx;

	return queries_told(p->queries, body);
}

/* gossipd's ring, at first and after each change.  Links whose key has left it end, new ones use what it holds now. */
static void
on_keys(void *ctx, const struct span *psks, unsigned count)
{
	struct rpcd *p = ctx;

	if (p->psks == NULL || count == 0 || count > KEYRING_KEYS_MAX)
		return;
	for (unsigned i = 0; i < count; i++)
		memcpy(p->psks[i].bytes, psks[i].p, KEY_BYTES);
	for (unsigned i = count; i < p->noise.psk_count; i++)
		sodium_memzero(p->psks[i].bytes, KEY_BYTES);
	p->noise.psk_count = count;
	if (p->links != NULL)
		link_client_rekeyed(p->links);
	if (p->link_server != NULL)
		link_server_rekeyed(p->link_server);
}

static bool
peer_allowed(void *ctx, uid_t uid, const gid_t *gids, unsigned count)
{
	const struct rpcd *p = ctx;

	if (daemon_peer_allowed(uid))
		return true;
	for (unsigned i = 0; i < count && p->spec->socket_gid != (gid_t)-1; i++)
		if (gids[i] == p->spec->socket_gid)
			return true;
	return false;
}

static void
quit_after_leave(void *ctx UNUSED)
{
	log_info("rpcd", "this node has left, stopping");
	daemon_quit(0);
}

/* Is a member of a pool at this address? */
static bool
source_known(void *ctx, uint64_t source)
{
	const struct rpcd *p = ctx;

	for (int pool = 0; pool < 2; pool++)
		for (unsigned i = 0; i < members_count(p->members, (enum gossip_pool)pool); i++) {
			const struct member *m = members_at(p->members, (enum gossip_pool)pool, i);
			struct addr a = addr_of_bytes(m->addr, m->addr_len);

			if (source_of_ip(&a) == source)
				return true;
		}
	return false;
}

static void
on_link_answered(void *ctx, const char *peer, uint64_t bytes_in, uint64_t bytes_out)
{
	struct rpcd *p = ctx;

	accounts_add_node(&p->api.accounts, peer, bytes_in, bytes_out);
}

/* What is in rpcd's memory of the default token, in DNS above all, is asked for again; copies may begin, or end. */
static void
on_token(void *ctx)
{
	struct rpcd *p = ctx;

	dns_process_reload(p->dns, rpcd_log_level(p));
	acl_replicator_wake(p->replicator);
	registry_token_changed(p->registry);
}

static bool
start_acl(struct rpcd *p)
{
	char why[512];

	p->tokens = (struct agent_tokens){ .conf = &p->conf, .path = p->tokens_path, .changed = on_token, .ctx = p };
	if (agent_tokens_open(&p->tokens, why, sizeof(why)) != TV_OK) {
		log_err("rpcd", "%s", why);
		return false;
	}
	p->acl = acl_resolver_new(&(struct acl_resolver_conf){
		.loop = p->loop, .route = p->route, .conf = &p->conf, .tokens = &p->tokens,
		.node_name = p->cluster.node_name, .server = p->cluster.server, .expected = p->cluster.acl_enabled,
		.path = p->acl_path,
	});
	return p->acl != NULL;
}

/* Carried out here, for tokens that have the right. */
static void
guard(struct rpcd *p, struct acl_guard *g, enum op_kind kind, struct route_provider inner)
{
	*g = (struct acl_guard){ .resolver = p->acl, .loop = p->loop, .inner = inner };
	acl_guard_provide(g, p->route, kind);
}

static struct token_source
own_token(const struct rpcd *p)
{
	return (struct token_source){ agent_token_own, &p->tokens, agent_token_own_key };
}

static struct token_source
default_token(const struct rpcd *p)
{
	return (struct token_source){ .get = agent_token_default, .tokens = &p->tokens };
}

static struct span
replication_token(void *ctx)
{
	const struct rpcd *p = ctx;

	return agent_token(&p->tokens, RPCD_TOKEN_REPLICATION);
}

static bool
start_replicator(struct rpcd *p)
{
	const char *primary = cluster_acl_primary(&p->cluster);

	if (primary == NULL || !p->cluster.acl_enabled)
		return true;
	p->replicator = acl_replicator_new(&(struct acl_replicator_conf){
		.loop = p->loop, .route = p->route, .raft = p->raft, .members = p->members, .primary = primary,
		.token = replication_token, .ctx = p, .seed = seed(),
	});
	return p->replicator != NULL;
}

static bool
start_routing(struct rpcd *p)
{
	const struct rpcd_conf *c = &p->conf;
	size_t answer_max = (size_t)c->answer_bytes_max;

	p->members = members_new(&(struct members_conf){
		.loop = p->loop, .path = p->gossipd_path, .node_id = p->cluster.node_id,
		.datacenter = p->cluster.datacenter, .members_max = (unsigned)c->members_max,
		.on_change = on_change, .on_user_event = on_user_event, .on_query = on_query,
		.on_subscribed = on_subscribed, .on_keys = on_keys, .ctx = p,
	});
	if (p->cluster.server)
		p->raft = raftd_client_new(&(struct raftd_client_conf){
			.loop = p->loop, .path = p->raftd_path, .node_id = p->cluster.node_id, .answer_max = answer_max,
			.out_max = (size_t)c->link_out_bytes_max, .pending_max = (unsigned)c->link_pending_max,
			.on_change = on_change, .ctx = p,
		});
	if (p->cluster.server)
		p->coords = coords_new(p->loop, p->members);
	p->links = link_client_new(&(struct link_client_conf){
		.loop = p->loop, .noise = cluster_seals(&p->cluster) ? &p->noise : NULL,
		.node_id = p->cluster.node_id, .dial_timeout = c->link_dial_timeout,
		.idle_timeout = c->link_idle_timeout, .retire_time = c->answer_timeout, .answer_max = answer_max,
		.out_max = (size_t)c->link_out_bytes_max, .pending_max = (unsigned)c->link_pending_max,
		.links_max = (unsigned)c->links_max,
	});
	if (p->members == NULL || p->links == NULL || (p->cluster.server && (p->raft == NULL || p->coords == NULL)))
		return false;
	p->route = route_new(&(struct route_conf){
		.loop = p->loop, .datacenter = p->cluster.datacenter, .node_id = p->cluster.node_id,
		.members = p->members, .links = p->links, .raft = p->raft, .coords = p->coords,
		.rpc_port = p->cluster.rpc_port, .hold_timeout = c->rpc_hold_timeout,
		.answer_timeout = c->answer_timeout,
		.calls_max = (unsigned)c->calls_pending_max, .bytes_max = c->calls_bytes_max, .seed = seed(),
		.on_written = on_written, .ctx = p,
	});
	if (p->route == NULL || !start_acl(p))
		return false;
	guard(p, &p->fire_guard, OP_GOSSIP, fire_provider(p->members));
	p->cache = cache_new(&(struct cache_conf){
		.loop = p->loop, .route = p->route, .failovers = &p->failovers, .bytes_max = c->cache_bytes_max,
		/* Each has a call under way for as long as it lives, and clients need some too. */
		.entries_max = (unsigned)c->calls_pending_max / 2,
		.ttl = c->cache_ttl, .hold = c->rpc_hold_timeout, .query_time = CACHE_QUERY_TIME, .seed = seed(),
	});
	if (p->cache == NULL || !p->cluster.server)
		return p->cache != NULL;
	if (!start_replicator(p))
		return false;
	p->datacenters = (struct datacenters){ p->members, p->coords };
	route_provide(p->route, OP_VIEW, &(struct route_provider){
		.answer = datacenters_answer, .ctx = &p->datacenters,
	});
	guard(p, &p->keyring_guard, OP_GOSSIP_SERVER, (struct route_provider){
		.start = keyring_query_start, .cancel = keyring_query_cancel, .ctx = p->members,
		.away = "gossipd is not running on the server that was asked",
	});
	p->link_server = link_server_new(&(struct link_server_conf){
		.loop = p->loop, .fd = p->rpc_fd, .noise = p->cluster.have_keys ? &p->noise : NULL,
		.accept_clear = cluster_takes_clear(&p->cluster), .node_id = p->cluster.node_id, .route = p->route,
		.conns_max = (unsigned)c->rpc_max_conns, .pending_max = (unsigned)c->link_pending_max,
		.request_max = (size_t)c->request_bytes_max + FRAME_OVERHEAD,
		.out_max = (size_t)c->link_out_bytes_max, .open_timeout = c->link_dial_timeout,
		.retire_time = c->answer_timeout,
		.is_known = source_known, .answered = on_link_answered, .ctx = p,
	});
	p->rpc_fd = -1;
	return p->link_server != NULL;
}

static unsigned
lan_members(void *ctx)
{
	const struct rpcd *p = ctx;

	return members_count(p->members, POOL_LAN);
}

/* It would not show that states are old: a start anew, after which checks run, is better. */
static void
checks_lost(void *ctx UNUSED)
{
	log_err("rpcd", "the process that starts \"rpcd: check\" is gone, and checks cannot be run without: stopping, "
	    "to be started again");
	daemon_quit(1);
}

static struct tls_client_conf
tls_of_checks(const struct rpcd *p)
{
	struct rpcd_tls t = rpcd_tls_for(&p->conf, RPCD_TLS_CHECKS);

	return (struct tls_client_conf){ t.ca_file, t.ca_path, t.cert_file, t.key_file };
}

static bool
start_checks(struct rpcd *p)
{
	const struct rpcd_conf *c = &p->conf;

	p->checks = checks_new(&(struct checks_conf){
		.loop = p->loop, .registry = p->registry, .route = p->route, .node_name = p->cluster.node_name,
		.token = own_token(p),
		.monitor = {
			[ROLE_NETWORK] = p->check_monitor, [ROLE_DOCKER] = p->docker_monitor,
			[ROLE_SCRIPTS] = allows_scripts(c) ? p->check_monitor : -1,
		},
		.runs_max = c->check_runs_max, .output_max = c->check_output_max_size,
		.follow_redirects = c->follow_redirects, .remote_scripts = c->enable_script_checks,
		.log_level = rpcd_log_level(p), .tls = tls_of_checks(p),
		.lost = checks_lost,
	});
	return p->checks != NULL;
}

struct service_walk {
	void (*fn)(void *ctx, const struct service *s);
	void *ctx;
};

static void
walk_service(void *ctx, const struct local_record *rec)
{
	struct service_walk *w = ctx;

	w->fn(w->ctx, &rec->service);
}

static void
own_services(void *ctx, void (*fn)(void *fn_ctx, const struct service *s), void *fn_ctx)
{
	struct rpcd *p = ctx;

	registry_each(p->registry, ENTRY_SERVICE, walk_service, &(struct service_walk){ fn, fn_ctx });
}

struct definition_changes {
	struct registry *registry;
	unsigned n[3];			/* by enum registry_change */
};

static void
log_change(void *ctx, enum registry_change change, enum entry_kind kind, struct span id, struct span place)
{
	static const char *const names[] = { "added", "changed", "removed" };
	struct definition_changes *c = ctx;
	char why[DEFINITION_TEXT_MAX], safe[DEFINITION_TEXT_MAX * 2];
	struct local_record rec;

	c->n[change]++;
	if (c->n[0] + c->n[1] + c->n[2] > CHANGES_LOGGED_MAX)
		return;
	log_info("agent", "services.d: %s %s %.*s%s%.*s%s", names[change], kind == ENTRY_SERVICE ? "service" : "check",
	    (int)id.len, (const char *)id.p, place.len > 0 ? " (" : "", (int)place.len, (const char *)place.p,
	    place.len > 0 ? ")" : "");
	if (change != DEFINED_NEW || kind != ENTRY_SERVICE)
		return;
	const struct entry *e = registry_find(c->registry, kind, id);
	if (e != NULL && registry_get(e, &rec) && definition_hidden_from_dns(&rec.service, why))
		log_warn("agent", "%s", log_safe(span_str(why), safe, sizeof(safe)));
}

static void
take_definitions(struct rpcd *p, bool push)
{
	struct definition_changes c = { .registry = p->registry };

	registry_define(p->registry, p->defined.v, p->defined.n, push, log_change, &c);
	if (c.n[0] + c.n[1] + c.n[2] > CHANGES_LOGGED_MAX)
		log_info("agent", "services.d: and %u more", c.n[0] + c.n[1] + c.n[2] - CHANGES_LOGGED_MAX);
	if (p->defined.files > 0 || c.n[2] > 0)
		log_info("agent", "services.d: %u files with %u services and checks: %u added, %u changed, %u removed",
		    p->defined.files, p->defined.n, c.n[0], c.n[1], c.n[2]);
	def_set_done(&p->defined);
}

/* At the start they were checked before what is registered was known, which sidecars' ports depend on. */
static bool
read_again(struct rpcd *p)
{
	char why[1024];

	if (read_definitions(p, &p->conf, p->spec->conf_dir, false, why, sizeof(why)) == TV_OK)
		return true;
	log_err("rpcd", "%s", why);
	return false;
}

static void
dns_lost(void *ctx UNUSED)
{
	log_err("rpcd", "the process that starts \"rpcd: dns\" is gone, and DNS cannot be served without: stopping, "
	    "to be started again");
	daemon_quit(1);
}

static bool
start_dns(struct rpcd *p)
{
	if (p->dns_monitor < 0)
		return true;
	p->dns = dns_process_new(&(struct dns_process_conf){
		.loop = p->loop, .monitor = p->dns_monitor, .route = p->route, .failovers = &p->failovers,
		.cache = p->cache, .members = p->members, .gossip = members_daemon(p->members), .conf = &p->conf,
		.datacenter = p->cluster.datacenter, .node_name = p->cluster.node_name, .token = default_token(p),
		.log_level = rpcd_log_level(p),
		.lost = dns_lost,
	});
	return p->dns != NULL;
}

/* With the first certificate: who came before it has waited. */
static enum tv_err
serve_https(struct rpcd *p)
{
	enum tv_err err = TV_OK;

	while (p->https_fd_count > 0 && err == TV_OK)
		err = http_listen(p->http, p->https_fds[--p->https_fd_count], p->tls);
	return err;
}

/* Certificates of HTTPS: the first ones, or others.  Without any rpcd is not ready. */
static bool
on_key_files(void *ctx, const struct keys_files *files)
{
	struct rpcd *p = ctx;
	enum tv_err err = tls_renewal_take(p->tls_renewal, files);

	if (p->has_certificate)
		return err == TV_OK;
	if (err == TV_OK && (err = serve_https(p)) != TV_OK)
		log_err("rpcd", "no memory for HTTPS");
	if (err != TV_OK) {
		daemon_quit(1);
		return false;
	}
	daemon_ready("serving");
	p->has_certificate = true;
	return true;
}

/* Logged already. */
static void
on_key_trouble(void *ctx, const char *why UNUSED)
{
	const struct rpcd *p = ctx;

	if (!p->has_certificate)
		daemon_quit(1);
}

static void
keys_lost(void *ctx UNUSED)
{
	log_err("rpcd", "the process that starts \"rpcd: keys\" is gone, and HTTPS cannot be served without: stopping, "
	    "to be started again");
	daemon_quit(1);
}

static enum tv_err
sign(void *ctx, uint64_t number, enum keys_alg alg, struct span what, uint8_t *sig, size_t *len, struct mono deadline)
{
	const struct rpcd *p = ctx;

	return keys_sign(p->keys, number, alg, what, sig, len, deadline);
}

static bool
start_keys(struct rpcd *p)
{
	if (p->keys_monitor < 0)
		return true;
	p->tls = tls_server_new(&(struct tls_server_conf){
		.loop = p->loop, .sign = sign, .ctx = p, .h2 = true,
		.handshake_timeout = p->conf.https_handshake_timeout,
	});
	p->tls_renewal = p->tls == NULL ? NULL : tls_renewal_new(p->loop, p->tls, &p->conf);
	if (p->tls_renewal == NULL)
		return false;
	p->keys = keys_new(&(struct keys_conf){
		.loop = p->loop, .monitor = p->keys_monitor, .conf = &p->conf, .log_level = rpcd_log_level(p),
		.on_files = on_key_files, .on_bad = on_key_trouble, .lost = keys_lost, .ctx = p,
	});
	return p->keys != NULL;
}

static void
reload(struct daemon_spec *d)
{
	struct rpcd *p = d->ctx;

	(void)trail_configure(p->trail, &p->conf, &p->cluster);	/* logged there */
	(void)limits_configure(&p->api.limits, &p->conf);	/* likewise */
	take_definitions(p, true);
	agent_tokens_reload(&p->tokens);
	cache_limit(p->cache, p->conf.cache_bytes_max, p->conf.cache_ttl);
	if (!p->conf.use_cache)
		cache_clear(p->cache);
	const struct tls_client_conf tls = tls_of_checks(p);
	checks_reload(p->checks, rpcd_log_level(p), &tls);
	dns_process_reload(p->dns, rpcd_log_level(p));
	if (p->tls_renewal != NULL)
		tls_renewal_reload(p->tls_renewal);
	keys_reload(p->keys, rpcd_log_level(p));
	acl_replicator_wake(p->replicator);
	registry_token_changed(p->registry);
}

static bool
start_agent(struct rpcd *p)
{
	const struct rpcd_conf *c = &p->conf;

	p->admin = admin_new(&(struct admin_conf){
		.loop = p->loop, .members = p->members, .raft = p->raft,
		.leave_timeout = c->leave_timeout, .call_timeout = c->admin_timeout, .own_info = info_put, .ctx = p,
	});
	p->dns_explainer = dns_explainer_new(&(struct dns_lookups_conf){
		.loop = p->loop, .route = p->route, .failovers = &p->failovers, .cache = p->cache,
		.members = p->members, .conf = &p->conf, .datacenter = p->cluster.datacenter,
		.node_name = p->cluster.node_name, .token = default_token(p), .calls_max = EXPLAIN_LOOKUPS_MAX,
		.quiet = true,
	});
	p->registry = registry_open(&(struct registry_conf){
		.node_name = p->cluster.node_name, .node_id = p->cluster.node_id, .address = p->cluster.advertise,
		.cluster = &p->cluster, .entries_max = (unsigned)c->checks_max, .output_max = c->check_output_max_size,
		.sync_interval = c->sync_interval, .update_interval = c->check_update_interval,
		.sync_wait = c->check_sync_wait, .seed = seed(), .route = p->route, .token = own_token(p),
		.file_token = { .get = agent_token_config_file, .tokens = &p->tokens },
		.members = lan_members, .ctx = p,
	}, p->loop, p->checks_path);
	if (p->registry == NULL || !start_checks(p) || !start_dns(p) || !read_again(p))
		return false;
	take_definitions(p, false);
	p->events = events_new(&(struct events_conf){
		.loop = p->loop, .node_name = p->cluster.node_name, .services = own_services, .ctx = p,
	});
	p->queries = queries_new(p->loop);
	p->log_streams = log_streams_new(&(struct log_streams_conf){
		.loop = p->loop, .gossipd_path = p->gossipd_path, .node_id = p->cluster.node_id,
		.raftd_path = p->cluster.server ? p->raftd_path : NULL,
	});
	p->coord_report = coord_report_new(&(struct coord_report_conf){
		.loop = p->loop, .members = p->members, .route = p->route, .conf = c, .node_name = p->cluster.node_name,
		.token = own_token(p), .seed = seed(),
	});
	p->twin_watch = twin_watch_new(&(struct twin_watch_conf){
		.loop = p->loop, .members = p->members, .registry = p->registry,
		.self = { .name = p->cluster.node_name, .id = p->cluster.node_id, .datacenter = p->cluster.datacenter,
		    .data_dir = p->cluster.data_dir },
	});
	return p->admin != NULL && p->registry != NULL && p->events != NULL && p->queries != NULL &&
	    p->dns_explainer != NULL && p->log_streams != NULL && p->coord_report != NULL && p->twin_watch != NULL;
}

static void
accessor_found(void *ctx, const struct acl_answer *a)
{
	audit_know(ctx, a->standing == ACL_GRANTED ? span_str(a->rights->accessor) : SPAN_NONE);
}

/* For the audit trail: whose token is this? */
static void
find_accessor(void *ctx, struct span token, struct audit_wait *w)
{
	struct rpcd *p = ctx;
	struct span known = resolver_accessor(p->acl, token);
	struct acl_answer now;
	struct acl_wait *wait;
	enum acl_got got;

	if (acl_is_master(p->acl, token))
		known = span_str("agent-master");
	if (known.len > 0) {
		audit_know(w, known);
		return;
	}
	got = acl_ask(p->acl, token, &now, accessor_found, w, &wait);
	if (got == ACL_NOW)
		accessor_found(w, &now);
	else if (got == ACL_BUSY)
		audit_know(w, SPAN_NONE);
}

static bool
is_leader(void *ctx)
{
	const struct rpcd *p = ctx;
	const struct raftd_client_status *st = p->raft == NULL ? NULL : raftd_client_status(p->raft);

	return st != NULL && st->up && strcmp(st->leader_id, p->cluster.node_id) == 0;
}

static enum tv_err
start_http(struct rpcd *p)
{
	enum tv_err err = TV_OK;

	endpoint_index();
	p->gzip = gzip_new();
	p->trail = trail_new(p->loop, p->cluster.node_name);
	if (p->trail == NULL || trail_configure(p->trail, &p->conf, &p->cluster) != TV_OK)
		return TV_ENOMEM;
	p->failovers.conf = (struct failover_conf){ p->route, p->loop, &p->conf.failover_timeout };
	p->api = (struct api){
		.conf = &p->conf, .cluster = &p->cluster, .route = p->route, .failovers = &p->failovers,
		.members = p->members, .admin = p->admin,
		.acl = p->acl, .tokens = &p->tokens,
		.registry = p->registry, .events = p->events, .queries = p->queries,
		.log_streams = p->log_streams, .cache = p->cache, .gzip = p->gzip, .host = &p->host,
		.dns_explainer = p->dns_explainer, .trail = p->trail, .accessor = find_accessor, .accessor_ctx = p,
		.quit = quit_after_leave,
		.reload = daemon_reload,
		.asked = { .burst = 100, .period = MONO_S(60) },
		.token_in_query = { .burst = 1, .period = MONO_S(600) },
		.token_in_clear = { .burst = 1, .period = MONO_S(600) },
		.began = clock_mono(),
		.clear_lines = { .burst = 60, .period = MONO_S(60) },
		.leads = is_leader, .leads_ctx = p,
		.fields_ignored = { .burst = 3, .period = MONO_S(60) },
	};
	if (!limits_configure(&p->api.limits, &p->conf))
		return TV_ENOMEM;
	api_render_start(&p->api, p->loop);
	p->http = http_new(&(struct http_conf){
		.loop = p->loop, .api = &p->api, .conf = &p->conf, .peer_allowed = peer_allowed, .ctx = p,
	});
	if (p->http == NULL || p->gzip == NULL)
		return TV_ENOMEM;
	while (p->http_fd_count > 0 && err == TV_OK)
		err = http_listen(p->http, p->http_fds[--p->http_fd_count], NULL);
	return err;
}

static enum tv_err
start_rpcd(struct daemon_spec *d, struct ev_loop *loop)
{
	struct rpcd *p = d->ctx;

	p->loop = loop;
	p->started = clock_mono();
	loop_turns_start(&p->turns, loop);
	ev_init(&p->look_servers, on_look_servers);
	p->look_servers.repeat = LOOK_SERVERS_S;
	p->look_servers.data = p;
	if (!start_routing(p) || !start_agent(p) || !start_keys(p))
		return TV_ENOMEM;
	enum tv_err err = start_http(p);
	if (err == TV_OK && p->keys == NULL)
		daemon_ready("serving");
	return err;
}

/*
 * What is under way gets its answer; what comes now is sent elsewhere.  Blocking queries may wait for minutes: they end
 * with rpcd.
 */
static void
on_settle(struct ev_loop *loop, ev_timer *w, int events UNUSED)
{
	struct rpcd *p = w->data;

	/* One look later than settled: the answers have been written then. */
	if (!p->settled && mono_before(clock_mono(), p->stop_at)) {
		p->settled = route_settled(p->route) && http_settled(p->http);
		return;
	}
	ev_timer_stop(loop, w);
	daemon_quit(0);
}

static bool
wind_down(struct daemon_spec *d)
{
	struct rpcd *p = d->ctx;

	if (p->link_server != NULL)
		link_server_quiesce(p->link_server);
	http_quiesce(p->http);
	p->stop_at = mono_add(clock_mono(), SETTLE_TIME);
	ev_timer_init(&p->settle, on_settle, SETTLE_LOOK_S, SETTLE_LOOK_S);
	p->settle.data = p;
	ev_timer_start(p->loop, &p->settle);
	return true;
}

/* From the outside to the inside: a module is freed after all that ask it. */
static void
stop_rpcd(struct daemon_spec *d)
{
	struct rpcd *p = d->ctx;

	if (p->settle.data != NULL)
		ev_timer_stop(p->loop, &p->settle);
	loop_turns_stop(&p->turns);
	ev_timer_stop(p->loop, &p->look_servers);
	http_free(p->http);
	keys_close(p->keys);		/* so that no handshake waits for a signature any more */
	tls_renewal_free(p->tls_renewal);
	tls_server_free(p->tls);
	keys_free(p->keys);
	dns_process_free(p->dns);
	dns_explainer_free(p->dns_explainer);
	registry_close(p->registry);
	checks_free(p->checks);
	events_free(p->events);
	queries_free(p->queries);
	log_streams_free(p->log_streams);
	admin_free(p->admin);
	link_server_free(p->link_server);
	cache_free(p->cache);
	acl_resolver_free(p->acl);
	acl_replicator_free(p->replicator);
	p->replicator = NULL;
	route_free(p->route);
	link_client_free(p->links);
	raftd_client_free(p->raft);
	members_free(p->members);		/* ends the API's questions to gossipd */
	api_done(&p->api);
	trail_free(p->trail);
	twin_watch_free(p->twin_watch);
	coord_report_free(p->coord_report);		/* their calls have ended with route and view */
	coords_free(p->coords);
	agent_tokens_close(&p->tokens);
	gzip_free(p->gzip);
	opening_close(p);
}

static void
listens(const struct daemon_spec *d, struct buf *out)
{
	const struct rpcd *p = d->ctx;

	for (size_t i = 0; i < p->conf.http_addresses.count && p->conf.http_port != 0; i++)
		daemon_put_addr(out, p->conf.http_addresses.items[i], p->conf.http_port);
	buf_puts(out, out->len > 0 ? " (HTTP)" : "");
	for (size_t i = 0; i < rpcd_https_addresses(&p->conf)->count && p->conf.https_port != 0; i++) {
		daemon_put_addr(out, rpcd_https_addresses(&p->conf)->items[i], p->conf.https_port);
		buf_puts(out, " (HTTPS)");
	}
	for (size_t i = 0; i < dns_addresses(&p->conf)->count && p->conf.dns_port != 0; i++) {
		daemon_put_addr(out, dns_addresses(&p->conf)->items[i], p->conf.dns_port);
		buf_puts(out, " (DNS)");
	}
	if (p->cluster.server)
		daemon_put_addr(out, p->cluster.bind, p->cluster.rpc_port);
	buf_printf(out, "%s%s/rpcd.sock", out->len > 0 ? ", " : "", p->cluster.run_dir);
}

#define OWN_DESCRIPTORS 128	/* files, channels to daemons and processes, listeners, streams of logs */

static uint64_t
descriptors(const struct daemon_spec *d)
{
	const struct rpcd_conf *c = d->conf;
	uint64_t listeners = 1 + (c->http_port != 0 ? c->http_addresses.count : 0) +
	    (c->https_port != 0 ? rpcd_https_addresses(c)->count : 0);

	return OWN_DESCRIPTORS + c->http_max_conns * listeners + c->links_max +
	    (d->cluster->server ? c->rpc_max_conns : 0);
}

/* For -nn. */
static bool
check_files(const struct daemon_spec *d)
{
	const struct rpcd_conf *c = d->conf;
	struct rpcd_tls t = rpcd_tls_for(c, RPCD_TLS_HTTPS);

	return c->https_port == 0 ||
	    keys_check_files(&(struct keys_check){ t.cert_file, t.key_file, t.ca_file, t.ca_path });
}

int
main(int argc, char **argv)
{
	struct rpcd p = { .rpc_fd = -1, .check_monitor = -1, .docker_monitor = -1, .dns_monitor = -1,
	    .keys_monitor = -1, .argv = argv };
	struct daemon_spec spec = {
		.name = "rpcd",
		.user = USER,
		.socket_group = OPERATOR_GROUP,
		.asks_gossipd = true,
		.opts = rpcd_opts,
		.opt_count = rpcd_opt_count,
		.conf_size = sizeof(p.conf),
		.conf = &p.conf,
		.cluster = &p.cluster,
		.check = check_conf,
		.check_files = check_files,
		.addresses = {
			{ "http_addresses", &p.conf.http_addresses, NULL },	/* DNS may be there alone */
			{ "https_addresses", &p.conf.https_addresses, &p.conf.https_port },
			{ "dns_addresses", &p.conf.dns_addresses, &p.conf.dns_port },
		},
		.descriptors = descriptors,
		.descriptor_keys = "limits.http_max_conns, limits.rpc_max_conns and limits.links_max",
		.open = opening_open,
		.listens = listens,
		.policy = allow,
		.run = start_rpcd,
		.reload = reload,
		.wind_down = wind_down,
		.stop = stop_rpcd,
		.without_data = "Checks and services of this node are no longer saved: a restart would lose them. If "
		    "the folder was moved, move it back; if it is lost, restart rpcd to create it again",
		.ctx = &p,
	};

	if (tls_server_is_built())
		(void)prctl(PR_SET_NAME, spec.name);	/* not that of the program, rpcd-tls */
	int status = daemon_main(&spec, argc, argv);
	def_set_done(&p.defined);	/* after a check, or a start that failed */
	return status;
}
