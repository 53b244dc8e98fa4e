/* Key queries of the pools; see keyquery.h. */
#include "config.h"

#include <sodium.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/conf/keys.h"
#include "common/record/mpack.h"
#include "gossipd/core/wire/serfwire.h"
#include "gossipd/keyquery.h"

#define ANSWER_BYTES_MAX 4096		/* before it is cut to what fits */
#define KEY_TEXT_ROOM (KEY_BASE64_BYTES + 1)

const char *
keyquery_name(enum kring_op op)
{
	static const char *const names[] = {
		[KRING_LIST] = "_serf_list-keys", [KRING_INSTALL] = "_serf_install-key", [KRING_USE] = "_serf_use-key",
		[KRING_REMOVE] = "_serf_remove-key",
	};

	return names[op];
}

const char *
keyquery_refused(const struct engine *e, enum kring_op op)
{
	int stage = e->cluster->encryption;

	if (kring_ring(e->keys)->count == 0)
		return op == KRING_LIST ? "Keyring is empty (encryption not enabled)" :
		    "No keyring to modify (encryption not enabled)";
	if (stage < ENCRYPTION_SEND)
		return "encryption = \"accept\" on this node: it sends plaintext, and serves no key requests";
	if (stage < ENCRYPTION_REQUIRED && op != KRING_LIST)
		return "encryption = \"send\" on this node: it accepts plaintext, so the sender of a key request "
		    "cannot be verified; set \"required\" first";
	return NULL;
}

/* No other member is there whose packets could prove a key. */
static bool
is_alone(const struct engine *e)
{
	for (int i = 0; i < ENGINE_POOLS; i++) {
		struct swim_stats stats;

		if (e->pools[i] == NULL)
			continue;
		swim_stats(pool_core(e->pools[i]), &stats);
		if (stats.alive > 1)
			return false;
	}
	return true;
}

static void
put_key(struct buf *b, struct span key)
{
	char text[KEY_TEXT_ROOM];

	sodium_bin2base64(text, sizeof(text), key.p, key.len, sodium_base64_VARIANT_ORIGINAL);
	mpw_raw_cstr(b, text);
	sodium_memzero(text, sizeof(text));
}

static void
wipe(struct buf *b)
{
	if (b->cap > 0)
		sodium_memzero(b->data, b->cap);
	buf_done(b);
}

/* A list of the first `shown` keys. */
static enum tv_err
respond_list(struct pool *p, const struct swim_query *q, const struct seal_ring *ring, unsigned shown)
{
	struct buf keys = BUF_INIT(ANSWER_BYTES_MAX), b = BUF_INIT(ANSWER_BYTES_MAX);
	struct span primary = seal_key_at(ring, 0);
	char text[KEY_TEXT_ROOM], cut[80] = "";
	struct serf_key_response m = { .result = true };
	enum tv_err err = TV_ENOMEM;

	if (shown < ring->count)
		snprintf(cut, sizeof(cut), "truncated key list response, showing first %u of %u keys", shown,
		    ring->count);
	mpw_array(&keys, shown);
	for (unsigned i = 0; i < shown; i++)
		put_key(&keys, seal_key_at(ring, i));
	m.keys = buf_span(&keys);
	m.message = span_str(cut);
	m.primary_key = span_str(sodium_bin2base64(text, sizeof(text), primary.p, primary.len,
	    sodium_base64_VARIANT_ORIGINAL));
	serf_put_key_response(&b, &m);
	if (!keys.failed && !b.failed)
		err = pool_respond(p, q->ltime, q->id, buf_span(&b));
	sodium_memzero(text, sizeof(text));
	wipe(&keys);
	wipe(&b);
	return err;
}

/* As many keys as one answer holds. */
static void
answer_list(struct pool *p, const struct swim_query *q, const struct seal_ring *ring)
{
	unsigned shown = ring->count;

	while (respond_list(p, q, ring, shown) == TV_ELIMIT && shown > 0)
		shown--;
}

static void
answer_key_query(struct pool *p, const struct swim_query *q, bool result, const char *text)
{
	struct buf b = BUF_INIT(ANSWER_BYTES_MAX);
	struct serf_key_response m = { .result = result, .message = span_str(text), .primary_key = span_str("") };

	serf_put_key_response(&b, &m);
	if (!b.failed)
		(void)pool_respond(p, q->ltime, q->id, buf_span(&b));	/* too late, or lost: the asker sees none */
	buf_done(&b);
}

void
keyquery_heard(struct engine *e, struct pool *p, const struct swim_query *q)
{
	static const enum kring_op ops[] = {
		[SWIM_QUERY_KEY_LIST] = KRING_LIST, [SWIM_QUERY_KEY_INSTALL] = KRING_INSTALL,
		[SWIM_QUERY_KEY_USE] = KRING_USE, [SWIM_QUERY_KEY_REMOVE] = KRING_REMOVE,
	};
	enum kring_op op = ops[q->kind];
	const char *no = keyquery_refused(e, op);
	char text[512] = "", from[NODE_NAME_BYTES_MAX * 4 + 1];
	enum tv_err err;

	log_safe(q->from, from, sizeof(from));
	log_debug("keyring", "%s of the %s pool from %s", keyquery_name(op), engine_pool_name(pool_kind(p)), from);
	if (no != NULL) {
		answer_key_query(p, q, false, no);
		return;
	}
	if (op == KRING_LIST) {
		answer_list(p, q, kring_ring(e->keys));
		return;
	}
	err = kring_change(e->keys, op, q->payload, is_alone(e), text, sizeof(text));
	if (err != TV_OK)
		log_warn("keyring", "%s from %s refused: %s", keyquery_name(op), from, text);
	answer_key_query(p, q, err == TV_OK, text);
}
