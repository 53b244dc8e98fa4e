/* What `info` shows of gossipd; see info.h. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/figure.h"
#include "common/base/log.h"
#include "common/conf/keys.h"
#include "common/proc/daemon.h"
#include "common/proc/sandbox.h"
#include "common/record/mpack.h"
#include "gossipd/info.h"
#include "gossipd/net.h"
#include "gossipd/resolver.h"

static void
put_text(void *b, const char *name, const char *text)
{
	mpw_cstr(b, name);
	mpw_cstr(b, text);
}

#define COUNT(lines_) (sizeof(lines_) / sizeof((lines_)[0]))

/*
 * Why this node, which tries to join, is alone in the pool: the newest refusal by another node.  "": it has
 * other members, or no node has refused it within two tries and 10 s.
 */
static void
put_refusal(struct buf *b, const struct engine *e, const struct pool *p)
{
	struct mono lasts = mono_add(mono_mul(e->cluster->retry_interval, 2), MONO_S(10));
	const struct pool_refusal *r = pool_refused(p);
	char text[LOG_REFUSAL_BYTES + NET_TEXT_BYTES + 2] = "", addr[NET_TEXT_BYTES];

	if (r->at.ns != 0 && engine_is_alone(e, pool_kind(p)) && mono_before(clock_mono(), mono_add(r->at, lasts)))
		snprintf(text, sizeof(text), "%s: %s", net_text(&r->from, addr), r->why);
	put_text(b, "refused", text);
}

static void
put_pool(struct buf *b, const struct engine *e, const struct pool *p)
{
	struct swim_stats s;

	swim_stats(pool_core(p), &s);
	const struct figure lines[] = {
		{ "members", s.members }, { "alive", s.alive }, { "failed", s.failed }, { "left", s.left },
		{ "health_score", s.health }, { "incarnation", s.incarnation }, { "member_queue", s.member_queue },
		{ "intent_queue", s.intent_queue }, { "event_queue", s.event_queue }, { "query_queue", s.query_queue },
		{ "coordinate_resets", s.coord_resets }, { "member_time", s.clock },
		{ "event_time", s.event_clock }, { "query_time", s.query_clock },
	};

	mpw_cstr(b, pool_kind(p) == POOL_LAN ? "serf_lan" : "serf_wan");
	mpw_map(b, COUNT(lines) + 2);
	put_text(b, "encrypted", pool_encrypted(p) ? "true" : "false");
	put_refusal(b, e, p);
	figures_put(put_text, b, lines, COUNT(lines));
}

/* User events and queries: what was heard, answered, and not taken. */
static void
put_events(struct buf *b, const struct pool *p)
{
	struct swim_stats s;

	swim_stats(pool_core(p), &s);
	const struct figure lines[] = {
		{ "events_fired", s.events_fired }, { "events_heard", s.events_heard },
		{ "events_repeated", s.events_doubled }, { "events_old", s.events_old },
		{ "events_kept", s.events_kept }, { "events_kept_bytes", s.events_kept_bytes },
		{ "events_cut", s.events_cut },
		{ "queries_asked", s.queries_asked }, { "queries_heard", s.queries_heard },
		{ "queries_repeated", s.queries_doubled }, { "queries_old", s.queries_old },
		{ "queries_filtered", s.queries_filtered }, { "queries_open", s.queries_open },
		{ "queries_waiting", s.queries_waiting }, { "answers_sent", s.queries_answered },
		{ "answers_taken", s.answers_taken }, { "answers_strange", s.answers_strange },
		{ "relays_sent", s.relays_sent }, { "relays_passed", s.relays_passed },
		{ "over_packet", s.over_packet }, { "over_times", s.over_ltimes }, { "over_events", s.over_events },
		{ "over_queries", s.over_queries }, { "over_patterns", s.over_filters },
		{ "over_answers", s.over_answers }, { "over_relays", s.over_passed },
	};

	mpw_cstr(b, pool_kind(p) == POOL_LAN ? "events_lan" : "events_wan");
	mpw_map(b, COUNT(lines));
	figures_put(put_text, b, lines, COUNT(lines));
}

#define PROCESS_LINES 36

