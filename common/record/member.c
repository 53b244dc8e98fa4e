/* Members as the daemons tell them to each other. */
#include <stdlib.h>
#include <string.h>

#include "common/base/addr.h"
#include "common/base/assert.h"
#include "common/record/member.h"
#include "common/record/mpack.h"

#define MEMBER_FIELDS 11
#define TAG_BYTES_MAX 4096	/* longest name or value of one tag; gossip's own limit is far below */

const char *
member_status_name(enum member_status s)
{
	static const char *const names[] = {
		[MEMBER_NONE] = "none", [MEMBER_ALIVE] = "alive", [MEMBER_LEAVING] = "leaving",
		[MEMBER_LEFT] = "left", [MEMBER_FAILED] = "failed",
	};

	return (unsigned)s < sizeof(names) / sizeof(names[0]) ? names[s] : "invalid";
}

void
member_pack(struct buf *b, const struct member *m)
{
	mpw_array(b, MEMBER_FIELDS);
	mpw_str(b, m->name);
	mpw_bin(b, span_of(m->addr, m->addr_len));
	mpw_uint(b, m->port);
	mpw_uint(b, m->status);
	mpw_map(b, m->tag_count);
	for (uint32_t i = 0; i < m->tag_count; i++) {
		mpw_str(b, m->tags[i].name);
		mpw_str(b, m->tags[i].value);
	}
	for (size_t i = 0; i < sizeof(m->vsn); i++)
		mpw_uint(b, m->vsn[i]);
}

static void
unpack_addr(struct rd *r, struct member *m)
{
	struct span addr = mpr_bytes(r, sizeof(m->addr));

	if (addr.len != 4 && addr.len != 16) {
		rd_fail(r, TV_EFORMAT);
		return;
	}
	memcpy(m->addr, addr.p, addr.len);
	m->addr_len = (uint8_t)addr.len;
}

static void
unpack_tags(struct rd *r, struct arena *a, struct member *m)
{
	uint32_t count = mpr_map(r);

	if (count > MEMBER_TAGS_MAX) {
		rd_fail(r, TV_ELIMIT);
		return;
	}
	m->tags = arena_array(a, count, sizeof(*m->tags));
	if (m->tags == NULL) {
		rd_fail(r, TV_ENOMEM);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		m->tags[i].name = mpr_bytes(r, TAG_BYTES_MAX);
		m->tags[i].value = mpr_bytes(r, TAG_BYTES_MAX);
	}
	m->tag_count = count;
}

enum tv_err
member_unpack(struct rd *r, struct arena *a, struct member *m)
{
	*m = (struct member){ .addr_len = 0 };
	if (mpr_array(r) != MEMBER_FIELDS)
		rd_fail(r, TV_EFORMAT);
	m->name = mpr_bytes(r, MEMBER_NAME_BYTES_MAX);
	unpack_addr(r, m);
	m->port = (uint16_t)mpr_uint(r, UINT16_MAX);
	m->status = (uint8_t)mpr_uint(r, MEMBER_FAILED);
	unpack_tags(r, a, m);
	for (size_t i = 0; i < sizeof(m->vsn); i++)
		m->vsn[i] = (uint8_t)mpr_uint(r, UINT8_MAX);
	if (r->err != TV_OK)
		*m = (struct member){ .addr_len = 0 };
	return r->err;
}

struct span
member_tag(const struct member *m, const char *name)
{
	for (uint32_t i = 0; i < m->tag_count; i++)
		if (span_eqs(m->tags[i].name, name))
			return m->tags[i].value;
	return SPAN_NONE;
}

uint16_t
member_tag_port(const struct member *m, const char *name)
{
	struct span v = member_tag(m, name);
	uint32_t port = 0;

	if (v.len == 0 || v.len > 5)
		return 0;
	for (size_t i = 0; i < v.len; i++) {
		if (v.p[i] < '0' || v.p[i] > '9')
			return 0;
		port = port * 10 + (v.p[i] - '0');
	}
	return port <= UINT16_MAX ? (uint16_t)port : 0;
}

const char *
member_ip(const struct member *m, char dst[46])
{
	struct addr a = addr_of_bytes(m->addr, m->addr_len);

	return addr_ip(&a, dst);
}

struct member *
member_clone(const struct member *m)
{
	size_t head = sizeof(*m) + m->tag_count * sizeof(*m->tags), bytes = m->name.len;
	struct member *copy;
	uint8_t *at;

	for (uint32_t i = 0; i < m->tag_count; i++)
		bytes += m->tags[i].name.len + m->tags[i].value.len;
	copy = malloc(head + bytes);
	if (copy == NULL)
		return NULL;
	*copy = *m;
	copy->tags = (struct member_tag *)(copy + 1);
	at = (uint8_t *)copy + head;
	copy->name = span_place(&at, m->name);
	for (uint32_t i = 0; i < m->tag_count; i++) {
		copy->tags[i].name = span_place(&at, m->tags[i].name);
		copy->tags[i].value = span_place(&at, m->tags[i].value);
	}
	TV_ASSERT(at == (uint8_t *)copy + head + bytes);
	return copy;
}
