/*
 * rpcd's checks.json: whatever stands in it, a table comes of it that is written as a text which gives the same table.
 */
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "rpcd/registry/registry_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ENTRIES_MAX 32

static struct mono
now(void)
{
	return MONO_ZERO;
}

/* Who reads a file sends and saves nothing. */
static struct route_call *
send_op(struct route *route, const struct op_request *q, registry_reply *done, void *ctx)
{
	(void)route, (void)q, (void)done, (void)ctx;
	abort();
}

static void
save(void *ctx, bool durable)
{
	(void)ctx, (void)durable;
	abort();
}

static void
due(void *ctx, struct mono at)
{
	(void)ctx, (void)at;
}

static struct registry *
open_table(void)
{
	struct registry *r = registry_new(&(struct registry_conf){ .node_name = "n", .entries_max = ENTRIES_MAX,
		.now = now, .send = send_op, .save = save, .due = due });

	TV_ASSERT(r != NULL);
	return r;
}

static void
look(struct registry *r)
{
	unsigned n[2] = { 0 };
	struct local_record rec;
	const struct entry *e;

	TAILQ_FOREACH(e, &r->entries, link) {
		n[e->kind]++;
		TV_ASSERT(!e->removed && e->id.len > 0 && registry_get(e, &rec));
		TV_ASSERT(e->kind == ENTRY_SERVICE || entry_is_status(rec.check.Status));
		TV_ASSERT(e->kind == ENTRY_SERVICE || e->service.len == 0 || entry_owner(e) != NULL);
	}
	for (int kind = 0; kind < 2; kind++)
		TV_ASSERT(n[kind] == registry_count(r, kind) && n[kind] <= ENTRIES_MAX);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf first = BUF_INIT(16u << 20), second = BUF_INIT(16u << 20);
	struct registry *r = open_table(), *again = open_table();
	struct local_record web = { .kind = ENTRY_SERVICE, .service = { .ID = span_str("web1") } };
	struct entry *e;
	char why[256];

	log_init("fuzz", LOG_LVL_ERR, LOG_TO_STDERR);
	TV_ASSERT(entry_take(r, &web, &e) == TV_OK);	/* that the checks of the corpus belong to */
	if (registry_parse(r, span_of(data, size), "checks.json", why, sizeof(why)) != TV_OK)
		TV_ASSERT(TAILQ_FIRST(&r->entries) == e && TAILQ_NEXT(e, link) == NULL && why[0] != '\0');
	look(r);
	/* as what changed, it is taken again and again without harm */
	(void)registry_replay(r, span_of(data, size), "checks.json.journal");
	look(r);
	registry_print(r, &first);
	TV_ASSERT(!first.failed &&
	    registry_parse(again, buf_span(&first), "checks.json", why, sizeof(why)) == TV_OK);
	look(again);
	registry_print(again, &second);
	TV_ASSERT(span_eq(buf_span(&first), buf_span(&second)));
	registry_free(r);
	registry_free(again);
	buf_done(&first);
	buf_done(&second);
	return 0;
}
