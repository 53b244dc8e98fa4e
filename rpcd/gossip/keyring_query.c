/* A question about keys to gossipd, see keyring_query.h. */
#include <stdlib.h>

#include "common/conf/keys.h"
#include "common/net/msg.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/gossip/keyring_query.h"

#define ANSWER_BYTES_MAX (4u << 20)	/* what members.h takes in one frame */
#define TEXT_BYTES_MAX 4096
#define COUNTS_MAX 64			/* as gossipd/handlers_key.c */
#define MESSAGES_MAX 1024
#define POOL_BIT(pool_) (1u << (pool_))

struct keyring_query {
	struct members *members;
	struct span datacenter;
	uint64_t id;			/* of the question */
	bool wan;			/* asked for */
	void (*done)(void *ctx, const struct op_reply *reply);
	void *ctx;
	struct arena arena;
};

static void
keyring_query_free(struct keyring_query *k)
{
	arena_wipe(&k->arena);
	arena_done(&k->arena);
	free(k);
}

static void
keyring_query_end(struct keyring_query *k, enum tv_err err, const char *text, struct buf *value)
{
	struct op_reply reply = { .err = err, .text = span_str(text), .index = 1, .known_leader = true };

	if (value != NULL && value->failed)
		reply.err = TV_ENOMEM;
	else if (value != NULL)
		reply.value = buf_span(value);
	k->done(k->ctx, &reply);
	keyring_query_free(k);
}

/* Asked, but refused: the same reason for each pool. */
static void
put_refused(const struct keyring_query *k, struct buf *b, struct span why)
{
	mpw_array(b, k->wan ? 2 : 1);
	for (int wan = k->wan; wan >= 0; wan--)
		schema_pack(&keyring_pool_schema, &(struct keyring_pool){ .WAN = wan != 0,
		    .Datacenter = k->datacenter, .Error = why }, b);
}

/* The head of a map of at most max pairs, and a list for them; empty where r has an error. */
static struct obj_list
read_head(struct keyring_query *k, struct rd *r, uint32_t max, size_t size)
{
	struct obj_list list = { .n = mpr_map(r), .set = true };

	if (list.n > max)
		rd_fail(r, TV_ELIMIT);
	list.v = r->err == TV_OK ? arena_array(&k->arena, list.n, size) : NULL;
	if (list.v == NULL && list.n > 0)
		rd_fail(r, TV_ENOMEM);
	list.n = r->err == TV_OK ? list.n : 0;
	return list;
}

static struct obj_list
read_counts(struct keyring_query *k, struct rd *r)
{
	struct obj_list list = read_head(k, r, COUNTS_MAX, sizeof(struct key_count));

	for (uint32_t i = 0; i < list.n; i++)
		((struct key_count *)list.v)[i] = (struct key_count){ mpr_bytes(r, KEY_BASE64_BYTES),
		    mpr_uint(r, UINT32_MAX) };
	return list;
}

static struct obj_list
read_messages(struct keyring_query *k, struct rd *r)
{
	struct obj_list list = read_head(k, r, MESSAGES_MAX, sizeof(struct key_message));

	for (uint32_t i = 0; i < list.n; i++)
		((struct key_message *)list.v)[i] = (struct key_message){ mpr_bytes(r, TEXT_BYTES_MAX),
		    mpr_bytes(r, TEXT_BYTES_MAX) };
	return list;
}

/* [u8 pool, u32 nodes, u32 responses, u32 errors, counts, counts, messages] */
static void
read_pool(struct keyring_query *k, struct rd *r, struct keyring_pool *p)
{
	if (mpr_array(r) != 7)
		rd_fail(r, TV_EFORMAT);
	p->WAN = mpr_uint(r, POOL_WAN) == POOL_WAN;
	p->Datacenter = k->datacenter;
	p->NumNodes = mpr_uint(r, UINT32_MAX);
	p->NumResponses = mpr_uint(r, UINT32_MAX);
	p->NumErrors = mpr_uint(r, UINT32_MAX);
	p->Keys = read_counts(k, r);
	p->PrimaryKeys = read_counts(k, r);
	p->Messages = read_messages(k, r);
}

static void
on_answer(void *ctx, enum tv_err err, struct span body)
{
	struct keyring_query *k = ctx;
	struct rd r;
	struct buf b = BUF_INIT(ANSWER_BYTES_MAX);
	struct keyring_pool pools[2] = { { .WAN = false } };
	struct msg_answer a;
	uint32_t count;

	if (err != TV_OK) {
		keyring_query_end(k, err, err == TV_ETIMEOUT ? "gossipd did not answer in time" :
		    "gossipd closed the connection before it answered", NULL);
		return;
	}
	b.secret = true;		/* the packed list holds keys */
	err = msg_answer_read(body, &a, NULL, NULL, NULL);
	r = rd_span_over(a.value);
	count = mpr_array(&r);
	for (uint32_t i = 0; i < count && i < 2; i++)
		read_pool(k, &r, &pools[i]);
	if (err != TV_OK || rd_end(&r) != TV_OK || count > 2) {
		keyring_query_end(k, TV_EFORMAT, "malformed reply from gossipd", NULL);
		return;
	}
	if (a.err != TV_OK) {
		put_refused(k, &b, a.text);
	} else {
		mpw_array(&b, count);
		while (count > 0)		/* WAN first */
			schema_pack(&keyring_pool_schema, &pools[--count], &b);
	}
	keyring_query_end(k, TV_OK, "", &b);
	buf_done(&b);
}

void *
keyring_query_start(void *members, const struct op_request *q, struct mono timeout,
    void (*done)(void *ctx, const struct op_reply *reply), void *ctx, enum tv_err *err)
{
	struct keyring_query *k = calloc(1, sizeof(*k));
	struct keyring_op op = { .WAN = false };
	struct rd r = rd_span_over(q->args);
	struct buf b = BUF_INIT(256);

	*err = TV_ENOMEM;
	if (k == NULL)
		return NULL;
	*k = (struct keyring_query){ .members = members, .done = done, .ctx = ctx,
	    .arena = ARENA_INIT(ANSWER_BYTES_MAX) };
	(void)members_datacenters(members, &k->datacenter, 1);	/* our own comes first */
	*err = schema_unpack(&keyring_op_schema, &r, &k->arena, &op);
	if (*err == TV_OK && (op.What > KEYRING_REMOVE || op.Key.len > KEY_BYTES))
		*err = TV_EINVAL;
	k->wan = op.WAN;
	if (*err == TV_OK) {
		b.secret = true;
		schema_pack(&msg_keyring_schema, &(struct msg_keyring){ op.What, op.Key, op.RelayFactor,
		    POOL_BIT(POOL_LAN) | (op.WAN ? POOL_BIT(POOL_WAN) : 0) }, &b);
		k->id = daemon_client_call(members_daemon(members), MSG_GOSSIP_KEYRING, buf_span(&b), timeout,
		    on_answer, k, err);
	}
	buf_done(&b);
	if (k->id != 0)
		return k;
	keyring_query_free(k);
	return NULL;
}

void
keyring_query_cancel(void *started)
{
	struct keyring_query *k = started;

	daemon_client_cancel(members_daemon(k->members), k->id);
	keyring_query_free(k);
}
