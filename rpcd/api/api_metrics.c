/* /v1/agent/metrics: the numbers of `info`. */
#include <time.h>

#include "common/base/clock.h"
#include "common/record/mpack.h"
#include "rpcd/api/api.h"

/* Sections of `info` whose numbers are gauges too. */
static bool
is_measured(struct span section)
{
	static const char *const prefixes[] = { "serf_", "events_", "gossipd", "raft", "state", "rpcd" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (section.len >= strlen(prefixes[i]) && memcmp(section.p, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
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

/* sections: map section -> map name -> text; the names are our own daemons'. */
static void
section_gauges(struct span sections, struct buf *out)
{
	struct rd in = rd_span_over(sections);
	uint32_t n = sections.len == 0 ? 0 : mpr_map(&in);

	for (uint32_t i = 0; i < n && in.err == TV_OK; i++) {
		struct span section = mpr_bytes(&in, INFO_NAME_BYTES_MAX);
		uint32_t values = mpr_map(&in);

		for (uint32_t v = 0; v < values && in.err == TV_OK; v++) {
			struct span name = mpr_bytes(&in, INFO_NAME_BYTES_MAX);
			struct span text = mpr_bytes(&in, SCHEMA_TEXT_BYTES_MAX);

			if (in.err != TV_OK || !is_measured(section) || !is_number(text))
				continue;
			buf_printf(out, ",{\"Name\":\"triumvir.%.*s.%.*s\",\"Value\":%.*s,\"Labels\":{}}",
			    (int)section.len, (const char *)section.p, (int)name.len, (const char *)name.p,
			    (int)text.len, (const char *)text.p);
		}
	}
}

static void
on_metrics(void *ctx, struct span sections)
{
	struct request *r = note_take(ctx);

	if (r == NULL)
		return;
	section_gauges(sections, &r->answer.body);
	buf_puts(&r->answer.body, "],\"Points\":[],\"Counters\":[],\"Samples\":[]}");
	answer_json(r);
}

/* What we know even if gossipd does not answer. */
static void
metrics_begin(struct request *r)
{
	static const char *const pools[] = { [POOL_LAN] = "lan", [POOL_WAN] = "wan" };
	time_t now = (time_t)(clock_wall_ns() / 1000000000);
	char stamp[64];
	struct tm tm;

	strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S +0000 UTC", gmtime_r(&now, &tm));
	buf_printf(&r->answer.body, "{\"Timestamp\":\"%s\",\"Gauges\":[", stamp);
	for (unsigned i = 0; i < sizeof(pools) / sizeof(pools[0]); i++)
		buf_printf(&r->answer.body, "%s{\"Name\":\"triumvir.members.%s\",\"Value\":%u,\"Labels\":{}}",
		    i > 0 ? "," : "", pools[i], members_count(r->api->members, (enum gossip_pool)i));
}

/* The numbers of `info`: our own, and those of gossipd and raftd as far as they answer. */
static void
run_metrics(struct request *r)
{
	struct note *a;
	enum tv_err err;

	if (span_eqs(params_get(&r->query, "format"), "prometheus")) {
		answer_text(r, 415, "Prometheus is not enabled since its retention time is not positive");
		return;
	}
	metrics_begin(r);
	a = note_new(r);
	err = a == NULL ? TV_ENOMEM : admin_info(r->api->admin, on_metrics, a);
	if (err != TV_OK)
		api_not_asked(r, a, err);
}

const struct endpoint api_metrics[] = {
	{ "/v1/agent/metrics", "GET", ACCESS_AGENT, .run = run_metrics },
	{ .path = NULL },
};
