/* URLs of HTTP checks, as Go's library takes them, which is what writers of checks know. */
#ifndef TV_RPCD_CHECK_URL_H
#define TV_RPCD_CHECK_URL_H

#include "common/base/buf.h"

/*
 * The URL as it is to be asked for.  A path with a character that none may have is escaped anew, all of it; one that
 * is well-formed stays as it is, dot segments included.  Blanks of the query are %20, the fragment goes, and an IPv4
 * address may stand in brackets.  False: an escape in the path is none.
 */
bool url_to_ask(struct span url, struct buf *out);
/* "[127.0.0.1]" without its brackets; anything else as it is. */
struct span url_unbracketed(struct span host);

#endif
