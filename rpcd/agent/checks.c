/* The table of this node's checks, and their TTLs. */
#include <stdlib.h>

#include "common/base/log.h"
#include "rpcd/agent/checks_int.h"

#define SAVE_DELAY_S 1.0	/* states are written at most once in this time; registrations at once */

static const char passing[] = "passing", warning[] = "warning", critical[] = "critical";

const char *
checks_status(struct span text)
{
	static const char *const all[] = { passing, warning, critical };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (span_eqs(text, all[i]))
			return all[i];
	return NULL;
}

struct local_check *
checks_find(struct checks *c, struct span id)
{
	for (struct local_check *k = c->first; k != NULL; k = k->next)
		if (span_eqs(id, k->id))
			return k;
	return NULL;
}

bool
checks_text(char **at, struct span text)
{
	char *copy = span_dup(text);

	if (copy == NULL)
		return false;
	free(*at);
	*at = copy;
	return true;
}

void
checks_record(const struct local_check *k, struct check *rec)
{
	*rec = (struct check){
		.Node = span_str(k->table->conf.node_name),
		.CheckID = span_str(k->id),
		.Name = span_str(k->name),
		.Status = span_str(k->status),
		.Notes = span_str(k->notes),
		.Output = span_str(k->output),
		.ServiceID = span_str(k->service_id),
		.Type = span_str("ttl"),
	};
}

static void
save_soon(struct checks *c)
{
	c->unsaved = true;
	if (!ev_is_active(&c->save)) {
		ev_timer_set(&c->save, SAVE_DELAY_S, 0.);
		ev_timer_start(c->conf.loop, &c->save);
	}
}

static void
save_now(struct checks *c, bool durable)
{
	enum tv_err err = checks_save(c, durable);

	c->unsaved = false;
	if (err != TV_OK)
		log_warn("agent", "cannot write %s: %s", c->conf.path, tv_strerror(err));
}

static void
on_save(struct ev_loop *loop, ev_timer *w, int events)
{
	struct checks *c = w->data;

	(void)loop;
	(void)events;
	if (c->unsaved)
		save_now(c, false);
}

/* Output longer than the limit is cut, with a remark. */
static char *
capped_output(const struct checks *c, struct span output)
{
	struct buf text = BUF_INIT(c->conf.output_max + 128);

	buf_putspan(&text, output.len > c->conf.output_max ? span_of(output.p, c->conf.output_max) : output);
	if (output.len > c->conf.output_max)
		buf_printf(&text, " ... (captured %llu of %zu bytes)", (unsigned long long)c->conf.output_max,
		    output.len);
	char *copy = text.failed ? NULL : span_dup(buf_span(&text));
	buf_done(&text);
	return copy;
}

static enum tv_err
set_state(struct local_check *k, const char *status, struct span output)
{
	char *text = capped_output(k->table, output);

	if (text == NULL)
		return TV_ENOMEM;
	bool same_status = status == k->status, same_output = strcmp(text, k->output) == 0;
	free(k->output);
	k->output = text;
	k->status = status;
	if (same_status && same_output)
		return TV_OK;
	checks_changed(k, same_status);
	save_soon(k->table);
	return TV_OK;
}

static void
on_ttl(struct ev_loop *loop, ev_timer *w, int events)
{
	struct local_check *k = w->data;
	struct buf text = BUF_INIT(k->table->conf.output_max + 256);

	(void)events;
	ev_timer_stop(loop, w);
	log_warn("agent", "Check missed TTL, is now critical: check=%s", k->id);
	buf_printf(&text, "TTL expired (last output before timeout follows): %s", k->output);
	if (set_state(k, critical, buf_span(&text)) != TV_OK)
		log_err("agent", "%s", tv_strerror(TV_ENOMEM));
	buf_done(&text);
}

static void
start_ttl(struct local_check *k)
{
	if (k->ttl_ns <= 0)
		return;
	k->ttl.repeat = (double)k->ttl_ns / 1e9;
	ev_timer_again(k->table->conf.loop, &k->ttl);
}

void
checks_drop(struct local_check *k)
{
	struct checks *c = k->table;

	checks_settled(k);
	ev_timer_stop(c->conf.loop, &k->ttl);
	if (k->push != NULL)
		route_cancel(k->push);
	*(k->prev == NULL ? &c->first : &k->prev->next) = k->next;
	*(k->next == NULL ? &c->last : &k->next->prev) = k->prev;
	c->count -= !k->removed;
	free(k->id);
	free(k->name);
	free(k->notes);
	free(k->output);
	free(k->service_id);
	free(k);
}

