/*
 * Prepared queries: what is kept of them, and how they are found.  Source: http-api, section 9.
 *
 * Each name is there once, those of templates among them, in one table: a walk over it finds the longest one that another name begins
 * with.  What needs no state is refused before the log, where the regular expressions are compiled too: what they mean is
 * never decided by an entry, so servers whose libraries differ apply the same.
 */
#include "common/base/uuid.h"
#include "common/text/duration.h"
#include "common/text/json_text.h"
#include "raftd/fsm/acl/acl.h"
#include "raftd/fsm/query/query.h"
#include "raftd/fsm/query/query_render.h"
#include "raftd/fsm/read/watch.h"
#include "raftd/fsm/session/session.h"
#include "raftd/fsm/table/meta.h"
#include "raftd/fsm/table/table.h"

#define META_PAIRS_MAX 64		/* of each map, and the lengths of its keys and values */
#define META_KEY_BYTES_MAX 128
#define META_VALUE_BYTES_MAX 512
#define NAME_VALUE_BYTES (1 + UUID_CHARS)	/* of TBL_QUERY_NAME: is it a template, and its id */
#define HIDDEN "<hidden>"		/* what Consul shows in the place of a token */

/* -- before the log -- */

static const char *
pair_refusal(struct span key, struct span value)
{
	if (key.len == 0)
		return "Key cannot be blank";
	for (size_t i = 0; i < key.len; i++) {
		uint8_t c = ascii_lower(key.p[i]);

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
			return "Key contains invalid characters";
	}
	if (key.len > META_KEY_BYTES_MAX)
		return "Key is too long (limit: 128 characters)";
	return value.len > META_VALUE_BYTES_MAX ? "Value is too long (limit: 512 characters)" : NULL;
}

static enum tv_err
check_meta(struct prepare *p, const char *which, const struct span_map *m)
{
	if (m->n > META_PAIRS_MAX)
		return prepare_fail(p, "Invalid prepared query: Invalid %s filter: Node metadata cannot contain more than %d "
		    "key/value pairs", which, META_PAIRS_MAX);
	for (uint32_t i = 0; i < m->n; i++) {
		struct span key = m->kv[i][0], value = m->kv[i][1];
		const char *why = pair_refusal(key, value);

		if (why != NULL)
			return prepare_fail(p, "Invalid prepared query: Invalid %s filter: Couldn't load metadata pair ('%.*s', "
			    "'%.*s'): %s", which, (int)(key.len > 256 ? 256 : key.len), (const char *)key.p,
			    (int)(value.len > 256 ? 256 : value.len), (const char *)value.p, why);
	}
	return TV_OK;
}

static enum tv_err
check_ttl(struct prepare *p, struct span ttl)
{
	struct buf why = BUF_INIT(4096);
	enum tv_err err = TV_OK;
	int64_t ns = 0;

	if (ttl.len > 0 && duration_parse(ttl, &ns) != TV_OK) {
		duration_why(ttl, &why);
		err = prepare_fail(p, "Invalid prepared query: Bad DNS TTL '%.*s': %s", (int)(ttl.len > 256 ? 256 : ttl.len),
		    (const char *)ttl.p, buf_cstr(&why));
	} else if (ns < 0) {
		err = prepare_fail(p, "Invalid prepared query: DNS TTL '%lld', must be >=0", (long long)ns);
	}
	buf_done(&why);
	return err;
}

/* Rendered for its own name, the shortest that it will ever be asked for. */
static enum tv_err
check_template(struct prepare *p, const struct prepared_query *q)
{
	struct buf why = BUF_INIT(16384);
	struct prepared_query rendered;
	enum tv_err err = TV_OK;

	if (query_is_template(q) && query_render(q, q->Name, p->a, &rendered, &why) != TV_OK)
		err = prepare_fail(p, "raft apply failed: failed compiling template: %s", buf_cstr(&why));
	buf_done(&why);
	return err;
}

