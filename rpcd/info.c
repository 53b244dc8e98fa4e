/* See info.h.  Each function adds what it names, and says how many pairs those are. */
#include <stdio.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/chan.h"
#include "common/proc/sandbox.h"
#include "common/record/mpack.h"
#include "rpcd/audit/trail.h"
#include "rpcd/cache/cache.h"
#include "rpcd/checks/checks.h"
#include "rpcd/event/events.h"
#include "rpcd/http/http.h"
#include "rpcd/info.h"
#include "rpcd/keys/keys.h"
#include "rpcd/names/dns_process.h"
#include "rpcd/node/coord_report.h"
#include "rpcd/node/twin_watch.h"
#include "rpcd/registry/registry_loop.h"
#include "rpcd/replicate/replicate.h"
#include "rpcd/route/link_server.h"
#include "rpcd/rpcd.h"
#include "rpcd/tls/tls_renewal.h"

struct number {
	const char *name;
	uint64_t value;
};

static void
put_text(void *b, const char *name, const char *value)
{
	mpw_cstr(b, name);
	mpw_cstr(b, value);
}

static unsigned
put_numbers(struct buf *b, const struct number *v, unsigned n)
{
	char text[32];

	for (unsigned i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)v[i].value);
		put_text(b, v[i].name, text);
	}
	return n;
}

#define PUT_NUMBERS(b_, ...) put_numbers((b_), (const struct number[]){ __VA_ARGS__ }, \
	sizeof((const struct number[]){ __VA_ARGS__ }) / sizeof(struct number))

static unsigned
put_http(const struct rpcd *p, struct buf *b)
{
	struct http_stats http;

	http_stats(p->http, &http);
	return PUT_NUMBERS(b,
		{ "uptime_s", (uint64_t)mono_sub(clock_mono(), p->started).ns / 1000000000 },
		{ "http_requests", p->api.stats.requests }, { "http_errors", p->api.stats.errors },
		{ "http_under_way", p->api.stats.live }, { "http_cancelled", p->api.stats.cancelled },
		{ "http_conns", http.conns }, { "http_conns_waiting", http.waiting },
		{ "http_conns_accepted", http.accepted },
		{ "http_conns_refused_busy", http.refused_busy }, { "http_conns_refused_peer", http.refused_peer },
		{ "http_conns_timed_out", http.timed_out }, { "http_conns_evicted", http.evicted },
		{ "http_malformed", http.malformed },
		{ "http_refused_secrets_in_clear", p->api.stats.clear_refused },
		{ "http_refused_by_http_config", p->api.stats.gate_refused },
		{ "http_bodies_bytes", http.bodies_bytes }, { "http_bodies_refused", http.refused_bodies },
		{ "http_carried_bytes", http.carried_bytes },
		{ "https_handshakes_late", http.handshakes_late },
		{ "http2_conns", http.h2_conns }, { "http2_streams", http.h2_streams },
		{ "http2_requests", http.h2_requests }, { "http2_refused", http.h2_refused },
		{ "http2_resets", http.h2_resets }, { "http2_rapid_resets", http.h2_rapid_resets },
		{ "http2_floods", http.h2_floods }, { "http2_bombs", http.h2_bombs },
		{ "http2_broken", http.h2_broken });
}

/* What limits.request_limits was exceeded by: refused only where its mode is enforcing. */
static unsigned
put_limits(const struct rpcd *p, struct buf *b)
{
	const struct limits *l = &p->api.limits;

	return PUT_NUMBERS(b,
		{ "limit_refused", l->stats.refused }, { "limit_forgotten", limits_forgotten(l) },
		{ "limit_reads_exceeded", l->stats.exceeded[LIMIT_ALL][0] },
		{ "limit_writes_exceeded", l->stats.exceeded[LIMIT_ALL][1] },
		{ "limit_source_reads_exceeded", l->stats.exceeded[LIMIT_SOURCE][0] },
		{ "limit_source_writes_exceeded", l->stats.exceeded[LIMIT_SOURCE][1] },
		{ "limit_token_reads_exceeded", l->stats.exceeded[LIMIT_TOKEN][0] },
		{ "limit_token_writes_exceeded", l->stats.exceeded[LIMIT_TOKEN][1] });
}

