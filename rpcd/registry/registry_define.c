/* What files define, against what is registered: added, changed, removed, and nothing else touched. */
#include <stdlib.h>

#include "common/base/log.h"
#include "rpcd/registry/registry_int.h"

typedef void told_fn(void *ctx, enum registry_change change, enum entry_kind kind, struct span id, struct span place);

/* Marks what these name.  The number that is new, by kind. */
static void
mark(struct registry *r, const struct registry_definition *v, uint32_t n, uint64_t fresh[2])
{
	struct entry *e;

	TAILQ_FOREACH(e, &r->entries, link)
		e->named = false;
	for (uint32_t i = 0; i < n; i++)
		if ((e = registry_find(r, v[i].rec.kind, local_record_id(&v[i].rec))) != NULL)
			e->named = true;
		else
			fresh[v[i].rec.kind]++;
}

/* Its definition is gone, or that of its service. */
static bool
goes(const struct entry *e)
{
	const struct entry *owner = e->named ? NULL : entry_owner(e);

	return !e->removed && !e->named && (e->from_file || (owner != NULL && owner->from_file && !owner->named));
}

static int
by_service_id(const void *key, const void *element)
{
	const struct span *a = key;
	const struct registry_definition *d = element;

	return d->rec.kind != ENTRY_SERVICE ? -1 : span_cmp(*a, d->rec.service.ID);
}

/* The service of this check will be there. */
static bool
has_service(struct registry *r, const struct registry_definition *v, uint32_t n, const struct check *c)
{
	const struct entry *owner = c->ServiceID.len == 0 ? NULL : registry_find(r, ENTRY_SERVICE, c->ServiceID);

	return c->ServiceID.len == 0 || (owner != NULL && !goes(owner)) ||
	    bsearch(&c->ServiceID, v, n, sizeof(*v), by_service_id) != NULL;
}

enum tv_err
registry_definable(struct registry *r, const struct registry_definition *v, uint32_t n, char *why, size_t cap)
{
	uint64_t count[2] = { 0 };

	mark(r, v, n, count);
	for (const struct entry *e = TAILQ_FIRST(&r->entries); e != NULL; e = TAILQ_NEXT(e, link))
		count[e->kind] += !e->removed && !goes(e);
	for (int kind = 0; kind < 2; kind++)
		if (count[kind] > r->conf.entries_max)
			return tv_fail(why, cap, TV_ELIMIT, "services.d: with what is registered there would be %llu "
			    "%s (limit: %u, checks_max in rpcd.conf)", (unsigned long long)count[kind],
			    kind == ENTRY_SERVICE ? "services" : "checks", r->conf.entries_max);
	for (uint32_t i = 0; i < n; i++) {
		const struct check *c = &v[i].rec.check;
		char id[64], service[64];

		if (v[i].rec.kind != ENTRY_CHECK || has_service(r, v, n, c))
			continue;
		return tv_fail(why, cap, TV_ENOENT, "%.*s: check \"%s\": ServiceID \"%s\" does not exist: define the "
		    "service, or register it first", (int)v[i].place.len, (const char *)v[i].place.p,
		    log_safe(c->CheckID, id, sizeof(id)), log_safe(c->ServiceID, service, sizeof(service)));
	}
	return TV_OK;
}

/* Would it be stored as it is?  Status and output are the entry's, and so are tags that others may set. */
static bool
is_same(struct entry *e, const struct local_record *rec)
{
	struct buf run = BUF_INIT(4u << 20);
	struct local_record own = *rec, old;
	bool eq = !e->removed && e->sidecar == rec->sidecar && e->ttl == rec->ttl &&
	    e->deregister_after == rec->deregister_after && span_eq(e->token, rec->token) && registry_get(e, &old);

	run.secret = true;
	if (eq && rec->kind == ENTRY_CHECK) {
		own.check.Status = old.check.Status;
		own.check.Output = old.check.Output;
	} else if (eq && own.service.EnableTagOverride && old.service.EnableTagOverride) {
		own.service.Tags = old.service.Tags;
	}
	if (eq) {
		if (rec->run.Kind.len > 0)
			schema_pack(&check_run_schema, &rec->run, &run);
		eq = entry_says(e, &own) && !run.failed && span_eq(buf_span(&run), e->run);
	}
	buf_done(&run);
	return eq;
}

static bool
drop_gone(struct registry *r, told_fn *told, void *ctx)
{
	bool any = false;

	for (struct entry *e = TAILQ_LAST(&r->entries, entry_list); e != NULL; e = TAILQ_PREV(e, entry_list, link)) {
		if (!goes(e))			/* checks, which come later, while their services can be asked */
			continue;
		struct entry *sidecar = entry_sidecar(e);
		any = true;
		entry_remove(e);
		told(ctx, DEFINED_GONE, e->kind, e->id, SPAN_NONE);
		if (sidecar != NULL && !sidecar->named) {	/* also one that a client registered */
			entry_remove_whole(sidecar);
			told(ctx, DEFINED_GONE, sidecar->kind, sidecar->id, SPAN_NONE);
		}
	}
	return any;
}

static bool
take_definition(struct registry *r, const struct registry_definition *d, told_fn *told, void *ctx)
{
	const struct local_record *rec = &d->rec;
	struct entry *e = registry_find(r, rec->kind, local_record_id(rec));
	bool is_new = e == NULL;

	if (!is_new && is_same(e, rec)) {
		bool ours = e->from_file;

		e->from_file = true;
		if (!ours) {
			entry_unsaved(e, UNSAVED);
			if (rec->run.Kind.len > 0)
				entry_use(e);	/* a script may be run for that alone */
		}
		return !ours;
	}
	enum tv_err err = entry_take(r, rec, &e);
	if (err != TV_OK) {
		log_err("agent", "%.*s: left out: %s", (int)d->place.len, (const char *)d->place.p,
		    err == TV_ENOENT ? "its service does not exist" :
		    err == TV_ELIMIT ? "too many services or checks on this node (limit: checks_max in rpcd.conf)" :
		    tv_strerror(err));
		if (is_new)
			return false;
		e = registry_find(r, rec->kind, local_record_id(rec));
		entry_remove(e);		/* half of it would be no better */
		told(ctx, DEFINED_GONE, rec->kind, e->id, SPAN_NONE);
		return true;
	}
	e->dirty = DIRTY;
	told(ctx, is_new ? DEFINED_NEW : DEFINED_OTHER, rec->kind, e->id, d->place);
	return true;
}

void
registry_define(struct registry *r, const struct registry_definition *v, uint32_t n, bool push, told_fn *told,
    void *ctx)
{
	uint64_t fresh[2] = { 0 };

	mark(r, v, n, fresh);
	bool any = drop_gone(r, told, ctx);
	for (uint32_t i = 0; i < n; i++)
		any |= take_definition(r, &v[i], told, ctx);
	if (!any)
		return;
	registry_changed(r, true);
	if (push)
		sync_all(r, false);
}
