/* See jwks.h. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/text/base64.h"
#include "common/text/json_text.h"
#include "raftd/login/jwks.h"

#define NUMBER_BYTES_MAX (JWT_RSA_BITS_MAX / 8 + 1)
#define ITEMS_MAX 1024u			/* of a set, and of the list of algorithms */
#define IDS_BYTES_MAX (JWKS_KEYS_MAX * (JWKS_ID_BYTES_MAX + 64))
#define TEXT_SHOWN 256u

static struct span
text_of(json_t *object, const char *name)
{
	json_t *v = json_object_get(object, name);

	return json_is_string(v) ? span_of((const uint8_t *)json_string_value(v), json_string_length(v)) : SPAN_NONE;
}

/* -- one key -- */

/* A member in base64url; false: it is none, or too long. */
static bool
number_of(json_t *key, const char *name, struct buf *out)
{
	struct span text = text_of(key, name);

	return text.len > 0 && base64url_decode(text, out) && out->len > 0;
}

static struct span
without_zeros(struct span n)
{
	while (n.len > 1 && n.p[0] == 0)
		n = span_of(n.p + 1, n.len - 1);
	return n;
}

static enum tv_err
read_rsa(json_t *key, struct jwt_key *out, struct buf *why)
{
	struct buf n = BUF_INIT(NUMBER_BYTES_MAX), e = BUF_INIT(NUMBER_BYTES_MAX);
	enum tv_err err = TV_EFORMAT;

	if (number_of(key, "n", &n) && number_of(key, "e", &e))
		err = jwt_key_from_rsa(without_zeros(buf_span(&n)), without_zeros(buf_span(&e)), out, why);
	else
		buf_puts(why, "n or e of an RSA key is missing, or no number of an RSA key");
	buf_done(&n);
	buf_done(&e);
	return err;
}

static enum tv_err
read_point(json_t *key, struct jwt_key *out, struct buf *why)
{
	static const struct { const char *name, *type; enum jwt_kind curve; } curves[] = {
		{ "P-256", "EC", JWT_P256 }, { "P-384", "EC", JWT_P384 }, { "P-521", "EC", JWT_P521 },
		{ "Ed25519", "OKP", JWT_ED25519 },
	};
	struct span name = text_of(key, "crv"), type = text_of(key, "kty");
	struct buf x = BUF_INIT(NUMBER_BYTES_MAX), y = BUF_INIT(NUMBER_BYTES_MAX);
	enum tv_err err = TV_EFORMAT;
	size_t i = 0;

	while (i < sizeof(curves) / sizeof(curves[0]) && !(span_eqs(name, curves[i].name) && span_eqs(type, curves[i].type)))
		i++;
	if (i == sizeof(curves) / sizeof(curves[0]))
		buf_puts(why, "of elliptic curves P-256, P-384 and P-521 are taken, and Ed25519");
	else if (!number_of(key, "x", &x) || (span_eqs(type, "EC") && !number_of(key, "y", &y)))
		buf_puts(why, "x or y of an elliptic key is missing, or no number of such a key");
	else
		err = jwt_key_from_point(curves[i].curve, buf_span(&x), buf_span(&y), out, why);
	buf_done(&x);
	buf_done(&y);
	return err;
}

/* TV_EFORMAT: it cannot be used, and why. */
static enum tv_err
read_key(json_t *key, struct arena *ids, struct jwt_key *out, struct buf *why)
{
	struct span type = text_of(key, "kty"), use = text_of(key, "use"), id = text_of(key, "kid");
	enum tv_err err = TV_EFORMAT;

	if (!json_is_object(key))
		buf_puts(why, "a key is no object");
	else if (use.len > 0 && !span_eqs(use, "sig"))
		buf_puts(why, "a key is not for signatures");
	else if (id.len > JWKS_ID_BYTES_MAX)
		buf_printf(why, "the kid of a key is longer than %u bytes", JWKS_ID_BYTES_MAX);
	else if (span_eqs(type, "RSA"))
		err = read_rsa(key, out, why);
	else if (span_eqs(type, "EC") || span_eqs(type, "OKP"))
		err = read_point(key, out, why);
	else
		buf_puts(why, "of keys the types RSA, EC and OKP are taken");
	if (err != TV_OK || id.len == 0)
		return err;
	out->id = arena_copy(ids, id);
	if (out->id.p != NULL)
		return TV_OK;
	jwt_key_free(out);
	return TV_ENOMEM;
}

/* -- a set -- */

static enum tv_err
begin_key(struct jwks *set)
{
	*set = (struct jwks){ .keys = calloc(JWKS_KEYS_MAX, sizeof(*set->keys)), .ids = ARENA_INIT(IDS_BYTES_MAX) };
	return set->keys == NULL ? TV_ENOMEM : TV_OK;
}

void
jwks_free(struct jwks *set)
{
	for (unsigned i = 0; i < set->count; i++)
		jwt_key_free(&set->keys[i]);
	free(set->keys);
	arena_done(&set->ids);
	*set = (struct jwks){ .keys = NULL };
}

/* Of two keys of one name the first counts, as where one is looked for. */
static enum tv_err
read_keys(json_t *list, struct jwks *out, struct buf *why)
{
	struct buf first = BUF_INIT(512);
	enum tv_err err = TV_OK;
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one) {
		struct buf what = BUF_INIT(512);

		if (out->count == JWKS_KEYS_MAX || i == ITEMS_MAX || err == TV_ENOMEM)
			break;
		err = read_key(one, &out->ids, &out->keys[out->count], &what);
		if (err == TV_OK)
			out->count++;
		else if (first.len == 0)
			buf_putspan(&first, buf_span(&what));
		buf_done(&what);
	}
	if (err != TV_ENOMEM)
		err = out->count > 0 || json_array_size(list) == 0 ? TV_OK : TV_EFORMAT;
	if (err == TV_EFORMAT)
		buf_printf(why, "none of its keys can be used: %s", buf_cstr(&first));
	buf_done(&first);
	return err;
}