static enum tv_err
check_size(struct prepare *p, const struct prepared_query *q)
{
	struct buf packed = BUF_INIT(PREPARED_BYTES_MAX);
	enum tv_err err = TV_OK;

	schema_pack(&prepared_query_schema, q, &packed);
	if (q->Name.len > FSM_NAME_BYTES_MAX)
		err = prepare_fail(p, "Invalid prepared query: Name is longer than %d bytes", FSM_NAME_BYTES_MAX);
	else if (packed.failed)
		err = prepare_fail(p, "Invalid prepared query: it is larger than %u bytes", PREPARED_BYTES_MAX);
	buf_done(&packed);
	return err;
}

static enum tv_err
check_query(struct prepare *p, struct prepared_query *q)
{
	enum tv_err err;

	if (q->Name.len == 0 && !query_is_template(q) && q->Session.len == 0)
		return prepare_fail(p, "Invalid prepared query: Must be bound to a session");
	if (span_eqs(q->Token, HIDDEN))
		return prepare_fail(p, "Invalid prepared query: Bad Token '" HIDDEN "', it looks like a query definition with a "
		    "redacted token was submitted");
	if (q->Service.Service.len == 0)
		return prepare_fail(p, "Invalid prepared query: Must provide a Service name to query");
	if (q->Service.Failover.NearestN < 0)
		return prepare_fail(p, "Invalid prepared query: Bad NearestN '%lld', must be >= 0",
		    (long long)q->Service.Failover.NearestN);
	if ((err = check_meta(p, "NodeMeta", &q->Service.NodeMeta)) != TV_OK ||
	    (err = check_meta(p, "ServiceMeta", &q->Service.ServiceMeta)) != TV_OK ||
	    (err = check_ttl(p, q->DNS.TTL)) != TV_OK || (err = check_size(p, q)) != TV_OK)
		return err;
	q->CreateIndex = q->ModifyIndex = 0;
	return check_template(p, q);
}

static enum tv_err
create_prepare(struct prepare *p, void *rec)
{
	struct prepared_query *q = rec;

	if (q->ID.len > 0)
		return prepare_fail(p, "ID must be empty when creating a new prepared query");
	q->ID = span_str(p->uuid);
	return check_query(p, q);
}

#define LOOKUP "Prepared Query lookup failed: failed prepared query lookup: index error: "

static enum tv_err
update_prepare(struct prepare *p, void *rec)
{
	struct prepared_query *q = rec;
	enum tv_err err = uuid_prepare(p, LOOKUP, &q->ID);

	return err != TV_OK ? err : check_query(p, q);
}

static enum tv_err
delete_prepare(struct prepare *p, void *rec)
{
	struct prepared_read *q = rec;

	return uuid_prepare(p, LOOKUP, &q->ID);
}

/* -- what is kept -- */

bool
query_find(struct fsm *f, const char *id, struct arena *a, struct prepared_query *out)
{
	struct tkey k;

	TKEY(&k, TBL_QUERY, span_str(id));
	return tbl_get_rec(f, &k, &prepared_query_schema, a, out);
}

static bool
has_name(const struct prepared_query *q)
{
	return q->Name.len > 0 || query_is_template(q);
}

/* The id of the query of this name, or "". */
static void
id_of_name(struct fsm *f, struct span name, char id[37])
{
	struct span val;
	struct tkey k;

	id[0] = '\0';
	TKEY(&k, TBL_QUERY_NAME, name);
	if (tbl_peek(f, &k, &val) && val.len >= NAME_VALUE_BYTES)
		(void)span_copy(span_of(val.p + 1, UUID_CHARS), id, 37);	/* it fits */
}

static void
put_names(struct fsm *f, const struct prepared_query *q)
{
	uint8_t val[NAME_VALUE_BYTES] = { query_is_template(q) };
	struct tkey k;

	memcpy(val + 1, q->ID.p, UUID_CHARS);
	if (has_name(q)) {
		TKEY(&k, TBL_QUERY_NAME, q->Name);
		tbl_put(f, &k, span_of(val, sizeof(val)));
	}
	if (q->Session.len > 0) {
		TKEY(&k, TBL_QUERY_SESSION, q->Session, q->ID);
		tbl_put(f, &k, SPAN_NONE);
	}
}

