/*
 * gossipd-names, the program of the processes "gossipd: names": finds the addresses of what is to be dialled, says
 * them, and ends.  gossipd has it started (gossipd/resolver.h) as the user _names with a socketpair as descriptor 3.
 * It holds no key and no data.
 *
 * Each try has a process of its own, so that each sees the machine as it is then: a hosts file that was replaced, a
 * resolv.conf that has appeared.  Until gossipd has said what to look up nothing is read but that; then come the walls,
 * and then strangers: name servers, and files that scripts wrote.
 */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/frame.h"
#include "common/net/msg.h"
#include "common/proc/helper_main.h"
#include "common/proc/sandbox.h"
#include "common/proc/thread.h"
#include "gossipd/names/launch.h"
#include "gossipd/names/lookup.h"

#define TAG "names"
#define STACK_BYTES (512u << 10)
#define HOSTS_MAX 256			/* looked up at once, each by a thread */
#define PATIENCE MONO_S(3)		/* with hosts of a target that are not found while others are */

/* One target.  The lock guards what is not const. */
struct entry {
	struct dial_target target;
	unsigned place;
	int fd;				/* of a file that is to be read; -1 */
	unsigned open;			/* threads at work for it */
	bool answered;
	struct lookup_end end;		/* of the first look-up that failed, else what was left out */
	unsigned n;
	char addrs[TARGET_ADDRS_MAX][LOOKUP_ADDR_BYTES];
};

