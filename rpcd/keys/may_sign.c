/*
 * What a server of TLS signs, see pair_may_sign().  If rpcd were taken over it could have signatures for as long as it
 * lives; these shapes see to it that none of them is a certificate, a request for one, or the proof of a client.
 */
#include <string.h>

#include "rpcd/keys/pair.h"

#define BLANKS 64
#define RANDOMS 64			/* the client's and the server's */
#define NAMED_CURVE 3

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
		{ 23, 65 }, { 24, 97 }, { 25, 133 },	/* P-256, P-384, P-521: points that are not compressed */
		{ 29, 32 }, { 30, 56 },			/* X25519, X448 */
	};
	const uint8_t *params = what.p + RANDOMS;

	if (what.len < RANDOMS + 4 || params[0] != NAMED_CURVE || params[1] != 0)
		return false;
	for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++)
		if (params[2] == curves[i].curve)
			return params[3] == curves[i].bytes && what.len == RANDOMS + 4 + (size_t)curves[i].bytes &&
			    (curves[i].curve > 25 || params[4] == 4);
	return false;
}

bool
pair_may_sign(struct span what)
{
	return is_certificate_verify(what) || is_server_key_exchange(what);
}
