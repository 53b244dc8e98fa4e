/*
 * The registry on disk: a JSON list, replaced as a whole; and what changed since, see registry_journal.h.
 *
 * Format 1 is a list of checks.  Format 2 begins with { "Version": 2 } and has services as well, as { "Service": ... },
 * before their checks; a reader of format 1 alone passes over both.  It is written only where there is a service.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/record/record.h"
#include "common/record/schema_json.h"
#include "common/text/json_text.h"
#include "rpcd/registry/registry_file.h"
#include "rpcd/registry/registry_int.h"

#define FORMAT 2
#define FILE_BYTES_MAX (64u << 20)	/* as the reader of JSON has it */

RECORD_LOCAL(stored_check,
	(STR, CheckID), (STR, Name), (STR, Notes), (STR, Output), (STR, Status), (STR, ServiceID),
	(DURATION, TTL, SF_DURTEXT), (DURATION, DeregisterCriticalServiceAfter, SF_DURTEXT),
	(STR, Type, SF_OMITEMPTY), (STR, Token, SF_OMITEMPTY), (OPT, Run, has_run, check_run, SF_OMITEMPTY),
	(BOOL, File, SF_OMITEMPTY))
RECORD_LOCAL(stored_service,
	(OPT, Service, has_service, service), (STR, Token, SF_OMITEMPTY), (BOOL, Sidecar, SF_OMITEMPTY),
	(BOOL, File, SF_OMITEMPTY))

static void
print_service(void *ctx, const struct local_record *rec)
{
	struct buf *out = ctx;
	struct stored_service s = { .has_service = true, .Service = rec->service, .Token = rec->token,
		.Sidecar = rec->sidecar, .File = rec->from_file };

	buf_puts(out, ",");
	schema_json_rec(&stored_service_schema, &s, out);
}

static void
print_check(void *ctx, const struct local_record *rec)
{
	struct buf *out = ctx;
	const struct check *c = &rec->check;
	struct stored_check s = {
		.CheckID = c->CheckID, .Name = c->Name, .Notes = c->Notes, .Output = c->Output, .Status = c->Status,
		.ServiceID = c->ServiceID, .TTL = rec->ttl, .DeregisterCriticalServiceAfter = rec->deregister_after,
		.Type = c->Type, .Token = rec->token, .has_run = rec->run.Kind.len > 0, .Run = rec->run,
		.File = rec->from_file,
	};

	if (out->len > 1)
		buf_puts(out, ",");
	schema_json_rec(&stored_check_schema, &s, out);
}

void
registry_print(struct registry *r, struct buf *out)
{
	buf_puts(out, "[");
	if (registry_count(r, ENTRY_SERVICE) > 0)
		buf_printf(out, "{\"Version\":%d}", FORMAT);
	registry_each(r, ENTRY_SERVICE, print_service, out);
	registry_each(r, ENTRY_CHECK, print_check, out);
	buf_puts(out, "]");
}

enum tv_err
registry_file_write(const char *path, struct span json)
{
	struct buf text = BUF_INIT(FILE_BYTES_MAX);
	enum tv_err err;

	text.secret = true;
	json_pretty(json, &text);
	err = text.failed ? TV_ELIMIT : file_replace(AT_FDCWD, path, buf_span(&text), 0600);
	buf_done(&text);
	return err;
}

static enum tv_err
read_service(json_t *v, struct arena *a, struct local_record *rec, char *why, size_t cap)
{
	struct stored_service s = { 0 };
	enum tv_err err = schema_from_json(&stored_service_schema, v, 0, a, &s, why, cap);

	*rec = (struct local_record){ .kind = ENTRY_SERVICE, .service = s.Service, .token = s.Token,
		.sidecar = s.Sidecar, .from_file = s.File };
	return err;
}

static enum tv_err
read_check(json_t *v, struct arena *a, struct local_record *rec, char *why, size_t cap)
{
	struct stored_check s = { 0 };
	enum tv_err err = schema_from_json(&stored_check_schema, v, 0, a, &s, why, cap);

	*rec = (struct local_record){
		.kind = ENTRY_CHECK, .token = s.Token, .ttl = s.TTL, .run = s.Run,
		.deregister_after = s.DeregisterCriticalServiceAfter, .from_file = s.File,
		.check = { .CheckID = s.CheckID, .Name = s.Name, .Notes = s.Notes, .Output = s.Output,
		    .Status = s.Status, .ServiceID = s.ServiceID,
		    .Type = s.Type.len > 0 || s.File ? s.Type : span_str("ttl") },
		    /* format 1 had no Type, and no other kind; a check of a file may have none */
	};
	if (err == TV_OK && !entry_is_status(s.Status))
		err = TV_EFORMAT;
	/* Of a version that let clients choose these ids; maintenance has neither a TTL nor a run. */
	if (err == TV_OK && check_id_reserved(s.CheckID) &&
	    (s.TTL != 0 || s.Run.Kind.len > 0 || s.CheckID.p[0] != '_'))
		err = TV_EPERM;
	return err;
}

/* again: it may be there, and is another one now. */
static enum tv_err
take_one(struct registry *r, json_t *v, bool again)
{
	struct arena a = ARENA_INIT(1u << 20);
	bool service = json_is_object(json_object_get(v, "Service"));
	struct local_record rec;
	struct entry *e;
	char why[256];
	enum tv_err err = (service ? read_service : read_check)(v, &a, &rec, why, sizeof(why));

	e = err == TV_OK ? registry_find(r, rec.kind, local_record_id(&rec)) : NULL;
	if (e != NULL)
		err = again ? entry_store(e, &rec) : TV_EEXIST;
	else if (err == TV_OK)
		err = entry_take(r, &rec, &e);
	arena_wipe(&a);
	arena_done(&a);
	return err;
}

