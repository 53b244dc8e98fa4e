/* The process that runs checks, see check_process.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/queue.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/map.h"
#include "common/net/msg.h"
#include "common/proc/helper_monitor.h"
#include "common/proc/privdrop.h"
#include "rpcd/check/key_mode.h"
#include "rpcd/checks/check_process.h"

#define TAG "check"
#define PENDING_BYTES_MAX (256u << 10)	/* sent before the process has taken it */
#define OUT_BYTES_MAX (8u << 20)
#define RESTART_MIN_S 0.25
#define RESTART_MAX_S 30.
#define IDLE_S 10.			/* without a check it stays for so long */
#define PROGRAM "rpcd-check"
#define TITLE "rpcd: check"
#define USER "_check"

struct check_task {
	struct check_process *process;
	LIST_ENTRY(check_task) link;
	struct map_node node;		/* whose hash is its handle */
	void *ctx;
	bool sent;			/* to the process that runs */
};

struct check_process {
	struct check_process_conf conf;
	struct helper *helper;
	LIST_HEAD(, check_task) list;
	struct map tasks;
	uint64_t handles;		/* given out */
	bool syncing;			/* waits until the process has taken what was sent */
	uint64_t sync_id;
	struct msg_check_stats runs;
};

/* -- to the process -- */

static void
send_task(struct check_process *p, struct check_task *t)
{
	struct msg_check_put put = { 0 };

	t->sent = true;
	if (!p->conf.describe(t->ctx, &put))
		return;
	put.handle = t->node.hash;
	/* Else it closes. */
	(void)chan_send_record(helper_chan(p->helper), MSG_CHECK_PUT, 0, &msg_check_put_schema, &put);
}

/* As much as the process takes at a time. */
static void
send_tasks(struct check_process *p)
{
	struct chan *c = helper_chan(p->helper);
	struct check_task *t;
	bool more = false;

	if (c == NULL || p->syncing)
		return;
	LIST_FOREACH(t, &p->list, link) {
		if (t->sent)
			continue;
		if ((more = chan_pending(c) > PENDING_BYTES_MAX))
			break;
		send_task(p, t);
	}
	if (!more)
		return;
	p->syncing = true;
	(void)chan_send(c, MSG_CHECK_SYNC, 0, ++p->sync_id, MSG_EMPTY);
}

/* -- from the process: nothing that it says is trusted -- */

static enum tv_err
take_result(struct check_process *p, struct span body)
{
	struct msg_check_result r = { 0 };
	enum tv_err err = msg_read(&msg_check_result_schema, body, NULL, &r);

	if (err != TV_OK)
		return err;
	struct check_task *t = MAP_ENTRY(map_find(&p->tasks, r.handle), struct check_task, node);
	if (t != NULL)			/* else it went meanwhile */
		p->conf.result(t->ctx, r.status, r.output);
	return TV_OK;
}

static enum tv_err
on_frame(void *ctx, const struct frame *f)
{
	struct check_process *p = ctx;

	if (f->type == MSG_CHECK_RESULT)
		return take_result(p, f->body);
	if (f->type == MSG_CHECK_STATS) {
		p->runs = (struct msg_check_stats){ 0 };
		return msg_read(&msg_check_stats_schema, f->body, NULL, &p->runs);
	}
	if (f->type != MSG_CHECK_SYNC || f->id != p->sync_id || !p->syncing)
		return TV_EFORMAT;
	p->syncing = false;
	send_tasks(p);
	return TV_OK;
}

static void
on_ended(void *ctx, enum helper_end why UNUSED)
{
	struct check_process *p = ctx;
	struct check_task *t;

	p->syncing = false;
	p->runs = (struct msg_check_stats){ 0 };
	LIST_FOREACH(t, &p->list, link)
		t->sent = false;
}

/* -- its life -- */

static struct span
path_of(const char *path)
{
	return path == NULL ? SPAN_NONE : span_str(path);
}

static void
send_setup(struct check_process *p, struct chan *c)
{
	const struct tls_client_conf *tls = &p->conf.tls;

	(void)chan_send_record(c, MSG_CHECK_SETUP, 0, &msg_check_setup_schema, &(struct msg_check_setup){
		p->conf.runs_max, p->conf.follow_redirects, (uint64_t)p->conf.log_level, path_of(tls->ca_file),
		path_of(tls->ca_folder), path_of(tls->cert_file), path_of(tls->key_file) });	/* else it closes */
}

static void
on_setup(void *ctx, struct chan *c)
{
	struct check_process *p = ctx;

	send_setup(p, c);
	send_tasks(p);
}

static void
on_lost(void *ctx)
{
	struct check_process *p = ctx;

	p->conf.lost(p->conf.ctx);
}

/* A process that does nothing else may use the socket of docker, if that has a group that may. */
static void
join_docker(const char *path, struct helper_monitor_conf *m)
{
	struct stat st;

	if (stat(path, &st) != 0) {
		log_warn(TAG, "docker_socket %s: %s; Docker checks work without a restart only if the user " USER
		    " may use it then", path, strerror(errno));
	} else if (st.st_gid != 0 && (st.st_mode & S_IWGRP) != 0) {
		m->grouped = true;
		m->group = st.st_gid;
	}
}

/* errbuf: "" where it can be opened. */
static void
test_file(const char *name, const char *path, const struct privdrop *user, char *errbuf, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	bool key = strcmp(name, "key_file") == 0;
	const char *bad = NULL;
	struct stat st;

	if (fd < 0)
		(void)tv_fail(errbuf, cap, TV_ESYS, "tls.checks.%s: %s: %s%s", name, path, strerror(errno),
		    errno == EACCES ? ", for the user " USER ", who runs checks" : "");
	else if (key && fstat(fd, &st) == 0 && (bad = check_key_refused(&st, user->uid, user->gid)) != NULL)
		(void)tv_fail(errbuf, cap, TV_EPERM, "tls.checks.%s: %s: %s", name, path, bad);
	if (fd >= 0)
		close(fd);
}

