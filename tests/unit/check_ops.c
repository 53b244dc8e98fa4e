/* Walks all operations: every schema packs and unpacks zero and filled records, and gives sound JSON. */
#include <check.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/record/mpack.h"
#include "common/record/ops.h"
#include "common/record/records.h"

#define BYTES_MAX (1u << 20)

static unsigned filled;			/* a different value for each field */

static struct span
some_text(struct arena *a)
{
	return arena_printf(a, "text \"%u\"", ++filled);
}

static void fill(const struct schema *s, struct arena *a, void *rec);

static void
fill_list(const struct schema_field *f, struct arena *a, void *at)
{
	if (f->type == ST_STRS) {
		struct span_list *l = at;

		*l = (struct span_list){ arena_array(a, 2, sizeof(struct span)), 2, true };
		l->v[0] = some_text(a);
		l->v[1] = some_text(a);
	} else if (f->type == ST_F64S) {
		struct f64_list *l = at;

		*l = (struct f64_list){ arena_array(a, 2, sizeof(double)), 2, true };
		l->v[0] = ++filled / 8.0;
		l->v[1] = -1e-9;
	} else if (f->type == ST_MAP) {
		struct span_map *m = at;

		*m = (struct span_map){ arena_array(a, 1, sizeof(*m->kv)), 1, true };
		m->kv[0][0] = some_text(a);
		m->kv[0][1] = some_text(a);
	} else {
		struct obj_list *l = at;

		*l = (struct obj_list){ arena_array(a, 2, f->sub->size), 2, true };
		fill(f->sub, a, l->v);
		fill(f->sub, a, (char *)l->v + f->sub->size);
	}
}

static void
fill(const struct schema *s, struct arena *a, void *rec)
{
	for (unsigned i = 0; i < s->count; i++) {
		const struct schema_field *f = &s->fields[i];
		void *at = (char *)rec + f->offset;

		switch (f->type) {
		case ST_STR:
		case ST_BIN:
			*(struct span *)at = some_text(a);
			break;
		case ST_JSON:
			*(struct span *)at = span_str("{\"k\":[1]}");
			break;
		case ST_U64:
			*(uint64_t *)at = UINT64_MAX - ++filled;
			break;
		case ST_I64:
		case ST_DURATION:
			*(int64_t *)at = -(int64_t)++filled;
			break;
		case ST_BOOL:
			*(bool *)at = true;
			break;
		case ST_F64:
			*(double *)at = ++filled / 8.0;
			break;
		case ST_OBJ:
			if (f->has != 0)
				*((bool *)rec + f->has - 1) = true;
			fill(f->sub, a, at);
			break;
		case ST_STRS:
		case ST_F64S:
		case ST_MAP:
		case ST_OBJS:
		case ST_OBJMAP:
			fill_list(f, a, at);
			break;
		case ST_CONST:
			break;
		}
	}
}

/* Brackets pair up and strings end: enough to see a torn object. */
static void
looks_like_json(const char *text, const char *what)
{
	int depth = 0;
	bool in_string = false;

	for (const char *p = text; *p != '\0'; p++) {
		if (in_string && *p == '\\') {
			p++;
			continue;
		}
		if (*p == '"')
			in_string = !in_string;
		if (in_string)
			continue;
		depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
		ck_assert_msg(!(*p == ',' && strchr("{[,", p[-1]) != NULL), "%s: %s", what, text);
		ck_assert_msg(!((*p == '}' || *p == ']') && p[-1] == ','), "%s: %s", what, text);
	}
	ck_assert_msg(depth == 0 && !in_string && text[0] == '{', "%s: %s", what, text);
}

static void
round_trip(const struct schema *s, const void *rec)
{
	struct buf first = BUF_INIT(BYTES_MAX), again = BUF_INIT(BYTES_MAX), json = BUF_INIT(BYTES_MAX);
	struct arena a = ARENA_INIT(BYTES_MAX);
	void *copy = arena_alloc(&a, s->size);

	schema_pack(s, rec, &first);
	ck_assert(!first.failed);
	struct rd r = rd_span_over(buf_span(&first));
	ck_assert_int_eq(schema_unpack(s, &r, &a, copy), TV_OK);
	ck_assert_int_eq(rd_end(&r), TV_OK);
	schema_pack(s, copy, &again);
	ck_assert_msg(span_eq(buf_span(&first), buf_span(&again)), "%s", s->name);

	r = rd_span_over(buf_span(&first));
	ck_assert_int_eq(schema_json(s, &r, &json), TV_OK);
	ck_assert_int_eq(rd_end(&r), TV_OK);
	looks_like_json(buf_cstr(&json), s->name);

	for (size_t cut = 0; cut < first.len; cut++) {	/* every truncation is an error, never a crash */
		struct arena small = ARENA_INIT(BYTES_MAX);
		void *torn = arena_alloc(&small, s->size);

		r = rd_over(first.data, cut);
		ck_assert_int_ne(schema_unpack(s, &r, &small, torn), TV_OK);
		arena_done(&small);
	}
	arena_done(&a);
	buf_done(&first);
	buf_done(&again);
	buf_done(&json);
}

