/* TTLs of checks, and checks that are run. */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "rpcd/checks/alias.h"
#include "rpcd/checks/check_process.h"
#include "rpcd/checks/checks.h"

#define SCRIPTS_MAX 64			/* at once: each is two processes at least */
#define RUN_BYTES_MAX (1u << 20)	/* of a packed definition */
#define SCRIPTS_OFF "Scripts are disabled on this agent; to enable, configure 'enable_script_checks' or " \
	"'enable_local_script_checks' to true"
#define DOCKER_OFF "Docker checks are off on this agent: docker_socket in rpcd.conf names the socket of docker"

struct checks {
	struct checks_conf conf;
	struct check_process *processes[CHECK_ROLES];	/* NULL: these are not run */
	struct aliases *aliases;
	bool restoring;			/* entries that come now were there before */
	struct buf packed;		/* of the one that is described */
};

struct running {			/* of one check, which has it as its user */
	struct checks *checks;
	struct entry *entry;
	/* one of the three */
	bool has_ttl;
	ev_timer timer;
	struct alias *alias;
	struct check_task *task;	/* NULL: it is not run */
	const char *off;		/* why it may not be run; NULL: it may */
	struct buf run;			/* packed definition */
	bool known;			/* its state is of a run */
};

/* -- TTL -- */

static void
on_ttl(struct ev_loop *loop, ev_timer *w, int events UNUSED)
{
	struct running *t = w->data;
	struct buf text = BUF_INIT(16u << 20);
	struct local_record rec;
	enum tv_err err = TV_ENOMEM;

	ev_timer_stop(loop, w);
	if (registry_get(t->entry, &rec)) {
		log_warn("agent", "Check missed TTL, is now critical: check=%.*s", (int)rec.check.CheckID.len,
		    (const char *)rec.check.CheckID.p);
		buf_puts(&text, "TTL expired (last output before timeout follows): ");
		buf_putspan(&text, rec.check.Output);
		if (!text.failed)
			err = registry_update(t->entry, span_str("critical"), buf_span(&text));
	}
	if (err != TV_OK)
		log_err("agent", "%s", tv_strerror(err));
	buf_done(&text);
}

/* -- runs -- */

static bool
describe(void *task_ctx, struct msg_check_put *put)
{
	struct running *t = task_ctx;
	struct local_record rec;

	if (!registry_get(t->entry, &rec))
		return false;
	*put = (struct msg_check_put){ .status = rec.check.Status, .known = t->known, .run = buf_span(&t->run),
	    .id = rec.check.CheckID, .service = rec.check.ServiceName };
	return true;
}

static void
log_result(const struct check *was, struct span status)
{
	int len = (int)was->CheckID.len;
	const char *id = (const char *)was->CheckID.p;

	if (span_eq(was->Status, status))
		return;
	if (span_eqs(status, "critical"))
		log_warn("agent", "Check is now critical: check=%.*s", len, id);
	else
		log_debug("agent", "Check status updated: check=%.*s status=%.*s", len, id, (int)status.len,
		    (const char *)status.p);
}

static void
on_result(void *task_ctx, struct span status, struct span output)
{
	struct running *t = task_ctx;
	struct local_record rec;

	if (registry_get(t->entry, &rec))
		log_result(&rec.check, status);
	t->known = true;
	enum tv_err err = registry_update(t->entry, status, output);
	if (err != TV_OK)
		log_err("agent", "result of a check: %s", tv_strerror(err));
}

/* -- entries come and go -- */

static void
stop_running(struct running *t)
{
	if (t->task != NULL)
		check_process_remove(t->task);
	if (t->alias != NULL)
		alias_remove(t->alias);
	t->task = NULL;
	t->alias = NULL;
}

static void
forget_running(struct running *t)
{
	if (t == NULL)
		return;
	ev_timer_stop(t->checks->conf.loop, &t->timer);
	stop_running(t);
	buf_done(&t->run);
	free(t);
}

static void
renew_ttl(struct running *t, int64_t ttl)
{
	t->has_ttl = true;
	t->timer.repeat = (double)ttl / 1e9;
	ev_timer_again(t->checks->conf.loop, &t->timer);
}

/* The definition as the process gets it.  False: as it was. */
static bool
take_run(struct running *t, const struct check_run *run)
{
	struct checks *c = t->checks;
	struct check_run own = *run;

	if (own.OutputMaxSize == 0 || own.OutputMaxSize > c->conf.output_max)
		own.OutputMaxSize = c->conf.output_max;
	buf_reset(&c->packed);
	schema_pack(&check_run_schema, &own, &c->packed);
	if (span_eq(buf_span(&c->packed), buf_span(&t->run)))
		return false;
	buf_reset(&t->run);
	buf_putspan(&t->run, buf_span(&c->packed));
	return true;
}

/* What cannot be run any more must not stay as it was for ever. */
static void
cannot_run(struct running *t, const struct local_record *rec, const char *why)
{
	log_warn("agent", "Check is not run: check=%.*s: %s", (int)rec->check.CheckID.len,
	    (const char *)rec->check.CheckID.p, why);
	(void)registry_update(t->entry, span_str("critical"), span_str(why));
}

/* NULL, or why it is not run here.  A script that a client registered was permitted then, but need not be any more. */
static const char *
why_off(const struct checks *c, const struct local_record *rec, enum check_role role)
{
	if (rec->run.Args.n > 0 && !rec->from_file && !c->conf.remote_scripts)
		return CHECKS_REMOTE_OFF;
	if (c->processes[role] != NULL || role == ROLE_NETWORK)
		return NULL;
	return role == ROLE_SCRIPTS ? SCRIPTS_OFF : DOCKER_OFF;
}

