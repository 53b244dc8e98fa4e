/* Private CAs and certificates of theirs, see certs.h. */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ctl/certs.h"

#define SERIAL_BYTES 16			/* RFC 5280 allows 20 */
#define KEY_ID_BYTES 20			/* RFC 7093, method 1 */
#define BACK_S (-300)			/* it is valid from then on: clocks differ */
/* Bits of KeyUsage, RFC 5280, 4.2.1.3. */
#define DIGITAL_SIGNATURE 0
#define KEY_CERT_SIGN 5
#define CRL_SIGN 6

static bool
failed(char *err, size_t cap, const char *what)
{
	const char *why = ERR_reason_error_string(ERR_peek_last_error());

	snprintf(err, cap, "%s: %s", what, why != NULL ? why : "no memory");
	ERR_clear_error();
	return false;
}

bool
certs_is_name(const char *name)
{
	size_t len = strlen(name), label = 0;

	if (len == 0 || len > 253)
		return false;
	if (strncmp(name, "*.", 2) == 0)
		name += 2;
	for (const char *c = name;; c++) {
		bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
		    *c == '-' || *c == '_';

		if (!plain && *c != '.' && *c != '\0')
			return false;
		label = plain ? label + 1 : label;
		if (!plain && (label == 0 || label > 63))
			return false;
		label = plain ? label : 0;
		if (*c == '\0')
			return true;
	}
}

/* -- extensions -- */

static bool
add_name(GENERAL_NAMES *names, int type, const void *bytes, size_t len)
{
	GENERAL_NAME *name = GENERAL_NAME_new();
	ASN1_STRING *value = ASN1_STRING_type_new(type == GEN_IPADD ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);

	if (name == NULL || value == NULL || !ASN1_STRING_set(value, bytes, (int)len)) {
		GENERAL_NAME_free(name);
		ASN1_STRING_free(value);
		return false;
	}
	GENERAL_NAME_set0_value(name, type, value);
	if (sk_GENERAL_NAME_push(names, name) > 0)
		return true;
	GENERAL_NAME_free(name);
	return false;
}

/* dns: those names, too. */
static bool
add_alt_names(X509 *x, const struct certs_wish *w, bool dns)
{
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	bool good = names != NULL;

	for (size_t i = 0; dns && good && i < w->dns_count; i++)
		good = add_name(names, GEN_DNS, w->dns[i], strlen(w->dns[i]));
	for (size_t i = 0; dns && good && i < w->ip_count; i++)
		good = add_name(names, GEN_IPADD, w->ips[i].ip, w->ips[i].len);
	if (good && w->uri != NULL)
		good = add_name(names, GEN_URI, w->uri, strlen(w->uri));
	if (good && sk_GENERAL_NAME_num(names) > 0)
		good = X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
	GENERAL_NAMES_free(names);
	return good;
}

static bool
add_subtree(NAME_CONSTRAINTS *c, const char *domain)
{
	GENERAL_SUBTREE *tree = GENERAL_SUBTREE_new();
	ASN1_STRING *value = ASN1_STRING_type_new(V_ASN1_IA5STRING);

	if (tree == NULL || value == NULL || !ASN1_STRING_set(value, domain, (int)strlen(domain))) {
		GENERAL_SUBTREE_free(tree);
		ASN1_STRING_free(value);
		return false;
	}
	GENERAL_NAME_set0_value(tree->base, GEN_DNS, value);
	if (sk_GENERAL_SUBTREE_push(c->permittedSubtrees, tree) > 0)
		return true;
	GENERAL_SUBTREE_free(tree);
	return false;
}

