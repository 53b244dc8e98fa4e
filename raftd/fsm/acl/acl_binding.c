/* Binding rules: which services, nodes and roles the tokens of an auth method's logins are bound to. */
#include "common/acl/bindname.h"
#include "common/filter/filter.h"
#include "common/record/mpack.h"
#include "common/text/json_text.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/read/watch.h"
#include "raftd/fsm/session/session.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"

#define INVALID "Invalid Binding Rule: "
#define LOOKUP "failed acl binding rule lookup: index error: "

static const struct acl_kind bindings = { .title = "Binding Rule", .lower = "binding rule" };	/* for sentences */

/* -- what is stored -- */

bool
acl_binding_find(struct fsm *f, struct span id, struct arena *a, struct acl_binding *out)
{
	struct tkey k;

	TKEY(&k, TBL_ACL_BINDING, id);
	return id.len == UUID_CHARS && tbl_get_rec(f, &k, &acl_binding_schema, a, out);
}

void
acl_binding_remove(struct fsm *f, const struct acl_binding *b)
{
	struct tkey k;

	TKEY(&k, TBL_ACL_METHOD_BINDING, b->AuthMethod, b->ID);
	(void)tbl_del(f, &k);			/* both are there */
	TKEY(&k, TBL_ACL_BINDING, b->ID);
	(void)tbl_del(f, &k);
	fsm_count(f, FT_ACL_BINDINGS, -1);
	fsm_touch(f, FX_ACL_BINDINGS);
}

/* -- before the log -- */

static enum tv_err
check_selector(struct prepare *p, struct span text)
{
	struct buf why = BUF_INIT(8 * FILTER_BYTES_MAX);
	enum tv_err err = TV_OK;
	struct filter *f;

	if (text.len == 0)
		return TV_OK;
	f = filter_new(&acl_claims_schema, text, &why);
	if (f == NULL)
		err = prepare_fail(p, "invalid Binding Rule: Selector is invalid: %s", buf_cstr(&why));
	filter_free(f);
	buf_done(&why);
	return err;
}

static enum tv_err
check_bind(struct prepare *p, const struct acl_binding *b)
{
	struct buf quoted = BUF_INIT(1024);

	if (b->BindType.len == 0)
		return prepare_fail(p, INVALID "no BindType is set");
	if (b->BindName.len == 0)
		return prepare_fail(p, INVALID "no BindName is set");
	if (bindname_type(b->BindType) != BIND_TYPE_UNKNOWN)
		return TV_OK;
	text_quote(span_of(b->BindType.p, b->BindType.len > 64 ? 64 : b->BindType.len), &quoted);
	(void)prepare_fail(p, INVALID "unknown BindType %s", buf_cstr(&quoted));
	buf_done(&quoted);
	return TV_EINVAL;
}

static enum tv_err
set_prepare(struct prepare *p, void *rec)
{
	struct acl_binding_set *q = rec;
	struct acl_binding *b = &q->Binding;
	enum tv_err err = acl_prepares(p);

	if (err != TV_OK || (err = acl_prepare_id(p, &bindings, &b->ID, &q->Create)) != TV_OK)
		return err;
	if (q->Create && b->AuthMethod.len == 0)
		return prepare_fail(p, INVALID "no AuthMethod is set");
	b->CreateIndex = b->ModifyIndex = 0;
	if ((err = check_selector(p, b->Selector)) != TV_OK || (err = check_bind(p, b)) != TV_OK)
		return err;
	return acl_check_size(p, "Binding Rule", &acl_binding_schema, b, ACL_BINDING_BYTES_MAX);
}

static enum tv_err
delete_prepare(struct prepare *p, void *rec)
{
	enum tv_err err = acl_prepares(p);

	return err != TV_OK ? err : acl_prepare_lookup(p, &bindings, rec);
}

/* -- entries -- */

/* Any value will do; ctx: the method's. */
static bool
fake_value(void *ctx, struct span name, struct span *out)
{
	const struct span_list *values = ctx;

	*out = span_str("fake");
	for (uint32_t i = 0; i < values->n; i++)
		if (span_eq(values->v[i], name))
			return true;
	return false;
}

/* Is BindName one whatever the values are?  Else the entry has failed. */
static bool
check_name(struct apply *p, const struct acl_binding *b, struct span_list *values)
{
	struct buf name = BUF_INIT(ACL_BINDING_BYTES_MAX), why = BUF_INIT(2 * ACL_BINDING_BYTES_MAX);
	enum tv_err err = bindname_fill(b->BindName, fake_value, values, &name, &why);
	bool good = false;

	if (err == TV_EFORMAT)
		apply_fail(p, TV_EINVAL, INVALID "invalid BindName: %.512s", buf_cstr(&why));
	else if (err != TV_OK || !bindname_valid(bindname_type(b->BindType), buf_span(&name)))
		apply_fail(p, TV_EINVAL, INVALID "invalid BindName");
	else
		good = true;
	buf_done(&name);
	buf_done(&why);
	return good;
}

