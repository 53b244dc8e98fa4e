/* /v1/agent/monitor: the live log of this node's daemons, as a stream that ends when the client goes. */
#include "rpcd/api/api.h"
#include "rpcd/node/log_streams.h"

/* Names that clients use; there is nothing finer than debug. */
static bool
parse_level(struct span text, enum log_level *level)
{
	static const struct {
		const char *name;
		enum log_level level;
	} names[] = {
		{ "", LOG_LVL_INFO }, { "trace", LOG_LVL_DEBUG }, { "debug", LOG_LVL_DEBUG }, { "info", LOG_LVL_INFO },
		{ "warn", LOG_LVL_WARN }, { "err", LOG_LVL_ERR }, { "error", LOG_LVL_ERR },
	};
	char lower[16] = "";

	if (text.len >= sizeof(lower))
		return false;
	for (size_t i = 0; i < text.len; i++)
		lower[i] = (char)(text.p[i] >= 'A' && text.p[i] <= 'Z' ? text.p[i] | 0x20 : text.p[i]);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i].name, lower) == 0) {
			*level = names[i].level;
			return true;
		}
	return false;
}

/* 0: no such daemon. */
static unsigned
parse_daemon(struct span text)
{
	return text.len == 0 ? LOG_STREAM_ALL : span_eqs(text, "gossipd") ? LOG_STREAM_GOSSIPD :
	    span_eqs(text, "raftd") ? LOG_STREAM_RAFTD : span_eqs(text, "rpcd") ? LOG_STREAM_RPCD : 0;
}

static void
on_lines(void *ctx)
{
	struct request *r = ctx;

	r->ready(r);
}

static size_t
read_lines(struct request *r, void *dst, size_t max)
{
	return log_stream_read(r->state, dst, max);
}

static void
stop_stream(struct request *r)
{
	log_stream_stop(r->state);
}

static void
run_monitor(struct request *r)
{
	struct span level_text = params_get(&r->query, "loglevel"), daemon = params_get(&r->query, "daemon");
	bool json = params_has(&r->query, "logjson");
	enum log_level level;
	unsigned daemons = parse_daemon(daemon);
	enum tv_err err;

	if (!parse_level(level_text, &level)) {
		answer_text(r, 400, "Bad request: Unknown log level: %.*s", SPAN_ARGS(level_text));
		return;
	}
	if (daemons == 0) {
		answer_text(r, 400, "Bad request: Unknown daemon: %.*s (gossipd, raftd or rpcd)", SPAN_ARGS(daemon));
		return;
	}
	if (daemons == LOG_STREAM_RAFTD && !r->api->cluster->server) {
		answer_text(r, 400, "Bad request: this node is a client: raftd runs on servers");
		return;
	}
	r->state = log_stream_start(r->api->log_streams, level, daemons, json, on_lines, r, &err);
	if (r->state == NULL) {
		answer_text(r, err == TV_ELIMIT ? 503 : 500, "%s", err == TV_ELIMIT ?
		    "too many clients read the log of this node already" : tv_strerror(err));
		return;
	}
	r->cancel = stop_stream;
	answer_stream(r, json ? "application/json" : "text/plain; charset=utf-8", read_lines);
}

const struct endpoint api_monitor[] = {
	{ "/v1/agent/monitor", "GET", ACCESS_AGENT_READ | ACCESS_ADMIN, .body = BODY_NONE_LIVE, .run = run_monitor },
	{ .path = NULL },
};
