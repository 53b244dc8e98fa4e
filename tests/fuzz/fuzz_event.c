/*
 * User events as gossip carries them: up to the first NUL the name, behind it the payload.  What is taken is written
 * again and reads the same; an ID is always one that has an index.
 */
#include <string.h>

#include "common/base/assert.h"
#include "rpcd/event/event_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
same(const struct user_event *a, const struct user_event *b)
{
	return span_eq(a->Name, b->Name) && span_eq(a->Payload, b->Payload) && span_eq(a->NodeFilter, b->NodeFilter) &&
	    span_eq(a->ServiceFilter, b->ServiceFilter) && span_eq(a->TagFilter, b->TagFilter);
}

static void
write_again(const struct user_event *e)
{
	struct buf name = BUF_INIT(1u << 20), payload = BUF_INIT(1u << 20), json = BUF_INIT(8u << 20);
	char id[EVENT_ID_BYTES + 1];
	struct user_event again;

	event_wire_write(e, &name, &payload);
	TV_ASSERT(!name.failed && !payload.failed);
	TV_ASSERT(event_wire_read(e->LTime, buf_span(&name), buf_span(&payload), id, &again) == EVENT_USER);
	TV_ASSERT(same(e, &again));
	TV_ASSERT(!event_wire_enveloped(e) || span_eq(e->ID, again.ID));
	schema_json_rec(&user_event_schema, e, &json);
	TV_ASSERT(!json.failed && json.len > 2);
	buf_done(&name);
	buf_done(&payload);
	buf_done(&json);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size == 0 ? NULL : memchr(data, 0, size);
	size_t text = nul == NULL ? size : (size_t)(nul - data);
	struct span payload = nul == NULL ? SPAN_NONE : span_of(nul + 1, size - text - 1);
	char id[EVENT_ID_BYTES + 1];
	struct user_event e;

	if (size > 65536)
		return 0;
	if (event_wire_read(size, span_of(data, text), payload, id, &e) != EVENT_USER)
		return 0;
	TV_ASSERT(e.ID.len == EVENT_ID_BYTES && event_wire_index(e.ID) > 0);
	TV_ASSERT(e.LTime == size);
	write_again(&e);
	return 0;
}
