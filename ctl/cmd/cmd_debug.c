/*
 * clusterctl debug: what helps to find out what is wrong with a node or a cluster, over some seconds, in one archive.
 * It has no secret in it: nothing that asks for keys is asked, the configuration names files of keys and not what is in
 * them, and what looks like a secret by its name is left out, as is the token that we were given.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/text/duration.h"
#include "ctl/child.h"
#include "ctl/ctl.h"
#include "ctl/tarball.h"

#define DURATION_S 10
#define INTERVAL_S 2
#define DURATION_MAX_S 3600
#define TIMEOUT_S 20
#define CAPTURES_MAX 1000
#define TEXT_BYTES_MAX (256u << 20)
#define HIDDEN "(hidden)"

struct debug {
	struct ctl *ctl;
	struct client_set *set;
	struct client *asker, *log;
	int signals;
	struct mono begin, duration, interval;
	struct tarball *tar;
	json_t *errors;			/* of what could not be had: sentences */
	unsigned captures;
	bool ends, broken;		/* a signal says so; the archive cannot be written */
	struct progress progress;
};

/* -- what is left out -- */

static bool
names_a_secret(const char *key)
{
	static const char *const parts[] = {
		"token", "secret", "password", "passwd", "private", "encrypt", "credential",
	};

	if (strcasecmp(key, "encryption") == 0)
		return false;			/* the stage of it */
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strcasestr(key, parts[i]) != NULL)
			return true;
	return false;
}

static void
hide_in(json_t *value)
{
	json_t *item;
	const char *key;
	size_t i;

	json_object_foreach(value, key, item) {
		if (names_a_secret(key) && json_is_string(item) && json_string_length(item) > 0)
			json_string_set(item, HIDDEN);
		else
			hide_in(item);
	}
	json_array_foreach(value, i, item)
		hide_in(item);
}

/* The token that we were given, wherever it is. */
static void
hide_token(const struct debug *d, struct span text, struct buf *out)
{
	const char *token = ctl_token(d->ctl);
	size_t n = token != NULL ? strlen(token) : 0;

	while (text.len > 0) {
		const uint8_t *at = n > 0 ? memmem(text.p, text.len, token, n) : NULL;
		size_t before = at != NULL ? (size_t)(at - text.p) : text.len;

		buf_put(out, text.p, before);
		buf_puts(out, at != NULL ? HIDDEN : "");
		text = span_of(text.p + before + (at != NULL ? n : 0), text.len - before - (at != NULL ? n : 0));
	}
}

/* Values of `name = value`, in what a daemon prints of its configuration. */
static void
hide_in_conf(struct span text, struct buf *out)
{
	while (text.len > 0) {
		const uint8_t *end = memchr(text.p, '\n', text.len), *eq;
		size_t n = end != NULL ? (size_t)(end - text.p) + 1 : text.len;
		char name[128];

		eq = memchr(text.p, '=', n);
		snprintf(name, sizeof(name), "%.*s", eq != NULL ? (int)(eq - text.p) : 0, (const char *)text.p);
		if (eq != NULL && text.p[0] != '#' && names_a_secret(name + strspn(name, " \t")) &&
		    strncmp(name, "encryption", 10) != 0)
			buf_printf(out, "%s= " HIDDEN "\n", name);
		else
			buf_put(out, text.p, n);
		text = span_of(text.p + n, text.len - n);
	}
}

/* -- the archive -- */

static void
add_file(struct debug *d, const char *name, struct span text)
{
	struct buf plain = BUF_INIT(TEXT_BYTES_MAX);

	hide_token(d, text, &plain);
	if (!d->broken && !tarball_add(d->tar, name, buf_span(&plain))) {
		(void)ctl_complain(d->ctl, "cannot write the archive: %s", strerror(errno));
		d->broken = d->ends = true;
	}
	buf_done(&plain);
}

static void
add_json(struct debug *d, const char *name, json_t *value)
{
	char *text;

	hide_in(value);
	text = json_dumps(value, JSON_INDENT(2) | JSON_ENCODE_ANY);
	if (text != NULL)
		add_file(d, name, span_str(text));
	free(text);
}

static void
note_error(struct debug *d, const char *name, const char *why)
{
	char *safe = out_safe(span_str(why));

	json_array_append_new(d->errors, json_sprintf("%s: %s", name, safe));
	free(safe);
}

/* -- captures -- */

/* Until the client's request has ended (NULL: for nothing), a signal, or `until`; true: it has ended. */
static bool
wait_until(struct debug *d, const struct client *c, struct mono until)
{
	while (!d->ends) {
		struct client *ended = client_next(d->set, d->signals, until);

		if (child_asked_to_end(d->signals) != 0)
			d->ends = true;
		if (ended != NULL && ended == c)
			return true;
		if (ended == NULL && until.ns != MONO_NEVER.ns && !mono_before(clock_mono(), until))
			break;
	}
	return false;
}