static void
del_names(struct fsm *f, const struct prepared_query *q)
{
	struct tkey k;

	if (has_name(q)) {
		TKEY(&k, TBL_QUERY_NAME, q->Name);
		(void)tbl_del(f, &k);		/* it is there */
	}
	if (q->Session.len > 0) {
		TKEY(&k, TBL_QUERY_SESSION, q->Session, q->ID);
		(void)tbl_del(f, &k);		/* it is there */
	}
}

/* Why the state does not take it: false, and the entry has failed. */
static bool
fits_state(struct apply *p, const struct prepared_query *q)
{
	struct fsm *f = p->f;
	struct buf quoted = BUF_INIT(16384);
	int len = (int)q->Name.len;
	const char *name = (const char *)q->Name.p;
	char id[37];
	struct span why;
	struct session s;
	bool fits = true;

	id_of_name(f, q->Name, id);
	if (has_name(q) && id[0] != '\0' && !span_eqs(q->ID, id)) {
		if (q->Name.len > 0)
			apply_fail(p, TV_EINVAL, "raft apply failed: name '%.*s' aliases an existing query name", len, name);
		else
			apply_fail(p, TV_EINVAL, "raft apply failed: a query template with an empty name already exists");
		fits = false;
	} else if (uuid_parse(q->Name, NULL) && uuid_id(q->Name, "", id, p->out, &why)) {
		struct tkey k;

		TKEY(&k, TBL_QUERY, span_str(id));
		fits = !tbl_has(f, &k);
		if (!fits)
			apply_fail(p, TV_EINVAL, "raft apply failed: name '%.*s' aliases an existing query ID", len, name);
	}
	if (fits && q->Session.len > 0) {
		fits = uuid_id(q->Session, "raft apply failed: failed session lookup: index error: ", id, p->out, &why);
		if (!fits)
			apply_fail(p, TV_EINVAL, "%.*s", (int)why.len, (const char *)why.p);
		else if (!(fits = session_find(f, id, &f->work, &s))) {
			text_quote(q->Session, &quoted);
			apply_fail(p, TV_EINVAL, "raft apply failed: invalid session %s", buf_cstr(&quoted));
		}
	}
	buf_done(&quoted);
	return fits;
}

static void
put_query(struct fsm *f, const struct prepared_query *q)
{
	struct tkey k;

	TKEY(&k, TBL_QUERY, q->ID);
	tbl_put_rec(f, &k, &prepared_query_schema, q);
	put_names(f, q);
	fsm_touch(f, FX_QUERIES);
}

static void
create_apply(struct apply *p, const void *rec)
{
	struct prepared_query q = *(const struct prepared_query *)rec;
	struct text_reply answer = { .Value = q.ID };
	struct buf reply = BUF_INIT(64);

	if (q.ID.len != UUID_CHARS || q.Name.len > FSM_NAME_BYTES_MAX) {
		apply_fail(p, TV_EFORMAT, "malformed prepared query");
		return;
	}
	if (!fits_state(p, &q))
		return;
	q.CreateIndex = q.ModifyIndex = p->f->at;
	put_query(p->f, &q);
	fsm_count(p->f, FT_QUERIES, 1);
	schema_pack(&text_reply_schema, &answer, &reply);
	p->res->value = arena_copy(p->out, buf_span(&reply));
	buf_done(&reply);
}

static bool
find_or_fail(struct apply *p, struct span id, struct prepared_query *out)
{
	char text[37];

	if (span_copy(id, text, sizeof(text)) && query_find(p->f, text, &p->f->work, out))
		return true;
	apply_fail(p, TV_EINVAL, "Cannot modify non-existent prepared query: '%.*s'", (int)id.len, (const char *)id.p);
	return false;
}

static void
update_apply(struct apply *p, const void *rec)
{
	struct prepared_query q = *(const struct prepared_query *)rec, now;

	if (!find_or_fail(p, q.ID, &now))
		return;
	if (q.Name.len > FSM_NAME_BYTES_MAX) {
		apply_fail(p, TV_EFORMAT, "malformed prepared query");
		return;
	}
	if (!fits_state(p, &q))
		return;
	q.CreateIndex = now.CreateIndex;
	q.ModifyIndex = p->f->at;
	del_names(p->f, &now);
	put_query(p->f, &q);
	apply_bool(p, true);
}

