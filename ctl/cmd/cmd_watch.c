/*
 * clusterctl watch: runs a handler whenever what a question answers changes.  Blocking queries tell of that; what a
 * handler gets, and when, is as with `consul watch`.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "ctl/child.h"
#include "ctl/ctl.h"

#define WAIT_S 300			/* of one blocking query; as much as a sixteenth more by chance */
#define TIMEOUT_S (WAIT_S + WAIT_S / 16 + 30)
#define FIRST_TIMEOUT_S 30
#define HTTP_TIMEOUT_S 10		/* of a handler's URL, as with Consul */
#define BACKOFF_MS 500
#define BACKOFF_MAX_MS 30000
#define QUICK_MS 100			/* an answer without news that comes sooner is followed by a pause */
#define PATH_BYTES_MAX (256u << 10)
#define ANSWER_BYTES_MAX (256u << 20)

struct kind {
	const char *name, *path;
	const char *subject;		/* the option that the path ends in; NULL: none */
	const char *options;		/* " OPTION OPTION ": those it takes besides */
	bool one;			/* the answer is a list of one, or 404 */
	bool events;
};

static const struct kind kinds[] = {
	{ "key", "/v1/kv/", "key", " ", true, false },
	{ "keyprefix", "/v1/kv/", "prefix", " ", false, false },
	{ "services", "/v1/catalog/services", NULL, " ", false, false },
	{ "nodes", "/v1/catalog/nodes", NULL, " ", false, false },
	{ "service", "/v1/health/service/", "service", " tag passing ", false, false },
	{ "checks", "/v1/health/", NULL, " service state ", false, false },
	{ "event", "/v1/event/list", NULL, " name ", false, true },
};

struct watch {
	struct ctl *ctl;
	const struct kind *kind;
	struct buf path;
	struct client_set *set;
	struct client *hook;		/* where --http posts; or NULL */
	int signals;
	char *const *argv;		/* a command; or NULL */
	uint64_t index;			/* of the last answer; 0: it begins anew */
	struct buf last;		/* what a handler got last; empty: nothing yet */
	char *last_event;		/* ID of the newest that a handler got, or NULL */
	unsigned failures;		/* in a row */
	bool ends;			/* a signal says so */
	int status;			/* exit status, when it ends */
};

/* -- what is asked -- */

static int
wrong(const char *text)
{
	fprintf(stderr, "clusterctl: watch: %s\n", text);
	return CTL_WRONG_CALL;
}

static const struct kind *
kind_named(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

/* Options of another type would be passed over: they are told.  0, or the exit status. */
static int
options_fit(const struct ctl *ctl, const struct kind *k)
{
	static const char *const names[] = { "key", "prefix", "service", "tag", "passing", "state", "name" };
	char text[128], word[32];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		bool subject = k->subject != NULL && strcmp(k->subject, names[i]) == 0;

		snprintf(word, sizeof(word), " %s ", names[i]);
		snprintf(text, sizeof(text), "--type %s %s --%s", k->name, subject ? "needs" : "has no", names[i]);
		if (subject ? ctl_opt(ctl, names[i]) == NULL || ctl_opt(ctl, names[i])[0] == '\0' :
		    ctl_opt(ctl, names[i]) != NULL && strstr(k->options, word) == NULL)
			return wrong(text);
	}
	if (strcmp(k->name, "checks") == 0 && ctl_opt(ctl, "service") != NULL && ctl_opt(ctl, "state") != NULL)
		return wrong("--type checks takes --service or --state, not both");
	return 0;
}

/* A key begins with no slash. */
static const char *
subject_of(const struct ctl *ctl, const struct kind *k)
{
	const char *value = ctl_opt(ctl, k->subject);

	return strncmp(k->path, "/v1/kv/", 7) == 0 ? value + strspn(value, "/") : value;
}

static void
make_path(const struct ctl *ctl, const struct kind *k, struct buf *path)
{
	const char *service = ctl_opt(ctl, "service"), *state = ctl_opt(ctl, "state");

	buf_puts(path, k->path);
	if (k->subject != NULL)
		client_encode(path, subject_of(ctl, k), strncmp(k->path, "/v1/kv/", 7) == 0);
	if (strcmp(k->name, "checks") == 0) {
		buf_puts(path, service != NULL ? "checks/" : "state/");
		client_encode(path, service != NULL ? service : state != NULL ? state : "any", false);
	}
	if (strcmp(k->name, "keyprefix") == 0)
		ctl_param(path, "recurse", "");
	ctl_params(ctl, path);
}

/* -- waiting for signals and other things -- */

/* Waits until the client's request has ended (NULL: for nothing) or it is `until`; false: we are to end. */
static bool
wait_for(struct watch *w, const struct client *c, struct mono until)
{
	while (!w->ends) {
		if (client_next(w->set, w->signals, until) == c && c != NULL)
			return true;
		if (child_asked_to_end(w->signals) != 0)
			w->ends = true;
		else if (c == NULL && !mono_before(clock_mono(), until))
			return true;
	}
	return false;
}

