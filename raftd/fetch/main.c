/*
 * raftd-fetch, the program of the processes "raftd: fetch": fetches the keys of one issuer, reads them, and ends.  raftd has it started
 * (raftd/serve/key_fetch.h) as the user _fetch with a socketpair as descriptor 3.  It holds no key and no data.
 *
 * One process serves one issuer, once: whoever takes it over by what it answers gets to name keys for that issuer, which it could do
 * anyhow.  Until raftd has said what to fetch nothing is read but that; then come the walls, and then strangers.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/frame.h"
#include "common/net/msg.h"
#include "common/proc/helper_monitor.h"
#include "common/proc/sandbox.h"
#include "raftd/fetch/get.h"
#include "raftd/fetch/launch.h"
#include "raftd/login/jwks.h"

#define TAG "fetch"
#define WELL_KNOWN "/.well-known/openid-configuration"
#define WHY_BYTES_MAX 4096

struct fetcher {
	struct msg_fetch ask;
	struct get_conf how;
	char ca[64];			/* path; "": those of the system */
	struct arena a;
	struct buf why;
};

/* -- with raftd -- */

static enum tv_err
read_frame(struct buf *in, struct frame *f)
{
	for (;;) {
		long used = frame_read(buf_span(in), MSG_TEXT, f);
		uint8_t *to;
		ssize_t n;

		if (used != 0)
			return used > 0 ? TV_OK : TV_EFORMAT;
		if ((to = buf_room(in, 4096)) == NULL)
			return TV_ENOMEM;
		n = read(HELPER_FD, to, 4096);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 ? TV_EOF : TV_ESYS;
		in->len += (size_t)n;
	}
}

static enum tv_err
write_all(struct span out)
{
	while (out.len > 0) {
		ssize_t n = write(HELPER_FD, out.p, out.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return TV_ESYS;
		out = span_of(out.p + n, out.len - (size_t)n);
	}
	return TV_OK;
}

static enum tv_err
answer(const struct frame *question, const struct msg_fetched *keys)
{
	struct buf out = BUF_INIT(MSG_LARGE + FRAME_HEAD_BYTES);
	size_t at = frame_open(&out, MSG_FETCH, FRAME_REPLY, question->id);
	enum tv_err err = TV_ENOMEM;

	schema_pack(&msg_fetched_schema, keys, &out);
	frame_close(&out, at);
	if (!out.failed)
		err = write_all(buf_span(&out));
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

static enum tv_err
serve(struct fetcher *f, const struct frame *question, bool best_effort)
{
	struct msg_fetched keys = { .error = SPAN_NONE };
	char errbuf[512] = "";
	enum tv_err err = msg_read(&msg_fetch_schema, question->body, NULL, &f->ask);

	if (err == TV_OK && (!keep_authorities(f) || !get_init()))
		err = TV_ENOMEM;
	if (err == TV_OK)
		err = wall(best_effort, errbuf, sizeof(errbuf));
	if (err != TV_OK) {
		log_err(TAG, "%s", errbuf[0] != '\0' ? errbuf : tv_strerror(err));
		return err;
	}
	f->how = (struct get_conf){ .ca = f->ca[0] != '\0' ? f->ca : NULL,
	    .until = mono_add(clock_mono(), MONO_MS(f->ask.timeout_ms < 600000 ? f->ask.timeout_ms : 600000)) };
	err = fetch(f, &keys);
	if (err != TV_OK)
		keys = (struct msg_fetched){ .error = f->why.len > 0 ? buf_span(&f->why) : span_str(tv_strerror(err)) };
	return answer(question, &keys);
}

/* raftd-fetch LEVEL DESTINATION required|best-effort */
int
main(int argc, char **argv)
{
	struct fetcher f = { .a = ARENA_INIT(4u << 20), .why = BUF_INIT(WHY_BYTES_MAX) };
	struct buf in = BUF_INIT(MSG_TEXT + FRAME_HEAD_BYTES + 4096);
	struct frame question;
	enum tv_err err;

	if (argc != 4 || fcntl(HELPER_FD, F_GETFD) < 0) {
		fprintf(stderr, "raftd-fetch is started by raftd, see raftd(8)\n");
		return 2;
	}
	log_init("raftd", (enum log_level)atoi(argv[1]), (enum log_dest)atoi(argv[2]));
	signal(SIGPIPE, SIG_IGN);
	umask(077);
	(void)prctl(PR_SET_NAME, FETCH_TITLE);
	(void)fcntl(HELPER_FD, F_SETFD, FD_CLOEXEC);
	(void)fcntl(HELPER_FD, F_SETFL, fcntl(HELPER_FD, F_GETFL) & ~O_NONBLOCK);
	err = read_frame(&in, &question);
	if (err == TV_OK && question.type == MSG_FETCH)
		err = serve(&f, &question, strcmp(argv[3], "best-effort") == 0);
	buf_done(&in);
	buf_done(&f.why);
	arena_done(&f.a);
	return err == TV_OK || err == TV_EOF ? 0 : 1;
}
