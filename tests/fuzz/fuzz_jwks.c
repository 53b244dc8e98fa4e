/*
 * What issuers publish.  First byte: what follows.
 *
 *	k	a set of keys: those that are used are the same ones after their way between processes
 *	d	the document of the issuer https://i/: where it says that its keys are, is a place that they are fetched from
 *	m	what a process that fetches says, packed: what is taken of it is a set of keys within its bounds
 */
#include "common/base/assert.h"
#include "common/net/msg.h"
#include "raftd/login/jwks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA_MAX (32u << 20)
#define SENT_BYTES_MAX (1u << 20)

static void
check_set(const struct jwks *set)
{
	TV_ASSERT(set->count <= JWKS_KEYS_MAX);
	for (unsigned i = 0; i < set->count; i++)
		TV_ASSERT(set->keys[i].pub != NULL && set->keys[i].id.len <= JWKS_ID_BYTES_MAX);
}

static void
keys(struct span text, struct arena *a, struct buf *why)
{
	struct msg_fetched sent = { .error = SPAN_NONE }, got = { .error = SPAN_NONE };
	struct buf packed = BUF_INIT(SENT_BYTES_MAX);
	struct jwks set, copy;
	enum tv_err err = jwks_parse(text, &set, why);

	TV_ASSERT(err == TV_OK || (err == TV_EFORMAT && why->len > 0));
	if (err != TV_OK)
		return;
	check_set(&set);
	TV_ASSERT(jwks_put(&set, a, &sent) == TV_OK);
	schema_pack(&msg_fetched_schema, &sent, &packed);
	TV_ASSERT(!packed.failed && msg_read(&msg_fetched_schema, buf_span(&packed), a, &got) == TV_OK);
	TV_ASSERT(jwks_take(&got, &copy, why) == TV_OK && copy.count == set.count);
	for (unsigned i = 0; i < set.count; i++)
		TV_ASSERT(span_eq(set.keys[i].id, copy.keys[i].id) && set.keys[i].kind == copy.keys[i].kind);
	jwks_free(&set);
	jwks_free(&copy);
	buf_done(&packed);
}

static void
document(struct span text, struct arena *a, struct buf *why)
{
	uint32_t algorithms;
	struct span url;
	enum tv_err err = jwks_discovery(text, span_str("https://i/"), a, &url, &algorithms, why);

	TV_ASSERT(err == TV_OK ? url.len > 0 && why->len == 0 && jwks_url_check(url, why) : err == TV_EFORMAT && why->len > 0);
}

static void
message(struct span body, struct arena *a, struct buf *why)
{
	struct msg_fetched m = { .error = SPAN_NONE };
	struct jwks set;

	if (msg_read(&msg_fetched_schema, body, a, &m) != TV_OK || jwks_take(&m, &set, why) != TV_OK)
		return;
	check_set(&set);
	jwks_free(&set);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a = ARENA_INIT(ARENA_MAX);
	struct buf why = BUF_INIT(64u << 10);
	struct span rest;

	if (size < 1)
		return 0;
	rest = span_of(data + 1, size - 1);
	if (data[0] == 'k')
		keys(rest, &a, &why);
	else if (data[0] == 'd')
		document(rest, &a, &why);
	else if (data[0] == 'm')
		message(rest, &a, &why);
	buf_done(&why);
	arena_done(&a);
	return 0;
}
