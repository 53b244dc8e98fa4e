/* See method_config.h. */
#include <stdlib.h>
#include <strings.h>

#include "common/record/schema_json.h"
#include "common/text/json_text.h"
#include "raftd/login/jwks.h"
#include "raftd/login/method_config.h"

#define ITEMS_MAX 256u			/* of a list or a mapping */

enum field {
	F_ALGORITHMS, F_AUDIENCES, F_VALUES, F_LISTS, F_DISCOVERY_URL, F_DISCOVERY_CERT, F_JWKS_URL, F_JWKS_CERT, F_KEYS, F_ISSUER,
	F_EXPIRATION, F_NOT_BEFORE, F_CLOCK_SKEW, F_COUNT
};

static const char *const names[F_COUNT] = {
	"JWTSupportedAlgs", "BoundAudiences", "ClaimMappings", "ListClaimMappings", "OIDCDiscoveryURL", "OIDCDiscoveryCACert",
	"JWKSURL", "JWKSCACert", "JWTValidationPubKeys", "BoundIssuer", "ExpirationLeeway", "NotBeforeLeeway", "ClockSkewLeeway",
};

struct parsing {
	json_t *given[F_COUNT];		/* borrowed; NULL: not, or null */
	struct arena *a;
	struct buf *why;
	enum tv_err err;
};

static bool
refuse(struct parsing *p)
{
	p->err = TV_EINVAL;
	return false;
}

static bool
no_memory(struct parsing *p)
{
	p->err = TV_ENOMEM;
	return false;
}

static bool
undecodable(struct parsing *p, const char *before, const char *name, const char *after)
{
	buf_printf(p->why, "error decoding config: 1 error(s) decoding:\n\n* %s%s%s", before, name, after);
	return refuse(p);
}

/* -- values -- */

static bool
text_of(struct parsing *p, json_t *v, const char *name, struct span *out)
{
	if (!json_is_string(v))
		return undecodable(p, "'", name, "' expected type 'string'");
	*out = arena_copy(p->a, span_of((const uint8_t *)json_string_value(v), json_string_length(v)));
	return out->p != NULL || no_memory(p);
}

static bool
take_text(struct parsing *p, enum field f, struct span *out)
{
	*out = SPAN_NONE;
	return p->given[f] == NULL || text_of(p, p->given[f], names[f], out);
}

/* A list, or one text in its place. */
static bool
take_list(struct parsing *p, enum field f, struct span_list *out)
{
	json_t *v = p->given[f];
	size_t n = json_is_array(v) ? json_array_size(v) : v != NULL;

	*out = (struct span_list){ .n = 0 };
	if (n > ITEMS_MAX)
		return undecodable(p, "'", names[f], "' has too many items");
	out->v = arena_array(p->a, n, sizeof(*out->v));
	if (out->v == NULL)
		return no_memory(p);
	for (size_t i = 0; i < n; i++)
		if (!text_of(p, json_is_array(v) ? json_array_get(v, i) : v, names[f], &out->v[out->n++]))
			return false;
	return true;
}

/* No two claims may have one name. */
static bool
names_are_unique(struct parsing *p, enum field f, const struct span_map *map)
{
	for (uint32_t i = 0; i < map->n; i++)
		for (uint32_t j = 0; j < i; j++)
			if (span_eq(map->kv[i][1], map->kv[j][1])) {
				buf_printf(p->why, "%s contains multiple mappings for key ", names[f]);
				text_quote(map->kv[i][1], p->why);
				return refuse(p);
			}
	return true;
}

static bool
take_map(struct parsing *p, enum field f, struct span_map *out)
{
	json_t *v = p->given[f], *value;
	const char *key;

	*out = (struct span_map){ .n = 0 };
	if (v == NULL)
		return true;
	if (!json_is_object(v))
		return undecodable(p, "'", names[f], "' expected a map");
	if (json_object_size(v) > ITEMS_MAX)
		return undecodable(p, "'", names[f], "' has too many items");
	out->kv = arena_array(p->a, json_object_size(v), sizeof(*out->kv));
	if (out->kv == NULL)
		return no_memory(p);
	json_object_foreach(v, key, value) {
		struct span *kv = out->kv[out->n++];

		kv[0] = arena_copy(p->a, span_str(key));
		if (kv[0].p == NULL)
			return no_memory(p);
		if (!text_of(p, value, names[f], &kv[1]))
			return false;
	}
	return names_are_unique(p, f, out);
}