static void
check_one(const struct schema *s)
{
	struct arena a = ARENA_INIT(BYTES_MAX);
	void *rec = arena_alloc(&a, s->size);

	for (unsigned i = 0; i < s->count; i++) {
		const struct schema_field *f = &s->fields[i];

		for (const char *p = f->name; *p != '\0'; p++)
			ck_assert_msg(isalnum((unsigned char)*p), "%s.%s", s->name, f->name);
		ck_assert_msg(f->offset < s->size, "%s.%s", s->name, f->name);
		bool nested = f->type == ST_OBJ || f->type == ST_OBJS || f->type == ST_OBJMAP;
		ck_assert_msg(nested == (f->sub != NULL), "%s.%s", s->name, f->name);
	}
	round_trip(s, rec);
	fill(s, &a, rec);
	round_trip(s, rec);
	arena_done(&a);
}

START_TEST(all_schemas)
{
	for (unsigned i = 0; i < ops_count; i++) {
		ck_assert_ptr_eq(op_find(ops_all[i].code), &ops_all[i]);	/* codes are unique */
		for (unsigned j = 0; j < i; j++)
			ck_assert_str_ne(ops_all[i].name, ops_all[j].name);
		check_one(ops_all[i].args);
		check_one(ops_all[i].answer);
	}
	ck_assert_ptr_null(op_find(0));
	ck_assert_ptr_null(op_find(9999));
}
END_TEST

static const struct schema_field *
field_at(const struct schema *s, uint16_t offset)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->fields[i].offset == offset && s->fields[i].type != ST_CONST)
			return &s->fields[i];
	return NULL;
}

/* Who may do what is decided for every row, and the field that it names is one that a request carries. */
START_TEST(access)
{
	for (unsigned i = 0; i < ops_count; i++) {
		const struct op *op = &ops_all[i];
		const struct op_access *a = &op->access;
		const struct schema_field *f = field_at(op->args, a->field);

		ck_assert_msg(a->scope == OP_NONE ? a->because != NULL && strlen(a->because) > 10 : a->because == NULL, "%s",
		    op->name);
		ck_assert_msg(a->scope != OP_OBJECT || (f != NULL && (f->type == ST_STR || f->type == ST_BIN)), "%s", op->name);
		ck_assert_msg(a->scope != OP_VERB || (f != NULL && f->type == ST_U64), "%s", op->name);
		/*
		 * What is written is not shown record by record, and what reads alone asks for no more than reading; but for
		 * secrets, and what leads to them.
		 */
		ck_assert_msg(op->kind != OP_WRITE || a->scope != OP_FILTER, "%s", op->name);
		ck_assert_msg(op->kind != OP_WRITE || a->scope == OP_NONE || a->right == OP_MAY_WRITE, "%s", op->name);
		ck_assert_msg(op->kind != OP_READ || a->scope == OP_NONE || a->right != OP_MAY_WRITE ||
		    (op->code >= OP_ACL_REPL_LIST && op->code <= OP_ACL_REPL_DIFF), "%s", op->name);
		ck_assert_msg(a->scope != OP_FILTER || op->kind == OP_READ, "%s", op->name);
	}
	ck_assert_int_eq(op_find(OP_KV_GET)->access.scope, OP_OBJECT);
	ck_assert_uint_eq(op_find(OP_KV_GET)->access.field, offsetof(struct kv_read, Key));
	ck_assert_uint_eq(op_find(OP_SESSION_DESTROY)->access.field, offsetof(struct session_destroy, ID));
}
END_TEST