static void
run_check(struct running *t, const struct local_record *rec)
{
	struct checks *c = t->checks;
	enum check_role role = span_eqs(rec->run.Kind, "script") ? ROLE_SCRIPTS :
	    span_eqs(rec->run.Kind, "docker") ? ROLE_DOCKER : ROLE_NETWORK;
	struct check_process *p = c->processes[role];

	const char *off = why_off(c, rec, role);

	if (!take_run(t, &rec->run) && t->off == off)
		return;
	t->off = off;
	t->known = c->restoring;
	stop_running(t);			/* it may have been of the other process */
	if (span_eqs(rec->run.Kind, "alias"))
		t->alias = alias_add(c->aliases, rec->run.Node, rec->run.Target, rec->token, t);
	else if (off != NULL)
		cannot_run(t, rec, off);
	else if (p != NULL)
		t->task = check_process_add(p, t);
}

static void *
use_entry(void *ctx, struct entry *e, void *user, const struct local_record *rec)
{
	struct checks *c = ctx;
	struct running *t = user;
	bool wanted = rec != NULL && rec->kind == ENTRY_CHECK && (rec->ttl > 0 || rec->run.Kind.len > 0);

	if (t != NULL && (!wanted || t->has_ttl != (rec->ttl > 0))) {
		forget_running(t);
		t = NULL;
	}
	if (!wanted)
		return NULL;
	if (t == NULL && (t = calloc(1, sizeof(*t))) != NULL) {
		*t = (struct running){ .checks = c, .entry = e, .run = BUF_INIT(RUN_BYTES_MAX) };
		t->run.secret = true;
		ev_init(&t->timer, on_ttl);
		t->timer.data = t;
	}
	if (t == NULL)
		log_err("agent", "%s", tv_strerror(TV_ENOMEM));
	else if (rec->ttl > 0)
		renew_ttl(t, rec->ttl);
	else
		run_check(t, rec);
	return t;
}

/* -- all of them -- */

static void
on_lost(void *ctx)
{
	struct checks *c = ctx;

	c->conf.lost(c->conf.ctx);
}

static struct check_process *
process_new(struct checks *c, enum check_role role)
{
	uint64_t max = c->conf.runs_max;

	return check_process_new(&(struct check_process_conf){
		.loop = c->conf.loop, .monitor = c->conf.monitor[role], .role = role,
		.runs_max = role != ROLE_NETWORK && max > SCRIPTS_MAX ? SCRIPTS_MAX : max,
		.follow_redirects = c->conf.follow_redirects, .log_level = c->conf.log_level,
		.tls = role == ROLE_NETWORK ? c->conf.tls : (struct tls_client_conf){ .ca_file = NULL },
		.describe = describe, .result = on_result,
		.lost = on_lost, .ctx = c,
	});
}

struct checks *
checks_new(const struct checks_conf *conf)
{
	struct checks *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->conf = *conf;
	c->packed = BUF_INIT(RUN_BYTES_MAX);
	c->packed.secret = true;
	c->aliases = aliases_new(&(struct aliases_conf){
		.loop = conf->loop, .registry = conf->registry, .route = conf->route, .node_name = conf->node_name,
		.token = conf->token, .result = on_result,
	});
	bool ok = c->aliases != NULL;
	for (enum check_role i = 0; i < CHECK_ROLES && ok; i++)
		ok = conf->monitor[i] < 0 || (c->processes[i] = process_new(c, i)) != NULL;
	if (!ok) {
		checks_free(c);
		return NULL;
	}
	c->restoring = true;
	registry_use(conf->registry, use_entry, c);
	c->restoring = false;
	return c;
}

void
checks_free(struct checks *c)
{
	if (c == NULL)
		return;
	for (enum check_role i = 0; i < CHECK_ROLES; i++)
		check_process_free(c->processes[i]);
	aliases_free(c->aliases);
	buf_done(&c->packed);
	free(c);
}

void
checks_reload(struct checks *c, int level, const struct tls_client_conf *tls)
{
	const struct tls_client_conf none = { .ca_file = NULL };

	c->conf.log_level = level;
	c->conf.tls = *tls;
	for (enum check_role i = 0; i < CHECK_ROLES; i++)
		if (c->processes[i] != NULL)
			check_process_reload(c->processes[i], level, i == ROLE_NETWORK ? tls : &none);
}

void
checks_stats(const struct checks *c, struct checks_stats *out)
{
	*out = (struct checks_stats){ .aliases = aliases_count(c->aliases) };
	for (enum check_role i = 0; i < CHECK_ROLES; i++) {
		struct check_process_stats s;

		if (c->processes[i] == NULL)
			continue;
		check_process_stats(c->processes[i], &s);
		out->tasks += s.tasks;
		out->starts += s.life.starts;
		out->deaths += s.life.deaths;
		out->stuck += s.life.stuck;
		out->running += s.life.running;
		memcpy(out->states[i], s.state, sizeof(s.state));
		for (size_t n = 0; n < sizeof(s.runs) / sizeof(uint64_t); n++)
			((uint64_t *)&out->runs)[n] += ((uint64_t *)&s.runs)[n];
	}
}

enum tv_err
checks_update(struct registry *r, struct span id, struct span status, struct span output)
{
	struct entry *e = registry_find(r, ENTRY_CHECK, id);
	struct running *t = e == NULL ? NULL : registry_user(e);

	if (t == NULL || !t->has_ttl)
		return TV_ENOENT;
	enum tv_err err = registry_update(e, status, output);
	if (err == TV_OK)
		ev_timer_again(t->checks->conf.loop, &t->timer);
	return err;
}
