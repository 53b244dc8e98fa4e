/* See login.h. */
#include <stdlib.h>

#include "common/acl/bindname.h"
#include "common/filter/filter.h"
#include "common/text/json_text.h"
#include "raftd/login/claims.h"
#include "raftd/login/login.h"

#define STEPS_MAX 20000000u		/* work of the patterns in all selectors of one login */
#define DESCRIPTION "token created via login"
#define META_BYTES_MAX (8u << 10)

struct deciding {
	const struct login_ask *ask;
	const struct login_config *config;
	const struct acl_claims *claims;
	struct arena *a;
	struct buf *why;
	struct buf packed;		/* the claims, for selectors */
	uint64_t steps;
	struct acl_token *token;
	enum tv_err err;
};

static bool
fail_login(struct deciding *d, enum tv_err err)
{
	d->err = err;
	return false;
}

/* -- rules -- */

static bool
selected(struct deciding *d, struct span selector)
{
	struct buf why = BUF_INIT(8 * FILTER_BYTES_MAX);
	struct filter *f;
	bool match = false;

	if (selector.len == 0)
		return true;
	f = filter_new(&acl_claims_schema, selector, &why);
	if (f == NULL) {			/* the state holds none that do not read */
		buf_puts(d->why, buf_cstr(&why));
		d->err = TV_EINVAL;
	} else {
		const uint64_t once = 8 * d->packed.len;	/* what a look at the claims has free is not free here */

		filter_allow(f, d->steps);
		match = filter_match(f, buf_span(&d->packed));
		d->steps = filter_left(f) > once ? filter_left(f) - once : 0;
		if (filter_error(f) != TV_OK || d->steps == 0) {
			buf_puts(d->why, "the selectors of the binding rules take too long");
			match = fail_login(d, TV_EINVAL);
		}
	}
	filter_free(f);
	buf_done(&why);
	return match;
}

static bool
is_mapped(const struct span_map *mappings, struct span name)
{
	for (uint32_t i = 0; i < mappings->n; i++)
		if (span_eq(mappings->kv[i][1], name))
			return true;
	return false;
}

static bool
value_of(void *ctx, struct span name, struct span *out)
{
	const struct deciding *d = ctx;

	*out = SPAN_NONE;
	for (uint32_t i = 0; i < d->claims->value.n; i++)
		if (span_eq(d->claims->value.kv[i][0], name))
			*out = d->claims->value.kv[i][1];
	return is_mapped(&d->config->values, name);
}

static bool
bad_name(struct deciding *d, const struct acl_binding *b, const char *before, const char *after, struct span shown)
{
	buf_puts(d->why, before);
	text_quote(b->BindType, d->why);
	buf_puts(d->why, after);
	if (shown.p != NULL)
		text_quote(span_of(shown.p, shown.len > 512 ? 512 : shown.len), d->why);
	return fail_login(d, TV_EINVAL);
}

/* In the arena. */
static bool
name_of(struct deciding *d, const struct acl_binding *b, struct span *out)
{
	struct buf name = BUF_INIT(2 * ACL_BEARER_BYTES_MAX), why = BUF_INIT(2 * ACL_BINDING_BYTES_MAX);
	enum tv_err err = bindname_fill(b->BindName, value_of, d, &name, &why);
	bool good = false;

	if (err == TV_EFORMAT) {
		bad_name(d, b, "cannot compute ", " bind name for bind target: ", SPAN_NONE);
		buf_printf(d->why, "%.512s", buf_cstr(&why));
	} else if (err != TV_OK || !bindname_valid(bindname_type(b->BindType), buf_span(&name))) {
		bad_name(d, b, "computed ", " bind name for bind target is invalid: ",
		    name.len == 0 ? span_str("") : buf_span(&name));
	} else {
		*out = arena_copy(d->a, buf_span(&name));
		good = out->p != NULL || fail_login(d, TV_ENOMEM);
	}
	buf_done(&name);
	buf_done(&why);
	return good;
}