START_TEST(traits)
{
	for (unsigned i = 0; i < ops_count; i++) {
		const struct op *op = &ops_all[i];

		ck_assert_msg(op->kind != OP_WRITE || !(op->traits & (OP_REPEATABLE | OP_STALE_OK | OP_SHORT)), "%s", op->name);
		ck_assert_msg(op->kind != OP_READ || (op->traits & OP_REPEATABLE && op->traits & OP_STALE_OK), "%s", op->name);
		ck_assert_msg(op->kind == OP_READ || !(op->traits & OP_SHORT), "%s", op->name);
		ck_assert_msg(op->kind == OP_WRITE || !(op->traits & (OP_INTERNAL | OP_MAKES_ID)), "%s", op->name);
		ck_assert_msg(!(op->traits & OP_INTERNAL) == (strncmp(op->name, "Internal.", 9) != 0 || op->code == OP_KEYRING),
		    "%s", op->name);
	}
	/* A user event that is fired again is another one. */
	ck_assert(!(op_find(OP_EVENT_FIRE)->traits & OP_REPEATABLE));
	ck_assert(op_find(OP_SESSION_RENEW)->traits & OP_REPEATABLE);
	ck_assert(op_find(OP_RAFT_CONFIGURATION)->traits & OP_STALE_OK && !(op_find(OP_RAFT_REMOVE)->traits & OP_STALE_OK));
	ck_assert(op_find(OP_SNAPSHOT_SAVE)->traits & OP_STALE_OK);
}
END_TEST

START_TEST(request_body)
{
	struct buf args = BUF_INIT(BYTES_MAX), body = BUF_INIT(BYTES_MAX);
	struct op_request q = { .op = OP_KV_GET, .dc = span_str("dc2"), .mode = OP_STALE, .index = UINT64_MAX,
		.wait_ms = 300000, .max_stale_ms = 5, .token = span_str("t") };
	struct op_request got;

	schema_pack(&kv_read_schema, &(struct kv_read){ .Key = span_str("a") }, &args);
	q.args = buf_span(&args);
	op_request_write(&body, &q);
	ck_assert_int_eq(op_request_read(buf_span(&body), &got), TV_OK);
	ck_assert(got.op == q.op && got.mode == q.mode && got.index == q.index && got.wait_ms == q.wait_ms);
	ck_assert(got.max_stale_ms == 5 && span_eqs(got.dc, "dc2") && span_eqs(got.token, "t"));
	ck_assert(span_eq(got.args, q.args));
	for (uint64_t wait = OP_WAIT_MS_MAX - 1; wait != 0; wait = wait < OP_WAIT_MS_MAX + 1 ? wait + 1 : wait * 2) {
		struct buf b = BUF_INIT(BYTES_MAX);

		q.wait_ms = wait;		/* the asker's word, up to what wraps around */
		op_request_write(&b, &q);
		ck_assert_int_eq(op_request_read(buf_span(&b), &got), TV_OK);
		ck_assert_uint_eq(got.wait_ms, wait < OP_WAIT_MS_MAX ? wait : OP_WAIT_MS_MAX);
		buf_done(&b);
	}
	for (size_t cut = 0; cut < body.len; cut++)
		ck_assert_int_ne(op_request_read(span_of(body.data, cut), &got), TV_OK);
	buf_u8(&body, 0xc0);
	ck_assert_int_eq(op_request_read(buf_span(&body), &got), TV_EFORMAT);	/* trailing byte */
	buf_done(&args);
	buf_done(&body);
}
END_TEST

