/* The table of services and checks: what is in it, and when something is due. */
#include <stdlib.h>

#include "common/base/log.h"
#include "rpcd/registry/registry_int.h"

#define SAVE_DELAY MONO_S(1)	/* states are written at most once in this time; registrations at once */
#define FIRST_COMPARE MONO_S(1)	/* after the start: the channels need a moment */
#define RECORD_BYTES_MAX (4u << 20)
#define RUN_REMARK_BYTES 256	/* in the output of a run, beside what it was to run and what that said */

struct entry *
registry_find(struct registry *r, enum entry_kind kind, struct span id)
{
	struct entry *e = entry_find(r, kind, id);

	return e == NULL || e->removed ? NULL : e;
}

struct entry *
entry_owner(const struct entry *e)
{
	return e->kind == ENTRY_SERVICE || e->service.len == 0 ? NULL :
	    entry_find(e->registry, ENTRY_SERVICE, e->service);
}

void *
registry_user(const struct entry *e)
{
	return e->user;
}

unsigned
registry_count(const struct registry *r, enum entry_kind kind)
{
	return r->count[kind];
}

/* -- what is due -- */

static void
plan(struct registry *r)
{
	struct mono at = mono_min(mono_min(r->compare_at, r->output_at), mono_min(r->save_at, r->reap_at));

	at = mono_min(at, r->news_at);
	const struct settle *w = TAILQ_FIRST(&r->settling);
	while (w != NULL && w->deadline.ns == MONO_NEVER.ns)
		w = TAILQ_NEXT(w, link);
	if (w != NULL)
		at = mono_min(at, w->deadline);
	r->conf.due(r->conf.ctx, at);
}

void
registry_at(struct registry *r, struct mono *when, struct mono delay)
{
	*when = mono_min(*when, mono_add(r->conf.now(), delay));
	plan(r);
}

void
registry_changed(struct registry *r, bool durable)
{
	r->save_at = MONO_NEVER;
	r->saves += durable;
	if (!r->conf.saves_later)
		r->saved = r->saves;
	r->conf.save(r->conf.ctx, durable);
}

void
entry_unsaved(struct entry *e, enum unsaved how)
{
	struct registry *r = e->registry;

	if (e->unsaved == SAVED)
		TAILQ_INSERT_TAIL(&r->unsaved, e, unsaved_link);
	e->unsaved = how > e->unsaved ? how : e->unsaved;
}

static void
set_saved(struct entry *e)
{
	if (e->unsaved != SAVED)
		TAILQ_REMOVE(&e->registry->unsaved, e, unsaved_link);
	e->unsaved = SAVED;
}

bool
registry_unsaved(const struct registry *r)
{
	return !TAILQ_EMPTY(&r->unsaved);
}

void
registry_all_saved(struct registry *r)
{
	while (!TAILQ_EMPTY(&r->unsaved))
		set_saved(TAILQ_FIRST(&r->unsaved));
}

uint64_t
registry_save_ticket(const struct registry *r)
{
	return r->saves;
}

void
registry_saved(struct registry *r, uint64_t ticket)
{
	r->saved = ticket;
	sync_settle(r);
}

static struct mono
reap_time(const struct entry *e)
{
	if (e->removed || e->service.len == 0 || e->deregister_after <= 0 || e->deregister_after > INT64_MAX / 2)
		return MONO_NEVER;
	return mono_add(e->critical_since, (struct mono){ e->deregister_after });
}

/* A service goes when one of its checks was critical for too long. */
static void
reap(struct registry *r, struct mono now)
{
	r->reap_at = MONO_NEVER;
	for (struct entry *e = TAILQ_FIRST(&r->entries); e != NULL; e = TAILQ_NEXT(e, link)) {
		struct mono at = reap_time(e);

		if (mono_before(now, at)) {
			r->reap_at = mono_min(r->reap_at, at);
			continue;
		}
		log_info("agent", "Check for service has been critical for too long; deregistered service: "
		    "service=%.*s check=%.*s", (int)e->service.len, (const char *)e->service.p, (int)e->id.len,
		    (const char *)e->id.p);
		(void)registry_remove(r, ENTRY_SERVICE, e->service);	/* removes e as well, and frees neither */
	}
}