enum tv_err
jwks_parse(struct span json, struct jwks *out, struct buf *why)
{
	enum tv_err err = begin_key(out);
	json_t *all = NULL, *list;

	if (err != TV_OK)
		return err;
	if (json.len <= JWKS_BYTES_MAX)
		all = jwt_object(json);
	list = json_object_get(all, "keys");
	if (!json_is_array(list)) {
		buf_puts(why, all == NULL ? "what it answers is no JSON object" : "what it answers has no list of keys");
		err = TV_EFORMAT;
	} else {
		err = read_keys(list, out, why);
	}
	json_decref(all);
	if (err != TV_OK)
		jwks_free(out);
	return err;
}

/* -- from process to process -- */

enum tv_err
jwks_put(const struct jwks *set, struct arena *a, struct msg_fetched *out)
{
	struct msg_fetched_key *v = arena_array(a, set->count, sizeof(*v));

	out->keys = (struct obj_list){ .v = v, .set = true };
	out->algorithms = set->algorithms;
	for (unsigned i = 0; i < set->count && v != NULL; i++) {
		enum tv_err err = jwt_key_to_der(&set->keys[i], a, &v[i].der);

		if (err != TV_OK)
			return err;
		v[i].id = set->keys[i].id;
		out->keys.n++;
	}
	return v == NULL ? TV_ENOMEM : TV_OK;
}

enum tv_err
jwks_take(const struct msg_fetched *in, struct jwks *out, struct buf *why)
{
	const struct msg_fetched_key *v = in->keys.v;
	enum tv_err err = begin_key(out);

	if (err == TV_OK && (in->keys.n > JWKS_KEYS_MAX || in->algorithms > UINT32_MAX)) {
		buf_puts(why, "too many keys");
		err = TV_EFORMAT;
	}
	out->algorithms = (uint32_t)in->algorithms;
	for (uint32_t i = 0; err == TV_OK && i < in->keys.n; i++) {
		struct jwt_key *k = &out->keys[i];

		if (v[i].id.len > JWKS_ID_BYTES_MAX)
			err = TV_EFORMAT;
		else
			err = jwt_key_from_der(v[i].der, k, why);
		if (err != TV_OK)
			break;
		out->count++;
		if (v[i].id.len > 0 && (k->id = arena_copy(&out->ids, v[i].id)).p == NULL)
			err = TV_ENOMEM;
	}
	if (err != TV_OK)
		jwks_free(out);
	return err;
}

/* -- where they are -- */

static bool
begins(struct span url, const char *with)
{
	return url.len > strlen(with) && strncasecmp((const char *)url.p, with, strlen(with)) == 0;
}

bool
jwks_url_check(struct span url, struct buf *why)
{
	if (url.len > JWKS_URL_BYTES_MAX) {
		buf_printf(why, "it is longer than %u bytes", JWKS_URL_BYTES_MAX);
		return false;
	}
	for (size_t i = 0; i < url.len; i++)
		if (url.p[i] <= ' ' || url.p[i] == 0x7f) {
			buf_puts(why, "it has spaces or control characters");
			return false;
		}
	if (begins(url, "http://") || begins(url, "https://")) {
		struct span rest = span_of(url.p + (begins(url, "http://") ? 7 : 8), url.len - (begins(url, "http://") ? 7 : 8));

		for (size_t i = 0; i < rest.len && strchr("/?#", rest.p[i]) == NULL; i++)
			if (rest.p[i] == '@') {
				buf_puts(why, "it has a user in it");
				return false;
			}
		return true;
	}
	buf_puts(why, "it begins with neither https:// nor http://");
	return false;
}

enum tv_err
jwks_discovery(struct span json, struct span issuer, struct arena *a, struct span *keys_url, uint32_t *algorithms, struct buf *why)
{
	json_t *all = json.len <= JWKS_BYTES_MAX ? jwt_object(json) : NULL, *list, *one;
	struct span is = text_of(all, "issuer"), url = text_of(all, "jwks_uri");
	enum tv_err err = TV_EFORMAT;
	size_t i;

	*keys_url = SPAN_NONE;
	*algorithms = 0;
	if (all == NULL) {
		buf_puts(why, "what it answers is no JSON object");
	} else if (!span_eq(is, issuer)) {
		buf_puts(why, "oidc: issuer did not match the issuer returned by provider, expected ");
		text_quote(issuer, why);
		buf_puts(why, " got ");
		text_quote(span_of(is.p, is.len > TEXT_SHOWN ? TEXT_SHOWN : is.len), why);
	} else if (url.len == 0) {
		buf_puts(why, "what it answers has no jwks_uri");
	} else if (jwks_url_check(url, why)) {
		*keys_url = arena_copy(a, url);
		err = keys_url->p == NULL ? TV_ENOMEM : TV_OK;
	} else {
		buf_puts(why, " (jwks_uri)");
	}
	list = json_object_get(all, "id_token_signing_alg_values_supported");
	json_array_foreach(list, i, one)
		if (i < ITEMS_MAX && json_is_string(one))
			*algorithms |= jwt_algorithm_bit(span_of((const uint8_t *)json_string_value(one), json_string_length(one)));
	json_decref(all);
	return err;
}