static bool
take_ns(struct parsing *p, enum field f, int64_t *out)
{
	json_t *v = p->given[f];

	*out = v == NULL ? 0 : json_integer_value(v);
	return v == NULL || json_is_integer(v) || undecodable(p, "cannot parse '", names[f], "' as int: it is no whole number");
}

/* -- all of it -- */

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool
refuse_unknown(struct parsing *p, const char **unknown, unsigned n)
{
	qsort(unknown, n, sizeof(*unknown), by_name);
	buf_puts(p->why, "error decoding config: 1 error(s) decoding:\n\n* '' has invalid keys: ");
	for (unsigned i = 0; i < n; i++)
		buf_printf(p->why, "%s%.64s", i > 0 ? ", " : "", unknown[i]);
	return refuse(p);
}

static bool
sort_out(struct parsing *p, json_t *all)
{
	const char *unknown[8], *key;
	unsigned n = 0;
	json_t *v;

	json_object_foreach(all, key, v) {
		unsigned f = 0;

		while (f < F_COUNT && strcasecmp(names[f], key) != 0)
			f++;
		if (f < F_COUNT && !json_is_null(v))
			p->given[f] = v;
		else if (f == F_COUNT && n < sizeof(unknown) / sizeof(unknown[0]))
			unknown[n++] = key;
	}
	return n == 0 || refuse_unknown(p, unknown, n);
}

static bool
check_authorities(struct parsing *p, enum field f, struct span pem)
{
	if (jwt_are_certificates(pem))
		return true;
	buf_printf(p->why, "error checking %s: could not parse CA PEM value successfully", names[f]);
	return refuse(p);
}

static bool
check_url(struct parsing *p, enum field f, struct span url)
{
	struct buf what = BUF_INIT(256);
	bool good = jwks_url_check(url, &what);

	if (!good) {
		buf_printf(p->why, "error checking %s: %s", names[f], buf_cstr(&what));
		p->err = TV_EINVAL;
	}
	buf_done(&what);
	return good;
}

static bool
take_source(struct parsing *p, unsigned keys, struct login_source *out)
{
	static const struct { enum field url, ca; } fetched[] = {
		{ F_JWKS_URL, F_JWKS_CERT }, { F_DISCOVERY_URL, F_DISCOVERY_CERT },
	};
	struct span urls[2], ca;
	unsigned sources = keys > 0;

	for (unsigned i = 0; i < 2; i++) {
		if (!take_text(p, fetched[i].url, &urls[i]))
			return false;
		sources += urls[i].len > 0;
	}
	if (sources != 1) {
		buf_puts(p->why, "exactly one of 'JWTValidationPubKeys', 'JWKSURL', or 'OIDCDiscoveryURL' must be set for type \"jwt\"");
		return refuse(p);
	}
	for (unsigned i = 0; i < 2; i++) {
		if (!take_text(p, fetched[i].ca, &ca))
			return false;
		if (ca.len > 0 && urls[i].len == 0) {
			buf_printf(p->why, "'%s' should not be set unless '%s' is set", names[fetched[i].ca], names[fetched[i].url]);
			return refuse(p);
		}
		if (urls[i].len == 0)
			continue;
		if (!check_url(p, fetched[i].url, urls[i]) || (ca.len > 0 && !check_authorities(p, fetched[i].ca, ca)))
			return false;
		*out = (struct login_source){ .discovery = fetched[i].url == F_DISCOVERY_URL, .url = urls[i], .ca = ca };
	}
	return true;
}

