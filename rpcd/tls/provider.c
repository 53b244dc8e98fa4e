/* A provider of keys that sign elsewhere; see provider.h, and provider-keymgmt(7), provider-signature(7). */
#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "rpcd/tls/provider.h"

#define PROPERTIES "provider=tvkeys"
#define DEFAULT "provider=default"
#define PARAM_SIGNER "tvkeys-signer"	/* of a key that is made here: struct signer, by its bytes */

enum kind { KIND_EC, KIND_RSA, KIND_ED25519, KINDS };
static const char *const kind_names[KINDS] = { "EC", "RSA", "ED25519" };

struct signer {				/* no function: without a private part */
	tls_sign *sign;
	void *ctx;
	uint64_t number;
};

struct tls_provider {
	OSSL_LIB_CTX *library;
	OSSL_PROVIDER *standard, *own;
	struct signer signer;
};

struct key {
	OSSL_LIB_CTX *library;
	enum kind kind;
	EVP_PKEY *public;		/* of the default provider; NULL until it is imported */
	struct signer signer;
};

struct signing {
	struct key *key;		/* of the caller, which outlives it */
	unsigned digest;		/* index of digests; Ed25519: 0 */
	bool pss;
};

static _Thread_local struct mono due;
static _Thread_local enum tv_err outcome;

void
tls_provider_sign_until(struct mono deadline)
{
	due = deadline;
	outcome = TV_OK;
}

enum tv_err
tls_provider_signed(void)
{
	return outcome;
}

/* -- keys -------------------------------------------------------------------- */

static void *
new_key(void *library, enum kind kind)
{
	struct key *k = calloc(1, sizeof(*k));

	if (k != NULL) {
		k->library = library;
		k->kind = kind;
	}
	return k;
}

static void *
ec_new(void *library)
{
	return new_key(library, KIND_EC);
}

static void *
rsa_new(void *library)
{
	return new_key(library, KIND_RSA);
}

static void *
ed25519_new(void *library)
{
	return new_key(library, KIND_ED25519);
}

static void
key_free(void *key)
{
	struct key *k = key;

	if (k == NULL)
		return;
	EVP_PKEY_free(k->public);
	free(k);
}

static int
key_has(const void *key, int what)
{
	const struct key *k = key;

	if (k->public == NULL)
		return 0;
	return (what & OSSL_KEYMGMT_SELECT_PRIVATE_KEY) == 0 || k->signer.sign != NULL;
}

/* Bits, sizes, the curve: of the public part. */
static int
key_get_params(void *key, OSSL_PARAM params[])
{
	const struct key *k = key;

	return k->public != NULL && EVP_PKEY_get_params(k->public, params);
}

static const OSSL_PARAM *
key_gettable(void *library UNUSED)
{
	static const OSSL_PARAM params[] = {
		OSSL_PARAM_int(OSSL_PKEY_PARAM_BITS, NULL), OSSL_PARAM_int(OSSL_PKEY_PARAM_SECURITY_BITS, NULL),
		OSSL_PARAM_int(OSSL_PKEY_PARAM_MAX_SIZE, NULL),
		OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0),
		OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_DEFAULT_DIGEST, NULL, 0),
		OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_MANDATORY_DIGEST, NULL, 0), OSSL_PARAM_END,
	};

	return params;
}

/* Certificate and key are compared by their public parts, however each is kept. */
static int
key_match(const void *a, const void *b, int what UNUSED)
{
	const struct key *one = a, *other = b;

	return one->public != NULL && other->public != NULL && EVP_PKEY_eq(one->public, other->public) == 1;
}

static int
key_import(void *key, int what UNUSED, const OSSL_PARAM params[])
{
	struct key *k = key;
	const OSSL_PARAM *signer = OSSL_PARAM_locate_const(params, PARAM_SIGNER);
	EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(k->library, kind_names[k->kind], DEFAULT);
	int ok = c != NULL && k->public == NULL && EVP_PKEY_fromdata_init(c) == 1 &&
	    EVP_PKEY_fromdata(c, &k->public, EVP_PKEY_PUBLIC_KEY, (OSSL_PARAM *)params) == 1;

	if (ok && signer != NULL && signer->data_size == sizeof(k->signer))
		memcpy(&k->signer, signer->data, sizeof(k->signer));
	EVP_PKEY_CTX_free(c);
	return ok;
}