void
registry_run(struct registry *r)
{
	struct mono now = r->conf.now();

	if (!mono_before(now, r->save_at))
		registry_changed(r, false);
	if (!mono_before(now, r->reap_at))
		reap(r, now);
	if (!mono_before(now, r->output_at)) {
		r->output_at = MONO_NEVER;
		sync_all(r, true);
	}
	if (!mono_before(now, r->compare_at)) {
		r->compare_at = MONO_NEVER;
		sync_compare(r);
	}
	if (!mono_before(now, r->news_at)) {
		r->news_at = MONO_NEVER;
		if (r->conf.news != NULL)
			r->conf.news(r->conf.ctx);
	}
	sync_settle(r);
	plan(r);
}

/* -- records -- */

/* As the catalog will have it, without what it adds: two that say the same have the same bytes. */
static void
entry_pack(const struct registry *r, const struct local_record *rec, struct buf *out)
{
	if (rec->kind == ENTRY_SERVICE) {
		struct service s = rec->service;

		if (s.Weights.Passing == 0 && s.Weights.Warning == 0)
			s.Weights = (struct weights){ 1, 1 };
		s.Tags.set = true;		/* JSON does not know the difference, and so the file does not */
		s.TaggedAddresses.set = s.TaggedAddresses.n > 0;
		s.CreateIndex = s.ModifyIndex = 0;
		schema_pack(&service_schema, &s, out);
	} else {
		struct check c = rec->check;

		c.Node = span_str(r->conf.node_name);
		c.ServiceName = SPAN_NONE;
		c.ServiceTags = (struct span_list){ 0 };
		c.CreateIndex = c.ModifyIndex = 0;
		schema_pack(&check_schema, &c, out);
	}
}

bool
entry_says(const struct entry *e, const struct local_record *rec)
{
	struct buf packed = BUF_INIT(RECORD_BYTES_MAX);

	packed.secret = true;
	entry_pack(e->registry, rec, &packed);
	bool eq = !packed.failed && span_eq(buf_span(&packed), e->rec);
	buf_done(&packed);
	return eq;
}

bool
entry_unpack(const struct entry *e, struct local_record *out)
{
	const struct schema *s = e->kind == ENTRY_SERVICE ? &service_schema : &check_schema;
	struct rd in = rd_span_over(e->rec);

	*out = (struct local_record){ .kind = e->kind, .token = e->token, .ttl = e->ttl,
	    .deregister_after = e->deregister_after, .sidecar = e->sidecar, .from_file = e->from_file };
	if (schema_unpack(s, &in, &e->registry->scratch, &out->service) != TV_OK)
		return false;
	in = rd_span_over(e->run);
	return e->run.len == 0 || schema_unpack(&check_run_schema, &in, &e->registry->scratch, &out->run) == TV_OK;
}

bool
registry_get(const struct entry *e, struct local_record *out)
{
	const struct entry *owner = entry_owner(e);
	struct local_record service;

	arena_reset(&e->registry->scratch);
	if (!entry_unpack(e, out) || (owner != NULL && !entry_unpack(owner, &service)))
		return false;
	if (owner != NULL) {
		out->check.ServiceName = service.service.Service;
		out->check.ServiceTags = service.service.Tags;
	}
	return true;
}

/* From the loop, and once for all that changes in this turn. */
static void
tell_news(const struct entry *e)
{
	if (e->registry->watch_fn != NULL)
		e->registry->watch_fn(e->registry->watch_ctx, e->service);
	if (e->kind != ENTRY_SERVICE)
		return;
	e->registry->news_at = MONO_ZERO;
	plan(e->registry);
}

