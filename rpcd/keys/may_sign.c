/*
 * What a server of TLS signs, see pair_may_sign().  If rpcd were taken over it could have signatures for as long as it
 * lives; these shapes see to it that none of them is a certificate, a request for one, or the proof of a client.
 * The randoms and the point are whatever rpcd says, so what could be read as a thing of ASN.1 is not signed, either.
 */
#include <string.h>

#include "rpcd/keys/pair.h"

#define BLANKS 64
#define RANDOMS 64			/* the client's and the server's */
#define NAMED_CURVE 3
#define ELEMENTS_LEAST 3
#define OPEN SIZE_MAX			/* an element whose end is a mark */

/* RFC 8446, 4.4.3: blanks, what it is, a NUL, and the hash of the handshake. */
static bool
is_certificate_verify(struct span what)
{
	static const char context[] = "TLS 1.3, server CertificateVerify";
	const size_t head = BLANKS + sizeof(context);

	if (what.len != head + 32 && what.len != head + 48)
		return false;
	for (size_t i = 0; i < BLANKS; i++)
		if (what.p[i] != ' ')
			return false;
	return memcmp(what.p + BLANKS, context, sizeof(context)) == 0;
}

/* RFC 8422, 5.4: both randoms, the name of a curve, and a point on it. */
static bool
is_server_key_exchange(struct span what)
{
	static const struct { uint8_t curve, bytes; } curves[] = {
		{ 23, 65 }, { 24, 97 },		/* P-256, P-384: points that are not compressed */
		{ 29, 32 },			/* X25519 */
	};
	const uint8_t *params = what.p + RANDOMS;

	if (what.len < RANDOMS + 4 || params[0] != NAMED_CURVE || params[1] != 0)
		return false;
	for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++)
		if (params[2] == curves[i].curve)
			return params[3] == curves[i].bytes && what.len == RANDOMS + 4 + (size_t)curves[i].bytes &&
			    (curves[i].curve == 29 || params[4] == 4);
	return false;
}

/*
 * The length of an element of BER (X.690, 8.1) at *at, as lenient as the most careless reader: tags and lengths may be
 * longer than they have to be.  *at becomes the begin of its content, *end its end, or OPEN.  False: it does not fit.
 */
static bool
read_head(struct span what, size_t *at, size_t *end)
{
	size_t i = *at, len = 0;

	if (i < what.len && (what.p[i++] & 0x1f) == 0x1f)
		while (i < what.len && (what.p[i++] & 0x80) != 0)
			;
	if (i >= what.len)
		return false;
	uint8_t first = what.p[i++];
	if (first < 0x80)
		len = first;
	else
		for (unsigned more = first & 0x7f; more > 0; more--) {
			if (i >= what.len || len > what.len)
				return false;
			len = len << 8 | what.p[i++];
		}
	*at = i;
	*end = first == 0x80 ? OPEN : i + len;
	return first == 0x80 || *end <= what.len;
}

/*
 * Is it a SEQUENCE as a whole, with as many elements as all have that are signed: certificates, requests for them,
 * lists of those that are revoked, answers of OCSP?  Randoms that look so by chance cost one handshake of TLS 1.2 in
 * 700,000, and the client tries again.
 */
static bool
is_sequence(struct span what)
{
	size_t at = 0, end;

	if ((what.p[0] != 0x30 && what.p[0] != 0x3f) || !read_head(what, &at, &end) ||
	    (end != OPEN && end != what.len))
		return false;
	for (unsigned i = 0; i < ELEMENTS_LEAST; i++) {
		if (!read_head(what, &at, &end))
			return false;
		if (end == OPEN)
			return true;
		at = end;
	}
	return true;
}

bool
pair_may_sign(struct span what)
{
	return is_certificate_verify(what) || (is_server_key_exchange(what) && !is_sequence(what));
}
