/*
 * The files of the key ring: `keyring` and `keyring.seen`.  A text is refused with a reason, or gives a ring that prints
 * as a text which gives the same ring; ids of keys are read within bounds.
 */
#include "config.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "gossipd/keyring_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
same(const struct seal_ring *a, const struct seal_ring *b)
{
	TV_ASSERT(a->count == b->count);
	for (unsigned i = 0; i < a->count; i++)
		TV_ASSERT(span_eq(seal_key_at(a, i), seal_key_at(b, i)));
}

static void
ring(struct secrets *s, struct span text)
{
	const char *wrong = keyring_parse(text, &s->work);
	size_t len;

	if (wrong != NULL) {
		TV_ASSERT(wrong[0] != '\0');
		return;
	}
	TV_ASSERT(s->work.count > 0);
	len = keyring_print(s, &s->work);
	TV_ASSERT(len < sizeof(s->text) && keyring_parse(span_of(s->text, len), &s->undo) == NULL);
	same(&s->work, &s->undo);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct secrets *s = calloc(1, sizeof(*s));
	struct kring *k = calloc(1, sizeof(*k));

	if (s == NULL || k == NULL)
		abort();
	ring(s, span_of(data, size));
	keyring_parse_seen(k, (const char *)data, size);
	TV_ASSERT(k->seen_count <= SEEN_MAX);
	free(s);
	free(k);
	return 0;
}