enum tv_err
entry_store(struct entry *e, const struct local_record *rec)
{
	struct registry *r = e->registry;
	struct buf bytes = BUF_INIT(RECORD_BYTES_MAX);
	struct local_record own;
	bool critical = rec->kind == ENTRY_CHECK && span_eqs(rec->check.Status, "critical");

	bytes.secret = true;
	entry_pack(r, rec, &bytes);
	size_t len = bytes.len;
	buf_putspan(&bytes, rec->token);
	size_t end = bytes.len;
	if (rec->run.Kind.len > 0)
		schema_pack(&check_run_schema, &rec->run, &bytes);
	if (bytes.failed) {
		buf_done(&bytes);
		return TV_ENOMEM;
	}
	e->ttl = rec->ttl;
	e->deregister_after = rec->deregister_after;
	e->sidecar = rec->sidecar;
	e->from_file = rec->from_file;
	buf_done(&e->bytes);		/* rec may have pointed there */
	e->bytes = bytes;
	e->rec = span_of(bytes.data, len);
	e->token = span_of(bytes.data + len, end - len);
	e->run = span_of(bytes.data + end, bytes.len - end);
	arena_reset(&r->scratch);
	(void)entry_unpack(e, &own);	/* texts, which need no memory, come first */
	e->id = local_record_id(&own);
	e->service = e->kind == ENTRY_SERVICE ? e->id : own.check.ServiceID;
	index_put(e);
	if (!critical)
		e->critical_since = MONO_NEVER;
	else if (e->critical_since.ns == MONO_NEVER.ns)
		e->critical_since = r->conf.now();
	r->reap_at = mono_min(r->reap_at, reap_time(e));
	tell_news(e);
	plan(r);
	return TV_OK;
}

/* -- entries -- */

struct entry *
entry_add(struct registry *r, const struct local_record *rec)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (e == NULL)
		return NULL;
	e->registry = r;
	e->kind = rec->kind;
	e->critical_since = MONO_NEVER;
	e->removed = true;
	e->dirty = DIRTY;
	if (entry_store(e, rec) != TV_OK) {
		free(e);		/* not in an index yet */
		return NULL;
	}
	TAILQ_INSERT_TAIL(&r->entries, e, link);
	return e;
}

/* From the table; no push is under way. */
void
entry_drop(struct entry *e)
{
	struct registry *r = e->registry;

	struct settle *w;

	TAILQ_FOREACH(w, &r->settling, link)
		if (w->entry == e)
			w->entry = NULL;
	if (e->user != NULL)
		(void)r->user_fn(r->user_ctx, e, e->user, NULL);
	index_take_out(e);
	set_saved(e);
	TAILQ_REMOVE(&r->entries, e, link);
	buf_done(&e->bytes);
	free(e);
}

void
entry_use(struct entry *e)
{
	struct registry *r = e->registry;
	struct local_record rec;

	if (r->user_fn != NULL && !e->removed && registry_get(e, &rec))
		e->user = r->user_fn(r->user_ctx, e, e->user, &rec);
}

void
registry_use(struct registry *r, registry_user_fn *fn, void *ctx)
{
	r->user_fn = fn;
	r->user_ctx = ctx;
	for (struct entry *e = TAILQ_FIRST(&r->entries); e != NULL; e = TAILQ_NEXT(e, link))
		entry_use(e);
}

void
registry_watch(struct registry *r, registry_watch_fn *fn, void *ctx)
{
	r->watch_fn = fn;
	r->watch_ctx = ctx;
}

/* Another definition has to be allowed anew.  False: no memory, nothing changed. */
static bool
replace(struct entry *e, const struct local_record *rec)
{
	struct buf before = BUF_INIT(RECORD_BYTES_MAX);
	bool stored;

	buf_putspan(&before, e->rec);
	stored = entry_store(e, rec) == TV_OK;
	if (stored && (before.failed || e->removed || !span_eq(buf_span(&before), e->rec)))
		e->accepted = e->sent_definition = false;
	buf_done(&before);
	return stored;
}

enum tv_err
entry_take(struct registry *r, const struct local_record *rec, struct entry **out)
{
	bool check = rec->kind == ENTRY_CHECK;
	struct span id = local_record_id(rec);
	struct entry *e = entry_find(r, rec->kind, id);
	bool is_new = e == NULL || e->removed;
	struct local_record own = *rec, old;

	if (id.len == 0)
		return TV_EINVAL;
	if (check && rec->check.ServiceID.len > 0 && registry_find(r, ENTRY_SERVICE, rec->check.ServiceID) == NULL)
		return TV_ENOENT;
	if (is_new && r->count[rec->kind] >= r->conf.entries_max)
		return TV_ELIMIT;
	if (check && !is_new) {
		if (!registry_get(e, &old))
			return TV_ENOMEM;
		own.check.Status = old.check.Status;
		own.check.Output = old.check.Output;
	} else if (check && !entry_is_status(own.check.Status)) {
		own.check.Status = span_str("critical");
	}
	if (e == NULL ? (e = entry_add(r, &own)) == NULL : !replace(e, &own))
		return TV_ENOMEM;
	r->count[e->kind] += e->removed;
	e->removed = false;
	entry_unsaved(e, UNSAVED);
	entry_use(e);
	*out = e;
	return TV_OK;
}