struct job {
	struct entry *entry;
	char name[LOOKUP_HOST_BYTES];
	uint16_t port;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct entry *entries;
	unsigned count, threads;
	uint16_t port;
	struct mono until, patience;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* -- with gossipd -- */

static enum tv_err
send_answer(const struct entry *e)
{
	struct span addrs[TARGET_ADDRS_MAX];
	struct msg_resolved m = { e->place, e->n > 0 ? TARGET_FOUND : e->end.outcome, span_str(e->end.why),
	    { addrs, e->n, true } };
	struct buf out = BUF_INIT(MSG_TEXT + FRAME_HEAD_BYTES);
	size_t at = frame_open(&out, MSG_RESOLVED, 0, 0);
	enum tv_err err = TV_ENOMEM;

	for (unsigned i = 0; i < e->n; i++)
		addrs[i] = span_str(e->addrs[i]);
	schema_pack(&msg_resolved_schema, &m, &out);
	frame_close(&out, at);
	if (!out.failed)
		err = helper_main_write(buf_span(&out));
	buf_done(&out);
	return err;
}

/* -- threads: each has the lock when it ends -- */

static void
note_end(struct entry *e, const struct lookup_end *end, const char *host)
{
	bool worse = e->end.outcome == TARGET_FOUND && end->outcome != TARGET_FOUND;

	if (end->why[0] == '\0' || (e->end.why[0] != '\0' && !worse))
		return;
	e->end = *end;
	if (host != NULL && e->target.kind != TARGET_NAME)
		snprintf(e->end.why, sizeof(e->end.why), "%.120s: %.120s", host, end->why);
}

static void
add_addr(struct entry *e, const char *addr)
{
	for (unsigned i = 0; i < e->n; i++)
		if (strcmp(e->addrs[i], addr) == 0)
			return;
	if (e->n < TARGET_ADDRS_MAX)
		snprintf(e->addrs[e->n++], LOOKUP_ADDR_BYTES, "%s", addr);
}

static void
end_job(struct job *job)
{
	job->entry->open--;
	all.threads--;
	pthread_cond_signal(&all.changed);
	pthread_mutex_unlock(&all.lock);
	free(job);
}

static void *
host_thread(void *arg)
{
	struct lookup_addrs *found = malloc(sizeof(*found));
	struct job *job = arg;

	if (found != NULL)
		lookup_host(job->name, job->port, found);
	pthread_mutex_lock(&all.lock);
	for (unsigned i = 0; found != NULL && i < found->n; i++)
		add_addr(job->entry, found->v[i]);
	if (found != NULL)
		note_end(job->entry, &found->end, job->name);
	end_job(job);
	free(found);
	return NULL;
}

/* With the lock, or before there are threads. */
static void
start_job(struct entry *e, const char *name, uint16_t port, void *(*run)(void *))
{
	static const struct lookup_end full = { TARGET_UNANSWERED, "too many names at once" };
	struct job *job = all.threads < HOSTS_MAX ? calloc(1, sizeof(*job)) : NULL;

	if (job != NULL) {
		*job = (struct job){ .entry = e, .port = port };
		snprintf(job->name, sizeof(job->name), "%s", name);
		e->open++;
		all.threads++;
		if (thread_start_detached("lookup", STACK_BYTES, run, job) == 0)
			return;
		e->open--;
		all.threads--;
	}
	free(job);
	note_end(e, &full, name);
}

/* With the lock: what a file or records have led to. */
static void
start_hosts(struct entry *e, const struct lookup_hosts *found)
{
	struct dial_target t;

	note_end(e, &found->end, NULL);
	for (unsigned i = 0; i < found->n; i++) {
		char addr[LOOKUP_ADDR_BYTES];

		if (target_parse(span_str(found->v[i].name), found->v[i].port, &t, NULL) != TV_OK)
			continue;
		if (t.kind != TARGET_ADDRESS) {
			start_job(e, found->v[i].name, found->v[i].port, host_thread);
			continue;
		}
		snprintf(addr, sizeof(addr), strchr(t.ip, ':') != NULL ? "[%s]:%u" : "%s:%u", t.ip, t.port);
		add_addr(e, addr);
	}
}

static void *
srv_thread(void *arg)
{
	static const struct lookup_end none = { TARGET_UNANSWERED, "no memory" };
	struct lookup_hosts *found = malloc(sizeof(*found));
	struct job *job = arg;

	if (found != NULL)
		lookup_srv(job->name, found);
	pthread_mutex_lock(&all.lock);
	if (found != NULL)
		start_hosts(job->entry, found);
	else
		note_end(job->entry, &none, NULL);
	end_job(job);
	free(found);
	return NULL;
}

static void
read_list(struct entry *e)
{
	struct lookup_hosts *found = e->fd >= 0 ? malloc(sizeof(*found)) : NULL;

	if (found == NULL)
		return;			/* lookup_open() has said why */
	lookup_file(e->fd, all.port, found);
	start_hosts(e, found);
	free(found);
	close(e->fd);
}

static void
start_entry(struct entry *e)
{
	char name[LOOKUP_HOST_BYTES] = "";
	struct lookup_hosts one = { .n = 0 };

	(void)span_copy(e->target.name, name, sizeof(name));
	switch (e->target.kind) {
	case TARGET_ADDRESS:
		one.n = 1;
		snprintf(one.v[0].name, sizeof(one.v[0].name), "%s", e->target.ip);
		one.v[0].port = e->target.port;
		start_hosts(e, &one);
		break;
	case TARGET_NAME:
		start_job(e, name, e->target.port, host_thread);
		break;
	case TARGET_SRV:
		start_job(e, name, 0, srv_thread);
		break;
	case TARGET_FILE:
		read_list(e);
	}
}

/* -- the whole -- */

/* With the lock: has it come to its end?  Of several hosts those that are not found are not waited for for long. */
static bool
is_done(const struct entry *e, struct mono now)
{
	return e->open == 0 || !mono_before(now, all.until) || (e->n > 0 && !mono_before(now, all.patience));
}

/* With the lock, which is given back while the answers are written.  The number of those that are left. */
static unsigned
send_answers(void)
{
	struct mono now = clock_mono();
	unsigned left = 0;

	for (unsigned i = 0; i < all.count; i++) {
		struct entry *e = &all.entries[i], copy;

		if (e->answered || !is_done(e, now)) {
			left += !e->answered;
			continue;
		}
		e->answered = true;
		if (e->open > 0 && e->n == 0)
			e->end = (struct lookup_end){ TARGET_UNANSWERED, "no name server has answered in time" };
		copy = *e;
		pthread_mutex_unlock(&all.lock);
		if (send_answer(&copy) != TV_OK)
			_exit(0);	/* gossipd has ended, or wants no answer any more */
		pthread_mutex_lock(&all.lock);
	}
	return left;
}

/* For a second at most: gossipd asks whether we are there. */
static void
wait_for_change(void)
{
	struct mono now = clock_mono(), next = mono_before(now, all.patience) ? all.patience : all.until;

	(void)thread_wait_until(&all.changed, &all.lock, mono_min(next, mono_add(now, MONO_S(1))));
}

static enum tv_err
take_targets(const struct msg_resolve *m)
{
	if (m->targets.n > NAMES_TARGETS_MAX || m->port > UINT16_MAX || m->timeout_ms > NAMES_MS)
		return TV_EFORMAT;
	if ((all.entries = calloc(m->targets.n + 1, sizeof(*all.entries))) == NULL)
		return TV_ENOMEM;
	all.count = m->targets.n;
	all.port = (uint16_t)m->port;
	all.until = mono_add(clock_mono(), MONO_MS((int64_t)m->timeout_ms));
	all.patience = mono_min(mono_add(clock_mono(), PATIENCE), all.until);
	for (unsigned i = 0; i < all.count; i++) {
		struct entry *e = &all.entries[i];
		char path[TARGET_PATH_BYTES_MAX + 1];

		e->place = i;
		e->fd = -1;
		if (target_parse(m->targets.v[i], all.port, &e->target, NULL) != TV_OK)
			return TV_EFORMAT;
		if (e->target.kind == TARGET_FILE && span_copy(e->target.name, path, sizeof(path)))
			e->fd = lookup_open(path, &e->end);
	}
	return TV_OK;
}

static enum tv_err
serve_question(struct helper_task *t, struct span question, bool best_effort)
{
	struct sandbox_policy policy = { .path_count = 0 };
	struct arena a = ARENA_INIT(MSG_LARGE * 2);	/* lives as long as the process: targets borrow from it */
	struct msg_resolve m = { .port = 0 };
	char errbuf[512];
	enum tv_err err = msg_read(&msg_resolve_schema, question, &a, &m);

	if (err == TV_OK)
		err = take_targets(&m);
	snprintf(errbuf, sizeof(errbuf), "%s", tv_strerror(err));
	sandbox_internet(&policy);
	if (err != TV_OK || (err = sandbox_enter(&policy, best_effort, errbuf, sizeof(errbuf))) != TV_OK) {
		log_err(TAG, "%s", errbuf);
		return err;
	}
	pthread_mutex_lock(&all.lock);
	for (unsigned i = 0; i < all.count; i++)
		start_entry(&all.entries[i]);
	while (send_answers() > 0) {
		helper_main_pulse(t);
		wait_for_change();
	}
	_exit(0);		/* threads may still wait for name servers */
}

/* gossipd-names LEVEL DESTINATION required|best-effort */
int
main(int argc, char **argv)
{
	static const struct helper_program program = {
		.owner = "gossipd", .program = NAMES_PROGRAM, .title = NAMES_TITLE,
	};
	struct helper_task t = { .in = BUF_INIT(0) };
	struct helper_args args;
	struct frame question;
	enum tv_err err;

	if (!helper_main_begin(&program, argc, argv, &args))
		return 2;
	err = helper_main_read(&t, MSG_LARGE, &question);
	if (err == TV_OK && question.type == MSG_RESOLVE)
		err = serve_question(&t, question.body, args.best_effort);
	helper_task_done(&t);
	return err == TV_OK || err == TV_EOF ? 0 : 1;
}