/* Envelopes of a newer version have more fields; fewer are of none. */
START_TEST(longer_envelopes)
{
	static const uint8_t further[] = { 0x81, 0xa1, 'k', 0x92, 0xc0, 0x01 };	/* {"k": [nil, 1]} */
	struct buf request = BUF_INIT(BYTES_MAX), reply = BUF_INIT(BYTES_MAX);
	static const uint8_t nothing[] = { 0x90 };
	struct op_request q = { .op = OP_KV_GET, .dc = span_str("dc2"), .token = span_str("t"),
	    .args = span_of(nothing, sizeof(nothing)) }, got_q;
	struct op_reply a = { .index = 3, .value = span_of(nothing, sizeof(nothing)) }, got_a;

	op_request_write(&request, &q);
	op_reply_write(&reply, &a);
	for (unsigned more = 1; more < 4; more++) {
		buf_put(&request, further, sizeof(further));
		buf_put(&reply, further, sizeof(further));
		request.data[0] = (uint8_t)(0x98 + more);		/* arrays of 8 and 6, and so many */
		reply.data[0] = (uint8_t)(0x96 + more);
		ck_assert_int_eq(op_request_read(buf_span(&request), &got_q), TV_OK);
		ck_assert(got_q.op == q.op && span_eqs(got_q.dc, "dc2") && span_eqs(got_q.token, "t"));
		ck_assert(span_eq(got_q.args, q.args));
		ck_assert_int_eq(op_reply_read(buf_span(&reply), &got_a), TV_OK);
		ck_assert(got_a.index == 3 && span_eq(got_a.value, a.value));
		for (size_t cut = 0; cut < request.len; cut++)
			ck_assert_int_ne(op_request_read(span_of(request.data, cut), &got_q), TV_OK);
		for (size_t cut = 0; cut < reply.len; cut++)
			ck_assert_int_ne(op_reply_read(span_of(reply.data, cut), &got_a), TV_OK);
	}
	request.data[0] = 0x97;
	reply.data[0] = 0x95;
	ck_assert_int_eq(op_request_read(buf_span(&request), &got_q), TV_EFORMAT);
	ck_assert_int_eq(op_reply_read(buf_span(&reply), &got_a), TV_EFORMAT);
	buf_done(&request);
	buf_done(&reply);
}
END_TEST

/* A long value is not walked over: it is what is left, unless fields of a newer version come behind it. */
START_TEST(long_values)
{
	struct buf value = BUF_INIT(BYTES_MAX), body = BUF_INIT(2 * BYTES_MAX);
	struct op_reply a = { .index = 3, .known_leader = true }, got;

	mpw_array(&value, 40000);
	for (unsigned i = 0; i < 40000; i++)
		mpw_uint(&value, 1000 + i);
	a.value = buf_span(&value);
	op_reply_write(&body, &a);
	ck_assert(!body.failed);
	ck_assert_int_eq(op_reply_read(buf_span(&body), &got), TV_OK);
	ck_assert(got.err == TV_OK && got.index == 3 && got.known_leader && span_eq(got.value, a.value));
	buf_u8(&body, 0xc0);
	ck_assert_int_eq(op_reply_read(buf_span(&body), &got), TV_OK);
	ck_assert_uint_eq(got.value.len, a.value.len + 1);	/* whoever reads it sees that */
	body.data[0] = 0x97;					/* a seventh field */
	ck_assert_int_eq(op_reply_read(buf_span(&body), &got), TV_OK);
	ck_assert(span_eq(got.value, a.value));
	body.data[0] = 0x95;
	ck_assert_int_eq(op_reply_read(buf_span(&body), &got), TV_EFORMAT);
	buf_done(&value);
	buf_done(&body);
}
END_TEST

START_TEST(reply_body)
{
	struct buf value = BUF_INIT(BYTES_MAX), body = BUF_INIT(BYTES_MAX);
	struct op_reply a = { .err = TV_EUNREACH, .text = span_str("No path to datacenter"), .index = 3,
		.known_leader = true, .last_contact_ms = 12 };
	struct op_reply got;

	op_reply_write(&body, &a);
	ck_assert_int_eq(op_reply_read(buf_span(&body), &got), TV_OK);
	ck_assert(got.err == TV_EUNREACH && span_eqs(got.text, "No path to datacenter") && got.value.len == 0);
	ck_assert(got.index == 3 && got.known_leader && got.last_contact_ms == 12);
	schema_pack(&bool_reply_schema, &(struct bool_reply){ true }, &value);
	a = (struct op_reply){ .value = buf_span(&value) };
	buf_reset(&body);
	op_reply_write(&body, &a);
	ck_assert_int_eq(op_reply_read(buf_span(&body), &got), TV_OK);
	ck_assert(got.err == TV_OK && got.text.len == 0 && span_eq(got.value, a.value));
	for (size_t cut = 0; cut < body.len; cut++)
		ck_assert_int_ne(op_reply_read(span_of(body.data, cut), &got), TV_OK);
	buf_done(&value);
	buf_done(&body);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("ops");
	TCase *t = tcase_create("ops");

	tcase_add_test(t, all_schemas);
	tcase_add_test(t, access);
	tcase_add_test(t, traits);
	tcase_add_test(t, request_body);
	tcase_add_test(t, longer_envelopes);
	tcase_add_test(t, long_values);
	tcase_add_test(t, reply_body);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