static unsigned
put_calls(const struct rpcd *p, struct buf *b)
{
	struct route_stats routes;
	struct cache_stats cache;

	route_stats(p->route, &routes);
	cache_stats(p->cache, &cache);
	return PUT_NUMBERS(b,
		{ "calls", routes.started }, { "calls_local", routes.local }, { "calls_forwarded", routes.forwarded },
		{ "calls_forwarded_dc", routes.forwarded_dc }, { "calls_retried", routes.retried },
		{ "calls_held", routes.held }, { "calls_failed", routes.failed }, { "calls_unknown", routes.unknown },
		{ "calls_joined", routes.joined }, { "calls_under_way", routes.under_way },
		{ "calls_bytes", routes.bytes }, { "calls_refused", routes.refused },
		{ "cache_entries", cache.entries }, { "cache_bytes", cache.bytes },
		{ "cache_hits", cache.hits }, { "cache_misses", cache.misses }, { "cache_waiting", cache.waiting },
		{ "cache_fetches", cache.fetches }, { "cache_fetches_under_way", cache.fetching },
		{ "cache_fetched", cache.fetched }, { "cache_fetches_failed", cache.fetch_errors },
		{ "cache_entries_lost", cache.lost }, { "cache_evicted", cache.evicted },
		{ "cache_expired", cache.expired }, { "cache_refused", cache.refused },
		{ "cache_too_large", cache.too_large });
}

static unsigned
put_acl(const struct rpcd *p, struct buf *b)
{
	struct acl_stats acl;

	acl_stats(p->acl, &acl);
	return PUT_NUMBERS(b,
		{ "acl_enabled", acl.holds }, { "acl_down", acl.down }, { "acl_kept", acl.kept },
		{ "acl_kept_unknown", acl.kept_unknown }, { "acl_kept_bytes", acl.bytes },
		{ "acl_fetches", acl.fetches }, { "acl_fetches_failed", acl.failed },
		{ "acl_fetches_under_way", acl.under_way }, { "acl_waiting", acl.waiting },
		{ "acl_by_down_policy", acl.by_down_policy }, { "acl_not_found", acl.not_found },
		{ "acl_by_old_rights", acl.by_old_rights }, { "acl_busy", acl.busy },
		{ "acl_denied", p->api.stats.denied + p->fire_guard.denied + p->keyring_guard.denied });
}

static unsigned
put_links(const struct rpcd *p, struct buf *b)
{
	struct link_server_stats peers = { .open = 0 };
	struct link_client_stats links;

	link_client_stats(p->links, &links);
	if (p->link_server != NULL)
		link_server_stats(p->link_server, &peers);
	return PUT_NUMBERS(b,
		{ "links_open", links.open }, { "links_dialled", links.dialled }, { "links_failed", links.failed },
		{ "links_unproven", links.unproven }, { "links_evicted", links.evicted },
		{ "links_retired", links.retired }, { "links_retiring", links.retiring },
		{ "link_addresses", links.known },
		{ "peers_open", peers.open }, { "peers_refused", peers.refused },
		{ "peers_malformed", peers.malformed }, { "peers_silent", peers.silent },
		{ "peers_unproven", peers.unproven }, { "peers_evicted", peers.evicted },
		{ "peers_retired", peers.retired }, { "peers_retiring", peers.retiring },
		{ "handshakes_postponed", chan_handshakes_postponed() });
}

