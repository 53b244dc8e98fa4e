/*
 * Docker checks: a program is run in a container by docker's API at its unix socket (exec create, start, inspect), and
 * its status is the result, as that of a script.  Docker cannot be told to end what was started: at the timeout the
 * program stays, and the check is critical.  Answers cost a bounded amount.
 */
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/record/schema_json.h"
#include "common/text/json_text.h"
#include "rpcd/check/checker.h"
#include "rpcd/check/curl_loop.h"
#include "rpcd/check/docker_stream.h"
#include "rpcd/check/tail.h"

#define REPLY_BYTES_MAX (64u << 10)
#define OUTPUT_BYTES_READ (64u << 20)	/* then the run is over */
#define REQUEST_BYTES_MAX (1u << 20)
#define EXEC_ID_BYTES_MAX 129
#define SHELL "/bin/sh"
#define FAIL(d_, ...) run_endf(&(d_)->run, HEALTH_CRITICAL, __VA_ARGS__)

enum step { CREATE, START, INSPECT };

struct docker {
	struct probe_run run;		/* first */
	struct transfer transfer;
	enum step step;
	struct curl_slist *headers;
	struct buf request, reply;	/* JSON */
	char container[256], exec[EXEC_ID_BYTES_MAX];
	struct docker_stream stream;
	struct tail output;
	long status;			/* of this step's answer */
	char error[CURL_ERROR_SIZE];
};

/* -- the end of a run -- */

static void
docker_clear(struct probe_run *r)
{
	struct docker *d = (struct docker *)r;

	transfer_end(r->check->checker->curl, &d->transfer);
	curl_slist_free_all(d->headers);
	buf_done(&d->request);
	buf_done(&d->reply);
	tail_done(&d->output);
}

static void
exited(struct docker *d, json_int_t code)
{
	struct buf out = BUF_INIT(2 * OUTPUT_BYTES_MAX);

	tail_print(&d->output, &out);
	run_end(&d->run, code == 0 ? HEALTH_PASSING : code == 1 ? HEALTH_WARNING : HEALTH_CRITICAL, &out, false);
}

/* -- answers -- */

/* Consul's words. */
static void
refused(struct docker *d)
{
	static const char *const steps[] = { [CREATE] = "create", [START] = "start", [INSPECT] = "inspect" };
	const char *step = steps[d->step];
	struct span body = buf_span(&d->reply);

	if (d->status == 404 && d->step == CREATE)
		FAIL(d, "create exec failed for unknown container \"%s\"", d->container);
	else if (d->status == 404)
		FAIL(d, "%s exec failed for container \"%s\": invalid exec id \"%s\"", step, d->container,
		    d->exec);
	else if (d->status == 409)
		FAIL(d, "%s exec failed since container \"%s\" is paused or stopped", step, d->container);
	else
		FAIL(d, "%s exec failed for container \"%s\" with status %ld: %.*s", step, d->container,
		    d->status, (int)(body.len > 256 ? 256 : body.len), (const char *)body.p);
}

static bool
is_id(const char *s)
{
	size_t n = strspn(s, "0123456789abcdefABCDEF");

	return n > 0 && n < EXEC_ID_BYTES_MAX && s[n] == '\0';
}

static void send_step(struct docker *d, enum step step);

static void
take_created(struct docker *d, json_t *reply)
{
	const char *id = json_string_value(json_object_get(reply, "Id"));

	if (id == NULL || !is_id(id)) {
		FAIL(d, "create exec failed for container \"%s\": the answer names no exec", d->container);
		return;
	}
	snprintf(d->exec, sizeof(d->exec), "%s", id);
	send_step(d, START);
}

static void
take_inspected(struct docker *d, json_t *reply)
{
	json_t *code = json_object_get(reply, "ExitCode");

	if (json_is_true(json_object_get(reply, "Running")))
		FAIL(d, "inspect exec failed for container \"%s\": the program has closed its output, and "
		    "still runs", d->container);
	else if (!json_is_integer(code))
		FAIL(d, "inspect exec failed for container \"%s\": the answer has no ExitCode", d->container);
	else
		exited(d, json_integer_value(code));
}

static void
answered(struct docker *d)
{
	char why[128];
	json_t *reply;

	if (d->status != (d->step == CREATE ? 201 : 200)) {
		refused(d);
		return;
	}
	if (d->step == START) {
		send_step(d, INSPECT);
		return;
	}
	reply = d->reply.failed ? NULL : json_first_value(buf_span(&d->reply), why, sizeof(why));
	if (d->step == CREATE)
		take_created(d, reply);
	else
		take_inspected(d, reply);
	json_decref(reply);
}

