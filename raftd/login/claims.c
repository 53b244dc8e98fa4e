/* See claims.h.  What is said when a claim is wrong is what Consul says. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/text/json_text.h"
#include "raftd/login/claims.h"

#define NS 1000000000ll
#define SECONDS_MAX (1ll << 53)		/* of a time; what JSON's numbers hold */
#define LEEWAY_DEFAULT_S 150
#define SKEW_DEFAULT_NS (60 * NS)
#define WRONG "error validating claims: "
#define ID_WRONG "error validating signature: oidc: "
#define ID_EARLY_S 60			/* of an ID token that is not good yet; once it is over it is over */
#define GOOGLE "https://accounts.google.com"
#define POINTER_BYTES_MAX 1024

/* -- times -- */

struct times {
	int64_t issued, begins, ends;	/* seconds since 1970; 0: not given */
};

/* False: it is there, and no time. */
static bool
time_of(json_t *all, const char *name, int64_t *out)
{
	json_t *v = json_object_get(all, name);

	*out = 0;
	if (v == NULL || json_is_null(v))
		return true;
	if (!json_is_number(v) || json_number_value(v) < -(double)SECONDS_MAX || json_number_value(v) > (double)SECONDS_MAX)
		return false;
	*out = json_is_integer(v) ? json_integer_value(v) : (int64_t)json_real_value(v);
	return true;
}

/* Of a time that is missing: 150 s unless another length is given; nothing if that is negative. */
static int64_t
leeway_s(int64_t ns)
{
	return ns < 0 ? 0 : ns == 0 ? LEEWAY_DEFAULT_S : ns / NS;
}

static void
complete(const struct login_config *c, struct times *t)
{
	if (t->ends == 0)
		t->ends = (t->begins > t->issued ? t->begins : t->issued) + leeway_s(c->expiration_leeway);
	if (t->begins == 0)
		t->begins = t->issued != 0 ? t->issued : t->ends - leeway_s(c->not_before_leeway);
}

/* now is before that second. */
static bool
is_before(int64_t now, int64_t seconds)
{
	int64_t whole = now / NS - (now % NS < 0);

	return whole < seconds;
}

static int64_t
plus(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}

static const char *
check_times(const struct login_config *c, const struct times *t, int64_t now)
{
	int64_t skew = c->clock_skew_leeway < 0 ? 0 : c->clock_skew_leeway == 0 ? SKEW_DEFAULT_NS : c->clock_skew_leeway;
	int64_t late = plus(now, skew), early = plus(now, -skew);

	if (is_before(late, t->begins))
		return "square/go-jose/jwt: validation failed, token not valid yet (nbf)";
	if (early > INT64_MIN && !is_before(early - 1, t->ends))	/* it is good for all of that moment */
		return "square/go-jose/jwt: validation failed, token is expired (exp)";
	if (is_before(late, t->issued))
		return "square/go-jose/jwt: validation field, token issued in the future (iat)";
	return NULL;
}

/* -- whose it is -- */

static struct span
span_of_text(json_t *v)
{
	return json_is_string(v) ? span_of((const uint8_t *)json_string_value(v), json_string_length(v)) : SPAN_NONE;
}

static bool
is_bound(const struct span_list *bound, json_t *audience)
{
	for (uint32_t i = 0; i < bound->n; i++)
		if (json_is_string(audience) && span_eq(bound->v[i], span_of_text(audience)))
			return true;
	return false;
}

/* strict: a token for an audience is not taken by a method that names none. */
static const char *
check_audience(const struct span_list *bound, json_t *aud, bool strict)
{
	size_t n = json_is_array(aud) ? json_array_size(aud) : json_is_string(aud);
	bool found = false;

	if (aud != NULL && !json_is_null(aud) && !json_is_array(aud) && !json_is_string(aud))
		return "aud claim is neither a text nor a list";
	if (bound->n == 0)
		return n == 0 || !strict ? NULL : "audience claim found in JWT but no audiences are bound";
	for (size_t i = 0; i < n && !found; i++)
		found = is_bound(bound, json_is_array(aud) ? json_array_get(aud, i) : aud);
	return found ? NULL : "aud claim does not match any bound audience";
}

enum tv_err
claims_check(const struct login_config *c, json_t *all, int64_t now, struct buf *why)
{
	const char *wrong = NULL;
	struct times t;

	if (!time_of(all, "iat", &t.issued) || !time_of(all, "nbf", &t.begins) || !time_of(all, "exp", &t.ends)) {
		buf_puts(why, WRONG "a time is no number of seconds");
		return TV_EINVAL;
	}
	if (t.issued == 0 && t.begins == 0 && t.ends == 0) {
		buf_puts(why, "no issue time, notbefore, or expiration time encoded in token");
		return TV_EINVAL;
	}
	complete(c, &t);
	if (c->issuer.len > 0 && !span_eq(c->issuer, span_of_text(json_object_get(all, "iss"))))
		wrong = "square/go-jose/jwt: validation failed, invalid issuer claim (iss)";
	if (wrong == NULL)
		wrong = check_times(c, &t, now);
	if (wrong == NULL)
		wrong = check_audience(&c->audiences, json_object_get(all, "aud"), true);
	if (wrong != NULL)
		buf_printf(why, WRONG "%s", wrong);
	return wrong == NULL ? TV_OK : TV_EINVAL;
}

