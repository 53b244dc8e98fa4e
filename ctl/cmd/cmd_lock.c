/*
 * clusterctl lock: runs a command while it holds a lock, or one of the places of a semaphore.
 *
 * The promise: no other process holds the lock while the command runs.  The session that holds it ends at the earliest
 * SESSION_TTL_S after the last renewal that a server has seen, and renewals count from when they were sent; the command
 * is asked to end LOST_AFTER_S after that and killed CHILD_GRACE_S later, which is before.  So it does not rest on lock
 * delays, which a new leader does not know.  What a stopped machine does when it wakes cannot be promised: that is what
 * TRIUMVIR_FENCE is for.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/text/duration.h"
#include "ctl/child.h"
#include "ctl/ctl.h"
#include "ctl/lock_rules.h"

#define SESSION_TTL_S 15		/* Consul's */
#define LOST_AFTER_S (SESSION_TTL_S - CHILD_GRACE_S)
#define RENEW_S 4
#define RENEW_TIMEOUT_S 4
#define RETRY MONO_MS(500)		/* of a renewal, and of a question that was not answered */
#define WAIT_S 15			/* of one blocking query */
#define TIMEOUT_S 30
#define DELAY_LOOK MONO_S(1)		/* a lock delay ends without a word */
#define RELEASE_TIMEOUT_S 5
#define RELEASE_TRIES 4
#define MONITOR_PAUSE MONO_S(1)
#define MONITOR_RETRIES 3		/* Consul's */
#define PLACES_MAX 10000
#define PATH_BYTES_MAX (1u << 20)
#define UUID_BYTES 36

struct lock {
	struct ctl *ctl;
	struct client_set *set;
	struct client *asker, *renewer;
	int signals;
	json_int_t places;		/* 1: a lock */
	char *prefix;			/* without slashes around it */
	char *key;			/* PREFIX/.lock */
	char *name;			/* of the session */
	long monitor_retries;
	struct mono give_up;		/* of waiting for it */
	/* The session. */
	char session[UUID_BYTES + 1];	/* "": none */
	struct mono renewed;		/* when the last renewal that was answered had been sent */
	struct mono renew_at, renew_sent;
	struct client_answer renewal;
	struct buf renew_path;
	bool gone;			/* it has ended */
	/* What the lock is. */
	struct lock_view view;
	uint64_t index;			/* of what was read last */
	int asked_to_end;		/* the signal; 0: none */
	bool told;			/* that something does not answer */
	bool told_waiting;
	bool refused;			/* a write, for good */
	unsigned denials;		/* of a lock that was free, in a row */
	struct progress progress;
};

enum outcome { GOT, NOT_GOT, AGAIN };

/* -- the session, and what is asked beside it -- */

static void
path_of(const struct lock *l, struct buf *path, const char *last, const char *query)
{
	buf_puts(path, "/v1/kv/");
	client_encode(path, l->prefix, true);
	buf_u8(path, '/');
	client_encode(path, last, true);
	buf_puts(path, query);
}

/* What came of a renewal. */
static void
take_renewal(struct lock *l)
{
	long status = l->renewal.status;

	client_answer_done(&l->renewal);
	if (status == 200)
		l->renewed = l->renew_sent;
	l->gone = l->gone || status == 404;
	l->renew_at = mono_add(status == 200 ? l->renew_sent : clock_mono(), status == 200 ? MONO_S(RENEW_S) : RETRY);
}

static void
renew_when_due(struct lock *l)
{
	if (l->session[0] == '\0' || l->gone || client_busy(l->renewer) || mono_before(clock_mono(), l->renew_at))
		return;
	l->renew_sent = clock_mono();
	buf_reset(&l->renew_path);
	buf_printf(&l->renew_path, "/v1/session/renew/%s", l->session);
	client_begin(l->set, l->renewer, "PUT", buf_cstr(&l->renew_path), SPAN_NONE, RENEW_TIMEOUT_S, &l->renewal);
}

