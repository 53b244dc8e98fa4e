/*
 * /v1/operator/keyring: list, install, use and remove keys in the gossip pools of all datacenters.
 *
 * One server of each datacenter is asked in turn, the one here for the WAN pool too.  `use` and `remove` ask all
 * of them for their keys first, because a key must not become the primary one anywhere while a member of any pool
 * lacks it (the servers are members of two), and must not go while it is still needed.  ?force skips that.
 */
#include <inttypes.h>
#include <sodium.h>

#include "common/conf/keys.h"
#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/api/api.h"

#define RELAY_MAX 5
#define POOLS_MAX 512			/* two, and one more for each other datacenter */
#define MESSAGES_SHOWN 3

RECORD_LOCAL(keyring_request, (STR, Key))
static RECORD_TABLE(pool_shown, keyring_pool,
	(BOOL, WAN), (STR, Datacenter), (CONST, Segment, "\"\""),
	(OBJMAP, Messages, key_message, SF_OMITEMPTY | SF_BARE), (OBJMAP, Keys, key_count, SF_BARE),
	(OBJMAP, PrimaryKeys, key_count, SF_BARE), (U64, NumNodes), (STR, Error, SF_OMITEMPTY))

struct run {
	struct keyring_op op;
	char key[KEY_BASE64_BYTES + 1];	/* as answers spell it */
	uint8_t bytes[KEY_BYTES];
	bool force, local_only;
	bool checking;			/* the round of lists before `use` and `remove` */
	struct text_list datacenters;	/* own first */
	uint32_t at;			/* the one that is asked */
	struct keyring_pool pools[POOLS_MAX];
	uint32_t pool_count;
};

static void ask_datacenter(struct request *r);

/* -- what the answers say ------------------------------------------------------------ */

/* Begins a line about a pool. */
static void
put_place(const struct keyring_pool *p, struct buf *why)
{
	buf_puts(why, why->len > 0 ? "\n" : "");
	if (p->WAN)
		buf_puts(why, "WAN: ");
	else
		buf_printf(why, "LAN (%.*s): ", (int)(p->Datacenter.len < 128 ? p->Datacenter.len : 128),
		    (const char *)p->Datacenter.p);
}

static uint64_t
count_of(const struct obj_list *counts, struct span key)
{
	const struct key_count *list = counts->v;

	for (uint32_t i = 0; i < counts->n; i++)
		if (span_eq(list[i].Key, key))
			return list[i].Count;
	return 0;
}

/* Did everybody answer, and well?  Else one line about it. */
static bool
pool_whole(const struct keyring_pool *p, struct buf *why)
{
	const struct key_message *list = p->Messages.v;
	bool errors = p->NumErrors > 0;

	if (p->Error.len == 0 && p->NumErrors == 0 && p->NumResponses >= p->NumNodes)
		return true;
	put_place(p, why);
	if (p->Error.len > 0) {
		buf_putspan(why, p->Error);
		return false;
	}
	buf_printf(why, "%" PRIu64 "/%" PRIu64 " nodes reported %s", errors ? p->NumErrors : p->NumResponses,
	    p->NumNodes, errors ? "failure" : "success");
	for (uint32_t i = 0; i < p->Messages.n && i < MESSAGES_SHOWN; i++)
		buf_printf(why, "%s%.*s: %.*s", i > 0 ? "; " : ": ", SPAN_ARGS(list[i].Node), SPAN_ARGS(list[i].Text));
	if (p->Messages.n > MESSAGES_SHOWN)
		buf_printf(why, "; and %u more", p->Messages.n - MESSAGES_SHOWN);
	return false;
}

/* All pools; lines about those that are not whole. */
static bool
all_whole(const struct run *run, struct buf *why)
{
	bool whole = true;

	for (uint32_t i = 0; i < run->pool_count; i++)
		whole &= pool_whole(&run->pools[i], why);
	return whole;
}

/* Before `use`: who lacks the key would be cut off. */
static void
check_use(const struct run *run, struct buf *why)
{
	for (uint32_t i = 0; i < run->pool_count; i++) {
		const struct keyring_pool *p = &run->pools[i];
		uint64_t have = count_of(&p->Keys, span_str(run->key));

		if (have >= p->NumNodes)
			continue;
		put_place(p, why);
		buf_printf(why, "requested key is not in the keyring of %" PRIu64 " of %" PRIu64
		    " nodes: install it first", p->NumNodes - have, p->NumNodes);
	}
}

