/* The messages of grpc.health.v1, and what stands around them in gRPC over HTTP/2.  Pure. */
#ifndef TV_RPCD_CHECK_GRPC_H
#define TV_RPCD_CHECK_GRPC_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/rd.h"

#define GRPC_PATH "/grpc.health.v1.Health/Check"
#define GRPC_SERVING 1

/* The body of a request: a HealthCheckRequest of this service (empty: the server as a whole). */
void grpc_request(struct span service, struct buf *out);
/* The status in the body of an answer.  False: it is no HealthCheckResponse. */
bool grpc_response(struct span body, uint64_t *status);
/* "SERVING"; the number itself, into dst, where it has no name. */
const char *grpc_status_name(uint64_t status, char dst[24]);
/* "Unavailable", of grpc-status; "Code(99)". */
const char *grpc_code_name(unsigned code, char dst[24]);
/* grpc-message without its percents; what is no text becomes '?'. */
void grpc_message(struct span value, struct buf *out);

#endif
