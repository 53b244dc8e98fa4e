/* Rows of resources: that their fields and the options of the verbs fit, and what each verb asks by them. */
#include "ctl/resource.h"
#include "tests/unit/ctl_kit.h"

#define ID_A "aaaaaaaa-1111-2222-3333-444444444444"

static const struct resource *const rows[] = {
	&resource_policies, &resource_roles, &resource_tokens, &resource_methods, &resource_bindings, &resource_queries,
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* Of links, see acl_set_links(), and of how it is shown. */
static bool
is_of_all(const char *form)
{
	static const char *const forms[] = { "policy-", "role-", "service-identity", "node-identity", "merge", "clear",
	    "show-secret", "out" };

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (strncmp(form + 2, forms[i], strlen(forms[i])) == 0)
			return true;
	return false;
}

static bool
has_field(const struct resource *r, const struct option *o)
{
	for (const struct resource_field *f = r->fields; f != NULL && f->key != NULL; f++)
		if (f->option != NULL && strncmp(f->option, o->form + 2, strlen(f->option)) == 0 &&
		    strchr(" ", o->form[2 + strlen(f->option)]) != NULL)
			return true;
	return false;
}

/* An option of create or update without a field would be passed over without a word. */
START_TEST(options_have_fields)
{
	unsigned seen = 0;

	for (const struct verb *v = ctl_verbs; v->words != NULL; v++)
		for (size_t i = 0; i < ROWS; i++) {
			const char *last = strrchr(v->words, ' ');

			if (!ctl_under(v, rows[i]->words) || rows[i]->fields == NULL || last == NULL ||
			    (strcmp(last, " create") != 0 && strcmp(last, " update") != 0))
				continue;
			for (const struct option *o = v->options; o->form != NULL; o++, seen++)
				ck_assert_msg(strncmp(o->form, "--", 2) != 0 || (o->flags & OPTION_PARAM) ||
				    is_of_all(o->form) || has_field(rows[i], o), "%s %s", v->words, o->form);
		}
	ck_assert_uint_gt(seen, 50);
}
END_TEST

START_TEST(fields_have_options)
{
	for (size_t i = 0; i < ROWS; i++) {
		for (const struct resource_field *f = rows[i]->fields; f != NULL && f->key != NULL; f++)
			ck_assert_msg(f->option == NULL || ctl_option(rows[i]->words, f->option) != NULL, "%s: %s",
			    rows[i]->words, f->option);
		for (const struct resource_filter *f = rows[i]->filters; f != NULL && f->option != NULL; f++)
			ck_assert_ptr_nonnull(ctl_option(rows[i]->words, f->option));
	}
}
END_TEST

/* What an update does not give stays, but for what servers make. */
START_TEST(updates)
{
	answers(0, "GET /v1/acl/auth-method/m%2Fx?dc=d", 200, "{\"Name\":\"m/x\",\"Type\":\"jwt\",\"CreateIndex\":1,"
	    "\"ModifyIndex\":2,\"DisplayName\":\"old\"}");
	ck_assert_int_eq(call("acl auth-method update --dc d --display-name new m/x"), 0);
	ck_assert_str_eq(fake.asked, "GET /v1/acl/auth-method/m%2Fx?dc=d\nPUT /v1/acl/auth-method/m%2Fx?dc=d "
	    "{\"Name\":\"m/x\",\"Type\":\"jwt\",\"DisplayName\":\"new\"}\n");
	answers(0, "GET /v1/acl/role/name/r", 200, "{\"ID\":\"" ID_A "\",\"Name\":\"r\",\"Hash\":\"h\"}");
	ck_assert_int_eq(call("acl role update --name s r"), 0);
	ck_assert_str_eq(fake.asked, "GET /v1/acl/role/name/r\nPUT /v1/acl/role/" ID_A " {\"ID\":\"" ID_A "\","
	    "\"Name\":\"s\"}\n");
	ck_assert_int_eq(call("acl auth-method update --config { m"), 1);
	ck_assert_str_eq(fake.asked, "GET /v1/acl/auth-method/m\n");
	ck_assert_ptr_nonnull(strstr(err_text, "--config: not JSON: line 1: "));
}
END_TEST

/* By an ID without a question before; by a name with one. */
START_TEST(deletes)
{
	ck_assert_int_eq(call("acl policy delete " ID_A), 0);
	ck_assert_str_eq(fake.asked, "DELETE /v1/acl/policy/" ID_A "\n");
	answers(0, "GET /v1/acl/policy/name/p", 404, "");
	ck_assert_int_eq(call("acl policy delete p"), 1);
	ck_assert_str_eq(fake.asked, "GET /v1/acl/policy/name/p\n");
	ck_assert_str_eq(err_text, "clusterctl: acl policy delete: there is no policy \"p\"\n"
	    "`clusterctl acl policy list` shows what there is.\n");
	ck_assert_int_eq(call("acl binding-rule delete x"), 0);
	ck_assert_str_eq(fake.asked, "DELETE /v1/acl/binding-rule/x\n");
	ck_assert_str_eq(out_text, "Deleted binding-rule x\n");
}
END_TEST

/* The API has no way to a query by its name. */
START_TEST(searched_in_the_list)
{
	answers(0, "GET /v1/query", 200, "[{\"ID\":\"1\",\"Name\":\"a\"},{\"ID\":\"" ID_A "\",\"Name\":\"b\"}]");
	ck_assert_int_eq(call("query delete b"), 0);
	ck_assert_str_eq(fake.asked, "GET /v1/query\nDELETE /v1/query/" ID_A "\n");
	ck_assert_str_eq(out_text, "Deleted query " ID_A "\n");
	ck_assert_int_eq(call("query show c"), 1);
	ck_assert_str_eq(err_text, "clusterctl: query show: there is no query \"c\"; `clusterctl query list` shows them\n");
	ck_assert_int_eq(call("query delete " ID_A), 0);
	ck_assert_str_eq(fake.asked, "DELETE /v1/query/" ID_A "\n");
}
END_TEST

START_TEST(filters)
{
	answers(0, "GET /v1/acl/policy/name/p", 200, "{\"ID\":\"" ID_A "\"}");
	answers(1, "GET /v1/acl/tokens?authmethod=m&policy=" ID_A, 200, "[]");
	ck_assert_int_eq(call("acl token list --policy p --method m"), 0);
	ck_assert_str_eq(fake.asked, "GET /v1/acl/policy/name/p\nGET /v1/acl/tokens?authmethod=m&policy=" ID_A "\n");
	answers(0, "GET /v1/acl/role/name/r", 403, "ACL not found");
	ck_assert_int_eq(call("acl token list --role r"), 1);
	ck_assert_ptr_null(strstr(fake.asked, "/v1/acl/tokens"));
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("ctl_resource");
	TCase *t = tcase_create("ctl_resource");
	const TTest *const tests[] = {
		options_have_fields, fields_have_options, updates, deletes, searched_in_the_list, filters,
	};

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
