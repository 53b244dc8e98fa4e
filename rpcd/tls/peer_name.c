/* The name in a client's certificate, for logs and the audit trail. */
#include <openssl/x509v3.h>
#include <string.h>

#include "rpcd/tls/tls_int.h"

#define NAME_BYTES 256

static char *
name_text(const char *kind, const ASN1_STRING *name)
{
	char safe[NAME_BYTES - 8];
	struct buf out = BUF_INIT(NAME_BYTES - 1);
	char *text;

	buf_printf(&out, "%s:%s", kind, log_safe(span_of(ASN1_STRING_get0_data(name),
	    (size_t)ASN1_STRING_length(name)), safe, sizeof(safe)));
	text = out.failed ? NULL : span_dup(buf_span(&out));
	buf_done(&out);
	return text;
}

static char *
alternative_name(const GENERAL_NAMES *names)
{
	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *n = sk_GENERAL_NAME_value(names, i);

		if (n->type == GEN_URI)
			return name_text("uri", n->d.uniformResourceIdentifier);
		if (n->type == GEN_DNS)
			return name_text("dns", n->d.dNSName);
		if (n->type == GEN_EMAIL)
			return name_text("email", n->d.rfc822Name);
	}
	return NULL;
}

static char *
common_name(const X509 *cert)
{
	const X509_NAME *subject = X509_get_subject_name(cert);
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

	if (at < 0)
		return span_dup(span_str("cn:"));
	return name_text("cn", X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

char *
peer_name_of(const X509 *cert)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	char *text = alternative_name(names);

	GENERAL_NAMES_free(names);
	return text != NULL ? text : common_name(cert);
}
