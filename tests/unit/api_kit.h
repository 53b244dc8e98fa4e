/* What tests of the HTTP API share: how a request ends, what was asked, and replies to it.  See api_fakes.h. */
#ifndef TV_TESTS_UNIT_API_KIT_H
#define TV_TESTS_UNIT_API_KIT_H

#include <check.h>
#include <stdio.h>

#include "common/net/msg.h"
#include "tests/unit/api_fakes.h"

/* -- one request ----------------------------------------------------------------- */

static inline void
fake_end(struct request *r)
{
	api_end(r);
	ck_assert(LIST_EMPTY(&fake_api.live));
	ck_assert_uint_eq(fake_api.stats.live, 0);
}

static inline const char *
fake_header(const struct request *r, const char *name)
{
	for (unsigned i = 0; i < r->answer.header_count; i++)
		if (strcmp(r->answer.headers[i].name, name) == 0)
			return r->answer.headers[i].value;
	return NULL;
}

/* The request must be answered, with this status and body. */
static inline void
fake_answered(struct request *r, unsigned status, const char *body)
{
	ck_assert_msg(r->answered, "no answer");
	const char *got = buf_cstr(&r->answer.body);
	ck_assert_msg(r->answer.status == status, "%u %s", r->answer.status, got);
	if (body != NULL)
		ck_assert_str_eq(got, body);
}

/* Answers a whole request and ends it. */
static inline void
fake_is(const char *method, const char *target, const char *body, unsigned status, const char *answer)
{
	struct request *r = fake_begin(method, target, body, NULL);

	fake_answered(r, status, answer);
	fake_end(r);
}

/* -- replies ----------------------------------------------------------------- */

static struct buf value = BUF_INIT(1 << 20);

/* Gives the router's answer to what was asked last. */
static inline void
reply(enum tv_err err, const char *text)
{
	struct op_reply a = { .err = err, .text = span_str(text), .index = 42, .known_leader = true,
	    .last_contact_ms = 7,
		.value = buf_span(&value) };

	fake.done(fake.done_ctx, &a);
	buf_reset(&value);
}

static inline void
reply_record(const struct schema *s, const void *rec)
{
	buf_reset(&value);
	schema_pack(s, rec, &value);
	reply(TV_OK, "");
}

/* A list of n copies. */
static inline void
reply_list(const struct schema *s, const void *rec, unsigned n)
{
	buf_reset(&value);
	mpw_array(&value, n);
	while (n-- > 0)
		schema_pack(s, rec, &value);
	reply(TV_OK, "");
}

/* The newest request must be this operation; its arguments into rec. */
static inline void
asked(enum op_code op, void *rec)
{
	struct rd in = rd_span_over(fake.q.args);

	ck_assert_uint_eq(fake.q.op, op);
	if (rec != NULL)
		ck_assert_int_eq(schema_unpack(op_find((uint16_t)op)->args, &in, &fake_request.arena, rec), TV_OK);
}

#define span_is(span_, text_) \
	ck_assert_msg(span_eqs((span_), (text_)), "%.*s", (int)(span_).len, (const char *)(span_).p)

/* The tests of a program, each with a fresh API. */
static inline int
api_kit_main(const char *name, const TTest *const *tests, size_t count)
{
	Suite *s = suite_create(name);
	TCase *t = tcase_create(name);
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, fake_setup, fake_teardown);
	for (size_t i = 0; i < count; i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}

#endif
