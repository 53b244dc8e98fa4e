/*
 * Wire messages as JSON, in the shape of the `decoded` members of
 * tests/data/serf-vectors.json, and written again from what was read.
 */
#ifndef TEST_GOSSIP_DESCRIBE_H
#define TEST_GOSSIP_DESCRIBE_H

#include <jansson.h>

#include "gossipd/core/wire/serfwire.h"
#include "gossipd/core/wire/stream.h"

/* Each returns a new object (NULL when the bytes do not decode), and appends the message as our writers put it. */
json_t *describe_message(enum wire_type type, struct span body, struct buf *again);
json_t *describe_stream(const struct stream_message *m, struct buf *again);
json_t *describe_serf(struct span message, struct buf *again);		/* Serf type byte first */
json_t *describe_tags(struct span meta, struct buf *again);		/* an object of strings */
json_t *describe_filter(struct span entry, struct buf *again);		/* {filter_type, value} */
json_t *describe_coord(struct span payload, struct buf *again);

#endif
