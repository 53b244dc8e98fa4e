/* Who may ask (endpoint.h): the token of a request, its rights, and what they allow. */
#include <string.h>
#include <strings.h>

#include "common/base/assert.h"
#include "common/conf/cluster_conf.h"
#include "rpcd/api/api.h"

/* -- tokens --------------------------------------------------------------------- */

/* The scheme is in any case, and spaces follow it (RFC 9110, 11.1 and 11.4); tabs are taken, too. */
struct span
api_bearer_token(const char *authorization)
{
	size_t n = strlen("Bearer");

	if (authorization == NULL || strncasecmp(authorization, "Bearer", n) != 0 ||
	    (authorization[n] != ' ' && authorization[n] != '\t'))
		return span_of("", 0);
	return span_str(authorization + n + strspn(authorization + n, " \t"));
}

struct span
api_shown_token(const struct request *r)
{
	struct span given = params_get(&r->query, "token");

	if (given.len > 0)
		return given;
	if (r->head.token != NULL && r->head.token[0] != '\0')
		return span_str(r->head.token);
	return api_bearer_token(r->head.authorization);
}

struct span
api_token(const struct request *r)
{
	struct span shown = api_shown_token(r);

	return shown.len > 0 ? shown : agent_token_default(r->api->tokens);
}

/* URLs are written to logs and histories; and what comes as plaintext from afar can be read on the way. */
void
api_warn_of_token(struct request *r)
{
	struct api *api = r->api;

	if (api_shown_token(r).len == 0) {
		if (r->head.authorization != NULL)
			log_debug("http", "%s sends the header Authorization without a token of the scheme Bearer: it "
			    "is ignored", r->head.client_ip != NULL ? r->head.client_ip : "a client of rpcd.sock");
		return;
	}
	if (params_get(&r->query, "token").len > 0 && log_allow(&api->token_in_query, "http"))
		log_warn("http", "%s sends its token in the URL, where logs keep it: use the header X-Consul-Token",
		    r->head.client_ip != NULL ? r->head.client_ip : "a client of rpcd.sock");
	if (r->head.client_ip != NULL && !r->head.on_tls && !cluster_addr_is_loopback(r->head.client_ip) &&
	    log_allow(&api->token_in_clear, "http"))
		log_warn("http", "%s sends its token as plaintext over the network", r->head.client_ip);
}

/* -- rights --------------------------------------------------------------------- */

enum { NOT_JUDGED, ALL_ALLOWED, BY_RIGHTS };	/* r->judged */
#define UNJUDGED ": no server says what this token may do"

void
api_access_end(struct request *r)
{
	acl_rights_free(r->rights);
	r->rights = NULL;
	acl_rights_free(r->other_rights);
	r->other_rights = NULL;
	r->judged = NOT_JUDGED;
	r->unjudged = false;
}

static bool
master_may(const struct request *r, enum acl_resource resource, struct span name, enum acl_access need)
{
	return r->is_root && acl_set_allows(acl_master_rights(r->api->acl)->set, resource, name, need);
}

bool
api_may(const struct request *r, enum acl_resource resource, struct span name, enum acl_access need)
{
	TV_ASSERT(r->judged != NOT_JUDGED);
	if (r->judged == ALL_ALLOWED || master_may(r, resource, name, need))
		return true;
	return r->rights != NULL && acl_set_allows(r->rights->set, resource, name, need);
}

bool
api_shows(struct request *r, enum acl_resource resource, struct span name)
{
	bool shown = api_may(r, resource, name, ACL_READ);

	r->hidden = r->hidden || !shown;
	return shown;
}

/* Not to clients without a token: they could find out what there is by ?filter. */
void
api_filtered_header(struct request *r)
{
	if (r->hidden && (r->is_root || api_token(r).len > 0))
		answer_header(r, "X-Consul-Results-Filtered-By-ACLs", "true");
}

bool
api_is_free(const struct request *r)
{
	return r->judged == ALL_ALLOWED;
}

bool
api_must(struct request *r, enum acl_resource resource, struct span name, enum acl_access need)
{
	if (api_may(r, resource, name, need))
		return true;
	r->api->stats.denied++;
	answer_text(r, 403, "Permission denied%s", r->unjudged ? UNJUDGED : "");
	return false;
}

bool
api_must_write(struct request *r, enum acl_resource resource, struct span name)
{
	if (r->unjudged || api_may(r, resource, name, ACL_WRITE))
		return api_must(r, resource, name, ACL_WRITE);
	r->api->stats.denied++;
	answer_text(r, 403, "Permission denied: Missing %s:write on %.*s", acl_resource_name(resource),
	    SPAN_ARGS(name));
	return false;
}

