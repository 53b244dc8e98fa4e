/*
 * /v1/agent/metrics: the numbers of `info`, as JSON and as the text that Prometheus reads (format 0.0.4).
 *
 * Names are triumvir.SECTION.NAME, for Prometheus with _ in place of dots, and without _total, which Consul's counters
 * do not have either.  What Consul measures too has Consul's name: samples in milliseconds, for Prometheus a summary.
 * Each histogram is one for Prometheus too, triumvir_SECTION_NAME_seconds.  All count since the daemon's start.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/record/mpack.h"
#include "common/record/record.h"
#include "common/text/json_text.h"
#include "rpcd/api/api.h"

#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))
#define NAME_BYTES 256
#define ENDPOINT_REQUESTS "triumvir.rpcd.endpoint_requests"
#define ENDPOINT_REQUESTS_PROM "triumvir_rpcd_endpoint_requests"
#define DOUBLINGS_FIRST 4		/* buckets that Prometheus sees end at these powers of two: 16 us to 67 s */
#define DOUBLINGS_LAST 26

/* Sections of `info` whose numbers are metrics, in the order in which they are shown; the first that fits. */
static const struct section_kind {
	const char *prefix;
	bool counts;			/* its numbers are counters, and the others gauges; or the other way round */
	const char *others;		/* " NAME NAME " */
} kinds[] = {
	{ "serf_", false, " coordinate_resets " },
	{ "events_", true, " events_kept events_kept_bytes queries_open queries_waiting " },
	{ "gossipd", true, " streams_open " },
	{ "names", true, " lookups_running " },
	{ "raftd", false, " catalog_passes handshakes_postponed key_fetch_failures key_fetch_stuck key_fetches "
	    "links_evicted links_refused log_lines_lost requests_denied requests_given_up requests_judged_again "
	    "requests_refused state_batches state_lists state_reads state_reads_slow " },
	{ "raft", false, " disks_went_back loop_late pauses prompt_elections slow_syncs snapshots_damaged syncs " },
	{ "state", false, " acl_rights_from_memory acl_rights_resolved address_builds address_searches applied_entries "
	    "batch_pages_fetched batch_pages_read cache_hits cache_misses "
	    "flush_waits flushes transactions transactions_failed " },
	{ "rpcd", true, " acl_down acl_enabled acl_fetches_under_way acl_kept acl_kept_bytes acl_kept_unknown "
	    "acl_replication_age_s acl_replication_behind acl_replication_round_ms acl_replication_running "
	    "acl_waiting cache_bytes cache_entries cache_entries_lost cache_fetches_under_way cache_waiting "
	    "calls_bytes calls_under_way checks events http2_conns http2_streams http_bodies_bytes http_carried_bytes "
	    "http_conns "
	    "http_conns_waiting "
	    "http_max_us http_p50_us http_p99_us http_under_way keys_processes keys_signatures_waiting "
	    "link_addresses link_max_us link_p50_us link_p99_us "
	    "links_open links_retiring links_unproven loop_cpu_max_us loop_cpu_p50_us loop_cpu_p999_us loop_cpu_p99_us "
	    "loop_turn_max_us loop_turn_p50_us loop_turn_p999_us loop_turn_p99_us peers_open peers_retiring "
	    "peers_unproven dns_conns dns_facts dns_facts_bytes dns_follows dns_processes dns_rendered_bytes "
	    "dns_under_way "
	    "check_lookups_waiting check_processes check_runs_under_way checks_run_here "
	    "registrations_blocked registrations_blocked_outdated services tls_authorities_days tls_certificate_days "
	    "tls_certificate_seconds tls_handshakes_waiting tls_handshakes_waiting_most tls_threads uptime_s " },
};

struct metric {
	struct span section, name, text;
	struct span peer;		/* the server that a number of the leader is about; else "" */
	bool counts;
	bool more;			/* of the same name as the one before, and another peer */
};
typedef void metric_fn(struct buf *out, const struct metric *m);