static unsigned
put_registry(const struct rpcd *p, struct buf *b)
{
	struct registry_stats synced;
	struct registry_journal_stats disk;
	struct checks_stats checks;

	registry_stats(p->registry, &synced);
	registry_disk(p->registry, &disk);
	checks_stats(p->checks, &checks);
	return PUT_NUMBERS(b,
		{ "services", registry_count(p->registry, ENTRY_SERVICE) },
		{ "checks", registry_count(p->registry, ENTRY_CHECK) },
		{ "sync_comparisons", synced.comparisons },
		{ "sync_comparisons_failed", synced.comparisons_failed },
		{ "sync_differences", synced.differences },
		{ "sync_pushes", synced.pushes }, { "sync_pushes_failed", synced.pushes_failed },
		{ "sync_outputs_deferred", synced.outputs_deferred },
		{ "registry_frames", disk.frames }, { "registry_bytes", disk.bytes }, { "registry_syncs", disk.syncs },
		{ "registry_folds", disk.folds }, { "registry_failures", disk.failures },
		{ "checks_run_here", checks.tasks }, { "checks_alias", checks.aliases },
		{ "check_processes", checks.running },
		{ "check_process_starts", checks.starts }, { "check_process_deaths", checks.deaths },
		{ "check_process_stuck", checks.stuck },
		{ "check_runs", checks.runs.runs }, { "check_runs_under_way", checks.runs.under_way },
		{ "check_runs_postponed", checks.runs.postponed }, { "check_runs_timed_out", checks.runs.timed_out },
		{ "check_runs_late", checks.runs.late }, { "check_lookups", checks.runs.lookups },
		{ "check_lookups_unanswered", checks.runs.lookups_unanswered },
		{ "check_lookups_old", checks.runs.lookups_old },
		{ "check_lookups_waiting", checks.runs.lookups_waiting });
}

/* What access control keeps out of the catalog: how much, the first of it, and why. */
static unsigned
put_blocked(const struct rpcd *p, struct buf *b)
{
	struct registry_blocked blocked;

	registry_blocked(p->registry, &blocked);
	const struct number numbers[] = {
		{ "registrations_blocked", blocked.count }, { "registrations_blocked_outdated", blocked.outdated },
	};

	if (blocked.why[0] == '\0')
		return put_numbers(b, numbers, 2);
	put_text(b, "registrations_blocked_first", blocked.first);
	put_text(b, "registrations_blocked_why", blocked.why);
	return 2 + put_numbers(b, numbers, 2);
}

static unsigned
put_dns(const struct rpcd *p, struct buf *b)
{
	struct dns_process_stats dns;

	dns_process_stats(p->dns, &dns);
	return PUT_NUMBERS(b,
		{ "dns_processes", dns.life.running }, { "dns_process_starts", dns.life.starts },
		{ "dns_process_deaths", dns.life.deaths }, { "dns_process_stuck", dns.life.stuck },
		{ "dns_process_replaced", dns.life.replaced },
		{ "dns_udp", dns.served.udp }, { "dns_tcp", dns.served.tcp }, { "dns_answers", dns.served.answers },
		{ "dns_name_errors", dns.served.name_errors }, { "dns_failures", dns.served.failures },
		{ "dns_refused", dns.served.refused }, { "dns_malformed", dns.served.malformed },
		{ "dns_dropped", dns.served.dropped }, { "dns_overrun", dns.served.overrun },
		{ "dns_limited", dns.served.limited },
		{ "dns_conns", dns.served.conns }, { "dns_conns_refused", dns.served.conns_refused },
		{ "dns_conns_timed_out", dns.served.conns_timed_out },
		{ "dns_conns_evicted", dns.served.conns_evicted },
		{ "dns_lookups", dns.served.lookups }, { "dns_lookups_joined", dns.served.lookups_joined },
		{ "dns_under_way", dns.served.under_way },
		{ "dns_cached", dns.lookups.cached + dns.served.kept + dns.served.denied },
		{ "dns_stale", dns.lookups.stale + dns.served.stale },
		{ "dns_rendered", dns.served.rendered }, { "dns_rendered_bytes", dns.served.rendered_bytes },
		{ "dns_denied", dns.served.denied }, { "dns_dead_left_out", dns.lookups.dead_left_out },
		{ "dns_follows", dns.lookups.follows }, { "dns_facts", dns.served.facts },
		{ "dns_facts_bytes", dns.served.facts_bytes }, { "dns_facts_evicted", dns.served.facts_evicted },
		{ "dns_forwarded", dns.served.forwarded }, { "dns_forwarded_failed", dns.served.forwarded_failed },
		{ "dns_forwarded_timed_out", dns.served.forwarded_timed_out }, { "dns_forged", dns.served.forged });
}