/* -- ID tokens -- */

/* Google leaves the scheme out of its own name. */
static bool
is_issuer(struct span issuer, struct span is)
{
	return span_eq(issuer, is) || (span_eqs(issuer, GOOGLE) && span_eqs(is, &GOOGLE[sizeof("https://") - 1]));
}

/* As Go prints a time. */
static void
put_time(int64_t seconds, struct buf *out)
{
	time_t t = (time_t)seconds;
	char text[64];
	struct tm tm;

	if (gmtime_r(&t, &tm) != NULL && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S +0000 UTC", &tm) > 0)
		buf_puts(out, text);
	else
		buf_printf(out, "%lld", (long long)seconds);
}

static enum tv_err
check_id_times(json_t *all, int64_t now, struct buf *why)
{
	struct times t;

	if (!time_of(all, "nbf", &t.begins) || !time_of(all, "exp", &t.ends)) {
		buf_puts(why, ID_WRONG "a time is no number of seconds");
		return TV_EINVAL;
	}
	if (t.ends == 0) {
		buf_puts(why, ID_WRONG "token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)");
		return TV_EINVAL;
	}
	if (!is_before(now > INT64_MIN ? now - 1 : now, t.ends)) {	/* it is good for all of that moment */
		buf_puts(why, ID_WRONG "token is expired (Token Expiry: ");
		put_time(t.ends, why);
		buf_puts(why, ")");
		return TV_EINVAL;
	}
	if (is_before(plus(now, ID_EARLY_S * NS), t.begins)) {
		buf_puts(why, ID_WRONG "current time ");
		put_time(now / NS, why);
		buf_puts(why, " before the nbf (not before) time: ");
		put_time(t.begins, why);
		return TV_EINVAL;
	}
	return TV_OK;
}

enum tv_err
claims_check_id_token(const struct login_config *c, json_t *all, int64_t now, struct buf *why)
{
	struct span is = span_of_text(json_object_get(all, "iss"));
	const char *wrong;

	if (!is_issuer(c->source.url, is)) {
		buf_puts(why, ID_WRONG "id token issued by a different provider, expected ");
		text_quote(c->source.url, why);
		buf_puts(why, " got ");
		text_quote(span_of(is.p, is.len > 256 ? 256 : is.len), why);
		return TV_EINVAL;
	}
	if (check_id_times(all, now, why) != TV_OK)
		return TV_EINVAL;
	wrong = check_audience(&c->audiences, json_object_get(all, "aud"), false);
	if (wrong != NULL)
		buf_printf(why, WRONG "%s", wrong);
	return wrong == NULL ? TV_OK : TV_EINVAL;
}

/* -- mappings -- */

/* One part of a JSON pointer (RFC 6901), with ~1 and ~0 put back; false: it is too long. */
static bool
unescape(const char *from, size_t len, char *out, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = from[i];

		if (n + 1 >= cap)
			return false;
		if (c == '~' && i + 1 < len && (from[i + 1] == '0' || from[i + 1] == '1'))
			c = from[++i] == '0' ? '~' : '/';
		out[n++] = c;
	}
	out[n] = '\0';
	return strlen(out) == n;
}

static json_t *
item(json_t *list, const char *index)
{
	size_t n = strlen(index), at = 0;

	if (n == 0 || n > 6 || (n > 1 && index[0] == '0'))
		return NULL;
	for (size_t i = 0; i < n; i++) {
		if (index[i] < '0' || index[i] > '9')
			return NULL;
		at = at * 10 + (size_t)(index[i] - '0');
	}
	return json_array_get(list, at);
}

/* By its name, or by a pointer that begins with a slash; NULL: there is none. */
static json_t *
find_claim(json_t *all, struct span claim)
{
	char path[POINTER_BYTES_MAX], part[POINTER_BYTES_MAX], *p = path;
	json_t *v = all;

	if (!span_copy(claim, path, sizeof(path)) || strlen(path) != claim.len)
		return NULL;
	if (*p != '/')
		return json_object_get(all, path);
	while (*p == '/' && v != NULL) {
		size_t len = strcspn(++p, "/");

		if (!unescape(p, len, part, sizeof(part)))
			return NULL;
		v = json_is_array(v) ? item(v, part) : json_object_get(v, part);
		p += len;
	}
	return v;
}