static const OSSL_PARAM *
key_import_types(int what UNUSED)
{
	static const OSSL_PARAM params[] = {
		OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0),
		OSSL_PARAM_octet_string(OSSL_PKEY_PARAM_PUB_KEY, NULL, 0),
		OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_N, NULL, 0), OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_E, NULL, 0),
		OSSL_PARAM_octet_string(PARAM_SIGNER, NULL, 0), OSSL_PARAM_END,
	};

	return params;
}

/* The public part alone: so no other provider is ever chosen to sign with it. */
static int
key_export(void *key, int what, OSSL_CALLBACK *take, void *arg)
{
	const struct key *k = key;
	OSSL_PARAM *params = NULL;

	if ((what & OSSL_KEYMGMT_SELECT_PRIVATE_KEY) != 0 || k->public == NULL)
		return 0;
	if (EVP_PKEY_todata(k->public, EVP_PKEY_PUBLIC_KEY, &params) != 1)
		return 0;
	int ok = take(params, arg);
	OSSL_PARAM_free(params);
	return ok;
}

static const char *
ec_operation(int operation)
{
	return operation == OSSL_OP_SIGNATURE ? "ECDSA" : "EC";
}

/* -- signatures -------------------------------------------------------------- */

static void *
signing_new(void *library UNUSED, const char *properties UNUSED)
{
	return calloc(1, sizeof(struct signing));
}

static void
signing_free(void *signing)
{
	free(signing);
}

/* In the order of enum keys_alg. */
static bool
find_digest(const char *name, unsigned *out)
{
	static const char *const digests[][2] = {
		{ "SHA256", "SHA2-256" }, { "SHA384", "SHA2-384" }, { "SHA512", "SHA2-512" },
	};

	for (*out = 0; *out < sizeof(digests) / sizeof(digests[0]); ++*out)
		if (strcasecmp(name, digests[*out][0]) == 0 || strcasecmp(name, digests[*out][1]) == 0)
			return true;
	return false;
}

static int
digest_sign_init(void *signing, const char *digest, void *key, const OSSL_PARAM params[] UNUSED)
{
	struct signing *s = signing;

	s->key = key;
	s->pss = false;
	s->digest = 0;
	if (s->key == NULL || s->key->public == NULL || s->key->signer.sign == NULL)
		return 0;
	if (s->key->kind == KIND_ED25519)
		return digest == NULL || digest[0] == '\0';
	return digest != NULL && find_digest(digest, &s->digest);
}

/* The signer makes the digest, so that it sees what it signs. */
static int
digest_sign(void *signing, unsigned char *sig, size_t *len, size_t room, const unsigned char *text, size_t n)
{
	static const enum keys_alg algs[KINDS] = { KEYS_ECDSA_SHA256, KEYS_RSA_PKCS1_SHA256, KEYS_ED25519 };
	const struct signing *s = signing;
	enum keys_alg alg = (s->pss ? KEYS_RSA_PSS_SHA256 : algs[s->key->kind]) + s->digest;
	int most = EVP_PKEY_get_size(s->key->public);
	uint8_t made[KEYS_SIGNATURE_BYTES_MAX];
	size_t made_len = sizeof(made);

	if (most <= 0 || (size_t)most > sizeof(made))
		return 0;
	if (sig == NULL) {
		*len = (size_t)most;
		return 1;
	}
	outcome = s->key->signer.sign(s->key->signer.ctx, s->key->signer.number, alg, span_of(text, n), made, &made_len,
	    due);
	if (outcome == TV_OK && (made_len > room || made_len > (size_t)most))
		outcome = TV_EFORMAT;
	if (outcome != TV_OK)
		return 0;
	memcpy(sig, made, made_len);
	*len = made_len;
	return 1;
}

