/* User events as they travel, see event_wire.h. */
#include <sodium.h>

#include "common/base/uuid.h"
#include "common/record/mpack.h"
#include "rpcd/event/event_wire.h"

#define INTERNAL_PREFIX "consul:"
#define ENVELOPE_PREFIX "consul:event:"
#define EVENT_VERSION 1
#define FIELD_NAME_BYTES_MAX 32
#define TEXT_BYTES_MAX (64u << 10)	/* nothing that gossip carries is longer */

/* -- IDs -- */

void
event_wire_id(uint64_t ltime, struct span name, struct span payload, char id[EVENT_ID_BYTES + 1])
{
	crypto_generichash_state st;
	uint8_t head[16], out[UUID_BYTES];

	for (int i = 0; i < 8; i++) {
		head[i] = (uint8_t)(ltime >> 8 * i);
		head[8 + i] = (uint8_t)((uint64_t)name.len >> 8 * i);
	}
	crypto_generichash_init(&st, NULL, 0, sizeof(out));
	crypto_generichash_update(&st, head, sizeof(head));
	crypto_generichash_update(&st, name.p, name.len);
	crypto_generichash_update(&st, payload.p, payload.len);
	crypto_generichash_final(&st, out, sizeof(out));
	uuid_text(out, id);
}

void
event_wire_random_id(char id[EVENT_ID_BYTES + 1])
{
	uint8_t b[UUID_BYTES];

	randombytes_buf(b, sizeof(b));
	uuid_v4(b, id);
}

uint64_t
event_wire_index(struct span id)
{
	uint8_t b[UUID_BYTES];
	uint64_t both = 0;

	if (!uuid_parse(id, b))
		return 1;
	for (int i = 0; i < 8; i++)
		both = both << 8 | (b[i] ^ b[8 + i]);
	return both != 0 ? both : 1;
}

/* -- envelopes -- */

bool
event_wire_enveloped(const struct user_event *e)
{
	return e->NodeFilter.len > 0 || e->ServiceFilter.len > 0 || e->TagFilter.len > 0 ||
	    span_starts(e->Name, span_str(INTERNAL_PREFIX));
}

/* The fields of an envelope, in the order in which they are written; then comes "v". */
#define FIELDS 6
static const char *const keys[FIELDS] = { "ID", "n", "nf", "p", "sf", "tf" };

static struct span *
field_of(struct user_event *e, unsigned i)
{
	struct span *const values[FIELDS] = { &e->ID, &e->Name, &e->NodeFilter, &e->Payload, &e->ServiceFilter,
		&e->TagFilter };

	return values[i];
}

void
event_wire_write(const struct user_event *e, struct buf *name, struct buf *payload)
{
	struct user_event from = *e;
	uint32_t fields = 1;

	if (!event_wire_enveloped(e)) {
		buf_putspan(name, e->Name);
		buf_putspan(payload, e->Payload);
		return;
	}
	for (unsigned i = 0; i < FIELDS; i++)
		fields += field_of(&from, i)->len > 0;
	buf_puts(name, ENVELOPE_PREFIX);
	buf_putspan(name, e->Name);
	mpw_map(payload, fields);
	for (unsigned i = 0; i < FIELDS; i++) {
		if (field_of(&from, i)->len == 0)
			continue;
		mpw_raw_cstr(payload, keys[i]);
		mpw_raw(payload, *field_of(&from, i));
	}
	mpw_raw_cstr(payload, "v");
	mpw_uint(payload, EVENT_VERSION);
}

static enum tv_err
read_envelope(struct span payload, struct user_event *e)
{
	struct rd r = rd_span_over(payload);
	uint32_t n = mpr_map(&r);

	for (uint32_t i = 0; i < n && r.err == TV_OK; i++) {
		struct span key = mpr_bytes(&r, FIELD_NAME_BYTES_MAX);
		unsigned at = 0;

		while (at < FIELDS && !span_eqs(key, keys[at]))
			at++;
		if (at < FIELDS)
			*field_of(e, at) = mpr_bytes_or_nil(&r, TEXT_BYTES_MAX);
		else if (span_eqs(key, "v"))
			e->Version = mpr_uint(&r, UINT32_MAX);
		else
			mpr_skip(&r);
	}
	return rd_end(&r);
}

enum event_kind
event_wire_read(uint64_t ltime, struct span name, struct span payload, char id[EVENT_ID_BYTES + 1],
    struct user_event *out)
{
	size_t prefix = strlen(ENVELOPE_PREFIX);

	*out = (struct user_event){ .Name = name, .Payload = payload, .Version = EVENT_VERSION, .LTime = ltime };
	if (span_starts(name, span_str(ENVELOPE_PREFIX))) {
		out->Name = span_of(name.p + prefix, name.len - prefix);
		out->Payload = SPAN_NONE;
		if (read_envelope(payload, out) != TV_OK || out->Name.len == 0)
			return EVENT_BAD;
	} else if (span_starts(name, span_str(INTERNAL_PREFIX))) {
		return EVENT_INTERNAL;
	}
	if (!uuid_parse(out->ID, NULL)) {
		event_wire_id(ltime, name, payload, id);
		out->ID = span_of(id, EVENT_ID_BYTES);
	}
	return EVENT_USER;
}
