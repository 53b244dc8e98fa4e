/* Policies and roles alike: records with an id and a name, each the only one. */
#include <errno.h>
#include <stdio.h>

#include "common/record/mpack.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/read/watch.h"
#include "raftd/fsm/session/session.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"

#define LOOKUP_FAILED "failed acl %s lookup: index error: "

const struct acl_kind acl_policies = {
	TBL_ACL_POLICY, TBL_ACL_POLICY_NAME, "Policy", "policy", &acl_policy_schema, FT_ACL_POLICIES, FX_ACL_POLICIES,
};
const struct acl_kind acl_roles = {
	TBL_ACL_ROLE, TBL_ACL_ROLE_NAME, "Role", "role", &acl_role_schema, FT_ACL_ROLES, FX_ACL_ROLES,
};

/* -- names -- */

static bool
is_name_byte(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

enum tv_err
acl_check_name(struct prepare *p, const struct acl_kind *kind, struct span name)
{
	bool good = name.len <= ACL_NAME_BYTES_MAX;

	if (name.len == 0)
		return prepare_fail(p, "Invalid %s: no Name is set", kind->title);
	for (size_t i = 0; i < name.len && good; i++)
		good = is_name_byte(name.p[i]);
	return good ? TV_OK : prepare_fail(p, "Invalid %s: invalid Name. Only alphanumeric characters, '-' and '_' are allowed",
	    kind->title);
}

void
acl_id_of(struct fsm *f, const struct acl_kind *kind, struct span name, char id[37])
{
	struct span val;
	struct tkey k;

	id[0] = '\0';
	if (name.len > ACL_NAME_BYTES_MAX)
		return;
	TKEY(&k, kind->by_name, name);
	if (tbl_peek(f, &k, &val) && val.len >= UUID_CHARS)
		(void)span_copy(span_of(val.p, UUID_CHARS), id, 37);	/* it fits */
}

/* Id and name are the first fields of either record, which may be large. */
bool
acl_name_of(struct fsm *f, const struct acl_kind *kind, struct span id, struct arena *a, struct span *name)
{
	struct span val;
	struct tkey k;
	struct rd r;

	if (id.len != UUID_CHARS)
		return false;
	TKEY(&k, kind->by_id, id);
	if (!tbl_peek(f, &k, &val))
		return false;
	r = rd_span_over(val);
	(void)mpr_array(&r);
	mpr_skip(&r);
	*name = arena_copy(a, mpr_bytes(&r, ACL_NAME_BYTES_MAX));
	if (r.err != TV_OK)
		f->failed = DB_VERIFY_BAD;
	else if (name->p == NULL)
		f->failed = ENOMEM;
	return f->failed == 0;
}

bool
acl_find(struct reading *r, const struct acl_kind *kind, const struct acl_read *q, struct span *val)
{
	char id[37], head[64];
	struct tkey k;

	if (q->ID.len > 0 || q->Name.len == 0) {
		snprintf(head, sizeof(head), LOOKUP_FAILED, kind->lower);
		if (!uuid_read(r, q->ID, head, id))
			return false;
	} else {
		acl_id_of(r->f, kind, q->Name, id);
	}
	TKEY(&k, kind->by_id, span_str(id));
	if (id[0] != '\0' && tbl_peek(r->f, &k, val))
		return true;
	mpw_array(r->out, 0);
	return false;
}

static void
put_name(struct fsm *f, const struct acl_kind *kind, struct span name, struct span id)
{
	struct tkey k;

	TKEY(&k, kind->by_name, name);
	tbl_put(f, &k, id);
}

/* If it is the name of this one: a copy may have given it to another already. */
static void
del_name(struct fsm *f, const struct acl_kind *kind, struct span name, struct span id)
{
	struct tkey k;
	char now[37];

	acl_id_of(f, kind, name, now);
	if (!span_eqs(id, now))
		return;
	TKEY(&k, kind->by_name, name);
	(void)tbl_del(f, &k);			/* it is there */
}

/* -- before the log -- */

enum tv_err
acl_prepare_id(struct prepare *p, const struct acl_kind *kind, struct span *id, bool *create)
{
	struct span why;
	char lower[37];

	*create = id->len == 0;
	if (*create)
		*id = span_str(p->uuid);
	else if (!uuid_parse(*id, NULL) || !uuid_id(*id, "", lower, p->a, &why))
		return prepare_fail(p, "%s ID invalid UUID", kind->title);
	else
		*id = arena_copy(p->a, span_str(lower));
	return id->p == NULL ? prepare_fail(p, "out of memory") : TV_OK;
}

enum tv_err
acl_prepare_delete(struct prepare *p, const struct acl_kind *kind, struct acl_id *q)
{
	enum tv_err err = acl_prepares(p);

	return err != TV_OK || (err = acl_check_primary(p)) != TV_OK ? err : acl_prepare_lookup(p, kind, q);
}

enum tv_err
acl_prepare_lookup(struct prepare *p, const struct acl_kind *kind, struct acl_id *q)
{
	char head[64];

	snprintf(head, sizeof(head), LOOKUP_FAILED, kind->lower);
	return uuid_prepare(p, head, &q->ID);
}

/* -- entries -- */

bool
acl_record_find(struct fsm *f, const struct acl_kind *kind, struct span id, struct arena *a, void *rec)
{
	struct tkey k;

	TKEY(&k, kind->by_id, id);
	return id.len == UUID_CHARS && tbl_get_rec(f, &k, kind->schema, a, rec);
}

bool
acl_may_set(struct apply *p, const struct acl_kind *kind, bool create, struct span id, struct span name, void *old)
{
	char named[37], text[64];

	if (id.len != UUID_CHARS || name.len == 0 || name.len > ACL_NAME_BYTES_MAX) {
		apply_fail(p, TV_EFORMAT, "malformed %s", kind->lower);
		return false;
	}
	if (!create && !acl_record_find(p->f, kind, id, &p->f->work, old)) {
		apply_fail(p, TV_EINVAL, "cannot find %s %.*s", kind->lower, (int)id.len, (const char *)id.p);
		return false;
	}
	acl_id_of(p->f, kind, name, named);
	if (named[0] == '\0' || (!create && span_eqs(id, named)))
		return true;
	if (create)
		snprintf(text, sizeof(text), "Invalid %s: A %s with Name ", kind->title, kind->title);
	else
		snprintf(text, sizeof(text), "Invalid %s: A %s with name ", kind->title, kind->lower);
	acl_fail_quoted(p, text, name, " already exists");
	return false;
}

void
acl_record_put(struct fsm *f, const struct acl_kind *kind, struct span id, struct span name, const struct span *before,
    const void *rec)
{
	struct tkey k;

	if (before != NULL)
		del_name(f, kind, *before, id);
	put_name(f, kind, name, id);
	TKEY(&k, kind->by_id, id);
	tbl_put_rec(f, &k, kind->schema, rec);
	if (before == NULL)
		fsm_count(f, kind->tally, 1);
	fsm_touch(f, kind->index);
}

void
acl_record_remove(struct fsm *f, const struct acl_kind *kind, struct span id, struct span name)
{
	struct tkey k;

	del_name(f, kind, name, id);
	TKEY(&k, kind->by_id, id);
	(void)tbl_del(f, &k);			/* it is there */
	fsm_count(f, kind->tally, -1);
	fsm_touch(f, kind->index);
}