/* By number or by name: libssl hands the first, its own translations make the second of it. */
static bool
param_is(const OSSL_PARAM *p, int number, const char *name)
{
	int value;

	if (p->data_type == OSSL_PARAM_UTF8_STRING)
		return p->data != NULL && strcasecmp(p->data, name) == 0;
	return OSSL_PARAM_get_int(p, &value) && value == number;
}

/* Of RSA: the padding; a salt of another length than the digest's is nothing that TLS has. */
static int
rsa_set_params(void *signing, const OSSL_PARAM params[])
{
	struct signing *s = signing;
	const OSSL_PARAM *pad = params == NULL ? NULL : OSSL_PARAM_locate_const(params, OSSL_SIGNATURE_PARAM_PAD_MODE);
	const OSSL_PARAM *salt = params == NULL ? NULL :
	    OSSL_PARAM_locate_const(params, OSSL_SIGNATURE_PARAM_PSS_SALTLEN);

	if (pad != NULL) {
		s->pss = param_is(pad, RSA_PKCS1_PSS_PADDING, OSSL_PKEY_RSA_PAD_MODE_PSS);
		if (!s->pss && !param_is(pad, RSA_PKCS1_PADDING, OSSL_PKEY_RSA_PAD_MODE_PKCSV15))
			return 0;
	}
	return salt == NULL || param_is(salt, RSA_PSS_SALTLEN_DIGEST, OSSL_PKEY_RSA_PSS_SALT_LEN_DIGEST);
}

static const OSSL_PARAM *
rsa_settable(void *signing UNUSED, void *library UNUSED)
{
	static const OSSL_PARAM params[] = {
		OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PAD_MODE, NULL, 0),
		OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PSS_SALTLEN, NULL, 0), OSSL_PARAM_END,
	};

	return params;
}

/* -- the provider ------------------------------------------------------------ */

#define DO(id, fn) { (id), (void (*)(void))(fn) }
#define KEY_COMMON DO(OSSL_FUNC_KEYMGMT_FREE, key_free), DO(OSSL_FUNC_KEYMGMT_HAS, key_has), \
	DO(OSSL_FUNC_KEYMGMT_GET_PARAMS, key_get_params), DO(OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS, key_gettable), \
	DO(OSSL_FUNC_KEYMGMT_MATCH, key_match), DO(OSSL_FUNC_KEYMGMT_IMPORT, key_import), \
	DO(OSSL_FUNC_KEYMGMT_IMPORT_TYPES, key_import_types), DO(OSSL_FUNC_KEYMGMT_EXPORT, key_export), \
	DO(OSSL_FUNC_KEYMGMT_EXPORT_TYPES, key_import_types)
#define SIGNING_COMMON DO(OSSL_FUNC_SIGNATURE_NEWCTX, signing_new), DO(OSSL_FUNC_SIGNATURE_FREECTX, signing_free), \
	DO(OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT, digest_sign_init), DO(OSSL_FUNC_SIGNATURE_DIGEST_SIGN, digest_sign)
#define END { 0, NULL }

static const OSSL_DISPATCH ec_keys[] = {
	DO(OSSL_FUNC_KEYMGMT_NEW, ec_new), DO(OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME, ec_operation), KEY_COMMON, END,
};
static const OSSL_DISPATCH rsa_keys[] = { DO(OSSL_FUNC_KEYMGMT_NEW, rsa_new), KEY_COMMON, END };
static const OSSL_DISPATCH ed25519_keys[] = { DO(OSSL_FUNC_KEYMGMT_NEW, ed25519_new), KEY_COMMON, END };
static const OSSL_DISPATCH plain_signing[] = { SIGNING_COMMON, END };
static const OSSL_DISPATCH rsa_signing[] = {
	SIGNING_COMMON, DO(OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS, rsa_set_params),
	DO(OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS, rsa_settable), END,
};

