/* Own tags: what this node says of itself in both pools. */
#ifndef TV_GOSSIPD_TAGS_H
#define TV_GOSSIPD_TAGS_H

#include "common/base/buf.h"
#include "common/record/member.h"

struct tagset {
	struct member_tag *tags;	/* owned, names and values too; in the order in which they were set */
	uint32_t count;
};

/* An empty value removes the tag.  TV_ENOMEM; TV_ELIMIT above MEMBER_TAGS_MAX tags. */
enum tv_err tagset_put(struct tagset *t, struct span name, struct span value);
enum tv_err tagset_puts(struct tagset *t, const char *name, const char *value);
/* A deep copy, or TV_ENOMEM. */
enum tv_err tagset_copy(const struct tagset *t, struct tagset *out);
#define TAGSET_META_ROOM 65536	/* for a buffer that meets the limit of the meta before its own */
/* As the meta of an alive; TV_ELIMIT above 512 bytes. */
enum tv_err tagset_meta(const struct tagset *t, struct buf *out);
void tagset_done(struct tagset *t);

#endif
