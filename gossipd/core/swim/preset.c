/* Timing presets of the deployed protocol; doc/wire.md, "presets" and "Serf timers". */
#include "config.h"

#include <string.h>

#include "gossipd/core/swim.h"

#define SERF_TIMES \
	.reap_interval = MONO_S(15), .reconnect_interval = MONO_S(30), \
	.reconnect_timeout = MONO_S(24 * 3600), .tombstone_timeout = MONO_S(24 * 3600), \
	.intent_timeout = MONO_S(300), .broadcast_timeout = MONO_S(5), .leave_delay = MONO_S(1), \
	.dead_reclaim = MONO_S(30), .suspicion_max_mult = 6

static const struct {
	const char *name;
	struct swim_timing timing;
} presets[] = {
	{ "lan", {
		.probe_interval = MONO_MS(1000), .probe_timeout = MONO_MS(500), .indirect_checks = 3,
		.suspicion_mult = 4, .gossip_interval = MONO_MS(200), .gossip_nodes = 3,
		.gossip_to_the_dead = MONO_S(30), .retransmit_mult = 4, .pushpull_interval = MONO_S(30),
		.stream_timeout = MONO_S(10), SERF_TIMES } },
	{ "wan", {
		.probe_interval = MONO_MS(5000), .probe_timeout = MONO_MS(3000), .indirect_checks = 3,
		.suspicion_mult = 6, .gossip_interval = MONO_MS(500), .gossip_nodes = 4,
		.gossip_to_the_dead = MONO_S(60), .retransmit_mult = 4, .pushpull_interval = MONO_S(60),
		.stream_timeout = MONO_S(30), SERF_TIMES } },
	{ "local", {
		.probe_interval = MONO_MS(1000), .probe_timeout = MONO_MS(200), .indirect_checks = 1,
		.suspicion_mult = 3, .gossip_interval = MONO_MS(100), .gossip_nodes = 3,
		.gossip_to_the_dead = MONO_S(15), .retransmit_mult = 2, .pushpull_interval = MONO_S(15),
		.stream_timeout = MONO_S(1), SERF_TIMES } },
};

const struct swim_timing *
swim_preset(const char *name)
{
	for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
		if (strcmp(presets[i].name, name) == 0)
			return &presets[i].timing;
	return NULL;
}