static void
remove_query(struct fsm *f, const struct prepared_query *q)
{
	struct tkey k;

	del_names(f, q);
	TKEY(&k, TBL_QUERY, q->ID);
	(void)tbl_del(f, &k);			/* it is there */
	fsm_count(f, FT_QUERIES, -1);
	fsm_touch(f, FX_QUERIES);
}

static void
delete_apply(struct apply *p, const void *rec)
{
	const struct prepared_read *q = rec;
	struct prepared_query now;

	if (!find_or_fail(p, q->ID, &now))
		return;
	remove_query(p->f, &now);
	apply_bool(p, true);
}

struct session_end {
	struct tkey prefix;
};

/* The id of the query ends the key. */
static void
remove_bound(struct fsm *f, const struct tkey *k, struct arena *one, void *ctx)
{
	const struct session_end *end = ctx;
	struct prepared_query q;
	struct tkey gone = *k;
	char id[37];

	if (span_copy(span_of(k->b + end->prefix.len, k->len - end->prefix.len), id, sizeof(id)) && query_find(f, id, one, &q))
		remove_query(f, &q);
	(void)tbl_del(f, &gone);		/* it went with the query; never twice round for one key */
}

void
query_session_gone(struct fsm *f, const char *session)
{
	struct session_end end;

	TKEY(&end.prefix, TBL_QUERY_SESSION, span_str(session));
	if (f->tally[FT_QUERIES] > 0)
		tbl_each(f, &end.prefix, remove_bound, &end);
}

/* -- finding -- */

/* Bytes that both begin with, without regard to case. */
static size_t
common_bytes(struct span a, struct span b)
{
	size_t n = 0;

	while (n < a.len && n < b.len && ascii_lower(a.p[n]) == ascii_lower(b.p[n]))
		n++;
	return n;
}

/*
 * The template with the longest name that this one begins with; id "": none.  Each step finds the first name that is not before the
 * beginning looked for: it is such a beginning itself, or what it has in common with the name says how long all others are.
 */
static void
longest_template(struct fsm *f, struct span name, char id[37])
{
	struct arena a = ARENA_INIT(4 * TKEY_BYTES_MAX);
	uint8_t kept[FSM_NAME_BYTES_MAX];
	struct tkey all, from, key;
	struct span stored, val, other;

	id[0] = '\0';
	tkey_begin(&all, TBL_QUERY_NAME);
	for (size_t n = 0; n <= name.len && f->failed == 0;) {
		size_t same;

		arena_reset(&a);
		TKEY(&from, TBL_QUERY_NAME, span_of(name.p, n));
		if (tbl_keys_from(f, &all, &from, &a, &stored, 1) == 0)
			break;
		tbl_key_of(&key, stored);
		stored = span_of(stored.p + 1, stored.len - 1);
		if (!tkey_take_name(&stored, kept, sizeof(kept), &other))
			break;
		same = common_bytes(name, other);
		if (same == other.len) {
			if (tbl_peek(f, &key, &val) && val.len >= NAME_VALUE_BYTES && val.p[0] != 0)
				(void)span_copy(span_of(val.p + 1, UUID_CHARS), id, 37);	/* it fits */
		} else if (same < n || same == name.len || other.p[same] > ascii_lower(name.p[same])) {
			break;
		}
		n = same + 1;
	}
	arena_done(&a);
}

static bool
render(struct reading *r, struct span name, const struct prepared_query *q, struct prepared_query *out)
{
	struct buf why = BUF_INIT(16384);
	enum tv_err err = query_render(q, name, r->a, out, &why);

	if (err == TV_ENOMEM)
		r->out->failed = true;
	else if (err != TV_OK)
		read_fail(r, TV_EINVAL, "%s", buf_cstr(&why));
	buf_done(&why);
	return err == TV_OK;
}