/* May it have one more? */
static bool
has_room(struct apply *p, struct span method)
{
	struct tbl_scan s;
	struct span key, val;
	struct tkey prefix;
	uint32_t n = 0;

	TKEY(&prefix, TBL_ACL_METHOD_BINDING, method);
	tbl_scan_begin(p->f, &s, &prefix);
	while (n < ACL_BINDINGS_MAX && tbl_next(&s, &key, &val))
		n++;
	tbl_scan_end(&s);
	if (n == ACL_BINDINGS_MAX)
		apply_fail(p, TV_EINVAL, INVALID "the auth method has %u of them already", ACL_BINDINGS_MAX);
	return n < ACL_BINDINGS_MAX;
}

static void
put_binding(struct fsm *f, struct acl_binding *b, const struct acl_binding *old)
{
	struct tkey k;

	b->CreateIndex = old != NULL ? old->CreateIndex : f->at;
	b->ModifyIndex = f->at;
	TKEY(&k, TBL_ACL_BINDING, b->ID);
	tbl_put_rec(f, &k, &acl_binding_schema, b);
	if (old == NULL) {
		TKEY(&k, TBL_ACL_METHOD_BINDING, b->AuthMethod, b->ID);
		tbl_put(f, &k, SPAN_NONE);
		fsm_count(f, FT_ACL_BINDINGS, 1);
	}
	fsm_touch(f, FX_ACL_BINDINGS);
}

static void
set_apply(struct apply *p, const void *rec)
{
	const struct acl_binding_set *s = rec;
	struct acl_binding b = s->Binding, old = { .ID = SPAN_NONE };
	struct acl_method m;
	struct acl_state st;

	if (!acl_applies(p, &st))
		return;
	if (b.ID.len != UUID_CHARS || b.AuthMethod.len > ACL_NAME_BYTES_MAX) {
		acl_fail_quoted(p, "cannot find auth method with name ", b.AuthMethod, "");
		return;
	}
	if (!s->Create && !acl_binding_find(p->f, b.ID, &p->f->work, &old)) {
		apply_fail(p, TV_EINVAL, "cannot find binding rule %.*s", (int)b.ID.len, (const char *)b.ID.p);
		return;
	}
	if (!s->Create && b.AuthMethod.len == 0)
		b.AuthMethod = old.AuthMethod;
	if (!s->Create && !span_eq_nocase(b.AuthMethod, old.AuthMethod))
		apply_fail(p, TV_EINVAL, "the AuthMethod field of an Binding Rule is immutable");
	else if (!acl_method_find(p->f, b.AuthMethod, &p->f->work, &m))
		acl_fail_quoted(p, "cannot find auth method with name ", b.AuthMethod, "");
	else if (check_name(p, &b, &m.Values) && (!s->Create || has_room(p, b.AuthMethod))) {
		put_binding(p->f, &b, s->Create ? NULL : &old);
		acl_answer(p, &acl_binding_schema, &b);
	}
}

static void
delete_apply(struct apply *p, const void *rec)
{
	const struct acl_id *q = rec;
	struct acl_binding b;
	struct acl_state st;

	if (!acl_applies(p, &st))
		return;
	if (acl_binding_find(p->f, q->ID, &p->f->work, &b))
		acl_binding_remove(p->f, &b);
	apply_bool(p, true);
}

/* -- reads -- */

static void
read_one(struct reading *r, const void *rec)
{
	const struct acl_id *q = rec;
	struct span val;
	struct tkey k;
	char id[37];
	bool found;

	r->ans->index = fsm_index_of(r->f, FX_ACL_BINDINGS);
	if (!acl_reads(r) || !uuid_read(r, q->ID, LOOKUP, id))
		return;
	TKEY(&k, TBL_ACL_BINDING, span_str(id));
	found = tbl_peek(r->f, &k, &val);
	mpw_array(r->out, found);
	if (found)
		buf_putspan(r->out, val);
}

static bool
list_one(struct reading *r, struct span val, struct arena *one, const void *ctx)
{
	const struct acl_binding_list *q = ctx;
	struct acl_binding b = { .ID = SPAN_NONE };

	if (!tbl_decode(r->f, &acl_binding_schema, val, one, &b) ||
	    (q->AuthMethod.len > 0 && !span_eq_nocase(b.AuthMethod, q->AuthMethod)))
		return false;
	buf_putspan(r->out, val);
	return true;
}

static void
read_list(struct reading *r, const void *rec)
{
	r->ans->index = fsm_index_of(r->f, FX_ACL_BINDINGS);
	if (acl_reads(r))
		acl_list(r, TBL_ACL_BINDING, list_one, rec);
}

const struct fsm_op acl_binding_ops[] = {
	{ OP_ACL_BINDING_SET, .since = 7, .prepare = set_prepare, .apply = set_apply },
	{ OP_ACL_BINDING_DELETE, .since = 7, .prepare = delete_prepare, .apply = delete_apply },
	{ OP_ACL_BINDING_GET, .read = read_one },
	{ OP_ACL_BINDING_LIST, .read = read_list },
	{ 0 },
};
