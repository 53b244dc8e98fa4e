/*
 * raftd-fetch, the program of the processes "raftd: fetch": fetches the keys of one issuer, reads them, and ends.  raftd has it started
 * (raftd/login/serve/key_fetch.h) as the user _fetch with a socketpair as descriptor 3.  It holds no key and no data.
 *
 * One process serves one issuer, once: an issuer that takes it over by its answer gets to name keys for that issuer, which it could do
 * anyhow.  Until raftd has said what to fetch nothing is read but that; then come the walls, and then strangers.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/frame.h"
#include "common/net/msg.h"
#include "common/proc/helper_main.h"
#include "common/proc/sandbox.h"
#include "raftd/fetch/get.h"
#include "raftd/fetch/launch.h"
#include "raftd/login/jwks.h"

#define TAG "fetch"
#define WELL_KNOWN "/.well-known/openid-configuration"
#define WHY_BYTES_MAX 4096

struct fetcher {
	struct helper_task task;
	struct msg_fetch ask;
	struct get_conf how;
	char ca[64];			/* path; "": those of the system */
	struct arena a;
	struct buf why;
};

/* -- with raftd -- */

static enum tv_err
write_answer(const struct frame *question, const struct msg_fetched *keys)
{
	struct buf out = BUF_INIT(MSG_LARGE + FRAME_HEAD_BYTES);
	size_t at = frame_open(&out, MSG_FETCH, FRAME_REPLY, question->id);
	enum tv_err err = TV_ENOMEM;

	schema_pack(&msg_fetched_schema, keys, &out);
	frame_close(&out, at);
	if (!out.failed)
		err = helper_main_write(buf_span(&out));
	buf_done(&out);
	return err;
}

/* -- before the walls -- */

/* libcurl wants a file, and behind the walls there are none of ours. */
static bool
keep_authorities(struct fetcher *f)
{
	int fd;
	ssize_t n;

	if (f->ask.ca.len == 0)
		return true;
	if ((fd = memfd_create("ca", 0)) < 0)
		return false;
	n = write(fd, f->ask.ca.p, f->ask.ca.len);
	snprintf(f->ca, sizeof(f->ca), "/proc/self/fd/%d", fd);
	return n == (ssize_t)f->ask.ca.len;
}

static enum tv_err
wall(bool best_effort, char *errbuf, size_t cap)
{
	struct sandbox_policy policy = { .path_count = 0 };

	sandbox_internet(&policy);
	return sandbox_enter(&policy, best_effort, errbuf, cap);
}

/* -- behind them -- */

static enum tv_err
get(struct fetcher *f, struct span url, struct buf *body)
{
	const char *text = arena_cstr(&f->a, url);

	if (text == NULL)
		return TV_ENOMEM;
	return get_url(text, &f->how, body, &f->why);
}

/* Where the keys are, as the issuer says. */
static enum tv_err
discover(struct fetcher *f, struct span *url, uint32_t *algorithms)
{
	struct span issuer = f->ask.url;
	struct buf body = BUF_INIT(JWKS_BYTES_MAX);
	size_t len = issuer.len;
	enum tv_err err;

	if (len > 0 && issuer.p[len - 1] == '/')
		len--;
	err = get(f, arena_printf(&f->a, "%.*s" WELL_KNOWN, (int)len, (const char *)issuer.p), &body);
	if (err == TV_OK)
		err = jwks_discovery(buf_span(&body), issuer, &f->a, url, algorithms, &f->why);
	buf_done(&body);
	return err;
}

static enum tv_err
fetch(struct fetcher *f, struct msg_fetched *out)
{
	struct buf body = BUF_INIT(JWKS_BYTES_MAX);
	struct span url = f->ask.url;
	uint32_t algorithms = 0;
	struct jwks set = { .keys = NULL };
	enum tv_err err = f->ask.discovery ? discover(f, &url, &algorithms) : TV_OK;

	if (err == TV_OK)
		err = get(f, url, &body);
	if (err == TV_OK)
		err = jwks_parse(buf_span(&body), &set, &f->why);
	if (err == TV_OK) {
		set.algorithms = algorithms;
		err = jwks_put(&set, &f->a, out);
		out->error = SPAN_NONE;
	}
	buf_done(&body);
	return err;
}

static void
pulse(void *task)
{
	helper_main_pulse(task);
}

static enum tv_err
serve(struct fetcher *f, const struct frame *question, bool best_effort)
{
	struct msg_fetched keys = { .error = SPAN_NONE };
	char errbuf[512] = "";
	enum tv_err err = msg_read(&msg_fetch_schema, question->body, NULL, &f->ask);

	if (err == TV_OK && (!keep_authorities(f) || !jwt_begin() || !get_init()))
		err = TV_ENOMEM;
	if (err == TV_OK)
		err = wall(best_effort, errbuf, sizeof(errbuf));
	if (err != TV_OK) {
		log_err(TAG, "%s", errbuf[0] != '\0' ? errbuf : tv_strerror(err));
		return err;
	}
	f->how = (struct get_conf){ .ca = f->ca[0] != '\0' ? f->ca : NULL, .pulse = pulse, .pulse_ctx = &f->task,
	    .until = mono_add(clock_mono(), MONO_MS(f->ask.timeout_ms < 600000 ? f->ask.timeout_ms : 600000)) };
	err = fetch(f, &keys);
	if (err != TV_OK)
		keys = (struct msg_fetched){ .error = f->why.len > 0 ? buf_span(&f->why) : span_str(tv_strerror(err)) };
	return write_answer(question, &keys);
}

/* raftd-fetch LEVEL DESTINATION required|best-effort */
int
main(int argc, char **argv)
{
	static const struct helper_program program = { .owner = "raftd", .program = FETCH_PROGRAM, .title = FETCH_TITLE };
	struct fetcher f = { .a = ARENA_INIT(4u << 20), .why = BUF_INIT(WHY_BYTES_MAX) };
	struct helper_args args;
	struct frame question;
	enum tv_err err;

	if (!helper_main_begin(&program, argc, argv, &args))
		return 2;
	err = helper_main_read(&f.task, MSG_TEXT, &question);
	if (err == TV_OK && question.type == MSG_FETCH)
		err = serve(&f, &question, args.best_effort);
	helper_task_done(&f.task);
	buf_done(&f.why);
	arena_done(&f.a);
	return err == TV_OK || err == TV_EOF ? 0 : 1;
}
