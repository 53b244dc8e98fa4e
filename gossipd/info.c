/* What `info` shows of gossipd; see info.h. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/conf/keys.h"
#include "common/proc/daemon.h"
#include "common/proc/sandbox.h"
#include "common/record/mpack.h"
#include "gossipd/info.h"
#include "gossipd/net.h"
#include "gossipd/resolver.h"

struct line {
	const char *name;
	uint64_t value;
};

static void
put_lines(struct buf *b, const struct line *lines, size_t count)
{
	char text[24];

	for (size_t i = 0; i < count; i++) {
		mpw_cstr(b, lines[i].name);
		snprintf(text, sizeof(text), "%" PRIu64, lines[i].value);
		mpw_cstr(b, text);
	}
}

#define COUNT(lines_) (sizeof(lines_) / sizeof((lines_)[0]))

static void
put_text(struct buf *b, const char *name, const char *text)
{
	mpw_cstr(b, name);
	mpw_cstr(b, text);
}

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
	const struct line lines[] = {
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
	put_lines(b, lines, COUNT(lines));
}

/* User events and queries: what was heard, answered, and not taken. */
static void
put_events(struct buf *b, const struct pool *p)
{
	struct swim_stats s;

	swim_stats(pool_core(p), &s);
	const struct line lines[] = {
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
	put_lines(b, lines, COUNT(lines));
}

/* Sums over the pools. */
static void
add_up(const struct engine *e, struct udp_stats *u, struct streams_stats *t, struct swim_stats *s)
{
	for (int i = 0; i < ENGINE_POOLS; i++) {
		struct udp_stats pu;
		struct streams_stats pt;
		struct swim_stats ps;

		if (e->pools[i] == NULL)
			continue;
		pool_udp_stats(e->pools[i], &pu);
		pool_streams_stats(e->pools[i], &pt);
		swim_stats(pool_core(e->pools[i]), &ps);
		u->in += pu.in, u->out += pu.out, u->in_bytes += pu.in_bytes, u->out_bytes += pu.out_bytes;
		u->bad_key += pu.bad_key, u->bad_checksum += pu.bad_checksum, u->bad_format += pu.bad_format;
		u->send_failed += pu.send_failed;
		t->accepted += pt.accepted, t->dialled += pt.dialled, t->refused += pt.refused, t->failed += pt.failed;
		t->bad_key += pt.bad_key, t->crowded += pt.crowded, t->evicted += pt.evicted, t->unread += pt.unread;
		t->open += pt.open;
		s->bad_incarnation += ps.bad_incarnation, s->bad_vsn += ps.bad_vsn;
		s->bad_message += ps.bad_message, s->over_accusations += ps.over_accusations;
		s->wrong_dc += ps.wrong_dc, s->conflicts += ps.conflicts,
		    s->moves += ps.moves, s->over_members += ps.over_members;
		s->over_intents += ps.over_intents, s->over_relays += ps.over_relays,
		    s->refused_merges += ps.refused_merges;
		s->no_memory += ps.no_memory, s->queue_dropped += ps.queue_dropped, s->probes += ps.probes;
		s->probes_failed += ps.probes_failed, s->refutations += ps.refutations;
		s->bad_coord += ps.bad_coord, s->coord_resets += ps.coord_resets;
	}
}

static uint64_t
snapshot_errors_of(const struct engine *e)
{
	uint64_t n = 0;

	for (int i = 0; i < ENGINE_POOLS; i++)
		n += e->pools[i] != NULL ? pool_snapshot_errors(e->pools[i]) : 0;
	return n;
}

static void
put_process(struct buf *b, const struct engine *e)
{
	struct udp_stats u = { 0 };
	struct streams_stats t = { 0 };
	struct swim_stats s = { 0 };

	add_up(e, &u, &t, &s);
	const struct line lines[] = {
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
		{ "snapshot_errors", snapshot_errors_of(e) }, { "log_lines_lost", log_lost() },
	};

	mpw_cstr(b, "gossipd");
	mpw_map(b, COUNT(lines) + 3);
	mpw_cstr(b, "version");
	mpw_cstr(b, TV_VERSION);
	mpw_cstr(b, "sandbox");
	mpw_cstr(b, sandbox_status());
	mpw_cstr(b, "folders");
	mpw_cstr(b, daemon_folders());
	put_lines(b, lines, COUNT(lines));
}

/* What is dialled by name, and was looked up. */
static void
put_names(struct buf *b, const struct engine *e)
{
	struct resolver_stats s;

	resolver_stats(e->resolver, &s);
	const struct line lines[] = {
		{ "lookups", s.lookups }, { "lookups_failed", s.failures }, { "lookups_running", s.running },
		{ "lookups_stuck", s.stuck },
	};

	mpw_cstr(b, "names");
	mpw_map(b, COUNT(lines) + 1);
	put_lines(b, lines, COUNT(lines));
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