enum tv_err
registry_put(struct registry *r, const struct local_record *rec)
{
	struct entry *e;
	enum tv_err err = entry_take(r, rec, &e);

	if (err != TV_OK)
		return err;
	sync_changed(e, false);
	registry_changed(r, true);
	return TV_OK;
}

/* Is there room for those of these that are not there yet? */
static bool
has_room(struct registry *r, enum entry_kind kind, const struct local_record *v, uint32_t n)
{
	uint64_t count = r->count[kind];

	for (uint32_t i = 0; i < n; i++)
		count += registry_find(r, kind, local_record_id(&v[i])) == NULL;
	return count <= r->conf.entries_max;
}

void
entry_remove(struct entry *e)
{
	struct registry *r = e->registry;

	if (e->user != NULL)
		e->user = r->user_fn(r->user_ctx, e, e->user, NULL);
	e->removed = true;
	e->dirty = DIRTY;
	entry_unsaved(e, UNSAVED);
	r->count[e->kind]--;
	tell_news(e);
}

static bool
is_named(const struct local_record *checks, uint32_t n, struct span id)
{
	for (uint32_t i = 0; i < n; i++)
		if (span_eq(checks[i].check.CheckID, id))
			return true;
	return false;
}

enum tv_err
registry_put_service(struct registry *r, const struct local_record *service, const struct local_record *checks,
    uint32_t n, bool replace)
{
	struct entry *s, *c;
	enum tv_err err;

	if (service->service.ID.len == 0 || is_named(checks, n, SPAN_NONE))
		return TV_EINVAL;
	if (!has_room(r, ENTRY_SERVICE, service, 1) || !has_room(r, ENTRY_CHECK, checks, n))
		return TV_ELIMIT;
	if ((err = entry_take(r, service, &s)) != TV_OK)
		return err;
	for (uint32_t i = 0; i < n && err == TV_OK; i++)
		if ((err = entry_take(r, &checks[i], &c)) == TV_OK)
			c->dirty = DIRTY;
	for (struct entry *e = entry_check_first(r, s->id); e != NULL && replace && err == TV_OK;
	    e = entry_check_next(e))
		if (!e->removed && !is_named(checks, n, e->id))
			entry_remove(e);
	registry_changed(r, true);
	sync_changed(s, false);
	return err;
}

void
entry_remove_whole(struct entry *e)
{
	struct registry *r = e->registry;

	entry_remove(e);
	for (struct entry *k = entry_check_first(r, e->id); k != NULL && e->kind == ENTRY_SERVICE;
	    k = entry_check_next(k))
		if (!k->removed)
			entry_remove(k);
}

struct entry *
entry_sidecar(const struct entry *e)
{
	struct buf id = BUF_INIT(64u << 10);
	struct entry *k = NULL;

	buf_putspan(&id, e->id);
	buf_puts(&id, SIDECAR_SUFFIX);
	if (e->kind == ENTRY_SERVICE && !id.failed)
		k = registry_find(e->registry, ENTRY_SERVICE, buf_span(&id));
	buf_done(&id);
	return k != NULL && k->sidecar ? k : NULL;
}

enum tv_err
registry_remove(struct registry *r, enum entry_kind kind, struct span id)
{
	struct entry *e = registry_find(r, kind, id), *sidecar = e == NULL ? NULL : entry_sidecar(e);

	if (e == NULL)
		return TV_ENOENT;
	entry_remove_whole(e);
	if (sidecar != NULL)
		entry_remove_whole(sidecar);
	registry_changed(r, true);
	sync_changed(e, false);
	if (sidecar != NULL)
		sync_changed(sidecar, false);
	return TV_OK;
}

