/* Members as JSON, with the tags that clients of the API look for. */
#include "common/record/record.h"
#include "rpcd/api/v1/members_json.h"

#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))

RECORD_LOCAL(member_shown,
	(STR, Name), (STR, Addr), (U64, Port), (MAP, Tags), (U64, Status), (U64, ProtocolMin), (U64, ProtocolMax),
	(U64, ProtocolCur), (U64, DelegateMin), (U64, DelegateMax), (U64, DelegateCur))
static RECORD_TABLE(member_configured, member_shown, (STR, Name), (STR, Addr), (U64, Port), (MAP, Tags), (U64, Status))

static bool
is_server(const struct member *m)
{
	return span_eqs(member_tag(m, "role"), "server");
}

/* One of ours: it says its role, datacenter and id. */
static bool
is_ours(const struct member *m)
{
	return (is_server(m) || span_eqs(member_tag(m, "role"), "client")) &&
	    member_tag(m, "dc").len > 0 && member_tag(m, "id").len > 0;
}

/* What Consul's members say of themselves, from what ours say. `from` NULL: the value is fixed. */
static const struct translation {
	const char *name, *from, *value;
	bool servers_only;
} translations[] = {
	{ "port", "raft_port", NULL, true },
	{ "wan_join_port", "wan_port", NULL, true },
	{ "vsn", NULL, "2", false },
	{ "vsn_min", NULL, "2", false },
	{ "vsn_max", NULL, "3", false },
	{ "raft_vsn", NULL, "3", true },
};
#define TAGS_MAX (MEMBER_TAGS_MAX + 1 + NITEMS(translations))

static bool
is_translated(struct span name)
{
	for (size_t i = 0; i < NITEMS(translations); i++)
		if (span_eqs(name, translations[i].name))
			return true;
	return span_eqs(name, "role");
}

static void
add_tag(struct span_map *tags, struct span name, struct span value)
{
	tags->kv[tags->n][0] = name;
	tags->kv[tags->n++][1] = value;
}

static void
add_translated(struct span_map *tags, const struct member *m)
{
	add_tag(tags, span_str("role"), span_str(is_server(m) ? "consul" : "node"));
	for (size_t i = 0; i < NITEMS(translations); i++) {
		const struct translation *t = &translations[i];
		struct span value = t->from == NULL ? span_str(t->value) : member_tag(m, t->from);

		if (value.len > 0 && (is_server(m) || !t->servers_only))
			add_tag(tags, span_str(t->name), value);
	}
}

void
member_json(const struct member *m, struct buf *out)
{
	char ip[46];
	struct span tags[TAGS_MAX][2];
	struct member_shown v = { m->name, span_str(member_ip(m, ip)), m->port, { tags, 0, true }, m->status,
		m->vsn[0], m->vsn[1], m->vsn[2], m->vsn[3], m->vsn[4], m->vsn[5] };
	bool ours = is_ours(m);

	if (ours)
		add_translated(&v.Tags, m);
	for (uint32_t i = 0; i < m->tag_count; i++)
		if (!ours || !is_translated(m->tags[i].name))
			add_tag(&v.Tags, m->tags[i].name, m->tags[i].value);
	schema_json_rec(&member_shown_schema, &v, out);
}

void
member_json_configured(struct span name, struct span address, uint16_t port, struct buf *out)
{
	struct member_shown v = { .Name = name, .Addr = address, .Port = port, .Status = MEMBER_NONE };

	schema_json_rec(&member_configured_schema, &v, out);
}