/* Before `remove`: it must be no node's primary key, and all nodes must have all those that are. */
static void
check_remove(const struct run *run, struct buf *why)
{
	for (uint32_t i = 0; i < run->pool_count; i++) {
		const struct keyring_pool *p = &run->pools[i];
		const struct key_count *primaries = p->PrimaryKeys.v;
		uint64_t users = count_of(&p->PrimaryKeys, span_str(run->key));

		if (users > 0) {
			put_place(p, why);
			buf_printf(why, "Removing the primary key is not allowed: %" PRIu64 " of %" PRIu64
			    " nodes use it", users, p->NumNodes);
		}
		for (uint32_t k = 0; k < p->PrimaryKeys.n && users == 0; k++) {
			char id[KEY_ID_TEXT_BYTES];
			uint8_t bytes[KEY_BYTES], len = 0;
			uint64_t have = key_decode(primaries[k].Key, bytes, &len) ?
			    count_of(&p->Keys, primaries[k].Key) : 0;

			if (have > 0 && have < p->NumNodes) {
				put_place(p, why);
				buf_printf(why, "%" PRIu64 " of %" PRIu64 " nodes lack the primary key %s, and may "
				    "need this one", p->NumNodes - have, p->NumNodes,
				    key_id_text(span_of(bytes, len), id));
			}
			sodium_memzero(bytes, sizeof(bytes));
		}
	}
}

/* -- answers -------------------------------------------------------------------------- */

/* A member that is silent, or another datacenter that is away, spoils no list: it is named in it. */
static void
answer_list(struct request *r)
{
	struct run *run = r->state;
	struct buf why = BUF_INIT(1u << 20);
	bool any = false;

	for (uint32_t i = 0; i < run->pool_count; i++)
		any |= run->pools[i].Error.len == 0 && run->pools[i].NumResponses > run->pools[i].NumErrors;
	if (!any) {
		(void)all_whole(run, &why);
		answer_span(r, 500, buf_span(&why));
		buf_done(&why);
		return;
	}
	buf_u8(&r->answer.body, '[');
	for (uint32_t i = 0; i < run->pool_count; i++) {
		buf_puts(&r->answer.body, i > 0 ? "," : "");
		schema_json_rec(&pool_shown_schema, &run->pools[i], &r->answer.body);
	}
	buf_u8(&r->answer.body, ']');
	answer_json(r);
}

/* Every datacenter was asked in this round. */
static void
round_over(struct request *r)
{
	struct run *run = r->state;
	struct buf why = BUF_INIT(1u << 20);

	if (run->op.What == KEYRING_LIST) {
		answer_list(r);
		return;
	}
	if (all_whole(run, &why) && run->checking) {
		if (run->op.What == KEYRING_USE)
			check_use(run, &why);
		else
			check_remove(run, &why);
	}
	if (why.len > 0) {
		answer_span(r, 500, buf_span(&why));
	} else if (why.failed) {	/* there was something to say */
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
	} else if (run->checking) {
		run->checking = false;
		run->at = run->pool_count = 0;
		ask_datacenter(r);
	} else {
		answer_empty(r, 200);
	}
	buf_done(&why);
}

/* -- asking ----------------------------------------------------------------------------- */

static void
add_error(struct run *run, struct span datacenter, struct span why)
{
	run->pools[run->pool_count++] = (struct keyring_pool){ .Datacenter = datacenter, .Error = why };
}

static void
got_pools(struct request *r, const struct op_reply *reply)
{
	struct run *run = r->state;
	struct rd in = rd_span_over(arena_copy(&r->arena, reply->value));
	struct span dc = run->datacenters.Values.v[run->at];
	uint32_t n = reply->err == TV_OK ? mpr_array(&in) : 0;

	if (reply->err != TV_OK)
		add_error(run, dc, arena_copy(&r->arena, reply->text));
	for (uint32_t i = 0; i < n && run->pool_count < POOLS_MAX && in.err == TV_OK; i++) {
		struct keyring_pool *p = &run->pools[run->pool_count];

		*p = (struct keyring_pool){ .WAN = false };
		if (schema_unpack(&keyring_pool_schema, &in, &r->arena, p) == TV_OK)
			run->pool_count++;
	}
	if (in.err != TV_OK)
		add_error(run, dc, span_str("rpc error making call: malformed answer"));
	run->at++;
	if (run->at < run->datacenters.Values.n && run->pool_count + 3 < POOLS_MAX)
		ask_datacenter(r);
	else
		round_over(r);
}

static void
ask_datacenter(struct request *r)
{
	struct run *run = r->state;
	struct keyring_op op = run->op;

	r->op.dc = run->at == 0 ? span_of("", 0) : run->datacenters.Values.v[run->at];
	op.WAN = run->at == 0 && !run->local_only;
	if (run->checking)
		op.What = KEYRING_LIST;
	api_start(r, OP_KEYRING, &op, got_pools);
}