/* Waits longer after each failure, and not as long as others that saw the same. */
static void
back_off(struct watch *w)
{
	unsigned doublings = w->failures < 6 ? w->failures : 6;
	int64_t ms = BACKOFF_MS << doublings;

	ms = ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
	ms -= clock_mono().ns / 1000 % (ms / 4);
	w->failures++;
	(void)wait_for(w, NULL, mono_add(clock_mono(), MONO_MS(ms)));
}

/* -- handlers -- */

/* Waits for the end of a command, and brings it about when we are to end. */
static void
see_it_end(struct watch *w, pid_t pid)
{
	struct mono kill_at = MONO_NEVER;
	int status = 0;

	while (!child_ended(pid, &status)) {
		(void)client_next(w->set, w->signals, kill_at);
		if (child_asked_to_end(w->signals) != 0 && !w->ends) {
			w->ends = true;
			child_kill(pid, SIGTERM);
			kill_at = mono_add(clock_mono(), MONO_S(CHILD_GRACE_S));
		} else if (!mono_before(clock_mono(), kill_at)) {
			child_kill(pid, SIGKILL);
			kill_at = MONO_NEVER;
		}
	}
	if (w->ends)
		child_kill(pid, SIGKILL);	/* what it left behind */
	else
		child_tell("watch", status);
}

static void
run_command(struct watch *w, struct span input)
{
	char consul[64], own[64], *variables[] = { consul, own, NULL };
	int in = child_input(input);
	pid_t pid = -1;

	snprintf(consul, sizeof(consul), "CONSUL_INDEX=%" PRIu64, w->index);
	snprintf(own, sizeof(own), "TRIUMVIR_INDEX=%" PRIu64, w->index);
	if (in >= 0)
		pid = child_start(&(struct child_spec){ .argv = w->argv, .variables = variables, .in = in });
	if (pid < 0)
		(void)ctl_complain(w->ctl, "cannot run the command: %s", strerror(errno));
	else
		see_it_end(w, pid);
	if (in >= 0)
		close(in);
}

static void
post(struct watch *w, struct span input)
{
	struct client_answer a;
	char index[32];

	snprintf(index, sizeof(index), "%" PRIu64, w->index);
	client_set_header(w->hook, "X-Consul-Index", index);
	client_begin(w->set, w->hook, "POST", "", input, HTTP_TIMEOUT_S, &a);
	if (!wait_for(w, w->hook, MONO_NEVER))
		client_cancel(w->set, w->hook);
	else if (a.status == 0)
		(void)ctl_complain(w->ctl, "no answer from the URL of --http: %s", a.error);
	else if (a.status < 200 || a.status >= 300)
		(void)ctl_complain(w->ctl, "the URL of --http answered with HTTP status %ld", a.status);
	client_answer_done(&a);
}

static json_t *
parse(struct span text)
{
	json_error_t why;

	return client_json(text, &why);
}

/* Numbers that jansson has no place for stay as they came, and so does the text. */
static void
print(struct span text)
{
	json_t *value = parse(text);

	if (value != NULL)
		out_json(value);
	else
		printf("%.*s\n", (int)text.len, (const char *)text.p);
	json_decref(value);
}

/* Without a handler the answer is printed, and that was it. */
static void
hand_over(struct watch *w, struct span text)
{
	if (w->argv != NULL) {
		run_command(w, text);
	} else if (w->hook != NULL) {
		post(w, text);
	} else {
		print(text);
		w->ends = true;
	}
}

/* -- answers -- */

/* Of events only those that are newer than what the handler got: all of them when that is not among them. */
static json_t *
news_of(struct watch *w, json_t *list)
{
	json_t *news = json_array(), *event;
	size_t i, from = 0;

	json_array_foreach(list, i, event)
		if (w->last_event != NULL && strcmp(json_text(event, "ID"), w->last_event) == 0)
			from = i + 1;
	for (i = from; i < json_array_size(list); i++)
		json_array_append(news, json_array_get(list, i));
	if (json_array_size(list) > 0) {
		free(w->last_event);
		w->last_event = strdup(json_text(json_array_get(list, json_array_size(list) - 1), "ID"));
	}
	return news;
}

static void
take_events(struct watch *w, struct span text)
{
	json_t *list = parse(text), *news = news_of(w, list);
	char *dump = json_dumps(news, JSON_COMPACT);
	bool first = w->last.len == 0;

	buf_puts(&w->last, first ? "seen" : "");
	if (dump != NULL && (first || json_array_size(news) > 0))
		hand_over(w, span_str(dump));
	free(dump);
	json_decref(news);
	json_decref(list);
}

/* A server need not write the members of a map in the same order again. */
static bool
is_same(struct span a, struct span b)
{
	json_t *x, *y;
	bool same;

	if (span_eq(a, b))
		return true;
	x = parse(a);
	y = parse(b);
	same = x != NULL && y != NULL && json_equal(x, y);
	json_decref(x);
	json_decref(y);
	return same;
}