/* The CA may sign for these names and what is below them. */
static bool
add_constraints(X509 *x, const struct certs_wish *w)
{
	NAME_CONSTRAINTS *c;
	bool good;

	if (w->dns_count == 0)
		return true;
	c = NAME_CONSTRAINTS_new();
	good = c != NULL && (c->permittedSubtrees = sk_GENERAL_SUBTREE_new_null()) != NULL;
	for (size_t i = 0; good && i < w->dns_count; i++)
		good = add_subtree(c, w->dns[i]);
	good = good && X509_add1_ext_i2d(x, NID_name_constraints, c, 1, X509V3_ADD_DEFAULT) == 1;
	NAME_CONSTRAINTS_free(c);
	return good;
}

/* A CA signs certificates of others, and no other CAs. */
static bool
add_basic(X509 *x, bool ca)
{
	BASIC_CONSTRAINTS *b = BASIC_CONSTRAINTS_new();
	bool good = b != NULL;

	if (good && ca) {
		b->ca = 1;
		b->pathlen = ASN1_INTEGER_new();
		good = b->pathlen != NULL && ASN1_INTEGER_set(b->pathlen, 0);
	}
	good = good && X509_add1_ext_i2d(x, NID_basic_constraints, b, 1, X509V3_ADD_DEFAULT) == 1;
	BASIC_CONSTRAINTS_free(b);
	return good;
}

static bool
add_usage(X509 *x, bool ca)
{
	ASN1_BIT_STRING *bits = ASN1_BIT_STRING_new();
	bool good = bits != NULL && ASN1_BIT_STRING_set_bit(bits, DIGITAL_SIGNATURE, 1) &&
	    (!ca || (ASN1_BIT_STRING_set_bit(bits, KEY_CERT_SIGN, 1) && ASN1_BIT_STRING_set_bit(bits, CRL_SIGN, 1))) &&
	    X509_add1_ext_i2d(x, NID_key_usage, bits, 1, X509V3_ADD_DEFAULT) == 1;

	ASN1_BIT_STRING_free(bits);
	return good;
}

static bool
add_extended_usage(X509 *x, const struct certs_wish *w)
{
	EXTENDED_KEY_USAGE *list = EXTENDED_KEY_USAGE_new();
	bool good = list != NULL &&
	    (!w->for_servers || sk_ASN1_OBJECT_push(list, OBJ_nid2obj(NID_server_auth)) > 0) &&
	    (!w->for_clients || sk_ASN1_OBJECT_push(list, OBJ_nid2obj(NID_client_auth)) > 0) &&
	    X509_add1_ext_i2d(x, NID_ext_key_usage, list, 0, X509V3_ADD_DEFAULT) == 1;

	EXTENDED_KEY_USAGE_free(list);
	return good;
}

/* Which key this is, and by which one it is signed; ca: NULL for its own. */
static bool
add_key_ids(X509 *x, X509 *ca)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned len;
	ASN1_OCTET_STRING *own = ASN1_OCTET_STRING_new();
	AUTHORITY_KEYID *authority = AUTHORITY_KEYID_new();
	const ASN1_OCTET_STRING *theirs = ca != NULL ? X509_get0_subject_key_id(ca) : own;
	bool good = own != NULL && authority != NULL && X509_pubkey_digest(x, EVP_sha256(), digest, &len) &&
	    ASN1_OCTET_STRING_set(own, digest, KEY_ID_BYTES) &&
	    X509_add1_ext_i2d(x, NID_subject_key_identifier, own, 0, X509V3_ADD_DEFAULT) == 1;

	if (good && theirs != NULL)
		good = (authority->keyid = ASN1_OCTET_STRING_dup(theirs)) != NULL &&
		    X509_add1_ext_i2d(x, NID_authority_key_identifier, authority, 0, X509V3_ADD_DEFAULT) == 1;
	ASN1_OCTET_STRING_free(own);
	AUTHORITY_KEYID_free(authority);
	return good;
}

/* -- certificates -- */