/* GETs JSON into the archive; false: no answer. */
static bool
capture(struct debug *d, const char *path, const char *name)
{
	struct client_answer a;
	json_t *value;
	char why[300];

	if (d->broken)
		return true;
	client_begin(d->set, d->asker, "GET", path, SPAN_NONE, TIMEOUT_S, &a);
	if (!wait_until(d, d->asker, MONO_NEVER))
		client_cancel(d->set, d->asker);
	value = json_loadb((const char *)a.body.data, a.body.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	bool good = a.status == 200 || a.status == 429;		/* of a cluster that is not well */
	if (good && value == NULL)			/* numbers larger than jansson's integers */
		value = json_loadb((const char *)a.body.data, a.body.len, JSON_DECODE_ANY | JSON_ALLOW_NUL |
		    JSON_DECODE_INT_AS_REAL, NULL);
	if (good && value != NULL) {
		add_json(d, name, value);
	} else if (!d->ends) {
		snprintf(why, sizeof(why), "%s", a.status == 0 ? a.error : buf_cstr(&a.body));
		note_error(d, name, why[0] != '\0' ? why : "refused");
	}
	json_decref(value);
	client_answer_done(&a);
	return a.status != 0 || d->ends;
}

static void
show(struct debug *d)
{
	progress_show(&d->progress, "debug: %lld of %lld s, %u captures",
	    (long long)mono_ms(mono_sub(clock_mono(), d->begin)) / 1000, (long long)mono_ms(d->duration) / 1000,
	    d->captures);
}

static void
capture_over_time(struct debug *d)
{
	struct mono end = mono_add(d->begin, d->duration), next = d->begin;
	char name[64];

	while (!d->ends && d->captures < CAPTURES_MAX) {
		snprintf(name, sizeof(name), "metrics/%04u.json", d->captures);
		(void)capture(d, "/v1/agent/metrics", name);
		snprintf(name, sizeof(name), "self/%04u.json", d->captures);
		(void)capture(d, "/v1/agent/self", name);
		d->captures++;
		next = mono_add(next, d->interval);
		if (!mono_before(next, end))
			next = end;
		while (!d->ends && mono_before(clock_mono(), next)) {
			show(d);
			(void)wait_until(d, NULL, mono_min(next, mono_add(clock_mono(), MONO_MS(500))));
		}
		if (!mono_before(clock_mono(), end))
			break;
	}
}

/* -- the configuration, as the daemons read it -- */

static void
add_conf(struct debug *d, const char *daemon, const char *dir)
{
	struct buf text = BUF_INIT(TEXT_BYTES_MAX), hidden = BUF_INIT(TEXT_BYTES_MAX);
	char path[4096], name[64];
	int fd = memfd_create("clusterctl", MFD_CLOEXEC), status = -1;
	pid_t pid = -1;

	snprintf(name, sizeof(name), "conf/%s.conf", daemon);
	if (fd >= 0 && ctl_daemon_path(daemon, path, sizeof(path)) && (pid = fork()) == 0) {
		if (dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0)
			execl(path, daemon, "-n", "-c", dir, (char *)NULL);
		_exit(127);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid && lseek(fd, 0, SEEK_SET) == 0)
		(void)file_read_fd(fd, &text);
	hide_in_conf(buf_span(&text), &hidden);
	if (text.len > 0)
		add_file(d, name, buf_span(&hidden));
	if (status != 0)
		note_error(d, name, "the daemon does not accept its configuration, or cannot be run");
	if (fd >= 0)
		close(fd);
	buf_done(&text);
	buf_done(&hidden);
}

/* Only what belongs to the node that is asked: it does when its socket is asked, or the folder is named. */
static void
add_confs(struct debug *d)
{
	static const char *const daemons[] = { "gossipd", "raftd", "rpcd" };
	const char *dir = ctl_opt(d->ctl, "config");

	if (dir == NULL && strncmp(client_addr(d->asker), "unix:", 5) == 0 && access(TV_SYSCONFDIR, R_OK | X_OK) == 0)
		dir = TV_SYSCONFDIR;
	for (size_t i = 0; dir != NULL && i < sizeof(daemons) / sizeof(daemons[0]); i++)
		add_conf(d, daemons[i], dir);
}

/* -- the command -- */

static void
collect(struct debug *d)
{
	static const struct { const char *path, *name; } once[] = {
		{ "/v1/agent/host", "host.json" }, { "/v1/agent/members", "members.json" },
		{ "/v1/agent/members?wan=1", "members-wan.json" }, { "/v1/agent/checks", "checks.json" },
		{ "/v1/status/leader", "leader.json" }, { "/v1/status/peers", "peers.json" },
		{ "/v1/operator/raft/configuration?stale", "raft.json" },
		{ "/v1/operator/autopilot/configuration?stale", "autopilot.json" },
		{ "/v1/operator/autopilot/health", "health.json" },
	};
	struct client_answer log;

	client_begin(d->set, d->log, "GET", "/v1/agent/monitor?loglevel=debug", SPAN_NONE, 2 * DURATION_MAX_S, &log);
	add_confs(d);
	for (size_t i = 0; i < sizeof(once) / sizeof(once[0]) && !d->ends; i++) {
		show(d);
		(void)capture(d, once[i].path, once[i].name);
	}
	d->begin = clock_mono();
	capture_over_time(d);
	if (!client_busy(d->log))
		note_error(d, "logs.txt", log.status != 0 ? "refused, or ended early" : log.error);
	client_cancel(d->set, d->log);
	add_file(d, "logs.txt", buf_span(&log.body));
	client_answer_done(&log);
}

static void
add_index(struct debug *d, const char *node)
{
	char stamp[64];
	time_t now = time(NULL);
	struct tm tm;
	json_t *index;

	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
	index = json_pack("{s:s,s:s,s:s,s:i,s:i,s:i,s:O}", "Node", node, "Time", stamp, "Version", TV_VERSION,
	    "Captures", (int)d->captures, "DurationSeconds", (int)(mono_ms(d->duration) / 1000), "IntervalMilliseconds",
	    (int)mono_ms(d->interval), "Errors", d->errors);
	add_json(d, "index.json", index);
	json_decref(index);
}

static int
print_result(struct debug *d, const char *file, uint64_t bytes)
{
	json_t *error;
	size_t i;

	if (d->ctl->json)
		return out_json_new(json_pack("{s:s,s:I,s:i,s:O}", "File", file, "Bytes", (json_int_t)bytes, "Captures",
		    (int)d->captures, "Errors", d->errors));
	json_array_foreach(d->errors, i, error)
		(void)ctl_complain(d->ctl, "without %s", json_string_value(error));
	printf("Wrote %s: %llu bytes, %u captures\n", file, (unsigned long long)bytes, d->captures);
	return 0;
}

/* Letters, digits, '-' and '_' of a node's name: it becomes the name of a file. */
static void
file_name(const char *node, char out[64])
{
	size_t n = 0;

	for (; *node != '\0' && n + 1 < 64; node++)
		out[n++] = (*node >= '0' && *node <= '9') || (*node >= 'A' && *node <= 'Z') ||
		    (*node >= 'a' && *node <= 'z') || *node == '-' ? *node : '_';
	out[n] = '\0';
}

static int
capture_all(struct debug *d, const char *node)
{
	char plain[64], folder[128], file[4096], stamp[32];
	const char *output = ctl_opt(d->ctl, "output");
	time_t now = time(NULL);
	struct tm tm;
	uint64_t bytes = 0;

	file_name(node, plain);
	strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
	snprintf(folder, sizeof(folder), "triumvir-debug-%.24s", plain);
	if (output != NULL)
		snprintf(file, sizeof(file), "%s", output);
	else
		snprintf(file, sizeof(file), "%s-%s.tar.gz", folder, stamp);
	d->tar = tarball_new(file, folder);
	if (d->tar == NULL)
		return ctl_complain(d->ctl, "%s: %s", file, strerror(errno));
	collect(d);
	progress_wipe(&d->progress);
	d->ends = d->broken;
	add_index(d, node);
	if (!tarball_end(d->tar, &bytes))
		return ctl_complain(d->ctl, "%s: %s", file, strerror(errno));
	return print_result(d, file, bytes);
}

/* A length of time within bounds; false after a sentence. */
static bool
time_option(const struct ctl *ctl, const char *name, int64_t least_ms, struct mono *out)
{
	const char *text = ctl_opt(ctl, name);

	if (text == NULL)
		return true;
	if (duration_parse(span_str(text), &out->ns) == TV_OK && mono_ms(*out) >= least_ms &&
	    mono_ms(*out) <= DURATION_MAX_S * 1000)
		return true;
	return ctl_false(ctl, "--%s: \"%s\" is no length of time from %s to 1h, such as 30s", name, text,
	    least_ms < 1000 ? "100ms" : "1s");
}

int
cmd_debug(struct ctl *ctl)
{
	struct debug d = { .ctl = ctl, .begin = clock_mono(), .duration = MONO_S(DURATION_S),
		.interval = MONO_S(INTERVAL_S) };
	json_t *self;
	int rc = 1;

	if (!time_option(ctl, "duration", 1000, &d.duration) || !time_option(ctl, "interval", 100, &d.interval))
		return 2;
	if ((self = ctl_get(ctl, "/v1/agent/self")) == NULL)
		return 1;
	d.signals = child_signals();
	d.set = client_set_new();
	d.asker = ctl_new_client(ctl);
	d.log = ctl_new_client(ctl);
	d.errors = json_array();
	progress_init(&d.progress);
	rc = capture_all(&d, json_text_at(self, "Config.NodeName"));
	json_decref(d.errors);
	json_decref(self);
	client_free(d.asker);
	client_free(d.log);
	client_set_free(d.set);
	close(d.signals);
	return rc;
}