static unsigned
put_keys(const struct rpcd *p, struct buf *b)
{
	struct keys_stats keys;

	keys_stats(p->keys, &keys);
	return PUT_NUMBERS(b,
		{ "keys_processes", keys.life.running }, { "keys_process_starts", keys.life.starts },
		{ "keys_process_deaths", keys.life.deaths }, { "keys_process_stuck", keys.life.stuck },
		{ "keys_process_replaced", keys.life.replaced },
		{ "keys_signatures", keys.signatures }, { "keys_signatures_failed", keys.failed },
		{ "keys_signatures_late", keys.late }, { "keys_signatures_refused", keys.refused },
		{ "keys_signatures_waiting", keys.pending },
		{ "keys_files_changed", keys.changes }, { "keys_files_bad", keys.bad });
}

/* Days are none without a certificate, and then no metric either. */
static unsigned
put_days(struct buf *b, const char *name, int64_t not_after)
{
	int64_t now = clock_wall_ns() / 1000000000;

	if (not_after != 0)
		return PUT_NUMBERS(b, { name, tls_renewal_days(not_after, now) });
	put_text(b, name, "none");
	return 1;
}

static unsigned
put_tls(const struct rpcd *p, struct buf *b)
{
	struct tls_server_stats tls = { .full = 0 };
	struct keys_stats keys;
	int64_t now = clock_wall_ns() / 1000000000;

	keys_stats(p->keys, &keys);
	if (p->tls != NULL)
		tls_server_stats(p->tls, &tls);
	unsigned n = put_days(b, "tls_certificate_days", keys.not_after) +
	    put_days(b, "tls_authorities_days", keys.ca_not_after);
	if (keys.not_after != 0)
		n += PUT_NUMBERS(b, { "tls_certificate_seconds",
		    keys.not_after > now ? (uint64_t)(keys.not_after - now) : 0 });
	return n + PUT_NUMBERS(b,
		{ "tls_handshakes_full", tls.full }, { "tls_handshakes_resumed", tls.resumed },
		{ "tls_sessions_1_2", tls.tls12 }, { "tls_sessions_1_3", tls.tls13 },
		{ "tls_client_certificates", tls.client_certs },
		{ "tls_failed_not_tls", tls.failed_not_tls }, { "tls_failed_no_match", tls.failed_no_match },
		{ "tls_failed_client_certificate", tls.failed_client_cert },
		{ "tls_failed_refused", tls.failed_refused }, { "tls_failed_cut", tls.failed_cut },
		{ "tls_failed_signer", tls.failed_signer }, { "tls_failed_other", tls.failed_other },
		{ "tls_handshakes_refused", tls.refused_full }, { "tls_handshakes_waiting", tls.waiting },
		{ "tls_handshakes_waiting_most", tls.waiting_most }, { "tls_threads", tls.threads });
}

static unsigned
put_events(const struct rpcd *p, struct buf *b)
{
	struct events_stats events;

	events_stats(p->events, &events);
	return PUT_NUMBERS(b,
		{ "events", events_count(p->events) }, { "events_repeated", events.duplicates },
		{ "events_for_others", events.filtered }, { "events_unreadable", events.bad },
		{ "leaders_announced", events.announcements },
		{ "queries_executed", p->failovers.stats.executed },
		{ "queries_failed_over", p->failovers.stats.failed_over },
		{ "failover_tries", p->failovers.stats.tries },
		{ "failover_tries_refused", p->failovers.stats.refused },
		{ "failover_tries_timed_out", p->failovers.stats.timed_out });
}

