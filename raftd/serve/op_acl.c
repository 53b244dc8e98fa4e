/*
 * Writes of access control, and the first token of a cluster, OP_ACL_BOOTSTRAP.  Logins are op_login.c's.
 *
 * While access control does not hold they are refused here, before anybody asks whether all servers could apply them.
 *
 * A second bootstrap token is only given to an operator of the leader's host, who writes the index of the first one,
 * which a refusal names, into RESET_FILE in the data folder of raftd.  It is read in a thread, and goes when it has
 * served.  Of the client's arguments only the secret counts, which the token is to have; a thread of the state looks whether
 * another token has it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/uuid.h"
#include "common/proc/jobs.h"
#include "common/record/records.h"
#include "raftd/disk/unlink_async.h"
#include "raftd/engine/engine.h"
#include "raftd/engine/propose.h"
#include "raftd/engine/statethread.h"
#include "raftd/fsm/fsm.h"
#include "raftd/login/serve/op_login.h"
#include "raftd/serve/op.h"

#define RESET_FILE "acl-bootstrap-reset"
#define RESET_BYTES_MAX 32

struct reset {				/* a bootstrap under way */
	struct request *q;
	char secret[UUID_CHARS + 1];	/* that was asked for; "": none */
	struct fsm_first_token found;
	enum tv_err err;		/* of looking for it */
	char path[512];
	uint64_t index;			/* found there; 0: nothing */
	int error;			/* why it could not be read; 0: there is none, or it was */
	bool malformed;
};

static bool
parse_index(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	end += strspn(end, " \t\r\n");
	return text[0] >= '0' && text[0] <= '9' && errno == 0 && *end == '\0' && *out > 0;
}

/* In a thread. */
static void
read_reset(void *ctx)
{
	struct reset *r = ctx;
	struct buf text = BUF_INIT(RESET_BYTES_MAX + 1);
	enum tv_err err = file_read(r->path, &text);

	if (err == TV_ESYS || err == TV_ENOMEM)
		r->error = errno;
	else if (err != TV_ENOENT)
		r->malformed = !parse_index(buf_cstr(&text), &r->index);
	if (r->malformed)
		r->index = 0;
	buf_done(&text);
}

static void
reset_path(const struct raftd *d, char path[512])
{
	snprintf(path, 512, "%s/raftd/" RESET_FILE, d->cluster.data_dir);
}

static void
bootstrapped(struct proposal *p, enum tv_err err, const struct fsm_result *result, bool reset)
{
	struct request *q = (struct request *)((char *)p - offsetof(struct request, write));
	char path[512];

	if (err != TV_OK) {
		op_write_failed(q, err, SPAN_NONE);
	} else if (result->err != TV_OK) {
		request_fail(q, result->err, result->text);
	} else {
		reset_path(q->d, path);
		if (reset)
			log_warn("raftd", "access control: a token with all rights was made, as %s asked, and the one of the bootstrap "
			    "before it is revoked", path);
		else
			log_info("raftd", "access control: a token with all rights was made");
		unlink_job(q->d->files, -1, path);
		request_reply(q, p->index, result->value);
	}
}

static void
on_bootstrapped(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	bootstrapped(p, err, result, false);
}

static void
on_reset(struct proposal *p, enum tv_err err, const struct fsm_result *result)
{
	bootstrapped(p, err, result, true);
}

static void
reset_free(struct reset *r)
{
	explicit_bzero(r, sizeof(*r));
	free(r);
}

static void
propose(const struct reset *r)
{
	struct request *q = r->q;
	struct acl_bootstrap ask = { .Reset = r->index, .Token = { .SecretID = span_str(r->secret) } };
	struct buf args = BUF_INIT(4096);
	struct span text = SPAN_NONE;
	enum tv_err err;

	args.secret = true;
	schema_pack(&acl_bootstrap_schema, &ask, &args);
	q->write.done = r->index != 0 ? on_reset : on_bootstrapped;
	err = propose_args(q->d, &q->write, OP_ACL_BOOTSTRAP, buf_span(&args), request_arena(q), &text);
	if (err != TV_OK)
		op_write_failed(q, err, text);
	buf_done(&args);
}