static bool
take_algorithms(struct parsing *p, uint32_t *out)
{
	struct span_list list;

	if (!take_list(p, F_ALGORITHMS, &list))
		return false;
	for (uint32_t i = 0; i < list.n; i++) {
		uint32_t bit = jwt_algorithm_bit(list.v[i]);

		if (bit == 0) {
			buf_printf(p->why, "Invalid supported algorithm: %.*s", (int)(list.v[i].len > 64 ? 64 : list.v[i].len),
			    (const char *)list.v[i].p);
			return refuse(p);
		}
		*out |= bit;
	}
	return true;
}

static bool
take_keys(struct parsing *p, const struct span_list *pem, struct login_config *out)
{
	struct buf what = BUF_INIT(512);

	if (pem->n > LOGIN_KEYS_MAX) {
		buf_printf(p->why, "more than %u keys", LOGIN_KEYS_MAX);
		return refuse(p);
	}
	for (uint32_t i = 0; i < pem->n && p->err == TV_OK; i++) {
		enum tv_err err = jwt_key_parse(pem->v[i], &out->keys[i], &what);

		if (err == TV_OK) {
			out->key_count++;
		} else {
			buf_printf(p->why, "error parsing public key JWTValidationPubKeys[%u]: %s", i, buf_cstr(&what));
			p->err = err == TV_ENOMEM ? err : TV_EINVAL;
		}
	}
	buf_done(&what);
	return p->err == TV_OK;
}

bool
login_source_same(const struct login_source *a, const struct login_source *b)
{
	return a->discovery == b->discovery && span_eq(a->url, b->url) && span_eq(a->ca, b->ca);
}

const char *
login_source_field(const struct login_source *s)
{
	return names[s->discovery ? F_DISCOVERY_URL : F_JWKS_URL];
}

const char *
login_source_prefix(const struct login_source *s)
{
	return s->discovery ? "error validating signature: failed to verify signature: " : "error verifying token: ";
}

enum tv_err
login_config_parse(struct span json, struct arena *a, struct login_config *out, struct buf *why)
{
	struct parsing p = { .a = a, .why = why };
	struct span_list keys;
	char error[256] = "";
	json_t *all = json.len == 0 ? json_object() : json_first_value(json, error, sizeof(error));

	*out = (struct login_config){ .key_count = 0 };
	if (all != NULL && json_is_null(all)) {
		json_decref(all);
		all = json_object();
	}
	if (!json_is_object(all)) {
		buf_printf(why, "error decoding config: %s", all == NULL ? error : "it is no object");
		json_decref(all);
		return TV_EINVAL;
	}
	if (sort_out(&p, all) && take_list(&p, F_KEYS, &keys) && take_ns(&p, F_EXPIRATION, &out->expiration_leeway) &&
	    take_ns(&p, F_NOT_BEFORE, &out->not_before_leeway) && take_ns(&p, F_CLOCK_SKEW, &out->clock_skew_leeway) &&
	    take_text(&p, F_ISSUER, &out->issuer) && take_list(&p, F_AUDIENCES, &out->audiences) && take_source(&p, keys.n, &out->source) &&
	    take_algorithms(&p, &out->algorithms) && take_map(&p, F_VALUES, &out->values) && take_map(&p, F_LISTS, &out->lists))
		(void)take_keys(&p, &keys, out);
	json_decref(all);
	if (p.err != TV_OK)
		login_config_free(out);
	return p.err;
}

void
login_config_free(struct login_config *c)
{
	for (unsigned i = 0; i < c->key_count; i++)
		jwt_key_free(&c->keys[i]);
	c->key_count = 0;
}

enum tv_err
login_check_method(struct acl_method *m, struct arena *a, struct buf *why)
{
	struct login_config c;
	enum tv_err err = login_config_parse(m->Config, a, &c, why);

	if (err != TV_OK) {
		if (err == TV_ENOMEM)
			buf_puts(why, "out of memory");
		return err;
	}
	m->Values = (struct span_list){ .v = arena_array(a, c.values.n, sizeof(struct span)), .set = true };
	if (m->Values.v == NULL) {
		buf_puts(why, "out of memory");
		err = TV_ENOMEM;
	}
	for (uint32_t i = 0; err == TV_OK && i < c.values.n; i++)
		m->Values.v[m->Values.n++] = c.values.kv[i][1];
	login_config_free(&c);
	return err;
}