/* The audit trail, the copies of another datacenter's tokens, and reports of coordinates. */
static unsigned
put_work(const struct rpcd *p, struct buf *b)
{
	struct trail_stats trail;
	struct acl_replicator_stats copies;
	struct coord_report_stats reports;

	trail_stats(p->trail, &trail);
	acl_replicator_stats(p->replicator, &copies);
	coord_report_stats(p->coord_report, &reports);
	return PUT_NUMBERS(b,
		{ "audit_lines", trail.written }, { "audit_lines_lost", trail.lost },
		{ "audit_failures", trail.failures }, { "audit_denials_counted", trail.denials },
		{ "acl_replication_running", copies.running }, { "acl_replication_rounds", copies.rounds },
		{ "acl_replication_whole", copies.whole }, { "acl_replication_failures", copies.failures },
		{ "acl_replication_copied", copies.copied }, { "acl_replication_deleted", copies.deleted },
		{ "acl_replication_bytes", copies.bytes }, { "acl_replication_behind", copies.behind },
		{ "acl_replication_age_s", copies.age_s }, { "acl_replication_round_ms", copies.round_ms },
		{ "coordinates_sent", reports.sent }, { "coordinates_failed", reports.failed },
		{ "log_lines_lost", log_lost() });
}

/* How the helper processes are, "none" where they do not serve here. */
static unsigned
put_helpers(const struct rpcd *p, struct buf *b)
{
	static const char *const names[] = CHECK_ROLE_NAMES;
	struct checks_stats checks;
	struct dns_process_stats dns;
	struct keys_stats keys;

	checks_stats(p->checks, &checks);
	dns_process_stats(p->dns, &dns);
	for (unsigned i = 0; i < CHECK_ROLES; i++) {
		char key[32];

		snprintf(key, sizeof(key), "helper_check_%s", names[i]);
		put_text(b, key, checks.states[i][0] != '\0' ? checks.states[i] : "none");
	}
	put_text(b, "helper_dns", p->dns != NULL ? dns.state : "none");
	keys_stats(p->keys, &keys);
	put_text(b, "helper_keys", p->keys != NULL ? keys.state : "none");
	put_text(b, "keys_trouble", keys.bad_why);
	return CHECK_ROLES + 3;
}

static unsigned
put_texts(const struct rpcd *p, struct buf *b)
{
	static const char *const down_policies[] = { "extend-cache", "async-cache", "deny", "allow" };
	struct acl_stats acl;

	put_text(b, "version", TV_VERSION);
	put_text(b, "acl_down_policy", down_policies[p->conf.acl_down]);
	acl_stats(p->acl, &acl);
	put_text(b, "acl_down_why", acl.holds && acl.down ? tv_strerror(acl.down_why) : "");
	put_text(b, "configuration", p->spec->conf_dir);
	put_text(b, "sandbox", sandbox_status());
	put_text(b, "folders", daemon_folders());
	put_text(b, "gossipd", daemon_client_state(members_daemon(p->members)));
	put_text(b, "raftd", p->raft == NULL ? "none" : daemon_client_state(raftd_client_daemon(p->raft)));
	put_text(b, "acl_replication_trouble", acl_replicator_trouble(p->replicator));
	put_text(b, "collision", twin_watch_text(p->twin_watch));
	put_text(b, "collision_remedy", twin_watch_remedy(p->twin_watch));
	return 11;
}

unsigned
info_put(void *ctx, struct buf *b)
{
	const struct rpcd *p = ctx;
	struct link_client_stats links;
	unsigned n = put_texts(p, b);

	n += put_helpers(p, b);
	n += put_http(p, b) + put_limits(p, b);
	n += put_calls(p, b);
	n += put_acl(p, b);
	n += put_links(p, b);
	n += put_registry(p, b);
	n += put_blocked(p, b);
	n += put_dns(p, b);
	n += put_keys(p, b);
	n += put_tls(p, b);
	n += put_events(p, b);
	n += put_work(p, b);
	n += histogram_info(&p->api.stats.took, "http", put_text, b);
	n += loop_turns_info(&p->turns, put_text, b);
	link_client_stats(p->links, &links);
	return n + histogram_info(&links.took, "link", put_text, b);
}
