/*
 * "tvkeys": a provider of OpenSSL 3 (provider(7)) inside this program, for keys whose private part is elsewhere.
 * Objects of keys hold the public part and a number; to sign with one calls the signer.  It stands in a library
 * context of its own beside the default provider, so that nothing else of the process meets it.
 */
#ifndef TV_RPCD_TLS_PROVIDER_H
#define TV_RPCD_TLS_PROVIDER_H

#include <openssl/evp.h>
#include <openssl/types.h>

#include "rpcd/tls/tls_server.h"

struct tls_provider;

/* NULL: no memory, or the library refuses. */
struct tls_provider *tls_provider_new(tls_sign *sign, void *ctx);
/* After everything that was made in its context.  NULL: nothing. */
void tls_provider_free(struct tls_provider *p);
/* For what is made to be used with its keys. */
OSSL_LIB_CTX *tls_provider_library(const struct tls_provider *p);
/*
 * The private key to `public`, of that number: EC, RSA or Ed25519.  The caller's, by EVP_PKEY_free().  NULL: another
 * kind, or no memory.
 */
EVP_PKEY *tls_provider_key(struct tls_provider *p, const EVP_PKEY *public, uint64_t number);

/*
 * Signatures that this thread asks for from now on are due by then: OpenSSL has no way from a session to the
 * signature that it needs.  Before the first call: at once.
 */
void tls_provider_sign_until(struct mono deadline);
/* What came of the newest one of this thread since then; TV_OK if there was none. */
enum tv_err tls_provider_signed(void);

#endif