static bool
set_serial(X509 *x)
{
	uint8_t bytes[SERIAL_BYTES];
	BIGNUM *n;
	bool good;

	if (RAND_bytes(bytes, sizeof(bytes)) != 1)
		return false;
	bytes[0] = (bytes[0] & 0x7f) | 0x40;	/* positive, and always of this length */
	n = BN_bin2bn(bytes, sizeof(bytes), NULL);
	good = n != NULL && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x)) != NULL;
	BN_free(n);
	return good;
}

static bool
set_subject(X509 *x, const char *common_name)
{
	X509_NAME *name = X509_get_subject_name(x);

	return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (const unsigned char *)"Triumvir", -1, -1, 0) &&
	    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)common_name, -1, -1, 0);
}

/* What all of them have; ca: who signs, NULL: itself. */
static X509 *
new_certificate(const struct certs_wish *w, EVP_PKEY *key, X509 *ca, bool *shortened)
{
	X509 *x = X509_new();
	bool good = x != NULL && X509_set_version(x, X509_VERSION_3) && set_serial(x) &&
	    X509_gmtime_adj(X509_getm_notBefore(x), BACK_S) != NULL &&
	    X509_time_adj_ex(X509_getm_notAfter(x), (int)w->days, 0, NULL) != NULL &&
	    set_subject(x, w->common_name) &&
	    X509_set_issuer_name(x, X509_get_subject_name(ca != NULL ? ca : x)) && X509_set_pubkey(x, key);

	*shortened = good && ca != NULL && ASN1_TIME_compare(X509_get0_notAfter(x), X509_get0_notAfter(ca)) > 0;
	if (*shortened)
		good = X509_set1_notAfter(x, X509_get0_notAfter(ca));
	if (good)
		return x;
	X509_free(x);
	return NULL;
}

/* Ed25519 and Ed448 hash by themselves. */
static bool
sign(X509 *x, EVP_PKEY *key)
{
	bool own = EVP_PKEY_is_a(key, "ED25519") || EVP_PKEY_is_a(key, "ED448");

	return X509_sign(x, key, own ? NULL : EVP_sha256()) > 0;
}

static bool
put_bio(BIO *bio, struct buf *out)
{
	char *bytes;
	long len = BIO_get_mem_data(bio, &bytes);

	buf_init(out, CERTS_KEY_BYTES_MAX);
	out->secret = true;
	if (len > 0)
		buf_put(out, bytes, (size_t)len);
	return len > 0 && !out->failed;
}

static bool
put_pair(X509 *x, EVP_PKEY *key, struct certs_pair *out)
{
	BIO *cert = BIO_new(BIO_s_mem()), *secret = BIO_new(BIO_s_mem());
	struct tm tm;
	bool good = cert != NULL && secret != NULL && PEM_write_bio_X509(cert, x) &&
	    PEM_write_bio_PrivateKey_traditional(secret, key, NULL, NULL, 0, NULL, NULL) && put_bio(cert, &out->cert) &&
	    put_bio(secret, &out->key) && ASN1_TIME_to_tm(X509_get0_notAfter(x), &tm) &&
	    strftime(out->until, sizeof(out->until), "%Y-%m-%d", &tm) > 0;

	BIO_free(cert);
	BIO_free(secret);		/* and overwrites it */
	return good;
}

static bool
check_wish(const struct certs_wish *w, char *err, size_t cap)
{
	size_t len = strlen(w->common_name);

	if (len > 0 && len <= CERTS_COMMON_NAME_MAX)
		return true;
	snprintf(err, cap, "\"%s\": a common name has 1 to %d bytes", w->common_name, CERTS_COMMON_NAME_MAX);
	return false;
}

bool
certs_make_ca(const struct certs_wish *w, struct certs_pair *out, char *err, size_t cap)
{
	EVP_PKEY *key;
	X509 *x;
	bool good;

	*out = (struct certs_pair){ .cert = BUF_INIT(0) };
	if (!check_wish(w, err, cap))
		return false;
	key = EVP_EC_gen("P-256");
	x = key != NULL ? new_certificate(w, key, NULL, &out->shortened) : NULL;
	good = x != NULL && add_basic(x, true) && add_usage(x, true) && add_key_ids(x, NULL) &&
	    add_alt_names(x, w, false) && add_constraints(x, w) && sign(x, key) && put_pair(x, key, out);
	X509_free(x);
	EVP_PKEY_free(key);
	return good || failed(err, cap, "cannot make a CA");
}