static const struct section_kind *
kind_of(struct span section)
{
	for (size_t i = 0; i < NITEMS(kinds); i++)
		if (span_starts(section, span_str(kinds[i].prefix)))
			return &kinds[i];
	return NULL;
}

static bool
is_counter(const struct section_kind *k, struct span name)
{
	char word[80];
	int n = snprintf(word, sizeof(word), " %.*s ", SPAN_ARGS(name));

	return (n > 0 && (size_t)n < sizeof(word) && strstr(k->others, word) != NULL) != k->counts;
}

/* As JSON writes one: an id may be all digits, too. */
static bool
is_number(struct span text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.p[i] < '0' || text.p[i] > '9')
			return false;
	return text.len == 1 || (text.len > 1 && text.p[0] != '0');
}

/* Numbers about another server are called NAME.SERVER. */
static void
split_peer(struct metric *m, bool *before)
{
	struct span lag = span_str("peer_lag.");

	m->peer = SPAN_NONE;
	m->more = false;
	if (span_starts(m->name, lag)) {
		m->peer = span_of(m->name.p + lag.len, m->name.len - lag.len);
		m->name = span_of(m->name.p, lag.len - 1);
		m->more = *before;
	}
	*before = m->peer.len > 0;
}

/*
 * Numbers go to `number`, histograms to `durations`; NULL takes none.  Kind by kind: the order does not depend on which
 * daemon answered first.  sections: map section -> map name -> text; the names are our own daemons'.
 */
static void
each_metric(struct span sections, metric_fn *number, metric_fn *durations, struct buf *out)
{
	for (size_t k = 0; k < NITEMS(kinds); k++) {
		struct rd in = rd_span_over(sections);
		bool peer = false;

		for (uint32_t n = sections.len == 0 ? 0 : mpr_map(&in); n > 0 && in.err == TV_OK; n--) {
			struct metric m = { .section = mpr_bytes(&in, INFO_NAME_BYTES_MAX) };

			for (uint32_t v = mpr_map(&in); v > 0 && in.err == TV_OK; v--) {
				m.name = mpr_bytes(&in, INFO_NAME_BYTES_MAX);
				m.text = mpr_bytes(&in, SCHEMA_TEXT_BYTES_MAX);
				if (in.err != TV_OK || kind_of(m.section) != &kinds[k])
					continue;
				split_peer(&m, &peer);
				m.counts = is_counter(&kinds[k], m.name);
				if (histogram_named(m.name, &m.name) && durations != NULL)
					durations(out, &m);
				else if (is_number(m.text) && number != NULL)
					number(out, &m);
			}
		}
	}
}

/* What Consul calls these durations, or NULL. */
static const char *
consul_name(const struct metric *m)
{
	if (span_eqs(m->section, "rpcd") && span_eqs(m->name, "http"))
		return "consul.api.http";
	return span_eqs(m->section, "raft") && span_eqs(m->name, "commit") ? "consul.raft.commitTime" : NULL;
}

/* Numbers that Consul has, too, or NULL. */
static const char *
consul_number(const struct metric *m)
{
	static const struct { const char *section, *name, *consul; } same[] = {
		{ "rpcd", "cache_entries", "consul.cache.entries_count" },
		{ "rpcd", "cache_fetched", "consul.cache.fetch_success" },
		{ "rpcd", "cache_fetches_failed", "consul.cache.fetch_error" },
		{ "rpcd", "cache_expired", "consul.cache.evict_expired" },
		{ "rpcd", "cache_refused", "consul.cache.bypass" },
		{ "rpcd", "tls_certificate_seconds", "consul.agent.tls.cert.expiry" },
		{ "state", "nodes", "consul.state.nodes" },
		{ "state", "services", "consul.state.service_instances" },
		{ "raft", "applied_index", "consul.raft.applied_index" },
		{ "raft", "last_log_index", "consul.raft.last_index" },
		{ "raft", "is_leader", "consul.server.isLeader" },
		{ "raft", "autopilot_healthy", "consul.autopilot.healthy" },
		{ "raft", "autopilot_failure_tolerance", "consul.autopilot.failure_tolerance" },
	};

	for (size_t i = 0; i < NITEMS(same); i++)
		if (span_eqs(m->section, same[i].section) && span_eqs(m->name, same[i].name))
			return same[i].consul;
	return NULL;
}