static void
on_done(struct transfer *t, CURLcode rc)
{
	struct docker *d = (struct docker *)(void *)((char *)t - offsetof(struct docker, transfer));

	(void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &d->status);
	transfer_end(d->run.check->checker->curl, t);
	if (rc == CURLE_OK)
		answered(d);
	else if (rc == CURLE_OPERATION_TIMEDOUT)
		run_end_program_late(&d->run, &d->output);
	else if (rc == CURLE_WRITE_ERROR)
		FAIL(d, "docker's answer makes no sense, or is longer than 64 %s",
		    d->step == START ? "MiB" : "KiB");
	else
		FAIL(d, "docker at %s: %s", d->run.check->checker->docker_socket,
		    d->error[0] != '\0' ? d->error : curl_easy_strerror(rc));
}

static void
on_output(void *ctx, struct span bytes)
{
	struct docker *d = ctx;

	tail_put(&d->output, bytes);
}

static size_t
on_body(char *bytes, size_t size, size_t n, void *ctx)
{
	struct docker *d = ctx;
	long status = 0;

	(void)curl_easy_getinfo(d->transfer.easy, CURLINFO_RESPONSE_CODE, &status);
	if (d->step != START || status != 200) {
		buf_put(&d->reply, bytes, size * n);
		return d->reply.failed ? 0 : size * n;
	}
	return docker_stream_put(&d->stream, span_of(bytes, size * n), on_output, d) &&
	    d->output.total <= OUTPUT_BYTES_READ ? size * n : 0;
}

/* -- requests -- */

/* One argument is a line for the shell. */
static bool
write_create(struct docker *d)
{
	const struct check_run *run = &d->run.check->def;
	struct buf *out = &d->request;
	struct span shell = run->Shell.len > 0 ? run->Shell : span_str(SHELL);

	buf_puts(out, "{\"AttachStdin\":false,\"AttachStdout\":true,\"AttachStderr\":true,\"Tty\":false,\"Cmd\":[");
	if (run->Args.n == 1) {
		json_quote(shell, out);
		buf_puts(out, ",\"-c\",");
	}
	for (uint32_t i = 0; i < run->Args.n; i++) {
		if (i > 0)
			buf_u8(out, ',');
		json_quote(run->Args.v[i], out);
	}
	buf_puts(out, "]}");
	return !out->failed;
}

static bool
set_all(struct docker *d)
{
	CURL *e = d->transfer.easy;
	char url[1200], *container = curl_easy_escape(e, d->container, 0);

	if (container == NULL)
		return false;
	if (d->step == CREATE)
		snprintf(url, sizeof(url), "http://docker/containers/%s/exec", container);
	else
		snprintf(url, sizeof(url), "http://docker/exec/%s/%s", d->exec, d->step == START ? "start" : "json");
	curl_free(container);
	buf_reset(&d->request);
	buf_reset(&d->reply);
	if (d->step == START)
		buf_puts(&d->request, "{\"Detach\":false,\"Tty\":false}");
	if (d->step == CREATE && !write_create(d))
		return false;
	if (d->headers == NULL)
		d->headers = curl_slist_append(NULL, "Content-Type: application/json");
	curl_easy_setopt(e, CURLOPT_URL, url);
	curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, d->run.check->checker->docker_socket);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http");
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, d->headers);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)mono_ms(run_left(&d->run)));
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, d);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, d->error);
	if (d->step != INSPECT) {
		curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)d->request.len);
		curl_easy_setopt(e, CURLOPT_POSTFIELDS, d->request.data);
	}
	return d->headers != NULL;
}

static void
send_step(struct docker *d, enum step step)
{
	struct curl_loop *l = d->run.check->checker->curl;

	d->step = step;
	d->error[0] = '\0';
	d->transfer.done = on_done;
	if (!transfer_init(l, &d->transfer, NULL) || !set_all(d) || !transfer_start(l, &d->transfer))
		FAIL(d, "out of memory");
}

/* -- a run -- */

static void
docker_begin(struct probe_run *r)
{
	struct docker *d = (struct docker *)r;

	d->request = BUF_INIT(REQUEST_BYTES_MAX);
	d->reply = BUF_INIT(REPLY_BYTES_MAX);
	tail_init(&d->output, r->check->output_max);
	if (!span_copy(r->check->def.Target, d->container, sizeof(d->container)))
		FAIL(d, "the name of the container is longer than 255 bytes");
	else
		send_step(d, CREATE);
}

const struct probe_kind probe_docker = { .name = "docker", .role = ROLE_DOCKER, .timeout = { 30000000000 },
	.size = sizeof(struct docker), .begin = docker_begin, .clear = docker_clear };
