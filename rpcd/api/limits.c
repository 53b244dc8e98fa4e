/* See limits.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/source.h"
#include "rpcd/api/api.h"
#include "rpcd/api/limits.h"

#define BURST_S 10			/* a full bucket holds what the rate brings in this time, as Consul's do */
#define SETS 512			/* 4096 sources, and as many tokens: 96 KB each */
#define LINES_PER_MINUTE 6		/* of each limit */
#define NS_PER_S INT64_C(1000000000)

enum { READS, WRITES };			/* of BUCKETS_EACH */

static const char *const rate_names[REQUEST_LIMITS][BUCKETS_EACH] = {
	[LIMIT_ALL] = { "read_rate", "write_rate" },
	[LIMIT_SOURCE] = { "source_read_rate", "source_write_rate" },
	[LIMIT_TOKEN] = { "token_read_rate", "token_write_rate" },
};

/* -- configuration -------------------------------------------------------------- */

/* A table is there while it is needed.  False: no memory. */
static bool
prepare_table(struct buckets *b, bool on)
{
	return !on || b->slots != NULL || buckets_init(b, SETS);
}

static void
free_unless(struct buckets *b, bool on)
{
	if (!on)
		buckets_done(b);
}

static void
set_rate(struct limits *l, unsigned limit, unsigned kind, uint64_t thousandths)
{
	struct bucket_rate r = thousandths == CONF_NO_RATE ? (struct bucket_rate){ .step = 0 } :
	    bucket_rate_of(thousandths, BURST_S);

	if (r.step == l->rates[limit][kind].step)
		return;
	l->rates[limit][kind] = r;
	if (limit == LIMIT_ALL)
		l->all[kind] = 0;
	else
		buckets_fill(limit == LIMIT_SOURCE ? &l->sources : &l->tokens, kind);
}

bool
limits_configure(struct limits *l, const struct rpcd_conf *conf)
{
	bool on[REQUEST_LIMITS] = { false };
	int mode;

	for (unsigned i = 0; i < REQUEST_LIMITS; i++)
		for (unsigned k = 0; k < BUCKETS_EACH; k++)
			on[i] = on[i] || (conf->request_mode != REQUESTS_DISABLED &&
			    conf->request_rates[i][k] != CONF_NO_RATE);
	if (!prepare_table(&l->sources, on[LIMIT_SOURCE]) || !prepare_table(&l->tokens, on[LIMIT_TOKEN])) {
		log_err("http", "no memory for limits.request_limits: those from before stay");
		return false;
	}
	free_unless(&l->sources, on[LIMIT_SOURCE]);
	free_unless(&l->tokens, on[LIMIT_TOKEN]);
	for (unsigned i = 0; i < REQUEST_LIMITS; i++)
		for (unsigned k = 0; k < BUCKETS_EACH; k++) {
			set_rate(l, i, k, conf->request_rates[i][k]);
			l->lines[i][k].burst = LINES_PER_MINUTE;
			l->lines[i][k].period = MONO_S(60);
		}
	memcpy(l->on, on, sizeof(on));
	mode = on[LIMIT_ALL] || on[LIMIT_SOURCE] || on[LIMIT_TOKEN] ? conf->request_mode : REQUESTS_DISABLED;
	for (unsigned i = 0; i < REQUEST_LIMITS * BUCKETS_EACH; i++)
		if (mode != l->mode)
			l->lines[i / BUCKETS_EACH][i % BUCKETS_EACH].used = 0;	/* they say something else now */
	l->mode = mode;
	return true;
}

void
limits_done(struct limits *l)
{
	buckets_done(&l->sources);
	buckets_done(&l->tokens);
	l->mode = REQUESTS_DISABLED;
}

uint64_t
limits_forgotten(const struct limits *l)
{
	return l->sources.forgotten + l->tokens.forgotten;
}

/* -- which request is it? --------------------------------------------------------- */

/* By its operation; what has none, by its method.  A transaction is a write: what is in it is not known yet. */
static unsigned
reads_or_writes(const struct request *r)
{
	const struct op *op = op_find((uint16_t)r->endpoint->op);

	if (op != NULL && (op->kind == OP_READ || op->kind == OP_WRITE))
		return op->kind == OP_WRITE ? WRITES : READS;
	return strcmp(r->endpoint->method, "GET") == 0 ? READS : WRITES;
}