static const OSSL_ALGORITHM keys[] = {
	{ "EC:id-ecPublicKey:1.2.840.10045.2.1", PROPERTIES, ec_keys, "" },
	{ "RSA:rsaEncryption:1.2.840.113549.1.1.1", PROPERTIES, rsa_keys, "" },
	{ "ED25519:1.3.101.112", PROPERTIES, ed25519_keys, "" },
	{ NULL, NULL, NULL, NULL },
};
static const OSSL_ALGORITHM signatures[] = {
	{ "ECDSA", PROPERTIES, plain_signing, "" },
	{ "RSA:rsaEncryption:1.2.840.113549.1.1.1", PROPERTIES, rsa_signing, "" },
	{ "ED25519:1.3.101.112", PROPERTIES, plain_signing, "" },
	{ NULL, NULL, NULL, NULL },
};

static const OSSL_ALGORITHM *
query_operation(void *library UNUSED, int operation, int *no_cache)
{
	*no_cache = 0;
	if (operation == OSSL_OP_KEYMGMT)
		return keys;
	return operation == OSSL_OP_SIGNATURE ? signatures : NULL;
}

/* To a provider of this program the core's context is the OSSL_LIB_CTX itself (provider-base(7)). */
static int
provider_init(const OSSL_CORE_HANDLE *core, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out, void **library)
{
	static const OSSL_DISPATCH functions[] = { DO(OSSL_FUNC_PROVIDER_QUERY_OPERATION, query_operation), END };
	OSSL_FUNC_core_get_libctx_fn *get = NULL;

	for (; in->function_id != 0; in++) {
		if (in->function_id == OSSL_FUNC_CORE_GET_LIBCTX)
			get = OSSL_FUNC_core_get_libctx(in);
	}
	if (get == NULL)
		return 0;
	*library = get(core);
	*out = functions;
	return 1;
}

struct tls_provider *
tls_provider_new(tls_sign *sign, void *ctx)
{
	struct tls_provider *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->signer = (struct signer){ .sign = sign, .ctx = ctx };
	p->library = OSSL_LIB_CTX_new();
	if (p->library != NULL && OSSL_PROVIDER_add_builtin(p->library, "tvkeys", provider_init) == 1) {
		p->standard = OSSL_PROVIDER_load(p->library, "default");
		p->own = OSSL_PROVIDER_load(p->library, "tvkeys");
	}
	if (p->standard != NULL && p->own != NULL)
		return p;
	tls_provider_free(p);
	return NULL;
}

void
tls_provider_free(struct tls_provider *p)
{
	if (p == NULL)
		return;
	if (p->own != NULL)
		OSSL_PROVIDER_unload(p->own);
	if (p->standard != NULL)
		OSSL_PROVIDER_unload(p->standard);
	OSSL_LIB_CTX_free(p->library);
	free(p);
}

OSSL_LIB_CTX *
tls_provider_library(const struct tls_provider *p)
{
	return p->library;
}

/* params with one more. */
static OSSL_PARAM *
add_signer(const OSSL_PARAM *params, struct signer *signer)
{
	const OSSL_PARAM more[] = {
		OSSL_PARAM_construct_octet_string(PARAM_SIGNER, signer, sizeof(*signer)), OSSL_PARAM_END,
	};

	return OSSL_PARAM_merge(params, more);
}

EVP_PKEY *
tls_provider_key(struct tls_provider *p, const EVP_PKEY *public, uint64_t number)
{
	struct signer signer = { p->signer.sign, p->signer.ctx, number };
	OSSL_PARAM *params = NULL, *all = NULL;
	EVP_PKEY_CTX *c = NULL;
	EVP_PKEY *key = NULL;
	unsigned kind = 0;

	while (kind < KINDS && !EVP_PKEY_is_a(public, kind_names[kind]))
		kind++;
	if (kind < KINDS && EVP_PKEY_todata(public, EVP_PKEY_PUBLIC_KEY, &params) == 1)
		all = add_signer(params, &signer);
	if (all != NULL)
		c = EVP_PKEY_CTX_new_from_name(p->library, kind_names[kind], PROPERTIES);
	if (c != NULL && EVP_PKEY_fromdata_init(c) == 1)
		(void)EVP_PKEY_fromdata(c, &key, EVP_PKEY_KEYPAIR, all);
	EVP_PKEY_CTX_free(c);
	OSSL_PARAM_free(all);
	OSSL_PARAM_free(params);
	return key;
}