/* -- what changed ---------------------------------------------------------------- */

RECORD_LOCAL(stored_state, (STR, CheckID), (STR, Status), (STR, Output))
RECORD_LOCAL(stored_change,
	(OPT, State, has_state, stored_state, SF_OMITEMPTY), (STR, RemovedService, SF_OMITEMPTY),
	(STR, RemovedCheck, SF_OMITEMPTY))

static void
print_change(const struct entry *e, struct buf *out)
{
	struct stored_change c = { .has_state = false };
	struct local_record rec;

	if (e->removed) {
		*(e->kind == ENTRY_SERVICE ? &c.RemovedService : &c.RemovedCheck) = e->id;
	} else if (!registry_get(e, &rec)) {
		out->failed = true;
		return;
	} else if (e->unsaved == UNSAVED_STATE) {
		c.has_state = true;
		c.State = (struct stored_state){ rec.check.CheckID, rec.check.Status, rec.check.Output };
	} else {
		(e->kind == ENTRY_SERVICE ? print_service : print_check)(out, &rec);
		return;
	}
	buf_puts(out, ",");
	schema_json_rec(&stored_change_schema, &c, out);
}

void
registry_print_changes(struct registry *r, struct buf *out)
{
	buf_printf(out, "[{\"Version\":%d}", FORMAT);
	for (const struct entry *e = TAILQ_FIRST(&r->unsaved); e != NULL; e = TAILQ_NEXT(e, unsaved_link))
		print_change(e, out);
	buf_puts(out, "]");
	registry_all_saved(r);
}

static bool
drop_stored(struct registry *r, enum entry_kind kind, struct span id)
{
	struct entry *e = registry_find(r, kind, id);

	if (e != NULL) {
		r->count[kind]--;
		entry_drop(e);
	}
	return true;			/* gone already, in a file that is newer than this */
}

static bool
take_state(struct registry *r, const struct stored_state *s)
{
	struct entry *e = registry_find(r, ENTRY_CHECK, s->CheckID);
	struct local_record rec;

	if (e == NULL || !entry_is_status(s->Status))
		return e == NULL;
	if (!registry_get(e, &rec))
		return false;
	rec.check.Status = s->Status;
	rec.check.Output = s->Output;
	return entry_store(e, &rec) == TV_OK;
}

static bool
take_change(struct registry *r, json_t *v)
{
	struct arena a = ARENA_INIT(4u << 20);
	struct stored_change c = { .has_state = false };
	char why[256];
	bool ok = schema_from_json(&stored_change_schema, v, 0, &a, &c, why, sizeof(why)) == TV_OK;

	if (ok && c.has_state)
		ok = take_state(r, &c.State);
	else if (ok && c.RemovedService.len > 0)
		ok = drop_stored(r, ENTRY_SERVICE, c.RemovedService);
	else if (ok && c.RemovedCheck.len > 0)
		ok = drop_stored(r, ENTRY_CHECK, c.RemovedCheck);
	else
		ok = ok && take_one(r, v, true) == TV_OK;
	arena_wipe(&a);
	arena_done(&a);
	return ok;
}

bool
registry_replay(struct registry *r, struct span text, const char *path)
{
	char why[256];
	json_t *list = json_first_value(text, why, sizeof(why)), *v;
	json_t *version = json_object_get(json_array_get(list, 0), "Version");
	bool ok = json_is_array(list) && json_integer_value(version) == FORMAT;
	unsigned ignored = 0;
	size_t i;

	json_array_foreach(list, i, v)
		if (ok && i > 0 && !take_change(r, v))
			ignored++;
	json_decref(list);
	if (ignored > 0)
		log_debug("agent", "%s: %u changes were of what is there no more", path, ignored);
	return ok;
}

/* -- all of it ---------------------------------------------------------------- */

enum tv_err
registry_parse(struct registry *r, struct span text, const char *path, char *why, size_t cap)
{
	json_t *list = json_first_value(text, why, cap), *v;
	json_t *version = json_object_get(json_array_get(list, 0), "Version");
	size_t i;

	if (json_is_array(list) && json_integer_value(version) <= FORMAT) {
		json_array_foreach(list, i, v)
			if ((i > 0 || version == NULL) && take_one(r, v, false) != TV_OK)
				log_warn("agent", "%s: entry %zu is ignored", path, i + 1);
		json_decref(list);
		return TV_OK;
	}
	if (json_is_array(list))
		snprintf(why, cap, "format %lld is of a newer version", (long long)json_integer_value(version));
	else if (list != NULL)
		snprintf(why, cap, "not a list");
	json_decref(list);
	return TV_EFORMAT;
}

/* Renames a file that makes no sense, so that an operator can look at it. */
static void
set_aside(const char *path)
{
	char bad[PATH_MAX];
	int n = snprintf(bad, sizeof(bad), "%s.bad", path);

	if (n > 0 && (size_t)n < sizeof(bad) && file_rename(path, bad) != TV_OK)
		log_warn("agent", "cannot rename %s: %s", path, strerror(errno));
}

void
registry_load(struct registry *r, const char *path)
{
	struct buf text = BUF_INIT(FILE_BYTES_MAX);
	char why[256];
	enum tv_err err;

	text.secret = true;
	err = file_read(path, &text);
	snprintf(why, sizeof(why), "%s", err == TV_ESYS ? strerror(errno) : tv_strerror(err));
	if (err == TV_OK)
		err = registry_parse(r, buf_span(&text), path, why, sizeof(why));
	if (err != TV_OK && err != TV_ENOENT) {
		log_warn("agent", "cannot read %s: %s; moved to %s.bad, starting without services and checks", path,
		    why, path);
		set_aside(path);
	}
	buf_done(&text);
}