static void
bind_service(struct acl_token *t, struct span name)
{
	struct acl_service_identity *v = t->ServiceIdentities.v;

	for (uint32_t i = 0; i < t->ServiceIdentities.n; i++)
		if (span_eq(v[i].ServiceName, name))
			return;
	v[t->ServiceIdentities.n++] = (struct acl_service_identity){ .ServiceName = name };
}

static void
bind_node(struct acl_token *t, struct span name, struct span datacenter)
{
	struct acl_node_identity *v = t->NodeIdentities.v;

	for (uint32_t i = 0; i < t->NodeIdentities.n; i++)
		if (span_eq(v[i].NodeName, name))
			return;
	v[t->NodeIdentities.n++] = (struct acl_node_identity){ .NodeName = name, .Datacenter = datacenter };
}

static void
bind_role(struct deciding *d, struct span name)
{
	struct acl_link *v = d->token->Roles.v;
	struct span id;
	char text[37];
	enum tv_err err = d->ask->role(d->ask->ctx, name, text);

	if (err != TV_OK) {
		d->err = err == TV_ENOENT ? TV_OK : err;
		return;
	}
	for (uint32_t i = 0; i < d->token->Roles.n; i++)
		if (span_eqs(v[i].ID, text))
			return;
	id = arena_copy(d->a, span_str(text));
	if (id.p == NULL)
		d->err = TV_ENOMEM;
	else
		v[d->token->Roles.n++] = (struct acl_link){ .ID = id };
}

/* Adds what a rule binds to, if it is selected. */
static void
bind_rule(struct deciding *d, const struct acl_binding *b)
{
	struct span name;

	if (!selected(d, b->Selector) || !name_of(d, b, &name))
		return;
	switch (bindname_type(b->BindType)) {
	case BIND_TYPE_SERVICE:
		bind_service(d->token, name);
		break;
	case BIND_TYPE_NODE:
		bind_node(d->token, name, span_str(d->ask->datacenter));
		break;
	case BIND_TYPE_ROLE:
		bind_role(d, name);
		break;
	case BIND_TYPE_UNKNOWN:
		break;
	}
}

static enum tv_err
bind_rules(struct deciding *d, const struct fsm_login_view *view)
{
	struct acl_token *t = d->token;
	uint32_t n = view->rule_count;

	t->ServiceIdentities.v = arena_array(d->a, n, sizeof(struct acl_service_identity));
	t->NodeIdentities.v = arena_array(d->a, n, sizeof(struct acl_node_identity));
	t->Roles.v = arena_array(d->a, n, sizeof(struct acl_link));
	schema_pack(&acl_claims_schema, d->claims, &d->packed);
	if (t->ServiceIdentities.v == NULL || t->NodeIdentities.v == NULL || t->Roles.v == NULL || d->packed.failed)
		return TV_ENOMEM;
	for (uint32_t i = 0; i < n && d->err == TV_OK; i++)
		bind_rule(d, &view->rules[i]);
	if (d->err == TV_OK && t->ServiceIdentities.n == 0 && t->NodeIdentities.n == 0 && t->Roles.n == 0) {
		buf_puts(d->why, "Permission denied");
		d->err = TV_EPERM;
	}
	return d->err;
}

/* -- the rest of the token -- */

static int
by_key(const void *a, const void *b)
{
	return span_cmp(*(const struct span *)a, *(const struct span *)b);
}

static enum tv_err
describe(const struct span_map *meta, struct arena *a, struct span *out, struct buf *why)
{
	struct buf text = BUF_INIT(META_BYTES_MAX);
	enum tv_err err = TV_OK;

	buf_puts(&text, DESCRIPTION);
	if (meta->n > 1)
		qsort(meta->kv, meta->n, sizeof(*meta->kv), by_key);
	for (uint32_t i = 0; i < meta->n; i++) {
		buf_puts(&text, i == 0 ? ": {" : ",");
		json_quote(meta->kv[i][0], &text);
		buf_u8(&text, ':');
		json_quote(meta->kv[i][1], &text);
	}
	if (meta->n > 0)
		buf_u8(&text, '}');
	if (text.failed) {
		buf_printf(why, "Invalid Login request: Meta is longer than %u bytes", META_BYTES_MAX);
		err = TV_EINVAL;
	} else {
		*out = arena_copy(a, buf_span(&text));
		err = out->p == NULL ? TV_ENOMEM : TV_OK;
	}
	buf_done(&text);
	return err;
}