struct local_check *
checks_add(struct checks *c, struct span id)
{
	struct local_check *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return NULL;
	k->table = c;
	k->status = critical;
	ev_init(&k->ttl, on_ttl);
	k->ttl.data = k;
	k->prev = c->last;
	*(c->last == NULL ? &c->first : &c->last->next) = k;
	c->last = k;
	c->count++;
	if (checks_text(&k->id, id) && checks_text(&k->name, id) && checks_text(&k->notes, span_str("")) &&
	    checks_text(&k->output, span_str("")) && checks_text(&k->service_id, span_str("")))
		return k;
	checks_drop(k);
	return NULL;
}

enum tv_err
checks_register(struct checks *c, const struct check_registration *reg)
{
	struct local_check *k = checks_find(c, reg->CheckID);
	bool is_new = k == NULL || k->removed;

	if (is_new && c->count >= c->conf.checks_max)
		return TV_ELIMIT;
	if (k == NULL && (k = checks_add(c, reg->CheckID)) == NULL)
		return TV_ENOMEM;
	if (k->removed) {
		k->removed = false;
		c->count++;
	}
	if (!checks_text(&k->name, reg->Name) || !checks_text(&k->notes, reg->Notes) ||
	    !checks_text(&k->service_id, reg->ServiceID))
		return TV_ENOMEM;
	if (is_new) {
		k->status = reg->Status.len > 0 ? checks_status(reg->Status) : critical;
		if (k->status == NULL)
			k->status = critical;
		if (!checks_text(&k->output, span_str("")))
			return TV_ENOMEM;
	}
	k->ttl_ns = reg->TTL;
	k->deregister_after_ns = reg->DeregisterCriticalServiceAfter;
	start_ttl(k);
	checks_changed(k, false);
	save_now(c, true);
	return TV_OK;
}

enum tv_err
checks_deregister(struct checks *c, struct span id)
{
	struct local_check *k = checks_find(c, id);

	if (k == NULL || k->removed)
		return TV_ENOENT;
	ev_timer_stop(c->conf.loop, &k->ttl);
	k->removed = true;
	c->count--;
	save_now(c, true);
	checks_changed(k, false);
	return TV_OK;
}

enum tv_err
checks_update(struct checks *c, struct span id, const char *status, struct span output)
{
	struct local_check *k = checks_find(c, id);
	const char *known = checks_status(span_str(status));

	if (k == NULL || k->removed || k->ttl_ns <= 0)
		return TV_ENOENT;
	if (known == NULL)
		return TV_EINVAL;
	start_ttl(k);
	return set_state(k, known, output);
}

void
checks_each(struct checks *c, void (*fn)(void *ctx, const struct check *rec), void *ctx)
{
	for (const struct local_check *k = c->first; k != NULL; k = k->next) {
		struct check rec;

		if (k->removed)
			continue;
		checks_record(k, &rec);
		fn(ctx, &rec);
	}
}

unsigned
checks_count(const struct checks *c)
{
	return c->count;
}

struct checks *
checks_new(const struct checks_conf *conf)
{
	struct checks *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->conf = *conf;
	c->arena = ARENA_INIT(16u << 20);
	rng_seed(&c->rng, conf->seed);
	ev_init(&c->save, on_save);
	c->save.data = c;
	enum tv_err err = checks_load(c);
	if (err != TV_OK && err != TV_ENOENT) {
		log_warn("agent", "cannot read %s: %s; moved to %s.bad, starting without checks", conf->path,
		    tv_strerror(err), conf->path);
		checks_set_aside(c);
	}
	for (struct local_check *k = c->first; k != NULL; k = k->next)
		start_ttl(k);
	checks_sync_start(c);
	return c;
}

void
checks_free(struct checks *c)
{
	if (c == NULL)
		return;
	if (c->unsaved)
		save_now(c, true);
	ev_timer_stop(c->conf.loop, &c->save);
	checks_sync_stop(c);
	while (c->first != NULL)
		checks_drop(c->first);
	arena_done(&c->arena);
	free(c);
}
