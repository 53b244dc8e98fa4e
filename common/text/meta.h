/* Metadata of nodes and services: what a pair of it may be.  Limits and sentences are Consul's. */
#ifndef TV_COMMON_TEXT_META_H
#define TV_COMMON_TEXT_META_H

#include "common/base/rd.h"

#define META_PAIRS_MAX 64		/* of one node or service */
#define META_KEY_BYTES_MAX 128
#define META_VALUE_BYTES_MAX 512

/* NULL: this pair may be; else a sentence without a full stop that says why not, a constant. */
const char *meta_pair_refusal(struct span key, struct span value);

#endif
