/* The TTLs of checks. */
#include <stdlib.h>

#include "common/base/log.h"
#include "rpcd/agent/checks.h"

struct ttl {				/* of one check, which has it as its user */
	struct ev_loop *loop;
	struct entry *entry;
	ev_timer timer;
};

static void
on_ttl(struct ev_loop *loop, ev_timer *w, int events)
{
	struct ttl *t = w->data;
	struct buf text = BUF_INIT(16u << 20);
	struct local_record rec;
	enum tv_err err = TV_ENOMEM;

	(void)events;
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

static void *
use(void *ctx, struct entry *e, void *user, const struct local_record *rec)
{
	struct ev_loop *loop = ctx;
	struct ttl *t = user;

	if (rec == NULL || rec->ttl <= 0) {
		if (t != NULL)
			ev_timer_stop(loop, &t->timer);
		free(t);
		return NULL;
	}
	if (t == NULL && (t = calloc(1, sizeof(*t))) != NULL) {
		t->loop = loop;
		t->entry = e;
		ev_init(&t->timer, on_ttl);
		t->timer.data = t;
	}
	if (t == NULL) {
		log_err("agent", "%s", tv_strerror(TV_ENOMEM));
		return NULL;
	}
	t->timer.repeat = (double)rec->ttl / 1e9;
	ev_timer_again(loop, &t->timer);
	return t;
}

void
checks_run(struct registry *r, struct ev_loop *loop)
{
	registry_use(r, use, loop);
}

enum tv_err
checks_update(struct registry *r, struct span id, struct span status, struct span output)
{
	struct entry *e = registry_find(r, ENTRY_CHECK, id);
	struct ttl *t = e == NULL ? NULL : registry_user(e);

	if (t == NULL)
		return TV_ENOENT;
	enum tv_err err = registry_update(e, status, output);
	if (err == TV_OK)
		ev_timer_again(t->loop, &t->timer);
	return err;
}
