/* A line of the log for each request: at debug level only, for paths hold keys and names. */
#include <inttypes.h>
#include <stdio.h>

#include "common/base/log.h"
#include "rpcd/api/api.h"

#define PATH_SHOWN 512

/*
 * Without the query, which may hold a token; below /v1/acl/ without the rest as well, which was a secret in earlier
 * versions of that API.
 */
static struct span
shown(struct span target)
{
	static const char acl[] = "/v1/acl/";
	struct span path, query;

	target_split(target, &path, &query);
	return span_starts(path, span_str(acl)) ? span_str(acl) : path;
}

void
request_log(const struct request *r, struct mono took)
{
	char path[PATH_SHOWN], method[32], status[16] = "gone";

	if (!log_enabled(LOG_LVL_DEBUG) || r->head.method == NULL)
		return;
	if (r->answered)
		snprintf(status, sizeof(status), "%u", r->answer.status);
	/* Refused before anything of it was believed: not even the method is known. */
	bool read = r->head.target.len > 0;
	log_safe(span_str(read ? r->head.method : "-"), method, sizeof(method));
	log_safe(read ? shown(r->head.target) : span_str("-"), path, sizeof(path));
	log_debug("http", "%s %s %s %" PRId64 " us %s%s%s%s", method, path, status, took.ns / 1000,
	    r->head.on_socket ? "rpcd.sock" : r->head.client_ip == NULL ? "-" : r->head.client_ip,
	    r->head.on_tls ? " TLS" : "", r->head.peer_san != NULL ? " " : "",
	    r->head.peer_san != NULL ? r->head.peer_san : "");
}
