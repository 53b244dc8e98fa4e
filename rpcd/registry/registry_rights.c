/* Anti-entropy and access control: which token a request shows, and what is kept out of the catalog. */
#include <stdio.h>

#include "common/base/log.h"
#include "rpcd/registry/registry_int.h"

/* -- tokens -- */

struct span
entry_token(const struct entry *e)
{
	return e->token.len == 0 && e->from_file ? token_of(&e->registry->conf.file_token) : e->token;
}

struct span
push_token(const struct push *p)
{
	const struct entry *owner = entry_owner(p->first);

	if (p->token == TOKEN_OWN)
		return entry_token(p->first);
	return p->token == TOKEN_SERVICE && owner != NULL ? entry_token(owner) : SPAN_NONE;
}

bool
push_next_token(struct push *p)
{
	const struct entry *e = p->first, *owner = entry_owner(e);

	/* What was never taken, and a registration of a service, needs a right of its own. */
	if (!e->accepted || (!p->removal && e->kind == ENTRY_SERVICE) || p->token == TOKEN_AGENT)
		return false;
	if (p->token == TOKEN_OWN && owner != NULL && entry_token(owner).len > 0 &&
	    !span_eq(entry_token(owner), entry_token(e))) {
		p->token = TOKEN_SERVICE;
		return true;
	}
	if (p->token == TOKEN_OWN && entry_token(e).len == 0)
		return false;			/* that was the agent's */
	p->token = TOKEN_AGENT;
	return true;
}

/* -- what is refused -- */

enum refusal
refusal_of(const struct op_reply *reply)
{
	if (reply->err != TV_EPERM)
		return REFUSED_NOT;
	return span_starts(reply->text, span_str("ACL not found")) ? REFUSED_UNKNOWN : REFUSED_DENIED;
}

const char *
entry_kind_name(const struct entry *e)
{
	return e->kind == ENTRY_SERVICE ? "service" : "check";
}

/* The name of the service that it is, or is a check of; empty: a check of the node. */
static struct span
service_name(const struct entry *e)
{
	struct local_record rec;

	if (!registry_get(e, &rec))
		return SPAN_NONE;
	return e->kind == ENTRY_SERVICE ? rec.service.Service : rec.check.ServiceName;
}

static void
put_agent_token(const struct registry *r, enum refusal why, struct buf *out)
{
	const struct token_source *s = &r->conf.token;
	const char *key = s->key == NULL ? "acl.tokens.agent" : s->key(s->tokens);

	buf_printf(out, "%s %s", key == NULL ? "acl.tokens.agent" : key,
	    key == NULL ? "is not set" : why == REFUSED_UNKNOWN ? "is unknown" : "lacks ");
}

static bool
names_a_token(const struct registry *r)
{
	const struct token_source *s = &r->conf.token;

	return s->key == NULL || s->key(s->tokens) != NULL;
}

/* Whose token it is, and what it lacks: the rule that would do. */
static void
put_why(const struct entry *e, struct buf *out)
{
	const struct registry *r = e->registry;
	struct span name = e->removed && e->refused_agent ? SPAN_NONE : service_name(e);

	if (e->refused_agent)
		put_agent_token(r, e->refusal, out);
	else if (e->token.len == 0 && e->from_file)
		buf_printf(out, "acl.tokens.config_file_service_registration %s",
		    e->refusal == REFUSED_UNKNOWN ? "is unknown" : "lacks ");
	else
		buf_printf(out, "the token of %s %.*s %s", entry_kind_name(e), (int)e->id.len, (const char *)e->id.p,
		    e->refusal == REFUSED_UNKNOWN ? "is unknown" : "lacks ");
	if (e->refusal != REFUSED_DENIED || (e->refused_agent && !names_a_token(r)))
		return;
	if (name.len > 0)
		buf_printf(out, "service \"%.*s\" { policy = \"write\" }", (int)name.len, (const char *)name.p);
	else
		buf_printf(out, "node \"%s\" { policy = \"write\" }", r->conf.node_name);
}