/* Texts, truth values, and numbers without what is behind the point.  False: it is none of these. */
static bool
text_of(json_t *v, struct arena *a, struct span *out)
{
	if (json_is_string(v))
		*out = arena_copy(a, span_of_text(v));
	else if (json_is_boolean(v))
		*out = span_str(json_is_true(v) ? "true" : "false");
	else if (json_is_integer(v))
		*out = arena_printf(a, "%lld", (long long)json_integer_value(v));
	else if (json_is_real(v) && json_real_value(v) > -9e18 && json_real_value(v) < 9e18)
		*out = arena_printf(a, "%lld", (long long)json_real_value(v));
	else
		return false;
	return true;
}

static const char *
type_of(json_t *v)
{
	return json_is_object(v) ? "map[string]interface {}" : json_is_array(v) ? "[]interface {}" : "json.Number";
}

/* As Consul prints what is no text. */
static void
print(json_t *v, struct buf *out)
{
	const char *key;
	json_t *one;
	size_t i;

	if (json_is_array(v)) {
		buf_u8(out, '[');
		json_array_foreach(v, i, one) {
			if (i > 0)
				buf_u8(out, ' ');
			print(one, out);
		}
		buf_u8(out, ']');
	} else if (json_is_object(v)) {
		buf_puts(out, "map[");
		i = 0;
		json_object_foreach(v, key, one) {
			buf_printf(out, "%s%s:", i++ > 0 ? " " : "", key);
			print(one, out);
		}
		buf_u8(out, ']');
	} else if (json_is_string(v)) {
		buf_putspan(out, span_of_text(v));
	} else if (json_is_null(v)) {
		buf_puts(out, "<nil>");
	} else if (json_is_number(v)) {
		json_number(json_number_value(v), out);
	} else {
		buf_puts(out, json_is_true(v) ? "true" : "false");
	}
}

static enum tv_err
take_values(const struct login_config *c, json_t *all, struct arena *a, struct acl_claims *out, struct buf *why)
{
	out->value = (struct span_map){ .kv = arena_array(a, c->values.n, sizeof(*out->value.kv)), .set = true };
	if (out->value.kv == NULL)
		return TV_ENOMEM;
	for (uint32_t i = 0; i < c->values.n; i++) {
		struct span claim = c->values.kv[i][0], *kv = out->value.kv[out->value.n];
		json_t *v = find_claim(all, claim);

		if (v == NULL || json_is_null(v))
			continue;
		if (!text_of(v, a, &kv[1])) {
			buf_printf(why, "error converting claim '%.*s' to string from unknown type %s", (int)claim.len,
			    (const char *)claim.p, type_of(v));
			return TV_EINVAL;
		}
		if (kv[1].p == NULL)
			return TV_ENOMEM;
		kv[0] = c->values.kv[i][1];
		out->value.n++;
	}
	return TV_OK;
}

/* The items of a claim that are not empty; one value is a list of one. */
static enum tv_err
take_items(struct span claim, json_t *v, struct arena *a, struct span_list *out, struct buf *why)
{
	size_t n = json_is_array(v) ? json_array_size(v) : 1;

	if (json_is_object(v)) {
		text_quote(claim, why);
		buf_puts(why, " list claim could not be converted to string list");
		return TV_EINVAL;
	}
	*out = (struct span_list){ .v = arena_array(a, n, sizeof(*out->v)), .set = true };
	if (out->v == NULL)
		return TV_ENOMEM;
	for (size_t i = 0; i < n; i++) {
		json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
		struct span text;

		if (!text_of(one, a, &text)) {
			struct buf shown = BUF_INIT(512);

			print(one, &shown);
			buf_printf(why, "value %s in ", buf_cstr(&shown));
			text_quote(claim, why);
			buf_puts(why, " list claim could not be parsed as string");
			buf_done(&shown);
			return TV_EINVAL;
		}
		if (text.p == NULL && text.len > 0)
			return TV_ENOMEM;
		if (text.len > 0)
			out->v[out->n++] = text;
	}
	return TV_OK;
}

static enum tv_err
take_lists(const struct login_config *c, json_t *all, struct arena *a, struct acl_claims *out, struct buf *why)
{
	struct acl_claim_list *v = arena_array(a, c->lists.n, sizeof(*v));
	enum tv_err err = v == NULL ? TV_ENOMEM : TV_OK;

	out->list = (struct obj_list){ .v = v, .set = true };
	for (uint32_t i = 0; i < c->lists.n && err == TV_OK; i++) {
		struct acl_claim_list *to = &v[out->list.n];
		json_t *claim = find_claim(all, c->lists.kv[i][0]);

		if (claim == NULL || json_is_null(claim))
			continue;
		err = take_items(c->lists.kv[i][0], claim, a, &to->Items, why);
		to->Name = c->lists.kv[i][1];
		out->list.n++;
	}
	return err;
}

enum tv_err
claims_take(const struct login_config *c, json_t *all, struct arena *a, struct acl_claims *out, struct buf *why)
{
	enum tv_err err;

	*out = (struct acl_claims){ .value = { .n = 0 } };
	err = take_values(c, all, a, out, why);
	return err != TV_OK ? err : take_lists(c, all, a, out, why);
}