enum tv_err
login_decide_claims(const struct login_ask *ask, const struct fsm_login_view *view, const struct login_config *config, json_t *all,
    struct arena *a, struct acl_login *out, struct buf *why)
{
	const struct acl_method *m = &view->method;
	struct acl_claims claims;
	struct deciding d = { .ask = ask, .config = config, .claims = &claims, .a = a, .why = why,
	    .packed = BUF_INIT(8 * ACL_BEARER_BYTES_MAX), .steps = STEPS_MAX, .token = &out->Token };
	enum tv_err err;

	*out = (struct acl_login){ .Method = m->CreateIndex };
	out->Token.AuthMethod = m->Name;
	out->Token.Local = !span_eqs(m->TokenLocality, "global");
	out->Token.ExpirationTTL = m->MaxTokenTTL;
	err = config->source.discovery ? claims_check_id_token(config, all, ask->now, why) : claims_check(config, all, ask->now, why);
	if (err == TV_OK)
		err = claims_take(config, all, a, &claims, why);
	if (err == TV_OK)
		err = bind_rules(&d, view);
	if (err == TV_OK)
		err = describe(&ask->meta, a, &out->Token.Description, why);
	buf_done(&d.packed);
	return err;
}

/* By the keys of the method, or by those that were fetched; TV_EAGAIN as above. */
static enum tv_err
verify(const struct login_ask *ask, const struct login_config *config, json_t **all, struct login_need *need, struct buf *why)
{
	const bool discovery = config->source.discovery;
	struct jwt_trust trust = {
		.by_id = true,
		.malformed = discovery ? "error validating signature: oidc: malformed jwt: " : "error verifying token: oidc: malformed jwt: ",
		.unsigned_text = discovery ? "error validating signature: failed to verify signature: failed to verify id token signature" :
		    "error verifying token: failed to verify id token signature",
	};
	bool by_nobody;
	enum tv_err err;

	if (config->source.url.len == 0)
		return jwt_verify(ask->bearer, config->keys, config->key_count, all, why);
	*need = (struct login_need){ .source = config->source };
	if (ask->keys == NULL || !login_source_same(&ask->keys->source, &config->source)) {
		/* No issuer is asked for the sake of what no key could make good. */
		err = jwt_verify_by(ask->bearer, &trust, all, &by_nobody, why);
		return by_nobody ? TV_EAGAIN : err;
	}
	trust.keys = ask->keys->jwks.keys;
	trust.count = ask->keys->jwks.count;
	if (discovery)
		trust.algorithms = config->algorithms != 0 ? config->algorithms : ask->keys->jwks.algorithms != 0 ?
		    ask->keys->jwks.algorithms : jwt_algorithm_bit(span_str("RS256"));
	err = jwt_verify_by(ask->bearer, &trust, all, &by_nobody, why);
	if (err != TV_EINVAL || !by_nobody)
		return err;
	need->after = ask->keys->serial;
	return TV_EAGAIN;
}

enum tv_err
login_decide(const struct login_ask *ask, const struct fsm_login_view *view, struct arena *a, struct acl_login *out,
    struct login_need *need, struct buf *why)
{
	struct login_config config;
	json_t *all = NULL;
	enum tv_err err;

	if (ask->bearer.len == 0) {
		buf_puts(why, "missing jwt");
		return TV_EINVAL;
	}
	err = login_config_parse(view->method.Config, a, &config, why);
	if (err != TV_OK)
		return err;
	err = verify(ask, &config, &all, need, why);
	if (err == TV_OK)
		err = login_decide_claims(ask, view, &config, all, a, out, why);
	json_decref(all);
	login_config_free(&config);
	return err;
}
