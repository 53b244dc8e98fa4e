/* See first_token.h.  The state is looked at in a thread; the entry that makes the token refuses a second one. */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/record/records.h"
#include "raftd/engine/propose.h"
#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/leader/first_token.h"

struct first_token {
	struct raftd *d;
	bool active;
	bool busy;			/* looking, or proposed */
	bool settled;			/* nothing is to be done while this server leads */
	struct proposal proposal;
	struct fsm_first_token found;
	enum tv_err err;		/* of the look */
};

static struct span
secret(const struct first_token *t)
{
	const char *text = t->d->conf.acl_initial_management;

	return text == NULL ? SPAN_NONE : span_str(text);
}

static void
made(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	struct first_token *t = (struct first_token *)((char *)p - offsetof(struct first_token, proposal));

	t->busy = false;
	if (err != TV_OK || result->err != TV_OK)
		return;				/* the next look tells why, or tries again */
	t->settled = true;
	log_info("raftd", "access control: the token of acl.tokens.initial_management was made, with all rights");
}

static void
propose(struct first_token *t)
{
	const struct acl_bootstrap q = { .Token = { .SecretID = secret(t), .Description = span_str("Initial Management Token") } };

	t->busy = propose_record(t->d, &t->proposal, OP_ACL_BOOTSTRAP, &q, made, NULL, 0) == TV_OK;
}

static void
look_at_state(struct fsm *reader, void *ctx)
{
	struct first_token *t = ctx;

	t->err = fsm_first_token(reader, secret(t), &t->found);
}

static void
state_looked(void *ctx)
{
	struct first_token *t = ctx;

	t->busy = false;
	if (!t->active || t->err != TV_OK)
		return;
	if (t->found.made == 0 && !t->found.in_use) {
		propose(t);
		return;
	}
	t->settled = true;
	if (!t->found.is_first && !t->found.in_use)
		log_warn("raftd", "acl.tokens.initial_management is no token's secret, and makes none: the first token was made at "
		    "index %llu; take the key out of raftd.conf, or make a token with that secret", (unsigned long long)t->found.made);
}

void
first_token_look(struct first_token *t)
{
	if (!t->active || t->busy || t->settled || secret(t).len == 0 || cluster_acl_primary(&t->d->cluster) != NULL ||
	    fsm_acl_since(t->d->fsm) == 0)
		return;
	t->busy = statethread_call(t->d->state, look_at_state, state_looked, t) == TV_OK;
}

void
first_token_start(struct first_token *t)
{
	t->active = true;
	t->settled = false;
	first_token_look(t);
}

void
first_token_stop(struct first_token *t)
{
	t->active = false;
}

struct first_token *
first_token_new(struct raftd *d)
{
	struct first_token *t = calloc(1, sizeof(*t));

	if (t != NULL)
		t->d = d;
	return t;
}

void
first_token_free(struct first_token *t)
{
	free(t);
}
