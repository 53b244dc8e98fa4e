/*
 * Auth methods and logins.  First byte: what follows.
 *
 *	t	a bearer token: none is good but the one that the key has signed
 *	b	the body of a login, as JSON
 *	c	the Config of a method, as JSON
 *	l	claims as JSON, and rules, with NUL bytes between them: type, name, selector.  The token that comes of it is bound to
 *		valid names
 */
#include <string.h>

#include "common/acl/bindname.h"
#include "common/base/assert.h"
#include "common/record/schema_json.h"
#include "raftd/login/claims.h"
#include "raftd/login/login.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARENA_MAX (32u << 20)
#define RULES_MAX 16u
#define NOW 1700000000000000000ll
#define PEM "-----BEGIN PUBLIC KEY-----\\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEMdQColbQGJ6Mg1Ktm9bVFDpJh/4v\\n" \
	"ruuU7pbRcqNAOUv5s8vdawR/dbSP2K+7DlXPWzEswqQRpBhFV8TYaZU8tg==\\n-----END PUBLIC KEY-----\\n"
static const char config_json[] = "{\"JWTValidationPubKeys\":[\"" PEM "\"],\"BoundAudiences\":[\"ref-api\"],"
	"\"ClaimMappings\":{\"name\":\"name\",\"/team/lead\":\"lead\",\"level\":\"level\"},\"ListClaimMappings\":{\"groups\":\"groups\"}}";
static const char good[] =
	"eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUubmV0LyIsImF1ZCI6WyJyZWYtYXB"
	"pIl0sInN1YiI6InUxIiwiaWF0IjoxNjAwMDAwMDAwLCJuYmYiOjE2MDAwMDAwMDAsImV4cCI6NDEwMjQ0NDgwMCwibmFtZSI6Ind"
	"lYiIsInRlYW0iOnsibGVhZCI6ImFubiJ9LCJncm91cHMiOlsiZGV2Iiwib3BzIl0sImxldmVsIjo3LjksImFkbWluIjp0cnVlfQ."
	"c4ZsoKN-DfDGZ7VhUmSN8UQjJtLvryB4GHMDwxX9z_bRGQTWWJ7mHGYuLfDjA2n_h10t2SxT1Ldx3afcsznzTQ";

static void
bearer(struct span text, struct arena *a, struct buf *why)
{
	struct login_config c;
	json_t *claims;
	enum tv_err err;

	TV_ASSERT(login_config_parse(span_str(config_json), a, &c, why) == TV_OK);
	err = jwt_verify(text, c.keys, c.key_count, &claims, why);
	TV_ASSERT((err == TV_OK) == span_eqs(text, good) && (err == TV_OK) == (claims != NULL) && (err == TV_OK) == (why->len == 0));
	json_decref(claims);
	login_config_free(&c);
}

static void
body(struct span text, struct arena *a, struct buf *why)
{
	struct acl_login_body b = { .AuthMethod = SPAN_NONE };
	char error[512];
	json_t *v = json_first_value(text, error, sizeof(error));

	if (v != NULL && schema_from_json(&acl_login_body_schema, v, SJ_STRICT, a, &b, error, sizeof(error)) == TV_OK)
		bearer(b.BearerToken, a, why);
	json_decref(v);
}

static void
configuration(struct span text, struct arena *a, struct buf *why)
{
	struct acl_method m = { .Config = text };
	enum tv_err err = login_check_method(&m, a, why);

	TV_ASSERT(err == TV_OK || (err == TV_EINVAL && why->len > 0));
}

static enum tv_err
role(void *ctx, struct span name, char id[37])
{
	(void)ctx;
	TV_ASSERT(bindname_valid(BIND_TYPE_ROLE, name));
	strcpy(id, "00000000-0000-4000-8000-000000000001");
	return name.len % 2 == 0 ? TV_OK : TV_ENOENT;
}

/* The bytes up to a NUL, which is taken too. */
static struct span
part(struct span *left)
{
	const uint8_t *nul = left->len == 0 ? NULL : memchr(left->p, 0, left->len);
	size_t n = nul == NULL ? left->len : (size_t)(nul - left->p);
	struct span out = span_of(left->p, n);

	*left = nul == NULL ? span_of(left->p, 0) : span_of(nul + 1, left->len - n - 1);
	return out;
}

static void
check_token(const struct acl_token *t)
{
	const struct acl_service_identity *s = t->ServiceIdentities.v;
	const struct acl_node_identity *n = t->NodeIdentities.v;

	TV_ASSERT(t->ServiceIdentities.n + t->NodeIdentities.n + t->Roles.n > 0 && t->Roles.n <= 1);
	for (uint32_t i = 0; i < t->ServiceIdentities.n; i++)
		TV_ASSERT(bindname_valid(BIND_TYPE_SERVICE, s[i].ServiceName));
	for (uint32_t i = 0; i < t->NodeIdentities.n; i++)
		TV_ASSERT(bindname_valid(BIND_TYPE_NODE, n[i].NodeName) && span_eqs(n[i].Datacenter, "dc1"));
}

static void
login(struct span left, struct arena *a, struct buf *why)
{
	struct login_ask ask = { .datacenter = "dc1", .now = NOW, .role = role };
	struct acl_binding rules[RULES_MAX] = { { .ID = SPAN_NONE } };
	struct fsm_login_view view = { .method = { .Name = span_str("m"), .CreateIndex = 1 }, .rules = rules };
	struct span text = part(&left);
	struct login_config c;
	struct acl_login made;
	char error[512];
	json_t *claims = json_first_value(text, error, sizeof(error));
	enum tv_err err;

	for (; left.len > 0 && view.rule_count < RULES_MAX; view.rule_count++) {
		struct acl_binding *b = &rules[view.rule_count];

		b->BindType = part(&left);
		b->BindName = part(&left);
		b->Selector = part(&left);
	}
	TV_ASSERT(login_config_parse(span_str(config_json), a, &c, why) == TV_OK);
	if (json_is_object(claims)) {
		err = login_decide_claims(&ask, &view, &c, claims, a, &made, why);
		TV_ASSERT(err == TV_OK || ((err == TV_EINVAL || err == TV_EPERM) && (why->len > 0 || why->failed)));
		if (err == TV_OK)
			check_token(&made.Token);
	}
	json_decref(claims);
	login_config_free(&c);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a = ARENA_INIT(ARENA_MAX);
	struct buf why = BUF_INIT(64u << 10);
	struct span rest;

	if (size < 1)
		return 0;
	rest = span_of(data + 1, size - 1);
	if (data[0] == 't')
		bearer(rest, &a, &why);
	else if (data[0] == 'b')
		body(rest, &a, &why);
	else if (data[0] == 'c')
		configuration(rest, &a, &why);
	else if (data[0] == 'l')
		login(rest, &a, &why);
	buf_done(&why);
	arena_done(&a);
	return 0;
}
