/* Members as JSON, with the tags that clients of the API look for. */
#include <inttypes.h>

#include "common/record/schema.h"
#include "common/text/json_text.h"
#include "rpcd/api/v1/members_json.h"

static void
tag_json(struct span name, struct span value, bool *first, struct buf *out)
{
	if (!*first)
		buf_u8(out, ',');
	*first = false;
	json_quote(name, out);
	buf_u8(out, ':');
	json_quote(value, out);
}

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
#define TRANSLATIONS (sizeof(translations) / sizeof(translations[0]))

static bool
is_translated(struct span name)
{
	for (size_t i = 0; i < TRANSLATIONS; i++)
		if (span_eqs(name, translations[i].name))
			return true;
	return span_eqs(name, "role");
}

static void
our_tags_json(const struct member *m, struct buf *out)
{
	bool first = true;

	tag_json(span_str("role"), span_str(is_server(m) ? "consul" : "node"), &first, out);
	for (size_t i = 0; i < TRANSLATIONS; i++) {
		const struct translation *t = &translations[i];
		struct span value = t->from == NULL ? span_str(t->value) : member_tag(m, t->from);

		if (value.len > 0 && (is_server(m) || !t->servers_only))
			tag_json(span_str(t->name), value, &first, out);
	}
	for (uint32_t i = 0; i < m->tag_count; i++)
		if (!is_translated(m->tags[i].name))
			tag_json(m->tags[i].name, m->tags[i].value, &first, out);
}

static void
plain_tags_json(const struct member *m, struct buf *out)
{
	bool first = true;

	for (uint32_t i = 0; i < m->tag_count; i++)
		tag_json(m->tags[i].name, m->tags[i].value, &first, out);
}

void
member_json(const struct member *m, struct buf *out)
{
	static const char *const versions[6] = {
		"ProtocolMin", "ProtocolMax", "ProtocolCur", "DelegateMin", "DelegateMax", "DelegateCur",
	};
	char ip[46];

	buf_puts(out, "{\"Name\":");
	json_quote(m->name, out);
	buf_printf(out, ",\"Addr\":\"%s\",\"Port\":%" PRIu16 ",\"Tags\":{", member_ip(m, ip), m->port);
	if (is_ours(m))
		our_tags_json(m, out);
	else
		plain_tags_json(m, out);
	buf_printf(out, "},\"Status\":%u", m->status);
	for (unsigned i = 0; i < 6; i++)
		buf_printf(out, ",\"%s\":%u", versions[i], m->vsn[i]);
	buf_u8(out, '}');
}