static void
find_secret(struct fsm *reader, void *ctx)
{
	struct reset *r = ctx;

	r->err = fsm_first_token(reader, span_str(r->secret), &r->found);
}

/* That of the token whose place the new one takes may stay what it was. */
static void
on_secret(void *ctx)
{
	struct reset *r = ctx;

	if (r->err != TV_OK)
		op_write_failed(r->q, r->err, SPAN_NONE);
	else if (r->found.in_use && !r->found.is_first)
		request_failf(r->q, TV_EINVAL, "Invalid Token: SecretID is already in use");
	else
		propose(r);
	reset_free(r);
}

static void
given_up(void *ctx)
{
	struct reset *r = ctx;

	op_not_leader(r->q);
	reset_free(r);
}

static void
reset_done(void *ctx)
{
	struct reset *r = ctx;
	enum tv_err err;

	if (r->error != 0)
		log_warn("raftd", "%s cannot be read: %s", r->path, strerror(r->error));
	else if (r->malformed)
		log_warn("raftd", "%s does not hold the reset index that the refusal of a bootstrap names, and nothing else", r->path);
	if (r->q->d->stopping) {
		given_up(r);
	} else if (r->secret[0] == '\0') {
		propose(r);
		reset_free(r);
	} else if ((err = statethread_call_or(r->q->d->state, find_secret, on_secret, given_up, r)) != TV_OK) {
		op_write_failed(r->q, err, SPAN_NONE);
		reset_free(r);
	}
}

/* The secret that is asked for; "": none.  False: it is malformed. */
static bool
read_secret(struct span args, char out[UUID_CHARS + 1])
{
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct rd in = rd_span_over(args);
	struct acl_bootstrap ask = { .Reset = 0 };
	bool good = schema_unpack(&acl_bootstrap_schema, &in, &a, &ask) == TV_OK;

	out[0] = '\0';
	if (good && ask.Token.SecretID.len > 0)
		good = uuid_parse(ask.Token.SecretID, NULL) && span_copy(ask.Token.SecretID, out, UUID_CHARS + 1);
	arena_done(&a);
	return good;
}

static void
bootstrap(struct request *q, struct span args)
{
	struct reset *r = calloc(1, sizeof(*r));

	if (r != NULL && !read_secret(args, r->secret)) {
		request_failf(q, TV_EINVAL, "Invalid Token: SecretID is not a valid UUID");
		reset_free(r);
		return;
	}
	if (r != NULL) {
		r->q = q;
		reset_path(q->d, r->path);
	}
	if (r == NULL || jobs_add(q->d->files, read_reset, reset_done, r) != TV_OK) {
		free(r);
		op_write_failed(q, TV_ENOMEM, SPAN_NONE);
	}
}

/* Tokens with all rights are made where all are made that hold everywhere. */
static void
refuse_bootstrap(struct request *q, const char *primary)
{
	char why[400];

	snprintf(why, sizeof(why), "Permission denied: the first token is made in the primary datacenter, which is \"%.250s\"", primary);
	request_fail(q, TV_EPERM, span_str(why));
}

bool
op_acl(struct request *q, struct span args)
{
	bool first = q->op->code == OP_ACL_BOOTSTRAP, login = q->op->code == OP_ACL_LOGIN || q->op->code == OP_ACL_LOGOUT;

	if (!first && !login && !(q->op->access.scope == OP_ALL && q->op->access.resource == OP_RES_ACL))
		return false;
	if (!engine_is_leader(q->d->engine) || (login && engine_opening(q->d->engine)))
		op_not_leader(q);
	else if (login)
		op_login(q, args);
	else if (fsm_acl_since(q->d->fsm) == 0)
		request_failf(q, TV_EDISABLED, "ACL support disabled");
	else if (first && cluster_acl_primary(&q->d->cluster) != NULL)
		refuse_bootstrap(q, cluster_acl_primary(&q->d->cluster));
	else if (first)
		bootstrap(q, args);
	else
		return q->op->code == OP_ACL_METHOD_SET && op_method(q, args);
	return true;
}