/* As Consul's: what tells of the cluster itself has to work while it is flooded. */
static bool
is_exempt(const struct request *r)
{
	const char *path = r->endpoint->path;

	return (r->head.on_socket && r->head.uid == 0) || strncmp(path, "/v1/status/", 11) == 0 ||
	    strncmp(path, "/v1/operator/", 13) == 0;
}

/* The users of rpcd.sock are sources, too. */
static uint64_t
source_key(const struct request *r)
{
	uint64_t id[2] = { r->head.on_socket, 0 };

	if (r->head.on_socket)
		id[1] = (uint64_t)r->head.uid;
	else if (r->head.client_ip != NULL)
		id[1] = source_of_text(r->head.client_ip);
	return keyed_hash(id, sizeof(id));
}

/* Each limit's buckets; NULL: it does not hold for this request. */
static void
find_buckets(struct limits *l, const struct request *r, int64_t now, int64_t *at[REQUEST_LIMITS])
{
	struct span token = l->on[LIMIT_TOKEN] ? api_shown_token(r) : SPAN_NONE;

	at[LIMIT_ALL] = l->on[LIMIT_ALL] ? l->all : NULL;
	at[LIMIT_SOURCE] = l->on[LIMIT_SOURCE] ? buckets_of(&l->sources, source_key(r), now) : NULL;
	at[LIMIT_TOKEN] = token.len > 0 ? buckets_of(&l->tokens, keyed_hash(token.p, token.len), now) : NULL;
}

/* -- one too many ------------------------------------------------------------------ */

static void
log_exceeded(struct request *r, unsigned limit, unsigned kind)
{
	struct limits *l = &r->api->limits;
	char who[64];

	if (!log_allow(&l->lines[limit][kind], "http"))
		return;
	if (r->head.on_socket)
		snprintf(who, sizeof(who), "uid %" PRId64 " on rpcd.sock", r->head.uid);
	else
		snprintf(who, sizeof(who), "%s", r->head.client_ip != NULL ? r->head.client_ip : "a client");
	log_warn("http", "%s %s of %s is beyond limits.request_limits.%s: %s", r->endpoint->method, r->endpoint->path,
	    who, rate_names[limit][kind], l->mode == REQUESTS_ENFORCING ? "refused" : "served (mode permissive)");
}

static void
refuse(struct request *r, unsigned limit, unsigned kind, int64_t wait)
{
	bool leader_alone = limit == LIMIT_ALL && kind == WRITES && r->api->leads != NULL &&
	    r->api->leads(r->api->leads_ctx);

	r->api->limits.stats.refused++;
	answer_header_u64(r, "Retry-After", (uint64_t)((wait + NS_PER_S - 1) / NS_PER_S));
	if (leader_alone)
		answer_text(r, 503, "rate limit exceeded for operation that can only be performed by the leader, try "
		    "again later");
	else if (limit == LIMIT_ALL)
		answer_text(r, 429, "rate limit exceeded, try again later or against a different server");
	else
		answer_text(r, 429, "rate limit exceeded for this %s, try again later "
		    "(limits.request_limits.%s of this node)", limit == LIMIT_SOURCE ? "client address" : "token",
		    rate_names[limit][kind]);
}

bool
limits_admit(struct request *r)
{
	struct limits *l = &r->api->limits;
	int64_t *at[REQUEST_LIMITS], wait[REQUEST_LIMITS] = { 0 }, now = r->begun.ns, longest = 0;
	unsigned kind, limit = LIMIT_ALL;

	if (l->mode == REQUESTS_DISABLED || is_exempt(r))
		return true;
	kind = reads_or_writes(r);
	find_buckets(l, r, now, at);
	for (unsigned i = 0; i < REQUEST_LIMITS; i++) {
		if (at[i] == NULL || (wait[i] = bucket_wait(at[i][kind], &l->rates[i][kind], now)) == 0)
			continue;
		l->stats.exceeded[i][kind]++;
		log_exceeded(r, i, kind);
		limit = longest == 0 || i != LIMIT_ALL ? i : limit;	/* what the client itself can change */
		longest = wait[i] > longest ? wait[i] : longest;
	}
	if (longest > 0 && l->mode == REQUESTS_ENFORCING) {
		refuse(r, limit, kind, longest);
		return false;
	}
	/* Of those that it exceeds it takes nothing: else they would never fill again while a client goes on. */
	for (unsigned i = 0; i < REQUEST_LIMITS; i++)
		if (at[i] != NULL && wait[i] == 0 && l->rates[i][kind].step > 0)
			bucket_take(&at[i][kind], &l->rates[i][kind], now);
	return true;
}