/* Adds those of one pool. */
static void
add_pool(const struct pool *p, struct figure sums[PROCESS_LINES])
{
	struct udp_stats u;
	struct streams_stats t;
	struct swim_stats s;

	pool_udp_stats(p, &u);
	pool_streams_stats(p, &t);
	swim_stats(pool_core(p), &s);
	const struct figure lines[] = {
		{ "packets_in", u.in }, { "packets_out", u.out },
		{ "bytes_in", u.in_bytes }, { "bytes_out", u.out_bytes },
		{ "packets_dropped_key", u.bad_key }, { "packets_dropped_checksum", u.bad_checksum },
		{ "packets_dropped_format", u.bad_format }, { "packets_not_sent", u.send_failed },
		{ "streams_open", t.open }, { "streams_in", t.accepted }, { "streams_out", t.dialled },
		{ "streams_refused", t.refused }, { "streams_dropped", t.failed }, { "streams_crowded", t.crowded },
		{ "streams_unread", t.unread }, { "streams_dropped_key", t.bad_key }, { "streams_evicted", t.evicted },
		{ "dropped_message", s.bad_message }, { "dropped_incarnation", s.bad_incarnation },
		{ "dropped_accusation", s.over_accusations }, { "dropped_version", s.bad_vsn },
		{ "dropped_datacenter", s.wrong_dc },
		{ "dropped_member_limit", s.over_members },
		{ "dropped_intent_limit", s.over_intents }, { "dropped_relay_limit", s.over_relays },
		{ "dropped_queue_limit", s.queue_dropped }, { "dropped_memory", s.no_memory },
		{ "dropped_coordinate", s.bad_coord }, { "coordinate_resets", s.coord_resets },
		{ "merges_refused", s.refused_merges }, { "name_conflicts", s.conflicts },
		{ "members_moved", s.moves }, { "probes", s.probes },
		{ "probes_failed", s.probes_failed }, { "refutations", s.refutations },
		{ "snapshot_errors", pool_snapshot_errors(p) },
	};

	_Static_assert(COUNT(lines) == PROCESS_LINES, "sums");
	for (size_t i = 0; i < PROCESS_LINES; i++)
		sums[i] = (struct figure){ lines[i].name, sums[i].value + lines[i].value };
}

static void
put_process(struct buf *b, const struct engine *e)
{
	struct figure sums[PROCESS_LINES + 1] = { [PROCESS_LINES] = { "log_lines_lost", log_lost() } };

	TV_ASSERT(e->pools[POOL_LAN] != NULL);		/* names all */
	for (int i = 0; i < ENGINE_POOLS; i++)
		if (e->pools[i] != NULL)
			add_pool(e->pools[i], sums);
	mpw_cstr(b, "gossipd");
	mpw_map(b, COUNT(sums) + 3);
	put_text(b, "version", TV_VERSION);
	put_text(b, "sandbox", sandbox_status());
	put_text(b, "folders", daemon_folders());
	figures_put(put_text, b, sums, COUNT(sums));
}

/* What is dialled by name, and was looked up. */
static void
put_names(struct buf *b, const struct engine *e)
{
	struct resolver_stats s;

	resolver_stats(e->resolver, &s);
	const struct figure lines[] = {
		{ "lookups", s.lookups }, { "lookups_failed", s.failures }, { "lookups_running", s.running },
		{ "lookups_stuck", s.stuck },
	};

	mpw_cstr(b, "names");
	mpw_map(b, COUNT(lines) + 1);
	figures_put(put_text, b, lines, COUNT(lines));
	put_text(b, "last_failure", s.last);
}

/* Ids, never keys. */
static void
put_keys(struct buf *b, const struct engine *e)
{
	const struct seal_ring *ring = kring_ring(e->keys);
	char text[1024] = "", id[KEY_ID_TEXT_BYTES];
	unsigned stored = kring_stored(e->keys);

	mpw_cstr(b, "keyring");
	mpw_map(b, 4);
	put_text(b, "encryption", cluster_encryption_name(e->cluster->encryption));
	for (unsigned i = 0; i < ring->count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i > 0 ? " " : "",
		    key_id_text(seal_key_at(ring, i), id));
	put_text(b, "keys", text);
	put_text(b, "stored", ring->count == 0 ? "" : stored == ring->count ? "yes" :
	    "no: a key is saved once a member has used it");
	if (!kring_trouble(e->keys, clock_mono(), text, sizeof(text)))
		snprintf(text, sizeof(text), "%s", ring->count > 0 ? "ok" : "none");
	put_text(b, "state", text);
}

void
info_write(const struct engine *e, struct buf *b)
{
	mpw_map(b, e->pools[POOL_WAN] != NULL ? 7 : 5);
	put_process(b, e);
	put_keys(b, e);
	put_names(b, e);
	for (int i = 0; i < ENGINE_POOLS; i++)
		if (e->pools[i] != NULL) {
			put_pool(b, e, e->pools[i]);
			put_events(b, e->pools[i]);
		}
}
