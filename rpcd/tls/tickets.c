/* Keys of session tickets; see tickets.h. */
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "rpcd/tls/tickets.h"

#define NAME_BYTES 16			/* of OpenSSL's form of tickets (RFC 5077, 4) */
#define KEY_BYTES 32
#define KEYS 2				/* the newest, which makes tickets, and the one before */

struct ticket_key {
	uint8_t name[NAME_BYTES], cipher[KEY_BYTES], mac[KEY_BYTES];
};

struct tickets {
	struct ev_loop *loop;
	ev_timer hour;
	EVP_CIPHER *cipher;
	struct ticket_key *keys;	/* locked */
};

static void
renew_keys(struct tickets *t)
{
	t->keys[1] = t->keys[0];
	randombytes_buf(&t->keys[0], sizeof(t->keys[0]));
}

static void
on_hour(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	renew_keys(w->data);
}

void
tickets_forget(struct tickets *t)
{
	randombytes_buf(t->keys, KEYS * sizeof(*t->keys));
	ev_timer_again(t->loop, &t->hour);
}

struct tickets *
tickets_new(struct ev_loop *loop, OSSL_LIB_CTX *library)
{
	struct tickets *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->loop = loop;
	ev_init(&t->hour, on_hour);
	t->hour.repeat = TICKET_HOURS_S;
	t->hour.data = t;
	t->cipher = EVP_CIPHER_fetch(library, "AES-256-CBC", NULL);
	t->keys = sodium_allocarray(KEYS, sizeof(*t->keys));
	if (t->cipher != NULL && t->keys != NULL) {
		tickets_forget(t);
		return t;
	}
	tickets_free(t);
	return NULL;
}

void
tickets_free(struct tickets *t)
{
	if (t == NULL)
		return;
	ev_timer_stop(t->loop, &t->hour);
	EVP_CIPHER_free(t->cipher);
	sodium_free(t->keys);		/* wipes */
	free(t);
}

static bool
set_mac(EVP_MAC_CTX *mac, struct ticket_key *k)
{
	char digest[] = "SHA256";
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, k->mac, sizeof(k->mac)),
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};

	return EVP_MAC_CTX_set_params(mac, params) == 1;
}

/* SSL_CTX_set_tlsext_ticket_key_evp_cb(3).  -1: an error; 0: no such key; 1: done; 2: and the client gets a new one. */
static int
on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac, int makes)
{
	SSL_CTX *ctx = SSL_get_SSL_CTX(ssl);
	struct tickets *t = SSL_CTX_get_app_data(ctx);

	if (makes) {
		struct ticket_key *k = &t->keys[0];

		randombytes_buf(iv, (size_t)EVP_CIPHER_get_iv_length(t->cipher));
		memcpy(name, k->name, NAME_BYTES);
		return EVP_EncryptInit_ex(cipher, t->cipher, NULL, k->cipher, iv) == 1 && set_mac(mac, k) ? 1 : -1;
	}
	for (unsigned i = 0; i < KEYS; i++) {
		struct ticket_key *k = &t->keys[i];

		if (memcmp(name, k->name, NAME_BYTES) != 0)
			continue;
		if (EVP_DecryptInit_ex(cipher, t->cipher, NULL, k->cipher, iv) != 1 || !set_mac(mac, k))
			return -1;
		return i == 0 ? 1 : 2;
	}
	return 0;
}

/* When the first certificate of the client's chain ends: it goes into the ticket, and from there into the next one. */
static int
on_ticket_made(SSL *ssl, void *arg UNUSED)
{
	STACK_OF(X509) *chain = SSL_session_reused(ssl) ? NULL : SSL_get0_verified_chain(ssl);
	int64_t first = INT64_MAX;
	struct tm tm;

	for (int i = 0; i < sk_X509_num(chain); i++) {
		int64_t end = ASN1_TIME_to_tm(X509_get0_notAfter(sk_X509_value(chain, i)), &tm) == 1 ? timegm(&tm) : 0;

		first = end < first ? end : first;
	}
	return first == INT64_MAX || SSL_SESSION_set1_ticket_appdata(SSL_get0_session(ssl), &first, sizeof(first)) == 1;
}

static bool
has_ended(SSL_SESSION *session)
{
	int64_t end;
	size_t len;
	void *data;

	if (SSL_SESSION_get0_ticket_appdata(session, &data, &len) != 1 || len != sizeof(end))
		return SSL_SESSION_get0_peer(session) != NULL;
	memcpy(&end, data, sizeof(end));
	return end <= clock_wall_ns() / 1000000000;
}

/*
 * A client's certificate that has expired since its owner has shown it, or one that vouches for it, is as good as none:
 * a full handshake, in which it is refused.
 */
static SSL_TICKET_RETURN
on_ticket_read(SSL *ssl UNUSED, SSL_SESSION *session, const unsigned char *name UNUSED, size_t name_len UNUSED,
    SSL_TICKET_STATUS status, void *arg UNUSED)
{
	if (status == SSL_TICKET_EMPTY || status == SSL_TICKET_NO_DECRYPT)
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	if (has_ended(session))
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	return status == SSL_TICKET_SUCCESS_RENEW ? SSL_TICKET_RETURN_USE_RENEW : SSL_TICKET_RETURN_USE;
}

bool
tickets_serve(struct tickets *t, SSL_CTX *ctx)
{
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_timeout(ctx, TICKET_HOURS_S);
	return SSL_CTX_set_app_data(ctx, t) == 1 && SSL_CTX_set_num_tickets(ctx, 1) == 1 &&
	    SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, on_ticket) == 1 &&
	    SSL_CTX_set_session_ticket_cb(ctx, on_ticket_made, on_ticket_read, NULL) == 1;
}
