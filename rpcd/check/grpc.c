/* Messages of health checks by gRPC, see grpc.h.  Protocol buffers: a key (number and type of a field), its value. */
#include <stdio.h>

#include "common/base/hex.h"
#include "rpcd/check/grpc.h"

#define PREFIX 5			/* not compressed, length */
#define SERVICE_BYTES_MAX 16384
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void
put_varint(struct buf *out, uint64_t n)
{
	for (; n >= 0x80; n >>= 7)
		buf_u8(out, (uint8_t)(n | 0x80));
	buf_u8(out, (uint8_t)n);
}

void
grpc_request(struct span service, struct buf *out)
{
	struct buf message = BUF_INIT(SERVICE_BYTES_MAX + 16);

	if (service.len > 0) {
		buf_u8(&message, 1 << 3 | BYTES);
		put_varint(&message, service.len);
		buf_putspan(&message, service);
	}
	buf_u8(out, 0);
	for (int shift = 24; shift >= 0; shift -= 8)
		buf_u8(out, (uint8_t)(message.len >> shift));
	buf_putspan(out, buf_span(&message));
	out->failed |= message.failed;
	buf_done(&message);
}

static bool
get_varint(struct span *in, uint64_t *n)
{
	*n = 0;
	for (unsigned shift = 0; shift < 64 && in->len > 0; shift += 7) {
		uint8_t byte = *in->p;

		*in = span_of(in->p + 1, in->len - 1);
		*n |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

static bool
skip(struct span *in, uint64_t n)
{
	if (n > in->len)
		return false;
	*in = span_of(in->p + n, in->len - (size_t)n);
	return true;
}

static bool
skip_value(struct span *in, unsigned type)
{
	uint64_t n;

	switch (type) {
	case VARINT:
		return get_varint(in, &n);
	case FIXED64:
		return skip(in, 8);
	case FIXED32:
		return skip(in, 4);
	case BYTES:
		return get_varint(in, &n) && skip(in, n);
	default:
		return false;
	}
}

bool
grpc_response(struct span body, uint64_t *status)
{
	uint64_t key, len = 0;

	*status = 0;
	if (body.len < PREFIX || body.p[0] != 0)
		return false;
	for (int i = 1; i < PREFIX; i++)
		len = len << 8 | body.p[i];
	if (body.len - PREFIX != len)
		return false;
	struct span in = span_of(body.p + PREFIX, (size_t)len);
	while (in.len > 0)
		if (!get_varint(&in, &key) ||
		    !(key == (1 << 3 | VARINT) ? get_varint(&in, status) : skip_value(&in, (unsigned)(key & 7))))
			return false;
	return true;
}

const char *
grpc_status_name(uint64_t status, char dst[24])
{
	static const char *const names[] = { "UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN" };

	if (status < sizeof(names) / sizeof(names[0]))
		return names[status];
	snprintf(dst, 24, "%llu", (unsigned long long)status);
	return dst;
}

const char *
grpc_code_name(unsigned code, char dst[24])
{
	static const char *const names[] = {
		"OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists",
		"PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented",
		"Internal", "Unavailable", "DataLoss", "Unauthenticated",
	};

	if (code < sizeof(names) / sizeof(names[0]))
		return names[code];
	snprintf(dst, 24, "Code(%u)", code);
	return dst;
}

void
grpc_message(struct span value, struct buf *out)
{
	for (size_t i = 0; i < value.len; i++) {
		uint8_t c = value.p[i];

		if (c == '%' && i + 2 < value.len && hex_value(value.p[i + 1]) >= 0 && hex_value(value.p[i + 2]) >= 0) {
			c = (uint8_t)(hex_value(value.p[i + 1]) << 4 | hex_value(value.p[i + 2]));
			i += 2;
		}
		buf_u8(out, c < ' ' || c == 0x7f ? '?' : c);
	}
}