bool
query_resolve(struct reading *r, struct span name, struct prepared_query *out)
{
	struct prepared_query q;
	struct span why;
	char id[37];

	if (name.len == 0) {
		read_fail(r, TV_EINVAL, "Missing Query ID");
		return false;
	}
	if (uuid_parse(name, NULL) && uuid_id(name, "", id, r->a, &why) && query_find(r->f, id, r->a, out))
		return true;
	id[0] = '\0';
	if (name.len <= FSM_NAME_BYTES_MAX) {
		id_of_name(r->f, name, id);
		if (id[0] == '\0')
			longest_template(r->f, name, id);
	}
	if (id[0] == '\0' || !query_find(r->f, id, r->a, &q)) {
		read_fail(r, TV_ENOENT, "Query not found");
		return false;
	}
	*out = q;
	return !query_is_template(&q) || render(r, name, &q, out);
}

/* -- reads -- */

void
query_hide_token(const struct reading *r, struct prepared_query *q)
{
	if (q->Token.len > 0 && r->who != NULL && !acl_set_allows(r->who, ACL_ACL, SPAN_NONE, ACL_WRITE))
		q->Token = span_str("<hidden>");
}

/*
 * Appends one that may be seen: by its name; one without a name by a request with its id, else by one that may do everything.  Its token is
 * shown to the latter only.
 */
static bool
show(struct reading *r, struct span packed, bool by_id)
{
	struct arena a = ARENA_INIT(FSM_RECORD_MEMORY);
	struct prepared_query q = { .ID = SPAN_NONE };
	bool seen = r->who == NULL || acl_set_allows(r->who, ACL_ACL, SPAN_NONE, ACL_WRITE);

	if (seen) {
		buf_putspan(r->out, packed);
		return true;
	}
	if (tbl_decode(r->f, &prepared_query_schema, packed, &a, &q)) {
		seen = q.Name.len == 0 && q.Template.Type.len == 0 ? by_id : may_read(r, ACL_QUERY, q.Name);
		query_hide_token(r, &q);
		if (seen)
			schema_pack(&prepared_query_schema, &q, r->out);
	}
	arena_wipe(&a);
	arena_done(&a);
	return seen;
}

static void
read_one(struct reading *r, const void *rec)
{
	const struct prepared_read *q = rec;
	struct tkey k;
	struct span val;
	char id[37];
	size_t at;

	r->ans->index = fsm_index_of(r->f, FX_QUERIES);
	if (!uuid_read(r, q->ID, "failed prepared query lookup: index error: ", id))
		return;
	TKEY(&k, TBL_QUERY, span_str(id));
	at = list_begin(r->out);
	list_end(r->out, at, tbl_peek(r->f, &k, &val) && show(r, val, true));
}

static void
read_all(struct reading *r, const void *rec UNUSED)
{
	size_t at = list_begin(r->out);
	struct tbl_scan s;
	struct tkey prefix;
	struct span key, val;
	uint32_t n = 0;

	tkey_begin(&prefix, TBL_QUERY);
	tbl_scan_begin(r->f, &s, &prefix);
	while (!r->out->failed && tbl_next(&s, &key, &val))
		n += show(r, val, false);
	tbl_scan_end(&s);
	list_end(r->out, at, n);
	r->ans->index = fsm_index_of(r->f, FX_QUERIES);
}

static void
read_explained(struct reading *r, const void *rec)
{
	const struct prepared_ask *q = rec;
	struct prepared_query found;

	r->ans->index = fsm_index_of(r->f, FX_QUERIES);
	if (!query_resolve(r, q->Name, &found))
		return;
	if (!may_read(r, ACL_QUERY, found.Name)) {
		read_fail(r, TV_EPERM, "Permission denied");
		return;
	}
	query_hide_token(r, &found);
	schema_pack(&prepared_query_schema, &found, r->out);
}

const struct fsm_op query_ops[] = {
	{ OP_QUERY_CREATE, .since = 5, .prepare = create_prepare, .apply = create_apply },
	{ OP_QUERY_UPDATE, .since = 5, .prepare = update_prepare, .apply = update_apply },
	{ OP_QUERY_DELETE, .since = 5, .prepare = delete_prepare, .apply = delete_apply },
	{ OP_QUERY_GET, .read = read_one, .one = true },
	{ OP_QUERY_LIST, .read = read_all },
	{ OP_QUERY_EXPLAIN, .read = read_explained },
	{ OP_QUERY_EXECUTE, .read = query_execute },
	{ OP_QUERY_REMOTE, .read = query_remote },
	{ 0 },
};
