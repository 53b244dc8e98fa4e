/* /v1/health/: checks, and instances with their checks. */
#include "common/record/records.h"
#include "rpcd/api/api.h"

static void
run_checks_by(struct request *r, enum op_code op, const char *missing)
{
	struct catalog_read args;

	if (!api_query(r, true) || !api_need_rest(r, missing) || !api_filter(r, &check_schema))
		return;
	api_catalog_args(r, &args);
	api_start(r, op, &args, api_finish_catalog);
}

static void
run_node(struct request *r)
{
	run_checks_by(r, OP_HEALTH_NODE, "Missing node name");
}

static void
run_checks(struct request *r)
{
	run_checks_by(r, OP_HEALTH_CHECKS, "Missing service name");
}

static void
run_state(struct request *r)
{
	run_checks_by(r, OP_HEALTH_STATE, "Missing check state");
}

/* ?passing: empty, 1, true and so on; -1 is neither true nor false. */
static int
passing_value(struct span v)
{
	static const char *const yes[] = { "", "1", "t", "T", "true", "TRUE", "True" };
	static const char *const no[] = { "0", "f", "F", "false", "FALSE", "False" };

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		if (span_eqs(v, yes[i]))
			return 1;
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		if (span_eqs(v, no[i]))
			return 0;
	return -1;
}

/* The query itself went well, and its headers say so: only the filter makes no sense. */
static void
finish_bad_passing(struct request *r, const struct op_reply *reply)
{
	if (api_failed(r, reply))
		return;
	api_headers(r, reply, true);
	answer_text(r, 400, "Invalid value for ?passing");
}

static void
run_service(struct request *r)
{
	struct catalog_read args;
	int passing = params_has(&r->query, "passing") ? passing_value(params_get(&r->query, "passing")) : 0;

	if (!api_query(r, true) || !api_need_rest(r, "Missing service name") || !api_filter(r, &health_entry_schema))
		return;
	api_catalog_args(r, &args);
	args.Passing = passing == 1;
	if (passing < 0)
		r->op.index = 0;	/* never wait for an error */
	api_start(r, OP_HEALTH_SERVICE, &args, passing < 0 ? finish_bad_passing : api_finish_catalog);
}

const struct endpoint api_health[] = {
	{ "/v1/health/node/", "GET", BODY_NONE, run_node, NOT_ADMIN },
	{ "/v1/health/checks/", "GET", BODY_NONE, run_checks, NOT_ADMIN },
	{ "/v1/health/service/", "GET", BODY_NONE, run_service, NOT_ADMIN },
	{ "/v1/health/state/", "GET", BODY_NONE, run_state, NOT_ADMIN },
	{ NULL, NULL, BODY_NONE, NULL, NULL },
};
