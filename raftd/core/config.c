/*
 * Configurations: ids, lookup, arithmetic, and the bytes of a CONFIG entry:
 *   u8 version (1) | u64le index | u8 count | count x { u64le id | u8 voter | 4 x (u8 length, text) }
 * The index is that of the entry itself; it matters in snapshots, where the entry is gone.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/fnv.h"
#include "raftd/core/raft_int.h"

#define CONFIG_VERSION 1

raft_id
raft_id_of(const char *uuid, const char *store_id)
{
	uint64_t hash = fnv1a(fnv1a(fnv1a(FNV1A_START, span_str(uuid)), span_str("/")), span_str(store_id));

	return hash != 0 ? hash : 1;
}

const char *
raft_role_name(enum raft_role role)
{
	static const char *const names[] = {
		[RAFT_FOLLOWER] = "Follower",
		[RAFT_PRE_CANDIDATE] = "Candidate",
		[RAFT_CANDIDATE] = "Candidate",
		[RAFT_LEADER] = "Leader",
	};

	return (unsigned)role < sizeof(names) / sizeof(names[0]) ? names[role] : "Unknown";
}

const struct raft_server_conf *
raft_config_find(const struct raft_config *c, raft_id id)
{
	for (unsigned i = 0; i < c->count; i++)
		if (c->servers[i].id == id)
			return &c->servers[i];
	return NULL;
}

void
raft_server_conf_fill(struct raft_server_conf *s, const char *uuid, const char *store_id, const char *name,
    const char *addr)
{
	*s = (struct raft_server_conf){ .id = raft_id_of(uuid, store_id) };
	snprintf(s->uuid, sizeof(s->uuid), "%s", uuid);
	snprintf(s->store_id, sizeof(s->store_id), "%s", store_id);
	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->addr, sizeof(s->addr), "%s", addr);
}

unsigned
raft_config_voters(const struct raft_config *c)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->count; i++)
		n += c->servers[i].voter;
	return n;
}

bool
raft_removal_keeps_quorum(const struct raft_config *c, raft_id id, const raft_id *healthy, unsigned healthy_count)
{
	unsigned voters = 0, alive = 0;

	for (unsigned i = 0; i < c->count; i++) {
		const struct raft_server_conf *s = &c->servers[i];
		bool lives = false;

		if (!s->voter || s->id == id)
			continue;
		for (unsigned k = 0; k < healthy_count; k++)
			lives |= healthy[k] == s->id;
		voters++;
		alive += lives;
	}
	return voters > 0 && alive >= voters / 2 + 1;
}

static void
write_text(struct buf *b, const char *text, size_t cap)
{
	size_t len = strnlen(text, cap - 1);

	buf_u8(b, (uint8_t)len);
	buf_put(b, text, len);
}

void
raft_config_write(struct buf *b, const struct raft_config *c)
{
	buf_u8(b, CONFIG_VERSION);
	buf_u64le(b, c->index);
	buf_u8(b, (uint8_t)c->count);
	for (unsigned i = 0; i < c->count; i++) {
		const struct raft_server_conf *s = &c->servers[i];

		buf_u64le(b, s->id);
		buf_u8(b, s->voter);
		write_text(b, s->uuid, sizeof(s->uuid));
		write_text(b, s->store_id, sizeof(s->store_id));
		write_text(b, s->name, sizeof(s->name));
		write_text(b, s->addr, sizeof(s->addr));
	}
}

static void
read_text(struct rd *rd, char *dst, size_t cap)
{
	size_t len = rd_u8(rd);
	struct span text = rd_bytes(rd, len);

	if (!span_copy(text, dst, cap))
		rd_fail(rd, TV_EFORMAT);
}

static void
read_server(struct rd *rd, struct raft_server_conf *s)
{
	uint8_t voter;

	s->id = rd_u64le(rd);
	voter = rd_u8(rd);
	if (voter > 1)
		rd_fail(rd, TV_EFORMAT);
	s->voter = voter == 1;
	read_text(rd, s->uuid, sizeof(s->uuid));
	read_text(rd, s->store_id, sizeof(s->store_id));
	read_text(rd, s->name, sizeof(s->name));
	read_text(rd, s->addr, sizeof(s->addr));
}

bool
config_valid(const struct raft_config *c)
{
	if (c->count > RAFT_SERVERS_MAX || raft_config_voters(c) == 0 || c->index >= RAFT_NUMBER_MAX)
		return false;
	for (unsigned i = 0; i < c->count; i++) {
		if (c->servers[i].id == 0)
			return false;
		for (unsigned k = 0; k < i; k++)
			if (c->servers[k].id == c->servers[i].id)
				return false;
	}
	return true;
}

enum tv_err
raft_config_read(struct span payload, struct raft_config *out)
{
	struct rd rd = rd_span_over(payload);
	uint8_t version = rd_u8(&rd);
	enum tv_err err;

	memset(out, 0, sizeof(*out));
	if (version != CONFIG_VERSION)
		rd_fail(&rd, TV_EFORMAT);
	out->index = rd_u64le(&rd);
	out->count = rd_u8(&rd);
	if (out->count > RAFT_SERVERS_MAX)
		rd_fail(&rd, TV_ELIMIT);
	for (unsigned i = 0; i < out->count && rd.err == TV_OK; i++)
		read_server(&rd, &out->servers[i]);
	err = rd_end(&rd);
	if (err == TV_OK && !config_valid(out))
		err = TV_EFORMAT;
	if (err != TV_OK)
		memset(out, 0, sizeof(*out));
	return err;
}
