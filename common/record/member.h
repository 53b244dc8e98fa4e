/*
 * A pool member as gossipd tells it to raftd and rpcd.
 * Body: [str name, bin addr (4 or 16 bytes), u16 port, u8 status, map str -> str tags,
 *        u8 pmin, pmax, pcur, dmin, dmax, dcur]
 */
#ifndef TV_COMMON_RECORD_MEMBER_H
#define TV_COMMON_RECORD_MEMBER_H

#include "common/base/arena.h"
#include "common/base/buf.h"

#define MEMBER_NAME_BYTES_MAX 255
#define MEMBER_TAGS_MAX 64

enum gossip_pool { POOL_LAN = 0, POOL_WAN = 1 };

/* Serf's numbers, as /v1/agent/members shows them. */
enum member_status { MEMBER_NONE = 0, MEMBER_ALIVE = 1, MEMBER_LEAVING = 2, MEMBER_LEFT = 3, MEMBER_FAILED = 4 };

enum gossip_event {
	GOSSIP_EV_JOIN = 0,	/* came, came back, or is told at the start of a watch (any status) */
	GOSSIP_EV_UPDATE = 1,	/* tags, address or status (leaving) changed */
	GOSSIP_EV_LEAVE = 2,	/* left gracefully, or by force-leave */
	GOSSIP_EV_FAILED = 3,
	GOSSIP_EV_REAP = 4,	/* forgotten */
};

struct member_tag {
	struct span name, value;
};

struct member {
	struct span name;
	uint8_t addr[16];	/* network order; IPv4 in the first 4 */
	uint8_t addr_len;	/* 4 or 16 */
	uint16_t port;
	uint8_t status;		/* enum member_status */
	uint8_t vsn[6];		/* PMin PMax PCur DMin DMax DCur */
	struct member_tag *tags;
	uint32_t tag_count;
};

/* "alive", "failed" ...; never NULL. */
const char *member_status_name(enum member_status s);
void member_pack(struct buf *b, const struct member *m);
/* Spans borrow the input, tags come from the arena. */
enum tv_err member_unpack(struct rd *r, struct arena *a, struct member *m);
/* Value of a tag, or SPAN_NONE. */
struct span member_tag(const struct member *m, const char *name);
/* Tag as a port 1..65535, or 0. */
uint16_t member_tag_port(const struct member *m, const char *name);
/* "127.0.0.1" or "::1" into dst; returns dst. */
const char *member_ip(const struct member *m, char dst[46]);
/* A deep copy in one allocation (free() it), or NULL. */
struct member *member_clone(const struct member *m);

#endif