/* As the user of the process: it opens them, and nothing is read. */
static enum tv_err
test_files(const struct tls_client_conf *tls, char *errbuf, size_t cap)
{
	const char *const files[][2] = {
		{ "ca_file", tls->ca_file }, { "ca_path", tls->ca_folder }, { "cert_file", tls->cert_file },
		{ "key_file", tls->key_file },
	};
	struct privdrop user;
	enum tv_err err = privdrop_plan(USER, NULL, false, &user, errbuf, cap);

	if (err == TV_OK && user.switches)
		err = privdrop_act_as(user.uid, user.gid, errbuf, cap);
	if (err != TV_OK)
		return err;
	errbuf[0] = '\0';
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && errbuf[0] == '\0'; i++)
		if (files[i][1] != NULL)
			test_file(files[i][0], files[i][1], &user, errbuf, cap);
	bool bad = errbuf[0] != '\0';
	if (user.switches && (err = privdrop_act_as(0, 0, errbuf + strlen(errbuf), cap - strlen(errbuf))) != TV_OK)
		return err;
	return bad ? TV_EPERM : TV_OK;
}

enum tv_err
check_monitor_start(const struct check_monitor_conf *conf, int *fd, char *errbuf, size_t cap)
{
	static const char *const roles[] = CHECK_ROLE_NAMES;
	struct helper_monitor_conf m = {
		.owner = "rpcd", .tag = TAG, .user = USER, .program = PROGRAM, .title = TITLE,
		.last = conf->docker_socket, .best_effort = conf->best_effort,
		.log_level = conf->log_level, .log_dest = conf->log_dest,
	};

	_Static_assert((int)CHECK_ROLES <= HELPER_KINDS_MAX, "a kind for each role");
	for (unsigned i = 0; i < CHECK_ROLES; i++) {
		m.kinds[i].may = conf->roles[i];
		m.kinds[i].first[0] = roles[i];
	}
	if (!conf->roles[ROLE_NETWORK] && !conf->roles[ROLE_SCRIPTS])
		join_docker(conf->docker_socket, &m);
	enum tv_err err = conf->roles[ROLE_NETWORK] ? test_files(&conf->tls, errbuf, cap) : TV_OK;
	if (err != TV_OK)
		return err;
	return helper_monitor_start(&m, fd, errbuf, cap);
}

/* -- tasks -- */

struct check_task *
check_process_add(struct check_process *p, void *task_ctx)
{
	struct check_task *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->process = p;
	t->ctx = task_ctx;
	LIST_INSERT_HEAD(&p->list, t, link);
	map_add(&p->tasks, &t->node, ++p->handles);
	check_process_changed(t);
	return t;
}

void
check_process_changed(struct check_task *t)
{
	struct check_process *p = t->process;
	struct chan *c = helper_chan(p->helper);

	t->sent = false;
	helper_want(p->helper, true);		/* with all that are put in this turn */
	if (c == NULL || p->syncing)
		return;
	if (chan_pending(c) > PENDING_BYTES_MAX)
		send_tasks(p);
	else
		send_task(p, t);
}

void
check_process_remove(struct check_task *t)
{
	struct check_process *p = t->process;
	struct chan *c = helper_chan(p->helper);

	if (t->sent && c != NULL)
		(void)chan_send_record(c, MSG_CHECK_DROP, 0, &msg_check_drop_schema,
		    &(struct msg_check_drop){ t->node.hash });
	LIST_REMOVE(t, link);
	map_remove(&p->tasks, &t->node);
	if (p->tasks.count == 0)
		helper_want(p->helper, false);
	free(t);
}

void
check_process_reload(struct check_process *p, int level, const struct tls_client_conf *tls)
{
	struct chan *c = helper_chan(p->helper);

	p->conf.log_level = level;
	p->conf.tls = *tls;
	helper_monitor_log(p->conf.monitor, level);	/* of those that it starts */
	helper_hurry(p->helper);
	if (c != NULL)
		send_setup(p, c);
}

void
check_process_stats(const struct check_process *p, struct check_process_stats *out)
{
	*out = (struct check_process_stats){ .tasks = p->tasks.count, .runs = p->runs };
	helper_stats(p->helper, &out->life);
	(void)helper_state(p->helper, out->state);
}

struct check_process *
check_process_new(const struct check_process_conf *conf)
{
	static const char *const names[] = CHECK_ROLE_TITLES;
	struct check_process *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->conf = *conf;
	p->helper = helper_new(&(struct helper_conf){
		.loop = conf->loop, .monitor = conf->monitor, .kind = conf->role, .name = names[conf->role], .tag = TAG,
		.meanwhile = "; states stay as they are", .body_max = MSG_LIST, .out_max = OUT_BYTES_MAX,
		.restart_min_s = RESTART_MIN_S, .restart_max_s = RESTART_MAX_S, .idle_s = IDLE_S,
		.setup = on_setup, .frame = on_frame, .ended = on_ended, .lost = on_lost, .ctx = p,
	});
	if (p->helper != NULL)
		return p;
	free(p);
	return NULL;
}

void
check_process_free(struct check_process *p)
{
	struct check_task *t;

	if (p == NULL)
		return;
	helper_free(p->helper);
	while ((t = LIST_FIRST(&p->list)) != NULL) {
		LIST_REMOVE(t, link);
		free(t);
	}
	map_done(&p->tasks);
	free(p);
}
