/*
 * Configuration entries, which this version does not keep.  The paths are endpoints all the same: who shows a token
 * that is none is told so, as everywhere.
 */
#include "rpcd/api/api.h"

static void
run_not_kept(struct request *r)
{
	answer_text(r, 404, "not served by this version");
}

#define NOT_KEPT ACCESS_SHOWN, .run = run_not_kept

const struct endpoint api_config[] = {
	{ "/v1/config", "PUT", NOT_KEPT },
	{ "/v1/config/", "GET", NOT_KEPT },
	{ "/v1/config/", "DELETE", NOT_KEPT },
	{ .path = NULL },
};
