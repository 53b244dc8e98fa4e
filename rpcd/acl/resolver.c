/* From a token to its rights, see resolver.h. */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/join.h"
#include "common/base/log.h"
#include "common/record/records.h"
#include "rpcd/acl/grants.h"
#include "rpcd/acl/rights.h"

#define KEPT_MAX 8192
#define UNKNOWN_MAX 1024
#define BYTES_MAX (64u << 20)
#define UNKNOWN_TTL MONO_S(1)
#define FETCHES_MAX 256
#define WAITS_MAX 16384
/* Of both: the rest is for tokens that were known before.  Anyone can invent others. */
#define OF_UNKNOWN(max_) ((max_) / 4 * 3)
/*
 * Who waits is answered by acl.down_policy after this, though the question stays under way.  At the very first, when
 * nothing says that access control holds, sooner: this node may be all there is.
 */
#define PATIENCE_S 3.0
#define PATIENCE_FIRST_S 0.5
#define OFF_TTL MONO_S(1)		/* on a server; on an agent it is acl.token_ttl */
#define ARGS_BYTES_MAX 1024

enum state { UNDECIDED, OFF, ON };

struct acl_wait {
	struct join_waiter waiter;	/* of a fetch */
	acl_done *done;
	void *ctx;
};

/* A question to the servers about one token. */
struct fetch {
	struct join_flight flight;
	struct acl_resolver *r;
	uint8_t key[GRANT_KEY_BYTES];
	struct buf token;
	struct route_call *call;
	bool confirming;		/* asked again of a server that knows to be up to date, */
	enum tv_err first;		/* because one that may not said this */
	ev_timer patience;
};

struct acl_resolver {
	struct acl_resolver_conf conf;
	struct grants *grants;
	uint8_t hash_key[crypto_generichash_KEYBYTES];
	enum state state;
	bool kept;			/* the file says that access control holds */
	bool down;			/* the newest outcome: no server could be asked */
	struct mono off_until;		/* OFF, or UNDECIDED and down: ask again then */
	struct map fetches;		/* under way */
	unsigned wait_count;
	struct acl_rights *nothing, *all, *master;
	struct acl_stats stats;
};

static void
key_of(const struct acl_resolver *r, struct span token, uint8_t key[GRANT_KEY_BYTES])
{
	crypto_generichash(key, GRANT_KEY_BYTES, token.p, token.len, r->hash_key, sizeof(r->hash_key));
}

/* -- whether access control holds ------------------------------------------------- */

static struct mono
off_ttl(const struct acl_resolver *r)
{
	if (r->conf.expected)		/* it is to begin at any moment: each request asks */
		return MONO_ZERO;
	return r->conf.server ? OFF_TTL : r->conf.conf->acl_token_ttl;
}

static void
turn_on(struct acl_resolver *r)
{
	static const char text[] = "Access control holds in this cluster: without servers acl.down_policy decides.\n";
	enum tv_err err;

	if (r->state != ON)
		log_info("acl", "access control holds");
	r->state = ON;
	if (r->kept || r->conf.path == NULL)
		return;
	r->kept = true;			/* one try: what failed would fail each time */
	err = file_replace(AT_FDCWD, r->conf.path, span_str(text), 0600);
	if (err != TV_OK)
		log_warn("acl", "%s: cannot be written, so a start without servers will not know that access control "
		    "holds: %s", r->conf.path, strerror(errno));
}

static void
turn_off(struct acl_resolver *r)
{
	r->off_until = mono_add(clock_mono(), off_ttl(r));
	if (r->state == ON) {
		log_warn("acl", "access control does not hold any more, say the servers");
		grants_clear(r->grants);
		if (r->kept)
			(void)file_remove(r->conf.path);
		r->kept = false;
	}
	r->state = OFF;
}

/* -- answers ---------------------------------------------------------------------- */

static struct acl_answer
granted(struct acl_rights *rights)
{
	return (struct acl_answer){ .standing = ACL_GRANTED, .rights = rights };
}

