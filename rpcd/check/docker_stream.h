/* What a program in a container prints, as docker sends it: pieces, each with a head of eight bytes.  Pure. */
#ifndef TV_RPCD_CHECK_DOCKER_STREAM_H
#define TV_RPCD_CHECK_DOCKER_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/rd.h"

struct docker_stream {			/* zeroed at first */
	uint8_t head[8];		/* which stream, three zeros, length */
	unsigned have;			/* of it */
	uint32_t left;			/* of the piece */
};

/* More bytes, from anywhere to anywhere; fn gets what was printed.  False: it is none. */
bool docker_stream_put(struct docker_stream *s, struct span bytes, void (*fn)(void *ctx, struct span printed),
    void *ctx);

#endif