static double
ms(int64_t ns)
{
	return (double)ns / 1e6;
}

/* -- JSON -- */

RECORD_LOCAL(gauge, (STR, Name), (JSON, Value), (MAP, Labels))
RECORD_LOCAL(sample,
	(STR, Name), (U64, Count), (F64, Sum), (F64, Min), (F64, Max), (F64, Mean), (F64, Stddev),
	(CONST, Labels, "{}"))

/* Ours, for the time of the call that it is made in. */
static struct span
json_name(const struct metric *m, char text[NAME_BYTES])
{
	snprintf(text, NAME_BYTES, "triumvir.%.*s.%.*s", SPAN_ARGS(m->section), SPAN_ARGS(m->name));
	return span_str(text);
}

static void
json_gauge(struct buf *out, const struct metric *m)
{
	struct span label[1][2] = { { span_str("peer"), m->peer } };
	char name[NAME_BYTES];
	struct gauge g = { json_name(m, name), m->text, { label, m->peer.len > 0, true } };

	buf_u8(out, ',');
	schema_json_rec(&gauge_schema, &g, out);
	if (consul_number(m) == NULL || m->counts)
		return;
	buf_u8(out, ',');
	schema_json_rec(&gauge_schema, &(struct gauge){ .Name = span_str(consul_number(m)), .Value = m->text }, out);
}

static void
json_sample(struct buf *out, const struct metric *m)
{
	char name[NAME_BYTES];
	struct histogram h;

	if (!histogram_read(m->text, &h) || h.count == 0)
		return;
	double n = (double)h.count, sum = (double)h.sum_ns, square = n * h.squares - sum * sum;
	struct sample s = {
		consul_name(m) != NULL ? span_str(consul_name(m)) : json_name(m, name), h.count, ms(h.sum_ns),
		ms(h.min_ns), ms(h.max_ns), sum / n / 1e6,
		h.count < 2 || square <= 0 ? 0 : sqrt(square / (n * (n - 1))) / 1e6,
	};

	buf_puts(out, out->len > 0 && out->data[out->len - 1] != '[' ? "," : "");
	schema_json_rec(&sample_schema, &s, out);
}

/* Requests of each endpoint that had any: name and number go to fn. */
static void
each_endpoint(const struct api *api, void (*fn)(struct buf *out, const char *endpoint, uint64_t requests),
    struct buf *out)
{
	char name[NAME_BYTES];

	for (unsigned i = 0; api->accounts.endpoints != NULL && i < endpoint_count(); i++) {
		if (api->accounts.endpoints[i].requests == 0)
			continue;
		endpoint_name(api_endpoint(i), name, sizeof(name));
		fn(out, name, api->accounts.endpoints[i].requests);
	}
}

static void
json_endpoint(struct buf *out, const char *endpoint, uint64_t requests)
{
	struct span label[1][2] = { { span_str("endpoint"), span_str(endpoint) } };
	char number[24];

	snprintf(number, sizeof(number), "%" PRIu64, requests);
	buf_u8(out, ',');
	schema_json_rec(&gauge_schema, &(struct gauge){ span_str(ENDPOINT_REQUESTS), span_str(number),
	    { label, 1, true } }, out);
}