static struct acl_answer
not_found(struct acl_resolver *r)
{
	r->stats.not_found++;
	return (struct acl_answer){ .standing = ACL_NOT_FOUND };
}

/* No server can be asked; old: what is kept from before, or NULL. */
static struct acl_answer
by_policy(struct acl_resolver *r, struct acl_rights *old)
{
	int policy = r->conf.conf->acl_down;

	if (r->state != ON)
		return (struct acl_answer){ .standing = ACL_OFF };
	r->stats.by_down_policy++;
	struct acl_answer a = granted(policy == ACL_DOWN_ALLOW ? r->all :
	    policy != ACL_DOWN_DENY && old != NULL ? old : r->nothing);
	a.unjudged = true;
	return a;
}

static enum grant_got
look_in_grants(struct acl_resolver *r, const uint8_t key[GRANT_KEY_BYTES], struct acl_rights **rights)
{
	struct mono ttl = r->conf.server ? MONO_ZERO : r->conf.conf->acl_token_ttl;

	return grants_get(r->grants, key, clock_mono(), clock_wall_ns(), ttl, rights);
}

/* -- questions -------------------------------------------------------------------- */

static void
fetch_free(struct fetch *f)
{
	join_close(&f->r->fetches, &f->flight);
	ev_timer_stop(f->r->conf.loop, &f->patience);
	if (f->call != NULL)
		route_cancel(f->call);
	buf_done(&f->token);
	free(f);
}

/* All waiters; none of them may free the resolver, but they may ask and cancel. */
static void
answer_waiters(struct fetch *f, const struct acl_answer *a)
{
	struct acl_rights *kept = a->rights == NULL ? NULL : acl_rights_keep(a->rights);
	struct acl_wait *w;

	while ((w = JOIN_ENTRY(join_next(&f->flight), struct acl_wait, waiter)) != NULL) {
		acl_done *done = w->done;
		void *ctx = w->ctx;

		f->r->wait_count--;
		free(w);
		done(ctx, a);
	}
	acl_rights_free(kept);
}

static void
finish_fetch(struct fetch *f, const struct acl_answer *a)
{
	if (f->call != NULL)
		route_cancel(f->call);
	f->call = NULL;
	ev_timer_stop(f->r->conf.loop, &f->patience);
	/* A later lookup of the same token starts a new fetch. */
	join_end(&f->r->fetches, &f->flight);
	answer_waiters(f, a);
	fetch_free(f);
}

static void
went_down(struct acl_resolver *r, enum tv_err err)
{
	static const char *const names[] = { "extend-cache", "async-cache", "deny", "allow" };

	if (!r->down && r->state == ON)
		log_warn("acl", "no server says what tokens may do (%s): acl.down_policy decides, which is %s",
		    tv_strerror(err), names[r->conf.conf->acl_down]);
	r->down = true;
	r->stats.down_why = err;
	if (r->state != ON)
		r->off_until = mono_add(clock_mono(), OFF_TTL);
}

static void
came_back(struct acl_resolver *r)
{
	if (r->down && r->state == ON)
		log_info("acl", "servers say again what tokens may do");
	r->down = false;
}

static bool send_question(struct fetch *f, enum op_mode mode);

/* A server that may be behind said no: one that knows to be up to date is to say it too.  False: it has. */
static bool
confirm(struct fetch *f, enum tv_err err)
{
	if (f->confirming || (err == TV_EDISABLED && f->r->state != ON && !f->r->conf.expected))
		return false;
	f->confirming = true;
	f->first = err;
	return send_question(f, OP_DEFAULT);
}

static void
take_rights(struct fetch *f, struct span value)
{
	struct acl_resolver *r = f->r;
	struct acl_rights *rights, *old;
	struct acl_answer a;
	uint8_t digest[32];
	enum tv_err err = TV_OK;

	turn_on(r);
	acl_rights_digest(value, digest);
	(void)look_in_grants(r, f->key, &old);
	if (old != NULL && memcmp(old->digest, digest, sizeof(digest)) == 0)
		rights = acl_rights_keep(old);
	else
		err = acl_rights_read(value, &rights);
	if (err != TV_OK) {
		log_warn("acl", "what a token may do cannot be told: %s", tv_strerror(err));
		a = granted(r->nothing);
		finish_fetch(f, &a);
		return;
	}
	grants_put(r->grants, f->key, clock_mono(), rights);
	a = granted(rights);
	finish_fetch(f, &a);
	acl_rights_free(rights);
}