/* -- what a CA signs -- */

struct ca {
	X509 *cert;
	EVP_PKEY *key;
};

static bool
read_ca(struct ca *ca, struct span cert, struct span key, char *err, size_t cap)
{
	BIO *from[2] = { BIO_new_mem_buf(cert.p, (int)cert.len), BIO_new_mem_buf(key.p, (int)key.len) };

	if (from[0] != NULL && from[1] != NULL) {
		ca->cert = PEM_read_bio_X509(from[0], NULL, NULL, NULL);
		ca->key = PEM_read_bio_PrivateKey(from[1], NULL, NULL, NULL);
	}
	BIO_free(from[0]);
	BIO_free(from[1]);
	if (ca->cert == NULL)
		return failed(err, cap, "the CA's certificate is not in PEM form");
	if (ca->key == NULL)
		return failed(err, cap, "the CA's key is not in PEM form, or its passphrase is another one");
	if (X509_check_ca(ca->cert) != 1) {
		snprintf(err, cap, "the certificate of the CA is not that of a CA");
		return false;
	}
	if (X509_check_private_key(ca->cert, ca->key) == 1)
		return true;
	ERR_clear_error();
	snprintf(err, cap, "the CA's key is not that of its certificate");
	return false;
}

static void
ca_done(struct ca *ca)
{
	X509_free(ca->cert);
	EVP_PKEY_free(ca->key);
}

/* Would it be believed by who trusts the CA?  purpose: X509_PURPOSE_*. */
static bool
is_believed(X509 *x, X509 *ca, int purpose, char *err, size_t cap)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	bool ready = store != NULL && ctx != NULL && X509_STORE_add_cert(store, ca) &&
	    X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN) && X509_STORE_CTX_init(ctx, store, x, NULL) &&
	    X509_STORE_CTX_set_purpose(ctx, purpose);
	bool good = ready && X509_verify_cert(ctx) == 1;

	if (!good)
		snprintf(err, cap, "what this CA signs would not be believed: %s",
		    ready ? X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)) : "no memory");
	ERR_clear_error();
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	return good;
}

static bool
make_by(const struct certs_wish *w, const struct ca *ca, struct certs_pair *out, char *err, size_t cap)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = key != NULL ? new_certificate(w, key, ca->cert, &out->shortened) : NULL;
	bool made = x != NULL && add_basic(x, false) && add_usage(x, false) && add_extended_usage(x, w) &&
	    add_key_ids(x, ca->cert) && add_alt_names(x, w, true) && sign(x, ca->key);
	bool good = made && (!w->for_servers || is_believed(x, ca->cert, X509_PURPOSE_SSL_SERVER, err, cap)) &&
	    (!w->for_clients || is_believed(x, ca->cert, X509_PURPOSE_SSL_CLIENT, err, cap));

	made = made && (!good || put_pair(x, key, out));
	X509_free(x);
	EVP_PKEY_free(key);
	return made ? good : failed(err, cap, "cannot make a certificate");
}

bool
certs_make(const struct certs_wish *w, struct span cert, struct span key, struct certs_pair *out, char *err, size_t cap)
{
	struct ca ca = { NULL, NULL };
	bool good;

	*out = (struct certs_pair){ .cert = BUF_INIT(0) };
	good = check_wish(w, err, cap) && read_ca(&ca, cert, key, err, cap) && make_by(w, &ca, out, err, cap);
	ca_done(&ca);
	return good;
}

void
certs_pair_done(struct certs_pair *p)
{
	buf_done(&p->cert);
	buf_done(&p->key);
}