/* The members that we know are there even if gossipd does not answer. */
static void
json_metrics(const struct api *api, struct span sections, struct buf *out)
{
	const struct members *members = api->members;
	time_t now = (time_t)(clock_wall_ns() / 1000000000);
	char stamp[64];
	struct tm tm;

	strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S +0000 UTC", gmtime_r(&now, &tm));
	buf_printf(out, "{\"Timestamp\":\"%s\",\"Gauges\":["
	    "{\"Name\":\"triumvir.members.lan\",\"Value\":%u,\"Labels\":{}},"
	    "{\"Name\":\"triumvir.members.wan\",\"Value\":%u,\"Labels\":{}}",
	    stamp, members_count(members, POOL_LAN), members_count(members, POOL_WAN));
	each_metric(sections, json_gauge, NULL, out);
	each_endpoint(api, json_endpoint, out);
	buf_puts(out, "],\"Points\":[],\"Counters\":[],\"Samples\":[");
	each_metric(sections, NULL, json_sample, out);
	buf_puts(out, "]}");
}

/* -- Prometheus -- */

/* With _ for all but letters and digits. */
static void
put_plain(struct buf *out, struct span text)
{
	for (size_t i = 0; i < text.len; i++) {
		uint8_t c = text.p[i];

		buf_u8(out, (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_');
	}
}

/* triumvir_SECTION_NAMEend, in b. */
static struct span
prom_name(struct buf *b, const struct metric *m, const char *end)
{
	buf_puts(b, "triumvir_");
	put_plain(b, m->section);
	buf_u8(b, '_');
	put_plain(b, m->name);
	buf_puts(b, end);
	return buf_span(b);
}

/* HELP and TYPE.  The help is in our words: there is nothing to escape. */
static void
prom_head(struct buf *out, struct span name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %.*s %s\n# TYPE %.*s %s\n", SPAN_ARGS(name), help, SPAN_ARGS(name), type);
}

/* A line: NAMEend VALUE.  NAN: there is none yet. */
static void
prom_line(struct buf *out, struct span name, const char *end, double value)
{
	buf_putspan(out, name);
	buf_printf(out, "%s ", end);
	if (isnan(value))
		buf_puts(out, "NaN");
	else
		json_number(value, out);
	buf_u8(out, '\n');
}

/* The same number by Consul's name. */
static void
prom_consul(struct buf *out, const struct metric *m)
{
	struct buf b = BUF_INIT(256);

	put_plain(&b, span_str(consul_number(m)));
	prom_head(out, buf_span(&b), m->counts ? "counter" : "gauge", "As Consul has it, since the start.");
	buf_printf(out, "%s %.*s\n", buf_cstr(&b), SPAN_ARGS(m->text));
	buf_done(&b);
}

static void
prom_number(struct buf *out, const struct metric *m)
{
	struct buf b = BUF_INIT(2 * INFO_NAME_BYTES_MAX + 64);
	struct span name = prom_name(&b, m, "");

	if (consul_number(m) != NULL)
		prom_consul(out, m);
	if (!m->more)
		prom_head(out, name, m->counts ? "counter" : "gauge",
		    "See " TV_DOCDIR "/operations.md, What info shows.");
	buf_putspan(out, name);
	if (m->peer.len > 0) {		/* a node's name needs no escape that Prometheus lacks */
		buf_puts(out, "{peer=");
		json_quote(m->peer, out);
		buf_u8(out, '}');
	}
	buf_printf(out, " %.*s\n", SPAN_ARGS(m->text));
	buf_done(&b);
}

static void
prom_summary(struct buf *out, const char *consul, const struct histogram *h)
{
	static const double quantiles[] = { 0.5, 0.9, 0.99 };
	struct buf b = BUF_INIT(256);
	struct span name;

	put_plain(&b, span_str(consul));
	name = buf_span(&b);
	prom_head(out, name, "summary", "As Consul has it, in milliseconds, since the start.");
	for (size_t i = 0; i < NITEMS(quantiles); i++) {
		char end[32];

		snprintf(end, sizeof(end), "{quantile=\"%g\"}", quantiles[i]);
		prom_line(out, name, end, h->count == 0 ? NAN : ms(histogram_quantile(h, quantiles[i]).ns));
	}
	prom_line(out, name, "_sum", ms(h->sum_ns));
	prom_line(out, name, "_count", (double)h->count);
	buf_done(&b);
}

static void
prom_durations(struct buf *out, const struct metric *m)
{
	struct buf b = BUF_INIT(2 * INFO_NAME_BYTES_MAX + 64);
	struct span name = prom_name(&b, m, "_seconds");
	struct histogram h;

	if (histogram_read(m->text, &h)) {
		if (consul_name(m) != NULL)
			prom_summary(out, consul_name(m), &h);
		prom_head(out, name, "histogram", "Durations whose quantiles are in clusterctl info, since the start.");
		for (unsigned d = DOUBLINGS_FIRST; d <= DOUBLINGS_LAST; d++) {
			char end[64];

			snprintf(end, sizeof(end), "_bucket{le=\"%.9g\"}", (double)(1u << d) / 1e6);
			prom_line(out, name, end, (double)histogram_up_to(&h, d));
		}
		prom_line(out, name, "_bucket{le=\"+Inf\"}", (double)h.count);
		prom_line(out, name, "_sum", (double)h.sum_ns / 1e9);
		prom_line(out, name, "_count", (double)h.count);
	}
	buf_done(&b);
}

static void
prom_endpoint(struct buf *out, const char *endpoint, uint64_t requests)
{
	buf_puts(out, ENDPOINT_REQUESTS_PROM "{endpoint=");
	json_quote(span_str(endpoint), out);		/* nothing in it needs an escape */
	buf_printf(out, "} %" PRIu64 "\n", requests);
}

static void
prom_metrics(const struct api *api, struct span sections, struct buf *out)
{
	static const char *const pools[] = { [POOL_LAN] = "lan", [POOL_WAN] = "wan" };

	for (size_t i = 0; i < NITEMS(pools); i++) {
		char count[16];

		snprintf(count, sizeof(count), "%u", members_count(api->members, (enum gossip_pool)i));
		prom_number(out, &(struct metric){ .section = span_str("members"), .name = span_str(pools[i]),
		    .text = span_str(count) });
	}
	each_metric(sections, prom_number, prom_durations, out);
	if (api->accounts.endpoints != NULL)
		prom_head(out, span_str(ENDPOINT_REQUESTS_PROM), "counter",
		    "Requests of each endpoint, since the start.");
	each_endpoint(api, prom_endpoint, out);
}

/* -- the endpoint -- */

static bool
wants_prometheus(const struct request *r)
{
	return span_eqs(params_get(&r->query, "format"), "prometheus");
}

static void
on_metrics(void *ctx, struct span sections)
{
	struct request *r = note_take(ctx);

	if (r == NULL)
		return;
	if (wants_prometheus(r)) {
		prom_metrics(r->api, sections, &r->answer.body);
		answer_body(r, "text/plain; version=0.0.4; charset=utf-8");
	} else {
		json_metrics(r->api, sections, &r->answer.body);
		answer_json(r);
	}
}

/* Our own numbers, and those of gossipd and raftd as far as they answer. */
static void
run_metrics(struct request *r)
{
	struct note *a;
	enum tv_err err;

	if (wants_prometheus(r) && r->api->conf->prometheus_retention_time.ns == 0) {
		answer_text(r, 415, "Prometheus is not enabled since its retention time is not positive");
		return;
	}
	a = note_new(r);
	err = a == NULL ? TV_ENOMEM : admin_info(r->api->admin, on_metrics, a);
	if (err != TV_OK)
		api_not_asked(r, a, err);
}

const struct endpoint api_metrics[] = {
	{ "/v1/agent/metrics", "GET", ACCESS_AGENT_READ, .run = run_metrics },
	{ .path = NULL },
};
