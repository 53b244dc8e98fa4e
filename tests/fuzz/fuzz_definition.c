/*
 * Definitions of services as clients write them: refused with a sentence, or records that the registry takes, writes to
 * its file and reads back the same.
 */
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "common/record/schema_json.h"
#include "rpcd/registry/definition.h"
#include "rpcd/registry/registry_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ENTRIES_MAX 64

static struct mono
now(void)
{
	return MONO_ZERO;
}

/* Nobody answers: what is registered stays dirty. */
static struct route_call *
send_op(struct route *route, const struct op_request *q, registry_reply *done, void *ctx)
{
	(void)route, (void)q, (void)done, (void)ctx;
	return NULL;
}

static void
save(void *ctx, bool durable)
{
	(void)ctx, (void)durable;
}

static void
due(void *ctx, struct mono at)
{
	(void)ctx, (void)at;
}

static struct registry *
open_table(void)
{
	struct registry *r = registry_new(&(struct registry_conf){ .node_name = "n", .node_id = "i", .address = "a",
		.entries_max = ENTRIES_MAX, .now = now, .send = send_op, .save = save, .due = due });

	TV_ASSERT(r != NULL);
	return r;
}

static void
take(const struct service_records *v)
{
	struct buf first = BUF_INIT(16u << 20), second = BUF_INIT(16u << 20);
	struct registry *r = open_table(), *again = open_table();
	char why[256];
	enum tv_err err = registry_put_service(r, &v->service, v->checks, v->n, true);

	TV_ASSERT(err == TV_OK ? registry_count(r, ENTRY_SERVICE) == 1 && registry_count(r, ENTRY_CHECK) <= v->n :
	    TAILQ_EMPTY(&r->entries) && err == TV_ELIMIT && v->n > ENTRIES_MAX);
	registry_print(r, &first);
	TV_ASSERT(!first.failed && registry_parse(again, buf_span(&first), "checks.json", why, sizeof(why)) == TV_OK);
	TV_ASSERT(registry_count(again, ENTRY_CHECK) == registry_count(r, ENTRY_CHECK));
	registry_print(again, &second);
	TV_ASSERT(span_eq(buf_span(&first), buf_span(&second)));
	registry_free(r);
	registry_free(again);
	buf_done(&first);
	buf_done(&second);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a = ARENA_INIT(16u << 20);
	struct service_def d = { .Port = 0 };
	struct service_records v;
	char why[DEFINITION_TEXT_MAX] = "";
	json_t *json = json_first_value(span_of(data, size), why, sizeof(why));

	log_init("fuzz", LOG_LVL_ERR, LOG_TO_STDERR);
	if (json != NULL &&
	    schema_from_json(&service_def_schema, json, SJ_STRICT | SJ_SNAKE, &a, &d, why, sizeof(why)) == TV_OK) {
		unsigned status = definition_service(&d, &a, &v, why);

		if (status == 0)
			take(&v);
		else
			TV_ASSERT((status == 400 || status == 500) && why[0] != '\0');
	}
	json_decref(json);
	arena_done(&a);
	return 0;
}