static void
on_reply(void *ctx, const struct op_reply *reply)
{
	struct fetch *f = ctx;
	struct acl_resolver *r = f->r;
	struct acl_rights *old;
	struct acl_answer a;
	enum tv_err err = reply->err;
	bool unconfirmed = false;

	f->call = NULL;
	if (err == TV_OK || err == TV_EPERM || err == TV_EDISABLED)
		came_back(r);
	else if ((unconfirmed = f->confirming && f->first == TV_EPERM))
		err = TV_EPERM;		/* better than nothing */
	if (err == TV_OK) {
		take_rights(f, reply->value);
		return;
	}
	if ((err == TV_EPERM || err == TV_EDISABLED) && confirm(f, err))
		return;
	if (err == TV_EPERM) {
		turn_on(r);
		if (!unconfirmed)
			grants_put(r->grants, f->key, clock_mono(), NULL);
		a = not_found(r);
		a.unjudged = unconfirmed;
	} else if (err == TV_EDISABLED && r->conf.server && r->conf.expected) {
		/* The first leader has not begun it yet; until then nothing is open here. */
		a = by_policy(r, NULL);
	} else if (err == TV_EDISABLED) {
		turn_off(r);
		a = (struct acl_answer){ .standing = ACL_OFF };
	} else {
		r->stats.failed++;
		went_down(r, err);
		(void)look_in_grants(r, f->key, &old);
		a = by_policy(r, old);
	}
	finish_fetch(f, &a);
}

static bool
send_question(struct fetch *f, enum op_mode mode)
{
	struct acl_secret args = { .SecretID = buf_span(&f->token) };
	struct op_request q = { .op = OP_ACL_RESOLVE, .dc = span_of("", 0), .mode = (uint8_t)mode };
	struct buf packed = BUF_INIT(ARGS_BYTES_MAX);

	packed.secret = true;
	schema_pack(&acl_secret_schema, &args, &packed);
	q.args = buf_span(&packed);
	f->call = packed.failed ? NULL : route_start(f->r->conf.route, &q, on_reply, f);
	buf_done(&packed);
	f->r->stats.fetches += f->call != NULL;
	return f->call != NULL;
}

/* The fetch takes long: its waiters get an answer now, and the fetch goes on. */
static void
on_patience(struct ev_loop *loop, ev_timer *t, int events UNUSED)
{
	struct fetch *f = t->data;
	struct acl_resolver *r = f->r;
	struct acl_rights *old;
	struct acl_answer a;

	ev_timer_stop(loop, t);
	if (f->confirming && f->first == TV_EPERM) {
		a = not_found(r);
		a.unjudged = true;
	} else {
		went_down(r, TV_ETIMEOUT);
		(void)look_in_grants(r, f->key, &old);
		a = by_policy(r, old);
	}
	answer_waiters(f, &a);
}

/*
 * The question about this token that is under way, begun if need be.  known: it had rights, or is none at all.
 * NULL: too many, or no memory.
 */
static struct fetch *
fetch_start(struct acl_resolver *r, struct span token, const uint8_t key[GRANT_KEY_BYTES], bool known)
{
	struct fetch *f;
	uint64_t hash;

	memcpy(&hash, key, sizeof(hash));	/* the key is a hash */
	MAP_FOREACH_HASH(f, &r->fetches, hash, flight.node)
		if (memcmp(f->key, key, GRANT_KEY_BYTES) == 0)
			return f;
	f = r->fetches.count >= (known ? FETCHES_MAX : OF_UNKNOWN(FETCHES_MAX)) ? NULL : calloc(1, sizeof(*f));
	if (f == NULL)
		return NULL;
	f->r = r;
	memcpy(f->key, key, GRANT_KEY_BYTES);
	f->token = BUF_INIT(OP_NAME_BYTES_MAX);
	f->token.secret = true;
	buf_putspan(&f->token, token);
	ev_timer_init(&f->patience, on_patience, r->state == ON ? PATIENCE_S : PATIENCE_FIRST_S, 0.);
	f->patience.data = f;
	join_open(&r->fetches, &f->flight, hash);
	if (f->token.failed || !send_question(f, OP_STALE)) {
		fetch_free(f);
		return NULL;
	}
	ev_now_update(r->conf.loop);
	ev_timer_start(r->conf.loop, &f->patience);
	return f;
}

