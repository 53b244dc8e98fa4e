/*
 * OP_ACL_METHOD_SET: a method whose keys come from elsewhere is only taken when they can be had.  They are fetched by the leader before
 * it proposes, and are no part of the entry: each server that judges logins has its own.
 */
#include <stdlib.h>

#include "common/base/clock.h"
#include "raftd/fsm/fsm.h"
#include "raftd/login/serve/key_fetch.h"
#include "raftd/login/serve/op_login.h"
#include "raftd/serve/op.h"

#define ARGS_BYTES_MAX (1u << 20)	/* of a method; what may be stored is less */
#define INVALID "Invalid Auth Method: "

struct method {
	struct request *q;
	struct key_wait wait;
	struct buf args;		/* as they came */
	const char *field;		/* that names the source; static */
};

static void
on_keys(struct key_wait *w, enum tv_err err, struct span text)
{
	struct method *m = (struct method *)((char *)w - offsetof(struct method, wait));
	struct buf why = BUF_INIT(4096);

	key_set_unref(w->keys);
	if (err == TV_OK) {
		op_propose(m->q, buf_span(&m->args), SPAN_NONE);
	} else if (err == TV_EUNREACH) {
		buf_printf(&why, INVALID "error checking %s: %.*s", m->field, (int)text.len, (const char *)text.p);
		request_fail(m->q, TV_EINVAL, buf_span(&why));
	} else if (err == TV_ENOTLEADER) {
		op_not_leader(m->q);
	} else {
		op_write_failed(m->q, err, text);
	}
	buf_done(&why);
	buf_done(&m->args);
	free(m);
}

/* Would it be refused before anybody looks at its keys? */
static bool
is_refused(struct request *q, struct span args, struct arena *a)
{
	struct buf prepared = BUF_INIT(ARGS_BYTES_MAX);
	struct span text;
	uint16_t code = q->op->code;
	bool refused = fsm_prepare(q->d->fsm, &code, args, clock_wall_ns(), "", &prepared, a, &text) != TV_OK;

	buf_done(&prepared);
	return refused;
}

/* Texts are in the arena. */
static bool
source_of(struct span args, struct arena *a, struct login_source *out)
{
	struct acl_method_set set = { .Method = { .Name = SPAN_NONE } };
	struct buf why = BUF_INIT(8192);
	struct rd in = rd_span_over(args);
	struct login_config config;
	bool found = false;

	if (schema_unpack(&acl_method_set_schema, &in, a, &set) == TV_OK && !span_eqs(set.Method.Type, "kubernetes") &&
	    login_config_parse(set.Method.Config, a, &config, &why) == TV_OK) {
		*out = config.source;
		found = config.source.url.len > 0;
		login_config_free(&config);
	}
	buf_done(&why);
	return found;
}

static bool
begin_fetch(struct request *q, struct span args, const struct login_source *source)
{
	struct method *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return false;
	m->q = q;
	m->wait.done = on_keys;
	m->args = BUF_INIT(ARGS_BYTES_MAX);
	m->field = login_source_field(source);
	buf_putspan(&m->args, args);
	if (m->args.failed) {
		buf_done(&m->args);
		free(m);
		return false;
	}
	key_fetch_get(q->d->key_fetch, source, ISSUER_NOW, 0, &m->wait);
	return true;
}

bool
op_method(struct request *q, struct span args)
{
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct login_source source;
	bool taken = source_of(args, &a, &source) && !is_refused(q, args, &a);

	if (taken && !begin_fetch(q, args, &source))
		op_write_failed(q, TV_ENOMEM, SPAN_NONE);
	arena_done(&a);
	return taken;
}
