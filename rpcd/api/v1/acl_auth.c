/* /v1/acl/auth-method, /v1/acl/binding-rule, login and logout.  Source: http-api, section 10.2. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/record/mpack.h"
#include "common/record/records.h"
#include "common/record/schema_json.h"
#include "rpcd/api/v1/acl.h"

/* -- methods and rules -- */

static void
run_set_method(struct request *r)
{
	struct acl_method_set q = { .Method = { .Name = SPAN_NONE } };

	if (!acl_decode(r, &acl_method_schema, "AuthMethod", false, &q.Method))
		return;
	if (r->rest.len == 0 || acl_take_id(r, "AuthMethod Name", &q.Method.Name))
		api_ask(r, &q);
}

static void
run_set_binding(struct request *r)
{
	struct acl_binding_set q = { .Create = false };

	if (acl_decode(r, &acl_binding_schema, "BindingRule", false, &q.Binding) &&
	    acl_take_id(r, "BindingRule ID", &q.Binding.ID))
		api_ask(r, &q);
}

/* Nothing is said with the 404 of what there is not. */
static void
finish_one(struct request *r, const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);

	if (reply->err == TV_OK && mpr_array(&in) == 0 && in.err == TV_OK)
		answer_empty(r, 404);
	else
		acl_finish_one(r, reply);
}

/* -- login and logout -- */

/* The first field that is of another type than it has to be, as Go spells it; "": none. */
static const char *
wrong_field(json_t *body)
{
	const char *key, *name;
	json_t *v, *one;

	json_object_foreach(body, key, v) {
		bool map = strcasecmp(key, "Meta") == 0;
		bool good = json_is_null(v) || (map ? json_is_object(v) : json_is_string(v));
		const char *inner;

		if (map && good)
			json_object_foreach(v, inner, one)
				good = good && (json_is_string(one) || json_is_null(one));
		name = map ? "Meta" : strcasecmp(key, "AuthMethod") == 0 ? "AuthMethod" : "BearerToken";
		if (!good)
			return name;
	}
	return "";
}

/* What the schema says of a value, in the words for a field of a struct. */
static void
name_field(json_t *body, char *why, size_t cap)
{
	static const char value[] = " into Go value of type ";
	char *at = strstr(why, value), rest[512];
	const char *field = wrong_field(body);

	if (at == NULL || field[0] == '\0')
		return;
	snprintf(rest, sizeof(rest), "%s", at + sizeof(value) - 1);
	snprintf(at, cap - (size_t)(at - why), " into Go struct field ACLLoginParams.%s of type %s", field, rest);
}

static void
run_login(struct request *r)
{
	struct acl_login_body body = { .AuthMethod = SPAN_NONE };
	char why[512];
	enum tv_err err;
	json_t *v;
	bool given;

	if (api_too_large(r, "body_bytes_max"))
		return;
	v = json_first_value(buf_span(&r->body), why, sizeof(why));
	given = v != NULL && !json_is_null(v);
	err = v == NULL ? TV_EFORMAT :
	    schema_from_json(&acl_login_body_schema, v, SJ_STRICT, &r->arena, &body, why, sizeof(why));
	if (err == TV_EFORMAT)
		name_field(v, why, sizeof(why));
	json_decref(v);
	if (err != TV_OK)
		answer_text(r, err == TV_ENOMEM ? 500 : 400, "Bad request: Failed to decode request body: %s", why);
	else if (!given)
		answer_text(r, 500, "Invalid Login request: Missing auth parameters");
	else
		api_ask(r, &(struct acl_login){ .AuthMethod = body.AuthMethod, .BearerToken = body.BearerToken,
		    .Meta = body.Meta });
}

static void
run_logout(struct request *r)
{
	api_ask(r, &(struct acl_logout){ .SecretID = api_token(r) });
}

#define METHOD .missing = "Bad request: Missing auth method name"
#define RULE .missing = "Bad request: Missing binding rule ID"
#define READ(op_, ...) ACCESS_OP, .op = (op_), .query = QUERY_READ, BIND(__VA_ARGS__), .finish = finish_one
#define DELETE(op_, ...) ACCESS_OP, .op = (op_), .query = QUERY_DC, BIND(__VA_ARGS__), .render = RENDER_VALUE, \
	.finish = acl_finish
#define WRITE(op_, run_) ACCESS_OP, .op = (op_), .body = BODY_BYTES, .query = QUERY_DC, .run = (run_), \
	.finish = acl_finish
#define LIST(op_) ACCESS_OP, .op = (op_), .query = QUERY_READ, .flags = SHOW_INDEX, .finish = acl_finish
#define KEY ACCESS_OP, .body = BODY_KEY, .query = QUERY_DC, .finish = acl_finish

const struct endpoint api_acl_auth[] = {
	{ "/v1/acl/auth-methods", "GET", LIST(OP_ACL_METHOD_LIST) },
	{ "/v1/acl/auth-method", "PUT", WRITE(OP_ACL_METHOD_SET, run_set_method) },
	{ "/v1/acl/auth-method/", "GET", READ(OP_ACL_METHOD_GET, FROM_PATH(acl_name, Name)), METHOD },
	{ "/v1/acl/auth-method/", "PUT", WRITE(OP_ACL_METHOD_SET, run_set_method), METHOD },
	{ "/v1/acl/auth-method/", "DELETE", DELETE(OP_ACL_METHOD_DELETE, FROM_PATH(acl_name, Name)), METHOD },
	{ "/v1/acl/binding-rules", "GET", LIST(OP_ACL_BINDING_LIST),
	    BIND(FROM_QUERY("authmethod", acl_binding_list, AuthMethod)) },
	{ "/v1/acl/binding-rule", "PUT", WRITE(OP_ACL_BINDING_SET, run_set_binding) },
	{ "/v1/acl/binding-rule/", "GET", READ(OP_ACL_BINDING_GET, FROM_PATH(acl_id, ID)), RULE },
	{ "/v1/acl/binding-rule/", "PUT", WRITE(OP_ACL_BINDING_SET, run_set_binding), RULE },
	{ "/v1/acl/binding-rule/", "DELETE", DELETE(OP_ACL_BINDING_DELETE, FROM_PATH(acl_id, ID)), RULE },
	{ "/v1/acl/login", "POST", KEY, .op = OP_ACL_LOGIN, .run = run_login },
	{ "/v1/acl/logout", "POST", KEY, .op = OP_ACL_LOGOUT, .run = run_logout, .render = RENDER_VALUE },
	{ .path = NULL },
};