static enum acl_got
wait_for(struct fetch *f, bool known, acl_done *done, void *ctx, struct acl_wait **out)
{
	unsigned most = known ? WAITS_MAX : OF_UNKNOWN(WAITS_MAX);
	struct acl_wait *w = f->r->wait_count >= most ? NULL : calloc(1, sizeof(*w));

	if (w == NULL)
		return ACL_BUSY;
	*w = (struct acl_wait){ .done = done, .ctx = ctx };
	join_wait(&f->flight, &w->waiter);
	f->r->wait_count++;
	*out = w;
	return ACL_LATER;
}

/* -- for others ------------------------------------------------------------------- */

/* Asks the servers again whether access control holds, without a token. */
static void
probe(struct acl_resolver *r)
{
	uint8_t key[GRANT_KEY_BYTES];

	key_of(r, span_of("", 0), key);
	(void)fetch_start(r, span_of("", 0), key, true);
}

bool
acl_is_off(struct acl_resolver *r)
{
	if (r->state == ON || (r->state == UNDECIDED && !r->down))
		return false;
	if (mono_before(clock_mono(), r->off_until))
		return true;
	probe(r);			/* an old "off" permits nothing: the caller waits for the answer */
	return false;
}

bool
acl_holds(const struct acl_resolver *r)
{
	return r->state == ON;
}

bool
acl_is_master(const struct acl_resolver *r, struct span token)
{
	struct span master = agent_token(r->conf.tokens, RPCD_TOKEN_AGENT_MASTER);
	uint8_t a[GRANT_KEY_BYTES], b[GRANT_KEY_BYTES];

	if (master.len == 0 || token.len == 0)
		return false;
	/* Keyed hashes: how long the comparison takes tells nothing. */
	key_of(r, master, a);
	key_of(r, token, b);
	return memcmp(a, b, sizeof(a)) == 0;
}

struct acl_rights *
acl_master_rights(struct acl_resolver *r)
{
	return r->master;
}

/* What needs no question; *key is set where one is needed. */
static bool
answer_now(struct acl_resolver *r, struct span token, uint8_t key[GRANT_KEY_BYTES], struct acl_answer *now,
    enum grant_got *got, struct acl_rights **rights)
{
	*got = GRANT_NONE;
	*rights = NULL;
	if (acl_is_off(r)) {
		*now = (struct acl_answer){ .standing = ACL_OFF };
		return true;
	}
	if (acl_is_master(r, token)) {
		*now = granted(r->master);
		return true;
	}
	if (token.len > OP_NAME_BYTES_MAX) {
		*now = not_found(r);
		return true;
	}
	key_of(r, token, key);
	*got = look_in_grants(r, key, rights);
	if (*got != GRANT_FRESH)
		return false;
	*now = *rights != NULL ? granted(*rights) : not_found(r);
	return true;
}

/* There is no room to ask for it anew, and its rights are from the ttl before this one. */
static bool
goes_on(struct acl_resolver *r, const uint8_t key[GRANT_KEY_BYTES])
{
	struct acl_rights *rights;
	struct mono ttl = r->conf.server ? OFF_TTL : mono_mul(r->conf.conf->acl_token_ttl, 2);

	return grants_get(r->grants, key, clock_mono(), clock_wall_ns(), ttl, &rights) == GRANT_FRESH && rights != NULL;
}

