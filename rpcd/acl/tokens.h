/*
 * The tokens of this agent: what rpcd.conf says (acl.tokens), and what PUT /v1/agent/token/ set meanwhile, which goes
 * before it.  With acl.enable_token_persistence the latter is kept in a file over restarts; else until the next reload.
 */
#ifndef TV_RPCD_ACL_TOKENS_H
#define TV_RPCD_ACL_TOKENS_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "rpcd/opts.h"

struct agent_tokens {
	const struct rpcd_conf *conf;	/* borrowed, may change */
	const char *path;		/* of the file; borrowed; NULL: none */
	struct buf set[RPCD_TOKENS];	/* by a request */
	bool is_set[RPCD_TOKENS];
	bool kept[RPCD_TOKENS];		/* and it is in the file */
	void (*changed)(void *ctx);	/* the configuration did not; may be NULL */
	void *ctx;
};

/* Reads the file, if tokens are kept.  TV_OK also without one; else a sentence in errbuf, and nothing is set. */
enum tv_err agent_tokens_open(struct agent_tokens *t, char *errbuf, size_t cap);
void agent_tokens_close(struct agent_tokens *t);
/* "agent", "acl_agent_token"...  False: there is no such kind. */
bool agent_token_kind(struct span name, enum rpcd_token *out);
/* "": none.  A loan until the next change. */
struct span agent_token(const struct agent_tokens *t, enum rpcd_token kind);
/* Of this node's own work.  t may be NULL: none. */
struct span agent_token_own(const struct agent_tokens *t);
/* "acl.tokens.agent", or "acl.tokens.default" where that one is used; NULL: neither is set. */
const char *agent_token_own_key(const struct agent_tokens *t);
/* Of requests that show none.  t may be NULL. */
struct span agent_token_default(const struct agent_tokens *t);
/* Of what services.d defines without one; "": that of this node's own work.  t may be NULL. */
struct span agent_token_config_file(const struct agent_tokens *t);
/* Where one of these comes from, for modules that ask servers on this node's own account. */
struct token_source {
	struct span (*get)(const struct agent_tokens *t);	/* NULL: none */
	const struct agent_tokens *tokens;
	/* The key of rpcd.conf that it is from, for people; NULL: none of them is set.  May be NULL itself. */
	const char *(*key)(const struct agent_tokens *t);
};
static inline struct span
token_of(const struct token_source *s)
{
	return s->get == NULL ? span_of("", 0) : s->get(s->tokens);
}
/*
 * From now on.  TV_ESYS, TV_ELIMIT: it holds, but is not kept in the file.  TV_ENOMEM: nothing was done.
 */
enum tv_err agent_token_set(struct agent_tokens *t, enum rpcd_token kind, struct span token);
/* The configuration was read again: what was set and is not kept gives way to it. */
void agent_tokens_reload(struct agent_tokens *t);

#endif