static void
take_value(struct watch *w, struct span text)
{
	if (w->kind->events) {
		take_events(w, text);
	} else if (!is_same(buf_span(&w->last), text)) {
		buf_reset(&w->last);
		buf_putspan(&w->last, text);
		hand_over(w, text);
	}
}

/* The JSON of an answer, with null for what is not there, and without the brackets of a list of one; empty: none. */
static struct span
value_of(const struct watch *w, const struct client_answer *a)
{
	struct span text = buf_span(&a->body);

	if (a->index == 0)
		return SPAN_NONE;
	if (a->status == 404 && strncmp(w->kind->path, "/v1/kv/", 7) == 0)
		return span_str("null");
	if (a->status != 200)
		return SPAN_NONE;
	while (text.len > 0 && text.p[text.len - 1] == '\n')
		text.len--;
	if (w->kind->one && text.len > 2 && text.p[0] == '[')
		text = span_of(text.p + 1, text.len - 2);
	return text;
}

/* May the same question be answered later?  Refusals of what was asked are for good. */
static bool
may_pass(const struct client_answer *a)
{
	return a->status == 0 || a->status == 429 || a->status == 403 || a->status >= 500;
}

/* What is no answer: tells it once in a row, and waits; or that is the end. */
static void
on_failure(struct watch *w, const struct client_answer *a)
{
	bool handled = w->argv != NULL || w->hook != NULL;

	if (!handled || !may_pass(a) || client_late(w->ctl->client)) {
		w->status = client_complain(w->ctl->client, "watch", a);
		w->ends = true;
		return;
	}
	if (w->failures == 0) {
		client_complain(w->ctl->client, "watch", a);
		(void)ctl_complain(w->ctl, "trying again");
	}
	w->index = 0;
	back_off(w);
}

/* An index that went back means another history: it begins anew.  That of events has no order. */
static void
step(struct watch *w, const struct client_answer *a, struct mono asked)
{
	struct span text = value_of(w, a);
	uint64_t before = w->index;

	if (text.len == 0) {
		on_failure(w, a);
		return;
	}
	if (w->failures > 0)
		(void)ctl_complain(w->ctl, "answered again");
	w->failures = 0;
	w->index = a->index;
	if (before != a->index)
		take_value(w, text);
	else if (mono_before(clock_mono(), mono_add(asked, MONO_MS(QUICK_MS))))
		(void)wait_for(w, NULL, mono_add(clock_mono(), MONO_MS(BACKOFF_MS)));
	if (a->index < before && !w->kind->events)
		w->index = 0;
}

static void
follow(struct watch *w)
{
	struct client *c = ctl_client(w->ctl);
	struct client_answer a;
	struct buf path = BUF_INIT(PATH_BYTES_MAX);

	while (!w->ends) {
		struct mono asked = clock_mono();

		buf_reset(&path);
		buf_putspan(&path, buf_span(&w->path));
		if (w->index > 0)
			buf_printf(&path, "%cindex=%" PRIu64 "&wait=%ds", memchr(path.data, '?', path.len) != NULL ?
			    '&' : '?', w->index, WAIT_S);
		client_begin(w->set, c, "GET", buf_cstr(&path), SPAN_NONE, w->index > 0 ? TIMEOUT_S : FIRST_TIMEOUT_S,
		    &a);
		if (wait_for(w, c, MONO_NEVER))
			step(w, &a, asked);
		client_cancel(w->set, c);
		client_answer_done(&a);
	}
	buf_done(&path);
}

int
cmd_watch(struct ctl *ctl)
{
	const char *type = ctl_opt(ctl, "type"), *url = ctl_opt(ctl, "http"), *exec = ctl_opt(ctl, "exec");
	char *shell[] = { (char *)(uintptr_t)exec, NULL };
	struct watch w = { .ctl = ctl, .path = BUF_INIT(PATH_BYTES_MAX), .last = BUF_INIT(ANSWER_BYTES_MAX) };
	int rc;

	if (type == NULL || (w.kind = kind_named(type)) == NULL)
		return wrong(type == NULL ? "--type is needed" : "--type: there is no such type");
	if ((rc = options_fit(ctl, w.kind)) != 0)
		return rc;
	if ((exec != NULL) + (url != NULL) + (ctl->argc > 0) > 1)
		return wrong("a handler is --exec, --http or a command: one of them");
	if (url != NULL && strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
		return wrong("--http: write http://... or https://...");
	make_path(ctl, w.kind, &w.path);
	w.argv = exec != NULL ? shell : ctl->argc > 0 ? ctl->argv : NULL;
	w.hook = url != NULL ? client_new_url(url) : NULL;
	w.signals = child_signals();
	w.set = client_set_new();
	client_keep_bytes(ctl_client(ctl), true);
	follow(&w);
	client_set_free(w.set);
	client_free(w.hook);
	close(w.signals);
	buf_done(&w.last);
	free(w.last_event);
	buf_done(&w.path);
	return w.status;
}
