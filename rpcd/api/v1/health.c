/* /v1/health/: checks, and instances with their checks. */
#include "common/record/records.h"
#include "rpcd/api/api.h"

/* ?passing: empty, 1, true and so on; -1 is neither true nor false.  0 without it. */
static int
passing_value(const struct request *r)
{
	struct span v = params_get(&r->query, "passing");

	if (!params_has(&r->query, "passing"))
		return 0;
	return v.len == 0 ? 1 : params_bool(v);
}

static bool
check_service(struct request *r, void *args)
{
	struct catalog_read *read = args;
	int passing = passing_value(r);

	read->Passing = passing == 1;
	if (passing < 0)
		r->op.index = 0;	/* never wait for an error */
	return true;
}

/* The query itself went well, and its headers say so: only ?passing makes no sense. */
static void
finish_service(struct request *r, const struct op_reply *reply)
{
	if (passing_value(r) >= 0) {
		api_finish(r, reply);
	} else if (!api_failed(r, reply)) {
		api_headers(r, reply, true);
		answer_text(r, 400, "Invalid value for ?passing");
	}
}

const struct endpoint api_health[] = {
	{ "/v1/health/node/", "GET", ACCESS_OP, NULL, OP_HEALTH_NODE, .missing = "Missing node name",
	    READ_CATALOG, .flags = SHOW_MODE | FILTERED },
	{ "/v1/health/checks/", "GET", ACCESS_OP, NULL, OP_HEALTH_CHECKS, .missing = "Missing service name",
	    READ_CATALOG, .flags = SHOW_MODE | FILTERED },
	{ "/v1/health/service/", "GET", ACCESS_OP, NULL, OP_HEALTH_SERVICE, .missing = "Missing service name",
	    READ_CATALOG, .flags = SHOW_MODE | FILTERED | CACHED, .check = check_service, .finish = finish_service },
	{ "/v1/health/connect/", "GET", ACCESS_OP, NULL, OP_HEALTH_CONNECT, .missing = "Missing service name",
	    READ_CATALOG, .flags = SHOW_MODE | FILTERED, .check = check_service, .finish = finish_service },
	{ "/v1/health/state/", "GET", ACCESS_OP, NULL, OP_HEALTH_STATE, .missing = "Missing check state",
	    READ_CATALOG, .flags = SHOW_MODE | FILTERED },
	{ .path = NULL },
};