/* Output longer than the limit is cut, with a remark.  That of a run names what was run, and then has its own limit. */
static struct span
capped_output(const struct entry *e, struct span output, struct buf *text)
{
	uint64_t max = e->registry->conf.output_max + (e->run.len > 0 ? e->run.len + RUN_REMARK_BYTES : 0);

	if (output.len <= max)
		return output;
	buf_putspan(text, span_of(output.p, max));
	buf_printf(text, " ... (captured %llu of %zu bytes)", (unsigned long long)max, output.len);
	return buf_span(text);
}

enum tv_err
registry_update(struct entry *e, struct span status, struct span output)
{
	struct registry *r = e->registry;
	struct buf text = BUF_INIT(r->conf.output_max + e->run.len + RUN_REMARK_BYTES + 128);
	struct local_record rec;

	if (e->kind != ENTRY_CHECK || !entry_is_status(status))
		return TV_EINVAL;
	output = capped_output(e, output, &text);
	enum tv_err err = text.failed || !registry_get(e, &rec) ? TV_ENOMEM : TV_OK;
	bool same_status = err == TV_OK && span_eq(status, rec.check.Status);
	e->said = e->said || (err == TV_OK && rec.check.Output.len > 0);
	if (err == TV_OK && !(same_status && span_eq(output, rec.check.Output))) {
		rec.check.Status = status;
		rec.check.Output = output;
		if ((err = entry_store(e, &rec)) == TV_OK) {
			entry_unsaved(e, UNSAVED_STATE);
			sync_changed(e, same_status && e->said);	/* the first one tells why it is critical */
			e->said = e->said || output.len > 0;
			registry_at(r, &r->save_at, SAVE_DELAY);
		}
	}
	buf_done(&text);
	return err;
}

void
registry_each(struct registry *r, enum entry_kind kind, void (*fn)(void *ctx, const struct local_record *rec),
    void *ctx)
{
	struct local_record rec;

	for (const struct entry *e = TAILQ_FIRST(&r->entries); e != NULL; e = TAILQ_NEXT(e, link))
		if (e->kind == kind && !e->removed && registry_get(e, &rec))
			fn(ctx, &rec);
}

void
registry_checks_of(struct registry *r, struct span service, void (*fn)(void *ctx, const struct local_record *rec),
    void *ctx)
{
	struct local_record rec;

	for (const struct entry *e = TAILQ_FIRST(&r->entries); e != NULL; e = TAILQ_NEXT(e, link))
		if (e->kind == ENTRY_CHECK && !e->removed && (e->service.len == 0 || span_eq(e->service, service)) &&
		    registry_get(e, &rec))
			fn(ctx, &rec);
}

struct registry *
registry_new(const struct registry_conf *conf)
{
	struct registry *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	r->conf = *conf;
	r->arena = ARENA_INIT(16u << 20);
	r->scratch = ARENA_INIT(16u << 20);
	TAILQ_INIT(&r->entries);
	TAILQ_INIT(&r->unsaved);
	TAILQ_INIT(&r->settling);
	rng_seed(&r->rng, conf->seed);
	r->compare_at = r->output_at = r->save_at = r->reap_at = r->news_at = MONO_NEVER;
	registry_at(r, &r->compare_at, mono_add(FIRST_COMPARE, sync_spread(r, FIRST_COMPARE)));
	return r;
}

void
registry_free(struct registry *r)
{
	if (r == NULL)
		return;
	if (r->save_at.ns != MONO_NEVER.ns)
		registry_changed(r, true);
	r->saved = r->saves;
	sync_stop(r);
	while (!TAILQ_EMPTY(&r->entries))
		entry_drop(TAILQ_FIRST(&r->entries));
	sync_settle(r);			/* their entries are gone: all of them */
	arena_done(&r->arena);
	arena_done(&r->scratch);
	index_done(r);
	free(r);
}

enum registry_standing
registry_standing(const struct registry *r)
{
	return r->standing;
}

void
registry_check_standing(struct registry *r)
{
	r->standing = REGISTRY_UNKNOWN;
	registry_server_came(r);
}

void
registry_stats(const struct registry *r, struct registry_stats *out)
{
	*out = r->stats;
}