/*
 * Waits until the request of the asker has ended (true), or for a signal, a renewal or `until` at most (false).  Keeps
 * the session alive meanwhile.
 */
static bool
turn(struct lock *l, struct mono until)
{
	struct client *c;
	int sig;

	renew_when_due(l);
	if (l->session[0] != '\0' && !l->gone && !client_busy(l->renewer))
		until = mono_min(until, l->renew_at);
	c = client_next(l->set, l->signals, until);
	if (c == l->renewer)
		take_renewal(l);
	if ((sig = child_asked_to_end(l->signals)) != 0)
		l->asked_to_end = sig;
	return c == l->asker;
}

/* Is it over with waiting? */
static bool
is_over(const struct lock *l)
{
	return l->asked_to_end != 0 || l->gone || !mono_before(clock_mono(), l->give_up);
}

static void
pause_for(struct lock *l, struct mono time)
{
	struct mono until = mono_add(clock_mono(), time);

	while (!is_over(l) && mono_before(clock_mono(), until))
		(void)turn(l, mono_min(until, l->give_up));
}

/* One question; *a is to be freed.  False: it is over, or no answer came. */
static bool
ask_agent(struct lock *l, const char *method, const struct buf *path, struct span body, struct client_answer *a)
{
	bool ended = false;

	client_begin(l->set, l->asker, method, buf_cstr((struct buf *)(uintptr_t)path), body, TIMEOUT_S, a);
	while (!ended && !is_over(l))
		ended = turn(l, l->give_up);
	client_cancel(l->set, l->asker);
	return ended && a->status != 0;
}

