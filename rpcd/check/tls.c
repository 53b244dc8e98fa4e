/* TLS, see tls.h. */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/addr.h"
#include "common/base/clock.h"
#include "rpcd/check/tls.h"

#define TRUST_KEPT MONO_S(3600)		/* the system's authorities are read again after this time */
#define HANDSHAKE_BYTES_MAX (64u << 10)	/* of one message, as a certificate chain is */

/* The authorities, shared by the connections that were made while they were new. */
struct trust {
	gnutls_certificate_credentials_t list;
	unsigned users;			/* one is `newest` */
};

struct tls {
	gnutls_session_t session;
	struct trust *trust;
	char name[256];			/* the session borrows it */
};

static struct trust *newest;
static struct mono read_at;

static void
trust_leave(struct trust *t)
{
	if (t == NULL || --t->users > 0)
		return;
	gnutls_certificate_free_credentials(t->list);
	free(t);
}

static struct trust *
trust_join(void)
{
	struct trust *t = newest;

	if (t == NULL || !mono_before(clock_mono(), mono_add(read_at, TRUST_KEPT))) {
		if ((t = calloc(1, sizeof(*t))) == NULL)
			return NULL;
		if (gnutls_certificate_allocate_credentials(&t->list) != GNUTLS_E_SUCCESS) {
			free(t);
			return NULL;
		}
		/* None at all: then no certificate is good. */
		(void)gnutls_certificate_set_x509_system_trust(t->list);
		trust_leave(newest);
		t->users = 1;
		newest = t;
		read_at = clock_mono();
	}
	t->users++;
	return t;
}

struct tls *
tls_new(int fd, const struct check_run *run, const char *host, bool h2)
{
	const gnutls_datum_t protocol = { (unsigned char *)(uintptr_t)"h2", 2 };
	struct span name = run->TLSServerName.len > 0 ? run->TLSServerName : span_str(host);
	struct tls *t = calloc(1, sizeof(*t));

	if (t == NULL || !span_copy(name, t->name, sizeof(t->name)) || (t->trust = trust_join()) == NULL ||
	    gnutls_init(&t->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) != GNUTLS_E_SUCCESS) {
		if (t != NULL)
			trust_leave(t->trust);
		free(t);
		return NULL;
	}
	bool literal = addr_parse(t->name, 0, NULL);
	if (gnutls_set_default_priority(t->session) != GNUTLS_E_SUCCESS ||
	    gnutls_credentials_set(t->session, GNUTLS_CRD_CERTIFICATE, t->trust->list) != GNUTLS_E_SUCCESS ||
	    (h2 && gnutls_alpn_set_protocols(t->session, &protocol, 1, 0) != GNUTLS_E_SUCCESS) ||
	    (!literal && gnutls_server_name_set(t->session, GNUTLS_NAME_DNS, t->name, strlen(t->name)) !=
	    GNUTLS_E_SUCCESS)) {
		tls_free(t);
		return NULL;
	}
	gnutls_handshake_set_max_packet_length(t->session, HANDSHAKE_BYTES_MAX);
	if (!run->TLSSkipVerify)
		gnutls_session_set_verify_cert(t->session, t->name, 0);
	gnutls_transport_set_int(t->session, fd);
	return t;
}

void
tls_free(struct tls *t)
{
	if (t == NULL)
		return;
	gnutls_deinit(t->session);
	trust_leave(t->trust);
	free(t);
}

static bool
again(ssize_t n)
{
	return n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED;
}

/* "the certificate chain uses ...": GnuTLS' sentences without the capital and the last stop. */
static void
why_unverified(struct tls *t, char why[TLS_WHY_BYTES])
{
	gnutls_datum_t text = { NULL, 0 };
	unsigned status = gnutls_session_get_verify_cert_status(t->session);

	if (gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0) == GNUTLS_E_SUCCESS)
		snprintf(why, TLS_WHY_BYTES, "x509: %.400s", (const char *)text.data);
	else
		snprintf(why, TLS_WHY_BYTES, "x509: the certificate is not trusted");
	gnutls_free(text.data);
	for (size_t n = strlen(why); n > 0 && (why[n - 1] == ' ' || why[n - 1] == '.'); n--)
		why[n - 1] = '\0';
}

int
tls_handshake(struct tls *t, char why[TLS_WHY_BYTES])
{
	int rc;

	while ((rc = gnutls_handshake(t->session)) != GNUTLS_E_SUCCESS) {
		if (again(rc))
			return 0;
		if (!gnutls_error_is_fatal(rc))
			continue;	/* a warning */
		if (rc == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
			why_unverified(t, why);
		else if (rc == GNUTLS_E_FATAL_ALERT_RECEIVED)
			snprintf(why, TLS_WHY_BYTES, "remote error: tls: %s",
			    gnutls_alert_get_name(gnutls_alert_get(t->session)));
		else
			snprintf(why, TLS_WHY_BYTES, "tls: %s", gnutls_strerror(rc));
		return -1;
	}
	return 1;
}

bool
tls_wants_write(const struct tls *t)
{
	return gnutls_record_get_direction(t->session) == 1;
}

/* Of TLS 1.3's messages between the bytes there are at most so many at a time. */
#define OTHERS_MAX 16

/* Without the peer's word for the end errno is 0. */
static ssize_t
tls_read(void *tls, void *dst, size_t cap)
{
	struct tls *t = tls;
	ssize_t n = GNUTLS_E_AGAIN;

	for (int i = 0; i < OTHERS_MAX; i++) {
		n = gnutls_record_recv(t->session, dst, cap);
		if (n >= 0)
			return n;
		if (again(n) || gnutls_error_is_fatal((int)n))
			break;
	}
	errno = again(n) || !gnutls_error_is_fatal((int)n) ? EAGAIN : n == GNUTLS_E_PREMATURE_TERMINATION ? 0 : EPROTO;
	return -1;
}

static ssize_t
tls_write(void *tls, const void *src, size_t len)
{
	ssize_t n = gnutls_record_send(((struct tls *)tls)->session, src, len);

	if (n >= 0)
		return n;
	errno = again(n) ? EAGAIN : EPROTO;
	return -1;
}

static bool
tls_is_pending(const void *tls)
{
	return gnutls_record_check_pending(((const struct tls *)tls)->session) > 0;
}

const struct stream_seal tls_seal = { .read = tls_read, .write = tls_write, .is_pending = tls_is_pending };