static void
got_datacenters(struct request *r, const struct op_reply *reply)
{
	struct run *run = r->state;
	struct span own = span_str(r->api->cluster->datacenter), *v;

	if (api_failed(r, reply))
		return;
	struct rd in = rd_span_over(arena_copy(&r->arena, reply->value));
	if (schema_unpack(&text_list_schema, &in, &r->arena, &run->datacenters) != TV_OK) {
		api_malformed(r);
		return;
	}
	v = run->datacenters.Values.v;
	for (uint32_t i = 1; i < run->datacenters.Values.n; i++)
		if (span_eq(v[i], own)) {
			v[i] = v[0];
			v[0] = own;
		}
	if (run->datacenters.Values.n == 0) {
		answer_text(r, 500, "No path to datacenter");
		return;
	}
	ask_datacenter(r);
}

/* -- questions ---------------------------------------------------------------------------- */

static bool
read_relay(struct request *r, struct run *run)
{
	struct span text = params_get(&r->query, "relay-factor");
	uint64_t n = 0;

	if (text.len > 0 && (text.len > 18 || u64_parse(text, &n) != TV_OK))
		answer_text(r, 400, "Bad request: Error parsing relay factor: strconv.Atoi: parsing \"%.*s\": invalid "
		    "syntax", SPAN_ARGS(text));
	else if (n > RELAY_MAX)
		answer_text(r, 400, "Bad request: Invalid relay-factor: Relay factor must be in range: [0, %d]",
		    RELAY_MAX);
	run->op.RelayFactor = n;
	return !r->answered;
}

static bool
read_local_only(struct request *r, struct run *run)
{
	struct span text = params_get(&r->query, "local-only");
	int value = text.len == 0 ? 0 : params_bool(text);

	run->local_only = value == 1;
	if (value < 0)
		answer_text(r, 400, "Bad request: Error parsing local-only: strconv.ParseBool: parsing \"%.*s\": "
		    "invalid syntax", SPAN_ARGS(text));
	else if (run->local_only && run->op.What != KEYRING_LIST)
		answer_text(r, 400,
		    "Bad request: Invalid use of local-only: local-only can only be set for list requests");
	else
		return true;
	return false;
}

static bool
read_key(struct request *r, struct run *run)
{
	struct keyring_request body = { .Key = SPAN_NONE };
	uint8_t len;

	if (!api_decode_as(r, &keyring_request_schema, "Bad request: ", &body))
		return false;
	if (!key_decode(body.Key, run->bytes, &len) || !span_copy(body.Key, run->key, sizeof(run->key))) {
		answer_text(r, 500, "key size must be 16, 24 or 32 bytes, in base64");
		return false;
	}
	run->op.Key = span_of(run->bytes, len);
	return true;
}

static void
run_keyring(struct request *r)
{
	struct run *run = arena_array(&r->arena, 1, sizeof(*run));

	if (run == NULL) {
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
		return;
	}
	memset(run, 0, sizeof(*run));
	r->state = run;
	run->op.What = (uint64_t)r->endpoint->arg;
	if ((run->op.What != KEYRING_LIST && !read_key(r, run)) || !read_relay(r, run) || !read_local_only(r, run))
		return;
	run->force = params_has(&r->query, "force");
	run->checking = !run->force && run->op.What >= KEYRING_USE;
	r->op.dc = span_of("", 0);
	if (!run->local_only) {
		api_start(r, OP_CATALOG_DATACENTERS, &(struct empty_rec){ 0 }, got_datacenters);
		return;
	}
	run->datacenters.Values.v = arena_array(&r->arena, 1, sizeof(struct span));
	if (run->datacenters.Values.v == NULL) {
		answer_text(r, 500, "%s", tv_strerror(TV_ENOMEM));
		return;
	}
	run->datacenters.Values.v[0] = span_str(r->api->cluster->datacenter);
	run->datacenters.Values.n = 1;
	ask_datacenter(r);
}

#define KEYRING(method_, right_, what_) { "/v1/operator/keyring", (method_), ACCESS_KEYRING_##right_ | ACCESS_ADMIN, \
    .body = BODY_KEY, .arg = (what_), .run = run_keyring }

const struct endpoint api_keyring[] = {
	KEYRING("GET", READ, KEYRING_LIST),
	KEYRING("POST", WRITE, KEYRING_INSTALL),
	KEYRING("PUT", WRITE, KEYRING_USE),
	KEYRING("DELETE", WRITE, KEYRING_REMOVE),
	{ .path = NULL },
};