/* What a row needs that needs the same each time; false: it needs nothing, or decides itself. */
static bool
need_of(const struct request *r, enum acl_resource *resource, struct span *name, enum acl_access *need)
{
	static const struct { enum acl_resource resource; enum acl_access need; } needs[] = {
		[ACCESS_AGENT_READ] = { ACL_AGENT, ACL_READ }, [ACCESS_AGENT_WRITE] = { ACL_AGENT, ACL_WRITE },
		[ACCESS_OPERATOR_READ] = { ACL_OPERATOR, ACL_READ },
		[ACCESS_OPERATOR_WRITE] = { ACL_OPERATOR, ACL_WRITE },
		[ACCESS_KEYRING_READ] = { ACL_KEYRING, ACL_READ }, [ACCESS_KEYRING_WRITE] = { ACL_KEYRING, ACL_WRITE },
		[ACCESS_NODE_WRITE] = { ACL_NODE, ACL_WRITE },
	};
	unsigned access = endpoint_access(r->endpoint);

	if (access >= sizeof(needs) / sizeof(needs[0]) || needs[access].need == ACL_UNSET)
		return false;
	*resource = needs[access].resource;
	*need = needs[access].need;
	*name = span_str(r->api->cluster->node_name);
	return true;
}

static bool
is_root_here(const struct request *r)
{
	return r->head.on_socket && r->head.uid == 0;
}

/* False: answered. */
static bool
decide(struct request *r, const struct acl_answer *a)
{
	enum acl_resource resource;
	enum acl_access need;
	struct span name;

	/* Root has never less with a token that no server can judge than without one. */
	r->is_root = r->is_root || (is_root_here(r) && a->unjudged);
	r->unjudged = a->unjudged;
	/* Root is told of no token that it did not show, unless servers would say the same. */
	if (a->standing == ACL_NOT_FOUND && (!r->is_root || endpoint_access(r->endpoint) == ACCESS_OP)) {
		r->api->stats.denied++;
		answer_text(r, 403, "ACL not found");
		return false;
	}
	r->judged = a->standing == ACL_OFF ? ALL_ALLOWED : BY_RIGHTS;
	r->rights = a->standing == ACL_GRANTED ? acl_rights_keep(a->rights) : NULL;
	return !need_of(r, &resource, &name, &need) || api_must(r, resource, name, need);
}

static void
on_rights(void *ctx, const struct acl_answer *a)
{
	struct request *r = ctx;

	r->cancel = NULL;
	r->asked_rights = NULL;
	if (decide(r, a))
		r->go_on(r);
}

static void
stop_asking(struct request *r)
{
	if (r->asked_rights != NULL)
		acl_cancel(r->asked_rights);
	r->asked_rights = NULL;
}

/*
 * ?cached: what is in memory was given to this token, or to one with its rights; whether it still is a token, and has
 * them, is not asked of servers then.  The names of datacenters are for everybody.
 */
static bool
reads_memory(const struct request *r)
{
	const struct op *op = op_find((uint16_t)r->endpoint->op);

	return op != NULL && op->kind != OP_VIEW && api_wants_cached(r);
}

void
api_judge(struct request *r, void (*go_on)(struct request *r))
{
	struct acl_resolver *acl = r->api->acl;
	unsigned access = endpoint_access(r->endpoint);
	struct span shown, name;
	struct acl_answer now;
	enum acl_resource resource;
	enum acl_access need;

	api_access_end(r);
	if (((access == ACCESS_NONE || access == ACCESS_OP) && !reads_memory(r)) || acl == NULL || acl_is_off(acl)) {
		r->judged = ALL_ALLOWED;
		go_on(r);
		return;
	}
	shown = api_shown_token(r);
	r->is_root = is_root_here(r) && shown.len == 0;
	if (need_of(r, &resource, &name, &need) && master_may(r, resource, name, need)) {
		r->judged = BY_RIGHTS;
		go_on(r);
		return;
	}
	r->go_on = go_on;
	switch (acl_ask(acl, api_token(r), &now, on_rights, r, &r->asked_rights)) {
	case ACL_NOW:
		if (decide(r, &now))
			go_on(r);
		break;
	case ACL_LATER:
		r->cancel = stop_asking;
		break;
	default:
		api_busy(r);
	}
}

/* -- another token's rights ------------------------------------------------------- */

static void
keep_other(struct request *r, const struct acl_answer *a)
{
	r->other_unknown = a->standing == ACL_NOT_FOUND;
	r->other_rights = a->standing == ACL_GRANTED && !a->unjudged ? acl_rights_keep(a->rights) : NULL;
}

static void
on_other(void *ctx, const struct acl_answer *a)
{
	struct request *r = ctx;

	r->cancel = NULL;
	r->asked_rights = NULL;
	keep_other(r, a);
	r->go_on(r);
}

void
api_ask_rights(struct request *r, struct span token, void (*go_on)(struct request *r))
{
	struct acl_answer now;
	enum acl_got got = ACL_BUSY;

	r->go_on = go_on;
	if (r->api->acl != NULL && !api_is_free(r))
		got = acl_ask(r->api->acl, token, &now, on_other, r, &r->asked_rights);
	if (got == ACL_LATER) {
		r->cancel = stop_asking;
		return;
	}
	if (got == ACL_NOW)
		keep_other(r, &now);
	go_on(r);
}