enum acl_got
acl_ask(struct acl_resolver *r, struct span token, struct acl_answer *now, acl_done *done, void *ctx,
    struct acl_wait **wait)
{
	uint8_t key[GRANT_KEY_BYTES];
	struct acl_rights *rights;
	enum grant_got got;
	struct fetch *f;

	*wait = NULL;
	if (answer_now(r, token, key, now, &got, &rights))
		return ACL_NOW;
	bool known = rights != NULL || token.len == 0;
	f = fetch_start(r, token, key, known);
	if (got == GRANT_OLD && !r->conf.server && r->conf.conf->acl_down == ACL_DOWN_ASYNC_CACHE) {
		*now = granted(rights);
		return ACL_NOW;
	}
	if (r->down) {			/* no caller waits for what did not come the last time */
		*now = by_policy(r, rights);
		return ACL_NOW;
	}
	if (f != NULL && wait_for(f, known, done, ctx, wait) == ACL_LATER)
		return ACL_LATER;
	if (rights == NULL || !goes_on(r, key)) {
		r->stats.busy++;
		return ACL_BUSY;
	}
	r->stats.by_old_rights++;
	*now = granted(rights);
	return ACL_NOW;
}

void
acl_cancel(struct acl_wait *w)
{
	if (w->waiter.flight != NULL)
		JOIN_ENTRY(w->waiter.flight, struct fetch, flight)->r->wait_count--;
	(void)join_leave(&w->waiter);	/* the fetch goes on: what it finds is kept */
	free(w);
}

struct span
resolver_accessor(struct acl_resolver *r, struct span token)
{
	uint8_t key[GRANT_KEY_BYTES];
	struct acl_rights *rights;

	if (token.len > OP_NAME_BYTES_MAX)
		return span_of("", 0);
	key_of(r, token, key);
	(void)look_in_grants(r, key, &rights);
	return span_str(rights == NULL ? "" : rights->accessor);
}

struct acl_resolver *
acl_resolver_new(const struct acl_resolver_conf *conf)
{
	struct acl_resolver *r = calloc(1, sizeof(*r));
	struct buf said = BUF_INIT(4096);

	if (r == NULL)
		return NULL;
	r->conf = *conf;
	crypto_generichash_keygen(r->hash_key);
	r->grants = grants_new(&(struct grants_conf){ .kept_max = KEPT_MAX, .unknown_max = UNKNOWN_MAX,
	    .bytes_max = BYTES_MAX,
	    /* A server asks its own state, which may have the token in a moment. */
	    .unknown_ttl = conf->server ? MONO_S(0) : UNKNOWN_TTL });
	r->nothing = acl_rights_plain(false);
	r->all = acl_rights_plain(true);
	r->master = acl_rights_master(conf->node_name);
	if (r->grants == NULL || r->nothing == NULL || r->all == NULL || r->master == NULL) {
		acl_resolver_free(r);
		return NULL;
	}
	/* A file that cannot be read says no less: it is there. */
	r->kept = conf->path != NULL && file_read(conf->path, &said) != TV_ENOENT;
	if (conf->expected || r->kept)
		r->state = ON;
	buf_done(&said);
	probe(r);
	return r;
}

void
acl_resolver_free(struct acl_resolver *r)
{
	struct map_node *n;
	struct fetch *f;

	if (r == NULL)
		return;
	MAP_FOREACH(f, &r->fetches, flight.node, n) {
		while (join_next(&f->flight) != NULL)
			;
		fetch_free(f);
	}
	map_done(&r->fetches);
	grants_free(r->grants);
	acl_rights_free(r->nothing);
	acl_rights_free(r->all);
	acl_rights_free(r->master);
	sodium_memzero(r->hash_key, sizeof(r->hash_key));
	free(r);
}

void
acl_stats(const struct acl_resolver *r, struct acl_stats *out)
{
	*out = r->stats;
	out->holds = r->state == ON;
	out->down = r->down;
	grants_count(r->grants, &out->kept, &out->kept_unknown, &out->bytes);
	out->under_way = (unsigned)r->fetches.count;
	out->waiting = r->wait_count;
}