void
rights_refused(struct entry *e, const struct push *p, const struct op_reply *reply)
{
	struct buf why = BUF_INIT(REGISTRY_WHY_BYTES);
	enum refusal before = e->refusal;
	bool by_agent = p->token == TOKEN_AGENT || push_token(p).len == 0;

	e->refusal = refusal_of(reply);
	if (e->refusal == REFUSED_NOT || (e->refusal == before && e->refused_agent == by_agent && e->refusal_told))
		return;
	e->refusal_told = true;
	e->refused_agent = by_agent;
	put_why(e, &why);
	log_warn("agent", "%s %s blocked by ACLs: %s=%.*s: %s", e->kind == ENTRY_SERVICE ? "Service" : "Check",
	    p->removal ? "deregistration" : "registration", entry_kind_name(e), (int)e->id.len, (const char *)e->id.p,
	    buf_cstr(&why));
	buf_done(&why);
}

void
rights_compare_refused(struct registry *r, const struct op_reply *reply)
{
	struct buf why = BUF_INIT(REGISTRY_WHY_BYTES);
	enum refusal before = r->compare_refusal;

	r->compare_refusal = refusal_of(reply);
	if (r->compare_refusal != REFUSED_NOT && r->compare_refusal != before) {
		put_agent_token(r, r->compare_refusal, &why);
		log_warn("agent", "what is registered here cannot be compared with the catalog: %s%s", buf_cstr(&why),
		    r->compare_refusal == REFUSED_DENIED && names_a_token(r) ? "node:read" : "");
	}
	buf_done(&why);
}

static void
put_node_why(const struct registry *r, struct buf *out)
{
	put_agent_token(r, r->node_refusal, out);
	if (r->node_refusal == REFUSED_DENIED && names_a_token(r))
		buf_printf(out, "node \"%s\" { policy = \"write\" }", r->conf.node_name);
}

void
rights_node_refused(struct registry *r, const struct op_reply *reply)
{
	struct buf why = BUF_INIT(REGISTRY_WHY_BYTES);
	enum refusal before = r->node_refusal;

	r->node_refusal = refusal_of(reply);
	if (r->node_refusal != REFUSED_NOT && r->node_refusal != before) {
		put_node_why(r, &why);
		log_warn("agent", "Node info update blocked by ACLs: %s", buf_cstr(&why));
	}
	buf_done(&why);
}

void
registry_blocked(const struct registry *r, struct registry_blocked *out)
{
	const struct entry *first = NULL;
	struct buf why = BUF_INIT(REGISTRY_WHY_BYTES);

	*out = (struct registry_blocked){ .compare = r->compare_refusal != REFUSED_NOT };
	for (const struct entry *e = TAILQ_FIRST(&r->entries); e != NULL; e = TAILQ_NEXT(e, link)) {
		out->total += !e->removed || e->refusal != REFUSED_NOT;
		if (e->refusal == REFUSED_NOT)
			continue;
		out->count++;
		out->outdated += e->accepted && !e->withdrawn;
		first = first == NULL ? e : first;
	}
	out->total += r->node_refusal != REFUSED_NOT;
	out->count += r->node_refusal != REFUSED_NOT;
	out->outdated += r->node_refusal != REFUSED_NOT;
	if (first != NULL) {
		snprintf(out->first, sizeof(out->first), "%s %.*s", entry_kind_name(first), (int)first->id.len,
		    (const char *)first->id.p);
		put_why(first, &why);
	} else if (r->node_refusal != REFUSED_NOT) {
		snprintf(out->first, sizeof(out->first), "node %s", r->conf.node_name);
		put_node_why(r, &why);
	} else if (out->compare) {
		put_agent_token(r, r->compare_refusal, &why);
		if (r->compare_refusal == REFUSED_DENIED && names_a_token(r))
			buf_printf(&why, "node \"%s\" { policy = \"read\" }", r->conf.node_name);
	}
	snprintf(out->why, sizeof(out->why), "%s", buf_cstr(&why));
	buf_done(&why);
}