static json_t *
body_of(const struct client_answer *a)
{
	return a->status != 200 ? NULL : json_loadb((const char *)a->body.data, a->body.len,
	    JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
}

static bool
is_true(const struct client_answer *a)
{
	return a->status == 200 && span_eqs(buf_span(&a->body), "true");
}

/*
 * An answer that was none: what refuses for good ends all, as does an agent that was never there.  Else waits a moment
 * (false: it is over).
 */
static bool
may_try_again(struct lock *l, const struct client_answer *a)
{
	bool for_good = a->status >= 400 && a->status < 500 && a->status != 429;

	if (is_over(l))
		return false;
	if (for_good || (a->status == 0 && l->session[0] == '\0')) {
		client_complain(l->asker, "lock", a);
		return false;
	}
	if (!l->told) {
		progress_wipe(&l->progress);
		client_complain(l->asker, "lock", a);
		(void)ctl_complain(l->ctl, "trying again");
	}
	l->told = true;
	pause_for(l, RETRY);
	return !is_over(l);
}

static enum outcome
make_session(struct lock *l)
{
	struct buf path = BUF_INIT(64);
	json_t *wanted = json_pack("{s:s,s:o}", "Name", l->name, "TTL", json_sprintf("%ds", SESSION_TTL_S)), *made;
	char *body = json_dumps(wanted, JSON_COMPACT);
	struct client_answer a;
	enum outcome done = NOT_GOT;

	l->session[0] = '\0';
	l->gone = false;
	buf_puts(&path, "/v1/session/create");
	do {
		l->renewed = clock_mono();
		(void)ask_agent(l, "PUT", &path, span_str(body != NULL ? body : ""), &a);
		made = body_of(&a);
		if (strlen(json_text(made, "ID")) == UUID_BYTES) {
			memcpy(l->session, json_text(made, "ID"), UUID_BYTES + 1);
			l->renew_at = mono_add(l->renewed, MONO_S(RENEW_S));
			done = GOT;
		}
		json_decref(made);
		if (done != GOT)
			done = may_try_again(l, &a) ? AGAIN : NOT_GOT;
		client_answer_done(&a);
	} while (done == AGAIN);
	free(body);
	json_decref(wanted);
	buf_done(&path);
	return done;
}

/* -- acquiring -- */

static void
view_done(struct lock *l)
{
	json_decref(l->view.value);
	l->view = (struct lock_view){ .holder = "" };
}

/* Reads an answer of the key or the prefix into l->view; false: it was none. */
static bool
look_at(struct lock *l, const struct client_answer *a, char holder[UUID_BYTES + 1])
{
	json_t *entries = body_of(a);

	if ((a->status != 200 || entries == NULL) && a->status != 404) {
		json_decref(entries);
		return false;
	}
	view_done(l);
	if (l->places == 1)
		lock_look(entries, l->session, &l->view);
	else
		semaphore_look(entries, l->key, l->session, l->places, &l->view);
	snprintf(holder, UUID_BYTES + 1, "%s", l->view.holder);
	l->view.holder = "";
	json_decref(entries);
	/* An index that went back begins anew. */
	l->index = a->index < l->index ? 0 : a->index;
	return true;
}

/* The question after the key, or the prefix; it waits for a change when there is an index. */
static void
put_question(const struct lock *l, struct buf *path)
{
	path_of(l, path, l->places == 1 ? LOCK_KEY : "", l->places == 1 ? "?consistent" : "?recurse&consistent");
	if (l->index > 0)
		buf_printf(path, "&index=%" PRIu64 "&wait=%ds", l->index, WAIT_S);
}

static bool
read_lock(struct lock *l, char holder[UUID_BYTES + 1], bool *again)
{
	struct buf path = BUF_INIT(PATH_BYTES_MAX);
	struct client_answer a;
	bool good;

	put_question(l, &path);
	good = ask_agent(l, "GET", &path, SPAN_NONE, &a) && look_at(l, &a, holder);
	*again = !good && may_try_again(l, &a);
	if (!good)
		l->index = 0;
	client_answer_done(&a);
	buf_done(&path);
	return good;
}

/*
 * A write whose answer is true (GOT) or false (NOT_GOT); AGAIN: there was none, and whether it was done is to be looked
 * at; l->refused: it will not be.
 */
static enum outcome
put_key(struct lock *l, const char *last, const char *query, struct span body)
{
	struct buf path = BUF_INIT(PATH_BYTES_MAX);
	struct client_answer a;
	enum outcome done = AGAIN;

	path_of(l, &path, last, query);
	(void)ask_agent(l, "PUT", &path, body, &a);
	if (a.status == 200) {
		done = is_true(&a) ? GOT : NOT_GOT;
	} else {
		l->renew_at = clock_mono();		/* the session may be the reason */
		l->refused = !may_try_again(l, &a);
	}
	client_answer_done(&a);
	buf_done(&path);
	return done;
}

static void
explain_conflict(const struct lock *l)
{
	if (l->view.verdict == LOCK_OTHER_LIMIT)
		(void)ctl_complain(l->ctl, "the semaphore at %s has %" JSON_INTEGER_FORMAT " places, not %"
		    JSON_INTEGER_FORMAT ": all must give the same --n", l->prefix, l->view.limit, l->places);
	else
		(void)ctl_complain(l->ctl, "the key %s is used for something else, or for a %s", l->key,
		    l->places == 1 ? "semaphore" : "lock");
}

/* On a terminal all the time, else once. */
static void
show_waiting(struct lock *l, const char *holder)
{
	if (!l->progress.tty && l->told_waiting)
		return;
	l->told_waiting = true;
	l->progress.last_ns = 0;
	if (l->places > 1)
		progress_show(&l->progress, "lock: waiting for a place of %s", l->prefix);
	else if (holder[0] != '\0')
		progress_show(&l->progress, "lock: waiting for %s, which session %s holds", l->prefix, holder);
	else
		progress_show(&l->progress, "lock: waiting for the lock delay of %s", l->prefix);
}

/* One try to take what is free; what came of it is seen when it is looked at again. */
static void
try_lock(struct lock *l)
{
	char query[128];

	snprintf(query, sizeof(query), "?acquire=%s&flags=%" PRIu64, l->session, LOCK_FLAGS);
	l->index = 0;
	if (put_key(l, LOCK_KEY, query, SPAN_NONE) != NOT_GOT || l->denials++ == 0)
		return;
	/* Free, and refused twice in a row. */
	show_waiting(l, "");
	pause_for(l, DELAY_LOOK);
}

static void
try_semaphore(struct lock *l)
{
	char query[128], *body = json_dumps(l->view.value, JSON_COMPACT);

	snprintf(query, sizeof(query), "?cas=%" PRIu64 "&flags=%" PRIu64, l->view.modify_index, SEMAPHORE_FLAGS);
	l->index = 0;
	if (body != NULL)
		(void)put_key(l, LOCK_KEY, query, span_str(body));
	free(body);
}

/* An entry of our own, which says as long as the session lives that we do. */
static enum outcome
make_contender(struct lock *l)
{
	char query[128];

	snprintf(query, sizeof(query), "?acquire=%s&flags=%" PRIu64, l->session, SEMAPHORE_FLAGS);
	while (put_key(l, l->session, query, SPAN_NONE) != GOT) {
		if (is_over(l) || l->refused)
			return NOT_GOT;
		pause_for(l, RETRY);
	}
	return GOT;
}

static void
stop_renewing(struct lock *l)
{
	if (!client_busy(l->renewer))
		return;
	client_cancel(l->set, l->renewer);
	client_answer_done(&l->renewal);
}

/* One session long. */
static enum outcome
contend(struct lock *l)
{
	char holder[UUID_BYTES + 1];
	enum outcome done = AGAIN;
	bool again = true;

	l->index = 0;
	stop_renewing(l);
	if (make_session(l) != GOT || (l->places > 1 && make_contender(l) != GOT))
		return l->gone && !l->refused ? AGAIN : NOT_GOT;
	while (done == AGAIN && !l->gone && !l->refused && l->asked_to_end == 0) {
		if (!read_lock(l, holder, &again)) {
			if (!again && !l->gone)
				done = NOT_GOT;
			continue;
		}
		switch (l->view.verdict) {
		case LOCK_HELD:
			done = GOT;
			break;
		case LOCK_FREE:
			if (l->places == 1)
				try_lock(l);
			else
				try_semaphore(l);
			break;
		case LOCK_TAKEN:
			l->denials = 0;
			show_waiting(l, holder);
			break;
		default:
			explain_conflict(l);
			done = NOT_GOT;
		}
	}
	return l->gone ? AGAIN : done == GOT ? GOT : NOT_GOT;
}

/* A session may end while we wait: then with the next one. */
static bool
acquire(struct lock *l)
{
	enum outcome done = contend(l);

	while (done == AGAIN && l->asked_to_end == 0 && mono_before(clock_mono(), l->give_up))
		done = contend(l);
	progress_wipe(&l->progress);
	return done == GOT;
}

/* -- holding -- */

struct monitor {
	struct client_answer answer;
	struct buf path;
	struct mono again_at;		/* when nothing is under way */
	long failures;			/* in a row */
};

/* Takes an answer; NULL, or why the lock is lost. */
static const char *
take_look(struct lock *l, struct monitor *m)
{
	char holder[UUID_BYTES + 1];
	bool good = look_at(l, &m->answer, holder);

	client_answer_done(&m->answer);
	m->again_at = clock_mono();
	if (good && l->view.verdict != LOCK_HELD)
		return "another one may hold it now";
	m->failures = good ? 0 : m->failures + 1;
	if (m->failures > l->monitor_retries)
		return "nobody says whether it is still held";
	if (!good) {
		l->index = 0;
		m->again_at = mono_add(clock_mono(), MONITOR_PAUSE);
	}
	return NULL;
}

static void
look_on(struct lock *l, struct monitor *m)
{
	if (client_busy(l->asker) || mono_before(clock_mono(), m->again_at))
		return;
	buf_reset(&m->path);
	put_question(l, &m->path);
	client_begin(l->set, l->asker, "GET", buf_cstr(&m->path), SPAN_NONE, TIMEOUT_S, &m->answer);
}

/* Waits for the end of the command, and brings that about; all of its group is gone then. */
static int
end_command(struct lock *l, pid_t pid)
{
	struct mono kill_at = mono_add(clock_mono(), MONO_S(CHILD_GRACE_S));
	bool ended = false;
	int status = 0;

	child_kill(pid, SIGTERM);
	while (!(ended = ended || child_ended(pid, &status)) || child_group_lives(pid)) {
		if (!mono_before(clock_mono(), kill_at)) {
			child_kill(pid, SIGKILL);
			if (ended)
				break;		/* what is left of the group is being killed */
		}
		(void)turn(l, mono_add(clock_mono(), MONO_MS(ended ? 20 : 200)));
	}
	return status;
}

/* Runs the command as long as the lock is held; its wait(2) status.  *lost: why it had to end, or NULL. */
static int
hold(struct lock *l, pid_t pid, const char **lost)
{
	struct monitor m = { .path = BUF_INIT(PATH_BYTES_MAX), .again_at = clock_mono() };
	int status = 0;
	bool ended = false;

	*lost = NULL;
	while (*lost == NULL && l->asked_to_end == 0 && !(ended = child_ended(pid, &status))) {
		struct mono deadline = mono_add(l->renewed, MONO_S(LOST_AFTER_S));

		look_on(l, &m);
		if (turn(l, client_busy(l->asker) ? deadline : mono_min(deadline, m.again_at)))
			*lost = take_look(l, &m);
		deadline = mono_add(l->renewed, MONO_S(LOST_AFTER_S));
		if (l->gone)
			*lost = "its session has ended";
		else if (!mono_before(clock_mono(), deadline))
			*lost = "its session could not be renewed";
	}
	if (client_busy(l->asker)) {
		client_cancel(l->set, l->asker);
		client_answer_done(&m.answer);
	}
	if (*lost != NULL)
		(void)ctl_complain(l->ctl, "%s is lost: %s; ending the command", l->prefix, *lost);
	if (!ended)
		status = end_command(l, pid);
	buf_done(&m.path);
	return status;
}

static pid_t
start_child(struct lock *l)
{
	struct buf vars[4] = { BUF_INIT(256), BUF_INIT(PATH_BYTES_MAX), BUF_INIT(256), BUF_INIT(256) };
	char held[] = "CONSUL_LOCK_HELD=true", *variables[] = { held, NULL, NULL, NULL, NULL, NULL };
	bool passes = ctl_opt(l->ctl, "pass-stdin") != NULL;
	pid_t pid;

	/* The index of the entry grows with each holder, also when the entry was deleted in between. */
	buf_printf(&vars[0], "TRIUMVIR_FENCE=%" PRIu64, l->view.modify_index);
	buf_printf(&vars[1], "TRIUMVIR_LOCK_KEY=%s", l->key);
	buf_printf(&vars[2], "TRIUMVIR_LOCK_SESSION=%s", l->session);
	buf_printf(&vars[3], "TRIUMVIR_LOCK_INDEX=%" PRIu64, l->view.lock_index);
	for (int i = 0; i < 4; i++)
		variables[i + 1] = (char *)(uintptr_t)buf_cstr(&vars[i]);
	pid = child_start(&(struct child_spec){ .argv = l->ctl->argv + 1, .variables = variables,
	    .in = passes ? STDIN_FILENO : -1, .terminal = passes });
	if (pid < 0)
		(void)ctl_complain(l->ctl, "cannot run the command: %s", strerror(errno));
	for (int i = 0; i < 4; i++)
		buf_done(&vars[i]);
	return pid;
}

/* -- releasing: what of it does not work ends with the session, or stays for the next holder -- */

static bool
quick(struct lock *l, const char *method, const struct buf *path, struct span body, struct client_answer *a)
{
	return client_do(l->asker, method, buf_cstr((struct buf *)(uintptr_t)path), body, RELEASE_TIMEOUT_S, a);
}

/* One write or deletion; did it say true? */
static bool
change(struct lock *l, const char *method, const char *last, const char *query, struct span body)
{
	struct buf path = BUF_INIT(PATH_BYTES_MAX);
	struct client_answer a;
	bool done;

	path_of(l, &path, last, query);
	(void)quick(l, method, &path, body, &a);
	done = is_true(&a);
	client_answer_done(&a);
	buf_done(&path);
	return done;
}

static bool
look_quickly(struct lock *l)
{
	struct buf path = BUF_INIT(PATH_BYTES_MAX);
	char holder[UUID_BYTES + 1];
	struct client_answer a;
	bool good;

	l->index = 0;
	put_question(l, &path);
	(void)quick(l, "GET", &path, SPAN_NONE, &a);
	good = look_at(l, &a, holder);
	l->index = 0;
	client_answer_done(&a);
	buf_done(&path);
	return good;
}

static bool
release_lock(struct lock *l)
{
	char query[128];

	snprintf(query, sizeof(query), "?release=%s&flags=%" PRIu64, l->session, LOCK_FLAGS);
	return change(l, "PUT", LOCK_KEY, query, SPAN_NONE);
}

static bool
release_semaphore(struct lock *l)
{
	char query[128];
	bool done = false;

	for (int i = 0; i < RELEASE_TRIES && !done && look_quickly(l); i++) {
		char *body = json_dumps(l->view.value, JSON_COMPACT);

		snprintf(query, sizeof(query), "?cas=%" PRIu64 "&flags=%" PRIu64, l->view.modify_index,
		    SEMAPHORE_FLAGS);
		done = l->view.verdict != LOCK_HELD ||
		    change(l, "PUT", LOCK_KEY, query, span_str(body != NULL ? body : ""));
		free(body);
	}
	return change(l, "DELETE", l->session, "", SPAN_NONE) && done;
}

/* The entry goes when no process has it, as Consul's command does it. */
static void
clean_up(struct lock *l)
{
	char query[64];

	if (!look_quickly(l) || l->view.modify_index == 0 || l->view.verdict != LOCK_FREE || l->view.holders > 0)
		return;
	snprintf(query, sizeof(query), "?cas=%" PRIu64, l->view.modify_index);
	(void)change(l, "DELETE", LOCK_KEY, query, SPAN_NONE);		/* another holder may have come */
}

/* held: else there is only a session, and an entry of a contender. */
static bool
release(struct lock *l, bool held)
{
	struct buf path = BUF_INIT(256);
	struct client_answer a;
	bool done = true;

	stop_renewing(l);
	if (l->session[0] == '\0')
		return true;
	client_quiet(l->asker, true);
	if (l->places > 1)
		done = release_semaphore(l);
	else if (held)
		done = release_lock(l);
	buf_printf(&path, "/v1/session/destroy/%s", l->session);
	done = quick(l, "PUT", &path, SPAN_NONE, &a) && done;
	client_answer_done(&a);
	buf_done(&path);
	if (held && done)
		clean_up(l);
	return done;
}

/* -- the command -- */

static int
wrong(struct ctl *ctl, const char *option, const char *what)
{
	(void)ctl_complain(ctl, "%s: \"%s\" is %s", option, ctl_opt(ctl, option + 2), what);
	return 2;
}

/* "Lock for 'COMMAND' at 'PREFIX'": a reader of the sessions knows it. */
static char *
default_name(struct ctl *ctl, const char *prefix)
{
	struct buf b = BUF_INIT(PATH_BYTES_MAX);
	char *name;

	buf_printf(&b, "Lock for '");
	for (int i = 1; i < ctl->argc; i++)
		buf_printf(&b, "%s%s", i > 1 ? " " : "", ctl->argv[i]);
	buf_printf(&b, "' at '%s'", prefix);
	name = strdup(buf_cstr(&b));
	buf_done(&b);
	return name;
}

/* 0, or the exit status. */
static int
read_options(struct ctl *ctl, struct lock *l)
{
	const char *n = ctl_opt(ctl, "n"), *try = ctl_opt(ctl, "try"), *retries = ctl_opt(ctl, "monitor-retry");
	const char *prefix = ctl->argv[0] + strspn(ctl->argv[0], "/");
	int64_t ns = ctl->timeout.ns;
	size_t len = strlen(prefix);

	while (len > 0 && prefix[len - 1] == '/')
		len--;
	if (len == 0) {
		(void)ctl_complain(ctl, "the prefix is empty: name the folder of keys that the lock is in");
		return 2;
	}
	l->places = n != NULL ? strtol(n, NULL, 10) : 1;
	if (l->places < 1 || l->places > PLACES_MAX)
		return wrong(ctl, "--n", "no number of holders: 1 to 10000");
	if (try != NULL && (duration_parse(span_str(try), &ns) != TV_OK || ns <= 0))
		return wrong(ctl, "--try", "no length of time, such as 10s");
	l->monitor_retries = retries != NULL ? strtol(retries, NULL, 10) : MONITOR_RETRIES;
	l->give_up = ns > 0 ? mono_add(clock_mono(), (struct mono){ ns }) : MONO_NEVER;
	l->prefix = strndup(prefix, len);
	if (l->prefix == NULL || asprintf(&l->key, "%s/" LOCK_KEY, l->prefix) < 0 ||
	    (l->name = ctl_opt(ctl, "name") != NULL ? strdup(ctl_opt(ctl, "name")) :
	    default_name(ctl, l->prefix)) == NULL) {
		fprintf(stderr, "clusterctl: out of memory\n");
		return 1;
	}
	return 0;
}

static int
run_held(struct lock *l)
{
	const char *lost = NULL;
	int status = 0, rc = 0;
	pid_t pid = l->asked_to_end == 0 ? start_child(l) : 0;

	if (pid > 0)
		status = hold(l, pid, &lost);
	if (pid > 0 && l->asked_to_end == 0 && lost == NULL)
		child_tell("lock", status);
	if (pid < 0 || lost != NULL)
		rc = 1;
	else if (status != 0 && ctl_opt(l->ctl, "child-exit-code") != NULL)
		rc = 2;
	l->gone = false;
	l->give_up = MONO_NEVER;
	if (!release(l, true) && lost == NULL) {
		(void)ctl_complain(l->ctl, "%s was not released: its session ends within %d seconds, and that does "
		    "it", l->prefix, 2 * SESSION_TTL_S);
		rc = rc != 0 ? rc : 1;
	}
	return rc;
}

int
cmd_lock(struct ctl *ctl)
{
	struct lock l = { .ctl = ctl, .renew_path = BUF_INIT(256), .view = { .holder = "" } };
	int rc = read_options(ctl, &l);

	if (rc == 0) {
		l.signals = child_signals();
		l.set = client_set_new();
		l.asker = ctl_new_client(ctl);
		l.renewer = ctl_new_client(ctl);
		progress_init(&l.progress);
		if (acquire(&l)) {
			rc = run_held(&l);
		} else {
			if (l.asked_to_end == 0 && !mono_before(clock_mono(), l.give_up))
				(void)ctl_complain(ctl, "%s was not free within the time that was given", l.prefix);
			(void)release(&l, false);
			rc = 1;
		}
		view_done(&l);
		client_free(l.asker);
		client_free(l.renewer);
		client_set_free(l.set);
		close(l.signals);
	}
	buf_done(&l.renew_path);
	free(l.prefix);
	free(l.key);
	free(l.name);
	return rc;
}
